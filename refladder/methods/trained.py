"""Trained evaluators: UniEval, an entailment scorer for data-to-text, a supervised regressor.

Each is a function of an open checkpoint and the texts of one context. refladder ships no checkpoint: the user names a
folder or a model of the Hub, and the scores are as good as its weights. QuestEval and MQAG use several checkpoints and
have modules of their own.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends.hf.loading import CLASSIFIER
from refladder.engine.encoder_decoder import EncoderDecoder
from refladder.errors import BackendUnavailableError, UsageError
from refladder.methods.contract import CHECKPOINT
from refladder.methods.without_judge import (
    CUT,
    EMPTY,
    NO_NUMBER,
    TOO_LONG,
    Evaluator,
    TextScores,
    all_fitting,
    checkpoint_method,
    has_references,
    joined,
    open_reader,
    open_writer,
    token_id,
)
from refladder.scoring.rules import probabilities_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from refladder.arrays import FloatArray
    from refladder.backends.hf import TransformersBackend
    from refladder.backends.hf.readers import Encoded, Reader
    from refladder.methods.contract import EvaluationMethod, MethodSettings
    from refladder.records import Benchmark, Context, Dimension


# UniEval was trained on this number of tokens; T5 itself accepts any number.
UNIEVAL_LENGTH = 1024
UNIEVAL_SUGGESTION = (
    "fetch MingZhong/unieval-sum (or unieval-dialog) as safetensors and pass unieval:PATH"
)
NLI_SUGGESTION = "fetch a model trained on natural language inference, such as roberta-large-mnli, and pass nli:PATH"
REGRESSOR_SUGGESTION = (
    "train a sequence classifier with one output on rated texts (arXiv 2208.13265 uses a Longformer) and pass "
    "regressor:PATH"
)


class BooleanQuestion:
    """UniEval's input for one dimension: a question, and texts after it as a template of the output and its context.

    `sentences` says whether the output is asked about sentence by sentence, and how the answers are put together.
    """

    def __init__(self, question: str, *texts: str, sentences: str | None = None) -> None:
        self.parts = (f"question: {question}", *texts)
        self.sentences = sentences
        self.needs_reference = any("{reference}" in text for text in texts)

    def filled(self, **texts: str) -> tuple[str, ...]:
        """Return the question and the texts after it, with their slots filled."""
        return tuple(part.format(**texts) for part in self.parts)


NO_REFERENCE = (
    "outputs without a score on a dimension that needs a reference (their context has none): {:,}"
)

# The published checkpoints were trained on these questions (arXiv 2210.07197, appendix).
UNIEVAL_QUESTIONS = {
    ("summarization", "coherence"): BooleanQuestion(
        "Is this a coherent summary to the document?", "summary: {output}", "document: {context}"
    ),
    ("summarization", "consistency"): BooleanQuestion(
        "Is this claim consistent with the document?",
        "claim: {output}",
        "document: {context}",
        sentences="mean",
    ),
    ("summarization", "fluency"): BooleanQuestion(
        "Is this a fluent paragraph?", "paragraph: {output}", sentences="mean"
    ),
    ("summarization", "relevance"): BooleanQuestion(
        "Is this summary relevant to the reference?", "summary: {output}", "reference: {reference}"
    ),
    ("dialogue", "naturalness"): BooleanQuestion(
        "Is this a natural response in the dialogue?", "response: {output}"
    ),
    ("dialogue", "coherence"): BooleanQuestion(
        "Is this a coherent response given the dialogue history?",
        "response: {output}",
        "dialogue history: {context}",
    ),
    ("dialogue", "engagingness"): BooleanQuestion(
        "Is this an engaging and informative response according to the dialogue history and fact?",
        "response: {output}",
        "dialogue history: {context}",
        "fact: {background}",
        sentences="sum",
    ),
    ("dialogue", "groundedness"): BooleanQuestion(
        "Is this response consistent with knowledge in the fact?",
        "response: {output}",
        "fact: {background}",
    ),
    ("dialogue", "understandability"): BooleanQuestion(
        "Is this an understandable response in the dialogue?", "response: {output}"
    ),
    ("data-to-text", "fluency"): BooleanQuestion(
        "Is this a fluent utterance?", "utterance: {output}"
    ),
    ("data-to-text", "semantics"): BooleanQuestion(
        "Is this sentence informative according to the reference?",
        "sentence: {output}",
        "reference: {reference}",
    ),
}

_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=\S)")


def sentences(text: str) -> list[str]:
    """Split a text after . ! ? and white space: a rule, coarser than a trained splitter."""
    return [part for part in _SENTENCE_END.split(text.strip()) if part]


def unieval_inputs(
    question: BooleanQuestion, context: Context, text: str, reference: str
) -> list[tuple[str, ...]]:
    """Return the inputs of UniEval for an output in parts: one, or one per sentence; none for an empty text."""
    sources = {"context": context.text, "background": context.background, "reference": reference}
    outputs = sentences(text) if question.sentences else [text.strip()]
    return [question.filled(output=output, **sources) for output in outputs if output]


def yes_shares(
    writer: TransformersBackend, inputs: Sequence[tuple[str, ...]]
) -> tuple[FloatArray, int]:
    """Return p(Yes) / (p(Yes) + p(No)) of a T5's first token, shape (inputs,), or NaN, and how many inputs were cut.

    Source: arXiv 2210.07197, equation 1.
    """
    yes, no = (writer.tokens.plain(word)[0] for word in ("Yes", "No"))
    if yes == no:
        raise BackendUnavailableError(
            f"checkpoint {writer.opened.name} begins 'Yes' and 'No' with the same token; {UNIEVAL_SUGGESTION}"
        )
    if not inputs:
        return np.empty(0), 0
    separator = token_id(writer.opened, "eos_token_id", UNIEVAL_SUGGESTION)
    joined_parts = [joined(writer.tokens, parts, separator, UNIEVAL_LENGTH) for parts in inputs]
    logprobs = first_logprobs(writer, [ids for ids, _ in joined_parts], [[yes], [no]])
    return 1 / (1 + np.exp(logprobs[:, 1] - logprobs[:, 0])), sum(cut for _, cut in joined_parts)


def first_logprobs(
    writer: TransformersBackend, inputs: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> FloatArray:
    """Return the natural log-probability that each input's answer begins so: shape (inputs, answers), or NaN."""
    scorer = writer.scorer
    if not isinstance(scorer, EncoderDecoder):
        raise BackendUnavailableError(
            f"{writer.opened.name} is not an encoder-decoder (T5, BART); name one that is"
        )
    logprobs: FloatArray = scorer.logprobs(inputs, answers).sum(axis=2)
    return logprobs


