"""One set of weights, read over a server and read here: the label log-probabilities must be the same."""

from dataclasses import replace

import pytest
from asked import LABELS, questions, to
from toy_server import LLAMA_SERVER, SGLANG, VLLM, Quirks, ToyServer

from refladder.backends import BACKENDS, connect


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    for package in ("torch", "transformers"):
        pytest.importorskip(
            package, reason=f"{package} is not installed; pip install torch transformers"
        )
    import trained_model

    return trained_model.save(tmp_path_factory.mktemp("model"), questions(6))


@pytest.mark.parametrize("quirks", [VLLM, SGLANG, LLAMA_SERVER])
def test_a_server_reads_what_the_local_backend_reads(folder, quirks):
    if "hf" not in BACKENDS:
        pytest.skip("there is no local backend to compare with")
    from trained_model import SavedModel

    local = connect(f"hf:{folder}", dtype="float32")
    with ToyServer(quirks, SavedModel(folder)) as server:
        backend = to(server)
        assert backend.capabilities.mode == "exact"
        prompts = questions(2) + [replace(prompt, prefix='Answer: "') for prompt in questions(2)]
        for here, there in zip(
            local.read_labels(prompts, LABELS), backend.read_labels(prompts, LABELS), strict=True
        ):
            assert there.logprobs == pytest.approx(here.logprobs, abs=1e-3)


def test_tokens_from_the_models_own_tokenizer_serve_where_the_server_has_none(folder):
    from trained_model import SavedModel

    plain = Quirks(
        token_ids=True
    )  # vLLM behind a gateway that lets only the two main paths through
    model = SavedModel(folder)
    with ToyServer(plain, model) as server:
        backend = to(server, tokenizer=folder)
        assert backend.fingerprint.endswith(" exact:token-ids")
        prompts = questions(3)
        for prompt, reading in zip(prompts, backend.read_labels(prompts, LABELS), strict=True):
            ids = model.encode(model.render(prompt.messages))
            assert reading.logprobs == pytest.approx(
                [model.label(ids, label) for label in LABELS], abs=1e-9
            )
        writing = [replace(prompt, labels=()) for prompt in prompts]
        assert backend.count_tokens(writing) == [
            len(model.encode(model.render(prompt.messages))) for prompt in prompts
        ]
