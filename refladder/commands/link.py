"""refladder link: the command and the call."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.commands import console
from refladder.commands.calling import Call, source_of
from refladder.commands.options import subcommand
from refladder.errors import UsageError, either, option
from refladder.options import like
from refladder.report.certificate_tables import ShownLink, decision_lines, link_table, link_warnings
from refladder.report.log import log_lines
from refladder.settings import LEAST_MASS, Scale, chosen

if TYPE_CHECKING:
    from refladder.records import Link


@subcommand(
    "Map the scores of one judge to the scale of another.",
    "first",
    "second",
    "from_by",
    "to_by",
    "at",
    like("out_file", help="Output file for the link.", required=True),
    "rule",
    "least_mass",
    "as_json",
    scale=Scale,
)
def command(
    *,
    first: Path,
    second: Path,
    from_by: str | None,
    to_by: str | None,
    at: float | None,
    out: Path,
    scale: Scale,
    as_json: bool,
) -> None:
    """Map scores and grades of one judge to the scale of another, from rows that both have judged on the same ladders.

    With --from-by and --to-by, map any column of scores to the scale of another, from 10 or more texts that both tables
    score. `filter --link` and `show --link` use the file. The printed errors are those on held-out contexts or texts.

    Examples:
        refladder link --from old.jsonl.judgments.jsonl --to new.jsonl.judgments.jsonl --out link.json
        refladder link --from new.csv --from-by rating --to old.csv --to-by rating --out link.json
    """
    record = _linked(str(first), str(second), (from_by, to_by, at), scale, out)
    if as_json:
        console.say_json(dataclasses.asdict(record))
        return
    console.say_tables([link_table(record)])
    console.say_lines([*decision_lines(record), *link_warnings(record)])


def _linked(
    first: str,
    second: str,
    columns: tuple[str | None, str | None, float | None],
    scale: Scale,
    out: Path | None,
) -> Link:
    """Link two columns if they are named, else the judgments of two judges."""
    by, to_by, at = columns
    if by is None or to_by is None:
        if by != to_by or at is not None:
            both = f"{either('--from-by', 'by')} and {either('--to-by', 'to_by')}"
            raise UsageError(
                f"{both} name the columns of a link of scores, for {option('at')} too; give both"
            )
        from refladder.jobs.link import link as of_judges

        return of_judges(Path(first), Path(second), scale, out)
    if scale != Scale():
        raise UsageError(
            f"{option('rule')} and {option('least-mass')} are for judgments, and a link of columns reads scores; leave them out"
        )
    if at is not None and not math.isfinite(at):
        raise UsageError(f"{option('at')} {at}: must be a finite number")
    from refladder.jobs.link_columns import link_columns

    return link_columns((first, second), (by, to_by), at=at, out=out)


@command.call
def link(
    judgments: Any,
    *,
    to: Any,
    by: str | None = None,
    to_by: str | None = None,
    at: float | None = None,
    rule: str = "ladder-sum",
    least_mass: float = LEAST_MASS,
    out: str | Path | None = None,
) -> Link:
    """Map scores and grades of one judge to the scale of another, as `refladder link`.

    Both judges must have judged rows of the same table on the same ladders. With `by` and `to_by`, map any column of
    scores to the scale of another, from 10 or more texts that both tables score.

    Args:
        judgments: judgments file of the scores that are to be mapped, or a folder of scored files; with `by`, a table of
            any kind with these scores.
        to: likewise, of the scores on the target scale.
        by: column of `judgments` with scores of any kind.
        to_by: column of `to` with scores of the same texts, matched by id, else by context and text.
        at: cut-off on the target scale at which changed decisions are counted; None for nine deciles.
        rule: scoring rule: ladder-sum, mean-difference or expected-grade.
        least_mass: least label mass, a probability; a judgment below it is unparsed.
        out: file for the link, for `refladder filter --link`; None writes none.

    Returns:
        The link, which `filter` and `rescore` take as `link`. Its `columns` hold the errors on contexts that were held
        out. A warning of the logger `refladder` names columns that are no better linked than unlinked.

    Raises:
        UnknownNameError, UsageError: an argument is wrong, or both files are of the same judge.
        DataError: a file cannot be read or written, with path:line; or too few rows are in both files.
    """
    with Call(link, locals(), table="") as call:
        for name, table in (("judgments", judgments), ("to", to)):
            if by is None and not isinstance(table, str | Path):
                raise UsageError(
                    f"{name} must be a text or a path, found {table!r:.60}; a table needs by and to_by"
                )
        first, second = source_of(judgments, "judgments"), source_of(to, "to")
        path = None if out is None else Path(out)
        record = _linked(first, second, (by, to_by, at), chosen(Scale, call.given), path)
        log_lines(link_warnings(record))
        return ShownLink.of(record)
