"""Recorded judgments: judgments of any judge, in a table, that answer comparisons by the ids of their texts.

A row is one comparison, and the columns say of which kind the table is::

    context_id, dimension, output, rung, outcome           outcome: win, loss or tie of the output against the rung
    context_id, dimension, output, rung, win, loss, tie    three probabilities instead
    context_id, dimension, first, second, winner           winner: first, second, tie, or the id of one of the two
    context_id, dimension, first, second, p                the probability that the first is better
    context_id, dimension, output, percent                 a rating: the percentages of 1, 2, 3, 4 and 5, as a list
    context_id, dimension, rung, percent                   the rating of a rung, which grades need

`first` is the output that was shown first; the swapped pair is another row. In a ladder table, the optional column
`swapped` is true where the two texts changed places; the outcome is the output's in both orders. `anchor` names the
ladder of a shared set, and `context_id` may then be empty. A row without a judgment is an answer that could not be
parsed. Other columns are ignored. A judgments file of refladder holds the same in its own form.
"""

from __future__ import annotations

import functools
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from refladder.backends import Backend
from refladder.errors import DataError, UsageError, did_you_mean, option, plural
from refladder.files.tables import read_rows, source_name
from refladder.loaders.fields import missing_column, name_of, number_of, row_id, value_of
from refladder.parsing import parse_json
from refladder.records import (
    LOSS,
    OLDER,
    OUTCOMES,
    RATINGS,
    RUNG,
    SCHEMAS,
    TIE,
    WIN,
    Comparison,
    LabelReading,
    Run,
    digest_of,
    log_of,
)
from refladder.scoring.judgment_file import read_judgments
from refladder.scoring.modes import mode_of
from refladder.scoring.modes.rating_answer import shares_of
from refladder.scoring.question import level_of, rung_id
from refladder.signatures import scale_of, with_earlier_sets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.files.tables import Row
    from refladder.records import Completion, Prompt, Sampling

    # The path:line of a judgment, its comparison and its reading.
    Judged = tuple[str, Comparison, LabelReading]

# Kinds of tables.
LADDER, PAIRS, RATED = "ladder", "pairs", "ratings"
# The mode of recorded ratings.
_MODE_OF_RATINGS = "rating:stated"
# A method that asks no judge accepts every kind.
ANY = "any"
# Probabilities written with few digits may add to a little more than 1.
SLACK = 1e-6
EMPTY = "no judgment in the recorded row"
_SWAPPED = {"true": True, "1": True, "false": False, "0": False, "": False}
_TEXTS = {LADDER: "outputs against rungs", PAIRS: "pairs of outputs", RATED: "single texts"}
_WORDS = {LADDER: "rungs", PAIRS: "pairs", RATED: "single texts"}
# Most names in a message.
_SHOWN = 5


