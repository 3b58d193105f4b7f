"""score: a table of outputs and a ladder set -> judgments (stored) -> rule -> score columns.

`run` scores a table. `prepare` is the part before a judge is opened, and `score_rows` the rest, which may also be a dry
run. A student scores a table too, in `students.first_pass`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.backends.metered import spent_before, spent_json
from refladder.errors import (
    AnswersAwaitedError,
    UnknownNameError,
    UsageError,
    did_you_mean,
    option,
    plural,
)
from refladder.events import Silent
from refladder.files.jsonl import is_device, is_unicode, throw_away, write_json
from refladder.files.ladder_sets import (
    LadderSet,
    choose_dimensions,
    criteria_set,
    load_ladders,
)
from refladder.files.locks import locked
from refladder.files.outputs import NEXT_STEP, check_own, holds_data, record_of, write_run
from refladder.files.tables import (
    STANDARD,
    Collected,
    Row,
    read_once,
)
from refladder.jobs.input_table import Checked, check_input, open_items
from refladder.loaders.input_rows import EMPTY, NO_ANSWER, Item, Mapped
from refladder.loaders.scored_tables import OVERALL
from refladder.loaders.task_files import read_task
from refladder.prompts import check_folder
from refladder.records import Output, names_of
from refladder.scoring.columns import Columns, columns_of, overall_column, weights_for
from refladder.scoring.judge_check import (
    missing_line,
    notice_of,
    prove,
    take_checks,
    unread_line,
)
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.modes import mode_of
from refladder.scoring.recorded import read_recorded, recorded_mode
from refladder.scoring.recorded_files import check_recorded_ladders, recorded_files
from refladder.scoring.rules import rule_named
from refladder.scoring.scorer import FIRST_BATCH, WINDOW, LadderScorer, batches
from refladder.settings import ScoreSpec, Scoring, chosen
from refladder.signatures import same_run, with_earlier_sets
from refladder.thoughts import ANSWER, after_thoughts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.backends.metered import SpentCosts
    from refladder.events import Events
    from refladder.files.outputs import RunConfig
    from refladder.options import NamedOptions
    from refladder.records import JudgeCheck, Progress
    from refladder.scoring.recorded import Recorded
    from refladder.scoring.score_report import ScoreReport
    from refladder.session import Session
    from refladder.settings import Given, Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run whose ladder set, recorded judgments and table are read and checked; no judge is open.

    `added` are the columns of the scores with their types, and `rows` is the number of rows, None if it is not
    known. `copies` is the number of rows that repeat an earlier one.
    """

    spec: ScoreSpec
    ladders: LadderSet
    mapped: Mapped
    added: Mapping[str, type]
    recorded: Recorded | None
    rows: int | None
    copies: int = 0


def spec_of(
    given: Given, named: NamedOptions, tables: Tables, config: RunConfig | None
) -> ScoreSpec:
    """Return the settings of a run; judgments are stored beside an output file, if no other file is named.

    `named` is what the user named, which recorded judgments may not go with.
    """
    recorded = recorded_files(given, named, tables.source)
    judgments, out = given["judgments"], tables.out
    if judgments is None and not recorded and not (out == STANDARD or isinstance(out, Collected)):
        judgments = None if is_device(Path(out)) else f"{out}.judgments.jsonl"
    changed = {
        "asked": chosen(Scoring, given),
        "tables": tables,
        "judgments_from": tuple(recorded),
        "judgments": judgments,
        "config": config,
    }
    return chosen(ScoreSpec, {**given, **changed})


def run(spec: ScoreSpec, session: Session, events: Events) -> ScoreReport:
    """Score a table: every row comes out again, in order, with the score columns at its end.

    Memory does not grow with the number of rows, except for the check that ids are unique. Judgments are stored batch
    by batch; an interrupted run continues from them and gives the same bytes.
    """
    return score_rows(prepare(spec, events), session, events)


