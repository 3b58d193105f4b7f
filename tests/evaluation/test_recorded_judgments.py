"""Judgments of other programs: read from a table, checked, and used in the place of a judge."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluating import evaluate
from json_lines import read_lines
from simulated import Simulated, benchmark_of, text_of

import refladder
from refladder.backends import connect
from refladder.errors import UsageError
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.scoring.recorded import read_recorded

PAIRWISE = [
    "win-ratio", "win-ratio-debiased", "mean-probability", "mean-probability-debiased", "bradley-terry", "poe",
    "likelihood", "pairs-greedy", "pairs-beam",
]  # fmt: skip
COSTS = {"calls", "characters", "prompt_tokens", "distinct_tokens", "seconds", "judge_seconds", "reused"}  # fmt: skip
PAIRS = "context_id,dimension,first,second,"
LADDER = "context_id,dimension,output,rung,"
ASTER, BIRCH = "dialogue-01/aster", "dialogue-01/birch"
CELL = "dialogue-01,engagingness"
OF_RUNGS = f"{LADDER}outcome\n{CELL},{ASTER},1,win\n"
OF_PAIRS = f"{PAIRS}p\n{CELL},{ASTER},{BIRCH},1\n"
DIALOGUE = "evaluate demo/dialogue --ladders demo/dialogue --judgments-from"


def made(qualities=(3.0, 2.0, 1.0)):
    """Three texts of one context with the ids a, b and c; people rate a above b above c."""
    benchmark = benchmark_of([[3.0, 2.0, 1.0]])
    names = dict(zip((output.id for output in benchmark.outputs), "abc", strict=True))
    outputs = [
        replace(output, id=names[output.id], system=names[output.id], text=text_of(quality))
        for output, quality in zip(benchmark.outputs, qualities, strict=True)
    ]
    ratings = [replace(each, output_id=names[each.output_id]) for each in benchmark.ratings]
    return replace(benchmark, outputs=tuple(outputs), ratings=tuple(ratings))


@pytest.fixture
def write(tmp_path):
    def go(text, name="verdicts.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return go


@pytest.fixture
def by_hand(write):
    lines = [f"c0,worth,{verdict}\n" for verdict in ("a,b,first", "b,a,first", "a,c,a", "c,a,a", "b,c,tie")]  # fmt: skip
    return write(f"{PAIRS}winner\n" + "".join(lines))


def fingerprint(path):
    return read_recorded(str(path)).fingerprint


def evaluated(path, methods, benchmark=None, **settings):
    judge = read_recorded(str(path))
    settings = MethodSettings(**settings)
    return evaluate(benchmark or made(), judge=judge, methods=methods, settings=settings)


def test_hand_work(by_hand):
    """Five verdicts, and (c, b) is missing.

    Wins as the first text / as the second: (a, b) a wins; (b, a) b wins; (a, c) a wins; (c, a) a wins; (b, c) a tie.
    Win ratios: a 3 of 4 = .75; b (0 + 1 + .5) of 3 = .5; c (0 + 0 + .5) of 3 = 1/6.
    P(first) = (1 + 1 + 1 + 0 + .5) / 5 = .7.
    Order inconsistency: of the pairs with both orders, {a, b} disagrees and {a, c} agrees: 1 of 2.
    Accuracy against a > b > c: (a, b) 1, (b, a) 0, (a, c) 1, (c, a) 1, (b, c) 1/2: 3.5 of 5.
    """
    evaluation = evaluated(by_hand, ["win-ratio", "mean-probability"])
    scores = evaluation.runs[0].result.method.scores
    assert [scores[name, "worth"] for name in "abc"] == [0.75, 0.5, pytest.approx(1 / 6, abs=1e-15)]
    assert evaluation.runs[1].result.method.scores == scores  # of hard answers
    card = evaluation.cards[0]
    assert (card.judgments, card.unparsed, card.calls, card.characters) == (6, 1, 0, 0)
    assert (card.first.value, card.first.of) == (0.7, 5)
    assert (card.inconsistency.value, card.inconsistency.of) == (0.5, 2)
    assert (card.accuracy.value, card.accuracy.of) == (0.7, 5)
    assert card.tied.value == 0.2  # one of five
    assert evaluation.notes[0] == "win-ratio: unparsed: not among the recorded judgments"
    spearman = next(row for row in evaluation.rows if row.method == "win-ratio")
    assert spearman.value == 1
    assert "|prompts:" not in spearman.signature


def test_sorting_answers_what_it_can(by_hand, write):
    """Merge sort asks pairs in one order that a seed decides; only a sort that never asks (c, b) has an order."""
    complete = write(by_hand.read_text() + "c0,worth,c,b,tie\n")
    (run,) = evaluated(complete, ["pairs-greedy"]).runs
    assert None not in run.result.method.scores.values()
    (run,) = evaluated(write(f"{PAIRS}winner\nc0,worth,a,b,first\n"), ["pairs-greedy"]).runs
    assert set(run.result.method.scores.values()) == {None}
    assert run.result.unparsed == 1


def test_outputs_with_the_same_text_have_verdicts_of_their_own(write):
    rows = ["a,b,1", "b,a,0", "a,c,1", "c,a,0", "b,c,0", "c,b,1"]
    path = write(f"{PAIRS}p\n" + "".join(f"c0,worth,{row}\n" for row in rows))
    (run,) = evaluated(path, ["win-ratio"], benchmark=made((1.0, 1.0, 2.0))).runs
    assert [run.result.method.scores[name, "worth"] for name in "abc"] == [1.0, 0.0, 0.5]


def exported_pairs(folder):
    (path,) = folder.glob("pairwise-*.jsonl")
    for judgment in read_lines(path)[1:]:
        p = None
        if judgment["logprobs"] is not None:
            win, loss = judgment["logprobs"]
            p = 1 / (1 + math.exp(loss - win))
        row = {key: judgment[key] for key in ("context_id", "dimension")}
        yield {**row, "first": judgment["subject"], "second": judgment["against"], "p": p}


def exported_ladder(path):
    for judgment in read_lines(path)[1:]:
        swapped = judgment["subject"].startswith("rung:")
        output, rung = (judgment["subject"], judgment["against"])[:: -1 if swapped else 1]
        row = {key: judgment[key] for key in ("context_id", "dimension")}
        row |= {"output": output, "rung": int(rung.removeprefix("rung:")), "swapped": swapped}
        names = ("loss", "win", "tie") if swapped else ("win", "loss", "tie")
        yield row | dict(zip(names, map(math.exp, judgment["logprobs"]), strict=True))


def without_costs(evaluation):
    cards = [
        {name: getattr(card, name) for name in card.__slots__ if name not in COSTS}
        for card in evaluation.cards
    ]
    return cards, [replace(row, signature="") for row in evaluation.rows]


def test_exported_judgments_of_pairs_give_the_tables_of_the_judge(tmp_path, write):
    """All methods over pairs, with a biased and noisy judge that leaves some comparisons unanswered."""
    orders = np.random.default_rng(2).permuted(np.tile(np.arange(5.0), (4, 1)), axis=1)
    benchmark, work = benchmark_of(orders), MethodSettings(work=tmp_path / "work")
    unparsed = lambda first, second: first[-1] == "0" and second[-1] == "3"  # noqa: E731
    judge = Simulated(first=0.5, noise=1.0, unparsed=unparsed)
    asked = evaluate(benchmark, judge=judge, methods=PAIRWISE, settings=work)
    rows = list(exported_pairs(tmp_path / "work"))
    assert len(rows) == 4 * 20
    lines = [json.dumps(row) + "\n" for row in rows]
    path = write("".join(reversed(lines)), "verdicts.jsonl")
    recorded = evaluated(path, PAIRWISE, benchmark=benchmark)
    assert without_costs(recorded) == without_costs(asked)
    assert sum(card.unparsed for card in recorded.cards) > 0
    assert all(run.calls == 0 for run in recorded.runs)
    # the same verdicts in another order and format have the same signature
    with (tmp_path / "verdicts.csv").open("w", newline="") as stream:
        table = csv.DictWriter(stream, rows[0])
        table.writeheader()
        table.writerows(rows)
    assert fingerprint(tmp_path / "verdicts.csv") == fingerprint(path)
    path.write_text("".join(lines[1:]))
    assert fingerprint(tmp_path / "verdicts.csv") != fingerprint(path)


@pytest.mark.parametrize("orders", [1, 2])
def test_exported_judgments_of_a_ladder_give_the_tables_of_the_judge(tmp_path, write_jsonl, orders):
    benchmark, how = load_benchmark("demo/story"), {"ladders": "demo/story", "orders": orders}
    work = MethodSettings(work=tmp_path / "work", **how)
    asked = evaluate(benchmark, judge=connect("builtin"), settings=work)
    path = write_jsonl(exported_ladder(tmp_path / "work" / "judgments.jsonl"))
    recorded = evaluated(path, ["ladder"], benchmark=benchmark, **how)
    assert without_costs(recorded) == without_costs(asked)
    assert "|backend:recorded@" in recorded.rows[0].signature


def test_score_reads_a_ladder_file(command, tmp_path, rows, write_jsonl):
    """With judgments of the built-in judge; a table of verdicts in Parquet where that can be written."""
    out, again, kept = (tmp_path / f"{name}.jsonl" for name in ("out", "again", "kept"))
    line = f"score {write_jsonl(rows(6))} --ladders demo/story"
    assert command(f"{line} --out {out}").code == 0
    judged = list(exported_ladder(Path(f"{out}.judgments.jsonl")))
    path = write_jsonl(judged, "verdicts.jsonl")
    done = command(f"{line} --judgments-from {path} --out {again} --judgments {kept} --json")
    assert done.code == 0
    told = f"{len(judged)} recorded judgments of outputs against rungs; no model is asked"
    assert done.err == f"{path}: {told}\n"
    assert json.loads(done.out)["spent"] == []
    pairs = zip(out.read_text().splitlines(), again.read_text().splitlines(), strict=True)
    for before, after in (map(json.loads, pair) for pair in pairs):
        assert after.pop("signature") != before.pop("signature")
        assert after.keys() == before.keys()
        for name, value in before.items():
            exact = not isinstance(value, float)
            assert after[name] == (value if exact else pytest.approx(value, abs=1e-9))
    # judgments are stored as those of a judge
    assert command(f"rescore {kept} --rule hard-votes").code == 0
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist(judged), tmp_path / "verdicts.parquet")
    assert fingerprint(tmp_path / "verdicts.parquet") == fingerprint(path)


def values(evaluation, method):
    rows = [row for row in evaluation.rows if row.method == method]
    assert rows
    return [(row.dimension, row.statistic, row.value) for row in rows]


def test_a_judgments_file_gives_the_tables_of_the_judge(tmp_path, write):
    """Of pairs, and of rungs in several files: as a table, without a change of form."""
    story, work = load_benchmark("demo/story"), tmp_path / "work"
    settings = MethodSettings(work=work, ladders="demo/story")
    methods = ["ladder", "win-ratio"]
    asked = evaluate(story, judge=connect("builtin"), settings=settings, methods=methods)
    (of_pairs,) = work.glob("pairwise-*.jsonl")
    recorded = evaluated(of_pairs, ["win-ratio"], benchmark=story)
    assert values(recorded, "win-ratio") == values(asked, "win-ratio")
    head, *rest = (work / "judgments.jsonl").read_text().splitlines(keepends=True)
    parts = {"one.jsonl": rest[:100], "two.jsonl": rest[100:]}
    files = [str(write("".join([head, *lines]), name)) for name, lines in parts.items()]
    settings = MethodSettings(ladders="demo/story")
    recorded = evaluate(story, judge=read_recorded(*files), settings=settings)
    assert values(recorded, "ladder") == values(asked, "ladder")


def test_files_that_do_not_go_together_are_refused(fails, write, tmp_path):
    pairs, ladder = write(OF_PAIRS, "pairs.csv"), write(OF_RUNGS, "ladder.csv")
    text = fails(2, f"{DIALOGUE} {ladder} --judgments-from {pairs}")
    both = (
        f"{pairs} holds judgments of pairs, and {ladder} of rungs; name them in runs of their own"
    )
    assert both in text
    again = write(OF_RUNGS.replace("win", "loss"), "again.csv")
    second = (
        f"a second judgment of {ASTER!r} against 'rung:1' (engagingness, dialogue-01); the first"
    )
    assert f"{again}:2: {second}" in fails(2, f"{DIALOGUE} {ladder} --judgments-from {again}")
    how = {"settings": MethodSettings(work=tmp_path / "w"), "methods": ["direct-5"]}
    evaluate(load_benchmark("demo/story"), judge=connect("builtin"), **how)
    (grades,) = (tmp_path / "w").glob("direct-5*.jsonl")
    grade = "a grade of one text, and recorded judgments are comparisons; name the judgments of"
    assert f"{grades}:2: {grade}" in fails(2, f"evaluate demo/story --judgments-from {grades}")
    anchored = write(f"{LADDER}anchor,outcome\n{CELL},{ASTER},1,a,win\n", "anchored.csv")
    unshared = "anchor 'a', and demo/dialogue is not shared; leave the column out"
    assert f"{anchored}:2: {unshared}" in fails(2, f"{DIALOGUE} {anchored}")


def test_a_ladder_by_hand(command, write_jsonl, write):
    """Score = sum of level * (p(win) - p(loss)): 1 + 2 + 3 * (.5 - .25) + 0 - 5 = -1.25."""
    source = write_jsonl(
        [{"output_id": name, "context_id": "story-01", "output": f"Text {name}."} for name in "xy"]
    )
    line = f"score {source} --ladders demo/story --dimension coherence --judgments-from"
    verdicts = ("1,1,0,0", "2,1,0,0", "3,.5,.25,.25", "4,0,0,1", "5,0,1,0")
    rows = [f"story-01,coherence,x,{verdict}\n" for verdict in verdicts]
    path = write(f"{LADDER}win,loss,tie\n" + "".join(rows))
    done = command(f"{line} {path}")
    assert done.code == 3
    assert [row["coherence_score"] for row in done.rows] == [-1.25, None]
    absent = "5 of 5 judgments unparsed: not among the recorded judgments"
    assert done.rows[1]["coherence_note"] == absent
    assert "2 rows, 1 score missing; 10 judgments (0 reused, 5 unparsed)" in done.err
    words = ("1,win", "2,win", "3,tie", "4,", "5,loss")
    rows = [f"story-01,coherence,{name},{word}\n" for name in "xy" for word in words]
    path.write_text(f"{LADDER}outcome\n" + "".join(rows))
    done = command(f"{line} {path}")
    empty = "1 of 5 judgments unparsed: no judgment in the recorded row"
    assert {row["coherence_note"] for row in done.rows} == {empty}


PAIR, RUNG = f"{CELL},{ASTER},{BIRCH}", f"{CELL},{ASTER},1"
SECOND = f"a second judgment of {ASTER!r} against {BIRCH!r} (engagingness, dialogue-01); the first is in "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2", "2: columns with neither 'rung' nor 'first' and 'second'; a row needs"),
        ("rung,first\n1,2", "2: columns with 'rung' beside 'first' or 'second'; a row needs"),
        (f"{PAIRS}winner\n{PAIR},first\n{PAIR},second", f"3: {SECOND}{{path}}:2; keep one of them"),
        (f"{PAIRS}winner\n{PAIR},A", f"2: winner 'A'; it must be first, second, tie, {ASTER!r} or {BIRCH!r}, or empty"),
        (f"{PAIRS}winner\n{CELL},second,{BIRCH},second",
         "2: winner 'second' is both a word and the id of another text; give p instead"),
        (f"{PAIRS}winner\n{CELL},{ASTER},{ASTER},first", f"2: output {ASTER!r} is compared with itself; drop the row"),
        (f"{PAIRS}p\n{PAIR},1.2", "2: p 1.2; a probability is between 0 and 1"),
        (f"{PAIRS}p\n{PAIR},nan", "2: column 'p': expected a finite number, found 'nan'"),
        (f"{PAIRS}p,winner\n{PAIR},1,first", "2: the judgment is in 'winner' and in 'p'; drop one of the columns"),
        (f"{PAIRS}x\n{PAIR},1", "2: no column 'winner', nor p. Columns there: context_id, dimension, first, second, x"),
        (f"context_id,dimension,first,p\n{CELL},{ASTER},1", "2: no column 'second'"),
        (f"{LADDER}outcome\n{CELL},{ASTER},0,win", "2: rung '0'; a rung is a whole number, 1 for the worst"),
        (f"{LADDER}outcome\n{RUNG},better", "2: outcome 'better'; it must be win, loss or tie, or empty"),
        (f"{LADDER}outcome\n{CELL},rung:2,1,win", "2: output 'rung:2' begins with 'rung:', which means a rung; rename"),
        (f"{LADDER}outcome,swapped\n{RUNG},win,perhaps", "2: swapped 'perhaps'; it must be true or false"),
        (f"{LADDER}win,loss,tie\n{RUNG},0,0,0",
         "2: win 0, loss 0, tie 0; probabilities are 0 or more and add to more than 0 and at most 1"),
        (f"{LADDER}win,loss,tie\n{RUNG},-.1,.5,.5", "2: win -0.1, loss 0.5, tie 0.5; probabilities"),
        (f"{LADDER}win,loss,tie\n{RUNG},.9,.9,.9", "2: win 0.9, loss 0.9, tie 0.9; probabilities"),
        (f"{LADDER}win,loss,tie\n{RUNG},.9,,.1", "2: column 'loss': expected a finite number, found ''"),
        (f"{LADDER}win,loss\n{RUNG},.9,.1", "2: no column 'tie'. It has: context_id"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused(fails, write, text, message):
    path = write(text + "\n")
    error = fails(2, f"{DIALOGUE} {path}")
    assert error.startswith(f"refladder: {path}:{message.replace('{path}', str(path))}"), error


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (f"{CELL},{ASTER},6", "rung 6; the ladders in demo/dialogue have 5 rungs"),
        (
            f"{CELL},nobody,1",
            "demo/dialogue, context 'dialogue-01', has no output 'nobody'; it has: dialogue-01/aster",
        ),
        (
            f"dialogue-1,engagingness,{ASTER},1",
            "demo/dialogue has no context 'dialogue-1'; did you mean 'dialogue-",
        ),
        (
            f"dialogue-01,humour,{ASTER},1",
            "demo/dialogue has no dimension 'humour'; it has: engagingness",
        ),
    ],
)
def test_ids_that_do_not_exist_are_refused_before_a_run(fails, write, tmp_path, row, message):
    path = write(f"{OF_RUNGS}{row},win\n")
    error = fails(2, f"{DIALOGUE} {path} --work {tmp_path}/work")
    assert f"refladder: {path}:3: {message}" in error
    assert not (tmp_path / "work").exists()


def test_score_refuses_outputs_that_its_table_does_not_have(command, write, write_jsonl, tmp_path):
    texts = {"x": "A text.", "empty": " "}
    source, out = (
        write_jsonl([{"output_id": name, "context_id": "story-01", "output": text} for name, text in texts.items()]),
        tmp_path / "out.jsonl",
    )  # fmt: skip
    rows = [f"story-01,coherence,{name},1,win\n" for name in ("x", "empty", "z")]
    path = write(f"{LADDER}outcome\n" + "".join(rows[:2]))
    asked = f"--ladders demo/story --judgments-from {path}"
    assert command(f"score {source} {asked} --out {out}").code == 3
    out.unlink()
    path.write_text(f"{LADDER}outcome\n" + "".join(rows))
    missing = "has no output of context 'story-01' with the id 'z'; ids are in its column output_id"
    for words, name, stdin in ((source, source, b""), ("-", "<stdin>", source.read_bytes())):
        done = command(*f"score {words} {asked} --out {out}".split(), stdin=stdin)
        assert done.code == 2
        assert done.err.splitlines()[-1] == f"refladder: {path}:4: {name} {missing}"
        assert not out.exists()
    path.write_text(f"{LADDER}outcome\nstory-99,coherence,x,1,win\n")
    unknown = f"{path}:2: the ladder set demo/story has no context 'story-99'"
    assert unknown in command(f"score {source} {asked}").err


def test_what_a_file_cannot_answer_is_refused(fails, write):
    pairs, ladder = write(OF_PAIRS, "pairs.csv"), write(OF_RUNGS, "ladder.csv")
    asks = "--judgments-from asks no model, and --{} is for asking one"
    for options, message in (
        (f"{pairs} --methods ladder", "and method 'ladder' needs comparisons with the rungs of a ladder"),
        (f"{pairs} --methods zepo", "and method 'zepo' needs more of a judge than comparisons of given texts"),
        (f"{pairs} --methods win-ratio,direct-5", "and method 'direct-5' needs more of a judge"),
        (ladder, "no ladders are named; name those that were judged with --ladders SET"),
        (f"{pairs} --judge builtin", asks.format("judge")),
        (f"{pairs} --answers 3", asks.format("answers")),
        (f"{pairs} --writer builtin", asks.format("writer")),
        (write("", "empty.jsonl"), "no recorded judgments in it; write one comparison per row"),
    ):  # fmt: skip
        assert message in fails(2, f"evaluate demo/dialogue --judgments-from {options}")
    rungs = "holds comparisons of pairs of outputs, and scoring needs comparisons with the rungs of a ladder"
    twice = "the table and --judgments-from are both standard input"
    for file, message in ((pairs, rungs), ("-", twice)):
        text = fails(2, f"score - --ladders demo/dialogue --judgments-from {file}")
        assert message in text
    with pytest.raises(UsageError, match="the table and judgments_from are both standard input"):
        refladder.score("-", ladders="demo/dialogue", judgments_from="-", out="scored.jsonl")


def test_verdicts_on_dimensions_that_are_not_chosen_are_left_out(command, write):
    dimension = '[[dimensions]]\nname = "{}"\ndescription = "x"\nlow = 1\nhigh = 5\n'
    names = ("clarity", "wit")
    task = write('task = "open"\n' + "".join(map(dimension.format, names)), "task.toml")
    texts = [f"Say.,c,Text {name},{name},{name},{k},{4 - k}\n" for k, name in enumerate("abc", 1)]
    table = write("context,context_id,output,output_id,system,clarity,wit\n" + "".join(texts), "table.csv")  # fmt: skip
    rows = [f"c,{name},{pair},{pair[0]}\n" for name in names for pair in ("a,b", "c,a")]
    path = write(f"{PAIRS}winner\n" + "".join(rows))
    line = f"evaluate table --source {table} --task-file {task} --judgments-from {path}"
    assert command(line).code == 0
    done = command(f"{line} --dimension wit --format json")
    assert (done.code, {row["dimension"] for row in done.rows}) == (0, {"wit", "mean"})


def test_no_model_is_asked(by_hand, command, write):
    recorded = read_recorded(str(by_hand))
    for ask in (lambda: recorded.write([], None), lambda: recorded.read_labels([], [])):
        with pytest.raises(UsageError, match="recorded judgments answer comparisons only"):
            ask()
    path = write(OF_PAIRS)
    done = command(f"evaluate demo/dialogue --judgments-from {path} --dry-run")
    assert (done.code, done.out) == (0, "nothing was asked\n")


def test_methods_without_a_judge_are_run_beside_the_others(by_hand):
    """Neither has anything to work on here, and says so, but recorded judgments do not forbid them."""
    evaluation = evaluated(by_hand, ["win-ratio", "bleu", "unieval"])
    runs = {run.name: run.result for run in evaluation.runs}
    assert runs["win-ratio"].method is not None
    assert "reference" in runs["bleu"].skipped
    assert "checkpoint" in runs["unieval"].skipped


def test_recorded_verdicts_on_a_real_benchmark(write_jsonl):
    """NewsRoom: all ordered pairs of 60 contexts with 7 systems, judged by the built-in judge."""
    source = Path(__file__).parents[3] / "shared" / "data" / "newsroom"
    if not source.is_dir():
        pytest.skip(f"{source} is absent: the benchmark files are not in the repository")
    benchmark = load_benchmark("newsroom", source=source)
    how = {"dimensions": benchmark.dimensions[:1], "methods": ["win-ratio", "pairs-greedy"]}
    asked = evaluate(benchmark, judge=connect("builtin"), **how)
    rows = [
        {"context_id": part.context.id, "dimension": part.dimension.name, "first": part.names[first],
         "second": part.names[second], "p": p}
        for part in asked.runs[0].result.comparisons
        for (first, second), p in zip(part.pairs.tolist(), part.probabilities.tolist(), strict=True)
    ]  # fmt: skip
    assert len(rows) == 60 * 7 * 6
    recorded = evaluate(benchmark, judge=read_recorded(str(write_jsonl(rows))), **how)
    assert without_costs(recorded) == without_costs(asked)
