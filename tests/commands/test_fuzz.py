"""Whatever the bytes of an input are, a command ends with a code and a line of text, never with a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refladder.commands.main import run as run_command

ROWS = (
    b'{"context_id":"story-01","output":"A text.","score":1}\n{"context_id":"story-02","output":"B","score":2}\n',
    b"context_id,output,score\nstory-01,A text.,1\nstory-02,B,2\n",
)
FEW = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def damaged(draw):
    """A good table with a few bytes changed, put in or taken out."""
    content = bytearray(draw(st.sampled_from(ROWS)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(content)))
        content[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(content)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
NAMES = st.sampled_from(["context_id", "output", "output_id", "score", "x", "story-01"])
OBJECTS = st.lists(
    st.dictionaries(NAMES, VALUES | st.just("story-01"), max_size=5), max_size=3
).map(lambda rows: "".join(json.dumps(row) + "\n" for row in rows).encode())
BYTES = st.one_of(st.binary(max_size=60), damaged(), OBJECTS)
COMMANDS = [
    "score {path} --ladders demo/story",
    "filter {path} --min score=1.5",
    "filter {path} --top 0.5 --by score --out-format csv",
    "filter {path} --max score=1.5 --unscored keep --out {folder}/out.parquet",
]


def ended(line, stdin=b""):
    """Run a command; return its code and what it printed on standard error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    given = io.TextIOWrapper(io.BytesIO(stdin))
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with mock.patch.object(sys, "stdin", given), streams[0], streams[1]:
        code = run_command(line.split())
    err.flush()
    return code, err.buffer.getvalue().decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize("line", COMMANDS)
@FEW
@given(content=BYTES)
def test_no_input_breaks_a_command(folder, form, line, content):
    path = folder / f"in.{form}"
    path.write_bytes(content)
    code, told = ended(line.format(path=path, folder=folder))
    assert code in {0, 2, 3}
    if code == 2:
        assert told.splitlines()[-1].startswith("refladder: ")


@pytest.mark.parametrize("name", ["\x0b", "\x1b[2J", "\u2028", "\u0085", '"\n"'])
def test_control_characters_in_a_message_do_not_reach_the_terminal(folder, capsys, name):
    path = folder / "in.csv"
    path.write_bytes(f"{name}\nx\n".encode())
    assert run_command(["filter", str(path), "--min", "score=1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"refladder: {path}:")
    assert line.isprintable()


@FEW
@given(content=BYTES)
def test_no_standard_input_breaks_a_command(content):
    code, _ = ended("filter - --min score=1", content)
    assert code in {0, 2, 3}


@FEW
@given(content=st.one_of(st.binary(max_size=60), OBJECTS, st.just(b'{"schema":"run/2","x":1}\n')))
def test_no_judgments_file_breaks_rescore(folder, content):
    path = folder / "kept.jsonl"
    path.write_bytes(content)
    code, told = ended(f"rescore {path}")
    assert code == 2
    assert told.startswith(f"refladder: {path}:")


@FEW
@given(content=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_no_config_file_breaks_the_command_line(folder, content):
    path = folder / "config.toml"
    path.write_bytes(content)
    code, _ = ended(f"--config {path} list rules --json")
    assert code in {0, 2}
