"""Early stopping decides as the whole ladder does, whatever the judge says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refladder.errors import UnknownNameError, UsageError
from refladder.records import Dimension
from refladder.scoring.rules import RULES, expected_grades, ladder_scores, overall, rule_named
from refladder.scoring.stopping import StopRule
from refladder.settings import Scale

WORTH = Dimension(name="worth", description="")
WIT = Dimension(name="wit", description="", low=0.0, high=10.0)


def decided(stop, whole):
    """Decisions, and the rungs that were asked, when rungs are asked as the rule says."""
    asked = np.full_like(whole, -1.0)
    while True:
        columns = stop.column_bounds(stop.bounds(asked))
        decisions = stop.decisions(columns)
        rows = np.flatnonzero(decisions == 0)
        if not len(rows):
            return decisions, np.sum(asked[..., 0] != -1, axis=(1, 2)), columns
        chosen = stop.next_rungs(asked[rows], columns[rows])
        before = asked.reshape(len(whole), -1, 3)[rows, chosen]
        assert np.all(before == -1)  # never the same rung twice
        asked.reshape(len(whole), -1, 3)[rows, chosen] = whole.reshape(len(whole), -1, 3)[rows, chosen]


@st.composite
def ladders(draw, dimensions=1):
    """Verdicts of random judges: smooth, certain, or of a few values, so that scores tie."""
    rungs = draw(st.integers(1, 9))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (40, dimensions, rungs)
    kind = draw(st.sampled_from(["smooth", "certain", "coarse"]))
    if kind == "smooth":
        return random.dirichlet([0.4, 0.4, 0.4], size=shape)
    if kind == "certain":
        return np.eye(3)[random.integers(0, 3, size=shape)]
    return np.array([[0.1, 0.2, 0.7], [0.7, 0.2, 0.1], [1 / 3, 1 / 3, 1 / 3], [0.6, 0.3, 0.1]])[
        random.integers(0, 4, size=shape)
    ]


@settings(max_examples=150, deadline=None)
@given(whole=ladders(), rule=st.sampled_from(list(RULES)), graded=st.booleans(), row=st.integers(0, 39))
def test_a_decision_is_that_of_the_whole_ladder_also_at_an_exact_tie(whole, rule, graded, row):
    rungs = whole.shape[2]
    of = expected_grades if graded else rule_named(rule)
    full = of(whole[:, 0], (1.0, 5.0))
    threshold = float(full[row])  # a row has exactly this number, and rows with it pass
    try:
        stop = StopRule(
            {f"worth_{'grade' if graded else 'score'}": threshold}, [WORTH], rungs, Scale(rule=rule, weights={})
        )
    except UsageError:  # the least score of all is no threshold
        assert full[row] == of(np.eye(3)[[[1] * rungs]], (1.0, 5.0))[0]
        return
    decisions, asked, columns = decided(stop, whole)
    assert np.array_equal(decisions == 1, full >= threshold)
    assert decisions[row] == 1
    assert np.all(columns[:, 0, 0] <= full)
    assert np.all(full <= columns[:, 0, 1])
    assert asked.min() >= stop.fewest


@settings(max_examples=60, deadline=None)
@given(whole=ladders(dimensions=2), rule=st.sampled_from(list(RULES)), row=st.integers(0, 39))
def test_several_columns_must_all_hold(whole, rule, row):
    rungs, dimensions = whole.shape[2], [WORTH, WIT]
    score = rule_named(rule)
    values = np.stack([score(whole[:, 0], (1.0, 5.0)), score(whole[:, 1], (0.0, 10.0))], axis=1)
    ends = np.array([[score(np.eye(3)[[[end] * rungs]], human)[0] for end in (1, 0)] for human in ((1, 5), (0, 10))])
    combined = overall(values, ends, np.array([1.0, 3.0]))
    grade = expected_grades(whole[:, 1], (0.0, 10.0))
    limits = {"overall_score": float(combined[row]), "wit_grade": float(grade[(row + 1) % 40])}
    try:
        stop = StopRule(limits, dimensions, rungs, Scale(rule=rule, weights={"wit": 3.0}))
    except UsageError:  # the least score of all is no threshold
        assert combined[row] == 0 or grade[(row + 1) % 40] == 0
        return
    decisions, asked, _ = decided(stop, whole)
    passes = (combined >= limits["overall_score"]) & (grade >= limits["wit_grade"])
    assert np.array_equal(decisions == 1, passes)
    assert asked.min() >= stop.fewest


def test_bounds_by_hand():
    """Five rungs, of which rung 5 is a sure loss and rung 4 has p = (.5, .25, .25): 4 * .25 - 5 = -4, +-(1 + 2 + 3)."""
    read = np.full((1, 1, 5, 3), -1.0)
    read[0, 0, 4] = (0.0, 1.0, 0.0)
    read[0, 0, 3] = (0.5, 0.25, 0.25)
    for threshold, decision in ((2.0, 0), (2.1, -1), (-10.0, 1), (-9.9, 0)):
        stop = StopRule({"worth_score": threshold}, [WORTH], 5, Scale(rule="ladder-sum", weights={}))
        columns = stop.column_bounds(stop.bounds(read))
        assert columns.tolist() == [[[-10.0, 2.0]]]
        assert stop.decisions(columns).tolist() == [decision]


def test_the_fewest_rungs_by_hand():
    """Threshold 10 of -15..15: losing to rung 5 leaves 5 at most, so one loss fails. Threshold 0: a loss to rung 5 and
    one to rung 4 leave -3; passing takes as many. Two conditions: one failure is enough."""

    def fewest(**thresholds):
        dimensions = [WORTH, WIT] if len(thresholds) > 1 else [WORTH]
        return StopRule(thresholds, dimensions, 5, Scale(rule="ladder-sum", weights={})).fewest

    assert fewest(worth_score=10.0) == 1
    assert fewest(worth_score=0.0) == 2
    assert fewest(worth_score=0.0, wit_score=10.0) == 1
    assert fewest(worth_score=-12.0, wit_score=-12.0) == 2  # beating one rung of each ladder


def test_an_unparsed_judgment_leaves_the_row_without_a_decision():
    read = np.full((1, 1, 5, 3), -1.0)
    read[0, 0, 4] = np.nan
    stop = StopRule({"worth_score": 3.0}, [WORTH], 5, Scale(rule="ladder-sum", weights={}))
    assert stop.decisions(stop.column_bounds(stop.bounds(read))).tolist() == [-2]


@pytest.mark.parametrize(
    ("thresholds", "rule", "error", "text"),
    [
        ({"worth_scor": 1.0}, "ladder-sum", UnknownNameError, "did you mean 'worth_score'"),
        ({"worth_spread": 1.0}, "ladder-sum", UnknownNameError, "unknown column with a threshold 'worth_spread'"),
        ({"worth_score": float("nan")}, "ladder-sum", UsageError, "must be a finite number"),
        ({"worth_score": 16.0}, "ladder-sum", UsageError, "lies between -15 and 15, so no row reaches it"),
        ({"worth_score": -15.0}, "ladder-sum", UsageError, "so every row reaches it whatever the judge says"),
        ({"worth_score": 1.0}, "mine", UsageError, "rule 'mine' has no bounds"),
    ],
)
def test_thresholds_that_make_no_sense(thresholds, rule, error, text):
    with pytest.raises(error, match=text):
        StopRule(thresholds, [WORTH], 5, Scale(rule=rule, weights={}))


def test_every_dimension_needs_a_threshold():
    with pytest.raises(UsageError, match=r"no threshold depends on dimension 'wit'.*wit_score.*--dimension"):
        StopRule({"worth_score": 1.0}, [WORTH, WIT], 5, Scale(rule="ladder-sum", weights={}))


def test_a_whole_ladder_has_the_score_as_both_bounds():
    whole = np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], size=(50, 1, 5))
    stop = StopRule({"worth_score": 1.0}, [WORTH], 5, Scale(rule="ladder-sum", weights={}))
    values = stop.bounds(whole).values[:, 0]
    assert np.array_equal(values, np.stack([ladder_scores(whole[:, 0], (1.0, 5.0))] * 2, axis=1))
