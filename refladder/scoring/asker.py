"""The asker: questions become prompts, readings become judgments, and an answered question is not asked again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from refladder.backends import in_batches, whole
from refladder.backends.dry_run import DryRunBackend
from refladder.backends.protocol import characters
from refladder.backends.rewards import ONLY_READS, ROLES, reward_of, reward_reading
from refladder.backends.sampled import Sampled
from refladder.errors import BackendError, UsageError
from refladder.prompts import TEMPLATES, fill, load_template, with_text
from refladder.records import (
    LOSS,
    NO,
    OUTCOMES,
    REWARD,
    RUNG,
    WIN,
    YES,
    LabelReading,
    Recipe,
    Run,
    digest_of,
    possible,
)
from refladder.scoring.verdicts import judgment_of, trusted
from refladder.settings import LEAST_MASS
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.prompts import Template
    from refladder.records import Judgment, Progress, Prompt, Sampling
    from refladder.scoring.judgment_file import JudgmentLog
    from refladder.scoring.modes.mode import Group, Mode
    from refladder.scoring.question import Question

# Questions asked and stored at a time.
BATCH = 4096
NOT_RECORDED = LabelReading(reason="not among the recorded judgments")


def judging_template(
    backend: Backend, task: str, role: str, folder: Path | None = None, *, answers: int = 0
) -> Template:
    """Return the template that a judge is asked a role with; a reward model has one of its own."""
    if not backend.rewards:
        return load_template(task, role, folder)
    if role not in ROLES or answers:
        raise UsageError(ONLY_READS.format(backend.fingerprint))
    return load_template(task, REWARD, folder)


def mode_template(
    backend: Backend,
    mode: Mode,
    ladders: LadderSet,
    folder: Path | None = None,
    *,
    yes_no: bool = False,
) -> Template:
    """Return the template that a mode asks with: that of its role, with the mode's own text unless the user has one."""
    role = mode.role(ladders, yes_no=yes_no)
    template = judging_template(backend, ladders.task, role, folder, answers=mode.sampled)
    return worded(mode, template)


def worded(mode: Mode, template: Template) -> Template:
    """Put the text that a mode has for a role in the place of the shipped one."""
    text = mode.texts.get(template.role)
    return (
        with_text(template, text) if text and template.path.is_relative_to(TEMPLATES) else template
    )


def run_of(
    backend: Backend,
    template: Template,
    *,
    answers: int | str = 0,
    sampling: Sampling | None = None,
) -> Run:
    """Return the first line of a file whose judgments are found by key: any dimension, no ladders."""
    if isinstance(answers, int) and answers and sampling is None:
        raise UsageError(
            "sampled answers need a sampling; give one, or read label probabilities (answers=0)"
        )
    recipe = Recipe(
        backend=backend.fingerprint,
        # The prompts of recorded judgments are not known.
        prompts=(template.signature,) if backend.recorded is None else (),
        sampling=sampling,
        version=__version__,
    )
    return Run(
        recipe=recipe,
        ladders="none",
        dimensions=(),
        rungs=0,
        orders=1,
        answers=str(answers),
    )


def _key_with_ids(question: Question) -> str:
    ids = question.comparison
    return digest_of(question.key, ids.context_id, ids.subject, ids.against)


