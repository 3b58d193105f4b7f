"""refladder link: the command and the call."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.cli import console
from refladder.cli.calling import Call, source_of
from refladder.cli.options import subcommand
from refladder.comparison.link_results import ShownLink, decision_lines, link_table, link_warnings
from refladder.display.log import Log, log_lines
from refladder.errors import UsageError, either, option
from refladder.options import like

if TYPE_CHECKING:
    from collections.abc import Mapping

    from refladder.records import Link


@subcommand(
    "Map the scores of one judge to the scale of another.",
    "first",
    "second",
    "from_by",
    "to_by",
    "at",
    like(
        "column",
        help="Column of output_id, context_id, context or output, if named otherwise, in the tables that have it. "
        "Repeatable.",
    ),
    like("out_file", help="Output file for the link.", required=True),
    "as_json",
)
def command(
    *,
    first: str,
    second: str,
    from_by: str | None,
    to_by: str | None,
    at: float | None,
    column: Mapping[str, str],
    out: Path,
    as_json: bool,
) -> None:
    """Map every NAME_score and NAME_grade that two tables have to the scale of the second, from texts that both score.

    With --from-by and --to-by, map one column of scores of any kind. 10 or more texts must have a score in both tables.
    `filter --link` and `show --link` use the file. The printed errors are those on texts that were held out.

    Examples:
        refladder link --from new.jsonl --to old.jsonl --out link.json
        refladder link --from new.csv --from-by rating --to old.csv --to-by rating --out link.json
    """
    from refladder.comparison.link import link as link_tables

    named = _named(from_by, to_by, at)
    record = link_tables((first, second), named, console.Console(), at=at, given=column, out=out)
    if as_json:
        console.say_json(dataclasses.asdict(record))
        return
    console.say_tables([link_table(record)])
    console.say_lines([*decision_lines(record), *link_warnings(record)])


def _named(by: str | None, to_by: str | None, at: float | None) -> tuple[str, str] | None:
    """Return the two columns that are named; None for neither."""
    if at is not None and not math.isfinite(at):
        raise UsageError(f"{option('at')} {at}: must be a finite number")
    if by is not None and to_by is not None:
        return by, to_by
    if by is not None or to_by is not None or at is not None:
        both = f"{either('--from-by', 'by')} and {either('--to-by', 'to_by')}"
        raise UsageError(
            f"{both} name the columns of a link of scores, for {option('at')} too; give both"
        )
    return None


@command.call
def link(
    table: Any,
    *,
    to: Any,
    by: str | None = None,
    to_by: str | None = None,
    at: float | None = None,
    columns: Mapping[str, str] | None = None,
    out: str | Path | None = None,
) -> Link:
    """Map the scores of one judge to the scale of another, as `refladder link`.

    Without `by` and `to_by`, every NAME_score and NAME_grade that both tables have is mapped. 10 or more texts must have
    a score in both tables; they are matched by id, else by context and text.

    Args:
        table: the scores that are to be mapped: a table of any kind.
        to: a table of any kind with scores of the same texts on the target scale.
        by: column of `table` with scores of any kind.
        to_by: column of `to` with scores of the same texts.
        at: cut-off on the target scale at which changed decisions are counted; None for at most nine between the
            target's scores, at its deciles.
        columns: field (such as output_id or context_id) to the name of its column, in the tables that have it.
        out: file for the link, for `refladder filter --link`; None writes none.

    Returns:
        The link, which `filter` and `show` take as `link`. Its `columns` hold the errors on texts that were held out. A
        warning of the logger `refladder` names columns that are no better linked than unlinked.

    Raises:
        UsageError: an argument is wrong, or both tables are of the same judge.
        DataError: a file cannot be read or written, with path:line; or too few texts are in both tables.
    """
    from refladder.comparison.link import link as link_tables

    with Call(link, locals(), table=""):
        tables = source_of(table, "table"), source_of(to, "to")
        path = None if out is None else Path(out)
        named = _named(by, to_by, at)
        record = link_tables(tables, named, Log(), at=at, given=columns, out=path)
        log_lines(link_warnings(record))
        return ShownLink.of(record)
