"""Labels through the chat interface: from the most probable first tokens, or from n sampled answers."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from refladder.backends.labels import label_in, reading_from_counts
from refladder.backends.openai.answers import ENDED, cut_before_a_word, ended_at_once, said
from refladder.backends.openai.reading import (
    ANSWERED,
    Choice,
    bare,
    checked_choices,
    complete,
    endings,
    first_choices,
    from_top,
    is_logprob,
)
from refladder.backends.openai.talk import QUESTIONS, Impossible, Messages, Talk
from refladder.backends.openai.transport import Refusal, at, rows_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.records import LabelReading

Continued = Literal["", "prefill", "grammar"]  # how an answer that was begun is completed, see `find_top`

TOPS = (1000, 20, 5)  # most probable tokens to ask for: without a limit, OpenAI's limit, the smallest limit in use
DRAWS = 20  # answers compared to tell whether a server samples at all
_SAME = 0.05  # nats, as in `exact`
_SHOWN = 60  # characters of an unparsed answer in a message
_FEWEST = 2  # tokens that make a list of the most probable ones
_TRIED = 3  # tokens that an answer is forced to begin with, until this works
_BIAS = 100  # nats, the most that servers take
_NOT_RETURNED = "log-probabilities were asked for and not returned"
_RANDOM: Messages = [{"role": "user", "content": "Write eight words that have nothing to do with each other."}]
_CONTINUE = {"add_generation_prompt": False, "continue_final_message": True}  # vLLM, SGLang; llama-server needs neither


async def find_top(talk: Talk) -> tuple[int, Continued]:
    """How many of the most probable tokens the chat gives, and how an answer that was begun can be completed.

    `prefill`: the server continues the beginning of an answer. `grammar`: it answers in a given form, and its
    log-probabilities are those without the form.
    """
    reasons = []
    for top in TOPS:
        try:
            (choice, *_) = await talk.chat(talk.question, most=1, temperature=0, logprobs=True, top_logprobs=top)
        except Refusal as refusal:
            if refusal.ends_the_run:
                raise
            reasons.append(refusal.reason)
            continue
        tokens = first_choices(choice)
        if len(tokens) < _FEWEST:
            raise Impossible(_why_no_tokens(choice))
        if await _continues(talk):
            return min(top, len(tokens)), "prefill"
        return min(top, len(tokens)), "grammar" if await _keeps_to_a_form(talk, tokens) else ""
    raise Impossible(reasons[-1])


def _why_no_tokens(choice: Any) -> str:  # noqa: ANN401  a server's JSON
    return ENDED if ended_at_once(choice) else _NOT_RETURNED


async def _continues(talk: Talk) -> bool:
    """Whether an answer that was begun is continued: its second token must be as probable as when said in one go."""
    for question in (*QUESTIONS[1:], QUESTIONS[0]):  # the first asks for one word, which may be one token
        try:
            (whole, *_) = await talk.chat(question, most=2, temperature=0, logprobs=True, top_logprobs=2)
            content = whole["logprobs"]["content"]
            if len(content) < 2:  # noqa: PLR2004  it ended before a second token
                continue
            begun = {"role": "assistant", "content": content[0]["token"]}
            (rest, *_) = await talk.chat(
                [*question, begun], most=1, temperature=0, logprobs=True, top_logprobs=2, **_CONTINUE
            )
            again = rest["logprobs"]["content"][0]
            return bool(again["token"] == content[1]["token"] and abs(again["logprob"] - content[1]["logprob"]) < _SAME)
        except (Refusal, KeyError, IndexError, TypeError):
            return False
    return False


async def _keeps_to_a_form(talk: Talk, tokens: Sequence[Choice]) -> bool:
    """Whether an answer can be forced to begin with a less probable token, whose log-probability stays what it was."""
    words = [token for token in tokens[1:] if (token.text or "").isascii() and bare(token.text or "")]
    try:
        for token in words[:_TRIED]:  # some tokenizers make another token of the text of a token
            if await _said(talk, talk.question, token, "") is not None:
                return True
    except Refusal:
        return False
    return False


async def read_top(
    talk: Talk, messages: Messages, labels: Sequence[str], *, top: int, goes_on: Continued
) -> LabelReading:
    """Label log-probabilities from the most probable first tokens of the answer.

    A token that only begins a label (`W` of `Worse`) is completed by one more request where the server continues an
    answer or keeps to a form (see `find_top`); else it is an upper bound.
    """
    choice = (await _first_token(talk, messages, top))[0]
    choices = checked_choices(choice)
    if not choices:
        raise Refusal(_why_no_tokens(choice))
    partial = from_top(choices, labels)
    if not goes_on:
        return complete(partial, labels, {}, {})
    names = [bare(label) for label in labels]

    async def ending(name: str, beginning: Choice) -> float | None:
        if goes_on == "grammar":
            return await _said(talk, messages, beginning, name[len(bare(beginning.text or "")) :])
        return await _continued(talk, messages, name, beginning, top)

    values = await asyncio.gather(*(ending(names[begun.label], begun.choice) for begun in partial.begun))
    return complete(partial, labels, *endings(partial, labels, values))


async def _first_token(talk: Talk, messages: Messages, top: int, **more: Any) -> list[Any]:  # noqa: ANN401
    return await talk.chat(messages, most=1, temperature=0, logprobs=True, top_logprobs=top, **more)


async def _continued(talk: Talk, messages: Messages, name: str, beginning: Choice, top: int) -> float | None:
    """Log-probability of a label that begins with a token: the token, and all that may follow it to the label's end."""
    total, text = beginning.logprob, beginning.text or ""
    while rest := name[len(bare(text)) :]:
        begun = [*messages, {"role": "assistant", "content": text}]
        choices = checked_choices((await _first_token(talk, begun, top, **_CONTINUE))[0])
        fits = [choice for choice in choices if choice.text and rest.startswith(choice.text.casefold())]
        if not fits:
            return None
        best = max(fits, key=lambda choice: choice.logprob)
        total += best.logprob
        text += best.text or ""
    return total


