"""Prompts that the tests ask, the backend for a server of theirs, and the error of a server that is of no use."""

import pytest
from toy_server import MODEL

from refladder.backends import connect
from refladder.errors import BackendUnavailableError
from refladder.records import Prompt

LABELS = ("Better", "Worse", "Similar")
ANSWER = {
    "choices": [{"message": {"role": "assistant", "content": "Better"}, "finish_reason": "stop"}]
}


def to(server, **options):
    """The backend for a toy server."""
    return connect(f"openai:{MODEL}", base_url=server.url, **options)


def once(url, **options):
    """A backend that asks a server for one answer to a question, and tries nothing again."""
    usual = {"mode": "sample", "samples": "1", "attempts": "1"}
    return connect("openai:toy", base_url=url, **{**usual, **options})


def unavailable(message):
    """Expect the error that a model cannot be used."""
    return pytest.raises(BackendUnavailableError, match=message)


def question(text):
    """A judging prompt."""
    return Prompt(
        task="summarization",
        role="compare",
        literals=("Text: ", "\nBetter, Worse or Similar?"),
        names=("target",),
        slots={"target": text},
        labels=LABELS,
        outcomes=("win", "loss", "tie"),
    )


def questions(number):
    """So many different judging prompts."""
    return [question(f"text number {place}") for place in range(number)]
