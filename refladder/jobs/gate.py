"""The gate of compare: whether a system is worse than another one, also where rows have no score."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.errors import plural
from refladder.loaders.scored_tables import run_of
from refladder.report.comparison_tables import Gate, Pair, WorstCase
from refladder.report.rendering import number
from refladder.statistics.bootstrap import MeanDifference, mean_difference
from refladder.statistics.certificate import sign_test
from refladder.statistics.correction import SIGNIFICANT, holm

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import TypeAlias

    from refladder.arrays import FloatArray

    # The scores of a system in each context; None for a row without a score.
    Scores: TypeAlias = Mapping[str, Sequence[float | None]]


class LowEnd(NamedTuple):
    """What a row without a score counts as in the worst case, and what this number is; None if nothing has a score."""

    value: float | None
    meaning: str


def low_end_of(tables: Sequence[str], column: str, scores: Collection[Scores]) -> LowEnd:
    """Return the low end of the scale of a column, else the lowest score of all systems."""
    scales = [run_of(table).scales or {} for table in tables]
    ends = [scale[column][0] for scale in scales if column in scale]
    if ends:
        return LowEnd(min(ends), "the low end of the scale")
    numbers = [
        value
        for contexts in scores
        for values in contexts.values()
        for value in values
        if value is not None
    ]
    return LowEnd(min(numbers, default=None), "the lowest score in the tables")


def context_means(
    scores: Scores, contexts: Sequence[str], unscored: float | None = None
) -> FloatArray:
    """Return the mean score in each context, NaN where there is none.

    With `unscored`, rows without a score and contexts without a row count as this number.
    """
    means = np.full(len(contexts), np.nan)
    for number_of, context in enumerate(contexts):
        values = [unscored if value is None else value for value in scores.get(context) or (None,)]
        known = [value for value in values if value is not None]
        if known:
            means[number_of] = math.fsum(known) / len(known)
    return means


def corrected(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values after Holm's correction over those that are numbers."""
    adjusted = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(adjusted) for p in p_values]


def worst_cases(
    compared: Sequence[tuple[tuple[str, str], MeanDifference]],
    scores: Mapping[str, Scores],
    low: float | None,
    *,
    seed: int,
    system: str | None,
) -> list[WorstCase]:
    """Compare pairs of systems in the worst case, which is as before where every row has a score.

    `compared` has the pairs as they are, and `system` is that of the gate, if there is one.
    """
    found: list[tuple[MeanDifference, int, int]] = []
    for names, as_before in compared:
        first, second = (scores[name] for name in names)
        contexts = sorted({*first, *second})
        unscored = _unscored(first, contexts), _unscored(second, contexts)
        difference = as_before
        if any(unscored):
            values = [context_means(each, contexts, low) for each in (first, second)]
            difference = mean_difference(values[0], values[1], seed=seed)
        found.append((difference, *unscored))
    p_values = [
        difference.p if system is None or system in names else None
        for (names, _), (difference, _, _) in zip(compared, found, strict=True)
    ]
    return [
        WorstCase(
            difference=difference.difference,
            low=difference.low,
            high=difference.high,
            p=difference.p,
            p_holm=p_holm,
            unscored_first=first,
            unscored_second=second,
        )
        for (difference, first, second), p_holm in zip(found, corrected(p_values), strict=True)
    ]


def decide(
    system: str, by: str, pairs: Sequence[Pair], scores: Mapping[str, Scores], low: LowEnd
) -> Gate:
    """Decide whether a system passes.

    It fails if it is significantly worse than another one on the contexts that both score; if it is so in the worst
    case; if it lacks a score in significantly more contexts; or if no difference could be significant. Each test is
    corrected over the pairs of the system. Pairs without a worst case are decided by the first test alone.
    """
    own = [pair for pair in pairs if system in (pair.first, pair.second)]
    others = [pair.second if pair.first == system else pair.first for pair in own]
    lacking = np.array([_lacking(scores[system], scores[other]) for other in others])
    more = holm(sign_test(lacking[:, 0], lacking.sum(axis=1)).tolist())
    # With fewer contexts, not even a difference in every one of them is significant in a two-sided test.
    needed = math.floor(math.log2(len(own) / SIGNIFICANT)) + 2
    reasons: dict[int, list[str]] = {condition: [] for condition in (1, 2, 3)}
    p_values = corrected([pair.p for pair in own])
    for pair, other, p, lacks, p_more in zip(own, others, p_values, lacking, more, strict=True):
        sign = 1 if pair.first == system else -1
        worse = f"{system} is significantly worse than {other}"
        if _is_worse(p, pair.difference, sign):
            reasons[1].append(
                f"{worse} on the {pair.contexts:,} contexts that both score (p {number(p, 4)})"
            )
        worst = pair.worst_case
        if worst is None:
            continue
        unscored = (worst.unscored_first, worst.unscored_second)[::sign]
        counts = f"{unscored[0]:,} of {system} and {unscored[1]:,} of {other}"
        see = (
            f"to see them: refladder filter SCORED --min {by}=0 --unscored FILE"
            if any(unscored)
            else ""
        )
        if _is_worse(worst.p_holm, worst.difference, sign):
            reasons[2].append(
                f"{worse} (p {number(worst.p_holm, 4)}) if rows without a score ({counts}) count as {low.value:g}, "
                f"{low.meaning}; {see}"
            )
        see = f"; rows without a score: {counts}; {see}" if see else ""
        if p_more < SIGNIFICANT:
            reasons[3].append(
                f"{system} lacks a score in significantly more contexts than {other}: {lacks[0]:,} have one of {other} "
                f"only, and {lacks[1]:,} of {system} only (p {number(p_more, 4)}){see}"
            )
        elif pair.contexts < needed:
            reasons[3].append(
                f"{system} cannot be compared with {other}: {plural(pair.contexts, 'context')} with a score of both, and "
                f"at least {needed} are needed{see}"
            )
    reason = next((texts[0] for texts in reasons.values() if texts), None)
    return Gate(system=system, worse=reason is not None, reason=reason)


def _is_worse(p: float | None, difference: float | None, sign: int) -> bool:
    return p is not None and difference is not None and p < SIGNIFICANT and sign * difference < 0


def _unscored(scores: Scores, contexts: Sequence[str]) -> int:
    """Count rows without a score; a context without a row counts as one."""
    return sum(list(scores.get(context) or (None,)).count(None) for context in contexts)


def _lacking(first: Scores, second: Scores) -> tuple[int, int]:
    """Count the contexts in which only the first system lacks a score, and those in which only the second does.

    Where one has more rows than the other, only the first rows of each count: the chance that a row is missing would
    grow with their number.
    """
    counts = [0, 0]
    for context in {*first, *second}:
        rows = [list(each.get(context) or ()) for each in (first, second)]
        common = max(1, min(map(len, rows)))
        lacks = [None in each[:common] or not each for each in rows]
        if lacks[0] != lacks[1]:
            counts[lacks.index(True)] += 1
    return counts[0], counts[1]
