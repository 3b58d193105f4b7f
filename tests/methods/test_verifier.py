"""The method verifier against a naive loop over hand-made label probabilities."""

from __future__ import annotations

import json
import math
import string
import zlib
from dataclasses import replace

import numpy as np
import pytest
from doubles import Double

from refladder.backends import connect
from refladder.backends.dry_run import DryRunBackend
from refladder.errors import DataError, LabelsUnavailableError
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import rehearse_methods, run_methods
from refladder.prompts import load_template
from refladder.records import LabelReading

LETTERS = string.ascii_uppercase[:20]  # A is the best


@pytest.fixture(scope="module")
def dialogues():
    whole = load_benchmark("demo/dialogue")
    kept = {context.id for context in whole.contexts[:2]}
    outputs = [output for output in whole.outputs if output.context_id in kept]
    # The first context has three outputs, the second all of its own.
    outputs = [output for output in outputs if output.context_id != whole.contexts[0].id][
        :4
    ] + outputs[:3]
    return replace(whole, contexts=whole.contexts[:2], outputs=tuple(outputs), ratings=())


def shares(dimension, first, second, place):
    """Probabilities of the letters, which add to .9, for one question."""
    weights = (
        np.random.default_rng(zlib.crc32(f"{dimension}|{first}|{second}|{place}".encode())).random(
            20
        )
        ** 4
    )
    return {
        letter: 0.9 * weight / weights.sum()
        for letter, weight in zip(LETTERS, weights.tolist(), strict=True)
    }


class ByHand(Double):
    """Answers by `shares`; the grade of `unparsed`, shown second, cannot be read."""

    def __init__(self, unparsed=None):
        self.unparsed = unparsed
        self.asked = 0

    def read_labels(self, prompts, labels):
        self.asked += len(prompts)
        return [self._read(prompt.slots, labels) for prompt in prompts]

    def _read(self, slots, labels):
        if slots["place"] == "2" and slots["second"] == self.unparsed:
            return LabelReading(logprobs=None, mass=None, reason="no letter in the answer")
        found = shares(slots["dimension"], slots["first"], slots["second"], slots["place"])
        return LabelReading(logprobs=tuple(math.log(found[label]) for label in labels), mass=0.9)


def one(benchmark, backend, **settings):
    return run_methods(
        ["verifier"], benchmark, benchmark.dimensions, lambda: backend, MethodSettings(**settings)
    )[0]


def value(dimension, first, second, place):
    """The paper's reward: the sum of p(letter) times its value, A = 20 to T = 1, moved to 0..1."""
    found = shares(dimension.name, first.text, second.text, place)
    total = sum(found.values())
    return (
        sum((20 - LETTERS.index(letter)) * share / total for letter, share in found.items()) - 1
    ) / 19


@pytest.mark.parametrize("lost", [False, True])
def test_the_score_is_the_mean_expected_grade_of_all_pairs_in_both_orders(dialogues, lost):
    last = dialogues.outputs[-1]
    judge = ByHand(last.text if lost else None)
    run = one(dialogues, judge)
    questions, unparsed = 0, 0
    for dimension in dialogues.dimensions:
        for output in dialogues.outputs:
            others = [
                other
                for other in dialogues.outputs
                if other.context_id == output.context_id and other != output
            ]
            grades = []
            for other in others:
                grades.append(value(dimension, output, other, 1))
                questions += 2
                if lost and output == last:
                    unparsed += 1
                else:
                    grades.append(value(dimension, other, output, 2))
            expected = dimension.low + (dimension.high - dimension.low) * sum(grades) / len(grades)
            assert run.result.method.scores[output.id, dimension.name] == pytest.approx(
                expected, abs=1e-12
            )
    assert judge.asked == run.result.judgments == run.calls == questions
    assert run.result.unparsed == unparsed == (2 * len(dialogues.dimensions) if lost else 0)
    assert run.result.notes == (
        (f"{unparsed} x unparsed: no letter in the answer",) if lost else ()
    )


# Probabilities of the letters, and the number that the authors' program makes of them: `extract_score` of llm-verifier
# 0.3.0 (PyPI), given each letter with a space before it after `<score_A>`.
RECORDED = (
    (
        {letter: 0.8 * 0.5**rank / (2 - 0.5**19) for rank, letter in enumerate(LETTERS)},
        0.9473694249212903,
    ),
    (
        {letter: (7 * rank % 20 + 1) / 300 for rank, letter in enumerate(LETTERS)},
        0.4385964912280701,
    ),
)
PREFERRED = 0.6245187774580733  # `bradley_terry` of its two numbers


