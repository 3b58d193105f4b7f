"""Logs that promptfoo and lm-eval write, as tables."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from json_lines import read_lines

PROMPTFOO = Path(__file__).parents[2] / "build/promptfoo/node_modules/.bin/promptfoo"
QUESTIONS = "Why does it rain?", "Why is bread flat?"
# A provider of promptfoo that fails for the second question.
FAILS = """module.exports = class {
  id() { return 'fails'; }
  async callApi(prompt) {
    return prompt.includes('bread') ? { error: '429 Too Many Requests' } : { output: 'From clouds.' };
  }
};
"""
QUIET = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
}


def run(folder, arguments, **more):
    done = subprocess.run(
        arguments, cwd=folder, env={**os.environ, **more}, capture_output=True, check=False
    )
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("name", ["out.json", "out.jsonl"])
def test_a_log_of_promptfoo(name, tmp_path, monkeypatch, command, caplog):
    if not PROMPTFOO.exists():
        pytest.skip("no promptfoo; `make test-integrations` fetches it")
    (tmp_path / "fails.js").write_text(FAILS, "utf-8")
    config = {
        "prompts": ["Tell me: {{question}}"],
        "providers": ["echo", "file://fails.js"],
        "tests": [{"vars": {"question": each}, "metadata": {"set": "mine"}} for each in QUESTIONS],
        "defaultTest": {
            "assert": [
                {"type": "contains", "value": "rain"},
                {"type": "javascript", "value": "output.length > 20", "metric": "long"},
            ]
        },
    }
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    line = f"eval -c config.json -o {name} --no-cache --no-progress-bar --no-table -j 1"
    code, said = run(
        tmp_path,
        [str(PROMPTFOO), *line.split()],
        PROMPTFOO_CONFIG_DIR=str(tmp_path / "settings"),
        **QUIET,
    )
    # promptfoo ends with the code 100 where a test fails.
    assert code in {0, 100}, said
    monkeypatch.chdir(tmp_path)
    line = f"score {name} --ladders general/reply --dimension clarity --any-judge --column context=input"
    assert command(f"{line} --out scored.jsonl").code == 3
    rows = {(row["model"], row["metadata_question"]): row for row in read_lines("scored.jsonl")}
    echo, other = (rows["echo", each] for each in QUESTIONS)
    assert echo["output"] == echo["input"] == f"Tell me: {QUESTIONS[0]}"
    # Both checks hold for the first question; of the second, only its length does.
    scores = "score_promptfoo", "score_contains", "score_long"
    assert [echo[each] for each in scores] == [1, 1, 1]
    assert [other[each] for each in scores] == [0.5, 0, 1]
    assert (echo["id"], other["id"], echo["metadata_set"]) == (0, 1, "mine")
    assert type(echo["clarity_score"]) is float
    short, failed = (rows["fails", each] for each in QUESTIONS)
    assert (short["output"], short["score_promptfoo"]) == ("From clouds.", 0)
    assert (failed["output"], failed["score_promptfoo"]) == (None, None)
    assert failed["clarity_note"] == "the output is null"
    assert [each for each in caplog.messages if "1 of 4 samples without an output" in each]
    told = json.loads(command(f"compare {name} --by score_promptfoo --json").out)
    assert {each["system"]: each["mean"] for each in told["systems"]} == {"echo": 0.75, "fails": 0}
    assert len({row["sample_id"] for row in rows.values()}) == 4


STORY = """task: story
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "Q: {{{{question}}}} A:"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"]}}
metric_list: [{{metric: exact_match}}]
"""


def test_a_log_of_lm_eval(tmp_path, monkeypatch, command, fails):
    """The dummy model answers `lol` to everything."""
    pytest.importorskip(
        "lm_eval", reason="lm-eval is not installed; pip install lm-eval in build/integrations"
    )
    rows = [
        {"question": question, "answer": answer}
        for question, answer in zip(QUESTIONS, ("lol", "yeast"), strict=True)
    ]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    story = STORY.format(data=data)
    (tmp_path / "story.yaml").write_text(story, "utf-8")
    choice = story.replace("task: story", "task: choice").replace(
        "generate_until", "multiple_choice"
    )
    choice = choice.replace("exact_match", "acc").replace('"{{answer}}"', "0")
    (tmp_path / "choice.yaml").write_text(f"{choice}doc_to_choice: [lol, yeast]\n", "utf-8")
    line = "-m lm_eval --model dummy --tasks story,choice --include_path . --log_samples --output_path out"
    code, said = run(
        tmp_path, [sys.executable, *line.split()], HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1"
    )
    assert code == 0, said
    monkeypatch.chdir(tmp_path)
    (written,) = Path("out").glob("*/samples_story_*.jsonl")
    line = "--ladders general/reply --dimension clarity --any-judge --out scored.jsonl"
    done = command(f"score {written} --column context=input {line}")
    assert done.code == 0, done.err
    first, second = read_lines("scored.jsonl")
    assert (first["input"], first["output"], first["target"]) == (
        "Q: Why does it rain? A:",
        "lol",
        "lol",
    )
    assert (first["score_exact_match"], second["score_exact_match"]) == (1, 0)
    assert first["metadata_question"] == QUESTIONS[0]
    assert first["model"] == written.parent.name
    assert type(first["clarity_score"]) is float
    Path("other").mkdir()
    shutil.copy(written, "other")
    told = json.loads(
        command(f"compare {written} other/{written.name} --by score_exact_match --json").out
    )
    assert [each["mean"] for each in told["systems"]] == [0.5, 0.5]
    (likely,) = Path("out").glob("*/samples_choice_*.jsonl")
    assert "lm-eval asked how likely given texts are" in fails(
        2, f"compare {likely} --by score_acc"
    )
