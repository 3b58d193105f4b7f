"""Standings of a contest: by hand, and their intervals beside scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refladder.contest.standings import Trial, standings_of
from refladder.statistics.shares import share_intervals


def trial(row, winner=None, *, tie=False, criterion="c"):
    both = {"one": "x", "other": "y", "forward": 0.5, "backward": 0.5}
    return Trial(row=row, criterion=criterion, winner=winner, tie=tie, **both)


def standings(trials, rows, models="xy", criteria="c", **options):
    written = {(row, model) for row in rows for model in models}
    options |= {"rows": list(rows), "models": list(models), "criteria": list(criteria)}
    return standings_of(trials, written, **options)


def over_rows(found, criterion="c"):
    chosen = [each for each in found if each.row is None and each.criterion == criterion]
    return {each.model: each for each in chosen}


def test_counts_rates_and_intervals_by_hand():
    rows = [str(number) for number in range(40)]
    trials = [trial(row, "x" if int(row) % 4 else "y") for row in rows[:-2]]
    trials += [trial("38", tie=True), trial("39")]
    found = over_rows(standings(trials, rows, "yx"))
    assert list(found) == ["x", "y"]
    best, worst = found.values()
    # rows 0 .. 37: ten are multiples of 4, won by y; 28 by x; one tie, one unparsed
    assert (best.wins, best.ties, best.losses, best.unparsed) == (28, 1, 10, 1)
    assert best.rate == pytest.approx(28.5 / 39)
    assert worst.rate == pytest.approx(10.5 / 39)
    # the standard error of a share of .73 over 39 rows is .071
    assert best.low == pytest.approx(best.rate - 1.96 * 0.071, abs=0.03)
    assert best.high == pytest.approx(best.rate + 1.96 * 0.071, abs=0.03)


def test_one_row_has_no_interval_and_two_a_wide_one():
    best = over_rows(standings([trial("1", "x")], "1"))["x"]
    assert (best.rate, best.low, best.high) == (1, None, None)
    found = over_rows(standings([trial("1", "x"), trial("2", "x")], "12"))
    expected = stats.binomtest(2, 2).proportion_ci(method="wilsoncc")
    assert (found["x"].low, found["x"].high) == pytest.approx((expected.low, 1.0))
    assert (found["y"].low, found["y"].high) == pytest.approx((0.0, 1 - expected.low))


def test_a_tie_is_half_a_win_in_the_interval_too():
    rows = [str(number) for number in range(12)]
    found = over_rows(standings([trial(row, tie=True) for row in rows], rows))["x"]
    # twelve ties are half of twelve wins: the interval is the same for both models, hence even about 1/2
    assert (found.rate, found.low) == (0.5, pytest.approx(1 - found.high))
    # five wins and seven ties: the interval of 8.5 points of 12, by the formulas for the points alone
    trials = [trial(row, "x") for row in rows[:5]] + [trial(row, tie=True) for row in rows[5:]]
    found = over_rows(standings(trials, rows))["x"]
    expected = share_intervals(np.array([1.0] * 5 + [0.5] * 7), np.ones(12))
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.low < 8.5 / 12 < found.high < 1


def test_overall_adds_up_the_trials_of_all_criteria_and_a_model_without_trials_is_last():
    trials = [trial(row, "x", criterion="c") for row in "12"]
    trials += [trial(row, "y", criterion="d") for row in "12"] + [trial("1", "x", criterion="d")]
    found = standings(trials, "12", "zyx", "cd")
    overall = over_rows(found, "overall")
    counts = {model: (each.wins, each.losses) for model, each in overall.items()}
    assert counts == {"x": (3, 2), "y": (2, 3), "z": (0, 0)}
    assert list(overall) == ["x", "y", "z"]
    assert list(over_rows(found, "d")) == ["y", "x", "z"]
    assert (overall["z"].rate, overall["z"].low, overall["z"].high) == (None, None, None)


def test_weights_change_the_overall_rate_only():
    trials = [trial("1", "x", criterion="a"), trial("2", "x", criterion="a")]
    trials += [trial("1", "y", criterion="b"), trial("2", tie=True, criterion="b")]

    def overall(weights):
        found = standings(trials, "12", criteria="ab", weights=weights)
        return over_rows(found, "overall")["x"]

    # x: 2 of 2 points on a, 0.5 of 2 on b. Weights 3 and 1: (3 * 2 + 1 * 0.5) / (3 * 2 + 1 * 2) = 6.5 / 8.
    assert overall([3.0, 1.0]).rate == pytest.approx(6.5 / 8)
    assert overall([1.0, 1.0]) == overall([2.0, 2.0]) == overall(None)
    only = over_rows(standings(trials, "12", criteria="ab"), "b")["x"]
    alone = overall([0.0, 1.0])
    assert (alone.rate, alone.wins) == (0.25, 0)
    assert (alone.low, alone.high) == (only.low, only.high)
