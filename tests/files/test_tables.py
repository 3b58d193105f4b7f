from __future__ import annotations

import csv
import gzip
import io
import json
import sys

import pytest

from refladder.errors import DataError, UsageError
from refladder.files.tables import Row, format_of, open_sink, read_once, read_rows, standard_form


def test_the_format_is_told_by_the_ending():
    found = {
        name: format_of(name)
        for name in ("a.jsonl", "a.ndjson", "a.JSON", "a.csv", "a.csv.gz", "a.parquet", "-")
    }
    assert list(found.values()) == ["jsonl", "jsonl", "jsonl", "csv", "csv", "parquet", "jsonl"]
    assert format_of("a.txt", "csv") == "csv"
    with pytest.raises(UsageError, match=r"^a\.txt: unknown file extension; use .jsonl, .csv or"):
        format_of("a.txt")
    assert [
        standard_form(*pair) for pair in (("-", "csv"), ("-", "jsonl"), ("a.jsonl", "csv"))
    ] == ["csv", None, None]


def test_columns_are_known_before_a_row_is_taken(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfx,y\r\n1,2\r\n")  # with a BOM
    rows = read_rows(str(path))
    assert rows.columns() == ["x", "y"]
    assert [row.fields for row in rows] == [{"x": "1", "y": "2"}]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"x": 1}\n{"y": 2}\n')
    rows = read_rows(str(path))
    assert rows.columns() == ["x"]
    assert rows.first().fields == {"x": 1}
    assert [(row.where, row.fields) for row in rows] == [
        (f"{path}:1", {"x": 1}),
        (f"{path}:2", {"y": 2}),
    ]
    path.write_bytes(b"\n\n")
    assert read_rows(str(path)).columns() is None


def test_a_cell_of_several_lines_is_named_by_its_first(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x,y\n"a\nb",1\n"long ' + "x" * 200_000 + '",2\n')
    assert [
        (row.where.rpartition(":")[2], len(row.fields["x"])) for row in read_rows(str(path))
    ] == [("2", 3), ("4", 200_005)]


def test_added_values_stand_at_the_end_of_the_line(tmp_path, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": 1 } \n{}\n')
    with open_sink("-", None, {"s": float}) as write:
        for row in read_rows(str(path)):
            write(row, {"s": 0.5})
    assert written.getvalue() == b'{"x": 1,"s": 0.5}\n{"s": 0.5}\n'


def test_a_column_that_is_there_already(tmp_path):
    row = Row("a:1", {"x": 1})
    for name in ("a.jsonl", "a.csv", "a.parquet"):
        sink = open_sink(str(tmp_path / name), None, {"x": float})
        message = "^a:1: column 'x' already exists; rename or remove it first$"
        with pytest.raises(UsageError, match=message), sink as write:
            write(row, {"x": 2.0})
    assert list(tmp_path.iterdir()) == []


FORMULAS = ["=1+1", "+a", "-a", "@a", "\ta", "\ra"]


def test_formulas_in_csv_are_escaped_on_request_and_numbers_stay(tmp_path):
    cells = [*FORMULAS, "-1.5", " =1", "a=1", -1.5, None, "", "-1_0"]
    expected = [*(f"'{text}" for text in FORMULAS), "-1.5", " =1", "a=1", "-1.5", "", "", "'-1_0"]
    for escape, column, wanted in (
        (True, "'=x", expected),
        (False, "=x", [*map(str, cells[:10]), "", "", "-1_0"]),
    ):
        path = tmp_path / f"{escape}.csv"
        with open_sink(str(path), None, {"s": float}, escape_formulas=escape) as write:
            for cell in cells:
                write(Row("a:1", {"=x": cell}), {"s": -2.0})
        with path.open(newline="") as stream:
            lines = list(csv.reader(stream))
        assert lines[0] == [column, "s"]
        assert lines[1:] == [[cell, "-2.0"] for cell in wanted]


def test_formulas_are_escaped_in_csv_only(tmp_path):
    with (
        pytest.raises(
            UsageError,
            match=r"a.jsonl: --escape-formulas works only with CSV, not jsonl; remove it or ",
        ),
        open_sink(str(tmp_path / "a.jsonl"), None, {}, escape_formulas=True),
    ):
        pass


def test_rows_in_any_order_of_columns_make_one_csv(tmp_path):
    path = tmp_path / "a.csv"
    with open_sink(str(path), None, {}) as write:
        write(Row("a:1", {"x": 1, "y": 2}))
        write(Row("a:2", {"y": 4, "x": 3}))
    assert path.read_text() == "x,y\n1,2\n3,4\n"
    sink = open_sink(str(path), None, {})
    with (  # noqa: PT012  it is the block that fails
        pytest.raises(
            DataError, match=r"^a:2: its columns differ from the first row's \(z\); write \.jsonl"
        ),
        sink as write,
    ):
        write(Row("a:1", {"x": 1}))
        write(Row("a:2", {"x": 1, "z": 2}))
    assert path.read_text() == "x,y\n1,2\n3,4\n"


def test_what_can_be_read_once(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text("")
    assert [read_once(str(path)) for path in ("-", "/dev/null", file, tmp_path, tmp_path / "none")] == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_gzip_on_standard_input_is_unpacked(monkeypatch):
    packed = gzip.compress(b'{"a": 1}\n{"a": 2}\n')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    assert [row.fields["a"] for row in read_rows("-")] == [1, 2]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed[:-9])))
    with pytest.raises(DataError, match=r"<stdin>:.*the stream is damaged or incomplete"):
        list(read_rows("-"))


@pytest.mark.parametrize("name", ["table.jsonl", "table.parquet"])
def test_numbers_that_json_has_not_are_null_counted_and_said(tmp_path, caplog, name):
    path = tmp_path / name
    if name.endswith("jsonl"):
        path.write_text(
            '{"a": 1, "b": NaN, "c": [Infinity, 2]}\n{"a": 3, "b": 0.5, "c": []}\n', "utf-8"
        )
    else:
        pa = pytest.importorskip("pyarrow")
        rows = [{"a": 1, "b": float("nan"), "c": [float("inf"), 2.0]}, {"a": 3, "b": 0.5, "c": []}]
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), path)
    out = tmp_path / "out.jsonl"
    with open_sink(str(out), None, {}) as write:
        for row in read_rows(str(path)):
            write(row)
    assert [
        json.loads(line, parse_constant=pytest.fail) for line in out.read_text("utf-8").splitlines()
    ] == [{"a": 1, "b": None, "c": [None, 2]}, {"a": 3, "b": 0.5, "c": []}]
    assert (
        "out.jsonl: NaN and Infinity are written as null, as JSON has neither: 2 values"
        in caplog.text
    )
    assert f"the first at {path}:1, column 'b'" in caplog.text
