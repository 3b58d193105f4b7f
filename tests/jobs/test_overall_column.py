"""The weighted score of several dimensions never takes the column of a dimension that is called overall."""

from __future__ import annotations

from refladder.records import Dimension, Score
from refladder.scoring.columns import Columns, Scale, added_columns, overall_column

NAMES = ("overall", "naturalness")


def dimensions(*names):
    return [Dimension(name=name, description="") for name in names]


def test_its_name():
    assert overall_column(dimensions("clarity", "charm")) == "overall_score"
    assert overall_column(dimensions(*NAMES)) == "all_dimensions_score"
    assert "all_dimensions_score" in added_columns(dimensions(*NAMES))


def test_the_dimensions_own_score_stays():
    # Wins against both rungs on overall: 1 + 2 = 3. Loses to both on naturalness: -3. Half way between the bounds.
    scores = [
        Score(
            output_id="o", dimension=name, value=value, grade=None, spread=None, mass=1.0, reason=None, signature="all"
        )
        for name, value in zip(NAMES, (3.0, -3.0), strict=True)
    ]
    columns = Columns(dimensions(*NAMES), 2, Scale(rule="ladder-sum", weights={}))
    (row,) = columns.rows([scores])
    assert (row["overall_score"], row["naturalness_score"], row["all_dimensions_score"]) == (3.0, -3.0, 0.5)
    assert columns.overall([scores]) == [0.5]
    assert list(row) == list(added_columns(dimensions(*NAMES)))
