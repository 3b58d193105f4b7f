"""The handshake: requests that test what a server supports. An HTTP 200 is not enough; the answers are checked.

The modes of reading labels are tried from best to worst. The first whose numbers are consistent is used:

- `exact` token ids of the labels (see `exact`); of several tokens, without a limit of 20, through the chat template
- `top`   the most probable first tokens of the chat's answer; a label outside them has a bound, not a number
- `sample` n answers at temperature 1
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.openai.chat_modes import (
    continues_from_a_text,
    continues_from_a_token,
    find_sampling,
    find_top,
    read_sampled,
    read_top,
)
from refladder.backends.openai.client import (
    NOT_CONTINUED,
    PLAIN_TOKENS,
    QUESTIONS,
    SWITCHES,
    Capabilities,
    Client,
    Dialect,
    Messages,
    Mode,
    with_system,
)
from refladder.backends.openai.errors import LOG, Refusal, changed
from refladder.backends.openai.exact_mode import find_exact, find_tokens, read_exact, shows_switch
from refladder.backends.openai.responses import ENDED, parse_answer
from refladder.errors import (
    BackendUnavailableError,
    DataError,
    LabelsUnavailableError,
    UsageError,
    redacted,
)
from refladder.files.jsonl import write_json
from refladder.files.locks import make_folder
from refladder.parsing import parse_as, parse_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from refladder.backends.openai.options import Options
    from refladder.records import LabelReading

# Most probable tokens that are asked for: the limit of OpenAI, and the default limit of vLLM.
_TOP_OF_FILES = 20
_IGNORED = (
    "it ignores the field that keeps the model from thinking, as it did not in the handshake ({})"
)
_THINKS = "the model thinks before it answers, so its first token is not a label"


class _Reader(NamedTuple):
    """A mode: how to test it (Refusal with the reason if it is impossible), how to read labels, and its name."""

    find: Callable[[Client, Capabilities], Awaitable[Capabilities]]
    read: Callable[[Client, Capabilities, Messages, tuple[str, ...]], Awaitable[LabelReading]]
    words: str


async def _find_top(client: Client, capabilities: Capabilities) -> Capabilities:
    """Run `find_top`; a model that refuses log-probabilities may give them with its reasoning off."""
    plain = client.dialect
    try:
        return await find_top(client, capabilities)
    except Refusal as refusal:
        if (
            plain.switch
            or refusal.status not in (400, 403, 422)
            or "reasoning_effort" in client.options.extra
        ):
            raise
        client.dialect = plain.switched("reasoning_effort")
        with suppress(Refusal):
            return await find_top(client, capabilities)
        client.dialect = plain
        raise


# The best mode comes first.
READERS: dict[Mode, _Reader] = {
    "exact": _Reader(find_exact, read_exact, "exact label probabilities"),
    "top": _Reader(_find_top, read_top, "label probabilities from the {top} most probable tokens"),
    "sample": _Reader(find_sampling, read_sampled, "label shares of {samples} sampled answers"),
}


async def still_as_found(client: Client, capabilities: Capabilities) -> None:
    """Check that the server continues a prefix and heeds a switch as in the handshake; Refusal if not."""
    continues = {"top": continues_from_a_token, "sample": continues_from_a_text}.get(
        capabilities.mode
    )
    if continues is not None and capabilities.prefix == "on" and not await continues(client):
        raise changed(NOT_CONTINUED)
    if capabilities.mode == "exact" and not await shows_switch(client):
        raise changed(_IGNORED.format(capabilities.dialect.switch))


VOTES = "one answer a question, the same every time: votes, not probabilities"


async def handshake(client: Client) -> Capabilities:
    """Find the best mode for reading labels, or test the one that `mode` names."""
    demanded, url = client.options.mode, client.options.base_url
    choice = await _first_answer(client)
    if client.options.system:
        # The questions of the handshake have no instruction, and rows do.
        await client.chat(
            with_system(client.options, client.question), most=PLAIN_TOKENS, temperature=0
        )
    client.settling = True
    choice, thinks = await _without_thoughts(
        client, choice, lambda: _answer(client, client.question)
    )
    answer = parse_answer(choice)
    no_tokens = await find_tokens(client)
    refused: list[str] = []
    modes = [mode for mode in READERS if demanded in {"auto", mode}]
    for mode in modes:
        reader = READERS[mode]
        try:
            if thinks and mode != "sample":
                raise Refusal(_THINKS)  # noqa: TRY301  one place that collects reasons
            if mode == "exact" and no_tokens is not None:
                raise Refusal(no_tokens)  # noqa: TRY301
            capabilities = await reader.find(client, Capabilities(mode=mode))
        except Refusal as refusal:
            if refusal.ends_the_run and refusal.status != 404:
                # Rows are sent to this path; the other paths may be missing or forbidden.
                raise
            refused.append(f"{mode}: {refusal.reason}")
            LOG.debug("%s at %s: %s is impossible: %s", client.model, url, mode, refusal.reason)
        else:
            if thinks or client.options.prefix == "none":
                capabilities = replace(capabilities, prefix="unsupported" if thinks else "off")
            return replace(
                capabilities, dialect=client.dialect, thinks=thinks, refused=tuple(refused)
            )
    if answer.ended_at_once:
        raise BackendUnavailableError(
            f"{url}: {client.model!r} gave an empty answer to each of {len(QUESTIONS)} test questions; use an instruct "
            "model, or start the server with the chat template that the model was trained with"
        )
    raise LabelsUnavailableError(
        f"{url}: {client.model!r} does not support the requested mode {demanded} ({'; '.join(refused)}); use mode=auto "
        "for the best supported mode"
    )


def without_handshake(options: Options, refused_fields: Collection[str]) -> Capabilities:
    """Return how labels are read through files: as the option `mode` says, without refused fields."""
    dialect = Dialect(
        length_field="max_completion_tokens" if "max_tokens" in refused_fields else "max_tokens",
        refused=("temperature",) if "temperature" in refused_fields else (),
        tokens=None if options.tokenizer is None else "local",
    )
    if options.mode == "write":
        return Capabilities(mode="write", dialect=dialect)
    if options.mode == "top":
        return Capabilities(mode="top", top=_TOP_OF_FILES, dialect=dialect)
    return Capabilities(mode="sample", several=True, dialect=dialect)


async def meet(client: Client, most: int) -> tuple[Capabilities, Any | None]:
    """Ask the question of `client` as rows will be asked, for at most `most` tokens, and learn from the answer.

    Return how the server writes, and its answer; None where it has none to this question.
    """

    async def ask() -> Any:
        return (await client.chat(client.question, most=most, temperature=0, top_p=1, seed=0))[0]

    choice, thinks = None, False
    try:
        choice, thinks = await _without_thoughts(client, await ask(), ask)
    except Refusal as refusal:
        # What is refused may be this question alone; its row will have the reason.
        if refusal.ends_the_run or refusal.of_the_server:
            raise
    return Capabilities(mode="write", dialect=client.dialect, thinks=thinks), choice


async def _without_thoughts(
    client: Client, choice: Any, ask: Callable[[], Awaitable[Any]]
) -> tuple[Any, bool]:
    """Return an answer without thoughts, if a switch turns them off for `ask`, and whether the model still thinks."""
    answer = parse_answer(choice)
    # An answer that is cut before a word may be a hidden thought.
    if not (answer.thought or answer.cut_before_a_word):
        return choice, False
    plain = client.dialect
    for switch, fields in SWITCHES.items():
        if client.options.extra.keys() & fields.keys():
            # The user has set this field.
            continue
        client.dialect = plain.switched(switch)
        with suppress(Refusal):
            again = await ask()
            quick = parse_answer(again)
            if not (quick.thought or quick.missing):
                return again, False
    client.dialect = plain
    return choice, True


async def _first_answer(client: Client) -> Any:
    """Ask QUESTIONS until one is answered; the handshake continues with it. Learn the server's dialect."""
    for question in QUESTIONS:
        choice = await _answer(client, question)
        if not parse_answer(choice).ended_at_once:
            client.question = question
            break
        LOG.info(
            "%s at %s: %s; asking another question", client.model, client.options.base_url, ENDED
        )
    return choice