class Recorded(Backend):
    """Judgments of kind `ladder`, `pairs` or `ratings` that were made elsewhere; nothing is asked of any model.

    `mode` is that in which they are scored, as `--answers` names it.
    """

    def __init__(
        self,
        path: str,
        kind: str,
        readings: Mapping[Comparison, LabelReading],
        places: Mapping[Comparison, str],
        sets: Mapping[str, str] | None = None,
        *,
        mode: int | str = 0,
    ) -> None:
        self.mode = mode
        self.path = path
        self.kind = kind
        self.recorded: Mapping[Comparison, LabelReading] = readings
        self._places = places
        # The ladder set that each judgments file names, by path and line.
        self._sets = sets or {}

    @property
    def fingerprint(self) -> str:
        """Return `recorded@` and a digest of the judgments, which depends on neither the file's format nor the row order."""
        return f"recorded@{self._digest}"

    @cached_property
    def _digest(self) -> str:
        lines = []
        for key, reading in self.recorded.items():
            fields = key.context_id, key.dimension, key.subject, key.against, reading.logprobs
            lines.append(repr(fields))
        return digest_of("\n".join(sorted(lines)), size=6)

    @property
    def notice(self) -> str:
        """Say how many judgments the file holds."""
        texts = _TEXTS[self.kind]
        swapped = sum(key.subject.startswith(RUNG) and key.against != "" for key in self.recorded)
        words = f"{self.path}: {plural(len(self.recorded), 'recorded judgment')} of {texts}"
        if swapped:
            words += f" ({swapped:,} in the swapped order, which {option('both-orders')} uses)"
        return f"{words}; no model is asked"

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Refuse: there is no model that writes."""
        self._refuse()

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Refuse: there is no model that reads a prompt."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(
            f"{self.path}: recorded judgments answer comparisons only, and no model is open; name a judge"
        )

    def on(self, dimensions: Collection[str]) -> Recorded:
        """Return the judgments of these dimensions alone, for data that was read without the others."""
        readings, places = {}, {}
        for key, reading in self.recorded.items():
            if key.dimension in dimensions:
                readings[key], places[key] = reading, self._places[key]
        return Recorded(self.path, self.kind, readings, places, self._sets, mode=self.mode)

    def outputs(self) -> dict[tuple[str, str], str]:
        """Return the outputs of the judgments, as (context id, output id), with the path:line of the first one on each."""
        located: dict[tuple[str, str], str] = {}
        for comparison, place in self._places.items():
            for name in _outputs_of(comparison):
                located.setdefault((comparison.context_id, name), place)
        return located

    def dimensions(self) -> set[str]:
        """Return the names of the dimensions of the judgments."""
        return {comparison.dimension for comparison in self.recorded}

    def check(
        self,
        where: str,
        outputs: Mapping[str, Collection[str] | None] | None,
        dimensions: Collection[str],
        *,
        ladders: LadderSet | None = None,
    ) -> None:
        """Check that every judgment is about texts that exist in `where`, and rungs of `ladders`.

        The contexts of `outputs`, or the outputs of one of them, may be unknown: None.
        """
        if ladders is not None:
            self._check_sets(ladders)
        for comparison, row in self._places.items():
            if comparison.dimension not in dimensions:
                raise _unknown(row, f"{where} has no dimension", comparison.dimension, dimensions)
            if outputs is not None and comparison.context_id not in outputs:
                raise _unknown(row, f"{where} has no context", comparison.context_id, outputs)
            known_ids = None if outputs is None else outputs[comparison.context_id]
            for name in _outputs_of(comparison):
                if known_ids is not None and name not in known_ids:
                    raise _unknown(
                        row,
                        f"{where}, context {comparison.context_id!r}, has no output",
                        name,
                        known_ids,
                    )
            for name in (comparison.subject, comparison.against):
                if name.startswith(RUNG) and ladders is not None:
                    _check_rung(row, where, name, ladders)

    def _check_sets(self, ladders: LadderSet) -> None:
        """Check that judgments files name these ladders, or an earlier revision of them."""
        digests = {ladders.digest, *(each.digest for each in ladders.earlier)}
        for place, signature in self._sets.items():
            judged = str(scale_of(signature))
            if judged.partition("|")[0].rpartition("@")[2] not in digests:
                raise DataError(
                    f"{place}: these judgments are of the ladders {with_earlier_sets(judged)}, and {ladders.name} has others "
                    f"({ladders.digest}); name those that were judged with {option('ladders')} SET"
                )


def _check_rung(row: str, where: str, name: str, ladders: LadderSet) -> None:
    level, anchor = level_of(name), name.partition("@")[2]
    if level is None or level > ladders.rungs:
        shown = name.removeprefix(RUNG).partition("@")[0]
        raise DataError(f"{row}: rung {shown}; the ladders in {where} have {ladders.rungs} rungs")
    if anchor and not ladders.anchors:
        raise DataError(
            f"{row}: anchor {anchor!r}, and {ladders.name} is not shared; leave the column out"
        )
    if ladders.anchors and not anchor:
        raise DataError(
            f"{row}: no anchor, and {ladders.name} is shared; name the anchor of each rung in the column 'anchor'"
        )
    if ladders.anchors and anchor not in ladders.anchors:
        raise _unknown(row, f"{ladders.name} has no anchor", anchor, ladders.anchors)


def _unknown(row: str, problem: str, name: str, names: Iterable[str]) -> DataError:
    """Return the error for an id that does not exist; it suggests a similar one."""
    ids = sorted(names)
    listed = f"; it has: {', '.join(ids[:_SHOWN])}{', ...' * (len(ids) > _SHOWN)}"
    return DataError(f"{row}: {problem} {name!r}{did_you_mean(name, ids, end=listed)}")


def _outputs_of(comparison: Comparison) -> list[str]:
    names = comparison.subject, comparison.against
    return [name for name in names if name and not name.startswith(RUNG)]


def read_recorded(*paths: str) -> Recorded:
    """Read tables of judgments and judgments files, together one. Memory grows with their rows."""
    kinds: dict[str, str] = {}
    sets: dict[str, str] = {}
    readings: dict[Comparison, LabelReading] = {}
    places: dict[Comparison, str] = {}
    for path in paths:
        kinds[path], judged = _judged_in(path, sets)
        for place, comparison, reading in judged:
            if comparison in readings:
                raise DataError(
                    f"{place}: a second judgment of {comparison.subject!r} against {comparison.against!r} "
                    f"({comparison.dimension}, {comparison.context_id}); the first is in {places[comparison]}; "
                    "keep one of them"
                )
            readings[comparison] = reading
            places[comparison] = place
    if len(set(kinds.values())) > 1:
        of_pairs = next(path for path in paths if kinds[path] != LADDER)
        of_rungs = next(path for path in paths if kinds[path] != kinds[of_pairs])
        raise UsageError(
            f"{of_pairs} holds judgments of {_WORDS[kinds[of_pairs]]}, and {of_rungs} of {_WORDS[kinds[of_rungs]]}; name "
            "them in runs of their own"
        )
    names = ", ".join(map(source_name, paths))
    mode = recorded_mode(paths[0]) if kinds[paths[0]] == RATED else 0
    return Recorded(names, kinds[paths[0]], readings, places, sets, mode=mode)


def recorded_mode(path: str) -> int | str:
    """Return the mode in which the judgments of a file are scored, by its first row; 0 for standard input."""
    if path == "-":
        return 0
    with closing(read_rows(path)) as rows:
        first = rows.first()
    if first is None or not _is_run(first):
        return _MODE_OF_RATINGS if first is not None and "percent" in first.fields else 0
    run, _ = read_judgments(path)
    return 0 if mode_of(run.answers).compares_rungs else run.answers


def _is_run(row: Row) -> bool:
    return row.fields.get("schema") in {SCHEMAS[Run], *OLDER[Run]}


def _judged_in(path: str, sets: dict[str, str]) -> tuple[str, Iterator[Judged]]:
    """Return the kind of a file and its judgments; `sets` gets the ladders that it names."""
    rows = read_rows(path)
    first = rows.first()
    if first is None:
        raise DataError(f"{path}: no recorded judgments in it; write one comparison per row")
    if _is_run(first) and path != "-":
        rows.close()
        return _judged_by_refladder(path, sets)
    kind = _kind_of(first)
    verdict = _verdict_columns(first, kind)

    def judged() -> Iterator[Judged]:
        for row in rows:
            comparison = _COMPARISONS[kind](row)
            yield row.where, comparison, _reading(row, verdict, comparison)

    return kind, judged()


def _judged_by_refladder(path: str, sets: dict[str, str]) -> tuple[str, Iterator[Judged]]:
    run, judgments = read_judgments(path)
    mode = mode_of(run.answers)
    kind, outcomes = RATED, mode.outcomes
    if run.rungs:
        sets[f"{path}:1"] = run.ladders
    if mode.compares_rungs:
        kind, outcomes = (LADDER, OUTCOMES) if run.rungs else (PAIRS, (WIN, LOSS))

    def judged() -> Iterator[Judged]:
        for place, judgment in judgments:
            given = set(judgment.outcomes)
            if kind != RATED and (
                judgment.against is None or not set(outcomes[:2]) <= given <= set(OUTCOMES)
            ):
                raise DataError(
                    f"{place}: a grade of one text, and recorded judgments are comparisons; name the judgments of "
                    "`refladder score`, or those of a method over pairs"
                )
            logprobs = judgment.logprobs_of(outcomes)
            reason, note = None, judgment.note
            if logprobs is None:
                reason, note = note or EMPTY, None
            reading = LabelReading(
                logprobs=logprobs, mass=judgment.mass, reason=reason, cut=judgment.cut, note=note
            )
            yield place, judgment.comparison, reading

    return kind, judged()


def _kind_of(row: Row) -> str:
    has_rung = "rung" in row.fields
    if "percent" in row.fields:
        return RATED
    if has_rung == bool({"first", "second"} & row.fields.keys()):
        problem = "neither 'rung' nor 'first' and 'second'"
        if has_rung:
            problem = "'rung' beside 'first' or 'second'"
        raise DataError(
            f"{row.where}: columns with {problem}; a row needs context_id, dimension, output and rung (a ladder) or "
            f"context_id, dimension, first and second (pairs). Columns there: {', '.join(map(str, row.fields))}"
        )
    return LADDER if has_rung else PAIRS


def _verdict_columns(row: Row, kind: str) -> tuple[str, ...]:
    """Return the columns that hold the judgment, in a table of that kind."""
    if kind == RATED:
        return ("percent",)
    word, numbers = ("outcome", OUTCOMES) if kind == LADDER else ("winner", ("p",))
    present = [name for name in (word, *numbers) if name in row.fields]
    if not present:
        columns = ", ".join(map(str, row.fields))
        raise DataError(
            f"{row.where}: no column {word!r}, nor {', '.join(numbers)}. Columns there: {columns}"
        )
    if word in present and len(present) > 1:
        raise DataError(
            f"{row.where}: the judgment is in {word!r} and in {present[1]!r}; drop one of the columns"
        )
    if word not in present and len(present) < len(numbers):
        missing = next(name for name in numbers if name not in present)
        raise missing_column(row.where, missing, row.fields)
    return tuple(present) if word in present else numbers


def _rung_comparison(row: Row) -> Comparison:
    anchor, rung = _rung(row)
    output = _output(row, "output")
    value = row.fields.get("swapped")
    swapped = _SWAPPED.get("" if value is None else str(value).strip().lower())
    if swapped is None:
        raise DataError(f"{row.where}: swapped {value!r:.60}; it must be true or false")
    if swapped:
        return _comparison(row, rung, output, anchor=anchor)
    return _comparison(row, output, rung, anchor=anchor)


def _rung(row: Row) -> tuple[str, str]:
    """Return the anchor of the rung that a row names, empty for none, and the id of the rung."""
    level = number_of(row, "rung")
    anchor = _if_any(row, "anchor")
    if level < 1 or not level.is_integer():
        raise DataError(
            f"{row.where}: rung {row.fields['rung']!r}; a rung is a whole number, 1 for the worst"
        )
    return anchor, rung_id(int(level), anchor)


def _rating(row: Row) -> Comparison:
    """Return what a row rates: an output, or a rung if it names none."""
    if _if_any(row, "output"):
        return _comparison(row, _output(row, "output"), "")
    anchor, rung = _rung(row)
    comparison = _comparison(row, rung, "", anchor=anchor)
    if anchor:
        # The context of a rung is its anchor.
        comparison = replace(comparison, context_id=anchor)
    return comparison


def _pair_comparison(row: Row) -> Comparison:
    comparison = _comparison(row, _output(row, "first"), _output(row, "second"))
    if comparison.subject == comparison.against:
        raise DataError(
            f"{row.where}: output {comparison.subject!r} is compared with itself; drop the row"
        )
    return comparison


def _output(row: Row, column: str) -> str:
    name = name_of(row, column)
    if name.startswith(RUNG):
        raise DataError(
            f"{row.where}: {column} {name!r} begins with {RUNG!r}, which means a rung; rename it"
        )
    return name


def _comparison(row: Row, subject: str, against: str, *, anchor: str = "") -> Comparison:
    return Comparison(
        context_id=_if_any(row, "context_id") if anchor else name_of(row, "context_id"),
        dimension=name_of(row, "dimension"),
        subject=subject,
        against=against,
    )


def _if_any(row: Row, column: str) -> str:
    return row_id(row.where, column, row.fields.get(column)) or ""


def _reading(row: Row, columns: tuple[str, ...], comparison: Comparison) -> LabelReading:
    values = [value_of(row, column) for column in columns]
    if all(value is None or value == "" for value in values):
        return LabelReading(reason=EMPTY)
    match columns:
        case ("outcome",):
            outcome = row.fields["outcome"]
            if outcome not in OUTCOMES:
                raise DataError(
                    f"{row.where}: outcome {outcome!r:.60}; it must be {WIN}, {LOSS} or {TIE}, or empty"
                )
            return _seen_from(comparison, [float(outcome == name) for name in OUTCOMES], mass=None)
        case ("percent",):
            return _rated(row)
        case ("winner",):
            return _certain(_winner(row, comparison))
        case ("p",):
            probability = number_of(row, "p")
            if not 0 <= probability <= 1:
                raise DataError(f"{row.where}: p {probability:g}; a probability is between 0 and 1")
            return _certain(probability)
    probabilities = [number_of(row, column) for column in columns]
    if min(probabilities) < 0 or not 0 < sum(probabilities) <= 1 + SLACK:
        cells = zip(columns, probabilities, strict=True)
        shown = ", ".join(f"{column} {value:g}" for column, value in cells)
        raise DataError(
            f"{row.where}: {shown}; probabilities are 0 or more and add to more than 0 and at most 1"
        )
    return _seen_from(comparison, probabilities, mass=min(1.0, sum(probabilities)))


def _rated(row: Row) -> LabelReading:
    """Return the reading of five percentages; a cell of CSV holds a list as JSON."""
    given = row.fields["percent"]
    if isinstance(given, str):
        given = parse_json(given, f"{row.where}: percent")
    listed = given if isinstance(given, list) else []
    numbers = [each for each in listed if _is_number(each)]
    if not len(listed) == len(numbers) == len(RATINGS) or min(numbers) < 0:
        raise DataError(
            f"{row.where}: percent {row.fields['percent']!r:.60}; it must be a list of {len(RATINGS)} numbers of 0 or "
            "more, the percentages of the ratings 1 to 5"
        )
    shares = shares_of(numbers)
    if shares is None:
        raise DataError(
            f"{row.where}: the numbers of percent add to {sum(numbers):g}, and percentages add to 100; correct the row, "
            "or leave the cell empty"
        )
    return LabelReading(logprobs=tuple(map(log_of, shares)), mass=None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _winner(row: Row, comparison: Comparison) -> float:
    """Return the probability that the first is better: 1, 0, or 1/2 for a tie."""
    winner = name_of(row, "winner")
    first = winner in {"first", comparison.subject}
    second = winner in {"second", comparison.against}
    if first + second + (winner == TIE) > 1:
        raise DataError(
            f"{row.where}: winner {winner!r} is both a word and the id of another text; give p instead"
        )
    if not (first or second or winner == TIE):
        raise DataError(
            f"{row.where}: winner {winner!r:.60}; it must be first, second, tie, {comparison.subject!r} or "
            f"{comparison.against!r}, or empty"
        )
    if first:
        return 1.0
    return 0.0 if second else 0.5


@functools.cache
def _certain(probability: float) -> LabelReading:
    """Return the reading of a pair whose first text is better with this probability; equal ones share one object."""
    return LabelReading(logprobs=(log_of(probability), log_of(1 - probability)), mass=None)


def _seen_from(
    comparison: Comparison, probabilities: Sequence[float], *, mass: float | None
) -> LabelReading:
    """Return the reading of a comparison with a rung, from the output's probabilities of win, loss and tie."""
    win, loss, tie = map(log_of, probabilities)
    if comparison.subject.startswith(RUNG):
        win, loss = loss, win
    return LabelReading(logprobs=(win, loss, tie), mass=mass)


_COMPARISONS = {LADDER: _rung_comparison, PAIRS: _pair_comparison, RATED: _rating}
