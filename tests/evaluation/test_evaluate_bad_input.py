"""Data and options with which rivals cannot be compared, each with the exact words that the user meets."""

from __future__ import annotations

import re

import pytest
from json_lines import write_lines

from refladder.loaders import load_benchmark

TASK = """task = "summarization"

[[dimensions]]
name = "clarity"
description = "Whether the text is clear."
low = 1
high = 5
"""
DIALOGUE = "evaluate demo/dialogue"


@pytest.fixture
def own(command, tmp_path):
    """Evaluate rows of (context, system, output, rating)."""

    def go(rows, options=""):
        keys = ("context", "system", "output", "clarity")
        write_lines(tmp_path / "own.jsonl", [dict(zip(keys, row, strict=True)) for row in rows])
        (tmp_path / "task.toml").write_text(TASK)
        given = f"--task-file {tmp_path}/task.toml --source {tmp_path}/own.jsonl"
        return command(f"evaluate table {given} --resamples 5 {options}")

    return go


ONE_SYSTEM = [("Rain fell.", "a", "It rained.", 3), ("He rose.", "a", "The baker rose early.", 4)]
TIED = [("Rain fell.", "a", "It rained.", 3), ("Rain fell.", "b", "It rained.", 4)]


@pytest.mark.parametrize("method", ["win-ratio", "pairs-greedy", "zepo"])
def test_fewer_than_two_systems(own, method):
    done = own(ONE_SYSTEM, f"--methods {method}")
    assert (done.code, done.out) == (2, "")
    assert (
        "refladder: table has no context with two outputs, so there is no pair to compare; use a method that scores "
        "outputs one by one, such as ladder\n"
    ) in done.err


def test_ratings_in_the_order_of_lengths_leave_nothing_to_a_partial_correlation(own):
    texts = [
        "It rained.",
        "It rained a lot today.",
        "It rained a lot today, and it stopped late at night.",
    ]
    rows = [
        ("Rain fell.", name, text, rating)
        for name, text, rating in zip("abc", texts, (1, 2, 3), strict=True)
    ]
    told = " ".join(own(rows).out.split())
    assert "partial Spearman given length" in told
    reason = "no context has three outputs whose ratings and scores differ in other ways than their length"
    assert f"— no value: {reason} " in told


def test_contexts_of_one_output_show_the_pooled_level(own):
    done = own(ONE_SYSTEM)
    assert done.code == 0
    told = " ".join(done.out.split())
    assert "own.jsonl, within_context: Spearman with the ratings, mean over contexts method" in told
    reason = "no context has two outputs with different ratings and different scores"
    assert f"— no value: {reason} " in told
    assert re.search(
        r"own.jsonl, pooled: Spearman with the ratings, all outputs together.*ladder -?[\d.]+", told
    )
    assert (
        "table: every context has one output, so there is no correlation within contexts; the level pooled compares "
        "outputs of different contexts\n"
    ) in done.err
    assert "--level pooled" not in done.err
    # who asks for other levels gets those
    assert "own.jsonl, pooled" not in own(ONE_SYSTEM, "--level between_systems").out


def test_contexts_of_two_outputs_do_not_show_the_pooled_level(own):
    done = own(TIED)
    assert "pooled:" not in done.out
    assert (
        "table: no correlation: it needs two outputs with different ratings and different scores, and no context has "
        "them; `--level pooled` compares outputs of different contexts\n"
    ) in done.err


def test_one_rater_is_enough(own):
    rain = "Rain fell on the town."
    done = own([(rain, "a", "Rain fell.", 3), (rain, "b", "Sun.", 1)], "--baselines all --json")
    assert done.code == 0
    assert "no correlation" not in done.err
    assert {row["value"] for row in done.rows if row["method"] == "coverage"} == {1.0}


