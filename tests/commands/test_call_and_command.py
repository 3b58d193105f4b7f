"""A call gives what the command of its name gives: the same rows, the same bytes, the same settings and defaults.

All calls read a table in memory by one class, so kinds of tables are tested with `score` and `filter` alone.
"""

from __future__ import annotations

import inspect
import json
import shutil
from dataclasses import MISSING, asdict, fields
from itertools import pairwise

import pytest
from json_lines import read_lines, write_lines
from scored_folders import Inline

import refladder
from refladder import settings
from refladder.calibration.records import Filtering
from refladder.cli.options import options_of
from refladder.commands.main import COMMANDS, command_of
from refladder.commands.main import run as run_command
from refladder.files.certificate import json_of
from refladder.files.jsonl import read_record
from refladder.files.ladder_sets import find_folder
from refladder.records import Link

CALLS = [name for name in COMMANDS if name in refladder._PUBLIC]
# A call takes `sampling`, `settings` and `protocol` as records; a table with a task is `table` on the command line.
RECORDS = {"sampling", "settings", "protocol", "task"}
EMPTY = (None, (), {}, "", False, 0)


def differing(name):
    """Yield the parameters of a call that are no option of its command, or have another default there."""
    options = options_of(command_of(name))
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


@pytest.mark.parametrize("kind", [settings.Scoring, Filtering, settings.Asking, settings.Scale])
def test_a_setting_has_the_default_of_the_calls(kind):
    checked = 0
    for name in CALLS:
        parameters = inspect.signature(getattr(refladder, name)).parameters
        for each in fields(kind):
            default = each.default if each.default is not MISSING else None
            if (name, each.name) == ("compare", "unscored"):
                # What its gate counts these rows as, and not where they go.
                continue
            if (name, each.name) == ("watch", "answers"):
                # It asks for ratings only.
                continue
            if each.name in parameters and parameters[each.name].default not in (
                *EMPTY,
                inspect.Parameter.empty,
            ):
                assert parameters[each.name].default == default, (name, each.name)
                checked += 1
    assert checked


