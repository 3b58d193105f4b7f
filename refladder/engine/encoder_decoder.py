"""Log-probabilities of labels from an encoder-decoder (T5, FLAN-T5, BART).

The encoder reads in both directions, so two prompts share nothing exactly. Prompts are put in batches of like length,
each is encoded once, and all its labels are decoded over the same encoder output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.engine.memory import fitting, halving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

_TOKENS = 4096  # of a batch of prompts, padding included


class EncoderDecoder:
    """An encoder-decoder that gives the log-probabilities of labels; `tokens_run` counts encoder tokens and padding.

    Args:
        model: of transformers.
        memory: bytes that may be used beside the weights.
    """

    def __init__(self, model: Any, memory: int) -> None:  # noqa: ANN401
        self.model = model
        self.tokens_run = 0
        self.way = "batches"
        self._memory = memory
        config = model.config.get_text_config()
        self._config = config
        start = config.decoder_start_token_id
        if start is None:
            start = model.generation_config.decoder_start_token_id
        self.start = int(config.pad_token_id if start is None else start)

    @property
    def longest(self) -> int | None:
        """Tokens that fit in the encoder; None where it sets no limit, as with T5's relative positions."""
        return getattr(self._config, "max_position_embeddings", None)

    def logprobs(self, prompts: Sequence[Sequence[int]], labels: Sequence[Sequence[int]]) -> FloatArray:
        """The sum of the token log-probabilities of every label after every prompt.

        Args:
            prompts: encoder ids.
            labels: decoder ids, without the decoder's start.

        Returns:
            Shape (prompts, labels, longest label), nats for each token, 0 after a label's end. NaN where the model
            gave NaN.

        Raises:
            BackendError: memory is short even for one prompt at a time.
        """
        longest = max(map(len, prompts))
        reads = sum(map(len, labels)) * max(1, _TOKENS // longest)
        most = fitting(max(_TOKENS, longest), 0, reads, self._config, self._memory)
        return halving(
            lambda tokens: self._batches(prompts, labels, tokens),
            most,
            1,
            f"{self._config.model_type} with prompts of up to {longest} tokens",
        )

    def _batches(self, prompts: Sequence[Sequence[int]], labels: Sequence[Sequence[int]], most: int) -> FloatArray:
        import torch  # noqa: PLC0415  optional

        device = self.model.device
        width = max(map(len, labels))
        targets = torch.zeros((len(labels), width), dtype=torch.long)
        for number, label in enumerate(labels):
            targets[number, : len(label)] = torch.as_tensor(label)
        present = torch.arange(width)[None, :] < torch.as_tensor([[len(label)] for label in labels])
        inputs = torch.cat([torch.full((len(labels), 1), self.start), targets[:, :-1]], dim=1)
        inputs, rows = torch.unique(inputs, dim=0, return_inverse=True)  # one-token labels all begin alike
        found = np.full((len(prompts), len(labels), width), np.nan)
        order = sorted(range(len(prompts)), key=lambda place: -len(prompts[place]))
        while order:
            longest = len(prompts[order[0]])
            batch = order[: max(1, most // longest)]
            del order[: len(batch)]
            ids = torch.zeros((len(batch), longest), dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, place in enumerate(batch):
                ids[row, : len(prompts[place])] = torch.as_tensor(prompts[place])
                mask[row, : len(prompts[place])] = 1
            self.tokens_run += ids.numel()
            with torch.inference_mode():
                ids, mask = ids.to(device), mask.to(device)
                encoded = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
                encoded.last_hidden_state = encoded.last_hidden_state.repeat_interleave(len(inputs), dim=0)
                logits = self.model(
                    encoder_outputs=encoded,
                    attention_mask=mask.repeat_interleave(len(inputs), dim=0),
                    decoder_input_ids=inputs.repeat(len(batch), 1).to(device),
                    use_cache=False,
                ).logits
                logprobs = torch.log_softmax(logits.float(), dim=-1).view(len(batch), len(inputs), width, -1)
                wanted = targets.to(device)[None, :, :, None].expand(len(batch), -1, -1, 1)
                picked = logprobs[:, rows.to(device)].gather(3, wanted)[..., 0]
                picked = torch.where(present.to(device), picked, 0.0)
            found[batch] = picked.double().cpu().numpy()
        return found
