"""Requests to one model in the dialect of its server, and tokens from its tokenizer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from refladder.backends.openai.transport import Refusal
from refladder.errors import BackendUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.openai.batch import Batches
    from refladder.backends.openai.options import Options
    from refladder.backends.openai.server import Server

Messages = list[dict[str, str]]
Source = Literal["server", "template", "local"]

PROBE_LABELS = ("Better", "Worse", "Similar")
PROBE: Messages = [
    {
        "role": "user",
        "content": "A summary of three sentences is compared with one of two words. Is it better, worse or similar? "
        'Answer with only one of these three words: "Better", "Worse" or "Similar".',
    }
]
# Asked one after the other until there is an answer: a base model may end at once.
QUESTIONS: tuple[Messages, ...] = (
    PROBE,
    [{"role": "user", "content": "Count from one to nine in words."}],
    [{"role": "user", "content": "Monday, Tuesday, Wednesday, Thursday,"}],  # for a model that only continues texts
)


class Impossible(Exception):  # noqa: N818  control flow of the handshake
    """The server does not support a mode of reading labels; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form of requests that a server accepts, learnt from the first requests.

    Attributes:
        length_field: the name of the limit on an answer's tokens.
        tempered: whether a temperature may be given.
        tokens: where token ids come from: `server` (messages to /tokenize), `template` (/apply-template, then
            /tokenize), `local` (the option `tokenizer`), or None.
    """

    length_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    tempered: bool = True
    tokens: Source | None = None


@dataclass(slots=True, kw_only=True)
class Talk:
    """One model on an open server; `ways` keeps the token ids of labels between rows.

    The handshake asks `question` wherever it needs an answer: the first of QUESTIONS that the model answers.
    """

    server: Server | Batches
    model: str
    options: Options
    dialect: Dialect = field(default_factory=Dialect)
    ways: dict[tuple[str, ...], asyncio.Task[LabelIds]] = field(default_factory=dict)
    question: Messages = field(default_factory=lambda: PROBE)

    async def chat(self, messages: Messages, *, most: int, temperature: float, **more: Any) -> list[Any]:  # noqa: ANN401
        """The choices of one chat answer, at most `most` tokens each."""
        body: dict[str, Any] = {"model": self.model, "messages": messages, self.dialect.length_field: most, **more}
        if self.dialect.tempered:
            body["temperature"] = temperature
        return choices_of(await self.server.post("/chat/completions", body))

    async def complete(self, prompt: str | Sequence[int], **more: Any) -> list[Any]:  # noqa: ANN401
        """The choices of one completion of a text or of token ids, one token long, the most probable."""
        body = {"model": self.model, "prompt": prompt, "max_tokens": 1, "temperature": 0, **more}
        return choices_of(await self.server.post("/completions", body))

    @property
    def root(self) -> str:
        """The server's address without `/v1`: the root of paths that OpenAI's interface does not have."""
        return self.options.base_url.removesuffix("/v1")

    async def rendered(self, messages: Messages) -> str:
        """The prompt rendered by the chat template, up to the beginning of the answer."""
        if self.dialect.tokens == "local":
            return str(self._tokenizer().apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        answer = await self.server.post(f"{self.root}/apply-template", {"messages": messages})
        text = answer.get("prompt")
        if not isinstance(text, str):
            raise Refusal("/apply-template gave no prompt")
        return text

    async def ids(self, messages: Messages, label: str = "") -> list[int]:
        """Token ids of a prompt up to the beginning of the answer, followed by those of `label`."""
        if self.dialect.tokens == "server":
            body: dict[str, Any] = {"model": self.model, "messages": messages, "add_generation_prompt": True}
            if label:
                said = [*messages, {"role": "assistant", "content": label}]
                body |= {"messages": said, "add_generation_prompt": False, "continue_final_message": True}
            answer = await self.server.post(f"{self.root}/tokenize", body)
            return _whole_numbers(answer.get("tokens"))
        text = await self.rendered(messages) + label
        if self.dialect.tokens == "local":
            return [int(token) for token in self._tokenizer().encode(text, add_special_tokens=False)]
        body = {"content": text, "add_special": True, "parse_special": True}
        answer = await self.server.post(f"{self.root}/tokenize", body)
        tokens = _whole_numbers(answer.get("tokens"))
        two_beginnings = len(tokens) > 1 and tokens[0] == tokens[1]  # a template that writes its own BOS
        return tokens[1:] if two_beginnings else tokens

    async def label_ids(self, labels: tuple[str, ...]) -> LabelIds:
        """The token ids of labels as answers; requested once for all rows."""
        if labels not in self.ways:
            self.ways[labels] = asyncio.create_task(self._label_ids(labels))
        return await asyncio.shield(self.ways[labels])

    async def _label_ids(self, labels: tuple[str, ...]) -> LabelIds:
        prompt, *answered = await asyncio.gather(self.ids(PROBE), *(self.ids(PROBE, label) for label in labels))
        common = len(prompt)
        for ids in answered:
            while prompt[:common] != ids[:common]:
                common -= 1
        sequences = tuple(tuple(ids[common:]) for ids in answered)
        if len(prompt) - common > _MOST_MERGED or not all(sequences) or len(set(sequences)) < len(labels):
            raise Refusal(f"its tokenizer does not keep the labels {', '.join(labels)} apart from the prompt")
        return LabelIds(sequences=sequences, merged=len(prompt) - common)

    def _tokenizer(self) -> Any:  # noqa: ANN401  a transformers tokenizer
        return local_tokenizer(str(self.options.tokenizer))


_MOST_MERGED = 4  # tokens of a template's end that a label may merge with
_TOKENIZERS: dict[str, Any] = {}


def local_tokenizer(name: str) -> Any:  # noqa: ANN401  a transformers tokenizer
    """The tokenizer of the option `tokenizer`, loaded once."""
    if name not in _TOKENIZERS:
        try:
            from transformers import AutoTokenizer  # noqa: PLC0415  heavy and optional
        except ImportError:
            raise BackendUnavailableError("the option tokenizer needs transformers; pip install transformers") from None
        try:
            _TOKENIZERS[name] = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise BackendUnavailableError(f"tokenizer {name!r} cannot be loaded: {str(error)[:200]}") from None
    return _TOKENIZERS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelIds:
    """Token ids of labels; `merged` tokens at a prompt's end are part of them, because a label merges with them."""

    sequences: tuple[tuple[int, ...], ...]
    merged: int


def choices_of(answer: dict[str, Any]) -> list[Any]:
    """The choices of an answer."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise Refusal("the answer holds no choices")
    return choices


def _whole_numbers(tokens: Any) -> list[int]:  # noqa: ANN401  a server's JSON
    if not isinstance(tokens, list) or not tokens or not all(type(token) is int for token in tokens):
        raise Refusal("/tokenize gave no token ids")
    return tokens
