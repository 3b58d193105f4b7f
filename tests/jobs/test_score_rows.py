"""What comes out of `score`: columns, order, formats, orders, questions, exit codes, and what is written beside."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import Double
from hypothesis import given, settings
from hypothesis import strategies as st

from refladder.arena.runs import read_run
from refladder.backends.builtin import Builtin
from refladder.errors import UsageError
from refladder.events import Silent
from refladder.files.ladder_sets import load_ladders
from refladder.jobs.rescore import rescore
from refladder.jobs.score import run
from refladder.records import Dimension
from refladder.scoring.columns import added_columns, column_names, overall_column, weights_for
from refladder.scoring.rules import RULES
from refladder.scoring.scorer import batches
from refladder.session import Session
from refladder.settings import ScoreSpec, Scoring, Tables

LADDERS = ("--ladders", "demo/story")
OF_DIMENSION = ["score", "grade", "spread", "mass", "note"]
ADDED = [f"{name}_{what}" for name in ("coherence", "complexity") for what in OF_DIMENSION]
ADDED += ["overall_score", "signature"]


def log(*values):
    return dict(zip(("win", "loss", "tie"), map(math.log, values), strict=True))


@pytest.fixture
def judge(tmp_path):
    """A judge that answers by rules."""

    def write(*rules):
        path = tmp_path / "rules.jsonl"
        path.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
        return f"scripted:{path}"

    return write


def test_rows_come_out_in_order_with_their_own_columns_first(command, stories):
    done = command("score", stories, *LADDERS)
    assert done.code == 0
    given_lines, lines = stories.read_text().splitlines(), done.out.splitlines()
    assert len(lines) == len(given_lines)
    for before, after in zip(given_lines, lines, strict=True):
        assert after.startswith(before[:-1] + ',"coherence_score": ')  # letter for letter
        assert list(json.loads(after)) == [*json.loads(before), *ADDED]
    assert "\n6 rows, 0 scores missing; 60 judgments (0 reused, 0 unparsed)\n" in done.err


def test_the_paper_s_rule_end_to_end_by_hand(command, judge, write_jsonl):
    # Beats every rung with .6, loses .1, ties .3: 1+2+3+4+5 = 15 rungs' worth of .5 = 7.5; grade: .6 + .15 = .75 of
    # the way from 1 to 5 = 4; the score lies (7.5 + 15) / 30 = .75 of the way between its bounds.
    backend = judge({"role": "compare", "answer": log(0.6, 0.1, 0.3)})
    source = write_jsonl([{"context_id": "story-01", "output": "A."}])
    row = command("score", source, *LADDERS, "--any-judge", "--judge", backend).rows[0]
    assert row["coherence_score"] == pytest.approx(7.5, abs=1e-12)
    assert row["coherence_grade"] == pytest.approx(4.0, abs=1e-12)
    assert row["overall_score"] == pytest.approx(0.75, abs=1e-12)
    # one rung's draw has variance .6 + .3/4 - .75^2 = .1125; the mean of 5: sqrt(.1125 / 5) = .15; on a scale of 4: .6
    assert row["coherence_spread"] == pytest.approx(0.6, abs=1e-12)
    assert row["coherence_mass"] == pytest.approx(1.0, abs=1e-12)


def test_weights_make_the_overall_score(command, judge, write_jsonl):
    backend = judge(
        {"contains": {"dimension": "coherence"}, "answer": log(0.98, 0.01, 0.01)},
        {"contains": {"dimension": "complexity"}, "answer": log(0.25, 0.25, 0.5)},
    )
    source = write_jsonl([{"context_id": "story-01", "output": "A."}])
    options = ("--any-judge", "--judge", backend, "--weight", "coherence=3")
    row = command("score", source, *LADDERS, *options).rows[0]
    # coherence: difference .97, place (1 + .97) / 2 = .985; complexity: place .5; (3 * .985 + .5) / 4 = .86375
    assert row["overall_score"] == pytest.approx(0.86375, abs=1e-12)


def test_both_orders(command, judge, write_jsonl):
    """A judge that prefers whatever comes second: the two orders cancel, and the disagreement is told."""
    backend = judge({"role": "compare", "answer": log(0.7, 0.2, 0.1)})
    source = write_jsonl([{"context_id": "story-01", "output": "A."}])
    options = ("--any-judge", "--judge", backend, "--both-orders", "--dimension", "coherence")
    done = command("score", source, *LADDERS, *options)
    # reference first: win .7 loss .2; swapped, seen from the output: win .2 loss .7; the mean is .45 each
    assert done.rows[0]["coherence_score"] == pytest.approx(0.0, abs=1e-12)
    assert done.rows[0]["coherence_grade"] == pytest.approx(3.0, abs=1e-12)
    assert "overall_score" not in done.rows[0]  # of one dimension
    assert "order inconsistency: 100.0% of 5 pairs\n" in done.err
    assert "|orders:2|" in done.rows[0]["signature"]


def test_yes_or_no_questions(command, write_jsonl):
    rows = [
        {"context_id": "story-01", "output": f"The keeper read letter {number}."}
        for number in range(3)
    ]
    done = command("score", write_jsonl(rows), *LADDERS, "--yes-no", "--json")
    assert done.code == 0
    assert all(-15 <= row["coherence_score"] <= 15 for row in done.rows)
    assert "story/compare-yesno@" in done.rows[0]["signature"]


def test_unreadable_judgments_give_no_score(command, judge, stories, tmp_path):
    backend = judge(
        {"contains": {"target": "day 2", "dimension": "coherence"}, "error": "HTTP 503"},
        {"answer": log(0.5, 0.25, 0.25)},
    )
    out = tmp_path / "out.jsonl"
    done = command(
        "score", stories, *LADDERS, "--any-judge", "--judge", backend, "--out", out, "--json"
    )
    assert done.code == 3
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["coherence_score"] is None for row in rows] == [
        False,
        True,
        False,
        False,
        False,
        False,
    ]
    assert [row["overall_score"] is None for row in rows] == [
        False,
        True,
        False,
        False,
        False,
        False,
    ]
    assert rows[1]["complexity_score"] is not None
    assert rows[1]["coherence_note"] == "5 of 5 judgments unparsed: HTTP 503"
    counts = json.loads(done.out)
    assert counts["unscored"] == {"coherence": 1}
    assert counts["reasons"] == {"5 of 5 judgments unparsed: HTTP 503": 1}
    assert (counts["rows"], counts["judgments"], counts["unparsed"]) == (6, 60, 5)
    # what filters these rows counts it as unscored, and does not drop it in silence
    done = command("filter", out, "--min", "coherence_score=-15")
    assert "5 passed (83.3%), 0 rejected, 1 unscored (dropped)" in done.err


def test_a_judge_that_would_rather_say_something_else_is_told_of(command, judge, stories, tmp_path):
    # mass .2 + .1 + .1 = .4 for the coherence of one text with 5 rungs; elsewhere .3 + .2 + .1 = .6
    backend = judge(
        {"contains": {"target": "day 2", "dimension": "coherence"}, "answer": log(0.2, 0.1, 0.1)},
        {"answer": log(0.3, 0.2, 0.1)},
    )
    out = tmp_path / "out.jsonl"
    done = command("score", stories, *LADDERS, "--any-judge", "--judge", backend, "--out", out)
    assert done.code == 0
    told = "Low label mass in 5 of 60 judgments: the judge gave the labels less than half of its probability."
    assert told in done.err
    done = command("rescore", f"{out}.judgments.jsonl", "--out", tmp_path / "again.jsonl", "--json")
    assert json.loads(done.out)["low_mass"] == 5
    done = command(
        "score", stories, *LADDERS, "--any-judge", "--judge", judge({"answer": log(0.5, 0.3, 0.2)})
    )
    assert "Low label mass" not in done.err
    faint = judge({"answer": log(0.2, 0.1, 0.1)})
    done = command(
        "score", "--text", "A day.", "--context-id", "story-01", *LADDERS, "--judge", faint
    )
    assert done.err.splitlines()[1].startswith("Low label mass in 10 of 10 judgments: ")


def test_texts_beyond_the_ladders_are_counted_in_every_record_of_the_run(
    command, judge, stories, tmp_path
):
    # One of 6 texts loses to all 5 coherence rungs; all else wins with .6.
    backend = judge(
        {"contains": {"target": "day 2", "dimension": "coherence"}, "answer": log(0.2, 0.7, 0.1)},
        {"answer": log(0.6, 0.3, 0.1)},
    )
    out = tmp_path / "out.jsonl"
    told = [
        "coherence: 5 of 6 texts beat the top rung, 1 falls below the lowest; scores hardly distinguish such texts",
        "complexity: 6 of 6 texts beat the top rung; scores hardly distinguish such texts",
    ]
    ends = {
        "above_top": {"coherence": 5, "complexity": 6},
        "below_bottom": {"coherence": 1, "complexity": 0},
    }
    done = command("score", stories, *LADDERS, "--any-judge", "--judge", backend, "--out", out)
    assert done.code == 0
    assert done.err.splitlines()[-2:] == told
    again = command("rescore", f"{out}.judgments.jsonl", "--out", tmp_path / "again.jsonl")
    assert again.err.splitlines()[-2:] == told
    of_rescore = json.loads(
        command("rescore", f"{out}.judgments.jsonl", "--out", tmp_path / "x.jsonl", "--json").out
    )
    of_score = json.loads(
        command(
            "score", stories, *LADDERS, "--any-judge", "--judge", backend, "--out", out, "--json"
        ).out
    )
    run = json.loads(Path(f"{out}.run.json").read_text())
    for counts in (of_rescore, of_score, run):
        assert {name: counts[name] for name in ends} == ends
    key = read_run(out).key
    (check,), (doubtful, *beyond) = key["facts"], key["warnings"]
    assert (
        check
        == "judge check, best rung against the worst: coherence 6 of 12 ladders, complexity 6 of 12 ladders."
    )
    assert doubtful.startswith(
        "The judge check is no proof (coherence 6 of 12 ladders, complexity 6 of 12 ladders): "
    )
    assert beyond == [
        "coherence: 5 texts beat the top rung, 1 falls below the lowest; scores hardly distinguish such texts.",
        "complexity: 6 texts beat the top rung; scores hardly distinguish such texts.",
    ]
    for name in (*ends, "judge_check"):  # as an older version wrote it
        del run[name]
    Path(f"{out}.run.json").write_text(json.dumps(run))
    assert read_run(out).key["warnings"] == []


def test_low_label_mass_gives_no_score_and_the_reason(command, judge, write_jsonl, tmp_path):
    """A base model that gives its labels .004 of the probability has said nothing about the text."""
    backend = judge(
        {"contains": {"target": "trains"}, "answer": log(0.004, 1e-5, 1e-5)},
        {"contains": {"target": "boats"}, "answer": log(0.2, 0.1, 0.02)},
        {"answer": log(0.5, 0.3, 0.2)},
    )
    texts = ("I like trains.", "I like boats.", "I like planes.")
    source = write_jsonl(
        [{"output_id": text, "context_id": "story-01", "output": text} for text in texts]
    )
    out, judgments = tmp_path / "out.jsonl", tmp_path / "out.jsonl.judgments.jsonl"
    options = (*LADDERS, "--any-judge", "--judge", backend, "--dimension", "coherence")
    done = command("score", source, *options, "--out", out, "--json")
    assert done.code == 3
    counts = json.loads(done.out)
    assert (counts["unscored"], counts["unparsed"], counts["low_mass"]) == ({"coherence": 1}, 5, 5)
    assert counts["reasons"] == {
        "5 of 5 judgments unparsed: label mass ... is below 0.05 (--least-mass)": 1
    }
    trains, boats, planes = (json.loads(line) for line in out.read_text().splitlines())
    assert (trains["coherence_score"], trains["coherence_grade"], trains["coherence_spread"]) == (
        None,
        None,
        None,
    )
    assert trains["coherence_mass"] == pytest.approx(0.00402)
    assert (
        trains["coherence_note"]
        == "5 of 5 judgments unparsed: label mass 0.004 is below 0.05 (--least-mass)"
    )
    assert boats["coherence_score"] == pytest.approx(15 * (0.2 - 0.1) / 0.32)
    assert boats["coherence_note"] == "low label mass in 5 of 5 judgments, minimum 0.32"
    assert (planes["coherence_mass"], planes["coherence_note"]) == (pytest.approx(1.0), None)
    # the judgments keep the reading, so that another limit needs no judge
    again = command("rescore", judgments, "--least-mass", "0.001")
    assert again.code == 0
    assert again.rows[0]["coherence_score"] == pytest.approx(15 * (0.004 - 1e-5) / 0.00402)
    assert again.rows[0]["coherence_note"] == "low label mass in 5 of 5 judgments, minimum 0.004"
    again = command("rescore", judgments, "--least-mass", "0.5")
    assert [row["coherence_score"] is None for row in again.rows] == [True, True, False]
    assert "least-mass:0.5" in again.rows[2]["signature"]
    assert command("rescore", judgments).rows[0]["coherence_note"] == trains["coherence_note"]


def test_a_judge_that_gives_no_mass_is_scored(stories, tmp_path):
    class NoMass(Builtin):
        def read_labels(self, prompts, labels):
            return [replace(reading, mass=None) for reading in super().read_labels(prompts, labels)]

    opened, out = load_ladders("demo/story"), tmp_path / "out.jsonl"
    spec = ScoreSpec(
        asked=Scoring(ladders=opened, least_mass=1.0, any_judge=True),
        tables=Tables(source=str(stories), out=str(out)),
        judge=NoMass(),
    )
    run(spec, Session(store=False), Silent())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert all(row["coherence_mass"] is None and row["coherence_score"] is not None for row in rows)


def test_the_table_of_texts_shows_the_spread_as_a_column_of_its_own(command, judge):
    backend = judge({"answer": log(0.6, 0.1, 0.3)})
    line = (
        "score",
        "--text",
        "A day.",
        "--context-id",
        "story-01",
        *LADDERS,
        "--any-judge",
        "--judge",
        backend,
    )
    done = command(*line, "--dimension", "coherence")
    assert re.search(r"A day\. +\+7\.50 +4\.00 +0\.60 *\n", done.out)  # as worked out by hand above
    legend = (
        "spread: how undecided the judge was, in units of the grade. Not a confidence interval.\n"
    )
    assert f"\ngrade: position on the human scale\n{legend}" in done.out
    assert "95 %" not in done.out


def test_show_places_rows_with_their_spread(command, judge, write_jsonl, tmp_path):
    backend = judge({"answer": log(0.6, 0.1, 0.3)})
    source, out = (
        write_jsonl([{"output_id": "a", "context_id": "story-01", "output": "A."}]),
        tmp_path / "out.jsonl",
    )
    command(
        "score",
        source,
        *LADDERS,
        "--any-judge",
        "--judge",
        backend,
        "--dimension",
        "coherence",
        "--out",
        out,
    )
    line = ("show", "demo/story", "story-01", "--dimension", "coherence", "--scores", out)
    done = command(*line)
    assert re.search(r"grade +spread +score +text", done.out)
    assert re.search(r"4\.00 +0\.60 +\+7\.50 +a +A\.", done.out)
    assert done.out.endswith("Not a confidence interval.\n")
    assert json.loads(command(*line, "--json").out)["outputs"][0]["spread"] == pytest.approx(0.6)


def test_a_judge_that_fails_as_a_whole(command, stories):
    done = command("score", stories, *LADDERS, "--judge", "scripted:nowhere.jsonl")
    assert done.code == 1
    assert done.err == (
        "refladder: backend 'scripted': no file 'nowhere.jsonl'; pass scripted:PATH, a file of JSON rules\n"
    )


def test_the_summary_goes_to_the_stream_that_is_free(command, stories, tmp_path):
    to_file = command("score", stories, *LADDERS, "--out", tmp_path / "out.jsonl", "--json")
    assert json.loads(to_file.out)["rows"] == 6
    to_stream = command("score", stories, *LADDERS, "--json")
    assert len(to_stream.rows) == 6
    assert json.loads(to_stream.err.splitlines()[-1])["rows"] == 6


def test_csv_and_parquet(command, stories, tmp_path):
    plain = command("score", stories, *LADDERS).rows
    paths = {form: tmp_path / f"out.{form}" for form in ("csv", "parquet")}
    for path in paths.values():
        assert command("score", stories, *LADDERS, "--out", path).code == 0
    with paths["csv"].open(newline="", encoding="utf-8") as stream:
        cells = list(csv.DictReader(stream))
    assert [float(row["coherence_score"]) for row in cells] == [
        row["coherence_score"] for row in plain
    ]
    assert [json.loads(row["extra"]) for row in cells] == [row["extra"] for row in plain]
    assert {row["coherence_note"] for row in cells} == {""}
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(paths["parquet"]).to_pylist() == plain
    # and in again: without the added columns, the same numbers
    inputs = [{name: row[name] for name in ("output_id", "context_id", "output")} for row in cells]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(inputs[0]))
    writer.writeheader()
    writer.writerows(inputs)
    again = tmp_path / "again.csv"
    again.write_text("\ufeff" + text.getvalue(), encoding="utf-8", newline="")
    done = command("score", again, *LADDERS)
    assert [float(row["coherence_score"]) for row in csv.DictReader(io.StringIO(done.out))] == [
        row["coherence_score"] for row in plain
    ]


def test_parquet_with_null_outputs(command, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    table = {
        "n": pa.array([7, 8], pa.int16()),
        "context_id": ["story-01", "story-02"],
        "output": ["A text.", None],
    }
    parquet.write_table(pa.table(table), source)
    done = command("score", source, *LADDERS, "--out", out)
    assert done.code == 3
    rows = parquet.read_table(out)
    assert rows.schema.field("n").type == pa.int16()
    assert rows.schema.field("coherence_score").type == pa.float64()
    assert [row["coherence_note"] for row in rows.to_pylist()] == [None, "the output is null"]


@pytest.mark.parametrize(("form", "content"), [("jsonl", ""), ("csv", "context_id,output\n")])
def test_an_input_without_rows(command, tmp_path, form, content):
    source, out = tmp_path / f"in.{form}", tmp_path / "out.csv"
    source.write_text(content)
    assert command("score", source, *LADDERS, "--out", out).code == 3
    assert out.read_text() == ",".join([*filter(None, content.strip().split(",")), *ADDED]) + "\n"


def test_columns_by_other_names_and_one_context_for_all(command, write_jsonl, stories):
    rows = [json.loads(line) for line in stories.read_text().splitlines()]
    renamed = write_jsonl(
        [{"id": r["output_id"], "c": r["context_id"], "summary": r["output"]} for r in rows],
        "b.jsonl",
    )
    options = [f"--column={pair}" for pair in ("output_id=id", "context_id=c", "output=summary")]
    expected = [row["coherence_score"] for row in command("score", stories, *LADDERS).rows]
    assert [
        row["coherence_score"] for row in command("score", renamed, *LADDERS, *options).rows
    ] == expected
    alone = write_jsonl(
        [{"output": row["output"]} for row in rows if row["context_id"] == "story-01"], "c.jsonl"
    )
    found = command("score", alone, *LADDERS, "--context-id", "story-01").rows
    assert [row["coherence_score"] for row in found] == expected[:1]


def test_texts_from_the_shell(command):
    done = command(
        "score",
        "--text",
        "A keeper wept.",
        "--text",
        " ",
        "--context-id",
        "story-01",
        *LADDERS,
        "--json",
    )
    assert done.code == 3
    assert [row["output"] for row in done.rows] == ["A keeper wept.", " "]
    assert [row["coherence_note"] for row in done.rows] == [None, "the output is empty"]
    done = command(
        "score", "--text", "A keeper [bold]wept\x1b[2J.", "--context-id", "story-01", *LADDERS
    )
    assert done.code == 0
    assert (
        "A keeper [bold]wept\ufffd[2J." in done.out
    )  # neither markup nor control characters do anything
    assert re.search(
        r"signature: ladders:demo/story@[0-9a-f]{12}\|certificate:[0-9a-f]{12}\|backend:builtin/1\|",
        done.out,
    )
    assert (
        "score: ladder-sum, from -15 (worse than all 5 rungs) to 15 (better than all)" in done.out
    )


def test_the_signature_holds_all_that_made_a_score(command, stories):
    usual = command("score", stories, *LADDERS).rows[0]["signature"]
    assert re.fullmatch(
        r"ladders:demo/story@[0-9a-f]{12}\|certificate:[0-9a-f]{12}\|backend:builtin/1\|prompts:story/compare@[0-9a-f]{12}"
        r"\|refladder:\d+\.\d+\.\d+\|orders:1\|rule:ladder-sum\|least-mass:0\.05",
        usual,
    )
    others = [("--both-orders",), ("--yes-no",), ("--rule", "hard-votes"), ("--least-mass", "0.1")]
    found = {
        command("score", stories, *LADDERS, *options).rows[0]["signature"] for options in others
    }
    assert len(found | {usual}) == 5


def test_the_signature_is_the_same_wherever_the_ladders_lie(
    command, stories, tmp_path, monkeypatch
):
    names = set()
    for place in ("one", "two"):
        folder = tmp_path / place / "ladders"
        command("build", "demo/story", "--out", folder)
        names.add(command("score", stories, "--ladders", folder).rows[0]["signature"])
        monkeypatch.chdir(folder)
        names.add(command("score", stories, "--ladders", ".").rows[0]["signature"])
    assert len(names) == 1
    assert names.pop().startswith("ladders:ladders@")


def test_the_configuration_stands_beside_the_output(command, stories, tmp_path):
    out = tmp_path / "out.jsonl"
    command("score", stories, *LADDERS, "--out", out, "--rule", "hard-votes")
    stored = json.loads(Path(f"{out}.run.json").read_text())
    assert (stored["command"], stored["options"]["rule"], stored["options"]["judge"]) == (
        "score",
        "hard-votes",
        "builtin",
    )
    assert stored["signature"] == json.loads(out.read_text().splitlines()[0])["signature"]


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Judgments of some rows, one of them without a ladder, with both orders."""
    folder = tmp_path_factory.mktemp("judged")
    rows = [
        {"output_id": f"o{n}", "context_id": f"story-{n:02d}", "output": f"Day {n}. " * n}
        for n in (1, 2, 3, 99)
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("orders", [1, 2])
def test_rescoring_is_scoring_by_that_rule_with_no_judge(judged, rule, orders):
    opened = load_ladders("demo/story")
    kept = judged / f"kept{orders}.jsonl"
    asked = Scoring(ladders=opened, rule=rule, weights={"complexity": 2.0}, both_orders=orders > 1)
    tables = Tables(source=str(judged / "in.jsonl"), out=str(judged / "out.jsonl"))
    spec = ScoreSpec(asked=asked, tables=tables, judgments=kept)
    first = run(spec, Session(store=False), Silent())
    report = rescore(kept, Tables(out=str(judged / "again.jsonl")), asked.scale)
    assert report.reused == report.judgments == 3 * 2 * 5 * orders
    scored, again = (
        [json.loads(line) for line in (judged / name).read_text().splitlines()]
        for name in ("out.jsonl", "again.jsonl")
    )
    assert [
        {name: row[name] for name in again[0]} for row in scored[:3]
    ] == again  # the fourth was never judged
    assert report.order_pairs == first.order_pairs
    assert report.disagreements == first.disagreements


def test_rescore_tells_what_is_wrong_with_a_file(command, fails, stories, tmp_path):
    kept = tmp_path / "kept.jsonl"
    command("score", stories, *LADDERS, "--judgments", kept)
    lines = kept.read_text().splitlines(keepends=True)
    assert len(command("rescore", kept, "--rule", "expected-grade").rows) == 6
    kept.write_text("".join(lines[:-2]))
    assert fails(2, "rescore", kept) == (
        f"refladder: {kept}:59: the file ends within output 'o6'; run `refladder score` again to complete it\n"
    )
    kept.write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]))
    assert fails(2, "rescore", kept) == (
        f"refladder: {kept}:2: expected 'o1' against 'rung:1', found 'o1' against 'rung:2'; judgments must keep "
        "their order\n"
    )
    kept.write_text(
        "".join(lines)
        .replace('"dimension":"complexity"', '"dimension":"charm"')
        .replace('"name":"charm"', '"name":"complexity"')
    )
    assert "dimension 'charm' is not among the run's: ['coherence', 'complexity']" in fails(
        2, "rescore", kept
    )
    kept.write_bytes(b"")
    assert fails(2, "rescore", kept) == (
        f"refladder: {kept}: empty; a judgments file is what `refladder score --judgments` writes\n"
    )


