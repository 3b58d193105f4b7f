from __future__ import annotations

import collections.abc
import gzip
import json
import os
import re
import subprocess
import sys
import threading
import types
import typing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refladder.calibration.records import Look, Threshold
from refladder.errors import DataError
from refladder.files.jsonl import (
    append_lines,
    append_records,
    atomic,
    from_line,
    from_lines,
    read_appended,
    read_bytes,
    read_lines,
    read_records,
    throw_away,
    to_json,
    to_line,
    write_json,
    write_records,
)
from refladder.records import SCHEMAS, Dimension, Judgment, LinkedColumn, Rating, Shared

SIMPLE = {
    str: st.text(st.characters(codec="utf-8"), max_size=8),
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.integers(1, 9),
    bool: st.booleans(),
    type(None): st.none(),
}
# Fields of records that refuse what their types allow.
LIMITED = {
    Judgment: {
        "outcomes": st.just(("win", "loss")),
        "logprobs": st.none() | st.just((-0.5, -1.5)),
        "mass": st.none() | st.floats(0, 1),
    },
    LinkedColumn: dict.fromkeys(("scores", "values", "least", "most"), st.just((1.0, 2.5))),
    Look: {"column": st.just("a")},
    Threshold: {"column": st.just("a")},
    # There is at least one anchor.
    Shared: {"scoring": st.one_of(st.just(1), st.none()), "shared": st.just(value=True)},
}


def values_of(hint):
    """Values of a type that a record has as a field."""
    arguments = typing.get_args(hint)
    match typing.get_origin(hint):
        case types.UnionType:
            return st.one_of(*map(values_of, arguments))
        case typing.Literal:
            return st.sampled_from(arguments)
        case collections.abc.Mapping:
            return st.dictionaries(*map(values_of, arguments), max_size=2)
        case origin if origin is tuple:
            several = st.lists(values_of(arguments[0]), min_size=1, max_size=2).map(tuple)
            return several if arguments[1] is ... else st.tuples(*map(values_of, arguments))
    if hint in SIMPLE:
        return SIMPLE[hint]
    fields = {name: values_of(field) for name, field in typing.get_type_hints(hint).items()}
    return st.builds(hint, **{**fields, **LIMITED.get(hint, {})})


@pytest.mark.parametrize("kind", SCHEMAS)
@settings(deadline=None, max_examples=10)  # the first record of each kind builds its reader
@given(data=st.data())
def test_a_record_comes_back_as_it_was(kind, data):
    record = data.draw(values_of(kind))
    line = to_line(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert from_line(kind, line.decode().rstrip("\n"), "f:1") == record


RATING = '{"schema":"rating/1","output_id":"a","dimension":"b","value":1.0,"rater":"c"}'
OTHER = RATING.replace("1.0", "2.5")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            RATING.replace("rating/1", "rating/2"),
            "rating/2, of another version of refladder; this one reads rating/1, so make the file a",
        ),
        (RATING.replace("rating/1", "x"), 'expected a line with "schema": "rating/1", found \'x\''),
        (
            RATING.replace('"c"', "7"),
            "rating/1 field 'rater': Input should be a valid string, found 7",
        ),
        (RATING.replace('"rater"', '"ratter"'), "rating/1 field 'rater': Field required"),
        (RATING.replace("}", ',"more":1}'), "rating/1 field 'more': Unexpected keyword argument"),
        (
            RATING.replace("1.0", "NaN"),
            "rating/1 field 'value': Input should be a finite number, found nan",
        ),
        (
            RATING.replace("1.0", '"1"'),
            "rating/1 field 'value': Input should be a valid number, found '1'",
        ),
        (RATING[:-20], "not JSON (EOF while parsing"),
        (f"{RATING},{OTHER}", "not JSON"),
        ("x" + RATING, "not JSON (Expecting value at column 1)"),
        ("", "not JSON (Expecting value at column 1)"),
        ("null", 'expected a line with "schema": "rating/1"'),
        ("[" * 100_000, "not JSON (nested more than 100 levels deep)"),
    ],
)
def test_reading_is_strict_also_of_many_lines_at_once(line, message):
    with pytest.raises(DataError, match=f"^f:2: {re.escape(message)}"):
        from_line(Rating, line, "f:2")
    with pytest.raises(DataError, match=f"^f:2: {re.escape(message)}"):
        from_lines(Rating, [("f:1", RATING), ("f:2", line), ("f:3", OTHER)])


