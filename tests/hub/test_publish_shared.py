"""A shared set goes to the Hub and comes back as one, in another process and as rows."""

from __future__ import annotations

import json

import pytest
from ladders_to_publish import CONTEXTS, DIMENSIONS, ladders_of

import refladder
from refladder.errors import UsageError
from refladder.files.jsonl import write_records
from refladder.files.ladder_sets import ladder_set_of_rows, load_ladders, write_ladder_set
from refladder.files.tables import read_rows
from refladder.records import Questions, Shared

SCORE = """
import refladder
ladders = refladder.load_ladders("ADDRESS")
row, = refladder.score([{"output": "A keeper."}], ladders="ADDRESS")
print(ladders.anchors, len([name for name in row if name.endswith("anchor_spread")]), row["clarity_score"])
"""


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "mine"
    anchors = tuple(context.id for context in CONTEXTS)
    write_ladder_set(folder, DIMENSIONS, CONTEXTS, ladders_of(), (), shared=Shared(anchors=anchors, seed=3))
    return folder


def test_a_shared_set_comes_back_in_another_process_and_scores_the_same(hub, shared, command, python, tmp_path):
    assert command("certify", shared).code == 3  # three anchors are too few for a sign test
    done = command("publish", shared, "me/mine", "--with", "certificate")
    assert done.code == 0, done.err
    address = done.out.strip()
    (row,) = refladder.score([{"output": "A keeper."}], ladders=shared)
    expected = f"('c1', 'c2', 'c3') 2 {row['clarity_score']}\n"
    assert python(SCORE.replace("ADDRESS", address), HF_HOME=str(tmp_path / "home")) == expected
    opened = load_ladders(address)
    assert opened.certificate["sharing"]["of"] == 24  # 6 ordered pairs of anchors, 2 steps, 2 dimensions
    repository = hub.repositories["me/mine"]
    assert "manifest.json" in hub.files("me/mine")
    assert repository.tags == {}


QUESTIONS = """
import refladder
print(refladder.load_ladders("ADDRESS").questions)
"""


def test_questions_of_a_set_are_published_with_it(hub, shared, command, python, tmp_path):
    asked = [
        Questions(dimension="clarity", questions=("Is it clear?", "Is every word needed?")),
        Questions(dimension="wit", questions=("Does it make you smile?",), origin="0123456789ab"),
    ]
    write_records(shared / "questions.jsonl", asked)
    done = command("publish", shared, "me/mine")
    assert done.code == 0, done.err
    expected = {"clarity": ("Is it clear?", "Is every word needed?"), "wit": ("Does it make you smile?",)}
    found = python(QUESTIONS.replace("ADDRESS", done.out.strip()), HF_HOME=str(tmp_path / "home"))
    assert found == f"{expected}\n"
    card = command("publish", shared, "me/mine", "--dry-run").out
    assert "- config_name: questions\n  data_files: data/questions/*.parquet\n" in card
    out = tmp_path / "release"
    assert command("publish", shared, "me/mine", "--out", out).code == 0
    assert load_ladders(out).questions == expected
    rows = [row.fields for row in read_rows(str(out / "data" / "questions" / "00000.parquet"))]
    assert [row["origin"] for row in rows] == ["", "0123456789ab"]
    (shared / "questions.jsonl").unlink()
    again = command("publish", shared, "me/mine")
    assert load_ladders(again.out.strip()).questions == {}
    assert not [path for path in hub.files("me/mine") if "questions" in path]


def test_the_card_says_that_the_set_is_shared_and_how_far_its_anchors_agree(shared, command):
    assert command("certify", shared).code == 3
    card = command("publish", shared, "me/mine", "--with", "certificate", "--dry-run").out
    assert "The set is shared: every output is compared with the ladders of all anchors (3)" in card
    sharing = json.loads((shared / "certificate.json").read_text())["sharing"]
    shown = next(line for line in card.splitlines() if line.startswith("| sharing |"))
    assert f"share {sharing['share']:.4g}, low {sharing['low']:.4g}, high {sharing['high']:.4g}" in shown


def test_the_rows_of_a_published_shared_set_are_one(shared, command, tmp_path):
    out = tmp_path / "release"
    assert command("publish", shared, "me/mine", "--out", out).code == 0
    rows = list(read_rows(str(out / "data" / "ladders" / "00000.parquet")))
    texts = [row.fields for row in read_rows(str(out / "data" / "contexts" / "00000.parquet"))]
    assert ladder_set_of_rows(rows, texts).anchors == ("c1", "c2", "c3")
    with pytest.raises(UsageError, match=r"^rows: no text of anchor 'c1', which the judge has to see beside its rungs"):
        ladder_set_of_rows(rows)
    assert load_ladders(out).anchors == ("c1", "c2", "c3")
