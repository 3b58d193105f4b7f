"""Log-probabilities of tokens from a causal model, by one of five strategies that return the same numbers.

- `tree`: every distinct token of all prompts once; one cache used as a stack, and attention in parts (see `attention`).
- `masked`: one cache used as a stack, with the model's own attention and a mask that shows a token its ancestors.
- `copied`: every distinct token once; the cache is copied where prompts branch. For caches that cannot be cropped.
- `batches`: every prompt whole, in right-padded batches.
- `single`: every prompt whole and alone; the reference for the self-check.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.engine import attention
from refladder.engine.batches import by_length, cache_name, padded
from refladder.engine.memory import halve_until_it_fits, tokens_that_fit
from refladder.engine.trie import (
    Node,
    NodeRead,
    Pop,
    Push,
    Read,
    Segment,
    build_trie,
    plan,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from refladder.arrays import FloatArray

log = logging.getLogger(__name__)

# Fastest first, with their names in messages.
STRATEGIES = {
    "tree": "Prefix-tree inference",
    "masked": "Prefix-tree inference with masks",
    "copied": "Prefix-tree inference with copied caches",
    "batches": "Batched inference",
    "single": "Plain inference",
}
_ORDER = tuple(STRATEGIES)
FALLING_BACK = "%s: %s %s. Falling back to a slower strategy."
# A fifth faster than 2,048; the memory limits it further (see `tokens_that_fit`).
_FORWARD_TOKENS = 8192
_LEAST_TOKENS = 16
_BATCH_ROWS = 16
# Positions whose logits are converted to float32 together: more would not stay in a cache.
_LOGIT_ROWS = 16

# Layers of a cache that forget the last tokens when asked. A dummy one is that of a layer that reads the keys of an
# earlier layer (Gemma 3n and 4); transformers 4 has no such class.
_CROPPABLE = {"DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer"}


class Causal:
    """A causal model that returns the log-probabilities of chosen tokens by `strategy`, one of `strategies`."""

    def __init__(
        self, model: Any, dtype: str, memory: int, forward_tokens: int | None = None
    ) -> None:
        self.model = model
        self.tokens_run = 0
        self.dtype = dtype
        self.memory = memory
        # None means as many as the strategy wants.
        self.forward_tokens = forward_tokens
        self._config = model.config.get_text_config()
        self._arguments = set(inspect.signature(model.forward).parameters)
        self._cache_name = cache_name(model)
        layer_kinds = set(getattr(self._config, "layer_types", None) or ())
        window = getattr(self._config, "sliding_window", None)
        # The model takes a mask for each kind of layer.
        self._mixed = "sliding_attention" in layer_kinds
        self.window: int | None = window if self._mixed or not layer_kinds else None
        self._mask_dtype = model.dtype
        self.strategies = self._supported()
        self.strategy = self.strategies[0]

    @property
    def name(self) -> str:
        """Return the type of the model, for messages."""
        return str(self._config.model_type)

    @property
    def reads_in_chunks(self) -> bool:
        """Return whether prompts may be read in chunks; transformers 4 counts a continued cache's padding in mrope."""
        from transformers import __version__ as version

        counted = version.startswith("4.") and "mrope" in self._rotation
        chunked = self.strategy in {"tree", "masked"}
        return chunked and not counted and not self._rotation_depends_on_length

    @property
    def _rotation(self) -> str:
        return str(
            getattr(self._config, "rope_parameters", None)
            or getattr(self._config, "rope_scaling", None)
        )

    @property
    def _rotation_depends_on_length(self) -> bool:
        """Return whether the longest prompt of a forward pass changes the positions of the others."""
        return any(kind in self._rotation for kind in ("dynamic", "longrope"))

    def _supported(self) -> tuple[str, ...]:
        """Return the strategies that the architecture allows, fastest first; the self-check then tries them."""
        from transformers.cache_utils import DynamicCache

        if self._cache_name not in self._arguments:
            return _ORDER[3:]
        layers = DynamicCache(config=self._config).layers
        croppable = {type(layer).__name__ for layer in layers} <= _CROPPABLE
        named = set(getattr(self._config, "layer_types", None) or ()) <= {
            "full_attention",
            "sliding_attention",
        }
        # ALiBi measures distance along the row and ignores position ids.
        alibi = getattr(self._config, "alibi", False)
        if croppable and named and not alibi and "position_ids" in self._arguments:
            replaced = self._attention_name in {"sdpa", "eager"}
            return _ORDER if replaced and self.model.device.type == "cpu" else _ORDER[1:]
        return _ORDER[2:]

    @property
    def _attention_name(self) -> str:
        return str(self.model.config._attn_implementation)  # noqa: SLF001  no public name exists

    @contextlib.contextmanager
    def masks_in_float32(self) -> Iterator[None]:
        """Make masks for a model that runs in float32 though its weights are in half precision."""
        import torch

        before, self._mask_dtype = self._mask_dtype, torch.float32
        try:
            yield
        finally:
            self._mask_dtype = before

    def logprobs(self, sequences: Sequence[Sequence[int]], reads: Sequence[Read]) -> FloatArray:
        """Return log-probabilities of tokens after chosen positions of sequences, shape (reads,); a NaN is the model's."""
        longest = max(map(len, sequences))
        count = len(reads)
        wanted = self.forward_tokens or _FORWARD_TOKENS
        most = tokens_that_fit(wanted, longest, count, self._config, self.memory)
        root, leaf_of = build_trie(sequences, reads)
        description = f"{self._config.model_type} with prompts of up to {longest} tokens"
        run = {
            "tree": functools.partial(self._with_tree_attention, root, count),
            "masked": functools.partial(self._over_tree, root, count, self._mask),
            "copied": functools.partial(self._with_copied_caches, root, count),
        }.get(self.strategy)
        logprobs = np.full(count, np.nan)
        if run is not None:
            logprobs, fitting = halve_until_it_fits(
                lambda tokens: (run(tokens), tokens), most, _LEAST_TOKENS, description
            )
            if fitting < most:
                self.forward_tokens = fitting
        # A NaN passes through masks and spoils the other tokens of its row, so these reads are repeated apart.
        missing = np.flatnonzero(~np.isfinite(logprobs)).tolist()
        if missing:
            repeated = []
            for number in missing:
                sequence, position, token = reads[number]
                repeated.append(Read(leaf_of[sequence], position, token))
            batch_tokens = 1 if self.strategy == "single" else max(most, longest)
            logprobs[missing] = halve_until_it_fits(
                lambda tokens: self._in_batches(sequences, repeated, tokens),
                batch_tokens,
                1,
                description,
            )
        return logprobs

    def _with_tree_attention(self, root: Node, reads: int, most: int) -> FloatArray:
        """Run a tree with the attention of this package, then give the model its own again."""
        attention.register()
        original = self._attention_name
        self.model.set_attn_implementation(attention.NAME)
        try:
            return self._over_tree(root, reads, self._parts, most)
        finally:
            self.model.set_attn_implementation(original)

    def _parts(self, segment: Segment) -> Mapping[str, object]:
        parts = {"parts": attention.parts_of(segment, self._mask_dtype)}
        if self.window is not None and int(segment.positions.max()) >= self.window:
            parts["window_parts"] = attention.parts_of(segment, self._mask_dtype, self.window)
        return parts

    def _over_tree(
        self,
        root: Node,
        reads: int,
        visibility: Callable[[Segment], Mapping[str, object]],
        most: int,
    ) -> FloatArray:
        """Run a tree with one cache; `visibility` returns the arguments that show each token its ancestors."""
        from transformers.cache_utils import DynamicCache

        logprobs = np.full(reads, np.nan)
        # Without the configuration, so that layers with a window keep all keys; masks hide them.
        cache = DynamicCache()
        for step in plan(root, most):
            if isinstance(step, Pop):
                cache.crop(-step.tokens)
                continue
            segment = step.segment
            if segment.tokens.size:
                named = {self._cache_name: cache}
                self._run(segment, logprobs, **named, **visibility(segment))
                if not isinstance(step, Push):
                    cache.crop(-segment.tokens.size)
        return logprobs

    def _with_copied_caches(self, root: Node, reads: int, most: int) -> FloatArray:
        from transformers.cache_utils import DynamicCache

        logprobs = np.full(reads, np.nan)
        pending = [(root, DynamicCache(config=self._config))]
        while pending:
            node, cache = pending.pop()
            # As a node larger than a row and without children, its tokens are all pushed.
            for step in plan(replace(node, children=[], size=node.tokens.size + most), most):
                if isinstance(step, Push):
                    self._run(step.segment, logprobs, **{self._cache_name: cache})
            last = len(node.children) - 1
            for number, child in enumerate(node.children):
                pending.append((child, copy.deepcopy(cache) if number < last else cache))
        return logprobs

    def _run(self, segment: Segment, logprobs: FloatArray, **arguments: Any) -> None:
        """Run a segment and write its reads into `logprobs`."""
        import torch

        device = self.model.device
        if "position_ids" in self._arguments:
            arguments["position_ids"] = torch.from_numpy(segment.positions)[None].to(device)
        ids = torch.from_numpy(segment.tokens)[None].to(device)
        wanted = [(0, read) for read in segment.reads]
        arguments.setdefault("use_cache", True)
        logprobs[[read.number for read in segment.reads]] = self._forward(ids, wanted, **arguments)

    def _in_batches(
        self, sequences: Sequence[Sequence[int]], reads: Sequence[Read], batch_tokens: int
    ) -> FloatArray:
        """Run whole sequences, padded at their ends, where no token sees the padding."""
        logprobs = np.full(len(reads), np.nan)
        reads_of: dict[int, list[NodeRead]] = {}
        for number, read in enumerate(reads):
            reads_of.setdefault(read.sequence, []).append(
                NodeRead(read.position, read.token, number)
            )
        device = self.model.device
        for batch in by_length(
            reads_of, lambda number: len(sequences[number]), batch_tokens, _BATCH_ROWS
        ):
            ids, mask = padded([sequences[number] for number in batch], len(sequences[batch[0]]))
            chosen: list[tuple[int, NodeRead]] = []
            for row, sequence in enumerate(batch):
                chosen += [(row, read) for read in reads_of[sequence]]
            masked = {} if bool(mask.all()) else {"attention_mask": mask.to(device)}
            values = self._forward(ids.to(device), chosen, use_cache=False, **masked)
            logprobs[[read.number for _, read in chosen]] = values
        return logprobs

    def _forward(
        self, ids: Any, wanted: Sequence[tuple[int, NodeRead]], **arguments: Any
    ) -> FloatArray:
        """Run the model once on ids of shape (rows, tokens), for reads of some rows; shape (wanted,), in float32."""
        import torch

        # A model returns at least one logit, so one position is read in any case.
        indices = sorted({read.offset for _, read in wanted}) or [ids.shape[1] - 1]
        read_at = torch.as_tensor(indices, device=ids.device)
        selects = "logits_to_keep" in self._arguments
        if selects:
            arguments["logits_to_keep"] = read_at
        self.tokens_run += ids.numel()
        logprobs = np.empty(len(wanted))
        with torch.inference_mode():
            logits = self.model(input_ids=ids, **arguments).logits
            if not selects:
                logits = logits[:, read_at]
            flat = logits.flatten(0, 1)
            column_of = {index: number for number, index in enumerate(indices)}
            rows = np.array(
                [row * len(indices) + column_of[read.offset] for row, read in wanted],
                dtype=np.int64,
            )
            tokens = np.array([read.token for _, read in wanted], dtype=np.int64)
            order = np.argsort(rows, kind="stable")
            distinct, starts = np.unique(rows[order], return_index=True)
            edges = [*starts.tolist(), order.size]
            for first in range(0, distinct.size, _LOGIT_ROWS):
                some = distinct[first : first + _LOGIT_ROWS]
                members = order[edges[first] : edges[first + some.size]]
                chosen = flat.index_select(0, torch.from_numpy(some).to(ids.device))
                distributions = torch.log_softmax(chosen.float(), dim=-1)
                selected = distributions[np.searchsorted(some, rows[members]), tokens[members]]
                logprobs[members] = selected.double().cpu().numpy()
        return logprobs

    def _mask(self, segment: Segment) -> Mapping[str, object]:
        """Return an additive mask of what each token sees; no mask if the model's own has the same effect."""
        import torch

        length, past = segment.tokens.size, segment.start
        if not past and segment.is_chain and (self.window is None or length <= self.window):
            return {}
        device, dtype = self.model.device, self._mask_dtype
        index = torch.arange(length, device=device)
        ends = torch.from_numpy(segment.ends).to(device)
        within = (index[None, :] <= index[:, None]) & (index[:, None] < ends[None, :])
        visible = torch.cat(
            [torch.ones((length, past), dtype=torch.bool, device=device), within], dim=1
        )
        if self.window is None:
            return {"attention_mask": _additive(visible, dtype)}
        position = torch.from_numpy(segment.positions).to(device)
        key_positions = torch.cat([torch.arange(past, device=device), position])
        near = visible & (position[:, None] - key_positions[None, :] < self.window)
        if not self._mixed:
            return {"attention_mask": _additive(near, dtype)}
        masks = {
            "full_attention": _additive(visible, dtype),
            "sliding_attention": _additive(near, dtype),
        }
        return {"attention_mask": masks}


def _additive(visible: Any, dtype: Any) -> Any:
    """Return 0 where visible, else the lowest number; unlike a boolean mask, it suits every implementation."""
    import torch

    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)[None, None]
