import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refladder.errors import UsageError
from refladder.synth.ladders import Step, plan


def test_five_rungs_are_the_ends_then_3_then_2_and_4():
    # arXiv 2509.05440, section 2.1 and figure 1: scores 1 and 5, then 3 between them, then 2 and 4
    assert plan(5) == (
        (Step(level=1, role="worst"), Step(level=5, role="best")),
        (Step(level=3, role="between", between=(1, 5)),),
        (
            Step(level=2, role="between", between=(1, 3)),
            Step(level=4, role="between", between=(3, 5)),
        ),
    )


def test_four_rungs_round_the_middle_down():
    # middle of 1 and 4 is 2.5 -> 2; then 3 between 2 and 4
    assert [[(step.level, step.between) for step in wave] for wave in plan(4)] == [
        [(1, None), (4, None)],
        [(2, (1, 4))],
        [(3, (2, 4))],
    ]


def test_two_rungs_are_the_ends_only():
    assert [[step.role for step in wave] for wave in plan(2)] == [["worst", "best"]]


@given(st.integers(2, 1200))
def test_each_rung_once_between_neighbours_of_earlier_waves_in_the_fewest_waves(rungs):
    written: list[int] = []
    waves = plan(rungs)
    for number, wave in enumerate(waves):
        before = sorted(written)
        for step in wave:
            if number == 0:
                assert step.between is None
                continue
            low, high = step.between
            assert before.index(high) == before.index(low) + 1  # both exist, and are neighbours
            assert step.level == math.floor(Fraction(low + high, 2))
            assert low < step.level < high
        levels = [step.level for step in wave]
        assert levels == sorted(levels)
        written += levels
    assert sorted(written) == list(range(1, rungs + 1))
    # ceil(log2(gap)) halvings of the gap N - 1, in integers: (n - 1).bit_length() is ceil(log2(n))
    assert len(waves) == (rungs - 2).bit_length() + 1


@pytest.mark.parametrize("rungs", [1, 0, -3])
def test_fewer_than_two_rungs_are_refused(rungs):
    message = f"a ladder has at least 2 rungs, a worst and a best, found {rungs}"
    with pytest.raises(UsageError, match=re.escape(message)):
        plan(rungs)
