"""Students of judges on five benchmarks: agreement, calls saved, decisions changed, and rows per second.

`python bench/distil.py` reads ../shared/data and writes bench/results/distil.md. Each benchmark is scored on its first
dimension by two teachers, with ladders of the builtin writer: the builtin judge, and a simulated judge that knows the
ratings of people. Contexts are split into five folds; the estimates of a fold come from a student that has learned from
the others.
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from certificate import JUDGES, RUNGS, SOURCES, Qualities, Simulated, Writer

from refladder.backends import connect
from refladder.calibration.labelling import LabelledTable
from refladder.files.ladder_sets import ladder_set
from refladder.files.tables import Row
from refladder.loaders import load_benchmark
from refladder.loaders.input_rows import Item, Mapped
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import LadderScorer
from refladder.settings import Scoring
from refladder.statistics.agreement import human_means
from refladder.students.distil import HALF_WIDTH, agreement, read_lessons
from refladder.students.ngrams import NgramStudent, fit_ngrams
from refladder.synth import build_ladders

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from refladder.records import HeldOut
    from refladder.students.distil import Lessons

    FloatArray = NDArray[np.float64]

RESULTS = Path(__file__).resolve().parent / "results" / "distil.md"
TEACHERS, FOLDS, BATCH = ("builtin", "sharp"), 5, 256
THRESHOLDS, WIDTHS = {"middle": 0.5, "high": 0.8}, (0.8, HALF_WIDTH, 0.98)
SPEED_ROWS = 10_000
HEAD = """# Students

Made by `python bench/distil.py` on {machine}.

Each benchmark is scored on its first dimension by two teachers: the builtin judge, and a simulated sharp judge that
knows the ratings of people (a fifth of their scale makes log-odds of 1.6). The student is that of
`refladder distil`: hashed n-grams and surface measures. The figures are means over five folds of whole contexts;
the student of a fold has learned from the others.

## Agreement

Spearman correlations; "pooled" over all rows, "within" as a mean over contexts. "surface" is the surface measure that
agreed best in the other folds. Error and range are in units of the score: mean absolute error, and the range of the
teacher's scores.

"""
CASCADE = """
## Cascade

The student decides the rows outside of a band around a threshold, the judge the others. The band is the threshold plus
and minus a quantile of the absolute errors in the other folds; `distil` prints that of .9. "saved" is the share of the
judge's calls. "changed" is the share of all rows for which the cascade decides otherwise than the judge alone, then the
share of the rows that the student decides. "somewhere" counts a row if that is so at some threshold of the band.

"""
SPEED = """
## Speed

{rows:,} rows of a benchmark's texts, repeated; rows per second of processor time, so for one core. Reading and
writing of files is not counted.

"""


def lessons_of(name: str, teacher: str, folder: Path) -> Lessons:
    """The rows of a benchmark with the scores of a teacher, and the means of people's ratings."""
    benchmark, qualities = load_benchmark(name, SOURCES[name]), Qualities()
    dimension = benchmark.dimensions[0]
    ladders, _ = build_ladders(Writer(qualities), benchmark.contexts, [dimension], rungs=RUNGS)
    contexts = {context.id: context for context in benchmark.contexts}
    means = human_means(benchmark.ratings)
    outputs = [output for output in benchmark.outputs if (output.id, dimension.name) in means]
    for output in outputs:
        rating = means[output.id, dimension.name]
        quality = (rating - dimension.low) / (dimension.high - dimension.low)
        qualities.setdefault(
            Qualities.key(contexts[output.context_id].text, dimension.name, output.text), quality
        )
    settings = JUDGES[teacher]
    judge = connect("builtin") if settings is None else Simulated(teacher, qualities, settings)
    opened = ladder_set(name, [dimension], benchmark.contexts, ladders)
    scorer = LadderScorer(judge, opened, Scoring())
    path = folder / f"{name}.{teacher}.jsonl"
    with JudgmentLog(None, scorer.run) as log, path.open("w") as stream:
        for start in range(0, len(outputs), BATCH):
            part = outputs[start : start + BATCH]
            items = [Item(Row(output.id, {}), output) for output in part]
            for output, (score,) in zip(part, scorer.score(items, log), strict=True):
                row = {
                    "context_id": output.context_id, "context": contexts[output.context_id].text,
                    "output_id": output.id, "output": output.text, "score": score.value,
                    "people": means[output.id, dimension.name], "signature": score.signature,
                }  # fmt: skip
                stream.write(json.dumps(row) + "\n")
    return read_lessons(
        LabelledTable(source=str(path), by="score", label="people"), Mapped(columns={})
    )


