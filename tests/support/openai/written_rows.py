"""Rows that a judge rates in words on a fault server, by the command: how it is called, and what became of the rows."""

from __future__ import annotations

import json
import sys

from fault_server import CRITERIA, MODEL, shares

# Each mode, and its number of criteria.
MODES = {"rating:stated": 1, "rating:together": 2}


def command(mode, url, folder, rows):
    """Write the table, if there is none, and return the command that scores it; a killed one is resumed."""
    table = folder / "rows.jsonl"
    if not table.exists():
        texts = [{"output_id": str(row), "output": f"text number {row}"} for row in range(rows)]
        table.write_text("".join(json.dumps(text) + "\n" for text in texts))
    line = [sys.executable, "-m", "refladder", "score", str(table), "--ladders", "general/reply"]
    for name in CRITERIA[: MODES[mode]]:
        line += ["--dimension", name]
    for option in ("attempts=10", "timeout=3", "max-concurrency=32"):
        line += ["--judge-option", option]
    line += ["--judge", f"openai:{MODEL}", "--base-url", url, "--answers", mode, "--any-judge"]
    line += ["--anchors", "2", "--store", str(folder / "store.sqlite")]
    return [*line, "--out", str(folder / "out.jsonl")]


def kept(folder):
    """The rows with a whole judgment in the file beside the table."""
    path = folder / "out.jsonl.judgments.jsonl"
    if not path.exists():
        return set()
    rows = set()
    # A kill may cut the last line.
    for line in path.read_text("utf-8").split("\n")[:-1]:
        # Rungs have other names.
        if (subject := json.loads(line).get("subject", "")).isdigit():
            rows.add(int(subject))
    return rows


def lost_and_wrong(mode, folder, rows):
    """How many rows lack a score on a criterion, and how many have another score than theirs, or come twice."""
    found = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    lost, wrong = rows - len({row["output_id"] for row in found}), len(found) - rows
    for row in found:
        for name in CRITERIA[: MODES[mode]]:
            score = row[f"{name}_score"]
            lost += score is None
            own = sum(
                rating * share
                for rating, share in enumerate(shares(int(row["output_id"]), name), 1)
            )
            wrong += score is not None and abs(score - own / 100) > 1e-6
    return lost, max(wrong, 0)
