"""A folder of scored shards is read as the run wrote it: no row is lost or counted twice without a word."""

from __future__ import annotations

import json

import pytest
from shard_folders import Inline

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")


@pytest.fixture
def scoring(command, rows, tmp_path, monkeypatch):
    """The command that scored 60 rows in three shards, and the folder."""
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(60)), "utf-8")
    arguments = ("score", source, *LADDERS, "--out", out, "--shard-rows", "20")
    assert command(*arguments).code == 0
    return arguments, out


def test_a_changed_shard_is_refused_until_it_is_scored_again(command, fails, scoring, tmp_path):
    arguments, out = scoring
    reading = ("filter", out, "--min", "coherence_score=-15", "--out", tmp_path / "kept.jsonl")
    assert command(*reading).err == "60 rows: 60 passed (100.0%), 0 rejected, 0 unscored (dropped)\n"
    shard = out / "in-00001.jsonl"
    whole = shard.read_bytes()
    for changed in (whole[: whole.index(b"\n") + 1], whole.replace(b'score": ', b'score":1', 1)):
        shard.write_bytes(changed)
        assert fails(2, *reading) == (
            f"refladder: {shard}: this scored shard has changed since it was written; run the same `refladder score` "
            "command again, which scores it again, or name the files to read with a quoted glob\n"
        )
    assert command(*arguments).code == 0
    assert shard.read_bytes() == whole
    assert command(*reading).code == 0


def test_a_shard_that_vanished_is_missed_with_the_manifest_alone(command, fails, scoring):
    _, out = scoring
    reading = ("filter", out, "--min", "coherence_score=-15")
    (out / ".refladder" / "plan.json").unlink()  # as in a copy of the rows and their manifest
    assert command(*reading).code == 0
    (out / "in-00002.jsonl").unlink()
    text = fails(2, *reading)
    assert text.startswith(f"refladder: {out}/in-00002.jsonl: this scored shard has vanished; run the same `refladder")


def test_a_table_beside_the_shards_is_not_counted_with_them(command, fails, scoring):
    _, out = scoring
    reading = ("filter", out, "--min", "coherence_score=-15")
    inside = out / "kept.jsonl"
    for refused, reader in (
        ((*reading, "--out", inside), "SOURCE"),
        (("rescore", out, "--out", inside), "JUDGMENTS"),
    ):
        assert f"refladder: {inside}: " in (text := fails(2, *refused))
        assert text.endswith(f"would be among the files of {reader} the next time; choose another folder\n")
    inside.write_bytes((out / "in-00000.jsonl").read_bytes())
    assert fails(2, *reading) == (
        f"refladder: {inside}: no scored shard of this folder; move it away, or name the files to read with a quoted "
        "glob\n"
    )
    inside.unlink()
    (out / "notes.txt").write_text("no table", "utf-8")
    assert command(*reading).code == 0


