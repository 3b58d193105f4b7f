"""A benchmark under construction: every id is checked when it is read, so that errors have path:line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from refladder.errors import DataError
from refladder.loaders.fields import as_row, name_of, number_of, text_of, value_of
from refladder.records import (
    Benchmark,
    Context,
    Dimension,
    Output,
    Rating,
    by_name,
    digest_of,
    text_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from refladder.files.tables import Row

# The name of the rater if only the mean over raters is published.
MEAN = "mean"


class Draft:
    """Contexts, outputs and ratings read so far."""

    def __init__(self, task: str, dimensions: Sequence[Dimension]) -> None:
        self._task = task
        self._dimensions = by_name(dimensions)
        self._contexts: dict[str, Context] = {}
        self._outputs: dict[str, Output] = {}
        self._of_system: dict[tuple[str, str], Output] = {}
        self._ratings: dict[tuple[str, str, str], Rating] = {}
        self._raters: dict[str, set[str]] = {}
        self._origins: dict[tuple[str, str], str] = {}

    def add_context(
        self,
        where: str,
        context_id: str,
        text: str,
        *,
        background: str = "",
        references: Sequence[str] = (),
        alone: bool = False,
    ) -> None:
        """Add a context; it may be repeated with each of its outputs. With `alone`, its text may be empty."""
        if not alone and not text.strip():
            raise DataError(f"{where}: the text of context {context_id!r} is empty; remove the row")
        context = Context(
            id=context_id,
            task=self._task,
            text=text,
            background=background,
            references=tuple(references),
        )
        previous = self._contexts.setdefault(context_id, context)
        first = self._origins.setdefault(("context", context_id), where)
        if previous != context:
            raise DataError(
                f"{where}: context {context_id!r} has different content at {first}; an id must belong to one text"
            )

    def add_output(
        self,
        where: str,
        context_id: str,
        system: str,
        text: str,
        *,
        output_id: str | None = None,
        repeated: bool = False,
        advice: str = "keep one of them",
    ) -> str:
        """Add an output, which may be empty, and return its id, `CONTEXT_ID/SYSTEM` unless one is given."""
        output = Output(
            id=f"{context_id}/{system}" if output_id is None else output_id,
            context_id=context_id,
            system=system,
            text=text,
        )
        previous = self._outputs.setdefault(output.id, output)
        first = self._origins.setdefault(("output", output.id), where)
        if first != where and not (repeated and previous == output):
            difference = " with a different text" if repeated else ""
            raise DataError(
                f"{where}: output {output.id!r} already appears at {first}{difference}; {advice}"
            )
        other = output
        # Any number of outputs may have an unknown system.
        if system:
            other = self._of_system.setdefault((context_id, system), output)
        if other.id != output.id:
            raise DataError(
                f"{where}: output {output.id!r} is of system {system!r} for context {context_id!r}, and so is output "
                f"{other.id!r} at {self._origins['output', other.id]}; a context has one output of each system, give "
                "them different system names"
            )
        return output.id

    def rater_for(
        self, where: str, output_id: str, name: str = "", *, limit: int | None = None
    ) -> str:
        """Return a new rater name for an output, from the source or `rater K`; over `limit`, rows are repeated."""
        used = self._raters.setdefault(output_id, set())
        if limit is not None and len(used) >= limit:
            raise DataError(
                f"{where}: output {output_id!r} has more than {limit} ratings, but the benchmark has {limit} raters; "
                "remove repeated rows"
            )
        number = len(used) + 1 if not name else 1
        rater = name or f"rater {number}"
        while rater in used:
            number += 1
            rater = f"{name} ({number})"
        return rater

    def add_ratings(
        self, where: str, output_id: str, values: Mapping[str, float], rater: str
    ) -> None:
        """Add the ratings of an output by one rater."""
        self._raters.setdefault(output_id, set()).add(rater)
        for name, value in values.items():
            dimension = self._dimensions[name]
            if not dimension.low <= value <= dimension.high:
                raise DataError(
                    f"{where}: {name} is rated {value:g}, outside the scale {dimension.low:g} to {dimension.high:g}"
                )
            self._ratings[output_id, name, rater] = Rating(
                output_id=output_id, dimension=name, value=value, rater=rater
            )

    def finish(self, *, name: str, revision: str, licence: str) -> Benchmark:
        """Return the finished benchmark."""
        return Benchmark(
            name=name,
            revision=revision,
            licence=licence,
            dimensions=tuple(self._dimensions.values()),
            contexts=tuple(self._contexts.values()),
            outputs=tuple(self._outputs.values()),
            ratings=tuple(self._ratings.values()),
        )


def add_flat(
    draft: Draft,
    rows: Iterable[Row],
    *,
    dimensions: Sequence[str],
    clean: Callable[[str], str] = str.rstrip,
    background: Callable[[Row], str] | None = None,
) -> None:
    """Add the items of the flat JSON list of G-Eval, UniEval and PairS, one for each output, with its mean ratings.

    Without `doc_id`, items with the same `source` are one context. Without `system_id`, a system is called `system K`
    by its position among the items of its context.
    """
    positions: Counter[str] = Counter()
    for row in rows:
        text = clean(text_of(row, "source"))
        facts = background(row) if background else ""
        context_id = name_of(row, "doc_id") if "doc_id" in row.fields else text_id(text, facts)
        references = (clean(text_of(row, "reference")),) if "reference" in row.fields else ()
        draft.add_context(row.where, context_id, text, background=facts, references=references)
        positions[context_id] += 1
        system = f"system {positions[context_id]}"
        if "system_id" in row.fields:
            system = name_of(row, "system_id")
        output = clean(text_of(row, "system_output"))
        output_id = draft.add_output(row.where, context_id, system, output)
        scores = as_row(f"{row.where}: scores", value_of(row, "scores"))
        ratings = {name: number_of(scores, name) for name in dimensions}
        draft.add_ratings(row.where, output_id, ratings, MEAN)


def output_text_id(context_id: str, text: str) -> str:
    """Return an id for an output without one: its context's id and twelve hexadecimal digits of its text."""
    digest = digest_of(text, size=6)
    return f"{context_id}/{digest}"
