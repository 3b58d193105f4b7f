from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest

from refladder.calibration.threshold import (
    Allowance,
    candidates,
    certainty,
    counted,
    divisor,
    keeps_all,
    looks_random,
    lower_bound,
    naive_candidate,
    passes,
    spread,
    strict_bounds,
    strictly_precise,
    surely_complete,
    surely_precise,
    unit_sums,
    walk_certainty,
)
from refladder.errors import UsageError


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
    for bad, count in enumerate(labels):
        assert passes(bad, count, share, sure)
        assert not passes(bad, count - 1, share, sure)
        assert binom.cdf(bad, count, 1 - share) <= 1 - sure < binom.cdf(bad, count - 1, 1 - share)


def precise(above, bad, share=0.9, sure=8 / 9):
    """The candidate that is promised; the walk has .1 of 1/9, the test of all rows .0111."""
    return int(surely_precise(np.array(above), np.array(bad), share, sure))


def test_the_walk_is_fixed_sequence_testing():
    # mapie 1.6: FWERFixedSequenceTesting(n_starts=1).run(scipy.stats.binom.cdf(bad, above, 0.1), 0.1) gives [0 1 2 3].
    # The p-values are .0718 .0805 .0774 .0712 .136 .1172 .4555.
    above, bad = [25, 40, 55, 70, 85, 100, 120], [0, 1, 2, 3, 5, 6, 11]
    assert precise(above, bad) == 3
    assert precise(above, bad, sure=0.915) == 0  # .0718 <= .0765 < .0805


def test_candidates_with_too_few_labels_are_skipped_and_a_failure_ends_the_walk():
    # 22 labels are the least that can pass at .9, so 3 of 10 bad is skipped, as is 21 of 21
    assert precise([10, 21, 40], [3, 0, 1]) == 2
    # 22 of 22 good passes, 5 of 30 bad fails, and 33 of 33 good after it (.9 ** 33 = .031 > .0111) is not walked to
    assert precise([22, 30, 33], [0, 5, 0]) == 0
    assert precise([22, 30], [3, 3]) == -1
    assert precise([0, 3], [0, 0]) == -1


def test_all_rows_are_tested_before_the_walk():
    # .9 ** 43 = .0108 <= .1 / 9 < .9 ** 42, so all rows are kept although a candidate of the walk fails
    for labels, kept in ((43, True), (42, False)):
        above, bad = np.array([22, 30, labels]), np.array([0, 5, 0])
        assert bool(keeps_all(above, bad, 0.9, 8 / 9)) is kept
        assert (precise(above, bad) == 2) is kept
    # a random score, 29 of 150 bad, .7: binom.cdf(29, 150, .3) = .0021 <= .1 * .1; the strictest 8 of them have 3 bad
    assert precise([8, 80, 150], [3, 16, 29], 0.7, 0.9) == 2


def test_looks_share_what_may_be_wrong():
    spent = [1 - certainty(0.9, look) for look in range(1, 41)]
    assert spent[:4] == pytest.approx([0.09, 0.005, 0.0025, 0.00125])
    assert 0.0999 < sum(spent) <= 0.1 + 1e-9
    assert passes(0, 300, 0.9, certainty(0.9, 1000))  # .9 ** 262 = 1e-12


