from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refladder.errors import DataError
from refladder.files.jsonl import (
    append_lines,
    append_records,
    atomic,
    from_line,
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
from refladder.records import (
    SCHEMAS,
    Context,
    Dimension,
    Distilled,
    Generated,
    HeldOut,
    Judgment,
    Ladder,
    LadderFailure,
    Link,
    LinkedColumn,
    Look,
    Output,
    Rating,
    Recipe,
    Revision,
    Run,
    Rung,
    Sampling,
    Shared,
    Threshold,
)

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
LOGPROB = st.floats(max_value=0, allow_infinity=False)
RECIPES = st.builds(
    Recipe,
    backend=TEXT,
    prompts=st.tuples(TEXT),
    sampling=st.none() | st.builds(Sampling, seed=st.integers(0, 9)),
    version=TEXT,
)
DIMENSIONS = st.builds(Dimension, name=TEXT, description=TEXT, low=NUMBER, high=NUMBER)
RUNGS = st.builds(Rung, level=st.integers(1, 9), text=TEXT, between=st.none() | st.just((1, 5)))
RECORDS = st.one_of(
    DIMENSIONS,
    st.builds(Context, id=TEXT, task=TEXT, text=TEXT, background=TEXT, references=st.tuples(TEXT, TEXT)),
    st.builds(Output, id=TEXT, context_id=TEXT, system=TEXT, text=TEXT),
    st.builds(Rating, output_id=TEXT, dimension=TEXT, value=NUMBER, rater=TEXT),
    st.builds(Ladder, context_id=TEXT, task=TEXT, dimension=TEXT, rungs=st.tuples(RUNGS, RUNGS), recipe=RECIPES),
    st.builds(
        LadderFailure, context_id=TEXT, task=TEXT, dimension=TEXT, level=st.integers(1, 9), reasons=st.tuples(TEXT),
        recipe=RECIPES,
    ),
    st.builds(
        Judgment, context_id=TEXT, dimension=TEXT, subject=TEXT, against=st.none() | TEXT, outcomes=st.tuples(TEXT),
        logprobs=st.none() | st.tuples(LOGPROB), mass=st.none() | st.floats(0, 1), key=TEXT, recipe=TEXT,
        note=st.none() | TEXT,
    ),
    RECIPES,
    st.builds(
        Generated, row=TEXT, model=TEXT, text=st.none() | TEXT, finish=TEXT, key=TEXT, note=st.none() | TEXT
    ),
    st.builds(
        Run, recipe=RECIPES, ladders=TEXT, dimensions=st.tuples(DIMENSIONS), rungs=st.integers(2, 9), orders=st.just(2)
    ),
    st.builds(Revision, ladders=st.integers(1, 9), digest=TEXT),
    st.builds(Shared, anchors=st.tuples(TEXT, TEXT), seed=st.integers(0, 9)),
    st.builds(
        Threshold, column=st.just("a"), cutoff=st.none() | NUMBER, precision=st.none() | NUMBER,
        recall=st.none(), sure=NUMBER, signature=st.none() | TEXT, label=TEXT,
        good=TEXT, labels=st.just(9), labels_above=st.just(5), bad_above=st.just(1), rows=st.just(20),
        kept=st.just(7), used=st.tuples(TEXT, TEXT), version=TEXT,
        unit=st.sampled_from(["row", "context"]),
        looks=st.tuples(
            st.builds(Look, column=st.just("a"), signature=st.none() | TEXT, label=TEXT, number=st.just(2), digest=TEXT)
        ),
    ),
    st.builds(
        Distilled, column=TEXT, teacher=st.none() | TEXT,
        reads_context=st.booleans(), rows=st.just(80), contexts=st.just(8), low=NUMBER, high=NUMBER,
        settings=st.just({"penalty": 3.0}), weights=TEXT, held_out_by=st.just("context"),
        half_width=NUMBER, version=TEXT,
        held_out=st.tuples(
            st.builds(
                HeldOut, method=TEXT, target=TEXT, rows=st.just(20), contexts=st.just(2), pearson=NUMBER,
                spearman=NUMBER, within_pearson=st.none() | NUMBER, within_spearman=st.none(), error=st.none() | NUMBER,
            )
        ),
    ),
    st.builds(Revision, ladders=st.integers(1, 9), digest=TEXT),
    st.builds(
        Link, from_signature=TEXT, to_signature=TEXT, version=TEXT,
        columns=st.tuples(
            st.builds(
                LinkedColumn, column=TEXT, scores=st.tuples(NUMBER), values=st.tuples(NUMBER), least=st.tuples(NUMBER),
                most=st.tuples(NUMBER), half_width=st.none() | NUMBER, slope=NUMBER, shift=NUMBER, rows=st.just(9),
                contexts=st.just(3), error=NUMBER, identity_error=NUMBER, equipercentile_error=NUMBER,
                map=st.sampled_from(["identity", "line", "equipercentile"]), line_error=NUMBER,
            )
        ),
    ),
)  # fmt: skip


@settings(deadline=None)  # the first record of each kind builds its reader
@given(record=RECORDS)
def test_a_record_comes_back_as_it_was(record):
    line = to_line(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert from_line(type(record), line.decode().rstrip("\n"), "f:1") == record


def test_every_schema_is_round_tripped():
    made = {
        "Dimension",
        "Context",
        "ContextDigest",
        "Output",
        "Rating",
        "Ladder",
        "LadderFailure",
        "JudgeCheck",
        "Judgment",
        "Run",
        "Recipe",
        "Distilled",
        "Generated",
        "Link",
        "Revision",
        "Shared",
        "Threshold",
    }
    assert {kind.__name__ for kind in SCHEMAS} == made


RATING = '{"schema":"rating/1","output_id":"a","dimension":"b","value":1.0,"rater":"c"}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            RATING.replace("rating/1", "rating/2"),
            "rating/2, of another version of refladder; this one reads rating/1, so make the file again",
        ),
        (
            RATING.replace('"rater":"c"', '"rater":7'),
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
        ("x" + RATING, "not JSON (Expecting value: line 1 column 1 (char 0))"),
        ("", "not JSON (Expecting value: line 1 column 1 (char 0))"),
        ("[" * 100_000, "not JSON (nested more than 100 levels deep)"),
    ],
)
def test_reading_is_strict(line, message):
    with pytest.raises(DataError, match=f"^f:3: {re.escape(message)}"):
        from_line(Rating, line, "f:3")


