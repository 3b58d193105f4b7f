"""Readings of labels from token log-probabilities, the text of an answer, or the counts of sampled answers.

Every backend makes its readings here, so that these rules exist once: a label that begins another label, probabilities
that are impossible, which label an answer names, and the log-probability of a label that no answer named.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from refladder.backends.attempts import ANNOUNCED, is_refused
from refladder.errors import DataError
from refladder.parsing import parse_json
from refladder.records import LARGEST_SUM, LabelReading
from refladder.thoughts import LONGEST, answer_part, without_thoughts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from refladder.records import Exactness

# Natural logarithm used for a share of 0, which has none: 2e-22.
NEVER = -50.0
# Least p(a label ends here); float32 rounds smaller values to 0.
LEAST_REST = 1e-9

# Characters of an unparsed answer in a message.
_SHOWN = 60

# Values of the option `prefix`.
PREFIXES = "template", "none"

NO_LABEL = "no label in the answer"
SEVERAL = "several labels in the answer"
NEGATED = "a negated label in the answer"
REFUSED = "a refusal in the answer"
CUT_BEFORE = "cut before a label"
CUT_IN = "cut within a label"
EMPTY = "empty answer"
NO_CHOICE = "empty choice"
# Part of the note of an answer that the next run asks for again; there is nothing to read in a missing one.
UNPARSED = "unparsed"

# No pattern here may take the square of the length of an answer: possessive quantifiers ("*+") never give back.
_FENCE = re.compile(r"```\w*+\s*+")
_OPENING = "\"'`([{<*_“‘«"  # noqa: RUF001  a label follows them without a space
_MARKS = " \t\r\n\"'`*_#([{<“”‘’«»"  # noqa: RUF001  characters before an answer's first word
_ANNOUNCED = r"\b(?:answer|verdict|label|judge?ment|choice|option|score|grade|rating)\s*+(?:is|of)?+\s*+[:=\-]?+[\s\"'`*_(\[]*+"
_LEAD = re.compile(r"(?:(?:the|my)\s+)?(?:final\s+)?" + _ANNOUNCED, re.IGNORECASE)
# "not better", "isn't any better", "no better", "I do not think it is better"; matched backwards from the label.
_NEGATION = re.compile(
    r"\s++(?:\w++\s++){0,3}(?:(?:ton|on|reven|rehtien|ron|tonnac)\b|t['\u2019]n)", re.IGNORECASE
)
# "Summary A is not better", "Summary A does not improve on it", "Summary A? No."
_DENIAL = re.compile(
    r"\s++(?:(?:is|was|are|were|does|do|did|has|have|can|could|would|should)\s+(?:not|never)\b|cannot\b|\w+n['\u2019]t\b)"
    r"|[\"'`*_]*+\?[\s\"'`*_]*+(?:no|not|never)\b",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(r"no|never|neither|n['\u2019]t", re.IGNORECASE)
# Characters around a label that another one follows: "**Better** / Worse", "Better, or Similar".
_BETWEEN = r"[\s\"'`*_()\[\]]*+"
# What parts an answer into pieces, and what may be around a label that is one of them; not "4/5" nor "1 - 5".
_PIECES = re.compile(
    r"[\n;:!?()|&+]|[.,](?!\d)|(?<!\d)/(?!\d)|(?<!\d)\s[-–—]+\s(?!\d)|\b(?:and|or)\b|->|→"  # noqa: RUF001
)
_AROUND = " \t\r\"'`*_#.,<>[]{}“”‘’«»-•"  # noqa: RUF001
# What may follow a label that is a number: "4", "4.", "4/5", "4 out of 5", "4 because"; not "4.5", "4-5", "4 errors".
_AFTER_NUMBER = re.compile(
    r"[ \t]*+(?:$|[\r\n)\]}\"'`*_;:(]|(?:/|(?:out\s+)?of\s)\s*(?P<highest>\d+)"
    r"|[.,\-–—](?!\s*\d)|(?:because|since|as|stars?|points?)\b)",  # noqa: RUF001
    re.IGNORECASE,
)
_AFTER_SHORT = r"(?!'\w)(?=[ \t]*(?:$|[\r\n.,:;)\]}\"'`*_]|[\-–—]\s))"  # noqa: RUF001


def shortened(prefix: str) -> Iterator[str]:
    """Yield an answer prefix, then the prefix without its last word, and so on."""
    while prefix:
        yield prefix
        prefix = prefix.rpartition(" ")[0].rstrip()


def spellings_after(prefix: str, label: str) -> list[str]:
    """Return the spellings of a label that count after a prefix; the one that the prefix calls for is first."""
    both = [label, " " + label]
    return both if prefix[-1] in _OPENING else both[::-1]


def ids_after(beginning: list[int], ids: list[int]) -> list[int]:
    """Return the token ids that follow a beginning; none if ids do not begin with it."""
    return ids[len(beginning) :] if ids[: len(beginning)] == beginning else []


def both_count(ends: Sequence[Sequence[Sequence[int]]]) -> bool:
    """Return whether the second spelling of each label counts: one token for every label costs nothing and is fair."""
    return all(len(spelt[1]) == 1 for spelt in ends)


def log_sum(values: Sequence[float]) -> float:
    """Return log(sum(exp(values))) without overflow."""
    highest = max(values)
    return highest + math.log(math.fsum(math.exp(value - highest) for value in values))


def without_continuations(logprob: float, continuations: Sequence[float]) -> float:
    """Return the log-probability that a label is the whole answer: p(label) - sum of p(longer label)."""
    if not continuations:
        return logprob
    rest = 1 - math.fsum(math.exp(value - logprob) for value in continuations)
    return logprob + math.log(max(rest, LEAST_REST))


def checked_reading(
    logprobs: Sequence[float],
    *,
    mass: float,
    seen: float = 0.0,
    exactness: Exactness = "exact",
    cut: bool = False,
    note: str | None = None,
) -> LabelReading:
    """Return a reading; without numbers if the probabilities are impossible.

    `seen` is the largest sum that was returned for one position.
    """
    total = max(mass, seen)
    if not total <= LARGEST_SUM:
        reason = (
            f"the returned probabilities add to {total:.2f}, more than 1; they cannot be trusted"
        )
        return LabelReading(reason=reason, cut=cut)
    return LabelReading(
        logprobs=tuple(logprobs), mass=min(1.0, mass), exactness=exactness, cut=cut, note=note
    )


def reading_from_sequences(
    spellings: Sequence[Sequence[tuple[int, ...]]],
    logprobs: Mapping[tuple[int, ...], float],
    *,
    seen: float = 0.0,
    cut: bool = False,
    note: str | None = None,
) -> LabelReading:
    """Read labels from the log-probabilities of token sequences, without continuations; spellings of a label add up."""
    alone = {}
    for sequence, logprob in logprobs.items():
        longer = [other for other in logprobs if _begins(sequence, other)]
        continuations = []
        for other in longer:
            # What continues the sequence through another one is part of that one.
            if not any(_begins(one, other) for one in longer):
                continuations.append(logprobs[other])
        alone[sequence] = without_continuations(logprob, continuations)
    values = [log_sum([alone[ids] for ids in dict.fromkeys(group)]) for group in spellings]
    return checked_reading(
        values, mass=math.fsum(map(math.exp, alone.values())), seen=seen, cut=cut, note=note
    )


def _begins(prefix: tuple[int, ...], sequence: tuple[int, ...]) -> bool:
    return len(prefix) < len(sequence) and sequence[: len(prefix)] == prefix


def reading_from_verdicts(
    verdicts: Sequence[tuple[int | str, str]],
    labels: int,
    *,
    cut: bool = False,
    note: str | None = None,
    places: Sequence[str | None] = (),
) -> LabelReading:
    """Read labels from what `label_in` gave for sampled answers, and these answers as they may be shown.

    They are the shares of the labels among the answers that name one. `places` are the lines of files with the answers.

    Source: arXiv 2509.05440, Table 2 ("Sample"); arXiv 2307.07889, equation 5.
    """
    counts = Counter(verdict for verdict, _ in verdicts)
    unparsed = Counter(verdict for verdict, _ in verdicts if isinstance(verdict, str))
    parsed = len(verdicts) - unparsed.total()
    problem = None
    if unparsed:
        reasons = ", ".join(f"{count} x {reason}" for reason, count in unparsed.most_common())
        example = place = None
        for (verdict, answer), line in itertools.zip_longest(verdicts, places):
            if isinstance(verdict, str):
                example = example or answer[:_SHOWN]
                place = place or line
        word = UNPARSED if example or EMPTY in unparsed or NO_CHOICE in unparsed else "missing"
        problem = f"{unparsed.total()} of {len(verdicts)} answers {word}: {reasons}"
        if example:
            problem += f", e.g. {example!r}"
        if place:
            problem += f" ({place})"
    if not parsed:
        return LabelReading(reason=problem or "no answers", cut=cut)
    logprobs = [NEVER] * labels
    for label in range(labels):
        if counts[label]:
            logprobs[label] = math.log(counts[label] / parsed)
    return LabelReading(
        logprobs=tuple(logprobs),
        mass=parsed / len(verdicts),
        exactness="sampled",
        cut=cut,
        note="; ".join(filter(None, (note, problem))) or None,
    )


def label_in(text: str, labels: Sequence[str], *, ended: bool = True) -> int | str:
    """Return the number of the label that an answer names, or why it names none.

    An answer names a label if it begins with it, is JSON that holds it, or names it and no other label. The last word
    is enough where labels differ in that word alone ("A" of "Summary A") and nothing but punctuation follows. A number,
    or one letter of a scale with "a" and "I", must begin the answer or follow a word such as "score". A negated label
    is not named, nor one of several that the answer gives ("Better or Similar", or "Better" and later "Final answer:
    Worse"), nor, unless `ended`, a number or a short name at the very end: "1" may have become "10".
    """
    said = without_thoughts(text)
    is_long = len(said) > LONGEST
    ended = ended and not is_long
    complete = ended or (text != text.rstrip() and not is_long)
    answer = answer_part(said[:LONGEST], ended=ended)
    verdict = _label_in(answer, [label.casefold() for label in labels], complete=complete)
    return CUT_BEFORE if verdict == NO_LABEL and not ended else verdict


def _label_in(answer: str, names: Sequence[str], *, complete: bool) -> int | str:
    fence = _FENCE.match(answer)
    if fence is not None and answer.endswith("```", fence.end()):
        answer = answer[fence.end() : -3].rstrip()
    if answer.startswith(("{", "[")):
        inside = _json_label(answer, names)
        if inside is not None:
            return inside
    start = answer.lstrip(_MARKS)
    verdict = _at_start(start, names, complete=complete)
    if verdict is None and (lead := _LEAD.match(start)):
        verdict = _at_start(start[lead.end() :].lstrip(_MARKS), names, complete=complete)
    if verdict is None:
        verdict = _anywhere(answer, names, complete=complete)
    elif isinstance(verdict, int):
        verdict = _only(verdict, answer, names, complete=complete)
    return REFUSED if isinstance(verdict, int) and is_refused(answer) else verdict


def _only(number: int, answer: str, names: Sequence[str], *, complete: bool) -> int | str:
    """Return the label that begins an answer, unless another one is alone in a line or comes after a change of mind."""
    both = list(zip(names, _short_names(names) or names, strict=True))
    others = {name for place, spelled in enumerate(both) if place != number for name in spelled}
    if any(piece.strip(_AROUND) in others for piece in _PIECES.split(answer.casefold())):
        return SEVERAL
    first = re.compile(_any_of([*itertools.chain(*both)]), re.IGNORECASE).search(answer)
    changed = ANNOUNCED.search(answer, first.end() if first else 0)
    if changed is None:
        return number
    if not complete:
        return CUT_BEFORE
    later = re.compile(_any_of(others), re.IGNORECASE).search(answer, changed.start())
    return number if later is None else SEVERAL


def _at_start(text: str, names: Sequence[str], *, complete: bool) -> int | str | None:
    """Return the label at the beginning of a text, or why it is not named; None if there is no label."""
    match = None if _are_letters(names) else re.match(_any_of(names), text, re.IGNORECASE)
    if match is None:
        return _short_at_start(text, _short_names(names), complete=complete)
    if _are_numbers(names):
        if not complete and match.end() == len(text):
            return CUT_IN
        if not _ends_grade(text, match.end(), names):
            return None
    if _DENIAL.match(text, match.end()):
        return NEGATED
    return SEVERAL if _leaves_open(text, match, names) else names.index(match.group().casefold())


def _short_at_start(text: str, short: Sequence[str], *, complete: bool) -> int | str | None:
    match = re.match(_any_of(short) + _AFTER_SHORT, text, re.IGNORECASE) if short else None
    if match is None:
        return None
    if not complete and match.end() == len(text):
        return CUT_IN
    return short.index(match.group().casefold())


def _leaves_open(text: str, match: re.Match[str], names: Sequence[str]) -> bool:
    """Return whether a label at the beginning is one of a choice: "Better or Similar", "A / B", "Better? Or Worse?".

    Numbers have rules of their own: "4/5" is a grade.
    """
    if _are_numbers(names):
        return False
    other = _any_of([name for name in names if name != match.group().casefold()])
    asked = re.compile(_BETWEEN + r"\?").match(text, match.end())
    if asked is not None:
        return re.compile(other, re.IGNORECASE).search(text, asked.end()) is not None
    if short := _short_names(names):
        other += f"|{_any_of(short)}{_AFTER_SHORT}"
    listed = f"(?:,{_BETWEEN}{_any_of(names)}{_BETWEEN})*"
    choice = (
        rf"{_BETWEEN}{listed},?\s*(?:[/|]|or\b){_BETWEEN}(?:\w++\s++){{0,3}}{_BETWEEN}(?:{other})"
    )
    both = rf"{_BETWEEN}(?:[&+]|and\b){_BETWEEN}(?:{other})"
    return re.compile(f"{choice}|{both}", re.IGNORECASE).match(text, match.end()) is not None


def _anywhere(text: str, names: Sequence[str], *, complete: bool) -> int | str:
    pattern = f"(?P<label>{_any_of(names)})"
    short = _are_numbers(names) or _are_letters(names)
    if short:
        pattern = _ANNOUNCED + pattern
    if _are_letters(names):
        pattern += _AFTER_SHORT
    matches = list(re.finditer(pattern, text, re.IGNORECASE))
    if _are_numbers(names):
        matches = [match for match in matches if _ends_grade(text, match.end(), names)]
    if short and not complete and any(match.end() == len(text) for match in matches):
        return CUT_IN
    distinct = {match["label"].casefold() for match in matches}
    if not distinct:
        return NO_LABEL
    if len(distinct) > 1:
        return SEVERAL
    if _NEGATIVE.search(text):
        backwards = text[::-1]
        for match in matches:
            before = _NEGATION.match(backwards, len(text) - match.start())
            if before or _DENIAL.match(text, match.end()):
                return NEGATED
    return names.index(distinct.pop())


def _ends_grade(text: str, position: int, names: Sequence[str]) -> bool:
    """Return whether a number ends here as a grade: not inside another number, and not on another scale."""
    match = _AFTER_NUMBER.match(text, position)
    return match is not None and match["highest"] in {None, max(names, key=int)}


def _any_of(names: Iterable[str]) -> str:
    """Return a pattern for any of these names as whole words; the longest first."""
    return (
        r"(?<!\w)(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r")(?!\w)"
    )


def _are_numbers(names: Sequence[str]) -> bool:
    return all(name.isdecimal() for name in names)


def _are_letters(names: Sequence[str]) -> bool:
    """Return whether the names are letters that are also English words: "a" and "i" are among them."""
    return {"a", "i"} <= set(names) and all(len(name) == 1 for name in names)


def _short_names(names: Sequence[str]) -> list[str]:
    """Return the last words of labels that differ in these only, or the letters of a scale; else no names."""
    if _are_letters(names):
        return list(names)
    words = [name.rpartition(" ")[2] for name in names]
    heads = {name.rpartition(" ")[0] for name in names}
    if len(heads) != 1 or heads == {""} or len(set(words)) < len(words):
        return []
    return words


def _json_label(text: str, names: Sequence[str]) -> int | str | None:
    """Return the label in an answer that is JSON; None if it is not JSON or holds no label."""
    try:
        value = parse_json(text, "the answer")
    except DataError:
        return None
    texts = {leaf.strip().casefold() for leaf in _leaves(value)}
    for spelled in (names, _short_names(names)):
        numbers = [number for number, name in enumerate(spelled) if name in texts]
        if len(numbers) > 1:
            return SEVERAL
        if numbers:
            return numbers[0]
    return None


def _leaves(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str | int) and not isinstance(item, bool):
            yield str(item)
