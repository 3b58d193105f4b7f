"""ZEPO's search: rounds of rewording, from the fairest instruction so far, judged by choices."""

from __future__ import annotations

import re

import numpy as np
import pytest
from doubles import Double
from simulated import DIMENSION, Simulated, benchmark_of, quality_of

from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.records import Completion, LabelReading

MADE = benchmark_of(np.random.default_rng(3).standard_normal((10, 6)))


class Rewriter(Double):
    """Rewords "number N" to "number N + 1"; from no number, to number 1. Keeps what it was given."""

    fingerprint = "rewriter/1"

    def __init__(self):
        self.given = []

    def write(self, prompts, sampling):
        (prompt,) = prompts
        found = re.search(r"number (\d+)", prompt.text)
        number = int(found[1]) if found else 0
        self.given.append((number, sampling.seed, sampling.max_tokens))
        words = f"On {{{{dimension}}}}, take Story A or Story B? This is number {number + 1}, {sampling.seed % 3}."
        return [Completion(text=words)]


def bias_of(text):
    """The judge is less biased by an instruction of a higher number, and least by number 3."""
    found = re.search(r"number (\d+)", text)
    return 2.5 - 0.7 * min(int(found[1]), 3) if found else 2.5


def search(judge, **options):
    writer = Rewriter()
    given = {f"zepo.{name}": str(value) for name, value in options.items()}
    settings = MethodSettings(writer=lambda: writer, options=given)
    (run,) = run_methods(["zepo"], MADE, [DIMENSION], lambda: judge, settings)
    return writer, run


def test_each_round_rewords_the_fairest_so_far():
    writer, run = search(Simulated(bias_of=bias_of), rewrites=2, rounds=4)
    # the template has no number; the fairest of a round is the next number until 3; 4 is as fair, and 3 came first
    assert [number for number, _, _ in writer.given] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len({seed for _, seed, _ in writer.given}) == 8
    assert {limit for _, _, limit in writer.given} == {256}
    (note,) = run.result.notes
    # the template, 4 shipped ones, then two of number 1, of 2 and of 3: the first of number 3 is instruction 9
    assert note.startswith("worth: instruction 9 of 0-12, |P(first) - 1/2| 0.")
    assert run.result.method.signature.endswith("|zepo:32x2of5+2x4")
    # 13 instructions with 32 pairs in both orders each, and then all pairs of ten contexts of six
    assert run.result.judgments == 13 * 64 + 10 * 30


def test_five_rounds_unless_told_otherwise_and_none_without_rewrites():
    writer, _ = search(Simulated(bias_of=bias_of), rewrites=1)
    assert len(writer.given) == 5
    writer, _ = search(Simulated(bias_of=bias_of))
    assert writer.given == []


def test_a_search_ends_where_no_instruction_could_be_fairer():
    writer, run = search(
        Simulated(sharpness=0.0), rewrites=3
    )  # every comparison is a tie: P(first) = 1/2
    assert writer.given == []
    assert run.result.notes[0].startswith(
        "worth: instruction 0 of 0-4, |P(first) - 1/2| 0.000, 0.000"
    )


def test_a_judge_without_position_bias_is_exactly_fair():
    # both orders of a pair choose the same text, whichever it is: P(first) = 1/2 for any pairs that are drawn
    _, run = search(Simulated(sharpness=5.0))
    assert run.result.notes == (
        "worth: instruction 0 of 0-4, |P(first) - 1/2| 0.000, 0.000, 0.000, 0.000, 0.000",
    )


def test_a_pair_counts_only_where_both_orders_were_read():
    # The first is the better one in all that can be read, which says nothing about a preference for the position.
    def unparsed(first, second):
        return quality_of(first) < quality_of(second)

    _, run = search(Simulated(sharpness=5.0, unparsed=unparsed))
    assert (
        "worth: no pair was read in both orders with any instruction; the template's own is used"
        in run.result.notes
    )


def test_fairness_is_of_choices_and_not_of_probabilities():
    """Of 2406.11370, section 3: P(first) is the share of choices.

    With the template the first is always chosen, with p = 0.51: the mean p is near 1/2, the choices are not. With any
    other instruction the better one is chosen, surely.
    """

    class Judge(Simulated):
        def read_labels(self, prompts, labels):
            if "number" not in prompts[0].text:
                return [
                    LabelReading(logprobs=(np.log(0.51), np.log(0.49)), mass=1.0) for _ in prompts
                ]
            return super().read_labels(prompts, labels)

    _, run = search(Judge(sharpness=9.0), rewrites=1, rounds=1)
    assert run.result.notes[0].startswith(
        "worth: instruction 5 of 0-5, |P(first) - 1/2| 0.500, 0.500,"
    )


def test_rounds_and_the_rest_must_be_numbers():
    with pytest.raises(
        ValueError,
        match=r"zepo\.pairs=32, zepo\.rewrites=1, zepo\.rounds=0: at least 1 pair, no less",
    ):
        search(Simulated(), rewrites=1, rounds=0)
