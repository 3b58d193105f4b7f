"""Label probabilities: every strategy against plain inference, written here with transformers alone."""

import logging
import re
from dataclasses import replace

import numpy as np
import pytest
from hf_unit import ARTICLE, LABELS, OUTPUTS, RUNGS, compare

from refladder.backends import connect
from refladder.engine import causal, self_check
from refladder.engine.causal import STRATEGIES
from refladder.errors import UsageError
from refladder.records import Sampling

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_models  # noqa: E402  imports torch

FAST = "masked" if torch.cuda.is_available() else "tree"  # the device is "auto" in these tests
STRATEGY = {
    **dict.fromkeys(
        ("llama", "llama-metaspace", "qwen2", "qwen3", "phi3", "gpt2", "gpt-oss"), FAST
    ),
    **dict.fromkeys(("mistral-long-window", "mistral-short-window", "mistral3", "qwen3-vl"), FAST),
    **dict.fromkeys(("gemma2", "gemma3", "gemma3-long-window", "gemma3-images"), FAST),
    **dict.fromkeys(("gemma3n", "gemma4", "gemma4-images"), FAST),
    **dict.fromkeys(("bloom", "lfm2", "qwen3-next"), "copied"),
    "mamba2": "copied" if tiny_models.ONE_CACHE else "batches",
}


def load(path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    kind = tiny_models.loader(transformers.AutoConfig.from_pretrained(path))
    return kind.from_pretrained(path, dtype=torch.float32).eval(), tokenizer


def render(tokenizer, prompt):
    return tokenizer.apply_chat_template(
        prompt.messages, tokenize=False, add_generation_prompt=True
    )


@torch.inference_mode()
def plain(path, prompts, labels=LABELS, prefix=""):
    """One prompt and one label at a time, all logits: the log-probability of each label, and the sequences run."""
    model, tokenizer = load(path)
    rows, sequences = [], set()
    for prompt in prompts:
        text = render(tokenizer, prompt) + prefix
        start = len(tokenizer(text, add_special_tokens=False)["input_ids"])
        row = []
        for label in labels:
            ids = tokenizer(text + label, add_special_tokens=False)["input_ids"]
            logits = model(input_ids=torch.tensor([ids])).logits[0].double()
            logprobs = torch.log_softmax(logits, dim=-1)
            row.append(sum(float(logprobs[n - 1, ids[n]]) for n in range(start, len(ids))))
            sequences.add(tuple(ids[:-1]))
        rows.append(row)
    return np.array(rows), sequences


def distinct(sequences):
    """The number of different tokens with all that is before them."""
    return len({one[:end] for one in sequences for end in range(1, len(one) + 1)})


def read(backend, prompts, labels=LABELS):
    return np.array([reading.logprobs for reading in backend.read_labels(prompts, labels)])


@pytest.mark.parametrize("name", STRATEGY)
def test_labels_have_the_probabilities_of_one_prompt_at_a_time(name, folder, opened, prompts):
    backend = opened(name)
    expected, sequences = plain(folder(name), prompts)
    before = backend.scorer.tokens_run
    found = backend.read_labels(prompts, LABELS)
    assert backend.scorer.strategy == STRATEGY[name]
    np.testing.assert_allclose([reading.logprobs for reading in found], expected, atol=1e-4, rtol=0)
    masses = [reading.mass for reading in found]
    np.testing.assert_allclose(masses, np.exp(expected).sum(axis=1), rtol=1e-3)
    if STRATEGY[name] in {"tree", "copied"}:
        assert backend.scorer.tokens_run - before == distinct(sequences)


OF_EACH_KIND = ("llama", "mistral-short-window", "gemma4", "gpt-oss", "qwen3-next")


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_every_strategy_and_row_length_gives_the_same(name, folder, prompts):
    backend = connect(f"hf:{folder(name)}", dtype="float32")
    backend.load()
    expected, _ = plain(folder(name), prompts)
    missing = {"tree"} - {FAST}  # the attention of this strategy runs on CPUs only
    if name == "qwen3-next":
        missing = {"tree", "masked"}
    for strategy in set(STRATEGIES) - missing:
        # Rows as short as 16 tokens are for strategies that read a tree in rows.
        for row in (16, 100) if strategy in {"tree", "masked", "copied"} else (100,):
            backend.scorer.strategy, backend.scorer.forward_tokens = strategy, row
            found = read(backend, prompts)
            np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0, err_msg=strategy)


