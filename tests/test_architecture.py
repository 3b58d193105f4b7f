"""The rules of the house that can be read off the source."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import refladder

PACKAGE = Path(refladder.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# Imports point from later levels to earlier ones. Names on one level do not import each other.
LEVELS = [
    {"errors", "version"},
    {"typed"},
    {"arrays", "records", "parsing", "signatures", "thoughts"},
    {"registry", "files", "events"},
    {"prompts", "loaders", "statistics", "engine"},
    {"backends", "options"},
    {"session", "settings"},
    {"synth", "scoring"},
    {"methods", "display"},
    {"cli"},
    {"ladders"},
    {"jobs"},
    {"calibration", "comparison", "evaluation"},
    {"students"},
    {"many_files"},
    {"contest"},
    {"commands"},
    {"testing", "integrations"},
]
ROOT = PACKAGE.parent
PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in (ROOT / "CONTRIBUTING.md", ROOT / "docs/explanation/architecture.md")
}
PLACES = (PACKAGE, ROOT, PACKAGE / "backends/openai", ROOT / "tests/commands")
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}
# What help does not load, and what `import refladder` does not load either.
HEAVY = {
    "torch",
    "transformers",
    "datasets",
    "openai",
    "aiohttp",
    "tenacity",
    "scipy",
    "pyarrow",
    "rich",
    "numpy",
}
LAZY = HEAVY | {"trl", "inspect_ai", "datatrove", "pydantic", "click"}
RUNS_CODE = {"pickle", "marshal", "shelve", "dill", "joblib", "subprocess"}


def unit_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@functools.cache
def parsed(path: Path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.AST):
    """Every module that a file imports, wherever the import is: in a function or for type checkers only too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in MODULES else node.module


def against_the_arrow(unit: str, name: str) -> bool:
    parts = name.split(".")
    if parts[0] != "refladder":
        return False
    if len(parts) == 1:
        return True  # the public names are for users
    return parts[1] != unit and LEVEL_OF[parts[1]] >= LEVEL_OF[unit]


def test_the_check_sees_a_wrong_import():
    assert against_the_arrow("errors", "refladder.records.Rung")
    assert against_the_arrow("loaders", "refladder.prompts")
    assert against_the_arrow("scoring", "refladder.jobs.score")
    assert against_the_arrow("scoring", "refladder")
    assert not against_the_arrow("scoring", "refladder.prompts")
    tree = ast.parse(
        "def f():\n    from refladder.jobs import score\nif TYPE_CHECKING:\n    import refladder.commands\n"
    )
    assert sorted(imported(tree)) == ["refladder.commands", "refladder.jobs.score"]


def test_imports_point_one_way():
    inside = [path for path in FILES if unit_of(path) not in {"__init__", "__main__"}]
    missing = {unit_of(path) for path in inside} - LEVEL_OF.keys()
    assert not missing, f"add them to LEVELS: {missing}"
    assert [
        (str(path.relative_to(PACKAGE)), name)
        for path in inside
        for name in imported(parsed(path))
        if against_the_arrow(unit_of(path), name)
    ] == []


def test_no_file_imports_itself_through_others():
    graph = {
        name: {other for other in imported(parsed(path)) if other in MODULES} - {name}
        for name, path in MODULES.items()
    }
    while leaves := [name for name, others in graph.items() if not others & graph.keys()]:
        for name in leaves:
            del graph[name]
    assert graph == {}, f"these files import each other in a circle: {sorted(graph)}"


def test_only_the_command_line_prints_and_leaves():
    found = []
    for path in FILES:
        names = {ast.unparse(call.func) for call in calls_in(path)}
        forbidden = {"print"}  # commands have click.echo
        if unit_of(path) not in {"cli", "commands", "__main__"}:
            forbidden |= {"sys.exit", "exit", "quit", "os._exit", "click.echo"}
        found += [(str(path.relative_to(PACKAGE)), name) for name in names & forbidden]
    assert found == []


def test_no_module_is_a_drawer():
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager"}
    assert not drawers & {
        part.removesuffix(".py") for path in FILES for part in path.relative_to(PACKAGE).parts
    }


def test_import_refladder_loads_nothing_heavy():
    loaded = printed_by("import sys, refladder; print(*sys.modules)").split()
    assert "refladder" in loaded
    assert not {*loaded} & LAZY


def printed_by(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_help_loads_no_arrays_models_or_tables():
    runs = "".join(f"run([*{name!r}.split(), '--help']);" for name in ("", "score", "evaluate"))
    code = (
        f"import sys; from refladder.commands.main import run; {runs} print('LOADED', *sys.modules)"
    )
    text, _, modules = printed_by(code).partition("LOADED")
    assert text.count("Usage: refladder") == 3
    assert not {*modules.split()} & HEAVY


def calls_in(path: Path):
    return [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]


def can_run_code(path: Path):
    """Yield what a file imports or calls that can run what is read as code."""
    yield from {*imported(parsed(path))} & RUNS_CODE
    for call in calls_in(path):
        called = ast.unparse(call.func)
        if called in {"eval", "exec", "torch.load", "os.system"}:
            yield called
        # Said each time: without it a terminal is asked whether to run code.
        keywords = {keyword.arg for keyword in call.keywords}
        if called.endswith(".from_pretrained") and not keywords & {"trust_remote_code", None}:
            yield f"{called} without trust_remote_code"
        for keyword in call.keywords:
            trusted = keyword.arg == "trust_remote_code" and isinstance(keyword.value, ast.Constant)
            if trusted and keyword.value.value:  # only the user may say so
                yield f"{called} with trust_remote_code"


def test_nothing_that_is_read_can_run_as_code():
    assert [
        (str(path.relative_to(PACKAGE)), each) for path in FILES for each in can_run_code(path)
    ] == []


def test_the_checks_see_what_they_forbid(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "import pickle\neval('1')\nModel.from_pretrained('m')\nModel.from_pretrained('m', trust_remote_code=True)\n"
    )
    assert sorted(can_run_code(path)) == [
        "Model.from_pretrained with trust_remote_code",
        "Model.from_pretrained without trust_remote_code",
        "eval",
        "pickle",
    ]


def test_the_files_that_run_first_are_there():
    tests = Path(__file__).parent
    slowest = (tests / "slowest.txt").read_text().split()
    assert slowest
    assert [name for name in slowest if not (tests.parent / name).is_file()] == []


def test_the_architecture_page_has_the_levels():
    rows = re.findall(r"^\| (\d+) \| ([a-z_, ]+) \|$", PAGES["architecture.md"], re.MULTILINE)
    assert [(int(level), set(names.split(", "))) for level, names in rows] == list(
        enumerate(LEVELS, start=1)
    )


def test_pages_for_developers_name_files_and_functions_that_exist():
    def found(path: str) -> Path:
        return next(folder / path for folder in PLACES if (folder / path).exists())

    for page in PAGES.values():
        assert all(map(found, re.findall(r"`([\w/]+\.py)`", page)))
        for name, path in re.findall(r"`([\w.]+)`(?: or `\w+`)? (?:in |\()`([\w/]+\.py)`", page):
            defined = rf"^ *(def|class) {name.rpartition('.')[2]}\b|^{name}\b.* ="
            assert re.search(defined, found(path).read_text(encoding="utf-8"), re.MULTILINE), name
