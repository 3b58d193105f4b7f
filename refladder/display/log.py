"""Events and warnings of a call, for the logger `refladder`."""

from __future__ import annotations

import functools
import logging
import re
from typing import TYPE_CHECKING

from refladder.display.progress import progress
from refladder.errors import option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from refladder.records import JudgeCheck

LOG = logging.getLogger("refladder")
# This finds flags in a sentence, and skips command lines between backquotes.
_FLAGS = re.compile(r"`[^`]*`|--([a-z]+(?:-[a-z]+)*)")


class Log:
    """Events of a call: a progress bar in a terminal, and the logger `refladder`."""

    progress = staticmethod(progress)

    def checked(self, checks: Sequence[JudgeCheck]) -> None:
        """Log the check of a judge: its warnings, and for those who ask also what it shows."""
        from refladder.scoring.judge_check import check_lines

        shown, warnings = check_lines(checks)
        log_lines(shown, logging.INFO)
        log_lines(warnings)

    def notice(self, text: str, *, warns: bool = False, once: bool = False) -> None:
        """Log a notice; one that `warns`, or is logged `once`, as a warning."""
        if once:
            warn_once(text)
        else:
            log_lines([text], logging.WARNING if warns else logging.INFO)


@functools.cache
def warn_once(text: str) -> None:
    """Log a warning that this process has not logged before."""
    log_lines([text])


def log_lines(lines: Iterable[str], level: int = logging.WARNING) -> None:
    """Give lines to the logger `refladder`; notes of rows that they quote get the words of a call."""
    for line in lines:
        LOG.log(level, "%s", _FLAGS.sub(lambda flag: option(flag[1]) if flag[1] else flag[0], line))
