"""The served review page in a real browser: ratings that survive a kill, blindness on the network, build and run."""

from __future__ import annotations

import os
import re
import select
import signal
from pathlib import Path

import pytest
from chromium import cells, expect, new_page, show, shown, started, status
from json_lines import read_lines, write_lines
from review_data import NASTY, SYSTEMS, contest
from waiting import HANG

from refladder.cli.inventory import inventory

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

AXE = Path(__file__).parents[2] / "build" / "axe.min.js"


@pytest.fixture(scope="module")
def chromium():
    with started() as browser:
        yield browser


@pytest.fixture
def serve(process):
    """Start `refladder review`; gives the process and the printed address."""
    servers = []

    def go(*arguments, **options):
        server = process("review", *arguments, "--no-browser", **options)
        servers.append(server)
        assert select.select([server.stdout], [], [], HANG)[0]
        line = server.stdout.readline().decode()
        assert line.startswith("Open http://127.0.0.1:"), server.stderr.read()
        return server, line.split()[1]

    yield go
    for server in servers:
        server.kill()
        server.communicate()


@pytest.fixture
def browser(chromium):
    """A page of a browser context of its own; its console must stay empty, and it asks only the server."""
    pages = []

    def go(address, view="", **options):
        page, problems = new_page(chromium, **options)
        pages.append((page, problems))
        origin = address.split("#")[0]
        page.on(
            "request",
            lambda asked: (
                None if asked.url.startswith((origin, "blob:")) else problems.append(asked.url)
            ),
        )
        page.goto(address)
        page.wait_for_selector("main[data-view]")
        if view:
            show(page, view)
        return page

    yield go
    for page, _ in pages:
        page.context.close()
    assert [problem for _, problems in pages for problem in problems] == []


def rate(page, rater, count, key="t", start=0):
    page.get_by_label("Your name").fill(rater)
    page.get_by_role("button", name="Start").click()
    for number in range(start, start + count):
        status(page, f"{number} of")
        page.keyboard.press(key)
    status(page, f"{start + count} of")


def test_ratings_survive_a_kill_and_the_page_resumes(serve, browser, tmp_path):
    run = contest(tmp_path, rows=6) / "run"
    server, address = serve(run)
    page = browser(address, "blind")
    rate(page, "ann", 2, "ArrowLeft")
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    rows = read_lines(run / "preferences.jsonl")
    assert [(row["rater"], row["winner"]) for row in rows] == [("ann", "first")] * 2
    assert not {"winner", "token"} & set(page.url)
    _, address = serve(run)
    rate(browser(address, "blind"), "ann", 1, start=2)
    assert len((run / "preferences.jsonl").read_text().splitlines()) == 3


def test_two_tabs_lose_nothing(serve, browser, tmp_path):
    run = contest(tmp_path, rows=6) / "run"
    _, address = serve(run)
    first, second = browser(address, "blind"), browser(address, "blind")
    rate(first, "ann", 3)
    rate(second, "bob", 4)
    first.keyboard.press("t")
    status(first, "4 of 6 rated by ann")
    second.keyboard.press("u")
    status(second, "3 of 6 rated by bob")
    rows = read_lines(run / "preferences.jsonl")
    assert sorted(row["rater"] for row in rows) == ["ann"] * 4 + ["bob"] * 3


def test_the_network_gives_nothing_away_before_an_answer(serve, chromium, tmp_path):
    _, address = serve(contest(tmp_path, rows=6) / "run")
    page, _ = new_page(chromium)
    page.goto(address)
    shown(page, "results")
    show(page, "blind")
    page.reload()  # now nothing but the blind view has been loaded
    page.wait_for_selector("text=Your name")
    page.wait_for_load_state("networkidle")
    answers = []
    page.on("response", lambda answer: answers.append(answer))  # noqa: PLW0108  playwright wants a function
    page.reload()
    page.wait_for_selector("text=Your name")
    rate(page, "ann", 3)
    page.wait_for_load_state("networkidle")
    seen = [(answer.url, answer.text()) for answer in answers if "/api/" in answer.url]
    assert seen
    for clue in (*SYSTEMS, 'winner": "', "forward", "win_rate", "It is better", "r0"):
        assert not [text for url, text in seen if clue in text and "/api/start" not in url], clue
    assert not [url for url, _ in seen if "/api/key" in url]
    assert [url for url, _ in seen if "/api/pool" in url]
    page.context.close()


def test_build_and_compare_are_accessible_and_fit(serve, chromium, tmp_path):
    if not AXE.is_file():
        pytest.skip("no axe-core; `make test-integrations` fetches it")
    contest(tmp_path, rows=2, nasty=NASTY.replace("\u2028", ""))
    contest(tmp_path / "more", rows=2)
    _, address = serve(tmp_path / "run", "--folder", tmp_path)
    for width, scheme in ((360, "light"), (1280, "dark"), (2560, "light")):
        page, _ = new_page(
            chromium, viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
        )
        page.goto(address)
        page.wait_for_selector("main[data-view]")
        for view, ready in (("build", "text=5. Run"), ("compare", "text=win rates on clarity")):
            show(page, view)
            page.wait_for_selector(ready)
            if view == "build":
                page.get_by_label("Table", exact=True).select_option("rows.jsonl")
                page.wait_for_selector("text=2 rows; the first are")
                page.get_by_role("button", name="{topic}").click()
                page.wait_for_selector("text=The prompt of the first rows")
            assert page.evaluate("window.hit") is None
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.evaluate(AXE.read_text(encoding="utf-8"))
            found = page.evaluate(
                "axe.run().then(({ violations }) => violations.map(each => [each.id, each.nodes[0].html]))"
            )
            assert found == []
        page.context.close()


