"""QuestEval without references: what a text says is asked of the other text, both ways.

A model writes a question for each thing that a text names, another one answers it from the other text. The original
finds these things with a trained parser (entities and noun phrases); here `spans` finds them by a rule, the question is
written from their sentence, and its learnt weights of questions are left out: all count the same.
"""

from __future__ import annotations

import functools
import re
import string
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.arrays import known_mean
from refladder.methods.contract import CHECKPOINT
from refladder.methods.trained import first_logprobs, sentences
from refladder.methods.without_judge import (
    EMPTY,
    Evaluator,
    TextScores,
    checkpoint_method,
    joined_inputs,
    open_writer,
    split_checkpoints,
    token_id,
    with_empty,
)
from refladder.records import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends.hf import TransformersBackend
    from refladder.methods.contract import MethodSettings
    from refladder.records import Benchmark, Context, Dimension

SUGGESTION = (
    "fetch ThomasNLG/t5-qg_squad1-en and ThomasNLG/t5-qa_squad2neg-en as safetensors and pass "
    "questeval:GENERATOR+READER"
)
ROLES = ("question generator", "reader")
NO_QUESTION = (
    "outputs without a score, since no question about them or their context was answered: {:,}"
)
UNUSABLE = "questions or answers left out (empty or cut off): {:,}"
# The published question generator was trained with this prefix.
_PREFIX = "sv1"
_UNANSWERABLE = "unanswerable"
# A question and an answer have at most these numbers of tokens.
_QUESTION = 64
_ANSWER = 32

_WORD = re.compile(r"[^\W_]+(?:['\u2019.,:/-][^\W_]+)*")
# Words that are not part of a name.
_NO_NAMES = """
a about above after again against all also am an and any are as at be because been before being below between
both but by can could did do does doing down during each few for from further had has have having he her
here hers him his how however i if in into is it its itself just many may me might more most much must my
no nor not now of off on once only or other our out over own same shall she should so some such than that
the their them then there these they this those through to too under until up upon us very was we were
what when where which while who whom whose why will with would yes yet you your
"""
_FUNCTION_WORDS = frozenset(_NO_NAMES.split())


class SpanQuestion(NamedTuple):
    """A question, and the answer that it was written for."""

    question: str
    answer: str


def spans(sentence: str) -> list[str]:
    """List the things that a sentence names: runs of capitalised words and numbers, and runs of other content words."""
    runs: dict[str, None] = {}
    start = end = 0
    kind = ""
    for word in _WORD.finditer(sentence):
        word_kind = _kind(word[0])
        if word_kind == kind and word_kind and sentence[end : word.start()].isspace():
            end = word.end()
            continue
        if kind:
            runs[sentence[start:end]] = None
        start, end, kind = word.start(), word.end(), word_kind
    if kind:
        runs[sentence[start:end]] = None
    return list(runs)


def _kind(word: str) -> str:
    if word.lower() in _FUNCTION_WORDS and word != "May":
        return ""
    return "name" if word[0].isupper() or word[0].isdigit() else "word"


def token_f1(answer: str, expected: str) -> float:
    """Return F1 of the words of two answers as in SQuAD, without case, punctuation and articles; 0 without words."""

    def words(text: str) -> Counter[str]:
        plain = "".join(sign for sign in text.lower() if sign not in string.punctuation)
        return Counter(word for word in plain.split() if word not in {"a", "an", "the"})

    answered, expected_words = words(answer), words(expected)
    same = (answered & expected_words).total()
    return 2 * same / (answered.total() + expected_words.total()) if same else 0.0


def questeval(
    generator: TransformersBackend,
    reader: TransformersBackend,
    context: Context,
    texts: Sequence[str],
) -> TextScores:
    """Compute QuestEval of one context's outputs, 0 to 1. None for an empty text, or a mean without answered questions.

    precision = mean over the questions about the output of F1(answer from the context, expected answer)
    recall = mean over the questions about the context of 1 - p("unanswerable" | output, question)
    score = 2 precision recall / (precision + recall)

    Source: arXiv 2103.12693, section 3.
    """
    problems: Counter[str] = Counter()
    asked_of_texts, *asked_of_context = _questions(generator, (context.text, *texts), problems)
    precisions = _precisions(reader, asked_of_context, context.text, problems)
    written = [text for text in texts if text.strip()]
    recalls = with_empty(texts, _recalls(reader, asked_of_texts, written, problems))
    values: list[float | None] = []
    for text, precision, recall in zip(texts, precisions, recalls, strict=True):
        if precision is None or recall is None:
            problems[NO_QUESTION if text.strip() else EMPTY] += 1
            values.append(None)
        elif precision + recall == 0:
            values.append(0.0)
        else:
            values.append(2 * precision * recall / (precision + recall))
    return TextScores(values, problems)