def dimensions(*names):
    return [Dimension(name=name, description="x") for name in names]


def test_a_dimension_called_overall_keeps_its_score():
    both = dimensions("overall", "natural")
    assert overall_column(both) == "all_dimensions_score"
    assert {"overall_score", "natural_score", "all_dimensions_score"} < set(added_columns(both))
    assert overall_column(dimensions("coherence", "natural")) == "overall_score"


def test_dimensions_named_with_spaces():
    assert column_names("Maintains Context")[0] == "Maintains_Context_score"
    message = "dimension 'well_written' would share the column 'well_written_note' with another; score them in two runs"
    with pytest.raises(UsageError, match=message):
        added_columns(dimensions("well written", "well_written"))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=2, max_size=2).filter(any))
def test_weights_in_the_order_of_dimensions(values):
    found = weights_for(dimensions("a", "b"), {"b": values[1], "a": values[0]})
    assert found.tolist() == values


def test_rows_of_one_context_stay_together_for_a_judge_that_shares_contexts():
    class Sharing(Double):
        shares_contexts = True

    rows = (
        [("a", number) for number in range(20)]
        + [("b", number) for number in range(300)]
        + [("c", 0)]
    )
    found = list(batches(rows, Sharing(), lambda row: row[0]))
    # 16 and the 4 left of a; then b, which is cut at 256 rows; the rest of b is less than the 64 of the next batch
    assert [len(batch) for batch in found] == [20, 256, 45]
    assert [row for batch in found for row in batch] == rows
    assert [len(batch) for batch in batches(rows, Double(), lambda row: row[0])] == [
        16,
        32,
        64,
        128,
        81,
    ]


