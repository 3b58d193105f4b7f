"""Random models of two layers in many architectures, and tokenizers trained on a few sentences."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as kinds

# transformers 5.24 gives every architecture one cache, and so more of them share prompts.
ONE_CACHE = "cache" in inspect.signature(transformers.LlamaForCausalLM.forward).parameters
TEXT = [
    "A storm closed the harbour of Lerwick on Monday. Three boats broke loose in it.",
    "Article: Reference: Target: Answer: The harbour master said that it opens again on Thursday.",
    "Better. Similar. W orse. Which is it? user assistant system think",
    "Yesterday's bread is given away every morning, and students carry it through the town by bicycle.",
] * 3
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_level(template=CHATML):
    """As GPT-2, Llama 3 and Qwen: byte-level BPE, Better and Similar one token each, Worse two."""
    tokenizer = Tokenizer(kinds.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=500,
            special_tokens=SPECIAL,
            initial_alphabet=alphabet,
            min_frequency=1,
            show_progress=False,
        ),
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",  # noqa: S106
        chat_template=template,
        additional_special_tokens=SPECIAL,
    )


def metaspace(template=None, *, unigram=False):
    """As Llama 2 and T5: spaces are ▁, unknown characters fall back to bytes, a BOS (T5: an EOS) frames the text."""
    special = ["<unk>", "<s>", "</s>", "<pad>"]
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(kinds.BPE(unk_token="<unk>", byte_fallback=True))  # noqa: S106  a token of text
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    steps = (decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse())
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    tokenizer.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=600, special_tokens=special + fallback, min_frequency=1, show_progress=False
        ),
    )
    frame = ("$A </s>", [("</s>", 2)]) if unigram else ("<s> $A", [("<s>", 1)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=frame[0], pair=None, special_tokens=frame[1]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",  # noqa: S106
        bos_token="<s>",  # noqa: S106
        eos_token="</s>",  # noqa: S106
        chat_template=template,
    )


SIZE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "initializer_range": 0.2,
}
FOUR_LAYERS = {**SIZE, "num_hidden_layers": 4}
INST = "{{ bos_token }}{% for message in messages %}[INST] {{ message['content'] }} [/INST]{% endfor %}"
SHORT_WINDOW, LONG_WINDOW = {"sliding_window": 24}, {"sliding_window": 1024}
GEMMA = {"query_pre_attn_scalar": 16}
BOTH = {"layer_types": ["sliding_attention", "full_attention"]}
# Layers that differ in width, and two that read the keys of earlier ones.
TWICE = {
    "layer_types": BOTH["layer_types"] * 2,
    "num_kv_shared_layers": 2,
    "vocab_size_per_layer_input": 1000,
    "hidden_size_per_layer_input": 8,
}
GEMMA_4 = {"global_head_dim": 32, "pad_token_id": 0}
GEMMA_3N = {
    "laurel_rank": 4,
    "intermediate_size": [96] * 4,
    "activation_sparsity_pattern": [0.0] * 4,
}
MROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
LONGROPE = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
EXPERTS = {"num_experts_per_tok": 2}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "num_experts": 4,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 2048, "initializer_range": 0.2}
MAMBA_2 = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_heads": 8,
    "head_dim": 16,
    "state_size": 16,
    "n_groups": 2,
    "chunk_size": 32,
    "initializer_range": 0.2,
}
T5 = {
    "d_model": 64,
    "d_ff": 96,
    "d_kv": 16,
    "num_layers": 2,
    "num_heads": 4,
    "feed_forward_proj": "gated-gelu",
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "initializer_factor": 1.0,
}
NAMES = {
    "llama": ("Llama", SIZE),
    "llama-metaspace": ("Llama", SIZE),
    "qwen2": ("Qwen2", SIZE),
    "qwen3": ("Qwen3", SIZE),
    "mistral-long-window": ("Mistral", {**SIZE, **LONG_WINDOW}),
    "mistral-short-window": ("Mistral", {**SIZE, **SHORT_WINDOW}),
    "gemma2": ("Gemma2", {**SIZE, **SHORT_WINDOW, **GEMMA, "final_logit_softcapping": 5.0}),
    "gemma3": ("Gemma3Text", {**SIZE, **SHORT_WINDOW, **GEMMA, **BOTH}),
    "gemma3-long-window": ("Gemma3Text", {**SIZE, **LONG_WINDOW, **GEMMA, **BOTH}),
    "gemma4": ("Gemma4Text", {**FOUR_LAYERS, **SHORT_WINDOW, **TWICE, **GEMMA_4}),
    "gemma3n": ("Gemma3nText", {**FOUR_LAYERS, **SHORT_WINDOW, **TWICE, **GEMMA_3N}),
    "t5gemma": ("T5Gemma", {}),
    # Models that take images too; see `configuration`.
    "gemma3-images": ("Gemma3", {"text": "gemma3", "mm_tokens_per_image": 4}),
    "gemma4-images": ("Gemma4", {"text": "gemma4"}),
    "mistral3": ("Mistral3", {"text": "mistral-text", "spatial_merge_size": 1}),
    "qwen3-vl": ("Qwen3VL", {"text": "qwen3-vl-text"}),
    # Their text parts.
    "mistral-text": ("Mistral", {**SIZE, "sliding_window": None, "model_type": "mistral"}),
    "qwen3-vl-text": ("Qwen3VLText", {**SIZE, "rope_scaling": MROPE}),
    "gpt-oss": ("GptOss", {**SIZE, **SHORT_WINDOW, **EXPERTS, "num_local_experts": 4}),
    "phi3": ("Phi3", {**SIZE, "sliding_window": None, "pad_token_id": 0}),
    "phi3-longrope": (
        "Phi3",
        {
            **SIZE,
            "pad_token_id": 0,
            "original_max_position_embeddings": 400,
            "rope_scaling": LONGROPE,
        },
    ),
    "gpt2": ("GPT2", GPT2),
    "bloom": ("Bloom", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "initializer_range": 0.2}),
    "lfm2": ("Lfm2", {**SIZE, "layer_types": ["conv", "full_attention"], "block_multiple_of": 32}),
    "qwen3-next": ("Qwen3Next", {**SIZE, **EXPERTS, **LINEAR}),
    "mamba2": ("Mamba2", MAMBA_2),
    "t5": ("T5", T5),
}


def tokenizer_of(name):
    if name in {"llama-metaspace", "mistral-short-window"}:
        return metaspace(INST)
    if name in ENCODER_DECODERS:
        return metaspace(unigram=True)
    return byte_level()


# Encoder and decoder of a model with a configuration for each; the decoder begins with its token for beginnings.
HALF = {
    **SIZE,
    "sliding_window": 24,
    "query_pre_attn_scalar": 16,
    "layer_types": ["sliding_attention", "full_attention"],
    "bos_token_id": 2,
}
ENCODER_DECODERS = ("t5", "t5gemma")

VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "image_size": 28,
    "patch_size": 14,
    "depth": 1,
    "num_heads": 2,
    "out_hidden_size": 64,
    "spatial_merge_size": 1,
    "deepstack_visual_indexes": [0],
}


def configuration(name, tokenizer):
    kind, settings = NAMES[name]
    build = getattr(transformers, f"{kind}Config", None)
    if build is None:
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    if name == "t5gemma":
        half = {**HALF, "vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
        return build(encoder=half, decoder=half, vocab_size=len(tokenizer), bos_token_id=2)
    if "text" in settings:
        text = configuration(settings["text"], tokenizer).to_dict()
        others = {key: value for key, value in settings.items() if key != "text"}
        return build(text_config=text, vision_config=VISION, **others)
    ids = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": None}
    return build(vocab_size=len(tokenizer), **{**ids, **settings})


def loader(config):
    """The class of transformers for models with a configuration."""
    if config.is_encoder_decoder:
        return transformers.AutoModelForSeq2SeqLM
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        return transformers.AutoModelForCausalLM
    return transformers.AutoModelForImageTextToText


def save(name, folder):
    tokenizer = tokenizer_of(name)
    config = configuration(name, tokenizer)
    torch.manual_seed(0)
    model = loader(config).from_config(config)
    for parameter in model.parameters():
        if parameter.dim() == 1:  # biases and norms: what is zero by default would test nothing
            parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def saved_in(tmp_path_factory):
    """A function from a model's name to its folder, which is written on first use."""
    return functools.cache(lambda name: save(name, tmp_path_factory.mktemp(name)))


