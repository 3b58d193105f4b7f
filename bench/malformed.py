"""Malformed inputs for every reader and malformed answers of a server: exit codes, tracebacks, hangs.

    python bench/malformed.py [INPUTS]

Inputs are made from good files by seeds, and commands run in this process; a sample runs as processes of their own,
where nothing but the exit code and the two streams can be seen. Each fault of a server is met twice: by the handshake,
and by every row after a good handshake.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[1]
sys.path[:0] = [
    str(ROOT),
    str(ROOT / "tests/support"),
    str(ROOT / "tests/support/openai"),
]

import malformed  # noqa: E402
from http_server import HttpServer, Reply  # noqa: E402
from malformed_answers import CONNECTIONS, ROWS, RUNS, good  # noqa: E402

EVERY = 200  # one input in so many is tried as a process of its own too


def inputs(number: int, folder: Path) -> tuple[list[str], int]:
    """Lines of the table of inputs, and how many commands broke."""
    clean = folder / "good"
    clean.mkdir()
    malformed.good_files(clean)
    shares = {name: share for name, (_, share, _) in malformed.READERS.items()}
    tasks = [
        (name, -(-number * share // sum(shares.values())), folder) for name, share in shares.items()
    ]
    lines, total, slowest, broken, processes = [], Counter(), 0.0, 0, Counter()
    with multiprocessing.Pool(2) as pool:
        for task, (codes, longest, alone) in zip(tasks, pool.imap(_read, tasks), strict=True):
            total += codes
            processes += alone
            slowest = max(slowest, longest)
            broken += sum(count for code, count in codes.items() if code not in malformed.CODES)
            lines.append(_line(task[0], codes))
            print(lines[-1], flush=True)
    lines.append(_line("**all**", total))
    broken += processes[False]
    told = (
        f"{sum(total.values()):,} inputs; the slowest took {slowest:.1f} s. {sum(processes.values())} of them were "
        f"tried as processes of their own: {processes[True]} with the same exit code and without a traceback."
    )
    return [
        told,
        "",
        "| reader | exit 0 | 1 | 2 | 3 | 4 | tracebacks and hangs |",
        "|---|--:|--:|--:|--:|--:|--:|",
        *lines,
    ], broken


def _read(task: tuple[str, int, Path]) -> tuple[Counter[int | None], float, Counter[bool]]:
    """Exit codes of one reader, its slowest command, and how often a process of its own ended in the same way."""
    name, number, folder = task
    clean, trial = folder / "good", folder / f"trial-{name.replace(' ', '-')}"
    codes: Counter[int | None] = Counter()
    alone: Counter[bool] = Counter()
    longest = 0.0
    for seed in range(number):
        done = malformed.tried(name, clean, trial, seed)
        codes[done.code] += 1
        longest = max(longest, done.seconds)
        if done.code not in malformed.CODES:
            print(f"{name}, seed {seed}:\n{done.told}", file=sys.stderr, flush=True)
        if seed % EVERY == 0:
            alone[_alone(name, clean, trial, seed) == done.code] += 1
    return codes, longest, alone


def _alone(name: str, clean: Path, trial: Path, seed: int) -> int | None:
    """The exit code of the same command as a process; None for a traceback, a signal or a hang."""
    with mock.patch.object(malformed, "ended", _process):
        return malformed.tried(name, clean, trial, seed).code


def _process(arguments: list[str]) -> tuple[int | None, str]:
    line = [sys.executable, "-m", "refladder", *arguments]
    done = subprocess.run(
        line, capture_output=True, cwd=ROOT, stdin=subprocess.DEVNULL, check=False
    )
    err = done.stderr.decode()
    return (None if "Traceback" in err or done.returncode < 0 else done.returncode), err


def _line(name: str, codes: Counter[int | None]) -> str:
    broken = sum(count for code, count in codes.items() if code not in malformed.CODES)
    return f"| {name} | {' | '.join(f'{codes[code]:,}' for code in sorted(malformed.CODES))} | {broken} |"


def faults(folder: Path) -> tuple[list[str], int]:
    """Lines of the table of server faults, and how many commands broke."""
    rows = folder / "rows.jsonl"
    row = {"context_id": "story-01", "output": "A keeper found a bottle."}
    rows.write_text("".join(json.dumps({**row, "output_id": f"o{k}"}) + "\n" for k in range(2)))
    lines, broken, slowest = [], 0, 0.0
    groups = {"of one answer": ROWS, "of the connection": CONNECTIONS, "that end a run": RUNS}
    for group, when in itertools.product(groups, ("at the handshake", "at every row")):
        codes: Counter[int | None] = Counter()
        for name, reply in groups[group].items():
            done = _asked(rows, folder, reply, good_handshake=when == "at every row")
            codes[done.code] += 1
            slowest = max(slowest, done.seconds)
            if done.code not in malformed.CODES:
                broken += 1
                print(f"{name}, {when}:\n{done.told}", file=sys.stderr)
        lines.append(_line(f"{len(groups[group])} faults {group}, {when}", codes))
    done = _asked(rows, folder, None, good_handshake=True)
    if done.code != 0:  # what was before, not the faults, decided how the runs ended
        raise SystemExit(f"a run without a fault ended with {done.code}: {done.told}")
    told = f"{sum(map(len, groups.values()))} kinds of fault, each met twice; the slowest run took {slowest:.1f} s."
    return [
        told,
        "",
        "| faults | exit 0 | 1 | 2 | 3 | 4 | tracebacks and hangs |",
        "|---|--:|--:|--:|--:|--:|--:|",
        *lines,
    ], broken


def _asked(
    rows: Path, folder: Path, reply: Reply | None, *, good_handshake: bool
) -> malformed.Ended:
    """Score rows with a server that gives this answer to them, or to everything; without one, it has no fault."""
    seen = itertools.count()

    def answer(_method: str, _path: str, _headers: object, body: bytes) -> Reply:
        sent = json.loads(body) if body else {}
        of_a_row = "keeper found a bottle" in str(sent.get("messages"))
        if reply is None or (good_handshake and not of_a_row):
            return Reply(good(next(seen), sent))
        return reply

    for path in folder.glob(
        "o.jsonl*"
    ):  # of the fault before, which this run would resume or not replace
        path.unlink()
    options = ("mode=top", "attempts=2", "timeout=2", "patience=1")
    with HttpServer(answer) as server:
        arguments = [
            "score",
            str(rows),
            "--ladders",
            "demo/story",
            "--dimension",
            "coherence",
            "--no-store",
            "--any-judge",
        ]
        arguments += [
            "--judge",
            "openai:toy",
            "--base-url",
            server.url,
            "--out",
            str(folder / "o.jsonl"),
        ]
        return malformed.timed(
            [*arguments, *itertools.chain(*(("--judge-option", option) for option in options))]
        )


def main() -> None:
    """Try everything and write the results; exit code 1 when a command broke."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as name:
        tables = [inputs(number, Path(name)), faults(Path(name))]
    lines = [
        "# Malformed inputs and answers",
        "",
        f"`python bench/malformed.py {number}`; a hang is more than",
        "",
    ]
    lines[2] += (
        f" {malformed.LIMIT:g} s. Exit codes: 0 done, 1 the server failed, 2 the data must be mended, 3 unscored rows, "
        "4 answers are awaited."
    )
    lines += ["## Files", "", *tables[0][0], "", "## Answers of a server", "", *tables[1][0]]
    print("\n".join(lines))
    (Path(__file__).parent / "results/malformed.md").write_text(
        "\n".join(lines) + "\n", encoding="utf-8"
    )
    sys.exit(1 if any(broken for _, broken in tables) else 0)


if __name__ == "__main__":
    main()
