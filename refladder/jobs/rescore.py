"""rescore: scores from stored judgments, without a model."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from refladder.errors import DataError, UsageError, option, plural
from refladder.files.tables import Row, open_sink
from refladder.loaders.scored_tables import mapped_columns, run_of
from refladder.records import RUNG, names_of
from refladder.scoring.columns import Columns
from refladder.scoring.judge_check import refused_on
from refladder.scoring.judgment_file import read_judgments
from refladder.scoring.modes import mode_of
from refladder.scoring.question import level_of, rung_id
from refladder.scoring.rules import rule_named
from refladder.scoring.scorer import Verdicts
from refladder.scoring.verdicts import trusted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from refladder.events import Events
    from refladder.records import Judgment, Run
    from refladder.scoring.score_report import ScoreReport
    from refladder.settings import Scale, Tables


JUDGMENTS = ".judgments.jsonl"
# Number of outputs in memory at a time.
BATCH = 2048


def rescore(judgments: str | Path, tables: Tables, scale: Scale, events: Events) -> ScoreReport:
    """Compute scores from stored judgments, without a model: one row for each output, in the order of judging.

    The columns of ids have the names that the scored table has.
    """
    rule_named(scale.rule)
    run, located = read_judgments(judgments)
    mode = mode_of(run.answers)
    if mode.compares_rungs and not run.rungs:
        raise UsageError(
            f"{judgments}: judgments of pairs or of single texts, and rescore reads comparisons with ladders; "
            "run `refladder evaluate` with the same --work again, which asks nothing twice"
        )
    for prompt in run.recipe.prompts:
        role = prompt.partition("@")[0].rpartition("/")[2]
        if role not in mode.roles:
            raise DataError(
                f"{judgments}:1: asked with {option('answers')} {run.answers}, and the prompts are of the role {role!r}; "
                "take the line as `refladder score` wrote it, or score again"
            )
    mode.check_rule(scale.rule, f"{judgments}: ")
    columns = Columns(run, scale)
    verdicts = Verdicts(run, scale)
    report = verdicts.report
    located, of_rungs = _without_rungs(located, run, str(judgments))
    scored = str(judgments).removesuffix(JUDGMENTS)
    refused = refused_on(run_of(scored).judge_check or ())
    verdicts.take_rungs(trusted(of_rungs, scale.least_mass), refused=refused)
    outputs = _judged_outputs(located, run)
    mapped = mapped_columns(scored)
    names = {name: mapped.get(name, name) for name in ("output_id", "context_id")}
    header = list(names.values())
    renamed = [f"{field}={name}" for field, name in names.items() if name != field]
    with (
        open_sink(
            tables.out,
            tables.out_format,
            columns.added,
            header,
            escape_formulas=tables.escape_formulas,
            record={
                "command": "rescore",
                "options": {"column": renamed},
                "scales": columns.scales(),
            },
        ) as write,
        events.progress("rescoring") as progress,
    ):
        while batch := list(itertools.islice(outputs, BATCH)):
            blocks: list[tuple[int, int]] = []
            read: list[Judgment] = []
            for row_number, (_, by_dimension) in enumerate(batch):
                for number, judged in by_dimension.items():
                    blocks.append((row_number, number))
                    read += judged
            cells = itertools.product(range(len(batch)), range(len(run.dimensions)))
            absent = dict.fromkeys(set(cells).difference(blocks), "not judged")
            output_ids = [ids["output_id"] for ids, _ in batch]
            of_blocks = trusted(read, scale.least_mass)
            scores = verdicts.scores(output_ids, of_blocks, blocks, absent)
            for (ids, _), values in zip(batch, columns.rows(scores), strict=True):
                row = Row("", {names[name]: value for name, value in ids.items()})
                write(row, values)
            if progress is not None:
                progress(report.judgments, None)
    report.reused = report.judgments
    return report


def _without_rungs(
    located: Iterator[tuple[str, Judgment]], run: Run, path: str
) -> tuple[Iterator[tuple[str, Judgment]], list[Judgment]]:
    """Split off the ratings of rungs at the start, which have to be all of the run's, in its order.

    In a folder of scored files, each file begins with the same ones.
    """

    def rates_a_rung(each: tuple[str, Judgment]) -> bool:
        return each[1].against is None and each[1].subject.startswith(RUNG)

    of_rungs = []
    for each in located:
        if not rates_a_rung(each):
            located = itertools.chain([each], located)
            break
        of_rungs.append(each)
    _check_rungs(of_rungs, run, path)
    rungs = [judgment for _, judgment in of_rungs]
    first = itertools.cycle(rungs)

    def of_texts() -> Iterator[tuple[str, Judgment]]:
        for where, judgment in located:
            if not rates_a_rung((where, judgment)):
                yield where, judgment
            elif judgment != next(first, None):
                raise DataError(
                    f"{where}: the rating of rung {judgment.subject.removeprefix(RUNG)} differs from that at the start of "
                    f"{path}; take the files as `refladder score` wrote them, or score again"
                )

    return of_texts(), rungs


def _check_rungs(of_rungs: list[tuple[str, Judgment]], run: Run, path: str) -> None:
    """Check that the ratings of rungs rise in dimension, ladder and level, and that none is missing."""
    names = names_of(run.dimensions)
    ladders_of = {name: list(run.anchors) for name in names}
    before = (-1, -1, 0)
    for where, judgment in of_rungs:
        context_id, level = judgment.context_id, level_of(judgment.subject) or 0
        ladders = ladders_of.get(judgment.dimension, [])
        if not run.anchors and context_id not in ladders:
            ladders.append(context_id)
        known = judgment.dimension in names and context_id in ladders and level <= run.rungs
        subject = rung_id(level, context_id if run.anchors else "")
        place = (-1, -1, 0)
        if known and judgment.subject == subject:
            place = names.index(judgment.dimension), ladders.index(context_id), level
        if place <= before:
            raise DataError(
                f"{where}: no rating of {judgment.subject!r} of context {context_id!r} on {judgment.dimension!r} is "
                "expected here; take the file as `refladder score` wrote it, or score again"
            )
        before = place
    expected = run.rated_rungs
    if expected is None:
        # Older files name no number. The anchors of a shared set are known, and other sets rate whole ladders.
        whole = sum(map(len, ladders_of.values()))
        expected = whole * run.rungs * mode_of(run.answers).rates_rungs
    if len(of_rungs) != expected:
        raise DataError(
            f"{path}: {plural(len(of_rungs), 'rating')} of rungs, and the run made {expected}; take the file as "
            "`refladder score` wrote it, or score again"
        )


def _judged_outputs(
    located: Iterator[tuple[str, Judgment]], run: Run
) -> Iterator[tuple[dict[str, str], dict[int, list[Judgment]]]]:
    """Yield the ids and judgments of one output after another; the judgments by the number of their dimension."""
    number_of = {dimension.name: number for number, dimension in enumerate(run.dimensions)}
    expected = mode_of(run.answers).judgments_of_a_text(run)
    current: tuple[dict[str, str], dict[int, list[Judgment]]] | None = None
    while block := list(itertools.islice(located, len(expected))):
        where, first = block[0]
        output_id = first.subject
        number = number_of.get(first.dimension)
        if number is None:
            raise DataError(
                f"{where}: dimension {first.dimension!r} is not among the run's: {sorted(number_of)}"
            )
        for (line, judgment), (subject, against) in zip(block, expected, strict=False):
            of_pair = subject or output_id, output_id if against == "" else against
            if (judgment.subject, judgment.against) != of_pair:
                raise DataError(
                    f"{line}: expected {of_pair[0]!r} against {of_pair[1]!r}, found "
                    f"{judgment.subject!r} against {judgment.against!r}; judgments must keep their order"
                )
            if (judgment.context_id, judgment.dimension) != (first.context_id, first.dimension):
                raise DataError(
                    f"{line}: expected {first.dimension!r} of context {first.context_id!r}, found "
                    f"{judgment.dimension!r} of {judgment.context_id!r}; judgments must keep their order"
                )
        if len(block) < len(expected):
            raise DataError(
                f"{block[-1][0]}: the file ends within output {output_id!r}; run `refladder score` again to complete it"
            )
        if current is None or current[0]["output_id"] != output_id or number in current[1]:
            if current is not None:
                yield current
            current = ({"output_id": output_id, "context_id": first.context_id}, {})
        current[1][number] = [judgment for _, judgment in block]
    if current is not None:
        yield current
