"""The plan of scoring outputs against ladders, and the files that a plan continues from."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from refladder.backends.estimate import Plan
    from refladder.records import Output, Run
    from refladder.scoring.scorer import LadderScorer


def kept_judgments(path: Path | None, run: Run) -> JudgmentLog:
    """The judgments of a file, for reading only; none where there is no file.

    Raises:
        UsageError, DataError: see `JudgmentLog`.
    """
    return JudgmentLog(path if path is not None and path.exists() else None, run, read_only=True)


def plan_scoring(
    plan: Plan, scorer: LadderScorer, outputs: Iterable[tuple[Output | None, str | None]], judgments: Path | None
) -> int:
    """Add the prompts that scoring would ask to a plan.

    Args:
        plan: what the run asks.
        scorer: judge, ladders and scale.
        outputs: each output, or None and the reason why there is none.
        judgments: the file that keeps judgments, if it exists already; it is only read.

    Returns:
        The number of judgments of these outputs that the file holds.

    Raises:
        UsageError, DataError: the judgments are of another run or of other texts, or there are more of them.
    """
    kept = 0
    with kept_judgments(judgments, scorer.run) as log:
        for batch in batches(outputs, scorer.judge, _context_of):
            kept += scorer.plan(plan, [output for output, _ in batch], [note for _, note in batch], log)
        log.finish()
    return kept


def _context_of(row: tuple[Output | None, str | None]) -> str | None:
    return None if row[0] is None else row[0].context_id


@contextmanager
def copied(folder: Path | None) -> Iterator[Path | None]:
    """A temporary copy of the files in a folder, from which a plan continues; None where there is no folder."""
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="refladder-dry-run-") as name:
        copy = Path(name)
        for path in folder.glob("*.jsonl"):
            shutil.copyfile(path, copy / path.name)
        yield copy


@contextmanager
def copied_file(path: Path | None) -> Iterator[Path | None]:
    """A temporary copy of a file, from which a plan continues; None where there is no file."""
    if path is None or not path.is_file():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="refladder-dry-run-") as name:
        copy = Path(name) / path.name
        shutil.copyfile(path, copy)
        yield copy
