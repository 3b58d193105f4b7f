"""Exact label probabilities: token-id prompts, and the log-probability of each label token after its own beginning.

Four ways, the cheapest first. `token-ids`: vLLM's `logprob_token_ids`. `score`: SGLang's /v1/score. `vocabulary`: as
many of the most probable tokens as it takes to find the label's (llama-server has no limit). `prompt`: the values of
the prompt's own tokens (older vLLM), with the label at its end.
`echo` reads the same from a text prompt that the server echoes with its log-probabilities.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from refladder.backends.openai.reading import first_choices, from_tokens, is_logprob, next_tokens
from refladder.backends.openai.talk import PROBE, PROBE_LABELS, QUESTIONS, Impossible, Messages, Talk, choices_of
from refladder.backends.openai.transport import Refusal, at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.openai.talk import LabelIds, Source
    from refladder.records import LabelReading

Values = dict[tuple[int, ...], dict[int, float]]

WAYS = ("token-ids", "score", "vocabulary", "prompt")
SAME = 0.05  # nats: two requests that read the same token must agree this well
_FIRST_LOOK = 100  # tokens asked for at first in the way `vocabulary`; ten times more until the labels are there
_WHOLE = 1_000_000  # no vocabulary is larger
_PLAIN_ANSWER = "\n\nAnswer:"  # leads to the answer where no chat template is known; labels then follow a space


async def find_tokens(talk: Talk) -> Source:
    """Where token ids of a chat prompt come from."""
    if talk.options.tokenizer is not None:
        return "local"
    reasons = []
    sources: tuple[Source, ...] = ("server", "template")
    for tokens in sources:
        talk.dialect = replace(talk.dialect, tokens=tokens)
        try:
            await talk.ids(PROBE)
        except Refusal as refusal:
            if refusal.ends_the_run and refusal.status != 404:  # noqa: PLR2004  only this path is not found
                raise
            reasons.append(refusal.reason)
        else:
            return tokens
    talk.dialect = replace(talk.dialect, tokens=None)
    raise Impossible(f"no token ids of prompts: {reasons[0]}; name the model's tokenizer with the option tokenizer")


async def find_exact(talk: Talk, first: tuple[str, float | None]) -> str:
    """The first of WAYS that gives true values here; Impossible if none does.

    `first` is the first token that the chat says to the handshake's question, with its log-probability if it tells: a
    token-id prompt must give the same, or the ids are not what the chat template makes.
    """
    labels = await _labels(talk)
    ids = await talk.ids(talk.question)
    base = ids[: len(ids) - labels.merged]
    reasons = []
    try:
        await _same_prompt(talk, ids, first)
    except (Refusal, Impossible) as reason:
        raise Impossible(f"completions of token ids: {_why(reason)}") from None
    for way in WAYS:
        try:
            reading = await _READERS[way](talk, base, labels.sequences)
        except (Refusal, Impossible) as reason:
            reasons.append(f"{way}: {_why(reason)}")
            continue
        if reading.logprobs is not None and all(map(math.isfinite, reading.logprobs)):
            return way
        reasons.append(f"{way}: {reading.reason or 'values that are not finite'}")
    raise Impossible("; ".join(reasons))


async def _labels(talk: Talk) -> LabelIds:
    try:
        return await talk.label_ids(PROBE_LABELS)
    except Refusal as refusal:
        raise Impossible(refusal.reason) from None


def _why(reason: Refusal | Impossible) -> str:
    return reason.reason if isinstance(reason, Refusal) else str(reason)


async def _same_prompt(talk: Talk, ids: Sequence[int], first: tuple[str, float | None]) -> None:
    """A token-id prompt must lead to the same first token as the chat did."""
    (choice, *_) = await talk.complete(ids, logprobs=1)
    text, logprob = first
    tokens = first_choices(choice)
    if logprob is not None and tokens:
        if abs(tokens[0].logprob - logprob) > SAME:
            raise Impossible(
                f"the first token has log-probability {tokens[0].logprob:.3f} there and {logprob:.3f} in the chat"
            )
        return
    said = at(choice, "text")
    if not isinstance(said, str) or not said.strip() or not text.lstrip().startswith(said.strip()):
        raise Impossible(f"they lead to {said!r:.20} where the chat says {text!r:.20}")


async def read_exact(talk: Talk, way: str, messages: Messages, labels: tuple[str, ...]) -> LabelReading:
    """Label log-probabilities of one chat prompt."""
    label_ids, ids = await asyncio.gather(talk.label_ids(labels), talk.ids(messages))
    return await _READERS[way](talk, ids[: len(ids) - label_ids.merged], label_ids.sequences)


async def _by_token_ids(talk: Talk, base: list[int], sequences: tuple[tuple[int, ...], ...]) -> LabelReading:
    async def after(beginning: tuple[int, ...], wanted: list[int]) -> dict[int, float]:
        choices = await talk.complete(
            [*base, *beginning], logprobs=1, logprob_token_ids=wanted, return_tokens_as_token_ids=True
        )
        return _picked(choices[0], wanted)

    return await _each_beginning(sequences, after)


async def _by_vocabulary(talk: Talk, base: list[int], sequences: tuple[tuple[int, ...], ...]) -> LabelReading:
    async def after(beginning: tuple[int, ...], wanted: list[int]) -> dict[int, float]:
        look = _FIRST_LOOK
        while True:
            choices = await talk.complete([*base, *beginning], logprobs=look, return_tokens_as_token_ids=True)
            try:
                return _picked(choices[0], wanted)
            except Refusal:
                if look >= _WHOLE or len(first_choices(choices[0])) < look:
                    raise
            look *= 10

    return await _each_beginning(sequences, after)


async def _each_beginning(sequences: tuple[tuple[int, ...], ...], after: Any) -> LabelReading:  # noqa: ANN401
    wanted = next_tokens(sequences)
    readings = await asyncio.gather(*(after(beginning, ids) for beginning, ids in wanted.items()))
    return from_tokens(sequences, dict(zip(wanted, readings, strict=True)))


def _picked(choice: Any, wanted: list[int]) -> dict[int, float]:  # noqa: ANN401  a server's JSON
    logprobs = {entry.id: entry.logprob for entry in first_choices(choice)}
    missing = [token for token in wanted if token not in logprobs]
    if missing:
        raise Refusal(f"no log-probability of token {missing[0]} among the {len(logprobs)} that were returned")
    return {token: logprobs[token] for token in wanted}


async def _by_score(talk: Talk, base: list[int], sequences: tuple[tuple[int, ...], ...]) -> LabelReading:
    wanted = next_tokens(sequences)
    every = sorted({token for ids in wanted.values() for token in ids})
    body = {
        "model": talk.model,
        "query": base[:-1],
        "items": [[base[-1], *beginning] for beginning in wanted],
        "label_token_ids": every,
        "apply_softmax": False,
        "item_first": False,
    }
    scores = (await talk.server.post("/score", body)).get("scores")
    if not isinstance(scores, list) or [len(row) for row in scores if isinstance(row, list)] != [len(every)] * len(
        wanted
    ):
        raise Refusal("/score gave no row of scores for each item")
    values: Values = {}
    for beginning, row in zip(wanted, scores, strict=True):
        if not all(type(value) in {int, float} and 0 < value <= 1 + 1e-3 for value in row):
            raise Refusal("/score gave what are no probabilities")
        values[beginning] = {token: min(0.0, math.log(value)) for token, value in zip(every, row, strict=True)}
    return from_tokens(sequences, values)


async def _by_prompt(talk: Talk, base: list[int], sequences: tuple[tuple[int, ...], ...]) -> LabelReading:
    values: Values = {}

    async def read(sequence: tuple[int, ...]) -> None:
        body = {"model": talk.model, "prompt": [*base, *sequence], "max_tokens": 1, "temperature": 0}
        answer = await talk.server.post("/completions", {**body, "prompt_logprobs": 0})
        choice = choices_of(answer)[0]
        rows = at(choice, "prompt_logprobs")
        if not isinstance(rows, list) or len(rows) != len(base) + len(sequence):
            raise Refusal("no log-probabilities of the prompt were returned")
        for position, token in enumerate(sequence):
            value = is_logprob(at(rows, len(base) + position, str(token), "logprob"))
            if value is None:
                raise Refusal(f"no log-probability of token {token} of the prompt")
            values.setdefault(sequence[:position], {})[token] = value

    await asyncio.gather(*map(read, sequences))
    return from_tokens(sequences, values)


_READERS = {"token-ids": _by_token_ids, "score": _by_score, "vocabulary": _by_vocabulary, "prompt": _by_prompt}


def sent_tokens(prompt: int, labels: LabelIds, way: str) -> int:
    """Prompt tokens that all requests for a row send; `vocabulary` sends more if its first look is too short."""
    base = prompt - labels.merged
    if way in {"token-ids", "vocabulary", "score"}:
        return sum(base + len(beginning) for beginning in next_tokens(labels.sequences))
    return sum(base + len(sequence) for sequence in labels.sequences)


async def find_echo(talk: Talk, *, plain: bool) -> None:
    """Check that echoed log-probabilities are true: a token said by itself must have the same value when echoed."""
    try:
        text, choice = await _completed(talk, plain=plain)
        choices = first_choices(choice)
        said = str(choice["text"])
        if not choices:
            raise Impossible("completions gave no log-probabilities")
        tokens = await _echoed(talk, text, said)
    except Refusal as refusal:
        raise Impossible(refusal.reason) from None
    total = math.fsum(value for _, value in tokens)
    if len(tokens) != 1 or abs(total - choices[0].logprob) > SAME:
        value = choices[0].logprob
        raise Impossible(
            f"the echo of {said!r:.20} has log-probability {total:.3f}, and was {value:.3f} when it was said"
        )


async def _completed(talk: Talk, *, plain: bool) -> tuple[str, Any]:
    """The first prompt of the handshake that is completed by a token with a text, and the choice that it leads to."""
    for messages in QUESTIONS:
        text, _ = await _echo_prompt(talk, messages, plain=plain)
        (choice, *_) = await talk.complete(text, logprobs=1)
        said = at(choice, "text")
        if isinstance(said, str) and said.strip():
            return text, choice
    raise Impossible("the completions of all prompts of the handshake ended at once")


async def read_echo(talk: Talk, messages: Messages, labels: Sequence[str], *, plain: bool) -> LabelReading:
    """Label log-probabilities from a text prompt with each label at its end."""
    text, lead = await _echo_prompt(talk, messages, plain=plain)
    spellings = await asyncio.gather(*(_echoed(talk, text, lead + label) for label in labels))
    numbers: dict[str, int] = {}
    values: Values = {}
    sequences = []
    for tokens in spellings:
        sequence = tuple(numbers.setdefault(token, len(numbers)) for token, _ in tokens)
        for position, (token, value) in enumerate(tokens):
            values.setdefault(sequence[:position], {})[numbers[token]] = value
        sequences.append(sequence)
    return from_tokens(sequences, values)


async def _echo_prompt(talk: Talk, messages: Messages, *, plain: bool) -> tuple[str, str]:
    if plain:
        return messages[-1]["content"] + _PLAIN_ANSWER, " "
    return await talk.rendered(messages), ""


async def _echoed(talk: Talk, text: str, added: str) -> list[tuple[str, float]]:
    """Tokens and log-probabilities of `added` behind `text`."""
    (choice, *_) = await talk.complete(text + added, echo=True, logprobs=1)
    lists = [at(choice, "logprobs", name) for name in ("tokens", "token_logprobs", "text_offset")]
    if not all(isinstance(each, list) for each in lists):
        raise Refusal("echo was not answered")
    tokens = []
    spelt = ""
    for token, value, offset in zip(*lists, strict=False):
        if isinstance(offset, int) and len(text) <= offset < len(text) + len(added):
            logprob = is_logprob(value)
            if logprob is None:
                raise Refusal(f"echo gave {value!r} as a log-probability")
            tokens.append((str(token), logprob))
            spelt += str(token)
    if spelt != added:
        raise Refusal(f"echo: the tokens of {added!r} do not begin where the prompt ends")
    return tokens
