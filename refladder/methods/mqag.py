"""MQAG: multiple-choice questions about an output, answered from the output and from its context.

A first model writes question and answer from the output, a second one wrong options, a third one, which reads, gives
every option a probability: once from the output, once from the context. Where the two differ, the output says something
else than its context.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.backends.hf.loading import MULTIPLE_CHOICE
from refladder.errors import UsageError
from refladder.methods.contract import CHECKPOINT
from refladder.methods.without_judge import (
    CUT,
    EMPTY,
    Evaluator,
    TextScores,
    all_fitting,
    checkpoint_method,
    joined_inputs,
    open_reader,
    open_writer,
    split_checkpoints,
    token_id,
    with_empty,
)
from refladder.records import Sampling
from refladder.scoring.rules import probabilities_from

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray
    from refladder.backends.hf import TransformersBackend
    from refladder.backends.hf.readers import Encoded, Reader
    from refladder.engine.sampling import GeneratedText
    from refladder.methods.contract import MethodSettings
    from refladder.records import Benchmark, Context, Dimension


SUGGESTION = (
    "fetch potsawee/t5-large-generation-race-QuestionAnswer, potsawee/t5-large-generation-race-Distractor and "
    "potsawee/longformer-large-4096-answering-race as safetensors and pass mqag:GENERATOR+DISTRACTORS+READER"
)
ROLES = ("question and answer generator", "distractor generator", "multiple-choice reader")
# Each output gets this number of questions, as in the authors' program.
QUESTIONS = 20
NO_QUESTION = "outputs about which no question could be parsed, without a score: {:,}"
UNUSABLE = "questions left out (no answer, no wrong option, cut off, or not answerable): {:,}"
# A question has at most this number of wrong options.
_WRONG = 3
# A question with its answer, and the wrong options, have at most this number of tokens.
_TOKENS = 128


class Choice(NamedTuple):
    """A question with its options, which differ; the first is the answer that the generator had in mind."""

    question: str
    options: tuple[str, ...]


def total_variation(first: FloatArray, second: FloatArray) -> float:
    """Return half the sum of the absolute differences of two distributions, shape (options,), between 0 and 1."""
    return float(np.abs(first - second).sum() / 2)


def mqag(
    generator: TransformersBackend,
    distractors: TransformersBackend,
    reader: Reader,
    context: Context,
    texts: Sequence[str],
    *,
    questions: int = QUESTIONS,
    seed: int = 0,
) -> TextScores:
    """Compute MQAG-Sum of the outputs of one context, 0 to 1; None for an empty text or without a usable question.

    score = 1 - mean over questions about the output of D(p(option | output), p(option | context)), with D the total
    variation.

    Source: arXiv 2301.12307, section 3.
    """
    problems: Counter[str] = Counter()
    written = [text for text in texts if text.strip()]
    choices = draw_choices(
        generator, distractors, written, questions=questions, seed=seed, problems=problems
    )
    agreements = [
        _agreement(reader, context.text, text, drawn, problems)
        for text, drawn in zip(written, choices, strict=True)
    ]
    problems[EMPTY] += len(texts) - len(written)
    return TextScores(with_empty(texts, agreements), problems)


def draw_choices(
    generator: TransformersBackend,
    distractors: TransformersBackend,
    texts: Sequence[str],
    *,
    questions: int,
    seed: int,
    problems: Counter[str],
) -> list[list[Choice]]:
    """Write multiple-choice questions about each text; unusable ones are counted and left out."""
    separators = _separators(generator)
    wrong_separators = _separators(distractors)
    choices: list[list[Choice]] = [[] for _ in texts]
    inputs = joined_inputs(generator, [(text,) for text in texts], separators[0], problems)
    for number in range(questions):
        sampling = Sampling(
            max_tokens=_TOKENS, temperature=1.0, top_p=1.0, seed=(seed << 16) + number
        )
        pairs: list[tuple[int, str, str]] = []
        for row, written in enumerate(generator.write_ids(inputs, sampling)):
            parts = _parts(generator, written, separators)
            if len(parts) == 2 and all(parts):
                pairs.append((row, parts[0], parts[1]))
        wrong = [(question, answer, texts[row]) for row, question, answer in pairs]
        wrong_inputs = joined_inputs(distractors, wrong, wrong_separators[0], problems)
        options = distractors.write_ids(wrong_inputs, sampling)
        for (row, question, answer), written in zip(pairs, options, strict=True):
            parts = _parts(distractors, written, wrong_separators)
            different = tuple(dict.fromkeys([answer, *filter(None, parts)]))
            if len(different) > 1:
                choices[row].append(Choice(question, different[: 1 + _WRONG]))
    problems[UNUSABLE] += questions * len(texts) - sum(map(len, choices))
    return choices


def _separators(writer: TransformersBackend) -> list[int]:
    """Return the token between the parts of a text, then those that a T5 may write in its place."""
    added = writer.opened.tokenizer.added_tokens_decoder
    extra = [number for number, token in added.items() if str(token).startswith("<extra")]
    return [token_id(writer.opened, "sep_token_id", SUGGESTION), *extra]


def _parts(
    writer: TransformersBackend, written: GeneratedText, separators: Sequence[int]
) -> list[str]:
    """Split a text at the separators; return nothing if it has not ended or is NaN."""
    if not written.ended or written.has_nan:
        return []
    parts: list[list[int]] = [[]]
    for token in written.ids:
        if token in separators:
            parts.append([])
        else:
            parts[-1].append(token)
    return [writer.tokens.text(part) for part in parts]


def _agreement(
    reader: Reader, context: str, text: str, choices: Sequence[Choice], problems: Counter[str]
) -> float | None:
    """Return 1 - the mean distance between the answers from an output and from its context; None without a question."""
    beginning = token_id(reader.opened, "bos_token_id", SUGGESTION)
    plain = reader.tokens.plain
    sources = [plain(text), plain(context)]
    rows: list[Encoded] = []
    fitting_choices: list[Choice] = []
    for choice in choices:
        tail = [*plain(" "), beginning, *plain(f" {choice.question}")]
        cases = itertools.product(sources, map(plain, choice.options))
        fitting = all_fitting([reader.pair(source, option, tail) for source, option in cases])
        if fitting:
            rows += fitting
            fitting_choices.append(choice)
    problems[CUT] += sum(row.cut for row in rows)

    def choice_logits(model: Any, arguments: dict[str, Any]) -> Any:
        return model(**{name: values[:, None] for name, values in arguments.items()}).logits

    logits = iter(reader.run(rows, choice_logits))
    distances = []
    for choice in fitting_choices:
        read = list(itertools.islice(logits, 2 * len(choice.options)))
        numbers = np.array(read)[:, 0].reshape(2, -1)
        if np.isfinite(numbers).all():
            distances.append(total_variation(*probabilities_from(numbers)))
    problems[UNUSABLE] += len(choices) - len(distances)
    if not distances:
        problems[NO_QUESTION] += 1
        return None
    return 1 - float(np.mean(distances))


def _opened(
    _benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    options: dict[str, str],
    settings: MethodSettings,
) -> Evaluator:
    """Open `mqag:GENERATOR+DISTRACTORS+READER`; one number for all dimensions."""
    if not options["questions"].isdecimal() or int(options["questions"]) < 1:
        raise UsageError(
            f"mqag.questions={options['questions']}: a whole number, 1 or more, is needed"
        )
    names = split_checkpoints(options[CHECKPOINT], ROLES, "mqag", SUGGESTION)
    generator, distractors = (open_writer(name, "mqag", SUGGESTION, options) for name in names[:2])
    reader = open_reader(names[2], MULTIPLE_CHOICE, "mqag", SUGGESTION, options)
    models = "+".join(model.opened.fingerprint for model in (generator, distractors, reader))
    questions = int(options["questions"])
    score = functools.partial(
        mqag, generator, distractors, reader, questions=questions, seed=settings.seed
    )
    return Evaluator(
        signature=f"mqag|models:{models}|questions:{options['questions']}|seed:{settings.seed}|distance:total-variation",
        functions=[(dimensions, score)],
    )


MQAG = checkpoint_method("mqag", SUGGESTION, _opened, questions=str(QUESTIONS))
