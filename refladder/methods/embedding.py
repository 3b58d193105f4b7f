"""The cosine of context and output under a sentence encoder: a baseline that reads meaning and asks no judge."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.backends.hf.opening import ENCODER
from refladder.methods.bert_score import encoder_of
from refladder.methods.checkpoints import CUT, EMPTY, MACHINE, NO_CHECKPOINT, NO_NUMBER, Found, machine_of, open_reader
from refladder.methods.without_judge import Evaluator, method_without_judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.methods.contract import MethodSettings
    from refladder.records import Benchmark, Context, Dimension

SUGGESTION = "fetch a sentence encoder such as sentence-transformers/all-MiniLM-L6-v2 and pass embedding:PATH"


def _means(model: Any, arguments: dict[str, Any]) -> Any:  # noqa: ANN401  torch is only there when it is used
    """The mean of the last states of each text, special tokens included, as in sentence-transformers."""
    states = encoder_of(model)(**arguments).last_hidden_state.float()
    counted = arguments["attention_mask"].unsqueeze(-1)
    return (states * counted).sum(1) / counted.sum(1)


def _opened(
    _benchmark: Benchmark, dimensions: Sequence[Dimension], options: dict[str, str], _settings: MethodSettings
) -> str | Evaluator:
    """`embedding:PATH`; one number for all dimensions."""
    if not options["checkpoint"]:
        return NO_CHECKPOINT + SUGGESTION
    reader = open_reader(options["checkpoint"], ENCODER, "embedding", SUGGESTION, machine_of(options))

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


EMBEDDING = method_without_judge("embedding", {"checkpoint": "", **MACHINE}, _opened)
