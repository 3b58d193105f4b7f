"""Options of a command as a few parameters, each of which holds the options of one subject."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from refladder.records import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable


def grouped(**kinds: type) -> Callable[..., Any]:
    """Give a command one parameter for several options.

    Args:
        kinds: parameter name to a dataclass whose fields are the names of the options.
    """

    def apply(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(*arguments: Any, **values: Any) -> Any:  # noqa: ANN401  click's own
            groups = {
                name: kind(**{option.name: values.pop(option.name) for option in fields(kind)})
                for name, kind in kinds.items()
            }
            return command(*arguments, **groups, **values)

        return call

    return apply


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingOptions:
    """The judge, how it is asked, and how its answers become scores."""

    judge: str | None
    judge_option: tuple[str, ...]
    answers: int
    both_orders: bool
    yes_no: bool
    rule: str
    least_mass: float

    @property
    def orders(self) -> int:
        """The number of orders in which a pair is asked."""
        return 2 if self.both_orders else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingOptions:
    """How texts are sampled."""

    seed: int
    max_tokens: int
    temperature: float
    top_p: float

    @property
    def sampling(self) -> Sampling:
        """The same as a record."""
        return Sampling(max_tokens=self.max_tokens, temperature=self.temperature, top_p=self.top_p, seed=self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The output table, and the formats of the input and of the output."""

    out: str
    given: str | None
    out_format: str | None
    escape_formulas: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOptions:
    """Both ends of each criterion's scale, and its weight."""

    worst: tuple[str, ...]
    best: tuple[str, ...]
    weight: tuple[str, ...]
