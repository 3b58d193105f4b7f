"""Many files: no row is lost or doubled, whatever is killed, and the rows are those of one process."""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import signal
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scored_folders import RUNGS, Inline, leftovers, scored, split, worker_of
from slow_judge import installed
from waiting import HANG, until

from refladder.backends.builtin import Builtin
from refladder.commands.main import run as run_command
from refladder.errors import DataError
from refladder.files.folders import open_folder
from refladder.files.locks import has_ended
from refladder.files.scored_folders import stamp
from refladder.many_files import run as run_module
from refladder.many_files.run import list_files, merged
from refladder.records import IMPOSSIBLE, LabelReading
from refladder.scoring.score_report import ScoreReport

LADDERS = "--ladders demo/story --dimension coherence"
DAMAGED = (
    "run.json: missing or damaged; delete it, counts/ and the scored files beside it, and run the same "
    "`refladder score` command again, which reuses judgments/"
)


@pytest.fixture
def inline(monkeypatch):
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)


@pytest.fixture
def inputs(tmp_path, rows):
    """240 rows in six files."""
    return split(rows(240), tmp_path / "in", 40)


@pytest.fixture(scope="module")
def made(tmp_path_factory, rows):
    """The same input, its rows scored by one process, and as a folder of scored files."""
    folder = tmp_path_factory.mktemp("made")
    source, whole, out = split(rows(240), folder / "in", 40), folder / "whole.jsonl", folder / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refladder.many_files.workers.Processes", Inline)
        for written in (whole, out):
            line = ["score", str(source), *LADDERS.split(), "--out", str(written)]
            assert run_command(line) == 0
    return source, whole, out


@pytest.fixture
def whole(made):
    return made[1]


@pytest.fixture
def finished(made, tmp_path):
    """The line that made a folder of scored files, and a copy of the folder to change."""
    out = shutil.copytree(made[2], tmp_path / "out")
    return f"score {made[0]} {LADDERS} --out {out}", out


def run_of(folder):
    return json.loads((folder / "run.json").read_bytes())


