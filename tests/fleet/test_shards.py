"""Many shards: no row is lost or doubled, whatever is killed, and the rows are those of one process."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import shutil
import signal
from multiprocessing import connection
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import parquet
from shard_folders import Inline, leftovers, scored, worker_of
from slow_judge import installed
from waiting import HANG, until

import refladder
from refladder.backends.openai.options import share_of_limits
from refladder.commands.main import run as run_command
from refladder.errors import DataError, UsageError
from refladder.files import jsonl
from refladder.files.folders import open_folder
from refladder.files.ladder_sets import load_ladders
from refladder.files.locks import has_ended
from refladder.fleet.run_folder import Mark, make_plan, mark_name, read, write
from refladder.fleet.shard_worker import ShardAnswer, ShardWorker, Task
from refladder.fleet.sharded_score import Sharding, merged, score_shards
from refladder.fleet.workers import Processes, _serve, _take_gpu
from refladder.jobs.score import Mapped
from refladder.scoring.columns import ScoreReport

LADDERS = ("--ladders", "demo/story", "--dimension", "coherence")


@pytest.fixture
def inline(monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)


@pytest.fixture
def inputs(tmp_path, rows):
    """1,200 rows in two files."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, part in (("a", rows(700)), ("b", rows(500, 701))):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in part]
        (folder / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory, rows):
    """The same rows, scored by one process."""
    folder = tmp_path_factory.mktemp("whole")
    source, out = folder / "in.jsonl", folder / "whole.jsonl"
    source.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(1200)), "utf-8")
    assert run_command(["score", str(source), *LADDERS, "--out", str(out)]) == 0
    return out


def manifest_of(folder):
    return json.loads((folder / ".refladder" / "manifest.json").read_bytes())


def test_shards_hold_the_rows_of_one_process_and_readers_take_the_folder(command, inputs, whole, tmp_path):
    expected = whole.read_bytes()
    out = tmp_path / "out"
    done = command("score", inputs, *LADDERS, "--out", out, "--shard-rows", "200", "--workers", "2")
    assert done.code == 0
    assert done.err.endswith("7 shards: 1,200 rows = 1,200 scored + 0 unscored\n")
    assert scored(out) == expected
    assert leftovers(out) == []
    manifest = manifest_of(out)
    assert [shard["rows"] for shard in manifest["shards"]] == [200, 200, 200, 100, 200, 200, 100]
    assert (manifest["rows"], manifest["scored"], manifest["unscored"]) == (1200, 1200, 0)
    for shard in manifest["shards"]:
        data = (out / shard["name"]).read_bytes()
        assert hashlib.blake2b(data, digest_size=16).hexdigest() == shard["output_digest"]
        source = Path(shard["source"]).read_bytes()[shard["offset"] : shard["offset"] + shard["size"]]
        assert hashlib.blake2b(source, digest_size=16).hexdigest() == shard["input_digest"]

    best = ("--top", "0.1", "--by", "coherence_score")
    assert command("filter", out, *best).out == command("filter", whole, *best).out
    judgments = f"{whole}.judgments.jsonl"
    assert (
        command("rescore", out, "--rule", "hard-votes").out == command("rescore", judgments, "--rule", "hard-votes").out
    )

    again = command("score", inputs, *LADDERS, "--out", out, "--shard-rows", "200", "--json")
    assert json.loads(again.out)["shards"] == {
        "shards": 7,
        "reused": 7,
        "missing": 0,
        "rows": 1200,
        "scored": 1200,
        "unscored": 0,
    }


