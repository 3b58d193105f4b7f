"""Pages that can be mailed: everything is in them, nothing is fetched or run, and texts cannot become markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from review_data import NASTY, contest

from refladder.contest.html import MODULES, PAGE, inert_json, review_page, script
from refladder.contest.runs import read_run

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
    sources = [value for name, value in page.attributes if name == "src"]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    return page, " ".join(" ".join(page.words).split())


def test_a_page_that_cannot_be_written_is_reported_after_the_tables(command, tmp_path):
    (tmp_path / "file").write_text("")
    given = ("--methods", "direct-5", "--resamples", "5", "--html", tmp_path / "file" / "page.html")
    done = command("evaluate", "demo/dialogue", *given)
    assert done.code == 2
    assert "page.html: cannot be written" in done.err
    assert "direct-5" in done.out


def test_a_report_card_on_one_page(command, tmp_path):
    path = tmp_path / "card.html"
    given = ("--methods", "win-ratio,direct-5,bleu", "--resamples", "20", "--html", path, "--json")
    done = command("evaluate", "demo/dialogue", *given)
    assert done.code == 3  # bleu scored nothing
    page, words = read(path)
    assert page.tags.count("figure") == 2  # cost, and the budget curve of one dimension
    rows = [row for row in done.rows if row.get("kind") != "card"]
    first = next(row for row in rows if row["level"] == "within_context")
    assert first["method"] == "win-ratio"
    for expected in (
        *(f"{row['method']}: {row['signature']}" for row in rows),
        f"{first['value']:.3f} [{first['low']:.2f}, {first['high']:.2f}]",
        "demo/dialogue: agreement with people",
        "bleu: demo/dialogue has no references to compare with",
        "demo/dialogue, judgments: faults and biases, with 95 % intervals over contexts",
        "P(first) how often the first text wins (0.5 = no position bias)",
        "Self-consistency of rankings by win ratio",
        "engagingness 6 1.000 ",  # all outputs rank as all outputs do
    ):
        assert expected in words


def test_options_never_reach_the_page(tmp_path):
    folder = contest(tmp_path, rows=2)
    config = folder / "run" / "run.json"
    fields = json.loads(config.read_text())
    fields["options"]["judge_option"] = ["api_key=sk-secret-1"]
    config.write_text(json.dumps(fields))
    assert "sk-secret-1" not in review_page(read_run(folder / "run"))


def test_data_in_the_page_cannot_end_its_element():
    given = {"text": NASTY, "lone": "\ud800"}
    text = inert_json(given)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == given


def test_modules_are_one_script_without_names_that_clash():
    text = script()
    assert not re.search(r"^(import|export) ", text, re.MULTILINE)
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE)
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
    files = {f"{name}.js" for name in MODULES}
    assert files == {path.name for path in PAGE.iterdir()}
    seen = set()
    for name in MODULES:
        module = (PAGE / f"{name}.js").read_text(encoding="utf-8")
        assert set(re.findall(r'from "\./(\w+)\.js"', module)) <= seen, name
        seen.add(name)
