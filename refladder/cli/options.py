"""Commands made of the options in `refladder.options`: parsing, values as records, and help."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from refladder.cli import helping
from refladder.errors import UsageError, in_call, redacted
from refladder.files.tables import meant_number, parse_number
from refladder.options import OF_BACKENDS, OPTIONS, Option
from refladder.records import names_of
from refladder.typed import argument_check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_Function = Callable[..., Any]
P = ParamSpec("P")
T = TypeVar("T")
# Parameters that messages call "the table".
_TABLES = ("table", "data")
# Each command refuses these numbers itself.
_NOT_FINITE = ("nan", "inf", "infinity")
# Keys in the meta of a context: the options for all backends of a kind, and whether notices and progress are left out.
FOR_BACKENDS = "refladder.of_backends"
QUIET = "refladder.quiet"


class FromTable(click.Parameter):
    """A parameter of a command, with its declaration."""

    declared: Option

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Refuse an empty path to write, which would mean the working directory."""
        if value == "" and self.declared.writes:
            raise click.BadParameter("the path is empty; name a file or folder", ctx, self)
        return super().process_value(ctx, value)


class _Option(FromTable, click.Option):
    pass


class _Argument(FromTable, click.Argument):
    pass


def parameter(option: Option, **more: Any) -> FromTable:
    """Return an option as click's; `more` are settings of click that replace those of the option."""
    settings: dict[str, Any] = {
        "type": _type_of(option),
        "required": option.required,
        "metavar": option.metavar,
        "envvar": option.envvar,
        "expose_value": not option.backends,
    }
    if option.default is not None:
        settings["default"] = option.default
    if option.complete:
        settings["shell_complete"] = functools.partial(_complete, option.complete)
    if option.backends:
        settings["callback"] = functools.partial(_keep_for_backends, option)
    settings |= more
    made: FromTable
    if option.is_argument:
        settings["nargs"] = -1 if option.multiple else 1
        if option.flag.lower() != option.name:
            settings["metavar"] = option.metavar or option.flag
        made = _Argument([option.name], **settings)
    else:
        settings["multiple"] = option.multiple
        if option.type is bool:
            settings["is_flag"] = True
        if option.bare is not None:
            settings |= {"is_flag": False, "flag_value": option.bare}
        names = filter(None, (option.name, option.flag, option.alias))
        made = _Option([*names], help=option.help, **settings)
    made.declared = option
    return made


def _type_of(option: Option) -> Any:
    if isinstance(option.type, tuple):
        return click.Choice(option.type)
    if option.type is Path:
        return click.Path(path_type=Path)
    if (option.at_least, option.at_most, option.above) == (None, None, None):
        return option.type
    ranges: Any = click.IntRange if option.type is int else click.FloatRange
    least = option.at_least if option.above is None else option.above
    return ranges(least, option.at_most, min_open=option.above is not None)


