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
from refladder.integrations.trl import reward
from refladder.records import JudgeCheck, LabelReading
from refladder.registry import Entry
from refladder.scoring.judge_check import check_lines, drawn_questions
from refladder.scoring.modes import mode_of
from refladder.session import checks_folder

ROWS = [{"context_id": "story-01", "output": "A keeper found a bottle on the rocks."}]
DEMO = refladder.load_ladders("demo/story")
ENDS = {ladder.rungs[end].text: end for ladder in DEMO.ladders.values() for end in (0, -1)}
WIN, LOSS, TIE = (0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.4, 0.4, 0.2)
BOTH = ("--ladders", "demo/story", "--judge", "rehearsed")
COHERENCE = (*BOTH, "--dimension", "coherence")
TEXT = ("score", "--text", ROWS[0]["output"], "--context-id", "story-01", *COHERENCE)
SHOWN = "judge check, best rung against the worst: "
UNSHOWN = "not significantly better than chance at telling the best rung from the worst"
NOT_DISTINGUISHED = f"is {UNSHOWN} (coherence 0 of 12 ladders)"
WARNING = f"The judge {NOT_DISTINGUISHED}; do not rely on its scores.\n"


class Rehearsed(Double):
    """Says the same of each best rung that is the target, and of each that is the reference; else that it is better.

    The first `wrong` questions about two ends get the opposite answer. Only `dimension` is judged so; others right.
    """

    fingerprint = "rehearsed/1"

    def __init__(self, best=WIN, worst=LOSS, *, wrong=0, dimension=None, mass=1.0):
        self.best, self.worst = best, worst
        self.wrong, self.dimension, self.mass = wrong, dimension, mass
        self.ends, self.others = 0, 0

    def read_labels(self, prompts, labels):
        return [self.reading(prompt, labels) for prompt in prompts]

    def reading(self, prompt, labels):
        shares = self.shares(prompt.slots)
        if shares is None:
            return LabelReading(logprobs=None, mass=None, reason="no label")
        given = dict(zip(("win", "loss", "tie"), shares, strict=True))
        outcome_of = dict(zip(prompt.labels, prompt.outcomes, strict=True))
        logprobs = tuple(math.log(given[outcome_of[label]] * self.mass) for label in labels)
        return LabelReading(logprobs=logprobs, mass=self.mass)

    def shares(self, slots):
        target, reference = (ENDS.get(slots[name]) for name in ("target", "reference"))
        if target is None or reference is None:
            self.others += 1
            return WIN
        self.ends += 1
        rehearsed = self.dimension in {None, slots["dimension"]}
        best, worst = (self.best, self.worst) if rehearsed else (WIN, LOSS)
        return best if (target == -1) != (self.ends <= self.wrong) else worst


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


@pytest.fixture
def score(command, table):
    return lambda *arguments: command("score", table, *arguments)


@pytest.fixture
def said(caplog):
    """Score with a call; returns what it logs."""
    caplog.set_level(logging.INFO, "refladder")

    def go(ladders, judge, **options):
        caplog.clear()
        assert len(refladder.score(ROWS, ladders=ladders, judge=judge, **options)) == 1
        return "\n".join(caplog.messages)

    return go


def until_story(last):
    """The ladders of the shipped set up to a context."""
    return replace(DEMO, ladders={key: one for key, one in DEMO.ladders.items() if key[0] <= last})


ONE = {"dimensions": ["coherence"]}


def record(out):
    return json.loads(out.with_name(f"{out.name}.run.json").read_text())["judge_check"]


@pytest.mark.parametrize(
    ("answers", "right"),  # of 12 ladders, each the mean of both orders
    [((WIN, LOSS), 12), ((WIN, WIN), 6), ((LOSS, WIN), 0), ((TIE, TIE), 6), ((WIN, TIE), 9)],
)
def test_right_answers_are_counted_with_the_interval_of_wilson(judge, score, table, answers, right):
    judge(*answers)
    out = table.with_name("out.jsonl")
    done = score(*BOTH, "--any-judge", "--out", out)
    assert done.code == 0
    shown = f"{SHOWN}coherence {right} of 12 ladders, complexity {right} of 12 ladders\n"
    assert shown in done.err
    interval = binomtest(right, 12).proportion_ci(method="wilson")
    ends = pytest.approx((interval.low, interval.high), abs=1e-12)
    for name, check in zip(("coherence", "complexity"), record(out), strict=True):
        counts = [check[key] for key in ("dimension", "compared", "read", "unparsed", "right")]
        assert counts == [name, 12, 12, 0, right]
        assert check["shared"] is False
        assert (check["low"], check["high"]) == ends