@pytest.mark.usefixtures("inline")
def test_an_output_folder_gets_shards_without_another_option(command, fails, inputs, whole, tmp_path):
    (tmp_path / "of.rows").mkdir()
    for out in (tmp_path / "out", tmp_path / "of.rows", f"{tmp_path}/more.rows/"):
        done = command("score", inputs, *LADDERS, "--out", out)
        assert done.code == 0
        assert done.err.endswith("2 shards: 1,200 rows = 1,200 scored + 0 unscored\n")
        assert scored(Path(out)) == whole.read_bytes()
    single = command("score", inputs / "a.jsonl", *LADDERS, "--out", tmp_path / "single")
    assert single.err.endswith("1 shard: 700 rows = 700 scored + 0 unscored\n")
    file = tmp_path / "rows"
    assert command("score", inputs, *LADDERS, "--out", file, "--out-format", "jsonl").code == 0
    assert file.read_bytes() == whole.read_bytes()
    for options in ((), ("--workers", "2")):  # a file there would be written into a folder `file:` of this machine
        text = fails(2, "score", inputs, *LADDERS, "--out", f"file://{tmp_path}/url.jsonl", *options)
        assert "url.jsonl: at a URL, scored rows are written as a folder with one file per shard; name a" in text
    text = fails(2, "filter", whole, "--min", "coherence_score=0", "--out", f"file://{tmp_path}/url.jsonl")
    assert "url.jsonl: a file is written on this machine only; name a file here, and copy it to the URL" in text
    text = fails(2, "score", inputs, *LADDERS, "--out", tmp_path / "rows.txt")
    assert "rows.txt: unknown file extension; use .jsonl, .csv or .parquet" in text


@pytest.mark.usefixtures("inline")
def test_parquet_keeps_its_types_and_gzip_is_read(command, inputs, whole, tmp_path, rows):
    expected = whole.read_bytes()
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(path.read_bytes() for path in sorted(inputs.glob("*")))))
    assert command("score", packed, *LADDERS, "--out", tmp_path / "gz", "--shard-rows", "500").code == 0
    assert scored(tmp_path / "gz") == expected

    table = pa.Table.from_pylist(rows(1200)).append_column("day", pa.array([None] * 1200, pa.date32()))
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=170)
    assert (
        command("score", tmp_path / "in.parquet", *LADDERS, "--out", tmp_path / "pq", "--shard-rows", "250").code == 0
    )
    assert command("score", tmp_path / "in.parquet", *LADDERS, "--out", tmp_path / "one.parquet").code == 0
    parts = [parquet.read_table(path) for path in sorted((tmp_path / "pq").glob("*.parquet"))]
    assert [len(part) for part in parts] == [250, 250, 250, 250, 200]
    assert pa.concat_tables(parts).equals(parquet.read_table(tmp_path / "one.parquet"))
    best = ("--min", "coherence_score=0", "--out-format", "jsonl")
    assert command("filter", tmp_path / "pq", *best).out == command("filter", tmp_path / "one.parquet", *best).out


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_consecutive_rows_of_one_context_stay_in_one_shard(tmp_path, form):
    # Contexts of 3, 4, 1 and 12 rows. Shards of 5 or more: the first ends with the second context (7 rows); the next
    # takes one row and a context of 12, but is cut at twice its size (10); the last has the other 3.
    contexts = ["a"] * 3 + ["b"] * 4 + ["c"] + ["d"] * 12
    fields = [{"context_id": context, "output": f"text {number}"} for number, context in enumerate(contexts)]
    path = tmp_path / f"in.{form}"
    if form == "parquet":
        parquet.write_table(pa.Table.from_pylist(fields), path, row_group_size=2)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in fields), "utf-8")
    plan = make_plan(str(path), None, Mapped(columns={}), shard_rows=5, settings={}, config={})
    assert [(shard.first, shard.rows) for shard in plan.shards] == [(0, 7), (7, 10), (17, 3)]
    one = Mapped(columns={"context_id": "output"})  # each row is a context
    plan = make_plan(str(path), None, one, shard_rows=5, settings={}, config={})
    assert [shard.rows for shard in plan.shards] == [5, 5, 5, 5]


@pytest.fixture
def start(process, inputs, tmp_path):
    """Start a run with the judge `slow`, whose workers wait at their second call while `hold` exists."""
    environment, hold = installed(tmp_path / "installed")
    started = []

    def go(*arguments, held=True, source=inputs, ladders=LADDERS):
        if held:
            hold.touch()
        out = tmp_path / "out"
        line = ["score", source, *ladders, "--judge", "slow", "--shard-rows", "200", "--out", out, *arguments]
        started.append(process(*line, env=environment))
        return started[-1], out, hold

    yield go
    for run in started:
        run.kill()
        run.communicate()


def test_a_killed_worker_costs_no_row(start):
    run, out, hold = start("--workers", "2")
    os.kill(worker_of(out, "a-00000.jsonl"), signal.SIGKILL)
    hold.unlink()
    _, err = run.communicate(timeout=HANG)
    assert run.returncode == 0, err
    assert b"a-00000.jsonl: the worker died (1 of at most 3 times); another worker scores it" in err
    assert [json.loads(line)["output_id"] for line in scored(out).splitlines()] == [f"o{n}" for n in range(1, 1201)]
    assert leftovers(out) == []


