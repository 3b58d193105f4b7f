"""Sorting searches (PairS): merge sort with comparisons by a judge, greedy or with a beam.

A sort is a generator: it yields the next pairs, receives the probability that the first of each pair is better, and
returns the items, best first. Merges of one depth ask together, and `run_together` advances many sorts at once, so that
a judge gets one batch per round.

Source: Liu et al. 2024, PairS, arXiv 2403.16950.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from refladder.errors import UsageError
from refladder.statistics.estimators import SAME

Pair = tuple[int, int]
Sort = Generator[list[Pair], Sequence[float], list[int]]

# This keeps the logarithm of a probability of 0 finite.
_FLOOR = 1e-9


def comparisons_between(items: int, *, beam: int = 1) -> tuple[int, int]:
    """Return the minimum and maximum number of comparisons of a merge sort of N items.

    A merge of L and R items takes min(L, R) to L + R - 1 steps. With a beam, every path asks at each step. There
    are at most `beam` paths, and at most as many as there are ways to take that many items from both sides.
    """
    if items < 2:
        return 0, 0
    left = items // 2
    right = items - left
    least, most = np.add(
        comparisons_between(left, beam=beam), comparisons_between(right, beam=beam)
    ).tolist()
    for step in range(items - 1):
        paths = min(step, left - 1) - max(0, step - right + 1) + 1
        most += min(beam, paths)
    # The left half is the smaller: a merge asks at least as often as it has items.
    return least + left, most


def beam_sort(items: Sequence[int], *, beam: int = 10, gap: float = 0.1) -> Sort:
    """Merge sort items, following several merges that branch only at uncertain answers (PairS-beam).

    A merge is a path of answers; its value is the mean log-probability of its answers. If the probability is within
    `gap` of 1/2, both answers are followed, otherwise only the more probable one (uncertainty pruning). Of several
    paths that took the same items from both sides only the best continues, since their remaining merges are the same.
    Of all paths the `beam` best continue.

    Args:
        items: the items in random order, so that ties favour none.
        beam: number of paths, at least 1. One path with gap 0 follows every answer: PairS-greedy.
        gap: between 0 and 1/2; 1/2 prunes nothing.

    Raises:
        UsageError: a beam or gap out of range.
    """
    if beam < 1 or not 0 <= gap <= 0.5:
        raise UsageError(
            f"beam {beam}, gap {gap:g}: the beam must be 1 or more and the gap between 0 and 0.5"
        )
    return _sort(list(items), beam, gap)


def _sort(items: list[int], beam: int, gap: float) -> Sort:
    if len(items) < 2:
        return items
    middle = len(items) // 2
    halves = [_sort(items[:middle], beam, gap), _sort(items[middle:], beam, gap)]
    left, right = yield from _together(halves)
    return (yield from _merge(left, right, beam, gap))


def _together(sorts: list[Sort]) -> Generator[list[Pair], Sequence[float], list[list[int]]]:
    """Run several sorts as one: their questions form one batch."""
    under_way = _UnderWay(sorts)
    while under_way.waiting:
        batch = dict(under_way.waiting)
        answers = yield list(itertools.chain.from_iterable(batch.values()))
        start = 0
        for number, pairs in batch.items():
            under_way.advance(number, answers[start : start + len(pairs)])
            start += len(pairs)
    return [under_way.orders[number] for number in range(len(sorts))]


class _UnderWay:
    """Sorts under way, by number: the next pairs of those that wait for answers, and the orders of those that ended."""

    def __init__(self, sorts: Sequence[Sort]) -> None:
        self.sorts = sorts
        self.waiting: dict[int, list[Pair]] = {}
        self.orders: dict[int, list[int]] = {}
        for number in range(len(sorts)):
            self.advance(number, None)

    def advance(self, number: int, answers: Sequence[float] | None) -> None:
        """Give a sort its answers; None starts it."""
        self.waiting.pop(number, None)
        sort = self.sorts[number]
        try:
            self.waiting[number] = next(sort) if answers is None else sort.send(answers)
        except StopIteration as stop:
            self.orders[number] = stop.value


def _merge(left: list[int], right: list[int], beam: int, gap: float) -> Sort:
    # Unfinished paths are under the numbers of items taken from both sides; all have equally many answers.
    paths: dict[Pair, tuple[float, tuple[bool, ...]]] = {(0, 0): (0.0, ())}
    best: tuple[float, tuple[bool, ...]] = (-math.inf, ())
    step = 0
    while paths:
        step += 1
        answers = yield [(left[i], right[j]) for i, j in paths]
        reached: dict[Pair, tuple[float, tuple[bool, ...]]] = {}
        for ((i, j), (value, steps)), probability in zip(paths.items(), answers, strict=True):
            for takes_left in (True, False):
                chosen = probability if takes_left else 1 - probability
                pruned = chosen < 0.5 - gap - SAME
                tie_that_left_takes = gap == 0 and not takes_left and chosen <= 0.5 + SAME
                if pruned or tie_that_left_takes:
                    continue
                taken = (i + takes_left, j + (not takes_left))
                path = (value + math.log(max(chosen, _FLOOR)), (*steps, takes_left))
                if taken[0] == len(left) or taken[1] == len(right):
                    if path[0] / step > best[0]:
                        best = path[0] / step, path[1]
                elif taken not in reached or path[0] > reached[taken][0]:
                    reached[taken] = path
        paths = dict(sorted(reached.items(), key=lambda item: -item[1][0])[:beam])
    merged: list[int] = []
    i = j = 0
    for takes_left in best[1]:
        merged.append(left[i] if takes_left else right[j])
        i += takes_left
        j += not takes_left
    return merged + left[i:] + right[j:]


@dataclass(slots=True, kw_only=True)
class Sorted:
    """A finished sort: `order` best first, or None if an answer was not parsed. `asked` holds its answers."""

    order: list[int] | None = None
    asked: dict[Pair, float] = field(default_factory=dict)

    def scores(self, items: int) -> list[float | None]:
        """Return the number of items ranked below each item; tied neighbours share the mean. None for an unfinished sort.

        Args:
            items: N; an item that was not sorted gets None.
        """
        scores: list[float | None] = [None] * items
        if self.order is None:
            return scores
        start = 0
        for end in range(1, len(self.order) + 1):
            if end < len(self.order) and self._tied(self.order[end - 1], self.order[end]):
                continue
            for item in self.order[start:end]:
                scores[item] = len(self.order) - (start + end - 1) / 2 - 1
            start = end
        return scores

    def _tied(self, first: int, second: int) -> bool:
        probability = self.asked.get((first, second), self.asked.get((second, first)))
        return probability is not None and abs(probability - 0.5) <= SAME


def run_together(
    sorts: Sequence[Sort], ask: Callable[[list[tuple[int, int, int]]], Iterable[float]]
) -> list[Sorted]:
    """Run sorts side by side with one batch of questions per round.

    `ask` takes (number of the sort, first, second) and gives P(first is better). NaN ends a sort without an order. No
    sort asks a pair twice.
    """
    results = [Sorted() for _ in sorts]
    under_way = _UnderWay(sorts)
    while under_way.waiting:
        batch = dict(under_way.waiting)
        questions = [(number, *pair) for number, pairs in batch.items() for pair in pairs]
        for (number, first, second), answer in zip(questions, ask(questions), strict=True):
            results[number].asked[first, second] = float(answer)
        for number, pairs in batch.items():
            answers = [results[number].asked[pair] for pair in pairs]
            if np.isnan(answers).any():
                sorts[number].close()
                del under_way.waiting[number]
            else:
                under_way.advance(number, answers)
    for number, order in under_way.orders.items():
        results[number].order = order
    return results
