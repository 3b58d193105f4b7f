"""A folder of scored files is read as the run wrote it: no row is lost or counted twice without a word."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from scored_folders import Inline, scored, split

LADDERS = "--ladders demo/story --dimension coherence"
READING = "--min coherence_score=-15"


@pytest.fixture(autouse=True)
def inline(monkeypatch):
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)


@pytest.fixture
def scoring(command, rows, tmp_path):
    """The command that scored 60 rows in three files, and the folder."""
    out = tmp_path / "out"
    line = f"score {split(rows(60), tmp_path / 'in', 20)} {LADDERS} --out {out}"
    assert command(line).code == 0
    return line, out


def test_a_file_that_is_missing_or_cut_is_refused_until_it_is_scored_again(command, fails, scoring):
    line, out = scoring
    reading = f"filter {out} {READING}"
    assert command(reading).err == "60 rows: 60 passed (100.0%), 0 rejected, 0 unscored (dropped)\n"
    file = out / "01.jsonl"
    whole = file.read_bytes()
    cut = whole[: whole.index(b"\n") + 1]
    file.write_bytes(cut)
    assert fails(2, reading) == (
        f"refladder: {file}: {len(cut):,} bytes, and its run wrote {len(whole):,}; run the same `refladder score` "
        "command again, which scores it again, or name the files to read with a quoted glob\n"
    )
    assert "(2 from earlier runs)" in command(line).err  # the cut file is scored again
    assert file.read_bytes() == whole
    file.unlink()
    missing = (
        f"refladder: {file}: this file of scored rows is missing; run the same `refladder score` command again, which "
        "scores it again\n"
    )
    assert fails(2, reading) == fails(2, f"rescore {out}") == missing
    counts = json.loads(command(f"{line} --json").out)
    # 20 rows x 5 rungs: none is asked again
    assert (counts["files"]["reused"], counts["reused"]) == (2, 100)
    assert file.read_bytes() == whole
    assert command(reading).code == 0


def test_a_changed_number_is_refused_until_its_file_is_scored_again(
    command, fails, scoring, tmp_path
):
    line, out = scoring
    file = out / "01.jsonl"
    whole = file.read_bytes()
    at = whole.index(b'"coherence_score":') + len('"coherence_score":')
    changed = bytearray(whole)
    changed[whole.index(b".", at) + 1] ^= 1  # another digit
    file.write_bytes(changed)
    text = fails(2, f"filter {out} {READING} --out {tmp_path}/kept.jsonl")
    assert text == (
        f"refladder: {file}: has the size that its run wrote and other content; run the same `refladder score` "
        "command again, which scores it again, or name the files to read with a quoted glob\n"
    )
    assert "(2 from earlier runs)" in command(line).err
    assert file.read_bytes() == whole
    assert command(f"filter {out} {READING}").code == 0


def test_a_folder_of_an_earlier_version_has_no_digests_and_is_read(command, scoring):
    line, out = scoring
    for path in (out / "run.json", *(out / "counts").iterdir()):
        text, count = re.subn(r',\s*"digest": ?"[0-9a-f]{32}"', "", path.read_text("utf-8"))
        assert count
        path.write_text(text, "utf-8")
    assert command(f"filter {out} {READING}").code == 0
    assert "3 files (3 from earlier runs)" in command(line).err


def test_one_source_may_be_written_in_several_ways(command, fails, rows, tmp_path, monkeypatch):
    split(rows(20), tmp_path / "in", 20)
    split(rows(20), tmp_path / "other", 20)
    monkeypatch.chdir(tmp_path)
    for out, spellings in (
        ("out", ("in", "in/", "./in", f"{tmp_path}/in", "other/../in")),
        ("globbed", ("'in/*.jsonl'", "'./in/*.jsonl'", f"'{tmp_path}/in/*.jsonl'")),
    ):
        assert command(f"score {spellings[0]} {LADDERS} --out {out}").code == 0
        for spelling in spellings:
            done = command(f"score {spelling} {LADDERS} --out {out}")
            assert "1 file (1 from earlier runs)" in done.err, done.err
        refused = fails(2, f"score other {LADDERS} --out {out}")
        assert "holds files of another run (other source)" in refused


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux")
def test_a_name_that_is_not_utf8_is_refused_before_anything_is_written(
    fails, rows, tmp_path, monkeypatch
):
    source = split(rows(20), tmp_path / "in", 20)
    odd = os.fsdecode(os.fsencode(source) + b"/caf\xe9.jsonl")
    (source / "00.jsonl").rename(odd)
    why = "the name is not UTF-8, and the records of {} hold it; rename the file or folder\n"
    text = fails(2, f"score {source} {LADDERS} --out {tmp_path}/out")
    assert (
        text
        == f"refladder: {source}/caf\N{REPLACEMENT CHARACTER}.jsonl: {why.format(tmp_path / 'out')}"
    )
    assert not (tmp_path / "out" / "run.json").exists()
    here = os.fsdecode(os.fsencode(tmp_path) + b"/d\xff")
    split(rows(20), Path(here), 20)
    monkeypatch.chdir(here)
    assert fails(2, f"score . {LADDERS} --out ../out").endswith(
        f"/d\N{REPLACEMENT CHARACTER}: {why.format('../out')}"
    )


def test_an_input_that_changed_is_refused_until_it_is_scored_again(
    command, fails, scoring, tmp_path
):
    line, out = scoring
    reading = f"filter {out} {READING}"
    source = tmp_path / "in" / "01.jsonl"
    lines = (
        source.read_text("utf-8").replace("It was day 31.", "And day 31.").splitlines(keepends=True)
    )
    source.write_text("".join(lines[:-1]), "utf-8")
    changed = (
        f"refladder: {source}: has changed since it was scored into {out}/01.jsonl; run the same `refladder score` "
        "command again, or name the files to read with a quoted glob\n"
    )
    assert fails(2, reading) == fails(2, f"rescore {out}") == changed
    assert command(f"filter '{out}/*.jsonl' {READING}").err.startswith("60 rows: 60 passed")
    done = command(line)
    assert "295 judgments (50 reused, 0 unparsed)" in done.err  # those before row 31
    assert "3 files (2 from earlier runs): 59 rows = 59 scored + 0 unscored\n" in done.err
    assert command(reading).err.startswith("59 rows: 59 passed")
    source.write_text("".join(lines[:-2]), "utf-8")
    assert "290 judgments (90 reused, 0 unparsed)" in command(line).err
    source.unlink()  # it may be gone, or be on another machine
    assert command(reading).err.startswith("58 rows: 58 passed")


def test_inputs_are_compared_by_the_path_that_their_run_had(command, rows, tmp_path, monkeypatch):
    for name, count in (("one", 20), ("other", 10)):
        (tmp_path / name).mkdir()
        split(rows(count), tmp_path / name / "in", 20)
    monkeypatch.chdir(tmp_path / "one")
    assert command(f"score in {LADDERS} --out out").code == 0
    monkeypatch.chdir(tmp_path / "other")  # which has another in/00.jsonl
    assert command(f"filter ../one/out {READING}").err.startswith("20 rows: 20 passed")


def test_ladders_of_other_contexts_are_refused_before_a_worker_starts(
    command, fails, rows, tmp_path
):
    source, out = split(rows(60), tmp_path / "in", 20), tmp_path / "out"
    wrong = f"score {source} --ladders demo/dialogue --out {out}"
    assert fails(2, wrong) == (
        f"refladder: {source}: no row has a ladder; there is none for context 'story-01', 'story-02', 'story-03', ... "
        "in demo/dialogue, which has 'dialogue-01', 'dialogue-02', 'dialogue-03', ...; name the right --ladders\n"
    )
    assert not (out / "run.json").exists()
    row = {"context_id": "dialogue-01", "output": "A reply."}
    (source / "02.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    done = command(wrong)  # a row of the last file has one
    assert done.err.endswith("3 files: 41 rows = 1 scored + 40 unscored\n")


def test_a_foreign_file_is_not_counted_or_replaced(command, fails, scoring, tmp_path):
    line, out = scoring
    inside, other = out / "kept.jsonl", tmp_path / "other"
    for refused, reader in ((f"filter {out} {READING}", "SOURCE"), (f"rescore {out}", "JUDGMENTS")):
        text = fails(2, f"{refused} --out {inside}")
        assert text.startswith(f"refladder: {inside}: ")
        among = f"would be among the files of {reader} the next time; choose another folder\n"
        assert text.endswith(among)
    inside.write_bytes((out / "00.jsonl").read_bytes())
    foreign = (
        f"refladder: {inside}: no scored file of this run (of another input, or of one that is gone); move it away, "
        "or name the files to read with a quoted glob\n"
    )
    assert fails(2, f"filter {out} {READING}") == fails(2, line) == foreign
    inside.unlink()
    (out / "notes.txt").write_text("no table", "utf-8")
    assert command(f"filter {out} {READING}").code == 0
    other.mkdir()
    (other / "00.jsonl").write_text("{}\n", "utf-8")
    assert fails(2, f"{line.removesuffix(str(out))}{other}") == (
        f"refladder: {other}/00.jsonl: not written by this run, which would replace it; move it away, or choose "
        "another --out\n"
    )
    assert (other / "00.jsonl").read_text("utf-8") == "{}\n"


def test_an_input_that_is_gone_is_named_by_its_output(command, fails, scoring, tmp_path):
    line, out = scoring
    (tmp_path / "in" / "02.jsonl").unlink()
    assert fails(2, line).startswith(f"refladder: {out}/02.jsonl: no scored file of this run")
    (out / "02.jsonl").unlink()
    done = command(line)
    assert "2 files (2 from earlier runs): 40 rows = 40 scored + 0 unscored\n" in done.err
    assert sorted(path.name for path in (out / "judgments").iterdir()) == ["00.jsonl", "01.jsonl"]
    assert command(f"filter {out} {READING}").err.startswith("40 rows: 40 passed")


def test_a_table_is_not_written_among_the_files_that_are_read(command, fails, rows, tmp_path):
    data, plain = split(rows(3), tmp_path / "x[1]", 3), split(rows(3), tmp_path / "plain", 3)
    (data / "00.jsonl").rename(data / "a[2].jsonl")
    for source, out in ((data, data / "a2.jsonl"), (f"'{plain}/*.jsonl'", plain / "a2.jsonl")):
        among = "--out would be among the files of SOURCE the next time; choose another folder"
        refused = fails(2, f"score {source} {LADDERS} --out {out}")
        assert refused == f"refladder: {out}: {among}\n"
        assert not out.exists()
    done = command(f"score {data}/a[2].jsonl {LADDERS} --out {data}/a2.jsonl")
    assert done.code == 0  # a file beside the file


def test_rescore_refuses_a_folder_without_the_judgments_of_a_file(
    command, fails, scoring, tmp_path
):
    line, out = scoring
    (out / "judgments" / "01.jsonl").unlink()
    assert "(3 from earlier runs)" in command(line).err  # all are scored, so nothing is asked
    rescoring = f"rescore {out} --out {tmp_path}/rescored.jsonl"
    assert fails(2, rescoring) == (
        f"refladder: {out}/01.jsonl: the judgments of this file are missing; delete this file, and run the same "
        "`refladder score` command again, which asks the judge about its rows again\n"
    )
    (out / "01.jsonl").unlink()
    assert command(line).code == 0
    assert command(rescoring).err.startswith("60 rows, 0 scores missing; 300 judgments")


def test_a_scored_folder_is_refused_where_one_table_is_needed(fails, scoring, tmp_path):
    _, out = scoring
    assert fails(2, f"review {out} --html {tmp_path}/page.html") == (
        f"refladder: {out}: a folder of scored files; give one of its tables, such as {out}/00.jsonl\n"
    )


def test_a_wrong_column_is_refused_before_a_worker_starts_and_can_be_mended(
    command, fails, rows, tmp_path, monkeypatch
):
    renamed = [{**row, "text": row["output"]} for row in rows(60)]
    source, out = split(renamed, tmp_path / "in", 20), tmp_path / "out"
    line = f"score {source} {LADDERS} --out {out}"

    def no_worker(*_arguments, **_named):
        raise AssertionError("a worker was started")

    with monkeypatch.context() as patched:
        patched.setattr("refladder.many_files.workers.Processes", no_worker)
        text = fails(2, f"{line} --column output=txt")
    assert text == (
        f"refladder: {source}/00.jsonl:1: no column 'txt' for the output; did you mean --column output=text? Columns "
        f"there: {', '.join([*rows(1)[0], 'text'])}. Map one with --column output=NAME\n"
    )
    done = command(f"{line} --column output=text")
    assert done.err.endswith("3 files: 60 rows = 60 scored + 0 unscored\n")
    assert json.loads((out / "run.json").read_bytes())["settings"]["columns"] == {"output": "text"}
    assert "holds files of another run (other columns)" in fails(2, line)


def test_fewer_files_than_workers_are_said(command, scoring):
    line, out = scoring
    (out / "00.jsonl").unlink()
    done = command(f"{line} --workers 2")
    assert done.err.startswith("only 1 file to score for 2 workers\n")


def test_no_advice_to_run_the_same_command_again_where_it_would_fail_again(fails, rows, tmp_path):
    source = split([{**row, "coherence_score": 1} for row in rows(60)], tmp_path / "in", 60)
    text = fails(2, f"score {source} {LADDERS} --out {tmp_path}/out")
    taken = "column 'coherence_score' exists already; rename or drop it first\n"
    assert text.endswith(f"refladder: {source}/00.jsonl: {taken}")


def test_the_scored_rows_are_no_input_of_the_next_run(command, fails, rows, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    part = split(rows(60), data / "part", 20)
    line = f"score '{data}/**/*.jsonl' {LADDERS} --out {data}/scored"
    counts = "60 rows = 60 scored + 0 unscored\n"
    assert command(line).err.endswith(f"\n3 files: {counts}")
    assert command(line).err.endswith(f"\n3 files (3 from earlier runs): {counts}")
    assert fails(2, f"score {part} {LADDERS} --out {part}") == (
        f"refladder: {part}: SOURCE and --out must be different files\n"
    )
    assert fails(2, f"score '{part}/*.jsonl' {LADDERS} --out {part}") == (
        f"refladder: {part}/*.jsonl: its files are in {part}, the folder of the scored rows; name another --out\n"
    )
    assert not (part / "run.json").exists()


def test_rescore_of_scored_rows_names_their_judgments(command, fails, write_jsonl, rows, tmp_path):
    out = tmp_path / "scored.jsonl"
    assert command(f"score {write_jsonl(rows(3))} {LADDERS} --out {out}").code == 0
    there = f"scored rows; their judgments are in {out}.judgments.jsonl"
    assert fails(2, f"rescore {out}") == f"refladder: {out}: {there}\n"


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    """A student of the builtin judge's scores."""
    from refladder.commands.main import run

    folder = tmp_path_factory.mktemp("students")
    for line in (
        f"export demo/story --out {folder}/outputs.jsonl",
        f"score {folder}/outputs.jsonl {LADDERS} --out {folder}/scored.jsonl",
        f"distil {folder}/scored.jsonl --by coherence_score --out {folder}/student",
    ):
        assert run(line.split()) == 0
    return folder / "student"


