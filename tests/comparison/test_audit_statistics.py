from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from refladder.comparison.audit_statistics import longer_wins, mean_over_contexts


def test_the_interval_is_that_of_scipy():
    values = np.random.default_rng(1).normal(size=9)
    found = mean_over_contexts(values, [f"c{number}" for number in range(9)])
    low, high = stats.t.interval(0.95, 8, loc=values.mean(), scale=stats.sem(values))
    assert found == pytest.approx((values.mean(), low, high, 9))


def test_values_of_a_context_count_once():
    # Means 2 and 5, so 3.5; s = 3 / sqrt(2), s / sqrt(2) = 1.5, t(1) = 12.706
    found = mean_over_contexts(np.array([1.0, 3.0, 5.0, math.nan]), ["a", "a", "b", "c"])
    assert found == pytest.approx((3.5, 3.5 - 12.7062 * 1.5, 3.5 + 12.7062 * 1.5, 2), rel=1e-4)


def test_no_width_is_no_interval():
    assert mean_over_contexts(np.array([0.5, 0.5]), ["a", "b"]) == (0.5, None, None, 2)
    assert mean_over_contexts(np.array([0.5]), ["a"]) == (0.5, None, None, 1)
    assert mean_over_contexts(np.array([math.nan]), ["a"]) == (None, None, None, 0)


def test_longer_wins_by_hand():
    # (0,1): .9, the higher wins and is longer. (0,2): .2, the lower wins; the higher is longer. (1,2): equal lengths.
    w = np.full((3, 3), np.nan)
    w[0, 1], w[0, 2], w[1, 2] = 0.9, 0.2, 0.7
    assert longer_wins(w, np.array([3, 5, 5])) == (1, 2, 2)
    w[0, 1] = 0.5  # no preference
    assert longer_wins(w, np.array([3, 5, 5])) == (0, 1, 1)
    # The lower rung is longer and wins.
    assert longer_wins(w, np.array([9, 5, 5])) == (1, 0, 1)
