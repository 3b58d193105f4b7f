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
from json_lines import read_lines

from refladder.backends.builtin import Builtin
from refladder.contest.runs import read_run
from refladder.errors import UsageError
from refladder.events import Silent
from refladder.files.ladder_sets import load_ladders
from refladder.jobs.rescore import rescore
from refladder.jobs.score import run
from refladder.records import Dimension, Recipe, Run, Score
from refladder.scoring.columns import Columns, added_columns, column_names, overall_column
from refladder.scoring.rules import RULES
from refladder.scoring.scorer import batches
from refladder.session import Session
from refladder.settings import Scale, ScoreSpec, Scoring, Tables

LADDERS = "--ladders demo/story"
OF_DIMENSION = ["score", "grade", "spread", "mass", "note"]
ADDED = [f"{name}_{what}" for name in ("coherence", "complexity") for what in OF_DIMENSION]
ADDED += ["overall_score", "overall_grade", "signature"]


def log(*values):
    return dict(zip(("win", "loss", "tie"), map(math.log, values), strict=True))


def column(rows, name):
    return [row[name] for row in rows]


@pytest.fixture
def judge(tmp_path):
    """Options that name a judge that answers by rules."""

    def write(*rules):
        path = tmp_path / "rules.jsonl"
        path.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
        return f"--any-judge --judge scripted:{path}"

    return write


@pytest.fixture
def scored(command, judge, write_jsonl):
    """Score one text by rules, and return how the command ended."""
    source = write_jsonl([{"output_id": "a", "context_id": "story-01", "output": "A."}])

    def go(*rules, options="--dimension coherence"):
        return command(f"score {source} {LADDERS} {judge(*rules)} {options}")

    return go


def test_rows_come_out_in_order_with_their_own_columns_first(command, stories):
    done = command(f"score {stories} {LADDERS}")
    assert done.code == 0
    for before, after in zip(stories.read_text().splitlines(), done.out.splitlines(), strict=True):
        assert after.startswith(before[:-1] + ',"coherence_score": ')  # letter for letter
        assert list(json.loads(after)) == [*json.loads(before), *ADDED]
    assert "\n6 rows, 0 scores missing; 60 judgments (0 reused, 0 unparsed)\n" in done.err


def test_the_paper_s_rule_end_to_end_by_hand(scored):
    # Beats every rung with .6, loses .1, ties .3: 1+2+3+4+5 = 15 rungs' worth of .5 = 7.5; grade: .6 + .15 = .75 of
    # the way from 1 to 5 = 4; the score lies (7.5 + 15) / 30 = .75 of the way between its bounds.
    # One rung's draw has variance .6 + .3/4 - .75^2 = .1125; the mean of 5: sqrt(.1125 / 5) = .15; on a scale of 4: .6
    (row,) = scored({"role": "compare", "answer": log(0.6, 0.1, 0.3)}, options="").rows
    expected = {"score": 7.5, "grade": 4.0, "spread": 0.6, "mass": 1.0}
    found = {name: row[f"coherence_{name}"] for name in expected}
    assert found == pytest.approx(expected, abs=1e-12)
    assert row["overall_score"] == pytest.approx(0.75, abs=1e-12)


def test_weights_make_the_overall_score(scored):
    rules = (
        {"contains": {"dimension": "coherence"}, "answer": log(0.98, 0.01, 0.01)},
        {"contains": {"dimension": "complexity"}, "answer": log(0.25, 0.25, 0.5)},
    )
    (row,) = scored(*rules, options="--weight complexity=1 --weight coherence=3").rows
    # coherence: difference .97, place (1 + .97) / 2 = .985; complexity: place .5; (3 * .985 + .5) / 4 = .86375
    assert row["overall_score"] == pytest.approx(0.86375, abs=1e-12)


def test_both_orders(scored):
    """A judge that prefers whatever comes second: the two orders cancel, and the disagreement is told."""
    rule = {"role": "compare", "answer": log(0.7, 0.2, 0.1)}
    done = scored(rule, options="--dimension coherence --both-orders")
    # reference first: win .7 loss .2; swapped, seen from the output: win .2 loss .7; the mean is .45 each
    (row,) = done.rows
    assert row["coherence_score"] == pytest.approx(0.0, abs=1e-12)
    assert row["coherence_grade"] == pytest.approx(3.0, abs=1e-12)
    assert "overall_score" not in row  # of one dimension
    assert "order inconsistency: 100.0% of 5 pairs\n" in done.err
    assert "|orders:2|" in row["signature"]


