"""Judgments from readings: those that count, and the verdicts that they hold."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import UsageError, option
from refladder.records import (
    LOSS,
    OUTCOMES,
    RUNG,
    TIE,
    WIN,
    Judgment,
    NotAsked,
    NotJudged,
    impossible,
)
from refladder.scoring.rules import probabilities_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray
    from refladder.records import LabelReading
    from refladder.scoring.question import Question

_UNPARSED = (math.nan,) * len(OUTCOMES)
# A win of a rung is the output's loss.
_OF_A_RUNG = LOSS, WIN, TIE


def judgment_of(
    question: Question,
    recipe: str,
    outcomes: tuple[str, ...],
    reading: LabelReading,
) -> Judgment:
    """Make the judgment of a question; missing or impossible log-probabilities become None with a note.

    `recipe` is the digest of the run's recipe.
    """
    logprobs, mass = reading.logprobs, reading.mass
    note = reading.reason or reading.note
    if logprobs is not None and (wrong := impossible(logprobs, mass, apart=True)):
        logprobs, note = None, f"the judge gave {wrong}"
    if logprobs is None:
        mass, note = None, note or "unparsed"
    comparison = question.comparison
    kind = NotJudged if isinstance(reading, NotAsked) else Judgment
    return kind(
        context_id=comparison.context_id,
        dimension=comparison.dimension,
        subject=comparison.subject,
        against=comparison.against or None,
        outcomes=outcomes,
        logprobs=logprobs,
        mass=mass,
        key=question.key,
        recipe=recipe,
        note=note,
        cut=reading.cut,
    )


def trusted(judgments: Sequence[Judgment], least_mass: float) -> list[Judgment]:
    """Turn judgments whose label mass is below `least_mass` into unparsed ones, with the reason, as they are scored."""
    if not 0 <= least_mass <= 1:
        see = option("least-mass")
        raise UsageError(
            f"least label mass {least_mass:g}: a probability from 0 to 1 is needed; see {see}"
        )
    scored = []
    for judgment in judgments:
        if judgment.logprobs is None or judgment.mass is None or judgment.mass >= least_mass:
            scored.append(judgment)
            continue
        reason = f"label mass {judgment.mass:.2g} is below {least_mass:g} (--least-mass)"
        note = reason if judgment.note is None else f"{judgment.note}; {reason}"
        scored.append(replace(judgment, logprobs=None, note=note))
    return scored


def verdict_logprobs(judgments: Sequence[Judgment]) -> FloatArray:
    """Return log p(win, loss, tie) as seen from the output, shape (judgments, 3); NaN rows where unparsed."""
    rows = []
    for judgment in judgments:
        outcomes = _OF_A_RUNG if judgment.subject.startswith(RUNG) else OUTCOMES
        rows.append(judgment.logprobs_of(outcomes) or _UNPARSED)
    return np.array(rows, dtype=np.float64).reshape(-1, len(OUTCOMES))


def outcome_probabilities(judgments: Sequence[Judgment]) -> FloatArray:
    """Return p(win, loss, tie) of the text that each judgment is about, shape (n, 3); NaN if unparsed."""
    rows = [judgment.logprobs_of(OUTCOMES) or _UNPARSED for judgment in judgments]
    return probabilities_from(np.array(rows, dtype=np.float64).reshape(-1, len(OUTCOMES)))


def verdicts(judgments: Sequence[Judgment], rungs: int, orders: int) -> FloatArray:
    """Average verdict probabilities over the orders: shape (outputs, rungs, 3), NaN if unparsed."""
    logprobs = verdict_logprobs(judgments).reshape(-1, rungs, orders, 3)
    return cast("FloatArray", np.mean(probabilities_from(logprobs), axis=2))


def inconsistency(judgments: Sequence[Judgment]) -> tuple[int, int]:
    """Count pairs whose orders disagree on the most probable outcome, and pairs with both orders parsed."""
    logprobs = verdict_logprobs(judgments).reshape(-1, 2, 3)
    parsed = ~np.isnan(logprobs).any(axis=(1, 2))
    chosen = np.argmax(logprobs[parsed], axis=2)
    return int(np.sum(chosen[:, 0] != chosen[:, 1])), int(np.sum(parsed))


def first_probabilities(judgments: Sequence[Judgment]) -> FloatArray:
    """Return P(first) / (P(first) + P(second)) of each judgment, NaN if unparsed: arXiv 2307.07889, equation 3."""
    probabilities = np.full(len(judgments), np.nan)
    for position, judgment in enumerate(judgments):
        logprobs = judgment.logprobs_of((WIN, LOSS))
        if logprobs is None:
            continue
        win, loss = logprobs
        # The exponent is never positive, so that it cannot overflow.
        odds = math.exp(-abs(win - loss))
        probabilities[position] = 1 / (1 + odds) if win > loss else odds / (1 + odds)
    return probabilities
