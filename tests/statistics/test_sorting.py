"""Sorting with a judge, beside a plain merge sort and a search over all merges."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

from refladder.errors import UsageError
from refladder.statistics.sorting import Sorted, beam_sort, comparisons_between, run_together

greedy_sort = partial(beam_sort, beam=1, gap=0.0)


def answers(quality):
    """A perfect comparator for several sorts; `quality[number][item]`."""

    def ask(questions):
        return [
            0.5 + 0.4 * np.sign(quality[number][first] - quality[number][second])
            for number, first, second in questions
        ]

    return ask


def run(sort, p):
    """One sort with the probabilities of a matrix."""
    (found,) = run_together([sort], lambda asked: [p[first, second] for _, first, second in asked])
    return found


@pytest.mark.parametrize("make", [greedy_sort, beam_sort])
@pytest.mark.parametrize("items", [0, 1, 2, 3, 7, 16, 33])
def test_a_perfect_comparator_gives_the_true_order_within_the_bound(make, items):
    random = np.random.default_rng(items)
    least, most = comparisons_between(items, beam=1 if make is greedy_sort else 10)
    for _ in range(5):
        quality = random.permutation(items).astype(float)
        (found,) = run_together([make(range(items))], answers([quality]))
        assert found.order == np.argsort(-quality).tolist()
        assert least <= len(found.asked) <= most
        assert found.scores(items) == quality.tolist()


def test_the_bounds_are_those_of_merge_sort_and_are_reached():
    # known worst cases of merge sort: 0, 1, 3, 5, 8, 11, 14, 17 for 1 to 8 items; best cases by hand: 5 = 2 + 3 needs
    # 2 for the merge, 1 for the two, 1 + 1 for the three
    assert [comparisons_between(items)[1] for items in range(9)] == [0, 0, 1, 3, 5, 8, 11, 14, 17]
    assert comparisons_between(5) == (5, 8)
    orders = list(itertools.permutations(range(6)))
    found = run_together([greedy_sort(range(6)) for _ in orders], answers(orders))
    asked = [len(each.asked) for each in found]
    assert (min(asked), max(asked)) == comparisons_between(6)


@pytest.mark.parametrize("items", [2, 5, 8, 13])
def test_the_bound_of_a_beam_holds_and_is_reached(items):
    # an undecided judge prunes nothing: a beam of all paths asks every pair of each merge
    undecided = 0.5 + 1e-3 * np.subtract.outer(np.arange(items), np.arange(items))
    asked = len(run(beam_sort(range(items), beam=1000, gap=0.5), undecided).asked)
    assert asked == comparisons_between(items, beam=1000)[1] == items * (items - 1) // 2
    for beam in (1, 2, 3):
        found = run(beam_sort(range(items), beam=beam, gap=0.5), undecided)
        assert len(found.asked) <= comparisons_between(items, beam=beam)[1]


def plain_merge_sort(items, quality):
    """The order, and the number of comparisons."""
    if len(items) < 2:
        return items, 0
    left, one = plain_merge_sort(items[: len(items) // 2], quality)
    right, two = plain_merge_sort(items[len(items) // 2 :], quality)
    merged, count = [], one + two
    while left and right:
        count += 1
        merged.append((left if quality[left[0]] > quality[right[0]] else right).pop(0))
    return merged + left + right, count


def test_many_greedy_sorts_ask_as_plain_merge_sorts_and_advance_in_few_rounds():
    random = np.random.default_rng(0)
    quality = [random.permutation(8) for _ in range(50)]
    rounds = []

    def ask(questions):
        rounds.append(len(questions))
        return answers(quality)(questions)

    found = run_together([greedy_sort(range(8)) for _ in range(50)], ask)
    for each, truth in zip(found, quality, strict=True):
        assert (each.order, len(each.asked)) == plain_merge_sort(list(range(8)), truth)
    # merges of 1+1, 2+2, 4+4 items take at most 1, 3 and 7 questions, and those of one depth ask together
    assert len(rounds) <= 1 + 3 + 7


def brute_merge(left, right, p):
    """The merge of the highest worth, the mean log-probability of the answers that it believes."""
    merges = []
    for way in itertools.product([True, False], repeat=len(left) + len(right) - 1):
        i = j = 0
        worth, merged = [], []
        for takes_left in way:
            if i == len(left) or j == len(right):
                break
            chance = p[left[i], right[j]]
            worth.append(math.log(chance if takes_left else 1 - chance))
            merged.append(left[i] if takes_left else right[j])
            i, j = i + takes_left, j + (not takes_left)
        if i == len(left) or j == len(right):
            merges.append((np.mean(worth), [*merged, *left[i:], *right[j:]]))
    return max(merges, key=lambda merge: merge[0])[1]


def brute_sort(items, p):
    if len(items) < 2:
        return items
    middle = len(items) // 2
    return brute_merge(brute_sort(items[:middle], p), brute_sort(items[middle:], p), p)


@pytest.mark.parametrize("seed", range(10))
def test_a_wide_beam_that_prunes_nothing_equals_all_merges(seed):
    p = np.random.default_rng(seed).uniform(0.05, 0.95, (7, 7))
    assert run(beam_sort(range(7), beam=50, gap=0.5), p).order == brute_sort(list(range(7)), p)


def test_uncertainty_pruning_saves_questions():
    p = np.random.default_rng(0).uniform(0.05, 0.95, (16, 16))
    sorts = [run(beam_sort(range(16), beam=50, gap=gap), p) for gap in (0, 0.1, 0.3, 0.5)]
    counts = [len(each.asked) for each in sorts]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("make", [greedy_sort, beam_sort])
def test_ties_share_a_place(make):
    (found,) = run_together([make(range(5))], answers([np.array([2, 1, 2, 1, 0])]))
    assert found.scores(5) == [3.5, 1.5, 3.5, 1.5, 0.0]
    assert run(make(range(6)), np.full((6, 6), 0.5)).scores(6) == [2.5] * 6
    # an item that was not sorted
    assert Sorted(order=[2, 0]).scores(3) == [0.0, None, 1.0]


def test_an_unparsed_answer_ends_that_sort_alone():
    def ask(asked):
        return [math.nan if number == 0 else 0.9 for number, _, _ in asked]

    found = run_together([greedy_sort(range(4)), greedy_sort(range(4))], ask)
    assert found[0].order is None
    assert found[0].scores(4) == [None] * 4
    assert found[1].order == [0, 1, 2, 3]


def test_a_beam_out_of_range_is_refused():
    message = r"beam 0, gap 0\.1: the beam must be 1 or more and the gap between 0 and 0.5"
    with pytest.raises(UsageError, match=message):
        beam_sort(range(3), beam=0)
