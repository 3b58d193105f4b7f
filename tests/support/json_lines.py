"""Files of JSON lines."""

from __future__ import annotations

import json
from pathlib import Path


def read_lines(path):
    """Return the records of a file."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def write_lines(path, records):
    """Write records, and return the path."""
    text = "".join(json.dumps(record) + "\n" for record in records)
    Path(path).write_text(text, encoding="utf-8")
    return path
