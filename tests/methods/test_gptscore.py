"""GPTScore: whole texts read as labels, divided by their tokens."""

from __future__ import annotations

import math

import pytest
from doubles import Double
from small_benchmarks import run_method, small_benchmark

from refladder.backends import connect
from refladder.backends.dry_run import DryRunBackend
from refladder.errors import BackendError, LabelsUnavailableError
from refladder.methods.contract import MethodSettings
from refladder.methods.gptscore import check_reads_texts, mean_logprobs, read_texts
from refladder.methods.method_runs import rehearse_methods
from refladder.prompts import criterion, fill, load_template
from refladder.records import Context, Dimension, LabelReading, Output
from refladder.scoring.grades import grade_question

CONTEXT = Context(id="c", task="story", text="A lighthouse keeper finds a letter.")
DIMENSION = Dimension(name="surprise", description="The end surprises.")
TEMPLATE = load_template("story", "best")
PROMPT = fill(TEMPLATE, criterion(CONTEXT, DIMENSION))
QUARTER, SIXTEENTH = math.log(1 / 4), math.log(1 / 16)
# the last begins others, so it is asked alone
MADE = small_benchmark(
    [CONTEXT], ["the sea", "lighthouse keeper", "the lighthouse", "the"], ("surprise", "charm")
)


class Words(Double):
    """Every word of a text has probability 1/4, a long word (over four letters) 1/16; a word is a token."""

    fingerprint = "words/1"

    def __init__(self):
        self.asked = 0

    def read_labels(self, prompts, labels):
        assert not any(one != other and other.startswith(one) for one in labels for other in labels)
        assert CONTEXT.text in prompts[0].text
        self.asked += 1
        found = tuple(
            sum(SIXTEENTH if len(word) > 4 else QUARTER for word in text.split()) for text in labels
        )
        return [LabelReading(logprobs=found, mass=min(1.0, sum(map(math.exp, found))))]

    def count_label_tokens(self, _prompt, labels):
        return [len(text.split()) for text in labels]


def ask(texts, backend):
    asked = [
        grade_question(Output(id=text, context_id="c", system=text, text=text), CONTEXT, DIMENSION)
        for text in texts
    ]
    return asked, read_texts(backend, TEMPLATE, "recipe", asked)


def test_the_mean_over_tokens_by_hand():
    texts = ["the sea", "lighthouse keeper", "the lighthouse", "the sea", ""]
    asked, judgments = ask(texts, Words())
    values = mean_logprobs(Words(), TEMPLATE, asked, judgments)
    # two short words; two long ones; one of each; the first once more; nothing
    assert values[:4] == pytest.approx([QUARTER, SIXTEENTH, (QUARTER + SIXTEENTH) / 2, QUARTER])
    assert values[4] is None
    assert judgments[4].note == "the text is empty"
    assert judgments[0].logprobs == pytest.approx((2 * QUARTER,))
    assert judgments[0].mass is None


def test_a_text_that_begins_another_is_asked_alone():
    # `Words` refuses to be asked for both at once.
    asked, judgments = ask(["the", "the sea", "the sea is"], Words())
    values = mean_logprobs(Words(), TEMPLATE, asked, judgments)
    assert values == pytest.approx([QUARTER] * 3)


def test_a_reading_that_failed_is_no_number():
    class Deaf(Words):
        def read_labels(self, _prompts, _labels):
            return [LabelReading(logprobs=None, mass=None, reason="too long for the model")]

    asked, judgments = ask(["the sea"], Deaf())
    assert judgments[0].note == "too long for the model"
    assert mean_logprobs(Deaf(), TEMPLATE, asked, judgments) == [None]


def test_a_backend_that_breaks_its_word_is_refused():
    class Short(Words):
        def read_labels(self, _prompts, _labels):
            return [LabelReading(logprobs=(-1.0,), mass=0.3)]

        def count_label_tokens(self, _prompt, labels):
            return [0] * len(labels)

    with pytest.raises(BackendError, match="asked for 2 texts after 1 prompt, answered otherwise"):
        ask(["the sea", "a letter"], Short())
    asked, judgments = ask(["the sea"], Short())
    message = "the judge read the text 'the sea' and counts 0 tokens in it"
    with pytest.raises(BackendError, match=message):
        mean_logprobs(Short(), TEMPLATE, asked, judgments)


def test_on_a_benchmark():
    result = run_method("gptscore", MADE, Words()).result
    assert result.method.scores["c/2", "charm"] == pytest.approx((QUARTER + SIXTEENTH) / 2)
    assert "rule:mean-logprob-per-token" in result.method.signature


def test_a_judge_that_cannot_read_texts_is_not_asked(fails, command):
    check_reads_texts(Words(), PROMPT)
    message = r"judge 'builtin/1' cannot read the log-probability of a whole text .*--judge hf:PATH"
    with pytest.raises(LabelsUnavailableError, match=message):
        check_reads_texts(connect("builtin"), PROMPT)
    asked = ["gptscore"], MADE, MADE.dimensions, lambda: DryRunBackend(connect("builtin"))
    ((name, reason),) = rehearse_methods(*asked, MethodSettings())
    assert name == "gptscore"
    assert reason.startswith("judge 'builtin/1' cannot read the log-probability of a whole text")
    given = ["evaluate", "demo/dialogue", "--resamples", "5", "--methods"]
    assert "gptscore: judge 'builtin/1' cannot read" in fails(2, *given, "gptscore")
    done = command(*given, "gptscore,direct-5", "--json")
    assert done.code == 3
    rows = [row for row in done.rows if row.get("method") == "gptscore" and "value" in row]
    assert {row["value"] for row in rows} == {None}
    (signature,) = {row["signature"] for row in rows}
    assert signature.startswith("unavailable:judge 'builtin/1' cannot read")
