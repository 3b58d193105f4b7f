"""What a large language model makes of ladders, from its recorded readings in bench/readings: no model is asked.

python bench/large_model.py ../shared/data     # a folder with the public releases; writes bench/results/large_model.md
"""

import gzip
import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

import refladder

READINGS = Path(__file__).parent / "readings"
SOURCES = {
    "topicalchat": "topicalchat_usr/tc_usr_data.json",
    "summeval": "summeval/model_annotations.aligned.paired.jsonl.gz",
}
RUNS = [  # benchmark, dimension, ladders, readings of the ladders
    ("topicalchat", "engagingness", "own", "topicalchat-engagingness-own"),
    ("topicalchat", "engagingness", "general/reply", "topicalchat-engagingness-general"),
    ("summeval", "coherence", "own", "summeval-coherence-own"),
]


def stated(name: str) -> tuple[np.ndarray, dict[str, dict[str, float]]]:
    """The stated percentages of each text, one column for each rung, and the ladder score of each text."""
    rows = defaultdict(dict)
    with gzip.open(READINGS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as stream:
        for line in list(stream)[1:]:
            judgment = json.loads(line)
            rows[judgment["subject"]][judgment["against"]] = judgment["stated"][0]
    rungs = sorted({rung for row in rows.values() for rung in row})
    return np.array([[row[rung] for rung in rungs] for row in rows.values()]), dict(rows)


def one_rating(name: str) -> tuple[float, int]:
    """Share of the first factor of the standardised percentages, and the number of rank orders of the rungs."""
    values, _ = stated(name)
    spread = values.std(axis=0)
    parts = (
        np.linalg.svd(
            (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0), compute_uv=False
        )
        ** 2
    )
    orders = {tuple(np.argsort(-row, kind="stable")) for row in values}
    return parts[0] / parts.sum(), len(orders)


def ladder_score(row: dict[str, float]) -> float:
    """Score by arXiv 2509.05440, section 2.2: the sum over levels i of i p(win) - i p(loss)."""
    return sum(
        int(rung.removeprefix("rung:").partition("@")[0]) * (2 * percent / 100 - 1)
        for rung, percent in row.items()
    )


def passes(first: dict[str, float], second: dict[str, float]) -> tuple[int, float, float]:
    """Mean shift between two passes in units of the first's spread, and the share of decisions that change.

    A decision is whether a text is at or above the median of the first pass.
    """
    texts = sorted(first.keys() & second.keys())
    one, two = (np.array([scores[text] for text in texts]) for scores in (first, second))
    cut = np.median(one)
    return len(texts), (two - one).mean() / one.std(), np.mean((one >= cut) != (two >= cut))


def direct(name: str, column: str) -> dict[str, float]:
    lines = (READINGS / f"{name}.jsonl").read_text("utf-8").splitlines()
    return {row["output_id"]: row[column] for row in map(json.loads, lines)}


def main() -> None:
    data = Path(sys.argv[1])
    lines = [
        "# A large language model as writer and judge",
        "",
        "`python bench/large_model.py DATA` recomputes this page from `bench/readings`; no model is asked.",
        "",
        "Spearman with the human ratings, within contexts and over all texts, with 95 % intervals.",
        "",
        "| benchmark, dimension | texts | asked | within contexts | pooled | first factor | rank orders |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    for name, dimension, words, readings in RUNS:
        benchmark = refladder.load_benchmark(name, data / SOURCES[name])
        judged = set(stated(readings)[1])
        outputs = [output for output in benchmark.outputs if output.id in judged]
        kept = {output.context_id for output in outputs}
        part = replace(
            benchmark,
            dimensions=tuple(each for each in benchmark.dimensions if each.name == dimension),
            contexts=tuple(context for context in benchmark.contexts if context.id in kept),
            outputs=tuple(outputs),
            ratings=tuple(
                each
                for each in benchmark.ratings
                if each.output_id in judged and each.dimension == dimension
            ),
        )
        share, orders = one_rating(readings)
        scores = {(text, dimension): ladder_score(row) for text, row in stated(readings)[1].items()}
        columns = [
            (
                f"stated probabilities, {words} ladders"
                if words == "own"
                else f"stated probabilities, `{words}`",
                scores,
                f"{share:.3f}",
                str(orders),
            )
        ]
        if words == "own":
            for column, label in (
                (dimension, "direct, expected rating"),
                (f"{dimension}_whole", "direct, whole rating"),
            ):
                rated = direct(f"{name}-{dimension}-direct", column)
                columns.append(
                    (label, {(text, dimension): float(rated[text]) for text in judged}, "-", "-")
                )
        for label, values, factor, order in columns:
            cells = []
            for level in ("within_context", "pooled"):
                row, *_ = refladder.evaluate_method(
                    part,
                    values,
                    method=label,
                    signature=label,
                    levels=[level],
                    statistics=["spearman"],
                )
                cells.append(f"{row.value:.3f} [{row.low:.2f}, {row.high:.2f}]")
            lines.append(
                f"| {name}, {dimension} | {len(outputs)} | {label} | {' | '.join(cells)} | {factor} | {order} |"
            )
    own, again = (stated(f"topicalchat-engagingness-own{end}")[1] for end in ("", "-pass2"))
    n, shift, changed = passes(
        {t: ladder_score(r) for t, r in own.items()}, {t: ladder_score(r) for t, r in again.items()}
    )
    m, d_shift, d_changed = passes(
        direct("topicalchat-engagingness-direct", "engagingness"),
        direct("topicalchat-engagingness-direct-pass2", "engagingness"),
    )
    lines += [
        "",
        "A second, independent pass over a quarter of TopicalChat engagingness. The cut-off is the first median.",
        "",
        "| asked | texts | mean shift, in standard deviations | decisions that change |",
        "|---|--:|--:|--:|",
        f"| own ladders | {n} | {shift:+.2f} | {changed:.3f} |",
        f"| direct, expected rating | {m} | {d_shift:+.2f} | {d_changed:.3f} |",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    (Path(__file__).parent / "results" / "large_model.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
