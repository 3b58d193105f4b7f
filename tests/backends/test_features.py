import itertools
import math

import pytest

from refladder.backends.builtin.features import measure, read_source, split_words

ARTICLE = "The baker opened a shop. The shop sells rye bread, and the baker gives bread away."


def features(text, context=ARTICLE, background="", task="summarization"):
    return measure(text, read_source(context, background, task))


def test_tokenised_and_plain_text_have_the_same_words():
    assert split_words("The team's 0-0 draw.") == split_words("the team 's 0 - 0 draw .")
    assert split_words("the team 's 0 - 0 draw .") == ["the", "team", "s", "0", "0", "draw"]


def test_counts_by_hand():
    # Words: the baker sells bread bread. Content words: baker sells bread (3 different, 4 in all); one function word.
    # Pairs: the-baker baker-sells sells-bread bread-bread; of these the article has the-baker alone.
    found = features("The baker sells bread bread")
    assert found.variety == pytest.approx(math.log(4) / 7)
    assert found.support == 1
    assert found.copying == 1 / 4
    assert found.repetition == 0
    assert found.echo == pytest.approx(1 - 3 / 4)
    assert found.misfit == pytest.approx(6 * 1 / (6 + 5))  # bread bread
    assert found.imbalance == pytest.approx(abs(1 / 5 - 0.42))
    assert found.word_length == pytest.approx((5 + 5 + 5) / 36)
    assert (found.noise, found.ending, found.question, found.background) == (0, 0, 0, 0)


def test_coverage_of_data_counts_every_word_once():
    # Content words of the data: ayam penyet region java; the text has two of the four.
    data = "Ayam_penyet | region | Java"
    found = features("A dish of Java: penyet.", data, task="data-to-text")
    assert found.coverage == pytest.approx(math.sqrt(2 / 4))


def test_coverage_prefers_what_an_article_says_first_and_a_dialogue_says_last():
    context = "Rain falls.\nBread rises."
    for task, sign in (("summarization", 1), ("dialogue", -1)):
        texts = ("rain falls", "bread rises")
        early, late = (features(text, context, task=task).coverage for text in texts)
        assert sign * (early - late) > 0


def test_background_is_what_the_context_does_not_have():
    background = "The baker likes rye and barley; rye feeds cattle."
    found = features("Rye feeds bakers.", background=background)
    assert found.background == pytest.approx(math.log(2) / 3)  # feeds; rye is in the context too


def test_ending():
    ended = ["It ends.", '"It ends."', "It ends . '' ", "终于。"]
    assert [features(text).ending for text in [*ended, "It ends", "It ends,"]] == [1] * 4 + [0] * 2


def test_noise_and_broken_grammar_are_seen():
    assert features("the <unk> ,, baker").noise > features("the baker, at last").noise == 0
    assert features("The of baker it are").misfit > features("The baker is at work.").misfit == 0


def test_a_text_without_words_has_no_features():
    assert [features(text) for text in ("", "   \n", "!!!", "🙂🙂", "{}")] == [None] * 5


def test_every_feature_lies_between_0_and_1():
    contexts = ["", "!!!", "🙂", "{{context}}", "moss", "the of"]
    texts = ["a", "moss", "the", "I 'm", "aB" * 9, "word " * 500, "¿? ü", "今天天气很好"]
    tasks = ["summarization", "dialogue", "story", "data-to-text", "open"]
    outside = [
        case
        for case in itertools.product(texts, contexts, tasks)
        if not all(0 <= value <= 1 for value in features(case[0], case[1], case[1], case[2]))
    ]
    assert outside == []
