"""Attention of a packed tree without a mask over everything: parts that are computed apart and put together exactly.

A token sees its ancestors only, and those lie in few runs of keys. What many queries see alike (the article before
them) is computed for all of them at once, without a mask: a span. Short runs and small subtrees are pieces: each has
its queries, and a copy of the keys that no span shows them; pieces of like size are one batch. Each part comes with the
logarithm of the sum of its exponentiated scores, which is all that is needed to merge two parts: the weight of one is
sigmoid(its logarithm - the other's).
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
_TOGETHER = 128  # tokens: smaller subtrees that stand side by side share a piece
_SHORT = 256  # tokens: longer runs are no pieces, and of more keys most are shown by spans instead of being copied
_STEP = 16  # keys of spans, queries and keys of pieces: the kernel is up to a third slower where it is no multiple
_ALIKE = 64  # keys: pieces that differ by less are padded to be one batch
_MERGED = 256  # tokens that are merged together, in float32: all of them would not stay in a core's cache

Range = tuple[int, int]


class Run(NamedTuple):
    """Tokens from `first` to `last` (excluded) of a segment, of which each sees those before it."""

    first: int
    last: int


class Piece(NamedTuple):
    """Tokens of a segment whose queries see all keys of `before` (ranges of the cache), and some of each other's."""

    first: int
    last: int
    before: tuple[Range, ...]


class Span(NamedTuple):
    """Queries `first` to `last` of a segment, which all see the keys `seen` to `until` (excluded) of the cache."""

    first: int
    last: int
    seen: int
    until: int


class Cover(NamedTuple):
    """Runs and pieces, which hold each token once, and spans; together they show a token what it may see, and once."""

    runs: list[Run]
    pieces: list[Piece]
    spans: list[Span]


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded pieces: `places` among the queries (their number where padded), of `keys` in the cache, and a mask."""

    places: NDArray[np.int64]
    keys: NDArray[np.int64]
    mask: Any


class Taken(NamedTuple):
    """Rows of tensors that end in the width: of queries and keys for each batch, with its mask, and back again."""

    queries: list[Any]
    keys: list[Any]
    masks: list[Any]
    back: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of attention for the queries at some places of a segment, which runs and spans count instead of tokens.

    `taken` is what is taken for them from tensors of the heads that were met.
    """

    places: NDArray[np.int64]
    runs: list[Run]
    spans: list[Span]
    batches: list[Batch]
    taken: dict[tuple[int, int, int], Taken] = field(default_factory=dict)


def cover(segment: Segment, together: int = _TOGETHER, short: int = _SHORT, even: int = _STEP) -> Cover:
    """What of a segment is computed together.

    Args:
        segment: a packed tree and the number of tokens in the cache before it.
        together: tokens of subtrees that may share a piece at most.
        short: tokens of a run that may be a piece, and keys before a piece, at most; a little more of the latter, as
            the remainders of spans add up.
        even: spans hold multiples of so many keys, except before long runs.
    """
    ends, past = segment.ends, segment.start
    size = int(ends.size)
    edges = np.append(1 + np.flatnonzero(np.diff(ends)), size)  # neighbours of two nodes end in different places
    found = Cover([], [], [])
    waiting: list[tuple[int, int, tuple[Range, ...]]] = [(0, size, ((0, past),) if past else ())]
    while waiting:  # subtrees side by side that see the keys `before`
        place, last, before = waiting.pop()
        first = place  # of the tokens that are not in a piece yet
        while place < last:
            end, stop = int(ends[place]), int(edges[np.searchsorted(edges, place, side="right")])
            if (end < last or stop - place <= short) and _total(before) > short:
                before = _spanned(found.spans, place, last, before, even)
            if end - place <= together:
                if end - first > together:
                    found.pieces.append(Piece(first, place, before))
                    first = place
                place = end
                continue
            if place > first:
                found.pieces.append(Piece(first, place, before))
            if stop - place <= short:
                found.pieces.append(Piece(place, stop, before))
            else:
                found.runs.append(Run(place, stop))
                found.spans.extend(Span(place, stop, *keys) for keys in before)
            if stop < end:
                waiting.append((stop, end, _joined(before, (past + place, past + stop))))
            first = place = end
        if place > first:
            found.pieces.append(Piece(first, place, before))
    return found


