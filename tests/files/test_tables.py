from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from refladder.errors import DataError, UsageError
from refladder.files.tables import Row, format_of, open_sink, read_once, read_rows, standard_form


def test_the_format_is_told_by_the_ending():
    forms = {
        "jsonl": ("a.jsonl", "a.ndjson", "a.JSON", "-"),
        "csv": ("a.csv", "a.csv.gz"),
        "parquet": ("a.parquet",),
    }
    for form, names in forms.items():
        assert {format_of(name) for name in names} == {form}
    assert format_of("a.txt", "csv") == "csv"
    with pytest.raises(UsageError, match=r"^a\.txt: unknown file extension; use .jsonl, .csv or"):
        format_of("a.txt")
    assert standard_form("-", "csv") == "csv"
    assert standard_form("-", "parquet") == standard_form("-", "jsonl") == "jsonl"
    assert standard_form("a.jsonl", "csv") is None


def test_what_can_be_read_once(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text("")
    assert all(read_once(path) for path in ("-", "/dev/null"))
    assert not any(read_once(str(path)) for path in (file, tmp_path, tmp_path / "none"))


# Reading


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
    found = [(row.where, row.fields) for row in rows]
    assert found == [(f"{path}:1", {"x": 1}), (f"{path}:2", {"y": 2})]
    path.write_bytes(b"\n\n")
    assert read_rows(str(path)).columns() is None


def test_rows_may_be_spaced_as_json_allows_and_stand_alone_on_a_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\r\n  {"a": 2}  \n{"a": 3}\t\n{"a": 4}')
    assert [row.fields["a"] for row in read_rows(str(path))] == [1, 2, 3, 4]
    path.write_text('{"a": 1}\n{"a": 2} {"a": 3}\n')
    message = r"rows\.jsonl:2: not JSON \(Extra data at column 10\)"
    with pytest.raises(DataError, match=message):
        list(read_rows(str(path)))


def test_a_cell_of_several_lines_is_named_by_its_first(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x,y\n"a\nb",1\n"long ' + "x" * 200_000 + '",2\n')
    found = [(row.where, len(row.fields["x"])) for row in read_rows(str(path))]
    assert found == [(f"{path}:2", 3), (f"{path}:4", 200_005)]


def test_gzip_on_standard_input_is_unpacked(monkeypatch):
    packed = gzip.compress(b'{"a": 1}\n{"a": 2}\n')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    assert [row.fields["a"] for row in read_rows("-")] == [1, 2]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed[:-9])))
    with pytest.raises(DataError, match=r"<stdin>:.*the stream is damaged or incomplete"):
        list(read_rows("-"))


