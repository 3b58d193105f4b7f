"""compete: a table and a task prompt -> texts of several models -> every pair judged in both orders -> win rates.

Source: EvaluLLM, Desmond et al. 2024, doi 10.1145/3640544.3645216, section 2.
"""

from __future__ import annotations

import hashlib
import itertools
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from refladder.arrays import known_numbers
from refladder.backends import in_batches, whole
from refladder.backends.dry_run import DryRunBackend
from refladder.backends.metered import SpentCosts, all_spent, spent_before, spent_json
from refladder.contest.criteria import criteria_of
from refladder.contest.standings import OVERALL, Standing, Trial, standing_tables, standings_of
from refladder.contest.task_prompt import (
    TASK,
    open_task_prompt,
    parse_task_prompt,
    read_instances,
)
from refladder.display.results import Shown
from refladder.errors import UsageError
from refladder.evaluation.results import RESULTS
from refladder.events import Silent
from refladder.files.jsonl import (
    append_records,
    atomic,
    from_line,
    is_unicode,
    read_appended,
    to_json,
    within,
    write_json,
)
from refladder.files.locks import locked_folder
from refladder.files.outputs import RunConfig
from refladder.prompts import check_folder
from refladder.records import (
    Context,
    Generated,
    NotJudged,
    Output,
    Prompt,
    Sampling,
    ids_of,
    names_of,
)
from refladder.scoring.asker import Asker, judging_template, run_of
from refladder.scoring.columns import has_low_mass
from refladder.scoring.judgment_file import JudgmentIndex
from refladder.scoring.question import pair_question
from refladder.scoring.summary import low_mass_lines
from refladder.scoring.verdicts import first_probabilities
from refladder.session import copied
from refladder.settings import chosen
from refladder.statistics.estimators import decisions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.plain_function import Judge
    from refladder.contest.task_prompt import Instance
    from refladder.display.rendering import PlainTable
    from refladder.events import Events
    from refladder.records import Completion, Dimension, Judgment, Progress
    from refladder.scoring.question import Question
    from refladder.session import Session
    from refladder.settings import Given


GENERATED = "generated.jsonl"
RUN = "run.json"
# This number of texts is written and stored at a time.
BATCH = 256

