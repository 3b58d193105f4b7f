"""The radix tree of the distinct tokens of many sequences, and the order in which a model runs it.

Pure Python and numpy: nothing here needs a model.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.arrays import IntArray


class Read(NamedTuple):
    """A request for the log-probability of `token` right after `position` of sequence number `sequence`."""

    sequence: int
    position: int
    token: int


class NodeRead(NamedTuple):
    """A read inside a node or segment: offset of a token there, the token wanted next, and the number of the read."""

    offset: int
    token: int
    number: int


@dataclass(slots=True, kw_only=True)
class Node:
    """A run of tokens without a branch, the first at position `start`; `size` counts those below it too."""

    start: int
    tokens: IntArray
    size: int = 0
    children: list[Node] = field(default_factory=list)
    reads: list[NodeRead] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Tokens of one forward pass after `start` cached ones; indices j to `ends[j]` - 1 see the token at j."""

    start: int
    tokens: IntArray
    positions: IntArray
    ends: IntArray
    reads: list[NodeRead]

    @property
    def is_chain(self) -> bool:
        """Return whether every token sees all tokens before it."""
        return bool(np.all(self.ends == self.tokens.size))


class Push(NamedTuple):
    """Run a segment and keep it in the cache."""

    segment: Segment


class Visit(NamedTuple):
    """Run a segment and drop it from the cache."""

    segment: Segment


class Pop(NamedTuple):
    """Drop the last `tokens` tokens of the cache."""

    tokens: int


def build_trie(sequences: Sequence[Sequence[int]], reads: Sequence[Read]) -> tuple[Node, list[int]]:
    """Return the radix tree of token sequences, and for each the number of a leaf sequence that starts with it."""
    coded = [np.asarray(sequence, dtype=">u4").tobytes() for sequence in sequences]
    order = sorted(range(len(coded)), key=coded.__getitem__)
    arrays = [np.asarray(sequences[number], dtype=np.int64) for number in order]
    # Ranks in `order` of the sequences that are no prefix of another.
    leaves: list[int] = []
    # Tokens that a leaf shares with the leaf before it.
    shared: list[int] = []
    leaf_of = list(range(len(sequences)))
    for rank, array in enumerate(arrays):
        following = arrays[rank + 1] if rank + 1 < len(arrays) else array[:0]
        if _shared_tokens(array, following) < array.size:
            shared.append(_shared_tokens(arrays[leaves[-1]], array) if leaves else 0)
            leaves.append(rank)
    for rank in range(len(arrays) - 2, -1, -1):
        if _shared_tokens(arrays[rank], arrays[rank + 1]) == arrays[rank].size:
            leaf_of[order[rank]] = leaf_of[order[rank + 1]]
    root, paths = _grow([arrays[rank] for rank in leaves], shared)
    path_of = {order[rank]: path for rank, path in zip(leaves, paths, strict=True)}
    for number, read in enumerate(reads):
        for node in path_of[leaf_of[read.sequence]]:
            if read.position < node.start + node.tokens.size:
                node.reads.append(NodeRead(read.position - node.start, read.token, number))
                break
    return root, leaf_of


def _shared_tokens(first: IntArray, second: IntArray) -> int:
    length = min(first.size, second.size)
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if different.size else length


def _grow(arrays: Sequence[IntArray], shared: Sequence[int]) -> tuple[Node, list[list[Node]]]:
    """Return the root of sorted sequences, none a prefix of another, and the nodes from it to each leaf."""
    shared_tokens = np.asarray(shared)
    paths: list[list[Node]] = [[] for _ in arrays]
    root: Node | None = None
    pending: list[tuple[int, int, int, Node | None]] = [(0, len(arrays), 0, None)]
    while pending:
        low, high, start, parent = pending.pop()
        inner = shared_tokens[low + 1 : high]
        end = int(inner.min()) if inner.size else arrays[low].size
        node = Node(start=start, tokens=arrays[low][start:end])
        for number in range(low, high):
            paths[number].append(node)
        if parent is None:
            root = node
        else:
            parent.children.append(node)
        if inner.size:
            edges = [low, *(low + 1 + np.flatnonzero(inner == end)).tolist(), high]
            groups = list(itertools.pairwise(edges))
            pending.extend((first, last, end, node) for first, last in reversed(groups))
    assert root is not None  # noqa: S101  there is at least one sequence, so the loop ran
    for path in paths:
        path[-1].size = int(path[-1].tokens.size)
    for node in reversed(_preorder(root)):
        node.size = int(node.tokens.size) + sum(child.size for child in node.children)
    return root, paths


def _preorder(root: Node) -> list[Node]:
    nodes, pending = [], [root]
    while pending:
        node = pending.pop()
        nodes.append(node)
        pending.extend(reversed(node.children))
    return nodes


def plan(root: Node, max_tokens: int) -> Iterator[Push | Visit | Pop]:
    """Yield the steps that run each token once: subtrees of at most `max_tokens` packed in rows, larger nodes cached."""
    pending: list[Node | Pop] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Pop):
            yield node
            continue
        if node.size <= max_tokens:
            yield Visit(_segment([node]))
            continue
        for first in range(0, int(node.tokens.size), max_tokens):
            tokens = node.tokens[first : first + max_tokens]
            reads = []
            for offset, token, number in node.reads:
                if first <= offset < first + max_tokens:
                    reads.append(NodeRead(offset - first, token, number))
            yield Push(_segment([Node(start=node.start + first, tokens=tokens, reads=reads)]))
        small = [child for child in node.children if child.size <= max_tokens]
        for block in _blocks(small, max_tokens):
            yield Visit(_segment(block))
        if node.tokens.size:
            pending.append(Pop(int(node.tokens.size)))
        pending.extend(child for child in reversed(node.children) if child.size > max_tokens)


def _blocks(nodes: Sequence[Node], max_tokens: int) -> Iterator[list[Node]]:
    """Group neighbouring subtrees into blocks of at most `max_tokens`: with 1,200, three of 500 give 1,000 and 500."""
    block: list[Node] = []
    filled = 0
    for node in nodes:
        if block and filled + node.size > max_tokens:
            yield block
            block, filled = [], 0
        block.append(node)
        filled += node.size
    if block:
        yield block


def _segment(roots: Sequence[Node]) -> Segment:
    """Lay subtrees side by side, each in preorder."""
    tokens, positions, ends = [], [], []
    reads: list[NodeRead] = []
    index = 0
    for root in roots:
        for node in _preorder(root):
            length = int(node.tokens.size)
            tokens.append(node.tokens)
            positions.append(np.arange(node.start, node.start + length))
            ends.append(np.full(length, index + max(node.size, length)))
            reads += [NodeRead(index + read.offset, read.token, read.number) for read in node.reads]
            index += length
    return Segment(
        start=roots[0].start,
        tokens=np.concatenate(tokens),
        positions=np.concatenate(positions),
        ends=np.concatenate(ends),
        reads=reads,
    )
