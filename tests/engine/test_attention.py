"""Attention in parts: what the parts show a token, against what it may see; and numbers, against one masked softmax."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from refladder.engine.attention import attend, cover, parts_of
from refladder.engine.trie import Push, Row, build_trie, plan

torch = pytest.importorskip("torch", reason="torch is not installed; pip install torch transformers")


def segments(seed, row, longer=1):
    """Segments of random trees whose branches part at any depth, runs of one token among them."""
    random = np.random.default_rng(seed)
    sequences = []
    for _ in range(int(random.integers(2, 12))):
        old = sequences[int(random.integers(len(sequences)))] if sequences else []
        kept = old[: int(random.integers(0, len(old) + 1))]
        sequences.append([*kept, *random.integers(0, 3, int(random.integers(1, 60)) * longer).tolist()])
    root, _ = build_trie(sequences, [])
    found = [step.segment for step in plan(root, row) if isinstance(step, (Push, Row))]
    return [segment for segment in found if segment.tokens.size]


def allowed(segment):
    """The definition: the whole cache, and a token at place j from j to its end."""
    place = np.arange(segment.tokens.size)
    within = (place[None, :] <= place[:, None]) & (place[:, None] < segment.ends[None, :])
    return np.concatenate([np.ones((place.size, segment.start), dtype=bool), within], axis=1)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize(
    ("row", "together", "short", "even"), [(1000, 16, 24, 8), (50, 8, 8, 4), (200, 1, 1, 1), (1000, 128, 256, 64)]
)
def test_parts_show_every_token_what_it_may_see_and_once(seed, row, together, short, even):
    for segment in segments(seed, row):
        runs, pieces, spans = cover(segment, together, short, even)
        expected = allowed(segment)
        shown = np.zeros(expected.shape, dtype=int)
        past = segment.start
        for first, last in runs:
            inside = np.tri(last - first, dtype=int)
            shown[first:last, past + first : past + last] += inside
        for first, last, before in pieces:
            shown[first:last, past + first : past + last] += expected[first:last, past + first : past + last]
            for seen, until in before:
                shown[first:last, seen:until] += 1
        for first, last, seen, until in spans:
            shown[first:last, seen:until] += 1
        np.testing.assert_array_equal(shown, expected.astype(int))
        tokens = sorted(place for first, last, *_ in [*runs, *pieces] for place in range(first, last))
        assert tokens == list(range(segment.tokens.size))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("row", "longer"), [(1000, 1), (300, 1), (1000, 12), (2000, 30)])
def test_merged_parts_are_the_masked_softmax(seed, row, longer):
    for segment in segments(seed, row, longer):
        tokens, keys = segment.tokens.size, segment.start + segment.tokens.size
        torch.manual_seed(seed)
        query, key, value = torch.randn(1, 4, tokens, 8), torch.randn(1, 2, keys, 8), torch.randn(1, 2, keys, 8)
        found, _ = attend(None, query, key, value, None, parts=parts_of(segment, torch.float32), scaling=0.7)
        scores = 0.7 * query @ key.repeat_interleave(2, dim=1).transpose(2, 3)
        scores = scores.masked_fill(~torch.from_numpy(allowed(segment)), -torch.inf)
        expected = torch.softmax(scores, dim=-1) @ value.repeat_interleave(2, dim=1)
        torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-5, rtol=1e-5)
        places = sorted(np.random.default_rng(seed).choice(tokens, size=1 + tokens // 9, replace=False).tolist())
        given = {
            "parts": parts_of(segment, torch.float32),
            "last_layer_parts": parts_of(segment, torch.float32, places),
        }
        for number, same in ((0, slice(None)), (1, places)):  # the last of two layers computes these places only
            layer = SimpleNamespace(layer_idx=number, config=SimpleNamespace(num_hidden_layers=2))
            at_layer, _ = attend(layer, query, key, value, None, **given, scaling=0.7)
            torch.testing.assert_close(at_layer[:, same], found[:, same], atol=1e-5, rtol=1e-5)
        assert torch.count_nonzero(at_layer.sum((0, 2, 3))) == len(places)


@pytest.mark.parametrize(("given", "what"), [({"softcap": 5.0}, "softcap"), ({"s_aux": 1}, "s_aux"), ({}, "no parts")])
def test_a_model_that_does_more_to_its_scores_is_refused(given, what):
    parts = None if what == "no parts" else parts_of(segments(0, 1000)[0], torch.float32)
    one = torch.zeros(1, 1, 1, 8)
    with pytest.raises(NotImplementedError, match=f"tree attention with {what}"):
        attend(None, one, one, one, None, parts=parts, **given)
