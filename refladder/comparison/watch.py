"""watch: a shared set, a judge and a file of earlier readings -> whether the judge has changed."""

from __future__ import annotations

import os
from collections.abc import Mapping  # noqa: TC003  a field of the settings
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.comparison.baseline import Baseline, TextRating, Watched, WatchReading
from refladder.comparison.changed_judge import LEAST, Reading, change_of
from refladder.comparison.watch_results import WatchReport
from refladder.errors import (
    AnswersAwaitedError,
    BackendError,
    DataError,
    UsageError,
    option,
    plural,
)
from refladder.files.jsonl import read_record, throw_away, write_json, write_record
from refladder.files.ladder_sets import LadderSet, choose_dimensions
from refladder.files.locks import locked
from refladder.files.tables import read_rows
from refladder.jobs.score import open_set, with_anchors
from refladder.loaders.input_rows import Item, Mapped, items
from refladder.prompts import load_template
from refladder.records import Dimension, digest_of, names_of
from refladder.scoring.asker import worded
from refladder.scoring.columns import criterion_digest
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.modes import mode_of
from refladder.scoring.scorer import LadderScorer
from refladder.settings import Scoring, chosen
from refladder.signatures import with_earlier_sets
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.events import Events
    from refladder.session import Session
    from refladder.settings import Given

_FILE = "file:"
# Says that the answers in a folder were used, and that the next reading needs others.
_FINISHED = "finished.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSpec:
    """What is asked of whom: `wanted` is that in the words of a baseline, and `before` is the one there is, if any."""

    asked: Scoring
    ladders: LadderSet
    dimensions: tuple[Dimension, ...]
    texts: tuple[Item, ...]
    judge: str | Backend | Judge
    judge_options: Mapping[str, object]
    baseline: Path
    wanted: Watched
    before: Baseline | None
    update: bool
    at_most: float


def spec_of(given: Given) -> WatchSpec:
    """Read and check all that is given, before a judge is opened."""
    path, new, update = Path(given["baseline"]), bool(given["new"]), bool(given["update"])
    before = _before(path, new=new, update=update)
    if not 0 <= given["at_most"] <= 1:
        raise UsageError(
            f"{option('at-most')} {given['at_most']:g}: a share of decisions from 0 to 1 is needed"
        )
    names = tuple(given["dimensions"] or ()) or tuple(before.criteria if before else ())
    asked = chosen(Scoring, {**given, "dimensions": (), "anchors": None})
    mode = mode_of(asked.answers)
    if not mode.rates_rungs:
        raise UsageError(
            f"{option('answers')} {mode.name} rates no rungs alone; use rating, rating:stated or rating:together"
        )
    ladders = open_set(asked)
    if not ladders.anchors:
        raise UsageError(
            f"{ladders.name}: the rungs of a shared set are watched, and each context has a ladder of its own here; see "
            "`refladder list ladders`"
        )
    if before is not None and before.ladders != ladders.digest:
        # The criteria and anchors of another set would be unknown names.
        raise _another(path, "ladders", with_earlier_sets(before.ladders), ladders.digest)
    number = given["anchors"] or len(before.anchors if before else ladders.anchors)
    ladders = with_anchors(ladders, number)
    dimensions = tuple(choose_dimensions(ladders.dimensions, names))
    if before is not None:
        # The same criteria in another order are the same.
        dimensions = tuple(
            sorted(dimensions, key=lambda each: [*before.criteria, each.name].index(each.name))
        )
    template = load_template(ladders.task, mode.role(ladders), asked.prompts)
    wanted = Watched(
        ladders=ladders.digest,
        anchors=ladders.scoring_anchors,
        criteria={each.name: criterion_digest(each) for each in dimensions},
        answers=mode.name,
        prompts=(worded(mode, template).signature,),
    )
    texts = _texts(given["texts"], ladders, given["columns"] or {})
    if before is not None:
        _check_same(path, before, wanted, texts)
        whole = before.anchors == wanted.anchors and bool(texts) == bool(before.readings[0].texts)
        if update and not whole:
            raise UsageError(
                f"{option('update')} adds a reading of all that {path} holds; leave out {option('anchors')}, and give its "
                f"{option('texts')}"
            )
    return WatchSpec(
        asked=replace(asked, dimensions=tuple(names_of(dimensions))),
        ladders=ladders,
        dimensions=dimensions,
        texts=texts,
        judge=given["judge"],
        judge_options=dict(given["judge_options"] or {}),
        baseline=path,
        wanted=wanted,
        before=before,
        update=update,
        at_most=given["at_most"],
    )


def _before(path: Path, *, new: bool, update: bool) -> Baseline | None:
    """Read the baseline; refuse a missing one unless it is `new`, and one that would be replaced."""
    if new and update:
        raise UsageError(f"{option('new')} and {option('update')}: give one of them")
    if new:
        if path.exists():
            raise UsageError(f"{path}: exists; leave out {option('new')}, or name another file")
        return None
    if not path.exists():
        raise UsageError(
            f"{path}: no such file, so nothing says how the judge was; make it once with {option('new')}"
        )
    return read_record(Baseline, path)


