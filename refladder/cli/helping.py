"""How help is printed: options under headings, the usual ones first, then examples. --help-all shows every option.

`explain` adds to an error what a user probably meant.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from typing import TYPE_CHECKING

import click

from refladder.errors import did_you_mean
from refladder.files.tables import meant_number
from refladder.options import HEADINGS, OF_BACKENDS, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from refladder.options import Option

# Key in the meta of a context: every option is shown.
ALL = "refladder.help_all"
# A command with more options has headings.
_GROUPED = 8
# A command with more options hides the rare ones.
_MANY = 20
# Greatest width of the names of options.
_COLUMN = 26

# A wrong name, and what to give instead: the option of that name where the command has it, or a sentence.
_MEANT: dict[str, tuple[str, ...]] = {
    "--output": ("--out", "--html"),
    "--out": ("--html", "--write"),
    "--model": ("--judge", "--writer"),
    "--judge-model": ("--judge",),
    "--llm": ("--judge", "--writer"),
    "--url": ("--base-url",),
    "--score": ("--by",),
    "--score-column": ("--by",),
    "--criterion": ("--dimension",),
    "--criteria": ("--dimension",),
    "--metric": ("--dimension", "--by"),
    "--threshold": ("--min",),
    "--ladder-set": ("--ladders",),
    "--columns": ("--column",),
}
_SENTENCES = {
    "--api-key": "Set OPENAI_API_KEY, or name a file with --judge-option api_key_file=PATH.",
    "--key": "Set OPENAI_API_KEY, or name a file with --judge-option api_key_file=PATH.",
    "--input": "Name the table without an option.",
    "--limit": "Every row is used; for a trial, cut the table first.",
}
_MISSING = {
    "--margin": "Give the least difference of the scores of a pair, such as --margin 0.5.",
}


class Formatter(click.HelpFormatter):
    """Wraps lines at spaces only, so that no name is broken."""

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        margin = " " * self.current_indent
        paragraphs = [_filled(paragraph, self.width, margin) for paragraph in text.split("\n\n")]
        self.write("\n\n".join(paragraphs) + "\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 0, col_spacing: int = 2
    ) -> None:
        """Write names with their descriptions beside them; a name longer than `col_max` has a line to itself."""
        rows, margin = list(rows), " " * self.current_indent
        column = min(col_max or max(len(name) for name, _ in rows), self.width // 3)
        below = " " * (len(margin) + column + col_spacing)
        for name, text in rows:
            lines = _filled(text, self.width, below)
            shown = f"{margin}{name}"
            start = len(margin) + column
            if len(shown) <= start:
                self.write(f"{shown:{start}}{lines[start:]}\n")
            else:
                self.write(f"{shown}\n{lines}\n")


class Context(click.Context):
    """A context whose help is set by `Formatter`."""

    formatter_class = Formatter


def declaration(parameter: click.Parameter) -> Option:
    """Return the declaration of a parameter; click makes --help itself."""
    return getattr(parameter, "declared", OPTIONS["help"])


def hidden(command: click.Command) -> set[str]:
    """Return the options that the short help of a command leaves out."""
    if len(command.params) <= _MANY:
        return set()
    return {each.opts[0] for each in command.params if declaration(each).rare}


def write_options(
    command: click.Command, context: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options of a command under their headings."""
    left_out = set() if context.meta.get(ALL) else hidden(command)
    groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
    for option in command.get_params(context):
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        if record is not None and option.opts[0] not in left_out:
            names = re.sub(
                "(FLOAT|INTEGER)( RANGE)?",
                lambda found: {"F": "NUMBER", "I": "N"}[found[0][0]],
                record[0],
            )
            grouped = len(command.params) > _GROUPED
            heading = declaration(option).heading if grouped else HEADINGS[0]
            groups[heading].append((names, record[1]))
    column = 0
    for name, _ in itertools.chain(*groups.values()):
        if len(name) <= _COLUMN:
            column = max(column, len(name))
    for heading, rows in groups.items():
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows, column)
    if left_out:
        formatter.write(f"\nMore options: {context.command_path} --help-all\n")


def write_examples(lines: str, formatter: click.HelpFormatter) -> None:
    """Write examples, one a line, or more with indentation; a long line is continued as a shell reads it."""
    with formatter.section("Examples"):
        margin = " " * formatter.current_indent
        for line in re.sub(r"\n {8}", " ", lines).split("\n"):
            whole = re.sub(
                '".*?"|--[a-z-]+ (?!-)', lambda unit: unit[0].replace(" ", "\0"), line.strip()
            )
            filled = _filled(whole, formatter.width - 2, margin, "  ").replace("\0", " ")
            formatter.write(filled.replace("\n", " \\\n") + "\n")


def _filled(text: str, width: int, margin: str, further: str = "") -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=margin + further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def meant_argument(name: str, parameters: Collection[str]) -> str:
    """Return what was probably meant by an argument that a call does not have."""
    if name in {"api_key", "key"}:
        return "; set OPENAI_API_KEY, or give judge_options={'api_key_file': PATH}"
    options = [each for each in ("judge_options", "writer_options") if each in parameters]
    if name in OF_BACKENDS and options:
        return f"; give {options[0]}={{{name!r}: ...}}"
    known = (each.removeprefix("--") for each in _MEANT.get(f"--{name.replace('_', '-')}", ()))
    meant = next((each for each in known if each in parameters), None)
    if meant:
        return f"; did you mean {meant!r}?"
    return did_you_mean(name, parameters, end=f". It has: {', '.join(parameters)}")


def explain(error: click.ClickException) -> click.ClickException:
    """Return the error with what was probably meant."""
    if error.message.startswith("Got unexpected extra argument"):
        words = "Name the option of each value, as in --out FILE; a value with spaces needs quotes."
        return click.UsageError(f"{error.message}. {words}", getattr(error, "ctx", None))
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        flag = f"--{error.option_name.lstrip('-')}"
        known = {name for each in error.ctx.command.params for name in each.opts}
        meant = next((name for name in _MEANT.get(flag, ()) if name in known), None)
        hint = _SENTENCES.get(flag) if meant is None else f"Did you mean {meant!r}?"
        if hint is not None:
            return click.UsageError(f"No such option {flag!r}. {hint}", error.ctx)
    if isinstance(error, click.BadParameter) and (
        found := re.fullmatch(r"('(.+)' is not a valid \w+( range)?)\.", error.message)
    ):
        text = f"{found[1]}{meant_number(found[2])}."
        return type(error)(text, error.ctx, error.param, error.param_hint)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        for name in error.param.opts:
            if name in _MISSING:
                return click.UsageError(f"{error.format_message()} {_MISSING[name]}", error.ctx)
    return error