def test_build_shows_an_example_with_the_columns_of_the_table(serve, browser, tmp_path):
    contest(tmp_path, rows=2)
    page = browser(serve("--folder", tmp_path)[1], "build")
    page.get_by_label("Table", exact=True).select_option("rows.jsonl")
    expect(page.get_by_label("Prompt of every row")).to_have_attribute(
        "placeholder", "Write about {topic}."
    )
    for label in ("Name", "Backend", "Judge", "Description", "Worst", "Best"):
        controls = page.get_by_label(label, exact=True)
        expect(controls).not_to_have_count(0)
        for control in controls.all():
            expect(control).to_have_attribute("placeholder", re.compile("."))
    known = [each["name"] for each in inventory("backends")]
    for label in ("Backend", "Judge"):
        control = page.get_by_label(label, exact=True).first
        assert control.get_attribute("placeholder").split(":")[0] in known
        offered = page.locator(f"#{control.get_attribute('list')} option")
        # The page fetches the list after it has drawn the form.
        expect(offered).to_have_count(len(known))
        assert [each.get_attribute("value").rstrip(":") for each in offered.all()] == known
    # A click misses where the table that arrives moves the page.
    page.get_by_text("Available backends").press("Enter")
    expect(
        page.locator("dd", has_text="openai:MODEL on any OpenAI-compatible server")
    ).to_be_visible()


def test_the_page_without_its_key_says_what_to_do(serve, chromium, tmp_path):
    _, address = serve(contest(tmp_path, rows=2) / "run")
    page, _ = new_page(chromium)
    page.goto(address.split("#")[0])
    page.wait_for_selector("text=Open the address that refladder review printed")
    page.context.close()


def test_the_whole_loop_of_the_paper(serve, browser, command, tmp_path):  # noqa: PLR0915  it is one loop
    """Build, run, review, rate 20 blind, agreement equals a count by hand, and labels for calibrate."""
    contest(tmp_path, rows=24)
    _, address = serve("--folder", tmp_path)
    page = browser(address)
    page.get_by_label("Table", exact=True).select_option("rows.jsonl")
    page.wait_for_selector("text=24 rows; the first are")
    page.get_by_label("Prompt of every row").fill("Write about {tpoic}.")
    page.wait_for_selector("mark:has-text('{tpoic}')")
    page.get_by_label("Prompt of every row").fill("Write about {topic}.")
    page.wait_for_selector("text=Write about topic0 .")
    for number, name in enumerate(SYSTEMS, start=1):
        group = page.get_by_role("group", name=f"Model {number}")
        group.get_by_label("Name").fill(name)
        group.get_by_label("Backend").fill(f"scripted:{name}.jsonl")
    page.get_by_label("Judge", exact=True).fill("scripted:judge.jsonl")
    group = page.get_by_role("group", name="Criterion 1")
    for label, words in {
        "Name": "clarity",
        "Description": "Plain words.",
        "Worst": "-2: no sense",
        "Best": "2: clear",
    }.items():
        group.get_by_label(label).fill(words)
    # A run starts after its cost, and not if the form has changed since.
    run = page.get_by_role("button", name="Run", exact=True)
    expect(run).to_have_count(0)
    for name in ("first", "run-1"):
        page.get_by_label("Name of the run").fill(name)
        page.get_by_role("button", name="Show the cost").click() if name == "first" else run.click()
        page.wait_for_selector(f"code:has-text('--out={tmp_path / name}')")
        # By hand: each model writes 24 texts; the judge compares the two texts of 24 rows in 2 orders.
        for backend, calls in (*((name, 24) for name in SYSTEMS), ("judge", 48)):
            expect(page.locator("li", has_text=f"{backend}.jsonl")).to_contain_text(
                f"{calls} calls"
            )
        assert not (tmp_path / name).exists()
    run.click()
    page.wait_for_selector("text=Finished: run-1")
    page.get_by_role("link", name="See the results").click()
    expect(page.locator("tr", has_text=SYSTEMS[0]).first).to_contain_text("0.500")

    page.get_by_role("link", name="Blind rating").click()
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("button", name="Start").click()
    same = 0
    for number in range(20):
        status(page, f"{number} of 24")
        left = page.locator(".output .text").first.inner_text()
        agree = number % 5 != 0  # 16 of 20 as the judge
        same += agree
        page.keyboard.press("ArrowLeft" if left.startswith("good") == agree else "ArrowRight")
    status(page, "20 of 24")
    page.get_by_role("link", name="Agreement").click()
    shown(page, "agreement")
    row = cells(page, "judge and person")
    assert (row[0], row[1].split()[0]) == ("20", f"{same / 20:.3f}")

    page.get_by_role("link", name="Blind rating").click()
    shown(page, "blind")
    page.get_by_role("button", name="Stop").click()
    page.get_by_label("Rate").select_option("text")
    page.get_by_role("button", name="Start").click()
    for number in range(24):
        status(page, f"{number} of 48")
        page.keyboard.press(
            "5" if page.locator(".output .text").first.inner_text().startswith("good") else "1"
        )
    status(page, "24 of 48")
    page.get_by_role("link", name="Scores").click()
    shown(page, "scores")
    page.get_by_label("Labels").select_option(label="ratings on this page: clarity")
    page.get_by_label("Value").fill("0.75")
    page.get_by_label("Value").press("Enter")
    page.get_by_label("A label is good from").fill("1")
    page.get_by_label("A label is good from").press("Enter")
    labels = tmp_path / "run-1" / "ratings.jsonl"
    grades = read_lines(labels)
    good = sum(row["value"] == 2 for row in grades)
    assert {row["value"] for row in grades} == {-2, 2}
    # The judge is right on every text, so all labels above 0.75 are good.
    expect(page.locator(".facts")).to_contain_text(
        f"100.0 %: {good} of {good} labels above the threshold are good"
    )
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download what passes").click()
    assert len(Path(waiting.value.path()).read_text().splitlines()) == 24

    scored = tmp_path / "scored.jsonl"
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download all scores").click()
    waiting.value.save_as(scored)
    assert len(scored.read_text().splitlines()) == 48

    page.get_by_role("navigation").get_by_role("link", name="Agreement").click()
    shown(page, "agreement")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download a table for refladder evaluate table").click()
    rated, task = tmp_path / "rated-texts.jsonl", tmp_path / "task.toml"
    waiting.value.save_as(rated)
    task.write_text(
        'task = "open"\n[[dimensions]]\nname = "clarity"\ndescription = "Plain words."\nlow = -2\nhigh = 2\n'
    )
    done = command(f"evaluate table --source {rated} --task-file {task} --methods win-ratio --json")
    assert done.code in {0, 3}, done.err
    assert {row["benchmark"] for row in done.rows} == {"table"}

    promise = f"--by clarity_win_rate --labels {labels} --label clarity --good >=1 --precision 0.7"
    done = command(f"calibrate {scored} {promise} --out {tmp_path}/threshold.json")
    assert done.code in {0, 3}, done.err
    assert "24 labels" in done.out + done.err