def unieval(
    writer: TransformersBackend, question: BooleanQuestion, context: Context, texts: Sequence[str]
) -> TextScores:
    """Compute UniEval of the outputs of one context on one dimension; the best of several references counts.

    Between 0 and 1, or for a sum over sentences 0 or more; None for an empty text or without a needed reference.
    """
    references = context.references if question.needs_reference else ("",)
    if not references:
        return TextScores([None] * len(texts), Counter({NO_REFERENCE: len(texts)}))
    inputs: list[tuple[str, ...]] = []
    ends = []
    for text, reference in itertools.product(texts, references):
        inputs += unieval_inputs(question, context, text, reference)
        ends.append(len(inputs))
    shares, cut = yes_shares(writer, inputs)
    problems = Counter({CUT: cut})
    put_together = np.sum if question.sentences == "sum" else np.mean
    parts = np.split(shares, ends[:-1])
    values: list[float | None] = []
    for start in range(0, len(parts), len(references)):
        of_text = parts[start : start + len(references)]
        scores = [put_together(part) for part in of_text if len(part)]
        values.append(_finite(float(np.max(scores)) if scores else None, problems))
    return TextScores(values, problems)


def _finite(value: float | None, problems: Counter[str]) -> float | None:
    """Return the value if it is finite, else None; count empty texts and values that are not finite."""
    if value is None:
        problems[EMPTY] += 1
    elif not math.isfinite(value):
        problems[NO_NUMBER] += 1
        return None
    return value


def triple_sentences(data: str) -> list[str]:
    """Write each triple `subject | relation | object` of a context as a sentence: the RELATION of SUBJECT is OBJECT."""
    written = []
    for line in filter(None, map(str.strip, data.splitlines())):
        parts = [part.strip().strip('"').replace("_", " ") for part in line.split("|")]
        if len(parts) != len(("subject", "relation", "object")):
            raise UsageError(
                f"nli reads triples 'subject | relation | object', one per line, found {line!r:.60}"
            )
        subject, relation, value = parts
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", relation).lower()
        written.append(f"The {words} of {subject} is {value}.")
    return written


def entailment_label(reader: Reader) -> int:
    """Return the number of the class that says "entailed"."""
    names = {int(number): str(name) for number, name in reader.opened.model.config.id2label.items()}
    pattern = re.compile(r"entail(ment|ed)?", re.IGNORECASE | re.ASCII)
    entailed = [number for number, name in names.items() if pattern.fullmatch(name)]
    if len(entailed) != 1:
        raise BackendUnavailableError(
            f"checkpoint {reader.opened.name} has the classes {', '.join(names.values())} and none called "
            f"entailment; {NLI_SUGGESTION}"
        )
    return entailed[0]