_WHY = parse_task_prompt(
    "Two responses to a request were compared, and one was judged better.\n\n"
    "Request:\n{context}\n\nThe better response:\n{target}\n\nThe other response:\n{reference}\n\n"
    "Evaluation criteria:\n{dimension}: {description}\n\n"
    "Say in one sentence why the better response is better on {dimension}.",
    "explain",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest(Shown):
    """The result of a contest.

    `failures` are sentences on the rows and models without a text. `low_mass` judgments have a low label mass (see
    `ScoreReport`).
    """

    generated: tuple[Generated, ...]
    trials: tuple[Trial, ...]
    standings: tuple[Standing, ...]
    failures: tuple[str, ...]
    low_mass: int
    signature: str

    @property
    def complete(self) -> bool:
        """Return whether every text was written, and every comparison judged."""
        return not self.failures and all(
            trial.tie or trial.winner is not None for trial in self.trials
        )

    def warnings(self) -> list[str]:
        """Return what is unreliable: each trial has a judgment in both orders."""
        return low_mass_lines(self.low_mass, 2 * len(self.trials))

    def tables(self) -> list[PlainTable]:
        """Return the standings that the command prints."""
        return standing_tables(self.standings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestSpec:
    """A contest: `models` write a text for each of `instances`, and a judge compares them by `criteria`.

    Models and judge are names of backends, with options, or open ones. `folder` holds texts and judgments, for
    resuming. Its run.json holds `config` and what backends were asked.
    """

    instances: Sequence[Instance]
    models: Mapping[str, str | Backend]
    model_options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    judge: str | Backend | Judge
    judge_options: Mapping[str, object] | None = None
    criteria: Sequence[Dimension]
    folder: Path
    sampling: Sampling = field(default_factory=Sampling)
    explain: bool = False
    prompts: Path | None = None
    config: RunConfig = field(default_factory=RunConfig)


def spec_of(given: Given, source: Callable[[set[str]], str], folder: Path) -> ContestSpec:
    """Return the settings of a contest; `source` gives the table whose named columns are read."""
    check_folder(given["prompts"])
    task = open_task_prompt(given["prompt"], given["prompt_text"])
    words = (given[name] or {} for name in ("criteria", "worst", "best", "weights"))
    column = given["id"]
    table = source({*task.names, column or "id"})
    found = {
        "criteria": criteria_of(*words),
        "instances": read_instances(table, task, id_column=column, form=given.get("table_format")),
        "folder": folder,
    }
    return chosen(ContestSpec, {**given, **found})


def rehearse(spec: ContestSpec, dry: Session) -> None:
    """Ask for the same texts and judgments in a copy of the folder, without any answers."""
    with copied(spec.folder) as copy:
        _compete(replace(spec, folder=copy or spec.folder), dry, Silent().progress)


def run(spec: ContestSpec, session: Session, events: Events) -> Contest:
    """Let models write a text for every row, and a judge compare every pair of texts in both orders.

    Texts and judgments are stored line by line, for resuming; `results.jsonl` is written at the end.
    """
    # The folder is locked before a model is loaded or a server is asked.
    with locked_folder(spec.folder):
        kept = _Kept(spec, session, spent_before(within(spec.folder / RUN)), events)
        contest = _compete(spec, session, kept.progress)
        kept.write(signature=contest.signature)
    return contest


@dataclass(frozen=True, slots=True)
class _Kept:
    """Writes what the runs of a contest have asked, as soon as their answers are stored."""

    spec: ContestSpec
    session: Session
    earlier: Sequence[SpentCosts]
    events: Events

    def write(self, **more: str) -> None:
        """Write run.json."""
        spent = all_spent(self.earlier, self.session.spent())
        write_json(
            self.spec.folder / RUN, {**asdict(self.spec.config), **more, "spent": spent_json(spent)}
        )

    @contextmanager
    def progress(self, what: str) -> Iterator[Progress]:
        """Report progress, and write run.json with it."""
        with self.events.progress(what, self.session.under_way) as show:

            def progress(done: int, total: int | None, note: str = "", each: int = 0, /) -> None:
                self.write()
                if show is not None:
                    show(done, total, note, each)

            try:
                yield progress
            finally:
                self.write()


def _compete(
    spec: ContestSpec,
    session: Session,
    bars: Callable[[str], AbstractContextManager[Progress | None]],
) -> Contest:
    instances, criteria, folder = spec.instances, spec.criteria, spec.folder
    sampling, explain = spec.sampling, spec.explain
    _check(spec.models, criteria)
    models = {}
    for name, model in spec.models.items():
        models[name] = session.open(model, spec.model_options.get(name))
    judge = session.open(spec.judge, spec.judge_options)
    with bars("writing") as progress:
        texts = _generate(instances, models, folder / GENERATED, sampling, progress)
    template = judging_template(judge, TASK, "pairwise", spec.prompts)
    asked = run_of(judge, template)
    log = JudgmentIndex(within(folder / f"pairwise-{asked.recipe.digest}-0.jsonl"), asked)
    pair_judge = Asker(judge, template, log)
    with bars("judging") as progress:
        pairs = list(_pairs(instances, models, criteria, texts))
        questions = [question for pair in pairs for question in pair.questions]
        judgments = pair_judge.ask(questions, progress)
    trials = []
    unjudged = []
    for pair, *both in zip(pairs, judgments[::2], judgments[1::2], strict=True):
        trials.append(pair.trial(both))
        if any(isinstance(judgment, NotJudged) for judgment in both):
            unjudged.append(pair)
    if explain:
        with bars("explaining") as progress:
            trials = _explained(pairs, trials, judge, sampling, progress)
    if explain and isinstance(judge, DryRunBackend):
        possible = [pair.why(best) for pair in unjudged for best in (pair.one, pair.other)]
        with judge.at_most(len(unjudged)):
            judge.write(possible, sampling)
    standings = standings_of(
        trials,
        {key for key, generated in texts.items() if generated.text is not None},
        rows=ids_of(instances),
        models=list(models),
        criteria=names_of(criteria),
        weights=[getattr(criterion, "weight", 1.0) for criterion in criteria],
    )
    writers = "+".join(f"{name}={backend.fingerprint}" for name, backend in models.items())
    contest = Contest(
        generated=tuple(texts.values()),
        trials=tuple(trials),
        standings=tuple(standings),
        failures=tuple(_failures(instances, texts.values())),
        low_mass=sum(map(has_low_mass, judgments)),
        signature=f"compete|models:{writers}|{pair_judge.signature}|orders:2",
    )
    with atomic(folder / RESULTS) as stream:
        for fields in _results(contest, instances, criteria):
            stream.write(to_json(fields) + b"\n")
    return contest


def _failures(instances: Iterable[Instance], generated: Iterable[Generated]) -> Iterator[str]:
    """Yield a sentence for each row without a prompt, and for each model without a text for a row."""
    for instance in instances:
        if instance.prompt is None:
            yield f"{instance.where}: {instance.note}"
    for each in generated:
        if each.text is None:
            yield f"row {each.row!r}, model {each.model!r}: {each.note}"


def _check(models: Mapping[str, object], criteria: Sequence[Dimension]) -> None:
    if len(models) < 2:
        raise UsageError(
            f"a contest needs two models or more, found {', '.join(models) or 'none'}; add one"
        )
    names = names_of(criteria)
    if not names or len(set(names)) < len(names) or OVERALL in names:
        raise UsageError(
            f"a contest needs one criterion or more, with different names and none called {OVERALL!r}, found "
            f"{', '.join(names) or 'none'}"
        )


def _results(
    contest: Contest, instances: Sequence[Instance], criteria: Sequence[Dimension]
) -> Iterator[Mapping[str, object]]:
    yield {"kind": "contest", "signature": contest.signature}
    for instance in instances:
        text = None if instance.prompt is None else instance.prompt.text
        yield {"kind": "row", "row": instance.id, "prompt": text, "note": instance.note}
    for criterion in criteria:
        fields = asdict(criterion)
        yield {"kind": "criterion", "criterion": fields.pop("name"), **fields}
    for generated in contest.generated:
        names = ("row", "model", "text", "finish", "note")
        yield {"kind": "text", **{name: getattr(generated, name) for name in names}}
    yield from map(asdict, contest.trials)
    yield from map(asdict, contest.standings)


def _key(prompt: Prompt, backend: Backend, sampling: Sampling) -> str:
    words = "\0".join([backend.fingerprint, repr(sampling), prompt.text])
    return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _stored(path: Path) -> dict[tuple[str, str, str], Generated]:
    """Read the texts of a file by row, model and key. An incomplete last line is left out; failures are tried again."""
    stored = {}
    for where, line in read_appended(path):
        generated = from_line(Generated, line, where)
        if generated.text is not None:
            stored[generated.row, generated.model, generated.key] = generated
    return stored


def _generated(row: str, model: str, key: str, completion: Completion) -> Generated:
    """Return the text of a model for a row; a completion that cannot be used leaves the reason."""
    failure = None
    if completion.finish == "error":
        failure = completion.note or "the model failed"
    elif not completion.text.strip():
        failure = "the model wrote nothing"
    elif not is_unicode(completion.text):
        failure = "the text holds half a surrogate pair, which no file can hold"
    return Generated(
        row=row,
        model=model,
        text=completion.text if failure is None else None,
        finish=completion.finish,
        key=key,
        note=failure or completion.note,
    )


def _generate(
    instances: Sequence[Instance],
    models: Mapping[str, Backend],
    path: Path,
    sampling: Sampling,
    progress: Progress | None,
) -> dict[tuple[str, str], Generated]:
    """Let every model write a text for every row that has a prompt."""
    stored = _stored(path)
    texts: dict[tuple[str, str], Generated] = {}
    prompts: dict[str, Prompt] = {}
    for instance in instances:
        if instance.prompt is not None:
            prompts[instance.id] = instance.prompt
    for model, backend in models.items():
        drawn = sampling.filled(backend.default_sampling)
        missing = {}
        for row, prompt in prompts.items():
            key = _key(prompt, backend, drawn)
            if (row, model, key) in stored:
                texts[row, model] = stored[row, model, key]
            else:
                missing[row] = key
        for batch in in_batches(backend, list(missing), BATCH):
            asked = [prompts[row] for row in batch]
            completions = whole(backend, asked, backend.write(asked, drawn))
            fresh = []
            for row, completion in zip(batch, completions, strict=True):
                texts[row, model] = _generated(row, model, missing[row], completion)
                fresh.append(texts[row, model])
            append_records(path, fresh)
            if progress is not None:
                progress(len(texts), len(prompts) * len(models))
    return {(row, model): texts[row, model] for row in prompts for model in models}


class _Pair(NamedTuple):
    """The texts of two models for a row, which are compared by a criterion."""

    context: Context
    criterion: Dimension
    one: Output
    other: Output

    @property
    def questions(self) -> list[Question]:
        """Ask in both orders, one after the other."""
        return [
            pair_question(self.context, self.criterion, self.one, self.other),
            pair_question(self.context, self.criterion, self.other, self.one),
        ]

    def trial(self, judgments: Sequence[Judgment]) -> Trial:
        """Return the result of the judgments of both orders."""
        probabilities = first_probabilities(judgments)
        probabilities[1] = 1 - probabilities[1]
        decision, swapped = decisions(probabilities).tolist()
        forward, backward = known_numbers(probabilities)
        winner = None
        if decision == swapped != 0.5:
            winner = self.one.system if decision == 1 else self.other.system
        masses = [judgment.mass for judgment in judgments if judgment.mass is not None]
        notes = [judgment.note for judgment in judgments if judgment.logprobs is None]
        return Trial(
            row=self.context.id,
            criterion=self.criterion.name,
            one=self.one.system,
            other=self.other.system,
            forward=forward,
            backward=backward,
            winner=winner,
            tie=winner is None and forward is not None and backward is not None,
            note=notes[0] if notes else None,
            mass=min(masses, default=None),
        )

    def why(self, best: Output) -> Prompt:
        """Write the prompt that asks why one of the texts is better."""
        other = self.other if best is self.one else self.one
        slots = {
            "context": self.context.text,
            "target": best.text,
            "reference": other.text,
            "dimension": self.criterion.name,
            "description": self.criterion.description,
        }
        return _WHY.filled(slots, "explain")


def _pairs(
    instances: Sequence[Instance],
    models: Iterable[str],
    criteria: Sequence[Dimension],
    texts: Mapping[tuple[str, str], Generated],
) -> Iterator[_Pair]:
    """Yield every pair of texts for one row, on each criterion."""
    for instance in instances:
        if instance.prompt is None:
            continue
        context = Context(id=instance.id, task=TASK, text=instance.prompt.text)
        outputs = []
        for model in models:
            text = texts[instance.id, model].text
            if text is not None:
                outputs.append(Output(id=model, context_id=instance.id, system=model, text=text))
        for criterion in criteria:
            for one, other in itertools.combinations(outputs, 2):
                yield _Pair(context, criterion, one, other)


def _explained(
    pairs: Sequence[_Pair],
    trials: Sequence[Trial],
    judge: Backend,
    sampling: Sampling,
    progress: Progress | None,
) -> list[Trial]:
    """Add the judge's explanation to trials with a winner, or a note where the judge gave none."""
    decided = [number for number, trial in enumerate(trials) if trial.winner is not None]
    explained = list(trials)
    done = 0
    for batch in in_batches(judge, decided, BATCH):
        prompts = []
        for number in batch:
            pair = pairs[number]
            one_won = trials[number].winner == pair.one.system
            prompts.append(pair.why(pair.one if one_won else pair.other))
        completions = whole(judge, prompts, judge.write(prompts, sampling))
        for number, completion in zip(batch, completions, strict=True):
            if completion.finish == "error":
                note = f"no explanation: {completion.note}"
                explained[number] = replace(trials[number], note=note)
            else:
                explained[number] = replace(trials[number], explanation=completion.text.strip())
        done += len(batch)
        if progress is not None:
            progress(done, len(decided))
    return explained
