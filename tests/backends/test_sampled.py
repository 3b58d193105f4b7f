"""Labels read from sampled answers."""

import math

import pytest
from doubles import Double

from refladder.backends.labels import NEVER
from refladder.backends.sampled import Sampled
from refladder.backends.scripted import Rule, Scripted
from refladder.errors import BackendError, UsageError
from refladder.prompts import fill, load_template
from refladder.records import Completion, Sampling
from refladder.testing import check_backend

LABELS = ("Better", "Worse", "Similar")


def prompt():
    template = load_template("story", "compare")
    return fill(template, dict.fromkeys(template.names, "x"))


def sampled(texts, answers):
    backend = Scripted([Rule(texts=tuple(texts)) if texts else Rule(error="HTTP 503")])
    judge = Sampled(backend, answers=answers, sampling=Sampling(seed=0))
    return judge.read_labels([prompt()], LABELS)[0]


def test_the_shares_of_the_answers_by_hand():
    # seeds 0 to 4: Better, Worse, Better, an answer without a label, Better; 4 of 5 are read: 3/4, 1/4, 0
    reading = sampled(["Better", "**Worse**", "Better.", "I cannot say", "It is better"], 5)
    assert reading.logprobs == pytest.approx((math.log(3 / 4), math.log(1 / 4), NEVER))
    assert reading.mass == pytest.approx(4 / 5)
    assert reading.exactness == "sampled"
    told = "1 of 5 answers unparsed: 1 x no label in the answer, e.g. 'I cannot say'"
    assert reading.note == told


def test_no_answer_that_can_be_parsed_is_no_reading():
    reading = sampled([], 2)
    assert (reading.logprobs, reading.mass, reading.note) == (None, None, None)
    assert reading.reason == "2 of 2 answers missing: 2 x HTTP 503"


def test_a_cut_context_is_marked():
    class Short(Double):
        fingerprint = "short"

        def write(self, prompts, sampling):
            cut = sampling.seed == 1
            note = "the context was cut from 9 to 5 characters to fit" if cut else None
            return [Completion(text="Worse", cut=cut, note=note) for _ in prompts]

    (reading,) = Sampled(Short(), answers=2, sampling=Sampling()).read_labels([prompt()], LABELS)
    assert reading.cut
    assert reading.note == "the context was cut from 9 to 5 characters to fit"


def test_it_keeps_the_contract_of_a_backend():
    rules = [Rule(role=role, text="rain") for role in ("worst", "best", "between")]
    backend = Scripted([*rules, Rule(texts=("Better", "Worse"))])
    check_backend(Sampled(backend, answers=3, sampling=Sampling()))


def test_all_that_changes_a_reading_is_in_the_fingerprint():
    backend = Scripted([Rule(text="Better")])
    changed = [
        Sampled(backend, answers=2, sampling=Sampling()),
        Sampled(backend, answers=3, sampling=Sampling()),
        Sampled(backend, answers=2, sampling=Sampling(seed=7)),
        Sampled(backend, answers=2, sampling=Sampling(temperature=0.5)),
    ]
    assert len({backend.fingerprint, *(other.fingerprint for other in changed)}) == 5
    assert changed[0].fingerprint == f"{backend.fingerprint} answers:2,max512,t1,p1,seed0"
    assert changed[0].label_tokens == 1024


def test_a_writer_that_leaves_texts_out_is_refused():
    class Forgetful(Double):
        fingerprint = "forgetful"

        def write(self, _prompts, _sampling):
            return []

    with pytest.raises(BackendError, match="forgetful gave 0 answers for 1 prompt;"):
        Sampled(Forgetful(), answers=1, sampling=Sampling()).read_labels([prompt()], LABELS)


def test_fewer_than_one_answer_is_refused():
    with pytest.raises(UsageError, match="at least 1 answer must be sampled, found 0"):
        Sampled(Scripted([]), answers=0, sampling=Sampling())
