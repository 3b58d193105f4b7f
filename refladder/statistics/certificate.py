"""Statistics of judgments between the rungs of ladders, which show whether a ladder rises.

w[i, j] is the probability that rung j is better than rung i: the mean over both orders of P(win) + P(tie) / 2. A ladder
rises when w[i, j] is above 1/2 for every i < j. Indices are from 0; level 1 of a ladder is index 0.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import BoolArray, FloatArray

PASS, UNTESTED, REWRITE, DROP, REFUSE = "pass", "untested", "rewrite", "drop", "refuse"
# Verdicts are listed from the mildest on.
SEVERITY = PASS, UNTESTED, REWRITE, DROP, REFUSE
# The sign tests of the steps of a criterion together have this error. A set passes if every criterion does, so its own
# error is far less: bench/results/judge_rules.md.
ALPHA = 0.1
# A share of levels above those of other anchors that is surely less refuses a shared set.
LEAST_ACROSS = 0.7
# The share itself, where the anchors are too few for a sign test.
LEAST_OF_FEW = 0.8
# A probability this near to 1/2 prefers neither rung.
EVEN = 1e-9


def rung_pairs(rungs: int) -> list[tuple[int, int]]:
    """Return every pair (lower, higher) of rungs, by index from 0: (0, 1), (0, 2), ..., (N - 2, N - 1)."""
    return list(itertools.combinations(range(rungs), 2))


def preferences(verdicts: FloatArray, rungs: int) -> FloatArray:
    """Return the preferences w of every ladder.

    Source: the mean over both orders, arXiv 2307.07889, section 3.

    Args:
        verdicts: shape (ladders, pairs, 2, 3), pairs as in `rung_pairs`; in the first order the judgment is about the
            higher rung, in the second about the lower one. Last axis: probability of win, loss, tie; NaN where the
            judgment could not be parsed.
        rungs: N.

    Returns:
        Shape (ladders, N, N), between 0 and 1; w[j, i] = 1 - w[i, j]. NaN on the diagonal and where either order could
        not be parsed.
    """
    pairs = rung_pairs(rungs)
    mean = _over_both_orders(verdicts)
    w = np.full((len(verdicts), rungs, rungs), np.nan)
    for number, (low, high) in enumerate(pairs):
        w[:, low, high] = mean[:, number]
        w[:, high, low] = 1 - mean[:, number]
    return w


def order_disagreements(verdicts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Count pairs whose two orders have different most probable outcomes, and parsed pairs: shape (ladders,) each."""
    # Both orders are seen from the higher rung.
    first, second = verdicts[:, :, 0], verdicts[:, :, 1][..., [1, 0, 2]]
    parsed = ~np.isnan(first).any(axis=-1) & ~np.isnan(second).any(axis=-1)
    differ = np.argmax(np.nan_to_num(first), axis=-1) != np.argmax(np.nan_to_num(second), axis=-1)
    return (differ & parsed).sum(axis=1).astype(np.float64), parsed.sum(axis=1).astype(np.float64)


def across_anchors(verdicts: FloatArray, anchors: int) -> tuple[FloatArray, FloatArray]:
    """Count for each pair of anchors the levels that beat the level below of the other, and the decisions.

    Args:
        verdicts: shape (dimensions, K (K - 1), rungs - 1, 2, 3): the ordered pairs (the higher rung's anchor, the lower
            rung's) as `itertools.permutations` gives them; in the first order the judgment is about the higher rung, in
            the second about the lower one; win, loss, tie, NaN where it could not be parsed.
        anchors: K.

    Returns:
        Two symmetric arrays of shape (K, K), 0 on the diagonal: both directions and all dimensions together. A
        preference of 1/2 or NaN does not decide.
    """
    counts = _rises_and_decisions(_over_both_orders(verdicts), (0, 2))
    order = np.array([*itertools.permutations(range(anchors), 2)], dtype=int).reshape(-1, 2)
    arrays = np.zeros((2, anchors, anchors))
    arrays[:, order[:, 0], order[:, 1]] = counts
    rises, decisions = arrays + arrays.transpose(0, 2, 1)
    return rises, decisions


def rising_chain(w: FloatArray) -> BoolArray:
    """Return the largest set of rungs of which each is better than the one before it in the set.

    Of several largest sets, the one with more of the two ends is chosen, because the rungs between were written from
    them; then the one with the largest sum of w over its neighbours. The other rungs are those to write anew.

    Args:
        w: shape (N, N), of one ladder. A NaN does not show a rise.

    Returns:
        Shape (N,), True for the rungs of the set.
    """
    rungs = len(w)
    # The best chain to each rung has a length, a number of ends, a sum, and the rung before.
    best: list[tuple[int, int, float, int]] = []
    for high in range(rungs):
        end = int(high in {0, rungs - 1})
        chain_to = (1, end, 0.0, -1)
        for low, (length, ends, total, _) in enumerate(best):
            if w[low, high] > 0.5 + EVEN:
                longer = (length + 1, ends + end, total + float(w[low, high]), low)
                chain_to = max(chain_to, longer, key=lambda option: option[:3])
        best.append(chain_to)
    chain = np.zeros(rungs, dtype=np.bool_)
    rung = max(range(rungs), key=lambda number: best[number][:3])
    while rung >= 0:
        chain[rung] = True
        rung = best[rung][3]
    return chain


