"""Tables of agreement: one for each level and statistic, with a row a method and a column a dimension.

A figure depends on no other method. Tables of differences compare two methods, on the contexts that both have.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from refladder.metaeval.agreement import MEAN, PARTIAL, Agreement
from refladder.metaeval.correction import SIGNIFICANT
from refladder.report.rendering import DASH, INTERVALS, PlainTable, number, with_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_WIDEST = 12  # columns of figures in a table for paper
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


def agreement_tables(rows: Iterable[Agreement], *, marked: bool = False) -> list[PlainTable]:
    """One table for each level, statistic and convention, and one of differences for each benchmark with a test.

    `marked`, for paper: the best of each column, and several benchmarks with more than 12 columns in parts.
    """
    groups: dict[tuple[str, str, str], list[Agreement]] = {}
    for row in rows:
        groups.setdefault((row.level, row.statistic, row.constant), []).append(row)
    tables = []
    for group in groups.values():
        tables += (
            [_marked(_table(part), part, group) for part in _parts(group)]
            if marked
            else [_table(group)]
        )
        tested = [row for row in group if row.reference is not None]
        tables += [
            _differences([row for row in tested if row.benchmark == name])
            for name in _benchmarks(tested)
        ]
    return tables


def _parts(rows: Sequence[Agreement]) -> list[Sequence[Agreement]]:
    """The rows of each table: all in one, or where that is too wide, the means of benchmarks and each benchmark."""
    names = _benchmarks(rows)
    if len(names) == 1 or len(_columns(rows)) < _WIDEST:  # and the mean of all
        return [rows]
    means = [row for row in rows if row.dimension == MEAN]
    return [means, *([row for row in rows if row.benchmark == name] for name in names)]


def _benchmarks(rows: Sequence[Agreement]) -> list[str]:
    return list(dict.fromkeys(row.benchmark for row in rows))


def _with_mean(rows: Sequence[Agreement]) -> list[Agreement]:
    """The rows, and for several benchmarks the mean of each method over them, where it has a mean on each."""
    benchmarks, added = _benchmarks(rows), []
    means = {(row.method, row.benchmark): row.value for row in rows if row.dimension == MEAN}
    for first in {row.method: row for row in rows}.values() if len(benchmarks) > 1 else ():
        values = [means.get((first.method, name)) for name in benchmarks]
        known = [value for value in values if value is not None]
        mean = fmean(known) if len(known) == len(values) else None
        whole = replace(
            first, benchmark="", dimension=MEAN, value=mean, low=None, high=None, p_best=None
        )
        added.append(replace(whole, reference=None))
    return [*rows, *added]


def _table(rows: Sequence[Agreement]) -> PlainTable:
    first, benchmarks = rows[0], _benchmarks(rows)
    words = _LEVEL_WORDS[first.level].format(_STATISTIC_WORDS[first.statistic])
    several = len(benchmarks) > 1
    columns = _columns(_with_mean(rows))
    heads = [
        f"{benchmark or 'benchmark'} {name}" if several else name for benchmark, name in columns
    ]
    mean = f"mean of the {len(benchmarks)} benchmarks (of the means over their dimensions); no interval, no test"
    return PlainTable(
        f"{'' if several else f'{first.benchmark}, '}{first.level}: {words}",
        ["method", *heads, *_COUNTS],
        [
            [
                method,
                *(
                    DASH if row is None else with_interval(row.value, row.low, row.high)
                    for row in cells
                ),
                *_counts([row for row in rows if row.method == method]),
            ]
            for method, cells in _by_method(_with_mean(rows), columns)
        ],
        (*([(heads[-1], mean)] if several else []), *_legend(rows)),
        len(_COUNTS),
        f"{'' if several else first.benchmark} {first.level} {first.statistic}",
        groups=tuple((name, sum(name == each for each, _ in columns)) for name in benchmarks)
        if several
        else (),
    )


def _marked(
    table: PlainTable, rows: Sequence[Agreement], corrected: Sequence[Agreement]
) -> PlainTable:
    """The table with the best figure of each column, and those that tests of all `corrected` do not tell from it."""
    best, equal = set(), set()
    names = _benchmarks(rows)
    rows = _with_mean(rows)
    lines = list(_by_method(rows, _columns(rows)))
    columns = _columns(corrected)
    of_tests = Counter(
        row.benchmark
        for row in corrected
        if row.p_best is not None
        and row.benchmark in names
        and (row.benchmark, row.dimension) in columns
    )
    tests = max(of_tests.values(), default=0)
    for column, cells in enumerate(zip(*(cells for _, cells in lines), strict=True), start=1):
        figures = [
            (place, row)
            for place, row in enumerate(cells)
            if row is not None and row.value is not None
        ]
        highest = number(max((row.value or 0.0 for _, row in figures), default=None), 3)
        for place, row in figures:
            if number(row.value, 3) == highest:
                best.add((place, column))
            elif of_tests[row.benchmark] and (row.p_best is None or row.p_best >= SIGNIFICANT):
                equal.add((place, column))
    legend = [("bold", "the best of the column")]
    if tests:
        over = " and ".join(map(str, of_tests.values())) + (" test" if tests == 1 else " tests")
        each = "for each benchmark " if len(of_tests) > 1 else ""
        test = f"paired permutation test, Holm's correction {each}over {over}"
        legend.append(
            (
                "underlined",
                f"not shown to differ from it: p at least {SIGNIFICANT:g} or no test; {test}",
            )
        )
    return table._replace(
        best=frozenset(best), equal=frozenset(equal), legend=(*legend, *table.legend)
    )


def _differences(rows: Sequence[Agreement]) -> PlainTable:
    """The methods minus the reference, with the tests."""
    first, tests = rows[0], sum(row.p_adjusted is not None for row in rows)
    columns = _columns(rows)
    dimensions = [name for _, name in columns]
    holm = f", Holm's correction over {tests} {'test' if tests == 1 else 'tests'}" if tests else ""
    if tests and len({row.dimension for row in rows if row.dimension != MEAN}) > 1:
        holm += ", means are not tested"
    both = (
        "in which both have a correlation"
        if first.level == "within_context"
        else "with an output that both scored"
    )
    legend = [("*", f"p < {SIGNIFICANT:g}, paired permutation test{holm}")]
    legend += [(DASH, "no value")] * any(row.difference is None for row in rows)
    return PlainTable(
        f"{first.benchmark}, {first.level}: {_STATISTIC_WORDS[first.statistic]}, the method minus {first.reference}",
        ["method", *dimensions, "common contexts"],
        [
            [
                method,
                *(
                    DASH if row is None else _difference(row, corrected=bool(tests))
                    for row in cells
                ),
                _span(
                    [
                        row.common or 0
                        for row in rows
                        if row.method == method and row.dimension in dimensions
                    ]
                ),
            ]
            for method, cells in _by_method(rows, columns)
        ],
        (*legend, ("common contexts", f"contexts {both}; the difference is computed from them")),
        1,
        f"{first.benchmark} {first.level} {first.statistic} differences",
    )


def _difference(row: Agreement, *, corrected: bool) -> str:
    """A difference and its mark; where tests are corrected, a test outside the correction gets none."""
    p_value = row.p_adjusted if corrected else row.p_value
    return number(row.difference, 3) + "*" * (p_value is not None and p_value < SIGNIFICANT)


def _columns(rows: Sequence[Agreement]) -> list[tuple[str, str]]:
    """The columns: of each benchmark, its dimensions and their mean. One dimension is its own mean."""
    columns = []
    for benchmark in _benchmarks(rows):
        dimensions = list(
            dict.fromkeys(row.dimension for row in rows if row.benchmark == benchmark)
        )
        parts = [name for name in dimensions if name != MEAN]
        columns += [(benchmark, name) for name in (parts if len(parts) == 1 else dimensions)]
    return columns


def _by_method(
    rows: Sequence[Agreement], columns: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, list[Agreement | None]]]:
    """Each method with its row of each column."""
    by_cell = {(row.method, row.benchmark, row.dimension): row for row in rows}
    for method in dict.fromkeys(row.method for row in rows):
        yield method, [by_cell.get((method, *column)) for column in columns]


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}-{high}"


def _counts(rows: Sequence[Agreement]) -> tuple[str, ...]:
    """Contexts, skipped and unscored of one method: the range over dimensions, and the sum of the unscored."""
    parts = [row for row in rows if row.dimension != MEAN] or rows
    return (
        _span([row.contexts for row in parts]),
        _span([row.skipped for row in parts]),
        str(sum(row.unscored for row in parts)),
    )


def _legend(rows: Sequence[Agreement]) -> tuple[tuple[str, str], ...]:
    """A line for each sign and column of counts that the table has."""
    first = rows[0]
    within = first.level == "within_context"
    lines = []
    if first.level == "between_systems":
        lines.append((INTERVALS, "no intervals, because the few systems are a sample too"))
    elif any(row.low is not None for row in rows):
        lines.append((INTERVALS, f"{first.confidence * 100:g} % interval"))
    if within and all(row.contexts == 0 for row in rows):
        lines.append(
            (
                DASH,
                "no value: no context has two outputs with different ratings and different scores",
            )
        )
    elif any(row.value is None for row in rows):
        lines.append((DASH, "no value"))
    contexts = "contexts that the value is computed from"
    if _may_differ(rows):
        contexts += (
            "; methods may differ in them, and --reference METHOD compares methods on common ones"
        )
    lines.append(("contexts", contexts))
    convention = within and (first.constant != "skip" or any(row.skipped for row in rows))
    skipped = "contexts without a correlation"
    lines += [
        ("skipped", f"{skipped}; {_CONSTANT_WORDS[first.constant]}" if convention else skipped),
        ("unscored", "rated outputs without a score"),
    ]
    return tuple(lines)


def _may_differ(rows: Sequence[Agreement]) -> bool:
    """Whether a method has no value in a context in which another may have one."""
    gaps = any(row.unscored or (row.constant_predicted and row.constant == "skip") for row in rows)
    several = len({row.method for row in rows}) > 1
    return several and (
        gaps
        or len({(row.benchmark, row.dimension, row.contexts) for row in rows})
        > len({(row.benchmark, row.dimension) for row in rows})
    )
