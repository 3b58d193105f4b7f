"""The columns that scores add to a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from refladder.arrays import known_numbers
from refladder.errors import UnknownNameError, UsageError, option, plural
from refladder.files.ladder_sets import choose_dimensions
from refladder.loaders.scored_tables import overall_of
from refladder.records import digest_of, names_of
from refladder.scoring.modes import mode_of
from refladder.scoring.rules import overall, rule_named
from refladder.signatures import GRADE, column_stem
from refladder.thoughts import CUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Dimension, Judgment, Run, Score
    from refladder.settings import Scale, Scoring


# Below this label mass, everything else that the judge could answer was more probable than the labels.
LOW_MASS = 0.5


class ColumnNames(NamedTuple):
    """The columns that a dimension adds; the spread is that of the grade, and the mass that of the labels."""

    score: str
    grade: str
    spread: str
    mass: str
    note: str


def column_names(dimension: str) -> ColumnNames:
    """Return the names of the columns that a dimension adds."""
    stem = column_stem(dimension)
    return ColumnNames(*(f"{stem}_{field}" for field in ColumnNames._fields))


def anchor_spread_column(dimension: str) -> str:
    """Return the column of the spread of a dimension's score over the anchors of a shared set."""
    return column_names(dimension).score.removesuffix("score") + "anchor_spread"


def overall_column(dimensions: Sequence[Dimension]) -> str:
    """Return the column of the weighted score of several dimensions; another where a dimension itself is called overall."""
    return overall_of([column_stem(dimension.name) for dimension in dimensions])


def overall_grade_column(dimensions: Sequence[Dimension]) -> str:
    """Return the column of the weighted grade of several dimensions."""
    return overall_column(dimensions).removesuffix("score") + GRADE.removeprefix("_")


def interval_columns(column: str) -> tuple[str, str]:
    """Return the columns that hold the ends of the interval of a score over the orders of the rungs."""
    return f"{column}_low", f"{column}_high"


def added_columns(
    dimensions: Sequence[Dimension],
    *,
    shared: bool = False,
    intervals: bool = False,
    grades: bool = True,
) -> dict[str, type]:
    """Return every column that scoring adds to a row, with its type; `grades` says whether there are ladders."""
    added: dict[str, type] = {}
    # Many databases ignore the case of names.
    taken: set[str] = set()
    for dimension in dimensions:
        names = column_names(dimension.name)
        columns = dict.fromkeys(names, float) | {names.note: str}
        if shared:
            columns[anchor_spread_column(dimension.name)] = float
        clash = next(
            (column for column in (names.note, *columns) if column.casefold() in taken), None
        )
        if clash is not None:
            raise UsageError(
                f"dimension {dimension.name!r} would share the column {clash!r} with another; "
                f"score them in two runs with {option('dimension')}"
            )
        added.update(columns)
        taken |= {column.casefold() for column in columns}
    if len(dimensions) > 1:
        if overall_column(dimensions) in added:
            raise UsageError(
                "dimensions called 'overall' and 'all dimensions' leave no column for the weighted score; score them "
                f"in two runs with {option('dimension')}"
            )
        added[overall_column(dimensions)] = float
        if grades:
            added[overall_grade_column(dimensions)] = float
    for dimension in dimensions if intervals else ():
        added.update(dict.fromkeys(interval_columns(column_names(dimension.name).score), float))
    added["signature"] = str
    return added


def columns_of(asked: Scoring, ladders: LadderSet) -> dict[str, type]:
    """Return the columns that scoring with these settings adds, with their types."""
    mode = mode_of(asked.answers)
    return added_columns(
        choose_dimensions(ladders.dimensions, asked.dimensions),
        shared=bool(ladders.anchors) and mode.has_anchor_spread,
        intervals=mode.has_intervals,
        grades=bool(ladders.ladders),
    )


def weights_for(dimensions: Sequence[Dimension], weights: Mapping[str, float]) -> FloatArray:
    """Return the weight of each dimension, 1 where none is given."""
    names = names_of(dimensions)
    for name, weight in weights.items():
        if name not in names:
            raise UnknownNameError(f"dimension of {option('weight')}", name, names)
        if not math.isfinite(weight) or weight < 0:
            raise UsageError(f"weight {name}={weight}: a weight must be a finite number, 0 or more")
    values = np.array([weights.get(name, 1.0) for name in names])
    if not math.isfinite(sum(values.tolist())):
        raise UsageError("the sum of the weights is too large; give smaller ones, such as 1 and 2")
    if not values.any():
        raise UsageError("all weights are 0; at least one dimension must count")
    return values


