"""What `score` does with a student of `distil`: alone as its judge, or before a judge."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from refladder.cli import console
from refladder.cli.sharding import ShardOptions, score_in_shards
from refladder.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.cli.groups import TableOptions
    from refladder.jobs.score import Mapped
    from refladder.scoring.scorer import LadderScorer
    from refladder.students.first_pass import Cascade
    from refladder.students.student import Student

# Options that a student alone has a use for; the others say how a judge is asked.
_ALONE = {
    "source", "ladders", "out", "context_id", "column", "given", "out_format", "escape_formulas", "judge", "as_json",
}  # fmt: skip
_OF_SHARDS = {"restart", *(field.name for field in fields(ShardOptions))}
_NOT_OF_SHARDS = {"out_format", "escape_formulas"}

CASCADE = console.options(
    click.option(
        "--cascade",
        metavar="distilled:FOLDER",
        help="Student of `refladder distil` that decides the rows whose estimate is outside of --between. The judge "
        "gets the others.",
    ),
    click.option(
        "--between",
        type=float,
        nargs=2,
        metavar="LOW HIGH",
        help="Estimates of --cascade that are undecided, from LOW to HIGH, in units of the score.",
    ),
    click.option(
        "--check-share",
        default=0.05,
        type=click.FloatRange(0, 1),
        help="Share of the rows decided by --cascade that the judge gets all the same, to measure how many decisions "
        "it would change.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeOptions:
    """The first pass of a command."""

    cascade: str | None
    between: tuple[float, float] | None
    check_share: float

    def student(self, *, text: bool, threshold: bool) -> Student | None:
        """The student, read; None without --cascade.

        Args:
            text: whether --text is given.
            threshold: whether --threshold is given.

        Raises:
            UsageError: the options do not fit together, or one of them is wrong.
        """
        from refladder.students.first_pass import student_before_judge  # noqa: PLC0415  --help stays quick

        refused = [option for option, given in (("--text", text), ("--threshold", threshold)) if given]
        return student_before_judge(self.cascade, self.between, self.check_share, refused=refused)

    @property
    def folder(self) -> Path:
        """The folder of the student."""
        from refladder.students.first_pass import student_folder  # noqa: PLC0415  --help stays quick

        return student_folder(self.cascade or "")

    def before(self, scorer: LadderScorer, student: Student | None) -> Cascade | None:
        """The first pass before a scorer; None without a student."""
        from refladder.students.first_pass import Cascade  # noqa: PLC0415  --help stays quick

        if student is None or self.between is None:
            return None
        return Cascade(student, scorer, self.between, self.check_share)


def scored_alone(
    context: click.Context,
    judge: str | None,
    source: str | None,
    ladders: str | None,
    *,
    mapped: Mapped,
    table: TableOptions,
    sharding: ShardOptions,
    restart: bool,
    as_json: bool,
) -> int | None:
    """Score a table with a student as the judge; None if the judge is another one.

    Raises:
        UsageError: no ladder set is named, or options are given for asking a judge.
    """
    from refladder.students.first_pass import PREFIX, score_with_student, student_folder, student_judge  # noqa: PLC0415  --help stays quick

    if judge is None or not judge.startswith(PREFIX):
        if ladders is None:
            raise click.MissingParameter(
                ctx=context, param=next(option for option in context.command.params if option.name == "ladders")
            )
        return None
    from refladder.files.ladder_sets import load_ladders  # noqa: PLC0415  --help stays quick

    known = (_ALONE - _NOT_OF_SHARDS) | _OF_SHARDS if sharding.given else _ALONE
    asking = []
    for option in context.command.params:
        given = context.get_parameter_source(str(option.name))
        if option.name not in known and given in {ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP}:
            if sharding.given and option.name in _ALONE:
                raise UsageError(f"{option.opts[0]} does not work with shards; leave it out, or score the table whole")
            asking.append(option.opts[0])
    student = student_judge(judge, asking)
    if source is None:
        raise UsageError("give a SOURCE table")
    set_of_contexts = None if ladders is None else load_ladders(ladders)
    if sharding.given:
        from refladder.fleet.shard_worker import Task  # noqa: PLC0415  --help stays quick

        task = Task(
            ladders=ladders or "",
            version="" if set_of_contexts is None else set_of_contexts.signature,
            columns=dict(mapped.columns),
            context_id=mapped.context,
            judge=judge,
            judgments=False,
            student=str(student_folder(judge)),
        )
        return score_in_shards(
            context,
            sharding,
            source,
            task,
            mapped=mapped,
            table=table,
            gpus=student.record.kind == "encoder",
            restart=restart,
            as_json=as_json,
        )
    with console.progress("scoring") as progress:
        report = score_with_student(
            student,
            source,
            table.out,
            mapped=mapped,
            ladders=set_of_contexts,
            given=table.given,
            out_given=table.out_format,
            escape_formulas=table.escape_formulas,
            config=console.resolved(context),
            progress=progress,
        )
    return console.tell(report, as_json=as_json, to_stderr=table.out == "-")
