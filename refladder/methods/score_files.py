"""Scores that another program made, as a method of the table."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from refladder.errors import DataError, UnknownNameError
from refladder.files.tables import number_in, read_rows
from refladder.loaders.fields import missing_column
from refladder.loaders.own import context_text
from refladder.metaeval.agreement import human_means
from refladder.methods.contract import Method
from refladder.records import text_id
from refladder.scoring.columns import column_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.files.tables import Row
    from refladder.records import Benchmark, Dimension

    Scores = dict[tuple[str, str], float | None]


def read_scores(
    path: str, benchmark: Benchmark, dimensions: Sequence[Dimension], named: Mapping[str, str] | None = None
) -> Method:
    """Scores that any program made, from a table: one row an output.

    A row names its output by `output_id` (or `id`), or by `context_id` and `system`; a `context` column stands for a
    missing `context_id`, by the id that `refladder build own` makes from its text. The scores of a dimension are in
    the column that `named` has for it, else in the first of `coherence_score`, `coherence` and `score` that the first
    row has; `score` serves every dimension. Empty, null or absent is unscored, and counted.

    Args:
        path: the table.
        benchmark: whose outputs.
        dimensions: those to read.
        named: from a dimension's name to the column of its scores; the table must have that column.

    Raises:
        UnknownNameError: `named` has a dimension that is not read.
        DataError: with path:line: no id, no score column, an output that is not in the benchmark or appears twice, a
            cell that is not a finite number; or the column of a dimension equals the human ratings.
    """
    for name in named or {}:
        if name not in {dimension.name for dimension in dimensions}:
            raise UnknownNameError("dimension of --score-column", name, [dimension.name for dimension in dimensions])
    by_place = {(output.context_id, output.system): output.id for output in benchmark.outputs}
    known = {output.id for output in benchmark.outputs}
    scores: Scores = {}
    columns: dict[str, str] | None = None
    seen: set[str] = set()
    for row in read_rows(path):
        if columns is None:
            columns = _score_columns(row.where, row.fields, dimensions, named or {})
        output_id = _output_id(row, by_place)
        if output_id not in known:
            near = difflib.get_close_matches(output_id, sorted(known), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise DataError(f"{row.where}: output {output_id!r} is not in {benchmark.name}{hint}")
        if output_id in seen:
            raise DataError(f"{row.where}: output {output_id!r} appears twice")
        seen.add(output_id)
        for dimension, column in columns.items():
            scores[output_id, dimension] = number_in(row, column) if column in row.fields else None
    if columns is None:
        raise DataError(f"{path}: no rows; a row for each output is needed")
    _refuse_ratings(path, benchmark, scores, columns)
    name = path.rpartition("/")[2].removesuffix(".gz").rpartition(".")[0] or path
    return Method(name=name, signature=f"file:{path.rpartition('/')[2]}", scores=scores)


def _refuse_ratings(path: str, benchmark: Benchmark, scores: Scores, columns: Mapping[str, str]) -> None:
    """Refuse a column that holds the human ratings themselves: its agreement would be 1 and say nothing.

    Equal ratings of all outputs are passed over, since constant scores have no correlation anyway.
    """
    means = human_means(benchmark.ratings)
    for dimension, column in columns.items():
        pairs = [
            (rating, score)
            for (output_id, name), rating in means.items()
            if name == dimension and (score := scores.get((output_id, name))) is not None
        ]
        if len({rating for rating, _ in pairs}) > 1 and all(rating == score for rating, score in pairs):
            raise DataError(
                f"{path}: column {column!r} equals the human ratings on {dimension!r}, so it measures nothing; "
                f"name the column of the scores with --score-column {dimension}=COLUMN"
            )


def _score_columns(
    where: str, fields: Mapping[str, object], dimensions: Sequence[Dimension], named: Mapping[str, str]
) -> dict[str, str]:
    found = {}
    for dimension in dimensions:
        if dimension.name in named and named[dimension.name] not in fields:
            raise missing_column(where, named[dimension.name], fields)
        # A table that refladder scored has NAME_score beside what it had before, which may be the ratings.
        names = (named.get(dimension.name), column_names(dimension.name)[0], dimension.name, "score")
        column = next((name for name in names if name is not None and name in fields), None)
        if column is not None:
            found[dimension.name] = column
    missing = [dimension.name for dimension in dimensions if dimension.name not in found]
    if missing:
        raise DataError(
            f"{where}: no column for dimension {missing[0]!r} (nor 'score'); columns there: {', '.join(fields)}. "
            f"Name the column with --score-column {missing[0]}=COLUMN, or the dimensions that the file has with "
            "--dimension"
        )
    return found


def _output_id(row: Row, by_place: Mapping[tuple[str, str], str]) -> str:
    fields = row.fields
    for name in ("output_id", "id"):
        if name in fields:
            return str(fields[name])
    if "system" in fields and ("context_id" in fields or "context" in fields):
        context_id = (
            str(fields["context_id"])
            if "context_id" in fields
            else text_id(*context_text(row, {"context": "context", "background": "background"}))
        )
        place = (context_id, str(fields["system"]))
        return by_place.get(place, "/".join(place))
    raise DataError(
        f"{row.where}: a row must name its output by output_id, or by context_id and system; columns there: "
        f"{', '.join(fields)}"
    )
