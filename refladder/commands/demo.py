"""refladder demo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.backends import connect
from refladder.backends.builtin import NOTICE
from refladder.calibration.records import Filtering
from refladder.cli import console
from refladder.cli.options import subcommand
from refladder.errors import plural
from refladder.events import Silent
from refladder.files.jsonl import atomic, throw_away, to_json
from refladder.files.ladder_sets import find_folder, load_ladders
from refladder.options import like
from refladder.records import names_of
from refladder.session import Session
from refladder.settings import BuildSpec, ScoreSpec, Scoring, Tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Benchmark
    from refladder.scoring.score_report import ScoreReport

# The recorded answers of a large language model about replies; a folder beside the demo sets.
MODEL, REPLIES = "openai:large-language-model", "replies"
FILES = "replies.csv", "answers/answers.jsonl", "answers/folder.json"
REPLY_SET, CRITERION = "general/reply", "helpfulness"
COLUMNS = {"output_id": "id", "context": "question", "output": "reply"}
# Replies shown on either side of the cut-off.
SHOWN, WIDE = 3, 84
SETS = ("demo/summarization", "demo/dialogue", "demo/story")
THRESHOLD = 3.0
INTRODUCTION = (
    "No model and no network: a large language model was asked once, and its answers are shipped."
)
BASELINE = f"""
== What a judge must beat
{NOTICE}. It takes every step on three small data sets.
Each set has contexts, outputs of six systems for each context, and a rating from 1 to 5 for each output."""
EXPLANATION = """\
4. evaluate: do scores put a context's outputs in the same order as the ratings? 1: the same, 0: no relation,
   -1: the reverse. `ladder` is the baseline on ladders; the surface measures count words too and need no ladder.
   A judge that reads must beat both."""
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

    The demo needs no model and no network. It begins with recorded answers of a large language model. After that, the
    built-in baseline is the writer and the judge.

    Examples:
        refladder demo
        refladder demo --out results
    """
    console.say(INTRODUCTION)
    _real_judge(out / REPLIES)
    console.say(BASELINE)
    for name in SETS:
        with Session(store=False) as session:
            _run(name, out / name.rpartition("/")[2], session)
    _picture(out)
    console.say(f"\nEverything the demo wrote is in {out}/. A text of yours on the same ladder:")
    console.say(
        f'  refladder score --ladders {SETS[-1]} --context-id {CONTEXT} --text "Once upon a time ..."'
    )
    console.say(OWN_DATA)


def _real_judge(folder: Path) -> None:
    """Place replies on a shipped set by the recorded answers of a large language model, and show both sides of the cut-off."""
    from refladder.calibration import filter as filtering
    from refladder.display.rendering import short
    from refladder.files.tables import read_rows
    from refladder.scoring.columns import column_names

    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic(path) as stream:
            stream.write((find_folder(SETS[0]).parent / REPLIES / name).read_bytes())
    replies, scored, kept = (folder / name for name in (FILES[0], "scored.jsonl", "kept.jsonl"))
    answers = f"file:{folder / 'answers'}"
    report = _score(
        Scoring(ladders=REPLY_SET, dimensions=[CRITERION], answers="rating:stated"),
        Tables(source=str(replies), out=str(scored)),
        connect(MODEL, base_url=answers),
        COLUMNS,
    )
    column = column_names(CRITERION).grade
    split = filtering.run(
        Filtering(min={column: THRESHOLD}), Tables(source=str(scored), out=str(kept)), Silent()
    )
    columns = " ".join(f"--column {name}={found}" for name, found in COLUMNS.items())
    console.say(f"\n== A large language model as the judge: {report.rows} replies on {REPLY_SET}")
    console.say(
        f"  refladder score {replies} --ladders {REPLY_SET} --dimension {CRITERION} --judge {MODEL} "
        f"--base-url {answers} --answers rating:stated {columns} --out scored.jsonl"
    )
    console.say(f"  refladder filter scored.jsonl --min {column}={THRESHOLD:g} --out kept.jsonl")
    console.say(
        f"It rated each reply once, and {len(report.rung_ratings)} texts of the set, from bad to good. A grade is the place "
        f"among these: {THRESHOLD:g} is in the middle.\n"
        f"{split.passed} of {split.rows} replies have {column} >= {THRESHOLD:g}. On either side of this cut-off:"
    )
    rows = [row.fields for row in read_rows(str(scored))]
    rows.sort(key=lambda row: float(row[column]), reverse=True)
    for row in rows[split.passed - SHOWN : split.passed + SHOWN]:
        side = "kept" if row[column] >= THRESHOLD else "dropped"
        console.say(f"  {row[column]:.2f} {side:7} {short(row['question'], WIDE)}")
        console.say(f"  {'':12} {short(row['reply'], WIDE)}")
    decisions = [(len(row["reply"]), row[column] >= THRESHOLD) for row in rows]
    differ, cut = min(
        (sum((length >= cut) is not keep for length, keep in decisions), cut)
        for cut, _ in decisions
    )
    console.say(
        f"The best rule of length, at least {cut} characters, decides otherwise on {differ} of {len(rows)} replies. "
        f"Compare it with a judge on your\nown texts, before you pay for the judge."
    )


def _run(name: str, folder: Path, session: Session) -> None:
    from refladder.calibration import filter as filtering
    from refladder.evaluation import evaluate
    from refladder.evaluation.agreement_tables import agreement_tables
    from refladder.ladders import build
    from refladder.loaders import load_benchmark
    from refladder.methods.contract import MethodSettings
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
    report = _baseline(opened, names_of(dimensions), outputs, scored)
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


def _baseline(
    ladders: LadderSet, dimensions: Sequence[str], source: Path, scored: Path
) -> ScoreReport:
    asked = Scoring(ladders=ladders, dimensions=dimensions, any_judge=True)
    return _score(asked, Tables(source=str(source), out=str(scored)), connect("builtin"), {})


def _score(
    asked: Scoring, tables: Tables, judge: Backend, columns: Mapping[str, str]
) -> ScoreReport:
    from refladder.jobs.score import run

    spec = ScoreSpec(asked=asked, tables=tables, judge=judge, columns=columns)
    with Session(store=False) as session:
        return run(spec, session, Silent())


def _picture(out: Path) -> None:
    """Print a shipped ladder with a new text on it."""
    from refladder.jobs.show_command import command as show

    new, scored = out / "new.jsonl", out / "new-scored.jsonl"
    _write(new, [{"output_id": "new", "context_id": CONTEXT, "output": NEW}])
    ladders = load_ladders(SETS[-1])
    dimension = ladders.dimensions[0]
    _baseline(ladders, [dimension.name], new, scored)
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
