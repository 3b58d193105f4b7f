"""The gate of compare: whether a system is worse than another one, also where rows have no score."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.comparison.results import Gate, Pair, WorstCase
from refladder.display.rendering import number
from refladder.errors import plural
from refladder.loaders.scored_tables import run_of
from refladder.records import without_none
from refladder.statistics.bootstrap import MeanDifference, mean_difference
from refladder.statistics.certificate import sign_test
from refladder.statistics.correction import SIGNIFICANT, holm

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import TypeAlias

    from refladder.arrays import FloatArray

    # A system has scores in each context; that of a row without a score is None.
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
    numbers: list[float] = []
    for contexts in scores:
        for values in contexts.values():
            numbers += without_none(values)
    return LowEnd(min(numbers, default=None), "the lowest score in the tables")


def context_means(
    scores: Scores, contexts: Sequence[str], unscored: float | None = None
) -> FloatArray:
    """Return the mean score in each context, NaN where there is none.

    With `unscored`, rows without a score and contexts without a row count as this number.
    """
    means = np.full(len(contexts), np.nan)
    for place, context in enumerate(contexts):
        rows = _rows_of(scores, context)
        known = without_none(rows)
        if unscored is not None:
            known += [unscored] * rows.count(None)
        if known:
            means[place] = math.fsum(known) / len(known)
    return means


def _rows_of(scores: Scores, context: str) -> Sequence[float | None]:
    """Return the scores of the rows of a context; a context without a row has one without a score."""
    return scores.get(context) or (None,)


def corrected(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values after Holm's correction over those that are numbers."""
    adjusted = iter(holm(without_none(p_values)))
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
    cases = []
    p_values = []
    for names, as_before in compared:
        first, second = scores[names[0]], scores[names[1]]
        contexts = sorted({*first, *second})
        unscored_first, unscored_second = _unscored(first, contexts), _unscored(second, contexts)
        found = as_before
        if unscored_first or unscored_second:
            means = context_means(first, contexts, low), context_means(second, contexts, low)
            found = mean_difference(*means, seed=seed)
        p_values.append(found.p if system is None or system in names else None)
        cases.append(
            WorstCase(
                difference=found.difference,
                low=found.low,
                high=found.high,
                p=found.p,
                p_holm=None,
                unscored_first=unscored_first,
                unscored_second=unscored_second,
            )
        )
    p_holm = corrected(p_values)
    return [replace(case, p_holm=p) for case, p in zip(cases, p_holm, strict=True)]


def decide(
    system: str, by: str, pairs: Sequence[Pair], scores: Mapping[str, Scores], low: LowEnd
) -> Gate:
    """Decide whether a system passes.

    It fails if it is significantly worse than another one on the contexts that both score; if it is so in the worst
    case; if it lacks a score in significantly more contexts; or if no difference could be significant. Each test is
    corrected over the pairs of the system. Pairs without a worst case are decided by the first test alone. The gate says
    too which others are significantly worse than the system, in either of the first two tests.
    """
    own = [pair for pair in pairs if system in (pair.first, pair.second)]
    others = [pair.second if pair.first == system else pair.first for pair in own]
    lacking = np.array([_lacking(scores[system], scores[other]) for other in others])
    more = holm(sign_test(lacking[:, 0], lacking.sum(axis=1)).tolist())
    # With fewer contexts, not even a difference in every one of them is significant in a two-sided test.
    needed = math.floor(math.log2(len(own) / SIGNIFICANT)) + 2
    # A reason and the number of the test that it is of; the first test with a reason decides.
    reasons: list[tuple[int, str]] = []
    beaten = []
    p_values = corrected([pair.p for pair in own])
    for pair, other, p, lacks, p_more in zip(own, others, p_values, lacking, more, strict=True):
        sign = 1 if pair.first == system else -1
        worse = f"{system} is significantly worse than {other}"
        if _is_worse(p, pair.difference, sign):
            both = f"on the {pair.contexts:,} contexts that both score (p {number(p, 4)})"
            reasons.append((1, f"{worse} {both}"))
        worst = pair.worst_case
        if _is_worse(p, pair.difference, -sign) or (
            worst is not None and _is_worse(worst.p_holm, worst.difference, -sign)
        ):
            beaten.append(other)
        if worst is None:
            continue
        ours, theirs = worst.unscored_first, worst.unscored_second
        if sign < 0:
            ours, theirs = theirs, ours
        counts = f"{ours:,} of {system} and {theirs:,} of {other}"
        see = rows = ""
        if ours or theirs:
            see = f"; to see them: refladder filter SCORED --min {by}=0 --unscored FILE"
            rows = f"; rows without a score: {counts}{see}"
        if _is_worse(worst.p_holm, worst.difference, sign):
            as_low = f"if rows without a score ({counts}) count as {low.value:g}, {low.meaning}"
            reasons.append((2, f"{worse} (p {number(worst.p_holm, 4)}) {as_low}{see}"))
        if p_more < SIGNIFICANT:
            lacking_more = (
                f"{system} lacks a score in significantly more contexts than {other}: {lacks[0]:,} have one of {other} "
                f"only, and {lacks[1]:,} of {system} only (p {number(p_more, 4)}){rows}"
            )
            reasons.append((3, lacking_more))
        elif pair.contexts < needed:
            too_few = (
                f"{system} cannot be compared with {other}: {plural(pair.contexts, 'context')} with a score of both, and "
                f"at least {needed} are needed{rows}"
            )
            reasons.append((3, too_few))
    _, reason = min(reasons, key=itemgetter(0), default=(0, None))
    # Whoever reads only this value must not pass a system that cannot be compared.
    return Gate(
        system=system,
        worse=reason is not None,
        reason=reason,
        compared=tuple(others),
        beaten=tuple(beaten),
    )


def _is_worse(p: float | None, difference: float | None, sign: int) -> bool:
    return p is not None and difference is not None and p < SIGNIFICANT and sign * difference < 0


def _unscored(scores: Scores, contexts: Sequence[str]) -> int:
    """Count rows without a score; a context without a row counts as one."""
    return sum(_rows_of(scores, context).count(None) for context in contexts)


def _lacking(first: Scores, second: Scores) -> tuple[int, int]:
    """Count the contexts in which only the first system lacks a score, and those in which only the second does.

    Where one has more rows than the other, only the first rows of each count: the chance that a row is missing would
    grow with their number.
    """
    only_first = only_second = 0
    for context in {*first, *second}:
        rows, others = _rows_of(first, context), _rows_of(second, context)
        common = min(len(rows), len(others))
        lacks, other_lacks = None in rows[:common], None in others[:common]
        only_first += lacks and not other_lacks
        only_second += other_lacks and not lacks
    return only_first, only_second
