"""A judge proves itself before the first row: the best rung of ladders against the worst, in both orders."""

from __future__ import annotations

import json
import logging
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import Double
from scipy.stats import binomtest
from scored_folders import Inline, split

import refladder
from refladder.backends import BACKENDS
from refladder.backends.builtin import NOTICE
from refladder.errors import JudgeRefusedError
from refladder.records import LabelReading
from refladder.registry import Entry
from refladder.scoring.judge_check import check_lines, drawn_questions

ROWS = [{"context_id": "story-01", "output": "A keeper found a bottle on the rocks."}]
DEMO = refladder.load_ladders("demo/story")
ENDS = {ladder.rungs[end].text: end for ladder in DEMO.ladders.values() for end in (0, -1)}
WIN, LOSS, TIE = (0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.4, 0.4, 0.2)
COHERENCE = ("--ladders", "demo/story", "--judge", "rehearsed", "--dimension", "coherence")


class Rehearsed(Double):
    """Says the same of each best rung that is the target, and of each that is the reference; else that it is better.

    The first `wrong` questions about two ends get the opposite answer. Only `dimension` is judged so; others right.
    """

    fingerprint = "rehearsed/1"

    def __init__(self, best=WIN, worst=LOSS, *, wrong=0, dimension=None, mass=1.0):
        self.best, self.worst, self.wrong, self.dimension, self.mass = (
            best,
            worst,
            wrong,
            dimension,
            mass,
        )
        self.ends, self.others = 0, 0

    def read_labels(self, prompts, labels):
        return [self.reading(prompt, labels) for prompt in prompts]

    def reading(self, prompt, labels):
        ends = [ENDS.get(prompt.slots[name]) for name in ("target", "reference")]
        if None in ends:
            self.others += 1
            shares = WIN
        else:
            self.ends += 1
            best, worst = (
                (self.best, self.worst)
                if self.dimension in {None, prompt.slots["dimension"]}
                else (WIN, LOSS)
            )
            if self.ends <= self.wrong:
                best, worst = worst, best
            shares = best if ends[0] == -1 else worst
        if shares is None:
            return LabelReading(logprobs=None, mass=None, reason="no label")
        given, meaning = dict(zip(("win", "loss", "tie"), shares, strict=True)), prompt.labels
        outcome_of = dict(zip(meaning, prompt.outcomes, strict=True))
        logprobs = tuple(math.log(given[outcome_of[label]] * self.mass) for label in labels)
        return LabelReading(logprobs=logprobs, mass=self.mass)


opened = None


@pytest.fixture
def judge(monkeypatch):
    """Make `--judge rehearsed` answer like this."""
    monkeypatch.setitem(BACKENDS, "rehearsed", Entry(f"{__name__}:opened", ""))

    def go(*answers, **options):
        made = Rehearsed(*answers, **options)
        monkeypatch.setitem(globals(), "opened", lambda _target: made)
        return made

    return go


@pytest.fixture
def table(write_jsonl):
    return write_jsonl(ROWS)


def record(out):
    return json.loads(out.with_name(f"{out.name}.run.json").read_text())["judge_check"]


@pytest.mark.parametrize(
    ("answers", "right"),
    [
        ((WIN, LOSS), 12),
        ((WIN, WIN), 6),
        ((LOSS, WIN), 0),
        ((TIE, TIE), 6),
        ((WIN, TIE), 9),
    ],  # of 12 ladders, each the mean of both orders
)
def test_right_answers_are_counted_with_the_interval_of_wilson(
    judge, command, table, answers, right
):
    judge(*answers)
    out = table.with_name("out.jsonl")
    done = command(
        "score",
        table,
        "--ladders",
        "demo/story",
        "--judge",
        "rehearsed",
        "--any-judge",
        "--out",
        out,
    )
    assert done.code == 0
    assert (
        f"best rung against the worst: coherence {right} of 12 ladders, complexity {right} of 12 ladders\n"
        in done.err
    )
    interval = binomtest(right, 12).proportion_ci(method="wilson")
    for name, check in zip(("coherence", "complexity"), record(out), strict=True):
        assert check["dimension"] == name
        assert (check["compared"], check["read"], check["unparsed"], check["right"]) == (
            12,
            12,
            0,
            right,
        )
        assert check["shared"] is False
        assert (check["low"], check["high"]) == pytest.approx(
            (interval.low, interval.high), abs=1e-12
        )


