"""The page on plug-ins: its package is installed as its entry points say, and used by name."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from json_lines import read_lines, write_lines

import refladder
from refladder import registry
from refladder.errors import PlugInError, UsageError

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "plug-ins.md"
ROWS = [
    {"context_id": "story-01", "output": "A keeper found a bottle. She wept."},
    {"context_id": "story-02", "output": "sea sea sea sea"},
]


def blocks(title):
    """The blocks of a file on the page, one after the other."""
    found = re.findall(rf'```\w+ title="{title}"\n(.*?)```', PAGE.read_text("utf-8"), re.DOTALL)
    return "\n".join(found)


def install(folder, module):
    """Install the package of the page as pip would: its module, and its entry points in a folder of metadata."""
    project = tomllib.loads(blocks("pyproject.toml"))["project"]
    groups = project["entry-points"]
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    metadata = folder / "refladder_variety-1.0.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: refladder-variety\nVersion: 1.0\nSummary: {project['description']}\n"
    )
    (folder / "refladder_variety.py").write_text(module)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that installs the page's module, changed as it is told."""

    def go(old="", new=""):
        module = blocks("refladder_variety.py")
        assert old in module
        install(tmp_path, module.replace(old, new))

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    registry._registered.cache_clear()
    yield go
    registry._registered.cache_clear()
    sys.modules.pop("refladder_variety", None)


def test_the_judge_of_the_page_scores_a_table(installed, command):
    installed()
    write_lines("answers.jsonl", ROWS)
    line = "score answers.jsonl --ladders demo/story --judge variety: --judge-option steepness=8"
    done = command(f"{line} --any-judge --out scored.jsonl")
    assert done.code == 0, done.err
    first, second = read_lines("scored.jsonl")
    # Each word of the first text is another one; of the second, one of four is.
    assert first["coherence_grade"] > second["coherence_grade"]
    assert "backend:function:variety/1.0 steepness=8" in first["signature"]
    listed = [json.loads(line) for line in command("list backends --json").out.splitlines()]
    assert {each["name"]: each["about"] for each in listed}["variety"] == (
        "Counts different words (plug-in of refladder-variety 1.0: refladder_variety:open_variety)"
    )
    assert (
        "unknown option of backend 'variety' 'steep'; did you mean 'steepness'"
        in command(line.replace("steepness", "steep")).err
    )


def test_the_method_of_the_page_is_evaluated(installed, command):
    installed()
    line = "evaluate demo/story --methods sentences --resamples 5 --format json"
    done = command(line)
    assert done.code == 0, done.err
    assert "sentences" in {row["method"] for row in done.rows}
    done = command(f"{line} --method-option sentences.mots=5")
    assert "unknown option of method 'sentences' 'mots'; did you mean 'most'" in done.err


def test_the_mode_of_the_page_scores_a_table(installed, command):
    installed()
    write_lines("answers.jsonl", ROWS)
    rules = [
        {"contains": {"target": "bottle"}, "text": "B"},
        {"contains": {"target": "sea sea"}, "text": "I cannot say."},
        {"text": "C"},
    ]
    write_lines("rules.jsonl", rules)
    line = f"{LETTERS} --dimension coherence --out scored.jsonl"
    assert command(line).code == 3
    first, second = read_lines("scored.jsonl")
    # A is 5, so B is 4.
    assert (first["coherence_score"], second["coherence_score"]) == (4, None)
    assert "no letter from A to E; the answer is 'I cannot say.'" in second["coherence_note"]
    assert "|answers:letters|" in first["signature"]
    assert "letters  Counts different words (plug-in of refladder-variety 1.0:" in re.sub(
        " +", lambda found: "  " if len(found[0]) > 1 else " ", command("list modes").out
    )
    message = "use a number of 0 or more, stated, stated:K, rating, .*, anchored:stated, letters$"
    assert re.search(message, command(line.replace("letters", "leters")).err.strip())


def test_the_test_of_the_page_passes(installed):
    installed()
    exec(blocks("test_variety.py"), {})  # noqa: S102  the page's own text


