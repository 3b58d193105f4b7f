"""refladder audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from refladder.cli import console, spending
from refladder.cli.groups import grouped

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.jobs.audit import Row
    from refladder.scoring.asker import Asker


@click.command(cls=console.Command, short_help="Measure the biases of a judge.")
@click.argument("ladder_set", metavar="SET", required=False, shell_complete=console.names_of("ladders"))
@console.backend_option("--judge", "Judge model (see `refladder list backends`).", default="builtin")
@console.JUDGE_OPTION
@console.BASE_URL
@console.LOCAL
@click.option(
    "--ladders",
    metavar="SET",
    shell_complete=console.names_of("ladders"),
    help="The same as SET.",
)
@click.option(
    "--contexts",
    type=click.IntRange(min=1),
    help="Number of contexts to audit, drawn at random with --seed. Default: all.",
)
@click.option("--seed", default=0, type=int, help="Random seed of --contexts.")
@console.LEAST_MASS
@console.ANSWERS
@click.option("--judgments", type=console.PATH, help="Judgments file, for resuming. Default: none.")
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
    judge: str,
    judge_option: tuple[str, ...],
    ladder_set: str | None,
    ladders: str | None,
    contexts: int | None,
    seed: int,
    least_mass: float,
    answers: int,
    judgments: Path | None,
    prompts: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Judge the rungs of SET against each other in both orders, and the worst rungs again with a sentence appended.

    SET is a shipped name (see `refladder list ladders`), a folder, or an address.

    Printed for each dimension, with 95 % intervals over contexts: unparsed judgments, label mass, position and length
    preference, and the shift of a verdict under a neutral sentence, a request for a good verdict, and the prompt's own
    answer line.

    Exit code 3: some judgments are unparsed.
    """
    from refladder.errors import UsageError  # noqa: PLC0415  --help stays quick
    from refladder.jobs.audit import audit, audit_json, rungs_to_audit  # noqa: PLC0415
    from refladder.jobs.certify import Asking  # noqa: PLC0415
    from refladder.report.certificate_tables import audit_tables  # noqa: PLC0415

    console.check_prompts(prompts)
    if ladder_set is not None and context.get_parameter_source("ladders") is ParameterSource.COMMANDLINE:
        raise UsageError("SET and --ladders both name the ladder set; give one of them")
    named = ladder_set or ladders
    if named is None:
        raise UsageError(
            "give the ladder set whose rungs are judged: SET, or --ladders SET (see `refladder list ladders`)"
        )
    asking = Asking(judgments=judgments, answers=answers, least_mass=least_mass, prompts=prompts, restart=restart)
    rungs = rungs_to_audit(named, asking, contexts, seed)
    budgeted = spending.Spending(money)

    def run() -> tuple[Asker, list[Row]]:
        return rungs.judged(budgeted.open(judge, judge_option), audit, budgeted.progress("auditing"))

    if not budgeted.continues(lambda: run()[0].log.reused, as_json=as_json):
        return 0
    context.with_resource(rungs.locked())
    asker, rows = run()
    if as_json:
        for line in audit_json(rows, rungs.ladders, asker):
            console.say_json(line)
    else:
        console.say_tables(audit_tables([row._asdict() for row in rows]))
        console.say(f"judge: {asker.signature}")
        console.say(f"ladders: {rungs.ladders.signature}")
        console.tell_spent(budgeted.spent())
    return console.UNSCORED if any(row.measure == "unparsed" and row.value for row in rows) else 0
