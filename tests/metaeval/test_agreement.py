"""Grids and the rows of figures for one method."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.metaeval.agreement import build_grid, evaluate_method, human_means
from refladder.metaeval.bootstrap import (
    draw_swaps,
    paired_differences,
    permutation_p_value,
    resample,
)
from refladder.metaeval.correlation import partial_correlate_rows
from refladder.metaeval.intervals import jackknife_interval, leave_out
from refladder.metaeval.levels import correlate_level
from refladder.records import Benchmark, Dimension, Output, Rating

NAN = float("nan")


def rating(output_id, value, rater="a", dimension="clarity"):
    return Rating(output_id=output_id, dimension=dimension, value=value, rater=rater)


def output(output_id, context, system):
    return Output(id=output_id, context_id=context, system=system, text=f"text {output_id}")


def benchmark(contexts=12, systems=5, raters=3, seed=0):
    """Two dimensions, three raters in whole numbers, written for the tests."""
    generator = np.random.default_rng(seed)
    outputs = [
        output(f"c{c}/s{s}", f"c{c}", f"s{s}") for c in range(contexts) for s in range(systems)
    ]
    ratings = [
        rating(one.id, float(generator.integers(1, 6)), f"r{r}", name)
        for one in outputs
        for name in ("clarity", "wit")
        for r in range(raters)
    ]
    return Benchmark(
        name="small",
        revision="1",
        licence="none",
        dimensions=(
            Dimension(name="clarity", description=""),
            Dimension(name="wit", description=""),
        ),
        contexts=(),
        outputs=tuple(outputs),
        ratings=tuple(ratings),
    )


def noisy_scores(source, seed=1, noise=1.0):
    generator = np.random.default_rng(seed)
    return {
        key: value + noise * generator.normal()
        for key, value in human_means(source.ratings).items()
    }


def test_means_are_exact_whatever_the_order():
    # .1 + .2 + .3 rounds differently from .3 + .2 + .1; both are .6 / 3.
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1
    found = human_means(
        [rating("x", value, str(value)) for value in (0.1, 0.2, 0.3)]
        + [rating("y", value, str(value)) for value in (0.3, 0.2, 0.1)]
    )
    assert found["x", "clarity"] == found["y", "clarity"]
    with pytest.raises(
        DataError,
        match="rating of output 'x' on 'clarity' by 'a' is nan; ratings must be finite numbers",
    ):
        human_means([rating("x", NAN)])


def test_grid_keeps_the_order_of_the_outputs_and_marks_gaps():
    outputs = [output("1", "late", "B"), output("2", "late", "A"), output("3", "early", "A")]
    means = human_means(
        [rating("1", 1), rating("1", 2, "b"), rating("2", 4), rating("3", 5, dimension="wit")]
    )
    grid = build_grid(
        outputs,
        means,
        {("1", "clarity"): 0.5, ("2", "clarity"): None, ("3", "clarity"): 0.25},
        "clarity",
    )
    assert grid.contexts == ("late", "early")
    assert grid.systems == ("B", "A")
    assert grid.output_ids == (("1", "2"), (None, "3"))
    np.testing.assert_array_equal(grid.human, [[1.5, 4], [NAN, NAN]])
    np.testing.assert_array_equal(grid.predicted, [[0.5, NAN], [NAN, 0.25]])
    # Output 2 is rated and not scored; output 3 is scored and not rated.
    assert grid.unscored == 1


def test_two_outputs_of_a_system_are_refused():
    outputs = [output("1", "c", "A"), output("2", "c", "A")]
    with pytest.raises(
        DataError,
        match="outputs '1' and '2' are both of system 'A' for context 'c'; a context has one",
    ):
        build_grid(outputs, {}, {}, "clarity")


def test_rows_are_the_figures_of_the_grids():
    source = benchmark()
    scores = noisy_scores(source)
    scores["c0/s0", "wit"] = None
    del scores["c1/s1", "wit"]
    rows = evaluate_method(source, scores, method="noise", signature="sig", resamples=200, seed=3)
    assert len(rows) == 3 * 3 * 3
    assert len({(row.dimension, row.level, row.statistic) for row in rows}) == 27
    means = human_means(source.ratings)
    for row in rows:
        assert (row.method, row.benchmark, row.signature, row.p_value, row.reference) == (
            "noise", "small", "sig", None, None,
        )  # fmt: skip
        assert row.level == "between_systems" or row.low < row.value < row.high
        assert row.unscored == {"clarity": 0, "wit": 2, "mean": 2}[row.dimension]
        if row.dimension == "mean":
            parts = [
                x.value
                for x in rows
                if (x.level, x.statistic) == (row.level, row.statistic) and x is not row
            ]
            assert row.value == pytest.approx(sum(parts) / 2, abs=1e-15)
            continue
        grid = build_grid(source.outputs, means, scores, row.dimension)
        options = {"level": row.level, "statistic": row.statistic}
        found = correlate_level(grid.predicted, grid.human, **options)
        assert (row.value, row.contexts, row.skipped) == (
            found.value,
            found.contexts,
            found.skipped,
        )
        if row.level == "between_systems":
            assert (row.low, row.high) == (None, None)
            continue
        left_out = resample(grid.predicted, grid.human, leave_out(12), **options)
        assert (row.low, row.high) == jackknife_interval(row.value, left_out, row.contexts)


def test_within_context_against_scipy():
    source = benchmark()
    scores = noisy_scores(source)
    (row, _) = evaluate_method(
        source, scores, method="m", signature="s", dimensions=["wit"], levels=["within_context"],
        statistics=["kendall"], resamples=10,
    )  # fmt: skip
    means = human_means(source.ratings)
    ids = [[f"c{c}/s{s}" for s in range(5)] for c in range(12)]
    taus = [
        stats.kendalltau([scores[i, "wit"] for i in row], [means[i, "wit"] for i in row])[0]
        for row in ids
    ]
    assert row.value == pytest.approx(np.mean(taus), abs=1e-12)


def test_the_mean_over_dimensions_shares_its_resamples():
    # Both dimensions are the same numbers, so their mean has the interval and p-value of one of them. If contexts were
    # left out of each dimension independently, it would be narrower by about sqrt(2).
    source = benchmark()
    same = [r for r in source.ratings if r.dimension == "clarity"]
    ratings = (*same, *(dataclasses.replace(r, dimension="wit") for r in same))
    source = dataclasses.replace(source, ratings=ratings)
    one, two = noisy_scores(source, 1), noisy_scores(source, 2, 3.0)
    for scores in (one, two):
        scores.update({(i, "wit"): scores[i, "clarity"] for i, _ in list(scores)})
    rows = evaluate_method(
        source, one, method="one", signature="s", resamples=200, reference=("two", two)
    )
    for clarity, wit, mean in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        for name in ("value", "low", "high", "p_value"):
            assert getattr(clarity, name) == getattr(wit, name)
            expected = getattr(mean, name)
            assert getattr(wit, name) == (
                None if expected is None else pytest.approx(expected, abs=1e-12)
            )


def test_the_test_against_a_reference_is_the_paired_test():
    source = benchmark()
    one, two = noisy_scores(source, 1, 0.5), noisy_scores(source, 2, 3.0)
    rows = evaluate_method(
        source, one, method="one", signature="s", resamples=300, seed=5, reference=("two", two)
    )
    means = human_means(source.ratings)
    for row in rows:
        assert row.reference == "two"
        if row.dimension != "mean":
            first, second = (
                build_grid(source.outputs, means, scores, row.dimension) for scores in (one, two)
            )
            options = {"level": row.level, "statistic": row.statistic}
            swaps = draw_swaps(12, 300, seed=5)
            expected = paired_differences(
                first.predicted, second.predicted, first.human, swaps, **options
            )
            assert row.p_value == permutation_p_value(*expected[:2])
    assert min(row.p_value for row in rows) < 0.02


def test_one_context_has_no_interval():
    source = benchmark(contexts=1)
    rows = evaluate_method(source, noisy_scores(source), method="m", signature="s", resamples=50)
    assert {row.contexts for row in rows} == {1}
    assert {(row.low, row.high) for row in rows} == {(None, None)}


def test_control_adds_partial_correlations():
    source = benchmark()
    scores = noisy_scores(source)
    control = {one.id: float(position % 7) for position, one in enumerate(source.outputs)}
    rows = evaluate_method(
        source, scores, method="m", signature="s", levels=["pooled"], statistics=["pearson"], resamples=50,
        control=control, constant="one",
    )  # fmt: skip
    assert [(row.level, row.statistic) for row in rows[3:]] == [
        ("within_context", "partial_spearman")
    ] * 3
    grid = build_grid(source.outputs, human_means(source.ratings), scores, "clarity")
    third = np.arange(60).reshape(12, 5) % 7
    expected = partial_correlate_rows(grid.predicted, grid.human, third)
    assert rows[3].value == pytest.approx(np.nanmean(expected), abs=1e-15)
    assert (rows[3].contexts, rows[3].constant, rows[0].constant) == (12, "skip", "one")
    with pytest.raises(
        UsageError, match="control has no number for 59 outputs, the first is 'c0/s1'; give one for"
    ):
        evaluate_method(source, scores, method="m", signature="s", control={"c0/s0": 1.0})


def test_a_dimension_without_a_figure_leaves_the_mean_without_one():
    source = benchmark()
    scores = {
        key: None if key[1] == "wit" else value for key, value in noisy_scores(source).items()
    }
    rows = evaluate_method(
        source, scores, method="m", signature="s", statistics=["spearman"], resamples=20
    )
    for clarity, wit, mean in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        assert clarity.value is not None
        assert (wit.value, wit.low, wit.high, wit.contexts, wit.skipped, wit.unscored) == (
            None,
            None,
            None,
            0,
            12,
            60,
        )
        assert (mean.value, mean.low, mean.high, mean.contexts, mean.skipped, mean.unscored) == (
            None, None, None, 0, 12, 60,
        )  # fmt: skip


def test_a_constant_prediction_is_counted_and_has_no_figure():
    source = benchmark()
    scores = dict.fromkeys(noisy_scores(source), 0.5)
    rows = evaluate_method(source, scores, method="m", signature="s", resamples=20)
    assert {(row.value, row.low, row.high) for row in rows} == {(None, None, None)}
    assert {row.constant_predicted for row in rows} == {12}
    counted = evaluate_method(
        source, scores, method="m", signature="s", levels=["within_context"], constant="zero"
    )
    assert {(row.value, row.contexts, row.skipped) for row in counted} == {(0.0, 12, 0)}


def test_one_context_has_a_figure_and_no_interval():
    source = benchmark(contexts=1)
    rows = evaluate_method(source, noisy_scores(source), method="m", signature="s", resamples=20)
    assert all(row.value is not None for row in rows)
    assert {(row.low, row.high) for row in rows} == {(None, None)}


def test_what_is_refused():
    source = benchmark(contexts=2)
    scores = noisy_scores(source)
    options = {"method": "m", "signature": "s", "resamples": 5}
    with pytest.raises(
        UnknownNameError, match="unknown dimension 'clarty'; did you mean 'clarity'"
    ):
        evaluate_method(source, scores, dimensions=["clarty"], **options)
    with pytest.raises(UnknownNameError, match="unknown level 'poled'; did you mean 'pooled'"):
        evaluate_method(source, scores, levels=["poled"], **options)
    with pytest.raises(
        UnknownNameError, match="unknown statistic 'kendal'; did you mean 'kendall'"
    ):
        evaluate_method(source, scores, statistics=["kendal"], **options)
    with pytest.raises(UnknownNameError, match="unknown convention for constant contexts 'zeros'"):
        evaluate_method(source, scores, constant="zeros", **options)
    with pytest.raises(UsageError, match="resamples must be at least 1; got 0; 1000 is usual"):
        evaluate_method(source, scores, **{**options, "resamples": 0})
    with pytest.raises(
        UsageError, match="no dimension of 'small' is selected; select at least one"
    ):
        evaluate_method(source, scores, dimensions=[], **options)
    with pytest.raises(
        UsageError, match="benchmark 'small' has no outputs; there is nothing to evaluate"
    ):
        evaluate_method(dataclasses.replace(source, outputs=()), scores, **options)
    with pytest.raises(
        UsageError,
        match="no score of 'm' is for an output of 'small': the first score is for output 'z', the benchmark's first "
        "output is 'c0/s0'; check that the scores belong to this benchmark",
    ):
        evaluate_method(source, {("z", "clarity"): 1.0}, **options)
    with pytest.raises(
        UnknownNameError, match="unknown dimension of the scores of 'm' 'Wit'; did you mean 'wit'"
    ):
        evaluate_method(source, {("c0/s0", "Wit"): 1.0}, **options)
    with pytest.raises(
        UsageError,
        match="score of output 'c0/s0' on 'wit' is inf; scores must be finite, or None for",
    ):
        evaluate_method(source, {**scores, ("c0/s0", "wit"): math.inf}, **options)


def test_no_scores_at_all_is_all_unscored():
    source = benchmark(contexts=2)
    rows = evaluate_method(source, {}, method="m", signature="s", resamples=5)
    assert {row.value for row in rows} == {None}
    assert {row.unscored for row in rows if row.dimension != "mean"} == {10}
