"""Types of arguments, checked from their annotations before a call does anything.

Annotations are read as text, so that no type is imported for the check: a class is known by its name.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from refladder.errors import UsageError, did_you_mean

P = ParamSpec("P")
T = TypeVar("T")
# Annotations of values that the call checks itself, such as a table in memory.
_UNCHECKED = ("Any", "object", "Table")
# Integers of more bits are beyond the largest float.
_BITS_OF_A_FLOAT = 1023
# Values that messages show; others are named by their type.
_SHOWN = (
    str,
    bytes,
    bool,
    int,
    float,
    complex,
    list,
    tuple,
    dict,
    set,
    frozenset,
    type(None),
    Path,
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """One type: its name in messages, for one value and for several, the test of a value, and what the call gets."""

    one: str
    several: str
    fits: Callable[[object], bool]
    # This function gets the name of the argument and a value that fits, and checks what the value holds.
    taken: Callable[[str, Any], Any] = lambda _name, value: value


def argument_check(
    function: Callable[..., Any],
) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return a function that takes the arguments of a call, and returns them checked; a wrong type is a UsageError."""
    parameters = inspect.signature(function).parameters
    kinds = {name: _kinds(each.annotation) for name, each in parameters.items()}
    others = [name for name, each in parameters.items() if each.kind is each.VAR_KEYWORD]
    texts = {name for name, allowed in kinds.items() if _PLAIN["str"] in allowed}

    def check(
        arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # A wrong number of arguments is left to Python.
        positional = list(arguments)
        for place, (name, value) in enumerate(zip(kinds, arguments, strict=False)):
            positional[place] = _taken(name, value, kinds[name])
        given = named
        for name, value in named.items():
            # Most arguments are plain texts, and a record is made for every row.
            if type(value) is str and name in texts:
                continue
            known = kinds.get(name) or kinds.get(*others or ("",))
            given = {**given, name: _taken(name, value, known or ())}
        return tuple(positional), given

    return check


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that an argument of another type than its annotation is a UsageError."""
    check = argument_check(function)
    parameters = inspect.signature(function).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        for name in named:
            if name not in parameters and not takes_any:
                near = did_you_mean(name, parameters, end="")
                called = function.__qualname__.removesuffix(".__init__")
                raise TypeError(f"{called} has no argument {name!r}{near}")
        positional, given = check(arguments, named)
        return function(*positional, **given)

    return call


def checked_record(kind: type[T]) -> type[T]:
    """Decorate a dataclass so that a field of another type than its annotation is a UsageError."""
    kind.__init__ = checked(kind.__init__)  # type: ignore[method-assign]
    return kind


def _taken(name: str, value: Any, kinds: Sequence[_Kind]) -> Any:
    """Return a value as one of the kinds; without kinds, it is not checked."""
    for kind in kinds:
        if kind.fits(value):
            return kind.taken(name, value)
    if not kinds:
        return value
    part = getattr(value, name, None)
    holds = any(kind.one != "None" and kind.fits(part) for kind in kinds)
    step = f"; give its `.{name}`" if holds else ""
    if name in {"min", "max"} and type(value) in {int, float}:
        step = f"; give {name}={{'COLUMN': {value}}}"
    raise UsageError(f"{name} must be {_named(kinds)}, found {_found(value)}{step}")


def _named(kinds: Iterable[_Kind]) -> str:
    """Name kinds, such as `a text, a path or a LadderSet`; None is what leaves an argument out."""
    *names, last = (kind.one for kind in kinds if kind.one != "None")
    return f"{', '.join(names)} or {last}" if names else last


def _found(value: object) -> str:
    """Show a value, or its type where the value may be large or says nothing."""
    if type(value) in _SHOWN:
        return f"{value!r:.60}"
    return f"an object of type {type(value).__name__}"


@functools.cache
def _kinds(annotation: object) -> tuple[_Kind, ...]:
    """Return the kinds of an annotation, which is text; none for a value that is not checked."""
    if not isinstance(annotation, str):
        return ()
    return _read(ast.parse(annotation, mode="eval").body)


def _read(node: ast.expr) -> tuple[_Kind, ...]:
    if isinstance(node, ast.BinOp):
        return (*_read(node.left), *_read(node.right))
    if isinstance(node, ast.Subscript):
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return (_generic(ast.unparse(node.value), inside),)
    name = ast.unparse(node)
    return () if name in _UNCHECKED else (_PLAIN.get(name) or _class(name),)


def _generic(name: str, inside: list[ast.expr]) -> _Kind:
    """Return the kind of a type with types inside it."""
    if name == "Literal":
        words = [ast.literal_eval(each) for each in inside]
        named = " or ".join(map(repr, words))
        return _Kind(named, named, lambda value: isinstance(value, str) and value in words)
    if name == "Callable":
        return _Kind("a function", "functions", callable)
    if name == "Mapping":
        keys, values = map(_read, inside)

        def taken(name: str, value: Mapping[Any, Any]) -> dict[Any, Any]:
            given = {}
            for key, item in value.items():
                known = _taken(f"a key of {name}", key, keys)
                given[known] = _taken(f"a value of {name}", item, values)
            return given

        return _Kind("a dict", "dicts", lambda value: isinstance(value, Mapping), taken)
    fixed = name == "tuple" and ast.unparse(inside[-1]) != "..."
    items = list(map(_read, inside))
    names = " or ".join(kind.several for kind in items[0] if kind.one != "None")
    if fixed:
        return _Kind(
            f"a tuple of {len(items)}",
            "tuples",
            lambda value: isinstance(value, tuple) and len(value) == len(items),
            lambda name, value: tuple(_each(name, value, items)),
        )
    held: Callable[[Any], Any] = {"tuple": tuple, "Sequence": list}.get(name, iter)
    return _Kind(
        f"a list of {names}",
        "lists",
        _is_iterable if name == "Iterable" else _is_list,
        lambda name, value: held(_each(name, value, itertools.repeat(items[0]))),
    )


def _each(name: str, values: Any, kinds_of: Iterable[tuple[_Kind, ...]]) -> Iterator[Any]:
    # Arrays and series hold numbers of their own types.
    listed = values.tolist() if hasattr(values, "tolist") else values
    for number, (value, kinds) in enumerate(zip(listed, kinds_of, strict=False), start=1):
        yield _taken(f"item {number} of {name}", value, kinds)


def _is_iterable(value: object) -> bool:
    # An array without an axis holds one number.
    has_axis = getattr(value, "ndim", 1) > 0
    is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    return has_axis and is_list and not isinstance(value, Mapping | AbstractSet)


def _is_list(value: object) -> bool:
    """Return whether a value is a list, a tuple, an array or a series: ordered, and with a length."""
    if isinstance(value, Sequence):
        return not isinstance(value, str | bytes | bytearray | memoryview | range)
    return (hasattr(value, "tolist") or hasattr(value, "to_list")) and _is_iterable(value)


def _is_number(value: object) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() <= _BITS_OF_A_FLOAT
    return isinstance(value, Real)


def _number(_name: str, value: Any) -> float:
    """Return a number of Python for a number of numpy, or for a fraction."""
    if type(value) in {int, float}:
        return value  # type: ignore[no-any-return]
    return int(value) if isinstance(value, Integral) else float(value)


def _class(name: str) -> _Kind:
    """Return the kind of a class of refladder, and of what is derived from it."""

    def fits(value: object) -> bool:
        bases = type(value).__mro__
        return any(
            base.__name__ == name and base.__module__.startswith("refladder.") for base in bases
        )

    return _Kind(f"a {name}", f"{name} objects", fits)


_PLAIN = {
    "None": _Kind("None", "None", lambda value: value is None),
    "str": _Kind("a text", "texts", lambda value: isinstance(value, str)),
    "bool": _Kind("True or False", "True or False", lambda value: isinstance(value, bool)),
    "int": _Kind(
        "a whole number",
        "whole numbers",
        lambda value: isinstance(value, Integral) and not isinstance(value, bool),
        _number,
    ),
    "float": _Kind("a number", "numbers", _is_number, _number),
    "Path": _Kind("a path", "paths", lambda value: isinstance(value, Path)),
    "Judge": _Kind(
        "a function",
        "functions",
        lambda value: callable(value) and not isinstance(value, type),
    ),
}
