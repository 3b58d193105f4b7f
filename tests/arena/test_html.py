"""Pages that can be mailed: everything is in them, nothing is fetched or run, and texts cannot become markup."""

from __future__ import annotations

from html.parser import HTMLParser

NASTY = '<script>alert("1")</script> & </pre>'
VOID = {"img", "meta"}


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
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert not {"href", "onclick", "onload"} & {name for name, _ in page.attributes}
    assert all(
        value.startswith("data:image/svg+xml;base64,")
        for name, value in page.attributes
        if name == "src"
    )
    return page, " ".join(" ".join(page.words).split())


def test_a_page_that_cannot_be_written_is_told_after_the_tables(command, tmp_path):
    (tmp_path / "file").write_text("")
    page = tmp_path / "file" / "page.html"
    done = command(
        "evaluate", "demo/dialogue", "--methods", "direct-5", "--resamples", "5", "--html", page
    )
    assert done.code == 2
    assert "page.html: cannot be written" in done.err
    assert "direct-5" in done.out


def test_a_report_card_on_one_page(command, tmp_path):
    methods = "win-ratio,direct-5,bleu"
    path = tmp_path / "card.html"
    done = command(
        "evaluate",
        "demo/dialogue",
        "--methods",
        methods,
        "--resamples",
        "20",
        "--html",
        path,
        "--json",
    )
    assert done.code == 3  # bleu scored nothing
    page, words = read(path)
    assert "demo/dialogue: agreement with people" in words
    assert page.tags.count("figure") == 2  # cost, and the budget curve of one dimension
    rows = [row for row in done.rows if row.get("kind") != "card"]
    assert {f"{row['method']}: {row['signature']}" in words for row in rows} == {True}
    first = next(
        row for row in rows if (row["method"], row["level"]) == ("win-ratio", "within_context")
    )
    assert f"{first['value']:.3f} [{first['low']:.2f}, {first['high']:.2f}]" in words
    assert "bleu: demo/dialogue has no references to compare with" in words
    assert "demo/dialogue, judgments: faults and biases, with 95 % intervals over contexts" in words
    assert "P(first) how often the first text wins (0.5 = no position bias)" in words
    assert "Self-consistency of rankings by win ratio" in words
    assert "engagingness 6 1.000 " in words  # all outputs rank as all outputs do
