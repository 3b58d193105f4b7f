"""Calls that must fail."""

from __future__ import annotations

import pytest


def refuses(error, message, use, *arguments, **named):
    """Check that a call raises this error, with a message that matches."""
    with pytest.raises(error, match=message):
        use(*arguments, **named)
