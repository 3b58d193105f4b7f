"""evaluate: several methods side by side: own and common contexts, tests that can be significant, and the messages."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from refladder.jobs.evaluate import Protocol, agreement, few_permutations
from refladder.loaders import load_benchmark
from refladder.metaeval import LEVELS
from refladder.metaeval.agreement import human_means
from refladder.methods.contract import Method
from refladder.methods.surface import BEST
from refladder.records import Benchmark, Context, Dimension, Output, Rating

DIMENSIONS = tuple(Dimension(name=name, description="") for name in ("clarity", "wit", "depth"))


def benchmark(contexts=20, systems=6, seed=3):
    generator = np.random.default_rng(seed)
    outputs = tuple(
        Output(
            id=f"c{c}/s{s}",
            context_id=f"c{c}",
            system=f"s{s}",
            text="word " * int(generator.integers(2, 30)),
        )
        for c in range(contexts)
        for s in range(systems)
    )
    return Benchmark(
        name="made",
        revision="1",
        licence="none",
        dimensions=DIMENSIONS,
        contexts=tuple(
            Context(id=f"c{c}", task="story", text=f"Idea {c}.") for c in range(contexts)
        ),
        outputs=outputs,
        ratings=tuple(
            Rating(
                output_id=output.id,
                dimension=dimension.name,
                value=float(generator.integers(1, 6)),
                rater="a",
            )
            for output in outputs
            for dimension in DIMENSIONS
        ),
    )


def noisy(made, name, noise, seed=5):
    generator = np.random.default_rng(seed)
    scores = {
        key: value + noise * generator.normal() for key, value in human_means(made.ratings).items()
    }
    return Method(name=name, signature="s", scores=scores)


def protocol(**changes):
    return Protocol(**{"levels": ["within_context"], "statistics": ["spearman"], **changes})


def test_significance_can_be_reached_in_a_large_table():
    made = benchmark()
    methods = [noisy(made, f"m{number}", 0.1, number) for number in range(17)] + [
        noisy(made, "weak", 20.0)
    ]
    rows = agreement(made, DIMENSIONS, methods, protocol(reference="weak"))
    tested = [row for row in rows if row.p_adjusted is not None]
    assert len(tested) == 17 * 3  # neither the baselines nor the means
    assert {row.method for row in tested} == {f"m{number}" for number in range(17)}
    assert {row.dimension for row in tested} == {"clarity", "wit", "depth"}
    assert max(row.p_adjusted for row in tested) < 0.05
    assert few_permutations(rows, 20400) is None
    assert few_permutations(rows, 1000) == (
        "--resamples 1000 is few for 51 corrected tests: no corrected p-value can be below 0.051; give at least 20400, "
        "or leave --resamples out"
    )
    fixed = agreement(made, DIMENSIONS, methods, protocol(reference="weak", resamples=1000))
    assert min(row.p_adjusted for row in fixed if row.p_adjusted is not None) > 0.05


def test_a_baseline_as_the_reference_tests_the_methods_asked_for():
    made = benchmark()
    rows = agreement(made, DIMENSIONS, [noisy(made, "m", 0.5)], protocol(reference="length"))
    assert {row.method for row in rows if row.p_value is not None} == {"m"}
    assert (
        few_permutations(agreement(made, DIMENSIONS, [noisy(made, "m", 0.5)], protocol()), 5)
        is None
    )


@pytest.mark.parametrize("level", LEVELS)
def test_a_figure_does_not_depend_on_the_other_methods(level):
    made = benchmark()
    whole = noisy(made, "whole", 2.0)
    gaps = {
        (f"c{c}/s{s}", "wit"): 0.0 for c in range(10) for s in range(6)
    }  # constant: no correlation in ten contexts
    partly = Method(
        name="partly", signature="s", scores={**noisy(made, "partly", 1.0, 6).scores, **gaps}
    )
    none = Method(name="none", signature="s", scores={})
    asked = protocol(levels=[level])
    alone = {
        method.name: [
            row for row in agreement(made, DIMENSIONS, [method], asked) if row.method == method.name
        ]
        for method in (whole, partly, none)
    }
    assert all(row.value is not None for row in alone["whole"])
    for methods in ([whole, partly], [none, whole], [partly, none, whole]):
        rows = agreement(made, DIMENSIONS, methods, asked)
        for method in methods:
            assert [row for row in rows if row.method == method.name] == alone[method.name]


def test_a_difference_is_on_the_contexts_that_both_methods_have():
    made = benchmark()
    first, second = noisy(made, "first", 2.0), noisy(made, "second", 1.0, 6)
    scores = {**first.scores, **{(f"c{c}/s{s}", "wit"): 0.0 for c in range(8) for s in range(6)}}
    less = {key: value for key, value in second.scores.items() if not key[0].startswith("c19/")}
    methods = [replace(first, scores=scores), replace(second, scores=less)]
    rows = agreement(made, DIMENSIONS[1:2], methods, protocol(reference="second"))
    row = next(row for row in rows if (row.method, row.dimension) == ("first", "wit"))
    human = human_means(made.ratings)

    def by_hand(values, contexts):
        keys = [[(f"c{c}/s{s}", "wit") for s in range(6)] for c in contexts]
        pairs = [
            ([values[key] for key in of_context], [human[key] for key in of_context])
            for of_context in keys
        ]
        return np.mean([stats.spearmanr(*pair)[0] for pair in pairs])

    # first has a correlation in the contexts 8 to 19, second in 0 to 18; both have one in 8 to 18
    assert (row.contexts, row.common) == (12, 11)
    assert row.value == pytest.approx(by_hand(scores, range(8, 20)), abs=1e-12)
    both = by_hand(scores, range(8, 19)) - by_hand(less, range(8, 19))
    assert row.difference == pytest.approx(both, abs=1e-12)


def test_the_command_shows_differences_in_their_own_table(command, tmp_path):
    story = load_benchmark("demo/story")
    first = story.contexts[0].id
    path = tmp_path / "partly.jsonl"
    lines = [
        {"output_id": o.id, "score": None if o.context_id == first else len(o.text)}
        for o in story.outputs
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--scores", path, "--judge", "builtin", "--reference", "partly", "--resamples", "20")
    done = command("evaluate", "demo/story", *options, "--format", "markdown")
    assert done.code == 3
    assert (
        "--resamples 20 is few for 2 corrected tests: no corrected p-value can be below 0.095; give at"
        in done.err
    )
    assert (
        "- contexts: contexts that the value is computed from; methods may differ in them, and --reference METHOD "
        "compares methods on common ones\n"
    ) in done.out
    heads = "\n\n| method | coherence | complexity | mean | common contexts |\n"
    assert f"demo/story, within_context: Spearman, the method minus partly{heads}" in done.out
    table = done.out.partition(heads)[2]
    assert table.splitlines()[1].startswith("| ladder | ")
    assert table.splitlines()[1].endswith(" | 11 |")
    assert (
        "- common contexts: contexts in which both have a correlation; the difference is computed from them"
        in table
    )


def test_methods_without_a_common_context(command, tmp_path):
    story = load_benchmark("demo/story")
    half = {context.id for context in story.contexts[:6]}
    options = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}.jsonl"
        lines = [
            {
                "output_id": o.id,
                "score": len(o.text) if (o.context_id in half) == (name == "first") else None,
            }
            for o in story.outputs
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        options += ["--scores", path]
    done = command("evaluate", "demo/story", *options, "--reference", "first", "--format", "json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    found = {
        (row["method"], row["statistic"]): row
        for row in rows
        if row.get("dimension") == "coherence"
    }
    second = found["second", "spearman"]
    assert second["value"] is not None
    assert (second["contexts"], second["common"], second["difference"], second["p_value"]) == (
        6,
        0,
        None,
        None,
    )
    done = command(
        "evaluate", "demo/story", *options, "--reference", "first", "--format", "markdown"
    )
    assert "| second | — | — | — | 0 |" in done.out


def test_baselines_alone():
    made = benchmark()
    rows = agreement(made, DIMENSIONS, [], protocol())
    assert {row.method for row in rows} == {BEST}
    assert {(row.contexts, row.common) for row in rows} == {(20, None)}
