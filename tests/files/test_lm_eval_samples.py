"""Samples of lm-eval as tables; tests/integrations/test_other_logs.py has files that lm-eval wrote."""

from __future__ import annotations

import json

import pytest

from refladder.errors import DataError
from refladder.files.tables import read_rows

OPTIONS = {"until": ["\n"]}
NEW = {"gen_args_0": {"arg_0": "Q: Why? A:", "arg_1": OPTIONS}}
OLD = [["Q: Why? A:", OPTIONS]]
CHAT = [{"role": "user", "content": "Why?"}]


def sample(doc_id=0, answers=("Because.",), arguments=NEW, **more):
    return {
        "doc_id": doc_id,
        "doc": {"question": "Why?"},
        "target": "Because.",
        "arguments": arguments,
        "resps": [["Because. Yes."]],
        "filtered_resps": list(answers),
        "filter": "none",
        "doc_hash": "a",
        "prompt_hash": "b",
        "target_hash": "c",
        **more,
    }


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt").mkdir()

    def rows(*samples):
        lines = "".join(json.dumps(each) + "\n" for each in samples)
        (tmp_path / "gpt" / "any.jsonl").write_text(lines, "utf-8")
        return [row.fields for row in read_rows("gpt/any.jsonl")]

    return rows


@pytest.mark.parametrize("arguments", [NEW, OLD], ids=["newer", "older"])
@pytest.mark.parametrize("listed", [{"metrics": ["exact_match"]}, {}], ids=["listed", "not listed"])
def test_a_sample_is_a_row(arguments, listed, read):
    (row,) = read(sample(3, arguments=arguments, exact_match=1.0, **listed))
    assert row == {
        "sample_id": "gpt/any.jsonl:1/1",
        "model": "gpt",
        "id": 3,
        "epoch": 1,
        "input": "Q: Why? A:",
        "output": "Because.",
        "target": "Because.",
        "filter": "none",
        "score_exact_match": 1.0,
        "metadata_question": "Why?",
    }


def test_other_forms_of_a_sample(read, caplog):
    """A chat as JSON, several answers of one request, a document that is a text, an empty answer, and none."""
    chat = {"gen_args_0": {"arg_0": [json.dumps(CHAT)], "arg_1": OPTIONS}}
    rows = read(
        sample(arguments=chat, answers=[["One.", "Two."]]), sample(1, [""], doc="?"), sample(2, [])
    )
    assert [(row["epoch"], row["output"]) for row in rows] == [
        (1, "One."),
        (2, "Two."),
        (1, ""),
        (1, None),
    ]
    assert rows[0]["input"] == rows[1]["input"] == CHAT
    assert len({row["sample_id"] for row in rows}) == 4
    assert rows[2]["metadata_doc"] == "?"
    assert caplog.messages == ["gpt/any.jsonl: 1 of 4 samples without an output: gpt/any.jsonl:4"]


def test_two_files_are_two_systems_and_are_scored(read, tmp_path, command):
    read(sample(exact_match=1), sample(1, ["No."], exact_match=0, arguments=OLD))
    (tmp_path / "llama").mkdir()
    text = (tmp_path / "gpt" / "any.jsonl").read_text("utf-8").replace('match": 1', 'match": 0')
    (tmp_path / "llama" / "other.jsonl").write_text(text, "utf-8")
    told = json.loads(
        command("compare gpt/any.jsonl llama/other.jsonl --by score_exact_match --json").out
    )
    assert [(each["system"], each["mean"]) for each in told["systems"]] == [
        ("gpt", 0.5),
        ("llama", 0),
    ]
    line = "score gpt/any.jsonl --ladders general/reply --dimension clarity --any-judge"
    rows = command(f"{line} --column context=metadata_question --quiet").rows
    assert [type(row["clarity_score"]) for row in rows] == [float, float]


def test_what_cannot_be_read_is_named(read):
    likely = {"gen_args_0": {"arg_0": "Q:", "arg_1": " yes"}}
    for arguments, message in (
        (likely, "lm-eval asked how likely given texts are, not for one; name samples of a task"),
        ([["Q:"]], "lm-eval asked how likely given texts are"),
        ("Q:", "lm-eval asked how likely given texts are"),
        (
            {"prompt": "Q:"},
            "arguments of lm-eval that are not a list, or an object with gen_args_0",
        ),
        ([], "arguments of lm-eval that are not"),
        (None, "arguments of lm-eval that are not"),
    ):
        with pytest.raises(DataError, match=rf"^gpt/any\.jsonl:1: {message}"):
            read(sample(arguments=arguments))
    with pytest.raises(DataError, match=r"any\.jsonl:2: no sample of lm-eval, as the lines before"):
        read(sample(), {"output": "?"})
    # With an output of its own, a line is no log.
    assert read(sample(output="Mine."))[0]["doc_id"] == 0
