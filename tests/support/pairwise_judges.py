"""Simulated judges: known quality, noise, preference for the first place, ties."""

from __future__ import annotations

import numpy as np


def simulated(random, quality, pairs, *, noise=0.0, first=0.0, sharpness=1.0):
    """Probabilities that the first is better: logistic in the difference, with noise and a bias in log-odds."""
    gap = (
        sharpness * (quality[pairs[:, 0]] - quality[pairs[:, 1]])
        + first
        + noise * random.standard_normal(len(pairs))
    )
    return 1 / (1 + np.exp(-gap))


def spearman(one, other):
    """Spearman's correlation of two scores without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])
