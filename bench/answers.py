"""Stated probabilities: how far the order of the rungs moves a score, and how often the interval holds its mean.

`python bench/answers.py` writes bench/results/answers.md. The simulated judges go through the code of `score`: a
backend that writes its probabilities for the rungs that a prompt shows.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import beta

from refladder.backends import Backend
from refladder.files.ladder_sets import load_ladders
from refladder.files.tables import Row
from refladder.loaders.input_rows import Item
from refladder.records import Completion, Output
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.rules import ladder_scores
from refladder.scoring.scorer import LadderScorer
from refladder.settings import Scoring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from refladder.records import LabelReading, Prompt, Sampling

    FloatArray = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parent / "results" / "answers.md"
LADDERS = load_ladders("demo/story")
DIMENSION = LADDERS.dimensions[0]
RUNGS, TEXTS = LADDERS.rungs, 1500
ASKED = (1, 2, 3, 5, 8)


class Kind(NamedTuple):
    """How the numbers of a judge come about, in log-odds; `step` is what they are rounded to, in percent."""

    slope: float  # for each rung that the text is above or below
    first: float  # in favour of the rungs shown first, and against those shown last
    contrast: float  # against a rung behind a better one, for each rung of the difference
    noise: float  # standard deviation between orders, of all numbers of an answer together
    each: float  # standard deviation between orders, of each number
    step: int


KINDS = {
    "steady": Kind(1.2, 0.0, 0.0, 0.0, 0.1, 5),
    "reads places": Kind(1.2, 0.8, 0.0, 0.0, 0.1, 5),
    "compares neighbours": Kind(1.2, 0.0, 0.3, 0.0, 0.1, 5),
    "unsteady": Kind(1.2, 0.3, 0.1, 0.5, 0.3, 5),
    "coarse": Kind(1.2, 0.3, 0.1, 0.2, 0.2, 25),
    "coarse, steady": Kind(1.2, 0.0, 0.0, 0.0, 0.2, 25),
    "vague": Kind(0.4, 0.3, 0.1, 0.3, 0.3, 10),
}
HEAD = f"""# Stated probabilities in several orders of the rungs

Made by `python bench/answers.py`.

`--answers stated:K` shows the {RUNGS} rungs of a ladder in K orders. The full score is the mean `ladder-sum` (-15 to
15) over all 120 orders. Coverage is the share of texts whose 95 % interval holds the full score, with the exact 95 %
interval of this share (Clopper and Pearson). Width is the mean width of the interval. None is the share of texts without
an interval, as K is below 5 or their answers use fewer than 6 different numbers; coverage is that of the others. Error is
the root mean square difference from the full score, and r the Pearson correlation with it.

{TEXTS:,} texts for each simulated judge. Its log-odds of a win grow by 1.2 for each rung that the text is better
(vague: .4), and its numbers are rounded to 5 % (both coarse: 25 %, vague: 10 %). Between orders, log-odds differ by noise,
by the place at which a rung is shown (up to .8 for the first), and by the rung that is shown before it (up to .3 for
each rung of the difference).

| judge | K | coverage | its interval | width | none | error | r |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""


class Simulated(Backend):
    """Writes probabilities that a text's number, the rungs and their order decide."""

    fingerprint = "simulated"

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.quality = np.random.default_rng(7).uniform(0.0, RUNGS + 1.0, TEXTS)
        self._level = {
            rung.text: rung.level for ladder in LADDERS.ladders.values() for rung in ladder.rungs
        }

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Not used: it has no log-probabilities."""
        raise NotImplementedError

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One line a letter."""
        del sampling
        return [Completion(text=self._answer(prompt)) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> str:
        shown = re.split(r"(?:^|\n\n)([A-Z]):\n", prompt.slots["references"])
        levels = [self._level[text] for text in shown[2::2]]
        numbers = self.stated(int(prompt.slots["target"].rpartition(" ")[2]), levels)
        return "\n".join(
            f"{letter}: {number:g}" for letter, number in zip(shown[1::2], numbers, strict=True)
        )

    def stated(self, text: int, levels: Sequence[int]) -> FloatArray:
        """The numbers for rungs that are shown in this order."""
        kind, shown = self.kind, np.array(levels, dtype=np.float64)
        digest = hashlib.blake2b(f"{text}:{levels}".encode(), digest_size=8).digest()
        random = np.random.default_rng(int.from_bytes(digest, "big"))
        odds = kind.slope * (self.quality[text] - shown)
        odds -= kind.first * np.linspace(1, -1, len(levels))
        odds[1:] += kind.contrast * np.diff(shown) * -1
        odds += kind.noise * random.standard_normal() + kind.each * random.standard_normal(
            len(levels)
        )
        return np.asarray(np.round(100 / (1 + np.exp(-odds)) / kind.step) * kind.step)

    def full(self) -> FloatArray:
        """The mean score of each text over all orders, shape (texts,)."""
        scores = np.zeros(TEXTS)
        orders = list(itertools.permutations(range(1, RUNGS + 1)))
        for order in orders:
            wins = np.empty((TEXTS, RUNGS))
            for text in range(TEXTS):
                wins[text, np.array(order) - 1] = self.stated(text, order) / 100
            verdicts = np.stack([wins, 1 - wins, np.zeros_like(wins)], axis=2)
            scores += ladder_scores(verdicts, (1.0, 5.0)) / len(orders)
        return scores


def scored(judge: Backend, outputs: Sequence[Output], orders: int) -> tuple[FloatArray, FloatArray]:
    """Scores and intervals of texts, NaN where there is none, shapes (texts,) and (texts, 2)."""
    scorer = LadderScorer(
        judge, LADDERS, Scoring(dimensions=[DIMENSION.name], answers=f"stated:{orders}")
    )
    with JudgmentLog(None, scorer.run) as log:
        rows = scorer.score([Item(Row(output.id, {}), output) for output in outputs], log)
    none = (np.nan, np.nan)
    values = np.array([np.nan if score.value is None else score.value for (score,) in rows])
    return values, np.array(
        [none if score.interval is None else score.interval for (score,) in rows]
    )


def cells(values: FloatArray, ends: FloatArray, full: FloatArray) -> str:
    """Coverage with its interval, width, error and correlation."""
    error = f"{np.sqrt(np.mean((values - full) ** 2)):.2f} | {np.corrcoef(values, full)[0, 1]:.3f}"
    printed = ~np.isnan(ends[:, 0])
    if not printed.any():
        return f"- | - | - | 100.0% | {error}"
    ends, full = ends[printed], full[printed]
    inside = (ends[:, 0] <= full + 1e-9) & (full <= ends[:, 1] + 1e-9)
    count, number = int(inside.sum()), len(inside)
    low = beta.ppf(0.025, count, number - count + 1) if count else 0.0
    high = beta.ppf(0.975, count + 1, number - count) if count < number else 1.0
    widths = ends[:, 1] - ends[:, 0]
    return f"{count / number:.1%} | {low:.1%} to {high:.1%} | {widths.mean():.2f} | {1 - printed.mean():.1%} | {error}"


def main() -> None:
    """Write the table of the simulated judges."""
    output = Output(id="", context_id="story-01", system="", text="")
    outputs = [replace(output, id=str(number), text=f"Text {number}") for number in range(TEXTS)]
    lines = []
    for name, kind in KINDS.items():
        judge = Simulated(kind)
        full = judge.full()
        lines += [
            f"| {name} | {orders} | {cells(*scored(judge, outputs, orders), full)} |"
            for orders in ASKED
        ]
    text = HEAD + "\n".join(lines) + "\n"
    RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
