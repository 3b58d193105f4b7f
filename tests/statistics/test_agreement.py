"""Grids and the rows of figures for one method."""

import dataclasses
import math

import numpy as np
import pytest
from refusals import refuses

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.records import Benchmark, Dimension, Output, Rating
from refladder.statistics.agreement import build_grid, evaluate_method, human_means
from refladder.statistics.bootstrap import (
    draw_swaps,
    paired_differences,
    permutation_p_value,
    resample,
)
from refladder.statistics.correlation import partial_correlate_rows
from refladder.statistics.intervals import jackknife_interval, leave_out
from refladder.statistics.levels import correlate_level

NAN = float("nan")


def rating(output_id, value, rater="a", dimension="clarity"):
    return Rating(output_id=output_id, dimension=dimension, value=value, rater=rater)


def output(output_id, context, system):
    return Output(id=output_id, context_id=context, system=system, text=f"text {output_id}")


def benchmark(contexts=12):
    """Two dimensions, five systems and three raters in whole numbers, written for the tests."""
    generator = np.random.default_rng(0)
    outputs = [output(f"c{c}/s{s}", f"c{c}", f"s{s}") for c in range(contexts) for s in range(5)]
    ratings = [
        rating(each.id, float(generator.integers(1, 6)), f"r{r}", name)
        for each in outputs
        for name in ("clarity", "wit")
        for r in range(3)
    ]
    return Benchmark(
        name="small",
        revision="1",
        licence="none",
        dimensions=tuple(Dimension(name=name, description="") for name in ("clarity", "wit")),
        contexts=(),
        outputs=tuple(outputs),
        ratings=tuple(ratings),
    )


SMALL = benchmark()
MEANS = human_means(SMALL.ratings)


def noisy_scores(seed=1, noise=1.0, means=MEANS):
    generator = np.random.default_rng(seed)
    return {key: value + noise * generator.normal() for key, value in means.items()}


def evaluated(scores, source=SMALL, **options):
    given = {"method": "m", "signature": "s", "resamples": 20}
    return evaluate_method(source, scores, **{**given, **options})


def test_means_are_exact_whatever_the_order():
    # .1 + .2 + .3 rounds differently from .3 + .2 + .1; both are .6 / 3.
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    values = [("x", 0.1), ("x", 0.2), ("x", 0.3), ("y", 0.3), ("y", 0.2), ("y", 0.1)]
    found = human_means([rating(name, value, str(value)) for name, value in values])
    assert found["x", "clarity"] == found["y", "clarity"]
    message = "rating of output 'x' on 'clarity' by 'a' is nan; ratings must be finite numbers"
    with pytest.raises(DataError, match=message):
        human_means([rating("x", NAN)])


def test_grid_keeps_the_order_of_the_outputs_and_marks_gaps():
    outputs = [output("1", "late", "B"), output("2", "late", "A"), output("3", "early", "A")]
    ratings = [rating("1", 1), rating("1", 2, "b"), rating("2", 4), rating("3", 5, dimension="wit")]
    scores = {("1", "clarity"): 0.5, ("2", "clarity"): None, ("3", "clarity"): 0.25}
    grid = build_grid(outputs, human_means(ratings), scores, "clarity")
    assert grid.contexts == ("late", "early")
    assert grid.systems == ("B", "A")
    assert grid.output_ids == (("1", "2"), (None, "3"))
    np.testing.assert_array_equal(grid.human, [[1.5, 4], [NAN, NAN]])
    np.testing.assert_array_equal(grid.predicted, [[0.5, NAN], [NAN, 0.25]])
    # Output 2 is rated and not scored; output 3 is scored and not rated.
    assert grid.unscored == 1


def test_rounding_errors_break_no_ties_of_scores():
    # .1 + .2 is a little more than .3. Ranks 1.5, 1.5, 3 of the scores and 1, 2, 3 of the ratings: 1.5 / sqrt(1.5 * 2).
    outputs = [output(name, "c", name) for name in "123"]
    ratings = [rating("1", 2), rating("2", 1), rating("3", 3)]
    scores = {("1", "clarity"): 0.1 + 0.2, ("2", "clarity"): 0.3, ("3", "clarity"): 700.0}
    grid = build_grid(outputs, human_means(ratings), scores, "clarity")
    assert 0.1 + 0.2 > 0.3
    assert correlate_level(grid.predicted, grid.human).value == pytest.approx(math.sqrt(0.75))


def test_two_outputs_of_a_system_are_refused():
    outputs = [output("1", "c", "A"), output("2", "c", "A")]
    message = "outputs '1' and '2' are both of system 'A' for context 'c'; a context has one"
    with pytest.raises(DataError, match=message):
        build_grid(outputs, {}, {}, "clarity")


