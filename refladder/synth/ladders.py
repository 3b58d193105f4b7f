"""Write ladders: a reference text of each level, for every context and dimension.

Source: arXiv 2509.05440, section 2.1: the worst and the best text first, then texts between those that exist.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from refladder.backends import in_batches
from refladder.errors import BadCompletionError, UsageError
from refladder.prompts import criterion, fill, load_template
from refladder.records import (
    DOCUMENT,
    Dimension,
    Ladder,
    LadderFailure,
    Recipe,
    Rung,
    Sampling,
    Unwritten,
    digest_of,
    ids_of,
    names_of,
)
from refladder.synth.checks import same_text, why_unusable
from refladder.synth.journal import JournalEntry, open_journal
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.prompts import Template
    from refladder.records import Context, Progress, Prompt
    from refladder.synth.journal import Journal

# Prompts that a backend is sent at once; also what a kill can lose.
CHUNK = 256
# Most tokens of a subject, which the prompt limits to 15 words.
SUBJECT_TOKENS = 64
DEFAULT_SAMPLING = Sampling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rung to write: its level, the role of its prompt, and the two levels around it (None at an end)."""

    level: int
    role: str
    between: tuple[int, int] | None = None


def plan(rungs: int) -> tuple[tuple[Step, ...], ...]:
    """Return the bisection order of a ladder: ceil(log2(N - 1)) + 1 waves of independent steps, by rising level.

    Wave 0 is the worst (level 1) and the best (level `rungs`). Each later wave writes the middle level, rounded down,
    between every two neighbours that exist and have a gap.
    """
    if rungs < 2:
        raise UsageError(f"a ladder has at least 2 rungs, a worst and a best, found {rungs}")
    waves: list[tuple[Step, ...]] = [(Step(level=1, role="worst"), Step(level=rungs, role="best"))]
    levels = [1, rungs]
    while len(levels) < rungs:
        wave = []
        for low, high in itertools.pairwise(levels):
            if high - low > 1:
                wave.append(Step(level=(low + high) // 2, role="between", between=(low, high)))
        waves.append(tuple(wave))
        levels = sorted([*levels, *(step.level for step in wave)])
    return tuple(waves)


@dataclass(slots=True, kw_only=True)
class _Draft:
    """An unfinished ladder: its texts by level, and the rungs that could not be written."""

    context: Context
    dimension: Dimension
    templates: Mapping[str, Template]
    recipe: Recipe
    texts: dict[int, str]
    human: frozenset[int]
    failures: list[LadderFailure] = field(default_factory=list)

    def prompt(self, step: Step) -> Prompt:
        if step.role == "subject":
            return fill(self.templates[step.role], {"target": self.context.references[0]})
        slots = criterion(self.context, self.dimension)
        if step.between is not None:
            slots["lower"], slots["higher"] = (self.texts[level] for level in step.between)
        return fill(self.templates[step.role], slots)

    def take(self, entry: JournalEntry) -> None:
        if entry.unusable is None and isinstance(entry.text, Unwritten):
            self.texts[entry.level] = entry.text
        elif entry.unusable is None:
            self.texts[entry.level] = entry.text.strip()

    def fail(self, level: int, reasons: Iterable[str]) -> None:
        self.failures.append(
            LadderFailure(
                context_id=self.context.id,
                task=self.context.task,
                dimension=self.dimension.name,
                level=level,
                reasons=tuple(reasons),
                recipe=self.recipe,
            )
        )

    def ladder(self, steps: Iterable[Step]) -> Ladder:
        between = {step.level: step.between for step in steps if step.level not in self.human}
        rungs = []
        for level, text in sorted(self.texts.items()):
            rungs.append(Rung(level=level, text=text, between=between.get(level)))
        return Ladder(
            context_id=self.context.id,
            task=self.context.task,
            dimension=self.dimension.name,
            rungs=tuple(rungs),
            recipe=self.recipe,
        )


def build_ladders(
    backend: Backend,
    contexts: Sequence[Context],
    dimensions: Sequence[Dimension],
    *,
    rungs: int = 5,
    sampling: Sampling = DEFAULT_SAMPLING,
    attempts: int = 3,
    prompts: Path | None = None,
    journal: Path | None = None,
    human: Mapping[tuple[str, str], Mapping[int, str]] | None = None,
    progress: Progress | None = None,
    needed: Callable[[Sequence[Prompt]], None] | None = None,
) -> tuple[list[Ladder], list[LadderFailure]]:
    """Write a ladder for every context on every dimension, and a failure for each rung that no attempt gives.

    Each wave of `plan` is written for all ladders before the next wave begins, in chunks, with the prompts of one
    context next to each other. A text that `why_unusable` refuses is written again with the next seed
    (`sampling.seed` + 1, + 2, ...). In a dry run, a rung that is still to be written has an `Unwritten` text.

    `human` has, by context id and dimension name, texts by level that people wrote. `journal` stores every text at
    once, and a build continues from it. `needed` is called with the prompts of every text, those in the journal too.

    Source: arXiv 2509.05440, section 2.1.
    """
    waves = plan(rungs)
    human = human or {}
    sampling = sampling.filled(backend.default_sampling)
    _check_request(contexts, dimensions, attempts)
    if human:
        _check_human(human, contexts, dimensions, rungs)
    steps = list(itertools.chain(*waves))
    roles = list(dict.fromkeys(step.role for step in steps))
    drafts = _drafts(
        backend.fingerprint,
        contexts,
        dimensions,
        human,
        roles=roles,
        sampling=sampling,
        folder=prompts,
    )
    total = sum(rungs - len(draft.texts) for draft in drafts)
    rejected: Counter[str] = Counter()
    done = 0

    def report(done: int) -> None:
        if progress is not None:
            counts = ", ".join(f"{count:,} {kind}" for kind, count in rejected.most_common())
            progress(done, total, f"rejected: {counts}" if rejected else "", 1)

    with _opened(journal, drafts, rungs, attempts) as record:
        writing = _Writing(
            backend=backend,
            sampling=sampling,
            attempts=attempts,
            journal=record,
            needed=needed,
            rejected=rejected,
        )
        for wave in waves:
            todo = []
            for draft, step in itertools.product(drafts, wave):
                if step.level in draft.texts:
                    continue
                if draft.failures:
                    done += 1
                else:
                    todo.append((draft, step))
            report(done)
            for settled in writing.wave(todo):
                done += settled
                report(done)
    ladders = [draft.ladder(steps) for draft in drafts if not draft.failures]
    return ladders, _failures(drafts)


def name_subjects(
    backend: Backend,
    contexts: Sequence[Context],
    *,
    sampling: Sampling = DEFAULT_SAMPLING,
    attempts: int = 3,
    prompts: Path | None = None,
    journal: Path | None = None,
) -> tuple[list[Context], list[LadderFailure]]:
    """Return the contexts of a shared set; the text of a document is its subject, named by the writer if missing.

    A document whose subject could not be named is left out, with a failure of the dimension `subject`.
    """
    step = Step(level=1, role="subject")
    sampling = replace(
        sampling.filled(backend.default_sampling),
        max_tokens=min(sampling.max_tokens, SUBJECT_TOKENS),
    )
    unnamed = [context for context in contexts if not context.text]
    about = [Dimension(name=step.role, description="")]
    drafts = _drafts(
        backend.fingerprint,
        unnamed,
        about,
        {},
        roles=[step.role],
        sampling=sampling,
        folder=prompts,
    )
    with _opened(journal, drafts, 1, attempts) as record:
        writing = _Writing(backend=backend, sampling=sampling, attempts=attempts, journal=record)
        list(writing.wave([(draft, step) for draft in drafts]))
    subjects = {draft.context.id: draft.texts[step.level] for draft in drafts if not draft.failures}
    named = []
    for context in contexts:
        if context.task != DOCUMENT:
            named.append(context)
        elif text := context.text or subjects.get(context.id):
            named.append(replace(context, text=text, references=()))
    return named, _failures(drafts)


def _failures(drafts: Sequence[_Draft]) -> list[LadderFailure]:
    return [failure for draft in drafts for failure in draft.failures]


def _check_request(
    contexts: Sequence[Context], dimensions: Sequence[Dimension], attempts: int
) -> None:
    if attempts < 1:
        raise UsageError(
            f"attempts, the maximum for each rung, must be 1 or more, found {attempts}"
        )
    for kind, names in (
        ("context", ids_of(contexts)),
        ("dimension", names_of(dimensions)),
    ):
        if not names:
            raise UsageError(f"no {kind}s to build ladders for; give at least one")
        name, count = Counter(names).most_common(1)[0]
        if count > 1:
            raise UsageError(
                f"{kind} {name!r} is given {count} times; each {kind} may be given once"
            )


def _check_human(
    human: Mapping[tuple[str, str], Mapping[int, str]],
    contexts: Sequence[Context],
    dimensions: Sequence[Dimension],
    rungs: int,
) -> None:
    names = names_of(dimensions)
    cells = set(itertools.product(ids_of(contexts), names))
    for (context_id, name), texts in human.items():
        whose = f"human-written rungs of context {context_id!r}, dimension {name!r}"
        if (context_id, name) not in cells:
            others = sum(cell not in cells for cell in human) - 1
            more = f", nor for {others:,} more" if others else ""
            raise UsageError(
                f"{whose}: no such context and dimension are being built{more}; "
                f"contexts are {contexts[0].id!r}, ..., and dimensions {', '.join(names)}"
            )
        accepted: dict[int, str] = {}
        for level, text in texts.items():
            if not 1 <= level <= rungs:
                raise UsageError(f"{whose}: level {level} is not between 1 and {rungs}")
            if not text.strip():
                raise UsageError(f"{whose}: the text of level {level} is empty")
            same = same_text(text, accepted)
            if same is not None:
                raise UsageError(
                    f"{whose}: levels {same} and {level} are the same text; give different texts"
                )
            accepted[level] = text


def _drafts(
    fingerprint: str,
    contexts: Sequence[Context],
    dimensions: Sequence[Dimension],
    human: Mapping[tuple[str, str], Mapping[int, str]],
    *,
    roles: Sequence[str],
    sampling: Sampling,
    folder: Path | None,
) -> list[_Draft]:
    """Return an empty ladder for every context and dimension, with the templates and the recipe of its task."""
    templates: dict[str, dict[str, Template]] = {}
    recipes: dict[str, Recipe] = {}
    drafts = []
    for context in contexts:
        task = context.task
        if task not in templates:
            templates[task] = {role: load_template(task, role, folder) for role in roles}
            recipes[task] = Recipe(
                backend=fingerprint,
                prompts=tuple(template.signature for template in templates[task].values()),
                sampling=sampling,
                version=__version__,
            )
        for dimension in dimensions:
            texts = human.get((context.id, dimension.name), {})
            draft = _Draft(
                context=context,
                dimension=dimension,
                templates=templates[task],
                recipe=recipes[task],
                texts=dict(texts),
                human=frozenset(texts),
            )
            drafts.append(draft)
    return drafts


def _opened(
    path: Path | None, drafts: Sequence[_Draft], rungs: int, attempts: int
) -> AbstractContextManager[Journal | None]:
    """Open the journal of drafts, if they have one."""
    if path is None or not drafts:
        return nullcontext()
    return open_journal(path, _identity(drafts, rungs, attempts))


def _identity(drafts: Sequence[_Draft], rungs: int, attempts: int) -> dict[str, object]:
    """Return everything that determines the texts of a build, as JSON values whose names appear in errors."""

    def digest(values: Iterable[object]) -> str:
        return digest_of(json.dumps(list(values)), size=12)

    recipe = drafts[0].recipe
    prompts: dict[str, None] = {}
    contexts, dimensions = {}, {}
    for draft in drafts:
        prompts |= dict.fromkeys(draft.recipe.prompts)
        context, dimension = draft.context, draft.dimension
        shown = context.text or context.references
        contexts[context] = context.id, context.task, shown, context.background
        dimensions[dimension] = dimension.name, dimension.description
    return {
        "rungs": rungs,
        "attempts": attempts,
        "backend": recipe.backend,
        "prompts": list(prompts),
        "sampling": asdict(recipe.sampling) if recipe.sampling else None,
        "version": recipe.version,
        "contexts": digest(contexts.values()),
        "dimensions": digest(dimensions.values()),
        "human-written rungs": digest([sorted(draft.texts.items()) for draft in drafts]),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writing:
    """How the rungs of drafts are written; see `build_ladders`."""

    backend: Backend
    sampling: Sampling
    attempts: int
    journal: Journal | None
    needed: Callable[[Sequence[Prompt]], None] | None = None
    # Texts by the kind of fault.
    rejected: Counter[str] = field(default_factory=Counter)

    def wave(self, todo: Sequence[tuple[_Draft, Step]]) -> Iterator[int]:
        """Write one wave into its drafts; after each chunk, yield how many rungs it settled (written or given up)."""
        pending = [(draft, step, list[str]()) for draft, step in todo]
        for attempt in range(self.attempts):
            unusable = []
            for chunk in in_batches(self.backend, pending, self.backend.texts_at_once or CHUNK):
                settled = 0
                entries = self._answers([(draft, step) for draft, step, _ in chunk], attempt)
                for (draft, step, reasons), entry in zip(chunk, entries, strict=True):
                    if entry.unusable is None:
                        settled += 1
                        continue
                    reasons.append(entry.unusable)
                    self.rejected[entry.unusable.partition(":")[0]] += 1
                    if len(reasons) < self.attempts:
                        unusable.append((draft, step, reasons))
                    else:
                        settled += 1
                        draft.fail(step.level, reasons)
                yield settled
            pending = unusable

    def _answers(self, chunk: Sequence[tuple[_Draft, Step]], attempt: int) -> list[JournalEntry]:
        """Return an attempt at each rung, from the journal as far as it goes; usable texts are put in the drafts."""
        prompts = [draft.prompt(step) for draft, step in chunk]
        if self.needed is not None:
            self.needed(prompts)
        entries: list[JournalEntry] = []
        for draft, step in chunk:
            place = draft.context.id, draft.dimension.name, step.level, attempt
            entry = None if self.journal is None else self.journal.replay(*place)
            if entry is None:
                break
            draft.take(entry)
            entries.append(entry)
        rest = chunk[len(entries) :]
        if not rest:
            return entries
        seeded = replace(self.sampling, seed=self.sampling.seed + attempt)
        completions = self.backend.write(prompts[len(entries) :], seeded)
        if len(completions) != len(rest):
            raise BadCompletionError(
                f"backend {self.backend.fingerprint!r} gave {len(completions)} texts for {len(rest)} prompts; "
                "test it with refladder.testing.check_backend"
            )
        fresh = []
        for (draft, step), completion in zip(rest, completions, strict=True):
            text = completion.text
            if not isinstance(text, Unwritten):
                # The text may not be valid Unicode; `why_unusable` refuses it then.
                text = text.encode("utf-8", "replace").decode()
            entry = JournalEntry(
                context_id=draft.context.id,
                dimension=draft.dimension.name,
                level=step.level,
                attempt=attempt,
                text=text,
                finish=completion.finish,
                note=completion.note,
                unusable=why_unusable(completion, draft.texts),
            )
            # Store the text now: the next text of this ladder must differ from it.
            draft.take(entry)
            fresh.append(entry)
        if self.journal is not None:
            self.journal.record(entry for entry in fresh if not isinstance(entry.text, Unwritten))
        return entries + fresh
