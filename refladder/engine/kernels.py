"""Fused kernels: what a decoder can skip, or do in fewer passes over memory, if only a few positions are read.

- The feed-forward of the last layer runs for the positions that are read only, as no later layer sees the others.
  (`attention` does the same for the attention of that layer.)
- On a CPU, root-mean-square norms, which take half a dozen passes, run in chunks that stay in a core's cache.
- On a CPU in bfloat16, the matrix products of a gated feed-forward apply its activation and its product themselves,
  which saves two passes over the largest tensors of a layer.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK = 256  # tokens
_CHECKED_TOKENS = 8
_TOLERANCE = 0.02  # of the largest number, between a feed-forward and its fused form; bfloat16 has 3 digits

Replacements = list[tuple[Any, "Callable[..., Any]"]]  # modules, each with the forward that replaces its own


def decoder_layers(model: Any) -> list[Any]:  # noqa: ANN401  of transformers
    """The layers of a model's decoder, in order; empty if they cannot be told."""
    try:
        decoder = model.get_decoder()
    except (AttributeError, NotImplementedError):  # that of a model's own code
        return []
    return list(getattr(decoder, "layers", None) or getattr(decoder, "h", None) or [])


class FusedKernels:
    """The fused kernels that a model allows; `active` is the context in which its forward pass uses them.

    Args:
        model: a decoder of transformers.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        layers = decoder_layers(model) or [None]
        self._last_feed_forward = getattr(layers[-1], "mlp", None)
        self._replacements: Replacements = []
        if model.device.type == "cpu":
            self._replacements = [*_fused_feed_forwards(model), *_chunked_norms(model)]

    @contextlib.contextmanager
    def active(self, indices: Any, tokens: int) -> Iterator[None]:  # noqa: ANN401  a tensor
        """Use the kernels in a forward pass of `tokens` tokens per row, of which only `indices` are read.

        The logits at `indices` are right; those elsewhere are arbitrary.
        """

        def select(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ANN401
            shape = inputs[0].shape[:2]  # Bloom gives the residual stream too
            return tuple(each[:, indices] if getattr(each, "shape", ())[:2] == shape else each for each in inputs)

        def scatter(_module: Any, _inputs: tuple[Any, ...], output: Any) -> Any:  # noqa: ANN401
            if isinstance(output, tuple):  # of experts, with the router's logits
                return scatter(_module, _inputs, output[0]), *output[1:]
            full = output.new_zeros(len(output), tokens, output.shape[-1])
            full[:, indices] = output
            return full

        last = self._last_feed_forward
        with contextlib.ExitStack() as stack:
            if last is not None:
                for hook in last.register_forward_pre_hook(select), last.register_forward_hook(scatter):
                    stack.callback(hook.remove)
            for module, forward in self._replacements:
                module.forward = forward  # of this instance; that of its class is untouched
                stack.callback(delattr, module, "forward")
            yield


def _chunked_norms(model: Any) -> Replacements:  # noqa: ANN401
    norms = (module for module in model.modules() if type(module).__name__.endswith("RMSNorm"))
    return [(norm, _in_chunks(norm.forward)) for norm in norms if "forward" not in vars(norm)]


def _in_chunks(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def forward(hidden: Any) -> Any:  # noqa: ANN401  a tensor
        if hidden.dim() < 3 or hidden.shape[1] <= _CHUNK:  # noqa: PLR2004  (rows, tokens, width)
            return plain(hidden)
        first, *others = hidden.split(_CHUNK, 1)
        first_output = plain(first)
        output = first_output.new_empty(hidden.shape)
        output[:, :_CHUNK] = first_output
        for chunk, target in zip(others, output[:, _CHUNK:].split(_CHUNK, 1), strict=True):
            target.copy_(plain(chunk))
        return output

    return forward


def _fused_feed_forwards(model: Any) -> Replacements:  # noqa: ANN401
    """Feed-forwards of the form down(activation(gate(x)) * up(x)), each with its fused form."""
    import torch  # noqa: PLC0415  optional

    if model.dtype != torch.bfloat16 or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return []
    replacements: Replacements = []
    for module in model.modules():
        gate, up, down = (getattr(module, name, None) for name in ("gate_proj", "up_proj", "down_proj"))
        activation = _activation(getattr(module, "act_fn", None))
        if (
            activation
            and all(type(layer) is torch.nn.Linear for layer in (gate, up, down))
            and "forward" not in vars(module)
        ):
            forward = _fused_feed_forward(gate, up, down, *activation)
            if _agrees(module, forward):
                replacements.append((module, forward))
    return replacements


def _activation(function: Any) -> tuple[str, str] | None:  # noqa: ANN401  whatever the attribute holds
    """The name and variant of an activation function in oneDNN; None for a function that oneDNN lacks."""
    import torch  # noqa: PLC0415  optional

    if not isinstance(function, torch.nn.Module):
        return None
    inputs = torch.linspace(-6, 6, 49)
    outputs = function(inputs)
    if torch.allclose(outputs, torch.nn.functional.silu(inputs)):
        return "swish", ""
    if torch.allclose(outputs, torch.nn.functional.gelu(inputs, approximate="tanh"), atol=1e-6):
        return "gelu", "tanh"
    return None


def _fused_feed_forward(gate: Any, up: Any, down: Any, name: str, algorithm: str) -> Callable[[Any], Any]:  # noqa: ANN401  layers
    import torch  # noqa: PLC0415  optional

    linear = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001  torch.compile emits the same operator

    def forward(hidden: Any) -> Any:  # noqa: ANN401  a tensor
        rows = hidden.reshape(-1, hidden.shape[-1])
        inner = linear(rows, gate.weight, gate.bias, name, [], algorithm)
        inner = linear.binary(rows, inner, up.weight, up.bias, "mul")
        return down(inner).view(*hidden.shape[:-1], down.out_features)

    return forward


def _agrees(module: Any, forward: Callable[[Any], Any]) -> bool:  # noqa: ANN401
    """Whether the fused form agrees with a feed-forward, and this torch and this processor support it."""
    import torch  # noqa: PLC0415  optional

    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(1, _CHECKED_TOKENS, module.gate_proj.in_features, generator=generator).bfloat16()
    try:
        with torch.inference_mode():
            plain = module(hidden)
            difference = (forward(hidden) - plain).abs().max()
        return bool(difference <= _TOLERANCE * plain.abs().max())
    except (RuntimeError, AttributeError, TypeError):
        return False
