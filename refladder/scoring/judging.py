"""Judgments: how a reading becomes one, which of them count, and the verdicts that they hold."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.errors import UsageError, option
from refladder.records import LOSS, OUTCOMES, TIE, WIN, Judgment, impossible
from refladder.scoring.question import RUNG
from refladder.scoring.rules import probabilities_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray
    from refladder.scoring.question import Question

_UNPARSED = (math.nan,) * len(OUTCOMES)
_OF_A_RUNG = (LOSS, WIN, TIE)  # the verdict was about the rung, so its win is the output's loss


def judgment_of(
    question: Question,
    recipe: str,
    *,
    outcomes: tuple[str, ...],
    logprobs: tuple[float, ...] | None,
    mass: float | None,
    note: str | None,
    cut: bool = False,
    kind: type[Judgment] = Judgment,
    stated: tuple[float | None, ...] = (),
) -> Judgment:
    """The judgment of a question; log-probabilities that are missing or impossible become None with a note."""
    if logprobs is not None and (wrong := impossible(logprobs, mass, apart=True)):
        logprobs, note = None, f"the judge gave {wrong}"
    comparison = question.comparison
    return kind(
        context_id=comparison.context_id,
        dimension=comparison.dimension,
        subject=comparison.subject,
        against=comparison.against or None,
        outcomes=outcomes,
        logprobs=logprobs,
        mass=None if logprobs is None else mass,
        key=question.key,
        recipe=recipe,
        note=(note or "unparsed") if logprobs is None else note,
        cut=cut,
        stated=stated,
    )


def trusted(judgments: Sequence[Judgment], least_mass: float) -> list[Judgment]:
    """Judgments as they are scored: those whose label mass is below `least_mass` are unparsed, with the reason."""
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
    """Natural logarithms of p(win, loss, tie), seen from the output, shape (judgments, 3); NaN rows where unparsed."""
    rows = [
        judgment.logprobs_of(_OF_A_RUNG if judgment.subject.startswith(RUNG) else OUTCOMES)
        or _UNPARSED
        for judgment in judgments
    ]
    return np.array(rows, dtype=np.float64).reshape(-1, len(OUTCOMES))


def outcome_probabilities(judgments: Sequence[Judgment]) -> FloatArray:
    """Probabilities of win, loss and tie of the text that each judgment is about, shape (n, 3); NaN if unparsed."""
    rows = [judgment.logprobs_of(OUTCOMES) or _UNPARSED for judgment in judgments]
    return probabilities_from(np.array(rows, dtype=np.float64).reshape(-1, len(OUTCOMES)))


def verdicts(judgments: Sequence[Judgment], rungs: int, orders: int) -> FloatArray:
    """Verdict probabilities against each rung, shape (outputs, rungs, 3), the orders averaged; NaN if unparsed."""
    logprobs = verdict_logprobs(judgments).reshape(-1, rungs, orders, 3)
    return cast("FloatArray", np.mean(probabilities_from(logprobs), axis=2))


def inconsistency(judgments: Sequence[Judgment]) -> tuple[int, int]:
    """How many pairs' two orders disagree on the most probable outcome, of how many with both orders readable."""
    logprobs = verdict_logprobs(judgments).reshape(-1, 2, 3)
    readable = ~np.isnan(logprobs).any(axis=(1, 2))
    chosen = np.argmax(logprobs[readable], axis=2)
    return int(np.sum(chosen[:, 0] != chosen[:, 1])), int(np.sum(readable))


def first_probabilities(judgments: Sequence[Judgment]) -> FloatArray:
    """P(first) / (P(first) + P(second)), shape (judgments,); NaN if unparsed. Source: arXiv 2307.07889, equation 3."""
    probabilities = np.full(len(judgments), np.nan)
    for position, judgment in enumerate(judgments):
        if (logprobs := judgment.logprobs_of((WIN, LOSS))) is not None:
            win, loss = logprobs
            gap = loss - win
            probabilities[position] = (
                1 / (1 + math.exp(gap)) if gap < 0 else math.exp(-gap) / (1 + math.exp(-gap))
            )
    return probabilities
