"""score: outputs x rungs -> judgments (kept) -> rule -> score columns."""

from __future__ import annotations

import itertools
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from refladder.errors import UsageError
from refladder.files.jsonl import is_device, write_json
from refladder.files.locks import locked
from refladder.files.tables import (
    STANDARD,
    format_of,
    open_sink,
    read_once,
    read_rows,
    refuse_same_files,
    standard_form,
)
from refladder.jobs.outputs import Item, Mapped, check_input, items
from refladder.prompts import load_template
from refladder.records import Context, Recipe, Run, Sampling
from refladder.scoring.columns import (
    Columns,
    Scale,
    ScoreReport,
    added_columns,
    block_notes,
    least_masses,
    signature_of,
)
from refladder.scoring.drawing import ANSWER_TOKENS
from refladder.scoring.judging import inconsistency, judge, questions, trusted, verdicts
from refladder.scoring.judgment_file import JudgmentLog
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.jobs import Progress
    from refladder.prompts import Template
    from refladder.records import Dimension, Judgment, Output
    from refladder.scoring.judging import Question


T = TypeVar("T")
FIRST_BATCH, LARGEST_BATCH = 16, 1024  # rows judged, kept and written at a time
LARGEST_CONTEXT = 256  # rows of one context that are kept together
QUICK, SLOW = 2.0, 20.0  # seconds for a batch: the next is twice as large, or half


