"""Laplacian equations and components of comparisons, by hand and beside numpy's least squares."""

import numpy as np
import pytest

from refladder.errors import NotConvergedError
from refladder.statistics.graph import components, never_beaten, solve_laplacian
from refladder.statistics.selection import select_pairs


def path(items):
    """The pairs of a chain: 0-1, 1-2, ..."""
    return np.stack([np.arange(items - 1), np.arange(1, items)], axis=1)


def test_a_chain_by_hand():
    # Weights 1 and 2: x0 - x1 = 1 and 2 (x1 - x2) = 1, so x = 1.5, 0.5, 0 less their mean 2/3.
    x = solve_laplacian(3, path(3), np.array([1.0, 2.0]), np.array([1.0, 0.0, -1.0]))
    assert x == pytest.approx(np.array([1.5, 0.5, 0.0]) - 2 / 3)


@pytest.mark.parametrize("items", [2, 12, 256, 257, 400])  # up to 256 items the solver is dense
def test_solutions_are_those_of_least_squares(items):
    random = np.random.default_rng(items)
    chosen = select_pairs(items, min(items * 4, items * (items - 1)), "random", items)
    pairs = np.concatenate([path(items), chosen])
    weights = random.uniform(0.1, 1, len(pairs))
    rows = np.eye(items)[pairs[:, 0]] - np.eye(items)[pairs[:, 1]]
    laplacian = rows.T @ (weights[:, None] * rows)
    right = laplacian @ random.normal(size=items)
    expected = np.linalg.lstsq(laplacian, right, rcond=None)[0]
    solution = solve_laplacian(items, pairs, weights, right)
    assert solution == pytest.approx(expected - expected.mean(), abs=1e-7)
    assert solution.mean() == pytest.approx(0, abs=1e-12)


def test_a_tolerance_that_floats_cannot_reach_is_an_error():
    weights, right = np.linspace(1e-9, 1, 299), np.linspace(-1, 1, 300)
    message = "did not converge in 3000 steps on 300 items; ask more pairs"
    with pytest.raises(NotConvergedError, match=message):
        solve_laplacian(300, path(300), weights, right, tolerance=1e-40)


def test_components_are_named_by_their_smallest_item():
    assert components(6, np.array([[4, 2], [5, 1], [1, 3]])).tolist() == [0, 1, 2, 1, 2, 1]
    assert components(3, np.empty((0, 2), dtype=np.int64)).tolist() == [0, 1, 2]


def test_items_that_no_other_item_beat():
    # each beats the next in turn
    assert never_beaten(3, np.array([0, 1, 2]), np.array([1, 2, 0])) is None
    assert never_beaten(3, np.array([1, 2, 1]), np.array([2, 1, 0])).tolist() == [1, 2]
    assert never_beaten(3, np.array([0, 1, 2]), np.array([1, 2, 1])).tolist() == [0]
