"""Scores of outputs from a judge, a ladder set and a scale."""

from __future__ import annotations

import itertools
import math
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from refladder.backends.sampled import ANSWER_TOKENS
from refladder.errors import UsageError, option
from refladder.records import Context, Recipe, Run, Sampling, Score
from refladder.scoring.asker import Asker, answering_of, calls_of, judging_template, prompts_of
from refladder.scoring.columns import ScoreReport, block_notes, least_masses, signature_of
from refladder.scoring.judging import inconsistency, verdicts
from refladder.scoring.question import ladder_questions, rung_id
from refladder.scoring.rules import (
    bounds_of,
    expected_grades,
    grade_spreads,
    of_anchors,
    rule_named,
    rung_steps,
)
from refladder.scoring.stated import Stated, check_orders, intervals_of, order_scores
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from refladder.arrays import FloatArray
    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Dimension, Judgment, Output
    from refladder.scoring.judgment_file import JudgmentLog
    from refladder.scoring.question import Question
    from refladder.settings import Scale

T = TypeVar("T")

FIRST_BATCH, LARGEST_BATCH = 16, 1024  # rows judged, stored and written at a time
LARGEST_CONTEXT = 256  # rows of one context that stay in one batch
HALF = 0.5  # a text that beats the top rung, or loses to the lowest, with more than this is beyond the ladder
_OF_VALUE = (expected_grades, grade_spreads)  # which a text without a value has not
QUICK, SLOW = (
    2.0,
    20.0,
)  # seconds: after a quicker batch the next is twice as large, after a slower one half as large


def batches(
    rows: Iterable[T],
    backend: Backend | None = None,
    context_of: Callable[[T], str | None] | None = None,
) -> Iterator[list[T]]:
    """Split rows into batches that take seconds each, so that an interrupted run loses little work.

    A backend with `wants_all` gets all rows at once. A backend with `shares_contexts` processes the shared text of one
    context once per batch, so consecutive rows of one context stay in one batch.
    """
    rows = iter(rows)
    size, started = (
        sys.maxsize if backend is not None and backend.wants_all else FIRST_BATCH,
        time.monotonic(),
    )
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


def _known(numbers: FloatArray) -> list[float | None]:
    """The numbers, None for NaN."""
    return [None if number != number else number for number in numbers.tolist()]  # noqa: PLR0124


