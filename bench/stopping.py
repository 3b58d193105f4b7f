"""Early stopping: decisions that change (there must be none) and calls that are saved, for simulated judges.

`python bench/stopping.py` writes bench/results/stopping.md. A row is an output against a ladder of five rungs. Every
decision is compared with that of the whole ladder, which the same verdicts give.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.records import Dimension
from refladder.scoring.rules import RULES, probabilities_from, rule_named
from refladder.scoring.stopping import StopRule
from refladder.settings import Scale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parent / "results" / "stopping.md"
RUNGS, ROWS = 5, 30_000
JUDGES = ("sharp", "noisy", "useless")
ERRORS = (0.25, 0.5, 1.0)  # of a student's estimates, in standard deviations of the scores
THRESHOLDS = {"low": 0.1, "middle": 0.5, "high": 0.9}
DIMENSION = Dimension(name="quality", description="")
HEAD = """# Early stopping

Made by `python bench/stopping.py`.

{decided:,} simulated rows of {rungs} rungs; each was decided by three orders of asking. **{changed} decisions differ
from those of the whole ladder.** {tied:,} rows have exactly the threshold as their score.

The share of the calls that was saved is given for the order that `score --stop-at` uses, and for two fixed orders
beside it. The thresholds low, middle and high are the quantiles .1, .5 and .9 of the scores.

| rule | judge | threshold | value | pass | saved | highest rung first | lowest rung first |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |
"""
UNDECIDED = (
    "## After a first pass",
    "",
    "With `--cascade`, the judge gets the rows whose estimate is near the threshold, and they need more rungs than",
    "other rows. The estimate of a simulated student is the score plus an error of some standard deviations of the",
    "scores. The judge gets the tenth of the rows with the nearest estimates. Calls saved on these, with the rule",
    "ladder-sum:",
    "",
    "| judge | threshold | all rows | error .25 | error .5 | error 1 |",
    "| --- | --- | ---: | ---: | ---: | ---: |",
)
ORDERS = ("as refladder", "highest rung first", "lowest rung first")


def verdicts(judge: str, random: np.random.Generator, rows: int = ROWS) -> FloatArray:
    """Verdict probabilities of a judge: shape (rows, 1, rungs, 3).

    The log-odds of win against loss grow with the distance of output and rung: by 6 a rung (sharp), or by 1 with a
    noise of standard deviation 1.5 (noisy). The useless judge draws its verdict without looking.
    """
    levels = np.arange(1.0, RUNGS + 1)
    quality = random.uniform(0.5, RUNGS + 0.5, size=(rows, 1))
    if judge == "useless":
        read = random.normal(0.0, 2.0, size=(rows, RUNGS, 3))
    else:
        slope, noise = (6.0, 0.0) if judge == "sharp" else (1.0, 1.5)
        gap = slope * (quality - levels) + noise * random.standard_normal((rows, RUNGS))
        read = np.stack([gap / 2, -gap / 2, np.full_like(gap, -1.0)], axis=2)
    return probabilities_from(read)[:, None]


def asked_until_decided(stop: StopRule, whole: FloatArray, order: str) -> tuple[NDArray[np.int64], float]:
    """The decision about every row (1 or -1), and the rungs asked for each on average."""
    asked = np.full_like(whole, -1.0)
    while True:
        columns = stop.column_bounds(stop.bounds(asked))
        decisions = stop.decisions(columns)
        rows = np.flatnonzero(decisions == 0)
        if not len(rows):
            return decisions, float(np.mean(np.sum(asked[:, 0, :, 0] >= 0, axis=1)))
        if order == ORDERS[0]:
            rungs = stop.next_rungs(asked[rows], columns[rows])
        elif order == ORDERS[1]:
            rungs = RUNGS - 1 - np.argmax(asked[rows, 0, ::-1, 0] < 0, axis=1)
        else:
            rungs = np.argmax(asked[rows, 0, :, 0] < 0, axis=1)
        asked[rows, 0, rungs] = whole[rows, 0, rungs]


def undecided(random: np.random.Generator) -> list[str]:
    """Calls saved on the rows that a student before the judge leaves undecided: lines of a table."""
    lines = []
    for judge in ("sharp", "noisy"):
        whole = verdicts(judge, random)
        scores = rule_named("ladder-sum")(whole[:, 0], (DIMENSION.low, DIMENSION.high))
        for name in ("middle", "high"):
            threshold = float(np.quantile(scores, THRESHOLDS[name], method="higher"))
            stop = StopRule({"quality_score": threshold}, [DIMENSION], RUNGS, Scale(rule="ladder-sum", weights={}))
            _, asked_of_all = asked_until_decided(stop, whole, ORDERS[0])
            cells = [f"{1 - asked_of_all / RUNGS:.1%}"]
            for error in ERRORS:
                estimates = scores + error * scores.std() * random.standard_normal(ROWS)
                nearest = np.argsort(np.abs(estimates - threshold))[: ROWS // 10]
                _, asked = asked_until_decided(stop, whole[nearest], ORDERS[0])
                cells.append(f"{1 - asked / RUNGS:.1%}")
            lines.append(f"| {' | '.join([judge, name, *cells])} |")
    return lines


def main() -> None:
    """Measure every rule, judge and threshold."""
    started = time.perf_counter()
    random = np.random.default_rng(0)
    changed = decided = tied = 0
    lines = []
    for rule in RULES:
        for judge in JUDGES:
            whole = verdicts(judge, random)
            for name, quantile in THRESHOLDS.items():
                scores = rule_named(rule)(whole[:, 0], (DIMENSION.low, DIMENSION.high))
                threshold = float(np.quantile(scores, quantile, method="higher"))  # the score of a row: an exact tie
                if threshold <= scores.min():  # a coarse rule: the least score of all is no threshold
                    threshold = float(np.min(scores[scores > scores.min()]))
                stop = StopRule({"quality_score": threshold}, [DIMENSION], RUNGS, Scale(rule=rule, weights={}))
                expected = np.where(scores >= threshold, 1, -1)
                cells = []
                for order in ORDERS:
                    decisions, rungs = asked_until_decided(stop, whole, order)
                    changed += int(np.sum(decisions != expected))
                    cells.append(f"{1 - rungs / RUNGS:.1%}")
                decided += ROWS
                tied += int(np.sum(scores == threshold))
                passing = f"{np.mean(expected > 0):.1%}"
                row = [rule, judge, name, f"{threshold + 0.0:.2f}", passing, *cells]
                lines.append(f"| {' | '.join(row)} |")
    text = HEAD.format(decided=decided, rungs=RUNGS, changed=changed, tied=tied)
    lines += ["", *UNDECIDED, *undecided(random)]
    text += "\n".join([*lines, "", f"({time.perf_counter() - started:.0f} s)", ""])
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
