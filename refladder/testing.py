"""Contracts of what can be plugged in: backends, benchmarks, prompts, rules, methods and modes.

A package that brings one calls these in its own tests; they raise errors with clear text and need no test runner.
"""

from __future__ import annotations

import json
import math
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from refladder.backends import Backend, connect
from refladder.backends.dry_run import DryRunBackend
from refladder.backends.metered import Metered
from refladder.commands.score import score
from refladder.errors import (
    AnswersAwaitedError,
    BackendError,
    RefladderError,
    ShapeError,
    UnknownNameError,
    UsageError,
    plural,
)
from refladder.files.ladder_sets import ladder_set
from refladder.files.tables import Row
from refladder.jobs.rescore_command import rescore
from refladder.ladders.certify_command import certify
from refladder.loaders import check_integrity
from refladder.loaders.input_rows import Item
from refladder.loaders.scored_tables import run_of
from refladder.methods.contract import MethodResult, MethodSettings
from refladder.prompts import check_template
from refladder.records import (
    LOSS,
    TIE,
    WIN,
    Benchmark,
    Completion,
    Context,
    Dimension,
    Exactness,
    LabelReading,
    Output,
    Prompt,
    Rating,
    Sampling,
    by_id,
    digest_of,
    ids_of,
    impossible,
    names_of,
)
from refladder.registry import registered
from refladder.scoring.columns import Columns
from refladder.scoring.judgment_file import JudgmentLog, read_judgments
from refladder.scoring.modes import mode_of
from refladder.scoring.rules import bounds_of
from refladder.scoring.scorer import LadderScorer
from refladder.settings import Scoring
from refladder.synth.ladders import build_ladders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from refladder.backends.dry_run import Estimate
    from refladder.methods.contract import EvaluationMethod, Judge
    from refladder.prompts import Template
    from refladder.scoring.modes import Mode
    from refladder.scoring.rules import Rule

_MASS_SLACK = 1e-6
_FINISHES = ("stop", "length", "error")
_CRITERION = {
    "background": "",
    "dimension": "coherence",
    "description": "The text hangs together from start to end.",
}
_ARTICLES = (
    "The harbour of Lerwick was closed on Monday after a storm. The harbour master said it opens again on Thursday.",
    "A baker in Ghent gives yesterday's bread away. Students carry it through the town by bicycle every morning.",
    "The library lends tools as well as books. Drills and ladders are the favourites, and no one has lost one yet.",
)


def _prompt(role: str, slots: dict[str, str], labels: dict[str, str]) -> Prompt:
    names = tuple(slots)
    return Prompt(
        task="summarization",
        role=role,
        literals=(
            f"Task: {role}.\n{names[0]}: ",
            *(f"\n{name}: " for name in names[1:]),
            "\nAnswer:",
        ),
        names=names,
        slots=slots,
        labels=tuple(labels.values()),
        outcomes=tuple(labels),
    )


def _writing_prompts() -> list[Prompt]:
    criteria = [{"context": article, **_CRITERION} for article in _ARTICLES]
    return [
        _prompt("worst", criteria[0], {}),
        _prompt("best", criteria[1], {}),
        _prompt(
            "between",
            {**criteria[2], "lower": "Tools.", "higher": "A library lends tools and loses none."},
            {},
        ),
    ]


def _judging_prompts() -> list[Prompt]:
    labels = {WIN: "Better", LOSS: "Worse", TIE: "Similar"}
    prompts = []
    pairs = [
        ("Divers divers divers.", "A storm closed the harbour of Lerwick until Thursday."),
        (
            "Students carry old bread through Ghent every morning.",
            "Bread. The mayor. Bicycle bread.",
        ),
        ("The library lends tools.", "The library lends drills and ladders as well as books."),
    ]
    for article, (reference, target) in zip(_ARTICLES, pairs, strict=True):
        slots = {"context": article, **_CRITERION, "reference": reference, "target": target}
        prompts.append(_prompt("compare", slots, labels))
    return prompts


