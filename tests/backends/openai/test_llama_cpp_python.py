"""llama-cpp-python's server with tiny models trained on the spot: pytest -m llama; needs the package gguf too.

REFLADDER_TEST_GGUF=FILE asks a small chat model of yours instead, in the tests that hold for any. The readings are
those of `hf`, which reads as a plain loop does, to .002 in probability in float32; with a file of yours to .1, since
llama.cpp rounds what is multiplied with packed weights to 8 bits and `hf` unpacks them: see test_real_model.py.
"""

import math
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from asked import LABELS, question, questions, unavailable
from served import started

from refladder.backends import connect
from refladder.backends.openai.client import QUESTIONS
from refladder.errors import LabelsUnavailableError
from refladder.records import Sampling

pytestmark = pytest.mark.llama
GIVEN = os.environ.get("REFLADDER_TEST_GGUF", "")


@contextmanager
def serving(model, folder):
    pytest.importorskip("llama_cpp", reason="pip install 'llama-cpp-python[server]'")
    options = "--model_alias small --logits_all true --n_ctx 512 --n_threads 1 --host 127.0.0.1"
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(model), *options.split()]
    with started(command, folder / "serve.txt", health="/v1/models") as url:
        yield url


def trained(folder, chats):
    """A model as a folder and, beside it, as a GGUF file."""
    if GIVEN:
        pytest.skip("for the models trained here; run without REFLADDER_TEST_GGUF")
    for package in ("torch", "transformers", "gguf"):
        pytest.importorskip(package)
    import gguf_model
    import trained_model

    saved = trained_model.save(folder / "model", questions(6), chats(trained_model.CHATS))
    gguf_model.save(saved, folder / "model.gguf")
    return saved, folder / "model.gguf"


@pytest.fixture(scope="module")
def sharp(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("sharp"), lambda chats: chats)


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    if GIVEN and not Path(GIVEN).is_file():
        pytest.skip("REFLADDER_TEST_GGUF names no file; it needs a small chat model in GGUF")
    model = GIVEN or request.getfixturevalue("sharp")[1]
    with serving(model, tmp_path_factory.mktemp("log")) as url:
        yield url


def small(url, **options):
    return connect("openai:small", base_url=url, max_concurrency="2", **options)


def test_labels_from_the_most_probable_tokens(server):
    backend = small(server)
    assert " top" in backend.fingerprint
    assert backend.fingerprint.endswith("-completed")
    readings = backend.read_labels(questions(3), LABELS)
    assert any(reading.logprobs is not None for reading in readings)
    for reading in readings:
        if reading.logprobs is not None:
            assert sum(map(math.exp, reading.logprobs)) <= 1 + 1e-6
    assert backend.read_labels(questions(3), LABELS) == readings


@pytest.fixture(scope="module")
def local(request):
    """The same weights, read here."""
    model = GIVEN or request.getfixturevalue("sharp")[0]
    return connect(f"hf:{model}", dtype="float32", prefix="none")


def test_it_reads_what_the_local_backend_reads_from_the_same_weights(server, local):
    # the last is trained to be better and worse, half and half
    prompts = [*questions(6), question("both")]
    words = [each for label in LABELS for each in (label, label.lower())]
    spelt = [space + word for word in words for space in ("", " ")]
    there, here = small(server).read_labels(prompts, LABELS), local.read_labels(prompts, spelt)
    pairs = [pair for pair in zip(there, here, strict=True) if pair[0].logprobs is not None]
    assert pairs if GIVEN else len(pairs) == len(prompts)
    for reading, expected in pairs:
        shares = [math.exp(value) for value in reading.logprobs]
        spellings = [math.exp(value) for value in expected.logprobs]
        exact = [sum(spellings[first : first + 4]) for first in (0, 4, 8)]  # of each label
        print(shares, exact)  # noqa: T201  shown with -s
        # spellings under 0.1 % are left out
        assert shares == pytest.approx(exact, abs=0.1 if GIVEN else 2e-3)
    if not GIVEN:
        assert all((reading.exactness, reading.note) == ("exact", None) for reading in there)
        for place, reading in enumerate(there[:6]):
            assert reading.logprobs[place % 3] > math.log(0.9)
        both = [math.exp(value) for value in there[6].logprobs[:2]]
        assert both == pytest.approx([0.5, 0.5], abs=0.1)


def test_a_model_that_ends_its_first_answer_at_once_is_read_all_the_same(tmp_path):
    (first,) = QUESTIONS[0]
    _, model = trained(tmp_path, lambda chats: [(first["content"], ""), *chats[1:]])
    with serving(model, tmp_path) as url:
        backend = small(url)
        assert backend.fingerprint.endswith("-completed")
        readings = backend.read_labels(questions(3), LABELS)
    for place, reading in enumerate(readings):
        assert reading.logprobs[place] > math.log(0.9)


def test_a_model_that_says_nothing_is_refused(tmp_path):
    _, model = trained(tmp_path, lambda chats: [(text, "") for text, _ in chats])
    message = "'small' gave an empty answer to each of 3 test questions"
    with serving(model, tmp_path) as url, unavailable(message):
        _ = small(url).fingerprint


def test_several_answers_to_one_request_are_not_believed(server):
    assert not small(server, mode="sample").capabilities.several  # it takes n and gives one


def test_exact_reading_is_impossible(server):
    message = "'small' does not support the requested mode exact"
    with pytest.raises(LabelsUnavailableError, match=message):
        _ = small(server, mode="exact").fingerprint


def test_texts(server):
    (text,) = small(server).write(questions(1), Sampling(max_tokens=8))
    assert text.finish in {"stop", "length"}
    assert text.text
