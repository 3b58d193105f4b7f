"""The version of refladder, which is part of every recipe and signature."""

from __future__ import annotations

__version__ = "0.1.0"
