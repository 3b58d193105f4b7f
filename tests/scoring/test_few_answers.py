"""Scores from at most 10 written answers about a text and a ladder, with their intervals."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from doubles import Double
from ladder_judges import set_of
from simulated import text_of

import refladder
from refladder.backends.cache.cached import stored
from refladder.errors import BackendError, OtherRunError, UsageError
from refladder.records import Completion
from refladder.scoring.few_answers import wilson

RULES = "ladder-sum, mean-difference, expected-grade"
NEXT = "choose one of them, or give answers a number"
LADDERS = set_of([[1.0, 2.0, 3.0, 4.0, 5.0]])
ROWS = [{"context_id": "c0", "output_id": "a", "output": text_of(3.5, "a")}]


class Writer(Double):
    """Answers that a function gives for a prompt and the number of the answer; counts what it was asked about texts."""

    def __init__(self, answer, name="writer"):
        self.answer, self.fingerprint, self.asked = answer, name, []

    def write(self, prompts, sampling):
        self.asked += [(prompt.text, sampling.seed) for prompt in prompts if not of_rungs(prompt)]
        return [
            Completion(text="Similar" if of_rungs(prompt) else self.answer(prompt, sampling.seed)) for prompt in prompts
        ]


def of_rungs(prompt):
    """Whether a prompt compares two rungs, for the check of the judge."""
    return all("text c0 " in prompt.slots.get(slot, "") for slot in ("target", "reference"))


def scored(judge, answers, ladders=LADDERS, rows=ROWS, **more):
    return refladder.score(rows, ladders=ladders, judge=judge, answers=answers, **more)


def place(prompt, level):
    """The letter of the rung of this level in a placement prompt; "None" for none."""
    return prompt.labels[prompt.outcomes.index(level)]


def test_the_interval_of_a_share_by_hand():
    # z^2 = 3.8415. 3 of 3: low end 3 / (3 + z^2) = .43852, high end 1. None of 0: everything.
    # 1 of 2: 1/2 -+ z sqrt(.25 * 2 + z^2 / 4) / (2 + z^2) = 1/2 -+ 1.95996 * 1.20846 / 5.84146 = 1/2 -+ .40547.
    ends = wilson(np.array([1.0, 0.0, 0.5]), np.array([3, 0, 2]))
    assert ends == pytest.approx(np.array([[0.43852, 1], [0, 1], [0.09453, 0.90547]]), abs=1e-4)


def test_sequential_answers_go_where_the_interval_is_widest():
    judge = Writer(lambda _prompt, _number: "Better")
    (row,) = scored(judge, "sequential")
    # Widths of the share's interval after 1, 2 and 3 equal answers: .7935, .6576, .5615 (as above), times the level.
    # After one answer each: 5 (3.97), 5 (3.29, then settled), 4 (3.17), 4 (2.63, settled), 3 (2.38); then 10 are spent.
    asked = [next(level for level in range(1, 6) if f"c0 {level}" in text) for text, _ in judge.asked]
    assert asked == [1, 2, 3, 4, 5, 5, 5, 4, 4, 3]
    assert [number for _, number in judge.asked] == [0, 0, 0, 0, 0, 1, 2, 1, 2, 1]
    # Each distance 2 * level * (1 - low end): 1.587, 3.174, 3.946, 4.492, 5.615; the root of their squares is 8.937.
    assert row["worth_score"] == 15
    assert (row["worth_score_low"], row["worth_score_high"]) == pytest.approx((15 - 8.937, 15), abs=2e-3)
    assert "|answers:sequential10|" in row["signature"]


def test_a_ladder_whose_rungs_are_settled_is_not_asked_about_again():
    judge = Writer(lambda _prompt, _number: "Worse")
    (row,) = scored(judge, "sequential", set_of([[2.0, 4.0]]))
    assert len(judge.asked) == 6  # 2 rungs, 3 equal answers each
    # Score -(1 + 2), distances 2 * .56148 and 4 * .56148: root of 1.2610 + 5.0442 = 2.5110.
    assert (row["worth_score"], row["worth_score_low"]) == (-3, -3)
    assert row["worth_score_high"] == pytest.approx(-3 + 2.5110, abs=1e-3)


def test_both_orders_share_the_ten_answers():
    judge = Writer(lambda _prompt, _number: "Similar")
    (row,) = scored(judge, "sequential", both_orders=True, rule="expected-grade")
    assert len(judge.asked) == len({text for text, _ in judge.asked}) == 10
    assert row["worth_score"] == pytest.approx(3)  # half of every rung, between 1 and 5
    # Share 1/2 of one answer: 1/2 -+ z sqrt(.25 + z^2 / 4) / (1 + z^2) = 1/2 -+ 1.95996 * 1.10015 / 4.84146 = .44538
    # Ten questions, each 4/5/2 = .4 of the grade: .4 * .44538 * sqrt(10) = .56336.
    assert row["worth_score_high"] - 3 == pytest.approx(0.56336, abs=1e-3)
    assert 3 - row["worth_score_low"] == pytest.approx(0.56336, abs=1e-3)


def test_a_question_without_a_readable_answer_is_asked_again_and_counted():
    judge = Writer(lambda prompt, number: "Perhaps." if "c0 2" in prompt.text and number < 2 else "Better")
    (row,) = scored(judge, "sequential")
    assert row["worth_score"] == 15
    assert len(judge.asked) == 10
    assert sum("c0 2" in text for text, _ in judge.asked) == 3  # two of them unreadable
    assert row["worth_mass"] == pytest.approx(1 / 3)
    silent = Writer(lambda prompt, _number: "Perhaps." if "c0 2" in prompt.text else "Better")
    (row,) = scored(silent, "sequential")
    assert (row["worth_score"], row["worth_score_low"], row["worth_score_high"]) == (None, None, None)
    assert row["worth_note"].startswith("1 of 5 judgments unparsed: 6 of 6 answers unparsed: 6 x no label in the")
    assert len(silent.asked) == 10


def test_placements_are_read_back_through_the_shuffle():
    judge = Writer(lambda prompt, _number: place(prompt, "3"))
    (row,) = scored(judge, "placement")
    assert len(judge.asked) == 8
    assert len({text for text, _ in judge.asked}) > 4  # shuffled
    assert row["worth_score"] == -3  # beats 1, 2 and 3, loses to 4 and 5: 6 - 9
    # Mean .4 of the range 30 and no variance: ratio .5 / (8 * .24 + .5) = .20661, so 38.72 answers.
    # Wilson of .4 of 38.72: .40903 -+ .14746, on the range from -15: -7.153 to 1.695.
    assert (row["worth_score_low"], row["worth_score_high"]) == pytest.approx((-7.153, 1.695), abs=2e-3)
    assert "|answers:placement8|" in row["signature"]
    assert "story/placement@" in row["signature"]


def test_placements_that_differ_make_shares():
    # Of 8: twice behind all, 5 times at level 4, once at level 5. Wins: 6/8 of levels 1 to 4, 1/8 of level 5.
    judge = Writer(lambda prompt, number: place(prompt, ("none", "none", "4", "4", "4", "4", "4", "5")[number]))
    (row,) = scored(judge, "placement", rule="mean-difference")
    assert row["worth_score"] == pytest.approx((4 * (2 * 6 / 8 - 1) + (2 / 8 - 1)) / 5)
    # Places on 0 to 1: 0, 0, .8 x 5, 1. Mean 5/8, squares about it: 2 * .390625 + 5 * .030625 + .140625 = 1.075.
    # Ratio (1.075 + .5) / (8 * .234375 + .5) = .663158: 12.0635 answers. Wilson: .59481 -+ .24011; times 2, less 1.
    assert row["worth_score_low"] == pytest.approx(-0.2906, abs=1e-3)
    assert row["worth_score_high"] == pytest.approx(0.6698, abs=1e-3)


def test_a_placement_that_names_no_known_letter_is_unparsed():
    judge = Writer(lambda prompt, number: "Z" if number % 2 else place(prompt, "5"))
    (row,) = scored(judge, "placement")
    assert (row["worth_score"], row["worth_mass"]) == (15, 0.5)
    (row,) = scored(Writer(lambda _prompt, _number: "I cannot tell."), "placement")
    assert (row["worth_score"], row["worth_score_low"]) == (None, None)
    assert row["worth_note"].startswith(
        "5 of 5 judgments unparsed: 8 of 8 answers unparsed: 8 x no label in the answer"
    )


@pytest.mark.parametrize(("mode", "calls"), [("sequential", 10), ("placement", 8)])
def test_a_run_that_failed_asks_nothing_twice(tmp_path, mode, calls):
    rows = [{"context_id": "c0", "output_id": str(number), "output": text_of(3.5, f"t{number}")} for number in range(3)]

    def answer(prompt, _number):
        return "Better" if mode == "sequential" else place(prompt, "2")

    whole = scored(Writer(answer), mode, rows=rows)

    class Failing(Writer):
        def write(self, prompts, sampling):
            if sampling.seed and not self.healed:
                raise BackendError("the server is gone")
            return super().write(prompts, sampling)

    judge = Failing(answer)
    judge.healed = False
    with pytest.raises(BackendError, match="the server is gone"):
        scored(stored(judge, tmp_path / "store.sqlite"), mode, rows=rows)
    judge.healed = True
    assert scored(stored(judge, tmp_path / "store.sqlite"), mode, rows=rows) == whole
    assert len(judge.asked) == len(set(judge.asked)) == 3 * calls


@pytest.mark.parametrize(("mode", "calls"), [("sequential", 10), ("placement", 8)])
def test_a_judgments_file_is_continued_and_rescored(tmp_path, mode, calls):
    table, kept = tmp_path / "rows.jsonl", tmp_path / "kept.jsonl"
    rows = [{"context_id": "c0", "output_id": str(number), "output": text_of(3.5, f"t{number}")} for number in range(2)]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge = Writer(lambda prompt, _number: "Worse" if mode == "sequential" else place(prompt, "2"))
    out = tmp_path / "out.jsonl"
    scored(judge, mode, rows=str(table), out=out, judgments=kept)
    lines, first = kept.read_bytes().splitlines(keepends=True), out.read_bytes()
    assert len(lines) == 1 + 2 * 5
    answers = [json.loads(line)["answers"] for line in lines[1:6]]
    assert answers == ([1, 1, 2, 3, 3] if mode == "sequential" else [8] * 5)
    kept.write_bytes(b"".join(lines[:8]) + lines[8][:20])  # cut within the second text
    judge.asked.clear()
    scored(judge, mode, rows=str(table), out=out, judgments=kept)
    assert len(judge.asked) == calls  # of the second text alone
    assert (out.read_bytes(), kept.read_bytes()) == (first, b"".join(lines))
    refladder.rescore(kept, out=tmp_path / "again.jsonl")
    again = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    wanted = [json.loads(line) for line in first.splitlines()]
    for column in ("worth_score", "worth_score_low", "worth_score_high", "signature"):
        assert [row[column] for row in again] == [row[column] for row in wanted]
    with pytest.raises(UsageError, match=f"{mode} answers support only the rules {RULES}"):
        refladder.rescore(kept, out=tmp_path / "votes.jsonl", rule="hard-votes")
    other = "of 10 sequential answers per ladder, this run of 4 sampled answers per question"
    with pytest.raises(OtherRunError, match=other if mode == "sequential" else r"story/placement@\w+"):
        scored(judge, 4, rows=str(table), out=out, judgments=kept)


def test_settings_that_do_not_go_with_few_answers():
    refused = [
        ({"answers": "twice"}, "answers 'twice': use a number of 0 or more, sequential or placement"),
        (
            {"answers": "sequential", "rule": "hard-votes"},
            f"answers sequential supports only the rules {RULES}, found 'hard-votes'; {NEXT}",
        ),
        (
            {"answers": "placement", "yes_no": True},
            "answers placement asks for one answer, and yes_no for three; leave one of them out",
        ),
        (
            {"answers": "placement", "both_orders": True},
            "answers placement shuffles the rungs, so there are no orders; leave out both_orders",
        ),
    ]
    for settings, message in refused:
        with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
            refladder.score(ROWS, ladders=LADDERS, judge=Writer(None), **settings)


def test_a_scorer_gives_intervals():
    scorer = refladder.Scorer(ladders=LADDERS, judge=Writer(lambda prompt, _n: place(prompt, "3")), answers="placement")
    with scorer:
        found, empty = scorer.score([text_of(3.5, "a"), ""], context_id="c0")
    assert found.interval == pytest.approx((-7.153, 1.695), abs=2e-3)
    assert (found.grade, empty.interval) == (pytest.approx(1 + 4 * 3 / 5), None)
    assert math.isclose(found.mass, 1.0)


def test_a_dry_run_says_how_many_answers_there_are(tmp_path, command, write_jsonl):
    rules = tmp_path / "rules.jsonl"
    rules.write_text('{"role": "compare", "text": "Better"}\n{"role": "placement", "text": "None"}\n')
    table = write_jsonl([{"context_id": name, "output": "Ember sneezed."} for name in ("story-04", "story-07")])
    base = ["score", table, "--ladders", "demo/story", "--dimension", "coherence", "--judge", f"scripted:{rules}"]
    base.append("--any-judge")
    for mode, line, calls in (  # the check of the judge is asked once: 12 ladders in both orders, one answer each
        ("sequential", "--answers sequential: at most 10 answers per text and dimension", "at most 44 calls"),
        ("placement", "--answers placement: 8 answers per text and dimension", "16 calls"),
    ):
        done = command(*base, "--answers", mode, "--dry-run")
        assert line in done.out + done.err
        assert f": {calls}," in done.out + done.err
        done = command(*base, "--answers", mode, "--json", "--out", tmp_path / f"{mode}.jsonl")
        assert done.rows[0]["spent"][0]["calls"] == (44 if mode == "sequential" else 16)
    done = command(*base, "--answers", "often", "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert "--answers 'often': use a number of 0 or more, sequential or placement" in done.err
