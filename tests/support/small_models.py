"""Small random models, made on the spot: they know nothing, and what is computed with them must still be exact."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertModel,
    LongformerConfig,
    LongformerForMultipleChoice,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

WORDS = """the a storm closed harbour until thursday bread ghent ferry is was of in and open question : . , ? yes no Yes
No summary document claim paragraph fluent coherent this to with consistent The relation Texel island sv1 What what
when unanswerable reference"""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "</s>", "<sep>", "<extra_id_0>")
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
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", VOCABULARY["</s>"])]
        )
        names = {"eos_token": "</s>", "sep_token": "<sep>"}
        names["additional_special_tokens"] = ["<extra_id_0>"]
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


def _t5(**more):
    config = T5Config(
        vocab_size=len(VOCABULARY),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=VOCABULARY["</s>"],
        **more,
    )
    return T5ForConditionalGeneration(config)


def make_t5(folder):
    torch.manual_seed(3)
    return _save(_t5(), folder, pairs=False, longest=10**6)


def make_taught_t5(folder, lessons):
    """A T5 that answers each input text of `lessons` with its output text: nearly all of its probability is there."""
    torch.manual_seed(4)
    # so that logits are not scaled down, and it learns soon
    model = _t5(tie_word_embeddings=False).train()
    tokenizer = _tokenizer(pairs=False, longest=10**6)
    given = tokenizer(list(lessons), padding=True, return_tensors="pt", return_token_type_ids=False)
    wanted = tokenizer(list(lessons.values()), padding=True, return_tensors="pt")["input_ids"]
    wanted = wanted.masked_fill(wanted == 0, -100)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(400):
        loss = model(**given, labels=wanted).loss
        if loss.item() < 3e-3:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # logits four times as large: what is probable becomes sure
    model.decoder.final_layer_norm.weight.data *= 4
    with torch.no_grad():
        assert model(**given, labels=wanted).loss.item() < 1e-6
    return _save(model.eval(), folder, pairs=False, longest=10**6)


def make_bert_choice(folder):
    torch.manual_seed(5)
    return _save(BertForMultipleChoice(_bert_config()), folder, pairs=True)


def _roberta_tokenizer(longest):
    """As that of RoBERTa and Longformer: byte-level BPE in which a word after a space is another token."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "[PAD]", "</s>", "[UNK]"]
    inner.train_from_iterator(
        [f"{WORDS} {WORDS}"],
        trainers.BpeTrainer(
            vocab_size=600,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            min_frequency=1,
            show_progress=False,
        ),
    )
    ends = [(token, inner.token_to_id(token)) for token in ("<s>", "</s>")]
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="[UNK]",  # noqa: S106
        pad_token="[PAD]",  # noqa: S106
        bos_token="<s>",  # noqa: S106
        cls_token="<s>",  # noqa: S106
        sep_token="</s>",  # noqa: S106
        eos_token="</s>",  # noqa: S106
        model_max_length=longest,
        model_input_names=["input_ids", "attention_mask"],
    )


def make_longformer_choice(folder):
    """As the published reader of MQAG: a Longformer with RoBERTa's frame of tokens."""
    torch.manual_seed(6)
    tokenizer = _roberta_tokenizer(64)
    config = LongformerConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        attention_window=[8, 8],
        max_position_embeddings=66,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        sep_token_id=tokenizer.sep_token_id,
        type_vocab_size=1,
        initializer_range=0.5,
    )
    LongformerForMultipleChoice(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
