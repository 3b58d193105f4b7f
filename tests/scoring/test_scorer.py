"""A scorer gives one record for each output and dimension."""

from __future__ import annotations

import pytest
from doubles import Double

from refladder.files.ladder_sets import load_ladders
from refladder.records import LabelReading, Output, Score
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import LadderScorer
from refladder.settings import Scale

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
    coherence = LADDERS.dimensions[:1]
    scorer = LadderScorer(Judge(), LADDERS, coherence, Scale(rule="mean-difference", weights={}))
    outputs = [output(1, "A day."), output(2, "A silence."), output(3, "A day.", "story-99"), None]
    with JudgmentLog(None, scorer.run) as log:
        rows = scorer.score(outputs, [None, None, None, "the output is empty"], log)
    (first,), (unparsed,), (without_ladder,), (empty,) = rows
    # p = (6, 1, 2) / 9 for win, loss, tie. Value: 5/9. Grade on 1 to 5: 1 + 4 * (6 + 2/2)/9 = 37/9.
    assert (first.output_id, first.dimension, first.reason) == ("o1", "coherence", None)
    assert (first.value, first.grade, first.mass) == pytest.approx((5 / 9, 37 / 9, 0.9))
    missing = {"dimension": "coherence", "value": None, "grade": None, "spread": None, "mass": None}
    reasons = ("5 of 5 judgments unparsed: no answer", "no coherence ladder for context 'story-99' in demo/story")
    for score, output_id, reason in ((unparsed, "o2", reasons[0]), (without_ladder, "o3", reasons[1])):
        assert score == Score(output_id=output_id, reason=reason, signature=scorer.report.signature, **missing)
    assert (empty.output_id, empty.value, empty.reason) == (None, None, "the output is empty")
    assert (scorer.report.rows, scorer.report.unscored, scorer.report.unreadable) == (4, {"coherence": 3}, 5)
    assert scorer.report.reasons["the output is empty"] == 1
