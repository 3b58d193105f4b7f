"""Attention over a packed tree, without a mask over everything: parts that are computed apart and merged exactly.

A token sees its ancestors only, and those lie in a few ranges of keys. Keys that many queries see (the article before
them) are attended to by all of these queries at once, without a mask: a span. Short runs and small subtrees are
pieces: each has its queries and a copy of the keys that no span covers, and pieces of similar size form one batch. The
kernel returns each part with the logarithm of the sum of its exponentiated scores. That is enough to merge two parts:
the weight of the first is sigmoid(its logarithm - the logarithm of the second).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from refladder.engine.trie import Segment

NAME = "refladder_tree"
_PIECE_TOKENS = 128  # neighbouring subtrees of at most so many tokens share a piece
_SHORT = 256  # tokens: a longer run is no piece, and of more keys than that most go to spans instead of being copied
_STEP = 16  # keys of spans, queries and keys of pieces: other sizes make the kernel up to a third slower
_BATCH_STEP = 64  # keys: pieces that differ by less are padded to form one batch
_MERGE_CHUNK = 256  # tokens that are merged together, in float32: more would not stay in a core's cache

Range = tuple[int, int]


class Run(NamedTuple):
    """Tokens `first` to `last` (excluded) of a segment; each sees those before it."""

    first: int
    last: int


class Piece(NamedTuple):
    """Tokens of a segment whose queries see all keys of `before` (ranges of the cache) and some of each other's."""

    first: int
    last: int
    before: tuple[Range, ...]


class Span(NamedTuple):
    """Queries `first` to `last` of a segment, which all see the keys `key_first` to `key_last` of the cache."""

    first: int
    last: int
    key_first: int
    key_last: int


class Cover(NamedTuple):
    """Runs and pieces hold each token once; together with the spans they show each token every visible key once."""

    runs: list[Run]
    pieces: list[Piece]
    spans: list[Span]


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
    """The parts of attention for the queries at some token indices of a segment.

    The bounds of runs and spans, and the queries of batches, count these queries instead of tokens. `gathered` caches
    what `_gather` returns by the number of heads, key heads and keys.
    """

    indices: NDArray[np.int64]
    runs: list[Run]
    spans: list[Span]
    batches: list[Batch]
    gathered: dict[tuple[int, int, int], Gathered] = field(default_factory=dict)


def cover(segment: Segment, piece_tokens: int = _PIECE_TOKENS, short: int = _SHORT, step: int = _STEP) -> Cover:
    """Divide a segment into runs, pieces and spans.

    Args:
        segment: a packed tree and the number of tokens in the cache before it.
        piece_tokens: maximum number of tokens of subtrees that share a piece.
        short: maximum length of a run that becomes a piece, and of the keys before a piece. The keys may be slightly
            more, as the remainders of spans add up.
        step: spans hold multiples of this number of keys, except those before long runs.
    """
    ends, past = segment.ends, segment.start
    size = int(ends.size)
    edges = np.append(1 + np.flatnonzero(np.diff(ends)), size)  # neighbouring nodes have different ends
    parts = Cover([], [], [])
    pending: list[tuple[int, int, tuple[Range, ...]]] = [(0, size, ((0, past),) if past else ())]
    while pending:  # sibling subtrees, which see the keys `before`
        index, last, before = pending.pop()
        first = index  # of the tokens that are in no piece yet
        while index < last:
            end, stop = int(ends[index]), int(edges[np.searchsorted(edges, index, side="right")])
            if (end < last or stop - index <= short) and _keys_in(before) > short:
                before = _add_spans(parts.spans, index, last, before, step)
            if end - index <= piece_tokens:
                if end - first > piece_tokens:
                    parts.pieces.append(Piece(first, index, before))
                    first = index
                index = end
                continue
            if index > first:
                parts.pieces.append(Piece(first, index, before))
            if stop - index <= short:
                parts.pieces.append(Piece(index, stop, before))
            else:
                parts.runs.append(Run(index, stop))
                parts.spans.extend(Span(index, stop, *keys) for keys in before)
            if stop < end:
                pending.append((stop, end, _appended(before, (past + index, past + stop))))
            first = index = end
        if index > first:
            parts.pieces.append(Piece(first, index, before))
    return parts


def _keys_in(ranges: tuple[Range, ...]) -> int:
    return sum(last - first for first, last in ranges)


def _appended(ranges: tuple[Range, ...], more: Range) -> tuple[Range, ...]:
    if ranges and ranges[-1][1] == more[0]:
        return (*ranges[:-1], (ranges[-1][0], more[1]))
    return (*ranges, more)


