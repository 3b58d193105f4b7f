"""Kinds of promises: what is counted, which candidate is promised, and what a further kind needs."""

from __future__ import annotations

import inspect
from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp

import refladder
from refladder.calibration import promise as promises
from refladder.calibration.promise import KINDS, Promise, Terms, other_scores, promise_of
from refladder.calibration.records import Threshold
from refladder.calibration.score_sample import ScoreSample
from refladder.calibration.threshold import Candidates
from refladder.options import OPTIONS

# Ten candidates keep 30, 60, ... of 300 labelled rows, whose contexts have one row each. The third and fourth of them
# have a few bad rows, and the last five no good ones.
ROWS = 300
PATH = Candidates(cutoffs=np.arange(10.0)[::-1], rows=np.arange(30, 301, 30), total=ROWS)
LEVELS = np.arange(ROWS) // 30
GOOD = (LEVELS < 5) & ~np.isin(np.arange(ROWS), [70, 95, 100])
UNITS = np.arange(ROWS)
DROPPED = Terms(
    among="bad",
    keeps_most=True,
    wanted="of the bad rows dropped",
    promised="at least {share:g} of the bad rows are dropped.",
    levels=lambda levels, good, none: (np.where(good, none, 0), np.where(good, none, levels)),
)


def test_each_kind_is_an_option_a_parameter_and_a_field_of_the_threshold():
    parameters = inspect.signature(refladder.calibrate).parameters
    names = {each.name for each in fields(Threshold)}
    assert [
        kind for kind in KINDS if not {kind} <= OPTIONS.keys() & parameters.keys() & names
    ] == []


def test_the_share_is_given_under_the_name_of_its_kind():
    given = {"precision": None, "recall": 0.75, "sure": 0.8}
    assert promise_of(given) == Promise(kind="recall", share=0.75, sure=0.8)
    assert promise_of(given).shares == {"precision": None, "recall": 0.75}


def passed(share, sure, missed, of):
    """Whether a binomial test with scipy allows a promise, for each candidate."""
    return [
        binom.cdf(bad, rows, 1 - share) <= 1 - sure for bad, rows in zip(missed, of, strict=True)
    ]


@pytest.mark.parametrize("kind", ["precision", "recall", "dropped"])
def test_the_candidate_that_is_promised_and_the_naive_one(monkeypatch, kind):
    monkeypatch.setattr(promises, "KINDS", {**KINDS, "dropped": DROPPED})
    made = Promise(kind=kind, share=0.9)
    kept = np.array([level >= LEVELS for level in range(10)])
    above, good, bad = kept.sum(1), (kept & GOOD).sum(1), (kept & ~GOOD).sum(1)
    # A first look has .9 of 1 - .9; the walk of a promise that keeps most rows has .9 of that.
    if kind == "precision":
        fine, share = passed(0.9, 1 - 0.081, bad, above), good / above
    elif kind == "recall":
        fine, share = passed(0.9, 1 - 0.09, GOOD.sum() - good, [GOOD.sum()] * 10), good / GOOD.sum()
    else:
        fine = passed(0.9, 1 - 0.081, bad, [(~GOOD).sum()] * 10)
        share = 1 - bad / (~GOOD).sum()
    sums = made.sums(PATH, LEVELS, GOOD, UNITS)
    reached = np.flatnonzero(share >= 0.9)
    if kind == "recall":
        assert (made.chosen(sums), made.naive(sums)) == (fine.index(True), reached[0])
    else:
        assert made.chosen(sums) == max(np.flatnonzero(fine))
        assert made.naive(sums) == reached[-1]
    assert not made.tested_first(sums)


def test_all_rows_are_kept_if_they_pass_before_the_walk():
    everywhere = np.ones(ROWS, np.bool_)
    made = {kind: Promise(kind=kind, share=0.9) for kind in KINDS}
    sums = {kind: made[kind].sums(PATH, LEVELS, everywhere, UNITS) for kind in KINDS}
    assert {kind for kind in KINDS if made[kind].tested_first(sums[kind])} == {"precision"}


def test_a_further_kind_leaves_the_looks_of_the_others_as_they_are(monkeypatch):
    before = {kind: Promise(kind=kind, share=0.9).look_values for kind in KINDS}
    assert before == {"precision": [0.9, None], "recall": [None, 0.9]}
    monkeypatch.setattr(promises, "KINDS", {**KINDS, "dropped": DROPPED})
    assert {kind: Promise(kind=kind, share=0.9).look_values for kind in KINDS} == before
    assert Promise(kind="dropped", share=0.9).look_values == [None, None, 0.9]


SAID = "the scores here differ from those of the table that the threshold was made for (distance"


def spread_of(scores):
    sample = ScoreSample()
    for score in scores:
        sample.add([], float(score))
    return sample.spread()


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.2, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("digits", [6, 0])
def test_the_test_says_at_most_what_that_of_scipy_does_on_all_scores(shift, digits):
    rng = np.random.default_rng(0)
    old, new = (
        np.round(rng.normal(size=400), digits),
        np.round(rng.normal(size=300) + shift, digits),
    )
    said = other_scores(new, spread_of(old))
    # Steps of .05 hide at most this much of the distance.
    if ks_2samp(old, new).pvalue >= 0.01:
        assert said == ""
    elif ks_2samp(old, new).statistic - 0.05 > 1.63 * np.sqrt(700 / 120_000):  # of 1 %, in tables
        assert said.startswith(SAID)


def test_the_words_and_the_boundary_of_one_percent():
    old = spread_of(np.arange(20) / 20)
    # 20 scores are at 0, .05, ...; of 20 others, all are above: the distance is 1, p = 2 exp(-2 * 10).
    assert other_scores(np.arange(20) + 1.0, old) == (
        f"{SAID} 1.00, Kolmogorov-Smirnov test on one row a context, p 4.1e-09), so its promise may not hold: label rows "
        "of this table and calibrate again"
    )
    # Of 200 scores, k are moved above all: p = 2 exp(-2 * 100 * (k / 200)^2) is .0120 for 32 and .0086 for 33.
    old, low = spread_of(np.arange(200)), np.arange(200.0)
    for moved, told in ((32, False), (33, True)):
        assert bool(other_scores(np.where(low < moved, 999.0, low), old)) == told
    assert spread_of([]) is None
    assert other_scores(np.ones(1), None) == other_scores(np.zeros(0), old) == ""


@pytest.mark.parametrize(
    ("strict", "share", "few"),
    [
        # With several rows, no label of fewer than 5 contexts could make a promise.
        (False, 0.5, 4),
        # The test of the walk has .09 * .9 = .081; five standard errors of 4,000 draws are .0225: .9^n = .1035 at most.
        (True, 0.81, 10),  # .1216 and .0985
        (True, 0.797, 9),  # .1297 and .1034
        (True, 0.7971, 10),  # .10356 and .0825
    ],
)
def test_labels_that_could_make_a_promise_at_either_side(strict, share, few):
    promise = Promise(kind="precision", share=share, strict=strict)
    for units, could in ((few, False), (few + 1, True)):
        assert promise.could_pass(np.repeat(np.arange(units), 12)) == could
