"""The columns that scoring adds to a row, and the counts of what has no score."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from refladder.errors import UnknownNameError, UsageError
from refladder.scoring.judging import LEAST_MASS
from refladder.scoring.rules import bounds_of, expected_grades, grade_spreads, overall, rule_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.records import Dimension, Judgment, Run
    from refladder.scoring.rules import Rule


SPREAD_LEGEND = "spread: standard deviation of the grade if each verdict were drawn once; it is no error interval"
FAINT = 0.5  # mass of the labels below which they were less probable than everything else that the judge could say
# An id or a length in a reason, left out so that reasons can be counted.
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|(?<=has )[\d,]+(?= tokens)|(?<=label mass )[\d.e-]+")


@dataclass(slots=True, kw_only=True)
class ScoreReport:
    """What happened in a run: rows read, scores given and not given, judgments asked and reused.

    `cut` judgments were made of a context that was shortened to fit. `faint` judgments were read, but all labels
    together had less than half of the probability: the judge would rather have said something else.
    """

    rows: int = 0
    unscored: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    judgments: int = 0
    reused: int = 0
    unreadable: int = 0
    cut: int = 0
    faint: int = 0
    disagreements: int = 0
    order_pairs: int = 0
    signature: str = ""

    @property
    def complete(self) -> bool:
        """Whether every row got every score."""
        return not any(self.unscored.values())

    def count(self, judgments: Sequence[Judgment]) -> None:
        """Add the judgments that could not be read, those of a context that was cut, and the faint ones."""
        self.unreadable += sum(judgment.logprobs is None for judgment in judgments)
        self.cut += sum(judgment.cut for judgment in judgments)
        self.faint += sum(map(is_faint, judgments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How verdicts become numbers: the rule by name, and the weight of each dimension in the overall score.

    A judgment whose label mass is below `least_mass` (a probability) is unparsed.
    """

    rule: str
    weights: Mapping[str, float]
    least_mass: float = LEAST_MASS


def column_names(dimension: str) -> tuple[str, str, str, str, str]:
    """The columns that a dimension adds: score, grade, spread of the grade, label mass, note."""
    stem = re.sub(r"\W+", "_", dimension)
    return f"{stem}_score", f"{stem}_grade", f"{stem}_spread", f"{stem}_mass", f"{stem}_note"


def overall_column(dimensions: Sequence[Dimension]) -> str:
    """The column of the weighted score of several dimensions; another where a dimension itself is called overall."""
    taken = {column_names(dimension.name)[0] for dimension in dimensions}
    return "all_dimensions_score" if "overall_score" in taken else "overall_score"


def added_columns(dimensions: Sequence[Dimension]) -> dict[str, type]:
    """Every column that scoring adds to a row, with its type.

    Raises:
        UsageError: two dimensions would have the same columns.
    """
    added: dict[str, type] = {}
    for dimension in dimensions:
        *numbers, note = column_names(dimension.name)
        if note in added:
            raise UsageError(
                f"dimension {dimension.name!r} would share the column {note!r} with another; "
                "score them in two runs with --dimension"
            )
        added.update(dict.fromkeys(numbers, float))
        added[note] = str
    if len(dimensions) > 1:
        added[overall_column(dimensions)] = float
    added["signature"] = str
    return added


def weights_for(dimensions: Sequence[Dimension], weights: Mapping[str, float]) -> FloatArray:
    """The weight of each dimension, 1 where none is given.

    Raises:
        UnknownNameError: a weight for a dimension that is not scored.
        UsageError: a weight that is negative or not finite, or all are zero.
    """
    names = [dimension.name for dimension in dimensions]
    for name, weight in weights.items():
        if name not in names:
            raise UnknownNameError("dimension", name, names)
        if not math.isfinite(weight) or weight < 0:
            raise UsageError(f"weight {name}={weight}: a weight must be a finite number, 0 or more")
    values = np.array([weights.get(name, 1.0) for name in names])
    if not values.any():
        raise UsageError("all weights are 0; at least one dimension must count")
    return values