def by_contexts(above, bad, units):
    """`counted` with loops over contexts, for one sample; 0 rows where fewer than 5 contexts have rows."""
    n, b = (
        np.array([[(levels[units == name] <= k).sum() for k in range(6)] for name in np.unique(units)], dtype=float)
        for levels in (above, bad)
    )  # fmt: skip
    excess = expected = 0.0
    for k in range(6):
        total, groups = n[:, k].sum(), (n[:, k] > 0).sum()
        if groups > 1:
            r = b[:, k].sum() / total
            m = (n[:, k] ** 2).sum() / total
            between = ((b[:, k] - r * n[:, k]) ** 2).sum() * groups / (groups - 1)
            excess += between - total * r * (1 - r)
            expected += total * r * (1 - r) * (m - 1)
    m = (n**2).sum(axis=0) / np.maximum(n.sum(axis=0), 1)
    equal = n[:, -1].sum() / m[-1]
    divisor = []
    for k in range(6):
        squares = (n[:, k] ** 2).sum(), (b[:, k] ** 2).sum()
        contexts = n[:, k].sum() ** 2 / squares[0]
        both = (n[:, k] * b[:, k]).sum() ** 2
        with_bad = contexts * both / (squares[0] * squares[1]) if squares[1] else 0
        alike = min(max(excess, 0) / expected + 6 / (1 + with_bad) ** 2, 1)
        divisor.append(1 + (m[k] - 1) * alike if n[:, k].sum() >= 5 * m[k] else math.inf)
    return n.sum(axis=0) / divisor, b.sum(axis=0) / divisor, equal - 1, max(1 / m[-1], 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_whole_contexts_count_as_fewer(seed):
    generator = np.random.default_rng(seed)
    units = np.repeat(np.arange(3, 23), generator.integers(2, 9, 20))
    often = generator.random(23)[units]
    above = generator.integers(0, 7, len(units))  # 6: no candidate keeps the row
    bad = np.where(generator.random(len(units)) < often, above, 6)
    order = generator.permutation(len(units))  # rows of a context need not follow each other
    found = counted(unit_sums(above[order], bad[order], units[order], 6))
    numbers = found.rows, found.bad, found.allow.freedom, found.allow.added
    for ours, theirs in zip(numbers, by_contexts(above, bad, units), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)
    none_bad = np.full_like(bad, 6)
    pairs = ((above, above), (bad, none_bad), (units, units))
    several = counted(unit_sums(*map(np.stack, pairs), 6))
    assert several.rows[0] == pytest.approx(found.rows)
    assert several.bad[1].tolist() == [0] * 6


def test_contexts_that_share_few_bad_rows_count_by_hand():
    """10 contexts of 4 rows, one bad row in each of the first 3: B = 3^2 / 3 = 3, so 6 / 16 is added to a c of 0."""
    units, none = np.repeat(np.arange(10), 4), np.ones(40, np.int64)
    bad = np.where((units < 3) & (np.arange(40) % 4 == 0), 0, none)
    sums = unit_sums(0 * none, bad, units, 1)
    assert spread(sums) == pytest.approx([3])
    assert counted(sums).rows == pytest.approx([40 / (1 + 3 * 6 / 16)])
    # exchanged: 37 others of 40, 4 of a context or 3: (7 * 4 + 3 * 3)^2 / (7 * 16 + 3 * 9)
    assert spread(sums.exchanged()) == pytest.approx([37**2 / 139])
    # beside 6 contexts of 40 good rows, the same bad rows count less: G = 280^2 / 9760, B = G 12^2 / (9760 * 3)
    units = np.append(units, np.repeat(np.arange(10, 16), 40))
    bad = np.append(bad, np.ones(240, np.int64))
    sums = unit_sums(np.zeros(280, np.int64), bad, units, 1)
    assert spread(sums) == pytest.approx([280**2 / 9760 * 12**2 / (9760 * 3)])
    # without a bad row nothing is known: rows of a context count as one
    alike = counted(unit_sums(0 * none, none, np.repeat(np.arange(10), 4), 1))
    assert alike.rows == pytest.approx([10])


def test_half_a_bad_label_is_added_for_several_rows_of_a_context():
    """scipy.stats.beta: .1 is the .8911 quantile of Beta(1 + 1/2, 28 + 1/2), and .9007 with one row more."""
    some = Allowance(math.inf, 0.5)
    assert [bool(passes(1, labels, 0.9, 0.9, some)) for labels in (29, 30)] == [False, True]
    quantiles = [float(beta.cdf(0.1, 1.5, labels - 0.5)) for labels in (29, 30)]
    assert quantiles == pytest.approx([0.8911, 0.9007], abs=5e-5)
    for labels in (20, 29, 30):
        low = float(lower_bound(np.array(1), np.array(labels), 0.9, some))
        assert low == pytest.approx(beta.ppf(0.1, labels - 0.5, 1.5))
        assert bool(passes(1, labels, low - 1e-6, 0.9, some))
        assert not bool(passes(1, labels, low + 1e-6, 0.9, some))


def test_one_row_of_each_context_is_the_exact_test():
    above, bad = np.array([0, 0, 1, 2, 2]), np.array([3, 3, 1, 3, 3])
    rows, wrong, allow, _ = counted(unit_sums(above, bad, np.array([7, 3, 9, 1, 2]), 3))
    assert (rows.tolist(), wrong.tolist()) == ([2, 3, 5], [0, 1, 1])
    assert (allow.freedom.tolist(), allow.added.tolist()) == ([math.inf], [1])  # as EXACT
    nothing = np.zeros(0, np.int64)
    assert counted(unit_sums(nothing, nothing, nothing, 3)).rows.tolist() == [0, 0, 0]


def test_sums_of_many_contexts_take_the_memory_of_a_few_arrays():
    contexts, none = 20_000, 24
    levels = np.arange(contexts) % none
    tracemalloc.start()
    unit_sums(levels, levels, np.arange(contexts), none)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Two arrays of counts, a product of them, and while they are counted at most two more.
    assert peak < 6 * contexts * none * 8


def test_four_contexts_promise_nothing_however_many_rows_they_have():
    def chosen(contexts):
        units, none = np.repeat(np.arange(contexts), 40), np.ones(40 * contexts, np.int64)
        labels = counted(unit_sums(0 * none, none, units, 1))
        return int(surely_precise(labels.rows, labels.bad, 0.6, 0.9, labels.allow))

    assert [chosen(contexts) for contexts in (4, 60)] == [-1, 0]


def test_whole_contexts_break_the_promise_no_more_often_than_allowed():
    # 25 contexts of 12 rows; bad rows of one are alike (beta-binomial, correlation .6)
    generator = np.random.default_rng(1)
    share = np.repeat(generator.beta(0.7 / 1.5, 0.3 / 1.5, 600), 12)
    good = generator.random(7200) < share
    scores = 1.8 * good + generator.normal(size=7200)
    path = candidates(scores, 300)
    levels, none = path.levels(scores), len(path.rows)
    precision = 1 - path.counts(np.where(good, none, levels)) / path.rows
    contexts = generator.integers(0, 600, (500, 25))
    rows = (contexts[..., np.newaxis] * 12 + np.arange(12)).reshape(500, 300)
    above, bad = levels[rows], np.where(good[rows], none, levels[rows])
    labels = counted(unit_sums(above, bad, np.repeat(contexts, 12, axis=1), none))

    def broken(chosen, promised):
        return float(((chosen >= 0) & (precision[chosen] < promised)).mean())

    promised = float(good.mean()) + 0.15
    ours = surely_precise(labels.rows, labels.bad, promised, 0.9, labels.allow)
    alone = surely_precise(path.counts(above), path.counts(bad), promised, 0.9)
    assert broken(ours, promised) <= 0.1 + 3 * math.sqrt(0.09 / 500) < broken(alone, promised)
    assert (ours >= 0).mean() > 0.5  # it is not silent


def by_hand(scores, labelled, good, precision, sure):
    """The same procedure with loops over rows; the kept scores, or None."""
    if binom.cdf(good.count(False), len(good), 1 - precision) <= 0.1 * (1 - sure) + 1e-12:
        return min(scores)
    walk, chosen = 0.9 * (1 - sure), None
    ranked = sorted(scores, reverse=True)
    ranks = [math.ceil(share * len(scores) - 1e-9) - 1 for share in np.arange(1, 21) / 20]
    for cutoff in sorted({ranked[rank] for rank in ranks}, reverse=True):
        above = [ok for row, ok in zip(labelled, good, strict=True) if scores[row] >= cutoff]
        if not above or precision ** len(above) > walk + 1e-12:
            continue
        if binom.cdf(above.count(False), len(above), 1 - precision) > walk + 1e-12:
            break
        chosen = cutoff
    return chosen


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(1, 150), st.integers(1, 80), st.sampled_from([1, 3, 1000])
)
def test_the_cut_off_is_that_of_a_loop_over_rows(seed, rows, labels, different):
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, different, rows) / 7
    labelled = generator.integers(0, rows, labels)
    good = generator.random(labels) < 0.5 + 0.5 * (scores[labelled] > np.median(scores))
    path = candidates(scores, 80)
    levels = path.levels(scores[labelled])
    above, bad = path.counts(levels), path.counts(np.where(good, len(path.rows), levels))
    chosen = int(surely_precise(above, bad, 0.7, 0.8))
    expected = by_hand(scores.tolist(), labelled.tolist(), good.tolist(), 0.7, 0.8)
    assert (path.cutoffs[chosen] if chosen >= 0 else None) == expected
    for number, cutoff in enumerate(path.cutoffs):
        assert path.rows[number] == (scores >= cutoff).sum()
        assert above[number] == (scores[labelled] >= cutoff).sum()
    assert path.rows[-1] == path.total == rows  # the last candidate keeps every row


