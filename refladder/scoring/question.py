"""The question that a judge is asked: a comparison of two texts, or the grade of one text.

The questions of a ladder are made, stored and read in one order: output by output, dimension by dimension, rung by rung
from the worst, and for each rung the paper's order (reference first) and then, when both orders are asked, the swapped
pair.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refladder.prompts import criterion
from refladder.records import Comparison, Context, Dimension

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from refladder.records import Ladder, Output

RUNG = "rung:"  # a rung's id in a Comparison is this and its level


def rung_id(level: int) -> str:
    """The id of a rung in comparisons and judgments."""
    return f"{RUNG}{level}"


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


def _digest_of(*texts: str) -> hashlib.blake2b:
    """A digest of shown texts, which can be extended."""
    state = hashlib.blake2b(digest_size=8)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        state.update(b"%d:" % len(encoded))  # lengths keep ("ab", "c") apart from ("a", "bc")
        state.update(encoded)
    return state


def question_about(
    context: Context, dimension: Dimension, *, subject: str, against: str, texts: Mapping[str, str]
) -> Question:
    """A question about texts of one context.

    Args:
        context: the context of the texts.
        dimension: the quality in question.
        subject: the id of the text that the answer is about.
        against: the id of the text that it is compared with; empty for a grade.
        texts: the shown texts by slot name; their order is part of the key.
    """
    state = _digest_of(context.text, context.background, dimension.name, dimension.description, *texts.values())
    return Question(
        comparison=Comparison(context_id=context.id, dimension=dimension.name, subject=subject, against=against),
        key=state.hexdigest(),
        context=context,
        dimension=dimension,
        texts=texts,
    )


def ladder_questions(
    output: Output, context: Context, dimension: Dimension, ladder: Ladder, *, orders: int
) -> Iterator[Question]:
    """Every comparison of one output with one ladder, in the canonical order.

    Args:
        output: the text to be scored.
        context: its context.
        dimension: the dimension of the ladder.
        ladder: rungs of that context and dimension.
        orders: 1, or 2 to ask each pair in the swapped order also.
    """
    # The same keys as `question_about` gives, with the part that all questions share digested once.
    shared = _digest_of(context.text, context.background, dimension.name, dimension.description)
    encoded = output.text.encode("utf-8", "surrogatepass")
    for rung in ladder.rungs:
        encoded_rung = rung.text.encode("utf-8", "surrogatepass")
        for swapped in range(orders):
            target, reference = (encoded, encoded_rung) if not swapped else (encoded_rung, encoded)
            state = shared.copy()
            state.update(b"%d:" % len(target) + target)
            state.update(b"%d:" % len(reference) + reference)
            ids = (output.id, rung_id(rung.level)) if not swapped else (rung_id(rung.level), output.id)
            yield Question(
                comparison=Comparison(context_id=context.id, dimension=dimension.name, subject=ids[0], against=ids[1]),
                key=state.hexdigest(),
                context=context,
                dimension=dimension,
                texts={
                    "target": rung.text if swapped else output.text,
                    "reference": output.text if swapped else rung.text,
                },
            )


def rung_questions(context: Context, dimension: Dimension, ladder: Ladder) -> Iterator[Question]:
    """Every comparison of two rungs of a ladder: about the higher rung, then about the lower one.

    Args:
        context: the context of the ladder.
        dimension: the dimension of the ladder.
        ladder: its pairs are asked as (1, 2), (1, 3), ..., (N - 1, N).
    """
    for low, high in itertools.combinations(ladder.rungs, 2):
        for target, reference in ((high, low), (low, high)):
            yield question_about(
                context,
                dimension,
                subject=rung_id(target.level),
                against=rung_id(reference.level),
                texts={"target": target.text, "reference": reference.text},
            )
