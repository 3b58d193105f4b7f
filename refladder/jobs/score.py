"""score: a table of outputs and a ladder set -> judgments (stored) -> rule -> score columns.

`run` scores a table. `prepare` is the part before a judge is opened, and `score_rows` the rest, which may also be a dry
run. A student scores a table too, in `students.first_pass`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import (
    DataError,
    UnknownNameError,
    UsageError,
    column_option,
    did_you_mean,
    option,
    plural,
    similar,
)
from refladder.files.jsonl import is_device, is_unicode, write_json
from refladder.files.ladder_sets import LadderSet, choose_dimensions, load_ladders
from refladder.files.locks import locked
from refladder.files.tables import (
    STANDARD,
    Collected,
    Row,
    cell_of,
    read_once,
    read_rows,
)
from refladder.jobs.recorded_judgments import check_recorded_ladders
from refladder.jobs.scored_tables import table_sink
from refladder.loaders.draft import output_text_id
from refladder.loaders.fields import row_id
from refladder.loaders.user_table import context_text
from refladder.prompts import check_folder
from refladder.records import Context, Output, is_shared, text_id
from refladder.scoring.columns import Columns, weights_for
from refladder.scoring.judge_check import missing_line, prove
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.question import RUNG
from refladder.scoring.recorded import read_recorded
from refladder.scoring.rules import rule_named
from refladder.scoring.scorer import Item, LadderScorer, batches
from refladder.scoring.stated import check_orders

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from refladder.events import Events
    from refladder.files.tables import Write
    from refladder.records import JudgeCheck, Progress, Score
    from refladder.scoring.columns import ScoreReport
    from refladder.scoring.recorded import Recorded
    from refladder.session import Session
    from refladder.settings import ScoreSpec, Scoring, Tables

EMPTY = "the output is empty"
FIELDS = (
    "context_id",
    "context",
    "background",
    "output",
    "output_id",
)  # the default names of their columns
SYSTEM = "system"  # a field that changes no score, for `compare` and `review`
_SHOWN = 3  # context ids in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The columns of a table, by field; `context` is the context id of every row of a table without such a column.

    With `alone`, a row needs no context, and the id of none is empty; so does a row whose signature is of a shared set.
    """

    columns: Mapping[str, str]
    context: str | None = None
    alone: bool = False

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in {*FIELDS, SYSTEM}:
                fields = [*FIELDS, SYSTEM]
                column = self.columns[name]
                turned = column_option(column, name) if column in fields else None
                raise UnknownNameError("field", name, fields, turned)
        if self.context is not None and "context_id" in self.columns:
            both = f"{option('context-id')} and {column_option('context_id', '...')}"
            raise UsageError(f"{both} both say the context; give one of them")

    def context_of(self, row: Row, text: str | None, background: str) -> str | None:
        """The context id of a row: the id given for all rows, else its cell, else made from the context's text."""
        if self.context is None:
            context_id = text if text is None else text_id(text, background)
            if self._is_identified(row):
                context_id = self.id_in(row, "context_id")
            return "" if context_id is None and self._stands_alone(row) else context_id
        if "context_id" in row.fields:
            raise DataError(
                f"{row.where}: the row has a column 'context_id', and {option('context-id')} says the context too; "
                f"leave out {option('context-id')}, or rename the column"
            )
        return self.context

    def context_text(self, row: Row) -> tuple[str | None, str]:
        """Text and background of a row's context; None and "" where the row has no text of it."""
        identified = self._is_identified(row)
        column = self.columns.get("context", "context")
        if not identified and column not in row.fields and "context" not in self.columns:
            if self._stands_alone(row):
                return None, ""
            raise DataError(
                f"{row.where}: no column 'context_id', nor 'context', whose text gives the id; Columns there: "
                f"{', '.join(map(str, row.fields)) or 'none'}. Map one with "
                f"{column_option('context_id', 'NAME')} or {column_option('context', 'NAME')}"
            )
        value = self.cell(row, "context", needed=False)
        if value is None or (identified and not isinstance(value, str)):
            return None, ""
        if (
            self._stands_alone(row) and not str(value).strip()
        ):  # CSV cannot tell an empty text from none
            return None, ""
        background = self.columns.get("background", "background")
        return context_text(row, {"context": column, "background": background})

    def output_text(self, row: Row) -> str | None:
        """The text to score; None where there is none."""
        text = self.cell(row, "output")
        if text is not None and not isinstance(text, str):
            column = self.columns.get("output", "output")
            raise DataError(f"{row.where}: column {column!r} must be a string, found {text!r:.60}")
        if SYSTEM in self.columns:
            self.cell(row, SYSTEM)
        return text

    def id_in(self, row: Row, what: str, *, needed: bool = True) -> str | None:
        """The id in the cell of a field, see `row_id`; None where it has none."""
        return row_id(row.where, self.columns.get(what, what), self.cell(row, what, needed=needed))

    def _stands_alone(self, row: Row) -> bool:
        return self.alone or is_shared(row.fields.get("signature"))

    def _is_identified(self, row: Row) -> bool:
        return (
            self.context is not None or "context_id" in self.columns or "context_id" in row.fields
        )

    def cell(self, row: Row, what: str, *, needed: bool = True) -> Any:
        """The cell of the field `what`; a missing column is a DataError if it is needed or was named by the user."""
        column = self.columns.get(what, what)
        value = cell_of(row.fields, column, row)
        if value is not row:
            return value
        if not needed and what not in self.columns:
            return None
        free = [name for name in row.fields if name not in {*FIELDS, *self.columns.values()}]
        near = similar(column, free)
        hint = f"did you mean {column_option(what, near)}? " if near else ""
        raise DataError(
            f"{row.where}: no column {column!r} for the {what.replace('_', ' ')}; {hint}"
            f"Columns there: {', '.join(map(str, row.fields)) or 'none'}. Map one with "
            f"{column_option(what, 'NAME')}"
        )


