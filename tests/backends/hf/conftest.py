"""Tiny random models of many architectures, with tokenizers trained on the spot, saved as folders."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import pytest
from hf_unit import ARTICLE, OUTPUTS, RUNGS, compare

from refladder.backends import connect


@pytest.fixture(scope="session")
def prompts():
    """One unit of work: an article, 3 rungs, 3 outputs."""
    return [compare(ARTICLE, rung, output) for rung in RUNGS for output in OUTPUTS]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A function from the name of a tiny model to the folder that holds it; each is built on first use."""
    pytest.importorskip("torch", reason="torch is not installed; pip install torch transformers")
    pytest.importorskip(
        "transformers", reason="transformers is not installed; pip install torch transformers"
    )
    import tiny_models
    import torch

    torch.set_num_threads(1)
    return tiny_models.saved_in(tmp_path_factory)


@pytest.fixture(scope="session")
def opened(folder):
    """A tiny model as a backend in float32; one for all tests that change nothing in it."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = connect(f"hf:{folder(name)}", dtype="float32", memory="2G")
        return made[name]

    return get
