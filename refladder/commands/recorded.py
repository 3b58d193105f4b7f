"""Judgments that were recorded elsewhere, in the place of a judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from refladder.errors import UsageError, option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from refladder.scoring.recorded import Recorded


def refuse_asking(given: Sequence[str], asking: Iterable[str], source: str | None = None) -> None:
    """Refuse what is for asking a judge beside judgments that were made elsewhere, and two uses of standard input."""
    for name in asking:
        raise UsageError(
            f"{option('judgments-from')} asks no model, and {name} is for asking one; give one of them"
        )
    if source == "-" in given:
        raise UsageError(
            "SOURCE and --judgments-from are both standard input; give a file for one of them"
        )


def open_recorded(
    given: str | Path | Sequence[str | Path] | None,
    asking: Iterable[str],
    tell: Callable[[str], object],
    *,
    source: str | None = None,
) -> Recorded | None:
    """Read files of judgments, in place of a judge, and say how many they hold; None without a path."""
    from refladder.scoring.recorded import read_recorded

    paths = [str(path) for path in ([given] if isinstance(given, str | Path) else given or ())]
    if not paths:
        return None
    refuse_asking(paths, asking, source)
    recorded = read_recorded(*dict.fromkeys(paths))
    tell(recorded.notice)
    return recorded
