"""Tiny random models of many architectures, with tokenizers trained on the spot, saved as folders."""

import pytest
from hf_unit import ARTICLE, OUTPUTS, RUNGS, compare, folder  # noqa: F401  a fixture

from refladder.backends import connect


@pytest.fixture(scope="session")
def prompts():
    """One unit of work: an article, 3 rungs, 3 outputs."""
    return [compare(ARTICLE, rung, output) for rung in RUNGS for output in OUTPUTS]


@pytest.fixture(scope="session")
def opened(folder):  # noqa: F811  a fixture
    """A tiny model as a backend in float32; one for all tests that change nothing in it."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = connect(f"hf:{folder(name)}", dtype="float32", memory="2G")
        return made[name]

    return get
