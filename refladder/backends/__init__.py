"""Writers and judges behind one interface (see `protocol`).

`connect("builtin")`, `connect("hf:ORG/MODEL")`: a kind and, after a colon, the model or file.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, cast

from refladder.backends.plug_in import PlugIn
from refladder.backends.protocol import Backend, Streaming, Wrapper, in_batches, in_order, whole
from refladder.errors import UnknownNameError, UsageError, option
from refladder.files.jsonl import check_name
from refladder.registry import Entry, find, names, plugged_in
from refladder.typed import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "BACKENDS",
    "Backend",
    "Streaming",
    "Wrapper",
    "connect",
    "in_batches",
    "in_order",
    "opener_of",
    "whole",
]

BACKENDS = {
    "builtin": Entry(
        "refladder.backends.builtin:open_builtin",
        "surface features, no model, no network: the baseline, and the default",
    ),
    "hf": Entry(
        "refladder.backends.hf:open_hf",
        "hf:ORG/MODEL, hf:FOLDER or hf:FILE.gguf, a model of transformers here; pip install torch transformers",
    ),
    "openai": Entry(
        "refladder.backends.openai:open_openai",
        "openai:MODEL on any OpenAI-compatible server, with --base-url; pip install aiohttp tenacity",
    ),
    "reward": Entry(
        "refladder.backends.reward_models:open_reward",
        "reward:ORG/MODEL or reward:FOLDER, a reward model here, or on SGLang or vLLM with --base-url; reads each text "
        "once",
    ),
    "scripted": Entry(
        "refladder.backends.scripted:open_scripted",
        "scripted:FILE answers by the rules in a file; a stand-in for tests",
    ),
}

_MODEL_OF_A_SERVER = re.compile(
    r"(chatgpt|claude|command|deepseek|gemini|gemma|glm|gpt|grok|kimi|llama|mi[ns]tral|mixtral|o\d|phi|qwen)[^/]*$",
    re.IGNORECASE,
)
# Programs and services with an OpenAI-compatible API, by what people write before the model.
_SERVERS = {
    "ollama": ", such as http://127.0.0.1:11434/v1",
    "vllm": ", such as http://127.0.0.1:8000/v1",
    "llama.cpp": ", such as http://127.0.0.1:8080/v1",
    **dict.fromkeys(
        ("azure", "anthropic", "gemini", "google", "groq", "mistral", "openrouter"), ""
    ),
    **dict.fromkeys(("sglang", "tgi", "together", "lmstudio"), ""),
}
# A model of the Hub is named ORG/NAME.
_ON_THE_HUB = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@checked
def connect(name: str, **options: object) -> Backend:
    """Open a backend by name: `builtin`, `hf:ORG/MODEL`, `scripted:PATH`, or one that an installed package registers.

    Args:
        name: a kind and, after a colon, the model or file.
        options: text, or values of Python; their names are the keyword-only arguments of the kind's opener.

    Raises:
        UnknownNameError: no such kind of backend, or no such option of it.
        UsageError: an option's value is not what it must be.
        BackendUnavailableError: it exists but cannot be opened.
    """
    opener = opener_of(name, options)
    kind, _, target = name.partition(":")
    if kind in BACKENDS:
        return opener(target, **options)
    with plugged_in("backend", kind):
        return PlugIn(opener(target, **options), kind)


def opener_of(name: str, options: Iterable[str]) -> Callable[..., Backend]:
    """Return the function that opens a backend, once it is sure to have these options."""
    kind = name.partition(":")[0]
    check_name(name, "signatures")
    if kind == "distilled":
        raise UsageError(
            f"{name} estimates scores and compares no texts; use it as the judge of `score` only"
        )
    if kind not in BACKENDS and kind not in (known := names("backend", BACKENDS)):
        if kind.lower() in {"http", "https"}:
            raise UsageError(
                f"{name!r} is an address, and a judge is a model: name it as openai:MODEL, with {option('base-url')} {name}"
            )
        if kind.lower() in _SERVERS and ":" in name:
            raise UsageError(
                f"unknown backend {name!r}: a server is openai:{name.partition(':')[2]} with {option('base-url')} URL"
                f"{_SERVERS[kind.lower()]}"
            )
        raise UnknownNameError("backend", name, known, _with_kind(name))
    opener = find("backend", kind, BACKENDS)
    option_names = []
    for parameter in inspect.signature(opener).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            option_names.append(parameter.name)
    for name_of_option in options:
        if name_of_option not in option_names:
            raise UnknownNameError(f"option of backend {kind!r}", name_of_option, option_names)
    return cast("Callable[..., Backend]", opener)


def _with_kind(name: str) -> str | None:
    """Return a model's name with the kind of backend that opens it; None if it does not look like a model's name."""
    if name.startswith("openai/") or _MODEL_OF_A_SERVER.match(name):
        return f"openai:{name.removeprefix('openai/')}"
    return f"hf:{name}" if _ON_THE_HUB.fullmatch(name) else None