def test_a_judge_that_cannot_tell_is_refused_before_a_row_is_asked(judge, score, fails, table):
    made = judge(LOSS, WIN, dimension="complexity", mass=0.06)
    out = table.with_name("out.jsonl")
    assert fails(2, "score", table, *BOTH, "--no-store", "--out", out) == (
        f"refladder: rehearsed/1 is {UNSHOWN} (complexity 0 of 12 ladders): "
        "`refladder certify` shows whether the judge or the ladders are at fault, and --any-judge scores anyway\n"
    )
    assert (made.ends, made.others) == (48, 0)
    assert not out.exists()
    # Another judge goes on there.
    assert score("--ladders", "demo/story", "--out", out).code == 0


@pytest.mark.parametrize("out", ["whole.jsonl", "folder"])
def test_any_judge_scores_with_a_warning_that_quiet_keeps_and_json_leaves_out(
    judge, score, table, monkeypatch, out
):
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)
    judge(LOSS, WIN)
    outs = (table.with_name(f"{number}-{out}") for number in range(3))
    arguments = (*COHERENCE, "--any-judge", "--out")
    shown = f"{SHOWN}coherence 0 of 12 ladders\n"
    told = score(*arguments, next(outs)).err
    assert shown in told
    assert WARNING in told
    quiet = score(*arguments, next(outs), "--quiet").err
    assert WARNING in quiet
    assert "judge check" not in quiet
    assert score(*arguments, next(outs), "--json").err == ""


@pytest.mark.parametrize(
    # wrong answers, of which a ladder has two; P(X >= 9) of 12 at 1/2 is (220 + 66 + 12 + 1) / 4096 = .073, and of
    # 10 (66 + 12 + 1) / 4096 = .019; 9.5 counts as 9; 11.5 of 12 begins at .699, and 12 of 12 at .758. A single
    # criterion is all of the run, so 9 of 12 refuses.
    ("wrong", "doubtful"),
    [(12, None), (5, None), (4, True), (1, True), (0, False)],
)
def test_the_ends_of_the_interval_decide(judge, score, wrong, doubtful):
    judge(wrong=wrong)
    done = score(*COHERENCE)
    assert done.code == (2 if doubtful is None else 0)
    advice = " correct; the 95 % interval reaches below 70 %). `refladder certify` shows more.\n"
    assert (advice in done.err) == bool(doubtful)
    assert ("The judge check is inconclusive (coherence " in done.err) == bool(doubtful)


def test_what_cannot_be_read_is_left_out_and_named(judge, score):
    judge(WIN, None)
    done = score(*COHERENCE, "--no-store")
    assert f"{SHOWN}coherence 12 of 12 ladders and 12 answers unparsed\n" in done.err
    assert "inconclusive" not in done.err  # 12 of 12 begins at .758 (scipy)
    assert (
        "12 answers of the judge check could not be read, the first because: no label\n" in done.err
    )


FEW = "It is not refused, because a judge that is right on 90 % of the ladders may do as badly by chance."


def test_few_ladders_are_inconclusive(said):
    messages = said(until_story("story-11"), Rehearsed(), **ONE)
    assert f"{SHOWN}coherence 11 of 11 ladders" in messages
    assert (
        "The judge check is inconclusive (coherence 11 of 11 ladders correct; it takes 12 "
        in messages
    )
    # A judge that is right in .9 is so on 0 of 2 with .01, and on 0 of 1 with .1.
    with pytest.raises(JudgeRefusedError, match=r"\(coherence 0 of 2 ladders\)"):
        said(until_story("story-02"), Rehearsed(LOSS, WIN), **ONE)
    assert "is inconclusive (coherence 0 of 1 ladder correct; " in said(
        until_story("story-01"), Rehearsed(LOSS, WIN), **ONE
    )
    # 3 or fewer of 5: 1 - .9^5 - 5 * .9^4 * .1 = .081; 2.5 may count as 3. Of 4, not even 4 are significant (1 / 16).
    told = said(until_story("story-05"), Rehearsed(TIE, TIE), **ONE)
    assert f"The judge is {UNSHOWN} (coherence 2.5 of 5 ladders). {FEW}" in told
    assert "is inconclusive (coherence 3 of 4 ladders correct; " in said(
        until_story("story-04"), Rehearsed(WIN, TIE), **ONE
    )


