"""The rules of the house that can be read off the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import refladder

PACKAGE = Path(refladder.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# Imports go from the right to the left; modules on one level do not import each other.
LEVELS = [
    {"errors"},
    {"records", "parsing"},
    {"artifacts", "locks", "lookup", "rows", "published"},
    {"loaders", "prompts", "engine", "ranking", "metaeval"},
    {"backends"},
    {"synth", "scoring"},
    {"jobs"},
    {"testing"},
    {"cli"},
]
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}
# rows and published read files with artifacts, on whose level they stand, and artifacts asks locks which processes are
# alive; cli is started by __main__.
BESIDE = {("rows", "artifacts"), ("published", "artifacts"), ("artifacts", "locks")}
HEAVY = ("torch", "transformers", "datasets", "openai", "scipy", "pyarrow", "rich", "pydantic", "numpy", "click")


def unit_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_typing_only(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imported(tree: ast.AST):
    """Every module that is imported when the code runs: what stands under TYPE_CHECKING is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and is_typing_only(node):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imported(node)


def against_the_arrow(unit: str, name: str) -> bool:
    parts = name.split(".")
    if parts[0] != "refladder" or len(parts) == 1:
        return False
    other = parts[1]
    if other not in LEVEL_OF or other == unit or (unit, other) in BESIDE:
        return False
    return LEVEL_OF[other] >= LEVEL_OF[unit]


def test_the_check_sees_a_wrong_import():
    assert against_the_arrow("errors", "refladder.records.Rung")
    assert against_the_arrow("loaders", "refladder.prompts")
    assert against_the_arrow("scoring", "refladder.jobs.score")
    assert not against_the_arrow("scoring", "refladder.prompts")
    tree = ast.parse("def f():\n    from refladder.jobs import score\nif TYPE_CHECKING:\n    import refladder.cli\n")
    assert list(imported(tree)) == ["refladder.jobs", "refladder.jobs.score"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    unit = unit_of(path)
    if unit in {"__init__", "__main__"}:
        return
    assert unit in LEVEL_OF, f"{unit} stands on no level: put it in LEVELS"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [name for name in imported(tree) if against_the_arrow(unit, name)] == []


ENGINE = [path for path in FILES if unit_of(path) == "engine"]


def every_import(tree: ast.AST):
    """Every module that a file names in an import: at the top, inside a function, or for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def outside_the_engine(tree: ast.AST):
    """The imports from refladder that the engine must not have: it knows token ids and arrays only."""
    allowed = ("refladder.engine", "refladder.errors", "refladder.arrays")
    names = [name for name in every_import(tree) if name.partition(".")[0] == "refladder"]
    return [name for name in names if not any(f"{name}.".startswith(f"{module}.") for module in allowed)]


def test_the_check_sees_an_import_that_the_engine_must_not_have():
    source = (
        "if TYPE_CHECKING:\n    from refladder.records import Prompt\n"
        "def f():\n    import refladder.backends.hf\n"
        "from refladder import records\nfrom refladder import engines\n"
        "from refladder.errors import UsageError\nfrom refladder.engine import trie\nimport torch\n"
    )
    assert sorted(outside_the_engine(ast.parse(source))) == [
        "refladder.backends.hf",
        "refladder.engines",
        "refladder.records",
        "refladder.records.Prompt",
    ]


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: path.name)
def test_the_engine_imports_errors_and_arrays_alone(path):
    assert outside_the_engine(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_the_engine_is_there():
    assert {path.name for path in ENGINE} >= {"trie.py", "attention.py", "kernels.py", "causal.py", "sampling.py"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_command_line_prints_and_leaves(path):
    calls = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    names = {ast.unparse(call) for call in calls}
    assert "print" not in names  # cli has click.echo
    if unit_of(path) not in {"cli", "__main__"}:
        assert not names & {"sys.exit", "exit", "quit", "os._exit", "click.echo"}


def test_no_module_is_a_drawer():
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager"}
    assert not drawers & {part.removesuffix(".py") for path in FILES for part in path.relative_to(PACKAGE).parts}


def test_import_refladder_loads_nothing_heavy():
    code = "import sys, refladder; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "refladder" in loaded
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("arguments", [["--help"], ["score", "--help"], ["build", "--help"], ["evaluate", "--help"]])
def test_help_loads_no_arrays_models_or_tables(arguments):
    code = f"import sys; from refladder.cli import run; run({arguments!r}); print('LOADED', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    text, _, modules = done.stdout.partition("LOADED")
    assert "Usage: refladder" in text
    assert not set(modules.split()) & {
        "torch",
        "transformers",
        "datasets",
        "openai",
        "scipy",
        "pyarrow",
        "rich",
        "numpy",
    }


def calls_in(path: Path):
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_that_is_read_can_run_as_code(path):
    names = set(imported(ast.parse(path.read_text(encoding="utf-8"))))
    assert not names & {"pickle", "marshal", "shelve", "dill", "joblib", "subprocess"}
    for call in calls_in(path):
        called = ast.unparse(call.func)
        assert called not in {"eval", "exec", "torch.load", "os.system"}
        if called.endswith(".from_pretrained"):  # said each time: without it a terminal is asked whether to run code
            assert {keyword.arg for keyword in call.keywords} & {"trust_remote_code", None}
        for keyword in call.keywords:
            trusted = keyword.arg == "trust_remote_code" and isinstance(keyword.value, ast.Constant)
            assert not (trusted and keyword.value.value), "only the user may say so"
