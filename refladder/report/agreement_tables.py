"""Tables of agreement: one for each benchmark, level and statistic, with a row a method and a column a dimension."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from refladder.metaeval.agreement import MEAN, PARTIAL, Agreement
from refladder.metaeval.correction import SIGNIFICANT
from refladder.report.rendering import DASH, PlainTable, with_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_COUNTS = ("contexts", "skipped", "unscored")
_LEVEL_WORDS = {
    "within_context": "{} with the ratings, mean over contexts",
    "pooled": "{} with the ratings, all outputs together",
    "between_systems": "{} with the ratings, means of systems",
}
_STATISTIC_WORDS = {
    "spearman": "Spearman",
    "kendall": "Kendall tau-b",
    "pearson": "Pearson",
    PARTIAL: "partial Spearman given length",
}
_CONSTANT_WORDS = {
    "skip": "constant contexts are skipped",
    "zero": "constant ratings are skipped, a constant prediction counts 0",
    "one": "constant ratings count 1, a constant prediction 0",
}


def agreement_tables(rows: Iterable[Agreement]) -> list[PlainTable]:
    """One table for each benchmark, level, statistic and convention for constant contexts."""
    groups: dict[tuple[str, str, str, str], list[Agreement]] = {}
    for row in rows:
        groups.setdefault((row.benchmark, row.level, row.statistic, row.constant), []).append(row)
    return [_table(group) for group in groups.values()]


def _table(rows: Sequence[Agreement]) -> PlainTable:
    first, legend = rows[0], _legend(rows)
    words = _LEVEL_WORDS[first.level].format(_STATISTIC_WORDS[first.statistic])
    if any(row.p_adjusted is not None for row in rows):
        # In a table whose tests are corrected, a test outside the correction gets no mark.
        rows = [row if row.p_adjusted is not None else replace(row, p_value=None) for row in rows]
    by_cell = {(row.method, row.dimension): row for row in rows}
    dimensions = tuple(dict.fromkeys(row.dimension for row in rows))
    # One dimension is its own mean.
    parts = [name for name in dimensions if name != MEAN]
    if len(parts) == 1:
        dimensions = (parts[0],)
    return PlainTable(
        f"{first.benchmark}, {first.level}: {words}",
        ["method", *dimensions, *_COUNTS],
        [
            [
                method,
                *(_cell(by_cell.get((method, name))) for name in dimensions),
                *_counts([row for row in rows if row.method == method]),
            ]
            for method in dict.fromkeys(row.method for row in rows)
        ],
        legend,
        len(_COUNTS),
    )


def _cell(row: Agreement | None) -> str:
    if row is None:
        return DASH
    p_value = row.p_value if row.p_adjusted is None else row.p_adjusted
    mark = "*" if p_value is not None and p_value < SIGNIFICANT else ""
    return with_interval(row.value, row.low, row.high, mark=mark)


def _counts(rows: Sequence[Agreement]) -> tuple[str, ...]:
    """Contexts, skipped and unscored of one method: the range over dimensions, and the sum of the unscored."""
    parts = [row for row in rows if row.dimension != MEAN] or rows

    def span(count: Callable[[Agreement], int]) -> str:
        low, high = min(map(count, parts)), max(map(count, parts))
        return str(low) if low == high else f"{low}-{high}"

    contexts = span(lambda row: row.contexts)
    if any(map(_narrowed, rows)):
        contexts += f" of {span(lambda row: row.contexts if row.correlated is None else row.correlated)}"
    return (
        contexts,
        span(lambda row: row.skipped),
        str(sum(row.unscored for row in parts)),
    )


def _legend(rows: Sequence[Agreement]) -> tuple[tuple[str, str], ...]:
    """A line for each sign and column of counts that the table has."""
    first = rows[0]
    within = first.level == "within_context"
    lines = []
    if first.level == "between_systems":
        lines.append(("[ ]", "no intervals, because the few systems are a sample too"))
    elif any(row.low is not None for row in rows):
        lines.append(("[ ]", f"{first.confidence * 100:g} % interval"))
    tests = sum(row.p_adjusted is not None for row in rows)
    holm = f", Holm's correction over {tests} {'test' if tests == 1 else 'tests'}" if tests else ""
    if tests and len({row.dimension for row in rows if row.dimension != MEAN}) > 1:
        holm += ", means are not tested"
    references = list(dict.fromkeys(row.reference for row in rows if row.reference is not None))
    if references:
        lines.append(("*", f"p < {SIGNIFICANT:g} against {', '.join(references)}, paired permutation test{holm}"))
    if within and all(row.contexts == 0 for row in rows):
        lines.append((DASH, "no value: no context has two outputs with different ratings and different scores"))
    elif any(row.value is None for row in rows):
        lines.append((DASH, "no value"))
    contexts = "contexts that the value is computed from"
    if any(map(_narrowed, rows)):
        contexts = "contexts in which every method has a correlation, of those in which this method has one"
    lines.append(("contexts", contexts))
    convention = within and (first.constant != "skip" or any(row.skipped for row in rows))
    skipped = "contexts without a correlation"
    lines += [
        ("skipped", f"{skipped}; {_CONSTANT_WORDS[first.constant]}" if convention else skipped),
        ("unscored", "rated outputs without a score"),
    ]
    return tuple(lines)


def _narrowed(row: Agreement) -> bool:
    return row.correlated is not None and row.correlated > row.contexts
