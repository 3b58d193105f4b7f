"""The evidence of drift is a fair bet without drift and grows with it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refladder.errors import ShapeError
from refladder.trust.drift import changes_of, evidence_of, ranks_of


def test_changes_by_hand():
    before = np.array([[0.5, 0.3, 0.2], [0.2, 0.4, 0.4], [0.1, 0.1, 0.8]])
    now = np.array([[0.3, 0.3, 0.4], [0.205, 0.395, 0.4], [np.nan] * 3])
    # (|-.2| + 0 + .2) / 2 = .2; (.005 + .005) / 2 = .005 is below .01 and counts as none
    assert changes_of(before, now) == pytest.approx([0.2, 0.0, np.nan], nan_ok=True)


def test_ranks_by_hand():
    """Repeats .1, .2, .4. A change of .3: one earlier is greater, so u = 1 - (1 + U)/4. Then .5: none, u = 1 - U/5."""
    ties = np.random.default_rng([0, 0]).random((1, 2))[0]
    ranks = ranks_of(np.array([[0.1, 0.2, 0.4]]), np.array([[[0.3, 0.5]]]))
    assert ranks[0, 0] == pytest.approx([1 - (1 + ties[0]) / 4, 1 - ties[1] / 5])


def test_evidence_by_hand():
    """One look with the ranks 1 and .5: w_1 = 1/2; the mean over stakes of 1 + l/2 with l = .4, .8, 1.2, 1.6, 1.9 is
    1 + 5.9/10 = 1.59, so E = 1.59/2 + 1/2 = 1.295. A second look with rank 0: the factors are 1 - l/2, so
    E = mean((1 + l/2)(1 - l/2))/2 + mean(1 - l/2)/6 + 1/3
      = (1 - (.04 + .16 + .36 + .64 + .9025)/5)/2 + (1 - .59)/6 + 1/3 = .5795/2 + .41/6 + 1/3 = .6914167."""
    assert evidence_of(np.array([[[1.0, 0.5], [0.5, 0.0]]]))[0] == pytest.approx([1.295, 0.69141666667])


@pytest.mark.parametrize("noise", ["smooth", "none", "coarse"])
def test_ranks_are_uniform_without_drift(noise):
    random = np.random.default_rng(3)
    draw = {"smooth": lambda size: np.abs(random.normal(size=size)), "none": np.zeros,
            "coarse": lambda size: random.integers(0, 3, size).astype(float)}[noise]  # fmt: skip
    ranks = ranks_of(draw((300, 32)), draw((300, 6, 8)))
    assert stats.kstest(ranks.ravel(), "uniform").pvalue > 0.001
    assert abs(np.corrcoef(ranks.reshape(300, -1)[:, :-1].ravel(), ranks.reshape(300, -1)[:, 1:].ravel())[0, 1]) < 0.03


def test_false_alarms_and_true_ones():
    random = np.random.default_rng(0)
    repeats, looks = np.abs(random.normal(size=(400, 32))), np.abs(random.normal(size=(400, 40, 8)))
    evidence = evidence_of(ranks_of(repeats, looks))
    # At alpha .05 at most 20 of 400 are expected; 33 are exceeded with a probability below .002 (binomial).
    assert np.sum(evidence.max(axis=1) >= 20) <= 33
    looks[:, 20:] += 3.0  # a change that is far outside of the noise, after 20 looks
    evidence = evidence_of(ranks_of(repeats, looks))
    assert np.median(np.argmax(evidence[:, 20:] >= 100, axis=1) + 1) <= 3
    assert np.mean(evidence[:, -1] >= 100) == 1


def test_an_unparsed_probe_changes_nothing():
    repeats = np.array([[0.1, 0.3, 0.2]])
    with_gap = ranks_of(repeats, np.array([[[0.25, np.nan], [0.05, 0.4]]]))
    assert with_gap[0, 0, 1] == 0.5
    assert evidence_of(with_gap[:, :1])[0, 0] == pytest.approx(evidence_of(with_gap[:, :1, :1])[0, 0])
    assert ranks_of(np.array([[0.1, np.nan]]), np.array([[[0.2]]]))[0, 0, 0] > 0.5  # one of two at most is above


def test_shapes():
    with pytest.raises(ShapeError, match=r"expected \(runs, n\)"):
        ranks_of(np.zeros(3), np.zeros((1, 1, 1)))
