from __future__ import annotations

import datetime as dt
import json
import math
import subprocess
import sys
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_lines import read_lines
from pyarrow import parquet
from waiting import HANG

from refladder.calibration.filter import run
from refladder.calibration.records import Filtering
from refladder.events import Silent
from refladder.settings import Tables

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


@pytest.fixture
def passed(command):
    """The column `id` of the rows that pass."""
    return lambda source, options: [row["id"] for row in command(f"filter {source} {options}").rows]


def filtered(folder, rows, asked):
    """The report of the job, with its output at `out.jsonl` of the folder."""
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run(asked, Tables(source=str(folder / "in.jsonl"), out=f"{folder}/out.jsonl"), Silent())


def test_a_signature_that_is_no_text_is_another_scale(command, write_jsonl):
    rows = [{"x_score": 1, "signature": ["q"]}, {"x_score": 2, "signature": {"a": 1}}]
    told = command(f"filter {write_jsonl(rows)} --min x_score=1").err
    assert "the scores in column 'x_score' are on different scales: {'a': 1} here, ['q'] in" in told


def test_json_lines_pass_byte_for_byte(command, raw, tmp_path):
    kept, rejected, unscored = (tmp_path / name for name in ("k.jsonl", "r.jsonl", "u.jsonl"))
    files = f"--out {kept} --rejected {rejected} --unscored {unscored}"
    done = command(f"filter {raw} --min score=3 {files} --json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {
        "rows": 4, "passed": 2, "rejected": 1, "unscored": 1, "unscored_to": str(unscored),
        "ranges": {"score": [2.0, 5.0]},
    }  # fmt: skip
    lines = RAW.split(b"\n")
    assert kept.read_bytes() == lines[0] + b"\n" + lines[3] + b"\n"
    assert rejected.read_bytes() == lines[1] + b"\n"  # with its \r
    assert unscored.read_bytes() == lines[2] + b"\n"


@pytest.mark.parametrize(
    ("where", "ids", "told"), [("keep", [1, 3, 4], "kept"), ("drop", [1, 4], "dropped")]
)
def test_unscored_rows_go_where_they_are_sent(command, raw, where, ids, told):
    done = command(f"filter {raw} --min score=2.5 --unscored {where}")
    assert [row["id"] for row in done.rows] == ids
    assert done.err == f"4 rows: 2 passed (50.0%), 1 rejected, 1 unscored ({told})\n"


def test_a_top_fraction_is_of_the_rows_that_reach_the_thresholds(passed, write_jsonl):
    values = [5, 1, 4, 4, 2, 4, 3, None, 0]
    path = write_jsonl([{"id": place, "v": value} for place, value in enumerate(values)])
    # best first: 5 (id 0), then 4 (ids 2, 3, 5), 3, 2, 1, 0; half of the 8 that have a value is 4; order is kept
    assert passed(path, "--top 0.5 --by v") == [0, 2, 3, 5]
    # of equal values at the cut the earlier rows are taken: 3/8
    assert passed(path, "--top 0.375 --by v") == [0, 2, 3]
    # ids 1, 4, 6, 8 are 1, 2, 3, 0: 4 rows have v <= 3; half is 2
    assert passed(path, "--max v=3 --top 0.5 --by v") == [4, 6]


@settings(max_examples=40, deadline=None)
@given(count=st.integers(0, 60), hundredths=st.integers(1, 100))
@example(count=50, hundredths=14)  # 0.14 * 50 is a little over 7
def test_a_top_fraction_counts_exactly(tmp_path_factory, count, hundredths):
    rows = [{"v": value % 7} for value in range(count)]
    asked = Filtering(top=hundredths / 100, by="v")
    report = filtered(tmp_path_factory.mktemp("top"), rows, asked)
    assert report.passed == math.ceil(Fraction(hundredths, 100) * count)
    assert report.rows == count


VALUES = st.lists(st.one_of(st.none(), st.integers(-3, 3)), max_size=30)


