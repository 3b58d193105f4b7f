"""The certificate of a ladder set: what a judge found of its rungs, as records and as a file.

The records have the keys of the JSON in its order. A key whose field has a default is absent where nothing else is
known; null says that something could not be judged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping  # noqa: TC003  pydantic resolves the annotations at run time.
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from refladder.errors import DataError
from refladder.files.jsonl import write_json
from refladder.parsing import adapter, each_leaf, parse_as, parse_json
from refladder.records import digest_of, record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CERTIFICATE = "certificate.json"
SCHEMA = "certificate/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBy:
    """The judge, and the signature of how it was asked."""

    fingerprint: str
    signature: str


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was judged, and the sums and means over all ladders; `of_rungs` are numbers of rungs by verdict."""

    contexts: int
    ladders: int
    rungs: int
    judgments: int
    unparsed: int
    low_mass: int
    of_rungs: Mapping[str, int]
    adjacent: Mapping[str, int]
    intransitive: Mapping[str, int]
    inconsistent: Mapping[str, int]
    mass: float | None
    spearman_length: float | None
    length_climbs: int
    surface_climbs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What `build --certify` repaired; `before` are judgments and unparsed ones of the first certificate."""

    rounds: int
    rewritten: int
    dropped: int
    failed: int
    before: Mapping[str, int] | None = None


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The verdict on a level of a dimension; `strength` is in log-odds above level 1."""

    level: int
    verdict: str
    strength: float | None


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From a level to the next one: ladders in order, of those that decide, the sign test, and mean preferences."""

    from_: int
    to: int
    in_order: int
    decided: int
    p: float | None
    p_holm: float | None
    w: float | None
    surface_w: float | None


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class OfDimension:
    """What the certificate says of a dimension: sums and means over its ladders as in `Counts`, levels and steps."""

    dimension: str
    verdict: str
    ladders: int
    of_rungs: Mapping[str, int]
    adjacent: Mapping[str, int]
    intransitive: Mapping[str, int]
    inconsistent: Mapping[str, int]
    mass: float | None
    spearman_length: float | None
    length_climbs: int
    surface_climbs: int
    length_deviation: float | None = None
    surface_accuracy: float | None = None
    ties: float | None
    levels: tuple[Level, ...]
    steps: tuple[Step, ...]


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class OfLadder:
    """What the certificate says of a ladder; `rungs` has a verdict for each level."""

    context_id: str
    dimension: str
    verdict: str
    rungs: tuple[str, ...]
    adjacent: Mapping[str, int]
    intransitive: Mapping[str, int]
    inconsistent: Mapping[str, int]
    mass: float | None
    spearman_length: float | None
    length_climbs: bool
    surface_climbs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAnchor:
    """How often the levels of an anchor are in order with the levels of the other anchors."""

    anchor: str
    in_order: int
    of: int


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How far the anchors of a shared set agree on its levels: a share with its interval, which must reach `limit`."""

    verdict: str
    share: float | None
    low: float | None
    high: float | None
    in_order: int
    of: int
    limit: float
    anchors: tuple[OfAnchor, ...]


@record()
@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a judge found of the ladders with a digest; `docs/reference/files.md` describes every key.

    `tests` are the kind, number and error of the sign tests, None without them; `digest` is empty until it is `sealed`.
    """

    ladders: str
    verdict: str
    judge: JudgedBy
    refladder: str
    counts: Counts
    tests: Mapping[str, str | int | float] | None
    built: Built | None
    notes: tuple[str, ...]
    dimensions: tuple[OfDimension, ...]
    of_ladders: tuple[OfLadder, ...]
    sharing: Sharing | None = None
    digest: str = ""


def json_of(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as JSON values, with the keys of its file in their order."""
    values = adapter(Certificate).dump_python(
        certificate, mode="json", by_alias=True, exclude_defaults=True
    )
    return {"schema": SCHEMA, **values}


def sealed(
    certificate: Certificate, change: Callable[[Any], Any] = lambda leaf: leaf
) -> Certificate:
    """Return a certificate with every text and number changed, and the digest of all that it then holds."""
    values = each_leaf(json_of(replace(certificate, digest="")), change)
    digest = digest_of(json.dumps(values, sort_keys=True), size=6)
    del values["schema"]
    return adapter(Certificate).validate_python({**values, "digest": digest})


def read_certificate(text: str | bytes, where: str, ladders: str) -> Certificate:
    """Read the certificate of the ladders with a digest."""
    again = "certify the set again with `refladder certify`, or delete the file to use the set without a certificate"
    values = parse_json(text, where, whole_file=True)
    if not isinstance(values, dict) or values.pop("schema", None) != SCHEMA:
        raise DataError(
            f'{where}: not a certificate: expected an object with "schema": "{SCHEMA}"; {again}'
        )
    certificate = parse_as(Certificate, json.dumps(values), where, "certificate", again)
    if certificate.ladders != ladders:
        raise DataError(
            f"{where}: the certificate is of other ladders ({certificate.ladders:.20}) than those in the set "
            f"({ladders}), which have changed since; {again}"
        )
    if certificate != sealed(certificate):
        raise DataError(f"{where}: the certificate was changed after it was written; {again}")
    return certificate


def write_certificate(folder: Path, certificate: Certificate) -> None:
    """Write the certificate of the ladder set in a folder."""
    write_json(folder / CERTIFICATE, json_of(certificate))