@dataclass(slots=True)
class Columns:
    """Turns verdict probabilities into the columns of rows."""

    dimensions: Sequence[Dimension]
    rungs: int
    scale: Scale
    _rule: Rule = field(init=False)  # looking it up reads the metadata of every installed package

    def __post_init__(self) -> None:
        self._rule = rule_named(self.scale.rule)

    def of(
        self,
        probabilities: FloatArray,
        masses: FloatArray,
        reasons: Mapping[tuple[int, int], str],
        report: ScoreReport,
    ) -> list[dict[str, Any]]:
        """Columns of each row, and the counts of what has no score in `report`.

        Args:
            probabilities: shape (rows, dimensions, rungs, 3), NaN where nothing could be judged.
            masses: shape (rows, dimensions), least label mass of the judgments, NaN where the judge gives none.
            reasons: why, by row and dimension.
            report: counts are added to it.
        """
        rule = self._rule
        rows: list[dict[str, Any]] = [{} for _ in range(probabilities.shape[0])]
        scores = np.empty(probabilities.shape[:2])
        bounds = np.empty((len(self.dimensions), 2))
        for number, dimension in enumerate(self.dimensions):
            human = (dimension.low, dimension.high)
            scores[:, number] = rule(probabilities[:, number], human)
            bounds[number] = bounds_of(rule, self.rungs, human)
            grades = expected_grades(probabilities[:, number], human)
            spreads = grade_spreads(probabilities[:, number], human)
            table = np.column_stack([scores[:, number], grades, spreads, masses[:, number]])
            *names, mass, note = column_names(dimension.name)
            for place, (row, values) in enumerate(zip(rows, table.tolist(), strict=True)):
                unknown = values[0] != values[0]  # NaN: the quickest test there is, once a row
                row.update(dict.fromkeys(names) if unknown else zip(names, values, strict=False))
                row[mass] = None if values[-1] != values[-1] else values[-1]
                row[note] = reasons.get((place, number))
                if unknown:
                    reason = row[note] or "unreadable"
                    report.unscored[dimension.name] = report.unscored.get(dimension.name, 0) + 1
                    kind = _QUOTED.sub("...", reason)
                    report.reasons[kind] = report.reasons.get(kind, 0) + 1
        if len(self.dimensions) > 1:
            total = overall(scores, bounds, weights_for(self.dimensions, self.scale.weights))
            combined = overall_column(self.dimensions)
            for row, value in zip(rows, total.tolist(), strict=True):
                row[combined] = None if math.isnan(value) else value
        report.rows += len(rows)
        return rows


def signature_of(run: Run, scale: Scale) -> str:
    """All that made a score, in one line."""
    rule = f"rule:{scale.rule}|least-mass:{scale.least_mass:g}"
    answers = f"answers:{run.answers}|" if run.answers else ""
    return f"ladders:{run.ladders}|{run.recipe.signature}|{answers}orders:{run.orders}|{rule}"


def bounds_text(run: Run, rule: str) -> str:
    """Two lines for people: what a score can be at least and at most, and what grade and spread are."""
    human = (run.dimensions[0].low, run.dimensions[0].high)
    low, high = bounds_of(rule_named(rule), run.rungs, human)
    return (
        f"score: {rule}, from {low:g} (worse than all {run.rungs} rungs) to {high:g} (better than all)\n"
        f"grade: position on the human scale; {SPREAD_LEGEND}"
    )


def block_notes(
    judgments: Sequence[Judgment], places: Sequence[tuple[int, int]], each: int
) -> dict[tuple[int, int], str]:
    """What is to be said about blocks of judgments, by place.

    That is why a block gives no score, where one of its judgments could not be read; or else that a context was cut,
    or that the labels had little of the probability.

    Args:
        judgments: `each` for every block, in the canonical order.
        places: what each block is about: row and number of the dimension.
        each: judgments a block.
    """
    found = {}
    for block, place in enumerate(places):
        own = judgments[block * each : (block + 1) * each]
        bad = [judgment for judgment in own if judgment.logprobs is None]
        cut = [judgment for judgment in own if judgment.cut]
        if bad:
            found[place] = f"{len(bad)} of {each} judgments unreadable: {bad[0].note}"
        else:
            low = [judgment.mass or 0.0 for judgment in own if is_faint(judgment)]
            notes = [f"{len(cut)} of {each} judgments: {cut[0].note or 'the context was cut'}"] if cut else []
            notes += [f"low label mass in {len(low)} of {each} judgments, the least {min(low):.2g}"] if low else []
            if notes:
                found[place] = "; ".join(notes)
    return found


def least_masses(judgments: Sequence[Judgment], each: int) -> FloatArray:
    """The least label mass of each block of judgments: the worst reading that its score depends on.

    Args:
        judgments: `each` for every block.
        each: judgments a block.

    Returns:
        Shape (blocks,), between 0 and 1; NaN where no judgment of the block has a mass.
    """
    masses = np.array([math.inf if judgment.mass is None else judgment.mass for judgment in judgments])
    least = np.min(masses.reshape(-1, each), axis=1)
    return cast("FloatArray", np.where(np.isinf(least), np.nan, least))


def is_faint(judgment: Judgment) -> bool:
    """Whether a judgment was read though its labels together had less than half of the probability."""
    return judgment.logprobs is not None and judgment.mass is not None and judgment.mass < FAINT
