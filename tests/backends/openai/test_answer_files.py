"""Answers through files: what is written, what is read, and that nothing is lost or written twice."""

import copy
import json
import os
import re
import stat
import subprocess
import sys
from dataclasses import replace

import pytest
from answering import answered, put, requests, short, vllm
from asked import LABELS, questions, to
from toy_server import MODEL, OPENAI, ToyServer

from refladder.backends import connect
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import SqliteStore
from refladder.backends.openai import answer_files
from refladder.errors import AnswersAwaitedError, DataError, UsageError
from refladder.files.locks import locked_folder
from refladder.records import Sampling

NOTES = "reason", "note"
PLACE = re.compile(r" \(custom_id '\w+', '[^']*answers[-\d]*\.jsonl:\d+'\)")
DRAWN = Sampling(max_tokens=8, temperature=1.0, top_p=1.0, seed=3)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "answers"


def through(folder, **options):
    return connect(f"openai:{MODEL}", base_url=f"file:{folder}", **options)


def read(folder, number=3, **options):
    return without_places(through(folder, **options).read_labels(questions(number), LABELS))


def without_places(readings):
    return [
        replace(each, **{name: PLACE.sub("", getattr(each, name) or "") or None for name in NOTES})
        for each in readings
    ]


def awaited(folder, message="3 requests wait", number=3, **options):
    with pytest.raises(AnswersAwaitedError, match=message):
        read(folder, number, **options)


@pytest.fixture
def lines(folder):
    """A line for each of three requests in the folder, the last request first."""
    awaited(folder)
    return answered(folder)


def direct(number=3, **options):
    with ToyServer(OPENAI) as server:
        return to(server, **{"mode": "sample", **options}).read_labels(questions(number), LABELS)


@pytest.mark.parametrize("mode", ["sample", "top"])
def test_answers_of_a_file_are_read_like_those_of_a_server(folder, mode):
    awaited(folder, mode=mode)
    first = requests(folder)[0]
    assert sorted(first) == ["body", "custom_id", "method", "url"]
    assert (first["method"], first["url"]) == ("POST", "/v1/chat/completions")
    assert first["custom_id"] == answer_files.digest(first["body"])
    assert stat.S_IMODE((folder / "requests-0001.jsonl").stat().st_mode) == 0o600
    lines = answered(folder)
    put(folder, [short(lines[0]) if mode == "sample" else lines[0], *lines[1:]])
    judge = through(folder, mode=mode)
    assert without_places(judge.read_labels(questions(3), LABELS)) == direct(mode=mode)
    assert judge.counts["requests"] == 3
    assert judge.counts["prompt tokens"] > 0


def test_texts(folder):
    with pytest.raises(AnswersAwaitedError, match="2 requests wait"):
        through(folder).write(questions(2), DRAWN)
    put(folder, map(short, answered(folder)))
    with ToyServer(OPENAI) as server:
        assert through(folder).write(questions(2), DRAWN) == to(server).write(questions(2), DRAWN)


def test_the_message_says_what_waits_and_how_to_answer(folder):
    wanted = (
        r"3 requests wait for an answer in .*answers \(requests-0001\.jsonl; 3 new\); have them answered, as by `vllm "
        r"run-batch --model toy -i .*requests-open\.jsonl -o .*answers-0001\.jsonl` or a provider's batch page, put "
        r"the answers into the folder as answers\*\.jsonl, and run the same command again"
    )
    awaited(folder, wanted)
    awaited(folder, r"3 requests wait .*\(requests-0001\.jsonl; 0 new; 0 of 3 answered\)")
    put(folder, answered(folder)[:1])
    still = (
        r"4 requests wait .*\(requests-0001\.jsonl, requests-0002\.jsonl; 2 new; 1 of 5 answered\)"
    )
    awaited(folder, still, number=5)


@pytest.mark.usefixtures("lines")
def test_a_file_that_may_hold_answers_is_named(folder, lines, caplog):
    for name in ("my-answers.jsonl", "answers.json", "Answers.csv", "batch_7_output.jsonl"):
        put(folder, lines, name)
    (folder / "notes.txt").write_text("mine")
    awaited(folder)
    (record,) = caplog.records
    assert record.message == (
        f"{folder / 'Answers.csv'}: not read (and 3 more files); answers are read from files named answers*.jsonl, so "
        "rename it if it holds answers"
    )


