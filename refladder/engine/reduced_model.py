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

from refladder.engine.transformers_logging import silenced

if TYPE_CHECKING:
    from collections.abc import Iterator

VOCABULARY = 211
_HEAD_WIDTH = 16
_INNER = 96
# Tokens; the prompts of the check are three times as long.
_LONGEST_WINDOW = 100
_MOST_KEY_HEADS = 4
# Query heads of a key head.
_MOST_GROUP = 4
# A larger copy has an unknown width, and would be slow.
_MOST_PARAMETERS = 12_000_000
_MOST_LAYERS = 12
# The numbers of a small configuration, in place of those of the model that are neither None nor 0.
_NUMBERS = {
    **dict.fromkeys(
        ("head_dim", "query_pre_attn_scalar", "linear_key_head_dim", "linear_value_head_dim"),
        _HEAD_WIDTH,
    ),
    **dict.fromkeys(("state_size", "hidden_size_per_layer_input"), _HEAD_WIDTH),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCABULARY),
    # Tokens that a recurrence reads at a time.
    **dict.fromkeys(("chunk_size", "mamba_chunk_size"), 32),
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
# The widths of latent attention (DeepSeek), which belong together.
_LATENT = {
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "qk_head_dim"), 2 * _HEAD_WIDTH),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), _HEAD_WIDTH),
}
# The numbers that a small configuration has at most.
_MOST = {
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "top_k_experts"), 2),
    # Groups of experts, of which some are chosen first.
    **dict.fromkeys(("n_group", "topk_group"), 2),
    **dict.fromkeys(("sliding_window", "attention_chunk_size"), _LONGEST_WINDOW),
    "first_k_dense_replace": 1,
}
# How Mamba layers are named by different models: expansion, heads, width of a head, groups, width of the state.
_MAMBA = (
    ("expand", "num_heads", "head_dim", "n_groups", "state_size"),
    ("mamba_expand", "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state"),
    ("mamba_expand", "n_mamba_heads", "mamba_headdim", "mamba_ngroups", "mamba_d_state"),
    ("expand", "mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size"),
)
# Gain of the random weights; the usual initialisation predicts too evenly to show faults.
_GAIN = 1.5


def reduced_model(model: Any) -> Any | None:
    """Return a small float32 model of the same architecture, layer kinds and device; None if it cannot be made."""
    import torch

    kinds = layer_kinds(model)
    # Where the configuration does not list its layers, their pattern is that of the first ones.
    pattern = max(map(kinds.index, kinds), default=0) + 1
    for layers in (None, pattern):
        if layers is not None and layers > _MOST_LAYERS:
            break
        try:
            config = reduced_configuration(model.config.get_text_config(), layers)
            config._attn_implementation = model.config._attn_implementation  # noqa: SLF001  no public name exists
            # The warnings about unusual widths are hidden.
            with torch.random.fork_rng(devices=[]), silenced():
                torch.manual_seed(0)
                # On the meta device, a model of an unknown width takes no memory.
                with torch.device("meta"):
                    outline = _of_type(model, config)
                if (
                    set(layer_kinds(outline)) != set(kinds)
                    or outline.num_parameters() > _MOST_PARAMETERS
                ):
                    continue
                small = _of_type(model, config).to(torch.float32)
                for parameter in small.parameters():
                    if parameter.dim() > 1:
                        fan_in = parameter[0].numel()
                        torch.nn.init.normal_(parameter, std=_GAIN * fan_in**-0.5)
        except Exception:  # noqa: BLE001, S112  a configuration may refuse any width in its own way
            continue
        return small.eval().requires_grad_(requires_grad=False).to(model.device)
    return None


def _of_type(model: Any, config: Any) -> Any:
    """Return a model like another one with another configuration; of one that takes images, the text part."""
    import transformers

    if type(model.config) is type(config):
        return type(model)(config)
    return transformers.AutoModelForCausalLM.from_config(config)


def layer_kinds(model: Any) -> list[tuple[str, ...]]:
    """Return the kind of each layer, as the class names of its parts; empty if the layers are not found."""
    try:
        decoder = model.get_decoder()
    except (AttributeError, NotImplementedError):
        # The model comes with code of its own.
        return []
    kinds = []
    for layer in getattr(decoder, "layers", None) or getattr(decoder, "h", None) or []:
        names = {type(part).__name__ for part in layer.modules()}
        kinds.append(tuple(sorted(names)))
    return kinds


