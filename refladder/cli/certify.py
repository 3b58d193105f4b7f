"""refladder certify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console, spending
from refladder.cli.groups import grouped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from refladder.scoring.asker import Asker


@click.command(cls=console.Command, short_help="Check that the rungs of ladders rise.")
@click.argument("ladders", metavar="SET", shell_complete=console.names_of("ladders"))
@console.backend_option("--judge", "Judge model (see `refladder list backends`).", default="builtin")
@console.JUDGE_OPTION
@console.BASE_URL
@console.LOCAL
@console.LEAST_MASS
@console.ANSWERS
@click.option(
    "--judgments",
    type=console.PATH,
    help="Judgments file, for resuming. Default: certificate.judgments.jsonl in the folder of SET; none for a shipped "
    "set.",
)
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@console.JSON
@click.pass_context
@grouped(money=spending.SpendingOptions)
def command(
    context: click.Context,
    /,
    *,
    money: spending.SpendingOptions,
    ladders: str,
    judge: str,
    judge_option: tuple[str, ...],
    least_mass: float,
    answers: int,
    judgments: Path | None,
    prompts: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Judge every pair of rungs of every ladder in SET in both orders, and say whether the ladders rise.

    The verdict (pass, rewrite, drop or refuse) on every rung, level and dimension is stored as certificate.json in the
    folder of SET. Scores name it in their signature. A shipped or published set keeps the certificate that it came
    with: yours is printed only.

    Run the same command again to resume an interrupted run. Exit code 3: the verdict is refuse, or some judgments are
    unparsed.
    """
    from refladder.files.ladder_sets import load_ladders, write_certificate  # noqa: PLC0415  --help stays quick
    from refladder.files.locks import locked, locked_folder  # noqa: PLC0415
    from refladder.jobs.certify import JUDGMENTS, certify, folder_of, open_asker  # noqa: PLC0415
    from refladder.trust.certificate import REFUSE  # noqa: PLC0415

    console.check_prompts(prompts)
    opened = load_ladders(ladders, certified=False)
    folder = folder_of(ladders)
    if judgments is None and folder is not None:
        judgments = folder / JUDGMENTS
    budgeted = spending.Spending(money)
    how: dict[str, Any] = {"answers": answers, "least_mass": least_mass, "prompts": prompts, "restart": restart}

    def run() -> tuple[Asker, dict[str, Any]]:
        asker = open_asker(opened, budgeted.open(judge, judge_option), judgments, **how)
        with budgeted.progress("judging rungs") as progress:
            return asker, certify(opened, asker, progress)

    if not budgeted.continues(lambda: run()[0].log.reused, as_json=as_json):
        return 0
    # Before a model is loaded or a server is asked:
    if folder is not None:
        context.with_resource(locked_folder(folder))
    if judgments is not None:
        context.with_resource(locked(judgments))
    _, certificate = run()
    if folder is not None:
        write_certificate(folder, certificate)
    if as_json:
        line = {**certificate, "spent": budgeted.spent()}
        console.say_json(line)
    else:
        print_certificate(certificate)
        where = (
            "not stored: only a set in a folder gets a certificate"
            if folder is None
            else "stored in the folder of the set"
        )
        console.say(where, err=True)
        console.tell_spent(budgeted.spent())
    refused = certificate["verdict"] == REFUSE or certificate["counts"]["unparsed"] > 0
    return console.UNSCORED if refused else 0


def print_certificate(certificate: Mapping[str, Any]) -> None:
    """Print a certificate as lines and tables."""
    from refladder.report.certificate_tables import certificate_lines, certificate_tables  # noqa: PLC0415
    from refladder.report.terminal import terminal_tables  # noqa: PLC0415

    for line in certificate_lines(certificate):
        console.say(line)
    out = console.console()
    for part in terminal_tables(certificate_tables(certificate), out.width):
        out.print(part)
