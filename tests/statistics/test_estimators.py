"""Estimators by hand, beside choix, evalica and numpy's least squares, and where they have no numbers."""

from __future__ import annotations

import choix
import evalica
import numpy as np
import pytest
from pairwise_judges import simulated, spearman
from refusals import refuses

from refladder.backends.labels import reading_from_verdicts
from refladder.errors import ShapeError, UsageError
from refladder.statistics.estimators import (
    bradley_terry,
    decisions,
    mean_probability,
    product_of_experts,
    win_ratio,
)
from refladder.statistics.selection import all_pairs, select_pairs

# 0 beats 1 surely, 1 beats 0 when first with .3, 0 and 2 tie, 2 over 1 could not be read
PAIRS = np.array([[0, 1], [1, 0], [0, 2], [2, 1]])
GIVEN = np.array([0.9, 0.3, 0.5, np.nan])
ESTIMATORS = [win_ratio, mean_probability, bradley_terry, product_of_experts]


def test_win_ratio_and_mean_probability_by_hand():
    # item 0: win, win, tie = 2.5 of 3; item 1: two losses, the unparsed one left out; item 2: the tie alone
    assert win_ratio(3, PAIRS, GIVEN) == pytest.approx([2.5 / 3, 0, 0.5])
    # tau = .25: the second pair is now a win of item 1, the tie a win of item 0
    assert win_ratio(3, PAIRS, GIVEN, threshold=0.25) == pytest.approx([2 / 3, 1 / 2, 0])
    # item 0: (.9 + .7 + .5) / 3; item 1: (.1 + .3) / 2; item 2: .5; nothing was read about a fourth
    expected = pytest.approx([0.7, 0.2, 0.5, np.nan], nan_ok=True)
    assert mean_probability(4, PAIRS, GIVEN) == expected
    hard = decisions(np.array([0.2, 0.5, 0.500001, np.nan]), 0.5)
    assert hard == pytest.approx([0, 0.5, 1, np.nan], nan_ok=True)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_winner_becomes_the_loser(estimator):
    p = np.random.default_rng(5).random(42)
    found = estimator(7, all_pairs(7), p)
    turned = estimator(7, all_pairs(7)[:, ::-1], p)
    assert turned - turned.mean() == pytest.approx(-(found - found.mean()))
    assert np.ptp(estimator(7, all_pairs(7), np.full(42, 0.5))) < 1e-12


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_items_with_the_same_answers_get_the_same_number_to_the_last_bit(estimator):
    for seed in range(10):
        random = np.random.default_rng(seed)
        quality = random.standard_normal(9)
        quality[[3, 7]] = quality[1]  # three outputs with the same text
        pairs = all_pairs(9)
        p = simulated(random, quality, pairs, first=0.7)
        order = random.permutation(len(pairs))
        found = estimator(9, pairs[order], p[order])
        assert len({found[1], found[3], found[7]}) == 1


def won(items, pairs, p, prior=0.0):
    """A matrix of wins, with half of the prior for each side."""
    wins = np.zeros((items, items))
    np.add.at(wins, (pairs[:, 0], pairs[:, 1]), p + prior / 2)
    np.add.at(wins, (pairs[:, 1], pairs[:, 0]), 1 - p + prior / 2)
    return wins


@pytest.mark.parametrize("prior", [0.0, 0.2, 1.0])
def test_bradley_terry_equals_choix_on_soft_wins(prior):
    for seed in range(3):
        p = np.random.default_rng(seed).uniform(0.02, 0.98, 56)
        expected = choix.ilsr_pairwise_dense(won(8, all_pairs(8), p, prior))
        assert bradley_terry(8, all_pairs(8), p, prior=prior) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_bradley_terry_equals_evalica_on_soft_wins_and_ties(seed):
    pairs = select_pairs(9, 40, "random", seed)
    p = np.random.default_rng(seed).choice([0.5, 0.3, 0.81, 0.1, 0.66], 40)
    x, y = (list(map(str, column)) * 2 for column in pairs.T)
    winners = [evalica.Winner.X] * 40 + [evalica.Winner.Y] * 40
    exact = {"weights": [*p, *(1 - p)], "tolerance": 1e-12, "limit": 100_000}
    found = evalica.bradley_terry(x, y, winners, **exact)
    strengths = np.log([found.scores[str(item)] for item in range(9)])
    assert bradley_terry(9, pairs, p) == pytest.approx(strengths - strengths.mean(), abs=1e-6)


