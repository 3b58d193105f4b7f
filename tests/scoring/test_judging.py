from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from doubles import Double, asker

from refladder.backends.scripted import Rule, Scripted
from refladder.errors import BackendError, UsageError
from refladder.prompts import load_template
from refladder.records import (
    Context,
    Dimension,
    Judgment,
    LabelReading,
    Ladder,
    Output,
    Recipe,
    Rung,
)
from refladder.scoring.asker import inconsistency, trusted, verdicts
from refladder.scoring.question import ladder_questions, rung_id

CONTEXT = Context(id="c1", task="story", text="A keeper finds a bottle.")
COHERENCE = Dimension(name="coherence", description="It hangs together.")
OUTPUT = Output(id="o1", context_id="c1", system="s", text="Marit found a bottle.")


def ladder_of(*texts):
    recipe = Recipe(backend="test", prompts=(), sampling=None, version="0")
    rungs = tuple(Rung(level=level, text=text) for level, text in enumerate(texts, start=1))
    return Ladder(context_id="c1", task="story", dimension="coherence", rungs=rungs, recipe=recipe)


LADDER = ladder_of("Rain.", "Rain fell on the bottle.")


def asked(output=OUTPUT, *, orders=1, context=CONTEXT, dimension=COHERENCE, ladder=LADDER):
    return list(ladder_questions(output, context, dimension, ladder, orders=orders))


def probabilities(win, loss, tie):
    return {"win": math.log(win), "loss": math.log(loss), "tie": math.log(tie)}


def reading(subject, against, logprobs, outcomes=("win", "loss", "tie")):
    return Judgment(
        context_id="c1",
        dimension="coherence",
        subject=subject,
        against=against,
        outcomes=outcomes,
        logprobs=None if logprobs is None else tuple(map(math.log, logprobs)),
        mass=1.0,
        key="k",
        recipe="r",
    )


def test_the_canonical_order_of_questions():
    pairs = [(one.comparison.subject, one.comparison.against) for one in asked(orders=2)]
    assert pairs == [("o1", "rung:1"), ("rung:1", "o1"), ("o1", "rung:2"), ("rung:2", "o1")]
    texts = [(one.texts["reference"], one.texts["target"]) for one in asked(orders=2)]
    assert texts[:2] == [("Rain.", OUTPUT.text), (OUTPUT.text, "Rain.")]
    assert [one.key for one in asked()] == [one.key for one in asked(orders=2)[::2]]
    assert rung_id(3) == "rung:3"


def test_the_key_is_a_digest_of_the_shown_texts_and_their_lengths():
    context = Context(id="c1", task="story", text="Über Wien.", background="b")
    for question in asked(context=context, orders=2):
        state = hashlib.blake2b(digest_size=8)
        shown = ("Über Wien.", "b", COHERENCE.name, COHERENCE.description, *question.texts.values())
        for text in shown:
            state.update(str(len(text.encode())).encode() + b":" + text.encode())
        assert question.key == state.hexdigest()


def test_the_key_changes_with_every_text_that_is_shown():
    usual = asked()[0].key
    changed = [
        asked(Output(id="o1", context_id="c1", system="s", text="Marit found a bottle!")),
        asked(context=Context(id="c1", task="story", text="A keeper finds a boat.")),
        asked(context=Context(id="c1", task="story", text=CONTEXT.text, background="x")),
        asked(dimension=Dimension(name="coherence", description="It hangs together!")),
        asked(ladder=ladder_of("Rain!", "y")),
    ]
    assert len({usual, *(one[0].key for one in changed)}) == 6
    # the id alone is not shown
    assert asked(Output(id="o2", context_id="c1", system="s", text=OUTPUT.text))[0].key == usual
    # moving a letter from one text to the other is another question
    assert (
        asked(Output(id="o", context_id="c1", system="", text="ab"), ladder=ladder_of("c", "d"))[
            0
        ].key
        != asked(Output(id="o", context_id="c1", system="", text="a"), ladder=ladder_of("bc", "d"))[
            0
        ].key
    )


def test_an_unreadable_prompt_is_kept_with_its_reason():
    backend = Scripted(
        [
            Rule(contains={"reference": "Rain."}, error="HTTP 503"),
            Rule(answer=probabilities(0.5, 0.25, 0.25)),
        ]
    )
    found = asker(backend, load_template("story", "compare")).ask(asked())
    assert (found[0].logprobs, found[0].mass, found[0].note) == (None, None, "HTTP 503")
    assert found[1].logprobs == tuple(map(math.log, (0.5, 0.25, 0.25)))
    assert found[1].mass == pytest.approx(1.0)
    values = verdicts(found, 2, 1)
    assert np.isnan(values[0, 0]).all()
    assert values[0, 1] == pytest.approx([0.5, 0.25, 0.25])


def test_yes_and_no_by_hand():
    """Three questions; each outcome weighs p(yes) / (p(yes) + p(no)), and the weights are made to sum to 1."""

    class Answers(Double):
        fingerprint = "answers"

        def read_labels(self, prompts, labels):
            # better? yes .6 no .2 -> 3/4; worse? yes .1 no .4 -> 1/5; similar? yes .15 no .45 -> 1/4
            said = {"win": (0.6, 0.2), "loss": (0.1, 0.4), "tie": (0.15, 0.45)}
            order = {label.lower(): place for place, label in enumerate(labels)}
            rows = []
            for prompt in prompts:
                yes, no = said[prompt.claim]
                values = [0.0, 0.0]
                values[order["yes"]], values[order["no"]] = math.log(yes), math.log(no)
                rows.append(LabelReading(logprobs=tuple(values), mass=yes + no))
            return rows

    found = asker(Answers(), load_template("story", "compare-yesno")).ask(asked()[:1])
    assert found[0].outcomes == ("win", "loss", "tie")
    assert [math.exp(value) for value in found[0].logprobs] == pytest.approx(
        [0.75, 0.2, 0.25], abs=1e-12
    )
    assert found[0].mass == pytest.approx(0.5)  # the worst read of .8, .5 and .6
    # 3/4, 1/5 and 1/4 add to 1.2: 5/8, 1/6, 5/24
    assert verdicts(found, 1, 1)[0, 0] == pytest.approx([5 / 8, 1 / 6, 5 / 24], abs=1e-12)


