from __future__ import annotations

import itertools
import math

import choix
import numpy as np
import pytest
from scipy.optimize import approx_fprime

from refladder.errors import ShapeError, UsageError
from refladder.statistics import davidson as model
from refladder.statistics.davidson import PRIOR, davidson


def naive_likelihood(wins, ties, strengths, nu):
    """The log-likelihood of Davidson 1970, pair by pair."""
    total = 0.0
    for i, j in itertools.combinations(range(len(wins)), 2):
        if wins[i, j] + wins[j, i] + ties[i, j] == 0:
            continue
        a, b = math.exp(strengths[i] / 2), math.exp(strengths[j] / 2)
        whole = a / b + b / a + nu
        total += (wins[i, j] + PRIOR / 3) * math.log(a / b / whole)
        total += (wins[j, i] + PRIOR / 3) * math.log(b / a / whole)
        total += (ties[i, j] + PRIOR / 3) * math.log(nu / whole)
    return total


def drawn(seed, items=5):
    random = np.random.default_rng(seed)
    ties = np.triu(random.integers(0, 6, (items, items)), 1).astype(float)
    return random.integers(0, 9, (items, items)).astype(float) * (1 - np.eye(items)), ties + ties.T


@pytest.mark.parametrize("seed", range(5))
def test_no_direction_has_a_higher_likelihood(seed):
    wins, ties = drawn(seed)
    fit = davidson(wins, ties)
    point = [*fit.strengths, math.log(fit.ties)]

    def likelihood(values):
        return naive_likelihood(wins, ties, values[:-1], math.exp(values[-1]))

    slope = approx_fprime(point, likelihood, 1e-6)
    assert slope == pytest.approx(np.zeros(6), abs=2e-3)
    assert fit.strengths.mean() == pytest.approx(0, abs=1e-12)


def test_without_ties_it_is_bradley_terry_of_choix(monkeypatch):
    monkeypatch.setattr(model, "PRIOR", 1e-7)
    wins, _ = drawn(3)
    data = [(i, j) for i in range(5) for j in range(5) for _ in range(int(wins[i, j]))]
    expected = choix.ilsr_pairwise(5, data)
    assert davidson(wins, np.zeros((5, 5))).strengths == pytest.approx(expected, abs=1e-4)


def test_two_items_by_hand(monkeypatch):
    monkeypatch.setattr(model, "PRIOR", 1e-12)
    # 6 wins, 2 losses, 4 ties: shares fit exactly, so e^(s1 - s0) = 6 / 2 and nu = 4 / sqrt(6 * 2)
    fit = davidson(np.array([[0, 2.0], [6, 0]]), np.array([[0, 4.0], [4, 0]]))
    assert fit.strengths == pytest.approx([-math.log(3) / 2, math.log(3) / 2], abs=1e-6)
    assert fit.ties == pytest.approx(4 / math.sqrt(12), abs=1e-6)


def test_an_item_that_always_wins_has_a_finite_strength():
    fit = davidson(np.array([[0, 0, 0], [50, 0, 0], [50, 50, 0.0]]), np.zeros((3, 3)))
    assert np.isfinite(fit.strengths).all()
    assert (np.diff(fit.strengths) > 2).all()


def test_wrong_input_is_refused():
    square = np.zeros((2, 2))
    with pytest.raises(ShapeError, match=r"square and of one shape, found \(2, 3\)"):
        davidson(np.zeros((2, 3)), square)
    with pytest.raises(UsageError, match="finite numbers, 0 or more"):
        davidson(square - 1, square)
    with pytest.raises(UsageError, match="judge at least one pair"):
        davidson(square, square)


def test_items_that_no_comparison_connects_have_no_strengths():
    wins = np.zeros((3, 3))
    wins[1, 0] = 4
    with pytest.raises(UsageError, match="2 unconnected components"):
        davidson(wins, np.zeros((3, 3)))
