"""Rules: verdicts against each rung -> one absolute number. Pure functions over arrays.

Every rule takes `probabilities` of shape (outputs, rungs, 3), last axis win, loss, tie, rows summing to 1, rung 1 (the
worst) first, and the human scale (low, high). A row with NaN (an unparsed verdict) gives NaN, because a sum over fewer
rungs would be on another scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import ShapeError
from refladder.registry import Entry, find
from refladder.statistics.estimators import SAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.arrays import FloatArray

    Rule = Callable[[FloatArray, tuple[float, float]], FloatArray]

RULES = {
    "ladder-sum": Entry(
        "refladder.scoring.rules:ladder_scores",
        "sum over rungs i of i * (p(win) - p(loss)), arXiv 2509.05440",
    ),
    "mean-difference": Entry(
        "refladder.scoring.rules:mean_differences",
        "mean over rungs of p(win) - p(loss), -1 to 1",
    ),
    "expected-grade": Entry(
        "refladder.scoring.rules:expected_grades",
        "rungs beaten and half the ties, on the dimension's human scale",
    ),
    "hard-votes": Entry(
        "refladder.scoring.rules:hard_votes",
        "ladder-sum of the most probable verdicts only",
    ),
}
DEFAULT_RULE = "ladder-sum"
SPREAD_LEGEND = (
    "spread: how undecided the judge was, in units of the grade. Not a confidence interval."
)
# Rules that are linear in the probabilities of verdicts.
LINEAR = "ladder-sum", "mean-difference", "expected-grade"


def rule_named(name: str) -> Rule:
    """Return the rule of that name, built in or registered under `refladder.rule`."""
    return cast("Rule", find("rule", name, RULES))


def of_anchors(
    rule: Rule, probabilities: FloatArray, anchors: int, scale: tuple[float, float]
) -> FloatArray:
    """Apply a rule to each anchor's ladder: shape (outputs, anchors * rungs, 3) to (outputs, anchors)."""
    rungs = probabilities.shape[1] // anchors
    return rule(probabilities.reshape(-1, rungs, 3), scale).reshape(-1, anchors)


def over_anchors(rule: Rule, anchors: int) -> Rule:
    """Return the rule of a shared set: the mean over the anchors of the rule on the ladder of each."""
    if anchors == 1:
        return rule

    def mean(probabilities: FloatArray, scale: tuple[float, float]) -> FloatArray:
        return cast("FloatArray", of_anchors(rule, probabilities, anchors, scale).mean(axis=1))

    return mean


def probabilities_from(logprobs: FloatArray) -> FloatArray:
    """Compute the softmax over the last axis, in float64; NaN where a label has no probability.

    Args:
        logprobs: natural-log label probabilities, any shape, last axis the labels; they need not sum to 1.

    Returns:
        The shape of the input, last axis summing to 1.
    """
    shifted = logprobs - np.max(logprobs, axis=-1, keepdims=True)
    weights = np.exp(shifted)
    return cast("FloatArray", weights / np.sum(weights, axis=-1, keepdims=True))


def _checked(probabilities: FloatArray) -> FloatArray:
    if probabilities.ndim != 3 or probabilities.shape[2] != 3 or probabilities.shape[1] == 0:
        raise ShapeError(
            f"verdict probabilities must have shape (outputs, rungs, 3) with at least one rung, "
            f"found {probabilities.shape}"
        )
    return probabilities


def _weighted_by_level(verdicts: FloatArray) -> FloatArray:
    # No matrix product: BLAS may round a row differently at another position in the batch, and two outputs with the
    # same text must have exactly equal scores.
    return cast("FloatArray", np.sum(verdicts * np.arange(1.0, verdicts.shape[1] + 1), axis=1))


def ladder_scores(probabilities: FloatArray, _scale: tuple[float, float]) -> FloatArray:
    """Score outputs from their verdicts against each rung; higher rungs have more weight.

    s = sum over levels i of  i * p(win | i) - i * p(loss | i);  a tie has weight 0.

    Source: arXiv 2509.05440, section 2.2.

    Args:
        probabilities: shape (outputs, rungs, 3), last axis win, loss, tie; rows sum to 1. Rung 1 is the worst.
        _scale: not used; every rule has the same arguments.

    Returns:
        Shape (outputs,), no unit, between -N(N+1)/2 and N(N+1)/2. Higher is better.

    Raises:
        ShapeError: not three axes, or the last is not 3.
    """
    return _weighted_by_level(_checked(probabilities)[:, :, 0] - probabilities[:, :, 1])


def mean_differences(probabilities: FloatArray, _scale: tuple[float, float]) -> FloatArray:
    """Average p(win) - p(loss) over the rungs, with equal weight for every rung.

    Args:
        probabilities: as for `ladder_scores`.
        _scale: not used.

    Returns:
        Shape (outputs,), no unit, between -1 and 1, whatever the number of rungs.

    Raises:
        ShapeError: as for `ladder_scores`.
    """
    differences = _checked(probabilities)[:, :, 0] - probabilities[:, :, 1]
    return cast("FloatArray", np.mean(differences, axis=1))