def test_the_numbers_are_those_of_the_authors_program_on_the_same_answers(dialogues):
    class Recorded(ByHand):
        def _read(self, slots, labels):
            found, _ = RECORDED[int(slots["place"]) - 1]
            return LabelReading(
                logprobs=tuple(math.log(found[label]) for label in labels), mass=sum(found.values())
            )

    result = one(dialogues, Recorded()).result
    low, high = dialogues.dimensions[0].low, dialogues.dimensions[0].high
    mean = (RECORDED[0][1] + RECORDED[1][1]) / 2  # each text is shown first as often as second
    assert list(result.method.scores.values()) == pytest.approx(
        [low + (high - low) * mean] * len(dialogues.outputs)
    )
    assert len(dialogues.dimensions) == 1
    for compared in result.comparisons:
        assert compared.probabilities.tolist() == pytest.approx(
            [PREFERRED] * len(compared.pairs), abs=1e-12
        )


def test_pairs_are_preferences_by_the_difference_of_the_two_grades(dialogues):
    last = dialogues.outputs[-1]
    for compared in one(dialogues, ByHand(last.text)).result.comparisons:
        assert len(compared.pairs) == len(compared.outputs) * (len(compared.outputs) - 1)
        for (first, second), found in zip(
            compared.pairs.tolist(), compared.probabilities.tolist(), strict=True
        ):
            both = compared.outputs[first], compared.outputs[second]
            gap = value(compared.dimension, *both, 1) - value(compared.dimension, *both, 2)
            expected = math.nan if both[1] == last else 1 / (1 + math.exp(-gap))
            assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_an_output_without_a_readable_grade_or_without_another_output_has_no_score(dialogues):
    class Mute(Double):
        def read_labels(self, prompts, _labels):
            return [LabelReading(logprobs=None, mass=None, reason="cut") for _ in prompts]

    result = one(dialogues, Mute()).result
    assert result.unparsed == result.judgments > 0
    assert set(result.method.scores.values()) == {None}
    alone = replace(
        dialogues, outputs=dialogues.outputs[:5]
    )  # four of the second context, one of the first
    scores = one(alone, ByHand()).result.method.scores
    assert {key[0] for key, score in scores.items() if score is None} == {alone.outputs[4].id}


def test_judgments_are_kept_and_a_run_that_was_cut_off_goes_on(dialogues, tmp_path):
    whole = one(dialogues, connect("builtin"), work=tmp_path)
    file = tmp_path / "verifier.judgments.jsonl"
    kept = file.read_bytes()
    lines = kept.splitlines(keepends=True)
    graded = json.loads(lines[1])
    assert graded["outcomes"] == [str(grade) for grade in range(1, 21)]
    assert (graded["subject"], graded["against"]) == tuple(
        output.id for output in dialogues.outputs[4:6]
    )
    file.write_bytes(
        b"".join(lines[:4]) + lines[4][:20]
    )  # the run's line, three judgments and a torn one
    resumed = one(dialogues, connect("builtin"), work=tmp_path)
    assert resumed.result.reused == 3
    assert resumed.calls == whole.calls - 3
    assert resumed.result.method == whole.result.method
    assert file.read_bytes() == kept
    changed = {**graded, "outcomes": ["win", "loss"], "logprobs": [-1.0, -1.0]}
    file.write_bytes(lines[0] + json.dumps(changed).encode() + b"\n")
    with pytest.raises(
        DataError,
        match=r":2: outcomes 'win, loss', and .* between 1, 2, \.\.\., 100, text; correct",
    ):
        one(dialogues, connect("builtin"), work=tmp_path)


def test_a_dry_run_counts_what_the_run_asks_and_a_budget_asks_less(dialogues):
    for settings, pairs in (({}, 4 * 3 + 3 * 2), ({"budget": 2, "selection": "random"}, 2 * 2)):
        judge = DryRunBackend(connect("builtin"))
        rehearse_methods(
            ["verifier"],
            dialogues,
            dialogues.dimensions,
            lambda judge=judge: judge,
            MethodSettings(**settings),
        )
        run = one(dialogues, connect("builtin"), **settings)
        assert judge.estimate().usage.prompts == run.calls == 2 * pairs * len(dialogues.dimensions)


def test_a_judge_without_probabilities_draws_answers(dialogues):
    class Silent(Double):
        def read_labels(self, _prompts, _labels):
            raise LabelsUnavailableError("this endpoint gives no log-probabilities")

    result = one(dialogues, Silent()).result
    assert result.method is None
    assert (
        result.skipped
        == "this endpoint gives no log-probabilities; to count drawn answers, pass --answers 20"
    )


def test_a_is_the_best_letter():
    labels = load_template("dialogue", "verifier").labels
    assert labels == {str(20 - place): letter for place, letter in enumerate(LETTERS)}
