"""Everything that users get wrong, each with the exact words they meet and exit code 2."""

from __future__ import annotations

import gzip
import json
import sys

import pytest
from waiting import HANG

LADDERS = ("--ladders", "demo/story")
RULES = "Known: expected-grade, hard-votes, ladder-sum, mean-difference"


@pytest.fixture
def score(fails):
    def go(source, *options, stdin=b""):
        return fails(2, "score", source, *LADDERS, *options, stdin=stdin)

    return go


@pytest.fixture
def text_file(tmp_path):
    def write(content, name="in.jsonl"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


GOOD = '{"context_id": "story-01", "output": "A text."}\n'


def test_a_missing_column(score, text_file):
    path = text_file('{"context_id": "story-01", "text": "A text."}\n')
    assert score(path) == (
        f"refladder: {path}:1: no column 'output' for the output; Columns there: context_id, text. "
        "Map one with --column output=NAME\n"
    )


def test_a_misspelt_column_gets_the_near_name(score, text_file):
    path = text_file(GOOD + '{"context_id": "story-01", "outptu": "A text."}\n')
    assert score(path) == (
        f"refladder: {path}:2: no column 'output' for the output; did you mean --column output=outptu? "
        "Columns there: context_id, outptu. Map one with --column output=NAME\n"
    )


def test_the_column_of_another_field_is_no_near_name(score, text_file):
    path = text_file('{"context_id": "story-01", "output_id": "a", "text": "A text."}\n')
    assert score(path) == (
        f"refladder: {path}:1: no column 'output' for the output; Columns there: context_id, output_id, text. "
        "Map one with --column output=NAME\n"
    )


def test_a_mapped_column_that_is_not_there(score, text_file):
    path = text_file(GOOD)
    assert score(path, "--column", "output_id=identifier") == (
        f"refladder: {path}:1: no column 'identifier' for the output id; Columns there: context_id, output. "
        "Map one with --column output_id=NAME\n"
    )
    assert score(path, "--column", "outputs=x") == (
        "refladder: unknown field 'outputs'; did you mean 'output'? Known: background, context, context_id, output, "
        "output_id, system\n"
    )
    assert score(path, "--column", "output") == "refladder: --column 'output': must be KEY=VALUE\n"


def test_the_wrong_type(score, text_file):
    path = text_file(GOOD + '{"context_id": 7.5, "output": "A text."}\n')
    assert (
        score(path)
        == f"refladder: {path}:2: column 'context_id': expected a name or an integer, found 7.5\n"
    )
    path = text_file('{"context_id": "story-01", "output": ["A text."]}\n')
    assert (
        score(path) == f"refladder: {path}:1: column 'output' must be a string, found ['A text.']\n"
    )
    path = text_file('{"context_id": "story-01", "output": "A", "output_id": 1.5}\n')
    assert (
        score(path)
        == f"refladder: {path}:1: column 'output_id': expected a name or an integer, found 1.5\n"
    )


def test_bad_json_on_a_line(score, text_file):
    path = text_file(GOOD + GOOD + '{"context_id": "story-01", "output": }\n')
    assert score(path) == (
        f"refladder: {path}:3: not JSON (Expecting value: line 1 column 38 (char 37)); "
        "each line must be one JSON object\n"
    )
    path = text_file("[1]\n")
    assert score(path) == f"refladder: {path}:1: a JSON list; each line must be one JSON object\n"
    path = text_file("[" * 100_000 + "\n")
    assert score(path) == (
        f"refladder: {path}:1: not JSON (nested more than 100 levels deep); each line must be one JSON object\n"
    )


def test_a_blank_line_is_refused_between_rows_and_no_row_at_the_end(score, command, text_file):
    path = text_file(GOOD + "\n" + GOOD)
    assert score(path) == (
        f"refladder: {path}:2: a blank line between rows; each line must be one JSON object\n"
    )
    path = text_file("context_id,output\nstory-01,A text.\n\nstory-01,B text.\n", "in.csv")
    assert score(path) == f"refladder: {path}:3: a blank line between rows; remove it\n"
    assert len(command("score", text_file(GOOD + "\n \n\n"), *LADDERS).rows) == 1
    done = command(
        "score", text_file("context_id,output\r\nstory-01,A text.\r\n\r\n", "in.csv"), *LADDERS
    )
    assert (done.code, len(done.out.splitlines())) == (0, 2)


def test_csv_rows_with_too_many_or_too_few_cells(score, text_file):
    path = text_file('context_id,output\nstory-01,"two\nlines"\nstory-01,a,b\n', "in.csv")
    assert score(path) == f"refladder: {path}:4: 3 cells, but the header names 2 columns\n"
    path = text_file('context_id,output\nstory-01,"never closed\n', "in.csv")
    assert score(path) == f"refladder: {path}:2: not CSV (unexpected end of data)\n"
    path = text_file("context_id,output,output\n", "in.csv")
    assert score(path) == f"refladder: {path}:1: column 'output' appears twice; rename one\n"
    path = text_file("", "in.csv")
    assert (
        score(path)
        == f"refladder: {path}:1: an empty file; the first line of a CSV file names its columns\n"
    )
    path = text_file("\na,b\n", "in.csv")
    assert (
        score(path)
        == f"refladder: {path}:1: a blank line; the first line of a CSV file names its columns\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("score", "x.jsonl", "--ladders", "demo/storys"),
            "unknown ladder set or folder 'demo/storys'; did you mean 'demo/story'? Known: ",
        ),
        (
            ("score", "x.jsonl", *LADDERS, "--rule", "laddersum"),
            f"unknown rule 'laddersum'; did you mean 'ladder-sum'? {RULES}",
        ),
        (
            ("rescore", "x.jsonl", "--rule", "ladder"),
            f"unknown rule 'ladder'; did you mean 'ladder-sum'? {RULES}",
        ),
        (
            ("score", "x.jsonl", *LADDERS, "--dimension", "coherense"),
            "unknown dimension 'coherense'; did you mean 'coherence'? Known: coherence, complexity",
        ),
        (
            ("score", "x.jsonl", *LADDERS, "--weight", "coherense=2"),
            "unknown dimension 'coherense'; did you mean 'coherence'? Known: coherence, complexity",
        ),
        (
            ("evaluate", "demo/story", "--reference", "lenth", "--resamples", "1"),
            "unknown reference method 'lenth'; did you mean 'length'? Known: 1-grams in context, 2-grams in ",
        ),
        (("evaluate", "hana"), "unknown benchmark or file 'hana'; did you mean 'hanna'? Known: "),
        (("scor",), "unknown command 'scor'; did you mean 'score'? Known: audit, build, "),
        (
            ("show", "demo/story", "story-001"),
            "unknown context 'story-001'; did you mean 'story-01'? Known: story-01, ",
        ),
        (
            ("score", "--text", "x", *LADDERS, "--context-id", "stor-01"),
            "unknown context 'stor-01'; did you mean 'story-01'? ",
        ),
        (
            (
                "build",
                "own",
                "--source",
                "x.csv",
                "--task-file",
                "t.toml",
                "--out",
                "o",
                "--option",
                "human=true",
            ),
            "a table of your own has no options, and --option human=true was given; leave it out",
        ),
        (
            ("evaluate", "own", "--source", "x.csv", "--task-file", "t.toml", "--option", "a=b"),
            "a table of your own has no options, and --option a=b was given; leave it out",
        ),
        (("list", "rulez"), "unknown kind of thing 'rulez'; did you mean 'rules'? Known: "),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_unknown_name_gets_the_near_one(fails, arguments, message):
    assert f"refladder: {message}" in fails(2, *arguments)


def test_an_unknown_backend(score, stories):
    assert score(stories, "--judge", "bultin").startswith(
        "refladder: unknown backend 'bultin'; did you mean 'builtin'? Known: "
    )


def test_an_unknown_option_or_format(fails, stories):
    assert "No such option '--jugde'" in fails(2, "score", stories, *LADDERS, "--jugde", "builtin")
    assert "'xml' is not one of 'jsonl', 'csv', 'parquet'" in fails(
        2, "score", stories, *LADDERS, "--format", "xml"
    )
    assert fails(2, "filter", "rows.txt", "--min", "x=1") == (
        "refladder: rows.txt: unknown file extension; use .jsonl, .csv or .parquet, or give --format\n"
    )
    assert (
        fails(2, "filter", "folder", "--min", "x=1")
        == "refladder: folder: no such file or folder\n"
    )


def test_a_file_that_is_not_there_or_a_folder(score, tmp_path):
    path = tmp_path / "none.jsonl"
    assert score(path) == f"refladder: {path}: no such file\n"
    folder = tmp_path / "folder.jsonl"
    folder.mkdir()
    assert score(folder) == (
        f"refladder: {folder}: no .jsonl, .csv or .parquet file there; name a file, a folder or a quoted glob\n"
    )
    file = tmp_path / "text.parquet"
    file.write_text("not that")
    assert score(file).startswith(f"refladder: {file}: not a Parquet file (")


def test_parquet_on_standard_streams(score, stories):
    assert score("-", "--format", "parquet") == (
        "refladder: Parquet cannot be read from standard input; give the file's path\n"
    )
    assert score(stories, "--out-format", "parquet") == (
        "refladder: Parquet cannot be written to standard output; give --out FILE.parquet\n"
    )


def test_parquet_without_pyarrow(score, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert (
        score(tmp_path / "x.parquet") == "refladder: Parquet needs pyarrow; pip install pyarrow\n"
    )


def test_duplicate_ids(score, text_file):
    row = '{"output_id": "a", "context_id": "story-01", "output": "A text."}\n'
    path = text_file(row + GOOD + row)
    assert (
        score(path)
        == f"refladder: {path}:3: output id 'a' appears in row 1 also; ids must be unique\n"
    )
    assert score("-", stdin=(row + row).encode()) == (
        "refladder: <stdin>:2: output id 'a' appears in row 1 also; ids must be unique\n"
    )


def test_ids_that_cannot_be_kept(score, text_file):
    path = text_file('{"output_id": "rung:1", "context_id": "story-01", "output": "A text."}\n')
    assert score(path) == (
        f"refladder: {path}:1: output id 'rung:1' starts with 'rung:', which means a rung; rename it\n"
    )
    path = text_file('{"output_id": "\\ud800", "context_id": "story-01", "output": "A text."}\n')
    assert score(path) == (
        f"refladder: {path}:1: column 'output_id': half a surrogate pair, which is not valid Unicode; "
        "correct the text\n"
    )


def test_bytes_that_are_not_utf8(score, text_file):
    path = text_file(GOOD.encode() + b'{"context_id": "story-01", "output": "caf\xe9"}\n')
    assert score(path) == (
        f"refladder: {path}:2: not UTF-8 (byte 0xe9 at position 41); convert the file to UTF-8\n"
    )


def test_a_truncated_gzip(score, text_file):
    path = text_file(gzip.compress((GOOD * 1000).encode())[:-40], "in.jsonl.gz")
    message = score(path)
    assert message.startswith(f"refladder: {path}:")
    assert message.endswith(
        ": the stream is damaged or incomplete (Compressed file ended before the end-of-stream marker was reached); "
        "download or copy it again\n"
    )


def test_a_column_that_is_there_already(score, write_jsonl, rows):
    path = write_jsonl([{**rows(1)[0], "coherence_score": 1.0}])
    assert (
        score(path)
        == f"refladder: {path}: column 'coherence_score' exists already; rename or drop it first\n"
    )


def test_a_context_that_is_said_twice(score, stories):
    assert score(stories, "--context-id", "story-01") == (
        f"refladder: {stories}:1: the row has a column 'context_id', and --context-id says the context too; "
        "leave out --context-id, or rename the column\n"
    )
    assert score(stories, "--context-id", "story-01", "--column", "context_id=x") == (
        "refladder: --context-id and --column context_id=... both say the context; give one of them\n"
    )


def test_one_file_for_two_things(score, stories):
    assert (
        score(stories, "--out", stories)
        == f"refladder: {stories}: SOURCE and --out must be different files\n"
    )
    same = f"{stories.parent}/../{stories.parent.name}/{stories.name}"
    assert score(stories, "--judgments", same) == (
        f"refladder: {same}: SOURCE and --judgments must be different files\n"
    )
    assert len(stories.read_text().splitlines()) == 6


def test_nothing_or_two_things_to_score(fails, stories):
    assert fails(2, "score", *LADDERS) == "refladder: give a SOURCE table, or --text\n"
    assert fails(2, "score", stories, "--text", "x", *LADDERS) == (
        "refladder: give either a SOURCE table or --text, not both\n"
    )
    assert fails(2, "score", "--text", "x", *LADDERS).startswith(
        "refladder: --text needs --context-id, one of: story-01, story-02, "
    )
    assert fails(
        2, "score", "--text", "x", "--context-id", "story-01", "--out", "f.jsonl", *LADDERS
    ) == (
        "refladder: --text prints its scores and writes no file; --out, --judgments and similar options "
        "need a SOURCE table\n"
    )


def test_weights(score, stories):
    assert (
        score(stories, "--weight", "coherence=x")
        == "refladder: --weight coherence=x: 'x' is not a number\n"
    )
    assert score(stories, "--weight", "coherence=-1") == (
        "refladder: weight coherence=-1.0: a weight must be a finite number, 0 or more\n"
    )
    assert score(stories, "--weight", "coherence=0", "--weight", "complexity=0") == (
        "refladder: all weights are 0; at least one dimension must count\n"
    )
    assert score(stories, "--weight", "coherence=1", "--weight", "coherence=2") == (
        "refladder: --weight coherence: given twice, as '1' and '2'; give it once\n"
    )


def test_rows_that_cannot_be_judged_come_out_with_a_note(command, write_jsonl):
    rows = [
        {"context_id": "story-99", "output": "A text."},
        {"context_id": "story-01", "output": ""},
        {"context_id": "story-01", "output": " \n\t "},
        {"context_id": None, "output": "A text."},
        {"context_id": "story-01", "output": None},
        {"context_id": "story-01", "output": "word " * 200_000},  # 1 MB
    ]
    done = command("score", write_jsonl(rows), *LADDERS)
    assert done.code == 3
    assert [row["coherence_note"] for row in done.rows] == [
        "no coherence ladder for context 'story-99' in demo/story",
        "the output is empty",
        "the output is empty",
        "the context id is null",
        "the output is null",
        None,
    ]
    assert [row["coherence_score"] is None for row in done.rows] == [True] * 5 + [False]
    assert [row["overall_score"] is None for row in done.rows] == [True] * 5 + [False]
    assert "6 rows, 10 scores missing; 10 judgments (0 reused, 0 unparsed)\n" in done.err
    assert "  4 x the output is empty\n" in done.err
    assert "  1 x no coherence ladder for context ... in demo/story\n" in done.err


def test_a_folder_that_is_a_file_and_a_full_disk(score, stories, tmp_path):
    out = stories / "out.jsonl"
    assert score(stories, "--out", out, "--judgments", tmp_path / "j.jsonl") == (
        f"refladder: {out}: cannot be written (File exists); free space or choose another path\n"
    )
    assert score(stories, "--out", tmp_path / "out.jsonl", "--judgments", "/dev/full") == (
        "refladder: /dev/full: cannot be written (No space left on device); free space or choose another path\n"
    )
    assert not (tmp_path / "out.jsonl").exists()


def test_standard_output_on_a_full_disk(process, stories):
    for arguments in (
        ("score", stories, *LADDERS),
        ("list",),
        ("filter", stories, "--top", "1", "--by", "n"),
    ):
        if arguments[0] == "filter":
            stories.write_text("".join(json.dumps({"n": number}) + "\n" for number in range(5000)))
        with open("/dev/full", "wb") as full:  # noqa: PTH123
            started = process(*arguments, stdout=full)
            _, err = started.communicate(timeout=HANG)
        assert started.returncode == 2
        assert err.decode().splitlines()[-1] == (
            "refladder: standard output: cannot be written (No space left on device); "
            "free space or choose another place"
        )


def test_a_file_size_limit_leaves_no_half_file(command, process, write_jsonl, rows, tmp_path):
    source = write_jsonl(rows(400))
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)); "
    driver = ("-c", limit + "from refladder.commands.main import main; main(sys.argv[1:])")
    out, kept = tmp_path / "out.jsonl", tmp_path / "kept.jsonl"
    for options, named in ((("--judgments", kept), kept), (("--judgments", "/dev/null"), out)):
        started = process("score", source, *LADDERS, "--out", out, *options, driver=driver)
        _, err = started.communicate(timeout=HANG)
        assert started.returncode == 2
        assert err.decode().splitlines()[-1] == (
            f"refladder: {named}: cannot be written (File too large); free space or choose another path"
        )
        assert not out.exists()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "kept.jsonl"]
    # with room again, the judgments that were kept are used, and all is as in one go
    again = command("score", source, *LADDERS, "--out", out, "--judgments", kept, "--json")
    assert json.loads(again.out)["reused"] > 0
    assert len(out.read_text().splitlines()) == 400


