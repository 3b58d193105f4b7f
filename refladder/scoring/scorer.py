"""Scores of outputs from a judge, a ladder set and a scale."""

from __future__ import annotations

import itertools
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from refladder.arrays import known_numbers
from refladder.backends.dry_run import DryRunBackend
from refladder.errors import UsageError, agreeing, option
from refladder.files.ladder_sets import choose_dimensions
from refladder.records import Context, Run, RungRating, Sampling, Score
from refladder.scoring.asker import Asker, mode_template, run_of
from refladder.scoring.columns import (
    block_notes,
    has_low_mass,
    least_masses,
    signature_of,
)
from refladder.scoring.grades import expected_grade
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.modes import mode_of
from refladder.scoring.modes.mode import Readings, Scope
from refladder.scoring.question import first_revision, level_of, other_draw
from refladder.scoring.rules import rule_named
from refladder.scoring.score_report import ScoreReport
from refladder.scoring.unread import MOST_ROWS, unread_error
from refladder.scoring.written import ask_groups, try_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.loaders.input_rows import Item
    from refladder.prompts import Template
    from refladder.records import Dimension, Judgment
    from refladder.scoring.modes import Mode
    from refladder.scoring.modes.mode import Group
    from refladder.scoring.question import Question
    from refladder.scoring.rung_scale import RungScale
    from refladder.settings import Scale, Scoring

T = TypeVar("T")

# Rows judged, stored and written at a time.
FIRST_BATCH, LARGEST_BATCH = 16, 1024
# Rows of one context that stay in one batch.
LARGEST_CONTEXT = 256
# Prompts of the rows that are asked in the order of their contexts; they and their judgments take about 100 MB.
WINDOW = 2**15
# In seconds. After a quicker batch the next is twice as large, after a slower one half as large.
QUICK, SLOW = 2.0, 20.0


def batches(
    rows: Iterable[T],
    backend: Backend | None = None,
    context_of: Callable[[T], str | None] | None = None,
    *,
    window: int | None = None,
) -> Iterator[list[T]]:
    """Split rows into batches that take seconds each, so that an interrupted run loses little work.

    A backend with `wants_all` gets all rows at once. A backend with `shares_contexts` processes the shared text of one
    context once per batch, so it gets `window` rows at once, in any order. Where rows are to come out soon there is no
    window, and consecutive rows of one context stay in one batch.
    """
    rows = iter(rows)
    shares = backend is not None and backend.shares_contexts
    size = sys.maxsize if backend is not None and backend.wants_all else FIRST_BATCH
    if shares and window is not None:
        yield from iter(lambda: list(itertools.islice(rows, window)), [])
        return
    started = time.monotonic()
    together = context_of if shares else None
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


