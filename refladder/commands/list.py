"""refladder list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.cli import console
from refladder.cli.options import subcommand
from refladder.errors import UnknownNameError

if TYPE_CHECKING:
    from pathlib import Path

_MEANT = dict.fromkeys(("judge", "writer", "model"), "backends")
KINDS = ("benchmarks", "ladders", "backends", "methods", "modes", "rules", "prompts")


@subcommand(
    "List the available benchmarks, ladders, backends, methods, ...", "kind", "prompts", "as_json"
)
def command(*, kind: str | None, prompts: Path | None, as_json: bool) -> None:
    """List the names that other commands accept, all of them or those of one KIND.

    KIND is benchmarks, ladders, backends, methods, modes, rules or prompts.

    Examples:
        refladder list ladders
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from refladder.cli.inventory import inventory

    if kind is not None and kind not in KINDS:
        raise UnknownNameError("kind of thing", kind, KINDS, _MEANT.get(kind.removesuffix("s")))
    for chosen in (kind,) if kind else KINDS:
        entries = inventory(chosen, prompts)
        if as_json:
            for entry in entries:
                console.say_json({"kind": chosen, **entry})
            continue
        table = Table(box=box.SIMPLE_HEAD, title=chosen, title_justify="left")
        table.add_column("name", no_wrap=True)
        table.add_column("what it is", overflow="fold")
        for entry in entries:
            table.add_row(Text(entry["name"]), Text(entry["about"]))
        console.console().print(table)