def test_rows_are_the_figures_of_the_grids():
    scores = noisy_scores()
    scores["c0/s0", "wit"] = None
    del scores["c1/s1", "wit"]
    rows = evaluated(scores)
    figures = {(row.dimension, row.level, row.statistic): row for row in rows}
    assert len(rows) == len(figures) == 3 * 3 * 3
    for (dimension, level, statistic), row in figures.items():
        assert (row.method, row.benchmark, row.signature) == ("m", "small", "s")
        assert (row.p_value, row.reference) == (None, None)
        assert level == "between_systems" or row.low < row.value < row.high
        assert row.unscored == {"clarity": 0, "wit": 2, "mean": 2}[dimension]
        if dimension == "mean":
            parts = [figures[name, level, statistic].value for name in ("clarity", "wit")]
            assert row.value == pytest.approx(sum(parts) / 2, abs=1e-15)
            continue
        grid = build_grid(SMALL.outputs, MEANS, scores, dimension)
        options = {"level": level, "statistic": statistic}
        found = correlate_level(grid.predicted, grid.human, **options)
        counts = found.value, found.contexts, found.skipped
        assert (row.value, row.contexts, row.skipped) == counts
        expected = (None, None)
        if level != "between_systems":
            left_out = resample(grid.predicted, grid.human, leave_out(12), **options)
            expected = jackknife_interval(row.value, left_out, row.contexts)
        assert (row.low, row.high) == expected


def test_the_mean_over_dimensions_shares_its_resamples():
    # Both dimensions are the same numbers, so their mean has the interval and p-value of one of them. If contexts were
    # left out of each dimension independently, it would be narrower by about sqrt(2).
    same = [each for each in SMALL.ratings if each.dimension == "clarity"]
    ratings = (*same, *(dataclasses.replace(each, dimension="wit") for each in same))
    source = dataclasses.replace(SMALL, ratings=ratings)
    first, second = noisy_scores(1), noisy_scores(2, 3.0)
    for scores in (first, second):
        scores |= {(name, "wit"): scores[name, "clarity"] for name, _ in scores}
    rows = evaluated(first, source, resamples=200, reference=("two", second))
    for row in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        clarity, wit, mean = ((each.value, each.low, each.high, each.p_value) for each in row)
        assert clarity == wit
        assert mean == tuple(value and pytest.approx(value, abs=1e-12) for value in wit)


def test_the_test_against_a_reference_is_the_paired_test():
    first, second = noisy_scores(1, 0.5), noisy_scores(2, 3.0)
    rows = evaluated(first, resamples=300, seed=5, reference=("two", second))
    assert {row.reference for row in rows} == {"two"}
    for row in rows:
        if row.dimension != "mean":
            ours, other = (
                build_grid(SMALL.outputs, MEANS, scores, row.dimension)
                for scores in (first, second)
            )
            options = {"level": row.level, "statistic": row.statistic}
            swaps = draw_swaps(12, 300, seed=5)
            grids = ours.predicted, other.predicted, ours.human
            difference, permuted, _ = paired_differences(*grids, swaps, **options)
            assert row.p_value == permutation_p_value(difference, permuted)
    assert min(row.p_value for row in rows) < 0.02


@pytest.mark.parametrize("contexts", [12, 30])
def test_the_order_of_the_contexts_changes_no_p_value(contexts):
    source = benchmark(contexts)
    means = human_means(source.ratings)
    first, second = (noisy_scores(seed, noise, means) for seed, noise in ((1, 1.0), (2, 1.5)))
    turned = dataclasses.replace(source, outputs=source.outputs[::-1])
    p_values = [
        [row.p_value for row in evaluated(first, given, reference=("two", second))]
        for given in (source, turned)
    ]
    assert p_values[0] == pytest.approx(p_values[1], abs=1e-12)


def test_one_context_has_a_figure_and_no_interval():
    source = benchmark(contexts=1)
    rows = evaluated(noisy_scores(means=human_means(source.ratings)), source)
    assert {(row.contexts, row.low, row.high) for row in rows} == {(1, None, None)}
    assert None not in {row.value for row in rows}


def test_control_adds_partial_correlations():
    scores = noisy_scores()
    control = {each.id: float(position % 7) for position, each in enumerate(SMALL.outputs)}
    options = {"levels": ["pooled"], "statistics": ["pearson"], "constant": "one"}
    rows = evaluated(scores, control=control, **options)
    partial = [(row.level, row.statistic) for row in rows[3:]]
    assert partial == [("within_context", "partial_spearman")] * 3
    grid = build_grid(SMALL.outputs, MEANS, scores, "clarity")
    third = np.arange(60).reshape(12, 5) % 7
    expected = partial_correlate_rows(grid.predicted, grid.human, third)
    assert rows[3].value == pytest.approx(np.nanmean(expected), abs=1e-15)
    assert (rows[3].contexts, rows[3].constant, rows[0].constant) == (12, "skip", "one")


