"""Every command that the README shows is run, and what it prints is compared with what the README says.

A console block holds commands, lines that start with `$ `, and under each the output: standard output and standard
error together. All blocks share one folder, so a command may use what an earlier one wrote. `$ cat FILE` of a file that
no command wrote makes the file: a reader would do the same. Compared are all characters but spaces at line ends, which
terminal tables have and the README leaves out, and the seconds that a run took.

`python tests/test_readme.py` writes the outputs into the README anew; read the difference before you keep it.
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
from pathlib import Path

import pytest

from refladder import registry
from refladder.backends import BACKENDS

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
README = (ROOT / "README.md").read_text("utf-8")
# The mark over a block whose commands read the benchmark files, which are not in the repository.
NEEDS_DATA = "<!-- needs ../shared/data -->\n"
BLOCK = re.compile(rf"({re.escape(NEEDS_DATA)})?```console\n(.*?)```", re.DOTALL)
PLAIN = re.compile(r"```\n(.*?)```", re.DOTALL)
# The seconds that a run took, in its summary and in the report card: the one thing that is not the same every time.
SECONDS = re.compile(r"\b\d+\.\d(?= s\b|$)")


def commands_of(block):
    """(command, output lines) of a console block."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def blocks(*, with_data):
    return [text for mark, text in BLOCK.findall(README) if bool(mark) is with_data]


def run(command, folder):
    """What a command prints, both streams together, without spaces at line ends."""
    programs = folder / "bin"
    if not programs.exists():  # the command of this very checkout, whatever is installed
        programs.mkdir()
        program = programs / "refladder"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m refladder "$@"\n', "utf-8")
        program.chmod(0o755)
    path = os.pathsep.join([str(programs), sysconfig.get_path("scripts"), os.environ["PATH"]])
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", command],
        check=False,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8"},
    )
    return [line.rstrip() for line in done.stdout.decode().splitlines()]


def check(block, folder):
    for command, expected in commands_of(block):
        reader, _, name = command.partition(" ")
        if reader == "cat" and not (folder / name).exists():
            (folder / name).write_text("\n".join(expected) + "\n", "utf-8")
        found, told = (
            [SECONDS.sub("?", line.rstrip()) for line in lines] for lines in (run(command, folder), expected)
        )
        assert (command, found) == (command, told)


def test_the_tour(tmp_path):
    tour = blocks(with_data=False)
    assert sum(len(commands_of(block)) for block in tour) >= 15
    for block in tour:
        check(block, tmp_path)


def test_the_benchmarks(tmp_path):
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent: the benchmark files are not in the repository")
    (tmp_path / "data").symlink_to(DATA)
    marked = blocks(with_data=True)
    assert marked
    for block in marked:
        check(block, tmp_path)


def test_the_table_beside_published_figures_repeats_the_outputs():
    (block,) = blocks(with_data=True)
    heads, rows = (
        [line for line in block.splitlines() if line.startswith(f"| {word}")] for word in ("method", "ladder")
    )
    means = [
        row.split(" | ")[head.split(" | ").index("mean")].split()[0] for head, row in zip(heads, rows, strict=True)
    ]
    table = re.findall(r"^\| (?:SummEval|TopicalChat|HANNA|NewsRoom|WebNLG) \| (\.\d+) \|", README, re.MULTILINE)
    assert [f"0{figure}" for figure in table] == means
    assert len(table) == 5


def test_make_knows_every_target_that_documents_name():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text("utf-8")
        named = set(re.findall(r"^make ([a-z]+)", "\n".join(PLAIN.findall(text)), re.MULTILINE))
        named |= set(re.findall(r"`make ([a-z]+)", text))
        assert {"demo", "test"} <= named
        for target in named:
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("kind", ["hf", "openai"])
def test_every_option_of_a_backend_is_told(kind):
    opener = registry.find("backend", kind, BACKENDS)
    parameters = inspect.signature(opener).parameters.values()
    options = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    told = README[README.index("`--judge-option KEY=VALUE`") : README.index("Keys are read from")]
    assert {option for option in options - {"base_url"} if f"`{option}`" not in told} == set()


def test_links_lead_to_files():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def written_anew(text, folder):
    """The README with the output of every command as it is now."""

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
    with tempfile.TemporaryDirectory() as scratch:
        (ROOT / "README.md").write_text(written_anew(README, Path(scratch)), "utf-8")
