"""refladder audit: the command and the call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from refladder.cli import console, spending
from refladder.cli.calling import Call
from refladder.cli.options import subcommand
from refladder.display.log import LOG, Log
from refladder.errors import ExitCode, UsageError
from refladder.options import OF_BACKENDS, OF_COST, like
from refladder.settings import LEAST_MASS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.files.ladder_sets import LadderSet
    from refladder.settings import Given


@subcommand(
    "Measure the biases of a judge.",
    "ladder_set",
    "judge",
    "judge_option",
    *OF_BACKENDS,
    like("ladders", help="The same as SET."),
    "contexts",
    like("seed", help="Random seed of --contexts."),
    "least_mass",
    like(
        "answers",
        at_least=0,
        help="Number of answers to sample per question. 0 = read label probabilities.",
        metavar=None,
        type=int,
    ),
    like("judgments", help="Judgments file, for resuming. Default: none."),
    *OF_COST,
    "prompts",
    "as_json",
    money=spending.SpendingOptions,
    given=dict,
)
def command(
    *,
    money: spending.SpendingOptions,
    given: Given,
    ladder_set: str | None,
    as_json: bool,
) -> ExitCode:
    """Judge the rungs of SET against each other in both orders, and the worst rungs again with a sentence appended.

    SET is a shipped name (see `refladder list ladders`), a folder, or an address.

    Printed for each dimension, with 95 % intervals over contexts: unparsed judgments, label mass, position and length
    preference, and the shift of a verdict under a neutral sentence, a request for a good verdict, and the prompt's own
    answer line.

    Exit code 3: some judgments are unparsed.

    Examples:
        refladder audit my-ladders --judge hf:ORG/MODEL
        refladder audit demo/story --contexts 5 --dry-run
    """
    from refladder.comparison.audit import rehearse, run, spec_of

    session = spending.Spending(money)
    spec = spec_of({**given, "ladders": _named_set(ladder_set, given["ladders"])})
    if not session.approves(partial(rehearse, spec), as_json=as_json):
        return ExitCode.DONE
    found = run(spec, session, console.Console())
    if as_json:
        for row in found.rows():
            console.say_json(row)
    else:
        console.say_tables(found.tables())
        console.say(f"judge: {found.judge}")
        console.say(f"ladders: {found.ladders}")
        console.tell_spent(session.spent())
    unparsed = any(figure.measure == "unparsed" and figure.value for figure in found.figures)
    return ExitCode.of(complete=not unparsed)


def _named_set(argument: str | None, option: str | None) -> str:
    """Return the ladder set, which is an argument or the option --ladders, also from a configuration file."""
    source = click.get_current_context().get_parameter_source("ladders")
    if argument is not None and source is ParameterSource.COMMANDLINE:
        raise UsageError("SET and --ladders both name the ladder set; give one of them")
    named = argument or option
    if named is None:
        raise UsageError(
            "give the ladder set whose rungs are judged: SET, or --ladders SET (see `refladder list ladders`)"
        )
    return named


@command.call
def audit(
    ladders: str | Path | LadderSet,
    *,
    judge: str | Backend | Judge = "builtin",
    judge_options: Mapping[str, object] | None = None,
    contexts: int | None = None,
    seed: int = 0,
    least_mass: float = LEAST_MASS,
    answers: int = 0,
    prompts: str | Path | None = None,
    judgments: str | Path | None = None,
    store: str | Path | bool | None = None,
) -> list[dict[str, Any]]:
    """Measure the biases of a judge on the rungs of ladders, as `refladder audit`.

    Measures: `unparsed` and `low mass`, shares of judgments; `mass`, the mean label mass; `P(target)`, how often the
    text in the target's position wins (0.5 without position bias); `inconsistent`, the share of pairs with orders that
    disagree; `P(longer)`, how often the longer of two rungs wins, and `longer is higher`, how often it should; `shift
    neutral`, `shift request` and `shift answer line`, the change of the probability (-1 to 1) that the worst rung is
    better than a higher one, when a sentence is appended to it.

    Args:
        ladders: a shipped name, a folder, an address, or a set from `load_ladders`, with the texts of its contexts.
        judge: a backend by name, an open one, or a function.
        judge_options: options of a named judge.
        contexts: number of contexts to audit, drawn at random; None for all.
        seed: of that draw, 0 or more.
        least_mass: least label mass, a probability; a judgment below it is unparsed.
        answers: answers to sample for each question; 0 reads label probabilities.
        prompts: folder of templates that replace the shipped ones.
        judgments: file that stores the judgments, for resuming; None stores none.
        store: response store; None for the default of the command line, False for none.

    Returns:
        A dict for each dimension and measure, and for the dimension `all`, as lines of `refladder audit --json`:
        `kind`, `judge` and `ladders` (signatures), `dimension`, `measure`, `value`, `low` and `high` (95 % interval
        over contexts) and `of` (number of judgments, pairs or contexts). What could not be measured is None. A warning
        of the logger `refladder` counts unparsed judgments.

    Raises:
        UnknownNameError, UsageError, PromptError: an argument is wrong, the set has no texts of its contexts, or
            another process has the judgments open.
        DataError: the set or the judgments cannot be read or written.
        BackendError: the judge failed; its judgments so far are stored, if they have a file.
    """
    from refladder.comparison.audit import ALL, run, spec_of
    from refladder.display.results import ShownList

    with Call(audit, locals(), table="") as call:
        session = call.session()
        found = run(spec_of(call.given), session, Log())
        for figure in found.figures:
            if (figure.dimension, figure.measure) == (ALL, "unparsed") and figure.value:
                count = round(figure.value * figure.of)
                LOG.warning("%d of %d judgments are unparsed", count, figure.of)
        return ShownList(found.rows(), found.tables())
