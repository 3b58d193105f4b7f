"""bench/promise.py writes parts of its page anew, and keeps the section of bench/promise_fooled.py."""

import shutil
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.mark.parametrize("option", ["", "--choices", "--power", "--intervals"])
def test_the_section_on_misled_contexts_stays(option, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCH))
    import promise

    page = tmp_path / "promise.md"
    shutil.copy(promise.RESULTS, page)
    monkeypatch.setattr(promise, "RESULTS", page)
    monkeypatch.setattr(sys, "argv", ["promise.py", *filter(None, [option])])
    table = promise.PlainTable("Anew", ["a"], [["1"]])
    monkeypatch.setattr(promise, "promise_tables", lambda: ([table], ["Anew"]))
    monkeypatch.setattr(promise, "intervals", lambda: table)
    for name in ("choices", "power", "speed"):
        monkeypatch.setattr(promise, name, lambda: ["Anew"])
    section = promise.promise_fooled.SECTION
    kept = page.read_text("utf-8").partition(section)[2]
    promise.main()
    text = page.read_text("utf-8")
    assert "Anew" in text
    assert text.count(section) == 1
    assert text.partition(section)[2] == kept