def test_a_judge_that_cannot_tell_is_refused_before_a_row_is_asked(judge, command, fails, table):
    made = judge(LOSS, WIN, dimension="complexity")
    out = table.with_name("out.jsonl")
    arguments = ("--ladders", "demo/story", "--judge", "rehearsed", "--no-store", "--out", out)
    assert fails(2, "score", table, *arguments) == (
        "refladder: rehearsed/1 does not distinguish the best rung from the worst (complexity 0 of 12 ladders): "
        "`refladder certify` shows whether the judge or the ladders are at fault, and --any-judge scores anyway\n"
    )
    assert (made.ends, made.others) == (48, 0)
    assert not out.exists()
    assert (
        command("score", table, "--ladders", "demo/story", "--out", out).code == 0
    )  # another judge goes on there


def test_any_judge_scores_all_the_same_with_a_warning(judge, command, table):
    judge(LOSS, WIN)
    done = command("score", table, *COHERENCE, "--any-judge")
    assert (done.code, len(done.rows)) == (0, 1)
    assert (
        "The judge does not distinguish the best rung from the worst (coherence 0 of 12 ladders); its scores mean nothing.\n"
        in done.err
    )


@pytest.mark.parametrize(
    # wrong answers, of which a ladder has two; by hand, 5 of 12 ladders end at .680, 5.5 at .714 and 6 at .746;
    # 11.5 of 12 begin at .699, and 12 of 12 at .758
    ("wrong", "doubtful"),
    [(14, None), (13, True), (12, True), (1, True), (0, False)],
)
def test_the_ends_of_the_interval_decide(judge, command, table, wrong, doubtful):
    judge(wrong=wrong)
    done = command("score", table, *COHERENCE)
    assert done.code == (2 if doubtful is None else 0)
    warning = "The judge check is no proof (coherence "
    advice = ": a proof needs 12 ladders, and a 95 % interval of the share above 70 %. `refladder certify` shows more.\n"
    assert (advice in done.err) == bool(doubtful)
    assert (warning in done.err) == bool(doubtful)


def test_what_cannot_be_read_is_left_out_and_named(judge, command, table):
    judge(WIN, None)
    done = command("score", table, *COHERENCE, "--no-store")
    assert (
        "best rung against the worst: coherence 12 of 12 ladders and 12 answers unparsed\n"
        in done.err
    )
    assert "no proof" not in done.err  # 12 of 12 begins at .758 (scipy)
    judge(None, None)
    done = command("score", table, *COHERENCE, "--no-store")
    assert "best rung against the worst: coherence no verdict (24 answers unparsed)\n" in done.err
    assert "The judge check is no proof (coherence no verdict (24 answers unparsed))" in done.err


def test_an_answer_of_low_mass_counts(judge, fails, table):
    judge(LOSS, WIN, mass=0.01)
    assert "(coherence 0 of 12 ladders)" in fails(2, "score", table, *COHERENCE)


def test_few_ladders_are_no_proof(caplog):
    some = {key: ladder for key, ladder in DEMO.ladders.items() if key[0] <= "story-11"}
    caplog.set_level(logging.INFO, "refladder")
    refladder.score(
        ROWS, ladders=replace(DEMO, ladders=some), judge=Rehearsed(), dimensions=["coherence"]
    )
    assert "judge check, best rung against the worst: coherence 11 of 11 ladders" in caplog.messages
    assert any(
        "The judge check is no proof (coherence 11 of 11 ladders)" in message
        for message in caplog.messages
    )


