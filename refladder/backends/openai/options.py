"""Options of a model on a server, and the source of its key."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from refladder.backends.instruction import read_instruction
from refladder.backends.labels import PREFIXES
from refladder.errors import BackendUnavailableError, DataError, UsageError, option
from refladder.files.folders import cache_folder
from refladder.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

OPENAI_URL = "https://api.openai.com/v1"
MODES = "auto", "exact", "top", "sample"
# Begins a base URL that is a folder, see `answer_files`.
FILE = "file:"
# Modes with one request for each prompt.
FILE_MODES = "sample", "top"
_LIMITS = "max_concurrency", "requests_per_minute", "tokens_per_minute"
_OF_SERVERS = (
    *_LIMITS,
    "timeout",
    "attempts",
    "patience",
    "api_key_file",
    "headers_file",
    "prefix_cache",
    "probe_cache",
)
_CACHE = "endpoints.json"
_HEADERS = "REFLADDER_HEADERS"
_HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADER_VALUE = r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?"
_OF_THE_CLIENT = {
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
}
# Azure's version: the only field of a base URL's query that is not secret.
_VERSION = "api-version"
_LOCAL_HOSTS = "localhost", "127.0.0.1", "::1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of this backend; each field is an option of the same name."""

    # Up to and with its `/v1`, maybe with `?api-version=` (Azure); or `file:FOLDER`.
    base_url: str = OPENAI_URL
    # How label probabilities are read; `auto` chooses the best mode that the server supports.
    mode: str = "auto"
    # Answers sampled for each prompt in the mode `sample`.
    samples: int = 20
    # Maximum number of requests in flight.
    max_concurrency: int = 100
    # Limit of this client; None for no limit.
    requests_per_minute: float | None = None
    # Limit of prompt and answer tokens together; None for no limit.
    tokens_per_minute: float | None = None
    # Maximum duration of a request, in seconds.
    timeout: float = 120.0
    # Maximum number of tries of a request whose connection breaks or whose server fails (5xx).
    attempts: int = 6
    # Seconds for which a server may refuse every request (429, Retry-After).
    patience: float = 600.0
    # Most tokens of an answer in the mode `sample`; None is 16, or 4096 for a model that thinks first.
    answer_tokens: int | None = None
    # The model's tokenizer, for a server without /tokenize; needs transformers.
    tokenizer: str | None = None
    # Fields of every request, as JSON.
    extra: Mapping[str, object] = field(default_factory=dict)
    # Default: REFLADDER_API_KEY, else OPENAI_API_KEY.
    api_key_file: str | None = None
    # A JSON object of texts; default: REFLADDER_HEADERS, the same JSON itself.
    headers_file: str | None = None
    # The text of the file that the option names: the system message of every question.
    system: str = ""
    # An answer begins as its template says, where the server continues it; `none`: never.
    prefix: str = "template"
    # Whether the server keeps what prompts begin with, so that those of one context come after each other.
    prefix_cache: bool = False
    # Handshakes of the last day; default: in the user's cache folder for remote servers.
    probe_cache: str | None = None

    def sent(self, body: Mapping[str, object]) -> dict[str, object]:
        """Return the fields of a request that are sent, with those of `extra`.

        A single answer is not numbered, and where nothing is drawn there is no seed and no top-p: some servers refuse
        them. None in `extra` removes a field; None in `body` is a field of `extra` that the server refused.
        """
        fields: dict[str, object] = {**body, **self.extra}
        spared: dict[str, object] = {"n": 1}
        if fields.get("temperature") == 0:
            spared |= {"seed": fields.get("seed"), "top_p": 1}
        for name, value in spared.items():
            if name not in self.extra and fields.get(name) == value:
                fields.pop(name, None)
        unset = {name for name in fields if fields[name] is None or body.get(name, 0) is None}
        return {name: value for name, value in fields.items() if name not in unset}

    @property
    def folder(self) -> Path | None:
        """Return the folder of requests and answers; None for a server."""
        found = self.base_url.startswith(FILE)
        return Path(self.base_url.removeprefix(FILE)).expanduser() if found else None

    @property
    def address(self) -> str:
        """Return the base URL without its query."""
        return self.base_url.partition("?")[0]

    @property
    def query(self) -> str:
        """Return the query of every request; empty without one."""
        return self.base_url.partition("?")[2]


_NUMBERS: dict[str, type[int | float]] = {
    **dict.fromkeys(("samples", "max_concurrency", "attempts", "answer_tokens"), int),
    **dict.fromkeys(("requests_per_minute", "tokens_per_minute", "timeout", "patience"), float),
}


def read_options(given: Mapping[str, object]) -> Options:
    """Read options from `KEY=VALUE` texts, or from Python values of the right type."""
    names = [entry.name for entry in fields(Options)]
    values: dict[str, Any] = {"base_url": os.environ.get("OPENAI_BASE_URL") or OPENAI_URL}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in names:
            raise UsageError(f"openai has no option {key!r}; it has: {', '.join(names)}")
        if value is not None:
            values[name] = _value(name, value)
    if str(values["base_url"]).startswith(FILE):
        return _of_folder(values)
    values["base_url"] = _checked_url(values["base_url"])
    if "probe_cache" not in values and not is_local(values["base_url"]):
        values["probe_cache"] = str(cache_folder() / _CACHE)
    if values.get("mode", "auto") not in MODES:
        raise UsageError(f"mode must be one of {', '.join(MODES)}, found {values['mode']!r}")
    if values.get("prefix", "template") not in PREFIXES:
        raise UsageError(f"prefix must be {' or '.join(PREFIXES)}, found {values['prefix']!r}")
    return Options(**values)


