"""A small float32 copy of a model's architecture, on which a strategy is proved to return the plain numbers.

A strategy can be wrong in its masks, positions or cache, and none of these depends on the weights. So a copy of the
configuration with the first layer of each kind, small widths and random weights shows every such fault, in float32,
where two correct strategies agree to 1e-4. In half precision, and on the real weights, rounding would hide it.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

VOCABULARY = 211
_HEAD_WIDTH = 16
_INNER = 96
_LONGEST_WINDOW = 100  # tokens; the prompts of the check are three times as long
_MOST_KEY_HEADS = 4
_MOST_GROUP = 4  # query heads of a key head
_MOST_PARAMETERS = 5_000_000  # a copy with more has a width that no recipe here knows, and would be slow
_GAIN = 1.5  # of the random weights; the usual initialisation predicts too evenly to show faults


def small_copy(model: Any) -> Any | None:  # noqa: ANN401  of transformers
    """A small float32 model of the same architecture on the same device; None if it cannot be made.

    It has the first layer of each kind of the model, two layers at least. Random weights are drawn in a generator of
    their own, so that no other random number changes.
    """
    import torch  # noqa: PLC0415  optional
    import transformers  # noqa: PLC0415  optional

    try:
        config = small_configuration(model.config.get_text_config())
        with torch.random.fork_rng(devices=[]), _quiet(transformers):
            torch.manual_seed(0)
            config._attn_implementation = model.config._attn_implementation  # noqa: SLF001  no public name exists
            if type(model.config) is type(config):
                small = type(model)(config)
            else:  # the text part of a model that also takes images
                small = transformers.AutoModelForCausalLM.from_config(config)
            small = small.to(torch.float32)
            for parameter in small.parameters():
                if parameter.dim() > 1:
                    fan_in = parameter[0].numel()
                    torch.nn.init.normal_(parameter, std=_GAIN * fan_in**-0.5)
    except Exception:  # noqa: BLE001  a configuration may refuse any width in its own way
        return None
    if _kinds(small) != _kinds(model) or small.num_parameters() > _MOST_PARAMETERS:
        return None
    return small.eval().requires_grad_(requires_grad=False).to(model.device)


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:  # noqa: ANN401
    logging = transformers.utils.logging
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # about unusual widths
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _kinds(model: Any) -> set[tuple[str, ...]]:  # noqa: ANN401
    """The kinds of the model's layers, each as the names of the classes it is made of."""
    layers = getattr(model.base_model, "layers", None) or getattr(model.base_model, "h", None) or []
    return {tuple(sorted({type(part).__name__ for part in layer.modules()})) for layer in layers}