def check_of(name, right, read=12):
    return JudgeCheck(
        judge="a/1", ladders="", template="", dimension=name, shared=False, compared=read, right=right, read=read,
        unparsed=0, low=0.0, high=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rights", "refused", "unshown"),
    # A judge that is right in .9 is so on 8 or fewer of 12 with .0256, and on 7 or fewer with .0043: below .05 / k are
    # 8 for one criterion and 7 for two to eleven.
    [
        ([10], "", ""),
        ([9], "a 9/12", ""),  # all ladders of the run
        ([8, 12], "", "a 8/12"),
        ([7.5, 12], "", "a 7.5/12"),
        ([7, 12], "a 7/12", ""),
        ([9, 12, 12, 12], "", "a 9/12"),
        ([8, 8, 12, 12], "", "a 8/12, b 8/12"),
        ([7, 8, 12, 12], "a 7/12", "b 8/12"),
        # P(X >= 16) of 24 at 1/2 is .076, and of 17 .032.
        ([8, 8], "a 8/12, b 8/12; together 16/24", ""),
        ([8, 9], "", "a 8/12, b 9/12"),
    ],
)
def test_a_good_judge_is_hardly_ever_refused_whatever_the_number_of_criteria(
    rights, refused, unshown
):
    checks = [check_of(name, right) for name, right in zip("abcd", rights, strict=False)]
    warnings = " ".join(check_lines(checks)[1])
    for counts, end in ((refused, "; do not rely on its scores."), (unshown, f". {FEW}")):
        shown = re.sub(r"/(\d+)", r" of \1 ladders", counts)
        assert (f"The judge is {UNSHOWN} ({shown}){end}" in warnings) == bool(counts)
        assert (end in warnings) == bool(counts)


@pytest.mark.parametrize(("right", "refused"), [(20, False), (19, True)])
def test_all_ladders_together_have_an_error_of_five_percent(right, refused):
    """20 of 30 ladders have p = .0494, and 19 have .1002 (scipy); 2 of 3 are no rare lot of a good judge."""
    checks = [check_of(str(number), 2 - (number < 20 - right), 3) for number in range(10)]
    assert any("together" in line for line in check_lines(checks)[1]) == refused


def test_dimensions_with_few_ladders_count_together_for_a_note(said):
    """Of 6 ladders, 3 have p = .66, and 6 have p = .016; 1 of 3 is the lot of a good judge with .028, above .05 / 2."""
    three = until_story("story-03")
    with pytest.raises(JudgeRefusedError, match=r"\(coherence 0 of 3 ladders\)"):
        said(three, Rehearsed(LOSS, WIN, dimension="coherence"))
    told = said(three, Rehearsed(TIE, TIE, dimension="coherence"))
    assert f"is {UNSHOWN} (coherence 1.5 of 3 ladders, complexity 3 of 3 ladders). {FEW}" in told
    assert "is inconclusive (coherence 3 of 3 ladders, complexity 3 of 3" in said(
        three, Rehearsed()
    )
    # All 12 ladders together are 6 right, but complexity alone refuses already.
    with pytest.raises(JudgeRefusedError, match=r"\(coherence 0 of 6 ladders\)"):
        said(until_story("story-06"), Rehearsed(LOSS, WIN, dimension="coherence"))


@pytest.mark.parametrize("read", [12, 16])
def test_from_twelve_ladders_the_sign_test_of_scipy_decides(read):
    for right in range(read + 1):
        warnings = " ".join(check_lines([check_of("care", right + 0.5 * (right < read), read)])[1])
        refused = binomtest(right, read, 0.5, alternative="greater").pvalue > 0.05
        assert ("do not rely" in warnings) == refused


