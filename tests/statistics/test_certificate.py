from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest

from refladder.statistics.certificate import (
    contexts_needed,
    length_climbs,
    level_verdicts,
    mean_preferences,
    order_disagreements,
    preferences,
    rising_chain,
    rung_pairs,
    rung_verdicts,
    shown_and_untested,
    sign_test,
    steps_in_order,
)


def square(rungs, better, default=0.9):
    """w of a ladder that rises everywhere, but for the pairs given as (low, high): w."""
    w = np.full((rungs, rungs), np.nan)
    for low, high in itertools.combinations(range(rungs), 2):
        w[low, high] = better.get((low, high), default)
        w[high, low] = 1 - w[low, high]
    return w


def test_preferences_by_hand():
    # Pair (0, 1). Higher shown as subject: win .6, loss .1, tie .3, so .75. Lower as subject: win .2, tie .2, so .3 for
    # the lower and .7 for the higher. Mean .725.
    verdicts = np.array([[[[0.6, 0.1, 0.3], [0.2, 0.6, 0.2]]]])
    w = preferences(verdicts, 2)
    assert w[0, 0, 1] == pytest.approx(0.725)
    assert w[0, 1, 0] == pytest.approx(0.275)
    assert np.isnan(w[0, 0, 0])


def test_order_disagreements_by_hand():
    # the higher rung wins when shown first, and when second
    agreeing = [[0.6, 0.1, 0.3], [0.2, 0.6, 0.2]]
    always_first = [[0.6, 0.1, 0.3], [0.6, 0.1, 0.3]]
    unparsed = [[0.6, 0.1, 0.3], [np.nan] * 3]
    differ, parsed = order_disagreements(np.array([[agreeing, always_first, unparsed]]))
    assert (differ[0], parsed[0]) == (1, 2)


