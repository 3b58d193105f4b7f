"""The report card: the cost of each method, and how far it can be trusted; a field of `Card` is a column."""

# Calls in the defaults of `Card` make fields.
# ruff: noqa: RUF009
from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.arrays import known
from refladder.display.rendering import DASH, PlainTable, with_interval
from refladder.methods.measures import Measures, Part, Share, share_of
from refladder.records import ids_of, names_of
from refladder.statistics import bias
from refladder.statistics.agreement import human_means

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.methods.contract import Comparisons
    from refladder.methods.method_runs import MethodRun
    from refladder.records import Benchmark, Dimension

ALL = "all"
# This is shown for a count that the backend does not report.
UNKNOWN = "unknown"
_SIGNS = (
    (UNKNOWN, "not reported by the backend"),
    (DASH, "does not apply, or is not known"),
)
# The ends of a share below this are shown with three digits.
_SMALL = 0.1
_COST = "cost"
_JUDGMENTS = "judgments"
_SCORES = "scores"
_CAPTIONS = {
    _COST: "{}, cost: what each method needed",
    _JUDGMENTS: "{}, judgments: faults and biases, with 95 % intervals over contexts",
    _SCORES: "{}, scores: length bias, discordance and accuracy, with 95 % intervals over contexts",
}


class _Evidence(NamedTuple):
    """The evidence for one card: `measures` by name are (context, (points, of how many)); `whole` has costs."""

    run: MethodRun
    whole: bool
    unscored: int
    measures: Mapping[str, Sequence[tuple[str, tuple[float, int]]]]

    def share(self, name: str) -> Share | None:
        return share_of(self.measures.get(name, ()))

    def points(self, name: str) -> int:
        return sum(int(points) for _, (points, _) in self.measures.get(name, ()))

    def count(self, name: str) -> int:
        return sum(count for _, (_, count) in self.measures.get(name, ()))


def _characters_of(run: MethodRun) -> int | None:
    unknown = run.result.characters is None and run.result.reused > 0
    return None if unknown else run.result.characters or run.characters


class _Shown(NamedTuple):
    """A column of a table: its head, its line in the legend, how a value becomes a cell, and which table has it."""

    head: str
    legend: str
    cell: Callable[[Any, Card], str]
    table: str = _COST


def _formatted(spec: str) -> Callable[[float | None, Card], str]:
    return lambda value, _card: DASH if value is None else format(value, spec)


_count, _usd, _seconds = map(_formatted, (",", ".4f", ".1f"))


def _characters(value: int | None, card: Card) -> str:
    return UNKNOWN if value is None else _count(value, card)


def _tokens(value: int | None, card: Card) -> str:
    return UNKNOWN if value is None and card.calls else _count(value, card)


def _share(value: Share | None, _card: Card) -> str:
    if value is None:
        return DASH
    # Otherwise a small share could be outside of its rounded interval.
    digits = 3 if value.high is not None and 0 < value.high < _SMALL else 2
    return with_interval(value.value, value.low, value.high, digits=digits)


def _of(value: Share | None, card: Card) -> str:
    return _count(None if value is None else value.of, card)


def _column(compute: Callable[[_Evidence], Any], *shown: _Shown) -> Any:
    """Make a field of `Card` with its computation and its columns of tables."""
    return field(metadata={"compute": compute, "shown": shown})


def _cost(compute: Callable[[MethodRun], Any], *shown: _Shown) -> Any:
    """Make a field that only the card for all dimensions has."""
    return _column(lambda evidence: compute(evidence.run) if evidence.whole else None, *shown)