def test_a_killed_worker_costs_no_row_of_a_shared_set(start, command, rows, tmp_path):
    story = load_ladders("demo/story")
    seeds = [{"context_id": each.id, "context": each.text} for each in story.contexts.values()]
    refladder.build(seeds, task="story", dimensions=story.dimensions[:1], shared=12, out=tmp_path / "shared")
    table, ladders = tmp_path / "a.jsonl", ("--ladders", tmp_path / "shared")
    documents = [{"output_id": row["output_id"], "output": row["output"]} for row in rows(600)]
    table.write_text("".join(json.dumps(row) + "\n" for row in documents), "utf-8")
    run, out, hold = start("--workers", "2", source=table, ladders=ladders)
    os.kill(worker_of(out, "a-00001.jsonl"), signal.SIGKILL)
    hold.unlink()
    _, err = run.communicate(timeout=HANG)
    assert run.returncode == 0, err
    assert b"a-00001.jsonl: the worker died (1 of at most 3 times); another worker scores it" in err
    assert err.decode().endswith("3 shards: 600 rows = 600 scored + 0 unscored\n")
    again = command("score", table, *ladders, "--out", tmp_path / "whole.jsonl")
    assert again.code == 0, again.err
    assert scored(out) == (tmp_path / "whole.jsonl").read_bytes()
    assert leftovers(out) == []


def test_a_killed_driver_takes_its_workers_along_and_the_next_one_continues(start, whole, fails):
    run, out, hold = start("--workers", "2")
    workers = [worker_of(out, "a-00000.jsonl"), worker_of(out, "a-00001.jsonl")]
    second, _, _ = start("--workers", "1")  # another driver on the same folder
    _, err = second.communicate(timeout=HANG)
    assert second.returncode == 2
    assert f"out: process {run.pid} on host" in err.decode()

    run.kill()
    run.wait()
    until(lambda: all(map(has_ended, workers)))
    assert "out: a part of its shards is not scored yet; run the same" in fails(2, "filter", out, "--min", "n=0")

    hold.unlink()
    third, _, _ = start("--workers", "2", "--json", held=False)
    told, err = third.communicate(timeout=HANG)
    assert third.returncode == 0, err
    assert json.loads(told)["reused"] >= 160  # two shards had stored their first batch of 16 rows
    expected = [json.loads(line) for line in whole.read_bytes().splitlines()]
    rows = [json.loads(line) for line in scored(out).splitlines()]
    assert [(row["output_id"], row["coherence_score"]) for row in rows] == [
        (row["output_id"], row["coherence_score"]) for row in expected
    ]
    assert leftovers(out) == []


@pytest.mark.usefixtures("inline")
def test_a_poisoned_row_fails_its_shard_alone_and_is_read_again_when_mended(command, fails, inputs, whole, tmp_path):
    expected = whole.read_bytes()
    whole_file = (inputs / "a.jsonl").read_bytes()
    lines = whole_file.splitlines(keepends=True)
    lines[233] = b'{"output": 5}\n'
    (inputs / "a.jsonl").write_bytes(b"".join(lines))
    out = tmp_path / "out"
    arguments = ("score", inputs, *LADDERS, "--out", out, "--shard-rows", "200")
    text = fails(2, *arguments)
    assert f"refladder: {out}: 1 shard failed: {inputs}/a.jsonl:234: no column 'context_id'" in text
    assert text.endswith("6 scored shards kept, and the same command continues\n")
    (inputs / "a.jsonl").write_bytes(whole_file)
    done = command(*arguments)
    assert done.err.endswith("7 shards (6 from earlier runs): 1,200 rows = 1,200 scored + 0 unscored\n")
    assert scored(out) == expected


