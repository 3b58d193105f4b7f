"""Servers and prompts for the tests of the endpoint backend; nothing leaves this machine."""

import pytest
from toy_server import MODEL, ToyServer

from refladder.backends import connect
from refladder.records import Prompt

LABELS = ("Better", "Worse", "Similar")


@pytest.fixture(autouse=True)
def _no_user_settings(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "REFLADDER_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def serve():
    """Start a toy server with these quirks; stopped when the test ends."""
    running = []

    def start(quirks):
        server = ToyServer(quirks)
        server.__enter__()
        running.append(server)
        return server

    yield start
    for server in running:
        server.__exit__()


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
