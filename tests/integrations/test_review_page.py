"""The review page from disk, without a network, in a real browser."""

from __future__ import annotations

import json
import re
from math import log
from pathlib import Path

import pytest
from chromium import cells, new_page, show, shown, started, status, sync_api
from review_data import CRITERION, NASTY, SYSTEMS, contest
from scipy import stats

import refladder
from refladder.arena.html import review_page
from refladder.arena.runs import read_run
from refladder.commands.main import run as run_command

AXE = Path(__file__).parents[2] / "build" / "axe.min.js"


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


def truthful(_number, left, _right):
    return "ArrowLeft" if left.startswith("good") else "ArrowRight"


def test_the_leaderboard_is_that_of_the_command(opened, run):
    page = opened(run / "page.html")
    lines = [json.loads(line) for line in (run / "run" / "results.jsonl").read_text().splitlines()]
    for line in lines:
        if line["kind"] == "standing" and line["row"] is None:
            row = cells(page, line["model"], "th, td")
            assert row[1] == f"{line['rate']:.3f}"
            assert row[3] == f"[{line['low']:.3f}, {line['high']:.3f}]"
            assert row[4:] == [
                str(line[key]) for key in ("wins", "ties", "losses", "unparsed", "failed")
            ]
    assert page.locator("#data").count() == 0


def test_faults_of_the_judge_are_beside_the_numbers(opened, tmp_path):
    run = contest(tmp_path, rows=4) / "run"
    lines = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]
    trials = [line for line in lines if line["kind"] == "trial"]
    trials[0].update(mass=0.2)
    trials[1].update(forward=0.9, backward=0.2, winner=None, tie=True)
    trials[2].update(forward=None, winner=None, tie=False, note="no label")
    (run / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / "page.html").write_text(review_page(read_run(run)), encoding="utf-8")
    page = opened(run / "page.html")
    for number, words in enumerate(
        ("whose two orders disagree", "with low label mass", "without a usable answer")
    ):
        show(page, "results")
        line = page.locator("li", has_text=words)
        sync_api.expect(line).to_contain_text("1 of 4 (25.0 %)")
        line.get_by_role("link").click()
        status(page, "1 of 4 rows")
        kinds = page.get_by_label("Show").locator("option").all_inner_texts()
        assert kinds == ["all rows", "orders disagree", "low label mass", "unparsed"]
        assert page.locator("article h2").inner_text() == ("r1", "r0", "r2")[number]


def test_examples_are_searched_filtered_sorted_and_marked(opened, run):
    page = opened(run / "page.html", "examples")
    assert page.locator("article").count() == 10
    page.get_by_role("button", name="Next").click()
    status(page, "24 of 24 rows, page 2 of 3")
    page.get_by_label("Search").fill("topic7 ")
    sync_api.expect(page.locator("article")).to_have_count(1)
    assert page.locator("article h2").inner_text() == "r7"
    words = page.inner_text("article")
    for part in (
        "Write about topic7 .",
        "good text about 7",
        "poor text about 7",
        "It is better.",
        "0.955",
        *SYSTEMS,
    ):
        assert part in words
    page.get_by_role("button", name="Mark differences").click()
    sync_api.expect(page.locator("mark")).to_have_text(["good", "poor"])
    page.get_by_label("Search").fill("nowhere")
    status(page, "No row matches")
    sync_api.expect(page.get_by_label("Show")).to_have_count(0)  # no row is of another kind


def test_payloads_stay_text(opened, hostile):
    page = opened(hostile / "page.html")
    for view in ("results", "examples", "blind", "agreement", "scores"):
        show(page, view)
        if view == "blind":
            start(page, NASTY[:60].replace("\u2028", ""))
            answer(page, 1, truthful)
        assert page.evaluate("window.hit") is None
        assert page.locator("main img, main script").count() == 0
        assert NASTY[:50] in page.locator("main").inner_text()


