"""Tables of cut-offs with their labels, and of what more labels can promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from refladder.display.rendering import DASH, PlainTable, number

if TYPE_CHECKING:
    from collections.abc import Sequence

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
class Batch:
    """A promise of `more` labels: `bad_allowed` at the next look, or the `precision` if none is bad.

    `chance` is the probability of the promise if further labels are like those so far; None without labels.
    """

    more: int
    labels: int
    bad_allowed: int | None
    precision: float
    chance: float | None


def steps_table(
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


def plan_table(batches: Sequence[Batch], look: int, precision: float, sure: float) -> PlainTable:
    """Show what more labels can promise."""
    legend = (
        ("more", "further labels, all of rows that are drawn as below"),
        ("labels", "with those of such rows that exist"),
        (
            "bad allowed",
            f"bad ones among them with which a precision of {precision:g} can be promised, sure {sure:g}",
        ),
        ("without bad", "the precision that can be promised if none of them is bad"),
        ("chance", "that the promise can be made, if further labels are like those so far"),
    )
    rows = [
        [
            f"{batch.more:,}",
            f"{batch.labels:,}",
            DASH if batch.bad_allowed is None else f"{batch.bad_allowed:,}",
            number(batch.precision, 3),
            number(batch.chance, 2),
        ]
        for batch in batches
    ]
    caption = f"What more labels can promise for the lowest cut-off, at look {look}"
    return PlainTable(caption, [term for term, _ in legend], rows, legend)


def rate_words(rate: Rate) -> str:
    """Show a share with its interval."""
    if rate.low is None or rate.high is None:
        return f"{rate.value:.3f} (no interval)"
    return f"{rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}] (95 % interval)"


def _bar(step: Step, share: float | None) -> str:
    if step.precision is None:
        return ""
    low = round(step.low * _WIDE)
    high = round(step.precision * _WIDE)
    cells = ["-"] * low + ["="] * (high - low) + [" "] * (_WIDE - high)
    if share is not None:
        cells[min(round(share * _WIDE), _WIDE - 1)] = "|"
    return "".join(cells) + "."
