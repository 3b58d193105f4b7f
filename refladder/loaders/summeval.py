"""SummEval (Fabbri et al. 2021): summaries of 100 CNN/DailyMail articles by 16 systems, rated on four dimensions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from refladder.errors import DataError, UnknownNameError
from refladder.files.jsonl import read_bytes
from refladder.loaders.draft import MEAN, Draft, add_flat
from refladder.loaders.fields import (
    as_number,
    as_row,
    list_of,
    missing_column,
    name_of,
    number_of,
    text_of,
)
from refladder.loaders.sources import (
    Table,
    fetch_table,
    find_beside,
    find_file,
    read_json,
    read_table,
)
from refladder.loaders.task_files import TASKS, read_task
from refladder.records import names_of, text_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from refladder.files.tables import Row
    from refladder.records import Benchmark

TASK, DIMENSIONS = read_task(TASKS / "summeval.toml")
NAMES = tuple(names_of(DIMENSIONS))
LICENCE = "annotations MIT; article texts belong to CNN and the Daily Mail"
HUB = "mteb/summeval"
ADVICE = "download model_annotations.aligned.paired.jsonl as https://github.com/Yale-LILY/SummEval describes"
PAIRED = "model_annotations.aligned.paired.jsonl"
UNPAIRED = "model_annotations.aligned.jsonl"
MTEB = "mteb_summeval.test.jsonl", "mteb_summeval.jsonl"
FILES = (
    PAIRED,
    UNPAIRED,
    *MTEB,
    "summeval.json",
    "summeval.jsonl",
    "summeval.csv",
    "test.jsonl",
    "test.parquet",
)
ORDER = "system_order.json"
RATERS: dict[str, tuple[tuple[str, str], ...]] = {
    "experts": (("expert_annotations", "expert"),),
    "crowd": (("turker_annotations", "crowd"),),
    "all": (("expert_annotations", "expert"), ("turker_annotations", "crowd")),
}


def load(source: Path | None, raters: Literal["experts", "crowd", "all"] = "experts") -> Benchmark:
    """Read SummEval, with the 16 or 12 systems that the source has.

    Formats: the release paired with its articles (individual raters); the release as downloaded, if the mteb file with
    the same ids is in the same folder; the schema of the Hub data set mteb/summeval, whose systems are called `system
    1`, ... by position without `system_order.json` in the folder; the flat list of G-Eval and UniEval; the flat table
    id, input, output. The last three have only the means of the experts (rater `mean`). Systems that a release lacks
    are read from an mteb file with `system_order.json`, with mean ratings. `raters` are the three experts, as in
    papers, or the five of the crowd.
    """
    if raters not in RATERS:
        raise UnknownNameError("group of SummEval raters", raters, RATERS)
    draft = Draft(TASK, DIMENSIONS)
    if source is None:
        table = fetch_table(HUB, "test", ADVICE)
        revision = table.revision
        _add(draft, table, None, raters)
    else:
        path = find_file(source, FILES)
        revision = _add(draft, read_table(path), path.parent, raters, complete=source.is_dir())
    return draft.finish(name="summeval", revision=revision, licence=LICENCE)


def _add(
    draft: Draft, table: Table, folder: Path | None, raters: str, *, complete: bool = False
) -> str:
    """Add a table in any format, with the files in its folder; returns the revision of all sources."""
    first = table.rows[0]
    if "decoded" in first.fields:
        return _add_release(draft, table, folder, raters, complete=complete)
    if raters != "experts":
        raise DataError(
            f"{first.where}: this format has only the means of the experts; raters={raters!r} needs {PAIRED}"
        )
    if "machine_summaries" in first.fields:
        _add_mteb(draft, table.rows, None if folder is None else _system_order(folder))
    elif "system_output" in first.fields:
        add_flat(draft, table.rows, dimensions=NAMES)
    elif "input" in first.fields:
        _add_table(draft, table.rows)
    else:
        raise DataError(
            f"{first.where}: unknown format of SummEval; expected a column decoded (the release), machine_summaries "
            f"(mteb/summeval), system_output (G-Eval) or input; it has: {', '.join(first.fields)}"
        )
    return table.revision


def _add_release(
    draft: Draft, table: Table, folder: Path | None, raters: str, *, complete: bool
) -> str:
    beside = None if folder is None else _mteb_beside(folder)
    articles: Mapping[str, str] | None = None
    revision = table.revision
    if "text" not in table.rows[0].fields:
        if beside is None:
            raise DataError(
                f"{table.rows[0].where}: no column 'text', the article: this is the unpaired release; pair it with the "
                f"CNN/DailyMail stories as described at https://github.com/Yale-LILY/SummEval, or put {MTEB[0]}, "
                "which has the articles under the same ids, in the same folder"
            )
        articles = {name_of(row, "id"): text_of(row, "text") for row in beside.rows}
        revision += f"+{beside.revision}"
    for row in table.rows:
        _add_release_row(draft, row, articles, raters)
    if folder is None or not complete or raters != "experts":
        return revision
    order = _system_order(folder)
    if beside is None or order is None:
        return revision
    ids, present, summaries = set(), set(), {}
    for row in table.rows:
        context_id, system = name_of(row, "id"), name_of(row, "model_id")
        ids.add(context_id)
        present.add(system)
        summaries[context_id, system] = text_of(row, "decoded")
    missing = [system for system in order if system not in present]
    if missing:
        _check_order(beside.rows, order, summaries)
        rows = [row for row in beside.rows if name_of(row, "id") in ids]
        _add_mteb(draft, rows, order, only=missing)
        if articles is None:
            revision += f"+{beside.revision}"
    return revision


def _check_order(
    rows: Iterable[Row], order: Sequence[str], summaries: Mapping[tuple[str, str], str]
) -> None:
    """Check that under the system order the mteb file has the same summaries as the release."""
    for row in rows:
        for system, summary in zip(order, _texts(row, "machine_summaries"), strict=False):
            expected = summaries.get((name_of(row, "id"), system))
            if expected is not None and expected.rstrip() != summary:
                raise DataError(
                    f"{row.where}: the summary of {system!r} differs from the release; {ORDER} does not belong to "
                    "this file, remove one of them from the folder"
                )


def _add_release_row(
    draft: Draft, row: Row, articles: Mapping[str, str] | None, raters: str
) -> None:
    context_id = name_of(row, "id")
    if articles is None:
        text = text_of(row, "text")
    elif context_id in articles:
        text = articles[context_id]
    else:
        raise DataError(
            f"{row.where}: the file with the articles has no id {context_id!r}; complete it"
        )
    draft.add_context(row.where, context_id, text.rstrip(), references=_texts(row, "references"))
    output_id = draft.add_output(
        row.where, context_id, name_of(row, "model_id"), text_of(row, "decoded").rstrip()
    )
    for column, rater in RATERS[raters]:
        for number, annotation in enumerate(list_of(row, column), start=1):
            values = as_row(f"{row.where}: {column} {number}", annotation)
            ratings = {name: number_of(values, name) for name in NAMES}
            draft.add_ratings(values.where, output_id, ratings, f"{rater} {number}")


def _add_mteb(
    draft: Draft,
    rows: Iterable[Row],
    order: Sequence[str] | None,
    only: Sequence[str] | None = None,
) -> None:
    for row in rows:
        summaries = _texts(row, "machine_summaries")
        systems = order or [f"system {number}" for number in range(1, len(summaries) + 1)]
        if len(systems) != len(summaries):
            raise DataError(
                f"{row.where}: {len(summaries)} machine_summaries, but {ORDER} names {len(systems)} systems"
            )
        values = {name: list_of(row, name, len(summaries)) for name in NAMES}
        context_id = name_of(row, "id")
        # With `only`, the draft already has the contexts.
        if only is None:
            references = _texts(row, "human_summaries")
            draft.add_context(
                row.where, context_id, text_of(row, "text").rstrip(), references=references
            )
        for position, (system, summary) in enumerate(zip(systems, summaries, strict=True)):
            if only is not None and system not in only:
                continue
            output_id = draft.add_output(
                f"{row.where}: summary {position + 1}", context_id, system, summary
            )
            ratings = {name: as_number(row.where, name, values[name][position]) for name in NAMES}
            draft.add_ratings(row.where, output_id, ratings, MEAN)


def _add_table(draft: Draft, rows: Sequence[Row]) -> None:
    """Add the flat table id, input, output, without system names; `id` names the article if rows share it."""
    ids = Counter(name_of(row, "id") for row in rows)
    shared = any(count > 1 for count in ids.values())
    counts: Counter[str] = Counter()
    for row in rows:
        text = text_of(row, "input").rstrip()
        context_id = name_of(row, "id") if shared else text_id(text)
        draft.add_context(row.where, context_id, text)
        counts[context_id] += 1
        system = f"system {counts[context_id]}"
        output_id = draft.add_output(row.where, context_id, system, text_of(row, "output").rstrip())
        draft.add_ratings(
            row.where, output_id, {name: number_of(row, name) for name in NAMES}, MEAN
        )


def _texts(row: Row, column: str) -> tuple[str, ...]:
    texts = list_of(row, column)
    for text in texts:
        if not isinstance(text, str):
            raise DataError(
                f"{row.where}: column {column!r}: expected a list of texts, found {text!r:.80} in it"
            )
    return tuple(text.rstrip() for text in texts)


def _mteb_beside(folder: Path) -> Table | None:
    path = next(filter(None, (find_beside(folder, name) for name in MTEB)), None)
    if path is None:
        return None
    table = read_table(path)
    if "machine_summaries" not in table.rows[0].fields:
        raise missing_column(table.rows[0].where, "machine_summaries", table.rows[0].fields)
    return table


def _system_order(folder: Path) -> list[str] | None:
    path = find_beside(folder, ORDER)
    if path is None:
        return None
    order = read_json(path, read_bytes(path))
    if (
        not isinstance(order, list)
        or not all(isinstance(name, str) for name in order)
        or len(set(order)) != len(order)
    ):
        raise DataError(f"{path}: expected a list of different system names, found {order!r:.80}")
    return order
