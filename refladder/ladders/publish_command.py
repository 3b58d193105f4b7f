"""refladder publish: the command and the call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from refladder.cli import console
from refladder.cli.calling import Call
from refladder.cli.options import subcommand
from refladder.display.log import Log, log_lines
from refladder.options import like
from refladder.settings import Publishing, chosen

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.ladders.publish import Publication


@subcommand(
    "Publish a ladder set on the Hugging Face Hub.",
    "set_argument",
    "repository",
    "private",
    "tag",
    "message",
    "without_contexts",
    "licence",
    "baseline",
    like(
        "dry_run",
        help="Print the files, the card, and what differs from the published revision; send nothing.",
    ),
    like(
        "out_folder", help="New folder for the files and the card of the release; nothing is sent."
    ),
    "endpoint",
    "as_json",
    asked=Publishing,
)
def command(*, asked: Publishing, as_json: bool) -> None:
    """Publish SET as the data set ORG/NAME: Parquet files, a manifest and a card, in one commit.

    The card of an existing repository keeps its prose and its other configs. The token comes from `hf auth login` or
    the variable HF_TOKEN.

    Examples:
        refladder publish my-ladders ORG/NAME --license cc-by-4.0 --dry-run
        refladder publish my-ladders ORG/NAME --license cc-by-4.0 --tag v1
    """
    from refladder.ladders.publish import run

    done = run(asked, console.Console())
    console.say_lines(done.notices)
    if as_json:
        keys = ("address", "commit", "url", "files", "removed", "card", "changes")
        console.say_json({key: getattr(done, key) for key in keys})
    elif asked.out is not None:
        console.notify(
            f"{asked.out} holds the {len(done.files)} files of the release; nothing was sent"
        )
    elif done.commit is None:
        _print_plan(done)
    else:
        console.notify(f"{done.url} is now at {done.commit}")
        console.say(f"hub:{asked.repository}@{done.commit}")


def _print_plan(done: Publication) -> None:
    width = max(map(len, done.files))
    for path, size in sorted(done.files.items()):
        console.say(f"{path:<{width}} {math.ceil(size / 1000):>9,} kB")
    console.say(f"\n{done.card}")
    console.say("\nCompared with the published revision:")
    for line in done.changes:
        console.say(line)
    console.notify(
        "Nothing was sent. A card that the repository has keeps its prose and its other configs."
    )


@command.call
def publish(
    ladders: str | Path,
    repository: str,
    *,
    private: bool = False,
    tag: str | None = None,
    message: str | None = None,
    without_contexts: bool = False,
    licence: str | None = None,
    baseline: bool = False,
    dry_run: bool = False,
    out: str | Path | None = None,
    endpoint: str | None = None,
) -> Publication:
    """Publish a ladder set as a data set of the Hugging Face Hub, in one commit, as `refladder publish`.

    A certificate in the folder is published too. The card of the repository keeps its prose and its other configs. A
    commit of somebody else that comes first is merged, once. The token is that of `hf auth login`, or of the variable
    `HF_TOKEN`.

    Args:
        ladders: a folder of `build`, or a shipped name.
        repository: ORG/NAME, created if it does not exist.
        private: create it as private.
        tag: a tag for the commit, such as `v1`.
        message: of the commit.
        without_contexts: leave out the context texts; their digests are published.
        licence: of the texts, such as `cc-by-4.0`; None keeps that of the card, or states none.
        baseline: publish ladders of the built-in writer, as a baseline.
        dry_run: prepare everything and send nothing.
        out: new folder for the files that would be sent to an empty repository; nothing is sent.
        endpoint: address of the Hub; None for the variable `HF_ENDPOINT`, else the usual one.

    Returns:
        What was published: `address` goes into every call that takes `ladders`. What the publisher should know is in
        `notices`, and in warnings of the logger `refladder`.

    Raises:
        UsageError: an argument is wrong, or the set is not for publishing.
        DataError: a file is wrong; or the Hub refuses or cannot be reached, and then nothing was changed.
    """
    from refladder.ladders.publish import run

    with Call(publish, locals(), table="") as call:
        done = run(chosen(Publishing, call.given), Log())
        log_lines(done.notices)
        return done
