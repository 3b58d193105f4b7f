"""A benchmark while it is read: every id is checked as it comes, so that an error can say path:line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import DataError
from refladder.records import Benchmark, Context, Dimension, Output, Rating

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MEAN = "mean"  # the rater's name where only the mean over raters is published


class Draft:
    """Contexts, outputs and ratings read so far.

    Args:
        task: the task of all contexts.
        dimensions: what outputs are rated on; a rating must lie within its dimension's scale.
    """

    def __init__(self, task: str, dimensions: Sequence[Dimension]) -> None:
        self._task = task
        self._dimensions = {dimension.name: dimension for dimension in dimensions}
        self._contexts: dict[str, Context] = {}
        self._outputs: dict[str, Output] = {}
        self._of_system: dict[tuple[str, str], Output] = {}
        self._ratings: dict[tuple[str, str, str], Rating] = {}
        self._raters: dict[str, set[str]] = {}
        self._places: dict[tuple[str, str], str] = {}

    def add_context(
        self, where: str, context_id: str, text: str, *, background: str = "", references: Sequence[str] = ()
    ) -> None:
        """Add a context; the same one may come again, with each of its outputs.

        Args:
            where: path:line.
            context_id: its id.
            text: what the outputs are about.
            background: further knowledge, or "".
            references: texts that people wrote for it.

        Raises:
            DataError: the text is empty, or the id is already used for another content.
        """
        if not text.strip():
            raise DataError(f"{where}: the text of context {context_id!r} is empty; leave such rows out")
        context = Context(
            id=context_id, task=self._task, text=text, background=background, references=tuple(references)
        )
        before = self._contexts.setdefault(context_id, context)
        first = self._places.setdefault(("context", context_id), where)
        if before != context:
            raise DataError(f"{where}: context {context_id!r} has another content at {first}; an id must mean one text")

    def add_output(
        self,
        where: str,
        context_id: str,
        system: str,
        text: str,
        *,
        output_id: str | None = None,
        repeated: bool = False,
    ) -> str:
        """Add an output, which may be empty, and return its id, `CONTEXT_ID/SYSTEM` unless one is given.

        Args:
            where: path:line.
            context_id: a context added before.
            system: who wrote it.
            text: what was written.
            output_id: its id in the source, if it has one.
            repeated: the source has one row for each rater, so the same text may come again.

        Raises:
            DataError: the id is taken, or the system has another output for this context.
        """
        output = Output(
            id=f"{context_id}/{system}" if output_id is None else output_id,
            context_id=context_id,
            system=system,
            text=text,
        )
        before = self._outputs.setdefault(output.id, output)
        first = self._places.setdefault(("output", output.id), where)
        if first != where and not (repeated and before == output):
            what = "the same id" if before == output or not repeated else "another text"
            raise DataError(f"{where}: output {output.id!r} stands at {first} with {what}; each output once")
        self._check_system(where, output)
        return output.id

    def _check_system(self, where: str, output: Output) -> None:
        other = self._of_system.setdefault((output.context_id, output.system), output)
        if other.id == output.id:
            return
        first = self._places["output", other.id]
        rule = "a context has one output of each system"
        if not output.system:
            raise DataError(
                f"{where}: output {output.id!r} has no system, and neither has output {other.id!r} of the same context "
                f"{output.context_id!r} at {first}; {rule}, add a column 'system'"
            )
        raise DataError(
            f"{where}: output {output.id!r} is of system {output.system!r} for context {output.context_id!r}, and so "
            f"is output {other.id!r} at {first}; {rule}, give them different system names"
        )

    def rater_for(self, where: str, output_id: str, name: str = "", *, limit: int | None = None) -> str:
        """A rater's name that is new to an output: the source's own, or `rater K` where it has none.

        A name that rated the same output before gets a number, so that no judgment is lost.

        Args:
            where: path:line.
            output_id: an output added before.
            name: the rater's name in the source, empty where it has none.
            limit: how many raters each output has at most, if that is known.

        Raises:
            DataError: there is one rater too many, so rows must be repeated.
        """
        used = self._raters.setdefault(output_id, set())
        if limit is not None and len(used) >= limit:
            raise DataError(
                f"{where}: output {output_id!r} has more than {limit} ratings, and there were {limit} raters; "
                "remove the repeated rows"
            )
        number = len(used) + 1 if not name else 1
        rater = name or f"rater {number}"
        while rater in used:
            number += 1
            rater = f"{name} ({number})"
        return rater

    def add_ratings(self, where: str, output_id: str, values: Mapping[str, float], rater: str) -> None:
        """Add one rater's values for an output.

        Args:
            where: path:line.
            output_id: an output added before.
            values: from dimension name to value.
            rater: who rated; a name that is new to the output, see `rater_for`.

        Raises:
            DataError: a value lies outside its dimension's scale.
        """
        self._raters.setdefault(output_id, set()).add(rater)
        for name, value in values.items():
            dimension = self._dimensions[name]
            if not dimension.low <= value <= dimension.high:
                raise DataError(
                    f"{where}: {name} is rated {value:g}, outside its scale {dimension.low:g} to {dimension.high:g}"
                )
            self._ratings[output_id, name, rater] = Rating(
                output_id=output_id, dimension=name, value=value, rater=rater
            )

    def finish(self, *, name: str, revision: str, licence: str) -> Benchmark:
        """The benchmark."""
        return Benchmark(
            name=name,
            revision=revision,
            licence=licence,
            dimensions=tuple(self._dimensions.values()),
            contexts=tuple(self._contexts.values()),
            outputs=tuple(self._outputs.values()),
            ratings=tuple(self._ratings.values()),
        )