def data_entailment(reader: Reader, context: Context, texts: Sequence[str]) -> TextScores:
    """Return the minimum of p(data entails text) and p(text entails triple), 0 to 1.

    p is the softmax over all classes. A text that says what the data does not fails the first, one that leaves a
    triple out fails one of the others.

    Source: Dusek and Kasner 2020 (INLG), section 2, with one plain template for every relation instead of theirs.
    """
    facts = triple_sentences(context.text)
    label = entailment_label(reader)

    def pairs(text: str) -> list[tuple[str, str]]:
        return [(" ".join(facts), text), *((text, fact) for fact in facts)]

    def least(logits: FloatArray) -> float:
        return float(probabilities_from(logits)[:, label].min())

    return _of_pairs(reader, texts, pairs, least)


def regression(reader: Reader, context: Context, texts: Sequence[str]) -> TextScores:
    """Return the output of a sequence classifier that reads context and text as a pair; a long context is cut.

    Source: Manakul and Gales, arXiv 2208.13265 (a Longformer trained on rated podcast summaries).
    """
    outputs = int(reader.opened.model.config.num_labels)
    if outputs != 1:
        raise BackendUnavailableError(
            f"checkpoint {reader.opened.name} has {outputs} outputs, a regressor has one; {REGRESSOR_SUGGESTION}"
        )
    return _of_pairs(
        reader, texts, lambda text: [(context.text, text)], lambda logits: float(logits[0, 0])
    )


def _of_pairs(
    reader: Reader,
    texts: Sequence[str],
    pairs: Callable[[str], list[tuple[str, str]]],
    value: Callable[[FloatArray], float],
) -> TextScores:
    """Compute a number for each text from the logits of its pairs, shape (pairs, classes)."""
    problems: Counter[str] = Counter()
    # An empty text has None, and one that does not fit has no rows.
    rows_of: list[list[Encoded] | None] = []
    plain = reader.tokens.plain
    for text in texts:
        if not text.strip():
            rows_of.append(None)
            continue
        encoded = [reader.pair(plain(first), plain(second)) for first, second in pairs(text)]
        rows_of.append(all_fitting(encoded))
    rows = [row for text_rows in rows_of for row in text_rows or ()]
    problems[CUT] += sum(row.cut for row in rows)
    logits = iter(reader.run(rows, lambda model, arguments: model(**arguments).logits))
    values: list[float | None] = []
    for text_rows in rows_of:
        if text_rows is None:
            values.append(_finite(None, problems))
        elif text_rows:
            of_text = np.stack(list(itertools.islice(logits, len(text_rows))))
            values.append(_finite(value(of_text), problems))
        else:
            problems[TOO_LONG] += 1
            values.append(None)
    return TextScores(values, problems)


def _opened_unieval(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    options: dict[str, str],
    _settings: MethodSettings,
) -> str | Evaluator:
    """Open `unieval:PATH`. Dimensions that UniEval has no question for have no score."""
    task = benchmark.contexts[0].task
    asked: list[tuple[Dimension, BooleanQuestion]] = []
    unscored = []
    unreferenced = []
    for dimension in dimensions:
        question = UNIEVAL_QUESTIONS.get((task, dimension.name))
        if question is None:
            unscored.append(dimension.name)
        elif question.needs_reference and not has_references(benchmark):
            unreferenced.append(dimension.name)
        else:
            asked.append((dimension, question))
    without = ", ".join(unscored + unreferenced)
    if not asked:
        return f"UniEval has no question for {task} on {without} with the available data"
    writer = open_writer(options[CHECKPOINT], "unieval", UNIEVAL_SUGGESTION, options)
    return Evaluator(
        signature=f"unieval|model:{writer.opened.fingerprint}|nrefs:best|sentences:rule",
        functions=[
            ([dimension], functools.partial(unieval, writer, question))
            for dimension, question in asked
        ],
        notes=(f"UniEval has no question for {without}; no score there",) if without else (),
    )


def _of_a_classifier(
    name: str,
    suggestion: str,
    score: Callable[[Reader, Context, Sequence[str]], TextScores],
    task: str | None = None,
) -> EvaluationMethod:
    """Make the method `NAME:PATH`: one number for all dimensions, of benchmarks of one task if it is named."""

    def opened(
        _benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        options: dict[str, str],
        _settings: MethodSettings,
    ) -> str | Evaluator:
        reader = open_reader(options[CHECKPOINT], CLASSIFIER, name, suggestion, options)
        return Evaluator(
            signature=f"{name}|model:{reader.opened.fingerprint}",
            functions=[(dimensions, functools.partial(score, reader))],
        )

    return checkpoint_method(name, suggestion, opened, task)


UNIEVAL = checkpoint_method("unieval", UNIEVAL_SUGGESTION, _opened_unieval)
NLI = _of_a_classifier("nli", NLI_SUGGESTION, data_entailment, "data-to-text")
REGRESSOR = _of_a_classifier("regressor", REGRESSOR_SUGGESTION, regression)
