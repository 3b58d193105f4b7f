"""Help, options, the config file, `show`, `list`, `demo` and `build` as a user meets them."""

from __future__ import annotations

import json
import re
from importlib import import_module

import click
import pytest

from refladder.commands.main import COMMANDS

LADDERS = ("--ladders", "demo/story")


def commands():
    return [import_module(f"refladder.commands.{name}").command for name in COMMANDS]


def options():
    return [
        (name, option)
        for name, command in zip(COMMANDS, commands(), strict=True)
        for option in command.params
        if isinstance(option, click.Option)
    ]


def test_help_of_every_command(command):
    for name in COMMANDS:
        done = command(name, "--help")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"Usage: refladder {name} ")
        assert command(name, "-h").out == done.out


def test_help_is_at_most_100_columns_wide(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    widest = {
        name: max(map(len, command(*filter(None, [name]), "--help").out.splitlines()))
        for name in ("", *COMMANDS)
    }
    assert {name: width for name, width in widest.items() if width > 100} == {}
    narrow = {name for name, width in widest.items() if width <= 80}
    assert narrow <= {""}  # the width is used


def test_help_lists_every_command_with_a_line(command):
    done = command("--help")
    assert done.code == 0
    for name, each in zip(COMMANDS, commands(), strict=True):
        line = rf"^  {name} +{re.escape(each.short_help)}$"
        assert re.search(line, done.out, re.MULTILINE), name


def test_every_option_is_described():
    assert [
        (name, option.opts)
        for name, option in options()
        if not (option.help or "").endswith(".")
        or option.name != option.name.lower()
        or not any(spelling.startswith("--") for spelling in option.opts)
    ] == []


def test_every_number_says_its_unit_or_what_it_counts():
    words = "unit|usd|tokens?|seed|rungs|times|fraction|share|number|count|second|character|judg|calls|most|0 to 1"
    numbers = (click.types.IntParamType, click.types.FloatParamType)
    assert [
        (name, option.opts, option.help)
        for name, option in options()
        if isinstance(option.type, numbers) and not re.search(words, option.help, re.IGNORECASE)
    ] == []


def test_no_command_declares_a_parameter_twice():
    for subject in commands():
        names = [name for parameter in subject.params for name in parameter.opts]
        assert len(names) == len(set(names))


def test_without_arguments_the_help_is_shown(command):
    done = command()
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: refladder [OPTIONS] COMMAND [ARGS]...")


def test_version(command):
    assert re.fullmatch(r"refladder, version \d+\.\d+\.\d+\n", command("--version").out)


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "refladder.toml"
        path.write_text(text)
        return ("--config", path)

    return write


def test_a_config_file_gives_the_options_that_are_not_on_the_line(
    command, config, stories, tmp_path
):
    out = tmp_path / "out.jsonl"
    given = config(
        f'[score]\nladders = "demo/story"\nrule = "hard-votes"\ndimension = ["coherence"]\nboth-orders = true\n'
        f'out = "{out}"\njson = true\n'
    )
    done = command(*given, "score", stories)
    assert done.code == 0
    assert json.loads(done.out)["signature"].endswith("|orders:2|rule:hard-votes|least-mass:0.05")
    stored = json.loads((tmp_path / "out.jsonl.run.json").read_text())["options"]
    assert (stored["rule"], stored["dimension"], stored["both_orders"]) == (
        "hard-votes",
        ["coherence"],
        True,
    )
    out.with_name(f"{out.name}.judgments.jsonl").unlink()
    done = command(*given, "score", stories, "--rule", "ladder-sum")
    assert json.loads(done.out)["signature"].endswith("|rule:ladder-sum|least-mass:0.05")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[score]\nladder = "demo/story"\n',
            "unknown option in {path} [score] 'ladder'; did you mean 'ladders'? Known: ",
        ),
        ("[scores]\n", "unknown table in {path} 'scores'; did you mean 'score'? Known: "),
        ('score = "x"\n', "{path}: 'score' must be a table, [score], found 'x'"),
        ("[score\n", "{path}:1: not TOML ("),
        ('[score]\nrule = ["a"]\n', "{path}: [score] rule must be one value, found ['a']"),
    ],
)
def test_what_a_config_file_may_not_hold(fails, config, stories, text, message):
    given = config(text)
    assert fails(2, *given, "score", stories).startswith(
        f"refladder: {message.format(path=given[1])}"
    )


@pytest.mark.parametrize("value", ['"demo/story"', '["demo/story"]'])
def test_one_value_of_an_option_that_can_be_repeated_is_a_list_of_one(
    command, config, tmp_path, value
):
    given = config(f"[evaluate]\nladders = {value}\n")
    done = command(*given, "evaluate", "demo/story", "--work", tmp_path / "work")
    assert done.code == 0
    assert (
        json.loads((tmp_path / "work" / "run.json").read_text())["options"]["ladders"]
        == "demo/story"
    )


