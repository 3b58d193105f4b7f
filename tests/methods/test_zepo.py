"""ZEPO's search: rounds of rewording, from the fairest instruction so far, judged by choices."""

from __future__ import annotations

import re

import numpy as np
import pytest
from doubles import Double
from refusals import refuses
from simulated import DIMENSION, Simulated, benchmark_of, quality_of

from refladder.backends import connect
from refladder.errors import DataError, PromptError, UsageError
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.methods.zepo import INSTRUCTIONS, rewritten
from refladder.prompts import load_template, text_of, with_text
from refladder.records import Completion, LabelReading

MADE = benchmark_of(np.random.default_rng(3).standard_normal((10, 6)))


class Writer(Double):
    """Writes a completion by the seed."""

    fingerprint = "writer/1"

    def __init__(self, *completions):
        self.completions = completions

    def write(self, _prompts, sampling):
        return [self.completions[sampling.seed % len(self.completions)]]


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
        words = f"This is number {number + 1}, {sampling.seed % 3}."
        return [Completion(text=f"On {{{{dimension}}}}, take Story A or Story B? {words}")]


def bias_of(text):
    """The judge is less biased by an instruction of a higher number, and least by number 3."""
    found = re.search(r"number (\d+)", text)
    return 2.5 - 0.7 * min(int(found[1]), 3) if found else 2.5


def run(judge, *, benchmark=MADE, writer=None, prompts=None, **options):
    given = {f"zepo.{name}": str(value) for name, value in options.items()}
    settings = MethodSettings(writer=writer and (lambda: writer), options=given, prompts=prompts)
    return run_methods(["zepo"], benchmark, [DIMENSION], lambda: judge, settings)[0].result


def search(judge, **options):
    writer = Rewriter()
    return writer, run(judge, writer=writer, **options)


def test_the_fairest_of_the_shipped_instructions_is_chosen():
    def second_is_fair(text):
        return 0.0 if "whichever of them comes first" in text else 3.0

    result = run(Simulated(noise=0.5, bias_of=second_is_fair))
    assert result.notes[0].startswith("worth: instruction 2 of 0-4, |P(first) - 1/2| 0.")


def test_each_round_rewords_the_fairest_so_far():
    writer, result = search(Simulated(bias_of=bias_of), rewrites=2, rounds=4)
    # the template has no number; the fairest of a round is the next number until 3; 4 is as fair, and 3 came first
    assert [number for number, _, _ in writer.given] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len({seed for _, seed, _ in writer.given}) == 8
    assert {limit for _, _, limit in writer.given} == {256}
    (note,) = result.notes
    # the template, 4 shipped ones, then two of number 1, of 2 and of 3: the first of number 3 is instruction 9
    assert note.startswith("worth: instruction 9 of 0-12, |P(first) - 1/2| 0.")
    assert result.method.signature.endswith("|zepo:32x2of5+2x4")
    # 13 instructions with 32 pairs in both orders each, and then all pairs of ten contexts of six
    assert result.judgments == 13 * 64 + 10 * 30


def test_five_rounds_unless_told_otherwise_and_none_without_rewrites():
    judge = Simulated(bias_of=bias_of)
    assert len(search(judge, rewrites=1)[0].given) == 5
    assert search(judge)[0].given == []


def test_a_search_ends_where_no_instruction_could_be_fairer():
    # every comparison is a tie: P(first) = 1/2
    writer, result = search(Simulated(sharpness=0.0), rewrites=3)
    assert writer.given == []
    assert result.notes[0].startswith("worth: instruction 0 of 0-4, |P(first) - 1/2| 0.000, 0.000")


def test_a_judge_without_position_bias_is_exactly_fair():
    # both orders of a pair choose the same text, whichever it is: P(first) = 1/2 for any pairs that are drawn
    equal = ", ".join(["0.000"] * 5)
    notes = run(Simulated(sharpness=5.0)).notes
    assert notes == (f"worth: instruction 0 of 0-4, |P(first) - 1/2| {equal}",)


@pytest.mark.parametrize(
    "unparsed",
    [
        lambda _first, _second: True,
        # The first is the better one in all that can be read, which says nothing about a preference for the position.
        lambda first, second: quality_of(first) < quality_of(second),
    ],
)
def test_a_pair_counts_only_where_both_orders_were_parsed(unparsed):
    result = run(Simulated(sharpness=5.0, unparsed=unparsed))
    words = "no pair was read in both orders with any instruction; the template's own is used"
    assert f"worth: {words}" in result.notes