def test_an_item_that_always_wins_or_loses_has_no_finite_strength():
    pairs, p = np.array([[0, 1], [0, 2], [1, 2], [2, 1]]), np.array([1.0, 1.0, 0.6, 0.6])
    names = {"names": ["x", "y", "z"]}
    message = (
        r"no finite strengths: 1 of 3 items \(x\) lost to none of the others; give a prior above 0"
    )
    refuses(UsageError, message, bradley_terry, 3, pairs, p, **names)
    lost = np.array([0.0, 0.0, 0.6, 0.6])
    message = r"2 of 3 items \(y, z\) lost to none of the others"
    refuses(UsageError, message, bradley_terry, 3, pairs, lost, **names)
    strengths = bradley_terry(3, pairs, p, prior=0.01)
    assert strengths[0] > max(strengths[1:])


def sampled_shares(*counts):
    """P(the first is better) of readings whose labels, first and second, were said so often."""
    readings = [
        reading_from_verdicts([(0, "")] * first + [(1, "")] * second, 2) for first, second in counts
    ]
    return np.exp([reading.logprobs[0] - np.logaddexp(*reading.logprobs) for reading in readings])


def test_shares_of_sampled_answers_that_all_agree_give_no_finite_strength():
    # A label that was never said has p = 2e-22 in a reading, not 0: no part of a win.
    pairs = np.array([[0, 1], [1, 2], [2, 1], [2, 0]])
    p = sampled_shares((20, 0), (12, 8), (13, 7), (0, 20))
    assert 0 < p[3] < 1e-20
    with pytest.raises(UsageError, match=r"1 of 3 items \(best\) lost to none of the others"):
        bradley_terry(3, pairs, p, names=["best", "a", "b"])
    hard = np.array([1.0, 0.6, 0.65, 0.0])  # the same shares as counts
    expected = bradley_terry(3, pairs, hard, prior=0.01)
    assert bradley_terry(3, pairs, p, prior=0.01) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("estimator", [bradley_terry, product_of_experts])
def test_a_disconnected_graph_is_refused_and_its_parts_named(estimator):
    pairs, p = np.array([[0, 1], [2, 3], [3, 4]]), np.array([0.6, 0.3, np.nan])
    message = r"3 unconnected components: \{a, b\}, \{c, d\}, \{e\}; .* ask more pairs, or rank"
    with pytest.raises(UsageError, match=message):
        estimator(5, pairs, p, names=["a", "b", "c", "d", "e"])
    pairs = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]])
    message = r"6 unconnected components: \{0, 1, 2, 3, 4 and 2 more\}, \{7\}, \{8\}, \.\.\.;"
    with pytest.raises(UsageError, match=message):
        estimator(12, pairs, np.full(6, 0.5))


@pytest.mark.parametrize("seed", range(4))
def test_product_of_experts_is_least_squares(seed):
    pairs = select_pairs(10, 60, "random", seed)
    p = np.random.default_rng(seed).random(60)
    rows = np.eye(10)[pairs[:, 0]] - np.eye(10)[pairs[:, 1]]
    expected = np.linalg.lstsq(rows, p - p.mean(), rcond=None)[0]
    found = product_of_experts(10, pairs, p)
    assert found == pytest.approx(expected - expected.mean(), abs=1e-7)


def test_a_position_bias_that_is_known_is_taken_out_of_a_single_comparison():
    # .9 = .5 + (s_0 - s_1): scores of mean 0 that differ by .4; its own mean, .9, leaves nothing
    pairs, p = np.array([[0, 1]]), np.array([0.9])
    assert product_of_experts(2, pairs, p) == pytest.approx([0, 0])
    assert product_of_experts(2, pairs, p, position_bias=0.5) == pytest.approx([0.2, -0.2])


def test_arrays_and_options_that_do_not_fit_are_refused():
    message = r"pairs must have shape \(R, 2\) and probabilities \(R,\), found \(4, 2\)"
    refuses(ShapeError, message, win_ratio, 3, PAIRS, GIVEN[:3])
    message = "a ranking needs at least two items, found 1"
    refuses(UsageError, message, win_ratio, 1, PAIRS, GIVEN)
    message = "pairs must name two different items from 0 to 1"
    refuses(UsageError, message, win_ratio, 2, PAIRS, GIVEN)
    message = "a probability must be between 0 and 1, or NaN"
    refuses(UsageError, message, win_ratio, 3, PAIRS, GIVEN + 0.2)
    message = "a prior of -1: it must be 0 or more"
    refuses(UsageError, message, bradley_terry, 3, PAIRS, GIVEN, prior=-1)
    message = r"a position bias of \S+: it must be a mean probability, between 0 and 1"
    for wrong in (-0.1, 1.5, np.nan):
        refuses(UsageError, message, product_of_experts, 3, PAIRS, GIVEN, position_bias=wrong)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_ten_thousand_items_and_200000_comparisons(estimator):
    random = np.random.default_rng(0)
    quality = random.standard_normal(10_000)
    pairs = select_pairs(10_000, 200_000, "symmetric", 0)
    p = simulated(random, quality, pairs, noise=1.0)
    assert spearman(estimator(10_000, pairs, p), quality) > 0.85
