"""score over many files: list them, give each to a worker, and check that every row came out once."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import Counter, deque
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.backends.metered import SPENT, SpentCosts
from refladder.errors import BackendError, DataError, UsageError, plural, redacted
from refladder.files.folders import open_folder
from refladder.files.jsonl import check_name, to_json
from refladder.files.scored_folders import (
    COUNTS,
    JUDGMENTS,
    RUN,
    FolderJudge,
    FolderRun,
    ScoredFile,
    check_strangers,
    counts_name,
    is_as_written,
    judgments_name,
    read_run,
    stamp,
)
from refladder.files.streams import is_url
from refladder.files.tables import (
    STANDARD,
    form_by_name,
    format_of,
    is_glob,
    is_many,
    read_once,
    read_rows,
    table_files,
)
from refladder.jobs.input_table import check_ladders
from refladder.jobs.score import set_named
from refladder.many_files.worker import read_counts
from refladder.many_files.workers import DEATHS
from refladder.parsing import adapter, each_leaf
from refladder.scoring.modes import mode_of
from refladder.scoring.score_report import ScoreReport
from refladder.signatures import scale_of, with_earlier_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.events import Events
    from refladder.files.folders import Folder
    from refladder.files.outputs import RunConfig
    from refladder.loaders.input_rows import Mapped
    from refladder.many_files.worker import Answer, Counts, Task
    from refladder.many_files.workers import Workers
    from refladder.records import JudgeCheck, Judgment, Progress

# The message names at most this number of failed files.
_SHOWN = 10


@dataclass(slots=True, kw_only=True)
class FilesReport:
    """What a run over files did: counts of all rows of its part, those of earlier runs included.

    `reused` files were scored by earlier runs, `missing` are those of other parts. `spent` is of this run.
    """

    scores: ScoreReport
    files: int
    reused: int
    rows: int
    scored: int
    unscored: int
    missing: int
    spent: list[SpentCosts]
    checks: list[JudgeCheck]


def check_places(source: str, out: str, workers: int | None) -> None:
    """Check that an input is of files that workers can share, and that its scored rows get a folder."""
    if read_once(source):
        raise UsageError(
            "a folder of scored files needs a SOURCE of files: a file, a folder, a quoted glob or a URL"
        )
    if out == STANDARD:
        raise UsageError("several workers need --out FOLDER (or a URL)")
    if not is_url(out) and Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"{out}: a file, and several workers need a folder; name a folder")
    if (
        form_by_name(out) is not None
        and not out.endswith("/")
        and (is_url(out) or not Path(out).exists())
    ):
        stem = out.removesuffix(".gz").rpartition(".")[0]
        folder = stem if stem and not stem.endswith("/") else "scored"
        raise UsageError(
            f"{out}: the name of a file, and several workers need a folder; name one, such as {folder}"
        )
    if (workers or 1) > 1 and not is_many(source) and (is_url(source) or Path(source).exists()):
        how = f"`mkdir parts; split -l 50000 --additional-suffix=.jsonl {source} parts/`"
        if form_by_name(source) != "jsonl":
            how = "see 'Split a large file' in docs/scale.md"
        raise UsageError(
            f"{source}: one file is scored by one worker; split it ({how}), or give --workers 1"
        )


def list_files(source: str, given: str | None, out: str) -> list[ScoredFile]:
    """Return the files of an input; files in `out` are none. Each output is named like its input in `source`."""
    form = format_of(source, given)
    if form == "eval":
        raise UsageError(
            f"{source}: logs of Inspect are read together and not written; name a file with --out, such as scored.jsonl"
        )
    paths = [path for path in table_files(source) if not _is_inside(path, out)]
    if not paths:
        raise UsageError(
            f"{source}: its files are in {out}, the folder of the scored rows; name another --out"
        )
    files: dict[str, ScoredFile] = {}
    for path in paths:
        name = _name(source, path, form)
        if name == RUN or name.startswith((f"{JUDGMENTS}/", f"{COUNTS}/", ".")):
            raise UsageError(f"{path}: the run has a file of this name in --out; rename it")
        if name in files:
            raise UsageError(
                f"{path}: the output of this file and of {files[name].source} have one name; rename one"
            )
        files[name] = ScoredFile(source=path, stamp=stamp(path), name=name)
    return list(files.values())


def _name(source: str, path: str, form: str) -> str:
    """Return the name of an output: the path of its input in the folder, or below the first wildcard of the glob."""
    if path.startswith(("http://", "https://")):
        # The query may hold a signature.
        path = path.partition("?")[0]
    parts = _parts(path)[-1:]
    if is_glob(source):
        fixed = itertools.takewhile(lambda part: not {*part} & {*"*?["}, _parts(source))
        parts = _parts(path)[len(list(fixed)) :]
    name = "/".join(parts).removesuffix(".gz")
    return name if form_by_name(name) == form else f"{name}.{form}"


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").rpartition("://")[2].split("/") if part]


def _is_inside(file: str, folder: str) -> bool:
    if is_url(folder) or is_url(file):
        return file.startswith(f"{folder.rstrip('/')}/")
    return Path(folder).resolve() in Path(file).resolve().parents


def score_files(
    open_workers: Callable[[int], tuple[Workers, Task]],
    task: Task,
    mapped: Mapped,
    events: Events,
    *,
    part: tuple[int, int] = (1, 1),
    config: RunConfig | None = None,
) -> FilesReport:
    """Score each file of the task's input into its folder; the same call continues an interrupted run.

    A file whose worker dies is given to another worker. A file that fails does not stop the others; a judge that
    fails, or a full disk, stops the run; what was scored before is kept. `part` (i, n) takes every n-th file from the
    i-th on. `open_workers` gets the number of files that are left; it is not called if there is none and the judge is
    that of before.
    """
    source, out = task.source, task.folder
    folder = open_folder(out)
    number, parts = part
    settings = redacted(json.loads(json.dumps({"source": source, **task.settings()}, default=str)))
    judge = FolderJudge(
        judge=redacted(task.judge), judge_options=redacted(dict(task.judge_options))
    )
    with folder.claimed(None if parts == 1 else f"part-{number}-of-{parts}"):
        before = read_run(folder)
        files = list_files(source, task.given, out)
        run = FolderRun(
            settings=settings,
            judge=judge,
            directory=task.directory,
            files=files,
            config=config,
        )
        sizes = folder.sizes()
        run = _continued(folder, run, before, sizes)
        check_strangers(folder, run, sizes)
        mine = files[number - 1 :: parts]
        earlier = _finished(folder, mine, sizes)
        left = [file for file in mine if file.name not in earlier]
        if left:
            _check_columns(left[0].source, task.given, mapped)
            if not earlier:
                _check_ladders(source, files, task, mapped)
            # Another part may have begun meanwhile, and rated the rungs.
            run = _continued(folder, run, read_run(folder), sizes)
            _write(folder, run)
        driver = _Driver(folder=folder, run=run, counts=dict(earlier), events=events)
        if left or run.signature is None or (before is not None and before.judge != judge):
            workers, placed = open_workers(len(left))
            with events.progress("scoring") as driver.progress:
                driver.score([None, *left], workers, placed)
        missing = _finish(folder, driver.run, driver.counts)
    scores = merged([counts.report for counts in driver.counts.values()])
    done = [counts.file for counts in driver.counts.values()]
    return FilesReport(
        scores=scores,
        files=len(mine),
        reused=len(earlier),
        rows=sum(file.rows or 0 for file in done),
        scored=sum(file.scored or 0 for file in done),
        unscored=sum(file.unscored or 0 for file in done),
        missing=missing,
        spent=driver.spent(task.judge),
        checks=driver.checks,
    )


def _continued(
    folder: Folder, run: FolderRun, before: FolderRun | None, sizes: Mapping[str, int]
) -> FolderRun:
    """Return the run with the signature of the one before it; a run with other settings is refused."""
    if before is None:
        return run
    names = sorted({*run.settings, *before.settings})
    others = [name for name in names if _differs(name, run, before)]
    if not others:
        return replace(
            run,
            signature=before.signature,
            judge_check=before.judge_check,
            rung_judgments=before.rung_judgments,
        )
    if any(name.startswith((f"{JUDGMENTS}/", f"{COUNTS}/")) for name in sizes):
        ladders = with_earlier_sets(before.settings.get("ladders"))
        shown = [f"ladders: {ladders}" if name == "ladders" else name for name in others]
        raise UsageError(
            f"{folder.address}: holds files of another run (other {', '.join(shown)}); choose another folder, "
            "or delete this one"
        )
    # The earlier command asked nothing, such as one with a wrong column.
    return run


def _differs(name: str, run: FolderRun, before: FolderRun) -> bool:
    one, other = run.settings.get(name), before.settings.get(name)
    if name == "source" and one != other and not is_url(str(one)):
        paths = Path(run.directory, str(one)), Path(before.directory, str(other))
        return len({*map(os.path.realpath, paths)}) > 1
    if name == "ladders":
        return scale_of(one) != scale_of(other)
    return bool(one != other)


def _finished(
    folder: Folder, files: Sequence[ScoredFile], sizes: Mapping[str, int]
) -> dict[str, Counts]:
    """Return the counts of the files that are scored, by name: of this input, and of this output."""
    finished = {}
    for file in files:
        if file.name not in sizes:
            continue
        if counts_name(file.name) not in sizes:
            raise DataError(
                f"{folder.path_of(file.name)}: not written by this run, which would replace it; move it away, or "
                "choose another --out"
            )
        counts = read_counts(folder, file.name)
        if counts is None:
            continue
        unchanged = (counts.file.stamp, counts.file.bytes) == (file.stamp, sizes[file.name])
        if unchanged and is_as_written(folder, counts.file):
            finished[file.name] = counts
    return finished


def _write(folder: Folder, run: FolderRun) -> None:
    files = [replace(file, source=redacted(file.source)) for file in run.files]
    record = asdict(replace(run, files=files))
    each_leaf(record, lambda leaf: check_name(str(leaf), f"the records of {folder.address}"))
    folder.write(RUN, to_json(record, indent=1) + b"\n")


def _check_columns(path: str, given: str | None, mapped: Mapped) -> None:
    """Check the columns of the first row of a file, before every file fails for a wrong name of one."""
    try:
        with closing(read_rows(path, given)) as rows:
            first = rows.first()
    except DataError:
        # Ignored here: the worker reports it, and the other files are scored.
        return
    if first is not None:
        mapped.cell(first, "output")
        mapped.context_of(first)


def _check_ladders(source: str, files: Sequence[ScoredFile], task: Task, mapped: Mapped) -> None:
    """Check that some row has a ladder, before all of them end unscored."""
    if task.student is not None or not task.ladders:
        return
    ladders = set_named(str(task.ladders))
    if mode_of(task.answers).needs_ladders and not ladders.anchors:
        # Ignored here: the worker reports it.
        with suppress(DataError):
            check_ladders(source, [file.source for file in files], task.given, mapped, ladders)


@dataclass(slots=True, kw_only=True)
class _Driver:
    """Gives files to workers until none is left."""

    folder: Folder
    run: FolderRun
    counts: dict[str, Counts]
    events: Events
    progress: Progress | None = None
    deaths: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    notices: set[str] = field(default_factory=set)
    costs: Counter[str] = field(default_factory=Counter)
    # A worker reported these costs; its successor may spend that much less.
    usd: dict[int, float] = field(default_factory=dict)
    checks: list[JudgeCheck] = field(default_factory=list)
    # This counts the rows done of the file of each worker.
    partly: dict[int, int] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)

    def score(self, files: Sequence[ScoredFile | None], workers: Workers, task: Task) -> None:
        """Score files, and add their counts; None compares the signature with earlier files, and checks the judge."""
        queue = deque(files)
        try:
            workers.start(task.to_json())
            running: dict[int, ScoredFile | None] = {}
            while queue or running:
                # The judge is checked before the first row.
                while queue and workers.idle and None not in running.values():
                    worker = workers.idle.pop()
                    running[worker] = queue.popleft()
                    workers.put(
                        worker,
                        running[worker],
                        self.run.signature,
                        self.usd.get(worker, 0.0),
                        self.run.judge_check or (),
                        self.run.rung_judgments,
                    )
                ready = workers.wait(self._under_way)
                if ready is None:
                    continue
                worker, answer = ready
                file = running.pop(worker)
                self.partly.pop(worker, None)
                if answer is not None:
                    self._take(worker, file, answer)
                elif self._is_tried_again(file):
                    queue.appendleft(file)
        finally:
            workers.close()
        if self.failed:
            shown = "; ".join(list(self.failed.values())[:_SHOWN])
            more = f"; and {len(self.failed) - _SHOWN:,} more" if len(self.failed) > _SHOWN else ""
            raise DataError(
                f"{self.folder.address}: {plural(len(self.failed), 'file')} failed: {shown}{more}; {self._kept()}"
            )

    def spent(self, judge: str) -> list[SpentCosts]:
        """Return what the workers asked their judges, and the seconds of this run; what dead workers asked is not known."""
        if not self.costs["calls"] and not self.costs["from_store"]:
            return []
        costs = {**dict.fromkeys(SPENT), **self.costs, "seconds": time.monotonic() - self.begun}
        return [adapter(SpentCosts).validate_python({"backend": judge, **costs})]

    def _is_tried_again(self, file: ScoredFile | None) -> bool:
        """Count the death of a worker; return whether another one scores its file, or opens the judge (None)."""
        name = "" if file is None else file.name
        self.deaths[name] += 1
        count = f"{self.deaths[name]} of at most {DEATHS} times"
        again = self.deaths[name] < DEATHS
        if file is not None and again:
            self.events.notice(f"{name}: the worker died ({count}); another worker scores it")
        elif file is not None:
            check = f"the worker died {DEATHS} times; check its memory and its judge"
            self.failed[name] = f"{file.source}: {check}"
            self.events.notice(f"{name}: the worker died {DEATHS} times; not tried again")
        elif again:
            self.events.notice(
                f"the worker died when it opened the judge ({count}); another worker opens it"
            )
        else:
            raise BackendError(
                f"the worker died {DEATHS} times when it opened the judge; check its memory and its judge"
            )
        return again

    def _take(self, worker: int, file: ScoredFile | None, answer: Answer) -> None:
        self.costs.update(answer.spent)
        self.usd[worker] = self.usd.get(worker, 0.0) + answer.spent.get("usd", 0.0)
        error = answer.error
        if error is not None and answer.stops:
            continues = "" if file is None or isinstance(error, UsageError) else f"; {self._kept()}"
            raise type(error)(f"{error}{continues}")
        if answer.notice is not None and answer.notice not in self.notices:
            self.notices.add(answer.notice)
            self.events.notice(answer.notice)
        if file is None:
            self.checks = answer.checks
            self.events.checked(self.checks)
            self.run = replace(
                self.run,
                signature=self.run.signature or answer.signature,
                judge_check=self.checks or self.run.judge_check,
                rung_judgments=self._first_ratings(answer.signature) or answer.rung_judgments,
            )
            # Only a judge of this signature may continue a killed run.
            _write(self.folder, self.run)
        elif answer.counts is None:
            self.failed[file.name] = str(error)
            self.events.notice(f"{file.name}: failed: {error}")
        else:
            self.counts[file.name] = answer.counts
            self._report()

    def _first_ratings(self, signature: str) -> list[Judgment]:
        """Return the ratings of rungs that another part of this run has written meanwhile: there is one reading a run."""
        other = read_run(self.folder)
        if other is None or scale_of(other.signature) != scale_of(signature):
            return []
        return other.rung_judgments

    def _under_way(self, worker: int, rows: int) -> None:
        self.partly[worker] = rows
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            finished = sum(each.file.rows or 0 for each in self.counts.values())
            self.progress(finished + sum(self.partly.values()), None)

    def _kept(self) -> str:
        if not self.counts:
            return "no file is scored yet"
        return f"{plural(len(self.counts), 'scored file')} kept, and the same command continues"


def _finish(folder: Folder, run: FolderRun, counts: Mapping[str, Counts]) -> int:
    """Write the counts to run.json if every file is scored; return the number of those that are not."""
    sizes = folder.sizes()
    others = [file for file in run.files if file.name not in counts]
    everything = {**_finished(folder, others, sizes), **counts}
    for name, each in everything.items():
        if sizes.get(name) != each.file.bytes:
            raise DataError(
                f"{folder.path_of(name)}: missing or changed during the run; run the same command again"
            )
        if scale_of(each.report.signature) != scale_of(run.signature):
            raise DataError(
                f"{folder.path_of(name)}: its scores are on another scale ({each.report.signature}) than those of the "
                f"run ({run.signature}); delete this file and run the same command again"
            )
    missing = len(run.files) - len(everything)
    if missing:
        return missing
    counted = [everything[file.name] for file in run.files]
    for name, each in everything.items():
        if each.report.rung_ratings != counted[0].report.rung_ratings:
            raise DataError(
                f"{folder.path_of(name)}: its grades are by another reading of the rungs than those of "
                f"{counted[0].file.name}; delete this file and run the same command again"
            )
    total = merged([each.report for each in counted])
    finished = replace(
        run,
        scales=total.scales,
        rung_ratings=counted[0].report.rung_ratings,
        grade_error=total.grade_error,
        files=[each.file for each in counted],
    )
    _write(folder, finished)
    used: set[str] = set()
    for file in run.files:
        used |= {judgments_name(file.name), counts_name(file.name)}
    for name in sizes:
        if name.startswith((f"{JUDGMENTS}/", f"{COUNTS}/")) and name not in used:
            # These are of inputs that are gone.
            folder.remove(name)
    return 0


def merged(reports: Sequence[ScoreReport]) -> ScoreReport:
    """Return the counts of several runs together."""
    total: dict[str, Any] = {}
    for report in reports:
        total = _added(total, asdict(report))
        total["rung_ratings"] = report.rung_ratings
    return ScoreReport(**total)


def _added(before: Any, value: Any) -> Any:
    """Add counts, also those of inner objects; of anything else keep the last value."""
    if isinstance(value, dict):
        total = dict(before or {})
        for key, entry in value.items():
            total[key] = _added(total.get(key), entry)
        return total
    return value + (before or 0) if isinstance(value, int | float) else value
