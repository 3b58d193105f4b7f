"""refladder demo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.backends import connect
from refladder.backends.builtin import NOTICE
from refladder.commands import console
from refladder.commands.options import subcommand
from refladder.errors import plural
from refladder.events import Silent
from refladder.files.jsonl import atomic, throw_away, to_json
from refladder.files.ladder_sets import load_ladders
from refladder.options import like
from refladder.records import names_of
from refladder.session import Session
from refladder.settings import BuildSpec, Filtering, ScoreSpec, Scoring, Tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Benchmark
    from refladder.scoring.score_report import ScoreReport

SETS = ("demo/summarization", "demo/dialogue", "demo/story")
THRESHOLD = 3.0
INTRODUCTION = f"""\
Three small data sets, no model and no network. {NOTICE}.
Each set has contexts, outputs of six systems for each context, and a rating from 1 to 5 for each output."""
EXPLANATION = """\
4. evaluate: do scores put a context's outputs in the same order as the ratings? 1: the same, 0: no relation,
   -1: the reverse. `ladder` is refladder; the other rows need no ladder: a method should beat them."""
CONTEXT = "story-04"
NEW = "Ember sneezed whenever she stood near the hoard, so she traded the gold for opals, and guarded those in peace."
OWN_DATA = (
    "Your own data: `refladder score TABLE --ladders general/reply` scores replies to prompts that are new every day. "
    "For prompts that come back, `refladder build TABLE --task-file TASK.toml --writer MODEL --out my-ladders` "
    "generates ladders, and `refladder score TABLE --ladders my-ladders` scores with them."
)


@subcommand(
    "Run every step on shipped data.",
    like("out_folder", default="demo-output", help="Output folder of the demo."),
)
def command(*, out: Path) -> None:
    """Build ladders, score outputs, filter by a threshold and evaluate against ratings, on shipped data.

    The demo needs no model and no network. The built-in backend is the writer and the judge.

    Examples:
        refladder demo
        refladder demo --out results
    """
    console.say(INTRODUCTION)
    for name in SETS:
        with Session(store=False) as session:
            _run(name, out / name.rpartition("/")[2], session)
    _picture(out)
    console.say(f"\nEverything the demo wrote is in {out}/. A text of yours on the same ladder:")
    console.say(
        f'  refladder score --ladders {SETS[-1]} --context-id {CONTEXT} --text "Once upon a time ..."'
    )
    console.say(OWN_DATA)


def _run(name: str, folder: Path, session: Session) -> None:
    from refladder.jobs import build, evaluate
    from refladder.jobs import filter as filtering
    from refladder.loaders import load_benchmark
    from refladder.methods.contract import MethodSettings
    from refladder.report.agreement_tables import agreement_tables
    from refladder.scoring.columns import column_names
    from refladder.statistics.agreement import PARTIAL
    from refladder.synth.journal import JOURNAL

    backend = connect("builtin")
    benchmark = load_benchmark(name)
    dimensions = benchmark.dimensions
    counts = (
        f"{plural(len(benchmark.contexts), 'context')}, {plural(len(benchmark.outputs), 'output')}"
    )
    console.say(f"\n== {name}: {counts}")
    # It may be that of another version of the demo.
    throw_away(folder / "ladders" / JOURNAL)
    spec = BuildSpec(
        contexts=benchmark.contexts,
        dimensions=dimensions,
        folder=folder / "ladders",
        writer=backend,
    )
    built = build.run(spec, session, Silent())
    ladders = plural(built.ladders, "ladder")
    console.say(f"1. build: {ladders} of 5 texts of rising quality, {len(built.failures)} failed")
    opened = load_ladders(str(folder / "ladders"))
    outputs = folder / "outputs.jsonl"
    _write(outputs, _rows(benchmark))
    scored, passed = folder / "scored.jsonl", folder / "passed.jsonl"
    report = _score(opened, names_of(dimensions), outputs, scored)
    console.say(
        f"2. score: {report.rows} outputs, {report.judgments} comparisons, {sum(report.unscored.values())} unscored"
    )
    column = column_names(dimensions[0].name).grade
    split = filtering.run(
        Filtering(min={column: THRESHOLD}), Tables(source=str(scored), out=str(passed)), Silent()
    )
    console.say(
        f"3. filter: {split.passed} of {split.rows} outputs have {column} >= {THRESHOLD:g} and go to {passed}"
    )
    console.say(EXPLANATION)
    evaluated = evaluate.EvaluateSpec(
        benchmarks=[(benchmark, dimensions)],
        judge=backend,
        methods=["ladder"],
        settings=MethodSettings(ladders=str(folder / "ladders")),
    )
    (evaluation,) = evaluate.run(evaluated, session, Silent())
    rows = [row for row in evaluation.rows if row.statistic != PARTIAL]
    console.say_tables(agreement_tables(rows))


def _score(
    ladders: LadderSet, dimensions: Sequence[str], source: Path, scored: Path
) -> ScoreReport:
    from refladder.jobs.score import run

    spec = ScoreSpec(
        asked=Scoring(ladders=ladders, dimensions=dimensions, any_judge=True),
        tables=Tables(source=str(source), out=str(scored)),
        judge=connect("builtin"),
    )
    with Session(store=False) as session:
        return run(spec, session, Silent())


def _picture(out: Path) -> None:
    """Print a shipped ladder with a new text on it."""
    from refladder.commands.show import command as show

    new, scored = out / "new.jsonl", out / "new-scored.jsonl"
    _write(new, [{"output_id": "new", "context_id": CONTEXT, "output": NEW}])
    ladders = load_ladders(SETS[-1])
    dimension = ladders.dimensions[0]
    _score(ladders, [dimension.name], new, scored)
    console.say("\n== A ladder of five texts that was written by hand, and a new text on it:")
    console.say(
        f"  refladder show {SETS[-1]} {CONTEXT} --dimension {dimension.name} --scores {scored}"
    )
    click.get_current_context().invoke(
        show, ladders=SETS[-1], context_id=CONTEXT, dimension=(dimension.name,), scores=str(scored)
    )


def _rows(benchmark: Benchmark) -> Iterator[dict[str, str]]:
    for output in benchmark.outputs:
        yield {
            "output_id": output.id,
            "context_id": output.context_id,
            "system": output.system,
            "output": output.text,
        }


def _write(path: Path, rows: Iterable[Mapping[str, str]]) -> None:
    with atomic(path) as stream:
        for row in rows:
            stream.write(to_json(row) + b"\n")