def items(rows: Iterable[Row], mapped: Mapped, *, check_ids: bool) -> Iterator[Item]:
    """Each row with its output, in order; `check_ids` takes about 170 bytes a row.

    A row without an id gets one from its context and text, so equal texts of one context share an id and a score.
    """
    seen: dict[bytes, str] = {}
    for row in rows:
        text = mapped.output_text(row)
        context, background = mapped.context_text(row)
        context_id = mapped.context_of(row, context, background)
        given = mapped.id_in(row, "output_id", needed=False)
        if text is None or context_id is None:
            what = (
                "output"
                if text is None
                else "context id"
                if "context_id" in row.fields
                else "context"
            )
            yield Item(row, None, f"the {what} is null")
            continue
        if not text.strip():  # CSV cannot tell an empty text from none
            yield Item(row, None, EMPTY)
            continue
        if context is not None and not context.strip():
            yield Item(row, None, "the context is empty")
            continue
        if given is None:
            name = output_text_id(context_id, text)
        else:
            name = given
            if check_ids:
                number = row.where.rpartition(":")[2]
                digest = hashlib.blake2b(
                    name.encode("utf-8", "surrogatepass"), digest_size=8
                ).digest()
                if (other := seen.setdefault(digest, number)) != number:
                    raise DataError(
                        f"{row.where}: output id {name!r} appears in row {other} also; ids must be unique"
                    )
        if name.startswith(RUNG):
            raise DataError(
                f"{row.where}: output id {name!r} starts with {RUNG!r}, which means a rung; rename it"
            )
        output = Output(id=name, context_id=context_id, system="", text=text)
        about = None
        if context is not None:
            about = Context(id=context_id, task="", text=context, background=background)
        yield Item(row, output, None, about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run whose ladder set, recorded judgments and table are read and checked; no judge is open.

    `rows` is the number of rows, None if it is not known.
    """

    spec: ScoreSpec
    ladders: LadderSet
    mapped: Mapped
    recorded: Recorded | None
    rows: int | None


def run(spec: ScoreSpec, session: Session, events: Events) -> ScoreReport:
    """Score a table: every row comes out again, in order, with the score columns at its end.

    Memory does not grow with the number of rows, except for the check that ids are unique. Judgments are stored batch
    by batch; an interrupted run continues from them and gives the same bytes.
    """
    return score_rows(prepare(spec, events), session, events)


def prepare(spec: ScoreSpec, events: Events) -> Prepared:
    """Open the ladder set and check the whole input, so that bad input is an error before any judge is asked.

    A table that can be read twice is therefore read once more than scoring needs.
    """
    opened = open_run(spec, events)
    ladders = None if spec.is_part else opened.ladders
    rows = check_input(spec.tables, opened.mapped, ladders, opened.recorded, events)
    return replace(opened, rows=rows)


def open_run(spec: ScoreSpec, events: Events) -> Prepared:
    """Open the ladder set and recorded judgments; the rows of the table are not checked."""
    ladders = open_set(spec.asked)
    mapped = Mapped(columns=spec.columns, context=spec.context_id, alone=bool(ladders.anchors))
    recorded = None
    if spec.judgments_from:
        recorded = read_recorded(*dict.fromkeys(spec.judgments_from))
        check_recorded_ladders(recorded, ladders)
        events.notice(recorded.notice)
    return Prepared(spec=spec, ladders=ladders, mapped=mapped, recorded=recorded, rows=None)


def open_set(asked: Scoring) -> LadderSet:
    """Open the ladder set of the settings, and check the settings against it."""
    rule_named(asked.rule)
    if asked.prompts is not None:
        check_folder(asked.prompts)
    ladders = asked.ladders if isinstance(asked.ladders, LadderSet) else load_ladders(asked.ladders)
    known = [dimension.name for dimension in ladders.dimensions]
    for name in asked.dimensions:
        if ladders.anchors and name not in known:
            raise UsageError(
                f"{ladders.name} has no criterion {name!r}{did_you_mean(name, known, end='.')} It has: "
                f"{', '.join(known)}. `refladder build TABLE --task-file TASK.toml --shared 12` makes a set with "
                "criteria of yours"
            )
    weights_for(choose_dimensions(ladders.dimensions, asked.dimensions), asked.weights)
    if asked.stated:
        check_orders(asked.stated, ladders.rungs)
    return ladders


def check_input(
    tables: Tables,
    mapped: Mapped,
    ladders: LadderSet | None,
    recorded: Recorded | None,
    events: Events,
) -> int | None:
    """Validate a table before any model is called; its number of rows, None if it can be read only once."""
    source = tables.source
    if read_once(source):
        return None
    known = (
        None
        if ladders is None or ladders.anchors
        else {context_id for context_id, _ in ladders.ladders}
    )
    count, judged, alone, without = 0, 0, 0, Counter[str]()
    with closing(read_rows(source, tables.given)) as rows:
        read = items(rows, mapped, check_ids=True)
        if recorded is not None:
            read = with_every_judged(recorded, source, read, mapped)
        for item in read:
            count += 1
            if item.output is not None:
                judged += 1
                alone += not item.output.context_id
                if known is not None and item.output.context_id not in known:
                    without[item.output.context_id] += 1
    if ladders is not None and known and without:
        none = _no_ladder(without, ladders, known)
        if without.total() == judged:
            raise UsageError(
                f"{source}: no row has a ladder; {none}; name the right {option('ladders')}"
            )
        events.notice(
            f"no ladder for {without.total():,} of {plural(count, 'row')}: {none}", warns=True
        )
    if 0 < alone < judged:
        events.notice(
            f"no context in {alone:,} of {plural(count, 'row')}: these are judged by their text alone",
            warns=True,
        )
    return count


def check_ladders(
    source: str, files: Iterable[str], given: str | None, mapped: Mapped, ladders: LadderSet
) -> None:
    """Check that a row of some file has a ladder; the rows are read up to the first one that has."""
    known = {context_id for context_id, _ in ladders.ladders}
    without: dict[str, None] = {}
    for file in files:
        with closing(read_rows(file, given)) as rows:
            for item in items(rows, mapped, check_ids=False):
                if item.output is not None:
                    if item.output.context_id in known:
                        return
                    if len(without) <= _SHOWN:
                        without[item.output.context_id] = None
    if without:
        none = _no_ladder(without, ladders, known)
        raise UsageError(
            f"{source}: no row has a ladder; {none}; name the right {option('ladders')}"
        )


def _no_ladder(without: Collection[str], ladders: LadderSet, known: Collection[str]) -> str:
    there = f"{ladders.name}, which has {_first(sorted(known))}"
    return f"there is none for context {_first(without)} in {there}"


def _first(names: Collection[str]) -> str:
    shown = ", ".join(f"{name!r:.60}" for name in itertools.islice(names, _SHOWN))
    return f"{shown}, ..." if len(names) > _SHOWN else shown


def score_rows(prepared: Prepared, session: Session, events: Events) -> ScoreReport:
    """Score the rows of a table that has been checked; a dry run asks for the same judgments and writes nothing."""
    spec, dry_run = prepared.spec, session.dry_run
    with nullcontext() if dry_run else _locked_files(spec):
        judge = prepared.recorded or session.open(spec.judge, spec.judge_options)
        scorer = LadderScorer(judge, prepared.ladders, spec.asked)
        columns = Columns(scorer.run, scorer.scale)
        checks: list[JudgeCheck] = []
        with (
            JudgmentLog(spec.judgments, scorer.run, read_only=dry_run) as log,
            open_table(
                spec.tables,
                prepared.mapped,
                columns.added,
                recorded=prepared.recorded,
                dry_run=dry_run,
            ) as (read, write),
            events.progress("scoring", session.under_way) as progress,
        ):
            # Rows against a shared set share no context with each other, but each its own with all rungs.
            together = None if prepared.ladders.anchors else _context_of
            for number, batch in enumerate(batches(read, judge, together)):
                if number == 0 and not spec.is_part:
                    folder = session.checks_of(spec.judge)
                    checks = check_judge(
                        scorer, folder, session, events, progress, any_judge=spec.asked.any_judge
                    )
                if number == 0 and progress is not None:
                    progress(0, prepared.rows, "", scorer.prompts_of_a_row)
                scored = columns.rows(scorer.score(batch, log))
                if write is not None:
                    for item, values in zip(batch, scored, strict=True):
                        write(item.row, values)
                if progress is not None:
                    progress(scorer.report.rows, prepared.rows)
            log.finish()
        if not dry_run:
            write_settings(spec, scorer.report, checks)
    return scorer.report


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


def _context_of(item: Item) -> str | None:
    return None if item.output is None else item.output.context_id


def check_judge(
    scorer: LadderScorer,
    folder: Path | None,
    session: Session,
    events: Events,
    progress: Progress | None = None,
    *,
    any_judge: bool,
) -> list[JudgeCheck]:
    """Check a judge before its first row, and report it; one that fails is an error, unless any judge may score.

    `folder` remembers the check, None for none. `progress` is that of the rows that follow.
    """
    if scorer.judge.wants_all:
        known = prove(scorer, folder, any_judge=True, ask=False)
        if missing_line(scorer, known):
            session.notify(
                "the judge check is an exchange of files of its own, and the rows are the next: a first run takes two"
            )
    checks = prove(scorer, folder, any_judge=any_judge, progress=progress)
    events.checked(checks)
    return checks


def report_check(
    scorer: LadderScorer, folder: Path | None, events: Events, *, any_judge: bool
) -> None:
    """Report what is remembered of the check of a judge that scores texts without a table, which asks nothing."""
    checks = prove(scorer, folder, any_judge=any_judge, ask=False)
    events.checked(checks)
    if missing := missing_line(scorer, checks):
        events.notice(missing)


@contextmanager
def open_table(
    tables: Tables,
    mapped: Mapped,
    added: Mapping[str, type],
    *,
    recorded: Recorded | None = None,
    dry_run: bool = False,
) -> Iterator[tuple[Iterator[Item], Write | None]]:
    """Open a table that `check_input` has validated: its items, and what writes a row with the columns `added`."""
    source = tables.source
    with closing(read_rows(source, tables.given)) as rows:
        columns = rows.columns() or []
        if clash := sorted(set(columns) & set(added)):
            raise UsageError(
                f"{source}: column {clash[0]!r} exists already; rename or drop it first"
            )
        read = items(rows, mapped, check_ids=read_once(source))
        if recorded is not None and read_once(source):
            name = "<stdin>" if source == STANDARD else source
            read = with_every_judged(recorded, name, read, mapped)
        if dry_run:
            yield read, None
            return
        with table_sink(tables, added, columns) as write:
            yield read, write


def write_settings(
    spec: ScoreSpec, report: ScoreReport, checks: Sequence[JudgeCheck] | None = None
) -> None:
    """Write the configuration of a run beside its output, with the signature of the scores."""
    out = spec.tables.out
    if spec.config is None or out == STANDARD or is_device(Path(out)):
        return
    found = {
        "signature": report.signature,
        "judge_check": [asdict(check) for check in checks or ()] or None,
        "above_top": report.above_top,
        "below_bottom": report.below_bottom,
    }
    write_json(Path(f"{out}.run.json"), {**spec.config, **found})


def with_every_judged(
    recorded: Recorded, source: str, rows: Iterable[Item], mapped: Mapped
) -> Iterator[Item]:
    """The rows of a table, and after the last one a check that each judged output was among them."""
    missing = recorded.outputs()
    empty: set[str | None] = set()
    for item in rows:
        if item.output is not None:
            missing.pop((item.output.context_id, item.output.id), None)
        else:  # a row without a text has an id all the same
            empty.add(mapped.id_in(item.row, "output_id", needed=False))
        yield item
    for (context_id, name), where in missing.items():
        if name not in empty:
            what = f"output of context {context_id!r} with the id"
            raise DataError(
                f"{where}: {source} has no {what} {name!r}; ids are in its column output_id"
            )


def text_outputs(
    ladders: LadderSet, texts: Sequence[str], context_id: str | None
) -> list[Output | None]:
    """Texts of one context as outputs; None for an empty text."""
    context_ids = {context for context, _ in ladders.ladders}
    if ladders.anchors:
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
    return [
        Output(id=f"text {number}", context_id=context_id, system="", text=text)
        if text.strip()
        else None
        for number, text in enumerate(texts, start=1)
    ]


def score_texts(scorer: LadderScorer, outputs: Sequence[Output | None]) -> list[tuple[Score, ...]]:
    """Score what `text_outputs` gives, and store nothing: the scores of each text, one for each dimension."""
    with JudgmentLog(None, scorer.run) as log:
        return scorer.score([Item(Row("", {}), output, EMPTY) for output in outputs], log)
