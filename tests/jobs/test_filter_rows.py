from __future__ import annotations

import datetime as dt
import gzip
import json
import math
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import HANG

from refladder.errors import UsageError
from refladder.events import Silent
from refladder.files.tables import read_rows
from refladder.jobs.filter import Condition, run
from refladder.settings import Filtering, Tables

RAW = (
    b'{"id": 1, "score": 3.0, "note": "caf\\u00e9", "n": 1.50}\n'
    b'{"score":2,"id":2,"big":12345678901234567890}\r\n'
    b'{ "id" : 3 , "score" : null }\n'
    b'{"id": 4, "score": 5e0, "other": {"a": [1, 2]}}'
)


@pytest.fixture
def raw(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(RAW)
    return path


def test_json_lines_pass_byte_for_byte(command, raw, tmp_path):
    kept, rejected, unscored = (
        tmp_path / f"{name}.jsonl" for name in ("kept", "rejected", "unscored")
    )
    done = command(
        "filter",
        raw,
        "--min",
        "score=3",
        "--out",
        kept,
        "--rejected",
        rejected,
        "--unscored",
        unscored,
        "--json",
    )
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {
        "rows": 4, "passed": 2, "rejected": 1, "unscored": 1, "unscored_to": str(unscored),
        "ranges": {"score": [2.0, 5.0]},
    }  # fmt: skip
    lines = RAW.split(b"\n")
    assert kept.read_bytes() == lines[0] + b"\n" + lines[3] + b"\n"
    assert rejected.read_bytes() == lines[1] + b"\n"  # with its \r
    assert unscored.read_bytes() == lines[2] + b"\n"


@pytest.mark.parametrize(("where", "ids"), [("keep", [1, 3, 4]), ("drop", [1, 4])])
def test_unscored_rows_go_where_they_are_sent(command, raw, where, ids):
    done = command("filter", raw, "--min", "score=2.5", "--unscored", where)
    assert [row["id"] for row in done.rows] == ids
    told = {"keep": "kept", "drop": "dropped"}[where]
    assert done.err == f"4 rows: 2 passed (50.0%), 1 rejected, 1 unscored ({told})\n"


def test_thresholds_are_inclusive_and_all_must_hold(command, write_jsonl):
    rows = [{"id": number, "a": number, "b": 10 - number} for number in range(11)]
    path = write_jsonl(rows)
    assert [row["id"] for row in command("filter", path, "--min", "a=3", "--max", "a=5").rows] == [
        3,
        4,
        5,
    ]
    assert [row["id"] for row in command("filter", path, "--min", "a=3", "--min", "b=6").rows] == [
        3,
        4,
    ]


def test_a_top_fraction_is_of_the_rows_that_reach_the_thresholds(command, write_jsonl):
    values = [5, 1, 4, 4, 2, 4, 3, None, 0]
    path = write_jsonl([{"id": place, "v": value} for place, value in enumerate(values)])
    # best first: 5 (id 0), then 4 (ids 2, 3, 5), 3, 2, 1, 0; half of the 8 that have a value is 4; order is kept
    assert [row["id"] for row in command("filter", path, "--top", "0.5", "--by", "v").rows] == [
        0,
        2,
        3,
        5,
    ]
    # of equal values at the cut the earlier rows are taken: 3/8
    assert [row["id"] for row in command("filter", path, "--top", "0.375", "--by", "v").rows] == [
        0,
        2,
        3,
    ]
    # 5 rows have v <= 3 (ids 1, 4, 6, 8 are 1, 2, 3, 0): 4 rows; half is 2
    assert [
        row["id"]
        for row in command("filter", path, "--max", "v=3", "--top", "0.5", "--by", "v").rows
    ] == [4, 6]


@settings(max_examples=40, deadline=None)
@given(count=st.integers(0, 60), hundredths=st.integers(1, 100))
def test_a_top_fraction_counts_exactly(tmp_path_factory, count, hundredths):
    folder = tmp_path_factory.mktemp("top")
    (folder / "in.jsonl").write_text(
        "".join(json.dumps({"v": value % 7}) + "\n" for value in range(count))
    )
    tables = Tables(source=str(folder / "in.jsonl"), out=str(folder / "out.jsonl"))
    report = run(Filtering(top=hundredths / 100, by="v"), tables, Silent())
    assert report.passed == math.ceil(Fraction(hundredths, 100) * count)
    assert report.rows == count


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.integers(-3, 3)), max_size=30),
    least=st.integers(-3, 3),
    most=st.integers(-3, 3),
)
def test_every_row_goes_to_one_place_in_its_order(tmp_path_factory, values, least, most):
    folder = tmp_path_factory.mktemp("split")
    lines = [json.dumps({"place": place, "v": value}) + "\n" for place, value in enumerate(values)]
    (folder / "in.jsonl").write_text("".join(lines))
    names = {name: str(folder / f"{name}.jsonl") for name in ("out", "rejected", "unscored")}
    asked = Filtering(
        min={"v": least}, max={"v": most}, rejected=names["rejected"], unscored=names["unscored"]
    )
    run(asked, Tables(source=str(folder / "in.jsonl"), out=names["out"]), Silent())
    found = {
        name: (folder / f"{name}.jsonl").read_text().splitlines(keepends=True) for name in names
    }
    passing = [value is not None and least <= value <= most for value in values]
    assert found["unscored"] == [
        line for line, value in zip(lines, values, strict=True) if value is None
    ]
    assert found["out"] == [line for line, passes in zip(lines, passing, strict=True) if passes]
    assert sorted(map(len, found.values())) == sorted(
        [sum(passing), values.count(None), len(values) - sum(passing) - values.count(None)]
    )


