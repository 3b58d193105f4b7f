"""The evaluation methods by name, and what a method is.

A method is a function::

    def my_method(
        benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings
    ) -> MethodResult: ...

- `judge()` opens the backend that the user named, the first time it is called; a method that needs no judge (BLEU)
  never calls it. What comes back counts prompts, characters and seconds for the report card.
- `settings` holds what the user asked for. What only one method knows comes in `settings.options` as text under
  `METHOD.KEY`; `settings.own("METHOD", {"answers": "1"})` gives that method's options over their defaults and refuses
  a key it does not have.
- The result holds one `Method`: its scores by (output id, dimension name), higher is better, None where an output has
  no score (it is counted, never filled in), and the signature of all that made them. A method that has nothing to work
  on (no references, no checkpoint) gives `method` None and says in `skipped` why and what to do.

To add one, write the function and put one line in METHODS, or register it as an entry point of the group
`refladder.method`; `refladder.testing.check_method` tests it. `run_methods` runs them in the order asked for; the
tables show them in that order.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, cast

from refladder import registry
from refladder.backends.metered import Counted, total
from refladder.errors import UnknownNameError, UsageError
from refladder.files.ladder_sets import read_ladder_set
from refladder.files.locks import locked_folder
from refladder.jobs.evaluate import LADDER, Method, evaluation_ladders, ladders_for, score_benchmark
from refladder.jobs.score import Scorer
from refladder.methods.measures import Measures, joined, of_judgments, of_orders
from refladder.records import Sampling
from refladder.scoring.columns import Scale
from refladder.scoring.judging import LEAST_MASS
from refladder.scoring.rules import DEFAULT_RULE, rule_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.metered import Spent
    from refladder.jobs import Progress
    from refladder.methods.measures import Part
    from refladder.methods.pairwise import Comparisons
    from refladder.records import Benchmark, Dimension, Judgment
    from refladder.scoring.columns import ScoreReport

    Judge = Callable[[], Backend]

METHODS = {
    LADDER: "refladder.methods.contract:ladder",
    "win-ratio": "refladder.methods.pairwise:win_ratio",
    "win-ratio-debiased": "refladder.methods.pairwise:win_ratio_debiased",
    "mean-probability": "refladder.methods.pairwise:mean_probability",
    "mean-probability-debiased": "refladder.methods.pairwise:mean_probability_debiased",
    "bradley-terry": "refladder.methods.pairwise:bradley_terry",
    "poe": "refladder.methods.pairwise:product_of_experts",
    "likelihood": "refladder.methods.pairwise:likelihood",
    "pairs-greedy": "refladder.methods.pairs:pairs_greedy",
    "pairs-beam": "refladder.methods.pairs:pairs_beam",
    "zepo": "refladder.methods.zepo:zepo",
    "direct-5": "refladder.methods.direct:direct_5",
    "direct-10": "refladder.methods.direct:direct_10",
    "g-eval-5": "refladder.methods.direct:g_eval_5",
    "g-eval-10": "refladder.methods.direct:g_eval_10",
    "gptscore": "refladder.methods.direct:gptscore",
    "bleu": "refladder.methods.metrics:BLEU",
    "chrf": "refladder.methods.metrics:CHRF",
    "rouge-1": "refladder.methods.metrics:ROUGE_1",
    "rouge-2": "refladder.methods.metrics:ROUGE_2",
    "rouge-l": "refladder.methods.metrics:ROUGE_L",
    "meteor": "refladder.methods.metrics:METEOR",
    "bertscore": "refladder.methods.metrics:bertscore",
    "unieval": "refladder.methods.metrics:unieval",
    "nli": "refladder.methods.metrics:nli",
    "regressor": "refladder.methods.metrics:regressor",
    "questeval": "refladder.methods.metrics:questeval",
    "mqag": "refladder.methods.metrics:mqag",
}
CHECKPOINT = "checkpoint"  # the option that `METHOD:PATH` sets


def _silent(_what: str) -> AbstractContextManager[Progress | None]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings:
    """What the user asked for, the same for every method of a run.

    `writer` opens the backend that writes (ladders, prompts); the judge where it is None. `ladders` names a set that
    exists. `orders` is 1, or 2 to ask every pair of the ladder in both. `prompts` is the user's folder of templates.
    A judgment whose label mass is below `least_mass` is unparsed.
    `work` is the folder where a method keeps what it asked, in files of its own name, to go on from; `restart` throws
    that away. `counting` is set where calls are counted and none is made: a method that asks no judge then has no work.

    `answers` 0 reads label probabilities, K samples K written answers. For methods that compare outputs with each
    other: `budget` is the number of comparisons of one context and dimension (None: all pairs in both orders), chosen
    by `selection` (see `refladder.ranking.selection`). `kept` holds what was answered in this run, by judge and
    template and then by question, so that no method asks again what another has asked.

    `progress(what)` gives a context manager with a function of (done, in all), or None.
    """

    seed: int = 0
    writer: Judge | None = None
    ladders: str | None = None
    rungs: int = 5
    attempts: int = 3
    sampling: Sampling = field(default_factory=Sampling)
    rule: str = DEFAULT_RULE
    least_mass: float = LEAST_MASS
    orders: int = 1
    yes_no: bool = False
    budget: int | None = None
    selection: str = "symmetric"
    answers: int = 0
    kept: dict[str, dict[str, Judgment]] = field(default_factory=dict)
    prompts: Path | None = None
    work: Path | None = None
    restart: bool = False
    counting: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[str], AbstractContextManager[Progress | None]] = _silent

    def own(self, method: str, defaults: Mapping[str, str]) -> dict[str, str]:
        """The options of one method, over their defaults.

        Raises:
            UnknownNameError: the user gave `METHOD.KEY` with a key that stands not in `defaults`.
        """
        given = {key.partition(".")[2]: value for key, value in self.options.items() if key.partition(".")[0] == method}
        for key in given:
            if key not in defaults:
                raise UnknownNameError(f"option of method {method!r}", key, defaults)
        return {**defaults, **given}


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodResult:
    """What a method found, and its counts.

    `judgments` were needed, `reused` of them were kept from before, `unreadable` of them gave no number. `characters`
    is the length of all prompts that were needed, where the method knows it; else what was sent is counted.
    `measures` are shares for the report card, those of `refladder.methods.measures.of_judgments` among them.
    `comparisons` are answers about pairs of outputs, as the judge gave them. `thresholds` are those that a method which
    debiases used, by dimension; the card reads comparisons with them. `report` is for the ladder's own
    summary. `notes` are sentences for the user.
    """

    method: Method | None
    skipped: str | None = None
    judgments: int = 0
    reused: int = 0
    unreadable: int = 0
    characters: int | None = None
    measures: Mapping[Part, tuple[float, int]] = field(default_factory=dict)
    comparisons: Sequence[Comparisons] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    report: ScoreReport | None = None
    notes: tuple[str, ...] = ()


class MethodFunction(Protocol):
    """What stands behind a name of METHODS; see the top of this module."""

    def __call__(
        self, benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
    ) -> MethodResult:
        """Score every output of a benchmark on every dimension."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodRun:
    """A method that was run, and what it cost.

    `calls` prompts of `characters` in all were asked, answered in `judge_seconds` of the `seconds` that it took;
    `spent` is what they took in tokens and money.
    """

    name: str
    result: MethodResult
    calls: int
    characters: int
    spent: Spent
    judge_seconds: float
    seconds: float


