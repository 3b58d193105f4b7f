"""A shared set goes to the Hub and comes back as one, in another process and as rows."""

from __future__ import annotations

import json

import pytest
from ladders_to_publish import CONTEXTS, DIMENSIONS, ladders_of

import refladder
from refladder.errors import UsageError
from refladder.files.ladder_sets import ladder_set_of_rows, load_ladders, write_ladder_set
from refladder.files.tables import read_rows
from refladder.records import Shared

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
    write_ladder_set(
        folder, DIMENSIONS, CONTEXTS, ladders_of(), (), shared=Shared(anchors=anchors, seed=3)
    )
    return folder


def test_a_shared_set_comes_back_in_another_process_and_scores_the_same(
    hub, shared, command, python, tmp_path
):
    assert command("certify", shared).code == 0
    done = command("publish", shared, "me/mine")
    assert done.code == 0, done.err
    address = done.out.strip()
    (row,) = refladder.score([{"output": "A keeper."}], ladders=shared)
    expected = f"('c1', 'c2', 'c3') 2 {row['clarity_score']}\n"
    assert python(SCORE.replace("ADDRESS", address), HF_HOME=str(tmp_path / "home")) == expected
    opened = load_ladders(address)
    assert opened.certificate.sharing.of == 24  # 6 ordered pairs of anchors, 2 steps, 2 dimensions
    repository = hub.repositories["me/mine"]
    assert "manifest.json" in hub.files("me/mine")
    assert repository.tags == {}


def test_a_folder_with_a_release_keeps_its_certificate_until_it_is_certified_again(
    shared, command, tmp_path
):
    assert command("certify", shared).code == 0
    first, second = tmp_path / "first", tmp_path / "second"
    assert command("publish", shared, "me/mine", "--out", first).code == 0
    assert command("publish", first, "me/mine", "--out", second).code == 0
    kept = load_ladders(shared).certificate
    assert load_ladders(second).certificate == load_ladders(first).certificate == kept
    assert command("certify", second, "--least-mass", "0.25").code == 0
    assert load_ladders(second).certificate.judge.signature.endswith("|least-mass:0.25")


def test_the_card_says_that_the_set_is_shared_and_how_far_its_anchors_agree(shared, command):
    assert command("certify", shared).code == 0
    card = command("publish", shared, "me/mine", "--dry-run").out
    assert "The set is shared: every output is compared with the ladders of all anchors (3)" in card
    sharing = json.loads((shared / "certificate.json").read_text())["sharing"]
    shown = next(line for line in card.splitlines() if line.startswith("| sharing |"))
    assert (
        f"share {sharing['share']:.4g}, low {sharing['low']:.4g}, high {sharing['high']:.4g}"
        in shown
    )


def test_the_rows_of_a_published_shared_set_are_one(shared, command, tmp_path):
    out = tmp_path / "release"
    assert command("publish", shared, "me/mine", "--out", out).code == 0
    rows = list(read_rows(str(out / "data" / "ladders" / "00000.parquet")))
    texts = [row.fields for row in read_rows(str(out / "data" / "contexts" / "00000.parquet"))]
    assert ladder_set_of_rows(rows, texts).anchors == ("c1", "c2", "c3")
    with pytest.raises(
        UsageError,
        match=r"^rows: no text of anchor 'c1', which the judge has to see beside its rungs",
    ):
        ladder_set_of_rows(rows)
    assert load_ladders(out).anchors == ("c1", "c2", "c3")
