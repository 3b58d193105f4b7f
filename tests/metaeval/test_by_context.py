"""Mean correlation within contexts of different sizes, beside scipy context by context."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from refladder.metaeval.by_context import mean_within

NAMED = {"spearman": stats.spearmanr, "pearson": stats.pearsonr, "kendall": stats.kendalltau}


@pytest.mark.parametrize("statistic", NAMED)
def test_it_is_the_mean_of_the_correlations_of_contexts(statistic):
    random = np.random.default_rng(3)
    contexts = random.integers(0, 30, size=200)
    target = random.normal(size=200)
    predicted = target + random.normal(size=200)
    predicted[contexts == 4] = 1.0  # constant: skipped
    expected = [
        NAMED[statistic](predicted[contexts == context], target[contexts == context])[0]
        for context in np.unique(contexts)
        if (contexts == context).sum() > 1 and context != 4
    ]
    assert mean_within(predicted, target, contexts, statistic) == pytest.approx(
        np.mean(expected), abs=1e-12
    )


def test_contexts_of_one_row_have_none():
    assert math.isnan(mean_within(np.arange(3.0), np.arange(3.0), np.arange(3)))
