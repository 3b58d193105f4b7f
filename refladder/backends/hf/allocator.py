"""Settings of the memory allocators of the whole process, which make local models on a CPU faster."""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h
_HUGE_PAGES = "THP_MEM_ALLOC_ENABLE"


def tune_allocators() -> None:
    """Keep freed memory in the process, and let torch use huge pages (figures: bench/results/local_tree.md)."""
    os.environ.setdefault(_HUGE_PAGES, "1")
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, -1)  # never return memory to the kernel