def test_a_dimension_without_a_figure_leaves_the_mean_without_one():
    scores = {key: None if key[1] == "wit" else value for key, value in noisy_scores().items()}
    rows = evaluated(scores, statistics=["spearman"])
    for row in rows:
        if row.dimension == "clarity":
            assert row.value is not None
        else:
            assert (row.value, row.low, row.high) == (None, None, None)
            assert (row.contexts, row.skipped, row.unscored) == (0, 12, 60)


def test_a_constant_prediction_is_counted_and_has_no_figure():
    scores = dict.fromkeys(MEANS, 0.5)
    rows = evaluated(scores)
    assert {(row.value, row.low, row.high) for row in rows} == {(None, None, None)}
    assert {row.constant_predicted for row in rows} == {12}
    counted = evaluated(scores, levels=["within_context"], constant="zero")
    assert {(row.value, row.contexts, row.skipped) for row in counted} == {(0.0, 12, 0)}


def test_no_scores_at_all_is_all_unscored():
    rows = evaluated({})
    assert {row.value for row in rows} == {None}
    assert {row.unscored for row in rows if row.dimension != "mean"} == {60}


def test_unknown_names_are_refused():
    def refused(message, **options):
        refuses(UnknownNameError, message, evaluated, **{"scores": MEANS, **options})

    refused("unknown dimension 'clarty'; did you mean 'clarity'", dimensions=["clarty"])
    refused("unknown level 'poled'; did you mean 'pooled'", levels=["poled"])
    refused("unknown statistic 'kendal'; did you mean 'kendall'", statistics=["kendal"])
    refused("unknown convention for constant contexts 'zeros'", constant="zeros")
    message = "unknown dimension of the scores of 'm' 'Wit'; did you mean 'wit'"
    refused(message, scores={("c0/s0", "Wit"): 1.0})


def test_what_cannot_be_compared_is_refused():
    def refused(message, **options):
        refuses(UsageError, message, evaluated, **{"scores": MEANS, **options})

    refused("resamples must be at least 1; got 0; 1000 is usual", resamples=0)
    refused("no dimension of 'small' is selected; select at least one", dimensions=[])
    without = dataclasses.replace(SMALL, outputs=())
    refused("benchmark 'small' has no outputs; there is nothing to evaluate", source=without)
    message = (
        "no score of 'm' is for an output of 'small': the first score is for output 'z', the benchmark's first "
        "output is 'c0/s0'; check that the scores belong to this benchmark"
    )
    refused(message, scores={("z", "clarity"): 1.0})
    message = "score of output 'c0/s0' on 'wit' is inf; scores must be finite, or None for"
    refused(message, scores={("c0/s0", "wit"): math.inf})
    message = "control has no number for 59 outputs, the first is 'c0/s1'; give one for"
    refused(message, control={"c0/s0": 1.0})


@pytest.mark.parametrize(
    ("scores", "ratings", "spearman", "kendall"),
    [
        # Both systems have a mean of 2.
        ([[1, 2], [3, 2]], [[1, 2], [3, 4]], None, None),
        # Means of .2, .2 and .3 have the ranks 1.5, 1.5 and 3; those of the ratings 1, 2 and 3.
        ([[0.1, 0.2, 0.3], [0.3, 0.2, 0.3]], [[1, 2, 3], [3, 4, 4]], 0.75**0.5, 2 / 6**0.5),
    ],
)
@pytest.mark.parametrize("unit", [1, 1000, 1e-6, 3e14])
def test_systems_of_equal_mean_scores_are_tied(scores, ratings, spearman, kendall, unit):
    systems = range(len(scores[0]))
    tied = dataclasses.replace(
        SMALL,
        dimensions=SMALL.dimensions[:1],
        outputs=tuple(output(f"c{c}/s{s}", f"c{c}", f"s{s}") for c in range(2) for s in systems),
        ratings=tuple(rating(f"c{c}/s{s}", ratings[c][s]) for c in range(2) for s in systems),
    )
    given = {(f"c{c}/s{s}", "clarity"): unit * scores[c][s] for c in range(2) for s in systems}
    rows = evaluate_method(tied, given, method="tied", signature="none")
    found = {
        row.statistic: row.value
        for row in rows
        if row.level == "between_systems" and row.dimension == "clarity"
    }
    assert found["spearman"] == (spearman and pytest.approx(spearman))
    assert found["kendall"] == (kendall and pytest.approx(kendall))
