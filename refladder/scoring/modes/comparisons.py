"""Comparisons: a judge says of each rung whether a text is better, worse or similar.

The labels' probabilities are read (arXiv 2307.07889, equation 3), or answers are sampled (equation 5).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends.sampled import ANSWER_TOKENS
from refladder.records import REWARD, Sampling
from refladder.scoring.modes.mode import Mode
from refladder.scoring.question import comparison_of, ladder_questions, rung_id, rung_side
from refladder.scoring.rules import (
    SPREAD_LEGEND,
    bounds_of,
    expected_grades,
    grade_spreads,
    of_anchors,
    rule_named,
)
from refladder.scoring.verdicts import inconsistency, outcome_probabilities, verdicts
from refladder.statistics.certificate import EVEN
from refladder.statistics.estimators import SAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.arrays import FloatArray
    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import Context, Dimension, Judgment, Ladder, Output, Run
    from refladder.scoring.modes.mode import Group, Readings, Scope
    from refladder.scoring.rules import Rule
    from refladder.scoring.score_report import ScoreReport
    from refladder.settings import Scale, Scoring

# A text that beats the top rung, or loses to the lowest, with more than this is beyond the ladder.
HALF = 0.5


def calls_of(template: Template, answers: int) -> int:
    """Return the most calls for a question: one for each claim of a yes/no template or each text, times the sampled answers."""
    return (len(template.claims) or 1 + (template.role == REWARD)) * max(answers, 1)


class Compared(Mode):
    """A text is compared with each rung, and a rule makes a score of the verdicts."""

    def groups(self, output: Output, context: Context, scope: Scope) -> list[Group]:
        """Compare a text with the rungs of its ladder, or of each anchor's."""
        ladders = scope.ladders
        groups: list[Group] = []
        asked = itertools.product(scope.dimensions, ladders.scoring_anchors or (context.id,))
        for dimension, anchor in asked:
            ladder = ladders.ladders[anchor, dimension.name]
            shown = ladders.contexts[anchor] if ladders.anchors else None
            questions = ladder_questions(
                output, context, dimension, ladder, orders=scope.orders, anchor=shown
            )
            groups.append(list(questions))
        return groups

    def judgments_of_a_text(self, run: Run) -> Sequence[tuple[str, str | None]]:
        """Return a comparison with each rung of each anchor, in each order."""
        pairs = []
        for anchor in run.anchors or ("",):
            for level in range(1, run.rungs + 1):
                rung = rung_id(level, anchor)
                pairs += [("", rung), (rung, "")][: run.orders]
        return pairs

    def count(self, run: Run, judgments: Sequence[Judgment], report: ScoreReport) -> None:
        """Count orders that disagree, and texts beyond the ladder."""
        if run.orders > 1 and judgments:
            disagreements, pairs = inconsistency(judgments)
            report.disagreements += disagreements
            report.order_pairs += pairs
        ends = (
            # p(win) against the top rung.
            (run.rungs, 0, report.judged_top, report.above_top),
            # p(loss) against the lowest.
            (1, 1, report.judged_bottom, report.below_bottom),
        )
        for level, outcome, judged, beyond in ends:
            rungs = {rung_id(level, anchor) for anchor in run.anchors or ("",)}
            of_level = [
                each for each in judgments if each.subject in rungs or each.against in rungs
            ]
            of_texts = verdicts(of_level, len(rungs), run.orders)[:, :, outcome].mean(axis=1)
            firsts = of_level[:: run.orders * len(rungs)]
            for judgment, probability in zip(firsts, of_texts.tolist(), strict=True):
                if not math.isnan(probability):
                    name = judgment.dimension
                    judged[name] = judged.get(name, 0) + 1
                    beyond[name] = beyond.get(name, 0) + (probability > HALF + SAME)

    def numbers(self, readings: Readings) -> list[dict[str, FloatArray]]:
        """Apply the rule to the verdicts against all rungs."""
        run = readings.run
        anchors = max(len(run.anchors), 1)
        probabilities = readings.placed(verdicts(readings.judgments, run.compared, run.orders))
        of_dimensions = []
        for number, dimension in enumerate(run.dimensions):
            human = (dimension.low, dimension.high)
            read = probabilities[:, number]
            values = of_anchors(readings.rule, read, anchors, human)
            value = values.mean(axis=1)
            unscored = np.isnan(value)
            between = np.full(len(values), np.nan)
            if anchors > 1:
                between = np.std(values, axis=1, ddof=1)
            of_dimensions.append(
                {
                    "value": value,
                    "grade": np.where(unscored, np.nan, expected_grades(read, human)),
                    "spread": np.where(unscored, np.nan, grade_spreads(read, human)),
                    "anchor_spread": between,
                }
            )
        return of_dimensions

    def bounds(self, rule: Rule, rungs: int, scale: tuple[float, float]) -> tuple[float, float]:
        """Return the value of losing to every rung, and of beating every rung."""
        return bounds_of(rule, rungs, scale)

    def signature(self, run: Run, scale: Scale) -> str:
        """Return mode, orders, rule and least label mass."""
        answers = f"answers:{run.answers}|" if run.answers != "0" else ""
        rule = f"rule:{scale.rule}|least-mass:{scale.least_mass:g}"
        return f"{answers}orders:{run.orders}|{rule}"

    def legend(self, run: Run, scale: Scale) -> str:
        """Return the range of the score, and what grade and spread are."""
        human = run.dimensions[0].low, run.dimensions[0].high
        low, high = self.bounds(rule_named(scale.rule), run.rungs, human)
        return (
            f"score: {scale.rule}, from {low:g} (worse than all {run.compared} rungs) to {high:g} (better than all)\n"
            f"grade: position on the human scale\n{SPREAD_LEGEND}"
        )


