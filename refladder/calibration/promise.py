"""What `calibrate` can promise: a share of a kind, how each kind is tested, and how it is worded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from refladder.calibration.threshold import (
    EXACT,
    LEAST_UNITS,
    MID_P,
    STRICT_DRAWS,
    Allowance,
    certainty,
    check_promise,
    counted,
    keeps_all,
    naive_candidate,
    passes,
    spread_distance,
    surely_complete,
    surely_precise,
    unit_sums,
    walk_certainty,
)
from refladder.errors import DataError, UsageError, option
from refladder.loaders.scored_tables import way_on
from refladder.settings import Settings, chosen
from refladder.signatures import differing_parts, is_older, same_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from refladder.arrays import BoolArray, FloatArray, IntArray
    from refladder.calibration.labelling import LabelledTable
    from refladder.calibration.records import ScoreSpread, Threshold
    from refladder.calibration.threshold import Candidates, UnitSums
    from refladder.settings import Given

KindName: TypeAlias = Literal["precision", "recall"]
# The kinds that the digests of looks have always had, see `Promise.look_values`.
_PLACES = 2
# Scores of two tables differ if equal ones would be so far apart with less than this.
_DIFFER = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How promises of a kind are tested and worded.

    `among` is a word for the rows whose share is promised, such as `good`. It is None if these are the rows kept, so
    that labels of rows above a cut-off can show their share. With `keeps_most`, the best cut-off keeps the most rows,
    else the fewest. `wanted` follows the number in a refusal, and `promised` is the end of the promise.

    `levels` takes the first candidate that keeps each labelled row, which rows are good, and the number of candidates.
    It returns the first candidates at which a row is one of those whose share is promised, and at which it is a bad one
    of them (with `keeps_most`) or one that is kept (else); the number of candidates for none.
    """

    among: str | None
    keeps_most: bool
    wanted: str
    promised: str
    levels: Callable[[IntArray, BoolArray, int], tuple[IntArray, IntArray]]