def test_a_folder_that_is_answered_for_another_name_of_the_model(folder, lines):
    put(folder, map(short, lines))
    other = connect("openai:two", base_url=f"file:{folder}")
    message = (
        "3 new; 3 of 6 answered.*; the answers there are for 'toy', and this run asks 'two'; have "
    )
    with pytest.raises(AnswersAwaitedError, match=message):
        other.read_labels(questions(3), LABELS)
    # A folder may hold the requests of two models.
    with pytest.raises(AnswersAwaitedError, match=r"2 new; 3 of 8 answered[^;]*; have "):
        other.write(questions(2), DRAWN)


@pytest.mark.usefixtures("lines")
def test_a_request_is_written_once_by_whoever_needs_it(folder):
    message = (
        r"5 requests wait .*\(requests-0001\.jsonl, requests-0002\.jsonl; 2 new; 0 of 5 answered\)"
    )
    awaited(folder, message, number=5)
    names = {request["custom_id"] for request in requests(folder)}
    assert len(names) == len(requests(folder)) == 5
    put(folder, answered(folder))
    assert read(folder, 5) == direct(5)


def test_one_file_holds_what_still_waits(folder, lines):
    waiting = folder / "requests-open.jsonl"
    assert waiting.read_text() == (folder / "requests-0001.jsonl").read_text()
    assert stat.S_IMODE(waiting.stat().st_mode) == 0o600
    put(folder, lines[1:], "answers-0001.jsonl")
    awaited(folder, r"1 request waits .* -i .*requests-open\.jsonl -o .*answers-0002\.jsonl`")
    [left] = map(json.loads, waiting.read_text().splitlines())
    assert left["custom_id"] == lines[0]["custom_id"]
    put(folder, lines[:1], "answers-0002.jsonl")
    assert read(folder) == direct()
    assert not waiting.exists()
    assert len(requests(folder)) == 3


def test_many_requests_are_divided(folder, monkeypatch):
    monkeypatch.setattr(answer_files, "MOST_REQUESTS", 2)
    awaited(folder, r"\(requests-0001\.jsonl to requests-0004\.jsonl; 7 new\)", number=7)
    monkeypatch.setattr(answer_files, "MOST_BYTES", 100)
    awaited(folder, "2 new", number=9)
    assert len(requests(folder)) == 9
    assert len((folder / "requests-0005.jsonl").read_text().splitlines()) == 1


def test_what_is_answered_goes_to_the_store_and_the_rest_waits(folder, lines, tmp_path):
    put(folder, lines[:2])
    with SqliteStore(tmp_path / "r.sqlite") as store:
        judge = Stored(through(folder), store)
        with pytest.raises(
            AnswersAwaitedError, match=r"1 request waits .*; 0 new; 2 of 3 answered\)"
        ):
            judge.read_labels(questions(3), LABELS)
        # One of the two is read in part, and is read again, as a person may correct its line.
        assert store.count() == 1
        put(folder, lines[2:], "answers-2.jsonl")
        assert without_places(judge.read_labels(questions(3), LABELS)) == direct()


def test_fewer_answers_than_were_asked_for_are_used_and_the_rest_is_asked(folder):
    awaited(folder, "1 request waits", number=1)
    line = answered(folder)[0]
    del line["response"]["body"]["choices"][18:]
    put(folder, [line])
    awaited(folder, "2 requests wait .*2 new", number=1)
    rest = [{"custom_id": one["custom_id"], "text": "Better"} for one in requests(folder)[1:]]
    put(folder, rest, "answers-2.jsonl")
    assert read(folder, 1)[0].logprobs is not None


EXPIRED = {"code": "batch_expired", "message": "This request could not be executed in time."}


@pytest.mark.parametrize("status", [401, 404, 408, 429, 500, 503, "expired"])
def test_a_request_that_may_be_answered_later_waits_again(folder, lines, status):
    if status == "expired":
        failed, reason = {**lines[0], "response": None, "error": EXPIRED}, EXPIRED["message"]
    else:
        failed, reason = vllm(lines[0], "again", status), f"the server answered {status}: again"
    put(folder, [failed, *lines[1:]])
    wanted = "1 request waits .*; 1 request failed and waits again, the first at "
    awaited(folder, wanted + rf".*answers\.jsonl:1: {re.escape(reason)}; have")
    put(folder, lines[:1], "answers-2.jsonl")
    assert read(folder) == direct()


def spoilt(change):
    """A function that changes the body of a line."""

    def spoil(line):
        change(line["response"]["body"])
        return line

    return spoil


def doubled(body):
    body["choices"][1]["index"] = 0


def impossible(body):
    body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0]["logprob"] = 2.0


