"""What calls return, as text and in a notebook."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from html.parser import HTMLParser

import pytest

import refladder
from refladder.display.rendering import PlainTable
from refladder.display.results import LONGEST, ShownDict
from refladder.records import Link

ROWS = [
    {
        "context_id": f"story-{1 + number % 12:02}",
        "output": f"The keeper unfolded letter {number}. " * (1 + number % 4),
        "system": "ab"[number % 2],
    }
    for number in range(48)
]


TABLE = {"table", "caption", "thead", "tbody", "tr", "th", "td"}
TAGS = {*TABLE, "p", "dl", "dt", "dd"}


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


def calibrated(scored, **more):
    labelled = [{**row, "good": "yes" if len(row["output"]) > 90 else "no"} for row in scored]
    asked = {"label": "good", "good": "=yes", "by": "coherence_score", "precision": 0.6, **more}
    return refladder.calibrate(labelled, **asked), labelled


def estimated():
    scored = refladder.score(ROWS, ladders="demo/story")
    result, labelled = calibrated(scored[:24])
    both = [*labelled, *({**row, "good": "yes"} for row in scored[24:])]
    kept = replace(result.threshold, cutoff=-99.0)
    return refladder.estimate_precision(both, threshold=kept, label="good", good="=yes")


def planned():
    scored = refladder.score(ROWS, ladders="demo/story")
    return refladder.plan_labels(scored, by="coherence_score", precision=0.8)


def linked(folder):
    for name, both in (("a", False), ("b", True)):
        refladder.score(ROWS, ladders="demo/story", both_orders=both, out=folder / f"{name}.jsonl")
    return refladder.link(folder / "a.jsonl", to=folder / "b.jsonl")


def distilled(folder):
    rows = [{**row, "output": f"{row['output']} {n}"} for n, row in enumerate(2 * ROWS)]
    scored = refladder.score(rows, ladders="demo/story", dimensions=["coherence"])
    return refladder.distil(scored, by="coherence_score", out=folder / "student")


def built(_folder):
    return refladder.build("demo/story", writer="builtin")


CALLS = {
    "calibrate": (
        lambda: calibrated(refladder.score(ROWS, ladders="demo/story"))[0],
        "taken as a random sample of them",
    ),
    "plan_labels": (planned, "What more labels can promise"),
    "estimate_precision": (estimated, "of 48 rows; used: "),
    "compare": (compared, "Differences of the means of coherence_score"),
    "certify": (lambda: refladder.certify("demo/story"), "verdict: drop"),
    "audit": (lambda: refladder.audit("demo/story", contexts=4), "P(longer)"),
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
    assert set(shown.tags) <= TAGS


WITH_FILES = {
    "link": (linked, "equipercentile"),
    "distil": (distilled, "90 % of the held-out estimates"),
    "build": (built, "24 ladders of 5 rungs"),
}


@pytest.mark.parametrize("name", WITH_FILES)
def test_results_that_are_files_print_what_their_command_prints(name, tmp_path):
    call, words = WITH_FILES[name]
    result = call(tmp_path)
    assert words in str(result)
    assert len(str(result)) < 4000
    assert words in "".join(Tags(result._repr_html_()).cells)


def test_a_record_that_is_shown_is_the_record_of_its_file(tmp_path):
    made = linked(tmp_path)
    record = Link(**{each.name: getattr(made, each.name) for each in fields(Link)})
    assert made == record
    assert record == made
    assert hash(made) == hash(record)
    assert made != replace(record, version="0")
    assert made != "link"


def test_a_benchmark_prints_its_counts():
    benchmark = refladder.load_benchmark("demo/story")
    assert len(str(benchmark)) < 200
    assert "12 contexts, " in str(benchmark)


def test_a_result_is_the_dict_that_it_was():
    result = compared()
    assert json.loads(json.dumps(result)) == dict(result)
    assert result["by"] == "coherence_score"


def test_columns_stay_aligned_in_a_notebook():
    """As in the terminal: names on the left, figures on the right, and bars of characters keep their spaces."""
    table = PlainTable("c", ["method", "0 to 1"], [["a", "  --=|"], ["long name", "----=|"]])
    html = ShownDict({}, [table])._repr_html_()
    even = "white-space:pre;font-family:monospace;text-align"
    assert f'<th style="{even}:left">method</th><th style="{even}:right">0 to 1</th>' in html
    assert f'<th style="{even}:left">a</th><td style="{even}:right">  --=|</td>' in html


def test_a_long_result_is_cut_and_markup_stays_text():
    table = PlainTable(
        caption="<b>", heads=["name", "n"], rows=[["<i>", str(n)] for n in range(900)]
    )
    result = ShownDict({}, [table], ["<u>"])
    assert len(str(result)) < LONGEST + 40
    assert str(result).endswith("\n(cut: the whole result is longer)")
    html = result._repr_html_()
    start = '<p style="white-space:pre-wrap">&lt;u&gt;</p><table><caption>&lt;b&gt;</caption>'
    assert html.startswith(start)
    assert html.count("<tr>") == 901