def test_csv_cells_stay_what_they_were(command, tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(
        '\ufeffid,"score",text\r\n007,3.10,"a ""b"", c"\r\n008,1,"two\nlines"\r\n009,,x\r\n'.encode()
    )
    done = command("filter", path, "--min", "score=2")
    assert done.out == 'id,score,text\n007,3.10,"a ""b"", c"\n'
    done = command("filter", path, "--max", "score=2", "--unscored", "keep")
    assert done.out == 'id,score,text\n008,1,"two\nlines"\n009,,x\n'


def test_a_table_without_passing_rows_keeps_its_header(command, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("id,score\n1,2\n")
    assert command("filter", path, "--min", "score=9").out == "id,score\n"
    path.write_text("id,score\n")
    assert command("filter", path, "--min", "score=9").out == "id,score\n"
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    done = command("filter", empty, "--min", "score=9")
    assert (done.code, done.out) == (3, "")
    counts = "0 rows: 0 passed, 0 rejected, 0 unscored (dropped)\n"
    assert done.err == f"{counts}The table has no rows, so nothing was filtered\n"


def test_json_lines_to_csv(command, write_jsonl):
    path = write_jsonl([{"a": 1, "b": [1, "é"]}, {"b": None, "a": 2.5}])
    assert (
        command("filter", path, "--min", "a=0", "--out-format", "csv").out
        == 'a,b\n1,"[1, ""é""]"\n2.5,\n'
    )
    write_jsonl([{"a": 1}, {"a": 2, "b": 3}])
    done = command("filter", path, "--min", "a=0", "--out-format", "csv")
    assert done.code == 2
    assert done.err == (
        f"refladder: {path}:2: its columns differ from the first row's (b); write .jsonl, which allows that\n"
    )
    path.write_text('{"a": 1, "b": "\\ud800"}\n')
    assert command("filter", path, "--min", "a=0").out == '{"a": 1, "b": "\\ud800"}\n'
    done = command("filter", path, "--min", "a=0", "--out-format", "csv")
    assert (
        done.err
        == f"refladder: {path}:1: half a surrogate pair, which is not valid in CSV; write .jsonl\n"
    )


def test_parquet_types_are_kept(command, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int8()),
            "score": pa.array([1.5, None, 4.0], pa.float32()),
            "when": pa.array(
                [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)],
                pa.timestamp("us", "UTC"),
            ),
            "tags": pa.array([["a"], [], None], pa.list_(pa.string())),
            "part": pa.array([{"x": 1}, {"x": None}, None], pa.struct([("x", pa.int16())])),
            "raw": pa.array([b"\x00\xff", None, b""], pa.binary()),
            "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        }
    )
    source, out, rest = tmp_path / "in.parquet", tmp_path / "out.parquet", tmp_path / "rest.parquet"
    parquet.write_table(table, source)
    assert command("filter", source, "--min", "score=2", "--out", out, "--unscored", rest).code == 0
    written = parquet.read_table(source)
    for path, row in ((out, 2), (rest, 1)):
        assert parquet.read_table(path).schema.equals(written.schema)
        assert parquet.read_table(path).to_pylist() == table.slice(row, 1).to_pylist()
    assert command("filter", source, "--min", "score=9", "--out", out).code == 0
    assert parquet.read_table(out).schema.equals(written.schema)
    assert parquet.read_table(out).num_rows == 0
    assert [row["when"] for row in command("filter", source, "--min", "score=2").rows] == [
        "2026-01-03 00:00:00+00:00"
    ]


