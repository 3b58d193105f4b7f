"""The surface measures in tables of agreement: one row by default, all of them when asked for."""

from __future__ import annotations

import pytest

from refladder.loaders import load_benchmark
from refladder.methods.surface import BEST, MEASURES, surface_methods

QUICK = ("--resamples", "5", "--json")


def names(done):
    return list(dict.fromkeys(row["method"] for row in done.rows))


def test_one_row_by_default(command):
    done = command("evaluate", "demo/story", *QUICK)
    assert names(done) == ["ladder", "best of the surface measures"]
    text = command("evaluate", "demo/story", "--resamples", "5", "--format", "markdown").out
    assert "| best of the surface measures | " in text
    assert "| length |" not in text


def test_all_of_them(command):
    done = command("evaluate", "demo/story", *QUICK, "--baselines", "all")
    assert names(done) == ["ladder", BEST, *MEASURES]
    levels = {
        (row["level"], row["statistic"])
        for row in done.rows
        if row["method"] == BEST and row["value"] is not None
    }
    assert len(levels) == 9  # three levels, three statistics


def test_a_reference_is_shown_too(command):
    done = command(
        "evaluate", "demo/story", *QUICK, "--reference", "length", "--level", "within_context"
    )
    assert names(done) == ["ladder", BEST, "length"]
    assert {row["reference"] for row in done.rows if row["statistic"] == "spearman"} == {
        "length",
        None,
    }
    done = command(
        "evaluate", "demo/story", *QUICK, "--reference", BEST, "--level", "within_context"
    )
    assert any(row["p_value"] is not None for row in done.rows)


def test_each_context_has_the_measure_that_is_best_on_the_others(command):
    """The value of a context is that of the measure named for it; within a context scaling changes no rank."""
    dialogue = load_benchmark("demo/dialogue")
    best, *single = surface_methods(dialogue, dialogue.dimensions, [BEST, *MEASURES])
    assert best.name == BEST
    by_name = {method.name: method.scores for method in single}
    for context in dialogue.contexts:
        outputs = [output.id for output in dialogue.outputs if output.context_id == context.id]
        order = [best.scores[output, "engagingness"] for output in outputs]
        same = [
            name
            for name, scores in by_name.items()
            if [order.index(v) for v in order]
            == _first_places([scores[output, "engagingness"] for output in outputs])
            and sorted(range(len(outputs)), key=lambda k: (order[k], k))
            == sorted(range(len(outputs)), key=lambda k: (scores[outputs[k], "engagingness"], k))
        ]
        assert same
    # 14 contexts; the signature says how often each measure was chosen
    assert best.signature.startswith("surface:best(engagingness=")
    counts = best.signature.partition("=")[2].partition(")")[0].split("+")
    assert sum(int(part.rpartition("*")[2]) for part in counts) == 14
    rows = command("evaluate", "demo/dialogue", *QUICK).rows
    assert {row["signature"] for row in rows if row["method"] == BEST} == {best.signature}


def _first_places(values):
    return [values.index(value) for value in values]


@pytest.mark.parametrize("name", [BEST, *MEASURES])
def test_the_names_are_taken(fails, tmp_path, name):
    if "/" in name:
        pytest.skip("no file can have this name")
    path = tmp_path / f"{name}.csv"
    outputs = load_benchmark("demo/story").outputs
    path.write_text(
        "output_id,score\n" + "".join(f"{output.id},{len(output.text)}\n" for output in outputs)
    )
    assert fails(2, "evaluate", "demo/story", "--scores", path) == (
        f"refladder: two methods are called {name!r}; rename the file of scores that has this name\n"
    )
