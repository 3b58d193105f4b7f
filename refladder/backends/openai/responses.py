"""Log-probabilities of labels from the responses of a server, by pure functions without network.

A label is read exactly from its own tokens, or from the most probable tokens of the first position: all its spellings
(`Better`, ` better`, `BETTER`) add up. A label outside the returned tokens has a bound, and its row is unparsed unless
the bound is too small to matter.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.labels import (
    EMPTY,
    NO_CHOICE,
    checked_reading,
    log_sum,
    reading_from_sequences,
    without_continuations,
)
from refladder.backends.openai.errors import ANSWERED, Refusal, at
from refladder.records import Completion, LabelReading
from refladder.thoughts import has_thoughts, without_thoughts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A bound below this share of the labels' mass cannot change a score noticeably.
NEGLIGIBLE = 1e-4
# OpenAI and vLLM send this for a token outside the list.
_NOT_A_NUMBER = -9999.0
# The most that rounding in half precision makes of the log-probability of a sure token.
_SURE = 1e-3
# Share of the labels' mass below which a token that begins a label is left out.
_WORTH_A_LOOK = 1e-3
# A part of a label's probability this small is not reported if its size is unknown.
_LITTLE = math.log(0.05)
_TOKEN_ID = re.compile(r"token_id:(\d{1,20})")
# Share of the mass that replaces a bound of 0, whose logarithm is not finite.
_NOTHING = 1e-12
_AROUND = " \t\r\n\"'`*.,:;!Ġ▁“”‘’«»\u200b\u200c\u200d\u2060\ufeff"  # noqa: RUF001  characters around a label that do not change it


class Choice(NamedTuple):
    """A possible token of the answer, as the server reports it."""

    text: str | None
    id: int | None
    logprob: float


def first_choices(choice: Any) -> list[Choice]:
    """Return the tokens of the first generated position, most probable first, without invalid entries."""
    distinct = {}
    for entry in _entries(choice):
        token = _choice(*entry)
        # The chosen token is among the most probable ones too.
        if token is not None:
            distinct[token.id, token.text] = token
    return sorted(distinct.values(), key=lambda token: -token.logprob)


def checked_choices(choice: Any) -> list[Choice]:
    """Return `first_choices` if every entry is valid, else raise Refusal; -9999 and less mean no probability."""
    for token, _, logprob in _entries(choice):
        number = isinstance(logprob, int | float) and not isinstance(logprob, bool)
        if not isinstance(token, str) or not number or not logprob <= _SURE:
            reason = f"an invalid entry among the log-probabilities: token {token!r:.40} with {logprob!r:.40}"
            raise Refusal(reason, status=ANSWERED)
    return first_choices(choice)


def _entries(choice: Any) -> list[tuple[Any, Any, Any]]:
    """Return token, id and log-probability of each entry of the first generated position, unchecked."""
    found: list[tuple[Any, Any, Any]] = []
    first = at(choice, "logprobs", "content", 0)
    if isinstance(first, dict):
        entries = first.get("top_logprobs")
        if not isinstance(entries, list):
            entries = []
        for entry in [*entries, first]:
            found.append((at(entry, "token"), at(entry, "id"), at(entry, "logprob")))
    top = at(choice, "logprobs", "top_logprobs", 0)
    if isinstance(top, dict):
        found += [(token, None, value) for token, value in top.items()]
    return found


def _choice(token: Any, number: Any, logprob: Any) -> Choice | None:
    value = is_logprob(logprob)
    if value is None:
        return None
    text = token if isinstance(token, str) else None
    if found := _TOKEN_ID.fullmatch(text or ""):
        return Choice(None, int(found[1]), value)
    return Choice(text, number if isinstance(number, int) else None, value)


def is_logprob(value: Any) -> float | None:
    """Return a log-probability, or None if the value is not one; rounding may put a sure token slightly above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not math.isfinite(value) or value <= _NOT_A_NUMBER or value > _SURE:
        return None
    return min(0.0, float(value))


def next_tokens(sequences: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], list[int]]:
    """Map label beginnings (the empty one first) to the sorted token ids that follow: the fewest requests."""
    wanted: dict[tuple[int, ...], set[int]] = {}
    for sequence in sequences:
        for position, token in enumerate(sequence):
            wanted.setdefault(sequence[:position], set()).add(token)
    shortest_first = sorted(wanted, key=lambda ids: (len(ids), ids))
    return {beginning: sorted(wanted[beginning]) for beginning in shortest_first}


