from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refladder.errors import ShapeError, UnknownNameError
from refladder.scoring.rules import (
    RULES,
    bounds_of,
    expected_grades,
    grade_spreads,
    hard_votes,
    ladder_scores,
    mean_differences,
    overall,
    probabilities_from,
    rule_named,
)

SCALE = (1.0, 5.0)
WIN, LOSS, TIE = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]


@st.composite
def verdicts(draw, most=4):
    """Verdict probabilities of a few outputs, some certain, some equal, all rows summing to 1."""
    shape = (draw(st.integers(1, most)), draw(st.integers(1, 12)), 3)
    size = int(np.prod(shape))
    shares = draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))
    weights = np.array(shares).reshape(shape)
    weights[weights.sum(axis=2) < 1e-3] = 1.0
    return weights / weights.sum(axis=2, keepdims=True)


EVERY_RULE = pytest.mark.parametrize("rule", [rule_named(name) for name in RULES], ids=RULES)
FEW = settings(max_examples=20, deadline=None)


def test_hand_work_for_five_rungs():
    # Beats rungs 1 and 2 for sure, ties with 3, loses to 4 and 5:
    #   ladder sum        1 + 2 + 0 - 4 - 5 = -6
    #   mean difference   (1 + 1 + 0 - 1 - 1) / 5 = 0
    #   grade             (1 + 1 + 1/2) / 5 = 1/2 of the way from 1 to 5 = 3
    certain = np.array([[WIN, WIN, TIE, LOSS, LOSS]])
    assert ladder_scores(certain, SCALE).tolist() == [-6.0]
    assert mean_differences(certain, SCALE).tolist() == [0.0]
    assert expected_grades(certain, SCALE).tolist() == [3.0]
    assert hard_votes(certain, SCALE).tolist() == [-6.0]


def test_hand_work_for_doubtful_verdicts():
    # differences             .85 .5 .2 -.25 -.75
    #   ladder sum            .85 + 1 + .6 - 1 - 3.75 = -2.3
    #   mean difference       (.85 + .5 + .2 - .25 - .75) / 5 = .55 / 5 = .11
    #   win + tie/2           .925 .75 .6 .375 .125, sum 2.775, /5 = .555; on 1..5: 1 + 4 * .555 = 3.22
    #   hard votes            win win win loss loss: 1 + 2 + 3 - 4 - 5 = -3
    win, loss = [0.9, 0.7, 0.5, 0.25, 0.1], [0.05, 0.2, 0.3, 0.5, 0.85]
    tie = [0.05, 0.1, 0.2, 0.25, 0.05]
    doubtful = np.array([win, loss, tie]).T[None]
    assert ladder_scores(doubtful, SCALE)[0] == pytest.approx(-2.3, abs=1e-12)
    assert mean_differences(doubtful, SCALE)[0] == pytest.approx(0.11, abs=1e-12)
    assert expected_grades(doubtful, SCALE)[0] == pytest.approx(3.22, abs=1e-12)
    assert expected_grades(doubtful, (0.0, 1.0))[0] == pytest.approx(0.555, abs=1e-12)
    assert hard_votes(doubtful, SCALE).tolist() == [-3.0]


def test_equal_probabilities_are_no_vote():
    doubtful = np.array([[[0.4, 0.4, 0.2], [0.4, 0.2, 0.4], [1 / 3, 1 / 3, 1 / 3]]])
    assert hard_votes(doubtful, SCALE).tolist() == [0.0]
    # The mean of both orders: loss (1/2 + 1/4) / 2 and win (0 + 3/4) / 2 are equal, but for the last digit.
    logprobs = np.log(np.array([[1e-300, 1 / 2, 1 / 2], [3 / 4, 1 / 4, 1e-300]]))
    mean = probabilities_from(logprobs).mean(axis=0)
    assert hard_votes(mean[None, None], SCALE).tolist() == [0.0]


def test_the_spread_of_one_reading_by_hand():
    # One rung, win 1/2, loss 1/2: a draw worth 1 or 0 has variance 1/4, deviation 1/2; on a scale of 4 that is 2.
    assert grade_spreads(np.array([[[0.5, 0.5, 0.0]]]), SCALE).tolist() == [2.0]
    # Four such rungs: deviation of the mean 1/2 / sqrt(4) = 1/4, on a scale of 4 that is 1.
    four = grade_spreads(np.full((1, 4, 3), [0.5, 0.5, 0.0]), SCALE)
    assert four[0] == pytest.approx(1.0, abs=1e-12)
    # A certain verdict has no spread, right or wrong, and neither has a certain tie.
    assert grade_spreads(np.array([[WIN, LOSS], [TIE, TIE]]), SCALE).tolist() == [0.0, 0.0]
    assert np.isnan(grade_spreads(np.array([[WIN, [np.nan] * 3]]), SCALE)[0])


def test_the_spread_is_that_of_grades_with_drawn_verdicts():
    probabilities = np.array([[0.6, 0.1, 0.3], [0.2, 0.7, 0.1], [0.4, 0.4, 0.2]])
    random = np.random.default_rng(1)
    drawn = [random.choice(3, size=200_000, p=verdict) for verdict in probabilities]
    grades = expected_grades(np.eye(3)[np.stack(drawn, axis=1)], SCALE)
    # the standard deviation of 200,000 draws is known to about 1 / sqrt(400,000) = .16 %
    assert grade_spreads(probabilities[None], SCALE)[0] == pytest.approx(grades.std(), rel=0.01)


