"""Options of a command as a few records, each of which holds the options of one subject."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import click

from refladder.commands.console import backend_options, numbers, pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Fields of settings whose option is called otherwise, and by its type how the texts of an option become one value.
_OPTION_OF = {
    "by": "top_by", "dimensions": "dimension", "link": "link_file", "max": "most", "min": "least",
    "weights": "weight",
}  # fmt: skip
_FLAG = {"criteria": "criterion", "least": "min", "most": "max"}
_READ: dict[str, Callable[..., Any]] = {"Mapping[str, float]": numbers, "Mapping[str, str]": pairs}


def grouped(**kinds: type) -> Callable[..., Any]:
    """Give a command one parameter of each kind (a dataclass) for the options that have the names of its fields."""

    def apply(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(*arguments: Any, **values: Any) -> Any:
            taken: set[str] = set()

            def settings(kind: type) -> Any:
                chosen = {}
                for each in fields(kind):
                    option = _OPTION_OF.get(each.name, each.name)
                    option = option if option in values else each.name
                    if option in values:
                        taken.add(option)
                        value, read = values[option], _READ.get(str(each.type))
                        chosen[each.name] = (
                            value if read is None else read(value, f"--{_FLAG.get(option, option)}")
                        )
                return kind(**chosen)

            groups = {name: settings(kind) for name, kind in kinds.items()}
            others = {name: value for name, value in values.items() if name not in taken}
            return command(*arguments, **groups, **others)

        return call

    return apply


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """The judge."""

    judge: str | None
    judge_option: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name, also where none is given."""
        return self.judge or "builtin"

    @property
    def options(self) -> dict[str, str]:
        """Its options, and those of the command for every backend of its kind."""
        return backend_options(self.name, self.judge_option)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriteriaOptions:
    """Criteria by name: their descriptions, both ends of their scales, and their weights."""

    criteria: Mapping[str, str]
    worst: Mapping[str, str]
    best: Mapping[str, str]
    weights: Mapping[str, float]


def given_by_user(context: click.Context, name: str | None) -> bool:
    """Whether an option stands on the command line or in the configuration file."""
    sources = (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.DEFAULT_MAP)
    return context.get_parameter_source(name or "") in sources
