"""Surface measures by hand."""

from __future__ import annotations

import pytest

from refladder.methods.surface import MEASURES, surface_measures, words
from refladder.records import Context


def measured(context, text):
    found = surface_measures(Context(id="c", task="story", text=context), [text])
    assert found.shape == (1, len(MEASURES))
    return dict(zip(MEASURES, found[0].tolist(), strict=True))


def test_words_keep_inner_apostrophes():
    text = "Don't stop: the KEEPER, the keeper's keeper!"
    assert words(text) == ["don't", "stop", "the", "keeper", "the", "keeper's", "keeper"]


def test_by_hand():
    # context: 6 words, 5 different (the twice). text: the cat sat on a cat, 6 words, 5 different (cat twice).
    found = measured("The cat sat; the dog ran.", "The cat sat on a cat")
    expected = {
        "length": 6,
        "distinct words": 5,
        "coverage": 3 / 5,  # the, cat, sat of the, cat, sat, dog, ran
        "1-grams in context": 4 / 6,  # the cat sat . . cat
        "2-grams in context": 2 / 5,  # the-cat, cat-sat of five
        "3-grams in context": 1 / 4,  # the-cat-sat of four
        "word overlap": 3 / 7,  # the cat sat of the cat sat dog ran on a
        "type/token ratio": 5 / 6,
        "negative length": -6,
    }
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(("context", "text"), [("A tide.", ""), ("...", "!?"), ("...", "A tide.")])
def test_texts_and_contexts_without_words(context, text):
    found = measured(context, text)
    count = len(words(text))
    assert found["length"] == -found["negative length"] == count
    assert found["type/token ratio"] == (1.0 if count else 0.0)
    shared = ("coverage", "word overlap", "1-grams in context", "3-grams in context")
    assert [found[name] for name in shared] == [0] * 4


def test_order_counts_in_n_grams_alone():
    left = measured("one two three four", "one two three")
    right = measured("one two three four", "three two one")
    different = {name for name in MEASURES if left[name] != right[name]}
    assert different == {"2-grams in context", "3-grams in context"}