def from_tokens(
    groups: Sequence[Sequence[tuple[int, ...]]],
    values: Mapping[tuple[int, ...], Mapping[int, float]],
) -> LabelReading:
    """Read labels: each spelling of a group is the sum over its tokens, and the spellings of a label add up."""
    logprobs = {}
    for sequence in itertools.chain(*groups):
        tokens = [values[sequence[:place]][token] for place, token in enumerate(sequence)]
        logprobs[sequence] = math.fsum(tokens)
    seen = max(math.fsum(map(math.exp, following.values())) for following in values.values())
    return reading_from_sequences(groups, logprobs, seen=seen)


class Beginning(NamedTuple):
    """A token that begins a label (`W` of `Worse`); `whole` is another label that it spells (`1`, of `10`), if any."""

    label: int
    choice: Choice
    whole: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """Labels read from the most probable tokens of one position."""

    # Natural logarithms of the tokens that spell a whole label; None without such.
    logs: tuple[float | None, ...]
    # Tokens that begin a label and are worth a second look.
    begun: tuple[Beginning, ...]
    # The most that any token outside the list can have.
    bound: float
    # Total probability of the listed tokens.
    seen: float
    top: int
    first: str


def from_top(choices: Sequence[Choice], labels: Sequence[str]) -> Partial:
    """Sort the most probable tokens by the label they spell or begin; the spellings of a label add up."""
    spelled = tuple(labels)
    weights: list[list[float]] = [[] for _ in labels]
    begun: list[Beginning] = []
    for choice in choices:
        whole, possible = _spells(choice.text or "", spelled)
        if whole is not None:
            weights[whole].append(choice.logprob)
        if whole is not None or len(possible) == 1:
            begun += [Beginning(number, choice, whole) for number in possible]
    # If `10` is a token, `1` does not begin it.
    begun = [start for start in begun if start.whole is None or not weights[start.label]]
    relevant = [*itertools.chain(*weights), *(start.choice.logprob for start in begun)]
    least = _WORTH_A_LOOK * math.fsum(map(math.exp, relevant))
    seen = math.fsum(math.exp(choice.logprob) for choice in choices)
    bound, first = 1.0, None
    if choices:
        bound = min(math.exp(choices[-1].logprob), max(0.0, 1 - seen))
        first = choices[0].text
    return Partial(
        logs=tuple(log_sum(values) if values else None for values in weights),
        begun=tuple(start for start in begun if math.exp(start.choice.logprob) > least),
        bound=bound,
        seen=seen,
        top=len(choices),
        first=first or "",
    )


@lru_cache(maxsize=4096)
def _spells(text: str, labels: tuple[str, ...]) -> tuple[int | None, tuple[int, ...]]:
    """Return the number of the label that a token spells (None if none), and the numbers of those that it begins."""
    said = bare(text)
    whole, begun = None, []
    for number, label in enumerate(map(bare, labels)):
        if label == said:
            whole = number if whole is None else whole
        elif said and label.startswith(said):
            begun.append(number)
    return whole, tuple(begun)


