"""The certificate of a ladder set as records: the same bytes back, and every reason to refuse a file."""

from __future__ import annotations

import hashlib
import json
import math

import pytest

from refladder.errors import DataError
from refladder.files.certificate import (
    CERTIFICATE,
    json_of,
    read_certificate,
    sealed,
    write_certificate,
)
from refladder.files.ladder_sets import find_folder, published_names

AGAIN = "certify the set again with `refladder certify`, or delete the file"
SHIPPED = [name for name in published_names() if (find_folder(name) / CERTIFICATE).is_file()]
STORY = (find_folder("demo/story") / CERTIFICATE).read_bytes()
LADDERS = json.loads(STORY)["ladders"]


def refused(text):
    with pytest.raises(DataError) as error:
        read_certificate(text, "set/certificate.json", LADDERS)
    return str(error.value)


def changed(**keys):
    """The certificate with other values, and the digest of them: BLAKE2b of the sorted JSON, without the digest."""
    values = {**json.loads(STORY), **keys}
    del values["digest"]
    text = json.dumps(values, sort_keys=True)
    return json.dumps(
        {**values, "digest": hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_certificate_is_written_back_byte_for_byte(name, tmp_path):
    text = (find_folder(name) / CERTIFICATE).read_bytes()
    found = read_certificate(text, name, json.loads(text)["ladders"])
    write_certificate(tmp_path, found)
    assert (tmp_path / CERTIFICATE).read_bytes() == text
    assert sealed(found) == found


def test_keys_that_only_some_sets_have_are_absent_from_the_others():
    values = json_of(read_certificate(STORY, "", LADDERS))
    assert "sharing" not in values
    assert "length_deviation" not in values["dimensions"][0]
    assert values["built"] is None
    assert values["dimensions"][0]["steps"][0]["from"] == 1


def test_the_digest_is_of_all_keys_in_any_order():
    text = changed(notes=["Seen."])
    found = read_certificate(text, "", LADDERS)
    assert found.notes == ("Seen.",)
    turned = json.dumps(dict(reversed(json.loads(text).items())))
    assert read_certificate(turned, "", LADDERS) == found


def test_every_text_and_number_can_be_changed():
    found = read_certificate(STORY, "", LADDERS)
    upper = sealed(found, lambda leaf: leaf.upper() if isinstance(leaf, str) else leaf)
    assert (upper.verdict, upper.of_ladders[0].rungs[0]) == ("DROP", "PASS")
    assert upper.digest not in {found.digest, found.digest.upper()}


def test_what_is_no_certificate_is_refused():
    assert (
        refused("{\n")
        == "set/certificate.json:2: not JSON (Expecting property name enclosed in double quotes)"
    )
    no_object = 'not a certificate: expected an object with "schema": "certificate/1"; ' + AGAIN
    for text in ("[]", "{}", '{"schema": "certificate/2"}', "3"):
        assert no_object in refused(text)


def test_a_certificate_of_other_ladders_is_refused():
    assert f"is of other ladders (abc) than those in the set ({LADDERS}), which have" in refused(
        changed(ladders="abc")
    )


def test_a_certificate_that_was_changed_is_refused():
    message = refused(STORY.replace(b'"verdict": "drop"', b'"verdict": "pass"', 1))
    assert message.startswith(
        f"set/certificate.json: the certificate was changed after it was written; {AGAIN}"
    )


def test_a_key_that_does_not_fit_is_named():
    judge = {"fingerprint": "builtin/1", "signature": 3}
    message = refused(changed(judge=judge))
    assert message.startswith(
        "set/certificate.json: certificate field 'judge.signature': Input should be"
    )
    assert message.endswith(f"found 3; {AGAIN} to use the set without a certificate")
    assert "field 'more': Unexpected keyword argument" in refused(changed(more=1))
    missing = json.loads(STORY)
    del missing["counts"]["mass"]
    assert "field 'counts.mass': Field required" in refused(json.dumps(missing))
    counts = {**json.loads(STORY)["counts"], "mass": math.nan}
    assert "field 'counts.mass': Input should be a finite number" in refused(changed(counts=counts))
