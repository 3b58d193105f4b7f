"""Attention of a packed tree without a mask over everything: parts that are computed apart and put together exactly.

A token sees its ancestors only, and those lie in few runs of keys. So the attention of a segment is computed block by
block (each token to what it sees within its own block) and for spans (many queries that all see the same keys, such as
the article before them). Each part comes with the logarithm of the sum of its exponentiated scores, which is all that
is needed to merge two parts: the weight of one is sigmoid(its logarithm - the other's).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from refladder.backends.local.trie import Segment

NAME = "refladder_tree"
_BLOCK = 128  # tokens: smaller subtrees that stand side by side share a block, with a mask


class Block(NamedTuple):
    """Tokens from `first` to `last` (excluded) of a segment; `causal` if each sees all before it in the block."""

    first: int
    last: int
    causal: bool


class Span(NamedTuple):
    """Queries `first` to `last` of a segment, which all see the keys `seen` to `until` (excluded) of the cache."""

    first: int
    last: int
    seen: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a segment's attention: blocks that cover it, each with its mask, and spans over them."""

    blocks: list[tuple[Block, Any]]
    spans: list[Span]


def blocks_and_spans(segment: Segment, block: int = _BLOCK) -> tuple[list[Block], list[Span]]:
    """What of a segment is computed together.

    Args:
        segment: a packed tree and the number of tokens in the cache before it.
        block: tokens of subtrees that may share a block at most.

    Returns:
        Blocks, in order and without gaps, and spans: a token sees, of the cache and the segment, exactly what its block
        and its spans show it.
    """
    ends, past = segment.ends, segment.start
    size = int(ends.size)
    edges = [0, *(1 + np.flatnonzero(np.diff(ends))).tolist(), size]  # of nodes: neighbours end in different places
    blocks: list[Block] = []
    spans: list[Span] = []
    shown = 0  # keys of the segment that follow the cache without a gap and are seen by all that comes after
    if size and int(ends[0]) == size and edges[1] < size:  # one root: what is below it sees the cache and it as one run
        blocks.append(Block(0, edges[1], causal=True))
        if past:
            spans.append(Span(0, edges[1], 0, past))
        shown = edges[1]
    if past + shown:
        spans.append(Span(shown, size, 0, past + shown))
    open_first = place = shown
    while place < size:
        end, length = int(ends[place]), _length(edges, place)
        whole = end == place + length
        if end - place <= block or whole:
            if place > open_first and end - open_first > block:
                blocks.append(_block(segment, open_first, place))
                open_first = place
            place = end
            continue
        if place > open_first:
            blocks.append(_block(segment, open_first, place))
        blocks.append(Block(place, place + length, causal=True))
        spans.append(Span(place + length, end, past + place, past + place + length))
        place += length
        open_first = place
    if place > open_first:
        blocks.append(_block(segment, open_first, place))
    return blocks, spans


def _length(edges: list[int], place: int) -> int:
    return next(edge for edge in edges if edge > place) - place


def _block(segment: Segment, first: int, last: int) -> Block:
    return Block(first, last, causal=bool(np.all(segment.ends[first:last] == last)))


def parts_of(segment: Segment, dtype: Any) -> Parts:  # noqa: ANN401  of torch
    """The parts of a segment, with the masks of its blocks."""
    import torch  # noqa: PLC0415  optional

    blocks, spans = blocks_and_spans(segment)
    masked: list[tuple[Block, Any]] = []
    for block in blocks:
        mask = None
        if not block.causal:
            place = np.arange(block.first, block.last)
            seen = (place[None, :] <= place[:, None]) & (place[:, None] < segment.ends[None, block.first : block.last])
            mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(torch.from_numpy(~seen), -torch.inf)[None, None]
        masked.append((block, mask))
    return Parts(blocks=masked, spans=spans)


def register() -> None:
    """Let a model of transformers use `attend`, under NAME."""
    from transformers import AttentionInterface  # noqa: PLC0415  optional

    AttentionInterface.register(NAME, attend)


def attend(
    _module: Any,  # noqa: ANN401
    query: Any,  # noqa: ANN401
    key: Any,  # noqa: ANN401
    value: Any,  # noqa: ANN401
    _attention_mask: Any,  # noqa: ANN401
    *,
    parts: Parts | None = None,
    scaling: float | None = None,
    **others: Any,  # noqa: ANN401
) -> tuple[Any, None]:
    """The attention of one layer, as transformers asks for it.

    Args:
        query: shape (1, heads, tokens, width).
        key: shape (1, key heads, tokens of the cache and the segment, width).
        value: like `key`.
        parts: of the segment.
        scaling: of the scores; None is 1 / sqrt(width).
        **others: what else the model asks for; what would change the scores is refused.

    Returns:
        Shape (1, tokens, heads, width), and no weights.

    Raises:
        NotImplementedError: the model does more to its scores than scale them, or did not pass the parts on.
    """
    import torch  # noqa: PLC0415  optional

    extra = [name for name in ("softcap", "s_aux", "position_bias") if others.get(name) is not None]
    if parts is None or extra:
        raise NotImplementedError(f"attention in parts with {', '.join(extra) or 'no parts'}")
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001  alone gives the logarithms
    tokens, past = query.shape[2], key.shape[2] - query.shape[2]
    merged = torch.empty(tokens, query.shape[1], value.shape[3], dtype=torch.float32)
    out = merged.transpose(0, 1)[None]
    logs = torch.empty(1, query.shape[1], tokens, dtype=torch.float32)
    for (first, last, causal), mask in parts.blocks:
        keys = slice(past + first, past + last)
        out[:, :, first:last], logs[:, :, first:last] = flash(
            query[:, :, first:last], key[:, :, keys], value[:, :, keys], is_causal=causal, attn_mask=mask, scale=scaling
        )
    for number, (first, last, seen, until) in enumerate(parts.spans):
        more, log = flash(query[:, :, first:last], key[:, :, seen:until], value[:, :, seen:until], scale=scaling)
        weight = torch.sigmoid(log - logs[:, :, first:last])
        out[:, :, first:last].lerp_(more.float(), weight[..., None])
        if any(last > later.first and first < later.last for later in parts.spans[number + 1 :]):
            logs[:, :, first:last] = torch.logaddexp(logs[:, :, first:last], log)
    return merged.to(query.dtype)[None], None
