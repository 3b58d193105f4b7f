"""The contract of modes: all modes keep it, and what breaks it is told."""

import itertools
import re
from dataclasses import replace

import pytest

from refladder.errors import RefladderError, UsageError
from refladder.records import OUTCOMES
from refladder.scoring.modes import MODES, mode_of
from refladder.scoring.modes.ratings import Rating, StatedRating
from refladder.scoring.modes.stated import Stated
from refladder.testing import check_mode

FIVE = "1: 10\n2: 20\n3: 40\n4: 20\n5: 10"


def answer(prompt):
    """What a judge writes in any shipped mode, from the length of the text."""
    slots = prompt.slots
    percent = 20 + len(slots["target"]) % 60
    if "references" in slots:
        letters = re.findall(r"^([A-Z]):$", slots["references"], re.MULTILINE)
        return "\n".join(f"{letter}: {percent}" for letter in letters)
    names = [line.partition(":")[0] for line in slots.get("criteria", "").splitlines()]
    return "\n\n".join(f"{name}\n{FIVE}" for name in names) or FIVE


@pytest.mark.parametrize("name", MODES)
def test_every_mode_keeps_the_contract(name):
    name = name.replace("N", "2").replace("K", "3")
    check_mode(name, answer if mode_of(name).writes else None)


def test_a_mode_that_writes_needs_answers():
    message = r"^mode 'stated:1' lets the judge write; give check_mode a function that answers"
    with pytest.raises(UsageError, match=message):
        check_mode("stated")


def broken(base, **members):
    members.setdefault("name", "broken")
    return type("Broken", (base,), members)()


COUNT = itertools.count()


class Counted(StatedRating):
    """The same judgments have another score each time."""

    name = "broken"

    def numbers(self, readings):
        found = super().numbers(readings)
        found[0]["value"] += 0.001 * next(COUNT)
        return found


class Turned(Stated):
    """The judgments of a text are in another order than its questions."""

    name = "broken"

    def __init__(self):
        self.orders = 1

    def judgments_of_a_text(self, run):
        return super().judgments_of_a_text(run)[::-1]


class Renewed(StatedRating):
    """Every question is another one."""

    name = "broken"

    def question(self, subject, text, *more):
        return super().question(subject, f"{text} {next(COUNT)}", *more)


class Reworded(StatedRating):
    """Every prompt is another one."""

    name = "broken"

    def prompt(self, template, group, order):
        prompt = super().prompt(template, group, order)
        return replace(prompt, slots={**prompt.slots, "context": f"{next(COUNT)}"})


BROKEN = [
    # The fault for which the contract was made: it scores, and its own judgments cannot be read.
    (
        broken(Rating, outcomes=OUTCOMES),
        r", score, a second time: \S+:2: outcomes '1, 2, 3, 4, 5', and this file holds judgments between win, loss, tie",
    ),
    (
        broken(StatedRating, read=lambda *_, **__: "no number"),
        r", score: check_mode/1: no answer of the judge check could be read",
    ),
    (
        broken(StatedRating, read=lambda *_, **__: [[1.0, 0, 0, 0, 0]] * 2),
        r", score: mode 'broken': read gave 2 answers for 1 question; give one for each, or a reason",
    ),
    (
        broken(StatedRating, bounds=lambda *_: (4.0, 5.0)),
        r", score: coherence_score is 3, and bounds gives 4 to 5",
    ),
    (Turned(), r", rescore: \S+: expected "),
    (Renewed(), r", score, a second time: \S+: this judgment is of .* with other texts than"),
    (
        broken(StatedRating, prompts_of_a_row=lambda *_: 1),
        r", dry run: prompts_of_a_row gives 1, and a text takes 2",
    ),
    (
        broken(StatedRating, numbers=lambda *_: 1 / 0),
        r", score: mode 'broken' \(.*\) raised ZeroDivisionError: division by zero",
    ),
    (
        Reworded(),
        ", answers in files: a prompt that was not asked before; equal questions must have equal prompts",
    ),
    (Counted(), r", score, a second time: coherence_score is 3\.\d+, and was 3\.\d+$"),
    (
        broken(StatedRating, signature=lambda *_: f"{next(COUNT)}"),
        r", rescore: the signature is \S*\d, and was ",
    ),
]


@pytest.mark.parametrize(("mode", "message"), BROKEN)
def test_a_mode_that_breaks_the_contract_is_told(mode, message):
    with pytest.raises(RefladderError, match=f"^mode 'broken'{message}"):
        check_mode(mode, answer)
