"""Asks a judge how outputs compare with the rungs of their ladders.

Judgments are made, stored and read in one order: output by output, dimension by dimension, rung by rung from the worst,
and for each rung the paper's order (reference first) and then, when both orders are asked, the swapped pair.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from refladder.backends import whole
from refladder.errors import BackendError, UsageError
from refladder.prompts import criterion, fill
from refladder.records import LOSS, OUTCOMES, TIE, WIN, Comparison, Context, Dimension, Judgment
from refladder.scoring.drawing import draw_labels
from refladder.scoring.rules import probabilities_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.arrays import FloatArray
    from refladder.backends import Backend
    from refladder.backends.estimate import Plan
    from refladder.prompts import Template
    from refladder.records import LabelReading, Ladder, Output, Prompt, Sampling


RUNG = "rung:"  # a rung's id in a Comparison is this and its level

LEAST_MASS = 0.05  # by default: a judge that gives its labels less than this would have answered something else

_UNREAD = (math.nan,) * len(OUTCOMES)


def rung_id(level: int) -> str:
    """The id of a rung in comparisons and judgments."""
    return f"{RUNG}{level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One comparison with the texts that are to be shown; `key` is their digest."""

    comparison: Comparison
    key: str
    context: Context
    dimension: Dimension
    target: str
    reference: str


def digest_of(*texts: str) -> hashlib.blake2b:
    """A digest of texts that are shown, which more texts can be added to."""
    state = hashlib.blake2b(digest_size=8)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(encoded))  # lengths keep ("ab", "c") apart from ("a", "bc")
        state.update(encoded)
    return state


def questions(
    output: Output, context: Context, dimension: Dimension, ladder: Ladder, *, orders: int
) -> Iterator[Question]:
    """Every comparison of one output with one ladder, in the canonical order.

    Args:
        output: the text to be scored.
        context: its context.
        dimension: the dimension of the ladder.
        ladder: rungs of that context and dimension.
        orders: 1, or 2 to ask each pair in the swapped order also.
    """
    shared = digest_of(context.text, context.background, dimension.name, dimension.description)
    encoded = output.text.encode("utf-8", "surrogatepass")
    for rung in ladder.rungs:
        against = rung.text.encode("utf-8", "surrogatepass")
        for swapped in range(orders):
            first, second = (encoded, against) if not swapped else (against, encoded)
            state = shared.copy()
            state.update(b"%d:" % len(first) + first)
            state.update(b"%d:" % len(second) + second)
            ids = (output.id, rung_id(rung.level)) if not swapped else (rung_id(rung.level), output.id)
            yield Question(
                comparison=Comparison(context_id=context.id, dimension=dimension.name, subject=ids[0], against=ids[1]),
                key=state.hexdigest(),
                context=context,
                dimension=dimension,
                target=rung.text if swapped else output.text,
                reference=output.text if swapped else rung.text,
            )


def _prompts(template: Template, question: Question) -> list[Prompt]:
    slots = {
        **criterion(question.context, question.dimension),
        "reference": question.reference,
        "target": question.target,
    }
    if not template.claims:
        return [fill(template, slots)]
    return [fill(template, slots, claim) for claim in OUTCOMES]


