"""Compute from recorded readings how well a large language model agrees with people; no model is asked.

python bench/large_model.py ../shared/data     # a folder with the public releases; writes bench/results/large_model.md
python bench/large_model.py ../shared/data --figure docs/explanation/large-model.svg
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import figures
import numpy as np
from scipy.stats import spearmanr

import refladder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from refladder.records import Benchmark

READINGS = Path(__file__).parent / "readings"
SOURCES = {
    "topicalchat": "topicalchat_usr/tc_usr_data.json",
    "summeval": "summeval/model_annotations.aligned.paired.jsonl.gz",
    "hanna": "hanna/hanna_stories_annotations.csv.gz",
    "newsroom": "newsroom/newsroom-human-eval.csv.gz",
    "webnlg": "webnlg2017",
}
# Benchmark, dimension, and the ladders of the readings: a folder beside them, or a published set.
RUNS = [
    ("topicalchat", "engagingness", str(READINGS / "topicalchat-20")),
    ("topicalchat", "overall", "topicalchat"),
    ("summeval", "coherence", str(READINGS / "summeval-10")),
    ("summeval", "relevance", "summeval"),
    ("hanna", "coherence", "hanna"),
    ("hanna", "surprise", "hanna"),
    ("newsroom", "informativeness", "newsroom"),
    ("webnlg", "semantics", "webnlg"),
]
# Other readings of some texts of a run: benchmark, dimension, ending of the file, words.
OTHERS = [
    ("topicalchat", "engagingness", "general", "stated, `three-anchors/reply`"),
    ("topicalchat", "engagingness", "pairs", "win ratio over all pairs"),
    ("summeval", "coherence", "general", "stated, `three-anchors/summary`"),
]
WORDS = {
    "own": "stated, own ladders",
    "direct": "direct, expected rating",
    "whole": "direct, whole rating",
    "ladder": "`builtin`, own ladders",
    "direct-5": "`builtin`, direct",
    "best of the surface measures": "best surface measure",
}
LEVELS = ("within_context", "pooled")
# Sample, method, agreement and its interval.
Point = tuple[str, str, float, float, float]


def stated(name: str) -> tuple[np.ndarray, dict[str, dict[str, float]]]:
    """Return the stated percentages of each text: a row of each text and a column of each rung, and a dict."""
    rows = defaultdict(dict)
    with gzip.open(READINGS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as stream:
        for line in list(stream)[1:]:
            judgment = json.loads(line)
            rows[judgment["subject"]][judgment["against"]] = judgment["stated"][0]
    rungs = sorted({rung for row in rows.values() for rung in row})
    return np.array([[row[rung] for rung in rungs] for row in rows.values()]), dict(rows)


def one_rating(name: str) -> tuple[float, int, float]:
    """Return how far the percentages of a text are one rating, and the greatest percentage against the top rung.

    The first two numbers are the first factor's share of the standardised percentages, and the number of rank orders of the
    rungs.
    """
    values, _ = stated(name)
    spread = values.std(axis=0)
    standardised = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    parts = np.linalg.svd(standardised, compute_uv=False) ** 2
    orders = {tuple(np.argsort(-row, kind="stable")) for row in values}
    return parts[0] / parts.sum(), len(orders), float(values[:, -1].max())


def ladder_score(row: dict[str, float]) -> float:
    """Return the score of arXiv 2509.05440, section 2.2: the sum over levels i of i p(win) - i p(loss)."""
    return sum(
        int(rung.removeprefix("rung:").partition("@")[0]) * (2 * percent / 100 - 1)
        for rung, percent in row.items()
    )


def ladder_scores(name: str) -> dict[str, float]:
    """Return the ladder score of each text of recorded readings."""
    return {text: ladder_score(row) for text, row in stated(name)[1].items()}


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the rows of recorded direct ratings or pairs."""
    return [
        json.loads(line) for line in (READINGS / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]


def direct(name: str, column: str) -> dict[str, float]:
    """Return the direct rating of each text."""
    return {row["output_id"]: float(row[column]) for row in rows_of(name)}


def win_ratios(name: str) -> dict[str, float]:
    """Return the mean probability of each text that it is better than the others of its context."""
    won = defaultdict(list)
    for row in rows_of(name):
        won[row["first"]].append(row["percent"] / 100)
        won[row["second"]].append(1 - row["percent"] / 100)
    return {text: float(np.mean(values)) for text, values in won.items()}


def rater_agreement(benchmark: Benchmark, dimension: str) -> float:
    """Return the correlation of two people's ratings of a text, over all ordered pairs of raters.

    This is Fisher's intraclass correlation (Statistical Methods for Research Workers, section 38): 1 where raters agree, and
    about 0 where the rating of one person says nothing about that of another.
    """
    ratings = defaultdict(list)
    for each in benchmark.ratings:
        if each.dimension == dimension:
            ratings[each.output_id].append(each.value)
    pairs = [pair for values in ratings.values() for pair in permutations(values, 2)]
    first, second = np.array(pairs, dtype=float).T
    return float(np.corrcoef(first, second)[0, 1])


def part_of(benchmark: Benchmark, dimension: str, texts: Collection[str]) -> Benchmark:
    """Return the benchmark with these texts, their contexts and one dimension."""
    outputs = tuple(output for output in benchmark.outputs if output.id in texts)
    contexts = {output.context_id for output in outputs}
    return replace(
        benchmark,
        dimensions=tuple(each for each in benchmark.dimensions if each.name == dimension),
        contexts=tuple(context for context in benchmark.contexts if context.id in contexts),
        outputs=outputs,
        ratings=tuple(
            each
            for each in benchmark.ratings
            if each.output_id in texts and each.dimension == dimension
        ),
    )


def evaluated(
    part: Benchmark,
    dimension: str,
    ladders: str,
    scores: Mapping[str, Mapping[str, float]],
    folder: Path,
) -> dict[tuple[str, str], Any]:
    """Return the agreement of scores with people, of `builtin` on the same ladders, and of the best surface measure.

    `scores` are by name and text. The result has a row for each level and method.
    """
    files = []
    for name, values in scores.items():
        files.append(folder / f"{name}.jsonl")
        rows = [{"output_id": text, dimension: score} for text, score in values.items()]
        files[-1].write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    result = refladder.evaluate(
        part,
        ladders=ladders,
        judge="builtin",
        methods=["ladder", "direct-5"],
        scores=files,
        protocol=refladder.Protocol(levels=LEVELS, reference="own", resamples=10_000),
        work=folder / "work",
        store=False,
    )
    return {
        (row.level, row.method): row
        for row in result.rows
        if row.dimension == dimension and row.statistic == "spearman"
    }


def cells(rows: Mapping[tuple[str, str], Any], method: str) -> list[str]:
    """Return the agreement within contexts and the pooled one as cells, each with its p-value against own ladders."""
    shown = []
    for row in (rows[level, method] for level in LEVELS):
        shown.append(f"{row.value:.3f} [{row.low:.2f}, {row.high:.2f}]")
        shown.append("-" if row.p_value is None else f"{row.p_value:.3f}")
    return shown


def changes(
    first: Mapping[str, float], second: Mapping[str, float], cut: float
) -> tuple[int, float, int]:
    """Return the number of texts, the shift of the mean, and the number of decisions that change.

    The shift is in standard deviations of the first scores. A decision is whether a text is at or above the cut-off.
    """
    texts = sorted(first.keys() & second.keys())
    one, two = (np.array([scores[text] for text in texts]) for scores in (first, second))
    changed = int(np.sum((one >= cut) != (two >= cut)))
    return len(texts), (two - one).mean() / one.std(), changed


def builtin_direct(folder: Path) -> dict[str, float]:
    """Return the expected direct rating of each text by the builtin judge."""
    lines = (folder / "work" / "direct-5.judgments.jsonl").read_text("utf-8").splitlines()[1:]
    return {
        row["subject"]: float(np.exp(row["logprobs"]) @ np.arange(1, 6))
        for row in map(json.loads, lines)
    }


def builtin_ladders(folder: Path, dimension: str) -> dict[str, float]:
    """Return the scores of the builtin judge on the ladders of readings."""
    rows = refladder.rescore(folder / "work" / "judgments.jsonl")
    return {row["output_id"]: row[f"{dimension}_score"] for row in rows}


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table, with columns of words on the left and of numbers on the right."""
    words = 2 if "asked" in heads else 1
    rule = [*["---"] * words, *["--:"] * (len(heads) - words)]
    return [f"| {' | '.join(cell)} |" for cell in (heads, rule, *rows)]


def measure(
    data: Path,
) -> tuple[list[list[str]], list[list[str]], list[list[str]], list[Point]]:
    """Return the rows of the tables of agreement, of readings and raters, and of decisions, and what the figure shows."""
    agreement, consistency, decisions, shown = [], [], [], []
    for name, dimension, ladders in RUNS:
        stem = f"{name}-{dimension}"
        benchmark = refladder.load_benchmark(name, data / SOURCES[name])
        own = ladder_scores(f"{stem}-own")
        scores = {"own": own}
        for kind, column in (("direct", dimension), ("whole", f"{dimension}_whole")):
            rated = direct(f"{stem}-direct", column)
            scores[kind] = {text: rated[text] for text in own}
        label = f"{name}, {dimension}"
        part = part_of(benchmark, dimension, own)
        readings = [[values[text] for text in own] for values in (own, scores["direct"])]
        between = spearmanr(*readings).statistic
        raters = [rater_agreement(each, dimension) for each in (part, benchmark)]
        consistency.append([label, f"{between:.3f}", *(f"{each:.3f}" for each in raters)])
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            rows = evaluated(part, dimension, ladders, scores, folder)
            share, orders, most = one_rating(f"{stem}-own")
            for method, words in WORDS.items():
                factor = (
                    [f"{share:.3f}", str(orders), f"{most:g}"] if method == "own" else ["-"] * 3
                )
                agreement.append([label, words, str(len(own)), *cells(rows, method), *factor])
                row = rows["within_context", method]
                shown.append((label, words, row.value, row.low, row.high))
            cut = float(np.median(list(own.values())))
            plain = builtin_ladders(folder, dimension)
            rated = scores["direct"]
            for words, first, second in (
                ("own ladders", own, plain),
                ("direct, expected rating", rated, builtin_direct(folder)),
            ):
                limit = cut if first is own else float(np.median(list(rated.values())))
                count, shift, changed = changes(first, second, limit)
                decisions.append(
                    [label, words, str(count), f"{shift:+.2f}", f"{changed / count:.2f}"]
                )
    return agreement, consistency, decisions, shown


def other_readings(data: Path) -> list[list[str]]:
    """Return the rows of readings that were made of some texts of a run, beside own ladders on the same texts."""
    rows = []
    for name, dimension, ending, words in OTHERS:
        stem = f"{name}-{dimension}"
        ladders = next(each[2] for each in RUNS if each[:2] == (name, dimension))
        read = win_ratios if ending == "pairs" else ladder_scores
        other = read(f"{stem}-{ending}")
        own = {text: score for text, score in ladder_scores(f"{stem}-own").items() if text in other}
        rated = direct(f"{stem}-direct", dimension)
        scores = {"own": own, ending: other, "direct": {text: rated[text] for text in other}}
        benchmark = refladder.load_benchmark(name, data / SOURCES[name])
        with tempfile.TemporaryDirectory() as temporary:
            part = part_of(benchmark, dimension, other)
            found = evaluated(part, dimension, ladders, scores, Path(temporary))
        for method, label in ((ending, words), ("own", WORDS["own"]), ("direct", WORDS["direct"])):
            rows.append([f"{name}, {dimension}", label, str(len(other)), *cells(found, method)])
    return rows


def second_pass() -> tuple[list[list[str]], str]:
    """Return the rows of a second pass over about a quarter of the texts, and a sentence with their sums.

    The second pass is by other readers of the same model. The test is paired: on the texts that both ways of asking have,
    the sums of a context swap. The texts of a context were read together, so they are not tested one by one.
    """
    rows, totals, differences, prompts = [], Counter(), [], Counter()
    for name, dimension, _ in RUNS:
        stem = f"{name}-{dimension}"
        if not (READINGS / f"{stem}-own-pass2.jsonl.gz").exists():
            continue
        changed = {}
        for words, kind in (("own ladders", "own"), ("direct, expected rating", "direct")):
            read = (
                ladder_scores if kind == "own" else lambda file, name=dimension: direct(file, name)
            )
            first, second = read(f"{stem}-{kind}"), read(f"{stem}-{kind}-pass2")
            again = {text: first[text] for text in second}
            cut = float(np.median(list(again.values())))
            changed[kind] = {text: (again[text] >= cut) != (second[text] >= cut) for text in again}
            count, shift, number = changes(again, second, cut)
            totals.update({f"{kind} texts": count, f"{kind} changed": number})
            label = f"{name}, {dimension}"
            rows.append([label, words, str(count), f"{shift:+.2f}", f"{number / count:.2f}"])
        contexts = Counter()
        for text in changed["own"].keys() & changed["direct"].keys():
            context = text.rpartition("/")[0]
            more = int(changed["direct"][text]) - int(changed["own"][text])
            contexts[context] += more
            prompts[name, context] += more
            totals["common"] += 1
        differences.extend(contexts.values())
    sums = " and ".join(
        f"{totals[f'{kind} changed']} of {totals[f'{kind} texts']} decisions with {words}"
        for kind, words in (("own", "own ladders"), ("direct", "direct ratings"))
    )
    return rows, (
        f"In all, {sums} change. {totals['common']} texts of {len(differences)} contexts have both second readings\n"
        f"(paired permutation test over these contexts, p = {sign_flip(differences):.3f}). Dimensions can share a context: with\n"
        f"each of the {len(prompts)} as one unit, p = {sign_flip(prompts.values()):.3f}."
    )


def sign_flip(differences: Iterable[int]) -> float:
    """Return the two-sided p-value of the sum of the differences, over all of their signs."""
    signed = [sum(signs) for signs in product(*((each, -each) for each in differences if each))]
    return float(np.mean(np.abs(signed) >= abs(signed[0])))


def draw(shown: list[Point], path: Path) -> None:
    """Draw agreement within contexts with 95 % intervals, a panel a dimension."""
    panels: dict[str, dict[str, list[figures.Point]]] = {}
    for label, words, value, low, high in shown:
        colour = "#1f5fa8" if words.startswith(("stated", "direct")) else "#8a8a8a"
        point = figures.Point(value, low, high, colour)
        panels.setdefault(label, {})[words.replace("`", "")] = [point]
    figures.intervals(path, panels, "Spearman with people, within contexts", (-0.4, 1))


def main() -> None:
    """Write bench/results/large_model.md, print it, and draw the figure if it is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    agreement, consistency, decisions, shown = measure(given.data)
    again, totals = second_pass()
    lines = [
        "# A large language model as writer and judge",
        "",
        "`python bench/large_model.py DATA` recomputes this page from `bench/readings`; no model is asked.",
        "",
        "Spearman with the human ratings, within contexts and over all texts, with 95 % intervals. p is that of a paired",
        "permutation test over contexts against own ladders, exact for up to 16 contexts. The last column is the greatest",
        "percentage that a text got against the highest rung.",
        "",
        *table(
            [
                "benchmark, dimension", "asked", "texts", "within contexts", "p", "pooled", "p", "first factor",
                "rank orders", "most over rung 5",
            ],
            agreement,
        ),
        "",
        "The Spearman correlation of the model's two readings, own ladders and expected ratings, over all texts. And how far two",
        "people agree on a text: the intraclass correlation of one rating, in the sample and in the whole benchmark.",
        "",
        *table(
            ["benchmark, dimension", "the two readings", "raters, sample", "raters, benchmark"],
            consistency,
        ),
        "",
        "Readings of some of these texts, beside the others on the same texts.",
        "",
        *table(
            ["benchmark, dimension", "asked", "texts", "within contexts", "p", "pooled", "p"],
            other_readings(given.data),
        ),
        "",
        "A cut-off is the median of the scores of the large model, and is used for the scores of another judge, `builtin`, on",
        "the same texts. The shift is that of the mean, in standard deviations of the large model's scores.",
        "",
        *table(["benchmark, dimension", "asked", "texts", "mean shift", "decisions that change"], decisions),
        "",
        "A second pass of the large model over some of the texts, by other readers. The cut-off is the first median. On",
        "topicalchat, engagingness, the two ways have different texts, on the others the same.",
        "",
        *table(["benchmark, dimension", "asked", "texts", "mean shift", "decisions that change"], again),
        "",
        totals,
    ]  # fmt: skip
    text = "\n".join(lines) + "\n"
    print(text)
    (Path(__file__).parent / "results" / "large_model.md").write_text(text, "utf-8")
    if given.figure:
        draw(shown, given.figure)


if __name__ == "__main__":
    main()
