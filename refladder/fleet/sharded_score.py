"""score over many shards: plan, give shards to workers, and check that every row came out once."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.backends.metered import SPENT
from refladder.errors import BackendError, DataError, UsageError, plural, redacted
from refladder.files.folders import open_folder
from refladder.files.remote import is_url
from refladder.files.scored_shards import MANIFEST, PLAN, RUN_FOLDER
from refladder.files.table_files import form_by_name
from refladder.files.tables import STANDARD, read_once, read_rows
from refladder.fleet.run_folder import (
    MARKS,
    Mark,
    Plan,
    check_strangers,
    discard,
    make_plan,
    mark_name,
    read,
    read_marks,
    totals,
    write,
    write_manifest,
)
from refladder.records import scale_of
from refladder.scoring.columns import ScoreReport
from refladder.scoring.judgment_file import JUDGMENTS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.files.folders import Folder
    from refladder.fleet.shard_worker import ShardAnswer, Task
    from refladder.fleet.shards import Shard
    from refladder.fleet.workers import Workers
    from refladder.jobs.score import Mapped
    from refladder.records import JudgeCheck, Progress

SHARD_ROWS = 50_000
DEATHS = 3  # of workers with one shard, after which the shard has failed
_SHOWN = 10  # most failed shards in the message
_JUDGE = {"judge", "judge_options"}  # of the settings; a limit or an address may change, the signature may not
_WAIT, _LONGEST_WAIT = 0.2, 600.0  # seconds, for another process that makes the plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """How an input is divided: the least rows of a shard, and the part (i, n), every n-th shard from the i-th on."""

    shard_rows: int = SHARD_ROWS
    part: tuple[int, int] = (1, 1)


@dataclass(slots=True, kw_only=True)
class ShardsReport:
    """What a run over shards did: counts of all rows of its part, those of earlier runs included.

    `reused` shards were scored by earlier runs, `missing` are those of other parts. `spent` is of this run.
    """

    scores: ScoreReport
    shards: int
    reused: int
    rows: int
    scored: int
    unscored: int
    missing: int
    spent: dict[str, float | None]
    checks: list[JudgeCheck]


def check_places(source: str, out: str) -> None:
    """Check that an input can be divided, and that its scored rows get a folder; a UsageError otherwise."""
    if read_once(source):
        raise UsageError("shards need a SOURCE that can be read twice: a file, a folder, a quoted glob or a URL")
    if out == STANDARD:
        raise UsageError("shards need --out FOLDER (or a URL)")
    if not is_url(out) and Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"{out}: a file, and shards need a folder; name a folder")
    if form_by_name(out) is not None and not out.endswith("/") and (is_url(out) or not Path(out).exists()):
        stem = out.removesuffix(".gz").rpartition(".")[0]
        folder = stem if stem and not stem.endswith("/") else "scored"
        raise UsageError(f"{out}: the name of a file, and shards need a folder; name one, such as {folder}")


def score_shards(
    open_workers: Callable[[str], tuple[Workers, Task]],
    source: str,
    out: str,
    *,
    mapped: Mapped,
    sharding: Sharding,
    settings: Mapping[str, Any],
    given: str | None = None,
    restart: bool = False,
    config: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda _text: None,
    tell: Callable[[Sequence[JudgeCheck]], object] = str,
) -> ShardsReport:
    """Score an input shard by shard into a folder; the same call continues an interrupted run.

    A shard whose worker dies is given to another worker. A shard that fails does not stop the others; a judge that
    fails, or a full disk, stops the run; what was scored before is kept. `open_workers` gets the format of the shards,
    and gives the workers and what they need; it is not called if nothing is left and the settings are those of before.
    """
    folder = open_folder(out)
    number, parts = sharding.part
    asked = redacted(json.loads(json.dumps({**settings, "shard_rows": sharding.shard_rows})))

    def current(old: Plan | None) -> Plan:
        others = [] if old is None else sorted(_differing(asked, old.settings) - _JUDGE)
        if others and parts == 1 and not folder.names(MARKS) and not folder.names(JUDGMENTS_FOLDER):
            return current(None)  # an earlier command asked nothing, such as one with a wrong column
        if others:
            raise UsageError(
                f"{folder.address}: holds shards of another run (other {', '.join(others)}); choose another folder, "
                "or discard them with --restart"
            )
        rows = sharding.shard_rows
        return make_plan(source, given, mapped, shard_rows=rows, settings=asked, config=config or {}, old=old, out=out)

    with folder.claimed(None if parts == 1 else f"{RUN_FOLDER}/part-{number}-of-{parts}"):
        plan, old = _planned(folder, current, restart=restart)
        other_judge = old is not None and not _JUDGE.isdisjoint(_differing(asked, old.settings))
        shards = plan.shards[number - 1 :: parts]
        marks = read_marks(folder, shards)
        earlier = {name: mark for name, mark in marks.items() if folder.digest(name) == mark.output}
        left = [shard for shard in shards if shard.name not in earlier]
        scored = earlier or (read_marks(folder, plan.shards) if other_judge else {})  # by this part, or by others
        run = _Run(
            folder=folder,
            marks=dict(earlier),
            signature=next((mark.signature for mark in scored.values()), None),
            total=sum(shard.rows for shard in shards),
            progress=progress,
            say=say,
            tell=tell,
        )
        if left:
            _check_columns(left[0].source, plan.form, mapped)
            folder.remove(MANIFEST)
        if left or other_judge:
            workers, task = open_workers(plan.form)
            if left and len(shards) < workers.number:
                say(
                    f"only {plural(len(shards), 'shard')} for {workers.number} workers; for more shards, give a "
                    "smaller --shard-rows"
                )
            run.score([None, *left], workers, task)
        missing = _finish(folder, plan, run.marks, [asdict(check) for check in run.checks])
    return ShardsReport(
        scores=merged([mark.report for mark in run.marks.values()]),
        shards=len(shards),
        reused=len(earlier),
        **totals(run.marks.values()),
        missing=missing,
        spent=run.spent,
        checks=run.checks,
    )


def _planned(folder: Folder, current: Callable[[Plan | None], Plan], *, restart: bool) -> tuple[Plan, Plan | None]:
    """The plan in the folder, brought up to date with the input by one process at a time; and the one before."""
    old = None if restart else read(folder, PLAN, Plan)
    plan = None if old is None else current(old)
    with ExitStack() as stack:
        if old is None or plan is None or not _same(plan, old):
            _wait_for(stack, folder, PLAN)
            if restart:
                discard(folder)
            old = read(folder, PLAN, Plan)
            plan = current(old)
        check_strangers(folder, plan)  # before the plan makes the folder one of scored shards
        if old is None or not _same(plan, old):
            folder.remove(MANIFEST)
            write(folder, PLAN, plan.kept)
    return plan, old


def _differing(settings: Mapping[str, Any], before: Mapping[str, Any]) -> set[str]:
    """The names of settings that differ; the certificate of the ladders is none, see `scale_of`."""
    new, old = ({**kind, "ladders": scale_of(kind.get("ladders"))} for kind in (settings, before))
    return {key for key in {*new, *old} if new.get(key) != old.get(key)}


def _same(plan: Plan, old: Plan) -> bool:
    parts = (plan.kept.shards, plan.kept.stamps) == (old.shards, old.stamps)
    return parts and _differing(plan.kept.settings, old.settings) <= _JUDGE


def _wait_for(stack: ExitStack, folder: Folder, name: str) -> None:
    """Claim a name; other parts of the run that start at the same moment wait for their turn."""
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            stack.enter_context(folder.claimed(name))
        except UsageError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_WAIT)
        else:
            return


def _check_columns(path: str, form: str, mapped: Mapped) -> None:
    """Check the columns of the first row of a file, before every shard fails for a wrong name of one."""
    try:
        with closing(read_rows(path, form)) as rows:
            first = next(rows, None)
    except DataError:  # reported by its shard, and the others are scored
        return
    if first is not None:
        mapped.cell(first, "output")
        mapped.context_of(first, *mapped.context_text(first))


@dataclass(slots=True, kw_only=True)
class _Run:
    """Gives shards to workers until none is left."""

    folder: Folder
    marks: dict[str, Mark]
    signature: str | None  # of every shard; that of the first one where it is not known before
    total: int
    progress: Progress | None
    say: Callable[[str], None]
    tell: Callable[[Sequence[JudgeCheck]], object]
    deaths: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    notices: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    usd: dict[int, float] = field(default_factory=dict)  # that a worker told; one in its place may spend so much less
    checks: list[JudgeCheck] = field(default_factory=list)
    partly: dict[int, int] = field(default_factory=dict)  # rows done of each worker's shard
    begun: float = field(default_factory=time.monotonic)

    def score(self, shards: Sequence[Shard | None], workers: Workers, task: Task) -> None:
        """Score shards, and add their marks; None compares the signature with earlier shards, and checks the judge."""
        queue = deque(shards)
        try:
            workers.start(task.to_json())
            running: dict[int, Shard | None] = {}
            idle = list(range(workers.number))
            self._report()
            while queue or running:
                while queue and idle and None not in running.values():  # the judge is checked before the first row
                    worker = idle.pop()
                    running[worker] = queue.popleft()
                    workers.put(worker, running[worker], self.signature, self.usd.get(worker, 0.0))
                worker, answer = workers.wait(self._under_way)
                idle.append(worker)
                shard = running.pop(worker)
                self.partly.pop(worker, None)
                if answer is not None:
                    self._take(worker, shard, answer)
                elif shard is None:
                    raise BackendError("the worker died when it opened the judge; check its memory and its judge")
                elif self._has_died(shard):
                    queue.appendleft(shard)
        finally:
            workers.close()
        if self.failed:
            shown = "; ".join(list(self.failed.values())[:_SHOWN])
            more = f"; and {len(self.failed) - _SHOWN:,} more" if len(self.failed) > _SHOWN else ""
            raise DataError(
                f"{self.folder.address}: {plural(len(self.failed), 'shard')} failed: {shown}{more}; {self._kept()}"
            )

    @property
    def spent(self) -> dict[str, float | None]:
        """What the workers asked their judges, and the seconds of this run; what dead workers asked is not known."""
        if not self.counts["calls"] and not self.counts["from_store"]:
            return {}
        return {**dict.fromkeys(SPENT), **self.counts, "seconds": time.monotonic() - self.begun}

    def _has_died(self, shard: Shard) -> bool:
        """Count the death of a worker; whether its shard is to be tried again."""
        self.deaths[shard.name] += 1
        deaths = self.deaths[shard.name]
        again = deaths < DEATHS
        what = "another worker scores it" if again else "not tried again"
        self.say(f"{shard.name}: the worker died ({deaths} of at most {DEATHS} times); {what}")
        if not again:
            self.failed[shard.name] = f"{shard.where}: the worker died {deaths} times; check its memory and its judge"
        return again

    def _take(self, worker: int, shard: Shard | None, answer: ShardAnswer) -> None:
        self.counts.update(answer.spent)
        self.usd[worker] = self.usd.get(worker, 0.0) + answer.spent.get("usd", 0.0)
        error, mark = answer.error, answer.mark
        if error is not None and answer.stops:
            continues = "" if shard is None or isinstance(error, UsageError) else f"; {self._kept()}"
            raise type(error)(f"{error}{continues}")
        if answer.notice is not None and answer.notice not in self.notices:
            self.notices.add(answer.notice)
            self.say(answer.notice)
        if shard is None:
            self.checks = answer.checks
            self.tell(self.checks)
            return
        if mark is None:
            self.failed[shard.name] = str(error)
            self.say(f"{shard.name}: failed: {error}")
            return
        if scale_of(self.signature) not in {None, scale_of(mark.signature)}:
            self.folder.remove(mark_name(mark.name))
            raise UsageError(
                f"{self.folder.address}: the workers differ: {mark.signature} in {mark.name}, {self.signature} in "
                "other shards; name what differs with --judge-option (such as dtype), or use equal machines"
            )
        self.signature = self.signature or mark.signature
        self.marks[shard.name] = mark
        self._report()

    def _under_way(self, worker: int, rows: int) -> None:
        self.partly[worker] = rows
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            done = sum(mark.rows for mark in self.marks.values()) + sum(self.partly.values())
            self.progress(done, self.total)

    def _kept(self) -> str:
        if not self.marks:
            return "no shard is scored yet"
        return f"{plural(len(self.marks), 'scored shard')} kept, and the same command continues"


def _finish(folder: Folder, plan: Plan, marks: Mapping[str, Mark], checks: Sequence[Mapping[str, Any]]) -> int:
    """Write the manifest if every shard is scored; the number of those that are not."""
    existing = set(folder.names())
    everything = {**read_marks(folder, [shard for shard in plan.shards if shard.name not in marks]), **marks}
    if gone := [name for name in everything if name not in existing]:
        raise DataError(
            f"{folder.path_of(gone[0])}: the scored shard has vanished; run the same command again to score it again"
        )
    missing = len(plan.shards) - len(everything)
    if not missing:
        write_manifest(folder, plan, everything, checks)
    return missing


def merged(reports: Sequence[ScoreReport]) -> ScoreReport:
    """The counts of several runs together."""
    total: dict[str, Any] = {}
    for report in reports:
        total = _added(total, asdict(report))
    return ScoreReport(**total)


def _added(before: Any, value: Any) -> Any:  # noqa: ANN401  JSON
    """Counts added, also those of inner objects; of anything else the last value."""
    if isinstance(value, dict):
        before = before or {}
        return {**before, **{key: _added(before.get(key), entry) for key, entry in value.items()}}
    return value + (before or 0) if isinstance(value, int) else value
