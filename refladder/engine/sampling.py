"""Sampling texts in batches, each row with its own random stream."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.engine.batches import cache_name, padded
from refladder.engine.encoder_decoder import decoder_start
from refladder.engine.transformers_logging import silenced

if TYPE_CHECKING:
    from collections.abc import Sequence

# Keys: attention kernels sum over blocks of this size, or of a fraction of it.
BLOCK = 512
# Row counts that may replace a full batch if no bit changes.
_SMALL_BATCHES = 1, 2, 4, 8, 16
# Tokens: as fast as 128 or 512 for prompts that share a context, and faster than 128 for others.
_CHUNK = 256


class GeneratedText(NamedTuple):
    """The ids of a text without its end token, whether it reached an end token, and whether the model returned NaN."""

    ids: list[int]
    ended: bool
    has_nan: bool


class _Draw:
    """A logits processor that draws each row's next token from the stream of its own prompt and seed."""

    def __init__(
        self, streams: Sequence[np.random.Generator], temperature: float, top_p: float
    ) -> None:
        self._streams = streams
        self._temperature = temperature
        self._top_p = top_p
        self.has_nan = [False] * len(streams)

    def __call__(self, _input_ids: Any, scores: Any) -> Any:
        import torch

        scores = scores.float()
        nan_rows = torch.isnan(scores).any(dim=-1)
        for row in torch.nonzero(nan_rows).flatten().tolist():
            self.has_nan[row] = True
        scores = torch.where(nan_rows[:, None], 0.0, scores)
        uniform = [stream.random() for stream in self._streams]
        if self._temperature == 0:
            tokens = scores.argmax(dim=-1)
        else:
            draws = torch.tensor(uniform, dtype=torch.float64, device=scores.device)
            tokens = _sampled_tokens(scores, self._temperature, self._top_p, draws)
        return torch.full_like(scores, -torch.inf).scatter_(1, tokens[:, None], 0.0)


def _sampled_tokens(scores: Any, temperature: float, top_p: float, uniform: Any) -> Any:
    """Return the tokens at uniform random numbers in the cumulative distributions, by id, so that rounding moves none far."""
    import torch

    probabilities = torch.softmax(scores.double() / temperature, dim=-1)
    if top_p < 1:
        ordered, tokens = torch.sort(probabilities, dim=-1, descending=True, stable=True)
        within = ordered.cumsum(dim=-1) - ordered < top_p
        within[:, 0] = True
        probabilities = torch.zeros_like(probabilities).scatter_(
            1, tokens, torch.where(within, ordered, 0.0)
        )
    cumulative = probabilities.cumsum(dim=-1)
    wanted = uniform[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, wanted, right=True).clamp_(max=cumulative.shape[1] - 1)[
        :, 0
    ]


def random_stream(prompt: Sequence[int], seed: int) -> np.random.Generator:
    """Return the random stream of a row, which depends on its prompt and the seed only."""
    digest = hashlib.blake2b(
        np.asarray(prompt, dtype="<u4").tobytes(), digest_size=16, salt=b"refladder"
    ).digest()
    return np.random.default_rng([seed & (2**63 - 1), seed < 0, int.from_bytes(digest, "little")])


def reproducible_batch_sizes(model: Any, largest: int) -> list[int]:
    """Return ascending batch sizes up to `largest` for which all matrix products give a row the same bits."""
    import torch
    from transformers.pytorch_utils import Conv1D

    if any(parameter.dim() > 2 for parameter in model.parameters()):
        # The products of experts have another number of rows than the batch.
        return [largest]
    sizes = [size for size in _SMALL_BATCHES if size < largest]
    layers = {}
    for module in model.modules():
        if isinstance(module, (torch.nn.Linear, Conv1D)):
            layers[type(module), module.weight.shape] = module
    with torch.inference_mode():
        for (kind, shape), layer in layers.items():
            width = shape[0 if kind is Conv1D else 1]
            states = torch.randn(largest, 1, width, generator=torch.Generator().manual_seed(0)).to(
                layer.weight
            )
            outputs = layer(states)
            sizes = [size for size in sizes if torch.equal(layer(states[:size]), outputs[:size])]
    return [*sizes, largest]