def small_configuration(config: Any) -> Any:  # noqa: ANN401  of transformers
    """A copy of a text configuration with few layers, small widths and a small vocabulary."""
    small = copy.deepcopy(config)
    _keep_layers(small, config.num_hidden_layers)
    heads = getattr(config, "num_attention_heads", None) or _MOST_KEY_HEADS
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    few_key_heads = min(key_heads, _MOST_KEY_HEADS)
    few_heads = few_key_heads * min(_MOST_GROUP, max(1, heads // key_heads))
    _set(small, "num_attention_heads", few_heads)
    _set(small, "num_key_value_heads", few_key_heads)
    hidden = few_heads * _HEAD_WIDTH
    _set(small, "hidden_size", hidden)
    for name in ("head_dim", "query_pre_attn_scalar", "linear_key_head_dim", "linear_value_head_dim", "state_size"):
        _set(small, name, _HEAD_WIDTH)
    _set_latent_widths(small)
    for name in [name for name in vars(config) if "intermediate_size" in name or name in {"n_inner", "ffn_dim"}]:
        _set(small, name, _INNER)
    for name in ("num_experts", "num_local_experts", "n_routed_experts"):
        _set(small, name, min(4, getattr(config, name, None) or 4))
    _set(small, "num_experts_per_tok", min(2, getattr(config, "num_experts_per_tok", None) or 2))
    _set(small, "first_k_dense_replace", min(1, getattr(config, "first_k_dense_replace", None) or 0))
    _set(small, "linear_num_key_heads", 2)
    _set(small, "linear_num_value_heads", 4)
    if getattr(config, "expand", None) and getattr(config, "num_heads", None):  # Mamba: heads x width = expand x hidden
        small.num_heads = int(config.expand) * hidden // _HEAD_WIDTH
        _set(small, "n_groups", min(2, getattr(config, "n_groups", 1)))
    for name in ("sliding_window", "attention_chunk_size"):
        _set(small, name, min(_LONGEST_WINDOW, getattr(config, name, None) or _LONGEST_WINDOW))
    _set(small, "vocab_size", VOCABULARY)
    for number, name in enumerate(("pad_token_id", "bos_token_id", "eos_token_id")):
        if hasattr(small, name):
            setattr(small, name, number)
    _shorten_rotations(small, config)
    return small


def _set(config: Any, name: str, value: int) -> None:  # noqa: ANN401
    """Set an attribute that exists, is not None, and is not computed from others."""
    computed = isinstance(getattr(type(config), name, None), property)
    if not computed and getattr(config, name, None) is not None:
        setattr(config, name, value)


def _set_latent_widths(config: Any) -> None:  # noqa: ANN401
    """The widths of latent attention (DeepSeek), which belong together."""
    if getattr(config, "kv_lora_rank", None) is None:
        return
    for name in ("q_lora_rank", "kv_lora_rank"):
        _set(config, name, 2 * _HEAD_WIDTH)
    for name in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"):
        _set(config, name, _HEAD_WIDTH)
    _set(config, "qk_head_dim", 2 * _HEAD_WIDTH)


def _keep_layers(config: Any, layers: int) -> None:  # noqa: ANN401
    """Keep the first layer of each kind in every list that has an entry for each layer; two layers at least."""
    lists = {
        name: value
        for name, value in vars(config).items()
        if isinstance(value, list) and len(value) == layers and value != list(range(layers))  # that lists layers
    }
    kinds = list(zip(*lists.values(), strict=True)) or [()] * layers
    first_of_kind = {repr(kind): number for number, kind in reversed(list(enumerate(kinds)))}
    indices = sorted(first_of_kind.values())
    indices += itertools.islice((number for number in range(layers) if number not in indices), max(0, 2 - len(indices)))
    indices.sort()
    for name, value in lists.items():
        setattr(config, name, [value[number] for number in indices])
    config.num_hidden_layers = len(indices)


def _shorten_rotations(small: Any, config: Any) -> None:  # noqa: ANN401
    """Factors of single rotations (longrope) are as many as half of the rotary width."""
    old_width = getattr(config, "head_dim", None) or config.hidden_size // getattr(config, "num_attention_heads", 1)
    for name in ("rope_parameters", "rope_scaling"):
        rotation = getattr(small, name, None)
        if isinstance(rotation, dict):
            for key, value in rotation.items():
                if isinstance(value, list) and len(value) > 1:
                    rotation[key] = value[: max(1, len(value) * _HEAD_WIDTH // old_width)]


@contextlib.contextmanager
def in_float32(model: Any) -> Iterator[None]:  # noqa: ANN401  of transformers
    """Run a half-precision model in float32: each module converts its own weights while it runs.

    The memory needed beside the weights is that of the largest module in float32.
    """
    stored: dict[int, tuple[Any, Any]] = {}  # parameters in use, each with its half-precision numbers

    def enter(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:  # noqa: ANN401
        for parameter in module.parameters(recurse=False):
            if _is_half(parameter):
                stored[id(parameter)] = (parameter, parameter.data)
                parameter.data = parameter.data.float()
        return tuple(map(_widened, arguments)), {name: _widened(value) for name, value in named.items()}

    def leave(module: Any, _arguments: Any, _output: Any) -> None:  # noqa: ANN401
        for parameter in module.parameters(recurse=False):
            if id(parameter) in stored:
                parameter.data = stored.pop(id(parameter))[1]

    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if any(map(_is_half, module.parameters(recurse=False))):
                stack.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(leave).remove)
        try:
            yield
        finally:
            for parameter, data in stored.values():
                parameter.data = data


def _is_half(value: Any) -> bool:  # noqa: ANN401
    import torch  # noqa: PLC0415  optional

    return isinstance(value, torch.Tensor) and value.dtype in {torch.bfloat16, torch.float16}


def _widened(value: Any) -> Any:  # noqa: ANN401
    return value.float() if _is_half(value) else value
