"""evaluate: rows, tables and folders, own and common contexts, tests that can be significant, and the messages."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import sys
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from doubles import Double
from evaluating import evaluate
from scipy.stats import spearmanr

import refladder
from refladder.backends.builtin.backend import Builtin
from refladder.errors import UnknownNameError, UsageError
from refladder.evaluation.evaluate import agreement, few_permutations
from refladder.evaluation.results import Evaluations
from refladder.files.ladder_sets import load_ladders
from refladder.files.outputs import RunConfig
from refladder.loaders import load_benchmark
from refladder.methods.contract import Method
from refladder.methods.ladder import ladders_for
from refladder.methods.surface import BEST, MEASURES, surface_methods
from refladder.records import Benchmark, Context, Dimension, Output, Rating
from refladder.statistics import LEVELS
from refladder.statistics.agreement import human_means
from refladder.statistics.bootstrap import draw_swaps

STATISTICS = ("spearman", "kendall", "pearson")
KEYS = {
    "method", "benchmark", "dimension", "level", "statistic", "value", "low", "high", "contexts", "skipped",
    "unscored", "signature",
}  # fmt: skip
COLUMNS = [
    "method", "benchmark", "level", "statistic", "dimension", "value", "low", "high", "contexts", "skipped", "unscored",
    "calls", "tokens", "seconds",
]  # fmt: skip
STORY = load_benchmark("demo/story")
ON_STORY = "evaluate demo/story --resamples 20"
QUICK = refladder.Protocol(resamples=20)


def methods_of(done):
    return list(dict.fromkeys(row["method"] for row in done.rows))


def test_rows_for_programs(command):
    done = command(f"{ON_STORY} --baselines all --json")
    assert done.code == 0
    assert all(set(row) >= KEYS for row in done.rows)
    methods = ["ladder", BEST, *MEASURES]
    assert methods_of(done) == methods
    # every method, 2 dimensions and perhaps their mean, 3 levels, 3 statistics, the ladder's partial correlation
    found = {tuple(row[key] for key in ("method", "dimension", "level", "statistic")) for row in done.rows}  # fmt: skip
    dimensions = ("coherence", "complexity")
    assert found >= {*itertools.product(methods, dimensions, LEVELS, STATISTICS)}
    of_best = [row for row in done.rows if row["method"] == BEST and row["value"] is not None]
    assert len({(row["level"], row["statistic"]) for row in of_best}) == 9
    ladder = next(row for row in done.rows if row["level"] == "within_context")
    counts = {"benchmark": "demo/story", "contexts": 12, "skipped": 0, "unscored": 0}
    assert ladder.items() >= counts.items()
    assert ladder["low"] <= ladder["value"] <= ladder["high"]
    assert ladder["signature"].startswith("ladders:demo/story@")


@pytest.mark.parametrize(
    ("form", "mark"), [("text", "within"), ("markdown", "| --- |"), ("latex", "\\begin{tabular}")]
)
def test_tables_for_people(command, form, mark):
    done = command(f"evaluate demo/dialogue --resamples 20 --format {form}")
    assert done.code == 0
    assert mark in done.out
    assert "best of the surface measures" in done.out
    assert "| length |" not in done.out
    if form != "latex":  # which alone marks the best value and its equals
        assert "bold" not in done.out
        assert "underlined" not in done.out


def test_a_result_gives_the_tables_of_the_command_its_latex_and_a_frame(command, monkeypatch):
    one = "evaluate demo/story --methods direct-5,g-eval-5 --level within_context --statistic spearman"
    several = "evaluate demo/story demo/dialogue --level within_context --statistic spearman"
    monkeypatch.setenv("COLUMNS", "100")
    levels = {"levels": ("within_context",), "statistics": ("spearman",)}
    protocol = refladder.Protocol(**levels, against_best=True)
    plain = refladder.Protocol(**levels)
    for line, data, methods in (
        (one, "demo/story", "direct-5,g-eval-5"),
        (several, ["demo/story", "demo/dialogue"], None),
    ):
        text = refladder.evaluate(data, methods=methods, protocol=plain).table()
        printed = "\n".join(map(str.rstrip, command(line).out.splitlines()))
        assert printed.startswith(text)
        found = refladder.evaluate(data, methods=methods, protocol=protocol)
        for intervals in ("full", "none"):
            printed = command(f"{line} --format latex --intervals {intervals}").out
            assert printed.startswith(found.to_latex(intervals).rstrip())
        assert found.to_frame().to_dict("records")[0]["method"] == found.records()[0]["method"]
        assert len(found.to_frame()) == len(found.records())
    with pytest.raises(UnknownNameError, match="unknown intervals 'large'"):
        found.to_latex("large")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="a frame needs the package pandas; pip install pandas"):
        found.to_frame()


def test_latex_marks_the_best_values_and_those_not_shown_to_differ(command):
    line = "evaluate demo/story --methods direct-5,g-eval-5 --format latex"
    full = command(line).out
    assert r"\label{tab:demo-story-within-context-spearman}" in full
    assert full.count(r"\label{") == len(re.findall(r"\\begin\{table\*?\}", full)) == 5
    assert r"\textbf{0." in full
    assert r"\underline{0." in full
    legend = "not shown to differ from it: p at least 0.05 or no test; paired permutation"
    assert rf"\textit{{underlined}}: {legend}" in full
    bare = command(f"{line} --intervals none").out.partition(r"\end{table}")[0]
    assert "[" not in bare
    assert r"{\scriptsize [" in command(f"{line} --intervals small").out


def test_csv_is_the_records_of_the_call_with_empty_cells(command):
    line = "evaluate demo/story --methods g-eval-5,bleu --level within_context --format csv"
    printed = list(csv.DictReader(io.StringIO(command(line).out)))
    protocol = refladder.Protocol(levels=("within_context",), statistics=STATISTICS)
    records = refladder.evaluate("demo/story", methods="g-eval-5,bleu", protocol=protocol).records()
    assert list(printed[0]) == list(records[0]) == COLUMNS
    exact = COLUMNS[:-1]  # without the seconds
    assert [[row[name] for name in exact] for row in printed] == [
        ["" if record[name] is None else str(record[name]) for name in exact] for record in records
    ]
    # three methods and three statistics on two dimensions and their mean, and two methods given length
    assert len(printed) == 3 * 3 * 3 + 2 * 3
    bleu, judged, baseline = (
        next(row for row in printed if row["method"] == name) for name in ("bleu", "g-eval-5", BEST)
    )
    # skipped: the stories have no references
    assert (bleu["value"], bleu["low"], bleu["high"], bleu["unscored"]) == ("", "", "", "72")
    assert (judged["calls"], judged["tokens"], judged["contexts"]) == ("144", "", "12")
    assert float(judged["seconds"]) > 0
    assert (baseline["calls"], baseline["tokens"], baseline["seconds"]) == ("", "", "")
    assert float(baseline["value"])


def test_csv_hides_a_secret_in_its_cell_and_keeps_the_next_cells(command, monkeypatch):
    names = {
        "method": "http://gpu1:8000",
        "benchmark": "s3://user:PASSWORD@bucket/x",
        "level": "a@b",
    }
    monkeypatch.setattr(Evaluations, "records", lambda _: [names])
    printed = command("evaluate demo/story --resamples 20 --format csv").out
    assert printed.splitlines()[1] == "http://gpu1:8000,s3://***@bucket/x,a@b"


def test_a_reference_is_shown_and_tested_against(command):
    line = f"{ON_STORY} --level within_context --json --reference"
    done = command(f"{line} length")
    assert methods_of(done) == ["ladder", BEST, "length"]
    references = {row["reference"] for row in done.rows if row["statistic"] == "spearman"}
    assert references == {"length", None}
    done = command(*line.split(), BEST)
    assert any(row["p_value"] is not None for row in done.rows)


def test_each_context_has_the_measure_that_is_best_on_the_others(command):
    """The value of a context is that of the measure named for it; within a context scaling changes no rank."""
    dialogue = load_benchmark("demo/dialogue")
    best, *single = surface_methods(dialogue, dialogue.dimensions, [BEST, *MEASURES])
    assert best.name == BEST
    for context in dialogue.contexts:
        outputs = [output.id for output in dialogue.outputs if output.context_id == context.id]

        def ranks(method, outputs=outputs):
            values = [method.scores[output, "engagingness"] for output in outputs]
            return [sorted(values).index(value) for value in values]

        assert ranks(best) in [ranks(method) for method in single]
    # 14 contexts; the signature says how often each measure was chosen
    assert best.signature.startswith("surface:best(engagingness=")
    counts = best.signature.partition("=")[2].partition(")")[0].split("+")
    assert sum(int(part.rpartition("*")[2]) for part in counts) == 14
    rows = command("evaluate demo/dialogue --resamples 20 --json").rows
    assert {row["signature"] for row in rows if row["method"] == BEST} == {best.signature}


class NeverAsked(Double):
    fingerprint = "never-asked"

    def read_labels(self, _prompts, _labels):
        raise AssertionError("asked to judge")


class NeverOpened(NeverAsked):
    def load(self):
        raise AssertionError("opened")


def test_one_call_gives_rows_runs_cards_notes_and_costs(tmp_path):
    settings = refladder.MethodSettings(ladders="demo/story", work=tmp_path / "work")
    how = {"methods": ["ladder", "bleu"], "settings": settings, "config": RunConfig(command="a")}
    evaluation = evaluate(STORY, judge=refladder.connect("builtin"), **how)
    assert list(dict.fromkeys(row.method for row in evaluation.rows)) == ["ladder", "bleu", BEST]
    assert [run.name for run in evaluation.runs] == ["ladder", "bleu"]
    cards = {card.dimension for card in evaluation.cards if card.method == "ladder"}
    assert cards == {"all", "coherence", "complexity"}
    scores = evaluation.runs[0].result.method.scores
    names = [dimension.name for dimension in STORY.dimensions]
    assert scores.keys() == {(output.id, name) for output in STORY.outputs for name in names}
    # the stories have no references
    assert [note.partition(":")[0] for note in evaluation.notes] == ["bleu"]
    assert not evaluation.complete
    run = json.loads((tmp_path / "work" / "run.json").read_text())
    assert run.keys() == {"command", "refladder", "options", "judge_check"}
    with pytest.raises(FrozenInstanceError):
        evaluation.rows = ()


def test_the_call_leaves_the_results_of_the_command_for_review(command, tmp_path):
    typed, called = tmp_path / "typed", tmp_path / "called"
    command(f"{ON_STORY} --ladders demo/story --statistic kendall --work {typed}")
    protocol = replace(QUICK, statistics=("kendall",))
    refladder.evaluate("demo/story", ladders="demo/story", protocol=protocol, work=called)
    results = [
        [
            line
            for line in map(json.loads, (folder / "results.jsonl").read_text().splitlines())
            if "what each method needed" not in line.get("caption", "")  # the seconds of the run
        ]
        for folder in (typed, called)
    ]
    assert results[0] == results[1]
    assert {line["kind"] for line in results[0]} >= {"row", "text", "rating", "score", "table"}


def test_a_work_folder_answers_the_second_time(command, tmp_path):
    work = tmp_path / "work"
    line = f"evaluate demo/dialogue --resamples 20 --work {work}"
    first = command(f"{line} --json")
    kept = {path.name: path.read_bytes() for path in work.iterdir()}
    assert {"build.journal.jsonl", "judgments.jsonl", "run.json"} <= set(kept)
    assert command(f"{line} --json").out == first.out
    # 84 outputs, 5 rungs
    assert "420 judgments (420 reused, 0 unparsed)" in command(line).err
    assert (work / "judgments.jsonl").read_bytes() == kept["judgments.jsonl"]


def test_outputs_of_one_context_are_judged_together():
    asked = []

    class Noting(Builtin):
        def read_labels_each(self, prompts, labels):
            asked.extend(prompt.slots["context"] for prompt in prompts)
            return super().read_labels_each(prompts, labels)

    dialogue = load_benchmark("demo/dialogue")
    shuffled = dialogue.outputs[::2] + dialogue.outputs[1::2]
    settings = refladder.MethodSettings(ladders="demo/dialogue")
    evaluate(replace(dialogue, outputs=shuffled), judge=Noting(), settings=settings)
    rows = asked[: 5 * len(dialogue.dimensions) * len(dialogue.outputs)]  # the judge check follows
    together = [context for context, _ in itertools.groupby(rows)]
    assert len(together) == len(set(together)) == len(dialogue.contexts)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"methods": ["laddr"]}, UnknownNameError, "unknown method 'laddr'; did you mean 'ladder'"),

        ({"dimensions": []}, UsageError, "demo/story has no ratings on "),
        ({"benchmark": replace(STORY, ratings=())}, UsageError, "demo/story has no ratings on coherence, complexity"),
        ({"protocol": replace(QUICK, reference="lenght")}, UnknownNameError, "unknown reference method 'lenght'"),
        ({"settings": refladder.MethodSettings(options={"zepo.steps": "1"})}, UnknownNameError,
         "unknown method of this run 'zepo'"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused_before_the_judge_is_opened(how, error, message):
    how = {"benchmark": STORY, "judge": NeverOpened(), **how}
    with pytest.raises(error, match=message):
        evaluate(how.pop("benchmark"), **how)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("levels", ("within",), "unknown level 'within'"),
        ("levels", (), "a protocol needs one level and one statistic or more; name them"),
        ("statistics", ("spearmann",), "unknown statistic 'spearmann'; did you mean 'spearman'"),
        ("constant", "two", "unknown convention for constant contexts 'two'"),
        ("baselines", "none", "unknown choice of baselines 'none'"),
        ("resamples", 0, "0 permutations; a test needs 1 or more"),
    ],
)
def test_a_protocol_is_checked_when_it_is_made(field, value, message):
    with pytest.raises(UsageError, match=message):
        refladder.Protocol(**{field: value})


def test_templates_are_checked_before_the_data_are_read(fails):
    wanted = "absent: the folder of prompt templates does not exist"
    assert wanted in fails(2, "evaluate summeval --source absent.jsonl --prompts absent")


def test_ladders_of_another_task_or_another_text(command, fails):
    done = command(f"{ON_STORY} --ladders demo/story --json")
    assert done.code == 0
    assert "ladders:demo/story@" in done.rows[0]["signature"]
    assert fails(2, "evaluate demo/story --ladders demo/dialogue") == (
        "refladder: the ladders of demo/dialogue are of task 'dialogue', and demo/story is of 'story'; name ladders of "
        "that task with --ladders\n"
    )
    assert fails(2, "evaluate demo/story --ladders demo/story --writer builtin") == (
        "refladder: --ladders names ladders that exist, and --writer writes new ones; give one of them\n"
    )
    opened, (first, *others) = load_ladders("demo/story"), STORY.contexts
    other = replace(STORY, contexts=(replace(first, text="Another idea."), *others))
    another = "context 'story-01' has another text in demo/story than in demo/story; the ladders were written for other"
    with pytest.raises(UsageError, match=another):
        ladders_for(other, STORY.dimensions, opened)
    bare = ladders_for(STORY, STORY.dimensions, replace(opened, contexts={}))
    assert bare.contexts == {context.id: context for context in STORY.contexts}


DIMENSIONS = tuple(Dimension(name=name, description="") for name in ("clarity", "wit", "depth"))


def made():
    """A benchmark of 20 contexts and 6 systems with random ratings."""
    random = np.random.default_rng(3)
    ids = [(f"c{context}", f"s{system}") for context in range(20) for system in range(6)]
    texts = {pair: "word " * int(random.integers(2, 30)) for pair in ids}
    outputs = tuple(
        Output(id=f"{c}/{s}", context_id=c, system=s, text=text) for (c, s), text in texts.items()
    )
    ratings = tuple(
        Rating(output_id=output.id, dimension=dimension.name, value=float(random.integers(1, 6)), rater="a")
        for output in outputs for dimension in DIMENSIONS
    )  # fmt: skip
    contexts = tuple(Context(id=f"c{c}", task="story", text=f"Idea {c}.") for c in range(20))
    return Benchmark(
        name="made", revision="1", licence="none", dimensions=DIMENSIONS, contexts=contexts, outputs=outputs,
        ratings=ratings,
    )  # fmt: skip


MADE = made()
HUMAN = human_means(MADE.ratings)


def noisy(name, noise, seed=5):
    random = np.random.default_rng(seed)
    scores = {key: value + noise * random.normal() for key, value in HUMAN.items()}
    return Method(name=name, signature="s", scores=scores)


def rows_of(methods, dimensions=DIMENSIONS, **protocol):
    return agreement(MADE, dimensions, methods, refladder.Protocol(**protocol))


def test_significance_can_be_reached_in_a_large_table():
    names = [f"m{number}" for number in range(6)]
    methods = [noisy(name, 0.1, number) for number, name in enumerate(names)]
    methods.append(noisy("weak", 20.0))
    rows = rows_of(methods, reference="weak")
    tested = [row for row in rows if row.p_adjusted is not None]
    assert len(tested) == 6 * 3  # neither the baselines nor the means
    assert {row.method for row in tested} == set(names)
    assert {row.dimension for row in tested} == {"clarity", "wit", "depth"}
    assert max(row.p_adjusted for row in tested) < 0.05
    assert few_permutations(rows, 7200) is None
    assert few_permutations(rows, 300) == (
        "--resamples 300 is few for 18 corrected tests: no corrected p-value can be below 0.06; give at least 7200, "
        "or leave --resamples out"
    )
    fixed = rows_of(methods, reference="weak", resamples=300)
    assert min(row.p_adjusted for row in fixed if row.p_adjusted is not None) > 0.05


def test_a_baseline_as_the_reference_tests_the_methods_asked_for():
    rows = rows_of([noisy("m", 0.5)], reference="length")
    assert {row.method for row in rows if row.p_value is not None} == {"m"}
    assert few_permutations(rows_of([noisy("m", 0.5)]), 5) is None
    alone = rows_of([])
    assert {row.method for row in alone} == {BEST}
    assert {(row.contexts, row.common) for row in alone} == {(20, None)}


def constant_in(contexts):
    """Scores on wit that have no correlation in these contexts."""
    return {(f"c{c}/s{s}", "wit"): 0.0 for c in contexts for s in range(6)}


@pytest.mark.parametrize("level", LEVELS)
def test_a_figure_does_not_depend_on_the_other_methods(level):
    whole, partly = noisy("whole", 2.0), noisy("partly", 1.0, 6)
    partly = replace(partly, scores={**partly.scores, **constant_in(range(10))})
    none = Method(name="none", signature="s", scores={})

    def of(method, methods):
        rows = rows_of(methods, levels=[level])
        return [row for row in rows if row.method == method.name]

    alone = {method.name: of(method, [method]) for method in (whole, partly, none)}
    assert all(row.value is not None for row in alone["whole"])
    for methods in ([whole, partly], [none, whole], [partly, none, whole]):
        for method in methods:
            assert of(method, methods) == alone[method.name]


def test_a_difference_is_on_the_contexts_that_both_methods_have():
    first, second = noisy("first", 2.0), noisy("second", 1.0, 6)
    scores = {**first.scores, **constant_in(range(8))}
    less = {key: value for key, value in second.scores.items() if not key[0].startswith("c19/")}
    methods = [replace(first, scores=scores), replace(second, scores=less)]
    rows = rows_of(methods, DIMENSIONS[1:2], reference="second")
    row = next(row for row in rows if (row.method, row.dimension) == ("first", "wit"))

    def by_hand(values, contexts):
        keys = [[(f"c{c}/s{s}", "wit") for s in range(6)] for c in contexts]
        return np.mean([spearmanr([values[k] for k in each], [HUMAN[k] for k in each])[0] for each in keys])  # fmt: skip

    # first has a correlation in the contexts 8 to 19, second in 0 to 18; both have one in 8 to 18
    assert (row.contexts, row.common) == (12, 11)
    assert row.value == pytest.approx(by_hand(scores, range(8, 20)), abs=1e-12)
    both = by_hand(scores, range(8, 19)) - by_hand(less, range(8, 19))
    assert row.difference == pytest.approx(both, abs=1e-12)


def naive_p_values(benchmark, methods, names, swaps):
    """Sign flips of the differences of contexts, one permutation at a time, then Holm, as the papers have them."""
    human = human_means(benchmark.ratings)
    outputs = {}
    for output in benchmark.outputs:
        outputs.setdefault(output.context_id, []).append(output.id)

    def correlation(scores, ids, name):
        return spearmanr([scores[i, name] for i in ids], [human[i, name] for i in ids]).statistic

    by_context = {  # the correlation of each context
        (method, name): np.array([correlation(scores, ids, name) for ids in outputs.values()])
        for method, scores in methods.items()
        for name in names
    }
    for method in methods:
        by_context[method, "mean"] = np.mean([by_context[method, name] for name in names], axis=0)
    p_values = {}
    for dimension in (*names, "mean"):
        best = max(methods, key=lambda method: by_context[method, dimension].mean())
        for method in methods.keys() - {best}:
            differences = by_context[method, dimension] - by_context[best, dimension]
            observed, as_far = abs(differences.mean()), 1
            for swap in swaps:
                signs = [-1 if swapped else 1 for swapped in swap]
                as_far += abs(np.mean(differences * signs)) >= observed - 1e-12
            p_values[method, dimension] = as_far / (len(swaps) + 1)
    raised, least = {}, 0.0
    for rank, key in enumerate(sorted(p_values, key=p_values.get)):
        least = max(least, p_values[key] * (len(p_values) - rank))
        raised[key] = min(1.0, least)
    return raised


def test_each_method_is_tested_against_the_best_of_its_column():
    draws = np.random.default_rng(5)
    human = {(rating.output_id, rating.dimension): rating.value for rating in STORY.ratings}
    methods = {
        name: {key: value + noise * draws.normal() for key, value in human.items()}
        for name, noise in (("good", 0.3), ("fair", 0.5), ("noise", 50.0))
    }
    asked = [Method(name=name, signature=name, scores=scores) for name, scores in methods.items()]
    protocol = refladder.Protocol(resamples=400, against_best=True)
    rows = agreement(STORY, STORY.dimensions, asked, protocol)
    found = {(row.method, row.dimension): row.p_best for row in rows if row.p_best is not None}
    (surface,) = surface_methods(STORY, STORY.dimensions, {BEST})
    names = [dimension.name for dimension in STORY.dimensions]
    swaps = draw_swaps(len(STORY.contexts), 400, 0)
    expected = naive_p_values(STORY, {**methods, BEST: surface.scores}, names, swaps)
    assert found == pytest.approx(expected)
    assert len(found) == 9  # three of four methods in each of three columns
    assert min(found.values()) < 0.05 <= max(found.values())


@pytest.fixture
def scores_in(write_jsonl):
    """A file of scores: the length of an output, None where a condition on its context is false."""

    def write(name, scored=lambda _context: True):
        rows = [
            {"output_id": o.id, "score": len(o.text) if scored(o.context_id) else None}
            for o in STORY.outputs
        ]
        return write_jsonl(rows, f"{name}.jsonl")

    return write


def test_the_command_shows_differences_in_their_own_table(command, scores_in):
    partly = scores_in("partly", lambda context: context != STORY.contexts[0].id)
    line = f"{ON_STORY} --scores {partly} --judge builtin --reference partly"
    done = command(f"{line} --format markdown")
    assert done.code == 3
    assert "--resamples" not in done.err  # 8 contexts have all permutations
    assert (
        "- contexts: contexts that the value is computed from; methods may differ in them, and --reference METHOD "
        "compares methods on common ones\n"
    ) in done.out
    heads = "\n\n| method | coherence | complexity | mean | common contexts |\n"
    assert f"demo/story, within_context: Spearman, the method minus partly{heads}" in done.out
    table = done.out.partition(heads)[2]
    assert re.match(r"\| ladder \| .* \| 11 \|$", table.splitlines()[1])
    legend = "contexts in which both have a correlation; the difference is computed from them"
    assert f"- common contexts: {legend}" in table


def test_methods_without_a_common_context(command, scores_in):
    half = {context.id for context in STORY.contexts[:6]}
    first = scores_in("first", lambda context: context in half)
    second = scores_in("second", lambda context: context not in half)
    line = f"evaluate demo/story --scores {first} --scores {second} --reference first"
    one = "--statistic spearman --level within_context --dimension coherence --format json"
    row = next(row for row in command(f"{line} {one}").rows if row.get("method") == "second")
    assert row["value"] is not None
    assert (row["contexts"], row["common"]) == (6, 0)
    assert (row["difference"], row["p_value"]) == (None, None)
    assert "| second | — | — | — | 0 |" in command(f"{line} --format markdown").out


def test_scores_that_exist_need_no_judge(scores_in):
    scores = [str(scores_in("characters"))]
    evaluation = evaluate(STORY, judge=NeverAsked(), methods=(), scores=scores, protocol=QUICK)
    assert list(dict.fromkeys(row.method for row in evaluation.rows)) == ["characters", BEST]
    assert evaluation.runs == evaluation.cards == evaluation.notes == ()
    assert evaluation.complete


def test_names_of_methods_are_taken(fails, scores_in):
    for name in ("ladder", BEST, *(measure for measure in MEASURES if "/" not in measure)):
        line = f"evaluate demo/story --judge builtin --scores '{scores_in(name)}'"
        assert fails(2, line) == (
            f"refladder: two methods are called {name!r}; rename the file of scores that has this name\n"
        )