def _add_spans(spans: list[Span], first: int, last: int, before: tuple[Range, ...], step: int) -> tuple[Range, ...]:
    """Add spans for the keys that all these queries see, and return the remainders that are no multiple of `step`."""
    remainders = []
    for key_first, key_last in before:
        boundary = key_last - (key_last - key_first) % step
        if boundary > key_first:
            spans.append(Span(first, last, key_first, boundary))
        if boundary < key_last:
            remainders.append((boundary, key_last))
    return tuple(remainders)


def parts_of(segment: Segment, dtype: Any, indices: Sequence[int] | None = None) -> Parts:  # noqa: ANN401  of torch
    """The parts of attention over a segment, with the masks of the pieces.

    Args:
        segment: a packed tree and the number of tokens in the cache before it.
        dtype: of the model.
        indices: the tokens whose queries are needed, in order; None means all.
    """
    runs, pieces, spans = cover(segment)
    if indices is None:
        asked = np.arange(segment.tokens.size)
    else:
        asked, pieces, runs = np.array(indices), [*pieces, *(Piece(*run, ()) for run in runs)], []
    similar: dict[tuple[int, int], list[Piece]] = {}
    for piece in pieces:
        if queries := int(np.subtract(*np.searchsorted(asked, (piece.last, piece.first)))):
            similar.setdefault((-queries // _STEP, -_piece_keys(piece) // _BATCH_STEP), []).append(piece)
    batches = [_batch(segment, group, asked, dtype) for group in similar.values()]
    moved = []
    for span in spans:
        first, last = np.searchsorted(asked, span[:2]).tolist()
        if last > first:
            moved.append(Span(first, last, *span[2:]))
    return Parts(indices=asked, runs=runs, spans=moved, batches=batches)


def _piece_keys(piece: Piece) -> int:
    return piece.last - piece.first + _keys_in(piece.before)


def _batch(segment: Segment, pieces: list[Piece], asked: NDArray[np.int64], dtype: Any) -> Batch:  # noqa: ANN401  of torch
    import torch  # noqa: PLC0415  optional

    ranges = [np.searchsorted(asked, piece[:2]).tolist() for piece in pieces]
    most_queries, most_keys = max(last - first for first, last in ranges), max(map(_piece_keys, pieces))
    queries = np.full((len(pieces), most_queries + -most_queries % _STEP), asked.size)
    keys = np.zeros((len(pieces), most_keys + -most_keys % _STEP), dtype=np.int64)
    visible = np.zeros((*queries.shape, keys.shape[1]), dtype=bool)
    visible[:, :, 0] = True  # for padded queries: without any key they would be NaN
    for number, ((first, last, before), (low, high)) in enumerate(zip(pieces, ranges, strict=True)):
        tokens, query_tokens, past = np.arange(first, last), asked[low:high], _keys_in(before)
        present = past + tokens.size
        queries[number, : query_tokens.size] = np.arange(low, high)
        keys[number, :present] = np.concatenate([*(np.arange(*keys) for keys in before), segment.start + tokens])
        visible[number, : query_tokens.size, :past] = True
        visible[number, : query_tokens.size, past:present] = (tokens[None, :] <= query_tokens[:, None]) & (
            query_tokens[:, None] < segment.ends[None, first:last]
        )
    mask = torch.zeros(visible.shape, dtype=dtype).masked_fill_(torch.from_numpy(~visible), -torch.inf)
    return Batch(queries, keys, mask[:, None])


def _gather(parts: Parts, heads: int, key_heads: int, total: int) -> Gathered:
    """The rows that batches take from flattened tensors; the same in every layer, so computed once.

    Query heads that share a key head are stacked as further queries of that key head.

    Args:
        parts: of a segment.
        heads: number of query heads.
        key_heads: number of key heads.
        total: number of keys in the cache, those of the segment included.
    """
    import torch  # noqa: PLC0415  optional

    shape = (heads, key_heads, total)
    if shape not in parts.gathered:
        group = heads // key_heads
        head = np.arange(heads).reshape(key_heads, group, 1)
        queries = [batch.queries[:, None, None] * heads + head for batch in parts.batches]
        keys = [np.arange(key_heads)[:, None] * total + batch.keys[:, None] for batch in parts.batches]
        flat = np.concatenate([np.zeros(0, dtype=np.int64), *(rows.ravel() for rows in queries)])
        results = np.zeros(heads * parts.indices.size, dtype=np.int64)  # for the tokens of runs: arbitrary
        unpadded = flat < results.size
        results[flat[unpadded]] = np.flatnonzero(unpadded)
        parts.gathered[shape] = Gathered(
            [torch.from_numpy(np.minimum(rows, results.size - 1).ravel()) for rows in queries],
            [torch.from_numpy(rows.ravel()) for rows in keys],
            [batch.mask.repeat(1, 1, group, 1) for batch in parts.batches],
            torch.from_numpy(results),
        )
    return parts.gathered[shape]


def register() -> None:
    """Register `attend` with transformers, under NAME."""
    from transformers import AttentionInterface  # noqa: PLC0415  optional

    AttentionInterface.register(NAME, attend)


def attend(
    module: Any,  # noqa: ANN401
    query: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
    value: Any,  # noqa: ANN401
    _attention_mask: Any,  # noqa: ANN401
    *,
    parts: Parts | None = None,
    last_layer_parts: Parts | None = None,
    scaling: float | None = None,
    **others: Any,  # noqa: ANN401
) -> tuple[Any, None]:
    """The attention of one layer, with the signature that transformers expects.

    Args:
        module: of the layer.
        query: shape (1, heads, tokens, width).
        key: shape (1, key heads, tokens of the cache and the segment, width).
        value: like `key`.
        parts: of the segment.
        last_layer_parts: for the only queries that the last layer computes; its output is 0 elsewhere.
        scaling: of the scores; None means 1 / sqrt(width).
        **others: further arguments of the model; those that would change the scores raise an error.

    Returns:
        Shape (1, tokens, heads, width), and None in place of the weights.

    Raises:
        NotImplementedError: the model does more to its scores than scale them, or did not pass the parts on.
    """
    unsupported = [name for name in ("softcap", "s_aux", "position_bias") if others.get(name) is not None]
    if parts is None or unsupported:
        raise NotImplementedError(f"tree attention with {', '.join(unsupported) or 'no parts'}")
    if last_layer_parts is None or module.layer_idx < module.config.num_hidden_layers - 1:
        return _attend(query, key, value, parts, scaling), None
    selected = _attend(query[:, :, last_layer_parts.indices], key, value, last_layer_parts, scaling)
    output = selected.new_zeros(1, query.shape[2], *selected.shape[2:])
    output[:, last_layer_parts.indices] = selected
    return output, None


def _attend(query: Any, key: Any, value: Any, parts: Parts, scaling: float | None) -> Any:  # noqa: ANN401  tensors
    import torch  # noqa: PLC0415  optional

    # No public function returns the logarithms.
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001
    (_, heads, tokens, width), (_, key_heads, total, _) = query.shape, key.shape
    flat = query.transpose(1, 2).reshape(-1, width)
    keys, values = key.reshape(-1, width), value.reshape(-1, width)
    gathered = _gather(parts, heads, key_heads, total)
    batch_results = []
    for query_rows, key_rows, mask in zip(gathered.queries, gathered.keys, gathered.masks, strict=True):
        shape = (len(mask), key_heads, -1, width)
        rows_of = ((flat, query_rows), (keys, key_rows), (values, key_rows))
        inputs = [tensor.index_select(0, rows).view(shape) for tensor, rows in rows_of]
        batch_results.append(flash(*inputs, attn_mask=mask, scale=scaling))
    if batch_results:
        merged = torch.cat([output.reshape(-1, width) for output, _ in batch_results])
        merged = merged.index_select(0, gathered.results)
        logs = torch.cat([log.flatten() for _, log in batch_results]).index_select(0, gathered.results)
    else:
        merged, logs = torch.empty_like(flat), flat.new_empty(len(flat), dtype=torch.float32)
    merged, logs = merged.view(tokens, heads, width), logs.view(tokens, heads)
    for first, last in parts.runs:
        queries, run_keys = slice(first, last), slice(total - tokens + first, total - tokens + last)
        output, log = flash(
            query[:, :, queries], key[:, :, run_keys], value[:, :, run_keys], is_causal=True, scale=scaling
        )
        merged[queries], logs[queries] = output[0].transpose(0, 1), log[0].T
    for number, (first, last, key_first, key_last) in enumerate(parts.spans):
        queries, span_keys = slice(first, last), slice(key_first, key_last)
        output, log = flash(query[:, :, queries], key[:, :, span_keys], value[:, :, span_keys], scale=scaling)
        output, log = output[0].transpose(0, 1), log[0].T
        weight = torch.sigmoid(log - logs[queries])[..., None]
        chunks = (tensor.split(_MERGE_CHUNK) for tensor in (merged[queries], output, weight))
        for merged_chunk, output_chunk, weight_chunk in zip(*chunks, strict=True):
            merged_chunk.copy_(torch.lerp(merged_chunk.float(), output_chunk.float(), weight_chunk))
        if any(last > later.first and first < later.last for later in parts.spans[number + 1 :]):
            logs[queries] = torch.logaddexp(logs[queries], log)
    return merged[None]
