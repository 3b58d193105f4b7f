"""Requests to one model in the dialect of its server, the server's capabilities, and tokens from its tokenizer."""

from __future__ import annotations

import asyncio
import itertools
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from refladder.backends.labels import both_count, ids_after, shortened, spellings_after
from refladder.backends.openai.errors import LOG, Refusal, at, changed
from refladder.backends.openai.responses import parse_answer
from refladder.errors import BackendUnavailableError, MissingPackageError, agreeing, plural
from refladder.records import without_none

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from refladder.backends.openai.answer_files import AnswerFiles
    from refladder.backends.openai.connection import Connection
    from refladder.backends.openai.errors import Tally
    from refladder.backends.openai.options import Options
    from refladder.records import Prompt

Messages = list[dict[str, str]]
Source = Literal["server", "template", "local"]
Mode = Literal["exact", "top", "sample", "write"]
Variant = Literal["", "token-ids", "score", "vocabulary"]
Completed = Literal["", "prefill", "grammar"]
PrefixUse = Literal["on", "off", "unsupported"]

PROBE_LABELS = "Better", "Worse", "Similar"
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
    # A base model only continues texts.
    [{"role": "user", "content": "Monday, Tuesday, Wednesday, Thursday,"}],
)
# vLLM, SGLang; llama-server needs neither.
_CONTINUE = {"add_generation_prompt": False, "continue_final_message": True}
NOT_CONTINUED = (
    "it no longer continues an answer that was begun, as it did in the handshake (prefix:on)"
)
_OF_THE_BEGINNING = re.compile(
    "continue_final_message|add_generation_prompt|assistant|prefill", re.IGNORECASE
)
# Fewest characters that show a repeated prefix; one letter may be a label.
_FEWEST_CHARACTERS = 3
# Fields that keep a model from thinking, by the name that fingerprints show.
SWITCHES: dict[str, dict[str, object]] = {
    # vLLM, SGLang: Qwen, GLM.
    "enable_thinking": {"chat_template_kwargs": {"enable_thinking": False}},
    # vLLM, SGLang: DeepSeek, Kimi.
    "template-thinking": {"chat_template_kwargs": {"thinking": False}},
    # DeepSeek
    "thinking": {"thinking": {"type": "disabled"}},
    # Servers: OpenAI and Ollama.
    "reasoning_effort": {"reasoning_effort": "none"},
    # OpenRouter
    "reasoning": {"reasoning": {"effort": "none"}},
}
# An answer of one word, with room for quotes and a full stop.
PLAIN_TOKENS = 16
THINKING_TOKENS = 4096
# Tokens of a template's end that a label may merge with.
_MOST_MERGED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form of requests that a server accepts, learnt from the first requests."""

    # Limit on an answer's tokens.
    length_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    # Fields that it refuses, which are left out; without the role `system`, its text begins the user's message.
    refused: tuple[str, ...] = ()
    # The source of token ids, see `find_tokens`.
    tokens: Source | None = None
    # Whether /tokenize and /apply-template are under the base URL, not at the server's root.
    under_base: bool = False
    # A key of SWITCHES; empty if none is needed, or none works.
    switch: str = ""

    @property
    def tempered(self) -> bool:
        """Return whether a temperature and a top-p may be given."""
        return "temperature" not in self.refused

    @property
    def refusals(self) -> list[str]:
        """Return what is left out of requests, for people."""
        said = []
        if fields := [name for name in self.refused if name != "system"]:
            verb = agreeing(len(fields), "which is", "which are")
            field = agreeing(len(fields), "the field", "the fields")
            said.append(f"it refuses {field} {' and '.join(fields)}, {verb} left out")
        if not self.tempered:
            said[-1] += ", so another run may give other answers"
        if "system" in self.refused:
            said.append("it takes no system message, so that text begins each question")
        return said

    def switched(self, switch: str) -> Dialect:
        """Return this dialect with thoughts switched off, after which a temperature may be given."""
        refused = tuple(name for name in self.refused if name != "temperature")
        return replace(self, switch=switch, refused=refused)

    def form(self, messages: Messages) -> Messages:
        """Return messages as the server takes them."""
        if "system" not in self.refused or messages[0]["role"] != "system":
            return messages
        system, user, *more = messages
        return [{**user, "content": f"{system['content']}\n\n{user['content']}"}, *more]

    def without(
        self, refusal: Refusal, sent: Mapping[str, object], extra: Collection[str]
    ) -> Dialect | None:
        """Return the dialect without a field that the refusal of a request names; None if it names none that can be spared.

        `sent` are the fields of the request, with `system` for a message of that role, and `extra` those of the user.
        """
        if refusal.status not in (400, 422):
            return None

        def names(name: str) -> bool:
            if refusal.named in sent:
                return refusal.named == name
            return re.search(rf"(?<!\w){name}(?!\w)", refusal.about, re.IGNORECASE) is not None

        if "max_tokens" in sent and (names("max_tokens") or names("max_completion_tokens")):
            return replace(self, length_field="max_completion_tokens")
        # A top-p of 1 changes nothing where the server takes none.
        drawn = ("seed", *(["top_p"] if sent.get("top_p") == 1 else []), "temperature")
        for name in (*extra, *drawn, "system"):
            if name in sent and name not in self.refused and names(name):
                return replace(self, refused=(*self.refused, name))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """How labels are read from one model on one server."""

    # See `handshake`.
    mode: Mode
    # Variant of `exact`.
    variant: Variant = ""
    dialect: Dialect = field(default_factory=Dialect)
    # Number of most probable tokens in an answer, in the mode `top`.
    top: int = 0
    # `top`: how a begun answer is completed, by the server or in a given form.
    completion: Completed = ""
    # Whether a request can return several answers.
    several: bool = False
    # Whether a request can hold many prompts, in the mode `exact`.
    together: bool = False
    # Whether the server always returns the same answer: sampling is a single vote.
    fixed: bool = False
    # Whether the model thinks before it answers.
    thinks: bool = False
    # Off by the option; unsupported: not continued, or after thoughts.
    prefix: PrefixUse = "unsupported"
    # Why each better mode is not used, "mode: reason".
    refused: tuple[str, ...] = ()

    def messages(self, prompt: Prompt, options: Options) -> Messages:
        """Return a prompt as messages; the last one begins the answer if the prompt has a prefix."""
        prefix = prompt.prefix if self.prefix == "on" else ""
        return begun_answer(with_system(options, prompt.messages), prefix)

    def name(self, samples: int) -> str:
        """Return the mode in one word, as in fingerprints."""
        if self.mode == "write":
            # Labels would be read so; answers in files, of which nothing is asked either, have the same words.
            return f"sample{samples}"
        if self.mode == "sample":
            return "sample1-fixed" if self.fixed else f"sample{samples}"
        if self.mode == "top":
            return f"top{self.top}-completed" if self.completion else f"top{self.top}"
        return f"{self.mode}:{self.variant}" if self.variant else self.mode

    def answers(self, options: Options) -> int:
        """Return the number of answers that are sampled for a prompt."""
        return 1 if self.fixed else options.samples

    def answer_tokens(self, options: Options) -> int:
        """Return the maximum number of tokens of a sampled answer."""
        return options.answer_tokens or (THINKING_TOKENS if self.thinks else PLAIN_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelIds:
    """Token ids of the spellings of each label behind `prefix`; `merged` tokens of the prompt's end belong to them.

    `tail` are the tokens with which every prompt ends that the server has continued by `prefix`.
    """

    groups: tuple[tuple[tuple[int, ...], ...], ...]
    merged: int
    prefix: str = ""
    tail: tuple[int, ...] = ()

    @property
    def sequences(self) -> tuple[tuple[int, ...], ...]:
        """Return the spellings of all labels."""
        return tuple(itertools.chain(*self.groups))


def with_system(options: Options, messages: Messages) -> Messages:
    """Return messages after the instruction of the options, if there is one."""
    system = [{"role": "system", "content": options.system}] if options.system else []
    return [*system, *messages]


def begun_answer(messages: Messages, text: str) -> Messages:
    """Return messages and the beginning of the answer, if there is one."""
    return [*messages, {"role": "assistant", "content": text}] if text else messages


def split_answer(messages: Messages) -> tuple[Messages, str]:
    """Return messages without the beginning of the answer, and that beginning."""
    if messages[-1]["role"] != "assistant":
        return messages, ""
    return messages[:-1], messages[-1]["content"]


@dataclass(slots=True, kw_only=True)
class Client:
    """One model on an open server; `label_tasks` keeps the token ids of labels between rows.

    The handshake asks `question` wherever it needs an answer: the first of QUESTIONS that the model answers. While
    `settling`, after a first answer, a 401 or 403 is the refusal of a feature or a path, and not of the key. While
    `learning`, a request that is refused for one of its fields is sent again without it.
    """

    server: Connection | AnswerFiles
    model: str
    options: Options
    tally: Tally
    dialect: Dialect = field(default_factory=Dialect)
    label_tasks: dict[tuple[tuple[str, ...], str], asyncio.Task[LabelIds]] = field(
        default_factory=dict
    )
    question: Messages = field(default_factory=lambda: PROBE)
    settling: bool = False
    learning: bool = False

    async def post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        """Post a request, see `Connection.post`."""
        try:
            return await self.server.post(path, body)
        except Refusal as refusal:
            if not self.settling or refusal.status not in (401, 403):
                raise
            raise Refusal(
                f"the server answered {refusal.status}: {refusal.said}", status=refusal.status
            ) from None

    async def chat(
        self, messages: Messages, *, most: int, temperature: float, **more: Any
    ) -> list[Any]:
        """Return the choices of one chat answer, at most `most` tokens each."""
        begun = split_answer(messages)[1]
        while True:
            dialect = self.dialect
            body = self._body(messages, most, {"temperature": temperature, **more})
            try:
                choices = _choices(await self.post("/chat/completions", body))
                break
            except Refusal as refusal:
                if self.learning and self._learnt(dialect, refusal, body):
                    continue
                # After the handshake, the server was seen to continue an answer.
                known = begun and not self.settling and refusal.status in (400, 422)
                if known and _OF_THE_BEGINNING.search(refusal.reason):
                    raise changed(NOT_CONTINUED) from None
                raise
        _check_number(choices, more.get("n", 1))
        switch = self.dialect.switch
        if self.settling or not (switch or begun):
            return choices
        answers = [parse_answer(choice) for choice in choices]
        if switch and any(answer.thought for answer in answers):
            reason = f"the model thinks again before it answers, though the handshake switched that off ({switch})"
            raise changed(reason)
        if begun and any(_begins_anew(answer.text, begun) for answer in answers):
            raise changed(NOT_CONTINUED)
        return choices

    def _body(
        self, messages: Messages, most: int, drawn: Mapping[str, object]
    ) -> dict[str, object]:
        """Return the fields of a request for chat answers; a field of the user's that is refused is None."""
        dialect, extra = self.dialect, self.options.extra
        body: dict[str, object] = {
            "model": self.model,
            "messages": dialect.form(messages),
            dialect.length_field: most,
            **drawn,
            **SWITCHES.get(dialect.switch, {}),
        }
        if split_answer(messages)[1]:
            body |= _CONTINUE
        refused = {*dialect.refused, *(() if dialect.tempered else ("top_p",))}
        kept = {name: value for name, value in body.items() if name not in refused}
        return kept | dict.fromkeys(refused & extra.keys())

    def _learnt(self, dialect: Dialect, refusal: Refusal, body: Mapping[str, object]) -> bool:
        """Take the refusal of a request in a dialect; return whether it can be sent in another form."""
        if self.dialect != dialect:
            # Another request has found it out.
            return True
        sent = self.options.sent(body)
        messages: Any = body["messages"]
        if messages[0]["role"] == "system":
            sent["system"] = messages[0]
        learnt = dialect.without(refusal, sent, self.options.extra)
        if learnt is None:
            return False
        LOG.debug("%s: another form of requests, since %s", self.model, refusal.reason)
        self.dialect = learnt
        return True

    async def likely(self, messages: Messages, top: int, *, most: int = 1, **more: Any) -> Any:
        """Return the most probable answer, of `most` tokens, with the `top` most probable tokens at each position."""
        asked = {"most": most, "temperature": 0, "logprobs": True, "top_logprobs": top}
        return (await self.chat(messages, **asked, **more))[0]

    async def complete(self, prompts: Sequence[Sequence[int]], **more: Any) -> list[Any]:
        """Complete each prompt of token ids by its most probable token, all in one request."""
        prompt = prompts if len(prompts) > 1 else prompts[0]
        body = {"model": self.model, "prompt": prompt, "max_tokens": 1, "temperature": 0, **more}
        choices = _choices(await self.post("/completions", body))
        return in_order_of_index(choices, len(prompts), "choices")

    @property
    def root(self) -> str:
        """Return the address of paths that OpenAI's interface does not have: usually without `/v1`."""
        address = self.options.address
        return address if self.dialect.under_base else address.removesuffix("/v1")

    async def rendered(self, messages: Messages) -> str:
        """Return the prompt rendered by the chat template, with the beginning of the answer."""
        messages, begun = split_answer(self.dialect.form(messages))
        if self.dialect.tokens == "local":
            template = self._tokenizer().apply_chat_template
            return str(template(messages, add_generation_prompt=True, tokenize=False)) + begun
        sent = {"messages": messages, **SWITCHES.get(self.dialect.switch, {})}
        answer = await self.post(f"{self.root}/apply-template", sent)
        text = answer.get("prompt")
        if not isinstance(text, str):
            raise Refusal("/apply-template gave no prompt")
        return text + begun

    def conversation(self, messages: Messages) -> str:
        """Return a finished conversation in the template of the option `tokenizer`, without a BOS that the server adds."""
        tokenizer = self._tokenizer()
        text = str(tokenizer.apply_chat_template(messages, tokenize=False))
        first = str(tokenizer.bos_token or "")
        twice = first and list(tokenizer(text)["input_ids"])[:2] == [tokenizer.bos_token_id] * 2
        return text.removeprefix(first) if twice else text

    async def ids(self, messages: Messages, label: str = "") -> list[int]:
        """Return the token ids of a prompt up to the beginning of the answer, followed by those of `label`."""
        asked, begun = split_answer(self.dialect.form(messages))
        messages = begun_answer(asked, begun + label)
        if self.dialect.tokens == "server":
            body: dict[str, object] = {
                "model": self.model,
                "messages": messages,
                "add_generation_prompt": True,
            }
            body |= SWITCHES.get(self.dialect.switch, {})
            if begun + label:
                body |= _CONTINUE
        else:
            text = await self.rendered(messages)
            if self.dialect.tokens == "local":
                return list(map(int, self._tokenizer().encode(text, add_special_tokens=False)))
            body = {"content": text, "add_special": True, "parse_special": True}
        tokens = (await self.post(f"{self.root}/tokenize", body)).get("tokens")
        if not isinstance(tokens, list) or set(map(type, tokens)) != {int}:
            raise Refusal("/tokenize gave no token ids")
        # The template writes a BOS too.
        two_beginnings = self.dialect.tokens == "template" and tokens[:1] == tokens[1:2]
        return tokens[1:] if two_beginnings else tokens

    async def label_ids(self, labels: tuple[str, ...], prefix: str = "") -> LabelIds:
        """Return the token ids of labels as answers, after as much of a prefix as they can follow; asked once for all rows."""
        if (labels, prefix) not in self.label_tasks:
            self.label_tasks[labels, prefix] = asyncio.create_task(self._label_ids(labels, prefix))
        return await asyncio.shield(self.label_tasks[labels, prefix])

    async def shortened(self, messages: Messages, labels: tuple[str, ...]) -> Messages:
        """Return messages with as much of the answer's prefix as labels can follow; all of it without a tokenizer."""
        asked, prefix = split_answer(messages)
        if prefix and self.dialect.tokens is not None:
            # Only the tokenizer may be refused.
            with suppress(Refusal):
                prefix = (await self.label_ids(labels, prefix)).prefix
        return begun_answer(asked, prefix)

    async def _label_ids(self, labels: tuple[str, ...], prefix: str) -> LabelIds:
        prompt, *answered = await asyncio.gather(
            self.ids(PROBE), *(self.ids(PROBE, label) for label in labels)
        )
        if self.dialect.tokens == "server" and all(ids[-1] == prompt[-1] for ids in answered):
            # Behind the label, the template has ended the answer and begun another one.
            raise Refusal(NOT_CONTINUED, ends_the_run=not self.settling, changed=not self.settling)
        for part in shortened(prefix):
            groups = [spellings_after(part, label) for label in labels]
            texts = ["", *itertools.chain(*groups)]
            before, *wholes = await asyncio.gather(
                *(self.ids(PROBE, part + text) for text in texts)
            )
            ends = [tuple(ids_after(before, ids)) for ids in wholes]
            # Each label has two spellings.
            found = list(zip(ends[::2], ends[1::2], strict=True))
            if all(group[0] for group in found):
                kept = found if both_count(found) else [group[:1] for group in found]
                if len({*itertools.chain(*kept)}) == sum(map(len, kept)):
                    tail = tuple(before[common_length(prompt, before) :])
                    return LabelIds(groups=tuple(kept), merged=0, prefix=part, tail=tail)
        common = min(common_length(prompt, ids) for ids in answered)
        merged = len(prompt) - common
        sequences = tuple(tuple(ids[common:]) for ids in answered)
        if merged > _MOST_MERGED or not all(sequences) or len(set(sequences)) < len(labels):
            raise Refusal(
                f"its tokenizer does not keep the labels {', '.join(labels)} apart from the prompt"
            )
        return LabelIds(groups=tuple((sequence,) for sequence in sequences), merged=merged)

    def _tokenizer(self) -> Any:
        return _local_tokenizer(str(self.options.tokenizer))


