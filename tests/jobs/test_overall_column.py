"""The weighted score of several dimensions never takes the column of a dimension that is called overall."""

from __future__ import annotations

import numpy as np

from refladder.records import Dimension
from refladder.scoring.columns import Columns, Scale, ScoreReport, added_columns, overall_column

NAMES = ("overall", "naturalness")


def dimensions(*names):
    return [Dimension(name=name, description="") for name in names]


def test_its_name():
    assert overall_column(dimensions("clarity", "charm")) == "overall_score"
    assert overall_column(dimensions(*NAMES)) == "all_dimensions_score"
    assert "all_dimensions_score" in added_columns(dimensions(*NAMES))


def test_the_dimensions_own_score_stays():
    # Wins against both rungs on overall: 1 + 2 = 3. Loses to both on naturalness: -3. Half way between the bounds.
    probabilities = np.zeros((1, 2, 2, 3))
    probabilities[0, 0, :, 0] = 1.0
    probabilities[0, 1, :, 1] = 1.0
    columns = Columns(dimensions(*NAMES), 2, Scale(rule="ladder-sum", weights={}))
    (row,) = columns.of(probabilities, np.ones((1, 2)), {}, ScoreReport())
    assert (row["overall_score"], row["naturalness_score"], row["all_dimensions_score"]) == (3.0, -3.0, 0.5)
