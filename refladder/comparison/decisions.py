"""Decisions at cut-offs: which cut-offs decide something, and how many decisions change between two columns of scores.

A decision is `score >= cut-off`. A share of decisions that change is a mean over cut-offs that decide something: where
most values are the least one, some deciles let every text pass, and no decision at them can change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from refladder.arrays import BoolArray, FloatArray

_DECILES = np.arange(1, 10)


def deciding_cutoffs(target: FloatArray) -> FloatArray:
    """Return at most nine different cut-offs, rising, that pass neither all nor none of the scores, shape (texts,).

    For each decile they are the middle between the least score at or above it and the different score before that one.
    The decile is that of linear interpolation; the least score at or above it is the one at the next whole rank.
    """
    ordered = np.sort(target)
    at_decile = ordered[-(-_DECILES * (len(ordered) - 1) // 10)]
    seen = np.unique(ordered)
    places = np.unique(np.searchsorted(seen, at_decile))
    # Every score passes at the least one.
    places = places[places > 0]
    below, above = seen[places - 1], seen[places]
    middle = below + (above - below) / 2
    # Between neighbouring numbers there is no middle.
    return np.where(middle > below, middle, above)


def changed_share(
    first: FloatArray, second: FloatArray, cutoffs: FloatArray | None = None
) -> float | None:
    """Return the share of decisions on texts that two scores make differently: the mean over cut-offs.

    Args:
        first: scores of the texts, shape (texts,).
        second: other scores of the same texts; without `cutoffs`, theirs are used.
        cutoffs: of `deciding_cutoffs`, shape (cut-offs,).

    Returns:
        The share, None if no cut-off decides anything.
    """
    cuts = deciding_cutoffs(second) if cutoffs is None else cutoffs
    if not len(cuts):
        return None
    changed = (first >= cuts[:, np.newaxis]) != (second >= cuts[:, np.newaxis])
    return float(np.mean(changed))


def best_cutoff(scores: FloatArray, wanted: BoolArray) -> float:
    """Return the cut-off with the fewest decisions that differ from the wanted ones; of several, that in the middle."""
    order = np.argsort(scores, kind="stable")
    ordered, passes = scores[order], wanted[order]
    # These are the wrong decisions if the first k texts fail and the others pass, for k from 0.
    wrong = np.concatenate(([0], np.cumsum(np.where(passes, 1, -1)))) + np.count_nonzero(~passes)
    cuts = np.concatenate(([-np.inf], (ordered[1:] + ordered[:-1]) / 2, [np.inf]))
    between = np.concatenate(([True], ordered[1:] > ordered[:-1], [True]))
    wrong, cuts = wrong[between], cuts[between]
    least = np.flatnonzero(wrong == wrong.min())
    return float(cuts[least[len(least) // 2]])
