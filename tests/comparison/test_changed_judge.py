"""Whether a judge's scale or order has moved, by hand and by readings that are made."""

from __future__ import annotations

import math

import numpy as np
import pytest

from refladder.comparison.changed_judge import Reading, change_of

NONE = np.empty(0)
# Twelve ladders whose rungs do not meet: each level of an anchor is .01 above that of the one before.
RUNGS = np.array([1.2, 2.1, 3.0, 3.9, 4.6]) + np.arange(12)[:, None] / 100


def found(now, again=RUNGS, before=RUNGS, texts=(NONE, NONE, NONE), contexts=(), **settings):
    readings = zip((before, again, now), texts, strict=True)
    return change_of("tone", *(Reading(*each) for each in readings), contexts, **settings)


def test_the_same_judge_a_moved_scale_and_a_moved_order():
    same = found(RUNGS)
    assert (same.verdict, same.shift, same.shift_low, same.shift_high) == ("same", 0, 0, 0)
    assert (same.rating.changed, same.place.excess, same.place.least) == (0, 0, 0)
    # All ratings move by .2, and no place does.
    moved = found(RUNGS + 0.2)
    assert moved.verdict == "scale"
    assert moved.shift == pytest.approx(0.2)
    assert (moved.place.changed, moved.wrong_now) == (0, 0)
    assert moved.rating.excess > 0.03
    # The rungs of each ladder are turned round: the ratings are the same ones.
    turned = found(RUNGS[:, ::-1])
    assert (turned.verdict, turned.shift) == ("order", pytest.approx(0))
    # Ten pairs of rungs in each of twelve ladders.
    assert (turned.pairs, turned.wrong_before, turned.wrong_now) == (120, 0, 120)


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.11, "scale"), (-0.11, "scale"), (0.09, "same"), (-0.09, "same")]
)
def test_a_scale_has_moved_up_or_down_by_more_than_a_tenth_of_a_point(shift, verdict):
    """No share of decisions is above 1, so that the shift alone decides."""
    assert found(RUNGS + shift, at_most=1).verdict == verdict


def test_shares_are_means_over_anchors_at_cut_offs_of_the_first_reading_less_its_noise():
    before = np.array([[1.0, 2.0], [3.0, 4.0]])
    # The cut-offs are 1.5, 2.5 and 3.5. At 1.4, 2.6 in place of 1, 2 one decision of six changes: 2.6 passes at 2.5.
    now = np.array([[1.4, 2.6], [3.0, 4.0]])
    again = np.array([[1.0, 2.0], [3.0, 3.4]])
    change = found(now, again, before)
    assert change.rating.changed == pytest.approx((1 / 6 + 0) / 2)
    assert change.rating.noise == pytest.approx((0 + 1 / 6) / 2)
    assert change.rating.excess == pytest.approx(0)
    # The differences of the anchors are .5 and 0: mean .25, standard error .25, and t(1) at .975 is 12.706.
    assert change.shift == pytest.approx(0.25)
    assert change.shift_high == pytest.approx(0.25 + 12.7062 * 0.25, rel=1e-5)
    assert (change.rating.least, change.verdict) == (None, "unknown")
    # Differences of the plain decisions by anchor are 1/6 and -1/6, and only six anchors or more have a bound.


def test_the_bound_of_the_excess_is_one_sided():
    now = RUNGS.copy()
    now[:6] = now[:6, ::-1]
    excess = found(now).place
    assert (excess.excess, excess.noise) == (excess.changed, 0)
    assert 0.03 < excess.least < excess.excess
    # Six anchors change by x and six by 0: mean x / 2, standard error x / 2 / sqrt(11), and t(11) at .95 is 1.79588.
    assert excess.least == pytest.approx(excess.excess * (1 - 1.79588 / math.sqrt(11)), rel=1e-5)
    assert found(now, at_most=1).verdict == "same"
    noisy = found(now, again=now)
    assert (noisy.place.excess, noisy.rating.least) == (0, 0)
    assert noisy.verdict == "same"


def test_unknown_where_something_is_missing_or_too_wide():
    unparsed = RUNGS.copy()
    unparsed[0, 0] = math.nan
    change = found(unparsed)
    assert (change.verdict, change.unparsed, change.shift, change.place.changed) == (
        *("unknown", 1),
        *(None, None),
    )
    five = found(RUNGS[:5] + 1, RUNGS[:5], RUNGS[:5])
    assert (five.verdict, five.anchors, five.shift) == ("unknown", 5, pytest.approx(1))
    equal = np.full((12, 5), 3.0)
    assert found(equal, equal, equal).verdict == "unknown"
    # Half of the ladders move up by .5, half down: the shift's interval is wider than .3.
    apart = RUNGS + np.where(np.arange(12) % 2, 0.5, -0.5)[:, None]
    assert found(apart, at_most=1).verdict == "unknown"
    one = found(RUNGS[:1], RUNGS[:1], RUNGS[:1])
    assert (one.verdict, one.place.changed, one.shift_low) == ("unknown", None, None)


def test_an_order_that_moved_among_texts_counts_though_rungs_stay():
    texts = np.linspace(2.0, 4.0, 24)
    contexts = [f"c{number // 2}" for number in range(24)]
    again = found(RUNGS, texts=(texts, texts, texts), contexts=contexts)
    assert (again.verdict, again.text_place.least) == ("same", 0)
    turned = found(RUNGS, texts=(texts, texts, texts[::-1]), contexts=contexts)
    assert (turned.verdict, turned.place.changed) == ("order", 0)
    few = found(RUNGS, texts=(texts, texts, texts), contexts=["one"] * 24)
    assert (few.verdict, few.text_place.least) == ("unknown", None)
