"""Faults of comparisons by hand and by search, and debiasing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from pairwise_judges import simulated
from refusals import refuses

from refladder.errors import ShapeError, UsageError
from refladder.statistics import bias
from refladder.statistics.selection import all_pairs


@pytest.mark.parametrize("first", [-3.0, -0.5, 0.0, 1.0, 4.0])
@pytest.mark.parametrize("count", [6, 7])
def test_threshold_and_alpha_bring_the_share_of_the_first_to_a_half(first, count):
    random = np.random.default_rng(count)
    pairs = all_pairs(count)
    p = simulated(random, random.standard_normal(count), pairs, noise=0.5, first=first)
    p[0] = np.nan  # leaves an odd number
    tau = bias.fit_threshold(p)
    alpha = bias.alpha_of(tau)
    assert bias.share_of_first(p, tau) == pytest.approx(0.5, abs=1e-6)
    assert bias.share_of_first(bias.reweigh(p, alpha)) == pytest.approx(0.5, abs=1e-6)
    assert alpha == pytest.approx((1 - tau) / tau)


def test_shares_and_weights_by_hand():
    # win, loss, tie, unparsed: (1 + 0 + .5) / 3
    assert bias.share_of_first(np.array([0.9, 0.2, 0.5, np.nan])) == pytest.approx(0.5)
    # 2 * .25 / (2 * .25 + .75) = .4
    assert bias.reweigh(np.array([0.25, np.nan]), 2.0)[0] == pytest.approx(0.4)
    nothing = np.array([np.nan])
    assert np.isnan([bias.share_of_first(nothing), bias.fit_threshold(nothing)]).all()


@pytest.mark.parametrize(
    ("answers", "threshold", "first"),
    [
        # two thirds or more choose the first: its wins would all be ties at the median, 1; 1/2 keeps the answers
        ([1.0, 1.0, 0.0], 0.5, 2 / 3),
        ([0.0, 0.0, 0.0, 1.0], 0.5, 1 / 4),
        # log-probabilities of -50 stand for never: 2e-22 is an answer of 0
        ([2e-22, 2e-22, 1.0], 0.5, 1 / 3),
        # three answers each, median 1: between 2/3 and 1 the first wins 3 of 5, between 1/3 and 2/3 4 of 5
        ([1 / 3, 2 / 3, 1.0, 1.0, 1.0], 5 / 6, 3 / 5),
        # only ties lie between 0 and 1: a threshold of .25 would make wins of them, one of .75 losses
        ([0.0, 0.0, 0.5, 0.5, 0.5], 0.5, 3 / 10),
        ([1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.0], 0.5, 5 / 7),
        # .7 is the median: it turns a win into a tie and two ties into losses, and 2 of 3 is most of them
        ([0.5, 0.5, 0.7, 0.8, 0.9], 0.5, 4 / 5),
        # three answers become losses, and one of them was a tie
        ([0.5, 0.6, 0.65, 0.7, 0.8, 0.9], 0.675, 1 / 2),
        # a tie at the median is exact: (1 + 1/2) / 3
        ([0.2, 0.7, 0.9], 0.7, 1 / 2),
        # no threshold tells these apart
        ([1.0, 1.0], 0.5, 1.0),
        ([0.0], 0.5, 0.0),
    ],
)
def test_the_threshold_of_few_distinct_values_is_the_one_nearest_to_half(answers, threshold, first):
    given = np.array([*answers, np.nan])
    assert bias.fit_threshold(given) == pytest.approx(threshold)
    assert bias.share_of_first(given, bias.fit_threshold(given)) == pytest.approx(first)


def test_no_threshold_is_nearer_to_half_than_the_fitted_one():
    random = np.random.default_rng(4)
    for answers in (1, 2, 3, 5, 10):
        p = random.binomial(answers, random.beta(4, 1, 200)) / answers
        p = p[np.abs(p - 0.5) > 1e-9]  # a threshold between ties and other answers is not taken
        shares = [bias.share_of_first(p, tau) for tau in np.linspace(0.004, 0.996, 997)]
        reached = bias.share_of_first(p, bias.fit_threshold(p))
        assert abs(reached - 0.5) == pytest.approx(min(abs(share - 0.5) for share in shares))


def test_inconsistency_by_hand():
    pairs = np.array([[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1], [0, 3]])
    p = np.array([0.9, 0.2, 0.9, 0.7, 0.5, np.nan, 0.9])
    # 0-1 agree, 0-2 both choose the first, 1-2 was read in one order, 0-3 was asked in one order
    assert bias.inconsistency(4, pairs, p) == (1, 2)
    assert bias.inconsistency(2, pairs[:2], np.array([0.5, 0.5])) == (0, 1)
    assert bias.inconsistency(2, pairs[:2], np.array([0.5, 0.6])) == (1, 1)


def test_agreement_and_discordance_by_hand():
    pairs = np.array([[0, 1], [1, 0], [0, 2], [1, 3], [1, 2]])
    p = np.array([0.9, 0.6, 0.5, 0.9, 0.9])
    # people: 0 over 1 = 2, and 3 was not rated: right, wrong, tie, left out, equal ratings left out
    assert bias.comparative_accuracy(pairs, p, np.array([3.0, 1.0, 1.0, np.nan])) == (1.5, 3)
    # wanted tells 0-1, 0-2 apart; found has 0-1 right and ties 0-2
    assert bias.pair_agreement(np.array([2.0, 1.0, 2.0]), np.array([5.0, 4.0, 4.0])) == (1.5, 2)
    pairs, p = np.array([[0, 1], [1, 2], [0, 2], [2, 3]]), np.array([0.9, 0.9, 0.5, 0.9])
    # scores 1 > 0 = 2, 3 unscored: 0 over 1 contradicts; 1 over 2 agrees; tie agrees; left out
    assert bias.discordance(pairs, p, np.array([2.0, 3.0, 2.0, np.nan])) == (1, 3)


def test_self_consistency_of_a_perfect_judge_is_one_and_of_others_rises_with_the_size():
    quality = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.6])
    matrix = (quality[:, None] > quality[None, :]).astype(float)
    rows = bias.self_consistency(matrix, [2, 4, 6], human=quality)
    assert rows == [(2, 1.0, 1.0), (4, 1.0, 1.0), (6, 1.0, 1.0)]
    # 2307.07889, table 8: 84.0 at 2 of 16 up to 100
    random = np.random.default_rng(0)
    quality, pairs = random.standard_normal(16), all_pairs(16)
    matrix = bias.square(16, pairs, simulated(random, quality, pairs, noise=1.0, sharpness=2.0))
    rows = bias.self_consistency(matrix, [2, 4, 8, 16], human=quality, draws=200)
    _, finals, golds = map(list, zip(*rows, strict=True))
    assert (finals, golds) == (sorted(finals), sorted(golds))
    assert golds[-1] < finals[-1] == 1


def test_what_is_refused():
    message = "the median probability is 1, so no weight gives both positions half"
    refuses(UsageError, message, bias.alpha_of, 1.0)
    message = "alpha 0: the weight of the first position must be a finite number above 0"
    refuses(UsageError, message, bias.reweigh, np.array([0.5]), 0)
    message = "a subset of 4 items: choose between 2 and 3"
    refuses(UsageError, message, bias.self_consistency, np.zeros((3, 3)), [4])
    message = r"the matrix of comparisons must be square, found \(2, 3\)"
    refuses(ShapeError, message, bias.self_consistency, np.zeros((2, 3)), [2])


def is_weak_order(ab, bc, ac):
    """Whether ranks of three items exist with these signs of differences."""
    return any(
        (np.sign(a - b), np.sign(b - c), np.sign(a - c)) == (ab, bc, ac)
        for a, b, c in itertools.product(range(3), repeat=3)
    )


def test_intransitive_triples_equal_a_search_for_ranks():
    pairs = np.array([[0, 1], [1, 2], [0, 2]])
    for signs in itertools.product([-1, 0, 1], repeat=3):
        p = 0.5 + 0.3 * np.array(signs)
        assert bias.intransitive_triples(3, pairs, p) == (int(not is_weak_order(*signs)), 1)
    # Of many items each triple is counted once.
    pairs = all_pairs(7)
    p = np.random.default_rng(1).choice([0.0, 0.5, 1.0], len(pairs))
    matrix = bias.square(7, pairs, p)
    sign = np.sign(np.round(matrix - matrix.T, 12))
    triples = list(itertools.combinations(range(7), 3))
    wrong = sum(not is_weak_order(sign[a, b], sign[b, c], sign[a, c]) for a, b, c in triples)
    assert bias.intransitive_triples(7, pairs, p) == (wrong, 35)
    assert wrong > 0


def test_triples_with_an_unparsed_pair_are_left_out():
    pairs, p = np.array([[0, 1], [1, 2], [0, 2], [0, 3]]), np.array([0.9, 0.9, np.nan, 0.2])
    assert bias.intransitive_triples(4, pairs, p) == (0, 0)
