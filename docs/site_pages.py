"""Adds pages to the site that are not in docs/: the results of bench/, CONTRIBUTING.md and CHANGELOG.md.

The site repeats the folders of the repository without docs/, so links between docs/ and the rest lose one step. After
the build, pages that would load anything from another server fail it, and a fault of the search is mended.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "bench/results/*.md",
    "bench/results/*.svg",
    "bench/stays/plan.md",
)
# Long generated pages, which would else come before the guides in the search.
_AFTER_GUIDES = ("CHANGELOG.md", "reference/python.md", "reference/options.md")
# Pages that answer what people ask first.
_FIRST = ("explanation/ladder-scores.md", "how-to/choose-a-judge.md", "how-to/threshold.md")
_FROM_DOCS = re.compile(r"\]\(\.\./((?:\.\./)*(?:CONTRIBUTING\.md|CHANGELOG\.md|bench/results/|bench/stays/))")
_TO_DOCS = re.compile(r"\]\(docs/")
_LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
# lunr 2.3 joins the letters and the node numbers of its index without a separator. Where a word has digits, two nodes can
# then look the same, and a search for the letters before them finds nothing.
_JOINED = re.compile(r"(\w+)=\1\+(\w+)\+(\w+)\.id(?=\})")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside docs/."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            files.append(
                File.generated(
                    config,
                    path.relative_to(ROOT).as_posix(),
                    content=path.read_text(encoding="utf-8"),
                )
            )
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Rewrite links between docs/ and the rest of the repository; the search puts guides first."""
    if page.file.src_uri.startswith("bench/") or page.file.src_uri in _AFTER_GUIDES:
        page.meta["search"] = {"boost": 0.2}
    if page.file.src_uri in _FIRST:
        page.meta["search"] = {"boost": 1.15}
    return _TO_DOCS.sub("](", _FROM_DOCS.sub(r"](\1", markdown))


def on_post_build(config: Any) -> None:
    """Mend the search, and refuse a site whose pages load something from another server.

    Raises:
        PluginError: a page has such an element.
    """
    site = Path(config.site_dir)
    for path in site.glob("assets/javascripts/workers/search.*.js"):
        source = path.read_text(encoding="utf-8")
        path.write_text(_JOINED.sub(r'\1=\1+\2+\3.id+","', source), encoding="utf-8")
    for path in sorted(site.rglob("*.html")):
        loaded = _LOADED.search(path.read_text(encoding="utf-8"))
        if loaded:
            raise PluginError(f"{path.relative_to(site)} loads from another server: {loaded[0]}; use a local file")
