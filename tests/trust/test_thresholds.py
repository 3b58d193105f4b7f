from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from refladder.errors import ShapeError, UsageError
from refladder.trust.threshold import (
    area_under_curve,
    candidates,
    least_labels,
    looks_random,
    lower_bound,
    naive_candidate,
    precise_on_average,
    surely_complete,
    surely_precise,
)


@pytest.mark.parametrize(
    ("share", "sure", "labels"),
    [
        # ceil(ln(1 - sure) / ln(share)) for 0 bad ones; the others from scipy.stats.binom.cdf(bad, n, 1 - share)
        (0.8, 0.9, [11, 18, 25, 32]),
        (0.9, 0.9, [22, 38, 52, 65]),
        (0.95, 0.9, [45, 77, 105, 132]),
        (0.9, 0.95, [29, 46, 61, 76]),
    ],
)
def test_labels_needed_for_0_to_3_bad_ones(share, sure, labels):
    assert [least_labels(bad, share, sure) for bad in range(4)] == labels
    for bad, count in enumerate(labels):
        assert binom.cdf(bad, count, 1 - share) <= 1 - sure < binom.cdf(bad, count - 1, 1 - share)


def test_the_walk_is_fixed_sequence_testing():
    # mapie 1.6: FWERFixedSequenceTesting(n_starts=1).run(scipy.stats.binom.cdf(bad, above, 0.1), 0.1) gives [0 1 2 3].
    # The p-values are .0718 .0805 .0774 .0712 .136 .1172 .4555.
    above = np.array([25, 40, 55, 70, 85, 100, 120])
    bad = np.array([0, 1, 2, 3, 5, 6, 11])
    assert surely_precise(above, bad, 0.9, 0.9) == 3


def test_candidates_with_too_few_labels_are_skipped_and_a_failure_ends_the_walk():
    # 22 labels are the least that can pass at .9, so 3 of 10 bad is skipped; 21 of 21 good is skipped too
    assert surely_precise(np.array([10, 21, 40]), np.array([3, 0, 1]), 0.9, 0.9) == 2
    # 22 of 22 good passes, 5 of 30 bad fails, and 49 of 49 good after it is not looked at
    assert surely_precise(np.array([22, 30, 49]), np.array([0, 5, 0]), 0.9, 0.9) == 0
    assert surely_precise(np.array([22, 30]), np.array([3, 3]), 0.9, 0.9) == -1
    assert surely_precise(np.array([0, 3]), np.array([0, 0]), 0.9, 0.9) == -1


def by_hand(scores, labelled, good, precision, sure):
    """The same procedure with loops over rows; the kept scores, or None."""
    ranked = sorted(scores, reverse=True)
    steps = sorted({ranked[math.ceil(share * len(scores) - 1e-9) - 1] for share in np.arange(1, 21) / 20}, reverse=True)
    chosen = None
    for cutoff in steps:
        above = [is_good for row, is_good in zip(labelled, good, strict=True) if scores[row] >= cutoff]
        if not above or precision ** len(above) > 1 - sure + 1e-12:
            continue
        if binom.cdf(above.count(False), len(above), 1 - precision) > 1 - sure + 1e-12:
            break
        chosen = cutoff
    return chosen


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 150), st.integers(1, 80), st.sampled_from([1, 3, 1000]))
def test_the_cut_off_is_that_of_a_loop_over_rows(seed, rows, labels, different):
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, different, rows) / 7
    labelled = generator.integers(0, rows, labels)
    good = generator.random(labels) < 0.5 + 0.5 * (scores[labelled] > np.median(scores))
    path = candidates(scores[:, np.newaxis], 80)
    levels = path.levels(scores[labelled, np.newaxis])
    above, bad = path.counts(levels), path.counts(np.where(good, len(path.rows), levels))
    chosen = int(surely_precise(above, bad, 0.7, 0.8))
    expected = by_hand(scores.tolist(), labelled.tolist(), good.tolist(), 0.7, 0.8)
    assert (path.cutoffs[chosen, 0] if chosen >= 0 else None) == expected
    for number, (cutoff,) in enumerate(path.cutoffs):
        assert path.rows[number] == (scores >= cutoff).sum()
        assert above[number] == (scores[labelled] >= cutoff).sum()
    assert path.rows[-1] == path.total == rows  # the last candidate keeps every row


def test_joint_cut_offs_keep_the_rows_that_reach_all():
    generator = np.random.default_rng(1)
    scores = generator.normal(size=(200, 3))
    path = candidates(scores, 100)
    levels = path.levels(scores)
    for number, cutoffs in enumerate(path.cutoffs):
        kept = (scores >= cutoffs).all(axis=1)
        assert path.rows[number] == kept.sum()
        assert np.array_equal(levels <= number, kept)


def test_no_candidate_is_below_the_lowest_score_that_was_sampled():
    scores = np.arange(100.0)[:, np.newaxis]
    path = candidates(scores, 50, np.array([60.0]))
    assert path.cutoffs.min() == 60
    assert (path.rows[-1], path.total) == (40, 100)
    with pytest.raises(UsageError, match="no row has a score"):
        candidates(scores, 50, np.array([100.0]))
    with pytest.raises(ShapeError, match=r"must have shape \(rows, columns\); got \(3,\)"):
        candidates(np.zeros(3), 50)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(20, 120), st.integers(5, 60))
