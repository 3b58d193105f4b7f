import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from refladder.backends import connect
from refladder.backends.builtin import Builtin, open_builtin
from refladder.backends.builtin.quality import (
    FACETS,
    facet_shares,
    feature_weights,
    grades,
    quality,
    verdict,
)
from refladder.errors import BackendError, BackendUnavailableError, LabelsUnavailableError
from refladder.files.ladder_sets import load_ladders, published_names
from refladder.prompts import TASKS, fill, load_template
from refladder.records import OUTCOMES, Context, Dimension, Sampling
from refladder.synth import build_ladders
from refladder.testing import check_backend

ARTICLE = """The village of Norrin has opened a library in an old bus. Volunteers painted it green and drove it to the
square on Monday. Children may borrow three books at a time, and there is no fine for bringing them back late. The bus
was a gift of the county, which had no further use for it. A teacher who helped to sort the books said that the first
day had emptied half of the shelves. The library will stand in the square until snow falls."""
CONTEXTS = {
    "summarization": (ARTICLE, ""),
    "dialogue": (
        "A: Have you seen the green bus?\nB: The library? I borrowed two books there yesterday.\nA: Which ones?",
        "The first library on wheels was a horse cart in 1859. It carried about a thousand books.",
    ),
    "story": ("A librarian finds a book that nobody has written yet.", ""),
    "data-to-text": (
        "Norrin | country | Farland<br>Norrin | leaderName | Ada_Moss<br>Ada_Moss | birthYear | 1961",
        "",
    ),
    "open": ("Explain why leaves turn red in autumn.", ""),
    "document": ("why leaves turn red in autumn", "90 words"),
}
DIMENSIONS = {
    "relevance": "Whether it says what matters.",
    "fluency": "Whether it is well written.",
    "coherence": "Whether it holds together.",
    "consistency": "Whether it sticks to the facts.",
    "overall": "How good it is as a whole.",
}
TEXTS = (
    "",
    "!!! ...",
    "🙂🙂🙂",
    "the",
    "library",
    "{{context}} {target} {",
    "A library in a bus.",
    "bus bus bus of the the library",
    "Volunteers of Norrin opened a library in a green bus, where children may borrow three books at a time.",
    "Football is played by two teams of eleven players.",
)


def slots_for(task, name="relevance", **more):
    context, background = CONTEXTS[task]
    criterion = {"dimension": name, "description": DIMENSIONS[name]}
    return {"context": context, "background": background, **criterion, **more}


def prompt_for(task, role, claim=None, **slots):
    return fill(load_template(task, role), slots_for(task, **slots), claim)


def read(*prompts):
    """The log-probability of each outcome of each prompt."""
    readings = Builtin().read_labels(prompts, prompts[0].labels)
    pairs = zip(prompts, readings, strict=True)
    return [dict(zip(prompt.outcomes, one.logprobs, strict=True)) for prompt, one in pairs]


def whole(found):
    """The probability of all outcomes together."""
    return sum(map(math.exp, found.values()))


def quality_on(task, name, text, context=None):
    """The quality of a text on a dimension, with the context of the task or another."""
    of_task = CONTEXTS[task] if context is None else (context, "")
    return quality(text, *of_task, task, name, DIMENSIONS[name])


def test_it_is_opened_by_name_and_keeps_the_contract():
    backend = connect("builtin")
    assert backend.fingerprint == "builtin/1"
    check_backend(backend)


def test_it_has_no_variants():
    message = r"no variants; write 'builtin', not 'builtin:large'"
    with pytest.raises(BackendUnavailableError, match=message):
        open_builtin("large")


@pytest.mark.parametrize("task", TASKS)
def test_swapping_two_texts_swaps_win_and_loss_exactly(task):
    for left, right in itertools.product(TEXTS, repeat=2):
        pairs = ((left, right), (right, left))
        found, swapped = read(
            *(prompt_for(task, "compare", reference=a, target=b) for a, b in pairs)
        )
        assert found == {"win": swapped["loss"], "loss": swapped["win"], "tie": swapped["tie"]}
        assert whole(found) == pytest.approx(1, abs=1e-12)


def test_verdict_by_hand():
    # Equal texts: a third each. A difference d = 2 ln 2 / 3 gives h = 1.5 d = ln 2, so 2 : 1/2 : 1, of 3.5 in all.
    assert verdict(0.0) == pytest.approx(dict.fromkeys(OUTCOMES, math.log(1 / 3)))
    shares = {"win": math.log(4 / 7), "loss": math.log(1 / 7), "tie": math.log(2 / 7)}
    assert verdict(2 * math.log(2) / 3) == pytest.approx(shares)


