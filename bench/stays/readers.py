"""Split the study with readers apart, and collect what they wrote: texts and rungs apart, at most 20 requests each.

    python bench/stays/readers.py draw ../shared/data FOLDER     # a file of requests for each reader
    python bench/stays/readers.py collect ../shared/data FOLDER  # their answers become bench/readings/apart-*.jsonl

A reader gets one file FOLDER/requests/NNN.txt and writes FOLDER/answers/NNN.txt. The plan is section 3 of plan.md. Files of
requests hold texts of the benchmarks, so FOLDER is outside the repository.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from pathlib import Path
from typing import NamedTuple

import samples

from refladder.prompts import criterion, fill, load_template
from refladder.records import Context, Dimension
from refladder.scoring.modes.rating_answer import stated_ratings

HERE = Path(__file__).parent
READINGS = HERE.parent / "readings"
PUBLISHED = HERE.parent.parent / "published_data" / "general"
JUDGES = ("neutral1", "neutral2", "strict", "lenient", "crowd")
SAMPLES = ("topicalchat", "summeval", "replies")
# The readings of section 2, of the first order of the prompt, were drawn with other seeds.
SEED = "order 2"
MOST_REQUESTS = 20
# Requests of one context that a reader may get, and the least distance between them.
OF_A_CONTEXT, APART = 2, 5


class Request(NamedTuple):
    """A question about a text or a rung; `ids` are the fields of its line of readings."""

    context_id: str
    prompt: str
    ids: dict[str, str | int]


def instruction_of(judge: str) -> str:
    """Return the instruction of a judge."""
    return (HERE / f"{judge.rstrip('12')}.txt").read_text(encoding="utf-8").strip()


def digest_of(judge: str, prompt: str) -> str:
    """Return what identifies a request: 16 hexadecimal digits of SHA-256 of reading, instruction and prompt.

    The reading is `neutral1`, ...: both neutral ones have the same instruction.
    """
    return hashlib.sha256(f"{judge}\n\n{instruction_of(judge)}\n\n{prompt}".encode()).hexdigest()[
        :16
    ]


def lines_of(path: Path) -> list[dict]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def requests_of(sample: str, data: Path) -> tuple[list[Request], list[Request]]:
    """Return the requests about the texts of a sample, and about the rungs."""
    if sample == "replies":
        rows = lines_of(READINGS / "stays-replies.jsonl")
        folder, name = PUBLISHED / "reply", "helpfulness"
        contexts = {line["id"]: line for line in lines_of(folder / "contexts.jsonl")}
    else:
        drawn = next(each for each in samples.SAMPLES if each[0] == sample)
        rows = samples.rows_of(data, drawn)
        folder = READINGS / str(drawn[2])
        name = lines_of(folder / "dimensions.jsonl")[0]["name"]
        contexts = {
            row["context_id"]: {"text": row["context"], "background": row["background"]}
            for row in rows
        }
    ladders = [each for each in lines_of(folder / "ladders.jsonl") if each["dimension"] == name]
    ladders = [each for each in ladders if each["context_id"] in contexts]
    task = ladders[0]["task"]
    line = next(each for each in lines_of(folder / "dimensions.jsonl") if each["name"] == name)
    dimension = Dimension(name=name, description=line["description"])
    template = load_template(task, "rating-stated")

    def prompt(text: str, background: str, target: str) -> str:
        context = Context(id="x", task=task, text=text, background=background)
        return fill(template, {**criterion(context, dimension), "target": target}).text

    texts = []
    for row in rows:
        asked = prompt(row["context"], row.get("background") or "", row["output"])
        texts.append(Request(row["context_id"], asked, {"output_id": row["output_id"]}))
    rungs = []
    for ladder in ladders:
        shown = contexts[ladder["context_id"]]
        for rung in ladder["rungs"]:
            ids = {"context_id": ladder["context_id"], "level": rung["level"]}
            asked = prompt(shown["text"], shown.get("background") or "", rung["text"])
            rungs.append(Request(ladder["context_id"], asked, ids))
    return texts, rungs


def split(requests: list[Request], seed: str) -> list[list[Request]]:
    """Split requests among readers at random, with at most two of a context for one reader, far apart."""
    draws = random.Random(seed)  # noqa: S311  a split with a seed
    readers = -(-len(requests) // MOST_REQUESTS)
    size = -(-len(requests) // readers)
    parts: list[list[Request]] = [[] for _ in range(readers)]
    for context_id in sorted({request.context_id for request in requests}, key=samples.drawn):
        of_context = [request for request in requests if request.context_id == context_id]
        for number, request in enumerate(draws.sample(of_context, len(of_context))):
            # The readers with the fewest requests come first, each once before one gets a second request.
            turn = sorted(
                parts, key=lambda part: (_times(part, context_id), len(part), draws.random())
            )
            turn[0].append(request)
            if _times(turn[0], context_id) > OF_A_CONTEXT or len(turn[0]) > size:
                raise SystemExit(f"{seed}: {number} requests of {context_id} do not fit")
    return [_spread(part, draws) for part in parts]


def _times(part: list[Request], context_id: str) -> int:
    return sum(request.context_id == context_id for request in part)


def _spread(part: list[Request], draws: random.Random) -> list[Request]:
    """Return requests in an order in which those of one context are apart."""
    while True:
        ordered = draws.sample(part, len(part))
        last: dict[str, int] = {}
        for place, request in enumerate(ordered):
            if place - last.get(request.context_id, -APART) < APART:
                break
            last[request.context_id] = place
        else:
            return ordered


HEAD = """{instruction}

