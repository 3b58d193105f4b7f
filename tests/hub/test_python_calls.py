"""refladder.publish, and published sets in the other calls."""

from __future__ import annotations

import logging

import pytest

import refladder
from refladder.errors import DataError


def test_a_set_is_published_and_scored_with(hub, built, command, outputs, caplog):
    folder = built()
    with caplog.at_level(logging.WARNING, logger="refladder"):
        done = refladder.publish(folder, "me/mine", tag="v1")
    assert done.address == f"hub:me/mine@{hub.repositories['me/mine'].branches['main']}"
    licence = "no licence is stated, so others may not know what they may do; add licence ID"
    assert done.notices == (licence,)
    assert licence in caplog.text
    assert done.files.keys() == {path for path in hub.files("me/mine") if path != ".gitattributes"}
    assert refladder.load_ladders(done.address).digest == refladder.load_ladders(folder).digest
    typed = command(f"score {outputs} --ladders hub:me/mine@v1").rows
    rows = [{name: row[name] for name in ("output_id", "context_id", "output")} for row in typed]
    assert refladder.score(rows, ladders="hub:me/mine@v1") == typed


def test_a_published_set_is_certified_and_nothing_is_stored(hub, built, command):
    folder = built()
    address = refladder.publish(folder, "me/mine").address
    certificate = refladder.certify(address)
    local = refladder.certify(refladder.load_ladders(folder))
    assert certificate == {**local, "digest": certificate["digest"]}
    done = command(f"certify {address}")
    assert done.code in {0, 3}, done.err
    assert done.err.endswith("not stored: only a set in a folder gets a certificate\n")
    assert refladder.load_ladders(address).certificate is None
    hub.unplug()
    with pytest.raises(DataError, match="me/mine"):
        refladder.publish(folder, "me/mine")
