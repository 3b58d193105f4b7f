"""A worker: holds one judge, and scores one shard after another with it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.backends import connect
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import ResponseStore
from refladder.backends.metered import Metered, spent_counts
from refladder.backends.prices import Budget, Price
from refladder.errors import BackendError, DataError, OtherRunError, RefladderError, UsageError
from refladder.files.folders import open_folder
from refladder.files.jsonl import read_record, throw_away
from refladder.files.ladder_sets import choose_dimensions, load_ladders
from refladder.fleet.run_folder import SLICES, Mark, judgments_name, mark_name, write
from refladder.fleet.shards import write_slice
from refladder.jobs.score import AllRows, Mapped, score_rows
from refladder.jobs.stop_at import stop_thresholds
from refladder.records import HumanScale, scale_of
from refladder.scoring.columns import Scale, bound_columns, column_names
from refladder.scoring.scorer import LadderScorer
from refladder.students.first_pass import Cascade, score_with_student
from refladder.students.student import open_student

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from refladder.backends import Backend
    from refladder.files.folders import Folder
    from refladder.files.ladder_sets import LadderSet
    from refladder.fleet.shards import Shard
    from refladder.jobs.score import Item
    from refladder.scoring.columns import Columns, ScoreReport
    from refladder.scoring.judgment_file import JudgmentLog
    from refladder.students.student import Student

    _Score = Callable[[Path, Path, Path | None], tuple[ScoreReport, int]]  # rows, scored rows, judgments

_EVERY = 1.0  # seconds between two messages about a shard under way
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Fields of a task that say where something is or what it costs, not what the scores are.
_PLACES = {"folder", "form", "directory", "ladders", "store", "judgments", "price", "budget"}
_PATHS = ("threshold", "prompts", "student", "calibration")  # of which the content counts, not the path


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a worker needs for every shard: plain values, so that it can be sent to another machine.

    Attributes:
        folder: path or URL of the scored shards.
        form: format of the shards, jsonl or parquet.
        directory: the working directory of the driver, to which paths are relative.
        ladders: name or folder of the ladder set, and its digest, `version`; empty for a student that needs none.
        dimensions: names of those to score.
        stop_at: thresholds at which asking stops, by column.
        threshold: file of `refladder calibrate` with such thresholds.
        judge: name of the backend, with `judge_options` as text.
        student: folder of a student of `refladder distil`. It decides the rows outside of `between` before the judge,
            which gets a share `check_share` of them all the same; without `between`, it is the judge.
        calibration: file with a human scale, which adds the expected rating.
        store: file of the response store of each machine; None for no store.
        price: fields of the judge's `Price`; None where it is unknown.
        budget: USD that this worker may spend; None for no limit.
        judgments: whether judgments are stored.
    """

    folder: str = ""
    form: str = "jsonl"
    directory: str = "."
    ladders: str = ""
    version: str = ""
    dimensions: list[str] = field(default_factory=list)
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
    student: str | None = None
    between: list[float] | None = None
    check_share: float = 0.05
    calibration: str | None = None
    store: str | None = None
    price: dict[str, Any] | None = None
    budget: float | None = None
    judgments: bool = True

    def settings(self) -> dict[str, Any]:
        """What decides the scored rows, so that shards of different runs do not share a folder."""
        values = {name: value for name, value in asdict(self).items() if name not in _PLACES}
        values["ladders"] = values.pop("version")
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


class _Counted(AllRows):
    """Asks as another does, and counts the rows that are scored.

    A row is scored if it has a value in all `columns`, or in all bounds of early stopping, with which its decision was
    certain before every rung was judged.
    """

    def __init__(self, asking: AllRows, columns: Sequence[str]) -> None:
        super().__init__(asking.scorer)
        stop = asking.scorer.stop
        bounds = [] if stop is None else [bound_columns(column)[0] for column in stop.thresholds]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardAnswer:
    """What a worker did.

    Attributes:
        mark: of the scored shard.
        notice: of the judge.
        error: why there is no mark: a BackendError, UsageError or DataError.
        stops: whether every other shard would fail too.
        spent: what the judge was asked since the last answer.
    """

    mark: Mark | None = None
    notice: str | None = None
    error: RefladderError | None = None
    stops: bool = False
    spent: dict[str, float] = field(default_factory=dict)