def test_the_same_json_spelt_otherwise_is_read():
    assert from_line(Rating, RATING.replace(":", " : ").replace(",", " , "), "f:1").value == 1.0


def test_plain_and_gzip_files_whatever_their_names(tmp_path):
    lines = ["one\r\n", "zwei ü\n", "three"]
    (tmp_path / "a.gz").write_bytes("".join(lines).encode())
    (tmp_path / "b").write_bytes(gzip.compress("".join(lines).encode()))
    for name in "a.gz", "b":
        assert list(read_lines(tmp_path / name)) == [(1, "one"), (2, "zwei ü"), (3, "three")]
        assert read_bytes(tmp_path / name) == "".join(lines).encode()


def test_a_pipe_can_be_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(b"a\nb\n")))
    writing.start()
    assert list(read_lines(pipe)) == [(1, "a"), (2, "b")]
    writing.join()


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "f"
    for read in (lambda: list(read_lines(path)), lambda: read_bytes(path)):
        with pytest.raises(DataError, match=f"^{path}: no such file$"):
            read()
    with pytest.raises(DataError, match=f"^{tmp_path}: cannot be read \\(Is a directory\\)$"):
        read_bytes(tmp_path)
    path.write_bytes(b"fine\ncaf\xe9\n")
    message = f"^{path}:2: not UTF-8 \\(byte 0xe9 at position 3\\); convert the file to UTF-8$"
    with pytest.raises(DataError, match=message):
        list(read_lines(path))
    path.write_bytes(gzip.compress(b"a line\n" * 9)[:-12])
    for read in (lambda: list(read_lines(path)), lambda: read_bytes(path)):
        with pytest.raises(
            DataError,
            match=r"the stream is damaged or incomplete \(.*\); download or copy it again$",
        ):
            read()


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
    for path in (tmp_path / "f" / "g", Path("/proc/none/f")):
        with pytest.raises(
            DataError,
            match=f"^{path}: cannot be written \\(.+\\); free space or choose another path$",
        ):
            write_json(path, {})
    with pytest.raises(
        DataError, match=r"^/dev/full: cannot be written \(No space left on device\)"
    ):
        write_json(Path("/dev/full"), {"a": 1})
    with pytest.raises(DataError, match=f"^{tmp_path}: cannot be written \\(Is a directory\\)"):
        throw_away(tmp_path)
    throw_away(tmp_path / "none")
    throw_away(tmp_path / "f" / "g")


def ended_process():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_partial_files_of_ended_processes_are_removed(tmp_path):
    path, ended = tmp_path / "out[1].jsonl", ended_process()
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


def test_a_partial_file_of_another_machine_stays_while_it_is_locked(tmp_path):
    fcntl = pytest.importorskip("fcntl", reason="this system has no such locks")
    left = tmp_path / f".out.{ended_process()}.partial"
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
    ratings = [Rating(output_id="a", dimension="b", value=float(n), rater="c") for n in range(3)]
    assert write_records(tmp_path / "f.jsonl", ratings) == 3
    assert list(read_records(Rating, tmp_path / "f.jsonl")) == ratings
    (tmp_path / "f.jsonl").write_text(RATING + "\n\n")
    with pytest.raises(DataError, match=f"^{tmp_path / 'f.jsonl'}:2: not JSON"):
        list(read_records(Rating, tmp_path / "f.jsonl"))


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
    with pytest.raises(
        DataError,
        match=r"folder: cannot be written \(Is a directory\); free space or choose another",
    ):
        append_records(path.parent, [A_DIMENSION])
    with pytest.raises(DataError, match=r"folder: cannot be read \(Is a directory\)$"):
        read_appended(path.parent)
    path.write_bytes(to_line(A_DIMENSION) + b'"\xff"\n')
    with pytest.raises(
        DataError,
        match=r"records\.jsonl:2: not UTF-8 \(byte 0xff at position 1\); correct the line, or",
    ):
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
        with pytest.raises(
            DataError,
            match=rf"{name}: a link to .*outside\.jsonl, which is not in .*run; copy the file",
        ):
            read_appended(folder / name)
    assert outside.read_bytes() == b'{"a":1}'