def test_on_average_is_benjamini_hochberg_over_conformal_p_values(seed, rows, labels):
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, 12, rows).astype(float)
    labelled = generator.integers(0, rows, labels)
    good = generator.random(labels) < (scores[labelled] + 1) / 13
    path = candidates(scores[:, np.newaxis], 80)
    levels = path.levels(scores[:, np.newaxis])
    # by the book: a p-value for each row, sorted, compared with its rank
    p = [
        (1 + sum(levels[i] <= level and not g for i, g in zip(labelled, good, strict=True))) / (labels + 1)
        for level in levels
    ]
    passing = [k for k, value in enumerate(sorted(p), start=1) if value <= 0.3 * k / rows + 1e-12]
    expected = sorted(p)[max(passing) - 1] if passing else -1.0
    bad = path.counts(np.where(good, len(path.rows), levels[labelled]))
    chosen = int(precise_on_average(bad, np.array(labels), path.rows, 0.7))
    selected = [row for row in range(rows) if chosen >= 0 and levels[row] <= chosen]
    assert selected == [row for row in range(rows) if p[row] <= expected]


def test_recall_keeps_the_strictest_cut_off():
    # 30 good labels; missing 0, 1, 2, 3 of them: binom.cdf(m, 30, .2) = .0012 .0105 .0442 .1227
    missed = np.array([12, 3, 2, 1, 0])
    assert surely_complete(missed, np.array(30), 0.8, 0.9) == 2
    assert surely_complete(np.array([0]), np.array(10), 0.8, 0.9) == -1  # .8 ** 10 = .107
    assert surely_complete(np.array([0]), np.array(11), 0.8, 0.9) == 0  # .8 ** 11 = .086
    assert surely_complete(np.array([0, 0]), np.array(0), 0.8, 0.9) == -1


def test_the_bound_is_exact():
    for good, labels in ((0, 5), (9, 10), (10, 10), (40, 52)):
        exact = binomtest(good, labels, alternative="greater").proportion_ci(0.9, method="exact").low
        bound = float(lower_bound(np.array(labels - good), np.array(labels), 0.9))
        assert bound == pytest.approx(exact, abs=1e-12)
    assert lower_bound(np.array([0]), np.array([0]), 0.9).tolist() == [0.0]


def test_the_area_under_the_curve_counts_pairs():
    generator = np.random.default_rng(0)
    scores, good = generator.integers(0, 5, 40).astype(float), generator.random(40) < 0.4
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[good] for b in scores[~good]]
    assert float(area_under_curve(scores, good)) == pytest.approx(np.mean(pairs), abs=1e-12)
    assert area_under_curve(scores, np.ones(40, bool)) is None


def test_a_sample_of_the_best_rows_does_not_look_random():
    generator = np.random.default_rng(0)
    scores = np.round(generator.normal(size=2000), 1)
    assert not looks_random(np.sort(scores)[-50:], scores)
    random = [looks_random(generator.choice(scores, 50), scores, level=0.05) for _ in range(1000)]
    assert 0.93 <= np.mean(random) <= 0.97
    assert looks_random(np.zeros(5), np.zeros(50))


def test_the_naive_cut_off_is_the_lowest_that_the_labels_allow():
    assert naive_candidate(np.array([0, 5, 10]), np.array([0, 0, 2]), 0.8) == 2
    assert naive_candidate(np.array([0, 5]), np.array([0, 2]), 0.8) == -1


@pytest.mark.parametrize("ties", [None, 4])
@pytest.mark.parametrize("labels", [30, 150])
def test_the_promise_is_broken_in_a_tenth_of_the_draws_at_most(labels, ties):
    generator = np.random.default_rng(labels)
    good = generator.random(1000) < 0.6
    scores = generator.normal(size=1000) + good
    scores = scores if ties is None else np.round(scores)
    path = candidates(scores[:, np.newaxis], 80)
    levels = path.levels(scores[:, np.newaxis])
    drawn = generator.integers(0, 1000, (2000, labels))
    bad = path.counts(np.where(good[drawn], len(path.rows), levels[drawn]))
    chosen = surely_precise(path.counts(levels[drawn]), bad, 0.75, 0.9)
    precision = np.cumsum(np.bincount(levels, weights=good)) / path.rows
    broken = float(((chosen >= 0) & (precision[chosen] < 0.75)).mean())
    assert broken <= 0.1 + 3 * math.sqrt(0.09 / 2000)
    assert (chosen >= 0).mean() > (0.1 if labels == 30 else 0.4)  # it is no empty promise


@pytest.mark.parametrize(("share", "sure"), [(0, 0.9), (1, 0.9), (0.9, 1), (math.nan, 0.9)])
def test_a_promise_needs_shares_between_0_and_1(share, sure):
    with pytest.raises(UsageError, match="it must be more than 0 and less than 1"):
        surely_precise(np.array([30]), np.array([0]), share, sure)


def test_the_best_rows_are_cut_finer_where_they_have_labels():
    scores = np.arange(1000.0)[:, np.newaxis]
    shares = [(candidates(scores, labels).rows[:5] / 1000).tolist() for labels in (300, 1400, 4000)]
    assert shares == [[0.05, 0.1, 0.15, 0.2, 0.25], [0.03, 0.04, 0.05, 0.1, 0.15], [0.01, 0.02, 0.03, 0.04, 0.05]]