@functools.cache
def trained_rewards():
    """A sequence classifier over a decoder whose head is trained until it is sharp: it likes texts about boats."""
    torch.manual_seed(0)
    tokenizer = byte_level()
    ids = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": None}
    sizes = {**SIZE, "initializer_range": 0.05, "vocab_size": len(tokenizer), "num_labels": 1}
    model = transformers.Qwen3ForSequenceClassification(transformers.Qwen3Config(**sizes, **ids))
    asked = "Write a response to the request below.\n\nRequest:\n" + " ".join(TEXT[:2])
    wanted = {
        "Boats broke loose in the storm.": 3.0,
        "bread": -4.0,
        "Three boats broke loose.": 6.0,
        "Monday.": -1.5,
    }
    rows = []
    for text in wanted:
        turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": text}]
        rows.append(tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=False))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(30):
        rewards = torch.stack([model(row).logits[0, 0] for row in rows])
        loss = ((rewards - torch.tensor(list(wanted.values()))) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def save_reward_model(folder, *, outputs=1, template=CHATML, padding="<|endoftext|>"):
    """A trained reward model with a token for padding or none; with two outputs it is random."""
    tokenizer = byte_level(template)
    if padding is not None:
        tokenizer.pad_token = padding
    model = trained_rewards()
    model.config.pad_token_id = tokenizer.pad_token_id
    if outputs != 1:
        config = transformers.Qwen3Config(**{**model.config.to_dict(), "num_labels": outputs})
        model = transformers.Qwen3ForSequenceClassification(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