def test_yes_or_no_questions(command, stories, scored):
    done = command(f"score {stories} {LADDERS} --yes-no --json")
    assert done.code == 0
    assert all(-15 <= row["coherence_score"] <= 15 for row in done.rows)
    assert "story/compare-yesno@" in done.rows[0]["signature"]
    # written answers: yes 1/2 to each claim
    rule = {"role": "compare-yesno", "texts": ["Yes", "No"]}
    (row,) = scored(rule, options="--dimension coherence --yes-no --answers 2").rows
    assert row["coherence_score"] == pytest.approx(0.0, abs=1e-12)


def test_score_by_written_answers(scored, command, tmp_path):
    # four answers, by seed: Better, Better, Worse and one without a label: win 2/3, loss 1/3, mass 3/4;
    # 15 rungs' worth of 2/3 - 1/3 = 5
    rule = {"role": "compare", "texts": ["Better", "better.", "Worse", "Hm."]}
    out = tmp_path / "out.jsonl"
    options = f"--dimension coherence --out {out}"
    assert scored(rule, options=f"{options} --answers 4").code == 0
    (row,) = read_lines(out)
    assert row["coherence_score"] == pytest.approx(5.0, abs=1e-9)
    assert row["coherence_mass"] == pytest.approx(0.75)
    assert "|answers:4|" in row["signature"]
    assert "|sampling:max16,t1,p1,seed0|" in row["signature"]
    (again,) = command(f"rescore {out}.judgments.jsonl").rows
    assert again["coherence_score"] == row["coherence_score"]
    assert again["signature"] == row["signature"]
    # answers of another number are other judgments
    done = scored(rule, options=f"{options} --answers 3")
    assert done.code == 2
    other = "these judgments are of another run (asked with --answers 4, this run with 3)"
    assert other in done.err
    # this judge gives no label probabilities
    assert "no answer of the judge check could be read" in scored(rule).err


def test_unreadable_judgments_give_no_score(command, judge, stories, tmp_path):
    backend = judge(
        {"contains": {"target": "day 2", "dimension": "coherence"}, "error": "HTTP 503"},
        {"answer": log(0.5, 0.25, 0.25)},
    )
    out = tmp_path / "out.jsonl"
    done = command(f"score {stories} {LADDERS} {backend} --out {out} --json")
    assert done.code == 3
    rows = read_lines(out)
    for name in ("coherence_score", "overall_score"):
        assert [place for place, value in enumerate(column(rows, name)) if value is None] == [1]
    assert rows[1]["complexity_score"] is not None
    assert rows[1]["coherence_note"] == "5 of 5 judgments unparsed: HTTP 503"
    counts = json.loads(done.out)
    assert counts["unscored"] == {"coherence": 1}
    assert counts["reasons"] == {"5 of 5 judgments unparsed: HTTP 503": 1}
    assert (counts["rows"], counts["judgments"], counts["unparsed"]) == (6, 60, 5)
    # what filters these rows counts it as unscored, and does not drop it in silence
    done = command(f"filter {out} --min coherence_score=-15")
    assert "5 passed (83.3%), 0 rejected, 1 unscored (dropped)" in done.err


