"""Attention in parts: what the parts show a token, against what it may see; and numbers, against one masked softmax."""

import itertools

import numpy as np
import pytest

from refladder.engine.attention import attend, parts_of
from refladder.engine.partition import partition, windowed
from refladder.engine.trie import Push, Visit, build_trie, plan

torch = pytest.importorskip("torch")


def segments(seed, row, longer=1):
    """Segments of random trees whose branches part at any depth, runs of one token among them."""
    random = np.random.default_rng(seed)
    sequences = []
    for _ in range(int(random.integers(2, 12))):
        old = sequences[int(random.integers(len(sequences)))] if sequences else []
        kept = old[: int(random.integers(0, len(old) + 1))]
        sequences.append(
            [*kept, *random.integers(0, 3, int(random.integers(1, 60)) * longer).tolist()]
        )
    root, _ = build_trie(sequences, [])
    steps = [step.segment for step in plan(root, row) if isinstance(step, (Push, Visit))]
    return [segment for segment in steps if segment.tokens.size]


def allowed(segment, window=None):
    """The definition: the whole cache, and a token at index j from j to its end; of these the nearest `window` keys."""
    index = np.arange(segment.tokens.size)
    within = (index[None, :] <= index[:, None]) & (index[:, None] < segment.ends[None, :])
    ancestors = np.concatenate([np.ones((index.size, segment.start), dtype=bool), within], axis=1)
    keys = np.concatenate([np.arange(segment.start), segment.positions])
    return ancestors & (segment.positions[:, None] - keys[None] < (window or np.inf))


SIZES = [(1000, 16, 24), (50, 8, 8), (200, 1, 1), (1000, 128, 256)]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize(("row", "together", "short"), SIZES)
def test_parts_show_every_token_what_it_may_see_and_once(seed, row, together, short):
    windows = (None, 1, 5, 16, 37, 100)
    cases = [(segment, window) for segment in segments(seed, row) for window in windows]
    for segment, window in cases[seed % 3 :: 3]:
        parts = partition(segment, together, short)
        if window is not None:
            parts = windowed(segment, parts, window, short_chunk=8)
        runs, pieces, spans, bands = parts
        expected = allowed(segment, window)
        shown = np.zeros(expected.shape, dtype=int)
        past = segment.start
        for first, last in runs:
            shown[first:last, past + first : past + last] += np.tri(last - first, dtype=int)
        for first, last, before in pieces:  # a mask hides what a query may not see
            shown[first:last, past + first : past + last] += expected[
                first:last, past + first : past + last
            ]
            for seen, until in before:
                shown[first:last, seen:until] += expected[first:last, seen:until]
        for first, last, seen, until in spans:
            shown[first:last, seen:until] += 1
        for first, last, seen, until in bands:
            shown[first:last, seen:until] += expected[first:last, seen:until]
        np.testing.assert_array_equal(shown, expected.astype(int))
        ranges = [range(first, last) for first, last, *_ in [*runs, *pieces]]
        assert sorted(itertools.chain(*ranges)) == list(range(segment.tokens.size))


def test_a_long_run_costs_its_window_and_not_its_square():
    root, _ = build_trie([list(range(4000))], [])
    segment = next(step.segment for step in plan(root, 5000))
    runs, pieces, spans, bands = windowed(segment, partition(segment), 512)
    assert not pieces
    assert {last - first for first, last in runs} == {250}
    scores = sum((run.last - run.first) ** 2 // 2 for run in runs)
    for span in [*spans, *bands]:
        scores += (span.last - span.first) * (span.key_last - span.key_first)
    # what the windows hold is 4000 x 512 less the triangle of the first window
    assert scores < 1.25 * 4000 * 512


def tensors(segment, seed):
    """A query for each token, with twice as many heads as keys and values of the cache and the segment."""
    torch.manual_seed(seed)
    tokens, keys = segment.tokens.size, segment.start + segment.tokens.size
    return torch.randn(1, 4, tokens, 8), torch.randn(1, 2, keys, 8), torch.randn(1, 2, keys, 8)


def masked_softmax(segment, window, tensors, softcap=None, sinks=None):
    """Attention by its equations, all scores at once."""
    query, key, value = tensors
    scores = 0.7 * query @ key.repeat_interleave(2, dim=1).transpose(2, 3)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~torch.from_numpy(allowed(segment, window)), -torch.inf)
    if sinks is not None:  # one more key, whose value is 0
        column = sinks.view(1, 4, 1, 1).expand(1, 4, segment.tokens.size, 1)
        scores = torch.cat([scores, column], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., : key.shape[2]]
    return (weights @ value.repeat_interleave(2, dim=1)).transpose(1, 2)


def attended(segment, window, tensors, **more):
    given = {"scaling": 0.7, "parts": parts_of(segment, torch.float32), **more}
    if window is not None:
        given["window_parts"] = parts_of(segment, torch.float32, window)
        given["sliding_window"] = window
    return attend(None, *tensors, None, **given)[0]


SHORT = [(1000, 1, None), (300, 1, None), (1000, 12, None), (1000, 1, 20), (300, 1, 7)]
SHORT += [(1000, 12, 100)]
LONG = [(2000, 30, None), (2000, 30, 300), (2000, 30, 700)]  # a second each


@pytest.mark.parametrize(
    ("seed", "row", "longer", "window"),
    [(seed, *case) for case in SHORT for seed in range(5)] + [(0, *case) for case in LONG],
)
def test_merged_parts_are_the_masked_softmax(seed, row, longer, window):
    for segment in segments(seed, row, longer):
        given = tensors(segment, seed)
        expected = masked_softmax(segment, window, given)
        found = attended(segment, window, given)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("window", [None, 150])
@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("sinks", [None, torch.tensor([0.5, -1.0, 3.0, 0.0])])
def test_capped_scores_and_sinks_are_those_of_the_equations(window, softcap, sinks):
    for segment in segments(3, 1000, 12):
        given = tensors(segment, 3)
        expected = masked_softmax(segment, window, given, softcap, sinks)
        found = attended(segment, window, given, softcap=softcap, s_aux=sinks)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "message"), [({"position_bias": 1}, "position_bias"), ({"parts": None}, "no parts")]
)
def test_a_model_that_adds_to_its_scores_is_refused(given, message):
    parts = parts_of(segments(0, 1000)[0], torch.float32)
    token = torch.zeros(1, 1, 1, 8)
    with pytest.raises(NotImplementedError, match=f"tree attention with {message}"):
        attend(None, token, token, token, None, **{"parts": parts, **given})
