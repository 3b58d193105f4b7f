"""evaluate on several benchmarks: one table for each level, a folder each, and nothing asked twice after a kill."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from doubles import Double
from waiting import HANG, count_lines, until

import refladder
from refladder.backends.builtin import Builtin
from refladder.errors import UsageError
from refladder.evaluation.evaluate import Evaluation

NAMES = ("demo/story", "demo/dialogue")
BOTH = "demo/story demo/dialogue"
SETS = "--ladders demo/story --ladders demo/dialogue"
DATA = Path(__file__).parents[1] / "loaders" / "data"
FILES = DATA / "summeval/flat/summeval.json", DATA / "topicalchat/unieval/topical_chat.json"
SOURCES = f"--source {FILES[0]} --source {FILES[1]}"
QUICK = "--resamples 20"
RATED = f"{QUICK} --methods direct-5,g-eval-5 --level within_context --statistic spearman"


class NeverAsked(Double):
    def read_labels(self, _prompts, _labels):
        raise AssertionError("asked to judge")


@pytest.fixture
def cells(command):
    """The rows of `evaluate --format csv`, without the seconds of the run."""

    def go(words):
        table = csv.DictReader(io.StringIO(command(f"evaluate {words} --format csv").out))
        return [{**row, "seconds": ""} for row in table]

    return go


def test_csv_and_records_are_those_of_each_benchmark_alone(cells):
    together = cells(f"{BOTH} {RATED}")
    assert together == [row for name in NAMES for row in cells(f"{name} {RATED}")]
    found = refladder.evaluate(list(NAMES), methods="direct-5,g-eval-5")
    assert all(isinstance(each, Evaluation) for each in found)
    records = [{**record, "seconds": ""} for record in found.records()]
    assert together == [
        {key: "" if value is None else str(value) for key, value in record.items()}
        for record in records
    ]
    assert found.complete
    assert found.rows == (*found[0].rows, *found[1].rows)


def test_each_benchmark_has_its_own_source(cells, tmp_path):
    names = ("summeval", "topicalchat")
    together = cells(f"{' '.join(names)} {SOURCES} {RATED} --work {tmp_path}")
    pairs = list(zip(names, map(str, FILES), strict=True))
    alone = [cells(f"{name} --source {path} {RATED}") for name, path in pairs]
    assert together == [row for rows in alone for row in rows]
    configs = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*/run.json"))]
    found = [(each["options"]["benchmark"], each["options"]["source"]) for each in configs]
    assert found == pairs


def test_a_call_takes_a_source_for_each_benchmark():
    names = ["summeval", "demo/dialogue"]
    found = refladder.evaluate(names, source=[FILES[0], None], methods="direct-5")
    alone = refladder.evaluate("summeval", source=FILES[0], methods="direct-5")
    assert found[0].rows == alone.rows
    assert {row.benchmark for row in found[1].rows} == {"demo/dialogue"}
    few = r"^1 source for 2 benchmarks; give source once for each, in the same order$"
    with pytest.raises(UsageError, match=few):
        refladder.evaluate(["summeval", "topicalchat"], source=FILES[0])


def test_one_table_has_benchmarks_as_groups_of_columns_and_their_mean(command):
    (listed,) = command(f"evaluate {BOTH} {RATED} --json").rows
    evaluations = listed["evaluations"]
    assert [each["benchmark"] for each in evaluations] == list(NAMES)
    for name, each in zip(NAMES, evaluations, strict=True):
        lines = command(f"evaluate {name} {RATED} --json").rows
        cards = [line["method"] for line in lines if "kind" in line]
        assert each["rows"] == [line for line in lines if line.get("kind") != "card"]
        assert [card["method"] for card in each["cards"]] == cards
    values = {
        (row["method"], row["dimension"]): row["value"]
        for each in evaluations for row in each["rows"] if row["statistic"] == "spearman"
    }  # fmt: skip
    done = command(f"evaluate {BOTH} {RATED} --format latex --intervals none")
    shown = done.out.splitlines()
    assert shown[2:10] == [
        r"  \caption{demo/story, demo/dialogue, within\_context: Spearman with the ratings, mean over contexts}",
        r"  \label{tab:within-context-spearman}",
        shown[4],
        r"  \begin{tabular}{l" + "r" * 8 + "}",
        shown[6],
        r"   & \multicolumn{3}{c}{demo/story} & \multicolumn{1}{c}{demo/dialogue} &  &  &  &  \\",
        r"  \cmidrule(lr){2-4} \cmidrule(lr){5-5}",
        r"  method & coherence & complexity & mean & engagingness & benchmark mean & contexts & skipped & unscored \\",
    ]
    for line, method in zip(shown[11:13], ("direct-5", "g-eval-5"), strict=True):
        parts = [cell.strip(" \\") for cell in line.split("&")]
        plain = [cell.partition("{")[2].rstrip("}") or cell for cell in parts]
        # by hand: the mean of the story's two dimensions, then of the two benchmarks
        story = fmean(values[method, name] for name in ("coherence", "complexity"))
        both = fmean([story, values[method, "engagingness"]])
        assert [plain[0], plain[3], plain[5]] == [method, f"{story:.3f}", f"{both:.3f}"]
    assert r"underline" not in shown[11].split("&")[5], "the mean over benchmarks has no test"


def test_a_method_without_a_value_on_one_benchmark_has_no_mean_over_benchmarks(command):
    done = command(f"evaluate {BOTH} {QUICK} --methods direct-5,bleu --format markdown")
    assert done.code == 3
    heads, _, *rows = done.out.splitlines()[2:6]
    columns = "demo/story coherence | demo/story complexity | demo/story mean | demo/dialogue "
    assert heads.startswith(f"| method | {columns}")
    assert rows[1].startswith("| bleu | — | — | — | — | — |")
    mean = "mean of the 2 benchmarks (of the means over their dimensions); no interval"
    assert f"- benchmark mean: {mean}" in done.out


def test_figures_page_and_differences_are_of_each_benchmark(command, tmp_path):
    drawn = f"--figures {tmp_path}/drawn --html {tmp_path}/page.html --reference direct-5 {QUICK}"
    done = command(f"evaluate {BOTH} --methods direct-5,g-eval-5 {drawn}")
    assert len(list(tmp_path.glob("drawn/*/cost.svg"))) == 2
    page = (tmp_path / "page.html").read_text()
    assert "<title>demo/story, demo/dialogue: agreement with people</title>" in page
    for name in NAMES:
        assert page.count(f'<img alt="{name}: cost" src="data:image/svg+xml;base64,') == 1
        assert f"{name}, within_context: Spearman, the method minus direct-5" in done.out


# The built-in judge, which waits at its second call about dialogues and notes the number of prompts.
DRIVER = """
import os, sys, time
from refladder import backends
from refladder.backends.builtin import Builtin
from refladder.commands.main import main
from refladder.registry import Entry

