"""Asks about the rows of a batch in rounds: one rung of every row that is open, until each decision is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.scoring.judging import verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.records import Judgment
    from refladder.scoring.question import Question
    from refladder.scoring.stopping import Bounds, StopRule

NOT_ASKED = -1.0  # in place of the probabilities of a rung


class Asked(NamedTuple):
    """What is known of some rows: the judgments of each, by the position of their question, and the bounds."""

    judgments: list[dict[int, Judgment]]
    bounds: Bounds


def ask_in_rounds(
    stop: StopRule,
    shape: tuple[int, int, int],
    rows: Sequence[Sequence[Question]],
    stored: Sequence[Mapping[int, Judgment]],
    *,
    ask: Callable[[Sequence[Question]], Sequence[Judgment]],
    trust: Callable[[Sequence[Judgment]], Sequence[Judgment]],
) -> Asked:
    """Ask about rows until every decision is certain. A row with an unparsed judgment is not asked about again.

    Each round is one call of the judge, with the next rung of every open row. `shape` is dimensions, rungs, orders;
    `stored` judgments, by the position of their question, are not asked again. `trust` gives judgments as they are
    scored; the result has those that were needed as they are stored.
    """
    dimensions, rungs, orders = shape
    probabilities = np.full((len(rows), dimensions, rungs, 3), NOT_ASKED)
    judgments: list[dict[int, Judgment]] = [{} for _ in rows]
    while True:
        bounds = stop.bounds(probabilities)
        columns = stop.column_bounds(bounds)
        waiting = np.flatnonzero(stop.decisions(columns) == 0)
        if not len(waiting):
            return Asked(judgments, bounds)
        chosen = stop.next_rungs(probabilities[waiting], columns[waiting]).tolist()
        pairs = [
            (row, position)
            for row, rung in zip(waiting.tolist(), chosen, strict=True)
            for position in range(rung * orders, (rung + 1) * orders)
        ]
        new = [(row, position) for row, position in pairs if position not in stored[row]]
        answered = dict(zip(new, ask([rows[row][position] for row, position in new]), strict=True))
        for row, position in pairs:
            judgments[row][position] = answered.get((row, position)) or stored[row][position]
        read = verdicts(trust([judgments[row][position] for row, position in pairs]), 1, orders)[:, 0]
        probabilities.reshape(len(rows), -1, 3)[waiting, chosen] = read


def undecided(
    stop: StopRule,
    shape: tuple[int, int, int],
    stored: Sequence[Mapping[int, Judgment]],
    trust: Callable[[Sequence[Judgment]], Sequence[Judgment]],
) -> list[int]:
    """The rows that stored judgments, by the position of their question, do not decide."""
    dimensions, rungs, orders = shape
    probabilities = np.full((len(stored), dimensions, rungs, 3), NOT_ASKED)
    for row, of_row in enumerate(stored):
        whole = [
            rung
            for rung in range(dimensions * rungs)
            if all(rung * orders + order in of_row for order in range(orders))
        ]
        if whole:
            judgments = [of_row[rung * orders + order] for rung in whole for order in range(orders)]
            probabilities[row].reshape(-1, 3)[whole] = verdicts(trust(judgments), 1, orders)[:, 0]
    return np.flatnonzero(stop.decisions(stop.column_bounds(stop.bounds(probabilities))) == 0).tolist()
