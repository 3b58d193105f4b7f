"""Many files: no row is lost or doubled, whatever is killed, and the rows are those of one process."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import connection
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet
from scored_folders import Inline, leftovers, scored, split, worker_of
from slow_judge import installed
from waiting import HANG, until

from refladder.backends.openai.options import share_of_limits
from refladder.commands.main import run as run_command
from refladder.errors import DataError
from refladder.files import jsonl
from refladder.files.folders import open_folder
from refladder.files.ladder_sets import load_ladders
from refladder.files.locks import has_ended, locked
from refladder.files.scored_folders import ScoredFile, stamp
from refladder.fleet.run import list_files, merged
from refladder.fleet.worker import Task, Worker
from refladder.fleet.workers import Processes, _serve, _take_gpu
from refladder.scoring.columns import ScoreReport

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")


@pytest.fixture
def inline(monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)


@pytest.fixture
def inputs(tmp_path, rows):
    """1,200 rows in six files."""
    return split(rows(1200), tmp_path / "in", 200)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, rows):
    """The same rows, scored by one process."""
    folder = tmp_path_factory.mktemp("whole")
    source, out = folder / "in.jsonl", folder / "whole.jsonl"
    source.write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(1200)), "utf-8"
    )
    assert run_command(["score", str(source), *LADDERS, "--out", str(out)]) == 0
    return out


def run_of(folder):
    return json.loads((folder / "run.json").read_bytes())


def test_a_folder_holds_the_rows_of_one_process_and_readers_take_it(
    command, inputs, whole, tmp_path
):
    out = tmp_path / "out"
    done = command("score", inputs, *LADDERS, "--out", out, "--workers", "2")
    assert done.code == 0
    assert done.err.endswith("6 files: 1,200 rows = 1,200 scored + 0 unscored\n")
    assert done.err.count("judge check, best rung against the worst") == 1
    assert scored(out) == whole.read_bytes()
    assert leftovers(out) == []
    run = run_of(out)
    assert [
        (file["name"], file["rows"], file["scored"], file["unscored"]) for file in run["files"]
    ] == [(f"{number:02d}.jsonl", 200, 200, 0) for number in range(6)]
    for file in run["files"]:
        assert file["stamp"] == stamp(str(inputs / file["name"]))
        assert file["bytes"] == (out / file["name"]).stat().st_size
        assert (out / "judgments" / file["name"]).exists()
    assert "backend:builtin/1" in run["signature"]

    best = ("--top", "0.1", "--by", "coherence_score")
    assert command("filter", out, *best).out == command("filter", whole, *best).out
    votes = ("--rule", "hard-votes")
    assert (
        command("rescore", out, *votes).out
        == command("rescore", f"{whole}.judgments.jsonl", *votes).out
    )

    again = json.loads(command("score", inputs, *LADDERS, "--out", out, "--json").out)
    counts = {"files": 6, "reused": 6, "missing": 0, "rows": 1200, "scored": 1200, "unscored": 0}
    assert again["files"] == counts


@pytest.mark.usefixtures("inline")
def test_an_output_folder_needs_no_other_option(command, fails, inputs, whole, tmp_path):
    (tmp_path / "of.rows").mkdir()
    for out in (tmp_path / "out", tmp_path / "of.rows", f"{tmp_path}/more.rows/"):
        done = command("score", inputs, *LADDERS, "--out", out)
        assert done.err.endswith("6 files: 1,200 rows = 1,200 scored + 0 unscored\n")
    single = command("score", inputs / "00.jsonl", *LADDERS, "--out", tmp_path / "single")
    assert single.err.endswith("1 file: 200 rows = 200 scored + 0 unscored\n")
    file = tmp_path / "rows"
    assert command("score", inputs, *LADDERS, "--out", file, "--out-format", "jsonl").code == 0
    assert file.read_bytes() == whole.read_bytes()
    for options in (
        (),
        ("--workers", "2"),
    ):  # a file there would be written into a folder `file:` of this machine
        text = fails(
            2, "score", inputs, *LADDERS, "--out", f"file://{tmp_path}/url.jsonl", *options
        )
        assert "url.jsonl: at a URL, scored rows are written as a folder; name a" in text
    text = fails(2, "score", inputs, *LADDERS, "--out", tmp_path / "rows.txt")
    assert "rows.txt: unknown file extension; use .jsonl, .csv or .parquet" in text


@pytest.mark.usefixtures("inline")
def test_an_output_is_named_like_its_input(command, tmp_path, rows):
    data, out = tmp_path / "data", tmp_path / "out"
    for name in ("x/a.jsonl", "x/deep/b.jsonl", "c.jsonl"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        number = len(name)
        (data / name).write_text(
            "".join(json.dumps(row) + "\n" for row in rows(3, number)), "utf-8"
        )
    assert command("score", data / "**" / "*.jsonl", *LADDERS, "--out", out).code == 0
    names = [file["name"] for file in run_of(out)["files"]]
    assert names == ["c.jsonl", "x/a.jsonl", "x/deep/b.jsonl"]
    ids = [row["output_id"] for row in command("filter", out, "--min", "coherence_score=-99").rows]
    assert ids == [row["output_id"] for name in names for row in rows(3, len(name))]
    assert leftovers(out) == []
    assert command("rescore", out).code == 0


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
        out, one = tmp_path / f"{name}-out", tmp_path / f"one.{name.replace('gz', 'jsonl')}"
        assert command("score", folder, *LADDERS, "--out", out).code == 0
        assert command("score", folder, *LADDERS, "--out", one).code == 0
        best = ("--min", "coherence_score=0", "--out-format", "jsonl")
        assert command("filter", out, *best).out == command("filter", one, *best).out
    parts = [
        parquet.read_table(tmp_path / "parquet-out" / f"{number}.parquet") for number in (0, 1)
    ]
    assert pa.concat_tables(parts).equals(parquet.read_table(tmp_path / "one.parquet"))
    assert sorted(path.name for path in (tmp_path / "gz-out").glob("*.*")) == [
        "0.jsonl",
        "1.jsonl",
        "run.json",
    ]


@pytest.fixture
def start(process, inputs, tmp_path):
    """Start a run with the judge `slow`, whose workers wait at their second call while `hold` exists."""
    environment, hold = installed(tmp_path / "installed")
    started = []

    def go(*arguments, held=True, source=inputs):
        if held:
            hold.touch()
        out = tmp_path / "out"
        started.append(
            process(
                "score",
                source,
                *LADDERS,
                "--judge",
                "slow",
                "--out",
                out,
                *arguments,
                env=environment,
            )
        )
        return started[-1], out, hold

    yield go
    for run in started:
        run.kill()
        run.communicate()


def test_a_killed_worker_costs_no_row(start):
    run, out, hold = start("--workers", "2")
    os.kill(worker_of(out, "00.jsonl"), signal.SIGKILL)
    hold.unlink()
    _, err = run.communicate(timeout=HANG)
    assert run.returncode == 0, err
    assert b"00.jsonl: the worker died (1 of at most 3 times); another worker scores it" in err
    assert [json.loads(line)["output_id"] for line in scored(out).splitlines()] == [
        f"o{n}" for n in range(1, 1201)
    ]
    assert leftovers(out) == []


def test_workers_and_drivers_killed_at_random_cost_no_row(start, whole, tmp_path):
    chance = random.Random(0)  # noqa: S311  no secret

    def at_work():
        for lock in sorted(tmp_path.glob("out/.work/.*.lock"), key=lambda _: chance.random()):
            with suppress(OSError, ValueError):
                process = json.loads(lock.read_bytes())["process"]
                if not has_ended(process):  # its lock stays until another worker takes the file
                    return process
        return run.poll() is not None and -1

    run, out, hold = start("--workers", "2")
    for kill in range(6):
        if (process := until(at_work)) > 0:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if kill == 3:
            run.kill()
        hold.unlink()
        time.sleep(chance.uniform(0, 0.2))  # some files are finished meanwhile, or none
        hold.touch()
        if (
            run.poll() is not None
        ):  # the driver was killed, or has given up a file after three deaths
            run, _, _ = start("--workers", "2")
    hold.unlink()
    run.communicate(timeout=HANG)
    while run.returncode:
        run, _, _ = start("--workers", "2", held=False)
        _, err = run.communicate(timeout=HANG)
        assert run.returncode == 0 or b"the worker died 3 times" in err, err
    expected = [json.loads(line) for line in whole.read_bytes().splitlines()]
    rows = [json.loads(line) for line in scored(out).splitlines()]
    assert [(row["output_id"], row["coherence_score"]) for row in rows] == [
        (row["output_id"], row["coherence_score"]) for row in expected
    ]
    assert sum(file["rows"] for file in run_of(out)["files"]) == 1200
    assert leftovers(out) == []


def test_a_killed_driver_takes_its_workers_along_and_the_next_one_continues(start, whole, fails):
    run, out, hold = start("--workers", "2")
    workers = [worker_of(out, "00.jsonl"), worker_of(out, "01.jsonl")]
    second, _, _ = start("--workers", "1")  # another driver on the same folder
    _, err = second.communicate(timeout=HANG)
    assert second.returncode == 2
    assert f"out: process {run.pid} on host" in err.decode()

    run.kill()
    run.wait()
    until(lambda: all(map(has_ended, workers)))
    assert "out: not all of its files are scored yet; run the same" in fails(
        2, "filter", out, "--min", "n=0"
    )

    hold.unlink()
    third, _, _ = start("--workers", "2", "--json", held=False)
    told, err = third.communicate(timeout=HANG)
    assert third.returncode == 0, err
    assert json.loads(told)["reused"] >= 160  # two files had stored their first batch of 16 rows
    expected = [json.loads(line) for line in whole.read_bytes().splitlines()]
    rows = [json.loads(line) for line in scored(out).splitlines()]
    assert [(row["output_id"], row["coherence_score"]) for row in rows] == [
        (row["output_id"], row["coherence_score"]) for row in expected
    ]
    assert leftovers(out) == []


@pytest.mark.usefixtures("inline")
def test_a_poisoned_row_fails_its_file_alone_and_is_read_again_when_mended(
    command, fails, inputs, whole, tmp_path
):
    good = (inputs / "01.jsonl").read_bytes()
    lines = good.splitlines(keepends=True)
    lines[33] = b'{"output": 5}\n'
    (inputs / "01.jsonl").write_bytes(b"".join(lines))
    out = tmp_path / "out"
    arguments = ("score", inputs, *LADDERS, "--out", out)
    text = fails(2, *arguments)
    assert (
        f"refladder: {out}: 1 file failed: {inputs}/01.jsonl:34: column 'output' must be a string, found 5"
        in text
    )
    assert text.endswith("5 scored files kept, and the same command continues\n")
    (inputs / "01.jsonl").write_bytes(good)
    done = command(*arguments)
    assert done.err.endswith(
        "6 files (5 from earlier runs): 1,200 rows = 1,200 scored + 0 unscored\n"
    )
    assert scored(out) == whole.read_bytes()


def test_a_row_that_kills_or_breaks_the_judge_fails_its_file_alone(start, inputs):
    for name, old, new in (("04", "day 1000.", "KILL"), ("05", "day 1150.", "FAULT")):
        path = inputs / f"{name}.jsonl"
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")
    run, out, _ = start("--workers", "2", held=False)
    _, err = run.communicate(timeout=HANG)
    assert run.returncode == 2
    told = err.decode()
    assert "04.jsonl: the worker died 3 times; not tried again" in told
    assert "04.jsonl: the worker died 3 times; check its memory and its judge" in told
    assert "05.jsonl: ZeroDivisionError: a fault of the judge" in told
    assert "out: 2 files failed: " in told
    assert len(scored(out).splitlines()) == 800
    assert run_of(out)["files"][0]["rows"] is None


@pytest.mark.usefixtures("inline")
def test_a_changed_input_is_scored_again(command, inputs, tmp_path, rows):
    out = tmp_path / "out"
    arguments = ("score", inputs, *LADDERS, "--out", out, "--json")
    assert command(*arguments).code == 0
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.jsonl")}
    new = {**rows(1, 2001)[0], "output_id": "new"}
    with (inputs / "03.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(new) + "\n")
    told = json.loads(command(*arguments).out)
    assert (told["files"]["reused"], told["files"]["rows"], told["reused"]) == (
        5,
        1201,
        1000,
    )  # of its 201 rows
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("*.jsonl")}
    assert {name for name in before if before[name] != after[name]} == {"03.jsonl"}
    assert json.loads((out / "03.jsonl").read_bytes().splitlines()[-1])["output_id"] == "new"


@pytest.mark.usefixtures("inline")
def test_an_input_that_changes_during_the_run_has_failed(fails, inputs, tmp_path, monkeypatch):
    stamps = iter(["now", "later"])
    monkeypatch.setattr("refladder.fleet.run.stamp", lambda _path: next(stamps))
    text = fails(2, "score", inputs / "00.jsonl", *LADDERS, "--out", tmp_path / "out")
    assert (
        f"{inputs}/00.jsonl: the file has changed during the run; run the same command again"
        in text
    )
    assert not list(tmp_path.glob("out/*.jsonl"))


@pytest.mark.usefixtures("inline")
def test_a_file_whose_contexts_all_lack_a_ladder_ends_unscored(
    command, write_jsonl, rows, tmp_path
):
    source = split(rows(40), tmp_path / "in", 20)
    lines = [{**row, "context_id": "elsewhere"} for row in rows(20, 41)]
    (source / "02.jsonl").write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in lines), "utf-8"
    )
    out = tmp_path / "out"
    done = command("score", source, *LADDERS, "--out", out)
    assert done.code == 3
    assert done.err.endswith("3 files: 60 rows = 40 scored + 20 unscored\n")
    assert [file["unscored"] for file in run_of(out)["files"]] == [0, 0, 20]
    one = command("score", write_jsonl(rows(40) + lines), *LADDERS, "--out", tmp_path / "one.jsonl")
    assert one.code == 3  # the same rows in one file
    assert scored(out) == (tmp_path / "one.jsonl").read_bytes()
    notes = [
        row["coherence_note"]
        for row in map(json.loads, scored(out).splitlines())
        if row["coherence_note"]
    ]
    assert len(notes) == 20
    assert "no coherence ladder for context" in notes[0]
    assert command("rescore", out).code == 0


def test_a_full_disk_stops_the_run(inputs, tmp_path, monkeypatch):
    source = str(inputs / "00.jsonl")
    file = ScoredFile(source=source, stamp=stamp(source), name="00.jsonl")
    task = Task(
        folder=str(tmp_path / "out"),
        ladders="demo/story",
        version="demo/story",
        dimensions=["coherence"],
    )
    answer = Worker(task.to_json()).run(file, None)
    assert answer.stops
    assert "demo/story: the ladder set has changed since the run began" in str(answer.error)

    version = load_ladders("demo/story").signature
    worker = Worker(json.dumps({**json.loads(task.to_json()), "version": version}))

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(jsonl.os, "fsync", full)
        answer = worker.run(file, None)
    assert type(answer.error) is DataError
    assert "cannot be written (No space left on device); free space or choose another path" in str(
        answer.error
    )
    assert (answer.counts, answer.stops) == (None, True)
    assert worker.run(file, None).counts.file.scored == 200  # once there is space


@pytest.mark.usefixtures("inline")
def test_parts_of_a_cluster_job_fill_one_folder(command, fails, inputs, whole, tmp_path):
    out = tmp_path / "out"
    arguments = ("score", inputs, *LADDERS, "--out", out, "--shard")
    done = command(*arguments, "2/4")  # the second and the sixth file
    assert done.err.endswith(
        f"2 files: 400 rows = 400 scored + 0 unscored\n{out}: not scored yet: 4 files of other parts\n"
    )
    assert sorted(path.name for path in out.glob("*.jsonl")) == ["01.jsonl", "05.jsonl"]
    assert "not all of its files are scored yet" in fails(2, "rescore", out)
    for part in ("4/4", "1/4", "3/4"):
        assert command(*arguments, part).code == 0
    assert scored(out) == whole.read_bytes()
    assert sum(file["rows"] for file in run_of(out)["files"]) == 1200


@pytest.mark.usefixtures("inline")
def test_another_run_in_the_same_folder_is_refused(command, fails, inputs, tmp_path, request):
    out, prompts = tmp_path / "out", tmp_path / "prompts"
    shutil.copytree(request.config.rootpath / "refladder/prompts/templates", prompts)
    arguments = ("score", inputs, *LADDERS, "--out", out, "--prompts", prompts)
    assert command(*arguments).code == 0
    before = scored(out)
    for option, name in (
        (("--rule", "hard-votes"), "rule"),
        (("--both-orders",), "both_orders"),
        (("--least-mass", "0.5"), "least_mass"),
    ):
        text = fails(2, *arguments, *option)
        assert (
            f"{out}: holds files of another run (other {name}); choose another folder, or delete this one"
            in text
        )
    other = tmp_path / "story"
    shutil.copytree(request.config.rootpath / "published_data/demo/story", other)
    lines = (other / "ladders.jsonl").read_text("utf-8").splitlines(keepends=True)
    (other / "ladders.jsonl").write_text("".join(lines[:-1]), "utf-8")
    (other / "certificate.json").unlink()
    assert "holds files of another run (other ladders)" in fails(2, *arguments, "--ladders", other)
    for path in prompts.rglob("*"):
        if path.is_file():
            path.write_text(path.read_text("utf-8").replace("Better", "Superior"), "utf-8")
    assert "holds files of another run (other prompts)" in fails(2, *arguments)
    assert scored(out) == before


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"schema": "scored-folder/1", "files": 1}',
            "run.json: damaged; delete it, and run the same",
        ),
        ("", "run.json: missing or damaged; delete it, and run the same"),
        ('{"schema": "scored-folder/0"}', "run.json: expected the schema 'scored-folder/1', found"),
        ("[]", "counts/00.jsonl.json: damaged; delete it and "),
    ],
)
def test_damaged_records_are_named(command, fails, inputs, content, message):
    name = message.partition(":")[0]
    out = inputs.with_name("out")
    arguments = ("score", inputs, *LADDERS, "--out", out)
    assert command(*arguments).code == 0
    (out / name).write_text(content, "utf-8")
    if name == "run.json":
        assert message in fails(2, "filter", out, "--min", "coherence_score=1")
        assert message in fails(2, "rescore", out)
    assert message in fails(2, *arguments)


@pytest.mark.usefixtures("inline")
def test_files_outside_the_folder_are_not_read(command, fails, inputs):
    out = inputs.with_name("out")
    assert command("score", inputs, *LADDERS, "--out", out).code == 0
    path = out / "run.json"
    path.write_text(
        path.read_text("utf-8").replace('"name": "00.jsonl"', '"name": "../in/00.jsonl"'), "utf-8"
    )
    text = fails(2, "filter", out, "--min", "coherence_score=1")
    assert (
        "run.json: names the file '../in/00.jsonl', which is outside the folder; do not use it"
        in text
    )


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda counts: counts["file"].update(scored=199),
            "00.jsonl: 200 rows in, 199 scored and 0 unscored; delete this file and run the same command again",
        ),
        (
            lambda counts: counts["report"].update(signature="other"),
            "00.jsonl: its scores are on another scale (other) than those of the run (",
        ),
    ],
)
def test_counts_that_do_not_add_up_are_refused(command, fails, inputs, change, message):
    out = inputs.with_name("out")
    arguments = ("score", inputs, *LADDERS, "--out", out)
    assert command(*arguments).code == 0
    path = out / "counts" / "00.jsonl.json"
    counts = json.loads(path.read_bytes())
    change(counts)
    path.write_text(json.dumps(counts), "utf-8")
    assert f"{out}/{message}" in fails(2, *arguments)


@pytest.mark.usefixtures("inline")
def test_a_file_with_fewer_rows_out_than_in_has_failed(fails, inputs, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.fleet.worker.score_rows", lambda *_, **__: ScoreReport(rows=3))
    text = fails(2, "score", inputs, *LADDERS, "--out", tmp_path / "out")
    assert f"{inputs}/00.jsonl: 200 rows in, 3 rows out; run the same command again" in text


def test_a_finished_run_whose_judge_kills_its_worker_says_so(command, fails, inputs, monkeypatch):
    class Dying(Inline):
        def wait(self, tell):
            super().wait(tell)
            return 0, None

    arguments = ("score", inputs, *LADDERS, "--out", inputs.with_name("out"))
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    assert command(*arguments).code == 0
    run = inputs.with_name("out") / "run.json"
    run.write_text(
        run.read_text("utf-8").replace('"judge": "builtin"', '"judge": "another"'), "utf-8"
    )
    assert command(*arguments).code == 0  # the judges have one signature
    run.write_text(
        run.read_text("utf-8").replace('"judge": "builtin"', '"judge": "another"'), "utf-8"
    )
    monkeypatch.setattr("refladder.fleet.workers.Processes", Dying)
    text = fails(1, *arguments)
    assert "the worker died when it opened the judge; check its memory and its judge" in text


def test_counts_of_files_add_up():
    report = ScoreReport(
        rows=3, unscored={"a": 1}, reasons={"x": 1}, judgments=9, order_variance={"a": 0.5}
    )
    other = ScoreReport(
        rows=4, unscored={"a": 2, "b": 1}, judgments=5, order_variance={"a": 0.25}, signature="s"
    )
    total = merged([report, other])
    assert (total.rows, total.unscored, total.judgments, total.signature) == (
        7,
        {"a": 3, "b": 1},
        14,
        "s",
    )
    assert total.order_variance == {"a": 0.75}


def test_workers_share_the_limits_of_an_endpoint():
    given = {
        "base_url": "http://127.0.0.1:1/v1",
        "requests_per_minute": "90",
        "max_concurrency": "10",
    }
    assert share_of_limits(given, 4) == {
        **given,
        "requests_per_minute": "22.5",
        "max_concurrency": "2",
    }
    assert share_of_limits({}, 200) == {"max_concurrency": "1"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--shard", "0/4"), "--shard '0/4': must be I/N, such as 1/8, with I from 1 to N"),
        (
            ("--workers", "2", "--out-format", "csv"),
            "--out-format does not work with a folder of scored files; leave",
        ),
        (
            ("--workers", "2", "--budget", "1"),
            "--budget needs the model's price; give a table of prices with --prices",
        ),
        (
            ("--workers", "2", "--judgments", "j.jsonl"),
            "--judgments j.jsonl: a folder of scored files keeps its",
        ),
        (("--workers", "2", "--judge", "nothing"), "unknown backend 'nothing'"),
    ],
)
def test_options_that_do_not_fit_are_refused(fails, inputs, tmp_path, arguments, text):
    assert text in fails(2, "score", inputs, *LADDERS, "--out", tmp_path / "out", *arguments)
    assert not list(tmp_path.glob("out/*.jsonl"))


def test_inputs_that_workers_cannot_share_are_refused(fails, inputs, tmp_path):
    out, one = ("--out", tmp_path / "out", "--workers", "2"), inputs / "00.jsonl"
    assert fails(2, "score", one, *LADDERS, *out) == (
        f"refladder: {one}: one file is scored by one worker; split it (`mkdir parts; split -l 50000 "
        f"--additional-suffix=.jsonl {one} parts/`), or give --workers 1\n"
    )
    text = fails(2, "score", tmp_path / "x.parquet", *LADDERS, *out)
    assert (
        "x.parquet: one file is scored by one worker; split it (see 'Split a large file' in docs/scale.md)"
        in text
    )
    assert "needs a SOURCE of files: a file, a folder, a quoted glob or a URL" in fails(
        2, "score", "-", *LADDERS, *out
    )
    assert "several workers need --out FOLDER" in fails(
        2, "score", inputs, *LADDERS, "--workers", "1"
    )
    assert "x*.jsonl: no .jsonl, .csv or .parquet file there" in fails(
        2, "score", tmp_path / "x*.jsonl", *LADDERS, *out
    )
    (inputs / "c.csv").touch()
    assert "in: files of several formats (csv, jsonl); name one kind" in fails(
        2, "score", inputs, *LADDERS, *out
    )
    (tmp_path / "file").touch()
    text = fails(2, "score", inputs, *LADDERS, "--workers", "1", "--out", tmp_path / "file")
    assert "file: a file, and several workers need a folder; name a folder" in text
    table = tmp_path / "scored.jsonl"
    assert fails(2, "score", inputs, *LADDERS, "--workers", "2", "--out", table) == (
        f"refladder: {table}: the name of a file, and several workers need a folder; name one, such as "
        f"{tmp_path}/scored\n"
    )


def test_inputs_whose_outputs_would_replace_each_other_are_refused(fails, inputs, tmp_path):
    packed = inputs / "00.jsonl.gz"
    packed.write_bytes(gzip.compress((inputs / "00.jsonl").read_bytes()))
    text = fails(2, "score", inputs, *LADDERS, "--out", tmp_path / "out")
    assert "00.jsonl.gz: the output of this file and of " in text
    assert text.endswith("00.jsonl have one name; rename one\n")
    packed.rename(inputs / "run.json")
    text = fails(2, "score", inputs, *LADDERS, "--out", tmp_path / "out")
    assert "run.json: the run has a file of this name in --out; rename it" in text


def test_the_name_of_an_output_has_no_signature_of_a_url(monkeypatch):
    monkeypatch.setattr("refladder.fleet.run.table_files", lambda source: [source])
    monkeypatch.setattr("refladder.fleet.run.stamp", lambda _path: "1")
    for url in (
        "https://host/a/b.jsonl?token=secret",
        "https://host/a/b.jsonl?name=/c.jsonl&token=secret",
    ):
        (file,) = list_files(url, "jsonl", "out")
        assert file.name == "b.jsonl"


def test_a_url_without_its_package_says_what_to_install(fails, inputs, tmp_path):
    assert "the URL contains a password" in fails(
        2, "score", inputs, *LADDERS, "--out", "ftp://me:word@host/x", "--workers", "1"
    )
    pytest.importorskip("fsspec")
    text = fails(
        2, "score", "nothing://bucket/in.jsonl", *LADDERS, "--out", tmp_path / "o", "--workers", "1"
    )
    assert text.startswith("refladder: nothing://bucket/in.jsonl: ")


def test_processes_take_the_visible_gpus_in_turn(monkeypatch):
    taken = []
    for worker in range(3):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
        _take_gpu(worker)
        taken.append(os.environ["CUDA_VISIBLE_DEVICES"])
    assert taken == ["3", "5", "3"]


def test_processes_share_cores_and_memory(monkeypatch):
    started = []

    class Context:
        def Pipe(self):  # noqa: N802  its name in multiprocessing
            return connection.Pipe()

        def Process(self, *, target, args, daemon):  # noqa: N802
            started.append((target, args[2], daemon))
            return SimpleNamespace(start=args[0].close)

    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    monkeypatch.setattr("refladder.fleet.workers.get_context", lambda _kind: Context())
    monkeypatch.setattr("refladder.fleet.workers.cores", lambda: 9)
    Processes(4, 9, gpus=False).start("{}")
    share = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "REFLADDER_WORKERS": "4"}
    assert started == [(_serve, share, True)] * 4
    assert Processes(4, 3, gpus=False).number == 3


@pytest.mark.usefixtures("inline")
def test_rows_of_unfinished_files_are_told(inputs, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.fleet.worker._EVERY", 0)
    told = []
    task = Task(
        folder=str(tmp_path / "out"),
        ladders="demo/story",
        version=load_ladders("demo/story").signature,
        dimensions=["coherence"],
    )
    source = str(inputs / "00.jsonl")
    worker = Worker(task.to_json(), told.append)
    worker.run(ScoredFile(source=source, stamp=stamp(source), name="00.jsonl"), None)
    assert told == sorted(told)
    assert told[-1] == 200
    assert len(told) > 1  # and steps between: those of the batches


def test_a_file_of_a_worker_that_is_about_to_end_waits_for_it(inputs, tmp_path, monkeypatch):
    source, out = str(inputs / "00.jsonl"), tmp_path / "out"
    task = Task(
        folder=str(out),
        ladders="demo/story",
        version=load_ladders("demo/story").signature,
        dimensions=["coherence"],
    )
    worker, file = (
        Worker(task.to_json()),
        ScoredFile(source=source, stamp=stamp(source), name="00.jsonl"),
    )
    monkeypatch.setattr("refladder.fleet.worker._ATTEMPTS", 2)
    pauses = []
    with ThreadPoolExecutor() as other:
        held = locked(out / ".work" / "00.jsonl")
        other.submit(held.__enter__).result()
        monkeypatch.setattr("refladder.fleet.worker.time.sleep", pauses.append)
        answer = worker.run(file, None)
        assert f"{source}: {out}/.work/00.jsonl: process {os.getpid()} on host" in str(answer.error)
        assert not answer.stops  # the other files are scored
        assert len(pauses) == 2
        ending = lambda _seconds: other.submit(held.__exit__, None, None, None).result()  # noqa: E731
        monkeypatch.setattr("refladder.fleet.worker.time.sleep", ending)
        assert worker.run(file, None).counts.file.rows == 200


@pytest.fixture
def unfinished(command, inputs, tmp_path, monkeypatch):
    """A run at a URL that was interrupted when the judgments of its first file were on this machine."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    out = f"file://{tmp_path}/out"
    line = ("score", inputs, *LADDERS, "--out", out)

    def interrupted(**_):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("refladder.fleet.worker.Counts", interrupted)
        assert command(*line).code == 130
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
    ours.rename(ours.with_name(f"refladder-{os.getuid()}"))
    with pytest.raises(
        DataError, match=r"belongs to another user; set TMPDIR to a folder of yours$"
    ):
        open_folder(f"file://{tmp_path}/out").work_file("a.jsonl")


