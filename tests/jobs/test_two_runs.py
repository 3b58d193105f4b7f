"""Two runs that would keep their answers in the same place: the second is refused before it asks for anything."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest
from waiting import HANG, count_lines, until

# A model whose answers vary from call to call, as a server's do, and which notes that it was opened. From its second
# call on it waits while the file HOLD exists, so that a run can be met in the middle.
DRIVER = """
import os, random, sys, time
from refladder import backends
from refladder.backends.builtin import Builtin
from refladder.commands.main import main
from refladder.registry import Entry
from refladder.records import Completion, LabelReading

class Varying(Builtin):
    calls = 0

    def wait(self):
        self.calls += 1
        while self.calls > 1 and os.path.exists(os.environ["HOLD"]):
            time.sleep(0.02)

    def write(self, prompts, sampling):
        self.wait()
        return [Completion(text=f"Text {random.random()} of a keeper who read the letter.") for _ in prompts]

    def read_labels(self, prompts, labels):
        if len(prompts) != 48:  # the check of the judge: 12 ladders, 2 dimensions, 2 orders
            self.wait()
        varied = []
        for reading in super().read_labels(prompts, labels):
            logprobs = tuple(each - 0.5 - 0.01 * random.random() for each in reading.logprobs)
            varied.append(LabelReading(logprobs=logprobs, mass=0.6))
        return varied

backends.BACKENDS["varying"] = Entry("__main__:open_varying", "")

def open_varying(target):
    open(os.environ["OPENED"], "a").write("opened ")
    return Varying()

main(sys.argv[1:])
"""


def score(folder, source):
    out = folder / "out.jsonl"
    return ["score", source, "--ladders", "demo/story", "--judge", "varying", "--out", out], out


def build(folder, _source):
    out = folder / "set"
    return ["build", "demo/story", "--writer", "varying", "--out", out], out


def compete(folder, source):
    out = folder / "contest"
    models = [
        "--model",
        "a=varying",
        "--model",
        "b=varying",
        "--judge",
        "varying",
        "--criterion",
        "quality=good",
    ]
    return [
        "compete",
        source,
        "--prompt-text",
        "Go on: {output}",
        *models,
        "--out",
        out,
        "--id",
        "output_id",
    ], out


def evaluate(folder, _source):
    out = folder / "work"
    line = "evaluate demo/story --ladders demo/story --judge varying --resamples 20 --work"
    return [*line.split(), out], out


COMMANDS = {"score": score, "build": build, "compete": compete, "evaluate": evaluate}
KEPT = {
    "score": "out.jsonl.judgments.jsonl",
    "build": "set/build.journal.jsonl",
    "compete": "contest/generated.jsonl",
    "evaluate": "work/judgments.jsonl",
}


@pytest.fixture
def hold(tmp_path):
    """A file that keeps models waiting while it exists."""
    path = tmp_path / "hold"
    path.touch()
    return path


@pytest.fixture
def start(process, tmp_path, hold):
    """Start a command with the driver; whatever still runs at the end of a test is killed."""
    started = []

    def go(arguments, name):
        environment = {**os.environ, "OPENED": str(tmp_path / name), "HOLD": str(hold)}
        started.append(process(*arguments, driver=("-c", DRIVER), env=environment))
        return started[-1]

    yield go
    for each in started:
        each.kill()
        each.communicate()


def wait_for(path, started):
    """Until the file holds more than its first line."""
    until(lambda: count_lines(path) > 1, started)


def hidden(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*"))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_second_run_is_refused_and_the_first_is_intact(  # noqa: PLR0917
    start, hold, write_jsonl, rows, tmp_path, name
):
    arguments, place = COMMANDS[name](tmp_path, write_jsonl(rows(100)))
    first = start(arguments, "first")
    kept = tmp_path / KEPT[name]
    wait_for(kept, first)
    before = kept.read_bytes()

    second = start(arguments, "second")
    out, err = second.communicate(timeout=HANG)
    assert (second.returncode, out) == (2, b"")
    assert err.decode().startswith(
        f"refladder: {place}: process {first.pid} on host {socket.gethostname()} has been writing it since 20"
    )
    assert err.decode().endswith(" UTC; wait for it to finish, or choose another path\n")
    assert not (tmp_path / "second").exists()  # no backend was opened, so nothing was asked

    hold.unlink()
    out, err = first.communicate(timeout=HANG)
    assert first.returncode in {0, 3}, err.decode()
    assert kept.read_bytes().startswith(before)
    assert all(json.loads(line) for line in kept.read_bytes().splitlines())
    assert hidden(tmp_path) == []


def test_the_scores_of_the_first_run_are_those_of_its_judgments(  # noqa: PLR0917
    start, hold, command, write_jsonl, rows, tmp_path
):
    arguments, out = score(tmp_path, write_jsonl(rows(100)))
    first = start(arguments, "first")
    kept = Path(f"{out}.judgments.jsonl")
    wait_for(kept, first)
    second = start(arguments, "second")
    assert second.wait(timeout=HANG) == 2
    hold.unlink()
    _, err = first.communicate(timeout=HANG)
    assert first.returncode == 0, err.decode()
    again = command("rescore", kept)
    assert again.code == 0
    scores = [json.loads(line)["coherence_score"] for line in out.read_text().splitlines()]
    assert [row["coherence_score"] for row in again.rows] == scores
    assert len(scores) == 100


@pytest.mark.parametrize("name", COMMANDS)
def test_kill_9_frees_the_lock(start, hold, write_jsonl, rows, tmp_path, name):  # noqa: PLR0917  fixtures
    arguments, _ = COMMANDS[name](tmp_path, write_jsonl(rows(100)))
    first = start(arguments, "first")
    wait_for(tmp_path / KEPT[name], first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    hold.unlink()
    again = start(arguments, "again")
    _, err = again.communicate(timeout=HANG)
    assert again.returncode in {0, 3}, err.decode()
    assert hidden(tmp_path) == []


def test_other_judgments_but_the_same_output_are_refused(start, write_jsonl, rows, tmp_path):
    arguments, out = score(tmp_path, write_jsonl(rows(100)))
    first = start(arguments, "first")
    wait_for(Path(f"{out}.judgments.jsonl"), first)
    second = start([*arguments, "--judgments", tmp_path / "other.jsonl"], "second")
    _, err = second.communicate(timeout=HANG)
    assert second.returncode == 2
    assert err.decode().startswith(f"refladder: {out}: process {first.pid} on host ")


def test_a_link_to_the_output_is_the_same_output(start, write_jsonl, rows, tmp_path):
    arguments, out = score(tmp_path, write_jsonl(rows(100)))
    first = start(arguments, "first")
    wait_for(Path(f"{out}.judgments.jsonl"), first)
    link = tmp_path / "link.jsonl"
    link.symlink_to(out)
    second = start([*arguments[:-1], link], "second")
    _, err = second.communicate(timeout=HANG)
    assert second.returncode == 2
    assert err.decode().startswith(f"refladder: {link}: process {first.pid} on host ")


def test_a_refused_run_leaves_no_empty_folder(command, stories, tmp_path):
    out = tmp_path / "new" / "folder" / "out.jsonl"
    done = command("score", stories, "--ladders", "demo/story", "--judge", "nobody", "--out", out)
    assert done.code == 2
    assert not (tmp_path / "new").exists()