def replace_in(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_a_folder_holds_the_rows_of_one_process_and_readers_take_it(
    command, inputs, whole, tmp_path
):
    out = tmp_path / "out"
    line = f"score {inputs} {LADDERS} --out {out}"
    done = command(f"{line} --workers 2")
    assert done.code == 0
    assert done.err.endswith("6 files: 240 rows = 240 scored + 0 unscored\n")
    assert done.err.count("judge check, best rung against the worst") == 1
    assert scored(out) == whole.read_bytes()
    assert leftovers(out) == []
    run = run_of(out)
    found = [
        (file["name"], file["rows"], file["scored"], file["unscored"]) for file in run["files"]
    ]
    assert found == [(f"{number:02d}.jsonl", 40, 40, 0) for number in range(6)]
    for file in run["files"]:
        assert file["stamp"] == stamp(str(inputs / file["name"]))
        assert file["bytes"] == (out / file["name"]).stat().st_size
        assert (out / "judgments" / file["name"]).exists()
    assert "backend:builtin/1" in run["signature"]

    best = [command(f"filter {table} --top 0.1 --by coherence_score") for table in (out, whole)]
    assert best[0].out == best[1].out
    votes = [
        command(f"rescore {judgments} --rule hard-votes")
        for judgments in (out, f"{whole}.judgments.jsonl")
    ]
    assert votes[0].out == votes[1].out

    again = json.loads(command(f"{line} --json").out)
    counts = {"files": 6, "reused": 6, "missing": 0, "rows": 240, "scored": 240, "unscored": 0}
    assert again["files"] == counts


@pytest.fixture
def varying(monkeypatch):
    """Let `builtin` say another thing each time; the prompts that it was asked."""
    draws, asked = np.random.default_rng(0), []

    def read_labels(_judge, prompts, labels):
        assert list(labels) == ["1", "2", "3", "4", "5"]
        asked.extend(prompts)
        readings = []
        for prompt in prompts:
            # Longer texts are better, with noise; 2 of 3 digits are possible.
            high = min(len(prompt.slots["target"]) / 1000, 0.9) + draws.uniform(0, 0.1)
            shares = [math.log(each) for each in (1 - high, high)]
            logprobs = (shares[0], *[IMPOSSIBLE] * 3, shares[1])
            readings.append(LabelReading(logprobs=logprobs, mass=1.0))
        # The first rung that is rated is unparsed; it is not asked again for each file.
        if len(asked) == len(prompts):
            readings[0] = LabelReading(reason="mumbled")
        return readings

    monkeypatch.setattr(Builtin, "read_labels", read_labels)
    return asked


@pytest.mark.usefixtures("inline")
def test_files_share_the_ratings_of_the_rungs_of_a_judge_that_says_another_thing_each_time(
    command, inputs, tmp_path, varying
):
    asked, out = varying, tmp_path / "out"
    line = f"score {inputs} {LADDERS} --answers rating --any-judge --out {out}"
    assert command(line).code == 0
    # The five rungs of 12 ladders, of which the check takes the best and the worst, and the rows.
    assert len(asked) == 60 + 240
    run = run_of(out)
    assert len(run["rung_judgments"]) == 60
    rows = [json.loads(line) for line in scored(out).splitlines()]
    assert {row["signature"] for row in rows} == {run["signature"]}
    assert "|place:beaten|" in run["signature"]
    assert None not in {row["coherence_grade"] for row in rows}
    of_rungs = {
        b"".join(path.read_bytes().splitlines()[1:61]) for path in (out / "judgments").iterdir()
    }
    assert len(of_rungs) == 1
    again = [json.loads(line) for line in command(f"rescore {out}").out.splitlines()]
    assert [row["coherence_grade"] for row in again] == [row["coherence_grade"] for row in rows]
    assert len(run["rung_ratings"]) == 60
    assert 0 < run["grade_error"]["coherence"] < 1
    # A file that is scored later has them too.
    for path in ("03.jsonl", "judgments/03.jsonl"):
        (out / path).unlink()
    assert command(line).code == 0
    assert len(asked) == 24 + 60 + 240 + 40
    assert run_of(out)["signature"] == run["signature"]


@pytest.mark.usefixtures("inline")
@pytest.mark.usefixtures("varying")
def test_parts_of_a_run_share_the_ratings_of_the_rungs(
    command, fails, inputs, tmp_path, monkeypatch
):
    out, real = tmp_path / "out", run_module.read_run
    line = f"score {inputs} {LADDERS} --answers rating --any-judge --out {out} --shard"
    assert command(f"{line} 1/2").code == 0
    first = run_of(out)["rung_judgments"]
    # The second part began before the first had its ratings of the rungs.
    reads = iter([None])
    monkeypatch.setattr(run_module, "read_run", lambda folder: next(reads, real(folder)))
    assert command(f"{line} 2/2").code == 0
    assert run_of(out)["rung_judgments"] == first
    of_rungs = {
        b"".join(path.read_bytes().splitlines()[1:61]) for path in (out / "judgments").iterdir()
    }
    assert len(of_rungs) == 1
    # Readings that differ all the same are refused.
    (out / "05.jsonl").unlink()
    reading = '"rating":'
    counts = out / "counts" / "02.jsonl.json"
    text = counts.read_text()
    where = text.index(reading, text.index('"rung_ratings"')) + len(reading)
    counts.write_text(f"{text[:where]}4.5{text[text.index('}', where) :]}")
    message = (
        "02.jsonl: its grades are by another reading of the rungs than those of 00.jsonl; delete this file and run the "
        "same command again"
    )
    assert message in fails(2, f"{line} 2/2")


@pytest.mark.usefixtures("inline")
def test_an_output_folder_needs_no_other_option(command, fails, inputs, whole, tmp_path):
    line = f"score {inputs} {LADDERS} --out"
    (tmp_path / "of.rows").mkdir()
    for out in (tmp_path / "of.rows", f"{tmp_path}/more.rows/"):
        assert "\n6 files: 240 rows = 240 scored + 0 unscored\n" in command(f"{line} {out}").err
    single = command(f"score {inputs}/00.jsonl {LADDERS} --out {tmp_path}/single")
    assert single.err.endswith("1 file: 40 rows = 40 scored + 0 unscored\n")
    file = tmp_path / "rows"
    assert command(f"{line} {file} --out-format jsonl").code == 0
    assert file.read_bytes() == whole.read_bytes()
    for options in ("", "--workers 2"):  # `file:` would be a folder of this machine
        text = fails(2, f"{line} file://{tmp_path}/url.jsonl {options}")
        assert "url.jsonl: at a URL, scored rows are written as a folder; name a" in text
    text = fails(2, f"{line} {tmp_path}/rows.txt")
    assert "rows.txt: unknown file extension; use .jsonl, .csv or .parquet" in text


@pytest.mark.usefixtures("inline")
def test_an_output_is_named_like_its_input(command, tmp_path, rows):
    data, out = tmp_path / "data", tmp_path / "out"
    names = ["c.jsonl", "x/a.jsonl", "x/deep/b.jsonl"]
    for name in names:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(row) + "\n" for row in rows(3, len(name))]
        (data / name).write_text("".join(lines), "utf-8")
    assert command(f"score '{data}/**/*.jsonl' {LADDERS} --out {out}").code == 0
    assert [file["name"] for file in run_of(out)["files"]] == names
    ids = [row["output_id"] for row in command(f"filter {out} --min coherence_score=-99").rows]
    assert ids == [row["output_id"] for name in names for row in rows(3, len(name))]
    assert leftovers(out) == []
    assert command(f"rescore {out}").code == 0