class Comparisons(Compared):
    """A question about every rung; `sampled` answers to each, or 0 to read the probabilities of its labels."""

    roles: tuple[str, ...] = ("compare", "compare-shared", "compare-yesno", REWARD)

    def __init__(self, sampled: int = 0) -> None:
        self.sampled = sampled
        self.name = str(sampled)

    def check_settings(self, asked: Scoring) -> None:
        """Accept all settings."""

    def role(self, ladders: LadderSet, *, yes_no: bool = False) -> str:
        """Return the role of a comparison."""
        return "compare-yesno" if yes_no else ladders.role

    def sampling(self, judge: Backend, drawn: Sampling | None) -> Sampling | None:
        """Return the sampling of short answers, None where labels are read."""
        return replace(drawn or Sampling(), max_tokens=ANSWER_TOKENS) if self.sampled else None

    def prompts(self, template: Template, groups: Sequence[Group]) -> int:
        """Return the number of calls for these questions."""
        return sum(map(len, groups)) * calls_of(template, self.sampled)

    def prompts_of_a_row(self, template: Template, run: Run) -> int:
        """Return the number of prompts for the rungs of all ladders of a text."""
        questions = len(run.dimensions) * run.compared * run.orders
        return questions * calls_of(template, self.sampled)

    def check_groups(
        self, scope: Scope, context: Context, dimension: Dimension, ladder: Ladder
    ) -> list[Group]:
        """Compare the best rung with the worst in both orders."""
        shown = context if scope.ladders.anchors else None
        worst, best = rung_side(ladder.rungs[0], shown), rung_side(ladder.rungs[-1], shown)
        better = comparison_of(context, dimension, best, worst)
        return [[better, comparison_of(context, dimension, worst, best)]]

    def check_answers(self, judgments: Sequence[Judgment], rungs: int) -> FloatArray:
        """Return which rung each order prefers."""
        preferred = preferences(judgments, 1)
        return np.where(np.isnan(preferred), np.nan, (np.sign(preferred) + 1) / 2)


def preferences(judgments: Sequence[Judgment], each: int) -> FloatArray:
    """Return p(win) - p(loss) of the best rung, and the negative of the worst's: shape (ladders, 2).

    Each is the mean of `each` judgments, and 0 where it is as good as 0; NaN if unparsed.
    """
    means = outcome_probabilities(judgments).reshape(-1, 2, each, 3).mean(axis=2)
    preferred: FloatArray = (means[:, :, 0] - means[:, :, 1]) * (1, -1)
    preferred[np.abs(preferred) <= EVEN] = 0
    return preferred