def test_ten_thousand_rows_are_shown_ten_at_a_time(chromium, tmp_path):
    run = tmp_path / "large"
    run.mkdir()
    lines = [{"kind": "contest", "signature": "made by hand"}]
    lines += [
        {"kind": "row", "row": f"r{n}", "prompt": f"Write about topic {n}.", "note": None}
        for n in range(10_000)
    ]
    lines += [{"kind": "criterion", "criterion": "clarity", "description": "Plain words."}]
    models = [f"model-{letter}" for letter in "abcd"]
    text = "The harbour was closed by a storm until Thursday, and the boats waited. " * 3
    lines += [
        {"kind": "text", "row": f"r{n}", "model": model, "text": f"{model} {n} {text}", "finish": "stop", "note": None}
        for n in range(10_000) for model in models
    ]  # fmt: skip
    lines += [
        {"kind": "trial", "row": f"r{n}", "criterion": "clarity", "one": one, "other": other, "forward": 0.7,
         "backward": 0.3 + n % 3 / 5, "winner": one if n % 3 > 1 else None, "tie": n % 3 <= 1, "note": None,
         "explanation": None, "mass": 0.9}
        for n in range(10_000) for place, one in enumerate(models) for other in models[place + 1 :]
    ]  # fmt: skip
    write_lines(run / "results.jsonl", lines)
    from refladder.contest.html import review_page
    from refladder.contest.runs import read_run

    (run / "page.html").write_text(review_page(read_run(run)), encoding="utf-8")
    page, problems = new_page(chromium)
    page.goto(f"file://{run / 'page.html'}")
    shown(page, "results")
    page.wait_for_selector("text=win rate over pairs of texts")
    assert page.locator("main *").count() < 1000
    show(page, "examples")
    for act, text, articles in (
        (lambda: None, "10,000 of 10,000 rows, page 1 of 1,000", 10),
        (
            lambda: page.get_by_role("button", name="Next").click(),
            "10,000 of 10,000 rows, page 2 of 1,000",
            10,
        ),
        (lambda: page.get_by_label("Search").fill("model-a 9999 "), "1 of 10,000 rows", 1),
        (
            lambda: page.get_by_label("Search").fill(""),
            "10,000 of 10,000 rows, page 1 of 1,000",
            10,
        ),
        # The orders disagree in every third row.
        (lambda: page.get_by_label("Show").select_option("orders"), "3,334 of 10,000 rows", 10),
    ):
        act()
        status(page, text)
        expect(page.locator("article")).to_have_count(articles)
        assert page.locator("main *").count() < 1000  # elements, of which each costs time
    page.context.close()
    assert problems == []
