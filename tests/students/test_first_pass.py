"""Students in `score`: alone, and before a judge that gets only what they do not decide."""

from __future__ import annotations

import json
import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import refladder
from refladder.backends import connect
from refladder.backends.builtin import Builtin
from refladder.errors import DataError
from refladder.files.ladder_sets import load_ladders
from refladder.jobs.score import Mapped, score_rows
from refladder.records import LabelReading
from refladder.scoring.scorer import LadderScorer
from refladder.settings import Scale, Tables
from refladder.students.first_pass import Cascade

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")
COLUMN, CASCADE, STUDENT = "coherence_score", "coherence_cascade_score", "coherence_student_score"
BETWEEN = ("--between", "-2", "4")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, its scores by the builtin judge, and a student of them."""
    from refladder.commands.main import run  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("first-pass")
    outputs, scored, student = folder / "outputs.jsonl", folder / "scored.jsonl", folder / "student"
    for arguments in (
        ("export", "demo/story", "--out", outputs),
        ("score", outputs, *LADDERS, "--out", scored),
        ("distil", scored, "--by", COLUMN, "--out", student),
    ):
        assert run([str(argument) for argument in arguments]) == 0
    return outputs, lines(scored), student


@pytest.fixture
def cascade(command, made, tmp_path):
    """Run a cascade with more options; returns what was printed, and the rows."""
    outputs, _, student = made

    def go(*options, out=tmp_path / "out.jsonl"):
        first = ("--cascade", f"distilled:{student}", *BETWEEN)
        done = command("score", outputs, *LADDERS, *first, "--out", out, "--json", *options)
        assert done.code == 0, done.err
        return json.loads(done.out), lines(out)

    return go


def test_a_student_scores_alone(command, made, tmp_path):
    outputs, scored, student = made
    done = command("score", outputs, "--judge", f"distilled:{student}", "--out", tmp_path / "out.jsonl")
    assert done.code == 0, done.err
    rows = lines(tmp_path / "out.jsonl")
    assert [row["output_id"] for row in rows] == [row["output_id"] for row in scored]
    assert list(rows[0])[-3:] == [COLUMN, "coherence_note", "signature"]
    (signature,) = {row["signature"] for row in rows}
    assert signature.startswith("backend:distilled:ngrams@")
    assert signature != scored[0]["signature"]
    learned = [row[COLUMN] for row in scored]
    assert all(min(learned) <= row[COLUMN] <= max(learned) for row in rows)  # on the scale of its teacher
    assert json.loads((tmp_path / "out.jsonl.run.json").read_text())["signature"] == signature
    assert not (tmp_path / "out.jsonl.judgments.jsonl").exists()


def test_what_a_student_cannot_read_has_no_score(command, made, tmp_path):
    source = tmp_path / "rows.jsonl"
    rows = [{"context_id": "c", "context": "A sea.", "output": " "}, {"context_id": "c", "output": "A boat."}]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("score", source, "--judge", f"distilled:{made[2]}")
    assert done.code == 3
    assert [row[COLUMN] for row in done.rows] == [None, None]
    assert [row["coherence_note"][:30] for row in done.rows] == [
        "the output is empty",
        "no text of the context, which ",
    ]
    assert "2 rows, 2 scores missing" in done.err


def test_the_ladder_set_gives_the_texts_of_contexts(command, made, tmp_path):
    outputs, _, student = made
    source = tmp_path / "rows.jsonl"
    rows = lines(outputs)
    source.write_text("".join(json.dumps({key: row[key] for key in ("context_id", "output")}) + "\n" for row in rows))
    judge = ("--judge", f"distilled:{student}")
    with_text = command("score", outputs, *judge).rows
    without = command("score", source, *judge, "--ladders", "demo/story").rows
    assert [row[COLUMN] for row in without] == [row[COLUMN] for row in with_text]


def test_only_undecided_rows_are_judged_and_have_the_judges_score(cascade, made):
    report, rows = cascade("--check-share", "0")
    _, scored, _ = made
    judged = 0
    for row, whole in zip(rows, scored, strict=True):
        if -2 <= row[STUDENT] <= 4:
            judged += 1
            assert row[COLUMN] == row[CASCADE] == whole[COLUMN]
            assert row["coherence_grade"] == whole["coherence_grade"]
        else:
            assert row[CASCADE] == row[STUDENT]
            assert [row[f"coherence_{name}"] for name in ("score", "grade", "spread", "mass")] == [None] * 4
            assert row["coherence_note"] == "decided by the student, not judged"
    assert 0 < judged < len(rows)
    first = report["first_pass"]
    assert (first["in_band"], first["decided"], first["checked"]) == (judged, len(rows) - judged, 0)
    assert report["spent"][0]["calls"] == 24 + 5 * judged  # 24 of the check of the judge: 12 ladders, 2 orders
    assert first["saved_calls"] == 5 * (len(rows) - judged)
    assert (report["rows"], report["unscored"]) == (len(rows), {})


def test_changed_decisions_are_counted_by_asking_the_judge(cascade, made):
    report, rows = cascade("--check-share", "1")
    _, scored, _ = made
    both = [(row[STUDENT], whole[COLUMN]) for row, whole in zip(rows, scored, strict=True)]
    decided = [(student, judge) for student, judge in both if not -2 <= student <= 4]
    first = report["first_pass"]
    assert first["checked"] == len(decided)
    assert first["changed"] == sum((student >= 1) != (judge >= 1) for student, judge in decided)  # 1: the middle
    somewhere = sum(judge < 4 if student > 4 else judge >= -2 for student, judge in decided)
    assert first["changed_somewhere"] == somewhere > first["changed"]
    low, high = first["interval"]
    assert 0 <= low <= first["changed"] / first["checked"] <= high <= 1
    assert first["saved_calls"] == 0
    assert [row[COLUMN] for row in rows] == [row[COLUMN] for row in scored]  # all judged
    assert {row["coherence_note"] for row in rows} == {None, "decided by the student, judged as a check"}


def test_a_check_without_an_answer_leaves_the_decision_to_the_student(command, made, tmp_path, monkeypatch):
    outputs, _, student = made
    silent = LabelReading(logprobs=None, mass=None, reason="no answer")
    monkeypatch.setattr(Builtin, "read_labels", lambda _self, prompts, _labels: [silent] * len(prompts))
    options = (*LADDERS, "--cascade", f"distilled:{student}", *BETWEEN, "--check-share", "1", "--json")
    done = command("score", outputs, *options, "--out", tmp_path / "out.jsonl")
    assert done.code == 3
    first = json.loads(done.out)["first_pass"]
    assert (first["checked"], first["unchecked"]) == (0, first["decided"])
    for row in lines(tmp_path / "out.jsonl"):
        assert row[COLUMN] is None
        assert row[CASCADE] == (None if -2 <= row[STUDENT] <= 4 else row[STUDENT])


def test_the_share_of_checks_is_that_of_a_digest_of_ids(cascade, tmp_path):
    some, _ = cascade("--check-share", "0.4")
    more, _ = cascade("--check-share", "0.7", "--restart", out=tmp_path / "more.jsonl")
    none, _ = cascade("--check-share", "0", out=tmp_path / "none.jsonl")
    decided = none["first_pass"]["decided"]
    assert 0 < some["first_pass"]["checked"] < more["first_pass"]["checked"] < decided
    share = some["first_pass"]["checked"] / decided
    assert abs(share - 0.4) < 4 * math.sqrt(0.24 / decided)


def test_a_dry_run_counts_the_calls_of_the_undecided_rows(cascade, command, made):
    outputs, _, student = made
    options = (*LADDERS, "--cascade", f"distilled:{student}", *BETWEEN)
    dry = json.loads(command("score", outputs, *options, "--dry-run", "--json").out)
    report, _ = cascade()
    assert dry["backends"][0]["calls"] == report["spent"][0]["calls"]


def test_an_interrupted_cascade_goes_on_to_the_same_bytes(cascade, command, made, tmp_path, monkeypatch):
    outputs, _, student = made
    cascade()
    again = tmp_path / "again.jsonl"
    real, asked = Builtin.read_labels, []

    def fails_later(self, prompts, labels):
        asked.extend(prompts)
        if len(asked) > 100:
            raise KeyboardInterrupt
        return real(self, prompts, labels)

    options = (*LADDERS, "--cascade", f"distilled:{student}", *BETWEEN, "--out", again, "--json")
    with monkeypatch.context() as patch:
        patch.setattr(Builtin, "read_labels", fails_later)
        assert command("score", outputs, *options).code == 130
    done = command("score", outputs, *options)
    assert json.loads(done.out)["reused"] > 0
    assert again.read_bytes() == (tmp_path / "out.jsonl").read_bytes()


def test_filter_takes_the_cascade_column_and_refuses_the_judges(cascade, command, fails, tmp_path):
    _, rows = cascade("--check-share", "0")
    path = tmp_path / "out.jsonl"
    done = command("filter", path, "--min", f"{CASCADE}=1")
    assert {row["output_id"] for row in done.rows} == {row["output_id"] for row in rows if row[CASCADE] >= 1}
    message = f"a student decided this row, so the judge gave it no '{COLUMN}'; use '{CASCADE}'"
    assert message in fails(2, "filter", path, "--min", f"{COLUMN}=1", "--out", tmp_path / "passed.jsonl")
    distil = ("distil", path, "--by", COLUMN, "--out", tmp_path / "other")
    assert message in fails(2, *distil)
    pairs = ("pairs", path, "--by", COLUMN, "--margin", "1", "--out", tmp_path / "pairs.jsonl")
    assert message in fails(2, *pairs)
    with pytest.raises(DataError, match="row 1: a student decided this row"):
        refladder.pairs([row for row in rows if row[COLUMN] is None], by=COLUMN, margin=1)


def test_a_threshold_of_the_judge_is_not_used_for_a_cascade(cascade, command, fails, made, tmp_path):
    labelled = tmp_path / "labelled.jsonl"
    labelled.write_text("".join(json.dumps({**row, "good": 1}) + "\n" for row in made[1]))
    threshold = tmp_path / "threshold.json"
    options = ("--label", "good", "--good", "=1", "--precision", "0.8", "--out")
    assert command("calibrate", labelled, "--by", COLUMN, *options, threshold).code == 0
    _, rows = cascade()
    path = tmp_path / "out.jsonl"
    text = threshold.read_text().replace(COLUMN, CASCADE)
    threshold.write_text(text)
    assert "made for scores with another signature" in fails(2, "filter", path, "--threshold", threshold)
    labelled.write_text("".join(json.dumps({**row, "good": 1}) + "\n" for row in rows))
    assert command("calibrate", labelled, "--by", CASCADE, *options, threshold).code == 0
    assert command("filter", path, "--threshold", threshold).code == 0  # the promise was made anew


def test_csv_and_parquet_have_the_same_columns(cascade, command, made, tmp_path):
    outputs, _, student = made
    _, rows = cascade()
    for form in ("csv", "parquet"):
        out = tmp_path / f"out.{form}"
        first = ("--cascade", f"distilled:{student}", *BETWEEN)
        assert command("score", outputs, *LADDERS, *first, "--out", out).code == 0
        done = command("filter", out, "--min", f"{CASCADE}=1", "--out-format", "jsonl")
        assert [row["output_id"] for row in done.rows] == [row["output_id"] for row in rows if row[CASCADE] >= 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--between", "1", "2"), "--between is the undecided band of --cascade distilled:FOLDER; give both"),
        (("--cascade", "STUDENT"), "--cascade needs --between LOW HIGH"),
        (("--cascade", "STUDENT", "--between", "4", "1"), "--between 4 1: must be two finite numbers, the lower one"),
        (("--cascade", "FOLDER", *BETWEEN), "--cascade 'FOLDER': must be distilled:FOLDER, with a folder of"),
        (("--cascade", "distilled:nowhere", *BETWEEN), "nowhere: no student.json; name a folder"),
        (("--cascade", "STUDENT", *BETWEEN, "--both-orders"), "scores with another signature: orders:2"),
        (("--cascade", "STUDENT", *BETWEEN, "--dimension", "complexity"), "the student learned coherence_score, and"),
        (("--judge", "STUDENT", "--rule", "expected-grade"), "asks no model, and --dimension is for"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_are_named(fails, made, tmp_path, options, message):
    outputs, _, student = made
    named = [f"distilled:{student}" if option == "STUDENT" else option for option in options]
    assert message in fails(2, "score", outputs, *LADDERS, *named, "--out", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_student_is_no_judge_of_other_commands(fails, made):
    message = fails(2, "evaluate", "demo/story", "--judge", f"distilled:{made[2]}", "--ladders", "demo/story")
    assert "estimates scores and compares no texts; use it as the judge of `score` only" in message


def test_a_judge_needs_ladders(fails, made):
    assert "Missing option '--ladders'" in fails(2, "score", made[0])


def test_files_of_different_students_are_refused(fails, made, tmp_path):
    outputs, _, student = made
    mixed = tmp_path / "mixed"
    shutil.copytree(student, mixed)
    record = json.loads((mixed / "student.json").read_text())
    (mixed / "student.json").write_text(json.dumps({**record, "weights": "0" * 32}))
    message = fails(2, "score", outputs, "--judge", f"distilled:{mixed}")
    assert "the weights are not those that student.json describes" in message


class Fixed:
    """A student whose estimates are given, by the text."""

    fingerprint = "fixed"

    def __init__(self, teacher, estimates):
        self.record = SimpleNamespace(column=COLUMN, teacher=teacher, reads_context=False)
        self.estimates = estimates

    def estimate(self, texts):
        return np.array([self.estimates[output] for _, output in texts])


def test_ends_of_the_band_are_undecided_and_a_score_at_the_threshold_passes(made, tmp_path):
    # The band is that of two scores of the judge, and its middle is a third one: every comparison meets an equality.
    _, scored, _ = made
    rows = {row["output"]: row[COLUMN] for row in scored}
    texts = sorted(rows, key=rows.get)
    low, high = rows[texts[20]], rows[texts[50]]
    middle = (low + high) / 2
    estimates = dict.fromkeys(texts, middle)  # in the band
    estimates |= {texts[0]: low, texts[1]: high}  # at its ends: in the band too
    estimates |= {texts[50]: high + 1}  # the judge's score is the upper end: it passes at every threshold of the band
    estimates |= {texts[49]: high + 1}  # just below: it fails at some
    estimates |= {texts[20]: low - 1}  # the judge's score is the lower end: it passes at that threshold
    estimates |= {texts[19]: low - 1}  # just below: it fails at all

    def counts():
        ladders = load_ladders("demo/story")
        dimensions = [dimension for dimension in ladders.dimensions if dimension.name == "coherence"]
        scorer = LadderScorer(connect("builtin"), ladders, dimensions, Scale(rule="ladder-sum", weights={}))
        cascade = Cascade(Fixed(scorer.report.signature, estimates), scorer, (low, high), 1.0)
        out = tmp_path / "out.jsonl"
        score_rows(cascade, Tables(source=str(made[0]), out=str(out)), Mapped(columns={}))
        return cascade.counts

    whole = counts()
    assert rows[texts[19]] < low < rows[texts[49]] < high
    assert (whole.in_band, whole.decided, whole.checked) == (len(texts) - 4, 4, 4)
    assert (whole.threshold, whole.changed, whole.changed_somewhere) == (middle, 0, 2)  # texts 49 and 20
