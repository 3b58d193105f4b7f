from __future__ import annotations

import time

import choix
import evalica
import numpy as np
import pytest
from support.pairwise_judges import simulated, spearman

from refladder.backends.labels import reading_from_verdicts
from refladder.errors import ShapeError, UsageError
from refladder.ranking.estimators import (
    bradley_terry,
    decisions,
    mean_probability,
    product_of_experts,
    win_ratio,
)
from refladder.ranking.selection import all_pairs, select_pairs

# 0 beats 1 surely, 1 beats 0 when first with .3, 0 and 2 tie, 2 over 1 could not be read
PAIRS = np.array([[0, 1], [1, 0], [0, 2], [2, 1]])
GIVEN = np.array([0.9, 0.3, 0.5, np.nan])


def test_win_ratio_by_hand():
    # item 0: win, win, tie = 2.5 of 3; item 1: two losses, the unparsed one left out; item 2: the tie alone
    assert win_ratio(3, PAIRS, GIVEN) == pytest.approx([2.5 / 3, 0, 0.5])


def test_win_ratio_with_a_threshold_by_hand():
    # tau = .25: the second pair is now a win of item 1, the tie a win of item 0
    assert win_ratio(3, PAIRS, GIVEN, threshold=0.25) == pytest.approx([2 / 3, 1 / 2, 0])


def test_mean_probability_by_hand():
    # item 0: (.9 + .7 + .5) / 3; item 1: (.1 + .3) / 2; item 2: .5
    assert mean_probability(3, PAIRS, GIVEN) == pytest.approx([0.7, 0.2, 0.5])


@pytest.mark.parametrize("estimator", [win_ratio, mean_probability])
def test_an_item_that_nothing_was_read_about_has_no_number(estimator):
    found = estimator(4, PAIRS, GIVEN)
    assert np.isnan(found).tolist() == [False, False, False, True]


def test_decisions_know_ties_and_keep_what_was_not_read():
    assert decisions(np.array([0.2, 0.5, 0.500001, np.nan]), 0.5).tolist()[:3] == [0, 0.5, 1]
    assert np.isnan(decisions(np.array([np.nan])))


@pytest.mark.parametrize(
    "estimator", [win_ratio, mean_probability, bradley_terry, product_of_experts]
)
def test_estimators_are_equivariant_and_turn_with_the_judge(estimator):
    random = np.random.default_rng(5)
    pairs = all_pairs(7)
    p = random.random(len(pairs))
    order = random.permutation(7)
    found = estimator(7, pairs, p)
    assert estimator(7, order[pairs], p)[order] == pytest.approx(found)
    turned = estimator(7, pairs[:, ::-1], p)  # every winner becomes the loser
    assert turned - turned.mean() == pytest.approx(-(found - found.mean()))


@pytest.mark.parametrize(
    "estimator", [win_ratio, mean_probability, bradley_terry, product_of_experts]
)
@pytest.mark.parametrize("seed", range(20))
def test_items_with_the_same_answers_get_the_same_number_to_the_last_bit(estimator, seed):
    random = np.random.default_rng(seed)
    quality = random.standard_normal(9)
    quality[[3, 7]] = quality[1]  # three outputs with the same text
    pairs = all_pairs(9)
    p = simulated(random, quality, pairs, first=0.7)
    order = random.permutation(len(pairs))
    found = estimator(9, pairs[order], p[order])
    assert len({found[1], found[3], found[7]}) == 1


