"""score: outputs x rungs -> judgments (kept) -> rule -> score columns."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.errors import UsageError
from refladder.files.jsonl import is_device, write_json
from refladder.files.locks import locked
from refladder.files.tables import (
    STANDARD,
    format_of,
    open_sink,
    read_once,
    read_rows,
    refuse_same_files,
    standard_form,
)
from refladder.jobs.outputs import Item, Mapped, check_input, items
from refladder.scoring.columns import Columns, added_columns
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import batches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.records import Progress
    from refladder.scoring.columns import ScoreReport
    from refladder.scoring.scorer import Scorer


def score_rows(
    scorer: Scorer,
    source: str,
    out: str,
    *,
    mapped: Mapped,
    given: str | None = None,
    out_given: str | None = None,
    escape_formulas: bool = False,
    judgments: Path | None = None,
    restart: bool = False,
    config: Mapping[str, Any] | None = None,
    checked: int | None = None,
    progress: Progress | None = None,
) -> ScoreReport:
    """Score a table: every row comes out again, in order, with the score columns at its end.

    Memory does not grow with the number of rows, but for what tells that an id stands there twice. Judgments are kept
    in `judgments` batch by batch; a run that was cut off goes on from them and gives the same bytes.

    Args:
        scorer: judge, ladders and scale.
        source: file or `-`.
        out: file or `-`.
        mapped: which columns hold what.
        given: format of the source, where its ending does not say it.
        out_given: format of the output, likewise.
        escape_formulas: put `'` before text in CSV that a spreadsheet would run as a formula.
        judgments: file that keeps the judgments.
        restart: throw away what that file holds.
        config: the resolved configuration, written beside the output as `OUT.run.json`.
        checked: what `check_input` gave for this source, if it was called already.
        progress: called with rows done and rows in all (None when not known).

    Returns:
        The counts.

    Raises:
        DataError, UsageError: the input or the output is not right, see `check_input`; or another process is writing
            the output or the judgments.
        BackendError: the judge failed; what was judged is kept.
    """
    refuse_same_files({"the input": source, "--out": out, "--judgments": str(judgments or STANDARD)})
    total = check_input(source, given, mapped) if checked is None else checked
    form = format_of(source, given)
    parquet = source if form == "parquet" else None
    added = added_columns(scorer.dimensions)
    table = Columns(scorer.dimensions, scorer.run.rungs, scorer.scale)
    rows = read_rows(source, given)
    columns = rows.columns() or []
    if clash := sorted(set(columns) & set(added)):
        raise UsageError(f"{source}: column {clash[0]!r} is there already; rename or drop it first")
    # The ids of a file were checked just now.
    outputs = (with_context(scorer, item) for item in items(rows, mapped, check_ids=read_once(source)))
    with nullcontext() if out == STANDARD else locked(Path(out)):
        with (
            JudgmentLog(judgments, scorer.run, restart=restart) as log,
            open_sink(
                out, out_given or standard_form(out, form), added, columns, parquet, escape_formulas=escape_formulas
            ) as write,
        ):
            for batch in batches(outputs, scorer.judge, _context_of):
                scores = scorer.score([item.output for item in batch], [item.note for item in batch], log)
                for item, values in zip(batch, table.rows(scores), strict=True):
                    write(item.row, values)
                if progress is not None:
                    progress(scorer.report.rows, total)
            log.finish()
        if config is not None and out != STANDARD and not is_device(Path(out)):
            write_json(Path(f"{out}.run.json"), {**config, "signature": scorer.report.signature})
    return scorer.report


def _context_of(item: Item) -> str | None:
    return None if item.output is None else item.output.context_id


def with_context(scorer: Scorer, item: Item) -> Item:
    """A row whose context text goes to the scorer; one without an output if the scorer knows another text for it."""
    if item.output is None or item.text is None:
        return item
    reason = scorer.take_context(item.output.context_id, item.text, item.background)
    return item if reason is None else Item(item.row, None, reason)
