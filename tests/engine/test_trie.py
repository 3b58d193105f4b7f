"""The tree of distinct tokens, without a model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refladder.engine.trie import Pop, Push, Read, Visit, build_trie, plan

# a b c d / a b c e f / a b g, so that the distinct tokens are a b c d e f g
SEQUENCES = [[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 7]]


def test_sequences_without_a_common_beginning_hang_on_an_empty_root():
    root, _ = build_trie([[1, 2], [2**31]], [])
    assert root.tokens.size == 0
    assert [child.start for child in root.children] == [0, 0]
    assert root.children[1].tokens.tolist() == [2**31]
    assert root.children[1].tokens.dtype == np.int64  # for torch


def test_a_row_shows_a_token_its_ancestors_and_itself():
    root, _ = build_trie(SEQUENCES, [])
    (step,) = plan(root, 100)
    assert isinstance(step, Visit)
    assert step.segment.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert step.segment.positions.tolist() == [0, 1, 2, 3, 3, 4, 2]
    assert step.segment.ends.tolist() == [7, 7, 6, 4, 6, 6, 7]
    assert not step.segment.is_chain


def test_a_subtree_too_big_for_a_row_is_pushed_and_popped():
    root, _ = build_trie(SEQUENCES, [])
    steps = list(plan(root, 4))
    assert [type(step) for step in steps] == [Push, Visit, Visit, Pop]
    assert [step.segment.tokens.tolist() for step in steps[:3]] == [[1, 2], [3, 4, 5, 6], [7]]
    assert [step.segment.start for step in steps[:3]] == [0, 2, 2]
    assert steps[3].tokens == 2


token_sequences = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=12
)


@given(sequences=token_sequences, row=st.integers(1, 20), data=st.data())
def test_every_distinct_token_runs_once_after_exactly_its_own_beginning(sequences, row, data):
    last = [data.draw(st.integers(0, len(sequence) - 1)) for sequence in sequences]
    reads = [Read(number, position, number) for number, position in enumerate(last)]
    root, leaves = build_trie(sequences, reads)
    for leaf, sequence in zip(leaves, sequences, strict=True):
        assert sequences[leaf][: len(sequence)] == sequence
    cache, ran, seen = [], 0, {}
    for step in plan(root, row):
        if isinstance(step, Pop):
            del cache[-step.tokens :]
            continue
        segment = step.segment
        assert segment.tokens.size <= row
        ran += segment.tokens.size
        assert segment.start == len(cache)
        for place, _, number in segment.reads:
            before = range(place + 1)
            visible = [int(segment.tokens[key]) for key in before if place < segment.ends[key]]
            assert len(cache) + len(visible) == segment.positions[place] + 1
            seen[number] = cache + visible
        if isinstance(step, Push):
            assert segment.is_chain
            cache += segment.tokens.tolist()
    assert cache == []
    assert ran == len({tuple(one[:end]) for one in sequences for end in range(1, len(one) + 1)})
    assert seen == {read.token: sequences[read.sequence][: read.position + 1] for read in reads}


@pytest.mark.parametrize("count", [1, 5000])
def test_many_nested_beginnings_need_no_deep_recursion(count):
    sequence = list(range(count))
    ends = range(count, max(0, count - 2000), -1)
    root, _ = build_trie([[*sequence[:end], 7, 7] for end in ends], [])
    assert root.size >= count
    steps = [step for step in plan(root, 3) if not isinstance(step, Pop)]
    assert sum(step.segment.tokens.size for step in steps) == root.size