def expected_grades(probabilities: FloatArray, scale: tuple[float, float]) -> FloatArray:
    """Place outputs on the ladder, in units of the dimension's human scale.

    grade = low + (high - low) * (expected rungs beaten + half the expected ties) / N

    Losing to every rung gives `low`, beating every rung gives `high`, and a text equal to rung i of N gives
    low + (high - low) * (i - 1/2)/N.

    Args:
        probabilities: as for `ladder_scores`.
        scale: (low, high), the ends of the human scale.

    Returns:
        Shape (outputs,), in the unit of the scale, between low and high.

    Raises:
        ShapeError: as for `ladder_scores`.
    """
    low, high = scale
    share = np.mean(_checked(probabilities)[:, :, 0] + probabilities[:, :, 2] / 2, axis=1)
    return cast("FloatArray", low + (high - low) * share)


def hard_votes(probabilities: FloatArray, _scale: tuple[float, float]) -> FloatArray:
    """Score outputs as `ladder_scores` does, by the most probable verdicts; equally probable wins and losses are ties.

    This is the score of a judge that answers once, with its most probable label. It is coarse and has many ties. A
    single answer sampled at temperature 1 agrees less with people.

    Args:
        probabilities: as for `ladder_scores`.
        _scale: not used.

    Returns:
        Shape (outputs,), whole numbers between -N(N+1)/2 and N(N+1)/2.

    Raises:
        ShapeError: as for `ladder_scores`.
    """
    win, loss, tie = np.moveaxis(_checked(probabilities), 2, 0)
    votes = np.zeros(win.shape)
    votes[win > np.maximum(loss, tie) + SAME] = 1.0
    votes[loss > np.maximum(win, tie) + SAME] = -1.0
    votes[np.isnan(win)] = np.nan
    return _weighted_by_level(votes)


def grade_spreads(probabilities: FloatArray, scale: tuple[float, float]) -> FloatArray:
    """Compute the standard deviation of the grade if each verdict is sampled once from its label probabilities.

    Samples of different rungs are independent and count 1 (win), 1/2 (tie) or 0 (loss) of a rung. The spread is not an
    error interval: a judge that is certain of wrong verdicts has the spread 0.

    Args:
        probabilities: as for `ladder_scores`.
        scale: (low, high), the ends of the human scale.

    Returns:
        Shape (outputs,), in the unit of the scale, between 0 and (high - low) / 2.

    Raises:
        ShapeError: as for `ladder_scores`.
    """
    low, high = scale
    win, _, tie = np.moveaxis(_checked(probabilities), 2, 0)
    mean = win + tie / 2
    variance = np.maximum(win + tie / 4 - mean**2, 0.0)
    return cast("FloatArray", (high - low) * np.sqrt(np.sum(variance, axis=1)) / mean.shape[1])


def bounds_of(rule: Rule, rungs: int, scale: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the greatest value of a rule: losing to every rung, and beating every rung."""
    certain = np.zeros((2, rungs, 3))
    certain[0, :, 1] = 1.0
    certain[1, :, 0] = 1.0
    low, high = rule(certain, scale)
    return float(low), float(high)


def rung_steps(rule: Rule, rungs: int, scale: tuple[float, float]) -> FloatArray:
    """Return what beating each rung alone adds to the value of losing to all, shape (rungs,)."""
    certain = np.zeros((rungs + 1, rungs, 3))
    certain[..., 1] = 1.0
    beaten = np.arange(rungs)
    certain[beaten + 1, beaten] = (1.0, 0.0, 0.0)
    values = rule(certain, scale)
    return cast("FloatArray", values[1:] - values[0])


def overall(values: FloatArray, bounds: FloatArray, weights: FloatArray) -> FloatArray:
    """Combine several dimensions: the weighted mean of each value's position between its bounds.

    Args:
        values: shape (outputs, dimensions), NaN where a dimension has no score.
        bounds: shape (dimensions, 2), least and greatest value of each dimension.
        weights: shape (dimensions,), not negative, not all zero.

    Returns:
        Shape (outputs,), between 0 and 1; NaN where any dimension with a weight has no score.

    Raises:
        ShapeError: the axes do not agree.
    """
    dimensions = values.shape[1:]
    if len(dimensions) != 1 or bounds.shape != (*dimensions, 2) or weights.shape != dimensions:
        raise ShapeError(
            f"values {values.shape}, bounds {bounds.shape} and weights {weights.shape} do not agree"
        )
    counted = weights > 0
    low, high = bounds[counted].T
    positions = (values[:, counted] - low) / (high - low)
    shares = weights[counted] / np.sum(weights[counted])
    return cast("FloatArray", np.sum(positions * shares, axis=1))
