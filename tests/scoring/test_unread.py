"""A run whose answers cannot be read ends before the rest of its table is paid for."""

import math

import pytest
from doubles import Double

import refladder
from refladder.backends import BACKENDS
from refladder.records import Judgment, LabelReading
from refladder.registry import Entry
from refladder.scoring.unread import unread_error

LADDERS = refladder.load_ladders("demo/story").ladders.values()
# Whether a rung is the best of its ladder, for the ends of ladders.
ENDS = {ladder.rungs[end].text: end == -1 for ladder in LADDERS for end in (0, -1)}
COHERENCE = ("--ladders", "demo/story", "--judge", "rehearsed", "--dimension", "coherence")
# 12 ladders, both orders.
CHECK = 24
# A ladder of 5 rungs has a comparison with each of them.
RUNGS = 5


class Reader(Double):
    """Says of the text that begins with one of these words that it is better, and nothing of others."""

    fingerprint = "reader/1"

    def __init__(self, *words):
        self.words, self.ends, self.others = words, 0, 0

    def read_labels(self, prompts, labels):
        return [self.reading(prompt, labels) for prompt in prompts]

    def reading(self, prompt, labels):
        target, reference = prompt.slots["target"], prompt.slots["reference"]
        is_end = target in ENDS and reference in ENDS
        self.ends += is_end
        self.others += not is_end
        if not (target.startswith(self.words) or (is_end and self.words)):
            return LabelReading(logprobs=None, mass=None, reason="no label")
        better = ENDS[target] if is_end else True
        wanted = "win" if better else "loss"
        outcomes = dict(zip(prompt.labels, prompt.outcomes, strict=True))
        shares = [0.8 if outcomes[label] == wanted else 0.1 for label in labels]
        return LabelReading(logprobs=tuple(map(math.log, shares)), mass=1.0)


opened = None


@pytest.fixture
def judge(monkeypatch):
    monkeypatch.setitem(BACKENDS, "rehearsed", Entry(f"{__name__}:opened", ""))

    def go(made):
        monkeypatch.setitem(globals(), "opened", lambda _target: made)
        return made

    return go


def rows(number, word="Unreadable", **more):
    return [
        {"context_id": "story-01", "output": f"{word} story {n}.", **more} for n in range(number)
    ]


def test_a_check_without_a_readable_answer_ends_the_run_whatever_judge_may_score(
    judge, command, write_jsonl
):
    made = judge(Reader())
    done = command("score", write_jsonl(rows(40)), *COHERENCE, "--no-store", "--any-judge")
    assert done.code == 2
    assert done.err == (
        "refladder: reader/1: no answer of the judge check could be read, so nothing more is asked. no label. The "
        "likely cause: the answers have another form than the question asks for: use an instruct model with its chat "
        "template, or another mode with --answers. Judgments so far are kept; the same command asks these questions "
        "again\n"
    )
    assert (made.ends, made.others) == (CHECK, 0)


def test_sixteen_unread_rows_end_a_run_and_are_asked_again(judge, command, write_jsonl, tmp_path):
    # Rows without a text are not asked.
    table = write_jsonl(
        [
            *rows(
                10,
            ),
            {"context_id": "story-01", "output": ""},
            *rows(30, "More"),
        ]
    )
    score = ("score", table, *COHERENCE, "--no-store", "--out", tmp_path / "out.jsonl")
    made = judge(Reader("Readable"))
    done = command(*score, "--any-judge")
    assert "no answer of the first 16 rows could be read" in done.err
    assert (done.code, made.others) == (2, 16 * RUNGS)
    kept = (tmp_path / "out.jsonl.judgments.jsonl").read_text().splitlines()
    assert len(kept) == 1 + 16 * RUNGS
    made = judge(Reader("Unreadable", "More"))
    assert command(*score).code == 3
    assert made.others == 40 * RUNGS


@pytest.mark.parametrize(
    "table",
    [
        rows(15),
        [*rows(15), {"context_id": "story-01", "output": ""}],
        [*rows(15), *rows(1, "Readable"), *rows(30)],
    ],
)
def test_fewer_rows_and_one_that_is_read_end_no_run(judge, command, write_jsonl, table):
    made = judge(Reader("Readable"))
    done = command("score", write_jsonl(table), *COHERENCE, "--no-store")
    assert done.code == 3
    assert made.others == RUNGS * sum(bool(row["output"]) for row in table)


@pytest.mark.parametrize(
    ("note", "cause"),
    [
        (
            "cut while it was thinking",
            "a thought takes the place of the answer: switch thinking off with",
        ),
        (
            "empty answer after a thought",
            "a thought takes the place of the answer: switch thinking off with",
        ),
        ("content filter", "a filter or the model refuses the questions: ask another model"),
        (
            "no number for B (the answer was cut at the limit); the answer is 'A: 1'",
            "raise --judge-option answer-tokens=N",
        ),
        ("empty answer", "the model says nothing"),
        ("request failed: the server answered 500: x", "the server does not take such requests"),
        (
            "no line for 5; the answer is '1: 10' (custom_id 'ab', 'answers.jsonl:3')",
            "or correct the lines of the file",
        ),
    ],
)
def test_the_likely_cause(note, cause):
    judgment = Judgment(
        context_id="c", dimension="d", subject="s", against=None, outcomes=("1",), logprobs=None, mass=None,
        key="k", recipe="r", note=note,
    )  # fmt: skip
    message = str(unread_error("openai:me", "the judge check", [judgment, judgment]))
    assert f"{note}. The likely cause: " in message
    assert cause in message
