"""The flat JSON list of the code of G-Eval, UniEval and PairS: one item per output.

An item has `source`, `system_output`, `scores` and optionally `doc_id`, `system_id`, `reference`. Without `doc_id`,
items with the same `source` are one context. Without `system_id`, a system is called `system K` by its position among
the items of its context.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from refladder.loaders.draft import MEAN, Draft
from refladder.loaders.fields import name_of, number_of, row_of, text_of
from refladder.records import text_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from refladder.files.tables import Row


def add_flat(
    draft: Draft,
    rows: Iterable[Row],
    *,
    dimensions: Sequence[str],
    clean: Callable[[str], str] = str.rstrip,
    background: Callable[[Row], str] | None = None,
) -> None:
    """Add all items to a draft, with mean ratings as the ratings of one rater."""
    positions: Counter[str] = Counter()
    for row in rows:
        text = clean(text_of(row, "source"))
        facts = background(row) if background else ""
        context_id = name_of(row, "doc_id") if "doc_id" in row.fields else text_id(text, facts)
        references = (clean(text_of(row, "reference")),) if "reference" in row.fields else ()
        draft.add_context(row.where, context_id, text, background=facts, references=references)
        positions[context_id] += 1
        system = name_of(row, "system_id") if "system_id" in row.fields else f"system {positions[context_id]}"
        output_id = draft.add_output(row.where, context_id, system, clean(text_of(row, "system_output")))
        scores = row_of(row, "scores")
        draft.add_ratings(row.where, output_id, {name: number_of(scores, name) for name in dimensions}, MEAN)


def output_text_id(context_id: str, text: str) -> str:
    """An id for an output without one: its context's id, and twelve hexadecimal digits of its text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{context_id}/{digest}"
