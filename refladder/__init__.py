"""refladder: absolute scores for generated text, by comparison with a ladder of reference texts of rising quality.

The public names are loaded when they are first used, so that `import refladder` is quick and needs no optional package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refladder.backends import connect as connect
    from refladder.files.ladder_sets import read_ladder_set as read_ladder_set
    from refladder.files.ladder_sets import write_ladder_set as write_ladder_set
    from refladder.jobs.evaluate import Protocol as Protocol
    from refladder.jobs.evaluate import evaluate as evaluate
    from refladder.jobs.publish import publish as publish
    from refladder.loaders import load_benchmark as load_benchmark
    from refladder.metaeval.agreement import evaluate_method as evaluate_method
    from refladder.methods.contract import MethodSettings as MethodSettings
    from refladder.records import Context as Context
    from refladder.records import Dimension as Dimension
    from refladder.records import Output as Output
    from refladder.records import Sampling as Sampling
    from refladder.scoring.columns import Scale as Scale
    from refladder.scoring.scorer import Scorer as Scorer
    from refladder.synth import build_ladders as build_ladders

from refladder.version import __version__ as __version__

_PUBLIC = {
    "Context": "refladder.records",
    "Dimension": "refladder.records",
    "MethodSettings": "refladder.methods.contract",
    "Output": "refladder.records",
    "Protocol": "refladder.jobs.evaluate",
    "Sampling": "refladder.records",
    "Scale": "refladder.scoring.columns",
    "Scorer": "refladder.scoring.scorer",
    "build_ladders": "refladder.synth",
    "connect": "refladder.backends",
    "evaluate": "refladder.jobs.evaluate",
    "evaluate_method": "refladder.metaeval.agreement",
    "load_benchmark": "refladder.loaders",
    "publish": "refladder.jobs.publish",
    "read_ladder_set": "refladder.files.ladder_sets",
    "write_ladder_set": "refladder.files.ladder_sets",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  any public name
    if name not in _PUBLIC:
        raise AttributeError(f"module 'refladder' has no attribute {name!r}; public: {', '.join(sorted(_PUBLIC))}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