@pytest.mark.usefixtures("inline")
def test_each_format_is_read_and_parquet_keeps_its_types(command, tmp_path, rows):
    table = pa.Table.from_pylist(rows(60)).append_column("day", pa.array([None] * 60, pa.date32()))
    folders = {name: tmp_path / name for name in ("parquet", "csv", "gz")}
    for folder in folders.values():
        folder.mkdir()
    for number in (0, 1):
        part = table.slice(30 * number, 30)
        parquet.write_table(part, folders["parquet"] / f"{number}.parquet")
        text = "".join(json.dumps(row) + "\n" for row in rows(30, 1 + 30 * number))
        (folders["gz"] / f"{number}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        part.to_pandas().to_csv(folders["csv"] / f"{number}.csv", index=False)
    for name, folder in folders.items():
        outs = tmp_path / f"{name}-out", tmp_path / f"one.{name.replace('gz', 'jsonl')}"
        best = []
        for out in outs:
            assert command(f"score {folder} {LADDERS} --out {out}").code == 0
            best.append(command(f"filter {out} --min coherence_score=0 --out-format jsonl").out)
        assert best[0] == best[1]
    parts = [parquet.read_table(tmp_path / f"parquet-out/{number}.parquet") for number in (0, 1)]
    assert pa.concat_tables(parts).equals(parquet.read_table(tmp_path / "one.parquet"))
    found = sorted(path.name for path in (tmp_path / "gz-out").glob("*.*"))
    assert found == ["0.jsonl", "1.jsonl", "run.json"]


@pytest.fixture
def start(process, inputs, tmp_path):
    """Start a run with the judge `slow`, whose workers wait at their second call while `hold` exists."""
    environment, hold = installed(tmp_path / "installed")
    started = []

    def go(*arguments, held=True, source=inputs):
        if held:
            hold.touch()
        out = tmp_path / "out"
        line = f"score {source} {LADDERS} --judge slow --out {out}".split()
        started.append(process(*line, *arguments, env=environment))
        return started[-1], out, hold

    yield go
    for run in started:
        run.kill()
        run.communicate()


def same_scores(out, whole):
    """Whether a folder has the rows of one process, with their scores, in their order."""
    lists = [
        [(row["output_id"], row["coherence_score"]) for row in map(json.loads, data.splitlines())]
        for data in (scored(out), whole.read_bytes())
    ]
    return lists[0] == lists[1]


def test_killed_workers_and_a_killed_driver_cost_no_row(start, inputs, whole, fails):
    def at_work():
        """Return the processes that hold a file; a lock stays until another worker takes the file."""
        found = []
        for lock in out.glob(".work/.*.lock"):
            with suppress(OSError, ValueError):
                found.append(json.loads(lock.read_bytes())["process"])
        return [process for process in found if not has_ended(process)]

    def kill_worker(name):
        """Kill the worker of a file, and wait until another worker has scored it."""
        os.kill(worker_of(out, name, run), signal.SIGKILL)
        until((out / name).exists, run)

    died = b"the worker died (1 of at most 3 times); another worker scores it"
    run, out, hold = start("--workers", "2")
    worker_of(out, "00.jsonl", run)
    another = fails(2, f"score {inputs} {LADDERS} --out {out} --workers 1")
    assert f"out: process {run.pid} on host" in another
    kill_worker("00.jsonl")
    workers = until(at_work)
    run.kill()
    _, err = run.communicate()
    assert b"00.jsonl: " + died in err
    until(lambda: all(map(has_ended, workers)))
    text = fails(2, f"filter {out} --min n=0")
    assert "out: not all of its files are scored yet; run the same" in text

    run, _, _ = start("--workers", "2", "--json")
    kill_worker("02.jsonl")
    hold.unlink()
    told, err = run.communicate(timeout=HANG)
    assert run.returncode == 0, err
    assert b"02.jsonl: " + died in err
    assert json.loads(told)["reused"] >= 80  # at least one file had stored its first 16 rows
    assert same_scores(out, whole)
    assert sum(file["rows"] for file in run_of(out)["files"]) == 240
    assert leftovers(out) == []


def test_a_row_that_kills_or_breaks_the_judge_fails_its_file_alone(start, inputs):
    replace_in(inputs / "04.jsonl", "day 180.", "KILL")
    replace_in(inputs / "05.jsonl", "day 220.", "FAULT")
    run, out, _ = start("--workers", "1", held=False)
    _, err = run.communicate(timeout=HANG)
    assert run.returncode == 2
    told = err.decode()
    assert told.count("04.jsonl: the worker died (") == 2  # and another worker scored it
    assert "04.jsonl: the worker died 3 times; not tried again" in told
    assert "04.jsonl: the worker died 3 times; check its memory and its judge" in told
    error = "backend 'slow' (slow_judge:open_slow) raised ZeroDivisionError: a fault of the judge"
    assert f"05.jsonl: {error} (slow_judge.py:" in told
    assert "out: 2 files failed: " in told
    assert len(scored(out).splitlines()) == 160
    assert run_of(out)["files"][0]["rows"] is None


@pytest.mark.usefixtures("inline")
def test_a_poisoned_row_fails_its_file_alone_and_is_read_again_when_mended(
    command, fails, inputs, whole, tmp_path
):
    poisoned, out = inputs / "01.jsonl", tmp_path / "out"
    good = poisoned.read_bytes()
    lines = good.splitlines(keepends=True)
    lines[33] = b'{"output": 5}\n'
    poisoned.write_bytes(b"".join(lines))
    line = f"score {inputs} {LADDERS} --out {out}"
    text = fails(2, line)
    failed = f"1 file failed: {poisoned}:34: column 'output' must be a string, found 5"
    assert f"refladder: {out}: {failed}" in text
    assert text.endswith("5 scored files kept, and the same command continues\n")
    poisoned.write_bytes(good)
    done = command(line)
    assert done.err.endswith("6 files (5 from earlier runs): 240 rows = 240 scored + 0 unscored\n")
    assert scored(out) == whole.read_bytes()


@pytest.mark.usefixtures("inline")
def test_a_changed_input_is_scored_again(command, inputs, tmp_path, rows):
    out = tmp_path / "out"
    line = f"score {inputs} {LADDERS} --out {out} --json"
    assert command(line).code == 0
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.jsonl")}
    with (inputs / "03.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({**rows(1, 2001)[0], "output_id": "new"}) + "\n")
    told = json.loads(command(line).out)
    # of the 41 rows of the file, 40 keep their 5 judgments
    assert (told["files"]["reused"], told["files"]["rows"], told["reused"]) == (5, 241, 200)
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("*.jsonl")}
    assert {name for name in before if before[name] != after[name]} == {"03.jsonl"}
    assert json.loads((out / "03.jsonl").read_bytes().splitlines()[-1])["output_id"] == "new"


@pytest.mark.usefixtures("inline")
def test_an_input_that_changes_during_the_run_has_failed(fails, inputs, tmp_path, monkeypatch):
    stamps = iter(["now", "later"])
    monkeypatch.setattr("refladder.many_files.run.stamp", lambda _path: next(stamps))
    text = fails(2, f"score {inputs}/00.jsonl {LADDERS} --out {tmp_path}/out")
    changed = "the file has changed during the run; run the same command again"
    assert f"{inputs}/00.jsonl: {changed}" in text
    assert not list(tmp_path.glob("out/*.jsonl"))


@pytest.mark.usefixtures("inline")
def test_a_file_whose_contexts_all_lack_a_ladder_ends_unscored(
    command, write_jsonl, rows, tmp_path
):
    source, out, one = (
        split(rows(40), tmp_path / "in", 20),
        tmp_path / "out",
        tmp_path / "one.jsonl",
    )
    lines = [{**row, "context_id": "elsewhere"} for row in rows(20, 41)]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines)
    (source / "02.jsonl").write_text(text, "utf-8")
    done = command(f"score {source} {LADDERS} --out {out}")
    assert done.code == 3
    assert done.err.endswith("3 files: 60 rows = 40 scored + 20 unscored\n")
    assert [file["unscored"] for file in run_of(out)["files"]] == [0, 0, 20]
    assert command(f"score {write_jsonl(rows(40) + lines)} {LADDERS} --out {one}").code == 3
    assert scored(out) == one.read_bytes()
    notes = [json.loads(line)["coherence_note"] for line in scored(out).splitlines()]
    assert notes[:40] == [None] * 40
    assert all("no coherence ladder for context" in note for note in notes[40:])
    assert command(f"rescore {out}").code == 0


