"""Judgments of other programs: read from a table, checked, and used in the place of a judge."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from evaluating import evaluate
from simulated import DIMENSION, Simulated, benchmark_of, text_of

from refladder.backends import connect
from refladder.errors import UsageError
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.records import Output, Rating
from refladder.scoring.recorded import read_recorded

PAIRWISE = [
    "win-ratio", "win-ratio-debiased", "mean-probability", "mean-probability-debiased", "bradley-terry", "poe",
    "likelihood", "pairs-greedy", "pairs-beam",
]  # fmt: skip
COSTS = (
    "calls",
    "characters",
    "prompt_tokens",
    "distinct_tokens",
    "seconds",
    "judge_seconds",
    "reused",
)
PAIR_COLUMNS, LADDER_COLUMNS = (
    "context_id,dimension,first,second,",
    "context_id,dimension,output,rung,",
)
ASTER, BIRCH = "dialogue-01/aster", "dialogue-01/birch"
CELL = "dialogue-01,engagingness"


def made():
    """Three texts of one context; people rate a above b above c."""
    benchmark = benchmark_of([[3.0, 2.0, 1.0]])
    names = dict(zip((output.id for output in benchmark.outputs), "abc", strict=True))
    outputs = tuple(
        Output(id=names[one.id], context_id="c0", system=names[one.id], text=one.text)
        for one in benchmark.outputs
    )
    ratings = tuple(
        Rating(output_id=names[one.output_id], dimension="worth", value=one.value, rater="r")
        for one in benchmark.ratings
    )
    return type(benchmark)(
        name="made", revision="1", licence="none", dimensions=(DIMENSION,), contexts=benchmark.contexts,
        outputs=outputs, ratings=ratings,
    )  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def go(text, name="verdicts.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return go


def evaluated(path, methods, benchmark=None, **settings):
    return evaluate(
        benchmark or made(),
        judge=read_recorded(str(path)),
        methods=methods,
        settings=MethodSettings(**settings),
    )


def by_hand(write):
    verdicts = ["a,b,first", "b,a,first", "a,c,a", "c,a,a", "b,c,tie"]
    return write(
        PAIR_COLUMNS + "winner\n" + "".join(f"c0,worth,{verdict}\n" for verdict in verdicts)
    )


def test_hand_work(write):
    """Five verdicts, and (c, b) is missing.

    Wins as the first text / as the second: (a, b) a wins; (b, a) b wins; (a, c) a wins; (c, a) a wins; (b, c) a tie.
    Win ratios: a 3 of 4 = .75; b (0 + 1 + .5) of 3 = .5; c (0 + 0 + .5) of 3 = 1/6.
    P(first) = (1 + 1 + 1 + 0 + .5) / 5 = .7.
    Order inconsistency: of the pairs with both orders, {a, b} disagrees and {a, c} agrees: 1 of 2.
    Accuracy against a > b > c: (a, b) 1, (b, a) 0, (a, c) 1, (c, a) 1, (b, c) 1/2: 3.5 of 5.
    """
    evaluation = evaluated(by_hand(write), ["win-ratio", "mean-probability"])
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


def test_sorting_answers_what_it_can(write):
    """Merge sort asks pairs in one order that a seed decides; only a sort that never asks (c, b) has an order."""
    complete = by_hand(write).read_text() + "c0,worth,c,b,tie\n"
    (run,) = evaluated(write(complete), ["pairs-greedy"]).runs
    assert None not in run.result.method.scores.values()
    (run,) = evaluated(write(PAIR_COLUMNS + "winner\nc0,worth,a,b,first\n"), ["pairs-greedy"]).runs
    assert set(run.result.method.scores.values()) == {None}
    assert run.result.unparsed == 1


def test_outputs_with_the_same_text_have_verdicts_of_their_own(write):
    benchmark = made()
    same = tuple(
        Output(
            id=one.id,
            context_id="c0",
            system=one.id,
            text=text_of(1.0) if one.id != "c" else text_of(2.0),
        )
        for one in benchmark.outputs
    )
    benchmark = type(benchmark)(
        name="made", revision="1", licence="none", dimensions=(DIMENSION,), contexts=benchmark.contexts,
        outputs=same, ratings=benchmark.ratings,
    )  # fmt: skip
    rows = ["a,b,1", "b,a,0", "a,c,1", "c,a,0", "b,c,0", "c,b,1"]
    path = write(PAIR_COLUMNS + "p\n" + "".join(f"c0,worth,{row}\n" for row in rows))
    (run,) = evaluated(path, ["win-ratio"], benchmark=benchmark).runs
    assert [run.result.method.scores[name, "worth"] for name in "abc"] == [1.0, 0.0, 0.5]


def exported_pairs(folder):
    (path,) = folder.glob("pairwise-*.jsonl")
    for line in path.read_text().splitlines()[1:]:
        judgment = json.loads(line)
        row = {key: judgment[key] for key in ("context_id", "dimension")}
        row |= {"first": judgment["subject"], "second": judgment["against"], "p": None}
        if judgment["logprobs"] is not None:
            win, loss = judgment["logprobs"]
            row["p"] = 1 / (1 + math.exp(loss - win))
        yield row


def exported_ladder(path):
    for line in path.read_text().splitlines()[1:]:
        judgment = json.loads(line)
        swapped = judgment["subject"].startswith("rung:")
        output, rung = (judgment["subject"], judgment["against"])[:: -1 if swapped else 1]
        shares = [math.exp(value) for value in judgment["logprobs"]]
        named = dict(
            zip(("loss", "win", "tie") if swapped else ("win", "loss", "tie"), shares, strict=True)
        )
        row = {key: judgment[key] for key in ("context_id", "dimension")}
        yield (
            row
            | {"output": output, "rung": int(rung.removeprefix("rung:")), "swapped": swapped}
            | named
        )


def without_costs(evaluation):
    cards = [
        {name: getattr(card, name) for name in card.__slots__ if name not in COSTS}
        for card in evaluation.cards
    ]
    rows = [
        {name: getattr(row, name) for name in row.__slots__ if name != "signature"}
        for row in evaluation.rows
    ]
    return cards, rows


def test_exported_judgments_of_pairs_give_the_tables_of_the_judge(tmp_path, write):
    """All methods over pairs, with a biased and noisy judge that leaves some comparisons unanswered."""
    benchmark = benchmark_of(
        np.random.default_rng(2).permuted(np.tile(np.arange(5.0), (4, 1)), axis=1)
    )
    judge = Simulated(
        first=0.5,
        noise=1.0,
        unparsed=lambda first, second: first[-1] == "0" and second[-1] == "3",
    )
    asked = evaluate(
        benchmark, judge=judge, methods=PAIRWISE, settings=MethodSettings(work=tmp_path / "work")
    )
    lines = [json.dumps(row) + "\n" for row in exported_pairs(tmp_path / "work")]
    assert len(lines) == 4 * 20
    path = write("".join(reversed(lines)), "verdicts.jsonl")
    recorded = evaluated(path, PAIRWISE, benchmark=benchmark)
    assert without_costs(recorded) == without_costs(asked)
    assert sum(card.unparsed for card in recorded.cards) > 0
    assert all(run.calls == 0 for run in recorded.runs)
    # the same verdicts in another order and format have the same signature
    rows = [json.loads(line) for line in lines]
    with (tmp_path / "verdicts.csv").open("w", newline="") as stream:
        table = csv.DictWriter(stream, rows[0])
        table.writeheader()
        table.writerows(rows)
    assert (
        read_recorded(str(tmp_path / "verdicts.csv")).fingerprint
        == read_recorded(str(path)).fingerprint
    )
    path.write_text("".join(lines[1:]))
    assert (
        read_recorded(str(tmp_path / "verdicts.csv")).fingerprint
        != read_recorded(str(path)).fingerprint
    )


@pytest.mark.parametrize("orders", [1, 2])
def test_exported_judgments_of_a_ladder_give_the_tables_of_the_judge(tmp_path, write, orders):
    benchmark = load_benchmark("demo/story")
    settings = {"ladders": "demo/story", "orders": orders}
    judge = connect("builtin")
    asked = evaluate(
        benchmark, judge=judge, settings=MethodSettings(work=tmp_path / "work", **settings)
    )
    rows = [
        json.dumps(row) + "\n" for row in exported_ladder(tmp_path / "work" / "judgments.jsonl")
    ]
    recorded = evaluated(
        write("".join(rows), "verdicts.jsonl"), ["ladder"], benchmark=benchmark, **settings
    )
    assert without_costs(recorded) == without_costs(asked)
    assert "|backend:recorded@" in recorded.rows[0].signature


def test_score_reads_a_ladder_file(command, tmp_path, rows, write_jsonl):
    """Every rule, with judgments of the built-in judge; a table of verdicts in Parquet where that can be written."""
    source, out, again = write_jsonl(rows(6)), tmp_path / "out.jsonl", tmp_path / "again.jsonl"
    kept = tmp_path / "kept.jsonl"
    assert command("score", source, "--ladders", "demo/story", "--out", out).code == 0
    judged = list(exported_ladder(tmp_path / "out.jsonl.judgments.jsonl"))
    path = write_jsonl(judged, "verdicts.jsonl")
    done = command(
        "score",
        source,
        "--ladders",
        "demo/story",
        "--judgments-from",
        path,
        "--out",
        again,
        "--json",
        "--judgments",
        kept,
    )
    assert done.code == 0
    assert (
        done.err
        == f"{path}: {len(judged)} recorded judgments of outputs against rungs; no model is asked\n"
    )
    assert json.loads(done.out)["spent"] == []
    for before, after in zip(
        map(json.loads, out.read_text().splitlines()),
        map(json.loads, again.read_text().splitlines()),
        strict=True,
    ):
        assert after.keys() == before.keys()
        for name, value in before.items():
            if name != "signature":
                assert after[name] == (
                    pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
                )
    rescored = command("rescore", kept, "--rule", "hard-votes")
    assert rescored.code == 0  # judgments are stored as those of a judge
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist(judged), tmp_path / "verdicts.parquet")
    assert (
        read_recorded(str(tmp_path / "verdicts.parquet")).fingerprint
        == read_recorded(str(path)).fingerprint
    )


def test_a_judgments_file_gives_the_tables_of_the_judge(tmp_path):
    """Of pairs, and of rungs in several files: as a table, without a change of form."""
    story = load_benchmark("demo/story")
    work = MethodSettings(work=tmp_path / "work", ladders="demo/story")
    asked = evaluate(
        story, judge=connect("builtin"), settings=work, methods=["ladder", "win-ratio"]
    )
    (of_pairs,) = (tmp_path / "work").glob("pairwise-*.jsonl")
    recorded = evaluated(of_pairs, ["win-ratio"], benchmark=story)
    assert values(recorded, "win-ratio") == values(asked, "win-ratio")
    head, *rest = (tmp_path / "work" / "judgments.jsonl").read_text().splitlines(keepends=True)
    for name, part in (("one.jsonl", rest[:100]), ("two.jsonl", rest[100:])):
        (tmp_path / name).write_text("".join([head, *part]))
    judge = read_recorded(str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl"))
    recorded = evaluate(story, judge=judge, settings=MethodSettings(ladders="demo/story"))
    assert values(recorded, "ladder") == values(asked, "ladder")


def values(evaluation, method):
    found = [
        (row.dimension, row.statistic, row.value) for row in evaluation.rows if row.method == method
    ]
    assert found
    return found


def test_files_that_do_not_go_together_are_refused(fails, write, tmp_path):
    pairs = write(f"{PAIR_COLUMNS}p\n{CELL},{ASTER},{BIRCH},1\n", "pairs.csv")
    ladder = write(f"{LADDER_COLUMNS}outcome\n{CELL},{ASTER},1,win\n", "ladder.csv")
    asked = ("evaluate", "demo/dialogue", "--ladders", "demo/dialogue", "--judgments-from")
    error = fails(2, *asked, ladder, "--judgments-from", pairs)
    assert (
        f"{pairs} holds judgments of pairs, and {ladder} of rungs; name them in runs of their own"
        in error
    )
    again = write(f"{LADDER_COLUMNS}outcome\n{CELL},{ASTER},1,loss\n", "again.csv")
    error = fails(2, *asked, ladder, "--judgments-from", again)
    assert (
        f"{again}:2: a second judgment of {ASTER!r} against 'rung:1' (engagingness, dialogue-01); the first"
        in error
    )
    story = load_benchmark("demo/story")
    evaluate(
        story,
        judge=connect("builtin"),
        settings=MethodSettings(work=tmp_path / "w"),
        methods=["direct-5"],
    )
    (grades,) = (tmp_path / "w").glob("direct-5*.jsonl")
    error = fails(2, "evaluate", "demo/story", "--judgments-from", grades)
    assert (
        f"{grades}:2: a grade of one text, and recorded judgments are comparisons; name the judgments of"
        in error
    )
    anchored = write(f"{LADDER_COLUMNS}anchor,outcome\n{CELL},{ASTER},1,a,win\n", "anchored.csv")
    error = fails(2, *asked, anchored)
    assert (
        f"{anchored}:2: anchor 'a', and demo/dialogue is not shared; leave the column out" in error
    )


def test_a_ladder_by_hand(command, write_jsonl, write):
    """Score = sum of level * (p(win) - p(loss)): 1 + 2 + 3 * (.5 - .25) + 0 - 5 = -1.25."""
    source = write_jsonl(
        [{"output_id": name, "context_id": "story-01", "output": f"Text {name}."} for name in "xy"]
    )
    verdicts = "1,1,0,0\n2,1,0,0\n3,.5,.25,.25\n4,0,0,1\n5,0,1,0\n".splitlines()
    path = write(
        LADDER_COLUMNS
        + "win,loss,tie\n"
        + "".join(f"story-01,coherence,x,{line}\n" for line in verdicts)
    )
    done = command(
        "score",
        source,
        "--ladders",
        "demo/story",
        "--dimension",
        "coherence",
        "--judgments-from",
        path,
    )
    assert done.code == 3
    assert [row["coherence_score"] for row in done.rows] == [-1.25, None]
    assert (
        done.rows[1]["coherence_note"]
        == "5 of 5 judgments unparsed: not among the recorded judgments"
    )
    assert "2 rows, 1 score missing; 10 judgments (0 reused, 5 unparsed)" in done.err
    words = ["win", "win", "tie", "", "loss"]
    path = write(
        LADDER_COLUMNS + "outcome\n"
        + "".join(f"story-01,coherence,{name},{k},{word}\n" for name in "xy" for k, word in enumerate(words, start=1))
    )  # fmt: skip
    done = command(
        "score",
        source,
        "--ladders",
        "demo/story",
        "--dimension",
        "coherence",
        "--judgments-from",
        path,
    )
    assert {row["coherence_note"] for row in done.rows} == {
        "1 of 5 judgments unparsed: no judgment in the recorded row"
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2", "2: columns with neither 'rung' nor 'first' and 'second'; a row needs"),
        ("rung,first\n1,2", "2: columns with 'rung' beside 'first' or 'second'; a row needs"),
        (f"{PAIR_COLUMNS}winner\n{CELL},{ASTER},{BIRCH},first\n{CELL},{ASTER},{BIRCH},second",
         (f"3: a second judgment of {ASTER!r} against {BIRCH!r} (engagingness, dialogue-01); the first is in "
         "{path}:2; keep one of them")),
        (f"{PAIR_COLUMNS}winner\n{CELL},{ASTER},{BIRCH},A",
         f"2: winner 'A'; it must be first, second, tie, {ASTER!r} or {BIRCH!r}, or empty"),
        (f"{PAIR_COLUMNS}winner\n{CELL},second,{BIRCH},second",
         "2: winner 'second' is both a word and the id of another text; give p instead"),
        (f"{PAIR_COLUMNS}winner\n{CELL},{ASTER},{ASTER},first",
         f"2: output {ASTER!r} is compared with itself; drop the row"),
        (f"{PAIR_COLUMNS}p\n{CELL},{ASTER},{BIRCH},1.2", "2: p 1.2; a probability is between 0 and 1"),
        (f"{PAIR_COLUMNS}p\n{CELL},{ASTER},{BIRCH},nan", "2: column 'p': expected a finite number, found 'nan'"),
        (f"{PAIR_COLUMNS}p,winner\n{CELL},{ASTER},{BIRCH},1,first",
         "2: the judgment is in 'winner' and in 'p'; drop one of the columns"),
        (f"{PAIR_COLUMNS}x\n{CELL},{ASTER},{BIRCH},1",
         "2: no column 'winner', nor p; Columns there: context_id, dimension, first, second, x"),
        (f"context_id,dimension,first,p\n{CELL},{ASTER},1", "2: no column 'second'"),
        (f"{LADDER_COLUMNS}outcome\n{CELL},{ASTER},0,win", "2: rung '0'; a rung is a whole number, 1 for the worst"),
        (f"{LADDER_COLUMNS}outcome\n{CELL},{ASTER},1,better",
         "2: outcome 'better'; it must be win, loss or tie, or empty"),
        (f"{LADDER_COLUMNS}outcome\n{CELL},rung:2,1,win",
         "2: output 'rung:2' begins with 'rung:', which means a rung; rename it"),
        (f"{LADDER_COLUMNS}outcome,swapped\n{CELL},{ASTER},1,win,perhaps",
         "2: swapped 'perhaps'; it must be true or false"),
        (f"{LADDER_COLUMNS}win,loss,tie\n{CELL},{ASTER},1,0,0,0",
         "2: win 0, loss 0, tie 0; probabilities are 0 or more and add to more than 0 and at most 1"),
        (f"{LADDER_COLUMNS}win,loss,tie\n{CELL},{ASTER},1,-.1,.5,.5", "2: win -0.1, loss 0.5, tie 0.5; probabilities"),
        (f"{LADDER_COLUMNS}win,loss,tie\n{CELL},{ASTER},1,.9,.9,.9", "2: win 0.9, loss 0.9, tie 0.9; probabilities"),
        (f"{LADDER_COLUMNS}win,loss,tie\n{CELL},{ASTER},1,.9,,.1",
         "2: column 'loss': expected a finite number, found ''"),
        (f"{LADDER_COLUMNS}win,loss\n{CELL},{ASTER},1,.9,.1", "2: no column 'tie'; It has: context_id"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused(fails, write, text, message):
    path = write(text + "\n")
    error = fails(
        2, "evaluate", "demo/dialogue", "--ladders", "demo/dialogue", "--judgments-from", path
    )
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
    path = write(f"{LADDER_COLUMNS}outcome\n{CELL},{BIRCH},1,win\n{row},win\n")
    work = tmp_path / "work"
    error = fails(
        2,
        "evaluate",
        "demo/dialogue",
        "--ladders",
        "demo/dialogue",
        "--judgments-from",
        path,
        "--work",
        work,
    )
    assert f"refladder: {path}:3: {message}" in error
    assert not work.exists()


def test_score_refuses_outputs_that_its_table_does_not_have(command, write, write_jsonl, tmp_path):
    table = [
        {"output_id": "x", "context_id": "story-01", "output": "A text."},
        {"output_id": "empty", "context_id": "story-01", "output": " "},
    ]
    source, out = write_jsonl(table), tmp_path / "out.jsonl"
    good = f"{LADDER_COLUMNS}outcome\nstory-01,coherence,x,1,win\nstory-01,coherence,empty,1,win\n"
    asked = ("--ladders", "demo/story", "--judgments-from", write(good))
    assert command("score", source, *asked, "--out", out).code == 3
    out.unlink()
    path = write(good + "story-01,coherence,z,1,win\n")
    message = f"{path}:4: {{}} has no output of context 'story-01' with the id 'z'; ids are in its column output_id\n"
    done = command("score", source, *asked, "--out", out)
    assert (done.code, done.err.splitlines()[-1] + "\n") == (
        2,
        f"refladder: {message.format(source)}",
    )
    done = command("score", "-", *asked, "--out", out, stdin=source.read_bytes())
    assert (done.code, done.err.splitlines()[-1] + "\n") == (
        2,
        f"refladder: {message.format('<stdin>')}",
    )
    assert not out.exists()
    path.write_text(f"{LADDER_COLUMNS}outcome\nstory-99,coherence,x,1,win\n")
    assert (
        f"{path}:2: the ladder set demo/story has no context 'story-99'"
        in command("score", source, *asked).err
    )


def test_what_a_file_cannot_answer_is_refused(fails, write):
    pairs = write(f"{PAIR_COLUMNS}p\n{CELL},{ASTER},{BIRCH},1\n", "pairs.csv")
    ladder = write(f"{LADDER_COLUMNS}outcome\n{CELL},{ASTER},1,win\n", "ladder.csv")
    evaluation = ("evaluate", "demo/dialogue", "--judgments-from")
    for options, message in [
        (
            (pairs, "--methods", "ladder"),
            "and method 'ladder' needs comparisons with the rungs of a ladder",
        ),
        (
            (pairs, "--methods", "zepo"),
            "and method 'zepo' needs more of a judge than comparisons of given texts",
        ),
        ((pairs, "--methods", "win-ratio,direct-5"), "and method 'direct-5' needs more of a judge"),
        ((ladder,), "no ladders are named; name those that were judged with --ladders SET"),
        (
            (pairs, "--judge", "builtin"),
            "--judgments-from asks no model, and --judge is for asking one",
        ),
        (
            (pairs, "--answers", "3"),
            "--judgments-from asks no model, and --answers is for asking one",
        ),
        (
            (pairs, "--writer", "builtin"),
            "--judgments-from asks no model, and --writer is for asking one",
        ),
    ]:
        assert message in fails(2, *evaluation, *options)
    error = fails(2, "score", "-", "--ladders", "demo/dialogue", "--judgments-from", pairs)
    assert (
        "holds comparisons of pairs of outputs, and scoring needs comparisons with the rungs of a ladder"
        in error
    )
    error = fails(2, "score", "-", "--ladders", "demo/dialogue", "--judgments-from", "-")
    assert "SOURCE and --judgments-from are both standard input" in error
    error = fails(
        2,
        "score",
        ladder,
        "--ladders",
        "demo/dialogue",
        "--judgments-from",
        ladder,
        "--out",
        ladder,
        "--column",
        "output_id=output",
    )
    assert "SOURCE and --out must be different files" in error
    error = fails(2, "evaluate", "demo/dialogue", "--judgments-from", write("", "empty.jsonl"))
    assert "no recorded judgments in it; write one comparison per row" in error


def test_verdicts_on_dimensions_that_are_not_chosen_are_left_out(command, write):
    dimension = '[[dimensions]]\nname = "{}"\ndescription = "x"\nlow = 1\nhigh = 5\n'
    task = write(
        'task = "open"\n' + "".join(map(dimension.format, ("clarity", "wit"))), "task.toml"
    )
    table = "context,context_id,output,output_id,system,clarity,wit\n"
    table += "".join(
        f"Say.,c,Text {name * k}.,{name},{name},{k},{4 - k}\n"
        for k, name in enumerate("abc", start=1)
    )
    rows = [
        f"c,{name},{first},{second},{first}\n"
        for name in ("clarity", "wit")
        for first, second in ("ab", "ca")
    ]
    path = write(f"{PAIR_COLUMNS}winner\n" + "".join(rows))
    asked = (
        "evaluate",
        "own",
        "--source",
        write(table, "table.csv"),
        "--task-file",
        task,
        "--judgments-from",
        path,
    )
    assert command(*asked).code == 0
    done = command(*asked, "--dimension", "wit", "--format", "json")
    assert (done.code, {row["dimension"] for row in done.rows}) == (0, {"wit", "mean"})


def test_no_model_is_asked(write):
    recorded = read_recorded(str(by_hand(write)))
    for ask in (lambda: recorded.write([], None), lambda: recorded.read_labels([], [])):
        with pytest.raises(UsageError, match="recorded judgments answer comparisons only"):
            ask()


def test_methods_without_a_judge_are_run_beside_the_others(write):
    """Neither has anything to work on here, and says so, but recorded judgments do not forbid them."""
    runs = {
        run.name: run.result
        for run in evaluated(by_hand(write), ["win-ratio", "bleu", "unieval"]).runs
    }
    assert runs["win-ratio"].method is not None
    assert "reference" in runs["bleu"].skipped
    assert "checkpoint" in runs["unieval"].skipped


def test_a_dry_run_asks_nothing(command, write):
    path = write(f"{PAIR_COLUMNS}p\n{CELL},{ASTER},{BIRCH},1\n")
    done = command("evaluate", "demo/dialogue", "--judgments-from", path, "--dry-run")
    assert (done.code, done.out) == (0, "nothing was asked\n")


def test_recorded_verdicts_on_a_real_benchmark(write):
    """NewsRoom: all ordered pairs of 60 contexts with 7 systems, judged by the built-in judge."""
    source = Path(__file__).parents[3] / "shared" / "data" / "newsroom"
    if not source.is_dir():
        pytest.skip(f"{source} is absent: the benchmark files are not in the repository")
    benchmark = load_benchmark("newsroom", source=source)
    options = {
        "dimensions": benchmark.dimensions[:1],
        "methods": ["win-ratio", "bradley-terry", "pairs-greedy"],
    }
    asked = evaluate(benchmark, judge=connect("builtin"), **options)
    rows = [
        {"context_id": part.context.id, "dimension": part.dimension.name, "first": part.names[first],
         "second": part.names[second], "p": p}
        for part in asked.runs[0].result.comparisons
        for (first, second), p in zip(part.pairs.tolist(), part.probabilities.tolist(), strict=True)
    ]  # fmt: skip
    assert len(rows) == 60 * 7 * 6
    path = write("".join(json.dumps(row) + "\n" for row in rows), "verdicts.jsonl")
    recorded = evaluate(benchmark, judge=read_recorded(str(path)), **options)
    assert without_costs(recorded) == without_costs(asked)
