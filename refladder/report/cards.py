"""The report card: what each method cost, and what is wrong with its judgments, beside its agreement with people."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.metaeval.agreement import human_means
from refladder.methods.measures import Measures, Part, Share, add, share_of
from refladder.ranking import bias
from refladder.report.rendering import DASH, PlainTable, fitted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.table import Table

    from refladder.methods.contract import Comparisons, MethodRun
    from refladder.records import Benchmark, Dimension

ALL = "all"
UNKNOWN = "unknown"  # a count that the backend does not tell
SHARES = ("tied", "first", "longer", "inconsistency", "intransitive", "conflict", "accuracy")
_SMALL = 0.1
_ENDS = re.compile(r" \[(\S+), (\S+)\]")  # of an interval in a cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Cost and faults of one method on one dimension, or on `all`; None where a figure does not apply.

    `judgments` were needed, `unreadable` of them gave no number, `faint` of them were read though the labels together
    had less than half of the probability; `reused` had been answered before (by another method of the run, or an
    earlier run); `unscored` outputs have no score. `characters` is the length of the prompts, as sent to a judge that
    was asked nothing before; None where part was reused and the method does not know it. `calls` prompts were asked in
    this run, and it took `seconds`, of which `judge_seconds` in the judge. What was sent had `prompt_tokens`, of which
    the model had to read `distinct_tokens`, with what prompts share counted once, and cost `usd`; None where the
    backend does not tell them or there is no price.

    Shares, with their intervals: `tied`: judgments that prefer no answer. `first`: comparisons that the first text won
    (arXiv 2307.07889, equation 8). `longer`: pairs of outputs of one context, of different length and score, in which
    the longer has the higher score. `inconsistency`: pairs whose two orders choose differently. `intransitive`:
    triples that no ranking agrees with. `conflict`: comparisons, of the first method of the run that made some, that
    choose otherwise than this method's scores. `accuracy`: comparisons that choose as people do, of those of texts that
    people rate differently, a tie counting half (section 5.4). A method that takes the position bias out has `first`,
    `inconsistency`, `intransitive`, `conflict` and `accuracy` of its debiased comparisons.
    """

    kind: str = "card"
    method: str
    benchmark: str
    dimension: str
    judgments: int | None
    unreadable: int | None
    faint: int | None
    reused: int | None
    unscored: int
    calls: int | None
    characters: int | None
    prompt_tokens: int | None
    distinct_tokens: int | None
    usd: float | None
    seconds: float | None
    judge_seconds: float | None
    tied: Share | None
    first: Share | None
    longer: Share | None
    inconsistency: Share | None
    intransitive: Share | None
    conflict: Share | None
    accuracy: Share | None


def report_cards(
    runs: Sequence[MethodRun],
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
) -> list[Card]:
    """For each method that gave scores one card for all dimensions, with its costs, and one for each dimension.

    Args:
        runs: of the methods.
        benchmark: with ratings.
        dimensions: one card each.
    """
    compared = next((run.result.comparisons for run in runs if run.result.comparisons), ())
    human = human_means(benchmark.ratings)
    cards = []
    for run in runs:
        result = run.result
        if result.method is None:
            continue
        scores = result.method.scores
        measures = dict(result.measures)
        for dimension in dimensions:
            measures.update(_longer(benchmark, scores, dimension.name))
        if not result.comparisons or result.comparisons is not compared:
            for one in compared:
                choices = one.debiased(result.thresholds)
                add(measures, Part("conflict", one.dimension.name, one.context.id), *_conflict(choices, scores))
        for one in result.comparisons:
            choices = one.debiased(result.thresholds)
            add(measures, Part("accuracy", one.dimension.name, one.context.id), *_accuracy(choices, human))
        partly = result.characters is None and result.reused > 0
        for name in (ALL, *(dimension.name for dimension in dimensions)):
            whole = name == ALL
            wanted = [dimension.name for dimension in dimensions] if whole else [name]
            own: dict[str, list[tuple[str, tuple[float, int]]]] = {}
            for part, counted in measures.items():
                if part.dimension in wanted:
                    own.setdefault(part.name, []).append((part.context, counted))
            shares = {kind: share_of(own.get(kind, ())) for kind in SHARES}
            unread, faint = (_total(own.get(kind)) for kind in ("unread", "faint"))
            cards.append(
                Card(
                    method=result.method.name,
                    benchmark=benchmark.name,
                    dimension=name,
                    judgments=unread[1],
                    unreadable=unread[0],
                    faint=faint[0],
                    reused=result.reused if whole else None,
                    unscored=sum(
                        _number(scores.get((output.id, one))) is None for output in benchmark.outputs for one in wanted
                    ),
                    calls=run.calls if whole else None,
                    characters=(None if partly else result.characters or run.characters) if whole else None,
                    prompt_tokens=run.spent.sent if whole else None,
                    distinct_tokens=run.spent.distinct if whole else None,
                    usd=run.spent.usd if whole else None,
                    seconds=run.seconds if whole else None,
                    judge_seconds=run.judge_seconds if whole else None,
                    tied=shares["tied"],
                    first=shares["first"],
                    longer=shares["longer"],
                    inconsistency=shares["inconsistency"],
                    intransitive=shares["intransitive"],
                    conflict=shares["conflict"],
                    accuracy=shares["accuracy"],
                )
            )
    return cards


