"""Log-probabilities of tokens from a causal model, in five ways that give the same numbers.

- `tree`: every distinct token of all prompts once; one cache as a stack, and attention in parts (see `attention`).
- `masked`: the same with the model's own attention and a mask that shows a token its ancestors.
- `copied`: every distinct token once; the cache is copied where prompts part. For caches that cannot be cropped.
- `batches`: every prompt whole, in right-padded batches.
- `single`: every prompt whole and alone.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.engine import attention
from refladder.engine.kernels import Shortcuts
from refladder.engine.memory import fitting, halving
from refladder.engine.trie import Node, Pop, Push, Read, Segment, build_trie, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

log = logging.getLogger(__name__)

WAYS = ("tree", "masked", "copied", "batches", "single")
ROW = 8192  # a fifth faster than 2,048; memory bounds it (see `fitting`)
_AT_ONCE = 16  # places whose logits become float32 together: all of them would not stay in a cache
_ROWS = 16  # of a padded batch
_FEW = (
    16  # of so many tokens one is read, or fewer, where attention of the last layer is for those alone: it needs masks
)
_LEAST = 16
_TOLERANCE = 1e-3  # nats, between two ways in float32
_HALF_TOLERANCE = 0.1
_LONGEST_CHECK = 1100  # a window up to here is made shorter than the prompts of the check


class Causal:
    """A causal model that gives the log-probabilities of chosen tokens.

    `way` is the one in use, and `tokens_run` counts the tokens that went through the model, padding included.

    Args:
        model: of transformers.
        dtype: "float32", "bfloat16" or "float16".
        memory: bytes that may be used beside the weights.
        row: tokens in one forward at most.
    """

    def __init__(self, model: Any, dtype: str, memory: int, row: int = ROW) -> None:  # noqa: ANN401
        self.model = model
        self.tokens_run = 0
        self._dtype = dtype
        self._memory = memory
        self._row = row
        self._config = model.config.get_text_config()
        self._arguments = set(inspect.signature(model.forward).parameters)
        kinds = set(getattr(self._config, "layer_types", None) or ())
        window = getattr(self._config, "sliding_window", None)
        self._mixed = "sliding_attention" in kinds  # the model takes a mask for each kind of layer
        self._window: int | None = window if self._mixed or not kinds else None
        self.ways = self._possible()
        self.way = self.ways[0]
        self._shortcuts: Shortcuts | None = Shortcuts(model)

    @property
    def longest(self) -> int | None:
        """Tokens that fit in the model's context; None where it sets no limit."""
        return getattr(self._config, "max_position_embeddings", None)

    @property
    def crops(self) -> bool:
        """Whether the cache holds keys and values of every token, so that a prefix can be kept and shared."""
        return "masked" in self.ways

    @property
    def in_pieces(self) -> bool:
        """Whether a prompt may be run in pieces: the cache keeps every token, and no rotation depends on the length."""
        rotation = getattr(self._config, "rope_parameters", None) or getattr(self._config, "rope_scaling", None)
        return self.way in {"tree", "masked"} and not any(kind in str(rotation) for kind in ("dynamic", "longrope"))

    def _possible(self) -> tuple[str, ...]:
        """The ways that the architecture allows; `settle` then tries them."""
        from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer  # noqa: PLC0415

        if "past_key_values" not in self._arguments:
            return WAYS[3:]
        layers = DynamicCache(config=self._config).layers
        croppable = all(type(layer) in {DynamicLayer, DynamicSlidingWindowLayer} for layer in layers)
        named = set(getattr(self._config, "layer_types", None) or ()) <= {"full_attention", "sliding_attention"}
        by_distance = getattr(self._config, "alibi", False)  # counted along the row, whatever the positions say
        if croppable and named and not by_distance and "position_ids" in self._arguments:
            plain = not getattr(self._config, "attn_logit_softcapping", None) and self.model.device.type == "cpu"
            return WAYS if plain and self.model.config._attn_implementation == "sdpa" else WAYS[1:]  # noqa: SLF001
        return WAYS[2:]

    def settle(self, ids: Sequence[int]) -> None:
        """Compare the ways with the plain one on a few short prompts, and keep the first that agrees.

        Args:
            ids: some tokens of plain text, 200 or more.
        """
        length = 40
        if self._window is not None and self._window <= _LONGEST_CHECK:
            length = self._window + 10
        text = list(ids) * (length // len(ids) + 1)
        article, rest = text[:length], list(ids)
        rungs = [rest[20:60], rest[60:100]]
        outputs = [rest[100:140], rest[140:180]]
        sequences = [[*article, *rung, *output] for rung in rungs for output in outputs]
        reads = [
            Read(number, place, int(rest[5 + place % 7]))
            for number, sequence in enumerate(sequences)
            for place in (length + 30, len(sequence) - 1)
        ]
        kept, self.way = self.way, "single"
        known, self._shortcuts = self._shortcuts, None
        plain = self.logprobs(sequences, reads)
        allowed = _TOLERANCE
        if self._dtype != "float32":  # such a model differs from itself with the shape of a batch
            self.way = "batches"
            noise = float(np.max(np.abs(self.logprobs(sequences, reads) - plain)))
            allowed = max(_HALF_TOLERANCE, 3 * noise) if np.isfinite(noise) else _HALF_TOLERANCE
        waiting = itertools.product(self.ways[self.ways.index(kept) :], dict.fromkeys((known, None)))
        for self.way, self._shortcuts in waiting:
            if self.way == "single":
                break
            try:
                difference = float(np.max(np.abs(self.logprobs(sequences, reads) - plain)))
                if difference <= allowed or not np.isfinite(plain).all():
                    break
                why = f"differs from the plain one by {difference:.2g} nats, more than {allowed:.2g}"
            except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, NotImplementedError) as error:
                why = f"fails here ({error})"
            if self._shortcuts is None:
                log.warning("%s: the %r way %s; stepping down", self._config.model_type, self.way, why)
        log.info("%s: prompts are read the %r way", self._config.model_type, self.way)
        self.tokens_run = 0

    def logprobs(self, sequences: Sequence[Sequence[int]], reads: Sequence[Read]) -> FloatArray:
        """Natural-log probabilities of tokens after chosen places of chosen sequences.

        Args:
            sequences: token ids, none of them empty.
            reads: what is wanted.

        Returns:
            Shape (reads,), nats. NaN where the model gave NaN.

        Raises:
            BackendError: memory is short even for a few tokens at a time.
        """
        longest = max(map(len, sequences))
        row = fitting(self._row, longest, len(reads), self._config, self._memory)
        root, leaf_of = build_trie(sequences, reads)
        what = f"{self._config.model_type} with prompts of up to {longest} tokens"
        found = np.full(len(reads), np.nan)
        if self.way == "tree" and (self._window is None or longest <= self._window):
            found = halving(lambda most: self._in_parts(root, len(reads), most), row, _LEAST, what)
        elif self.way in {"tree", "masked"}:
            found = halving(lambda most: self._tree(root, len(reads), most, self._mask), row, _LEAST, what)
        elif self.way == "copied":
            found = halving(lambda most: self._copied(root, len(reads), most), row, _LEAST, what)
        # NaN goes through a mask, so that one bad token spoils what stands in its row: those reads once more, apart.
        again = np.flatnonzero(~np.isfinite(found)).tolist()
        if again:
            moved = [Read(leaf_of[reads[number].sequence], *reads[number][1:]) for number in again]
            most = 1 if self.way == "single" else max(row, longest)
            found[again] = halving(lambda tokens: self._batches(sequences, moved, tokens), most, 1, what)
        return found

    def _in_parts(self, root: Node, reads: int, row: int) -> FloatArray:
        """`_tree` with the attention of this package, which the model keeps only meanwhile."""
        attention.register()
        kept = self.model.config._attn_implementation  # noqa: SLF001  what transformers itself sets
        self.model.set_attn_implementation(attention.NAME)
        try:
            return self._tree(root, reads, row, self._parts)
        finally:
            self.model.set_attn_implementation(kept)

    def _parts(self, segment: Segment) -> dict[str, Any]:
        dtype, places = self.model.dtype, _places(segment)
        few = self._shortcuts is not None and len(places) * _FEW <= segment.tokens.size
        at_last = attention.parts_of(segment, dtype, places) if few else None
        return {"parts": attention.parts_of(segment, dtype), "at_last": at_last}

    def _tree(self, root: Node, reads: int, row: int, shown: Callable[[Segment], dict[str, Any]]) -> FloatArray:
        from transformers.cache_utils import DynamicCache  # noqa: PLC0415  optional

        found = np.full(reads, np.nan)
        cache = DynamicCache()  # without the configuration: also layers with a window keep all, their masks hide it
        for step in plan(root, row):
            if isinstance(step, Pop):
                cache.crop(-step.tokens)
                continue
            segment = step.segment
            if segment.tokens.size:
                self._run(segment, found, past_key_values=cache, **shown(segment))
                if not isinstance(step, Push):
                    cache.crop(-segment.tokens.size)
        return found

    def _copied(self, root: Node, reads: int, row: int) -> FloatArray:
        from transformers.cache_utils import DynamicCache  # noqa: PLC0415  optional

        found = np.full(reads, np.nan)
        waiting = [(root, DynamicCache(config=self._config))]
        while waiting:
            node, cache = waiting.pop()
            for step in plan(replace(node, children=[], size=node.tokens.size + row), row):
                if isinstance(step, Push):
                    self._run(step.segment, found, past_key_values=cache)
            last = len(node.children) - 1
            for number, child in enumerate(node.children):
                waiting.append((child, copy.deepcopy(cache) if number < last else cache))
        return found

    def _run(self, segment: Segment, found: FloatArray, **arguments: Any) -> None:  # noqa: ANN401
        import torch  # noqa: PLC0415  optional

        device = self.model.device
        places = _places(segment)
        if "position_ids" in self._arguments:
            arguments["position_ids"] = torch.from_numpy(segment.positions)[None].to(device)
        ids = torch.from_numpy(segment.tokens)[None].to(device)
        wanted = [(0, place, token) for place, token, _ in segment.reads]
        found[[number for _, _, number in segment.reads]] = self._forward(
            ids, places, wanted, use_cache=True, **arguments
        )

    def _batches(self, sequences: Sequence[Sequence[int]], reads: Sequence[Read], most: int) -> FloatArray:
        """Whole sequences, padded at their ends, where no token sees the padding."""
        import torch  # noqa: PLC0415  optional

        found = np.full(len(reads), np.nan)
        wanted: dict[int, list[tuple[int, Read]]] = {}
        for number, read in enumerate(reads):
            wanted.setdefault(read.sequence, []).append((number, read))
        order = sorted(wanted, key=lambda sequence: -len(sequences[sequence]))
        while order:
            width = len(sequences[order[0]])
            batch = order[: min(_ROWS, max(1, most // width))]
            del order[: len(batch)]
            ids = torch.zeros((len(batch), width), dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, sequence in enumerate(batch):
                ids[row, : len(sequences[sequence])] = torch.as_tensor(sequences[sequence])
                mask[row, : len(sequences[sequence])] = 1
            chosen = [(row, *item) for row, sequence in enumerate(batch) for item in wanted[sequence]]
            places = sorted({read.place for _, _, read in chosen})
            device = self.model.device
            padded = {} if bool(mask.all()) else {"attention_mask": mask.to(device)}
            found[[number for _, number, _ in chosen]] = self._forward(
                ids.to(device),
                places,
                [(row, read.place, read.token) for row, _, read in chosen],
                use_cache=False,
                **padded,
            )
        return found

    def _forward(
        self,
        ids: Any,  # noqa: ANN401  a tensor
        places: list[int],
        wanted: Sequence[tuple[int, int, int]],
        **arguments: Any,  # noqa: ANN401  tensors
    ) -> FloatArray:
        """Log-probabilities, in float32, of what is wanted as (row, place, token); `places` holds all these places."""
        import torch  # noqa: PLC0415  optional

        keep = torch.as_tensor(places, device=ids.device)
        selects = "logits_to_keep" in self._arguments
        if selects:
            arguments["logits_to_keep"] = keep
        self.tokens_run += ids.numel()
        found = np.empty(len(wanted))
        with torch.inference_mode():
            shortcuts: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if self._shortcuts is not None and self.way != "single":  # which is the plain model
                shortcuts = self._shortcuts.taken(keep, ids.shape[1])
            with shortcuts:
                logits = self.model(input_ids=ids, **arguments).logits
            if not selects:
                logits = logits[:, keep]
            flat = logits.flatten(0, 1)
            index = {place: number for number, place in enumerate(places)}
            at = np.array([row * len(places) + index[place] for row, place, _ in wanted], dtype=np.int64)
            tokens = np.array([token for _, _, token in wanted], dtype=np.int64)
            order = np.argsort(at, kind="stable")
            needed, starts = np.unique(at[order], return_index=True)
            edges = [*starts.tolist(), order.size]
            for first in range(0, needed.size, _AT_ONCE):
                some = needed[first : first + _AT_ONCE]
                here = order[edges[first] : edges[first + some.size]]
                chosen = flat.index_select(0, torch.from_numpy(some).to(ids.device))
                logprobs = torch.log_softmax(chosen.float(), dim=-1)
                found[here] = logprobs[np.searchsorted(some, at[here]), tokens[here]].double().cpu().numpy()
        return found

    def _mask(self, segment: Segment) -> dict[str, Any]:
        """What each token of a segment sees, to be added to the scores; nothing where the model's own mask does it."""
        import torch  # noqa: PLC0415  optional

        length, past = segment.tokens.size, segment.start
        if not past and segment.is_chain and (self._window is None or length <= self._window):
            return {}
        device, dtype = self.model.device, self.model.dtype
        place = torch.arange(length, device=device)
        ends = torch.from_numpy(segment.ends).to(device)
        within = (place[None, :] <= place[:, None]) & (place[:, None] < ends[None, :])
        seen = torch.cat([torch.ones((length, past), dtype=torch.bool, device=device), within], dim=1)
        if self._window is None:
            return {"attention_mask": _additive(seen, dtype)}
        position = torch.from_numpy(segment.positions).to(device)
        keys = torch.cat([torch.arange(past, device=device), position])
        near = seen & (position[:, None] - keys[None, :] < self._window)
        if not self._mixed:
            return {"attention_mask": _additive(near, dtype)}
        masks = {"full_attention": _additive(seen, dtype), "sliding_attention": _additive(near, dtype)}
        return {"attention_mask": masks}


def _places(segment: Segment) -> list[int]:
    """Where a segment is read, in order; its end where nothing is."""
    return sorted({place for place, _, _ in segment.reads}) or [segment.tokens.size - 1]


def _additive(seen: Any, dtype: Any) -> Any:  # noqa: ANN401  tensors
    """0 where seen, the lowest number elsewhere: unlike a boolean mask, right for every attention implementation."""
    import torch  # noqa: PLC0415  optional

    added = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return added.masked_fill_(~seen, torch.finfo(dtype).min)[None, None]
