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
    from refladder.commands.score import score as score
    from refladder.comparison.audit_command import audit as audit
    from refladder.comparison.compare_command import compare as compare
    from refladder.comparison.jury_command import jury as jury
    from refladder.comparison.link_command import link as link
    from refladder.comparison.watch_command import watch as watch
    from refladder.contest.compete_command import compete as compete
    from refladder.evaluation.evaluate import Protocol as Protocol
    from refladder.evaluation.evaluate_command import evaluate as evaluate
    from refladder.files.ladder_sets import ladder_set_of_rows as ladder_set_of_rows
    from refladder.files.ladder_sets import load_ladders as load_ladders
    from refladder.files.ladder_sets import write_ladder_set as write_ladder_set
    from refladder.jobs.rescore_command import rescore as rescore
    from refladder.jobs.show_command import show as show
    from refladder.jobs.text_scorer import Scorer as Scorer
    from refladder.ladders.build_command import build as build
    from refladder.ladders.certify_command import certify as certify
    from refladder.ladders.publish_command import publish as publish
    from refladder.loaders import load_benchmark as load_benchmark
    from refladder.methods.contract import MethodSettings as MethodSettings
    from refladder.records import Context as Context
    from refladder.records import Dimension as Dimension
    from refladder.records import Output as Output
    from refladder.records import Sampling as Sampling
    from refladder.statistics.agreement import evaluate_method as evaluate_method
    from refladder.students.distil_command import distil as distil

from refladder.version import __version__ as __version__

_PUBLIC = {
    "Context": "refladder.records",
    "Dimension": "refladder.records",
    "MethodSettings": "refladder.methods.contract",
    "Output": "refladder.records",
    "Protocol": "refladder.evaluation.evaluate",
    "Sampling": "refladder.records",
    "Scorer": "refladder.jobs.text_scorer",
    "audit": "refladder.comparison.audit_command",
    "build": "refladder.ladders.build_command",
    "calibrate": "refladder.calibration.calibrate_command",
    "certify": "refladder.ladders.certify_command",
    "compare": "refladder.comparison.compare_command",
    "compete": "refladder.contest.compete_command",
    "connect": "refladder.backends",
    "distil": "refladder.students.distil_command",
    "estimate_precision": "refladder.calibration.calibrate_command",
    "evaluate": "refladder.evaluation.evaluate_command",
    "evaluate_method": "refladder.statistics.agreement",
    "filter": "refladder.calibration.filter_command",
    "ladder_set_of_rows": "refladder.files.ladder_sets",
    "jury": "refladder.comparison.jury_command",
    "link": "refladder.comparison.link_command",
    "load_benchmark": "refladder.loaders",
    "load_ladders": "refladder.files.ladder_sets",
    "pairs": "refladder.calibration.pairs_command",
    "plan_labels": "refladder.calibration.calibrate_command",
    "publish": "refladder.ladders.publish_command",
    "rescore": "refladder.jobs.rescore_command",
    "score": "refladder.commands.score",
    "show": "refladder.jobs.show_command",
    "watch": "refladder.comparison.watch_command",
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
