"""The recorded readings of a large language model give the figures that the pages show."""

import gzip
import json
import shutil
import sys
from pathlib import Path

import pytest

import refladder

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
READINGS = ROOT / "bench" / "readings"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import large_model

    return large_model


@pytest.mark.parametrize(
    "name", [path.name.partition(".")[0] for path in sorted(READINGS.glob("*.jsonl.gz"))]
)
def test_scores_are_those_of_the_judgments(name, bench, tmp_path):
    path = tmp_path / "judgments.jsonl"
    path.write_bytes(gzip.decompress((READINGS / f"{name}.jsonl.gz").read_bytes()))
    dimension = name.split("-")[1]
    rows = refladder.rescore(path)
    found = {row["output_id"]: row[f"{dimension}_score"] for row in rows}
    _, texts = bench.stated(name)
    anchors = 3 if name.endswith("general") else 1  # whose mean is the score
    assert found == pytest.approx(
        {text: bench.ladder_score(row) / anchors for text, row in texts.items()}
    )
    assert len(found) >= 30


@pytest.mark.parametrize(
    "path", sorted(READINGS.glob("*-direct*.jsonl")), ids=lambda path: path.stem
)
def test_direct_ratings_are_the_means_of_their_percentages(path):
    dimension = path.name.split("-")[1]
    for row in map(json.loads, path.read_text("utf-8").splitlines()):
        percent = row["percent"]
        mean = sum(rating * share for rating, share in enumerate(percent, start=1)) / sum(percent)
        assert row[dimension] == pytest.approx(mean, abs=1e-5)
        assert percent[row[f"{dimension}_whole"] - 1] == max(percent)


def test_the_page_is_recomputed(bench, monkeypatch, tmp_path, capsys):
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent: the benchmark files are not in the repository")
    page = (ROOT / "bench" / "results" / "large_model.md").read_text("utf-8")
    (tmp_path / "results").mkdir()
    shutil.copytree(READINGS, tmp_path / "readings")
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "large_model.py"))
    monkeypatch.setattr(sys, "argv", ["large_model.py", str(DATA)])
    bench.main()
    assert capsys.readouterr().out.strip() == page.strip()
    # The page on the benchmarks shows the same figures, without the zeros before the points.
    shown = (ROOT / "docs/explanation/benchmark-figures.md").read_text("utf-8")
    figures = [
        cell.replace("0.", ".")
        for line in page.splitlines()
        for cell in line.split(" | ")
        if "[" in cell
    ]
    assert len(figures) == 14
    assert [figure for figure in figures if figure not in shown] == []
