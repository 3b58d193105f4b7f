"""refladder build: its writer, rungs of people, tables of the user's own, and what a second run does."""

from __future__ import annotations

import json
import logging

import pytest
from json_lines import read_lines, write_lines

import refladder
from refladder import Dimension
from refladder.display import log
from refladder.ladders.build import STOCK

TASK = """task = "open"
[[dimensions]]
name = "clarity"
description = "Whether a child can follow it."
low = 1
high = 5
"""
CLARITY = Dimension(name="clarity", description="Whether a child can follow it.", low=1, high=5)
ROWS = [
    {"context_id": "tides", "context": "Why does the sea rise?", "output": "The moon."},
    {"context_id": "rain", "context": "Why rain?", "output": "Clouds."},
]
HUMAN = "context_id,dimension,level,text\n"


@pytest.fixture
def own(tmp_path):
    """`build` for two prompts on one dimension, two rungs each: four texts."""
    (tmp_path / "task.toml").write_text(TASK)
    table = write_lines(tmp_path / "questions.jsonl", ROWS)
    return f"build {table} --task-file {tmp_path}/task.toml --rungs 2 --out {tmp_path}/set"


def test_build_resumes_and_reports(command, tmp_path):
    folder = tmp_path / "set"
    done = command(f"build demo/story --out {folder} --rungs 3 --json")
    said = json.loads(done.out)
    assert said.pop("spent")[0]["calls"] == 24 * 3
    assert (done.code, said) == (0, {"folder": str(folder), "ladders": 24, "failed": 0})
    first = (folder / "ladders.jsonl").read_bytes()
    assert command(f"build demo/story --out {folder} --rungs 3").code == 0
    assert (folder / "ladders.jsonl").read_bytes() == first
    done = command(f"build demo/story --out {folder}")
    assert done.code == 2
    assert done.err.endswith(
        "build.journal.jsonl:1: this journal was begun by another build (other rungs); choose another folder, or "
        f"delete {folder}/build.journal.jsonl\n"
    )
    (folder / "build.journal.jsonl").unlink()
    assert command(f"build demo/story --out {folder}").code == 0
    assert len(read_lines(folder / "ladders.jsonl")[0]["rungs"]) == 5


def test_build_says_what_failed(command, tmp_path):
    rules = [{"role": "worst", "text": "Rain."}, {"role": "best", "error": "HTTP 503"}]
    writer = f"scripted:{write_lines(tmp_path / 'rules.jsonl', rules)}"
    asked = f"--dimension coherence --writer {writer} --attempts 1 --out {tmp_path}/set"
    done = command(f"build demo/story {asked}")
    assert done.code in {2, 3}
    assert "HTTP 503" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "table",
            "benchmark 'table' is your own data; give the path of your table instead of 'table'\n",
        ),
        (
            "table --source x.jsonl",
            "x.jsonl: a table of your own needs its task and dimensions; add --task-file TASK.toml\n",
        ),
        (
            "demo/story --column a=b",
            "--task-file and --column are for a table of your own, not 'demo/story'\n",
        ),
    ],
)
def test_own_needs_its_files(fails, words, message):
    assert fails(2, f"build {words} --out set") == f"refladder: {message}"


