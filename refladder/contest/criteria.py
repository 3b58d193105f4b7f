"""The criteria of a contest: what the judge reads, both ends of the scale for people, and weights."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refladder.errors import UnknownNameError, UsageError
from refladder.files.tables import parse_number
from refladder.records import Dimension

if TYPE_CHECKING:
    from collections.abc import Mapping

_END = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*:\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion(Dimension):
    """A dimension whose `description`, all that the judge reads, has both ends of the scale; and its weight."""

    worst: str = ""
    best: str = ""
    weight: float = 1.0


def criteria_of(
    descriptions: Mapping[str, str],
    worst: Mapping[str, str],
    best: Mapping[str, str],
    weights: Mapping[str, float],
) -> list[Criterion]:
    """Read criteria by name.

    An end of a scale is words, or `-2: incoherent` with a number; the numbers default to 1 and 5.
    """
    for given in (worst, best, weights):
        for name in given:
            if name not in descriptions:
                raise UnknownNameError("criterion", name, descriptions)
    criteria = []
    for name, description in descriptions.items():
        low, lowest = _end(worst.get(name, ""), 1.0)
        high, highest = _end(best.get(name, ""), 5.0)
        if low >= high:
            raise UsageError(
                f"criterion {name!r}: its scale goes from {low:g} to {high:g}; the best end must be higher"
            )
        if not 0 <= weights.get(name, 1.0) < math.inf:
            raise UsageError(
                f"weight {name}={weights[name]:g}: a weight must be a finite number, 0 or more"
            )
        parts = [description]
        if lowest:
            parts.append(f"Worst ({low:g}): {lowest}")
        if highest:
            parts.append(f"Best ({high:g}): {highest}")
        criteria.append(
            Criterion(
                name=name,
                description="\n".join(filter(None, parts)),
                low=low,
                high=high,
                worst=lowest,
                best=highest,
                weight=weights.get(name, 1.0),
            )
        )
    if criteria and not any(criterion.weight for criterion in criteria):
        raise UsageError("all weights are 0; at least one criterion must count")
    return criteria


def _end(text: str, usual: float) -> tuple[float, str]:
    """Split one end of a scale into its number and its words."""
    match = _END.fullmatch(text)
    if match is None:
        return usual, text.strip()
    return parse_number(match[1]) or 0.0, match[2].strip()