def longest_by_search(w):
    """The length of the largest rising set, over all sets."""
    return max(
        size
        for size in range(1, len(w) + 1)
        for chosen in itertools.combinations(range(len(w)), size)
        if all(w[a, b] > 0.5 for a, b in itertools.pairwise(chosen))
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_chain_is_as_long_as_the_longest_of_all_sets(seed):
    random = np.random.default_rng(seed)
    w = square(6, {pair: random.random() for pair in rung_pairs(6)})
    chain = np.flatnonzero(rising_chain(w))
    assert len(chain) == longest_by_search(w)
    assert all(w[a, b] > 0.5 for a, b in itertools.pairwise(chain))


def test_of_two_swapped_rungs_the_less_sure_is_left_out():
    # 2 and 3 (from 0: 1 and 2) are swapped. Chains 0-1-3 (.9 + .6) and 0-2-3 (.9 + .9): the second is surer.
    w = square(4, {(1, 2): 0.2, (1, 3): 0.6})
    assert rising_chain(w).tolist() == [True, False, True, True]
    assert rung_verdicts(w, ["pass"] * 4) == ["pass", "rewrite", "pass", "pass"]


def test_of_two_swapped_rungs_an_end_is_kept():
    # 2 and 3 (from 0: 1 and 2) are swapped, and 0-1 is surer than 0-2; the end stays, the rung between is written anew
    assert rising_chain(square(3, {(1, 2): 0.2, (0, 1): 0.95})).tolist() == [True, False, True]
    assert rising_chain(square(3, {(0, 1): 0.2, (1, 2): 0.95})).tolist() == [True, False, True]


def test_a_duplicate_is_not_rising():
    w = square(3, {(1, 2): 0.5})
    assert rising_chain(w).sum() == 2


def test_steps_by_hand():
    changes = ({}, {(0, 1): 0.4}, {(0, 1): 0.5}, {(1, 2): np.nan})
    ladders = np.stack([square(3, change) for change in changes])
    ordered, decided = steps_in_order(ladders)
    assert ordered.tolist() == [2, 3]  # the tie of ladder 3 and the NaN of ladder 4 do not decide
    assert decided.tolist() == [3, 3]
    assert mean_preferences(ladders)[0, 1] == pytest.approx((0.9 + 0.4 + 0.5 + 0.9) / 4)
    assert mean_preferences(ladders)[1, 2] == pytest.approx(0.9)
    assert np.isnan(mean_preferences(ladders)[0, 0])


@pytest.mark.parametrize(
    ("successes", "trials"), [(0, 0), (0, 5), (1, 5), (5, 5), (9, 12), (60, 100)]
)
def test_the_sign_test_is_that_of_scipy(successes, trials):
    expected = binomtest(successes, trials, 0.5, alternative="greater").pvalue if trials else 1.0
    assert sign_test(np.array([successes]), np.array([trials]))[0] == pytest.approx(
        expected, rel=1e-12
    )


def test_contexts_needed_is_the_least_number_that_can_pass():
    # 4 steps: Holm multiplies the smallest p by 4, so 2^-n * 4 <= .1 from n = 6 (4 / 64 = .0625)
    for tests in (1, 4, 8, 20):
        needed = contexts_needed(tests)
        assert 0.5**needed * tests <= 0.1 < 0.5 ** (needed - 1) * tests


def test_level_verdicts():
    def verdicts(better, passed):
        return level_verdicts(square(4, better), np.array(passed), np.zeros(3, dtype=bool))

    assert verdicts({}, [True, True, True]) == ["pass"] * 4
    # the step from level 2 to 3 rises in most ladders, without proof
    unproved = verdicts({(1, 2): 0.7}, [True, False, True])
    assert unproved == ["pass", "rewrite", "rewrite", "pass"]
    # level 2 is above level 3 in most ladders, and level 2 is less sure to be below 4
    swapped = verdicts({(1, 2): 0.2, (1, 3): 0.6}, [True, False, True])
    assert swapped == ["pass", "drop", "rewrite", "pass"]
    assert verdicts({}, [False, False, False]) == ["refuse"] * 4


def test_a_level_beside_a_step_that_is_unparsed_in_most_ladders_is_untested():
    whole, half = square(3, {}), square(3, {(1, 2): np.nan})
    p_values = np.array([0.01, 0.01])
    for ladders, untested in (([whole, half], False), ([whole, half, half], True)):
        w = np.stack(ladders)
        steps = shown_and_untested(w, p_values, 1)
        assert [one.tolist() for one in steps] == [[True, not untested], [False, untested]]
        verdicts = level_verdicts(mean_preferences(w), *steps)
        assert verdicts == (["pass", "untested", "untested"] if untested else ["pass"] * 3)
    # The second rung is above the third in the only ladder that was read: no reason to write it anew.
    fallen = square(3, {(1, 2): 0.2})
    assert rung_verdicts(fallen, verdicts) == ["pass", "untested", "pass"]


def test_faultless_ladders_are_untested_where_they_are_too_few_to_pass():
    three = np.stack([square(3, {})] * 3)
    # 2 steps need 6 ladders: 0.5 ** 3 * 2 is .25
    p_values = np.array([0.25, 0.25])
    steps = shown_and_untested(three, p_values, 6)
    assert level_verdicts(mean_preferences(three), *steps) == ["untested"] * 3
    tied = np.stack([square(3, {(0, 1): 0.5, (1, 2): 0.5})] * 3)
    steps = shown_and_untested(tied, p_values, 6)
    assert level_verdicts(mean_preferences(tied), *steps) == ["refuse"] * 3


def test_a_length_rule_climbs_either_way():
    assert length_climbs(np.array([3, 4, 9]))
    assert length_climbs(np.array([9, 4, 3]))
    assert not length_climbs(np.array([3, 4, 4]))


def test_a_p_value_of_many_contexts_is_not_0():
    # 0.5 ** 2000 is less than the least float.
    assert 0 < sign_test(np.array([2000.0]), np.array([2000.0]))[0] < 1e-300


def test_each_constant_of_the_verdicts_at_either_side():
    # A probability within 1e-9 of a half prefers neither rung.
    for distance, count in ((0.9e-9, 0), (1.1e-9, 1)):
        for w, rises in ((0.5 + distance, count), (0.5 - distance, 0)):
            in_order, decided = steps_in_order(np.full((1, 2, 2), w))
            assert (in_order.item(), decided.item()) == (rises, count)
    # A step is shown with a p-value of .1, and untested if it is unparsed in more than half of the ladders.
    for p, unparsed, shown, untested in (
        (0.1, 0, True, False), (0.1001, 0, False, False), (0.1, 2, True, False), (0.1, 3, False, True),
    ):  # fmt: skip
        w = np.full((4, 2, 2), 0.9)
        w[:unparsed] = np.nan
        steps = shown_and_untested(w, np.array([p]), needed=1)
        assert [each.item() for each in steps] == [shown, untested]
    # Faultless ladders that are too few for the test are no finding.
    for needed, untested in ((4, False), (5, True)):
        assert (
            shown_and_untested(np.full((4, 2, 2), 0.9), np.array([1.0]), needed)[1].item()
            == untested
        )