class Columns:
    """Turns scores into the columns of a table's rows: those that are `added`."""

    def __init__(self, run: Run, scale: Scale) -> None:
        mode = mode_of(run.answers)
        self._shared = bool(run.anchors) and mode.has_anchor_spread
        self._intervals = mode.has_intervals
        dimensions = run.dimensions
        rule = rule_named(scale.rule)
        self._grades = run.rungs > 0
        self.added = added_columns(
            dimensions, shared=self._shared, intervals=self._intervals, grades=self._grades
        )
        self._names = [column_names(dimension.name) for dimension in dimensions]
        self._human = [(float(each.low), float(each.high)) for each in dimensions]
        self._overall = overall_column(dimensions) if len(dimensions) > 1 else None
        self._overall_grade = overall_grade_column(dimensions)
        self._weights = weights_for(dimensions, scale.weights)
        self._bounds = np.array(
            [mode.bounds(rule, run.rungs, (each.low, each.high)) for each in dimensions]
        )

    def scales(self) -> dict[str, tuple[float, float]]:
        """Return the least and the greatest value of each column of scores and grades."""
        scales: dict[str, tuple[float, float]] = {}
        for names, human, (low, high) in zip(
            self._names, self._human, self._bounds.tolist(), strict=True
        ):
            scales |= {names.score: (low, high), names.grade: human}
        if self._overall is not None:
            scales[self._overall] = (0.0, 1.0)
            if self._grades:
                scales[self._overall_grade] = (0.0, 1.0)
        return scales

    def overall(
        self, rows: Sequence[Sequence[Score]], *, of_grades: bool = False
    ) -> list[float | None]:
        """Return the weighted score or grade of each row, 0 to 1; None where a dimension with a weight has none."""
        values = [[score.grade if of_grades else score.value for score in row] for row in rows]
        numbers = np.array(values, dtype=np.float64).reshape(-1, len(self._names))
        bounds = np.array(self._human) if of_grades else self._bounds
        return known_numbers(overall(numbers, bounds, self._weights))

    def rows(self, rows: Sequence[Sequence[Score]]) -> list[dict[str, float | str | None]]:
        """Return the columns of each row, in the order of `added_columns`."""
        table: list[dict[str, float | str | None]] = []
        for scores in rows:
            columns: dict[str, float | str | None] = {}
            for names, score in zip(self._names, scores, strict=True):
                columns[names.score] = score.value
                columns[names.grade] = score.grade
                columns[names.spread] = score.spread
                columns[names.mass] = score.mass
                columns[names.note] = score.reason
                if self._shared:
                    columns[anchor_spread_column(score.dimension)] = score.anchor_spread
            table.append(columns)
        if self._overall is not None:
            for columns, combined in zip(table, self.overall(rows), strict=True):
                columns[self._overall] = combined
            grades = self.overall(rows, of_grades=True) if self._grades else ()
            for columns, grade in zip(table, grades, strict=False):
                columns[self._overall_grade] = grade
        for columns, scores in zip(table, rows, strict=True) if self._intervals else ():
            for names, score in zip(self._names, scores, strict=True):
                ends = score.interval or (None, None)
                columns |= dict(zip(interval_columns(names.score), ends, strict=True))
        for columns, scores in zip(table, rows, strict=True):
            columns["signature"] = scores[0].signature
        return table


def signature_of(run: Run, scale: Scale) -> str:
    """Return everything that determines a score, in one line: what was asked of whom, and how answers count."""
    asked = mode_of(run.answers).signature(run, scale)
    digests = [f"{column_stem(each.name)}@{criterion_digest(each)}" for each in run.dimensions]
    parts = [f"ladders:{run.ladders}", run.recipe.signature, f"criteria:{','.join(digests)}"]
    weights = weights_for(run.dimensions, scale.weights).tolist()
    if len({*weights}) > 1:
        named = zip(run.dimensions, weights, strict=True)
        listed = ",".join(f"{column_stem(each.name)}={weight:.12g}" for each, weight in named)
        parts.append(f"weights:{listed}")
    return "|".join([*parts, asked])


def criterion_digest(dimension: Dimension) -> str:
    """Return a digest of what a criterion asks: name, description and the ends of its scale."""
    ends = f"{float(dimension.low)!r} {float(dimension.high)!r}"
    return digest_of(dimension.name, dimension.description, ends, size=6)


def block_notes(
    judgments: Sequence[Judgment], blocks: Sequence[tuple[int, int]], each: int
) -> dict[tuple[int, int], str]:
    """Say why blocks of `each` judgments have no score (unparsed) or an unreliable one (cut context, low label mass)."""
    reasons = {}
    for number, block in enumerate(blocks):
        judged = judgments[number * each : (number + 1) * each]
        unparsed = [judgment for judgment in judged if judgment.logprobs is None]
        if unparsed:
            reasons[block] = (
                f"{len(unparsed)} of {plural(each, 'judgment')} unparsed: {unparsed[0].note}"
            )
            continue
        notes = []
        cut = [judgment for judgment in judged if judgment.cut]
        if cut:
            why = cut[0].note or "the context was truncated"
            notes.append(f"{len(cut)} of {plural(each, 'judgment')}: {why}")
        partial = [
            judgment for judgment in judged if None in judgment.stated or judgment.note == CUT
        ]
        notes += [judgment.note or "" for judgment in partial][:1]
        low = [judgment.mass or 0.0 for judgment in judged if has_low_mass(judgment)]
        if low:
            count = f"{len(low)} of {plural(each, 'judgment')}"
            notes.append(f"low label mass in {count}, minimum {min(low):.2g}")
        if notes:
            reasons[block] = "; ".join(notes)
    return reasons


def least_masses(judgments: Sequence[Judgment], each: int) -> FloatArray:
    """Return the least label mass of each block of `each` judgments, shape (blocks,), 0 to 1; NaN where none has a mass."""
    masses = np.array(
        [math.inf if judgment.mass is None else judgment.mass for judgment in judgments]
    )
    least = np.min(masses.reshape(-1, each), axis=1)
    return cast("FloatArray", np.where(np.isinf(least), np.nan, least))


def has_low_mass(judgment: Judgment) -> bool:
    """Return whether the labels of a judgment together had less than half of the probability."""
    return judgment.logprobs is not None and judgment.mass is not None and judgment.mass < LOW_MASS