def _of_folder(values: dict[str, Any]) -> Options:
    """Return the options of answers through files."""
    if values["base_url"] == FILE:
        raise UsageError(f"{option('base-url')} {FILE} names no folder; give {FILE}FOLDER")
    if values.get("mode", FILE_MODES[0]) not in FILE_MODES:
        raise UsageError(
            f"through files mode must be {' or '.join(FILE_MODES)}, found {values['mode']!r}, because a prompt is one "
            "request"
        )
    if of_servers := [name for name in _OF_SERVERS if name in values]:
        raise UsageError(
            f"{of_servers[0]} is an option of a server, and {values['base_url']} is a folder; leave it out"
        )
    return Options(**{"mode": FILE_MODES[0], **values})


def share_of_limits(given: Mapping[str, str], clients: int) -> dict[str, str]:
    """Return the options of each of several clients of a server: equal shares of the limits, at least one request."""
    options = read_options(given)
    shares = {"max_concurrency": str(max(1, options.max_concurrency // clients))}
    for name in ("requests_per_minute", "tokens_per_minute"):
        if (limit := getattr(options, name)) is not None:
            shares[name] = repr(limit / clients)
    return {**given, **shares}


def _value(name: str, value: Any) -> Any:
    if kind := _NUMBERS.get(name):
        with suppress(TypeError, ValueError, OverflowError):
            if 0 < (number := kind(value)) < float("inf"):
                return number
        words = "a whole number" if kind is int else "a number"
        raise UsageError(f"{name} must be {words} above 0, found {value!r}")
    if name == "prefix_cache":
        if str(value).lower() not in {"true", "false"}:
            raise UsageError(f"prefix_cache must be true or false, found {value!r}")
        return str(value).lower() == "true"
    if name == "system":
        return read_instruction(str(value))
    if name == "extra":
        reason = ""
        if isinstance(value, str):
            try:
                value = parse_json(value, "extra")
            except DataError as error:
                reason = f": {error}"
        if not isinstance(value, dict):
            raise UsageError(f"extra must be a JSON object, found {value!r}{reason}")
    return value


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in {"http", "https"}:
        found = url.rpartition("@")[2]
        files = (
            ""
            if "://" in url
            else f"; for answers through files in this folder, give {FILE}{found}"
        )
        raise UsageError(
            f"base_url must be like https://host/v1 or http://127.0.0.1:8000/v1, found {found!r}{files}"
        )
    version = re.fullmatch(rf"{_VERSION}=[\w.-]+", parts.query, re.ASCII)
    if parts.username or parts.password or (parts.query and not version) or parts.fragment:
        raise UsageError(
            f"base_url must hold no user, password or query but {_VERSION}, because it is written to files (host "
            f"{host}); put the key in REFLADDER_API_KEY or in a file named with api_key_file"
        )
    address, question_mark, query = url.partition("?")
    return address.rstrip("/") + (question_mark and f"?{query}")


def is_local(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    return urlsplit(url).hostname in _LOCAL_HOSTS


def read_headers(options: Options) -> dict[str, str]:
    """Read additional headers from `headers_file`, else REFLADDER_HEADERS. No message repeats a value."""
    if options.folder is not None:
        return {}
    where, text = _HEADERS, os.environ.get(_HEADERS, "").strip()
    if options.headers_file is not None:
        where = options.headers_file
        text = _file_text(where, "headers", "a JSON object with a text for each header")
    elif not text:
        return {}
    try:
        headers = parse_json(text, where)
    except DataError:
        headers = None
    if not isinstance(headers, dict) or any(type(value) is not str for value in headers.values()):
        raise BackendUnavailableError(
            f'{where}: must hold a JSON object with a string for each header, such as {{"X-Team": "a"}}'
        )
    for name, value in headers.items():
        if not re.fullmatch(_HEADER_NAME, name) or name.lower() in _OF_THE_CLIENT:
            raise BackendUnavailableError(
                f"{where}: header {name!r:.40} must not be set; remove it"
            )
        if not re.fullmatch(_HEADER_VALUE, value):
            raise BackendUnavailableError(
                f"{where}: the value of header {name!r:.40} must be one line of ASCII"
            )
    return headers


def _file_text(path: str, what: str, holds: str) -> str:
    """Return the text of a file that an option names, without white space at its ends."""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise BackendUnavailableError(
            f"{path}: cannot read the {what} ({reason}); name a file that holds {holds}"
        ) from None


def read_key(options: Options) -> str | None:
    """Read the key from `api_key_file`, REFLADDER_API_KEY, or, over https or to this machine only, OPENAI_API_KEY."""
    if options.folder is not None:
        return None
    if options.api_key_file is not None:
        where = options.api_key_file
        key = _file_text(where, "key", "it and nothing else")
    else:
        where = "REFLADDER_API_KEY"
        key = os.environ.get(where, "").strip()
        if not key and (options.base_url.startswith("https:") or is_local(options.base_url)):
            where = "OPENAI_API_KEY"
            key = os.environ.get(where, "").strip()
        if not key and options.base_url == OPENAI_URL:
            raise BackendUnavailableError(
                f"{OPENAI_URL} needs a key; set OPENAI_API_KEY, name a file with api_key_file, "
                f"or ask another server with {option('base-url')}"
            )
        if not key:
            return None
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise BackendUnavailableError(f"{where}: the key must be one line of ASCII without spaces")
    return key
