"""The page on different judges: its figures are those of the table, and the table's are those of plain arithmetic."""

from __future__ import annotations

import re
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
TABLE = (ROOT / "bench" / "results" / "judges.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "explanation" / "different-judges.md").read_text("utf-8")
DATA = ROOT.parent / "shared" / "data"


def tables(text):
    """The tables of a page: for each a dict of rows by first cell, which are dicts of cells by column."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines())  # fmt: skip
        found.append({row[0]: dict(zip(head, row, strict=True)) for row in rows})
    return found


BENCHMARKS, GAINS, BY_RANK, JURIES, _ = tables(TABLE)


def test_the_tables_of_the_page_are_those_of_the_results():
    shown = tables(PAGE)
    assert len(shown) == 3
    for table, source in zip(shown, (BENCHMARKS, BY_RANK, JURIES), strict=True):
        assert [*table] == [*source]
        for name, cells in table.items():
            for column, cell in cells.items():
                value = source[name][column]
                # A share of .345 may be a little more or less.
                assert cell == value or float(cell) == pytest.approx(float(value), abs=0.0055)


def test_the_sentences_of_the_page_say_what_the_results_say():
    def of(column):
        return [float(row[column]) for row in BENCHMARKS.values()]

    answer = PAGE.split("\n\n")[1].replace("\n", " ")
    ranges = re.findall(r"(\d+) to (\d+) %", answer)
    columns = ("as they are", "placed, rungs beaten", "best cut-off")
    expected = [(f"{min(of(name)):.0%}", f"{max(of(name)):.0%}") for name in columns]
    assert [(f"{low}%", f"{high}%") for low, high in ranges] == expected
    times = [beaten / floor for beaten, floor in zip(of(columns[1]), of(columns[2]), strict=True)]
    assert f"{min(times):.1f} to {max(times):.1f}\n  times the floor" in PAGE
    fewer, every = (
        sum(int(row["than as they are"].split(" of ")[part]) for row in GAINS.values())
        for part in (0, 1)
    )
    assert f"in {every - fewer} of {every} pairs in all, no fewer decisions" in PAGE
    better = [row["than by the line"].split(" of ") for row in GAINS.values()]
    assert all(pair[0] == pair[1] for pair in better)
    assert "Rungs beaten is better in all pairs" in PAGE
    hanna, gemba, _ = of("placed, line")
    assert f"leaves {hanna:.2f} (HANNA) and {gemba:.2f} (GEMBA)".replace("0.", ".") in PAGE
    assert "0.85 to 1" not in BY_RANK


@pytest.fixture
def judges(monkeypatch):
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent: the published ratings are not in the repository")
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import judges

    return judges


def test_a_draw_by_another_program(judges):
    """Rungs beaten, the share of decisions and the best cut-off by their definitions, text by text."""
    [group] = [each for each in judges.groups_of(DATA) if each.name == "coherence"]
    models = [group.models.index(name) for name in ("Beluga-13B", "ChatGPT")]
    rungs, texts = judges.drawn(group, np.random.default_rng(3))
    assert rungs.shape == (5, 5, 16)
    assert texts.shape == (5, 80 * 6)

    def place(rating, levels):
        def at(value):
            return statistics.mean(
                statistics.mean((rung < value) + (rung == value) / 2 for rung in level)
                for level in levels
            )

        rated = [rung for level in levels for rung in level]
        below, above = max([1.0, *(r for r in rated if r <= rating)]), min([5.0, *(r for r in rated if r >= rating)])  # fmt: skip
        ends = [at(below) if below in rated else 0.0, at(above) if above in rated else 1.0]
        part = (rating - below) / (above - below) if above > below else 0.0
        return ends[0] + part * (ends[1] - ends[0])

    first, second = (texts[model].tolist() for model in models)
    places = [
        [place(rating, rungs[model].tolist()) for rating in texts[model].tolist()]
        for model in models
    ]
    for model, expected in zip(models, places, strict=True):
        found = judges.beaten(texts[model], rungs[model], group.scale)
        assert found == pytest.approx(np.array(expected))

    def cutoffs(target):
        cuts = set()
        for decile in statistics.quantiles(target, n=10, method="inclusive"):
            above = min(value for value in target if value >= decile - 1e-9)
            if above > min(target):
                cuts.add((above + max(value for value in target if value < above)) / 2)
        return cuts

    def changed(one, other, cuts):
        return statistics.mean(
            (a >= cut) != (b >= cut) for cut in cuts for a, b in zip(one, other, strict=True)
        )

    floor = statistics.mean(
        min(
            statistics.mean((a >= cut) != (b >= best) for a, b in zip(second, first, strict=True))
            for best in {*first, 9.0}
        )
        for cut in cutoffs(second)
    )
    arrays = [np.array(each) for each in places]
    shares = judges.of_pair((texts[models[0]], texts[models[1]]), (None, None), tuple(arrays), np.arange(480))  # fmt: skip
    by_way = dict(zip(judges.WAYS, shares, strict=True))
    assert by_way["raw"] == pytest.approx(changed(first, second, cutoffs(second)))
    assert by_way["beaten"] == pytest.approx(changed(*places, cutoffs(places[1])))
    assert by_way["floor"] == pytest.approx(floor)
    assert np.isnan(by_way["line"])


def test_one_draw_is_near_the_table(judges, monkeypatch, tmp_path):
    out = tmp_path / "judges.md"
    monkeypatch.setattr(sys, "argv", ["judges.py", str(DATA), "--draws", "1", "--out", str(out)])
    judges.main()
    anew = tables(out.read_text("utf-8"))
    for table, source in zip((anew[0], anew[3]), (BENCHMARKS, JURIES), strict=True):
        for name, cells in table.items():
            for column in cells.keys() - {"ratings", "pairs", "replacements"}:
                # One draw of 30, and of a single pair on WildBench.
                assert float(cells[column]) == pytest.approx(float(source[name][column]), abs=0.04)