Below are {count} requests. Answer each one by itself, in order, as if it were the only one: read it, then decide. Write your
answers to {answers} in one go, in this form, and nothing else:

#1
1: ...
2: ...
3: ...
4: ...
5: ...
#2
...

where the five lines below #N are the five lines that request N asks for. Type them yourself; no script or formula makes them.
"""


def parts_of(data: Path) -> list[tuple[str, str, list[Request]]]:
    """Return (sample, judge, requests) of every reader, in order."""
    parts = []
    for sample in SAMPLES:
        kinds = requests_of(sample, data)
        for judge in JUDGES:
            for kind, requests in zip(("texts", "rungs"), kinds, strict=True):
                for part in split(requests, f"{SEED} {sample} {judge} {kind}"):
                    parts.append((sample, judge, part))
    # The number of a reader tells nothing about its judge.
    random.Random(SEED).shuffle(parts)  # noqa: S311
    return parts


def draw(data: Path, folder: Path) -> None:
    """Write a file for each reader."""
    for name in ("requests", "answers"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    parts = parts_of(data)
    for number, (_, judge, part) in enumerate(parts, start=1):
        answers = folder / "answers" / f"{number:03}.txt"
        head = HEAD.format(instruction=instruction_of(judge), count=len(part), answers=answers)
        asked = [
            f"===== Request #{place} =====\n{each.prompt}"
            for place, each in enumerate(part, start=1)
        ]
        (folder / "requests" / f"{number:03}.txt").write_text(
            "\n".join([head, *asked]), encoding="utf-8"
        )
    print(f"{len(parts)} readers, {sum(len(part) for _, _, part in parts)} requests, in {folder}")


def collect(data: Path, folder: Path) -> None:
    """Read the answers of all readers, and write the readings and who read what."""
    cells: dict[tuple[str, str], list[dict]] = {}
    readers = []
    for number, (sample, judge, part) in enumerate(parts_of(data), start=1):
        path = folder / "answers" / f"{number:03}.txt"
        if not path.exists():
            print(f"{path}: missing")
            continue
        pieces = re.split(r"(?m)^#(\d+)\s*$", path.read_text(encoding="utf-8"))
        answers = dict(zip(map(int, pieces[1::2]), pieces[2::2], strict=True))
        for place, request in enumerate(part, start=1):
            shares = stated_ratings(answers.get(place, ""))
            digest = digest_of(judge, request.prompt)
            readers.append({"reader": number, "request": digest})
            if isinstance(shares, str):
                print(f"{path}: #{place}: {shares}")
                percent = None
            else:
                percent = [round(100 * share, 6) for share in shares]
            cells.setdefault((sample, judge), []).append(
                {**request.ids, "percent": percent, "request": digest}
            )
    for (sample, judge), rows in cells.items():
        rows.sort(
            key=lambda row: (
                "output_id" in row,
                row.get("output_id", ""),
                row.get("context_id", ""),
                row.get("level", 0),
            )
        )
        write(READINGS / f"apart-{sample}-{judge}.jsonl", rows)
    write(READINGS / "readers.jsonl", readers)


def write(path: Path, rows: list[dict]) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    """Draw or collect."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("step", choices=("draw", "collect"))
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    {"draw": draw, "collect": collect}[given.step](given.data, given.folder)


if __name__ == "__main__":
    main()