async def _said(talk: Talk, messages: Messages, beginning: Choice, rest: str) -> float | None:
    """Log-probability of an answer that is forced to be a token and then the rest, in capital or small letters.

    The form allows nothing else, and the bias chooses the token where others begin the same answer. The values are
    checked: that of the first token must be the one without the form.
    """
    text = beginning.text or ""
    form = [_literal(text), *(f"[{mark}{mark.upper()}]" if mark.isalpha() else _literal(mark) for mark in rest)]
    (choice, *_) = await talk.chat(
        messages,
        most=len(rest) + 1,
        temperature=0,
        logprobs=True,
        top_logprobs=1,
        grammar=f"root ::= {' '.join(form)}",
        logit_bias={text: _BIAS},
        logit_bias_type="tokens",  # llama-cpp-python: by their text
    )
    rows = rows_at(choice, "logprobs", "content")
    values = [is_logprob(row.get("logprob")) for row in rows]
    known = [value for value in values if value is not None]
    spelt = "".join(str(row.get("token")) for row in rows)
    if len(known) < len(values):
        raise Refusal(f"an invalid log-probability in an answer that began with {text!r:.40}", status=ANSWERED)
    if not rows or spelt.casefold() != (text + rest).casefold():
        return None
    if rows[0].get("token") != text or abs(known[0] - beginning.logprob) > _SAME:
        return None
    return math.fsum(known)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


async def find_sampling(talk: Talk, most: int) -> tuple[bool, bool]:
    """Whether one request gives several answers, and whether all answers to one question are the same."""
    for question in (_RANDOM, talk.question):
        several = False
        try:
            several = len(await talk.chat(question, most=most, temperature=1.0, n=2, seed=0)) == 2  # noqa: PLR2004
        except Refusal as refusal:
            if refusal.ends_the_run:
                raise
        drawn = await _drawn(talk, question, DRAWS, most, several=several)
        if several and _all_equal(drawn):
            several = False
            drawn = await _drawn(talk, question, DRAWS, most, several=False)
        if not all(map(ended_at_once, drawn)):
            return several, _all_equal(drawn) and not all(map(cut_before_a_word, drawn))
    raise Impossible(ENDED)


def _all_equal(choices: Sequence[Any]) -> bool:
    return len({json.dumps(at(choice, "message")) for choice in choices}) == 1


async def _drawn(talk: Talk, messages: Messages, number: int, most: int, *, several: bool) -> list[Any]:
    if several:
        choices = await talk.chat(messages, most=most, temperature=1.0, n=number, seed=0)
        if len(choices) >= number:
            return choices[:number]
        missing = range(len(choices), number)  # some servers have fewer slots than were asked for
    else:
        choices, missing = [], range(number)
    more = await asyncio.gather(*(talk.chat(messages, most=most, temperature=1.0, seed=seed) for seed in missing))
    return [*choices, *(each[0] for each in more)]


async def read_sampled(
    talk: Talk,
    messages: Messages,
    labels: Sequence[str],
    *,
    samples: int,
    most: int,
    several: bool,
    fixed: bool,
    counts: Counter[str],
) -> LabelReading:
    """Label shares of `samples` answers at temperature 1, or of one where all are the same (`fixed`).

    `counts` takes unparsed answers by their reason.
    """
    number = 1 if fixed else samples
    named = [0] * len(labels)
    unparsed: Counter[str] = Counter()
    example = ""
    for choice in await _drawn(talk, messages, number, most, several=several and not fixed):
        answer = said(choice)
        verdict = answer.missing or label_in(answer.text, labels, ended=answer.finish != "length")
        if isinstance(verdict, int):
            named[verdict] += 1
        else:
            unparsed[verdict] += 1
            counts[f"answer: {verdict}"] += 1
            example = example or answer.text
    return reading_from_counts(
        named,
        number,
        unparsed,
        example=talk.server.shown(example)[:_SHOWN],
        note="one vote, not a probability: the server gives one answer only" if fixed else None,
    )
