"""refladder watch: the command and the call."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from refladder.backends.metered import spent_json
from refladder.cli import console, spending
from refladder.cli.calling import Call, source_of
from refladder.cli.options import subcommand
from refladder.display.log import Log, log_lines
from refladder.errors import ExitCode
from refladder.options import OF_BACKENDS, like

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.files.ladder_sets import LadderSet
    from refladder.settings import Given


@subcommand(
    "Say whether a judge has changed.",
    "set_argument",
    "judge",
    "judge_option",
    *OF_BACKENDS,
    like(
        "answers",
        help="How the judge rates: rating, rating:stated or rating:together.",
        type=str,
        default="rating:stated",
        metavar="MODE",
    ),
    like(
        "dimension",
        help="Dimension to watch. Repeatable. Default: those of the baseline, else all.",
    ),
    like(
        "anchors",
        help="Number of anchors to watch, from the first. Default: those of the baseline, else all.",
    ),
    "readings_file",
    "new",
    "update",
    "texts",
    like("column", help="Column of a field of --texts, such as output=reply. Repeatable."),
    "at_most",
    "prompts",
    "dry_run",
    "prices",
    "budget",
    "as_json",
    money=spending.SpendingOptions,
    given=dict,
)
def command(*, given: Given, money: spending.SpendingOptions, as_json: bool) -> ExitCode:
    """Let the judge rate the rungs of all anchors of a shared SET, and compare with the readings in the file --baseline.

    A rung is treated as a text, with a place among the rungs of the other anchors. The verdict on each criterion is the
    first that fits: unknown (fewer than 6 anchors, or unparsed rungs), order (places change by more than --at-most beyond the
    judge's own noise), scale (ratings moved, places hold: grades stay comparable), same, else unknown.

    --new asks twice and writes the file. The response store is not used. Run the same command again to resume an
    interrupted run. Exit code 3: a verdict is order or unknown.

    Examples:
        refladder watch general/reply --judge openai:MODEL --baseline judge.json --new
        refladder watch general/reply --judge openai:MODEL --baseline judge.json
    """
    from refladder.comparison.watch import rehearse, spec_of, watch

    session = spending.Spending(replace(money, without_store=True))
    spec = spec_of(given)
    if not session.approves(partial(rehearse, spec), as_json=as_json):
        return ExitCode.DONE
    report = watch(spec, session, console.Console(as_json=as_json))
    if as_json:
        console.say_json({**report.summary(), "spent": spent_json(session.spent())})
    else:
        console.say_tables(report.tables())
        for line in report.lines():
            console.say(line)
        console.tell_spent(session.spent())
    return ExitCode.of(complete=report.holds)


@command.call
def watch(
    ladders: str | Path | LadderSet,
    *,
    judge: str | Backend | Judge = "builtin",
    judge_options: Mapping[str, object] | None = None,
    answers: str = "rating:stated",
    dimensions: Sequence[str] = (),
    anchors: int | None = None,
    baseline: str | Path,
    new: bool = False,
    update: bool = False,
    texts: Any = None,
    columns: Mapping[str, str] | None = None,
    at_most: float = 0.03,
    prompts: str | Path | None = None,
) -> dict[str, Any]:
    """Say whether a judge has changed since its readings in a file, as `refladder watch`.

    Args:
        ladders: a shared set: a shipped name, a folder, an address or a set from `load_ladders`.
        judge: a backend by name, an open one, or a function.
        judge_options: options of a named judge. With answers through files, reading N has the folder `reading-N` in that
            of `base_url`.
        answers: `rating`, `rating:stated` or `rating:together`.
        dimensions: criteria to watch; empty for those of the baseline, or all of a new one.
        anchors: watch the first anchors only; None for those of the baseline, or all of a new one.
        baseline: file of readings.
        new: ask twice, and write the file, which may not exist.
        update: add the reading to the file.
        texts: table of any kind with frozen texts, which are rated and placed too.
        columns: field of `texts` (context_id, context, background, output, output_id) to the name of its column.
        at_most: excess of changed decisions that is allowed.
        prompts: folder of templates that replace the shipped ones.

    Returns:
        `baseline`, `new`, the number of the `reading`, `judge`, `judge_before`, `at_most` and `criteria`: for each `dimension`
        its `verdict` (`same`, `scale`, `order` or `unknown`) and the figures behind it, which `docs/reference/files.md`
        describes. What is not known is None.

    Raises:
        UsageError, UnknownNameError: an argument is wrong, or the file is missing, or exists with `new`.
        DataError: the file is damaged, or of another set, mode, prompt, criterion or texts.
        BackendError: the judge failed; its judgments so far are stored beside the file.
    """
    from refladder.comparison.watch import spec_of
    from refladder.comparison.watch import watch as compare
    from refladder.display.results import ShownDict
    from refladder.session import Session

    with Call(watch, locals(), table="") as call:
        session = call.enter_context(Session(store=False, events=Log()))
        if texts is not None:
            call.given["texts"] = source_of(texts, "texts")
        report = compare(spec_of(call.given), session, Log())
        log_lines(report.lines(), logging.INFO if report.holds else logging.WARNING)
        return ShownDict(report.summary(), report.tables(), report.lines())
