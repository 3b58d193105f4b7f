"""A scorer gives one record for each output and dimension."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from doubles import Double, items_of

from refladder.files.ladder_sets import load_ladders
from refladder.records import Judgment, LabelReading, Output, Run, Score
from refladder.scoring.columns import has_low_mass
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.question import rung_id
from refladder.scoring.scorer import LadderScorer, Verdicts
from refladder.settings import Scale, Scoring

LADDERS = load_ladders("demo/story")


class Judge(Double):
    """Better with 0.6, worse with 0.1, similar with 0.2; no answer about a text with the word silence."""

    fingerprint = "fixed"

    def read_labels(self, prompts, labels):
        logprob = {"better": -0.5108256238, "worse": -2.302585093, "similar": -1.6094379124}
        answer = LabelReading(logprobs=tuple(logprob[label.lower()] for label in labels), mass=0.9)
        silent = LabelReading(logprobs=None, mass=None, note="no answer")
        return [silent if "silence" in prompt.text else answer for prompt in prompts]


def output(number, text, context_id="story-01"):
    return Output(id=f"o{number}", context_id=context_id, system="", text=text)


def test_records_of_outputs_with_and_without_a_score():
    asked = Scoring(dimensions=["coherence"], rule="mean-difference")
    scorer = LadderScorer(Judge(), LADDERS, asked)
    outputs = [output(1, "A day."), output(2, "A silence."), output(3, "A day.", "story-99"), None]
    with JudgmentLog(None, scorer.run) as log:
        rows = scorer.score(items_of(outputs, [None, None, None, "the output is empty"]), log)
    (first,), (unparsed,), (without_ladder,), (empty,) = rows
    # p = (6, 1, 2) / 9 for win, loss, tie. Value: 5/9. Grade on 1 to 5: 1 + 4 * (6 + 2/2)/9 = 37/9.
    assert (first.output_id, first.dimension, first.reason) == ("o1", "coherence", None)
    assert (first.value, first.grade, first.mass) == pytest.approx((5 / 9, 37 / 9, 0.9))
    reasons = {
        "o2": "5 of 5 judgments unparsed: no answer",
        "o3": "no coherence ladder for context 'story-99' in demo/story",
    }
    missing = {"dimension": "coherence", "value": None, "grade": None, "spread": None, "mass": None}
    missing["signature"] = scorer.report.signature
    for score, (name, reason) in zip((unparsed, without_ladder), reasons.items(), strict=True):
        assert score == Score(output_id=name, reason=reason, **missing)
    assert (empty.output_id, empty.value, empty.reason) == (None, None, "the output is empty")
    report = scorer.report
    assert (report.rows, report.scored, report.unparsed) == (4, 1, 5)
    assert report.unscored == {"coherence": 3}
    assert report.reasons["the output is empty"] == 1


def judged(rungs, orders):
    """A text's judgments against the rungs from 1 on: of each order (win, loss, tie) of the text, None if unparsed."""
    for level, by_order in rungs.items():
        for swapped, read in zip(range(orders), by_order, strict=True):
            pair = ("o1", rung_id(level))
            subject, against = pair[::-1] if swapped else pair
            win, loss, tie = read or (1, 1, 1)
            yield Judgment(
                context_id="story-01", dimension="coherence", subject=subject, against=against,
                outcomes=("loss", "win", "tie") if swapped else ("win", "loss", "tie"),
                logprobs=None if read is None else (math.log(win), math.log(loss), math.log(tie)),
                mass=1.0, key="k", recipe="r",
            )  # fmt: skip


def counted(*texts, orders=1):
    """`above_top`, `judged_top`, `below_bottom` and `judged_bottom` of texts judged against ladders of three rungs."""
    asked = Scoring(dimensions=["coherence"], rule="hard-votes")
    recipe = LadderScorer(Judge(), LADDERS, asked).run.recipe
    run = Run(recipe=recipe, ladders="s", dimensions=LADDERS.dimensions[:1], rungs=3, orders=orders)
    verdicts = Verdicts(run, Scale(rule="hard-votes", weights={}))
    verdicts.count([judgment for rungs in texts for judgment in judged(rungs, orders)])
    report = verdicts.report
    counts = (report.above_top, report.judged_top, report.below_bottom, report.judged_bottom)
    return [count.get("coherence") for count in counts]


BETTER, WORSE, EVEN = [(0.6, 0.1, 0.3)], [(0.2, 0.7, 0.1)], [(0.45, 0.35, 0.2)]


@pytest.mark.parametrize(
    ("texts", "counts"),
    [
        ([{1: BETTER, 2: BETTER, 3: BETTER}], [1, 1, 0, 1]),
        ([{1: WORSE, 2: WORSE, 3: WORSE}], [0, 1, 1, 1]),
        # The win is most probable, and not above 1/2.
        ([{1: EVEN, 2: EVEN, 3: EVEN}], [0, 1, 0, 1]),
        ([{1: WORSE, 2: BETTER, 3: BETTER}, {1: BETTER, 2: WORSE, 3: WORSE}], [1, 2, 1, 2]),
        # Unparsed at the lowest rung.
        ([{1: [None], 2: BETTER, 3: BETTER}], [1, 1, None, None]),
        ([{2: BETTER}], [None, None, None, None]),
        ([], [None, None, None, None]),
    ],
)
def test_texts_beyond_the_ends_of_the_ladder_are_counted(texts, counts):
    assert counted(*texts) == counts


def test_texts_beyond_the_ends_of_the_ladder_with_both_orders():
    # the mean of the two orders: win .6 and .5 is .55; .6 and .3 is .45
    above, below = [(0.6, 0.2, 0.2), (0.5, 0.3, 0.2)], [(0.6, 0.2, 0.2), (0.3, 0.5, 0.2)]
    assert counted({3: above}, orders=2)[:2] == [1, 1]
    assert counted({3: below}, orders=2)[:2] == [0, 1]
    assert counted({3: [(0.9, 0.05, 0.05), None]}, orders=2)[:2] == [None, None]


@pytest.mark.parametrize(("mass", "low"), [(0.5, False), (0.49, True), (None, False)])
def test_less_than_half_of_the_probability_is_a_low_label_mass(mass, low):
    assert has_low_mass(SimpleNamespace(logprobs=(0.0,), mass=mass)) == low