def test_many_lines_are_the_records_of_each_line_also_if_the_json_is_spelt_otherwise():
    spaced = RATING.replace(":", " : ").replace(",", " , ")
    for lines in ([], [RATING, OTHER], [spaced, OTHER]):
        records = [from_line(Rating, line, "f") for line in lines]
        assert from_lines(Rating, [("f", line) for line in lines]) == records
    assert from_line(Rating, spaced, "f").value == 1.0


@pytest.mark.parametrize("note", [None, "a remark"])
def test_judgments_written_before_cut_was_a_field_are_read(note):
    judgment = Judgment(
        context_id="c",
        dimension="fluency",
        subject="o",
        against="rung:1",
        outcomes=("win", "loss", "tie"),
        logprobs=(-0.1, -3.0, -4.0),
        mass=0.9,
        key="k",
        recipe="r",
        note=note,
    )
    fields = json.loads(to_line(judgment))
    del fields["cut"]
    line = json.dumps(fields, separators=(",", ":"))
    assert from_line(Judgment, line, "f") == judgment
    assert from_lines(Judgment, [("f:1", line)]) == [judgment]


def test_plain_and_gzip_files_whatever_their_names_and_a_pipe(tmp_path):
    text = "one\r\nzwei ü\nthree".encode()
    packed = gzip.compress(text)
    (tmp_path / "a.gz").write_bytes(text)
    (tmp_path / "b").write_bytes(packed)
    for name in ("a.gz", "b"):
        assert read_bytes(tmp_path / name) == text
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=lambda: pipe.write_bytes(packed))
    writing.start()
    for name in ("a.gz", "b", "pipe"):
        lines = [(1, "one"), (2, "zwei ü"), (3, "three")]
        assert list(read_lines(tmp_path / name)) == lines
    writing.join()


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "f"

    def refused(message, path=path):
        for read in (read_bytes, lambda path: list(read_lines(path))):
            with pytest.raises(DataError, match=f"^{path}(:2)?{message}$"):
                read(path)

    refused(": no such file")
    refused(r": cannot be read \(Is a directory\)", tmp_path)
    path.write_bytes(gzip.compress(b"a line\n" * 9)[:-12])
    refused(r": the stream is damaged or incomplete \(.*\); download or copy it again")
    path.write_bytes(b"fine\ncaf\xe9\n")
    message = (
        f"^{path}:2: not UTF-8 \\(byte 0xe9 at position 3\\); save it as UTF-8 \\(in Excel: CSV UTF-8\\), "
        "or run `iconv -f CP1252 -t UTF-8 FILE > NEW`$"
    )
    with pytest.raises(DataError, match=message):
        list(read_lines(path))


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, BrokenPipeError, ConnectionError])
def test_a_file_appears_whole_or_not_at_all(tmp_path, error):
    path = tmp_path / "new" / "f"
    with pytest.raises(error), atomic(path) as stream:  # noqa: PT012  it is the block that fails
        stream.write(b"half")
        raise error
    assert list(path.parent.iterdir()) == []
    with atomic(path) as stream:
        stream.write(b"whole")
    with pytest.raises(error), atomic(path) as stream:  # noqa: PT012
        stream.write(b"half")
        raise error
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "f").write_bytes(b"")
    message = f"{tmp_path}/f/g: cannot be written ({tmp_path}/f is a file, not a folder); choose another path"
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        write_json(tmp_path / "f" / "g", {"a": 1})
    for path in (Path("/proc/none/f"), Path("/dev/full")):
        message = f"^{path}: cannot be written \\(.+\\); free space or choose another path$"
        with pytest.raises(DataError, match=message):
            write_json(path, {"a": 1})
    with pytest.raises(DataError, match=f"^{tmp_path}: cannot be written \\(Is a directory\\)"):
        throw_away(tmp_path)
    throw_away(tmp_path / "none")
    throw_away(tmp_path / "f" / "g")


@pytest.fixture(scope="module")
def ended():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_partial_files_of_ended_processes_are_removed(tmp_path, ended):
    path = tmp_path / "out[1].jsonl"
    left = tmp_path / f".out[1].jsonl.{ended}.partial"
    others = [
        tmp_path / f".out[1].jsonl.{os.getppid()}.partial",  # its process is alive
        tmp_path / f".other.jsonl.{ended}.partial",
        tmp_path / ".out[1].jsonl.x.partial",
        tmp_path / f".out[1].jsonl.{10**30}.partial",
    ]
    for file in (left, *others):
        file.write_text("half a row")
    with atomic(path) as stream:
        stream.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_a_partial_file_of_another_machine_stays_while_it_is_locked(tmp_path, ended):
    fcntl = pytest.importorskip("fcntl", reason="this system has no such locks")
    left = tmp_path / f".out.{ended}.partial"
    with left.open("w") as elsewhere:
        fcntl.flock(elsewhere, fcntl.LOCK_EX)
        write_json(tmp_path / "out", {})
        assert left.exists()
    write_json(tmp_path / "out", {})
    assert not left.exists()


