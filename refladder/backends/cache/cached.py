"""A backend whose answers are stored: no prompt is asked twice.

Failures are not stored. What failed (a completion with finish `error`, a reading without
log-probabilities) may have failed for a passing reason, so a later run asks it again.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from refladder.backends.labels import UNPARSED
from refladder.backends.protocol import Wrapper, whole
from refladder.files.jsonl import is_unicode
from refladder.parsing import adapter
from refladder.records import Completion, LabelReading, impossible, possible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from refladder.backends.cache.store import ResponseStore
    from refladder.backends.protocol import Backend
    from refladder.records import Prompt, Sampling

Answered = TypeVar("Answered", Completion, LabelReading)

# Part of every key, so that another way of making keys never meets these.
KEY_SCHEMA = "response-key/1"
KEY_BYTES = 16
# Kinds of answers in a store.
WRITE, LABELS = "write", "labels"
# Seconds; answers that come faster than this one after another are stored together.
BURST = 0.01


class Stored(Wrapper):
    """A backend that asks another one only for answers that a response store lacks."""

    stores_answers = True

    def __init__(self, backend: Backend, store: ResponseStore) -> None:
        super().__init__(backend)
        self.store = store
        # Answers from the store, and to prompts that appear again in their batch.
        self.reused = 0
        self._sent = 0
        # Keys of prompts that are asked anew, and were asked in this session.
        self._renewed: set[bytes] = set()

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Return a text for each prompt, from the store if it has one."""
        keys = write_keys(self.backend, prompts, sampling)
        return self._answer(
            WRITE,
            prompts,
            keys,
            lambda some: self.backend.write_each(some, sampling),
            read_completion,
        )

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Return a reading for each prompt, from the store if it has one."""
        keys = label_keys(self.backend, prompts, labels)
        return self._answer(
            LABELS,
            prompts,
            keys,
            lambda some: self.backend.read_labels_each(some, labels),
            read_reading,
        )

    def forget(self, prompts: Sequence[Prompt], sampling: Sampling) -> None:
        """Delete the texts of these prompts, so that they are written again."""
        if prompts:
            self.store.remove(write_keys(self.backend, prompts, sampling))

    @property
    def sent(self) -> int:
        """Return the number of prompts that were sent to the backend."""
        return self._sent

    def stored_texts(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> list[Completion | None]:
        """Return the text in the store for each prompt, or None."""
        keys = write_keys(self.backend, prompts, sampling)
        return self._stored(prompts, keys, read_completion)

    def stored_readings(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> list[LabelReading | None]:
        """Return the reading in the store for each prompt, or None."""
        keys = label_keys(self.backend, prompts, labels)
        return self._stored(prompts, keys, read_reading)

    def answer_seconds(self, kind: str) -> float | None:
        """Return the seconds that one of the latest stored answers of this backend took."""
        return self.store.answer_seconds(self.backend.fingerprint, kind)

    def _stored(
        self,
        prompts: Sequence[Prompt],
        keys: Sequence[bytes],
        read: Callable[[bytes], Answered],
    ) -> list[Answered | None]:
        found = self.store.find(keys)
        old = self._old(prompts, keys)
        answers = {key: read(text) for key, text in found.items() if key not in old}
        return list(map(answers.get, keys))

    def _old(self, prompts: Sequence[Prompt], keys: Sequence[bytes]) -> set[bytes]:
        """Return the keys whose stored answers are of an earlier session, and are asked anew."""
        if self.is_fixed:
            return set()
        anew = {key for prompt, key in zip(prompts, keys, strict=True) if prompt.anew}
        return anew - self._renewed

    def _answer(
        self,
        kind: str,
        prompts: Sequence[Prompt],
        keys: Sequence[bytes],
        ask: Callable[[Sequence[Prompt]], Iterator[tuple[int, Answered]]],
        read: Callable[[bytes], Answered],
    ) -> list[Answered]:
        """Find the answers, and ask for those that are missing, each once."""
        if old := self._old(prompts, keys):
            self.store.remove(list(old))
            self._renewed |= old
        answers = {key: read(text) for key, text in self.store.find(keys).items()}
        missing: dict[bytes, Prompt] = {}
        for key, prompt in zip(keys, prompts, strict=True):
            if key not in answers:
                missing.setdefault(key, prompt)
        if missing:
            answers.update(self._ask(kind, missing, ask))
        self._sent += len(missing)
        self.reused += len(keys) - len(missing)
        return [answers[key] for key in keys]

    def _ask(
        self,
        kind: str,
        missing: dict[bytes, Prompt],
        ask: Callable[[Sequence[Prompt]], Iterator[tuple[int, Answered]]],
    ) -> dict[bytes, Answered]:
        """Ask for what is missing, and store what comes as it comes."""
        keys, prompts = list(missing), list(missing.values())
        fingerprint = self.backend.fingerprint
        answers: dict[bytes, Answered] = {}
        held: list[tuple[bytes, str]] = []
        written = 0.0
        try:
            for number, answer in ask(prompts):
                answers[keys[number]] = answer
                # A line of a file may be corrected, and costs nothing to read again.
                is_read_again = self.wants_all and UNPARSED in (answer.note or "")
                text = None if is_read_again else dump(answer)
                if text is not None:
                    held.append((keys[number], text))
                if held and time.monotonic() > written + BURST:
                    self.store.add(fingerprint, kind, held)
                    held.clear()
                    written = time.monotonic()
        finally:
            # The backend may have stopped early: its answers so far are stored.
            self.store.add(fingerprint, kind, held)
        whole(self.backend, prompts, list(answers.values()))
        return answers


def _keys(head: object, prompts: Sequence[Prompt]) -> list[bytes]:
    """Return digests of canonical JSON: what a batch has in common, then all slots of each prompt, used or not."""
    encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
    # All but the slots is the same for most prompts of a batch.
    forms: dict[object, hashlib.blake2b] = {}
    keys = []
    for prompt in prompts:
        asked = (
            prompt.task,
            prompt.role,
            prompt.literals,
            prompt.names,
            prompt.labels,
            prompt.outcomes,
            prompt.claim,
        )
        form = *asked, prompt.prefix
        if form not in forms:
            forms[form] = hashlib.blake2b(encode((head, form)).encode(), digest_size=KEY_BYTES)
        state = forms[form].copy()
        state.update(encode(dict(prompt.slots)).encode())
        keys.append(state.digest())
    return keys


def write_keys(backend: Backend, prompts: Sequence[Prompt], sampling: Sampling) -> list[bytes]:
    """Return the keys of prompts for which a text is written; the number of a sample is its seed."""
    return _keys(
        (
            KEY_SCHEMA,
            "write",
            backend.stored_as,
            asdict(sampling.filled(backend.default_sampling)),
        ),
        prompts,
    )


def label_keys(backend: Backend, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[bytes]:
    """Return the keys of prompts for which labels are read, in this order."""
    return _keys((KEY_SCHEMA, "labels", backend.stored_as, list(labels)), prompts)


def dump(answer: Completion | LabelReading) -> str | None:
    """Return an answer as a JSON object without default values; None for a failure, which is not stored."""
    if isinstance(answer, Completion):
        if answer.finish == "error" or not is_unicode(answer.text + (answer.note or "")):
            return None
        fields: dict[str, object] = {"text": answer.text, "finish": answer.finish}
        fields["note"] = answer.note
        if answer.cut:
            fields["cut"] = True
        return json.dumps(fields, separators=(",", ":"))
    if (
        answer.logprobs is None
        or impossible(answer.logprobs, answer.mass)
        or not is_unicode(answer.note or "")
    ):
        return None
    # Written out, as it is done a million times: float() also takes what numpy gives.
    logprobs = ",".join([repr(float(value)) for value in answer.logprobs])
    mass = "null" if answer.mass is None else repr(float(answer.mass))
    rest = ',"cut":true' if answer.cut else ""
    if answer.exactness != "exact":
        rest += f',"exactness":"{answer.exactness}"'
    return f'{{"logprobs":[{logprobs}],"mass":{mass},"note":{json.dumps(answer.note)}{rest}}}'


def read_completion(text: bytes) -> Completion:
    """Return a completion from the text that `dump` returned."""
    return adapter(Completion).validate_json(text)


def read_reading(text: bytes) -> LabelReading:
    """Return a reading from the text that `dump` returned; unparsed if the stored numbers are impossible."""
    return possible(adapter(LabelReading).validate_json(text), "the response store holds")