def test_a_config_value_of_the_wrong_type(fails, config):
    given = config('[build]\nrungs = "five"\nout = "x"\n')
    assert "Invalid value for '--rungs': 'five' is not a valid integer range." in fails(
        2, *given, "build", "demo/story"
    )


def test_a_config_file_that_is_not_there(fails, tmp_path):
    message = fails(2, "--config", tmp_path / "none.toml", "list")
    assert message == f"refladder: {tmp_path / 'none.toml'}: no such file\n"


def test_show_places_scored_outputs_on_the_ladder(command, stories, tmp_path):
    scored = tmp_path / "scored.jsonl"
    command("score", stories, *LADDERS, "--out", scored)
    done = command(
        "show", "demo/story", "story-01", "--dimension", "coherence", "--scores", scored, "--json"
    )
    shown = done.rows[0]
    assert [rung["level"] for rung in shown["rungs"]] == [1, 2, 3, 4, 5]
    row = json.loads(scored.read_text().splitlines()[0])
    assert shown["outputs"] == [
        {
            "id": "o1", "text": row["output"], "score": row["coherence_score"], "grade": row["coherence_grade"],
            "spread": row["coherence_spread"], "note": None,
        }
    ]  # fmt: skip
    done = command("show", "demo/story", "story-01", "--dimension", "coherence", "--scores", scored)
    lines = [line.split() for line in done.out.splitlines() if re.match(r"\s+\d\.\d\d", line)]
    grades = [float(line[0]) for line in lines]
    assert grades == sorted(grades, reverse=True)
    # rung i of 5 stands at (i - 1/2)/5 of the way from 1 to 5: 1.4, 2.2, 3, 3.8, 4.6
    assert {"1.40", "2.20", "3.00", "3.80", "4.60"} <= {line[0] for line in lines}


def test_show_survives_half_a_surrogate_pair(command, tmp_path):
    row = {
        "context_id": "story-01",
        "output": "A \ud83d text.",
        "coherence_score": 2,
        "coherence_grade": 3.3,
        "output_id": "a",
    }
    path = tmp_path / "scored.jsonl"
    path.write_text(json.dumps(row) + "\n")
    arguments = ("show", "demo/story", "story-01", "--dimension", "coherence", "--scores", path)
    assert "A \ufffd text." in command(*arguments).out
    assert command(*arguments, "--json").rows[0]["outputs"][0]["text"] == "A \ud83d text."


def test_show_lists_contexts(command):
    done = command("show", "demo/story")
    contexts, _, certificate = done.out.partition("verdict: ")
    assert len(contexts.splitlines()) == 12
    assert contexts.startswith("story-01  A lighthouse keeper finds")
    assert certificate.startswith("drop (the ladders do not rise at some level)\n")
    assert set(command("show", "demo/story", "--json").rows[0]) == {"context_id", "text"}


def test_show_takes_scores_without_notes_and_refuses_others(command, fails, write_jsonl):
    row = {
        "context_id": "story-01",
        "output": "A text.",
        "coherence_score": 2,
        "coherence_grade": 3.3,
        "system": "a",
    }
    path = write_jsonl([row, {**row, "coherence_score": None, "coherence_grade": None}])
    arguments = ("show", "demo/story", "story-01", "--dimension", "coherence", "--scores", path)
    assert [one["score"] for one in command(*arguments, "--json").rows[0]["outputs"]] == [2.0, None]
    assert "not scored: no reason given" in command(*arguments).out
    write_jsonl([{name: value for name, value in row.items() if name != "coherence_score"}])
    assert fails(2, *arguments, "--json") == (
        f"refladder: {path}:1: no column 'coherence_score'; needs context_id, output, coherence_score and "
        "coherence_grade, as `refladder score` writes them. Columns there: context_id, output, coherence_grade, "
        "system\n"
    )
    write_jsonl([{**row, "coherence_grade": "good"}])
    assert fails(2, *arguments, "--json") == (
        f"refladder: {path}:1: column 'coherence_grade' must be a finite number or empty, found 'good'\n"
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("benchmarks", "hanna"),
        ("ladders", "demo/story"),
        ("backends", "builtin"),
        ("rules", "ladder-sum"),
        ("methods", "ladder"),
        ("prompts", "story/compare"),
    ],
)
def test_list_names_what_other_commands_take(command, kind, name):
    rows = command("list", kind, "--json").rows
    assert {row["kind"] for row in rows} == {kind}
    assert name in [row["name"] for row in rows]
    assert all(row["about"] and row["about"] != "registered by another package" for row in rows)
    assert name in command("list", kind).out


