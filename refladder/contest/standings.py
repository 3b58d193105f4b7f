"""Win rates of models from trials: by row, and over all rows with intervals; and their tables."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.arrays import known_numbers
from refladder.display.rendering import DASH, PlainTable, number
from refladder.statistics.shares import share_intervals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

OVERALL = "overall"
_WIN, _TIE, _LOSS, _UNPARSED = range(4)
# The keys of the counts have these heads in tables.
_COUNTS = {
    "wins": "wins",
    "ties": "ties",
    "losses": "losses",
    "unparsed": "unparsed",
    "failed": "no text",
}
_LEGEND = (
    ("win rate", "(wins + ties / 2) / (wins + ties + losses)"),
    ("interval", "95 % interval over rows"),
    ("wins", "pairs in which both orders choose this model's text"),
    ("ties", "pairs whose two orders disagree or are undecided"),
    ("unparsed", "pairs without a usable answer; not counted"),
    ("no text", "rows without a text by the model; not counted"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One pair of texts of one row, judged on one criterion.

    `forward` is P(`one` beats `other`) when `one` is shown first, `backward` when it is second; None where unparsed.
    `winner` is chosen by both orders; `tie`: they disagree. `mass` is the lesser label mass; None where there is none.
    """

    kind: str = "trial"
    row: str
    criterion: str
    one: str
    other: str
    forward: float | None = None
    backward: float | None = None
    winner: str | None = None
    tie: bool = False
    note: str | None = None
    explanation: str | None = None
    mass: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one model did on one criterion, or on `overall`, in one row or (`row` None) in all.

    `rate` = (wins + ties / 2) / trials, None without trials; `low` and `high` are the ends of its 95 % interval, by the
    spread between rows (see `share_intervals`), None where fewer than two rows have a trial. `failed` rows have no text
    of the model, `unparsed` trials could not be judged; neither counts.
    """

    kind: str = "standing"
    row: str | None = None
    model: str = ""
    criterion: str = ""
    rate: float | None
    low: float | None = None
    high: float | None = None
    wins: int
    ties: int
    losses: int
    unparsed: int
    failed: int


def standings_of(
    trials: Sequence[Trial],
    written: Collection[tuple[str, str]],
    *,
    rows: Sequence[str],
    models: Sequence[str],
    criteria: Sequence[str],
    weights: Sequence[float] | None = None,
) -> list[Standing]:
    """Count standings by row, then over all rows, best model first within a criterion.

    `overall` adds up all criteria. With weights its rate is weighted, and its counts leave out criteria of weight 0.
    """
    counts = np.zeros((len(rows), len(models), len(criteria), 4), dtype=np.int64)
    row_numbers = {row: number for number, row in enumerate(rows)}
    for trial in trials:
        for model in (trial.one, trial.other):
            cell = row_numbers[trial.row], models.index(model), criteria.index(trial.criterion)
            counts[*cell, _kind(trial, model)] += 1
    failed = np.ones((len(rows), len(models)), dtype=np.bool_)
    for row, model in written:
        failed[row_numbers[row], models.index(model)] = False
    relative = np.ones(len(criteria))
    if weights is not None:
        relative = np.array(weights) * len(criteria) / sum(weights)
    if np.count_nonzero(relative) == 1:
        relative = np.sign(relative)
    by_criterion = np.moveaxis(counts, 2, 0)
    layers = list(zip(criteria, by_criterion, by_criterion, strict=True))
    if len(criteria) > 1:
        weighted = (counts * relative[:, None]).sum(axis=2)
        layers.append((OVERALL, counts[:, :, relative > 0].sum(axis=2), weighted))
    by_row = []
    over_rows = []
    for criterion, layer_counts, layer_weighted in layers:
        points = layer_weighted[..., _WIN] + layer_weighted[..., _TIE] / 2
        trials_by_row = layer_weighted[..., :_UNPARSED].sum(axis=2).astype(np.float64)
        for (line, row), (column, model) in itertools.product(enumerate(rows), enumerate(models)):
            at = (line, column)
            standing = _standing(layer_counts[at], failed[at], points[at], trials_by_row[at])
            by_row.append(replace(standing, row=row, model=model, criterion=criterion))
        intervals = share_intervals(points.T, trials_by_row.T)
        total = []
        for column, model in enumerate(models):
            low, high = known_numbers(intervals[column])
            standing = _standing(
                layer_counts[:, column].sum(axis=0),
                failed[:, column].sum(),
                points[:, column].sum(),
                trials_by_row[:, column].sum(),
            )
            total.append(replace(standing, model=model, criterion=criterion, low=low, high=high))
        over_rows += sorted(total, key=lambda each: 1.0 if each.rate is None else -each.rate)
    return [*by_row, *over_rows]


def standing_tables(standings: Iterable[Standing]) -> list[PlainTable]:
    """Make a table for each criterion of the standings over all rows."""
    groups: defaultdict[str, list[list[str]]] = defaultdict(list)
    for standing in standings:
        if standing.row is not None:
            continue
        interval = DASH
        if standing.low is not None:
            interval = f"[{standing.low:.3f}, {standing.high:.3f}]"
        counts = [f"{getattr(standing, key):,}" for key in _COUNTS]
        row = [standing.model, number(standing.rate, 3), interval, *counts]
        groups[standing.criterion].append(row)
    heads = ["model", "win rate", "interval", *_COUNTS.values()]
    caption = "{}: win rate over pairs of texts, each judged in both orders"
    return [
        PlainTable(caption.format(criterion), heads, rows, _LEGEND)
        for criterion, rows in groups.items()
    ]


def _kind(trial: Trial, model: str) -> int:
    if trial.tie:
        return _TIE
    if trial.winner is None:
        return _UNPARSED
    return _WIN if trial.winner == model else _LOSS


def _standing(counts: NDArray[np.int64], failed: int, points: float, trials: float) -> Standing:
    """Return a standing that is of no row, model or criterion yet."""
    wins, ties, losses, unparsed = counts.tolist()
    return Standing(
        rate=float(points / trials) if trials else None,
        wins=wins,
        ties=ties,
        losses=losses,
        unparsed=unparsed,
        failed=int(failed),
    )