def test_a_run_at_a_url_continues_from_its_judgments_on_this_machine(command, unfinished):
    line, _ = unfinished
    assert json.loads(command(*line, "--json").out)["reused"] == 1000  # 200 rows x 5 rungs


def test_judgments_that_another_run_left_on_this_machine_do_not_stop_one(
    command, unfinished, tmp_path
):
    line, _ = unfinished
    shutil.rmtree(tmp_path / "out")  # as for a run elsewhere, or after the bucket was emptied
    done = command(*line, "--both-orders", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["files"]["scored"] == 1200


@pytest.mark.usefixtures("inline")
def test_a_folder_is_calibrated_as_one_table(command, tmp_path):
    rows, whole, out = tmp_path / "rows.jsonl", tmp_path / "whole.jsonl", tmp_path / "out"
    command("export", "demo/summarization", "--out", rows)
    lines = [json.loads(line) for line in rows.read_text("utf-8").splitlines()]
    ladders = ("--ladders", "demo/summarization", "--dimension", "relevance")
    command("score", rows, *ladders, "--out", whole)
    command("score", split(lines, tmp_path / "in", 30), *ladders, "--out", out)
    promised = (
        "--label",
        "relevance",
        "--good",
        ">=3",
        "--by",
        "relevance_score",
        "--precision",
        "0.8",
    )
    threshold = tmp_path / "threshold.json"
    of_whole = command("calibrate", whole, *promised, "--json")
    of_folder = command("calibrate", out, *promised, "--json", "--out", threshold)
    assert json.loads(of_folder.out) == json.loads(of_whole.out)
    assert json.loads(of_folder.out)["refused"] is False
    passed = [command("filter", table, "--threshold", threshold).rows for table in (whole, out)]
    assert [row["output_id"] for row in passed[0]] == [row["output_id"] for row in passed[1]]
