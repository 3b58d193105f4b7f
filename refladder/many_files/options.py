"""Options of `score` for inputs of many files, and the run itself."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.backends.metered import spent_json
from refladder.cli import console
from refladder.cli.options import given_options
from refladder.errors import ExitCode, UsageError, plural
from refladder.files.jsonl import is_device
from refladder.files.streams import is_url
from refladder.files.tables import STANDARD, form_by_name
from refladder.scoring.summary import summary

if TYPE_CHECKING:
    from refladder.cli.console import Console
    from refladder.cli.spending import Spending
    from refladder.loaders.input_rows import Mapped
    from refladder.many_files.run import FilesReport
    from refladder.many_files.worker import Task
    from refladder.many_files.workers import Workers
    from refladder.settings import ScoreSpec, Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyFiles:
    """Options for many files; without any of them, a table is scored into one file."""

    shard: str | None
    workers: int | None
    engine: str | None

    def into(self, table: Tables) -> ManyFiles | None:
        """Return the options if each file is scored by itself, also because the output is a folder; else None."""
        out = table.out
        if is_url(out) and form_by_name(out) is not None:
            raise UsageError(
                f"--out {out}: at a URL, scored rows are written as a folder; name a folder (without extension), or a "
                "file on this machine"
            )
        if any((self.shard, self.workers, self.engine)):
            return self
        if out == STANDARD or table.out_format is not None or is_device(Path(out)):
            return None
        is_folder = out.endswith("/") or (
            form_by_name(out) is None if is_url(out) else Path(out).is_dir() or not Path(out).suffix
        )
        return replace(self, workers=1) if is_folder else None

    @property
    def part(self) -> tuple[int, int]:
        """Return (i, n) of --shard."""
        if self.shard is None:
            return 1, 1
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", self.shard)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(
                f"--shard {self.shard!r}: must be I/N, such as 1/8, with I from 1 to N"
            )
        return int(match[1]), int(match[2])


def check_options() -> None:
    """Refuse the options that do not go with a folder of scored files."""
    for flag, option in given_options():
        if not option.with_many_files:
            raise UsageError(
                f"{flag} does not work with a folder of scored files; leave it out, or give --out FILE"
            )


def _check_run(spec: ScoreSpec, many: ManyFiles, *, budget: float | None) -> None:
    """Check that the options of a judge and those of the run go together with many files."""
    from refladder.backends import opener_of
    from refladder.backends.openai.options import read_options

    judge, judgments = str(spec.judge), spec.judgments
    # The options are written to files, so a key among them is refused.
    opener_of(judge, spec.judge_options)
    if judge.startswith("openai:") and read_options(spec.judge_options).folder is not None:
        raise UsageError(
            "--base-url file:FOLDER asks about a whole table at once; score the table with --out FILE"
        )
    if judgments is not None and not is_device(judgments):
        raise UsageError(
            f"--judgments {judgments}: a folder of scored files keeps its judgments, for `rescore`; leave --judgments "
            "out, or give /dev/null to store none"
        )
    if budget is not None and many.part[1] > 1:
        raise UsageError(
            "--budget is compared with the cost of the whole table, and --shard scores a part of it; leave one of them "
            "out"
        )


def score_with_judge(
    spec: ScoreSpec, session: Spending, many: ManyFiles, events: Console
) -> ExitCode:
    """Score the files of a table with a judge."""
    from refladder.jobs.score import prepare, rehearse
    from refladder.many_files.worker import task_of

    judge = str(spec.judge)
    limit = None if session.budget is None else session.budget.limit
    _check_run(spec, many, budget=limit)
    price = session.price_of(judge)
    if price is None:
        limit = None
    store = session.store_of(judge, costs=price is not None)
    opened = prepare(replace(spec, judgments=None), events, check_rows=False)
    if not session.approves(partial(rehearse, opened), as_json=events.as_json):
        return ExitCode.DONE
    task = replace(
        task_of(spec, opened.ladders),
        store=None if store is None else str(store),
        price=None if price is None else asdict(price),
        budget=limit,
        judgments=spec.judgments is None,
        checks=session.checks_of(judge) is not None,
    )
    gpus = judge.startswith(("hf:", "reward:")) and "base_url" not in spec.judge_options
    return score_many_files(many, task, opened.mapped, events, gpus=gpus)


def score_many_files(
    many: ManyFiles,
    task: Task,
    mapped: Mapped,
    events: Console,
    *,
    gpus: bool,
) -> ExitCode:
    """Score the files of the task's input, and print the counts."""
    from refladder.backends.openai.options import share_of_limits
    from refladder.many_files.run import check_places, score_files
    from refladder.many_files.workers import Processes, RayActors

    check_places(task.source, task.folder, many.workers)

    def open_workers(files: int) -> tuple[Workers, Task]:
        wanted = many.workers
        workers: Workers
        if many.engine == "ray":
            workers = RayActors(wanted, files, gpus=gpus)
        else:
            workers = Processes(wanted or 1, files, gpus=gpus)
        if wanted is not None and workers.number < wanted and files:
            events.notice(f"only {plural(files, 'file')} to score for {wanted} workers")
        options = task.judge_options
        budget = task.budget
        if task.judge.startswith("openai:"):
            options = share_of_limits(options, workers.number)
        if budget is not None and workers.number > 1:
            budget /= workers.number
            events.notice(f"--budget: each of {workers.number} workers may spend {budget:.4g} USD")
        return workers, replace(task, judge_options=options, budget=budget)

    config = console.resolved()
    report = score_files(open_workers, task, mapped, events, part=many.part, config=config)
    return _tell(report, task, as_json=events.as_json)


def _tell(report: FilesReport, task: Task, *, as_json: bool) -> ExitCode:
    # A part may have no file at all.
    empty = report.files > 0 and not report.rows
    if as_json:
        from refladder.scoring.judge_check import checks_json

        names = ("files", "reused", "missing", "rows", "scored", "unscored")
        counts = {name: getattr(report, name) for name in names}
        shown = {
            **summary(report.scores),
            **checks_json(report.checks),
            "out": task.folder,
            "files": counts,
            "spent": spent_json(report.spent),
        }
        console.say_json(shown)
    else:
        console.say_summary(report.scores)
        if empty:
            console.say("The files have no rows, so nothing was scored", err=True)
        console.tell_spent(report.spent)
        earlier = f" ({report.reused:,} from earlier runs)" if report.reused else ""
        rows = f"{plural(report.rows, 'row')} = {report.scored:,} scored + {report.unscored:,} unscored"
        console.notify(
            f"{plural(report.files, 'file')}{earlier}: {rows}", warns=report.unscored > 0
        )
        if report.missing:
            console.say(
                f"{task.folder}: not scored yet: {plural(report.missing, 'file')} of other parts",
                err=True,
            )
    return ExitCode.of(complete=report.scores.complete and not empty)