def check_backend(backend: Backend, *, tolerance: float = 1e-6) -> None:
    """Check that a backend keeps to the contract of `refladder.backends.Backend`, with a few small prompts.

    Checked: the fingerprint is one stable line without `|`; both methods give one answer for each prompt, in order,
    and the same answer to a row alone, in a batch and in another order; a completion's `finish` is known, and a failed
    one says why; a reading has one finite log-probability for each label, or None with a reason; its mass is in [0, 1].

    Args:
        backend: an open backend. Rows that it cannot answer are allowed; they must say why.
        tolerance: how far a log-probability, in nats, may move with the batch; half precision needs more.

    Raises:
        BackendError: what the backend does, and what it should do.
    """
    if not isinstance(backend, Backend):
        raise BackendError(
            f"{type(backend).__name__}: a backend is a subclass of refladder.backends.Backend"
        )
    fingerprint = backend.fingerprint
    subject = f"backend {fingerprint!r}"
    is_line = isinstance(fingerprint, str) and fingerprint.splitlines() == [fingerprint]
    if not is_line or "|" in fingerprint:
        raise BackendError(f"{subject}: a fingerprint is one line of text without '|'")
    _check_writing(backend, subject)
    _check_reading(backend, subject, tolerance)
    if backend.fingerprint != fingerprint:
        raise BackendError(
            f"{subject}: the fingerprint changed with use to {backend.fingerprint!r}; it must not"
        )


def _check_writing(backend: Backend, subject: str) -> None:
    prompts = _writing_prompts()
    sampling = Sampling(max_tokens=64, temperature=1.0, top_p=1.0, seed=1)
    together = backend.write(prompts, sampling)
    _check_count(f"{subject}: write", together, prompts)
    for completion in together:
        if not isinstance(completion, Completion) or not isinstance(completion.text, str):
            raise BackendError(
                f"{subject}: write gave {completion!r:.80}; give a Completion with a text"
            )
        if completion.finish not in _FINISHES:
            raise BackendError(
                f"{subject}: finish is one of {', '.join(_FINISHES)}, found {completion.finish!r}"
            )
        if completion.finish == "error" and not completion.note:
            raise BackendError(
                f"{subject}: a completion with finish 'error' has no note; say why it failed"
            )
    backwards = backend.write(prompts[::-1], sampling)
    _check_count(f"{subject}: write", backwards, prompts)
    for prompt, first, turned in zip(prompts, together, reversed(backwards), strict=True):
        alone = backend.write([prompt], sampling)
        _check_count(f"{subject}: write", alone, [prompt])
        if not first == turned == alone[0]:
            raise BackendError(
                f"{subject}: the text for the {prompt.role!r} prompt depends on its batch or its place in it; "
                "the same prompt and seed must give the same text"
            )


def _check_reading(backend: Backend, subject: str, tolerance: float) -> None:
    prompts = _judging_prompts()
    labels = prompts[0].labels
    together = backend.read_labels(prompts, labels)
    _check_count(f"{subject}: read_labels", together, prompts)
    for reading in together:
        _check_one_reading(reading, labels, subject)
    backwards = backend.read_labels(prompts[::-1], labels)
    _check_count(f"{subject}: read_labels", backwards, prompts)
    rows = zip(prompts, together, reversed(backwards), strict=True)
    for number, (prompt, first, turned) in enumerate(rows, start=1):
        alone = backend.read_labels([prompt], labels)
        _check_count(f"{subject}: read_labels", alone, [prompt])
        if not (_close(first, turned, tolerance) and _close(first, alone[0], tolerance)):
            raise BackendError(
                f"{subject}: the reading of prompt {number} depends on its batch or its place in it by more than "
                f"{tolerance:g}; the same prompt must give the same reading"
            )
    turned_labels = backend.read_labels(prompts, labels[::-1])
    _check_count(f"{subject}: read_labels", turned_labels, prompts)
    for first, turned in zip(together, turned_labels, strict=True):
        mirrored = None if turned.logprobs is None else turned.logprobs[::-1]
        if not _close(first, replace(turned, logprobs=mirrored), tolerance):
            raise BackendError(
                f"{subject}: logprobs do not follow the order of the labels that were asked for"
            )