def test_a_row_that_kills_or_breaks_the_judge_fails_its_shard_alone(start, inputs):
    text = (inputs / "b.jsonl").read_text("utf-8")
    (inputs / "b.jsonl").write_text(text.replace("day 1000.", "KILL").replace("day 1150.", "FAULT"), "utf-8")
    run, out, _ = start("--workers", "2", held=False)
    _, err = run.communicate(timeout=HANG)
    assert run.returncode == 2
    told = err.decode()
    assert "b-00001.jsonl: the worker died (3 of at most 3 times); not tried again" in told
    assert "b.jsonl, rows 201 to 400: the worker died 3 times; check its memory and its judge" in told
    assert "b.jsonl, rows 401 to 500: ZeroDivisionError: a fault of the judge" in told
    assert "out: 2 shards failed: " in told
    assert len(scored(out).splitlines()) == 900
    assert not (out / ".refladder" / "manifest.json").exists()


@pytest.mark.usefixtures("inline")
def test_a_shard_that_vanished_is_reported_and_scored_again(command, fails, inputs, whole, tmp_path):
    expected, out = whole.read_bytes(), tmp_path / "out"
    arguments = ("score", inputs, *LADDERS, "--out", out, "--shard-rows", "400", "--json")
    assert command(*arguments).code == 0
    (out / "a-00001.jsonl").unlink()
    text = fails(2, "filter", out, "--min", "coherence_score=0")
    assert text.startswith(f"refladder: {out}/a-00001.jsonl: this scored shard has vanished; run the same")
    counts = json.loads(command(*arguments).out)
    assert (counts["shards"]["reused"], counts["reused"]) == (3, 1500)  # 300 rows x 5 rungs: none is asked again
    assert scored(out) == expected
    (out / "b-00000.jsonl").write_bytes(b"{}\n")  # changed by someone
    assert json.loads(command(*arguments).out)["shards"]["reused"] == 3
    assert scored(out) == expected


def test_a_full_disk_stops_the_run(inputs, tmp_path, monkeypatch):
    plan = make_plan(str(inputs), None, Mapped(columns={}), shard_rows=400, settings={}, config={})
    task = {"folder": str(tmp_path / "out"), "form": "jsonl", "directory": ".", "ladders": "demo/story"}
    version = "demo/story"
    worker = ShardWorker(json.dumps({**task, "version": version, "dimensions": ["coherence"]}))
    request = (plan.shards[0], None)
    answer = worker.run(*request)
    assert answer.stops
    assert "demo/story: the ladder set has changed since the run began" in str(answer.error)

    version = str(answer.error).partition("(")[2].partition(",")[0]
    worker = ShardWorker(json.dumps({**task, "version": version, "dimensions": ["coherence"]}))

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(jsonl.os, "fsync", full)
        answer = worker.run(*request)
    assert answer.spent["calls"] == 0
    assert type(answer.error) is DataError
    assert str(answer.error) == (
        f"{tmp_path}/out/.refladder/slices/a-00000.jsonl: cannot be written (No space left on device); free "
        "space or choose another path"
    )
    assert (answer.mark, answer.stops) == (None, True)
    assert worker.run(*request).mark.scored == 400  # once there is space


@pytest.mark.usefixtures("inline")
def test_parts_of_a_cluster_job_fill_one_folder(command, fails, inputs, whole, tmp_path):
    expected, out = whole.read_bytes(), tmp_path / "out"
    arguments = ("score", inputs, *LADDERS, "--out", out, "--shard-rows", "200", "--shard")
    done = command(*arguments, "2/2")
    assert done.err.endswith(
        f"3 shards: 500 rows = 500 scored + 0 unscored\n{out}: not scored yet: 4 shards of other parts\n"
    )
    assert "a part of its shards is not scored yet" in fails(2, "rescore", out)
    assert command(*arguments, "1/2").err.endswith("4 shards: 700 rows = 700 scored + 0 unscored\n")
    assert scored(out) == expected
    assert manifest_of(out)["rows"] == 1200


@pytest.mark.usefixtures("inline")
def test_rows_without_a_score_are_counted(command, write_jsonl, rows, tmp_path):
    some = rows(30)
    some[3]["output"] = ""
    some[17]["context_id"] = "elsewhere"
    done = command("score", write_jsonl(some), *LADDERS, "--out", tmp_path / "out", "--shard-rows", "10")
    assert done.code == 3
    assert done.err.endswith("3 shards: 30 rows = 28 scored + 2 unscored\n")
    assert [shard["unscored"] for shard in manifest_of(tmp_path / "out")["shards"]] == [1, 1, 0]


