"""Ratings: a judge rates a text by itself from 1 to 5, or after the rungs of a ladder as graded examples.

The score is the expected rating. The judge's own ratings of rungs place it on the ladder, as the grade.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends.protocol import STATED_TOKENS
from refladder.errors import UsageError, option
from refladder.prompts import fill
from refladder.records import (
    IMPOSSIBLE,
    OUTCOMES,
    RATINGS,
    LabelReading,
    RungRating,
    by_name,
    names_of,
)
from refladder.scoring.grades import expected_grade
from refladder.scoring.modes.mode import Mode, Scope
from refladder.scoring.modes.rating_answer import stated_ratings, stated_ratings_of
from refladder.scoring.question import (
    drawn_ladders,
    first_revision,
    level_of,
    question_about,
    rung_id,
)
from refladder.scoring.rules import DEFAULT_RULE, SPREAD_LEGEND, probabilities_from
from refladder.scoring.rung_scale import RungScale
from refladder.scoring.verdicts import judgment_of
from refladder.statistics.estimators import SAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import (
        Context,
        Dimension,
        Judgment,
        Ladder,
        Output,
        Prompt,
        Run,
        Sampling,
    )
    from refladder.scoring.modes.mode import Group, Readings
    from refladder.scoring.question import Question
    from refladder.scoring.rules import Rule
    from refladder.settings import Scale, Scoring

ENDS = LOW, HIGH = 1.0, 5.0
# Tokens of a criterion's name and five percentages; tokenizers that split digits and line ends need most.
_TOKENS_OF_A_RATING = 40
_RATINGS = np.arange(LOW, HIGH + 1)


class Rating(Mode):
    """A rating of a text alone, read from the probabilities of the five digits."""

    name = "rating"
    outcomes = RATINGS
    compares_rungs = False
    has_anchor_spread = False
    needs_ladders = False
    rates_rungs = True
    roles: tuple[str, ...] = ("rating",)
    _grade_legend = "share of the rungs that the judge rates lower, ties half"

    def check_settings(self, asked: Scoring) -> None:
        """Refuse what is about comparisons."""
        self.check_rule(asked.rule)
        super().check_settings(asked)

    def check_rule(self, rule: str, where: str = "") -> None:
        """Refuse a rule: a rating has none."""
        if rule != DEFAULT_RULE:
            raise UsageError(
                f"{where}{option('answers')} {self.name} scores by the expected rating, and {option('rule')} {rule} is "
                f"for comparisons with rungs; leave it out"
            )

    def sampling(self, judge: Backend, drawn: Sampling | None) -> Sampling | None:
        """Return the sampling of written answers; refuse a judge that gives no probabilities where they are read."""
        if not (self.writes or judge.reads_probabilities):
            raise UsageError(
                f"{judge.fingerprint} gives no label probabilities, which {option('answers')} {self.name} reads; use "
                f"{option('answers')} {self.name}:stated, for which the judge writes them"
            )
        return super().sampling(judge, drawn)

    # Questions.

    def groups(self, output: Output, context: Context, scope: Scope) -> list[Group]:
        """Ask for a rating on each dimension."""
        groups: list[Group] = []
        for dimension in scope.dimensions:
            groups.append([self.question(output.id, output.text, context, dimension, scope)])
        return groups

    def question(
        self, subject: str, text: str, context: Context, dimension: Dimension, scope: Scope
    ) -> Question:
        """Ask for the rating of a text on one of the dimensions that are scored."""
        texts = {"target": text}
        return question_about(context, dimension, subject=subject, against="", texts=texts)

    def rung_groups(self, scope: Scope) -> list[Group]:
        """Ask for a rating of each rung of the anchors that score, or of the ladders that the judge check draws."""
        ladders = scope.ladders
        groups: list[Group] = []
        for dimension in scope.dimensions:
            drawn = []
            if not ladders.anchors:
                drawn = drawn_ladders(first_revision(ladders), dimension)
            for anchor in ladders.scoring_anchors:
                drawn.append((ladders.contexts[anchor], ladders.ladders[anchor, dimension.name]))
            for context, ladder in drawn:
                groups += self._rungs(scope, context, ladder, dimension)
        return groups

    def _rungs(
        self, scope: Scope, context: Context, ladder: Ladder, dimension: Dimension
    ) -> list[Group]:
        """Ask for the rating of each rung of a ladder."""
        groups: list[Group] = []
        for rung in ladder.rungs:
            subject = rung_id(rung.level, context.id if scope.ladders.anchors else "")
            groups.append([self.question(subject, rung.text, context, dimension, scope)])
        return groups

    def beginning(self, group: Group) -> tuple[str, ...]:
        """Return context and text, which come before the criterion; graded examples belong to a criterion."""
        question = group[0]
        if examples := question.texts.get("examples", ""):
            return question.dimension.name, examples, question.context.id
        return question.context.id, question.texts["target"], question.dimension.name

    # Scores.

    def judgments_of_a_text(self, run: Run) -> Sequence[tuple[str, str | None]]:
        """Return the rating."""
        return [("", None)]

    def rung_scales(self, run: Run, readings: Sequence[RungRating]) -> dict[str, RungScale]:
        """Return the scale of each dimension, which the readings of its rungs make."""
        scales = {}
        for name in names_of(run.dimensions) if run.rungs else ():
            of_dimension = [each for each in readings if each.dimension == name]
            scales[name] = RungScale(of_dimension, ENDS)
        return scales

    def numbers(self, readings: Readings) -> list[dict[str, FloatArray]]:
        """Compute the expected rating, its place among the rungs, and the standard deviation of the place."""
        run = readings.run
        none = (np.nan,) * len(RATINGS)
        logprobs = [judgment.logprobs_of(RATINGS) or none for judgment in readings.judgments]
        read_ones = np.array(logprobs).reshape(-1, len(RATINGS))
        probabilities = readings.placed(probabilities_from(read_ones))
        of_dimensions = []
        for number, dimension in enumerate(run.dimensions):
            read = probabilities[:, number]
            value = (read * _RATINGS).sum(axis=1)
            scale = self._scale(run, dimension, readings.scales)
            human = (dimension.low, dimension.high)
            places = scale.grades(_RATINGS, human)
            mean = (read * places).sum(axis=1)
            variance = (read * (places - mean[:, None]) ** 2).sum(axis=1)
            of_dimensions.append(
                {"value": value, "grade": scale.grades(value, human), "spread": np.sqrt(variance)}
            )
        return of_dimensions

    def _scale(self, run: Run, dimension: Dimension, scales: Mapping[str, RungScale]) -> RungScale:
        """Return what places ratings on a dimension."""
        return scales.get(dimension.name) or RungScale((), ENDS)

    def bounds(self, rule: Rule, rungs: int, scale: tuple[float, float]) -> tuple[float, float]:
        """Return the ends of the rating scale."""
        return ENDS

    def signature(self, run: Run, scale: Scale) -> str:
        """Return the mode, how a rating gets its place, and the least label mass."""
        place = "place:beaten|" if run.rungs else ""
        return f"answers:{run.answers}|{place}least-mass:{scale.least_mass:g}"

    def legend(self, run: Run, scale: Scale) -> str:
        """Return what score, grade and spread are."""
        score = f"score: expected rating, from {LOW:g} to {HIGH:g}"
        if not run.rungs:
            return score
        return f"{score}\ngrade: {self._grade_legend}, on the human scale\n{SPREAD_LEGEND}"

    # Rungs.

    def check_groups(
        self, scope: Scope, context: Context, dimension: Dimension, ladder: Ladder
    ) -> list[Group]:
        """Ask for a rating of the best rung, and of the worst."""
        rungs = self._rungs(scope, context, ladder, dimension)
        return [rungs[-1], rungs[0]]

    def check_answers(self, judgments: Sequence[Judgment], rungs: int) -> FloatArray:
        """Return which rung of each ladder is rated higher."""
        ratings = np.array([_expected(judgment) for judgment in judgments]).reshape(-1, 2)
        rises = ratings[:, :1] - ratings[:, 1:]
        rises[np.abs(rises) <= SAME] = 0
        return np.where(np.isnan(rises), np.nan, (np.sign(rises) + 1) / 2)

    def pair_groups(self, ladders: LadderSet, pairs: Sequence[Question]) -> list[Group]:
        """Rate every rung once."""
        scope = Scope(ladders, ladders.dimensions)
        dimensions = by_name(ladders.dimensions)
        groups = []
        for (context_id, name), ladder in ladders.ladders.items():
            groups += self._rungs(scope, ladders.contexts[context_id], ladder, dimensions[name])
        return groups

    def pairs(
        self, ladders: LadderSet, pairs: Sequence[Question], judgments: Sequence[Judgment]
    ) -> list[Judgment]:
        """Let the rung of a pair win that has the higher rating."""
        rated = {(each.context_id, each.dimension, each.subject): each for each in judgments}

        def rating_of(question: Question, rung: str) -> Judgment:
            ids = question.comparison
            return rated[rung.partition("@")[2] or ids.context_id, ids.dimension, rung]

        compared = []
        for pair in pairs:
            subject = rating_of(pair, pair.comparison.subject)
            against = rating_of(pair, pair.comparison.against)
            reading = _better(subject, against)
            compared.append(judgment_of(pair, subject.recipe, OUTCOMES, reading))
        return compared


class StatedRating(Rating):
    """A rating of a text alone: the judge writes a percentage for each of the five ratings."""

    name = "rating:stated"
    writes = True
    roles = ("rating-stated",)

    def read(
        self, group: Group, order: tuple[int, ...], text: str, *, ended: bool
    ) -> list[list[float] | str] | str:
        """Return the probabilities of the ratings, or the reason why there are none."""
        found = stated_ratings(text, ended=ended)
        return found if isinstance(found, str) else [found]

    def shares(self, said: Sequence[Sequence[float]]) -> Sequence[float]:
        """Return those of the one answer."""
        return said[0]


class Together(StatedRating):
    """A rating on all dimensions in one answer."""

    name = "rating:together"
    roles = ("rating-together",)

    def groups(self, output: Output, context: Context, scope: Scope) -> list[Group]:
        """Ask for the ratings on all dimensions together."""
        apart = super().groups(output, context, scope)
        return [list(itertools.chain(*apart))] if apart else []

    def question(
        self, subject: str, text: str, context: Context, dimension: Dimension, scope: Scope
    ) -> Question:
        """Ask for the rating of a text; the prompt names all criteria."""
        criteria = "\n".join(f"{each.name}: {each.description}" for each in scope.dimensions)
        texts = {"criteria": criteria, "target": text}
        return question_about(context, dimension, subject=subject, against="", texts=texts)

    def prompt(self, template: Template, group: Group, order: tuple[int, ...]) -> Prompt:
        """Return the prompt about a text, without the criterion of the first question."""
        slots = group[0].slots
        del slots["dimension"], slots["description"]
        return fill(template, slots)

    def prompts_of_a_row(self, template: Template, run: Run) -> int:
        """Return one prompt."""
        return 1

    def answer_tokens(self, group: Group) -> int:
        """Return enough for all criteria."""
        criteria = 1 + group[0].texts["criteria"].count("\n")
        return max(STATED_TOKENS, _TOKENS_OF_A_RATING * criteria)

    def read(
        self, group: Group, order: tuple[int, ...], text: str, *, ended: bool
    ) -> list[list[float] | str] | str:
        """Return the probabilities on each dimension, or the reason why there are none."""
        names = [question.dimension.name for question in group]
        found = stated_ratings_of(text, names, ended=ended)
        return [found[name] for name in names]


class Anchored(Rating):
    """A rating of a text after the rungs of a ladder as graded examples: its own ladder, or the first anchor's."""

    name = "anchored"
    roles = ("anchored",)
    needs_ladders = True
    rates_rungs = False
    _grade_legend = "the rating as a place on the ladder"

    def signature(self, run: Run, scale: Scale) -> str:
        """Return the mode, the anchor whose ladder the prompt shows, and the least label mass."""
        example = run.anchors[0] if run.anchors else "own"
        return f"answers:{run.answers}|example:{example}|least-mass:{scale.least_mass:g}"

    def of_rungs(self, ladders: LadderSet) -> Mode:
        """Return the mode without examples where no other anchor has a ladder: a rung is no example of itself."""
        if len(ladders.anchors) > 1:
            return self
        return StatedRating() if self.writes else Rating()

    def rung_groups(self, scope: Scope) -> list[Group]:
        """Ask about no rung: the examples name the levels."""
        return []

    def rung_scales(self, run: Run, readings: Sequence[RungRating]) -> dict[str, RungScale]:
        """Return none: a rating is a level."""
        return {}

    def question(
        self, subject: str, text: str, context: Context, dimension: Dimension, scope: Scope
    ) -> Question:
        """Ask for the rating of a text after graded examples; the examples for a rung are the rungs of the next anchor."""
        ladders = scope.ladders
        example_id, shown = context.id, {"reference_context": "", "reference_background": ""}
        if ladders.anchors:
            anchor = subject.partition("@")[2] if level_of(subject) else ""
            example_id = ladders.scoring_anchors[0]
            if anchor:
                anchors = ladders.anchors
                example_id = anchors[(anchors.index(anchor) + 1) % len(anchors)]
            example = ladders.contexts[example_id]
            shown = {
                "reference_context": example.text,
                "reference_background": example.background,
            }
        rungs = ladders.ladders[example_id, dimension.name].rungs
        examples = "\n\n".join(
            f"Rating {_rating_of(rung.level, len(rungs)):.3g}:\n{rung.text}" for rung in rungs
        )
        texts = {**shown, "examples": examples, "target": text}
        return question_about(context, dimension, subject=subject, against="", texts=texts)

    def _scale(self, run: Run, dimension: Dimension, scales: Mapping[str, RungScale]) -> RungScale:
        """Return the scale on which the rungs have the ratings of the examples."""
        readings = []
        for level in range(1, run.rungs + 1):
            rating = _rating_of(level, run.rungs)
            readings.append(
                RungRating(dimension=dimension.name, anchor="", level=level, rating=rating)
            )
        return RungScale(readings, ENDS)


class StatedAnchored(Anchored, StatedRating):
    """A rating after graded examples: the judge writes a percentage for each of the five ratings."""

    name = "anchored:stated"
    roles = ("anchored-stated",)


def _rating_of(level: int, rungs: int) -> float:
    """Return the rating of a level: the lowest has 1, the highest 5."""
    return LOW + (HIGH - LOW) * (level - 1) / (rungs - 1) if rungs > 1 else (LOW + HIGH) / 2


def _expected(judgment: Judgment) -> float:
    rating = expected_grade(judgment)
    return np.nan if rating is None else rating


def _better(subject: Judgment, against: Judgment) -> LabelReading:
    """Return the certain outcome of two ratings."""
    masses = []
    for rated in (subject, against):
        if rated.logprobs is None:
            return LabelReading(reason=rated.note, cut=rated.cut)
        if rated.mass is not None:
            masses.append(rated.mass)
    rise = _expected(subject) - _expected(against)
    outcome = 2 if abs(rise) <= SAME else int(rise < 0)
    logprobs = [IMPOSSIBLE] * len(OUTCOMES)
    logprobs[outcome] = 0.0
    return LabelReading(
        logprobs=tuple(logprobs), mass=min(masses, default=None), cut=subject.cut or against.cut
    )
