"""Options of `score` for inputs that are scored shard by shard, and the run itself."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refladder.commands import console
from refladder.commands.options import given_by_user
from refladder.errors import UsageError, plural
from refladder.files.jsonl import is_device
from refladder.files.remote import is_url
from refladder.files.table_files import form_by_name
from refladder.files.tables import STANDARD
from refladder.report.summary import summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.fleet.shard_worker import Task
    from refladder.fleet.sharded_score import ShardsReport
    from refladder.fleet.workers import Workers
    from refladder.jobs.score import Mapped
    from refladder.settings import Tables

# The options of `score` that shards know; another one is refused, not ignored.
_KNOWN = {
    *("source", "ladders", "dimension", "out", "context_id", "column", "given", "judge", "judge_option", "base_url"),
    *("memory", "truncate_context", "rule", "weight", "least_mass", "answers", "both_orders", "yes_no"),
    *("any_judge", "judgments"),
    *("store", "without_store", "prices", "budget", "prompts", "restart", "as_json", "quiet"),
    *("shard_rows", "shard", "workers", "engine", "address"),
}

SHARDING = console.options(
    click.option(
        "--shard-rows",
        type=click.IntRange(min=1),
        metavar="ROWS",
        help="Number of rows per shard; OUT is then a folder or URL with one file per shard. Default: 50000.",
    ),
    click.option(
        "--shard",
        metavar="I/N",
        help="Score only every N-th shard, starting at number I (1 to N). Run N such jobs with the same OUT.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Number of processes that score shards, each with its own judge. Default: 1; with --engine ray one per "
        "GPU, or per core but one.",
    ),
    click.option(
        "--engine",
        type=click.Choice(("processes", "ray")),
        help="Where shards are scored: processes on this machine, or actors of a Ray cluster. Default: processes.",
    ),
    click.option(
        "--address", metavar="ADDRESS", help="Ray cluster for --engine ray. Default: RAY_ADDRESS, else this machine."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOptions:
    """Options for shards; without any of them, a table is scored as a whole."""

    shard_rows: int | None
    shard: str | None
    workers: int | None
    engine: str | None
    address: str | None

    @property
    def given(self) -> bool:
        """Whether the table is scored shard by shard."""
        return any((self.shard_rows, self.shard, self.workers, self.engine, self.address))

    def into(self, table: Tables) -> ShardOptions:
        """The same for an output: a folder gets shards, also if no option for shards is given."""
        out = table.out
        if is_url(out) and form_by_name(out) is not None:
            raise UsageError(
                f"--out {out}: at a URL, scored rows are written as a folder with one file per shard; name a folder "
                "(without extension), or a file on this machine"
            )
        if self.given or out == STANDARD or table.out_format is not None or is_device(Path(out)):
            return self
        a_folder = form_by_name(out) is None if is_url(out) else Path(out).is_dir() or not Path(out).suffix
        return replace(self, workers=1) if a_folder or out.endswith("/") else self

    @property
    def part(self) -> tuple[int, int]:
        """(i, n) of --shard."""
        if self.shard is None:
            return 1, 1
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", self.shard)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {self.shard!r}: must be I/N, such as 1/8, with I from 1 to N")
        return int(match[1]), int(match[2])


OF_SHARDS = {"restart", *(each.name for each in fields(ShardOptions))}


def check_shard_options(
    context: click.Context,
    judge: str,
    options: Mapping[str, str],
    sharding: ShardOptions,
    *,
    budget: float | None,
    judgments: Path | None,
) -> None:
    """Check that the options of a judge and those of the run go together with shards."""
    from refladder.backends import opener_of
    from refladder.backends.openai.options import read_options

    for parameter in context.command.params:
        if parameter.name not in _KNOWN and given_by_user(context, parameter.name):
            raise UsageError(f"{parameter.opts[0]} does not work with shards; leave it out, or score the table whole")
    opener_of(judge, options)  # the options are written to files, where a key has no business
    if judge.startswith("openai:"):
        read_options(options)
    if "batch" in options:
        raise UsageError("batch=FOLDER sends a whole table at once; score the table without shards")
    if judgments is not None and not is_device(judgments):
        raise UsageError(
            f"--judgments {judgments}: shards keep their judgments in --out, for `rescore`; leave --judgments out, or "
            "give /dev/null to store none"
        )
    if budget is not None and sharding.part[1] > 1:
        raise UsageError(
            "--budget is compared with the cost of the whole table, and --shard scores a part of it; leave one of them "
            "out"
        )


def score_in_shards(
    context: click.Context,
    sharding: ShardOptions,
    task: Task,
    tables: Tables,
    mapped: Mapped,
    *,
    gpus: bool,
    as_json: bool,
) -> int:
    """Score a table shard by shard, and print the counts; folder and format of the task are filled in here."""
    from refladder.backends.openai.options import share_of_limits
    from refladder.fleet.sharded_score import SHARD_ROWS, Sharding, check_places, score_shards
    from refladder.fleet.workers import Processes, RayActors

    source, out, restart = tables.source, tables.out, context.params["restart"]
    check_places(source, out)
    if sharding.address is not None and sharding.engine != "ray":
        raise UsageError("--address is that of a Ray cluster; add --engine ray")
    if restart and sharding.part[1] > 1:
        raise UsageError(f"--restart would discard the shards of other parts; delete {out} before they start")

    def open_workers(form: str) -> tuple[Workers, Task]:
        workers: Workers = (
            RayActors(sharding.workers, sharding.address, gpus=gpus)
            if sharding.engine == "ray"
            else Processes(sharding.workers or 1, gpus=gpus)
        )
        options = task.judge_options
        if task.judge.startswith("openai:"):
            options = share_of_limits(options, workers.number)
        budget = task.budget
        if budget is not None and workers.number > 1:
            budget /= workers.number
            console.notify(f"--budget: each of {workers.number} workers may spend {budget:.4g} USD")
        placed = replace(task, folder=out, form=form, directory=str(Path.cwd()), judge_options=options)
        return workers, replace(placed, budget=budget)

    with console.progress("scoring") as progress:
        report = score_shards(
            open_workers,
            source,
            out,
            mapped=mapped,
            sharding=Sharding(shard_rows=sharding.shard_rows or SHARD_ROWS, part=sharding.part),
            settings={**task.settings(), "source": source},
            given=tables.given,
            restart=restart,
            config=console.resolved(context),
            progress=progress,
            say=console.notify,
            tell=str if as_json else console.say_checks,
        )
    return _tell(report, task.judge, out, as_json=as_json)


def _tell(report: ShardsReport, judge: str, out: str, *, as_json: bool) -> int:
    spent = [{"backend": judge, **report.spent}] if report.spent else []
    counts = {name: getattr(report, name) for name in ("shards", "reused", "missing", "rows", "scored", "unscored")}
    if as_json:
        checks = [asdict(check) for check in report.checks] or None
        shown = {**summary(report.scores), "judge_check": checks, "out": out, "shards": counts, "spent": spent}
        console.say_json(shown)
    else:
        console.say_summary(report.scores)
        console.tell_spent(spent)
        earlier = f" ({report.reused:,} from earlier runs)" if report.reused else ""
        rows = f"{plural(report.rows, 'row')} = {report.scored:,} scored + {report.unscored:,} unscored"
        console.notify(f"{plural(report.shards, 'shard')}{earlier}: {rows}", warns=report.unscored > 0)
        if report.missing:
            console.say(f"{out}: not scored yet: {plural(report.missing, 'shard')} of other parts", err=True)
    return 0 if report.scores.complete else console.UNSCORED
