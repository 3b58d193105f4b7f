"""Tiny random models of many architectures, saved as folders."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

import pytest


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