@pytest.mark.parametrize(
    "estimator", [win_ratio, mean_probability, bradley_terry, product_of_experts]
)
def test_all_ties_give_one_number(estimator):
    found = estimator(5, all_pairs(5), np.full(20, 0.5))
    assert np.ptp(found) < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_bradley_terry_equals_choix_on_soft_wins(seed):
    random = np.random.default_rng(seed)
    pairs = all_pairs(8)
    p = random.uniform(0.02, 0.98, len(pairs))
    wins = np.zeros((8, 8))
    np.add.at(wins, (pairs[:, 0], pairs[:, 1]), p)
    np.add.at(wins, (pairs[:, 1], pairs[:, 0]), 1 - p)
    expected = (
        choix.mm_pairwise_dense
        if hasattr(choix, "mm_pairwise_dense")
        else choix.ilsr_pairwise_dense
    )
    assert bradley_terry(8, pairs, p) == pytest.approx(expected(wins), abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_bradley_terry_equals_evalica_on_soft_wins_and_ties(seed):
    random = np.random.default_rng(seed)
    pairs = select_pairs(9, 40, "random", seed)
    p = random.choice([0.5, 0.3, 0.81, 0.1, 0.66], 40)
    names = [str(item) for item in range(9)]
    x = [names[first] for first in pairs[:, 0]] * 2
    y = [names[second] for second in pairs[:, 1]] * 2
    winners = [evalica.Winner.X] * 40 + [evalica.Winner.Y] * 40
    found = evalica.bradley_terry(
        x, y, winners, weights=[*p, *(1 - p)], tolerance=1e-12, limit=100_000
    )
    strengths = np.log([found.scores[name] for name in names])
    assert bradley_terry(9, pairs, p) == pytest.approx(strengths - strengths.mean(), abs=1e-6)


def test_bradley_terry_prior_is_that_much_of_a_tie():
    pairs, p = all_pairs(4), np.array([1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1.0])
    wins = np.zeros((4, 4))
    np.add.at(wins, (pairs[:, 0], pairs[:, 1]), p + 0.1)
    np.add.at(wins, (pairs[:, 1], pairs[:, 0]), 1.1 - p)
    assert bradley_terry(4, pairs, p, prior=0.2) == pytest.approx(
        choix.ilsr_pairwise_dense(wins), abs=1e-6
    )


def test_strengths_of_two_items_by_hand():
    # the first wins with .8 in both orders: the difference is log(.8 / .2), the mean 0
    found = bradley_terry(2, np.array([[0, 1], [1, 0]]), np.array([0.8, 0.2]))
    assert found == pytest.approx([np.log(4) / 2, -np.log(4) / 2])


def test_a_prior_of_one_is_half_a_win_of_both():
    # one win and one tie are 1.5 of 2 for the first: odds 3, so the strengths are ln 3 apart
    strengths = bradley_terry(2, np.array([[0, 1]]), np.array([1.0]), prior=1.0)
    assert strengths == pytest.approx([np.log(3) / 2, -np.log(3) / 2], abs=1e-6)


def test_an_item_that_always_wins_has_no_finite_strength():
    pairs, p = np.array([[0, 1], [1, 2], [2, 1], [2, 0]]), np.array([1.0, 0.6, 0.6, 0.0])
    with pytest.raises(
        UsageError,
        match=r"no finite strengths: 1 of 3 items \(best\) lost to none of the others; "
        "give a prior above 0",
    ):
        bradley_terry(3, pairs, p, names=["best", "a", "b"])
    strengths = bradley_terry(3, pairs, p, prior=0.01)
    assert strengths[0] > max(strengths[1:])


def test_an_item_that_always_loses_has_none_either():
    pairs, p = np.array([[0, 1], [1, 2], [0, 2], [2, 1]]), np.array([0.0, 0.6, 0.0, 0.6])
    with pytest.raises(UsageError, match=r"2 of 3 items \(a, b\) lost to none of the others"):
        bradley_terry(3, pairs, p, names=["worst", "a", "b"])


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
    with pytest.raises(
        UsageError, match=r"1 of 3 items \(best\) lost to none of the others; give a prior above 0"
    ):
        bradley_terry(3, pairs, p, names=["best", "a", "b"])
    hard = np.array([1.0, 0.6, 0.65, 0.0])  # the same shares as counts
    assert bradley_terry(3, pairs, p, prior=0.01) == pytest.approx(
        bradley_terry(3, pairs, hard, prior=0.01), abs=1e-6
    )


def test_a_single_sampled_answer_in_both_orders():
    pairs = np.array([[0, 1], [1, 0]])
    with pytest.raises(UsageError, match="no finite strengths: 1 of 2 items"):
        bradley_terry(2, pairs, sampled_shares((1, 0), (0, 1)))
    assert bradley_terry(2, pairs, sampled_shares((1, 0), (1, 0))) == pytest.approx(
        [0, 0]
    )  # each won once
    # with a hundredth of a tie the odds are (1 + .005) / .005
    strengths = bradley_terry(2, pairs, sampled_shares((1, 0), (0, 1)), prior=0.01)
    assert strengths == pytest.approx(
        [np.log(1.005 / 0.005) / 2, -np.log(1.005 / 0.005) / 2], abs=1e-6
    )


@pytest.mark.parametrize("estimator", [bradley_terry, product_of_experts])
def test_a_disconnected_graph_is_refused_and_its_parts_named(estimator):
    pairs, p = np.array([[0, 1], [2, 3], [3, 4]]), np.array([0.6, 0.3, np.nan])
    with pytest.raises(
        UsageError,
        match=r"form 3 unconnected components: \{a, b\}, \{c, d\}, \{e\}; .* ask more pairs, or rank",
    ):
        estimator(5, pairs, p, names=["a", "b", "c", "d", "e"])


def test_a_long_component_is_cut_in_the_message():
    with pytest.raises(
        UsageError,
        match=r"6 unconnected components: \{0, 1, 2, 3, 4 and 2 more\}, \{7\}, \{8\}, \.\.\.;",
    ):
        bradley_terry(
            12, np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]), np.full(6, 0.5)
        )


