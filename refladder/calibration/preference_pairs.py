"""pairs: scored rows -> pairs of a chosen and a rejected text for preference training."""

from __future__ import annotations

import functools
import heapq
from array import array
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refladder.errors import DataError, UsageError, column_option, option, plural
from refladder.files.ladder_sets import as_ladder_set
from refladder.files.tables import (
    Row,
    format_of,
    number_in,
    open_sink,
    read_rows,
    read_twice,
    source_name,
    standard_form,
)
from refladder.loaders.input_rows import Mapped, items
from refladder.loaders.scored_tables import (
    OneScale,
    mapped_columns,
    ranked_by,
    reported,
)
from refladder.signatures import same_scale
from refladder.thoughts import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from refladder.arrays import FloatArray
    from refladder.calibration.records import Pairing
    from refladder.events import Events
    from refladder.files.tables import Write
    from refladder.records import Context, Progress
    from refladder.settings import Tables

TEXTS = ("prompt", "chosen", "rejected", "context_id", "chosen_id", "rejected_id")
ROLES = {"prompt": "user", "chosen": "assistant", "rejected": "assistant"}
NUMBERS = {"score_chosen": float, "score_rejected": float, "signature": str}
# A difference this much below the margin reaches it: 0.3 - 0.2 is less than 0.1.
_ROUNDING = 1e-9


@dataclass(slots=True, kw_only=True)
class PairReport:
    """Counts of a run: of rows without a score or output, and of pairs written and left out, with the reason by name.

    A pair of rows with the `same_text` counts as nothing else. `single` contexts have one scored row; `widest` is the
    largest difference within a context.
    """

    column: str
    rows: int = 0
    unscored: int = 0
    contexts: int = 0
    single: int = 0
    pairs: int = 0
    ties: int = 0
    below_margin: int = 0
    over_limit: int = 0
    same_text: int = 0
    widest: float | None = None


def pair_lines(report: PairReport) -> list[str]:
    """Describe the counts of a run."""
    lines = [
        (
            f"{plural(report.rows, 'row')} of {plural(report.contexts, 'context')}: {plural(report.pairs, 'pair')} by "
            f"{report.column}"
        ),
        (
            f"not written: {plural(report.ties, 'pair')} with equal scores, {report.below_margin:,} below the margin, "
            f"{report.over_limit:,} over {option('per-context')}, {report.same_text:,} with the same text"
        ),
    ]
    if report.unscored or report.single:
        lines.append(
            f"without a pair: {plural(report.unscored, 'unscored row')}, {plural(report.single, 'context')} with a "
            "single scored row"
        )
    if not report.pairs and report.widest is not None:
        lines.append(f"no pair: the largest difference within a context is {report.widest:g}")
    return lines


class _Text(NamedTuple):
    """What a pair needs of a row."""

    where: str
    name: str
    context_id: str
    prompt: str
    output: str
    score: float
    signature: str | None


