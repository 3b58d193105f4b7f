"""The figures of a report card in light and dark colours, in a real browser."""

from __future__ import annotations

import re

import pytest
from chromium import new_page, started

from refladder.arena.html import card_page
from refladder.report.svg import COLOURS, Chart, Series

SHOWN = """() => { const style = (element, name) => getComputedStyle(element)[name];
  return { back: style(document.querySelector(".figures rect"), "fill"),
    texts: [...document.querySelectorAll(".figures text")].map((text) => style(text, "fill")),
    strokes: [...document.querySelectorAll(".figures polyline")].map((line) => style(line, "stroke")),
    points: [...document.querySelectorAll(".figures circle")].map((point) => style(point, "fill")) } }"""


def luminance(colour):
    """Relative luminance of "rgb(r, g, b)" (WCAG 2.1)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    high, low = sorted([luminance(first), luminance(second)], reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_can_be_read_in_both_colours(tmp_path, scheme):
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)  # the example of WCAG 2.1
    series = [Series(name=f"line {n}", points=((1, n), (2, n + 1)), colour=n) for n in range(len(COLOURS))]
    points = [(f"point {n}", 10.0**n, float(n)) for n in range(len(COLOURS))]
    page_file = tmp_path / "card.html"
    figures = [
        Chart(title="Lines", across="x", up="y", series=series).svg(),
        Chart(title="Points", across="x", up="y", points=points).svg(),
    ]
    page_file.write_text(card_page("Card", [], figures, []), "utf-8")
    with started() as browser:
        page, problems = new_page(browser, offline=True, color_scheme=scheme, viewport={"width": 1280, "height": 800})
        page.goto(f"file://{page_file}")
        shown = page.evaluate(SHOWN)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert problems == []
    assert (luminance(shown["back"]) < 0.1) is (scheme == "dark")
    assert min(contrast(colour, shown["back"]) for colour in shown["texts"]) >= 4.5
    # Every line and point is seen; light ones of the palette (Okabe and Ito) have 2.2 on white.
    assert len(shown["strokes"]) == len(shown["points"]) == 7
    assert min(contrast(colour, shown["back"]) for colour in [*shown["strokes"], *shown["points"]]) >= 2.2
