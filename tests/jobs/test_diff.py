"""What changed between two ladder sets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refladder.files.ladder_sets import write_ladder_set
from refladder.jobs.diff import compare_sets
from refladder.records import Context, Dimension, Ladder, Recipe, Rung, Sampling

RECIPE = Recipe(
    backend="scripted:a", prompts=("story/best@0",), sampling=Sampling(), version="0.1.0"
)
CONTEXTS = [Context(id=name, task="story", text=f"About {name}.") for name in ("a", "b", "c")]
WIT = Dimension(name="wit", description="How witty it is.")
LADDERS = [
    Ladder(
        context_id=context.id,
        task="story",
        dimension="wit",
        rungs=(Rung(level=1, text="Bad."), Rung(level=2, text=f"Good {context.id}.")),
        recipe=RECIPE,
    )
    for context in CONTEXTS
]


@pytest.fixture
def sets(tmp_path):
    def write(name, ladders=LADDERS, contexts=CONTEXTS, dimensions=(WIT,)):
        write_ladder_set(tmp_path / name, dimensions, contexts, ladders, [])
        return str(tmp_path / name)

    return write


def test_a_set_and_its_copy_are_one_scale(sets, command):
    first, second = sets("one"), sets("two")
    difference = compare_sets(first, second)
    assert difference.same
    assert (difference.ladders.same, difference.contexts.same, difference.dimensions.same) == (
        3,
        3,
        1,
    )
    done = command("diff", first, second)
    assert done.code == 0
    assert done.out.endswith("The sets are the same scale.\n")


def test_every_change_is_named(sets, command):
    changed = replace(LADDERS[0], rungs=(LADDERS[0].rungs[0], Rung(level=2, text="Better a.")))
    rewritten = replace(LADDERS[1], recipe=replace(RECIPE, backend="scripted:b"))
    contexts = [
        CONTEXTS[0],
        replace(CONTEXTS[1], background="known"),
        Context(id="d", task="story", text="About d."),
    ]
    second = sets(
        "two",
        [changed, rewritten, replace(LADDERS[2], context_id="d")],
        contexts,
        [replace(WIT, high=10.0)],
    )
    done = command("diff", sets("one"), second)
    assert done.code == 3
    lines = done.out.splitlines()
    assert lines[2:6] == [
        "ladders: 0 the same, 2 changed, 1 removed, 1 added",
        "  ~ a wit: rung 2",
        "  ~ b wit: recipe",
        "  - c wit",
    ]
    assert lines[6:9] == ["  + d wit", "recipes: 1 the same, 1 added", lines[8]]
    assert lines[8].startswith("  + backend:scripted:b|")
    assert lines[9:] == [
        "contexts: 1 the same, 1 changed, 1 removed, 1 added",
        "  ~ b: text",
        "  - c",
        "  + d",
        "dimensions: 0 the same, 1 changed",
        "  ~ wit: high",
        "The sets are different scales: do not compare their scores.",
    ]


def test_json_lists_everything(sets, command):
    (row,) = command("diff", sets("one"), sets("two", LADDERS[1:]), "--json").rows
    assert row["same"] is False
    assert row["ladders"] == {"removed": ["a wit"], "added": [], "changed": {}, "same": 2}


def test_another_order_is_the_same_scale(sets, command):
    done = command("diff", sets("one"), sets("two", LADDERS[::-1]))
    assert done.code == 0
    assert "in another order" in done.out


def test_contexts_without_texts_and_digests_are_not_compared(sets, command, tmp_path):
    first, second = sets("one"), sets("two")
    (tmp_path / "two" / "contexts.jsonl").unlink()
    assert "contexts: 3 the same" in command("diff", first, second).out  # by their digests
    (tmp_path / "two" / "context_digests.jsonl").unlink()
    done = command("diff", first, second)
    assert done.code == 0
    assert "contexts: 3 not compared, as one set has neither texts nor digests" in done.out


def test_a_set_that_does_not_exist(sets, fails):
    assert "unknown ladder set" in fails(2, "diff", sets("one"), "nowhere")