class Verdicts:
    """Turns the judgments of a run into scores, and counts what has none."""

    def __init__(self, run: Run, scale: Scale) -> None:
        self.run = run
        self.report = ScoreReport(signature=signature_of(run, scale))
        self._rule = rule_named(
            scale.rule
        )  # once: the look-up reads the metadata of every installed package

    def count(self, judgments: Sequence[Judgment]) -> None:
        """Add judgments to `report`: those of every rung for each text, in the canonical order."""
        self.report.judgments += len(judgments)
        self.report.count(judgments)
        if self.run.orders > 1 and judgments:
            disagreements, pairs = inconsistency(judgments)
            self.report.disagreements += disagreements
            self.report.order_pairs += pairs
        report = self.report
        ends = (
            (self.run.rungs, 0, report.judged_top, report.above_top),  # p(win) against the top rung
            (1, 1, report.judged_bottom, report.below_bottom),  # p(loss) against the lowest
        )
        for level, outcome, judged, beyond in ends:
            rungs = {rung_id(level, anchor) for anchor in self.run.anchors or ("",)}
            of_level = [
                judgment
                for judgment in judgments
                if judgment.subject in rungs or judgment.against in rungs
            ]
            read = (
                verdicts(of_level, len(rungs), self.run.orders)[:, :, outcome].mean(axis=1).tolist()
            )
            for judgment, probability in zip(
                of_level[:: self.run.orders * len(rungs)], read, strict=True
            ):
                if not math.isnan(probability):
                    name = judgment.dimension
                    judged[name] = judged.get(name, 0) + 1
                    beyond[name] = beyond.get(name, 0) + (probability > HALF)

    def scores(
        self,
        ids: Sequence[str | None],
        judgments: Sequence[Judgment],
        blocks: Sequence[tuple[int, int]],
        reasons: Mapping[tuple[int, int], str],
    ) -> list[tuple[Score, ...]]:
        """Score rows, and add their counts to `report`: the scores of each row, one for each dimension, in order.

        `judgments` are as `trusted` gives them, compared rungs * orders for each of `blocks` (row, number of the
        dimension). `reasons` say why others have none.
        """
        rungs, orders, dimensions = self.run.compared, self.run.orders, self.run.dimensions
        anchors = max(len(self.run.anchors), 1)
        self.count(judgments)
        probabilities = np.full((len(ids), len(dimensions), rungs, 3), np.nan)
        masses = np.full((len(ids), len(dimensions)), np.nan)
        if judgments:
            rows, numbers = np.array(blocks).T
            masses[rows, numbers] = least_masses(judgments, rungs * orders)
            probabilities[rows, numbers] = verdicts(judgments, rungs, orders)
        reasons = {**reasons, **block_notes(judgments, blocks, rungs * orders)}
        intervals = self._intervals(judgments, blocks) if self.run.stated > 1 and judgments else {}
        by_dimension = []
        for number, dimension in enumerate(dimensions):
            human, read = (dimension.low, dimension.high), probabilities[:, number]
            values = of_anchors(self._rule, read, anchors, human)
            between = (
                np.std(values, axis=1, ddof=1) if anchors > 1 else np.full(len(values), np.nan)
            )
            value = values.mean(axis=1)
            of_value = [
                np.where(np.isnan(value), np.nan, grades(read, human)) for grades in _OF_VALUE
            ]
            cells = zip(
                ids, *map(_known, (value, *of_value, between, masses[:, number])), strict=True
            )
            by_dimension.append(
                [
                    Score(
                        output_id=output_id,
                        dimension=dimension.name,
                        value=value,
                        grade=grade,
                        spread=spread,
                        mass=mass,
                        reason=reasons.get((row, number)),
                        signature=self.report.signature,
                        anchor_spread=between,
                        interval=intervals.get((row, number)),
                    )
                    for row, (output_id, value, grade, spread, between, mass) in enumerate(cells)
                ]
            )
        scores = list(zip(*by_dimension, strict=True))
        self.report.count_rows(scores)
        return scores

    def _intervals(
        self, judgments: Sequence[Judgment], blocks: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], tuple[float, float]]:
        """The interval of each score over orders, by row and number of the dimension; their spread goes to `report`."""
        each, anchors = self.run.compared, max(len(self.run.anchors), 1)
        found = {}
        for number, dimension in enumerate(self.run.dimensions):
            human = (dimension.low, dimension.high)
            low, high = bounds_of(self._rule, self.run.rungs, human)
            steps = np.tile(rung_steps(self._rule, self.run.rungs, human), anchors) / anchors
            places = [place for place, (_, of_block) in enumerate(blocks) if of_block == number]
            of_dimension = [
                judgment
                for place in places
                for judgment in judgments[place * each : (place + 1) * each]
            ]
            scores = order_scores(of_dimension, each, self.run.stated, low, steps)
            several = scores[(~np.isnan(scores)).sum(axis=1) > 1]
            self.report.count_orders(dimension.name, np.nanvar(several, axis=1, ddof=1))
            for place, (least, most) in zip(
                places, intervals_of(scores, low, high).tolist(), strict=True
            ):
                if not math.isnan(least):
                    found[blocks[place]] = (least, most)
        return found


