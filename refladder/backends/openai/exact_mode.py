"""Exact label probabilities: token-id prompts, and the log-probability of each label token after its own beginning.

Three variants, the cheapest first. `token-ids`: vLLM's `logprob_token_ids`. `score`: SGLang's /v1/score. `vocabulary`: as
many of the most probable tokens as it takes to find the label's (llama-server has no limit).
"""

from __future__ import annotations

import asyncio
import itertools
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from refladder.backends.openai.client import (
    NOT_CONTINUED,
    PROBE,
    PROBE_LABELS,
    Client,
    Messages,
    common_length,
    split_answer,
)
from refladder.backends.openai.errors import Refusal, at, changed
from refladder.backends.openai.responses import (
    first_choices,
    from_tokens,
    next_tokens,
    parse_answer,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from refladder.backends.openai.client import Capabilities, Source, Variant
    from refladder.records import LabelReading, Prompt

Tokens = tuple[int, ...]
Values = dict[Tokens, dict[int, float]]

if TYPE_CHECKING:
    _After = Callable[[Client, Sequence[list[int]], list[int]], Awaitable[list[dict[int, float]]]]
    _Reader = Callable[[Client, Sequence[list[int]], tuple[Tokens, ...]], Awaitable[list[Values]]]

# Tolerance in nats between two readings of the same token.
SAME = 0.05
# Tokens asked for at first in the variant `vocabulary`; ten times more until they include the labels.
_FIRST_LOOK = 100
# No vocabulary is larger.
_WHOLE = 1_000_000
# Most tokens of the prompts in one request.
_MOST_TOKENS = 65_536


async def find_tokens(client: Client) -> str | None:
    """Find the source of token ids of a chat prompt; return the reason if there is none."""
    if client.options.tokenizer is not None:
        client.dialect = replace(client.dialect, tokens="local")
        return None
    reasons = []
    sources: tuple[Source, ...] = ("server", "template")
    places = (False, True) if client.options.address.endswith("/v1") else (False,)
    for under_base, tokens in itertools.product(places, sources):
        client.dialect = replace(client.dialect, tokens=tokens, under_base=under_base)
        try:
            await client.ids(PROBE)
        except Refusal as refusal:
            if refusal.ends_the_run and refusal.status != 404:
                raise
            reasons.append(refusal.reason)
        else:
            return None
    client.dialect = replace(client.dialect, tokens=None, under_base=False)
    return f"no token ids of prompts: {reasons[0]}; name the model's tokenizer with the option tokenizer"


async def shows_switch(client: Client) -> bool:
    """Return whether the chat template obeys the switch that turns thinking off, if there is one."""
    if not client.dialect.switch or client.dialect.tokens not in {"server", "template"}:
        return True
    without = replace(client, dialect=replace(client.dialect, switch=""))
    return await client.ids(PROBE) != await without.ids(PROBE)


async def find_exact(client: Client, capabilities: Capabilities) -> Capabilities:
    """Find the first variant that returns true values; Refusal if none does."""
    if not await shows_switch(client):
        raise Refusal(f"its prompts are the same with and without {client.dialect.switch}")
    text, logprob = await _first_token(client)
    try:
        labels = await client.label_ids(PROBE_LABELS)
    except Refusal as refusal:
        # The refusal concerns this mode, not the run.
        raise Refusal(refusal.reason) from None
    ids = await client.ids(client.question)
    base = ids[: len(ids) - labels.merged]
    try:
        await _same_prompt(client, ids, text, logprob)
    except Refusal as refusal:
        raise Refusal(f"completions of token ids: {refusal.reason}") from None
    reasons = []
    for variant, read in _READERS.items():
        try:
            (values,) = await read(client, [base], labels.sequences)
            reading = from_tokens(labels.groups, values)
        except Refusal as refusal:
            reasons.append(f"{variant}: {refusal.reason}")
            continue
        if reading.logprobs is not None and all(map(math.isfinite, reading.logprobs)):
            together = variant in _TOGETHER and await _same_together(
                client, variant, base, labels.sequences, values
            )
            return replace(capabilities, variant=variant, prefix="on", together=together)
        reasons.append(f"{variant}: {reading.reason or 'values that are not finite'}")
    raise Refusal("; ".join(reasons))


async def _first_token(client: Client) -> tuple[str, float | None]:
    """Return the first token of the answer to the handshake's question, and its log-probability if it is known."""
    try:
        choice = await client.likely(client.question, 5)
    except Refusal as refusal:
        if refusal.ends_the_run:
            raise
        (choice, *_) = await client.chat(client.question, most=1, temperature=0)
    text = parse_answer(choice).text
    tokens = first_choices(choice)
    if not tokens:
        return text, None
    return tokens[0].text or text, tokens[0].logprob


async def _same_prompt(
    client: Client, ids: Sequence[int], text: str, logprob: float | None
) -> None:
    """Check that a token-id prompt leads to the chat's first token; otherwise the template has other ids."""
    (choice,) = await client.complete([ids], logprobs=1)
    tokens = first_choices(choice)
    if logprob is not None and tokens:
        if abs(tokens[0].logprob - logprob) > SAME:
            raise Refusal(
                f"the first token has log-probability {tokens[0].logprob:.3f} there and {logprob:.3f} in the chat"
            )
        return
    completed = at(choice, "text")
    if (
        not isinstance(completed, str)
        or not completed.strip()
        or not text.lstrip().startswith(completed.strip())
    ):
        raise Refusal(f"they lead to {completed!r:.20} where the chat says {text!r:.20}")


async def _same_together(
    client: Client, variant: Variant, base: list[int], sequences: tuple[Tokens, ...], alone: Values
) -> bool:
    """Return whether two prompts in one request have the values that each has alone."""
    longer, read = [*base, sequences[0][0]], _READERS[variant]
    try:
        (other,) = await read(client, [longer], sequences)
        found = await read(client, [longer, base], sequences)
    except Refusal as refusal:
        if refusal.ends_the_run:
            raise
        return False
    for one, two in zip([other, alone], found, strict=True):
        for beginning, ids in next_tokens(sequences).items():
            for token in ids:
                if not abs(one[beginning][token] - two[beginning][token]) <= SAME:
                    return False
    return True


async def read_exact(
    client: Client, capabilities: Capabilities, messages: Messages, labels: tuple[str, ...]
) -> LabelReading:
    """Read the exact log-probabilities of labels after one chat prompt."""
    (reading,) = await read_exact_together(client, capabilities, [messages], labels)
    return reading


async def read_exact_together(
    client: Client, capabilities: Capabilities, many: Sequence[Messages], labels: tuple[str, ...]
) -> list[LabelReading]:
    """Return the readings of several chat prompts, many in a request; Refusal if one cannot be read so."""
    asked, prefixes = zip(*map(split_answer, many), strict=True)
    if len(set(prefixes)) > 1:
        raise Refusal("the answers begin differently")
    label_ids = await client.label_ids(labels, prefixes[0])
    whole = await asyncio.gather(*(client.ids(messages, label_ids.prefix) for messages in asked))
    parts: list[list[list[int]]] = [[]]
    for ids in whole:
        if label_ids.tail and tuple(ids[-len(label_ids.tail) :]) != label_ids.tail:
            raise changed(NOT_CONTINUED)
        if parts[-1] and sum(map(len, parts[-1])) + len(ids) > _MOST_TOKENS:
            parts.append([])
        parts[-1].append(ids[: len(ids) - label_ids.merged])
    read = _READERS[capabilities.variant]
    values = await asyncio.gather(*(read(client, part, label_ids.sequences) for part in parts))
    return [from_tokens(label_ids.groups, each) for each in itertools.chain(*values)]


async def _by_beginnings(
    after: _After, client: Client, bases: Sequence[list[int]], sequences: tuple[Tokens, ...]
) -> list[Values]:
    """Ask `after` for the tokens that follow each beginning of a label, behind all bases."""
    wanted = next_tokens(sequences)

    async def read(beginning: Tokens, ids: list[int]) -> list[dict[int, float]]:
        return await after(client, [[*base, *beginning] for base in bases], ids)

    # A refusal waits for the other requests: none is still in flight when the caller asks in another way.
    readings = await asyncio.gather(
        *(read(*item) for item in wanted.items()), return_exceptions=True
    )
    for reading in readings:
        if isinstance(reading, BaseException):
            raise reading
    return [dict(zip(wanted, of_base, strict=True)) for of_base in zip(*readings, strict=True)]


async def _token_ids(
    client: Client, prompts: Sequence[list[int]], wanted: list[int]
) -> list[dict[int, float]]:
    choices = await client.complete(
        prompts, logprobs=1, logprob_token_ids=wanted, return_tokens_as_token_ids=True
    )
    return [_picked(choice, wanted) for choice in choices]


async def _vocabulary(
    client: Client, prompts: Sequence[list[int]], wanted: list[int]
) -> list[dict[int, float]]:
    look = _FIRST_LOOK
    while True:
        (choice,) = await client.complete(prompts, logprobs=look, return_tokens_as_token_ids=True)
        try:
            return [_picked(choice, wanted)]
        except Refusal:
            if look >= _WHOLE or len(first_choices(choice)) < look:
                raise
        look *= 10


def _picked(choice: Any, wanted: list[int]) -> dict[int, float]:
    logprobs = {entry.id: entry.logprob for entry in first_choices(choice)}
    missing = [token for token in wanted if token not in logprobs]
    if missing:
        raise Refusal(
            f"no log-probability of token {missing[0]} among the {len(logprobs)} that were returned"
        )
    return {token: logprobs[token] for token in wanted}


async def _by_score(
    client: Client, bases: Sequence[list[int]], sequences: tuple[Tokens, ...]
) -> list[Values]:
    wanted = next_tokens(sequences)
    every = sorted(set[int]().union(*wanted.values()))
    # Between these two are all others.
    same = common_length(min(bases), max(bases))
    shared = min(same, *(len(base) - 1 for base in bases))
    body = {
        "model": client.model,
        "query": bases[0][:shared],
        "items": [[*base[shared:], *beginning] for base in bases for beginning in wanted],
        "label_token_ids": every,
        "apply_softmax": False,
        "item_first": False,
    }
    scores = (await client.post("/score", body)).get("scores")
    rows = scores if isinstance(scores, list) else []
    whole = all(isinstance(row, list) and len(row) == len(every) for row in rows)
    if not whole or len(rows) != len(wanted) * len(bases):
        raise Refusal("/score gave no row of scores for each item")
    for value in itertools.chain(*rows):
        if type(value) not in {int, float} or not 0 < value <= 1 + 1e-3:
            raise Refusal("/score gave what are no probabilities")
    of_bases = []
    remaining = iter(rows)
    for _ in bases:
        values = {}
        for beginning in wanted:
            # Rounding may put a probability slightly above 1.
            logs = [math.log(min(1.0, value)) for value in next(remaining)]
            values[beginning] = dict(zip(every, logs, strict=True))
        of_bases.append(values)
    return of_bases


_READERS: dict[Variant, _Reader] = {
    "token-ids": partial(_by_beginnings, _token_ids),
    "score": _by_score,
    "vocabulary": partial(_by_beginnings, _vocabulary),
}
# Variants that read many prompts in one request; the others are given one.
_TOGETHER = {"token-ids", "score"}


async def sent_tokens(client: Client, capabilities: Capabilities, prompt: Prompt) -> int:
    """Return the prompt tokens of all requests for a row; `vocabulary` sends more if its first list is too short."""
    messages = await client.shortened(capabilities.messages(prompt, client.options), prompt.labels)
    length = len(await client.ids(messages))
    if not prompt.labels or capabilities.mode == "top":
        return length
    if capabilities.mode == "sample":
        return length * (1 if capabilities.several else capabilities.answers(client.options))
    labels = await client.label_ids(prompt.labels, split_answer(messages)[1])
    beginnings = next_tokens(labels.sequences)
    return len(beginnings) * (length - labels.merged) + sum(map(len, beginnings))