class Verdicts:
    """Turns the judgments of a run into scores, and counts what has none."""

    def __init__(self, run: Run, scale: Scale) -> None:
        self.run = run
        self._mode = mode_of(run.answers)
        self.report = ScoreReport(
            signature=signature_of(run, scale), placed_by="anchors" if run.anchors else "ladders"
        )
        self._scales: dict[str, RungScale] = {}
        # Done once, as the look-up reads the metadata of every installed package.
        self._rule = rule_named(scale.rule)

    def count(self, judgments: Sequence[Judgment]) -> None:
        """Add the judgments of whole texts to `report`, in the canonical order."""
        report = self.report
        report.judgments += len(judgments)
        report.unparsed += sum(judgment.logprobs is None for judgment in judgments)
        report.cut += sum(judgment.cut for judgment in judgments)
        report.low_mass += sum(map(has_low_mass, judgments))
        self._mode.count(self.run, judgments, report)

    def take_rungs(
        self,
        judgments: Sequence[Judgment],
        unasked: Sequence[Question] = (),
        refused: Mapping[str, str] | None = None,
    ) -> None:
        """Take the judgments of rungs that come before those of texts, and the rungs that have none.

        A dimension on which the judge is `refused`, with the reason, has no grade.
        """
        report = self.report
        report.judgments += len(judgments)
        report.unparsed += sum(judgment.logprobs is None for judgment in judgments)
        rated = {judgment.comparison: expected_grade(judgment) for judgment in judgments}
        rated |= {question.comparison: None for question in unasked}
        for rung, rating in rated.items():
            reading = RungRating(
                dimension=rung.dimension,
                anchor=rung.context_id,
                level=level_of(rung.subject) or 0,
                rating=rating,
            )
            report.rung_ratings.append(reading)
        for name, scale in self._mode.rung_scales(self.run, report.rung_ratings).items():
            if reason := (refused or {}).get(name) or scale.problem:
                report.no_grade[name] = reason
            else:
                self._scales[name] = scale

    def scores(
        self,
        ids: Sequence[str | None],
        judgments: Sequence[Judgment],
        blocks: Sequence[tuple[int, int]],
        reasons: Mapping[tuple[int, int], str],
    ) -> list[tuple[Score, ...]]:
        """Score rows, and add their counts to `report`: the scores of each row, one for each dimension, in order.

        `judgments` are as `trusted` gives them, those of a text for each of `blocks` (row, number of the dimension).
        `reasons` say why others have none.
        """
        run, mode = self.run, self._mode
        self.count(judgments)
        each = len(mode.judgments_of_a_text(run))
        reasons = {**reasons, **block_notes(judgments, blocks, each)}
        readings = Readings(run, self._rule, len(ids), judgments, blocks, self._scales, self.report)
        intervals = mode.intervals(readings)
        masses = readings.placed(least_masses(judgments, each))
        by_dimension = []
        numbers_of = zip(run.dimensions, mode.numbers(readings), strict=True)
        for number, (dimension, fields) in enumerate(numbers_of):
            without = self.report.no_grade.get(dimension.name)
            note = without and f"no grade: {without}"
            fields["mass"] = masses[:, number]
            if scale := self._scales.get(dimension.name):
                human = (dimension.low, dimension.high)
                self.report.count_errors(dimension.name, scale.errors(fields["value"], human))
            cells = zip(*map(known_numbers, fields.values()), strict=True)
            of_dimension = []
            for row, of_row in enumerate(cells):
                score = Score(
                    output_id=ids[row],
                    dimension=dimension.name,
                    reason=reasons.get((row, number), note),
                    signature=self.report.signature,
                    interval=intervals.get((row, number)),
                    **dict(zip(fields, of_row, strict=True)),
                )
                of_dimension.append(score)
            by_dimension.append(of_dimension)
        scores = list(zip(*by_dimension, strict=True))
        self.report.count_rows(scores)
        return scores


