"""A judge or a writer whose first answers are of no use is reported at once, and only once."""

from dataclasses import replace

import pytest
from asked import LABELS, questions, to
from toy_server import LLAMA_CPP_PYTHON, OPENAI, TEXT_ONLY, VLLM

from refladder.backends.first_answers import FIRST
from refladder.records import Sampling

ENDS_AT_ONCE = ("Better, Worse or Similar?",)  # the end of the rows' prompts
TRAINS = ("I", "like", "trains")


@pytest.fixture
def told(caplog):
    """The warnings so far."""
    return lambda: [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def test_a_model_that_does_not_follow_the_prompt(serve, told):
    backend = to(serve(VLLM))
    answers = backend.read_labels_each(questions(30), ("Never", "Maybe", "Often"))
    for _ in range(FIRST):
        next(answers)
    (message,) = told()  # before the last of the rows
    start, _, rest = message.partition(" a median probability of ")
    assert start == "openai:toy gave Never, Maybe, Often"
    assert rest.endswith(
        " in its first 20 prompts, so it does not follow the prompt. The run continues. "
        "Stop it, and use an instruct model with its chat template."
    )
    answers.close()
    backend.read_labels(questions(30), ("Never", "Maybe", "Often"))
    assert len(told()) == 1


@pytest.mark.parametrize("quirks", [VLLM, OPENAI, LLAMA_CPP_PYTHON, TEXT_ONLY])
def test_a_model_that_follows_the_prompt_is_not_reported(serve, told, quirks):
    backend = to(serve(quirks))
    backend.read_labels(questions(30), LABELS)
    backend.write(questions(6), Sampling(max_tokens=30))  # ends some of its texts
    assert told() == []


@pytest.mark.parametrize("quirks", [LLAMA_CPP_PYTHON, OPENAI])
def test_a_judge_that_ends_its_answers_at_once(serve, told, quirks):
    backend = to(serve(replace(quirks, silent_after=ENDS_AT_ONCE)))
    for _ in range(2):
        backend.read_labels(questions(6), LABELS)
    (message,) = told()
    assert message == (
        "openai:toy: 6 of the first 6 judgments could not be read. The first: the model ended its answer at once, "
        "before a first word. The run continues. Stop it, and deal with this reason; a model that does not answer "
        "with a label must be replaced by an instruct model with its chat template."
    )


def test_a_judge_that_answers_something_else_one_row_at_a_time(serve, told):
    def answer(_messages, seed):
        return {"message": {"content": TRAINS[seed % 3]}, "finish_reason": "stop"}

    backend = to(serve(replace(TEXT_ONLY, answer=answer)), samples=3)
    for row in questions(4):
        assert told() == []
        backend.read_labels([row], LABELS)
    (message,) = told()
    assert message.startswith(
        "openai:toy: 4 of the first 4 judgments could not be read. The first: 3 of 3 answers unparsed: 3 x no label in "
        "the answer, e.g. 'I'. The run continues. Stop it, and deal with this reason;"
    )


NEVER_END = (
    "openai:toy: none of the first 6 texts ended within 3 tokens. The run continues. Stop it, and use an instruct "
    "model with its chat template, or a larger --max-tokens."
)
END_AT_ONCE = (
    "openai:toy: none of the first 6 texts could be written. The first: empty answer. The run continues. Stop it, "
    "and deal with this reason; a model that ends its texts at once must be replaced by an instruct model with its chat template."
)


@pytest.mark.parametrize(
    ("quirks", "finish", "message"),
    [
        (replace(OPENAI, flat=True), "length", NEVER_END),
        (replace(OPENAI, silent_after=ENDS_AT_ONCE), "error", END_AT_ONCE),
    ],
)
def test_a_writer_without_a_whole_text(serve, told, quirks, finish, message):
    backend = to(serve(quirks))
    for _ in range(2):
        texts = backend.write(questions(6), Sampling(max_tokens=3, temperature=0))
    assert {text.finish for text in texts} == {finish}
    assert backend.counts.get("answer: empty answer", 0) == (12 if finish == "error" else 0)
    assert told() == [message]
