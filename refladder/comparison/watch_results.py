"""What `watch` found: a verdict for each criterion, in a word and a sentence, and the figures behind it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from refladder.comparison.changed_judge import LEAST, ORDER, SAME, SCALE, UNKNOWN, Change
from refladder.display.rendering import DASH, PlainTable, number, table_of
from refladder.display.results import Shown
from refladder.errors import plural

_LEGEND = (
    ("shift", "mean change of the ratings of rungs, with its 95 % interval over anchors"),
    ("by rating", "decisions on rungs that change since the baseline, by their ratings"),
    ("by place", "the same by their places among the rungs of the other anchors"),
    ("noise", "the same between the two readings of the baseline"),
    ("at least", "lower end of the one-sided 95 % interval of by place less noise"),
    ("texts", "decisions on the frozen texts that change by their places"),
    ("wrong order", "pairs of rungs of one ladder in the wrong order, before and now"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReport(Shown):
    """A reading, named by its number, compared with a baseline; a new baseline has no criteria to compare."""

    baseline: str
    new: bool
    reading: int
    judge: str
    judge_before: str
    at_most: float
    criteria: tuple[Change, ...]

    @property
    def holds(self) -> bool:
        """Return whether grades stay comparable on each criterion."""
        return all(change.verdict in (SAME, SCALE) for change in self.criteria)

    def summary(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return asdict(self) | {"criteria": [*map(asdict, self.criteria)]}

    def lines(self) -> list[str]:
        """Return the verdict on each criterion."""
        if self.new:
            return [
                f"{self.baseline}: two readings by {self.judge}; the next run compares with them"
            ]
        return [
            f"{change.dimension}: {change.verdict}: {_sentence(change)}" for change in self.criteria
        ]

    def tables(self) -> list[PlainTable]:
        """Return the figures."""
        if self.new:
            return []
        rows = []
        for change in self.criteria:
            shift = DASH
            if change.shift is not None:
                low, high = number(change.shift_low, 2), number(change.shift_high, 2)
                shift = f"{number(change.shift, 2)} [{low}, {high}]"
            rows.append(
                {
                    "criterion": change.dimension,
                    "verdict": change.verdict,
                    "shift": shift,
                    "by rating": number(change.rating.changed, 3),
                    "by place": number(change.place.changed, 3),
                    "noise": number(change.place.noise, 3),
                    "at least": number(change.place.least, 3),
                    **(
                        {"texts": number(change.text_place.changed, 3)} if change.text_place else {}
                    ),
                    "wrong order": f"{change.wrong_before}, {change.wrong_now} of {change.pairs}",
                }
            )
        shown = tuple(each for each in _LEGEND if each[0] in rows[0])
        return [table_of("", rows, shown)]


def _sentence(change: Change) -> str:
    moved = f"the ratings have moved by {number(change.shift, 2)}, and places hold"
    sentences = {
        ORDER: "the order has changed, which no map repairs; certify the set with this judge, and label again",
        SCALE: f"{moved}; grades stay comparable, and cut-offs on plain ratings do not",
        SAME: moved,
        UNKNOWN: _why_unknown(change),
    }
    return sentences[change.verdict]


def _why_unknown(change: Change) -> str:
    if change.unparsed:
        return f"{plural(change.unparsed, 'rating')} could not be read"
    if change.anchors < LEAST:
        return f"{plural(change.anchors, 'anchor')}, and at least {LEAST} are needed"
    if change.place.least is None or (change.text_place and change.text_place.least is None):
        return f"all ratings are equal, or texts are of fewer than {LEAST} contexts"
    low, high = number(change.shift_low, 2), number(change.shift_high, 2)
    return f"the ratings have moved by {low} to {high}, which is too wide to say more"
