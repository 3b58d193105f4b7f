"""Rows of whole sequences with block-sparse attention: the strategy of GPUs, here with its operations one by one."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip(
    "torch", reason="torch is not installed; pip install torch transformers"
)
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from refladder.engine import block_sparse, self_check  # noqa: E402
from refladder.engine.block_sparse import attend, blocks_of, padded  # noqa: E402
from refladder.engine.causal import Causal  # noqa: E402
from refladder.engine.self_check import choose_strategy, prove  # noqa: E402
from refladder.engine.trie import Read, whole_rows  # noqa: E402

# Full attention, several queries for each key head, windows, capped scores, keys of an earlier layer, sinks.
ARCHITECTURES = (
    "llama",
    "qwen3",
    "mistral-short-window",
    "gemma2",
    "gemma3",
    "gemma4",
    "gpt-oss",
    "gpt2",
)


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Let the strategy of GPUs take the place of that of CPUs."""
    original = Causal._supported
    monkeypatch.setattr(
        Causal,
        "_supported",
        lambda self: tuple("forest" if each == "tree" else each for each in original(self)),
    )
    monkeypatch.setattr(self_check, "_proofs", {})


@pytest.fixture
def uncompiled():
    """Run the kernel's operations without tracing them for each shape, which takes seconds."""
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        yield


@pytest.fixture(scope="module")
def model(folder):
    torch.set_num_threads(1)
    return lambda name: transformers.AutoModelForCausalLM.from_pretrained(
        folder(name), dtype=torch.float32
    ).eval()


def warnings_of(caplog):
    return [record for record in caplog.records if record.name.startswith("refladder")]


def own_ladders(ids, units=4):
    """Contexts, each with rungs of its own and two outputs: prompts that share a template, their context and rungs."""
    return [
        [
            *ids[:9],
            *ids[20 * unit : 20 * unit + 60 + 7 * unit],
            *ids[40 + rung : 64 + 3 * rung],
            *ids[90 + output : 110],
        ]
        for unit in range(units)
        for rung in range(3)
        for output in range(2)
    ]


def shared_documents(ids, documents=3):
    """Documents, each with the rungs of one set."""
    return [
        [*ids[:9], *ids[30 * each : 30 * each + 90], *ids[50 + 5 * rung : 80 + 5 * rung]]
        for each in range(documents)
        for rung in range(5)
    ]


def reads_of(sequences):
    return [
        Read(number, position, sequence[(position + 1) % len(sequence)])
        for number, sequence in enumerate(sequences)
        for position in (len(sequence) // 3, len(sequence) - 1)
    ]


def read_by(causal, strategy, sequences):
    causal.strategy = strategy
    return causal.logprobs(sequences, reads_of(sequences))


token_sequences = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=12
)


@given(sequences=token_sequences, row=st.integers(1, 30))
def test_rows_hold_each_sequence_whole_and_no_more_than_fits(sequences, row):
    reads = [
        Read(number, place, 9)
        for number, each in enumerate(sequences)
        for place in range(len(each))
    ]
    found = {}
    for segment in whole_rows(sequences, reads, row):
        assert segment.start == 0
        assert segment.tokens.size <= max(row, *map(len, sequences))
        for place, _, number in segment.reads:
            seen = [key for key in range(place + 1) if place < segment.ends[key]]
            assert segment.positions[seen].tolist() == list(range(len(seen)))
            assert number not in found
            found[number] = segment.tokens[seen].tolist()
    assert found == {
        number: sequences[read.sequence][: read.position + 1] for number, read in enumerate(reads)
    }


def test_a_beginning_is_run_once_in_each_row_that_needs_it():
    sequences = [[1, 2, 3, 4], [5, 6, 7], [1, 2, 3, 8], [5, 6, 9]]
    rows = [segment.tokens.tolist() for segment in whole_rows(sequences, [], 8)]
    assert rows == [[1, 2, 3, 4, 8, 5, 6, 7], [5, 6, 9]]
    [row] = whole_rows(sequences, [], 9)
    assert row.tokens.tolist() == [1, 2, 3, 4, 8, 5, 6, 7, 9]


