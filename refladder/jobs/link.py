"""link: two judges' judgments of the same rows and ladders -> a map of the scores of one to the scale of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.errors import DataError, UsageError, option
from refladder.files.jsonl import read_record, write_record
from refladder.records import COLUMN, RUNG, Link, LinkedColumn
from refladder.scoring.asker import trusted, verdict_logprobs
from refladder.scoring.columns import column_names, signature_of
from refladder.scoring.judgment_file import check_outcomes, outcomes_of, read_judgments
from refladder.scoring.question import rung_id
from refladder.scoring.rules import (
    LINEAR,
    bounds_of,
    expected_grades,
    over_anchors,
    probabilities_from,
    rule_named,
    rung_steps,
)
from refladder.signatures import is_older, is_revised, same_scale, scale_of
from refladder.statistics import linking
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from refladder.arrays import FloatArray, IntArray
    from refladder.records import Dimension, Run
    from refladder.scoring.rules import Rule
    from refladder.settings import Scale

# The least numbers of contexts and rows that both judges must have judged.
LEAST_CONTEXTS, LEAST_ROWS = 8, 20


class _Judged(NamedTuple):
    """Whole ladders of a file, by context, dimension and output: digests of the texts, and verdict probabilities.

    The digests are by rung and the comparison's subject. The probabilities have shape (rungs, 3), the orders averaged.
    """

    run: Run
    ladders: dict[tuple[str, str, str], tuple[dict[tuple[str, str], str], FloatArray]]

    def scored_by(self, rule: Rule) -> Rule:
        """Return a rule over `rungs`: the mean over the anchors."""
        anchors = max(len(self.run.anchors), 1)

        def by_anchor(probabilities: FloatArray, human: tuple[float, float]) -> FloatArray:
            levels = probabilities.reshape(len(probabilities), self.run.rungs, anchors, 3)
            return over_anchors(rule, anchors)(
                levels.swapaxes(1, 2).reshape(probabilities.shape), human
            )

        return by_anchor


def _rungs(run: Run) -> list[str]:
    """Return the rungs that a text is compared with, of all anchors level by level."""
    anchors = sorted(run.anchors) or [""]
    return [rung_id(level, anchor) for level in range(1, run.rungs + 1) for anchor in anchors]


def link(first: Path, second: Path, scale: Scale, out: Path | None = None) -> Link:
    """Map the scores of one run to the scale of another, from the rows and rungs that both have judged."""
    rule_named(scale.rule)
    if scale.rule not in LINEAR:
        raise UsageError(
            f"rule {scale.rule!r} cannot be linked, because its score is not smooth in the verdicts; choose "
            f"{option('rule')} from: {', '.join(LINEAR)}"
        )
    one, other = _read(first, scale), _read(second, scale)
    signatures = signature_of(one.run, scale), signature_of(other.run, scale)
    if scale_of(signatures[0]) == scale_of(signatures[1]):
        raise UsageError(
            f"{first} and {second} have the same signature, so their scores are on one scale already"
        )
    if one.run.rungs != other.run.rungs or set(one.run.anchors) != set(other.run.anchors):
        raise DataError(
            f"{first} and {second} are against different ladders; score the same table against the same ladder set"
        )
    columns: list[LinkedColumn] = []
    for dimension in one.run.dimensions:
        columns += _columns(dimension, one, other, scale, f"{first} and {second}")
    record = Link(
        from_signature=signatures[0],
        to_signature=signatures[1],
        columns=tuple(columns),
        version=__version__,
    )
    if out is not None:
        write_record(out, record)
    return record


def _read(path: Path, scale: Scale) -> _Judged:
    run, located = read_judgments(path)
    if not run.rungs:
        raise DataError(
            f"{path}: judgments of pairs or of single texts; name a file that `refladder score` wrote"
        )
    if run.rates:
        raise DataError(
            f"{path}: ratings ({option('answers')} {run.mode}), and judgments of a link are comparisons with rungs; link "
            f"the columns of the scored tables, with {option('from-by')} and {option('to-by')}"
        )
    outcomes = outcomes_of(run)
    rungs = _rungs(run)
    keys: dict[tuple[str, str, str], dict[tuple[str, str], str]] = {}
    read: dict[tuple[str, str, str], dict[str, list[FloatArray]]] = {}
    for where, judgment in located:
        check_outcomes(where, judgment, outcomes)
        rung, output_id = judgment.against or "", judgment.subject
        if output_id.startswith(RUNG):
            rung, output_id = output_id, rung
        if rung not in rungs:
            raise DataError(
                f"{where}: {rung!r} is not a rung from 1 to {run.rungs}; delete the file, and score again"
            )
        row = judgment.context_id, judgment.dimension, output_id
        if row not in read:
            read[row], keys[row] = {each: [] for each in rungs}, {}
        verdict = verdict_logprobs(trusted([judgment], scale.least_mass))
        read[row][rung].append(probabilities_from(verdict)[0])
        keys[row][rung, judgment.subject] = judgment.key
    ladders = {}
    for row, by_rung in read.items():
        if any(len(orders) != run.orders for orders in by_rung.values()):
            continue
        probabilities = np.array([np.mean(orders, axis=0) for orders in by_rung.values()])
        if not np.isnan(probabilities).any():
            ladders[row] = keys[row], probabilities
    return _Judged(run, ladders)


def _columns(
    dimension: Dimension, first: _Judged, second: _Judged, scale: Scale, files: str
) -> list[LinkedColumn]:
    common = []
    for row, (keys, _) in first.ladders.items():
        if row[1] != dimension.name or row not in second.ladders:
            continue
        others, _ = second.ladders[row]
        if all(others.get(place, key) == key for place, key in keys.items()):
            common.append(row)
    units = [f"c{context}" if context else f"o{output}" for context, _, output in common]
    names, contexts = np.unique(units, return_inverse=True)
    number = len(names)
    if len(common) < LEAST_ROWS or number < LEAST_CONTEXTS:
        raise DataError(
            f"{files}: {len(common)} rows of {number} contexts have a whole ladder of {dimension.name} under both "
            f"judges with the same texts; at least {LEAST_ROWS} rows of {LEAST_CONTEXTS} contexts are needed. "
            "Score the same table with both judges, against the same ladders"
        )
    one = np.array([first.ladders[row][1] for row in common])
    other = np.array([second.ladders[row][1] for row in common])
    odds = linking.log_odds(one), linking.log_odds(other)
    columns = column_names(dimension.name)
    human = dimension.low, dimension.high
    linked = []
    for column, rule in ((columns.score, rule_named(scale.rule)), (columns.grade, expected_grades)):
        by_anchor = first.scored_by(rule)
        scores = by_anchor(one, human), by_anchor(other, human)
        of_rule = _scale_of(by_anchor, one.shape[1], human)
        linked.append(_column(column, odds, scores, contexts, of_rule))
    return linked


def _scale_of(rule: Rule, rungs: int, human: tuple[float, float]) -> linking.LinearScore:
    """Return the scale of a rule that is linear in the verdicts."""
    half_steps = rung_steps(rule, rungs, human) / 2
    lowest, _ = bounds_of(rule, rungs, human)
    return linking.LinearScore(half_steps, float(lowest + np.sum(half_steps)))


def _column(
    column: str,
    odds: tuple[FloatArray, FloatArray],
    scores: tuple[FloatArray, FloatArray],
    contexts: IntArray,
    scale: linking.LinearScore,
) -> LinkedColumn:
    common = linking.common_rows(*odds, contexts, scale)
    lines = linking.lines_between(common, np.ones((1, len(common.rows))))
    held = linking.held_out(*odds, contexts, scale, scores)
    used = linking.map_of(held.best, common, scores, contexts)
    return LinkedColumn(
        column=column,
        scores=tuple(used.scores.tolist()),
        values=tuple(used.values.tolist()),
        least=tuple(used.least.tolist()),
        most=tuple(used.most.tolist()),
        half_width=linking.half_width(held.residuals[held.best]),
        slope=float(lines.slopes[0]),
        shift=float(lines.shifts[0]),
        rows=len(contexts),
        contexts=len(common.rows),
        map=held.best,
        error=held.error(held.best),
        line_error=held.error("line"),
        identity_error=held.error("identity"),
        equipercentile_error=held.error("equipercentile"),
    )


def _linked_names(column: str) -> tuple[str, str, str]:
    return f"{column}_linked", f"{column}_linked_low", f"{column}_linked_high"


def open_link(link: Path | Link | None) -> Linker | None:
    """Return a link, or the link in a file, ready to map numbers of rows; None for None."""
    if link is None:
        return None
    if isinstance(link, Link):
        return Linker(link, "the link")
    return Linker(read_record(Link, link), f"the link {link}")


class Linker:
    """Numbers of rows on the scale that a link maps to.

    `target_signature` is that of a threshold for this scale, None for the scale of a column. `revised` says whether a
    row has a later revision of the ladders. `linked` is the only column of a link of two columns, else None.
    """

    def __init__(self, record: Link, name: str) -> None:
        self.target = record.to_signature
        self._from = record.from_signature
        self.target_signature = None if self.target.startswith(COLUMN) else self.target
        self.revised = False
        self._columns: Mapping[str, LinkedColumn] = {
            column.column: column for column in record.columns
        }
        self._name = name
        self.linked = next((each for each in record.columns if each.to_column), None)

    @property
    def has_intervals(self) -> bool:
        """Return whether its maps have an interval."""
        return all(column.least for column in self._columns.values())

    def rename(self, before: str, after: str) -> None:
        """Map a column of another name."""
        self._columns = {after: self._columns[before]}

    def has(self, column: str) -> bool:
        """Return whether it maps a column."""
        return column in self._columns

    def maps(self, signature: object, where: str) -> bool:
        """Return whether scores with a signature are to be mapped: not if they are on the scale of the link already."""
        if self._from.startswith(COLUMN):
            # The rows have no signature, and the name of the column says what is mapped.
            return True
        for known in (self._from, self.target):
            self.revised |= is_revised(signature, known)
        mapped = same_scale(signature, self._from)
        if is_older(self._from, signature):
            raise DataError(
                f"{where}: an earlier version of refladder made {self._name}, and its signatures name no criteria; make "
                "it again with `refladder link`"
            )
        if not mapped and not same_scale(signature, self.target):
            raise DataError(
                f"{where}: {self._name} maps scores with the signature {self._from} to {self.target}, and "
                f"this row has {signature or 'no signature'}; link its judgments with `refladder link`"
            )
        return mapped

    def added(self, signature: str, columns: Collection[str]) -> Mapping[str, type]:
        """Return the columns that `values` adds to rows with these columns, and their type."""
        if not self.maps(signature, option("link")):
            raise DataError(
                f"{option('link')}: these scores are on the scale of {self._name} already; leave it out"
            )
        added: dict[str, type] = {}
        for column in self._columns:
            if column in columns:
                added |= dict.fromkeys(_linked_names(column), float)
        if not added:
            raise DataError(
                f"{option('link')}: {self._name} has the columns {', '.join(self._columns) or 'none'}, and these "
                "scores have none of them; link their judgments with `refladder link`"
            )
        return added

    def values(self, row: Mapping[str, Any]) -> dict[str, float | None]:
        """Return the columns of a row on the link's scale, each with the 95 % interval of one text; None without a score."""
        values: dict[str, float | None] = {}
        for column, linked in self._columns.items():
            if column not in row:
                continue
            name, name_low, name_high = _linked_names(column)
            values |= {name: None, name_low: None, name_high: None}
            if row[column] is None:
                continue
            value = float(np.interp(row[column], linked.scores, linked.values))
            values[name] = value
            if linked.half_width is not None:
                # These are the ends of the target scale; two judges on the same ladders have the same ends.
                ends = linked.values if linked.to_column else linked.scores
                values[name_low] = max(value - linked.half_width, ends[0])
                values[name_high] = min(value + linked.half_width, ends[-1])
        return values

    def value(self, column: str, number: float, where: str) -> list[float]:
        """Return a number of a column on the scale of the link, and the ends of its 95 % interval if the map has one."""
        linked = self._columns.get(column)
        if linked is None:
            raise DataError(
                f"{where}: {self._name} has no column {column!r}, only {', '.join(self._columns)}; filter by "
                "one of them"
            )
        lines = [line for line in (linked.values, linked.least, linked.most) if line]
        return [float(np.interp(number, linked.scores, line)) for line in lines]