def test_build_resumes_and_reports(command, tmp_path):
    folder = tmp_path / "set"
    done = command("build", "demo/story", "--out", folder, "--rungs", "3", "--json")
    said = json.loads(done.out)
    assert said.pop("spent")[0]["calls"] == 24 * 3
    assert (done.code, said) == (0, {"folder": str(folder), "ladders": 24, "failed": 0})
    first = (folder / "ladders.jsonl").read_bytes()
    assert command("build", "demo/story", "--out", folder, "--rungs", "3").code == 0
    assert (folder / "ladders.jsonl").read_bytes() == first
    done = command("build", "demo/story", "--out", folder)
    assert done.code == 2
    assert done.err.endswith(
        "build.journal.jsonl:1: this journal was begun by another build (other rungs); choose another folder, or "
        f"delete {folder}/build.journal.jsonl\n"
    )
    (folder / "build.journal.jsonl").unlink()
    assert command("build", "demo/story", "--out", folder).code == 0
    assert len(json.loads((folder / "ladders.jsonl").read_text().splitlines()[0])["rungs"]) == 5


def test_build_takes_rungs_written_by_people(command, fails, tmp_path):
    human = tmp_path / "human.csv"
    human.write_text(
        "context_id,dimension,level,text\nstory-01,coherence,5,My best story of the lighthouse.\n"
    )
    arguments = (
        "build",
        "demo/story",
        "--dimension",
        "coherence",
        "--out",
        tmp_path / "set",
        "--human",
        human,
    )
    assert command(*arguments).code == 0
    first = json.loads((tmp_path / "set" / "ladders.jsonl").read_text().splitlines()[0])
    assert first["rungs"][4]["text"] == "My best story of the lighthouse."
    human.write_text("context_id,dimension,level,text\nstory-01,coherence,²,x\n")
    assert fails(2, *arguments) == f"refladder: {human}:2: column 'level' must be int, found '²'\n"
    human.write_text("context_id,dimension,level,text\n" + "story-01,coherence,5,x\n" * 2)
    assert fails(2, *arguments) == (
        f"refladder: {human}:3: level 5 of 'coherence' for context 'story-01' appears twice; keep one\n"
    )


def test_build_says_what_failed(command, tmp_path):
    rules = tmp_path / "rules.jsonl"
    rules.write_text('{"role": "worst", "text": "Rain."}\n{"role": "best", "error": "HTTP 503"}\n')
    done = command(
        "build", "demo/story", "--dimension", "coherence", "--writer", f"scripted:{rules}", "--attempts", "1",
        "--out", tmp_path / "set",
    )  # fmt: skip
    assert done.code in {2, 3}
    assert "HTTP 503" in done.err


def test_own_needs_its_files(fails, tmp_path):
    out = ("--out", tmp_path / "set")
    assert fails(2, "build", "own", *out) == (
        "refladder: benchmark 'own' is your own data; give the path of your table instead of 'own'\n"
    )
    assert fails(2, "build", "own", "--source", "x.jsonl", *out) == (
        "refladder: x.jsonl: a table of your own needs its task and dimensions; add --task-file TASK.toml\n"
    )
    assert fails(2, "build", "demo/story", "--column", "a=b", *out) == (
        "refladder: --task-file and --column are for a table of your own, not 'demo/story'\n"
    )


def test_the_demo_runs_the_whole_job(command, tmp_path):
    done = command("demo", "--out", tmp_path / "out")
    assert done.code == 0
    for words in (
        "== demo/story",
        "1. build: 24 ladders of 5 texts",
        "2. score: 72 outputs",
        "3. filter: ",
    ):
        assert words in done.out
    assert (tmp_path / "out" / "story" / "passed.jsonl").is_file()


@pytest.mark.parametrize("name", ["rungs.jsonl", "rungs.csv"])
@pytest.mark.parametrize("text", ["\n", "a,b\n"])
def test_a_table_of_human_rungs_without_rows_is_refused(fails, tmp_path, name, text):
    human = tmp_path / name
    human.write_text("" if name.endswith("jsonl") else text)
    message = fails(2, "build", "demo/story", "--out", tmp_path / "set", "--human", human)
    if name.endswith("jsonl") or text.strip():
        assert message == (
            f"refladder: {human}: no rows; human-written rungs need the columns context_id, dimension, level, text\n"
        )
    else:
        assert (
            message
            == f"refladder: {human}:1: a blank line; the first line of a CSV file names its columns\n"
        )
    assert not (tmp_path / "set").exists()
    assert fails(2, "build", "demo/story", "--out", tmp_path / "set", "--human", "") != ""
