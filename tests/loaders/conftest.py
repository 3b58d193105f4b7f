"""Small files in every layout, written for these tests."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture
def data():
    return DATA


@pytest.fixture
def edited(tmp_path):
    """Copy a file of the data with some text replaced once."""

    def copy(file, old, new):
        text = (DATA / file).read_bytes().decode()
        assert old in text
        path = tmp_path / Path(file).name
        path.write_bytes(text.replace(old, new, 1).encode())
        return path

    return copy


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
