"""Every Python block of the pages is run, and what it prints is compared with the block of text under it.

The blocks of a page share one folder and one set of names. `python tests/test_python_pages.py [PAGE ...]`
writes the outputs anew.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs" / "examples"
PAGES = {  # with the least number of blocks
    "README.md": 1,
    "docs/how-to/python.md": 8,
    "docs/how-to/distil.md": 1,
    "docs/how-to/link-judges.md": 1,
    "docs/how-to/certify.md": 1,
    "docs/how-to/your-own-judge.md": 3,
}
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def run(code, names):
    """What a block prints on standard output."""
    printed = io.StringIO()
    name = f"block {hash(code)}"
    linecache.cache[name] = (
        len(code),
        None,
        code.splitlines(keepends=True),
        name,
    )  # functions have a source
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), names)  # noqa: S102  the page's own text
    return printed.getvalue()


def prepared(folder):
    for path in filter(Path.is_file, EXAMPLES.iterdir()):
        shutil.copyfile(path, folder / path.name)
    os.chdir(folder)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_print_what_the_page_shows(page, tmp_path, monkeypatch):
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    prepared(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text("utf-8"))
    assert len(blocks) >= PAGES[page]
    names = {}
    for code, expected in blocks:
        assert run(code, names) == expected


if __name__ == "__main__":
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    for page in sys.argv[1:] or PAGES:
        with tempfile.TemporaryDirectory() as scratch:
            text, names = (ROOT / page).read_text("utf-8"), {}
            prepared(Path(scratch))

            def anew(match, names=names):
                shown = run(match[1], names)
                return f"```python\n{match[1]}```\n" + (f"```text\n{shown}```\n" if shown else "")

            (ROOT / page).write_text(BLOCK.sub(anew, text), "utf-8")
            os.chdir(ROOT)
