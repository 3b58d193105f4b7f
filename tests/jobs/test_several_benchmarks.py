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
from refladder.errors import UsageError
from refladder.jobs.evaluate import Evaluation

BOTH = ("demo/story", "demo/dialogue")
SETS = ("--ladders", "demo/story", "--ladders", "demo/dialogue")
OTHER_TASK = (
    "the ladders of demo/story are of task 'story', and demo/dialogue is of 'dialogue'; name ladders of that task with "
    "--ladders"
)
DATA = Path(__file__).parents[1] / "loaders" / "data"
FILES = (
    DATA / "summeval" / "flat" / "summeval.json",
    DATA / "topicalchat" / "unieval" / "topical_chat.json",
)
SOURCES = ("--source", FILES[0], "--source", FILES[1])
QUICK = ("--resamples", "20")
RATED = (
    *QUICK,
    "--methods",
    "direct-5,g-eval-5",
    "--level",
    "within_context",
    "--statistic",
    "spearman",
)


class NeverAsked(Double):
    def read_labels(self, _prompts, _labels):
        raise AssertionError("asked to judge")


def without_seconds(text):
    return [{**row, "seconds": ""} for row in csv.DictReader(io.StringIO(text))]


def test_csv_and_records_are_those_of_each_benchmark_alone(command):
    together = command("evaluate", *BOTH, *RATED, "--format", "csv").out
    alone = [command("evaluate", name, *RATED, "--format", "csv").out for name in BOTH]
    assert without_seconds(together) == [row for text in alone for row in without_seconds(text)]
    found = refladder.evaluate(list(BOTH), methods="direct-5,g-eval-5")
    assert [isinstance(each, Evaluation) for each in found] == [True, True]
    records = [{**record, "seconds": ""} for record in found.records()]
    as_text = [
        {key: "" if value is None else str(value) for key, value in record.items()}
        for record in records
    ]
    assert as_text == without_seconds(together)
    assert found.complete
    assert found.rows == (*found[0].rows, *found[1].rows)


def test_each_benchmark_has_its_own_source(command, tmp_path):
    names, rated = ("summeval", "topicalchat"), (*RATED, "--format", "csv")
    together = command("evaluate", *names, *SOURCES, *rated, "--work", tmp_path)
    alone = [
        command("evaluate", name, "--source", path, *rated)
        for name, path in zip(names, FILES, strict=True)
    ]
    assert without_seconds(together.out) == [
        row for done in alone for row in without_seconds(done.out)
    ]
    configs = [
        json.loads(path.read_text())["options"] for path in sorted(tmp_path.glob("*/run.json"))
    ]
    assert [(each["benchmark"], each["source"]) for each in configs] == list(
        zip(names, map(str, FILES), strict=True)
    )


def test_a_call_takes_a_source_for_each_benchmark():
    found = refladder.evaluate(
        ["summeval", "demo/dialogue"], source=[FILES[0], None], methods="direct-5"
    )
    alone = refladder.evaluate("summeval", source=FILES[0], methods="direct-5")
    assert found[0].rows == alone.rows
    assert {row.benchmark for row in found[1].rows} == {"demo/dialogue"}
    with pytest.raises(
        UsageError,
        match=r"^1 source for 2 benchmarks; give source once for each, in the same order$",
    ):
        refladder.evaluate(["summeval", "topicalchat"], source=FILES[0])


