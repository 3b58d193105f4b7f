"""One score of each of a random sample of contexts, by which the scores of two tables are compared."""

from __future__ import annotations

import hashlib
import heapq
from typing import TYPE_CHECKING

import numpy as np

from refladder.calibration.records import ScoreSpread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray

# More contexts than this are sampled, so that the memory of any table is the same.
MOST_CONTEXTS = 2000
_STEPS = 20


class ScoreSample:
    """One score of each context, of at most 2,000 contexts that are drawn by their digests, in any order of the rows."""

    def __init__(self) -> None:
        # The digest of each context, with the digest of the score that is kept, and this score.
        self._kept: dict[int, tuple[int, float]] = {}
        self._greatest: list[int] = []
        self._rows = 0

    def add(self, context: Sequence[str], score: float) -> None:
        """Add a row; its `context` is the id or the text, or nothing, which is a context of its own."""
        self._rows += 1
        place = _digest(context[0] if context else f"row {self._rows}")
        chosen = _digest(repr(score)), score
        if place in self._kept:
            self._kept[place] = min(self._kept[place], chosen)
            return
        if len(self._kept) == MOST_CONTEXTS:
            if place > -self._greatest[0]:
                return
            del self._kept[-heapq.heappop(self._greatest)]
        heapq.heappush(self._greatest, -place)
        self._kept[place] = chosen

    @property
    def scores(self) -> FloatArray:
        """Return the scores, one of each context."""
        return np.array([score for _, score in self._kept.values()])

    def spread(self) -> ScoreSpread | None:
        """Return the spread of the scores; None without any."""
        scores = self.scores
        if not len(scores):
            return None
        shares = np.arange(_STEPS + 1) / _STEPS
        quantiles = np.quantile(scores, shares, method="inverted_cdf")
        return ScoreSpread(quantiles=tuple(quantiles.tolist()), contexts=len(scores))


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())
