"""Tables of agreement: one for each level and statistic, with a row a method and a column a dimension.

A figure depends on no other method. Tables of differences compare two methods, on the contexts that both have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from refladder.display.rendering import DASH, INTERVALS, PlainTable, number, with_interval
from refladder.errors import plural
from refladder.statistics.agreement import MEAN, PARTIAL, Agreement
from refladder.statistics.correction import SIGNIFICANT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# A table for a paper has at most this number of columns of figures.
_WIDEST = 12
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


def agreement_tables(
    rows: Iterable[Agreement],
    *,
    titles: Mapping[str, str] | None = None,
    marked: bool = False,
) -> list[PlainTable]:
    """Make one table for each level, statistic and convention, and one of differences for each benchmark with a test.

    Captions have the `titles` of benchmarks, by name. `marked`, for paper: the best of each column, and several
    benchmarks with more than 12 columns in parts.
    """
    shown = titles or {}
    groups: defaultdict[tuple[str, str, str], list[Agreement]] = defaultdict(list)
    for row in rows:
        groups[row.level, row.statistic, row.constant].append(row)
    tables = []
    for group in groups.values():
        if marked:
            tables += [_marked(_table(part, shown), part, group) for part in _parts(group)]
        else:
            tables.append(_table(group, shown))
        tested = [row for row in group if row.reference is not None]
        for name, compared in _grouped(tested, "benchmark").items():
            tables.append(_differences(compared, shown.get(name, name)))
    return tables


def _grouped(rows: Iterable[Agreement], name: str) -> dict[str, list[Agreement]]:
    """Group rows by a field, in the order in which its values come."""
    groups: dict[str, list[Agreement]] = {}
    for row in rows:
        groups.setdefault(getattr(row, name), []).append(row)
    return groups


def _parts(rows: Sequence[Agreement]) -> list[Sequence[Agreement]]:
    """Split rows into tables: one table, or if that is too wide, the means of benchmarks and each benchmark."""
    by_benchmark = _grouped(rows, "benchmark")
    # The mean over all benchmarks takes one more column.
    if len(by_benchmark) == 1 or len(_columns(rows)) < _WIDEST:
        return [rows]
    return [_grouped(rows, "dimension")[MEAN], *by_benchmark.values()]


def _with_mean(rows: Sequence[Agreement]) -> list[Agreement]:
    """Add the mean of each method over several benchmarks, if it has a mean on each."""
    benchmarks = _grouped(rows, "benchmark")
    if len(benchmarks) == 1:
        return list(rows)
    added = []
    for of_method in _grouped(rows, "method").values():
        values = {}
        for row in of_method:
            if row.dimension == MEAN and row.value is not None:
                values[row.benchmark] = row.value
        mean = fmean(values.values()) if len(values) == len(benchmarks) else None
        last = replace(of_method[-1], benchmark="", dimension=MEAN, value=mean)
        added.append(replace(last, low=None, high=None, p_best=None, reference=None))
    return [*rows, *added]


def _table(rows: Sequence[Agreement], titles: Mapping[str, str]) -> PlainTable:
    first = rows[0]
    benchmarks = list(_grouped(rows, "benchmark"))
    words = _LEVEL_WORDS[first.level].format(_STATISTIC_WORDS[first.statistic])
    shown = _with_mean(rows)
    columns = _columns(shown)
    of_columns, names = zip(*columns, strict=True)
    by_method = _grouped(rows, "method")
    lines = []
    for method, cells in _by_method(shown, columns):
        figures = [with_interval(row.value, row.low, row.high) if row else DASH for row in cells]
        lines.append([method, *figures, *_counts(by_method[method])])
    table = PlainTable(
        f"{', '.join(titles.get(name, name) for name in benchmarks)}, {first.level}: {words}",
        ["method", *names, *_COUNTS],
        lines,
        _legend(rows),
        len(_COUNTS),
        f"{first.benchmark} {first.level} {first.statistic}",
    )
    if len(benchmarks) == 1:
        return table
    heads = [f"{benchmark or 'benchmark'} {name}" for benchmark, name in columns]
    mean = f"mean of the {len(benchmarks)} benchmarks (of the means over their dimensions); no interval, no test"
    widths = Counter(of_columns)
    return table._replace(
        heads=["method", *heads, *_COUNTS],
        legend=((heads[-1], mean), *table.legend),
        label=f" {first.level} {first.statistic}",
        groups=tuple((name, widths[name]) for name in benchmarks),
    )


def _marked(
    table: PlainTable, rows: Sequence[Agreement], corrected: Sequence[Agreement]
) -> PlainTable:
    """Mark the best figure of each column, and those that tests of all `corrected` rows do not separate from it."""
    best = set()
    equal = set()
    names = _grouped(rows, "benchmark")
    rows = _with_mean(rows)
    columns = _columns(corrected)
    of_tests: Counter[str] = Counter()
    for row in corrected:
        has_column = (row.benchmark, row.dimension) in columns
        if row.benchmark in names and has_column and row.p_best is not None:
            of_tests[row.benchmark] += 1
    tests = max(of_tests.values(), default=0)
    lines = [cells for _, cells in _by_method(rows, _columns(rows))]
    for column, cells in enumerate(zip(*lines, strict=True), start=1):
        values = [row.value for row in cells if row is not None and row.value is not None]
        highest = number(max(values, default=None), 3)
        for line, row in enumerate(cells):
            if row is None or row.value is None:
                continue
            if number(row.value, 3) == highest:
                best.add((line, column))
            elif of_tests[row.benchmark] and (row.p_best is None or row.p_best >= SIGNIFICANT):
                equal.add((line, column))
    legend = [("bold", "the best of the column")]
    if tests:
        over = " and ".join(map(str, of_tests.values())) + (" test" if tests == 1 else " tests")
        each = "for each benchmark " if len(of_tests) > 1 else ""
        meaning = (
            f"not shown to differ from it: p at least {SIGNIFICANT:g} or no test; "
            f"paired permutation test, Holm's correction {each}over {over}"
        )
        legend.append(("underlined", meaning))
    return table._replace(
        best=frozenset(best), equal=frozenset(equal), legend=(*legend, *table.legend)
    )


def _differences(rows: Sequence[Agreement], title: str) -> PlainTable:
    """Show the methods minus the reference, with the tests."""
    first = rows[0]
    tests = sum(row.p_adjusted is not None for row in rows)
    columns = _columns(rows)
    test = f"p < {SIGNIFICANT:g}, paired permutation test"
    if tests:
        test += f", Holm's correction over {plural(tests, 'test')}"
        if len({row.dimension for row in rows if row.dimension != MEAN}) > 1:
            test += ", means are not tested"
    both = "with an output that both scored"
    if first.level == "within_context":
        both = "in which both have a correlation"
    legend = [("*", test)]
    if any(row.difference is None for row in rows):
        legend.append((DASH, "no value"))
    legend.append(("common contexts", f"contexts {both}; the difference is computed from them"))
    lines = []
    for method, cells in _by_method(rows, columns):
        differences = [_difference(row, corrected=bool(tests)) for row in cells]
        common = [row.common or 0 for row in cells if row is not None]
        lines.append([method, *differences, _span(common)])
    return PlainTable(
        f"{title}, {first.level}: {_STATISTIC_WORDS[first.statistic]}, the method minus {first.reference}",
        ["method", *(name for _, name in columns), "common contexts"],
        lines,
        tuple(legend),
        1,
        f"{first.benchmark} {first.level} {first.statistic} differences",
    )


def _difference(row: Agreement | None, *, corrected: bool) -> str:
    """Show a difference and its mark; if tests are corrected, a test outside the correction gets none."""
    if row is None:
        return DASH
    p_value = row.p_adjusted if corrected else row.p_value
    mark = "*" if p_value is not None and p_value < SIGNIFICANT else ""
    return number(row.difference, 3) + mark


def _columns(rows: Sequence[Agreement]) -> list[tuple[str, str]]:
    """List the columns: of each benchmark, its dimensions and their mean. A single dimension has no mean column."""
    columns = []
    for benchmark, of_benchmark in _grouped(rows, "benchmark").items():
        dimensions = _grouped(of_benchmark, "dimension")
        if len(dimensions) == 2:
            dimensions.pop(MEAN, None)
        columns += [(benchmark, name) for name in dimensions]
    return columns


def _by_method(
    rows: Sequence[Agreement], columns: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, list[Agreement | None]]]:
    """Yield each method with its row of each column."""
    for method, of_method in _grouped(rows, "method").items():
        by_column = {(row.benchmark, row.dimension): row for row in of_method}
        yield method, list(map(by_column.get, columns))


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low}-{high}"


def _counts(rows: Sequence[Agreement]) -> tuple[str, ...]:
    """Return contexts, skipped and unscored of one method: the range over dimensions, and the sum of the unscored."""
    parts = [row for row in rows if row.dimension != MEAN] or rows
    return (
        _span([row.contexts for row in parts]),
        _span([row.skipped for row in parts]),
        str(sum(row.unscored for row in parts)),
    )


def _legend(rows: Sequence[Agreement]) -> tuple[tuple[str, str], ...]:
    """Explain each sign and column of counts that the table has."""
    first = rows[0]
    within = first.level == "within_context"
    lines = []
    if first.level == "between_systems":
        lines.append((INTERVALS, "no intervals, because the few systems are a sample too"))
    elif any(row.low is not None for row in rows):
        lines.append((INTERVALS, f"{first.confidence * 100:g} % interval"))
    if within and all(row.contexts == 0 for row in rows):
        reason = "no context has two outputs with different ratings and different scores"
        if first.statistic == PARTIAL:
            reason = "no context has three outputs whose ratings and scores differ in other ways than their length"
        lines.append((DASH, f"no value: {reason}"))
    elif any(row.value is None for row in rows):
        lines.append((DASH, "no value"))
    contexts = "contexts that the value is computed from"
    # A method may have no value in a context in which another has one.
    may_differ = any(
        row.unscored or (row.constant_predicted and row.constant == "skip") for row in rows
    )
    columns = {(row.benchmark, row.dimension) for row in rows}
    values = {(row.benchmark, row.dimension, row.contexts) for row in rows}
    several = len({row.method for row in rows}) > 1
    if several and (may_differ or len(values) > len(columns)):
        contexts += (
            "; methods may differ in them, and --reference METHOD compares methods on common ones"
        )
    lines.append(("contexts", contexts))
    skipped = "contexts without a correlation"
    if within and (first.constant != "skip" or any(row.skipped for row in rows)):
        skipped += f"; {_CONSTANT_WORDS[first.constant]}"
    return (*lines, ("skipped", skipped), ("unscored", "rated outputs without a score"))