def test_a_blind_view_gives_nothing_away(opened, run):
    page = opened(run / "page.html", "results")
    assert SYSTEMS[0] in page.inner_text("main")
    page.get_by_role("link", name="Blind rating").click()
    shown(page, "blind")
    start(page)
    for _ in range(8):
        page.wait_for_selector(".output .text")
        html = page.evaluate("document.documentElement.outerHTML").replace(
            page.evaluate("document.querySelector('script').textContent"), ""
        )
        for clue in (*SYSTEMS, "0.955", "It is better", "win rate", "scripted", "signature"):
            assert clue not in html.replace(
                page.evaluate("document.querySelector('style').textContent"), ""
            ), clue
        page.keyboard.press("t")
    assert (
        page.evaluate("() => Object.values(window).filter(value => value?.systems || value?.texts)")
        == []
    )


def test_keys_skip_undo_and_resume(opened, run):
    page = opened(run / "page.html", "blind")
    start(page)
    answer(page, 3, truthful)
    first = page.locator(".output .text").first.inner_text()
    page.keyboard.press("s")
    sync_api.expect(page.locator(".output .text").first).not_to_have_text(first)
    page.keyboard.press("u")
    status(page, "2 of 24")
    show(page, "agreement")
    show(page, "blind")  # still ann's turn
    status(page, "2 of 24 rated by ann")
    sync_api.expect(page.locator(".output .text")).to_have_count(2)
    page.reload()
    start(page)
    status(page, "2 of 24 rated by ann")
    page.get_by_role("button", name="Stop").click()
    start(page, "bob")
    status(page, "0 of 24 rated by bob")


def test_agreement_equals_a_count_by_hand_and_ratings_are_downloaded(opened, run):
    page = opened(run / "page.html", "blind")
    start(page)
    # 20 answers: 14 as the judge, 4 the other way round, 2 ties.
    wrong = {"ArrowLeft": "ArrowRight", "ArrowRight": "ArrowLeft"}
    answer(
        page,
        20,
        lambda number, *texts: (
            "t"
            if number >= 18
            else wrong[truthful(0, *texts)]
            if number >= 14
            else truthful(0, *texts)
        ),
    )
    show(page, "agreement")
    row = cells(page, "judge and person")
    assert row[0] == "20"
    assert row[1].startswith("0.700 [")  # 14 / 20
    assert "Show the rows of the 6 answers" in page.inner_text("main")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download 20 preferences").click()
    rows = [json.loads(line) for line in Path(waiting.value.path()).read_text().splitlines()]
    assert {tuple(row) for row in rows} == {
        ("context_id", "dimension", "first", "second", "winner", "rater")
    }
    judged = {}
    for line in (run / "run" / "results.jsonl").read_text().splitlines():
        trial = json.loads(line)
        if trial["kind"] == "trial":
            judged[trial["row"]] = f"{trial['row']}/{trial['winner']}"
    said = [row[row["winner"]] if row["winner"] != "tie" else None for row in rows]
    assert (
        sum(judged[row["context_id"]] == winner for row, winner in zip(rows, said, strict=True))
        == 14
    )
    # The text with the lower number of each pair is A, as on the page.
    numbers = read_run(run / "run").numbers
    lower = [min(row["first"], row["second"], key=numbers.__getitem__) for row in rows]
    pairs = [
        (judged[row["context_id"]] == text, None if winner is None else winner == text)
        for row, winner, text in zip(rows, said, lower, strict=True)
    ]
    values = [value for pair in pairs for value in pair]
    chance = (
        sum(
            sum(pair[0] is value for pair in pairs) * sum(pair[1] is value for pair in pairs)
            for value in set(values)
        )
        / 400
    )
    assert row[2].startswith(f"{(0.7 - chance) / (1 - chance):.3f}")
    page.get_by_role("link", name="Show the rows").click()
    shown(page, "examples")
    status(page, "6 of 24 rows")
    assert "ann: " in page.inner_text("article >> nth=0")


