"""How fast matrix products are on this processor, for the choice between half precision and float32."""

from __future__ import annotations

import functools
import time

_SIZE = 512  # rows and columns: large enough for the units that multiply matrices, and a few milliseconds a product
_REPEATS = 5


@functools.cache
def operations_per_second(dtype: str) -> float:
    """The rate of matrix products on the CPU, the best of a few; measured once in a process."""
    import torch  # noqa: PLC0415  optional

    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(_SIZE, _SIZE, generator=generator).to(getattr(torch, dtype)) for _ in range(2))
    seconds = []
    for _ in range(_REPEATS + 1):  # the first one allocates
        start = time.perf_counter()
        torch.nn.functional.linear(left, right)
        seconds.append(time.perf_counter() - start)
    return 2 * _SIZE**3 / min(seconds[1:])
