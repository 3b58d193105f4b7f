"""Labels through the chat interface: from the most probable first tokens, or from n sampled answers."""

from __future__ import annotations

import asyncio
import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from refladder.backends.labels import label_in, reading_from_verdicts
from refladder.backends.openai.client import (
    PLAIN_TOKENS,
    QUESTIONS,
    Client,
    Messages,
    begun_answer,
    split_answer,
)
from refladder.backends.openai.errors import ANSWERED, Refusal, at, rows_at
from refladder.backends.openai.responses import (
    ENDED,
    FILTERED,
    REFUSED,
    Choice,
    bare,
    checked_choices,
    complete,
    from_top,
    is_logprob,
    parse_answer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.openai.client import Capabilities, Completed
    from refladder.records import LabelReading

# Most probable tokens to ask for: without a limit, OpenAI's limit, the smallest limit in use.
TOPS = 1000, 20, 5
# Answers that are compared to find out whether a server samples at all.
DRAWS = 20
# Nats, as in `exact`.
_SAME = 0.05
# Nats; beside other requests, half precision rounds differently.
_SAME_IN_A_CROWD = 0.5
# Tokens that make a list of the most probable ones.
_FEWEST = 2
# Tokens that an answer is forced to begin with, until this works.
_TRIED = 3
# Nats, the most that servers take.
_BIAS = 100
_NOT_RETURNED = "log-probabilities were asked for and not returned"
_ONE_VOTE = "one vote, not a probability: the server gives one answer only"
_RANDOM: Messages = [
    {"role": "user", "content": "Write eight words that have nothing to do with each other."}
]


async def find_top(client: Client, capabilities: Capabilities) -> Capabilities:
    """Find how many of the most probable tokens the chat returns, and how a begun answer can be completed."""
    for top in TOPS:
        try:
            choice = await client.likely(client.question, top)
            break
        except Refusal as refusal:
            if refusal.ends_the_run or top == TOPS[-1]:
                raise
    # By the rule of the rows: one invalid entry refuses every row.
    tokens = _top_tokens(checked_choices(choice), choice, _FEWEST)
    completion: Completed = ""
    continues = await continues_from_a_token(client)
    if continues:
        completion = "prefill"
    elif await _keeps_to_a_form(client, tokens):
        completion = "grammar"
    return replace(
        capabilities,
        top=min(top, len(tokens)),
        completion=completion,
        prefix="on" if continues else "unsupported",
    )


def _top_tokens(tokens: list[Choice], choice: Any, fewest: int) -> list[Choice]:
    if len(tokens) < fewest:
        answer = parse_answer(choice)
        reason = ENDED if answer.ended_at_once else _NOT_RETURNED
        if answer.missing in {REFUSED, FILTERED}:
            reason = answer.missing
        raise Refusal(reason)
    return tokens


async def continues_from_a_token(client: Client) -> bool:
    """Return whether the server continues a begun answer: its second token must be as probable as in one go."""
    # The first question comes last: it asks for one word, which may be one token.
    for question in (*QUESTIONS[1:], QUESTIONS[0]):
        try:
            content = (await client.likely(question, 2, most=2))["logprobs"]["content"]
            if len(content) < 2:
                continue
            begun = begun_answer(question, content[0]["token"])
            again = (await client.likely(begun, 2))["logprobs"]["content"][0]
            apart = abs(again["logprob"] - content[1]["logprob"])
            allowed = _SAME if client.settling else _SAME_IN_A_CROWD
            return bool(again["token"] == content[1]["token"] and apart < allowed)
        except Refusal as refusal:
            if not client.settling and (refusal.of_the_server or refusal.ends_the_run):
                raise
            return False
        except (KeyError, IndexError, TypeError):
            return False
    return False


async def continues_from_a_text(client: Client) -> bool:
    """Return whether the server continues a begun answer: the next word, and the space before it, must be the same."""
    for question in (*QUESTIONS[1:], QUESTIONS[0]):
        try:
            whole = await _greedy(client, question)
            begun = whole[: len(whole) // 2].rpartition(" ")[0]
            if not begun.strip():
                continue
            rest = await _greedy(client, begun_answer(question, begun))
        except Refusal as refusal:
            if not client.settling and (refusal.of_the_server or refusal.ends_the_run):
                raise
            return False
        word = re.match(r"\s*\S+", rest)
        return word is not None and whole.startswith(begun + word.group())
    return False


async def _greedy(client: Client, messages: Messages) -> str:
    """Return the most probable answer with the spaces around it; empty if there is none."""
    (choice, *_) = await client.chat(messages, most=PLAIN_TOKENS, temperature=0)
    text = at(choice, "message", "content")
    return text if isinstance(text, str) else ""


async def _keeps_to_a_form(client: Client, tokens: Sequence[Choice]) -> bool:
    """Return whether an answer can be forced to begin with a less probable token without changing its probability."""
    words = []
    for token in tokens[1:]:
        text = token.text or ""
        if text.isascii() and bare(text):
            words.append(token)
    try:
        # Some tokenizers make another token of the text of a token.
        for token in words[:_TRIED]:
            if await _forced(client, client.question, token, "") is not None:
                return True
    except Refusal:
        pass
    return False


async def read_top(
    client: Client, capabilities: Capabilities, messages: Messages, labels: Sequence[str]
) -> LabelReading:
    """Read labels from the most probable first tokens; begun labels are completed (`Capabilities.completion`)."""
    messages = await client.shortened(messages, tuple(labels))
    choice = await client.likely(messages, capabilities.top)
    partial = from_top(_top_tokens(checked_choices(choice), choice, 1), labels)
    if not capabilities.completion:
        reading, place = complete(partial, labels), getattr(choice, "place", None)
        if place and reading.reason:
            reading = replace(reading, reason=f"{reading.reason} ({place})")
        return reading
    names = [bare(label) for label in labels]

    async def ending(name: str, beginning: Choice) -> float | None:
        if capabilities.completion == "grammar":
            return await _forced(
                client, messages, beginning, name[len(bare(beginning.text or "")) :]
            )
        return await _continued(client, messages, name, beginning, capabilities.top)

    values = await asyncio.gather(
        *(ending(names[begun.label], begun.choice) for begun in partial.begun)
    )
    return complete(partial, labels, values)


async def _continued(
    client: Client, messages: Messages, name: str, beginning: Choice, top: int
) -> float | None:
    """Return the log-probability of a label that begins with a token: the token, and all that may follow it."""
    total, text = beginning.logprob, beginning.text or ""
    while rest := name[len(bare(text)) :]:
        asked, prefix = split_answer(messages)
        choices = checked_choices(await client.likely(begun_answer(asked, prefix + text), top))
        # The most probable choice comes first.
        for choice in choices:
            if choice.text and rest.startswith(choice.text.casefold()):
                break
        else:
            return None
        total += choice.logprob
        text += choice.text
    return total


async def _forced(client: Client, messages: Messages, beginning: Choice, rest: str) -> float | None:
    """Return the log-probability of an answer forced to be a token and a rest.

    The first value must be that without the form.
    """
    text = beginning.text or ""
    form = [_literal(text)]
    for mark in rest:
        form.append(f"[{mark}{mark.upper()}]" if mark.isalpha() else _literal(mark))
    choice = await client.likely(
        messages,
        1,
        most=len(rest) + 1,
        grammar=f"root ::= {' '.join(form)}",
        logit_bias={text: _BIAS},
        # llama-cpp-python names the tokens of `logit_bias` by their text.
        logit_bias_type="tokens",
    )
    rows = rows_at(choice, "logprobs", "content")
    values, spelt = [], ""
    for row in rows:
        value = is_logprob(row.get("logprob"))
        if value is None:
            reason = f"an invalid log-probability in an answer that began with {text!r:.40}"
            raise Refusal(reason, status=ANSWERED)
        values.append(value)
        spelt += str(row.get("token"))
    if not rows or spelt.casefold() != (text + rest).casefold():
        return None
    if rows[0].get("token") != text or abs(values[0] - beginning.logprob) > _SAME:
        return None
    return math.fsum(values)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


async def find_sampling(client: Client, capabilities: Capabilities) -> Capabilities:
    """Find whether one request returns several answers, and whether all answers to a question are the same."""
    for question in (_RANDOM, client.question):
        several = False
        try:
            several = (
                len(
                    await client.chat(question, most=PLAIN_TOKENS, temperature=1.0, n=DRAWS, seed=0)
                )
                > 1
            )
        except Refusal as refusal:
            if refusal.ends_the_run:
                raise
        drawn = await _drawn(client, question, DRAWS, PLAIN_TOKENS, several=several)
        if several and _all_equal(drawn):
            several = False
            drawn = await _drawn(client, question, DRAWS, PLAIN_TOKENS, several=False)
        answers = [parse_answer(choice) for choice in drawn]
        if not all(answer.ended_at_once for answer in answers):
            fixed = _all_equal(drawn) and not all(answer.cut_before_a_word for answer in answers)
            continues = await continues_from_a_text(client)
            return replace(
                capabilities,
                several=several,
                fixed=fixed,
                prefix="on" if continues else "unsupported",
            )
    raise Refusal(ENDED)


def _all_equal(choices: Sequence[Any]) -> bool:
    return len({json.dumps(at(choice, "message")) for choice in choices}) == 1


async def _drawn(
    client: Client, messages: Messages, number: int, most: int, *, several: bool
) -> list[Any]:
    """Draw `number` answers at temperature 1; some servers return fewer in one request than were asked for."""
    choices = []
    if several:
        choices = await client.chat(messages, most=most, temperature=1.0, n=number, seed=0)
    seeds = range(len(choices), number)
    more = await asyncio.gather(
        *(client.chat(messages, most=most, temperature=1.0, seed=seed) for seed in seeds)
    )
    return [*choices[:number], *(each[0] for each in more)]


async def read_sampled(
    client: Client, capabilities: Capabilities, messages: Messages, labels: Sequence[str]
) -> LabelReading:
    """Read labels as shares of answers at temperature 1, or from one answer where all are the same."""
    messages = await client.shortened(messages, tuple(labels))
    number = capabilities.answers(client.options)
    most = capabilities.answer_tokens(client.options)
    several = capabilities.several and not capabilities.fixed
    verdicts, places = [], []
    for choice in await _drawn(client, messages, number, most, several=several):
        answer = parse_answer(choice)
        verdict = answer.missing or label_in(answer.text, labels, ended=answer.finish != "length")
        if isinstance(verdict, str):
            client.tally.counts[f"answer: {verdict}"] += 1
        verdicts.append((verdict, client.server.shown(answer.text)))
        places.append(answer.place)
    note = _ONE_VOTE if capabilities.fixed else None
    return reading_from_verdicts(verdicts, len(labels), note=note, places=places)
