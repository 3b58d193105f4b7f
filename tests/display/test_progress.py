"""Progress where standard error is no terminal: lines with an estimate."""

from __future__ import annotations

import re

import pytest
from waiting import until

from refladder.display import progress as reporting


def lines(answered=lambda: 0, work=lambda: "", started=100.0):
    return reporting._Lines("writing", work, answered, started)


@pytest.mark.parametrize(
    ("seconds", "left"),
    [
        (10, "30 s"),  # 5 of 20 in 10 s, so 15 more in 30 s
        (39, "117 s"),
        (61, "3 min"),  # 183 s
        (2400, "2 h"),  # 7,200 s
    ],
)
def test_a_line_estimates_what_is_left(seconds, left):
    bar = lines()
    bar(0, 20)
    bar(5, 20)
    assert bar.line(100.0 + seconds) == f"writing: 5 of 20 (about {left} left)"


def test_answers_within_a_batch_give_an_estimate_before_the_first_unit_is_done():
    prompts = iter([30])
    bar = lines(lambda: next(prompts))
    bar(0, 20, "", 15)  # 30 prompts are 2 of 20 units in 10 s, so 18 more in 90 s
    assert bar.line(110.0) == "writing: 2 of 20 (about 90 s left)"


def test_another_total_starts_another_estimate(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 150.0)
    prompts = iter([24, 26])
    bar = lines(lambda: next(prompts))
    bar(0, 24, "judge check before the first row", 1)
    bar(0, 10, "", 4)  # from now on: 2 prompts are half a row in 10 s, so 9.5 more in 190 s
    assert bar.line(160.0) == "writing: 0 of 10 (about 3 min left)"
    bar = lines()
    bar(4, 24)
    bar(4, 12)  # the 4 of before are not counted: 2 more in 10 s, so 6 more in 30 s
    bar(6, 12)
    assert bar.line(160.0) == "writing: 6 of 12 (about 30 s left)"


def test_a_line_without_an_answer_says_so_and_shows_notes():
    bar = lines()
    bar(0, 20, "rejected: 3 empty, 1 truncated", 1)
    assert bar.line(109.0) == (
        "writing: 0 of 20 (no estimate before the first answers, rejected: 3 empty, 1 truncated)"
    )
    assert lines(work=lambda: "3 prompts").line(109.0) == "writing: 0 (3 prompts)"


def test_a_line_comes_while_a_batch_is_under_way(monkeypatch, capsys):
    monkeypatch.setattr(reporting, "FIRST_LINE", 0.01)
    monkeypatch.setattr(reporting, "LINE_EVERY", 0.01)
    told = []

    def said():
        told.append(capsys.readouterr().err)
        return "".join(told)

    counts = iter([(0, None)])
    with reporting.progress("scoring", lambda: next(counts, (6, None))) as bar:
        bar(0, 4, "", 3)
        assert until(lambda: re.search(r"(?m)^scoring: 2 of 4 \(6 prompts, about", said()))


def test_a_short_run_has_no_line(capsys):
    with reporting.progress("scoring") as bar:
        bar(5, 20)
    assert capsys.readouterr().err == ""