def reduced_configuration(config: Any, layers: int | None = None) -> Any:
    """Return a configuration with small widths and vocabulary, and the first `layers`, or the first of each kind."""
    small = copy.deepcopy(config)
    overrides = {}
    # In such a configuration, some numbers differ between layers.
    if getattr(config, "is_heterogeneous", False):
        for layer, values in config.to_dict()["per_layer_config"].items():
            overrides[int(layer)] = values
        small.per_layer_config = None
        config = copy.deepcopy(small)
    indices = _first_of_each_kind(config, overrides) if layers is None else list(range(layers))
    _keep_layers(small, indices, config.num_hidden_layers)
    heads = getattr(config, "num_attention_heads", None) or _MOST_KEY_HEADS
    key_heads = getattr(config, "num_key_value_heads", None) or heads
    few_key_heads = min(key_heads, _MOST_KEY_HEADS)
    few_heads = few_key_heads * min(_MOST_GROUP, max(1, heads // key_heads))
    _set(small, "num_attention_heads", few_heads)
    _set(small, "num_key_value_heads", few_key_heads)
    hidden = few_heads * _HEAD_WIDTH
    _set(small, "hidden_size", hidden)
    latent = getattr(config, "kv_lora_rank", None) is not None
    numbers = _NUMBERS | _LATENT if latent else _NUMBERS
    for name, value in numbers.items():
        _set(small, name, value)
    for name, most in _MOST.items():
        _set(small, name, min(most, getattr(config, name, None) or most))
    rotated = getattr(config, "rotary_dim", None)
    # Dimensions of a head (GPT-J): the same share of it, and even.
    if rotated:
        share = rotated * config.num_attention_heads / config.hidden_size
        _set(small, "rotary_dim", 2 * max(1, round(share * _HEAD_WIDTH / 2)))
    _set_inner_widths(small, config)
    _set_mamba(small, config, hidden)
    for number, name in enumerate(("pad_token_id", "bos_token_id", "eos_token_id")):
        if hasattr(small, name):
            setattr(small, name, number)
    _shorten_rotations(small, config)
    if overrides:
        per_layer = {}
        for number, layer in enumerate(indices):
            values = overrides.get(layer, {})
            per_layer[number] = {name: _override(small, name, values[name]) for name in values}
        small.per_layer_config = per_layer
    return small


def _set(config: Any, name: str, value: Any) -> None:
    """Set an attribute that exists, is neither None nor 0 (there is no such part), and is not computed from others."""
    computed = isinstance(getattr(type(config), name, None), property)
    if not computed and getattr(config, name, None):
        setattr(config, name, value)


def _set_inner_widths(small: Any, config: Any) -> None:
    for name in vars(config):
        if "intermediate_size" in name or name in {"n_inner", "ffn_dim"}:
            widths = getattr(small, name)
            _set(small, name, [_INNER] * len(widths) if isinstance(widths, list) else _INNER)


def _set_mamba(small: Any, config: Any, hidden: int) -> None:
    """Set the widths of Mamba layers: heads x width = expand x hidden."""
    for expand, heads, width, groups, state in _MAMBA:
        if getattr(config, expand, None) and getattr(config, heads, None):
            inner = int(getattr(config, expand) * hidden)
            # Falcon-H1 ignores the expansion if this is set.
            _set(small, "mamba_d_ssm", inner)
            _set(small, heads, inner // _HEAD_WIDTH)
            _set(small, width, _HEAD_WIDTH)
            _set(small, groups, min(2, getattr(config, groups, 1)))
            _set(small, state, _HEAD_WIDTH)


def _first_of_each_kind(config: Any, overrides: dict[int, Any]) -> list[int]:
    """Return the first layer of each kind, at least two layers, by the lists with an entry for each layer."""
    count = config.num_hidden_layers
    # Layers from here on use the keys of earlier layers.
    first_shared = count - (getattr(config, "num_kv_shared_layers", None) or 0)
    lists = [value for value in vars(config).values() if _lists_layers(value, count)]
    first = {}
    for layer in reversed(range(count)):
        kind = [*(value[layer] for value in lists), overrides.get(layer), layer >= first_shared]
        first[repr(kind)] = layer
    indices = sorted(first.values())
    indices += itertools.islice(
        (layer for layer in range(count) if layer not in indices), max(0, 2 - len(indices))
    )
    return sorted(indices)


def _lists_layers(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and value != list(range(count))


def _keep_layers(small: Any, indices: list[int], count: int) -> None:
    for name, value in vars(small).items():
        if _lists_layers(value, count):
            setattr(small, name, [value[layer] for layer in indices])
    shared = getattr(small, "num_kv_shared_layers", None) or 0
    if shared:
        small.num_kv_shared_layers = sum(layer >= count - shared for layer in indices)
    small.num_hidden_layers = len(indices)


def _override(small: Any, name: str, value: Any) -> Any:
    """Return a layer's own number in the small configuration: a width twice as large, or half the heads."""
    if "head_dim" in name or "intermediate_size" in name:
        return 2 * getattr(small, name)
    if "num_key_value_heads" in name:
        return max(1, getattr(small, name) // 2)
    return value


def _shorten_rotations(small: Any, config: Any) -> None:
    """Shorten the factors of single rotations (longrope) to half of the rotary width."""
    old_width = getattr(config, "head_dim", None) or config.hidden_size // getattr(
        config, "num_attention_heads", 1
    )
    for name in ("rope_parameters", "rope_scaling"):
        rotation = getattr(small, name, None)
        if isinstance(rotation, dict):
            for key, value in rotation.items():
                if isinstance(value, list) and len(value) > 1:
                    rotation[key] = value[: max(1, len(value) * _HEAD_WIDTH // old_width)]


@contextlib.contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """Run a half-precision model in float32: each module converts its own weights while it runs."""
    # Parameters in use, each with its half-precision numbers.
    stored: dict[int, tuple[Any, Any]] = {}

    def enter(module: Any, arguments: tuple[Any, ...], named: dict[str, object]) -> tuple[Any, Any]:
        for parameter in module.parameters(recurse=False):
            if _is_half(parameter):
                stored[id(parameter)] = (parameter, parameter.data)
                parameter.data = parameter.data.float()
        widened = {name: _widened(value) for name, value in named.items()}
        return tuple(map(_widened, arguments)), widened

    def leave(module: Any, _arguments: Any, _output: Any) -> None:
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


def _is_half(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.dtype in {torch.bfloat16, torch.float16}


def _widened(value: Any) -> Any:
    return value.float() if _is_half(value) else value
