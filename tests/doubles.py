"""A backend for tests to build on, where a method that a subclass lacks fails the test, and an asker of a backend."""

from __future__ import annotations

from refladder.backends import Backend
from refladder.scoring.asker import Asker, run_of
from refladder.scoring.judgment_file import JudgmentIndex


class Double(Backend):
    fingerprint = "double/1"

    def write(self, prompts, sampling):
        raise NotImplementedError

    def read_labels(self, prompts, labels):
        raise NotImplementedError


def asker(backend, template, *, path=None, **options):
    """An asker whose judgments are found by key; options are those of `run_of`."""
    return Asker(backend, template, JudgmentIndex(path, run_of(backend, template, **options)))
