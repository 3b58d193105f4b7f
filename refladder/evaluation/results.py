"""What `evaluate` returns, and the file of it in a work folder, which `review` shows without running it again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from refladder.display.rendering import latex
from refladder.display.results import Shown
from refladder.errors import UsageError
from refladder.evaluation.agreement_tables import agreement_tables
from refladder.evaluation.cards import card_tables
from refladder.files.jsonl import atomic, to_json
from refladder.methods.method_runs import scored_methods
from refladder.options import INTERVAL_SIZES
from refladder.records import names_of
from refladder.scoring.judge_check import check_lines
from refladder.statistics.correlation import check_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from refladder.backends.metered import Spent
    from refladder.display.rendering import PlainTable
    from refladder.evaluation.cards import Card
    from refladder.methods.contract import Method
    from refladder.methods.method_runs import MethodRun
    from refladder.records import Benchmark, Dimension, JudgeCheck
    from refladder.statistics.agreement import Agreement


# The file in the folder of a run that `refladder review` shows.
RESULTS = "results.jsonl"


# The keys of a record of an evaluation.
_RECORD = (
    *("method", "benchmark", "level", "statistic", "dimension"),
    *("value", "low", "high", "contexts", "skipped", "unscored"),
)
_COSTS = ("calls", "tokens", "seconds")


class _Agreements(Shown):
    """Tables of agreement as text, as LaTeX and as a frame, of one benchmark or of several."""

    __slots__ = ()

    def table(self) -> str:
        """Return the tables as the command prints them, however long they are."""
        return self.text()

    def to_latex(self, intervals: str = "full") -> str:
        """Return the tables as `evaluate --format latex` prints them; `intervals` are `full`, `small` or `none`."""
        check_name("intervals", intervals, INTERVAL_SIZES)
        return latex(self.tables(marked=True), intervals)

    def to_frame(self) -> Any:
        """Return `records` as a DataFrame of pandas."""
        try:
            pandas: Any = import_module("pandas")
        except ImportError as error:
            raise UsageError("a frame needs the package pandas; pip install pandas") from error
        return pandas.DataFrame(self.records())

    def tables(self, *, marked: bool = False) -> list[PlainTable]:
        """Return the tables of agreement that the command prints; those that are `marked` are for paper."""
        raise NotImplementedError

    def records(self) -> list[dict[str, Any]]:
        """Return one record for each row."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(_Agreements):
    """The result of `evaluate`.

    `rows` is the agreement of every method, the surface baselines included. `runs` holds the scores and costs of the
    methods that were run, and `cards` their report cards. `limits` are sentences on what the rows cannot show, and
    `notes` sentences about the methods. `spent` is what the methods took together, in tokens and money. `benchmark` and
    `dimensions` are what was evaluated, and `left_out` sentences on what was not.
    """

    rows: tuple[Agreement, ...]
    runs: tuple[MethodRun, ...]
    cards: tuple[Card, ...]
    limits: tuple[str, ...]
    notes: tuple[str, ...]
    spent: Spent
    benchmark: Benchmark = field(repr=False)
    dimensions: tuple[Dimension, ...] = field(repr=False)
    left_out: tuple[str, ...] = ()

    def tables(self, *, marked: bool = False) -> list[PlainTable]:
        """Return the tables of agreement that the command prints; those that are `marked` are for paper."""
        return Evaluations([self]).tables(marked=marked)

    def card_tables(self) -> list[PlainTable]:
        """Return the tables of the report cards."""
        return card_tables(self.cards, self.benchmark.title)

    def records(self) -> list[dict[str, Any]]:
        """Return one record for each row, as `--format csv` prints them; `to_frame` has them as a frame.

        The keys are `method`, `benchmark`, `level`, `statistic`, `dimension`, `value`, `low`, `high`, `contexts`,
        `skipped`, `unscored`, `calls`, `tokens` (of prompts) and `seconds`. What is not known is None. The last three
        are those of the whole method in this run, on each of its rows; a method that was not run has None.
        """
        costs = {}
        for run in self.runs:
            costs[run.name] = run.calls, run.spent.sent, run.seconds
        records = []
        for row in self.rows:
            record = {key: getattr(row, key) for key in _RECORD}
            of_method = costs.get(row.method, (None, None, None))
            records.append(record | dict(zip(_COSTS, of_method, strict=True)))
        return records

    @property
    def checks(self) -> tuple[JudgeCheck, ...]:
        """Return whether the judge distinguishes the best rung from the worst, by dimension; none if it was not asked."""
        return tuple(itertools.chain.from_iterable(run.checks for run in self.runs))

    @property
    def complete(self) -> bool:
        """Return whether every output has a score of every method."""
        return not any(row.unscored for row in self.rows)


