"""Log-probabilities of labels from an encoder-decoder (T5, FLAN-T5, BART).

The encoder reads in both directions, so two prompts have no exact computation in common. Prompts are batched by
length, each is encoded once, and all its labels are decoded over the same encoder output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.engine.batches import by_length, padded
from refladder.engine.memory import halve_until_it_fits, tokens_that_fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray


# Tokens of a batch of prompts, padding included.
_BATCH_TOKENS = 4096


def decoder_start(model: Any) -> int:
    """Return the token that a decoder begins with: where `generate` looks for it, else the padding (T5)."""
    # T5Gemma has only the last of these numbers.
    for holder, name in (
        (model.generation_config, "decoder_start_token_id"),
        (model.config, "decoder_start_token_id"),
        (model.generation_config, "bos_token_id"),
    ):
        token = getattr(holder, name, None)
        if isinstance(token, int):
            return token
    return int(model.config.get_text_config().pad_token_id)


class EncoderDecoder:
    """An encoder-decoder that returns the log-probabilities of labels; `tokens_run` counts its encoder's tokens."""

    strategy = "batches"

    def __init__(self, model: Any, memory: int) -> None:
        self.model = model
        self.tokens_run = 0
        self._memory = memory
        self._config = model.config.get_text_config()
        self._start_id = decoder_start(model)

    def logprobs(
        self, prompts: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]
    ) -> FloatArray:
        """Return log-probabilities, shape (prompts, labels, longest label): 0 after a label's end; a NaN is the model's."""
        longest = max(map(len, prompts))
        reads = sum(map(len, labels)) * max(1, _BATCH_TOKENS // longest)
        most = tokens_that_fit(max(_BATCH_TOKENS, longest), 0, reads, self._config, self._memory)
        return halve_until_it_fits(
            lambda batch_tokens: self._in_batches(prompts, labels, batch_tokens),
            most,
            1,
            f"{self._config.model_type} with prompts of up to {longest} tokens",
        )

    def _in_batches(
        self, prompts: Sequence[Sequence[int]], labels: Sequence[Sequence[int]], batch_tokens: int
    ) -> FloatArray:
        import torch

        device = self.model.device
        width = max(map(len, labels))
        targets, present = padded(labels, width)
        inputs = torch.cat([torch.full((len(labels), 1), self._start_id), targets[:, :-1]], dim=1)
        # Labels of one token share their input.
        inputs, input_of = torch.unique(inputs, dim=0, return_inverse=True)
        logprobs = np.full((len(prompts), len(labels), width), np.nan)
        for batch in by_length(
            range(len(prompts)), lambda number: len(prompts[number]), batch_tokens
        ):
            ids, mask = padded([prompts[number] for number in batch], len(prompts[batch[0]]))
            self.tokens_run += ids.numel()
            with torch.inference_mode():
                ids, mask = ids.to(device), mask.to(device)
                encoded = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
                encoded.last_hidden_state = encoded.last_hidden_state.repeat_interleave(
                    len(inputs), dim=0
                )
                logits = self.model(
                    encoder_outputs=encoded,
                    attention_mask=mask.repeat_interleave(len(inputs), dim=0),
                    decoder_input_ids=inputs.repeat(len(batch), 1).to(device),
                    use_cache=False,
                ).logits
                distributions = torch.log_softmax(logits.float(), dim=-1).view(
                    len(batch), len(inputs), width, -1
                )
                target_ids = targets.to(device)[None, :, :, None].expand(len(batch), -1, -1, 1)
                selected = distributions[:, input_of.to(device)].gather(3, target_ids)[..., 0]
                selected = torch.where(present.bool().to(device), selected, 0.0)
            logprobs[batch] = selected.double().cpu().numpy()
        return logprobs
