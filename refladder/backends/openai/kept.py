"""Handshakes of earlier runs, in a file that many endpoints may share."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.backends.openai.talk import SWITCHES, Probe
from refladder.errors import DataError, UsageError, redacted
from refladder.files.jsonl import write_json
from refladder.parsing import parse_as, parse_json

if TYPE_CHECKING:
    from refladder.backends.openai.options import Options

SCHEMA = "endpoint-probe/3"
_GOOD_FOR = 86400  # seconds; servers are updated
_OF_BATCHES = "handshake.json"  # in the folder of batches, so that another day's requests are the same


def to_text(probe: Probe) -> str:
    """A probe as one line of JSON, for a cache."""
    return json.dumps({"schema": SCHEMA, "made": int(time.time()), **asdict(probe)})


def from_text(text: str, *, aged: bool = False) -> Probe | None:
    """A probe from a cache, or None if the text is of another version or, unless `aged`, older than a day."""
    try:
        values = parse_json(text, "the probe cache")
        current = values.pop("schema") == SCHEMA
        current = (0 <= time.time() - values.pop("made") < _GOOD_FOR or aged) and current
        probe = parse_as(Probe, json.dumps(values), "the probe cache", SCHEMA)  # a file, which others can write
    except (DataError, LookupError, TypeError, AttributeError):
        return None
    sound = bool(probe.way) == (probe.mode == "exact") and (probe.top > 0) == (probe.mode == "top")
    known = not probe.dialect.switch or probe.dialect.switch in SWITCHES
    return probe if current and sound and known else None


def kept_probe(options: Options, model: str) -> Probe | None:
    """The probe of an earlier run; in a folder of batches it does not age."""
    path = _file(options)
    return from_text(_read(path).get(_key(options, model), ""), aged=options.batch is not None) if path else None


def keep(probe: Probe, options: Options, model: str) -> None:
    """Store a probe for later runs, where there is a file for it."""
    if path := _file(options):
        with suppress(OSError):  # then writing says why
            path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {**_read(path), _key(options, model): to_text(probe)})


def forget(options: Options, model: str) -> None:
    """Remove the probe of a server that is not what it was."""
    if path := _file(options):
        write_json(path, {key: text for key, text in _read(path).items() if key != _key(options, model)})


def _file(options: Options) -> Path | None:
    if options.batch is not None:
        return Path(options.batch) / _OF_BATCHES
    return None if options.probe_cache is None else Path(options.probe_cache)


def _key(options: Options, model: str) -> str:
    """Everything that can change a probe's result."""
    extra = redacted(dict(options.extra))
    parts = [options.base_url, model, options.mode, options.tokenizer, extra, options.batch is not None, options.prefix]
    return json.dumps(parts, sort_keys=True)


def _read(path: Path) -> dict[str, str]:
    """The probes in a file by key; empty if it is no cache file, since a cache only saves requests."""
    try:
        probes = parse_json(path.read_text(encoding="utf-8"), str(path))
    except (FileNotFoundError, DataError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as a probe cache ({type(error).__name__}); name another") from None
    return {key: value for key, value in probes.items() if isinstance(value, str)} if isinstance(probes, dict) else {}
