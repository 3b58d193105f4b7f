"""refladder evaluate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console
from refladder.cli.data import DATA, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.jobs.columns import ScoreReport
    from refladder.jobs.evaluate import Method
    from refladder.metaeval.agreement import Agreement
    from refladder.records import Benchmark, Dimension

LEVELS = ("within_context", "pooled", "between_systems")
STATISTICS = ("spearman", "kendall", "pearson")


@click.command(short_help="Compare scores with human ratings.")
@DATA
@click.option(
    "--judge",
    metavar="BACKEND",
    shell_complete=console.names_of("backends"),
    help="What compares outputs with ladders. builtin, or no ladders at all when only --scores are asked for.",
)
@click.option("--writer", metavar="BACKEND", help="What writes the ladders. The judge.")
@click.option(
    "--ladders",
    metavar="SET",
    shell_complete=console.names_of("ladders"),
    help="Ladders that exist, instead of new ones.",
)
@click.option(
    "--scores",
    "scores",
    multiple=True,
    metavar="FILE",
    help="Scores of any other program, one row an output (output_id, then a column a dimension); repeat.",
)
@console.SAMPLING
@console.RULE
@console.JUDGING
@click.option(
    "--level", "levels", multiple=True, type=click.Choice(LEVELS), help="Levels; repeat. All in JSON, else the first."
)
@click.option(
    "--statistic",
    "statistics",
    multiple=True,
    type=click.Choice(STATISTICS),
    help="Statistics; repeat. All in JSON, else the first.",
)
@click.option(
    "--constant",
    default="skip",
    type=click.Choice(["skip", "zero", "one"]),
    help="What a context without a correlation counts: nothing, as Liusie et al., or as PairS and ZEPO.",
)
@click.option("--resamples", default=1000, type=click.IntRange(min=1), help="Bootstrap resamples and permutations.")
@click.option("--reference", metavar="METHOD", help="Test every other method against this one, paired by context.")
@click.option("--work", type=console.PATH, help="Folder that keeps ladders and judgments, to go on from.")
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
    judge: str | None,
    scores: tuple[str, ...],
    levels: tuple[str, ...],
    statistics: tuple[str, ...],
    constant: str,
    resamples: int,
    reference: str | None,
    seed: int,
    work: Path | None,
    prompts: Path | None,
    form: str,
    as_json: bool,
    **judging: Any,  # noqa: ANN401  the options of _ladder_method
) -> int:
    """Build ladders for BENCHMARK, score its outputs, and tell how well the scores agree with its ratings.

    The surface baselines (length, distinct words, coverage) stand in every table. Exit code 3: some outputs have no
    score; they are left out of their contexts and counted.
    """
    from refladder.artifacts import write_json  # noqa: PLC0415  --help stays quick
    from refladder.jobs.evaluate import Protocol, agreement, read_scores  # noqa: PLC0415
    from refladder.published import choose_dimensions  # noqa: PLC0415

    console.check_prompts(prompts)
    if as_json:
        form = "json"
    loaded = load(benchmark=benchmark, source=source, task_file=task_file, column=column, option=option)
    dimensions = choose_dimensions(loaded.dimensions, dimension)
    methods = [read_scores(path, loaded, dimensions) for path in scores]
    report = None
    if judge is not None or not scores:
        method, report = _ladder_method(
            loaded, dimensions, judge=judge or "builtin", seed=seed, work=work, prompts=prompts, **judging
        )
        methods.insert(0, method)
    rows = agreement(
        loaded,
        dimensions,
        methods,
        Protocol(
            levels=levels or (LEVELS if form == "json" else LEVELS[:1]),
            statistics=statistics or (STATISTICS if form == "json" else STATISTICS[:1]),
            constant=constant,
            resamples=resamples,
            seed=seed,
            reference=reference,
        ),
    )
    if work is not None:
        write_json(work / "run.json", console.resolved(context))
    _print(rows, form)
    if report is not None and form == "text":
        console.tell(report, as_json=False, to_stderr=True)
    unscored = any(row.unscored for row in rows)
    return console.UNSCORED if unscored else 0


def _ladder_method(
    loaded: Benchmark,
    dimensions: Sequence[Dimension],
    *,
    judge: str,
    writer: str | None,
    ladders: str | None,
    rungs: int,
    attempts: int,
    seed: int,
    max_tokens: int,
    temperature: float,
    top_p: float,
    rule: str,
    both_orders: bool,
    yes_no: bool,
    work: Path | None,
    prompts: Path | None,
    restart: bool,
) -> tuple[Method, ScoreReport]:
    from refladder.jobs.columns import Scale  # noqa: PLC0415
    from refladder.jobs.evaluate import evaluation_ladders, score_benchmark  # noqa: PLC0415
    from refladder.jobs.score import Scorer  # noqa: PLC0415
    from refladder.published import choose_dimensions, read_ladder_set  # noqa: PLC0415
    from refladder.records import Sampling  # noqa: PLC0415
    from refladder.scoring.rules import rule_named  # noqa: PLC0415

    rule_named(rule)
    judging = console.open_backend(judge)
    if ladders is not None:
        opened = read_ladder_set(ladders)
        choose_dimensions(opened.dimensions, [dimension.name for dimension in dimensions])
        texts = {one.id: one for one in loaded.contexts}  # a published set may hold the ladders alone
        opened = replace(opened, contexts=texts | dict(opened.contexts))
    else:
        writing = judging if writer in (None, judge) else console.open_backend(str(writer))
        with console.progress("writing ladders") as progress:
            opened, failures = evaluation_ladders(
                writing,
                loaded,
                dimensions,
                rungs=rungs,
                sampling=Sampling(max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed),
                attempts=attempts,
                prompts=prompts,
                work=work,
                restart=restart,
                progress=progress,
            )
        if failures:
            click.echo(f"{len(failures):,} rungs could not be written; their outputs have no score", err=True)
    scorer = Scorer(
        judging,
        opened,
        dimensions,
        Scale(rule=rule, weights={}),
        role="compare-yesno" if yes_no else "compare",
        orders=2 if both_orders else 1,
        prompts=prompts,
    )
    with console.progress("judging") as progress:
        return score_benchmark(
            scorer,
            loaded,
            judgments=work / "judgments.jsonl" if work else None,
            restart=restart,
            progress=progress,
        )


def _print(rows: list[Agreement], form: str) -> None:
    from refladder.metaeval.tables import to_json_lines, to_latex, to_markdown, to_rich  # noqa: PLC0415

    if form == "json":
        click.echo(to_json_lines(rows), nl=False)
    elif form == "text":
        out = console.console()
        for table in to_rich(rows):
            out.print(table)
    else:
        click.echo(to_markdown(rows) if form == "markdown" else to_latex(rows), nl=False)