def steps_in_order(w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Count for each step, shape (N - 1,), ladders whose higher rung is better, and ladders that decide.

    `w` has shape (ladders, N, N); 1/2 or NaN does not decide.
    """
    steps = np.diagonal(w, offset=1, axis1=1, axis2=2)
    return _rises_and_decisions(steps, 0)


def _over_both_orders(verdicts: FloatArray) -> FloatArray:
    """Return w from verdicts, shape (..., 2, 3): on the higher rung in the first order, on the lower in the second."""
    points = verdicts[..., 0] + verdicts[..., 2] / 2
    return (points[..., 0] + 1 - points[..., 1]) / 2


def _rises_and_decisions(
    w: FloatArray, axis: int | tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Count the preferences for the higher rung along an axis, and those that decide; 1/2 or NaN does not."""
    rises = (w > 0.5 + EVEN).sum(axis=axis).astype(float)
    return rises, rises + (w < 0.5 - EVEN).sum(axis=axis)


def sign_test(successes: FloatArray, trials: FloatArray) -> FloatArray:
    """Return p-values of the exact one-sided sign test: P(X >= successes) for X binomial with probability 1/2.

    Args:
        successes: any shape, whole numbers.
        trials: the same shape; ladders of different contexts, one per context.

    Returns:
        p-values, above 0; 1 where there are no trials.
    """
    successes = np.asarray(successes, dtype=np.float64)
    trials = np.asarray(trials, dtype=np.float64)
    # P(X >= k) of n at 1/2 is the incomplete beta function I(k, n - k + 1) at 1/2.
    tails = betainc(np.maximum(successes, 1.0), trials - successes + 1, 0.5)
    return np.where(successes == 0, 1.0, np.maximum(tails, np.finfo(np.float64).tiny))


def contexts_needed(tests: int) -> int:
    """Return the fewest contexts with which one of `tests` steps can pass if all its ladders are in order."""
    return max(1, math.ceil(math.log2(tests / ALPHA)))


def shown_and_untested(
    w: FloatArray, p_values: FloatArray | None, needed: int
) -> tuple[BoolArray, BoolArray]:
    """Return the steps that are shown to rise, and those without a result: shape (N - 1,) each.

    Nothing can be said of a step that is unparsed in more than half of the ladders, nor of one that did not pass although
    all of fewer than `needed` ladders are in order.

    Args:
        w: shape (ladders, N, N).
        p_values: shape (N - 1,), corrected; None without a test: then each judged ladder must be in order.
        needed: from `contexts_needed`.
    """
    judged = (~np.isnan(np.diagonal(w, offset=1, axis1=1, axis2=2))).sum(axis=0)
    unread: BoolArray = 2 * judged < len(w)
    faultless: BoolArray = steps_in_order(w)[0] == judged
    shown: BoolArray = (faultless if p_values is None else p_values <= ALPHA) & ~unread
    return shown, unread | (faultless & (judged < needed) & ~shown)


def level_verdicts(means: FloatArray, passed: BoolArray, untested: BoolArray) -> list[str]:
    """Return a verdict for each level of a dimension, over all of its ladders.

    pass: the steps to its neighbours pass. rewrite: a step is not shown to rise, and on average the level is on the
    rising chain. drop: a step is not shown to rise, and the level is not on that chain. untested: nothing can be said of a
    step. refuse, for every other level: no step passes, so there is no scale.

    Args:
        means: shape (N, N), from `mean_preferences`.
        passed: shape (N - 1,), whether each step is shown to rise, from `shown_and_untested`.
        untested: shape (N - 1,), whether nothing can be said of it.
    """
    chain = rising_chain(means)
    verdicts = []
    for level in range(len(means)):
        around = passed[max(level - 1, 0) : level + 1]
        if untested[max(level - 1, 0) : level + 1].any():
            verdicts.append(UNTESTED)
        elif not passed.any():
            verdicts.append(REFUSE)
        elif around.all():
            verdicts.append(PASS)
        else:
            verdicts.append(REWRITE if chain[level] else DROP)
    return verdicts


def rung_verdicts(w: FloatArray, levels: Sequence[str]) -> list[str]:
    """Return a verdict for each rung of one ladder.

    pass: it is on the rising chain of its ladder. rewrite: it is not. drop: it is not, and its level is to be dropped.
    untested: it is not, and nothing can be said of its level. refuse: a comparison with a neighbour could not be parsed.

    Args:
        w: shape (N, N).
        levels: from `level_verdicts`.
    """
    chain = rising_chain(w)
    steps = np.isnan(np.diagonal(w, offset=1))
    verdicts = []
    for level in range(len(w)):
        if steps[max(level - 1, 0) : level + 1].any():
            verdicts.append(REFUSE)
        elif chain[level]:
            verdicts.append(PASS)
        else:
            verdicts.append(levels[level] if levels[level] in {DROP, UNTESTED} else REWRITE)
    return verdicts


def worst(verdicts: Sequence[str]) -> str:
    """Return the most severe verdict."""
    return max(verdicts, key=SEVERITY.index)


def mean_preferences(w: FloatArray) -> FloatArray:
    """Return the mean of w, shape (ladders, N, N), over ladders without NaN; NaN if all are."""
    counts = (~np.isnan(w)).sum(axis=0)
    means: FloatArray = np.nansum(w, axis=0) / np.maximum(counts, 1)
    return np.where(counts > 0, means, np.nan)


def length_climbs(lengths: FloatArray) -> bool:
    """Return whether length alone orders a ladder: each rung, from the worst, is longer, or each is shorter."""
    steps = np.diff(np.asarray(lengths))
    return bool((steps > 0).all() or (steps < 0).all())
