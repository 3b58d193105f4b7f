"""Reward models on SGLang (`/classify` of a text) and vLLM (`/pooling` or `/classify` of messages or a text)."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.openai.backend import PROVEN_FOR, OpenAIBackend, checked_packages
from refladder.backends.openai.client import Capabilities, Client, Messages, in_order_of_index
from refladder.backends.openai.errors import Refusal, at, changed
from refladder.backends.openai.options import Options, read_headers, read_options
from refladder.backends.rewards import NO_DIMENSION, WritesNothing, check_role, reward_reading
from refladder.errors import BackendUnavailableError, UsageError, option
from refladder.records import LabelReading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.records import Prompt


class _Route(NamedTuple):
    """A path of a server, its field for a conversation (`messages`, or its text), and its field for the numbers."""

    path: str
    field: str
    found: str


ROUTES = {
    # SGLang
    "classify:text": _Route("/classify", "text", "embedding"),
    # The other paths belong to vLLM.
    "pooling": _Route("/pooling", "messages", "data"),
    "classify": _Route("/classify", "messages", "probs"),
    "pooling:input": _Route("/pooling", "input", "data"),
    "classify:input": _Route("/classify", "input", "probs"),
}
_ASKED = {"role": "user", "content": "What is the capital of France?"}
_TRIED: tuple[Messages, ...] = (
    [_ASKED, {"role": "assistant", "content": "The capital of France is Paris."}],
    [_ASKED, {"role": "assistant", "content": "no no no no"}],
)
# Options
_OF_OTHERS = {"mode", "samples", "answer_tokens", "prefix", "probe_cache", "system"}
_NO_TOKENIZER = "it takes texts in the chat template, and no tokenizer was named"


class RewardServerBackend(WritesNothing, OpenAIBackend):
    """A reward model on a server; each text is one request."""

    kind = "reward"
    rewards = True
    _route = ""

    @property
    def capabilities(self) -> Capabilities:
        """Return what is known of the server, which is found out at the first use."""
        if self._capabilities is None:
            self._route = self._do(_find)
            self._unproven = PROVEN_FOR
            self._capabilities = Capabilities(mode="exact")
        return self._capabilities

    def _relying(self, capabilities: Capabilities, prompts: Sequence[Prompt]) -> int:
        """Return the number of texts whose reward may be squashed."""
        return 0 if ROUTES[self._route].field == "text" else len(prompts)

    async def _check_again(self, client: Client, capabilities: Capabilities) -> None:
        """Raise Refusal if the server squashes rewards now."""
        route = ROUTES[self._route]
        try:
            await _check_raw(
                client, route, [await _reward(client, route, messages) for messages in _TRIED]
            )
        except Refusal as refusal:
            raise changed(refusal.reason) from None

    @property
    def _mode(self) -> str:
        _ = self.capabilities
        return self._route

    @property
    def notice(self) -> str:
        """Return how rewards are read, in one line for people."""
        return f"{self.model} at {self.options.base_url}: rewards [{self._mode}]; {NO_DIMENSION}"

    @property
    def label_tokens(self) -> int:
        """Return 0: rewards are read, not generated."""
        return 0

    def read_labels_each(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> Iterator[tuple[int, LabelReading]]:
        """Yield the position of each text and its reward as a reading of win and loss, see `OpenAIBackend`."""
        check_role(self.fingerprint, prompts)
        asked = tuple(labels)

        async def answer(client: Client, prompt: Prompt) -> LabelReading:
            return reward_reading(
                await _reward(client, ROUTES[self._route], prompt.messages), asked
            )

        return self._each(prompts, answer, lambda why: LabelReading(reason=why))


async def _find(client: Client) -> str:
    """Return the name of the first path that gives one number for a text."""
    refused = []
    for name, route in ROUTES.items():
        try:
            values = [await _reward(client, route, messages) for messages in _TRIED]
            if route.field != "text":
                await _check_raw(client, route, values)
        except Refusal as refusal:
            if refusal.status is None or (refusal.ends_the_run and refusal.status != 404):
                raise
            refused.append(f"{name}: {refusal.reason}")
        else:
            return name
    raise BackendUnavailableError(
        f"{client.options.base_url}: {client.model!r} gives no reward there ({'; '.join(refused)}); serve a reward model "
        f"with vLLM, or with SGLang and {option('judge-option')} tokenizer=PATH"
    )


async def _check_raw(client: Client, route: _Route, values: Sequence[float]) -> None:
    """Refuse a server that squashes rewards to 0..1 whatever `use_activation` says."""
    squashed = [await _reward(client, route, messages, use_activation=True) for messages in _TRIED]
    if list(values) == squashed and all(0 <= value <= 1 for value in values):
        shown = " and ".join(f"{value:.3g}" for value in values)
        raise Refusal(
            f"it ignores use_activation: two answers get {shown} with true and with false, so these are no raw "
            "rewards; update vLLM"
        )


async def _reward(
    client: Client, route: _Route, messages: Messages, *, use_activation: bool = False
) -> float:
    """Return the one number that a server gives a conversation."""
    asked: Any = messages
    if route.field != "messages":
        if client.options.tokenizer is None:
            raise Refusal(_NO_TOKENIZER)
        asked = [client.conversation(messages)]
    switch = {} if route.field == "text" else {"use_activation": use_activation}
    answer = await client.post(
        f"{client.root}{route.path}", {"model": client.model, route.field: asked, **switch}
    )
    entries = answer.get("data")
    if not isinstance(entries, list):
        entries = []
    (entry,) = in_order_of_index(entries, 1, "entries of data")
    numbers = at(entry, route.found)
    if not isinstance(numbers, list):
        numbers = [numbers]
    if len(numbers) != 1 or isinstance(numbers[0], bool) or not isinstance(numbers[0], int | float):
        found = f"{len(numbers)} numbers" if len(numbers) > 1 else "no number"
        raise Refusal(f"{route.path} gave {found} for a text, and a reward model gives one")
    return float(numbers[0])


def open_served(target: str, **given: Any) -> RewardServerBackend:
    """Open a reward model on a server; it has the options of `Options` that concern no labels."""
    checked_packages("reward:MODEL")
    options = read_options(given)
    if options.folder is not None:
        raise UsageError(
            f"reward:{target} is asked on a server, and {options.base_url} is a folder; name its URL"
        )
    return RewardServerBackend(target, options, headers=read_headers(options))


open_served.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [each for name, each in inspect.signature(Options).parameters.items() if name not in _OF_OTHERS]
)
