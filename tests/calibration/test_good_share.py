"""Intervals of the share of good rows, from labels of whole contexts and of single rows."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from labelled_rows import scored, split
from scipy.stats import binomtest, norm
from scipy.stats import t as student

import refladder
from refladder.calibration.good_share import powered_share, share_of_good
from refladder.statistics.rate import LEAST_UNITS, cross_fitted, wilson

ASKED = "--label rating --good '>=4' --by clarity_score"


def drawn(random, contexts, rows=12, share=0.8, correlation=0.4):
    """Labels of whole contexts whose own shares have a beta distribution, and the context of each."""
    both = (1 - correlation) / correlation
    shares = random.beta(share * both, (1 - share) * both, contexts)
    good = random.random((contexts, rows)) < shares[:, None]
    return good.ravel(), np.repeat(np.arange(contexts), rows)


@pytest.mark.parametrize(("good", "labels"), [(0, 7), (7, 7), (18, 30)])
def test_one_label_of_each_unit_is_wilson(good, labels):
    exact = binomtest(good, labels).proportion_ci(0.95, method="wilson")
    rate = share_of_good(np.arange(labels) < good, 3 * np.arange(labels))
    assert rate == pytest.approx((good / labels, exact.low, exact.high), abs=1e-12)


@pytest.mark.parametrize("correlation", [0.1, 0.4, 0.8])
def test_labels_of_whole_contexts_are_covered(correlation):
    """Of 400 intervals that cover .95, fewer than 368 (.92) hold the share in 1 of 200 draws (binomial)."""
    random = np.random.default_rng(0)
    by_context, by_row = [], []
    for _ in range(400):
        good, contexts = drawn(random, 15, correlation=correlation)
        rates = share_of_good(good, contexts), wilson(int(good.sum()), 180)
        for rate, found in zip(rates, (by_context, by_row), strict=True):
            found.append(rate.low <= 0.8 <= rate.high)
    assert np.mean(by_context) >= 0.92
    assert np.mean(by_row) < 0.85


def test_the_interval_with_scores_covers_and_is_shorter():
    random = np.random.default_rng(1)
    covered, shorter = [], []
    for _ in range(150):
        good, contexts = drawn(random, 100)
        scores = 2.5 * good + random.normal(size=len(good))
        seen = contexts < 25
        labels = good[seen], scores[seen], contexts[seen]
        rate = powered_share(*labels, scores[~seen], contexts[~seen], folds=contexts[seen])
        plain = share_of_good(good[seen], contexts[seen])
        covered.append(rate.low <= 0.8 <= rate.high)
        shorter.append((rate.high - rate.low) / (plain.high - plain.low))
    assert np.mean(covered) >= 0.9
    assert np.mean(shorter) < 0.95


def test_the_share_with_scores_by_hand():
    """Rows as units: lam mean(f) + mean(y - lam f), lam = cov(y, f) / ((1 + n / N) var f) with n = 40, N = 400.

    The interval is that of a share with the same variance (Korn and Graubard; Newcombe's method 4, by hand below).
    """
    random = np.random.default_rng(2)
    scores, good = random.normal(size=440), random.random(440) < 0.6
    predicted, rest = cross_fitted(good[:40], scores[:40], np.arange(40), scores[40:])
    rows = np.arange(440)
    rate = powered_share(good[:40], scores[:40], rows[:40], scores[40:], rows[40:], folds=rows[:40])
    spread = np.var(np.concatenate([predicted, rest]), ddof=1)
    lam = min(max(np.cov(good[:40], predicted)[0, 1] / (1.1 * spread), 0), 1)
    errors = good[:40] - lam * predicted
    value = lam * rest.mean() + errors.mean()
    assert rate.value == pytest.approx(value)
    # what rows add to the error of 40 values: labelled ones with leverage 1/40, and 400 others
    labelled, others = (errors - errors.mean()) ** 2 * 40 / 39, 0.1 * lam * (rest - rest.mean())
    squares = np.concatenate([labelled, others**2])
    kurtosis = 40 * np.sum(squares**2) / np.sum(squares) ** 2
    freedom = np.clip(80 / (kurtosis - 1) - 1, 1, 39)
    z, t = norm.ppf(0.975), student.ppf(0.975, freedom)
    n = max(value * (1 - value) * 40**2 / np.sum(squares) * (z / t) ** 2, 40)

    def lower(share):
        root = np.sqrt(z**2 - 2 - 1 / n + 4 * share * (n * (1 - share) + 1))
        return (2 * n * share + z**2 - 1 - z * root) / (2 * (n + z**2))

    assert rate.low == pytest.approx(lower(value), abs=1e-9)
    assert rate.high == pytest.approx(1 - lower(1 - value), abs=1e-9)


def test_all_good_labels_still_have_an_interval_with_scores():
    """100 of 100 good: Newcombe's method 4 by hand begins at (200 + 3.84 - 1 - 1.96 sqrt(5.83)) / 207.68 = .9539."""
    scores, rows = np.random.default_rng(3).normal(size=1100), np.arange(1100)
    good, first = np.ones(100, np.bool_), rows[:100]
    rate = powered_share(good, scores[:100], first, scores[100:], rows[100:], folds=first)
    assert (rate.value, rate.high) == (1.0, 1.0)
    assert rate.low == pytest.approx(0.9539, abs=5e-5)


@pytest.mark.parametrize(
    "contexts",
    [
        np.repeat(np.arange(LEAST_UNITS - 1), 12),
        # half of 40 contexts hold one label and half of them twenty: (420)^2 / (20 * 401) = 22 of 40 contexts
        np.concatenate([np.arange(20), np.repeat(np.arange(20, 40), 20)]),
    ],
)
def test_too_few_contexts_or_too_unequal_ones_have_no_interval(contexts):
    rate = share_of_good(np.arange(len(contexts)) % 4 > 0, contexts)
    assert (rate.low, rate.high) == (None, None)
    assert rate.value == pytest.approx(0.75, abs=0.01)


def test_calibrate_says_why_there_is_no_interval(command, write_jsonl):
    rows = [{**row, "context_id": f"c{number % 5}"} for number, row in enumerate(scored(200))]
    line = f"calibrate {write_jsonl(rows)} {ASKED} --precision 0.8"
    done = command(line)
    share = np.mean([row["rating"] >= 4 for row in rows])
    assert f"good among all rows: {share:.3f} (no interval)\n" in done.out
    note = "Note: no interval of the share of good rows: the labels are of 5 contexts; label rows of 8 or more"
    assert note in done.err
    table = write_jsonl(
        [*rows, {**rows[0], "output_id": "none", "clarity_score": None}], "unscored.jsonl"
    )
    some = command(f"calibrate {table} {ASKED} --precision 0.8").out
    assert f"good among all rows with a score: {share:.3f} (no interval)\n" in some
    told = json.loads(command(f"{line} --json").out)
    assert told["good_share"] == {"value": share, "low": None, "high": None}
    assert told["good_share_with_scores"] is None
    rowwise = json.loads(command(f"{line} --unit row --json").out)["good_share"]
    assert tuple(rowwise.values()) == pytest.approx(wilson(round(200 * share), 200))
    write_jsonl([{**row, "context_id": f"c{min(number, 9)}"} for number, row in enumerate(rows)])
    few = "the labels are of 10 contexts, of which a few hold most of them; label more contexts"
    assert few in command(line).err


@pytest.fixture
def promised(command, write_jsonl, tmp_path):
    """Choose a threshold from labelled rows; its file."""

    def go(rows, options="--precision 0.8 --unit row"):
        out = tmp_path / "t.json"
        command(f"calibrate {write_jsonl(rows, 'promised.jsonl')} {ASKED} {options} --out {out}")
        return out

    return go


@pytest.fixture
def rated(command, write_jsonl):
    """The rate of good rows among those that a threshold keeps."""

    def go(rows, threshold, options=""):
        good = f"--label rating --good '>=4' --rate {threshold} --json"
        return json.loads(
            command(f"calibrate {write_jsonl(rows, 'new.jsonl')} {good} {options}").out
        )

    return go


def test_the_rate_of_kept_rows_takes_contexts_as_units(promised, rated):
    rows = [{**row, "output": f"Text {number}.", "context_id": f"c{number // 8}"}
            for number, row in enumerate(scored(800))]  # fmt: skip
    out = promised(rows[:400], "--precision 0.7 --unit row")
    cut = json.loads(out.read_text())["cutoff"]
    kept = [row for row in rows[400:] if row["clarity_score"] >= cut]
    good = np.array([row["rating"] >= 4 for row in kept])
    contexts = np.unique([row["context_id"] for row in kept], return_inverse=True)[1]
    for unit, wanted in (
        ("context", share_of_good(good, contexts)),
        ("row", wilson(int(good.sum()), len(good))),
    ):
        told = rated(rows[400:], out, f"--unit {unit}")
        assert tuple(told["rate"].values()) == pytest.approx(tuple(wanted))


def test_the_rate_is_taken_from_other_labels(command, write_jsonl, rated, tmp_path):
    rows = [{**row, "output": f"Text {number}."} for number, row in enumerate(scored(2000))]
    without, given = split(rows, 200)
    table, labels = write_jsonl(without, "scored.jsonl"), write_jsonl(given, "labels.jsonl")
    out = tmp_path / "t.json"
    command(f"calibrate {table} --labels {labels} {ASKED} --precision 0.8 --out {out}")
    done = command(f"calibrate {table} --labels {labels} --label rating --good '>=4' --rate {out}")
    assert done.code == 3
    assert "left out: 200 labels that chose the threshold" in done.out
    no_rate = (
        "No rate: no label of a kept row is left. Its lower bound is 0.8, with probability 0.9."
    )
    assert no_rate in done.out
    fresh = split(rows, 700, seed=5)[1]
    told = rated(without, out, f"--labels {write_jsonl(fresh, 'fresh.jsonl')}")
    cut = json.loads(out.read_text())["cutoff"]
    used = {label["output_id"] for label in given}
    scores = {row["output_id"]: row["clarity_score"] for row in rows}
    left = [
        label["rating"] >= 4
        for label in fresh
        if label["output_id"] not in used and scores[label["output_id"]] >= cut
    ]
    assert (told["labels"], told["rate"]["value"]) == (len(left), np.mean(left))
    truth = np.mean([row["rating"] >= 4 for row in rows if row["clarity_score"] >= cut])
    for rate in (told["rate"], told["powered"]):
        assert rate["low"] <= truth <= rate["high"]


@pytest.mark.parametrize(
    ("dropped", "renamed"),
    [
        (("output_id",), {}),  # context_id names the row now
        (("output_id", "context"), {}),
        (("output_id", "context_id"), {}),  # only the texts are left
        (("context", "context_id"), {}),  # the id alone
        (("context_id",), {"output_id": "again"}),  # a copied table with ids of its own
    ],
)
def test_a_row_under_another_id_is_not_used_again(promised, rated, dropped, renamed):
    rows = [{**row, "output": f"Text {number}."} for number, row in enumerate(scored())]
    out = promised(rows[:300])
    copied = [
        {name: f"{renamed.get(name, '')}{cell}" if name in renamed else cell for name, cell in row.items()
         if name not in dropped}
        for row in rows
    ]  # fmt: skip
    told = rated(copied, out)
    cut = json.loads(out.read_text())["cutoff"]
    assert told["reused"] == 300
    assert told["labels"] == sum(row["clarity_score"] >= cut for row in rows[300:])
    [labels] = told["notes"]
    assert labels.startswith("labels: 1 (")


def test_a_text_of_another_context_is_another_row(promised, rated):
    rows = scored()  # few different texts; a context_id of two rows each
    others = [
        {**row, "output_id": f"x{number}", "context": f"{number}"}
        for number, row in enumerate(rows[300:])
    ]
    assert rated(others, promised(rows[:300]))["reused"] == 0


def test_a_threshold_file_that_knows_only_ids_is_said_to(promised, rated):
    rows = scored()
    out = promised(rows[:300])
    # as from a table without texts: hashlib.blake2b(b"('o0',)", digest_size=6)
    names = [f"('o{n}',)".encode() for n in range(300)]
    used = [hashlib.blake2b(name, digest_size=6).hexdigest() for name in names]
    out.write_text(json.dumps(json.loads(out.read_text()) | {"used": used}))
    told = rated(rows, out)
    assert told["reused"] == 300
    note = "the threshold file knows the labels that chose it by their ids alone, so the same rows under other ids would "
    assert told["notes"][1:] == [f"{note}be used again; calibrate again on a table with texts"]


@pytest.mark.parametrize(("contexts", "rows", "interval"), [(8, 2, True), (7, 2, False)])
def test_intervals_need_eight_contexts(contexts, rows, interval):
    units = np.repeat(np.arange(contexts), rows)
    assert (share_of_good(np.arange(len(units)) % 3 > 0, units).low is not None) == interval


@pytest.mark.parametrize(("most", "interval"), [(56, True), (57, False)])
def test_intervals_need_contexts_that_are_not_too_unequal(most, interval):
    """20 contexts with 10 labels and one with more: (200 + k)^2 / (2000 + k^2) of 21 is .608 at 56, and .599 at 57."""
    units = np.repeat(np.arange(21), [*[10] * 20, most])
    assert (share_of_good(np.arange(len(units)) % 3 > 0, units).low is not None) == interval


@pytest.mark.parametrize(("labels", "powered"), [(100, True), (99, False)])
def test_the_interval_with_scores_needs_100_labels(write_jsonl, labels, powered):
    random = np.random.default_rng(0)
    rows = [
        {"context_id": f"c{number}", "output": f"text {number}", "clarity_score": float(random.normal()),
         "rating": int(random.integers(1, 6)) if number < labels else None}
        for number in range(200)
    ]  # fmt: skip
    found = refladder.calibrate(
        write_jsonl(rows), label="rating", good=">=4", by="clarity_score", precision=0.5
    )
    assert (found.powered is not None) == powered


def test_rows_with_a_label_are_not_among_the_rows_whose_scores_help(write_jsonl):
    random = np.random.default_rng(0)
    scores, good = random.normal(size=200), random.random(100) < 0.6
    rows = [
        {"context_id": f"c{number:03}", "output": f"text {number}", "clarity_score": float(score),
         "rating": (4 if good[number] else 1) if number < 100 else None}
        for number, score in enumerate(scores)
    ]  # fmt: skip
    found = refladder.calibrate(
        write_jsonl(rows), label="rating", good=">=4", by="clarity_score", precision=0.5
    )
    units = np.arange(200)
    labels = good, scores[:100], units[:100]
    wanted = powered_share(*labels, scores[100:], units[100:], folds=units[:100])
    assert tuple(found.powered) == pytest.approx(tuple(wanted))
