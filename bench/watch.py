"""Compute how often `watch` gives each verdict, for simulated judges on recorded ratings of rungs and texts.

python bench/watch.py     # some minutes on one core; writes bench/results/watch.md

The ratings are those of the neutral judge of bench/readings/stays-*-rating-*.jsonl, on the 23 ladders of three samples; other
judges are the recorded roles on the same rungs, or made of the neutral one. No model is asked.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtri

from refladder.comparison.changed_judge import ORDER, SAME, SCALE, UNKNOWN, Reading, change_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Judge = Callable[[Floats, NDArray[np.int64]], Floats]

HERE = Path(__file__).parent
SAMPLES = "topicalchat", "summeval", "replies"
ROLES = "neutral1", "neutral2", "strict", "lenient", "crowd"
NOISE, DRAWS, TEXTS = 0.08, 300, 60
VERDICTS = SAME, SCALE, ORDER, UNKNOWN


class Recorded(NamedTuple):
    """Expected ratings of rungs, shape (ladders, levels), and of texts, shape (texts,)."""

    rungs: Floats
    texts: Floats


def recorded(role: str) -> Recorded:
    """Read the ratings of a role in all samples."""
    rungs, texts = [], []
    for sample in SAMPLES:
        ladders: dict[str, dict[int, float]] = {}
        path = HERE / "readings" / f"stays-{sample}-rating-{role}.jsonl"
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            percent = np.array(row["percent"])
            rating = float(percent @ np.arange(1, 6) / percent.sum())
            if "level" in row:
                name = row.get("anchor") or row["context_id"]
                ladders.setdefault(name, {})[row["level"]] = rating
            else:
                texts.append(rating)
        rungs += [[its[level] for level in sorted(its)] for its in ladders.values()]
    return Recorded(np.array(rungs), np.array(texts))


def reordered(ratings: Floats, rho: float, random: np.random.Generator) -> Floats:
    """Give the same ratings to other texts, so that the rank correlation with the old ones is about `rho`."""
    flat = ratings.ravel()
    scores = ndtri((flat.argsort().argsort() + 0.5) / len(flat))
    # Spearman's correlation of two normal scores: Pearson 1907.
    r = 2 * np.sin(np.pi * rho / 6)
    mixed = r * scores + np.sqrt(1 - r * r) * random.normal(size=len(flat))
    return np.sort(flat)[mixed.argsort().argsort()].reshape(ratings.shape)


def rates(
    judge: Judge,
    anchors: int,
    draws: int,
    random: np.random.Generator,
    texts: Callable[[Floats], Floats] | None = None,
) -> dict[str, float]:
    """Return the share of each verdict; each draw takes some ladders, and noise for each of the three readings."""

    def noisy(ratings: Floats) -> Floats:
        return np.clip(ratings + random.normal(0, NOISE, ratings.shape), 1, 5)

    neutral = recorded(ROLES[0])
    counts: Counter[str] = Counter()
    for _ in range(draws):
        chosen = random.choice(len(neutral.rungs), anchors, replace=False)
        old = neutral.rungs[chosen]
        old_texts = new_texts = np.empty(0)
        if texts is not None:
            old_texts = neutral.texts[random.choice(len(neutral.texts), TEXTS, replace=False)]
            new_texts = texts(old_texts)
        readings = [
            Reading(noisy(rungs), noisy(its))
            for rungs, its in ((old, old_texts), (old, old_texts), (judge(old, chosen), new_texts))
        ]
        contexts = [str(number) for number in range(len(old_texts))]
        counts[change_of("", *readings, contexts).verdict] += 1
    return {verdict: counts[verdict] / draws for verdict in VERDICTS}


def lines_of(draws: int) -> list[str]:
    """Return the page."""
    random = np.random.default_rng(0)
    roles = {role: recorded(role).rungs for role in ROLES}
    judges: dict[str, Judge] = {"neutral, again": lambda old, _: old}
    for role in ROLES[1:]:
        judges[f"recorded: {role.replace('2', ', another reader')}"] = (
            lambda _, chosen, its=roles[role]: its[chosen]  # type: ignore[misc]
        )
    judges |= {
        "stricter: 1 + 4 ((x - 1) / 4)^1.6": lambda old, _: 1 + 4 * ((old - 1) / 4) ** 1.6,
        "more lenient: power .6": lambda old, _: 1 + 4 * ((old - 1) / 4) ** 0.6,
        "compressed: 3 + (x - 3) / 2": lambda old, _: 3 + (old - 3) / 2,
        "rungs in another order, rank correlation .9": lambda old, _: reordered(old, 0.9, random),
        "rungs in another order, .7": lambda old, _: reordered(old, 0.7, random),
    }
    lines = [
        "# Has the judge changed",
        "",
        (
            f"`python bench/watch.py`. Share of each verdict of `watch` in {draws} draws (seed 0). A draw takes ladders from the "
            "23 whose rungs the neutral judge of `bench/readings/stays-*` rated, and adds noise with a standard deviation of "
            f"{NOISE} to both readings of the baseline and to the new one. With texts, {TEXTS} of the recorded texts are frozen, "
            "and rungs stay."
        ),
    ]
    for anchors in (12, 6):
        lines += ["", f"## {anchors} anchors", "", f"| new reading | {' | '.join(VERDICTS)} |"]
        lines.append("|---|" + "--:|" * len(VERDICTS))
        found = {name: rates(judge, anchors, draws, random) for name, judge in judges.items()}
        again = judges["neutral, again"]
        found["with texts: again"] = rates(again, anchors, draws, random, lambda old: old)
        for rho in (0.9, 0.8, 0.7):

            def texts(old: Floats, rho: float = rho) -> Floats:
                return reordered(old, rho, random)

            name = f"with texts in another order, rank correlation {rho}"
            found[name] = rates(again, anchors, draws, random, texts)
        for name, its in found.items():
            lines.append(f"| {name} | {' | '.join(f'{its[each]:.3f}' for each in VERDICTS)} |")
    return [*lines, ""]


def main() -> None:
    """Write the page of figures."""
    parser = argparse.ArgumentParser(description=__doc__.split(";")[0])
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "watch.md")
    given = parser.parse_args()
    given.out.write_text("\n".join(lines_of(given.draws)), encoding="utf-8")


if __name__ == "__main__":
    main()
