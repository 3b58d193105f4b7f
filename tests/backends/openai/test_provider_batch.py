"""docs/examples/provider_batch.py, with the package openai, against an imitated provider."""

import runpy
from dataclasses import replace

import pytest
from answering import requests
from asked import LABELS, questions, to
from batch_provider import BatchProvider
from toy_server import MODEL, OPENAI

from refladder.backends import connect
from refladder.errors import AnswersAwaitedError

openai = pytest.importorskip("openai")


@pytest.fixture
def provider():
    with BatchProvider(OPENAI) as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "answers"


def read(folder, number=5):
    return connect(f"openai:{MODEL}", base_url=f"file:{folder}").read_labels(
        questions(number), LABELS
    )


def awaited(folder, number=5):
    with pytest.raises(AnswersAwaitedError):
        read(folder, number)


@pytest.fixture
def answer(provider, folder, request, monkeypatch, capsys):
    """Run the script, and return what it prints."""
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    script = runpy.run_path(str(request.config.rootpath / "docs/examples/provider_batch.py"))

    def run():
        capsys.readouterr()
        script["main"](folder)
        return capsys.readouterr().out

    return run


def without_places(readings):
    """The readings without the lines of the answers files in their notes."""
    return [
        replace(each, note=each.note and each.note.partition(" (custom_id")[0]) for each in readings
    ]


def test_requests_are_submitted_once_and_collected(provider, folder, answer):
    awaited(folder)
    assert answer() == "submitted batch batch_0 with 5 requests of requests-0001.jsonl\n"
    assert answer() == "batch batch_0 is validating\n"
    awaited(folder, 7)
    submitted = "submitted batch batch_1 with 2 requests of requests-0002.jsonl\n"
    assert answer() == f"batch batch_0 is validating\n{submitted}"
    provider.end("batch_0")
    provider.end("batch_1")
    assert answer().endswith("nothing waits\n")
    assert without_places(read(folder, 7)) == to(provider, mode="sample").read_labels(
        questions(7), LABELS
    )
    assert len(provider.batches) == 2


def test_what_has_expired_is_submitted_again(provider, folder, answer):
    awaited(folder)
    answer()
    provider.end("batch_0", status="expired", expired=2)
    assert answer().endswith("submitted batch batch_1 with 2 requests of requests-0001.jsonl\n")
    provider.end("batch_1")
    answer()
    assert without_places(read(folder)) == to(provider, mode="sample").read_labels(
        questions(5), LABELS
    )
    assert len(requests(folder)) == 5


def test_a_batch_whose_number_was_never_heard_is_not_paid_for_twice(provider, folder, answer):
    awaited(folder)
    provider.breaks_after_creation = True
    with pytest.raises(openai.BadRequestError):
        answer()
    provider.breaks_after_creation = False
    assert answer() == "batch batch_0 is validating\n"
    assert len(provider.batches) == 1
