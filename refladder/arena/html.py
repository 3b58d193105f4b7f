"""The review page as one file: its modules, its style, and the data of a run if there is one."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.arena.ratings import ratings_of

if TYPE_CHECKING:
    from refladder.arena.sheet import Sheet

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
    """All modules as one: without imports and exports, so that the page needs no other file."""
    texts = ((PAGE / f"{name}.js").read_text(encoding="utf-8") for name in MODULES)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


def style() -> str:
    """The style sheet of every page that refladder writes."""
    return (PAGE / "style.css").read_text(encoding="utf-8")


def policy(*, served: bool) -> str:
    """The content security policy: this script and this style, and no request but to the server of the page."""
    parts = [
        "default-src 'none'",
        f"script-src '{_hash(script())}'",
        f"style-src '{_hash(style())}'",
        "connect-src 'self'" if served else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(parts)


def style_policy() -> str:
    """The content security policy of a page without scripts."""
    return f"default-src 'none'; style-src '{_hash(style())}'; base-uri 'none'; form-action 'none'"


def review_page(sheet: Sheet | None = None) -> str:
    """The page with the data of a run (inert JSON, which its script removes first), or without it, for the server."""
    data = ""
    if sheet is not None:
        parts = {"pool": sheet.pool, "key": sheet.key, "ratings": ratings_of(sheet)}
        data = f'<script type="application/json" id="data">{inert_json(parts)}</script>\n'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(served=sheet is None)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>refladder review</title>\n<style>{style()}</style></head>\n"
        '<body><div id="page"><noscript>This page needs JavaScript, which it brings along.</noscript></div>\n'
        f'{data}<script type="module">{script()}</script>\n</body></html>\n'
    )


def inert_json(value: object) -> str:
    """JSON for a script element: `<`, `>`, `&` and the line separators of JavaScript are escapes."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "backslashreplace").decode()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
