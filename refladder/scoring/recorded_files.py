"""Files of recorded judgments in the place of a judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import UsageError, option
from refladder.records import names_of
from refladder.scoring.recorded import LADDER, PAIRS, RATED

if TYPE_CHECKING:
    from refladder.files.ladder_sets import LadderSet
    from refladder.options import NamedOptions
    from refladder.scoring.recorded import Recorded
    from refladder.settings import Given

NEEDED = {
    LADDER: "comparisons with the rungs of a ladder",
    PAIRS: "comparisons of pairs of outputs",
    RATED: "ratings of single texts",
}


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


def check_recorded_ladders(recorded: Recorded, ladders: LadderSet) -> None:
    """Check that recorded judgments are comparisons with the rungs of a ladder set."""
    if recorded.kind not in {LADDER, RATED}:
        raise UsageError(
            f"{recorded.path} holds {NEEDED[recorded.kind]}, and scoring needs {NEEDED[LADDER]}; see "
            "`refladder evaluate --judgments-from`"
        )
    contexts = None
    if not ladders.anchors and recorded.kind == LADDER:
        contexts = dict.fromkeys(ladders.context_ids)
    dimensions = names_of(ladders.dimensions)
    recorded.check(f"the ladder set {ladders.name}", contexts, dimensions, ladders=ladders)
