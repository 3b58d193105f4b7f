"""A saved Llama model with a byte-level tokenizer as a GGUF file; needs the package gguf."""

import json
from pathlib import Path

import gguf
import transformers

_NAMES = {  # in transformers: in llama.cpp
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def save(folder, path, *, template=True, scale=1.0):
    """Write the Llama model in a folder to a GGUF file in float32, its weights times `scale`."""
    config = transformers.AutoConfig.from_pretrained(folder)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_tokenizer(writer, folder, template=template)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    for name, tensor in model.state_dict().items():
        values = tensor.numpy() * scale
        if ".q_proj." in name or ".k_proj." in name:
            values = _interleaved(values, config.head_dim)
        writer.add_tensor(_name(name), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _name(name):
    layers = "model.layers."
    if not name.startswith(layers):
        return _NAMES[name.removesuffix(".weight")] + ".weight"
    number, _, rest = name.removeprefix(layers).partition(".")
    return f"blk.{number}.{_NAMES[rest.removesuffix('.weight')]}.weight"


def _interleaved(values, width):
    """Rows of queries or keys in llama.cpp's order: it rotates neighbours, transformers the halves of a head."""
    heads = values.shape[0] // width
    return values.reshape(heads, 2, width // 2, -1).swapaxes(1, 2).reshape(values.shape).copy()


def _add_tokenizer(writer, folder, *, template):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    parts = json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = {entry["id"] for entry in parts["added_tokens"]}
    kinds = [
        gguf.TokenType.CONTROL if number in special else gguf.TokenType.NORMAL
        for _, number in vocabulary
    ]
    writer.add_tokenizer_model("gpt2")  # byte-level BPE
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in parts["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    if tokenizer.pad_token_id is not None:
        writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(False)  # noqa: FBT003  its parameter's only form
    if template:
        writer.add_chat_template(tokenizer.chat_template)
