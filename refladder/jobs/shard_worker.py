"""A worker: holds one judge, and scores one shard after another with it."""

from __future__ import annotations

import errno
import json
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.backends import connect
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import ResponseStore
from refladder.backends.metered import Metered
from refladder.errors import BackendError, DataError, RefladderError, UsageError
from refladder.files.folders import open_folder
from refladder.files.jsonl import throw_away
from refladder.files.ladder_sets import choose_dimensions, load_ladders
from refladder.files.tables import open_parquet, read_rows
from refladder.jobs.score import Mapped, score_rows
from refladder.jobs.shards import SLICES, Mark, Shard, judgments_name, to_bytes, write_mark, write_slice
from refladder.jobs.stop_at import stop_thresholds
from refladder.scoring.columns import Scale, bound_columns, column_names
from refladder.scoring.scorer import LadderScorer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.files.folders import Folder
    from refladder.files.ladder_sets import LadderSet
    from refladder.scoring.columns import ScoreReport

_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a worker needs for every shard: plain values, so that it can be sent to another machine.

    Attributes:
        folder: path or URL of the scored shards.
        form: format of the shards, jsonl or parquet.
        directory: the working directory of the driver, to which paths are relative.
        ladders: name or folder of the ladder set, and its digest, `version`.
        dimensions: names of those to score.
        stop_at: thresholds at which asking stops, by column.
        threshold: file of `refladder calibrate` with such thresholds.
        judge: name of the backend, with `judge_options` as text.
        store: file of the response store of each machine; None for no store.
        judgments: whether judgments are stored.
    """

    folder: str
    form: str
    directory: str
    ladders: str
    version: str
    dimensions: list[str]
    rule: str = "ladder-sum"
    weights: dict[str, float] = field(default_factory=dict)
    least_mass: float = 0.05
    stop_at: dict[str, float] = field(default_factory=dict)
    threshold: str | None = None
    role: str = "compare"
    orders: int = 1
    answers: int = 0
    prompts: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    context_id: str | None = None
    judge: str = "builtin"
    judge_options: dict[str, str] = field(default_factory=dict)
    store: str | None = None
    judgments: bool = True


class ShardWorker:
    """Scores shards; the judge is opened for the first one and stays open.

    Args:
        task: a `Task` as JSON.
    """

    def __init__(self, task: str) -> None:
        self._task = Task(**json.loads(task))
        with suppress(OSError):  # on another machine it may not exist, and paths need not be relative
            os.chdir(self._task.directory)
        self._opened_folder: Folder | None = None
        self._ladders: LadderSet | None = None
        self._judge: Backend | None = None

    def run(self, asked: str) -> str:
        """Score a shard, as JSON: `{"shard": Shard, "signature": of the shards before or None}`.

        Returns:
            `{"mark": Mark, "notice": of the judge}` as JSON, or `{"error": text, "stops": whether every other shard
            would fail too, "kind": judge, usage or data}`.
        """
        request = json.loads(asked)
        shard = Shard(**request["shard"])
        try:
            mark = self._score(shard, request["signature"])
        except RefladderError as error:
            cause = error.__cause__
            full = isinstance(cause, OSError) and cause.errno in _FULL
            kind = "judge" if isinstance(error, BackendError) else "usage" if isinstance(error, UsageError) else "data"
            return json.dumps({"error": _words(str(error)), "stops": full or kind != "data", "kind": kind})
        except Exception as error:  # noqa: BLE001  one row must not end the run; the text has the type
            words = f"{shard.source}, rows {shard.first + 1:,} to {shard.first + shard.rows:,}: {type(error).__name__}"
            return json.dumps({"error": f"{words}: {_words(str(error))}", "stops": False, "kind": "data"})
        return json.dumps({"mark": json.loads(to_bytes(mark)), "notice": self._opened().notice})

    @property
    def _folder(self) -> Folder:
        if self._opened_folder is None:
            self._opened_folder = open_folder(self._task.folder)
        return self._opened_folder

    def _opened(self) -> Backend:
        if self._judge is None:
            metered = Metered(connect(self._task.judge, **self._task.judge_options))
            judge = Stored(metered, ResponseStore(Path(self._task.store))) if self._task.store else metered
            judge.load()
            self._judge = judge
        return self._judge

    def _scorer(self) -> LadderScorer:
        """A scorer for each shard: what one shard's rows say about contexts must not change another's scores."""
        task = self._task
        if self._ladders is None:
            self._ladders = load_ladders(task.ladders)
        if self._ladders.signature != task.version:
            raise UsageError(
                f"{task.ladders}: the ladder set has changed since the run began, or is another one on this machine "
                f"({self._ladders.signature}, expected {task.version})"
            )
        dimensions = choose_dimensions(self._ladders.dimensions, task.dimensions)
        scale = Scale(rule=task.rule, weights=task.weights, least_mass=task.least_mass)
        threshold = None if task.threshold is None else Path(task.threshold)
        stop_at, made_for = stop_thresholds(task.stop_at, threshold, self._ladders, dimensions, scale)
        scorer = LadderScorer(
            self._opened(),
            self._ladders,
            dimensions,
            scale,
            role=task.role,
            orders=task.orders,
            prompts=None if task.prompts is None else Path(task.prompts),
            answers=task.answers,
            stop_at=stop_at,
        )
        return made_for(scorer)

    def _score(self, shard: Shard, before: str | None) -> Mark:
        try:
            scorer = self._scorer()
        except DataError as error:  # not about rows: every shard would fail
            raise UsageError(str(error)) from error
        signature = scorer.report.signature
        if before is not None and signature != before:
            raise UsageError(
                f"{self._folder.address}: its shards are of another run ({before}), this run is {signature}; choose "
                "another folder, or discard them with --restart"
            )
        rows = self._folder.work_file(f"{SLICES}/{shard.name}")
        out = self._folder.work_file(shard.name)
        judgments = self._folder.fetched(judgments_name(shard)) if self._task.judgments else None
        write_slice(shard, self._task.form, rows)
        try:
            report = score_rows(
                scorer,
                str(rows),
                str(out),
                mapped=Mapped(columns=self._task.columns, context=self._task.context_id),
                judgments=judgments,
            )
        except RefladderError as error:
            raise _located(error, str(rows), shard) from error.__cause__
        finally:
            throw_away(rows)
        return self._marked(shard, out, report, scorer)

    def _marked(self, shard: Shard, out: Path, report: ScoreReport, scorer: LadderScorer) -> Mark:
        """Count the rows in the file that was written, publish it, and mark the shard."""
        columns = [column_names(dimension.name)[0] for dimension in scorer.dimensions]
        bounds = [bound_columns(column)[0] for column in scorer.stop.thresholds] if scorer.stop is not None else []
        rows, scored = count_scored(str(out), self._task.form, columns, bounds)
        if not shard.rows == rows == report.rows:
            raise DataError(
                f"{shard.source}, rows {shard.first + 1:,} to {shard.first + shard.rows:,}: {shard.rows:,} rows in, "
                f"{rows:,} rows out; run the same command again"
            )
        if self._task.judgments:
            self._folder.publish(judgments_name(shard))
        self._folder.publish(shard.name)
        mark = Mark(
            name=shard.name,
            input=shard.digest,
            output=self._folder.digest(shard.name) or "",
            rows=rows,
            scored=scored,
            unscored=rows - scored,
            report=asdict(report),
        )
        write_mark(self._folder, mark)
        return mark


def count_scored(path: str, form: str, columns: Sequence[str], bounds: Sequence[str] = ()) -> tuple[int, int]:
    """Rows of a scored table, and those that are scored; read from the file.

    Args:
        path: the table.
        form: its format.
        columns: a row with a value in all of them is scored,
        bounds: and so is one with a value in all of these: its decision was certain before every rung was judged.
    """
    rows = scored = 0
    for row in _fields(path, form, [*columns, *bounds]):
        rows += 1
        scored += all(row[column] is not None for column in columns) or (
            bool(bounds) and all(row[column] is not None for column in bounds)
        )
    return rows, scored


def _fields(path: str, form: str, columns: Sequence[str]) -> Iterator[Mapping[str, object]]:
    if form != "parquet":
        yield from (row.fields for row in read_rows(path, form))
        return
    with open_parquet(path) as file:
        for batch in file.iter_batches(columns=list(columns)):
            yield from batch.to_pylist()


def _located(error: RefladderError, path: str, shard: Shard) -> RefladderError:
    """The error of a slice with the path and row of the input file; only a judge's failure is not about its rows."""

    def input_row(match: re.Match[str]) -> str:
        return f"{shard.source}:{shard.first + int(match[1])}"

    text = re.sub(rf"{re.escape(path)}:(\d+)", input_row, str(error)).replace(path, shard.source)
    kind = (
        BackendError if isinstance(error, BackendError) else UsageError if isinstance(error, UsageError) else DataError
    )
    located = kind(text)
    located.__cause__ = error.__cause__
    return located


def _words(text: str) -> str:
    return " ".join(text.split())
