"""Models that read texts and return numbers: encoders, sequence classifiers, multiple-choice models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.hf.tokens import Tokens
from refladder.engine.batches import by_length, padded
from refladder.engine.memory import halve_until_it_fits, tokens_that_fit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.arrays import FloatArray
    from refladder.backends.hf.loading import Opened


# Tokens of a batch, padding included.
_BATCH_TOKENS = 4096
# Their first position is the padding id + 1.
_POSITIONS_AFTER_PADDING = {
    "camembert", "data2vec-text", "ibert", "longformer", "luke", "mpnet", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl", "xmod",
}  # fmt: skip


class Encoded(NamedTuple):
    """An input of a model: token ids, their types if the model has types, and whether a text was cut."""

    ids: list[int]
    types: list[int] | None
    cut: bool


def longest_text(tokenizer: Any, config: Any) -> int:
    """Return the maximum number of tokens, by the tokenizer or by a shorter position table."""
    longest = int(tokenizer.model_max_length)
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        if config.model_type in _POSITIONS_AFTER_PADDING:
            positions -= config.pad_token_id + 1
        longest = min(longest, positions)
    return longest


class Reader:
    """A model that reads texts or pairs of texts, in batches of similar length that fit in memory."""

    def __init__(self, opened: Opened, memory: int) -> None:
        self.opened = opened
        self.tokens = Tokens(opened.tokenizer, opened.name, encoder_decoder=True)
        self._memory = memory
        self._config = opened.model.config.get_text_config()
        self._frame = opened.tokenizer("a", "a")
        self._placeholder = self.tokens.plain("a")

    @property
    def longest(self) -> int:
        """Return the maximum number of tokens, see `longest_text`."""
        return longest_text(self.opened.tokenizer, self._config)

    def single(self, text: str) -> Encoded:
        """Return a text alone, its end cut off if it is too long."""
        ids, cut = self.tokens.framed(self.tokens.plain(text), self.longest)
        return Encoded(ids, None, cut)

    def pair(
        self, first: Sequence[int], second: Sequence[int], tail: Sequence[int] = ()
    ) -> Encoded | None:
        """Return two texts with special tokens, the first cut at its end to fit; None if nothing of it is left."""
        frame = list(self._frame["input_ids"])
        width = len(self._placeholder)
        starts = []
        for index in range(len(frame)):
            if frame[index : index + width] == self._placeholder:
                starts.append(index)
        low, high = starts[0], starts[-1]
        most = self.longest - (len(frame) - 2 * width) - len(tail) - len(second)
        if most < min(1, len(first)):
            return None
        start = [*first[:most], *tail]

        def filled(framed: Sequence[int], one: Sequence[int], other: Sequence[int]) -> list[int]:
            before, between, after = (
                framed[:low],
                framed[low + width : high],
                framed[high + width :],
            )
            return [*before, *one, *between, *other, *after]

        types = self._frame.get("token_type_ids")
        if types is not None:
            types = filled(types, [types[low]] * len(start), [types[high]] * len(second))
        return Encoded(filled(frame, start, second), types, len(first) > most)

    def run(
        self, rows: Sequence[Encoded], outputs: Callable[[Any, dict[str, object]], Any]
    ) -> list[FloatArray]:
        """Run the model on each row: an array for each, whose axis of tokens may be padded at its end."""
        if not rows:
            return []
        longest = max(len(row.ids) for row in rows)
        most = tokens_that_fit(max(_BATCH_TOKENS, longest), 0, 0, self._config, self._memory)
        description = f"{self.opened.name} with texts of up to {longest} tokens"
        return halve_until_it_fits(
            lambda tokens: self._in_batches(rows, outputs, tokens), most, 1, description
        )

    def _in_batches(
        self, rows: Sequence[Encoded], outputs: Callable[[Any, dict[str, object]], Any], most: int
    ) -> list[FloatArray]:
        import torch

        model = self.opened.model
        results: dict[int, FloatArray] = {}
        padding, alone = self._config.pad_token_id, None
        # A causal classifier finds the last token by the padding id; without one it reads one text at a time.
        if padding is None:
            padding, alone = self.opened.tokenizer.pad_token_id or 0, 1
        for batch in by_length(range(len(rows)), lambda number: len(rows[number].ids), most, alone):
            width = len(rows[batch[0]].ids)
            ids, mask = padded([rows[number].ids for number in batch], width, padding=padding)
            columns = {"input_ids": ids, "attention_mask": mask}
            if rows[batch[0]].types is not None:
                columns["token_type_ids"], _ = padded(
                    [rows[number].types or () for number in batch], width
                )
            with torch.inference_mode():
                arguments = {name: column.to(model.device) for name, column in columns.items()}
                values = outputs(model, arguments).float().cpu().double().numpy()
            results.update(zip(batch, values, strict=True))
        return [results[number] for number in range(len(rows))]
