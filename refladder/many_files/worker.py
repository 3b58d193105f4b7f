"""A worker: opens one judge, and scores one file after another with it."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import time
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from refladder.backends.metered import SPENT
from refladder.backends.prices import Budget, Price
from refladder.errors import (
    BackendError,
    ChangedInputError,
    DataError,
    InUseError,
    JudgeRefusedError,
    OtherRunError,
    PlugInError,
    RefladderError,
    UsageError,
    redacted,
)
from refladder.events import Silent
from refladder.files.folders import file_digest, open_folder
from refladder.files.jsonl import atomic, to_json
from refladder.files.ladder_sets import choose_dimensions
from refladder.files.scored_folders import ScoredFile, counts_name, judgments_name, stamp
from refladder.jobs.score import check_judge, open_set, prepare, score_rows, set_named
from refladder.parsing import adapter
from refladder.records import names_of
from refladder.scoring.modes import mode_of
from refladder.scoring.score_report import ScoreReport  # noqa: TC001  pydantic reads the annotation
from refladder.scoring.scorer import LadderScorer
from refladder.session import Session, checks_folder
from refladder.settings import ScoreSpec, Scoring, Tables, chosen
from refladder.signatures import scale_of, with_earlier_sets
from refladder.students import first_pass
from refladder.students.student import open_student

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from refladder.backends import Backend
    from refladder.events import Watch
    from refladder.files.folders import Folder
    from refladder.files.ladder_sets import LadderSet
    from refladder.records import JudgeCheck, Judgment, Progress
    from refladder.students.student import Student

# Messages about a file under way are these seconds apart.
_EVERY = 1.0
# Attempts at a file that another process is writing are these seconds apart.
_PAUSE = 0.5
# These attempts take two minutes. A worker ends some seconds after its Ray node, and file servers keep the locks of
# a machine that is gone for a minute or more.
_ATTEMPTS = 240
_FULL = errno.ENOSPC, errno.EDQUOT
# Fields of a task that say where something is or what it costs, not what the scores are. The judge counts by its
# signature.
_PLACES = {
    "source",
    "folder",
    "directory",
    "ladders",
    "store",
    "judgments",
    "price",
    "budget",
    "any_judge",
    "checks",
}
_PLACES |= {"judge", "judge_options"}
# Their content determines the scores, not their path.
_PATHS = "prompts", "student"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Scoring):
    """What a worker needs for every file: plain values, so that it can be sent to another machine.

    Paths are relative to `directory`. `version` is the signature of the ladder set; empty for a student that needs
    none. A `student` is the judge. `store` and `checks` are those of each machine, and `budget` that of this worker.
    """

    source: str = ""
    folder: str = ""
    directory: str = "."
    given: str | None = None
    escape_formulas: bool = False
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
        """Return what determines the scored rows, apart from the judge: files of another run are refused."""
        values = {name: value for name, value in asdict(self).items() if name not in _PLACES}
        values["ladders"] = values.pop("version")
        for name in _PATHS:
            if values[name] is not None:
                values[name] = _digest_of_files(Path(values[name]))
        return values

    def to_json(self) -> str:
        """Return the task as a worker takes it."""
        return json.dumps(asdict(self), default=str)


def task_of(spec: ScoreSpec, opened: LadderSet | None) -> Task:
    """Return what workers need to score the files of a run; they open the set again, which is `opened` here."""
    asked: dict[str, Any] = {each.name: getattr(spec.asked, each.name) for each in fields(Scoring)}
    if opened is not None:
        chosen_here = choose_dimensions(opened.dimensions, spec.asked.dimensions)
        asked["dimensions"] = names_of(chosen_here)
    return Task(
        **asked | {"ladders": str(spec.asked.ladders)},
        version="" if opened is None else opened.signature,
        source=spec.tables.source,
        folder=spec.tables.out,
        directory=str(Path.cwd()),
        given=spec.tables.given,
        escape_formulas=spec.tables.escape_formulas,
        columns=dict(spec.columns),
        context_id=spec.context_id,
        judge=str(spec.judge),
        judge_options={name: str(value) for name, value in spec.judge_options.items()},
    )


def _digest_of_files(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(f"{file.relative_to(path)}\0".encode())
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "blake2b").digest())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of a scored file, with the counts of its run; rows = scored + unscored."""

    file: ScoredFile
    report: ScoreReport


def read_counts(folder: Folder, name: str) -> Counts | None:
    """Read the counts of an output file; None if there are none, DataError if they are damaged."""
    data = folder.read(counts_name(name))
    if data is None:
        return None
    place, beside = folder.path_of(counts_name(name)), folder.path_of(name)
    damaged = f"{place}: damaged; delete it and {beside}, and run the same command again"
    try:
        counts: Counts = adapter(Counts).validate_json(data, strict=True, extra="forbid")
    except (ValueError, RecursionError) as error:
        raise DataError(damaged) from error
    file = counts.file
    if file.name != name:
        raise DataError(damaged)
    if file.rows is None or not file.rows == counts.report.rows == (file.scored or 0) + (
        file.unscored or 0
    ):
        raise DataError(
            f"{folder.path_of(name)}: {counts.report.rows:,} rows in, {file.scored:,} scored and {file.unscored:,} "
            "unscored; delete this file and run the same command again"
        )
    return counts


