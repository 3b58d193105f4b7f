"""The report card: what each method cost, and what is wrong with its judgments, beside its agreement with people."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from refladder.metaeval.agreement import human_means
from refladder.metaeval.tables import DASH, latex_text
from refladder.ranking import bias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table

    from refladder.jobs.methods import MethodRun
    from refladder.jobs.pairwise import Comparisons
    from refladder.records import Benchmark, Dimension

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """Cost and faults of one method on one dimension, or on `all`; None where a figure does not apply.

    `judgments` were needed, `unreadable` of them gave no number, `reused` of them had been answered before (by another
    method of the run, or an earlier run); `unscored` outputs have no score. `characters` is the length of the prompts,
    as sent to a judge that was asked nothing before; None where part was reused and the method does not know it.
    `calls` prompts were sent in this run, and it took `seconds`, of which `judge_seconds` in the judge.

    Shares, between 0 and 1: `first`: comparisons that the first text won (arXiv 2307.07889, equation 8). `longer`:
    pairs of outputs of one context, of different length and score, in which the longer has the higher score.
    `inconsistency`: pairs whose two orders choose differently. `intransitive`: triples that no ranking agrees with.
    `conflict`: comparisons, of the first method of the run that made some, that choose otherwise than this method's
    scores. `accuracy`: comparisons that choose as people do, of those of texts that people rate differently, a tie
    counting half (section 5.4).
    """

    kind: str = "card"
    method: str
    benchmark: str
    dimension: str
    judgments: int | None
    unreadable: int | None
    reused: int | None
    unscored: int
    calls: int | None
    characters: int | None
    seconds: float | None
    judge_seconds: float | None
    first: float | None
    longer: float | None
    inconsistency: float | None
    intransitive: float | None
    conflict: float | None
    accuracy: float | None


def report_cards(runs: Sequence[MethodRun], benchmark: Benchmark, dimensions: Sequence[Dimension]) -> list[Card]:
    """For each method that gave scores one card for all dimensions, with its costs, and one for each dimension."""
    compared = next((run.result.comparisons for run in runs if run.result.comparisons), ())
    human = human_means(benchmark.ratings)
    cards = []
    for run in runs:
        result = run.result
        if result.method is None:
            continue
        scores = result.method.scores
        shares = dict(result.measures)
        for dimension in dimensions:
            shares[dimension.name, "longer"] = _longer(benchmark, scores, dimension.name)
        if not result.comparisons or result.comparisons is not compared:
            for one in compared:
                _add(shares, (one.dimension.name, "conflict"), _conflict(one, scores))
        for one in result.comparisons:
            _add(shares, (one.dimension.name, "accuracy"), _accuracy(one, human))
        for key, share in list(shares.items()):
            if key[0] != ALL:
                _add(shares, (ALL, key[1]), share)
        partly = result.characters is None and result.reused > 0
        for name in (ALL, *(dimension.name for dimension in dimensions)):
            whole = name == ALL
            wanted = [dimension.name for dimension in dimensions] if whole else [name]
            cards.append(
                Card(
                    method=result.method.name,
                    benchmark=benchmark.name,
                    dimension=name,
                    judgments=result.judgments if whole else None,
                    unreadable=result.unreadable if whole else None,
                    reused=result.reused if whole else None,
                    unscored=sum(
                        _number(scores.get((output.id, one))) is None for output in benchmark.outputs for one in wanted
                    ),
                    calls=run.calls if whole else None,
                    characters=(None if partly else result.characters or run.characters) if whole else None,
                    seconds=run.seconds if whole else None,
                    judge_seconds=run.judge_seconds if whole else None,
                    first=_share(shares.get((name, "first"))),
                    longer=_share(shares.get((name, "longer"))),
                    inconsistency=_share(shares.get((name, "inconsistency"))),
                    intransitive=_share(shares.get((name, "intransitive"))),
                    conflict=_share(shares.get((name, "conflict"))),
                    accuracy=_share(shares.get((name, "accuracy"))),
                )
            )
    return cards


def _add(shares: dict[tuple[str, str], tuple[float, int]], key: tuple[str, str], share: tuple[float, int]) -> None:
    points, count = shares.get(key, (0.0, 0))
    shares[key] = (points + share[0], count + share[1])


def _share(given: tuple[float, int] | None) -> float | None:
    return None if given is None or given[1] == 0 else given[0] / given[1]


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _longer(benchmark: Benchmark, scores: Mapping[tuple[str, str], float | None], dimension: str) -> tuple[float, int]:
    groups: dict[str, list[tuple[int, float]]] = {}
    for output in benchmark.outputs:
        value = _number(scores.get((output.id, dimension)))
        if value is not None:
            groups.setdefault(output.context_id, []).append((len(output.text), value))
    points = count = 0
    for own in groups.values():
        lengths, values = np.array(own, dtype=np.float64).T
        first, second = np.triu_indices(len(own), 1)
        product = (lengths[first] - lengths[second]) * (values[first] - values[second])
        points += int((product > 0).sum())
        count += int((product != 0).sum())
    return points, count


def _conflict(one: Comparisons, scores: Mapping[tuple[str, str], float | None]) -> tuple[float, int]:
    given = [_number(scores.get((output.id, one.dimension.name))) for output in one.outputs]
    values = np.array([math.nan if value is None else value for value in given])
    return bias.conflict(one.pairs, one.probabilities, values)


def _accuracy(one: Comparisons, human: Mapping[tuple[str, str], float]) -> tuple[float, int]:
    ratings = [human.get((output.id, one.dimension.name), math.nan) for output in one.outputs]
    return bias.comparative_accuracy(one.pairs, one.probabilities, np.array(ratings))


_HEADS = (
    "method",
    "judged",
    "unread",
    "characters",
    "seconds",
    "first",
    "longer",
    "flips",
    "circles",
    "conflict",
    "right",
)


def _cells(card: Card) -> list[str]:
    def count(value: int | None) -> str:
        return DASH if value is None else f"{value:,}"

    shares = (card.first, card.longer, card.inconsistency, card.intransitive, card.conflict, card.accuracy)
    return [
        card.method,
        count(card.judgments),
        count(card.unreadable),
        count(card.characters),
        DASH if card.seconds is None else f"{card.seconds:.1f}",
        *(DASH if share is None else f"{share:.3f}" for share in shares),
    ]


_TITLE = (
    "{}: judgments that were needed, unread ones, characters of the prompts, seconds (less "
    "for what another method had asked already); shares: comparisons that the first text won, pairs in which the "
    "longer text scores higher, pairs whose two orders disagree (flips), intransitive triples (circles), comparisons "
    f"that contradict the scores (conflict), "
    f"comparisons that choose as people do (right); {DASH} does not apply."
)


def cards_to_json_lines(cards: Sequence[Card]) -> str:
    """One JSON object a line, of kind `card`; what does not apply is null."""
    return "".join(json.dumps(asdict(card), ensure_ascii=False, allow_nan=False) + "\n" for card in cards)


def cards_to_markdown(cards: Sequence[Card]) -> str:
    """A pipe table of the cards for all dimensions, under its caption."""
    rows = [card for card in cards if card.dimension == ALL]
    if not rows:
        return ""
    lines = [_TITLE.format(rows[0].benchmark), "", _pipes(_HEADS), _pipes(["---", *["---:"] * (len(_HEADS) - 1)])]
    lines += [_pipes([cell.replace("|", "\\|") for cell in _cells(card)]) for card in rows]
    return "\n".join(lines) + "\n"


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def cards_to_latex(cards: Sequence[Card]) -> str:
    """A `table` environment for the booktabs package, of the cards for all dimensions."""
    rows = [card for card in cards if card.dimension == ALL]
    if not rows:
        return ""

    def line(cells: Sequence[str]) -> str:
        return "  " + " & ".join(map(latex_text, cells)) + r" \\"

    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{latex_text(_TITLE.format(rows[0].benchmark))}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(_HEADS) - 1)}}}",
            r"  \toprule",
            line(_HEADS),
            r"  \midrule",
            *(line(_cells(card)) for card in rows),
            r"  \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def cards_to_rich(cards: Sequence[Card]) -> list[Table]:
    """A terminal table of the cards for all dimensions; none when there are no cards."""
    from rich import box  # noqa: PLC0415  only terminal tables need rich
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = [card for card in cards if card.dimension == ALL]
    if not rows:
        return []
    table = Table(
        title=Text(_TITLE.format(rows[0].benchmark)),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
    )
    table.add_column(_HEADS[0], overflow="fold")
    for head in _HEADS[1:]:
        table.add_column(head, justify="right", no_wrap=True)
    for card in rows:
        table.add_row(*map(Text, _cells(card)))
    return [table]
