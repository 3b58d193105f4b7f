"""A command and the call of the same name take the same settings, with the same defaults."""

import inspect
from dataclasses import MISSING, fields
from importlib import import_module

import click
import pytest

import refladder
from refladder import settings
from refladder.commands.main import COMMANDS

CALLS = [name for name in COMMANDS if name in refladder._PUBLIC]
# The option of a parameter whose name differs.
OPTION_OF = {
    "columns": "column", "dimensions": "dimension", "judge_options": "judge_option",
    "link": "link_file", "max": "most", "min": "least",
    "options": "option", "weights": "weight", "writer_options": "writer_option",
}  # fmt: skip
OF_ONE_COMMAND = {
    ("filter", "by"): "top_by", ("link", "judgments"): "first", ("link", "to"): "second",
    ("compete", "id"): "id_column", ("compete", "prompt"): "prompt_file",
}  # fmt: skip
# A call takes `sampling`, `settings` and `protocol` as records; a table with a task is `own` on the command line.
RECORDS = {"sampling", "settings", "protocol", "task"}
EMPTY = (None, (), {}, "", False, 0)


def cases():
    for name in CALLS:
        options = {
            each.name: each for each in import_module(f"refladder.commands.{name}").command.params
        }
        for parameter in inspect.signature(getattr(refladder, name)).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in RECORDS:
                yield pytest.param(name, parameter, options, id=f"{name}-{parameter.name}")


@pytest.mark.parametrize(("name", "parameter", "options"), list(cases()))
def test_a_parameter_is_an_option_with_the_same_default(name, parameter, options):
    option = OF_ONE_COMMAND.get((name, parameter.name)) or OPTION_OF.get(
        parameter.name, parameter.name
    )
    declared = options[option if option in options else parameter.name]
    if not isinstance(declared, click.Option) or parameter.default is parameter.empty:
        return
    mine = None if parameter.default in EMPTY else parameter.default
    its = declared.default
    its = None if repr(its).startswith("Sentinel") or its in EMPTY or its == "-" else its
    assert mine == its


@pytest.mark.parametrize(
    "kind", [settings.Scoring, settings.Filtering, settings.Asking, settings.Scale]
)
def test_a_setting_has_the_default_of_the_calls(kind):
    checked = 0
    for name in CALLS:
        parameters = inspect.signature(getattr(refladder, name)).parameters
        for each in fields(kind):
            default = each.default if each.default is not MISSING else None
            if each.name in parameters and parameters[each.name].default not in (
                *EMPTY,
                inspect.Parameter.empty,
            ):
                assert parameters[each.name].default == default, (name, each.name)
                checked += 1
    assert checked