def test_a_student_gives_files_the_rows_and_counts_of_one_process(
    command, fails, rows, student, tmp_path
):
    source = split(rows(1200), tmp_path / "in", 1100)
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out"
    line = f"score {source} --judge distilled:{student} --ladders demo/story --out"
    counts = json.loads(command(f"{line} {whole} --json").out)
    assert counts["rows"] == 1200  # more than a student reads at a time
    done = command(f"{line} {out}")
    assert done.code == 0
    assert done.err.endswith("2 files: 1,200 rows = 1,200 scored + 0 unscored\n")
    found, expected = (
        list(map(json.loads, data.splitlines())) for data in (scored(out), whole.read_bytes())
    )
    for row, other in zip(found, expected, strict=True):
        value = other.pop("coherence_score")
        assert row.pop("coherence_score") == pytest.approx(value, abs=1e-12)
        assert row == other
    assert not (out / "judgments").exists()
    text = fails(2, f"{line} {out} --rule hard-votes")
    assert "asks no model, and --rule is for asking one" in text


def test_another_student_is_another_run(command, fails, rows, student, tmp_path):
    source, other = split(rows(6), tmp_path / "in", 3), tmp_path / "student"
    line = f"score {source} --ladders demo/story --out {tmp_path}/out --judge distilled:"
    assert command(f"{line}{student}").code == 0
    other.mkdir()
    for path in student.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    assert command(f"{line}{other}").code == 0  # the same student in another folder
    record = json.loads((other / "student.json").read_text())
    (other / "student.json").write_text(json.dumps({**record, "half_width": 1.0}))
    assert "holds files of another run (other student)" in fails(2, f"{line}{other}")
