"""Opening a model, and everything that can be wrong with it, a row or the machine."""

from __future__ import annotations

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
from refladder.errors import BackendUnavailableError, UnknownNameError, UsageError
from refladder.records import Sampling

LONG = "A storm closed the harbour of Lerwick. " * 400


def test_missing_libraries_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        BackendUnavailableError,
        match=r"needs torch and transformers, .* run: pip install torch transformers$",
    ):
        connect("hf:org/model")


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
    causal = Causal(model, "float32", 2**30)
    causal.logprobs([[1, 2, 3]], [Read(0, 2, 1)])
    assert "THP_MEM_ALLOC_ENABLE" not in os.environ
    with pytest.raises(
        pytest.fail.Exception, match="a setting of glibc"
    ):  # the backend does change them
        connect(f"hf:{folder('llama')}").load()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "no model was named; pass hf:ORG/MODEL or hf:FOLDER"),
        ("/no/such/folder", "hf:/no/such/folder: no such folder; pass hf:FOLDER or hf:ORG/MODEL"),
        ("./here", "hf:./here: no such folder"),
        (
            "no-such-org/no-such-model",
            r"hf:no-such-org/no-such-model: no folder has this name, and the Hub did not return it: .*hf auth login",
        ),
    ],
)
def test_a_missing_model_says_what_to_type(target, message):
    with pytest.raises(BackendUnavailableError, match=message):
        connect(f"hf:{target}")


@pytest.fixture
def copy(folder, tmp_path):
    made = tmp_path / "copy"
    shutil.copytree(folder("llama"), made)
    return made


def test_weights_that_are_not_safetensors_are_refused(copy):
    (copy / "model.safetensors").rename(copy / "pytorch_model.bin")
    with pytest.raises(
        BackendUnavailableError,
        match=r"this folder has no .safetensors file, and other formats are not loaded",
    ):
        connect(f"hf:{copy}")


def test_a_load_that_was_interrupted_is_named(copy):
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(
        BackendUnavailableError,
        match=r"the weights are damaged or cut off .*download or copy them again",
    ):
        connect(f"hf:{copy}").load()


def test_a_folder_that_is_no_model_is_named(copy):
    (copy / "config.json").write_text("{}")
    with pytest.raises(BackendUnavailableError, match=r"this folder does not load as a model: "):
        connect(f"hf:{copy}")