@settings(max_examples=40, deadline=None)
@given(values=VALUES, least=st.integers(-3, 3), most=st.integers(-3, 3))
def test_every_row_goes_to_one_place_in_its_order(tmp_path_factory, values, least, most):
    folder = tmp_path_factory.mktemp("split")
    rows = [{"place": place, "v": value} for place, value in enumerate(values)]
    others = {name: f"{folder}/{name}.jsonl" for name in ("rejected", "unscored")}
    filtered(folder, rows, Filtering(min={"v": least}, max={"v": most}, **others))
    found = {name: read_lines(folder / f"{name}.jsonl") for name in ("out", *others)}
    passing = [row for row in rows if row["v"] is not None and least <= row["v"] <= most]
    assert found["out"] == passing
    assert found["unscored"] == [row for row in rows if row["v"] is None]
    assert found["rejected"] == [row for row in rows if row not in passing and row["v"] is not None]


def test_csv_cells_stay_what_they_were(command, tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(
        '\ufeffid,"score",text\r\n007,3.10,"a ""b"", c"\r\n008,1,"two\nlines"\r\n009,,x\r\n'.encode()
    )
    done = command(f"filter {path} --min score=2")
    assert done.out == '\ufeffid,score,text\r\n007,3.10,"a ""b"", c"\r\n'
    done = command(f"filter {path} --max score=2 --unscored keep")
    assert done.out == '\ufeffid,score,text\r\n008,1,"two\nlines"\r\n009,,x\r\n'


def test_a_table_without_scores_is_refused_before_its_header_is_written(fails, tmp_path):
    path = tmp_path / "in.csv"
    for text, line in (("id,text\n1,a\n", 2), ("id,text\n", 1)):
        path.write_text(text)
        # Nothing is on standard output, which `fails` checks.
        assert fails(2, f"filter {path} --min score=9").startswith(
            f"refladder: {path}:{line}: no column 'score'"
        )


def test_a_table_without_passing_rows_keeps_its_header(command, tmp_path):
    path, empty = tmp_path / "in.csv", tmp_path / "empty.jsonl"
    for text in ("id,score\n1,2\n", "id,score\n"):
        path.write_text(text)
        assert command(f"filter {path} --min score=9").out == "id,score\n"
    empty.write_bytes(b"")
    done = command(f"filter {empty} --min score=9")
    assert (done.code, done.out) == (3, "")
    counts = "0 rows: 0 passed, 0 rejected, 0 unscored (dropped)\n"
    assert done.err == f"{counts}The table has no rows, so nothing was filtered\n"


def test_json_lines_to_csv(command, write_jsonl):
    path = write_jsonl([{"a": 1, "b": [1, "é"]}, {"b": None, "a": 2.5}])
    line = f"filter {path} --min a=0 --out-format csv"
    assert command(line).out == 'a,b\n1,"[1, ""é""]"\n2.5,\n'
    write_jsonl([{"a": 1}, {"a": 2, "b": 3}])
    done = command(line)
    assert done.code == 2
    assert done.err == (
        f"refladder: {path}:2: its columns differ from the first row's (b); write .jsonl, which allows that\n"
    )
    path.write_text('{"a": 1, "b": "\\ud800"}\n')
    assert command(f"filter {path} --min a=0").out == '{"a": 1, "b": "\\ud800"}\n'
    half = "half a surrogate pair, which is not valid in CSV; write .jsonl"
    assert command(line).err == f"refladder: {path}:1: {half}\n"


def test_parquet_types_are_kept(command, tmp_path):
    days = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]
    table = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int8()),
            "score": pa.array([1.5, None, 4.0], pa.float32()),
            "when": pa.array(days, pa.timestamp("us", "UTC")),
            "tags": pa.array([["a"], [], None], pa.list_(pa.string())),
            "part": pa.array([{"x": 1}, {"x": None}, None], pa.struct([("x", pa.int16())])),
            "raw": pa.array([b"\x00\xff", None, b""], pa.binary()),
            "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        }
    )
    source, out, rest = (tmp_path / f"{name}.parquet" for name in ("in", "out", "rest"))
    parquet.write_table(table, source)
    written = parquet.read_table(source)
    assert command(f"filter {source} --min score=2 --out {out} --unscored {rest}").code == 0
    for path, row in ((out, 2), (rest, 1)):
        assert parquet.read_table(path).schema.equals(written.schema)
        assert parquet.read_table(path).to_pylist() == table.slice(row, 1).to_pylist()
    assert command(f"filter {source} --min score=9 --out {out}").code == 0
    assert parquet.read_table(out).schema.equals(written.schema)
    assert parquet.read_table(out).num_rows == 0
    (row,) = command(f"filter {source} --min score=2").rows
    assert row["when"] == "2026-01-03 00:00:00+00:00"