@pytest.mark.usefixtures("inline")
def test_another_run_in_the_same_folder_is_refused(command, fails, inputs, tmp_path):
    out = tmp_path / "out"
    arguments = ("score", inputs, *LADDERS, "--out", out)
    assert command(*arguments, "--shard-rows", "600").code == 0
    assert fails(2, *arguments, "--shard-rows", "500").startswith(
        f"refladder: {out}: holds shards of another run (other shard_rows); choose another folder, or discard"
    )
    assert command(*arguments, "--shard-rows", "500", "--restart").code == 0
    assert len(list(out.glob("*.jsonl"))) == 3
    (inputs / "b.jsonl").unlink()
    assert fails(2, *arguments, "--shard-rows", "500").startswith(
        f"refladder: {out}/b-00000.jsonl: no shard of this input (of another input, or of one that has changed); move"
    )


def test_workers_that_differ_are_found_out(inputs, tmp_path):
    marks = iter("AAB")

    class Fake:
        number = 1

        def start(self, task):
            self.folder = open_folder(json.loads(task)["folder"])

        def put(self, worker, shard, signature, usd):
            del worker, signature, usd
            self.shard = shard

        def wait(self, tell):
            del tell
            if self.shard is None:
                return 0, ShardAnswer()
            self.folder.write(self.shard.name, b"{}\n")
            counts = {"rows": self.shard.rows, "scored": self.shard.rows, "unscored": 0}
            report = ScoreReport(signature=next(marks))
            mark = Mark(name=self.shard.name, input=self.shard.digest, output="", report=report, **counts)
            return 0, ShardAnswer(mark=mark)

        def close(self):
            pass

    out = str(tmp_path / "out")
    task = Task(folder=out, form="jsonl", directory=".", ladders="", version="", dimensions=[])
    with pytest.raises(UsageError, match=r"the workers differ: B in .*, A in other shards; name what differs"):
        score_shards(
            lambda _form: (Fake(), task),
            str(inputs),
            out,
            mapped=Mapped(columns={}),
            sharding=Sharding(shard_rows=400),
            settings={},
        )


@pytest.mark.usefixtures("inline")
def test_a_finished_folder_is_not_taken_for_the_scores_of_another_run(command, fails, inputs, tmp_path, request):
    out, prompts = tmp_path / "out", tmp_path / "prompts"
    shutil.copytree(request.config.rootpath / "refladder/prompts/templates", prompts)
    arguments = ("score", inputs, *LADDERS, "--out", out, "--shard-rows", "400", "--prompts", prompts)
    assert command(*arguments).code == 0
    before = scored(out)
    for option, name in (
        (("--rule", "hard-votes"), "rule"),
        (("--both-orders",), "orders"),
        (("--least-mass", "0.5"), "least_mass"),
    ):
        text = fails(2, *arguments, *option)
        assert f"{out}: holds shards of another run (other {name}); choose another folder, or discard" in text
    other = tmp_path / "story"
    shutil.copytree(request.config.rootpath / "published_data/demo/story", other)
    lines = (other / "ladders.jsonl").read_text("utf-8").splitlines(keepends=True)
    (other / "ladders.jsonl").write_text("".join(lines[:-1]), "utf-8")
    (other / "certificate.json").unlink()
    assert "holds shards of another run (other ladders)" in fails(2, *arguments, "--ladders", other)
    for path in prompts.rglob("*"):
        if path.is_file():
            path.write_text(path.read_text("utf-8").replace("Better", "Superior"), "utf-8")
    assert "holds shards of another run (other prompts)" in fails(2, *arguments)
    assert scored(out) == before


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "manifest",
            '{"shards": [{"name": 1}]}',
            "manifest.json: damaged; delete it and run the same `refladder score`",
        ),
        ("manifest", "[]", "manifest.json: damaged; delete it and run the same `refladder score`"),
        ("plan", "[" * 9999, "plan.json: damaged (RecursionError); start over with --restart"),
        ("plan", '{"schema": "shard-plan/1"}', "plan.json: damaged (ValidationError); start over with --restart"),
        ("marks/a-00000.jsonl", "[]", "a-00000.jsonl.json: damaged (TypeError); start over with --restart"),
    ],
)
def test_damaged_records_are_named(command, inputs, name, content, message):
    out = inputs.with_name("out")
    arguments = ("score", inputs, *LADDERS, "--out", out, "--shard-rows", "900")
    assert command(*arguments).code == 0
    (out / f".refladder/{name}.json").write_text(content, "utf-8")
    done = command("filter", out, "--min", "coherence_score=1") if name == "manifest" else command(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda mark: mark.update(scored=399),
            "b-00000.jsonl: 500 rows in, 399 scored and 0 unscored; delete this file and run the same command again",
        ),
        (
            lambda mark: mark["report"].update(signature="other"),
            "b-00000.jsonl: its scores are on another scale (other) than those of a-00000.jsonl (",
        ),
    ],
)
def test_marks_that_do_not_add_up_make_no_manifest(command, fails, inputs, change, message):
    out = inputs.with_name("out")
    arguments = ("score", inputs, *LADDERS, "--out", out)
    assert command(*arguments).code == 0
    path = out / ".refladder" / "marks" / "b-00000.jsonl.json"
    mark = json.loads(path.read_bytes())
    change(mark)
    path.write_text(json.dumps(mark), "utf-8")
    before = (out / ".refladder" / "manifest.json").read_bytes()
    assert f"{out}/{message}" in fails(2, *arguments)
    assert (out / ".refladder" / "manifest.json").read_bytes() == before