def test_a_better_text_always_gets_a_better_verdict():
    found = map(verdict, np.linspace(-12, 12, 4001))
    margins = [math.exp(one["win"]) - math.exp(one["loss"]) for one in found]
    assert np.all(np.diff(margins) > 0)


def test_a_text_without_words_is_judged_and_is_the_worst():
    texts = ("", "the", "the the the the", "<unk> <unk>", "&" * 50 + "x", "a library")
    for task, name in itertools.product(TASKS, DIMENSIONS):
        empty, *others = (quality_on(task, name, text) for text in texts)
        assert math.isfinite(empty), (task, name)
        assert empty < min(others), (task, name)


def test_yes_has_the_probability_of_the_claimed_verdict():
    texts = {"reference": TEXTS[7], "target": TEXTS[8]}
    (compared,) = read(prompt_for("dialogue", "compare", **texts))
    for claim in OUTCOMES:
        (found,) = read(prompt_for("dialogue", "compare-yesno", claim, **texts))
        assert found["yes"] == compared[claim]
        assert whole(found) == pytest.approx(1, abs=1e-12)


def test_the_first_of_a_pair_wins_when_it_is_better_and_swapping_swaps():
    better, worse = TEXTS[8], TEXTS[7]
    pairs = ((better, worse), (worse, better))
    found, swapped = read(*(prompt_for("open", "pairwise", first=a, second=b) for a, b in pairs))
    assert found["win"] > found["loss"]
    assert found == {"win": swapped["loss"], "loss": swapped["win"]}
    assert whole(found) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("count", [5, 10, 100])
def test_grades_sum_to_one_and_rise_with_quality(count):
    means = []
    for value in np.linspace(-15, 15, 301):
        found = grades(value, count)
        assert list(found) == [str(grade) for grade in range(1, count + 1)]
        assert whole(found) == pytest.approx(1, abs=1e-12)
        means.append(sum(int(grade) * math.exp(logprob) for grade, logprob in found.items()))
    assert np.all(np.diff(means) > 0)
    texts = (TEXTS[7], TEXTS[8])
    low, high = read(*(prompt_for("story", f"direct-{count}", target=text) for text in texts))
    assert high[str(count)] > low[str(count)]


@pytest.mark.parametrize("place", ["1", "2"])
def test_the_grade_of_one_of_two_texts_is_that_of_the_text(place):
    (found,) = read(prompt_for("story", "verifier", first=TEXTS[7], second=TEXTS[8], place=place))
    worth = quality_on("story", "relevance", TEXTS[6 + int(place)])
    assert found == grades(worth, 20)


def test_labels_may_be_asked_in_another_order_and_in_part():
    prompt = prompt_for("story", "compare", reference=TEXTS[7], target=TEXTS[8])
    (whole,) = Builtin().read_labels([prompt], prompt.labels)
    (turned,) = Builtin().read_labels([prompt], prompt.labels[::-1])
    (part,) = Builtin().read_labels([prompt], prompt.labels[:1])
    assert turned.logprobs == whole.logprobs[::-1]
    assert part.logprobs == whole.logprobs[:1]
    assert part.mass == pytest.approx(math.exp(whole.logprobs[0]))


def refused(message, error=BackendError):
    return pytest.raises(error, match=message)


def test_what_cannot_be_answered_is_said():
    prompt = prompt_for("story", "compare", reference="a", target="b")
    with refused("label 'Maybe' is none of the prompt's: '", LabelsUnavailableError):
        Builtin().read_labels([prompt], ["Maybe"])
    with refused(r"judges the roles compare, compare-shared, .*, not 'best'; connect a model"):
        Builtin().read_labels([prompt_for("story", "best")], ["Better"])
    with refused(r"writes the rungs of ladders and nothing else, .* 'compare'; name a model: sc"):
        Builtin().write([prompt], Sampling())
    yes_no = replace(prompt, role="compare-yesno", labels=("Yes", "No"), outcomes=("yes", "no"))
    with refused("claims one of win, loss, tie, not None"):
        Builtin().read_labels([yes_no], yes_no.labels)