SCORE = "score answers.jsonl --ladders demo/story --judge variety: --any-judge"
LETTERS = "score answers.jsonl --ladders demo/story --any-judge --answers letters --judge scripted:rules.jsonl"
EVALUATE = "evaluate demo/story --methods sentences"
OF_JUDGE = "backend 'variety' (refladder_variety:open_variety)"
OF_METHOD = "method 'sentences'"
STEP = "repair or uninstall that package"
REGISTER = "register a subclass of refladder.scoring.modes.Mode whose name is 'letters'"
BROKEN = """\
    class Broken(FunctionJudge):
        def read_labels(self, prompts, labels):
            raise KeyError("none")

    return Broken(judge)
"""
# What is changed in the module, the line of a command, and its message with the line of the file left out.
FAULTS = [
    (
        ("difference = variety", "difference = {}['none'] or variety"),
        SCORE,
        "function:variety/1.0 steepness=10 raised KeyError: 'none' (refladder_variety.py:N)",
    ),
    (
        ("    return FunctionJudge(judge)\n", BROKEN),
        SCORE,
        f"{OF_JUDGE} raised KeyError: 'none' (refladder_variety.py:N)",
    ),
    (
        ("    def judge(questions):", "    raise OSError('no key')\n\n    def judge(questions):"),
        SCORE,
        f"{OF_JUDGE} raised OSError: no key (refladder_variety.py:N)",
    ),
    (
        ("    options = settings.own", "    1 / 0\n    options = settings.own"),
        EVALUATE,
        f"{OF_METHOD} (refladder_variety:sentences) raised ZeroDivisionError: division by zero (refladder_variety.py:N)",
    ),
    (
        ("    return MethodResult(", "    dict("),
        EVALUATE,
        f"{OF_METHOD} returned NoneType, not a MethodResult; give run as refladder.methods.contract describes",
    ),
    (
        ('"""A judge', 'raise RuntimeError("broken")\n"""A judge'),
        EVALUATE,
        f"{OF_METHOD}: the package that registers it cannot be loaded from 'refladder_variety:sentences' (broken); {STEP}",
    ),
    (
        ("        letter = text", "        1 / 0\n        letter = text"),
        LETTERS,
        "mode 'letters' (refladder_variety:Letters) raised ZeroDivisionError: division by zero (refladder_variety.py:N)",
    ),
    (
        ('name = "letters"', 'name = "letter"'),
        LETTERS,
        f"mode 'letters': its entry point makes a mode called 'letter'; {REGISTER}",
    ),
    (
        ("class Letters(StatedRating):", "class Letters:"),
        LETTERS,
        f"mode 'letters': its entry point makes no mode; {REGISTER}",
    ),
    # An end of the program is no end of the run without a word.
    (
        ("difference = variety", "difference = exit(0) or variety"),
        SCORE,
        "function:variety/1.0 steepness=10 raised SystemExit: 0 (refladder_variety.py:N)",
    ),
    (
        ("    def judge(questions):", "    raise SystemExit\n\n    def judge(questions):"),
        SCORE,
        f"{OF_JUDGE} raised SystemExit:  (refladder_variety.py:N)",
    ),
    (
        ("    options = settings.own", "    raise SystemExit(0)\n    options = settings.own"),
        EVALUATE,
        f"{OF_METHOD} (refladder_variety:sentences) raised SystemExit: 0 (refladder_variety.py:N)",
    ),
    (
        ('"""A judge', 'raise SystemExit(0)\n"""A judge'),
        EVALUATE,
        f"{OF_METHOD}: the package that registers it cannot be loaded from 'refladder_variety:sentences' (SystemExit(0)); "
        + STEP,
    ),
]


@pytest.mark.parametrize(("change", "line", "message"), FAULTS)
def test_an_error_of_its_author_names_the_plug_in(installed, command, change, line, message):
    installed(*change)
    write_lines("answers.jsonl", ROWS)
    write_lines("rules.jsonl", [{"text": "B"}])
    done = command(line)
    last = done.err.splitlines()[-1]
    assert re.sub(r"py:\d+", "py:N", last) == f"refladder: {message}"
    assert done.code in {1, 2}


def test_a_call_raises_an_error_of_refladder(installed):
    installed("    return FunctionJudge(judge)\n", BROKEN)
    with pytest.raises(PlugInError, match=r"^backend 'variety' \(.*\) raised KeyError: 'none'"):
        refladder.score(ROWS, ladders="demo/story", judge="variety:")
    with pytest.raises(UsageError, match="unknown option of backend 'variety'"):
        refladder.connect("variety:", steep="3")
