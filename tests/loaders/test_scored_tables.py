"""Which column of a scored table its rows are ranked by."""

from __future__ import annotations

import pytest

from refladder.errors import UsageError
from refladder.files.tables import Row, Rows
from refladder.loaders.scored_tables import ranked_by
from refladder.records import Dimension
from refladder.scoring.columns import added_columns


def ids(done):
    return [row["id"] for row in done.rows]


def test_by_default_rows_are_ranked_by_the_weighted_score_whatever_a_dimension_is_called(
    command, write_jsonl
):
    def table(columns, *names, place="", signed=True):
        """An empty row of a table, with the signature of these criteria."""
        stems = [name.replace(" ", "_") for name in names]
        signature = f"ladders:s@1|criteria:{','.join(f'{stem}@1' for stem in stems)}{place}"
        fields = dict.fromkeys(columns) | ({"signature": signature} if signed else {})
        return "t", Rows(iter([Row("t:1", fields)]))

    def chosen(*names, **how):
        dimensions = [Dimension(name=name, description="x") for name in names]
        return ranked_by([table(added_columns(dimensions), *names, **how)])

    for signed in (True, False):
        assert chosen("clarity", "charm", signed=signed) == "overall_score"
        assert chosen("overall", "charm", signed=signed) == "all_dimensions_score"
        assert chosen("all dimensions", "charm", signed=signed) == "overall_score"
        assert chosen("overall", signed=signed) == "overall_score"  # the only dimension
    # Of ratings with grades, by the signature: the grade.
    for place in ("|place:beaten", "|example:a"):
        assert chosen("clarity", "charm", place=place) == "overall_grade"
        assert chosen("overall", "charm", place=place) == "all_dimensions_grade"
        assert chosen("clarity", place=place) == "clarity_grade"
    placed = table(["x_score", "x_grade"], "x", place="|place:beaten")
    assert ranked_by([placed, placed]) == "x_grade"
    # Not if one of the tables has none.
    placed = table(["x_score", "x_grade"], "x", place="|place:beaten")
    assert ranked_by([placed, table(["x_score", "x_grade"], "x")]) == "x_score"
    # a table without grades
    columns = ["id", "overall_score", "charm_score"]
    assert ranked_by([table(columns, signed=False)]) == "overall_score"
    several = r"^t: several score columns \(overall_score, all_dimensions_score\); name"
    with pytest.raises(UsageError, match=several):
        ranked_by([table([*columns, "all_dimensions_score"], signed=False)])
    # a: 3 on overall, -3 on charm, 0.5 together; b: 1 and 3, (4/6 + 6/6) / 2 = 0.833 together
    names = ("overall_score", "charm_score", "all_dimensions_score")
    grades = {"context_id": "c", "overall_grade": 1.0, "charm_grade": 1.0}
    rows = [
        {"id": row_id, **grades, **dict(zip(names, values, strict=True))}
        for row_id, values in {"a": (3.0, -3.0, 0.5), "b": (1.0, 3.0, 0.8333)}.items()
    ]
    line = f"filter {write_jsonl(rows)} --best 1 --per context_id"
    assert ids(command(line)) == ["b"]
    assert ids(command(f"{line} --by overall_score")) == ["a"]