def test_one_table_has_benchmarks_as_groups_of_columns_and_their_mean(command):
    listed = command("evaluate", *BOTH, *RATED, "--json").rows
    assert len(listed) == 1
    evaluations = listed[0]["evaluations"]
    assert [each["benchmark"] for each in evaluations] == list(BOTH)
    for name, each in zip(BOTH, evaluations, strict=True):
        lines = command("evaluate", name, *RATED, "--json").rows
        assert each["rows"] == [line for line in lines if line.get("kind") != "card"]
        assert [card["method"] for card in each["cards"]] == [
            line["method"] for line in lines if "kind" in line
        ]
    values = {
        (row["method"], row["dimension"]): row["value"]
        for each in evaluations
        for row in each["rows"]
        if row["statistic"] == "spearman"
    }
    shown = command(
        "evaluate", *BOTH, *RATED, "--format", "latex", "--intervals", "none"
    ).out.splitlines()
    names = ", ".join(BOTH)
    words = r"within\_context: Spearman with the ratings, mean over contexts"
    assert shown[2] == rf"  \caption{{{names}, {words}}}"
    assert shown[3] == r"  \label{tab:within-context-spearman}"
    assert shown[5] == r"  \begin{tabular}{l" + "r" * 8 + "}"
    assert (
        shown[7]
        == r"   & \multicolumn{3}{c}{demo/story} & \multicolumn{1}{c}{demo/dialogue} &  &  &  &  \\"
    )
    assert shown[8] == r"  \cmidrule(lr){2-4} \cmidrule(lr){5-5}"
    heads = "method & coherence & complexity & mean & engagingness & benchmark mean & contexts & skipped & unscored"
    assert shown[9] == rf"  {heads} \\"
    for line, method in zip(shown[11:13], ("direct-5", "g-eval-5"), strict=True):
        cells = [cell.strip(" \\") for cell in line.split("&")]
        plain = [cell.partition("{")[2].rstrip("}") or cell for cell in cells]
        # by hand: the mean of the story's two dimensions, then of the two benchmarks
        story = fmean(values[method, name] for name in ("coherence", "complexity"))
        both = fmean([story, values[method, "engagingness"]])
        assert [plain[0], plain[3], plain[5]] == [method, f"{story:.3f}", f"{both:.3f}"]
    assert r"underline" not in shown[11].split("&")[5], "the mean over benchmarks has no test"


def test_a_method_without_a_value_on_one_benchmark_has_no_mean_over_benchmarks(command):
    done = command("evaluate", *BOTH, *QUICK, "--methods", "direct-5,bleu", "--format", "markdown")
    assert done.code == 3
    heads, _, *rows = done.out.splitlines()[2:6]
    assert heads.startswith(
        "| method | demo/story coherence | demo/story complexity | demo/story mean | demo/dialogue "
    )
    assert rows[1].startswith("| bleu | — | — | — | — | — |")
    assert (
        "- benchmark mean: mean of the 2 benchmarks (of the means over their dimensions); no interval"
        in done.out
    )


def test_figures_page_and_differences_are_of_each_benchmark(command, tmp_path):
    extra = (
        "--figures",
        tmp_path / "drawn",
        "--html",
        tmp_path / "page.html",
        "--reference",
        "direct-5",
        *QUICK,
    )
    done = command("evaluate", *BOTH, "--methods", "direct-5,win-ratio", *extra)
    assert len(list(tmp_path.glob("drawn/*/cost.svg"))) == 2
    page = (tmp_path / "page.html").read_text()
    assert [
        page.count(f'<img alt="{name}: cost" src="data:image/svg+xml;base64,') for name in BOTH
    ] == [1, 1]
    assert "<title>demo/story, demo/dialogue: agreement with people</title>" in page
    for name in BOTH:
        assert f"{name}, within_context: Spearman, the method minus direct-5" in done.out


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
        while self.calls > 1 and os.path.exists(os.environ["HOLD"]):
            time.sleep(0.01)
        with open(os.environ["ASKED"], "a") as asked:
            asked.write("\\n" * len(prompts))
        return super().read_labels(prompts, labels)

