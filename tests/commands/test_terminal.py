"""What data holds cannot steer a terminal: escapes in names and texts are printed as U+FFFD."""

from __future__ import annotations

import json

import pytest

from refladder.commands.console import printable, printable_json
from refladder.scoring.columns import column_names

ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b2J"
SAFE = "\ufffd]0;title\ufffd\ufffd[2J\ufffd2J"


def is_safe(text):
    return not any(character < " " and character not in "\n\t" for character in text) and not any(
        "\x7f" <= character <= "\x9f" for character in text
    )


@pytest.fixture
def ladders(tmp_path):
    """A ladder set with escapes in every name and text."""
    folder = tmp_path / "set"
    folder.mkdir()
    name = f"c{ESCAPES}"
    dimension = {
        "schema": "dimension/1",
        "name": f"d{ESCAPES}",
        "description": f"about {ESCAPES}",
        "low": 1,
        "high": 5,
    }
    context = {"schema": "context/1", "id": name, "task": "story", "text": f"text {ESCAPES}"}
    rungs = [{"level": level, "text": f"rung {level} {ESCAPES}"} for level in (1, 2)]
    recipe = {"backend": "b", "prompts": [], "sampling": None, "version": "1"}
    ladder = {
        "schema": "ladder/1", "context_id": name, "task": "story", "dimension": dimension["name"], "rungs": rungs,
        "recipe": recipe,
    }  # fmt: skip
    for file, record in (("dimensions", dimension), ("contexts", context), ("ladders", ladder)):
        (folder / f"{file}.jsonl").write_text(json.dumps(record) + "\n")
    return folder


def test_show(command, ladders, tmp_path):
    name, (score, grade, _, _, note) = f"c{ESCAPES}", column_names(f"d{ESCAPES}")
    scores = tmp_path / "scores.jsonl"
    row = {"context_id": name, "output": f"out {ESCAPES}", score: 1.0, grade: 2.0}
    rows = [
        {**row, "output_id": f"scored {ESCAPES}"},
        {**row, "output_id": f"un {ESCAPES}", grade: None, note: f"why {ESCAPES}"},
    ]
    scores.write_text("".join(json.dumps(row) + "\n" for row in rows))
    listed = command("show", ladders)
    assert (listed.code, is_safe(listed.out)) == (0, True)
    assert f"c{SAFE}  text {SAFE}" in listed.out
    shown = command("show", ladders, name, "--scores", scores)
    assert (shown.code, is_safe(shown.out + shown.err)) == (0, True), shown.err
    assert "why" in shown.out
    for arguments in ((), (name, "--scores", scores)):
        for_programs = command("show", ladders, *arguments, "--json")
        assert (for_programs.code, is_safe(for_programs.out)) == (0, True)
        assert for_programs.rows[0]["context_id"] == name  # nothing is lost


def test_show_says_which_ladder_is_missing(command, ladders):
    with (ladders / "dimensions.jsonl").open("a") as stream:
        more = {
            "schema": "dimension/1",
            "name": f"more{ESCAPES}",
            "description": "",
            "low": 1,
            "high": 5,
        }
        stream.write(json.dumps(more) + "\n")
    done = command("show", ladders, f"c{ESCAPES}")
    assert done.err == f"no more{SAFE} ladder for c{SAFE}\n"


def test_compete(command, write_jsonl, tmp_path):
    source = write_jsonl([{"id": f"row {ESCAPES}", "a": "x"}, {"id": f"empty {ESCAPES}", "a": ""}])
    texts = write_jsonl([{"contains": "Say", "text": f"A text {ESCAPES}"}], name="texts.jsonl")
    done = command(
        "compete", source, "--prompt-text", "Say {a}", "--model", f"one{ESCAPES}=scripted:{texts}",
        "--model", f"two{ESCAPES}=scripted:{texts}", "--judge", "builtin", "--criterion", f"good{ESCAPES}=words",
        "--out", tmp_path / f"out {ESCAPES}",
    )  # fmt: skip
    assert done.code == 3
    assert "\ufffd[2J\ufffd2J" in done.out
    assert f"out {SAFE}/results.jsonl holds" in done.err
    assert is_safe(done.out + done.err)


def test_build_names_failed_rungs(command, write_jsonl, tmp_path):
    source = write_jsonl([{"context_id": f"c{ESCAPES}", "context": "One. Two. Three."}])
    task = tmp_path / "task.toml"
    task.write_text(
        'task = "story"\n[[dimensions]]\nname = "d"\ndescription = "x"\nlow = 1\nhigh = 5\n'
    )
    script = write_jsonl([], name="script.jsonl")
    done = command(
        "build", "own", "--source", source, "--task-file", task, "--writer", f"scripted:{script}",
        "--out", tmp_path / f"set {ESCAPES}",
    )  # fmt: skip
    assert done.code in {1, 2, 3}
    assert is_safe(done.out + done.err)


def test_evaluate_with_a_dimension_that_holds_escapes(command, write_jsonl, tmp_path):
    rows = [
        {"context_id": f"c{number}{ESCAPES}", "context": "One two.", "system": f"s{place}{ESCAPES}",
         "output": f"Text {place * number}.", "a\x1bb": place}
        for number in (1, 2) for place in (1, 2, 3)
    ]  # fmt: skip
    source = write_jsonl(rows)
    task = tmp_path / "task.toml"
    task.write_text(
        'task = "story"\n[[dimensions]]\nname = "a\\u001bb"\ndescription = "x"\nlow = 1\nhigh = 5\n'
    )
    scores = write_jsonl(
        [{"context_id": row["context_id"], "system": row["system"], "score": 1.0} for row in rows],
        name="m\x1b[2J.jsonl",
    )
    for form in ("text", "markdown", "latex", "json", "csv"):
        done = command(
            "evaluate", "own", "--source", source, "--task-file", task, "--scores", scores, "--methods", "ladder",
            "--format", form,
        )  # fmt: skip
        assert "refladder:" not in done.err
        assert is_safe(done.out + done.err), form


def test_json_for_a_terminal_loses_nothing():
    value = {"a": f"é {ESCAPES}\u2028"}
    text = printable_json(json.dumps(value, ensure_ascii=False))
    assert is_safe(text)
    assert "é" in text
    assert json.loads(text) == value


def test_one_function_makes_text_safe():
    assert printable(f"a\tb\n{ESCAPES}\r") == f"a\tb\n{SAFE}\ufffd"
