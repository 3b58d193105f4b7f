"""The study with readers apart: its readings, figures by another program, and the figures of the pages."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READINGS = ROOT / "bench" / "readings"
PAGE = (ROOT / "bench" / "results" / "apart.md").read_text("utf-8")
STAYS = (ROOT / "bench" / "results" / "stays.md").read_text("utf-8")
DATA = ROOT.parent / "shared" / "data"
SAMPLES = {
    "topicalchat": "TopicalChat engagingness",
    "summeval": "SummEval coherence",
    "replies": "replies, helpfulness",
}
# By the rule of the plan, the order of the prompt moves the level of these alone.
MOVES: list[tuple[str, str]] = [("replies, helpfulness", "rating")]
JUDGES = "neutral1", "neutral2", "strict", "lenient", "crowd"


def lines(name):
    return [json.loads(line) for line in (READINGS / f"{name}.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("order", ["", "order1-"])
def test_no_reader_read_texts_and_rungs_or_more_than_20_requests(order):
    kind_of, context_of = {}, {}
    for sample in SAMPLES:
        for judge in JUDGES:
            for row in lines(f"{order}apart-{sample}-{judge}"):
                assert sum(row["percent"]) == pytest.approx(100)
                kind_of[row["request"]] = (sample, judge, "level" in row)
                text = row.get("output_id", "").rpartition("/")[0]
                context_of[row["request"]] = row.get("context_id", text)
    requests = defaultdict(list)
    for row in lines(f"{order}readers"):
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


@pytest.mark.parametrize("order", ["", "order1-"])
def test_a_reading_names_its_request(order):
    # The replies are in the repository, so their requests can be made again, of today's prompts and of the earlier ones.
    from refladder.prompts import criterion, fill, load_template
    from refladder.records import Context, Dimension

    earlier = ROOT / "bench" / "stays" / "order1" if order else None
    template = load_template("open", "rating-stated", earlier)
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
    read = [row for row in lines(f"{order}apart-replies-strict") if "output_id" in row]
    assert {row["output_id"]: row["request"] for row in read} == digests


def rows_of(text, heading="# "):
    """The rows of the first table after a heading, as lists of cells."""
    table = text.partition(heading)[2].partition("\n|")[2].partition("\n\n")[0].strip()
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in table.split("\n")[2:]
    ]


def flat(lists):
    return [value for each in lists for value in each]


def numbers(text):
    return [float(each) for each in re.findall(r"-?\d*\.?\d+", text.replace(",", " "))]


READ = {tuple(row[:3]): [numbers(cell) for cell in row[3:]] for row in rows_of(PAGE, "Three sets")}
TODAY, FIRST_ORDER, FIRST = "today's order", "first order", "first study"
SHIFT, SHARE, NEUTRAL, CROWD, ALL, ENDS = 0, 2, 4, 5, 6, 8


@pytest.mark.parametrize("study", [TODAY, FIRST_ORDER])
@pytest.mark.parametrize("sample", SAMPLES)
def test_the_shift_of_ratings_by_another_program(sample, study):
    means, variances = [], []
    for judge in ("strict", "lenient"):
        ratings = []
        for row in lines(f"{'' if study == TODAY else 'order1-'}apart-{sample}-{judge}"):
            if "output_id" in row:
                share = row["percent"]
                ratings.append(sum(n * p for n, p in enumerate(share, 1)) / sum(share))
        means.append(statistics.mean(ratings))
        variances.append(statistics.variance(ratings))
    shift = (means[1] - means[0]) / statistics.mean(variances) ** 0.5
    assert [round(shift, 2)] == READ[SAMPLES[sample], study, "rating"][SHIFT]


def test_the_level_of_the_orders_by_another_program():
    # The mean over judges of the shift between the orders, for the ratings of the rungs of the replies.
    shifts = []
    for judge in JUDGES:
        rated = []
        for order in ("order1-", ""):
            rows = [row for row in lines(f"{order}apart-replies-{judge}") if "level" in row]
            rated.append([sum(n * p for n, p in enumerate(r["percent"], 1)) / 100 for r in rows])
        spread = statistics.mean(map(statistics.variance, rated)) ** 0.5
        shifts.append((statistics.mean(rated[1]) - statistics.mean(rated[0])) / spread)
    [row] = [
        row
        for row in rows_of(PAGE, "## Does the order")
        if row[:2] == ["replies, helpfulness", "rating of the rungs"]
    ]
    assert numbers(row[2]) == [round(statistics.mean(shifts), 2)]
    assert numbers(row[4]) == [round(shift, 2) for shift in shifts]


def test_the_page_is_that_of_the_readings(monkeypatch, tmp_path):
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent: the benchmark files are not in the repository")
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import apart

    out = tmp_path / "apart.md"
    monkeypatch.setattr(sys, "argv", ["apart.py", str(DATA), "--draws", "15", "--out", str(out)])
    apart.main()
    anew, page = (
        # Intervals have other draws, and so have their verdicts, the head and the cut-offs.
        re.sub(r"\[-?\d\.\d+, -?\d\.\d+\]|\| (moves|no) \||counts|does not count", "[]", text)
        .partition("## Cut-offs")[0]
        .partition("## Three")[2]
        for text in (out.read_text("utf-8"), PAGE)
    )
    assert anew == page


FIGURE = r"-?\d*\.?\d+"


class Claims:
    """The text of a page; each figure that is checked is taken away, so that what is left is checked by nothing."""

    def __init__(self, name):
        self.text = (ROOT / name).read_text("utf-8").replace("*", "")

    def table(self, heading, expected):
        """Check all figures of the first table after a heading but those in the first column."""
        rows = rows_of(self.text, heading)
        assert len(rows) == len(expected)
        for row, values in zip(rows, expected, strict=True):
            self._same(re.findall(FIGURE, " ".join(row[1:])), values, row)
        before, _, after = self.text.partition(heading)
        self.text = (
            before + heading + after.replace(after.partition("\n|")[2].partition("\n\n")[0], "", 1)
        )

    def says(self, words, *expected):
        """Check a sentence with its figures, which are `{}`."""
        pattern = re.escape(words).replace(r"\{\}", f"({FIGURE})").replace(r"\ ", r"\s+")
        found = re.search(pattern, self.text)
        assert found, words
        self._same(found.groups(), expected, words)
        self.text = self.text.replace(found[0], "", 1)

    def _same(self, shown, expected, where):
        assert len(shown) == len(expected), (where, expected)
        for text, value in zip(shown, expected, strict=True):
            # The results are rounded too, to two or three digits.
            error = 0.5 * 10 ** -len(text.partition(".")[2])
            assert abs(float(text) - value) < error + 0.00051, (where, text, value)

    def left(self):
        """The figures that nothing has checked: decimals and percentages."""
        return re.findall(r"(?<![\w.])-?\d*\.\d+(?![\w.])|\d+ %", self.text)


def span(values):
    sizes = [abs(value) for value in values]
    return min(sizes), max(sizes)


def each_sample(study, way, column):
    """The figures of a column in the table of the three sets of readings, a list for each sample."""
    return [READ[title, study, way][column] for title in SAMPLES.values()]


def extremes(study, way):
    """The least and greatest shift and percentage of decisions, strict against lenient."""
    shifts, shares = (flat(each_sample(study, way, column)) for column in (SHIFT, SHARE))
    return *span(shifts), *(100 * share for share in span(shares))


def pairs_of(text, title, suffix=""):
    """The figures of the table of pairs of a sample, by way and judges."""
    return {
        (row[0], row[1]): [numbers(cell) for cell in row[2:]]
        for row in rows_of(text, f"## {title}{suffix}\n")
    }


def test_every_figure_of_the_page_is_in_the_results():
    page = Claims("docs/explanation/does-it-stay.md")
    strict, neutral = "strict, lenient", "neutral1, neutral2"
    apart = [pairs_of(PAGE, title, f", {TODAY}") for title in SAMPLES.values()]
    first = [
        pairs_of(STAYS, title)
        for title in ("topicalchat, engagingness", "summeval, coherence", "replies, helpfulness")
    ]
    rating, placed, ladder = (
        extremes(TODAY, "rating"),
        extremes(TODAY, "placed"),
        extremes(FIRST, "ladder"),
    )
    page.says("plain ratings moved by {} to {} standard deviations, and {} to {} % of", *rating)
    page.says("rungs, moved by {} to {}, and {} to {} % changed.", *placed)
    page.says("each rung moved by {} to {}, and {} to {} % changed.", *ladder)
    page.says(
        "two different models, {} to {} % of the decisions change with ratings and {} to {} % with places",
        *two_models(),
    )
    rules = re.findall(r"decisions that change: (.*?)\. The rule .* is \*\*(.*?)\*\*", PAGE)
    (more, met), (more_before, met_before) = ((numbers(text), verdict) for text, verdict in rules)
    assert (met, met_before) == ("met", "not met")
    page.says("at most .03 more decisions than comparisons")
    page.says("It is met: placing changes {}, {} and {} fewer,", *(-each for each in more))
    page.says("it was not met: on replies, placing changed {} more.", more_before[2])
    before = extremes(FIRST_ORDER, "rating"), extremes(FIRST_ORDER, "placed")
    page.says("ratings moved by {} to {} and {} to {} % of the decisions changed", *before[0])
    page.says("placed, {} to {} and {} to {} %.", *before[1])
    wide = min(placed[2], before[1][2]), max(placed[3], before[1][3])
    page.says("count on {} to {} %, not on {} to {} %", *wide, *placed[2:])

    expected = []
    for way, pair, column in (
        ("rating", strict, 2),
        ("placed", strict, 2),
        ("line", strict, 2),
        ("ladder", strict, None),
        ("rating", neutral, None),
        ("placed", neutral, None),
    ):
        rows = [its[way, pair] for its in apart]
        expected.append(
            [
                value
                for row in rows
                for value in (*row[0], *(row[column] if column else ()), *row[4])
            ]
        )
    page.table("## Readers apart", expected)
    _readers_apart(page)
    _first_study(page, first)
    _people_and_repairs(page)
    # The rules and the precision of the plan, the level of intervals, and figures of others.
    allowed = {".03", ".8", "95 %", "35 %", "9 %", "2504.14716"}
    assert [each for each in page.left() if each not in allowed] == []


def _readers_apart(page):
    gains = re.search(r"Today's order: .*? readers: (.*?)\. So", PAGE)[1]
    page.says("over contexts and readers is [{}, {}], [{}, {}] and [{}, {}].", *numbers(gains))
    ten = [flat(each_sample(TODAY, way, ALL)) for way in ("placed", "line", "rating")]
    page.says(
        "of readings {}, {} and {} of the decisions change placed by rungs beaten, {}, {} and {} by the line, and {}, {} and "
        "{} with ratings.",
        *flat(ten),
    )
    ends = [max(max(each) for each in each_sample(study, "line", ENDS)) for study in (TODAY, FIRST)]
    page.says(
        "up to {} of the texts of a judge are at an end of the scale, in the first study up to {};",
        *ends,
    )
    assert not any(max(row[ENDS]) for key, row in READ.items() if key[2] == "placed")
    crowd = {way: each_sample(TODAY, way, CROWD) for way in ("rating", "placed")}
    shares = [[row[1] for row in crowd[way]] for way in crowd]
    page.says(
        "with ratings {}, {} and {} of the decisions change, and placed {}, {} and {}.",
        *flat(shares),
    )
    # Placing hurts on the first sample alone.
    assert [placed > rating for rating, placed in zip(*shares, strict=True)] == [True, False, False]
    page.says("move by {}, the ratings by {}.", crowd["placed"][0][0], crowd["rating"][0][0])
    shares = [[row[1] for row in each_sample(TODAY, way, NEUTRAL)] for way in crowd]
    page.says(
        "readings change {}, {} and {} of the decisions with ratings, and {}, {} and {} when placed",
        *flat(shares),
    )
    errors = [
        numbers(
            re.search(r"\(texts, rungs\): (.*)\.", section)[1].replace("1 ", " ").replace("2 ", " ")
        )
        for section in PAGE.split("\n## ")
        if section.partition("\n")[0].endswith(TODAY)
    ]
    for kind, words in enumerate(
        ("differ by {} to {} rating points", "on texts, and {} to {} on rungs")
    ):
        page.says(words, *span(flat(each[kind::2] for each in errors)))
    cuts = {
        tuple(row[:2]): [numbers(cell) for cell in row[2:]] for row in rows_of(PAGE, "## Cut-offs")
    }
    for way, words in (
        (
            "placed",
            "labels of the replies, {} to {} have a cut-off with a precision of .8 for thorough replies,",
        ),
        ("ladder", "of comparisons {} to {};"),
    ):
        page.says(words, *cuts["thorough", way][0])
    page.says(
        "promises one in {} and {}.", *cuts["thorough", "placed"][1], *cuts["thorough", "ladder"][1]
    )
    assert all(cuts["ordinary or thorough", way] == [[1, 1], [1]] for way in ("placed", "ladder"))

    order = {tuple(row[:2]): row[2:] for row in rows_of(PAGE, "## Does the order")}
    expected = []
    for title in SAMPLES.values():
        values = []
        for way in ("rating", "placed"):
            row = order[title, way]
            values += [each for cell in (row[0], row[1], row[5], row[6]) for each in numbers(cell)]
        pooled = order[title, "rating"]
        expected.append([*values, numbers(pooled[8])[0], numbers(pooled[9])[0]])
    page.table("## Does the order", expected)
    assert {row[7] for row in order.values()} == {"no"}
    moves = [key for key, row in order.items() if row[4] != "no"]
    assert moves == MOVES
    page.says("level of the ratings of the replies by {};", *numbers(order[MOVES[0]][0]))
    page.says("the plan says that .2 would matter")
    page.says("between two neutral readings by over .03")


def _first_study(page, first):
    strict, neutral = "strict, lenient", "neutral1, neutral2"
    tokens = [
        [float(cell.replace(",", "")) for cell in row[1:]]
        for row in rows_of(STAYS, "## Prompt tokens")
    ]
    by_way = list(zip(*tokens, strict=True))
    page.text = re.sub(r"(?<=\d),(?=\d{3})", "", page.text)
    page.table(
        "## What was done in the first study",
        [[1, *by_way[0], 3], [1, *by_way[1]], [1], [1, *by_way[2]]],
    )
    expected = []
    for way in ("ladder", "rating", "placed", "anchored"):
        rows = [its[way, strict] for its in first]
        expected.append([value for row in rows for value in (*row[0], *row[1], *row[2])])
    for way in ("ladder", "rating", "placed"):
        rows = [its[way, neutral] for its in first]
        expected.append([value for row in rows for value in (*row[0], *row[2])])
    page.table("## Strict against lenient, first study", expected)
    less = []
    for name in ("topicalchat, engagingness", "summeval, coherence", "replies, helpfulness"):
        section = STAYS.partition(f"## {name}")[2]
        less.append(
            {
                row[0]: [numbers(cell) for cell in row[1:]]
                for row in rows_of(section, "the ladder beside")
            }
        )
    shown = flat((*its["rating"][0], *its["rating"][1]) for its in less)
    page.says("less than ratings, by {} [{}, {}], {} [{}, {}] and {} [{}, {}].", *shown)
    shown = []
    for its in less[:2]:
        low, high = its["placed"][1]
        shown += [-its["placed"][0][0], -high, -low]
    page.says("TopicalChat and SummEval, by {} [{}, {}] and {} [{}, {}].", *shown)
    shown = flat(less[2]["placed"])
    page.says("no difference ({} [{}, {}]), nor in the decisions that change ({} [{}, {}])", *shown)
    best = [
        its[way, strict][3][0]
        for its in first
        for way in ("ladder", "rating", "placed", "anchored")
    ]
    page.says("second judge, {} to {} of the decisions change in every way", *span(best))


def _people_and_repairs(page):

    people = []
    for name in ("topicalchat, engagingness", "summeval, coherence", "replies, helpfulness"):
        section = STAYS.partition(f"## {name}")[2]
        people.append(
            {tuple(row[:2]): row[2:] for row in rows_of(section, "Spearman with people (")}
        )
    ways = "ladder", "rating", "placed", "anchored"
    page.table(
        "## A cut-off carried over",
        [
            [
                value
                for judge in (0, 2, 3, 4)
                for value in numbers(people[0][way, "carried cut-off"][judge])
            ]
            for way in ways
        ],
    )
    only = people[2]["ladder", "carried cut-off"][0]
    page.says("which keeps {} % of the texts", 100 * numbers(only)[1])
    assert all(people[2][way, "carried cut-off"][0] == "none" for way in ways[1:])
    expected = []
    for way in ("ladder", "rating", "anchored"):
        within = [[numbers(cell)[0] for cell in its[way, "Spearman"]] for its in people]
        expected.append([value for each in within for value in span(each)])
    page.table("## Agreement with people", expected)

    linked = [[numbers(cell) for cell in row[1:]] for row in rows_of(STAYS, "## Ratings linked")]
    page.says("texts, {} to {} standard deviations are left,", *span([row[0][0] for row in linked]))
    turned = [100 * row[1][part] for part in (0, 1) for row in linked]
    page.says("and {}, {} and {} % of the decisions change, where {}, {} and {} % change", *turned)
    edits = rows_of(STAYS, "## Distractors")
    expected = [
        [
            numbers(row[2])[0]
            for way in ("ladder", "rating", "anchored")
            for row in edits
            if row[:2] == [way, edit]
        ]
        for edit in ("padding", "authority", "bullets", "praise", "plea")
    ]
    page.table("## Distractors", expected)
    page.says("raises the score by more than {} in any way", max(flat(expected)))
    gained = {(row[0], row[1]): numbers(row[4])[0] for row in edits}
    lost = {(row[0], row[1]): numbers(row[5])[0] for row in edits}
    plea = gained.pop(("ladder", "plea"))
    page.says("{} to {} of 40 texts pass", *span(gained.values()))
    page.says(
        "and {} with the plea under the ladder, where {} others fall", plea, lost["ladder", "plea"]
    )
    padded = [number for (_, edit), number in lost.items() if edit == "padding"]
    page.says("{} to {} of 40 texts fall below the median", *span(padded))
    small = rows_of(STAYS, "## Small judges")
    smol = [row for row in small if row[2] == "SmolLM2"]
    page.says("(shifts up to {})", max(abs(numbers(row[3])[0]) for row in smol))
    rho = [numbers(row[5])[0] for row in smol]
    page.says("reading of the large model is {} to {}.", min(rho), max(rho))
    builtin = [numbers(row[5])[0] for row in small if row[2] == "builtin"]
    page.says("and has {}, {} and {} on the three samples", *builtin)


def two_models():
    """The least and greatest percentage between two models, with ratings and with places."""
    rows = rows_of((ROOT / "bench" / "results" / "judges.md").read_text("utf-8"))
    return [
        100 * share for column in (2, 8) for share in span([float(row[column]) for row in rows])
    ]


def test_the_first_screen_of_the_readme_says_what_the_results_say():
    readme = Claims("README.md")
    readme.text = readme.text.partition("```")[0]
    texts = sum(int(text) for text in re.findall(rf"{TODAY}\n\n(\d+) texts of", PAGE))
    rating, placed = (extremes(TODAY, way)[2:] for way in ("rating", "placed"))
    earlier = extremes(FIRST_ORDER, "placed")[2:]
    readme.says("two roles, {} texts: {} to {} % of the decisions changed with", texts, *rating)
    readme.says(
        "ratings, and {} to {} % with placed ones, {} to {} % in an earlier", *placed, *earlier
    )
    readme.says("Two different models: {} to {} % and {} to {} %, because", *two_models())
    assert readme.left() == []
    figure = (ROOT / "docs" / "explanation" / "stays.svg").read_text("utf-8")
    for words in (*SAMPLES.values(), "plain rating", "placed", "ladder"):
        assert f">{words}</text>" in figure
