"""Pages as one file each, and the page of a report card."""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.display.rendering import html_terms, shared_legends

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.display.rendering import PlainTable

_NUMBER = r"-?\d+\.\d+"
_WITH_INTERVAL = re.compile(rf"({_NUMBER})\S* \[({_NUMBER}), ({_NUMBER})\]")
# The bar beside a number has this width.
_WIDTH = 120


def style() -> str:
    """Read the style sheet of every page that refladder writes."""
    return Path(__file__).with_name("style.css").read_text(encoding="utf-8")


def page_of(title: str, security: str, body: str, meta: str = "") -> str:
    """Return a page with the style and a content security policy."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{security}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{meta}'
        f"<title>{title}</title>\n<style>{style()}</style></head>\n<body>{body}</body></html>\n"
    )


def hash_of(text: str) -> str:
    """Return the hash of a script or a style as a content security policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def card_page(
    title: str, tables: Iterable[PlainTable], figures: Mapping[str, str], notes: Sequence[str]
) -> str:
    """Write the report card as one page: tables, SVG figures by name as images, and notes on how it was made."""
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    images = []
    for name, svg in figures.items():
        encoded = base64.b64encode(svg.encode()).decode()
        source = f"data:image/svg+xml;base64,{encoded}"
        images.append(f'<figure><img alt="{escape(name)}" src="{source}"></figure>')
    parts = list(map(_table, shared_legends(tables)))
    if images:
        parts.append(f"<div class=figures>{''.join(images)}</div>")
    made = f"<details class=made open><summary>How it was made</summary><ul class=signature>{listed}</ul></details>"
    body = f"<main>\n<h1>{escape(title)}</h1>\n{''.join(parts)}\n{made}\n</main>"
    without_scripts = f"default-src 'none'; img-src data:; style-src '{hash_of(style())}'; base-uri 'none'; form-action 'none'"
    return page_of(escape(title), without_scripts, body)


def _table(table: PlainTable) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table.heads)
    rows = ""
    for row in table.rows:
        cells = "".join(f"<td>{_cell(cell)}</td>" for cell in row[1:])
        rows += f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>'
    legend = f"<dl class=legend>{html_terms(table)}</dl>" if table.legend else ""
    name = escape(table.caption)
    return (
        f'<div class=scroll tabindex=0 role=group aria-label="{name}"><table><caption><span>{name}</span></caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{legend}\n"
    )


def _cell(text: str) -> str:
    """Write a cell. A number between -1 and 1 with an interval gets a bar from 0, or -1, to 1."""
    match = _WITH_INTERVAL.fullmatch(text)
    if match is None:
        return escape(text)
    value, low, high = map(float, match.groups())
    lowest = min(value, low)
    if lowest < -1 or max(value, high) > 1:
        return escape(text)
    start = -1 if lowest < 0 else 0
    zero, *at = (_WIDTH * (end - start) / (1 - start) for end in (0, value, low, high))
    left, right = sorted((zero, at[0]))
    return (
        f'{escape(text)}<svg class="bar" viewBox="0 0 {_WIDTH} 16" aria-hidden="true">'
        f'<rect class="axis" x="0" y="7" width="{_WIDTH}" height="2"/>'
        f'<rect class="fill" x="{left:.1f}" y="4" width="{right - left:.1f}" height="8"/>'
        f'<path class="ends" d="M{at[1]:.1f} 3v10M{at[1]:.1f} 8H{at[2]:.1f}M{at[2]:.1f} 3v10"/></svg>'
    )
