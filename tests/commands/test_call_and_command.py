"""A call gives what the command of its name gives: the same rows, the same bytes, the same settings and defaults.

All calls read a table in memory by one class, so kinds of tables are tested with `score` and `filter` alone.
"""

from __future__ import annotations

import inspect
import json
import shutil
from dataclasses import MISSING, asdict, fields
from importlib import import_module

import pytest

import refladder
from refladder import settings
from refladder.commands.main import COMMANDS
from refladder.commands.main import run as run_command
from refladder.commands.options import options_of
from refladder.files.ladder_sets import find_folder

CALLS = [name for name in COMMANDS if name in refladder._PUBLIC]
# A call takes `sampling`, `settings` and `protocol` as records; a table with a task is `own` on the command line.
RECORDS = {"sampling", "settings", "protocol", "task"}
EMPTY = (None, (), {}, "", False, 0)


def differing(name):
    """Yield the parameters of a call that are no option of its command, or have another default there."""
    options = options_of(import_module(f"refladder.commands.{name}").command)
    for parameter in inspect.signature(getattr(refladder, name)).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.name in RECORDS:
            continue
        option = next((each for each in options if parameter.name in each.names), None)
        if option is None:
            yield name, parameter.name, "no option"
        elif not option.is_argument and parameter.default is not parameter.empty:
            mine = None if parameter.default in EMPTY else parameter.default
            its = None if option.default in (*EMPTY, "-") else option.default
            if mine != its:
                yield name, parameter.name, (mine, its)


def test_a_parameter_is_an_option_with_the_same_default():
    assert [each for name in CALLS for each in differing(name)] == []


@pytest.mark.parametrize(
    "kind", [settings.Scoring, settings.Filtering, settings.Asking, settings.Scale]
)
def test_a_setting_has_the_default_of_the_calls(kind):
    checked = 0
    for name in CALLS:
        parameters = inspect.signature(getattr(refladder, name)).parameters
        for each in fields(kind):
            default = each.default if each.default is not MISSING else None
            if each.name in parameters and parameters[each.name].default not in (
                *EMPTY,
                inspect.Parameter.empty,
            ):
                assert parameters[each.name].default == default, (name, each.name)
                checked += 1
    assert checked


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """The files that the commands and calls read, each made by a command."""
    folder = tmp_path_factory.mktemp("given")
    wide = ("--ladders", "demo/story")
    for words in (
        ("export", "demo/story", "--out", folder / "outputs.jsonl"),
        ("score", folder / "outputs.jsonl", *wide, "--out", folder / "two.jsonl", "--both-orders"),
        ("score", folder / "outputs.jsonl", *wide, "--out", folder / "scored.jsonl"),
    ):
        assert run_command([str(word) for word in words]) == 0
    rows = lines(folder / "scored.jsonl")
    order = sorted(range(len(rows)), key=lambda number: rows[number]["coherence_score"])
    for rank, number in enumerate(order):
        rows[number]["rating"] = 1 + rank // 15
    write(folder / "scored.jsonl", rows)
    write(folder / "plain.jsonl", [without(row, "rating") for row in rows])
    write(
        folder / "labels.jsonl",
        [{name: row[name] for name in ("output_id", "rating")} for row in rows[::2]],
    )
    write(folder / "replies.jsonl", [{"reply": row["output"]} for row in rows])
    shutil.copytree(find_folder("demo/story"), folder / "set")
    (folder / "set" / "certificate.json").unlink()
    promised = (
        "--label",
        "rating",
        "--good",
        ">=3",
        "--by",
        "coherence_score",
        "--precision",
        "0.8",
    )
    for words in (
        ("calibrate", folder / "scored.jsonl", *promised, "--sure", "0.8", "--out", folder / "threshold.json"),
        ("distil", folder / "scored.jsonl", "--by", "coherence_score", "--out", folder / "student"),
    ):  # fmt: skip
        assert run_command([str(word) for word in words]) == 0
    return folder


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


