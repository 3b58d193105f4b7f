"""Win rates of models from trials: by row, and over all rows with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.metaeval.shares import share_intervals

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

OVERALL = "overall"
_WIN, _TIE, _LOSS, _UNREAD = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One pair of texts of one row, judged on one criterion.

    `forward` is the probability that `one` beats `other` when `one` is shown first, `backward` when it is second; None
    where the judge could not be read. `winner` is the model that both orders choose; `tie` says that they disagree, or
    are undecided. When an order could not be read there is neither, and `note` says why.
    """

    kind: str = "trial"
    row: str
    criterion: str
    one: str
    other: str
    forward: float | None
    backward: float | None
    winner: str | None
    tie: bool
    note: str | None = None
    explanation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one model did on one criterion, or on `overall`, in one row or (`row` None) in all.

    `rate` = (wins + ties / 2) / trials, None without trials; `low` and `high` are the ends of its 95 % interval, by the
    spread between rows (see `share_intervals`), None where fewer than two rows have a trial. `failed` rows have no text
    of the model, `unread` trials could not be judged; neither counts.
    """

    kind: str = "standing"
    row: str | None
    model: str
    criterion: str
    rate: float | None
    low: float | None = None
    high: float | None = None
    wins: int
    ties: int
    losses: int
    unread: int
    failed: int


def standings_of(
    trials: Sequence[Trial],
    written: Collection[tuple[str, str]],
    *,
    rows: Sequence[str],
    models: Sequence[str],
    criteria: Sequence[str],
) -> list[Standing]:
    """Standings by row, and then over all rows, best model first within a criterion.

    With two criteria or more, `overall` adds up the trials of all of them.

    Args:
        trials: of these rows, models and criteria.
        written: (row, model) of every text there is.
        rows: their ids.
        models: their names.
        criteria: their names.
    """
    counts = np.zeros((len(rows), len(models), len(criteria), 4), dtype=np.int64)
    places = {row: place for place, row in enumerate(rows)}
    for trial in trials:
        place, layer = places[trial.row], criteria.index(trial.criterion)
        for model in (trial.one, trial.other):
            counts[place, models.index(model), layer, _kind(trial, model)] += 1
    failed = np.array([[(row, model) not in written for model in models] for row in rows])
    layers = [(name, counts[:, :, place]) for place, name in enumerate(criteria)]
    if len(criteria) > 1:
        layers.append((OVERALL, counts.sum(axis=2)))
    by_row, in_all = [], []
    for criterion, own in layers:
        for place, row in enumerate(rows):
            for column, model in enumerate(models):
                by_row.append(_standing(own[place, column], int(failed[place, column]), row, model, criterion))
        points, played = own[..., _WIN] + own[..., _TIE] / 2, own[..., :_UNREAD].sum(axis=2).astype(np.float64)
        intervals = share_intervals(points.T, played.T)
        total = []
        for column, model in enumerate(models):
            low, high = intervals[column].tolist()
            one = _standing(own[:, column].sum(axis=0), int(failed[:, column].sum()), None, model, criterion)
            total.append(replace(one, low=_known(low), high=_known(high)))
        in_all += sorted(total, key=lambda one: -1.0 if one.rate is None else one.rate, reverse=True)
    return [*by_row, *in_all]


def _kind(trial: Trial, model: str) -> int:
    if trial.tie:
        return _TIE
    if trial.winner is None:
        return _UNREAD
    return _WIN if trial.winner == model else _LOSS


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _standing(counts: NDArray[np.int64], failed: int, row: str | None, model: str, criterion: str) -> Standing:
    wins, ties, losses, unread = counts.tolist()
    trials = wins + ties + losses
    return Standing(
        row=row,
        model=model,
        criterion=criterion,
        rate=(wins + ties / 2) / trials if trials else None,
        wins=wins,
        ties=ties,
        losses=losses,
        unread=unread,
        failed=failed,
    )
