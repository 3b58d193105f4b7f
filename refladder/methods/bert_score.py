"""Texts in the space of an encoder.

BERTScore matches each token of a text with its nearest token of a reference. `embedding` is the cosine of context and
output under a sentence encoder: a baseline that reads meaning and asks no judge.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.backends.hf.loading import ENCODER
from refladder.errors import UsageError
from refladder.methods.without_judge import (
    CUT,
    EMPTY,
    MACHINE,
    NO_CHECKPOINT,
    NO_NUMBER,
    NO_REFERENCES,
    Evaluator,
    Found,
    Machine,
    ReferenceMetric,
    against_references,
    has_references,
    machine_of,
    method_without_judge,
    open_reader,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray
    from refladder.backends.hf.readers import Reader
    from refladder.methods.contract import MethodSettings
    from refladder.records import Benchmark, Context, Dimension


# The layer that agrees best with people on WMT16, as the reference package has it, by the last part of a name or path.
# Others: the last.
LAYERS = {
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "distilbert-base-uncased": 5,
    "roberta-base": 10,
    "roberta-large": 17,
}
SUGGESTION = "fetch an encoder such as bert-base-uncased or roberta-large and pass bertscore:PATH"
EMBEDDING_SUGGESTION = "fetch a sentence encoder such as sentence-transformers/all-MiniLM-L6-v2 and pass embedding:PATH"


def greedy_f1(
    text: FloatArray, reference: FloatArray, text_inner: FloatArray, reference_inner: FloatArray
) -> float:
    """F1 of the greedy matching of two token sequences, -1 to 1; 0 where either has no token that counts.

    precision = mean over the text's tokens of the greatest cosine with any token of the reference; recall the other
    way round. Special tokens can be matched and do not count in the means, as in the reference package. Shapes: texts
    (tokens, width), rows of length 1; inner (tokens,), 1 for a token that counts and 0 for a special one.

    Source: arXiv 1904.09675, section 3.
    """
    if not text_inner.any() or not reference_inner.any():
        return 0.0
    cosines = text @ reference.T
    precision = float(np.sum(cosines.max(axis=1) * text_inner) / np.sum(text_inner))
    recall = float(np.sum(cosines.max(axis=0) * reference_inner) / np.sum(reference_inner))
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)


def bert_score(
    name: str, layer: int | None = None, machine: Machine | None = None
) -> tuple[ReferenceMetric, Counter[str]]:
    """BERTScore F1 without idf weights and rescaling, of several references the best; CUT counts texts cut off."""
    reader = open_reader(name, ENCODER, "bertscore", SUGGESTION, machine or Machine())
    layers = int(encoder_of(reader.opened.model).config.num_hidden_layers)
    short = PurePath(reader.opened.name).name
    chosen = min(LAYERS.get(short, layers), layers) if layer is None else layer
    if not 0 <= chosen <= layers:
        raise UsageError(f"bertscore.layer={chosen}: {name} has the layers 0 to {layers}")
    amiss: Counter[str] = Counter()

    def score(texts: Sequence[str], references: Sequence[str]) -> list[float]:
        wanted = list(dict.fromkeys([*texts, *references]))
        embedded, shortened = _embed(reader, wanted, chosen)
        vectors = dict(zip(wanted, embedded, strict=True))
        amiss[CUT] += shortened
        return [
            max(
                greedy_f1(
                    vectors[text][0], vectors[reference][0], vectors[text][1], vectors[reference][1]
                )
                for reference in references
            )
            for text in texts
        ]

    fingerprint = reader.opened.fingerprint
    signature = (
        f"bertscore|nrefs:best|f1|model:{fingerprint}|layer:{chosen}/{layers}|idf:no|rescaled:no"
    )
    return ReferenceMetric(signature=signature, score=score), amiss


def encoder_of(model: Any) -> Any:
    """The part of a model that reads: the whole of an encoder."""
    return model.get_encoder() if model.config.is_encoder_decoder else model


def _embed(
    reader: Reader, texts: Sequence[str], layer: int
) -> tuple[list[tuple[FloatArray, FloatArray]], int]:
    def states(model: Any, arguments: dict[str, Any]) -> Any:
        return encoder_of(model)(**arguments, output_hidden_states=True).hidden_states[layer]

    tokenizer, model = reader.opened.tokenizer, reader.opened.model
    space = (
        " " if model.config.model_type in {"roberta", "gpt2"} else ""
    )  # a word, not the end of one
    rows = [reader.single((space + text.strip()) if text.strip() else "") for text in texts]
    special = {tokenizer.cls_token_id, tokenizer.sep_token_id}
    embedded = []
    for row, padded in zip(rows, reader.run(rows, states), strict=True):
        vectors = padded[: len(row.ids)]
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        embedded.append(
            (vectors, np.array([token not in special for token in row.ids], dtype=np.float64))
        )
    return embedded, sum(row.cut for row in rows)


def _opened(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    options: dict[str, str],
    _settings: MethodSettings,
) -> str | Evaluator:
    """`bertscore:PATH`; option `layer` takes another layer than the usual one."""
    layer = options["layer"]
    if layer and not layer.isdecimal():
        raise UsageError(f"bertscore.layer={layer}: a whole number, 0 or more, is needed")
    if not options["checkpoint"]:
        return NO_CHECKPOINT + SUGGESTION
    if not has_references(benchmark):
        return NO_REFERENCES.format(name=benchmark.name)
    metric, amiss = bert_score(
        options["checkpoint"], int(layer) if layer else None, machine_of(options)
    )
    return against_references(metric, benchmark, dimensions, amiss)


BERTSCORE = method_without_judge("bertscore", {"checkpoint": "", "layer": "", **MACHINE}, _opened)


def _means(model: Any, arguments: dict[str, Any]) -> Any:
    """The mean of the last states of each text, special tokens included, as in sentence-transformers."""
    states = encoder_of(model)(**arguments).last_hidden_state.float()
    counted = arguments["attention_mask"].unsqueeze(-1)
    return (states * counted).sum(1) / counted.sum(1)


def _opened_embedding(
    _benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    options: dict[str, str],
    _settings: MethodSettings,
) -> str | Evaluator:
    """`embedding:PATH`; one number for all dimensions."""
    if not options["checkpoint"]:
        return NO_CHECKPOINT + EMBEDDING_SUGGESTION
    reader = open_reader(
        options["checkpoint"], ENCODER, "embedding", EMBEDDING_SUGGESTION, machine_of(options)
    )

    def score(context: Context, texts: Sequence[str]) -> Found:
        written = [text for text in texts if text.strip()]
        rows = [reader.single(text.strip()) for text in (context.text, *written)]
        vectors = np.array(reader.run(rows, _means))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = iter((vectors[1:] @ vectors[0]).tolist())
        values = [next(cosines) if text.strip() else None for text in texts]
        finite = [None if value is None or math.isnan(value) else value for value in values]
        unread = finite.count(None) - values.count(None)
        cut = sum(row.cut for row in rows)
        return Found(finite, Counter({CUT: cut, EMPTY: values.count(None), NO_NUMBER: unread}))

    signature = f"embedding|cosine|pooling:mean|model:{reader.opened.fingerprint}"
    return Evaluator(signature=signature, functions=[(dimensions, score)], baseline=True)


EMBEDDING = method_without_judge("embedding", {"checkpoint": "", **MACHINE}, _opened_embedding)
