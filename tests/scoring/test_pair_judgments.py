from __future__ import annotations

import math

import numpy as np
import pytest
from doubles import Double, asker

from refladder.backends import connect
from refladder.backends.scripted import Rule, Scripted
from refladder.errors import BackendError, DataError, UsageError
from refladder.prompts import fill, load_template
from refladder.records import Context, Dimension, LabelReading, Output, Sampling
from refladder.scoring.asker import first_probabilities
from refladder.scoring.question import pair_question

TEMPLATE = load_template("story", "pairwise")
CONTEXT = Context(id="c", task="story", text="A lighthouse that nobody built.")
DIMENSION = Dimension(name="surprise", description="The story takes turns.")
TEXTS = {"a": "The lamp lit itself.", "b": "It was a lighthouse.", "c": "It was a lighthouse."}


def output(name):
    return Output(id=name, context_id="c", system=name, text=TEXTS[name])


def question(first, second):
    return pair_question(CONTEXT, DIMENSION, output(first), output(second))


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


ANSWER = Rule(contains={"first": "lamp"}, answer={"win": math.log(0.3), "loss": math.log(0.1)})
OTHER = Rule(answer={"win": math.log(0.2), "loss": math.log(0.2)})


def test_label_classifier_by_hand():
    judge = asker(Counting(ANSWER, OTHER), TEMPLATE)
    found = judge.ask([question("a", "b"), question("b", "a")])
    # by equation 3: .3 of .4, and .2 of .4
    assert first_probabilities(found).tolist() == pytest.approx([0.75, 0.5])
    assert [(one.subject, one.against) for one in found] == [("a", "b"), ("b", "a")]
    assert found[0].mass == pytest.approx(0.4)


def test_probabilities_do_not_overflow():
    judge = asker(Counting(Rule(answer={"win": -1000.0, "loss": -0.001})), TEMPLATE)
    assert first_probabilities(judge.ask([question("a", "b")])).tolist() == [0.0]


def test_what_cannot_be_read_is_none_with_its_reason():
    judge = asker(Counting(Rule(contains={"first": "lamp"}, error="too long"), OTHER), TEMPLATE)
    found = judge.ask([question("a", "b"), question("b", "a")])
    assert (found[0].logprobs, found[0].mass, found[0].note) == (None, None, "too long")
    assert np.isnan(first_probabilities(found)).tolist() == [True, False]


def test_log_probabilities_that_are_not_finite_are_unreadable():
    class Broken(Counting):
        def read_labels(self, prompts, _labels):
            return [LabelReading(logprobs=(0.0, -math.inf), mass=1.0) for _ in prompts]

    (found,) = asker(Broken(), TEMPLATE).ask([question("a", "b")])
    assert found.logprobs is None
    assert found.note == "the judge gave log-probabilities that are not finite: (0.0, -inf)"


def test_a_question_is_asked_once_and_equal_texts_are_one_question():
    backend = Counting(OTHER)
    judge = asker(backend, TEMPLATE)
    found = judge.ask([question("a", "b"), question("a", "c"), question("a", "b")])
    assert backend.asked == 1
    assert [one.against for one in found] == ["b", "c", "b"]
    judge.ask([question("a", "c")])
    assert backend.asked == 1


def test_a_run_goes_on_from_its_file_even_when_its_last_line_is_torn(tmp_path):
    path = tmp_path / "work" / "pairs.jsonl"
    first = asker(Counting(ANSWER, OTHER), TEMPLATE, path=path)
    whole = first.ask([question("a", "b"), question("b", "a")])
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3  # the run and two judgments
    path.write_bytes(b"".join(lines[:2]) + lines[2][:20])
    again = Counting(ANSWER, OTHER)
    assert asker(again, TEMPLATE, path=path).ask([question("a", "b"), question("b", "a")]) == whole
    assert again.asked == 1
    assert path.read_bytes() == b"".join(lines)


def test_a_file_of_another_judge_is_refused(tmp_path):
    path = tmp_path / "pairs.jsonl"
    asker(Counting(OTHER), TEMPLATE, path=path)
    with pytest.raises(
        UsageError,
        match=r"pairs\.jsonl: these judgments are of another run \(another judge: scripted.* name another file or",
    ):
        asker(Counting(ANSWER), TEMPLATE, path=path)


def test_a_damaged_line_is_told(tmp_path):
    path = tmp_path / "pairs.jsonl"
    asker(Counting(OTHER), TEMPLATE, path=path)
    path.write_bytes(path.read_bytes() + b"{}\n")
    with pytest.raises(DataError, match=r"pairs\.jsonl:2: "):
        asker(Counting(OTHER), TEMPLATE, path=path)


def test_a_judge_that_answers_too_little_broke_its_contract():
    class Short(Counting):
        def read_labels(self, _prompts, _labels):
            return []

        def write(self, _prompts, _sampling):
            return []

    with pytest.raises(BackendError, match="gave 0 answers for 1 prompt;"):
        asker(Short(), TEMPLATE).ask([question("a", "b")])
    with pytest.raises(BackendError, match="gave 0 answers for 1 prompt;"):
        asker(Short(), TEMPLATE, answers=2, sampling=Sampling()).ask([question("a", "b")])


def test_written_answers_by_hand():
    backend = Counting(Rule(texts=("Story A", "Story B is better.", "Hm.", "Story A!")))
    judge = asker(backend, TEMPLATE, answers=4, sampling=Sampling(seed=0))
    (found,) = judge.ask([question("a", "b")])
    # two of the three that can be read choose the first
    assert first_probabilities([found]).tolist() == pytest.approx([2 / 3])
    assert found.mass == pytest.approx(3 / 4)
    assert found.note == "1 of 4 answers unparsed: 1 x no label in the answer, e.g. 'Hm.'"
    assert backend.asked == 4


def test_written_answers_that_all_agree_are_sure_and_finite():
    judge = asker(Counting(Rule(text="Story B")), TEMPLATE, answers=3, sampling=Sampling())
    (found,) = judge.ask([question("a", "b")])
    assert all(map(math.isfinite, found.logprobs))
    assert first_probabilities([found]).tolist() == pytest.approx([0], abs=1e-20)


def test_no_answer_that_can_be_read_is_no_number():
    backend = Counting(Rule(error="refused"))
    (found,) = asker(backend, TEMPLATE, answers=2, sampling=Sampling()).ask([question("a", "b")])
    assert (found.logprobs, found.note) == (None, "2 of 2 answers unparsed: 2 x refused")


def test_written_answers_come_nearer_to_the_log_probabilities_with_their_number():
    # 2509.05440, table 3: sampling n = 10 .. 1000 rises towards log-probabilities
    texts = tuple("Story A" if place % 10 < 7 else "Story B" for place in range(1000))
    order = np.random.default_rng(0).permutation(1000)
    backend = Counting(Rule(texts=tuple(texts[place] for place in order)))
    errors = []
    for answers in (5, 50, 1000):
        judge = asker(backend, TEMPLATE, answers=answers, sampling=Sampling(seed=0))
        errors.append(abs(float(first_probabilities(judge.ask([question("a", "b")]))[0]) - 0.7))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-12


def test_written_answers_need_a_sampling():
    with pytest.raises(UsageError, match="sampled answers need a sampling"):
        asker(Counting(), TEMPLATE, answers=1)


def test_characters_are_those_of_the_prompt():
    judge = asker(connect("builtin"), TEMPLATE)
    asked = question("a", "b")
    assert judge.characters(asked) == len(fill(TEMPLATE, asked.slots).text)
