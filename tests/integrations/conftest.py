"""Tests with other packages, in an environment of their own: `make test-integrations`."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when huggingface_hub is imported

import pytest
from story_texts import CONTEXT_IDS, TEXTS


def pytest_collection_modifyitems(items):
    """Warnings of the other packages about themselves are no errors here."""
    for item in items:
        if "integrations" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture
def expected(command):
    """What the command line gives for the texts that can be scored, and its signature."""
    rows = []
    for context_id, text in zip(CONTEXT_IDS[:2], TEXTS, strict=False):
        line = f"score --ladders demo/story --context-id {context_id} --json --text"
        rows += command(line, text).rows
    return rows
