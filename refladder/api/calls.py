"""score, filter and pairs as calls on any table; the same jobs, defaults and results as the commands."""

from __future__ import annotations

import inspect
import logging
import tempfile
from collections.abc import Sized
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from refladder.api.frames import (
    NUMBER,
    Frame,
    checked,
    in_words_of_python,
    output_path,
    read_columns,
    record_or_path,
    with_parameters,
)
from refladder.api.judges import Backends, open_recorded, resolved
from refladder.api.texts import prepared
from refladder.errors import UsageError
from refladder.files.jsonl import read_record
from refladder.files.ladder_sets import load_ladders
from refladder.files.locks import locked
from refladder.jobs.filter import DROP, KEEP, asked_condition, filter_rows
from refladder.jobs.human_ratings import ExpectedRatings
from refladder.jobs.link import open_link
from refladder.jobs.preference_pairs import pair_lines, preference_pairs
from refladder.jobs.recorded_judgments import check_recorded_ladders
from refladder.jobs.score import FIELDS, Mapped, check_input, score_rows
from refladder.jobs.scored_tables import cascade_column, score_column
from refladder.loaders.fields import row_id
from refladder.records import HumanScale
from refladder.report.progress import progress
from refladder.report.summary import first_pass_lines, summary_lines, warning_lines
from refladder.scoring.columns import added_columns
from refladder.scoring.judging import LEAST_MASS
from refladder.students.first_pass import (
    PREFIX,
    Cascade,
    estimate_columns,
    score_with_student,
    student_before_judge,
    student_judge,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.files.ladder_sets import LadderSet
    from refladder.records import Link, Threshold
    from refladder.scoring.columns import ScoreReport

Table = TypeVar("Table")
_LOG = logging.getLogger("refladder")
_OF_STUDENTS = ("ladders", "judge", "columns", "context_id", "out")  # what a student alone has a use for


@checked
def score(
    table: Table,
    *,
    ladders: str | Path | LadderSet | None = None,
    judge: str | Backend | Judge = "builtin",
    judge_options: Mapping[str, object] | None = None,
    dimensions: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    context_id: str | int | None = None,
    rule: str = "ladder-sum",
    weights: Mapping[str, float] | None = None,
    least_mass: float = LEAST_MASS,
    answers: int = 0,
    both_orders: bool = False,
    yes_no: bool = False,
    prompts: str | Path | None = None,
    stop_at: Mapping[str, float] | None = None,
    threshold: str | Path | Threshold | None = None,
    calibration: str | Path | HumanScale | None = None,
    judgments_from: str | Path | None = None,
    cascade: str | None = None,
    between: tuple[float, float] | None = None,
    check_share: float = 0.05,
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
        ladders: a shipped name, a folder, or a set from `load_ladders`. A student needs none; a set
            gives it the texts of contexts that the table lacks.
        judge: a backend by name (`builtin`, `hf:ORG/MODEL`, `openai:MODEL`), an open one, or a function (see "Use your
            own judge" in the documentation). Or `distilled:FOLDER`, a student from `distil`: it adds the column that it
            learned, its note and the signature. No model is asked, so arguments about asking are refused.
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
        stop_at: column (NAME_score, NAME_grade or the overall score) to a number: asking about a row stops when it is
            certain which columns reach theirs. A row that stops has bounds in COLUMN_least and COLUMN_most, and no
            score.
        threshold: stop likewise at the cut-offs of a threshold from `calibrate`, or of its file.
        calibration: a human scale from `human_scale`, or its file. It adds NAME_expected (the expected rating),
            NAME_expected_low and NAME_expected_high.
        judgments_from: table of judgments that another program made, instead of a judge. No model is asked; a
            comparison that is not in the table is unparsed.
        cascade: `distilled:FOLDER`, a student from `distil` that decides the rows whose estimate is outside of
            `between`. The judge gets the others. It adds NAME_student_score (the estimate) and NAME_cascade_score (the
            judge's score where there is one, else the estimate). The logger `refladder` counts the calls saved, and the
            decisions that the judge would change: in warnings where it changes one or none was checked.
        between: least and greatest estimate that are undecided, in units of the score.
        check_share: share (0 to 1) of the rows decided by the student that the judge gets all the same.
        out: file for the scored rows, required where `table` is a path. An interrupted call continues from
            `OUT.judgments.jsonl` when it is made again.
        judgments: file that stores the judgments; None for `OUT.judgments.jsonl`, or none without `out` or with
            `judgments_from`.
        restart: discard the judgments in that file.
        store: response store; None for the default of the command line, False for none.

    Returns:
        The same kind of table with the columns added and its own columns unchanged; for a path, the path of `out`.
        Rows of a file are streamed and never held in memory together.

    Raises:
        UsageError, UnknownNameError: an argument is wrong, or the student is of another judge or column; the judge was
            not asked.
        DataError: a row is wrong, with path:line or the number of the row; or a file cannot be read or written.
        BackendError: the judge failed; its judgments so far are stored, if they have a file.
    """
    given: dict[str, Any] = {name: value for name, value in locals().items() if name != "table"}
    frame = None if isinstance(table, str | Path) else Frame(table)
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        given["context_id"] = row_id("score", "context_id", context_id)
        mapped = Mapped(columns=dict(columns or {}), context=given["context_id"])
        if isinstance(judge, str) and judge.startswith(PREFIX):
            alone = student_judge(judge, _asking(given))
            texts = load_ladders(ladders) if isinstance(ladders, str | Path) else ladders
            source, scored = _files(stack, frame, str(table), out, mapped)
            with progress("scoring") as update:
                config = None if out is None else resolved("score", given)
                report = score_with_student(
                    alone, source, str(scored), mapped=mapped, ladders=texts, config=config, progress=update
                )
            _log_counts(report, given)
            return _returned(table, frame, out, scored, estimate_columns(alone))
        if ladders is None:
            raise UsageError(f"give the ladder set: ladders=SET; only judge='{PREFIX}FOLDER' needs none")
        refused = [] if threshold is None else ["--threshold"]
        student = student_before_judge(cascade, between, check_share, refused=refused)
        opened, open_scorer = prepared(
            ladders,
            dimensions=dimensions,
            rule=rule,
            weights=weights,
            least_mass=least_mass,
            answers=answers,
            both_orders=both_orders,
            yes_no=yes_no,
            prompts=prompts,
            stop_at=stop_at,
            threshold=record_or_path(threshold),
        )
        people = None if calibration is None else _human_scale(calibration)
        recorded = None
        if judgments_from is not None:
            asking = ("judge", "judge_options", "answers", "yes_no", "prompts")
            recorded = open_recorded(judgments_from, {name: given[name] for name in asking})
            check_recorded_ladders(recorded, opened)
        source, scored = _files(stack, frame, str(table), out, mapped)
        checked = check_input(source, None, mapped, opened, _LOG.warning)
        kept = Path(judgments) if judgments is not None else None
        if kept is None and out is not None and recorded is None:
            kept = Path(f"{scored}.judgments.jsonl")
        stack.enter_context(locked(scored))  # before a model is loaded or a server is asked
        if kept is not None:
            stack.enter_context(locked(kept))
        backends = stack.enter_context(Backends(store))
        scorer = open_scorer(recorded or backends.open(judge, judge_options))
        added = added_columns(scorer.dimensions, () if scorer.stop is None else tuple(scorer.stop.thresholds))
        first_pass = None
        if student is not None and between is not None:
            first_pass = Cascade(student, scorer, between, check_share)
            added = {**first_pass.added, **added}
        if people is not None:
            added |= ExpectedRatings(people, added, scorer.report.signature).added
        with progress("scoring", backends.under_way) as update:
            report = score_rows(
                scorer,
                source,
                str(scored),
                mapped=mapped,
                judgments=kept,
                restart=restart,
                calibration=people,
                first_pass=first_pass,
                config=None if out is None else resolved("score", given),
                checked=checked,
                progress=update,
            )
        _log_counts(report, given)
        return _returned(table, frame, out, scored, added)


def _asking(given: Mapping[str, object]) -> Iterator[str]:
    """The arguments of `score` that are given, as options, and that a student alone has no use for."""
    for name, parameter in inspect.signature(score).parameters.items():
        if name in given and name not in _OF_STUDENTS:
            value = given[name]
            empty = isinstance(value, Sized) and not len(value)
            if value is not False and not empty and value != parameter.default:
                yield f"--{name.replace('_', '-')}"


def _files(
    stack: ExitStack, frame: Frame | None, table: str, out: str | Path | None, mapped: Mapped
) -> tuple[str, Path]:
    """The files that `score` reads and writes: the user's, or temporary ones, which errors in the stack then name."""
    if frame is None:
        return table, _out_path(out)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refladder-")))
    source = str(folder / f"table.{frame.form}")
    frame.write(Path(source), {mapped.columns.get(name, name) for name in FIELDS} if out is None else None)
    stack.enter_context(in_words_of_python((), source))
    return source, folder / f"scored.{frame.form}" if out is None else output_path(out)


def _returned(
    table: Table, frame: Frame | None, out: str | Path | None, scored: Path, added: Mapping[str, type]
) -> Table:
    if frame is None:
        return type(table)(out)  # type: ignore[call-arg]
    return cast("Table", frame.with_columns(read_columns(scored, added), added))


def _log_counts(report: ScoreReport, given: Mapping[str, object]) -> None:
    lines = warning_lines(report) if report.complete else summary_lines(report)
    for line in lines:
        _LOG.warning("%s", with_parameters(line, given))
    counts = report.first_pass
    if report.complete and counts is not None:
        # By default Python shows warnings only. Every user should see that the judge would change decisions, or that
        # this was not measured; where no decision would change, the counts are for those who ask for them.
        certain = not counts.decided or (counts.checked and not counts.changed and not counts.changed_somewhere)
        for line in first_pass_lines(counts):
            _LOG.log(logging.INFO if certain else logging.WARNING, "%s", with_parameters(line, given))


@checked
def filter(  # noqa: A001  the name of the command
    table: Table,
    *,
    min: Mapping[str, float] | None = None,  # noqa: A002  the name of the option
    max: Mapping[str, float] | None = None,  # noqa: A002
    top: float | None = None,
    best: int | None = None,
    per: str | None = None,
    by: str | None = None,
    threshold: str | Path | Threshold | None = None,
    link: str | Path | Link | None = None,
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
        best: number of rows that meet every threshold to keep in each group, best first.
        per: column whose values are the groups of `best`, such as `context_id`.
        by: column that `top` and `best` sort by; None for `overall_score` or the only NAME_score, with `best`.
        threshold: a threshold from `calibrate`, or its file. It keeps its promise only by itself.
        link: a link from `link`, or its file: compare scores on the scale that it maps to.
        out: file for the rows that pass, where `table` is a path.
        rejected: file for the rows that do not pass, likewise.
        unscored: rows without a number in a column: `drop`, `keep`, or, where `table` is a path, a file for them.
        mix: allow scores with different signatures, which can be on different scales.

    Returns:
        The same kind of table; for a path, the path of `out`. A warning of the logger `refladder` counts the rows that
        were dropped because they have no score, and those that an end of the link's interval would decide otherwise.

    Raises:
        UsageError: an argument is wrong.
        DataError: a column is missing or holds no number, or signatures differ; with path:line or the number of the
            row.
    """
    given = {name: value for name, value in locals().items() if name != "table"}
    frame = None if isinstance(table, str | Path) else Frame(table)
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        condition = asked_condition(
            record_or_path(threshold),
            least=dict(min or {}),
            most=dict(max or {}),
            top=top,
            top_by=by,
            best=best,
            per=per,
            mix=mix,
            linked=link is not None,
        )
        linker = None if link is None else open_link(record_or_path(link))
        if frame is None:
            source, passed = str(table), _out_path(out)
        else:
            if out is not None or rejected is not None or unscored not in (KEEP, DROP):
                raise UsageError("out, rejected and a file for unscored rows are for a table in a file; give its path")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refladder-")))
            source, passed = str(folder / f"table.{frame.form}"), folder / f"passed.{frame.form}"
            if condition.best is not None and condition.top_by is None:
                condition = replace(condition, top_by=score_column("the table", frame.names))
            frame.write(Path(source), condition.needed, number=NUMBER)
        stack.enter_context(in_words_of_python(given, None if frame is None else source))
        with progress("filtering") as update:
            report = filter_rows(
                condition,
                source,
                str(passed),
                rejected=None if rejected is None else str(rejected),
                unscored=str(unscored),
                mix=mix,
                linker=linker,
                progress=update,
            )
        if report.uncertain:
            _LOG.warning("%d rows would be decided otherwise at an end of the link's 95 %% interval", report.uncertain)
        if report.unscored and unscored == DROP:
            _LOG.warning("%d of %d rows have no score and were dropped", report.unscored, report.rows)
        if frame is None:
            return type(table)(out)  # type: ignore[call-arg]
        return cast("Table", frame.select([int(n) for n in read_columns(passed, {NUMBER: float})[NUMBER]]))


@checked
def pairs(
    table: Table,
    *,
    margin: float,
    per_context: int | None = None,
    by: str | None = None,
    ladders: str | Path | LadderSet | None = None,
    columns: Mapping[str, str] | None = None,
    conversational: bool = False,
    out: str | Path | None = None,
    mix: bool = False,
) -> Table:
    """Pair better and worse outputs of the same context in scored rows, as `refladder pairs`.

    A pair has the columns prompt (the context's text), chosen and rejected, as preference training with TRL reads them;
    then context_id, chosen_id, rejected_id, score_chosen, score_rejected and signature.

    Args:
        table: scored rows, as for `score`.
        margin: minimum difference of the two scores, in units of the score column; equal scores are never a pair.
        per_context: maximum number of pairs per context, those with the largest differences; None for all.
        by: column with the scores; None for `overall_score`, or the only column NAME_score.
        ladders: ladder set with the texts of the contexts, for rows without a column `context`.
        columns: field (context_id, context, background, output, output_id) to the name of its column.
        conversational: write prompt, chosen and rejected as lists of one chat message.
        out: file for the pairs, required where `table` is a path.
        mix: allow scores with different signatures, which can be on different scales.

    Returns:
        The same kind of table with a row for each pair; for a path, the path of `out`. The logger `refladder` counts
        the pairs and what was not paired: in a warning where rows are unscored or there is no pair.

    Raises:
        UsageError: an argument is wrong, or the score column is not clear.
        DataError: a column is missing or wrong, a context has no text or two, or signatures differ; with path:line or
            the number of the row.
    """
    given = {name: value for name, value in locals().items() if name != "table"}
    frame = None if isinstance(table, str | Path) else Frame(table)
    with ExitStack() as stack:
        stack.enter_context(in_words_of_python(given))
        mapped = Mapped(columns=dict(columns or {}))
        if frame is None:
            source, paired = str(table), _out_path(out)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refladder-")))
            source = str(folder / f"table.{frame.form}")
            paired = folder / f"pairs.{frame.form}" if out is None else output_path(out)
            by = by or score_column("the table", frame.names)
            fields = {mapped.columns.get(name, name) for name in FIELDS}
            frame.write(Path(source), {*fields, by, cascade_column(by), "signature"})
        stack.enter_context(in_words_of_python(given, None if frame is None else source))
        with progress("pairing") as update:
            report = preference_pairs(
                source,
                str(paired),
                mapped=mapped,
                margin=margin,
                per_context=per_context,
                by=by,
                ladders=ladders,
                conversational=conversational,
                mix=mix,
                progress=update,
            )
        level = logging.INFO if report.pairs and not report.unscored else logging.WARNING
        for line in pair_lines(report):
            _LOG.log(level, "%s", with_parameters(line, given))
        if frame is None:
            return type(table)(out)  # type: ignore[call-arg]
        return cast("Table", frame.opened(paired))


def _human_scale(value: str | Path | HumanScale) -> HumanScale:
    return value if isinstance(value, HumanScale) else read_record(HumanScale, Path(value))


def _out_path(out: str | Path | None) -> Path:
    if out is None:
        raise UsageError("a table in a file is written to another file; give out=PATH")
    return output_path(out)
