"""The figure of the home page shows a real ladder and a real grade, and the citation has the data of the package."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import refladder

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = (
    "Nail varnish smell just means it's starving. Throw away all but a spoonful, feed it rye, and by tomorrow it'll "
    "smell of apples again."
)


def test_the_figure_shows_a_ladder_and_a_grade_of_the_demo_data():
    drawn = ET.parse(ROOT / "docs/ladder.svg").findall(".//{http://www.w3.org/2000/svg}text")  # noqa: S314  own file
    lines = [element.text for element in drawn]
    (score,) = refladder.Scorer(ladders="demo/dialogue", judge="builtin").score(
        [OUTPUT], context_id="dialogue-05"
    )
    shown = " ".join(lines)
    assert OUTPUT in shown
    place = f"grade {score.grade:.2f}"
    assert lines[lines.index(place) + 1] == "between rungs 3 and 4"
    home = (ROOT / "docs/index.md").read_text("utf-8")
    assert f"a new text between rungs 3 and 4: {place}](ladder.svg)" in home
    assert (
        3.0 < score.grade < 3.8
    )  # the grades of rungs 3 and 4 of 5 on 1 to 5: 1 + 4 (3 - 1/2) / 5, 1 + 4 (4 - 1/2) / 5
    ladder = refladder.load_ladders("demo/dialogue").ladders["dialogue-05", "engagingness"]
    starts = re.split(r" rung \d(?:, the (?:best|worst))? ", shown)[1:]
    for rung, start in zip(reversed(ladder.rungs), starts, strict=True):
        assert rung.text.startswith(re.split(r" …| \d\.\d$| A new", start)[0])


def test_the_citation_has_the_data_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    page = (ROOT / "docs/cite.md").read_text("utf-8")
    assert f"\nversion: {project['version']}\nlicense: {project['license']}\n" in citation
    assert f"version = {{{project['version']}}},\n  license = {{{project['license']}}}" in page
    assert f"- name: {project['authors'][0]['name']}\n" in citation
    assert all(f" {address}\n" in citation for address in project["urls"].values())
    # The entry of the study is of this version, in both, and what it names exists.
    assert f"number = {{version {project['version']}}}" in page
    assert f"\n    version: {project['version']}\n" in citation
    title, notes = re.findall(r'^    (?:title|notes): "(.*)"$', citation, re.MULTILINE)
    assert f"title = {{{title}}}" in page.replace("{Grades}", "Grades")
    assert f"note = {{{notes}}}" in page
    assert all((ROOT / path).exists() for path in re.findall(r"(?:docs|bench)/[\w/.-]+", notes))
