"""Free memory, tokens that fit in a forward pass, and smaller batches if memory runs out."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from refladder.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# Share of the free memory.
_USABLE_SHARE = 0.7
# Set for the workers of `refladder score --workers N`, which share the memory of one machine: their number.
WORKERS = "REFLADDER_WORKERS"
_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory", re.IGNORECASE)


def usable_memory(device: Any) -> int:
    """Return the bytes that inference may use: 70 % of the free memory, which workers share on a CPU."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0] * _USABLE_SHARE)
    # Outside Linux, this is the only figure.
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError):
        for line in _MEMINFO.read_text("ascii").splitlines():
            if line.startswith("MemAvailable"):
                free = int(line.split()[1]) * 1024
    # A container may have a limit of its own; without one the file holds "max".
    with contextlib.suppress(OSError, ValueError):
        used = int((_CGROUP / "memory.current").read_text("ascii"))
        free = min(free, int((_CGROUP / "memory.max").read_text("ascii")) - used)
    return int(max(0, free) * _USABLE_SHARE) // int(os.environ.get(WORKERS, "1"))


def cache_bytes_per_token(config: Any, number_bytes: int) -> int:
    """Return the bytes of the keys and values of one token in all layers."""
    return 2 * number_bytes * sum(_key_numbers(layer) for layer in _layers(config))


def _layers(config: Any) -> list[Any]:
    """Return the configuration of each layer; that of the model hides what differs between layers (Gemma 4)."""
    if getattr(config, "is_heterogeneous", False):
        return list(config.per_layer_config)
    return [config] * int(
        getattr(config, "num_hidden_layers", 0) or getattr(config, "num_layers", 12)
    )


def _key_numbers(config: Any) -> int:
    """Return how many numbers the keys of one token have in one layer."""
    hidden = int(getattr(config, "hidden_size", 0) or getattr(config, "d_model", 1024))
    heads = int(getattr(config, "num_attention_heads", 0) or 16)
    width = int(getattr(config, "head_dim", 0) or max(1, hidden // heads))
    return int(getattr(config, "num_key_value_heads", 0) or heads) * width


def _inner_width(config: Any) -> int:
    width = getattr(config, "intermediate_size", 0) or 0
    # A list has the width of each layer (Gemma 3n).
    return int(max(width) if isinstance(width, list) else width)


def tokens_that_fit(wanted: int, longest: int, reads: int, config: Any, memory: int) -> int:
    """Return how many tokens fit in a forward pass beside the `longest` cached sequence: `wanted`, halved until they fit."""
    hidden = int(getattr(config, "hidden_size", 0) or getattr(config, "d_model", 1024))
    layers = _layers(config)
    inner = max((_inner_width(layer) for layer in layers), default=0) or 4 * hidden
    heads = max(
        (int(getattr(layer, "num_attention_heads", 0) or 16) for layer in layers), default=16
    )
    score_bytes = 4 * heads if getattr(config, "_attn_implementation", "") == "eager" else 8
    # The cache counts twice, because it is copied when it grows.
    key_bytes = 2 * cache_bytes_per_token(config, 4)
    tokens = wanted
    while tokens > 1:
        activations = 4 * tokens * (12 * hidden + 4 * inner)
        attention = score_bytes * tokens * (tokens + longest)
        cache = key_bytes * (tokens + longest)
        # 128 bytes per vocabulary entry: 16 positions in float32, with their logarithms.
        logits = (4 * min(reads, tokens) + 128) * int(getattr(config, "vocab_size", 0) or 32_000)
        if activations + attention + cache + logits <= memory:
            break
        tokens //= 2
    return tokens


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error of torch or Python means that memory ran out."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and bool(_OUT_OF_MEMORY.search(str(error)))
    )


def halve_until_it_fits(run: Callable[[int], T], most: int, least: int, description: str) -> T:
    """Run with `most` items at a time; after each out-of-memory error, with half as many, `least` at the least."""
    while True:
        try:
            return run(most)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if most // 2 < least:
                raise BackendError(
                    f"{description}: out of memory even with {most} at a time; use a smaller model, "
                    "dtype=bfloat16 or a machine with more memory"
                ) from error
        most //= 2
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()
