"""refladder: absolute scores for generated text, by comparison with a ladder of reference texts of rising quality.

The public names are loaded when they are first used, so that `import refladder` is quick and needs no optional package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refladder.api.calls import filter as filter  # noqa: A004  the name of the command
    from refladder.api.calls import pairs as pairs
    from refladder.api.calls import score as score
    from refladder.api.distilling import distil as distil
    from refladder.api.experiments import build as build
    from refladder.api.experiments import compete as compete
    from refladder.api.experiments import evaluate as evaluate
    from refladder.api.promises import calibrate as calibrate
    from refladder.api.promises import human_scale as human_scale
    from refladder.api.scales import link as link
    from refladder.api.scales import rescore as rescore
    from refladder.api.sets import audit as audit
    from refladder.api.sets import certify as certify
    from refladder.api.sets import diff as diff
    from refladder.api.sets import publish as publish
    from refladder.api.sets import show as show
    from refladder.api.texts import Scorer as Scorer
    from refladder.backends import connect as connect
    from refladder.files.ladder_sets import ladder_set_of_rows as ladder_set_of_rows
    from refladder.files.ladder_sets import load_ladders as load_ladders
    from refladder.files.ladder_sets import write_ladder_set as write_ladder_set
    from refladder.jobs.evaluate import Protocol as Protocol
    from refladder.loaders import load_benchmark as load_benchmark
    from refladder.metaeval.agreement import evaluate_method as evaluate_method
    from refladder.methods.contract import MethodSettings as MethodSettings
    from refladder.records import Context as Context
    from refladder.records import Dimension as Dimension
    from refladder.records import Output as Output
    from refladder.records import Sampling as Sampling

from refladder.version import __version__ as __version__

_PUBLIC = {
    "Context": "refladder.records",
    "Dimension": "refladder.records",
    "MethodSettings": "refladder.methods.contract",
    "Output": "refladder.records",
    "Protocol": "refladder.jobs.evaluate",
    "Sampling": "refladder.records",
    "Scorer": "refladder.api.texts",
    "audit": "refladder.api.sets",
    "build": "refladder.api.experiments",
    "calibrate": "refladder.api.promises",
    "certify": "refladder.api.sets",
    "compete": "refladder.api.experiments",
    "connect": "refladder.backends",
    "diff": "refladder.api.sets",
    "distil": "refladder.api.distilling",
    "evaluate": "refladder.api.experiments",
    "evaluate_method": "refladder.metaeval.agreement",
    "filter": "refladder.api.calls",
    "human_scale": "refladder.api.promises",
    "ladder_set_of_rows": "refladder.files.ladder_sets",
    "link": "refladder.api.scales",
    "load_benchmark": "refladder.loaders",
    "load_ladders": "refladder.files.ladder_sets",
    "pairs": "refladder.api.calls",
    "publish": "refladder.api.sets",
    "rescore": "refladder.api.scales",
    "score": "refladder.api.calls",
    "show": "refladder.api.sets",
    "write_ladder_set": "refladder.files.ladder_sets",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  any public name
    if name not in _PUBLIC:
        raise AttributeError(f"module 'refladder' has no attribute {name!r}; public: {', '.join(sorted(_PUBLIC))}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
