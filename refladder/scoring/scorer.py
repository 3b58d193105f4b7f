"""Scores of outputs from a judge, a ladder set and a scale."""

from __future__ import annotations

import itertools
import math
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from refladder.backends.sampled import ANSWER_TOKENS
from refladder.errors import UsageError, option
from refladder.files.ladder_sets import choose_dimensions
from refladder.ranking.estimators import SAME
from refladder.records import Context, Run, Sampling, Score
from refladder.scoring.asker import (
    Asker,
    answering_of,
    calls_of,
    inconsistency,
    judging_template,
    run_of,
    verdicts,
)
from refladder.scoring.columns import (
    ScoreReport,
    block_notes,
    has_low_mass,
    least_masses,
    signature_of,
)
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.files.tables import Row
    from refladder.records import Dimension, Judgment, Output
    from refladder.scoring.judgment_file import JudgmentLog
    from refladder.scoring.question import Question
    from refladder.settings import Scale, Scoring

T = TypeVar("T")

# Rows judged, stored and written at a time.
FIRST_BATCH, LARGEST_BATCH = 16, 1024
# Rows of one context that stay in one batch.
LARGEST_CONTEXT = 256
# A text that beats the top rung, or loses to the lowest, with more than this is beyond the ladder.
HALF = 0.5
# In seconds. After a quicker batch the next is twice as large, after a slower one half as large.
QUICK, SLOW = 2.0, 20.0


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
    size = sys.maxsize if backend is not None and backend.wants_all else FIRST_BATCH
    started = time.monotonic()
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
    """Return the numbers, None for NaN."""
    return [None if number != number else number for number in numbers.tolist()]  # noqa: PLR0124


class Verdicts:
    """Turns the judgments of a run into scores, and counts what has none."""

    def __init__(self, run: Run, scale: Scale) -> None:
        self.run = run
        self.report = ScoreReport(signature=signature_of(run, scale))
        # Done once, as the look-up reads the metadata of every installed package.
        self._rule = rule_named(scale.rule)

    def count(self, judgments: Sequence[Judgment]) -> None:
        """Add judgments to `report`: those of every rung for each text, in the canonical order."""
        report = self.report
        report.judgments += len(judgments)
        report.unparsed += sum(judgment.logprobs is None for judgment in judgments)
        report.cut += sum(judgment.cut for judgment in judgments)
        report.low_mass += sum(map(has_low_mass, judgments))
        if self.run.orders > 1 and judgments:
            disagreements, pairs = inconsistency(judgments)
            report.disagreements += disagreements
            report.order_pairs += pairs
        ends = (
            # p(win) against the top rung.
            (self.run.rungs, 0, report.judged_top, report.above_top),
            # p(loss) against the lowest.
            (1, 1, report.judged_bottom, report.below_bottom),
        )
        for level, outcome, judged, beyond in ends:
            rungs = {rung_id(level, anchor) for anchor in self.run.anchors or ("",)}
            of_level = [
                judgment
                for judgment in judgments
                if judgment.subject in rungs or judgment.against in rungs
            ]
            of_texts = verdicts(of_level, len(rungs), self.run.orders)[:, :, outcome].mean(axis=1)
            firsts = of_level[:: self.run.orders * len(rungs)]
            for judgment, probability in zip(firsts, of_texts.tolist(), strict=True):
                if not math.isnan(probability):
                    name = judgment.dimension
                    judged[name] = judged.get(name, 0) + 1
                    beyond[name] = beyond.get(name, 0) + (probability > HALF + SAME)

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
            human = (dimension.low, dimension.high)
            read = probabilities[:, number]
            values = of_anchors(self._rule, read, anchors, human)
            value = values.mean(axis=1)
            unscored = np.isnan(value)
            between = np.full(len(values), np.nan)
            if anchors > 1:
                between = np.std(values, axis=1, ddof=1)
            numbers = {
                "value": value,
                "grade": np.where(unscored, np.nan, expected_grades(read, human)),
                "spread": np.where(unscored, np.nan, grade_spreads(read, human)),
                "anchor_spread": between,
                "mass": masses[:, number],
            }
            cells = zip(*map(_known, numbers.values()), strict=True)
            by_dimension.append(
                [
                    Score(
                        output_id=ids[row],
                        dimension=dimension.name,
                        reason=reasons.get((row, number)),
                        signature=self.report.signature,
                        interval=intervals.get((row, number)),
                        **dict(zip(numbers, of_row, strict=True)),
                    )
                    for row, of_row in enumerate(cells)
                ]
            )
        scores = list(zip(*by_dimension, strict=True))
        self.report.count_rows(scores)
        return scores

    def _intervals(
        self, judgments: Sequence[Judgment], blocks: Sequence[tuple[int, int]]
    ) -> dict[tuple[int, int], tuple[float, float]]:
        """Return the interval of each score over orders, by row and number of the dimension; their spread goes to `report`."""
        each = self.run.compared
        anchors = max(len(self.run.anchors), 1)
        found = {}
        for number, dimension in enumerate(self.run.dimensions):
            human = dimension.low, dimension.high
            low, high = bounds_of(self._rule, self.run.rungs, human)
            steps = np.tile(rung_steps(self._rule, self.run.rungs, human), anchors) / anchors
            places = [place for place, (_, of_block) in enumerate(blocks) if of_block == number]
            of_dimension = [
                judgment
                for place in places
                for judgment in judgments[place * each : (place + 1) * each]
            ]
            scores, fine = order_scores(of_dimension, each, self.run.stated, low, steps)
            several = scores[(~np.isnan(scores)).sum(axis=1) > 1]
            self.report.count_orders(dimension.name, np.nanvar(several, axis=1, ddof=1))
            for place, (least, most) in zip(
                places, intervals_of(scores, fine, low, high).tolist(), strict=True
            ):
                if not math.isnan(least):
                    found[blocks[place]] = (least, most)
        return found


