"""refladder show: the command and the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from refladder.cli import console
from refladder.cli.calling import Call, record_or_path, source_of
from refladder.cli.options import subcommand
from refladder.errors import UsageError
from refladder.files.ladder_sets import LadderSet, as_ladder_set, load_ladders
from refladder.ladders.certify_command import print_certificate
from refladder.options import like

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.records import Link


@subcommand(
    "Print the ladder of a context, with scored outputs on it.",
    "set_argument",
    "context_argument",
    "dimension",
    "scores",
    like("link", help="Link file of `refladder link`: place the rows on its target scale."),
    "as_json",
)
def command(
    *,
    ladders: str,
    context_id: str | None,
    dimension: tuple[str, ...],
    scores: str | None,
    link: Path | None,
    as_json: bool,
) -> None:
    """Print the ladder of CONTEXT_ID in SET, best rung first. Without CONTEXT_ID, list contexts and the certificate.

    Long texts are shortened; --json prints them in full.

    Examples:
        refladder show demo/story
        refladder show demo/story story-01 --dimension coherence --scores scored.jsonl
    """
    from refladder.jobs.ladder_tables import ladder_view
    from refladder.jobs.show import check_of_scores, ladder_json, ladders_of
    from refladder.ladders.certificate_tables import ladder_line

    out = console.console()
    opened = load_ladders(ladders)
    if context_id is None:
        _list_contexts(opened, dimension, as_json=as_json)
        return
    for chosen, ladder, placed in ladders_of(opened, context_id, dimension, scores, link):
        if ladder is None:
            console.say(f"no {chosen.name} ladder for {context_id}", err=True)
        elif as_json:
            console.say_json(ladder_json(ladder, placed))
        else:
            if opened.certificate is not None:
                console.say(ladder_line(opened.certificate, context_id, chosen.name))
            for part in ladder_view(opened, ladder, chosen, placed):
                out.print(part)
    if scores is not None and not as_json:
        console.say_lines(check_of_scores(scores))


def _list_contexts(opened: LadderSet, dimensions: tuple[str, ...], *, as_json: bool) -> None:
    from refladder.display.rendering import short
    from refladder.jobs.show import contexts_in

    for line in contexts_in(opened, dimensions):
        if as_json:
            console.say_json(line)
        else:
            console.say(f"{line['context_id']}  {short(line['text'], 70)}")
    if as_json:
        return
    if opened.certificate is None:
        console.say("no certificate; see whether the ladders rise with `refladder certify`")
    else:
        print_certificate(opened.certificate)


@command.call
def show(
    ladders: str | Path | LadderSet,
    context_id: str | None = None,
    *,
    dimensions: Sequence[str] = (),
    scores: Any = None,
    link: str | Path | Link | None = None,
) -> list[dict[str, Any]]:
    """Return the ladders of a context, with scored outputs on them, or the contexts of a set, as `refladder show --json`.

    Args:
        ladders: a shipped name, a folder, an address, or a set from `load_ladders`.
        context_id: the context; None lists the contexts.
        dimensions: names of the dimensions; empty for all of the set.
        scores: scored rows from `score`, as a path or a table of any kind.
        link: a link from `link`, or its file: place the rows on the scale that it maps to.

    Returns:
        For a context, a dict for each ladder: `context_id`, `dimension`, `rungs` (`level` and `text`, the worst first)
        and `outputs` (`id`, `text`, `score`, `grade`, `spread` and `note`, the best first). Otherwise a dict for each
        context: `context_id` and `text`.

    Raises:
        UnknownNameError: the set has no such context or dimension.
        UsageError: scores without a context.
        DataError: the set, the scores or the link cannot be read.
    """
    from refladder.jobs.show import contexts_in, ladder_json, ladders_of

    with Call(show, locals(), table="") as call:
        opened = as_ladder_set(ladders)
        if context_id is None:
            if scores is not None:
                raise UsageError("scores are placed on the ladders of one context; give context_id")
            return list(contexts_in(opened, dimensions))
        path = None if scores is None else source_of(scores, "scores")
        shown = ladders_of(opened, context_id, dimensions, path, record_or_path(link))
        return [ladder_json(ladder, outputs) for _, ladder, outputs in shown if ladder is not None]