class Judged(NamedTuple):
    """Items with their judgments, block after block; a block is an item and a dimension, by number.

    `reasons` say why other items and dimensions have no block.
    """

    items: Sequence[Item]
    groups: list[Group]
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
        if dimensions is None:
            dimensions = choose_dimensions(ladders.dimensions, asked.dimensions)
        self.ladders = ladders
        # Contexts of the set, and those from rows for a set without texts.
        self._contexts = dict(ladders.contexts)
        self._with_ladders = ladders.context_ids
        self.dimensions = tuple(dimensions)
        self.scale = asked.scale
        self.any_judge = asked.any_judge
        self.judge = judge_backend
        if ladders.anchors and asked.yes_no:
            raise UsageError(
                f"{ladders.name}: the set is shared, and yes/no questions show one context for both texts; leave out "
                f"{option('yes-no')}"
            )
        self.mode = mode_of(asked.answers)
        self.mode.check_settings(asked)
        self.mode.check_rungs(ladders.rungs)
        self._prompts = asked.prompts
        self._yes_no = asked.yes_no
        self.template = self.template_of(self.mode)
        checked = self.mode.of_check(ladders)
        try_out(judge_backend, checked, self.template_of(checked), ladders, self.dimensions)
        self.run = replace(
            run_of(
                judge_backend,
                self.template,
                answers=self.mode.name,
                sampling=self.mode.sampling(judge_backend, sampling),
            ),
            ladders=ladders.scale,
            dimensions=self.dimensions,
            rungs=ladders.rungs,
            orders=asked.orders,
            anchors=ladders.scoring_anchors,
        )
        # What is asked about rungs before the first text; None once it is answered.
        self._rungs: list[Group] | None = []
        # Rungs that are not asked: a file of judgments may hold ratings of some, or of none.
        self._unasked: list[Question] = []
        recorded = judge_backend.recorded
        for group in self.mode.rung_groups(Scope(ladders, self.dimensions)):
            if recorded is None or any(question.comparison in recorded for question in group):
                self._rungs.append(group)
            else:
                self._unasked += group
        self.run = replace(self.run, rated_rungs=sum(map(len, self._rungs)))
        # Grades by the rungs of other contexts than those that the set draws are on another scale.
        if self._rungs and not ladders.anchors:
            other = other_draw(first_revision(ladders), self.dimensions)
            self.run = replace(self.run, ladders=self.run.ladders + (other and f"|rungs:{other}"))
        # Judgments of rungs that were asked in this run: the judge check and the grades need some of the same.
        self.rung_judgments: list[Judgment] = []
        # Judgments about rows while none could be read, and the number of these rows; None once one was.
        self._unread: list[Judgment] | None = [] if recorded is None else None
        self._unread_rows = 0
        # What the judge check found, by dimension, for the notes of scored rows; `refused` has no grade of a rating.
        self.notes: Mapping[str, str] = {}
        self.refused: Mapping[str, str] = {}
        self._verdicts = Verdicts(self.run, self.scale)
        self.report = self._verdicts.report
        if self.run.rungs and len(ladders.anchors) > len(ladders.scoring_anchors):
            self.report.most_anchors = str(len(ladders.anchors))

    @property
    def prompts_of_a_row(self) -> int:
        """Return the number of prompts for a row that has all of its ladders."""
        return self.mode.prompts_of_a_row(self.template, self.run)

    def template_of(self, mode: Mode) -> Template:
        """Return the template that the judge is asked with in a mode."""
        return mode_template(self.judge, mode, self.ladders, self._prompts, yes_no=self._yes_no)

    def score(self, items: Sequence[Item], log: JudgmentLog) -> list[tuple[Score, ...]]:
        """Score a batch: the scores of each item, one for each dimension."""
        return self.scores(self.judged(items, log))

    def judged(self, items: Sequence[Item], log: JudgmentLog) -> Judged:
        """Ask the judge about a batch, except for what the log holds."""
        groups, blocks, reasons, ends = self._groups(items)
        rungs = self._rungs or []
        if rungs:
            log.take(self.rung_judgments)
        asker = self._asker(log, [*rungs, *groups])
        reused = log.reused
        # While nothing was read, no more rows are asked than end a run. Labels that a model here cannot read cost little,
        # and its rows are cheapest together.
        reads_here = self.judge.is_fixed and not self.mode.writes
        if self._unread is not None and not (self.judge.wants_all or reads_here):
            more = [*ends, len(groups)][min(MOST_ROWS - self._unread_rows, len(ends)) - 1]
            parts = [rungs, groups[:more], groups[more:]]
        else:
            parts = [[*rungs, *groups]]
        judgments: list[Judgment] = []
        for part in filter(None, parts):
            judgments += ask_groups(asker, part)
            if part is not rungs:
                self._check_readable(judgments[sum(map(len, rungs)) :], len(ends))
        self.report.reused += log.reused - reused
        of_rungs = sum(map(len, rungs))
        if self._rungs is not None:
            self._rungs = None
            # Ratings of an earlier run do not show what the judge says now.
            if log.reused == reused:
                self.rung_judgments = judgments[:of_rungs] or self.rung_judgments
            self._verdicts.take_rungs(judgments[:of_rungs], self._unasked, self.refused)
        return Judged(items, groups, judgments[of_rungs:], blocks, reasons)

    def _check_readable(self, judgments: Sequence[Judgment], rows: int) -> None:
        """Take judgments about rows; raise JudgeRefusedError when the first rows of a run have none that could be read."""
        if self._unread is None:
            return
        read = any(judgment.logprobs is not None for judgment in judgments)
        if read or isinstance(self.judge, DryRunBackend):
            self._unread = None
            return
        self._unread += judgments
        self._unread_rows += rows
        if self._unread_rows >= MOST_ROWS:
            self.check_readable()

    def check_readable(self) -> None:
        """Raise JudgeRefusedError if rows were asked about, and nothing could be read so far."""
        if self._unread:
            asked = agreeing(
                self._unread_rows,
                "the first row",
                f"the first {min(self._unread_rows, MOST_ROWS)} rows",
            )
            raise unread_error(self.judge.fingerprint, asked, self._unread)

    def judge_rungs(self, known: Sequence[Judgment] = ()) -> list[Judgment]:
        """Ask what is asked about rungs before the first text, if that has not been done; nothing is stored.

        Return the judgments, also those that are `known`, which are not asked.
        """
        if not self._rungs:
            return []
        questions = list(itertools.chain(*self._rungs))
        with JudgmentLog(None, self.run, known=known) as log:
            self.judged((), log)
            return log.answers(questions)

    def scores(self, judged: Judged) -> list[tuple[Score, ...]]:
        """Turn the judgments of a batch into scores, and add them to `report`."""
        ids = [None if item.output is None else item.output.id for item in judged.items]
        scores = self._verdicts.scores(ids, judged.judgments, judged.blocks, judged.reasons)
        if self.notes:
            scores = [tuple(map(self._noted, of_row)) for of_row in scores]
        return scores

    def _noted(self, score: Score) -> Score:
        """Return a score whose note says what the judge check found."""
        note = self.notes.get(score.dimension)
        if note is None or score.value is None:
            return score
        return replace(score, reason=f"{score.reason}; {note}" if score.reason else note)

    def characters(self, judged: Judged, log: JudgmentLog) -> int:
        """Return the length of all prompts of a batch, also of those that the log answered."""
        return self._asker(log, judged.groups).characters(judged.groups)

    def _asker(self, log: JudgmentLog, groups: Sequence[Group]) -> Asker:
        batch = max(sum(map(len, groups)), 1)
        return Asker(
            self.judge, self.template, log, self.scale.least_mass, batch=batch, rungs_anew=True
        )

    def _groups(
        self, items: Sequence[Item]
    ) -> tuple[list[Group], list[tuple[int, int]], dict[tuple[int, int], str], list[int]]:
        """Return the questions about items, the item and dimension of each block, and why others have none.

        The last are the numbers of groups up to each item that is asked about.
        """
        ends: list[int] = []
        groups: list[Group] = []
        blocks: list[tuple[int, int]] = []
        reasons: dict[tuple[int, int], str] = {}
        for row, item in enumerate(items):
            output = item.output
            unfit = self._why_unfit(item)
            if output is None or unfit is not None:
                numbers = range(len(self.dimensions))
                reasons |= {(row, number): unfit or "no output" for number in numbers}
                continue
            context_id = output.context_id
            asked = []
            for number, dimension in enumerate(self.dimensions):
                if self._is_without_ladder(context_id, dimension):
                    reasons[row, number] = self._without_ladder(context_id, dimension.name)
                    continue
                asked.append(dimension)
                blocks.append((row, number))
            context = item.context if self.ladders.serves_any_context else None
            context = context or self._contexts.get(context_id) or item.context
            context = context or Context(id=context_id, task=self.ladders.task, text="")
            scope = Scope(self.ladders, asked, self.run.orders)
            groups += self.mode.groups(output, context, scope)
            if asked:
                ends.append(len(groups))
        return groups, blocks, reasons, ends

    def _is_without_ladder(self, context_id: str, dimension: Dimension) -> bool:
        """Return whether a ladder is needed that the set does not have."""
        has = (context_id, dimension.name) in self.ladders.ladders
        return self.mode.needs_ladders and not (self.ladders.serves_any_context or has)

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
        if self.ladders.serves_any_context or (
            self.mode.needs_ladders and context_id not in self._with_ladders
        ):
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
        before = "an earlier row"
        if context_id in self.ladders.contexts:
            before = f"the ladder set {self.ladders.name}"
        return f"context {context_id!r} has another {what} in this row than in {before}"