def test_parquet_from_other_tables(command, write_jsonl, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out.parquet"
    source = write_jsonl([{"n": 1, "none": None, "t": "x"}, {"n": 2, "none": None, "t": "y"}])
    assert command("filter", source, "--min", "n=2", "--out", out).code == 0
    assert parquet.read_table(out).to_pylist() == [{"n": 2, "none": None, "t": "y"}]
    write_jsonl([{"n": 1, "t": "x"}, {"n": 2, "t": 5}])
    done = command("filter", source, "--min", "n=1", "--out", out)
    assert done.code == 2
    assert done.err.startswith(f"refladder: {out}: the rows do not fit one Parquet table (")
    assert done.err.endswith("); write .jsonl\n")
    assert parquet.read_table(out).num_rows == 1  # the file of before is still whole


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"score": NaN}', "column 'score' must be a finite number or empty, found nan"),
        ('{"score": Infinity}', "column 'score' must be a finite number or empty, found inf"),
        (
            '{"score": 1' + "0" * 400 + "}",
            "not JSON (a whole number of 401 characters); each line must be one JSON object",
        ),
        ('{"score": true}', "column 'score' must be a finite number or empty, found True"),
        ('{"score": "high"}', "column 'score' must be a finite number or empty, found 'high'"),
        ('{"score": "1_0"}', "column 'score' must be a finite number or empty, found '1_0'"),
        ('{"score": "\uff11"}', "column 'score' must be a finite number or empty, found '\uff11'"),
        ('{"score": [1]}', "column 'score' must be a finite number or empty, found [1]"),
        ('{"scores": 1}', "no column 'score'; did you mean 'scores'? Columns: scores"),
        ("{}", "no column 'score'; Columns: none"),
    ],
)
@pytest.mark.parametrize("options", [("--min", "score=0"), ("--top", "0.5", "--by", "score")])
def test_a_cell_that_is_no_number(fails, tmp_path, line, message, options):
    path = tmp_path / "in.jsonl"
    path.write_text('{"score": 1}\n' + line + "\n")
    done = fails(2, "filter", path, *options, "--out", tmp_path / "out.jsonl")
    assert done == f"refladder: {path}:2: {message}\n"
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            (),
            (
                "nothing to filter by; give --min COLUMN=VALUE, --max COLUMN=VALUE, --top and --by, or --best and --per"
            ),
        ),
        (("--top", "0.5"), "--top FRACTION and --by COLUMN go together; give both"),
        (
            ("--by", "score", "--min", "a=1"),
            "--top FRACTION and --by COLUMN go together; give both",
        ),
        (
            ("--top", "1.5", "--by", "score"),
            "--top 1.5: a fraction must be more than 0 and at most 1",
        ),
        (
            ("--top", "nan", "--by", "score"),
            "--top nan: a fraction must be more than 0 and at most 1",
        ),
        (("--min", "score=inf"), "threshold score=inf: a threshold must be a finite number"),
        (("--min", "score"), "--min 'score': must be KEY=VALUE"),
        (("--min", "score=x"), "--min score=x: 'x' is not a number"),
        (("--min", "a=1", "--min", "a=2"), "--min a: given twice, as '1' and '2'; give it once"),
    ],
)
def test_conditions_that_cannot_be(fails, raw, options, message):
    assert fails(2, "filter", raw, *options) == f"refladder: {message}\n"


def test_outputs_are_different_files(fails, raw, tmp_path):
    other = tmp_path / "a.jsonl"
    for options, two in (
        (("--out", raw), "SOURCE and --out"),
        (("--out", other, "--rejected", f"{tmp_path}/./a.jsonl"), "--out and --rejected"),
        (("--out", other, "--unscored", other), "--out and --unscored"),
    ):
        message = fails(2, "filter", raw, "--min", "score=1", *options)
        assert message == f"refladder: {options[-1]}: {two} must be different files\n"
    assert raw.read_bytes() == RAW


@pytest.mark.parametrize("options", [("--min", "score=3"), ("--top", "0.6", "--by", "score")])
def test_standard_input(command, options):
    done = command("filter", *options, stdin=RAW)
    assert [row["id"] for row in done.rows] == [1, 4]
    done = command("filter", "-", *options, stdin=b'{"score": 1}\n{"score": "x"}\n')
    assert (
        done.err
        == "refladder: <stdin>:2: column 'score' must be a finite number or empty, found 'x'\n"
    )


def test_a_pipe_that_can_be_read_once(raw):
    line = f"{sys.executable} -m refladder filter <(cat {raw}) --format jsonl --top 0.6 --by score"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)  # noqa: S607
    assert [json.loads(row)["id"] for row in done.stdout.splitlines()] == [1, 4]