@pytest.mark.parametrize("estimator", [product_of_experts])
@pytest.mark.parametrize("seed", range(4))
def test_product_of_experts_is_least_squares(estimator, seed):
    random = np.random.default_rng(seed)
    pairs = select_pairs(10, 60, "random", seed)
    p = random.random(60)
    rows = np.zeros((60, 10))
    rows[np.arange(60), pairs[:, 0]], rows[np.arange(60), pairs[:, 1]] = 1, -1
    expected = np.linalg.lstsq(rows, p - p.mean(), rcond=None)[0]
    assert estimator(10, pairs, p) == pytest.approx(expected - expected.mean(), abs=1e-7)


def test_experts_take_a_constant_preference_for_the_first_out():
    pairs = all_pairs(6)
    quality = np.linspace(0, 0.5, 6)
    p = 0.5 + (quality[pairs[:, 0]] - quality[pairs[:, 1]]) / 2 + 0.2
    assert product_of_experts(6, pairs, p) == pytest.approx((quality - quality.mean()) / 2)


def test_a_position_bias_that_is_known_is_taken_out_of_a_single_comparison():
    # .9 = .5 + (s_0 - s_1): scores of mean 0 that differ by .4; its own mean, .9, leaves nothing
    pairs, p = np.array([[0, 1]]), np.array([0.9])
    assert product_of_experts(2, pairs, p) == pytest.approx([0, 0])
    assert product_of_experts(2, pairs, p, position_bias=0.5) == pytest.approx([0.2, -0.2])


@pytest.mark.parametrize("wrong", [-0.1, 1.5, np.nan])
def test_a_position_bias_is_a_mean_of_probabilities(wrong):
    with pytest.raises(
        UsageError, match=r"a position bias of \S+: it must be a mean probability, between 0 and 1"
    ):
        product_of_experts(2, np.array([[0, 1]]), np.array([0.9]), position_bias=wrong)


def test_arrays_that_do_not_fit_are_refused():
    with pytest.raises(
        ShapeError, match=r"pairs must have shape \(R, 2\) and probabilities \(R,\), found \(4, 2\)"
    ):
        win_ratio(3, PAIRS, GIVEN[:3])
    with pytest.raises(UsageError, match="a ranking needs at least two items, found 1"):
        win_ratio(1, PAIRS, GIVEN)
    with pytest.raises(UsageError, match="pairs must name two different items from 0 to 1"):
        win_ratio(2, PAIRS, GIVEN)
    with pytest.raises(UsageError, match="a probability must be between 0 and 1, or NaN"):
        win_ratio(3, PAIRS, GIVEN + 0.2)
    with pytest.raises(UsageError, match="a prior of -1: it must be 0 or more"):
        bradley_terry(3, PAIRS, GIVEN, prior=-1)


@pytest.mark.parametrize(
    "estimator", [win_ratio, mean_probability, bradley_terry, product_of_experts]
)
def test_ten_thousand_items_and_200000_comparisons_in_five_seconds(estimator):
    random = np.random.default_rng(0)
    quality = random.standard_normal(10_000)
    pairs = select_pairs(10_000, 200_000, "symmetric", 0)
    p = simulated(random, quality, pairs, noise=1.0)
    started = time.process_time()
    found = estimator(10_000, pairs, p)
    assert time.process_time() - started < 5
    assert spearman(found, quality) > 0.85


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_more_comparisons_recover_more(bias):
    random = np.random.default_rng(1)
    means = []
    for budget in (20, 60, 180):
        found = []
        for seed in range(30):
            quality = random.standard_normal(16)
            pairs = select_pairs(16, budget, "random", seed)
            p = simulated(random, quality, pairs, noise=1.0, first=bias, sharpness=2.0)
            scores = mean_probability(16, pairs, p)
            seen = ~np.isnan(scores)
            found.append(spearman(scores[seen], quality[seen]))
        means.append(np.mean(found))
    assert means == sorted(means)
    assert means[-1] > 0.85
