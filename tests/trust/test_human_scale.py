from __future__ import annotations

import math

import numpy as np
import pytest

from refladder.errors import ShapeError, UsageError
from refladder.records import HumanScale
from refladder.trust.human_scale import _line, _steps, expected_rating, fit_human_scale


def drawn(labels, seed=0, contexts=None):
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=labels)
    ratings = np.clip(np.round(3 + scores + 0.5 * generator.normal(size=labels)), 1, 5)
    return scores, ratings, np.arange(labels) if contexts is None else np.arange(labels) % contexts


def test_few_labels_give_a_line_of_least_squares():
    scores, ratings, contexts = drawn(60)
    fit = fit_human_scale(scores, ratings, contexts)
    assert (fit.isotonic, fit.fitted, fit.held_out) == (False, 20, 40)
    knots, values = _line(scores, ratings)
    slope, start = np.polyfit(scores, ratings, 1)
    assert values == pytest.approx(start + slope * knots, abs=1e-12)


def test_a_falling_line_is_the_mean():
    assert _line(np.array([0.0, 1, 2]), np.array([5.0, 3, 1]))[1].tolist() == [3, 3]


def test_steps_pool_adjacent_violators():
    # scores 0 1 2 3 with means 1, (4 + 2) / 2 = 3, 2, 4: 3 (weight 2) and 2 (weight 1) violate, their mean is 8/3
    knots, values = _steps(np.array([0.0, 1, 1, 2, 3]), np.array([1.0, 4, 2, 2, 4]))
    assert knots.tolist() == [0, 1, 2, 3]
    assert values == pytest.approx([1, 8 / 3, 8 / 3, 4])


@pytest.mark.parametrize("labels", [60, 400])
def test_the_interval_is_the_quantile_of_errors_in_other_contexts(labels):
    scores, ratings, contexts = drawn(labels, contexts=20)
    fit = fit_human_scale(scores, ratings, contexts)
    assert fit.isotonic is (labels == 400)
    held = np.isin(contexts, np.random.default_rng(0).permutation(20)[:13])
    errors = sorted(np.abs(ratings[held] - np.interp(scores[held], fit.scores, fit.ratings)).tolist())
    assert fit.half_width == errors[math.ceil((len(errors) + 1) * 0.95) - 1]
    assert np.all(np.diff(fit.ratings) >= 0)


def test_intervals_cover_95_percent_of_new_texts():
    shares = []
    for seed in range(200):
        scores, ratings, contexts = drawn(1200, seed)
        fit = fit_human_scale(scores[:200], ratings[:200], contexts[:200], seed)
        errors = np.abs(ratings[200:] - np.interp(scores[200:], fit.scores, fit.ratings))
        shares.append((errors <= fit.half_width).mean())
    assert (
        0.945 <= np.mean(shares) <= 0.965
    )  # 95.5 % by theory: 133 texts are held out, and the 128th error of 134 is taken


def test_too_few_labels_give_no_interval():
    assert fit_human_scale(*drawn(59)).half_width is None
    assert fit_human_scale(*drawn(60)).half_width is not None
    scores, ratings, _ = drawn(60)
    contexts = np.where(np.arange(60) < 17, np.arange(60), 99)  # 18 contexts; ceil(19 * .95) = 19 errors are needed
    few = fit_human_scale(scores, ratings, contexts)
    assert (few.half_width is None) is (few.held_out < 19)


def test_an_interval_ends_where_the_ratings_end():
    scale = HumanScale(
        column="x_score", signature=None, label="rating", method="linear", scores=(0.0, 1.0), ratings=(2.0, 4.0),
        half_width=1.5, low=1.0, high=5.0, fitted=20, held_out=20, version="0",
    )  # fmt: skip
    assert expected_rating(scale, 0.5) == (3.0, 1.5, 4.5)
    assert expected_rating(scale, 9.0) == (4.0, 2.5, 5.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"contexts": np.zeros(50, int)}, "a human scale needs labels of two contexts or more"),
        ({"scores": np.full(50, 2.0)}, "the scores of the labelled rows are all 2; a scale needs different ones"),
        ({"ratings": np.full(50, 4.0)}, "the labels of the labelled rows are all 4; a scale needs different ones"),
    ],
)
def test_what_cannot_give_a_scale(change, words):
    scores, ratings, contexts = drawn(50)
    with pytest.raises(UsageError, match=words):
        fit_human_scale(**{"scores": scores, "ratings": ratings, "contexts": contexts, **change})
    with pytest.raises(ShapeError, match="must have one shape"):
        fit_human_scale(scores[1:], ratings, contexts)


def test_the_same_numbers_as_mapie_and_scikit_learn():
    number = np.arange(120)
    scores = (number * 37 % 120) / 10
    ratings = 1 + scores / 3 + (number * 53 % 120 / 120 - 0.5) * 2
    fit = fit_human_scale(scores, ratings, number)
    # mapie 1.6: SplitConformalRegressor(curve, confidence_level=0.95, prefit=True).conformalize(scores, ratings), with
    # those of the contexts held out; predict_interval([[6.0]]) is 2.96666667, 1.76333333 to 4.17.
    assert fit.half_width == pytest.approx((4.17 - 1.76333333) / 2)
    assert np.interp(6.0, fit.scores, fit.ratings) == pytest.approx(2.96666667)
    # scikit-learn 1.9.1: IsotonicRegression(out_of_bounds="clip").fit(the other contexts).predict([0, 2.5, 5, 7.5, 11])
    expected = [1.03333333, 1.57222222, 2.61, 3.2, 5.22261905]
    assert np.interp([0, 2.5, 5, 7.5, 11], fit.scores, fit.ratings) == pytest.approx(expected)
