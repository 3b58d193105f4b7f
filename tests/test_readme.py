"""Every command that the README and the pages in docs/ show is run, and its output is compared with the page.

A console block holds commands, lines that start with `$ `, and under each the output: standard output and standard
error together. All blocks of a page share one folder, so a command may use what an earlier one wrote. `$ cat FILE` of a
file that no command wrote makes the file: a reader would do the same. The scripts of docs/examples, and its tables and
logs (where the page makes none of that name) with the answers about its replies and its corpus, are there. Compared are
all characters but spaces at line ends, which terminal tables have and the pages leave out, the seconds that a run took,
and digests of trained weights.

`python tests/test_readme.py [PAGE ...]` writes the outputs into the pages anew; read the difference before you keep it.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from support import command_server

import refladder
from refladder import registry
from refladder.backends import BACKENDS
from refladder.commands.main import COMMANDS, command_of
from refladder.errors import ExitCode

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (ROOT / "README.md", *DOCS)
}
FIGURES = "docs/explanation/benchmark-figures.md"
# Mean over dimensions of the within-context Spearman that the built-in baseline is to reach.
LEAST = {"SummEval": 0.25, "TopicalChat": 0.25, "HANNA": 0.43, "NewsRoom": 0.58, "WebNLG": 0.40}
# The mark over a block whose commands read the benchmark files, which are not in the repository.
NEEDS_DATA = "<!-- needs ../shared/data -->\n"
BLOCK = re.compile(rf"({re.escape(NEEDS_DATA)})?```console\n(.*?)```", re.DOTALL)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
# What is not the same on every machine: the seconds that a run took, in its summary and in the report card, and digests
# of trained weights and the last digits of cut-offs, which depend on the processor and its libraries.
VARIES = re.compile(r"\b\d+\.\d(?= s\b|$)|(?<=ngrams@)[0-9a-f]{12}|(?<=_score >= \d\.\d\d)\d+")


def commands_of(block):
    """(command, output lines) of a console block."""
    commands = []
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(line)
    return commands


def blocks(page, *, with_data):
    return [text for mark, text in BLOCK.findall(PAGES[page]) if bool(mark) is with_data]


@contextmanager
def programs():
    """The `refladder` of this very checkout is the first on PATH, and the interpreter of the tests the next."""
    with command_server.program() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PATH", os.pathsep.join([folder, sysconfig.get_path("scripts"), os.environ["PATH"]])
        )
        yield


@pytest.fixture(scope="module", autouse=True)
def _programs():
    with programs():
        yield


def run(command, folder):
    """What a command prints, both streams together, without spaces at line ends."""
    cache = folder / ".cache"  # nothing is remembered from another page
    if not cache.exists():
        cache.mkdir()
        for script in (ROOT / "docs/examples").glob("*.py"):
            shutil.copyfile(script, folder / script.name)
        for answers in (ROOT / "docs/examples").glob("*-answers"):
            shutil.copytree(answers, folder / answers.name)
    for table in (ROOT / "docs/examples").iterdir():
        if (
            table.suffix in {".csv", ".json", ".jsonl"}
            and table.name in command
            and not (folder / table.name).exists()
        ):
            shutil.copyfile(table, folder / table.name)
    own = {
        "XDG_CACHE_HOME": str(cache),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", command],
        check=False,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **own},
    )
    return [line.rstrip() for line in done.stdout.decode().splitlines()]


def check(block, folder):
    for command, expected in commands_of(block):
        reader, _, name = command.partition(" ")
        if reader == "cat" and not (folder / name).exists():
            (folder / name).write_text("\n".join(expected) + "\n", "utf-8")
        printed, shown = (
            [VARIES.sub("?", line.rstrip()) for line in lines]
            for lines in (run(command, folder), expected)
        )
        assert (command, printed) == (command, shown)


TOURS = [page for page in PAGES if blocks(page, with_data=False)]


def test_the_pages_show_commands():
    assert {"README.md", "docs/tutorial/first-scores.md", "docs/how-to/costs.md"} <= set(TOURS)
    assert (
        sum(len(commands_of(block)) for page in TOURS for block in blocks(page, with_data=False))
        >= 15
    )


@pytest.mark.parametrize("page", TOURS)
def test_the_tour(page, tmp_path):
    for block in blocks(page, with_data=False):
        check(block, tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, with_data=True)])
def test_the_benchmarks(page, tmp_path):
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent: the benchmark files are not in the repository")
    (tmp_path / "data").symlink_to(DATA)
    for block in blocks(page, with_data=True):
        check(block, tmp_path)


def test_the_table_beside_published_figures_repeats_the_outputs_and_they_are_high_enough():
    (block,) = blocks(FIGURES, with_data=True)
    heads, rows = (
        [line for line in block.splitlines() if line.startswith(f"| {word}")]
        for word in ("method", "ladder")
    )
    means = [
        row.split(" | ")[head.split(" | ").index("mean")].split()[0]
        for head, row in zip(heads, rows, strict=True)
    ]
    table = dict(
        re.findall(rf"^\| ({'|'.join(LEAST)}) \| (\.\d+) \|", PAGES[FIGURES], re.MULTILINE)
    )
    assert [f"0{figure}" for figure in table.values()] == means
    assert list(table) == list(LEAST)
    assert [name for name, least in LEAST.items() if float(table[name]) < least] == []


def options_of(command):
    """The long options of a command; of a group, those of all its commands."""
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    names = {
        spelling
        for parameter in command.params
        for spelling in parameter.opts
        if spelling.startswith("--")
    }
    return names.union({"--help", "--help-all"}, *(options_of(each) for each in inner))


OPTIONS = {name: options_of(command_of(name)) for name in COMMANDS}
ANY_OPTION = {"--config", "--version"}.union(*OPTIONS.values())


def code_of(text):
    """The lines of blocks and the pieces between backticks; a line that ends in a backslash goes on in the next."""
    lines = "\n".join(body for _, body in FENCE.findall(text)).replace("\\\n", " ").splitlines()
    return lines + [" ".join(piece.split()) for piece in CODE.findall(FENCE.sub("", text))]


def unknown_words(text):
    """Commands and options in the code of a page that refladder does not have."""
    for line in code_of(text):
        for name, rest in re.findall(
            r"(?<![\w./])refladder (?:--config \S+ )?([a-z]+)\b([^|]*)", line
        ):
            if name not in OPTIONS:
                yield name
                continue
            yield from (
                option
                for option in re.findall(r"(?<=\s)--[a-z-]+", rest)
                if option not in OPTIONS[name]
            )
        if line.startswith("--"):
            yield from (
                option for option in re.findall(r"--[a-z][a-z-]*", line) if option not in ANY_OPTION
            )


def test_an_unknown_command_or_option_in_a_page_is_seen():
    text = "`refladder scores x` `refladder score x --lader y` `--min` `--leest`\n"
    text += "```sh\nrefladder filter \\\n  --text\n```\n"
    assert list(unknown_words(text)) == ["--text", "scores", "--lader", "--leest"]


def test_pages_name_commands_and_options_that_exist():
    found = {page: list(unknown_words(text)) for page, text in PAGES.items()}
    assert {page: words for page, words in found.items() if words} == {}


def test_every_page_and_table_is_in_the_menu_of_the_site_and_pages_are_on_its_home():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in DOCS]
    tables = [f"bench/results/{path.name}" for path in (ROOT / "bench/results").glob("*.md")]
    listed = [name for name in pages + tables if re.search(rf"(- |: ){re.escape(name)}\n", menu)]
    assert listed == pages + tables
    home = PAGES["docs/index.md"]
    assert [page for page in pages if f"({page})" not in home] == ["index.md"]


def test_the_python_page_lists_every_public_name():
    named = re.findall(r"^::: refladder\.(\w+)$", PAGES["docs/reference/python.md"], re.MULTILINE)
    assert set(dir(refladder)) - {"__version__"} <= set(named)


def test_the_python_example_runs():
    (example,) = [
        body
        for language, body in FENCE.findall(PAGES["docs/reference/python.md"])
        if language == "python"
    ]
    exec(example, {})  # noqa: S102  the page's own text


def test_the_command_line_page_lists_every_command():
    page = PAGES["docs/reference/command-line.md"]
    assert [name for name in COMMANDS if f"| `refladder {name}` |" not in page] == []


def test_the_command_line_page_lists_every_extra(request):
    text = (request.config.rootpath / "pyproject.toml").read_text("utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"].keys() - {"dev", "docs"}
    page = PAGES["docs/reference/command-line.md"].partition("## Optional dependencies\n")[2]
    assert extras == {
        name
        for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }


def test_the_command_line_page_lists_every_exit_code():
    section = PAGES["docs/reference/command-line.md"].partition("## Exit codes\n")[2]
    listed = re.findall(r"(?m)^\| (\d+) \|", section.partition("\n## ")[0])
    assert list(map(int, listed)) == list(ExitCode)


def test_make_knows_every_target_that_documents_name():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text("utf-8")
        code = "\n".join(body for _, body in FENCE.findall(text))
        named = {
            *re.findall(r"^make ([a-z]+)", code, re.MULTILINE),
            *re.findall(r"`make ([a-z]+)", text),
        }
        assert {"demo", "test"} <= named
        assert [name for name in named if not re.search(rf"(?m)^{name}:", makefile)] == []


@pytest.mark.parametrize("kind", ["hf", "openai"])
def test_every_option_of_a_backend_is_described(kind):
    parameters = inspect.signature(registry.find("backend", kind, BACKENDS)).parameters.values()
    options = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    section = PAGES["docs/reference/backends.md"].partition(f"## {kind}\n")[2].partition("\n## ")[0]
    described = set(CODE.findall("\n".join(re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE))))
    assert described == options


def test_links_lead_to_files():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]:
        for target in re.findall(r"\]\(([^)#:]+)[)#]", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def written_anew(text, folder):
    """A page with the output of every command as it is now."""

    def block(match):
        mark, body = match.groups()
        if mark and not DATA.is_dir():
            return match[0]
        lines = []
        for command, expected in commands_of(body):
            reader, _, name = command.partition(" ")
            if reader == "cat" and not (folder / name).exists():
                (folder / name).write_text("\n".join(expected) + "\n", "utf-8")
            lines += [f"$ {command}", *run(command, folder)]
        return (mark or "") + "```console\n" + "\n".join(lines) + "\n```"

    if DATA.is_dir():
        (folder / "data").symlink_to(DATA)
    return BLOCK.sub(block, text)


if __name__ == "__main__":
    for name, contents in ((name, PAGES[name]) for name in sys.argv[1:] or PAGES):
        with programs(), tempfile.TemporaryDirectory() as scratch:
            (ROOT / name).write_text(written_anew(contents, Path(scratch)), "utf-8")
