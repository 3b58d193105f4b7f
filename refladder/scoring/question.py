"""The question that a judge is asked: a comparison of two texts, or the grade of one text.

The questions of a ladder are made, stored and read in one order: output by output, dimension by dimension, rung by rung
from the worst, and for each rung the paper's order (reference first) and then, when both orders are asked, the swapped
pair.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refladder.prompts import criterion
from refladder.records import Comparison, Context, Dimension

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from refladder.records import Ladder, Output, Rung

RUNG = "rung:"  # a rung's id in a Comparison is this and its level


def rung_id(level: int) -> str:
    """The id of a rung in comparisons and judgments."""
    return f"{RUNG}{level}"


def level_of(name: str) -> int | None:
    """The level of a rung's id, from 1; None for another id."""
    level = name.removeprefix(RUNG)
    return int(level) if level != name and re.fullmatch(r"[1-9]\d{0,8}", level, re.ASCII) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One comparison, or one text to grade, with the texts that the prompt shows.

    `texts` holds the shown texts by slot name. `key` is the digest of everything that is shown: context, dimension and
    texts. `comparison.against` is empty where the question is about one text.
    """

    comparison: Comparison
    key: str
    context: Context
    dimension: Dimension
    texts: Mapping[str, str]

    @property
    def slots(self) -> dict[str, str]:
        """The values of the template's slots."""
        return {**criterion(self.context, self.dimension), **self.texts}


def _key(context: Context, dimension: Dimension, texts: Iterable[str]) -> str:
    """The digest of everything that a question shows."""
    shown = (context.text, context.background, dimension.name, dimension.description)
    state = _digest_of(*shown).copy()
    for text in texts:
        _add(state, text)
    return state.hexdigest()


@functools.lru_cache(maxsize=256)
def _digest_of(*texts: str) -> hashlib.blake2b:
    """The digest of what the questions about a context and dimension share; copy it before it is extended."""
    state = hashlib.blake2b(digest_size=8)
    for text in texts:
        _add(state, text)
    return state


def _add(state: hashlib.blake2b, text: str) -> None:
    encoded = text.encode("utf-8", "surrogatepass")
    state.update(b"%d:" % len(encoded) + encoded)  # lengths keep ("ab", "c") apart from ("a", "bc")


def question_about(
    context: Context, dimension: Dimension, *, subject: str, against: str, texts: Mapping[str, str]
) -> Question:
    """A question about texts of one context; `texts` are those shown by slot name, and their order is part of the key.

    The answer is about the text `subject`, compared with the text `against`, which is empty for a grade.
    """
    return Question(
        comparison=Comparison(context_id=context.id, dimension=dimension.name, subject=subject, against=against),
        key=_key(context, dimension, texts.values()),
        context=context,
        dimension=dimension,
        texts=texts,
    )


def ladder_questions(
    output: Output, context: Context, dimension: Dimension, ladder: Ladder, *, orders: int
) -> Iterator[Question]:
    """Every comparison of one output with one ladder, in the canonical order; with two orders each pair swapped too."""
    shown_output = (output.id, output.text)
    for rung in ladder.rungs:
        shown_rung = (rung_id(rung.level), rung.text)
        both_orders = [(shown_output, shown_rung), (shown_rung, shown_output)]
        for (subject, target), (against, reference) in both_orders[:orders]:
            texts = {"target": target, "reference": reference}
            yield question_about(context, dimension, subject=subject, against=against, texts=texts)


def rung_questions(context: Context, dimension: Dimension, ladder: Ladder) -> Iterator[Question]:
    """Every comparison of two rungs of a ladder: about the higher rung, then about the lower one.

    Its pairs are asked as (1, 2), (1, 3), ..., (N - 1, N).
    """
    for low, high in itertools.combinations(ladder.rungs, 2):
        yield rung_question(context, dimension, high, low)
        yield rung_question(context, dimension, low, high)


def rung_question(context: Context, dimension: Dimension, target: Rung, reference: Rung) -> Question:
    """The question whether one rung of a ladder is better than another."""
    subject, against = rung_id(target.level), rung_id(reference.level)
    texts = {"target": target.text, "reference": reference.text}
    return question_about(context, dimension, subject=subject, against=against, texts=texts)
