"""Sampling texts in batches, each row with a random stream of its own."""

from __future__ import annotations

import hashlib
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BLOCK = 512  # keys; attention kernels sum over so many at a time, or over a fraction of it
_FEWER = (1, 2, 4, 8, 16)  # rows that a batch may have instead of all, where that changes no bit
_PIECE = 256  # tokens: as fast as 128 or 512 where contexts are shared, and faster than 128 where not


class Written(NamedTuple):
    """The ids of a text without the token that ended it, whether such a token came, and whether the model gave NaN."""

    ids: list[int]
    ended: bool
    broken: bool


class _Draw:
    """A logits processor that draws the next token of every row and leaves only it.

    Row k draws with the stream that belongs to its own prompt and seed, so its text does not depend on the batch.
    """

    def __init__(self, streams: Sequence[np.random.Generator], temperature: float, top_p: float) -> None:
        self._streams = streams
        self._temperature = temperature
        self._top_p = top_p
        self.broken = [False] * len(streams)

    def __call__(self, _input_ids: Any, scores: Any) -> Any:  # noqa: ANN401  tensors
        import torch  # noqa: PLC0415  optional

        scores = scores.float()
        bad = torch.isnan(scores).any(dim=-1)
        for row in torch.nonzero(bad).flatten().tolist():
            self.broken[row] = True
        scores = torch.where(bad[:, None], 0.0, scores)
        drawn = [stream.random() for stream in self._streams]
        if self._temperature == 0:
            chosen = scores.argmax(dim=-1)
        else:
            uniform = torch.tensor(drawn, dtype=torch.float64, device=scores.device)
            chosen = _sampled(scores, self._temperature, self._top_p, uniform)
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen[:, None], 0.0)


def _sampled(scores: Any, temperature: float, top_p: float, drawn: Any) -> Any:  # noqa: ANN401  tensors
    """The token at the drawn place of the cumulative distribution, in the order of token ids.

    In that order rounding moves a boundary by its own size only; in the order of probability, two tokens that are
    nearly as probable could change places, and with them the text.
    """
    import torch  # noqa: PLC0415  optional

    probabilities = torch.softmax(scores.double() / temperature, dim=-1)
    if top_p < 1:
        ordered, tokens = torch.sort(probabilities, dim=-1, descending=True, stable=True)
        within = ordered.cumsum(dim=-1) - ordered < top_p
        within[:, 0] = True
        probabilities = torch.zeros_like(probabilities).scatter_(1, tokens, torch.where(within, ordered, 0.0))
    reached = probabilities.cumsum(dim=-1)
    wanted = drawn[:, None] * reached[:, -1:]
    return torch.searchsorted(reached, wanted, right=True).clamp_(max=reached.shape[1] - 1)[:, 0]


def stream_of(prompt: Sequence[int], seed: int) -> np.random.Generator:
    """The random stream of one row: of its own prompt and the seed, and of nothing else."""
    state = hashlib.blake2b(np.asarray(prompt, dtype="<u4").tobytes(), digest_size=16, salt=b"refladder")
    return np.random.default_rng([seed & (2**63 - 1), seed < 0, int.from_bytes(state.digest(), "little")])


def rows_of_same_bits(model: Any, most: int) -> list[int]:  # noqa: ANN401  of transformers
    """Sizes of a batch, rising to `most`, in which every product of a model has the same bits row by row.

    Tried out with each kind of product, since that depends on processor, library and number format.
    """
    import torch  # noqa: PLC0415  optional
    from transformers.pytorch_utils import Conv1D  # noqa: PLC0415  the products of GPT-2, transposed

    if any(parameter.dim() > 2 for parameter in model.parameters()):  # noqa: PLR2004
        return [most]  # experts, whose products have other rows than the batch
    sizes = [size for size in _FEWER if size < most]
    kinds = {
        (type(one), one.weight.shape): one for one in model.modules() if isinstance(one, (torch.nn.Linear, Conv1D))
    }
    with torch.inference_mode():
        for (kind, shape), product in kinds.items():
            width = shape[0 if kind is Conv1D else 1]
            states = torch.randn(most, 1, width, generator=torch.Generator().manual_seed(0)).to(product.weight)
            whole = product(states)
            sizes = [size for size in sizes if torch.equal(product(states[:size]), whole[:size])]
    return [*sizes, most]


