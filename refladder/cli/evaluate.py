"""refladder evaluate."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from refladder.cli import console, spending
from refladder.cli.data import DATA, load
from refladder.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.backends.estimate import Plan
    from refladder.metaeval.agreement import Agreement
    from refladder.methods.contract import Method, MethodRun
    from refladder.records import Benchmark, Dimension
    from refladder.report.cards import Card

LEVELS = ("within_context", "pooled", "between_systems")
STATISTICS = ("spearman", "kendall", "pearson")


@click.command(short_help="Compare scores with human ratings.")
@DATA
@click.option(
    "--methods",
    metavar="NAME,...",
    shell_complete=console.names_of("methods"),
    help="Methods to run, and a report card of cost and faults; see `refladder list methods`. Without it, ladder; with "
    "--scores and none of --judge, --writer and --ladders, the scores alone, and no judge is asked.",
)
@click.option(
    "--comparisons",
    type=click.IntRange(min=1),
    help="Number of comparisons of one context and dimension that pairwise methods ask. Without it, all pairs.",
)
@click.option(
    "--selection",
    default="symmetric",
    type=click.Choice(["random", "no-repeat", "symmetric"]),
    help="How --comparisons are chosen: any ordered pairs, no pair twice, or both orders of a pair together.",
)
@console.ANSWERS
@click.option(
    "--method-option",
    "method_options",
    multiple=True,
    metavar="METHOD.KEY=VALUE",
    help="An option of one method, such as pairs-beam.beam=10; may be repeated.",
)
@console.backend_option("--judge", "The model that judges; `refladder list backends`. Without it, builtin.")
@console.JUDGE_OPTION
@console.backend_option("--writer", "The model that writes the ladders. Without it, the judge.")
@console.WRITER_OPTION
@console.BASE_URL
@console.LOCAL
@click.option(
    "--ladders",
    metavar="SET",
    shell_complete=console.names_of("ladders"),
    help="Ladder set to use (a shipped name or a folder), instead of writing one.",
)
@click.option(
    "--scores",
    "scores",
    multiple=True,
    metavar="FILE",
    help="Scores of any other program, one row an output (output_id, then a column a dimension); may be repeated.",
)
@click.option(
    "--score-column",
    "score_column",
    multiple=True,
    metavar="DIMENSION=COLUMN",
    help="Column of --scores that holds the scores of a dimension; may be repeated. Without it, DIMENSION_score, "
    "else DIMENSION, else score.",
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
    help="What is correlated: outputs of one context, all outputs, or means of systems; may be repeated. Without it, "
    "within_context; in JSON, all.",
)
@click.option(
    "--statistic",
    "statistics",
    multiple=True,
    type=click.Choice(STATISTICS),
    help="Correlation; may be repeated. Without it, spearman; in JSON, all.",
)
@click.option(
    "--constant",
    default="skip",
    type=click.Choice(["skip", "zero", "one"]),
    help="A context whose ratings or scores are all equal: left out, 0 (Liusie et al.), or 1 (PairS, ZEPO).",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=1),
    help="Number of permutations of each test against --reference. Without it, as many as the number of tests needs.",
)
@click.option(
    "--reference",
    metavar="METHOD",
    help="Test every other method asked for against this one, paired by context, with Holm's correction; without "
    "another method, the surface baselines.",
)
@click.option(
    "--baselines",
    default="best",
    type=click.Choice(["best", "all"]),
    help="Surface measures in the tables: the best of them, chosen for each context on the others, or all.",
)
@click.option(
    "--figures", type=console.PATH, help="Folder for SVG figures: agreement against cost, agreement by budget of pairs."
)
@click.option("--html", "page", type=console.PATH, help="File for the tables and figures as one page, to be mailed.")
@click.option("--work", type=console.PATH, help="Folder that keeps ladders and judgments, to go on from.")
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@click.option(
    "--format",
    "form",
    default="text",
    type=click.Choice(["text", "markdown", "latex", "json"]),
    help="How tables are printed.",
)
@console.JSON
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    benchmark: str,
    source: str | None,
    task_file: Path | None,
    column: tuple[str, ...],
    option: tuple[str, ...],
    dimension: tuple[str, ...],
    methods: str | None,
    comparisons: int | None,
    selection: str,
    answers: int,
    method_options: tuple[str, ...],
    judge: str | None,
    judge_option: tuple[str, ...],
    writer: str | None,
    writer_option: tuple[str, ...],
    ladders: str | None,
    scores: tuple[str, ...],
    score_column: tuple[str, ...],
    rungs: int,
    attempts: int,
    max_tokens: int,
    temperature: float,
    top_p: float,
    rule: str,
    least_mass: float,
    both_orders: bool,
    yes_no: bool,
    levels: tuple[str, ...],
    statistics: tuple[str, ...],
    constant: str,
    resamples: int | None,
    baselines: str,
    reference: str | None,
    seed: int,
    figures: Path | None,
    page: Path | None,
    work: Path | None,
    prompts: Path | None,
    restart: bool,
    form: str,
    as_json: bool,
) -> int:
    """Score the outputs of BENCHMARK with one method or several, and tell how well they agree with its ratings.

    Every table but that of partial correlations has a row for the best of the surface measures, which need no judge.
    Exit code 3: some outputs have no score; they are left out of their contexts and counted.
    """
    from refladder.files.jsonl import write_json  # noqa: PLC0415  --help stays quick
    from refladder.files.ladder_sets import choose_dimensions  # noqa: PLC0415
    from refladder.files.locks import locked_folder  # noqa: PLC0415
    from refladder.jobs.evaluate import Protocol, agreement, check_names, check_ratings, has_single_outputs  # noqa: PLC0415  --help stays quick
    from refladder.methods.contract import (  # noqa: PLC0415  --help stays quick
        LADDER,
        MethodSettings,
        plan_methods,
        run_methods,
        scored_methods,
    )
    from refladder.records import Sampling  # noqa: PLC0415
    from refladder.report.cards import report_cards  # noqa: PLC0415
    from refladder.scoring.dry_run import copied  # noqa: PLC0415

    if ladders is not None and writer is not None:
        raise UsageError("--ladders names ladders that exist, and --writer writes new ones; give one of them")
    console.check_prompts(prompts)
    if as_json:
        form = "json"
    loaded = load(
        benchmark=benchmark, source=source, task_file=task_file, column=column, option=option, dimension=dimension
    )
    dimensions = choose_dimensions(loaded.dimensions, dimension)
    check_ratings(loaded, dimensions)  # before a judge is asked, as all that follows up to the plan
    others = _read_others(scores, score_column, loaded, dimensions)
    budgeted = spending.current(context)

    judge_asked = (judge or "builtin", judge_option)
    writer_asked = (writer or judge or "builtin", writer_option, "--writer-option")
    same = writer in (None, judge) and not writer_option
    asked = methods
    if methods is None:
        methods = LADDER if (judge or writer or ladders) is not None or not scores else ""
    settings = MethodSettings(
        seed=seed,
        writer=None if same else partial(budgeted.open, *writer_asked),
        ladders=ladders,
        rungs=rungs,
        attempts=attempts,
        sampling=Sampling(max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed),
        rule=rule,
        least_mass=least_mass,
        orders=2 if both_orders else 1,
        yes_no=yes_no,
        budget=comparisons,
        selection=selection,
        answers=answers,
        prompts=prompts,
        work=work,
        restart=restart,
        options=console.pairs(method_options, "--method-option"),
        progress=partial(console.progress, watch=budgeted.under_way),
    )
    names = [name.strip() for name in methods.split(",") if name.strip()]
    check_names([*dict.fromkeys(names), *(other.name for other in others)], reference)  # before a judge is asked

    def plan(costs: Plan) -> None:
        with copied(None if restart else work) as copy:
            writing = None if same else partial(budgeted.connect, *writer_asked)
            planned = replace(settings, work=copy, kept={}, writer=writing)
            judging = partial(budgeted.connect, *judge_asked)
            for name, sentence in plan_methods(costs, names, loaded, dimensions, judging, planned):
                console.say(f"{name}: {sentence}", err=True)

    if not budgeted.continues(plan, as_json=as_json):
        return 0
    # Before a model is loaded or a server is asked:
    context.with_resource(nullcontext() if work is None else locked_folder(work))
    runs = run_methods(names, loaded, dimensions, partial(budgeted.open, *judge_asked), settings)
    scored = scored_methods(runs, others)
    rows = agreement(
        loaded,
        dimensions,
        scored,
        Protocol(
            levels=levels or (LEVELS if form == "json" else LEVELS[:1]),
            statistics=statistics or (STATISTICS if form == "json" else STATISTICS[:1]),
            constant=constant,
            resamples=resamples,
            seed=seed,
            reference=reference,
            baselines=baselines,
        ),
    )
    if work is not None:
        write_json(work / "run.json", console.resolved(context))
    cards = report_cards(runs, loaded, dimensions)
    _print(rows, [] if asked is None else cards, form)  # who asks for the ladder alone is spared a second table
    if figures is not None or page is not None:
        _draw(figures, page, rows=rows, cards=cards, runs=runs, benchmark=loaded, dimensions=dimensions, seed=seed)
    _tell_limits(rows, [*(method.name for method in scored), reference], resamples, single=has_single_outputs(loaded))
    _tell_notes(runs, form)
    console.tell_spent(budgeted.spent())
    unscored = any(row.unscored for row in rows)
    return console.UNSCORED if unscored else 0


def _read_others(
    paths: Sequence[str], score_column: Sequence[str], benchmark: Benchmark, dimensions: Sequence[Dimension]
) -> list[Method]:
    from refladder.methods.score_files import read_scores  # noqa: PLC0415  --help stays quick

    named = console.pairs(score_column, "--score-column")
    if named and not paths:
        raise UsageError("--score-column names a column of --scores FILE, and no file is given; add --scores FILE")
    return [read_scores(path, benchmark, dimensions, named) for path in paths]


def _tell_limits(
    rows: Sequence[Agreement], names: Sequence[str | None], resamples: int | None, *, single: bool
) -> None:
    """Say what the tables cannot show: no correlation, fewer contexts than a method has, too few permutations."""
    from refladder.jobs.evaluate import few_permutations, narrowed_contexts  # noqa: PLC0415  --help stays quick

    if single and any(row.level == "within_context" for row in rows):
        click.echo(
            f"{rows[0].benchmark}: every context has one output, so there is no correlation within contexts; the level "
            "pooled compares outputs of different contexts",
            err=True,
        )
    elif all(row.value is None and not row.correlated for row in rows):
        click.echo(
            f"{rows[0].benchmark}: no correlation: it takes two outputs with different ratings and different scores, "
            "and no context has them; `--level pooled` compares outputs of different contexts",
            err=True,
        )
    for sentence in narrowed_contexts(rows, names):
        click.echo(sentence, err=True)
    few = None if resamples is None else few_permutations(rows, resamples)
    if few is not None:
        click.echo(few, err=True)


def _tell_notes(runs: Sequence[MethodRun], form: str) -> None:
    for run in runs:
        for note in (run.result.skipped, *run.result.notes):
            if note is not None:
                console.say(f"{run.name}: {note}", err=True)
        if run.result.report is not None and form == "text":
            console.tell(run.result.report, as_json=False, to_stderr=True)


def _draw(
    folder: Path | None,
    page: Path | None,
    *,
    rows: Sequence[Agreement],
    cards: Sequence[Card],
    runs: Sequence[MethodRun],
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    seed: int,
) -> None:
    """Write figures into a folder, and a page with tables and figures, and say which could not be drawn."""
    from refladder.files.jsonl import atomic  # noqa: PLC0415  --help stays quick
    from refladder.report.cards import card_tables  # noqa: PLC0415
    from refladder.report.figures import consistency_tables, draw_figures  # noqa: PLC0415
    from refladder.report.page import card_page  # noqa: PLC0415
    from refladder.report.rendering import plain_tables  # noqa: PLC0415

    files, missing = draw_figures(rows, cards, runs, benchmark, dimensions=dimensions, seed=seed)
    for reason in missing:
        console.say(reason, err=True)
    if folder is not None:
        for name, text in files.items():
            with atomic(folder / name) as stream:
                stream.write(text.encode())
    if page is not None:
        told = [f"{row.method}: {row.signature}" for row in rows]
        told += [f"{run.name}: {note}" for run in runs for note in (run.result.skipped, *run.result.notes) if note]
        drawn = [text for name, text in files.items() if name.endswith(".svg")]
        title = f"{benchmark.name}: agreement with people"
        tables = [*plain_tables(rows), *card_tables(cards), *consistency_tables(files)]
        with atomic(page) as stream:
            stream.write(card_page(title, tables, drawn, list(dict.fromkeys([*told, *missing]))).encode())


def _print(rows: list[Agreement], cards: list[Card], form: str) -> None:
    from refladder.report.cards import card_tables, cards_to_json_lines, cards_to_rich  # noqa: PLC0415
    from refladder.report.rendering import latex, markdown, plain_tables, to_json_lines, to_rich  # noqa: PLC0415

    if form == "json":
        click.echo(console.printable_json(to_json_lines(rows) + cards_to_json_lines(cards)), nl=False)
    elif form == "text":
        out = console.console()
        for table in [*to_rich(rows, out.width), *cards_to_rich(cards, out.width)]:
            out.print(table)
    else:
        tables = [*plain_tables(rows), *card_tables(cards)]
        click.echo(console.printable(markdown(tables) if form == "markdown" else latex(tables)), nl=False)
