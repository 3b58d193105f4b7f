"""Opening a model, and everything that can be wrong with it, a row or the machine."""

import ctypes
import json
import logging
import os
import re
import shutil
import sys

import numpy as np
import pytest
from hf_unit import ARTICLE, LABELS, compare

from refladder.backends import connect
from refladder.backends.hf import loading
from refladder.backends.hf.loading import operations_per_second, parse_memory
from refladder.engine.causal import Causal
from refladder.engine.trie import Read
from refladder.errors import BackendUnavailableError, ExitCode, UnknownNameError, UsageError
from refladder.records import Sampling

LONG = "A storm closed the harbour of Lerwick. " * 400


def unavailable(message):
    return pytest.raises(BackendUnavailableError, match=message)


def read(backend, prompts):
    return [reading.logprobs for reading in backend.read_labels(prompts, LABELS)]


def test_missing_libraries_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    needs = r"needs torch and transformers, .* run: pip install torch transformers$"
    with unavailable(needs) as raised:
        connect("hf:org/model")
    assert raised.value.exit_code == ExitCode.MISUSED


def test_reading_the_weights_asks_for_huge_pages_unless_the_user_set_otherwise(folder, monkeypatch):
    monkeypatch.delenv("THP_MEM_ALLOC_ENABLE", raising=False)
    backend = connect(f"hf:{folder('llama')}")
    assert "THP_MEM_ALLOC_ENABLE" not in os.environ
    backend.load()
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == "1"
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", "0")
    connect(f"hf:{folder('llama')}").load()
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == "0"


def test_the_engine_alone_changes_no_setting_of_the_process(folder, monkeypatch):
    transformers = pytest.importorskip("transformers")
    monkeypatch.delenv("THP_MEM_ALLOC_ENABLE", raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: pytest.fail("a setting of glibc"))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder("llama")).eval()
    Causal(model, "float32", 2**30).logprobs([[1, 2, 3]], [Read(0, 2, 1)])
    assert "THP_MEM_ALLOC_ENABLE" not in os.environ
    # the backend does change them
    with pytest.raises(pytest.fail.Exception, match="a setting of glibc"):
        connect(f"hf:{folder('llama')}").load()


NOT_THERE = "hf:no-such-org/no-such-model: no folder has this name, and the Hub did not return it:"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "no model was named; pass hf:ORG/MODEL or hf:FOLDER"),
        ("/no/such/folder", "hf:/no/such/folder: no such folder; pass hf:FOLDER or hf:ORG/MODEL"),
        ("./here", "hf:./here: no such folder"),
        ("no-such-org/no-such-model", f"{NOT_THERE} .*hf auth login"),
    ],
)
def test_a_missing_model_says_what_to_type(target, message):
    with unavailable(message):
        connect(f"hf:{target}")


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder("llama"), tmp_path / "copy")