def test_score_by_written_answers(command, judge, write_jsonl, tmp_path):
    # four answers, by seed: Better, Better, Worse and one without a label: win 2/3, loss 1/3, mass 3/4;
    # 15 rungs' worth of 2/3 - 1/3 = 5
    backend = judge({"role": "compare", "texts": ["Better", "better.", "Worse", "Hm."]})
    source, out = write_jsonl([{"context_id": "story-01", "output": "A."}]), tmp_path / "out.jsonl"
    options = (
        *LADDERS,
        "--any-judge",
        "--judge",
        backend,
        "--dimension",
        "coherence",
        "--out",
        out,
    )
    assert command("score", source, *options, "--answers", "4").code == 0
    row = json.loads(out.read_text())
    assert row["coherence_score"] == pytest.approx(5.0, abs=1e-9)
    assert row["coherence_mass"] == pytest.approx(0.75)
    assert "|answers:4|" in row["signature"]
    assert "|sampling:max16,t1,p1,seed0|" in row["signature"]
    again = command("rescore", f"{out}.judgments.jsonl").rows[0]
    assert (again["coherence_score"], again["signature"]) == (
        row["coherence_score"],
        row["signature"],
    )
    # answers of another number are other judgments
    done = command("score", source, *options, "--answers", "3")
    assert done.code == 2
    assert (
        "these judgments are of another run (of 4 sampled answers per question, this run of 3)"
        in done.err
    )
    # this judge gives no label probabilities
    assert command("score", source, *options[:-2]).code == 3


def test_yes_or_no_questions_by_written_answers(command, judge, write_jsonl):
    backend = judge({"role": "compare-yesno", "texts": ["Yes", "No"]})
    source = write_jsonl([{"context_id": "story-01", "output": "A."}])
    line = (
        "score",
        source,
        *LADDERS,
        "--any-judge",
        "--judge",
        backend,
        "--dimension",
        "coherence",
        "--yes-no",
        "--answers",
        "2",
    )
    assert command(*line).rows[0]["coherence_score"] == pytest.approx(
        0.0, abs=1e-12
    )  # yes 1/2 to each claim


def test_a_judge_that_writes_no_answers_is_reported(command, stories):
    done = command("score", stories, *LADDERS, "--answers", "2")
    assert done.code == 1
    assert "the builtin backend writes the rungs of ladders and nothing else" in done.err