def _total(parts: Sequence[tuple[str, tuple[float, int]]] | None) -> tuple[int, int]:
    return sum(int(got) for _, (got, _) in parts or ()), sum(count for _, (_, count) in parts or ())


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _longer(benchmark: Benchmark, scores: Mapping[tuple[str, str], float | None], dimension: str) -> Measures:
    groups: dict[str, list[tuple[int, float]]] = {}
    for output in benchmark.outputs:
        value = _number(scores.get((output.id, dimension)))
        if value is not None:
            groups.setdefault(output.context_id, []).append((len(output.text), value))
    found: Measures = {}
    for context, own in groups.items():
        lengths, values = np.array(own, dtype=np.float64).T
        first, second = np.triu_indices(len(own), 1)
        product = (lengths[first] - lengths[second]) * (values[first] - values[second])
        found[Part("longer", dimension, context)] = (int((product > 0).sum()), int((product != 0).sum()))
    return found


def _conflict(one: Comparisons, scores: Mapping[tuple[str, str], float | None]) -> tuple[float, int]:
    given = [_number(scores.get((output.id, one.dimension.name))) for output in one.outputs]
    values = np.array([math.nan if value is None else value for value in given])
    return bias.discordance(one.pairs, one.probabilities, values)


def _accuracy(one: Comparisons, human: Mapping[tuple[str, str], float]) -> tuple[float, int]:
    ratings = [human.get((output.id, one.dimension.name), math.nan) for output in one.outputs]
    return bias.comparative_accuracy(one.pairs, one.probabilities, np.array(ratings))


def _count(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"


def _decimal(value: float | None, digits: int) -> str:
    return DASH if value is None else f"{value:.{digits}f}"


def _tokens(card: Card, value: int | None) -> str:
    return UNKNOWN if value is None and card.calls else _count(value)


def _told(share: Share | None) -> str:
    if share is None:
        return DASH
    if share.low is None or share.high is None:
        return f"{share.value:.3f}"
    digits = 3 if 0 < share.high < _SMALL else 2  # so that a small share stands within its interval
    return f"{share.value:.3f} [{share.low:.{digits}f}, {share.high:.{digits}f}]"


class _Table(NamedTuple):
    """One of the tables that a card is told in: its caption, and the head and cell of each column."""

    caption: str
    columns: dict[str, Callable[[Card], str]]

    def rows(self, cards: Sequence[Card]) -> list[list[str]]:
        """The cells of the cards for all dimensions."""
        return [[cell(card) for cell in self.columns.values()] for card in cards if card.dimension == ALL]


_COST = _Table(
    "{}, cost: judgments that were needed, prompts that this run asked (less than judgments where another method had "
    "asked already), characters of the prompts that were needed, prompt tokens as sent in this run, those that the "
    f"model had to read (distinct: what prompts share once, and labels), USD, seconds; {UNKNOWN}: the backend does not "
    f"tell; {DASH} does not apply, or no price.",
    {
        "method": lambda card: card.method,
        "judged": lambda card: _count(card.judgments),
        "calls": lambda card: _count(card.calls),
        "characters": lambda card: UNKNOWN if card.characters is None else _count(card.characters),
        "tokens": lambda card: _tokens(card, card.prompt_tokens),
        "distinct": lambda card: _tokens(card, card.distinct_tokens),
        "USD": lambda card: _decimal(card.usd, 4),
        "seconds": lambda card: _decimal(card.seconds, 1),
    },
)
_FAULTS = _Table(
    "{}, faults: judgments that gave no number (unread), that were read though the labels together had less than half "
    "of the probability (faint); shares with 95 % intervals over contexts: judgments that prefer no answer (tied), "
    "comparisons that the first text won, pairs in which the longer text scores higher, pairs whose two orders "
    "disagree (flips), intransitive triples (circles) of so many triples, comparisons that contradict the scores "
    f"(conflict), comparisons that choose as people do (right); {DASH} does not apply.",
    {
        "method": lambda card: card.method,
        "unread": lambda card: _count(card.unreadable),
        "faint": lambda card: _count(card.faint),
        "tied": lambda card: _told(card.tied),
        "first": lambda card: _told(card.first),
        "longer": lambda card: _told(card.longer),
        "flips": lambda card: _told(card.inconsistency),
        "circles": lambda card: _told(card.intransitive),
        "triples": lambda card: _count(None if card.intransitive is None else card.intransitive.of),
        "conflict": lambda card: _told(card.conflict),
        "right": lambda card: _told(card.accuracy),
    },
)


def cards_to_json_lines(cards: Sequence[Card]) -> str:
    """One JSON object a line, of kind `card`; what does not apply is null."""
    return "".join(json.dumps(asdict(card), ensure_ascii=False, allow_nan=False) + "\n" for card in cards)


def card_tables(cards: Sequence[Card]) -> list[PlainTable]:
    """Cost and faults, of the cards for all dimensions; none when there are no cards."""
    return [
        PlainTable(one.caption.format(cards[0].benchmark), list(one.columns), one.rows(cards))
        for one in (_COST, _FAULTS)
        if cards
    ]


def _below(found: re.Match[str]) -> str:
    low, high = (end.removeprefix("0") for end in found.groups())
    return f"\n{low} {high}"


def cards_to_rich(cards: Sequence[Card], width: int = 100) -> list[Table]:
    """Terminal tables of cost and faults, of the cards for all dimensions, an interval below its share.

    Args:
        cards: of a run.
        width: of the terminal, in columns.
    """
    stacked = [
        table._replace(rows=[[_ENDS.sub(_below, cell) for cell in row] for row in table.rows])
        for table in card_tables(cards)
    ]
    return [part for table in stacked for part in fitted(table, width)]