def _keep_lines(path: Path, number: int) -> None:
    with path.open("rb") as source, atomic(path) as target:
        for line in itertools.islice(source, number):
            target.write(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a worker did: the counts of a file or the error, whether every other file would fail too, and the costs.

    `rung_judgments` are the judge's ratings of the rungs, where no file was scored.
    """

    counts: Counts | None = None
    signature: str = ""
    notice: str | None = None
    error: RefladderError | None = None
    stops: bool = False
    spent: dict[str, float] = field(default_factory=dict)
    checks: list[JudgeCheck] = field(default_factory=list)
    rung_judgments: list[Judgment] = field(default_factory=list)


def _sendable(error: RefladderError) -> RefladderError:
    """Return the error as one line, of a kind that decides what the driver does, and that can be pickled."""
    kinds = BackendError, JudgeRefusedError, UsageError
    kind = next((kind for kind in kinds if isinstance(error, kind)), DataError)
    return kind(" ".join(str(error).split()))


class _Told(Silent):
    """Events of a file that a worker scores: its driver gets the number of rows done now and then."""

    def __init__(self, tell: Callable[[int], None] | None) -> None:
        self._tell = tell
        self._last = time.monotonic()

    def progress(
        self, what: str, watch: Watch | None = None
    ) -> AbstractContextManager[Progress | None]:
        """Report to the driver."""
        return nullcontext(self._update)

    def _update(self, rows: int, _total: int | None, _note: str = "", _each: int = 0, /) -> None:
        if self._tell is not None and time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            self._tell(rows)


class Worker:
    """Scores files; the judge is opened for the first one and stays open."""

    def __init__(self, task: str, tell: Callable[[int], None] | None = None) -> None:
        self._task = opened = chosen(Task, json.loads(task))
        self._tell = tell
        # The folder may be missing on another machine, where paths need not be relative.
        with suppress(OSError):
            os.chdir(opened.directory)
        price = None if opened.price is None else Price(**opened.price)
        self._budget = None if opened.budget is None else Budget(opened.budget)
        self._session = Session(
            opened.store or False,
            price_of=lambda *_: price,
            budget=self._budget,
        )
        self._opened = False
        self._checks: Sequence[JudgeCheck] = ()
        self._rung_judgments: list[Judgment] = []
        self._told: dict[str, float] = {}

    def run(
        self,
        file: ScoredFile | None,
        signature: str | None,
        usd: float = 0.0,
        checks: Sequence[JudgeCheck] = (),
        rung_judgments: Sequence[Judgment] = (),
    ) -> Answer:
        """Score a file; None only checks the judge. A failure is an answer too.

        `signature` is that of the files before, `checks` the check of the judge, and `rung_judgments` its ratings of the
        rungs, which are not asked again. `usd` is what a worker that died had spent of the budget.
        """
        counts: Counts | None = None
        error: RefladderError | None = None
        stops = False
        found: list[JudgeCheck] = []
        own = ""
        self._checks = checks
        # Another part of the run may have rated the rungs first.
        self._rung_judgments = list(rung_judgments) or self._rung_judgments
        where = "" if file is None else f"{file.source}: "
        try:
            if not self._opened and self._budget is not None:
                self._budget.spent = usd
            own = self._signature
            self._opened = True
            self._compare(own, signature)
            if file is not None:
                try:
                    counts = self._scored_when_free(file)
                except ChangedInputError as changed:
                    _keep_lines(self._folder.fetched(judgments_name(file.name)), changed.line - 1)
                    counts = self._scored_when_free(file)
            elif self._student is None:
                folder = checks_folder() if self._task.checks else None
                scorer = self._scorer()
                # Ratings of an earlier run do not show what the judge says now.
                if not rung_judgments:
                    scorer.rung_judgments = self._rung_judgments
                found = check_judge(scorer, folder, self._session, Silent())
        except PlugInError as failure:
            # One row must not end the run.
            error = DataError(f"{where}{failure}")
        except RefladderError as failure:
            cause = failure.__cause__
            error = _sendable(failure)
            stops = not isinstance(error, DataError) or (
                isinstance(cause, OSError) and cause.errno in _FULL
            )
        except Exception as failure:  # noqa: BLE001  one row must not end the run; the text has the type
            error = DataError(f"{where}{type(failure).__name__}: {' '.join(str(failure).split())}")
        # A judge that failed may have none: the notice of a server is that of its handshake.
        notice = None
        if error is None and self._student is None:
            notice = self._judge.notice
        return Answer(
            counts=counts,
            signature=own,
            notice=notice,
            error=error,
            stops=stops or (error is not None and file is None),
            spent=self._spent(),
            checks=found,
            rung_judgments=[] if file else self._rung_judgments,
        )

    def _compare(self, own: str, before: str | None) -> None:
        if before is not None and scale_of(own) != scale_of(before):
            raise UsageError(
                f"{self._task.folder}: its files are of another run ({with_earlier_sets(before)}), this run is {own}; "
                "choose another folder, or delete this one"
            )

    def _spent(self) -> dict[str, float]:
        """Return the judge's counters since the last call. Unknown counters are omitted."""
        spent = self._session.spent()
        if not spent:
            return {}
        since = {}
        for name in SPENT:
            count = getattr(spent[0], name)
            if count is not None:
                since[name] = count - self._told.get(name, 0)
                self._told[name] = count
        return since

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
        ladders = set_named(str(task.ladders))
        if scale_of(ladders.signature) != scale_of(task.version):
            raise UsageError(
                f"{task.ladders}: the ladder set has changed since the run began, or is another one on this machine "
                f"({ladders.signature}, expected {task.version}); restore it, or choose another --out"
            )
        return ladders

    @cached_property
    def _asked(self) -> Scoring:
        """Return the settings with the set, which is open; what is wrong with them is wrong for every file."""
        try:
            if self._ladders is None:
                raise UsageError("no ladder set was named; give --ladders SET")
            asked: Scoring = replace(self._task, ladders=self._ladders)
            asked = replace(asked, ladders=open_set(asked))
        except DataError as error:
            raise UsageError(str(error)) from error
        return asked

    @property
    def _judge(self) -> Backend:
        writes = mode_of(self._task.answers).writes
        return self._session.open(self._task.judge, self._task.judge_options, writes=writes)

    def _scorer(self) -> LadderScorer:
        asked = self._asked
        return LadderScorer(self._judge, cast("LadderSet", asked.ladders), asked)

    @cached_property
    def _signature(self) -> str:
        """Return the signature of the scores of every file."""
        if self._student is not None:
            return self._student.signature
        scorer = self._scorer()
        self._rung_judgments = scorer.judge_rungs(self._rung_judgments)
        return scorer.report.signature

    def _scored_when_free(self, file: ScoredFile) -> Counts:
        """Score a file. Its driver has the folder, so another process that has it is a worker about to end."""
        for _ in range(_ATTEMPTS):
            try:
                return self._scored(file)
            except InUseError as error:
                refusal = str(error)
                time.sleep(_PAUSE)
        raise DataError(f"{file.source}: {refusal}")

    def _scored(self, file: ScoredFile) -> Counts:
        """Score a file aside; if no row is missing and the input is unchanged, give the output its final name."""
        task = self._task
        folder = self._folder
        out = folder.work_file(file.name)
        judged = judgments_name(file.name)
        judgments = folder.fetched(judged) if task.judgments else None
        spec = ScoreSpec(
            asked=task if self._student is not None else self._asked,
            tables=Tables(
                source=file.source,
                out=str(out),
                given=task.given,
                escape_formulas=task.escape_formulas,
            ),
            judge=task.judge,
            judge_options=task.judge_options,
            columns=task.columns,
            context_id=task.context_id,
            judgments=judgments,
            is_part=True,
            judge_check=self._checks,
            rung_judgments=self._rung_judgments,
        )
        told = _Told(self._tell)
        if self._student is not None:
            report = first_pass.run(spec, self._student, self._ladders, told)
        else:
            prepared = prepare(spec, told)
            try:
                report = score_rows(prepared, self._session, told)
            except OtherRunError:
                # A killed run at the same URL may have left them on this machine.
                if judgments is None or not folder.forget(judged):
                    raise
                spec = replace(spec, judgments=folder.fetched(judged))
                report = score_rows(replace(prepared, spec=spec), self._session, told)
            if prepared.rows != report.rows:
                raise DataError(
                    f"{file.source}: {prepared.rows or 0:,} rows in, {report.rows:,} rows out; run the same command "
                    "again"
                )
            judgments = spec.judgments
        if stamp(file.source) != file.stamp:
            raise DataError(
                f"{file.source}: the file has changed during the run; run the same command again"
            )
        scored = replace(
            file,
            source=redacted(file.source),
            rows=report.rows,
            scored=report.scored,
            unscored=report.rows - report.scored,
            bytes=out.stat().st_size,
            digest=file_digest(out, out.stat().st_mtime_ns),
        )
        counts = Counts(file=scored, report=report)
        if judgments is not None and judgments.exists():
            folder.publish(judgments, judged)
        # The counts are never those of an earlier output.
        folder.remove(file.name)
        folder.write(counts_name(file.name), to_json(asdict(counts)) + b"\n")
        folder.publish(out, file.name)
        return counts