def method_named(name: str) -> MethodFunction:
    """The method of that name, built in or registered under `refladder.method`.

    Raises:
        UnknownNameError: no such method.
    """
    return cast("MethodFunction", registry.find("method", name, METHODS))


def run_methods(
    names: Sequence[str],
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Judge,
    settings: MethodSettings,
) -> list[MethodRun]:
    """Run methods one after the other; names and options are checked before anything is asked.

    Args:
        names: of METHODS, each once. `METHOD:PATH` names a checkpoint (`METHOD:PATH+PATH` several), and a method may
            stand there with several.
        benchmark: whose outputs are scored.
        dimensions: on which.
        judge: opens the judge.
        settings: for all of them.

    Raises:
        UnknownNameError: no such method, or an option of one that is not asked for.
        UsageError: a name stands there twice, or another process is writing to the folder `work`.
        RefladderError: see the methods.
    """
    functions = {name: method_named(name.partition(":")[0]) for name in names}
    if len(functions) < len(names):
        twice = next(name for name in functions if list(names).count(name) > 1)
        raise UsageError(f"method {twice!r} is asked for twice; name each method once")
    plain = {name.partition(":")[0] for name in functions}
    for key in settings.options:
        if key.partition(".")[0] not in plain:
            raise UnknownNameError("method of this run", key.partition(".")[0], plain)
    with nullcontext() if settings.work is None else locked_folder(settings.work):
        return _run(functions, benchmark, dimensions, judge, settings)


