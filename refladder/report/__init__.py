"""What is shown: tables, report card, figures, pages."""

from __future__ import annotations

INTERVAL_SIZES = ("none", "small", "full")  # of the intervals beside figures in LaTeX tables
