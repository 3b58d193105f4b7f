"""Attention over a row of whole sequences on a GPU: one kernel for each layer, which skips keys that no query sees.

A row is a tree in preorder, so the query at i sees the key at j if j <= i < ends[j]. A later block of queries sees some
of a block of keys if its largest end is behind the first query, and all of it if its smallest end is behind the last.
The kernel reads these blocks only, and applies a mask only where a block is seen in part.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.engine.trie import Segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from refladder.arrays import BoolArray

NAME = "refladder_forest"
# Most tokens of a row. Each mask has a tensor of this size, so that its kernel suits rows of every length.
ROW_TOKENS = 32_768
_BLOCK = 128
# Kernels: for full attention and for windows, in two precisions, for one length and for all, of several models.
_MOST_KERNELS = 256
# Queries of each row that are compared with the equations, and the largest relative difference, root mean square.
_SAMPLE = 16
_TOLERANCE = {"float32": 1e-3, "bfloat16": 3e-2, "float16": 3e-2}


@dataclass(slots=True)
class Blocks:
    """The block mask of a row, and whether its kernel was compared with the equations."""

    mask: Any
    compared: bool = False


def supported() -> bool:
    """Return whether torch has the kernel in the form that is used here, as it has from 2.9 on."""
    from torch.nn.attention import flex_attention

    return hasattr(flex_attention, "AuxRequest")


def padded(segment: Segment) -> Segment:
    """Return a row of whole blocks; a token of the padding sees itself, and no other token sees it."""
    size = segment.tokens.size
    rest = np.zeros(-size % _BLOCK, dtype=np.int64)
    return Segment(
        start=0,
        tokens=np.concatenate([segment.tokens, rest]),
        positions=np.concatenate([segment.positions, rest]),
        ends=np.concatenate([segment.ends, np.arange(size, size + rest.size) + 1]),
        reads=segment.reads,
    )


def blocks_of(segment: Segment, device: Any, window: int | None = None) -> Blocks:
    """Return the blocks of a padded row; with a `window`, a query sees at most that many keys."""
    import torch
    from torch.nn.attention.flex_attention import BlockMask

    def buffer(values: Any) -> Any:
        tensor = torch.zeros(ROW_TOKENS, dtype=torch.int32)
        tensor[: values.size] = torch.from_numpy(values)
        return tensor.to(device)

    # Tensors only: a number that differs between models would become a variable of the kernel.
    ends, positions = buffer(segment.ends), buffer(segment.positions)
    hidden = buffer(segment.positions - (window or 0))

    def visible(_row: Any, _head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & (query < ends[key])

    def near(_row: Any, _head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & (query < ends[key]) & (positions[key] > hidden[query])

    some, every = _seen(segment, window)
    mask = BlockMask.from_kv_blocks(
        *_listed(some & ~every, device),
        *_listed(every, device),
        BLOCK_SIZE=_BLOCK,
        mask_mod=visible if window is None else near,
        compute_q_blocks=False,
    )
    return Blocks(mask)


def _seen(segment: Segment, window: int | None) -> tuple[BoolArray, BoolArray]:
    """Return whether some keys may be seen, and whether all queries see all keys: shape (blocks of queries, of keys)."""
    ends, positions = (array.reshape(-1, _BLOCK) for array in (segment.ends, segment.positions))
    first = np.arange(len(ends))[:, None] * _BLOCK
    earlier = np.tri(len(ends), k=-1, dtype=bool)
    some = np.eye(len(ends), dtype=bool) | (earlier & (ends.max(axis=1) > first))
    every = earlier & (ends.min(axis=1) >= first + _BLOCK)
    if window is not None:
        lowest, highest = positions.min(axis=1), positions.max(axis=1)
        some &= lowest[:, None] - highest < window
        every &= highest[:, None] - lowest < window
    return some, every


def _listed(blocks: BoolArray, device: Any) -> tuple[Any, Any]:
    """Return the number of blocks of keys of each block of queries, and their indices; unused blocks come last."""
    import torch

    order = np.argsort(~blocks, axis=1, kind="stable").astype(np.int32)
    counts = blocks.sum(axis=1, dtype=np.int32)
    return (
        torch.from_numpy(counts)[None, None].to(device),
        torch.from_numpy(order)[None, None].to(device),
    )


def register() -> None:
    """Register `attend` with transformers, under NAME."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)


