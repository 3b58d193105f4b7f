"""The best of several measures, chosen for each context on all others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from refladder.statistics.leave_one_out import choose_on_other_contexts, standardise


def by_loops(measures, human):
    """Choose by plain loops over contexts and scipy's correlation; a constant measure counts 0."""
    chosen = []
    for left_out in range(len(human)):
        means = []
        for measure in measures:
            values = [
                0.0 if len(set(measure[c])) == 1 else spearmanr(measure[c], human[c]).statistic
                for c in range(len(human))
                if c != left_out and len(set(human[c])) > 1
            ]
            means.append(np.mean(values))
        chosen.append(int(np.argmax(means)))
    return chosen


def test_the_choice_is_that_of_loops_over_contexts():
    random = np.random.default_rng(3)
    for _ in range(8):
        human = random.integers(1, 4, (7, 5)).astype(float)
        human[2] = 2.0  # constant ratings
        measures = random.integers(0, 4, (4, 7, 5)).astype(float) + 0.2 * human
        measures[1, 3] = 1.0  # a constant measure
        assert choose_on_other_contexts(measures, human).tolist() == by_loops(measures, human)


RIGHT, WRONG = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("measures", "human", "expected"),
    [
        # Measure 0 is right in contexts 0 to 2, measure 1 in context 3 alone: nowhere is measure 1 the best of others.
        ([[RIGHT] * 3 + [WRONG], [WRONG] * 3 + [RIGHT]], [RIGHT] * 4, [0] * 4),
        # contexts of one output: over all other outputs
        (
            [[[4.0], [3.0], [2.0], [1.0]], [[10.0], [20.0], [30.0], [40.0]]],
            [[1], [2], [3], [4]],
            [1] * 4,
        ),
        # without other contexts the first
        ([[WRONG], [RIGHT]], [RIGHT], [0]),
        ([[WRONG], [RIGHT]], [[np.nan] * 3], [0]),
        # not all outputs have ratings
        (
            [[[1.0] * 3] * 3, [[1, 2, 9], [2, 1, 9], [9, 1, 2]]],
            [[1, 2, np.nan], [2, 1, np.nan], [np.nan, 1, 2]],
            [1] * 3,
        ),
    ],
)
def test_choices_by_hand(measures, human, expected):
    measures, human = np.array(measures, dtype=float), np.array(human, dtype=float)
    assert choose_on_other_contexts(measures, human).tolist() == expected


def test_one_scale():
    # mean 2, deviation sqrt(2/3); a constant measure says nothing and is 0; NaN stays out
    values = np.array([[[1.0, 2.0], [3.0, np.nan]], [[5.0, 5.0], [5.0, np.nan]]])
    step = 1 / np.sqrt(2 / 3)
    expected = np.array([[[-step, 0.0], [step, np.nan]], [[0.0, 0.0], [0.0, np.nan]]])
    np.testing.assert_allclose(standardise(values), expected)
