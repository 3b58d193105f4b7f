"""Attention over a packed tree, without a mask over everything: parts that are computed apart and merged exactly.

The parts are those of `cover`: causal runs, spans without a mask, bands with one, and pieces, of which those of similar
size form one batch. The kernel returns each part with the logarithm of the sum of its exponentiated scores. That is
enough to merge two parts: the weight of the first is sigmoid(its logarithm - the logarithm of the second).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.engine.partition import (
    STEP,
    Piece,
    Span,
    Stretch,
    key_positions,
    keys_in,
    partition,
    windowed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from refladder.engine.trie import Segment

NAME = "refladder_tree"
# Keys: pieces that differ by less are padded to form one batch.
_BATCH_STEP = 64
# Queries whose capped scores are computed together.
_CAPPED_CHUNK = 256
# Tokens that are merged together, in float32: more would not stay in a core's cache.
_MERGE_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded pieces: indices of `queries` (their total number where padded), indices of cached `keys`, and a mask."""

    queries: NDArray[np.int64]
    keys: NDArray[np.int64]
    mask: Any


class Gathered(NamedTuple):
    """Row numbers of the queries and keys of each batch in flattened tensors, its mask, and the rows of the results."""

    queries: list[Any]
    keys: list[Any]
    masks: list[Any]
    results: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of attention over `tokens`; `spans` holds bands too, with masks of shape (1, 1, queries, keys)."""

    tokens: int
    runs: list[Stretch]
    spans: list[tuple[Span, Any]]
    batches: list[Batch]
    gathered: dict[tuple[int, int, int], Gathered] = field(default_factory=dict)


def parts_of(
    segment: Segment,
    dtype: Any,
    window: int | None = None,
) -> Parts:
    """Return the parts of attention over a segment; with a `window`, a query sees at most that many keys."""
    shown = partition(segment)
    if window is not None:
        shown = windowed(segment, shown, window)
    similar: dict[tuple[int, int], list[Piece]] = {}
    for piece in shown.pieces:
        size = -(piece.last - piece.first) // STEP, -_piece_keys(piece) // _BATCH_STEP
        similar.setdefault(size, []).append(piece)
    batches = [_batch(segment, group, dtype, window) for group in similar.values()]
    spans: list[tuple[Span, Any]] = [(span, None) for span in shown.spans]
    if window is not None:
        positions, keys = segment.positions, key_positions(segment)
        for band in shown.bands:
            seen = keys[band.key_first : band.key_last]
            visible = positions[band.first : band.last, None] - seen[None] < window
            spans.append((band, _hiding(~visible, dtype)[None, None]))
    return Parts(tokens=segment.tokens.size, runs=shown.runs, spans=spans, batches=batches)


def _piece_keys(piece: Piece) -> int:
    return piece.last - piece.first + keys_in(piece.before)


def _hiding(hidden: NDArray[np.bool_], dtype: Any) -> Any:
    """Return a mask with finite numbers, so that a query of a band that sees none of its keys is not NaN."""
    import torch

    return torch.zeros(hidden.shape, dtype=dtype).masked_fill_(
        torch.from_numpy(hidden), torch.finfo(dtype).min
    )


def _batch(segment: Segment, pieces: list[Piece], dtype: Any, window: int | None) -> Batch:
    most_queries = max(piece.last - piece.first for piece in pieces)
    most_keys = max(map(_piece_keys, pieces))
    queries = np.full((len(pieces), most_queries + -most_queries % STEP), segment.tokens.size)
    keys = np.zeros((len(pieces), most_keys + -most_keys % STEP), dtype=np.int64)
    visible = np.zeros((*queries.shape, keys.shape[1]), dtype=bool)
    for number, (first, last, before) in enumerate(pieces):
        tokens = np.arange(first, last)
        past = keys_in(before)
        size = last - first
        present = past + size
        queries[number, :size] = tokens
        keys[number, :present] = np.concatenate(
            [*(np.arange(*keys) for keys in before), segment.start + tokens]
        )
        visible[number, :size, :past] = True
        visible[number, :size, past:present] = (tokens[None, :] <= tokens[:, None]) & (
            tokens[:, None] < segment.ends[None, first:last]
        )
        if window is not None:
            distances = (
                segment.positions[tokens][:, None]
                - key_positions(segment)[keys[number, :present]][None]
            )
            visible[number, :size, :present] &= distances < window
        # Padded queries see one key; without any they would be NaN.
        visible[number, size:, 0] = True
    return Batch(queries, keys, _hiding(~visible, dtype)[:, None])


def _gather(parts: Parts, heads: int, key_heads: int, total: int) -> Gathered:
    """Return the rows that batches take from flattened tensors, computed once; queries of one key head are stacked."""
    import torch

    shape = heads, key_heads, total
    if shape not in parts.gathered:
        group = heads // key_heads
        head = np.arange(heads).reshape(key_heads, group, 1)
        key_head = np.arange(key_heads)[:, None]
        # The tokens of runs may have any row.
        results = np.zeros(heads * parts.tokens, dtype=np.int64)
        queries, keys, masks, done = [], [], [], 0
        for batch in parts.batches:
            rows = (batch.queries[:, None, None] * heads + head).ravel()
            unpadded = np.flatnonzero(rows < results.size)
            results[rows[unpadded]] = done + unpadded
            done += rows.size
            queries.append(torch.from_numpy(np.minimum(rows, results.size - 1)))
            keys.append(torch.from_numpy((key_head * total + batch.keys[:, None]).ravel()))
            masks.append(batch.mask.repeat(1, 1, group, 1))
        parts.gathered[shape] = Gathered(queries, keys, masks, torch.from_numpy(results))
    return parts.gathered[shape]


def register() -> None:
    """Register `attend` with transformers, under NAME."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)