@pytest.mark.usefixtures("inline")
def test_parts_of_a_cluster_job_fill_one_folder(command, fails, inputs, whole, tmp_path):
    out = tmp_path / "out"
    line = f"score {inputs} {LADDERS} --out {out} --shard"
    done = command(f"{line} 2/4")  # the second and the sixth file
    counts = "2 files: 80 rows = 80 scored + 0 unscored"
    assert done.err.endswith(f"{counts}\n{out}: not scored yet: 4 files of other parts\n")
    assert sorted(path.name for path in out.glob("*.jsonl")) == ["01.jsonl", "05.jsonl"]
    assert "not all of its files are scored yet" in fails(2, f"rescore {out}")
    for part in ("4/4", "1/4", "3/4"):
        assert command(f"{line} {part}").code == 0
    assert scored(out) == whole.read_bytes()
    assert sum(file["rows"] for file in run_of(out)["files"]) == 240


@pytest.mark.usefixtures("inline")
def test_another_run_in_the_same_folder_is_refused(command, fails, inputs, tmp_path, request):
    out, prompts, other = tmp_path / "out", tmp_path / "prompts", tmp_path / "story"
    shutil.copytree(request.config.rootpath / "refladder/prompts/templates", prompts)
    line = f"score {inputs} {LADDERS} --out {out} --prompts {prompts}"
    assert command(line).code == 0
    before = scored(out)
    for option, name in (
        ("--rule hard-votes", "rule"),
        ("--both-orders", "both_orders"),
        ("--least-mass 0.5", "least_mass"),
    ):
        held = (
            f"holds files of another run (other {name}); choose another folder, or delete this one"
        )
        assert f"{out}: {held}" in fails(2, f"{line} {option}")
    shutil.copytree(request.config.rootpath / "published_data/demo/story", other)
    ladders = (other / "ladders.jsonl").read_text("utf-8").splitlines(keepends=True)
    (other / "ladders.jsonl").write_text("".join(ladders[:-1]), "utf-8")
    (other / "certificate.json").unlink()
    text = fails(2, f"{line} --ladders {other}")
    assert "holds files of another run (other ladders: demo/story@" in text
    for path in prompts.rglob("*.md"):
        path.write_text(path.read_text("utf-8").replace("Better", "Superior"), "utf-8")
    assert "holds files of another run (other prompts)" in fails(2, line)
    assert scored(out) == before


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": "scored-folder/1", "files": 1}', DAMAGED),
        ('{"schema": "scored-folder/1", "fi', DAMAGED),
        ("", DAMAGED),
        ('{"schema": "scored-folder/0"}', "run.json: expected the schema 'scored-folder/1'; choose another"),
        ("[]", "counts/00.jsonl.json: damaged; delete it and "),
    ],
)  # fmt: skip
def test_damaged_records_are_named(fails, finished, content, message):
    line, out = finished
    name = message.partition(":")[0]
    (out / name).write_text(content, "utf-8")
    if name == "run.json":
        assert message in fails(2, f"filter {out} --min coherence_score=1")
        assert message in fails(2, f"rescore {out}")
    assert message in fails(2, line)


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("other", ["01.jsonl", "gone.jsonl"])
def test_the_record_of_another_file_is_named(fails, finished, other):
    line, out = finished
    record = out / "counts/00.jsonl.json"
    text = record.read_text("utf-8")
    assert text.count('"00.jsonl"') == 1
    record.write_text(text.replace('"00.jsonl"', f'"{other}"'), "utf-8")
    assert "counts/00.jsonl.json: damaged; delete it and " in fails(2, line)


