"""The figures of a report card in a real browser."""

from __future__ import annotations

import pytest
from chromium import new_page, started

from refladder.display.pages import card_page
from refladder.evaluation.charts import COLOURS, Chart, Series

SHOWN = "() => [...document.querySelectorAll('.figures img')].map((image) => [image.naturalWidth, image.width])"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_figures_are_shown_on_screens_of_all_widths(tmp_path, scheme, width):
    series = [
        Series(name=f"line {n}", points=((1, n), (2, n + 1)), colour=n) for n in range(len(COLOURS))
    ]
    points = [(f"point {n}", 10.0**n, float(n)) for n in range(len(COLOURS))]
    page_file = tmp_path / "card.html"
    figures = {
        "lines": Chart(title="Lines", across="x", up="y", series=series).svg(),
        "points": Chart(title="Points", across="x", up="y", points=points).svg(),
    }
    page_file.write_text(card_page("Card", [], figures, []), "utf-8")
    with started() as browser:
        page, problems = new_page(
            browser, offline=True, color_scheme=scheme, viewport={"width": width, "height": 800}
        )
        page.goto(f"file://{page_file}")
        shown = page.evaluate(SHOWN)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems == []
    assert len(shown) == 2
    assert all(natural > 0 and drawn > 300 for natural, drawn in shown)
