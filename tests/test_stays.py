"""The page of the study on judges of other temperament: its figures by another program, and the page anew."""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "bench" / "results" / "stays.md"
DATA = ROOT.parent / "shared" / "data"


def scores(sample, way, judge):
    """The scores of a cell by plain arithmetic, by text."""
    path = ROOT / "bench" / "readings" / f"stays-{sample}-{way}-{judge}.jsonl"
    found = {}
    for row in map(json.loads, path.read_text("utf-8").splitlines()):
        percent = row["percent"]
        if "level" in row:
            continue
        if way == "stated":  # level * (p(win) - p(loss)), with p(loss) = 1 - p(win)
            found[row["output_id"]] = sum(
                n * (p - (100 - p)) / 100 for n, p in enumerate(percent, 1)
            )
        else:
            found[row["output_id"]] = sum(n * p for n, p in enumerate(percent, 1)) / sum(percent)
    return found


@pytest.mark.parametrize(
    ("sample", "way", "name", "pair"),
    [
        ("topicalchat", "stated", "ladder", ("strict", "lenient")),
        ("topicalchat", "rating", "rating", ("strict", "lenient")),
        ("topicalchat", "anchored", "anchored", ("neutral1", "crowd")),
        ("summeval", "stated", "ladder", ("neutral1", "neutral2")),
        ("summeval", "rating", "rating", ("strict", "lenient")),
    ],
)
def test_shifts_and_changed_decisions_by_another_program(sample, way, name, pair):
    first, second = (scores(sample, way, judge) for judge in pair)
    neutral = sorted(round(score, 9) for score in scores(sample, way, "neutral1").values())
    variance = statistics.mean(statistics.variance(each.values()) for each in (first, second))
    means = [statistics.mean(each.values()) for each in (first, second)]
    shift = (means[1] - means[0]) / variance**0.5
    cuts = []
    for decile in statistics.quantiles(neutral, n=10, method="inclusive"):
        above = min(score for score in neutral if score >= decile - 1e-9)
        cuts.append((above + max(score for score in neutral if score < above)) / 2)
    changed = statistics.mean(
        (first[text] >= cut) != (second[text] >= cut) for cut in cuts for text in first
    )
    section = PAGE.read_text("utf-8").partition(f"## {sample}")[2]
    row = re.search(
        rf"^\| {name} \| {', '.join(pair)} \| (\S+) \| .*? \| (\S+) \|", section, re.MULTILINE
    )
    assert float(row[1]) == pytest.approx(shift, abs=0.006)
    assert float(row[2]) == pytest.approx(changed, abs=0.00051)


def test_the_page_is_that_of_the_readings(monkeypatch, tmp_path):
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent: the benchmark files are not in the repository")
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import stays

    out = tmp_path / "stays.md"
    options = [str(DATA), "--resamples", "20", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["stays.py", *options])
    stays.main()
    # Intervals have other draws.
    anew, page = (
        re.sub(r"\[-?\d\.\d\d, -?\d\.\d\d\]", "[]", each.read_text("utf-8")) for each in (out, PAGE)
    )
    assert anew == page