def test_both_tables_of_agreement_call_the_same_text_a(opened, run):
    page = opened(run / "page.html", "blind")
    start(page)
    answer(page, 24, lambda _, left, __: "ArrowRight" if left.startswith("good") else "ArrowLeft")
    show(page, "agreement")
    # By hand: of the texts of a row, the one with the lower number is A. The judge prefers the good text, which
    # SYSTEMS[0] writes in odd rows; the person prefers the other one.
    places = {
        row: [text.system for text in read_run(run / "run").texts if text.row == row]
        for row in range(24)
    }
    expected = []
    for row, systems in places.items():
        words = (
            ["A better", "B better"]
            if (systems[0] == SYSTEMS[0]) == (row % 2 == 1)
            else ["B better", "A better"]
        )
        expected.append([f"r{row}", CRITERION, " : ".join(systems), f"ann: {words[1]}", words[0]])
    disputes = page.locator("table", has_text="answers in dispute").locator("tbody tr")
    assert sorted(row.locator("th, td").all_inner_texts() for row in disputes.all()) == sorted(
        expected
    )
    counts = page.locator("table", has_text="confusions").locator("tbody tr")
    a_better = sum(row[-1] == "A better" for row in expected)
    assert [row.locator("th, td").all_inner_texts() for row in counts.all()] == [
        ["A better", "0", "0", str(a_better)], ["tie", "0", "0", "0"], ["B better", str(24 - a_better), "0", "0"]
    ]  # fmt: skip


def test_the_last_of_two_answers_to_a_pair_counts(opened, tmp_path):
    run = contest(tmp_path, rows=2) / "run"
    names = [
        f"r1/{system}" for system in SYSTEMS
    ]  # the good text of r1 is that of SYSTEMS[0], and the judge wants it
    answer = {"context_id": "r1", "dimension": CRITERION, "rater": "ann"}
    answers = [dict(zip(("first", "second", "winner"), (*names, "second"), strict=True))]
    answers += [dict(zip(("first", "second", "winner"), (*names[::-1], "second"), strict=True))]
    (run / "preferences.jsonl").write_text(
        "".join(json.dumps({**answer, **each}) + "\n" for each in answers)
    )
    (run / "page.html").write_text(review_page(read_run(run)), encoding="utf-8")
    page = opened(run / "page.html", "agreement")
    assert cells(page, "judge and person")[0] == "1"
    assert "Judge and people agree on every pair" in page.inner_text("main")
    show(page, "examples")
    assert (
        page.locator("article", has_text="r1").locator("td").nth(4).inner_text()
        == f"ann: {SYSTEMS[0]}"
    )


def test_people_are_compared_with_each_other(opened, run):
    page = opened(run / "page.html", "blind")
    start(page)
    answer(page, 24, lambda *_: "t")
    page.get_by_role("button", name="Stop").click()
    start(page, "bob")
    # bob's tie on rows below 12 is ann's answer, his choice on the 12 others is not.
    answer(
        page, 24, lambda _number, left, _right: "t" if int(left.split()[-1]) < 12 else "ArrowLeft"
    )
    page.get_by_role("navigation").get_by_role("link", name="Agreement").click()
    shown(page, "agreement")
    row = cells(page, "person and person")
    assert (row[0], row[1].split()[0]) == ("24", "0.500")
    assert row[2].split()[0] == "0.000"  # one of them always says tie: no agreement beyond chance
    assert "Rated by ann, bob." in page.inner_text("main")


def test_single_texts_are_graded_on_the_scale(opened, run):
    page = opened(run / "page.html", "blind")
    start(page, what="text")
    page.wait_for_selector("text=1 worst")
    for number in range(4):
        status(page, f"{number} of 48")
        page.keyboard.press("5" if page.inner_text(".output .text").startswith("good") else "2")
    status(page, "4 of 48")
    show(page, "agreement")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download 4 grades").click()
    rows = [json.loads(line) for line in Path(waiting.value.path()).read_text().splitlines()]
    assert {tuple(row) for row in rows} == {
        ("output_id", "context_id", "system", "dimension", "value", "rater", CRITERION)
    }
    assert {row["value"] for row in rows} <= {2, 5}


