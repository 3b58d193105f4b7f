"""The study with readers apart: its readings, figures by another program, and the figures of the pages."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READINGS = ROOT / "bench" / "readings"
PAGE = (ROOT / "bench" / "results" / "apart.md").read_text("utf-8")
SAMPLES = {
    "topicalchat": "TopicalChat engagingness",
    "summeval": "SummEval coherence",
    "replies": "replies, helpfulness",
}
JUDGES = "neutral1", "neutral2", "strict", "lenient", "crowd"


def lines(name):
    return [json.loads(line) for line in (READINGS / f"{name}.jsonl").read_text().splitlines()]


def test_no_reader_read_texts_and_rungs_or_more_than_20_requests():
    kind_of, context_of = {}, {}
    for sample in SAMPLES:
        for judge in JUDGES:
            for row in lines(f"order1-apart-{sample}-{judge}"):
                kind_of[row["request"]] = (sample, judge, "level" in row)
                text = row.get("output_id", "").rpartition("/")[0]
                context_of[row["request"]] = row.get("context_id", text)
    requests = defaultdict(list)
    for row in lines("order1-readers"):
        requests[row["reader"]].append(row["request"])
    assert sum(map(len, requests.values())) == len(kind_of) == 1600
    assert len(requests) == 85
    for read in requests.values():
        assert len(read) <= 20
        assert len({kind_of[request] for request in read}) == 1
        contexts = [context_of[request] for request in read]
        assert max(Counter(contexts).values()) <= 2
        last = {}
        for place, context in enumerate(contexts):
            assert place - last.get(context, -5) >= 5
            last[context] = place


def test_a_reading_names_its_request():
    # The replies are in the repository, so their requests can be made again.
    from refladder.prompts import criterion, fill, load_template
    from refladder.records import Context, Dimension

    template = load_template("open", "rating-stated", ROOT / "bench" / "stays" / "order1")
    described = {}
    sets = ROOT / "published_data" / "general" / "reply" / "dimensions.jsonl"
    for line in map(json.loads, sets.read_text("utf-8").splitlines()):
        described[line["name"]] = line["description"]
    text = described["helpfulness"]
    dimension = Dimension(name="helpfulness", description=text)
    instruction = (ROOT / "bench" / "stays" / "strict.txt").read_text("utf-8").strip()
    digests = {}
    for row in lines("stays-replies"):
        context = Context(id="x", task="open", text=row["context"])
        prompt = fill(template, {**criterion(context, dimension), "target": row["output"]}).text
        digest = hashlib.sha256(f"strict\n\n{instruction}\n\n{prompt}".encode()).hexdigest()[:16]
        digests[row["output_id"]] = digest
    read = [row for row in lines("order1-apart-replies-strict") if "output_id" in row]
    assert {row["output_id"]: row["request"] for row in read} == digests


def figures(sample, way):
    """The shift and the decisions of strict against lenient on the page."""
    section = PAGE.partition(f"## {SAMPLES[sample]}")[2]
    row = re.search(
        rf"^\| {way} \| strict, lenient \| (\S+) \|.*\| (\S+) \| \S+ \|$", section, re.MULTILINE
    )
    return float(row[1]), float(row[2])


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_shift_of_ratings_by_another_program(sample):
    means, variances = [], []
    for judge in ("strict", "lenient"):
        ratings = []
        for row in lines(f"order1-apart-{sample}-{judge}"):
            if "output_id" in row:
                share = row["percent"]
                ratings.append(sum(n * p for n, p in enumerate(share, 1)) / sum(share))
        means.append(statistics.mean(ratings))
        variances.append(statistics.variance(ratings))
    shift = (means[1] - means[0]) / statistics.mean(variances) ** 0.5
    assert round(shift, 2) == figures(sample, "rating")[0]


def shown(name):
    text = (ROOT / name).read_text("utf-8")
    return re.sub(r"\s+", " ", text)


def test_the_first_lines_of_the_pages_are_those_of_the_table():
    ways = {
        way: [figures(sample, way) for sample in SAMPLES] for way in ("rating", "placed", "ladder")
    }
    shifts = {way: sorted(abs(each[0]) for each in found) for way, found in ways.items()}
    shares = {way: sorted(round(100 * each[1]) for each in found) for way, found in ways.items()}

    def span(values, form):
        return f"{form(values[0])} to {form(values[-1])}"

    def short(value):
        return f"{value:.2f}".removeprefix("0")

    page, readme = shown("docs/explanation/does-it-stay.md"), shown("README.md")
    assert f"moved by {span(shifts['rating'], short)} standard deviations" in page
    assert (
        f"moved by {span(shifts['placed'], short)}, and {span(shares['placed'], str)} % changed"
        in page
    )
    assert (
        f"moved by {span(shifts['ladder'], short)}, and {span(shares['ladder'], str)} % changed"
        in page
    )
    assert f"{span(shares['rating'], str)} % of the decisions at a cut-off changed" in page
    assert f"{span(shares['rating'], str)} % of the decisions changed with plain ratings" in readme
    assert f"and {span(shares['placed'], str)} % with placed ones" in readme
    more = float(re.search(r"decisions that change: .*\+(0\.\d+)\.", PAGE)[1])
    assert f"placing changes .{round(1000 * more):03} more" in page
    assert ("is **not met**" in PAGE) == ("It is **not met**" in page)
    # The figures of two models are those of their own page.
    models = shown("docs/explanation/different-judges.md")
    for figure in ("12 to 38 %", "13 to 27 %"):
        assert figure in models
        assert figure in page
        assert figure in readme


def test_the_table_of_the_page_is_that_of_the_results():
    page = shown("docs/explanation/does-it-stay.md")
    for sample, title in SAMPLES.items():
        section = PAGE.partition(f"## {title}")[2]
        for way in ("rating", "placed", "line"):
            row = re.search(
                rf"^\| {way} \| strict, lenient \| (\S+) \| .*? \| (\[.*?\]) \|",
                section,
                re.MULTILINE,
            )
            assert f"{row[1]} {row[2]}".replace("0.", ".") in page, (sample, way)
    gains = re.findall(r"contexts and readers: (\[.*?\])", PAGE)
    assert ", ".join(gains[:2]).replace("0.", ".") + f" and {gains[2].replace('0.', '.')}" in page
