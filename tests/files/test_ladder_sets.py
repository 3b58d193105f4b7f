from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.files import ladder_sets
from refladder.files.jsonl import write_records
from refladder.files.ladder_sets import (
    choose_dimensions,
    find_folder,
    ladder_set,
    load_ladders,
    published_names,
    rated_names,
    write_ladder_set,
)

SET = load_ladders("demo/story", certified=False)
COHERENCE, COMPLEXITY = SET.dimensions
LADDERS, CONTEXTS = list(SET.ladders.values()), list(SET.contexts.values())
FIRST = LADDERS[0]
BACKWARDS = FIRST.rungs[::-1]
ADD = "; add it, or remove the ladder"
PLACE = "the coherence ladder of context 'story-01'"


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
    digest = hashlib.blake2b(CONTEXTS[0].text.encode(), digest_size=8).hexdigest()
    assert without.digests["story-01"] == digest
    (tmp_path / "context_digests.jsonl").unlink()
    assert load_ladders(tmp_path).digests == {}  # as the sets of refladder 0.1.0


def test_a_changed_context_does_not_have_its_digest(tmp_path):
    write_ladder_set(tmp_path, SET.dimensions, CONTEXTS, LADDERS, [])
    others = [replace(CONTEXTS[0], text="Another."), *CONTEXTS[1:]]
    write_records(tmp_path / "contexts.jsonl", others)
    message = (
        f"{tmp_path}: the text or background of context 'story-01' is not the one that the lad"
    )
    with pytest.raises(UsageError, match=message):
        load_ladders(tmp_path)


def test_sets_that_are_not_there(tmp_path):
    with pytest.raises(
        UnknownNameError, match=r"unknown ladder set or folder 'none'\. Known: demo/"
    ):
        load_ladders("none")
    message = f"^{tmp_path}/ladders.jsonl: no such file; build a ladder set with `refladder build`$"
    with pytest.raises(DataError, match=message):
        load_ladders(str(tmp_path))
    table = tmp_path / "scored.csv"
    table.write_text("output,clarity_score\na,1\n")
    message = (
        f"^{table}: a table without ladders; name a shipped set, such as general/reply, or the"
    )
    with pytest.raises(DataError, match=message):
        load_ladders(table)
    write_records(tmp_path / "ladders.jsonl", LADDERS)
    with pytest.raises(DataError, match=f"^{tmp_path}/dimensions.jsonl: no such file$"):
        load_ladders(str(tmp_path))


def changed(*records, **fields):
    return [replace(record, **fields) for record in records]


@pytest.mark.parametrize(
    ("part", "records", "message"),
    [
        ("ladders", [], "no ladders in it; build some with `refladder build`"),
        ("ladders", [FIRST, FIRST], f"{PLACE} appears twice; remove one"),
        (
            "dimensions",
            [COMPLEXITY],
            f"{PLACE} has a dimension that is not in dimensions.jsonl{ADD}",
        ),
        ("contexts", CONTEXTS[1:], f"{PLACE} has a context that is not in contexts.jsonl{ADD}"),
        (
            "contexts",
            changed(*CONTEXTS, task="dialogue"),
            f"{PLACE} has task 'story', its context 'dialogue'; correct one of them",
        ),
        (
            "ladders",
            changed(FIRST, rungs=BACKWARDS),
            f"{PLACE} has levels [5, 4, 3, 2, 1]; they must be 1, 2, ..., N",
        ),
        ("ladders", changed(FIRST, rungs=()), f"{PLACE} has levels []; they must be 1, 2, ..., N"),
        (
            "ladders",
            [LADDERS[1], *changed(FIRST, rungs=FIRST.rungs[:3])],
            f"{PLACE} has 3 rungs, the first ladder 5; a set must have one number of rungs",
        ),
        (
            "contexts",
            changed(*CONTEXTS, CONTEXTS[0]),
            "context 'story-01' appears twice; remove one",
        ),
        ("dimensions", [COHERENCE, COHERENCE], "dimension 'coherence' appears twice; remove one"),
        (
            "dimensions",
            changed(COHERENCE, high=1.0),
            "the scale of 'coherence' goes from 1 to 1; low must be less than high",
        ),
    ],
)
def test_ladders_that_are_not_one_scale(part, records, message):
    parts = {"dimensions": SET.dimensions, "contexts": CONTEXTS, "ladders": LADDERS, part: records}
    with pytest.raises(UsageError, match=f"^x: {re.escape(message)}$"):
        ladder_set("x", **parts)


def test_ladders_of_several_tasks():
    message = f"^x: {PLACE} has task 'open', the first ladder 'story'; a set must have one task$"
    with pytest.raises(UsageError, match=message):
        ladder_set("x", SET.dimensions, [], [LADDERS[1], *changed(FIRST, task="open")])


def test_dimensions_are_chosen_by_name_each_once():
    assert choose_dimensions(SET.dimensions, []) == (COHERENCE, COMPLEXITY)
    chosen = choose_dimensions(SET.dimensions, ["complexity", "coherence", "complexity"])
    assert chosen == (COMPLEXITY, COHERENCE)
    with pytest.raises(UnknownNameError, match="dimension 'complex'; did you mean 'complexity'"):
        choose_dimensions(SET.dimensions, ["complex"])


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux")
def test_a_set_whose_name_is_not_utf8_is_refused(fails, stories, tmp_path):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    shutil.copytree(Path(__file__).parents[2] / "published_data/demo/story", odd)
    for line in (f"score {stories} --ladders {odd}", f"publish {odd} me/mine --dry-run"):
        text = fails(2, line)
        assert text.endswith(" hold it; rename the file or folder\n")
        assert "caf\N{REPLACEMENT CHARACTER}: the name is not UTF-8, and " in text
    (Path(odd) / "fine").mkdir()
    for path in Path(odd).glob("*.*"):
        path.rename(Path(odd) / "fine" / path.name)
    assert load_ladders(f"{odd}/fine").name == "fine"


def test_a_set_that_was_renamed_opens_by_its_old_name_with_one_line(caplog, tmp_path, monkeypatch):
    ladder_sets._tell.cache_clear()
    opened = [load_ladders("general/reply-2"), load_ladders("general/reply-2")]
    assert opened == [load_ladders("general/reply")] * 2
    assert caplog.messages == ["general/reply-2 is called general/reply now, and is the same set"]
    # A folder of one's own is what its path says.
    shutil.copytree(find_folder("demo/story"), tmp_path / "general/reply-2")
    monkeypatch.chdir(tmp_path)
    assert load_ladders("general/reply-2").task == "story"