class ShardWorker:
    """Scores shards; the judge is opened for the first one and stays open.

    Args:
        task: a `Task` as JSON.
        tell: called at most once a second with how many rows of the shard are done.
    """

    def __init__(self, task: str, tell: Callable[[int], None] | None = None) -> None:
        self._task = Task(**json.loads(task))
        self._tell = tell
        self._last_told = time.monotonic()
        with suppress(OSError):  # on another machine it may not exist, and paths need not be relative
            os.chdir(self._task.directory)
        self._judge: Backend | None = None
        self._metered: Metered | None = None
        self._stored: Stored | None = None
        self._told: dict[str, float] = {}

    def run(self, shard: Shard | None, signature: str | None, usd: float = 0.0) -> ShardAnswer:
        """Score a shard and mark it; a failure is an answer too.

        Args:
            shard: to be scored; None only compares the signature.
            signature: of the shards before; None where there are none.
            usd: what a worker that died had spent; it counts for the budget of the one in its place.
        """
        mark, error, stops = None, None, False
        try:
            mark = self._scored(shard, signature, usd)
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
        if self._metered is None:
            return {}
        counts = spent_counts(self._metered, None if self._stored is None else self._stored.reused)
        known = {name: count for name, count in counts.items() if count is not None}
        before, self._told = self._told, known
        return {name: count - before.get(name, 0) for name, count in known.items()}

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
        ladders = load_ladders(task.ladders)
        if scale_of(ladders.signature) != scale_of(task.version):
            raise UsageError(
                f"{task.ladders}: the ladder set has changed since the run began, or is another one on this machine "
                f"({ladders.signature}, expected {task.version})"
            )
        return ladders

    def _opened(self, spent: float) -> Backend:
        if self._judge is None:
            task = self._task
            price = None if task.price is None else Price(**task.price)
            budget = None
            if task.budget is not None:
                budget = Budget(task.budget)
                budget.spent = spent
            self._metered = Metered(connect(task.judge, **task.judge_options), price, budget)
            self._stored = Stored(self._metered, ResponseStore(Path(task.store))) if task.store else None
            judge = self._stored or self._metered
            judge.load()
            self._judge = judge
        return self._judge

    def _progress(self, rows: int, _total: int | None) -> None:
        if self._tell is not None and time.monotonic() - self._last_told >= _EVERY:
            self._last_told = time.monotonic()
            self._tell(rows)

    def _scoring(self, spent: float) -> tuple[str, _Score]:
        """The signature of the scores, and what scores the rows of a file.

        A scorer is for one shard: what its rows say about contexts must not change another's scores.
        """
        task, student, ladders = self._task, self._student, self._ladders
        mapped = Mapped(columns=task.columns, context=task.context_id)
        if student is not None and task.between is None:

            def by_student(rows: Path, out: Path, _judgments: Path | None) -> tuple[ScoreReport, int]:
                report = score_with_student(
                    student, str(rows), str(out), mapped=mapped, ladders=ladders, progress=self._progress
                )
                return report, report.rows - sum(report.unscored.values())

            return student.signature, by_student
        if ladders is None:
            raise UsageError("no ladder set is named")
        dimensions = choose_dimensions(ladders.dimensions, task.dimensions)
        scale = Scale(rule=task.rule, weights=task.weights, least_mass=task.least_mass)
        stop_at, made_for = stop_thresholds(task.stop_at, _path(task.threshold), ladders, dimensions, scale)
        scorer = made_for(
            LadderScorer(
                self._opened(spent),
                ladders,
                dimensions,
                scale,
                role=task.role,
                orders=task.orders,
                prompts=_path(task.prompts),
                answers=task.answers,
                stop_at=stop_at,
            )
        )
        if student is None or task.between is None:
            columns = [column_names(dimension.name)[0] for dimension in scorer.dimensions]
            counted = _Counted(AllRows(scorer), columns)
        else:
            cascade = Cascade(student, scorer, task.between, task.check_share)
            counted = _Counted(cascade, [cascade.cascade_column])
        scale_of_people = None if task.calibration is None else read_record(HumanScale, Path(task.calibration))

        def by_judge(rows: Path, out: Path, judgments: Path | None) -> tuple[ScoreReport, int]:
            report = score_rows(
                scorer,
                str(rows),
                str(out),
                mapped=mapped,
                judgments=judgments,
                calibration=scale_of_people,
                first_pass=counted,
                progress=self._progress,
            )
            return report, counted.scored

        return scorer.report.signature, by_judge

    def _scored(self, shard: Shard | None, before: str | None, spent: float) -> Mark | None:
        folder = self._folder
        try:
            signature, score = self._scoring(spent)
        except DataError as error:  # not about rows: every shard would fail
            raise UsageError(str(error)) from error
        if before is not None and scale_of(signature) != scale_of(before):
            raise UsageError(
                f"{folder.address}: its shards are of another run ({before}), this run is {signature}; choose another "
                "folder, or discard them with --restart"
            )
        if shard is None:
            return None
        name = judgments_name(shard)
        rows, out = folder.work_file(f"{SLICES}/{shard.name}"), folder.work_file(shard.name)
        write_slice(shard, rows)
        try:
            judgments = folder.fetched(name) if self._task.judgments else None
            try:
                report, scored = score(rows, out, judgments)
            except OtherRunError:  # a killed run at the same URL may have left them on this machine
                if judgments is None or not folder.forget(name):
                    raise
                report, scored = score(rows, out, folder.fetched(name))
        except RefladderError as error:
            raise _located(error, str(rows), shard) from error.__cause__
        finally:
            throw_away(rows)
        return self._marked(shard, report, scored)

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
        write(self._folder, mark_name(shard.name), mark)
        return mark


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


def _with_text(error: RefladderError, text: str) -> RefladderError:
    """The error with another text, of the kind that decides what the driver does."""
    return next((kind for kind in (BackendError, UsageError) if isinstance(error, kind)), DataError)(text)


def _located(error: RefladderError, path: str, shard: Shard) -> RefladderError:
    """The error of a slice with the path and row of the input file; only a judge's failure is not about its rows."""
    text = re.sub(rf"{re.escape(path)}:(\d+)", lambda row: f"{shard.source}:{shard.first + int(row[1])}", str(error))
    return _with_text(error, text.replace(path, shard.source))


def _words(text: str) -> str:
    return " ".join(text.split())