def test_no_candidate_is_below_the_lowest_score_that_was_sampled():
    scores = np.arange(100.0)
    path = candidates(scores, 50, 60.0)
    assert path.cutoffs.min() == 60
    assert (path.rows[-1], path.total) == (40, 100)
    with pytest.raises(UsageError, match="no row has a score"):
        candidates(scores, 50, 100.0)


def test_recall_keeps_the_strictest_cut_off():
    # 30 good labels; missing 0, 1, 2, 3 of them: binom.cdf(m, 30, .2) = .0012 .0105 .0442 .1227
    missed = np.array([12, 3, 2, 1, 0])
    assert surely_complete(missed, np.array(30), 0.8, 0.9) == 2
    assert surely_complete(np.array([0]), np.array(10), 0.8, 0.9) == -1  # .8 ** 10 = .107
    assert surely_complete(np.array([0]), np.array(11), 0.8, 0.9) == 0  # .8 ** 11 = .086
    assert surely_complete(np.array([0, 0]), np.array(0), 0.8, 0.9) == -1


def test_the_bound_is_exact():
    for good, labels in ((0, 5), (9, 10), (10, 10), (40, 52)):
        test = binomtest(good, labels, alternative="greater")
        exact = test.proportion_ci(0.9, method="exact").low
        bound = float(lower_bound(np.array(labels - good), np.array(labels), 0.9))
        assert bound == pytest.approx(exact, abs=1e-12)
    assert lower_bound(np.array([0]), np.array([0]), 0.9).tolist() == [0.0]