def test_bounds_for_five_rungs():
    assert {name: bounds_of(rule_named(name), 5, SCALE) for name in RULES} == {
        "ladder-sum": (-15, 15),  # 1 + 2 + 3 + 4 + 5 = 15
        "mean-difference": (-1, 1),
        "expected-grade": (1, 5),
        "hard-votes": (-15, 15),
    }


def test_an_unknown_rule_gets_the_near_name():
    message = r"^unknown rule 'ladder-sun'; did you mean 'ladder-sum'\? Known: exp"
    with pytest.raises(UnknownNameError, match=message):
        rule_named("ladder-sun")


@EVERY_RULE
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 2), (2, 0, 3)])
def test_wrong_axes_are_refused(rule, shape):
    message = r"verdict probabilities must have shape \(outputs, rungs, 3\) with at least one rung, found \("
    with pytest.raises(ShapeError, match=message):
        rule(np.zeros(shape), SCALE)


@EVERY_RULE
@FEW
@given(probabilities=verdicts())
def test_scores_are_bounded_and_mirrored_where_win_and_loss_are_swapped(rule, probabilities):
    low, high = bounds_of(rule, probabilities.shape[1], SCALE)
    scores = rule(probabilities, SCALE)
    assert np.all(scores >= low - 1e-9)
    assert np.all(scores <= high + 1e-9)
    mirrored = rule(probabilities[:, :, [1, 0, 2]], SCALE)
    assert scores - low == pytest.approx(high - mirrored, abs=1e-9)


@EVERY_RULE
@FEW
@given(probabilities=verdicts(), data=st.data())
def test_a_better_verdict_never_lowers_a_score(rule, probabilities, data):
    rung = data.draw(st.integers(0, probabilities.shape[1] - 1))
    moves = [(1, 0), (2, 0), (1, 2)]  # from loss to win, from tie to win, from loss to tie
    # The most probable verdict can change with a tie on either side: win .4, loss .3, tie .3 is a win, and with the
    # loss given to the tie a tie; loss .5, tie .5 is no vote, and with half the tie given to the win a loss.
    giving, taking = data.draw(st.sampled_from(moves[:1] if rule is hard_votes else moves))
    better = probabilities.copy()
    moved = better[:, rung, giving] * data.draw(st.floats(0, 1))
    better[:, rung, giving] -= moved
    better[:, rung, taking] += moved
    assert np.all(rule(better, SCALE) >= rule(probabilities, SCALE) - 1e-9)


@EVERY_RULE
@FEW
@given(probabilities=verdicts(most=8), data=st.data())
def test_a_score_does_not_depend_on_its_batch_and_what_was_not_read_stays_unknown(
    rule, probabilities, data
):
    scores = rule(probabilities, SCALE)
    first = data.draw(st.integers(0, len(scores) - 1))
    last = data.draw(st.integers(first + 1, len(scores)))
    assert rule(probabilities[first:last], SCALE).tobytes() == scores[first:last].tobytes()
    assert rule(probabilities[::-1], SCALE).tobytes() == scores[::-1].tobytes()
    probabilities[first, data.draw(st.integers(0, probabilities.shape[1] - 1))] = np.nan
    after = rule(probabilities, SCALE)
    assert np.isnan(after[first])
    others = np.arange(len(after)) != first
    assert after[others].tolist() == scores[others].tolist()


LOGPROBS = st.lists(st.floats(-700, 0), min_size=3, max_size=3)


@FEW
@given(logprobs=st.lists(LOGPROBS, min_size=2, max_size=12).map(np.array))
def test_probabilities_do_not_depend_on_their_batch(logprobs):
    found = probabilities_from(logprobs)
    assert found.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    for place, row in enumerate(logprobs):
        assert probabilities_from(row[None]).tobytes() == found[place].tobytes()


def test_probabilities_by_hand():
    # Labels that got 0.2, 0.1 and 0.1 of the mass: 1/2, 1/4, 1/4 of what the labels got together.
    found = probabilities_from(np.log([[0.2, 0.1, 0.1]]))
    assert found[0] == pytest.approx([0.5, 0.25, 0.25], abs=1e-15)
    assert np.isnan(probabilities_from(np.array([[np.nan, 0.0, 0.0]]))).all()


def test_overall_by_hand():
    # 0 between -15 and 15 is 1/2 of the way, 2 between 1 and 5 is 1/4; weights 3 and 1: (3/2 + 1/4) / 4 = 7/16
    bounds = np.array([[-15.0, 15.0], [1.0, 5.0]])
    values = np.array([[0.0, 2.0], [15.0, 5.0], [-15.0, 1.0], [np.nan, 2.0], [0.0, np.nan]])
    found = overall(values, bounds, np.array([3.0, 1.0]))
    assert found[:3].tolist() == [7 / 16, 1.0, 0.0]
    assert np.isnan(found[3:]).all()
    # a dimension without weight may be unknown
    assert overall(values, bounds, np.array([1.0, 0.0]))[[0, 4]].tolist() == [0.5, 0.5]
    message = r"values \(5, 2\), bounds \(2, 2\) and weights \(3,\) do not agree"
    with pytest.raises(ShapeError, match=message):
        overall(values, bounds, np.ones(3))
