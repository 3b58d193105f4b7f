"""Recorded judgments in the place of a judge: checks against data and methods before anything is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import UsageError, option
from refladder.files.ladder_sets import as_ladder_set
from refladder.methods.contract import method_named
from refladder.records import names_of
from refladder.scoring.recorded import ANY, LADDER, PAIRS, RATED
from refladder.scoring.recorded_files import NEEDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.methods.contract import MethodSettings
    from refladder.records import Benchmark
    from refladder.scoring.recorded import Recorded

_DEFAULT = {LADDER: "ladder", PAIRS: "win-ratio", RATED: "ladder"}


def default_method(recorded: Recorded) -> str:
    """Return the method of `evaluate` for recorded judgments where the user names none."""
    return _DEFAULT[recorded.kind]


def check_recorded(
    recorded: Recorded, benchmark: Benchmark, methods: Sequence[str], settings: MethodSettings
) -> None:
    """Check that recorded judgments are about the texts of a benchmark, and that they can answer the methods."""
    if settings.answers != 0 or settings.yes_no:
        raise UsageError(
            "recorded judgments are read as they are; leave out --answers and --yes-no"
        )
    for name in methods:
        method = method_named(name.partition(":")[0])
        if method.recorded in {ANY, recorded.kind, LADDER if recorded.kind == RATED else ANY}:
            continue
        needs = NEEDED.get(method.recorded or "", "more of a judge than comparisons of given texts")
        raise UsageError(
            f"{recorded.path} holds {NEEDED[recorded.kind]}, and method {name!r} needs {needs}; leave it out of "
            f"{option('methods')}, or name another file"
        )
    ladders = None
    if recorded.kind == LADDER:
        if settings.ladders is None:
            raise UsageError(
                f"{recorded.path} holds {NEEDED[LADDER]}, and no ladders are named; name those that were judged with "
                f"{option('ladders')} SET"
            )
        ladders = as_ladder_set(settings.ladders)
    outputs: dict[str, set[str]] = {context.id: set() for context in benchmark.contexts}
    for output in benchmark.outputs:
        outputs[output.context_id].add(output.id)
    dimensions = dict.fromkeys(benchmark.dimensions)
    if ladders is not None:
        # A set may have been judged on further dimensions than the benchmark has.
        dimensions |= dict.fromkeys(ladders.dimensions)
    recorded.check(benchmark.name, outputs, names_of(dimensions), ladders=ladders)
