"""How judges are in step, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from refladder.comparison.jury_statistics import combined, in_step, least_in_step, spreads

NONE = math.nan
# The jury's means are 5/3, 2, 11/3 and 14/3, with mean 3 and standard deviation sqrt(1.5).
GRADES = np.array([[1.0, 2, 3, 4], [2, 3, 4, 7], [2, 1, 4, 3]])
CONTEXTS = ["x", "x", "y", "y"]


def test_a_judge_beside_the_others():
    first, second, third = in_step(GRADES, CONTEXTS)
    assert first.mean == 2.5
    assert first.shift == pytest.approx(-0.5 / math.sqrt(1.5))
    # The others' means are 2, 2, 4 and 5: ranks 1.5, 1.5, 3, 4 to 1, 2, 3, 4, so 4.5 / sqrt(5 * 4.5).
    assert first.pooled == pytest.approx(4.5 / math.sqrt(22.5))
    # In x the others' means are equal, so only y counts.
    assert first.within == 1
    # The cut-offs are 11/6, 17/6 and 25/6; without the first judge, one text in four passes another way at the first one.
    assert first.changed == pytest.approx(1 / 12)
    # Ranks 1, 2, 3, 4 to 1.5, 1.5, 3.5, 3.5; and 2, 1, 4, 3 to 1, 2, 3, 4: 1 - 6 * 4 / 60.
    assert second.pooled == pytest.approx(4 / math.sqrt(20))
    assert third.pooled == pytest.approx(0.6)
    assert third.within == -1
    assert least_in_step([[first.pooled], [second.pooled], [third.pooled]]) == 2


def test_only_texts_that_all_graded_count_and_what_is_undefined_is_none():
    more = np.hstack([GRADES, [[9.0], [NONE], [1.0]]])
    assert in_step(more, [*CONTEXTS, "y"]) == in_step(GRADES, CONTEXTS)
    assert in_step(np.array([[NONE, 1.0], [1.0, NONE]]), ["x", "x"])[0] == (None,) * 5
    level = in_step(np.full((2, 3), 2.0), ["", "", ""])[1]
    assert level == (2.0, None, None, None, None)
    assert in_step(GRADES, [""] * 4)[0].within is None


def test_means_medians_and_spreads_of_the_judges_there_are():
    grades = np.array([[1.0, NONE, NONE], [2.0, 4.0, NONE], [6.0, NONE, NONE]])
    assert combined(grades).tolist()[:2] == [3, 4]
    assert combined(grades, median=True).tolist()[:2] == [2, 4]
    # 1, 2 and 6: squares of the differences from 3 are 4, 1 and 9.
    assert spreads(grades).tolist()[0] == pytest.approx(math.sqrt(14 / 2))
    assert np.isnan([combined(grades)[2], *spreads(grades)[1:]]).all()


def test_nobody_is_named_of_two_where_two_are_equal_or_an_order_is_unknown():
    assert least_in_step([[0.1], [0.9]]) is None
    assert least_in_step([[0.1], [0.1], [0.9]]) is None
    assert least_in_step([[0.1], [None], [0.9]]) is None
    assert least_in_step([[0.5, 0.5], [0.1, 0.8], [0.9, 0.9]]) == 1