backends.BACKENDS["slow"] = Entry("__main__:open_slow", "")
open_slow = lambda target: Slow()
main(sys.argv[1:])
"""


def test_a_run_killed_in_the_second_benchmark_goes_on_and_asks_nothing_twice(process, tmp_path):
    hold, asked = tmp_path / "hold", tmp_path / "asked"
    how = {"driver": ("-c", DRIVER), "env": {**os.environ, "HOLD": str(hold), "ASKED": str(asked)}}
    quick = ("--judge", "slow", *QUICK)
    line = ("evaluate", *BOTH, *SETS, *quick, "--format", "markdown", "--work")
    # 72 stories and 84 dialogues with 5 rungs, on two dimensions and on one
    needed = 72 * 5 * 2 + 84 * 5
    one_go = process(*line, tmp_path / "one", **how)
    printed, err = one_go.communicate(timeout=HANG)
    assert one_go.returncode == 0, err.decode()
    # and once the ends of 12 and 12 ladders of stories and of 14 of dialogues, in both orders
    assert count_lines(asked) == needed + 2 * (12 + 12 + 14)

    asked.unlink()
    hold.touch()
    started = process(*line, tmp_path / "cut", **how)
    # all stories, and the first batch of dialogues: 16 of them
    until(
        lambda: sum(map(count_lines, tmp_path.glob("cut/*/judgments.jsonl"))) == 2 + 720 + 80,
        started,
    )
    started.send_signal(signal.SIGKILL)
    started.communicate(timeout=HANG)
    assert count_lines(asked) == 720 + 80
    hold.unlink()
    again = process(*line, tmp_path / "cut", **how)
    assert again.communicate(timeout=HANG)[0] == printed
    assert count_lines(asked) == needed

    folders = sorted(path.name for path in (tmp_path / "cut").iterdir() if path.is_dir())
    assert [name.rpartition("-")[0] for name in folders] == ["demo_dialogue", "demo_story"]
    configs = [
        json.loads((tmp_path / "cut" / name / "run.json").read_text())["options"]
        for name in folders
    ]
    assert (
        [each["benchmark"] for each in configs]
        == [each["ladders"] for each in configs]
        == sorted(BOTH)
    )
    assert [each["work"] for each in configs] == [str(tmp_path / "cut" / name) for name in folders]
    assert all((tmp_path / "cut" / name / "results.jsonl").exists() for name in folders)
    for name, folder in zip(
        sorted(BOTH), folders, strict=True
    ):  # each is the folder of a run on this one alone
        alone = process(
            "evaluate",
            name,
            "--ladders",
            name,
            *quick,
            "--work",
            tmp_path / "cut" / folder,
            **how,
        )
        assert alone.communicate(timeout=HANG)[0]
    assert count_lines(asked) == needed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            (*BOTH, "demo/summarization", *SETS),
            "2 ladder sets for 3 benchmarks; give --ladders once, or one for each in the same order",
        ),
        (("demo/story", *SETS), "2 ladder sets for 1 benchmark; give --ladders once"),
        (
            ("demo/story", *BOTH),
            "benchmark 'demo/story' is named 2 times; name each benchmark once",
        ),
        (
            (*BOTH, "--ladders", "demo/story"),
            OTHER_TASK,
        ),
        (
            ("summeval", "topicalchat", "newsroom", *SOURCES),
            "2 sources for 3 benchmarks; give --source once for each, in the same order",
        ),
        (
            ("summeval", "--source", "a.json", "--source", "b.json"),
            "2 sources for 1 benchmark; give --source once",
        ),
        (
            ("summeval", "topicalchat", "--source", "a.json"),
            "1 source for 2 benchmarks; give --source once for each, in the same order",
        ),
        (
            (*BOTH, "--scores", "x.jsonl"),
            "--scores is about one benchmark, and 2 are named; evaluate that one in a run of its own",
        ),
    ],
)
def test_what_does_not_fit_several_benchmarks_is_one_sentence(fails, line, message):
    assert fails(2, "evaluate", *line, "--judge", "hf:/nowhere") == f"refladder: {message}\n"


def test_calls_say_the_same_before_a_judge_is_asked():
    story, dialogue = map(refladder.load_benchmark, BOTH)
    with pytest.raises(
        UsageError, match=r"^3 ladder sets for 2 benchmarks; give ladders once, or one for each"
    ):
        refladder.evaluate([story, dialogue], ladders=["demo/story"] * 3, judge=NeverAsked())
    with pytest.raises(UsageError, match=r"^benchmark 'demo/story' is named 2 times"):
        refladder.evaluate([story, story], judge=NeverAsked())
    unrated = replace(dialogue, ratings=())
    with pytest.raises(UsageError, match=r"^demo/dialogue has no ratings on engagingness"):
        refladder.evaluate([story, unrated], methods="direct-5", judge=NeverAsked())
    with pytest.raises(UsageError, match=r"^task is about one benchmark, and 2 are named"):
        refladder.evaluate([story, dialogue], task="story")


def test_a_list_of_rows_is_a_table_and_a_list_of_one_benchmark_a_list(tmp_path):
    found = refladder.evaluate(["demo/story"], methods="direct-5", work=tmp_path)
    assert [each.rows[0].benchmark for each in found] == ["demo/story"]
    assert (tmp_path / "direct-5.judgments.jsonl").exists()
