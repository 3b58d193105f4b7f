"""Simulations behind the statistics that refladder prints: coverage of intervals, debiasing, sampling, fairness.

`python bench/statistics.py` runs every section, `python bench/statistics.py NAME ...` some of them. Each section is
recorded under its own heading in bench/results/statistics.md; the others stay as they are.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "statistics":
    # Another bench in this folder, or a library that it uses, imports the standard library's module of this name.
    _spec = importlib.util.spec_from_file_location("statistics", Path(sysconfig.get_path("stdlib")) / "statistics.py")
    if _spec is None or _spec.loader is None:
        raise ImportError("the standard library's statistics module is missing")
    sys.modules["statistics"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["statistics"])

import numpy as np

from refladder.metaeval.correlation import correlate_rows
from refladder.scoring.rules import hard_votes, ladder_scores, probabilities_from

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).resolve().parent / "results" / "statistics.md"
HEAD = "# Simulations of the statistics\n\nMade by `python bench/statistics.py`.\n"

ANSWERS = (1, 3, 10, 30, 100, 300, 1000)  # sampled for each comparison
JUDGES = {"sharp judge": 1.0, "blunt judge": 0.1}  # log-odds of win for one standard deviation of quality


def sampling() -> str:
    """Agreement of the ladder's score with people: n sampled answers, label probabilities, most probable labels."""
    trials, contexts, systems, rungs = 20, 100, 16, 5
    ways = {**{f"{answers:,} sampled": answers for answers in ANSWERS}, "probabilities": 0, "hard-votes": -1}
    found: dict[str, list[str]] = {way: [] for way in ways}
    for sharpness in JUDGES.values():
        values: dict[str, list[float]] = {way: [] for way in ways}
        for trial in range(trials):
            random = np.random.default_rng(trial)
            quality = random.standard_normal((contexts, systems))
            ratings = quality + random.normal(0, 0.7, quality.shape)
            gap = (quality + random.normal(0, 0.7, quality.shape))[..., None] - np.linspace(-1.5, 1.5, rungs)
            h = sharpness * (gap + random.normal(0, 0.5, gap.shape))
            logprobs = np.stack([h, -h, np.zeros_like(h)], axis=-1).reshape(-1, rungs, 3)
            probabilities = probabilities_from(logprobs)
            for way, answers in ways.items():
                verdicts = random.multinomial(answers, probabilities) / answers if answers > 0 else probabilities
                rule = hard_votes if way == "hard-votes" else ladder_scores
                scores = rule(verdicts, (1.0, 5.0)).reshape(contexts, systems)
                values[way].append(float(np.nanmean(correlate_rows(scores, ratings))))
        for way, trials_of in values.items():
            found[way].append(f"{np.mean(trials_of):.3f} ± {np.std(trials_of, ddof=1):.3f}")
    lines = [f"| {way} | {' | '.join(cells)} |" for way, cells in found.items()]
    sharpness_of = " or ".join(f"{value:g}" for value in JUDGES.values())
    about = f"""Spearman within contexts between `ladder-sum` and ratings: mean ± standard deviation of {trials} trials
of {contexts} contexts, {systems} systems and {rungs} rungs. Quality is standard normal; people and the judge each add
noise of 0.7, the judge 0.5 more at each rung. The probabilities of win, loss and tie are as e^h : e^-h : 1, with
h = {sharpness_of} (quality - rung). arXiv 2509.05440, Table 2, has .094 (1 sample), .147 (3), .212 (10), .309 (100),
.364 (1,000) and .374 (probabilities) on SummEval."""
    head = f"| verdicts | {' | '.join(JUDGES)} |\n|---|" + "---|" * len(JUDGES)
    return "\n".join([about, "", head, *lines])


# name -> function that returns its section as Markdown
SECTIONS: dict[str, Callable[[], str]] = {
    "sampling": sampling,
}


def record(name: str, text: str) -> None:
    """Put a section into the results file in place of the one of that name."""
    old = RESULTS.read_text() if RESULTS.exists() else HEAD
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", old, flags=re.MULTILINE | re.DOTALL))
    sections[name] = f"\n{text.strip()}\n\n"
    RESULTS.write_text(HEAD + "".join(f"\n## {key}\n{sections[key].rstrip()}\n" for key in SECTIONS if key in sections))


def main(names: list[str]) -> None:
    """Run the sections of these names, or all."""
    for name in names or list(SECTIONS):
        started = time.perf_counter()
        text = f"{SECTIONS[name]()}\n\n({time.perf_counter() - started:.0f} s)"
        print(f"## {name}\n\n{text}\n")
        record(name, text)


if __name__ == "__main__":
    main(sys.argv[1:])