def generate_batch(
    model: Any,
    prompts: Sequence[Sequence[int]],
    end_ids: Sequence[int],
    *,
    max_tokens: int,
    temperature: float,
    top_p: float,
    seed: int,
    rows: int | None,
) -> list[GeneratedText]:
    """Continue prompts, all in one batch; one text of at most `max_tokens` tokens for each.

    With `rows`, a text depends on its own prompt and seed alone, to the last bit: every product has this number of
    rows, whatever they hold (or another of `reproducible_batch_sizes`); each prompt is read apart from the others, in
    chunks that start at the same positions whether they are shared or not; and the padding consists of whole blocks of
    attention, which add zeros and move no boundary of a sum. None is for causal models whose caches cannot be combined.
    """
    import torch
    from transformers import GenerationConfig, LogitsProcessorList

    device = model.device
    has_encoder = model.config.is_encoder_decoder
    count = len(prompts)
    width = max(map(len, prompts))
    states: dict[str, object] = {}
    for module in model.modules():
        # Qwen-VL keeps the offsets of its last batch.
        if getattr(module, "rope_deltas", None) is not None:
            module.rope_deltas = None
    with torch.inference_mode():
        if rows is not None:
            # The padding is never empty: without padding, attention takes another code path.
            width += BLOCK - width % BLOCK
            states_of = _encoder_states if has_encoder else _cache_states
            states = states_of(model, prompts, width, rows)
            prompts = [*prompts, *[prompts[-1]] * (rows - count)]
        ids, mask = padded(prompts, width, left=not has_encoder)
        draw = _Draw([random_stream(prompt, seed) for prompt in prompts], temperature, top_p)
        # The warning about a model's maximum length counts the padding.
        with silenced():
            outputs = model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                generation_config=GenerationConfig(
                    max_new_tokens=max_tokens,
                    do_sample=False,
                    eos_token_id=list(end_ids) or None,
                    pad_token_id=end_ids[0] if end_ids else 0,
                    decoder_start_token_id=decoder_start(model) if has_encoder else None,
                ),
                logits_processor=LogitsProcessorList([draw]),
                **states,
            ).tolist()
    start = 1 if has_encoder else width
    ends = set(end_ids)
    return [_up_to_end(outputs[row][start:], ends, draw.has_nan[row]) for row in range(count)]


def _cache_states(
    model: Any, prompts: Sequence[Sequence[int]], width: int, rows: int
) -> dict[str, object]:
    """Return the cache of a causal model after all but the last token of each prompt, padded on the left."""
    import torch
    from transformers.cache_utils import DynamicCache

    # Without the configuration, so that layers with a window keep all keys; masks hide them.
    cache = DynamicCache()
    name = cache_name(model)
    states = []
    for prompt, reused in zip(prompts, reused_tokens(prompts), strict=True):
        if reused < cache.get_seq_length():
            cache.crop(reused - cache.get_seq_length())
        for first in range(reused, len(prompt), _CHUNK):
            chunk = torch.as_tensor([prompt[first : first + _CHUNK]], device=model.device)
            # The base model leaves out the output head, which is not needed.
            model.base_model(input_ids=chunk, use_cache=True, **{name: cache})
        states.append([(layer.keys[:, :, :-1], layer.values[:, :, :-1]) for layer in cache.layers])
    combined = DynamicCache()
    for number, layer in enumerate(zip(*states, strict=True)):
        keys, values = zip(*layer, strict=True)
        combined.update(
            _stacked(keys, rows, width - 1, pad_end=False),
            _stacked(values, rows, width - 1, pad_end=False),
            number,
        )
    return {name: combined}


def reused_tokens(prompts: Sequence[Sequence[int]]) -> list[int]:
    """Return how many tokens of each prompt are not read again: whole chunks that it shares with the one before."""
    return [0, *(common_prefix(*pair) // _CHUNK * _CHUNK for pair in itertools.pairwise(prompts))]


def _encoder_states(
    model: Any, prompts: Sequence[Sequence[int]], width: int, rows: int
) -> dict[str, object]:
    """Return the encoder's output for each prompt alone, padded on the right."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    encoder = model.get_encoder()
    states = []
    for prompt in prompts:
        ids = torch.as_tensor([prompt], device=model.device)
        states.append(encoder(input_ids=ids).last_hidden_state)
    return {"encoder_outputs": BaseModelOutput(_stacked(states, rows, width, pad_end=True))}


def _stacked(states: Sequence[Any], rows: int, width: int, *, pad_end: bool) -> Any:
    """Stack the states of prompts, padded to one length; repeat the last until there are `rows`."""
    import torch

    same = []
    for state in states:
        gap = width - state.shape[-2]
        padding = (0, 0, 0, gap) if pad_end else (0, 0, gap, 0)
        same.append(torch.nn.functional.pad(state, padding))
    return torch.cat([*same, *[same[-1]] * (rows - len(same))])


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of tokens that two sequences have in common at their start."""
    shorter = min(len(first), len(second))
    return next((index for index in range(shorter) if first[index] != second[index]), shorter)


def _up_to_end(ids: list[int], end_ids: set[int], has_nan: bool) -> GeneratedText:
    for index, token in enumerate(ids):
        if token in end_ids:
            return GeneratedText(ids[:index], ended=True, has_nan=has_nan)
    return GeneratedText(ids, ended=False, has_nan=has_nan)