@pytest.mark.usefixtures("inline")
def test_without_its_record_a_folder_is_scored_again_from_its_judgments(command, fails, finished):
    line, out = finished
    before = scored(out)
    (out / "run.json").unlink()
    assert DAMAGED in fails(2, line)
    shutil.rmtree(out / "counts")
    for path in out.glob("*.jsonl"):
        path.unlink()
    assert json.loads(command(f"{line} --json").out)["reused"] == 240 * RUNGS
    assert scored(out) == before


def test_an_input_folder_may_have_a_subfolder_counts(command, inputs, whole):
    (inputs / "counts").mkdir()
    (inputs / "counts" / "words.json").write_text("{}", "utf-8")
    assert command(f"score {inputs} {LADDERS}").out == whole.read_text("utf-8")


@pytest.mark.usefixtures("inline")
def test_files_without_rows_are_said(command, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").touch()
    line = f"score {tmp_path}/in {LADDERS} --out {tmp_path}/out"
    nothing = "The files have no rows, so nothing was scored\n"
    done = command(f"{line} --shard 1/2")
    assert done.code == 3
    assert nothing in done.err
    # The second part has no file at all.
    done = command(f"{line} --shard 2/2")
    assert done.code == 0
    assert nothing not in done.err
    assert command(f"{line} --json").code == 3


def test_files_outside_the_folder_are_not_read(fails, finished):
    _, out = finished
    replace_in(out / "run.json", '"name": "00.jsonl"', '"name": "../in/00.jsonl"')
    text = fails(2, f"filter {out} --min coherence_score=1")
    outside = "names the file '../in/00.jsonl', which is outside the folder; do not use it"
    assert f"run.json: {outside}" in text


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("file", {"scored": 39}, "40 rows in, 39 scored and 0 unscored; delete this file and run the "),
        ("report", {"signature": "other"}, "its scores are on another scale (other) than those of the run ("),
    ],
)  # fmt: skip
def test_counts_that_do_not_add_up_are_refused(fails, finished, part, change, message):
    line, out = finished
    path = out / "counts" / "00.jsonl.json"
    counts = json.loads(path.read_bytes())
    counts[part].update(change)
    path.write_text(json.dumps(counts), "utf-8")
    assert f"{out}/00.jsonl: {message}" in fails(2, line)


