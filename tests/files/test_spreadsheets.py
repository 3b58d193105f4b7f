"""Tables as spreadsheets write them: other delimiters, other formats, and a header without rows."""

from __future__ import annotations

import logging

import pytest

from refladder.errors import UsageError
from refladder.files.tables import read_rows

ROWS = [{"id": "1", "text": "a; b, c"}, {"id": "2", "text": 'says "x"\tand more'}]


@pytest.mark.parametrize(
    ("delimiter", "words", "name"),
    [
        (";", "semicolons", "t.csv"),
        ("\t", "tabs", "t.csv"),
        ("\t", "tabs", "t.tsv"),
        (",", None, "t.csv"),
    ],
)
def test_the_delimiter_is_that_of_the_header(tmp_path, caplog, delimiter, words, name):
    path = tmp_path / name
    second = '"says ""x""\tand more"'
    path.write_text(
        f'id{delimiter}text\n1{delimiter}"a; b, c"\n2{delimiter}{second}\n', "utf-8-sig"
    )
    with caplog.at_level(logging.WARNING, logger="refladder"):
        assert [row.fields for row in read_rows(str(path))] == ROWS
        list(read_rows(str(path)))
    said = f"{path}: cells are separated by {words}; CSV that refladder writes has commas"
    assert caplog.messages == (
        [] if words is None else [said]
    )  # once, however often the table is read


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("text", ["text"]),
        ('"a;b;c",text', ["a;b;c", "text"]),  # what is in quotes is no delimiter
        ("a;b,c", ["a;b", "c"]),  # as many of both: a comma, as it is CSV
        ('"a,b";text', ["a,b", "text"]),
    ],
)
def test_headers_with_several_delimiters(tmp_path, header, columns):
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n")
    assert read_rows(str(path)).columns() == columns


@pytest.mark.parametrize("name", ["t.xlsx", "t.xls", "t.ods"])
def test_a_spreadsheet_is_to_be_saved_as_csv(tmp_path, name, fails):
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04")
    message = f"{path}: a spreadsheet, which refladder cannot read; save as CSV, and name that file"
    with pytest.raises(UsageError) as raised:
        read_rows(str(path))
    assert str(raised.value) == message
    assert message in fails(2, "score", path, "--ladders", "demo/story")


@pytest.mark.parametrize("text", ["context_id,output\n", "context_id;output\n"])
def test_a_header_without_rows_is_no_success(tmp_path, command, text):
    (tmp_path / "t.csv").write_text(text)
    done = command(
        "score", tmp_path / "t.csv", "--ladders", "demo/story", "--out", tmp_path / "out.csv"
    )
    assert done.code == 3
    assert "The table has no rows, so nothing was scored\n" in done.err


LABELLED = ["calibrate", "--by", "a_score", "--label", "ok", "--good", ">=1", "--precision", "0.8"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("filter", "--min", "a_score=1", "--out", "o.csv"),
            "The table has no rows, so nothing was filtered",
        ),
        (
            ("pairs", "--margin", 1, "--by", "a_score"),
            "The table has no rows, so nothing was paired",
        ),
        (("compare", "--by", "a_score"), "no rows, so nothing was compared"),
        (LABELLED, "no rows, so there is nothing to calibrate"),
        (
            ("calibrate", "--by", "a_score", "--plan", "--precision", 0.8),
            "no rows, so there is nothing to calibrate",
        ),
    ],
)
def test_a_header_without_rows_is_no_failure_and_no_success(
    command, tmp_path, monkeypatch, words, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("context_id,context,output,system,ok,a_score,signature\n")
    done = command(words[0], "t.csv", *words[1:])
    assert done.code == 3
    assert said in done.err
