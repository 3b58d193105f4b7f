"""A backend for tests to build on, where a method that a subclass lacks fails the test, and an asker of a backend."""

from __future__ import annotations

from refladder.backends import Backend
from refladder.files.tables import Row
from refladder.loaders.input_rows import Item
from refladder.scoring.asker import Asker, run_of
from refladder.scoring.judgment_file import JudgmentIndex


class Double(Backend):
    fingerprint = "double/1"

    def write(self, prompts, sampling):
        raise NotImplementedError

    def read_labels(self, prompts, labels):
        raise NotImplementedError


def items_of(outputs, notes=None, contexts=None):
    """The items of outputs, None for a row without one, as a scorer takes them."""
    count = len(outputs)
    return [
        Item(Row(f"row {number}", {}), *fields)
        for number, fields in enumerate(
            zip(outputs, notes or [None] * count, contexts or [None] * count, strict=True), start=1
        )
    ]


def asker(backend, template, *, path=None, **options):
    """An asker whose judgments are found by key; options are those of `run_of`."""
    return Asker(backend, template, JudgmentIndex(path, run_of(backend, template, **options)))