@pytest.mark.usefixtures("inline")
def test_a_shard_with_fewer_rows_out_than_in_has_failed(fails, inputs, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.fleet.shard_worker.score_rows", lambda *_, **__: ScoreReport(rows=3))
    text = fails(2, "score", inputs, *LADDERS, "--out", tmp_path / "out")
    assert f"{inputs}/a.jsonl, rows 1 to 700: 700 rows in, 3 rows out; run the same command again" in text


def test_a_finished_run_whose_judge_kills_its_worker_says_so(command, fails, inputs, monkeypatch):
    class Dying(Inline):
        def wait(self, tell):
            del tell
            return 0, None

    arguments = ("score", inputs, *LADDERS, "--out", inputs.with_name("out"))
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    assert command(*arguments).code == 0
    plan = inputs.with_name("out") / ".refladder" / "plan.json"
    plan.write_text(plan.read_text("utf-8").replace('"judge": "builtin"', '"judge": "another"'), "utf-8")
    assert command(*arguments).code == 0  # the judges have one signature
    monkeypatch.setattr("refladder.fleet.workers.Processes", Dying)
    text = fails(1, *arguments)
    assert "the worker died when it opened the judge; check its memory and its judge" in text


def test_counts_of_shards_add_up():
    report = ScoreReport(rows=3, unscored={"a": 1}, reasons={"x": 1}, judgments=9, signature="s")
    other = ScoreReport(rows=4, unscored={"a": 2, "b": 1}, judgments=5, signature="s")
    total = merged([report, other])
    assert (total.rows, total.unscored, total.judgments, total.signature) == (7, {"a": 3, "b": 1}, 14, "s")


def test_texts_beyond_the_ladders_add_up_over_shards_and_older_marks(tmp_path):
    ends = {"above_top": {"a": 2}, "judged_top": {"a": 5}, "below_bottom": {"a": 0}, "judged_bottom": {"a": 5}}
    both = ({"a": 1, "b": 0}, {"a": 3, "b": 3}, {"a": 3, "b": 3}, {"a": 3, "b": 3})
    reports = [ScoreReport(rows=5, **ends), ScoreReport(rows=3, **dict(zip(ends, both, strict=True)))]
    folder = open_folder(str(tmp_path))
    for number, report in enumerate([*reports, ScoreReport(rows=7)]):
        mark = Mark(name=f"s{number}", input="", output="", rows=1, scored=1, unscored=0, report=report)
        write(folder, mark_name(mark.name), mark)
    older = tmp_path / mark_name("s2")  # of a version that did not count them
    fields = json.loads(older.read_text("utf-8"))
    for name in ends:
        assert fields["report"].pop(name) == {}
    older.write_text(json.dumps(fields), "utf-8")
    marks = [read(folder, mark_name(f"s{number}"), Mark) for number in range(3)]
    total = merged([mark.report for mark in marks if mark is not None])
    assert total.rows == 15
    assert (total.above_top, total.judged_top) == ({"a": 3, "b": 0}, {"a": 8, "b": 3})  # of 8 texts, not of 15
    assert (total.below_bottom, total.judged_bottom) == ({"a": 3, "b": 3}, {"a": 8, "b": 3})


def test_workers_share_the_limits_of_an_endpoint():
    given = {"base_url": "http://127.0.0.1:1/v1", "requests_per_minute": "90", "max_concurrency": "10"}
    assert share_of_limits(given, 4) == {**given, "requests_per_minute": "22.5", "max_concurrency": "2"}
    assert share_of_limits({}, 200) == {"max_concurrency": "1"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--shard", "0/4"), "--shard '0/4': must be I/N, such as 1/8, with I from 1 to N"),
        (("--shard", "1/2", "--restart"), "--restart would discard the shards of other parts; delete"),
        (("--address", "auto"), "--address is that of a Ray cluster; add --engine ray"),
        (("--workers", "2", "--out-format", "csv"), "--out-format does not work with shards; leave it out"),
        (("--workers", "2", "--budget", "1"), "--budget needs the model's price; give a table of prices with --prices"),
        (("--workers", "2", "--judgments", "j.jsonl"), "--judgments j.jsonl: shards keep their judgments in --out"),
        (("--workers", "2", "--judge", "nothing"), "unknown backend 'nothing'"),
    ],
)
def test_options_that_do_not_fit_are_refused(fails, inputs, tmp_path, arguments, text):
    assert text in fails(2, "score", inputs, *LADDERS, "--out", tmp_path / "out", *arguments)
    assert not list(tmp_path.glob("out/*.jsonl"))