def test_a_sample_of_the_best_rows_does_not_look_random():
    generator = np.random.default_rng(0)
    scores = np.round(generator.normal(size=2000), 1)
    assert not looks_random(np.sort(scores)[-50:], scores)
    random = [looks_random(generator.choice(scores, 50), scores) for _ in range(2000)]
    assert 0.995 <= np.mean(random) < 1
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
    path = candidates(scores, 80)
    levels = path.levels(scores)
    drawn = generator.integers(0, 1000, (2000, labels))
    bad = path.counts(np.where(good[drawn], len(path.rows), levels[drawn]))
    chosen = surely_precise(path.counts(levels[drawn]), bad, 0.75, 0.9)
    precision = np.cumsum(np.bincount(levels, weights=good)) / path.rows
    broken = float(((chosen >= 0) & (precision[chosen] < 0.75)).mean())
    assert broken <= 0.1 + 3 * math.sqrt(0.09 / 2000)
    assert (chosen >= 0).mean() > (0.05 if labels == 30 else 0.4)  # it is no empty promise


@pytest.mark.parametrize(("share", "sure"), [(0, 0.9), (1, 0.9), (0.9, 1), (math.nan, 0.9)])
def test_a_promise_needs_shares_between_0_and_1(share, sure):
    with pytest.raises(UsageError, match="it must be more than 0 and less than 1"):
        surely_precise(np.array([30]), np.array([0]), share, sure)


def test_the_best_rows_are_cut_finer_where_they_have_labels():
    scores = np.arange(1000.0)
    shares = [(candidates(scores, labels).rows[:5] / 1000).tolist() for labels in (300, 1400, 4000)]
    assert shares == [
        [0.05, 0.1, 0.15, 0.2, 0.25],
        [0.03, 0.04, 0.05, 0.1, 0.15],
        [0.01, 0.02, 0.03, 0.04, 0.05],
    ]


def test_the_strict_bound_without_bad_rows_is_a_power_of_the_error():
    # With equal contexts, the p-value of q is P(E' q >= (1 - q) (E_1 + ... + E_G)) = q ** G. At .081: .73 of 8 contexts,
    # .81 of 12, .88 of 20, .94 of 40.
    for contexts, bound in ((8, 0.730), (12, 0.811), (20, 0.882), (40, 0.939)):
        rows = np.full((contexts, 1), 5.0)
        found = strict_bounds(rows, 0 * rows, np.array([5]), 0.919, seed=1)
        assert found == pytest.approx([bound], abs=0.01)


