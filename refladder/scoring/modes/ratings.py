"""Ratings: a judge rates a text by itself from 1 to 5, or after the rungs of a ladder as graded examples.

The score is the expected rating. The judge's own ratings of rungs place it on the ladder, as the grade.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.backends.dry_run import NOT_ASKED
from refladder.backends.protocol import STATED_TOKENS
from refladder.errors import UsageError, option
from refladder.prompts import fill
from refladder.records import (
    IMPOSSIBLE,
    OUTCOMES,
    RATINGS,
    LabelReading,
    RungRating,
    Unwritten,
    by_name,
    log_of,
    names_of,
)
from refladder.scoring.asker import answering_of, judgment_of, run_of
from refladder.scoring.grades import expected_grade
from refladder.scoring.modes.mode import Mode
from refladder.scoring.modes.rating_answer import stated_ratings, stated_ratings_of
from refladder.scoring.modes.written import (
    ask_whole,
    long_note,
    parsed_answer,
    written_judgments,
)
from refladder.scoring.question import (
    drawn_ladders,
    first_revision,
    level_of,
    question_about,
    rung_id,
)
from refladder.scoring.rules import DEFAULT_RULE, SPREAD_LEGEND, probabilities_from
from refladder.scoring.rung_scale import RungScale
from refladder.statistics.estimators import SAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import (
        Completion,
        Context,
        Dimension,
        Judgment,
        Ladder,
        Output,
        Progress,
        Prompt,
        Run,
        Sampling,
    )
    from refladder.scoring.asker import Asker
    from refladder.scoring.modes.mode import Block, Group
    from refladder.scoring.question import Question
    from refladder.scoring.rules import Rule
    from refladder.scoring.score_report import ScoreReport
    from refladder.settings import Scale, Scoring

    # An answer, and the probabilities of the ratings for each question, or the reason why there are none.
    _Answered = tuple[Completion, list[list[float] | str]]

ENDS = LOW, HIGH = 1.0, 5.0
# Tokens of a criterion's name and five percentages; tokenizers that split digits and line ends need most.
_TOKENS_OF_A_RATING = 40
_RATINGS = np.arange(LOW, HIGH + 1)


class Scope(NamedTuple):
    """A ladder set, and the dimensions that texts are scored on."""

    ladders: LadderSet
    dimensions: Sequence[Dimension]


class Rating(Mode):
    """A rating of a text alone, read from the probabilities of the five digits."""

    has_anchor_spread = False
    needs_ladders = False
    rates_rungs = True
    roles = ("rating",)
    _grade_legend = "share of the rungs that the judge rates lower, ties half"

    def __init__(self, name: str) -> None:
        self.name = name

    def check_settings(self, asked: Scoring) -> None:
        """Refuse what is about comparisons."""
        mode = f"{option('answers')} {self.name}"
        self.check_rule(asked.rule)
        if asked.yes_no:
            raise UsageError(f"{mode} asks no yes/no questions; leave out {option('yes-no')}")
        if asked.both_orders:
            raise UsageError(
                f"{mode} shows one text to rate, so pairs have no orders; leave out {option('both-orders')}"
            )

    def check_rule(self, rule: str, where: str = "") -> None:
        """Refuse a rule: a rating has none."""
        if rule != DEFAULT_RULE:
            raise UsageError(
                f"{where}{option('answers')} {self.name} scores by the expected rating, and {option('rule')} {rule} is "
                f"for comparisons with rungs; leave it out"
            )

    def check_rungs(self, rungs: int) -> None:
        """Accept any number of rungs."""

    def role(self, ladders: LadderSet, *, yes_no: bool = False) -> str:
        """Return the role of a rating."""
        del ladders, yes_no
        return self.roles[0]

    def run(self, judge: Backend, template: Template, sampling: Sampling | None = None) -> Run:
        """Return a run that reads the probabilities of the digits."""
        del sampling
        if not judge.reads_probabilities:
            raise UsageError(
                f"{judge.fingerprint} gives no label probabilities, which {option('answers')} {self.name} reads; use "
                f"{option('answers')} {self.name}:stated, for which the judge writes them"
            )
        return run_of(judge, template, answers=self.name)

    # Questions.

    def groups(
        self,
        output: Output,
        context: Context,
        dimensions: Sequence[Dimension],
        ladders: LadderSet,
        *,
        orders: int,
    ) -> list[Group]:
        """Ask for a rating on each dimension."""
        del orders
        scope = Scope(ladders, dimensions)
        groups: list[Group] = []
        for dimension in dimensions:
            groups.append([self.question(output.id, output.text, context, dimension, scope)])
        return groups

    def question(
        self,
        subject: str,
        text: str,
        context: Context,
        dimension: Dimension,
        scope: Scope,
    ) -> Question:
        """Ask for the rating of a text on one of the dimensions that are scored."""
        del scope
        return question_about(
            context, dimension, subject=subject, against="", texts={"target": text}
        )

    def rung_groups(self, ladders: LadderSet, dimensions: Sequence[Dimension]) -> list[Group]:
        """Ask for a rating of each rung of the anchors that score, or of the ladders that the judge check draws."""
        scope = Scope(ladders, dimensions)
        groups: list[Group] = []
        for dimension in dimensions:
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
        return [
            [self._rung(scope, context, ladder, rung.level, dimension)] for rung in ladder.rungs
        ]

    def _rung(
        self, scope: Scope, context: Context, ladder: Ladder, level: int, dimension: Dimension
    ) -> Question:
        """Ask for the rating of a rung."""
        subject = rung_id(level, context.id if scope.ladders.anchors else "")
        text = ladder.rungs[level - 1].text
        return self.question(subject, text, context, dimension, scope)

    def ask(
        self, asker: Asker, groups: Sequence[Group], progress: Progress | None = None
    ) -> list[Judgment]:
        """Read the probabilities of the digits for every question."""
        return asker.ask(list(itertools.chain(*groups)), progress)

    def characters(self, asker: Asker, groups: Sequence[Group]) -> int:
        """Count the characters of the prompts of these groups."""
        return sum(len(self._prompt(asker.template, group).text) for group in groups)

    def _prompt(self, template: Template, group: Group) -> Prompt:
        return fill(template, group[0].slots)

    def prompts(self, template: Template, groups: int, questions: int) -> int:
        """Return a prompt for each group."""
        del template, questions
        return groups

    def prompts_of_a_row(self, template: Template, run: Run) -> int:
        """Return a prompt for each dimension."""
        del template
        return len(run.dimensions)

    # Scores.

    def judgments_of_a_text(self, run: Run) -> Sequence[tuple[str, str | None]]:
        """Return the rating."""
        del run
        return [("", None)]

    def count(self, run: Run, judgments: Sequence[Judgment], report: ScoreReport) -> None:
        """Add nothing."""

    def rung_scales(self, run: Run, readings: Sequence[RungRating]) -> dict[str, RungScale]:
        """Return the scale of each dimension, which the readings of its rungs make."""
        scales = {}
        for name in names_of(run.dimensions) if run.rungs else ():
            of_dimension = [each for each in readings if each.dimension == name]
            scales[name] = RungScale(of_dimension, ENDS)
        return scales

    def numbers(
        self,
        run: Run,
        rule: Rule,
        rows: int,
        judgments: Sequence[Judgment],
        blocks: Sequence[Block],
        *,
        scales: Mapping[str, RungScale],
    ) -> list[dict[str, FloatArray]]:
        """Compute the expected rating, its place among the rungs, and the standard deviation of the place."""
        del rule
        probabilities = np.full((rows, len(run.dimensions), len(RATINGS)), np.nan)
        if judgments:
            items, numbers = np.array(blocks).T
            none = (np.nan,) * len(RATINGS)
            logprobs = [judgment.logprobs_of(RATINGS) or none for judgment in judgments]
            probabilities[items, numbers] = probabilities_from(np.array(logprobs))
        of_dimensions = []
        for number, dimension in enumerate(run.dimensions):
            read = probabilities[:, number]
            value = (read * _RATINGS).sum(axis=1)
            scale = self._scale(run, dimension, scales)
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
        del run
        return scales.get(dimension.name) or RungScale((), ENDS)

    def bounds(self, rule: Rule, rungs: int, scale: tuple[float, float]) -> tuple[float, float]:
        """Return the ends of the rating scale."""
        del rule, rungs, scale
        return LOW, HIGH

    def signature(self, run: Run, scale: Scale) -> str:
        """Return the mode, how a rating gets its place, and the least label mass."""
        place = f"{self._place(run)}|" if run.rungs else ""
        return f"answers:{run.mode}|{place}least-mass:{scale.least_mass:g}"

    def _place(self, run: Run) -> str:
        del run
        return "place:beaten"

    def legend(self, run: Run, scale: Scale) -> str:
        """Return what score, grade and spread are."""
        del scale
        score = f"score: expected rating, from {LOW:g} to {HIGH:g}"
        if not run.rungs:
            return score
        return f"{score}\ngrade: {self._grade_legend}, on the human scale\n{SPREAD_LEGEND}"

    # Rungs.

    def check_questions(
        self,
        ladders: LadderSet,
        context: Context,
        dimension: Dimension,
        ladder: Ladder,
        dimensions: Sequence[Dimension],
    ) -> list[Group]:
        """Ask for a rating of the best rung, and of the worst."""
        rungs = self._rungs(Scope(ladders, dimensions), context, ladder, dimension)
        return [rungs[-1], rungs[0]]

    def check_answers(self, judgments: Sequence[Judgment], rungs: int) -> FloatArray:
        """Return which rung of each ladder is rated higher."""
        del rungs
        ratings = np.array([_expected(judgment) for judgment in judgments]).reshape(-1, 2)
        rises = ratings[:, :1] - ratings[:, 1:]
        rises[np.abs(rises) <= SAME] = 0
        return np.where(np.isnan(rises), np.nan, (np.sign(rises) + 1) / 2)

    def compare_rungs(
        self,
        ladders: LadderSet,
        asker: Asker,
        questions: Sequence[Question],
        progress: Progress | None = None,
    ) -> list[Judgment]:
        """Rate every rung once; of two rungs, the one with the higher rating wins."""
        scope = Scope(ladders, ladders.dimensions)
        dimensions = by_name(ladders.dimensions)
        groups = []
        for (context_id, name), ladder in ladders.ladders.items():
            groups += self._rungs(scope, ladders.contexts[context_id], ladder, dimensions[name])
        rated = {}
        for judgment in self.ask(asker, groups, progress):
            rated[judgment.context_id, judgment.dimension, judgment.subject] = judgment

        def rating_of(question: Question, rung: str) -> Judgment:
            anchor = rung.partition("@")[2]
            ids = question.comparison
            return rated[anchor or ids.context_id, ids.dimension, rung]

        recipe = asker.log.run.recipe.digest
        judgments = []
        for question in questions:
            subject = rating_of(question, question.comparison.subject)
            against = rating_of(question, question.comparison.against)
            reading = _better(subject, against)
            judgments.append(judgment_of(question, recipe, OUTCOMES, reading))
        return judgments


class StatedRating(Rating):
    """A rating of a text alone: the judge writes a percentage for each of the five ratings."""

    writes = True
    roles = ("rating-stated",)

    def first_prompt(self, template: Template, group: Group) -> Prompt:
        """Return the prompt about a text."""
        return self._prompt(template, group)

    def run(self, judge: Backend, template: Template, sampling: Sampling | None = None) -> Run:
        """Return a run in which the judge writes its most probable answer."""
        del sampling
        sampling = answering_of(judge, self.name) if judge.recorded is None else None
        return run_of(judge, template, answers=self.name, sampling=sampling)

    def ask(
        self, asker: Asker, groups: Sequence[Group], progress: Progress | None = None
    ) -> list[Judgment]:
        """Let the judge write about each group."""
        if asker.backend.recorded is not None:
            return super().ask(asker, groups, progress)
        return ask_whole(asker, groups, lambda asked: self._judge(asker, asked))

    def _judge(self, asker: Asker, groups: Sequence[Group]) -> list[list[Judgment]]:
        run = asker.log.run
        if run.recipe.sampling is None or not groups:
            return [[] for _ in groups]
        # Prompts that begin alike are next to each other.
        asked = sorted(groups, key=_beginning)
        prompts = [asker.marked(self._prompt(asker.template, group), group[0]) for group in asked]

        def read(position: int, answer: Completion) -> list[list[float] | str]:
            return self._read(asked[position], answer)

        def judgments(answers: Mapping[int, _Answered]) -> list[list[Judgment]]:
            """Return the judgments of each group that was answered."""
            judged = {}
            for position, (answer, ratings) in answers.items():
                group = asked[position]
                judged[id(group)] = _judged(run.recipe.digest, group, answer, ratings)
            return [judged[id(group)] for group in groups if id(group) in judged]

        sampling = run.recipe.sampling
        # A number of tokens that the user gave is kept.
        if sampling.max_tokens == STATED_TOKENS:
            criteria = max(1 + group[0].texts.get("criteria", "").count("\n") for group in groups)
            room = max(STATED_TOKENS, _TOKENS_OF_A_RATING * criteria)
            sampling = replace(sampling, max_tokens=room)
        return written_judgments(
            asker, prompts, sampling, read=read, judgments=judgments, unparsed=_is_unparsed
        )

    def _read(self, group: Group, answer: Completion) -> list[list[float] | str]:
        """Return the probabilities of the ratings for each question, or the reason why there are none."""
        del group
        return [parsed_answer(answer, lambda text, ended: stated_ratings(text, ended=ended))]


class Together(StatedRating):
    """A rating on all dimensions in one answer."""

    roles = ("rating-together",)

    def groups(
        self,
        output: Output,
        context: Context,
        dimensions: Sequence[Dimension],
        ladders: LadderSet,
        *,
        orders: int,
    ) -> list[Group]:
        """Ask for the ratings on all dimensions together."""
        apart = super().groups(output, context, dimensions, ladders, orders=orders)
        return [list(itertools.chain(*apart))] if apart else []

    def question(
        self,
        subject: str,
        text: str,
        context: Context,
        dimension: Dimension,
        scope: Scope,
    ) -> Question:
        """Ask for the rating of a text; the prompt names all criteria."""
        criteria = "\n".join(f"{each.name}: {each.description}" for each in scope.dimensions)
        texts = {"criteria": criteria, "target": text}
        return question_about(context, dimension, subject=subject, against="", texts=texts)

    def _prompt(self, template: Template, group: Group) -> Prompt:
        slots = group[0].slots
        del slots["dimension"], slots["description"]
        return fill(template, slots)

    def prompts_of_a_row(self, template: Template, run: Run) -> int:
        """Return one prompt."""
        del template, run
        return 1

    def _read(self, group: Group, answer: Completion) -> list[list[float] | str]:
        names = [question.dimension.name for question in group]

        def read(text: str, ended: bool) -> Mapping[str, list[float] | str]:
            return stated_ratings_of(text, names, ended=ended)

        found = parsed_answer(answer, read)
        if isinstance(found, str):
            return [found] * len(names)
        return [found[name] for name in names]


class _Anchored(Rating):
    """A rating of a text after the rungs of a ladder as graded examples: its own ladder, or the first anchor's."""

    needs_ladders = True
    rates_rungs = False
    _grade_legend = "the rating as a place on the ladder"

    def _place(self, run: Run) -> str:
        # The prompt shows the ladder of the first anchor only.
        return f"example:{run.anchors[0]}" if run.anchors else "example:own"

    def of_rungs(self, ladders: LadderSet) -> Mode:
        """Return the mode without examples where no other anchor has a ladder: a rung is no example of itself."""
        return self if len(ladders.anchors) > 1 else self._alone()

    def _alone(self) -> Mode:
        """Return the mode without examples."""
        return Rating("rating")

    def rung_groups(self, ladders: LadderSet, dimensions: Sequence[Dimension]) -> list[Group]:
        """Ask about no rung: the examples name the levels."""
        del ladders, dimensions
        return []

    def rung_scales(self, run: Run, readings: Sequence[RungRating]) -> dict[str, RungScale]:
        """Return none: a rating is a level."""
        del run, readings
        return {}

    def question(
        self,
        subject: str,
        text: str,
        context: Context,
        dimension: Dimension,
        scope: Scope,
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
        del scales
        readings = []
        for level in range(1, run.rungs + 1):
            rating = _rating_of(level, run.rungs)
            readings.append(
                RungRating(dimension=dimension.name, anchor="", level=level, rating=rating)
            )
        return RungScale(readings, ENDS)


class Anchored(_Anchored):
    """A rating after graded examples, read from the probabilities of the five digits."""

    roles = ("anchored",)


class StatedAnchored(_Anchored, StatedRating):
    """A rating after graded examples: the judge writes a percentage for each of the five ratings."""

    roles = ("anchored-stated",)

    def _alone(self) -> Mode:
        """Return the mode without examples."""
        return StatedRating("rating:stated")


def _rating_of(level: int, rungs: int) -> float:
    """Return the rating of a level: the lowest has 1, the highest 5."""
    return LOW + (HIGH - LOW) * (level - 1) / (rungs - 1) if rungs > 1 else (LOW + HIGH) / 2


def _beginning(group: Group) -> tuple[str, str, str]:
    question = group[0]
    # Graded examples belong to a criterion; without them the context and the text come before it.
    if examples := question.texts.get("examples", ""):
        return question.dimension.name, examples, question.context.id
    return question.context.id, question.texts["target"], question.dimension.name


def _judged(
    recipe: str, group: Group, answer: Completion, ratings: Sequence[list[float] | str]
) -> list[Judgment]:
    """Return the judgment of each question about the text that an answer rates."""
    if isinstance(answer.text, Unwritten):
        return [judgment_of(question, recipe, RATINGS, NOT_ASKED) for question in group]
    judgments = []
    for question, read in zip(group, ratings, strict=True):
        judgments.append(judgment_of(question, recipe, RATINGS, _reading(read, answer)))
    return judgments


def _is_unparsed(ratings: Sequence[list[float] | str]) -> bool:
    return any(isinstance(read, str) for read in ratings)


def _reading(probabilities: list[float] | str, answer: Completion) -> LabelReading:
    note = long_note(answer)
    if isinstance(probabilities, str):
        reason = "; ".join(filter(None, (probabilities, note)))
        return LabelReading(reason=reason, cut=answer.cut)
    logprobs = tuple(map(log_of, probabilities))
    return LabelReading(
        logprobs=logprobs, mass=None, cut=answer.cut, exactness="sampled", note=note
    )


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