def _another(path: Path, what: str, before: object, now: object) -> DataError:
    return DataError(
        f"{path}: the baseline has other {what}: {before}, and this run {now}; give what it was made with, or make another "
        f"one with {option('new')}"
    )


def _check_same(path: Path, before: Baseline, wanted: Watched, texts: Sequence[Item]) -> None:
    """Refuse another set, mode, prompt or other texts than those of the baseline; fewer anchors may be compared."""
    if len(wanted.anchors) > len(before.anchors):
        count = plural(len(before.anchors), "anchor")
        raise _another(path, "anchors", count, f"{len(wanted.anchors)}")
    if before.anchors[: len(wanted.anchors)] != wanted.anchors:
        raise _another(path, "anchors", ", ".join(before.anchors), ", ".join(wanted.anchors))
    if before.criteria != wanted.criteria:
        told = [
            ", ".join(f"{name}@{digest}" for name, digest in each.criteria.items())
            for each in (before, wanted)
        ]
        raise _another(path, "criteria", *told)
    if before.answers != wanted.answers:
        raise _another(path, "answers", before.answers, wanted.answers)
    if before.prompts != wanted.prompts:
        raise _another(path, "prompts", ", ".join(before.prompts), ", ".join(wanted.prompts))
    kept = dict.fromkeys(each.text for each in before.readings[0].texts)
    if texts and list(kept) != [_digest(item) for item in texts]:
        raise _another(path, "texts", f"{plural(len(kept), 'text')}", f"{len(texts)}, or others")


def _texts(table: str | None, ladders: LadderSet, columns: Mapping[str, str]) -> tuple[Item, ...]:
    """Read the frozen texts, each with an output."""
    if table is None:
        return ()
    mapped = Mapped(columns=columns, alone=ladders.serves_any_context)
    texts: dict[str, Item] = {}
    for item in items(read_rows(table), mapped, check_ids=True):
        if item.output is None:
            raise DataError(
                f"{item.row.where}: {item.note}, and a frozen text is needed; leave the row out"
            )
        texts.setdefault(_digest(item), item)
    if not texts:
        raise DataError(f"{table}: no rows, so no texts to watch")
    return tuple(texts.values())


def _digest(item: Item) -> str:
    """Return a digest of a text with its context."""
    context, output = item.context, item.output
    shown = ("", "") if context is None else (context.text, context.background)
    return digest_of(*shown, "" if output is None else output.text)


def rehearse(spec: WatchSpec, session: Session) -> int:
    """Ask the same of a backend that gives no answers; return how many judgments exist already."""
    numbers = _numbers(spec)
    reused = 0
    for number in numbers:
        judge = session.open(spec.judge, _options(spec, number))
        scorer = LadderScorer(judge, spec.ladders, spec.asked)
        with JudgmentLog(
            _journal(spec, first=number == numbers[0]), scorer.run, read_only=True
        ) as log:
            scorer.judged(spec.texts, log)
        reused += scorer.report.reused
    return reused


def watch(spec: WatchSpec, session: Session, events: Events) -> WatchReport:
    """Read the rungs: twice for a new baseline, which is written, else once, and compare."""
    _check_judge(spec)
    if len(spec.wanted.anchors) < LEAST:
        events.notice(
            f"{plural(len(spec.wanted.anchors), 'anchor')}: at least {LEAST} are needed for another verdict than unknown",
            warns=True,
        )
    numbers = _numbers(spec)
    with ExitStack() as stack:
        stack.enter_context(locked(spec.baseline))
        progress = stack.enter_context(events.progress("reading rungs", session.under_way))
        readings: list[WatchReading] = []
        awaited: list[str] = []
        for place, number in enumerate(numbers):
            if progress is not None:
                progress(place, len(numbers))
            try:
                readings.append(_read(spec, session, number, first=place == 0))
            except AnswersAwaitedError as error:
                # The requests of all readings can be answered together.
                awaited.append(str(error))
        if awaited:
            raise AnswersAwaitedError("; ".join(awaited))
        report = _report(spec, readings)
        _keep(spec, readings, events)
        for number in numbers:
            if (folder := _folder(spec, number)) is not None:
                write_json(folder / _FINISHED, {"reading": number})
        for first in (True, False):
            throw_away(_journal(spec, first=first))
    return report


