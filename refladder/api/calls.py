"""score and filter as calls on any table; the same jobs, defaults and results as the commands."""

from __future__ import annotations

import logging
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from refladder.api.frames import Frame, in_words_of_python, read_columns
from refladder.api.judges import Backends, resolved
from refladder.api.texts import prepared
from refladder.errors import UsageError
from refladder.files.locks import locked
from refladder.files.tables import STANDARD
from refladder.jobs.filter import DROP, KEEP, Condition, filter_rows
from refladder.jobs.score import FIELDS, Mapped, check_input, score_rows
from refladder.report.progress import progress
from refladder.report.summary import summary_lines, warning_lines
from refladder.scoring.columns import added_columns
from refladder.scoring.judging import LEAST_MASS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet

Table = TypeVar("Table")
NUMBER = "number of the row"  # a column of temporary tables
_LOG = logging.getLogger("refladder")


def score(
    table: Table,
    *,
    ladders: str | Path | LadderSet,
    judge: str | Backend = "builtin",
    judge_options: Mapping[str, object] | None = None,
    dimensions: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    context_id: str | None = None,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    answers: int = 0,
    both_orders: bool = False,
    yes_no: bool = False,
    prompts: str | Path | None = None,
    out: str | Path | None = None,
    judgments: str | Path | None = None,
    restart: bool = False,
    store: str | Path | bool | None = None,
) -> Table:
    """Add score columns to every row of a table, as `refladder score`.

    A row needs an output, and the id or the text of its context, in the columns `output`, `context_id` and `context`.
    Each dimension adds five columns: NAME_score, NAME_grade, NAME_spread, NAME_mass and NAME_note. A score that is
    missing is null, and its note says why; a warning of the logger `refladder` counts them.

    Args:
        table: a path (JSON lines, CSV or Parquet), a list of dicts, a pandas or polars DataFrame, a pyarrow Table, or
            a Dataset of `datasets`.
        ladders: a shipped name, a folder, or a set from `load_ladders`.
        judge: a backend by name (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), or an open one.
        judge_options: options of a named judge, such as `{"base_url": ..., "dtype": "bfloat16"}`.
        dimensions: names of the dimensions to score; empty for all of the set.
        columns: field (context_id, context, background, output, output_id) to the name of its column.
        context_id: the context of every row, for a table without such a column.
        rule: scoring rule (see `refladder list rules`).
        weights: weight of a dimension in the overall score; 1 for those that are not named.
        least_mass: least label mass, a probability; a judgment below it gives no score.
        answers: answers to sample for each question; 0 reads label probabilities.
        both_orders: judge every pair in both orders.
        yes_no: ask three yes/no questions for each comparison.
        prompts: folder of templates that replace the shipped ones.
        out: file for the scored rows, required where `table` is a path. An interrupted call continues from
            `OUT.judgments.jsonl` when it is made again.
        judgments: file that stores the judgments; None for `OUT.judgments.jsonl`, or none without `out`.
        restart: discard the judgments in that file.
        store: response store; None for the default of the command line, False for none.

    Returns:
        The same kind of table with the columns added and its own columns unchanged; for a path, the path of `out`.
        Rows of a file are streamed and never held in memory together.

    Raises:
        UsageError, UnknownNameError: an argument is wrong; the judge was not asked.
        DataError: a row is wrong, with path:line or the number of the row; or a file cannot be read or written.
        BackendError: the judge failed; its judgments so far are stored, if they have a file.
    """
    given = {name: value for name, value in locals().items() if name != "table"}
    frame = None if isinstance(table, str | Path) else Frame(table)
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        mapped = Mapped(columns=dict(columns or {}), context=context_id)
        open_scorer = prepared(
            ladders,
            dimensions=dimensions,
            rule=rule,
            weights=weights,
            least_mass=least_mass,
            answers=answers,
            both_orders=both_orders,
            yes_no=yes_no,
            prompts=prompts,
        )
        if frame is None:
            source, scored = str(table), _out_path(out)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refladder-")))
            source = str(folder / f"table.{frame.form}")
            scored = folder / f"scored.{frame.form}" if out is None else Path(out)
            needed = {part for name in FIELDS for part in _columns(mapped.columns.get(name, name))}
            frame.write(Path(source), needed if out is None else None)
        stack.enter_context(in_words_of_python(given, None if frame is None else source))
        checked = check_input(source, None, mapped)
        kept = Path(judgments) if judgments is not None else None
        if kept is None and out is not None:
            kept = Path(f"{scored}.judgments.jsonl")
        stack.enter_context(locked(scored))  # before a model is loaded or a server is asked
        if kept is not None:
            stack.enter_context(locked(kept))
        backends = stack.enter_context(Backends(store))
        scorer = open_scorer(backends.open(judge, judge_options))
        with progress("scoring", backends.under_way) as update:
            report = score_rows(
                scorer,
                source,
                str(scored),
                mapped=mapped,
                judgments=kept,
                restart=restart,
                config=None if out is None else resolved("score", given),
                checked=checked,
                progress=update,
            )
        for line in warning_lines(report) if report.complete else summary_lines(report):
            _LOG.warning("%s", line)
        if frame is None:
            return type(table)(out)  # type: ignore[call-arg]
        added = added_columns(scorer.dimensions)
        return cast("Table", frame.with_columns(read_columns(scored, added), added))