@pytest.mark.parametrize(("last", "refused"), [("story-04", False), ("story-05", True)])
def test_fewer_than_five_ladders_refuse_no_judge(caplog, last, refused):
    some = {key: ladder for key, ladder in DEMO.ladders.items() if key[0] <= last}
    arguments = {
        "ladders": replace(DEMO, ladders=some),
        "judge": Rehearsed(LOSS, WIN),
        "dimensions": ["coherence"],
    }
    if refused:
        with pytest.raises(JudgeRefusedError, match=r"\(coherence 0 of 5 ladders\)"):
            refladder.score(ROWS, **arguments)
        return
    assert (
        len(refladder.score(ROWS, **arguments)) == 1
    )  # 0 of 4 ends at .490, 2 of 5 at .769 (scipy)
    assert (
        "The judge seems not to distinguish the best rung from the worst (coherence 0 of 4 ladders). It is not refused, "
        "because this needs 5 ladders with an answer that can be read." in caplog.messages
    )


@pytest.mark.parametrize("refused", [True, False])
def test_all_dimensions_of_a_shared_set_count_together(caplog, refused):
    """3 anchors on two dimensions: 0 of 6 ladders (to .39) is refused, and 3 of 6 (.19 to .81) is not."""
    anchors = tuple(sorted(DEMO.contexts))[:3]
    some = {key: ladder for key, ladder in DEMO.ladders.items() if key[0] in anchors}
    contexts = {name: DEMO.contexts[name] for name in anchors}
    shared = replace(DEMO, ladders=some, contexts=contexts, anchors=anchors)
    made = Rehearsed(LOSS, WIN, dimension=None if refused else "coherence")
    if refused:
        with pytest.raises(
            JudgeRefusedError, match=r"\(coherence 0 of 3 ladders, complexity 0 of 3 ladders\)"
        ):
            refladder.score(ROWS, ladders=shared, judge=made)
        return
    assert len(refladder.score(ROWS, ladders=shared, judge=made)) == 1
    assert any(
        "is no proof (coherence 0 of 3 ladders, complexity 3 of 3 ladders): " in each
        for each in caplog.messages
    )


def test_sixteen_ladders_of_many_are_drawn_and_the_same_each_time():
    names = [f"{context}{copy}" for context in DEMO.contexts for copy in ("", "-again")]  # 24
    contexts = {
        name: replace(DEMO.contexts[name.removesuffix("-again")], id=name) for name in names
    }
    ladders = {
        (name, "coherence"): DEMO.ladders[name.removesuffix("-again"), "coherence"]
        for name in names
    }
    many = replace(DEMO, contexts=contexts, ladders=ladders)
    questions = drawn_questions(many, DEMO.dimensions[0])
    assert len(questions) == 32
    assert len({question.context.id for question in questions}) == 16
    assert questions == drawn_questions(many, DEMO.dimensions[0])


def test_a_set_without_the_texts_of_its_contexts_is_not_checked(caplog):
    caplog.set_level(logging.INFO, "refladder")
    rows = [{**row, "context": DEMO.contexts["story-01"].text} for row in ROWS]
    made = Rehearsed(LOSS, WIN)
    refladder.score(rows, ladders=replace(DEMO, contexts={}), judge=made, dimensions=["coherence"])
    shown = "coherence not checked, as the set has no texts of its contexts"
    assert f"judge check, best rung against the worst: {shown}" in caplog.messages
    assert (made.ends, made.others) == (0, 5)


def test_a_call_refuses_too_and_names_its_parameter():
    arguments = {"ladders": "demo/story", "dimensions": ["coherence"]}
    with pytest.raises(
        JudgeRefusedError, match=r"\(coherence 0 of 12 ladders\).* any_judge scores anyway$"
    ):
        refladder.score(ROWS, judge=Rehearsed(LOSS, WIN), **arguments)
    assert len(refladder.score(ROWS, judge=Rehearsed(LOSS, WIN), any_judge=True, **arguments)) == 1


