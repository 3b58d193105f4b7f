"""A hub of the tests' own, used with the real clients, and small ladder sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import WRITER, Hub
from ladders_to_publish import CONTEXTS, DIMENSIONS, ladders_of

from refladder.files import hub as hub_module
from refladder.files.ladder_sets import write_ladder_set

constants = pytest.importorskip("huggingface_hub.constants")
pytest.importorskip("datasets")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    """A running hub; the clients in this process and in others use it, with a token that may write."""
    with Hub(tmp_path / "hub") as server:
        names = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": WRITER}
        for name, value in {**names, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # which the tests of local models set
        # The clients read these once, when they are imported.
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        hub_module._report_moving.cache_clear()
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
