"""The check of a data filter in docs/how-to/check-a-filter.md, on corpora in which every document has a label."""

import numpy as np
import pytest

import refladder


def corpus(seed):
    """1,000 documents with scores of a classifier (AUC .92), whether each is good, and the 300 that are labelled."""
    draws = np.random.default_rng(seed)
    good = draws.random(1000) < 0.45
    scores = draws.normal(size=1000) + 2 * good
    rows = [
        {"id": f"d{n}", "output": "word " * int(draws.integers(20, 90)), "classifier": float(scores[n])}
        for n in range(1000)
    ]  # fmt: skip
    return rows, good, draws.choice(1000, 300, replace=False)


def test_promises_and_shares_hold_for_all_documents():
    broken = covered = 0
    kept = []
    for seed in range(20):
        rows, good, labelled = corpus(seed)
        labels = [{"id": f"d{n}", "label": "good" if good[n] else "bad"} for n in labelled]
        found = refladder.calibrate(
            rows, labels=labels, label="label", good="=good", by="classifier", unit="row", precision=0.8
        )  # fmt: skip
        # A refusal keeps nothing, and no promise breaks.
        cutoff = np.inf if found.threshold.cutoff is None else found.threshold.cutoff
        chosen = np.array([row["classifier"] >= cutoff for row in rows])
        broken += chosen.any() and good[chosen].mean() < 0.8
        kept.append(chosen.mean())
        share = found.summary()["good_share"]
        covered += share["low"] <= good.mean() <= share["high"]
        # The baseline cannot make the promise: the length of these texts says nothing.
        assert found.summary()["surface"]["auc"] < 0.7
    assert broken <= 4  # 2 are expected at most; more than 4 have the probability .04 (binomial)
    assert covered >= 17  # 19 are expected; fewer than 17 have the probability .02
    assert np.mean(kept) > 0.3


def test_a_classifier_is_told_from_chance_and_not_from_its_copy():
    rows, good, labelled = corpus(1)
    scores = np.array([row["classifier"] for row in rows])
    filters = {"classifier": scores, "copy": 2 * scores, "random": np.random.default_rng(2).random(1000)}  # fmt: skip
    table = []
    right = {}
    for name, values in filters.items():
        decided = (values >= np.sort(values)[600]) == good
        right[name] = decided[labelled].mean()
        table += [{"context_id": f"d{n}", "system": name, "right": int(decided[n])} for n in labelled]  # fmt: skip
    found = refladder.compare(table, by="right")
    assert {each["system"]: each["mean"] for each in found["systems"]} == pytest.approx(right)
    pairs = {(pair["first"], pair["second"]): pair for pair in found["pairs"]}
    assert pairs["classifier", "copy"]["p"] == 1
    assert pairs["classifier", "random"]["p_holm"] < 0.01
    assert pairs["classifier", "random"]["low"] > 0
