"""Scores that another program made, as a method of the table."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from refladder.errors import DataError, UnknownNameError, did_you_mean, option
from refladder.files.tables import number_in, read_rows
from refladder.loaders.draft import output_text_id
from refladder.loaders.fields import has_output, log_columns, missing_column, name_of, text_of
from refladder.loaders.user_table import context_text
from refladder.methods.contract import Method
from refladder.records import ids_of, names_of, text_id
from refladder.scoring.columns import column_names
from refladder.statistics.agreement import human_means

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.files.tables import Row
    from refladder.records import Benchmark, Dimension

    Scores = dict[tuple[str, str], float | None]


def read_scores(
    path: str,
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    named: Mapping[str, str] | None = None,
) -> Method:
    """Read scores that any program made from a table with one row per output.

    A row names its output by `output_id` (or `id`), by `context_id` and `system`, or by `context_id` and the text of
    the output; a `context` column replaces a missing `context_id`. The scores of a dimension are in the column that
    `named` has for it, else in the first of `coherence_score`, `coherence` and `score` that the first row has.
    """
    available = names_of(dimensions)
    for name in named or {}:
        if name not in available:
            raise UnknownNameError("dimension of --score-column", name, available)
    by_system = {(output.context_id, output.system): output.id for output in benchmark.outputs}
    by_text: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for output in benchmark.outputs:
        by_text[output.context_id, output.text].append(output.id)
    output_ids = set(ids_of(benchmark.outputs))
    scores: Scores = {}
    columns: dict[str, str] | None = None
    seen: set[str] = set()
    for row in filter(has_output, read_rows(path)):
        if columns is None:
            columns = _score_columns(row.where, row.fields, dimensions, named or {})
        for output_id in _output_ids(row, by_system, by_text):
            if output_id not in output_ids:
                hint = did_you_mean(output_id, sorted(output_ids), end="")
                raise DataError(
                    f"{row.where}: output {output_id!r} is not in {benchmark.name}{hint}"
                )
            values = _values(row, output_id, columns)
            by_name = not {"output_id", "id", "system"}.isdisjoint(row.fields)
            if output_id in seen and (by_name or not values.items() <= scores.items()):
                raise DataError(f"{row.where}: output {output_id!r} appears twice")
            seen.add(output_id)
            scores.update(values)
    if columns is None:
        raise DataError(f"{path}: no rows; a row for each output is needed")
    _refuse_ratings(path, benchmark, scores, columns)
    file_name = path.rpartition("/")[2]
    name = file_name.removesuffix(".gz").rpartition(".")[0] or path
    return Method(name=name, signature=f"file:{file_name}", scores=scores)


def _values(row: Row, output_id: str, columns: Mapping[str, str]) -> Scores:
    values: Scores = {}
    for dimension, column in columns.items():
        number = number_in(row, column) if column in row.fields else None
        values[output_id, dimension] = number
    return values


def _refuse_ratings(
    path: str, benchmark: Benchmark, scores: Scores, columns: Mapping[str, str]
) -> None:
    """Refuse a column that holds the human ratings themselves, if not all equal: its agreement would say nothing."""
    means = human_means(benchmark.ratings)
    for dimension, column in columns.items():
        ratings = []
        given = []
        for key, rating in means.items():
            score = scores.get(key)
            if key[1] == dimension and score is not None:
                ratings.append(rating)
                given.append(score)
        if len(set(ratings)) > 1 and ratings == given:
            raise DataError(
                f"{path}: column {column!r} equals the human ratings on {dimension!r}, so it measures nothing; "
                f"name the column of the scores with --score-column {dimension}=COLUMN"
            )


def _score_columns(
    where: str,
    fields: Mapping[str, object],
    dimensions: Sequence[Dimension],
    named: Mapping[str, str],
) -> dict[str, str]:
    columns = {}
    for dimension in dimensions:
        if dimension.name in named and named[dimension.name] not in fields:
            raise missing_column(where, named[dimension.name], fields)
        # A table that refladder scored has NAME_score beside what it had before, which may be the ratings.
        score = column_names(dimension.name).score
        for name in (named.get(dimension.name), score, dimension.name, "score"):
            if name is not None and name in fields:
                columns[dimension.name] = name
                break
    for dimension in dimensions:
        if dimension.name not in columns:
            raise DataError(
                f"{where}: no column for dimension {dimension.name!r} (nor 'score'); columns there: "
                f"{', '.join(fields)}. Name the column with --score-column {dimension.name}=COLUMN, or the dimensions "
                f"that the file has with {option('dimension')}"
            )
    return columns


def _output_ids(
    row: Row,
    by_system: Mapping[tuple[str, str], str],
    by_text: Mapping[tuple[str, str], Sequence[str]],
) -> Sequence[str]:
    """Return the outputs of a row: one, or all outputs with its text if the text names them."""
    fields = row.fields
    for name in ("output_id", log_columns(fields).get("output_id", "id")):
        if name in fields:
            return [name_of(row, name)]
    if {"system", "output"} & fields.keys() and ("context_id" in fields or "context" in fields):
        if "context_id" in fields:
            context_id = name_of(row, "context_id")
        else:
            context_columns = {"context": "context", "background": "background"}
            context_id = text_id(*context_text(row, context_columns))
        if "system" in fields:
            key = (context_id, name_of(row, "system"))
            return [by_system.get(key, "/".join(key))]
        text = text_of(row, "output")
        return by_text.get((context_id, text), [output_text_id(context_id, text)])
    raise DataError(
        f"{row.where}: a row must name its output by output_id, or by context_id and system or output; columns there: "
        f"{', '.join(fields)}"
    )
