"""A worker: holds one judge, and scores one shard after another with it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.prices import Budget, Price
from refladder.errors import BackendError, DataError, OtherRunError, RefladderError, UsageError
from refladder.files.folders import open_folder
from refladder.files.jsonl import throw_away
from refladder.files.ladder_sets import load_ladders
from refladder.fleet.shards import (
    SLICES,
    Mark,
    Shard,
    ShardAnswer,
    ShardRequest,
    judgments_name,
    write_mark,
    write_slice,
)
from refladder.jobs.prepared import Prepared
from refladder.jobs.score import AllRows, Mapped, score_rows
from refladder.records import scale_of
from refladder.scoring.columns import bound_columns, column_names
from refladder.session import Session
from refladder.settings import Scoring, Tables, chosen
from refladder.students.first_pass import Cascade, score_with_student
from refladder.students.student import open_student

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from refladder.backends import Backend
    from refladder.files.folders import Folder
    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.score import Item
    from refladder.scoring.columns import Columns, ScoreReport
    from refladder.scoring.judgment_file import JudgmentLog
    from refladder.students.student import Student

_EVERY = 1.0  # seconds between two messages about a shard under way
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Fields of a task that say where something is or what it costs, not what the scores are.
_PLACES = {"folder", "form", "directory", "ladders", "store", "judgments", "price", "budget", "both_orders", "yes_no"}
_PATHS = ("threshold", "prompts", "student", "calibration")  # of which the content counts, not the path


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Scoring):
    """What a worker needs for every shard: plain values, so that it can be sent to another machine.

    Attributes:
        folder: path or URL of the scored shards.
        form: format of the shards, jsonl or parquet.
        directory: the working directory of the driver, to which paths are relative.
        version: digest of the ladder set; empty for a student that needs none.
        columns: the columns of the rows by field.
        context_id: the context of every row.
        judge: name of the backend, with `judge_options` as text.
        student: folder of a student of `refladder distil`. It decides the rows outside of `between` before the judge,
            which gets a share `check_share` of them all the same; without `between`, it is the judge.
        store: file of the response store of each machine; None for no store.
        price: fields of the judge's `Price`; None where it is unknown.
        budget: USD that this worker may spend; None for no limit.
        judgments: whether judgments are stored.
    """

    folder: str = ""
    form: str = "jsonl"
    directory: str = "."
    version: str = ""
    columns: dict[str, str] = field(default_factory=dict)
    context_id: str | None = None
    judge: str = "builtin"
    judge_options: dict[str, str] = field(default_factory=dict)
    student: str | None = None
    between: list[float] | None = None
    check_share: float = 0.05
    store: str | None = None
    price: dict[str, Any] | None = None
    budget: float | None = None
    judgments: bool = True

    def settings(self) -> dict[str, Any]:
        """What decides the scored rows, so that shards of different runs do not share a folder."""
        values = {name: value for name, value in asdict(self).items() if name not in _PLACES}
        values |= {"ladders": values.pop("version"), "role": self.role, "orders": self.orders}
        for name in _PATHS:
            if values[name] is not None:
                values[name] = _digest_of_files(Path(values[name]))
        return values


def _digest_of_files(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(f"{file.relative_to(path)}\0".encode())
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "blake2b").digest())
    return digest.hexdigest()


class _Scoring(NamedTuple):
    """How the rows of one shard are scored: the scores' signature, and what counts the rows and the scored ones.

    `score` takes the rows, the file for the scored rows and that for judgments.
    """

    signature: str
    score: Callable[[str, str, Path | None], tuple[ScoreReport, int]]


class _Counted(AllRows):
    """Asks as another does, and counts the rows that are scored.

    Args:
        asking: asks about the rows.
        columns: a row with a value in all of them is scored,
        bounds: and so is one with a value in all of these: its decision was certain before every rung was judged.
    """

    def __init__(self, asking: AllRows, columns: Sequence[str], bounds: Sequence[str]) -> None:
        super().__init__(asking.scorer)
        self.added = asking.added
        self.scored = 0
        self._asking = asking
        self._complete = [names for names in (columns, bounds) if names]

    def rows(self, rows: Iterable[Item]) -> Iterator[Item]:
        """The rows as the other gives them."""
        return self._asking.rows(rows)

    def values(self, batch: Sequence[Item], table: Columns, log: JudgmentLog) -> list[dict[str, Any]]:
        """The added columns of rows as the other gives them."""
        values = self._asking.values(batch, table, log)
        for row in values:
            self.scored += any(all(row[column] is not None for column in names) for names in self._complete)
        return values


class ShardWorker:
    """Scores shards; the judge is opened for the first one and stays open.

    Args:
        task: a `Task` as JSON.
        tell: called at most once a second with how many rows of the shard are done.
    """

    def __init__(self, task: str, tell: Callable[[int], None] | None = None) -> None:
        self._task = task_ = chosen(Task, json.loads(task))
        self._budget = None if task_.budget is None else Budget(task_.budget)
        price = None if task_.price is None else Price(**task_.price)
        self._session = Session(
            task_.store or False, price_of=lambda _name, _batch: price, budget=self._budget, notify=_keep
        )
        self._tell = tell
        self._last_told = time.monotonic()
        with suppress(OSError):  # on another machine it may not exist, and paths need not be relative
            os.chdir(self._task.directory)
        self._judge: Backend | None = None
        self._told: dict[str, float] = {}
        self._spent_before = 0.0

    def run(self, asked: ShardRequest) -> ShardAnswer:
        """Score a shard and mark it; a failure is an answer too."""
        self._spent_before = asked.usd
        shard, mark, error, stops = asked.shard, None, None, False
        try:
            scoring = self._checked_scoring(asked.signature)
            mark = None if shard is None else self._score(shard, scoring)
        except RefladderError as failure:
            cause = failure.__cause__
            error = _with_text(failure, _words(str(failure)))
            stops = not isinstance(error, DataError) or (isinstance(cause, OSError) and cause.errno in _FULL)
        except Exception as failure:  # noqa: BLE001  one row must not end the run; the text has the type
            rows = f"{shard.where}: " if shard else ""
            error, stops = DataError(f"{rows}{type(failure).__name__}: {_words(str(failure))}"), shard is None
        # A judge that failed may have none: the notice of a server is that of its handshake.
        notice = None if self._judge is None or error is not None else self._judge.notice
        return ShardAnswer(mark=mark, notice=notice, error=error, stops=stops, spent=self._spent())

    def _spent(self) -> dict[str, float]:
        """Counts of the judge since the last call; those that it does not know are absent."""
        if not (spent := self._session.spent()):
            return {}
        known = {name: count for name, count in spent[0].items() if count is not None and name != "backend"}
        before, self._told = self._told, known
        return {name: count - before.get(name, 0) for name, count in known.items()}

    @property
    def _mapped(self) -> Mapped:
        return Mapped(columns=self._task.columns, context=self._task.context_id)

    @cached_property
    def _folder(self) -> Folder:
        return open_folder(self._task.folder)

    @cached_property
    def _student(self) -> Student | None:
        return None if self._task.student is None else open_student(Path(self._task.student))

    @cached_property
    def _ladders(self) -> LadderSet | None:
        task = self._task
        if not task.ladders:
            return None
        ladders = load_ladders(str(task.ladders))
        if scale_of(ladders.signature) != scale_of(task.version):
            raise UsageError(
                f"{task.ladders}: the ladder set has changed since the run began, or is another one on this machine "
                f"({ladders.signature}, expected {task.version})"
            )
        return ladders

    def _opened(self) -> Backend:
        if self._judge is None:
            if self._budget is not None:
                self._budget.spent = self._spent_before
            self._judge = self._session.open(self._task.judge, self._task.judge_options)
        return self._judge

    def _progress(self, rows: int, _total: int | None) -> None:
        if self._tell is not None and time.monotonic() - self._last_told >= _EVERY:
            self._last_told = time.monotonic()
            self._tell(rows)

    def _checked_scoring(self, before: str | None) -> _Scoring:
        try:
            student, ladders = self._student, self._ladders
            if student is not None and self._task.between is None:
                scoring = self._by_student(student, ladders)
            else:
                scoring = self._by_judge(ladders)
        except DataError as error:  # not about rows: every shard would fail
            raise UsageError(str(error)) from error
        if before is not None and scale_of(scoring.signature) != scale_of(before):
            raise UsageError(
                f"{self._folder.address}: its shards are of another run ({before}), this run is {scoring.signature}; "
                "choose another folder, or discard them with --restart"
            )
        return scoring

    def _by_judge(self, ladders: LadderSet | None) -> _Scoring:
        """A scorer for each shard: what one shard's rows say about contexts must not change another's scores."""
        task = self._task
        if ladders is None:
            raise UsageError("no ladder set is named")
        prepared = Prepared(replace(task, ladders=ladders))
        scorer = prepared.scorer(self._opened())
        asking = AllRows(scorer)
        columns = [column_names(dimension.name)[0] for dimension in scorer.dimensions]
        bounds = [bound_columns(column)[0] for column in scorer.stop.thresholds] if scorer.stop is not None else []
        if self._student is not None and task.between is not None:
            asking = cascade = Cascade(self._student, scorer, task.between, task.check_share)
            columns = [cascade.cascade_column]
        counted = _Counted(asking, columns, bounds)

        def score(rows: str, out: str, judgments: Path | None) -> tuple[ScoreReport, int]:
            report = score_rows(
                counted,
                Tables(source=rows, out=out),
                self._mapped,
                judgments=judgments,
                calibration=prepared.human_scale,
                progress=self._progress,
            )
            return report, counted.scored

        return _Scoring(scorer.report.signature, score)

    def _by_student(self, student: Student, ladders: LadderSet | None) -> _Scoring:
        def score(rows: str, out: str, _judgments: Path | None) -> tuple[ScoreReport, int]:
            tables = Tables(source=rows, out=out)
            report = score_with_student(student, tables, mapped=self._mapped, ladders=ladders, progress=self._progress)
            return report, report.rows - sum(report.unscored.values())

        return _Scoring(student.signature, score)

    def _score(self, shard: Shard, scoring: _Scoring) -> Mark:
        rows = self._folder.work_file(f"{SLICES}/{shard.name}")
        out = self._folder.work_file(shard.name)
        write_slice(shard, self._task.form, rows)
        try:
            report, scored = self._report(shard, scoring, rows, out)
        except RefladderError as error:
            raise _located(error, str(rows), shard) from error.__cause__
        finally:
            throw_away(rows)
        return self._marked(shard, report, scored)

    def _report(self, shard: Shard, scoring: _Scoring, rows: Path, out: Path) -> tuple[ScoreReport, int]:
        name = judgments_name(shard)
        judgments = self._folder.fetched(name) if self._task.judgments else None
        try:
            return scoring.score(str(rows), str(out), judgments)
        except OtherRunError:  # a killed run at the same URL may have left them on this machine
            if judgments is None or not self._folder.forget(name):
                raise
            return scoring.score(str(rows), str(out), self._folder.fetched(name))

    def _marked(self, shard: Shard, report: ScoreReport, scored: int) -> Mark:
        """Publish the rows that were written, and mark the shard."""
        if shard.rows != report.rows:
            raise DataError(
                f"{shard.where}: {shard.rows:,} rows in, {report.rows:,} rows out; run the same command again"
            )
        if self._task.judgments:
            self._folder.publish(judgments_name(shard))
        self._folder.publish(shard.name)
        mark = Mark(
            name=shard.name,
            input=shard.digest,
            output=self._folder.digest(shard.name) or "",
            rows=report.rows,
            scored=scored,
            unscored=report.rows - scored,
            report=report,
        )
        write_mark(self._folder, mark)
        return mark


def _with_text(error: RefladderError, text: str) -> RefladderError:
    """The error with another text, of the kind that decides what the driver does."""
    return next((kind for kind in (BackendError, UsageError) if isinstance(error, kind)), DataError)(text)


def _located(error: RefladderError, path: str, shard: Shard) -> RefladderError:
    """The error of a slice with the path and row of the input file; only a judge's failure is not about its rows."""

    def input_row(match: re.Match[str]) -> str:
        return f"{shard.source}:{shard.first + int(match[1])}"

    text = re.sub(rf"{re.escape(path)}:(\d+)", input_row, str(error))
    return _with_text(error, text.replace(path, shard.source))


def _keep(_notice: str) -> None:
    """Say nothing: the driver says the notice of a judge, once for all workers."""


def _words(text: str) -> str:
    return " ".join(text.split())
