"""Compare systems by their scores on the same contexts."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refladder.arrays import known_mean
from refladder.comparison.gate import (
    context_means,
    corrected,
    decide,
    low_end_of,
    worst_cases,
)
from refladder.comparison.results import Comparison, Pair, System, WorstCase
from refladder.errors import (
    DataError,
    NoRowsError,
    UnknownNameError,
    UsageError,
    column_option,
    option,
    plural,
)
from refladder.files.tables import number_in, read_rows
from refladder.loaders.fields import log_columns
from refladder.loaders.input_rows import SYSTEM, Mapped
from refladder.loaders.scored_tables import OneScale, mapped_columns, ranked_by
from refladder.signatures import judge_of, same_scale
from refladder.statistics.bootstrap import context_seed, mean_difference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from refladder.events import Events
    from refladder.files.tables import Row
    from refladder.settings import Comparing

# What the gate does with rows without a score.
WORST, SKIP = "worst", "skip"


def run(tables: Sequence[str], asked: Comparing, events: Events) -> Comparison:
    """Compare every two systems of scored tables.

    A system is named by the column `system`, or by `model` in a log; in a table without one, all rows are of the system
    that has the name of the file. Rows of a system and context count as their mean.
    """
    unscored, fail_if_worse, seed = asked.unscored, asked.fail_if_worse, asked.seed
    if unscored not in (WORST, SKIP):
        raise UnknownNameError(f"value of {option('unscored')}", unscored, (WORST, SKIP))
    if unscored == SKIP and fail_if_worse is None:
        raise UsageError(
            f"{option('unscored')} {SKIP} changes only what {option('fail-if-worse')} decides; give both"
        )
    with ExitStack() as stack:
        read = _read(tables, asked, stack)
    names = _named(read, tables, asked)
    for note in read.notes:
        events.notice(note)
    if read.notes and (judged := _judged_apart(names, read)):
        events.notice(judged, warns=True)
    scores = read.scores
    # In an order of their own: random draws are the same for any order of the rows.
    contexts = sorted(set(itertools.chain(*map(scores.__getitem__, names))))
    means = {name: context_means(scores[name], contexts) for name in names}
    compared = []
    for first, second in itertools.combinations(names, 2):
        found = mean_difference(means[first], means[second], seed=context_seed(contexts, seed))
        compared.append(((first, second), found))
    low = low_end_of(tables, read.by, [scores[name] for name in names])
    worst: Sequence[WorstCase | None] = [None] * len(compared)
    if unscored == WORST:
        worst = worst_cases(compared, scores, low.value, seed=seed, system=fail_if_worse)
    adjusted = corrected([found.p for _, found in compared])
    pairs = []
    for ((first, second), found), p, worst_case in zip(compared, adjusted, worst, strict=True):
        win_rate = known_mean(np.sign(means[first] - means[second]) / 2 + 0.5)
        pair = Pair(
            first=first,
            second=second,
            **found._asdict(),
            p_holm=p,
            win_rate=win_rate,
            worst_case=worst_case,
        )
        pairs.append(pair)
    systems = []
    for name in names:
        count = int(np.count_nonzero(~np.isnan(means[name])))
        system = System(
            system=name,
            rows=read.rows[name],
            unscored=read.unscored[name],
            contexts=count,
            mean=float(np.nanmean(means[name])) if count else None,
        )
        systems.append(system)
    gate = None
    if fail_if_worse is not None:
        gate = decide(fail_if_worse, read.by, pairs, scores, low)
    return Comparison(by=read.by, systems=tuple(systems), pairs=tuple(pairs), gate=gate)


def _judged_apart(names: Sequence[str], read: _Read) -> str:
    """Warn of systems that have different judges; empty if all have the same."""
    signatures = {name: read.signatures[name] for name in names if name in read.signatures}
    first = next(iter(signatures.values()), None)
    if all(same_scale(first, other, read.by) for other in signatures.values()):
        return ""
    listed = "; ".join(f"{name}: {judge_of(signature)}" for name, signature in signatures.items())
    return (
        f"systems were judged by different judges ({listed}), so a difference may be one of judges; score them with one "
        "judge"
    )


class _Read(NamedTuple):
    """What the tables hold of each system: its scores by context, None for a row without one, and numbers of rows.

    `signatures` are those of the first scored row of each system, and `notes` say what several judges mean.
    """

    by: str
    scores: dict[str, dict[str, list[float | None]]]
    rows: Counter[str]
    unscored: Counter[str]
    signatures: dict[str, object]
    notes: list[str]


def _read(tables: Sequence[str], asked: Comparing, stack: ExitStack) -> _Read:
    """Read the scores of all systems; a row without a context is counted only."""
    scores: dict[str, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    rows: Counter[str] = Counter()
    unscored: Counter[str] = Counter()
    signatures: dict[str, object] = {}
    opened = []
    for table in tables:
        table_rows = read_rows(table)
        stack.callback(table_rows.close)
        # Only an iterator that has begun closes its file.
        table_rows.first()
        opened.append((table, table_rows))
    by = asked.by or ranked_by(opened)
    check_scale = OneScale([by], mix=asked.mix, across_judges=asked.across_judges)
    stems = Counter(Path(table).stem for table in tables)
    for table, table_rows in opened:
        of_log = log_columns(table_rows.columns() or ())
        fields = of_log | mapped_columns(table, asked.columns)
        mapped = Mapped(columns=fields)
        system_column = fields.get(SYSTEM, SYSTEM)
        for row in table_rows:
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
            else:
                check_scale(row)
                signatures.setdefault(system, row.signature)
            if context_id is not None:
                scores[system][context_id].append(value)
    if not rows:
        raise NoRowsError(f"{', '.join(tables)}: no rows, so nothing was compared")
    return _Read(by, scores, rows, unscored, signatures, check_scale.notes)


def _named(read: _Read, tables: Sequence[str], asked: Comparing) -> list[str]:
    """Return the systems to compare, in order."""
    for name in asked.systems or ():
        if name not in read.rows:
            raise UnknownNameError("system", name, read.rows)
    names = list(dict.fromkeys(asked.systems or read.rows))
    if len(names) == 1 < len(read.rows):
        raise UsageError(
            f"{option('systems')} names {names[0]!r} only; name two or more of: {', '.join(read.rows)}, or leave it out"
        )
    if len(names) < 2:
        raise UsageError(
            f"{plural(len(names), 'system')} in {', '.join(tables)}; compare two or more: name the column of the "
            f"systems with {column_option('system', 'NAME')}, or give one file for each system"
        )
    if asked.fail_if_worse == "":
        raise UsageError(
            f"{option('fail-if-worse')}: name the candidate, which is tested against the others: {', '.join(names)}"
        )
    if asked.fail_if_worse is not None and asked.fail_if_worse not in names:
        raise UnknownNameError("system", asked.fail_if_worse, names)
    return names


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
            f"{row.where}: no column {column!r}. Columns there: {', '.join(map(str, row.fields)) or 'none'}"
        )
    if stems[Path(table).stem] > 1:
        raise UsageError(
            f"{table}: two files name the system {Path(table).stem!r}; rename one, or add a column system"
        )
    return Path(table).stem