async def _answer(client: Client, question: Messages) -> Any:
    return (await client.chat(question, most=PLAIN_TOKENS, temperature=0))[0]


SCHEMA = "endpoint-probe/6"
# Seconds that a handshake is used, because servers are updated.
_GOOD_FOR = 86400


def to_text(capabilities: Capabilities) -> str:
    """Return capabilities as one line of JSON, for a cache."""
    return json.dumps({"schema": SCHEMA, "made": int(time.time()), **asdict(capabilities)})


def from_text(text: str) -> Capabilities | None:
    """Return capabilities from a cache; None if the text is of another version or older than a day."""
    try:
        values = parse_json(text, "the probe cache")
        current = values.pop("schema") == SCHEMA
        current = 0 <= time.time() - values.pop("made") < _GOOD_FOR and current
        # Other programs can write the file, so its values are checked.
        capabilities = parse_as(Capabilities, json.dumps(values), "the probe cache", SCHEMA)
    except (DataError, LookupError, TypeError, AttributeError):
        return None
    sound = bool(capabilities.variant) == (capabilities.mode == "exact") and (
        capabilities.top > 0
    ) == (capabilities.mode == "top")
    known = not capabilities.dialect.switch or capabilities.dialect.switch in SWITCHES
    return capabilities if current and sound and known else None


def kept_probe(options: Options, model: str) -> Capabilities | None:
    """Return the capabilities of an earlier run."""
    path = _file(options)
    return from_text(_read(path).get(_key(options, model), "")) if path else None


def keep(capabilities: Capabilities, options: Options, model: str) -> None:
    """Store capabilities for later runs, if there is a file for them."""
    if path := _file(options):
        # If the folder cannot be created, writing reports why.
        with suppress(OSError):
            make_folder(path.parent)
        write_json(path, {**_read(path), _key(options, model): to_text(capabilities)})


def forget(options: Options, model: str) -> None:
    """Remove the capabilities of a server that has changed."""
    if path := _file(options):
        write_json(
            path, {key: text for key, text in _read(path).items() if key != _key(options, model)}
        )


def _file(options: Options) -> Path | None:
    return None if options.probe_cache is None else Path(options.probe_cache)


def _key(options: Options, model: str) -> str:
    """Return everything that can change the result of a handshake."""
    extra = redacted(dict(options.extra))
    parts = [options.base_url, model, options.mode, options.tokenizer, extra, options.prefix]
    return json.dumps(parts, sort_keys=True)


def _read(path: Path) -> dict[str, str]:
    """Return the entries of a cache file by key; none if it is not a cache file, since a cache only saves requests."""
    try:
        probes = parse_json(path.read_text(encoding="utf-8"), str(path))
    except (FileNotFoundError, DataError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: cannot be read as a probe cache ({type(error).__name__}); name another"
        ) from None
    if not isinstance(probes, dict):
        return {}
    return {key: value for key, value in probes.items() if isinstance(value, str)}
