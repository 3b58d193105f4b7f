"""refladder store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refladder.commands import console
from refladder.errors import plural
from refladder.files.tables import STANDARD

if TYPE_CHECKING:
    from refladder.backends.cache.store import ResponseStore

DAY = 86_400  # seconds
DAMAGED = 1  # exit code of `verify`

STORE = click.option(
    "--store",
    "path",
    type=console.PATH,
    envvar="REFLADDER_STORE",
    help="Response store. Default: the variable REFLADDER_STORE, else the store in the user's cache folder.",
)


@click.group(cls=console.Group, short_help="Inspect and maintain a response store.")
def command() -> None:
    """Inspect and maintain a response store, the file in which `--store` keeps the answers of models.

    Examples:
        refladder store show
        refladder store prune --store answers.sqlite --older-than 30
    """


def _open(path: Path | None, *, create: bool = False, read_only: bool = False) -> ResponseStore:
    from refladder.backends.cache.store import ResponseStore
    from refladder.session import default_store

    store = ResponseStore(path or default_store(), create=create, read_only=read_only)
    click.get_current_context().call_on_close(store.close)
    return store


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))


@command.command(short_help="Print the number of answers per backend.")
@STORE
@console.JSON
def show(*, path: Path | None, as_json: bool) -> None:
    """Print the number of answers per backend, with the times of the first and the last (UTC).

    Examples:
        refladder store show --json
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    store = _open(path, read_only=True)
    holdings = store.holdings()
    total, size = sum(holding.answers for holding in holdings), store.size()
    if as_json:
        rows = [holding._asdict() for holding in holdings]
        console.say_json({"store": str(store.path), "bytes": size, "answers": total, "backends": rows})
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("backend", overflow="fold")
    table.add_column("kind")
    table.add_column("answers", justify="right")
    table.add_column("first")
    table.add_column("last")
    for holding in holdings:
        cells = (holding.kind, f"{holding.answers:,}", _day(holding.first), _day(holding.last))
        table.add_row(Text(console.printable(holding.fingerprint)), *cells)
    console.console().print(table)
    console.say(f"{store.path}: {plural(total, 'answer')}, {size / 1e6:,.1f} MB")


@command.command(short_help="Check the file and every answer in it.")
@STORE
@click.option("--remove", is_flag=True, help="Delete damaged answers. They are requested again when needed.")
@console.JSON
def verify(*, path: Path | None, remove: bool, as_json: bool) -> int:
    """Check the structure of the file and every answer in it. Exit code 1: some answers are damaged.

    Examples:
        refladder store verify --remove
    """
    store = _open(path, read_only=not remove)
    count, damaged = store.verify(remove=remove)
    if as_json:
        keys = [key.hex() for key in damaged]
        console.say_json({"store": str(store.path), "answers": count, "damaged": keys, "removed": remove})
    else:
        removed = " and removed" if remove else ""
        console.say(f"{store.path}: {plural(count, 'answer')}, {len(damaged):,} damaged{removed}")
        for key in damaged[:10]:
            console.say(f"  {key.hex()}")
        if damaged and not remove:
            console.say("remove them with --remove: they are asked again when they are needed")
    return DAMAGED if damaged and not remove else 0


@command.command()
@STORE
@click.option(
    "--backend",
    "backend",
    multiple=True,
    metavar="FINGERPRINT",
    help="Backend whose answers to delete, as printed by `store show`. Repeatable. Default: all.",
)
@click.option(
    "--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="Minimum age of the answers to delete, in days."
)
@console.JSON
def prune(*, path: Path | None, backend: tuple[str, ...], older_than: float | None, as_json: bool) -> None:
    """Delete answers and release their disk space.

    Examples:
        refladder store prune --older-than 30
    """
    from refladder.errors import UsageError

    if not backend and older_than is None:
        raise UsageError(
            "nothing was named to delete; give --backend FINGERPRINT, --older-than DAYS, or both (0 days: everything)"
        )
    store = _open(path)
    before = None if older_than is None else int(time.time() - older_than * DAY) + (older_than == 0)
    deleted = store.prune(fingerprints=backend, before=before)
    if as_json:
        console.say_json({"store": str(store.path), "deleted": deleted, "bytes": store.size()})
    else:
        console.say(f"{store.path}: {plural(deleted, 'answer')} deleted, {store.size() / 1e6:,.1f} MB now")


@command.command("export")
@STORE
@click.option("--out", default=STANDARD, help="Output file; - is standard output.")
def export(*, path: Path | None, out: str) -> None:
    """Export every answer as a JSON line.

    Examples:
        refladder store export --out answers.jsonl
    """
    import sys

    from refladder.backends.cache.cached import to_lines
    from refladder.files.jsonl import atomic

    store = _open(path, read_only=True)
    if out == STANDARD:
        sys.stdout.buffer.writelines(to_lines(store.each()))
        sys.stdout.buffer.flush()
        return
    with atomic(Path(out)) as stream:
        for line in to_lines(store.each()):
            stream.write(line)


@command.command("import", short_help="Import the lines that `export` wrote.")
@click.argument("source", type=console.PATH)
@STORE
@console.JSON
def import_(*, source: Path, path: Path | None, as_json: bool) -> None:
    """Import SOURCE, a file written by `store export`. Existing answers are kept.

    Examples:
        refladder store import answers.jsonl
    """
    from refladder.backends.cache.cached import from_lines

    store = _open(path, create=True)
    _tell_new(store, store.insert(from_lines(source)), as_json=as_json)


@command.command(short_help="Import another response store.")
@click.argument("source", type=console.PATH)
@STORE
@console.JSON
def merge(*, source: Path, path: Path | None, as_json: bool) -> None:
    """Import the answers of SOURCE, another response store. Existing answers are kept.

    Examples:
        refladder store merge other.sqlite
    """
    other = _open(source, read_only=True)
    store = _open(path, create=True)
    _tell_new(store, store.insert(other.each()), as_json=as_json)


def _tell_new(store: ResponseStore, new: int, *, as_json: bool) -> None:
    if as_json:
        console.say_json({"store": str(store.path), "new": new})
    else:
        console.say(f"{store.path}: {plural(new, 'new answer')}")
