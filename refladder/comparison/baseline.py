"""The file of `refladder watch`: what a judge was asked about the anchors of a set, and its readings."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  pydantic reads the annotation
from dataclasses import dataclass

from refladder.records import RungRating, record


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class TextRating:
    """A judge's rating of a frozen text, None if it is unparsed; `text` is a digest of the text and its context."""

    dimension: str
    text: str
    context: str
    rating: float | None


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReading:
    """One reading by a judge, named by its fingerprint: the ratings of all rungs, and of the frozen texts, if any."""

    number: int
    judge: str
    rungs: tuple[RungRating, ...]
    texts: tuple[TextRating, ...] = ()

    @property
    def places(self) -> list[tuple[object, ...]]:
        """Return what is rated, in order."""
        rungs = [(each.dimension, each.anchor, each.level) for each in self.rungs]
        return [*rungs, *((each.dimension, each.text, each.context) for each in self.texts)]

    @property
    def unparsed(self) -> int:
        """Return how many of them have no rating."""
        ratings = [each.rating for each in self.rungs] + [each.rating for each in self.texts]
        return ratings.count(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is rated, and how: the digest of the ladders, the anchors, the digest of each criterion, mode and prompts."""

    ladders: str
    anchors: tuple[str, ...]
    criteria: Mapping[str, str]
    answers: str
    prompts: tuple[str, ...]


@record("watch/1")
@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(Watched):
    """Readings of the same rungs; the second one says how much the judge differs from itself."""

    version: str
    readings: tuple[WatchReading, ...]

    def __post_init__(self) -> None:
        if len(self.readings) < 2:
            raise ValueError("it needs two readings or more")
        first = self.readings[0]
        wanted = [(name, anchor) for name in self.criteria for anchor in self.anchors]
        if list(dict.fromkeys((each.dimension, each.anchor) for each in first.rungs)) != wanted:
            raise ValueError("its rungs are not those of its criteria and anchors")
        levels = len(first.rungs) // max(len(wanted), 1)
        in_order = [level + 1 for _ in wanted for level in range(levels)]
        if [each.level for each in first.rungs] != in_order:
            raise ValueError("its anchors do not have the same levels")
        for reading in self.readings:
            if reading.places != first.places:
                raise ValueError(
                    f"reading {reading.number} is of other rungs or texts than the first"
                )
            if reading.unparsed:
                raise ValueError(
                    f"{reading.unparsed} rungs or texts of reading {reading.number} have no rating"
                )