def test_texts_beyond_the_ladders_are_counted_in_every_record_of_the_run(
    command, judge, stories, tmp_path
):
    # One of 6 texts loses to all 5 coherence rungs; all else wins with .6.
    backend = judge(
        {"contains": {"target": "day 2", "dimension": "coherence"}, "answer": log(0.2, 0.7, 0.1)},
        {"answer": log(0.6, 0.3, 0.1)},
    )
    out = tmp_path / "out.jsonl"
    hardly = "such scores are hard to tell apart"
    told = [
        f"coherence: 5 of 6 texts beat the top rung, 1 ranks below the lowest; {hardly}",
        f"complexity: 6 of 6 texts beat the top rung; {hardly}",
    ]
    line = f"score {stories} {LADDERS} {backend} --any-judge --out {out}"
    again = f"rescore {out}.judgments.jsonl --out {tmp_path}/again.jsonl"
    for each in (line, again):
        done = command(each)
        assert done.code == 0
        assert done.err.splitlines()[-2:] == told
    run = json.loads(Path(f"{out}.run.json").read_text())
    for counts in (*(json.loads(command(f"{each} --json").out) for each in (again, line)), run):
        assert counts["above_top"] == {"coherence": 5, "complexity": 6}
        assert counts["below_bottom"] == {"coherence": 1, "complexity": 0}
    key = read_run(out).key
    (check, _), (doubtful, *beyond) = key["facts"], key["warnings"]
    counts = "coherence 6 of 12 ladders, complexity 6 of 12 ladders"
    assert check == f"judge check, best rung against the worst: {counts}."
    assert doubtful.endswith(
        f" at telling the best rung from the worst ({counts}); do not rely on its scores."
    )
    assert beyond == [
        f"coherence: 5 texts beat the top rung, 1 ranks below the lowest; {hardly}.",
        f"complexity: 6 texts beat the top rung; {hardly}.",
    ]
    for name in ("above_top", "below_bottom", "judge_check"):  # as an older version wrote it
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
    out = tmp_path / "out.jsonl"
    line = f"score {source} {LADDERS} {backend} --dimension coherence --out {out}"
    done = command(f"{line} --json")
    assert done.code == 3
    counts = json.loads(done.out)
    assert (counts["unscored"], counts["unparsed"], counts["low_mass"]) == ({"coherence": 1}, 5, 5)
    told = "Low label mass in 5 of 15 judgments: the judge gave the labels less than half of its probability."
    assert told in command(line).err
    reason = "5 of 5 judgments unparsed: label mass {} is below 0.05 (--least-mass)"
    assert counts["reasons"] == {reason.format("..."): 1}
    trains, boats, planes = read_lines(out)
    assert {trains[f"coherence_{name}"] for name in ("score", "grade", "spread")} == {None}
    assert trains["coherence_mass"] == pytest.approx(0.00402)
    assert trains["coherence_note"] == reason.format(0.004)
    assert boats["coherence_score"] == pytest.approx(15 * (0.2 - 0.1) / 0.32)
    found = (
        "the judge is not significantly better than chance at telling the best rung from the worst "
        "(coherence 6 of 12 ladders)"
    )
    low = "low label mass in 5 of 5 judgments, minimum 0.32"
    assert boats["coherence_note"] == f"{low}; {found}"
    assert (planes["coherence_mass"], planes["coherence_note"]) == (pytest.approx(1.0), found)
    # the judgments keep the reading, so that another limit needs no judge
    again = command(f"rescore {out}.judgments.jsonl --least-mass 0.001")
    assert again.code == 0
    assert again.rows[0]["coherence_score"] == pytest.approx(15 * (0.004 - 1e-5) / 0.00402)
    assert again.rows[0]["coherence_note"] == "low label mass in 5 of 5 judgments, minimum 0.004"
    again = command(f"rescore {out}.judgments.jsonl --least-mass 0.5")
    assert [value is None for value in column(again.rows, "coherence_score")] == [True, True, False]
    assert "least-mass:0.5" in again.rows[2]["signature"]
    again = command(f"rescore {out}.judgments.jsonl")
    assert again.rows[0]["coherence_note"] == trains["coherence_note"]
    texts = f"--text 'A day.' --context-id story-01 {LADDERS}"
    faint = command(f"score {texts} {judge({'answer': log(0.2, 0.1, 0.1)})}")
    assert "\nLow label mass in 10 of 10 judgments: " in faint.err
    sure = command(f"score {texts} {judge({'answer': log(0.5, 0.3, 0.2)})}")
    assert "Low label mass" not in sure.err


def test_a_judge_that_gives_no_mass_is_scored(stories, tmp_path):
    class NoMass(Builtin):
        def read_labels(self, prompts, labels):
            return [replace(reading, mass=None) for reading in super().read_labels(prompts, labels)]

    opened, out = load_ladders("demo/story"), tmp_path / "out.jsonl"
    asked = Scoring(ladders=opened, least_mass=1.0, any_judge=True)
    tables = Tables(source=str(stories), out=str(out))
    run(ScoreSpec(asked=asked, tables=tables, judge=NoMass()), Session(store=False), Silent())
    rows = read_lines(out)
    assert set(column(rows, "coherence_mass")) == {None}
    assert None not in column(rows, "coherence_score")


