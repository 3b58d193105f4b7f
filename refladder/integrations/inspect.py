"""A scorer for Inspect. Needs `pip install inspect-ai`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread
from inspect_ai.scorer import Score, mean, stderr
from inspect_ai.scorer import Scorer as InspectScorer
from inspect_ai.scorer import scorer as registered

from refladder.integrations.single_scores import CONTEXT_FIELDS, scorer_in_thread, single_scores

if TYPE_CHECKING:
    from inspect_ai.scorer import Target
    from inspect_ai.solver import TaskState


@registered(metrics=[mean(), stderr()], name="refladder")  # type: ignore[untyped-decorator]  # read as Any
def ladder(*, ladders: str, judge: str = "builtin", **settings: Any) -> InspectScorer:
    """Score the output of each sample: `Task(..., scorer=ladder(ladders=..., judge=...))`.

    The metadata of a sample needs `context_id` (an id of the ladder set) or `context`; `background` is optional, and
    with a shared ladder set all three are. The value is the score of the dimension, or the overall score between 0 and
    1 of several dimensions; of ratings on a ladder set, the grade. Metadata of the score: `signature`, and the score of
    each dimension under its name. An output that cannot be scored is unscored: the explanation says why, and Inspect
    leaves it out of its metrics and counts it.

    Args:
        ladders: a shipped name or a folder; see `refladder.Scorer`. Inspect logs it and all other arguments.
        judge: name of a backend, which is opened now and judges one sample at a time.
        settings: other arguments of `refladder.Scorer`, such as `dimensions=["coherence"]`.

    Raises:
        RefladderError: see `refladder.Scorer`.
    """
    scorer, thread = scorer_in_thread(ladders=ladders, judge=judge, **settings)

    async def score(state: TaskState, target: Target) -> Score:
        del target
        fields = {name: [state.metadata[name]] for name in CONTEXT_FIELDS if name in state.metadata}
        said: Any = state.output.completion
        if state.messages and state.messages[-1].role == "tool":
            # No answer of the model follows it.
            said = [{"role": "tool", "content": state.messages[-1].text}]
        work = thread.submit(single_scores, scorer, [said], fields or dict(state.metadata))
        (result,) = await anyio.to_thread.run_sync(work.result)
        metadata = {
            **{score.dimension: score.value for score in result.scores},
            "signature": scorer.signature,
        }
        details = {
            "answer": state.output.completion,
            "explanation": result.reason,
            "metadata": metadata,
        }
        if result.value is None:
            return Score.unscored(reason="scoring_failed", **details)
        return Score(value=result.value, **details)

    return score
