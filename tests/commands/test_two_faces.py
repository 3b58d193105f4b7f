"""A command and the call of the same name take the same settings, with the same defaults."""

import inspect
from dataclasses import MISSING, fields
from importlib import import_module

import pytest

import refladder
from refladder import settings
from refladder.commands.main import COMMANDS
from refladder.commands.options import options_of

CALLS = [name for name in COMMANDS if name in refladder._PUBLIC]
# A call takes `sampling`, `settings` and `protocol` as records; a table with a task is `own` on the command line.
RECORDS = {"sampling", "settings", "protocol", "task"}
EMPTY = (None, (), {}, "", False, 0)


def differing(name):
    """Yield the parameters of a call that are no option of its command, or have another default there."""
    options = options_of(import_module(f"refladder.commands.{name}").command)
    for parameter in inspect.signature(getattr(refladder, name)).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.name in RECORDS:
            continue
        option = next((each for each in options if parameter.name in each.names), None)
        if option is None:
            yield name, parameter.name, "no option"
        elif not option.is_argument and parameter.default is not parameter.empty:
            mine = None if parameter.default in EMPTY else parameter.default
            its = None if option.default in (*EMPTY, "-") else option.default
            if mine != its:
                yield name, parameter.name, (mine, its)


def test_a_parameter_is_an_option_with_the_same_default():
    assert [each for name in CALLS for each in differing(name)] == []


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
