"""Draw the samples of the study from the public releases: `python bench/stays/samples.py DATA OUT`.

Writes OUT/topicalchat.jsonl and OUT/summeval.jsonl, tables for `refladder score`. They hold texts of the benchmarks, so
OUT is outside the repository.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import refladder

if TYPE_CHECKING:
    from collections.abc import Sequence

READINGS = Path(__file__).parent.parent / "readings"
# Benchmark, file of its release, ladders of the readings, contexts, texts of a context.
SAMPLES = (
    ("topicalchat", "topicalchat_usr/tc_usr_data.json", "topicalchat-20", 10, 6),
    ("summeval", "summeval/model_annotations.aligned.paired.jsonl.gz", "summeval-10", 10, 4),
)


def drawn(*names: str) -> str:
    """Return the digest by which contexts and systems are drawn: BLAKE2b of the seed 0 and the names."""
    return hashlib.blake2b("\0".join(("0", *names)).encode()).hexdigest()


def rows_of(data: Path, sample: Sequence[str | int]) -> list[dict[str, str]]:
    """Return the rows of a sample, for `refladder.score`, from the folder of the public releases."""
    name, file, ladders, contexts, texts = sample
    benchmark = refladder.load_benchmark(str(name), str(data / str(file)))
    lines = (READINGS / str(ladders) / "ladders.jsonl").read_text().splitlines()
    with_ladder = {json.loads(line)["context_id"] for line in lines}
    chosen = sorted(with_ladder, key=drawn)[: int(contexts)]
    by_id = {context.id: context for context in benchmark.contexts}
    rows = []
    for context_id in chosen:
        outputs = [output for output in benchmark.outputs if output.context_id == context_id]
        outputs.sort(key=lambda output: drawn(output.context_id, output.system))
        context = by_id[context_id]
        rows += [
            {
                "output_id": output.id,
                "context_id": context_id,
                "context": context.text,
                "background": context.background,
                "output": output.text,
            }
            for output in outputs[: int(texts)]
        ]
    return rows


def main() -> None:
    """Write the two tables."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for sample in SAMPLES:
        rows = rows_of(given.data, sample)
        path = given.out / f"{sample[0]}.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        print(f"{path}: {len(rows)} texts")


if __name__ == "__main__":
    main()
