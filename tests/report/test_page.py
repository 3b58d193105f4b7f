"""Pages that can be mailed: everything is in them, nothing is fetched or run, and texts cannot become markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

NASTY = '<script>alert("1")</script> & </pre>'
VOID = {"meta"}


class Reader(HTMLParser):
    """Checks that tags are closed in order, and keeps tags, attributes and words."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(path):
    page = Reader(path.read_text(encoding="utf-8"))
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not {"src", "href", "onclick", "onload"} & {name for name, _ in page.attributes}
    return page, " ".join(" ".join(page.words).split())


@pytest.fixture
def contest(tmp_path):
    (tmp_path / "rows.jsonl").write_text(
        json.dumps({"id": "a", "topic": NASTY}) + "\n" + json.dumps({"id": "b", "topic": ""}) + "\n"
    )
    for name, text in (("long", f"A storm closed the harbour until Thursday. {NASTY}"), ("short", "Storm. Storm.")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"contains": "", "text": text}) + "\n")
    models = [f"--model={name}=scripted:{tmp_path / name}.jsonl" for name in ("long", "short")]
    given = ["--prompt-text", "Write about {topic}.", "--judge", "builtin", "--criterion", f"clarity=Plain? {NASTY}"]
    return ["compete", tmp_path / "rows.jsonl", *models, *given, "--out", tmp_path / "out", "--html"]


def test_a_contest_on_one_page(command, contest, tmp_path):
    assert command(*contest, tmp_path / "page.html").code == 3  # row b has no prompt
    _, words = read(tmp_path / "page.html")
    lines = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    (trial,) = [line for line in lines if line["kind"] == "trial"]
    for shown in (
        "long : short, judged by builtin",
        lines[0]["signature"],
        f"Write about {NASTY}.",
        f"A storm closed the harbour until Thursday. {NASTY}",
        "Storm. Storm.",
        f"clarity : Plain? {NASTY}",
        "clarity: win rate over pairs of texts, each judged in both orders",
        "unparsed : pairs without a usable answer; not counted",
        f"clarity long : short {trial['forward']:.3f} {trial['backward']:.3f} {trial['winner']}",
        "row b column 'topic' is empty or absent",
    ):
        assert shown in words
    assert "— 1 0 0" in words  # one row has no interval


def test_a_page_that_cannot_be_written_is_told_after_the_tables(command, tmp_path):
    (tmp_path / "file").write_text("")
    page = tmp_path / "file" / "page.html"
    done = command("evaluate", "demo/dialogue", "--methods", "win-ratio", "--resamples", "5", "--html", page)
    assert done.code == 2
    assert "page.html: cannot be written" in done.err
    assert "win-ratio" in done.out


def test_a_report_card_on_one_page(command, tmp_path):
    methods = "win-ratio,direct-5,bleu"
    path = tmp_path / "card.html"
    done = command("evaluate", "demo/dialogue", "--methods", methods, "--resamples", "20", "--html", path, "--json")
    assert done.code == 3  # bleu scored nothing
    page, words = read(path)
    assert "demo/dialogue: agreement with people" in words
    assert page.tags.count("svg") == 2  # cost, and the budget curve of one dimension
    rows = [row for row in done.rows if row.get("kind") != "card"]
    assert {f"{row['method']}: {row['signature']}" in words for row in rows} == {True}
    first = next(row for row in rows if (row["method"], row["level"]) == ("win-ratio", "within_context"))
    assert f"{first['value']:.3f} [{first['low']:.2f}, {first['high']:.2f}]" in words
    assert "bleu: demo/dialogue has no references to compare with" in words
    assert "demo/dialogue, judgments: faults and biases, with 95 % intervals over contexts" in words
    assert "P(first) : how often the first text wins (0.5 = no position bias)" in words
    assert "Self-consistency of rankings by win ratio" in words
    assert "engagingness 6 1.000 " in words  # all outputs rank as all outputs do
