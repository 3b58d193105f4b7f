"""The ladder: every output is compared with the rungs of its context's ladder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from refladder.backends.protocol import characters
from refladder.errors import UsageError, option, plural
from refladder.files.jsonl import within
from refladder.files.ladder_sets import (
    LadderSet,
    as_ladder_set,
    choose_dimensions,
    criteria_set,
    ladder_set,
)
from refladder.files.tables import Row
from refladder.loaders.input_rows import Item
from refladder.methods.contract import (
    LADDER,
    EvaluationMethod,
    Method,
    MethodResult,
    MethodSettings,
)
from refladder.methods.measures import Tally, of_orders
from refladder.records import by_id, names_of
from refladder.scoring import recorded
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.modes import mode_of
from refladder.scoring.rules import rule_named
from refladder.scoring.scorer import LadderScorer, batches
from refladder.synth import build_ladders
from refladder.synth.journal import JOURNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.methods.contract import Judge
    from refladder.records import (
        Benchmark,
        Dimension,
        LadderFailure,
        Progress,
        Prompt,
    )
    from refladder.scoring.score_report import ScoreReport

    Scores = dict[tuple[str, str], float | None]

# The work folder keeps judgments in this file.
JUDGMENTS = "judgments.jsonl"


def evaluation_ladders(
    writer: Backend,
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    settings: MethodSettings,
    needed: Callable[[Sequence[Prompt]], None] = lambda _prompts: None,
) -> tuple[LadderSet, list[LadderFailure]]:
    """Write ladders for every context, kept in the work folder.

    Return them and the rungs that failed. `needed` gets all prompts.
    """
    if not all(context.text for context in benchmark.contexts):
        raise UsageError(
            f"{benchmark.name}: texts without a context have no ladder of their own; name a shared set with "
            f"{option('ladders')}, as `refladder build table --shared K` makes"
        )
    with settings.progress("writing ladders") as progress:
        ladders, failures = build_ladders(
            writer,
            benchmark.contexts,
            dimensions,
            rungs=settings.rungs,
            sampling=settings.sampling,
            prompts=settings.prompts,
            journal=None if settings.work is None else settings.work / JOURNAL,
            progress=progress,
            needed=needed,
        )
    if not ladders:
        reason = failures[0].reasons[-1] if failures else "the benchmark has no contexts"
        raise UsageError(
            f"no ladder could be written for {benchmark.name}: {reason}; try another {option('writer')}"
        )
    return ladder_set(benchmark.name, dimensions, benchmark.contexts, ladders, failures), failures


def ladders_for(
    benchmark: Benchmark, dimensions: Sequence[Dimension], ladders: LadderSet
) -> LadderSet:
    """Check that a ladder set is for this benchmark; give contexts without a text in the set the benchmark's text."""
    contexts = by_id(benchmark.contexts)
    for context in benchmark.contexts:
        if context.task not in ladders.tasks:
            tasks = " and ".join(map(repr, ladders.tasks))
            raise UsageError(
                f"the ladders of {ladders.name} are of task {tasks}, and {benchmark.name} is of "
                f"{context.task!r}; name ladders of that task with {option('ladders')}"
            )
        written_for = ladders.contexts.get(context.id)
        digest = None if written_for is not None else ladders.digests.get(context.id)
        if (written_for or context).text != context.text or digest not in (None, context.digest):
            raise UsageError(
                f"context {context.id!r} has another text in {ladders.name} than in {benchmark.name}; "
                f"the ladders were written for other data: name others with {option('ladders')}"
            )
    choose_dimensions(ladders.dimensions, names_of(dimensions))
    return replace(ladders, contexts=contexts | dict(ladders.contexts))


def score_benchmark(
    scorer: LadderScorer,
    benchmark: Benchmark,
    *,
    judgments: Path | None = None,
    progress: Progress | None = None,
    tally: Tally | None = None,
) -> tuple[Method, ScoreReport]:
    """Score every output of a benchmark against the scorer's ladders; `tally` counts what was needed, reused or not."""
    # Sorting by context lets a judge share the beginnings of prompts.
    outputs = sorted(benchmark.outputs, key=lambda output: output.context_id)
    scores: Scores = {}
    with JudgmentLog(judgments, scorer.run) as log:
        for batch in batches(outputs, scorer.judge, lambda output: output.context_id):
            judged = scorer.judged([Item(Row(output.id, {}), output) for output in batch], log)
            if tally is not None:
                measures = of_orders(judged.judgments) if scorer.run.orders > 1 else None
                tally.add(judged.judgments, scorer.characters(judged, log), measures)
            for output, row in zip(batch, scorer.scores(judged), strict=True):
                for score in row:
                    scores[output.id, score.dimension] = score.value
            if progress is not None:
                progress(scorer.report.rows, len(outputs))
        log.finish()
    if tally is not None:
        # The report also counts judgments of rungs, which are rated before the first text.
        report = scorer.report
        tally.judgments, tally.unparsed = report.judgments, report.unparsed
        tally.reused = report.reused
    return Method(name=LADDER, signature=scorer.report.signature, scores=scores), scorer.report


def _run(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Compare every output with the rungs of its context's ladder, which are written unless a set is named.

    Source: arXiv 2509.05440, section 2.
    """
    settings.own(LADDER, {})
    rule_named(settings.rule)
    failures: Sequence[LadderFailure] = ()
    # The tally counts everything that was needed, reused or not.
    tally = Tally()
    if settings.ladders is not None:
        ladders = ladders_for(benchmark, dimensions, as_ladder_set(settings.ladders))
        if ladders.anchors:
            # A shared set is one scale for all texts, so its criteria have one wording.
            words = {dimension.name: dimension.description for dimension in ladders.dimensions}
            dimensions = [
                replace(dimension, description=words[dimension.name]) for dimension in dimensions
            ]
    elif not mode_of(settings.answers).needs_ladders:
        ladders = criteria_set(
            benchmark.name, benchmark.contexts[0].task, dimensions, benchmark.contexts
        )
    else:

        def needed(prompts: Sequence[Prompt]) -> None:
            tally.characters += sum(map(characters, prompts))

        writer = (settings.writer or judge)()
        ladders, failures = evaluation_ladders(writer, benchmark, dimensions, settings, needed)
    scorer = LadderScorer(
        judge(),
        ladders,
        settings.scoring,
        dimensions=dimensions,
        sampling=settings.sampling,
    )
    with settings.progress("judging") as progress:
        method, report = score_benchmark(
            scorer,
            benchmark,
            judgments=None if settings.work is None else within(settings.work / JUDGMENTS),
            progress=progress,
            tally=tally,
        )
    notes = []
    if failures:
        notes.append(f"{plural(len(failures), 'rung')} failed; the outputs concerned have no score")
    result = MethodResult(method=method, report=report, scorer=scorer, notes=tuple(notes))
    return result.counted(tally)


ladder = EvaluationMethod(run=_run, recorded=recorded.LADDER)
