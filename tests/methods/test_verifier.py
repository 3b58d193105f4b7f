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
from small_benchmarks import run_method

from refladder.backends import connect
from refladder.errors import DataError
from refladder.prompts import load_template
from refladder.records import LabelReading

LETTERS = string.ascii_uppercase[:20]  # A is the best


@pytest.fixture
def uneven(dialogues):
    """Two contexts; the second has four outputs, which come first, the first has three."""
    first, second = dialogues.contexts[:2]
    of_second = [output for output in dialogues.outputs if output.context_id == second.id]
    of_first = [output for output in dialogues.outputs if output.context_id == first.id]
    outputs = (*of_second[:4], *of_first[:3])
    return replace(dialogues, contexts=(first, second), outputs=outputs)


def shares(dimension, first, second, place):
    """Probabilities of the letters, which add to .9, for one question."""
    seed = zlib.crc32(f"{dimension}|{first}|{second}|{place}".encode())
    weights = np.random.default_rng(seed).random(20) ** 4
    return dict(zip(LETTERS, (0.9 * weights / weights.sum()).tolist(), strict=True))


class ByHand(Double):
    """Answers by `shares`; the grade of `unparsed`, shown second, cannot be read."""

    def __init__(self, unparsed=None):
        self.unparsed = unparsed
        self.asked = 0

    def read_labels(self, prompts, labels):
        self.asked += len(prompts)
        return [self._read(prompt.slots, labels) for prompt in prompts]

    def _read(self, slots, labels):
        if self.unparsed == "all" or (slots["place"], slots["second"]) == ("2", self.unparsed):
            return LabelReading(logprobs=None, mass=None, reason="no letter in the answer")
        found = self.shares(slots)
        logprobs = tuple(math.log(found[label]) for label in labels)
        return LabelReading(logprobs=logprobs, mass=sum(found.values()))

    def shares(self, slots):
        return shares(slots["dimension"], slots["first"], slots["second"], slots["place"])


def value(dimension, first, second, place):
    """The paper's reward: the sum of p(letter) times its value, A = 20 to T = 1, moved to 0..1."""
    found = shares(dimension.name, first.text, second.text, place)
    weighed = sum((20 - LETTERS.index(letter)) * share for letter, share in found.items())
    return (weighed / sum(found.values()) - 1) / 19


@pytest.mark.parametrize("lost", [False, True])
def test_the_score_is_the_mean_expected_grade_of_all_pairs_in_both_orders(uneven, lost):
    last = uneven.outputs[-1]
    judge = ByHand(last.text if lost else None)
    run = run_method("verifier", uneven, judge)
    questions = 0
    for dimension in uneven.dimensions:
        for output in uneven.outputs:
            grades = []
            for other in uneven.outputs:
                if other.context_id == output.context_id and other != output:
                    questions += 2
                    grades.append(value(dimension, output, other, 1))
                    if not lost or output != last:
                        grades.append(value(dimension, other, output, 2))
            mean = sum(grades) / len(grades)
            expected = dimension.low + (dimension.high - dimension.low) * mean
            score = run.result.method.scores[output.id, dimension.name]
            assert score == pytest.approx(expected, abs=1e-12)
    assert judge.asked == run.result.judgments == run.calls == questions
    unparsed = 2 * len(uneven.dimensions) if lost else 0
    assert run.result.unparsed == unparsed
    assert run.result.notes == (f"{unparsed} x unparsed: no letter in the answer",) * lost


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


def test_the_numbers_are_those_of_the_authors_program_on_the_same_answers(uneven):
    class Recorded(ByHand):
        def shares(self, slots):
            return RECORDED[int(slots["place"]) - 1][0]

    result = run_method("verifier", uneven, Recorded()).result
    (dimension,) = uneven.dimensions
    mean = (RECORDED[0][1] + RECORDED[1][1]) / 2  # each text is shown first as often as second
    expected = dimension.low + (dimension.high - dimension.low) * mean
    assert list(result.method.scores.values()) == pytest.approx([expected] * len(uneven.outputs))
    for compared in result.comparisons:
        chances = compared.probabilities.tolist()
        assert chances == pytest.approx([PREFERRED] * len(compared.pairs), abs=1e-12)


def test_pairs_are_preferences_by_the_difference_of_the_two_grades(uneven):
    last = uneven.outputs[-1]
    for compared in run_method("verifier", uneven, ByHand(last.text)).result.comparisons:
        assert len(compared.pairs) == len(compared.outputs) * (len(compared.outputs) - 1)
        for (first, second), found in zip(compared.pairs, compared.probabilities, strict=True):
            both = compared.outputs[first], compared.outputs[second]
            gap = value(compared.dimension, *both, 1) - value(compared.dimension, *both, 2)
            expected = math.nan if both[1] == last else 1 / (1 + math.exp(-gap))
            assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_an_output_without_a_parsed_grade_or_without_another_output_has_no_score(uneven):
    result = run_method("verifier", uneven, ByHand("all")).result
    assert result.unparsed == result.judgments > 0
    assert set(result.method.scores.values()) == {None}
    # four of the second context, one of the first
    alone = replace(uneven, outputs=uneven.outputs[:5])
    scores = run_method("verifier", alone, ByHand()).result.method.scores
    assert {key[0] for key, score in scores.items() if score is None} == {alone.outputs[4].id}


def test_judgments_are_kept_and_read_again(uneven, tmp_path):
    run_method("verifier", uneven, connect("builtin"), work=tmp_path)
    file = tmp_path / "verifier.judgments.jsonl"
    first, second, *_ = file.read_bytes().splitlines(keepends=True)
    graded = json.loads(second)
    assert graded["outcomes"] == [str(grade) for grade in range(1, 21)]
    pair = uneven.outputs[4:6]
    assert (graded["subject"], graded["against"]) == (pair[0].id, pair[1].id)
    changed = {**graded, "outcomes": ["win", "loss"], "logprobs": [-1.0, -1.0]}
    file.write_bytes(first + json.dumps(changed).encode() + b"\n")
    message = (
        r":2: outcomes 'win, loss', and .* between 1, 2, \.\.\., 100, text, in this order; correct"
    )
    with pytest.raises(DataError, match=message):
        run_method("verifier", uneven, connect("builtin"), work=tmp_path)


def test_a_is_the_best_letter():
    labels = load_template("dialogue", "verifier").labels
    assert labels == {str(20 - place): letter for place, letter in enumerate(LETTERS)}
