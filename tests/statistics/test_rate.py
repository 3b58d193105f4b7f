from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from refladder.statistics.rate import cross_fitted, prediction_powered, wilson


@pytest.mark.parametrize(("good", "labels"), [(0, 7), (7, 7), (18, 30), (1, 200)])
def test_wilson(good, labels):
    exact = binomtest(good, labels).proportion_ci(0.95, method="wilson")
    assert wilson(good, labels) == pytest.approx((good / labels, exact.low, exact.high), abs=1e-12)


def test_prediction_powered():
    number, others = np.arange(40), np.arange(400)
    predicted, everywhere = number * 7 % 40 / 40, others * 7 % 400 / 400
    good = number * 11 % 40 / 40 + predicted > 1
    value, residuals = prediction_powered(good, predicted, everywhere, number, 40 + others)
    # ppi-python 0.2.3: ppi_mean_pointestimate(y, f, g) = 0.48154292 and ppi_mean_ci(y, f, g, alpha=.05) =
    # (0.336782, 0.62630384), with a normal quantile.
    assert value == pytest.approx(0.48154292, abs=2e-3)
    assert 1.959964 * np.sqrt(np.sum(residuals**2)) / 40 == pytest.approx(
        (0.62630384 - 0.336782) / 2, rel=0.02
    )


def test_the_residuals_of_a_context_are_those_of_its_rows():
    random = np.random.default_rng(0)
    good, predicted, everywhere = random.random(12) < 0.5, random.random(12), random.random(30)
    by_row = prediction_powered(good, predicted, everywhere, np.arange(12), 12 + np.arange(30))[1]
    units, others = np.arange(12) // 3, np.arange(30) % 6
    by_unit = prediction_powered(good, predicted, everywhere, units, others)[1]
    assert by_unit == pytest.approx(
        np.bincount(units, by_row[:12], 6) + np.bincount(others, by_row[12:], 6)
    )


def test_predictions_that_say_nothing_leave_the_labels_alone():
    good, units = np.array([True, False, True, True]), np.arange(4)
    value, residuals = prediction_powered(
        good, np.full(4, 0.3), np.full(50, 0.3), units, 4 + np.arange(50)
    )
    assert value == 0.75
    assert residuals.tolist() == [0.25, -0.75, 0.25, 0.25, *[0.0] * 50]


def test_a_prediction_is_made_without_the_labels_of_its_context():
    generator = np.random.default_rng(0)
    scores, contexts = generator.normal(size=60), np.repeat(np.arange(20), 3)
    good = generator.random(60) < 0.5
    before, _ = cross_fitted(good, scores, contexts, scores)
    changed = np.where(contexts == 4, ~good, good)  # the labels of one context
    after, _ = cross_fitted(changed, scores, contexts, scores)
    assert np.array_equal(before[contexts == 4], after[contexts == 4])
    assert not np.array_equal(before, after)
