"""What changed between two ladder sets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refladder.files.ladder_sets import write_ladder_set
from refladder.ladders.diff import compare_sets
from refladder.records import Context, Dimension, Ladder, Recipe, Rung, Sampling

RECIPE = Recipe(backend="scripted:a", prompts=("story/best@0",), sampling=Sampling(), version="0")
CONTEXTS = [Context(id=name, task="story", text=f"About {name}.") for name in ("a", "b", "c")]
WIT = Dimension(name="wit", description="How witty it is.")
LADDERS = [
    Ladder(
        context_id=context.id, task="story", dimension="wit", recipe=RECIPE,
        rungs=(Rung(level=1, text="Bad."), Rung(level=2, text=f"Good {context.id}.")),
    )
    for context in CONTEXTS
]  # fmt: skip


@pytest.fixture
def sets(tmp_path):
    """Write the set `one` and a changed set `two`; their paths."""

    def write(ladders=LADDERS, contexts=CONTEXTS, dimensions=(WIT,)):
        write_ladder_set(tmp_path / "one", [WIT], CONTEXTS, LADDERS, [])
        write_ladder_set(tmp_path / "two", dimensions, contexts, ladders, [])
        return str(tmp_path / "one"), str(tmp_path / "two")

    return write


def test_a_set_and_its_copy_are_one_scale(sets):
    first, second = sets()
    found = compare_sets(first, second)
    assert found.same
    assert (found.ladders.same, found.contexts.same, found.dimensions.same) == (3, 3, 1)
    assert found.lines()[-1] == "The sets are the same scale."


def test_every_change_is_named(sets):
    first, second, third = LADDERS
    changed = replace(first, rungs=(first.rungs[0], Rung(level=2, text="Better a.")))
    rewritten = replace(second, recipe=replace(RECIPE, backend="scripted:b"))
    known = replace(CONTEXTS[1], background="known")
    contexts = [CONTEXTS[0], known, Context(id="d", task="story", text="About d.")]
    ladders = [changed, rewritten, replace(third, context_id="d")]
    one, two = sets(ladders, contexts, [replace(WIT, high=10.0)])
    lines = compare_sets(one, two).lines()
    assert lines[8].startswith("  + backend:scripted:b|")
    assert lines[2:8] + lines[9:] == [
        "ladders: 0 the same, 2 changed, 1 removed, 1 added",
        "  ~ a wit: rung 2",
        "  ~ b wit: recipe",
        "  - c wit",
        "  + d wit",
        "recipes: 1 the same, 1 added",
        "contexts: 1 the same, 1 changed, 1 removed, 1 added",
        "  ~ b: text",
        "  - c",
        "  + d",
        "dimensions: 0 the same, 1 changed",
        "  ~ wit: high",
        "The sets are different scales: do not compare their scores.",
    ]


def test_another_order_is_the_same_scale(sets):
    first, second = sets(LADDERS[::-1])
    found = compare_sets(first, second)
    assert found.same
    assert "in another order" in found.lines()[-1]


def test_contexts_without_texts_and_digests_are_not_compared(sets, tmp_path):
    one, two = sets()
    (tmp_path / "two" / "contexts.jsonl").unlink()
    assert "contexts: 3 the same" in compare_sets(one, two).lines()  # by their digests
    (tmp_path / "two" / "context_digests.jsonl").unlink()
    lines = compare_sets(one, two).lines()
    assert "contexts: 3 not compared, as one set has neither texts nor digests" in lines
