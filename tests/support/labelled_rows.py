"""Scored rows with a hidden quality, and labels of some of them."""

from __future__ import annotations

import numpy as np

SIGNATURE = "ladders:small@1|backend:judge|rule:ladder-sum"


def scored(count=400, seed=0, noise=0.3):
    """Rows with two scores and the rating that people would give."""
    generator = np.random.default_rng(seed)
    quality = generator.normal(size=count)
    rows = []
    for number in range(count):
        words = int(5 + 3 * generator.random())
        rows.append(
            {
                "output_id": f"o{number}",
                "context_id": f"c{number // 2}",
                "context": "A red dog ran.",
                "output": "dog " * words,
                "clarity_score": round(float(quality[number] + noise * generator.normal()), 4),
                "tone_score": round(float(quality[number] + generator.normal()), 4),
                "signature": SIGNATURE,
                "rating": int(np.clip(np.round(3.6 + quality[number]), 1, 5)),
            }
        )
    return rows


def split(rows, labels, seed=1):
    """Rows without ratings, and a table of labels of some of them."""
    chosen = np.random.default_rng(seed).permutation(len(rows))[:labels].tolist()
    given = [
        {"output_id": rows[number]["output_id"], "rating": rows[number]["rating"]}
        for number in chosen
    ]
    return [{key: value for key, value in row.items() if key != "rating"} for row in rows], given