def _check_one_reading(reading: LabelReading, labels: Sequence[str], subject: str) -> None:
    if not isinstance(reading, LabelReading):
        raise BackendError(f"{subject}: read_labels gave {reading!r:.80}; give a LabelReading")
    if reading.logprobs is None:
        if not reading.reason:
            raise BackendError(
                f"{subject}: a reading without logprobs has no reason; say why it could not be read"
            )
        return
    if reading.reason is not None:
        raise BackendError(
            f"{subject}: a reading with logprobs has the reason {reading.reason!r:.60} for their absence; "
            "put text for people in `note`"
        )
    if reading.exactness not in get_args(Exactness):
        raise BackendError(
            f"{subject}: exactness is one of {', '.join(get_args(Exactness))}, found {reading.exactness!r}"
        )
    if len(reading.logprobs) != len(labels):
        raise BackendError(
            f"{subject}: {len(reading.logprobs)} logprobs for {len(labels)} labels; give one for each"
        )
    if wrong := impossible(reading.logprobs, None):
        raise BackendError(f"{subject}: {wrong}; a row that cannot be read has None and a reason")
    if reading.mass is None or not 0 <= reading.mass <= 1 + _MASS_SLACK:
        raise BackendError(
            f"{subject}: mass is the probability of all labels together, in [0, 1], found {reading.mass}"
        )


def _check_count(what: str, answers: Sequence[object], prompts: Sequence[Prompt]) -> None:
    if len(answers) != len(prompts):
        raise BackendError(
            f"{what} gave {len(answers)} answers for {len(prompts)} prompts; give one for each, in order"
        )


def _close(first: LabelReading, second: LabelReading, tolerance: float) -> bool:
    if first.logprobs is None or second.logprobs is None:
        return first.logprobs == second.logprobs
    if len(first.logprobs) != len(second.logprobs):
        return False
    pairs = zip(first.logprobs, second.logprobs, strict=True)
    return all(abs(value - other) <= tolerance for value, other in pairs)


def check_benchmark(benchmark: Benchmark) -> None:
    """Check what a benchmark loader returns.

    Raises:
        DataError: it has no context or no dimension; an id appears twice; an output or a rating refers to a missing
            record; a rating lies outside its dimension's scale; a dimension has no description or an empty scale;
            contexts have different tasks or no text.
    """
    check_integrity(benchmark)


def check_prompt(template: Template) -> None:
    """Check that a template keeps to the contract of `refladder.prompts`.

    Raises:
        PromptError: what is wrong with it, and where.
    """
    check_template(template)


def check_estimator(rule: Rule) -> None:
    """Check that a rule keeps to the contract of `refladder.scoring.rules`.

    Raises:
        ShapeError: the result has another shape, leaves its bounds, falls when a verdict gets better, or hides NaN.
    """
    generator = np.random.default_rng(0)
    scale = (1.0, 5.0)
    for rungs in (2, 5, 9):
        drawn = generator.dirichlet([1.0, 1.0, 1.0], size=(64, rungs))
        values = rule(drawn, scale)
        if values.shape != (64,):
            raise ShapeError(f"a rule must return shape (outputs,), found {values.shape}")
        low, high = bounds_of(rule, rungs, scale)
        if np.any(values < low - 1e-9) or np.any(values > high + 1e-9):
            raise ShapeError(
                f"a rule's values must lie between {low} (all lost) and {high} (all won)"
            )
        better = drawn.copy()
        better[:, 0] = (1.0, 0.0, 0.0)
        if np.any(rule(better, scale) < values - 1e-9):
            raise ShapeError("a rule must not fall when one verdict becomes a sure win")
        drawn[0, 0] = np.nan
        if not np.isnan(rule(drawn, scale)[0]):
            raise ShapeError("a rule must give NaN for an output with an unparsed verdict")


def made_benchmark(task: str = "summarization") -> Benchmark:
    """Make a small benchmark for `check_method` with 3 contexts and references, 4 systems, 2 dimensions and 2 raters.

    Args:
        task: task of the contexts. The texts are summaries of news, or triples of data for data-to-text.
    """
    names = "coherence", "fluency"
    contexts, outputs, ratings = [], [], []
    for number, article in enumerate(_ARTICLES):
        first, second = article.split(". ")[:2]
        text = "(Lerwick | country | Scotland)" if task == "data-to-text" else article
        references = (first + ".", "Something else happened.")
        contexts.append(Context(id=f"c{number}", task=task, text=text, references=references))
        texts = (article, first + ".", f"{second} {second}", "Nothing of note.")
        for key, output in enumerate(texts):
            system, name = f"s{key}", f"c{number}/s{key}"
            outputs.append(Output(id=name, context_id=f"c{number}", system=system, text=output))
            for dimension in names:
                for rater, value in (("one", 5.0 - key), ("two", 4.0 - key)):
                    rating = Rating(output_id=name, dimension=dimension, value=value, rater=rater)
                    ratings.append(rating)
    description = _CRITERION["description"]
    return Benchmark(
        name="made",
        revision="1",
        licence="CC0-1.0",
        dimensions=tuple(Dimension(name=name, description=description) for name in names),
        contexts=tuple(contexts),
        outputs=tuple(outputs),
        ratings=tuple(ratings),
    )