def test_a_table_is_not_written_among_the_files_that_are_read(command, fails, rows, tmp_path):
    data = tmp_path / "x[1]"
    data.mkdir()
    (data / "a[2].jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(3)), "utf-8")
    out = data / "a2.jsonl"
    refused = f"refladder: {out}: --out would be among the files of SOURCE the next time; choose another folder\n"
    assert fails(2, "score", data, *LADDERS, "--out", out) == refused
    assert not out.exists()
    assert command("score", data / "a[2].jsonl", *LADDERS, "--out", out).code == 0  # a file beside the file
    plain = tmp_path / "plain"
    plain.mkdir()
    (data / "a[2].jsonl").rename(plain / "a.jsonl")
    out = plain / "a2.jsonl"
    refused = f"refladder: {out}: --out would be among the files of SOURCE the next time; choose another folder\n"
    assert fails(2, "score", plain / "*.jsonl", *LADDERS, "--out", out) == refused


@pytest.mark.parametrize("again", [False, True])
def test_rescore_refuses_a_folder_without_the_judgments_of_a_shard(command, fails, scoring, tmp_path, again):
    arguments, out = scoring
    (judgments,) = (out / ".refladder" / "judgments").glob("in-00001-*.jsonl")
    judgments.unlink()
    if again:  # every shard is scored, so nothing is asked
        assert "(3 from earlier runs)" in command(*arguments).err
    rescoring = ("rescore", out, "--out", tmp_path / "rescored.jsonl")
    assert fails(2, *rescoring) == (
        f"refladder: {out}/in-00001.jsonl: the judgments of this shard are missing; delete this file, and run the same "
        "`refladder score` command again, which asks the judge about its rows again\n"
    )
    (out / "in-00001.jsonl").unlink()
    assert command(*arguments).code == 0
    assert command(*rescoring).err.startswith("60 rows, 0 scores missing; 300 judgments")


def test_a_folder_of_shards_is_refused_where_one_table_is_needed(fails, scoring, tmp_path):
    _, out = scoring
    assert fails(2, "review", out, "--html", tmp_path / "page.html") == (
        f"refladder: {out}: a folder of scored shards; give one of its tables, such as {out}/in-00000.jsonl\n"
    )
    publishing = ("publish", "demo/story", "ORG/NAME", "--dry-run", "--with", "scores", "--scores", out)
    assert fails(2, *publishing) == (
        f"refladder: {out}: a folder; score into one file, such as --out scored.jsonl, to publish it\n"
    )


def test_a_wrong_column_is_refused_before_a_worker_starts_and_can_be_mended(
    command, fails, rows, tmp_path, monkeypatch
):
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text("".join(json.dumps({**row, "text": row["output"]}) + "\n" for row in rows(60)), "utf-8")
    arguments = ("score", source, *LADDERS, "--out", out, "--shard-rows", "20")

    def no_worker(*_arguments, **_named):
        raise AssertionError("a worker was started")

    with monkeypatch.context() as patched:
        patched.setattr("refladder.fleet.workers.Processes", no_worker)
        text = fails(2, *arguments, "--column", "output=txt")
    assert text == (
        f"refladder: {source}:1: no column 'txt' for the output; did you mean --column output=text? Columns there: "
        f"{', '.join([*rows(1)[0], 'text'])}. Map one with --column output=NAME\n"
    )
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    done = command(*arguments, "--column", "output=text")
    assert done.err.endswith("3 shards: 60 rows = 60 scored + 0 unscored\n")
    plan = json.loads((out / ".refladder" / "plan.json").read_bytes())
    assert plan["settings"]["columns"] == {"output": "text"}
    assert "holds shards of another run (other columns)" in fails(2, *arguments)


def test_a_file_name_is_no_folder_of_shards(command, fails, scoring, tmp_path, monkeypatch):
    arguments, out = scoring
    monkeypatch.undo()  # real workers
    at = arguments.index(out)
    table = tmp_path / "scored.jsonl"
    assert fails(2, *arguments[:at], table, *arguments[at + 1 :]) == (
        f"refladder: {table}: the name of a file, and shards need a folder; name one, such as {tmp_path}/scored\n"
    )
    done = command(*arguments[:at], tmp_path / "few", "--shard-rows", "60", "--workers", "2")
    assert done.err.startswith("only 1 shard for 2 workers; for more shards, give a smaller --shard-rows\n")


def test_no_advice_to_run_the_same_command_again_where_it_would_fail_again(fails, rows, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({**row, "coherence_score": 1}) + "\n" for row in rows(60)), "utf-8")
    assert fails(2, "score", source, *LADDERS, "--out", tmp_path / "out").endswith(
        f"refladder: {source}: column 'coherence_score' exists already; rename or drop it first\n"
    )


def test_the_scored_rows_are_no_input_of_the_next_run(command, fails, rows, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    data = tmp_path / "data"
    (data / "part").mkdir(parents=True)
    (data / "part" / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(60)), "utf-8")
    arguments = ("score", data / "**" / "*.jsonl", *LADDERS, "--out", data / "scored", "--shard-rows", "20")
    assert command(*arguments).err.endswith("\n3 shards: 60 rows = 60 scored + 0 unscored\n")
    assert command(*arguments).err.endswith("\n3 shards (3 from earlier runs): 60 rows = 60 scored + 0 unscored\n")

    part = data / "part"
    assert fails(2, "score", part, *LADDERS, "--out", part) == (
        f"refladder: {part}: SOURCE and --out must be different files\n"
    )
    assert fails(2, "score", part / "*.jsonl", *LADDERS, "--out", part) == (
        f"refladder: {part}/*.jsonl: its files are in {part}, the folder of the scored rows; name another --out\n"
    )
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.jsonl").write_text("{}\n", "utf-8")
    assert "notes.jsonl: no shard of this input" in fails(2, "score", part, *LADDERS, "--out", other)
    for folder in (part, other):  # neither is one of scored shards by now
        assert not (folder / ".refladder" / "plan.json").exists()
    assert command("score", part, *LADDERS, "--out", tmp_path / "out").code == 0


def test_rescore_of_scored_rows_names_their_judgments(command, fails, rows, tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "scored.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows(3)), "utf-8")
    assert command("score", source, *LADDERS, "--out", out).code == 0
    assert fails(2, "rescore", out) == f"refladder: {out}: scored rows; their judgments are in {out}.judgments.jsonl\n"
