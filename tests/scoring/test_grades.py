"""Grades of single texts: the numbers that come of their probabilities, against hand work."""

from __future__ import annotations

import math

import pytest
from doubles import asker

from refladder.backends.scripted import Rule, Scripted
from refladder.errors import UsageError
from refladder.prompts import load_template
from refladder.records import Context, Dimension, Output, Sampling
from refladder.scoring.grades import expected_grade, grade_question, most_probable_grade, on_scale

CONTEXT = Context(id="c", task="summarization", text="The ferry to Texel was full on Monday.")
COHERENCE = Dimension(name="coherence", description="The text hangs together.")
TEXT = Output(id="o", context_id="c", system="s", text="A full ferry.")


def judge(rule, role="direct-5", **options):
    judging = asker(Scripted([rule]), load_template("summarization", role), **options)
    return judging.ask([grade_question(TEXT, CONTEXT, COHERENCE)])[0]


def read(shares, role="direct-5"):
    return judge(Rule(answer={str(k): math.log(share) for k, share in shares.items()}), role)


def test_direct_and_g_eval_by_hand():
    judgment = read({1: 0.1, 2: 0.2, 3: 0.4, 4: 0.2, 5: 0.05})
    assert judgment.against is None
    assert judgment.outcomes == ("1", "2", "3", "4", "5")
    assert judgment.mass == pytest.approx(0.95)
    assert most_probable_grade(judgment) == 3
    # (1*.1 + 2*.2 + 3*.4 + 4*.2 + 5*.05) / .95 = 2.75 / .95
    assert expected_grade(judgment) == pytest.approx(2.75 / 0.95, abs=1e-12)


def test_ten_grades_by_hand():
    # 9/10 of the labels' mass is on 10, 1/10 on 1, nearly nothing elsewhere: 10 * .9 + 1 * .1 = 9.1
    judgment = read({1: 0.05, **dict.fromkeys(range(2, 10), 1e-15), 10: 0.45}, "direct-10")
    assert most_probable_grade(judgment) == 10
    assert expected_grade(judgment) == pytest.approx(9.1, abs=1e-9)


def test_equally_probable_grades_count_their_mean():
    assert most_probable_grade(read({1: 0.05, 2: 0.3, 3: 0.05, 4: 0.05, 5: 0.3})) == 3.5


def test_what_could_not_be_read_has_no_grade():
    judgment = judge(Rule(error="the line was dead"))
    assert most_probable_grade(judgment) is None
    assert expected_grade(judgment) is None


def test_only_answers_that_are_a_grade_are_counted():
    # Parsed: 4, 4, 5. "4 or 5" is no single grade, and 10 is no label of 1..5.
    rule = Rule(texts=("4", " 4.\n", "4 or 5", "5\nbecause it is fine", "10"))
    judgment = judge(rule, answers=5, sampling=Sampling(max_tokens=5))
    shares = dict(zip(judgment.outcomes, map(math.exp, judgment.logprobs), strict=True))
    assert shares == pytest.approx({"1": 0, "2": 0, "3": 0, "4": 2 / 3, "5": 1 / 3}, abs=1e-20)
    assert judgment.mass == pytest.approx(3 / 5)
    assert judgment.note == "2 of 5 answers unparsed: 2 x no label in the answer, e.g. '4 or 5'"
    assert most_probable_grade(judgment) == 4
    assert expected_grade(judgment) == pytest.approx(13 / 3)  # (4 + 4 + 5) / 3


def test_a_grade_on_another_scale():
    assert on_scale(1, 5, (0.0, 1.0)) == 0.0
    assert on_scale(5.5, 10, (1.0, 3.0)) == 2.0  # the middle stays the middle
    assert on_scale(10, 10, (1.0, 5.0)) == 5.0
    with pytest.raises(UsageError, match="a scale has at least 2 grades, found 1"):
        on_scale(1, 1, (1.0, 5.0))