@pytest.mark.usefixtures("inline")
def test_a_file_with_fewer_rows_out_than_in_has_failed(fails, inputs, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "refladder.many_files.worker.score_rows", lambda *_, **__: ScoreReport(rows=3)
    )
    text = fails(2, f"score {inputs} {LADDERS} --out {tmp_path}/out")
    assert f"{inputs}/00.jsonl: 40 rows in, 3 rows out; run the same command again" in text


@pytest.mark.usefixtures("inline")
def test_a_finished_run_whose_judge_kills_its_worker_says_so(command, fails, finished, monkeypatch):
    class Dying(Inline):
        deaths = 3

        def wait(self, tell):
            worker, answer = super().wait(tell)
            Dying.deaths -= 1
            return worker, None if Dying.deaths >= 0 else answer

    line, out = finished
    replace_in(out / "run.json", '"judge": "builtin"', '"judge": "another"')
    assert command(line).code == 0  # the judges have one signature
    replace_in(out / "run.json", '"judge": "builtin"', '"judge": "another"')
    monkeypatch.setattr("refladder.many_files.workers.Processes", Dying)
    died = "the worker died 3 times when it opened the judge; check its memory and its judge"
    assert died in fails(1, line)
    Dying.deaths = 2
    done = command(line)
    assert done.code == 0
    again = (
        "the worker died when it opened the judge (2 of at most 3 times); another worker opens it"
    )
    assert again in done.err


