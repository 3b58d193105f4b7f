"""Contracts of what can be plugged in, shipped so that other packages can run them on their own parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.loaders.integrity import check_integrity

if TYPE_CHECKING:
    from refladder.records import Benchmark


def check_benchmark(benchmark: Benchmark) -> None:
    """Check what a benchmark loader returns.

    Raises:
        DataError: it has no context or no dimension; an id stands twice; an output or a rating refers to what is not
            there; a rating lies outside its dimension's scale; a dimension has no description or an empty scale;
            contexts have different tasks or no text.
    """
    check_integrity(benchmark)