def _complete(
    kind: str, _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the names of one kind that begin with what was typed, for the completion of a shell."""
    from refladder.cli.inventory import inventory

    return [entry["name"] for entry in inventory(kind) if entry["name"].startswith(incomplete)]


def _keep_for_backends(
    option: Option, context: click.Context, _parameter: click.Parameter, value: Any
) -> None:
    """Keep a value in the context, where `backend_options` finds it for judge and writer alike."""
    if value is not None and value is not False:
        text = "true" if value is True else value
        for kind in option.backends:
            context.meta.setdefault(FOR_BACKENDS, {}).setdefault(kind, {})[option.name] = text


def options(*given: str | Option, **records: type) -> Callable[..., Any]:
    """Give a command options of the table, by their keys or as `like` returns them.

    The function gets what it names: options (a dict for those of the form KEY=VALUE), and `records`, each made of the
    options that are fields of it. A record that is a `dict` holds all options and records as a call holds its arguments.
    """
    declared = [OPTIONS[each] if isinstance(each, str) else each for each in given]

    def apply(command: Callable[..., Any]) -> Callable[..., Any]:
        named = inspect.signature(command).parameters

        @functools.wraps(command)
        def call(*arguments: Any, **values: Any) -> Any:
            for option in declared:
                if option.pairs:
                    values[option.name] = _read_pairs(option, values[option.name])
            made: dict[str, Any] = {}
            for record, kind in records.items():
                if kind is not dict:
                    made[record] = _record_of(kind, declared, values)
            given = {**made, **_as_in_a_call(declared, values)}
            for record, kind in records.items():
                # The format of a table is an option `given` too.
                values[record] = given if kind is dict else made[record]
            its = {name: value for name, value in values.items() if name in named}
            return command(*arguments, **its)

        call.__click_params__ = [  # type: ignore[attr-defined]
            parameter(each) for each in reversed(declared)
        ]
        return call

    return apply


def _record_of(kind: type, declared: Iterable[Option], values: Mapping[str, Any]) -> Any:
    """Make a record of the options that are fields of it."""
    names = names_of(fields(kind))
    settings = {}
    for option in declared:
        for name in option.names:
            if name in names:
                settings[name] = values[option.name]
    return kind(**settings)


def _as_in_a_call(declared: Iterable[Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of options under the names that the call gives them, with the options of all backends."""
    given = {each.parameter: values[each.name] for each in declared if not each.backends}
    for role in ("judge", "writer"):
        if role in given:
            options = given.get(f"{role}_options")
            given[f"{role}_options"] = backend_options(given[role] or "builtin", options)
    models = given.get("models", {})
    given["model_options"] = {name: backend_options(model) for name, model in models.items()}
    return given


def options_of(command: click.Command) -> list[Option]:
    """Return the declarations of a command's options and arguments."""
    return [each.declared for each in command.params if isinstance(each, FromTable)]


def _by_parameter(command: click.Command) -> dict[str, Option]:
    """Return the options of a command by the names of their parameters, in its function and in its call."""
    of_parameter: dict[str, Option] = {}
    for each in options_of(command):
        of_parameter |= dict.fromkeys(each.names, each)
    return of_parameter


def given_options() -> Iterator[tuple[str, Option]]:
    """Yield flags and options of the running command that are on the command line or in the configuration file."""
    context = click.get_current_context()
    by_user = (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.DEFAULT_MAP)
    for option in options_of(context.command):
        if context.get_parameter_source(option.name) in by_user:
            yield option.flag, option


def given_arguments(
    command: click.Command, given: Mapping[str, object]
) -> Iterator[tuple[str, Option | None]]:
    """Yield the names of a call's arguments that are given and not the default, with their options, if they are one."""
    of_parameter = _by_parameter(command)
    for name, value in given.items():
        option = of_parameter.get(name)
        empty = isinstance(value, Sequence | Mapping) and not value
        if value is None or value is False or empty:
            continue
        # A data frame cannot be compared with a default.
        if option is None or option.default is None or value != option.default:
            yield name, option


def _read_pairs(option: Option, texts: Sequence[str]) -> Mapping[str, Any]:
    """Return the values of an option of the form KEY=VALUE."""
    read = numbers if option.pairs == "number" else pairs
    return read(texts, option.flag, option.metavar or "KEY=VALUE")


def pairs(given: Sequence[str], flag: str, form: str = "KEY=VALUE") -> dict[str, str]:
    """Return `KEY=VALUE` options as a mapping; `form` is what the help calls the value."""
    values: dict[str, str] = {}
    for option in given:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {option!r}: must be {form}")
        if key in values:
            first, second = redacted({key: values[key]})[key], redacted({key: value})[key]
            raise UsageError(
                f"{flag} {key}: given twice, as {first!r} and {second!r}; give it once"
            )
        values[key] = value
    return values


def numbers(given: Sequence[str], flag: str, form: str = "KEY=NUMBER") -> dict[str, float]:
    """Return `KEY=NUMBER` options as a mapping."""
    values = {}
    for key, value in pairs(given, flag, form).items():
        if key[-1:] in {"<", ">"}:
            raise UsageError(
                f"{flag} {key}={value}: give {flag} {key[:-1]}={value}; {flag} keeps the bound itself too"
            )
        number = float(value) if value.lower().lstrip("+-") in _NOT_FINITE else parse_number(value)
        if number is None:
            raise UsageError(
                f"{flag} {key}={value}: {value!r} is not a number{meant_number(value)}"
            )
        values[key] = number
    return values


def backend_options(name: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options of a backend: those given, and those of the command for every backend of its kind."""
    context = click.get_current_context(silent=True)
    kind = name.partition(":")[0]
    options: dict[str, Any] = {}
    if context is not None:
        options |= context.meta.get(FOR_BACKENDS, {}).get(kind, {})
    for key, value in (given or {}).items():
        options[key.replace("-", "_")] = value
    return options


def _show_all(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[helping.ALL] = True
        click.echo(context.get_help())
        context.exit()


def _silence(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.meta[QUIET] = True
        # transformers reads it too.
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


class Command(click.Command):
    """A command whose outputs are none of the files that it reads, as in its call; its docstring ends in examples."""

    context_class = helping.Context

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params.append(parameter(OPTIONS["quiet"], expose_value=False, callback=_silence))

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Return its parameters, with --help and --help-all."""
        help_all = parameter(
            OPTIONS["help_all"], expose_value=False, callback=_show_all, is_eager=True
        )
        return [*super().get_params(context), help_all]

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
        """Return what the command does, and its examples."""
        text, _, examples = inspect.cleandoc(self.help or "").partition("\n\nExamples:\n")
        return text, examples

    def invoke(self, context: click.Context) -> Any:
        """Run the command, after a check of its files."""
        from refladder.cli.overwriting import Named, check_outputs

        given = []
        for parent in dict.fromkeys((context.find_root(), context)):
            for each in parent.command.params:
                if isinstance(each, FromTable) and each.name in parent.params:
                    is_option = isinstance(each, click.Option)
                    label = each.opts[0] if is_option else each.human_readable_name
                    given.append(Named(each.declared, parent.params[each.name], label))
        check_outputs(given)
        self._check_backends(context)
        return super().invoke(context)

    def _check_backends(self, context: click.Context) -> None:
        """Refuse an option of backends that none of the named ones has; `--add` takes the writer from the set."""
        named = str(context.params)
        for each in options_of(self):
            given = (
                context.get_parameter_source(each.name) is click.core.ParameterSource.COMMANDLINE
            )
            used = any(f"{kind}:" in named for kind in each.backends) or context.params.get("add")
            if each.backends and given and not used:
                kinds = " or ".join(f"{kind}:MODEL" for kind in each.backends)
                raise UsageError(f"{each.flag} is for {kinds}; name such a model, as with --judge")

    def call(self, function: Callable[P, T]) -> Callable[P, T]:
        """Decorate the call of the command: check types and files, and use its own words in errors and after Ctrl-C."""
        signature, types = inspect.signature(function), argument_check(function)
        parameters = signature.parameters
        of_parameter = _by_parameter(self)
        # What messages call `--flag` is a parameter here, or a key of `judge_options` and `writer_options`.
        words = {name.replace("_", "-"): name for name in (*signature.parameters, *OF_BACKENDS)}
        for name in parameters:
            if name in of_parameter:
                words[of_parameter[name].flag.lstrip("-")] = name

        @functools.wraps(function)
        def check(*arguments: P.args, **options: P.kwargs) -> T:
            from refladder.cli.overwriting import Named, check_outputs

            for name in options.keys() - parameters.keys():
                meant = helping.meant_argument(name, parameters)
                raise TypeError(f"refladder.{function.__name__} has no argument {name!r}{meant}")
            positional, named = types(arguments, options)
            try:
                given = signature.bind(*positional, **named).arguments
            except TypeError as error:
                several = ""
                if len(arguments) > 1:
                    first, second, *_ = (*parameters, "", "")
                    several = f"; name those after {first}, such as {second}=..."
                raise TypeError(f"refladder.{function.__name__}: {error}{several}") from None
            files = []
            for name, value in given.items():
                if name in of_parameter:
                    label = "the table" if name in _TABLES else name
                    files.append(Named(of_parameter[name], value, label))
            with in_call(words):
                check_outputs(files)
                try:
                    return function(*positional, **named)
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(_interrupted(function, given)) from None

        return check


def _interrupted(call: Callable[..., Any], given: Mapping[str, object]) -> str:
    """Say how an interrupted call is continued."""
    sentence = f"refladder.{call.__name__} was interrupted"
    names = inspect.signature(call).parameters.keys()
    keeping = [each for each in ("out", "work", "judgments") if {each, "store"} <= names]
    if not keeping:
        return f"{sentence}; make the same call again"
    for each in keeping:
        if given.get(each) is not None:
            kept = f"its answers so far are kept for {each}={str(given[each])!r}"
            return f"{sentence}; {kept}: make the same call again to continue"
    return f"{sentence}; make the same call again, with {keeping[0]}=PATH to keep answers and continue from them"


def subcommand(about: str, *given: str | Option, **records: type) -> Callable[[_Function], Command]:
    """Make a command of a function; `about` is its line in `refladder --help`, and the rest is as for `options`."""

    def apply(function: _Function) -> Command:
        made = click.command(cls=Command, short_help=about)
        return made(options(*given, **records)(function))

    return apply


class Group(Command, click.Group):
    """A command with commands."""

    command_class = Command

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options and the commands."""
        super().format_options(context, formatter)
        self.format_commands(context, formatter)