def write_batch(
    model: Any,  # noqa: ANN401  of transformers
    prompts: Sequence[Sequence[int]],
    ends: Sequence[int],
    *,
    max_tokens: int,
    temperature: float,
    top_p: float,
    seed: int,
    rows: int | None,
) -> list[Written]:
    """Continue some prompts, all in one batch.

    With `rows` a text depends, to the last bit, on its own prompt alone. Every product is of so many rows, whatever is
    in them (or of another number of `rows_of_same_bits`); a prompt is read apart from the others, in pieces that begin
    at the same places whoever shares them; and the padding is whole blocks of attention more or less, which add zeros
    and move no boundary of a sum.

    Args:
        model: of transformers, causal or encoder-decoder.
        prompts: token ids, each at least one; neighbours that begin alike share pieces.
        ends: ids that end a text.
        max_tokens: of a text, at most.
        temperature: 0 takes the most probable token.
        top_p: draw from the most probable tokens that together have this probability.
        seed: with the prompt, it determines the random stream of a row.
        rows: of the batch, at least as many as prompts: the last prompt fills it up. None for causal models whose cache
            cannot be put together: their prompts are read in one padded batch, whose shape can change a text.
    """
    import torch  # noqa: PLC0415  optional
    from transformers import GenerationConfig, LogitsProcessorList  # noqa: PLC0415

    device = model.device
    encodes = model.config.is_encoder_decoder
    texts = len(prompts)
    width = max(map(len, prompts))
    arguments: dict[str, Any] = {}
    with torch.inference_mode():
        if rows is not None:
            width += BLOCK - width % BLOCK  # never none: without any padding attention takes another path
            arguments = (_encoded if encodes else _read)(model, prompts, width, rows)
            prompts = [*prompts, *[prompts[-1]] * (rows - texts)]
        ids = torch.zeros((len(prompts), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            places = slice(0, len(prompt)) if encodes else slice(width - len(prompt), width)
            ids[row, places] = torch.as_tensor(prompt)
            mask[row, places] = 1
        draw = _Draw([stream_of(prompt, seed) for prompt in prompts], temperature, top_p)
        with _silenced():
            out = model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                generation_config=GenerationConfig(
                    max_new_tokens=max_tokens,
                    do_sample=False,
                    eos_token_id=list(ends) or None,
                    pad_token_id=ends[0] if ends else 0,
                    decoder_start_token_id=model.generation_config.decoder_start_token_id,
                ),
                logits_processor=LogitsProcessorList([draw]),
                **arguments,
            ).tolist()
    start = 1 if encodes else width
    return [_cut(out[row][start:], set(ends), draw.broken[row]) for row in range(texts)]


def _read(model: Any, prompts: Sequence[Sequence[int]], width: int, rows: int) -> dict[str, Any]:  # noqa: ANN401
    """The cache of a causal model after all but the last token of each prompt, which end at the same place."""
    import torch  # noqa: PLC0415  optional
    from transformers.cache_utils import DynamicCache  # noqa: PLC0415

    cache = DynamicCache()  # without the configuration: also layers with a window keep all, their masks hide it
    states = []
    for prompt, shared in zip(prompts, shared_tokens(prompts), strict=True):
        if shared < cache.get_seq_length():
            cache.crop(shared - cache.get_seq_length())
        for first in range(shared, len(prompt), _PIECE):
            piece = torch.as_tensor([prompt[first : first + _PIECE]], device=model.device)
            model.base_model(input_ids=piece, past_key_values=cache, use_cache=True)  # without the head
        states.append([(layer.keys[:, :, :-1], layer.values[:, :, :-1]) for layer in cache.layers])
    whole = DynamicCache()
    for number, layer in enumerate(zip(*states, strict=True)):
        keys, values = zip(*layer, strict=True)
        whole.update(
            _stacked(keys, rows, width - 1, at_end=False), _stacked(values, rows, width - 1, at_end=False), number
        )
    return {"past_key_values": whole}


def shared_tokens(prompts: Sequence[Sequence[int]]) -> list[int]:
    """Tokens of each prompt that are not read again in a batch with `rows`: whole pieces that begin the one before."""
    return [0, *(_alike(*both) // _PIECE * _PIECE for both in itertools.pairwise(prompts))]


def _encoded(model: Any, prompts: Sequence[Sequence[int]], width: int, rows: int) -> dict[str, Any]:  # noqa: ANN401
    """What the encoder makes of each prompt alone, padded at the end."""
    import torch  # noqa: PLC0415  optional
    from transformers.modeling_outputs import BaseModelOutput  # noqa: PLC0415

    encoder = model.get_encoder()
    states = [encoder(input_ids=torch.as_tensor([prompt], device=model.device)).last_hidden_state for prompt in prompts]
    return {"encoder_outputs": BaseModelOutput(_stacked(states, rows, width, at_end=True))}


def _stacked(states: Sequence[Any], rows: int, width: int, *, at_end: bool) -> Any:  # noqa: ANN401  tensors
    """What was found for each prompt, padded to one length, and the last as often as rows are left."""
    import torch  # noqa: PLC0415  optional

    gaps = [width - state.shape[-2] for state in states]
    padded = [
        torch.nn.functional.pad(state, (0, 0, 0, gap) if at_end else (0, 0, gap, 0))
        for state, gap in zip(states, gaps, strict=True)
    ]
    return torch.cat([*padded, *[padded[-1]] * (rows - len(padded))])


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens that both begin with."""
    least = min(len(one), len(other))
    return next((place for place in range(least) if one[place] != other[place]), least)


@contextmanager
def _silenced() -> Iterator[None]:
    """Without the reminder of a model's longest text, which counts the padding."""
    from transformers.utils import logging  # noqa: PLC0415  optional

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _cut(ids: list[int], ends: set[int], broken: bool) -> Written:
    for place, token in enumerate(ids):
        if token in ends:
            return Written(ids[:place], ended=True, broken=broken)
    return Written(ids, ended=False, broken=broken)
