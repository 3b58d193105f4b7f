"""How often a certificate passes, and how often the judge check refuses, by how good the judge is.

python bench/judge_rules.py      # about 3 minutes; writes bench/results/judge_rules.md
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from refladder.records import JudgeCheck
from refladder.scoring.judge_check import check_lines, check_notes
from refladder.statistics import certificate as trust
from refladder.statistics.correction import holm
from refladder.statistics.rate import wilson

DRAWS, RUNGS, LADDERS = 2000, 5, 12
CRITERIA = (1, 2, 4)
RIGHT = (0.5, 0.7, 0.8, 0.9, 0.95)
# The rule of the judge check before: the error of its sign test, and the share that its interval had to reach.
ERROR, NEEDED = 0.05, 0.7
RESULTS = Path(__file__).resolve().parent / "results" / "judge_rules.md"
# Holm's correction over the steps of the whole set or of each criterion, and the error.
RULES = ((True, 0.05), (False, 0.05), (False, trust.ALPHA))
HEAD = """# The rules for judges: certificates and the judge check

`python bench/judge_rules.py`: {draws:,} draws a cell, with {ladders} ladders of {rungs} rungs for each criterion. A share has a
standard error of at most {error:.3f}.

## Certificates
A simulated judge is right on each pair of rungs of each ladder with the probability above the column, on its own. The share
of sets that pass, without the comparisons across anchors. The last rule is that of `certify`.

"""
CHECK = """
## The judge check
The simulated judge is right on each ladder with the probability above the column, on its own. `refused`: the share of runs
that end before the first row. `noted`: the share that go on, with a note in every row of some criterion. The rule
before: each criterion alone had to pass the sign test, or the 95 % interval of its share had to reach {needed}.

"""


def judged(rng: np.random.Generator, criteria: int, right: float) -> np.ndarray:
    """Draw preferences w of the shape (criteria, ladders, rungs, rungs)."""
    upper = rng.random((criteria, LADDERS, RUNGS, RUNGS)) < right
    w = np.where(upper, 1.0, 0.0)
    lower = np.tril_indices(RUNGS, -1)
    w[..., lower[0], lower[1]] = 1 - w[..., lower[1], lower[0]]
    diagonal = np.arange(RUNGS)
    w[..., diagonal, diagonal] = np.nan
    return w


def passes(w: np.ndarray, *, whole: bool, alpha: float) -> bool:
    """Return whether all levels of all criteria pass, as in `refladder.ladders.certify`."""
    p_values = np.array([trust.sign_test(*trust.steps_in_order(each)) for each in w])
    groups = [p_values.ravel()] if whole else list(p_values)
    adjusted = np.concatenate([holm(each.tolist()) for each in groups]).reshape(p_values.shape)
    nothing = np.zeros(RUNGS - 1, dtype=np.bool_)
    verdicts = []
    for each, p in zip(w, adjusted, strict=True):
        verdicts += trust.level_verdicts(trust.mean_preferences(each), p <= alpha, nothing)
    return trust.worst(verdicts) == trust.PASS


def check(name: str, right: int) -> JudgeCheck:
    """Return the check of a criterion whose ladders could all be read."""
    _, low, high = wilson(right, LADDERS)
    return JudgeCheck(
        judge="simulated", ladders="", template="", dimension=name, shared=True, compared=LADDERS, right=float(right),
        read=LADDERS, unparsed=0, low=low, high=high,
    )  # fmt: skip


def refused_before(right: int) -> bool:
    """Return whether a criterion refused a judge before."""
    guesses = trust.sign_test(np.array(right), np.array(LADDERS)).item() > ERROR
    return guesses or wilson(right, LADDERS).high < NEEDED


def main() -> None:
    """Simulate, and write the tables."""
    start = time.perf_counter()
    rng = np.random.default_rng(0)
    head = "| criteria | {} | " + " | ".join(f"{right:g}" for right in RIGHT) + " |\n"
    rule = "|--:|---|" + "--:|" * len(RIGHT) + "\n"
    text = HEAD.format(draws=DRAWS, ladders=LADDERS, rungs=RUNGS, error=0.5 / DRAWS**0.5)
    text += head.format("Holm's correction, error") + rule
    for criteria in CRITERIA:
        passed = np.zeros((len(RULES), len(RIGHT)))
        for column, right in enumerate(RIGHT):
            for _ in range(DRAWS):
                w = judged(rng, criteria, right)
                for row, (whole, alpha) in enumerate(RULES):
                    passed[row, column] += passes(w, whole=whole, alpha=alpha)
        for (whole, alpha), shares in zip(RULES, passed / DRAWS, strict=True):
            over = "over the set" if whole else "within a criterion"
            cells = " | ".join(f"{share:.3f}" for share in shares)
            text += f"| {criteria} | {over}, {alpha:g} | {cells} |\n"
    text += CHECK.format(needed=NEEDED) + head.format("share of runs") + rule
    for criteria in CRITERIA:
        counts = np.zeros((3, len(RIGHT)))
        for column, right in enumerate(RIGHT):
            for drawn in rng.binomial(LADDERS, right, (DRAWS, criteria)).tolist():
                checks = [check(str(number), each) for number, each in enumerate(drawn)]
                refuses = any("do not rely" in line for line in check_lines(checks)[1])
                noted = not refuses and bool(check_notes(checks))
                counts[:, column] += refuses, noted, any(map(refused_before, drawn))
        for name, shares in zip(
            ("refused", "noted", "refused before"), counts / DRAWS, strict=True
        ):
            cells = " | ".join(f"{share:.3f}" for share in shares)
            text += f"| {criteria} | {name} | {cells} |\n"
    RESULTS.write_text(text, encoding="utf-8")
    print(text, f"{time.perf_counter() - start:.0f} s", sep="\n")


if __name__ == "__main__":
    main()
