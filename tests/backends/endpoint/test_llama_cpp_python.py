"""llama-cpp-python's server with a small chat model of yours: REFLADDER_TEST_GGUF=FILE pytest -m llama."""

import math
import os
import sys
from pathlib import Path

import pytest
from asked import LABELS, questions
from test_real_servers import started

from refladder.backends import connect
from refladder.errors import LabelsUnavailableError
from refladder.records import Sampling

pytestmark = pytest.mark.llama


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed; pip install 'llama-cpp-python[server]'")
    model = os.environ.get("REFLADDER_TEST_GGUF", "")
    if not Path(model).is_file():
        pytest.skip("REFLADDER_TEST_GGUF names no file; a small chat model in the GGUF format is needed")
    log = tmp_path_factory.mktemp("log") / "serve.txt"
    command = [sys.executable, "-m", "llama_cpp.server", "--model", model, "--model_alias", "small"]
    with started([*command, "--logits_all", "true", "--host", "127.0.0.1"], log, health="/v1/models") as url:
        yield url


def test_labels_from_the_most_probable_tokens(server):
    backend = connect("openai:small", base_url=server, max_concurrency="2")
    assert " top" in backend.fingerprint
    readings = backend.read_labels(questions(3), LABELS)
    assert any(reading.logprobs is not None for reading in readings)
    for reading in readings:
        if reading.logprobs is not None:
            assert sum(map(math.exp, reading.logprobs)) <= 1 + 1e-6
    assert backend.read_labels(questions(3), LABELS) == readings


def test_several_answers_to_one_request_are_not_believed(server):
    assert not connect("openai:small", base_url=server, mode="sample").probe.several  # it takes n and gives one


def test_exact_reading_is_impossible(server):
    with pytest.raises(LabelsUnavailableError, match="mode exact was demanded and 'small' cannot be read that way"):
        _ = connect("openai:small", base_url=server, mode="exact").fingerprint


def test_texts(server):
    (text,) = connect("openai:small", base_url=server).write(questions(1), Sampling(max_tokens=8))
    assert text.finish in {"stop", "length"}
    assert text.text
