"""Limits of what is read: the longest line, and what a gzip file unpacks to."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from refladder.errors import DataError
from refladder.files import streams
from refladder.files.jsonl import read_bytes, read_lines
from refladder.files.tables import read_rows
from refladder.parsing import parse_toml

LONG = json.dumps({"output": "x" * 3000})  # longer than the limit of these tests, 2,048 bytes
ADVICE = "write each row as a line of its own, or shorten its texts"
TOO_LONG = f"a line of more than 2,048 bytes; {ADVICE}$"
AS_A_WHOLE = "more than 10,000 bytes, the most that is read as a whole"


@pytest.fixture
def short_lines(monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_LINE", 2048)


@pytest.fixture
def small_files(monkeypatch):
    """A gzip file may unpack to 10,000 bytes, or to 200 times its size if that is more."""
    monkeypatch.setattr(streams, "ALWAYS_UNPACKED", 10_000)
    monkeypatch.setattr(streams, "LARGEST", 10_000)


def refused(message, source, read=read_rows):
    with pytest.raises(DataError, match=message):
        list(read(source))


def test_the_limits_are_those_of_the_documentation():
    assert streams.LONGEST_LINE == streams.ALWAYS_UNPACKED == 64 << 20
    assert streams.LARGEST == 1 << 30
    assert streams.UNPACKED_RATIO == 200


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("ending", ["\n", ""])
def test_a_line_has_a_greatest_length(tmp_path, monkeypatch, ending):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"output": "fine"}) + "\n" + LONG + ending)
    for source in (str(path), f"file://{path}"):
        refused(rf"rows\.jsonl:2: {TOO_LONG}", source)
    refused(rf"rows\.jsonl:2: {TOO_LONG}", path, read_lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LONG.encode())))
    refused(rf"<stdin>:1: {TOO_LONG}", "-")


@pytest.mark.usefixtures("short_lines")
def test_a_line_of_just_the_greatest_length_is_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    line = json.dumps({"output": "x" * (2048 - len(json.dumps({"output": ""})) - 1)}) + "\n"
    assert len(line) == 2048
    path.write_text(line * 2)
    assert len(list(read_rows(str(path)))) == 2


@pytest.mark.usefixtures("short_lines")
def test_a_csv_cell_over_many_lines_has_a_greatest_length(tmp_path):
    path = tmp_path / "rows.csv"
    # 2,900 bytes; no line is long
    path.write_text('output\n"' + "a quote that is never closed\n" * 100)
    refused(r"rows\.csv:\d+: not CSV \(field larger than field limit \(2048\)\)", str(path))


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.csv.gz"])
def test_a_gzip_bomb_is_refused(tmp_path, name):
    # 10 million spaces pack to about 10,000 bytes, so 200 times its size is reached at 2 million.
    (tmp_path / name).write_bytes(gzip.compress((b" " * 999 + b"\n") * 10_000))
    message = "gz: unpacks to more than 200 times its size; if that is right, unpack"
    for source in (f"{tmp_path}/{name}", f"file://{tmp_path}/{name}"):
        refused(message, source)


@pytest.mark.parametrize(("name", "row"), [("rows.jsonl", '{"a": 1}'), ("rows.csv", "a\n1")])
def test_blank_lines_at_the_end_have_a_greatest_number(tmp_path, name, row):
    path = tmp_path / name
    path.write_text(row + "\n" * 10_001)  # the first ends the row
    assert len(list(read_rows(str(path)))) == 1
    path.write_text(row + "\n" * 10_002)
    refused(": more than 10,000 blank lines in a row; remove them$", str(path))


@pytest.mark.usefixtures("small_files")
def test_what_is_read_whole_is_limited(tmp_path):
    path = tmp_path / "list.json.gz"
    path.write_bytes(gzip.compress(os.urandom(10_001)))  # it does not pack at all
    refused(rf"list\.json\.gz: {AS_A_WHOLE}", path, read_bytes)
    refused(f"/dev/zero: {AS_A_WHOLE}", Path("/dev/zero"), read_bytes)
    path.write_bytes(gzip.compress(b"x" * 10_000))
    assert read_bytes(path) == b"x" * 10_000


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_gzip_file_of_ordinary_rows_is_read_from_a_file_a_url_and_a_pipe(tmp_path, form):
    rows = [{"n": str(k), "text": os.urandom(20).hex()} for k in range(1000)]
    lines = {
        "jsonl": [json.dumps(row) for row in rows],
        "csv": ["n,text", *(",".join(row.values()) for row in rows)],
    }
    packed = gzip.compress("\n".join(lines[form]).encode())
    file, pipe = tmp_path / f"rows.{form}.gz", tmp_path / "pipe"
    file.write_bytes(packed)
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_bytes, args=[packed]).start()
    for path in (str(file), f"file://{file}", str(pipe)):
        assert [row.fields for row in read_rows(path, form)] == rows


@pytest.mark.usefixtures("short_lines")
def test_rows_of_parquet_have_a_greatest_length(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"output": [LONG, LONG[::-1]]}), path)
    refused(r"rows\.parquet: rows of more than 2,048 bytes; shorten their texts$", str(path))
    parquet.write_table(pa.table({"output": ["fine"]}), path)
    assert [row.fields for row in read_rows(str(path))] == [{"output": "fine"}]


def test_a_toml_file_has_a_greatest_length():
    assert parse_toml("a = 1" + " " * ((1 << 20) - 5), "task.toml") == {"a": 1}
    with pytest.raises(DataError, match=r"task\.toml: not TOML \(more than 1,048,576 bytes\)$"):
        parse_toml("a = 1" + " " * (1 << 20), "task.toml")
