"""The shares of the report card beside plain loops over random judgments, with none of the package's own formulas."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from simulated import DIMENSION, Simulated, benchmark_of, quality_of

from refladder.evaluation.cards import report_cards
from refladder.evaluation.curves import consistency_rows
from refladder.methods.contract import MethodSettings
from refladder.methods.measures import of_judgments, share_of
from refladder.methods.method_runs import run_methods
from refladder.records import Judgment, LabelReading, Rating
from refladder.statistics.agreement import human_means

RANDOM = np.random.default_rng(11)
# rounded, so that there are equal texts, ties of people and ties of the judge
MADE = benchmark_of(np.round(RANDOM.standard_normal((8, 6)) * 2) / 2)
MADE = replace(
    MADE,
    # texts of different lengths, and people who do not rate by the true quality alone
    outputs=tuple(
        replace(one, text=one.text + " " + "x" * (hash_ % 7))
        for hash_, one in enumerate(MADE.outputs)
    ),
    ratings=tuple(
        Rating(
            output_id=one.output_id,
            dimension="worth",
            value=round(one.value + RANDOM.normal()),
            rater="r",
        )
        for one in MADE.ratings
    ),
)


class Faulty(Simulated):
    """Some answers cannot be read, some have low label mass, some are exactly undecided."""

    def read_labels(self, prompts, labels):
        readings = super().read_labels(prompts, labels)
        for place, prompt in enumerate(prompts):
            kind = (len(prompt.slots["first"]) * 3 + len(prompt.slots["second"])) % 5
            if kind == 1 and readings[place].logprobs is not None:
                readings[place] = replace(readings[place], mass=0.3)
            if kind == 2:
                readings[place] = LabelReading(logprobs=(-0.7, -0.7), mass=1.0)
        return readings


def asked(runs):
    """Every comparison of the first run: (context, first, second) to the probability, NaN where it was not read."""
    return {
        (one.context.id, one.outputs[first].id, one.outputs[second].id): probability
        for one in runs[0].result.comparisons
        for (first, second), probability in zip(
            one.pairs.tolist(), one.probabilities.tolist(), strict=True
        )
    }


def choice(p):
    return "tie" if abs(p - 0.5) < 1e-12 else "first" if p > 0.5 else "second"


@pytest.fixture(scope="module")
def found():
    def unparsed(first, second):
        return (round(quality_of(first) * 2) * 5 + round(quality_of(second) * 2)) % 9 == 0

    judge = Faulty(noise=1.5, first=0.7, unparsed=unparsed)
    names = ["win-ratio", "pairs-greedy", "mean-probability"]
    runs = run_methods(names, MADE, [DIMENSION], lambda: judge, MethodSettings())
    cards = {
        card.method: card
        for card in report_cards(runs, MADE, [DIMENSION])
        if card.dimension == "all"
    }
    return runs, cards


def test_counts_of_judgments(found):
    runs, cards = found
    given = asked(runs)
    card = cards["win-ratio"]
    assert card.judgments == len(given) == 8 * 6 * 5
    assert card.unparsed == sum(math.isnan(p) for p in given.values()) > 0
    assert card.low_mass > 0
    read = [p for p in given.values() if not math.isnan(p)]
    assert card.tied.of == len(read)
    assert card.tied.value == pytest.approx(sum(choice(p) == "tie" for p in read) / len(read))
    assert card.tied.value > 0


def test_first_and_flips(found):
    runs, cards = found
    given = asked(runs)
    points = {"first": 1.0, "tie": 0.5, "second": 0.0}
    read = [points[choice(p)] for p in given.values() if not math.isnan(p)]
    assert cards["win-ratio"].first.value == pytest.approx(sum(read) / len(read))
    flips = pairs = 0
    for (context, one, other), p in given.items():
        back = given[context, other, one]
        if one < other and not math.isnan(p) and not math.isnan(back):
            pairs += 1
            flips += {"first": "second", "second": "first", "tie": "tie"}[choice(back)] != choice(p)
    share = cards["win-ratio"].inconsistency
    assert (share.value, share.of) == (pytest.approx(flips / pairs), pairs)


def test_triples_that_no_ranking_agrees_with(found):
    runs, cards = found
    given = asked(runs)
    outputs = defaultdict(list)
    for output in MADE.outputs:
        outputs[output.context_id].append(output.id)

    def better(context, one, other):
        """1, 0 or -1 from the mean of the orders that could be read; None where neither could."""
        there, back = given[context, one, other], given[context, other, one]
        values = [p for p in (there, 1 - back) if not math.isnan(p)]
        if not values:
            return None
        mean = sum(values) / len(values)
        return 0 if abs(mean - 0.5) < 1e-9 else 1 if mean > 0.5 else -1

    wrong = triples = 0
    for context, own in outputs.items():
        for three in itertools.combinations(own, 3):
            signs = {pair: better(context, *pair) for pair in itertools.combinations(three, 2)}
            if None in signs.values():
                continue
            triples += 1
            # is there any placing of the three, ties allowed, that gives all three signs?
            wrong += not any(
                all(
                    np.sign(places[three.index(one)] - places[three.index(other)]) == sign
                    for (one, other), sign in signs.items()
                )
                for places in itertools.product(range(3), repeat=3)
            )
    share = cards["win-ratio"].intransitive
    assert (share.value, share.of) == (pytest.approx(wrong / triples), triples)
    assert wrong > 0


def test_conflict_and_accuracy(found):
    runs, cards = found
    given = asked(runs)
    scores = {name: run.result.method.scores for name, run in zip(cards, runs, strict=True)}
    for name in ("pairs-greedy", "mean-probability"):
        against = compared = 0
        for (_, one, other), p in given.items():
            first, second = (scores[name][output, "worth"] for output in (one, other))
            if math.isnan(p) or first is None or second is None:
                continue
            compared += 1
            against += choice(p) != (
                "tie" if first == second else "first" if first > second else "second"
            )
        share = cards[name].conflict
        assert (share.value, share.of) == (pytest.approx(against / compared), compared)
    assert cards["win-ratio"].conflict is None
    people = {rating.output_id: rating.value for rating in MADE.ratings}
    right = counted = 0
    for (_, one, other), p in given.items():
        if not math.isnan(p) and people[one] != people[other]:
            counted += 1
            wanted = "first" if people[one] > people[other] else "second"
            right += 0.5 if choice(p) == "tie" else choice(p) == wanted
    share = cards["win-ratio"].accuracy
    assert (share.value, share.of) == (pytest.approx(right / counted), counted)


def test_longer(found):
    runs, cards = found
    scores = runs[2].result.method.scores
    longer = counted = 0
    for one, other in itertools.combinations(MADE.outputs, 2):
        first, second = scores[one.id, "worth"], scores[other.id, "worth"]
        if (
            one.context_id != other.context_id
            or len(one.text) == len(other.text)
            or None in (first, second)
        ):
            continue
        if first != second:
            counted += 1
            longer += (len(one.text) > len(other.text)) == (first > second)
    share = cards["mean-probability"].longer
    assert (share.value, share.of) == (pytest.approx(longer / counted), counted)


def test_an_interval_is_that_of_contexts_drawn_anew_made_wider_for_few_contexts(found):
    runs, cards = found
    by_context = defaultdict(list)
    for (context, _, _), p in asked(runs).items():
        if not math.isnan(p):
            by_context[context].append({"first": 1.0, "tie": 0.5, "second": 0.0}[choice(p)])
    own, random = list(by_context.values()), np.random.default_rng(5)
    drawn = []
    for _ in range(20_000):
        chosen = [own[place] for place in random.integers(len(own), size=len(own))]
        drawn.append(sum(map(sum, chosen)) / sum(map(len, chosen)))
    share = cards["win-ratio"].first
    low, high = np.quantile(drawn, [0.025, 0.975])
    # Of eight contexts, quantiles of resamples are too narrow: by 2.36 / 1.96 for t with 7 degrees of freedom, by
    # sqrt(8 / 7) for the variance, and by the rounding of a share of about 60 effective trials.
    assert 1.2 * (high - low) < share.high - share.low < 1.45 * (high - low)
    assert (share.low + share.high) / 2 == pytest.approx((low + high) / 2, abs=0.01)


def test_a_share_at_the_edge_has_an_interval():
    # the 8 contexts of equal trials are certain: the interval is that of 8 trials that all were won
    expected = stats.binomtest(8, 8).proportion_ci(method="wilsoncc")
    share = share_of([(f"c{number % 8}", (3.0, 3)) for number in range(16)])
    assert (share.value, share.of) == (1.0, 48)
    assert (share.low, share.high) == pytest.approx((expected.low, 1.0))
    share = share_of([("c0", (0.0, 3)), ("c0", (0.0, 3)), ("c1", (0.0, 0))])
    assert (share.value, share.low, share.high, share.of) == (0.0, None, None, 6)
    assert share_of([]) is None
    assert share_of([("c0", (0.0, 0))]) is None


def test_self_consistency_over_all_subsets():
    """Of two, every subset is weighed here: with enough draws the mean is near theirs (2307.07889, table 8)."""
    made = benchmark_of([[0.0, 1.0, 2.0, 3.0]])
    (run,) = run_methods(
        ["win-ratio"], made, [DIMENSION], lambda: Simulated(noise=3.0), MethodSettings()
    )
    given = asked([run])
    wins = defaultdict(float)
    for (_, one, other), p in given.items():
        wins[one] += p > 0.5
        wins[other] += p < 0.5

    def agreed(difference, wanted):
        return 0.5 if difference == 0 else float((difference > 0) == (wanted > 0))

    final = gold = compared = rated = 0.0
    ratings = {rating.output_id: rating.value for rating in made.ratings}
    for one, other in itertools.combinations(ratings, 2):
        difference = (given["c0", one, other] > 0.5) - (given["c0", one, other] < 0.5)
        difference -= (given["c0", other, one] > 0.5) - (given["c0", other, one] < 0.5)
        rated += 1
        gold += agreed(difference, ratings[one] - ratings[other])
        if wins[one] != wins[other]:
            compared += 1
            final += agreed(difference, wins[one] - wins[other])
    row = consistency_rows(run.result.comparisons, human_means(made.ratings), "worth", draws=600)[0]
    assert row.size == 2
    assert (row.final, row.gold) == pytest.approx((final / compared, gold / rated), abs=0.03)


def test_judgments_by_hand():
    def judgment(outcomes, logprobs, mass=1.0):
        return Judgment(
            context_id="c", dimension="d", subject="s", against=None, outcomes=outcomes, logprobs=logprobs, mass=mass,
            key="k", recipe="r", note=None if logprobs else "no answer",
        )  # fmt: skip

    judgments = [
        judgment(("win", "loss", "tie"), (-3.0, -2.0, -0.1)),  # a tie is the most probable
        judgment(("win", "loss", "tie"), (-0.1, -2.0, -3.0), mass=0.49),
        judgment(("1", "2", "3"), (-0.7, -0.7, -5.0)),  # two grades are equally probable
        judgment(("1", "2", "3"), None, mass=None),
        judgment(("text",), (-44.0,), mass=None),  # the likelihood of a text is no choice
        judgment(
            ("win", "loss"), (-0.5, -1.5), mass=0.5
        ),  # half of the probability is not less than half
        judgment(("win", "loss"), (-0.7, -0.7 - 1e-10)),  # equal but for rounding
    ]
    counts = {part.name: share for part, share in of_judgments(judgments).items()}
    assert counts == {"unparsed": (1, 7), "low_mass": (1, 6), "tied": (3, 5)}
