"""judge= takes a plain function: what it is asked, what it may return, and its name."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import math
import re

import pytest

import refladder
from refladder.backends.plain_function import FunctionJudge
from refladder.errors import BackendError, UsageError
from refladder.testing import check_backend

STORY = refladder.load_ladders("demo/story")
TEXTS = ["A keeper found a bottle on the rocks, and she wept.", "dog dog dog"]
ROWS = [{"context_id": "story-01", "output": text} for text in TEXTS]
ONE = {"ladders": "demo/story", "dimensions": ["coherence"]}


def by_length(questions):
    """The longer text is better, for certain; equal lengths are a tie."""
    differences = [len(each.output) - len(each.reference) for each in questions]
    return [
        {"win": float(each > 0), "loss": float(each < 0), "tie": float(each == 0)}
        for each in differences
    ]


def test_it_is_asked_about_each_rung_and_its_answers_become_scores():
    asked = []

    def judge(questions):
        asked.extend(questions)
        return [{"win": 0.5, "loss": 0.25, "tie": 0.25} for _ in questions]

    judge.fingerprint = "asked"
    (scored,) = refladder.score(ROWS[:1], judge=judge, any_judge=True, **ONE)
    del asked[:24]  # the check of the judge: 12 ladders in both orders
    ladder = STORY.ladders["story-01", "coherence"]
    (coherence,) = (dimension for dimension in STORY.dimensions if dimension.name == "coherence")
    context = STORY.contexts["story-01"]
    assert [(each.output, each.reference) for each in asked] == [
        (TEXTS[0], rung.text) for rung in ladder.rungs
    ]
    assert {
        (each.context, each.background, each.dimension, each.description) for each in asked
    } == {(context.text, context.background, "coherence", coherence.description)}
    # ladder-sum: (1 + 2 + 3 + 4 + 5) (P(win) - P(loss)) where all rungs have the same answer.
    assert scored["coherence_score"] == pytest.approx(15 * (0.5 - 0.25))
    assert scored["coherence_mass"] == 1
    assert scored["signature"].count("function:asked") == 1


def test_the_same_function_in_score_scorer_evaluate_certify_and_audit(tmp_path):
    out = tmp_path / "out.jsonl"
    scored = refladder.score(ROWS, judge=by_length, out=out, **ONE)
    options = json.loads((tmp_path / "out.jsonl.run.json").read_text())["options"]
    assert options["judge"] == FunctionJudge(by_length).fingerprint
    scores = refladder.Scorer(judge=by_length, **ONE).score(TEXTS, context_id="story-01")
    assert [score.value for score in scores] == [row["coherence_score"] for row in scored]
    # Both texts are shorter than every rung, and a text that loses to all has the lowest grade of the scale 1 to 5.
    assert [score.grade for score in scores] == [1, 1]
    evaluation = refladder.evaluate(
        "demo/story", ladders="demo/story", judge=by_length, methods=["ladder", "win-ratio"]
    )
    assert {row.method for row in evaluation.rows} >= {"ladder", "win-ratio"}
    certificate = refladder.certify(STORY, judge=by_length)
    assert "function:by_length@" in certificate["judge"]["fingerprint"]
    # Of two rungs the longer one wins in both orders: half of the wins are in each position.
    shares = {
        (row["measure"], row["dimension"]): row["value"]
        for row in refladder.audit(STORY, judge=by_length)
    }
    assert shares["P(target)", "all"] == 0.5


def test_its_name_is_that_of_the_function_with_a_digest_of_its_source_or_the_users():
    digest = hashlib.blake2b(inspect.getsource(by_length).encode(), digest_size=6).hexdigest()
    assert FunctionJudge(by_length).fingerprint == f"function:by_length@{digest}"

    def named(questions):
        return by_length(questions)

    named.fingerprint = "gpt-4o, prompt 3"
    assert FunctionJudge(named).fingerprint == "function:gpt-4o, prompt 3"
    message = "named is a function that judges and writes no texts"
    with pytest.raises(UsageError, match=message):
        check_backend(FunctionJudge(named))


@pytest.mark.parametrize("name", ["a|b", "two\nlines", "", 3])
def test_a_name_that_no_signature_can_hold(name):
    judge = functools.partial(by_length)
    judge.fingerprint = name
    message = f"fingerprint must be one line of text without '|', found {name!r}"
    with pytest.raises(UsageError, match=re.escape(message)):
        refladder.Scorer(judge=judge, **ONE)


def test_what_has_no_source_of_its_own_needs_a_name():
    outer = 3

    def over_a_variable(questions):
        return [{"win": 1 / outer, "loss": 1 / outer, "tie": 1 / outer} for _ in questions]

    around = "over_a_variable: it uses 'outer' from around it, so nothing identifies it; name it"
    with pytest.raises(UsageError, match=around):
        refladder.Scorer(judge=over_a_variable, **ONE)
    partial = functools.partial(by_length)
    unread = r"partial: its source cannot be read, so nothing identifies it; name it: JUDGE\.fingerprint = 'NAME'"
    with pytest.raises(UsageError, match=unread):
        refladder.Scorer(judge=partial, **ONE)
    partial.fingerprint = "by length"
    (score, _) = refladder.Scorer(judge=partial, **ONE).score(TEXTS, context_id="story-01")
    assert score.reason is None


def shares(win, loss, tie):
    return {"win": win, "loss": loss, "tie": tie}


NO_ANSWER = "; an answer has the probabilities of win, loss and tie"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, f"None{NO_ANSWER}"),
        ("win", f"'win'{NO_ANSWER}"),
        ({"win": 1.0, "loss": 0.0}, "None as the probability of tie"),
        (shares(math.nan, 0.5, 0.5), "nan as the probability of win"),
        (shares(1.5, 0.0, -0.5), "1.5 as the probability of win"),
        (shares("0.5", 0.5, 0.0), "'0.5' as the probability of win"),
        (shares(True, 0.0, 0.0), "True as the probability of win"),  # noqa: FBT003
        (shares(0.5, 0.5, 0.5), "probabilities that add to 1.5, not 1"),
        (shares(0.0, 0.0, 0.0), "probabilities that add to 0, not 1"),
    ],
)
def test_a_wrong_answer_leaves_its_row_unparsed(answer, reason):
    def by_hand(questions):
        return [answer if each.output == TEXTS[1] else shares(0.2, 0.3, 0.5) for each in questions]

    by_hand.fingerprint = "by hand"
    scored = refladder.score(ROWS, judge=by_hand, any_judge=True, **ONE)
    assert scored[0]["coherence_note"].startswith(
        "the judge is not significantly better than chance"
    )
    assert scored[1]["coherence_score"] is None
    assert f"by_hand gave {reason}" in scored[1]["coherence_note"]


def test_rounded_probabilities_are_those_of_their_sum():
    def thirds(questions):
        return [{"win": 0.333, "loss": 0.333, "tie": 0.333} for _ in questions]

    scorer = refladder.Scorer(judge=thirds, any_judge=True, **ONE)
    (score,) = scorer.score(TEXTS[:1], context_id="story-01")
    assert (score.value, score.mass) == (pytest.approx(0), 1)


def fails(questions):
    return json.loads("\n".join(question.dimension for question in questions))


ONE_EACH = "return a list with one answer for each, in order"
FAULTS = [
    (
        lambda questions: by_length(questions)[1:],
        f"returned 23 answers for 24 questions; {ONE_EACH}",
    ),
    (lambda _: None, f"returned NoneType for 24 questions; {ONE_EACH}"),
    (lambda _: {"win": 1, "loss": 0, "tie": 0}, "returned dict for 24 questions; return a list"),
    (
        fails,
        r"raised JSONDecodeError: Expecting value: line 1 column 1 \(char 0\) \(test_judge_functions.py:\d+\)$",
    ),
]


@pytest.mark.parametrize(("judge", "message"), FAULTS)
def test_what_is_the_functions_fault_ends_the_run(judge, message):
    judge.fingerprint = "mine"
    with pytest.raises(BackendError, match="^function:mine " + message):
        refladder.score(ROWS, judge=judge, **ONE)


NO_TEXTS = "by_length is a function that judges and writes no texts"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"judge": 5}, "judge must be a text, a Backend or a function, found 5"),
        ({"judge": by_length, "yes_no": True}, "by_length is a function that compares two texts"),
        ({"judge": by_length, "answers": 3}, NO_TEXTS),
        (
            {"judge": by_length, "judge_options": {"dtype": "x"}},
            "options dtype for a backend that is open already",
        ),
    ],
)
def test_what_a_function_cannot_do(arguments, message):
    with pytest.raises(UsageError, match=message):
        refladder.score(ROWS, **arguments, **ONE)


def test_it_writes_no_ladders():
    with pytest.raises(UsageError, match=NO_TEXTS):
        refladder.evaluate("demo/story", judge=by_length)
