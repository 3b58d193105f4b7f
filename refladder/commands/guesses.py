"""What people type for an option that has another name, and for an option that is missing."""

from __future__ import annotations

import click

# A wrong name, and what to give instead: the option of that name where the command has it, or a sentence.
OPTIONS: dict[str, tuple[str, ...]] = {
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
SENTENCES = {
    "--api-key": "Set OPENAI_API_KEY, or name a file with --judge-option api_key_file=PATH.",
    "--key": "Set OPENAI_API_KEY, or name a file with --judge-option api_key_file=PATH.",
    "--input": "Name the table without an option.",
    "--limit": "Every row is used; for a trial, cut the table first.",
}
MISSING = {
    "--ladders": "--ladders general/reply serves replies to any prompt; `refladder list ladders` lists the sets, and "
    "`refladder build` makes one.",
    "--margin": "Give the least difference of the scores of a pair, such as --margin 0.5.",
}


def explain(error: click.ClickException) -> click.ClickException:
    """Return the error with what was probably meant."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        flag = f"--{error.option_name.lstrip('-')}"
        known = {name for each in error.ctx.command.params for name in each.opts}
        meant = next((name for name in OPTIONS.get(flag, ()) if name in known), None)
        hint = SENTENCES.get(flag) if meant is None else f"Did you mean {meant!r}?"
        if hint is not None:
            return click.UsageError(f"No such option {flag!r}. {hint}", error.ctx)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        hints = [MISSING[name] for name in error.param.opts if name in MISSING]
        return (
            click.UsageError(f"{error.format_message()} {hints[0]}", error.ctx) if hints else error
        )
    return error
