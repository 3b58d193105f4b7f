"""rescore: scores from stored judgments, without a model."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from refladder.errors import DataError, UsageError
from refladder.files.tables import Row, open_sink
from refladder.loaders.scored_tables import mapped_columns
from refladder.records import RUNG
from refladder.scoring.asker import trusted
from refladder.scoring.columns import Columns
from refladder.scoring.judgment_file import check_outcomes, outcomes_of, read_judgments
from refladder.scoring.modes import mode_of
from refladder.scoring.rules import rule_named
from refladder.scoring.scorer import Verdicts

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
    if not (run.rungs or run.rates):
        raise UsageError(
            f"{judgments}: judgments of pairs or of single texts, and rescore reads comparisons with ladders; "
            "run `refladder evaluate` with the same --work again, which asks nothing twice"
        )
    mode_of(run.mode).check_rule(scale.rule, f"{judgments}: ")
    columns = Columns(run, scale)
    verdicts = Verdicts(run, scale)
    report = verdicts.report
    located, of_rungs = _without_rungs(located)
    verdicts.take_rungs(trusted(of_rungs, scale.least_mass))
    outputs = _judged_outputs(located, run)
    scored = str(judgments).removesuffix(JUDGMENTS)
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
    located: Iterator[tuple[str, Judgment]],
) -> tuple[Iterator[tuple[str, Judgment]], list[Judgment]]:
    """Split off the ratings of rungs at the start; in a folder of scored files, each file begins with them."""

    def rates_a_rung(each: tuple[str, Judgment]) -> bool:
        return each[1].against is None and each[1].subject.startswith(RUNG)

    of_rungs = []
    for each in located:
        if not rates_a_rung(each):
            located = itertools.chain([each], itertools.filterfalse(rates_a_rung, located))
            break
        of_rungs.append(each[1])
    return located, of_rungs


def _judged_outputs(
    located: Iterator[tuple[str, Judgment]], run: Run
) -> Iterator[tuple[dict[str, str], dict[int, list[Judgment]]]]:
    """Yield the ids and judgments of one output after another; the judgments by the number of their dimension."""
    outcomes = outcomes_of(run)
    number_of = {dimension.name: number for number, dimension in enumerate(run.dimensions)}
    expected = mode_of(run.mode).judgments_of_a_text(run)
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
            check_outcomes(line, judgment, outcomes)
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
