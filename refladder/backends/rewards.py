"""Rewards as label readings: a reward r is the log-odds that its text beats a text of reward 0 (Bradley-Terry)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UsageError
from refladder.records import LOSS, REWARD, WIN, LabelReading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from refladder.records import Completion, Prompt, Sampling

# Roles that a reward model answers by reading two texts.
ROLES = "compare", "compare-shared", "pairwise"
ONLY_READS = (
    "{} is a reward model, which gives each text one number: it writes no texts and can only stand in for comparisons; "
    "name another writer, and leave out answers, yes_no and methods that ask for grades"
)
NO_DIMENSION = (
    "a reward model has no dimension: it knows the criterion only as words of the user's turn, and it likes length and "
    "style"
)


class WritesNothing:
    """What a reward model answers to a request for texts."""

    fingerprint: str

    def write_each(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> Iterator[tuple[int, Completion]]:
        """Raise UsageError: a reward model writes nothing."""
        raise UsageError(ONLY_READS.format(self.fingerprint))


def check_role(name: str, prompts: Sequence[Prompt]) -> None:
    """Check that prompts are conversations for a reward model; UsageError for another role."""
    if any(prompt.role != REWARD for prompt in prompts):
        raise UsageError(ONLY_READS.format(name))


def reward_reading(
    reward: float,
    labels: Sequence[str] = (WIN, LOSS),
    *,
    note: str | None = None,
    cut: bool = False,
) -> LabelReading:
    """Return log s(r) of a win and log s(-r) of a loss, s logistic, without mass; no reading if r is not finite."""
    if not np.isfinite(reward):
        return LabelReading(reason=f"the reward model gave {reward}", cut=cut)
    share = {WIN: -float(np.logaddexp(0.0, -reward)), LOSS: -float(np.logaddexp(0.0, reward))}
    return LabelReading(
        logprobs=tuple(share[label] for label in labels), mass=None, note=note, cut=cut
    )


def reward_of(logprobs: Sequence[float]) -> float:
    """Return the reward from the log-probabilities of win and loss."""
    win, loss = logprobs
    return win - loss
