"""Two runs that would keep their answers in the same place: the second is refused before it asks for anything."""

from __future__ import annotations

import os
import shlex
import signal
import socket
from pathlib import Path

import pytest
from json_lines import read_lines
from waiting import HANG, count_lines, until

REPOSITORY = Path(__file__).parents[2]

# A model whose answers vary from call to call, as a server's do. From its second call on it waits while the file HOLD
# exists, so that a run can be met in the middle. It makes the file HOLD.met when it begins to wait.
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
            open(os.environ["HOLD"] + ".met", "w").close()
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
    return Varying()

main(sys.argv[1:])
"""


SCORE = "score in.jsonl --ladders demo/story --judge varying --out out.jsonl"
MODELS = "--model a=varying --model b=varying --judge varying --criterion quality=good"
# What each command writes at its end, and the file that keeps answers meanwhile.
COMMANDS = {
    SCORE: ("out.jsonl", "out.jsonl.judgments.jsonl"),
    "build demo/story --writer varying --out set": ("set", "set/build.journal.jsonl"),
    f"compete in.jsonl --prompt-text 'Go on: {{output}}' {MODELS} --id output_id --out contest": (
        "contest",
        "contest/generated.jsonl",
    ),
    "evaluate demo/story --ladders demo/story --judge varying --resamples 20 --work work": (
        "work",
        "work/judgments.jsonl",
    ),
}


@pytest.fixture
def folder(tmp_path, write_jsonl, rows, monkeypatch):
    """The folder that commands run in, with a table of 40 rows."""
    write_jsonl(rows(40))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def hold(tmp_path):
    """A file that keeps models waiting while it exists."""
    path = tmp_path / "hold"
    path.touch()
    return path


@pytest.fixture
def start(process, folder, hold):
    """Start a command with the driver; whatever still runs at the end of a test is killed."""
    started = []

    def go(line):
        paths = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": paths, "HOLD": str(hold)}
        words = shlex.split(line)
        started.append(process(*words, driver=("-c", DRIVER), env=environment, cwd=folder))
        return started[-1]

    yield go
    for each in started:
        each.kill()
        each.communicate()


@pytest.fixture
def refused(fails, monkeypatch):
    """Run a command here while another process has its files: it opens no backend, so it asks for nothing."""

    def unopened(*_arguments, **_options):
        raise AssertionError("a backend was opened")

    def go(line, place, first):
        monkeypatch.setattr("refladder.session.Session.open", unopened)
        text = fails(2, line.replace("varying", "builtin"))
        holder = f"process {first.pid} on host {socket.gethostname()} has been writing it since 20"
        assert text.startswith(f"refladder: {place}: {holder}")
        assert text.endswith(" UTC; wait for it to finish, or choose another path\n")

    return go


@pytest.mark.parametrize("line", COMMANDS)
def test_the_second_run_is_refused_until_kill_9_frees_the_lock(start, refused, folder, hold, line):
    place, name = COMMANDS[line]
    kept = folder / name
    first = start(line)
    until(Path(f"{hold}.met").exists, first)
    before = kept.read_bytes()
    assert count_lines(kept) > 1
    refused(line, place, first)
    assert kept.read_bytes() == before

    first.send_signal(signal.SIGKILL)
    first.communicate()
    hold.unlink()
    again = start(line)
    _, err = again.communicate(timeout=HANG)
    assert again.returncode in {0, 3}, err.decode()
    assert kept.read_bytes().startswith(before)
    assert all(read_lines(kept))
    assert not list(folder.rglob(".*"))


def test_the_scores_of_the_first_run_are_those_of_its_judgments(start, refused, command, folder):
    first = start(SCORE)
    kept = folder / "out.jsonl.judgments.jsonl"
    until((folder / "hold.met").exists, first)
    refused(SCORE, "out.jsonl", first)
    refused(f"{SCORE} --judgments other.jsonl", "out.jsonl", first)
    (folder / "link.jsonl").symlink_to(folder / "out.jsonl")
    refused(SCORE.replace("out.jsonl", "link.jsonl"), "link.jsonl", first)

    (folder / "hold").unlink()
    _, err = first.communicate(timeout=HANG)
    assert first.returncode == 0, err.decode()
    again = command(f"rescore {kept}")
    assert again.code == 0
    scored = read_lines(folder / "out.jsonl")
    assert len(scored) == 40
    scores = [[row["coherence_score"] for row in rows] for rows in (again.rows, scored)]
    assert scores[0] == scores[1]


def test_a_refused_run_leaves_no_empty_folder(fails, stories, tmp_path):
    out = tmp_path / "new" / "folder" / "out.jsonl"
    fails(2, f"score {stories} --ladders demo/story --judge nobody --out {out}")
    assert not (tmp_path / "new").exists()
