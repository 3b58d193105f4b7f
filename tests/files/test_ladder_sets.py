from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import pytest

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files.jsonl import write_records
from refladder.files.ladder_sets import (
    choose_dimensions,
    ladder_set,
    load_ladders,
    published_names,
    rated_names,
    write_ladder_set,
)

SET = load_ladders("demo/story", certified=False)
LADDERS, CONTEXTS, FIRST = (
    list(SET.ladders.values()),
    list(SET.contexts.values()),
    next(iter(SET.ladders.values())),
)
PLACE = "x: the coherence ladder of context 'story-01'"


def test_shipped_sets_by_name():
    assert rated_names() == ["demo/dialogue", "demo/story", "demo/summarization"]
    assert set(rated_names()) <= set(published_names())
    assert (SET.name, SET.rungs, SET.task) == ("demo/story", 5, "story")


def test_a_set_is_printed_in_one_line():
    # 12 contexts and two dimensions: 24 ladders.
    counts = "24 ladders of 5 rungs; 12 contexts; story: coherence, complexity"
    assert str(SET) == f"<LadderSet demo/story@{SET.digest} ({counts})>"
    certified = load_ladders("demo/story")
    assert repr([certified]) == f"[<LadderSet {certified.signature} ({counts})>]"


def test_a_set_comes_back_as_it_was_written(tmp_path):
    write_ladder_set(tmp_path / "mine", SET.dimensions, CONTEXTS, LADDERS, [])
    again = load_ladders(str(tmp_path / "mine"))
    assert replace(again, name=SET.name) == SET
    assert again.name == "mine"  # and not the whole path, which is nobody else's


def test_a_set_without_its_texts_keeps_their_digests(tmp_path):
    write_ladder_set(tmp_path, SET.dimensions, CONTEXTS, LADDERS, [])
    (tmp_path / "contexts.jsonl").unlink()
    without = load_ladders(tmp_path)
    assert (without.contexts, without.digests) == ({}, SET.digests)
    # b2sum -l 64 of the text of story-01, which has no background
    assert (
        without.digests["story-01"]
        == hashlib.blake2b(CONTEXTS[0].text.encode(), digest_size=8).hexdigest()
    )
    (tmp_path / "context_digests.jsonl").unlink()
    assert load_ladders(tmp_path).digests == {}  # as the sets of refladder 0.1.0


def test_a_changed_context_does_not_have_its_digest(tmp_path):
    write_ladder_set(tmp_path, SET.dimensions, CONTEXTS, LADDERS, [])
    write_records(
        tmp_path / "contexts.jsonl", [replace(CONTEXTS[0], text="Another."), *CONTEXTS[1:]]
    )
    message = f"{tmp_path}: the text or background of context 'story-01' is not the one that the ladders were written"
    with pytest.raises(UsageError, match=message):
        load_ladders(tmp_path)


def test_sets_that_are_not_there(tmp_path):
    with pytest.raises(
        UnknownNameError, match=r"unknown ladder set or folder 'none'; Known: demo/"
    ):
        load_ladders("none")
    message = f"^{tmp_path}/ladders.jsonl: no such file; build a ladder set with `refladder build`$"
    with pytest.raises(DataError, match=message):
        load_ladders(str(tmp_path))
    write_records(tmp_path / "ladders.jsonl", LADDERS)
    with pytest.raises(DataError, match=f"^{tmp_path}/dimensions.jsonl: no such file$"):
        load_ladders(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ladders": []}, "x: no ladders in it; build some with `refladder build`"),
        ({"ladders": [FIRST, replace(FIRST)]}, f"{PLACE} appears twice; remove one"),
        (
            {"dimensions": SET.dimensions[1:]},
            f"{PLACE} has a dimension that is not in dimensions.jsonl; add it, or remove the ladder",
        ),
        (
            {"contexts": CONTEXTS[1:]},
            f"{PLACE} has a context that is not in contexts.jsonl; add it, or remove the ladder",
        ),
        (
            {"contexts": [replace(one, task="dialogue") for one in CONTEXTS]},
            f"{PLACE} has task 'story', its context 'dialogue'; correct one of them",
        ),
        (
            {"ladders": [LADDERS[1], replace(FIRST, task="open")], "contexts": []},
            f"{PLACE} has task 'open', the first ladder 'story'; a set must have one task",
        ),
        (
            {"ladders": [replace(FIRST, rungs=FIRST.rungs[::-1])]},
            f"{PLACE} has levels [5, 4, 3, 2, 1]; they must be 1, 2, ..., N",
        ),
        (
            {"ladders": [replace(FIRST, rungs=())]},
            f"{PLACE} has levels []; they must be 1, 2, ..., N",
        ),
        (
            {"ladders": [LADDERS[1], replace(FIRST, rungs=FIRST.rungs[:3])]},
            f"{PLACE} has 3 rungs, the first ladder 5; a set must have one number of rungs",
        ),
        (
            {"contexts": [*CONTEXTS, replace(CONTEXTS[0])]},
            "x: context 'story-01' appears twice; remove one",
        ),
        (
            {"dimensions": [*SET.dimensions, SET.dimensions[0]]},
            "x: dimension 'coherence' appears twice; remove one",
        ),
        (
            {"dimensions": [replace(SET.dimensions[0], high=1.0)]},
            "x: the scale of 'coherence' goes from 1 to 1; low must be less than high",
        ),
    ],
)
def test_ladders_that_are_not_one_scale(changes, message):
    parts = {"dimensions": SET.dimensions, "contexts": CONTEXTS, "ladders": LADDERS, **changes}
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        ladder_set("x", **parts)


def test_dimensions_are_chosen_by_name_each_once():
    coherence, complexity = SET.dimensions
    assert choose_dimensions(SET.dimensions, []) == (coherence, complexity)
    assert choose_dimensions(SET.dimensions, ["complexity", "coherence", "complexity"]) == (
        complexity,
        coherence,
    )
    with pytest.raises(
        UnknownNameError, match="unknown dimension 'complex'; did you mean 'complexity'"
    ):
        choose_dimensions(SET.dimensions, ["complex"])
