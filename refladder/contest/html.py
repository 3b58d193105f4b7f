"""The review page as one file, with the data of a run if there is one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.contest.ratings import ratings_of
from refladder.display.pages import hash_of, page_of, style

if TYPE_CHECKING:
    from refladder.contest.review_data import ReviewData

PAGE = Path(__file__).parent / "page"
# Each module imports only from those before it.
MODULES = (
    "numbers",
    "dom",
    "data",
    "ratings",
    "examples",
    "leaderboard",
    "blind",
    "agreement",
    "scores",
    "build",
    "main",
)
_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def script() -> str:
    """Join all modules, without imports and exports, so that the page needs no other file."""
    texts = ((PAGE / f"{name}.js").read_text(encoding="utf-8") for name in MODULES)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


def policy(*, served: bool) -> str:
    """Return the content security policy: only this script and style, and requests only to the server of the page."""
    parts = [
        "default-src 'none'",
        f"script-src '{hash_of(script())}'",
        f"style-src '{hash_of(style())}'",
        "connect-src 'self'" if served else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(parts)


def review_page(data: ReviewData | None = None) -> str:
    """Write the page with the data of a run, as inert JSON that its script removes first; or for the server without."""
    island = ""
    if data is not None:
        parts = {"pool": data.pool, "key": data.key, "ratings": ratings_of(data)}
        island = f'<script type="application/json" id="data">{inert_json(parts)}</script>\n'
    body = '<div id="page"><noscript>This page needs JavaScript, which it brings along.</noscript></div>\n'
    return page_of(
        "refladder review",
        policy(served=data is None),
        f'{body}{island}<script type="module">{script()}</script>\n',
        '<meta name="referrer" content="no-referrer">\n',
    )


def inert_json(value: object) -> str:
    """Write JSON for a script element: `<`, `>`, `&` and the line separators of JavaScript are escapes."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "backslashreplace").decode()
