"""One set of weights, trained on the spot: read here, through the toy server, and through `transformers serve`."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from asked import LABELS, questions, to
from served import started
from toy_server import LLAMA_SERVER, SGLANG, VLLM, Quirks, ToyServer

from refladder.backends import connect
from refladder.errors import LabelsUnavailableError
from refladder.records import Sampling
from refladder.testing import check_backend

for package in ("torch", "transformers"):
    pytest.importorskip(package)

import trained_model  # noqa: E402  imports torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained_model.save(tmp_path_factory.mktemp("model"), questions(6))


@pytest.mark.parametrize("quirks", [VLLM, SGLANG, LLAMA_SERVER])
def test_a_server_reads_what_the_local_backend_reads(folder, quirks):
    local = connect(f"hf:{folder}", dtype="float32")
    prompts = questions(2) + [replace(prompt, prefix='Answer: "') for prompt in questions(2)]
    with ToyServer(quirks, trained_model.SavedModel(folder)) as server:
        backend = to(server)
        assert backend.capabilities.mode == "exact"
        readings = backend.read_labels(prompts, LABELS)
    for here, there in zip(local.read_labels(prompts, LABELS), readings, strict=True):
        assert there.logprobs == pytest.approx(here.logprobs, abs=1e-3)


def test_tokens_from_the_models_own_tokenizer_serve_where_the_server_has_none(folder):
    model, prompts = trained_model.SavedModel(folder), questions(3)
    sent = [model.encode(model.render(prompt.messages)) for prompt in prompts]
    # vLLM behind a gateway that lets only the two main paths through
    with ToyServer(Quirks(token_ids=True), model) as server:
        backend = to(server, tokenizer=folder)
        assert backend.fingerprint.endswith(" exact:token-ids")
        for ids, reading in zip(sent, backend.read_labels(prompts, LABELS), strict=True):
            expected = [model.label(ids, label) for label in LABELS]
            assert reading.logprobs == pytest.approx(expected, abs=1e-9)
        writing = [replace(prompt, labels=()) for prompt in prompts]
        assert backend.count_tokens(writing) == list(map(len, sent))


@pytest.fixture(scope="module")
def url(folder, tmp_path_factory):
    """A server that others wrote."""
    for package in ("fastapi", "uvicorn", "accelerate"):
        pytest.importorskip(package)
    program = Path(sys.executable).with_name("transformers")
    command = [program, "serve", folder, "--host", "127.0.0.1", "--device", "cpu"]
    with started(command, tmp_path_factory.mktemp("log") / "serve.txt") as url:
        yield url


def test_transformers_serve_gives_votes_and_texts(url, folder):
    backend = connect(f"openai:{folder}", base_url=url, max_concurrency="2")
    print(backend.notice)  # noqa: T201  shown with -s: what this version of the server can do
    assert backend.fingerprint.endswith(" sample1-fixed-shares")
    readings = backend.read_labels(questions(6), LABELS)
    votes = [
        max(range(3), key=reading.logprobs.__getitem__)
        for reading in readings
        if reading.logprobs is not None
    ]
    assert votes == [place % 3 for place in range(6)]  # as it was trained
    texts = backend.write(questions(3), Sampling(max_tokens=8))
    assert [text.text for text in texts] == ["Better", "Worse", "Similar"]
    assert all(text.finish == "stop" for text in texts)
    check_backend(backend)


@pytest.mark.parametrize("mode", ["exact", "top"])
def test_transformers_serve_has_no_log_probabilities(url, folder, mode):
    with pytest.raises(LabelsUnavailableError, match=f"does not support the requested mode {mode}"):
        _ = connect(f"openai:{folder}", base_url=url, mode=mode).fingerprint
