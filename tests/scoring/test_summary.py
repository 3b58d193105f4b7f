"""The lines that commands print about a scoring run and about what it cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refladder.backends.metered import SpentCosts
from refladder.errors import plural
from refladder.scoring.score_report import ScoreReport
from refladder.scoring.summary import (
    beyond_lines,
    cost_words,
    low_mass_lines,
    spent_lines,
    summary,
    summary_lines,
)


def test_a_run_without_faults_is_one_line():
    report = ScoreReport(rows=4, judgments=1030, reused=30)
    assert summary_lines(report) == [
        "4 rows, 0 scores missing; 1,030 judgments (30 reused, 0 unparsed)"
    ]


def test_one_of_a_thing_is_singular():
    report = ScoreReport(rows=1, judgments=1, unscored={"wit": 1})
    assert summary_lines(report) == ["1 row, 1 score missing; 1 judgment (0 reused, 0 unparsed)"]
    report = ScoreReport(rows=1, judgments=1, cut=1, disagreements=0, order_pairs=1)
    assert summary_lines(report) == [
        "1 row, 0 scores missing; 1 judgment (0 reused, 0 unparsed)",
        "Context truncated in 1 of 1 judgment, to fit the judge. See NAME_note of the rows.",
        "order inconsistency: 0.0% of 1 pair",
    ]


def test_a_count_agrees_with_its_noun():
    assert [plural(count, "more label") for count in (0, 1, 2, 1000)] == [
        "0 more labels", "1 more label", "2 more labels", "1,000 more labels",
    ]  # fmt: skip


def test_warnings_and_reasons_follow_the_counts():
    reasons = {f"reason {number}": number for number in range(1, 13)}
    report = ScoreReport(
        rows=9, unscored={"wit": 2, "depth": 1}, reasons=reasons, judgments=30, unparsed=4, cut=6, low_mass=30,
        disagreements=3, order_pairs=12,
    )  # fmt: skip
    lines = summary_lines(report)
    assert lines[0] == "9 rows, 3 scores missing; 30 judgments (0 reused, 4 unparsed)"
    assert (
        lines[1]
        == "Context truncated in 6 of 30 judgments, to fit the judge. See NAME_note of the rows."
    )
    assert lines[2] == (
        "Low label mass in 30 of 30 judgments: the judge gave the labels less than half of its probability. The scores "
        "are unreliable; check that the model follows the prompt (an instruct model, its chat template)."
    )
    # the ten most frequent of twelve, then 2 + 1 others
    assert lines[3:13] == [f"  {number} x reason {number}" for number in range(12, 2, -1)]
    assert lines[13] == "  3 x other reasons"
    assert lines[14:] == ["order inconsistency: 25.0% of 12 pairs"]
    assert low_mass_lines(0, 30) == []


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        (
            ({"wit": 3}, {"wit": 0}, {"wit": 72}, {"wit": 72}),
            "wit: 3 of 72 texts beat the top rung",
        ),
        (
            ({"wit": 0}, {"wit": 1}, {"wit": 72}, {"wit": 72}),
            "wit: 1 of 72 texts ranks below the lowest rung",
        ),
        (  # unparsed: 40 texts were judged against the top rung, and 1,200 against the lowest
            ({"wit": 1}, {"wit": 1100}, {"wit": 40}, {"wit": 1200}),
            "wit: 1 of 40 texts beats the top rung, 1,100 of 1,200 texts rank below the lowest",
        ),
        (({"wit": 1}, {}, {"wit": 1}, {}), "wit: 1 of 1 text beats the top rung"),
        (
            ({"wit": 3}, {"wit": 1}, {"wit": 9}, {"wit": 9}),
            "wit: 3 of 9 texts beat the top rung, 1 ranks below the lowest",
        ),
        (({"wit": 1}, {"wit": 2}), "wit: 1 text beats the top rung, 2 rank below the lowest"),
    ],
)
def test_texts_beyond_the_ladder_are_one_line_of_a_dimension(counts, line):
    assert beyond_lines(*counts) == [f"{line}; such scores are hard to tell apart"]


def test_texts_above_the_top_and_below_the_lowest_are_a_contradiction():
    # 47 + 37 - 59 = 25
    counts = {"wit": 47}, {"wit": 37}, {"wit": 59}, {"wit": 59}
    told = (
        "wit: 47 of 59 texts beat the top rung, 37 rank below the lowest; at least 25 texts do both, so the answers of "
        "the judge contradict each other"
    )
    assert beyond_lines(*counts) == [told]
    (line,) = beyond_lines({"wit": 9}, {"wit": 1}, {"wit": 9}, {"wit": 9})
    assert line.endswith(
        "at least 1 text does both, so the answers of the judge contradict each other"
    )


def test_the_summary_names_only_dimensions_with_texts_beyond_the_ladder():
    judged = {"wit": 4, "depth": 4, "calm": 4}
    report = ScoreReport(
        rows=4, judgments=60, above_top={"wit": 0, "depth": 0, "calm": 2}, judged_top=judged,
        below_bottom={"wit": 1, "depth": 0, "calm": 0}, judged_bottom=judged,
    )  # fmt: skip
    assert summary_lines(report)[1:] == [
        "wit: 1 of 4 texts ranks below the lowest rung; such scores are hard to tell apart",
        "calm: 2 of 4 texts beat the top rung; such scores are hard to tell apart",
    ]
    shown = summary(report)
    assert shown["above_top"] == {"wit": 0, "depth": 0, "calm": 2}
    assert shown["below_bottom"] == {"wit": 1, "depth": 0, "calm": 0}


def test_the_keys_of_the_summary_are_fixed():
    assert list(summary(ScoreReport())) == [
        "rows", "copies", "unscored", "reasons", "judgments", "reused", "above_top", "below_bottom",
        "unparsed", "cut", "low_mass", "thoughts", "inconsistency", "order_spread", "signature",
    ]  # fmt: skip
    assert summary(ScoreReport())["inconsistency"] is None


USED = SpentCosts(
    backend="b", calls=3, requests=None, characters=1200, prompt_tokens=900, run_tokens=400,
    answer_tokens=3, usd=None, seconds=2.0, from_store=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {},
            "b: 3 calls, 900 prompt tokens (400 through the model), at most 3 answer tokens in 2.0 s, 200 tokens/s",
        ),
        (
            {"requests": 4, "run_tokens": None, "usd": 0.5, "from_store": 7},
            "b: 3 calls, 4 requests, 900 prompt tokens, 3 answer tokens, 0.5000 USD in 2.0 s, 7 answers from the store",
        ),
        (
            {"calls": 0, "run_tokens": 0, "from_store": 9},
            "b: 0 calls in 2.0 s, 9 answers from the store",
        ),
    ],
)
def test_what_a_backend_was_asked_is_one_line(changes, line):
    assert spent_lines([replace(USED, **changes)]) == [line]


def test_unknown_tokens_are_not_invented():
    unknown = replace(USED, prompt_tokens=None)
    assert spent_lines([unknown]) == []
    assert cost_words(unknown) == "b: 3 calls, 1,200 prompt characters (tokens not known)"