def _total(ranges: tuple[Range, ...]) -> int:
    return sum(until - seen for seen, until in ranges)


def _joined(before: tuple[Range, ...], more: Range) -> tuple[Range, ...]:
    if before and before[-1][1] == more[0]:
        return (*before[:-1], (before[-1][0], more[1]))
    return (*before, more)


def _spanned(spans: list[Span], first: int, last: int, before: tuple[Range, ...], even: int) -> tuple[Range, ...]:
    """Show the queries what they all see before them, but for remainders, which are returned."""
    rest = []
    for seen, until in before:
        cut = until - (until - seen) % even
        if cut > seen:
            spans.append(Span(first, last, seen, cut))
        if cut < until:
            rest.append((cut, until))
    return tuple(rest)


def parts_of(segment: Segment, dtype: Any, places: Sequence[int] | None = None) -> Parts:  # noqa: ANN401  of torch
    """The parts of a segment, with the masks of its pieces.

    Args:
        segment: a packed tree and the number of tokens in the cache before it.
        dtype: of the model.
        places: of the only tokens whose queries are wanted, in order; None are all.
    """
    runs, pieces, spans = cover(segment)
    if places is None:
        asked = np.arange(segment.tokens.size)
    else:
        asked, pieces, runs = np.array(places), [*pieces, *(Piece(*run, ()) for run in runs)], []
    like: dict[tuple[int, int], list[Piece]] = {}
    for piece in pieces:
        if queries := int(np.subtract(*np.searchsorted(asked, (piece.last, piece.first)))):
            like.setdefault((-queries // _STEP, -_keys(piece) // _ALIKE), []).append(piece)
    batches = [_batch(segment, several, asked, dtype) for several in like.values()]
    moved = []
    for span in spans:
        first, last = np.searchsorted(asked, span[:2]).tolist()
        if last > first:
            moved.append(Span(first, last, *span[2:]))
    return Parts(places=asked, runs=runs, spans=moved, batches=batches)


def _keys(piece: Piece) -> int:
    return piece.last - piece.first + _total(piece.before)


def _batch(segment: Segment, pieces: list[Piece], asked: NDArray[np.int64], dtype: Any) -> Batch:  # noqa: ANN401  of torch
    import torch  # noqa: PLC0415  optional

    ranges = [np.searchsorted(asked, piece[:2]).tolist() for piece in pieces]
    queries, most = max(last - first for first, last in ranges), max(map(_keys, pieces))
    places = np.full((len(pieces), queries + -queries % _STEP), asked.size)
    keys = np.zeros((len(pieces), most + -most % _STEP), dtype=np.int64)
    seen = np.zeros((*places.shape, keys.shape[1]), dtype=bool)
    seen[:, :, 0] = True  # for padded queries: without any key they would be NaN
    for number, ((first, last, before), (low, high)) in enumerate(zip(pieces, ranges, strict=True)):
        own, mine, shown = np.arange(first, last), asked[low:high], _total(before)
        places[number, : mine.size] = np.arange(low, high)
        keys[number, : shown + own.size] = np.concatenate([*(np.arange(*each) for each in before), segment.start + own])
        seen[number, : mine.size, :shown] = True
        seen[number, : mine.size, shown : shown + own.size] = (own[None, :] <= mine[:, None]) & (
            mine[:, None] < segment.ends[None, first:last]
        )
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(torch.from_numpy(~seen), -torch.inf)
    return Batch(places, keys, mask[:, None])


def _taken(parts: Parts, heads: int, key_heads: int, total: int) -> Taken:
    """What is taken from where, for tensors of so many heads; the same in every layer, so it is made once.

    Heads that share a key head stand one after another as more queries of that one.
    """
    import torch  # noqa: PLC0415  optional

    asked = (heads, key_heads, total)
    if asked not in parts.taken:
        group = heads // key_heads
        head = np.arange(heads).reshape(key_heads, group, 1)
        queries = [batch.places[:, None, None] * heads + head for batch in parts.batches]
        keys = [np.arange(key_heads)[:, None] * total + batch.keys[:, None] for batch in parts.batches]
        flat = np.concatenate([np.zeros(0, dtype=np.int64), *(rows.ravel() for rows in queries)])
        back = np.zeros(heads * parts.places.size, dtype=np.int64)  # of the tokens of runs: anything
        within = flat < back.size
        back[flat[within]] = np.flatnonzero(within)
        parts.taken[asked] = Taken(
            [torch.from_numpy(np.minimum(rows, back.size - 1).ravel()) for rows in queries],
            [torch.from_numpy(rows.ravel()) for rows in keys],
            [batch.mask.repeat(1, 1, group, 1) for batch in parts.batches],
            torch.from_numpy(back),
        )
    return parts.taken[asked]


def register() -> None:
    """Let a model of transformers use `attend`, under NAME."""
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
    at_last: Parts | None = None,
    scaling: float | None = None,
    **others: Any,  # noqa: ANN401
) -> tuple[Any, None]:
    """The attention of one layer, as transformers asks for it.

    Args:
        module: of the layer.
        query: shape (1, heads, tokens, width).
        key: shape (1, key heads, tokens of the cache and the segment, width).
        value: like `key`.
        parts: of the segment.
        at_last: of the places that alone are wanted of the last layer, whose others are 0.
        scaling: of the scores; None is 1 / sqrt(width).
        **others: what else the model asks for; what would change the scores is refused.

    Returns:
        Shape (1, tokens, heads, width), and no weights.

    Raises:
        NotImplementedError: the model does more to its scores than scale them, or did not pass the parts on.
    """
    extra = [name for name in ("softcap", "s_aux", "position_bias") if others.get(name) is not None]
    if parts is None or extra:
        raise NotImplementedError(f"attention in parts with {', '.join(extra) or 'no parts'}")
    if at_last is None or module.layer_idx < module.config.num_hidden_layers - 1:
        return _attend(query, key, value, parts, scaling), None
    few = _attend(query[:, :, at_last.places], key, value, at_last, scaling)
    out = few.new_zeros(1, query.shape[2], *few.shape[2:])
    out[:, at_last.places] = few
    return out, None


def _attend(query: Any, key: Any, value: Any, parts: Parts, scaling: float | None) -> Any:  # noqa: ANN401  tensors
    import torch  # noqa: PLC0415  optional

    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001  alone gives the logarithms
    (_, heads, tokens, width), (_, key_heads, total, _) = query.shape, key.shape
    flat = query.transpose(1, 2).reshape(-1, width)
    keys, values = key.reshape(-1, width), value.reshape(-1, width)
    taken = _taken(parts, heads, key_heads, total)
    found = []
    for to, seen, mask in zip(taken.queries, taken.keys, taken.masks, strict=True):
        shape = (len(mask), key_heads, -1, width)
        chosen = [each.index_select(0, rows).view(shape) for each, rows in ((flat, to), (keys, seen), (values, seen))]
        found.append(flash(*chosen, attn_mask=mask, scale=scaling))
    if found:
        merged = torch.cat([part.reshape(-1, width) for part, _ in found]).index_select(0, taken.back)
        logs = torch.cat([log.flatten() for _, log in found]).index_select(0, taken.back)
    else:
        merged, logs = torch.empty_like(flat), flat.new_empty(len(flat), dtype=torch.float32)
    merged, logs = merged.view(tokens, heads, width), logs.view(tokens, heads)
    for first, last in parts.runs:
        here, own = slice(first, last), slice(total - tokens + first, total - tokens + last)
        one, log = flash(query[:, :, here], key[:, :, own], value[:, :, own], is_causal=True, scale=scaling)
        merged[here], logs[here] = one[0].transpose(0, 1), log[0].T
    for number, (first, last, since, until) in enumerate(parts.spans):
        here = slice(first, last)
        more, log = flash(query[:, :, here], key[:, :, since:until], value[:, :, since:until], scale=scaling)
        more, log = more[0].transpose(0, 1), log[0].T
        weight = torch.sigmoid(log - logs[here])[..., None]
        for old, new, share in zip(*(each.split(_MERGED) for each in (merged[here], more, weight)), strict=True):
            old.copy_(torch.lerp(old.float(), new.float(), share))
        if any(last > later.first and first < later.last for later in parts.spans[number + 1 :]):
            logs[here] = torch.logaddexp(logs[here], log)
    return merged[None]