ASKED = {"label": "rating", "good": ">=3", "by": "coherence_score", "precision": 0.8, "sure": 0.8}
PROMISED = "--label rating --good >=3 --by coherence_score --precision 0.8"
ONE_LEVEL = {"levels": ("pooled",), "statistics": ("kendall",), "resamples": 20}
# What a call returns, as what its command prints, or the folder that both write; `g` is `given`, and `out` the folder.
CASES = {
    "score a file": (
        lambda g, out: refladder.score(g / "outputs.jsonl", ladders="demo/story", out=out / "o.jsonl"),
        "score {g}/outputs.jsonl --ladders demo/story --out {out}/o.jsonl",
    ),
    "score rows": (
        lambda g, _: refladder.score(
            lines(g / "replies.jsonl"), ladders="demo/story", columns={"output": "reply"}, context_id="story-03",
            both_orders=True,
        ),
        "score {g}/replies.jsonl --ladders demo/story --column output=reply --context-id story-03 --both-orders",
    ),
    "score with a student": (
        lambda g, _: refladder.score(lines(g / "outputs.jsonl"), judge=f"distilled:{g}/student"),
        "score {g}/outputs.jsonl --judge distilled:{g}/student",
    ),
    "score a file with a student": (
        lambda g, out: refladder.score(g / "outputs.jsonl", judge=f"distilled:{g}/student", out=out / "o.jsonl"),
        "score {g}/outputs.jsonl --judge distilled:{g}/student --out {out}/o.jsonl",
    ),
    "filter the best of each group": (
        lambda g, _: refladder.filter(
            lines(g / "scored.jsonl"), best=1, per="context_id", by="complexity_score", min={"coherence_score": -14}
        ),
        "filter {g}/scored.jsonl --best 1 --per context_id --by complexity_score --min coherence_score=-14",
    ),
    "filter by a threshold": (
        lambda g, _: refladder.filter(lines(g / "scored.jsonl"), threshold=g / "threshold.json"),
        "filter {g}/scored.jsonl --threshold {g}/threshold.json",
    ),
    "pairs": (
        lambda g, _: refladder.pairs(lines(g / "plain.jsonl"), margin=0.01, per_context=2),
        "pairs {g}/plain.jsonl --margin 0.01 --per-context 2",
    ),
    "pairs of a file": (
        lambda g, out: refladder.pairs(
            g / "plain.jsonl", ladders="demo/story", margin=0.5, by="coherence_score", conversational=True,
            out=out / "o.jsonl",
        ),
        "pairs {g}/plain.jsonl --ladders demo/story --margin 0.5 --by coherence_score --conversational --out {out}/o.jsonl",
    ),
    "rescore": (
        lambda g, _: refladder.rescore(g / "two.jsonl.judgments.jsonl", rule="hard-votes", weights={"coherence": 3}),
        "rescore {g}/two.jsonl.judgments.jsonl --rule hard-votes --weight coherence=3",
    ),
    "calibrate": (
        lambda g, out: refladder.calibrate(
            lines(g / "plain.jsonl"), labels=lines(g / "labels.jsonl"), out=out / "o.json", **ASKED
        ),
        f"calibrate {{g}}/plain.jsonl --labels {{g}}/labels.jsonl {PROMISED} --sure 0.8 --out {{out}}/o.json",
    ),
    "plan labels": (
        lambda g, out: refladder.plan_labels(
            lines(g / "plain.jsonl"), by="coherence_score", precision=0.8, out=out / "o.csv"
        ),
        "calibrate {g}/plain.jsonl --by coherence_score --precision 0.8 --plan --out {out}/o.csv",
    ),
    "distil": (
        lambda g, out: refladder.distil(lines(g / "scored.jsonl"), by="coherence_score", out=out / "student"),
        "distil {g}/scored.jsonl --by coherence_score --out {out}/student",
    ),
    "audit": (
        lambda _, out: refladder.audit("demo/dialogue", contexts=2, seed=3, judgments=out / "o.jsonl"),
        "audit --ladders demo/dialogue --contexts 2 --seed 3 --judgments {out}/o.jsonl",
    ),
    "certify": (
        lambda g, out: refladder.certify(shutil.copytree(g / "set", out / "set")),
        "certify {out}/set",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_call_gives_what_its_command_gives(case, given, command, tmp_path):
    call, line = CASES[case]
    called, typed = tmp_path / "called", tmp_path / "typed"
    called.mkdir()
    typed.mkdir()
    returned = call(given, called)
    if case == "certify":
        shutil.copytree(given / "set", typed / "set")
    done = command(*line.format(g=given, out=typed).split())
    assert done.code == 0, done.err
    files = files_in(called)
    assert files == files_in(typed)
    if not files:
        assert returned == done.rows != []


def files_in(folder):
    """The bytes of each file, without the configuration of the run, which names its folder."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if not path.name.endswith("run.json")
    }


def test_records_of_calls_are_what_the_command_prints(given, command, tmp_path):
    rows = lines(given / "scored.jsonl")
    result = refladder.calibrate(rows, **ASKED)
    line = ("calibrate", given / "scored.jsonl", *PROMISED.split(), "--sure", "0.8", "--json")
    (printed,) = command(*line).rows
    assert (result.refused, result.auc) == (printed["refused"], printed["auc"])
    assert [asdict(step) for step in result.steps] == printed["candidates"]
    plan = refladder.plan_labels(rows, **without(ASKED, "sure"))
    (printed,) = command(*line[:-3], "--plan", "--json").rows
    assert json.loads(json.dumps(asdict(plan))) == {key: printed[key] for key in asdict(plan)}
    student = refladder.distil(rows, by="coherence_score", out=tmp_path / "called")
    typed = (
        "distil",
        given / "scored.jsonl",
        "--by",
        "coherence_score",
        "--out",
        tmp_path / "typed",
    )
    (printed,) = command(*typed, "--json").rows
    assert json.loads(json.dumps(asdict(student))) == without(printed, "notes")
    audit = refladder.audit("demo/dialogue", contexts=2, seed=3)
    line = ("audit", "--ladders", "demo/dialogue", "--contexts", "2", "--seed", "3", "--json")
    assert audit == command(*line).rows
    evaluation = refladder.evaluate(
        "demo/story", ladders="demo/story", protocol=refladder.Protocol(**ONE_LEVEL)
    )
    line = "evaluate demo/story --ladders demo/story --level pooled --statistic kendall --resamples 20 --json"
    printed = [row for row in command(*line.split()).rows if "kind" not in row]
    names = ("method", "dimension", "value", "low", "high")
    assert [tuple(getattr(row, name) for name in names) for row in evaluation.rows] == [
        tuple(row[name] for name in names) for row in printed
    ]


def test_a_rate_is_that_of_the_command_and_of_hand_work(given, command):
    rows = lines(given / "scored.jsonl")
    path = given / "half.json"
    words = ("--labels", given / "labels.jsonl", *PROMISED.split(), "--sure", "0.8", "--out", path)
    assert command("calibrate", given / "plain.jsonl", *words).code == 0
    cutoff = json.loads(path.read_text("utf-8"))["cutoff"]
    (printed,) = command(
        *("calibrate", given / "scored.jsonl", "--label", "rating", "--good", ">=3"),
        *("--rate", path, "--json"),
    ).rows
    result = refladder.estimate_precision(rows, threshold=path, label="rating", good=">=3")
    counts = tuple(printed[name] for name in ("labels", "reused", "kept"))
    assert (result.labels, result.reused, result.kept) == counts
    assert result.rate._asdict() == printed["rate"]
    assert result.reused == 36
    # By hand: the kept rows whose labels did not choose the threshold.
    new = [row["rating"] >= 3 for row in rows[1::2] if row["coherence_score"] >= cutoff]
    assert result.labels == len(new) > 0
    assert result.rate.value == pytest.approx(sum(new) / len(new))