def test_the_strict_test_is_that_of_a_plain_program():
    drawn = np.random.default_rng(5)
    rows = drawn.integers(0, 6, (30, 3)).cumsum(axis=1) * 1.0
    bad = (
        np.minimum(drawn.integers(0, 2, (30, 3)).cumsum(axis=1), rows)
        * (np.arange(30) < 9)[:, None]
    )
    most = rows.max(axis=0).astype(int)
    bounds = strict_bounds(rows, bad, most, 0.9, seed=2)
    for candidate, bound in enumerate(bounds):
        for q, passed in ((bound - 0.02, True), (bound + 0.02, False)):
            excess = bad[:, candidate] - (1 - q) * rows[:, candidate]
            sums = [
                drawn.standard_exponential(30) @ excess
                + drawn.standard_exponential() * q * most[candidate]
                for _ in range(4000)
            ]
            assert bool((1 + sum(each >= 0 for each in sums)) / 4001 <= 0.1) is passed


def test_a_strict_walk_ends_at_the_first_failure_and_skips_candidates_with_too_few_contexts():
    # 40 contexts: one row in 5 of them above the first cut-off, in all above the second, and a bad one in each at last.
    rows = np.stack([np.arange(40) < 5, np.ones(40), np.full(40, 2)], axis=1) * 1.0
    bad = np.stack([np.zeros(40), np.zeros(40), np.ones(40)], axis=1)
    most = np.array([1, 1, 2])
    assert strictly_precise(rows, bad, most, 0.9, 0.91, seed=3) == 1
    assert (
        strictly_precise(rows, 0 * bad, most, 0.85, 0.91, seed=3) == 2
    )  # all rows, with a tenth of the error
    assert strictly_precise(rows, bad, most, 0.96, 0.91, seed=3) == -1
    assert (
        strict_bounds(rows, bad, most, 0.99999, seed=3).max() == 0
    )  # 4,000 draws do not show that


def kept(contexts, rows):
    """The labels that count where each of so many contexts has so many rows, all good, and what tests add."""
    units = np.repeat(np.arange(contexts), rows)
    none = np.ones(len(units), dtype=int)
    worth = counted(unit_sums(0 * none, none, units, 1))
    return worth.rows.item() > 0, float(worth.allow.added.item())


def least_bound(draws):
    """The strict bound of nine contexts without a bad row, with an error of 1 / `draws`."""
    ones = np.ones((9, 1))
    return strict_bounds(ones, 0 * ones, np.array([1]), 1 - 1 / draws, 0).item()


def ranked(mean):
    """Whether 100 rows with this mean rank look like a random sample of many others."""
    return bool(looks_random(np.full(100, mean), np.arange(200_001) / 200_000))


@pytest.mark.parametrize(
    ("boundary", "holds"),
    [
        # Rows of fewer than 5 contexts count 0, and tests add half a bad label, or 1 / m.
        ("contexts", lambda far: kept(4 if far else 5, 2)[0]),
        ("half a label", lambda far: kept(9, 4)[1] == (1 if far else 0.5)),
        # The first look has .9 of .1, the second and the third half and a quarter of the rest, and from the 31st on .5^30.
        ("looks", lambda far: math.isclose(certainty(0.9, 1), 0.911 if far else 0.91)),
        ("second look", lambda far: math.isclose(certainty(0.9, 2), 0.99 if far else 0.995)),
        ("last look", lambda far: certainty(0.9, 30 if far else 31) == certainty(0.9, 40)),
        # All rows are tested with .1 of .1: .5^7 = .0078 and .5^6 = .0156; the walk has .09.
        ("all rows", lambda far: bool(keeps_all([6 if far else 7], [0], 0.5, 0.9))),
        ("walk", lambda far: math.isclose(walk_certainty(0.9), 0.9 if far else 0.91)),
        # 3 rows a context and 2 contexts with bad rows: 1 + 2 * 6 / 3^2.
        ("allowance", lambda far: math.isclose(float(divisor(3, 0, 2)), 1 + (12.1 if far else 12) / 9)),
        # The least p-value of 4,000 draws is 1 / 4001.
        ("draws", lambda far: least_bound(4001.5 if far else 4001) > 0),
        # 1 % of the rows is a candidate if 40 labels are expected there.
        ("candidates", lambda far: candidates(np.arange(1e4), 3999 if far else 4000).rows[0] == 100),
        # The mean of 100 ranks is within 3.2905 / sqrt(1200) = .09499 of a half with .999.
        ("random", lambda far: ranked(0.5951 if far else 0.5949)),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)  # fmt: skip
def test_each_constant_of_the_promise_at_either_side(boundary, holds):
    assert boundary
    assert holds(far=False)
    assert not holds(far=True)