def test_counts_of_files_add_up():
    report = ScoreReport(
        rows=3, unscored={"a": 1}, reasons={"x": 1}, judgments=9, order_variance={"a": 0.5}
    )
    other = ScoreReport(
        rows=4, unscored={"a": 2, "b": 1}, judgments=5, order_variance={"a": 0.25}, signature="s"
    )
    total = merged([report, other])
    assert (total.rows, total.judgments, total.signature) == (7, 14, "s")
    assert total.unscored == {"a": 3, "b": 1}
    assert total.order_variance == {"a": 0.75}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--shard 0/4", "--shard '0/4': must be I/N, such as 1/8, with I from 1 to N"),
        (
            "--workers 2 --out-format csv",
            "--out-format does not work with a folder of scored files; leave",
        ),
        (
            "--workers 2 --budget 1",
            "--budget needs the model's price; give a table of prices with --prices",
        ),
        (
            "--workers 2 --judgments j.jsonl",
            "--judgments j.jsonl: a folder of scored files keeps its",
        ),
        ("--workers 2 --judge nothing", "unknown backend 'nothing'"),
    ],
)
def test_options_that_do_not_fit_are_refused(fails, inputs, tmp_path, options, text):
    assert text in fails(2, f"score {inputs} {LADDERS} --out {tmp_path}/out {options}")
    assert not list(tmp_path.glob("out/*.jsonl"))


def test_inputs_that_workers_cannot_share_are_refused(fails, inputs, tmp_path):
    def refused(source, options=f"--out {tmp_path}/out --workers 2"):
        return fails(2, f"score {source} {LADDERS} {options}")

    one, table = inputs / "00.jsonl", tmp_path / "scored.jsonl"
    assert refused(one) == (
        f"refladder: {one}: one file is scored by one worker; split it (`mkdir parts; split -l 50000 "
        f"--additional-suffix=.jsonl {one} parts/`), or give --workers 1\n"
    )
    split_it = (
        "one file is scored by one worker; split it (see 'Split a large file' in docs/scale.md)"
    )
    assert "x.parquet: no such file" in refused(tmp_path / "x.parquet")
    (tmp_path / "x.parquet").touch()
    assert f"x.parquet: {split_it}" in refused(tmp_path / "x.parquet")
    assert "needs a SOURCE of files: a file, a folder, a quoted glob or a URL" in refused("-")
    assert "several workers need --out FOLDER" in refused(inputs, "--workers 1")
    none = refused(f"'{tmp_path}/x*.jsonl'")
    assert "x*.jsonl: no .jsonl, .csv or .parquet file there" in none
    (inputs / "c.csv").touch()
    assert "in: files of several formats (csv, jsonl); name one kind" in refused(inputs)
    (tmp_path / "file").touch()
    text = refused(inputs, f"--workers 1 --out {tmp_path}/file")
    assert "file: a file, and several workers need a folder; name a folder" in text
    assert refused(inputs, f"--workers 2 --out {table}") == (
        f"refladder: {table}: the name of a file, and several workers need a folder; name one, such as "
        f"{tmp_path}/scored\n"
    )


def test_inputs_whose_outputs_would_replace_each_other_are_refused(fails, inputs, tmp_path):
    line = f"score {inputs} {LADDERS} --out {tmp_path}/out"
    packed = inputs / "00.jsonl.gz"
    packed.write_bytes(gzip.compress((inputs / "00.jsonl").read_bytes()))
    text = fails(2, line)
    assert "00.jsonl.gz: the output of this file and of " in text
    assert text.endswith("00.jsonl have one name; rename one\n")
    packed.rename(inputs / "run.json")
    text = fails(2, line)
    assert "run.json: the run has a file of this name in --out; rename it" in text


