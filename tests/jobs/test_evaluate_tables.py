"""What evaluate gives to papers and programs: records, CSV, and LaTeX with the best value and its equals marked."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest
from scipy.stats import spearmanr

import refladder
from refladder.jobs.evaluate import agreement
from refladder.metaeval.bootstrap import draw_swaps
from refladder.methods.contract import Method
from refladder.methods.surface import BEST, surface_methods

COLUMNS = [
    "method", "benchmark", "level", "statistic", "dimension", "value", "low", "high", "contexts", "skipped", "unscored",
    "calls", "tokens", "seconds",
]  # fmt: skip


def test_csv_is_the_records_of_the_call_with_empty_cells(command):
    line = ("--methods", "g-eval-5,bleu", "--level", "within_context", "--format", "csv")
    done = command("evaluate", "demo/story", *line)
    printed = list(csv.DictReader(io.StringIO(done.out)))
    protocol = refladder.Protocol(
        levels=("within_context",), statistics=("spearman", "kendall", "pearson")
    )
    records = refladder.evaluate("demo/story", methods="g-eval-5,bleu", protocol=protocol).records()
    assert list(printed[0]) == list(records[0]) == COLUMNS
    exact = [name for name in COLUMNS if name != "seconds"]
    as_text = [
        ["" if record[name] is None else str(record[name]) for name in exact] for record in records
    ]
    assert [[row[name] for name in exact] for row in printed] == as_text
    # three methods and three statistics on two dimensions and their mean, and two methods given length
    assert len(printed) == 3 * 3 * 3 + 2 * 3
    bleu = next(
        row for row in printed if row["method"] == "bleu"
    )  # skipped: the stories have no references
    assert (bleu["value"], bleu["low"], bleu["high"], bleu["unscored"]) == ("", "", "", "72")
    judged = next(row for row in printed if row["method"] == "g-eval-5")
    assert (judged["calls"], judged["tokens"], judged["contexts"]) == ("144", "", "12")
    assert float(judged["seconds"]) > 0
    baseline = next(row for row in printed if row["method"].startswith("best of"))
    assert (baseline["calls"], baseline["tokens"], baseline["seconds"]) == ("", "", "")
    assert float(baseline["value"])


def naive_p_values(benchmark, methods, names, swaps):
    """Sign flips of the differences of contexts, one permutation at a time, then Holm, as the papers have them."""
    means = {}
    for rating in benchmark.ratings:
        means.setdefault((rating.output_id, rating.dimension), []).append(rating.value)
    contexts = list(dict.fromkeys(output.context_id for output in benchmark.outputs))
    by_context = {}  # (method, dimension): the correlation of each context
    for name, scores in methods.items():
        for dimension in names:
            by_context[name, dimension] = [
                spearmanr(
                    [
                        scores[output.id, dimension]
                        for output in benchmark.outputs
                        if output.context_id == context
                    ],
                    [
                        float(np.mean(means[output.id, dimension]))
                        for output in benchmark.outputs
                        if output.context_id == context
                    ],
                ).statistic
                for context in contexts
            ]
        by_context[name, "mean"] = np.mean(
            [by_context[name, dimension] for dimension in names], axis=0
        )
    p_values = {}
    for dimension in (*names, "mean"):
        best = max(methods, key=lambda name: np.mean(by_context[name, dimension]))
        for name in methods:
            if name == best:
                continue
            differences = np.array(by_context[name, dimension]) - np.array(
                by_context[best, dimension]
            )
            observed = abs(differences.mean())
            as_far = 1
            for swap in swaps:
                signs = [-1 if swapped else 1 for swapped in swap]
                as_far += abs(np.mean(differences * signs)) >= observed - 1e-12
            p_values[name, dimension] = as_far / (len(swaps) + 1)
    raised, least = {}, 0.0
    for rank, key in enumerate(sorted(p_values, key=p_values.get)):
        least = max(least, p_values[key] * (len(p_values) - rank))
        raised[key] = min(1.0, least)
    return raised


def test_each_method_is_tested_against_the_best_of_its_column():
    story = refladder.load_benchmark("demo/story")
    names = [dimension.name for dimension in story.dimensions]
    draws = np.random.default_rng(5)
    methods = {
        name: {
            (rating.output_id, rating.dimension): rating.value + noise * draws.normal()
            for rating in story.ratings
        }
        for name, noise in (("good", 0.3), ("fair", 0.5), ("noise", 50.0))
    }
    asked = [Method(name=name, signature=name, scores=scores) for name, scores in methods.items()]
    rows = agreement(
        story, story.dimensions, asked, refladder.Protocol(resamples=400, against_best=True)
    )
    found = {(row.method, row.dimension): row.p_best for row in rows if row.p_best is not None}
    (surface,) = surface_methods(story, story.dimensions, {BEST})
    swaps = draw_swaps(len(story.contexts), 400, 0)
    expected = naive_p_values(story, {**methods, BEST: surface.scores}, names, swaps)
    assert found == pytest.approx(expected)
    assert len(found) == 9  # three of four methods in each of three columns
    assert min(found.values()) < 0.05 <= max(found.values())


def test_latex_of_the_command_is_marked_and_narrow(command):
    line = ("evaluate", "demo/story", "--methods", "direct-5,g-eval-5", "--format", "latex")
    full = command(*line).out
    assert r"\label{tab:demo-story-within-context-spearman}" in full
    assert full.count(r"\label{") == len(re.findall(r"\\begin\{table\*?\}", full)) == 5
    assert r"\textbf{0." in full
    assert r"\underline{0." in full
    assert (
        r"\textit{underlined}: not shown to differ from it: p at least 0.05 or no test; paired permutation"
        in full
    )
    bare = command(*line, "--intervals", "none").out.partition(r"\end{table}")[0]
    assert "[" not in bare
    assert r"{\scriptsize [" in command(*line, "--intervals", "small").out


def test_other_formats_have_no_marks(command):
    done = command("evaluate", "demo/story", "--methods", "direct-5", "--format", "markdown")
    assert "bold" not in done.out
    assert "underlined" not in done.out
