"""Models that read texts and give numbers: encoders, sequence classifiers, multiple-choice readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.hf.tokens import Tokens
from refladder.engine.memory import fitting, halving

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from refladder.backends.hf.opening import Opened

    FloatArray = NDArray[np.float64]

_TOKENS = 4096  # of a batch, padding included
_POSITIONS_AFTER_PADDING = {"roberta", "xlm-roberta", "longformer", "camembert"}  # their first position is padding + 1


class Row(NamedTuple):
    """What a model reads at once: token ids, their types where the model has some, and whether a text was cut."""

    ids: list[int]
    types: list[int] | None
    cut: bool


class Reader:
    """A model that reads texts or pairs of texts, in batches of like length that fit in the memory.

    Args:
        opened: the model.
        memory: bytes that may be used beside the weights.
    """

    def __init__(self, opened: Opened, memory: int) -> None:
        self.opened = opened
        self.tokens = Tokens(opened.tokenizer, opened.name, encoder_decoder=True)
        self._memory = memory
        self._config = opened.model.config.get_text_config()
        self._frame = opened.tokenizer("a", "a")
        self._mark = self.tokens.plain("a")

    @property
    def longest(self) -> int:
        """Tokens that the model takes: what its tokenizer says, unless its position table is shorter."""
        longest = int(self.opened.tokenizer.model_max_length)
        positions = getattr(self._config, "max_position_embeddings", None)
        if isinstance(positions, int) and positions > 0:
            if self._config.model_type in _POSITIONS_AFTER_PADDING:
                positions -= self._config.pad_token_id + 1
            longest = min(longest, positions)
        return longest

    def single(self, text: str) -> Row:
        """A text alone, its end cut off where it is too long."""
        ids, cut = self.tokens.framed(self.tokens.plain(text), self.longest)
        return Row(ids, None, cut)

    def pair(self, first: Sequence[int], second: Sequence[int], tail: Sequence[int] = ()) -> Row | None:
        """Two texts as ids, framed as the tokenizer does it; the end of the first is cut off where they are too long.

        Args:
            first: `tokens.plain` of a text.
            second: likewise, always whole.
            tail: ids that stand after the first text and stay, such as a question about it.

        Returns:
            None where nothing of the first text would be left, or the rest alone is too long.
        """
        frame, mark = list(self._frame["input_ids"]), self._mark
        places = [place for place in range(len(frame)) if frame[place : place + len(mark)] == mark]
        one, two, width = places[0], places[-1], len(mark)
        room = self.longest - (len(frame) - 2 * width) - len(tail) - len(second)
        if room < min(1, len(first)):
            return None
        start = [*first[:room], *tail]
        ids = [*frame[:one], *start, *frame[one + width : two], *second, *frame[two + width :]]
        types = self._frame.get("token_type_ids")
        if types is not None:
            types = [
                *types[:one],
                *[types[one]] * len(start),
                *types[one + width : two],
                *[types[two]] * len(second),
                *types[two + width :],
            ]
        return Row(ids, types, len(first) > room)

    def run(self, rows: Sequence[Row], outputs: Callable[[Any, dict[str, Any]], Any]) -> list[FloatArray]:
        """What a model gives for each row.

        Args:
            rows: of `single` or of `pair`.
            outputs: from the model and its arguments (ids, mask, types) to a tensor, whose first axis is the batch.

        Returns:
            An array for each row; on an axis of tokens there may be padding at its end.

        Raises:
            BackendError: memory is short even for one row at a time.
        """
        if not rows:
            return []
        longest = max(len(row.ids) for row in rows)
        most = fitting(max(_TOKENS, longest), 0, 0, self._config, self._memory)
        what = f"{self.opened.name} with texts of up to {longest} tokens"
        return halving(lambda tokens: self._batches(rows, outputs, tokens), most, 1, what)

    def _batches(
        self, rows: Sequence[Row], outputs: Callable[[Any, dict[str, Any]], Any], most: int
    ) -> list[FloatArray]:
        import torch  # noqa: PLC0415  optional

        model = self.opened.model
        found: dict[int, FloatArray] = {}
        order = sorted(range(len(rows)), key=lambda place: -len(rows[place].ids))
        while order:
            width = len(rows[order[0]].ids)
            batch = order[: max(1, most // width)]
            del order[: len(batch)]
            padding = self.opened.tokenizer.pad_token_id or 0
            columns = {
                "input_ids": [[*rows[place].ids, *[padding] * (width - len(rows[place].ids))] for place in batch],
                "attention_mask": [
                    [1] * len(rows[place].ids) + [0] * (width - len(rows[place].ids)) for place in batch
                ],
            }
            if rows[batch[0]].types is not None:
                columns["token_type_ids"] = [
                    [*(rows[place].types or ()), *[0] * (width - len(rows[place].ids))] for place in batch
                ]
            with torch.inference_mode():
                arguments = {name: torch.tensor(values, device=model.device) for name, values in columns.items()}
                numbers = outputs(model, arguments).float().cpu().double().numpy()
            found.update(zip(batch, numbers, strict=True))
        return [found[place] for place in range(len(rows))]
