"""The most likely ranking, beside a search over all permutations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from pairwise_judges import simulated

from refladder.errors import UsageError
from refladder.statistics import likelihood
from refladder.statistics.likelihood import gains, likelihood_ranking, log_likelihood
from refladder.statistics.selection import all_pairs


def mean_places(items, pairs, p):
    """All permutations: the mean number of items below, over the most likely rankings."""
    matrix = np.zeros((items, items))
    for (first, second), chance in zip(pairs.tolist(), np.clip(p, 1e-6, 1 - 1e-6), strict=True):
        matrix[first, second] += np.log(chance)
        matrix[second, first] += np.log(1 - chance)
    values = {
        order: sum(matrix[one, other] for one, other in itertools.combinations(order, 2))
        for order in itertools.permutations(range(items))
    }
    best = max(values.values())
    orders = [order for order, value in values.items() if value > best - 1e-9]
    return [np.mean([items - 1 - order.index(item) for order in orders]) for item in range(items)]


@pytest.mark.parametrize("items", range(2, 8))
@pytest.mark.parametrize("seed", range(2))
def test_exact_ranking_equals_all_permutations(items, seed):
    pairs = all_pairs(items)
    p = np.random.default_rng(seed).random(len(pairs))
    assert likelihood_ranking(items, pairs, p) == pytest.approx(mean_places(items, pairs, p))


@pytest.mark.parametrize("seed", range(4))
def test_hard_answers_ties_and_unparsed_ones_equal_all_permutations(seed):
    # many rankings are equally likely here, so that the mean over all of them is what is tested
    pairs = all_pairs(6)
    p = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], len(pairs))
    p[[2, 7]] = np.nan
    kept = ~np.isnan(p)
    assert likelihood_ranking(6, pairs, p) == pytest.approx(mean_places(6, pairs[kept], p[kept]))


@pytest.mark.parametrize("seed", range(6))
def test_greedy_search_comes_close_to_the_best_of_all_permutations(monkeypatch, seed):
    monkeypatch.setattr(likelihood, "EXACT", 0)
    random = np.random.default_rng(seed)
    pairs = all_pairs(7)
    p = simulated(random, random.standard_normal(7), pairs, noise=1.5)
    matrix = gains(7, pairs, p)
    best = max(log_likelihood(matrix, order) for order in itertools.permutations(range(7)))
    greedy = log_likelihood(matrix, np.argsort(-likelihood_ranking(7, pairs, p)))
    assert best - 0.02 * abs(best) <= greedy <= best + 1e-9


def test_greedy_search_finds_a_consistent_order():
    random = np.random.default_rng(0)
    quality = random.permutation(40).astype(float)
    p = simulated(random, quality, all_pairs(40), sharpness=3.0)
    assert likelihood_ranking(40, all_pairs(40), p) == pytest.approx(quality)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (3, r"2 unconnected components: \{0, 1\}, \{2\}"),
        (2001, "likelihood ranking takes up to 2,000 items, found 2,001; use bradley-terry"),
    ],
)
def test_too_few_pairs_or_too_many_items_are_refused(items, message):
    with pytest.raises(UsageError, match=message):
        likelihood_ranking(items, np.array([[0, 1]]), np.array([0.7]))
