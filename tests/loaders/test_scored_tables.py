"""Which column of a scored table its rows are ranked by."""

from __future__ import annotations

import pytest

from refladder.errors import UsageError
from refladder.loaders.scored_tables import score_column
from refladder.records import Dimension
from refladder.scoring.columns import added_columns


def ids(done):
    return [row["id"] for row in done.rows]


def test_by_default_rows_are_ranked_by_the_weighted_score_whatever_a_dimension_is_called(
    command, write_jsonl
):
    def ranked_by(*names):
        dimensions = [Dimension(name=name, description="x") for name in names]
        return score_column("t", list(added_columns(dimensions)))

    assert ranked_by("clarity", "charm") == "overall_score"
    assert ranked_by("overall", "charm") == "all_dimensions_score"
    assert ranked_by("all dimensions", "charm") == "overall_score"
    assert ranked_by("overall") == "overall_score"  # the only dimension
    # a table without grades
    assert score_column("t", ["id", "overall_score", "charm_score"]) == "overall_score"
    several = r"^t: several score columns \(overall_score, all_dimensions_score\); name"
    with pytest.raises(UsageError, match=several):
        score_column("t", ["overall_score", "charm_score", "all_dimensions_score"])
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
