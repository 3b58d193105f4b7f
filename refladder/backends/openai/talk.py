"""Requests to one model in the dialect of its server, what is known of that server, and tokens from its tokenizer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from refladder.backends.openai.transport import Refusal
from refladder.errors import BackendUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.openai.batch import Batches
    from refladder.backends.openai.options import Options
    from refladder.backends.openai.server import Server
    from refladder.backends.openai.transport import Tally

Messages = list[dict[str, str]]
Source = Literal["server", "template", "local"]
Mode = Literal["exact", "echo", "echo-plain", "top", "sample"]
Way = Literal["", "token-ids", "score", "vocabulary", "prompt"]
Continued = Literal["", "prefill", "grammar"]

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
PLAIN_TOKENS = 16  # an answer of one word, with room for quotes and a full stop
_THINKING_TOKENS = 4096
_MOST_MERGED = 4  # tokens of a template's end that a label may merge with


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form of requests that a server accepts, learnt from the first requests.

    Attributes:
        length_field: the name of the limit on an answer's tokens.
        tempered: whether a temperature may be given.
        tokens: where token ids come from: `server` (messages to /tokenize), `template` (/apply-template, then
            /tokenize), `local` (the option `tokenizer`), or None.
        under_base: whether /tokenize and /apply-template lie under the base URL (a proxy that forwards `/v1` only), and
            not at the server's root.
    """

    length_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    tempered: bool = True
    tokens: Source | None = None
    under_base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How labels are read from one model on one server.

    Attributes:
        mode: how; see `probe`.
        way: variant of the mode `exact`; see `exact`.
        dialect: the form of requests that the server accepts.
        top: number of most probable tokens that a request returns, in the mode `top`.
        goes_on: how an answer that was begun is completed, in the mode `top`: `prefill`, the server continues the
            beginning of an answer; `grammar`, it answers in a given form, and its log-probabilities are those without
            the form; or not at all.
        several: whether a request can return several answers.
        fixed: whether the server always returns the same answer, so that sampling is a single vote.
        thinks: whether the model thinks before it answers.
        refused: why each better mode is not used, "mode: reason".
    """

    mode: Mode
    way: Way = ""
    dialect: Dialect = field(default_factory=Dialect)
    top: int = 0
    goes_on: Continued = ""
    several: bool = False
    fixed: bool = False
    thinks: bool = False
    refused: tuple[str, ...] = ()

    def name(self, samples: int) -> str:
        """The mode in one word, as in fingerprints."""
        if self.mode == "sample":
            return "sample1-fixed" if self.fixed else f"sample{samples}"
        if self.mode == "top":
            return f"top{self.top}{'-completed' if self.goes_on else ''}"
        return f"{self.mode}:{self.way}" if self.way else self.mode

    def answers(self, options: Options) -> int:
        """Number of answers that are sampled for a prompt."""
        return 1 if self.fixed else options.samples

    def answer_tokens(self, options: Options) -> int:
        """Maximum number of tokens of a sampled answer."""
        return options.answer_tokens or (_THINKING_TOKENS if self.thinks else PLAIN_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelIds:
    """Token ids of labels; `merged` tokens at a prompt's end are part of them, because a label merges with them."""

    sequences: tuple[tuple[int, ...], ...]
    merged: int


