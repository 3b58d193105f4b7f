"""refladder evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from refladder.cli import console, spending
from refladder.cli.data import DATA, OWN, DataOptions
from refladder.cli.groups import DrawingOptions, JudgingOptions, grouped
from refladder.cli.recorded import JUDGMENTS_FROM, open_recorded
from refladder.errors import UsageError
from refladder.metaeval import CONVENTIONS, LEVELS, STATISTICS
from refladder.ranking import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.jobs.evaluate import Evaluation
    from refladder.metaeval.agreement import Agreement
    from refladder.methods.contract import Method
    from refladder.records import Benchmark, Dimension
    from refladder.report.cards import Card


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodOptions:
    """The methods to compare, and how pairwise methods choose their comparisons."""

    methods: str | None
    comparisons: int | None
    selection: str
    method_options: tuple[str, ...]
    scores: tuple[str, ...]
    score_column: tuple[str, ...]

    def names(self, backend: str | None) -> list[str]:
        """The methods to run: `ladder` where none is named, and none where only scores are to be compared.

        Args:
            backend: what the user named of judge, writer and ladders, if anything.
        """
        if self.methods is None:
            return ["ladder"] if backend is not None or not self.scores else []
        return [name.strip() for name in self.methods.split(",") if name.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderOptions:
    """Which ladders are used, or how they are written."""

    ladders: str | None
    writer: str | None
    writer_option: tuple[str, ...]
    rungs: int
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolOptions:
    """How agreement is computed."""

    levels: tuple[str, ...]
    statistics: tuple[str, ...]
    constant: str
    resamples: int | None
    baselines: str
    reference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """What is printed and drawn."""

    figures: Path | None
    page: Path | None
    form: str
    as_json: bool

    @property
    def table_format(self) -> str:
        """The format of the tables; `--json` wins over `--format`."""
        return "json" if self.as_json else self.form


@click.command(cls=console.Command, short_help="Measure the agreement of scores with human ratings.")
@DATA
@click.option(
    "--methods",
    metavar="NAME,...",
    shell_complete=console.names_of("methods"),
    help="Methods to run and to show in a report card (see `refladder list methods`). Default: ladder; none with "
    "--scores unless --judge, --writer or --ladders is given.",
)
@click.option(
    "--comparisons",
    type=click.IntRange(min=1),
    help="Number of comparisons per context and dimension for pairwise methods. Default: all pairs in both orders.",
)
@click.option(
    "--selection",
    default="symmetric",
    type=click.Choice(SCHEMES),
    help="How --comparisons are selected: random ordered pairs, no pair twice, or both orders of each pair.",
)
@console.ANSWERS
@click.option(
    "--method-option",
    "method_options",
    multiple=True,
    metavar="METHOD.KEY=VALUE",
    help="Option of one method, such as pairs-beam.beam=10. Repeatable.",
)
@console.backend_option("--judge", "Judge model (see `refladder list backends`). Default: builtin.")
@console.JUDGE_OPTION
@JUDGMENTS_FROM
@console.backend_option("--writer", "Model that writes the ladders. Default: the judge.")
@console.WRITER_OPTION
@console.BASE_URL
@console.LOCAL
@click.option(
    "--ladders",
    metavar="SET",
    shell_complete=console.names_of("ladders"),
    help="Existing ladder set (a shipped name, a folder or hub:ORG/NAME@REVISION) to use instead of generating one.",
)
@click.option(
    "--scores",
    "scores",
    multiple=True,
    metavar="FILE",
    help="File with the scores of another program: one row per output, with output_id and a column per dimension. "
    "Repeatable.",
)
@click.option(
    "--score-column",
    "score_column",
    multiple=True,
    metavar="DIMENSION=COLUMN",
    help="Column of --scores with the scores of a dimension. Repeatable. Default: DIMENSION_score, else DIMENSION, "
    "else score.",
)
@console.SAMPLING
@console.RULE
@console.LEAST_MASS
@console.JUDGING
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=click.Choice(LEVELS),
    help="Level of the correlation: outputs of each context, all outputs, or system means. Repeatable. Default: "
    "within_context; all with JSON.",
)
@click.option(
    "--statistic",
    "statistics",
    multiple=True,
    type=click.Choice(STATISTICS),
    help="Correlation coefficient. Repeatable. Default: spearman; all with JSON.",
)
@click.option(
    "--constant",
    default="skip",
    type=click.Choice(CONVENTIONS),
    help="How to treat contexts with constant ratings or scores: skip them, or count the correlation as 0 (Liusie et "
    "al.) or 1 (PairS, ZEPO).",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=1),
    help="Number of permutations per test against --reference. Default: chosen from the number of tests.",
)
@click.option(
    "--reference",
    metavar="METHOD",
    help="Method to test all others against, with a paired permutation test and Holm's correction. If no other method "
    "is given, the surface baselines are tested.",
)
@click.option(
    "--baselines",
    default="best",
    type=click.Choice(["best", "all"]),
    help="Surface measures to show: the best one, cross-validated over contexts, or all.",
)
@click.option(
    "--figures",
    type=console.PATH,
    help="Output folder for SVG figures: agreement by cost and by number of comparisons.",
)
@click.option("--html", "page", type=console.PATH, help="Output file for tables and figures as a single HTML page.")
@click.option(
    "--work", type=console.PATH, help="Folder for ladders, judgments and results, for resuming and for `review`."
)
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@click.option(
    "--format",
    "form",
    default="text",
    type=click.Choice(["text", "markdown", "latex", "json"]),
    help="Format of the printed tables.",
)
@console.JSON
@click.pass_context
@grouped(
    data=DataOptions,
    chosen=MethodOptions,
    judging=JudgingOptions,
    ladders=LadderOptions,
    drawing=DrawingOptions,
    protocol=ProtocolOptions,
    output=OutputOptions,
    money=spending.SpendingOptions,
)
def command(
    context: click.Context,
    /,
    *,
    data: DataOptions,
    chosen: MethodOptions,
    judging: JudgingOptions,
    ladders: LadderOptions,
    drawing: DrawingOptions,
    protocol: ProtocolOptions,
    output: OutputOptions,
    money: spending.SpendingOptions,
    judgments_from: str | None,
    work: Path | None,
    prompts: Path | None,
    restart: bool,
) -> int:
    """Score the outputs of BENCHMARK with one or more methods, and measure their agreement with its human ratings.

    The tables include the best surface measure, a baseline without a judge (except for partial correlations).
    Exit code 3: some outputs have no score; they are excluded and counted.
    """
    from refladder.backends.estimate import Unanswered  # noqa: PLC0415
    from refladder.files.ladder_sets import choose_dimensions  # noqa: PLC0415
    from refladder.jobs.evaluate import Protocol, check_evaluation, evaluate  # noqa: PLC0415
    from refladder.jobs.recorded_judgments import check_recorded, default_method  # noqa: PLC0415
    from refladder.methods.contract import MethodSettings  # noqa: PLC0415
    from refladder.methods.method_runs import rehearse_methods  # noqa: PLC0415

    if ladders.ladders is not None and ladders.writer is not None:
        raise UsageError("--ladders names ladders that exist, and --writer writes new ones; give one of them")
    console.check_prompts(prompts)
    benchmark = data.load()
    dimensions = choose_dimensions(benchmark.dimensions, data.dimension)
    others = _read_others(chosen, benchmark, dimensions)
    recorded = open_recorded(context, judgments_from, source=data.source)
    budgeted = spending.Spending(money)

    judge_asked = (judging.judge or "builtin", judging.judge_option)
    writer_asked = (ladders.writer or judging.judge or "builtin", ladders.writer_option, "--writer-option")
    judge_writes = ladders.writer in (None, judging.judge) and not ladders.writer_option
    settings = MethodSettings(
        seed=drawing.seed,
        writer=None if judge_writes else partial(budgeted.open, *writer_asked),
        ladders=ladders.ladders,
        rungs=ladders.rungs,
        attempts=ladders.attempts,
        sampling=drawing.sampling,
        rule=judging.rule,
        least_mass=judging.least_mass,
        orders=judging.orders,
        yes_no=judging.yes_no,
        budget=chosen.comparisons,
        selection=chosen.selection,
        answers=judging.answers,
        prompts=prompts,
        work=work,
        restart=restart,
        options=console.pairs(chosen.method_options, "--method-option"),
        progress=budgeted.progress,
    )
    names = chosen.names(judging.judge or ladders.writer or ladders.ladders or judgments_from)
    if recorded is not None:
        if data.benchmark == OWN and data.dimension:  # whose table was read without the other dimensions
            recorded = recorded.on(data.dimension)
        names = [default_method(recorded)] if chosen.methods is None else names
        check_recorded(recorded, benchmark, names, settings)
    asked = Protocol(
        levels=protocol.levels or (LEVELS if output.table_format == "json" else LEVELS[:1]),
        statistics=protocol.statistics or (STATISTICS if output.table_format == "json" else STATISTICS[:1]),
        constant=protocol.constant,
        resamples=protocol.resamples,
        seed=drawing.seed,
        reference=protocol.reference,
        baselines=protocol.baselines,
    )
    check_evaluation(benchmark, dimensions, names, others, asked)  # before a dry run too

    def rehearse() -> None:
        unasked = None if recorded is None else Unanswered(recorded)
        judge = partial(budgeted.open, *judge_asked) if unasked is None else lambda: unasked
        for name, sentence in rehearse_methods(names, benchmark, dimensions, judge, settings):
            console.say(f"{name}: {sentence}", err=True)

    if not budgeted.continues(rehearse, as_json=output.as_json):
        return 0
    evaluation = evaluate(
        benchmark,
        judge=recorded or partial(budgeted.open, *judge_asked),
        dimensions=dimensions,
        methods=names,
        others=others,
        settings=settings,
        protocol=asked,
        config=console.resolved(context),
    )
    # The report card is printed for methods that were named: `ladder` alone, the default, has the summary of its run.
    _print(evaluation.rows, evaluation.cards if chosen.methods is not None else (), output.table_format)
    _keep(work, evaluation, benchmark, dimensions, others)
    _draw(output, evaluation, benchmark, dimensions, drawing.seed)
    for sentence in (*evaluation.limits, *evaluation.notes):
        console.say(sentence, err=True)
    for run in evaluation.runs:
        if run.result.report is not None and output.table_format == "text":
            console.tell(run.result.report, as_json=False, to_stderr=True)
    console.tell_spent(budgeted.spent())
    return 0 if evaluation.complete else console.UNSCORED


def _read_others(chosen: MethodOptions, benchmark: Benchmark, dimensions: Sequence[Dimension]) -> list[Method]:
    from refladder.methods.score_files import read_scores  # noqa: PLC0415  --help stays quick

    columns = console.pairs(chosen.score_column, "--score-column")
    if columns and not chosen.scores:
        raise UsageError("--score-column names a column of --scores FILE, and no file is given; add --scores FILE")
    return [read_scores(path, benchmark, dimensions, columns) for path in chosen.scores]


def _keep(
    work: Path | None,
    evaluation: Evaluation,
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    others: Sequence[Method],
) -> None:
    """Write the results into the work folder, if there is one, for `refladder review`."""
    from refladder.jobs.evaluation_results import write_evaluation  # noqa: PLC0415  --help stays quick

    if work is not None:
        write_evaluation(work, evaluation, benchmark, dimensions, others)


def _draw(
    output: OutputOptions, evaluation: Evaluation, benchmark: Benchmark, dimensions: Sequence[Dimension], seed: int
) -> None:
    """Write figures into a folder and a page with tables and figures, and print why a figure could not be drawn."""
    from refladder.arena.card_page import card_page  # noqa: PLC0415
    from refladder.files.jsonl import atomic  # noqa: PLC0415  --help stays quick
    from refladder.report.agreement_tables import agreement_tables  # noqa: PLC0415
    from refladder.report.cards import card_tables  # noqa: PLC0415
    from refladder.report.figures import consistency_tables, draw_figures  # noqa: PLC0415

    if output.figures is None and output.page is None:
        return
    rows, cards = evaluation.rows, evaluation.cards
    files, missing = draw_figures(rows, cards, evaluation.runs, benchmark, dimensions=dimensions, seed=seed)
    for reason in missing:
        console.say(reason, err=True)
    if output.figures is not None:
        for name, text in files.items():
            with atomic(output.figures / name) as stream:
                stream.write(text.encode())
    if output.page is not None:
        notes = [*(f"{row.method}: {row.signature}" for row in rows), *evaluation.notes, *missing]
        drawn = [text for name, text in files.items() if name.endswith(".svg")]
        title = f"{benchmark.name}: agreement with people"
        tables = [*agreement_tables(rows), *card_tables(cards), *consistency_tables(files)]
        with atomic(output.page) as stream:
            stream.write(card_page(title, tables, drawn, list(dict.fromkeys(notes))).encode())


def _print(rows: Sequence[Agreement], cards: Sequence[Card], form: str) -> None:
    from refladder.report.agreement_tables import agreement_tables  # noqa: PLC0415
    from refladder.report.cards import card_tables  # noqa: PLC0415
    from refladder.report.rendering import json_lines, latex, markdown  # noqa: PLC0415

    tables = [*agreement_tables(rows), *card_tables(cards)]
    if form == "json":
        console.say(console.printable_json(json_lines(rows) + json_lines(cards)), nl=False)
    elif form == "text":
        console.say_tables(tables)
    else:
        console.say(markdown(tables) if form == "markdown" else latex(tables), nl=False)
