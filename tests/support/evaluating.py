"""One benchmark through the job of `evaluate`."""

from refladder.evaluation.evaluate import EvaluateSpec, run
from refladder.events import Silent
from refladder.methods.contract import MethodSettings
from refladder.session import Session


def evaluate(benchmark, *, judge, dimensions=None, methods=("ladder",), settings=None, **spec):
    """Evaluate one benchmark, without a word on the way; `spec` are further fields of `EvaluateSpec`."""
    chosen = benchmark.dimensions if dimensions is None else dimensions
    given = EvaluateSpec(
        benchmarks=[(benchmark, chosen)],
        judge=judge,
        methods=methods,
        settings=settings or MethodSettings(),
        dimensions_named=True,
        **spec,
    )
    (evaluation,) = run(given, Session(store=False), Silent())
    return evaluation
