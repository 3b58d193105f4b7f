"""Options of `score` for inputs that are scored shard by shard, and the run itself."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from refladder.cli import console
from refladder.errors import UsageError
from refladder.files.jsonl import is_device
from refladder.files.remote import is_url
from refladder.files.table_files import form_by_name
from refladder.files.tables import STANDARD, read_once
from refladder.report.summary import summary, summary_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.cli.groups import JudgingOptions, TableOptions
    from refladder.cli.spending import Spending
    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs.score import Mapped
    from refladder.jobs.shard_worker import Task
    from refladder.jobs.sharded_score import ShardsReport
    from refladder.jobs.workers import Workers
    from refladder.records import Dimension
    from refladder.scoring.columns import Scale

# The options of `score` that shards know; another one is refused, not ignored.
_KNOWN = {
    *("source", "ladders", "dimension", "out", "context_id", "column", "given", "judge", "judge_option", "base_url"),
    *("memory", "truncate_context", "rule", "weight", "least_mass", "answers", "both_orders", "yes_no", "judgments"),
    *("stop_at", "threshold", "calibration", "cascade", "between", "check_share"),
    *("store", "without_store", "prices", "budget", "prompts", "restart", "as_json"),
    *("shard_rows", "shard", "workers", "engine", "address"),
}
_BY_USER = (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)

SHARDING = console.options(
    click.option(
        "--shard-rows",
        type=click.IntRange(min=1),
        metavar="ROWS",
        help="Number of rows per shard. SOURCE is scored shard by shard, and OUT is a folder or URL with one file per "
        "shard. Default: 50000.",
    ),
    click.option(
        "--shard",
        metavar="I/N",
        help="Score only every N-th shard, starting with number I (1 to N). For N jobs of a cluster with the same OUT.",
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
        help="Where shards are scored: processes of this machine, or actors of a Ray cluster. Default: processes.",
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

    def into(self, table: TableOptions) -> ShardOptions:
        """The same for an output: a folder gets shards, also if no option for shards is given.

        Raises:
            UsageError: the output is a file at a URL, where only shards are written.
        """
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
        """(i, n) of --shard.

        Raises:
            UsageError: it is not i/n with 1 <= i <= n.
        """
        if self.shard is None:
            return 1, 1
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", self.shard)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {self.shard!r}: must be I/N, such as 1/8, with I from 1 to N")
        return int(match[1]), int(match[2])


def judge_task(
    context: click.Context,
    sharding: ShardOptions,
    *,
    ladders: LadderSet,
    name: str,
    dimensions: Sequence[Dimension],
    scale: Scale,
    stop_at: Mapping[str, float],
    threshold: Path | None,
    mapped: Mapped,
    judging: JudgingOptions,
    student: Path | None,
    between: tuple[float, float] | None,
    check_share: float,
    spending: Spending,
    budget: float | None,
    judgments: Path | None,
    prompts: Path | None,
    calibration: Path | None,
) -> Task:
    """What the workers need to score with a judge, after a check that the options go together with shards.

    Raises:
        UsageError: an option does not.
    """
    from refladder.backends import opener_of  # noqa: PLC0415  --help stays quick
    from refladder.backends.openai.options import read_options  # noqa: PLC0415
    from refladder.jobs.shard_worker import Task  # noqa: PLC0415

    _check_known(context)
    judge = judging.judge or "builtin"
    options = console.backend_options(judge, judging.judge_option)
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
    price = spending.price_of(judge)
    store = spending.store_path(judge, costs=price is not None)
    return Task(
        ladders=name,
        version=ladders.signature,
        dimensions=[dimension.name for dimension in dimensions],
        rule=scale.rule,
        weights=dict(scale.weights),
        least_mass=scale.least_mass,
        stop_at=dict(stop_at),
        threshold=None if threshold is None else str(threshold),
        role="compare-yesno" if judging.yes_no else "compare",
        orders=judging.orders,
        answers=judging.answers,
        prompts=None if prompts is None else str(prompts),
        columns=dict(mapped.columns),
        context_id=mapped.context,
        judge=judge,
        judge_options=options,
        store=None if store is None else str(store),
        price=None if price is None else asdict(price),
        budget=budget if price is not None else None,
        judgments=judgments is None,
        student=None if student is None else str(student),
        between=None if between is None else list(between),
        check_share=check_share,
        calibration=None if calibration is None else str(calibration),
    )


def score_in_shards(
    context: click.Context,
    sharding: ShardOptions,
    source: str | None,
    task: Task,
    *,
    mapped: Mapped,
    table: TableOptions,
    gpus: bool,
    restart: bool,
    as_json: bool,
) -> int:
    """Score a table shard by shard, and print the counts.

    Args:
        context: of the command.
        sharding: how it is divided, and who scores it.
        source: the table.
        task: what the workers need; folder and format are filled in here.
        mapped: the columns of the table by field.
        table: the output and the formats.
        gpus: whether the workers use a GPU.
        restart: discard what the output folder holds.
        as_json: print the counts as JSON.

    Raises:
        UsageError: an option does not go together with shards.
    """
    from refladder.backends.openai.options import share_of_limits  # noqa: PLC0415  --help stays quick
    from refladder.jobs.sharded_score import SHARD_ROWS, Sharding, score_shards  # noqa: PLC0415
    from refladder.jobs.workers import Processes, RayActors  # noqa: PLC0415

    source = _checked(sharding, source, table.out, restart=restart)

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
            console.say(f"--budget: each of {workers.number} workers may spend {budget:.4g} USD", err=True)
        placed = replace(task, folder=table.out, form=form, directory=str(Path.cwd()), judge_options=options)
        return workers, replace(placed, budget=budget)

    with console.progress("scoring") as progress:
        report = score_shards(
            open_workers,
            source,
            table.out,
            mapped=mapped,
            sharding=Sharding(shard_rows=sharding.shard_rows or SHARD_ROWS, part=sharding.part),
            settings={**task.settings(), "source": source},
            given=table.given,
            restart=restart,
            config=console.resolved(context),
            progress=progress,
            say=lambda text: console.say(text, err=True),
        )
    return _tell(report, task.judge, table.out, as_json=as_json)


def _check_known(context: click.Context) -> None:
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in _KNOWN and context.get_parameter_source(name) in _BY_USER:
            raise UsageError(f"{parameter.opts[0]} does not work with shards; leave it out, or score the table whole")


def _checked(sharding: ShardOptions, source: str | None, out: str, *, restart: bool) -> str:
    """The source, after a check that the options fit together."""
    if source is None or read_once(source):
        raise UsageError("shards need a SOURCE that can be read twice: a file, a folder, a quoted glob or a URL")
    if out == STANDARD:
        raise UsageError("shards need --out FOLDER (or a URL)")
    if not is_url(out) and Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"{out}: a file; shards need a folder")
    if form_by_name(out) is not None and not out.endswith("/") and (is_url(out) or not Path(out).exists()):
        raise UsageError(f"{out}: the name of a file, and shards need a folder; name one, such as {_folder_name(out)}")
    if sharding.address is not None and sharding.engine != "ray":
        raise UsageError("--address is that of a Ray cluster; add --engine ray")
    if restart and sharding.part[1] > 1:
        raise UsageError(f"--restart would discard the shards of other parts; delete {out} before they start")
    return source


def _folder_name(out: str) -> str:
    stem = out.removesuffix(".gz").rpartition(".")[0]
    return stem if stem and not stem.endswith("/") else "scored"


def _tell(report: ShardsReport, judge: str, out: str, *, as_json: bool) -> int:
    spent = [{"backend": judge, **report.spent}] if report.spent else []
    counts = {name: getattr(report, name) for name in ("shards", "reused", "missing", "rows", "scored", "unscored")}
    if as_json:
        shown = {**summary(report.scores), "out": out, "shards": counts, "spent": spent}
        console.say_json(shown)
    else:
        console.say_lines(summary_lines(report.scores))
        console.tell_spent(spent)
        earlier = f" ({report.reused:,} from earlier runs)" if report.reused else ""
        shards = "1 shard" if report.shards == 1 else f"{report.shards:,} shards"
        rows = f"{report.rows:,} rows = {report.scored:,} scored + {report.unscored:,} unscored"
        console.say(f"{shards}{earlier}: {rows}", err=True)
        if report.missing:
            console.say(f"{out}: {report.missing:,} shards of other parts are not scored yet", err=True)
    return 0 if report.scores.complete else console.UNSCORED
