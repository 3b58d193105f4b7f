"""refladder certify: the command and the call."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from refladder.backends.metered import spent_json
from refladder.cli import console, spending
from refladder.cli.calling import Call
from refladder.cli.options import given_arguments, given_options, subcommand
from refladder.display.log import Log, log_lines
from refladder.errors import ExitCode
from refladder.options import OF_BACKENDS, OF_COST, like
from refladder.settings import LEAST_MASS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.files.certificate import Certificate
    from refladder.files.ladder_sets import LadderSet
    from refladder.settings import Given


@subcommand(
    "Check that the rungs of ladders rise.",
    "set_argument",
    "judge",
    "judge_option",
    *OF_BACKENDS,
    "least_mass",
    "answers",
    like(
        "judgments",
        help="Judgments file, for resuming. Default: certificate.judgments.jsonl in the folder of "
        "SET; none for a shipped set.",
    ),
    like(
        "judgments_from",
        help="File of judgments of these rungs instead of a judge, such as "
        "certificate.judgments.jsonl.gz of a shipped set. No model is asked.",
        multiple=False,
    ),
    *OF_COST,
    "prompts",
    "as_json",
    money=spending.SpendingOptions,
    given=dict,
)
def command(*, money: spending.SpendingOptions, given: Given, as_json: bool) -> ExitCode:
    """Judge every pair of rungs of every ladder in SET in both orders, and report whether the ladders rise.

    The verdict (pass, untested, rewrite, drop or refuse) on every rung, level and dimension is stored as certificate.json in the
    folder of SET. Scores name it in their signature. For a shipped or published set, the certificate is only printed.

    Run the same command again to resume an interrupted run. Exit code 3: the verdict is refuse, or some judgments are
    unparsed.

    Examples:
        refladder certify my-ladders --judge hf:ORG/MODEL
        refladder certify demo/story --dry-run
        refladder certify FOLDER --judgments-from FOLDER/certificate.judgments.jsonl.gz
    """
    from refladder.files.certificate import json_of
    from refladder.ladders.certify import rehearse, run, spec_of
    from refladder.statistics.certificate import REFUSE, UNTESTED

    session = spending.Spending(money)
    spec = spec_of(given, given_options())
    if not session.approves(partial(rehearse, spec), as_json=as_json):
        return ExitCode.DONE
    events = console.Console(as_json=as_json)
    certificate = run(spec, session, events)
    if as_json:
        checks, spent = [*map(asdict, events.checks)], spent_json(session.spent())
        console.say_json({**json_of(certificate), "judge_check": checks, "spent": spent})
    else:
        print_certificate(certificate)
        stored = "stored in the folder of the set"
        if spec.folder is None:
            stored = "not stored: only a set in a folder gets a certificate"
        console.notify(stored)
        console.tell_spent(session.spent())
    unread = certificate.counts.unparsed > 0 and certificate.verdict != UNTESTED
    return ExitCode.of(complete=certificate.verdict != REFUSE and not unread)


def print_certificate(certificate: Certificate) -> None:
    """Print a certificate as lines and tables."""
    from refladder.ladders.certificate_tables import shown_certificate

    shown = shown_certificate(certificate)
    for line in shown.lines():
        console.say(line)
    console.say_tables(shown.tables())


@command.call
def certify(
    ladders: str | Path | LadderSet,
    *,
    judge: str | Backend | Judge = "builtin",
    judge_options: Mapping[str, object] | None = None,
    least_mass: float = LEAST_MASS,
    answers: int | str = 0,
    prompts: str | Path | None = None,
    judgments: str | Path | None = None,
    judgments_from: str | Path | None = None,
    store: str | Path | bool | None = None,
) -> dict[str, Any]:
    """Judge every pair of rungs of every ladder in both orders, and say whether the ladders rise: `refladder certify`.

    Args:
        ladders: a folder, which gets the certificate; or a shipped name, an address or a set from `load_ladders`, which
            do not.
        judge: a backend by name, an open one, or a function.
        judge_options: options of a named judge.
        least_mass: least label mass, a probability; a judgment below it is unparsed.
        answers: answers to sample for each question; 0 reads label probabilities. With `stated` or `stated:K`, each
            rung is shown with the others, and the judge writes its probabilities.
        prompts: folder of templates that replace the shipped ones.
        judgments: file that stores the judgments; None for `certificate.judgments.jsonl` in the folder, or none without
            a folder.
        judgments_from: file of judgments of these rungs instead of a judge, such as `certificate.judgments.jsonl.gz`.
        store: response store; None for the default of the command line, False for none.

    Returns:
        The certificate: plain JSON values, with `verdict` (pass, rewrite, drop or refuse) for the set, each dimension,
        level and ladder; `docs/reference/files.md` describes its keys. What could not be judged is None, and counted.

    Raises:
        UnknownNameError, UsageError, PromptError: an argument is wrong, or the set has no texts of its contexts.
        DataError: the set or the judgments cannot be read or written.
        BackendError: the judge failed; its judgments so far are stored, if they have a file.
    """
    from refladder.ladders.certificate_tables import shown_certificate
    from refladder.ladders.certify import run, spec_of

    with Call(certify, locals(), table="") as call:
        spec = spec_of(call.given, list(given_arguments(command, call.given)))
        certificate = run(spec, call.session(), Log())
        log_lines(certificate.notes)
        return shown_certificate(certificate)