def rows(seed, tokens=1500):
    """Padded rows of random trees."""
    random = np.random.default_rng(seed)
    sequences = []
    for _ in range(int(random.integers(4, 30))):
        old = sequences[int(random.integers(len(sequences)))] if sequences else []
        kept = old[: int(random.integers(0, len(old) + 1))]
        sequences.append([*kept, *random.integers(0, 3, int(random.integers(1, 200))).tolist()])
    return [padded(row) for row in whole_rows(sequences, [], tokens)]


def allowed(segment, window=None):
    """The definition: a token at index j is seen from j to its end, by the nearest `window` queries."""
    index = np.arange(segment.tokens.size)
    within = (index[None, :] <= index[:, None]) & (index[:, None] < segment.ends[None, :])
    return within & (segment.positions[:, None] - segment.positions[None] < (window or np.inf))


@pytest.mark.parametrize("window", [None, 1, 40, 400])
def test_blocks_hold_every_key_that_is_seen_and_full_blocks_no_other(window):
    read = unread = full = 0
    [chain] = whole_rows([list(range(1200))], [], 1200)
    for segment in [padded(chain), *(row for seed in range(6) for row in rows(seed))]:
        assert segment.tokens.size % 128 == 0
        expected = allowed(segment, window)
        blocks = expected.reshape(-1, 128, expected.shape[0] // 128, 128)
        some, every = block_sparse._seen(segment, window)
        assert (some >= blocks.any(axis=(1, 3))).all()
        assert (every <= blocks.all(axis=(1, 3))).all()
        if window is None:
            np.testing.assert_array_equal(some, blocks.any(axis=(1, 3)))
            np.testing.assert_array_equal(every, blocks.all(axis=(1, 3)))
        read, unread = read + some.sum(), unread + (~some).sum()
        full += every.sum()
        mask = blocks_of(segment, "cpu", window).mask
        dense = mask.to_dense()[0, 0].numpy()
        np.testing.assert_array_equal(dense > 0, some)
        index = torch.arange(segment.tokens.size)
        visible = mask.mask_mod(0, 0, index[:, None], index[None])
        np.testing.assert_array_equal(visible.numpy(), expected)
    assert unread > read
    assert (full > 0) == (window in {None, 400})


def inputs(segment, dtype=torch.float32):
    torch.manual_seed(segment.tokens.size)
    size = segment.tokens.size
    return (torch.randn(1, heads, size, 16, dtype=dtype) for heads in (6, 2, 2))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("window", [None, 150])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("sinks", [None, torch.tensor([0.5, -1.0, 3.0, 0.0, 1.0, -2.0])])
def test_attention_is_the_masked_softmax(window, softcap, sinks):
    for segment in rows(3, 500)[:2]:
        query, key, value = inputs(segment)
        given_blocks = {"blocks": blocks_of(segment, "cpu")}
        if window is not None:
            given_blocks["window_blocks"] = blocks_of(segment, "cpu", window)
        attended, _ = attend(
            None,
            query,
            key,
            value,
            None,
            **given_blocks,
            sliding_window=window,
            scaling=0.7,
            softcap=softcap,
            s_aux=sinks,
        )
        scores = 0.7 * query @ key.repeat_interleave(3, dim=1).transpose(2, 3)
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        scores = scores.masked_fill(~torch.from_numpy(allowed(segment, window)), -torch.inf)
        if sinks is not None:  # one more key, whose value is 0
            more = sinks.view(1, 6, 1, 1).expand(1, 6, len(segment.tokens), 1)
            scores = torch.cat([scores, more], dim=-1)
        weights = torch.softmax(scores, dim=-1)[..., : len(segment.tokens)]
        expected = weights @ value.repeat_interleave(3, dim=1)
        torch.testing.assert_close(attended, expected.transpose(1, 2), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("named", [{"position_bias": 1}, {"blocks": None}])
def test_a_model_that_adds_to_its_scores_is_refused(named):
    segment = rows(0)[0]
    query, key, value = inputs(segment)
    with pytest.raises(NotImplementedError, match="without blocks or with position_bias"):
        attend(None, query, key, value, None, **{"blocks": blocks_of(segment, "cpu"), **named})


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wrong", [False, True])
def test_each_row_is_compared_with_the_equations(dtype, wrong, monkeypatch):
    segment = rows(3, 500)[0]
    query, key, value = inputs(segment, dtype)
    kernel = block_sparse._kernel("cpu")
    if wrong:  # the last block of keys is lost

        def loses(query, key, value, **named):
            value = value.clone()
            value[:, :, 128:256] = 0
            return kernel(query, key, value, **named)

        monkeypatch.setattr(block_sparse, "_kernel", lambda _device: loses)
        with pytest.raises(RuntimeError, match=r"attention over \d+ tokens is off by \d+"):
            attend(None, query, key, value, None, blocks=blocks_of(segment, "cpu"))
    else:
        blocks = blocks_of(segment, "cpu")
        attend(None, query, key, value, None, blocks=blocks)
        assert blocks.compared


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_is_proved_and_gives_the_numbers_of_one_prompt_at_a_time(
    name, model, caplog
):
    tested = model(name)
    assert prove(tested) == "forest"
    ids = np.random.default_rng(0).integers(5, 250, 300).tolist()
    causal = Causal(tested, "float32", 2**30)
    for sequences in (own_ladders(ids), shared_documents(ids)):
        expected = read_by(causal, "single", sequences)
        for row in (None, 640):
            causal.forward_tokens = row
            found = read_by(causal, "forest", sequences)
            np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)
    assert causal.strategy == "forest"
    assert not warnings_of(caplog)


def test_whole_rows_need_a_recent_torch_and_positions_that_do_not_depend_on_neighbours(
    model, monkeypatch
):
    tested = model("llama")
    monkeypatch.setattr(type(tested), "device", torch.device("cuda"))
    assert Causal(tested, "float32", 2**30).strategies[0] == "forest"
    for kind in ("dynamic", "longrope"):
        with monkeypatch.context() as changed:
            changed.setattr(tested.config, "rope_parameters", {"rope_type": kind})
            assert Causal(tested, "float32", 2**30).strategies[0] == "masked"
    monkeypatch.delattr("torch.nn.attention.flex_attention.AuxRequest")  # of torch 2.9
    assert Causal(tested, "float32", 2**30).strategies[0] == "masked"


def shift_positions(monkeypatch):
    original = block_sparse.padded

    def shifted(segment):
        segment.positions[:] += segment.positions // 16  # every sixteenth rotation is skipped
        return original(segment)

    monkeypatch.setattr(block_sparse, "padded", shifted)


def show_other_branches(monkeypatch):
    original = block_sparse.blocks_of

    def blind(segment, *given):
        segment.ends[:] = segment.tokens.size
        return original(segment, *given)

    monkeypatch.setattr(block_sparse, "blocks_of", blind)


def ignore_windows(monkeypatch):
    original = block_sparse.blocks_of
    monkeypatch.setattr(
        block_sparse, "blocks_of", lambda segment, device, _window=None: original(segment, device)
    )


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("llama", shift_positions),
        ("llama", show_other_branches),
        ("gemma2", shift_positions),
        ("gemma2", show_other_branches),
        ("gemma2", ignore_windows),
        ("gpt-oss", ignore_windows),
    ],
)
def test_a_planted_fault_is_found_and_named(name, fault, model, monkeypatch, caplog):
    tested = model(name)
    fault(monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert prove(tested) == "masked"
    assert "Prefix-tree inference in whole rows disagrees with plain inference by" in caplog.text
    assert "Falling back to a slower strategy." in caplog.text


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "reason",
    [
        "No module named 'triton'",
        # Of torch, for a kernel that needs more shared memory than the GPU has; shorter rows would not help.
        (
            "No valid triton configs. OutOfMemoryError: out of resource: triton_tem_fused_0 Required: 263168 "
            "Hardware limit:232448 Reducing block sizes or `num_stages` may help."
        ),
    ],
)
def test_a_kernel_that_fails_gives_way_to_masks_with_the_same_numbers(
    reason, model, monkeypatch, caplog
):
    ids = np.random.default_rng(0).integers(5, 250, 300).tolist()
    causal = Causal(model("llama"), "float32", 2**30)
    choose_strategy(causal, ids)
    assert causal.strategy == "forest"

    def fails(_device):
        raise RuntimeError(f"{reason}\nand a long report")

    monkeypatch.setattr(block_sparse, "_kernel", fails)
    expected = read_by(causal, "single", own_ladders(ids))
    found = read_by(causal, "forest", own_ladders(ids))
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)
    assert causal.strategy == "masked"
    [warning] = warnings_of(caplog)
    assert warning.getMessage() == (
        f"llama: Prefix-tree inference in whole rows fails ({reason}). Falling back to a slower strategy."
    )
    assert causal.model.config._attn_implementation == "sdpa"


