"""A report card, or a contest with every text and verdict, as one HTML file without scripts and network access."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from refladder.report.rendering import number, shared_legends
from refladder.report.standings import standing_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.report.rendering import PlainTable

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums }
caption { text-align: left; color: #555; padding: .3em 0 }
th, td { border-bottom: 1px solid #ddd; padding: .2em .7em; text-align: right; vertical-align: top }
th:first-child, td:first-child, td.words { text-align: left }
.scroll { overflow-x: auto }
.legend { list-style: none; padding: 0; margin: 0 0 2em; color: #555 }
.texts { display: flex; flex-wrap: wrap; gap: 1em }
.texts > div { flex: 1 1 20em; border: 1px solid #ddd; padding: .5em 1em }
pre { white-space: pre-wrap; font: inherit; margin: .3em 0 }
svg { max-width: 50em; display: block; margin: 1em 0 }
summary { cursor: pointer; margin: .4em 0 }
.missing { color: #a33 }
"""


def card_page(title: str, tables: Iterable[PlainTable], figures: Iterable[str], notes: Sequence[str]) -> str:
    """The report card as one page.

    Args:
        title: what was evaluated.
        tables: of agreement, and the report card.
        figures: SVG, inserted without a change.
        notes: lines for the end: signatures, and what could not be computed or drawn.
    """
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return _page(title, [*map(_table, shared_legends(tables)), *figures, f"<h2>How it was made</h2><ul>{listed}</ul>"])


def contest_page(title: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """A contest as one page: for each row its prompt, its texts, and how the judge chose in both orders.

    Args:
        title: of the page.
        lines: of `results.jsonl`, which needs no other file.
    """
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        kinds.setdefault(line["kind"], []).append(line)
    parts = [f"<p>{escape(contest['signature'])}</p>" for contest in kinds.get("contest", ())]
    parts += [
        f"<p><b>{escape(criterion['criterion'])}</b>: {escape(criterion['description'])}</p>"
        for criterion in kinds.get("criterion", ())
    ]
    parts += map(_table, shared_legends(standing_tables(kinds.get("standing", []))))
    texts, trials = _by_row(kinds.get("text", ())), _by_row(kinds.get("trial", ()))
    parts += [_row(row, texts.get(row["row"], []), trials.get(row["row"], [])) for row in kinds.get("row", ())]
    return _page(title, parts)


def _row(row: Mapping[str, Any], texts: Sequence[Mapping[str, Any]], trials: Sequence[Mapping[str, Any]]) -> str:
    prompt = f"<pre>{escape(row['prompt'])}</pre>" if row["prompt"] is not None else _missing(row["note"])
    shown = "".join(
        f"<div><b>{escape(text['model'])}</b>"
        + (_missing(text["note"]) if text["text"] is None else f"<pre>{escape(text['text'])}</pre>")
        + "</div>"
        for text in texts
    )
    cells = "".join(
        f"<tr><td>{escape(trial['criterion'])}</td>"
        f"<td class=words>{escape(trial['one'])} : {escape(trial['other'])}</td>"
        f"<td>{number(trial['forward'], 3)}</td><td>{number(trial['backward'], 3)}</td>"
        f"<td class=words>{escape(trial['winner'] or ('tie' if trial['tie'] else 'unparsed'))}</td>"
        f"<td class=words>{escape(trial['explanation'] or '')}{_missing(trial['note'])}</td></tr>"
        for trial in trials
    )
    heads = "<th>criterion</th><th>first : second</th><th>p(first), shown first</th><th>p(first), shown second</th>"
    table = f"<div class=scroll><table><tr>{heads}<th>winner</th><th>why</th></tr>{cells}</table></div>"
    return (
        f"<details open><summary><b>row {escape(row['row'])}</b></summary>{prompt}<div class=texts>{shown}</div>"
        f"{table if trials else ''}</details>"
    )


def _by_row(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        rows.setdefault(line["row"], []).append(line)
    return rows


def _missing(note: str | None) -> str:
    return "" if note is None else f"<p class=missing>{escape(note)}</p>"


def _table(table: PlainTable) -> str:
    heads = "".join(f"<th>{escape(head)}</th>" for head in table.heads)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    lines = "".join(f"<li><b>{escape(term)}</b>: {escape(meaning)}</li>" for term, meaning in table.legend)
    legend = f"<ul class=legend>{lines}</ul>" if lines else ""
    caption = f"<caption>{escape(table.caption)}</caption>"
    return f"<div class=scroll><table>{caption}<tr>{heads}</tr>{rows}</table></div>{legend}"


def _page(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n<h1>{escape(title)}</h1>\n{body}\n</html>\n"
    )