def _questions(
    generator: TransformersBackend, texts: Sequence[str], problems: Counter[str]
) -> list[list[SpanQuestion]]:
    """Write a question for every span of each text, by the most probable tokens.

    A question that two spans share counts twice.
    """
    separator = token_id(generator.opened, "eos_token_id", SUGGESTION)
    sentence_of: dict[tuple[int, str], str] = {}
    for row, text in enumerate(texts):
        for sentence in sentences(text):
            for span in spans(sentence):
                sentence_of.setdefault((row, span), sentence)
    parts = [(_PREFIX, span, sentence) for (_, span), sentence in sentence_of.items()]
    inputs = joined_inputs(generator, parts, separator, problems)
    questions = _greedy_texts(generator, inputs, _QUESTION)
    problems[UNUSABLE] += questions.count(None)
    written: list[list[SpanQuestion]] = [[] for _ in texts]
    for question, (row, span) in zip(questions, sentence_of, strict=True):
        if question is not None:
            written[row].append(SpanQuestion(question=question, answer=span))
    return written


def _precisions(
    reader: TransformersBackend,
    questions: Sequence[Sequence[SpanQuestion]],
    context: str,
    problems: Counter[str],
) -> list[float | None]:
    """Average for each output the F1 of the answers that its context gives; None without an answer."""
    inputs: list[list[int]] = []
    for of_text in questions:
        inputs += _reader_inputs(reader, of_text, context, problems)
    answers = _greedy_texts(reader, inputs, _ANSWER)
    problems[UNUSABLE] += answers.count(None)
    given = iter(answers)
    means = []
    for of_text in questions:
        answered = zip(of_text, given, strict=False)
        matches = [token_f1(text, asked.answer) for asked, text in answered if text is not None]
        means.append(known_mean(matches))
    return means


def _recalls(
    reader: TransformersBackend,
    questions: Sequence[SpanQuestion],
    texts: Sequence[str],
    problems: Counter[str],
) -> list[float | None]:
    """Average for each output 1 - p(unanswerable) of its context's questions; None without a number."""
    inputs: list[list[int]] = []
    for text in texts:
        inputs += _reader_inputs(reader, questions, text, problems)
    if not inputs:
        return [None] * len(texts)
    logprobs = first_logprobs(reader, inputs, [reader.tokens.plain(_UNANSWERABLE)])
    answerable = 1 - np.exp(logprobs).reshape(len(texts), len(questions))
    problems[UNUSABLE] += int(np.isnan(answerable).sum())
    return list(map(known_mean, answerable))


def _reader_inputs(
    reader: TransformersBackend,
    questions: Sequence[SpanQuestion],
    text: str,
    problems: Counter[str],
) -> list[list[int]]:
    """Join each question with a text to answer it from, as the reader's inputs."""
    separator = token_id(reader.opened, "eos_token_id", SUGGESTION)
    parts = [(question.question, text) for question in questions]
    return joined_inputs(reader, parts, separator, problems)


def _greedy_texts(
    writer: TransformersBackend, inputs: Sequence[Sequence[int]], most: int
) -> list[str | None]:
    """Write the most probable text after each input; None if it is empty, too long or NaN."""
    texts = []
    for written in writer.write_ids(inputs, Sampling(max_tokens=most, temperature=0.0)):
        text = ""
        if written.ended and not written.has_nan:
            text = writer.tokens.text(written.ids)
        texts.append(text or None)
    return texts


def _opened(
    _benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    options: dict[str, str],
    _settings: MethodSettings,
) -> Evaluator:
    """Open `questeval:GENERATOR+READER`; one number for all dimensions."""
    names = split_checkpoints(options[CHECKPOINT], ROLES, "questeval", SUGGESTION)
    generator, reader = (open_writer(name, "questeval", SUGGESTION, options) for name in names)
    models = f"{generator.opened.fingerprint}+{reader.opened.fingerprint}"
    return Evaluator(
        signature=f"questeval|models:{models}|spans:rule|weights:uniform",
        functions=[(dimensions, functools.partial(questeval, generator, reader))],
    )


QUESTEVAL = checkpoint_method("questeval", SUGGESTION, _opened)
