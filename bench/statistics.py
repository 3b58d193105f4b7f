"""Simulations behind the statistics that refladder prints: coverage of intervals, debiasing, sampling, fairness.

`python bench/statistics.py` runs every section, `python bench/statistics.py NAME ...` some of them. Each section is
recorded under its own heading in bench/results/statistics.md; the others stay as they are.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
import time
from pathlib import Path

if __name__ == "statistics":
    # Another bench in this folder, or a library that it uses, imports the standard library's module of this name.
    _spec = importlib.util.spec_from_file_location(
        "statistics", Path(sysconfig.get_path("stdlib")) / "statistics.py"
    )
    if _spec is None or _spec.loader is None:
        raise ImportError("the standard library's statistics module is missing")
    sys.modules["statistics"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["statistics"])


RESULTS = Path(__file__).resolve().parent / "results" / "statistics.md"
HEAD = "# Simulations of the statistics\n\nMade by `python bench/statistics.py`.\n"


def record(name: str, text: str, order: list[str]) -> None:
    """Put a section into the results file in place of the one of that name; sections stand in this order."""
    old = RESULTS.read_text() if RESULTS.exists() else HEAD
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", old, flags=re.MULTILINE | re.DOTALL))
    sections[name] = f"\n{text.strip()}\n\n"
    RESULTS.write_text(
        HEAD
        + "".join(f"\n## {key}\n{sections[key].rstrip()}\n" for key in order if key in sections)
    )


def main(names: list[str]) -> None:
    """Run the sections of these names, or all."""
    from simulations import SECTIONS

    for name in names or list(SECTIONS):
        started = time.perf_counter()
        text = f"{SECTIONS[name]()}\n\n({time.perf_counter() - started:.0f} s)"
        print(f"## {name}\n\n{text}\n")
        record(name, text, list(SECTIONS))


if __name__ == "__main__":
    main(sys.argv[1:])
