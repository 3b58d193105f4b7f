"""What every adapter shares: one number for each text, and where its context comes from."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from refladder.errors import UsageError
from refladder.jobs.text_scorer import Scorer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Executor

    from refladder.records import Score

    Chat = Sequence[Mapping[str, object]]

CONTEXT_FIELDS = "context_id", "context", "background"


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleScore:
    """The number of one text.

    `value` is the score of the only dimension by the scorer's rule, or the weighted score of several dimensions between
    0 and 1; of ratings on a ladder set, it is the grade. It is None where it could not be scored. `reason` says why, or
    why the number is unreliable. `scores` has every dimension.
    """

    value: float | None
    reason: str | None
    scores: tuple[Score, ...]


def single_scores(
    scorer: Scorer, texts: Sequence[str | Chat | None], fields: Mapping[str, Any]
) -> list[SingleScore]:
    """Score texts, each with one number.

    Args:
        scorer: what scores them.
        texts: the texts, or chats as lists of messages.
        fields: lists with a value for each text: `context_id` or `context`, perhaps `background`; others are ignored.
            With a shared ladder set, all may be left out.

    Raises:
        UsageError: there is neither a `context_id` nor a `context`, and the ladder set is not shared.
        BackendError: the judge failed as a whole.
    """
    contexts = {name: fields[name] for name in CONTEXT_FIELDS if fields.get(name) is not None}
    if scorer.needs_contexts and not {"context_id", "context"} & contexts.keys():
        names = ", ".join(sorted(map(str, fields))) or "none"
        raise UsageError(
            f"a text to score needs a field context_id (of the ladder set) or context; fields: {names}"
        )
    size = len(scorer.dimensions)
    scores = scorer.score(texts, **contexts)
    rows = [tuple(scores[start : start + size]) for start in range(0, len(scores), size)]
    values = scorer.overall(scores) if size > 1 else [score.value for score in scores]
    if size == 1 and scorer.by_grade:
        values = [score.grade for score in scores]
    singles = []
    for value, row in zip(values, rows, strict=True):
        reasons = [f"{score.dimension}: {score.reason}" for score in row if score.reason]
        singles.append(SingleScore(value=value, reason="; ".join(reasons) or None, scores=row))
    return singles


def scorer_in_thread(**settings: Any) -> tuple[Scorer, Executor]:
    """Return a scorer and the only thread that may use it: a judge blocks, and its response store belongs to a thread."""
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="refladder")
    return thread.submit(partial(Scorer, **settings)).result(), thread
