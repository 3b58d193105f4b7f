"""refladder: absolute scores for generated text, by comparison with a ladder of reference texts of rising quality.

The public names are loaded when they are first used, so that `import refladder` is quick and needs no optional package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refladder.backends import connect as connect
    from refladder.calibration.calibrate_command import calibrate as calibrate
    from refladder.calibration.calibrate_command import estimate_precision as estimate_precision
    from refladder.calibration.calibrate_command import plan_labels as plan_labels
    from refladder.calibration.filter_command import filter as filter  # noqa: A004  the name of the command
    from refladder.calibration.pairs_command import pairs as pairs
    from refladder.commands.audit import audit as audit
    from refladder.commands.build import build as build
    from refladder.commands.certify import certify as certify
    from refladder.commands.compare import compare as compare
    from refladder.commands.compete import compete as compete
    from refladder.commands.distil import distil as distil
    from refladder.commands.evaluate import evaluate as evaluate
    from refladder.commands.jury import jury as jury
    from refladder.commands.link import link as link
    from refladder.commands.publish import publish as publish
    from refladder.commands.rescore import rescore as rescore
    from refladder.commands.score import score as score
    from refladder.commands.show import show as show
    from refladder.commands.watch import watch as watch
    from refladder.evaluation.evaluate import Protocol as Protocol
    from refladder.files.ladder_sets import ladder_set_of_rows as ladder_set_of_rows
    from refladder.files.ladder_sets import load_ladders as load_ladders
    from refladder.files.ladder_sets import write_ladder_set as write_ladder_set
    from refladder.jobs.text_scorer import Scorer as Scorer
    from refladder.loaders import load_benchmark as load_benchmark
    from refladder.methods.contract import MethodSettings as MethodSettings
    from refladder.records import Context as Context
    from refladder.records import Dimension as Dimension
    from refladder.records import Output as Output
    from refladder.records import Sampling as Sampling
    from refladder.statistics.agreement import evaluate_method as evaluate_method

from refladder.version import __version__ as __version__

_PUBLIC = {
    "Context": "refladder.records",
    "Dimension": "refladder.records",
    "MethodSettings": "refladder.methods.contract",
    "Output": "refladder.records",
    "Protocol": "refladder.evaluation.evaluate",
    "Sampling": "refladder.records",
    "Scorer": "refladder.jobs.text_scorer",
    "audit": "refladder.commands.audit",
    "build": "refladder.commands.build",
    "calibrate": "refladder.calibration.calibrate_command",
    "certify": "refladder.commands.certify",
    "compare": "refladder.commands.compare",
    "compete": "refladder.commands.compete",
    "connect": "refladder.backends",
    "distil": "refladder.commands.distil",
    "estimate_precision": "refladder.calibration.calibrate_command",
    "evaluate": "refladder.commands.evaluate",
    "evaluate_method": "refladder.statistics.agreement",
    "filter": "refladder.calibration.filter_command",
    "ladder_set_of_rows": "refladder.files.ladder_sets",
    "jury": "refladder.commands.jury",
    "link": "refladder.commands.link",
    "load_benchmark": "refladder.loaders",
    "load_ladders": "refladder.files.ladder_sets",
    "pairs": "refladder.calibration.pairs_command",
    "plan_labels": "refladder.calibration.calibrate_command",
    "publish": "refladder.commands.publish",
    "rescore": "refladder.commands.rescore",
    "score": "refladder.commands.score",
    "show": "refladder.commands.show",
    "watch": "refladder.commands.watch",
    "write_ladder_set": "refladder.files.ladder_sets",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        from refladder.errors import did_you_mean

        near = did_you_mean(name, _PUBLIC)
        raise AttributeError(
            f"module 'refladder' has no attribute {name!r}{near} It has: {', '.join(sorted(_PUBLIC))}"
        )
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