@pytest.mark.parametrize("exists", [True, False], ids=["target", "no target yet"])
def test_a_link_is_followed(tmp_path, exists):
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.parent.mkdir()
    if exists:
        target.write_text("before")
    link.symlink_to(Path("folder") / "target")
    with atomic(link) as stream:
        stream.write(b"after")
        assert not exists or target.read_text() == "before"  # it too appears whole or not at all
    assert link.is_symlink()
    assert target.read_bytes() == b"after"
    assert sorted(tmp_path.rglob("*")) == sorted([link, target, target.parent])


def test_records_in_a_file(tmp_path):
    path = tmp_path / "f.jsonl"
    ratings = [Rating(output_id="a", dimension="b", value=float(n), rater="c") for n in range(3)]
    assert write_records(path, ratings) == 3
    assert list(read_records(Rating, path)) == ratings
    path.write_text(RATING + "\n\n")
    with pytest.raises(DataError, match=f"^{path}:2: not JSON"):
        list(read_records(Rating, path))


def test_half_a_surrogate_pair_stays_an_escape():
    assert to_json({"a": "ü\ud800"}) == '{"a": "ü\\ud800"}'.encode()


A_DIMENSION = Dimension(name="clarity", description="Whether it is clear.")


def test_records_that_are_appended_come_back_without_a_torn_line(tmp_path, caplog):
    path = tmp_path / "folder" / "records.jsonl"
    assert read_appended(path) == []
    append_records(path, [A_DIMENSION])
    append_records(path, [A_DIMENSION])
    with path.open("ab") as stream:
        stream.write(b'{"torn')
    torn = path.read_bytes()
    lines = read_appended(path)
    assert [where for where, _ in lines] == [f"{path}:1", f"{path}:2"]
    assert [from_line(Dimension, line, where) for where, line in lines] == [A_DIMENSION] * 2
    assert caplog.messages == [
        f"{path}:3: an incomplete line, which an interrupted write left, is skipped; the next write removes it"
    ]
    assert path.read_bytes() == torn  # reading writes nothing
    append_records(path, [A_DIMENSION])
    assert path.read_bytes() == to_line(A_DIMENSION) * 3


def test_appended_files_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(DataError, match=r"cannot be written \(Is a directory\); free space or"):
        append_records(tmp_path, [A_DIMENSION])
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\)$"):
        read_appended(tmp_path)
    path = tmp_path / "records.jsonl"
    path.write_bytes(to_line(A_DIMENSION) + b'"\xff"\n')
    message = (
        r"records\.jsonl:2: not UTF-8 \(byte 0xff at position 1\); correct the line, or delete"
    )
    with pytest.raises(DataError, match=message):
        read_appended(path)


@pytest.mark.parametrize("last", [b'{"a":1}', '{"a":"\u00e9"}'.encode()])
def test_a_last_line_without_a_newline_stays_and_gets_one_with_the_next(tmp_path, last):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"b":2}\n' + last)
    assert [line for _, line in read_appended(path)] == ['{"b":2}', last.decode()]
    assert path.read_bytes() == b'{"b":2}\n' + last
    append_lines(path, [b'{"c":3}\n'])
    assert path.read_bytes() == b'{"b":2}\n' + last + b'\n{"c":3}\n'


def test_a_file_of_a_folder_is_no_link_to_another_place(tmp_path):
    folder, outside = tmp_path / "run", tmp_path / "outside.jsonl"
    folder.mkdir()
    outside.write_bytes(b'{"a":1}')
    (folder / "inside.jsonl").write_bytes(b'{"a":1}\n')
    (folder / "to inside.jsonl").symlink_to("inside.jsonl")
    assert len(read_appended(folder / "to inside.jsonl")) == 1
    (folder / "chain.jsonl").symlink_to("link.jsonl")
    (folder / "link.jsonl").symlink_to(Path("..") / "outside.jsonl")
    for name in ("link.jsonl", "chain.jsonl"):
        message = rf"{name}: a link to .*outside\.jsonl, which is not in .*run; copy the file"
        with pytest.raises(DataError, match=message):
            read_appended(folder / name)
    assert outside.read_bytes() == b'{"a":1}'
