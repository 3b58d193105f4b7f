"""What commands share: options, progress, tables, and the summary of a scoring run."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refladder.commands import helping
from refladder.errors import UsageError, redacted
from refladder.files.tables import FORMATS, parse_number
from refladder.report import plain_text
from refladder.report import progress as reporting
from refladder.report.summary import (
    cost_words,
    essential_lines,
    spent_lines,
    summary,
    summary_lines,
)
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderableType

    from refladder.events import Watch
    from refladder.records import JudgeCheck, Progress
    from refladder.report.rendering import PlainTable
    from refladder.scoring.columns import ScoreReport

UNSCORED = 3  # exit code: finished, but some outputs have no score
_NOT_FINITE = ("nan", "inf", "infinity")  # refused by each command in words of its own
_OF_KIND = (
    "refladder.options_of_kind"  # of a command's context: options for every backend of one kind
)
_QUIET = "refladder.quiet"  # likewise: whether notices and progress are left out
_WIDTH = 100  # of tables when standard output is not a terminal
printable, printable_json, in_words = plain_text.printable, plain_text.printable_json, cost_words


def options(*decorators: Callable[..., Any]) -> Callable[..., Any]:
    """Several click options as one decorator, in the order given."""

    def apply(command: Callable[..., Any]) -> Callable[..., Any]:
        return functools.reduce(
            lambda wrapped, decorator: decorator(wrapped), reversed(decorators), command
        )

    return apply


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[helping.ALL] = True
        click.echo(context.get_help())
        context.exit()


def _silence(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_QUIET] = True
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # which transformers reads too


QUIET = click.Option(
    ["--quiet"],
    is_flag=True,
    expose_value=False,
    callback=_silence,
    help="Print results, warnings and errors only.",
)
HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show all options and exit.",
)


class Command(click.Command):
    """A command whose outputs are none of the files that it reads; its docstring ends in examples."""

    context_class = helping.Context

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params.append(QUIET)

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Its parameters, with --help and --help-all."""
        return [*super().get_params(context), HELP_ALL]

    def format_help_text(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the command does."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(self._help[0])

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        helping.write_options(self, context, formatter)

    def format_epilog(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        helping.write_examples(self._help[1], formatter)

    @property
    def _help(self) -> tuple[str, str]:
        """What the command does, and its examples."""
        text, _, examples = inspect.cleandoc(self.help or "").partition("\n\nExamples:\n")
        return text, examples

    def invoke(self, context: click.Context) -> Any:
        """Run the command, after a check of its files."""
        from refladder.files.overwriting import check_outputs

        labels = {
            each.name or "": each.opts[0]
            if isinstance(each, click.Option)
            else each.human_readable_name
            for each in self.params
        }
        check_outputs(
            context.info_name or "", {**context.find_root().params, **context.params}, labels
        )
        return super().invoke(context)


class Group(Command, click.Group):
    """Such commands."""

    command_class = Command

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options and the commands."""
        super().format_options(context, formatter)
        self.format_commands(context, formatter)


def names_of(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """A shell completion that offers the names of one kind."""

    def complete(
        _context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[str]:
        from refladder.jobs.inventory import inventory

        return [entry["name"] for entry in inventory(kind) if entry["name"].startswith(incomplete)]

    return complete


def backend_option(flag: str, words: str, **settings: Any) -> Callable[..., Any]:
    """An option that names a backend."""
    return click.option(
        flag, metavar="BACKEND", shell_complete=names_of("backends"), help=words, **settings
    )


PATH = click.Path(path_type=Path)

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
PROMPTS = click.option(
    "--prompts", type=PATH, help="Folder of templates (TASK/ROLE.md) that replace the shipped ones."
)
RULE = click.option(
    "--rule",
    default="ladder-sum",
    metavar="NAME",
    shell_complete=names_of("rules"),
    help="Scoring rule (see `refladder list rules`).",
)
WEIGHT = click.option(
    "--weight",
    "weight",
    multiple=True,
    metavar="DIMENSION=NUMBER",
    help="Weight in the overall score. Repeatable. Default: 1 for each dimension.",
)
LEAST_MASS = click.option(
    "--least-mass",
    default=0.05,
    type=click.FloatRange(0, 1),
    help="Minimum label mass (total probability of the labels). A judgment below it is unparsed.",
)
JUDGE_OPTION = click.option(
    "--judge-option",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the judge, such as dtype=bfloat16 (hf) or mode=exact (openai). Repeatable.",
)
WRITER_OPTION = click.option(
    "--writer-option",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the writer backend. Repeatable.",
)


def _of_kind(name: str, *kinds: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Keeps an option's value in the context, where open_backend finds it for judge and writer alike."""

    def keep(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            for kind in kinds:
                context.meta.setdefault(_OF_KIND, {}).setdefault(kind, {})[name] = (
                    "true" if value is True else value
                )

    return keep


BASE_URL = click.option(
    "--base-url",
    metavar="URL",
    expose_value=False,
    callback=_of_kind("base_url", "openai", "reward"),
    help="Server of openai:MODEL or reward:MODEL, including /v1, or file:FOLDER for answers through files. Default: "
    "OPENAI_BASE_URL, else the OpenAI API.",
)
LOCAL = options(
    click.option(
        "--memory",
        metavar="SIZE",
        expose_value=False,
        callback=_of_kind("memory", "hf", "reward"),
        help="Memory limit of hf:MODEL on top of its weights, such as 8G. Default: 70 % of the free memory.",
    ),
    click.option(
        "--truncate-context",
        is_flag=True,
        expose_value=False,
        callback=_of_kind("truncate_context", "hf", "reward"),
        help="Truncate the context of prompts too long for hf:MODEL, and mark their judgments. Default: they are "
        "unparsed.",
    ),
)
DIMENSION = click.option(
    "--dimension",
    "dimension",
    multiple=True,
    metavar="NAME",
    help="Dimension to use. Repeatable. Default: all.",
)
COLUMN = click.option(
    "--column",
    "column",
    multiple=True,
    metavar="FIELD=NAME",
    help="Column of context_id, context, background, output, output_id or system, if named otherwise. Repeatable.",
)
FORMAT = click.option(
    "--format",
    "given",
    type=click.Choice(FORMATS),
    help="Format of the input. Default: by file extension; jsonl for -.",
)
OUT_FORMAT = click.option(
    "--out-format",
    type=click.Choice(FORMATS),
    help="Format of the output. Default: by file extension; for -, csv if the input is CSV, else jsonl.",
)
ESCAPE_FORMULAS = click.option(
    "--escape-formulas",
    is_flag=True,
    help="Put ' before CSV text that starts with =, +, - or @, so that a spreadsheet does not run it.",
)
ANSWERS = click.option(
    "--answers",
    default=0,
    type=click.IntRange(min=0),
    help="Number of answers to sample per question. 0 = read label probabilities.",
)


class _Answers(click.ParamType[int | str]):
    """A number, or a word that `Scoring` checks."""

    name = "answers"

    def convert(self, value: object, _param: object, _context: object) -> int | str:
        """A whole number as such."""
        return int(str(value)) if str(value).isdecimal() else str(value)


SCORE_ANSWERS = click.option(
    "--answers",
    default=0,
    type=_Answers(),
    metavar="N|stated[:K]",
    help="Sample N answers per question instead of reading label probabilities. 0 = read probabilities. stated: the "
    "judge sees all rungs in one prompt and writes its probabilities; K averages K orders of the rungs.",
)
JUDGING = options(
    click.option(
        "--both-orders", is_flag=True, help="Judge pairs in both orders. Doubles the calls."
    ),
    click.option(
        "--yes-no",
        is_flag=True,
        help="Ask three yes/no questions per comparison. Triples the calls.",
    ),
)
SEED = click.option("--seed", default=0, type=int, help="Random seed.")
RUNGS = click.option(
    "--rungs", default=5, type=click.IntRange(min=2), help="Number of rungs per ladder."
)
DRAWING = options(
    SEED,
    click.option(
        "--max-tokens",
        default=512,
        type=click.IntRange(min=1),
        help="Maximum length of a generated text, in tokens.",
    ),
    click.option(
        "--temperature",
        type=click.FloatRange(min=0),
        help="Sampling temperature (no unit). 0 = greedy decoding. Default: that of the writer's generation_config, "
        "else 1; answers of judges, 1.",
    ),
    click.option(
        "--top-p",
        type=click.FloatRange(0, 1),
        help="Nucleus sampling: share of probability to sample from. Default: as for --temperature.",
    ),
)
SAMPLING = options(
    RUNGS,
    click.option(
        "--attempts",
        default=3,
        type=click.IntRange(min=1),
        help="Maximum number of attempts to generate a rung.",
    ),
    DRAWING,
)


def pairs(given: Sequence[str], flag: str) -> dict[str, str]:
    """`KEY=VALUE` options as a mapping."""
    values: dict[str, str] = {}
    for option in given:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {option!r}: must be KEY=VALUE")
        if key in values:
            first, second = redacted({key: values[key]})[key], redacted({key: value})[key]
            raise UsageError(
                f"{flag} {key}: given twice, as {first!r} and {second!r}; give it once"
            )
        values[key] = value
    return values


def numbers(given: Sequence[str], flag: str) -> dict[str, float]:
    """`KEY=NUMBER` options as a mapping."""
    values = {}
    for key, value in pairs(given, flag).items():
        if key[-1:] in {"<", ">"}:
            raise UsageError(
                f"{flag} {key}={value}: give {flag} {key[:-1]}={value}; {flag} keeps the bound itself too"
            )
        number = float(value) if value.lower().lstrip("+-") in _NOT_FINITE else parse_number(value)
        if number is None:
            raise UsageError(f"{flag} {key}={value}: {value!r} is not a number")
        values[key] = number
    return values


def check_prompts(folder: Path | None) -> None:
    """Check every template of the user's folder before anything is asked."""
    from refladder.prompts import check_folder

    if folder is not None:
        check_folder(folder)


def backend_options(
    name: str, given: Sequence[str], flag: str = "--judge-option"
) -> dict[str, str]:
    """The options of a backend: those given, and options of the command for every backend of its kind."""
    chosen = {key.replace("-", "_"): value for key, value in pairs(given, flag).items()}
    context = click.get_current_context(silent=True)
    for_all = (
        {} if context is None else context.meta.get(_OF_KIND, {}).get(name.partition(":")[0], {})
    )
    return {**for_all, **chosen}


@functools.cache
def say_once(text: str) -> None:
    """Print a notice on standard error, the first time only."""
    notify(text)


def silent() -> bool:
    """Whether this command prints no notices and no progress."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def progress(
    what: str, watch: Callable[[], tuple[int, int | None]] | None = None
) -> AbstractContextManager[Progress | None]:
    """The progress of a job on standard error; None with --quiet."""
    return nullcontext() if silent() else reporting.progress(what, watch)


class Console:
    """Events of a command, on standard error. With JSON output, `checks` keeps the check of a judge for it."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self.checks: list[JudgeCheck] = []

    def progress(
        self, what: str, watch: Watch | None = None
    ) -> AbstractContextManager[Progress | None]:
        """Show a bar in a terminal, else a line now and then."""
        return progress(what, watch)

    def checked(self, checks: Sequence[JudgeCheck]) -> None:
        """Print the check of a judge."""
        self.checks = list(checks)
        if not self._as_json:
            say_checks(checks)

    def notice(self, text: str, *, warns: bool = False) -> None:
        """Print a notice; with --quiet only one that warns."""
        notify(text, warns=warns)


def resolved(context: click.Context) -> dict[str, Any]:
    """The configuration of this run, as it is stored with its output: every option with its value."""
    values = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in context.params.items()
    }
    for chosen in context.meta.get(_OF_KIND, {}).values():
        values.update(chosen)
    return {"command": context.info_name, "refladder": __version__, "options": redacted(values)}


def console() -> RichConsole:
    """Standard output for tables, 100 columns wide where it is no terminal; their text is made printable."""
    from rich.console import Console as RichConsole
    from rich.segment import Segment

    class Printable(RichConsole):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield (
                    segment if segment.control else Segment(printable(segment.text), segment.style)
                )

    if sys.stdout.isatty():
        return Printable(highlight=False)
    return Printable(highlight=False, width=_WIDTH)


def tell(
    report: ScoreReport,
    *,
    as_json: bool,
    to_stderr: bool,
    spent: Sequence[Mapping[str, Any]] = (),
    checks: Sequence[JudgeCheck] | None = None,
) -> int:
    """Print the summary of a scoring run, and what its backends were asked; returns the exit code."""
    if as_json:
        seen: dict[str, Any] = {}
        if checks is not None:
            seen["judge_check"] = [dataclasses.asdict(check) for check in checks] or None
        say_json({**summary(report), **seen, "spent": list(spent)}, err=to_stderr)
    else:
        say_summary(report)
        if not report.rows:
            say("The table has no rows, so nothing was scored", err=True)
        tell_spent(spent)
    return 0 if report.complete and report.rows else UNSCORED


def say_summary(report: ScoreReport) -> None:
    """Print the counts of a scoring run on standard error; with --quiet only if they change what its scores mean."""
    say_lines(essential_lines(report) if silent() else summary_lines(report))


def say_checks(checks: Sequence[JudgeCheck]) -> None:
    """Print the check of a judge on standard error; with --quiet its warnings only."""
    from refladder.scoring.judge_check import check_lines

    shown, warnings = check_lines(checks)
    for line in shown:
        notify(line)
    say_lines(warnings)


def tell_spent(spent: Sequence[Mapping[str, Any]]) -> None:
    """Print on standard error what backends were asked, where more is known than the number of judgments."""
    for line in spent_lines(spent):
        notify(line)


def say_lines(lines: Iterable[str]) -> None:
    """Print lines on standard error that may hold text from data."""
    for line in lines:
        say(line, err=True)


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text that may hold text from data; everything that commands print goes through here or `console`."""
    click.echo(printable(text), err=err, nl=nl)


def notify(text: str, *, warns: bool = False) -> None:
    """Print a notice on standard error; with --quiet only one that warns."""
    if warns or not silent():
        say(text, err=True)


def say_tables(tables: Iterable[PlainTable]) -> None:
    """Print tables in the width of the terminal."""
    from refladder.report.terminal import terminal_tables

    out = console()
    for part in terminal_tables(tables, out.width):
        out.print(part)


def say_json(value: object, *, err: bool = False) -> None:
    """Print a value as a line of JSON."""
    click.echo(printable_json(json.dumps(value, ensure_ascii=False)), err=err)