def filter(  # noqa: A001  the name of the command
    table: Table,
    *,
    min: Mapping[str, float] | None = None,  # noqa: A002  the name of the option
    max: Mapping[str, float] | None = None,  # noqa: A002
    top: float | None = None,
    by: str | None = None,
    out: str | Path | None = None,
    rejected: str | Path | None = None,
    unscored: str | Path = DROP,
    mix: bool = False,
) -> Table:
    """Select the rows that meet every threshold, as `refladder filter`. Rows and their order stay unchanged.

    Args:
        table: as for `score`.
        min: column to its least value.
        max: column to its greatest value.
        top: share (0 to 1) of the rows that meet every threshold to keep, best first by the column `by`.
        by: column that `top` sorts by.
        out: file for the rows that pass, where `table` is a path.
        rejected: file for the rows that do not pass, likewise.
        unscored: rows without a number in a column: `drop`, `keep`, or, where `table` is a path, a file for them.
        mix: allow scores with different signatures, which can be on different scales.

    Returns:
        The same kind of table; for a path, the path of `out`. A warning of the logger `refladder` counts the rows that
        were dropped because they have no score.

    Raises:
        UsageError: an argument is wrong.
        DataError: a column is missing or holds no number, or signatures differ; with path:line or the number of the
            row.
    """
    given = {name: value for name, value in locals().items() if name != "table"}
    frame = None if isinstance(table, str | Path) else Frame(table)
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        condition = Condition(least=dict(min or {}), most=dict(max or {}), top=top, top_by=by)
        if frame is None:
            source, passed = str(table), _out_path(out)
        else:
            if out is not None or rejected is not None or unscored not in (KEEP, DROP):
                raise UsageError("out, rejected and a file for unscored rows are for a table in a file; give its path")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refladder-")))
            source, passed = str(folder / f"table.{frame.form}"), folder / f"passed.{frame.form}"
            frame.write(Path(source), {*condition.columns, "signature"}, number=NUMBER)
        stack.enter_context(in_words_of_python(given, None if frame is None else source))
        with progress("filtering") as update:
            report = filter_rows(
                condition,
                source,
                str(passed),
                rejected=None if rejected is None else str(rejected),
                unscored=str(unscored),
                mix=mix,
                progress=update,
            )
        if report.unscored and unscored == DROP:
            _LOG.warning("%d of %d rows have no score and were dropped", report.unscored, report.rows)
        if frame is None:
            return type(table)(out)  # type: ignore[call-arg]
        return cast("Table", frame.select([int(n) for n in read_columns(passed, {NUMBER: float})[NUMBER]]))


def _columns(name: str) -> tuple[str, str]:
    """The columns that a name may mean: itself, or the one whose objects have the field."""
    return name, name.partition(".")[0]


def _out_path(out: str | Path | None) -> Path:
    if out is None:
        raise UsageError("a table in a file is written to another file; give out=PATH")
    if str(out) == STANDARD:
        raise UsageError("out='-': a call writes no standard output; give out=PATH")
    return Path(out)