def complete(
    partial: Partial, labels: Sequence[str], ends: Sequence[float | None] = ()
) -> LabelReading:
    """Return a reading from the most probable tokens of a position, or why there is none.

    `ends` has the log-probability of each of `partial.begun` with all its completions, None where it could not be
    completed. A label counts as completed if what is left of its beginnings is little beside what was completed.
    One seen by its beginnings (nearly) alone has their probability, an upper bound. Where a whole spelling and
    beginnings are both likely, the row is unparsed: such beginnings may be those of other words.
    """
    beginnings = list(zip(partial.begun, ends or [None] * len(partial.begun), strict=True))
    # The log-probability of each label by its number, or the most that its probability can be.
    logs: dict[int, float] = {}
    bounds: dict[int, float] = {}
    notes: list[str] = []
    for number, (label, whole) in enumerate(zip(labels, partial.logs, strict=True)):
        longer = [end for start, end in beginnings if start.whole == number and end is not None]
        parts = [] if whole is None else [without_continuations(whole, longer)]
        begun = [(start, end) for start, end in beginnings if start.label == number]
        completed = [end for _, end in begun if end is not None]
        left = [start.choice.logprob for start, end in begun if end is None]
        if completed and (not left or log_sum(left) < log_sum(completed) + _LITTLE):
            parts.append(log_sum(completed))
        elif begun:
            open_ended = log_sum([start.choice.logprob for start, _ in begun])
            mostly_begun = not parts or parts[0] < open_ended + _LITTLE
            as_likely = not mostly_begun and open_ended > parts[0] + _LITTLE
            if as_likely or any(start.whole is not None for start, _ in begun):
                bounds[number] = math.exp(log_sum([*parts, open_ended]))
                notes.append(f"label {label!r} was only begun: p <= {bounds[number]:.2g}")
            elif mostly_begun:
                parts.append(open_ended)
                notes.append(
                    f"label {label!r} read from its beginning {begun[0][0].choice.text!r}, an upper bound"
                )
        elif not parts:
            bounds[number] = partial.bound
            notes.append(f"label {label!r} outside the top {partial.top}: p <= {partial.bound:.2g}")
        if number not in bounds:
            logs[number] = log_sum(parts)
    mass = math.fsum(map(math.exp, logs.values()))
    if not mass:
        reason = f"no label among the top {partial.top} tokens; the first is {partial.first!r:.40}"
        return LabelReading(reason=reason)
    if bounds and max(bounds.values()) > NEGLIGIBLE * mass:
        return LabelReading(reason="; ".join(notes))
    logs |= {number: math.log(max(bounds[number], _NOTHING * mass)) for number in bounds}
    filled = [logs[number] for number in range(len(labels))]
    return checked_reading(
        filled,
        mass=math.fsum(map(math.exp, filled)),
        seen=partial.seen,
        exactness="bounded" if notes else "exact",
        note="; ".join(notes) or None,
    )


def bare(text: str) -> str:
    """Return a label without case, and without spaces and marks around it."""
    return text.strip(_AROUND).casefold()


FILTERED, REFUSED = "content filter", "refusal"
AFTER_A_THOUGHT = f"{EMPTY} after a thought"
# What other servers call the ends of an answer.
_FINISHES = {
    "length": ("max_tokens", "model_length"),
    "content_filter": (
        "safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "refusal",
    ),
}
ENDED = "the model ended its answer at once, before a first word"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAnswer:
    """The text of a choice without its thoughts, or `missing`: why there is none."""

    text: str = ""
    finish: str = ""
    missing: str | None = None
    thought: bool = False
    # The line of a file of answers.
    place: str | None = None

    @property
    def ended_at_once(self) -> bool:
        """Return whether the model said nothing and was not cut off: its first token ended the answer."""
        return self.missing == EMPTY and self.finish != "length" and not self.thought

    @property
    def cut_before_a_word(self) -> bool:
        """Return whether the tokens were used up before a word appeared: the server hides thoughts."""
        return self.missing is not None and self.finish == "length"


def parse_answer(choice: Any) -> ParsedAnswer:
    """Return the text of a choice of a chat answer, without thoughts."""
    if not isinstance(choice, dict):
        return ParsedAnswer(missing=NO_CHOICE)
    content = at(choice, "message", "content")
    if "message" not in choice:
        # As in answers to a text.
        content = choice.get("text")
    # Some servers send the content in parts.
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    whole = content if isinstance(content, str) else ""
    hidden = at(choice, "message", "reasoning_content") or at(choice, "message", "reasoning")
    thought = bool(hidden) or has_thoughts(whole)
    finish = str(choice.get("finish_reason") or "").lower()
    finish = next((name for name, words in _FINISHES.items() if finish in words), finish)
    refusal = at(choice, "message", "refusal")
    text = without_thoughts(whole)
    missing = None
    if finish == "content_filter":
        missing = FILTERED
    elif isinstance(refusal, str) and refusal:
        missing = REFUSED
    elif not text.strip():
        missing = EMPTY
        if thought:
            missing = "cut while it was thinking" if finish == "length" else AFTER_A_THOUGHT
    return ParsedAnswer(
        text="" if missing else text,
        finish=finish,
        missing=missing,
        thought=thought,
        place=getattr(choice, "place", None),
    )


def written(choice: Any) -> Completion:
    """Return a writer's answer as a completion; an answer without a text is an error with the reason."""
    answer = parse_answer(choice)
    if answer.missing is not None:
        return Completion(finish="error", note=answer.missing, place=answer.place)
    return Completion(
        text=answer.text.strip(),
        finish="length" if answer.finish == "length" else "stop",
        place=answer.place,
    )
