"""Yes/no questions about one text, made from the description of a dimension: BinEval, arXiv 2606.27226.

The questions are those of the ladder set. Without them the writer makes them, once for a dimension.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from refladder.errors import LabelsUnavailableError, option
from refladder.files.jsonl import read_records, within, write_records
from refladder.files.ladder_sets import QUESTIONS, LadderSet, load_ladders
from refladder.methods.contract import EvaluationMethod, Method, MethodResult
from refladder.methods.direct import open_grader, without_labels
from refladder.methods.measures import Tally
from refladder.prompts import fill, load_template
from refladder.records import NO, YES, Questions, Recipe, Unwritten, digest_of
from refladder.scoring.question import question_about
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.backends import Backend
    from refladder.methods.contract import Judge, MethodSettings
    from refladder.records import Benchmark, Dimension, Judgment

NAME = "questions"
MOST = 10  # questions of a dimension
_TOKENS = 400  # of all questions of a dimension
_MARK = re.compile(r"\s*(?:[-*\u2022]|\(?\d+[.):])?\s*")  # of an item in a list


def read_questions(text: str) -> tuple[str, ...]:
    """The questions of a text: its lines that end with a question mark, without marks of a list, each once."""
    lines = [_MARK.sub("", line, count=1).strip() for line in text.splitlines()]
    return tuple(dict.fromkeys(line for line in lines if line.endswith("?")))[:MOST]


def _written(
    writer: Backend, task: str, dimensions: Sequence[Dimension], settings: MethodSettings
) -> dict[str, tuple[str, ...]]:
    """Questions by dimension, from the work folder or the writer; none for a dimension where all attempts failed."""
    template = load_template(task, "questions", settings.prompts)
    sampling = settings.sampling.filled(writer.own_sampling)
    sampling = replace(sampling, max_tokens=min(sampling.max_tokens, _TOKENS))
    recipe = Recipe(backend=writer.fingerprint, prompts=(template.signature,), sampling=sampling, version=__version__)
    prompts = {
        each.name: fill(template, {"dimension": each.name, "description": each.description}) for each in dimensions
    }
    origins = {name: digest_of(recipe.digest, prompt.text, size=6) for name, prompt in prompts.items()}
    path = None if settings.work is None else within(settings.work / QUESTIONS)
    stored = {}
    if path is not None and path.is_file() and not settings.restart:
        stored = {each.origin: each for each in read_records(Questions, path)}
    found = {name: stored[origin].questions for name, origin in origins.items() if origin in stored}
    for attempt in range(settings.attempts):
        if not (left := [name for name in prompts if name not in found]):
            break
        drawn = replace(sampling, seed=sampling.seed + attempt)
        for name, completion in zip(left, writer.write([prompts[name] for name in left], drawn), strict=True):
            questions = read_questions(completion.text or "")
            if isinstance(completion.text, Unwritten):  # at most MOST questions, which have all its tokens together
                questions = tuple(Unwritten(f"{name} {number}", _TOKENS // MOST) for number in range(MOST))
            if questions:
                found[name] = questions
                stored[origins[name]] = Questions(dimension=name, questions=questions, origin=origins[name])
        if path is not None and not settings.dry_run:
            write_records(path, stored.values())
    return found


def _share(judgments: Sequence[Judgment]) -> float | None:
    """The mean of p(yes) / (p(yes) + p(no)); None where an answer could not be read."""
    shares = []
    for judgment in judgments:
        if judgment.logprobs is None:
            return None
        logprobs = dict(zip(judgment.outcomes, judgment.logprobs, strict=True))
        highest = max(logprobs.values())
        yes, no = (math.exp(logprobs[answer] - highest) for answer in (YES, NO))
        shares.append(yes / (yes + no))
    return fmean(shares) if shares else None


def _run(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """The mean p(yes) of the questions of a dimension, told on the dimension's own scale."""
    settings.own(NAME, {})
    named = settings.ladders
    opened = named if named is None or isinstance(named, LadderSet) else load_ladders(named)
    asked: Mapping[str, Sequence[str]] = {} if opened is None else opened.questions
    if missing := [dimension for dimension in dimensions if not asked.get(dimension.name)]:
        writer = (settings.writer or judge)()
        if writer.fingerprint.startswith("builtin/"):
            skipped = f"builtin writes no questions; name ladders with {QUESTIONS}, or a model with {option('writer')}"
            return MethodResult(method=None, skipped=skipped)
        asked = {**asked, **_written(writer, benchmark.contexts[0].task, missing, settings)}
    asker = open_grader("question", benchmark, judge, settings)
    contexts = {context.id: context for context in benchmark.contexts}
    cells = [(output, dimension) for output in benchmark.outputs for dimension in dimensions]
    questions = [
        question_about(
            contexts[output.context_id],
            dimension,
            subject=output.id,
            against="",
            texts={"target": output.text, "question": question},
        )
        for output, dimension in cells
        for question in asked.get(dimension.name, ())
    ]
    tally = Tally()
    with settings.progress(NAME) as progress:
        try:
            judgments = iter(tally.ask(asker, questions, progress=progress))
        except LabelsUnavailableError as error:
            return without_labels(error)
    if settings.dry_run:
        return MethodResult(method=None)
    scores: dict[tuple[str, str], float | None] = {}
    for output, dimension in cells:
        share = _share([next(judgments) for _ in asked.get(dimension.name, ())])
        height = dimension.high - dimension.low
        scores[output.id, dimension.name] = None if share is None else dimension.low + height * share
    unasked = [dimension.name for dimension in dimensions if not asked.get(dimension.name)]
    failed = f"no question could be written for {', '.join(unasked)}, which has no scores; try another writer"
    lines = (f"{each.name}: {line}" for each in dimensions for line in asked.get(each.name, ()))
    digest = digest_of(*lines, size=6)
    return MethodResult(
        method=Method(name=NAME, signature=f"{NAME}|{asker.signature}|questions:{digest}", scores=scores),
        **tally.counts(),
        notes=((failed,) if unasked else ()) + tally.notes(),
    )


questions = EvaluationMethod(run=_run)
