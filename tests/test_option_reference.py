"""docs/reference/options.md lists every option of every command, as the commands declare them.

`python tests/test_option_reference.py` writes the page anew.
"""

from __future__ import annotations

from pathlib import Path

import click

from refladder.cli.options import options_of
from refladder.commands.main import COMMANDS, command_of
from refladder.options import HEADINGS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "options.md"
START = """\
# Options of the commands

All options of each command, also those that only `--help-all` shows. `refladder COMMAND --help` prints the usual ones
with examples. The same names are the keys of a [configuration file](command-line.md#options-in-a-file).
"""
VALUES = {bool: "", int: "whole number", float: "number", Path: "path", str: "text"}


def commands():
    for name in COMMANDS:
        command = command_of(name)
        if isinstance(command, click.Group):
            for each in command.commands.values():
                yield f"{name} {each.name}", each
        else:
            yield name, command


def value_of(option):
    if isinstance(option.type, tuple):
        return " or ".join(f"`{each}`" for each in option.type)
    if option.metavar:
        return " or ".join(f"`{each}`" for each in option.metavar.split("|"))
    return VALUES[option.type]


def row(option):
    names = ", ".join(f"`{flag}`" for flag in filter(None, (option.flag, option.alias)))
    default = "required" if option.required else ""
    if option.default is not None:
        default = f"`{option.default}`"
    cells = (names, value_of(option), default, option.help)
    assert "|" not in "".join(cells), "a bar ends a cell"
    return f"| {' | '.join(cells)} |"


def section(name, command):
    # As cli has them: a command keeps the option of its first context.
    settings = {"help_option_names": ["-h", "--help"]}
    with click.Context(command, info_name=f"refladder {name}", **settings) as context:
        usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n## {name}\n{command.short_help}\n\n```\nrefladder {name} {usage}\n```"
    for heading in HEADINGS:
        options = [each for each in options_of(command) if each.heading == heading]
        if options:
            yield f"\n**{heading}**\n\n| option | value | default | meaning |\n|---|---|---|---|"
            yield from map(row, options)


def page():
    parts = [line for name, command in commands() for line in section(name, command)]
    return "\n".join([START, *parts]).replace("\n\n\n", "\n\n") + "\n"


def test_the_page_lists_the_options_that_the_commands_declare():
    assert PAGE.read_text("utf-8") == page(), f"run python {Path(__file__).name} anew"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
