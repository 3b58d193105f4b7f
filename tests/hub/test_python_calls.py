"""refladder.publish, and published sets in the other calls."""

from __future__ import annotations

import json
import logging

import pytest

import refladder
from refladder.errors import DataError, UsageError


def test_a_set_is_published_and_scored_with(hub, built, command, outputs, caplog):
    folder = built()
    with caplog.at_level(logging.WARNING, logger="refladder"):
        done = refladder.publish(folder, "me/mine", tag="v1")
    assert done.address == f"hub:me/mine@{hub.repositories['me/mine'].branches['main']}"
    assert done.notices == (
        "no licence is stated, so others may not know what they may do; add licence ID",
    )
    assert done.notices[0] in caplog.text
    assert done.files.keys() == {path for path in hub.files("me/mine") if path != ".gitattributes"}
    assert refladder.load_ladders(done.address).digest == refladder.load_ladders(folder).digest
    typed = command("score", outputs, "--ladders", "hub:me/mine@v1").rows
    assert refladder.score(
        [{"context_id": "c1", "output_id": "o", "output": "Rocks."}], ladders=done.address
    )
    rows = [{name: row[name] for name in ("output_id", "context_id", "output")} for row in typed]
    assert refladder.score(rows, ladders="hub:me/mine@v1") == typed


def test_rows_of_load_dataset_are_ladders_again(built, python):
    refladder.publish(built(), "me/mine", tag="v1")
    printed = python(
        "import json; import refladder; from datasets import load_dataset\n"
        "rows, texts = (load_dataset('me/mine', name, revision='v1')['train'] for name in ('ladders', 'contexts'))\n"
        "ladders = refladder.ladder_set_of_rows(rows, texts)\n"
        "table = [{'context_id': 'c1', 'output': 'Rocks.'}]\n"
        "scored = [refladder.score(table, ladders=each)[0] for each in (ladders, 'hub:me/mine@v1')]\n"
        "print(json.dumps([*(row['clarity_score'] for row in scored), ladders.digest]))"
    )
    first, second, digest = json.loads(printed)
    assert first == second
    assert isinstance(first, float)
    assert digest == refladder.load_ladders("hub:me/mine@v1").digest


def test_errors_name_arguments(hub, built):
    with pytest.raises(UsageError, match="or add baseline if they are meant as a baseline"):
        refladder.publish(refladder_built(built), "me/mine")
    hub.unplug()
    with pytest.raises(DataError, match="me/mine"):
        refladder.publish(built(), "me/mine")


def refladder_built(built):
    """The folder of a set that the built-in writer made."""
    folder = built("others").parent / "of builtin"
    clarity = refladder.Dimension(
        name="clarity", description="How clear it is: muddled at worst, plain at best."
    )
    refladder.build(
        [{"context": "Why is the sky blue?"}],
        task="open",
        dimensions=[clarity],
        writer="builtin",
        out=folder,
    )
    return folder


def test_a_published_set_is_certified_and_nothing_is_stored(built, command):
    folder = built()
    address = refladder.publish(folder, "me/mine").address
    certificate = refladder.certify(address)
    assert certificate == {
        **refladder.certify(refladder.load_ladders(folder)),
        "digest": certificate["digest"],
    }
    done = command("certify", address)
    assert done.code in {0, 3}, done.err
    assert done.err.endswith("not stored: only a set in a folder gets a certificate\n")
    assert refladder.load_ladders(address).certificate is None