def test_all_ties_have_no_correlation_and_no_number(own):
    methods = "win-ratio,bradley-terry,poe,likelihood,pairs-greedy,pairs-beam"
    done = own(TIED, f"--methods {methods} --json")
    assert done.code == 0
    assert "table: no correlation: it needs two outputs with different ratings" in done.err
    rows = [row for row in done.rows if row.get("kind") != "card"]
    assert {row["value"] for row in rows} == {None}
    assert {
        (card["tied"]["value"], card["unscored"], card["unparsed"]) for card in cards_of(done)
    } == {(1.0, 0, 0)}


def cards_of(done):
    return [row for row in done.rows if row.get("kind") == "card" and row["dimension"] == "all"]


def test_a_disconnected_graph_names_its_components(command):
    few = "--comparisons 3 --selection no-repeat --resamples 5"
    done = command(f"{DIALOGUE} --methods bradley-terry,win-ratio {few}")
    assert done.code == 3
    assert (
        "bradley-terry: context 'dialogue-01', engagingness: the comparisons form 3 unconnected components: "
        "{dialogue-01/aster, dialogue-01/cedar, dialogue-01/fern}, {dialogue-01/birch}, {dialogue-01/dahlia, "
        "dialogue-01/elm}; strengths of different components cannot be compared: ask more pairs, or rank by win-ratio\n"
    ) in done.err
    assert "bradley-terry: and 9 more like these\n" in done.err  # fourteen contexts, five told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--methods win-ratio --comparisons 31",
            "context 'dialogue-01': a budget of 31 comparisons: 6 items have 30 pairs under 'symmetric'; choose ",
        ),
        (
            "--methods ladder,win-ration",
            "unknown method 'win-ration'; did you mean 'win-ratio'? Known: bertscore, bleu, ",
        ),
        (
            "--methods pairs-beam --method-option pairs-beam.beems=3",
            "unknown option of method 'pairs-beam' 'beems'; did you mean 'beam'? Known: beam, gap\n",
        ),
        (
            "--judge scripted:none --reference win-ratio",
            "unknown reference method 'win-ratio'. Known: 1-grams in context, 2-grams in context, 3-grams in ",
        ),
    ],
)
def test_options_are_refused_before_a_judge_is_asked(fails, options, message):
    assert fails(2, f"{DIALOGUE} {options}").startswith(f"refladder: {message}")


def test_unreadable_judgments_are_counted_in_every_row(command, tmp_path):
    rules = write_lines(tmp_path / "silent.jsonl", [{"role": "pairwise", "error": "refused"}])
    methods = "--methods win-ratio,bradley-terry,pairs-greedy"
    done = command(f"{DIALOGUE} {methods} --judge scripted:{rules} --resamples 5 --json")
    assert done.code == 3
    cards = {card["method"]: card for card in cards_of(done)}
    # 14 contexts of 6 outputs: all 30 pairs; a sort gives up at the first of three runs of two that cannot be read
    assert cards["win-ratio"]["unparsed"] == cards["bradley-terry"]["unparsed"] == 14 * 30
    assert cards["pairs-greedy"]["unparsed"] == cards["pairs-greedy"]["judgments"] > 0
    assert {card["unscored"] for card in cards.values()} == {84}
    values = {row["value"] for row in done.rows if row.get("method") in cards and "value" in row}
    assert values == {None}


@pytest.mark.parametrize("names", [("a/mine.csv", "b/mine.csv"), ("ladder.csv",), ("length.csv",)])
def test_two_methods_of_one_name_are_refused_before_a_judge_is_asked(fails, tmp_path, names):
    outputs = load_benchmark("demo/dialogue").outputs
    lines = [f"{output.id},{len(output.text)}\n" for output in outputs]
    files = [tmp_path / name for name in names]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("output_id,score\n" + "".join(lines))
    scores = [part for file in files for part in ("--scores", file)]
    assert fails(2, f"{DIALOGUE} --methods ladder --judge scripted:none", *scores) == (
        f"refladder: two methods are called {files[0].stem!r}; rename the file of scores that has this name\n"
    )