@dataclass(frozen=True, slots=True)
class Item:
    """A row to score: its output, None with the reason in `note`; `context` is that of the row, if it has the text."""

    row: Row
    output: Output | None
    note: str | None = None
    context: Context | None = None

    @property
    def context_text(self) -> str | None:
        """Return the text of the context, if the row has it."""
        return None if self.context is None else self.context.text


class Judged(NamedTuple):
    """Items with their judgments: those of one block after another, each of an item and a dimension, by number.

    `reasons` say why other items and dimensions have no block.
    """

    items: Sequence[Item]
    questions: list[Question]
    judgments: list[Judgment]
    blocks: list[tuple[int, int]]
    reasons: dict[tuple[int, int], str]


class LadderScorer:
    """A judge and a ladder set, ready to score batches of items into a log of judgments.

    `dimensions` are those of the settings, unless they are given with other words. `sampling` is that of sampled
    answers.
    """

    def __init__(
        self,
        judge_backend: Backend,
        ladders: LadderSet,
        asked: Scoring,
        *,
        dimensions: Sequence[Dimension] | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        answers = asked.sampled
        stated = asked.stated
        if dimensions is None:
            dimensions = choose_dimensions(ladders.dimensions, asked.dimensions)
        self.ladders = ladders
        # Contexts of the set, and those from rows for a set without texts.
        self._contexts = dict(ladders.contexts)
        self._with_ladders = {context_id for context_id, _ in ladders.ladders}
        self.dimensions = tuple(dimensions)
        self.scale = asked.scale
        self.any_judge = asked.any_judge
        self.judge = judge_backend
        if ladders.anchors and asked.yes_no:
            raise UsageError(
                f"{ladders.name}: the set is shared, and yes/no questions show one context for both texts; leave out "
                f"{option('yes-no')}"
            )
        role = "compare-yesno" if asked.yes_no else ladders.role
        if stated:
            check_orders(stated, ladders.rungs)
            role = "stated-shared" if ladders.anchors else "stated"
        self.template = judging_template(
            judge_backend, ladders.task, role, asked.prompts, answers=answers or stated
        )
        if stated:
            sampling = answering_of(judge_backend)
        elif answers:
            sampling = replace(sampling or Sampling(), max_tokens=ANSWER_TOKENS)
        self.run = replace(
            run_of(judge_backend, self.template, answers=answers, stated=stated, sampling=sampling),
            ladders=ladders.signature,
            dimensions=self.dimensions,
            rungs=ladders.rungs,
            orders=asked.orders,
            anchors=ladders.anchors,
        )
        self._verdicts = Verdicts(self.run, self.scale)
        self.report = self._verdicts.report

    @property
    def prompts_of_a_row(self) -> int:
        """Return the number of prompts for a row that has all of its ladders."""
        ladders = len(self.dimensions) * max(len(self.run.anchors), 1)
        if self.run.stated:
            return ladders * self.run.stated
        return (
            ladders * self.run.rungs * self.run.orders * calls_of(self.template, self.run.answers)
        )

    def score(self, items: Sequence[Item], log: JudgmentLog) -> list[tuple[Score, ...]]:
        """Score a batch: the scores of each item, one for each dimension."""
        return self.scores(self.judged(items, log))

    def judged(self, items: Sequence[Item], log: JudgmentLog) -> Judged:
        """Ask the judge about a batch, except for what the log holds."""
        questions, blocks, reasons = self._questions(items)
        asker = self._asker(log, len(questions))
        reused = log.reused
        if self.run.stated:
            ladders = self._ladders_of(questions)
            judgments = Stated(asker).ask(ladders)
        else:
            judgments = asker.ask(questions)
        self.report.reused += log.reused - reused
        return Judged(items, questions, judgments, blocks, reasons)

    def scores(self, judged: Judged) -> list[tuple[Score, ...]]:
        """Turn the judgments of a batch into scores, and add them to `report`."""
        ids = [None if item.output is None else item.output.id for item in judged.items]
        return self._verdicts.scores(ids, judged.judgments, judged.blocks, judged.reasons)

    def characters(self, judged: Judged, log: JudgmentLog) -> int:
        """Return the length of all prompts of a batch, also of those that the log answered."""
        asker = self._asker(log, len(judged.questions))
        if self.run.stated:
            return Stated(asker).characters(self._ladders_of(judged.questions))
        return sum(map(asker.characters, judged.questions))

    def _asker(self, log: JudgmentLog, questions: int) -> Asker:
        return Asker(self.judge, self.template, log, self.scale.least_mass, batch=max(questions, 1))

    def _ladders_of(self, questions: Sequence[Question]) -> list[Sequence[Question]]:
        rungs = self.run.rungs
        return [questions[start : start + rungs] for start in range(0, len(questions), rungs)]

    def _questions(
        self, items: Sequence[Item]
    ) -> tuple[list[Question], list[tuple[int, int]], dict[tuple[int, int], str]]:
        """Return the questions about items, the item and dimension of each block, and why others have none."""
        asked: list[Question] = []
        blocks: list[tuple[int, int]] = []
        reasons: dict[tuple[int, int], str] = {}
        for row, item in enumerate(items):
            output = item.output
            unfit = self._why_unfit(item)
            for number, dimension in enumerate(self.dimensions):
                if output is None or unfit is not None:
                    reasons[row, number] = unfit or "no output"
                    continue
                context_id = output.context_id
                has_ladder = (context_id, dimension.name) in self.ladders.ladders
                if not (self.ladders.anchors or has_ladder):
                    reasons[row, number] = self._without_ladder(context_id, dimension.name)
                    continue
                context = item.context if self.ladders.anchors else None
                context = context or self._contexts.get(context_id)
                context = context or Context(id=context_id, task=self.ladders.task, text="")
                for anchor in self.ladders.anchors or (context_id,):
                    ladder = self.ladders.ladders[anchor, dimension.name]
                    shown = self.ladders.contexts[anchor] if self.ladders.anchors else None
                    asked.extend(
                        ladder_questions(
                            output, context, dimension, ladder, orders=self.run.orders, anchor=shown
                        )
                    )
                blocks.append((row, number))
        return asked, blocks, reasons

    def _without_ladder(self, context_id: str, dimension: str) -> str:
        """Say why there is no ladder of a context on a dimension."""
        if (context_id, dimension) in self.ladders.failures:
            return f"the {dimension} ladder of context {context_id!r} could not be written; see failures.jsonl"
        return f"no {dimension} ladder for context {context_id!r} in {self.ladders.name}"

    def _why_unfit(self, item: Item) -> str | None:
        """Return why an item has no score on any dimension; the text of its context is used for later ones too."""
        if item.output is None:
            return item.note
        context_id = item.output.context_id
        # A shared set compares every text, with the context of its row.
        if self.ladders.anchors or context_id not in self._with_ladders:
            return None
        if item.context is not None:
            return self._take_context(context_id, item.context.text, item.context.background)
        if context_id in self._contexts:
            return None
        return f"no text of context {context_id!r} in the set; give it in a column 'context'"

    def _take_context(self, context_id: str, text: str, background: str) -> str | None:
        """Use the text of a row's context if the set has none but its digest; return how two texts differ, if so."""
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
