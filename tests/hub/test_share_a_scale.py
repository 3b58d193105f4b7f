"""docs/tutorial/share-a-scale.md: a published set and a filtered Dataset from 50 prompts, in two processes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "share-a-scale.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def test_both_programs_of_the_page_run_in_processes_of_their_own(
    hub, python, tmp_path, monkeypatch
):
    (publish, _), (use, shown) = BLOCK.findall(PAGE.read_text("utf-8"))
    assert sum(bool(line.strip()) for line in (publish + use).splitlines()) == 10
    for number, code in enumerate((publish, use)):
        place = tmp_path / f"place {number}"
        place.mkdir()
        shutil.copyfile(ROOT / "docs" / "examples" / "explanations.csv", place / "explanations.csv")
        monkeypatch.chdir(place)
        monkeypatch.setenv("HF_HOME", str(place / "home"))  # nothing but the Hub is shared
        printed = python(code)
    assert printed == shown
    assert hub.files("ORG/explaining")