def test_two_columns_of_one_name_are_refused_in_every_format(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(
        pa.table([["a"], ["b"]], names=["x", "x"]), path
    )
    with pytest.raises(DataError, match=r"t\.parquet: column 'x' appears twice; rename one$"):
        read_rows(str(path))
    path = tmp_path / "t.csv"
    path.write_text("x,x\na,b\n")
    with pytest.raises(DataError, match=r"t\.csv:1: column 'x' appears twice; rename one$"):
        read_rows(str(path))
    path = tmp_path / "t.jsonl"
    for line in ('{"x": "a", "x" : "b"}', '{"y": {"x": 1, "x": 2}}', '{"y": [{"x": 1, "x": 1}]}'):
        path.write_text(f'{{"x": "a"}}\n{line}\n')
        with pytest.raises(DataError, match=r"t\.jsonl:2: field 'x' appears twice; rename one$"):
            list(read_rows(str(path)))
    # A text may look like it.
    fields = {"x": '{"x": 1, "x": 2}', "y": [{"x": 1}, {"x": 2}]}
    path.write_text(json.dumps(fields) + "\n")
    assert [row.fields for row in read_rows(str(path))] == [fields]


def test_a_quotation_mark_after_a_space_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a, b\n1, "x, y"\n')
    message = r"t\.csv:2: 3 cells, but .*; a quotation mark after a space begins no quoted cell; remove the space$"
    with pytest.raises(DataError, match=message):
        list(read_rows(str(path)))


def test_a_file_tsv_is_written_with_tabs_and_is_a_table_of_its_folder(command, tmp_path):
    table, out = tmp_path / "t.jsonl", tmp_path / "folder" / "o.tsv"
    table.write_text(
        '{"id": "a", "x_score": 2, "note": "b,\\tc"}\n{"id": "d", "x_score": 1, "note": null}\n'
    )
    assert command("filter", table, "--min", "x_score=2", "--out", out).code == 0
    assert out.read_bytes() == b'id\tx_score\tnote\na\t2\t"b,\tc"\n'
    # The record of the run is in the same folder.
    out.with_name("o.tsv.run.json").unlink()
    (row,) = read_rows(str(out.parent))
    assert row.fields == {"id": "a", "x_score": "2", "note": "b,\tc"}


@pytest.mark.parametrize(
    ("name", "delimiter"), [("t.csv", ";"), ("t.csv", "\t"), ("t.tsv", "\t"), ("t.csv", ",")]
)
def test_the_delimiter_is_that_of_the_header(tmp_path, name, delimiter):
    path = tmp_path / name
    lines = ["id§text", '1§"a; b, c"', '2§"says ""x""\tand more"', ""]
    path.write_text("\n".join(lines).replace("§", delimiter), "utf-8-sig")
    expected = [{"id": "1", "text": "a; b, c"}, {"id": "2", "text": 'says "x"\tand more'}]
    assert [row.fields for row in read_rows(str(path))] == expected


# As Excel saves "CSV UTF-8" in Germany; as a tool of Unix does; with tabs.
STYLES = [(";", "\r\n", b"\xef\xbb\xbf"), (",", "\n", b""), ("\t", "\n", b""), (",", "\r\n", b"")]


@pytest.mark.parametrize(("delimiter", "end", "mark"), STYLES)
@pytest.mark.parametrize("piped", [False, True])
def test_csv_is_written_as_it_was_read(  # noqa: PLR0917
    command, tmp_path, monkeypatch, delimiter, end, mark, piped
):
    monkeypatch.chdir(tmp_path)
    cells = [["id", "a_score"], ["für", "1.5"], ['"two; or,\tmore"', "2"]]
    table = mark + "".join(delimiter.join(row) + end for row in cells).encode()
    Path("t.csv").write_bytes(table)
    if piped:
        done = command("filter - --format csv --min a_score=0", stdin=table)
        assert done.out.encode() == table
        return
    assert command("filter t.csv --min a_score=2 --out out.csv --rejected not.csv").code == 0
    head = mark + delimiter.join(cells[0]).encode() + end.encode()
    assert Path("out.csv").read_bytes() == head + (delimiter.join(cells[2]) + end).encode()
    assert Path("not.csv").read_bytes() == head + (delimiter.join(cells[1]) + end).encode()
    # Another format has its own form, and a table of another format gives commas.
    assert command("filter t.csv --min a_score=2 --out out.jsonl").code == 0
    assert command("filter out.jsonl --min a_score=0 --out back.csv").code == 0
    assert Path("back.csv").read_bytes() == b'id,a_score\n"two; or,\tmore",2\n'


@pytest.mark.parametrize(("delimiter", "end", "mark"), STYLES)
def test_scores_plans_and_pairs_are_written_as_the_table_was_read(  # noqa: PLR0917
    command, tmp_path, monkeypatch, delimiter, end, mark
):
    monkeypatch.chdir(tmp_path)
    rows = ["context_id,output"] + [
        f"story-01,A keeper found {n}." for n in ("a bottle", "a letter and wept")
    ]
    table = mark + "".join(row.replace(",", delimiter) + end for row in rows).encode()
    Path("t.csv").write_bytes(table)
    lines = [
        "score t.csv --ladders demo/story --out s.csv",
        "calibrate s.csv --by coherence_score --precision 0.9 --plan --out p.csv",
        "pairs s.csv --margin 0 --by coherence_score --ladders demo/story --out q.csv",
    ]
    for line, start in zip(lines, ["context_id", "context_id", "prompt"], strict=True):
        command(line)
        (name,) = re.findall("--out ([a-z.]+)", line)
        first, *_ = written = Path(name).read_bytes().splitlines(keepends=True)
        assert first.startswith(mark + start.encode() + delimiter.encode()), name
        assert all(each.endswith(end.encode()) for each in written), name
        assert (b"\r" in first) == (end == "\r\n"), name


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
def test_a_spreadsheet_is_to_be_saved_as_csv(tmp_path, name):
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    message = (
        ": a spreadsheet, which refladder cannot read; save it as CSV UTF-8, and name that file$"
    )
    with pytest.raises(UsageError, match=message):
        read_rows(str(tmp_path / name))


LABELLED = ("calibrate", "--by", "a_score", "--label", "ok", "--good", ">=1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("score", "--ladders", "demo/story", "--out", "o.csv"), "so nothing was scored\n"),
        (("filter", "--min", "a_score=1", "--out", "o.csv"), "so nothing was filtered"),
        (("pairs", "--margin", 1, "--by", "a_score"), "so nothing was paired"),
        (("compare", "--by", "a_score"), "so nothing was compared"),
        ((*LABELLED, "--precision", 0.8), "so there is nothing to calibrate"),
        ((*LABELLED[:3], "--plan", "--precision", 0.8), "so there is nothing to calibrate"),
    ],
)
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_header_without_rows_is_no_failure_and_no_success(  # noqa: PLR0917
    command, tmp_path, monkeypatch, words, said, delimiter
):
    monkeypatch.chdir(tmp_path)
    columns = ("context_id", "context", "output", "system", "ok", "a_score", "signature")
    (tmp_path / "t.csv").write_text(
        delimiter.join(columns[: 3 if words[0] == "score" else 7]) + "\n"
    )
    done = command(words[0], "t.csv", *words[1:])
    assert done.code == 3
    assert f"no rows, {said}" in done.err