class LadderScorer:
    """A judge, a ladder set and a scale, ready to score batches of outputs into a log of judgments.

    `answers` are sampled for each question (0 reads label probabilities). With `stated`, the judge states probabilities
    in so many orders of each ladder.
    """

    def __init__(
        self,
        judge_backend: Backend,
        ladders: LadderSet,
        dimensions: Sequence[Dimension],
        scale: Scale,
        *,
        yes_no: bool = False,
        orders: int = 1,
        prompts: Path | None = None,
        answers: int = 0,
        stated: int = 0,
        sampling: Sampling | None = None,
    ) -> None:
        self.ladders = ladders
        self._contexts = dict(ladders.contexts)  # and those from rows, for a set without texts
        self._with_ladders = {context_id for context_id, _ in ladders.ladders}
        self.dimensions = tuple(dimensions)
        self.scale = scale
        self.judge = judge_backend
        if ladders.anchors and yes_no:
            raise UsageError(
                f"{ladders.name}: the set is shared, and yes/no questions show one context for both texts; leave out "
                f"{option('yes-no')}"
            )
        role = "compare-yesno" if yes_no else ladders.role
        if stated:
            check_orders(stated, ladders.rungs)
            role = "stated-shared" if ladders.anchors else "stated"
        self.template = judging_template(
            judge_backend, ladders.task, role, prompts, answers=answers or stated
        )
        drawn = replace(sampling or Sampling(), max_tokens=ANSWER_TOKENS) if answers else None
        recipe = Recipe(
            backend=judge_backend.fingerprint,
            prompts=prompts_of(judge_backend, self.template),
            sampling=answering_of(judge_backend) if stated else drawn,
            version=__version__,
        )
        self.run = Run(
            recipe=recipe,
            ladders=ladders.signature,
            dimensions=self.dimensions,
            rungs=ladders.rungs,
            orders=orders,
            answers=answers,
            anchors=ladders.anchors,
            stated=stated,
        )
        self._verdicts = Verdicts(self.run, scale)
        self.report = self._verdicts.report
        # Called with the judgments of each batch, and the characters of their prompts.
        self.watch: Callable[[Sequence[Judgment], int], None] | None = None

    @property
    def prompts_of_a_row(self) -> int:
        """How many prompts a row takes that has all of its ladders."""
        ladders = len(self.dimensions) * max(len(self.run.anchors), 1)
        if self.run.stated:
            return ladders * self.run.stated
        return (
            ladders * self.run.rungs * self.run.orders * calls_of(self.template, self.run.answers)
        )

    def score(
        self,
        outputs: Sequence[Output | None],
        notes: Sequence[str | None],
        log: JudgmentLog,
        contexts: Sequence[Context | None] = (),
    ) -> list[tuple[Score, ...]]:
        """Score a batch of outputs, None for a row without one and its reason in `notes`.

        `contexts` are of each output, for a shared set; None takes it from the set, else it is empty.
        """
        asked, blocks, reasons = self._asked(outputs, notes, contexts)
        asker = Asker(
            self.judge, self.template, log, self.scale.least_mass, batch=max(len(asked), 1)
        )
        ids = [None if output is None else output.id for output in outputs]
        reused = log.reused
        if self.run.stated:
            stating = Stated(asker)
            ladders = [
                asked[start : start + self.run.rungs]
                for start in range(0, len(asked), self.run.rungs)
            ]
            judgments = stating.ask(ladders)
        else:
            judgments = asker.ask(asked)
        self.report.reused += log.reused - reused
        if self.watch is not None:
            self.watch(
                judgments,
                stating.characters(ladders)
                if self.run.stated
                else sum(map(asker.characters, asked)),
            )
        return self._verdicts.scores(ids, judgments, blocks, reasons)

    def _asked(
        self,
        outputs: Sequence[Output | None],
        notes: Sequence[str | None],
        contexts: Sequence[Context | None],
    ) -> tuple[list[Question], list[tuple[int, int]], dict[tuple[int, int], str]]:
        """The questions about outputs, the row and dimension of each block of them, and why others have none."""
        asked: list[Question] = []
        blocks: list[tuple[int, int]] = []
        reasons: dict[tuple[int, int], str] = {}
        for row, (output, note) in enumerate(zip(outputs, notes, strict=True)):
            for number, dimension in enumerate(self.dimensions):
                reason = (
                    note if output is None else self._why_not(output.context_id, dimension.name)
                )
                if reason is not None or output is None:
                    reasons[row, number] = reason or "no output"
                    continue
                context = contexts[row] if contexts and self.ladders.anchors else None
                context = context or self._contexts.get(output.context_id)
                context = context or Context(id=output.context_id, task=self.ladders.task, text="")
                for anchor in self.ladders.anchors or (output.context_id,):
                    ladder = self.ladders.ladders[anchor, dimension.name]
                    shown = self.ladders.contexts[anchor] if self.ladders.anchors else None
                    asked.extend(
                        ladder_questions(
                            output, context, dimension, ladder, orders=self.run.orders, anchor=shown
                        )
                    )
                blocks.append((row, number))
        return asked, blocks, reasons

    def _why_not(self, context_id: str, dimension: str) -> str | None:
        if self.ladders.anchors:
            return None
        if (context_id, dimension) in self.ladders.ladders:
            return self.missing_text(context_id)
        if (context_id, dimension) in self.ladders.failures:
            return f"the {dimension} ladder of context {context_id!r} could not be written; see failures.jsonl"
        return f"no {dimension} ladder for context {context_id!r} in {self.ladders.name}"

    def missing_text(self, context_id: str) -> str | None:
        """That the text of a context with ladders is in neither the set nor an earlier row; None otherwise."""
        if (
            self.ladders.anchors
            or context_id not in self._with_ladders
            or context_id in self._contexts
        ):
            return None
        return f"no text of context {context_id!r} in the set; give it in a column 'context'"

    def take_context(self, context_id: str, text: str, background: str) -> str | None:
        """Use a row's context text if the set has none but its digest; else how the two texts differ, or None."""
        if self.ladders.anchors or context_id not in self._with_ladders:
            return None  # a shared set compares every text, with the context of its row
        given = Context(id=context_id, task=self.ladders.task, text=text, background=background)
        digest = self.ladders.digests.get(context_id)
        if context_id not in self.ladders.contexts and digest not in (None, given.digest):
            return (
                f"context {context_id!r} has another text or background in this row than the ladder set "
                f"{self.ladders.name} was written for"
            )
        context = self._contexts.setdefault(context_id, given)
        if context.text != text:
            what = "text"
        elif background and context.background != background:
            what = "background"
        else:
            return None
        before = (
            f"the ladder set {self.ladders.name}"
            if context_id in self.ladders.contexts
            else "an earlier row"
        )
        return f"context {context_id!r} has another {what} in this row than in {before}"
