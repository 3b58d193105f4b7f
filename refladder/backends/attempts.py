"""Attempts of a judge to answer: the last one counts, or nothing does.

An attempt at ratings, or at numbers for letters, is two or more consecutive lines of them, in any form, or a heading
that announces one. A judge that changes its mind writes a second one, and a draft must never be read in its place.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from refladder.thoughts import answer_part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MARKUP = re.compile(r"[*_`\"'“”\[\]]")
_SEPARATOR = r"(?:[ \t]*(?:->|=>|→|[:=)|])|[ \t]+[-–—](?=[ \t]))+"  # noqa: RUF001
# A number, perhaps with its unit; what follows it holds no other digit.
_NUMBER = re.compile(
    r"\s*(?P<number>[-−–+]?(?:\d+(?:[.,]\d+)?|\.\d+))(?P<unit>\s*(?:%|percent\b|per cent\b|/\s*100\b|out of 100\b))?"  # noqa: RUF001
    r"(?!\w|[.,]\d)(?P<remark>\D*)",
    re.IGNORECASE,
)
# Words in the place of a number, or before one.
_HEDGE = (
    r"about|around|approx\w*|roughly|nearly|almost|maybe|perhaps|probably|circa|between|from|over|under|below|above"
    r"|(?:less|more) than|at (?:least|most)|up to"
)
_WORD = re.compile(
    r"\W*(?:(?:very|quite|rather)\s+)?(?:none|nil|zero|low|high|medium|moderate|likely|unlikely|certain|impossible|n/?a"
    r"|one|two|three|five|ten|fifteen|\w+ty(?:-\w+)?|(?:one\s+)?hundred)\b[\s\w]{0,12}\W*",
    re.IGNORECASE,
)
# An object of JSON for one number, such as {"reference": "A", "probability": 85}.
_OBJECT = re.compile(
    r"\{\s*\"\w+\"\s*:\s*\"?(\d+|[A-Za-z])\"?\s*,\s*\"(?:prob|percent|chance|share|value|number|confidence|likelihood)\w*\""
    r"\s*:\s*\"?([\d.]+\s*%?)\"?\s*\}",
    re.IGNORECASE,
)
# A line of a table that separates its head, or holds nothing.
_EMPTY = re.compile(r"[\s|:,;-]*")
_LETTER = re.compile(r"[^\W\d_]")
_DIGITS = re.compile(r"\d+")

_GIVEN = (
    r"(?:answers?|ratings?|scores?|percentages?|probabilit\w+|distributions?|verdict|estimates?|assessment|judge?ment"
    r"|numbers|values|version|attempt|evaluation|grade|label|choice|decision)\b"
)
_CHANGED = r"final|revised|corrected|updated|adjusted|amended|reconsidered|improved"
# What announces a further attempt: "so the final answer is", "On reflection", "Wait, no", "New ratings:".
ANNOUNCED = re.compile(
    rf"\b(?:{_CHANGED})\s+(?:\w+\s+){{0,2}}?{_GIVEN}|^\W*(?:\w+\s+)?(?:{_CHANGED}|new|again)\W*$"
    r"|\b(?:up)?on (?:(?:further|second|closer|more) |a (?:second|closer) )?(?:reflection|thoughts?"
    r"|look|reading|consideration|inspection)\b|\b(?:re-?think|reconsider|scratch that|hold on"
    r"|i (?:made a mistake|was wrong|take (?:it|that) back"
    r"|(?:must|should|need to|have to|want to|would) (?:correct|revise|change|lower|raise|adjust)))"
    r"|\blet me (?:re\w+|correct|revise|fix|adjust|change|update|think again|try again)\b"
    r"|(?:^|[.!?]\s+|\n)\W*(?:(?:but|so|hmm+|oh|no|and|or)\W+)?(?:wait|actually|correction|rather|i mean)\b",
    re.IGNORECASE | re.MULTILINE,
)
# A line that ends with a colon, and names an answer or turns to another one.
_HEADING = re.compile(
    r"^(?!.*\b(?:why|reason|expla|because|rationale|justif|note))(?:.*\b"
    rf"{_GIVEN}|\W*(?:but|so|however|hence|thus|therefore|again|instead|no|hmm+|okay|ok|well|yet|still|then)\b).*:\W*$",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"\b(?:cannot|can ?not|can['’]t|could not|couldn['’]t|won['’]t|will not|(?:unable|not able|not possible|impossible) to"  # noqa: RUF001
    r"|not going to|(?:refuse|decline) to)\s+(?:\w+\s+){0,2}?(?:rate|rating|judge|score|assess|evaluate|compare|answer|help"
    r"|assist|comply|engage|do (?:this|that|so))\b",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"\bfor (?:example|instance)\b|\ban? (?:example|sample)\b|^\W*example\b", re.IGNORECASE
)
# Characters of an unparsed line in a reason, and the most of a line that is a heading.
_SHOWN = 30
_LONGEST_HEADING = 200
# Numbers on a line without words that are an attempt by themselves.
_SEVERAL = 3


@dataclass(frozen=True, slots=True)
class Form:
    """What is asked for: a number for each of some keys, one line a key.

    `key` is the pattern of a key, and `named` that of the words that may be before it; `stranger` says that a key is none
    of `keys`. With `apart`, other text between two lines ends an attempt. `weight` is that of a line: attempts weigh 2.
    """

    keys: Sequence[str]
    key: str
    named: str
    stranger: str
    highest: float
    apart: bool
    weight: int

    @property
    def lines(self) -> re.Pattern[str]:
        """Return the pattern of what ends a line: also braces of JSON, and the comma between two keys."""
        return re.compile(rf"\r?\n|[{{}}]|[,;][ \t]*(?=\(?{self.key}{_SEPARATOR})", re.IGNORECASE)

    @property
    def entry(self) -> re.Pattern[str]:
        """Return the pattern of a line; the number of a list item, `1) 20%`, is not a rating."""
        return re.compile(
            rf"[\s>#•+(|-]*(?:\d+[.)][ \t]+)?{self.named}(?P<key>{self.key})(?!(?<=\d)\)\s*\d){_SEPARATOR}(?P<rest>.*)",
            re.IGNORECASE,
        )

    @property
    def trace(self) -> re.Pattern[str]:
        """Return the pattern of a line in another form: `1. 95`, `A 95 %`, `Rating 1/5 = about 95`."""
        return re.compile(
            rf"\W*+(?:[^\W\d]++\W++){{0,2}}?(?P<key>{self.key})(?!\w)(?:\s*/\s*\d+|\s*(?:stars?|points?|out of \d+))?"
            rf"[\s.)\]:=|>,;~→-]{{1,9}}(?:(?:{_HEDGE})\s+)?[-+~<>≈]?\d"
        )


@dataclass(slots=True)
class Attempt:
    """Lines that state, or try to state, a number for a key; `heading` is the line of text above them."""

    heading: str = ""
    announced: bool = False
    refused: bool = False
    lines: list[Line] = field(default_factory=list)

    @property
    def weight(self) -> int:
        """Return the weight of the lines."""
        return sum(line.weight for line in self.lines)


class Line(NamedTuple):
    """A line about a key. `value` is None if it holds no single possible number, and `fault` has the reason.

    `remark` is what is behind the number. `is_loose`: there is a remark, or the number has a decimal comma. `is_share`: the
    number is at most 1 and has a decimal point and no percent sign.
    """

    number: int
    key: str
    value: float | None
    fault: str
    weight: int = 1
    remark: str = ""
    is_loose: bool = False
    is_share: bool = False


def attempts(answer: str, form: Form, *, ended: bool) -> list[Attempt]:
    """Return the attempts in an answer, in order.

    Unless the answer `ended` by itself, its last line may be incomplete and states nothing, and one line is an attempt.
    """
    text = _OBJECT.sub(r"\n\1: \2\n", answer_part(answer, ended=ended))
    pieces = form.lines.split(MARKUP.sub("", text))
    while pieces and not pieces[-1].strip():
        pieces.pop()
    entry, trace = form.entry, form.trace
    found = [Attempt()]
    for number, piece in enumerate(pieces):
        line = _line(number, piece, form, entry, trace)
        if line is not None:
            found[-1].lines.append(line)
        elif not _EMPTY.fullmatch(piece):
            announced = is_announced(piece)
            if form.apart or announced:
                found.append(Attempt(piece, announced))
        if is_refused(piece):
            found.append(Attempt(piece, announced=True, refused=True))
    last = found[-1]
    complete = ended or answer.rstrip(" \t").endswith(("\n", "\r"))
    if not complete and last.lines and last.lines[-1].number == len(pieces) - 1:
        key = last.lines.pop().key
        keys = {line.key for line in last.lines}
        if key in keys or keys.issuperset(form.keys):
            found.append(Attempt(announced=True))
        last.announced = True
    return list(itertools.chain.from_iterable(_split(attempt, form) for attempt in found))


def numbers_in(found: Sequence[Attempt], *, ended: bool) -> dict[str, float] | str:
    """Return the number of each key in the last attempt, or the reason why it does not count."""
    least = 2 if ended else 1
    found = [each for each in found if each.announced or each.weight >= least]
    while len(found) > 1 and not found[0].lines:
        # It announced the first one.
        del found[0]
    if not found:
        return {}
    problem = next(_problems(found, ended=ended), None)
    return {line.key: line.value or 0.0 for line in found[-1].lines} if problem is None else problem


def _problems(found: Sequence[Attempt], *, ended: bool) -> Iterator[str]:
    """Yield why the last attempt does not count."""
    last = found[-1]
    heading = last.heading.strip()
    if not ended and len(found) > 1:
        yield f"{len(found)} attempts, and only the last one counts"
    if last.refused:
        yield f"a refusal: {heading[:_SHOWN]!r}"
    if not last.lines and heading:
        yield f"nothing to read after {heading[-_SHOWN:]!r}"
    if _EXAMPLE.search(heading):
        yield f"an example and no answer: {heading[:_SHOWN]!r}"
    numbers: dict[str, float] = {}
    for line in last.lines:
        if line.value is None:
            yield line.fault
        elif line.is_loose and len(found) > 1:
            yield "an earlier attempt, and a last one with other text behind its numbers"
        elif numbers.setdefault(line.key, line.value) != line.value:
            yield f"{line.key} has two numbers, {numbers[line.key]:g} and {line.value:g}"
    if max(numbers.values(), default=0) <= 1 and any(line.is_share for line in last.lines):
        yield "shares of 1 and no numbers from 0 to 100"


def is_announced(line: str) -> bool:
    """Return whether a line of text announces an attempt."""
    if ANNOUNCED.search(line):
        return True
    return len(line) <= _LONGEST_HEADING and _HEADING.match(line) is not None


def is_refused(text: str) -> bool:
    """Return whether a text says that it does not judge."""
    return _REFUSED.search(text) is not None


def _split(attempt: Attempt, form: Form) -> Iterator[Attempt]:
    """Yield the attempts in consecutive lines: a key that repeats begins another one, after a complete one or a gap."""
    parts: list[list[Line]] = [[]]
    seen: set[str] = set()
    for line in attempt.lines:
        if line.key and line.key in seen:
            parts.append([])
            seen.clear()
        seen.add(line.key)
        parts[-1].append(line)
    split = [Attempt(attempt.heading, attempt.announced, attempt.refused, parts[0])]
    keys = {line.key for line in parts[0]}
    for part in parts[1:]:
        numbers = [line.number for line in part]
        within = max((after - line for line, after in itertools.pairwise(numbers)), default=1)
        if keys.issuperset(form.keys) or numbers[0] - split[-1].lines[-1].number > within:
            split.append(Attempt(announced=True))
            keys.clear()
        split[-1].lines += part
        keys.update(line.key for line in part)
    yield from split


def _line(
    number: int, piece: str, form: Form, entry: re.Pattern[str], trace: re.Pattern[str]
) -> Line | None:
    shown = repr(piece.strip()[:_SHOWN])
    parts = entry.fullmatch(piece)
    if parts is not None:
        key, rest = parts["key"].upper(), parts["rest"]
        digits = len(_DIGITS.findall(rest))
        if digits or _WORD.fullmatch(rest):
            weight = form.weight * max(1, digits) if digits else 1
            faulty = Line(number, key, None, f"no single number in {shown}", weight)
            return _valued(faulty, rest, form, shown)
    digits = len(_DIGITS.findall(piece))
    other = trace.match(piece)
    if other is None and (not digits or _LETTER.search(piece)):
        return None
    key = "" if other is None else other["key"]
    return Line(number, key, None, f"no single number in {shown}", 2 if digits >= _SEVERAL else 1)


def _valued(faulty: Line, rest: str, form: Form, shown: str) -> Line:
    if faulty.key not in form.keys:
        return faulty._replace(fault=form.stranger.format(faulty.key))
    found = _NUMBER.fullmatch(rest)
    if found is None:
        return faulty
    written = found["number"].replace("−", "-").replace("–", "-")  # noqa: RUF001
    value = float(written.replace(",", "."))
    if value < 0:
        return faulty._replace(fault=f"below 0 in {shown}")
    if value > form.highest:
        return faulty._replace(fault=f"above {form.highest:g} in {shown}")
    is_loose = "," in written or (form.apart and _LETTER.search(found["remark"]) is not None)
    is_share = value <= 1 and "." in written and not found["unit"]
    return faulty._replace(
        value=value, fault="", remark=found["remark"], is_loose=is_loose, is_share=is_share
    )