def batches(
    rows: Iterable[T], backend: Backend | None = None, context_of: Callable[[T], str | None] | None = None
) -> Iterator[list[T]]:
    """Batches that take seconds, not hours, so that a kill loses little of a slow judge and a quick one is not held up.

    A backend with `wants_all` gets all rows at once. For one with `shares_contexts`, which reads what the prompts of
    one context share once a batch, rows that stand together and are of one context are not parted. Nothing but time and
    memory depends on the size of a batch.

    Args:
        rows: what is to be judged.
        backend: the judge.
        context_of: the context of a row; None for one that holds nothing to judge.
    """
    rows = iter(rows)
    size, started = sys.maxsize if backend is not None and backend.wants_all else FIRST_BATCH, time.monotonic()
    together = context_of if backend is not None and backend.shares_contexts else None
    ahead: list[T] = []
    while batch := [*ahead, *itertools.islice(rows, size - len(ahead))]:
        ahead = []
        if together is not None:
            context = together(batch[-1])
            for row in rows:
                if together(row) != context or len(batch) >= max(size, LARGEST_CONTEXT):
                    ahead = [row]
                    break
                batch.append(row)
        yield batch
        now = time.monotonic()
        if now - started < QUICK and size < LARGEST_BATCH:
            size = min(2 * size, LARGEST_BATCH)
        elif now - started > SLOW:
            size = max(size // 2, 1)
        started = now


class Scorer:
    """A judge, a ladder set and a scale, ready to score batches of outputs.

    Args:
        judge_backend: the judge.
        ladders: what to compare with; a set without texts of its contexts gets them by `take_context`.
        dimensions: those to score.
        scale: rule and weights.
        role: prompt role, compare or compare-yesno.
        orders: 1, or 2 to ask every pair in both orders.
        prompts: the user's own templates.
        answers: how many answers the judge writes to a question, whose shares are taken; 0 reads label probabilities.
        sampling: how those answers are drawn; an answer has at most `ANSWER_TOKENS`.
    """

    def __init__(
        self,
        judge_backend: Backend,
        ladders: LadderSet,
        dimensions: Sequence[Dimension],
        scale: Scale,
        *,
        role: str = "compare",
        orders: int = 1,
        prompts: Path | None = None,
        answers: int = 0,
        sampling: Sampling | None = None,
    ) -> None:
        self.ladders = ladders
        self._contexts = dict(ladders.contexts)  # and those that rows bring, for a set without texts
        self._with_ladders = {context_id for context_id, _ in ladders.ladders}
        self.dimensions = tuple(dimensions)
        self.scale = scale
        self.judge = judge_backend
        self._orders = orders
        self._template: Template = load_template(ladders.task, role, prompts)
        self._recipe = Recipe(
            backend=judge_backend.fingerprint,
            prompts=(self._template.signature,),
            sampling=replace(sampling or Sampling(), max_tokens=ANSWER_TOKENS) if answers else None,
            version=__version__,
        )
        self._columns = Columns(self.dimensions, ladders.rungs, scale)
        self.run = Run(
            recipe=self._recipe,
            ladders=f"{ladders.name}@{ladders.digest}",
            dimensions=self.dimensions,
            rungs=ladders.rungs,
            orders=orders,
            answers=answers,
        )
        self.report = ScoreReport(signature=signature_of(self.run, scale))
        self.watch: Callable[[Sequence[Judgment]], None] | None = None  # is shown the judgments of each batch

    def score(
        self, outputs: Sequence[Output | None], notes: Sequence[str | None], log: JudgmentLog
    ) -> list[dict[str, Any]]:
        """The added columns of a batch of rows; None values, with the reason, where something could not be judged.

        Args:
            outputs: None for a row that holds nothing to judge.
            notes: why, for those rows.
            log: where judgments are kept.
        """
        asked: list[Question] = []
        places: list[tuple[int, int]] = []  # which output and which dimension each block of questions is about
        reasons: dict[tuple[int, int], str] = {}
        for place, (output, note) in enumerate(zip(outputs, notes, strict=True)):
            for number, dimension in enumerate(self.dimensions):
                reason = note if output is None else self._why_not(output.context_id, dimension.name)
                if reason is not None or output is None:
                    reasons[place, number] = reason or "no output"
                    continue
                ladder = self.ladders.ladders[output.context_id, dimension.name]
                context = self._contexts[output.context_id]
                asked.extend(questions(output, context, dimension, ladder, orders=self._orders))
                places.append((place, number))
        judgments = log.stored(asked)
        fresh = judge(
            self.judge,
            self._template,
            self._recipe.digest,
            asked[len(judgments) :],
            answers=self.run.answers,
            sampling=self._recipe.sampling,
        )
        log.append(fresh)
        self.report.reused += len(judgments)
        self.report.judgments += len(asked)
        judgments = trusted(judgments + fresh, self.scale.least_mass)
        each = self.ladders.rungs * self._orders
        reasons.update(block_notes(judgments, places, each))
        self._count(judgments)
        if self.watch is not None:
            self.watch(judgments)
        probabilities = np.full((len(outputs), len(self.dimensions), self.ladders.rungs, 3), np.nan)
        masses = np.full((len(outputs), len(self.dimensions)), np.nan)
        if judgments:
            rows, numbers = np.array(places).T
            masses[rows, numbers] = least_masses(judgments, each)
            probabilities[rows, numbers] = verdicts(judgments, self.ladders.rungs, self._orders)
        columns = self._columns.of(probabilities, masses, reasons, self.report)
        for values in columns:
            values["signature"] = self.report.signature
        return columns

    def _why_not(self, context_id: str, dimension: str) -> str | None:
        if (context_id, dimension) in self.ladders.ladders:
            return None if context_id in self._contexts else f"no text of context {context_id!r} in the set"
        if (context_id, dimension) in self.ladders.failures:
            return f"the {dimension} ladder of context {context_id!r} could not be written; see failures.jsonl"
        return f"no {dimension} ladder for context {context_id!r} in {self.ladders.name}"

    def take_context(self, item: Item) -> Item:
        """Take the text of a row's context where the ladder set has none, and compare it where there is one.

        Returns:
            The row as it is, or one without an output and with the reason: its context has another text than in the
            set, or than in the row that had the context first.

        Memory grows with the contexts of the set, not with the rows.
        """
        if item.output is None or item.text is None or item.output.context_id not in self._with_ladders:
            return item
        context_id = item.output.context_id
        given = Context(id=context_id, task=self.ladders.task, text=item.text, background=item.background)
        context = self._contexts.setdefault(context_id, given)
        if context.text != given.text:
            what = "text"
        elif given.background and context.background != given.background:
            what = "background"
        else:
            return item
        before = f"the ladder set {self.ladders.name}" if context_id in self.ladders.contexts else "an earlier row"
        note = f"context {context_id!r} has another {what} in this row than in {before}"
        return Item(item.row, None, note)

    def _count(self, judgments: Sequence[Judgment]) -> None:
        self.report.count(judgments)
        if self._orders > 1 and judgments:
            disagree, pairs = inconsistency(judgments)
            self.report.disagreements += disagree
            self.report.order_pairs += pairs


def score_rows(
    scorer: Scorer,
    source: str,
    out: str,
    *,
    mapped: Mapped,
    given: str | None = None,
    out_given: str | None = None,
    escape_formulas: bool = False,
    judgments: Path | None = None,
    restart: bool = False,
    config: Mapping[str, Any] | None = None,
    checked: int | None = None,
    progress: Progress | None = None,
) -> ScoreReport:
    """Score a table: every row comes out again, in order, with the score columns at its end.

    Memory does not grow with the number of rows, but for what tells that an id stands there twice. Judgments are kept
    in `judgments` batch by batch; a run that was cut off goes on from them and gives the same bytes.

    Args:
        scorer: judge, ladders and scale.
        source: file or `-`.
        out: file or `-`.
        mapped: which columns hold what.
        given: format of the source, where its ending does not say it.
        out_given: format of the output, likewise.
        escape_formulas: put `'` before text in CSV that a spreadsheet would run as a formula.
        judgments: file that keeps the judgments.
        restart: throw away what that file holds.
        config: the resolved configuration, written beside the output as `OUT.run.json`.
        checked: what `check_input` gave for this source, if it was called already.
        progress: called with rows done and rows in all (None when not known).

    Returns:
        The counts.

    Raises:
        DataError, UsageError: the input or the output is not right, see `check_input`; or another process is writing
            the output or the judgments.
        BackendError: the judge failed; what was judged is kept.
    """
    refuse_same_files({"the input": source, "--out": out, "--judgments": str(judgments or STANDARD)})
    total = check_input(source, given, mapped) if checked is None else checked
    form = format_of(source, given)
    parquet = source if form == "parquet" else None
    added = added_columns(scorer.dimensions)
    rows = read_rows(source, given)
    columns = rows.columns() or []
    if clash := sorted(set(columns) & set(added)):
        raise UsageError(f"{source}: column {clash[0]!r} is there already; rename or drop it first")
    # The ids of a file were checked just now.
    outputs = map(scorer.take_context, items(rows, mapped, check_ids=read_once(source)))
    with nullcontext() if out == STANDARD else locked(Path(out)):
        with (
            JudgmentLog(judgments, scorer.run, restart=restart) as log,
            open_sink(
                out, out_given or standard_form(out, form), added, columns, parquet, escape_formulas=escape_formulas
            ) as write,
        ):
            for batch in batches(outputs, scorer.judge, _context_of):
                values = scorer.score([item.output for item in batch], [item.note for item in batch], log)
                for item, added_values in zip(batch, values, strict=True):
                    write(item.row, added_values)
                if progress is not None:
                    progress(scorer.report.rows, total)
            log.finish()
        if config is not None and out != STANDARD and not is_device(Path(out)):
            write_json(Path(f"{out}.run.json"), {**config, "signature": scorer.report.signature})
    return scorer.report


def _context_of(item: Item) -> str | None:
    return None if item.output is None else item.output.context_id