DEVICE = "device=gpu9: torch has no such device here; use cpu, cuda or cuda:NUMBER"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "x"}, "dtype=x: must be one of auto, float32, bfloat16, float16"),
        ({"device": "gpu9"}, DEVICE),
        ({"truncate_context": "yes"}, "truncate_context=yes: must be true or false"),
        ({"prefix": "yes"}, "prefix=yes: must be template or none"),
    ],
)
def test_an_option_with_a_wrong_value_is_refused(folder, options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        connect(f"hf:{folder('llama')}", **options)


def test_an_unknown_option_is_refused_with_the_near_name():
    with pytest.raises(UnknownNameError, match="did you mean 'truncate_context'"):
        connect("hf:org/model", truncate_contxt="true")


def test_the_fingerprint_follows_what_can_change_an_answer(folder, copy):
    def digest(path, dtype="float32", **options):
        """All after the name of the folder."""
        return connect(f"hf:{path}", dtype=dtype, **options).fingerprint.partition("@")[2]

    first = digest(folder("llama"))
    assert re.fullmatch(r"[0-9a-f]{12},float32,template:[0-9a-f]{8},prefix:on", first)
    assert digest(copy) == first
    weights = copy / "model.safetensors"
    changed = bytearray(weights.read_bytes())
    changed[-1] ^= 1
    weights.write_bytes(bytes(changed))
    others = [digest(copy), digest(copy, "bfloat16")]
    others.append(digest(copy, "bfloat16", truncate_context="true"))
    assert len({first, *others}) == 4


def test_a_prompt_that_is_too_long_is_an_unreadable_row_with_both_lengths(opened, prompts):
    found = opened("llama").read_labels([prompts[0], compare(LONG, "A.", "B."), prompts[1]], LABELS)
    assert found[1].logprobs is None
    assert re.fullmatch(
        r"the compare prompt has [\d,]+ tokens and llama\d* takes 2,048; shorten the texts, use a model with a longer "
        r"context, or pass --truncate-context \(option truncate_context=true\)",
        found[1].reason,
    )
    others = [found[0].logprobs, found[2].logprobs]
    np.testing.assert_allclose(others, read(opened("llama"), prompts[:2]), atol=1e-5)


def test_truncate_context_cuts_the_context_alone_and_marks_the_row(folder, prompts):
    backend = connect(f"hf:{folder('llama')}", dtype="float32", truncate_context="true")
    cut, whole = backend.read_labels([compare(LONG, "A.", "B."), prompts[0]], LABELS)
    found = re.fullmatch(r"the context was cut from 15,600 to ([\d,]+) characters to fit", cut.note)
    assert (cut.cut, whole.cut) == (True, False)
    assert whole.note is None
    kept = int(found[1].replace(",", ""))
    same = backend.read_labels([compare(LONG[:kept].rstrip(), "A.", "B.")], LABELS)[0]
    assert same.note is None
    assert same.logprobs == pytest.approx(cut.logprobs, abs=1e-4)
    texts = [compare(LONG[:end], "A.", "B.").text for end in (kept, kept + 1)]
    before, after = backend.tokens.prompts(texts)
    assert len(before) <= len(after)
    written = backend.write([compare(LONG, "A.", "B.")], Sampling(max_tokens=4))[0]
    assert written.cut
    assert written.note.startswith("the context was cut from 15,600 to ")


def test_texts_that_do_not_fit_even_without_their_context_are_unreadable(folder):
    backend = connect(f"hf:{folder('llama')}", dtype="float32", truncate_context="true")
    found = backend.read_labels([compare(ARTICLE, LONG, "B.")], LABELS)[0]
    assert found.logprobs is None
    assert found.reason.endswith("a longer context; it does not fit even without its context")


def test_not_a_number_makes_its_row_unreadable_and_no_other(folder, prompts):
    backend = connect(f"hf:{folder('llama')}", dtype="float32")
    expected = read(backend, prompts)
    rare = backend.tokens.prompts(["\x07"])[0]
    others = {token for prompt in prompts for token in backend.tokens.prompts([prompt.text])[0]}
    (broken,) = set(rare) - others
    backend.scorer.model.get_input_embeddings().weight.data[broken] = float("nan")
    found = backend.read_labels([*prompts, compare(ARTICLE, "\x07", "B.")], LABELS)
    assert found[-1].logprobs is None
    assert found[-1].mass is None
    assert found[-1].reason == (
        "the model returned no finite number for this prompt (nan); load it with dtype=bfloat16 or dtype=float32"
    )
    np.testing.assert_allclose([one.logprobs for one in found[:-1]], expected, atol=1e-4)
    written = backend.write([compare(ARTICLE, "\x07", "B.")], Sampling(max_tokens=4))[0]
    assert (written.finish, written.text) == ("error", "")
    assert "no finite number" in written.note


def test_memory_that_is_short_halves_the_rows_of_the_tree(folder, prompts, monkeypatch):
    torch = pytest.importorskip("torch")
    backend = connect(f"hf:{folder('llama')}", dtype="float32")
    expected = read(backend, prompts)
    real, tried = backend.scorer._over_tree, []

    def scarce(root, reads, visibility, row):
        tried.append(row)
        if row > 300:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return real(root, reads, visibility, row)

    monkeypatch.setattr(backend.scorer, "_over_tree", scarce)
    found = read(backend, prompts)
    assert tried == [8192, 4096, 2048, 1024, 512, 256]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_memory_that_is_asked_for_bounds_the_rows(folder, opened, prompts):
    backend = connect(f"hf:{folder('llama')}", dtype="float32", memory="1M")
    real, lengths = backend.scorer._forward, []

    def forward(ids, *rest, **options):
        lengths.append(ids.numel())
        return real(ids, *rest, **options)

    backend.scorer._forward = forward
    expected = read(opened("llama"), prompts)
    np.testing.assert_allclose(read(backend, prompts), expected, atol=1e-4)
    assert max(lengths) <= 256


def test_an_encoder_takes_a_long_prompt_whole_or_not_at_all(folder, prompts):
    backend = connect(f"hf:{folder('t5')}", dtype="float32", memory="32M")
    short, long = backend.read_labels([prompts[0], compare(LONG, "A.", "B.")], LABELS)
    assert short.logprobs is not None
    assert "tokens, which need more than the 32 MiB of memory" in long.reason


def test_amounts_of_memory():
    amounts = [parse_memory(text) for text in ("auto", "1024", "8G", "1.5k", "2GiB", "512MB")]
    assert amounts == [None, 1024, 8 * 2**30, 1536, 2 * 2**30, 512 * 2**20]
    with pytest.raises(UsageError, match="memory=0: must be an amount"):
        parse_memory("0")


def test_a_tokenizer_without_a_pad_token_is_no_obstacle(opened, prompts):
    judge = opened("llama")
    assert judge.tokens._tokenizer.pad_token_id is None
    assert all(row is not None for row in read(judge, prompts))
    texts = judge.write(prompts, Sampling(max_tokens=3))
    assert all(text.finish != "error" for text in texts)


@pytest.fixture(scope="module")
def in_bfloat16(folder, tmp_path_factory):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    path = tmp_path_factory.mktemp("bfloat16")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder("llama"), dtype=torch.bfloat16)
    model.save_pretrained(path)
    transformers.AutoTokenizer.from_pretrained(folder("llama")).save_pretrained(path)
    return path


