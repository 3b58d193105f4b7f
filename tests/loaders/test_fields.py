"""Typed values of a row."""

from __future__ import annotations

import math
import re

import pytest

from refladder.errors import DataError
from refladder.files.tables import Row
from refladder.loaders.fields import as_row, list_of, name_of, number_of, text_of, texts_of

NUMBER = "expected a finite number, found"
NAME = "expected a name or an integer, found"


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (text_of, 5, "expected text, found 5"),
        (text_of, "half \ud83d", "half a surrogate pair, which is not valid Unicode; correct the text"),
        (texts_of, 5, "expected text, found 5"),
        (name_of, "", f"{NAME} ''"),
        (name_of, True, f"{NAME} True"),
        (name_of, None, f"{NAME} None"),
        (number_of, math.nan, f"{NUMBER} nan"),
        (number_of, 10**400, f"{NUMBER} 1000"),
        (number_of, "", f"{NUMBER} ''"),
        (number_of, "good", f"{NUMBER} 'good'"),
        (number_of, "1_0", f"{NUMBER} '1_0'"),
        (number_of, [3], f"{NUMBER} [3]"),
        (number_of, True, f"{NUMBER} True"),
        (list_of, "a", "expected a list, found 'a'"),
        (lambda row, column: list_of(row, column, 4), [1, 2, 3], "expected 4 items, found 3"),
    ],
)  # fmt: skip
def test_a_cell_of_another_type_is_refused_with_its_place(read, value, message):
    with pytest.raises(DataError, match=rf"^f:1: column 'x': {re.escape(message)}"):
        read(Row("f:1", {"x": value}), "x")


def test_a_missing_column_is_named_with_a_similar_one():
    with pytest.raises(DataError, match=r"^f:1: no column 'model_id'; did you mean 'modelid'\? It"):
        name_of(Row("f:1", {"id": 1, "modelid": "M8"}), "model_id")
    with pytest.raises(DataError, match=r"^f:1: expected a JSON object, found 3$"):
        as_row("f:1", 3)


@pytest.mark.parametrize("value", ["3", 3, 3.0])
def test_a_whole_number_is_one_name_however_it_is_written(value):
    assert name_of(Row("f:1", {"x": value}), "x") == "3"


@pytest.mark.parametrize("cell", ["One.", ["One."], '["One."]'])
def test_texts_are_one_or_a_list_also_in_a_cell_of_csv(cell):
    assert texts_of(Row("f:1", {"x": cell}), "x") == ("One.",)
    assert texts_of(Row("f:1", {"x": None}), "x") == ()
