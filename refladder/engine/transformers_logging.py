"""Silence the output of transformers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def silenced(*, bars: bool = True) -> Iterator[None]:
    """Silence the reports of transformers, and its progress bars if `bars` is False."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    hidden = not bars and logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if hidden:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if hidden:
            logging.enable_progress_bar()
