"""Every number of calls that a page names is one that a dry run counts; prices follow from it and from measured tokens."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest

import refladder

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
COSTS, CHOOSE = "docs/how-to/costs.md", "docs/how-to/choose-a-judge.md"
BLOCK = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
# Calls in prose, with their number. What a study asked is a number of requests, which no dry run counts.
CALLS = re.compile(r"\b\d+(?:,\d{3})*(?: million)? (?:calls?|questions)\b")
GENERAL, FOUR = "general/reply", ("helpfulness", "clarity", "politeness", "truthfulness")
DOCUMENT = "general/document"
STORY = "demo/story"  # has a ladder for each context
ROWS = 10  # of the table that is counted; another has twice as many


@pytest.fixture
def counted(command):
    """The calls that a dry run of a command counts."""

    @functools.cache
    def calls(line):
        (backend,) = json.loads(command(f"{line} --dry-run --json").out)["backends"]
        assert backend["exact"]
        return backend["calls"]

    return calls


@pytest.fixture
def calls(counted, write_jsonl, tmp_path):
    """The calls of some rows; with `once`, those of a run without rows."""

    def table(ladders, count):
        context = {"context_id": "story-04"} if ladders == STORY else {"context": "A dragon?"}
        rows = [{**context, "output": f"Text {number}."} for number in range(count)]
        return write_jsonl(rows, f"{count}.jsonl")

    def of(ladders, answers="0", *, rows=1, once=False, criteria=("helpfulness",), more=""):
        names = ("coherence",) if ladders == STORY else criteria
        written = re.search("stated|together", answers)
        judge = f"openai:m --base-url file:{tmp_path}/answers" if written else "builtin"
        options = " ".join(f"--dimension {name}" for name in names)
        few, many = (
            counted(
                f"score {table(ladders, count)} --ladders {ladders} {options} --answers {answers} --judge {judge} {more}"
            )
            for count in (ROWS, 2 * ROWS)
        )
        a_row, rest = divmod(many - few, ROWS)
        assert rest == 0
        return few - ROWS * a_row if once else rows * a_row

    return of


def test_numbers_of_calls_in_prose(counted, calls, tmp_path):
    four = functools.partial(calls, GENERAL, criteria=FOUR)
    million, student = calls(STORY, rows=1_000_000), calls(STORY, rows=5_000)
    contexts = [
        {"context_id": str(number), "context": f"Question {number}?"} for number in range(20)
    ]
    fluent = refladder.Dimension(name="fluency", description="It reads well.")
    refladder.build(
        contexts, task="open", dimensions=[fluent], out=tmp_path / "own", writer="builtin"
    )
    (tmp_path / "row.jsonl").write_text('{"context_id": "1", "output": "A text."}\n')
    most = counted(f"score {tmp_path}/row.jsonl --ladders {tmp_path}/own") - 5
    # The check takes the best and the worst rung of 12 ladders; the three that score have five rungs each.
    shared = calls(GENERAL, "rating:stated", once=True) - (calls(GENERAL, once=True) + 15)
    watch = (
        f"watch {GENERAL} --dimension helpfulness --answers rating --baseline {tmp_path}/judge.json"
    )
    worth = ("'educational value'",)
    sentences = [
        (
            "docs/index.md",
            (f"For each criterion {calls(STORY, rows=10_000):,} calls with one ladder of 5 rungs, "
            f"{calls(GENERAL, rows=10_000):,} with a general set. The four criteria of `{GENERAL}` take {four(rows=10_000):,} "
            f"calls, and {four('rating:stated', rows=10_000):,} with `--answers rating:stated`"),
        ),
        (
            "README.md",
            (f"ask {four()} questions a row, {four('stated')} with `--answers stated`, {four('rating')} with `rating` and "
            f"{four('rating:together')} with `rating:together`"),
        ),
        (COSTS, f"The judge check takes at most {most} calls for each criterion"),
        (COSTS, f"15 calls for each criterion of `{GENERAL}`, {-shared} of which the check has made."),
        (COSTS, f"take {four()} calls a row, so 10,000 rows take {four(rows=10_000):,} calls."),
        (
            COSTS,
            (f"take {million / 1e6:g} million calls by labels. With prompts of 400 tokens, that is {million * 400 / 1e9:g} "
            f"billion tokens: {million * 400 / 1e6 * 2:,.0f} USD at 2 USD per million. `--answers stated` and `rating` take "
            f"{calls(STORY, 'rating', rows=1_000_000) / 1e6:g} million calls. A student that learns from 5,000 judged rows "
            f"takes {student:,} calls, {student * 400 / 1e6 * 2:g} USD"),
        ),
        (CHOOSE, f"the judge check takes at most {most} calls for each criterion"),
        (
            CHOOSE,
            (f"`0` with probabilities ({calls(STORY)} or {calls(GENERAL)} calls), `stated` without ({calls(STORY, 'stated')} "
            f"or {calls(GENERAL, 'stated')})"),
        ),
        (
            "docs/how-to/shared-ladders.md",
            (f"a row takes {calls(GENERAL)} questions for each criterion; `--answers stated` takes "
            f"{calls(GENERAL, 'stated')}, and `--answers rating` {calls(GENERAL, 'rating')}"),
        ),
        (
            "docs/how-to/score-a-corpus.md",
            (
                f"{calls(DOCUMENT, 'rating:stated', rows=200, criteria=worth)} calls are about the paragraphs. The other "
                f"{calls(DOCUMENT, 'rating:stated', once=True, criteria=worth)} are about texts of the set"
            ),
        ),
        (
            "docs/how-to/link-judges.md",
            (f"A run asks {counted(f'{watch} --new') / 2:g} questions for each criterion of a set with 12 anchors and 5 rungs, "
            "`--new` twice as many."),
        ),
    ]  # fmt: skip
    rest = {page: " ".join(BLOCK.sub("", text).split()) for page, text in PAGES.items()}
    assert [(page, said) for page, said in sentences if said not in rest[page]] == []
    for page, said in sentences:
        rest[page] = rest[page].replace(said, "")
    assert {page: found for page in rest if (found := CALLS.findall(rest[page]))} == {}


def rows(page, head):
    """The rows of a table, whose first cell has code: the pieces of code, and the other cells."""
    table = PAGES[page].partition(f"| {head} |")[2].partition("\n\n")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert len(lines) > 4
    return [(re.findall("`([^`]+)`", first), rest) for first, *rest in lines]


def test_the_table_of_calls_for_a_row(calls):
    for modes, (formula, *cells) in rows(COSTS, "`--answers` | calls of a row"):
        for mode in modes:
            # A formula counts 4 answers, and 4 orders of the rungs.
            named = {"N": "4", "stated:K": "stated:4"}.get(mode, mode)
            shown = [
                int(cell.split(" ")[0].replace("K", "4")) * (4 if " " in cell else 1)
                for cell in cells
            ]
            assert (mode, shown) == (
                mode,
                [
                    calls(STORY, named),
                    calls(GENERAL, named),
                    calls(GENERAL, named, criteria=FOUR),
                ],
            )
        if modes == ["0"]:
            assert formula.endswith("`--both-orders` doubles them, `--yes-no` triples them")
    assert calls(STORY, more="--both-orders") == 2 * calls(STORY)
    assert calls(STORY, more="--yes-no") == 3 * calls(STORY)


def measured():
    """Prompt and answer tokens of a row, by mode, of one criterion and of four."""
    text = (ROOT / "bench/results/modes.md").read_text("utf-8")
    for heading in ("One criterion", "4 criteria"):
        section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        found = re.findall(
            r"^\| `(\S+)` \| [\d,]+ \| ([\d,]+) \| ([\d,]+) \|", section, re.MULTILINE
        )
        yield {mode: [int(each.replace(",", "")) for each in tokens] for mode, *tokens in found}


def short(millions):
    """A number of millions as the page gives it."""
    return f"{millions:.0f}" if millions >= 10 else f"{millions:.2g}".removeprefix("0")


def test_the_table_of_prices(calls):
    _, tokens = measured()
    count = 10_000
    for (mode,), cells in rows(COSTS, "`--answers` | calls | prompt tokens, million"):
        prompt, answer = (each * count / 1e6 for each in tokens[mode])
        asked = calls(GENERAL, mode, rows=count, criteria=FOUR)
        price = f"{2 * prompt + 8 * answer:.0f}"
        assert (mode, cells) == (mode, [f"{asked:,}", short(prompt), short(answer), price])


def test_the_table_of_ways_to_ask(calls):
    tokens, of_four = measured()
    for (mode, *_), (words, *cells) in rows(CHOOSE, "`--answers` | what the judge does"):
        assert (mode, cells) == (
            mode,
            [f"{each:,}" for each in (calls(GENERAL, mode), *tokens[mode])],
        )
        if mode == "rating:together":
            prompt, answer = of_four[mode]
            assert words.endswith(f"four criteria take {prompt:,} and {answer:,} tokens")


def test_the_table_of_machines_has_the_calls_of_its_modes(calls):
    table = PAGES[CHOOSE].partition("| you have |")[2].partition("\n\n")[0]
    asked = re.findall(r"\| `(0|rating|rating:stated)` \| ([\d, or]+)(?:, free)? \|", table)
    # A reward model reads each rung once and a text once, so it is not counted here.
    asked = [(mode, cell) for mode, cell in asked if (mode, cell) != ("0", "1")]
    assert len(asked) >= 6
    for mode, cell in asked:
        counts = [calls(STORY, mode), calls(GENERAL, mode)]
        assert (mode, cell) == (mode, " or ".join(map(str, dict.fromkeys(counts))))
