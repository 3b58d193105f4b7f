"""How much memory there is, how much a forward takes, and what to do when there was too little."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from refladder.errors import BackendError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SHARE = 0.7  # of what is free, when nothing is asked for
_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h
_EXHAUSTED = re.compile(r"out of memory|can't allocate memory|not enough memory", re.IGNORECASE)


def parse_memory(text: str) -> int | None:
    """`8G`, `512M` or a number of bytes; None for `auto`.

    Raises:
        UsageError: it is none of these.
    """
    if text == "auto":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if found is None or float(found[1]) == 0:
        raise UsageError(f"memory={text}: must be an amount such as 8G or 512M, or auto")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def free_memory(device: Any) -> int:  # noqa: ANN401  a torch.device
    """Bytes that may be used on a device: a share of those that are free."""
    if device.type == "cuda":
        import torch  # noqa: PLC0415  optional

        return int(torch.cuda.mem_get_info(device)[0] * _SHARE)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # elsewhere than on Linux all that is known
    with contextlib.suppress(OSError, StopIteration):
        lines = _MEMINFO.read_text("ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    with contextlib.suppress(OSError, ValueError):  # in a container that has a limit; without one it says "max"
        used = int((_CGROUP / "memory.current").read_text("ascii"))
        free = min(free, int((_CGROUP / "memory.max").read_text("ascii")) - used)
    return int(max(0, free) * _SHARE)


def memory_beside(device: Any, asked: int | None) -> int:  # noqa: ANN401  a torch.device
    """Bytes that may be used beside the weights: what was asked for, or a share of what is free."""
    if device.type == "cpu":
        keep_freed_memory()
    return free_memory(device) if asked is None else asked


def keep_freed_memory() -> None:
    """Tell glibc to keep large buffers that were freed: by default every layer faults its activations in again.

    What it gains is in bench/results/local_tree.md. Elsewhere than on glibc nothing happens.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)  # never give memory back


def ask_for_huge_pages() -> None:
    """Let torch take large buffers in huge pages, where Linux leaves that to programs.

    It looks at this variable once, before its first large buffer; what a user has set stays.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def kept_bytes(config: Any, size: int) -> int:  # noqa: ANN401  of transformers
    """Bytes of the keys and values of one token in all layers.

    Args:
        config: of a text model.
        size: bytes of one number.
    """
    hidden = int(getattr(config, "hidden_size", 0) or getattr(config, "d_model", 1024))
    layers = int(getattr(config, "num_hidden_layers", 0) or getattr(config, "num_layers", 12))
    heads = int(getattr(config, "num_attention_heads", 0) or 16)
    width = int(getattr(config, "head_dim", 0) or max(1, hidden // heads))
    return 2 * layers * int(getattr(config, "num_key_value_heads", 0) or heads) * width * size


def fitting(row: int, longest: int, reads: int, config: Any, memory: int) -> int:  # noqa: ANN401  of transformers
    """Tokens that may go through a model in one forward, by a rough count of what lives at once in a layer.

    Args:
        row: as many as are wanted.
        longest: tokens of the longest sequence, whose keys and values are kept meanwhile.
        reads: places whose logits are wanted; they may all stand in one forward.
        config: of a text model.
        memory: bytes that may be used.
    """
    hidden = int(getattr(config, "hidden_size", 0) or getattr(config, "d_model", 1024))
    inner = int(getattr(config, "intermediate_size", 0) or 4 * hidden)
    heads = int(getattr(config, "num_attention_heads", 0) or 16)
    scores = 4 * heads if getattr(config, "_attn_implementation", "") == "eager" else 8
    while row > 1:
        activations = 4 * row * (12 * hidden + 4 * inner)
        attention = scores * row * (row + longest)
        kept = 2 * kept_bytes(config, 4) * (row + longest)  # twice: a cache is copied where it grows
        logits = (4 * min(reads, row) + 128) * int(getattr(config, "vocab_size", 0) or 32_000)  # 16 places in float32
        if activations + attention + kept + logits <= memory:
            break
        row //= 2
    return row


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of torch says that memory was short."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_EXHAUSTED.search(str(error))))


def halving(run: Callable[[int], T], most: int, least: int, what: str) -> T:
    """Run with `most` tokens at a time, and with half of it as often as memory is short.

    Raises:
        BackendError: not even `least` tokens fit.
    """
    while True:
        try:
            return run(most)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if most // 2 < least:
                raise BackendError(
                    f"{what}: out of memory even with {most} at a time; use a smaller model, "
                    "dtype=bfloat16 or a machine with more memory"
                ) from error
        most //= 2
        release()


def release() -> None:
    """Give cached blocks of a GPU back, after an out-of-memory error."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
