"""Records what refladder does, so that a restructuring can be shown to change nothing.

    python bench/recorded_runs.py record FOLDER [CASE ...]    run the cases of recorded_cases.txt
    python bench/recorded_runs.py half FOLDER [CASE ...]      leave interrupted runs of everything that resumes
    python bench/recorded_runs.py finish HALF FOLDER          resume them, and record the result
    python bench/recorded_runs.py compare FOLDER FOLDER       print the differences; exit code 1 if there are any

`--checkout FOLDER` before the word, or else the variable PYTHONPATH, says which refladder runs; without both it is the
one beside this file. Each case runs in a folder of its own with the files of the case `given`. Recorded are each
command with its exit code, standard output and standard error, and each file that the case wrote. The rules of VOLATILE
take out what differs between two runs of one version.

In recorded_cases.txt, `# NAME` begins a case, and `## NAME` one of `half` and `finish`. A step is a line that begins
with a mark, and the lines under it that begin with two spaces:

    $ a bash command, in which `refladder` is the command
    > a Python program
    ~ files whose last line `half` tears, in a second copy of the folder
    & a bash command of `finish`

$VLLM, $TEXT and $HUB in a step are the addresses of servers of the tests, one of each for a case. `asked.json`
then has what they were asked.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import recorded_judge

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CASES = HERE / "recorded_cases.txt"
GIVEN = "given"
# A fixed place, as digests of settings can contain a path. TMPDIR moves it.
SCRATCH = Path(tempfile.gettempdir()).resolve() / "refladder-recorded"
# Several commands can be in one step, so each says how it ended.
WRAPPER = """#!/bin/sh
"{}" -m refladder "$@"
code=$?
[ $code = 0 ] || echo "(refladder $1: exit code $code)" >&2
exit $code
"""
WORKERS = min(2, os.cpu_count() or 1)
WAIT = 300  # seconds for a step
VOLATILE = {
    "scratch folder": (rf"{re.escape(str(SCRATCH))}/work/[\w.-]+", "CASE"),
    "port": (r"127\.0\.0\.1:\d{4,5}", "127.0.0.1:PORT"),
    "port in a file name": (r"127\.0\.0\.1_\d{4,5}", "127.0.0.1_PORT"),
    "host": (rf"\b{re.escape(socket.gethostname())}\b", "HOST"),
    "process": (r"\bprocess \d+", "process NUMBER"),
    "process in JSON": (r'("(?:process|pid)": ?)\d+', r"\1NUMBER"),
    "time": (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", "TIME"),
    "date": (r"\b20\d\d-\d\d-\d\d\b", "DATE"),
    "seconds": (r"\b\d+\.\d(?= s\b)", "N"),
    "seconds in JSON": (
        r'("(?:seconds|judge_seconds|started|ended|seen|time)": ?)[\d.]+(?:e-?\d+)?',
        r"\1N",
    ),
    "seconds since 1970 in JSON": (r'("(?:first|last|made)\\*": ?)\d{10}\b', r"\1N"),
    "address in memory": (r"\b0x[0-9a-f]{6,}\b", "ADDRESS"),
    "seconds as the last column of a table": (
        r"(?ms)^[^\n]*\bseconds[ |\\]*$.*?\n\n",
        lambda table: re.sub(r"(?m)\b\d+\.\d(?=[ |\\]*$)", "N", table[0]),
    ),
    "seconds in a table of a page or a file": (
        r'(?m)^.*(?:>seconds</th>|"seconds"\], "rows").*$',
        lambda table: re.sub(r"""(?<=[">])\d+\.\d(?="\]|</td></tr>)""", "N", table[0]),
    ),
    "time of the last change of a file": (r'("\d+)-1[789]\d{17}"', r'\1-TIME"'),
    "commit of a hub": (r"\b[0-9a-f]{40}\b", "COMMIT"),
    "version of Python": (rf"\b{re.escape(sys.version.split()[0])}\b", "PYTHON"),
}


@dataclass
class Case:
    """A case of recorded_cases.txt; each step is its mark and its text."""

    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)


def cases(mark: str) -> list[Case]:
    """The cases that begin with a mark, `#` or `##`."""
    found: list[Case] = []
    kept: list[Case] = []
    for line in CASES.read_text("utf-8").splitlines():
        sign, _, rest = line.partition(" ")
        if sign in {"#", "##"}:
            found.append(Case(rest))
            if sign == mark:
                kept.append(found[-1])
        elif line.startswith("  ") and found:
            last, text = found[-1].steps[-1]
            found[-1].steps[-1] = (last, f"{text}\n{line[2:]}")
        elif sign and found:
            found[-1].steps.append((sign, rest))
    return kept


def environment(checkout: str | None) -> dict[str, str]:
    """The variables of every step: which refladder runs, and nothing of the user's settings."""
    places = (
        [checkout]
        if checkout
        else list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    )
    places = [str(Path(place).resolve()) for place in places] or [str(ROOT)]
    programs = SCRATCH / "bin"
    programs.mkdir(parents=True)
    program = programs / "refladder"
    program.write_text(WRAPPER.format(sys.executable), "utf-8")
    program.chmod(0o755)
    installed = SCRATCH / "installed"
    recorded_judge.install(installed)
    print(f"refladder of {places[0]}", file=sys.stderr)
    return {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([*places, str(installed)]),
        "PYTHONUNBUFFERED": "1",
        "HOME": str(SCRATCH / "home"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "OMP_NUM_THREADS": "1",
    }


class Servers:
    """The servers that a case names, started when the first step needs them."""

    def __init__(self, case: Case, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.running = {}
        wanted = {
            name for _, text in case.steps for name in re.findall(r"\$(VLLM|TEXT|HUB)\b", text)
        }
        sys.path[:0] = (
            [str(ROOT / "tests/support"), str(ROOT / "tests/support/openai")] if wanted else []
        )
        for name in sorted(wanted):
            self.running[name] = stack.enter_context(self._made(name))

    def _made(self, name: str) -> object:
        if name == "HUB":
            from hub_server import Hub

            return Hub(SCRATCH / "hubs" / self.folder.name)
        import toy_server

        return toy_server.ToyServer({"VLLM": toy_server.VLLM, "TEXT": toy_server.TEXT_ONLY}[name])

    @property
    def variables(self) -> dict[str, str]:
        """What a step needs to reach the servers."""
        from hub_server import WRITER

        hub = {"HF_TOKEN": WRITER, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        addresses = {name: server.url for name, server in self.running.items()}
        return addresses | (hub | {"HF_ENDPOINT": addresses["HUB"]} if "HUB" in addresses else {})

    def keep(self) -> None:
        """Write what was asked."""
        asked = {name: Counter(path for path, _ in server.asked) for name, server in self.running.items()
                 if name != "HUB"}  # fmt: skip
        if asked:
            (self.folder / "asked.json").write_text(
                json.dumps(asked, indent=1, sort_keys=True) + "\n", "utf-8"
            )


def plain(text: str) -> str:
    """A text without what differs between two runs of one version."""
    for pattern, put in VOLATILE.values():
        text = re.sub(pattern, put, text)
    return text


def run(case: Case, marks: str, folder: Path, variables: dict[str, str]) -> str:
    """Run the steps of a case with one of these marks in its folder, and return what they print."""
    told = []
    with ExitStack() as stack:
        servers = Servers(case, folder, stack)
        used = variables | {"XDG_CACHE_HOME": str(folder / ".cache")}
        used |= servers.variables if servers.running else {"HF_HUB_OFFLINE": "1"}
        for mark, text in case.steps:
            if mark not in marks:
                continue
            program = (
                [sys.executable, "-"]
                if mark == ">"
                else [shutil.which("bash") or "bash", "-c", text]
            )
            given = text.encode() if mark == ">" else b""
            done = subprocess.run(
                program,
                check=False,
                cwd=folder,
                env=used,
                input=given,
                capture_output=True,
                timeout=WAIT,
            )
            told.append(f"{mark} {text}\nexit code {done.returncode}\n")
            for name, stream in (("output", done.stdout), ("error", done.stderr)):
                if stream:
                    told.append(f"standard {name}:\n{stream.decode('utf-8', 'replace')}")
        servers.keep()
    return "".join(told)


def readable(path: Path) -> str:
    """A file as text; what has no text of its own is shown by another program, with a digest of its bytes."""
    content = path.read_bytes()
    if path.name == "asked":
        asked = Counter()
        for line in content.decode().splitlines():
            kind, number = line.split()
            asked[kind] += int(number)
        return json.dumps(asked, sort_keys=True) + "\n"
    if content.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(path)) as database:
            tables = [
                name
                for (name,) in database.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1"
                )
            ]
            rows = {
                name: sorted(map(repr, database.execute(f"SELECT * FROM {name}")))  # noqa: S608
                for name in tables
            }
        lines = [
            f"{name}: {row}"
            for name, part in rows.items()
            if name not in {"claims", "holders"}
            for row in part
        ]
        return re.sub(r"\b1[789]\d{8}\b", "TIME", "\n".join([*tables, *lines, ""]))
    digest = hashlib.sha256(content).hexdigest()
    if content.startswith(b"PAR1"):
        from pyarrow import parquet

        table = parquet.read_table(path)
        return "\n".join([f"sha256 {digest}", str(table.schema), *map(repr, table.to_pylist()), ""])
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return f"sha256 {digest}\n"


def files_of(folder: Path) -> dict[str, Path]:
    """Every file in a folder by its path, without those that come and go beside a response store."""
    found = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {name: path for name, path in found.items() if not name.endswith(("-wal", "-shm"))}


def keep(told: str, folder: Path, out: Path, given: dict[str, bytes]) -> None:
    """Write the record of a case: `log`, and the files that differ from the given ones."""
    out.mkdir(parents=True)
    (out / "log").write_text(plain(told), "utf-8")
    for name, path in files_of(folder).items():
        if given.get(name) != path.read_bytes() and not name.startswith(".cache/huggingface"):
            kept = out / "files" / plain(name)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(plain(readable(path)), "utf-8")


def prepared(variables: dict[str, str]) -> tuple[Path, str, dict[str, bytes]]:
    """Run the case `given`: its folder, what it printed, and its files."""
    folder = SCRATCH / "work" / GIVEN
    folder.mkdir(parents=True)
    (case,) = (case for case in cases("#") if case.name == GIVEN)
    told = run(case, "$>", folder, variables)
    if any(f"exit code {code}\n" in told for code in (1, 2)):
        raise SystemExit(f"the case `{GIVEN}` failed:\n{told}")
    return folder, told, {name: path.read_bytes() for name, path in files_of(folder).items()}


def in_parallel(task: object, names: list[Case]) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        for name, _ in zip(names, pool.map(task, names), strict=True):
            print(name.name, file=sys.stderr)


def record(out: Path, chosen: list[str], variables: dict[str, str]) -> None:
    start, told, given = prepared(variables)
    keep(told, start, out / GIVEN, {})

    def one(case: Case) -> None:
        folder = SCRATCH / "work" / case.name
        shutil.copytree(start, folder)
        keep(run(case, "$>", folder, variables), folder, out / case.name, given)

    in_parallel(
        one,
        [case for case in cases("#") if case.name != GIVEN and (not chosen or case.name in chosen)],
    )


def half(out: Path, chosen: list[str], variables: dict[str, str]) -> None:
    start, _, _ = prepared(variables)

    def one(case: Case) -> None:
        folder = SCRATCH / "work" / case.name
        shutil.copytree(start, folder)
        (folder / "half.log").write_text(run(case, "$>", folder, variables), "utf-8")
        shutil.copytree(folder, out / case.name, symlinks=True)
        torn = [
            path for mark, glob in case.steps if mark == "~" for path in sorted(folder.glob(glob))
        ]
        for path in torn:
            content = path.read_bytes()
            last = content.rstrip(b"\n").rpartition(b"\n")[2]
            path.write_bytes(content[: -(len(last) // 2 + 1)])
        if torn:
            shutil.copytree(folder, out / f"{case.name}-torn", symlinks=True)

    in_parallel(one, [case for case in cases("##") if not chosen or case.name in chosen])


def finish(before: Path, out: Path, variables: dict[str, str]) -> None:
    def one(case: Case) -> None:
        folder = SCRATCH / "work" / case.name  # where `half` ran it
        for name in (case.name, f"{case.name}-torn"):
            if (before / name).exists():
                shutil.copytree(before / name, folder, symlinks=True)
                (folder / "asked").unlink(missing_ok=True)
                keep(run(case, "&", folder, variables), folder, out / name, {})
                shutil.rmtree(folder)

    in_parallel(one, [case for case in cases("##") if (before / case.name).exists()])


def compare(one: Path, other: Path) -> int:
    """Print a unified difference for each file, and return 1 if there is any."""
    found = [files_of(one), files_of(other)]
    differing = 0
    for name in sorted({*found[0], *found[1]}):
        texts = [
            files[name].read_text("utf-8").splitlines(keepends=True)
            if name in files
            else ["(no such file)\n"]
            for files in found
        ]
        if texts[0] != texts[1]:
            differing += 1
            sys.stdout.writelines(difflib.unified_diff(*texts, str(one / name), str(other / name)))
    count = len({name.partition("/")[0] for files in found for name in files})
    print(
        f"{count} cases, {len(found[0])} and {len(found[1])} files, {differing} differ",
        file=sys.stderr,
    )
    return int(differing > 0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkout", help="folder with the refladder to run")
    what = parser.add_subparsers(dest="what", required=True)
    for name, places in (
        ("record", ["out"]),
        ("half", ["out"]),
        ("finish", ["half", "out"]),
        ("compare", ["a", "b"]),
    ):
        part = what.add_parser(name)
        for place in places:
            part.add_argument(place, type=Path)
        if name in {"record", "half"}:
            part.add_argument("case", nargs="*")
    asked = parser.parse_args()
    if asked.what == "compare":
        return compare(asked.a, asked.b)
    if asked.out.exists():
        raise SystemExit(f"{asked.out}: is there already; name a new folder")
    try:
        SCRATCH.mkdir()
    except FileExistsError:
        raise SystemExit(
            f"{SCRATCH}: of another recording; wait for it, or delete the folder"
        ) from None
    try:
        variables = environment(asked.checkout)
        if asked.what == "record":
            record(asked.out, asked.case, variables)
        elif asked.what == "half":
            half(asked.out, asked.case, variables)
        else:
            finish(asked.half, asked.out, variables)
    finally:
        shutil.rmtree(SCRATCH)
    return 0


if __name__ == "__main__":
    sys.exit(main())