def test_the_table_of_texts_shows_the_spread_as_a_column_of_its_own(command, judge):
    backend = judge({"answer": log(0.6, 0.1, 0.3)})
    texts = f"--text 'A day.' --context-id story-01 {LADDERS} --dimension coherence"
    done = command(f"score {texts} {backend}")
    assert re.search(r"A day\. +7\.50 +4\.00 +0\.60 *\n", done.out)  # as worked out by hand above
    spread = (
        "spread: how undecided the judge was, in units of the grade. Not a confidence interval."
    )
    assert f"\ngrade: position on the human scale\n{spread}\n" in done.out
    assert "95 %" not in done.out


def test_judges_that_fail_as_a_whole(command, stories):
    done = command(f"score {stories} {LADDERS} --judge scripted:nowhere.jsonl")
    assert done.code == 1
    assert done.err == (
        "refladder: backend 'scripted': no file 'nowhere.jsonl'; pass scripted:PATH, a file of JSON rules\n"
    )
    done = command(f"score {stories} {LADDERS} --answers 2")
    assert done.code == 1
    assert "the builtin backend writes the rungs of ladders and nothing else" in done.err


def test_the_summary_goes_to_the_stream_that_is_free(command, stories, tmp_path):
    to_file = command(f"score {stories} {LADDERS} --out {tmp_path}/out.jsonl --json")
    assert json.loads(to_file.out)["rows"] == 6
    to_stream = command(f"score {stories} {LADDERS} --json")
    assert len(to_stream.rows) == 6
    assert json.loads(to_stream.err.splitlines()[-1])["rows"] == 6


