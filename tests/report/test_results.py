"""What calls return, as text and in a notebook."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

import refladder
from refladder.report.rendering import PlainTable
from refladder.report.results import LONGEST, ShownDict

ROWS = [
    {
        "context_id": f"story-{1 + number % 12:02}",
        "output": f"The keeper unfolded letter {number}. " * (1 + number % 4),
        "system": "ab"[number % 2],
    }
    for number in range(48)
]


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.cells, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, _attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.cells.append(data)


def compared():
    scored = refladder.score(ROWS, ladders="demo/story")
    return refladder.compare(scored, by="coherence_score", systems=["a", "b"])


CALLS = {
    "compare": (compared, "Differences of the means of coherence_score"),
    "certify": (lambda: refladder.certify("demo/story"), "verdict: drop"),
    "audit": (lambda: refladder.audit("demo/story", contexts=4), "P(longer)"),
    "diff": (lambda: refladder.diff("demo/story", "demo/dialogue"), "different scales"),
    "evaluate": (lambda: refladder.evaluate("demo/story", methods=["ladder"]), "ladder"),
    "several": (
        lambda: refladder.evaluate(["demo/story", "demo/dialogue"], methods=["ladder"]),
        "ladder",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_print_the_tables_of_their_command(name):
    call, words = CALLS[name]
    result = call()
    text = str(result)
    assert words in text
    assert len(text) < 4000
    shown = Tags(result._repr_html_())
    assert words in "".join(shown.cells)
    assert set(shown.tags) <= {
        "p",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "dl",
        "dt",
        "dd",
    }


def test_a_benchmark_prints_its_counts():
    benchmark = refladder.load_benchmark("demo/story")
    assert len(str(benchmark)) < 200
    assert "12 contexts, " in str(benchmark)


def test_a_result_is_the_dict_that_it_was():
    result = compared()
    assert json.loads(json.dumps(result)) == dict(result)
    assert result["by"] == "coherence_score"


def test_a_long_result_is_cut_and_markup_stays_text():
    table = PlainTable(
        caption="<b>", heads=["name", "n"], rows=[["<i>", str(n)] for n in range(900)]
    )
    result = ShownDict({}, [table], ["<u>"])
    assert len(str(result)) < LONGEST + 40
    assert str(result).endswith("\n(cut: the whole result is longer)")
    html = result._repr_html_()
    assert html.startswith("<p>&lt;u&gt;</p><table><caption>&lt;b&gt;</caption>")
    assert html.count("<tr>") == 901
