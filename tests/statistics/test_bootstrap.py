"""Resamples against repeated rows and scipy's bootstrap, the paired test against scipy's."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from refladder.errors import ShapeError, UsageError
from refladder.statistics import LEVELS, STATISTICS
from refladder.statistics.bootstrap import (
    draw_swaps,
    mean_difference,
    paired_differences,
    permutation_p_value,
    resample,
)
from refladder.statistics.correlation import correlate_rows
from refladder.statistics.levels import correlate_level

NAN = float("nan")
EVERY = [(level, statistic) for level in LEVELS for statistic in STATISTICS]


def simulated(generator, contexts, systems, noise, gaps=0.0):
    """Ratings in thirds, and scores that follow them, with effects of context and system."""
    quality = generator.normal(size=(contexts, systems)) + generator.normal(size=(contexts, 1))
    human = np.clip(np.round(quality * 3) / 3, -2, 2)
    predicted = quality + noise * generator.normal(size=quality.shape)
    predicted[generator.random(quality.shape) < gaps] = NAN
    return predicted, human


def drawn(contexts, resamples, seed=0):
    """How often each context is drawn with replacement."""
    random = np.random.default_rng(seed)
    draws = random.multinomial(contexts, [1 / contexts] * contexts, size=resamples)
    return draws.astype(float)


def compared(first, second, human, *, resamples, **options):
    """Difference, p-value and the number of contexts compared."""
    swaps = draw_swaps(len(first), resamples)
    difference, permuted, contexts = paired_differences(first, second, human, swaps, **options)
    return difference, permutation_p_value(difference, permuted), contexts


@pytest.mark.parametrize(("level", "statistic"), EVERY)
@pytest.mark.parametrize("constant", ["skip", "one"])
def test_a_resample_is_the_correlation_of_repeated_rows(level, statistic, constant):
    predicted, human = simulated(np.random.default_rng(2), 9, 6, 1.0, gaps=0.2)
    human[0] = 1.0
    predicted[1] = 0.5
    predicted[2] = NAN
    weights = drawn(9, 30, seed=1)
    options = {"level": level, "statistic": statistic, "constant": constant}
    repeats = [np.repeat(np.arange(9), row.astype(int)) for row in weights]
    expected = [correlate_level(predicted[rows], human[rows], **options).value for rows in repeats]
    found = resample(predicted, human, weights, **options)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_constant_resample_has_no_value(statistic):
    # Context 0 alone has equal ratings 1/3, whose weighted sums need not cancel to 0.
    predicted = np.array([[0.1, 0.7, 0.3], [0.2, 0.9, 0.4]])
    human = np.array([[1 / 3] * 3, [0.1, 0.2, 0.7]])
    weights = np.array([[7.0, 0.0], [1.0, 1.0]])
    values = resample(predicted, human, weights, level="pooled", statistic=statistic)
    assert np.isnan(values).tolist() == [True, False]


def test_the_interval_of_a_mean_is_scipys():
    predicted, human = simulated(np.random.default_rng(4), 80, 8, 1.5)
    rows = correlate_rows(predicted, human)
    rows, predicted, human = (values[~np.isnan(rows)] for values in (rows, predicted, human))
    options = {"n_resamples": 20_000, "method": "percentile", "rng": 1}
    oracle = stats.bootstrap((rows,), np.mean, **options).confidence_interval
    # Both draw 20,000 resamples: their ends agree to the noise of a 2.5 % quantile.
    values = resample(predicted, human, drawn(len(predicted), 20_000))
    assert np.nanquantile(values, [0.025, 0.975]) == pytest.approx(tuple(oracle), abs=0.003)


def test_p_value_equals_scipys_exact_permutation_test():
    generator = np.random.default_rng(8)
    first, human = simulated(generator, 11, 6, 0.8)
    second = first + generator.normal(size=first.shape) * 1.2
    differences = correlate_rows(first, human) - correlate_rows(second, human)
    # 2^11 sign flips are few enough for scipy to go through all of them.
    options = {"permutation_type": "samples", "n_resamples": np.inf, "vectorized": True}
    exact = stats.permutation_test((differences,), np.mean, **options).pvalue
    difference, p_value, contexts = compared(first, second, human, resamples=1)
    assert difference == pytest.approx(differences.mean(), abs=1e-12)
    assert 0.01 < exact < 0.5
    assert p_value == pytest.approx(exact)
    assert contexts == 11


def test_up_to_16_contexts_have_all_swaps():
    # Of three contexts, 2^3 choices without their opposites and without the one without a swap.
    assert draw_swaps(3).astype(int).tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 0]]
    assert [len(draw_swaps(contexts)) for contexts in (0, 1, 16, 17)] == [0, 0, 2**15 - 1, 1000]


def test_random_swaps_are_those_of_one_array():
    """More than one block: numpy draws the same numbers all at once."""
    contexts, permutations = 40_000, 70
    swaps = np.random.default_rng(5).integers(0, 2, (permutations, contexts), dtype=np.bool_)
    assert np.array_equal(draw_swaps(contexts, permutations, seed=5), swaps)


def test_a_mean_difference_of_many_contexts_needs_little_memory():
    """In one array, 1,000 permutations of 40,000 contexts are 320 MB, and 100 resamples 64 MB; the numbers are theirs."""
    contexts, random = 40_000, np.random.default_rng(1)
    first = random.normal(size=contexts)
    second = first + random.normal(size=contexts)
    tracemalloc.start()
    found = mean_difference(first, second, permutations=1000, resamples=100, seed=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
    differences = first - second
    signs = np.random.default_rng(3).integers(0, 2, (1000, contexts), dtype=np.bool_)
    permuted = [np.where(each, -differences, differences).mean() for each in signs]
    assert found.p == (1 + sum(abs(each) >= abs(differences.mean()) for each in permuted)) / 1001
    shares = np.full(contexts, 1 / contexts)
    drawn = np.random.default_rng(3).multinomial(contexts, shares, size=100)
    error = differences.std(ddof=1) / contexts**0.5
    means = [np.average(differences, weights=each) for each in drawn]
    errors = [np.sqrt(np.cov(differences, fweights=each) / contexts).item() for each in drawn]
    studentised = (np.array(means) - differences.mean()) / errors
    low, high = np.quantile(studentised, [0.025, 0.975])
    student = stats.t(contexts - 1).ppf(0.975)
    ends = (
        differences.mean() - max(high, student) * error,
        differences.mean() - min(low, -student) * error,
    )
    assert (found.low, found.high) == pytest.approx(ends, abs=1e-6)


@pytest.mark.parametrize(("level", "statistic"), EVERY)
def test_a_swap_exchanges_the_scores_of_a_context(level, statistic):
    generator = np.random.default_rng(9)
    first, human = simulated(generator, 8, 5, 1.0)
    # On the same scale, so that the exchange can be made by hand on what the function sees.
    second = generator.permuted(first.ravel()).reshape(first.shape)
    swaps = draw_swaps(8, 20, seed=2)
    options = {"level": level, "statistic": statistic}
    difference, permuted, contexts = paired_differences(first, second, human, swaps, **options)

    def expected(swap):
        pair = np.where(swap, second, first), np.where(swap, first, second)
        values = [correlate_level(scores, human, **options).value for scores in pair]
        return values[0] - values[1]

    by_hand = [expected(swap[:, np.newaxis]) for swap in [np.zeros(8, dtype=bool), *swaps]]
    np.testing.assert_allclose([difference, *permuted], by_hand, rtol=0, atol=1e-12)
    assert contexts == 8


@pytest.mark.parametrize(("level", "statistic"), EVERY)
def test_the_scale_of_a_method_changes_nothing(level, statistic):
    generator = np.random.default_rng(10)
    first, human = simulated(generator, 12, 5, 0.5, gaps=0.1)
    second = human + generator.normal(size=human.shape)
    options = {"level": level, "statistic": statistic, "resamples": 200}
    plain = compared(first, second, human, **options)
    assert compared(first, second * 1000 + 7, human, **options) == pytest.approx(plain, abs=1e-9)


def test_methods_are_compared_on_what_both_scored():
    generator = np.random.default_rng(12)
    first, human = simulated(generator, 10, 6, 0.5)
    second = first + generator.normal(size=first.shape)
    first[0, 2] = NAN
    # constant: no correlation in this context, so the first method's is not used either
    second[1] = 4.0
    difference, _, contexts = compared(first, second, human, resamples=100)
    kept = second.copy()
    kept[0, 2] = NAN
    differences = correlate_rows(first, human) - correlate_rows(kept, human)
    assert difference == pytest.approx(np.delete(differences, 1).mean(), abs=1e-12)
    assert contexts == 9


def test_equal_methods_do_not_differ():
    predicted, human = simulated(np.random.default_rng(13), 10, 6, 0.5)
    for level in LEVELS:
        assert compared(predicted, predicted, human, level=level, resamples=50)[:2] == (0.0, 1.0)


def test_p_values_count_ties_and_what_has_no_value():
    # |-.2| and .2 tie with .2, NaN counts as far: (3 + 1) / (4 + 1).
    assert permutation_p_value(0.2, np.array([0.1, -0.2, 0.2, NAN])) == 0.8
    assert np.isnan(permutation_p_value(NAN, np.array([0.1])))


@pytest.mark.parametrize(("level", "statistic"), EVERY)
def test_a_constant_method_or_no_scores_cannot_be_compared(level, statistic):
    predicted, human = simulated(np.random.default_rng(14), 6, 4, 0.5)
    options = {"level": level, "statistic": statistic, "resamples": 10}
    difference, p_value, _ = compared(np.full((6, 4), 0.3), predicted, human, **options)
    assert np.isnan([difference, p_value]).all()
    difference, p_value, contexts = compared(np.full((6, 4), NAN), predicted, human, **options)
    assert np.isnan([difference, p_value]).all()
    assert contexts == 0


def test_what_is_refused():
    with pytest.raises(UsageError, match="resamples must be at least 1; got 0; 1000 is usual"):
        draw_swaps(3, 0)
    message = r"\(resamples, contexts\) with 2 contexts; got \(1, 3\)"
    with pytest.raises(ShapeError, match=message):
        resample(np.zeros((2, 2)), np.zeros((2, 2)), np.ones((1, 3)))
