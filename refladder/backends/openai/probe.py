"""The handshake: requests that test what a server supports. An HTTP 200 is not enough; the answers are checked.

The modes of reading labels are tried from best to worst. The first whose numbers are consistent is used:

- `exact` token ids of the labels (see `exact`); of several tokens, without a limit of 20, through the chat template
- `echo`  log-probabilities of an echoed prompt that ends in the label, in the chat template
- `top`   the most probable first tokens of the chat's answer; a label outside them has a bound, not a number
- `echo` without a chat template, if there is none
- `sample` n answers at temperature 1
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from refladder.backends.openai.answers import ENDED, ended_at_once, said
from refladder.backends.openai.chat import Continued, find_sampling, find_top
from refladder.backends.openai.exact import find_echo, find_exact, find_tokens
from refladder.backends.openai.reading import first_choices
from refladder.backends.openai.talk import QUESTIONS, Dialect, Impossible, Messages, Talk
from refladder.backends.openai.transport import LOG, Refusal
from refladder.errors import BackendUnavailableError, LabelsUnavailableError

if TYPE_CHECKING:
    from refladder.backends.openai.options import Options

Mode = Literal["exact", "echo", "echo-plain", "top", "sample"]

_PLAIN_TOKENS = 16  # an answer of one word, with room for quotes and a full stop
_THINKING_TOKENS = 4096
_THINKS = "the model thinks before it answers, so its first token is no label"
_ORDER: dict[str, tuple[Mode, ...]] = {
    "auto": ("exact", "echo", "top", "echo-plain", "sample"),
    "exact": ("exact",),
    "echo": ("echo", "echo-plain"),
    "top": ("top",),
    "sample": ("sample",),
}
_BATCH_ORDER: tuple[Mode, ...] = ("top", "sample")  # one request a prompt, so that one batch answers all


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How labels are read from one model on one server.

    Attributes:
        mode: how.
        way: variant of the mode; of `exact`, one of exact.WAYS.
        dialect: the form of requests that the server accepts.
        top: number of most probable tokens that a request returns, in the mode `top`.
        goes_on: how an answer that was begun is completed, in the mode `top`: see chat.find_top.
        several: whether a request can return several answers.
        fixed: whether the server always returns the same answer, so that sampling is a single vote.
        thinks: whether the model thinks before it answers.
        refused: why each better mode is not used, "mode: reason".
    """

    mode: Mode
    way: str = ""
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


async def handshake(talk: Talk) -> Probe:
    """Find the best mode for reading labels, or test the one that `mode` names."""
    demanded = talk.options.mode
    choice = await _first_answer(talk)
    answer = said(choice)
    thinks = answer.thought or (answer.missing is not None and answer.finish == "length")  # all of it hidden
    no_tokens = await _look_for_tokens(talk)
    through_batches = talk.options.batch is not None
    refused: list[str] = ["exact, echo: not through batches"] if through_batches else []
    for mode in _BATCH_ORDER if through_batches and demanded == "auto" else _ORDER[demanded]:
        try:
            if thinks and mode != "sample":
                raise Impossible(_THINKS)  # noqa: TRY301  one place that collects reasons
            if mode == "exact" and no_tokens is not None:
                raise Impossible(no_tokens)  # noqa: TRY301
            probe = await _try(talk, mode)
        except Impossible as reason:
            refused.append(f"{mode}: {reason}")
            LOG.debug("%s at %s: %s is impossible: %s", talk.model, talk.options.base_url, mode, reason)
        else:
            return replace(probe, dialect=talk.dialect, thinks=thinks, refused=tuple(refused))
    if ended_at_once(choice):
        raise BackendUnavailableError(
            f"{talk.options.base_url}: {talk.model!r} was asked {len(QUESTIONS)} different questions, and ended each "
            "answer at once, before a first word; use an instruct model, or start the server with the chat template "
            "that the model was trained with"
        )
    raise LabelsUnavailableError(
        f"{talk.options.base_url}: mode {demanded} was demanded and {talk.model!r} cannot be read that way "
        f"({'; '.join(refused)}); use mode=auto to take the best that it can do"
    )