def test_logs_of_inspect_are_scored_into_one_file(fails, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.eval").touch()
    message = f"refladder: {tmp_path}/logs: logs of Inspect are read together and not written; name a file with --out"
    line = f"score {tmp_path}/logs --ladders demo/story --out {tmp_path}/out"
    assert message in fails(2, line)


def test_a_log_of_inspect_needs_its_package(tmp_path):
    if find_spec("inspect_ai") is not None:
        pytest.skip("inspect-ai is installed; tests/integrations reads a log")
    (tmp_path / "a.eval").touch()
    message = r"a\.eval: a log of Inspect needs another package \(.*inspect_ai.*\); pip install inspect-ai pandas pyarrow$"
    with pytest.raises(UsageError, match=message):
        read_rows(str(tmp_path / "a.eval"))


# Writing


def test_added_values_stand_at_the_end_of_the_line(tmp_path, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": 1 } \n{}\n')
    with open_sink("-", None, {"s": float}) as write:
        for row in read_rows(str(path)):
            write(row, {"s": 0.5})
    assert written.getvalue() == b'{"x": 1,"s": 0.5}\n{"s": 0.5}\n'


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_a_column_that_is_there_already(tmp_path, name):
    sink = open_sink(str(tmp_path / name), None, {"x": float})
    message = "^a:1: column 'x' already exists; rename or remove it first$"
    with pytest.raises(UsageError, match=message), sink as write:
        write(Row("a:1", {"x": 1}), {"x": 2.0})
    assert list(tmp_path.iterdir()) == []


def test_formulas_in_csv_are_escaped_on_request_and_numbers_stay(tmp_path):
    formulas = ["=1+1", "+a", "-a", "@a", "\ta", "\ra", "-1_0"]
    others = ["-1.5", " =1", "a=1", -1.5, None, ""]
    plain = [*formulas, *("" if cell is None else str(cell) for cell in others)]
    escaped = [f"'{text}" for text in formulas] + plain[len(formulas) :]
    for escape, column, cells in ((True, "'=x", escaped), (False, "=x", plain)):
        path = tmp_path / f"{escape}.csv"
        with open_sink(str(path), None, {"s": float}, escape_formulas=escape) as write:
            for cell in (*formulas, *others):
                write(Row("a:1", {"=x": cell}), {"s": -2.0})
        with path.open(newline="") as stream:
            header, *lines = csv.reader(stream)
        assert header == [column, "s"]
        assert lines == [[cell, "-2.0"] for cell in cells]
    sink = open_sink(str(tmp_path / "a.jsonl"), None, {}, escape_formulas=True)
    with pytest.raises(UsageError, match="--escape-formulas works only with CSV, not jsonl"), sink:
        pass


def test_rows_in_any_order_of_columns_make_one_csv(tmp_path):
    path = tmp_path / "a.csv"
    with open_sink(str(path), None, {}) as write:
        write(Row("a:1", {"x": 1, "y": 2}))
        write(Row("a:2", {"y": 4, "x": 3}))
    assert path.read_text() == "x,y\n1,2\n3,4\n"
    message = r"^a:2: its columns differ from the first row's \(z\); write \.jsonl"
    with pytest.raises(DataError, match=message), open_sink(str(path), None, {}) as write:  # noqa: PT012
        write(Row("a:1", {"x": 1}))
        write(Row("a:2", {"x": 1, "z": 2}))
    assert path.read_text() == "x,y\n1,2\n3,4\n"


@pytest.mark.parametrize("name", ["table.jsonl", "table.parquet"])
def test_numbers_that_json_has_not_are_null_counted_and_said(tmp_path, caplog, name):
    path, out = tmp_path / name, tmp_path / "out.jsonl"
    nan, infinity = float("nan"), float("inf")
    rows = [{"a": 1, "b": nan, "c": [infinity, 2.0]}, {"a": 3, "b": 0.5, "c": []}]
    if name.endswith("jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    else:
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), path)
    with open_sink(str(out), None, {}) as write:
        for row in read_rows(str(path)):
            write(row)
    lines = out.read_text("utf-8").splitlines()
    found = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert found == [{"a": 1, "b": None, "c": [None, 2]}, {"a": 3, "b": 0.5, "c": []}]
    said = "out.jsonl: NaN and Infinity are written as null, as JSON has neither: 2 values"
    assert said in caplog.text
    assert f"the first at {path}:1, column 'b'" in caplog.text
