from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

from refladder.errors import UsageError
from refladder.ranking.sorting import (
    Sorted,
    beam_sort,
    comparisons_between,
    run_together,
)

greedy_sort = partial(beam_sort, beam=1, gap=0.0)


def answers(quality, asked=None):
    """A perfect comparator for one or more sorts; `quality[number][item]`."""

    def ask(questions):
        if asked is not None:
            asked.append(questions)
        return [
            0.5 + 0.4 * np.sign(quality[number][first] - quality[number][second])
            for number, first, second in questions
        ]

    return ask


@pytest.mark.parametrize("make", [greedy_sort, beam_sort])
@pytest.mark.parametrize("items", [0, 1, 2, 3, 7, 16, 33])
def test_a_perfect_comparator_gives_the_true_order_within_the_bound(make, items):
    random = np.random.default_rng(items)
    for _ in range(10):
        quality = random.permutation(items).astype(float)
        (found,), _ = run_together([make(range(items))], answers([quality]))
        assert found.order == sorted(range(items), key=lambda item: -quality[item])
        least, most = comparisons_between(items, beam=1 if make is greedy_sort else 10)
        assert least <= len(found.asked) <= most
        assert found.scores(items) == quality.tolist()


def test_the_bounds_are_those_of_merge_sort_and_are_reached():
    # known worst cases of merge sort: 0, 1, 3, 5, 8, 11, 14, 17 for 1 to 8 items; best cases by hand: 5 = 2 + 3 needs
    # 2 for the merge, 1 for the two, 1 + 1 for the three
    assert [comparisons_between(items)[1] for items in range(9)] == [0, 0, 1, 3, 5, 8, 11, 14, 17]
    assert comparisons_between(5) == (5, 8)
    asked = [
        len(run_together([greedy_sort(range(6))], answers([order]))[0][0].asked)
        for order in itertools.permutations(range(6))
    ]
    assert (min(asked), max(asked)) == comparisons_between(6)


def test_the_bound_of_a_beam_holds_and_is_reached():
    # an undecided judge prunes nothing: a beam of all paths asks every pair of each merge
    def undecided(questions):
        return [0.5 + 1e-3 * (first - second) for _, first, second in questions]

    for items in (2, 5, 8, 13):
        (found,), _ = run_together([beam_sort(range(items), beam=1000, gap=0.5)], undecided)
        assert (
            len(found.asked) == comparisons_between(items, beam=1000)[1] == items * (items - 1) // 2
        )
        for beam in (1, 2, 3):
            (found,), _ = run_together([beam_sort(range(items), beam=beam, gap=0.5)], undecided)
            assert len(found.asked) <= comparisons_between(items, beam=beam)[1]


def test_greedy_asks_as_often_as_a_plain_merge_sort():
    def plain(items, quality):
        if len(items) < 2:
            return items, 0
        left, one = plain(items[: len(items) // 2], quality)
        right, two = plain(items[len(items) // 2 :], quality)
        merged, count = [], one + two
        while left and right:
            count += 1
            merged.append((left if quality[left[0]] > quality[right[0]] else right).pop(0))
        return merged + left + right, count

    random = np.random.default_rng(0)
    for items in (5, 11, 16):
        quality = random.permutation(items)
        (found,), _ = run_together([greedy_sort(range(items))], answers([quality]))
        assert (found.order, len(found.asked)) == plain(list(range(items)), quality)


def test_many_sorts_advance_in_few_rounds():
    random = np.random.default_rng(0)
    quality = [random.permutation(8) for _ in range(50)]
    asked = []
    found, rounds = run_together(
        [greedy_sort(range(8)) for _ in range(50)], answers(quality, asked)
    )
    assert [one.order for one in found] == [np.argsort(-own).tolist() for own in quality]
    # merges of 1+1, 2+2, 4+4 items take at most 1, 3 and 7 questions, and those of one depth ask together
    assert rounds == len(asked) <= 1 + 3 + 7


def brute_merge(left, right, p):
    """Every merge, its worth the mean log-probability of the answers it believes."""
    best = None
    for way in itertools.product([True, False], repeat=len(left) + len(right) - 1):
        i = j = 0
        worth = []
        for takes_left in way:
            if i == len(left) or j == len(right):
                break
            chance = p[left[i], right[j]]
            worth.append(math.log(chance if takes_left else 1 - chance))
            i, j = i + takes_left, j + (not takes_left)
        if i < len(left) and j < len(right):
            continue
        i = j = 0
        merged = []
        for takes_left in way[: len(worth)]:
            merged.append(left[i] if takes_left else right[j])
            i, j = i + takes_left, j + (not takes_left)
        merged += [*left[i:], *right[j:]]
        if best is None or np.mean(worth) > best[0] + 1e-12:
            best = (np.mean(worth), merged)
    return best[1]


def brute_sort(items, p):
    if len(items) < 2:
        return items
    middle = len(items) // 2
    return brute_merge(brute_sort(items[:middle], p), brute_sort(items[middle:], p), p)


@pytest.mark.parametrize("seed", range(10))
def test_a_wide_beam_that_prunes_nothing_equals_all_merges(seed):
    random = np.random.default_rng(seed)
    p = random.uniform(0.05, 0.95, (7, 7))
    (found,), _ = run_together(
        [beam_sort(range(7), beam=50, gap=0.5)],
        lambda asked: [p[first, second] for _, first, second in asked],
    )
    assert found.order == brute_sort(list(range(7)), p)


def test_uncertainty_pruning_saves_questions():
    p = np.random.default_rng(0).uniform(0.05, 0.95, (16, 16))

    def ask(asked):
        return [p[first, second] for _, first, second in asked]

    counts = [
        len(run_together([beam_sort(range(16), beam=50, gap=gap)], ask)[0][0].asked)
        for gap in (0, 0.1, 0.3, 0.5)
    ]
    assert counts == sorted(set(counts))


def test_ties_share_a_place():
    quality = [np.array([2, 1, 2, 1, 0])]
    (found,), _ = run_together([greedy_sort(range(5))], answers(quality))
    assert found.scores(5) == [3.5, 1.5, 3.5, 1.5, 0.0]


@pytest.mark.parametrize("make", [greedy_sort, beam_sort])
def test_all_ties_give_one_number(make):
    (found,), _ = run_together([make(range(6))], lambda asked: [0.5] * len(asked))
    assert found.scores(6) == [2.5] * 6


def test_an_unparsed_answer_ends_that_sort_alone():
    def ask(asked):
        return [math.nan if number == 0 else 0.9 for number, _, _ in asked]

    found, _ = run_together([greedy_sort(range(4)), greedy_sort(range(4))], ask)
    assert found[0].order is None
    assert found[0].scores(4) == [None] * 4
    assert found[1].order == [0, 1, 2, 3]


def test_items_outside_the_sort_have_no_score():
    assert Sorted(order=[2, 0]).scores(3) == [0.0, None, 1.0]


def test_a_beam_out_of_range_is_refused():
    with pytest.raises(
        UsageError,
        match=r"beam 0, gap 0\.1: the beam must be 1 or more and the gap between 0 and 0.5",
    ):
        beam_sort(range(3), beam=0)