class Slow(Builtin):
    calls = 0

    def read_labels(self, prompts, labels):
        self.calls += prompts[0].task == "dialogue"
        while self.calls > 1:
            time.sleep(0.01)
        with open(os.environ["ASKED"], "a") as asked:
            asked.write("\\n" * len(prompts))
        return super().read_labels(prompts, labels)

backends.BACKENDS["slow"] = Entry("__main__:open_slow", "")
open_slow = lambda target: Slow()
main(sys.argv[1:])
"""


def test_a_run_killed_in_the_second_benchmark_goes_on_and_asks_nothing_twice(
    process, command, tmp_path, monkeypatch
):
    asked, counted, read_labels = tmp_path / "asked", [], Builtin.read_labels

    def counting(self, prompts, labels):
        counted.append(len(prompts))
        return read_labels(self, prompts, labels)

    monkeypatch.setattr(Builtin, "read_labels", counting)
    line = f"evaluate {BOTH} {SETS} {QUICK} --format markdown --work"
    one_go = command(f"{line} {tmp_path}/one")
    assert one_go.code == 0, one_go.err
    # 72 stories and 84 dialogues with 5 rungs, on two dimensions and on one
    needed = 72 * 5 * 2 + 84 * 5
    # and once the ends of 12 and 12 ladders of stories and of 14 of dialogues, in both orders
    assert sum(counted) == needed + 2 * (12 + 12 + 14)

    how = {"driver": ("-c", DRIVER), "env": {**os.environ, "ASKED": str(asked)}}
    started = process(*f"{line} {tmp_path}/cut --judge slow".split(), **how)
    # all stories, and the first batch of dialogues: 16 of them
    kept = 2 + 720 + 80
    until(lambda: sum(map(count_lines, tmp_path.glob("cut/*/judgments.jsonl"))) == kept, started)
    started.send_signal(signal.SIGKILL)
    started.communicate(timeout=HANG)
    assert count_lines(asked) == 720 + 80
    counted.clear()
    assert command(f"{line} {tmp_path}/cut").out == one_go.out
    assert sum(counted) == needed - 720 - 80

    folders = sorted(path for path in (tmp_path / "cut").iterdir() if path.is_dir())
    assert [path.name.rpartition("-")[0] for path in folders] == ["demo_dialogue", "demo_story"]
    for name, folder in zip(sorted(NAMES), folders, strict=True):
        options = json.loads((folder / "run.json").read_text())["options"]
        assert options["benchmark"] == options["ladders"] == name
        assert options["work"] == str(folder)
        assert (folder / "results.jsonl").exists()
        # each is the folder of a run on this one alone
        counted.clear()
        assert command(f"evaluate {name} --ladders {name} {QUICK} --work {folder}").out
        assert counted == []


OTHER_TASK = (
    "the ladders of demo/story are of task 'story', and demo/dialogue is of 'dialogue'; name ladders of that task with "
    "--ladders"
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            f"{BOTH} demo/summarization {SETS}",
            "2 ladder sets for 3 benchmarks; give --ladders once, or one for each in the same order",
        ),
        (f"demo/story {SETS}", "2 ladder sets for 1 benchmark; give --ladders once"),
        (
            f"demo/story {BOTH}",
            "benchmark 'demo/story' is named 2 times; name each benchmark once",
        ),
        (f"{BOTH} --ladders demo/story", OTHER_TASK),
        (
            f"summeval topicalchat newsroom {SOURCES}",
            "2 sources for 3 benchmarks; give --source once for each, in the same order",
        ),
        (
            "summeval --source a.json --source b.json",
            "2 sources for 1 benchmark; give --source once",
        ),
        (
            "summeval topicalchat --source a.json",
            "1 source for 2 benchmarks; give --source once for each, in the same order",
        ),
        (
            f"{BOTH} --scores x.jsonl",
            "--scores is about one benchmark, and 2 are named; evaluate that one in a run of its own",
        ),
    ],
)
def test_what_does_not_fit_several_benchmarks_is_one_sentence(fails, words, message):
    text = fails(2, f"evaluate {words} --judge hf:/nowhere")
    assert text == f"refladder: {message}\n"


def test_calls_say_the_same_before_a_judge_is_asked():
    story, dialogue = map(refladder.load_benchmark, NAMES)
    unrated = replace(dialogue, ratings=())
    sets = "3 ladder sets for 2 benchmarks; give ladders once, or one for each"
    for benchmarks, how, message in (
        ([story, dialogue], {"ladders": ["demo/story"] * 3}, sets),
        ([story, story], {}, "benchmark 'demo/story' is named 2 times"),
        ([story, unrated], {"methods": "direct-5"}, "demo/dialogue has no ratings on engagingness"),
        ([story, dialogue], {"task": "story"}, "task is about one benchmark, and 2 are named"),
    ):
        with pytest.raises(UsageError, match=f"^{message}"):
            refladder.evaluate(benchmarks, judge=NeverAsked(), **how)


def test_a_list_of_one_benchmark_is_a_list(tmp_path):
    found = refladder.evaluate(["demo/story"], methods="direct-5", work=tmp_path)
    assert [each.rows[0].benchmark for each in found] == ["demo/story"]
    assert (tmp_path / "direct-5.judgments.jsonl").exists()
