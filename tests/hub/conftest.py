"""A hub of the tests' own, used with the real clients, and small ladder sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import hub_for_clients
from ladders_to_publish import CONTEXTS, DIMENSIONS, ladders_of

from refladder.files.ladder_sets import write_ladder_set

pytest.importorskip("huggingface_hub")
pytest.importorskip("datasets")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    """A running hub; the clients in this process and in others use it, with a token that may write."""
    with hub_for_clients(tmp_path, monkeypatch) as server:
        yield server


@pytest.fixture
def python():
    """Run Python code in a process of its own, as another user of the hub, and return what it prints."""

    def go(code, **environment):
        done = subprocess.run(
            [sys.executable, "-c", code],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return go


@pytest.fixture
def built(tmp_path):
    """Write a ladder set as `refladder build` leaves it, with the files that are nobody else's business."""

    def write(name="mine", failures=(), contexts=CONTEXTS, **changes):
        folder = tmp_path / name
        write_ladder_set(folder, DIMENSIONS, contexts, ladders_of(**changes), failures)
        (folder / "build.journal.jsonl").write_text("the journal", "utf-8")
        (folder / "run.json").write_text('{"options": {"out": "/secret/path"}}', "utf-8")
        (folder / ".lock").write_text("locked", "utf-8")
        return folder

    return write


@pytest.fixture
def outputs(write_jsonl):
    """Rows to score against the sets of `built`."""
    texts = ("A keeper finds a bottle.", "The bottle holds a letter, and he weeps.", "", "Rocks.")
    rows = [
        {"output_id": f"o{number}", "context_id": f"c{number % 3 + 1}", "output": text}
        for number, text in enumerate(texts)
    ]
    return write_jsonl(rows)
