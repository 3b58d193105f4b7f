"""Asks a judge which of two outputs of one context is better, and keeps its answers.

An answer is a Judgment with the outcomes win and loss, about the output that was shown first (`subject`) against the
second. The swapped pair is another question.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends import in_batches, whole
from refladder.errors import UsageError
from refladder.files.jsonl import append_records, from_line, read_appended
from refladder.prompts import criterion, fill
from refladder.records import LOSS, WIN, Comparison, Context, Dimension, Judgment, Recipe
from refladder.scoring.drawing import draw_labels
from refladder.scoring.judging import LEAST_MASS, digest_of, judgment_of, trusted
from refladder.scoring.judgment_file import check_outcomes
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from refladder.arrays import FloatArray
    from refladder.backends import Backend
    from refladder.backends.estimate import Plan
    from refladder.prompts import Template
    from refladder.records import LabelReading, Output, Sampling


BATCH = 4096  # questions judged and kept at a time
_MARKS = " \t\r\n\"'`*_.:;,!()[]<>“”«»"  # around a name that is the whole answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PairQuestion:
    """Two outputs to show; `key` is the digest of all that is shown."""

    comparison: Comparison
    key: str
    context: Context
    dimension: Dimension
    first: str
    second: str

    @property
    def slots(self) -> dict[str, str]:
        """What goes into the template of role pairwise."""
        return {**criterion(self.context, self.dimension), "first": self.first, "second": self.second}


def pair_question(context: Context, dimension: Dimension, first: Output, second: Output) -> PairQuestion:
    """The question which of two outputs is better."""
    state = digest_of(context.text, context.background, dimension.name, dimension.description, first.text, second.text)
    return PairQuestion(
        comparison=Comparison(context_id=context.id, dimension=dimension.name, subject=first.id, against=second.id),
        key=state.hexdigest(),
        context=context,
        dimension=dimension,
        first=first.text,
        second=second.text,
    )


@dataclass(slots=True)
class PairJudge:
    """A judge with one template; what it was asked before it is not asked again.

    `answers` 0 reads label probabilities (arXiv 2307.07889, equation 3); K above 0 lets the judge write K answers, with
    `sampling` and one seed more for each, and takes the share of those that can be read (equation 5). `kept` holds the
    judgments by key, shared by all who were given the same mapping; `path` keeps them in a file too, of which a torn
    last line is cut off. An answer whose label mass is below `least_mass` is kept as it is and given out as unparsed.

    Raises:
        UsageError: the file is of another judge or template.
        DataError: it cannot be read or written, or a line is no judgment.
    """

    backend: Backend
    template: Template
    kept: dict[str, Judgment] = field(default_factory=dict)
    path: Path | None = None
    answers: int = 0
    sampling: Sampling | None = None
    least_mass: float = LEAST_MASS
    recipe: Recipe = field(init=False)

    def __post_init__(self) -> None:
        if self.answers and self.sampling is None:
            raise UsageError("answers that are written need a sampling; give one, or ask for label probabilities")
        self.recipe = Recipe(
            backend=self.backend.fingerprint,
            prompts=(self.template.signature,),
            sampling=self.sampling if self.answers else None,
            version=__version__,
        )
        if self.path is not None:
            self._open(self.path)

    @property
    def signature(self) -> str:
        """All that makes an answer."""
        how = f"answers:{self.answers}" if self.answers else "answers:logprobs"
        return f"{self.recipe.signature}|{how}|least-mass:{self.least_mass:g}"

    def _open(self, path: Path) -> None:
        lines = read_appended(path)
        if not lines:
            append_records(path, [self.recipe])
            return
        (where, head), *rest = lines
        found = from_line(Recipe, head, where)
        if found != self.recipe:
            raise UsageError(
                f"{path}: these judgments were made by {found.signature}, this run is {self.recipe.signature}; "
                "name another folder with --work, or throw them away with --restart"
            )
        for where, line in rest:
            judgment = from_line(Judgment, line, where)
            check_outcomes(where, judgment, (WIN, LOSS))
            self.kept[judgment.key] = judgment

    def ask(
        self, questions: Sequence[PairQuestion], progress: Callable[[int, int | None], None] | None = None
    ) -> list[Judgment]:
        """An answer to every question, in order; one that cannot be read has `logprobs` None and a note.

        Raises:
            BackendError: the judge failed as a whole, or broke its contract.
        """
        new = {question.key: question for question in questions if question.key not in self.kept}
        asked = sorted(new.values(), key=lambda question: question.context.id)  # one context's prompts together
        done = 0
        for batch in in_batches(self.backend, asked, BATCH):
            self._keep(self._judge(batch))
            done += len(batch)
            if progress is not None:
                progress(done, len(asked))
        # Two outputs with the same text are one question: the answer is given the ids that were asked about.
        answers = [_about(self.kept[question.key], question.comparison) for question in questions]
        return trusted(answers, self.least_mass)

    def plan(self, plan: Plan, questions: Sequence[PairQuestion], most: int | None = None) -> list[Judgment | None]:
        """Add the prompts that `ask` would ask to a plan.

        Args:
            plan: what the run asks.
            questions: the questions.
            most: how many of them will be asked at most, where answers decide which; None if all will.

        Returns:
            For each question the judgment that exists already, or None.
        """
        new = {question.key: question for question in questions if question.key not in self.kept}
        if most is not None:
            self._plan(plan, list(new.values()), most)
        else:
            asked = [new[key] for key in plan.new_questions(self.signature, new)]
            for batch in in_batches(self.backend, sorted(asked, key=lambda question: question.context.id), BATCH):
                for question, reading in zip(batch, self._plan(plan, batch, None), strict=True):
                    if reading is not None:
                        self.kept[question.key] = self._judgment(question, reading.logprobs, reading.mass, reading.note)
        kept = [self.kept.get(question.key) for question in questions]
        return [None if judgment is None else trusted([judgment], self.least_mass)[0] for judgment in kept]

    def _plan(self, plan: Plan, questions: Sequence[PairQuestion], most: int | None) -> list[LabelReading | None]:
        return plan.judge(
            self.backend,
            [fill(self.template, question.slots) for question in questions],
            list(self.template.labels.values()),
            answers=self.answers,
            sampling=self.sampling,
            most=most,
        )

    def _keep(self, judgments: Sequence[Judgment]) -> None:
        if self.path is not None:
            append_records(self.path, judgments)
        self.kept.update({judgment.key: judgment for judgment in judgments})

    def _judge(self, questions: Sequence[PairQuestion]) -> list[Judgment]:
        prompts = [fill(self.template, question.slots) for question in questions]
        labels = list(self.template.labels.values())
        readings: Sequence[LabelReading]
        if self.answers and self.sampling is not None:
            readings = draw_labels(
                self.backend, prompts, labels, answers=self.answers, sampling=self.sampling, label_of=_label_of
            )
        else:
            readings = whole(self.backend, prompts, self.backend.read_labels(prompts, labels))
        return [
            self._judgment(question, reading.logprobs, reading.mass, reading.note)
            for question, reading in zip(questions, readings, strict=True)
        ]

    def _judgment(
        self, question: PairQuestion, logprobs: tuple[float, ...] | None, mass: float | None, note: str | None
    ) -> Judgment:
        return judgment_of(
            question.comparison,
            question.key,
            self.recipe.digest,
            outcomes=(WIN, LOSS),
            logprobs=logprobs,
            mass=mass,
            note=note,
        )

    def characters(self, question: PairQuestion) -> int:
        """The length of a question's prompt, in characters, times the answers that are drawn to it."""
        slots = question.slots
        length = sum(map(len, self.template.literals)) + sum(len(slots[name]) for name in self.template.names)
        return length * max(self.answers, 1)