async def _first_answer(talk: Talk) -> Any:  # noqa: ANN401  a choice of a chat answer
    """Ask questions until there is an answer, and learn the server's dialect; fails if server, key or model is wrong.

    The question that was answered becomes that of the handshake. If none is, the last empty answer is returned.
    """
    for question in QUESTIONS:
        choice = await _answer(talk, question)
        if not ended_at_once(choice):
            talk.question = question
            break
        LOG.info("%s at %s: %s; asking another question", talk.model, talk.options.base_url, ENDED)
    return choice


async def _answer(talk: Talk, question: Messages) -> Any:  # noqa: ANN401  a choice of a chat answer
    for _ in range(3):  # at most two fields can be refused
        try:
            return (await talk.chat(question, most=_PLAIN_TOKENS, temperature=0))[0]
        except Refusal as refusal:
            if refusal.status not in (400, 422):
                raise
            reason = refusal.reason
            if "max_completion_tokens" in reason and talk.dialect.length_field == "max_tokens":
                talk.dialect = replace(talk.dialect, length_field="max_completion_tokens")
            elif "temperature" in reason and talk.dialect.tempered:
                talk.dialect = replace(talk.dialect, tempered=False)
            else:
                raise
    raise Refusal("the server refuses every form of a chat request", status=400)


async def _look_for_tokens(talk: Talk) -> str | None:
    """Store the source of token ids in the dialect; return the reason if there is none."""
    try:
        talk.dialect = replace(talk.dialect, tokens=await find_tokens(talk))
    except Impossible as reason:
        return str(reason)
    return None


async def _try(talk: Talk, mode: Mode) -> Probe:
    try:
        if mode == "exact":
            return Probe(mode=mode, way=await find_exact(talk, await _first_token(talk)))
        if mode == "echo":
            if talk.dialect.tokens not in {"template", "local"}:
                raise Impossible("no chat template to write the prompt with")
            await find_echo(talk, plain=False)
            return Probe(mode=mode)
        if mode == "echo-plain":
            await find_echo(talk, plain=True)
            return Probe(mode=mode)
        if mode == "top":
            top, goes_on = await find_top(talk)
            return Probe(mode=mode, top=top, goes_on="" if talk.options.batch is not None else goes_on)
        several, fixed = await find_sampling(talk, _PLAIN_TOKENS)
        return Probe(mode=mode, several=several, fixed=fixed)
    except Refusal as refusal:
        if refusal.ends_the_run and refusal.status != 404:  # noqa: PLR2004  a path that this server does not have
            raise
        raise Impossible(refusal.reason) from None


async def _first_token(talk: Talk) -> tuple[str, float | None]:
    """The first token of the answer to the handshake's question, and its log-probability if the server returns it."""
    try:
        (choice, *_) = await talk.chat(talk.question, most=1, temperature=0, logprobs=True, top_logprobs=5)
    except Refusal as refusal:
        if refusal.ends_the_run:
            raise
        (choice, *_) = await talk.chat(talk.question, most=1, temperature=0)
    tokens = first_choices(choice)
    text = said(choice).text
    return (tokens[0].text or text, tokens[0].logprob) if tokens else (text, None)


def answer_tokens(options: Options, probe: Probe) -> int:
    """Maximum number of tokens of a sampled answer."""
    return options.answer_tokens or (_THINKING_TOKENS if probe.thinks else _PLAIN_TOKENS)


def notice(url: str, model: str, probe: Probe, samples: int) -> str:
    """A line for the user: how labels are read, and why no better mode is used."""
    how = {
        "exact": "exact label probabilities",
        "echo": "exact label probabilities from an echoed prompt",
        "echo-plain": "exact label probabilities from an echoed prompt without a chat template",
        "top": f"label probabilities from the {probe.top} most probable tokens",
        "sample": "one answer a question, the same every time: votes, not probabilities"
        if probe.fixed
        else f"label shares of {samples} sampled answers",
    }[probe.mode]
    why = f" (not better: {'; '.join(probe.refused)})" if probe.refused else ""
    return f"{model} at {url}: {how} [{probe.name(samples)}]{why}"
