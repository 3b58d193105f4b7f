"""check-drift: judge a few pairs of rungs again, and say whether the judge has changed since the first time."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends.estimate import Unanswered
from refladder.errors import DataError, UsageError, plural
from refladder.files.jsonl import read_record, refuse_pipe, write_record
from refladder.files.locks import locked
from refladder.records import DriftWatch, Probe, digest_of, scale_of
from refladder.scoring.asker import Asker, run_of
from refladder.scoring.judging import outcome_probabilities, trusted
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.question import comparison_of, level_of, rung_side
from refladder.trust.drift import changes_of, drift_evidence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.arrays import FloatArray
    from refladder.backends import Backend
    from refladder.records import Recipe
    from refladder.scoring.question import Question
    from refladder.scoring.scorer import LadderScorer

ALPHA = 0.01  # probability that a judge that never changes ever causes an alarm
MOST_PROBES, LEAST_PROBES = 64, 8  # that have a first reading
EACH_LOOK = 8  # probes judged again in a run
REPEATS = 32  # probes judged again in the first run, which show the changes without drift


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """What the looks so far show; `changes` and `shift` are None at the first, which only makes the first readings.

    `evidence` is that of this look, `highest` of any; `alarm` is whether it reached `limit`. `changes` is the mean
    distance to the first readings, 0 to 1, and `shift` the mean change of (p(win) - p(loss)) / 2 of the better rung.
    """

    file: str
    looks: int
    asked: int
    unparsed: int
    changes: float | None
    shift: float | None
    evidence: float
    highest: float
    limit: float
    alarm: bool


def check_drift(scorer: LadderScorer, backend: Backend, path: Path) -> DriftReport:
    """Take one look at a judge and add it to the file of earlier ones; the first one makes the file, with repeats."""
    dry_run = isinstance(backend, Unanswered)
    with nullcontext() if dry_run else locked(path):
        watch = _read_watch(path, scorer)
        questions = probe_questions(scorer)
        run = run_of(backend, scorer.template, answers=scorer.run.answers, sampling=scorer.run.recipe.sampling)
        asker = Asker(backend, scorer.template, JudgmentLog(None, run))
        if watch is None:
            watch = _first_readings(scorer, asker, questions)
            asked = [*watch.repeats]
        else:
            chosen = _drawn(len(watch.probes), EACH_LOOK, len(watch.looks) + 1)
            now = _shares(asker, _asked(path, watch, questions, chosen), scorer.scale.least_mass)
            before = np.array([watch.probes[number].shares for number in chosen])
            asked = _pairs(changes_of(before, now))
            watch = replace(watch, looks=(*watch.looks, tuple(asked)))
        if not dry_run:
            write_record(path, watch)
    return report_of(watch, str(path), asked)


def report_of(watch: DriftWatch, file: str, asked: Sequence[tuple[float, float] | None] = ()) -> DriftReport:
    """What the looks of a file show."""
    evidence = [1.0]
    if watch.looks:
        looks = np.array([[_changes(look) for look in watch.looks]])
        evidence = drift_evidence(_changes(watch.repeats)[None], looks)[0].tolist()
    seen = [change for change in asked if change is not None]
    return DriftReport(
        file=file,
        looks=len(watch.looks),
        asked=len(asked) + (0 if watch.looks else len(watch.probes)),
        unparsed=len(asked) - len(seen),
        changes=float(np.mean([distance for distance, _ in seen])) if seen and watch.looks else None,
        shift=float(np.mean([shift for _, shift in seen])) if seen and watch.looks else None,
        evidence=evidence[-1],
        highest=max(evidence),
        limit=1 / ALPHA,
        alarm=max(evidence) >= 1 / ALPHA,
    )


def drift_line(report: DriftReport) -> str:
    """The result of a look in one sentence."""
    if not report.looks:
        return f"drift: first readings of the probes ({plural(report.asked, 'call')}) are in {report.file}"
    looks = plural(report.looks, "look")
    if report.alarm:
        return (
            f"drift: the judge has changed (evidence {report.highest:,.3g} in {looks}, alarm at {report.limit:g}); "
            "these scores are not comparable with those before. Score the earlier outputs again, or link the two "
            f"judges with `refladder link`; delete {report.file} to watch the judge from now on"
        )
    changes = "no probe could be read" if report.changes is None else f"mean change {report.changes:.3f}"
    return f"drift: none shown ({changes}; evidence {report.evidence:.3g} in {looks}, alarm at {report.limit:g})"


def probe_questions(scorer: LadderScorer) -> list[Question]:
    """At most `MOST_PROBES` pairs of neighbouring rungs of a ladder set, in an order that only their texts decide."""
    contexts = scorer.ladders.contexts
    dimensions = {dimension.name: dimension for dimension in scorer.ladders.dimensions}
    questions = [
        comparison_of(
            contexts[context_id],
            dimensions[name],
            *(rung_side(rung, contexts[context_id] if scorer.ladders.anchors else None) for rung in (upper, lower)),
        )
        for (context_id, name), ladder in scorer.ladders.ladders.items()
        if context_id in contexts
        for lower, upper in itertools.pairwise(ladder.rungs)
    ]
    if len(questions) < LEAST_PROBES:
        raise UsageError(
            f"{scorer.ladders.name}: {plural(len(questions), 'pair')} of neighbouring rungs with the text of their "
            f"context, and --check-drift needs {LEAST_PROBES}; use a set with more ladders, or with its contexts' texts"
        )
    return sorted(questions, key=lambda question: digest_of(question.key))[:MOST_PROBES]


def _read_watch(path: Path, scorer: LadderScorer) -> DriftWatch | None:
    if not path.exists():
        return None
    refuse_pipe(path)
    watch, run = read_record(DriftWatch, path), scorer.run
    if _judge(watch.recipe, watch.answers) != _judge(run.recipe, run.answers):
        raise UsageError(
            f"{path}: the probes were judged by {watch.recipe.signature}, and this judge is {run.recipe.signature}. "
            "Another judge is not drift: link the two with `refladder link`, and name another file with --drift-file"
        )
    if scale_of(watch.ladders) != scale_of(run.ladders):
        raise UsageError(
            f"{path}: the probes are of ladders {watch.ladders}, and this run's are {run.ladders}; name another file "
            "with --drift-file"
        )
    return watch


def _judge(recipe: Recipe, answers: int) -> tuple[object, ...]:
    return recipe.backend, recipe.prompts, recipe.sampling, answers


def _first_readings(scorer: LadderScorer, asker: Asker, questions: Sequence[Question]) -> DriftWatch:
    shares = _shares(asker, questions, scorer.scale.least_mass)
    dry_run = isinstance(asker.backend, Unanswered)  # as if every probe could be read
    read = [number for number, row in enumerate(shares) if dry_run or not np.isnan(row).any()]
    if len(read) < LEAST_PROBES:
        raise DataError(
            f"{scorer.ladders.name}: the judge could be read on {len(read)} of {len(questions)} pairs of rungs, and "
            f"--check-drift needs {LEAST_PROBES}; find out first why scores of this judge are missing"
        )
    probes = tuple(
        Probe(
            context_id=questions[number].context.id,
            dimension=questions[number].dimension.name,
            level=level_of(questions[number].comparison.against) or 0,
            key=questions[number].key,
            shares=tuple(shares[number].tolist()),
        )
        for number in read
    )
    repeats: list[tuple[float, float] | None] = []
    for batch in range(REPEATS // EACH_LOOK):  # drawn and asked as in every later look
        chosen = _drawn(len(probes), EACH_LOOK, -batch)
        now = _shares(asker, [questions[read[number]] for number in chosen], scorer.scale.least_mass)
        before = np.array([probes[number].shares for number in chosen])
        repeats += _pairs(changes_of(before, now))
    run = scorer.run
    return DriftWatch(
        recipe=run.recipe, ladders=run.ladders, answers=run.answers, probes=probes, repeats=tuple(repeats)
    )


def _pairs(changes: FloatArray) -> list[tuple[float, float] | None]:
    return [None if np.isnan(distance) else (distance, shift) for distance, shift in changes.tolist()]


def _changes(stored: Sequence[tuple[float, float] | None]) -> FloatArray:
    """Stored changes as an array of shape (probes, 2); NaN where one is None."""
    return np.array([(np.nan, np.nan) if change is None else change for change in stored])


def _drawn(probes: int, number: int, look: int) -> list[int]:
    """Which probes a look judges, drawn with replacement; the repeats of the first run have the looks 0, -1, ..."""
    chosen: list[int] = np.random.default_rng([look + REPEATS, probes]).integers(0, probes, size=number).tolist()
    return chosen


def _asked(path: Path, watch: DriftWatch, questions: Sequence[Question], chosen: Sequence[int]) -> list[Question]:
    by_key = {question.key: question for question in questions}
    missing = [probe for probe in watch.probes if probe.key not in by_key]
    if missing:
        raise UsageError(
            f"{path}: the pair of rungs {missing[0].level} and {missing[0].level + 1} of context "
            f"{missing[0].context_id!r} is no longer in the ladder set; name another file with --drift-file"
        )
    return [by_key[watch.probes[number].key] for number in chosen]


def _shares(asker: Asker, questions: Sequence[Question], least_mass: float) -> FloatArray:
    """Probabilities of win, loss and tie of the upper rung; NaN where the judge could not be read."""
    return outcome_probabilities(trusted(asker.judge(questions), least_mass))
