"""Compare systems by their scores on the same contexts."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import (
    DataError,
    NoRowsError,
    UnknownNameError,
    UsageError,
    column_option,
    plural,
)
from refladder.files.tables import number_in, read_rows
from refladder.jobs.input_rows import SYSTEM, Mapped
from refladder.jobs.scored_tables import mapped_columns, one_scale, score_column
from refladder.metaeval.bootstrap import LEAST_CONTEXTS, context_seed, mean_difference
from refladder.metaeval.correction import SIGNIFICANT, holm
from refladder.report.rendering import PlainTable, number, with_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.files.tables import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system: its rows, those without a score, its contexts, and the mean over these of its mean score in each."""

    system: str
    rows: int
    unscored: int
    contexts: int
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two systems on the contexts that both have: `difference` is the mean of first minus second.

    `win_rate` is the share of contexts in which the first is higher; equal contexts count half.
    """

    first: str
    second: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    win_rate: float | None
    contexts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Systems and their pairs, compared by the column `by`."""

    by: str
    systems: tuple[System, ...]
    pairs: tuple[Pair, ...]

    def is_worse(self, system: str) -> bool:
        """Return whether a system is significantly worse than any other one."""
        if system not in (names := [each.system for each in self.systems]):
            raise UnknownNameError("system", system, names)
        return any(
            pair.p_holm < SIGNIFICANT
            and (pair.difference < 0 if pair.first == system else pair.difference > 0)
            for pair in self.pairs
            if system in (pair.first, pair.second)
            and pair.p_holm is not None
            and pair.difference is not None
        )


def compare_systems(
    tables: Sequence[str],
    *,
    by: str | None = None,
    systems: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    mix: bool = False,
    seed: int = 0,
) -> Comparison:
    """Compare every two systems of scored tables.

    A system is named by the column `system`; in a table without one, all rows are of the system that has the name of
    the file. Rows of a system and context count as their mean.
    """
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rows: Counter[str] = Counter()
    unscored: Counter[str] = Counter()
    check_scale = None
    stems = Counter(Path(table).stem for table in tables)
    for table in tables:
        fields = mapped_columns(table, columns)
        mapped = Mapped(columns=fields)
        system_column = fields.get(SYSTEM, SYSTEM)
        read = read_rows(table)
        by = by or score_column(table, read.columns())
        check_scale = check_scale or one_scale([by], mix=mix)
        for row in read:
            system = _system_of(row, system_column, table, stems)
            rows[system] += 1
            value = number_in(row, by)
            context_id, _, _ = mapped.context_of(row)
            if context_id == "":
                raise DataError(
                    f"{row.where}: no context, and systems are compared on the same contexts; name their column with "
                    f"{column_option('context', 'NAME')}"
                )
            if value is None or context_id is None:
                unscored[system] += 1
                continue
            check_scale(row)
            scores[system][context_id].append(value)
    if not rows:
        raise NoRowsError(f"{', '.join(tables)}: no rows, so nothing was compared")
    for name in systems:
        if name not in rows:
            raise UnknownNameError("system", name, rows)
    names = list(dict.fromkeys(systems or rows))
    if len(names) < 2:
        raise UsageError(
            f"{plural(len(names), 'system')} in {', '.join(tables)}; compare two or more: name the column of the "
            f"systems with {column_option('system', 'NAME')}, or give one file for each system"
        )
    # In an order of their own: random draws are the same for any order of the rows.
    contexts = sorted({context for name in names for context in scores[name]})
    means = {name: _means(scores[name], contexts) for name in names}
    compared = [
        (pair, mean_difference(means[pair[0]], means[pair[1]], seed=context_seed(contexts, seed)))
        for pair in itertools.combinations(names, 2)
    ]
    adjusted = iter(holm([found.p for _, found in compared if found.p is not None]))
    return Comparison(
        by=str(by),
        systems=tuple(
            System(
                system=name,
                rows=rows[name],
                unscored=unscored[name],
                contexts=len(scores[name]),
                mean=float(np.nanmean(means[name])) if scores[name] else None,
            )
            for name in names
        ),
        pairs=tuple(
            Pair(
                first=first,
                second=second,
                **found._asdict(),
                p_holm=None if found.p is None else next(adjusted),
                win_rate=_win_rate(means[first] - means[second]),
            )
            for (first, second), found in compared
        ),
    )


def comparison_tables(comparison: Comparison) -> list[PlainTable]:
    """Return the systems and the pairs as tables."""
    systems = PlainTable(
        caption=f"Systems by {comparison.by}",
        heads=["system", "mean", "contexts", "rows", "unscored"],
        rows=[
            [
                each.system,
                number(each.mean, 3),
                f"{each.contexts:,}",
                f"{each.rows:,}",
                f"{each.unscored:,}",
            ]
            for each in comparison.systems
        ],
    )
    pairs = PlainTable(
        caption=f"Differences of the means of {comparison.by}",
        heads=["pair", "difference", "p", "p (Holm)", "win rate", "contexts"],
        rows=[
            [
                f"{each.first} - {each.second}",
                with_interval(each.difference, each.low, each.high),
                *(number(value, 4) for value in (each.p, each.p_holm)),
                number(each.win_rate, 3),
                f"{each.contexts:,}",
            ]
            for each in comparison.pairs
        ],
        legend=(
            (
                "difference",
                f"mean of first minus second over common contexts; 95 % interval from {LEAST_CONTEXTS} contexts on",
            ),
            ("p", "paired permutation test over contexts; Holm's correction is over the pairs"),
            ("win rate", "share of contexts in which the first is higher; equal ones count half"),
        ),
    )
    return [systems, pairs]


def _system_of(row: Row, column: str, table: str, stems: Mapping[str, int]) -> str:
    if column in row.fields:
        value = row.fields[column]
        if value is None or value == "":
            raise DataError(
                f"{row.where}: the column {column!r} is empty; name the system of each row"
            )
        return str(value)
    if column != "system":
        raise DataError(
            f"{row.where}: no column {column!r}; Columns there: {', '.join(map(str, row.fields)) or 'none'}"
        )
    if stems[Path(table).stem] > 1:
        raise UsageError(
            f"{table}: two files name the system {Path(table).stem!r}; rename one, or add a column system"
        )
    return Path(table).stem


def _means(
    scores: Mapping[str, Sequence[float]], contexts: Sequence[str]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(
        [
            math.fsum(scores[name]) / len(scores[name]) if name in scores else np.nan
            for name in contexts
        ],
        dtype=np.float64,
    )


def _win_rate(differences: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float | None:
    common = differences[~np.isnan(differences)]
    return float((np.sign(common) / 2 + 0.5).mean()) if common.size else None
