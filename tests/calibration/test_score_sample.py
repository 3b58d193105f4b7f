"""One score of each context of a table, in any order of its rows."""

import numpy as np

from refladder.calibration.score_sample import MOST_CONTEXTS, ScoreSample


def sample_of(scores, contexts=None):
    sample = ScoreSample()
    for number, score in enumerate(scores):
        sample.add([] if contexts is None else [str(contexts[number])], float(score))
    return sample


def test_one_row_of_a_context_counts_whatever_the_order_of_the_rows():
    rng = np.random.default_rng(1)
    contexts, scores = np.repeat(np.arange(30), 40), rng.normal(size=1200)
    order = rng.permutation(1200)
    spread = sample_of(scores, contexts).spread()
    assert spread.contexts == 30
    assert sample_of(scores[order], contexts[order]).spread() == spread
    whole = sample_of(scores).spread()
    assert whole.contexts == 1200
    many = np.arange(3 * MOST_CONTEXTS)
    drawn = sample_of(many, many).spread()
    assert drawn.contexts == MOST_CONTEXTS
    assert sample_of(many[::-1], many[::-1]).spread() == drawn
    assert np.allclose(drawn.quantiles, np.linspace(0, len(many), 21), atol=0.03 * len(many))