class _Mute(Backend):
    """A judge that answers nothing and counts its prompts."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self.asked = 0

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        self.asked += len(prompts)
        return [Completion(finish="error", note="no answer") for _ in prompts]

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        self.asked += len(prompts)
        return [LabelReading(reason="no answer") for _ in prompts]


def check_method(
    name: str,
    method: EvaluationMethod,
    *,
    judge: Judge | None = None,
    options: Mapping[str, str] | None = None,
    benchmark: Benchmark | None = None,
) -> MethodResult:
    """Check that a method keeps to the contract of `refladder.methods.contract`, on a small benchmark.

    Checked: it gives a method of its own name with finite scores or None, for outputs and dimensions that were asked
    for, and a signature of one line; or it says why it could not run. A repeated run gives equal scores, and so does
    one without the ratings: no method may see them. A key of an option that it does not have is refused. Counts of
    judgments fit each other, by context and dimension. A judge that answers nothing gives no score, and is counted. A
    dry run counts as many prompts as the judge is asked, or more where the numbers are bounds.

    Args:
        name: name of the method, for its options and for messages.
        method: the method.
        judge: opens the judge that answers; the builtin one by default. It also writes the ladders where it can.
        options: options of the method, under `NAME.KEY`.
        benchmark: the benchmark to run it on; `made_benchmark` by default.

    Returns:
        The result of the method, for further checks.

    Raises:
        UsageError: what the method does, and what it should do.
    """
    subject = f"method {name!r}"
    made = made_benchmark() if benchmark is None else benchmark
    opened = judge or (lambda: connect("builtin"))
    writer = connect("builtin")

    def settings(more: Mapping[str, str] | None = None) -> MethodSettings:
        return MethodSettings(
            rungs=3, writer=lambda: writer, options={**(options or {}), **(more or {})}
        )

    def run(on: Benchmark, by: Judge, more: Mapping[str, str] | None = None) -> MethodResult:
        return method.run(on, on.dimensions, by, settings(more))

    counted = Metered(opened())
    result = run(made, lambda: counted)
    if not isinstance(result, MethodResult):
        raise UsageError(f"{subject} gave {result!r:.80}; give a MethodResult")
    if result.method is None:
        if not result.skipped:
            raise UsageError(
                f"{subject} gave neither scores nor a reason; say in `skipped` why, and what to do"
            )
        return result
    _check_scores(subject, name, result, made)
    _check_counts(subject, result, made)
    unanswered = DryRunBackend(opened())
    unwritten = DryRunBackend(writer)
    rehearsed = replace(settings(), dry_run=True, writer=lambda: unwritten)
    method.run(made, made.dimensions, lambda: unanswered, rehearsed)
    _check_dry_run(subject, unanswered.estimate(), counted.answered)
    repeats = ((made, "a second time"), (replace(made, ratings=()), "without the ratings"))
    for again, words in repeats:
        other = run(again, opened).method
        if other is None or dict(other.scores) != dict(result.method.scores):
            raise UsageError(
                f"{subject} gives other scores {words}; equal questions must have equal answers"
            )
    _check_options(subject, name, lambda more: run(made, opened, more))
    mute = _Mute(opened().fingerprint)
    silent = run(made, lambda: mute)
    if mute.asked:
        _check_silence(subject, silent)
        _check_counts(subject, silent, made)
    return result


def _check_options(
    subject: str, name: str, run: Callable[[Mapping[str, str]], MethodResult]
) -> None:
    try:
        run({f"{name}.no-such-option": "1"})
    except UnknownNameError:
        return
    raise UsageError(
        f"{subject} takes an option that it does not have; call settings.own({name!r}, ...) first"
    )


def _check_dry_run(subject: str, estimate: Estimate, asked: int) -> None:
    counted = estimate.usage.prompts + estimate.free
    if asked > counted or (estimate.exact and asked != counted):
        bound = "" if estimate.exact else "at most "
        raise UsageError(
            f"{subject} asks {asked} prompts, and {bound}{counted} in a dry run; where answers decide what is asked, ask "
            "all possible prompts in a `with judge().at_most(...)` block"
        )


def _check_silence(subject: str, silent: MethodResult) -> None:
    scores = {} if silent.method is None else silent.method.scores
    if any(value is not None for value in scores.values()):
        raise UsageError(
            f"{subject} made numbers from a judge that answered nothing; what could not be judged is None"
        )
    if not silent.skipped and (silent.unparsed < 1 or silent.unparsed != silent.judgments):
        raise UsageError(
            f"{subject} reported {silent.unparsed} unparsed of {silent.judgments} judgments of a judge that answered "
            "nothing; count each of them"
        )


def _check_scores(subject: str, name: str, result: MethodResult, made: Benchmark) -> None:
    if result.method is None:
        return
    if result.method.name != name:
        raise UsageError(
            f"{subject} calls itself {result.method.name!r}; tables would show another name"
        )
    signature = result.method.signature
    if signature.splitlines() != [signature]:
        raise UsageError(f"{subject}: the signature is one line of text, found {signature!r}")
    keys = {(output.id, dimension.name) for output in made.outputs for dimension in made.dimensions}
    for key, value in result.method.scores.items():
        if key not in keys:
            raise UsageError(
                f"{subject} scored {key}, which is not an (output id, dimension name) of the benchmark"
            )
        if value is not None and not (isinstance(value, float) and math.isfinite(value)):
            raise UsageError(
                f"{subject} gave {key} the score {value!r}; a score is a finite float or None"
            )


def _check_counts(subject: str, result: MethodResult, made: Benchmark) -> None:
    contexts = set(ids_of(made.contexts))
    names = set(names_of(made.dimensions))
    unparsed = 0.0
    judgments = 0
    for part, (points, count) in result.measures.items():
        if part.context not in contexts or part.dimension not in names:
            raise UsageError(
                f"{subject} has a measure of {part}, and the benchmark has no such context or dimension"
            )
        if not 0 <= points <= count:
            raise UsageError(f"{subject}: {part} is {points} of {count}, which is not a share")
        if part.name == "unparsed":
            unparsed += points
            judgments += count
    if result.method is not None and (unparsed, judgments) != (result.unparsed, result.judgments):
        raise UsageError(
            f"{subject} reports {result.unparsed} unparsed of {result.judgments} judgments, and its measures "
            f"{unparsed:g} of {judgments}; give measures of all judgments, as of_judgments makes them"
        )


class _Answering(Backend):
    """A judge with the answers that a mode can read; it counts prompts and keeps what it said to each."""

    fingerprint = "check_mode/1"

    def __init__(self, answer: Callable[[Prompt], str]) -> None:
        self._answer = answer
        self.asked = 0
        self.said: dict[str, str] = {}

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        self.asked += len(prompts)
        for prompt in prompts:
            label = prompt.labels and prompt.labels[-len(prompt.text) % len(prompt.labels)]
            self.said[prompt.text] = label or self._answer(prompt)
        return [Completion(text=self.said[prompt.text]) for prompt in prompts]

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        self.asked += len(prompts)
        readings = []
        for prompt in prompts:
            weights = [1 + int(digest_of(prompt.text, label), 16) % 9 for label in labels]
            self.said[prompt.text] = labels[weights.index(max(weights))]
            logprobs = tuple(math.log(weight / sum(weights)) for weight in weights)
            readings.append(LabelReading(logprobs=logprobs, mass=1.0))
        return readings


def check_mode(mode: Mode | str, answer: Callable[[Prompt], str] | None = None) -> None:
    """Check that a mode keeps its promise: all that `--answers` goes with works with it, on two small ladder sets.

    Checked, with a ladder for each context and with a shared set: texts get scores within the ends of the scale. A second
    run asks nothing and gives the same rows. `rescore` and `judgments_from` give the same scores from its judgments.
    `certify` judges every pair of rungs, asks nothing a second time, and makes the same certificate from kept judgments.
    A dry run counts the prompts that are asked, and each text takes as many as the mode says. Answers in files give the
    same scores as those of a judge.

    Args:
        mode: its name, or an object that is not installed.
        answer: gives an answer that the mode can read, for a prompt; needed by a mode that `writes`.

    Raises:
        UsageError: what the mode does, and what it should do.
    """
    name = mode if isinstance(mode, str) else mode.name
    with ExitStack() as stack:
        if not isinstance(mode, str):
            stack.enter_context(registered("mode", name, lambda: mode))
        found = mode_of(name)
        subject = f"mode {found.name!r}"
        if answer is None and found.writes:
            raise UsageError(
                f"{subject} lets the judge write; give check_mode a function that answers a prompt"
            )
        for shared in (False, True):
            folder = Path(stack.enter_context(TemporaryDirectory()))
            _CheckedMode(subject, found.name, answer or str, shared=shared).check(folder)


class _CheckedMode:
    """A mode that is checked on one ladder set; each step names itself in the error that it raises."""

    def __init__(
        self, subject: str, name: str, answer: Callable[[Prompt], str], *, shared: bool
    ) -> None:
        self._subject, self._name, self._answer = subject, name, answer
        made = made_benchmark()
        ladders, _ = build_ladders(connect("builtin"), made.contexts, made.dimensions)
        anchors = ids_of(made.contexts) if shared else ()
        self._ladders = ladder_set("made", made.dimensions, made.contexts, ladders, anchors=anchors)
        contexts = by_id(made.contexts)
        self._rows, self._items = [], []
        for output in made.outputs:
            context = contexts[output.context_id]
            row = {"context_id": context.id, "context": context.text}
            self._rows.append({**row, "output_id": output.id, "output": output.text})
            self._items.append(Item(Row(output.id, {}), output, context=context))

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        try:
            yield
        except RefladderError as error:
            raise UsageError(f"{self._subject}, {what}: {error}") from error

    def check(self, folder: Path) -> None:
        """Run all steps; files go into `folder`."""
        judge = _Answering(self._answer)
        out, kept = folder / "scored.jsonl", folder / "scored.jsonl.judgments.jsonl"
        with self._step("score"):
            self._score(judge, out=out)
            scored = list(map(json.loads, out.read_text("utf-8").splitlines()))
            _check_scale(scored, run_of(str(out)).scales or {})
            named = read_judgments(kept)[0].answers
            if mode_of(named).name != self._name:
                raise UsageError(f"the judgments file names the mode {named!r}")
        with self._step("score, a second time"):
            silent = _Answering(self._answer)
            _check_same(scored, self._scored(silent, self._items, kept)[0])
            _check_silent(silent)
        with self._step("rescore"):
            rescored = rescore(kept)
            _check_same(scored, rescored)
            for row, again in zip(scored, rescored, strict=True):
                if again["signature"] != row["signature"]:
                    raise UsageError(
                        f"the signature is {again['signature']}, and was {row['signature']}"
                    )
        with self._step("score from recorded judgments"):
            _check_same(scored, self._score(None, judgments_from=kept))
        with self._step("certify"):
            self._certify(_Answering(self._answer), folder / "certify.jsonl")
        with self._step("certify, a second time"):
            silent = _Answering(self._answer)
            certificate = self._certify(silent, folder / "certify.jsonl")
            _check_silent(silent)
        with self._step("certify from kept judgments"):
            if certify(self._ladders, judgments_from=folder / "certify.jsonl") != certificate:
                raise UsageError("the certificate is another one")
        with self._step("dry run"):
            self._check_dry_run()
        with self._step("answers in files"):
            found = self._score_files(folder / "files", judge.said)
            if mode_of(self._name).writes:
                _check_same(scored, found)

    def _score(self, judge: Backend | None, **more: Any) -> list[dict[str, Any]]:
        """Score the rows by a judge, or from recorded judgments."""
        asked: dict[str, Any] = {"judge": judge, "answers": self._name} if judge else {}
        found = score(
            self._rows, ladders=self._ladders, any_judge=True, store=False, **asked, **more
        )
        return found if isinstance(found, list) else []

    def _scored(
        self, judge: Backend, items: Sequence[Item], judgments: Path | None = None
    ) -> tuple[list[dict[str, Any]], int]:
        """Score items without a judge check, which is asked anew; return the prompts of a row too."""
        scorer = LadderScorer(judge, self._ladders, Scoring(answers=self._name))
        with JudgmentLog(judgments, scorer.run) as log:
            scores = scorer.score(items, log)
            log.finish()
        return [*Columns(scorer.run, scorer.scale).rows(scores)], scorer.prompts_of_a_row

    def _certify(self, judge: Backend, judgments: Path) -> dict[str, Any]:
        made = certify(
            self._ladders, judge=judge, answers=self._name, judgments=judgments, store=False
        )
        counts = made["counts"]
        if counts["unparsed"] or not counts["judgments"]:
            raise UsageError(
                f"{counts['unparsed']} of {counts['judgments']} judgments of pairs of rungs are unparsed"
            )
        return made

    def _check_dry_run(self) -> None:
        """Compare the prompts of a dry run, and those of one text more, with what is asked."""
        asked = []
        for number in (1, 2):
            judge, dry = _Answering(self._answer), DryRunBackend(_Answering(self._answer))
            _, of_a_row = self._scored(judge, self._items[:number])
            self._scored(dry, self._items[:number])
            counted = dry.estimate().usage.prompts + dry.estimate().free
            if counted != judge.asked:
                raise UsageError(f"{counted} prompts are counted, and {judge.asked} asked")
            asked.append(judge.asked)
        if asked[1] - asked[0] != of_a_row:
            raise UsageError(
                f"prompts_of_a_row gives {of_a_row}, and a text takes {asked[1] - asked[0]}"
            )

    def _score_files(self, folder: Path, said: Mapping[str, str]) -> list[dict[str, Any]]:
        """Score with answers in files: the judge check is asked first, then the rows."""
        judge = connect("openai:check", base_url=f"file:{folder}", samples=2)
        mode = mode_of(self._name)
        try:
            mode.sampling(judge, None)
        except UsageError:
            # Labels in files have no probabilities, which some modes read.
            if mode.writes:
                raise
            return []
        for _ in range(8):
            try:
                return self._score(judge)
            except AnswersAwaitedError:
                lines = []
                for path in sorted(folder.glob("requests-[0-9]*.jsonl")):
                    for request in map(json.loads, path.read_text("utf-8").splitlines()):
                        text = said.get(request["body"]["messages"][-1]["content"])
                        if text is None:
                            raise UsageError(
                                "a prompt that was not asked before; equal questions must have equal prompts"
                            ) from None
                        lines.append(json.dumps({"custom_id": request["custom_id"], "text": text}))
                (folder / "answers.jsonl").write_text("\n".join(lines), "utf-8")
        raise UsageError("requests still wait when all have their answer")


def _check_scale(
    rows: Sequence[Mapping[str, Any]], scales: Mapping[str, tuple[float, float]]
) -> None:
    """Check that each text has its scores, within the ends of their scales."""
    for row in rows:
        for column, (low, high) in scales.items():
            value = row[column]
            if value is None and column.endswith("_score"):
                note = row[column.replace("_score", "_note")]
                raise UsageError(
                    f"a text has no {column} ({note}); give answers that the mode reads"
                )
            if value is not None and not low - 1e-9 <= value <= high + 1e-9:
                raise UsageError(f"{column} is {value:g}, and bounds gives {low:g} to {high:g}")


def _check_same(expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> None:
    """Check that rows have the scores that they had. A judge that is refused gives no grades, so one may lack them."""
    for row, other in zip(expected, found, strict=True):
        for column, value in row.items():
            again = other.get(column)
            is_grade = column.endswith("_grade") and None in {value, again}
            if not column.endswith(("_score", "_grade")) or is_grade:
                continue
            if again is None or not math.isclose(value, again, abs_tol=1e-9):
                raise UsageError(f"{column} is {again}, and was {value}")


def _check_silent(judge: _Answering) -> None:
    if judge.asked:
        raise UsageError(
            f"{plural(judge.asked, 'prompt')} asked again; equal questions must have equal keys, in one order"
        )