FASTER = "matrix products are 4.7 times as fast as in bfloat16 here"
NO_ROOM = (
    f"as float32 needs 0.0 GiB and 0.0 are usable; with more memory use dtype=float32: {FASTER}"
)


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        ((267e9, 57e9), f"float32, as {FASTER}"),  # no unit for bfloat16
        ((1.2e12, 1e12), "bfloat16"),  # hardly faster: as stored
        ((0.3e12, 2.6e12), "bfloat16"),  # AMX
        ((267e9, 57e9), f"bfloat16, {NO_ROOM}"),
    ],
)
def test_auto_takes_the_faster_number_format_of_this_processor(
    rates, told, in_bfloat16, monkeypatch, caplog
):
    rates = dict(zip(("float32", "bfloat16"), rates, strict=True))
    monkeypatch.setattr(loading, "operations_per_second", rates.__getitem__)
    usable = 2**10 if NO_ROOM in told else 2**30
    monkeypatch.setattr(loading, "usable_memory", lambda _device: usable)
    with caplog.at_level(logging.INFO):
        backend = connect(f"hf:{in_bfloat16}")
    dtype, _, reason = told.partition(",")
    assert f",{dtype}," in backend.fingerprint
    assert str(backend.scorer.model.dtype) == f"torch.{dtype}"
    assert (f"dtype=auto: {told}" in caplog.text) == bool(reason)


def test_the_rate_of_products_is_positive_and_measured_once():
    pytest.importorskip("torch")
    assert 1e8 < operations_per_second("float32") < 1e15
    assert operations_per_second("float32") == operations_per_second("float32")


CODE = """
from transformers import LlamaConfig, LlamaForCausalLM
class OwnConfig(LlamaConfig):
    model_type = "own_llama"
class OwnForCausalLM(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def own_code(copy):
    """A model in bfloat16 that comes with Python files."""
    config = json.loads((copy / "config.json").read_text())
    config |= {"model_type": "own_llama", "dtype": "bfloat16"}
    config["architectures"] = ["OwnForCausalLM"]
    kinds = {"AutoConfig": "OwnConfig", "AutoModelForCausalLM": "OwnForCausalLM"}
    config["auto_map"] = {auto: f"modeling_own.{name}" for auto, name in kinds.items()}
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "modeling_own.py").write_text(CODE)
    return copy


def test_auto_counts_the_parameters_of_a_model_with_code_of_its_own(own_code, monkeypatch):
    rates = {"float32": 3e9, "bfloat16": 1e9}
    monkeypatch.setattr(loading, "operations_per_second", rates.__getitem__)
    assert ",float32," in connect(f"hf:{own_code}", trust_remote_code="true").fingerprint


def test_other_code_of_a_model_is_another_fingerprint(own_code):
    def fingerprint():
        return connect(f"hf:{own_code}", trust_remote_code="true", dtype="float32").fingerprint

    before = fingerprint()
    (own_code / "modeling_own.py").write_text(CODE + "# and more\n")
    assert fingerprint() != before