def _report(spec: WatchSpec, readings: Sequence[WatchReading]) -> WatchReport:
    """Compare a reading with the baseline; a new baseline has nothing to compare."""
    changes = []
    if spec.before is not None:
        count = len(spec.wanted.anchors)
        of_file = spec.before.readings[:2]
        with_texts = bool(spec.texts)
        for dimension in spec.wanted.criteria:
            before, again, now = (
                _arrays(each, dimension, count, with_texts=with_texts)
                for each in (*of_file, readings[0])
            )
            contexts = [
                each.context
                for each in of_file[0].texts
                if with_texts and each.dimension == dimension
            ]
            changes.append(change_of(dimension, before, again, now, contexts, at_most=spec.at_most))
    return WatchReport(
        baseline=str(spec.baseline),
        new=spec.before is None,
        reading=readings[-1].number,
        judge=readings[-1].judge,
        judge_before=(spec.before.readings[0] if spec.before else readings[0]).judge,
        at_most=spec.at_most,
        criteria=tuple(changes),
    )


def _arrays(reading: WatchReading, dimension: str, anchors: int, *, with_texts: bool) -> Reading:
    of_rungs = [each.rating for each in reading.rungs if each.dimension == dimension]
    of_texts = [each.rating for each in reading.texts if with_texts and each.dimension == dimension]
    levels = max(each.level for each in reading.rungs)
    rungs = np.array(of_rungs, dtype=np.float64).reshape(-1, levels)
    return Reading(rungs[:anchors], np.array(of_texts, dtype=np.float64))


def _keep(spec: WatchSpec, readings: Sequence[WatchReading], events: Events) -> None:
    """Write a new baseline, or add the reading to one that takes it; a reading that lacks a rating is in none."""
    before, unparsed = spec.before, sum(each.unparsed for each in readings)
    if before is None:
        if unparsed:
            raise BackendError(
                f"{plural(unparsed, 'rating')} could not be read, so {spec.baseline} is not written; run the same command "
                "again, which asks for these anew"
            )
        wanted = {each.name: getattr(spec.wanted, each.name) for each in fields(Watched)}
        made = Baseline(**wanted, version=__version__, readings=tuple(readings))
        write_record(spec.baseline, made)
    elif spec.update and unparsed:
        events.notice(
            f"the reading lacks {plural(unparsed, 'rating')} and is not added", warns=True
        )
    elif spec.update:
        write_record(spec.baseline, replace(before, readings=(*before.readings, *readings)))


def _read(spec: WatchSpec, session: Session, number: int, *, first: bool) -> WatchReading:
    """Ask the judge for the rungs and texts, except for what an interrupted run has stored."""
    judge = session.open(spec.judge, _options(spec, number))
    scorer = LadderScorer(judge, spec.ladders, spec.asked)
    with JudgmentLog(_journal(spec, first=first), scorer.run) as log:
        judged = scorer.judged(spec.texts, log)
        scores = scorer.scores(judged)
        log.finish()
    texts = []
    for place, dimension in enumerate(spec.dimensions):
        for item, of_row in zip(spec.texts, scores, strict=True):
            context = item.output.context_id if item.output else ""
            rating = TextRating(
                dimension=dimension.name,
                text=_digest(item),
                context=context or _digest(item),
                rating=of_row[place].value,
            )
            texts.append(rating)
    return WatchReading(
        number=number,
        judge=judge.fingerprint,
        rungs=tuple(scorer.report.rung_ratings),
        texts=tuple(texts),
    )


def _journal(spec: WatchSpec, *, first: bool) -> Path:
    """Return the file that stores the judgments of a reading until it is whole; a new baseline has two readings."""
    name = spec.baseline.name if first else f"{spec.baseline.name}.again"
    return spec.baseline.with_name(f"{name}.judgments.jsonl")


def _numbers(spec: WatchSpec) -> list[int]:
    """Return the numbers of the readings of this run: those whose answers were not used yet."""
    number = (
        max((each.number for each in spec.before.readings), default=0) + 1 if spec.before else 1
    )
    while (folder := _folder(spec, number)) is not None and (folder / _FINISHED).exists():
        number += 1
    return [number, number + 1] if spec.before is None else [number]


def _answers_at(spec: WatchSpec) -> str | None:
    """Return `file:FOLDER` where the judge answers through files; None for others."""
    named = isinstance(spec.judge, str) and spec.judge.startswith("openai:")
    url = str(spec.judge_options.get("base_url") or os.environ.get("OPENAI_BASE_URL") or "")
    return url if named and url.startswith(_FILE) else None


def _folder(spec: WatchSpec, number: int) -> Path | None:
    url = _answers_at(spec)
    return None if url is None else Path(url.removeprefix(_FILE)).expanduser() / f"reading-{number}"


def _options(spec: WatchSpec, number: int) -> dict[str, object]:
    """Return the options of the judge: each reading has a folder of answers of its own, where these are in files."""
    folder = _folder(spec, number)
    return dict(spec.judge_options) | ({} if folder is None else {"base_url": f"{_FILE}{folder}"})


def _check_judge(spec: WatchSpec) -> None:
    if not isinstance(spec.judge, str) and getattr(spec.judge, "wants_all", False):
        raise UsageError(
            "each reading needs a folder of answers of its own; name the judge (openai:MODEL) and give base_url among the "
            "options of the judge"
        )
