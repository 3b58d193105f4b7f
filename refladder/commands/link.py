"""refladder link: the command and the call."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.commands import console
from refladder.commands.calling import Call
from refladder.commands.options import subcommand
from refladder.options import like
from refladder.report.certificate_tables import ShownLink, link_table, link_warnings
from refladder.report.log import log_lines
from refladder.settings import LEAST_MASS, Scale, chosen

if TYPE_CHECKING:
    from refladder.records import Link


@subcommand(
    "Map the scores of one judge to the scale of another.",
    "first",
    "second",
    like("out_file", help="Output file for the link.", required=True),
    "rule",
    "least_mass",
    "as_json",
    scale=Scale,
)
def command(*, first: Path, second: Path, out: Path, scale: Scale, as_json: bool) -> None:
    """Map scores and grades of one judge to the scale of another, from rows that both have judged on the same ladders.

    `filter --link` and `show --link` use the file. The printed errors are those on held-out contexts.

    Examples:
        refladder link --from old.jsonl.judgments.jsonl --to new.jsonl.judgments.jsonl --out link.json
    """
    from refladder.jobs.link import link as linked

    record = linked(first, second, scale, out)
    if as_json:
        console.say_json(dataclasses.asdict(record))
        return
    console.say_tables([link_table(record)])
    console.say_lines(link_warnings(record))


@command.call
def link(
    judgments: str | Path,
    *,
    to: str | Path,
    rule: str = "ladder-sum",
    least_mass: float = LEAST_MASS,
    out: str | Path | None = None,
) -> Link:
    """Map scores and grades of one judge to the scale of another, as `refladder link`.

    Both judges must have judged rows of the same table on the same ladders.

    Args:
        judgments: judgments file of the scores that are to be mapped, or a folder of scored files.
        to: likewise, of the scores on the target scale.
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
    from refladder.jobs.link import link as linked

    with Call(link, locals(), table="") as call:
        path = None if out is None else Path(out)
        record = linked(Path(judgments), Path(to), chosen(Scale, call.given), path)
        log_lines(link_warnings(record))
        return ShownLink.of(record)
