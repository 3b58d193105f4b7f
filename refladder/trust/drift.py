"""Evidence that a judge has changed: a test that may be looked at after every run.

Fixed questions (probes) are judged once, and some of them again in every run. A change is the total variation distance
between the two readings of a probe, and the shift of its p(win) - p(loss). What the judge changes without drift is
measured first, on repeats of the same probes. Without drift, changes and repeats are exchangeable, so the rank of each
change among all earlier ones is uniform. The evidence is the capital of bets that the ranks of distances are high, that
those of shifts are high, and that those of shifts are low. It is 1 on average at every look without drift. Ville's
inequality then bounds the probability that it ever reaches 1 / alpha by alpha.

Sources: Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, chapter 8 (conformal test martingales);
Waudby-Smith and Ramdas, arXiv 2010.09686 (betting); Shin, Ramdas and Rinaldo, arXiv 2203.03532 (unknown start).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import ShapeError

if TYPE_CHECKING:
    from refladder.arrays import FloatArray

STAKES = (0.4, 0.8, 1.2, 1.6, 1.9)  # shares of the capital that are bet; below 2, so that no bet loses everything
UNCHANGED = 0.01  # smaller changes count as none: numerical noise of batches


def changes_of(before: FloatArray, now: FloatArray) -> FloatArray:
    """How far two readings of each probe are apart; both numbers are 0 for a distance below `UNCHANGED`.

    Args:
        before: probabilities of win, loss and tie, shape (probes, 3); NaN where a reading is unparsed.
        now: likewise.

    Returns:
        Shape (probes, 2): the total variation distance, between 0 and 1, and half of the change of p(win) - p(loss),
        between -1 and 1; NaN where a reading is unparsed.
    """
    change = now - before
    distance = np.sum(np.abs(change), axis=1) / 2
    both = np.stack([distance, (change[:, 0] - change[:, 1]) / 2], axis=1)
    return cast("FloatArray", np.where(distance[:, None] < UNCHANGED, 0.0, both))


def drift_evidence(repeats: FloatArray, changes: FloatArray) -> FloatArray:
    """The evidence of drift after each look: half of it bets on distances, a quarter on shifts in each direction.

    Args:
        repeats: from `changes_of`, shape (runs, repeats, 2).
        changes: likewise, shape (runs, looks, probes, 2).

    Returns:
        Shape (runs, looks), 0 or more. Drift is shown at the level alpha when it reaches 1 / alpha, at any look.

    Raises:
        ShapeError: the axes do not agree.
    """
    distances, shifts = (ranks_of(repeats[..., part], changes[..., part]) for part in (0, 1))
    return evidence_of(distances) / 2 + (evidence_of(shifts) + evidence_of(1 - shifts)) / 4


def ranks_of(repeats: FloatArray, changes: FloatArray, *, seed: int = 0) -> FloatArray:
    """The rank of each change among the repeats and all earlier changes, as a number between 0 and 1.

    u_t = 1 - (#{s < t: x_s > x_t} + U_t (1 + #{s < t: x_s = x_t})) / (1 + #{s < t}),  U_t uniform on 0 to 1

    Without drift the u_t are independent and uniform.

    Args:
        repeats: shape (runs, repeats); NaN where one is unparsed.
        changes: shape (runs, looks, probes), likewise.
        seed: of the random numbers that break ties; those of a look do not depend on later looks.

    Returns:
        Shape (runs, looks, probes); 1/2, on which a bet neither wins nor loses, where a change is NaN.

    Raises:
        ShapeError: the axes do not agree.
    """
    if repeats.ndim != 2 or changes.ndim != 3 or len(repeats) != len(changes):  # noqa: PLR2004
        raise ShapeError(
            f"repeats {repeats.shape} and changes {changes.shape}: expected (runs, n) and (runs, looks, n)"
        )
    runs, looks, probes = changes.shape
    start = repeats.shape[1]
    earlier = np.full((runs, start + looks * probes), np.nan)
    earlier[:, :start] = repeats
    ranks = np.full(changes.shape, 0.5)
    for look in range(looks):
        ties = np.random.default_rng([seed, look]).random((runs, probes))
        for probe in range(probes):
            end = start + look * probes + probe
            before, change = earlier[:, :end], changes[:, look, probe]
            greater = np.sum(before > change[:, None], axis=1)
            equal = np.sum(before == change[:, None], axis=1)
            number = np.sum(~np.isnan(before), axis=1)
            rank = 1 - (greater + ties[:, probe] * (1 + equal)) / (1 + number)
            ranks[:, look, probe] = np.where(np.isnan(change), 0.5, rank)
            earlier[:, end] = change
    return ranks


def evidence_of(ranks: FloatArray) -> FloatArray:
    """The capital, after each look, of a bet that ranks are high.

    E_t = sum over first looks k of  w_k * mean over stakes l of  prod over s = k..t of (1 + l (u_s - 1/2)),  with the
    weights w_k = 1/(k (k + 1)); what is kept for later starts counts as it is.

    Args:
        ranks: shape (runs, looks, probes), from `ranks_of`.

    Returns:
        Shape (runs, looks), 0 or more.
    """
    runs, looks, _ = ranks.shape
    stakes = np.array(STAKES)
    capital = np.zeros((runs, looks, len(stakes)))
    evidence = np.zeros((runs, looks))
    for look in range(looks):
        weight = 1 / ((look + 1) * (look + 2))
        capital[:, look] = weight / len(stakes)
        factors = np.prod(1 + stakes[:, None] * (ranks[:, look, None, :] - 0.5), axis=2)
        capital[:, : look + 1] *= factors[:, None, :]
        unused = 1 / (look + 2)
        evidence[:, look] = np.sum(capital[:, : look + 1], axis=(1, 2)) + unused
    return evidence
