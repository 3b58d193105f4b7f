"""A benchmark of a few contexts, with the same outputs for each and no ratings; and one method run on it."""

from __future__ import annotations

from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods
from refladder.records import Benchmark, Dimension, Output


def small_benchmark(contexts, texts, dimensions=("fluency",)):
    """Output `ID/0` of system s0 is the first text for the context ID."""
    return Benchmark(
        name="mine",
        revision="1",
        licence="none",
        dimensions=tuple(Dimension(name=name, description=name) for name in dimensions),
        contexts=tuple(contexts),
        outputs=tuple(
            Output(id=f"{context.id}/{n}", context_id=context.id, system=f"s{n}", text=text)
            for context in contexts
            for n, text in enumerate(texts)
        ),
        ratings=(),
    )


def run_method(name, benchmark, judge=None, **settings):
    """Run a method alone; without a judge, asking for one fails the test."""

    def opened():
        assert judge is not None
        return judge

    settings = MethodSettings(**settings)
    return run_methods([name], benchmark, benchmark.dimensions, opened, settings)[0]
