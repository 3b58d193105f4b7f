"""Small random models, made on the spot: they know nothing, and what is computed with them must still be exact."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

WORDS = """the a storm closed harbour until thursday bread ghent ferry is was of in and open question : . , ? yes no Yes
No summary document claim paragraph fluent coherent this to with consistent The relation Texel island"""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "</s>")
VOCABULARY = {word: number for number, word in enumerate(dict.fromkeys((*SPECIAL, *WORDS.split())))}


def _tokenizer(*, pairs: bool, longest: int) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))  # noqa: S106  no password
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    if pairs:
        inner.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", VOCABULARY["[CLS]"]), ("[SEP]", VOCABULARY["[SEP]"])],
        )
        names = {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    else:
        inner.post_processor = processors.TemplateProcessing(
            single="$A </s>", special_tokens=[("</s>", VOCABULARY["</s>"])]
        )
        names = {"eos_token": "</s>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="[UNK]",  # noqa: S106  not a password
        pad_token="[PAD]",  # noqa: S106
        model_max_length=longest,
        **names,
    )


def _bert_config(**more):
    return BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        **more,
    )


def _save(model, folder, *, pairs, longest=64):
    model.save_pretrained(folder)
    _tokenizer(pairs=pairs, longest=longest).save_pretrained(folder)
    return folder


def make_encoder(folder):
    torch.manual_seed(1)
    return _save(BertModel(_bert_config()), folder, pairs=True)


def make_classifier(folder, labels):
    torch.manual_seed(2)
    config = _bert_config(id2label=dict(enumerate(labels)), initializer_range=0.5)
    return _save(BertForSequenceClassification(config), folder, pairs=True)


def make_t5(folder):
    torch.manual_seed(3)
    config = T5Config(
        vocab_size=len(VOCABULARY),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=VOCABULARY["</s>"],
    )
    return _save(T5ForConditionalGeneration(config), folder, pairs=False, longest=10**6)
