"""Cut-offs that decide something, and shares of decisions that change."""

import numpy as np
import pytest

from refladder.comparison.decisions import best_cutoff, changed_share, deciding_cutoffs


def test_cut_offs_of_whole_ratings_by_hand():
    # 68 of 100 are 1: the deciles 1 to 6 are at 1, where all pass. The deciles .7 and .8 are 2, the decile .9 is 3:
    # halfway to the value before, 1.5 and 2.5.
    target = np.array([1.0] * 68 + [2.0] * 20 + [3.0] * 12)
    assert deciding_cutoffs(target).tolist() == [1.5, 2.5]
    # Of ten different numbers, the linear decile k lies between the ranks .9 k: so at 2, 3, ... 10, halfway below.
    assert deciding_cutoffs(np.arange(1.0, 11.0)).tolist() == [1.5 + step for step in range(9)]
    # Of eleven, the deciles are the numbers 2 to 10 themselves.
    assert deciding_cutoffs(np.arange(11.0, 0.0, -1.0)).tolist() == [
        1.5 + step for step in range(9)
    ]
    assert deciding_cutoffs(np.ones(5)).tolist() == []


@pytest.mark.parametrize("texts", [2, 3, 31, 57])
def test_every_cut_off_passes_some_and_not_all(texts):
    """numpy's linear quantile says the decile; the least number at or above it and that before it are searched for."""
    random = np.random.default_rng(texts)
    target = random.choice(random.normal(size=texts // 2 + 1), texts)
    cuts = deciding_cutoffs(target)
    expected = set()
    for decile in np.quantile(target, np.arange(1, 10) / 10):
        at = min((value for value in target if value >= decile - 1e-12), default=None)
        before = [value for value in target if value < at]
        if before:
            expected.add((at + max(before)) / 2)
    assert cuts == pytest.approx(sorted(expected))
    assert all(0 < np.mean(target >= cut) < 1 for cut in cuts)


def test_neighbouring_numbers_have_no_middle():
    above = np.nextafter(1.0, 2.0)
    assert deciding_cutoffs(np.array([1.0, above])).tolist() == [above]


def test_the_share_that_changes_by_hand():
    target = np.array([1.0, 1.0, 2.0, 3.0])
    # The deciles are at ranks .3 to 2.7: 1, then 2 from .4 on, then 3 from .7 on, so the cut-offs are 1.5 and 2.5.
    assert deciding_cutoffs(target).tolist() == [1.5, 2.5]
    # At 1.5 the first two change, at 2.5 the second one: 3 of 8 decisions.
    assert changed_share(np.array([2.0, 3.0, 2.0, 3.0]), target) == 3 / 8
    assert changed_share(np.array([2.0, 3.0, 2.0, 3.0]), target, np.array([2.5])) == 1 / 4
    assert changed_share(target, np.ones(4)) is None


def test_the_best_cut_off_is_in_the_middle_of_the_best_ones():
    scores, wanted = np.array([1.0, 2.0, 4.0, 5.0]), np.array([False, False, True, True])
    assert best_cutoff(scores, wanted) == 3
    assert best_cutoff(scores, ~np.isnan(scores)) == -np.inf
    # Below 2 and above 4 one decision differs; of 1.5 and 4.5, the later one.
    assert best_cutoff(scores, np.array([False, True, False, True])) == 4.5
