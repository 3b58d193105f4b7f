"""Everything that users get wrong, each with the exact words they meet and exit code 2."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from json_lines import read_lines, write_lines
from waiting import HANG

LADDERS = "--ladders demo/story"
RULES = "Known: expected-grade, hard-votes, ladder-sum, mean-difference"
TO_UTF8 = "save it as UTF-8 (in Excel: CSV UTF-8), or run `iconv -f CP1252 -t UTF-8 FILE > NEW`"
GOOD = '{"context_id": "story-01", "output": "A text."}\n'
UNIQUE = '{"output_id": "a", "context_id": "story-01", "output": "A text."}\n'
MAP = "Map one with --column output=NAME"
OBJECT = "each line must be one JSON object"
OPEN = (
    'a quotation mark opens in this row and is never closed; close it, or write "" for " in a cell'
)
HEADER = "the first line of a CSV file names its columns"


@pytest.fixture
def score(fails):
    def go(source, options="", stdin=b""):
        return fails(2, f"score {LADDERS} {options}", source, stdin=stdin).removeprefix(
            "refladder: "
        )

    return go


@pytest.fixture
def text_file(tmp_path):
    def write(content, name="in.jsonl"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def row(**fields):
    return json.dumps({"context_id": "story-01", "output": "A text."} | fields) + "\n"


JSON_LINES = [
    (
        '{"context_id": "story-01", "text": "A text."}\n',
        f"1: no column 'output' for the output. Columns there: context_id, text. {MAP}",
    ),
    (
        GOOD + '{"context_id": "story-01", "outptu": "A text."}\n',
        "2: no column 'output' for the output; did you mean --column output=outptu? Columns there: context_id, outptu. "
        + MAP,
    ),
    (  # the column of another field is no near name
        '{"context_id": "story-01", "output_id": "a", "text": "A text."}\n',
        f"1: no column 'output' for the output. Columns there: context_id, output_id, text. {MAP}",
    ),
    (
        GOOD + row(context_id=7.5),
        "2: column 'context_id': expected a name or an integer, found 7.5",
    ),
    (row(output={"a": "A text."}), "1: column 'output' must be a string, found {'a': 'A text.'}"),
    (row(output_id=1.5), "1: column 'output_id': expected a name or an integer, found 1.5"),
    (
        GOOD + GOOD + '{"context_id": "story-01", "output": }\n',
        f"3: not JSON (Expecting value at column 38); {OBJECT}",
    ),
    ("[1]\n", f"1: a JSON list; {OBJECT}, as `jq -c '.[]' "),
    (
        '[\n  {"output": "A"}\n]\n',
        f"1: a JSON value over several lines; {OBJECT}, as `jq -c '.[]' ",
    ),
    ('{\n  "output": "A"\n}\n', f"1: a JSON value over several lines; {OBJECT}, as `jq -c . "),
    ('{"output": \n', f"1: not JSON (Expecting value); {OBJECT}"),
    ("context_id,output\nstory-01,A\n", "1: looks like CSV; name it .csv, or give --format csv"),
    ("7\n", f"1: a JSON int; {OBJECT}"),
    ("[" * 100_000 + "\n", f"1: not JSON (nested more than 100 levels deep); {OBJECT}"),
    (GOOD + "\n" + GOOD, f"2: a blank line between rows; {OBJECT}"),
    (UNIQUE + GOOD + UNIQUE, "3: output id 'a' appears in row 1 also; ids must be unique"),
    (
        row(output_id="rung:1"),
        "1: output id 'rung:1' starts with 'rung:', which means a rung; rename it",
    ),
    (
        row(output_id="\ud800"),
        "1: column 'output_id': half a surrogate pair, which is not valid Unicode; correct the text",
    ),
    (
        GOOD.encode() + b'{"context_id": "story-01", "output": "caf\xe9"}\n',
        f"2: not UTF-8 (byte 0xe9 at position 41); {TO_UTF8}",
    ),
    (row(coherence_score=1.0), " column 'coherence_score' exists already; rename or drop it first"),
    *(
        (
            '{"context_id": "story-01", "output": "A", "n": ' + "9" * digits + "}\n",
            f"1: not JSON (a whole number of {digits} characters); {OBJECT}",
        )
        for digits in (400, 5000)
    ),
]
CSV = [
    (
        "context_id,output\nstory-01,A text.\n\nstory-01,B text.\n",
        "3: a blank line between rows; remove it",
    ),
    (
        'context_id,output\nstory-01,"two\nlines"\nstory-01,a,b\n',
        "4: 3 cells, but the header names 2 columns; a cell with a separator in it needs quotation marks",
    ),
    (
        "context_id|output\nstory-01|a,b\n",
        "1: columns are separated by commas, semicolons or tabs; this header has '|'",
    ),
    (
        '"context_id|output"\na,b\n',
        "2: 2 cells, but the header names 1 column; a cell with a separator in it needs quotation marks",
    ),
    (
        b"PK\x03\x04\xff",
        "1: not UTF-8 (byte 0xff at position 4); it holds a spreadsheet; save it as CSV",
    ),
    (
        "context_id,output\nstory-01,A text.\n".encode("utf-16"),
        f"1: not UTF-8 (byte 0xff at position 0); it is in UTF-16; {TO_UTF8.replace('CP1252', 'UTF-16')}",
    ),
    (
        b"\xfe\xff" + "context_id,output\n".encode("utf-16-be"),
        f"1: not UTF-8 (byte 0xfe at position 0); it is in UTF-16; {TO_UTF8.replace('CP1252', 'UTF-16')}",
    ),
    ("context_id,output\nstory-01\n", "2: 1 cell, but the header names 2 columns"),
    ('context_id,output\nstory-01,"never\nclosed\n', f"2: {OPEN}"),
    ('context_id,"output\nstory-01,never closed\n', f"1: {OPEN}"),
    ('context_id,output\nstory-01,"a"b\n', "2: not CSV (',' expected after '\"')"),
    (row(output="A"), "1: looks like JSON lines; name it .jsonl, or give --format jsonl"),
    ("context_id,output,output\n", "1: column 'output' appears twice; rename one"),
    ("", f"1: an empty file; {HEADER}"),
    ("\na,b\n", f"1: a blank line; {HEADER}"),
]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("in.jsonl", *case) for case in JSON_LINES] + [("in.csv", *case) for case in CSV],
)
def test_a_wrong_row_is_named_with_its_line(score, text_file, name, content, message):
    path = text_file(content, name)
    # A command that repairs it ends the message.
    end = f"{path}` writes" if message.count("`") == 1 else ""
    assert score(path) == f"{path}:{message}{end}\n"


def test_blank_lines_at_the_end_are_no_rows(command, text_file):
    path = text_file(GOOD + "\n \n\n")
    assert len(command(f"score {path} {LADDERS}").rows) == 1
    path = text_file("context_id,output\r\nstory-01,A text.\r\n\r\n", "in.csv")
    done = command(f"score {path} {LADDERS}")
    assert (done.code, len(done.out.splitlines())) == (0, 2)


def test_ids_of_standard_input_are_unique_too(score):
    assert score("-", stdin=(UNIQUE * 2).encode()) == (
        "<stdin>:2: output id 'a' appears in row 1 also; ids must be unique\n"
    )


def test_a_truncated_gzip(score, text_file):
    path = text_file(gzip.compress((GOOD * 1000).encode())[:-40], "in.jsonl.gz")
    message = score(path)
    assert message.startswith(f"{path}:")
    assert message.endswith(
        ": the stream is damaged or incomplete (Compressed file ended before the end-of-stream marker was reached); "
        "download or copy it again\n"
    )


def test_a_parquet_file_that_is_none_or_holds_other_bytes(score, text_file):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = text_file("not that", "text.parquet")
    assert score(path).startswith(f"{path}: not a Parquet file (")
    parquet.write_table(pa.table({"context_id": ["story-01"], "output": ["A text."]}), path)
    good = path.read_bytes()
    path.write_bytes(good.replace(b"A text.", b"\xff text."))
    damaged = f"{path}:1: this Parquet file is damaged ('utf-8' codec can't decode byte"
    assert score(path).startswith(damaged)
    path.write_bytes(good.replace(b"context_id", b"\xffontext_id"))
    none = f"{path}: not a Parquet file ('utf-8' codec can't decode byte 0xff"
    assert score(path).startswith(none)


def test_parquet_without_pyarrow(score, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert score("x.parquet") == "Parquet needs pyarrow; pip install pyarrow\n"


# Options of `score`, and what it says; IN is the table of six stories.
OPTIONS = {
    "--column output_id=identifier": (
        "IN:1: no column 'identifier' for the output id. Columns there: output_id, context_id, output, extra. Map one "
        "with --column output_id=NAME"
    ),
    "--column outputs=x": (
        "unknown field 'outputs'; did you mean 'output'? Known: background, context, context_id, output, output_id, system"
    ),
    "--column output": "--column 'output': must be FIELD=NAME",
    "--column id=output_id": (
        "unknown field 'id'; did you mean '--column output_id=output_id'? Known: background, context, context_id, output, "
        "output_id, system"
    ),
    "--base-url http://127.0.0.1:9/v1": (
        "--base-url is for openai:MODEL or reward:MODEL; name such a model, as with --judge"
    ),
    "--context-id story-01": (
        "IN:1: the row has a column 'context_id', and --context-id says the context too; leave out --context-id, or "
        "rename the column"
    ),
    "--context-id story-01 --column context_id=x": (
        "--context-id and --column context_id=... both say the context; give one of them"
    ),
    "--weight coherence=x": "--weight coherence=x: 'x' is not a number",
    "--weight coherence=-1": "weight coherence=-1.0: a weight must be a finite number, 0 or more",
    "--weight coherence=1e308 --weight complexity=1e308": (
        "the sum of the weights is too large; give smaller ones, such as 1 and 2"
    ),
    "--weight coherence=0 --weight complexity=0": "all weights are 0; at least one dimension must count",
    "--weight coherence=1 --weight coherence=2": (
        "--weight coherence: given twice, as '1' and '2'; give it once"
    ),
    "--out IN": "IN: SOURCE and --out must be different files",
    "--out-format parquet": (
        "Parquet cannot be written to standard output; give --out FILE.parquet"
    ),
    "--out IN/out.jsonl --judgments j.jsonl": (
        "IN/out.jsonl: cannot be written (IN is a file, not a folder); choose another path"
    ),
    "--out out.jsonl --judgments /dev/full": (
        "/dev/full: cannot be written (No space left on device); free space or choose another path"
    ),
    f"--judgments {'y' * 300}": f"{'y' * 60}...: File name too long; choose a shorter path",
    "--text x": "give either a SOURCE table or --text, not both",
    "--rule laddersum": f"unknown rule 'laddersum'; did you mean 'ladder-sum'? {RULES}",
    "--dimension coherense": (
        "unknown dimension 'coherense'; did you mean 'coherence'? Known: coherence, complexity"
    ),
    "--dimension coherense,complexty": (
        "unknown dimension 'coherense,complexty'; did you mean 'coherence' and 'complexity', given one by one? Known: "
        "coherence, complexity"
    ),
    "--dimension coherense,wit": (
        "unknown dimension 'coherense,wit'; did you mean 'coherence'? Known: coherence, complexity"
    ),
    "--weight coherense=2": (
        "unknown dimension of --weight 'coherense'; did you mean 'coherence'? Known: coherence, complexity"
    ),
    "--judge bultin": (
        "unknown backend 'bultin'; did you mean 'builtin'? Known: builtin, hf, openai, reward, scripted"
    ),
}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_wrong_option_of_score(score, stories, options, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    before = stories.read_bytes()
    told = score(stories, options.replace("IN", str(stories)))
    assert told == OPTIONS[options].replace("IN", str(stories)) + "\n"
    assert stories.read_bytes() == before
    assert not (tmp_path / "out.jsonl").exists()


# Other command lines, and how the message begins.
LINES = {
    "score x.jsonl --ladders demo/storys": (
        "unknown ladder set or folder 'demo/storys'; did you mean 'demo/story'? Known: "
    ),
    "rescore x.jsonl --rule ladder": f"unknown rule 'ladder'; did you mean 'ladder-sum'? {RULES}",
    "scor x.jsonl": "unknown command 'scor'; did you mean 'score'? Known: ",
    "build hana --out x": "unknown benchmark or file 'hana'; did you mean 'hanna'? Known: ",
    "show demo/story stor-01": "unknown context 'stor-01'; did you mean 'story-01'? Known: ",
    f"score --text x {LADDERS} --context-id stor-01": (
        "unknown context 'stor-01'; did you mean 'story-01'? "
    ),
    "build table --source x.csv --task-file t.toml --out o --option human=true": (
        "a table of your own has no options, and --option human=true was given; leave it out"
    ),
    "evaluate table --source x.csv --task-file t.toml --option a=b": (
        "a table of your own has no options, and --option a=b was given; leave it out"
    ),
    "list rulez": "unknown kind of thing 'rulez'; did you mean 'rules'? Known: ",
    "filter rows.txt --min x=1": (
        "rows.txt: unknown file extension; use .jsonl, .csv or .parquet, or give --format\n"
    ),
    "filter folder --min x=1": "folder: no such file or folder\n",
    "score none.jsonl --ladders demo/story": "none.jsonl: no such file\n",
    "score empty.jsonl --ladders demo/story": (
        "empty.jsonl: no .jsonl, .csv or .parquet file there; name a file, a folder or a quoted glob\n"
    ),
    "score - --format parquet --ladders demo/story": (
        "Parquet cannot be read from standard input; give the file's path\n"
    ),
    f"score {LADDERS}": "give a SOURCE table, or --text\n",
    f"score --text x {LADDERS}": "--text needs --context-id, one of: story-01, story-02, ",
    f"score --text x --context-id story-01 --column output=reply --workers 2 {LADDERS}": (
        "--text prints its scores and reads and writes no table; leave out --column, --workers, or give a SOURCE table "
        "instead of --text\n"
    ),
    f"score --text x --context-id story-01 --out f.jsonl {LADDERS}": (
        "--text prints its scores and reads and writes no table; leave out --out, or give"
    ),
    "score a\0b.jsonl --ladders demo/story": (
        "'a\\x00b.jsonl': cannot be read (embedded null byte); name another file\n"
    ),
}


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_line(fails, line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").mkdir()
    assert fails(2, line).startswith(f"refladder: {LINES[line]}")


def test_an_option_or_a_value_that_click_refuses(score, stories):
    assert "No such option '--jugde'" in score(stories, "--jugde builtin")
    known = "'xml' is not one of 'jsonl', 'csv', 'parquet'"
    assert known in score(stories, "--format xml")


def test_rows_that_cannot_be_judged_come_out_with_a_note(command, write_jsonl):
    outputs = ("A text.", "", " \n\t ", "A text.", None, "word " * 200_000)  # the last has 1 MB
    contexts = ("story-99", "story-01", "story-01", None, "story-01", "story-01")
    rows = [
        {"context_id": context, "output": output}
        for context, output in zip(contexts, outputs, strict=True)
    ]
    done = command(f"score {write_jsonl(rows)} {LADDERS}")
    assert done.code == 3
    assert [row["coherence_note"] for row in done.rows] == [
        "no coherence ladder for context 'story-99' in demo/story",
        "the output is empty",
        "the output is empty",
        "the context id is null",
        "the output is null",
        None,
    ]
    for column in ("coherence_score", "overall_score"):
        assert [row[column] is None for row in done.rows] == [True] * 5 + [False]
    assert "6 rows, 10 scores missing; 10 judgments (0 reused, 0 unparsed)\n" in done.err
    assert "  4 x the output is empty\n" in done.err
    assert "  1 x no coherence ladder for context ... in demo/story\n" in done.err


def test_a_file_size_limit_leaves_no_half_file(command, process, write_jsonl, rows, tmp_path):
    source = write_jsonl(rows(400))
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)); "
    driver = ("-c", limit + "from refladder.commands.main import main; main(sys.argv[1:])")
    out, kept = tmp_path / "out.jsonl", tmp_path / "kept.jsonl"
    for judgments, named in ((kept, kept), ("/dev/null", out)):
        line = f"score {source} {LADDERS} --out {out} --judgments {judgments}"
        started = process(*line.split(), driver=driver)
        _, err = started.communicate(timeout=HANG)
        assert started.returncode == 2
        assert err.decode().splitlines()[-1] == (
            f"refladder: {named}: cannot be written (File too large); free space or choose another path"
        )
        assert not out.exists()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "kept.jsonl"]
    # with room again, the judgments that were kept are used, and all is as in one go
    again = command(f"score {source} {LADDERS} --out {out} --judgments {kept} --json")
    assert json.loads(again.out)["reused"] > 0
    assert len(read_lines(out)) == 400


def test_kept_judgments_with_other_outcomes_or_lengths(command, fails, stories, tmp_path):
    kept = tmp_path / "kept.jsonl"
    line = f"score {stories} {LADDERS} --dimension coherence --judgments {kept}"
    command(line)
    head, first, *rest = read_lines(kept)
    between = "and this file holds judgments between win, loss, tie, in this order; correct the line, or delete the file"
    two = {"outcomes": ["win", "loss"], "logprobs": [-1.0, -1.0]}
    for change, message in (
        ({"outcomes": ["win", "lose", "tie"]}, f"outcomes 'win, lose, tie', {between}"),
        (two, f"outcomes 'win, loss', {between}"),
        ({"outcomes": ["win", "win", "tie"]}, "outcomes must be different, and at least one"),
        ({"logprobs": [-1.0]}, "1 logprobs for 3 outcomes; it needs one for each"),
    ):
        write_lines(kept, [head, first | change, *rest])
        for each in (line, f"rescore {kept}"):
            told = fails(2, each)
            assert f"refladder: {kept}:2: " in told
            assert message in told


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("judgments = 5", "judgments must be a string, found 5"),
        (
            'judgments = "a\\u0000b"',
            "judgments holds a NUL character, which no value can; take it out",
        ),
        ("dimension = [1]", "dimension must be a string, found 1"),
        ("both-orders = 1", "both-orders must be true or false, found 1"),
        ('rule = ["a"]', "rule must be one value, found ['a']"),
        (
            "budget = 1979-05-27",
            "budget must be a string, a number, true or false, found datetime.date(1979, 5, 27)",
        ),
    ],
)
def test_config_values_that_no_command_line_could_say(fails, text_file, stories, line, message):
    path = text_file(f"[score]\n{line}\n", "config.toml")
    told = fails(2, f"--config {path} score {stories}")
    assert told == f"refladder: {path}: [score] {message}\n"
