"""Batches of sequences of similar length, their padding, and the argument that takes their cache."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


def by_length(
    numbers: Iterable[int], length: Callable[[int], int], tokens: int, most: int | None = None
) -> Iterator[list[int]]:
    """Yield batches of at most `tokens` tokens, padding included, and `most` rows, the longest first."""
    order = sorted(numbers, key=lambda number: -length(number))
    while order:
        batch = order[: max(1, tokens // length(order[0]))][:most]
        del order[: len(batch)]
        yield batch


def padded(
    rows: Sequence[Sequence[int]], width: int, *, padding: int = 0, left: bool = False
) -> tuple[Any, Any]:
    """Return rows as a tensor of shape (rows, width), padded at their ends or on the left, and their mask."""
    import torch

    ids = torch.full((len(rows), width), padding, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        columns = slice(width - len(row), width) if left else slice(0, len(row))
        ids[number, columns] = torch.as_tensor(row)
        mask[number, columns] = 1
    return ids, mask


def cache_name(model: Any) -> str:
    """Return the name of the argument that takes a cache: transformers 5.24 renames `past_key_values`."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