def _share_of(name: str, table: str, head: str, legend: str, *more: _Shown) -> Any:
    """Make a field with the share of a measure."""
    shown = _Shown(head, legend, _share, table)
    return _column(lambda evidence: evidence.share(name), shown, *more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Cost and faults of one method on one dimension, or on `all`; None where a figure does not apply.

    The fields are the keys of the JSON form, in this order; the legends say what they hold. `reused` judgments were
    answered before, by another method of the run or by an earlier run; `unscored` outputs have no score; the judge took
    `judge_seconds` of the `seconds`. `characters` is None where part was reused and the method does not know it.

    Sources (arXiv 2307.07889): `first`, equation 8; `accuracy`, section 5.4. `longer` is a share of the pairs of
    outputs of one context that differ in length and score; `conflict` of the comparisons of the first method of the run
    that made some; `accuracy` of the comparisons of texts with different ratings, a tie counting half. A method that
    removes position bias has `first`, `inconsistency`, `intransitive`, `conflict` and `accuracy` of its debiased
    comparisons.
    """

    kind: str = "card"
    method: str
    benchmark: str
    dimension: str
    judgments: int | None = _column(
        lambda evidence: evidence.count("unparsed"),
        _Shown("judgments", "judgments needed", _count),
    )
    unparsed: int | None = _column(
        lambda evidence: evidence.points("unparsed"),
        _Shown("unparsed", "judgments without a usable answer", _count, _JUDGMENTS),
    )
    low_mass: int | None = _column(
        lambda evidence: evidence.points("low_mass"),
        _Shown(
            "low mass",
            "judgments whose labels have a total probability under 0.5",
            _count,
            _JUDGMENTS,
        ),
    )
    reused: int | None = _cost(lambda run: run.result.reused)
    unscored: int = _column(lambda evidence: evidence.unscored)
    calls: int | None = _cost(
        lambda run: run.calls,
        _Shown("calls", "prompts sent in this run, without stored or earlier answers", _count),
    )
    characters: int | None = _cost(
        _characters_of,
        _Shown("characters", "length of all prompts, as if no answer had been reused", _characters),
    )
    prompt_tokens: int | None = _cost(
        lambda run: run.spent.sent, _Shown("tokens", "prompt tokens sent in this run", _tokens)
    )
    distinct_tokens: int | None = _cost(
        lambda run: run.spent.distinct,
        _Shown(
            "distinct",
            "tokens that the model processed, with shared beginnings counted once",
            _tokens,
        ),
    )
    usd: float | None = _cost(
        lambda run: run.spent.usd, _Shown("USD", "price by the table of --prices", _usd)
    )
    seconds: float | None = _cost(
        lambda run: run.seconds, _Shown("seconds", "wall-clock time", _seconds)
    )
    judge_seconds: float | None = _cost(lambda run: run.judge_seconds)
    tied: Share | None = _share_of("tied", _JUDGMENTS, "ties", "judgments that prefer neither text")
    first: Share | None = _share_of(
        "first",
        _JUDGMENTS,
        "P(first)",
        "how often the first text wins (0.5 = no position bias)",
    )
    longer: Share | None = _share_of(
        "longer",
        _SCORES,
        "longer",
        "pairs of outputs in which the longer one has the higher score",
    )
    inconsistency: Share | None = _share_of(
        "inconsistency", _JUDGMENTS, "inconsistent", "pairs whose two orders disagree"
    )
    intransitive: Share | None = _share_of(
        "intransitive",
        _JUDGMENTS,
        "intransitive",
        "triples without a consistent ranking",
        _Shown("triples", "triples whose three pairs were parsed", _of, _JUDGMENTS),
    )
    conflict: Share | None = _share_of(
        "conflict", _SCORES, "discordance", "comparisons that contradict the scores"
    )
    accuracy: Share | None = _share_of(
        "accuracy", _SCORES, "accuracy", "comparisons that agree with the human ratings"
    )


_COLUMNS = [column for column in fields(Card) if column.metadata]


def report_cards(
    runs: Sequence[MethodRun],
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
) -> list[Card]:
    """Make cards for each method with scores: one for all dimensions, with its costs, and one for each dimension."""
    first = next((run for run in runs if run.result.comparisons), None)
    human = human_means(benchmark.ratings)
    names = names_of(dimensions)
    output_ids = ids_of(benchmark.outputs)
    cards = []
    for run in runs:
        if run.result.method is None:
            continue
        scores = run.result.method.scores
        compared = () if first is None or run is first else first.result.comparisons
        measures = _measures(run, scores, benchmark, names, compared, human=human)
        for name in (ALL, *names):
            covered = names if name == ALL else [name]
            by_name: defaultdict[str, list[tuple[str, tuple[float, int]]]] = defaultdict(list)
            for part, counts in measures.items():
                if part.dimension in covered:
                    by_name[part.name].append((part.context, counts))
            keys = itertools.product(output_ids, covered)
            unscored = sum(known(scores.get(key)) is None for key in keys)
            evidence = _Evidence(run, name == ALL, unscored, by_name)
            values = {column.name: column.metadata["compute"](evidence) for column in _COLUMNS}
            method = run.result.method.name
            cards.append(Card(method=method, benchmark=benchmark.name, dimension=name, **values))
    return cards


def card_tables(cards: Sequence[Card], title: str | None = None) -> list[PlainTable]:
    """Show cost, judgments and scores of the cards for all dimensions; no tables if there are no cards.

    Captions name the benchmark by its `title`, or else by its name.
    """
    whole = [card for card in cards if card.dimension == ALL]
    if not whole:
        return []
    columns: dict[str, list[tuple[str, _Shown]]] = {table: [] for table in _CAPTIONS}
    for column in _COLUMNS:
        for shown in column.metadata["shown"]:
            columns[shown.table].append((column.name, shown))
    tables = []
    for table, caption in _CAPTIONS.items():
        heads, legend, cells = ["method"], [], set()
        rows = [[card.method] for card in whole]
        for name, shown in columns[table]:
            heads.append(shown.head)
            legend.append((shown.head, shown.legend))
            for row, card in zip(rows, whole, strict=True):
                row.append(shown.cell(getattr(card, name), card))
                cells.add(row[-1])
        legend += [(sign, meaning) for sign, meaning in _SIGNS if sign in cells]
        shown_title = caption.format(title or whole[0].benchmark)
        tables.append(PlainTable(shown_title, heads, rows, tuple(legend)))
    return tables


def _measures(
    run: MethodRun,
    scores: Mapping[tuple[str, str], float | None],
    benchmark: Benchmark,
    dimensions: Sequence[str],
    compared: Sequence[Comparisons],
    *,
    human: Mapping[tuple[str, str], float],
) -> Measures:
    """Count the measures of a method: judgments, scores, comparisons, and scores against those `compared` elsewhere."""
    result = run.result
    measures = dict(result.measures)
    for dimension in dimensions:
        measures.update(_longer(benchmark, scores, dimension))
    for name, measured, of_choices, reference in (
        ("conflict", compared, bias.discordance, scores),
        ("accuracy", result.comparisons, bias.comparative_accuracy, human),
    ):
        for comparisons in measured:
            choices = comparisons.debiased(result.thresholds)
            values = _values(choices, reference)
            part = Part(name, comparisons.dimension.name, comparisons.context.id)
            measures[part] = of_choices(choices.pairs, choices.probabilities, values)
    return measures


def _longer(
    benchmark: Benchmark, scores: Mapping[tuple[str, str], float | None], dimension: str
) -> Measures:
    groups: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for output in benchmark.outputs:
        value = known(scores.get((output.id, dimension)))
        if value is not None:
            groups[output.context_id].append((len(output.text), value))
    measures: Measures = {}
    for context, group in groups.items():
        lengths, values = np.array(group, dtype=np.float64).T
        first, second = np.triu_indices(len(group), 1)
        product = (lengths[first] - lengths[second]) * (values[first] - values[second])
        part = Part("longer", dimension, context)
        measures[part] = int(np.count_nonzero(product > 0)), int(np.count_nonzero(product))
    return measures


def _values(comparisons: Comparisons, given: Mapping[tuple[str, str], float | None]) -> FloatArray:
    """Return the number of each output that was compared; NaN if it has none."""
    values = [given.get((output.id, comparisons.dimension.name)) for output in comparisons.outputs]
    return np.array(values, dtype=np.float64)