def test_rescoring_does_not_write_over_its_judgments(command, fails, stories, tmp_path):
    judgments = tmp_path / "kept.jsonl"
    command("score", stories, *LADDERS, "--judgments", judgments)
    before = judgments.read_bytes()
    assert fails(2, "rescore", judgments, "--out", judgments) == (
        f"refladder: {judgments}: JUDGMENTS and --out must be different files\n"
    )
    assert judgments.read_bytes() == before


def test_kept_judgments_with_other_outcomes_or_lengths(command, fails, stories, tmp_path):
    kept = tmp_path / "kept.jsonl"
    options = (*LADDERS, "--dimension", "coherence", "--judgments", kept)
    command("score", stories, *options)
    good = kept.read_text()
    _, first, *_ = good.splitlines()
    fields = json.loads(first)
    between = (
        "and this file holds judgments between win, loss, tie; correct the line, or delete the file"
    )
    for change, message in (
        ({"outcomes": ["win", "lose", "tie"]}, f"outcomes 'win, lose, tie', {between}"),
        (
            {"outcomes": ["win", "loss"], "logprobs": [-1.0, -1.0]},
            f"outcomes 'win, loss', {between}",
        ),
        ({"outcomes": ["win", "win", "tie"]}, "outcomes must be different, and at least one"),
        ({"logprobs": [-1.0]}, "1 logprobs for 3 outcomes; it needs one for each"),
    ):
        kept.write_text(good.replace(first, json.dumps({**fields, **change})))
        for arguments in (("score", stories, *options), ("rescore", kept)):
            told = fails(2, *arguments)
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
        (
            "seed = 1979-05-27",
            "seed must be a string, a number, true or false, found datetime.date(1979, 5, 27)",
        ),
    ],
)
def test_config_values_that_no_command_line_could_say(fails, text_file, stories, line, message):
    table = "build" if "seed" in line else "score"
    path = text_file(f"[{table}]\n{line}\n", "config.toml")
    assert (
        fails(2, "--config", path, "score", stories) == f"refladder: {path}: [{table}] {message}\n"
    )


