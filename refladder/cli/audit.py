"""refladder audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from refladder.files.ladder_sets import load_ladders  # noqa: PLC0415
    from refladder.files.locks import locked  # noqa: PLC0415
    from refladder.jobs.audit import audit, audit_json, sample  # noqa: PLC0415
    from refladder.jobs.certify import open_asker  # noqa: PLC0415
    from refladder.report.certificate_tables import audit_tables  # noqa: PLC0415
    from refladder.report.terminal import terminal_tables  # noqa: PLC0415

    console.check_prompts(prompts)
    if ladder_set is not None and context.get_parameter_source("ladders") is ParameterSource.COMMANDLINE:
        raise UsageError("SET and --ladders both name the ladder set; give one of them")
    named = ladder_set or ladders
    if named is None:
        raise UsageError(
            "give the ladder set whose rungs are judged: SET, or --ladders SET (see `refladder list ladders`)"
        )
    opened = sample(load_ladders(named), contexts, seed)
    budgeted = spending.Spending(money)
    how: dict[str, Any] = {"answers": answers, "least_mass": least_mass, "prompts": prompts, "restart": restart}

    def run() -> tuple[Asker, list[Row]]:
        asker = open_asker(opened, budgeted.open(judge, judge_option), judgments, **how)
        with budgeted.progress("auditing") as progress:
            return asker, audit(opened, asker, progress)

    if not budgeted.continues(lambda: run()[0].log.reused, as_json=as_json):
        return 0
    if judgments is not None:
        context.with_resource(locked(judgments))  # before a model is loaded or a server is asked
    asker, rows = run()
    if as_json:
        for line in audit_json(rows, opened, asker):
            console.say_json(line)
    else:
        out = console.console()
        for part in terminal_tables(audit_tables([row._asdict() for row in rows]), out.width):
            out.print(part)
        console.say(f"judge: {asker.signature}")
        console.say(f"ladders: {opened.signature}")
        console.tell_spent(budgeted.spent())
    return console.UNSCORED if any(row.measure == "unparsed" and row.value for row in rows) else 0
