"""evaluate: several methods side by side: common contexts, tests that can be significant, and what is said of both."""

from __future__ import annotations

import json

import numpy as np
import pytest

from refladder.jobs.evaluate import Protocol, agreement, few_permutations, narrowed_contexts
from refladder.loaders import load_benchmark
from refladder.metaeval.agreement import human_means
from refladder.methods.contract import Method
from refladder.methods.surface import BEST
from refladder.records import Benchmark, Context, Dimension, Output, Rating

DIMENSIONS = tuple(Dimension(name=name, description="") for name in ("clarity", "wit", "depth"))


def benchmark(contexts=20, systems=6, seed=3):
    generator = np.random.default_rng(seed)
    outputs = tuple(
        Output(id=f"c{c}/s{s}", context_id=f"c{c}", system=f"s{s}", text="word " * int(generator.integers(2, 30)))
        for c in range(contexts)
        for s in range(systems)
    )
    return Benchmark(
        name="made",
        revision="1",
        licence="none",
        dimensions=DIMENSIONS,
        contexts=tuple(Context(id=f"c{c}", task="story", text=f"Idea {c}.") for c in range(contexts)),
        outputs=outputs,
        ratings=tuple(
            Rating(output_id=output.id, dimension=dimension.name, value=float(generator.integers(1, 6)), rater="a")
            for output in outputs
            for dimension in DIMENSIONS
        ),
    )


def noisy(made, name, noise, seed=5):
    generator = np.random.default_rng(seed)
    scores = {key: value + noise * generator.normal() for key, value in human_means(made.ratings).items()}
    return Method(name=name, signature="s", scores=scores)


def protocol(**changes):
    return Protocol(**{"levels": ["within_context"], "statistics": ["spearman"], **changes})


def test_significance_can_be_reached_in_a_large_table():
    made = benchmark()
    methods = [noisy(made, f"m{number}", 0.1, number) for number in range(17)] + [noisy(made, "weak", 20.0)]
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
    assert few_permutations(agreement(made, DIMENSIONS, [noisy(made, "m", 0.5)], protocol()), 5) is None


def test_a_method_is_not_ranked_higher_because_its_hard_contexts_drop_out():
    made = benchmark()
    whole = noisy(made, "whole", 2.0)
    # The same scores, but constant in the ten contexts in which they agree least with the ratings.
    per_context = {}
    for c in range(20):
        pairs = [(whole.scores[f"c{c}/s{s}", "wit"], human_means(made.ratings)[f"c{c}/s{s}", "wit"]) for s in range(6)]
        per_context[c] = np.corrcoef(np.array(pairs).T)[0, 1]
    worst = sorted(per_context, key=per_context.get)[:10]
    gaps = {(f"c{c}/s{s}", "wit"): 0.0 for c in worst for s in range(6)}
    partly = Method(name="partly", signature="s", scores={**whole.scores, **gaps})
    rows = agreement(made, DIMENSIONS[1:2], [whole, partly, Method(name="none", signature="s", scores={})], protocol())
    values = {row.method: row for row in rows if (row.dimension, row.statistic) == ("wit", "spearman")}
    assert values["whole"].value == pytest.approx(values["partly"].value, abs=1e-12)
    counts = {name: (row.contexts, row.correlated) for name, row in values.items()}
    assert counts["whole"] == (10, 20)
    assert counts["partly"] == (10, 10)
    assert counts["none"] == (0, 0)
    assert counts[BEST] == (10, 20)
    assert narrowed_contexts(rows, ["whole", "partly", "none"]) == [
        "made, wit: methods are compared on the 10 of 20 contexts in which each has a correlation; fewest: partly in 10"
    ]
    alone = agreement(made, DIMENSIONS[1:2], [whole], protocol())
    assert narrowed_contexts(alone, ["whole"]) == []
    assert next(row for row in alone if row.dimension == "wit").contexts == 20


def test_no_method_has_every_context():
    made = benchmark(contexts=4)
    first, second = dict(noisy(made, "first", 1.0).scores), dict(noisy(made, "second", 1.0).scores)
    first.update({(f"c0/s{s}", "wit"): None for s in range(6)})
    second.update({(f"c1/s{s}", "wit"): None for s in range(6)})
    methods = [Method(name=name, signature="s", scores=scores) for name, scores in (("a", first), ("b", second))]
    rows = agreement(made, DIMENSIONS[1:2], methods, protocol())
    assert narrowed_contexts(rows, ["a", "b"]) == [
        "made, wit: methods are compared on the 2 of 4 contexts in which each has a correlation; fewest: a in 3, b in 3"
    ]


def test_the_command_says_both(command, tmp_path):
    story = load_benchmark("demo/story")
    first = story.contexts[0].id
    path = tmp_path / "partly.jsonl"
    lines = [{"output_id": o.id, "score": None if o.context_id == first else len(o.text)} for o in story.outputs]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--scores", path, "--judge", "builtin", "--reference", "partly", "--resamples", "20")
    done = command("evaluate", "demo/story", *options)
    assert done.code == 3
    assert (
        "demo/story, coherence: methods are compared on the 11 of 12 contexts in which each has a correlation; fewest: "
        "partly in 11\n"
    ) in done.err
    assert "--resamples 20 is few for 2 corrected tests: no corrected p-value can be below 0.095; give at" in done.err
    assert "11 of 12" in done.out


def test_methods_without_a_common_context(command, tmp_path):
    story = load_benchmark("demo/story")
    half = {context.id for context in story.contexts[:6]}
    options = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}.jsonl"
        lines = [
            {"output_id": o.id, "score": len(o.text) if (o.context_id in half) == (name == "first") else None}
            for o in story.outputs
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        options += ["--scores", path]
    done = command("evaluate", "demo/story", *options)
    assert done.code == 3
    assert done.err == "".join(
        f"demo/story, {name}: methods are compared on the 0 of 12 contexts in which each has a correlation; fewest: "
        "first in 6, second in 6\n"
        for name in ("coherence", "complexity")
    )
    assert "0 of 6" in done.out


def test_baselines_alone():
    made = benchmark()
    rows = agreement(made, DIMENSIONS, [], protocol())
    assert {row.method for row in rows} == {BEST}
    assert {(row.contexts, row.correlated) for row in rows} == {(20, None)}
