"""A report card as one HTML file, without scripts and network access, in the style of the review page."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from refladder.arena.html import style, style_policy
from refladder.report.rendering import shared_legends

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from refladder.report.rendering import PlainTable

_NUMBER = r"-?\d+\.\d+"
_WITH_INTERVAL = re.compile(rf"({_NUMBER})\S* \[({_NUMBER}), ({_NUMBER})\]")
_WIDTH = 120  # of the bar beside a number


def card_page(title: str, tables: Iterable[PlainTable], figures: Iterable[str], notes: Sequence[str]) -> str:
    """The report card as one page: tables, SVG figures as they are, and notes on how it was made."""
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    drawn = "".join(f"<figure>{figure}</figure>" for figure in figures)
    parts = [*map(_table, shared_legends(tables)), f"<div class=figures>{drawn}</div>" if drawn else ""]
    made = f"<details class=made open><summary>How it was made</summary><ul class=signature>{listed}</ul></details>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{style_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style()}</style></head>\n"
        f"<body><main>\n<h1>{escape(title)}</h1>\n{''.join(parts)}\n{made}\n</main></body></html>\n"
    )


def _table(table: PlainTable) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.heads)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{_cell(cell)}</td>" for cell in row[1:])}</tr>'
        for row in table.rows
    )
    lines = "".join(f"<dt>{escape(term)}</dt><dd>{escape(meaning)}</dd>" for term, meaning in table.legend)
    legend = f"<dl class=legend>{lines}</dl>" if lines else ""
    name = escape(table.caption)
    return (
        f'<div class=scroll tabindex=0 role=group aria-label="{name}"><table><caption><span>{name}</span></caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{legend}\n"
    )


def _cell(text: str) -> str:
    """A cell; beside a number between -1 and 1 with an interval, both are drawn from 0, or -1, to 1."""
    match = _WITH_INTERVAL.fullmatch(text)
    if match is None:
        return escape(text)
    value, low, high = map(float, match.groups())
    if min(value, low) < -1 or max(value, high) > 1:
        return escape(text)
    at = [_WIDTH * ((end + 1) / 2 if min(value, low) < 0 else end) for end in (value, low, high)]
    zero = _WIDTH / 2 if min(value, low) < 0 else 0
    left, right = sorted((zero, at[0]))
    return (
        f'{escape(text)}<svg class="bar" viewBox="0 0 {_WIDTH} 16" aria-hidden="true">'
        f'<rect class="axis" x="0" y="7" width="{_WIDTH}" height="2"/>'
        f'<rect class="fill" x="{left:.1f}" y="4" width="{right - left:.1f}" height="8"/>'
        f'<path class="ends" d="M{at[1]:.1f} 3v10M{at[1]:.1f} 8H{at[2]:.1f}M{at[2]:.1f} 3v10"/></svg>'
    )