def test_a_note_on_one_of_the_yes_no_questions_is_kept():
    class Cut(Double):
        fingerprint = "cut"

        def read_labels(self, prompts, labels):
            notes = [None, "the context was cut from 9 to 5 characters to fit", "a later note"]
            uniform = tuple(math.log(1 / len(labels)) for _ in labels)
            return [
                LabelReading(logprobs=uniform, mass=1.0, note=notes[number], cut=number == 1)
                for number in range(len(prompts))
            ]

    found = asker(Cut(), load_template("story", "compare-yesno")).ask(asked()[:1])
    assert found[0].logprobs is not None
    assert found[0].note == "the context was cut from 9 to 5 characters to fit"
    assert found[0].cut


def test_both_orders_are_averaged_seen_from_the_output():
    # Reference first: win .6 loss .3 tie .1. Swapped, the verdict is about the rung: win .2 loss .5 tie .3, which seen
    # from the output is win .5 loss .2 tie .3. The mean: .55 .25 .2
    pair = [reading("o1", "rung:1", (0.6, 0.3, 0.1)), reading("rung:1", "o1", (0.2, 0.5, 0.3))]
    assert verdicts(pair, 1, 2)[0, 0] == pytest.approx([0.55, 0.25, 0.2], abs=1e-12)
    half = [pair[0], reading("rung:1", "o1", None)]
    assert np.isnan(verdicts(half, 1, 2)).all()


def test_outcomes_may_stand_in_any_order():
    turned = [reading("o1", "rung:1", (0.1, 0.6, 0.3), outcomes=("tie", "win", "loss"))]
    assert verdicts(turned, 1, 1)[0, 0] == pytest.approx([0.6, 0.3, 0.1], abs=1e-12)


def test_inconsistency_by_hand():
    pairs = [
        # win, and swapped the rung loses: the same verdict
        (reading("o1", "rung:1", (0.6, 0.3, 0.1)), reading("rung:1", "o1", (0.2, 0.5, 0.3))),
        # win, and swapped the rung wins: they disagree
        (reading("o1", "rung:2", (0.6, 0.3, 0.1)), reading("rung:2", "o1", (0.7, 0.2, 0.1))),
        # tie both times
        (reading("o1", "rung:3", (0.1, 0.3, 0.6)), reading("rung:3", "o1", (0.3, 0.1, 0.6))),
        # loss, and swapped a tie: they disagree
        (reading("o1", "rung:4", (0.1, 0.6, 0.3)), reading("rung:4", "o1", (0.3, 0.1, 0.6))),
        # not readable: not counted
        (reading("o1", "rung:5", None), reading("rung:5", "o1", (0.3, 0.1, 0.6))),
    ]
    assert inconsistency([one for pair in pairs for one in pair]) == (2, 4)


class Broken(Double):
    fingerprint = "broken/1"

    def __init__(self, readings):
        self.readings = readings

    def read_labels(self, prompts, _labels):
        return self.readings[: len(prompts)]


def test_a_judge_that_breaks_its_contract_is_named():
    template = load_template("story", "compare")
    with pytest.raises(BackendError, match="broken/1 gave 1 answer for 2 prompts;"):
        asker(Broken([LabelReading(logprobs=(0.0, 0.0, 0.0), mass=1.0)]), template).ask(asked())
    message = "the judge gave 2 log-probabilities for the 3 labels .*; test it with refladder.testing.check_backend"
    with pytest.raises(BackendError, match=message):
        asker(Broken([LabelReading(logprobs=(0.0, 0.0), mass=1.0)] * 2), template).ask(asked())


def test_log_probabilities_that_are_not_finite_are_no_reading():
    readings = [LabelReading(logprobs=(0.0, -math.inf, -1.0), mass=1.0)] * 2
    found = asker(Broken(readings), load_template("story", "compare")).ask(asked())
    assert found[0].logprobs is None
    assert (
        found[0].note == "the judge gave log-probabilities that are not finite: (0.0, -inf, -1.0)"
    )


@pytest.mark.parametrize("role", ["compare", "compare-yesno"])
def test_impossible_probabilities_of_a_judge_are_no_reading(role):
    template = load_template("story", role)
    values = (5.0, -1.0, -1.0)[: len(template.labels)]
    found = asker(Broken([LabelReading(logprobs=values, mass=1.0)] * 6), template).ask(asked())
    assert {(one.logprobs, one.note) for one in found} == {
        (None, "the judge gave a log-probability of 5, above 0")
    }
    found = asker(
        Broken([LabelReading(logprobs=(-1.2,) * len(values), mass=7.0)] * 6), template
    ).ask(asked())
    assert found[0].note == "the judge gave a label mass of 7, which is not between 0 and 1"


def test_nothing_asked_is_nothing_answered():
    assert asker(Broken([]), load_template("story", "compare")).ask([]) == []


@pytest.mark.parametrize("least_mass", [-0.1, 1.5, math.nan])
def test_a_least_mass_that_is_no_probability_is_refused(least_mass):
    with pytest.raises(
        UsageError, match=r"^least label mass \S+: a probability from 0 to 1 is needed"
    ):
        trusted([], least_mass)
