"""Choices of pairs: how many, which, and as likely as each other."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

from refladder.errors import UnknownNameError, UsageError
from refladder.statistics import SCHEMES
from refladder.statistics.selection import all_pairs, most_pairs, select_pairs


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
        assert set(pairs) <= set(rows(all_pairs(items)))
        swapped = {pair for pair in pairs if pair[::-1] in pairs}
        if scheme == "no-repeat":
            assert not swapped
        if scheme == "symmetric":
            # both orders, but for one pair of an odd budget
            assert len(swapped) == budget - budget % 2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_pair_is_as_likely_as_every_other(scheme):
    counts = np.zeros((5, 5))
    for seed in range(2000):
        np.add.at(counts, tuple(select_pairs(5, 4, scheme, seed).T), 1)
    # 2000 draws of 4 out of 20 ordered pairs: 400 of each, standard deviation at most sqrt(2000) / 2 = 22
    assert np.abs(counts[~np.eye(5, dtype=bool)] - 400).max() < 5 * 22


def test_a_seed_repeats_and_another_seed_differs():
    first, same, other = (rows(select_pairs(12, 30, "random", seed)) for seed in (1, 1, 2))
    assert first == same != other


def test_many_items_take_no_memory_of_their_square():
    assert select_pairs(100_000, 1000, "symmetric", seed=0).shape == (1000, 2)


def test_what_cannot_be_chosen():
    message = "a budget of 21 comparisons: 5 items have 20 pairs under 'random'"
    refuses(UsageError, message, select_pairs, 5, 21, "random", 0)
    message = "5 items have 10 pairs under 'no-repeat'; choose between 1 and 10"
    refuses(UsageError, message, select_pairs, 5, 11, "no-repeat", 0)
    refuses(UsageError, "a budget of 0 comparisons", select_pairs, 5, 0, "random", 0)
    message = "a comparison needs two items, found 1; give a context at least two outputs"
    refuses(UsageError, message, select_pairs, 1, 1, "random", 0)
    message = "unknown selection of pairs 'simetric'; did you mean 'symmetric'"
    refuses(UnknownNameError, message, select_pairs, 5, 3, "simetric", 0)
