"""Texts in the space of an encoder.

BERTScore matches each token of a text with its nearest token of a reference. `embedding` is the cosine of context and
output under a sentence encoder: a baseline that reads meaning and asks no judge.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.arrays import known_numbers
from refladder.backends.hf.loading import ENCODER
from refladder.errors import UsageError
from refladder.methods.contract import CHECKPOINT
from refladder.methods.without_judge import (
    CUT,
    EMPTY,
    MACHINE,
    NO_NUMBER,
    NO_REFERENCES,
    Evaluator,
    ReferenceMetric,
    TextScores,
    against_references,
    checkpoint_method,
    has_references,
    open_reader,
    with_empty,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.backends.hf.readers import Reader
    from refladder.methods.contract import MethodSettings
    from refladder.records import Benchmark, Context, Dimension


# These layers agree best with people on WMT16, as in the reference package, by the last part of a name or path.
# Other models use the last layer.
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
    """Return F1 of the greedy matching of two token sequences, -1 to 1; 0 if one has no token that counts.

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
    if precision + recall == 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def bert_score(
    name: str, layer: int | None = None, options: Mapping[str, str] = MACHINE
) -> tuple[ReferenceMetric, Counter[str]]:
    """Open BERTScore F1 without idf weights and rescaling; the best of several references counts."""
    reader = open_reader(name, ENCODER, "bertscore", SUGGESTION, options)
    layers = int(encoder_of(reader.opened.model).config.num_hidden_layers)
    short = PurePath(reader.opened.name).name
    chosen = min(LAYERS.get(short, layers), layers) if layer is None else layer
    if not 0 <= chosen <= layers:
        raise UsageError(f"bertscore.layer={chosen}: {name} has the layers 0 to {layers}")
    problems: Counter[str] = Counter()

    def score(texts: Sequence[str], references: Sequence[str]) -> list[float]:
        distinct = list(dict.fromkeys([*texts, *references]))
        embedded, shortened = _embed(reader, distinct, chosen)
        vectors = dict(zip(distinct, embedded, strict=True))
        problems[CUT] += shortened

        def f1(text: str, reference: str) -> float:
            (states, inner), (other, other_inner) = vectors[text], vectors[reference]
            return greedy_f1(states, other, inner, other_inner)

        return [max(f1(text, reference) for reference in references) for text in texts]

    fingerprint = reader.opened.fingerprint
    signature = (
        f"bertscore|nrefs:best|f1|model:{fingerprint}|layer:{chosen}/{layers}|idf:no|rescaled:no"
    )
    return ReferenceMetric(signature=signature, score=score), problems


def encoder_of(model: Any) -> Any:
    """Return the part of a model that reads: an encoder itself, or that of an encoder-decoder."""
    return model.get_encoder() if model.config.is_encoder_decoder else model


def _embed(
    reader: Reader, texts: Sequence[str], layer: int
) -> tuple[list[tuple[FloatArray, FloatArray]], int]:
    def states(model: Any, arguments: dict[str, object]) -> Any:
        return encoder_of(model)(**arguments, output_hidden_states=True).hidden_states[layer]

    tokenizer, model = reader.opened.tokenizer, reader.opened.model
    # These tokenizers read a text that begins without a space as the end of a word.
    space = " " if model.config.model_type in {"roberta", "gpt2"} else ""
    rows = [reader.single((space + text.strip()) if text.strip() else "") for text in texts]
    special = {tokenizer.cls_token_id, tokenizer.sep_token_id}
    embedded = []
    for row, padded in zip(rows, reader.run(rows, states), strict=True):
        vectors = padded[: len(row.ids)]
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        inner = np.array([token not in special for token in row.ids], dtype=np.float64)
        embedded.append((vectors, inner))
    return embedded, sum(row.cut for row in rows)


def _opened(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    options: dict[str, str],
    _settings: MethodSettings,
) -> str | Evaluator:
    """Open `bertscore:PATH`; option `layer` takes another layer than the usual one."""
    layer = options["layer"]
    if layer and not layer.isdecimal():
        raise UsageError(f"bertscore.layer={layer}: a whole number, 0 or more, is needed")
    if not has_references(benchmark):
        return NO_REFERENCES.format(name=benchmark.name)
    metric, problems = bert_score(options[CHECKPOINT], int(layer) if layer else None, options)
    return against_references(metric, benchmark, dimensions, problems)


BERTSCORE = checkpoint_method("bertscore", SUGGESTION, _opened, layer="")


def _means(model: Any, arguments: dict[str, Any]) -> Any:
    """Average the last states of each text, special tokens included, as sentence-transformers does."""
    states = encoder_of(model)(**arguments).last_hidden_state.float()
    counted = arguments["attention_mask"].unsqueeze(-1)
    return (states * counted).sum(1) / counted.sum(1)


def _opened_embedding(
    _benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    options: dict[str, str],
    _settings: MethodSettings,
) -> Evaluator:
    """Open `embedding:PATH`; one number for all dimensions."""
    reader = open_reader(options[CHECKPOINT], ENCODER, "embedding", EMBEDDING_SUGGESTION, options)

    def score(context: Context, texts: Sequence[str]) -> TextScores:
        written = [text for text in texts if text.strip()]
        rows = [reader.single(text.strip()) for text in (context.text, *written)]
        vectors = np.array(reader.run(rows, _means))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = known_numbers(vectors[1:] @ vectors[0])
        counts = {
            CUT: sum(row.cut for row in rows),
            EMPTY: len(texts) - len(written),
            NO_NUMBER: cosines.count(None),
        }
        return TextScores(with_empty(texts, cosines), Counter(counts))

    signature = f"embedding|cosine|pooling:mean|model:{reader.opened.fingerprint}"
    return Evaluator(signature=signature, functions=[(dimensions, score)], baseline=True)


EMBEDDING = checkpoint_method("embedding", EMBEDDING_SUGGESTION, _opened_embedding)