def judge(
    backend: Backend,
    template: Template,
    recipe: str,
    asked: Sequence[Question],
    *,
    answers: int = 0,
    sampling: Sampling | None = None,
) -> list[Judgment]:
    """Ask a judge a batch of questions.

    Args:
        backend: the judge.
        template: of role compare or compare-yesno.
        recipe: Recipe.digest of backend and template.
        asked: the questions; those of one context are put next to each other before the judge sees them.
        answers: how many answers are sampled for each prompt; 0 reads label probabilities.
        sampling: how those answers are drawn; needed for them.

    Returns:
        One judgment a question, in the order asked. One that could not be read has `logprobs` None and a note.

    Raises:
        BackendError: the backend failed as a whole, or broke its contract.
    """
    if not asked:
        return []
    labels = list(template.labels.values())
    order = _by_context(asked)
    prompts = [prompt for place in order for prompt in _prompts(template, asked[place])]
    readings: Sequence[LabelReading]
    if answers and sampling is not None:
        readings = draw_labels(backend, prompts, labels, answers=answers, sampling=sampling)
    else:
        readings = whole(backend, prompts, backend.read_labels(prompts, labels))
    each = len(prompts) // len(asked)
    judgments: list[Judgment | None] = [None] * len(asked)
    outcomes = OUTCOMES if template.claims else tuple(template.labels)
    for start, place in enumerate(order):
        own = readings[start * each : (start + 1) * each]
        judgments[place] = _judgment(asked[place], own, outcomes, tuple(template.labels), recipe)
    return [judgment for judgment in judgments if judgment is not None]


def plan_judging(
    plan: Plan,
    backend: Backend,
    template: Template,
    asked: Sequence[Question],
    *,
    answers: int = 0,
    sampling: Sampling | None = None,
) -> None:
    """Add the prompts that `judge` asks to a plan."""
    if asked:
        prompts = [prompt for position in _by_context(asked) for prompt in _prompts(template, asked[position])]
        plan.judge(backend, prompts, list(template.labels.values()), answers=answers, sampling=sampling)


def _by_context(asked: Sequence[Question]) -> list[int]:
    """The positions of questions, those of one context next to each other."""
    return sorted(range(len(asked)), key=lambda position: asked[position].context.id)


def _judgment(
    question: Question,
    readings: Sequence[LabelReading],
    outcomes: tuple[str, ...],
    answers: tuple[str, ...],
    recipe: str,
) -> Judgment:
    logprobs: tuple[float, ...] | None
    mass: float | None
    note = next((reading.note or "unreadable" for reading in readings if reading.logprobs is None), None)
    if note is not None:
        logprobs = mass = None
    elif any(reading.logprobs is None or len(reading.logprobs) != len(answers) for reading in readings):
        raise BackendError(
            f"the judge gave {len(readings[0].logprobs or ())} log-probabilities for the {len(answers)} labels "
            f"{', '.join(answers)}; test it with refladder.testing.check_backend"
        )
    elif len(readings) == 1:
        logprobs, mass, note = readings[0].logprobs, readings[0].mass, readings[0].note
    else:
        logprobs, mass = _from_yes_no(readings, answers)
        note = next((reading.note for reading in readings if reading.note), None)
    return judgment_of(
        question.comparison, question.key, recipe, outcomes=outcomes, logprobs=logprobs, mass=mass, note=note
    )


def judgment_of(
    comparison: Comparison,
    key: str,
    recipe: str,
    *,
    outcomes: tuple[str, ...],
    logprobs: tuple[float, ...] | None,
    mass: float | None,
    note: str | None,
) -> Judgment:
    """What a judge said; no log-probabilities, or such as are not finite, become None with a note.

    Args:
        comparison: what it is about; `against` is empty where it is about one text.
        key: digest of the texts that were shown.
        recipe: Recipe.digest.
        outcomes: what was to be chosen from.
        logprobs: natural logarithms, one for each outcome; None where the judge could not be read.
        mass: the probability of the outcomes together.
        note: why it could not be read, or what else is to be said.
    """
    if logprobs is not None and not all(map(math.isfinite, logprobs)):
        logprobs, note = None, f"the judge gave log-probabilities that are not finite: {logprobs}"
    return Judgment(
        context_id=comparison.context_id,
        dimension=comparison.dimension,
        subject=comparison.subject,
        against=comparison.against or None,
        outcomes=outcomes,
        logprobs=logprobs,
        mass=None if logprobs is None else mass,
        key=key,
        recipe=recipe,
        note=(note or "unreadable") if logprobs is None else note,
    )


