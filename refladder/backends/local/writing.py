"""Sampling texts in batches, each row with a random stream of its own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.records import Sampling

_SHARED = 32  # tokens that all prompts of a batch begin with, from which on they are run once


class Written(NamedTuple):
    """The ids of a text without the token that ended it, whether such a token came, and whether the model gave NaN."""

    ids: list[int]
    ended: bool
    broken: bool


class _Draw:
    """A logits processor that draws the next token of every row and leaves only it.

    Row k draws with the stream that belongs to its own prompt and seed, so its text does not depend on the batch.
    """

    def __init__(self, streams: Sequence[np.random.Generator], sampling: Sampling) -> None:
        self._streams = streams
        self._sampling = sampling
        self.broken = [False] * len(streams)

    def __call__(self, _input_ids: Any, scores: Any) -> Any:  # noqa: ANN401  tensors
        import torch  # noqa: PLC0415  optional

        scores = scores.float()
        bad = torch.isnan(scores).any(dim=-1)
        for row in torch.nonzero(bad).flatten().tolist():
            self.broken[row] = True
        scores = torch.where(bad[:, None], 0.0, scores)
        drawn = [stream.random() for stream in self._streams]
        if self._sampling.temperature == 0:
            chosen = scores.argmax(dim=-1)
        else:
            chosen = _sampled(scores, self._sampling, torch.tensor(drawn, dtype=torch.float64, device=scores.device))
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen[:, None], 0.0)


def _sampled(scores: Any, sampling: Sampling, drawn: Any) -> Any:  # noqa: ANN401  tensors
    """The token at the drawn place of the cumulative distribution, in the order of token ids.

    In that order rounding moves a boundary by its own size only; in the order of probability, two tokens that are
    nearly as probable could change places, and with them the text.
    """
    import torch  # noqa: PLC0415  optional

    probabilities = torch.softmax(scores.double() / sampling.temperature, dim=-1)
    if sampling.top_p < 1:
        ordered, tokens = torch.sort(probabilities, dim=-1, descending=True, stable=True)
        within = ordered.cumsum(dim=-1) - ordered < sampling.top_p
        within[:, 0] = True
        probabilities = torch.zeros_like(probabilities).scatter_(1, tokens, torch.where(within, ordered, 0.0))
    reached = probabilities.cumsum(dim=-1)
    wanted = drawn[:, None] * reached[:, -1:]
    return torch.searchsorted(reached, wanted, right=True).clamp_(max=reached.shape[1] - 1)[:, 0]


def stream_of(prompt: Sequence[int], seed: int) -> np.random.Generator:
    """The random stream of one row: of its own prompt and the seed, and of nothing else."""
    state = hashlib.blake2b(np.asarray(prompt, dtype="<u4").tobytes(), digest_size=16, salt=b"refladder")
    return np.random.default_rng([seed & (2**63 - 1), seed < 0, int.from_bytes(state.digest(), "little")])


def write_batch(
    model: Any,  # noqa: ANN401  of transformers
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    ends: Sequence[int],
    *,
    share: bool,
) -> list[Written]:
    """Continue some prompts, all in one batch.

    Args:
        model: of transformers, causal or encoder-decoder.
        prompts: token ids.
        sampling: length, temperature, share of probability, seed.
        ends: ids that end a text.
        share: whether what all prompts begin with is run once; not for models with a window or a recurrent state.
    """
    import torch  # noqa: PLC0415  optional
    from transformers import GenerationConfig, LogitsProcessorList  # noqa: PLC0415
    from transformers.cache_utils import DynamicCache  # noqa: PLC0415

    device = model.device
    longest = max(map(len, prompts))
    common = _common(prompts) if share and len(prompts) > 1 else 0
    ids = torch.zeros((len(prompts), longest), dtype=torch.long)
    mask = torch.ones_like(ids)
    for row, prompt in enumerate(prompts):
        gap = longest - len(prompt)
        # An encoder counts positions from the start; else the padding stands between the shared beginning and the rest.
        first = len(prompt) if model.config.is_encoder_decoder else common if common >= _SHARED else 0
        ids[row, :first] = torch.as_tensor(prompt[:first])
        ids[row, first + gap :] = torch.as_tensor(prompt[first:])
        mask[row, first : first + gap] = 0
    arguments: dict[str, Any] = {}
    with torch.inference_mode():
        if common >= _SHARED:
            cache = DynamicCache()
            model(input_ids=ids[:1, :common].to(device), past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache.batch_repeat_interleave(len(prompts))
            arguments["past_key_values"] = cache
        draw = _Draw([stream_of(prompt, sampling.seed) for prompt in prompts], sampling)
        out = model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            generation_config=GenerationConfig(
                max_new_tokens=sampling.max_tokens,
                do_sample=False,
                eos_token_id=list(ends) or None,
                pad_token_id=ends[0] if ends else 0,
                decoder_start_token_id=model.generation_config.decoder_start_token_id,
            ),
            logits_processor=LogitsProcessorList([draw]),
            **arguments,
        ).tolist()
    start = 1 if model.config.is_encoder_decoder else longest
    return [_cut(row[start:], set(ends), broken) for row, broken in zip(out, draw.broken, strict=True)]


def _common(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts begin with; at least the last one of each is left for the batch."""
    ordered = sorted(map(list, prompts))
    first, last = ordered[0], ordered[-1]
    least = min(map(len, prompts)) - 1
    return next((place for place in range(least) if first[place] != last[place]), least)


def _cut(ids: list[int], ends: set[int], broken: bool) -> Written:
    for place, token in enumerate(ids):
        if token in ends:
            return Written(ids[:place], ended=True, broken=broken)
    return Written(ids, ended=False, broken=broken)
