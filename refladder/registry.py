"""Names to objects: a built-in table first, then entry points of installed packages."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.errors import PlugInError, RefladderError, UnknownNameError, UsageError, raised

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class _StandIn(NamedTuple):
    """An object in the place of an entry point."""

    value: str
    loaded: Any
    dist: None = None

    def load(self) -> Any:
        return self.loaded


class Entry(NamedTuple):
    """A line of a table: the path of the object ("module:object") and a one-line description for `refladder list`."""

    path: str
    about: str


@cache
def _registered(kind: str) -> dict[str, EntryPoint | _StandIn]:
    """Return the entry points of a kind; to find them, the metadata of every installed package are read."""
    return {point.name: point for point in entry_points(group=f"refladder.{kind}")}


def names(kind: str, table: Mapping[str, Entry]) -> list[str]:
    """Return the sorted names of one kind: built in, or registered by other packages under `refladder.KIND`."""
    return sorted({*table, *_registered(kind)})


def describe(kind: str, table: Mapping[str, Entry]) -> dict[str, str]:
    """Return the sorted names of one kind with their descriptions; a plug-in has that of its package."""
    plug_ins = _registered(kind)
    return {
        name: table[name].about if name in table else _about(plug_ins[name])
        for name in names(kind, table)
    }


def _about(point: EntryPoint | _StandIn) -> str:
    package = "another package"
    summary: str | list[str] | None = None
    if point.dist is not None:
        package = f"{point.dist.name} {point.dist.version}"
        summary = point.dist.metadata.json.get("summary")
    place = f"plug-in of {package}: {point.value}"
    return f"{summary} ({place})" if summary else place


def find(kind: str, name: str, table: Mapping[str, Entry]) -> Any:
    """Load the object with a name."""
    registered = _registered(kind)
    if name in table and name in registered:
        raise UsageError(
            f"{kind} {name!r} is built in, and {registered[name].value!r} registers the same name; "
            "uninstall that package or rename its entry point"
        )
    if name in registered:
        try:
            return registered[name].load()
        # Another author's module may raise anything when it is imported, and may end the program.
        except (Exception, SystemExit) as error:
            said = error if isinstance(error, Exception) else repr(error)
            raise UsageError(
                f"{kind} {name!r}: the package that registers it cannot be loaded from {registered[name].value!r} "
                f"({said}); repair or uninstall that package"
            ) from error
    if name not in table:
        raise UnknownNameError(kind, name, {*table, *registered})
    module, _, attribute = table[name].path.partition(":")
    return getattr(import_module(module), attribute)


@contextmanager
def plugged_in(kind: str, name: str) -> Iterator[None]:
    """Name the plug-in in an error of its author: any that is none of refladder's, and an end of the program."""
    try:
        yield
    except RefladderError:
        raise
    except (Exception, SystemExit) as error:
        place = _registered(kind)[name].value
        raise PlugInError(f"{kind} {name!r} ({place}) {raised(error)}") from error


@contextmanager
def registered(kind: str, name: str, loaded: Any) -> Iterator[None]:
    """Let an object stand in for an entry point, for the time of a check."""
    others = dict(_registered(kind))
    _registered(kind)[name] = _StandIn(repr(loaded), loaded)
    try:
        yield
    finally:
        _registered(kind).clear()
        _registered(kind).update(others)
