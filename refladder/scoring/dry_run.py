"""The folder in which a dry run works: a copy, so that nothing of the run's own changes."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def copied(folder: Path | None) -> Iterator[Path | None]:
    """A temporary copy of the files in a folder, in which a dry run continues; None where there is no folder."""
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="refladder-dry-run-") as name:
        copy = Path(name)
        for path in folder.glob("*.jsonl"):
            shutil.copyfile(path, copy / path.name)
        yield copy