@pytest.mark.usefixtures("uncompiled")
def test_out_of_memory_halves_the_row_and_the_next_rows_stay_short(model, monkeypatch):
    ids = np.random.default_rng(0).integers(5, 250, 300).tolist()
    causal = Causal(model("qwen3"), "float32", 2**30, forward_tokens=2400)
    sequences = own_ladders(ids, 8)
    expected = read_by(causal, "single", sequences)
    original, sizes = Causal._forward, []

    def small(self, ids, *given, **named):
        sizes.append(ids.numel())
        if ids.numel() > 1300:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return original(self, ids, *given, **named)

    monkeypatch.setattr(Causal, "_forward", small)
    np.testing.assert_allclose(read_by(causal, "forest", sequences), expected, atol=1e-4, rtol=0)
    assert (causal.strategy, causal.forward_tokens) == ("forest", 1200)
    assert max(sizes) > 1300
    sizes.clear()
    np.testing.assert_allclose(read_by(causal, "forest", sequences), expected, atol=1e-4, rtol=0)
    assert len(sizes) > 1
    assert max(sizes) <= 1280


@pytest.mark.usefixtures("uncompiled")
def test_a_prompt_longer_than_a_row_is_read_in_parts(model):
    ids = np.random.default_rng(0).integers(5, 250, 300).tolist()
    causal = Causal(model("gemma3"), "float32", 2**30, forward_tokens=50)
    sequences = own_ladders(ids)
    expected = read_by(causal, "single", sequences)
    found = read_by(causal, "forest", sequences)
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)
    assert causal.strategy == "forest"


