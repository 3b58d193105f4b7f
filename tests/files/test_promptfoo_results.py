"""Results of promptfoo as tables; tests/integrations/test_other_logs.py has files that promptfoo wrote."""

from __future__ import annotations

import json
import sys

import pytest

from refladder.files.tables import read_rows

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]


def result(number, test, provider, output, score, *parts, **more):
    variables = {"question": ("Why is bread flat?", "How do I get wax out?")[test]}
    return {
        "id": f"r{number}",
        "promptIdx": 0,
        "testIdx": test,
        "testCase": {"vars": variables, "metadata": {"topic": "home"}},
        "provider": {"id": "openai:x", "label": provider},
        "prompt": {"raw": f"Q: {variables['question']}", "label": "Q: {{question}}"},
        "vars": variables,
        "response": {"output": output},
        "failureReason": 0,
        "score": score,
        "namedScores": {},
        "gradingResult": {"componentResults": list(parts)},
        **more,
    }


def part(kind, score, **more):
    return {"score": score, "assertion": {"type": kind, **more}}


RESULTS = [
    result(0, 0, "a", "Old yeast.", 1, part("human", 1), part("contains", 1)),
    # Its answer is there; an assertion does not hold.
    result(1, 0, "b", "It is flat.", 0, part("human", 0), failureReason=1, error="Expected"),
    result(
        2,
        1,
        "a",
        {"steps": ["scrape"]},
        0.5,
        part("contains", 1),
        part("contains", 0),
        part("llm-rubric", 1, metric="help"),
        namedScores={"help": 1},
    ),
    result(3, 1, "b", None, 0, failureReason=2, error="429 Too\nMany Requests"),
]
SUMMARY = "1 of 4 samples without an output"


def log(results, version=3):
    inner = {"version": version, "prompts": [], "results": results, "stats": {}}
    return {"evalId": "eval-1", "results": inner, "config": {}}


@pytest.fixture
def write_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(fields, name="out.json", indent=2):
        (tmp_path / name).write_text(json.dumps(fields, indent=indent), "utf-8")
        return name

    return write


def test_a_row_for_each_test_and_provider(write_log, caplog):
    rows = read_rows(write_log(log(RESULTS)))
    first, second, third, fourth = [row.fields for row in rows]
    question = "Why is bread flat?"
    assert first == {
        "sample_id": "r0",
        "id": 0,
        "model": "a",
        "prompt": "Q: {{question}}",
        "input": f"Q: {question}",
        "output": "Old yeast.",
        "error": None,
        "score_promptfoo": 1,
        "score_human": 1,
        "score_contains": 1,
        "metadata_topic": "home",
        "metadata_question": question,
        # Columns of other rows.
        "score_help": None,
        "score_contains_2": None,
    }
    assert (second["output"], second["error"], second["score_human"]) == ("It is flat.", None, 0)
    assert third["output"] == '{"steps": ["scrape"]}'
    scores = "score_promptfoo", "score_help", "score_contains", "score_contains_2"
    assert [third[name] for name in scores] == [0.5, 1, 1, 0]
    # What could not be asked has no score, although promptfoo wrote 0.
    assert (fourth["output"], fourth["score_promptfoo"]) == (None, None)
    assert caplog.messages == [f"out.json: {SUMMARY}: out.json:4 (429 Too Many Requests)"]


@pytest.mark.parametrize("form", ["one line", "lines", "version 4", "a chat", "gzip", "a pipe"])
def test_other_forms_have_the_same_rows(form, write_log, tmp_path, command):
    expected = [row.fields for row in read_rows(write_log(log(RESULTS[:2]), "first.json"))]
    name = write_log(log(RESULTS[:2], 4 if form == "version 4" else 3), "log.json")
    if form == "one line":
        write_log(log(RESULTS[:2]), name, indent=None)
    elif form == "lines":
        name = "log.txt.jsonl"
        lines = "".join(json.dumps(each) + "\n" for each in RESULTS[:2])
        (tmp_path / name).write_text(lines, "utf-8")
        # Each line has the columns of its own result.
        expected[1].pop("score_contains")
    elif form == "a chat":
        prompts = [{**each, "prompt": {"raw": json.dumps(CHAT)}} for each in RESULTS[:2]]
        write_log(log(prompts), name)
        expected = [{**each, "input": CHAT, "prompt": None} for each in expected]
    elif form == "gzip":
        import gzip

        name = "log.json.gz"
        (tmp_path / name).write_bytes(gzip.compress((tmp_path / "log.json").read_bytes()))
    elif form == "a pipe":
        line = "filter - --min score_promptfoo=0 --format jsonl"
        assert command(line, stdin=(tmp_path / name).read_bytes()).rows == expected
        return
    assert [row.fields for row in read_rows(name)] == expected


