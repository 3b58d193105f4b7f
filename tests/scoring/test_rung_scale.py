"""The place of a rating among a judge's ratings of the rungs; expected values by hand, or by a naive count."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from refladder.records import RungRating
from refladder.scoring.rung_scale import RungScale, rungs_beaten

ENDS = 1.0, 5.0
HUMAN = 0.0, 100.0


def readings(*ratings, levels=(1, 2, 3, 4, 5)):
    """The ratings of the rungs of one anchor after another, from the worst."""
    return [
        RungRating(
            dimension="clarity",
            anchor=f"anchor {place // len(levels)}",
            level=levels[place % len(levels)],
            rating=rating,
        )
        for place, rating in enumerate(ratings)
    ]


def grades(ratings, *of_rungs, levels=(1, 2, 3, 4, 5)):
    return (
        RungScale(readings(*of_rungs, levels=levels), ENDS)
        .grades(np.array(ratings), HUMAN)
        .tolist()
    )


def test_a_rating_equal_to_a_rung_beats_those_below_and_half_of_it():
    rungs = (1.2, 2.1, 3.3, 3.9, 4.8)
    assert grades(rungs, *rungs) == pytest.approx([10, 30, 50, 70, 90])
    # Halfway between levels 2 and 3: 2 of 5 rungs. Halfway from 4.8 to the end: .95 of them; a quarter from 1 to 1.2: .025.
    assert grades([2.7, 4.9, 1.05], *rungs) == pytest.approx([40, 95, 2.5])
    # The ends of the scale are 0 and 1, unless rungs are rated there: half of one of two rungs.
    assert grades([1, 5], *rungs) == [0, 100]
    assert grades([1, 5], 1.0, 5.0, levels=(1, 2)) == [25, 75]


def test_the_share_is_a_mean_over_levels_so_that_a_missing_best_rung_lifts_nobody():
    # Levels 1 and 2 of two anchors: 2, 4 and 3, unparsed. At 3: both of level 1 count 1/2 and 1, level 2 none: (.75 + 0) / 2.
    assert grades([3.0], 2.0, 4.0, 3.0, None, levels=(1, 2)) == pytest.approx([37.5])


def naive(rating, rungs, levels):
    """Count, at each rung's rating and the ends, and walk along the line between the two neighbours."""

    def share(at):
        of_levels = []
        for level in sorted(set(levels)):
            own = [rung for rung, each in zip(rungs, levels, strict=True) if each == level]
            of_levels.append(
                sum((rung < at) + 0.5 * (rung == at) for rung in own) / len(own),
            )
        return sum(of_levels) / len(of_levels)

    points = [(at, share(at)) for at in sorted({*rungs, *ENDS})]
    for (low, first), (high, second) in itertools.pairwise(points):
        if low <= rating <= high:
            return first + (second - first) * (rating - low) / (high - low)
    raise AssertionError(rating)


def test_random_ratings_have_the_place_of_a_naive_count():
    random = np.random.default_rng(0)
    for _ in range(50):
        # Tenths, so that many are equal.
        rungs = random.integers(10, 51, size=12) / 10
        levels = random.permutation([1, 2, 3, 4] * 3)
        ratings = random.integers(100, 501, size=20) / 100
        found = rungs_beaten(ratings, rungs, levels.tolist(), ENDS)
        expected = [naive(rating, rungs.tolist(), levels.tolist()) for rating in ratings.tolist()]
        assert found.tolist() == pytest.approx(expected)
        assert np.diff(rungs_beaten(np.sort(ratings), rungs, levels.tolist(), ENDS)).min() >= 0


def test_rounding_errors_are_no_differences():
    assert grades([3.0000000001], 2.9999999999, 4.0, levels=(1, 2)) == pytest.approx([25])


@pytest.mark.parametrize(
    ("ratings", "problem"),
    [
        ((3.0, 3.0), "the judge rates all rungs 3"),
        ((3.25, None, 3.25, 3.25000000001), "the judge rates all rungs 3.25"),
        (
            (1.0, 4.0, 2.0, None, 2.5, None),
            "1 of 3 rungs of level 2 have a rating, and a grade needs half of them",
        ),
        ((None, None), "the judge's ratings of the rungs are missing or unparsed"),
        ((), "the judge's ratings of the rungs are missing or unparsed"),
    ],
)
def test_ratings_without_an_order_give_no_grade(ratings, problem):
    scale = RungScale(readings(*ratings, levels=(1, 2)), ENDS)
    assert scale.problem == problem
    assert np.isnan(scale.grades(np.array([3.0]), HUMAN)).all()
    assert np.isnan(scale.errors(np.array([3.0]), HUMAN)).all()


def test_half_of_the_rungs_of_a_level_are_enough_and_no_rise_is_needed():
    # Level 1: 4; level 2: 2. At 3, level 2 is beaten and level 1 is not.
    assert grades([3.0], 4.0, 2.0, None, None, levels=(1, 2)) == [50]


def test_the_error_of_a_grade_leaves_out_one_anchor_after_another():
    # One rung each, at 2, 3 and 4; a text of 3. Without 2: the line from (1, 0) to (3, .25), so .25. Without 3: halfway
    # between .25 and .75. Without 4: .75. Jackknife: sqrt(2/3 * (.25^2 + 0 + .25^2)) = .288675.
    scale = RungScale(readings(2.0, 3.0, 4.0, levels=(1,)), ENDS)
    assert scale.errors(np.array([3.0, 1.0]), HUMAN).tolist() == pytest.approx([28.8675, 0])
    two = RungScale(readings(2.0, 3.0, levels=(1,)), ENDS)
    assert np.isnan(two.errors(np.array([3.0]), HUMAN)).all()
