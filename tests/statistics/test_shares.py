"""Intervals of shares beside scipy's and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refladder.errors import ShapeError
from refladder.statistics.shares import share_intervals


def interval(points, counts):
    return share_intervals(np.array(points, dtype=float), np.array(counts, dtype=float)).tolist()


def wilson(wins, trials):
    """The interval of Wilson with continuity correction."""
    found = stats.binomtest(wins, trials).proportion_ci(method="wilsoncc")
    return pytest.approx([found.low, found.high], abs=1e-9)


@pytest.mark.parametrize(
    ("wins", "trials"), [(2, 2), (0, 2), (3, 5), (14, 14), (29, 30), (40, 100)]
)
def test_a_trial_a_context_gives_the_wilson_interval(wins, trials):
    points = [1] * wins + [0] * (trials - wins)
    assert interval(points, [1] * trials) == wilson(wins, trials)


def test_equal_trials_of_a_context_count_as_one_and_ties_as_trials():
    assert interval([9] * 20, [9] * 20) == wilson(20, 20)
    assert interval([1] * 20, [2] * 20) == wilson(20, 40)


def test_the_effective_number_is_that_of_the_spread_between_contexts():
    # p = .5, residuals +-2 of 10: v = 6 * 4 / (1 - 1/6) / 60^2 = .008, so p (1 - p) / v = 31.25; the kurtosis of equal
    # residuals is 1, hence 5 degrees of freedom; the Wilson interval with continuity correction at p = 1/2 is
    # 1/2 +- (z sqrt(z^2 - 1/n + n) + 1) / (2 (n + z^2)).
    z, t = stats.norm.ppf(0.975), stats.t.ppf(0.975, 5)
    trials = 31.25 * (z / t) ** 2
    half = (z * np.sqrt(z**2 - 1 / trials + trials) + 1) / (2 * (trials + z**2))
    assert interval([3, 7] * 3, [10] * 6) == pytest.approx([0.5 - half, 0.5 + half], abs=1e-5)


def test_few_contexts_that_make_most_of_the_spread_lower_the_degrees_of_freedom():
    # Residuals of 29 contexts are -.1 of 3 and of one 2.9; every context has leverage 1/30, which leaves the kurtosis
    # as it is: 30 (29 * .1^4 + 2.9^4) / (29 * .1^2 + 2.9^2)^2 = 28.034; 2 * 30 / 27.034 - 1 = 1.2194.
    z, t = stats.norm.ppf(0.975), stats.t.ppf(0.975, 60 / 27.0344828 - 1)
    share = 1 / 30
    spread = (29 * 0.1**2 + 2.9**2) * 30 / 29
    effective = max(share * (1 - share) * 90**2 / spread * (z / t) ** 2, 30)
    assert effective == 30
    assert interval([3, *[0] * 29], [3] * 30) == wilson(1, 30)


def test_the_degrees_of_freedom_follow_the_kurtosis():
    # Squared residuals of 20 contexts of 10 trials: 18 are 1 and two are 16, so 20 (18 + 2 * 16^2) / 50^2 = 4.24, and
    # 2 * 20 / 3.24 - 1 = 11.345679. p (1 - p) / v = .25 * 200^2 / (50 * 20 / 19) = 190.
    z, t = stats.norm.ppf(0.975), stats.t.ppf(0.975, 11.345679)
    trials = 190 * (z / t) ** 2
    half = (z * np.sqrt(z**2 - 1 / trials + trials) + 1) / (2 * (trials + z**2))
    points = [*[4, 6] * 9, 1, 9]
    assert interval(points, [10] * 20) == pytest.approx([0.5 - half, 0.5 + half], abs=1e-7)


def test_fewer_than_two_contexts_with_trials_have_no_interval():
    points = np.array([[3.0, 0.0], [0.0, 0.0], [3.0, 1.0]])
    counts = np.array([[4.0, 0.0], [0.0, 0.0], [4.0, 1.0]])
    found = share_intervals(points, counts)
    assert np.isnan(found).tolist() == [[True, True], [True, True], [False, False]]


def test_shapes_that_differ():
    message = r"points and counts of contexts must have the same shape; got \(2,\) and \(1,\)"
    with pytest.raises(ShapeError, match=message):
        share_intervals(np.zeros(2), np.ones(1))


def test_the_interval_turns_with_the_share():
    points, counts = np.array([3.0, 0.5, 2.0, 6.0]), np.array([3.0, 4.0, 5.0, 6.0])
    low, high = interval(points, counts)
    assert interval(counts - points, counts) == pytest.approx([1 - high, 1 - low])
    assert 0 < low < points.sum() / counts.sum() < high < 1
