"""Simulated judges of known quality, noise and bias: what the papers say about methods appears, end to end."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from simulated import DIMENSION, Simulated, benchmark_of

from refladder.evaluation.evaluate import Protocol, agreement
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.records import Completion

MADE = benchmark_of(np.random.default_rng(2).standard_normal((20, 8)))


class Answering(Simulated):
    """Writes answers with the probabilities that it reads, a draw for each question and seed."""

    def write(self, prompts, sampling):
        found = []
        for prompt in prompts:
            words = f"{sampling.seed}|{prompt.slots['context']}|{prompt.slots['first']}|{prompt.slots['second']}"
            digest = hashlib.blake2b(words.encode(), digest_size=8).digest()
            draw = int.from_bytes(digest, "big") / 2**64
            wins = draw < 1 / (1 + math.exp(-self._gap(prompt)))
            found.append(Completion(text=prompt.labels[0 if wins else 1]))
        return found


def agreements(judge, *names, benchmark=MADE, **settings):
    """Mean Spearman within contexts of each method."""
    runs = run_methods(names, benchmark, [DIMENSION], lambda: judge, MethodSettings(**settings))
    protocol = Protocol(levels=["within_context"], statistics=["spearman"], resamples=1)
    rows = agreement(benchmark, [DIMENSION], [run.result.method for run in runs], protocol)
    return [
        next(row.value for row in rows if (row.method, row.dimension) == (name, "worth"))
        for name in names
    ]


def test_more_sampled_answers_rise_towards_log_probabilities():
    # 2509.05440, table 3; 2307.07889, equation 5; above 25 answers what is left is less than twenty contexts can tell
    judge = Answering(noise=0.3, sharpness=1.5)
    six = benchmark_of(np.random.default_rng(2).standard_normal((20, 6)))
    exact, *values = (
        agreements(judge, "mean-probability", benchmark=six, answers=n)[0] for n in (0, 1, 5, 25)
    )
    assert values == sorted(values)
    assert values[0] < exact - 0.03
    assert values[-1] == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("budget", [16, 28])
def test_a_biased_judge_puts_debiased_methods_ahead(budget):
    # 2307.07889, section 5.3 and figure 4
    judge = Simulated(first=2.0, noise=0.5, sharpness=1.5)
    random = {"budget": budget, "selection": "random"}
    for name in ("win-ratio", "mean-probability"):
        plain, debiased = agreements(judge, name, f"{name}-debiased", **random)
        assert debiased > plain + 0.05
        (symmetric,) = agreements(judge, name, budget=budget, selection="symmetric")
        assert symmetric > plain


def test_without_a_bias_debiasing_costs_little():
    judge = Simulated(noise=0.5, sharpness=1.5)
    plain, debiased = agreements(
        judge, "win-ratio", "win-ratio-debiased", budget=28, selection="no-repeat"
    )
    assert debiased == pytest.approx(plain, abs=0.03)


def test_models_of_comparisons_need_fewer_of_them_than_counting_wins():
    # 2405.05894: with a part of the pairs, it matters who was beaten
    judge = Simulated(noise=0.5, sharpness=1.5)
    wins, strengths, experts = agreements(
        judge, "win-ratio", "bradley-terry", "poe", budget=20, selection="no-repeat"
    )
    assert min(strengths, experts) > wins + 0.02


def test_ties_carry_no_order():
    made = benchmark_of(np.repeat(np.arange(4.0), 2)[None].repeat(5, axis=0))  # every quality twice
    for name in ("win-ratio", "bradley-terry", "poe", "likelihood", "pairs-greedy"):
        (run,) = run_methods([name], made, [DIMENSION], Simulated, MethodSettings())
        scores = run.result.method.scores
        for context in made.contexts:
            own = [scores[f"{context.id}/s{column}", "worth"] for column in range(8)]
            assert own[::2] == pytest.approx(own[1::2])
            assert own[::2] == sorted(own[::2])
            assert len(set(own[::2])) == 4