def test_a_check_is_paid_for_once(judge, command, fails, table):
    made = judge()
    assert command("score", table, *COHERENCE).code == 0
    assert (made.ends, made.others) == (24, 5)
    done = command("score", table, *COHERENCE)
    assert "best rung against the worst: coherence 12 of 12 ladders\n" in done.err
    assert (made.ends, made.others) == (24, 10)
    assert command("score", table, *COHERENCE[:4]).code == 0  # complexity is new
    assert made.ends == 48
    judge(LOSS, WIN)
    assert command("score", table, *COHERENCE).code == 0  # by its fingerprint, the same judge
    assert command("score", table, *COHERENCE, "--no-store").code == 2  # which remembers nothing
    made.fingerprint = "rehearsed/2"
    judge(LOSS, WIN).fingerprint = "rehearsed/2"
    assert "stored result" not in fails(2, "score", table, *COHERENCE)
    told = fails(2, "score", table, *COHERENCE)
    file = re.search(r"delete the stored result (\S+) to ask again", told)[1]
    Path(file).unlink()
    judge().fingerprint = "rehearsed/2"
    assert command("score", table, *COHERENCE).code == 0


def test_a_dry_run_counts_what_is_not_remembered(judge, command, table):
    made = judge()
    assert (
        "dry run, rehearsed: 29 calls," in command("score", table, *COHERENCE, "--dry-run").out
    )  # 24 + 5 rungs
    assert made.ends == 0
    command("score", table, *COHERENCE)
    assert "dry run, rehearsed: 5 calls," in command("score", table, *COHERENCE, "--dry-run").out


def test_a_text_uses_what_is_remembered(judge, command, fails, table):
    text = ("score", "--text", ROWS[0]["output"], "--context-id", "story-01", *COHERENCE)
    made = judge(LOSS, WIN)
    done = command(*text)
    assert done.code == 0
    assert "judge check: not made yet on coherence; scoring a table makes it\n" in done.err
    assert made.ends == 0
    assert command("score", table, *COHERENCE).code == 2
    assert "does not distinguish the best rung from the worst (coherence 0 of 12 ladders)" in fails(
        2, *text
    )
    arguments = {"ladders": "demo/story", "judge": "rehearsed", "dimensions": ["coherence"]}
    with pytest.raises(JudgeRefusedError):
        refladder.Scorer(**arguments)
    with refladder.Scorer(**arguments, any_judge=True, store=False) as scorer:
        assert scorer.score([ROWS[0]["output"]], context_id="story-01")[0].value is not None


def test_evaluate_shows_it_and_refuses_no_judge(judge, command, tmp_path, table, fails):
    judged = ("evaluate", "demo/story", *COHERENCE)
    made = judge(LOSS, WIN)
    assert (
        "dry run, rehearsed: 384 calls," in command(*judged, "--dry-run").out
    )  # 72 texts on 5 rungs, and 24
    work = tmp_path / "work"
    done = command(*judged, "--methods", "ladder", "--work", work)
    assert (done.code, made.ends) == (0, 24)
    assert "judge check, best rung against the worst: coherence 0 of 12 ladders\n" in done.err
    assert (
        "The judge does not distinguish the best rung from the worst (coherence 0 of 12 ladders); its scores mean nothing.\n"
        in done.err
    )
    (check,) = json.loads((work / "run.json").read_text())["judge_check"]
    assert (check["dimension"], check["right"], check["read"]) == ("coherence", 0, 12)
    assert (
        "judge check, best rung against the worst: coherence 0 of 12 ladders"
        in (work / "results.jsonl").read_text()
    )
    lines = command(*judged, "--methods", "ladder", "--json").rows
    assert [line for line in lines if line.get("kind") == "judge_check"] == [
        {"kind": "judge_check", "method": "ladder", **check}
    ]
    card = next(line for line in lines if line.get("kind") == "card" and line["method"] == "ladder")
    assert card["calls"] == 360  # the check is no part of what the method costs
    assert made.ends == 24  # remembered
    assert "dry run, rehearsed: 360 calls," in command(*judged, "--dry-run").out
    assert "(coherence 0 of 12 ladders)" in fails(2, "score", table, *COHERENCE)


