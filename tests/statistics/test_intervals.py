"""Intervals over contexts: quantiles and ends against scipy, and what has no interval."""

import numpy as np
import pytest
from scipy import stats

from refladder.statistics import intervals
from refladder.statistics.bootstrap import resample
from refladder.statistics.correlation import correlate_rows
from refladder.statistics.intervals import jackknife_interval, leave_out

NAN = float("nan")


def test_each_row_of_weights_leaves_a_group_of_contexts_out(monkeypatch):
    np.testing.assert_array_equal(leave_out(3), [[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    assert leave_out(0).shape == (0, 0)
    monkeypatch.setattr(intervals, "_MOST_GROUPS", 2)
    np.testing.assert_array_equal(leave_out(5), [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]])


def test_the_interval_of_a_mean_is_the_t_interval_on_the_scale_of_fisher():
    rows = np.array([0.1, 0.7, 0.4, -0.2, 0.9, 0.5, 0.3])
    left_out = (rows.sum() - rows) / 6
    # scipy: standard error of the mean and Student's t with 6 degrees, put on the scale of atanh by its derivative.
    distance = stats.t.ppf(0.975, 6) * stats.sem(rows) / (1 - rows.mean() ** 2)
    expected = np.tanh(np.arctanh(rows.mean()) + distance * np.array([-1, 1]))
    assert jackknife_interval(rows.mean(), left_out, 7) == pytest.approx(tuple(expected), abs=1e-12)


def test_contexts_without_a_correlation_do_not_narrow_the_interval():
    def left_out(rows):
        return np.array([np.nanmean(np.delete(rows, position)) for position in range(len(rows))])

    rows = np.array([0.1, NAN, 0.7, 0.4, NAN, -0.2, NAN])
    used = rows[~np.isnan(rows)]
    expected = jackknife_interval(used.mean(), left_out(used), 4)
    found = jackknife_interval(used.mean(), left_out(rows), 4)
    assert found == pytest.approx(expected, abs=1e-12)


def test_no_interval_without_spread_or_with_a_gap():
    def none(value, *left_out):
        return np.isnan(jackknife_interval(value, np.array(left_out), len(left_out))).all()

    # Every context agrees perfectly: no spread was seen, and an interval of no width would promise certainty.
    assert none(1.0, *[1.0] * 20)
    assert none(0.3, *[0.3] * 20)
    assert none(0.4, 0.3, NAN, 0.5)
    assert none(NAN, NAN, NAN)
    assert none(0.4, NAN)


def test_leaving_a_context_out_is_exact():
    generator = np.random.default_rng(3)
    predicted, human = generator.normal(size=(7, 4)), generator.integers(1, 4, (7, 4)) / 1.0
    values = resample(predicted, human, leave_out(7), level="within_context")
    rows = correlate_rows(predicted, human)
    expected = [np.nanmean(np.delete(rows, position)) for position in range(7)]
    np.testing.assert_allclose(values, expected, atol=1e-12)
