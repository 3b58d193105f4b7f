"""The place of a rating among a judge's ratings of the rungs; expected values by hand."""

from __future__ import annotations

import numpy as np
import pytest

from refladder.scoring.rung_scale import RungScale, rung_scale

HUMAN = (1.0, 5.0)


def grades(means, *ratings, human=HUMAN):
    return RungScale(means).grades(np.array(ratings), human).tolist()


def test_a_rating_equal_to_a_level_has_the_grade_of_a_text_equal_to_the_rung():
    means = (1.2, 2.1, 3.3, 3.9, 4.8)
    # l - 1/2 rungs of 5 are beaten: 1 + 4 * .1, .3, .5, .7 and .9
    assert grades(means, *means) == pytest.approx([1.4, 2.2, 3.0, 3.8, 4.6])
    # Halfway between levels 2 and 3: 2 of 5 rungs.
    assert grades(means, 2.7) == pytest.approx([1 + 4 * 0.4])
    assert grades(means, 2.7, human=(0.0, 100.0)) == pytest.approx([40])


def test_beyond_the_ends_the_slope_of_the_nearest_step_continues_to_0_and_n():
    means = (2.0, 3.0, 4.0)
    # A level for each unit: 1.75 is level .75, a quarter of a rung; 4.4 is level 3.4, 2.9 rungs; 1 and 5 are beyond 0 and 3.
    expected = [1 + 4 * beaten / 3 for beaten in (0.25, 2.9, 0, 3)]
    assert grades(means, 1.75, 4.4, 1.0, 5.0) == pytest.approx(expected)


def test_neighbours_out_of_order_are_one_knot():
    # Levels 2 and 3 have the mean rating 2.5 at level 2.5.
    scale = RungScale((1.0, 3.0, 2.0, 4.0))
    assert scale.knots == [(1.0, 1.0), (2.5, 2.5), (4.0, 4.0)]
    # The pool of 3, 2 and 2.5 falls behind 2.4 too: 2.475 at level 3.5.
    scale = RungScale((1.0, 3.0, 2.0, 2.5, 2.4))
    assert scale.knots == [(1.0, 1.0), (pytest.approx(2.475), 3.5)]
    assert RungScale((1.0, 1.0, 2.0)).knots == [(1.0, 1.5), (2.0, 3.0)]


@pytest.mark.parametrize(
    ("means", "problem"),
    [
        (
            (3.0, 3.1, 3.2, 3.3, 3.4),
            "is 3 for the lowest level of the rungs and 3.4 for the highest, and a grade needs a rise of 0.5",
        ),
        (
            (5.0, 4.0, 3.0),
            "is 5 for the lowest level of the rungs and 3 for the highest, and a grade needs a rise of 0.5",
        ),
        ((None, None), "the judge's ratings of the rungs are missing or unparsed"),
        ((), "the judge's ratings of the rungs are missing or unparsed"),
    ],
)
def test_ratings_that_do_not_rise_give_no_grade(means, problem):
    scale = RungScale(means)
    assert not scale.is_usable
    assert scale.problem.endswith(problem)
    assert np.isnan(grades(means, 3.0)).all()


def test_means_are_those_of_parsed_ratings():
    assert rung_scale([[1.0, 2.0], [], [4.0]]).means == (1.5, None, 4.0)
    # Level 2 has no rating: 2.75 is level 2, between 1.5 (level 1) and 4 (level 3).
    assert grades((1.5, None, 4.0), 2.75) == pytest.approx([3.0])