def test_commands_take_the_system_from_the_model_and_the_context_from_the_input(
    write_log, command, caplog
):
    name = write_log(log([*RESULTS, result(4, 1, "c", "Ice.", 1)]))
    done = command(f"compare {name} --by score_promptfoo --json")
    told = json.loads(done.out)
    # Only the first test has scores of a and b.
    assert [(each["system"], each["mean"], each["contexts"]) for each in told["systems"]] == [
        ("a", 0.75, 2),
        ("b", 0.0, 1),
        ("c", 1.0, 1),
    ]
    assert caplog.messages == [
        "out.json: 1 of 5 samples without an output: out.json:4 (429 Too Many Requests)"
    ]


def test_labels_and_ratings_of_a_log_need_no_ladder(write_log, tmp_path, command):
    name = write_log(log([*RESULTS, result(4, 1, "c", "Ice.", 1)]))
    # Two rows of one test have the same `id`, and different ids of their own.
    line = f"calibrate {name} --label score_human --good >=1 --by score_promptfoo --precision 0.5"
    told = json.loads(command(f"{line} --json").out)
    assert (told["rows"], told["unscored"], told["labels"]) == (4, 1, 2)
    (tmp_path / "task.toml").write_text(
        'task = "answer"\n[[dimensions]]\nname = "quality"\ndescription = "Helps."\nlow = 0\nhigh = 1\n'
    )
    line = f"evaluate {name} --task-file task.toml --column quality=score_human"
    done = command(f"{line} --scores {name} --score-column quality=score_promptfoo")
    assert "equals the human ratings" in done.err
    log_of_scores = {"model": "?", "input": "?", "output": "!"}
    lines = [
        json.dumps({"sample_id": name, **log_of_scores, "score": score}) + "\n"
        for name, score in (("r0", 3), ("r1", 1), ("r2", 2), ("r4", 2))
    ]
    (tmp_path / "own.jsonl").write_text("".join(lines), "utf-8")
    done = command(f"{line} --scores own.jsonl --level pooled --statistic spearman --json")
    # Of the two outputs with a rating, r0 has the higher rating and the higher score; None is a mean over contexts.
    found = [json.loads(each) for each in done.out.splitlines()]
    assert {each["value"] for each in found if each["method"] == "own"} == {1, None}


def test_what_is_no_log_of_these_versions_is_named(write_log, tmp_path, fails):
    def told(name):
        return fails(2, f"compare {name} --by score_promptfoo").removeprefix("refladder: ")

    known = "refladder reads those of versions 3 and 4\n"
    assert told(write_log(log(RESULTS, 2))) == f"out.json: results of promptfoo, version 2; {known}"
    broken = [{**RESULTS[0], "provider": None}]
    message = "out.json: no result of promptfoo (AttributeError("
    assert told(write_log(log(broken))).startswith(message)
    name = write_log(log(RESULTS))
    text = (tmp_path / name).read_text("utf-8")
    (tmp_path / name).write_text(text[: len(text) // 2], "utf-8")
    assert "not JSON (" in told(name)
    assert "or the file a log of promptfoo" in told(name)
    # Other JSON of many lines is no log.
    other = {"results": {"task": {"acc": 1}}, "versions": {}}
    assert "a JSON value over several lines; each line must be" in told(write_log(other))


def test_a_table_of_the_users_own_stays_as_it_is(write_log):
    own = {**RESULTS[0], "output": "Mine.", "context": "?"}
    (row,) = read_rows(write_log(own, "own.jsonl", indent=None))
    assert row.fields == own


def test_a_file_beyond_the_limit_is_not_read_as_a_whole(write_log, monkeypatch):
    from refladder.files import streams

    name = write_log(log(RESULTS))
    monkeypatch.setattr(streams, "LARGEST", 100)
    with pytest.raises(Exception, match="a JSON value over several lines"):
        list(read_rows(name))
    monkeypatch.setattr(streams, "LARGEST", sys.maxsize)
    assert len(list(read_rows(name))) == 4
