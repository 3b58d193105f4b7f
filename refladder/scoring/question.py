"""Questions for a judge: a comparison of two texts, or the grade of one text.

The questions of a ladder are made, stored and read in one order: output by output, dimension by dimension, and rung by
rung from the worst. Each rung comes in the paper's order (reference first) and then, if both orders are asked, in the
swapped one.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.prompts import criterion
from refladder.records import OUTPUT, RUNG, Comparison, Context, Dimension, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Ladder, Output, Rung

# How many ladders of a dimension the judge check asks about, and the seed that draws them.
MOST_CHECKED = 16
_SEED = 0


def rung_id(level: int, anchor: str = "") -> str:
    """Return the id of a rung in comparisons and judgments; in a shared set, `anchor` names its ladder."""
    return f"{RUNG}{level}@{anchor}" if anchor else f"{RUNG}{level}"


def level_of(name: str) -> int | None:
    """Return the level of a rung's id, from 1, for any anchor; None for another id."""
    level = name.removeprefix(RUNG).partition("@")[0]
    return int(level) if level != name and re.fullmatch(r"[1-9]\d{0,8}", level, re.ASCII) else None


def anchors_compared(anchors: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of anchors whose rungs are compared: each anchor with the next two, the last ones with the first.

    Of up to 3 anchors these are all pairs in both directions. Of more, a comparison of all pairs would take most of the
    requests and show little more.
    """
    pairs = []
    for place, anchor in enumerate(anchors):
        for step in (1, 2):
            other = anchors[(place + step) % len(anchors)]
            if other != anchor:
                pairs.append((anchor, other))
    return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One comparison, or one text to grade, with the texts that the prompt shows by slot name.

    `key` is the digest of everything that is shown. `comparison.against` is empty where the question is about one text.
    """

    comparison: Comparison
    key: str
    context: Context
    dimension: Dimension
    texts: Mapping[str, str]

    @property
    def slots(self) -> dict[str, str]:
        """Return the values of the template's slots."""
        return {**criterion(self.context, self.dimension), **self.texts}

    def slots_of_each(self) -> Iterator[dict[str, str]]:
        """Yield the slots of each text alone, as its `OUTPUT`, with its own context."""
        slots = self.slots
        for name in ("target", "first", "reference", "second"):
            if name in slots:
                prefix = f"{name}_" if f"{name}_context" in slots else ""
                context = {key: slots[f"{prefix}{key}"] for key in ("context", "background")}
                yield {**criterion(self.context, self.dimension), **context, OUTPUT: slots[name]}


@functools.lru_cache(maxsize=256)
def _digest_of(*texts: str) -> hashlib.blake2b:
    """Compute the digest that the questions about a context and dimension share; copy it before it is extended."""
    state = hashlib.blake2b(digest_size=8)
    for text in texts:
        _add(state, text)
    return state


def _add(state: hashlib.blake2b, text: str) -> None:
    # Lengths keep ("ab", "c") apart from ("a", "bc").
    encoded = text.encode("utf-8", "surrogatepass")
    state.update(b"%d:" % len(encoded) + encoded)


def question_about(
    context: Context, dimension: Dimension, *, subject: str, against: str, texts: Mapping[str, str]
) -> Question:
    """Make a question about `texts` by slot name, whose order is part of the key; `against` is empty for a grade."""
    shared = context.text, context.background, dimension.name, dimension.description
    state = _digest_of(*shared).copy()
    for text in texts.values():
        _add(state, text)
    comparison = Comparison(
        context_id=context.id, dimension=dimension.name, subject=subject, against=against
    )
    return Question(
        comparison=comparison,
        key=state.hexdigest(),
        context=context,
        dimension=dimension,
        texts=texts,
    )


def pair_question(
    context: Context, dimension: Dimension, first: Output, second: Output
) -> Question:
    """Ask which of two outputs is better."""
    texts = {"first": first.text, "second": second.text}
    return question_about(context, dimension, subject=first.id, against=second.id, texts=texts)


class Side(NamedTuple):
    """A text of a comparison: its id, and in a shared set the context that it is shown with."""

    id: str
    text: str
    context: Context | None = None


def comparison_of(
    context: Context, dimension: Dimension, target: Side, reference: Side
) -> Question:
    """Ask whether one text is better than another; both have `context`, which in a shared set is that of a row."""
    texts = {"target": target.text, "reference": reference.text}
    if target.context is not None and reference.context is not None:
        # These replace the one context of a question.
        texts |= {
            "context": target.context.text,
            "background": target.context.background,
            "reference_context": reference.context.text,
            "reference_background": reference.context.background,
        }
    return question_about(context, dimension, subject=target.id, against=reference.id, texts=texts)


def rung_side(rung: Rung, anchor: Context | None) -> Side:
    """Return a rung as a side of a comparison; `anchor` is the context of its ladder in a shared set."""
    return Side(rung_id(rung.level, "" if anchor is None else anchor.id), rung.text, anchor)


def ladder_questions(
    output: Output,
    context: Context,
    dimension: Dimension,
    ladder: Ladder,
    *,
    orders: int,
    anchor: Context | None = None,
) -> Iterator[Question]:
    """Yield all comparisons of an output with a ladder, in canonical order; `anchor` is its context in a shared set."""
    shown_output = Side(output.id, output.text, None if anchor is None else context)
    for rung in ladder.rungs:
        sides = shown_output, rung_side(rung, anchor)
        for target, reference in (sides, sides[::-1])[:orders]:
            yield comparison_of(context, dimension, target, reference)


def first_revision(ladders: LadderSet) -> LadderSet:
    """Return a set with the ladders that it had before the first `build --add`."""
    if not ladders.earlier:
        return ladders
    first = itertools.islice(ladders.ladders.items(), ladders.earlier[0].ladders)
    return replace(ladders, ladders=dict(first))


def drawn_ladders(ladders: LadderSet, dimension: Dimension) -> list[tuple[Context, Ladder]]:
    """Draw the ladders of a dimension that the judge check asks about, with their contexts, by a fixed seed.

    The order of the draw is that of the set. A ladder whose context has no known text gives its place to the next one.
    """
    able = []
    for (context_id, name), ladder in ladders.ladders.items():
        if name == dimension.name:
            able.append((ladders.contexts.get(context_id), ladder))
    drawn = np.random.default_rng(_SEED).permutation(len(able)).tolist()
    known = [number for number in drawn if able[number][0] is not None]
    chosen = (able[number] for number in sorted(known[:MOST_CHECKED]))
    return [(context, ladder) for context, ladder in chosen if context is not None]


def other_draw(ladders: LadderSet, dimensions: Sequence[Dimension]) -> str:
    """Return a digest of the ladders that are drawn, where texts are missing of those that the set draws; else ""."""
    of_set = replace(
        ladders, contexts={each: Context(id=each, task="", text="") for each in ladders.context_ids}
    )
    drawn = []
    for some in (ladders, of_set):
        cells = []
        for dimension in dimensions:
            cells += [(context.id, dimension.name) for context, _ in drawn_ladders(some, dimension)]
        drawn.append(cells)
    found, own = drawn
    return "" if found in ([], own) else digest_of(*itertools.chain(*found), size=6)


def rung_questions(
    context: Context, dimension: Dimension, ladder: Ladder, *, shared: bool = False
) -> Iterator[Question]:
    """Yield comparisons of any two rungs in the order (1, 2), (1, 3) ...: about the higher one, then the lower one."""
    sides = [rung_side(rung, context if shared else None) for rung in ladder.rungs]
    for low, high in itertools.combinations(sides, 2):
        yield comparison_of(context, dimension, high, low)
        yield comparison_of(context, dimension, low, high)
