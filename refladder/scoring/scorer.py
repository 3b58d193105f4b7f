"""A judge, a ladder set and a scale: scores of outputs, and the judgments they come from."""

from __future__ import annotations

import itertools
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from refladder.prompts import load_template
from refladder.records import Context, Recipe, Run, Sampling
from refladder.scoring.columns import Columns, Scale, ScoreReport, block_notes, least_masses, signature_of
from refladder.scoring.drawing import ANSWER_TOKENS
from refladder.scoring.judging import inconsistency, judge, plan_judging, questions, trusted, verdicts
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.estimate import Plan
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import Dimension, Judgment, Output
    from refladder.scoring.judging import Question
    from refladder.scoring.judgment_file import JudgmentLog

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
        asked, places, reasons = self._asked(outputs, notes)
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

    def plan(self, plan: Plan, outputs: Sequence[Output | None], notes: Sequence[str | None], log: JudgmentLog) -> int:
        """Add the prompts that `score` would ask to a plan; returns how many judgments the log holds already."""
        asked, _, _ = self._asked(outputs, notes)
        kept = len(log.stored(asked))
        plan_judging(
            plan,
            self.judge,
            self._template,
            asked[kept:],
            answers=self.run.answers,
            sampling=self._recipe.sampling,
        )
        return kept

    def _asked(
        self, outputs: Sequence[Output | None], notes: Sequence[str | None]
    ) -> tuple[list[Question], list[tuple[int, int]], dict[tuple[int, int], str]]:
        """The questions about outputs, the output and dimension of each block of them, and why others have none."""
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
        return asked, places, reasons

    def _why_not(self, context_id: str, dimension: str) -> str | None:
        if (context_id, dimension) in self.ladders.ladders:
            return None if context_id in self._contexts else f"no text of context {context_id!r} in the set"
        if (context_id, dimension) in self.ladders.failures:
            return f"the {dimension} ladder of context {context_id!r} could not be written; see failures.jsonl"
        return f"no {dimension} ladder for context {context_id!r} in {self.ladders.name}"

    def take_context(self, context_id: str, text: str, background: str) -> str | None:
        """Take the text of a row's context if the ladder set has none, and compare it if there is one.

        Memory grows with the contexts of the set, not with the rows.

        Returns:
            None if the text is the one that is used for this context; otherwise how it differs from that of the set, or
            of the row that had the context first.
        """
        if context_id not in self._with_ladders:
            return None
        given = Context(id=context_id, task=self.ladders.task, text=text, background=background)
        context = self._contexts.setdefault(context_id, given)
        if context.text != text:
            what = "text"
        elif background and context.background != background:
            what = "background"
        else:
            return None
        before = f"the ladder set {self.ladders.name}" if context_id in self.ladders.contexts else "an earlier row"
        return f"context {context_id!r} has another {what} in this row than in {before}"

    def _count(self, judgments: Sequence[Judgment]) -> None:
        self.report.count(judgments)
        if self._orders > 1 and judgments:
            disagree, pairs = inconsistency(judgments)
            self.report.disagreements += disagree
            self.report.order_pairs += pairs
