"""An asker turns what a judge says into judgments, with a reason where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from doubles import Double, asker

from refladder.backends import connect
from refladder.backends.scripted import Rule, Scripted
from refladder.errors import BackendError, UsageError
from refladder.prompts import fill, load_template
from refladder.records import Context, Dimension, LabelReading, Output, Sampling
from refladder.scoring.question import pair_question, question_about
from refladder.scoring.verdicts import first_probabilities

PAIRWISE = load_template("story", "pairwise")
CONTEXT = Context(id="c", task="story", text="A lighthouse that nobody built.")
DIMENSION = Dimension(name="surprise", description="The story takes turns.")
TEXTS = {"a": "The lamp lit itself.", "b": "It was a lighthouse.", "c": "It was a lighthouse."}


def output(name):
    return Output(id=name, context_id="c", system=name, text=TEXTS[name])


def question(first, second):
    return pair_question(CONTEXT, DIMENSION, output(first), output(second))


AB, BA = question("a", "b"), question("b", "a")
RUNG = question_about(
    CONTEXT,
    DIMENSION,
    subject="a",
    against="rung:1",
    texts={"reference": TEXTS["b"], "target": TEXTS["a"]},
)


class Counting(Double):
    """A scripted judge that counts the prompts it is asked."""

    def __init__(self, *rules):
        self.inner = Scripted(rules)
        self.asked = 0
        self.fingerprint = self.inner.fingerprint

    def read_labels(self, prompts, labels):
        self.asked += len(prompts)
        return self.inner.read_labels(prompts, labels)

    def write(self, prompts, sampling):
        self.asked += len(prompts)
        return self.inner.write(prompts, sampling)


class Saying(Double):
    """Gives the reading of a function for the number of a prompt and its labels."""

    fingerprint = "saying/1"

    def __init__(self, answer):
        self.answer = answer

    def read_labels(self, prompts, labels):
        readings = [self.answer(number, labels) for number in range(len(prompts))]
        return [reading for reading in readings if reading is not None]

    def write(self, _prompts, _sampling):
        return []


OTHER = Rule(answer={"win": math.log(0.2), "loss": math.log(0.2)})


def ask(judge, *questions, role="pairwise", **options):
    return asker(judge, load_template("story", role), **options).ask(questions or [AB])


def sampled(answers, *rules):
    return ask(Counting(*rules), answers=answers, sampling=Sampling(seed=0))[0]


def test_judgments_are_in_the_order_of_questions_and_say_why_they_are_unread():
    judge = Counting(Rule(contains={"first": "lamp"}, error="HTTP 503"), OTHER)
    unread, read = ask(judge, AB, BA)
    assert [(one.subject, one.against) for one in (unread, read)] == [("a", "b"), ("b", "a")]
    assert (unread.logprobs, unread.mass, unread.note) == (None, None, "HTTP 503")
    assert read.logprobs == (math.log(0.2), math.log(0.2))
    assert read.mass == pytest.approx(0.4)
    assert asker(judge, PAIRWISE).ask([]) == []


def test_a_question_is_asked_once_and_equal_texts_are_one_question():
    backend = Counting(OTHER)
    judge = asker(backend, PAIRWISE)
    found = judge.ask([AB, question("a", "c"), AB])
    assert backend.asked == 1
    assert [one.against for one in found] == ["b", "c", "b"]
    judge.ask([question("a", "c")])
    assert backend.asked == 1


def test_yes_and_no_by_hand():
    """Three questions; each outcome weighs p(yes) / (p(yes) + p(no)), and the weights are made to sum to 1."""
    # better? yes .6 no .2 -> 3/4; worse? yes .1 no .4 -> 1/5; similar? yes .15 no .45 -> 1/4
    said = [(0.6, 0.2), (0.1, 0.4), (0.15, 0.45)]

    def answer(number, labels):
        given = dict(zip(("yes", "no"), said[number], strict=True))
        shares = [given[label.lower()] for label in labels]
        return LabelReading(logprobs=tuple(map(math.log, shares)), mass=sum(shares))

    (found,) = ask(Saying(answer), RUNG, role="compare-yesno")
    assert found.outcomes == ("win", "loss", "tie")
    assert [math.exp(value) for value in found.logprobs] == pytest.approx([0.75, 0.2, 0.25])
    assert found.mass == pytest.approx(0.5)  # the worst read of .8, .5 and .6


def test_a_note_on_one_of_the_yes_no_questions_is_kept():
    notes = [None, "the context was cut from 9 to 5 characters to fit", "a later note"]

    def answer(number, labels):
        uniform = tuple(math.log(1 / len(labels)) for _ in labels)
        return LabelReading(logprobs=uniform, mass=1.0, note=notes[number], cut=number == 1)

    (found,) = ask(Saying(answer), RUNG, role="compare-yesno")
    assert found.logprobs is not None
    assert found.note == notes[1]
    assert found.cut


def test_a_judge_that_breaks_its_contract_is_named():
    short = Saying(lambda number, _labels: None if number else UNIFORM)
    with pytest.raises(BackendError, match="saying/1 gave 1 answer for 2 prompts;"):
        ask(short, AB, BA)
    with pytest.raises(BackendError, match="gave 0 answers for 1 prompt;"):
        ask(short, answers=2, sampling=Sampling())
    message = (
        "gave 3 log-probabilities for the 2 labels win, loss; test it with refladder.testing.ch"
    )
    with pytest.raises(BackendError, match=message):
        ask(Saying(lambda *_: LabelReading(logprobs=(0.0, 0.0, 0.0), mass=1.0)))


UNIFORM = LabelReading(logprobs=(-1.0, -1.0), mass=1.0)


@pytest.mark.parametrize(
    ("logprobs", "mass", "said"),
    [
        ((0.0, -math.inf), 1.0, "log-probabilities that are not finite: (0.0, -inf)"),
        ((5.0, -1.0), 1.0, "a log-probability of 5, above 0"),
        ((-1.2, -1.2), 7.0, "a label mass of 7, which is not between 0 and 1"),
    ],
)
@pytest.mark.parametrize("role", ["pairwise", "compare-yesno"])
def test_impossible_probabilities_are_no_reading(role, logprobs, mass, said):
    questions = AB if role == "pairwise" else RUNG
    judge = Saying(lambda *_: LabelReading(logprobs=logprobs, mass=mass))
    (found,) = ask(judge, questions, role=role)
    assert (found.logprobs, found.note) == (None, f"the judge gave {said}")


# Sampled answers


def test_written_answers_that_all_agree_are_sure_and_finite():
    found = sampled(3, Rule(text="Story B"))
    assert all(map(math.isfinite, found.logprobs))
    assert first_probabilities([found]).tolist() == pytest.approx([0], abs=1e-20)


def test_written_answers_come_nearer_to_the_log_probabilities_with_their_number():
    # 2509.05440, table 3: sampling n = 10 .. 1000 rises towards log-probabilities
    texts = np.array(["Story A"] * 700 + ["Story B"] * 300)
    rule = Rule(texts=tuple(np.random.default_rng(0).permutation(texts).tolist()))
    errors = [abs(first_probabilities([sampled(n, rule)])[0] - 0.7) for n in (5, 50, 1000)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-12


def test_the_mass_of_yes_and_no_is_the_lowest_as_it_was_read_or_1_where_it_is_unknown():
    """Rounded probabilities may add to a little more than 1 (`LARGEST_SUM`)."""

    def mass_of(*masses):
        def answer(number, labels):
            uniform = tuple(math.log(1 / len(labels)) for _ in labels)
            return LabelReading(logprobs=uniform, mass=masses[number])

        (found,) = ask(Saying(answer), RUNG, role="compare-yesno")
        return found.mass

    assert mass_of(1.006, 1.004, 1.005) == 1.004
    assert mass_of(1.006, None, 1.005) == 1.0


def test_written_answers_need_a_sampling():
    with pytest.raises(UsageError, match="sampled answers need a sampling"):
        asker(Counting(), PAIRWISE, answers=1)


def test_characters_are_those_of_the_prompt():
    judge = asker(connect("builtin"), PAIRWISE)
    assert judge.characters([[AB]]) == len(fill(PAIRWISE, AB.slots).text)