def prepare(spec: ScoreSpec, events: Events, *, check_rows: bool = True) -> Prepared:
    """Open the ladder set and check the whole input, so that bad input is an error before any judge is asked.

    A table that can be read twice is therefore read once more than scoring needs. Without `check_rows`, the workers of
    many files check the rows.
    """
    if spec.judgments_from:
        mode = recorded_mode(spec.judgments_from[0])
        spec = replace(spec, asked=replace(spec.asked, answers=mode))
    ladders = open_set(spec.asked)
    if not spec.is_part:
        _explain_overall(spec.asked, ladders, events)
        if newer := ladders.replaced_by:
            events.notice(
                f"{ladders.name} is replaced by {newer}; its scores stay as they are", once=True
            )
    mapped = Mapped(
        columns=spec.columns,
        context=spec.context_id,
        alone=ladders.serves_any_context,
        text_of=spec.asked.text_of,
    )
    added = columns_of(spec.asked, ladders)
    recorded = None
    if spec.judgments_from:
        recorded = read_recorded(*dict.fromkeys(spec.judgments_from))
        check_recorded_ladders(recorded, ladders)
        events.notice(recorded.notice)
    checked = Checked()
    if check_rows:
        checked = check_input(
            spec.tables,
            mapped,
            added,
            events,
            ladders=None if spec.is_part else ladders,
            recorded=recorded,
            needs_ladders=mode_of(spec.asked.answers).needs_ladders,
        )
        # The judge check and the ratings of rungs come before the first row.
        ladders = replace(ladders, contexts={**ladders.contexts, **checked.contexts})
    return Prepared(
        spec=spec,
        ladders=ladders,
        mapped=mapped,
        added=added,
        recorded=recorded,
        rows=checked.rows,
        copies=checked.copies,
    )


def _explain_overall(asked: Scoring, ladders: LadderSet, events: Events) -> None:
    """Say which column is the weighted score, where a dimension has the name `overall`."""
    dimensions = choose_dimensions(ladders.dimensions, asked.dimensions)
    if len(dimensions) > 1 and (weighted := overall_column(dimensions)) != OVERALL[0]:
        events.notice(
            f"{OVERALL[0]} is the score on the dimension 'overall'; the weighted score is {weighted}",
            warns=True,
        )


def open_set(asked: Scoring) -> LadderSet:
    """Open the ladder set of the settings, and check the settings against it."""
    rule_named(asked.rule)
    mode = mode_of(asked.answers)
    mode.check_settings(asked)
    check_folder(asked.prompts)
    ladders = asked.ladders if isinstance(asked.ladders, LadderSet) else set_named(asked.ladders)
    if mode.needs_ladders and not ladders.ladders:
        raise UsageError(
            f"{asked.ladders} has criteria and no ladders, which {option('answers')} {mode.name} needs; build a set with "
            f"`refladder build`, or rate texts by themselves with {option('answers')} rating"
        )
    known = names_of(ladders.dimensions)
    for name in asked.dimensions:
        if ladders.anchors and name not in known:
            raise UsageError(
                f"{ladders.name} has no criterion {name!r}{did_you_mean(name, known, end='.')} It has: "
                f"{', '.join(known)}. `refladder build TABLE --task-file TASK.toml --shared 12` makes a set with "
                "criteria of yours"
            )
    if asked.anchors is not None:
        ladders = with_anchors(ladders, asked.anchors)
    weights_for(choose_dimensions(ladders.dimensions, asked.dimensions), asked.weights)
    mode.check_rungs(ladders.rungs)
    # Names that would share a column are an error before a judge is asked.
    columns_of(asked, ladders)
    return ladders


def set_named(name: str | Path) -> LadderSet:
    """Open a ladder set, see `load_ladders`, or the criteria of a task file."""
    if not str(name).endswith(".toml"):
        return load_ladders(name)
    task, dimensions = read_task(Path(name))
    return criteria_set(Path(name).name, task, dimensions)


def with_anchors(ladders: LadderSet, number: int) -> LadderSet:
    """Return a shared set that scores texts with its first anchors."""
    if not ladders.anchors:
        raise UsageError(
            f"{ladders.name}: {option('anchors')} is for shared sets, and each context has a ladder of its own here; "
            "leave it out"
        )
    if not 1 <= number <= len(ladders.anchors):
        raise UsageError(
            f"{option('anchors')} {number}: {ladders.name} has {plural(len(ladders.anchors), 'anchor')}; give 1 to "
            f"{len(ladders.anchors)}"
        )
    return replace(ladders, scoring=number)


def rehearse(prepared: Prepared, session: Session) -> int:
    """Request the same judgments from a backend that gives no answers; return how many exist already."""
    return score_rows(prepared, session, Silent()).reused