@dataclass(slots=True, kw_only=True)
class Talk:
    """One model on an open server; `ways` keeps the token ids of labels between rows.

    The handshake asks `question` wherever it needs an answer: the first of QUESTIONS that the model answers. While
    `settling`, after a first answer, a 401 or 403 is the refusal of a feature or a path, and not of the key.
    """

    server: Server | Batches
    model: str
    options: Options
    tally: Tally
    dialect: Dialect = field(default_factory=Dialect)
    ways: dict[tuple[str, ...], asyncio.Task[LabelIds]] = field(default_factory=dict)
    question: Messages = field(default_factory=lambda: PROBE)
    settling: bool = False

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """As `Server.post`."""
        try:
            return await self.server.post(path, body)
        except Refusal as refusal:
            if not self.settling or refusal.status not in (401, 403):
                raise
            raise Refusal(f"the server answered {refusal.status}: {refusal.said}", status=refusal.status) from None

    async def chat(self, messages: Messages, *, most: int, temperature: float, **more: Any) -> list[Any]:  # noqa: ANN401
        """The choices of one chat answer, at most `most` tokens each."""
        body: dict[str, Any] = {"model": self.model, "messages": messages, self.dialect.length_field: most, **more}
        if self.dialect.tempered:
            body["temperature"] = temperature
        return _choices(await self.post("/chat/completions", body))

    async def likely(self, messages: Messages, top: int, *, most: int = 1, **more: Any) -> Any:  # noqa: ANN401
        """The most probable answer, of `most` tokens, with the `top` most probable tokens at each position."""
        asked = {"most": most, "temperature": 0, "logprobs": True, "top_logprobs": top}
        return (await self.chat(messages, **asked, **more))[0]

    async def complete(self, prompt: str | Sequence[int], **more: Any) -> Any:  # noqa: ANN401
        """One completion of a text or of token ids, one token long, the most probable."""
        body = {"model": self.model, "prompt": prompt, "max_tokens": 1, "temperature": 0, **more}
        return _choices(await self.post("/completions", body))[0]

    @property
    def root(self) -> str:
        """Where the paths are that OpenAI's interface does not have: usually the address without `/v1`."""
        return self.options.address if self.dialect.under_base else self.options.address.removesuffix("/v1")

    async def rendered(self, messages: Messages) -> str:
        """The prompt rendered by the chat template, up to the beginning of the answer."""
        if self.dialect.tokens == "local":
            return str(self._tokenizer().apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        answer = await self.post(f"{self.root}/apply-template", {"messages": messages})
        text = answer.get("prompt")
        if not isinstance(text, str):
            raise Refusal("/apply-template gave no prompt")
        return text

    def conversation(self, messages: Messages) -> str:
        """A finished conversation in the template of the option `tokenizer`, without a BOS that the server adds too."""
        tokenizer = self._tokenizer()
        text = str(tokenizer.apply_chat_template(messages, tokenize=False))
        first = str(tokenizer.bos_token or "")
        twice = first and list(tokenizer(text)["input_ids"])[:2] == [tokenizer.bos_token_id] * 2
        return text.removeprefix(first) if twice else text

    async def ids(self, messages: Messages, label: str = "") -> list[int]:
        """Token ids of a prompt up to the beginning of the answer, followed by those of `label`."""
        if self.dialect.tokens == "server":
            body: dict[str, Any] = {"model": self.model, "messages": messages, "add_generation_prompt": True}
            if label:
                said = [*messages, {"role": "assistant", "content": label}]
                body |= {"messages": said, "add_generation_prompt": False, "continue_final_message": True}
        else:
            text = await self.rendered(messages) + label
            if self.dialect.tokens == "local":
                return [int(token) for token in self._tokenizer().encode(text, add_special_tokens=False)]
            body = {"content": text, "add_special": True, "parse_special": True}
        tokens = (await self.post(f"{self.root}/tokenize", body)).get("tokens")
        if not isinstance(tokens, list) or not tokens or not all(type(token) is int for token in tokens):
            raise Refusal("/tokenize gave no token ids")
        two_beginnings = (
            self.dialect.tokens == "template" and tokens[:1] == tokens[1:2]
        )  # the template writes a BOS too
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
        return _local_tokenizer(str(self.options.tokenizer))


@cache
def _local_tokenizer(name: str) -> Any:  # noqa: ANN401  a transformers tokenizer
    """The tokenizer of the option `tokenizer`."""
    try:
        from transformers import AutoTokenizer  # noqa: PLC0415  heavy and optional
    except ImportError:
        raise BackendUnavailableError("the option tokenizer needs transformers; pip install transformers") from None
    try:
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise BackendUnavailableError(f"tokenizer {name!r} cannot be loaded: {str(error)[:200]}") from None


def _choices(answer: dict[str, Any]) -> list[Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise Refusal("the answer holds no choices")
    return choices