def test_inputs_that_cannot_be_divided_are_refused(fails, inputs, tmp_path):
    out = ("--out", tmp_path / "out", "--workers", "1")
    (tmp_path / "t.csv").write_text("output\nx\n", "utf-8")
    assert "t.csv: shards are made of JSON lines and Parquet, not CSV" in fails(
        2, "score", tmp_path / "t.csv", *LADDERS, *out
    )
    (tmp_path / "none.jsonl").touch()
    assert "none.jsonl: no rows to score" in fails(2, "score", tmp_path / "none.jsonl", *LADDERS, *out)
    assert "shards need a SOURCE that can be read twice" in fails(2, "score", "-", *LADDERS, *out)
    assert "shards need --out FOLDER" in fails(2, "score", inputs, *LADDERS, "--workers", "1")
    assert "x*.jsonl: no .jsonl, .csv or .parquet file there" in fails(
        2, "score", tmp_path / "x*.jsonl", *LADDERS, *out
    )
    (inputs / "c.csv").touch()
    assert "in: files of several formats (csv, jsonl); name one kind" in fails(2, "score", inputs, *LADDERS, *out)
    (tmp_path / "file").touch()
    text = fails(2, "score", inputs / "a.jsonl", *LADDERS, "--workers", "1", "--out", tmp_path / "file")
    assert "file: a file, and shards need a folder; name a folder" in text


def test_two_files_with_one_stem_are_refused(tmp_path):
    for name in ("sub/a.jsonl", "sub-a.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"context_id": "c", "output": "x"}\n', "utf-8")
    with pytest.raises(UsageError, match=r"the shards of this file and of .* would have one name; rename one"):
        make_plan(str(tmp_path / "**/*.jsonl"), None, Mapped(columns={}), shard_rows=5, settings={}, config={})


def test_a_url_without_its_package_says_what_to_install(fails, inputs, tmp_path):
    assert "the URL contains a password" in fails(
        2, "score", inputs, *LADDERS, "--out", "ftp://me:word@host/x", "--workers", "1"
    )
    pytest.importorskip("fsspec")
    text = fails(2, "score", "nothing://bucket/in.jsonl", *LADDERS, "--out", tmp_path / "o", "--workers", "1")
    assert text.startswith("refladder: nothing://bucket/in.jsonl: ")


def test_processes_take_the_visible_gpus_in_turn(monkeypatch):
    taken = []
    for worker in range(3):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
        _take_gpu(worker)
        taken.append(os.environ["CUDA_VISIBLE_DEVICES"])
    assert taken == ["3", "5", "3"]


@pytest.mark.usefixtures("inline")
def test_a_folder_of_shards_is_calibrated_as_one_table(command, tmp_path):
    rows, whole, shards = tmp_path / "rows.jsonl", tmp_path / "whole.jsonl", tmp_path / "shards"
    command("export", "demo/summarization", "--out", rows)
    ladders = ("--ladders", "demo/summarization", "--dimension", "relevance")
    command("score", rows, *ladders, "--out", whole)
    command("score", rows, *ladders, "--out", shards, "--shard-rows", "30")
    promised = ("--label", "relevance", "--good", ">=3", "--by", "relevance_score", "--precision", "0.8")
    threshold = tmp_path / "threshold.json"
    of_whole = command("calibrate", whole, *promised, "--json")
    of_shards = command("calibrate", shards, *promised, "--json", "--out", threshold)
    assert json.loads(of_shards.out) == json.loads(of_whole.out)
    assert json.loads(of_shards.out)["refused"] is False
    passed = [command("filter", table, "--threshold", threshold).rows for table in (whole, shards)]
    assert [row["output_id"] for row in passed[0]] == [row["output_id"] for row in passed[1]]


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
    Processes(4, gpus=False).start("{}")
    share = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "REFLADDER_WORKERS": "4"}
    assert started == [(_serve, share, True)] * 4


