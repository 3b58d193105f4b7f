"""audit: a judge of known faults gets the figures of its faults."""

from __future__ import annotations

import math

import pytest
from ladder_judges import Comparing, set_of

from refladder.comparison.audit import NEUTRAL, REQUEST, audit, sample
from refladder.files.ladder_sets import load_ladders
from refladder.ladders.certify import open_asker

LADDERS = [[0, 1, 2]] * 6
SENTENCES = {
    "neutral": NEUTRAL,
    "request": REQUEST,
    "answer line": 'Answer "Better", "Worse" or "Similar": Better',
}


def rows_of(judge, qualities=LADDERS):
    opened = set_of(qualities)
    return {(row.dimension, row.measure): row for row in audit(opened, open_asker(opened, judge))}


def better(gap):
    """P(win) + P(tie) / 2 of Davidson's model with 0.5 as the weight of a tie."""
    up, down = math.exp(gap / 2), math.exp(-gap / 2)
    return (up + 0.25) / (up + down + 0.5)


def test_a_judge_without_faults():
    rows = rows_of(Comparing())
    assert {measure: row.value for (name, measure), row in rows.items() if name == "worth"} == {
        "unparsed": 0.0,
        "low mass": 0.0,
        "mass": 1.0,
        "P(target)": 0.5,
        "inconsistent": 0.0,
        "P(longer)": None,  # all rungs have as many words
        "longer is higher": None,
        "shift neutral": 0.0,
        "shift request": 0.0,
        "shift answer line": 0.0,
    }
    assert rows["all", "unparsed"].of == 6 * 6 + 6 * 2 * 3


def test_a_tie_is_half_a_win_of_the_text_in_the_target_s_position():
    # Each wins with (1 - .2) / 2 and ties with .2: neither text is preferred.
    assert rows_of(Comparing(), [[1, 1, 1]] * 6)["worth", "P(target)"].value == 0.5


@pytest.mark.parametrize("measure", SENTENCES)
def test_the_shift_of_an_added_sentence(measure):
    rows = rows_of(Comparing(raised_by={SENTENCES[measure]: 1.5}))
    # The worst rung, quality 0, against rungs of quality 1 and 2.
    expected = ((better(-1 + 1.5) - better(-1)) + (better(-2 + 1.5) - better(-2))) / 2
    shifts = {kind: rows["worth", f"shift {kind}"].value for kind in SENTENCES}
    assert shifts == pytest.approx(dict.fromkeys(shifts, 0.0) | {measure: expected})


def test_intervals_come_from_the_spread_over_contexts():
    qualities = [[0, 1, 2], [0, 2, 4], [0, 1, 3], [0, 3, 6]]
    shift = rows_of(Comparing(raised_by={REQUEST: 1.5}), qualities)["worth", "shift request"]
    assert shift.of == 4
    assert shift.low < shift.value < shift.high


def test_position_preference():
    rows = rows_of(Comparing(first=9.0))
    assert rows["worth", "P(target)"].value == 1.0
    assert rows["worth", "inconsistent"].value == 1.0
    assert rows_of(Comparing(first=-9.0))["worth", "P(target)"].value == 0.0


def test_what_is_unparsed_is_counted_and_left_out():
    rows = rows_of(Comparing(unparsed=lambda target, _reference: REQUEST in target))
    assert rows["worth", "unparsed"].value == pytest.approx(12 / 72)
    assert rows["worth", "shift request"] == ("worth", "shift request", None, None, None, 0)
    assert rows["worth", "shift neutral"].value == 0.0


def test_a_sample_of_contexts(fails):
    opened = load_ladders("demo/story")
    drawn = sample(opened, 3)
    assert len({context for context, _ in drawn.ladders}) == 3
    assert len(drawn.ladders) == 6
    assert sample(opened, 3).ladders == drawn.ladders
    few = "demo/story has ladders for 12 contexts; give --contexts that number or less, found 13"
    assert few in fails(2, "audit demo/story --contexts 13")


def test_the_command(command, tmp_path):
    line = f"audit --ladders demo/dialogue --judgments {tmp_path}/j.jsonl"
    # 14 ladders: 10 pairs in two orders, and 4 better rungs with three sentences
    assert "448 calls" in command(f"{line} --dry-run").out
    done = command(line)
    assert done.code == 0
    assert "shift request" in done.out
    assert "ladders: demo/dialogue@" in done.out
    row = command(f"{line} --json").rows[0]
    assert (row["kind"], row["measure"], row["of"]) == ("audit", "unparsed", 448)
    assert '"kept_judgments": 448' in command(f"{line} --dry-run --json").out


def test_the_ladder_set_is_an_argument_or_an_option_and_never_guessed(command, fails, tmp_path):
    dialogue = command("audit demo/dialogue --contexts 1 --json").rows
    assert dialogue == command("audit --ladders demo/dialogue --contexts 1 --json").rows
    assert fails(2, "audit") == (
        "refladder: give the ladder set whose rungs are judged: SET, or --ladders SET (see `refladder list ladders`)\n"
    )
    assert fails(2, "audit demo/story --ladders demo/dialogue") == (
        "refladder: SET and --ladders both name the ladder set; give one of them\n"
    )
    settings = tmp_path / "settings.toml"
    settings.write_text('[audit]\nladders = "demo/story"\n', "utf-8")
    by_file = f"--config {settings} audit --contexts 1 --json"
    story = command("audit demo/story --contexts 1 --json").rows
    assert command(by_file).rows == story != dialogue
    assert command(f"{by_file} demo/dialogue").rows == dialogue
