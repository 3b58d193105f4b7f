"""The tree of distinct tokens of many sequences, and the order in which a model is to run it.

Pure Python and numpy: nothing here knows a model.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


class Read(NamedTuple):
    """A log-probability that is wanted: of `token` right after position `place` of sequence number `sequence`."""

    sequence: int
    place: int
    token: int


@dataclass(slots=True, kw_only=True)
class Node:
    """A run of tokens without a branch.

    `start` is the position of its first token, `size` the number of tokens in it and below it. `reads` are (offset of
    the position in `tokens`, the token wanted next, the number of the read).
    """

    start: int
    tokens: IntArray
    size: int = 0
    children: list[Node] = field(default_factory=list)
    reads: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Tokens that go through the model in one forward, after the `start` tokens that its cache holds.

    `positions` is each token's position in its sequence. A token at place j is seen by those at places j to `ends[j]`
    (excluded) and by no other. `reads` are (place, token wanted next, number of the read).
    """

    start: int
    tokens: IntArray
    positions: IntArray
    ends: IntArray
    reads: list[tuple[int, int, int]]

    @property
    def is_chain(self) -> bool:
        """Whether every token sees all those before it."""
        return bool(np.all(self.ends == self.tokens.size))


class Push(NamedTuple):
    """Run a segment and keep it in the cache."""

    segment: Segment


class Row(NamedTuple):
    """Run a segment and forget it."""

    segment: Segment


class Pop(NamedTuple):
    """Forget the last tokens of the cache."""

    tokens: int


def build_trie(sequences: Sequence[Sequence[int]], reads: Sequence[Read]) -> tuple[Node, list[int]]:
    """The radix tree of some token sequences.

    Args:
        sequences: none of them empty; a sequence may stand there twice, or be the beginning of another.
        reads: what is wanted.

    Returns:
        The root (without tokens where not all sequences begin alike), and the sequences that are leaves: for each
        sequence the number of one that begins with it.
    """
    coded = [np.asarray(sequence, dtype=">u4").tobytes() for sequence in sequences]
    order = sorted(range(len(coded)), key=coded.__getitem__)
    arrays = [np.asarray(sequences[number], dtype=np.int64) for number in order]
    kept: list[int] = []  # places in `order` of sequences that begin no other
    common: list[int] = []  # tokens that a kept sequence shares with the kept one before it
    leaf_of = list(range(len(sequences)))
    for place, array in enumerate(arrays):
        following = arrays[place + 1] if place + 1 < len(arrays) else array[:0]
        if _shared(array, following) < array.size:
            common.append(_shared(arrays[kept[-1]], array) if kept else 0)
            kept.append(place)
    for place in range(len(arrays) - 2, -1, -1):
        if _shared(arrays[place], arrays[place + 1]) == arrays[place].size:
            leaf_of[order[place]] = leaf_of[order[place + 1]]
    root, paths = _grow([arrays[place] for place in kept], common)
    path_of = {order[place]: path for place, path in zip(kept, paths, strict=True)}
    for number, read in enumerate(reads):
        for node in path_of[leaf_of[read.sequence]]:
            if read.place < node.start + node.tokens.size:
                node.reads.append((read.place - node.start, read.token, number))
                break
    return root, leaf_of


def _shared(first: IntArray, second: IntArray) -> int:
    length = min(first.size, second.size)
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if different.size else length


def _grow(arrays: Sequence[IntArray], common: Sequence[int]) -> tuple[Node, list[list[Node]]]:
    """Nodes of sorted sequences, none the beginning of another; and each one's nodes from the root."""
    shared = np.asarray(common)
    paths: list[list[Node]] = [[] for _ in arrays]
    top: Node | None = None
    waiting: list[tuple[int, int, int, Node | None]] = [(0, len(arrays), 0, None)]
    while waiting:
        low, high, start, parent = waiting.pop()
        inner = shared[low + 1 : high]
        end = int(inner.min()) if inner.size else arrays[low].size
        node = Node(start=start, tokens=arrays[low][start:end])
        for number in range(low, high):
            paths[number].append(node)
        if parent is None:
            top = node
        else:
            parent.children.append(node)
        if inner.size:
            edges = [low, *(low + 1 + np.flatnonzero(inner == end)).tolist(), high]
            parts = list(itertools.pairwise(edges))
            waiting.extend((first, last, end, node) for first, last in reversed(parts))
    assert top is not None  # noqa: S101  there is at least one sequence, so the loop ran
    for path in paths:
        path[-1].size = int(path[-1].tokens.size)
    for node in reversed(_preorder(top)):
        node.size = int(node.tokens.size) + sum(child.size for child in node.children)
    return top, paths


def _preorder(top: Node) -> list[Node]:
    found, waiting = [], [top]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(reversed(node.children))
    return found


def plan(root: Node, row: int) -> Iterator[Push | Row | Pop]:
    """The steps that run every token of a tree exactly once.

    Subtrees of at most `row` tokens are laid side by side in rows; the own tokens of a bigger node are pushed on the
    cache, at most `row` at a time, and popped when what is below them is done.

    Args:
        root: of `build_trie`.
        row: tokens in one forward at most.
    """
    waiting: list[Node | Pop] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Pop):
            yield node
            continue
        if node.size <= row:
            yield Row(_segment([node]))
            continue
        for first in range(0, int(node.tokens.size), row):
            part = node.tokens[first : first + row]
            inside = [(place - first, *rest) for place, *rest in node.reads if first <= place < first + row]
            yield Push(_segment([Node(start=node.start + first, tokens=part, reads=inside)]))  # type: ignore[arg-type]
        small = [child for child in node.children if child.size <= row]
        yield from (Row(_segment(block)) for block in _blocks(small, row))
        if node.tokens.size:
            waiting.append(Pop(int(node.tokens.size)))
        waiting.extend(child for child in reversed(node.children) if child.size > row)


def _blocks(nodes: Sequence[Node], row: int) -> Iterator[list[Node]]:
    """Subtrees put together to at most `row` tokens, evenly: three of 500 and a row of 1,200 make 1,000 and 500."""
    block: list[Node] = []
    filled = 0
    for node in nodes:
        if block and filled + node.size > row:
            yield block
            block, filled = [], 0
        block.append(node)
        filled += node.size
    if block:
        yield block


def _segment(roots: Sequence[Node]) -> Segment:
    tokens, positions, ends, reads = [], [], [], []
    place = 0
    for top in roots:
        for node in _preorder(top):
            length = int(node.tokens.size)
            tokens.append(node.tokens)
            positions.append(np.arange(node.start, node.start + length))
            ends.append(np.full(length, place + max(node.size, length)))
            reads += [(place + offset, token, number) for offset, token, number in node.reads]
            place += length
    return Segment(
        start=roots[0].start,
        tokens=np.concatenate(tokens),
        positions=np.concatenate(positions),
        ends=np.concatenate(ends),
        reads=reads,
    )