@pytest.mark.parametrize("rejected", [False, True])
def test_a_reader_that_has_had_enough(process, write_jsonl, tmp_path, rejected):
    source = write_jsonl([{"n": number, "text": "x" * 200} for number in range(5000)])
    more = ("--rejected", tmp_path / "rejected.jsonl") if rejected else ()
    started = process("filter", source, "--min", "n=1", *more)
    assert started.stdout.readline().startswith(b'{"n": 1,')
    started.stdout.close()
    assert (
        started.wait(timeout=HANG) == 141
    )  # what a shell gives for a program that a closed pipe ended
    assert started.stderr.read() == b""
    started.stderr.close()
    assert not (tmp_path / "rejected.jsonl").exists()


def test_a_condition_needs_something():
    with pytest.raises(UsageError, match="nothing to filter by"):
        Condition()


def test_several_files_are_read_as_they_are_named(command, raw, tmp_path):
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(RAW))
    assert (
        command("filter", packed, "--min", "score=3").out
        == command("filter", raw, "--min", "score=3").out
    )
    assert [row.where.rpartition("/")[2] for row in read_rows(str(packed))] == [
        f"in.jsonl.gz:{n}" for n in (1, 2, 3, 4)
    ]


MADE = "ladders:{}|backend:hf:m@1|prompts:story/compare@aa|refladder:0.1.0|orders:1|rule:ladder-sum|least-mass:0.05"


def scored_rows(*made):
    """One row a signature: their scores are 0, 1, 2, ..."""
    return [
        {"id": number, "coherence_score": number, "coherence_mass": 1.0, "signature": signature}
        for number, signature in enumerate(made)
    ]


@pytest.mark.parametrize(
    "options", [("--min", "coherence_score=0"), ("--top", "0.5", "--by", "coherence_score")]
)
def test_scores_of_two_signatures_are_not_ranked_together(
    command, fails, write_jsonl, tmp_path, options
):
    three, five = MADE.format("demo/story@3333"), MADE.format("demo/story@5555")
    path, out = write_jsonl(scored_rows(three, three, five)), tmp_path / "out.jsonl"
    assert fails(2, "filter", path, *options, "--out", out) == (
        f"refladder: {path}:3: the scores in column 'coherence_score' are on different scales: ladders:demo/story@5555 "
        f"here, ladders:demo/story@3333 in {path}:1; filter each signature separately, or compare them as they are "
        "with --mix\n"
    )
    assert not out.exists()
    assert len(list(tmp_path.iterdir())) == 1  # nothing half-written beside the input
    done = command("filter", path, *options, "--out", out, "--mix")
    assert done.code == 0
    assert len(out.read_text().splitlines()) == (3 if "--min" in options else 2)


def test_every_part_that_differs_between_signatures_is_named(fails, write_jsonl):
    first = MADE.format("demo/story@3333")
    path = write_jsonl(
        scored_rows(first, first.replace("hf:m@1", "hf:n@2").replace("orders:1", "orders:2"))
    )
    done = fails(2, "filter", path, "--min", "coherence_score=5")
    assert "backend:hf:n@2|orders:2 here, backend:hf:m@1|orders:1 in " in done
    path = write_jsonl(scored_rows(first, f"{first}|between:1,2"))
    done = fails(2, "filter", path, "--min", "coherence_score=5")
    assert "between:1,2 here, nothing in its place in " in done
    path = write_jsonl(scored_rows(first, None))
    assert f"no signature here, {first} in " in fails(
        2, "filter", path, "--min", "coherence_score=5"
    )


def test_signatures_matter_only_where_scores_are_compared(command, write_jsonl):
    rows = scored_rows(MADE.format("a@1"), MADE.format("b@2"))
    assert len(command("filter", write_jsonl(rows), "--min", "coherence_mass=0.5").rows) == 2
    assert len(command("filter", write_jsonl(rows), "--min", "id=0").rows) == 2
    rows[1]["coherence_score"] = None  # no score, nothing to compare
    assert len(command("filter", write_jsonl(rows), "--min", "coherence_score=0").rows) == 1


def test_a_filter_that_keeps_nothing_shows_the_range(command, write_jsonl):
    path = write_jsonl([{"a": 1.5, "b": 7}, {"a": -2, "b": None}, {"a": 3, "b": 9}])
    done = command("filter", path, "--min", "a=4", "--max", "b=20")
    assert done.code == 0
    assert done.err == (
        "3 rows: 0 passed (0.0%), 2 rejected, 1 unscored (dropped)\n"
        "no row passes: a is between -2 and 3, b is between 7 and 9\n"
    )
    done = command("filter", path, "--min", "a=4", "--json")
    assert json.loads(done.err)["ranges"] == {"a": [-2.0, 3.0]}
    assert "no row passes" not in command("filter", path, "--min", "a=3").err
    done = command("filter", write_jsonl([{"a": None}]), "--min", "a=4")
    assert done.err.endswith("\nno row passes: a holds no number\n")
