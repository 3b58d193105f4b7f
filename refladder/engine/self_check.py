"""Choice of the fastest strategy that provably returns the numbers of plain inference.

The structure (masks, positions, cache) is proved in float32 on a small copy of the architecture (see `reduced_model`). On
the real weights a short check remains: the numbers are finite, and no further from float32 than those of plain
inference in the same precision are, times a small factor.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.engine.causal import FALLING_BACK, STRATEGIES, Causal
from refladder.engine.reduced_model import VOCABULARY, in_float32, reduced_model
from refladder.engine.trie import Read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.arrays import FloatArray

log = logging.getLogger(__name__)

# Nats, between two strategies in float32: correct ones differ by 1e-4 at most, planted faults by .1.
_TOLERANCE = 1e-3
# Nats, in float32 on real weights, once the structure is proved.
_REAL_TOLERANCE = 1e-2
# Nats, in half precision where there is neither a proof nor memory for float32.
_HALF_TOLERANCE = 0.1
# A factor of the distance of plain inference from float32, and a margin in nats.
_FACTOR, _SLACK = 3.0, 0.02
# Tokens; without a proof, and with a window up to this, the prompts are longer than the window.
_LONGEST_CHECK = 1100
# Tokens: with rows this short, the prompts of a proof are pushed on the cache and popped.
_SHORT_ROW = 96
_ERRORS = RuntimeError, ValueError, TypeError, AttributeError, IndexError, NotImplementedError


# Strategies, by configuration and library versions.
_proofs: dict[str, str | None] = {}


def choose_strategy(causal: Causal, ids: Sequence[int]) -> None:
    """Give a model the first of its strategies that agrees with plain inference; a warning names those that do not."""
    key = _key(causal.model)
    if key not in _proofs:
        _proofs[key] = prove(causal.model)
    proved = _proofs[key]
    candidates = causal.strategies
    if proved is not None:
        candidates = candidates[candidates.index(proved) :]
    _settle(causal, candidates, _real_check(causal, ids, proved=proved is not None))
    log.info("%s: inference strategy %r", causal.name, causal.strategy)
    causal.tokens_run = 0


def prove(model: Any) -> str | None:
    """Return the first strategy that agrees with plain inference on a reduced model; None if there is none."""
    small = reduced_model(model)
    if small is None:
        return None
    causal = Causal(small, "float32", memory=2**30)
    ids = np.random.default_rng(0).integers(3, VOCABULARY, 200).tolist()
    sequences, reads = _prompts(ids, 40 if causal.window is None else 3 * causal.window + 10, 40)
    try:
        plain = _read_by(causal, sequences, reads)
    except _ERRORS:
        return None
    if not np.isfinite(plain).all():
        return None

    def disagrees() -> str | None:
        rows = causal.forward_tokens
        for causal.forward_tokens in (_SHORT_ROW, rows):
            if reason := _apart(causal.logprobs(sequences, reads) - plain, _TOLERANCE):
                return reason
        return None

    _settle(causal, causal.strategies, disagrees)
    return causal.strategy


def _key(model: Any) -> str:
    import torch
    import transformers

    config = model.config.get_text_config()
    attention = model.config._attn_implementation  # noqa: SLF001  no public name exists
    parts = (
        type(model).__qualname__,
        attention,
        model.device.type,
        transformers.__version__,
        torch.__version__,
    )
    return "|".join([*parts, config.to_json_string(use_diff=False)])


def _settle(causal: Causal, candidates: Sequence[str], disagrees: Callable[[], str | None]) -> None:
    for causal.strategy in candidates:
        if causal.strategy == "single":
            break
        try:
            reason = disagrees()
        except _ERRORS as error:
            reason = f"fails ({error})"
        if reason is None:
            break
        log.warning(FALLING_BACK, causal.name, STRATEGIES[causal.strategy], reason)


def _prompts(ids: Sequence[int], article: int, part: int) -> tuple[list[list[int]], list[Read]]:
    """Return four prompts (an article, each of two rungs, each of two outputs) and what is read of them."""
    text = list(ids) * (article // len(ids) + 1)
    pieces = [list(ids[start : start + part]) for start in range(20, 20 + 4 * part, part)]
    sequences = [[*text[:article], *rung, *output] for rung in pieces[:2] for output in pieces[2:]]
    reads = []
    for number, sequence in enumerate(sequences):
        in_rung, in_output = article + 3 * part // 4, article + part + part // 2
        for position in (in_rung, in_output, len(sequence) - 1):
            reads.append(Read(number, position, int(ids[5 + position % 7])))
    return sequences, reads


def _read_by(
    causal: Causal, sequences: list[list[int]], reads: list[Read], strategy: str = "single"
) -> FloatArray:
    before, causal.strategy = causal.strategy, strategy
    try:
        return causal.logprobs(sequences, reads)
    finally:
        causal.strategy = before


def _largest(differences: FloatArray) -> float:
    return float(np.max(np.abs(differences)))


def _rms(differences: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(differences))))


def _real_check(causal: Causal, ids: Sequence[int], *, proved: bool) -> Callable[[], str | None]:
    """Return a function that checks the present strategy on the real weights: what is wrong, or None."""
    article, part = (24, 12) if proved else (40, 40)
    if not proved and causal.window is not None and causal.window <= _LONGEST_CHECK:
        article = causal.window + 10
    sequences, reads = _prompts(ids, article, part)
    plain = _read_by(causal, sequences, reads)
    # A prompt whose numbers are not finite is reported when it is read.
    if not np.isfinite(plain).all():
        return lambda: None
    if causal.dtype == "float32":
        tolerance = _REAL_TOLERANCE if proved else _TOLERANCE
        return lambda: _apart(causal.logprobs(sequences, reads) - plain, tolerance)
    largest_module = 0
    for module in causal.model.modules():
        numbers = sum(parameter.numel() for parameter in module.parameters(recurse=False))
        largest_module = max(largest_module, numbers)
    if 2 * 4 * largest_module > causal.memory:
        noise = _largest(_read_by(causal, sequences, reads, "batches") - plain)
        limit = max(_HALF_TOLERANCE, _FACTOR * noise) if np.isfinite(noise) else _HALF_TOLERANCE
        allowed = _FACTOR * limit if proved else limit
        return lambda: _apart(causal.logprobs(sequences, reads) - plain, allowed)
    with in_float32(causal.model):
        exact = _read_by(causal, sequences, reads)
    plain_distance = _rms(plain - exact)
    limit = _FACTOR * plain_distance + _SLACK

    def disagrees() -> str | None:
        if not proved:
            with in_float32(causal.model), causal.masks_in_float32():
                reason = _apart(causal.logprobs(sequences, reads) - exact, _TOLERANCE)
            if reason is not None:
                return reason
        distance = _rms(causal.logprobs(sequences, reads) - exact)
        if distance <= limit:
            return None
        return (
            f"differs from float32 by {distance:.2g} nats, and plain inference by {plain_distance:.2g} "
            f"(limit {limit:#.2g})"
        )

    return disagrees


def _apart(differences: FloatArray, limit: float) -> str | None:
    difference = _largest(differences)
    if difference <= limit:
        return None
    return f"disagrees with plain inference by {difference:.2g} nats (limit {limit:#.2g})"