def test_parquet_from_other_tables(command, write_jsonl, tmp_path):
    out = tmp_path / "out.parquet"
    source = write_jsonl([{"n": 1, "none": None, "t": "x"}, {"n": 2, "none": None, "t": "y"}])
    assert command(f"filter {source} --min n=2 --out {out}").code == 0
    assert parquet.read_table(out).to_pylist() == [{"n": 2, "none": None, "t": "y"}]
    write_jsonl([{"n": 1, "t": "x"}, {"n": 2, "t": 5}])
    done = command(f"filter {source} --min n=1 --out {out}")
    assert done.code == 2
    assert done.err.startswith(f"refladder: {out}: the rows do not fit one Parquet table (")
    assert done.err.endswith("); write .jsonl\n")
    assert parquet.read_table(out).num_rows == 1  # the file of before is still whole


NO_NUMBER = "column 'score' must be a finite number or empty, found {}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"score": NaN}', NO_NUMBER.format("nan")),
        ('{"score": Infinity}', NO_NUMBER.format("inf")),
        ('{"score": true}', NO_NUMBER.format("True")),
        ('{"score": "high"}', NO_NUMBER.format("'high'")),
        ('{"score": "1_0"}', NO_NUMBER.format("'1_0'")),
        ('{"score": "\uff11"}', NO_NUMBER.format("'\uff11'")),
        ('{"score": [1]}', NO_NUMBER.format([1])),
        (
            '{"score": -1.1e100}',
            (
                "column 'score' holds -1.1e+100, and numbers beyond 1e+100 have no squares to compute with; divide the column by "
                "a power of ten"
            ),
        ),
        (
            '{"score": 1' + "0" * 400 + "}",
            "not JSON (a whole number of 401 characters); each line must be one JSON object",
        ),
        ('{"scores": 1}', "no column 'score'; did you mean 'scores'? Columns: scores"),
        ("{}", "no column 'score'. Columns: none"),
    ],
)
def test_a_cell_that_is_no_number(fails, tmp_path, line, message):
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"score": 1}\n' + line + "\n")
    for options in ("--min score=0", "--top 0.5 --by score"):
        text = fails(2, f"filter {path} {options} --out {out}")
        assert text == f"refladder: {path}:2: {message}\n"
        assert not out.exists()


ALONE = "--by COLUMN is for --top FRACTION or --best K; give one of them"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "",
            "nothing to filter by; give --min COLUMN=VALUE, --max COLUMN=VALUE, --top, or --best and --per",
        ),
        ("--by score --min a=1", ALONE),
        (
            "--top 1.5 --by score",
            "--top 1.5: a fraction must be more than 0 and at most 1; give 0.015 for 1.5 %",
        ),
        ("--top nan --by score", "--top nan: a fraction must be more than 0 and at most 1"),
        ("--min score=inf", "threshold score=inf: a threshold must be a finite number"),
        ("--min score", "--min 'score': must be COLUMN=NUMBER"),
        ("--min score=x", "--min score=x: 'x' is not a number"),
        ("--min a=1 --min a=2", "--min a: given twice, as '1' and '2'; give it once"),
    ],
)
def test_conditions_that_cannot_be(fails, raw, options, message):
    assert fails(2, f"filter {raw} {options}") == f"refladder: {message}\n"