def test_a_rule_of_length_that_passes_is_named_for_each_criterion(said):
    """A rule is right on 10 of 12 by chance with (66 + 12 + 1) / 4096 = .019, and on 9 with .073."""
    rule = "a rule of length alone (characters) is right on {}; the check does not show that a judge reads more than"
    for right, told in ((12, True), (10, True), (9, False)):
        for longer in (True, False):
            ladders = {}
            for number, (key, ladder) in enumerate(DEMO.ladders.items()):
                worst, *between, best = ladder.rungs
                if key[1] == "coherence" and (number // 2 < right) == longer:
                    best = replace(best, text=f"{worst.text} It is so.")
                elif key[1] == "coherence":
                    best = replace(best, text=best.text[:9])
                ladders[key] = replace(ladder, rungs=(worst, *between, best))
            messages = said(replace(DEMO, ladders=ladders), Rehearsed(), any_judge=True)
            coherence = f"coherence {right} of 12, " if told else ""
            assert rule.format(f"{coherence}complexity 12 of 12") in messages


def test_a_judge_of_length_passes_and_the_check_says_why(said, monkeypatch):
    class Lengthy(Rehearsed):
        def shares(self, slots):
            return WIN if len(slots["target"]) > len(slots["reference"]) else LOSS

    for name in ("context", "background"):
        monkeypatch.setitem(ROWS[0], name, "The keeper found it at nine.")
    messages = said("general/grounded", Lengthy(), dimensions=["completeness", "attribution"], any_judge=True)  # fmt: skip
    assert "completeness 12 of 12 ladders, attribution 7 of 12 ladders\n" in messages
    assert "(characters) is right on completeness 12 of 12; the check" in messages


def test_sixteen_ladders_of_many_are_drawn_and_the_same_each_time():
    contexts, ladders = {}, {}
    for name, context in DEMO.contexts.items():
        for copy in (name, f"{name}-again"):  # 24
            contexts[copy] = replace(context, id=copy)
            ladders[copy, "coherence"] = DEMO.ladders[name, "coherence"]
    many = replace(DEMO, contexts=contexts, ladders=ladders)
    pairs = drawn_questions(many, DEMO.dimensions[0], mode_of(0))
    questions = [question for pair in pairs for question in pair]
    assert len(questions) == 32
    assert len({question.context.id for question in questions}) == 16
    assert pairs == drawn_questions(many, DEMO.dimensions[0], mode_of(0))


def test_a_set_without_the_texts_of_its_contexts_is_not_checked(monkeypatch, said):
    # Without digests, nobody knows that the row's text is the one that the ladders were written for.
    monkeypatch.setitem(ROWS[0], "context", DEMO.contexts["story-01"].text)
    made = Rehearsed(LOSS, WIN)
    shown = f"{SHOWN}coherence not checked, as no text of a context of the set is known before the first row"
    assert shown in said(replace(DEMO, contexts={}, digests={}), made, **ONE)
    assert (made.ends, made.others) == (0, 5)
    assert check_lines([]) == ([], [])


def test_a_call_refuses_too_and_names_its_parameter(said):
    message = r"\(coherence 0 of 12 ladders\).* any_judge scores anyway$"
    with pytest.raises(JudgeRefusedError, match=message):
        said("demo/story", Rehearsed(LOSS, WIN), **ONE)
    assert WARNING.strip() in said("demo/story", Rehearsed(LOSS, WIN), any_judge=True, **ONE)


def test_a_check_is_paid_for_once(judge, score, fails, table):
    made = judge()
    assert "dry run, rehearsed: 29 calls," in score(*COHERENCE, "--dry-run").out  # 24 + 5 rungs
    assert made.ends == 0
    assert score(*COHERENCE).code == 0
    assert (made.ends, made.others) == (24, 5)
    assert "dry run, rehearsed: 5 calls," in score(*COHERENCE, "--dry-run").out
    # An earlier version stored no count of length.
    (stored,) = checks_folder().iterdir()
    kept = json.loads(stored.read_text())
    assert kept.pop("by_length") == 12
    stored.write_text(json.dumps(kept))
    assert "is right on coherence 12 of 12; the check does not" in score(*COHERENCE).err
    made.others -= 5
    assert f"{SHOWN}coherence 12 of 12 ladders\n" in score(*COHERENCE).err
    assert (made.ends, made.others) == (24, 10)
    assert score(*BOTH).code == 0  # complexity is new
    assert made.ends == 48
    judge(LOSS, WIN)
    assert score(*COHERENCE).code == 0  # by its fingerprint, the same judge
    assert score(*COHERENCE, "--no-store").code == 2  # which remembers nothing
    judge(LOSS, WIN).fingerprint = "rehearsed/2"
    assert "stored result" not in fails(2, "score", table, *COHERENCE)
    told = fails(2, "score", table, *COHERENCE)
    Path(re.search(r"delete the stored result (\S+) to ask again", told)[1]).unlink()
    judge().fingerprint = "rehearsed/2"
    assert score(*COHERENCE).code == 0


def test_a_stored_check_with_unparsed_answers_is_made_again(judge, score):
    made = judge(WIN, None)
    assert "coherence 12 of 12 ladders and 12 answers unparsed\n" in score(*COHERENCE).err
    assert made.ends == 24
    made = judge()
    # The check is read, and then made again.
    assert f"{SHOWN}coherence 12 of 12 ladders\n" in score(*COHERENCE).err
    assert made.ends == 24
    assert score(*COHERENCE).code == 0
    assert made.ends == 24


def test_notes_show_and_json_say_what_the_check_found(judge, command, score, tmp_path):
    judge(LOSS, WIN, dimension="complexity")
    out = tmp_path / "out.jsonl"
    (shown,) = score(*BOTH, "--any-judge", "--out", out, "--json").rows
    note = f"the judge is {UNSHOWN} (complexity 0 of 12 ladders)"
    assert shown["judge_check_notes"] == {"complexity": note}
    (row,) = map(json.loads, out.read_text().splitlines())
    assert (row["coherence_note"], row["complexity_note"]) == (None, note)
    done = command("show", "demo/story", ROWS[0]["context_id"], "--scores", out)
    assert f"{SHOWN}coherence 12 of 12 ladders, complexity 0 of 12 ladders" in done.err
    assert f"The judge is {UNSHOWN} (complexity 0 of 12 ladders); do not rely" in done.err


def test_a_text_uses_what_is_remembered(judge, command, score, fails):
    made = judge(LOSS, WIN)
    assert "judge check" not in command(*TEXT, "--quiet").err
    done = command(*TEXT)
    assert done.code == 0
    assert "judge check: not made yet on coherence; scoring a table makes it\n" in done.err
    assert made.ends == 0
    assert score(*COHERENCE).code == 2
    assert NOT_DISTINGUISHED in fails(2, *TEXT)
    arguments = {"ladders": "demo/story", "judge": "rehearsed", **ONE}
    with pytest.raises(JudgeRefusedError):
        refladder.Scorer(**arguments)
    with refladder.Scorer(**arguments, any_judge=True, store=False) as scorer:
        assert scorer.score([ROWS[0]["output"]], context_id="story-01")[0].value is not None


def test_a_scorer_checks_its_judge_before_the_first_score(judge, caplog):
    asked = {"ladders": "demo/story", "judge": "rehearsed", **ONE}
    made = judge(WIN, LOSS)
    made.best = made.worst = WIN  # Always the first answer.
    scorer = refladder.Scorer(**asked)
    text = {"texts": [ROWS[0]["output"]], "context_id": "story-01"}
    with pytest.raises(JudgeRefusedError, match=UNSHOWN):
        scorer.score(**text)
    assert (made.ends, made.others) == (24, 0)
    # The check of a named judge is remembered, and a scorer for any judge says what it found.
    (score,) = refladder.Scorer(**asked, any_judge=True).score(**text)
    assert (made.ends, score.value is None) == (24, False)
    assert UNSHOWN in caplog.text
    made = judge()
    scorer = refladder.Scorer(**asked, store=False)
    assert scorer.score([None, ""], context_id="story-01")[0].value is None
    assert made.ends == 0
    for _ in range(2):
        assert scorer.score(**text)[0].value is not None
    assert made.ends == 24


def test_a_reward_of_an_unreadable_judge_is_none_at_most_once(judge):
    column = {"context_id": ["story-01"]}
    judge(None, None)
    with pytest.raises(JudgeRefusedError, match="no answer of the judge check could be read"):
        reward(ladders="demo/story", judge="rehearsed", any_judge=True, **ONE)(
            ["A keeper."], **column
        )
    made = judge()
    made.shares = lambda slots: Rehearsed.shares(made, slots) if slots["target"] in ENDS else None
    rewarded = reward(ladders="demo/story", judge="rehearsed", **ONE)
    assert rewarded([""], **column) == [None]
    with pytest.raises(JudgeRefusedError, match="no answer of the first row could be read"):
        rewarded(["A keeper."], **column)


def test_evaluate_shows_it_and_refuses_no_judge(judge, command, tmp_path, table, fails):
    judged = ("evaluate", "demo/story", *COHERENCE)
    made = judge(LOSS, WIN)
    # 72 texts on 5 rungs, and 24
    assert "dry run, rehearsed: 384 calls," in command(*judged, "--dry-run").out
    work = tmp_path / "work"
    done = command(*judged, "--methods", "ladder", "--work", work)
    assert (done.code, made.ends) == (0, 24)
    assert f"{SHOWN}coherence 0 of 12 ladders\n" in done.err
    assert WARNING in done.err
    (check,) = json.loads((work / "run.json").read_text())["judge_check"]
    assert (check["dimension"], check["right"], check["read"]) == ("coherence", 0, 12)
    assert f"{SHOWN}coherence 0 of 12 ladders" in (work / "results.jsonl").read_text()
    lines = command(*judged, "--methods", "ladder", "--json").rows
    of_ladder = [line for line in lines if line.get("method") == "ladder"]
    kept = {"kind": "judge_check", "method": "ladder", **check}
    assert [line for line in of_ladder if line.get("kind") == "judge_check"] == [kept]
    card = next(line for line in of_ladder if line.get("kind") == "card")
    assert card["calls"] == 360  # the check is no part of what the method costs
    assert made.ends == 24  # remembered
    assert "dry run, rehearsed: 360 calls," in command(*judged, "--dry-run").out
    assert "(coherence 0 of 12 ladders)" in fails(2, "score", table, *COHERENCE)


def test_a_run_over_many_files_makes_it_once(command, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)
    rows = [{**ROWS[0], "output_id": str(number)} for number in range(4)]
    source, out = split(rows, tmp_path / "in", 1), tmp_path / "out"
    arguments = ("score", source, "--ladders", "demo/story", "--out", out, "--workers", 2)
    done = command(*arguments)
    assert done.code == 0
    check = f"{SHOWN}coherence 12 of 12 ladders, complexity 12 of 12 ladders\n"
    assert done.err.count(check) == 1
    assert done.err.index(NOTICE) < done.err.index(check)  # as for one file
    checks = json.loads((out / "run.json").read_text())["judge_check"]
    assert [check["right"] for check in checks] == [12, 12]
    (out / "00.jsonl").unlink()
    assert command(*arguments, "--json").rows[0]["judge_check"] == checks


def test_certify_shows_the_same_without_new_questions(judge, command, score, tmp_path):
    made = judge(LOSS, WIN)
    (certificate,) = command("certify", "demo/story", "--judge", "rehearsed", "--json").rows
    certified = certificate["judge_check"]
    right = [(check["dimension"], check["right"]) for check in certified]
    assert right == [("coherence", 0), ("complexity", 0)]
    assert (made.ends, made.others) == (48, 432)  # 24 ladders, 20 questions each
    out = tmp_path / "out.jsonl"
    score(*BOTH, "--any-judge", "--out", out)
    assert record(out) == certified


def test_the_page_of_review_shows_the_record(judge, command, score, fails, tmp_path):
    judge(LOSS, WIN)
    out, page = tmp_path / "out.jsonl", tmp_path / "page.html"
    score(*COHERENCE, "--any-judge", "--out", out)
    assert command("review", out, "--html", page).code == 0
    shown = page.read_text()
    assert f"{SHOWN}coherence 0 of 12 ladders." in shown
    assert f"The judge {NOT_DISTINGUISHED}" in shown
    config = out.with_name("out.jsonl.run.json")
    config.write_text(config.read_text().replace('"right": 0.0', '"right": "0"'))
    told = fails(2, "review", out, "--html", page)
    assert "out.jsonl.run.json: not the record of a run field 'judge_check.0.right'" in told
