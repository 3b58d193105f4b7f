"""One test a property, which lists all cases that lack it."""

from __future__ import annotations

from refladder.errors import RefladderError


def offenders(check, cases):
    """Return the cases that `check` fails on, each with the first line of its message."""
    found = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        try:
            check(*values)
        except (AssertionError, RefladderError) as error:
            found.append((*values, str(error).partition("\n")[0]))
    return found