def trusted(judgments: Sequence[Judgment], least_mass: float) -> list[Judgment]:
    """Judgments as they are scored: those whose label mass is below `least_mass` are unparsed, with the reason.

    Args:
        judgments: as they are stored.
        least_mass: a probability; 0 scores every judgment that could be read.

    Returns:
        One for each, in order. A judgment without a mass is left as it is; an unparsed one keeps its mass.

    Raises:
        UsageError: `least_mass` is no probability.
    """
    if not 0 <= least_mass <= 1:
        raise UsageError(f"least label mass {least_mass:g}: a probability from 0 to 1 is needed; see --least-mass")
    scored = []
    for judgment in judgments:
        if judgment.logprobs is None or judgment.mass is None or judgment.mass >= least_mass:
            scored.append(judgment)
            continue
        reason = f"label mass {judgment.mass:.2g} is below {least_mass:g} (--least-mass)"
        note = reason if judgment.note is None else f"{judgment.note}; {reason}"
        scored.append(replace(judgment, logprobs=None, note=note))
    return scored


def _from_yes_no(readings: Sequence[LabelReading], answers: tuple[str, ...]) -> tuple[tuple[float, ...], float]:
    """Three yes/no questions as one verdict (arXiv 2509.05440, Table 2).

    The log-probability of an outcome is log p(yes | its question), with p(yes) + p(no) = 1; the rule's softmax then
    weighs the three against each other. The mass is that of the worst read question.
    """
    yes, no = answers.index("yes"), answers.index("no")
    logprobs = tuple(
        float(-np.logaddexp(0.0, reading.logprobs[no] - reading.logprobs[yes]))
        for reading in readings
        if reading.logprobs is not None
    )
    return logprobs, min(1.0 if reading.mass is None else reading.mass for reading in readings)


def verdict_logprobs(judgments: Sequence[Judgment]) -> FloatArray:
    """Log-probabilities of win, loss, tie, seen from the output, one row a judgment.

    Returns:
        Shape (judgments, 3), natural logarithms; NaN rows where the judge could not be read.
    """
    rows: list[tuple[float, ...]] = []
    for judgment in judgments:
        if judgment.logprobs is None:
            rows.append(_UNREAD)
            continue
        swapped = judgment.subject.startswith(RUNG)  # the verdict was about the rung
        if judgment.outcomes == OUTCOMES and not swapped:
            rows.append(judgment.logprobs)
            continue
        found = dict(zip(judgment.outcomes, judgment.logprobs, strict=True))
        rows.append((found[LOSS], found[WIN], found[TIE]) if swapped else (found[WIN], found[LOSS], found[TIE]))
    return np.array(rows, dtype=np.float64).reshape(-1, len(OUTCOMES))


def verdicts(judgments: Sequence[Judgment], rungs: int, orders: int) -> FloatArray:
    """Verdict probabilities of outputs against each rung, the two orders averaged.

    Args:
        judgments: in the canonical order, `rungs` * `orders` for each output and dimension.
        rungs: the number of rungs.
        orders: 1 or 2.

    Returns:
        Shape (outputs, rungs, 3), last axis win, loss, tie; NaN where any order could not be read.
    """
    logprobs = verdict_logprobs(judgments).reshape(-1, rungs, orders, 3)
    return cast("FloatArray", np.mean(probabilities_from(logprobs), axis=2))


def inconsistency(judgments: Sequence[Judgment]) -> tuple[int, int]:
    """How often the two orders of a pair disagree on the most probable outcome.

    Args:
        judgments: in the canonical order, made with both orders.

    Returns:
        (pairs that disagree, pairs where both orders could be read).
    """
    logprobs = verdict_logprobs(judgments).reshape(-1, 2, 3)
    readable = ~np.isnan(logprobs).any(axis=(1, 2))
    chosen = np.argmax(logprobs[readable], axis=2)
    return int(np.sum(chosen[:, 0] != chosen[:, 1])), int(np.sum(readable))
