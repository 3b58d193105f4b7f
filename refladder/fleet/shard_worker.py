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
from typing import TYPE_CHECKING, Any

from refladder.backends.prices import Budget, Price
from refladder.errors import BackendError, DataError, JudgeRefusedError, OtherRunError, RefladderError, UsageError
from refladder.files.folders import open_folder
from refladder.files.jsonl import throw_away
from refladder.files.ladder_sets import load_ladders
from refladder.fleet.run_folder import SLICES, Mark, judgments_name, mark_name, write
from refladder.fleet.shards import write_slice
from refladder.jobs.prepared import Prepared
from refladder.jobs.score import AllRows, Mapped, score_rows
from refladder.records import scale_of
from refladder.scoring.judge_check import prove
from refladder.session import Session, default_store
from refladder.settings import Scoring, Tables, chosen
from refladder.students.first_pass import StudentAlone
from refladder.students.student import open_student

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.backends import Backend
    from refladder.files.folders import Folder
    from refladder.files.ladder_sets import LadderSet
    from refladder.fleet.shards import Shard
    from refladder.jobs.score import RowScorer
    from refladder.records import JudgeCheck
    from refladder.scoring.columns import ScoreReport
    from refladder.students.student import Student

_EVERY = 1.0  # seconds between two messages about a shard under way
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Fields of a task that say where something is or what it costs, not what the scores are.
_PLACES = {"folder", "form", "directory", "ladders", "store", "judgments", "price", "budget", "both_orders", "yes_no"}
_PLACES |= {"any_judge", "checks"}
_PATHS = ("prompts", "student")  # of which the content counts, not the path


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Scoring):
    """What a worker needs for every shard: plain values, so that it can be sent to another machine.

    Paths are relative to `directory`. `version` is the digest of the ladder set; empty for a student that needs none.
    A `student` is the judge. `store` and
    `checks` are those of each machine, and `budget` that of this worker.
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
    store: str | None = None
    price: dict[str, Any] | None = None
    budget: float | None = None
    judgments: bool = True
    checks: bool = True

    def settings(self) -> dict[str, Any]:
        """What decides the scored rows, so that shards of different runs do not share a folder."""
        values = {name: value for name, value in asdict(self).items() if name not in _PLACES}
        values |= {
            "ladders": values.pop("version"),
            "role": "compare-yesno" if self.yes_no else "compare",
            "orders": self.orders,
        }
        for name in _PATHS:
            if values[name] is not None:
                values[name] = _digest_of_files(Path(values[name]))
        return values

    def to_json(self) -> str:
        """The same for a worker."""
        return json.dumps(asdict(self), default=str)


def _digest_of_files(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(f"{file.relative_to(path)}\0".encode())
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "blake2b").digest())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardAnswer:
    """What a worker did: the mark of a shard or the error, whether every other shard would fail too, and the costs."""

    mark: Mark | None = None
    notice: str | None = None
    error: RefladderError | None = None
    stops: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    checks: list[JudgeCheck] = field(default_factory=list)


class ShardWorker:
    """Scores shards; the judge is opened for the first one and stays open."""

    def __init__(self, task: str, tell: Callable[[int], None] | None = None) -> None:
        self._task = opened = chosen(Task, json.loads(task))
        self._tell = tell
        self._last_told = time.monotonic()
        with suppress(OSError):  # on another machine it may not exist, and paths need not be relative
            os.chdir(self._task.directory)
        price = None if opened.price is None else Price(**opened.price)
        self._budget = None if opened.budget is None else Budget(opened.budget)
        self._session = Session(opened.store or False, price_of=lambda *_: price, budget=self._budget, notify=str)
        self._judge: Backend | None = None
        self._told: dict[str, float] = {}

    def run(self, shard: Shard | None, signature: str | None, usd: float = 0.0) -> ShardAnswer:
        """Score a shard and mark it; None only checks the judge. A failure is an answer too.

        `signature` is that of the shards before. `usd` is what a worker that died had spent of the budget.
        """
        mark, error, stops = None, None, False
        self._checks: list[JudgeCheck] = []
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
        spent, checks = self._spent(), self._checks
        return ShardAnswer(mark=mark, notice=notice, error=error, stops=stops, spent=spent, checks=checks)

    def _spent(self) -> dict[str, float]:
        """Counts of the judge since the last call; those that it does not know are absent."""
        if not (spent := self._session.spent()):
            return {}
        known = {name: count for name, count in spent[0].items() if count is not None and name != "backend"}
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
        ladders = load_ladders(str(task.ladders))
        if scale_of(ladders.signature) != scale_of(task.version):
            raise UsageError(
                f"{task.ladders}: the ladder set has changed since the run began, or is another one on this machine "
                f"({ladders.signature}, expected {task.version}); restore it, or start over with --restart"
            )
        return ladders

    def _opened(self, spent: float) -> Backend:
        if self._judge is None:
            if self._budget is not None:
                self._budget.spent = spent
            self._judge = self._session.open(self._task.judge, self._task.judge_options)
        return self._judge

    def _progress(self, rows: int, _total: int | None) -> None:
        if self._tell is not None and time.monotonic() - self._last_told >= _EVERY:
            self._last_told = time.monotonic()
            self._tell(rows)

    def _asking(self, spent: float) -> RowScorer:
        """What scores the rows of one shard: what they say about contexts must not change another's scores."""
        task, student, ladders = self._task, self._student, self._ladders
        if student is not None:
            return StudentAlone(student, ladders)
        if ladders is None:
            raise UsageError("no ladder set was named; give --ladders SET")
        prepared = Prepared(replace(task, ladders=ladders))
        return AllRows(prepared.scorer(self._opened(spent)))

    def _scored(self, shard: Shard | None, before: str | None, spent: float) -> Mark | None:
        folder = self._folder
        try:
            asking = self._asking(spent)
        except DataError as error:  # not about rows: every shard would fail
            raise UsageError(str(error)) from error
        signature = asking.report.signature
        if before is not None and scale_of(signature) != scale_of(before):
            raise UsageError(
                f"{folder.address}: its shards are of another run ({before}), this run is {signature}; choose another "
                "folder, or discard them with --restart"
            )
        if shard is None:
            if isinstance(asking, AllRows):
                folder_of_checks = default_store().with_name("checks") if self._task.checks else None
                self._checks = prove(asking.scorer, folder_of_checks, any_judge=self._task.any_judge)
            return None
        name = judgments_name(shard)
        rows, out = folder.work_file(f"{SLICES}/{shard.name}"), folder.work_file(shard.name)
        write_slice(shard, rows)

        def score(judgments: Path | None) -> ScoreReport:
            tables = Tables(source=str(rows), out=str(out))
            mapped = Mapped(columns=self._task.columns, context=self._task.context_id)
            return score_rows(asking, tables, mapped, judgments=judgments, progress=self._progress)

        try:
            judgments = folder.fetched(name) if self._task.judgments else None
            try:
                report = score(judgments)
            except OtherRunError:  # a killed run at the same URL may have left them on this machine
                if judgments is None or not folder.forget(name):
                    raise
                report = score(folder.fetched(name))
        except RefladderError as error:
            raise _located(error, str(rows), shard) from error.__cause__
        finally:
            throw_away(rows)
        return self._marked(shard, report, asking.scored)

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


def _with_text(error: RefladderError, text: str) -> RefladderError:
    """The error with another text, of the kind that decides what the driver does."""
    return next((kind for kind in (BackendError, JudgeRefusedError, UsageError) if isinstance(error, kind)), DataError)(
        text
    )


def _located(error: RefladderError, path: str, shard: Shard) -> RefladderError:
    """The error of a slice with the path and row of the input file; only a judge's failure is not about its rows."""
    text = re.sub(rf"{re.escape(path)}:(\d+)", lambda row: f"{shard.source}:{shard.first + int(row[1])}", str(error))
    return _with_text(error, text.replace(path, shard.source))


def _words(text: str) -> str:
    return " ".join(text.split())