def test_a_threshold_is_moved_over_the_scores(opened, command, write_jsonl, rows, tmp_path):
    table = [
        {**row, "quality": row["extra"]["n"] % 4, "system": "ab"[row["extra"]["n"] % 2]}
        for row in rows(30)
    ]
    out, page_file = tmp_path / "scored.jsonl", tmp_path / "page.html"
    given = ["--ladders", "demo/story", "--dimension", "coherence", "--out", out]
    assert (
        command("score", write_jsonl([{**row, "extra": None} for row in table]), *given).code == 0
    )
    assert command("review", out, "--html", page_file).code == 0
    scored = [json.loads(line) for line in out.read_text().splitlines()]
    page = opened(page_file, "scores")
    page.get_by_label("Labels").select_option(label="quality")
    enter(page, "A label is good from", 2)
    for threshold in (-5, -11.5, 30):
        enter(page, "Value", threshold)
        kept = [row for row in scored if row["coherence_score"] >= threshold]
        good = sum(row["quality"] >= 2 for row in kept)
        facts = sync_api.expect(page.locator(".facts"))
        facts.to_contain_text(f"{len(kept)} of 30 scored ({100 * len(kept) / 30:.1f} %")
        if kept:
            facts.to_contain_text(f"{good} of {len(kept)} labels above the threshold are good")
            bound = (
                stats.binomtest(good, len(kept), alternative="greater")
                .proportion_ci(0.9, "exact")
                .low
            )
            facts.to_contain_text(f"{100 * bound:.1f} % with 90 % confidence")
        else:
            facts.to_contain_text("no labels above the threshold")
    assert page.locator("figure").count() == 3  # all, and systems a and b
    enter(page, "Value", -5)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download what passes").click()
    passed = [json.loads(line) for line in Path(waiting.value.path()).read_text().splitlines()]
    assert {row["output_id"] for row in passed} == {
        row["output_id"] for row in scored if row["coherence_score"] >= -5
    }
    show(page, "examples")
    page.get_by_text("Ladder of coherence").first.click()
    assert page.locator(".rungs").first.locator("li").count() == 5


def test_a_scored_table_opens_on_its_scores_with_each_text_on_its_ladder(
    opened, command, write_jsonl, run, tmp_path
):
    judge = tmp_path / "judge.jsonl"
    # P(win) = .7 and P(tie) = .1 against every rung: better with .7 + .1 / 2 = .75. The tide is worse than all rungs.
    answers = {"sea": (0.7, 0.2, 0.1), "tide": (0.0001, 0.9998, 0.0001)}
    judge.write_text(
        "".join(
            json.dumps(
                {
                    "contains": {"target": word},
                    "answer": dict(zip(("win", "loss", "tie"), map(log, shares), strict=True)),
                }
            )
            + "\n"
            for word, shares in answers.items()
        )
    )
    table = [
        {"output_id": name, "context_id": "story-01", "output": f"A {name} of words."}
        for name in ("sea", "tide", "sea too")
    ]
    out, page_file = tmp_path / "scored.jsonl", tmp_path / "page.html"
    given = [
        "--ladders",
        "demo/story",
        "--dimension",
        "coherence",
        "--judge",
        f"scripted:{judge}",
        "--out",
        out,
    ]
    assert command("score", write_jsonl(table), *given).code == 0
    assert command("review", out, "--html", page_file).code == 0
    page = opened(page_file, "examples")
    page.goto("about:blank")
    page.goto(f"file://{page_file}")
    shown(page, "scores")
    assert page.get_by_role("link", name="Scores").get_attribute("aria-current") == "page"
    card = page.locator(".output", has_text="A sea of words.")
    rungs = card.locator(".rungs li")
    assert rungs.count() == 5
    ladder = refladder.load_ladders("demo/story").ladders["story-01", "coherence"]
    for number, rung in enumerate(ladder.rungs):
        sync_api.expect(rungs.nth(number)).to_be_visible()
        sync_api.expect(rungs.nth(number)).to_contain_text("better with 0.75")
        sync_api.expect(rungs.nth(number)).to_contain_text(rung.text[:40])
    sync_api.expect(
        page.locator(".output", has_text="A tide of words.").locator(".rungs li").first
    ).to_contain_text("better with 0.00")
    page.goto("about:blank")
    page.goto(f"file://{run / 'page.html'}")  # a contest has win rates
    shown(page, "results")


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
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scored = str(folder / "scored.jsonl")
    assert (
        run_command(
            ["score", str(folder / "texts.jsonl"), "--ladders", "demo/story", "--out", scored]
        )
        == 0
    )
    assert run_command(["review", scored, "--html", str(folder / "page.html")]) == 0
    return folder / "page.html"


