"""A reward model of transformers: a sequence classifier with one output, which reads a conversation."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from refladder.backends.hf.backend import TransformersBackend, flag
from refladder.backends.hf.loading import CLASSIFIER, open_model, parse_memory
from refladder.backends.hf.readers import Encoded, Reader
from refladder.backends.rewards import NO_DIMENSION, WritesNothing, check_role, reward_reading
from refladder.engine.memory import usable_memory
from refladder.errors import BackendUnavailableError
from refladder.records import LabelReading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.backends.hf.loading import Opened
    from refladder.records import Prompt

# Texts read together: a killed run loses at most this many.
_GROUP = 256


class RewardBackend(WritesNothing, TransformersBackend):
    """The pooled logit of a sequence classifier, whose last turn is the text in question; read whole, in batches."""

    kind = "reward"
    rewards = True

    def __init__(self, opened: Opened, *, memory: int | None, truncate_context: bool) -> None:
        if (outputs := int(opened.config.num_labels)) != 1:
            raise BackendUnavailableError(
                f"reward:{opened.name} has {outputs} outputs, and a reward model has one; name a sequence classifier "
                "that was trained with num_labels=1"
            )
        if not getattr(opened.tokenizer, "chat_template", None):
            raise BackendUnavailableError(
                f"reward:{opened.name}: its tokenizer has no chat template, so the text cannot be shown as an answer; "
                "use a reward model that reads conversations, or save its template with the tokenizer"
            )
        super().__init__(opened, memory=memory, truncate_context=truncate_context)

    @cached_property
    def _reader(self) -> Reader:
        """Return the model with its weights, in batches that fit in memory."""
        self._memory = self._requested_memory
        if self._memory is None:
            self._memory = usable_memory(self.opened.model.device)
        return Reader(self.opened, self._memory)

    def load(self) -> None:
        """Read the weights now."""
        _ = self._reader

    @property
    def notice(self) -> str:
        """Return one line: the model has no dimension."""
        return f"reward:{self.opened.name}: {NO_DIMENSION}"

    def read_labels_each(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> Iterator[tuple[int, LabelReading]]:
        """Yield the number of each prompt and its reward as a reading of win and loss; a reason if there is none."""
        check_role(self.fingerprint, prompts)
        for first in range(0, len(prompts), _GROUP):
            fitted = [*self._fitted(prompts[first : first + _GROUP], self._encoded, len)]
            rows = []
            for ids, note in fitted:
                if ids is not None:
                    rows.append(Encoded(ids, None, cut=note is not None))
            logits = iter(
                self._reader.run(rows, lambda model, arguments: model(**arguments).logits)
            )
            tokens = sum(len(row.ids) for row in rows)
            self.tokens_sent += tokens
            self._prompt_tokens_run += tokens
            for number, (ids, note) in enumerate(fitted, start=first):
                reading = LabelReading(reason=note)
                if ids is not None:
                    reward = float(next(logits)[0])
                    reading = reward_reading(reward, labels, note=note, cut=note is not None)
                yield number, reading

    def count_distinct_tokens(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> int:
        """Return the number of all tokens, without loading weights."""
        return sum(self.count_tokens(prompts))

    def count_label_tokens(self, prompt: Prompt, labels: Sequence[str]) -> None:
        """Return None: a text cannot be read as a label."""

    def _encoded(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        return self.tokens.conversations([prompt.messages for prompt in prompts])


def open_local(
    target: str,
    *,
    memory: str = "auto",
    truncate_context: str = "false",
    trust_remote_code: str = "false",
    **options: Any,
) -> RewardBackend:
    """Open a reward model of the Hub or a folder, with all options of `open_hf` but prefix."""
    allowed = parse_memory(memory)
    truncate = flag("truncate_context", truncate_context)
    trust = flag("trust_remote_code", trust_remote_code)
    opened = open_model(
        target, kind=CLASSIFIER, prefix="reward:", trust_remote_code=trust, **options
    )
    return RewardBackend(opened, memory=allowed, truncate_context=truncate)
