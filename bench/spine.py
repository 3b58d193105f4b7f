"""Functions, modules and folders of refladder that a row, a context, a label and a benchmark pass at run time.

    python bench/spine.py            # a table: what `score`, `build`, `calibrate` and `evaluate` pass
    python bench/spine.py --list     # also the functions, module by module

Each command runs in a process of its own, with the builtin judge and writer, on shipped data: `score` scores one row on
one dimension, `build` writes the ladder of one context, `calibrate` chooses a cut-off from 40 labels, and `evaluate`
compares the method `ladder` with the ratings of `demo/story`. A function counts once, however often it is called; the
bodies of modules and classes do not count. The part behind the command line is without the functions of `_FRONT`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "refladder"
# Modules of the command line and of what is printed begin with these.
_FRONT = ("commands/", "cli/", "display/")
TASK = """\
task = "story"
[[dimensions]]
name = "clarity"
description = "Whether the story is easy to follow."
"""
if TYPE_CHECKING:
    from types import CodeType, FrameType


def passed(arguments: list[str]) -> list[str]:
    """Run a command of refladder; return `module:function` of every function of the package that it passes."""
    sys.path.insert(0, str(ROOT))
    from refladder.commands.main import run

    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = run(arguments)
    sys.setprofile(None)
    if code:
        raise SystemExit(f"spine: exit code {code} from {' '.join(arguments)}")
    return sorted(
        f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_qualname}"
        for code in codes
        if Path(code.co_filename).is_relative_to(PACKAGE) and _is_function(code)
    )


def _is_function(code: CodeType) -> bool:
    """Whether a code object is a function: bodies of modules and classes have no flag for fast local names."""
    return bool(code.co_flags & 0x2) and not code.co_name.startswith("<")  # CO_NEWLOCALS


def _modules(functions: list[str]) -> Counter[str]:
    return Counter(each.partition(":")[0] for each in functions)


def commands(folder: Path) -> dict[str, list[str]]:
    """Write the inputs of the three commands, and return their arguments."""
    row = {
        "output_id": "a",
        "context_id": "story-01",
        "output": "A dragon sneezed, and the hoard was gone.",
    }
    table, task = folder / "table.jsonl", folder / "task.toml"
    table.write_text(json.dumps(row) + "\n")
    context = folder / "contexts.jsonl"
    context.write_text(json.dumps({"context": "A dragon who is allergic to gold."}) + "\n")
    task.write_text(TASK)
    scored = folder / "labelled.jsonl"
    labelled = [{"output_id": str(number), "s": number, "good": "yes"} for number in range(40)]
    scored.write_text("".join(json.dumps(each) + "\n" for each in labelled))
    return {
        "score, one row": [
            *("score", str(table), "--ladders", "demo/story", "--dimension", "coherence"),
            *("--out", str(folder / "scored.jsonl")),
        ],
        "build, one context": [
            *("build", str(context), "--task-file", str(task), "--out", str(folder / "ladders")),
            *("--writer", "builtin"),
        ],
        "calibrate, labels of a table": [
            *("calibrate", str(scored), "--label", "good", "--good", "=yes", "--by", "s"),
            *("--precision", "0.8", "--out", str(folder / "cut.json")),
        ],
        "evaluate, one benchmark": ["evaluate", "demo/story", "--methods", "ladder"],
    }


def main() -> None:
    """Print the table, and with --list every function."""
    if sys.argv[1:2] == ["--pass"]:
        print(json.dumps(passed(sys.argv[2:])))
        return
    listed = "--list" in sys.argv[1:]
    print("| what | functions | modules | folders | behind the command line | modules |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": folder,
            "REFLADDER_STORE": "",
            "PYTHONPATH": str(ROOT),
        }
        for name, arguments in commands(Path(folder)).items():
            done = subprocess.run(
                [sys.executable, __file__, "--pass", *arguments],
                capture_output=True,
                text=True,
                env=environment,
                check=False,
            )
            if done.returncode:
                raise SystemExit(done.stderr)
            functions = json.loads(done.stdout)
            behind = [
                each
                for each in functions
                if not each.startswith(_FRONT) and "_command.py:" not in each
            ]
            folders = {each.partition(":")[0].partition("/")[0] for each in functions}
            counts = [
                *(len(functions), len(_modules(functions)), len(folders)),
                *(len(behind), len(_modules(behind))),
            ]
            print(f"| {name} | {' | '.join(map(str, counts))} |")
            if listed:
                modules = _modules(functions)
                for module, count in sorted(modules.items()):
                    print(f"  {module}: {count}", file=sys.stderr)
                    for each in functions:
                        if each.startswith(f"{module}:"):
                            print(f"    {each.partition(':')[2]}", file=sys.stderr)


if __name__ == "__main__":
    main()
