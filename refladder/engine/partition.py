"""The keys that each token of a packed tree sees, as a few ranges: runs, pieces and spans. Pure Python and numpy.

A token sees its ancestors only, and those lie in a few ranges of keys. Keys that many queries see (the article before
them) form a span: all of these queries see all of its keys. Short runs and small subtrees are pieces: each has its
queries and a copy of the keys that no span covers. In a layer with a sliding window (`windowed`) a token sees only the
nearest of its ancestors, and a span loses the keys that are too far away for all or for some of its queries.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from refladder.engine.trie import Segment

# Neighbouring subtrees of at most this many tokens share a piece.
_PIECE_TOKENS = 128
# Tokens: a longer run is no piece, and of more keys than that most go to spans instead of being copied.
_SHORT = 256
# Queries and keys of pieces: other sizes make the kernel up to a third slower.
STEP = 16
# Tokens: a chunk of a run that is cut to its window is a piece if it is shorter.
_SHORT_CHUNK = 64

Range = tuple[int, int]


class Stretch(NamedTuple):
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


class Partition(NamedTuple):
    """Runs and pieces hold each token once; with spans and bands (some keys hidden) they show each visible key once."""

    runs: list[Stretch]
    pieces: list[Piece]
    spans: list[Span]
    bands: list[Span]


def partition(
    segment: Segment, piece_tokens: int = _PIECE_TOKENS, short: int = _SHORT
) -> Partition:
    """Divide a segment into runs, pieces and spans.

    Subtrees of at most `piece_tokens` share a piece. `short` is the maximum length of a run that becomes a piece, and
    of the keys that are copied before a piece.
    """
    ends, past = segment.ends, segment.start
    size = int(ends.size)
    # Neighbouring nodes have different ends.
    edges = np.append(1 + np.flatnonzero(np.diff(ends)), size)
    parts = Partition([], [], [], [])
    pending: list[tuple[int, int, tuple[Range, ...]]] = [(0, size, ((0, past),) if past else ())]
    # Sibling subtrees, which see the keys `before`.
    while pending:
        index, last, before = pending.pop()
        # Start of the tokens that are in no piece yet.
        first = index
        while index < last:
            end = int(ends[index])
            stop = int(edges[np.searchsorted(edges, index, side="right")])
            if (end < last or stop - index <= short) and keys_in(before) > short:
                parts.spans.extend(Span(index, last, *keys) for keys in before)
                before = ()
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
                parts.runs.append(Stretch(index, stop))
                parts.spans.extend(Span(index, stop, *keys) for keys in before)
            if stop < end:
                pending.append((stop, end, _appended(before, (past + index, past + stop))))
            first = index = end
        if index > first:
            parts.pieces.append(Piece(first, index, before))
    return parts


def keys_in(ranges: tuple[Range, ...]) -> int:
    """Return the number of keys in some ranges."""
    return sum(last - first for first, last in ranges)


def _appended(ranges: tuple[Range, ...], more: Range) -> tuple[Range, ...]:
    if ranges and ranges[-1][1] == more[0]:
        return (*ranges[:-1], (ranges[-1][0], more[1]))
    return (*ranges, more)


def key_positions(segment: Segment) -> NDArray[np.int64]:
    """Return the position of each key in its sequence: keys of the cache, then those of the segment."""
    return np.concatenate([np.arange(segment.start), segment.positions])


def windowed(
    segment: Segment, full: Partition, window: int, short_chunk: int = _SHORT_CHUNK
) -> Partition:
    """Restrict a cover to keys at positions p - window + 1 to p of a query at p; pieces hide the rest by masks."""
    runs, pieces, spans = _chunks(segment, full, window, short_chunk)
    positions, keys = segment.positions, key_positions(segment)
    narrowed = []
    for first, last, before in pieces:
        hidden = int(positions[first:last].min()) - window
        narrowed.append(Piece(first, last, _nearest(before, keys, hidden)))
    clear_spans: list[Span] = []
    bands: list[Span] = []
    for first, last, key_first, key_last in spans:
        inside = positions[first:last]
        # Positions grow by one inside a span.
        offset = key_first - int(keys[key_first])
        # First keys that the two queries see.
        starts = np.array([inside.min(), inside.max()]) - window + 1 + offset
        near, clear = np.clip(starts, key_first, key_last).tolist()
        if clear < key_last:
            clear_spans.append(Span(first, last, clear, key_last))
        if near < clear:
            seeing = np.flatnonzero(inside < keys[clear - 1] + window)
            if seeing.size:
                bands.append(Span(first + int(seeing[0]), first + int(seeing[-1]) + 1, near, clear))
    return Partition(runs, narrowed, clear_spans, bands)


def _chunks(
    segment: Segment, full: Partition, window: int, short_chunk: int
) -> tuple[list[Stretch], list[Piece], list[Span]]:
    """Return runs, pieces and spans of a partition whose runs are not longer than the window."""
    most = min(_SHORT, max(window - window % STEP, min(window, STEP)))
    runs, pieces, spans = [], list(full.pieces), list(full.spans)
    for run in full.runs:
        size = run.last - run.first
        if size <= window:
            runs.append(run)
            continue
        edges = np.linspace(run.first, run.last, -(-size // most) + 1).astype(int).tolist()
        for first, last in itertools.pairwise(edges):
            if last - first < short_chunk:
                pieces.append(Piece(first, last, ()))
            else:
                runs.append(Stretch(first, last))
            if first > run.first:
                spans.append(Span(first, last, segment.start + run.first, segment.start + first))
    return runs, pieces, spans


def _nearest(ranges: tuple[Range, ...], keys: NDArray[np.int64], hidden: int) -> tuple[Range, ...]:
    """Return the parts of key ranges whose positions are larger than `hidden`."""
    nearest = []
    for first, last in ranges:
        start = max(first, first + hidden + 1 - int(keys[first]))
        if start < last:
            nearest.append((start, last))
    return tuple(nearest)
