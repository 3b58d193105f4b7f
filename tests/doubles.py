"""A backend for tests to build on: what a subclass does not answer fails the test."""

from __future__ import annotations

from refladder.backends import Backend


class Double(Backend):
    fingerprint = "double/1"

    def write(self, prompts, sampling):
        raise NotImplementedError

    def read_labels(self, prompts, labels):
        raise NotImplementedError
