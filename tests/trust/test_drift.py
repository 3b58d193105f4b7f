"""The evidence of drift is a fair bet without drift and grows with it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refladder.errors import ShapeError
from refladder.trust.drift import changes_of, drift_evidence, evidence_of, ranks_of


def test_changes_by_hand():
    before = np.array([[0.5, 0.3, 0.2], [0.2, 0.4, 0.4], [0.1, 0.1, 0.8]])
    now = np.array([[0.3, 0.3, 0.4], [0.205, 0.395, 0.4], [np.nan] * 3])
    # (|-.2| + 0 + .2) / 2 = .2 and (-.2 - 0) / 2 = -.1; (.005 + .005) / 2 = .005 is below .01 and counts as none
    assert changes_of(before, now) == pytest.approx(np.array([[0.2, -0.1], [0.0, 0.0], [np.nan] * 2]), nan_ok=True)


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


def test_evidence_bets_on_distances_and_on_shifts_both_ways():
    """Half of the capital is on high distances, a quarter each on high and on low shifts."""
    random = np.random.default_rng(1)
    repeats, changes = random.normal(size=(3, 32, 2)), random.normal(size=(3, 5, 8, 2))
    up = ranks_of(repeats[..., 1], changes[..., 1])
    parts = [evidence_of(ranks_of(repeats[..., 0], changes[..., 0])), evidence_of(up), evidence_of(1 - up)]
    assert drift_evidence(repeats, changes) == pytest.approx(np.einsum("p,prl->rl", [0.5, 0.25, 0.25], parts))


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_shift_below_the_noise_is_caught(sign):
    """The distances hardly grow, but all of the shifts go one way: by 1 in noise of standard deviation 1.4."""
    random = np.random.default_rng(2)

    def changes(shape, shift):
        values = random.normal(size=shape) - random.normal(size=shape) + sign * shift
        return np.stack([np.abs(values), values], axis=-1)

    repeats = changes((200, 32), 0.0)
    looks = np.concatenate([changes((200, 10, 8), 0.0), changes((200, 30, 8), 1.0)], axis=1)
    evidence = drift_evidence(repeats, looks)
    assert np.mean(evidence[:, :10].max(axis=1) >= 100) <= 0.03
    assert np.median(np.argmax(evidence[:, 10:] >= 100, axis=1) + 1) <= 12
    assert np.mean(evidence.max(axis=1) >= 100) > 0.9


def test_an_unparsed_probe_changes_nothing():
    repeats = np.array([[0.1, 0.3, 0.2]])
    with_gap = ranks_of(repeats, np.array([[[0.25, np.nan], [0.05, 0.4]]]))
    assert with_gap[0, 0, 1] == 0.5
    assert evidence_of(with_gap[:, :1])[0, 0] == pytest.approx(evidence_of(with_gap[:, :1, :1])[0, 0])
    assert ranks_of(np.array([[0.1, np.nan]]), np.array([[[0.2]]]))[0, 0, 0] > 0.5  # one of two at most is above


def test_shapes():
    with pytest.raises(ShapeError, match=r"expected \(runs, n\)"):
        ranks_of(np.zeros(3), np.zeros((1, 1, 1)))
