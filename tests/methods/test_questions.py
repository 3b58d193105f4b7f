"""The method questions against a naive loop over hand-made answers, and its questions: of the set, or of the writer."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from doubles import Double

from refladder.backends import connect
from refladder.backends.estimate import Unanswered
from refladder.errors import DataError, LabelsUnavailableError
from refladder.files.ladder_sets import find_folder, load_ladders, published_names
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import rehearse_methods, run_methods
from refladder.methods.questions import read_questions
from refladder.records import Completion, LabelReading

STORY = find_folder("demo/story")
WRITTEN = """Here are the questions:

1. Does the story have an end?
2) Is a character named?
- Is a place named?
Is a character named?
The story is good.
"""
READ = ("Does the story have an end?", "Is a character named?", "Is a place named?")


@pytest.fixture(scope="module")
def stories():
    whole = load_benchmark("demo/story")
    kept = [context.id for context in whole.contexts[:3]]
    outputs = tuple(output for output in whole.outputs if output.context_id in kept)
    return replace(whole, contexts=whole.contexts[:3], outputs=outputs, ratings=())


def yes_and_no(dimension, text, question):
    """Two probabilities that add to less than 1."""
    random = np.random.default_rng(zlib.crc32(f"{dimension}|{text}|{question}".encode()))
    return (0.1 + random.random(2) * 0.35).tolist()


class ByHand(Double):
    """Answers by `yes_and_no` and writes `WRITTEN`; what is asked about the text `unreadable` cannot be read once."""

    def __init__(self, unreadable=None, texts=()):
        self.unreadable = unreadable
        self.texts = list(texts)
        self.asked = 0
        self.written = []

    def write(self, prompts, sampling):
        self.written += [(prompt.slots["dimension"], sampling.seed, sampling.max_tokens) for prompt in prompts]
        return [Completion(text=self.texts.pop(0) if self.texts else WRITTEN) for _ in prompts]

    def read_labels(self, prompts, labels):
        assert list(labels) == ["Yes", "No"]
        self.asked += len(prompts)
        return [self._read(prompt.slots) for prompt in prompts]

    def _read(self, slots):
        if slots["target"] == self.unreadable and slots["question"].startswith("Is"):
            return LabelReading(logprobs=None, mass=None, reason="neither yes nor no")
        found = yes_and_no(slots["dimension"], slots["target"], slots["question"])
        return LabelReading(logprobs=tuple(map(math.log, found)), mass=sum(found))


def one(benchmark, backend, **settings):
    method = MethodSettings(**{"ladders": "demo/story", **settings})
    return run_methods(["questions"], benchmark, benchmark.dimensions, lambda: backend, method)[0]


def naive(dimension, output, asked):
    """Share of yes: the mean of p(yes) / (p(yes) + p(no)), from the low to the high end of the scale."""
    total = 0.0
    for question in asked:
        yes, no = yes_and_no(dimension.name, output.text, question)
        total += yes / (yes + no)
    return dimension.low + (dimension.high - dimension.low) * total / len(asked)


@pytest.mark.parametrize("lost", [False, True])
def test_the_score_is_the_share_of_yes_to_the_questions_of_the_set(stories, lost):
    lines = (STORY / "questions.jsonl").read_text("utf-8").splitlines()
    asked = {line["dimension"]: line["questions"] for line in map(json.loads, lines)}
    last = stories.outputs[-1]
    judge = ByHand(last.text if lost else None)
    run = one(stories, judge)
    for dimension in stories.dimensions:
        for output in stories.outputs:
            expected = naive(dimension, output, asked[dimension.name])
            if lost and output == last:
                expected = None  # the share of the others is a share of other questions
            found = run.result.method.scores[output.id, dimension.name]
            assert found == (expected if expected is None else pytest.approx(expected, abs=1e-12))
    assert judge.asked == run.calls == run.result.judgments == 18 * sum(map(len, asked.values()))
    unreadable = sum(question.startswith("Is") for line in asked.values() for question in line)
    assert run.result.unreadable == (unreadable if lost else 0) != 1
    assert not judge.written
    digest = run.result.method.signature.rpartition("|questions:")[2]
    changed = replace(load_ladders("demo/story"), questions={**asked, "complexity": READ})
    assert one(stories, ByHand(), ladders=changed).result.method.signature.rpartition(":")[2] != digest


@pytest.mark.parametrize("name", published_names())
def test_the_demo_sets_have_questions_for_each_dimension(name):
    opened = load_ladders(name)
    assert list(opened.questions) == [dimension.name for dimension in opened.dimensions]
    for asked in opened.questions.values():
        assert 5 <= len(asked) <= 8
        assert read_questions("\n".join(asked)) == asked


def test_questions_of_a_text_are_its_lines_with_a_question_mark():
    assert read_questions(WRITTEN) == READ
    assert read_questions("No questions.") == ()
    assert read_questions("\n".join(f"* Is it {number}?" for number in range(12))) == tuple(
        f"Is it {number}?" for number in range(10)
    )


def test_the_writer_is_asked_for_what_the_set_lacks_and_once(stories, tmp_path):
    bare = replace(load_ladders("demo/story"), questions={"coherence": ("Is it good?",)})
    judge, writer = ByHand(), ByHand()
    run = one(stories, judge, ladders=bare, writer=lambda: writer, work=tmp_path)
    assert writer.written == [("complexity", 0, 400)]
    coherence, complexity = stories.dimensions
    for output in stories.outputs:
        scores = run.result.method.scores
        assert scores[output.id, "coherence"] == pytest.approx(naive(coherence, output, ["Is it good?"]))
        assert scores[output.id, "complexity"] == pytest.approx(naive(complexity, output, READ))
    again, other = ByHand(), ByHand()
    resumed = one(stories, again, ladders=bare, writer=lambda: other, work=tmp_path)
    assert resumed.result.method == run.result.method
    assert (again.asked, other.written) == (0, [])
    (line,) = (tmp_path / "questions.jsonl").read_text().splitlines()
    assert json.loads(line)["questions"] == list(READ)
    reworded = (coherence, replace(complexity, description="Another one."))
    one(replace(stories, dimensions=reworded), ByHand(), ladders=bare, writer=lambda: other, work=tmp_path)
    assert other.written == [("complexity", 0, 400)]
    one(stories, ByHand(), ladders=bare, writer=lambda: other, work=tmp_path, restart=True)
    assert len(other.written) == 2


def test_a_text_without_questions_is_tried_again_and_a_dimension_without_them_has_no_scores(stories):
    writer = ByHand(texts=["None.", WRITTEN, "Still none."])
    run = one(stories, ByHand(), ladders=None, writer=lambda: writer)
    assert [each[:2] for each in writer.written] == [
        ("coherence", 0),
        ("complexity", 0),
        ("coherence", 1),
        ("coherence", 2),
    ]
    scores = run.result.method.scores
    assert {key[1] for key, value in scores.items() if value is not None} == {"coherence", "complexity"}
    writer = ByHand(texts=["None.", WRITTEN, "None.", "Still none."])
    run = one(stories, ByHand(), ladders=None, writer=lambda: writer, attempts=2)
    scores = run.result.method.scores
    assert {key[1] for key, value in scores.items() if value is None} == {"coherence"}
    assert {key[1] for key, value in scores.items() if value is not None} == {"complexity"}
    assert run.result.notes == ("no question could be written for coherence, which has no scores; try another writer",)


def test_a_dry_run_counts_what_is_asked_and_bounds_what_is_not_written_yet(stories):
    def counted(**settings):
        judge = Unanswered(connect("builtin"))
        method = MethodSettings(**settings)
        notes = rehearse_methods(["questions"], stories, stories.dimensions, lambda: judge, method)
        return judge.estimate().usage.prompts, judge.estimate().exact, notes

    assert counted(ladders="demo/story") == (18 * 12, True, [])
    writer = Unanswered(ByHand())
    assert counted(writer=lambda: writer) == (18 * 2 * 10, False, [])
    assert writer.estimate().usage.prompts == 2


def test_drawn_answers_are_shares_and_a_judge_without_probabilities_says_so(stories):
    class Silent(ByHand):
        def write(self, prompts, sampling):
            answers = ["Yes" if sampling.seed < 3 else "No"]
            return [Completion(text=answer) for answer in answers for _ in prompts]

        def read_labels(self, _prompts, _labels):
            raise LabelsUnavailableError("this endpoint gives no log-probabilities")

    found = one(stories, Silent(), answers=4).result.method.scores
    assert list(found.values()) == pytest.approx([1 + 4 * 0.75] * 36)  # three of four answers are yes, from 1 to 5
    result = one(stories, Silent()).result
    assert result.skipped == "this endpoint gives no log-probabilities; to count drawn answers, pass --answers 20"


def test_low_label_mass_gives_no_score(stories):
    result = one(stories, ByHand(), least_mass=1.0).result
    assert set(result.method.scores.values()) == {None}
    assert result.unreadable == result.judgments


def test_the_builtin_backend_writes_no_questions(fails):
    assert fails(2, "evaluate", "demo/story", "--methods", "questions") == (
        "refladder: questions: builtin writes no questions; name ladders with questions.jsonl, or a model with "
        "--writer\n"
    )


def test_a_line_that_is_no_record_of_questions_is_named(tmp_path):
    for path in ("ladders.jsonl", "dimensions.jsonl", "contexts.jsonl"):
        (tmp_path / path).write_bytes((STORY / path).read_bytes())
    (tmp_path / "questions.jsonl").write_text('{"schema":"questions/1","dimension":"coherence"}\n')
    with pytest.raises(DataError, match=r"questions\.jsonl:1: .*'questions'"):
        load_ladders(tmp_path)
