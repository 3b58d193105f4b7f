"""The criteria of a contest: the ends of their scales, and their weights."""

from __future__ import annotations

import pytest

from refladder.contest.criteria import criteria_of
from refladder.errors import UnknownNameError, UsageError

USE = {"use": "Is it useful?"}


def test_both_ends_of_a_scale_may_be_negative():
    (found,) = criteria_of(USE, {"use": "-2: wrong question"}, {"use": "-0.5: fine"}, {})
    assert (found.low, found.worst) == (-2, "wrong question")
    assert (found.high, found.best) == (-0.5, "fine")
    assert found.description == "Is it useful?\nWorst (-2): wrong question\nBest (-0.5): fine"


def test_an_end_without_a_number_is_1_or_5():
    (found,) = criteria_of(USE, {}, {"use": "10/10: perfect"}, {"use": 3})
    assert (found.low, found.high, found.best, found.weight) == (1, 5, "10/10: perfect", 3)


@pytest.mark.parametrize(
    ("worst", "best", "weight", "message"),
    [
        ("5: a", "1: b", 1, "'use': its scale goes from 5 to 1; the best end must be higher"),
        ("3: a", "3: b", 1, "its scale goes from 3 to 3"),
        ("", "", -1.0, "weight use=-1: a weight must be a finite number, 0 or more"),
        ("", "", float("nan"), "weight use=nan: a weight must be a finite number"),
        ("", "", 0.0, "all weights are 0; at least one criterion must count"),
    ],
)
def test_scales_and_weights_that_make_no_sense(worst, best, weight, message):
    with pytest.raises(UsageError, match=message):
        criteria_of(USE, {"use": worst}, {"use": best}, {"use": weight})


def test_an_end_of_an_unknown_criterion_gets_the_near_one():
    with pytest.raises(UnknownNameError, match="unknown criterion 'usage'; did you mean 'use'"):
        criteria_of(USE, {"usage": "bad"}, {}, {})