def score_rows(prepared: Prepared, session: Session, events: Events) -> ScoreReport:
    """Score the rows of a table that has been checked; a dry run asks for the same judgments and writes nothing."""
    spec, dry_run = prepared.spec, session.dry_run
    with (
        nullcontext() if dry_run else _locked_files(spec),
        nullcontext() if dry_run else _kept_costs(spec, session),
    ):
        writes = mode_of(spec.asked.answers).writes
        judge = prepared.recorded or session.open(spec.judge, spec.judge_options, writes=writes)
        before = _models_of(judge)
        scorer = LadderScorer(judge, prepared.ladders, spec.asked)
        columns = Columns(scorer.run, scorer.scale)
        scorer.report.scales = columns.scales()
        scorer.report.copies = prepared.copies
        if not dry_run and not spec.is_part:
            check_scored(spec, scorer.report.signature)
        checks: list[JudgeCheck] = []
        with (
            JudgmentLog(
                spec.judgments, scorer.run, read_only=dry_run, known=spec.rung_judgments
            ) as log,
            open_items(
                spec.tables,
                prepared.mapped,
                prepared.added,
                recorded=prepared.recorded,
                dry_run=dry_run,
            ) as (read, write),
            events.progress("scoring", session.under_way) as progress,
        ):
            # Rows against a shared set share no context with each other, but each its own with all rungs.
            together = None if prepared.ladders.anchors else _context_of
            # Rows of a stream are waited for.
            streams = not isinstance(spec.tables.source, Collected) and read_once(
                spec.tables.source
            )
            window = None if streams else max(WINDOW // scorer.prompts_of_a_row, FIRST_BATCH)
            for number, batch in enumerate(batches(read, judge, together, window=window)):
                if number == 0 and spec.is_part:
                    take_checks(scorer, spec.judge_check)
                elif number == 0:
                    folder = session.checks_of(spec.judge)
                    checks = check_judge(scorer, folder, session, events, progress)
                if number == 0 and progress is not None:
                    progress(0, prepared.rows, "", scorer.prompts_of_a_row)
                scorer.report.copies += sum(item.is_copy for item in batch)
                scored = columns.rows(scorer.score(batch, log))
                scorer.report.thoughts += sum(item.thought for item in batch)
                if write is not None:
                    for item, values in zip(batch, scored, strict=True):
                        write(item.row, values)
                if progress is not None:
                    progress(scorer.report.rows, prepared.rows)
            log.finish()
        _record_server(scorer.report, judge, before)
        if not dry_run:
            write_settings(spec, scorer.report, checks, session.total_spent())
    return scorer.report


@contextmanager
def _kept_costs(spec: ScoreSpec, session: Session) -> Iterator[None]:
    """Keep what an unfinished run asked beside its judgments; the run that continues it adds this to its own."""
    judgments = spec.judgments
    if judgments is None or spec.is_part:
        yield
        return
    kept = judgments.with_name(f"{judgments.name}.spent.json")
    if holds_data(judgments):
        session.earlier = spent_before(kept) or spent_before(Path(f"{spec.tables.out}.run.json"))
    try:
        yield
    except BaseException:
        if (spent := session.total_spent()) and judgments.parent.is_dir():
            write_json(kept, {"spent": spent_json(spent)})
        raise
    throw_away(kept)


def _models_of(judge: Backend) -> Counter[str]:
    """Return the number of answers so far by the model that the server named."""
    return Counter(judge.read_mode.models if judge.read_mode else {})


def _record_server(report: ScoreReport, judge: Backend, before: Counter[str]) -> None:
    """Take the models that a server named since it had the counts `before`, and the fields that it refuses."""
    report.models = dict(_models_of(judge) - before)
    report.left_out = judge.read_mode.left_out if judge.read_mode else []


@contextmanager
def _locked_files(spec: ScoreSpec) -> Iterator[None]:
    """Lock what a run writes, before a model is loaded or a server is asked."""
    with ExitStack() as locks:
        out = spec.tables.out
        if out != STANDARD and not isinstance(out, Collected):
            locks.enter_context(locked(Path(spec.tables.out)))
        if spec.judgments is not None:
            locks.enter_context(locked(spec.judgments))
        yield


def check_scored(spec: ScoreSpec, signature: str) -> None:
    """Check that the output is free, or holds scores that this run can make again without asking anything twice."""
    out, judgments = spec.tables.out, spec.judgments
    if isinstance(out, Collected) or out == STANDARD or not holds_data(out):
        return
    beside = judgments == Path(f"{out}.judgments.jsonl")
    if judgments is None or not (beside and holds_data(judgments)):
        check_own(out, "score")
        if judgments is not None and not holds_data(judgments):
            raise UsageError(
                f"{out}: holds scores, and their judgments are not in {judgments}; {NEXT_STEP}"
            )
        record = record_of(out)
        # Judgments of the same file have to be of this run, which their own check says better.
        same_file = judgments is not None and record.options.judgments == str(judgments)
        if not same_file and not same_run(record.signature, signature):
            raise UsageError(
                f"{out}: holds scores with the signature {with_earlier_sets(record.signature)}, and this run has "
                f"{signature}; {NEXT_STEP}"
            )


def _context_of(item: Item) -> str | None:
    return None if item.output is None else item.output.context_id


def check_judge(
    scorer: LadderScorer,
    folder: Path | None,
    session: Session,
    events: Events,
    progress: Progress | None = None,
) -> list[JudgeCheck]:
    """Check a judge before its first row, and report it; one that fails is an error, unless any judge may score.

    `folder` remembers the check, None for none. `progress` is that of the rows that follow.
    """
    if notice := notice_of(scorer):
        events.notice(notice)
    two = (
        "the judge check is asked first; when it is answered, the same command asks about the rows"
    )
    asks_apart = scorer.ladders.ladders and session.dry_run and scorer.judge.wants_all
    if asks_apart and missing_line(scorer, prove(scorer, folder, ask=False)):
        session.events.notice(two, once=True)
    try:
        checks = prove(scorer, folder, progress=progress)
    except AnswersAwaitedError:
        session.events.notice(two, once=True)
        raise
    read = any(check.read for check in checks)
    if scorer.judge.wants_all and not read and (unread := unread_line(checks)):
        raise AnswersAwaitedError(unread)
    events.checked(checks)
    return checks


def report_check(scorer: LadderScorer, folder: Path | None, events: Events) -> None:
    """Report what is remembered of the check of a judge that scores texts without a table, which asks nothing."""
    if notice := notice_of(scorer):
        events.notice(notice)
    checks = prove(scorer, folder, ask=False)
    events.checked(checks)
    if missing := missing_line(scorer, checks):
        events.notice(missing)


def write_settings(
    spec: ScoreSpec,
    report: ScoreReport,
    checks: Sequence[JudgeCheck] | None = None,
    spent: Sequence[SpentCosts] = (),
) -> None:
    """Write the configuration of a run beside its output, with the signature of the scores."""
    out = spec.tables.out
    if spec.config is None or out == STANDARD:
        return
    found: dict[str, object] = {
        "signature": report.signature,
        "scales": report.scales,
        "judge_check": list(map(asdict, checks or ())) or None,
        "above_top": report.above_top,
        "below_bottom": report.below_bottom,
    }
    if report.rung_ratings:
        found["rung_ratings"] = list(map(asdict, report.rung_ratings))
    if report.grade_error:
        found["grade_error"] = report.grade_error
    if report.models:
        found["models"] = report.models
    if report.left_out:
        found["left_out"] = report.left_out
    if spent:
        found["spent"] = spent_json(spent)
    write_run(out, {**asdict(spec.config), **found})


def text_items(spec: ScoreSpec, texts: Sequence[str]) -> tuple[LadderSet, list[Item]]:
    """Return the ladder set, and texts of one context as items to score, checked before a judge is opened."""
    ladders, context_id = open_set(spec.asked), spec.context_id
    context_ids = ladders.context_ids
    if ladders.serves_any_context:
        context_id = context_id or ""
    elif context_id is None:
        raise UsageError(
            f"--text needs --context-id, one of: {', '.join(sorted(context_ids)[:20])}"
        )
    elif context_id not in context_ids:
        raise UnknownNameError("context", context_id, context_ids)
    for text in texts:
        if not is_unicode(text):
            raise UsageError(f"--text {text!r:.60}: not UTF-8; convert it")
    items = []
    for number, text in enumerate(texts, start=1):
        said = after_thoughts(text) if spec.asked.text_of == ANSWER else text
        output = Output(id=f"text {number}", context_id=context_id, system="", text=said)
        why = NO_ANSWER if text.strip() else EMPTY
        is_cut = said is not text
        items.append(Item(Row("", {}), output if said.strip() else None, why, thought=is_cut))
    return ladders, items


def score_texts(
    spec: ScoreSpec, ladders: LadderSet, items: Sequence[Item], session: Session, events: Events
) -> tuple[LadderScorer, list[dict[str, float | str | None]]]:
    """Score texts and store nothing; return the scorer, which has the counts, and the columns of each text."""
    _explain_overall(spec.asked, ladders, events)
    writes = mode_of(spec.asked.answers).writes
    judge = session.open(spec.judge, spec.judge_options, writes=writes)
    scorer = LadderScorer(judge, ladders, spec.asked)
    report_check(scorer, session.checks_of(spec.judge), events)
    with JudgmentLog(None, scorer.run) as log:
        scores = scorer.score(items, log)
    scorer.report.thoughts += sum(item.thought for item in items)
    return scorer, Columns(scorer.run, scorer.scale).rows(scores)
