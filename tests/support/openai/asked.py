"""Prompts that the tests ask, and the backend for a server of theirs."""

from toy_server import MODEL

from refladder.backends import connect
from refladder.records import Prompt

LABELS = ("Better", "Worse", "Similar")


def to(server, **options):
    """The backend for a toy server."""
    return connect(f"openai:{MODEL}", base_url=server.url, **options)


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