@pytest.mark.parametrize(
    ("spoil", "mode", "reason"),
    [
        (lambda line: vllm(line, "too long", 400), "sample", "the server answered 400: too long"),
        (spoilt(lambda body: body.update(choices=3)), "sample", "the answer holds no choices"),
        (spoilt(doubled), "sample", "20 choices with the indices 0, 0, 2, 3, 4, where 20 were"),
        (
            spoilt(lambda body: body.update(choices=["Better"] * 20)),
            "sample",
            "20 of 20 answers unparsed: 20 x empty choice",
        ),
        (spoilt(impossible), "top", "an invalid entry among the log-probabilities"),
    ],
)
def test_a_request_without_a_sound_answer_is_unreadable(folder, spoil, mode, reason):
    awaited(folder, mode=mode)
    lines = answered(folder)
    put(folder, [spoil(lines[0]), *lines[1:]])
    found = read(folder, mode=mode)
    assert found[2].logprobs is None  # the lines come in reverse order
    assert reason in found[2].reason
    assert all(reading.logprobs is not None for reading in found[:2])


@pytest.mark.parametrize("text", [3, [], ["Better", None], {"a": 1}])
def test_a_short_answer_that_is_no_text(folder, lines, text):
    put(folder, [{"custom_id": lines[0]["custom_id"], "text": text}, *lines[1:]])
    awaited(folder, r"answers\.jsonl:1: text must be a text or a list of texts")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"custom_id": "abc', "answers.jsonl:4: not a JSON object with a custom_id"),
        ("[1]\n\xff", "not a JSON object with a custom_id, so it is left out (and 1 more line of"),
        ({"custom_id": "f" * 32, "text": "a"}, "answers.jsonl:4: answers no request in"),
        (None, "answers.jsonl:4: a second, different answer to a request; the first one is used"),
    ],
)
def test_other_lines_are_named_and_the_rest_is_read(folder, lines, caplog, line, message):
    second = {"custom_id": lines[0]["custom_id"], "text": ["Worse"] * 20}
    put(folder, [*lines, line or second])
    assert read(folder) == direct()
    (record,) = caplog.records
    assert message in record.message


def test_an_answer_that_comes_twice_is_counted_once(folder, lines, caplog):
    again = copy.deepcopy(lines)
    again[0]["response"]["body"] |= {"id": "another", "created": 2}
    put(folder, [*lines, *again])
    judge = through(folder)
    assert without_places(judge.read_labels(questions(3), LABELS)) == direct()
    assert judge.counts["requests"] == 3
    assert caplog.records == []


@pytest.mark.usefixtures("lines")
def test_answers_of_another_run(folder, tmp_path, caplog):
    other = tmp_path / "other"
    with pytest.raises(AnswersAwaitedError):
        through(other).write(questions(2), DRAWN)
    put(folder, answered(other))
    awaited(folder, r"3 requests wait .*; 0 new; 0 of 3 answered\)")
    (record,) = caplog.records
    assert record.message == (
        f"{folder / 'answers.jsonl'}: answers none of the requests in {folder}; if it belongs to another run, put it "
        "into the folder of that run"
    )


def test_answers_are_read_without_the_file_of_their_requests(folder, lines):
    put(folder, lines[1:])
    (folder / "requests-0001.jsonl").unlink()
    awaited(folder, r"1 request waits .*\(requests-0001\.jsonl; 1 new\)")


def test_names_of_one_model():
    same = [("toy", "toy"), ("toy", "lab/Toy"), ("gpt-4o", "gpt-4o-2024-08-06")]
    same += [("claude-latest", "claude-20250101")]
    same += [("toy", "toy-20250101"), ("toy", "toy@20250101"), ("toy", "toy:8b")]
    other = [("gpt-4o", "gpt-4o-mini"), ("toy", "other"), ("model-4", "model-4-5")]
    for asked, answering in (*same, *other):
        for pair in ((answering, asked), (asked, answering)):
            assert answer_files._same_model(*pair) == ((asked, answering) in same)


def test_answers_of_another_model_are_not_used(folder, lines, caplog):
    lines[0]["response"]["body"]["model"] = "other"
    put(folder, lines)
    awaited(folder, "1 request waits")
    (record,) = caplog.records
    assert record.message == (
        f"{folder / 'answers.jsonl'}:1: an answer of the model 'other', and 'toy' was asked, so its request still "
        "waits; if both are the same model, remove the field model from these lines"
    )


LENGTH = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
TEMPERATURE = "Unsupported value: 'temperature' does not support 0.5"