def test_the_fixture_labels_have_one_and_several_tokens(folder):
    _, tokenizer = load(folder("llama"))
    lengths = [len(tokenizer(label, add_special_tokens=False)["input_ids"]) for label in LABELS]
    assert min(lengths) == 1
    assert max(lengths) > 1


def test_long_labels_are_read_as_sequences(folder, opened):
    texts = [f"{output} {rung}" for output in OUTPUTS for rung in RUNGS]
    prompts = [compare(ARTICLE, "", "")]
    before = opened("qwen2").scorer.tokens_run
    found = read(opened("qwen2"), prompts, texts)
    expected, sequences = plain(folder("qwen2"), prompts, texts)
    np.testing.assert_allclose(found, expected, atol=1e-3, rtol=1e-6)  # sums of up to 60 tokens
    assert opened("qwen2").scorer.tokens_run - before == distinct(sequences)


def test_a_label_that_another_begins_with_counts_only_where_the_answer_ends(
    folder, opened, prompts
):
    # p(1 and not 10) = p(1) * (1 - p(0 | 1))
    raw, _ = plain(folder("llama"), prompts[:2], ["1", "10", "2"])
    found = read(opened("llama"), prompts[:2], ["1", "10", "2"])
    alone = np.log(np.exp(raw[:, 0]) - np.exp(raw[:, 1]))
    np.testing.assert_allclose(found, np.stack([alone, raw[:, 1], raw[:, 2]], axis=1), atol=1e-4)


def test_readings_after_a_prefix_are_those_of_the_longer_prompt(folder, opened, prompts):
    prefix = 'Answer: "'
    begun = [replace(prompt, prefix=prefix) for prompt in prompts[:2]]
    judge = opened("llama")
    bare = connect(f"hf:{folder('llama')}", dtype="float32", prefix="none")
    [first, *others] = judge.read_labels([prompts[0], *begun], LABELS)  # the first has no prefix
    assert first == judge.read_labels(prompts[:1], LABELS)[0]
    expected, _ = plain(folder("llama"), prompts[:2], prefix=prefix)
    np.testing.assert_allclose([reading.logprobs for reading in others], expected, atol=1e-4)
    assert bare.read_labels(begun, LABELS) == bare.read_labels(prompts[:2], LABELS)
    assert bare.fingerprint.endswith(",prefix:off")
    whole = judge.tokens.prompts([prompt.text for prompt in begun], prefix)
    assert judge.count_tokens(begun) == list(map(len, whole))


def test_an_encoder_decoder_takes_no_prefix(opened, prompts):
    judge = opened("t5")
    assert judge.fingerprint.endswith(",prefix:unsupported")
    begun = [replace(prompt, prefix='Answer: "') for prompt in prompts[:2]]
    assert judge.read_labels(begun, LABELS) == judge.read_labels(prompts[:2], LABELS)


@torch.inference_mode()
@pytest.mark.parametrize(("name", "start"), [("t5", 0), ("t5gemma", 2)])
def test_an_encoder_decoder_reads_labels_after_the_start_of_its_decoder(
    name, start, folder, opened, prompts
):
    model, tokenizer = load(folder(name))
    expected = []
    for prompt in prompts:
        ids = torch.tensor([tokenizer(prompt.text)["input_ids"]])
        assert ids[0, -1] == tokenizer.eos_token_id
        row = []
        for label in LABELS:
            answer = tokenizer(label, add_special_tokens=False)["input_ids"]
            begun = torch.tensor([[start, *answer[:-1]]])
            logits = model(input_ids=ids, decoder_input_ids=begun).logits[0]
            logprobs = torch.log_softmax(logits.double(), dim=-1)
            row.append(sum(float(logprobs[place, token]) for place, token in enumerate(answer)))
        expected.append(row)
    np.testing.assert_allclose(read(opened(name), prompts), expected, atol=1e-4, rtol=0)


