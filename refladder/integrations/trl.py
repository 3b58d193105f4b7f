"""A reward function for the trainers of TRL. Needs `pip install trl`."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from refladder.integrations.single_scores import scorer_in_thread, single_scores
from refladder.jobs.text_scorer import Scorer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet

    # A text, or the messages of a conversation.
    Completion = str | Sequence[dict[str, object]]


def reward(
    *,
    ladders: str | Path | LadderSet,
    judge: str | Backend = "builtin",
    asynchronous: bool = False,
    **settings: Any,
) -> Callable[..., list[float | None] | Awaitable[list[float | None]]]:
    """Make a reward function: `GRPOTrainer(reward_funcs=reward(ladders=..., judge=...), ...)`.

    The data set needs a column `context_id` (an id of the ladder set) or `context`, beside `prompt`; `background` is
    optional, and with a shared ladder set all three are. The completions of a call are judged as one batch. Of a chat, the
    assistant's last message is judged, and of a text what follows its marked thoughts (see `text_of`). A completion that
    cannot be scored has the reward None, which TRL leaves out of the loss, and the share of such completions is logged
    as `refladder/unscored`.

    Args:
        ladders: see `refladder.Scorer`.
        judge: see `refladder.Scorer`. It is opened now, once in each process.
        asynchronous: make a coroutine function. TRL runs those of several rewards together, and generation
            continues while the judge works. The judge then has a thread of its own.
        settings: other arguments of `refladder.Scorer`, such as `dimensions=["coherence"]`.

    Returns:
        A function for `reward_funcs`. The reward is the score of the dimension (for the rule `ladder-sum` and N rungs
        between -N(N+1)/2 and N(N+1)/2, for a rating its grade), or the overall score or grade between 0 and 1 of several
        dimensions. TRL logs it under the function's `__name__`: `reward_DIMENSION`, with the names of all of several.
        Change that of one of two rewards of the same dimension.

    Raises:
        RefladderError: see `refladder.Scorer`. The function raises JudgeRefusedError for a judge that does not pass the
            judge check, which its first call makes, or that answers the first completions with nothing that can be read.
    """
    of_scorer = {"ladders": ladders, "judge": judge, **settings}
    scorer, thread = scorer_in_thread(**of_scorer) if asynchronous else (Scorer(**of_scorer), None)

    def plain(completions: Sequence[Completion], **columns: Any) -> list[float | None]:
        results = single_scores(scorer, list(completions), columns)
        # A judge that cannot be read would reward nothing for ever.
        scorer.check_readable()
        rewards = [result.value for result in results]
        if (log_metric := columns.get("log_metric")) is not None:
            log_metric("refladder/unscored", rewards.count(None) / len(rewards))
        return rewards

    plain.__name__ = re.sub(r"\W+", "_", "_".join(["reward", *scorer.dimensions]))
    if thread is None:
        return plain

    async def in_thread(**columns: Any) -> list[float | None]:
        return await asyncio.wrap_future(thread.submit(partial(plain, **columns)))

    in_thread.__name__ = plain.__name__
    return in_thread
