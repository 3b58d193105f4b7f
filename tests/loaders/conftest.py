"""Small files in every layout, written for these tests; and the real files, where they are."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
REAL = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def data():
    return DATA


@pytest.fixture
def real():
    if not REAL.is_dir():
        pytest.skip("the real benchmark files are not in ../shared/data")
    return REAL


@pytest.fixture
def means():
    """Mean rating of each (output id, dimension), summed before it is divided."""

    def of(benchmark):
        values = defaultdict(list)
        for rating in benchmark.ratings:
            values[rating.output_id, rating.dimension].append(rating.value)
        return {key: sum(found) / len(found) for key, found in values.items()}

    return of


@pytest.fixture
def ratings():
    """The values of one output on one dimension, by rater."""

    def of(benchmark, output_id, dimension):
        return {
            rating.rater: rating.value
            for rating in benchmark.ratings
            if (rating.output_id, rating.dimension) == (output_id, dimension)
        }

    return of


@pytest.fixture
def rated_texts(means):
    """Every output as context id, text and means, in an order that does not depend on the systems' names."""

    def of(benchmark):
        found = means(benchmark)
        names = [dimension.name for dimension in benchmark.dimensions]
        return sorted(
            (output.context_id, output.text, [found[output.id, name] for name in names])
            for output in benchmark.outputs
        )

    return of