def run(asked: Pairing, tables: Tables, events: Events) -> PairReport:
    """Write pairs of outputs of one context whose scores differ, in the preference format of TRL with explicit prompts.

    Source: the documentation of TRL 1.16, "Dataset formats and types".

    The pairs of a context are taken in the order of their difference, the widest first; of equal ones, those whose rows
    come first. The table is read twice; texts are kept only of pairs whose other text is still to be read.
    """
    margin, per_context, ladders = asked.margin, asked.per_context, asked.ladders
    if not 0 <= margin < float("inf"):
        raise UsageError(
            f"{option('margin')} {margin:g}: a difference of scores, 0 or more, is needed"
        )
    if per_context is not None and per_context < 1:
        raise UsageError(
            f"{option('per-context')} {per_context}: a number of pairs must be 1 or more"
        )
    # Pairs train with whole texts, thoughts and all.
    mapped = Mapped(columns=mapped_columns(tables.source, asked.columns), text_of=WHOLE)
    opened = as_ladder_set(ladders)
    contexts = {} if opened is None else opened.contexts
    source, out = tables.source, tables.out
    form = format_of(source, tables.given)
    form_out = tables.out_format or standard_form(out, form)
    if asked.conversational and format_of(out, form_out, output=True) == "csv":
        raise UsageError(
            f"{out}: chat messages are lists, which CSV does not have; write .jsonl or .parquet"
        )
    with ExitStack() as stack:
        path = stack.enter_context(read_twice(source, form))
        rows = read_rows(path, form)
        stack.callback(rows.close)
        # Only an iterator that has begun closes its file.
        rows.first()
        report = PairReport(column=asked.by or ranked_by([(source_name(source), rows)]))
        check_scale = OneScale([report.column], mix=asked.mix, across_judges=asked.across_judges)
        texts = functools.partial(
            _texts,
            path,
            form,
            mapped,
            contexts,
            column=report.column,
            check_scale=check_scale,
        )
        pairs = _choose(texts(), report, margin, per_context)
        for note in check_scale.notes:
            events.notice(note)
        sink = open_sink(
            out,
            form_out,
            NUMBERS,
            TEXTS,
            style=rows.style,
            escape_formulas=tables.escape_formulas,
            record={"command": "pairs"},
        )
        write = stack.enter_context(sink)
        progress = stack.enter_context(events.progress("pairing"))
        if asked.conversational:
            write = _as_messages(write)
        _write_pairs(texts(), pairs, write, report, progress)
    return report


def _as_messages(write: Write) -> Write:
    def messages(row: Row, values: Mapping[str, Any] | None = None, /) -> None:
        chat = {name: [{"role": role, "content": row.fields[name]}] for name, role in ROLES.items()}
        write(Row(row.where, {**row.fields, **chat}), values)

    return messages


def _texts(
    path: str,
    form: str,
    mapped: Mapped,
    contexts: Mapping[str, Context],
    *,
    column: str,
    check_scale: OneScale,
) -> Iterator[_Text | None]:
    """Return what pairs need of each row; None for a row without a score or an output."""
    for item in items(read_rows(path, form), mapped, check_ids=False):
        score = number_in(item.row, column)
        if item.output is None or score is None:
            yield None
            continue
        check_scale(item.row)
        context_id, prompt = item.output.context_id, item.context_text
        if prompt is None and context_id not in contexts:
            raise DataError(
                f"{item.row.where}: no text of context {context_id!r} for the prompt; add it in a column context (or "
                f"map one with {column_option('context', 'NAME')}), or name the ladder set that has it with "
                f"{option('ladders')}"
            )
        prompt = contexts[context_id].text if prompt is None else prompt
        signature = item.row.fields.get("signature")
        named = None if signature is None else str(signature)
        yield _Text(
            item.row.where, item.output.id, context_id, prompt, item.output.text, score, named
        )


def _choose(
    rows: Iterator[_Text | None], report: PairReport, margin: float, most: int | None
) -> list[tuple[int, int]]:
    """Choose the pairs, as (chosen row, rejected row)."""
    number_of: dict[str, int] = {}
    columns: tuple[array[Any], ...] = array("q"), array("q"), array("q"), array("d")
    for number, row in enumerate(rows):
        report.rows += 1
        if row is None:
            report.unscored += 1
            continue
        group = number_of.setdefault(row.context_id, len(number_of))
        for column, value in zip(
            columns, (group, number, hash(row.output), row.score), strict=True
        ):
            column.append(value)
    report.contexts = len(number_of)
    groups, numbers, texts, scores = (np.asarray(column) for column in columns)
    order = np.argsort(groups, kind="stable")
    ends = np.flatnonzero(np.diff(groups[order])) + 1
    pairs: list[tuple[int, int]] = []
    for members in np.split(order, ends) if len(order) else ():
        values, total = scores[members], len(members) * (len(members) - 1) // 2
        different, reached = _differences(values, margin)
        same, counts = np.unique(texts[members], return_counts=True)
        for text in same[counts > 1]:
            copies = values[texts[members] == text]
            apart, far = _differences(copies, margin)
            alike = len(copies) * (len(copies) - 1) // 2
            report.same_text += alike
            total, different, reached = total - alike, different - apart, reached - far
        wanted = reached if most is None else min(reached, most)
        report.single += len(values) == 1
        report.ties += total - different
        report.below_margin += different - reached
        report.over_limit += reached - wanted
        if len(values) > 1:
            report.widest = max(report.widest or 0.0, float(values.max() - values.min()))
        pairs += _widest(
            values.tolist(), numbers[members].tolist(), texts[members].tolist(), wanted
        )
    return pairs