def test_fairness_is_of_choices_and_not_of_probabilities():
    """Of 2406.11370, section 3: P(first) is the share of choices.

    With the template the first is always chosen, with p = 0.51: the mean p is near 1/2, the choices are not. With any
    other instruction the better one is chosen, surely.
    """

    class Judge(Simulated):
        def read_labels(self, prompts, labels):
            if "number" in prompts[0].text:
                return super().read_labels(prompts, labels)
            reading = LabelReading(logprobs=(np.log(0.51), np.log(0.49)), mass=1.0)
            return [reading] * len(prompts)

    _, result = search(Judge(sharpness=9.0), rewrites=1, rounds=1)
    words = "worth: instruction 5 of 0-5, |P(first) - 1/2| 0.500, 0.500,"
    assert result.notes[0].startswith(words)


def test_rewrites_that_lose_a_slot_or_a_name_are_counted_and_not_used():
    good = "On {{dimension}}, would you take Story A or Story B?"
    texts = [good, "Which one?", good, "Take Story A for {{dimension}}?"]
    cut = Completion(text="On {{dim", finish="length")
    writer = Writer(*(Completion(text=text) for text in texts), cut)
    made, failed = rewritten(writer, load_template("story", "pairwise"), 5, MethodSettings())
    assert [text_of(template).rpartition("\n\n")[2] for template in made] == [good]
    assert failed == [
        "the instruction never says '{{dimension}}': 'Which one?'",
        "the instruction never says 'Story B': 'Take Story A for {{dimension}}?'",
        "the text was cut",
    ]
    result = run(Simulated(first=2.0), writer=writer, rewrites=5, rounds=2)
    words = "worth: 6 of 10 rewritten instructions cannot be used, e.g. the instruction never"
    assert result.notes[0].startswith(words)


@pytest.mark.parametrize("task", ["story", "summarization", "dialogue", "data-to-text", "open"])
def test_shipped_instructions_fit_every_task(task):
    template = load_template(task, "pairwise")
    assert with_text(template, text_of(template)).literals == template.literals
    result = run(connect("builtin"), benchmark=benchmark_of([[0.0, 1.0, 2.0]], task), pairs=4)
    assert f"0-{len(INSTRUCTIONS)}" in result.notes[0]


def test_instructions_of_the_user(tmp_path):
    path = tmp_path / "instructions.txt"
    path.write_text(
        "Which one, on {{dimension}}: Story A or Story B?\n\nFairly now, {{dimension}}: Story A, Story B?\n"
    )
    judge = Simulated(bias_of=lambda text: 0.0 if "Fairly" in text else 2.0)
    result = run(judge, instructions=path)
    assert result.notes[0].startswith("worth: instruction 2 of 0-2")


def test_a_file_without_instructions_is_refused(tmp_path):
    path = tmp_path / "instructions.txt"

    def refused(error, message, data):
        path.write_bytes(data)
        refuses(error, message, run, Simulated(), instructions=path)

    words = "instruction 1 cannot take the place of the template's: .*dimension"
    refused(PromptError, rf"instructions\.txt: {words}", b"Which one?")
    refused(DataError, "no instructions in this file; write one in each paragraph", b"\n\n")
    refused(DataError, "not UTF-8; save the instructions as UTF-8", b"\xff")


def test_options_are_numbers():
    def refused(message, **options):
        refuses(UsageError, message, run, Simulated(), **options)

    refused(r"zepo\.pairs=some, .*: all must be whole numbers", pairs="some")
    refused(r"zepo\.pairs=0, zepo\.rewrites=0, zepo\.rounds=5: at least 1 pair, no less", pairs=0)
    refused("no less than 0 rewrites, and", rewrites=-1)
    refused("and at least 1 round", rounds=0)


def test_a_template_without_an_instruction_of_its_own_cannot_be_reworded(tmp_path):
    (tmp_path / "story").mkdir()
    (tmp_path / "story" / "pairwise.md").write_text(
        '+++\nslots = ["context", "dimension", "description", "first", "second"]\n\n[labels]\nwin = "One"\n'
        'loss = "Two"\n+++\n{{context}} {{dimension}} {{description}} One {{first}} Two {{second}}'
    )
    message = "zepo rewords the last paragraph of the template, and here it holds a text to compare"
    with pytest.raises(PromptError, match=message):
        run(Simulated(), prompts=tmp_path)
