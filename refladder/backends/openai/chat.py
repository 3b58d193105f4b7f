"""Labels through the chat interface: from the most probable first tokens, or from n sampled answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from refladder.backends.labels import label_in, log_sum, reading_from_counts
from refladder.backends.openai.answers import said
from refladder.backends.openai.reading import Choice, bare, complete, first_choices, from_top
from refladder.backends.openai.talk import PROBE, Impossible, Messages, Talk
from refladder.backends.openai.transport import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.records import LabelReading

TOPS = (1000, 20, 5)  # most probable tokens to ask for: without a limit, OpenAI's limit, the smallest limit in use
DRAWS = 20  # answers compared to tell whether a server samples at all
_SAME = 0.05  # nats, as in `exact`
_SHOWN = 60  # characters of an unparsed answer in a message
_FEWEST = 2  # tokens that make a list of the most probable ones
_RANDOM: Messages = [{"role": "user", "content": "Write eight words that have nothing to do with each other."}]
_CONTINUE = {"add_generation_prompt": False, "continue_final_message": True}  # vLLM, SGLang; llama-server needs neither


async def find_top(talk: Talk) -> tuple[int, bool]:
    """How many of the most probable tokens the chat gives, and whether it goes on with an answer that was begun.

    Raises:
        Impossible: it gives none.
    """
    reasons = []
    for top in TOPS:
        try:
            choices = await talk.chat(PROBE, most=1, temperature=0, logprobs=True, top_logprobs=top)
        except Refusal as refusal:
            if refusal.ends_the_run:
                raise
            reasons.append(refusal.reason)
            continue
        tokens = first_choices(choices[0])
        if len(tokens) >= _FEWEST:
            return min(top, len(tokens)), await _goes_on(talk)
        raise Impossible("log-probabilities were asked for and not returned")
    raise Impossible(reasons[-1])


async def _goes_on(talk: Talk) -> bool:
    """Whether an answer that was begun is continued: its second token must be as probable as when said in one go."""
    question: Messages = [{"role": "user", "content": "Count from one to nine in words."}]
    try:
        (whole, *_) = await talk.chat(question, most=2, temperature=0, logprobs=True, top_logprobs=2)
        content = whole["logprobs"]["content"]
        begun = {"role": "assistant", "content": content[0]["token"]}
        (rest, *_) = await talk.chat(
            [*question, begun], most=1, temperature=0, logprobs=True, top_logprobs=2, **_CONTINUE
        )
        again = rest["logprobs"]["content"][0]
        return bool(again["token"] == content[1]["token"] and abs(again["logprob"] - content[1]["logprob"]) < _SAME)
    except (Refusal, KeyError, IndexError, TypeError):
        return False


async def read_top(talk: Talk, messages: Messages, labels: Sequence[str], *, top: int, goes_on: bool) -> LabelReading:
    """Label log-probabilities from the most probable first tokens of the answer.

    A token that only begins a label (`W` of `Worse`) is completed by one more request where the server continues an
    answer; else it is an upper bound.

    Raises:
        Refusal: a request failed for good.
    """
    choices = first_choices((await _first_token(talk, messages, top))[0])
    if not choices:
        raise Refusal("log-probabilities were asked for and not returned")
    partial = from_top(choices, labels)
    ends: dict[int, float] = {}
    taken: dict[int, list[float]] = {}  # of a label that another begins with: what went on to the other
    if goes_on and partial.begun:
        names = [bare(label) for label in labels]
        endings = await asyncio.gather(
            *(_ending(talk, messages, names[begun.label], begun.choice, top) for begun in partial.begun)
        )
        completed: dict[int, list[float | None]] = {}
        for begun, value in zip(partial.begun, endings, strict=True):
            completed.setdefault(begun.label, []).append(value)
            if begun.whole and value is not None:
                taken.setdefault(names.index(bare(begun.choice.text or "")), []).append(value)
        for number, values in completed.items():
            complete_endings = [value for value in values if value is not None]
            if len(complete_endings) == len(values):
                ends[number] = log_sum(complete_endings)
    return complete(partial, labels, ends, taken)


async def _first_token(talk: Talk, messages: Messages, top: int, **more: Any) -> list[Any]:  # noqa: ANN401
    return await talk.chat(messages, most=1, temperature=0, logprobs=True, top_logprobs=top, **more)


async def _ending(talk: Talk, messages: Messages, name: str, beginning: Choice, top: int) -> float | None:
    """Log-probability of a label that begins with a token: the token, and all that may follow it to the label's end."""
    total, text = beginning.logprob, beginning.text or ""
    while rest := name[len(bare(text)) :]:
        begun = [*messages, {"role": "assistant", "content": text}]
        choices = first_choices((await _first_token(talk, begun, top, **_CONTINUE))[0])
        fits = [choice for choice in choices if choice.text and rest.startswith(choice.text.casefold())]
        if not fits:
            return None
        best = max(fits, key=lambda choice: choice.logprob)
        total += best.logprob
        text += best.text or ""
    return total


async def find_sampling(talk: Talk, most: int) -> tuple[bool, bool]:
    """Whether one request gives several answers, and whether all answers to one question are the same.

    Returns:
        (several, fixed).

    Raises:
        Refusal: the server answers nothing at all.
    """
    several = False
    try:
        several = len(await talk.chat(_RANDOM, most=most, temperature=1.0, n=2, seed=0)) == 2  # noqa: PLR2004
    except Refusal as refusal:
        if refusal.ends_the_run:
            raise
    drawn = await _drawn(talk, _RANDOM, DRAWS, most, several=several)
    if several and _all_equal(drawn):
        several = False
        drawn = await _drawn(talk, _RANDOM, DRAWS, most, several=False)
    return several, _all_equal(drawn)


def _all_equal(choices: Sequence[Any]) -> bool:
    return len({json.dumps(choice.get("message") if isinstance(choice, dict) else None) for choice in choices}) == 1


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
    """Label shares of n answers at temperature 1, or of one where the server gives only one.

    Args:
        talk: the model.
        messages: the prompt.
        labels: what may be said.
        samples: n.
        most: tokens an answer may take.
        several: whether one request gives several answers.
        fixed: whether all answers to one question are the same.
        counts: where unparsed answers are counted by their reason.

    Raises:
        Refusal: a request failed for good.
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
