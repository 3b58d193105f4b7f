"""The statistics of the review page, which JavaScript computes, beside scipy, the package's functions and hand work."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from chromium import started
from scipy import stats

from refladder.contest.html import PAGE
from refladder.statistics.intervals import jackknife_interval
from refladder.statistics.shares import share_intervals

NAMES = (
    "incompleteBeta, tQuantile, shareInterval, exactLowerBound, kappa, alpha, jackknife, spearman"
)


@pytest.fixture(scope="module")
def run():
    """Call a function of numbers.js with JSON values."""
    code = re.sub(
        r"^export ", "", (PAGE / "numbers.js").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    with started() as browser:
        page = browser.new_page()
        page.evaluate(
            f"code => {{ window.numbers = new Function(code + '; return {{{NAMES}}}')() }}", code
        )
        page.evaluate(
            "() => { numbers.interval = (items, rows, name) => numbers.jackknife(items, rows, numbers[name]) }"
        )
        yield lambda name, *arguments: page.evaluate(
            f"given => window.numbers.{name}(...given)", list(arguments)
        )


def test_quantiles_are_those_of_scipy(run):
    for freedom in (1, 1.7, 4, 29.3, 1000):
        assert run("tQuantile", freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-8)
    for a, b, x in ((0.5, 3, 0.2), (40, 2, 0.99), (1, 1, 0.3), (200, 300, 0.41)):
        assert run("incompleteBeta", a, b, x) == pytest.approx(stats.beta.cdf(x, a, b), abs=1e-12)
    for good, labels in ((0, 5), (5, 5), (18, 20), (77, 90)):
        expected = (
            stats.binomtest(good, labels, alternative="greater").proportion_ci(0.9, "exact").low
        )
        assert run("exactLowerBound", good, labels, 0.9) == pytest.approx(expected, abs=1e-9)


def test_intervals_of_shares_are_those_of_the_package(run):
    draws = np.random.default_rng(1)
    for rows, most in itertools.product((2, 5, 40), (1, 4)):
        counts = draws.integers(0, most + 1, rows).astype(float)
        counts[:2] = most
        for points in (counts * 0, counts, np.floor(draws.random(rows) * (counts + 1)), counts / 2):
            expected = share_intervals(points, counts)
            assert run("shareInterval", points.tolist(), counts.tolist()) == pytest.approx(
                expected.tolist(), abs=1e-9
            )
    assert run("shareInterval", [1], [2]) is None


def test_kappa_by_hand(run):
    # 5 of 8 equal; judge 4 A, 3 B, 1 tie; person 4 A, 4 B: chance 16/64 + 12/64 = 28/64; (40 - 28) / (64 - 28) = 1/3.
    pairs = [[1, 1]] * 3 + [[-1, -1]] * 2 + [[1, -1], [-1, 1], [0, -1]]
    assert run("kappa", pairs) == pytest.approx(1 / 3)
    assert run("kappa", [[1, 1], [1, 1]]) is None
    assert run("kappa", []) is None


def test_alpha_of_krippendorffs_example(run):
    # Krippendorff 2011, "Computing Krippendorff's alpha-reliability", section C: four observers, twelve units.
    table = "11.1 2232 3333 3333 2222 1234 4444 1121 2222 .555 ..11 ..3."
    units = [[int(value) for value in unit if value != "."] for unit in table.split()]
    assert round(run("alpha", units, "nominal"), 3) == 0.743
    assert round(run("alpha", units, "interval"), 3) == 0.849
    assert run("alpha", [[1, 1], [1, 1]], "nominal") is None


def test_spearman_is_that_of_scipy(run):
    pairs = np.random.default_rng(2).integers(0, 6, (50, 2)).tolist()
    assert run("spearman", pairs) == pytest.approx(stats.spearmanr(pairs).statistic)
    assert run("spearman", [[1, 1], [1, 2]]) is None


def test_jackknife_is_that_of_the_package(run):
    draws = np.random.default_rng(3)
    rows = [index // 3 for index in range(36)]
    pairs = (
        draws.random((36, 2)) + np.array([[index % 5] * 2 for index in range(36)]) / 4
    ).tolist()
    value = stats.spearmanr(pairs).statistic
    left = [
        stats.spearmanr(
            [pair for pair, row in zip(pairs, rows, strict=True) if row != out]
        ).statistic
        for out in range(12)
    ]
    expected = jackknife_interval(value, np.array(left), 12)
    assert run("interval", pairs, rows, "spearman") == pytest.approx(expected, abs=1e-9)
    assert run("interval", pairs[:3], rows[:3], "spearman") is None  # one row
