"""Data and options with which rivals cannot be compared, each with the exact words that the user meets."""

from __future__ import annotations

import json
import re

import pytest

from refladder.loaders import load_benchmark

TASK = """task = "summarization"

[[dimensions]]
name = "clarity"
description = "Whether the text is clear."
low = 1
high = 5
"""


@pytest.fixture
def own(command, tmp_path, write_jsonl):
    """Evaluate rows of (context, system, output, rating)."""

    def go(rows, *options):
        keys = ("context", "system", "output", "clarity")
        table = write_jsonl([dict(zip(keys, row, strict=True)) for row in rows], "own.jsonl")
        task = tmp_path / "task.toml"
        task.write_text(TASK)
        return command(
            "evaluate", "own", "--task-file", task, "--source", table, "--resamples", "5", *options
        )

    return go


ONE_SYSTEM = [("Rain fell.", "a", "It rained.", 3), ("He rose.", "a", "The baker rose early.", 4)]
TIED = [("Rain fell.", "a", "It rained.", 3), ("Rain fell.", "b", "It rained.", 4)]


@pytest.mark.parametrize("method", ["win-ratio", "bradley-terry", "pairs-greedy", "zepo"])
def test_fewer_than_two_systems(own, method):
    done = own(ONE_SYSTEM, "--methods", method)
    assert done.code == 2
    assert done.out == ""
    assert (
        "refladder: own has no context with two outputs, so there is no pair to compare; use a method that scores "
        "outputs one by one, such as ladder\n"
    ) in done.err


def test_contexts_of_one_output_show_the_pooled_level(own):
    done = own(ONE_SYSTEM)
    assert done.code == 0
    told = " ".join(done.out.split())
    assert "own.jsonl, within_context: Spearman with the ratings, mean over contexts method" in told
    assert (
        "— no value: no context has two outputs with different ratings and different scores "
        in told
    )
    assert "own.jsonl, pooled: Spearman with the ratings, all outputs together" in told
    pooled = told[told.index("own.jsonl, pooled") :]
    assert re.search(r"ladder -?[\d.]+", pooled)
    assert (
        "own: every context has one output, so there is no correlation within contexts; the level pooled compares "
        "outputs of different contexts\n"
    ) in done.err
    assert "--level pooled" not in done.err
    # who asks for other levels gets those
    done = own(ONE_SYSTEM, "--level", "between_systems")
    assert "own.jsonl, pooled" not in done.out


def test_contexts_of_two_outputs_do_not_show_the_pooled_level(own):
    done = own(TIED)
    assert "pooled:" not in done.out
    assert (
        "own: no correlation: it needs two outputs with different ratings and different scores, and no context has "
        "them; `--level pooled` compares outputs of different contexts\n"
    ) in done.err


def test_one_rater_is_enough(own):
    done = own(
        [
            ("Rain fell on the town.", "a", "Rain fell.", 3),
            ("Rain fell on the town.", "b", "Sun.", 1),
        ],
        "--baselines",
        "all",
        "--json",
    )
    assert done.code == 0
    assert "no correlation" not in done.err
    assert {row["value"] for row in done.rows if row["method"] == "coverage"} == {1.0}


def test_all_ties_have_no_correlation_and_no_number(own):
    done = own(
        TIED,
        "--methods",
        "win-ratio,bradley-terry,poe,likelihood,pairs-greedy,pairs-beam",
        "--json",
    )
    assert done.code == 0
    assert (
        "own: no correlation: it needs two outputs with different ratings and different scores"
        in done.err
    )
    rows = [row for row in done.rows if row.get("kind") != "card"]
    assert {row["value"] for row in rows} == {None}
    cards = [row for row in done.rows if row.get("kind") == "card" and row["dimension"] == "all"]
    assert {(card["tied"]["value"], card["unscored"], card["unparsed"]) for card in cards} == {
        (1.0, 0, 0)
    }