@pytest.mark.parametrize("options", ["--min score=3", "--top 0.6 --by score"])
def test_standard_input(command, options):
    done = command("filter", *options.split(), stdin=RAW)
    assert [row["id"] for row in done.rows] == [1, 4]
    done = command("filter", "-", *options.split(), stdin=b'{"score": 1}\n{"score": "x"}\n')
    found = "column 'score' must be a finite number or empty, found 'x'"
    assert done.err == f"refladder: <stdin>:2: {found}\n"


def test_a_pipe_that_can_be_read_once(raw):
    line = f"{sys.executable} -m refladder filter <(cat {raw}) --format jsonl --top 0.6 --by score"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)  # noqa: S607
    assert [json.loads(row)["id"] for row in done.stdout.splitlines()] == [1, 4]


def test_a_reader_that_has_had_enough(process, write_jsonl, tmp_path):
    source = write_jsonl([{"n": number, "text": "x" * 200} for number in range(5000)])
    rejected = tmp_path / "rejected.jsonl"
    started = process("filter", source, "--min", "n=1", "--rejected", rejected)
    assert started.stdout.readline().startswith(b'{"n": 1,')
    started.stdout.close()
    # what a shell gives for a program that a closed pipe ended
    assert started.wait(timeout=HANG) == 141
    assert started.stderr.read() == b""
    started.stderr.close()
    assert not rejected.exists()


MADE = "ladders:{}|backend:hf:m@1|prompts:story/compare@aa|refladder:0.1.0|orders:1|rule:ladder-sum|least-mass:0.05"
THREE, FIVE = MADE.format("demo/story@3333"), MADE.format("demo/story@5555")


def scored_rows(*made):
    """One row a signature: their scores are 0, 1, 2, ..."""
    return [
        {"id": number, "coherence_score": number, "coherence_mass": 1.0, "signature": signature}
        for number, signature in enumerate(made)
    ]


def test_scores_of_two_signatures_are_not_ranked_together(passed, fails, write_jsonl, tmp_path):
    path = write_jsonl(scored_rows(THREE, THREE, FIVE))
    for options, kept in (
        ("--min coherence_score=0", [0, 1, 2]),
        ("--top 0.5 --by coherence_score", [1, 2]),
    ):
        assert fails(2, f"filter {path} {options} --out {tmp_path}/out.jsonl") == (
            f"refladder: {path}:3: the scores in column 'coherence_score' are on different scales: "
            f"ladders:demo/story@5555 here, ladders:demo/story@3333 in {path}:1; filter each signature separately, or "
            "compare them as they are with --mix\n"
        )
        assert list(tmp_path.iterdir()) == [path]  # nothing half-written beside the input
        assert passed(path, f"{options} --mix") == kept


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (
            THREE.replace("hf:m@1", "hf:n@2").replace("orders:1", "orders:2"),
            "backend:hf:n@2|orders:2 here, backend:hf:m@1|orders:1 in ",
        ),
        (f"{THREE}|between:1,2", "between:1,2 here, nothing in its place in "),
        (None, f"no signature here, {THREE} in "),
    ],
)
def test_every_part_that_differs_between_signatures_is_named(fails, write_jsonl, second, told):
    path = write_jsonl(scored_rows(THREE, second))
    assert told in fails(2, f"filter {path} --min coherence_score=5")


def test_signatures_matter_only_where_scores_are_compared(passed, write_jsonl):
    rows = scored_rows(MADE.format("a@1"), MADE.format("b@2"))
    assert passed(write_jsonl(rows), "--min coherence_mass=0.5") == [0, 1]
    assert passed(write_jsonl(rows), "--min id=0") == [0, 1]
    rows[1]["coherence_score"] = None  # no score, nothing to compare
    assert passed(write_jsonl(rows), "--min coherence_score=0") == [0]