@pytest.mark.usefixtures("own")
def test_a_path_is_own_with_that_source(command, tmp_path):
    source, task = tmp_path / "questions.jsonl", f"--task-file {tmp_path}/task.toml"
    for name, words in (("one", source), ("two", f"table --source {source}")):
        made = f"build {words} {task} --writer builtin --rungs 2 --out {tmp_path}/{name}"
        assert command(made).code == 0
    for file in ("ladders.jsonl", "contexts.jsonl", "context_digests.jsonl", "dimensions.jsonl"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    digests = {
        refladder.build(
            data, task_file=tmp_path / "task.toml", writer="builtin", rungs=2, **more
        ).digest
        for data, more in ((source, {}), ("table", {"source": source}))
    }
    assert digests == {refladder.load_ladders(tmp_path / "one").digest}
    exported = command(f"export {source} {task}").out
    assert exported == command(f"export table --source {source} {task}").out != ""


def test_build_takes_the_columns_of_score(command, own, tmp_path):
    table = tmp_path / "questions.jsonl"
    write_lines(table, [{"question": row["context"], "reply": row["output"]} for row in ROWS])
    columns = f"{own} --writer builtin --column context=question --column"
    assert command(f"{columns} output=reply").code == 0
    assert "unknown field 'outptu'" in command(f"{columns} outptu=reply").err


@pytest.mark.parametrize("more", ["", "--dry-run", "--shared 1", "--certify"])
def test_a_table_needs_a_writer_and_nothing_is_written(own, tmp_path, fails, more):
    before = sorted(tmp_path.iterdir())
    assert fails(2, f"{own} {more}") == (
        "refladder: no writer is named for the ladders of your table. Name a model with --writer MODEL; give every "
        "rung as a text with --human TABLE; or build nothing, and score with a general set, such as `refladder score "
        "TABLE --ladders general/reply`\n"
    )
    assert sorted(tmp_path.iterdir()) == before


def test_the_builtin_writer_says_what_its_sentences_are(own, command, caplog, tmp_path):
    done = command(f"{own} --writer builtin")
    assert (done.code, done.err.count(STOCK)) == (0, 1)
    log.warn_once.cache_clear()  # as in a new process
    with caplog.at_level(logging.WARNING, logger="refladder"):
        refladder.build(ROWS, task="open", dimensions=[CLARITY], rungs=2, writer="builtin")
    assert STOCK in caplog.messages
    # A benchmark has the builtin baseline.
    done = command(f"build demo/story --rungs 2 --out {tmp_path}/story")
    assert (done.code, STOCK in done.err) == (0, False)
    assert '"writer": "builtin"' in (tmp_path / "story" / "run.json").read_text()


def test_human_texts_are_enough_if_they_are_all_of_them(own, tmp_path, command, fails):
    lines = [
        f"{context},clarity,{level},text {level} of {context}\n"
        for context in ("tides", "rain")
        for level in (1, 2)
    ]
    human = tmp_path / "human.csv"
    human.write_text(HUMAN + "".join(lines[:3]))
    assert "no writer is named" in fails(2, f"{own} --human {human}")
    human.write_text(HUMAN + "".join(lines))
    done = command(f"{own} --human {human}")
    assert (done.code, STOCK in done.err) == (0, False)
    ladders = refladder.load_ladders(tmp_path / "set").ladders.values()
    texts = [rung.text for each in ladders for rung in each.rungs]
    assert texts == [line.strip().split(",")[3] for line in lines]


def test_people_may_write_some_rungs(command, tmp_path):
    human = tmp_path / "human.csv"
    human.write_text(f"{HUMAN}story-01,coherence,5,My best story of the lighthouse.\n")
    asked = f"--dimension coherence --out {tmp_path}/set --human {human}"
    assert command(f"build demo/story {asked}").code == 0
    first = read_lines(tmp_path / "set" / "ladders.jsonl")[0]
    assert first["rungs"][4]["text"] == "My best story of the lighthouse."


NO_ROWS = ": no rows; human-written rungs need the columns context_id, dimension, level, text\n"
BLANK = ":1: a blank line; the first line of a CSV file names its columns\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rungs.jsonl", "", NO_ROWS),
        ("rungs.csv", "a,b\n", NO_ROWS),
        ("rungs.csv", "\n", BLANK),
        (
            "rungs.csv",
            f"{HUMAN}story-01,coherence,²,x\n",
            ":2: column 'level' must be int, found '²'\n",
        ),
        (
            "rungs.csv",
            "context_id,dimension,text\nstory-01,coherence,x\n",
            (
                ":2: no column 'level'; rungs need context_id, dimension, level, text. Columns there: "
                "context_id, dimension, text\n"
            ),
        ),
        (
            "rungs.csv",
            HUMAN + "story-01,coherence,5,x\n" * 2,
            ":3: level 5 of 'coherence' for context 'story-01' appears twice; keep one\n",
        ),
    ],
)
def test_a_table_of_human_rungs_that_is_wrong(fails, tmp_path, name, text, message):
    human = tmp_path / name
    human.write_text(text)
    told = fails(2, f"build demo/story --out {tmp_path}/set --human {human}")
    assert told == f"refladder: {human}{message}"
    assert not (tmp_path / "set").exists()