@functools.cache
def _kernel(device: str) -> Callable[..., Any]:
    """Return the kernel, compiled on first use; on a CPU, where it serves tests, its operations run one by one.

    Without `fullgraph`, torch would silently compute a dense matrix of scores where it cannot compile.
    """
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    backend = "inductor" if device == "cuda" else "eager"
    compiled: Callable[..., Any] = torch.compile(flex_attention, fullgraph=True, backend=backend)
    return compiled


def attend(
    _module: Any,
    query: Any,
    key: Any,
    value: Any,
    _attention_mask: Any,
    *,
    blocks: Blocks | None = None,
    window_blocks: Blocks | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    **others: Any,
) -> tuple[Any, None]:
    """Compute the attention of one layer; arguments and result are those of `attention.attend`."""
    import torch

    if blocks is None or others.get("position_bias") is not None:
        raise NotImplementedError("block-sparse attention without blocks or with position_bias")
    if sliding_window is not None and window_blocks is not None:
        blocks = window_blocks

    def capped(score: Any, *_place: Any) -> Any:
        return softcap * torch.tanh(score / softcap)

    arguments = {"scale": query.shape[-1] ** -0.5 if scaling is None else scaling}
    arguments["score_mod"] = None if softcap is None else capped
    if s_aux is not None:
        from torch.nn.attention.flex_attention import AuxRequest

        arguments["return_aux"] = AuxRequest(lse=True)
    # Kernels have a fixed scale and cap. No public name for this setting exists.
    with torch._dynamo.config.patch(recompile_limit=_MOST_KERNELS, specialize_float=True):  # noqa: SLF001
        output = _kernel(query.device.type)(
            query, key, value, block_mask=blocks.mask, enable_gqa=True, **arguments
        )
    if s_aux is not None:
        output, sums = output[0], output[1].lse
    if not blocks.compared:
        _compare((query, key, value), output, blocks.mask.mask_mod, arguments)
        blocks.compared = True
    if s_aux is not None:
        kept = torch.sigmoid(sums - s_aux.float()[:, None])
        output = output * kept[..., None].to(output.dtype)
    return output.transpose(1, 2), None


def _compare(inputs: Any, output: Any, visible: Any, arguments: dict[str, Any]) -> None:
    """Compare the output at some queries with the equations, in float32; raise RuntimeError if it is wrong."""
    import torch

    query, key, value = inputs
    (_, heads, tokens, width), key_heads = query.shape, key.shape[1]
    queries = torch.linspace(0, tokens - 1, _SAMPLE, device=query.device).long()
    some = query[0, :, queries].float().reshape(key_heads, -1, width)
    scores = arguments["scale"] * some @ key[0].float().transpose(1, 2)
    if arguments["score_mod"] is not None:
        scores = arguments["score_mod"](scores)
    seen = visible(0, 0, queries[:, None], torch.arange(tokens, device=query.device)[None])
    weights = torch.softmax(
        scores.masked_fill(~seen.repeat(heads // key_heads, 1), -torch.inf), dim=-1
    )
    expected = (weights @ value[0].float()).reshape(heads, _SAMPLE, -1)
    difference = (output[0, :, queries].float() - expected).norm() / expected.norm()
    # A NaN comes from the model: these reads are repeated apart.
    if difference > _TOLERANCE[str(output.dtype).removeprefix("torch.")]:
        raise RuntimeError(
            f"attention over {tokens} tokens is off by {float(difference):.1%} of its size"
        )
