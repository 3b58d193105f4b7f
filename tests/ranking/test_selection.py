from __future__ import annotations

import numpy as np
import pytest

from refladder.errors import UnknownNameError, UsageError
from refladder.ranking import SCHEMES
from refladder.ranking.selection import all_pairs, most_pairs, select_pairs


def rows(pairs):
    return [tuple(row) for row in pairs.tolist()]


def test_all_pairs_are_every_ordered_pair_once():
    assert rows(all_pairs(3)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("items", [2, 3, 7, 16])
def test_any_budget_gives_that_many_different_ordered_pairs(scheme, items):
    for budget in range(1, most_pairs(items, scheme) + 1):
        pairs = rows(select_pairs(items, budget, scheme, seed=budget))
        assert len(set(pairs)) == len(pairs) == budget
        assert all(
            0 <= first < items and 0 <= second < items and first != second
            for first, second in pairs
        )


def test_no_repeat_never_asks_the_other_order():
    pairs = rows(select_pairs(9, 36, "no-repeat", seed=4))
    assert not {(second, first) for first, second in pairs} & set(pairs)


@pytest.mark.parametrize("budget", [2, 7, 40, 71, 72])
def test_symmetric_asks_both_orders_but_for_one_pair_of_an_odd_budget(budget):
    pairs = rows(select_pairs(9, budget, "symmetric", seed=4))
    single = [pair for pair in pairs if pair[::-1] not in pairs]
    assert len(single) == budget % 2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_pair_is_as_likely_as_every_other(scheme):
    counts = np.zeros((5, 5))
    for seed in range(2000):
        for first, second in rows(select_pairs(5, 4, scheme, seed)):
            counts[first, second] += 1
    # 2000 draws of 4 out of 20 ordered pairs: 400 of each, standard deviation at most sqrt(2000) / 2 = 22
    assert np.abs(counts[~np.eye(5, dtype=bool)] - 400).max() < 5 * 22


def test_a_seed_repeats_and_another_seed_differs():
    one, same, other = (select_pairs(12, 30, "random", seed) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_many_items_take_no_memory_of_their_square():
    pairs = select_pairs(100_000, 1000, "symmetric", seed=0)
    assert pairs.shape == (1000, 2)


def test_a_budget_larger_than_the_pairs_is_refused():
    with pytest.raises(
        UsageError, match="a budget of 21 comparisons: 5 items have 20 pairs under 'random'"
    ):
        select_pairs(5, 21, "random", 0)
    with pytest.raises(
        UsageError, match="5 items have 10 pairs under 'no-repeat'; choose between 1 and 10"
    ):
        select_pairs(5, 11, "no-repeat", 0)
    with pytest.raises(UsageError, match="a budget of 0 comparisons"):
        select_pairs(5, 0, "random", 0)


def test_one_item_cannot_be_compared():
    with pytest.raises(
        UsageError,
        match="a comparison needs two items, found 1; give a context at least two outputs",
    ):
        all_pairs(1)


def test_an_unknown_scheme_gets_the_near_name():
    with pytest.raises(
        UnknownNameError, match="unknown selection of pairs 'simetric'; did you mean 'symmetric'"
    ):
        select_pairs(5, 3, "simetric", 0)
