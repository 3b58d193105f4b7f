"""The documentation site opened from disk, without a network, in a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import new_page, started, sync_api

pytest.importorskip(
    "material", reason="mkdocs-material is not installed; see make test-integrations"
)

ROOT = Path(__file__).parents[2]
# Elements with something to their right that does not show, as "name: pixels".
HIDDEN = """() => [document.documentElement, ...document.querySelectorAll("pre > code, .md-typeset__scrollwrap")]
  .filter((element) => element.scrollWidth > element.clientWidth + 1)
  .map((element) => `${element.className || element.tagName}: ${element.scrollWidth - element.clientWidth}`)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    return folder


@pytest.fixture(scope="module")
def chromium():
    with started() as browser:
        yield browser


def test_the_search_runs_from_disk(site, chromium):
    page, problems = new_page(chromium, offline=True)
    page.goto(f"file://{site}/index.html")
    page.keyboard.press("/")
    query = page.locator("[data-md-component=search-query]")
    found = page.locator(".md-search-result__meta")
    # Each beginning of the word is searched for on its own: none may find nothing. The end of a key starts a search.
    for typed in ("b", "budg", "budget"):
        query.clear()
        query.press("End")
        sync_api.expect(found).to_have_text("Type to start searching")
        query.fill(typed)
        query.press("End")
        sync_api.expect(found).to_have_text(re.compile(r"\d+ matching documents"))
    first = page.locator("a.md-search-result__link").first
    sync_api.expect(first).to_have_attribute("href", f"file://{site}/how-to/costs.html")
    assert problems == []


@pytest.fixture(scope="module")
def searching(site, chromium):
    """A page with its search open, and the field of the query: the index is loaded once."""
    page, _ = new_page(chromium, offline=True)
    page.goto(f"file://{site}/index.html")
    page.keyboard.press("/")
    return page, page.locator("[data-md-component=search-query]")


@pytest.mark.parametrize(
    ("words", "pages"),
    [
        ("429", ["how-to/servers"]),
        ("add my own mode", ["how-to/plug-ins"]),
        ("API key", ["how-to/servers"]),
        ("Chinese", ["index", "how-to/build-ladders"]),
        ("compare two models", ["how-to/compare-models"]),
        ("compare two sets", ["how-to/publish"]),
        ("context length", ["how-to/local-models"]),
        ("cost", ["how-to/costs"]),
        ("cut-off", ["how-to/threshold"]),
        ("delete my data", ["how-to/servers"]),
        ("excel", ["how-to/python"]),
        ("exit code", ["reference/command-line"]),
        ("filter training data", ["how-to/check-a-filter"]),
        ("German replies", ["how-to/shared-ladders"]),
        ("German", ["how-to/shared-ladders"]),
        ("grade or score", ["explanation/ladder-scores"]),
        ("how many labels do I need", ["how-to/threshold"]),
        ("inspect", ["how-to/integrations"]),
        ("licence", ["how-to/publish"]),
        ("no score", ["explanation/ladder-scores"]),
        ("offline", ["how-to/local-models"]),
        ("Ollama", ["how-to/servers"]),
        ("overall grade", ["explanation/ladder-scores"]),
        ("privacy", ["how-to/servers"]),
        ("rating or ladder", ["how-to/choose-a-judge"]),
        ("resume", ["how-to/build-ladders"]),
        ("retrieval", ["how-to/shared-ladders"]),
        ("significance", ["how-to/compare-models"]),
        ("stored answers", ["how-to/costs"]),
        ("tokens per row", ["how-to/costs"]),
        ("uncertainty", ["explanation/ladder-scores"]),
        ("what does a score mean", ["explanation/ladder-scores"]),
        ("which judge", ["how-to/choose-a-judge"]),
    ],
)
def test_the_search_finds_what_people_ask(site, searching, words, pages):
    page, query = searching
    query.clear()
    query.press("End")
    meta = page.locator(".md-search-result__meta")
    sync_api.expect(meta).to_have_text("Type to start searching")
    query.press_sequentially(words)
    # People look at the first three pages.
    for name in pages:
        found = page.locator(
            f"li.md-search-result__item:nth-child(-n+3) a.md-search-result__link[href*='{site}/{name}.html']"
        )
        sync_api.expect(found.first).to_be_visible()


def test_the_site_follows_the_colours_of_the_system(site, chromium):
    for scheme, background in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(30, 33, 41)")):
        page, _ = new_page(chromium, offline=True, color_scheme=scheme)
        page.goto(f"file://{site}/index.html")
        sync_api.expect(page.locator("body")).to_have_css("background-color", background)


def test_nothing_scrolls_sideways_at_1280_pixels(site, chromium):
    page, _ = new_page(chromium, offline=True, viewport={"width": 1280, "height": 900})
    wide = {}
    for path in sorted(site.rglob("*.html")):
        page.goto(f"file://{path}")
        wide[path.relative_to(site).as_posix()] = page.evaluate(HIDDEN)
    assert len(wide) > 40
    assert {name: elements for name, elements in wide.items() if elements} == {}


def test_no_page_is_wider_than_a_phone(site, chromium):
    page, _ = new_page(chromium, offline=True, viewport={"width": 390, "height": 844})
    for path in sorted(site.rglob("*.html")):
        page.goto(f"file://{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