def test_the_name_of_an_output_has_no_signature_of_a_url(monkeypatch):
    monkeypatch.setattr("refladder.many_files.run.table_files", lambda source: [source])
    monkeypatch.setattr("refladder.many_files.run.stamp", lambda _path: "1")
    for query in ("token=secret", "name=/c.jsonl&token=secret"):
        (file,) = list_files(f"https://host/a/b.jsonl?{query}", "jsonl", "out")
        assert file.name == "b.jsonl"


def test_a_url_without_its_package_says_what_to_install(fails, inputs, tmp_path):
    text = fails(2, f"score {inputs} {LADDERS} --out ftp://me:word@host/x --workers 1")
    assert "the URL contains a password" in text
    pytest.importorskip("fsspec")
    url = "nothing://bucket/in.jsonl"
    text = fails(2, f"score {url} {LADDERS} --out {tmp_path}/o --workers 1")
    assert text.startswith(f"refladder: {url}: ")


@pytest.fixture
def unfinished(command, inputs, tmp_path, monkeypatch):
    """A run at a URL that was interrupted when the judgments of its first file were on this machine."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)
    line = f"score {inputs} {LADDERS} --out file://{tmp_path}/out"

    def interrupted(**_):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("refladder.many_files.worker.Counts", interrupted)
        assert command(line).code == 130
    [judgments] = (tmp_path / "tmp").rglob("judgments/*.jsonl")
    return line, judgments


def test_work_files_of_a_folder_at_a_url_are_for_their_user_alone(
    unfinished, tmp_path, monkeypatch
):
    _, judgments = unfinished
    ours = next(folder for folder in judgments.parents if folder.parent == tmp_path / "tmp")
    assert ours.stat().st_mode & 0o777 == 0o700
    other = ours.stat().st_uid + 1
    monkeypatch.setattr("os.getuid", lambda: other)
    ours.rename(ours.with_name(f"refladder-{other}"))
    refused = r"belongs to another user; set TMPDIR to a folder of yours$"
    with pytest.raises(DataError, match=refused):
        open_folder(f"file://{tmp_path}/out").work_file("a.jsonl")


def test_a_run_at_a_url_continues_from_its_judgments_on_this_machine(command, unfinished):
    line, _ = unfinished
    assert json.loads(command(f"{line} --json").out)["reused"] == 200  # 40 rows x 5 rungs


def test_judgments_that_another_run_left_on_this_machine_do_not_stop_one(
    command, unfinished, tmp_path
):
    line, _ = unfinished
    shutil.rmtree(tmp_path / "out")  # as for a run elsewhere, or after the bucket was emptied
    done = command(f"{line} --both-orders --json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["files"]["scored"] == 240


@pytest.mark.usefixtures("inline")
def test_a_folder_is_calibrated_as_one_table(command, tmp_path):
    rows, whole, out = tmp_path / "rows.jsonl", tmp_path / "whole.jsonl", tmp_path / "out"
    command(f"export demo/summarization --out {rows}")
    source = split(list(map(json.loads, rows.read_bytes().splitlines())), tmp_path / "in", 30)
    for table, written in ((rows, whole), (source, out)):
        ladders = "--ladders demo/summarization --dimension relevance"
        command(f"score {table} {ladders} --out {written}")
    threshold = tmp_path / "threshold.json"
    promised = "--label relevance --good '>=3' --by relevance_score --precision 0.8 --json"
    of_whole = command(f"calibrate {whole} {promised}")
    of_folder = command(f"calibrate {out} {promised} --out {threshold}")
    assert json.loads(of_folder.out) == json.loads(of_whole.out)
    assert json.loads(of_folder.out)["refused"] is False
    passed = [command(f"filter {table} --threshold {threshold}").rows for table in (whole, out)]
    assert [row["output_id"] for row in passed[0]] == [row["output_id"] for row in passed[1]]
