"""What `calibrate` returns, and the sentences that it prints."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from refladder.calibration.good_share import rate_words
from refladder.calibration.threshold import walk_certainty
from refladder.display.rendering import PlainTable, number
from refladder.display.results import Shown
from refladder.errors import agreeing, option, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.calibration.promise import Promise
    from refladder.calibration.records import Threshold
    from refladder.statistics.rate import Rate


# A bar has this number of characters.
_WIDE = 20
_LEGEND = (
    ("kept", "share of the rows that reach the cut-off"),
    ("labels", "labelled rows that reach it"),
    ("bad", "those of them that are not good"),
    ("precision", "share of good ones among these labels"),
    (
        "bound",
        "lower bound of the precision for this cut-off alone, with which the promise is compared",
    ),
    ("0 to 1", "-: up to the bound, =: from the bound to the precision, |: the promise"),
)
_MARKS = "*: the promised cut-off; n: the cut-off without a promise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A candidate cut-off: `counted` is the effective number of its labels, `low` the bound of its own precision."""

    cutoff: float
    kept: int
    kept_share: float
    labels_above: int
    bad_above: int
    counted: float
    precision: float | None
    low: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """The calibration of the best surface measure: its name, share of rows kept (None: refused) and AUC."""

    measure: str
    kept_share: float | None
    auc: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Shown):
    """The result of `calibrate`.

    `threshold` is the file's record. `units` are labelled contexts or rows. `spent` says whether this was a look: too
    few labels for any cut-off are none. `steps` are the candidates, strictest first, and `chosen` the number of the
    promised one, None where it is refused; `naive` that of the cut-off without a promise. `labels_needed` more labels
    of rows that reach `lowest` would do at the next look if none of them is bad (with `recall`: more labels of good
    rows), and `units_needed` of what was drawn to be labelled, with as many labelled rows each as so far. Both are 0
    for a promise that is made. `rows_left` rows that reach `lowest` have no label; where they are too few, more rows
    have to be scored first (`possible` is false). Where that many good labels are unlikely, `lowest` and the numbers
    are None. `tested_first` says that all rows are kept because they passed the test before the walk. `auc` is None
    where all labels are good or none is. `rate` and `powered` are the share of good rows among all, from the labels
    alone and with the scores; None where that would be no such share.
    """

    threshold: Threshold
    promise: Promise
    spent: bool
    steps: tuple[Step, ...]
    chosen: int | None
    naive: int | None
    lowest: Step | None
    labels_needed: int | None
    units_needed: int | None
    rows_left: int | None
    possible: bool
    tested_first: bool
    auc: float | None
    surface: Surface | None
    rate: Rate | None
    powered: Rate | None
    unscored: int
    units: int
    notes: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Return whether no cut-off can be promised."""
        return self.chosen is None

    @property
    def next_look(self) -> int:
        """Return the number of the look that further labels would have."""
        return self.promise.look + self.spent

    @property
    def surface_suffices(self) -> bool:
        """Return whether the surface measure can make the promise, and its cut-off is no worse."""
        if self.surface is None or self.surface.kept_share is None:
            return False
        kept = self.threshold.kept / self.threshold.rows
        if self.promise.terms.keeps_most:
            return self.surface.kept_share >= kept
        return self.refused or self.surface.kept_share <= kept

    def tables(self) -> list[PlainTable]:
        """Return the table of the candidates."""
        record = self.threshold
        return [_steps_table(record.column, self.steps, self.chosen, self.naive, record.precision)]

    def lines(self) -> list[str]:
        """Return the sentences under the table, with the promise or the refusal as the last."""
        promise, record = self.promise, self.threshold
        wanted, promised = promise.terms.wanted, promise.terms.promised.format(share=promise.share)
        if record.cutoff is None:
            refusal = f"Refused: no cut-off reaches {promise.share:g} {wanted} with certainty {promise.sure:g}."
            advice = _strict_advice(self) if promise.strict else _advice(self)
            return [*_sentences(self), f"{refusal} {advice}"]
        cutoff = f"Promise: {record.column} >= {record.cutoff:.6g}."
        return [*_sentences(self), f"{cutoff} With probability {promise.sure:g}, {promised}"]

    def summary(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        record, surface, naive = self.threshold, self.surface, None
        if self.naive is not None:
            step = self.steps[self.naive]
            naive = {"threshold": step.cutoff, "kept_share": step.kept_share}
        return {
            "threshold": record.cutoff,
            "refused": self.refused,
            "labels": record.labels,
            "labels_above": record.labels_above,
            "bad_above": record.bad_above,
            "rows": record.rows,
            "unscored": self.unscored,
            "kept": record.kept,
            "kept_share": record.kept / record.rows,
            "labels_needed": self.labels_needed,
            "units_needed": self.units_needed,
            "rows_left": self.rows_left,
            "unit": record.unit,
            "look": record.look,
            "spent": self.spent,
            "lowest_candidate": None if self.lowest is None else self.lowest.cutoff,
            **self.promise.shares,
            "sure": record.sure,
            "strict": self.promise.strict,
            "naive": naive,
            "surface": None if surface is None else asdict(surface),
            "auc": self.auc,
            "good_share": self.rate._asdict() if self.rate else None,
            "good_share_with_scores": self.powered._asdict() if self.powered else None,
            "candidates": list(map(asdict, self.steps)),
            "signature": record.signature,
            "notes": list(self.notes),
        }


def _sentences(result: Calibration) -> Iterator[str]:
    """Yield lines on what labels and scores show: counts, the naive cut-off, AUC and the share of good rows."""
    record, surface = result.threshold, result.surface
    missing = f", {result.unscored:,} more without a score" if result.unscored else ""
    yield f"{plural(record.rows, 'row')}{missing}; {plural(record.labels, 'label')}, taken as a random sample of them"
    promise = result.promise
    this, then = (1 - promise.certainty(look) for look in (promise.look, promise.look + 1))
    if result.spent:
        yield (
            f"look {promise.look} at these labels: its promise may be wrong with probability {this:.3g}. Look "
            f"{promise.look + 1} would have {then:.3g}, and so need more labels. All looks together have "
            f"{1 - promise.sure:.3g}."
        )
    else:
        yield (
            "The labels are too few for any cut-off, even if all of them were good, so this does not count as a look. "
            f"Look {promise.look} may be wrong with probability {this:.3g}."
        )
    if record.cutoff is not None:
        kept = f"kept: {plural(record.kept, 'row')} ({record.kept / record.rows:.1%})"
        labels = f"{plural(record.labels_above, 'label')} there, {record.bad_above:,} bad"
        first = "; all rows passed the test that comes first" if result.tested_first else ""
        yield f"{kept}; {labels}{first}"
    if result.naive is None:
        yield "without a promise: no cut-off reaches this on the labels"
    else:
        step = result.steps[result.naive]
        yield (
            f"without a promise: {record.column} >= {step.cutoff:.6g} would keep {step.kept_share:.1%} (no "
            "allowance for chance)"
        )
    auc = "not known, all labels are equal" if result.auc is None else f"{result.auc:.3f}"
    yield f"AUC: {auc}"
    if surface is None and not promise.strict:
        yield "baseline without a judge: none (it needs the texts of the labelled rows, of two contexts)"
    elif surface is not None:
        keeps = "no cut-off found"
        if surface.kept_share is not None:
            keeps = f"keeps {surface.kept_share:.1%}"
        auc = "" if surface.auc is None else f"AUC {surface.auc:.3f}, "
        yield f"baseline without a judge ({surface.measure}): {auc}{keeps}"
        if result.surface_suffices:
            yield "This baseline alone can make the promise, and is no worse."
    if result.rate is not None:
        scores = "" if result.powered is None else f"; with the scores {rate_words(result.powered)}"
        rows = "rows with a score" if result.unscored else "rows"
        yield f"good among all {rows}: {rate_words(result.rate)}{scores}"


def _strict_advice(result: Calibration) -> str:
    """Return what a strict promise needs at least."""
    promise, strict = result.promise, option("strict")
    now = 1 - walk_certainty(promise.certainty(promise.look))
    error = 1 - walk_certainty(promise.certainty(result.next_look))
    most = now ** (1 / result.units)
    contexts = math.ceil(math.log(error) / math.log(promise.share))
    return (
        f"With {plural(result.units, 'labelled context')}, {strict} can promise {most:.3g} at most; "
        f"{promise.share:g} needs {contexts:,} contexts or more, without a bad row."
    )


def _advice(result: Calibration) -> str:
    """Return what could change a refusal."""
    among, step, more = result.promise.terms.among, result.lowest, result.labels_needed
    if step is None or more is None or result.units_needed is None:
        return (
            "More labels are unlikely to change this, because too many are bad. Promise less, or use a judge that "
            "separates good rows from bad ones better."
        )
    units = where = ""
    if 2 * result.units_needed <= more:
        units = f", of {plural(result.units_needed, 'context')} with as many labelled rows each"
    if among is None:
        where = f" with {result.threshold.column} >= {step.cutoff:.6g}"
    if not result.possible:
        needed = plural(more, f"more {among or 'good'} label")
        comma = "," if units else ""
        left = result.rows_left or 0
        return (
            f"Score more rows first: at least {needed} of rows{where}{units}{comma} {agreeing(more, 'is', 'are')} needed, "
            f"and {plural(left, 'row')} there {agreeing(left, 'has', 'have')} no label."
        )
    if among is not None:
        return f"Label more rows{units}, of which at least {more:,} must be {among}."
    must = "it must be good" if more == 1 else "all must be good"
    advice = f"Label at least {plural(more, 'more row')}{where}{units}; {must}."
    if step.bad_above:
        advice += f" So far {step.bad_above} of {step.labels_above} labels there are bad."
    return advice


def _steps_table(
    column: str, steps: Sequence[Step], chosen: int | None, naive: int | None, share: float | None
) -> PlainTable:
    """Show cut-offs, strictest first, with a bar from the bound to the precision."""
    rows = []
    for position, step in enumerate(steps):
        marks = f"{'*' if position == chosen else ''}{'n' if position == naive else ''}"
        rows.append(
            [
                f"{step.cutoff:.4g} {marks}".rstrip(),
                number(step.kept_share, 2),
                f"{step.labels_above:,}",
                f"{step.bad_above:,}",
                number(step.precision, 3),
                number(step.low, 3),
                _bar(step, share),
            ]
        )
    heads = [f"{column} >=", "kept", "labels", "bad", "precision", "bound", "0 to 1"]
    return PlainTable(f"Cut-offs, strictest first. {_MARKS}", heads, rows, _LEGEND)


def _bar(step: Step, share: float | None) -> str:
    if step.precision is None:
        return ""
    low = round(step.low * _WIDE)
    high = round(step.precision * _WIDE)
    cells = ["-"] * low + ["="] * (high - low) + [" "] * (_WIDE - high)
    if share is not None:
        cells[min(round(share * _WIDE), _WIDE - 1)] = "|"
    return "".join(cells) + "."