# A further kind is an entry here, an option and a parameter of its name, and a field of its name in `Threshold`.
KINDS: Mapping[KindName, Terms] = {
    "precision": Terms(
        among=None,
        keeps_most=True,
        wanted="precision",
        promised="at least {share:g} of the rows kept are good. {share:g} is a lower bound: the labels that chose the "
        "cut-off cannot also give its rate.",
        levels=lambda levels, good, none: (levels, np.where(good, none, levels)),
    ),
    "recall": Terms(
        among="good",
        keeps_most=False,
        wanted="of the good rows",
        promised="at least {share:g} of the good rows are kept.",
        levels=lambda levels, good, none: (np.where(good, 0, none), np.where(good, levels, none)),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A `share` of a kind that is promised with probability `sure`; `look` counts looks.

    A `strict` precision also holds where a rare kind of context, which the labels may not have, is wholly bad.
    """

    kind: KindName
    share: float
    sure: float = 0.9
    look: int = 1
    strict: bool = False

    def __post_init__(self) -> None:
        check_promise(self.share, self.sure)
        if self.strict and self.kind != "precision":
            raise UsageError(
                f"{option('strict')} is about {option('precision')}; leave out {option(self.kind)}"
            )

    @property
    def terms(self) -> Terms:
        """Return how promises of its kind are tested and worded."""
        return KINDS[self.kind]

    @property
    def shares(self) -> dict[str, float | None]:
        """Return the share under the name of its kind, and None under each other, as files have it."""
        return {**dict.fromkeys(KINDS), self.kind: self.share}

    @property
    def look_values(self) -> list[float | None]:
        """Return the share as the digests of looks have it: at the place of its kind, so none changes with a new kind."""
        return list(self.shares.values())[: max(_PLACES, 1 + list(KINDS).index(self.kind))]

    def certainty(self, look: int) -> float:
        """Return the certainty that a look must reach."""
        return certainty(self.sure, look)

    def sums(
        self, path: Candidates, levels: IntArray, good: BoolArray, units: IntArray
    ) -> UnitSums:
        """Return the sums for `chosen`, as `Terms.levels` counts them; the arrays have shape (..., labels)."""
        none = len(path.cutoffs)
        return unit_sums(*self.terms.levels(levels, good, none), units, none)

    def chosen(self, sums: UnitSums) -> IntArray:
        """Return the candidate that is promised for each sample of labels, or -1."""
        sure = self.certainty(self.look)
        if self.terms.keeps_most:
            worth = counted(sums)
            return surely_precise(worth.rows, worth.bad, self.share, sure, worth.allow)
        worth = counted(sums.exchanged())
        return surely_complete(worth.bad, worth.rows, self.share, sure, worth.allow)

    def tested_first(self, sums: UnitSums) -> bool:
        """Return whether the candidate that keeps all rows passes the test that comes before the walk."""
        worth, sure = counted(sums), self.certainty(self.look)
        return self.terms.keeps_most and bool(
            keeps_all(worth.rows, worth.bad, self.share, sure, worth.allow)
        )

    def naive(self, sums: UnitSums) -> int | None:
        """Return the candidate whose labels reach the share, ignoring chance; None if none does."""
        if self.terms.keeps_most:
            candidate = int(naive_candidate(sums.rows, sums.bad, self.share))
            return candidate if candidate >= 0 else None
        reached = np.flatnonzero(sums.bad >= self.share * sums.rows - 1e-9)
        return int(reached[0]) if sums.rows.any() else None

    def could_pass(self, units: IntArray) -> bool:
        """Return whether labels of these units, shape (labels,), could make the promise if they were the best ones.

        They could not if they are too few for independent ones that are all good, or of too few units. That looks at no
        label, so nothing of 1 - sure is spent.
        """
        sure = self.certainty(self.look)
        if self.terms.keeps_most:
            sure = walk_certainty(sure)
        number = len(np.unique(units))
        if self.strict:
            # The p-value is an estimate from draws, and may be five standard errors less.
            return bool(self.share**number <= 1 - sure + 5 * math.sqrt((1 - sure) / STRICT_DRAWS))
        several = number < len(units)
        if several and number < LEAST_UNITS:
            return False
        allow = Allowance(math.inf, MID_P) if several else EXACT
        return bool(passes(0, len(units), self.share, sure, allow))


def other_scores(scores: FloatArray, spread: ScoreSpread | None) -> str:
    """Say that scores, one of each context, differ from those that a threshold was made for; empty if they may not."""
    if spread is None or not len(scores):
        return ""
    distance, p = spread_distance(np.array(spread.quantiles), spread.contexts, scores)
    if p >= _DIFFER:
        return ""
    return (
        f"the scores here differ from those of the table that the threshold was made for (distance {distance:.2f}, "
        f"Kolmogorov-Smirnov test on one row a context, p {p:.2g}), so its promise may not hold: label rows of this "
        "table and calibrate again"
    )


def check_signature(
    signature: object,
    threshold: Threshold,
    where: str,
    *,
    across_judges: bool = False,
) -> bool:
    """Refuse scores on another scale than a threshold's; return whether another judge made the threshold.

    With `across_judges`, another judge on the scale of the same ladders is no other scale.
    """
    wanted, column = threshold.signature, threshold.column
    if same_scale(signature, wanted, column):
        return False
    if across_judges and same_scale(signature, wanted, column, across_judges=True):
        return True
    if is_older(wanted, signature):
        raise DataError(
            f"{where}: an earlier version of refladder made the threshold, and its signature names no criteria; run "
            "`refladder calibrate` again with its labels and these scores"
        )
    here, there = differing_parts(signature, wanted, column, across_judges=across_judges)
    way = (
        way_on(signature, wanted, column) or "run `refladder calibrate` with labels of these scores"
    )
    raise DataError(
        f"{where}: the threshold was made for scores with another signature: {here} here, {there} in the threshold "
        f"file; {way}"
    )


def spec_of(kind: type[Settings], given: Given, table: LabelledTable) -> Settings:
    """Return the settings of a job that promises something about the rows of a table."""
    return chosen(kind, {**given, "table": table, "promise": promise_of(given)})


def promise_of(given: Given) -> Promise:
    """Return the promise of a command or a call, which give the share under the name of its kind."""
    kinds = [kind for kind in KINDS if given.get(kind) is not None]
    if len(kinds) != 1:
        either = " or ".join(map(option, KINDS))
        raise UsageError(
            f"give what to promise: either {either}, such as {option('precision')} 0.9"
        )
    return chosen(Promise, {**given, "kind": kinds[0], "share": float(given[kinds[0]])})