def _differences(values: FloatArray, margin: float) -> tuple[int, int]:
    """Count the pairs of values that differ, and those of them that differ by the margin or more."""
    ascending = np.sort(values)
    equal = np.searchsorted(ascending, ascending, "left")
    far = np.minimum(equal, np.searchsorted(ascending, ascending - margin + _ROUNDING, "right"))
    return int(equal.sum()), int(far.sum())


def _widest(
    values: Sequence[float], rows: Sequence[int], texts: Sequence[int], count: int
) -> Iterator[tuple[int, int]]:
    """Return the pairs of different texts with the largest differences, as (row of the higher, row of the lower value).

    With the values in falling and in rising order, a step on either side never makes a difference larger, so the next
    pair is always a neighbour of an earlier one.
    """
    falling = sorted(range(len(values)), key=lambda position: -values[position])
    rising = sorted(range(len(values)), key=values.__getitem__)

    def entry(high: int, low: int) -> tuple[float, int, int, int, int]:
        chosen, rejected = falling[high], rising[low]
        return values[rejected] - values[chosen], rows[chosen], rows[rejected], high, low

    heap = [entry(0, 0)] if count else []
    while count:
        _, chosen, rejected, high, low = heapq.heappop(heap)
        if texts[falling[high]] != texts[rising[low]]:
            yield chosen, rejected
            count -= 1
        if low + 1 < len(values):
            heapq.heappush(heap, entry(high, low + 1))
        if low == 0 and high + 1 < len(values):
            heapq.heappush(heap, entry(high + 1, 0))


def _write_pairs(
    texts: Iterator[_Text | None],
    pairs: Sequence[tuple[int, int]],
    write: Write,
    report: PairReport,
    progress: Progress | None,
) -> None:
    """Write each pair at its later row, and let go of a text after its last pair."""
    ready: dict[int, list[tuple[int, int]]] = {}
    uses: dict[int, int] = {}
    for pair in pairs:
        ready.setdefault(max(pair), []).append(pair)
        for number in pair:
            uses[number] = uses.get(number, 0) + 1
    waiting: dict[int, _Text] = {}
    for number, text in reported(texts, progress, report.rows):
        if text is not None and number in uses:
            waiting[number] = text
        for pair in ready.pop(number, ()):
            _write_pair(waiting[pair[0]], waiting[pair[1]], write, report)
            for row in pair:
                uses[row] -= 1
                if not uses[row]:
                    del waiting[row]


def _write_pair(chosen: _Text, rejected: _Text, write: Write, report: PairReport) -> None:
    if chosen.prompt != rejected.prompt:
        raise DataError(
            f"{rejected.where}: context {chosen.context_id!r} has another text than in {chosen.where}; a pair needs "
            "one prompt, so give different contexts different ids"
        )
    report.pairs += 1
    values = (
        chosen.prompt,
        chosen.output,
        rejected.output,
        chosen.context_id,
        chosen.name,
        rejected.name,
    )
    signature = None
    if same_scale(chosen.signature, rejected.signature):
        signature = chosen.signature
    numbers = (chosen.score, rejected.score, signature)
    write(
        Row(chosen.where, dict(zip(TEXTS, values, strict=True))),
        dict(zip(NUMBERS, numbers, strict=True)),
    )