def test_rows_of_unfinished_shards_are_progress(inputs, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.fleet.shard_worker._EVERY", 0)
    told = []

    def open_workers(form):
        dimensions = ["coherence"]
        task = Task(
            folder=str(tmp_path / "out"),
            form=form,
            ladders="demo/story",
            version=load_ladders("demo/story").signature,
            dimensions=dimensions,
        )
        return Telling(), task

    class Telling(Inline):
        def __init__(self):
            pass

        def start(self, task):
            self.done = []
            self.worker = ShardWorker(task, self.done.append)

        def wait(self, tell):
            for rows in self.done:
                tell(0, rows)
            self.done.clear()
            return 0, self.answer

    score_shards(
        open_workers,
        str(inputs),
        str(tmp_path / "out"),
        mapped=Mapped(columns={}),
        sharding=Sharding(shard_rows=700),
        settings={},
        progress=lambda done, total: told.append((done, total)),
    )
    assert {total for _, total in told} == {1200}
    done = [rows for rows, _ in told]
    assert done == sorted(done)
    assert {0, 700, 1200} < set(done)  # and steps between: those of the batches


@pytest.fixture
def unfinished(command, inputs, tmp_path, monkeypatch):
    """A run at a URL that was interrupted when the judgments of its first shard were on this machine."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    out = f"file://{tmp_path}/out"
    line = ("score", inputs, *LADDERS, "--out", out, "--shard-rows", "400")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(ShardWorker, "_marked", interrupted)
        assert command(*line).code == 130
    [judgments] = (tmp_path / "tmp").rglob("judgments/*.jsonl")
    return line, judgments


def test_work_files_of_a_folder_at_a_url_are_for_their_user_alone(unfinished, tmp_path, monkeypatch):
    _, judgments = unfinished
    ours = next(folder for folder in judgments.parents if folder.parent == tmp_path / "tmp")
    assert ours.stat().st_mode & 0o777 == 0o700
    other = ours.stat().st_uid + 1
    monkeypatch.setattr("os.getuid", lambda: other)
    ours.rename(ours.with_name(f"refladder-{os.getuid()}"))
    with pytest.raises(DataError, match=r"belongs to another user; set TMPDIR to a folder of yours$"):
        open_folder(f"file://{tmp_path}/out").work_file("a.jsonl")


def test_restart_at_a_url_asks_again_what_a_killed_run_left_on_this_machine(command, unfinished):
    line, _ = unfinished
    assert json.loads(command(*line, "--json").out)["reused"] == 2000  # 400 rows x 5 rungs
    assert json.loads(command(*line, "--restart", "--json").out)["reused"] == 0


def test_restart_at_a_url_discards_judgments_of_an_unfinished_run(command, unfinished):
    line, _ = unfinished
    assert json.loads(command(*line, "--restart", "--json").out)["reused"] == 0


def test_judgments_that_another_run_left_on_this_machine_do_not_stop_one(command, unfinished, tmp_path):
    line, _ = unfinished
    shutil.rmtree(tmp_path / "out")  # as for a run elsewhere, or after the bucket was emptied
    done = command(*line, "--both-orders", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["shards"]["scored"] == 1200