def test_strategies_that_disagree_are_skipped_with_a_warning(folder, caplog, monkeypatch, prompts):
    def blind(self, root, reads, most):
        return self._over_tree(root, reads, lambda _segment: {}, most)

    monkeypatch.setattr(self_check, "_proofs", {})
    # tokens of other branches are visible
    monkeypatch.setattr(causal.Causal, "_with_tree_attention", blind)
    monkeypatch.setattr(causal.Causal, "_mask", lambda _self, _segment: {})
    with caplog.at_level(logging.WARNING):
        backend = connect(f"hf:{folder('llama')}", dtype="float32", device="cpu")
        backend.load()
    assert backend.scorer.strategy == "copied"
    disagrees = r"disagrees with plain inference by [\d.]+ nats \(limit 0\.0010\)\. Falling back to a slower st"
    for name in ("Prefix-tree inference", "Prefix-tree inference with masks"):
        assert re.search(f"llama: {name} {disagrees}", caplog.text)
    monkeypatch.undo()
    expected, _ = plain(folder("llama"), prompts)
    np.testing.assert_allclose(read(backend, prompts), expected, atol=1e-4, rtol=0)


def test_strategies_that_fail_are_skipped_with_a_warning(folder, caplog, monkeypatch):
    def broken(*_arguments):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(self_check, "_proofs", {})
    monkeypatch.setattr(causal.Causal, "_over_tree", broken)
    with caplog.at_level(logging.WARNING):
        backend = connect(f"hf:{folder('llama')}", dtype="float32", device="cpu")
        backend.load()
    assert backend.scorer.strategy == "copied"
    fails = "fails (shapes do not match). Falling back to a slower strategy."
    assert f"llama: Prefix-tree inference {fails}" in caplog.text


def test_half_precision_loads_in_its_dtype_and_says_so(folder, prompts):
    backend = connect(f"hf:{folder('qwen3')}", dtype="bfloat16")
    assert backend.scorer.model.dtype == torch.bfloat16
    assert ",bfloat16," in backend.fingerprint
    assert backend.scorer.strategy == FAST
    assert np.isfinite(read(backend, prompts)).all()


def test_speed_is_logged(opened, prompts, caplog):
    with caplog.at_level(logging.INFO):
        opened("llama").read_labels(prompts, LABELS)
    assert f"read 9 prompts ({FAST})" in caplog.text
    assert "tokens/s" in caplog.text


def test_tokens_sent_are_those_of_whole_prompts_and_tokens_run_share_what_is_common(
    folder, prompts
):
    backend = connect(f"hf:{folder('llama')}", dtype="float32", memory="2G")
    lengths = backend.count_tokens(prompts)
    _, tokenizer = load(folder("llama"))
    texts = [render(tokenizer, prompt) for prompt in prompts]
    assert lengths == [len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
    assert (backend.tokens_sent, backend.tokens_run) == (0, 0)
    backend.read_labels(prompts, LABELS)
    assert backend.tokens_sent == sum(lengths)
    read = backend.tokens_run
    assert max(lengths) < read < sum(lengths)
    backend.write(prompts[:2], Sampling(max_tokens=3, temperature=0.0))
    assert backend.tokens_sent == sum(lengths) + sum(lengths[:2])
    assert backend.tokens_run == read + sum(lengths[:2])


def test_more_new_tokens_than_the_model_takes_are_refused(folder, prompts):
    backend = connect(f"hf:{folder('llama')}", dtype="float32")
    message = r"--max-tokens 100,000: \S+ takes [\d,]+ tokens with the prompt; give fewer"
    with pytest.raises(UsageError, match=message):
        backend.write(prompts[:1], Sampling(max_tokens=100_000))


def test_a_model_that_does_not_follow_the_prompt_is_reported_once(folder, prompts, caplog):
    backend = connect(f"hf:{folder('llama')}", dtype="float32")
    vocabulary = backend.opened.tokenizer.get_vocab()
    words = [label for label in vocabulary if label.isascii() and label.isalpha()]
    assert backend.read_labels(prompts, words)[0].mass > 0.05
    assert "follow the prompt" not in caplog.text
    backend = connect(f"hf:{folder('llama')}", dtype="float32")
    masses = sorted(reading.mass for reading in backend.read_labels(prompts, LABELS))
    assert masses[4] < 0.05  # random weights know no label; the median of 9
    told = f"a median probability of {masses[4]:.2g} in its first 9 prompts, so it does not follow the prompt."
    assert told in caplog.text
    backend.read_labels(prompts, LABELS)
    assert caplog.text.count("follow the prompt") == 1
