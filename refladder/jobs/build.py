"""build: contexts x dimensions -> a ladder set in a folder; resumable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError
from refladder.files.jsonl import throw_away, write_json
from refladder.files.ladder_sets import write_ladder_set
from refladder.files.locks import locked_folder
from refladder.files.tables import read_rows
from refladder.synth import build_ladders
from refladder.synth.journal import JOURNAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.records import Context, Dimension, LadderFailure, Progress, Sampling


_HUMAN_FIELDS = {"context_id": str, "dimension": str, "level": int, "text": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """Ladders written, and the rungs that could not be."""

    ladders: int
    failures: tuple[LadderFailure, ...]


def build(
    backend: Backend,
    contexts: Sequence[Context],
    dimensions: Sequence[Dimension],
    folder: Path,
    *,
    rungs: int,
    sampling: Sampling,
    attempts: int,
    prompts: Path | None = None,
    human: Mapping[tuple[str, str], Mapping[int, str]] | None = None,
    restart: bool = False,
    config: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> BuildReport:
    """Write a ladder set.

    Every text is kept in the folder's journal as it comes, so a build that was cut off goes on where it stopped.

    Args:
        backend: the writer.
        contexts: of one task.
        dimensions: the qualities to build for.
        folder: where the set goes.
        rungs: rungs a ladder, 2 or more.
        sampling: how texts are drawn.
        attempts: how often a rung is tried.
        prompts: the user's own templates.
        human: rungs written by people: (context id, dimension) to level to text.
        restart: throw away what the journal holds.
        config: the resolved configuration, kept as `run.json`.
        progress: called with texts done and texts in all.

    Raises:
        UsageError, PromptError: the request is wrong, or another process is writing to the folder; nothing was asked.
        DataError: the folder cannot be written, or its journal is of another build.
        BackendError: the writer failed; what was written is kept.
    """
    journal = folder / JOURNAL
    with locked_folder(folder):
        if restart:
            throw_away(journal)
        ladders, failures = build_ladders(
            backend,
            contexts,
            dimensions,
            rungs=rungs,
            sampling=sampling,
            attempts=attempts,
            prompts=prompts,
            journal=journal,
            human=human,
            progress=progress,
        )
        write_ladder_set(folder, dimensions, contexts, ladders, failures)
        if config is not None:
            write_json(folder / "run.json", dict(config))
    return BuildReport(ladders=len(ladders), failures=tuple(failures))


def read_human_rungs(path: str) -> dict[tuple[str, str], dict[int, str]]:
    """Rungs written by people, from a table with columns context_id, dimension, level and text.

    Raises:
        DataError: with path:line, a column is missing or of the wrong type, or a rung stands there twice.
    """
    found: dict[tuple[str, str], dict[int, str]] = {}
    for row in read_rows(path):
        for name, kind in _HUMAN_FIELDS.items():
            value = row.fields.get(name)
            if kind is int and isinstance(value, str) and value.isascii() and value.isdecimal():  # a CSV cell
                row.fields[name] = value = int(value)
            if type(value) is not kind:
                raise DataError(f"{row.where}: column {name!r} must be {kind.__name__}, found {value!r:.60}")
        levels = found.setdefault((row.fields["context_id"], row.fields["dimension"]), {})
        if row.fields["level"] in levels:
            raise DataError(
                f"{row.where}: level {row.fields['level']} of {row.fields['dimension']!r} for context "
                f"{row.fields['context_id']!r} stands there twice"
            )
        levels[row.fields["level"]] = row.fields["text"]
    return found