@pytest.mark.usefixtures("uncompiled")
def test_a_nan_of_one_prompt_stays_its_own(model):
    tested = model("llama")
    ids = np.random.default_rng(0).integers(5, 250, 300).tolist()
    causal = Causal(tested, "float32", 2**30)
    sequences = own_ladders(ids)
    expected = read_by(causal, "single", sequences)
    sequences[7] = [*sequences[7][:-1], 3]
    with torch.no_grad():
        tested.get_input_embeddings().weight[3] = torch.nan
    found = read_by(causal, "forest", sequences)
    lost = np.array([read.sequence == 7 and read.position > 100 for read in reads_of(sequences)])
    assert np.isnan(found[lost]).all()
    same = np.array([read.sequence != 7 for read in reads_of(sequences)])
    np.testing.assert_allclose(found[same], expected[same], atol=1e-4, rtol=0)


def trained(tested, ids):
    """The model after a few seconds of training on some tokens, so that its predictions are sharp."""
    text = torch.tensor(ids)
    torch.manual_seed(0)
    optimiser = torch.optim.AdamW(tested.parameters(), lr=4e-3)
    for _ in range(80):
        starts = torch.randint(0, len(text) - 49, (8,)).tolist()
        batch = torch.stack([text[start : start + 48] for start in starts])
        loss = tested(input_ids=batch, labels=batch).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.5  # nats a token
    return tested.eval().requires_grad_(requires_grad=False)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", ["llama", "gemma2"])  # without and with a window
def test_sharp_weights_in_half_precision_keep_the_strategy_and_its_distance_from_float32(
    name, model, caplog
):
    ids = np.random.default_rng(1).integers(5, 250, 200).tolist()
    sharp = trained(model(name), ids)
    whole = Causal(sharp, "float32", 2**30)
    cases = [own_ladders(ids), shared_documents(ids)]
    exact = [read_by(whole, "single", case) for case in cases]
    for case, expected in zip(cases, exact, strict=True):
        assert expected.max() > -0.3  # sharp
        np.testing.assert_allclose(read_by(whole, "forest", case), expected, atol=1e-3, rtol=0)
    half = Causal(sharp.to(torch.bfloat16), "bfloat16", 2**30)
    choose_strategy(half, ids)
    assert half.strategy == "forest"
    for case, expected in zip(cases, exact, strict=True):
        plain, found = (
            np.sqrt(np.mean((read_by(half, each, case) - expected) ** 2))
            for each in ("single", "forest")
        )
        assert found <= 3 * plain + 0.02  # the limit of the self-check
    assert not warnings_of(caplog)
