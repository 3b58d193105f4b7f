"""One HTML file that can be mailed: a report card, or a contest with every text and verdict. No scripts, no network."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from refladder.report.rendering import DASH, PlainTable
from refladder.report.standings import OVERALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums }
caption { text-align: left; color: #555; padding: .3em 0 }
th, td { border-bottom: 1px solid #ddd; padding: .2em .7em; text-align: right; vertical-align: top }
th:first-child, td:first-child, td.words { text-align: left }
.scroll { overflow-x: auto }
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
        tables: of agreement, cost and faults.
        figures: SVG; they are put in as they are.
        notes: lines for the end: how the numbers were made, and what could not be.
    """
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return _page(title, [*map(_table, tables), *figures, f"<h2>How it was made</h2><ul>{listed}</ul>"])


def contest_page(title: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """A contest as one page, to be read row by row: prompt, texts, and how the judge chose in both orders.

    Args:
        title: of the page.
        lines: of `results.jsonl`, which alone are enough.
    """
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        kinds.setdefault(line["kind"], []).append(line)
    parts = [f"<p>{escape(one['signature'])}</p>" for one in kinds.get("contest", ())]
    criteria = kinds.get("criterion", [])
    parts.append("".join(f"<p><b>{escape(one['criterion'])}</b>: {escape(one['description'])}</p>" for one in criteria))
    standings = [one for one in kinds.get("standing", ()) if one["row"] is None]
    for criterion in dict.fromkeys(one["criterion"] for one in standings):
        own = [one for one in standings if one["criterion"] == criterion]
        parts.append(_table(_standings("all criteria together" if criterion == OVERALL else criterion, own)))
    texts, trials = _by_row(kinds.get("text", ())), _by_row(kinds.get("trial", ()))
    parts += [_row(one, texts.get(one["row"], []), trials.get(one["row"], [])) for one in kinds.get("row", ())]
    return _page(title, parts)


def _standings(criterion: str, standings: Sequence[Mapping[str, Any]]) -> PlainTable:
    counts = ("wins", "ties", "losses", "unread", "failed")
    ends = [DASH if one["low"] is None else f"{one['low']:.3f} to {one['high']:.3f}" for one in standings]
    return PlainTable(
        f"{criterion}: win rate, a tie counting half; 95 % interval over rows; pairs without an answer (unread) and "
        "rows without a text (failed) do not count",
        ["model", "win rate", "interval", *counts],
        [
            [one["model"], _number(one["rate"]), between, *(f"{one[name]:,}" for name in counts)]
            for one, between in zip(standings, ends, strict=True)
        ],
    )


def _row(row: Mapping[str, Any], texts: Sequence[Mapping[str, Any]], trials: Sequence[Mapping[str, Any]]) -> str:
    prompt = f"<pre>{escape(row['prompt'])}</pre>" if row["prompt"] is not None else _missing(row["note"])
    shown = "".join(
        f"<div><b>{escape(one['model'])}</b>"
        + (_missing(one["note"]) if one["text"] is None else f"<pre>{escape(one['text'])}</pre>")
        + "</div>"
        for one in texts
    )
    cells = "".join(
        f"<tr><td>{escape(one['criterion'])}</td><td class=words>{escape(one['one'])} : {escape(one['other'])}</td>"
        f"<td>{_number(one['forward'])}</td><td>{_number(one['backward'])}</td>"
        f"<td class=words>{escape(one['winner'] or ('tie' if one['tie'] else 'unread'))}</td>"
        f"<td class=words>{escape(one['explanation'] or '')}{_missing(one['note'])}</td></tr>"
        for one in trials
    )
    heads = "<th>criterion</th><th>first : second</th><th>p(first), shown first</th><th>p(first), shown second</th>"
    table = (
        f"<div class=scroll><table><tr>{heads}<th>winner</th><th>why</th></tr>{cells}</table></div>" if trials else ""
    )
    return (
        f"<details open><summary><b>row {escape(row['row'])}</b></summary>{prompt}<div class=texts>{shown}</div>"
        f"{table if trials else ''}</details>"
    )


def _by_row(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        found.setdefault(line["row"], []).append(line)
    return found


def _missing(note: str | None) -> str:
    return "" if note is None else f"<p class=missing>{escape(note)}</p>"


def _number(value: float | None) -> str:
    return DASH if value is None else f"{value:.3f}"


def _table(table: PlainTable) -> str:
    heads = "".join(f"<th>{escape(head)}</th>" for head in table.heads)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f"<div class=scroll><table><caption>{escape(table.caption)}</caption><tr>{heads}</tr>{rows}</table></div>"


def _page(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n<h1>{escape(title)}</h1>\n{body}\n</html>\n"
    )