def test_evaluate_of_python_shows_it(caplog):
    caplog.set_level(logging.INFO, "refladder")
    arguments = {"ladders": "demo/story", "dimensions": [DEMO.dimensions[0]]}
    evaluation = refladder.evaluate("demo/story", judge=Rehearsed(LOSS, WIN), **arguments)
    assert [(check.dimension, check.right) for check in evaluation.checks] == [("coherence", 0)]
    assert "judge check, best rung against the worst: coherence 0 of 12 ladders" in caplog.messages
    assert any("its scores mean nothing" in message for message in caplog.messages)
    assert refladder.evaluate("demo/story", judge="builtin", methods="win-ratio").checks == ()


@pytest.mark.parametrize("out", ["whole.jsonl", "folder"])
def test_quiet_keeps_the_warning_of_a_check_and_json_prints_none(
    judge, command, table, monkeypatch, out
):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    judge(LOSS, WIN)
    outs = (table.with_name(f"{number}-{out}") for number in range(3))

    def go(*arguments):
        return command("score", table, *COHERENCE, "--any-judge", "--out", next(outs), *arguments)

    shown = "judge check, best rung against the worst: coherence 0 of 12 ladders\n"
    warning = (
        "The judge does not distinguish the best rung from the worst (coherence 0 of 12 ladders); its scores mean "
        "nothing.\n"
    )
    assert shown + warning in go().err
    quiet = go("--quiet").err
    assert warning in quiet
    assert "judge check" not in quiet
    assert go("--json").err == ""


def test_quiet_leaves_out_that_a_check_is_not_made_yet(judge, command):
    judge()
    text = ("score", "--text", ROWS[0]["output"], "--context-id", "story-01", *COHERENCE)
    assert "judge check" not in command(*text, "--quiet").err


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_over_many_files_makes_it_once(command, tmp_path, workers):
    source = split(
        [{**ROWS[0], "output_id": str(number)} for number in range(8)], tmp_path / "in", 2
    )
    out = tmp_path / "out"
    arguments = ("score", source, "--ladders", "demo/story", "--out", out, "--workers", workers)
    done = command(*arguments)
    assert done.code == 0
    check = "judge check, best rung against the worst: coherence 12 of 12 ladders, complexity 12 of 12 ladders\n"
    assert done.err.count(check) == 1
    assert done.err.index(NOTICE) < done.err.index(check)  # as for one file
    checks = json.loads((out / "run.json").read_text())["judge_check"]
    assert [check["right"] for check in checks] == [12, 12]
    (out / "00.jsonl").unlink()
    assert command(*arguments, "--json").rows[0]["judge_check"] == checks


def test_certify_shows_the_same_without_new_questions(judge, command, tmp_path, table):
    made = judge(LOSS, WIN)
    done = command("certify", "demo/story", "--judge", "rehearsed", "--json")
    certified = done.rows[0]["judge_check"]
    assert [(check["dimension"], check["right"]) for check in certified] == [
        ("coherence", 0),
        ("complexity", 0),
    ]
    assert (made.ends, made.others) == (48, 432)  # 24 ladders, 20 questions each
    out = tmp_path / "out.jsonl"
    command("score", table, *COHERENCE[:4], "--any-judge", "--out", out)
    assert record(out) == certified


def test_the_page_of_review_shows_the_record(judge, command, table, tmp_path):
    judge(LOSS, WIN)
    out, page = tmp_path / "out.jsonl", tmp_path / "page.html"
    command("score", table, *COHERENCE, "--any-judge", "--out", out)
    assert command("review", out, "--html", page).code == 0
    assert (
        "judge check, best rung against the worst: coherence 0 of 12 ladders." in page.read_text()
    )
    assert (
        "The judge does not distinguish the best rung from the worst (coherence 0 of 12 ladders)"
        in page.read_text()
    )
    config = out.with_name("out.jsonl.run.json")
    config.write_text(config.read_text().replace('"right": 0.0', '"right": "0"'))
    done = command("review", out, "--html", page)
    assert done.code != 0
    assert "out.jsonl.run.json: not the check of a judge field '0.right'" in done.err


def test_no_checks_are_no_lines():
    assert check_lines([]) == ([], [])