@pytest.mark.parametrize(
    ("refused", "field", "tempered"),
    [(LENGTH, "max_completion_tokens", True), (TEMPERATURE, "max_tokens", False)],
)
@pytest.mark.usefixtures("lines")
def test_fields_that_are_refused_are_not_asked_again(folder, refused, field, tempered):
    put(folder, [vllm(request, refused, 400) for request in requests(folder)])
    awaited(folder, "3 requests wait .*3 new")
    again = requests(folder)[3:]
    assert all(field in request["body"] for request in again)
    assert all(("temperature" in request["body"]) == tempered for request in again)
    lines = [{"custom_id": one["custom_id"], "text": ["Better"] * 20} for one in again]
    put(folder, lines, "answers-2.jsonl")
    assert all(reading.logprobs is not None for reading in read(folder))


@pytest.mark.usefixtures("lines")
def test_a_folder_keeps_its_id_where_it_is_moved(folder, tmp_path):
    before = through(folder).fingerprint
    assert str(tmp_path) not in before
    folder.rename(tmp_path / "moved")
    assert through(tmp_path / "moved").fingerprint == before
    assert through(tmp_path / "other").fingerprint != before
    assert not (tmp_path / "other").exists()


def test_a_record_that_is_not_that_of_a_folder(folder):
    folder.mkdir()
    (folder / "folder.json").write_text('{"schema": "other/1"}')
    message = r"folder\.json: not the record of a folder of answers .*; name another folder"
    with pytest.raises(DataError, match=message):
        read(folder)


ONE_REQUEST = "mode must be sample or top, found 'exact', because a prompt is one request"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("openai:toy", {"mode": "exact"}, f"through files {ONE_REQUEST}"),
        (
            "openai:toy",
            {"timeout": "3"},
            "timeout is an option of a server, and file:.* is a folder",
        ),
        ("openai:toy", {"base_url": "file:"}, "--base-url file: names no folder; give file:FOLDER"),
        (
            "reward:toy",
            {},
            "reward:toy is asked on a server, and file:.* is a folder; name its URL",
        ),
    ],
)
def test_what_a_folder_cannot_do(folder, name, options, message):
    with pytest.raises(UsageError, match=message):
        connect(name, **{"base_url": f"file:{folder}", **options})


@pytest.mark.usefixtures("lines")
def test_two_processes_do_not_write_to_a_folder_at_one_time(folder):
    message = rf"process {os.getpid()} on host .* UTC; wait for it to finish, or choose"
    with locked_folder(folder), pytest.raises(UsageError, match=message):
        read(folder)


@pytest.mark.parametrize("kind", ["dangling", "looping", "pipe", "folder"])
def test_what_is_no_file_of_answers_is_named(folder, kind):
    folder.mkdir()
    path = folder / "answers-9.jsonl"
    {
        "dangling": lambda: path.symlink_to("nowhere"),
        "looping": lambda: path.symlink_to(path.name),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }[kind]()
    message = "not a regular file" if kind in {"pipe", "folder"} else "cannot be read ("
    with pytest.raises(DataError, match=re.escape(f"{path}: {message}")):
        read(folder)


def test_the_notice_says_where_answers_come_from(folder):
    assert through(folder).notice == f"toy: answers come from files in {folder}"


KILLED = """
import json, os, signal, sys
from pathlib import Path
from refladder.backends import connect
from refladder.files import jsonl, locks
from asked import LABELS, questions
folder = Path(sys.argv[1])
STEPS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir")

def run(left):
    def step(event, args):
        nonlocal left
        if event in STEPS and str(folder) in str(args[0]):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
    judge = connect("openai:toy", base_url=f"file:{folder}")
    sys.addaudithook(step)
    judge.load()
    judge.read_labels(questions(3), LABELS)

for steps in range(60):
    child = os.fork()
    if child == 0:
        run(steps)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    ids = [json.loads(path.read_text())["id"] for path in folder.glob("folder.json")]
    lines = [len(path.read_text().splitlines()) for path in folder.glob("requests-[0-9]*.jsonl")]
    print(json.dumps({"killed": killed, "ids": ids, "lines": lines}), flush=True)
    if not killed:
        break
"""


def test_kill_9_between_any_two_steps_loses_nothing(folder, request):
    """Each run is killed before its next step on a file of the folder: at first before the first one."""
    tests = request.config.rootpath / "tests"
    paths = [str(request.config.rootpath), str(tests), str(tests / "support/openai")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", KILLED, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    states = [json.loads(line) for line in done.stdout.splitlines()]
    assert "3 requests wait" in done.stderr
    assert len(states) > 6
    assert [state["killed"] for state in states] == [True] * (len(states) - 1) + [False]
    assert len({number for state in states for number in state["ids"]}) == 1
    assert {count for state in states for count in state["lines"]} == {3}
    assert len({request["custom_id"] for request in requests(folder)}) == len(requests(folder)) == 3
    put(folder, answered(folder))
    assert read(folder) == direct()
