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
    from refladder.files.ladder_sets import write_certificate  # noqa: PLC0415  --help stays quick
    from refladder.jobs.certify import Asking, certify, rungs_to_certify  # noqa: PLC0415
    from refladder.trust.certificate import REFUSE  # noqa: PLC0415

    console.check_prompts(prompts)
    asking = Asking(judgments=judgments, answers=answers, least_mass=least_mass, prompts=prompts, restart=restart)
    rungs = rungs_to_certify(ladders, asking)
    budgeted = spending.Spending(money)

    def run() -> tuple[Asker, dict[str, Any]]:
        return rungs.judged(budgeted.open(judge, judge_option), certify, budgeted.progress("judging rungs"))

    if not budgeted.continues(lambda: run()[0].log.reused, as_json=as_json):
        return 0
    context.with_resource(rungs.locked())
    _, certificate = run()
    if rungs.folder is not None:
        write_certificate(rungs.folder, certificate)
    if as_json:
        console.say_json({**certificate, "spent": budgeted.spent()})
    else:
        print_certificate(certificate)
        where = (
            "not stored: only a set in a folder gets a certificate"
            if rungs.folder is None
            else "stored in the folder of the set"
        )
        console.say(where, err=True)
        console.tell_spent(budgeted.spent())
    refused = certificate["verdict"] == REFUSE or certificate["counts"]["unparsed"] > 0
    return console.UNSCORED if refused else 0


def print_certificate(certificate: Mapping[str, Any]) -> None:
    """Print a certificate as lines and tables."""
    from refladder.report.certificate_tables import certificate_lines, certificate_tables  # noqa: PLC0415

    for line in certificate_lines(certificate):
        console.say(line)
    console.say_tables(certificate_tables(certificate))
