"""The verdicts in judgments, by hand work."""

from __future__ import annotations

import math

import numpy as np
import pytest

from refladder.errors import UsageError
from refladder.records import Judgment
from refladder.scoring.verdicts import first_probabilities, inconsistency, trusted, verdicts


def reading(subject, against, shares, outcomes=("win", "loss", "tie")):
    return Judgment(
        context_id="c1",
        dimension="coherence",
        subject=subject,
        against=against,
        outcomes=outcomes,
        logprobs=None if shares is None else tuple(map(math.log, shares)),
        mass=1.0,
        key="k",
        recipe="r",
    )


def both_orders(level, one, other):
    rung = f"rung:{level}"
    return reading("o1", rung, one), reading(rung, "o1", other)


def test_both_orders_are_averaged_seen_from_the_output():
    # Reference first: win .6 loss .3 tie .1. Swapped, the verdict is about the rung: win .2 loss .5 tie .3, which seen
    # from the output is win .5 loss .2 tie .3. The mean: .55 .25 .2
    pair = both_orders(1, (0.6, 0.3, 0.1), (0.2, 0.5, 0.3))
    assert verdicts(pair, 1, 2)[0, 0] == pytest.approx([0.55, 0.25, 0.2], abs=1e-12)
    assert np.isnan(verdicts(both_orders(1, (0.6, 0.3, 0.1), None), 1, 2)).all()


def test_outcomes_may_stand_in_any_order():
    turned = [reading("o1", "rung:1", (0.1, 0.6, 0.3), outcomes=("tie", "win", "loss"))]
    assert verdicts(turned, 1, 1)[0, 0] == pytest.approx([0.6, 0.3, 0.1], abs=1e-12)


def test_inconsistency_by_hand():
    pairs = [
        # win, and swapped the rung loses: the same verdict
        *both_orders(1, (0.6, 0.3, 0.1), (0.2, 0.5, 0.3)),
        # win, and swapped the rung wins: they disagree
        *both_orders(2, (0.6, 0.3, 0.1), (0.7, 0.2, 0.1)),
        # tie both times
        *both_orders(3, (0.1, 0.3, 0.6), (0.3, 0.1, 0.6)),
        # loss, and swapped a tie: they disagree
        *both_orders(4, (0.1, 0.6, 0.3), (0.3, 0.1, 0.6)),
        # not readable: not counted
        *both_orders(5, None, (0.3, 0.1, 0.6)),
    ]
    assert inconsistency(pairs) == (2, 4)


def test_the_probability_of_the_first_by_hand():
    shares = [(0.3, 0.1), (0.2, 0.2), None]
    found = first_probabilities([reading("a", "b", each, ("win", "loss")) for each in shares])
    # by equation 3: .3 of .4, and .2 of .4
    assert found.tolist() == pytest.approx([0.75, 0.5, math.nan], nan_ok=True)
    far = reading("a", "b", (math.exp(-700), 0.99), ("win", "loss"))  # it does not overflow
    assert first_probabilities([far]).tolist() == pytest.approx([0.0], abs=1e-300)


@pytest.mark.parametrize("least_mass", [-0.1, 1.5, math.nan])
def test_a_least_mass_that_is_no_probability_is_refused(least_mass):
    message = r"^least label mass \S+: a probability from 0 to 1 is needed"
    with pytest.raises(UsageError, match=message):
        trusted([], least_mass)
