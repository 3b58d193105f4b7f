"""A judge or a writer whose first answers are of no use is reported at once, and only once."""

from dataclasses import replace

import pytest
from asked import LABELS, questions, to
from toy_server import LLAMA_CPP_PYTHON, OPENAI, TEXT_ONLY, VLLM

from refladder.backends.first_answers import FIRST
from refladder.records import Sampling

JUDGING = "Better, Worse or Similar?"  # at the end of the rows' prompts
OTHERS = ("Never", "Maybe", "Often")


def told(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_model_that_does_not_follow_the_prompt(serve, caplog):
    backend = to(serve(VLLM))
    answers = backend.read_labels_each(questions(30), OTHERS)
    for _ in range(FIRST):
        next(answers)
    (message,) = told(caplog)  # before the last of the rows
    start, _, rest = message.partition(" a median probability of ")
    assert start == "openai:toy gave Never, Maybe, Often"
    assert rest.endswith(
        " in its first 20 prompts, so it does not follow the prompt. Stop, and use an instruct model with its chat "
        "template."
    )
    answers.close()
    backend.read_labels(questions(30), OTHERS)
    assert len(told(caplog)) == 1


@pytest.mark.parametrize("quirks", [VLLM, OPENAI, LLAMA_CPP_PYTHON, TEXT_ONLY])
def test_a_model_that_follows_the_prompt_is_not_reported(serve, caplog, quirks):
    to(serve(quirks)).read_labels(questions(30), LABELS)
    assert told(caplog) == []


@pytest.mark.parametrize("quirks", [LLAMA_CPP_PYTHON, OPENAI])
def test_a_judge_that_ends_its_answers_at_once(serve, caplog, quirks):
    backend = to(serve(replace(quirks, silent_after=(JUDGING,))))
    for _ in range(2):
        backend.read_labels(questions(6), LABELS)
    (message,) = told(caplog)
    assert message == (
        "openai:toy: 6 of the first 6 judgments could not be read. The first: the model ended its answer at once, "
        "before a first word. Stop, and deal with this reason; a model that does not answer with a label must be "
        "replaced by an instruct model with its chat template."
    )


def test_a_judge_that_answers_something_else(serve, caplog):
    answers = ("I", "like", "trains")
    server = serve(
        replace(
            TEXT_ONLY,
            answer=lambda _, seed: {
                "message": {"content": answers[seed % 3]},
                "finish_reason": "stop",
            },
        )
    )
    to(server, samples=3).read_labels(questions(4), LABELS)
    (message,) = told(caplog)
    assert message.startswith(
        "openai:toy: 4 of the first 4 judgments could not be read. The first: 3 of 3 answers unparsed: 3 x no label in "
        "the answer, e.g. 'I'. Stop, and deal with this reason;"
    )


def test_answers_that_come_one_by_one_are_seen_together(serve, caplog):
    backend = to(serve(replace(OPENAI, silent_after=(JUDGING,))))
    for place, row in enumerate(questions(5)):
        assert told(caplog) == [] or place == 4
        backend.read_labels([row], LABELS)
    assert "4 of the first 4 judgments could not be read" in caplog.text


def test_a_writer_that_never_ends_its_texts(serve, caplog):
    backend = to(serve(replace(OPENAI, flat=True)))
    for _ in range(2):
        texts = backend.write(questions(6), Sampling(max_tokens=3))
    assert {text.finish for text in texts} == {"length"}
    (message,) = told(caplog)
    assert message == (
        "openai:toy: none of the first 6 texts ended within 3 tokens. Stop, and use an instruct model with its chat "
        "template, or a larger --max-tokens."
    )


def test_a_writer_that_ends_its_texts_at_once(serve, caplog):
    backend = to(serve(replace(OPENAI, silent_after=(JUDGING,))))
    for _ in range(2):
        backend.write(questions(6), Sampling(max_tokens=30, temperature=0))
    (message,) = told(caplog)
    assert message == (
        "openai:toy: none of the first 6 texts could be written. The first: empty answer. Stop, and deal with this "
        "reason; a model that ends its texts at once must be replaced by an instruct model with its chat template."
    )


def test_a_writer_that_ends_some_of_its_texts_is_not_reported(serve, caplog):
    to(serve(OPENAI)).write(questions(6), Sampling(max_tokens=30))
    assert told(caplog) == []
