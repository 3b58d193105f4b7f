"""score: a table of outputs and a ladder set -> judgments (stored) -> rule -> score columns."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from refladder.errors import (
    DataError,
    UnknownNameError,
    UsageError,
    column_option,
    option,
    plural,
    similar,
)
from refladder.files.jsonl import is_device, is_unicode, write_json
from refladder.files.locks import locked
from refladder.files.tables import (
    STANDARD,
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
from refladder.records import Context, Output, is_shared, text_id
from refladder.scoring.columns import Columns, column_names
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.question import RUNG
from refladder.scoring.recorded import Recorded
from refladder.scoring.scorer import batches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from refladder.files.ladder_sets import LadderSet
    from refladder.records import JudgeCheck, Progress, Score
    from refladder.scoring.columns import ScoreReport
    from refladder.scoring.scorer import LadderScorer
    from refladder.settings import Tables

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


@dataclass(frozen=True, slots=True)
class Item:
    """A row and its output, None with the reason in `note`; `text` and `background` are its context's, if any."""

    row: Row
    output: Output | None
    note: str | None
    text: str | None = None
    background: str = ""

    @property
    def context(self) -> Context | None:
        """The context as the row has it; None where it has no text of it."""
        if self.output is None or self.text is None:
            return None
        return Context(
            id=self.output.context_id, task="", text=self.text, background=self.background
        )


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
                raise UnknownNameError("column", name, [*FIELDS, SYSTEM])
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
        yield Item(row, output, None, context, background)