def test_a_filter_that_keeps_nothing_shows_the_range(command, write_jsonl):
    path = write_jsonl([{"a": 1.5, "b": 7}, {"a": -2, "b": None}, {"a": 3, "b": 9}])
    done = command(f"filter {path} --min a=4 --max b=20")
    assert done.code == 0
    assert done.err == (
        "3 rows: 0 passed (0.0%), 2 rejected, 1 unscored (dropped)\n"
        "no row passes: a is between -2 and 3, b is between 7 and 9\n"
    )
    done = command(f"filter {path} --min a=4 --json")
    assert json.loads(done.err)["ranges"] == {"a": [-2.0, 3.0]}
    assert "no row passes" not in command(f"filter {path} --min a=3").err
    done = command(f"filter {write_jsonl([{'a': None}])} --min a=4")
    assert done.err.endswith("\nno row passes: a holds no number\n")


# Best rows of each group: of equal scores the earlier row is taken.
GROUPS = {"a": [5.0, 1.0, 3.0, 3.0, None], "b": [2.0, 9.0], "c": [4.0]}
GROUPED = [
    {"id": f"{group}{number}", "context_id": group, "worth_score": score, "signature": "judge:1"}
    for group, values in GROUPS.items()
    for number, score in enumerate(values)
]


def test_the_best_rows_of_each_context_are_kept(command, passed, write_jsonl):
    path, best = write_jsonl(GROUPED), "--best 1 --per context_id"
    # rows keep their order
    assert passed(path, "--best 2 --per context_id") == ["a0", "a2", "b0", "b1", "c0"]
    assert passed(path, best) == ["a0", "b1", "c0"]
    # the best of those that reach the thresholds
    assert passed(path, f"{best} --max worth_score=4") == ["a2", "b0", "c0"]
    assert passed(path, "--best 1 --per signature") == ["b1"]
    assert passed(path, f"{best} --unscored keep") == ["a0", "a4", "b1", "c0"]
    done = command(
        *["filter", "--best", "2", "--per", "context_id", "--json"], stdin=path.read_bytes()
    )
    assert json.loads(done.err) == {
        "rows": 8, "passed": 5, "rejected": 2, "unscored": 1, "unscored_to": "drop",
        "ranges": {"worth_score": [1.0, 9.0]},
    }  # fmt: skip


PAIRS = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(-2, 2)))


@settings(max_examples=40, deadline=None)
@given(values=st.lists(PAIRS, max_size=20), best=st.integers(1, 3))
def test_the_best_of_groups_are_those_of_a_sort(tmp_path_factory, values, best):
    folder = tmp_path_factory.mktemp("best")
    rows = [{"n": number, "g": group, "v": value} for number, (group, value) in enumerate(values)]
    filtered(folder, rows, Filtering(best=best, per="g", by="v"))
    expected = []
    for group in range(4):
        scored = [row for row in rows if row["g"] == group and row["v"] is not None]
        expected += [row["n"] for row in sorted(scored, key=lambda row: -row["v"])[:best]]
    written = [row["n"] for row in read_lines(folder / "out.jsonl")]
    assert written == sorted(expected)


def test_groups_that_cannot_be_are_refused(fails, write_jsonl):
    mixed = [*GROUPED[:6], {**GROUPED[6], "signature": "judge:2"}]
    best, both = "--best 1 --per context_id", "--best K and --per COLUMN go together; give both"
    text = fails(2, f"filter {write_jsonl(mixed, 'mixed.jsonl')} {best}")
    assert "on different scales" in text
    path = write_jsonl(GROUPED)
    for options, message in (
        ("--best 1", both),
        ("--per context_id", both),
        (
            f"{best} --top 0.5 --by worth_score",
            "--top is a fraction of all rows, and --best a number in each group; give one of them",
        ),
        (
            "--best 1 --per topic",
            f"{path}:1: no column 'topic' to group by. Columns: id, context_id",
        ),
        (f"{best} --by worth", f"{path}:1: no column 'worth'; did you mean"),
    ):
        assert fails(2, f"filter {path} {options}").startswith(f"refladder: {message}")


def test_a_very_small_top_fraction_is_one_row(passed, write_jsonl):
    path = write_jsonl([{"id": place, "v": place} for place in range(5)])
    assert passed(path, "--top 1e-12 --by v") == [4]
