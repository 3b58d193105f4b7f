"""Prices of tokens, price tables and budgets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError, UnknownNameError, UsageError, did_you_mean
from refladder.files.jsonl import read_bytes
from refladder.parsing import parse_toml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MILLION = 1_000_000
_PRICE_KEYS = "input", "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs, in USD for a million tokens of prompts (`input`) and of answers (`output`)."""

    model: str
    input: float
    output: float

    def of(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Return the price of these tokens in USD."""
        return (prompt_tokens * self.input + answer_tokens * self.output) / MILLION


class Budget:
    """Money, above 0, that the backends of one run may spend together."""

    def __init__(self, limit: float) -> None:
        if not 0 < limit < float("inf"):
            raise UsageError(f"a budget is a number of USD above 0, found {limit}")
        self.limit = limit
        self.spent = 0.0


def read_prices(path: Path) -> dict[str, dict[str, float]]:
    """Read a price table in TOML: for each model a table with input and output (USD a million tokens)."""
    tables = parse_toml(read_bytes(path), str(path), "the price table is not TOML")
    for model, table in tables.items():
        _check_price(path, model, table)
    return tables


def _dotted(name: str, table: Mapping[str, object]) -> str:
    """Return the name that was meant: TOML makes a table in a table of each dot."""
    for key, inner in table.items():
        if isinstance(inner, dict):
            return _dotted(f"{name}.{key}", inner)
    return name


def _check_price(path: Path, model: str, table: object) -> None:
    where = f"{path}: [{model}]"
    if not isinstance(table, dict):
        raise DataError(f"{where} must be a table with input and output, found {table!r}")
    for key, value in table.items():
        if isinstance(value, dict):
            named = _dotted(f"{model}.{key}", value)
            raise DataError(
                f'{where} holds another table, {key!r}; a name with a dot needs quotes: ["{named}"]'
            )
        if key not in _PRICE_KEYS:
            hint = did_you_mean(key, _PRICE_KEYS)
            raise DataError(
                f"{where} has unknown key {key!r}{hint} Known: {', '.join(_PRICE_KEYS)}"
            )
    for key in ("input", "output"):
        price: Any = table.get(key)
        if type(price) not in {int, float} or not 0 <= price < math.inf:
            raise DataError(
                f"{where} {key} must be USD for a million tokens, 0 or more, found {price!r}"
            )


def price_of(prices: Mapping[str, Mapping[str, float]], model: str, path: Path) -> Price:
    """Return the price of a model in the table."""
    if model not in prices:
        raise UnknownNameError(f"model in {path}", model, prices)
    table = prices[model]
    return Price(model=model, input=table["input"], output=table["output"])