@cache
def _local_tokenizer(name: str) -> Any:
    """Return the tokenizer of the option `tokenizer`."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise MissingPackageError(
            "the option tokenizer needs transformers; pip install transformers"
        ) from None
    try:
        return AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise BackendUnavailableError(
            f"tokenizer {name!r} cannot be loaded ({str(error)[:200]}); name another with tokenizer=PATH"
        ) from None


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of tokens with which both begin."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return sum(1 for _ in pairs)


def _begins_anew(text: str, begun: str) -> bool:
    """Return whether an answer begins again with the words of its prefix."""
    start, word = text.lstrip(), begun.partition(" ")[0]
    return min(len(start), len(word)) >= _FEWEST_CHARACTERS and word.startswith(start[: len(word)])


def _choices(answer: dict[str, object]) -> list[Any]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise Refusal("the answer holds no choices")
    kept: list[Any] = []
    for choice in choices:
        # A choice may be sent again with its index; without an index, equal choices are equal answers.
        if at(choice, "index") is None or choice not in kept:
            kept.append(choice)
    return kept


def _check_number(choices: Sequence[Any], most: int) -> None:
    """Refuse more answers than were asked for, and two with one index, since it is unclear which is which."""
    numbers = without_none(_indices(choices))
    sound = all(type(number) is int for number in numbers) and len({*numbers}) == len(numbers)
    if len(choices) > most or not sound:
        raise Refusal(
            f"{len(choices)} choices with the indices {_few(numbers)}, where {most} were asked for"
        )


def in_order_of_index(entries: Sequence[Any], count: int, what: str) -> list[Any]:
    """Return the entries of an answer to `count` texts in the order of the texts; Refusal unless each has one.

    A single entry needs no `index`.
    """
    numbers = _indices(entries)
    if len(entries) == count == 1 and numbers[0] in (None, 0):
        return list(entries)
    if any(type(number) is not int for number in numbers) or sorted(numbers) != list(range(count)):
        shown = _few(numbers) or "none"
        raise Refusal(f"{len(entries)} {what} with the indices {shown} for {plural(count, 'text')}")
    return [entry for _, entry in sorted(zip(numbers, entries, strict=True), key=itemgetter(0))]


def _indices(entries: Sequence[Any]) -> list[Any]:
    return [at(entry, "index") for entry in entries]


def _few(numbers: Sequence[Any]) -> str:
    """Return the first of some numbers as they may be shown."""
    return ", ".join(f"{number!r:.20}" for number in numbers[:5])
