"""refladder build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from refladder.cli import console, spending
from refladder.cli.data import DATA, DataOptions
from refladder.cli.groups import DrawingOptions, grouped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.jobs.build import BuildReport


@click.command(cls=console.Command, short_help="Generate ladders for a benchmark or a table.")
@DATA
@click.option("--out", required=True, type=console.PATH, help="Output folder for the ladder set.")
@console.backend_option("--writer", "Writer model (see `refladder list backends`).", default="builtin")
@console.WRITER_OPTION
@console.BASE_URL
@console.LOCAL
@console.SAMPLING
@click.option(
    "--human", type=str, help="Table of human-written rungs with the columns context_id, dimension, level and text."
)
@click.option(
    "--certify",
    is_flag=True,
    help="Judge the rungs against each other. Rungs out of order are generated again, in at most 2 rounds; then their "
    "level is dropped, or their ladder fails.",
)
@console.backend_option("--judge", "Judge model of --certify (see `refladder list backends`).", default="builtin")
@console.JUDGE_OPTION
@spending.SPENDING
@console.PROMPTS
@console.RESTART
@console.JSON
@click.pass_context
@grouped(data=DataOptions, drawing=DrawingOptions, money=spending.SpendingOptions)
def command(
    context: click.Context,
    /,
    *,
    data: DataOptions,
    drawing: DrawingOptions,
    money: spending.SpendingOptions,
    out: Path,
    writer: str,
    writer_option: tuple[str, ...],
    rungs: int,
    attempts: int,
    human: str | None,
    certify: bool,
    judge: str,
    judge_option: tuple[str, ...],
    prompts: Path | None,
    restart: bool,
    as_json: bool,
) -> int:
    """Generate a ladder for every context and dimension of BENCHMARK (`own` for your own table).

    Run the same command again to resume an interrupted build. Exit code 3: some ladders failed (the reasons are in
    failures.jsonl), or the certificate is refused. The estimates of --dry-run and --budget do not include rungs that
    --certify generates again.
    """
    from dataclasses import replace  # noqa: PLC0415

    from refladder.files.ladder_sets import ladder_set  # noqa: PLC0415  --help stays quick
    from refladder.files.locks import locked_folder  # noqa: PLC0415
    from refladder.jobs.build import build, read_human_rungs  # noqa: PLC0415  --help stays quick
    from refladder.jobs.certify import JUDGMENTS, Asking, open_asker, set_questions  # noqa: PLC0415
    from refladder.jobs.mend import Mender  # noqa: PLC0415
    from refladder.scoring.dry_run import copied  # noqa: PLC0415
    from refladder.synth import build_ladders  # noqa: PLC0415
    from refladder.synth.journal import JOURNAL  # noqa: PLC0415  --help stays quick

    console.check_prompts(prompts)
    contexts, dimensions = data.contexts_and_dimensions()
    by_people = read_human_rungs(human) if human is not None else None
    budgeted = spending.Spending(money)

    judge_asked = (judge, judge_option)
    asked = (writer, writer_option, "--writer-option")
    how: dict[str, Any] = {
        "rungs": rungs,
        "sampling": drawing.sampling,
        "attempts": attempts,
        "prompts": prompts,
        "human": by_people,
    }

    def rehearse() -> None:
        with copied(None if restart else out) as copy:
            journal = None if copy is None else copy / JOURNAL
            ladders, _ = build_ladders(budgeted.open(*asked), contexts, dimensions, journal=journal, **how)
        if certify and ladders:
            opened = ladder_set(str(out), dimensions, contexts, ladders)
            certifier = budgeted.open(*judge_asked)
            asking = Asking(judgments=out / JUDGMENTS, prompts=prompts, restart=restart)
            open_asker(opened, certifier, asking).ask(set_questions(opened))

    if not budgeted.continues(rehearse, as_json=as_json):
        return 0
    context.with_resource(locked_folder(out))  # before a model is loaded or a server is asked
    backend = budgeted.open(*asked)
    mender = None
    if certify:
        mender = Mender(
            writer=backend,
            judge=budgeted.open(*judge_asked),
            contexts=contexts,
            dimensions=dimensions,
            folder=out,
            sampling=drawing.sampling,
            attempts=attempts,
            prompts=prompts,
            human=by_people,
            restart=restart,
        )
    with budgeted.progress("building" if certify else "writing") as progress:
        report = build(
            backend,
            contexts,
            dimensions,
            out,
            restart=restart,
            config=console.resolved(context),
            progress=progress,
            mender=None if mender is None else replace(mender, progress=progress),
            **how,
        )
    return _tell(report, out, rungs, budgeted.spent(), as_json=as_json)


def _tell(report: BuildReport, out: Path, rungs: int, spent: Sequence[Mapping[str, Any]], *, as_json: bool) -> int:
    """Print what was built; returns the exit code."""
    from refladder.report.certificate_tables import certificate_lines  # noqa: PLC0415
    from refladder.trust.certificate import REFUSE  # noqa: PLC0415

    certificate, failed = report.certificate, len(report.failures)
    if as_json:
        counts: dict[str, Any] = {"folder": str(out), "ladders": report.ladders, "failed": failed}
        if certificate is not None:
            counts |= {key: certificate[key] for key in ("verdict", "digest", "built")}
        console.say_json({**counts, "spent": spent})
    else:
        left = rungs if certificate is None else certificate["counts"]["rungs"]
        console.say(f"{report.ladders:,} ladders of {left} rungs in {out}, {failed:,} rungs failed", err=True)
        if certificate is not None:
            console.say_lines(certificate_lines(certificate))
        for failure in report.failures[:10]:
            place = f"{failure.context_id} {failure.dimension} rung {failure.level}"
            console.say(f"  {place}: {failure.reasons[-1]}", err=True)
        console.tell_spent(spent)
    refused = certificate is not None and certificate["verdict"] == REFUSE
    return console.UNSCORED if failed or refused else 0
