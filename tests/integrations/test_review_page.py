"""The review page from disk, without a network, in a real browser."""

from __future__ import annotations

import operator
import re
from collections import Counter
from math import log
from pathlib import Path

import pytest
from chromium import cells, expect, new_page, show, shown, started, status
from json_lines import read_lines, write_lines
from review_data import CRITERION, NASTY, SYSTEMS, contest
from scipy import stats

import refladder
from refladder.contest.html import review_page
from refladder.contest.runs import read_run

AXE = Path(__file__).parents[2] / "build" / "axe.min.js"
GRADES = ("1 worst", "2", "3", "4", "5 best")


@pytest.fixture(scope="module")
def chromium():
    with started() as browser:
        yield browser


@pytest.fixture
def opened(chromium):
    """Open a file in a browser without a network; its console must stay empty, and it must ask for nothing."""
    pages = []

    def go(path, view="results", **options):
        page, problems = new_page(chromium, offline=True, **options)
        pages.append((page, problems))
        page.on(
            "request",
            lambda request: (
                problems.append(request.url)
                if not request.url.startswith(("file:", "blob:"))
                else None
            ),
        )
        page.goto(f"file://{path}#{view}")
        shown(page, view)
        return page

    yield go
    for page, _ in pages:
        page.context.close()
    assert [problem for _, problems in pages for problem in problems] == []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return contest(tmp_path_factory.mktemp("contest"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return contest(tmp_path_factory.mktemp("hostile"), rows=3, nasty=NASTY)


def answer(page, count, choose):
    """Rate pairs with the keyboard; `choose` gets the left and the right text."""
    for number in range(count):
        status(page, f"{number} of")
        left, right = page.locator(".output .text").all_inner_texts()
        page.keyboard.press(choose(number, left, right))
    status(page, f"{count} of")


def start(page, rater="ann", what=None):
    page.get_by_label("Your name").fill(rater)
    if what:
        page.get_by_label("Rate").select_option(what)
    page.get_by_role("button", name="Start").click()


def enter(page, label, value):
    page.get_by_label(label).fill(str(value))
    page.get_by_label(label).press("Enter")


def downloaded(page, name):
    """Click a button that downloads a file; return its path."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name=name).click()
    return waiting.value.path()


def page_of(run, path=None):
    """Write the review page of a run; return its path."""
    path = path or run / "page.html"
    path.write_text(review_page(read_run(run)), encoding="utf-8")
    return path


def truthful(_number, left, _right):
    return "ArrowLeft" if left.startswith("good") else "ArrowRight"


def test_the_leaderboard_is_that_of_the_command(opened, run):
    page = opened(run / "page.html")
    for line in read_lines(run / "run" / "results.jsonl"):
        if line["kind"] == "standing" and line["row"] is None:
            row = cells(page, line["model"], "th, td")
            assert row[1] == f"{line['rate']:.3f}"
            assert row[3] == f"[{line['low']:.3f}, {line['high']:.3f}]"
            counts = [line[key] for key in ("wins", "ties", "losses", "unparsed", "failed")]
            assert row[4:] == list(map(str, counts))
    expect(page.locator("#data")).to_have_count(0)


def test_faults_of_the_judge_are_beside_the_numbers(opened, tmp_path):
    run = contest(tmp_path, rows=4) / "run"
    lines = read_lines(run / "results.jsonl")
    trials = [line for line in lines if line["kind"] == "trial"]
    trials[0].update(mass=0.2)
    trials[1].update(forward=0.9, backward=0.2, winner=None, tie=True)
    trials[2].update(forward=None, winner=None, tie=False, note="no label")
    write_lines(run / "results.jsonl", lines)
    page = opened(page_of(run))
    for words, row in (
        ("whose two orders disagree", "r1"),
        ("with low label mass", "r0"),
        ("without a usable answer", "r2"),
    ):
        show(page, "results")
        line = page.locator("li", has_text=words)
        expect(line).to_contain_text("1 of 4 (25.0 %)")
        line.get_by_role("link").click()
        status(page, "1 of 4 rows")
        expect(page.locator("article h2")).to_have_text(row)
        kinds = page.get_by_label("Show").locator("option")
        expect(kinds).to_have_text(["all rows", "orders disagree", "low label mass", "unparsed"])


def test_examples_are_searched_filtered_sorted_and_marked(opened, run):
    page = opened(run / "page.html", "examples")
    card = page.locator("article")
    expect(card).to_have_count(10)
    page.get_by_role("button", name="Next").click()
    status(page, "24 of 24 rows, page 2 of 3")
    page.get_by_label("Search").fill("topic7 ")
    expect(card).to_have_count(1)
    expect(card.locator("h2")).to_have_text("r7")
    texts = ("Write about topic7 .", "good text about 7", "poor text about 7", "It is better.")
    for part in (*texts, "0.955", *SYSTEMS):
        expect(card).to_contain_text(part)
    page.get_by_role("button", name="Mark differences").click()
    expect(page.locator("mark")).to_have_text(["good", "poor"])
    page.get_by_label("Search").fill("nowhere")
    status(page, "No row matches")
    expect(page.get_by_label("Show")).to_have_count(0)  # no row is of another kind


def test_payloads_stay_text(opened, hostile):
    page = opened(hostile / "page.html")
    for view in ("results", "examples", "blind", "agreement", "scores"):
        show(page, view)
        if view == "blind":
            start(page, NASTY[:60].replace("\u2028", ""))
            answer(page, 1, truthful)
        expect(page.locator("main")).to_contain_text(NASTY[:50])
        expect(page.locator("main img, main script")).to_have_count(0)
        assert page.evaluate("window.hit") is None


def test_a_blind_view_gives_nothing_away(opened, run):
    page = opened(run / "page.html", "results")
    expect(page.locator("main")).to_contain_text(SYSTEMS[0])
    page.get_by_role("link", name="Blind rating").click()
    shown(page, "blind")
    start(page)
    for number in range(8):
        status(page, f"{number} of 24")
        html = page.evaluate("document.documentElement.outerHTML")
        for element in ("script", "style"):
            code = f"document.querySelector('{element}').textContent"
            html = html.replace(page.evaluate(code), "")
        for clue in (*SYSTEMS, "0.955", "It is better", "win rate", "scripted", "signature"):
            assert clue not in html, clue
        page.keyboard.press("t")
    kept = "() => Object.values(window).filter(value => value?.systems || value?.texts)"
    assert page.evaluate(kept) == []


def test_keys_skip_undo_and_resume(opened, run):
    page = opened(run / "page.html", "blind")
    start(page)
    answer(page, 3, truthful)
    first = page.locator(".output .text").first.inner_text()
    page.keyboard.press("s")
    expect(page.locator(".output .text").first).not_to_have_text(first)
    page.keyboard.press("u")
    status(page, "2 of 24")
    show(page, "agreement")
    show(page, "blind")  # still ann's turn
    status(page, "2 of 24 rated by ann")
    expect(page.locator(".output .text")).to_have_count(2)
    page.reload()
    start(page)
    status(page, "2 of 24 rated by ann")
    page.get_by_role("button", name="Stop").click()
    start(page, "bob")
    status(page, "0 of 24 rated by bob")


def test_agreement_equals_a_count_by_hand_and_ratings_are_downloaded(opened, run):
    page = opened(run / "page.html", "blind")
    start(page)
    wrong = {"ArrowLeft": "ArrowRight", "ArrowRight": "ArrowLeft"}

    def key(number, *texts):
        """14 answers as the judge, 4 the other way round, 2 ties."""
        right = truthful(number, *texts)
        return right if number < 14 else wrong[right] if number < 18 else "t"

    answer(page, 20, key)
    show(page, "agreement")
    row = cells(page, "judge and person")
    assert row[0] == "20"
    assert row[1].startswith("0.700 [")  # 14 / 20
    expect(page.locator("main")).to_contain_text("Show the rows of the 6 answers")
    rows = read_lines(downloaded(page, "Download 20 preferences"))
    assert {tuple(row) for row in rows} == {
        ("context_id", "dimension", "first", "second", "winner", "rater")
    }
    judged = {
        trial["row"]: f"{trial['row']}/{trial['winner']}"
        for trial in read_lines(run / "run" / "results.jsonl")
        if trial["kind"] == "trial"
    }
    said = [row[row["winner"]] if row["winner"] != "tie" else None for row in rows]
    wanted = [judged[row["context_id"]] for row in rows]
    assert sum(map(operator.eq, wanted, said)) == 14
    # The text with the lower number of each pair is A, as on the page.
    numbers = read_run(run / "run").numbers
    lower = [min(row["first"], row["second"], key=numbers.__getitem__) for row in rows]
    judge = Counter(map(operator.eq, wanted, lower))
    person = Counter(
        None if winner is None else winner == text for winner, text in zip(said, lower, strict=True)
    )
    chance = sum(judge[value] * person[value] for value in (True, False)) / 400
    assert row[2].startswith(f"{(0.7 - chance) / (1 - chance):.3f}")
    page.get_by_role("link", name="Show the rows").click()
    shown(page, "examples")
    status(page, "6 of 24 rows")
    expect(page.locator("article").first).to_contain_text("ann: ")


def test_both_tables_of_agreement_call_the_same_text_a(opened, run):
    page = opened(run / "page.html", "blind")
    start(page)
    answer(page, 24, lambda _, left, __: "ArrowRight" if left.startswith("good") else "ArrowLeft")
    show(page, "agreement")
    # By hand: of the texts of a row, the one with the lower number is A. The judge prefers the good text, which
    # SYSTEMS[0] writes in odd rows; the person prefers the other one.
    expected = []
    for number in range(24):
        systems = [text.system for text in read_run(run / "run").texts if text.row == number]
        a_is_good = (systems[0] == SYSTEMS[0]) == (number % 2 == 1)
        judge, person = ("A better", "B better") if a_is_good else ("B better", "A better")
        expected.append([f"r{number}", CRITERION, " : ".join(systems), f"ann: {person}", judge])
    disputes = page.locator("table", has_text="answers in dispute").locator("tbody tr")
    expect(disputes).to_have_count(24)
    found = [row.locator("th, td").all_inner_texts() for row in disputes.all()]
    assert sorted(found) == sorted(expected)
    counts = page.locator("table", has_text="confusions").locator("tbody tr")
    a_better = sum(row[-1] == "A better" for row in expected)
    expect(counts.locator("th, td")).to_have_text([
        "A better", "0", "0", str(a_better), "tie", "0", "0", "0", "B better", str(24 - a_better), "0", "0",
    ])  # fmt: skip


def test_the_last_of_two_answers_to_a_pair_counts(opened, tmp_path):
    run = contest(tmp_path, rows=2) / "run"
    # The good text of r1 is that of SYSTEMS[0], and the judge wants it.
    one, other = (f"r1/{system}" for system in SYSTEMS)
    rating = {"context_id": "r1", "dimension": CRITERION, "rater": "ann", "winner": "second"}
    answers = [rating | {"first": one, "second": other}, rating | {"first": other, "second": one}]
    write_lines(run / "preferences.jsonl", answers)
    page = opened(page_of(run), "agreement")
    assert cells(page, "judge and person")[0] == "1"
    expect(page.locator("main")).to_contain_text("Judge and people agree on every pair")
    show(page, "examples")
    cell = page.locator("article", has_text="r1").locator("td").nth(4)
    expect(cell).to_have_text(f"ann: {SYSTEMS[0]}")


def test_people_are_compared_with_each_other(opened, run):
    page = opened(run / "page.html", "blind")
    start(page)
    answer(page, 24, lambda *_: "t")
    page.get_by_role("button", name="Stop").click()
    start(page, "bob")
    # bob's tie on rows below 12 is ann's answer, his choice on the 12 others is not.
    answer(page, 24, lambda _, left, __: "t" if int(left.split()[-1]) < 12 else "ArrowLeft")
    page.get_by_role("navigation").get_by_role("link", name="Agreement").click()
    shown(page, "agreement")
    row = cells(page, "person and person")
    assert (row[0], row[1].split()[0]) == ("24", "0.500")
    assert row[2].split()[0] == "0.000"  # one of them always says tie: no agreement beyond chance
    expect(page.locator("main")).to_contain_text("Rated by ann, bob.")


def test_single_texts_are_graded_on_the_scale(opened, run):
    page = opened(run / "page.html", "blind")
    start(page, what="text")
    page.wait_for_selector("text=1 worst")
    for number in range(4):
        status(page, f"{number} of 48")
        page.keyboard.press("5" if page.inner_text(".output .text").startswith("good") else "2")
    status(page, "4 of 48")
    show(page, "agreement")
    rows = read_lines(downloaded(page, "Download 4 grades"))
    assert {tuple(row) for row in rows} == {
        ("output_id", "context_id", "system", "dimension", "value", "rater", CRITERION)
    }
    assert {row["value"] for row in rows} <= {2, 5}


def test_a_threshold_is_moved_over_the_scores(opened, command, write_jsonl, rows, tmp_path):
    table = [
        {**row, "quality": number % 4, "system": "ab"[number % 2], "extra": None}
        for number, row in enumerate(rows(30), start=1)
    ]
    out, page_file = tmp_path / "scored.jsonl", tmp_path / "page.html"
    given = f"--ladders demo/story --dimension coherence --out {out}"
    assert command(f"score {write_jsonl(table)} {given}").code == 0
    assert command(f"review {out} --html {page_file}").code == 0
    scored = read_lines(out)
    page = opened(page_file, "scores")
    page.get_by_label("Labels").select_option(label="quality")
    enter(page, "A label is good from", 2)
    facts = page.locator(".facts")
    for threshold in (-5, -11.5, 30):
        enter(page, "Value", threshold)
        kept = [row for row in scored if row["coherence_score"] >= threshold]
        good = sum(row["quality"] >= 2 for row in kept)
        expect(facts).to_contain_text(f"{len(kept)} of 30 scored ({100 * len(kept) / 30:.1f} %")
        if not kept:
            expect(facts).to_contain_text("no labels above the threshold")
            continue
        words = f"{good} of {len(kept)} labels above the threshold are good"
        expect(facts).to_contain_text(words)
        bound = stats.binomtest(good, len(kept), alternative="greater").proportion_ci(0.9, "exact")
        expect(facts).to_contain_text(f"{100 * bound.low:.1f} % with 90 % confidence")
    expect(page.locator("figure")).to_have_count(3)  # all, and systems a and b
    enter(page, "Value", -5)
    passed = read_lines(downloaded(page, "Download what passes"))
    wanted = [row["output_id"] for row in scored if row["coherence_score"] >= -5]
    assert [row["output_id"] for row in passed] == wanted
    show(page, "examples")
    page.get_by_text("Ladder of coherence").first.click()
    expect(page.locator(".rungs").first.locator("li")).to_have_count(5)


def test_a_scored_table_opens_on_its_scores_with_each_text_on_its_ladder(
    opened, command, write_jsonl, run, tmp_path
):
    # P(win) = .7 and P(tie) = .1 against every rung: better with .7 + .1 / 2 = .75. The tide is worse than all rungs.
    answers = {"sea": (0.7, 0.2, 0.1), "tide": (0.0001, 0.9998, 0.0001)}
    rules = [
        {
            "contains": {"target": word},
            "answer": dict(zip(("win", "loss", "tie"), map(log, shares), strict=True)),
        }
        for word, shares in answers.items()
    ]
    judge = write_lines(tmp_path / "judge.jsonl", rules)
    table = [
        {"output_id": name, "context_id": "story-01", "output": f"A {name} of words."}
        for name in ("sea", "tide", "sea too")
    ]
    out, page_file = tmp_path / "scored.jsonl", tmp_path / "page.html"
    given = f"--ladders demo/story --dimension coherence --judge scripted:{judge} --out {out}"
    assert command(f"score {write_jsonl(table)} {given}").code == 0
    assert command(f"review {out} --html {page_file}").code == 0
    page = opened(page_file, "examples")
    page.goto("about:blank")
    page.goto(f"file://{page_file}")
    shown(page, "scores")
    link = page.get_by_role("link", name="Scores")
    expect(link).to_have_attribute("aria-current", "page")
    rungs = page.locator(".output", has_text="A sea of words.").locator(".rungs li")
    expect(rungs).to_have_count(5)
    ladder = refladder.load_ladders("demo/story").ladders["story-01", "coherence"]
    for number, rung in enumerate(ladder.rungs):
        expect(rungs.nth(number)).to_be_visible()
        expect(rungs.nth(number)).to_contain_text("better with 0.75")
        expect(rungs.nth(number)).to_contain_text(rung.text[:40])
    tide = page.locator(".output", has_text="A tide of words.")
    expect(tide.locator(".rungs li").first).to_contain_text("better with 0.00")
    page.goto("about:blank")
    page.goto(f"file://{run / 'page.html'}")  # a contest has win rates
    shown(page, "results")


def test_rungs_of_a_shared_set_are_under_the_request_of_their_anchor(opened, tmp_path):
    rows = [
        {"output_id": "ticket-7", "context": "Say hello.", "output": "Hello to you."},
        {"output_id": "ticket-8", "context": "Say shalom.", "output": "שלום! Hello."},
        {"output_id": "ticket-9", "context": "Say nothing.", "output": ""},
    ]
    options = {"ladders": "general/reply", "dimensions": ["clarity"], "any_judge": True}
    table = write_lines(tmp_path / "t.jsonl", rows)
    refladder.score(table, **options, out=tmp_path / "scored.jsonl")
    page = opened(page_of(tmp_path / "scored.jsonl", tmp_path / "page.html"), "examples")
    expect(page.locator("article.card h2").first).to_have_text("ticket-7")
    ladders = refladder.load_ladders("general/reply")
    ladder = page.locator("article.card").first.locator(".ladder")
    ladder.evaluate("element => { element.open = true }")
    expect(ladder.locator(".rungs")).to_have_count(3)
    for number, anchor in enumerate(ladders.anchors[:3]):
        expect(ladder.locator(".request").nth(number)).to_contain_text(
            ladders.contexts[anchor].text[:40]
        )
        rungs = ladder.locator(".rungs").nth(number).locator("li")
        expect(rungs).to_have_count(5)
        for level, rung in enumerate(ladders.ladders[anchor, "clarity"].rungs):
            expect(rungs.nth(level)).to_contain_text(re.compile(r"^ticket-7 better with 0\.\d\d"))
            expect(rungs.nth(level)).to_contain_text(rung.text[:40])
    # The bars are means over the anchors.
    expect(page.locator("article.card").first.locator("svg rect.fill")).to_have_count(5)
    hebrew = page.locator(".output .text").nth(1)
    expect(hebrew).to_have_css("unicode-bidi", "plaintext")
    show(page, "scores")
    expect(page.locator(".facts")).to_contain_text(re.compile(r"without a score\s*1"))


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """The page of two texts of one context, each judged against the five rungs of two ladders."""
    folder = tmp_path_factory.mktemp("scored")
    words = {
        "aster": "The keeper read the letter and moved the lamp.",
        "birch": "bottle bottle letter",
    }
    rows = [
        {"output_id": name, "system": name, "context_id": "story-01", "output": text}
        for name, text in words.items()
    ]
    refladder.score(
        write_lines(folder / "texts.jsonl", rows), ladders="demo/story", out=folder / "scored.jsonl"
    )
    return page_of(folder / "scored.jsonl", folder / "page.html")


@pytest.mark.parametrize(("width", "side_by_side"), [(1280, True), (1100, False)])
def test_a_wide_screen_has_two_texts_and_their_ladder_side_by_side(
    opened, scored, width, side_by_side
):
    page = opened(scored, "examples", viewport={"width": width, "height": 800})
    rungs = page.locator(".rungs").first.locator("li")
    expect(rungs).to_have_count(5)
    expect(rungs.first).to_be_visible(visible=side_by_side)
    expect(rungs.first).to_contain_text(
        re.compile(r"aster better with 0\.\d\d.*birch better with 0\.\d\d")
    )
    first, second = (
        page.locator(".output", has_text=name).bounding_box() for name in ("aster", "birch")
    )
    ladder = page.get_by_text("Ladder of coherence").bounding_box()
    assert first["y"] == second["y"]
    assert first["x"] + first["width"] <= second["x"]
    assert (second["x"] + second["width"] <= ladder["x"]) is side_by_side
    assert (ladder["y"] < first["y"] + first["height"]) is side_by_side


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light"), (2560, "dark")])
def test_every_view_is_accessible_and_fits(opened, run, scored, width, scheme):
    if not AXE.is_file():
        pytest.skip("no axe-core; `make test-integrations` fetches it")
    screen = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    page = opened(run / "page.html", bypass_csp=True, **screen)
    for view in ("results", "examples", "blind", "agreement", "scores"):
        show(page, view)
        check(page)
        if view == "blind":
            start(page)
            page.wait_for_selector(".output")
            check(page)
            page.keyboard.press("t")
    page = opened(scored, "scores", bypass_csp=True, **screen)
    for view in ("scores", "examples"):
        show(page, view)
        check(page)


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    """The page of six replies to three questions, scored with the shared set of replies."""
    folder = tmp_path_factory.mktemp("tickets")
    rows = [
        {"question": f"Question {number // 2}?", "reply": f"Answer {number}.", "model": "ab"[number % 2]}
        for number in range(6)
    ]  # fmt: skip
    refladder.score(
        write_lines(folder / "texts.jsonl", rows),
        ladders="general/reply",
        dimensions=["helpfulness"],
        columns={"context": "question", "output": "reply", "system": "model"},
        any_judge=True,
        out=folder / "scored.jsonl",
    )
    return page_of(folder / "scored.jsonl", folder / "page.html")


def test_cards_carry_rows_systems_and_prompts(opened, tickets):
    page = opened(tickets, "examples")
    status(page, "3 of 3 contexts, 6 rows, page 1 of 1")
    expect(page.locator("article h2")).to_have_text([f"context {n}" for n in (1, 2, 3)])
    expect(page.locator("article .output h3")).to_have_text(["a", "b"] * 3)
    expect(page.locator("article .signature").nth(1)).to_have_text("row 2")
    show(page, "scores")
    expect(page.locator(".output")).to_have_text([re.compile("Question")] * 4)
    # The counts of the histogram of all texts add up to them.
    counts = page.locator(".whole svg text").all_text_contents()[:-2]
    assert sum(map(int, counts)) == 6
    views = page.locator("nav.views a")
    expect(views).to_have_text(["Examples", "Blind rating", "Scores"])


def test_the_check_of_a_judge_is_not_among_the_warnings(opened, tickets):
    page = opened(tickets, "scores")
    expect(page.locator(".facts-box")).to_contain_text("judge check, best rung against")
    expect(page.locator(".warnings")).not_to_contain_text("judge check, best")


def test_grades_have_words_and_a_rating_opens_the_agreement(opened, tickets):
    page = opened(tickets, "blind")
    start(page, what="text")
    grades = page.get_by_role("group", name="Grade").get_by_role("button")
    expect(grades).to_have_text([re.compile(f"^{name}") for name in GRADES])
    page.get_by_role("button", name="5 best").click()
    status(page, "1 of 6")
    expect(page.locator("nav.views a", has_text="Agreement")).to_have_count(1)


def test_a_phone_shows_no_keys(opened, run):
    screen = {"width": 390, "height": 844}
    page = opened(run / "page.html", "blind", has_touch=True, is_mobile=True, viewport=screen)
    start(page)
    page.wait_for_selector(".answer")
    expect(page.locator("kbd").first).to_be_hidden()


def test_texts_without_their_prompts_are_not_rated(opened, tmp_path):
    out = tmp_path / "scored.jsonl"
    row = {"context_id": "story-01", "output": "A sea of words."}
    source = write_lines(tmp_path / "in.jsonl", [row])
    refladder.score(source, ladders="demo/story", out=out)
    record = out.with_name("scored.jsonl.run.json")
    record.write_text(record.read_text().replace('"demo/story"', '"gone"'))
    page = opened(page_of(out, tmp_path / "page.html"), "blind")
    expect(page.locator("main")).to_contain_text(
        "1 of 1 contexts have no prompt here, and a text cannot be rated without its prompt."
    )
    expect(page.get_by_label("Your name")).to_have_count(0)


def test_a_table_that_scrolls_says_so(opened, command, tmp_path):
    assert command(f"evaluate demo/story --methods ladder --work {tmp_path}/work").code == 0
    page_file = page_of(tmp_path / "work", tmp_path / "page.html")
    narrow = opened(page_file, viewport={"width": 390, "height": 844})
    expect(narrow.locator(".hint").first).to_be_visible()
    wide = opened(page_file, viewport={"width": 1280, "height": 900})
    expect(wide.locator(".hint").first).to_be_hidden()


def check(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run().then(({ violations }) => violations.map(each => [each.id, each.nodes.map(node => node.html)]))"
    )
    assert found == []


def test_the_modules_stay_small_and_plain():
    page = Path(__file__).parents[2] / "refladder" / "contest" / "page"
    texts = {path.name: path.read_text(encoding="utf-8") for path in page.glob("*.js")}
    assert sum(len(text.splitlines()) for text in texts.values()) < 1500
    markup = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "DOMParser")
    forbidden = (*markup, "eval(", "Function(", "http://", "https://")
    for name, text in texts.items():
        plain = text.replace("http://www.w3.org/2000/svg", "")
        assert [word for word in forbidden if word in plain] == [], name
