"""What length and signs tell of the levels of a ladder."""

from __future__ import annotations

import numpy as np
import pytest

from refladder.statistics.surface import length_deviation, surface_accuracy, surface_counts


def test_counts_by_hand():
    # Words: May, I, pay, 12, now, No, 5, pay, may: 9 with 21 letters and digits; 7 different, as May and pay
    # come twice. Sentences end after now, 5 and may.
    text = 'May I pay 12, now? "No": 5! pay; may.'
    found = surface_counts(text)
    assert found[:7] == [9, 1, 1, 3, 2, 1, 3]
    assert found[7:9] == pytest.approx([21 / 9, 7 / 9])
    assert found[9:] == [2, 2, 3]
    assert surface_counts("") == [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]


def test_a_sign_that_rises_with_the_level_orders_all_and_noise_orders_half():
    levels = np.arange(5.0)
    rising = np.tile(levels, (6, 1))[:, :, None]
    assert surface_accuracy(rising) == 1
    # Each ladder rises in a way of its own: what the others teach is wrong for it.
    assert surface_accuracy(np.stack([levels, levels[::-1]])[:, :, None]) == 0
    noise = np.random.default_rng(0).normal(size=(200, 5, 12))
    assert surface_accuracy(noise) == pytest.approx(0.5, abs=0.06)
    assert surface_accuracy(np.zeros((3, 5, 2))) == 0


def test_the_level_farthest_from_the_mean_length():
    # Means of the levels: 15, 30, 45; of all: 30.
    assert length_deviation(np.array([[10.0, 30.0, 40.0], [20.0, 30.0, 50.0]])) == pytest.approx(
        0.5
    )