def test_a_wide_screen_has_two_texts_and_their_ladder_side_by_side(opened, scored):
    for width, side_by_side in ((1280, True), (1100, False)):
        page = opened(scored, "examples", viewport={"width": width, "height": 800})
        first, second = (
            page.locator(".output", has_text=name).bounding_box() for name in ("aster", "birch")
        )
        ladder = page.get_by_text("Ladder of coherence").bounding_box()
        assert first["y"] == second["y"]
        assert first["x"] + first["width"] <= second["x"]
        assert (second["x"] + second["width"] <= ladder["x"]) is side_by_side
        assert (ladder["y"] < first["y"] + first["height"]) is side_by_side
        rungs = page.locator(".rungs").first.locator("li")
        sync_api.expect(rungs).to_have_count(5)
        assert rungs.first.is_visible() is side_by_side
        sync_api.expect(rungs.first).to_contain_text(
            re.compile(r"aster better with 0\.\d\d.*birch better with 0\.\d\d")
        )
        page.close()


def enter(page, label, value):
    page.get_by_label(label).fill(str(value))
    page.get_by_label(label).press("Enter")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light"), (2560, "dark")])
def test_every_view_is_accessible_and_fits(opened, run, scored, width, scheme):
    if not AXE.is_file():
        pytest.skip("no axe-core; `make test-integrations` fetches it")
    page = opened(
        run / "page.html",
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
        bypass_csp=True,
    )
    for view in ("results", "examples", "blind", "agreement", "scores"):
        show(page, view)
        check(page)
        if view == "blind":
            start(page)
            page.wait_for_selector(".output")
            check(page)
            page.keyboard.press("t")
    page = opened(
        scored,
        "scores",
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
        bypass_csp=True,
    )
    for view in ("scores", "examples"):
        show(page, view)
        check(page)


def scored_page(command, write_jsonl, tmp_path, table, *options):
    """The page of a table that was scored with the shared set of replies."""
    out, page_file = tmp_path / "scored.jsonl", tmp_path / "page.html"
    given = ("--ladders", "general/reply", "--dimension", "helpfulness", "--out", out, *options)
    assert command("score", write_jsonl(table), *given).code == 0
    assert command("review", out, "--html", page_file).code == 0
    return page_file


TICKETS = [
    {
        "question": f"Question {number // 2}?",
        "reply": f"Answer {number}.",
        "model": "ab"[number % 2],
    }
    for number in range(6)
]
TICKET_COLUMNS = [
    word
    for column in ("context=question", "output=reply", "system=model")
    for word in ("--column", column)
]


def test_cards_carry_rows_systems_and_prompts(opened, command, write_jsonl, tmp_path):
    page = opened(scored_page(command, write_jsonl, tmp_path, TICKETS, *TICKET_COLUMNS), "examples")
    status(page, "3 of 3 contexts, 6 rows, page 1 of 1")
    assert page.locator("article h2").all_inner_texts() == [f"context {n}" for n in (1, 2, 3)]
    assert page.locator("article .output h3").all_inner_texts() == ["a", "b"] * 3
    assert page.locator("article .signature").all_inner_texts()[:2] == ["row 1", "row 2"]
    show(page, "scores")
    for card in page.locator(".output").all():
        assert "Question" in card.inner_text()
    # The counts of the histogram of all texts add up to them.
    counts = page.locator(".whole svg text").all_text_contents()[:-2]
    assert sum(map(int, counts)) == 6
    names = page.locator("nav.views a").all_inner_texts()
    assert names == ["Examples", "Blind rating", "Scores"]