def attend(
    _module: Any,
    query: Any,
    key: Any,
    value: Any,
    _attention_mask: Any,
    *,
    parts: Parts | None = None,
    window_parts: Parts | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **others: Any,
) -> tuple[Any, None]:
    """Compute the attention of one layer, with the signature that transformers expects.

    Shapes (1, heads, tokens, width) of `query`, (1, key heads, tokens of the cache and the segment, width) of `key` and
    `value`, (1, tokens, heads, width) of what is returned. `window_parts` is for layers with a `sliding_window` (None:
    no text is longer); `softcap` c makes of each score c tanh(score / c); `s_aux` holds a score for each head that adds
    nothing.
    """
    import torch

    if parts is None:
        raise NotImplementedError("tree attention with no parts")
    if others.get("position_bias") is not None:
        raise NotImplementedError("tree attention with position_bias")
    if sliding_window is not None and window_parts is not None:
        parts = window_parts
    # No public function returns the logarithms.
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001
    kernel = flash if softcap is None else functools.partial(_capped_attention, softcap)
    return _attend(
        query, key, value, parts, functools.partial(kernel, scale=scaling), sinks=s_aux
    ), None


def _capped_attention(
    softcap: float,
    query: Any,
    key: Any,
    value: Any,
    *,
    scale: float | None,
    attn_mask: Any = None,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Return attention and the logarithms of its sums, with capped scores; arguments as for the flash kernel."""
    import torch

    (rows, heads, tokens, width), group = query.shape, query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(group, dim=1) for tensor in (key, value))
    output = torch.empty_like(query)
    logs = query.new_empty(rows, heads, tokens, dtype=torch.float32)
    for first in range(0, tokens, _CAPPED_CHUNK):
        some = slice(first, first + _CAPPED_CHUNK)
        scores = query[:, :, some] @ key.transpose(2, 3) * (width**-0.5 if scale is None else scale)
        scores = torch.tanh(scores / softcap) * softcap
        if attn_mask is not None:
            scores = scores + attn_mask[:, :, some]
        if is_causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(first + 1)
            scores = scores.masked_fill(hidden, -torch.inf)
        scores = scores.float()
        logs[:, :, some] = torch.logsumexp(scores, dim=-1)
        output[:, :, some] = torch.exp(scores - logs[:, :, some, None]).to(value.dtype) @ value
    return output, logs


def _attend(
    query: Any, key: Any, value: Any, parts: Parts, kernel: Callable[..., Any], *, sinks: Any
) -> Any:
    """Merge the parts of attention; `kernel` computes one of them with the logarithms of its sums."""
    import torch

    (_, heads, tokens, width), (_, key_heads, total, _) = query.shape, key.shape
    flat = query.transpose(1, 2).reshape(-1, width)
    keys, values = key.reshape(-1, width), value.reshape(-1, width)
    gathered = _gather(parts, heads, key_heads, total)
    batch_results = []
    for query_rows, key_rows, mask in zip(
        gathered.queries, gathered.keys, gathered.masks, strict=True
    ):
        shape = (len(mask), key_heads, -1, width)
        rows_of = ((flat, query_rows), (keys, key_rows), (values, key_rows))
        inputs = [tensor.index_select(0, rows).view(shape) for tensor, rows in rows_of]
        batch_results.append(kernel(*inputs, attn_mask=mask))
    if batch_results:
        merged = torch.cat([output.reshape(-1, width) for output, _ in batch_results])
        logs = torch.cat([log.flatten() for _, log in batch_results])
        merged = merged.index_select(0, gathered.results)
        logs = logs.index_select(0, gathered.results)
    else:
        merged = torch.empty_like(flat)
        logs = flat.new_empty(len(flat), dtype=torch.float32)
    merged, logs = merged.view(tokens, heads, width), logs.view(tokens, heads)
    for first, last in parts.runs:
        queries = slice(first, last)
        run_keys = slice(total - tokens + first, total - tokens + last)
        output, log = kernel(
            query[:, :, queries], key[:, :, run_keys], value[:, :, run_keys], is_causal=True
        )
        merged[queries], logs[queries] = output[0].transpose(0, 1), log[0].T
    for number, ((first, last, key_first, key_last), mask) in enumerate(parts.spans):
        queries, span_keys = slice(first, last), slice(key_first, key_last)
        output, log = kernel(
            query[:, :, queries], key[:, :, span_keys], value[:, :, span_keys], attn_mask=mask
        )
        output, log = output[0].transpose(0, 1), log[0].T
        weight = torch.sigmoid(log - logs[queries])[..., None]
        chunks = (tensor.split(_MERGE_CHUNK) for tensor in (merged[queries], output, weight))
        for merged_chunk, output_chunk, weight_chunk in zip(*chunks, strict=True):
            merged_chunk.copy_(torch.lerp(merged_chunk.float(), output_chunk.float(), weight_chunk))
        merged_later = any(
            last > later.first and first < later.last for later, _ in parts.spans[number + 1 :]
        )
        if merged_later or sinks is not None:
            logs[queries] = torch.logaddexp(logs[queries], log)
    if sinks is not None:
        merged = merged * torch.sigmoid(logs - sinks.float())[..., None].to(merged.dtype)
    return merged[None]
