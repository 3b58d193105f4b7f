"""What a decoder need not do, or can do in fewer passes over memory, where it is read at a few places only.

- The last layer's feed-forward is run for these places only: nothing comes after it that sees the others. (What
  `attention` does in that layer is like it.)
- On a CPU, root-mean-square norms, which are half a dozen passes, are done in pieces that stay in a core's cache.
- On a CPU in bfloat16, the activation and the product of a gated feed-forward are applied by the matrix products
  themselves, instead of in two more passes over the largest tensors of a layer.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PIECE = 256  # tokens
_TRIED = 8  # tokens
_TOLERANCE = 0.02  # of the largest number, between a feed-forward and its shortcut; bfloat16 has 3 digits

Replaced = list[tuple[Any, "Callable[..., Any]"]]  # modules, with the forward that stands for theirs


class Shortcuts:
    """The shortcuts that hold for a model; `taken` is the context in which its forward takes them.

    Args:
        model: a decoder of transformers.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401
        layers = getattr(model.base_model, "layers", None) or [None]
        self._last = getattr(layers[-1], "mlp", None)
        self._replaced: Replaced = []
        if model.device.type == "cpu":
            self._replaced = [*_joined(model), *_in_pieces(model)]

    @contextlib.contextmanager
    def taken(self, places: Any, tokens: int) -> Iterator[None]:  # noqa: ANN401  a tensor
        """Meanwhile a forward of `tokens` tokens a row gives the right logits at `places`, and any others elsewhere."""

        def chosen(_module: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ANN401
            return given[0][:, places], *given[1:]

        def spread(_module: Any, _given: tuple[Any, ...], out: Any) -> Any:  # noqa: ANN401
            if isinstance(out, tuple):  # of experts, with what chose them
                return spread(_module, _given, out[0]), *out[1:]
            full = out.new_zeros(len(out), tokens, out.shape[-1])
            full[:, places] = out
            return full

        with contextlib.ExitStack() as stack:
            if self._last is not None:
                for hook in self._last.register_forward_pre_hook(chosen), self._last.register_forward_hook(spread):
                    stack.callback(hook.remove)
            for module, forward in self._replaced:
                module.forward = forward  # of this instance, before that of its class
                stack.callback(delattr, module, "forward")
            yield


def _in_pieces(model: Any) -> Replaced:  # noqa: ANN401
    norms = (module for module in model.modules() if type(module).__name__.endswith("RMSNorm"))
    return [(norm, _by_piece(norm.forward)) for norm in norms if "forward" not in vars(norm)]


def _by_piece(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def forward(hidden: Any) -> Any:  # noqa: ANN401  a tensor
        if hidden.dim() < 3 or hidden.shape[1] <= _PIECE:  # noqa: PLR2004  (rows, tokens, width)
            return plain(hidden)
        first, *others = hidden.split(_PIECE, 1)
        done = plain(first)
        out = done.new_empty(hidden.shape)
        out[:, :_PIECE] = done
        for given, to in zip(others, out[:, _PIECE:].split(_PIECE, 1), strict=True):
            to.copy_(plain(given))
        return out

    return forward


def _joined(model: Any) -> Replaced:  # noqa: ANN401
    """Feed-forwards of the form down(activation(gate(x)) * up(x)), with one that joins their steps."""
    import torch  # noqa: PLC0415  optional

    if model.dtype != torch.bfloat16 or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return []
    found: Replaced = []
    for module in model.modules():
        gate, up, down = (getattr(module, name, None) for name in ("gate_proj", "up_proj", "down_proj"))
        known = _activation(getattr(module, "act_fn", None))
        if (
            known
            and all(type(layer) is torch.nn.Linear for layer in (gate, up, down))
            and "forward" not in vars(module)
        ):
            forward = _gated(gate, up, down, *known)
            if _does_the_same(module, forward):
                found.append((module, forward))
    return found


def _activation(function: Any) -> tuple[str, str] | None:  # noqa: ANN401  any that is called so
    """The name and the variant by which oneDNN knows a function."""
    import torch  # noqa: PLC0415  optional

    if not isinstance(function, torch.nn.Module):
        return None
    some = torch.linspace(-6, 6, 49)
    found = function(some)
    if torch.allclose(found, torch.nn.functional.silu(some)):
        return "swish", ""
    if torch.allclose(found, torch.nn.functional.gelu(some, approximate="tanh"), atol=1e-6):
        return "gelu", "tanh"
    return None


def _gated(gate: Any, up: Any, down: Any, name: str, algorithm: str) -> Callable[[Any], Any]:  # noqa: ANN401  layers
    import torch  # noqa: PLC0415  optional

    linear = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001  what torch.compile makes of the same steps

    def forward(hidden: Any) -> Any:  # noqa: ANN401  a tensor
        rows = hidden.reshape(-1, hidden.shape[-1])
        inner = linear(rows, gate.weight, gate.bias, name, [], algorithm)
        inner = linear.binary(rows, inner, up.weight, up.bias, "mul")
        return down(inner).view(*hidden.shape[:-1], down.out_features)

    return forward


def _does_the_same(module: Any, forward: Callable[[Any], Any]) -> bool:  # noqa: ANN401
    """Whether a feed-forward does what its shortcut does, and this torch and this processor know how to."""
    import torch  # noqa: PLC0415  optional

    random = torch.Generator().manual_seed(0)
    hidden = torch.randn(1, _TRIED, module.gate_proj.in_features, generator=random).bfloat16()
    try:
        with torch.inference_mode():
            plain = module(hidden)
            difference = (forward(hidden) - plain).abs().max()
        return bool(difference <= _TOLERANCE * plain.abs().max())
    except (RuntimeError, AttributeError, TypeError):
        return False