class Evaluations(_Agreements, tuple[Evaluation, ...]):
    """The results of `evaluate` on several benchmarks, in their order."""

    __slots__ = ()

    @property
    def rows(self) -> tuple[Agreement, ...]:
        """Return the rows of all."""
        return tuple(itertools.chain.from_iterable(evaluation.rows for evaluation in self))

    @property
    def complete(self) -> bool:
        """Return whether every output of every benchmark has a score of every method."""
        return all(evaluation.complete for evaluation in self)

    def tables(self, *, marked: bool = False) -> list[PlainTable]:
        """Return the tables of agreement that the command prints; those that are `marked` are for paper."""
        titles = {each.benchmark.name: each.benchmark.title for each in self}
        return agreement_tables(self.rows, titles=titles, marked=marked)

    def records(self) -> list[dict[str, Any]]:
        """Return the records of all, see `Evaluation.records`."""
        return list(itertools.chain.from_iterable(map(Evaluation.records, self)))


def write_evaluation(folder: Path, evaluation: Evaluation, others: Sequence[Method] = ()) -> None:
    """Write `results.jsonl`: contexts, texts, ratings, the scores of every method, and the tables of the report."""
    with atomic(folder / RESULTS) as stream:
        for line in _lines(evaluation, others):
            stream.write(to_json(line) + b"\n")


def _lines(evaluation: Evaluation, others: Sequence[Method]) -> Iterator[dict[str, Any]]:
    benchmark, dimensions = evaluation.benchmark, evaluation.dimensions
    notes = [
        *evaluation.limits,
        *evaluation.notes,
        *itertools.chain(*check_lines(evaluation.checks)),
    ]
    yield {
        "kind": "evaluation",
        "benchmark": benchmark.name,
        "licence": benchmark.licence,
        "notes": notes,
    }
    for context in benchmark.contexts:
        text = "\n\n".join(filter(None, [context.background, context.text]))
        yield {"kind": "row", "row": context.id, "prompt": text}
    names = names_of(dimensions)
    for dimension in dimensions:
        words = {"description": dimension.description, "low": dimension.low, "high": dimension.high}
        yield {"kind": "criterion", "criterion": dimension.name, **words}
    for output in benchmark.outputs:
        fields = {"id": output.id, "system": output.system, "text": output.text}
        yield {"kind": "text", "row": output.context_id, **fields}
    for rating in benchmark.ratings:
        if rating.dimension in names:
            given = {"criterion": rating.dimension, "value": rating.value, "rater": rating.rater}
            yield {"kind": "rating", "id": rating.output_id, **given}
    for method in scored_methods(evaluation.runs, others):
        for (output_id, name), value in method.scores.items():
            if name in names:
                yield {
                    "kind": "score",
                    "method": method.name,
                    "id": output_id,
                    "criterion": name,
                    "value": value,
                }
    for table in [*evaluation.tables(), *evaluation.card_tables()]:
        yield {
            "kind": "table",
            **{key: getattr(table, key) for key in ("caption", "heads", "rows", "legend")},
        }
