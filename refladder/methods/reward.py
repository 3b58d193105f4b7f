"""The raw reward of a reward model for each output: the judge's, or that of `reward:PATH`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.backends import connect
from refladder.backends.hf.loading import split_revision
from refladder.backends.rewards import NO_DIMENSION, reward_of
from refladder.errors import BackendUnavailableError
from refladder.methods.contract import CHECKPOINT, EvaluationMethod, Method, MethodResult
from refladder.methods.direct import grade_questions
from refladder.methods.measures import Tally
from refladder.methods.without_judge import MACHINE
from refladder.prompts import load_template
from refladder.records import REWARD
from refladder.scoring.asker import Asker, run_of
from refladder.scoring.scorer import batches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.backends import Backend
    from refladder.methods.contract import Judge, MethodSettings
    from refladder.records import Benchmark, Dimension

NAME = REWARD
NO_MODEL = "the judge is not a reward model; pass reward:PATH, or name one as the judge, such as reward:ORG/MODEL"


def _opened(options: Mapping[str, str]) -> Backend:
    """Open a reward model of the method's own."""
    target, revision = split_revision(options[CHECKPOINT])
    settings = {key: options[key] for key in MACHINE}
    if revision:
        settings["revision"] = revision
    backend = connect(f"reward:{target}", **settings)
    backend.load()
    return backend


def _run(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Score every output by the logit of the reward model after a prompt with the dimension.

    Source: Bradley and Terry 1952, as in arXiv 2507.01352: the difference of two rewards is the log-odds of a win.
    """
    options = settings.own(NAME, {CHECKPOINT: "", **MACHINE})
    try:
        backend = _opened(options) if options[CHECKPOINT] else judge()
    except BackendUnavailableError as error:
        return MethodResult(method=None, skipped=str(error))
    if not backend.rewards:
        return MethodResult(method=None, skipped=NO_MODEL)
    if settings.dry_run and options[CHECKPOINT]:
        return MethodResult(method=None)
    template = load_template(benchmark.contexts[0].task, REWARD, settings.prompts)
    run = run_of(backend, template)
    asker = Asker(backend, template, settings.judgments(f"reward-{run.recipe.digest}.jsonl", run))
    questions = grade_questions(benchmark, dimensions)
    tally = Tally()
    scores: dict[tuple[str, str], float | None] = {}
    with settings.progress(NAME) as progress:
        for batch in batches(questions, backend):
            judgments = tally.ask(asker, [question for _, question in batch])
            for (dimension, question), judgment in zip(batch, judgments, strict=True):
                value = None if judgment.logprobs is None else reward_of(judgment.logprobs)
                scores[question.comparison.subject, dimension.name] = value
            if progress is not None:
                progress(len(scores), len(questions))
    notes = () if settings.dry_run else tally.notes()
    method = Method(name=NAME, signature=f"{run.recipe.signature}|rule:logit", scores=scores)
    return MethodResult(method=method, notes=(NO_DIMENSION, *notes)).counted(tally)


reward = EvaluationMethod(run=_run)