def _run(
    functions: Mapping[str, MethodFunction],
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    judge: Judge,
    settings: MethodSettings,
) -> list[MethodRun]:
    runs = []
    for name, function in functions.items():
        meters: dict[int, Counted] = {}

        def metered(open_backend: Judge, meters: dict[int, Counted] = meters) -> Judge:
            def opened() -> Backend:
                backend = open_backend()
                return meters.setdefault(id(backend), Counted(backend))

            return opened

        own = settings if settings.writer is None else replace(settings, writer=metered(settings.writer))
        method, _, checkpoint = name.partition(":")
        if checkpoint:
            own = replace(own, options={**own.options, f"{method}.{CHECKPOINT}": checkpoint})
        started = time.perf_counter()
        result = function(benchmark, dimensions, metered(judge), own)
        if checkpoint and result.method is not None:
            result = replace(result, method=replace(result.method, name=name))
        runs.append(
            MethodRun(
                name=name,
                result=result,
                calls=sum(meter.calls for meter in meters.values()),
                characters=sum(meter.characters for meter in meters.values()),
                spent=total([meter.spent for meter in meters.values()]),
                judge_seconds=sum(meter.seconds for meter in meters.values()),
                seconds=time.perf_counter() - started,
            )
        )
    return runs


def scored_methods(runs: Sequence[MethodRun], others: Sequence[Method]) -> list[Method]:
    """The methods of a table: what was run, then others.

    A method that could not be run stands there without a score, and its signature says why.

    Raises:
        UsageError: methods were asked for, none of them could be run, and there are no others.
    """
    if runs and not others and all(run.result.method is None for run in runs):
        raise UsageError("; ".join(f"{run.name}: {run.result.skipped}" for run in runs))
    found = [
        run.result.method or Method(name=run.name, signature=f"unavailable:{run.result.skipped}", scores={})
        for run in runs
    ]
    return [*found, *others]


def ladder(
    benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings, /
) -> MethodResult:
    """Compare every output with the rungs of its context's ladder, which are written unless a set is named.

    Source: arXiv 2509.05440, section 2.
    """
    settings.own(LADDER, {})
    rule_named(settings.rule)
    notes: tuple[str, ...] = ()
    if settings.ladders is not None:
        opened = ladders_for(benchmark, dimensions, read_ladder_set(settings.ladders))
    else:
        with settings.progress("writing ladders") as progress:
            opened, failures = evaluation_ladders(
                (settings.writer or judge)(),
                benchmark,
                dimensions,
                rungs=settings.rungs,
                sampling=settings.sampling,
                attempts=settings.attempts,
                prompts=settings.prompts,
                work=settings.work,
                restart=settings.restart,
                progress=progress,
            )
        if failures:
            notes = (f"{len(failures):,} rungs could not be written; their outputs have no score",)
    scorer = Scorer(
        judge(),
        opened,
        dimensions,
        Scale(rule=settings.rule, weights={}, least_mass=settings.least_mass),
        role="compare-yesno" if settings.yes_no else "compare",
        orders=settings.orders,
        prompts=settings.prompts,
        answers=settings.answers,
        sampling=replace(settings.sampling, seed=settings.seed),
    )
    with settings.progress("judging") as progress:
        measures: list[Measures] = []

        def watch(judgments: Sequence[Judgment]) -> None:
            measures.append(of_judgments(judgments))
            if settings.orders > 1:
                measures.append(of_orders(judgments))

        scorer.watch = watch
        method, report = score_benchmark(
            scorer,
            benchmark,
            judgments=settings.work / "judgments.jsonl" if settings.work else None,
            restart=settings.restart,
            progress=progress,
        )
    return MethodResult(
        method=method,
        judgments=report.judgments,
        reused=report.reused,
        unreadable=report.unreadable,
        measures=joined(measures),
        report=report,
        notes=notes,
    )
