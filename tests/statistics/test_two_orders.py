"""Two orders of a pair: refladder's numbers beside TrustJudge's likelihood-aware aggregation (arXiv 2509.21117)."""

from __future__ import annotations

import numpy as np
import pytest

from refladder.scoring.rules import hard_votes, ladder_scores
from refladder.statistics.bias import intransitive_triples
from refladder.statistics.estimators import mean_probability, win_ratio

SWAPPED = {"win": "loss", "loss": "win", "tie": "tie"}


def trustjudge(first, second, delta=0.0):
    """m[k] = p1[k] + p2[-k]; the k with the largest m, and a tie if half the lead over the next one is below delta."""
    merged = {outcome: share + second[SWAPPED[outcome]] for outcome, share in first.items()}
    best, following = sorted(merged, key=merged.get, reverse=True)[:2]
    return "tie" if (merged[best] - merged[following]) / 2 < delta else best


def test_two_outputs_where_the_orders_disagree():
    # a is shown first and wins with .9; b is shown first and wins with .6.
    #   TrustJudge: m[a] = .9 + .4 = 1.3, m[b] = .1 + .6 = .7: a wins
    #   win-ratio: a wins one of its two comparisons: 1/2, a tie
    #   mean-probability: (.9 + .4) / 2 = .65
    assert trustjudge({"win": 0.9, "loss": 0.1}, {"win": 0.6, "loss": 0.4}) == "win"
    pairs, probabilities = np.array([[0, 1], [1, 0]]), np.array([0.9, 0.6])
    assert win_ratio(2, pairs, probabilities).tolist() == [0.5, 0.5]
    assert mean_probability(2, pairs, probabilities) == pytest.approx([0.65, 0.35])
    # The lead of a is (1.3 - .7) / 2 = .3, so a larger delta makes a tie of it; no number of refladder has a delta.
    assert trustjudge({"win": 0.9, "loss": 0.1}, {"win": 0.6, "loss": 0.4}, delta=0.31) == "tie"


def test_an_output_and_a_rung_with_ties():
    # win, loss, tie of the output, shown second and first: (.5, .1, .4) and (.2, .3, .5)
    #   TrustJudge: m = .7, .4, .9: a tie, which adds nothing
    #   mean of the orders: .35, .2, .45. hard-votes takes the tie too; ladder-sum of one rung is .35 - .2 = .15
    first, second = (
        {"win": 0.5, "loss": 0.1, "tie": 0.4},
        {"win": 0.3, "loss": 0.2, "tie": 0.5},
    )  # the second: the rung's
    assert trustjudge(first, second) == "tie"
    mean = np.array([[[0.35, 0.2, 0.45]]])
    assert hard_votes(mean, (1.0, 5.0)).tolist() == [0.0]
    assert ladder_scores(mean, (1.0, 5.0)) == pytest.approx([0.15])


def test_intransitive_triples_are_counted_on_its_decisions_without_a_tolerance():
    random = np.random.default_rng(3)
    pairs = np.array([(a, b) for a in range(6) for b in range(6) if a != b])
    for _ in range(20):
        p = random.random(len(pairs))
        shown = {tuple(pair): share for pair, share in zip(pairs.tolist(), p.tolist(), strict=True)}

        def beats(a, b, shown=shown):
            both = [{"win": shown[pair], "loss": 1 - shown[pair]} for pair in ((a, b), (b, a))]
            return trustjudge(*both) == "win"

        cycles = 0
        for a in range(6):
            for b in range(a):
                for c in range(b):
                    cycles += beats(a, b) == beats(b, c) == beats(c, a)
        assert intransitive_triples(6, pairs, p) == (cycles, 20)
