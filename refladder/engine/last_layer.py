"""What a decoder's last layer can skip: as no later layer sees them, positions that are not read.

`attention` does for that layer's attention what `shortened` does for its feed-forward.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def decoder_layers(model: Any) -> list[Any]:  # noqa: ANN401  of transformers
    """The layers of a model's decoder, in order; empty if they cannot be told."""
    try:
        decoder = model.get_decoder()
    except (AttributeError, NotImplementedError):  # that of a model's own code
        return []
    return list(getattr(decoder, "layers", None) or getattr(decoder, "h", None) or [])


@contextlib.contextmanager
def shortened(model: Any, indices: Any, tokens: int) -> Iterator[None]:  # noqa: ANN401  of transformers, a tensor
    """Run a model's last feed-forward for `indices` of `tokens` tokens a row; its logits elsewhere are arbitrary."""

    def select(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ANN401
        shape = inputs[0].shape[:2]  # Bloom gives the residual stream too
        return tuple(each[:, indices] if getattr(each, "shape", ())[:2] == shape else each for each in inputs)

    def scatter(_module: Any, _inputs: tuple[Any, ...], output: Any) -> Any:  # noqa: ANN401
        if isinstance(output, tuple):  # of experts, with the router's logits
            return scatter(_module, _inputs, output[0]), *output[1:]
        full = output.new_zeros(len(output), tokens, output.shape[-1])
        full[:, indices] = output
        return full

    layers = decoder_layers(model) or [None]
    feed_forward = getattr(layers[-1], "mlp", None)
    with contextlib.ExitStack() as stack:
        if feed_forward is not None:
            stack.callback(feed_forward.register_forward_pre_hook(select).remove)
            stack.callback(feed_forward.register_forward_hook(scatter).remove)
        yield
