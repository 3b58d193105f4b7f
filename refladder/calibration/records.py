"""A threshold with its promise, as a file has it, and the settings of `filter` and `pairs`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from refladder.records import record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Link


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The last look at the labels of a score; `number` counts the looks, from 1.

    Scores are those of a `column` with a `signature`, and labels those of the column `label`. `digest` is that of the
    promise and of the labelled rows with their labels: looks with an equal digest count once.
    """

    column: str
    signature: str | None
    label: str
    number: int
    digest: str


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSpread:
    """How the scores of a table are spread: 21 quantiles (0, .05, ..., 1) of one row of each of a number of contexts."""

    quantiles: tuple[float, ...]
    contexts: int


@record("threshold/2")
@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A cut-off with its promise: a row is kept if its number in `column` is at least `cutoff`.

    `cutoff` is None where no cut-off can be promised. Of `precision` and `recall`, one is promised and the other is
    None. `sure` is the probability of the promise. `signature` is that of the scores, None where they have none.
    `labels` were used, `labels_above` of them are of kept rows, and `bad_above` of these are bad; `kept` of `rows` rows
    are kept. `used` holds digests of the ids and texts of labelled rows, so that a rate is never reported from labels
    that chose a cut-off. `unit` is what was drawn at random to be labelled. `looks` are the last of each score that was
    calibrated with this file; the last of them made this threshold. `scores` is the spread of the scores of all rows,
    None in files without it.
    """

    column: str
    cutoff: float | None
    precision: float | None
    recall: float | None
    sure: float
    signature: str | None
    label: str
    good: str
    labels: int
    labels_above: int
    bad_above: int
    rows: int
    kept: int
    used: tuple[str, ...]
    version: str
    unit: Literal["row", "context"]
    looks: tuple[Look, ...]
    scores: ScoreSpread | None = None

    def __post_init__(self) -> None:
        numbers = [look.number for look in self.looks]
        if not numbers or self.looks[-1].column != self.column or min(numbers) < 1:
            raise ValueError(
                "the last of its looks must be of its column, and each look must be 1 or more"
            )

    @property
    def look(self) -> int:
        """Return the number of the look that made it."""
        return self.looks[-1].number


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtering:
    """Which scored rows pass, and where the others go.

    Thresholds `min` and `max` by column; of the rows that meet them, the share `top` by column `by`, or the `best` for
    each value of column `per`. `threshold` (of `calibrate`) or its file replaces these. `link` or its
    file maps scores to the conditions' scale. `unscored` is `keep`, `drop` or a file. `mix` allows several scales, and
    `across_judges` grades by several judges on the scale of one ladder set.
    `columns` maps fields to columns.
    """

    min: Mapping[str, float] = field(default_factory=dict)
    max: Mapping[str, float] = field(default_factory=dict)
    top: float | None = None
    best: int | None = None
    per: str | None = None
    by: str | None = None
    threshold: Path | Threshold | None = None
    link: Path | Link | None = None
    rejected: str | None = None
    unscored: str = "drop"
    mix: bool = False
    across_judges: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Which outputs of a context make a pair: those whose scores differ by `margin` or more.

    `by` None is the column of `ranked_by`. `ladders` have the texts of contexts, for rows without them.
    `columns` maps fields to columns.
    """

    margin: float
    per_context: int | None = None
    by: str | None = None
    ladders: str | Path | LadderSet | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    conversational: bool = False
    mix: bool = False
    across_judges: bool = False
