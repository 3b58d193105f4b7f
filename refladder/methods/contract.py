"""The evaluation methods by name, and what a method is.

The name and description of a method are its line in METHODS. Its one function is in an `EvaluationMethod`::

    def run(
        benchmark: Benchmark, dimensions: Sequence[Dimension], judge: Judge, settings: MethodSettings
    ) -> MethodResult: ...

    my_method = EvaluationMethod(run=run)

- The types in this signature are for annotations only, so import them under `TYPE_CHECKING`.
- `judge()` opens the backend that the user named, the first time it is called; a method that needs no judge (BLEU)
  never calls it. The backend that it returns counts prompts, characters and seconds for the report card.
- `settings` holds what the user asked for. Options of one method are in `settings.options` as text under
  `METHOD.KEY`; `settings.own("METHOD", {"answers": "1"})` gives that method's options over their defaults and refuses
  an unknown key.
- `run` returns one `Method`: its scores by (output id, dimension name), higher is better, None where an output has
  no score (it is counted, never filled in), and the signature of all that made them. A method that cannot run (no
  references, no checkpoint) gives `method` None and says in `skipped` why and what to do.
- A dry run calls `run` with `settings.dry_run` and a judge that is `refladder.backends.dry_run.DryRunBackend`: it
  counts the prompts, gives the answers of the response store, and reads no other label. Of the result, only `skipped`
  and `notes` are used. Where answers decide which prompts are asked, `run` asks all possible prompts in a
  `with judge().at_most(...)` block. A method that runs a model of its own only opens it.

To add one, write one file and put one line in METHODS, or register it as an entry point of the group
`refladder.method`; `refladder.testing.check_method` tests it. `refladder.methods.method_runs` runs them in the order
asked for; the tables show them in that order.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from refladder.errors import UnknownNameError, UsageError
from refladder.files.jsonl import within
from refladder.methods.measures import add
from refladder.records import Context, Output, Progress, Sampling, ids_of
from refladder.registry import Entry, find, plugged_in
from refladder.scoring.judgment_file import JudgmentIndex
from refladder.scoring.modes import mode_of
from refladder.scoring.rules import DEFAULT_RULE
from refladder.settings import LEAST_MASS, Scoring
from refladder.statistics import bias
from refladder.typed import checked_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from refladder.arrays import FloatArray, IntArray
    from refladder.backends import Backend
    from refladder.files.ladder_sets import LadderSet
    from refladder.methods.measures import Measures, Part, Tally
    from refladder.records import Benchmark, Dimension, Run
    from refladder.scoring.score_report import ScoreReport
    from refladder.scoring.scorer import LadderScorer

    Judge = Callable[[], Backend]

LADDER = "ladder"


def _entry(place: str, description: str) -> Entry:
    return Entry(f"refladder.methods.{place}", description)


METHODS = {
    LADDER: _entry(
        "ladder:ladder", "compares each output with the rungs of a ladder, arXiv 2509.05440"
    ),
    "win-ratio": _entry(
        "pairwise:win_ratio",
        "share of comparisons with the other outputs that are won, arXiv 2307.07889",
    ),
    "win-ratio-debiased": _entry(
        "pairwise:win_ratio_debiased",
        "win ratio, debiased by a threshold for the position",
    ),
    "mean-probability": _entry(
        "pairwise:mean_probability", "mean probability of winning a comparison"
    ),
    "mean-probability-debiased": _entry(
        "pairwise:mean_probability_debiased",
        "mean probability, debiased by a weight for the position",
    ),
    "bradley-terry": _entry("pairwise:bradley_terry", "Bradley-Terry strengths from soft wins"),
    "poe": _entry("pairwise:product_of_experts", "product of Gaussian experts, arXiv 2405.05894"),
    "likelihood": _entry(
        "pairwise:likelihood",
        "the ranking that makes the comparisons most likely, arXiv 2307.07889, appendix B",
    ),
    "pairs-greedy": _entry(
        "pairwise:pairs_greedy", "PairS: merge sort by comparisons, arXiv 2403.16950"
    ),
    "pairs-beam": _entry(
        "pairwise:pairs_beam", "PairS: merge sort with a beam and uncertainty pruning"
    ),
    "zepo": _entry("zepo:zepo", "win ratio with the least biased instruction, arXiv 2406.11370"),
    "direct-5": _entry("direct:direct_5", "the most probable grade of 1 to 5"),
    "direct-10": _entry("direct:direct_10", "the most probable grade of 1 to 10, arXiv 2307.07889"),
    "g-eval-5": _entry("direct:g_eval_5", "the expected grade of 1 to 5, arXiv 2303.16634"),
    "g-eval-10": _entry("direct:g_eval_10", "the expected grade of 1 to 10"),
    "g-eval-100": _entry(
        "direct:g_eval_100", "the expected grade of 1 to 100, as in TrustJudge, arXiv 2509.21117"
    ),
    "verifier": _entry(
        "direct:verifier",
        "the expected grade of 20 letters beside each other output, arXiv 2607.05391",
    ),
    "gptscore": _entry(
        "gptscore:gptscore",
        "mean log-probability of the output's tokens, with a judge hf:PATH, arXiv 2302.04166",
    ),
    "bleu": _entry(
        "reference_metrics:BLEU",
        "sentence BLEU of sacrebleu against the references; pip install sacrebleu",
    ),
    "chrf": _entry("reference_metrics:CHRF", "sentence chrF2 of sacrebleu against the references"),
    "rouge-1": _entry(
        "reference_metrics:ROUGE_1",
        "ROUGE-1 F1 of rouge-score, the best of the references; pip install rouge-score",
    ),
    "rouge-2": _entry("reference_metrics:ROUGE_2", "ROUGE-2 F1, as rouge-1"),
    "rouge-l": _entry("reference_metrics:ROUGE_L", "ROUGE-L F1, as rouge-1"),
    "meteor": _entry(
        "reference_metrics:METEOR",
        "METEOR of nltk, with synonyms where WordNet is installed; the best of the references; pip install nltk",
    ),
    "bertscore": _entry(
        "bert_score:BERTSCORE",
        "bertscore:PATH, BERTScore F1 with an encoder, the best of the references",
    ),
    "embedding": _entry(
        "bert_score:EMBEDDING",
        "embedding:PATH, cosine of context and output under a sentence encoder, a baseline",
    ),
    "unieval": _entry(
        "trained:UNIEVAL", "unieval:PATH, UniEval's yes/no questions to a T5, arXiv 2210.07197"
    ),
    "nli": _entry("trained:NLI", "nli:PATH, entailment both ways between data and text"),
    "regressor": _entry(
        "trained:REGRESSOR", "regressor:PATH, the output of a trained sequence classifier"
    ),
    "reward": _entry(
        "reward:reward",
        "raw reward of a judge reward:MODEL, or reward:PATH of its own model, arXiv 2507.01352",
    ),
    "questeval": _entry(
        "questeval:QUESTEVAL",
        "questeval:GENERATOR+READER, questions answered from the other text, arXiv 2103.12693",
    ),
    "mqag": _entry(
        "mqag:MQAG",
        "mqag:GENERATOR+DISTRACTORS+READER, multiple-choice questions, arXiv 2301.12307",
    ),
}
# The option that `METHOD:PATH` sets.
CHECKPOINT = "checkpoint"


@dataclass(slots=True)
class SharedAnswers:
    """Judgments and comparisons that the methods of a run share, so that nothing is asked or read twice.

    `logs` are the open files of judgments. `comparisons` are those of `refladder.methods.pairwise.compare_all`, with
    their benchmark and counts, by benchmark, dimensions, judge and choice of pairs.
    """

    logs: dict[tuple[object, ...], JudgmentIndex] = field(default_factory=dict)
    comparisons: dict[tuple[object, ...], tuple[Benchmark, Sequence[Comparisons], Tally]] = field(
        default_factory=dict
    )


@checked_record
@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings:
    """Settings that all methods of a run share.

    `writer` opens the backend that writes (ladders, prompts); if it is None, the judge writes. `ladders` is an existing
    set, or its name or folder; of a shared set, the first `anchors` score, or if it is None those that the set names.
    `orders` is 1, or 2 to ask every pair of the ladder in both orders. `prompts` is the
    user's folder of templates. A judgment whose label mass is below `least_mass` is unparsed. `work` is the folder where
    a method keeps its judgments, in files of its own name, to resume from.

    `answers` 0 reads label probabilities, K samples K written answers, and another mode is that of method `ladder` alone.
    For methods that compare outputs with each other, `budget` is the number of comparisons of one context and dimension
    (None: all pairs in both orders), chosen by `selection` (see `refladder.statistics.selection`). `shared` holds the
    answers of this run, so that no method asks a question that another has asked.

    `checks` is the folder that remembers how judges were checked (see `refladder.scoring.judge_check`), None for none.

    `dry_run` says that the judge gives no new answers, see the top of this module; `--dry-run` alone sets it.

    `progress(what)` gives a context manager with a function of (done, in all), or None.
    """

    seed: int = 0
    writer: Callable[[], Backend] | None = None
    ladders: str | Path | LadderSet | None = None
    rungs: int = 5
    rule: str = DEFAULT_RULE
    least_mass: float = LEAST_MASS
    orders: int = 1
    yes_no: bool = False
    budget: int | None = None
    selection: str = "symmetric"
    answers: int | str = 0
    anchors: int | None = None
    shared: SharedAnswers = field(default_factory=SharedAnswers)
    prompts: Path | None = None
    work: Path | None = None
    checks: Path | None = None
    dry_run: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[str], AbstractContextManager[Progress | None]] = lambda _what: nullcontext()

    @property
    def sampled(self) -> int:
        """Return the number of answers to sample for each question; 0 reads label probabilities."""
        return mode_of(self.answers).sampled

    @property
    def scoring(self) -> Scoring:
        """Return these settings as those of scores against ladders."""
        return Scoring(
            rule=self.rule,
            least_mass=self.least_mass,
            answers=self.answers,
            both_orders=self.orders > 1,
            yes_no=self.yes_no,
            prompts=self.prompts,
            # The agreement with people shows how good the judge is.
            any_judge=True,
        )

    @property
    def sampling(self) -> Sampling:
        """Return the sampling of texts and answers: the writer's own settings, with the seed of the run."""
        return Sampling(seed=self.seed)

    def own(self, method: str, defaults: Mapping[str, str]) -> dict[str, str]:
        """Return the options of one method, over their defaults.

        Raises:
            UnknownNameError: the user gave `METHOD.KEY` with a key that is not in `defaults`.
        """
        options = dict(defaults)
        for name, value in self.options.items():
            owner, _, key = name.partition(".")
            if owner != method:
                continue
            if key not in defaults:
                raise UnknownNameError(f"option of method {method!r}", key, defaults)
            options[key] = value
        return options

    def judgments(self, file_name: str, run: Run) -> JudgmentIndex:
        """Open the judgments of a judge and template: those of the work folder, and those that this run asked for.

        Args:
            file_name: name in the work folder.
            run: run of the judgments, from `refladder.scoring.asker.run_of`.

        Raises:
            UsageError, DataError: see `refladder.scoring.judgment_file.JudgmentIndex`.
        """
        key = (self.work, file_name, run.recipe.digest, run.answers)
        if key not in self.shared.logs:
            path = None if self.work is None else within(self.work / file_name)
            self.shared.logs[key] = JudgmentIndex(path, run)
        return self.shared.logs[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """Scores of one method, by output id and dimension, with the signature of all that made them.

    A `baseline` is one of the measures of which the tables show the best, see `refladder.methods.surface`.
    """

    name: str
    signature: str
    scores: Mapping[tuple[str, str], float | None]
    baseline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """Comparisons of the outputs of one context on one dimension.

    `pairs` has shape (R, 2), numbers of the outputs. `probabilities` has shape (R,): that the first is better, NaN for an
    unparsed answer.
    """

    context: Context
    dimension: Dimension
    outputs: tuple[Output, ...]
    pairs: IntArray
    probabilities: FloatArray

    @property
    def names(self) -> list[str]:
        """Return the ids of the outputs."""
        return ids_of(self.outputs)

    @property
    def arrays(self) -> tuple[int, IntArray, FloatArray]:
        """Return the arguments of an estimator: the number of outputs, the pairs and their probabilities."""
        return len(self.outputs), self.pairs, self.probabilities

    def debiased(self, thresholds: Mapping[str, float]) -> Comparisons:
        """Remove the position bias by the threshold of this dimension; change nothing where it has none."""
        threshold = thresholds.get(self.dimension.name)
        if threshold is None:
            return self
        debiased = bias.reweigh(self.probabilities, bias.alpha_of(threshold))
        return replace(self, probabilities=debiased)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodResult:
    """Scores of a method, and its counts.

    `judgments` were needed, `reused` of them were kept from before, `unparsed` of them gave no number. `characters`
    is the length of all prompts that were needed, if the method knows it; otherwise the prompts sent are counted.
    `measures` are shares for the report card, those of `refladder.methods.measures.of_judgments` among them.
    `comparisons` are answers about pairs of outputs, as the judge gave them. `thresholds` are those that a method which
    debiases used, by dimension; the card reads comparisons with them. `report` is for the ladder's own
    summary, and `scorer` for the check of its judge. `notes` are sentences for the user.
    """

    method: Method | None
    skipped: str | None = None
    judgments: int = 0
    reused: int = 0
    unparsed: int = 0
    characters: int | None = None
    measures: Mapping[Part, tuple[float, int]] = field(default_factory=dict)
    comparisons: Sequence[Comparisons] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    report: ScoreReport | None = None
    scorer: LadderScorer | None = None
    notes: tuple[str, ...] = ()

    def counted(self, tally: Tally, measures: Measures | None = None) -> MethodResult:
        """Return this result with the counts of a tally, and with further shares for the report card."""
        everything: Measures = {}
        for part in (tally.measures, measures or {}):
            add(everything, part.items())
        return replace(
            self,
            judgments=tally.judgments,
            reused=tally.reused,
            unparsed=tally.unparsed,
            characters=tally.characters,
            measures=everything,
        )


class RunMethod(Protocol):
    """Scores outputs; see the top of this module."""

    def __call__(
        self,
        benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        judge: Judge,
        settings: MethodSettings,
        /,
    ) -> MethodResult:
        """Score every output of a benchmark on every dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationMethod:
    """A method of `evaluate`; see the top of this module.

    `recorded` is the kind of recorded judgments that answer all its questions, `ladder` or `pairs` (see
    `refladder.scoring.recorded`); `any` for a method that asks no judge; None if no recorded judgments can answer it.
    """

    run: RunMethod
    recorded: str | None = None


def by_context(benchmark: Benchmark) -> Iterator[tuple[Context, list[Output]]]:
    """Yield the contexts that have outputs, each with its outputs."""
    outputs: defaultdict[str, list[Output]] = defaultdict(list)
    for output in benchmark.outputs:
        outputs[output.context_id].append(output)
    for context in benchmark.contexts:
        if context.id in outputs:
            yield context, outputs[context.id]


def method_named(name: str) -> EvaluationMethod:
    """Return the method of that name, built in or registered under `refladder.method`."""
    method = find("method", name, METHODS)
    if not isinstance(method, EvaluationMethod):
        raise UsageError(
            f"method {name!r} is registered as {method!r:.60}, not an EvaluationMethod; "
            "give run as refladder.methods.contract describes"
        )
    return method if name in METHODS else replace(method, run=partial(_run_plug_in, name, method))


def _run_plug_in(name: str, method: EvaluationMethod, /, *arguments: Any) -> MethodResult:
    """Run a method of another package, whose name is in every error that it raises."""
    with plugged_in("method", name):
        result: object = method.run(*arguments)
        if not isinstance(result, MethodResult):
            raise UsageError(
                f"method {name!r} returned {type(result).__name__}, not a MethodResult; "
                "give run as refladder.methods.contract describes"
            )
        return result
