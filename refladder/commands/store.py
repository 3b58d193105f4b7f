"""refladder store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from refladder.cli import console
from refladder.cli.options import Group, options
from refladder.errors import plural

if TYPE_CHECKING:
    from pathlib import Path

    from refladder.backends.cache.store import SqliteStore


@click.group(cls=Group, short_help="Show or empty a response store.")
def command() -> None:
    """Show or empty a response store, the file in which `--store` keeps the answers of models.

    Examples:
        refladder store show
        refladder store clear --store answers.sqlite
    """


def _open(path: Path | None) -> SqliteStore:
    from refladder.backends.cache.store import SqliteStore
    from refladder.session import default_store

    store = SqliteStore(path or default_store(), create=False)
    click.get_current_context().call_on_close(store.close)
    return store


@command.command(short_help="Print the path, the number of answers and the size.")
@options("store_file", "as_json")
def show(*, path: Path | None, as_json: bool) -> None:
    """Print the path of the file, the number of its answers and its size.

    Examples:
        refladder store show --json
    """
    store = _open(path)
    if as_json:
        console.say_json(
            {"store": str(store.path), "bytes": store.size(), "answers": store.count()}
        )
    else:
        console.say(
            f"{store.path}: {plural(store.count(), 'answer')}, {store.size() / 1e6:,.1f} MB"
        )


@command.command(short_help="Delete all answers.")
@options("store_file", "as_json")
def clear(*, path: Path | None, as_json: bool) -> None:
    """Delete all answers and release their disk space.

    Examples:
        refladder store clear
    """
    store = _open(path)
    deleted = store.clear()
    if as_json:
        console.say_json({"store": str(store.path), "deleted": deleted, "bytes": store.size()})
    else:
        console.say(
            f"{store.path}: {plural(deleted, 'answer')} deleted, {store.size() / 1e6:,.1f} MB now"
        )