def test_a_disconnected_graph_names_its_components(command):
    done = command(
        "evaluate", "demo/dialogue", "--methods", "bradley-terry,win-ratio", "--comparisons", "3", "--selection",
        "no-repeat", "--resamples", "5",
    )  # fmt: skip
    assert done.code == 3
    assert (
        "bradley-terry: context 'dialogue-01', engagingness: the comparisons form 3 unconnected components: "
        "{dialogue-01/aster, dialogue-01/cedar, dialogue-01/fern}, {dialogue-01/birch}, {dialogue-01/dahlia, "
        "dialogue-01/elm}; strengths of different components cannot be compared: ask more pairs, or rank by win-ratio\n"
    ) in done.err
    assert "bradley-terry: and 9 more like these\n" in done.err  # fourteen contexts, five told


def test_a_budget_larger_than_the_pairs(fails):
    err = fails(2, "evaluate", "demo/dialogue", "--methods", "win-ratio", "--comparisons", "31")
    assert err == (
        "refladder: context 'dialogue-01': a budget of 31 comparisons: 6 items have 30 pairs under "
        "'symmetric'; choose between 1 and 30\n"
    )


def test_an_unknown_method(fails):
    err = fails(2, "evaluate", "demo/dialogue", "--methods", "ladder,win-ration")
    assert err.startswith(
        "refladder: unknown method 'win-ration'; did you mean 'win-ratio'? Known: bertscore, bleu, "
    )


def test_an_unknown_option_of_a_method(fails):
    err = fails(
        2,
        "evaluate",
        "demo/dialogue",
        "--methods",
        "pairs-beam",
        "--method-option",
        "pairs-beam.beems=3",
    )
    assert (
        "refladder: unknown option of method 'pairs-beam' 'beems'; did you mean 'beam'? Known: beam, gap\n"
        in err
    )


def test_unreadable_judgments_are_counted_in_every_row(command, tmp_path):
    rules = tmp_path / "silent.jsonl"
    rules.write_text(json.dumps({"role": "pairwise", "error": "refused"}) + "\n")
    done = command(
        "evaluate", "demo/dialogue", "--methods", "win-ratio,bradley-terry,pairs-greedy", "--judge",
        f"scripted:{rules}", "--resamples", "5", "--json",
    )  # fmt: skip
    assert done.code == 3
    cards = {
        row["method"]: row
        for row in done.rows
        if row.get("kind") == "card" and row["dimension"] == "all"
    }
    # 14 contexts of 6 outputs: all 30 pairs; a sort gives up at the first of three runs of two that cannot be read
    assert cards["win-ratio"]["unparsed"] == cards["bradley-terry"]["unparsed"] == 14 * 30
    assert cards["pairs-greedy"]["unparsed"] == cards["pairs-greedy"]["judgments"] > 0
    assert {card["unscored"] for card in cards.values()} == {84}
    assert {row["value"] for row in done.rows if row.get("method") in cards and "value" in row} == {
        None
    }


@pytest.mark.parametrize("names", [("a/mine.csv", "b/mine.csv"), ("ladder.csv",), ("length.csv",)])
def test_two_methods_of_one_name_are_refused_before_a_judge_is_asked(fails, tmp_path, names):
    outputs = load_benchmark("demo/dialogue").outputs
    files = [tmp_path / name for name in names]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            "output_id,score\n" + "".join(f"{output.id},{len(output.text)}\n" for output in outputs)
        )
    scores = [part for file in files for part in ("--scores", file)]
    assert fails(
        2, "evaluate", "demo/dialogue", "--methods", "ladder", "--judge", "scripted:none", *scores
    ) == (
        f"refladder: two methods are called {files[0].stem!r}; rename the file of scores that has this name\n"
    )


def test_an_unknown_reference_is_refused_before_a_judge_is_asked(fails):
    assert fails(
        2, "evaluate", "demo/dialogue", "--judge", "scripted:none", "--reference", "win-ratio"
    ) == (
        "refladder: unknown reference method 'win-ratio'; Known: 1-grams in context, 2-grams in context, 3-grams in "
        "context, best of the surface measures, coverage, distinct words, ladder, length, negative length, type/token "
        "ratio, word overlap\n"
    )
