"""The figures of a report card: agreement against cost, and budget curves."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from refladder.display.rendering import PlainTable, number
from refladder.errors import UsageError
from refladder.evaluation.cards import ALL
from refladder.evaluation.charts import Chart, Series, check_charts, file_stems
from refladder.evaluation.curves import budget_curve, consistency_rows, has_all_pairs
from refladder.records import names_of
from refladder.statistics import SCHEMES
from refladder.statistics.agreement import MEAN, human_means
from refladder.statistics.bias import NEAR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.evaluation.cards import Card
    from refladder.evaluation.curves import ConsistencyRow, CurvePoint
    from refladder.methods.method_runs import MethodRun
    from refladder.records import Benchmark, Dimension
    from refladder.statistics.agreement import Agreement


def draw_figures(
    rows: Sequence[Agreement],
    cards: Sequence[Card],
    runs: Sequence[MethodRun],
    benchmark: Benchmark,
    *,
    dimensions: Sequence[Dimension],
    seed: int = 0,
) -> tuple[dict[str, str | bytes], list[str]]:
    """Draw files by name: `cost.svg`, for all pairs `curve-DIMENSION.svg` and `curves.jsonl`.

    Also list what is missing.
    """
    charts: dict[str, Chart] = {}
    missing: list[str] = []
    figure = _cost(rows, cards, len(benchmark.outputs))
    if figure is None:
        missing.append("no cost figure: no method has both calls to a judge and a correlation")
    else:
        charts["cost"] = figure
    judged = (run.result.comparisons for run in runs)
    comparisons = next(filter(has_all_pairs, judged), None)
    if comparisons is None:
        missing.append(
            "no budget curves: they need every pair judged, as win-ratio does without --comparisons"
        )
        return _files(charts, missing), missing
    human = human_means(benchmark.ratings)
    stems = file_stems(names_of(dimensions))
    points: list[CurvePoint | ConsistencyRow] = []
    for dimension in dimensions:
        try:
            curve = budget_curve(comparisons, human, dimension.name, seed=seed)
        except UsageError as error:
            missing.append(str(error))
            continue
        points += curve
        missing += _still_biased(curve, dimension.name)
        points += consistency_rows(comparisons, human, dimension.name, seed=seed)
        drawn = _series(curve)
        if not drawn:
            missing.append(f"no budget curve of {dimension.name}: no context has a correlation")
            continue
        charts[f"curve-{stems[dimension.name]}"] = Chart(
            title=f"{benchmark.name}, {dimension.name}: win ratio by budget, 90 % of the draws in the bands",
            across="comparisons of one context",
            up="Spearman correlation within contexts",
            series=drawn,
        )
    data = "".join(json.dumps(asdict(point), allow_nan=False) + "\n" for point in points)
    return {**_files(charts, missing), "curves.jsonl": data}, missing


def _files(charts: Mapping[str, Chart], missing: list[str]) -> dict[str, str | bytes]:
    """Return the files of charts, two for each; without matplotlib none, and `missing` says so."""
    try:
        check_charts()
    except UsageError as error:
        missing.append(str(error))
        return {}
    files: dict[str, str | bytes] = {f"{stem}.svg": chart.svg() for stem, chart in charts.items()}
    for stem, chart in charts.items():
        files[f"{stem}.png"] = chart.png()
    return files


def consistency_tables(files: Mapping[str, str | bytes]) -> list[PlainTable]:
    """Show the self-consistency of rankings from `curves.jsonl`; no table without that file."""
    rows = []
    for point in map(json.loads, str(files.get("curves.jsonl", "")).splitlines()):
        if point["kind"] == "self-consistency":
            shares = number(point["final"], 3), number(point["gold"], 3)
            rows.append([point["dimension"], str(point["size"]), *shares])
    if not rows:
        return []
    legend = (
        ("outputs", "number of outputs of a context that are ranked"),
        ("all", "share of pairs in the order of the ranking of all outputs"),
        ("people", "share of pairs in the order of the ratings"),
    )
    heads = ["dimension", *(term for term, _ in legend)]
    return [PlainTable("Self-consistency of rankings by win ratio", heads, rows, legend)]


def _still_biased(points: Sequence[CurvePoint], dimension: str) -> list[str]:
    """Report that P(first) of debiased points of a curve is not near 1/2; nothing otherwise."""
    debiased = [point.first for point in points if point.debiased and point.first is not None]
    biased = [first for first in debiased if abs(first - 0.5) > NEAR]
    if not biased:
        return []
    note = (
        f"budget curve of {dimension}: no threshold that leaves ties alone brings P(first) near 1/2 in {len(biased)} "
        f"of {len(debiased)} debiased points (it stays at {min(biased):.3f} to {max(biased):.3f}), so position bias "
        "remains in them"
    )
    return [note]


def _cost(rows: Sequence[Agreement], cards: Sequence[Card], texts: int) -> Chart | None:
    """Plot agreement against prompt tokens per text, or characters if tokens are unknown or answers were reused."""
    first = rows[0]
    values = {}
    for row in rows:
        of_means = (row.dimension, row.level, row.statistic) == (MEAN, first.level, first.statistic)
        if of_means and row.value is not None:
            values[row.method] = row.value
    whole = [card for card in cards if card.dimension == ALL and card.characters]
    drawn = [(card, values[card.method]) for card in whole if card.method in values]
    if not drawn:
        return None
    across = "characters of prompts a text"
    points = [(card.method, (card.characters or 0) / texts, value) for card, value in drawn]
    if all(card.prompt_tokens and not card.reused for card, _ in drawn):
        across = "prompt tokens sent a text"
        points = [(card.method, (card.prompt_tokens or 0) / texts, value) for card, value in drawn]
    return Chart(
        title=f"{first.benchmark}: agreement against cost",
        across=across,
        up=f"{first.statistic}, {first.level}, mean of dimensions",
        points=points,
    )


def _series(points: Sequence[CurvePoint]) -> list[Series]:
    series = []
    for colour, selection in enumerate(SCHEMES):
        for debiased in (False, True):
            drawn = []
            band = []
            for point in points:
                if (point.selection, point.debiased) != (selection, debiased):
                    continue
                if point.value is None or point.low is None or point.high is None:
                    continue
                drawn.append((float(point.budget), point.value))
                band.append((point.low, point.high))
            if drawn:
                series.append(
                    Series(
                        name=f"{selection}, debiased" if debiased else selection,
                        points=tuple(drawn),
                        band=tuple(band),
                        dashed=debiased,
                        colour=colour,
                    )
                )
    return series