@dataclass(slots=True)
class Asker:
    """A judge with one template and a place for its judgments.

    The run of `log` says how it is asked: 0 answers reads label probabilities (arXiv 2307.07889, equation 3), K above 0
    takes the shares of K sampled ones (equation 5). Recorded judgments answer questions by their ids. A judgment whose
    label mass is below `least_mass` is stored as it is and returned as unparsed. With `rungs_anew`, a response store
    answers no rating of a rung: a judge that has changed would be placed by what it once said.
    """

    backend: Backend
    template: Template
    log: JudgmentLog
    least_mass: float = LEAST_MASS
    batch: int = BATCH
    rungs_anew: bool = False

    @property
    def signature(self) -> str:
        """Return everything that determines a judgment."""
        run = self.log.run
        answers = run.answers if run.answers != "0" else "logprobs"
        return f"{run.recipe.signature}|answers:{answers}|least-mass:{self.least_mass:g}"

    def ask(
        self, questions: Sequence[Question], progress: Progress | None = None
    ) -> list[Judgment]:
        """Return a judgment for every question, in order; without a readable answer it has a note.

        Stored judgments are reused.
        """
        if self.backend.recorded is not None and not self.log.run.rungs:
            # The key of a pair covers its ids too: equal texts may have different recorded judgments.
            questions = [replace(question, key=_key_with_ids(question)) for question in questions]
        new = self.unanswered(questions)
        done = 0
        for batch in in_batches(self.backend, new, self.batch):
            self.log.append(self.judge(batch))
            done += len(batch)
            if progress is not None:
                progress(done, len(new))
        return trusted(self.log.answers(questions), self.least_mass)

    def unanswered(self, questions: Sequence[Question]) -> list[Question]:
        """Return the questions to ask; answers in files can be read again for nothing."""
        return self.log.unanswered(questions, free=self.backend.wants_all)

    def judge(self, questions: Sequence[Question]) -> list[Judgment]:
        """Ask questions, whatever is stored; if the judge fails, the log keeps the judgments so far."""
        if not questions:
            return []
        recorded = self.backend.recorded
        if recorded is not None:
            # Pairs of outputs have no tie.
            of_pairs = self.log.mode.compares_rungs and not self.log.run.rungs
            outcomes = (WIN, LOSS) if of_pairs else self.log.mode.outcomes
            recipe = self.log.run.recipe.digest
            answers = []
            for question in questions:
                reading = recorded.get(question.comparison, NOT_RECORDED)
                answers.append(judgment_of(question, recipe, outcomes, reading))
            return answers
        # The questions of one context are next to each other, so that a backend can share what they begin with.
        order = sorted(range(len(questions)), key=lambda position: questions[position].context.id)
        prompts = [prompt for position in order for prompt in self.prompts(questions[position])]
        count = len(prompts) // len(questions)
        readings: dict[int, LabelReading] = {}
        sampling = self.log.run.recipe.sampling
        reader = self.backend
        if sampling is not None:
            reader = Sampled(self.backend, answers=self.log.run.sampled, sampling=sampling)

        judged: dict[int, Judgment] = {}

        def new_judgments() -> list[Judgment]:
            """Judge the questions whose readings have come since the last call."""
            new = {}
            for number, position in enumerate(order):
                rows = range(number * count, (number + 1) * count)
                if position not in judged and readings.keys() >= set(rows):
                    of_question = [readings[row] for row in rows]
                    new[position] = self._judgment(questions[position], of_question)
            judged.update(new)
            return list(new.values())

        labels = list(self.template.labels.values())
        with self.log.keeping(new_judgments) as kept:
            readings.update(kept(reader.read_labels_each(prompts, labels)))
        whole(self.backend, prompts, list(readings.values()))
        new_judgments()
        return [judged[position] for position in range(len(questions))]

    def count(self, questions: Sequence[Question], most: int) -> None:
        """Count these questions in a dry run; answers decide which are asked, and `most` prompts are at most."""
        if isinstance(self.backend, DryRunBackend):
            with self.backend.at_most(most):
                self.judge(self.unanswered(questions))

    def prompts(self, question: Question) -> list[Prompt]:
        """Return the prompt of a question; one for each claim of a yes/no template, or for each text that is rewarded."""
        if self.template.role == REWARD:
            return [fill(self.template, slots) for slots in question.slots_of_each()]
        if not self.template.claims:
            return [self.marked(fill(self.template, question.slots), question)]
        return [fill(self.template, question.slots, claim) for claim in OUTCOMES]

    def marked(self, prompt: Prompt, question: Question) -> Prompt:
        """Return the prompt of a question, asked anew where it has to be."""
        ids = question.comparison
        rates_a_rung = ids.subject.startswith(RUNG) and not ids.against
        return replace(prompt, anew=True) if self.rungs_anew and rates_a_rung else prompt

    def characters(self, groups: Sequence[Group]) -> int:
        """Count the characters of the prompts about groups, times the sampled answers; 0 for recorded judgments."""
        if self.backend.recorded is not None:
            return 0
        mode = self.log.mode
        prompts = []
        for group in groups:
            if mode.writes:
                prompts += [
                    mode.prompt(self.template, group, each) for each in mode.orders_of(group)
                ]
            else:
                prompts += itertools.chain(*map(self.prompts, group))
        return sum(map(characters, prompts)) * max(self.log.run.sampled, 1)

    def _judgment(self, question: Question, readings: Sequence[LabelReading]) -> Judgment:
        answers = tuple(self.template.labels)
        for reading in readings:
            if reading.logprobs is not None and len(reading.logprobs) != len(answers):
                raise BackendError(
                    f"the judge gave {len(reading.logprobs)} log-probabilities for the {len(answers)} labels "
                    f"{', '.join(answers)}; test it with refladder.testing.check_backend"
                )
        readings = [possible(reading, "the judge gave") for reading in readings]
        recipe = self.log.run.recipe.digest
        if self.template.claims:
            return judgment_of(question, recipe, OUTCOMES, _from_yes_no(readings, answers))
        reading = readings[0] if len(readings) == 1 else _from_rewards(readings)
        return judgment_of(question, recipe, answers, reading)


def _from_rewards(readings: Sequence[LabelReading]) -> LabelReading:
    """Combine the readings of two rewarded texts: the log-odds of a win are their difference.

    Source: Bradley and Terry 1952; arXiv 2507.01352, equation 1.
    """
    cut = any(reading.cut for reading in readings)
    rewards, note = [], None
    for reading in readings:
        if reading.logprobs is None:
            return replace(reading, cut=cut)
        rewards.append(reward_of(reading.logprobs))
        note = note or reading.note
    return reward_reading(rewards[0] - rewards[1], note=note or None, cut=cut)


def _from_yes_no(readings: Sequence[LabelReading], answers: tuple[str, ...]) -> LabelReading:
    """Combine three yes/no readings as one of win, loss and tie (arXiv 2509.05440, Table 2).

    The log-probability of an outcome is log p(yes | its question), with p(yes) + p(no) = 1; the rule's softmax then
    weighs the three against each other. The mass is the lowest of the three readings.
    """
    yes, no = answers.index(YES), answers.index(NO)
    cut = any(reading.cut for reading in readings)
    logprobs, masses, note = [], [], None
    for reading in readings:
        if reading.logprobs is None:
            return replace(reading, cut=cut)
        logprobs.append(float(-np.logaddexp(0.0, reading.logprobs[no] - reading.logprobs[yes])))
        masses.append(1.0 if reading.mass is None else reading.mass)
        note = note or reading.note
    return LabelReading(logprobs=tuple(logprobs), mass=min(masses), note=note or None, cut=cut)