def test_parquet_with_text_that_is_not_utf8(score, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "in.parquet"
    parquet.write_table(pa.table({"context_id": ["story-01"], "output": ["A text."]}), path)
    good = path.read_bytes()
    path.write_bytes(good.replace(b"A text.", b"\xff text."))
    assert score(path).startswith(
        f"refladder: {path}:1: this Parquet file is damaged ('utf-8' codec can't decode byte"
    )
    path.write_bytes(good.replace(b"context_id", b"\xffontext_id"))
    assert score(path).startswith(
        f"refladder: {path}: not a Parquet file ('utf-8' codec can't decode byte 0xff"
    )


@pytest.mark.parametrize("digits", [400, 5000])
def test_whole_numbers_that_no_float_can_hold(score, text_file, digits):
    path = text_file('{"context_id": "story-01", "output": "A", "n": ' + "9" * digits + "}\n")
    assert score(path) == (
        f"refladder: {path}:1: not JSON (a whole number of {digits} characters); each line must be one JSON object\n"
    )


def test_a_nul_in_a_path(score):
    assert (
        score("a\0b.jsonl")
        == "refladder: 'a\\x00b.jsonl': cannot be read (embedded null byte); name another file\n"
    )


def test_a_path_that_is_too_long(score, stories):
    assert score(stories, "--judgments", "y" * 300) == (
        f"refladder: {'y' * 60}...: File name too long; choose a shorter path\n"
    )