def test_facets_follow_the_dimension_words():
    assert facet_shares("fluency", "") == dict.fromkeys(FACETS, 0.0) | {"form": 1.0}
    # The name counts three times as much as the description: relevance is content, "facts" are support.
    shares = dict.fromkeys(FACETS, 0.0) | {"content": 0.75, "support": 0.25}
    assert facet_shares("Relevance", "Only the facts.") == shares
    assert set(facet_shares("overall", "How good?").values()) == {0.2}
    weights = [feature_weights(task, "fluency", "") for task in ("summarization", "story")]
    assert weights[0] != weights[1]


def built(task, context=None, rungs=5):
    """The qualities of the rungs of a ladder for each dimension."""
    text, background = CONTEXTS[task] if context is None else (context, "")
    dimensions = [Dimension(name=name, description=words) for name, words in DIMENSIONS.items()]
    asked = [Context(id="c", task=task, text=text, background=background)]
    ladders, failures = build_ladders(Builtin(), asked, dimensions, rungs=rungs)
    assert not failures
    return {
        ladder.dimension: [
            quality_on(task, ladder.dimension, rung.text, context) for rung in ladder.rungs
        ]
        for ladder in ladders
    }


def test_ladders_rise_and_repeat_nothing():
    for task, rungs in itertools.product(TASKS, [2, 5, 17]):
        qualities = built(task, rungs=rungs)
        assert qualities.keys() == DIMENSIONS.keys()
        for name, values in qualities.items():
            assert len(values) == rungs, (task, name)
            assert np.all(np.diff(values) > 0), (task, name, values)


ODD = ["Moss", "", "!?", "🙂🙂", "{{context}} {x}", "12 13", "the of", "word " * 5000]


def test_odd_contexts_have_ladders_too():
    for task, text in itertools.product(TASKS, ODD):
        for name, values in built(task, text).items():
            assert values[0] < values[-1], (task, text, name)


@pytest.mark.parametrize("task", TASKS)
def test_the_seed_decides_the_text(task):
    prompts = [fill(load_template(task, role), slots_for(task)) for role in ("worst", "best")]
    worst, best = (completion.text for completion in Builtin().write(prompts, Sampling(seed=1)))
    prompts.append(fill(load_template(task, "between"), slots_for(task, lower=worst, higher=best)))
    written, again = (
        [[one.text for one in Builtin().write(prompts, Sampling(seed=seed))] for seed in range(8)]
        for _ in range(2)
    )
    assert written == again
    for texts in zip(*written, strict=True):
        assert all(texts)
        assert len(set(texts)) >= 3


def test_max_tokens_is_kept():
    (completion,) = Builtin().write([prompt_for("story", "best")], Sampling(max_tokens=20))
    assert len(completion.text.split()) == 20


@pytest.mark.parametrize("text", ["library bus ", "a", ".", ". ", " ", '"'])
def test_texts_of_a_megabyte_are_judged(text):
    # Quadratic work would take hours.
    long = text * (1_000_000 // len(text))
    assert math.isfinite(quality(long, ARTICLE, "", "summarization", "relevance", ""))


# Least share of rung pairs in the right order: all pairs, neighbouring pairs. A story's coherence leaves few traces on
# the surface, so less is asked there.
DEMO = {
    "demo/summarization": {"relevance": (0.9, 0.8), "fluency": (0.9, 0.8)},
    "demo/dialogue": {"engagingness": (0.9, 0.8)},
    "demo/story": {"coherence": (0.75, 0.6), "complexity": (0.9, 0.8)},
}


@pytest.mark.parametrize("name", sorted(DEMO))
def test_rungs_written_by_hand_are_put_in_order(name):
    shipped = load_ladders(name)
    assert name in published_names()
    right = {dimension.name: [] for dimension in shipped.dimensions}
    words = {dimension.name: dimension.description for dimension in shipped.dimensions}
    for (context_id, dimension), ladder in shipped.ladders.items():
        context = shipped.contexts[context_id]
        given = (context.text, context.background, context.task, dimension, words[dimension])
        values = [quality(rung.text, *given) for rung in ladder.rungs]
        for (low, a), (high, b) in itertools.combinations(enumerate(values), 2):
            right[dimension].append((high - low, a < b))
    for dimension, (every, neighbouring) in DEMO[name].items():
        assert np.mean([good for _, good in right[dimension]]) >= every
        assert np.mean([good for apart, good in right[dimension] if apart == 1]) >= neighbouring
