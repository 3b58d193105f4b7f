"""Recorded judgments in the place of a judge: their files, and checks against data and methods before anything is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import UsageError, option
from refladder.files.ladder_sets import as_ladder_set
from refladder.methods.contract import method_named
from refladder.records import names_of
from refladder.scoring.recorded import ANY, LADDER, PAIRS, RATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.files.ladder_sets import LadderSet
    from refladder.methods.contract import MethodSettings
    from refladder.options import NamedOptions
    from refladder.records import Benchmark
    from refladder.scoring.recorded import Recorded
    from refladder.settings import Given

_NEEDED = {
    LADDER: "comparisons with the rungs of a ladder",
    PAIRS: "comparisons of pairs of outputs",
    RATED: "ratings of single texts",
}
_DEFAULT = {LADDER: "ladder", PAIRS: "win-ratio", RATED: "ladder"}


def recorded_files(given: Given, named: NamedOptions, source: object) -> list[str]:
    """Return the files of judgments in place of a judge; refuse options for asking one, and two uses of standard input."""
    files = given["judgments_from"] or ()
    paths = [str(path) for path in ([files] if isinstance(files, str | Path) else files)]
    for name, each in named if paths else ():
        if each is not None and each.asks:
            raise UsageError(
                f"{option('judgments-from')} asks no model, and {name} is for asking one; give one of them"
            )
    if source == "-" in paths:
        raise UsageError(
            f"the table and {option('judgments-from')} are both standard input; give a file for one of them"
        )
    return paths


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
        needs = _NEEDED.get(
            method.recorded or "", "more of a judge than comparisons of given texts"
        )
        raise UsageError(
            f"{recorded.path} holds {_NEEDED[recorded.kind]}, and method {name!r} needs {needs}; leave it out of "
            f"{option('methods')}, or name another file"
        )
    ladders = None
    if recorded.kind == LADDER:
        if settings.ladders is None:
            raise UsageError(
                f"{recorded.path} holds {_NEEDED[LADDER]}, and no ladders are named; name those that were judged with "
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


def check_recorded_ladders(recorded: Recorded, ladders: LadderSet) -> None:
    """Check that recorded judgments are comparisons with the rungs of a ladder set."""
    if recorded.kind not in {LADDER, RATED}:
        raise UsageError(
            f"{recorded.path} holds {_NEEDED[recorded.kind]}, and scoring needs {_NEEDED[LADDER]}; see "
            "`refladder evaluate --judgments-from`"
        )
    contexts = None
    if not ladders.anchors and recorded.kind == LADDER:
        contexts = dict.fromkeys(ladders.context_ids)
    dimensions = names_of(ladders.dimensions)
    recorded.check(f"the ladder set {ladders.name}", contexts, dimensions, ladders=ladders)