def cross_fitted(
    lessons: Lessons,
) -> tuple[FloatArray, NDArray[np.int64], list[list[HeldOut]], NgramStudent]:
    """Estimates of rows by students of the other folds, the folds, their agreement, and the last student."""
    fold_of = np.random.default_rng(0).permutation(lessons.contexts.max() + 1) % FOLDS
    folds = fold_of[lessons.contexts]
    estimates, tables = np.empty(len(folds)), []
    for fold in range(FOLDS):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        student = fit_ngrams(
            [lessons.texts[row] for row in train], lessons.scores[train], lessons.groups[train]
        )
        low, high = lessons.scores[train].min(), lessons.scores[train].max()
        estimates[test] = np.clip(student.estimate([lessons.texts[row] for row in test]), low, high)
        tables.append(agreement(estimates[test], replace(lessons, held_out=folds == fold)))
    return estimates, folds, tables, student


def mean_of(tables: list[list[HeldOut]], position: int, field: str) -> str:
    values = [getattr(table[position], field) for table in tables]
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.2f}" if known else "—"


def cascade_rows(
    name: str, teacher: str, lessons: Lessons, estimates: FloatArray, folds: NDArray[np.int64]
) -> list[str]:
    """Calls saved and decisions changed, for each threshold and width of the band."""
    lines, errors = [], np.abs(estimates - lessons.scores)
    for threshold_name, quantile in THRESHOLDS.items():
        threshold = float(np.quantile(lessons.scores, quantile))
        for width in WIDTHS:
            half = np.array([np.quantile(errors[folds != fold], width) for fold in range(FOLDS)])[
                folds
            ]
            above, below = estimates > threshold + half, estimates < threshold - half
            changed = (above & (lessons.scores < threshold)) | (
                below & (lessons.scores >= threshold)
            )
            anywhere = (above & (lessons.scores < threshold + half)) | (
                below & (lessons.scores >= threshold - half)
            )
            decided = above | below
            shares = [
                f"{rows.sum() / decided.sum():.1%}" if decided.any() else "—"
                for rows in (changed, anywhere)
            ]
            cells = [
                name,
                teacher,
                threshold_name,
                f"{width:.2f}",
                f"{half.mean():.1f}",
                f"{decided.mean():.1%}",
            ]
            lines.append(f"| {' | '.join([*cells, f'{changed.mean():.1%}', *shares])} |")
    return lines


def speed_rows(name: str, lessons: Lessons, student: NgramStudent) -> list[str]:
    """Rows per second of a student, with and without contexts, and of its training."""
    repeated = [lessons.texts[row % len(lessons.texts)] for row in range(SPEED_ROWS)]
    words = np.mean([len(output.split()) for _, output in repeated])
    lines = []
    for what, texts in (
        ("reads the context", repeated),
        ("reads the output only", [("", t) for _, t in repeated]),
    ):
        started = time.process_time()
        student.estimate(texts)
        rate = len(texts) / (time.process_time() - started)
        lines.append(f"| estimates, {what} | {name} | {words:.0f} | {rate:,.0f} |")
    scores = np.resize(lessons.scores, SPEED_ROWS) + np.random.default_rng(0).normal(
        size=SPEED_ROWS
    )
    started = time.process_time()
    fit_ngrams(repeated, scores, np.arange(SPEED_ROWS) // 16)
    rate = SPEED_ROWS / (time.process_time() - started)
    return [*lines, f"| training, reads the context | {name} | {words:.0f} | {rate:,.0f} |"]


def main() -> None:
    """Run the study and write the page."""
    agreed, cascades, speeds = [], [], []
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for name in SOURCES:
            for teacher in TEACHERS:
                lessons = lessons_of(name, teacher, Path(folder))
                estimates, folds, tables, student = cross_fitted(lessons)
                values = [mean_of(tables, 0, field) for field in ("spearman", "within_spearman")]
                values += [mean_of(tables, 1, field) for field in ("spearman", "within_spearman")]
                values += [f"{mean_of(tables, 0, 'error')} of {np.ptp(lessons.scores):.0f}"]
                values += [mean_of(tables, position, "spearman") for position in (2, 3, 4)]
                agreed.append(f"| {name} | {teacher} | {len(estimates):,} | {' | '.join(values)} |")
                cascades += cascade_rows(name, teacher, lessons, estimates, folds)
                print(agreed[-1], f"({time.perf_counter() - started:.0f} s)", flush=True)
                if teacher == "builtin" and name in {"summeval", "hanna"}:
                    speeds += speed_rows(name, lessons, student)
                    print(*speeds, sep="\n", flush=True)
    text = HEAD.format(machine=f"{platform.machine()}, {platform.system()}")
    text += (
        "| benchmark | teacher | rows | student: pooled | within | surface: pooled | within | error of range | "
        "people: student | teacher | surface |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | "
        "---: |\n"
    )
    text += "\n".join(agreed) + "\n" + CASCADE
    text += "| benchmark | teacher | threshold | quantile | half of the band | saved | changed | of decided | somewhere |\n"
    text += "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    text += "\n".join(cascades) + "\n" + SPEED.format(rows=SPEED_ROWS)
    text += (
        "| what | texts of | words of an output | rows/s of a core |\n| --- | --- | ---: | ---: |\n"
    )
    text += "\n".join([*speeds, "", f"({time.perf_counter() - started:.0f} s)", ""])
    RESULTS.write_text(text)


if __name__ == "__main__":
    main()