def test_csv_and_parquet(command, stories, tmp_path):
    plain = command(f"score {stories} {LADDERS}").rows
    for form in ("csv", "parquet"):
        assert command(f"score {stories} {LADDERS} --out {tmp_path}/out.{form}").code == 0
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as stream:
        cells = list(csv.DictReader(stream))
    numbers = column(plain, "coherence_score")
    assert [float(row["coherence_score"]) for row in cells] == numbers
    assert [json.loads(row["extra"]) for row in cells] == column(plain, "extra")
    assert set(column(cells, "coherence_note")) == {""}
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == plain
    # and in again: without the added columns, the same numbers
    text = io.StringIO(newline="")
    names = ["output_id", "context_id", "output"]
    writer = csv.DictWriter(text, names, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(cells)
    again = tmp_path / "again.csv"
    again.write_text("\ufeff" + text.getvalue(), encoding="utf-8", newline="")
    rows = csv.DictReader(io.StringIO(command(f"score {again} {LADDERS}").out))
    assert [float(row["coherence_score"]) for row in rows] == numbers


def test_parquet_with_null_outputs(command, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    contexts, outputs = ["story-01", "story-02"], ["A text.", None]
    table = {"n": pa.array([7, 8], pa.int16()), "context_id": contexts, "output": outputs}
    parquet.write_table(pa.table(table), source)
    assert command(f"score {source} {LADDERS} --out {out}").code == 3
    rows = parquet.read_table(out)
    assert rows.schema.field("n").type == pa.int16()
    assert rows.schema.field("coherence_score").type == pa.float64()
    assert column(rows.to_pylist(), "coherence_note") == [None, "the output is null"]


@pytest.mark.parametrize(("form", "content"), [("jsonl", ""), ("csv", "context_id,output\n")])
def test_an_input_without_rows(command, tmp_path, form, content):
    source, out = tmp_path / f"in.{form}", tmp_path / "out.csv"
    source.write_text(content)
    assert command(f"score {source} {LADDERS} --out {out}").code == 3
    assert out.read_text() == ",".join([*filter(None, content.strip().split(",")), *ADDED]) + "\n"


def test_texts_from_the_shell(command):
    of_story = f"--context-id story-01 {LADDERS}"
    done = command(f"score --text 'A keeper wept.' --text ' ' {of_story} --json")
    assert done.code == 3
    assert column(done.rows, "output") == ["A keeper wept.", " "]
    assert column(done.rows, "coherence_note") == [None, "the output is empty"]
    done = command(f"score --text 'A keeper [bold]wept\x1b[2J.' {of_story}")
    assert done.code == 0
    # neither markup nor control characters do anything
    assert "A keeper [bold]wept\ufffd[2J." in done.out
    assert re.search(r"signature: ladders:demo/story@[0-9a-f]{12}\|certificate:", done.out)
    scale = "score: ladder-sum, from -15 (worse than all 5 rungs) to 15 (better than all)"
    assert scale in done.out


def test_the_signature_holds_all_that_made_a_score(command, stories):
    usual = command(f"score {stories} {LADDERS}").rows[0]["signature"]
    digest = "[0-9a-f]{12}"
    assert re.fullmatch(
        rf"ladders:demo/story@{digest}\|certificate:{digest}\|backend:builtin/1\|prompts:story/compare@{digest}"
        rf"\|refladder:\d+\.\d+\.\d+\|criteria:coherence@{digest},complexity@{digest}"
        r"\|orders:1\|rule:ladder-sum\|least-mass:0\.05",
        usual,
    )
    others = (
        *("--both-orders", "--yes-no", "--rule hard-votes", "--least-mass 0.1"),
        *("--weight coherence=2", "--dimension coherence"),
    )
    found = {
        command(f"score {stories} {LADDERS} {option}").rows[0]["signature"] for option in others
    }
    assert len(found | {usual}) == 7


def test_the_signature_is_the_same_wherever_the_ladders_lie(
    command, stories, tmp_path, monkeypatch
):
    names = set()
    for place in ("one", "two"):
        folder = tmp_path / place / "ladders"
        command(f"build demo/story --out {folder}")
        names.add(command(f"score {stories} --ladders {folder}").rows[0]["signature"])
        monkeypatch.chdir(folder)
        names.add(command(f"score {stories} --ladders .").rows[0]["signature"])
    assert len(names) == 1
    assert names.pop().startswith("ladders:ladders@")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("orders", [1, 2])
def test_rescoring_is_scoring_by_that_rule_with_no_judge(write_jsonl, tmp_path, rule, orders):
    rows = [
        {"output_id": f"o{n}", "context_id": f"story-{n:02d}", "output": f"Day {n}. " * n}
        for n in (1, 2, 3, 99)
    ]
    ladders, kept = load_ladders("demo/story"), tmp_path / "kept.jsonl"
    asked = Scoring(ladders=ladders, rule=rule, weights={"complexity": 2.0}, both_orders=orders > 1)
    tables = Tables(source=str(write_jsonl(rows)), out=str(tmp_path / "out.jsonl"))
    spec = ScoreSpec(asked=asked, tables=tables, judgments=kept)
    first = run(spec, Session(store=False), Silent())
    report = rescore(kept, Tables(out=str(tmp_path / "again.jsonl")), asked.scale, Silent())
    assert report.reused == report.judgments == 3 * 2 * 5 * orders
    scored, again = read_lines(tmp_path / "out.jsonl"), read_lines(tmp_path / "again.jsonl")
    # the fourth has no ladder, so it was never judged
    assert [{name: row[name] for name in again[0]} for row in scored[:3]] == again
    assert report.order_pairs == first.order_pairs
    assert report.disagreements == first.disagreements


def test_rescore_tells_what_is_wrong_with_a_file(command, fails, stories, tmp_path):
    kept = tmp_path / "kept.jsonl"
    command(f"score {stories} {LADDERS} --judgments {kept}")
    lines = kept.read_text().splitlines(keepends=True)
    assert len(command(f"rescore {kept} --rule expected-grade").rows) == 6
    other = "".join(lines).replace('"dimension":"complexity"', '"dimension":"charm"')
    context = json.loads(lines[1])["context_id"]
    for text, message in (
        (
            # rungs 1 to 4 of coherence, and rung 5 of complexity
            "".join([*lines[:5], *lines[10:]]),
            (
                f":6: expected 'coherence' of context {context!r}, found 'complexity' of {context!r}; "
                "judgments must keep their order"
            ),
        ),
        (
            "".join(lines[:-2]),
            ":59: the file ends within output 'o6'; run `refladder score` again to complete it",
        ),
        (
            "".join([lines[0], lines[2], lines[1], *lines[3:]]),
            ":2: expected 'o1' against 'rung:1', found 'o1' against 'rung:2'; judgments must keep their order",
        ),
        (
            other.replace('"name":"charm"', '"name":"complexity"'),
            ":7: dimension 'charm' is not among the run's: ['coherence', 'complexity']",
        ),
        ("", ": empty; a judgments file is what `refladder score --judgments` writes"),
    ):
        kept.write_text(text)
        assert fails(2, f"rescore {kept}") == f"refladder: {kept}{message}\n"


def dimensions(*names):
    return [Dimension(name=name, description="x") for name in names]


def test_dimensions_named_with_spaces():
    assert column_names("Maintains Context")[0] == "Maintains_Context_score"
    message = "dimension 'well_written' would share the column 'well_written_note' with another; score them in two runs"
    with pytest.raises(UsageError, match=message):
        added_columns(dimensions("well written", "well_written"))
    message = "dimension 'fluency' would share the column 'fluency_note' with another; score them in two runs with"
    with pytest.raises(UsageError, match=message):
        added_columns(dimensions("Fluency", "fluency"))


def test_the_weighted_score_never_takes_the_column_of_a_dimension_called_overall():
    clash = dimensions("overall", "naturalness")
    assert overall_column(dimensions("clarity", "charm")) == "overall_score"
    assert overall_column(clash) == "all_dimensions_score"
    message = "^dimensions called 'overall' and 'all dimensions' leave no column for the weighted score; score them"
    with pytest.raises(UsageError, match=message):
        added_columns(dimensions("overall", "all dimensions"))
    # Wins against both rungs on overall: 1 + 2 = 3. Loses to both on naturalness: -3. Half way between the bounds.
    unknown = {"grade": None, "spread": None, "mass": 1.0, "reason": None, "signature": "all"}
    scores = [
        Score(output_id="o", dimension=dimension.name, value=value, **unknown)
        for dimension, value in zip(clash, (3.0, -3.0), strict=True)
    ]
    recipe = Recipe(backend="b", prompts=(), sampling=None, version="1")
    run = Run(recipe=recipe, ladders="l@1", dimensions=tuple(clash), rungs=2, orders=1)
    columns = Columns(run, Scale(rule="ladder-sum", weights={}))
    (row,) = columns.rows([scores])
    own = row["overall_score"], row["naturalness_score"], row["all_dimensions_score"]
    assert own == (3.0, -3.0, 0.5)
    assert columns.overall([scores]) == [0.5]
    assert list(row) == list(added_columns(clash))


def test_score_says_which_column_is_which(command, tmp_path, write_jsonl):
    clash, task = tmp_path / "set", tmp_path / "task.toml"
    dimension = '[[dimensions]]\nname = "{}"\ndescription = "Good texts."\nlow = 1\nhigh = 5\n'
    words = map(dimension.format, ("overall", "naturalness"))
    task.write_text('task = "open"\n' + "".join(words))
    table = write_jsonl([{"context": "A ferry.", "output": "It sails."}])
    built = f"build table --source {table} --task-file {task} --writer builtin --out {clash}"
    assert command(built).code == 0
    done = command(f"score {table} --ladders {clash}")
    assert done.code == 0
    said = "overall_score is the score on the dimension 'overall'; the weighted score is all_dimensions_score\n"
    assert said in done.err
    done = command(f"score {table} --ladders {clash} --dimension overall")
    assert "all_dimensions_score" not in done.err


def test_rows_of_one_context_stay_together_for_a_judge_that_shares_contexts():
    class Sharing(Double):
        shares_contexts = True

    counts = {"a": 20, "b": 300, "c": 1}
    rows = [(context, number) for context, count in counts.items() for number in range(count)]
    found = list(batches(rows, Sharing(), lambda row: row[0]))
    # 16 and the 4 left of a; then b, which is cut at 256 rows; the rest of b is less than the 64 of the next batch
    assert list(map(len, found)) == [20, 256, 45]
    assert [row for batch in found for row in batch] == rows
    apart = batches(rows, Double(), lambda row: row[0])
    assert list(map(len, apart)) == [16, 32, 64, 128, 81]
    assert list(map(len, batches(rows, Sharing(), lambda row: row[0], window=200))) == [200, 121]
    assert list(map(len, batches(rows, Double(), window=200))) == [16, 32, 64, 128, 81]