def _about(judgment: Judgment, comparison: Comparison) -> Judgment:
    if (judgment.context_id, judgment.subject, judgment.against) == (
        comparison.context_id,
        comparison.subject,
        comparison.against,
    ):
        return judgment
    return replace(judgment, context_id=comparison.context_id, subject=comparison.subject, against=comparison.against)


def chosen_label(text: str, labels: Sequence[str]) -> int | None:
    """Which label an answer names; None where that is not clear.

    An answer is read when it begins with a label, names one label and no other, or is only the word in which the
    labels differ ("B" of "Summary A", "Summary B").
    """
    plain = text.strip(_MARKS).casefold()
    folded = [label.casefold() for label in labels]
    named = [
        place for place, label in enumerate(folded) if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", plain) is not None
    ]
    begins = [place for place in named if plain.startswith(folded[place])]
    short = [place for place, label in enumerate(folded) if plain == label.rpartition(" ")[2]]
    for found in (begins, named, short):
        if len(found) == 1:
            return found[0]
    return None


def _label_of(text: str, labels: Sequence[str]) -> int | str:
    chosen = chosen_label(text, labels)
    return repr(text[:60]) if chosen is None else chosen


def first_probabilities(judgments: Sequence[Judgment]) -> FloatArray:
    """P = P(first) / (P(first) + P(second)) of every judgment; NaN where it could not be read.

    Source: arXiv 2307.07889, equation 3.

    Returns:
        Shape (judgments,), between 0 and 1.
    """
    found = np.full(len(judgments), np.nan)
    for place, judgment in enumerate(judgments):
        if judgment.logprobs is not None:
            given = dict(zip(judgment.outcomes, judgment.logprobs, strict=True))
            gap = given[LOSS] - given[WIN]
            found[place] = 1 / (1 + math.exp(gap)) if gap < 0 else math.exp(-gap) / (1 + math.exp(-gap))
    return found