def test_scorer_takes_the_settings_of_score_with_the_same_types_and_defaults():
    mine = inspect.signature(refladder.Scorer).parameters
    its = inspect.signature(refladder.score).parameters
    names = {each.name for each in fields(settings.Scoring)}
    assert set(mine) == names | {"judge", "judge_options", "store"}
    # A student needs no ladder set, and `Scorer` takes no student.
    assert [name for name in mine if mine[name] != its[name]] == ["ladders"]
    assert f"{mine['ladders'].annotation} | None" == its["ladders"].annotation


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """The files that the commands and calls read, each made by a command."""
    folder = tmp_path_factory.mktemp("given")

    def made(line):
        assert run_command(line.format(g=folder).split()) == 0

    made("export demo/story --out {g}/outputs.jsonl")
    made("score {g}/outputs.jsonl --ladders demo/story --out {g}/two.jsonl --both-orders")
    made("score {g}/outputs.jsonl --ladders demo/story --out {g}/scored.jsonl")
    rows = read_lines(folder / "scored.jsonl")
    order = sorted(range(len(rows)), key=lambda number: rows[number]["coherence_score"])
    for rank, number in enumerate(order):
        rows[number]["rating"] = 1 + rank // 15
    write_lines(folder / "scored.jsonl", rows)
    write_lines(folder / "plain.jsonl", [without(row, "rating") for row in rows])
    labels = [{name: row[name] for name in ("output_id", "rating")} for row in rows[::2]]
    write_lines(folder / "labels.jsonl", labels)
    write_lines(folder / "replies.jsonl", [{"reply": row["output"]} for row in rows])
    write_lines(folder / "models.jsonl", [{"id": 1, "place": "beach"}, {"id": 2, "place": "sea"}])
    for name in ("warm", "curt"):
        write_lines(folder / f"{name}.jsonl", [{"contains": "", "text": f"A {name} invitation."}])
    verdicts = ("win", "win", "tie", "loss", "loss")
    rungs = [f"{rows[0]['context_id']},coherence,{rows[0]['output_id']},{level},{verdict}\n"
             for level, verdict in enumerate(verdicts, start=1)]  # fmt: skip
    (folder / "judged.csv").write_text(
        "context_id,dimension,output,rung,outcome\n" + "".join(rungs)
    )
    (folder / "task.toml").write_text(
        'task = "open"\n[[dimensions]]\nname = "clarity"\ndescription = "Clear?"\n'
    )
    questions = [{"context": f"Why {word}?", "output": f"{word}."} for word in ("rain", "snow")]
    write_lines(folder / "questions.jsonl", questions)
    shutil.copytree(find_folder("demo/story"), folder / "set")
    (folder / "set" / "certificate.json").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refladder.many_files.workers.Processes", Inline)
        made("score {g}/outputs.jsonl --ladders demo/story --out {g}/files")
    made(f"calibrate {{g}}/scored.jsonl {PROMISED} --sure 0.8 --out {{g}}/threshold.json")
    made("distil {g}/scored.jsonl --by coherence_score --out {g}/student")
    made("link --from {g}/two.jsonl --to {g}/scored.jsonl --out {g}/link.json")
    return folder


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
            read_lines(g / "replies.jsonl"), ladders="demo/story", columns={"output": "reply"}, context_id="story-03",
            both_orders=True,
        ),
        "score {g}/replies.jsonl --ladders demo/story --column output=reply --context-id story-03 --both-orders",
    ),
    "score with a student": (
        lambda g, _: refladder.score(read_lines(g / "outputs.jsonl"), judge=f"distilled:{g}/student"),
        "score {g}/outputs.jsonl --judge distilled:{g}/student",
    ),
    "score a file with a student": (
        lambda g, out: refladder.score(g / "outputs.jsonl", judge=f"distilled:{g}/student", out=out / "o.jsonl"),
        "score {g}/outputs.jsonl --judge distilled:{g}/student --out {out}/o.jsonl",
    ),
    "filter the best of each group": (
        lambda g, _: refladder.filter(
            read_lines(g / "scored.jsonl"), best=1, per="context_id", by="complexity_score", min={"coherence_score": -14}
        ),
        "filter {g}/scored.jsonl --best 1 --per context_id --by complexity_score --min coherence_score=-14",
    ),
    "filter by a threshold": (
        lambda g, _: refladder.filter(read_lines(g / "scored.jsonl"), threshold=g / "threshold.json"),
        "filter {g}/scored.jsonl --threshold {g}/threshold.json",
    ),
    "pairs": (
        lambda g, _: refladder.pairs(read_lines(g / "plain.jsonl"), margin=0.01, per_context=2),
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
            read_lines(g / "plain.jsonl"), labels=read_lines(g / "labels.jsonl"), out=out / "o.json", **ASKED
        ),
        f"calibrate {{g}}/plain.jsonl --labels {{g}}/labels.jsonl {PROMISED} --sure 0.8 --out {{out}}/o.json",
    ),
    "plan labels": (
        lambda g, out: refladder.plan_labels(
            read_lines(g / "plain.jsonl"), by="coherence_score", precision=0.8, out=out / "o.csv"
        ),
        "calibrate {g}/plain.jsonl --by coherence_score --precision 0.8 --plan --out {out}/o.csv",
    ),
    "distil": (
        lambda g, out: refladder.distil(read_lines(g / "scored.jsonl"), by="coherence_score", out=out / "student"),
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
    "score recorded judgments": (
        lambda g, _: refladder.score(
            read_lines(g / "outputs.jsonl"), ladders="demo/story", dimensions=["coherence"],
            judgments_from=g / "judged.csv",
        ),
        "score {g}/outputs.jsonl --ladders demo/story --dimension coherence --judgments-from {g}/judged.csv",
    ),
    "rescore files": (lambda g, _: refladder.rescore(g / "files"), "rescore {g}/files"),
    "filter by a link": (
        lambda g, _: refladder.filter(
            read_lines(g / "two.jsonl"), min={"coherence_score": -9}, link=g / "link.json"
        ),
        "filter {g}/two.jsonl --min coherence_score=-9 --link {g}/link.json",
    ),
    "watch": (
        lambda _, out: refladder.watch(
            "general/reply", answers="rating", dimensions=["clarity"], baseline=out / "w.json", new=True
        ),
        "watch general/reply --answers rating --dimension clarity --baseline {out}/w.json --new --json",
    ),
    "jury": (
        lambda g, out: refladder.jury([g / "scored.jsonl", g / "two.jsonl"], least=2, out=out / "j.jsonl"),
        "jury {g}/scored.jsonl {g}/two.jsonl --least 2 --out {out}/j.jsonl",
    ),
    "link": (
        lambda g, out: refladder.link(
            g / "two.jsonl", to=read_lines(g / "scored.jsonl"), by="coherence_score", to_by="rating", at=3,
            columns={"output_id": "output_id"}, out=str(out / "o.json"),
        ),
        ("link --from {g}/two.jsonl --from-by coherence_score --to {g}/scored.jsonl --to-by rating --at 3 "
         "--column output_id=output_id --out {out}/o.json"),
    ),
    "distil with labels": (
        lambda g, out: refladder.distil(
            g / "plain.jsonl", by="coherence_score", labels=[g / "labels.jsonl"], label="rating",
            ladders="demo/story", out=str(out / "student"),
        ),
        ("distil {g}/plain.jsonl --by coherence_score --labels {g}/labels.jsonl --label rating --ladders demo/story "
         "--out {out}/student"),
    ),
    "show a ladder": (
        lambda g, _: refladder.show("demo/story", "story-01", scores=g / "scored.jsonl"),
        "show demo/story story-01 --scores {g}/scored.jsonl --json",
    ),
    "show contexts": (
        lambda *_: refladder.show(refladder.load_ladders("demo/story")),
        "show demo/story --json",
    ),
    "compete": (
        lambda g, out: refladder.compete(
            read_lines(g / "models.jsonl"), prompt_text="Invite-to-{place}.", judge="builtin",
            models={name: f"scripted:{g}/{name}.jsonl" for name in ("warm", "curt")},
            criteria={"engaging": "Would-they-come?"}, best={"engaging": "10:all"}, out=out / "run",
        ),
        ("compete {g}/models.jsonl --prompt-text Invite-to-{{place}}. --judge builtin --model warm=scripted:{g}/warm.jsonl "
         "--model curt=scripted:{g}/curt.jsonl --criterion engaging=Would-they-come? --out {out}/run "
         "--best engaging=10:all"),
    ),
    "build a benchmark": (
        lambda _, out: refladder.build("demo/story", dimensions=["coherence"], out=out / "set"),
        "build demo/story --dimension coherence --out {out}/set",
    ),
    "build a table": (
        lambda g, out: refladder.build(
            read_lines(g / "questions.jsonl"), task_file=g / "task.toml", writer="builtin", rungs=3, out=out / "set"
        ),
        "build {g}/questions.jsonl --task-file {g}/task.toml --writer builtin --rungs 3 --out {out}/set",
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
    assert done.code in {0, 3}, done.err
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
    rows = read_lines(given / "scored.jsonl")

    def printed(line):
        return command(f"{line.format(g=given)} --json").rows

    result = refladder.calibrate(rows, **ASKED)
    (found,) = printed(f"calibrate {{g}}/scored.jsonl {PROMISED} --sure 0.8")
    assert (result.refused, result.auc) == (found["refused"], found["auc"])
    assert [asdict(step) for step in result.steps] == found["candidates"]
    plan = refladder.plan_labels(rows, **without(ASKED, "sure"))
    (found,) = printed(f"calibrate {{g}}/scored.jsonl {PROMISED} --plan")
    assert as_json(plan) == {key: found[key] for key in asdict(plan)}
    student = refladder.distil(rows, by="coherence_score", out=tmp_path / "called")
    (found,) = printed(f"distil {{g}}/scored.jsonl --by coherence_score --out {tmp_path}/typed")
    assert as_json(student) == without(found, "notes")
    audit = refladder.audit("demo/dialogue", contexts=2, seed=3, least_mass=0.5)
    assert audit == printed("audit --ladders demo/dialogue --contexts 2 --seed 3 --least-mass 0.5")
    evaluation = refladder.evaluate(
        "demo/story", ladders="demo/story", protocol=refladder.Protocol(**ONE_LEVEL)
    )
    found = printed(
        "evaluate demo/story --ladders demo/story --level pooled --statistic kendall --resamples 20"
    )
    names = ("method", "dimension", "value", "low", "high")
    assert [tuple(getattr(row, name) for name in names) for row in evaluation.rows] == [
        tuple(row[name] for name in names) for row in found if "kind" not in row
    ]
    record = refladder.link(given / "two.jsonl", to=given / "scored.jsonl")
    assert record == read_record(Link, given / "link.json")
    contest = refladder.compete(
        read_lines(given / "models.jsonl"),
        models={name: f"scripted:{given}/{name}.jsonl" for name in ("warm", "curt")},
        prompt_text="Invite to {place}.",
        criteria={"engaging": "Would they come?"},
        judge="builtin",
        out=tmp_path / "run",
    )
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (config["command"], config["signature"]) == ("compete", contest.signature)


def as_json(record):
    return json.loads(json.dumps(asdict(record)))


def test_a_rate_is_that_of_the_command_and_of_hand_work(given, command):
    rows = read_lines(given / "scored.jsonl")
    path = given / "half.json"
    half = f"{given}/plain.jsonl --labels {given}/labels.jsonl"
    assert command(f"calibrate {half} {PROMISED} --sure 0.8 --out {path}").code == 0
    cutoff = json.loads(path.read_text("utf-8"))["cutoff"]
    (printed,) = command(
        f"calibrate {given}/scored.jsonl --label rating --good >=3 --rate {path} --json"
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


def test_a_record_may_take_the_place_of_its_file(given):
    rows = read_lines(given / "scored.jsonl")
    two = read_lines(given / "two.jsonl")
    threshold = refladder.calibrate(rows, **ASKED).threshold
    by_file = refladder.filter(rows, threshold=given / "threshold.json")
    assert refladder.filter(rows, threshold=threshold) == by_file != rows
    link = read_record(Link, given / "link.json")
    least = {"coherence_score": -9}
    linked = refladder.filter(two, min=least, link=given / "link.json")
    assert refladder.filter(two, min=least, link=link) == linked


def test_evaluate_reads_recorded_judgments_as_its_command_does(command, tmp_path):
    outputs = refladder.load_benchmark("demo/story").outputs
    judged = tmp_path / "judged.csv"
    pairs = [
        f"{one.context_id},{dimension},{one.id},{other.id},first\n"
        for one, other in pairwise(outputs)
        if one.context_id == other.context_id
        for dimension in ("coherence", "complexity")
    ]
    judged.write_text("context_id,dimension,first,second,winner\n" + "".join(pairs), "utf-8")
    evaluation = refladder.evaluate("demo/story", dimensions=["coherence"], judgments_from=judged)
    typed = command(f"evaluate demo/story --dimension coherence --judgments-from {judged} --json")
    wanted = ("within_context", "spearman")
    (mine,) = {
        (row.value, row.signature)
        for row in evaluation.rows
        if row.method == "win-ratio" and (row.level, row.statistic) == wanted
    }
    (its,) = {
        (row["value"], row["signature"])
        for row in typed.rows
        if row["method"] == "win-ratio" and (row.get("level"), row.get("statistic")) == wanted
    }
    assert mine == its


def test_recorded_judgments_have_the_score_of_hand_work(given):
    asked = {"ladders": "demo/story", "dimensions": ["coherence"]}
    outputs = read_lines(given / "outputs.jsonl")
    scored = refladder.score(outputs, judgments_from=given / "judged.csv", **asked)
    # 1 + 2 + 3 * 0 - 4 - 5, and nothing about the others.
    assert [row["coherence_score"] for row in scored] == [-6] + [None] * 71


def test_certificates_are_stored_in_folders(given, tmp_path):
    folder = shutil.copytree(given / "set", tmp_path / "set")
    certificate = refladder.certify(folder)
    assert json_of(refladder.load_ladders(folder).certificate) == certificate
    opened = refladder.load_ladders("demo/story")
    assert refladder.certify(opened) == refladder.certify("demo/story") == certificate