def check_input(
    path: str,
    given: str | None,
    mapped: Mapped,
    ladders: LadderSet | None = None,
    tell: Callable[[str], object] | None = None,
) -> int | None:
    """Validate an input before any model is called; its number of rows, None if it can be read only once."""
    if read_once(path):
        return None
    if ladders is not None and ladders.anchors:
        mapped = replace(mapped, alone=True)
    known = (
        None
        if ladders is None or ladders.anchors
        else {context_id for context_id, _ in ladders.ladders}
    )
    count, judged, alone, without = 0, 0, 0, Counter[str]()
    with closing(read_rows(path, given)) as rows:
        for item in items(rows, mapped, check_ids=True):
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
                f"{path}: no row has a ladder; {none}; name the right {option('ladders')}"
            )
        if tell is not None:
            tell(f"no ladder for {without.total():,} of {plural(count, 'row')}: {none}")
    if tell is not None and 0 < alone < judged:
        tell(
            f"no context in {alone:,} of {plural(count, 'row')}: these are judged by their text alone"
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


class RowScorer:
    """Scores the rows of a table, batch by batch: the hook of `score` by which a student joins.

    Attributes:
        ladders: the set that rows must have a ladder in; None where they need none.
        alone: whether a row needs no context, see `Mapped`.
        complete: a row with a value in all of these columns is scored.
        scored: such rows so far.
    """

    def __init__(
        self, report: ScoreReport, added: Mapping[str, type], complete: Sequence[str]
    ) -> None:
        self.report = report
        self.ladders: LadderSet | None = None
        self.recorded: Recorded | None = None
        self.alone = False
        self.added = dict(added)
        self.complete = list(complete)
        self.scored = 0
        self.each = 0  # prompts of a row; 0 if unknown
        self.prove: Callable[[Progress | None], list[JudgeCheck]] = lambda _progress: []
        self.checks: list[JudgeCheck] = []

    def start(self, progress: Progress | None, total: int | None) -> None:
        """Check the judge before the first row."""
        self.checks = self.prove(progress)
        if progress is not None:
            progress(0, total, "", self.each)

    def log(
        self,
        _path: Path | None,
        *,
        dry_run: bool,  # noqa: ARG002
    ) -> AbstractContextManager[JudgmentLog | None]:
        """The log of its judgments; None where no judge is asked."""
        return nullcontext()

    def batches(self, rows: Iterable[Item]) -> Iterator[list[Item]]:
        """The rows in batches, in order; may read ahead."""
        raise NotImplementedError

    def values(self, batch: Sequence[Item], log: JudgmentLog | None) -> list[dict[str, Any]]:
        """The added columns of the rows of a batch."""
        raise NotImplementedError

    def count(self, values: Mapping[str, Any]) -> None:
        """Count a row that is scored."""
        self.scored += all(values[column] is not None for column in self.complete)


class AllRows(RowScorer):
    """Asks the judge about every row."""

    def __init__(self, scorer: LadderScorer) -> None:
        scores = [column_names(dimension.name)[0] for dimension in scorer.dimensions]
        self._table = Columns(scorer.run, scorer.scale)
        super().__init__(scorer.report, self._table.added, scores)
        self.scorer, self.ladders, self.alone = scorer, scorer.ladders, bool(scorer.ladders.anchors)
        self.each = scorer.prompts_of_a_row
        self.recorded = scorer.judge if isinstance(scorer.judge, Recorded) else None

    def log(self, path: Path | None, *, dry_run: bool) -> JudgmentLog:
        """The log of the judgments; in a dry run it is only read."""
        return JudgmentLog(path, self.scorer.run, read_only=dry_run)

    def batches(self, rows: Iterable[Item]) -> Iterator[list[Item]]:
        """The rows in batches that take seconds each, with the texts of their contexts given to the scorer."""

        # Rows against a shared set share no context with each other, but each its own with all rungs.
        def context_of(item: Item) -> str | None:
            return None if item.output is None else item.output.context_id

        rows = (with_context(self.scorer, item) for item in rows)
        return batches(rows, self.scorer.judge, None if self.scorer.ladders.anchors else context_of)

    def values(self, batch: Sequence[Item], log: JudgmentLog | None) -> list[dict[str, Any]]:
        """The added columns of the rows of a batch."""
        scores = self.scorer.score(
            [item.output for item in batch],
            [item.note for item in batch],
            cast("JudgmentLog", log),
            [item.context for item in batch],
        )
        return self._table.rows(scores)


def score_rows(
    asking: RowScorer,
    tables: Tables,
    mapped: Mapped,
    *,
    judgments: Path | None = None,
    config: Mapping[str, Any] | None = None,
    checked: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ScoreReport:
    """Score a table: every row comes out again, in order, with the score columns at its end.

    Memory does not grow with the number of rows, except for the check that ids are unique. Judgments are stored batch
    by batch; an interrupted run continues from them and gives the same bytes. `checked` is the result of `check_input`.
    """
    source, given, recorded = tables.source, tables.given, asking.recorded
    mapped = replace(mapped, alone=asking.alone)
    total = (
        check_input(source, given, mapped, asking.ladders)
        if checked is None and not dry_run
        else checked
    )
    if recorded is not None and asking.ladders is not None:
        _check_recorded(recorded, asking.ladders, source, given, mapped)
    out = None if dry_run else tables.out
    lock = nullcontext() if out is None or out == STANDARD else locked(Path(out))
    with lock, closing(read_rows(source, given)) as rows:
        columns = rows.columns() or []
        if clash := sorted(set(columns) & set(asking.added)):
            raise UsageError(
                f"{source}: column {clash[0]!r} exists already; rename or drop it first"
            )
        # The ids of a file that can be read twice are checked by `check_input`.
        read = items(rows, mapped, check_ids=read_once(source))
        if recorded is not None and read_once(source):
            read = with_every_judged(
                recorded, "<stdin>" if source == STANDARD else source, read, mapped
            )
        with (
            asking.log(judgments, dry_run=dry_run) as log,
            nullcontext(lambda *_: None)
            if dry_run
            else table_sink(tables, asking.added, columns) as write,
        ):
            for number, batch in enumerate(asking.batches(read)):
                if not number:
                    asking.start(progress, total)
                for item, values in zip(batch, asking.values(batch, log), strict=True):
                    asking.count(values)
                    write(item.row, values)
                if progress is not None:
                    progress(asking.report.rows, total)
            if log is not None:
                log.finish()
        if config is not None and out is not None and out != STANDARD and not is_device(Path(out)):
            report = asking.report
            ends = {"above_top": report.above_top, "below_bottom": report.below_bottom}
            checks = {"judge_check": [asdict(check) for check in asking.checks] or None}
            write_json(
                Path(f"{out}.run.json"), {**config, "signature": report.signature, **checks, **ends}
            )
    return asking.report


def _check_recorded(
    recorded: Recorded, ladders: LadderSet, source: str, given: str | None, mapped: Mapped
) -> None:
    """Check before the run that recorded judgments are about the rungs of a set and the rows of a table."""
    check_recorded_ladders(recorded, ladders)
    if not read_once(source):
        for _ in with_every_judged(
            recorded, source, items(read_rows(source, given), mapped, check_ids=False), mapped
        ):
            pass


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


def with_context(scorer: LadderScorer, item: Item) -> Item:
    """Give a row's context text to the scorer; the row loses its output if the scorer has another, or none."""
    if item.output is None:
        return item
    if item.text is None:
        reason = scorer.missing_text(item.output.context_id)
    else:
        reason = scorer.take_context(item.output.context_id, item.text, item.background)
    return item if reason is None else Item(item.row, None, reason)


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


def score_texts(
    scorer: LadderScorer, texts: Sequence[str], context_id: str | None
) -> list[tuple[Score, ...]]:
    """Score texts of one context, and store nothing: the scores of each text, one for each dimension."""
    outputs = text_outputs(scorer.ladders, texts, context_id)
    with JudgmentLog(None, scorer.run) as log:
        return scorer.score(outputs, [EMPTY] * len(outputs), log)