def test_a_model_whose_weights_are_not_all_there_is_refused(copy):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        BackendUnavailableError,
        match=r"weights are missing from its files \(1, such as model.layers.0.mlp.up_proj.weight\), so it would",
    ):
        connect(f"hf:{copy}").load()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("dtype", "float8", "dtype=float8: must be one of auto, float32, bfloat16, float16"),
        (
            "device",
            "gpu9",
            "device=gpu9: torch has no such device here; use cpu, cuda or cuda:NUMBER",
        ),
        ("memory", "lots", "memory=lots: must be an amount such as 8G or 512M, or auto"),
        ("truncate_context", "yes", "truncate_context=yes: must be true or false"),
    ],
)
def test_an_option_with_a_wrong_value_is_refused(folder, option, value, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        connect(f"hf:{folder('llama')}", **{option: value})


def test_an_unknown_option_is_refused_with_the_near_name():
    with pytest.raises(UnknownNameError, match="did you mean 'truncate_context'"):
        connect("hf:org/model", truncate_contxt="true")


def test_the_fingerprint_follows_what_can_change_an_answer(folder, copy):
    first = connect(f"hf:{folder('llama')}", dtype="float32").fingerprint
    assert re.fullmatch(r"hf:llama\d*@[0-9a-f]{12},float32,template:[0-9a-f]{8},prefix:on", first)
    assert (
        connect(f"hf:{copy}", dtype="float32").fingerprint.partition("@")[2]
        == first.partition("@")[2]
    )
    weights = copy / "model.safetensors"
    changed = bytearray(weights.read_bytes())
    changed[-1] ^= 1
    weights.write_bytes(bytes(changed))
    digests = {first.partition("@")[2]}
    digests.add(connect(f"hf:{copy}", dtype="float32").fingerprint.partition("@")[2])
    digests.add(connect(f"hf:{copy}", dtype="bfloat16").fingerprint.partition("@")[2])
    digests.add(
        connect(f"hf:{copy}", dtype="bfloat16", truncate_context="true").fingerprint.partition("@")[
            2
        ]
    )
    assert len(digests) == 4


def test_a_prompt_that_is_too_long_is_an_unreadable_row_with_both_lengths(opened, prompts):
    found = opened("llama").read_labels([prompts[0], compare(LONG, "A.", "B."), prompts[1]], LABELS)
    assert found[1].logprobs is None
    assert re.fullmatch(
        r"the compare prompt has [\d,]+ tokens and llama\d* takes 2,048; shorten the texts, use a model with a longer "
        r"context, or pass --truncate-context \(option truncate_context=true\)",
        found[1].reason,
    )
    np.testing.assert_allclose(
        [found[0].logprobs, found[2].logprobs],
        [one.logprobs for one in opened("llama").read_labels(prompts[:2], LABELS)],
        atol=1e-5,
    )


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
    one_more = compare(LONG[: kept + 1], "A.", "B.")
    assert len(backend.tokens.prompts([one_more.text])[0]) >= len(
        backend.tokens.prompts([compare(LONG[:kept], "A.", "B.").text])[0]
    )
    written = backend.write([compare(LONG, "A.", "B.")], Sampling(max_tokens=4))[0]
    assert written.cut
    assert written.note.startswith("the context was cut from 15,600 to ")


def test_texts_that_do_not_fit_even_without_their_context_are_unreadable(folder):
    backend = connect(f"hf:{folder('llama')}", dtype="float32", truncate_context="true")
    found = backend.read_labels([compare(ARTICLE, LONG, "B.")], LABELS)[0]
    assert found.logprobs is None
    assert found.reason.endswith(
        "a model with a longer context; it does not fit even without its context"
    )


def test_not_a_number_makes_its_row_unreadable_and_no_other(folder, prompts):
    backend = connect(f"hf:{folder('llama')}", dtype="float32")
    expected = [one.logprobs for one in backend.read_labels(prompts, LABELS)]
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
    expected = [one.logprobs for one in backend.read_labels(prompts, LABELS)]
    real, tried = backend.scorer._over_tree, []

    def scarce(root, reads, visibility, row):
        tried.append(row)
        if row > 300:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return real(root, reads, visibility, row)

    monkeypatch.setattr(backend.scorer, "_over_tree", scarce)
    found = [one.logprobs for one in backend.read_labels(prompts, LABELS)]
    assert tried == [8192, 4096, 2048, 1024, 512, 256]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_memory_that_is_asked_for_bounds_the_rows(folder, prompts):
    backend = connect(f"hf:{folder('llama')}", dtype="float32", memory="1M")
    expected = [
        one.logprobs
        for one in connect(f"hf:{folder('llama')}", dtype="float32").read_labels(prompts, LABELS)
    ]
    lengths = []
    real = backend.scorer._forward
    backend.scorer._forward = lambda ids, *rest, **options: (
        lengths.append(ids.numel()) or real(ids, *rest, **options)
    )
    np.testing.assert_allclose(
        [one.logprobs for one in backend.read_labels(prompts, LABELS)], expected, atol=1e-4
    )
    assert max(lengths) <= 256


def test_amounts_of_memory():
    amounts = [parse_memory(text) for text in ("auto", "1024", "8G", "1.5k", "2GiB", "512MB")]
    assert amounts == [None, 1024, 8 * 2**30, 1536, 2 * 2**30, 512 * 2**20]
    with pytest.raises(UsageError, match="memory=0: must be an amount"):
        parse_memory("0")


def test_a_tokenizer_without_a_pad_token_is_no_obstacle(opened, prompts):
    assert opened("llama").tokens._tokenizer.pad_token_id is None
    assert all(one.logprobs is not None for one in opened("llama").read_labels(prompts, LABELS))
    assert all(
        one.finish != "error" for one in opened("llama").write(prompts, Sampling(max_tokens=3))
    )


def saved_in_bfloat16(folder, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder("llama"), dtype=torch.bfloat16)
    model.save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(folder("llama")).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "case",
    [
        ({"float32": 267e9, "bfloat16": 57e9}, 2**30, "float32"),  # no unit for bfloat16
        ({"float32": 1.2e12, "bfloat16": 1e12}, 2**30, "bfloat16"),  # hardly faster: as stored
        ({"float32": 0.3e12, "bfloat16": 2.6e12}, 2**30, "bfloat16"),  # AMX
        ({"float32": 267e9, "bfloat16": 57e9}, 2**10, "bfloat16"),  # float32 does not fit
    ],
)
def test_auto_takes_the_faster_number_format_of_this_processor(
    case, folder, tmp_path, monkeypatch, caplog
):
    rates, usable, dtype = case
    monkeypatch.setattr(loading, "operations_per_second", rates.__getitem__)
    monkeypatch.setattr(loading, "usable_memory", lambda _device: usable)
    with caplog.at_level(logging.INFO):
        backend = connect(f"hf:{saved_in_bfloat16(folder, tmp_path)}")
    assert f",{dtype}," in backend.fingerprint
    if dtype == "float32":
        assert (
            "dtype=auto: float32, as matrix products are 4.7 times as fast as in bfloat16 here"
            in caplog.text
        )
    elif usable < 2**30:
        assert (
            "dtype=auto: bfloat16, as float32 needs 0.0 GiB and 0.0 are usable; with more memory use dtype=float32: "
            "matrix products are 4.7 times as fast as in bfloat16 here"
        ) in caplog.text
    assert str(backend.scorer.model.dtype) == f"torch.{dtype}"


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
    names = {
        "AutoConfig": "modeling_own.OwnConfig",
        "AutoModelForCausalLM": "modeling_own.OwnForCausalLM",
    }
    more = {
        "model_type": "own_llama",
        "architectures": ["OwnForCausalLM"],
        "auto_map": names,
        "dtype": "bfloat16",
    }
    (copy / "config.json").write_text(json.dumps({**config, **more}))
    (copy / "modeling_own.py").write_text(CODE)
    return copy


def test_auto_counts_the_parameters_of_a_model_with_code_of_its_own(own_code, monkeypatch):
    monkeypatch.setattr(
        loading, "operations_per_second", {"float32": 3e9, "bfloat16": 1e9}.__getitem__
    )
    assert ",float32," in connect(f"hf:{own_code}", trust_remote_code="true").fingerprint


def test_other_code_of_a_model_is_another_fingerprint(own_code):
    before = connect(f"hf:{own_code}", trust_remote_code="true", dtype="float32").fingerprint
    (own_code / "modeling_own.py").write_text(CODE + "# and more\n")
    assert (
        connect(f"hf:{own_code}", trust_remote_code="true", dtype="float32").fingerprint != before
    )