def test_the_check_of_a_judge_is_not_among_the_warnings(opened, command, write_jsonl, tmp_path):
    page = opened(scored_page(command, write_jsonl, tmp_path, TICKETS, *TICKET_COLUMNS), "scores")
    sync_api.expect(page.locator(".facts-box")).to_contain_text("judge check, best rung against")
    assert "judge check, best" not in page.locator(".warnings").inner_text()


def test_grades_have_words_and_a_rating_opens_the_agreement(opened, command, write_jsonl, tmp_path):
    page = opened(scored_page(command, write_jsonl, tmp_path, TICKETS, *TICKET_COLUMNS), "blind")
    start(page, what="text")
    names = page.get_by_role("group", name="Grade").get_by_role("button").all_inner_texts()
    assert [name.split("\n")[0].strip() for name in names] == [
        "1 worst 1",
        "2 2",
        "3 3",
        "4 4",
        "5 best 5",
    ]
    page.get_by_role("button", name="5 best").click()
    status(page, "1 of 6")
    sync_api.expect(page.locator("nav.views a", has_text="Agreement")).to_have_count(1)


def test_a_phone_shows_no_keys(opened, run):
    page = opened(
        run / "page.html",
        "blind",
        has_touch=True,
        is_mobile=True,
        viewport={"width": 390, "height": 844},
    )
    start(page)
    page.wait_for_selector(".answer")
    assert not page.locator("kbd").first.is_visible()


def test_texts_without_their_prompts_are_not_rated(opened, command, write_jsonl, tmp_path):
    table = [{"context_id": "story-01", "output": "A sea of words."}]
    out, page_file = tmp_path / "scored.jsonl", tmp_path / "page.html"
    given = ("--ladders", "demo/story", "--out", out)
    assert command("score", write_jsonl(table), *given).code == 0
    record = out.with_name("scored.jsonl.run.json")
    fields = json.loads(record.read_text())
    fields["options"]["ladders"] = "gone"
    record.write_text(json.dumps(fields))
    assert command("review", out, "--html", page_file).code == 0
    page = opened(page_file, "blind")
    text = page.locator("main").inner_text()
    assert (
        "1 of 1 contexts have no prompt here, and a text cannot be rated without its prompt."
        in text
    )
    assert page.get_by_label("Your name").count() == 0


def test_a_table_that_scrolls_says_so(opened, command, tmp_path):
    work, page_file = tmp_path / "work", tmp_path / "page.html"
    assert command("evaluate", "demo/story", "--methods", "ladder", "--work", work).code == 0
    assert command("review", work, "--html", page_file).code == 0
    narrow = opened(page_file, viewport={"width": 390, "height": 844})
    sync_api.expect(narrow.locator(".hint").first).to_be_visible()
    wide = opened(page_file, viewport={"width": 1280, "height": 900})
    sync_api.expect(wide.locator(".hint").first).to_be_hidden()


def check(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        "axe.run().then(({ violations }) => violations.map(each => [each.id, each.nodes.map(node => node.html)]))"
    )
    assert found == []


def test_the_modules_stay_small_and_plain():
    page = Path(__file__).parents[2] / "refladder" / "arena" / "page"
    assert (
        sum(len(path.read_text(encoding="utf-8").splitlines()) for path in page.glob("*.js")) < 1500
    )
    for path in page.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "Function(",
            "DOMParser",
            "http://",
            "https://",
        ):
            assert word not in text.replace("http://www.w3.org/2000/svg", ""), (path.name, word)
