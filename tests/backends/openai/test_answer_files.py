"""Answers through files: what is written, what is read, and that nothing is lost or written twice."""

import copy
import json
import os
import signal
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
from refladder.backends.cache.store import ResponseStore
from refladder.backends.openai import answer_files
from refladder.backends.sampled import Sampled
from refladder.errors import AnswersAwaitedError, DataError, UsageError
from refladder.files.locks import locked_folder
from refladder.records import Sampling

DRAWN = Sampling(max_tokens=8, temperature=1.0, top_p=1.0, seed=3)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "answers"


def through(folder, **options):
    return connect(f"openai:{MODEL}", base_url=f"file:{folder}", **options)


def read(folder, number=3, **options):
    return through(folder, **options).read_labels(questions(number), LABELS)


def awaited(folder, message="3 requests wait", number=3, **options):
    with pytest.raises(AnswersAwaitedError, match=message):
        read(folder, number, **options)


def direct(number=3, **options):
    with ToyServer(OPENAI) as server:
        return to(server, **options).read_labels(questions(number), LABELS)


@pytest.mark.parametrize("mode", ["sample", "top"])
def test_answers_of_a_file_are_read_like_those_of_a_server(folder, mode):
    awaited(folder, mode=mode)
    first = requests(folder)[0]
    assert sorted(first) == ["body", "custom_id", "method", "url"]
    assert (first["method"], first["url"]) == ("POST", "/v1/chat/completions")
    assert first["custom_id"] == answer_files.digest(first["body"])
    assert stat.S_IMODE((folder / "requests-0001.jsonl").stat().st_mode) == 0o600
    put(folder, answered(folder))
    judge = through(folder, mode=mode)
    assert judge.read_labels(questions(3), LABELS) == direct(mode=mode)
    lengths = [len(ToyServer(OPENAI).model.render(prompt.messages)) for prompt in questions(3)]
    assert judge.counts["requests"] == len(lengths)
    assert judge.counts["prompt tokens"] > 0


def test_the_short_form_and_lines_of_vllm_in_one_file(folder):
    awaited(folder)
    lines = answered(folder)
    put(folder, [short(lines[0]), *lines[1:]])
    assert read(folder) == direct(mode="sample")


def test_texts(folder):
    with pytest.raises(AnswersAwaitedError, match="2 requests wait"):
        through(folder).write(questions(2), DRAWN)
    put(folder, map(short, answered(folder)))
    with ToyServer(OPENAI) as server:
        assert through(folder).write(questions(2), DRAWN) == to(server).write(questions(2), DRAWN)


def test_the_message_says_what_waits_and_how_to_answer(folder):
    wanted = (
        r"3 requests wait for an answer in .*answers \(requests-0001\.jsonl; 3 new\); have them answered, as by `vllm "
        r"run-batch --model toy -i .*requests-0001\.jsonl -o .*answers-0001\.jsonl` or a provider's batch page, put "
        r"the answers into the folder as answers\*\.jsonl, and run the same command again"
    )
    awaited(folder, wanted)
    awaited(folder, r"3 requests wait .*\(requests-0001\.jsonl; 0 new\)")
    awaited(folder, r"1 request waits .*\(requests-0001\.jsonl; 0 new\)", number=1)


def test_a_request_is_written_once_by_whoever_needs_it(folder):
    awaited(folder)
    awaited(
        folder, r"5 requests wait .*\(requests-0001\.jsonl, requests-0002\.jsonl; 2 new\)", number=5
    )
    names = [request["custom_id"] for request in requests(folder)]
    assert len(names) == len(set(names)) == 5
    put(folder, answered(folder))
    assert read(folder, 5) == direct(5, mode="sample")


def test_many_requests_are_divided(folder, monkeypatch):
    monkeypatch.setattr(answer_files, "MOST_REQUESTS", 2)
    awaited(folder, r"\(requests-0001\.jsonl to requests-0004\.jsonl; 7 new\)", number=7)
    monkeypatch.setattr(answer_files, "MOST_BYTES", 100)
    awaited(folder, "2 new", number=9)
    assert len(requests(folder)) == 9
    assert len((folder / "requests-0005.jsonl").read_text().splitlines()) == 1


def test_what_is_answered_goes_to_the_store_and_the_rest_waits(folder, tmp_path):
    awaited(folder)
    put(folder, answered(folder)[:2])
    with ResponseStore(tmp_path / "r.sqlite") as store:
        judge = Stored(through(folder), store)
        with pytest.raises(AnswersAwaitedError, match=r"1 request waits .*; 0 new\)"):
            judge.read_labels(questions(3), LABELS)
        assert store.count() == 2
        put(folder, answered(folder)[2:], "answers-2.jsonl")
        assert judge.read_labels(questions(3), LABELS) == direct(mode="sample")


def test_fewer_answers_than_were_asked_for_are_used_and_the_rest_is_asked(folder):
    awaited(folder, "1 request waits", number=1)
    line = answered(folder)[0]
    line["response"]["body"]["choices"] = line["response"]["body"]["choices"][:18]
    put(folder, [line])
    awaited(folder, "2 requests wait .*2 new", number=1)
    put(
        folder,
        [{"custom_id": one["custom_id"], "text": "Better"} for one in requests(folder)[1:]],
        "answers-2.jsonl",
    )
    assert read(folder, 1)[0].logprobs is not None


@pytest.mark.parametrize("status", [401, 404, 408, 429, 500, 503])
def test_a_request_that_may_be_answered_later_waits_again(folder, status):
    awaited(folder)
    lines = answered(folder)
    put(folder, [vllm(lines[0], "come again", status), *lines[1:]])
    awaited(
        folder,
        rf"1 request waits .*; 1 request failed and wait again, the first at .*answers\.jsonl:1: the server answered "
        rf"{status}: come again; have",
    )
    put(folder, lines[:1], "answers-2.jsonl")
    assert read(folder) == direct(mode="sample")


def test_a_request_that_the_provider_gave_up_waits_again(folder):
    awaited(folder)
    lines = answered(folder)
    error = {"code": "batch_expired", "message": "This request could not be executed in time."}
    put(folder, [{**lines[0], "response": None, "error": error}, *lines[1:]])
    awaited(folder, r"answers\.jsonl:1: This request could not be executed in time\.; have")


def test_a_request_that_is_refused_for_good_is_unreadable(folder):
    awaited(folder)
    lines = answered(folder)
    put(folder, [vllm(lines[0], "this prompt is too long", 400), *lines[1:]])
    found = read(folder)
    assert (
        found[2].reason == "the server answered 400: this prompt is too long"
    )  # the lines come in reverse order
    assert all(reading.logprobs is not None for reading in found[:2])


def spoilt(line, change):
    line = copy.deepcopy(line)
    change(line["response"]["body"])
    return line


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda body: body["choices"][1].update(index=0),
            "20 choices with the indices 0, 0, 2, 3, 4, where 20 were",
        ),
        (lambda body: body.update(choices=[]), "the answer holds no choices"),
        (lambda body: body.update(choices=3), "the answer holds no choices"),
        (
            lambda body: body.update(choices=["Better"] * 20),
            "20 of 20 answers unparsed: 20 x empty choice",
        ),
    ],
)
def test_an_unsound_answer_is_unreadable_as_that_of_a_server(folder, change, reason):
    awaited(folder)
    lines = answered(folder)
    put(folder, [spoilt(lines[0], change), *lines[1:]])
    found = read(folder)
    assert found[2].logprobs is None
    assert found[2].reason.startswith(reason)
    assert found[0].logprobs is not None


@pytest.mark.parametrize("text", [3, [], ["Better", None], {"a": 1}])
def test_a_short_answer_that_is_no_text(folder, text):
    awaited(folder)
    lines = answered(folder)
    put(folder, [{"custom_id": lines[0]["custom_id"], "text": text}, *lines[1:]])
    awaited(folder, r"answers\.jsonl:1: text must be a text or a list of texts")


def test_log_probabilities_are_checked_as_those_of_a_server(folder):
    awaited(folder, mode="top")
    lines = answered(folder)
    lines[0]["response"]["body"]["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0][
        "logprob"
    ] = 2.0
    put(folder, lines)
    found = read(folder, mode="top")
    assert "an invalid entry among the log-probabilities" in found[2].reason
    assert found[0].logprobs is not None


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda lines: [*lines, '{"custom_id": "abc'],
            r"answers\.jsonl:4: not a JSON object with a custom_id",
        ),
        (
            lambda lines: ["[1]", "\xff", *lines],
            r"answers\.jsonl:1: not a JSON .* \(and 1 more lines of the file\)",
        ),
        (
            lambda lines: [*lines, {"custom_id": "f" * 32, "text": "a"}],
            r"answers\.jsonl:4: answers no request in",
        ),
        (
            lambda lines: [*lines, {"custom_id": lines[0]["custom_id"], "text": ["Worse"] * 20}],
            r"answers\.jsonl:4: a second, different answer to a request; the first one is used",
        ),
    ],
)
def test_other_lines_are_named_and_the_rest_is_read(folder, caplog, spoil, message):
    awaited(folder)
    put(folder, spoil(answered(folder)))
    assert read(folder) == direct(mode="sample")
    caplog_texts = [record.message for record in caplog.records]
    assert len(caplog_texts) == 1
    assert __import__("re").search(message, caplog_texts[0])


def test_an_answer_that_comes_twice_is_counted_once(folder, caplog):
    awaited(folder)
    lines = answered(folder)
    again = copy.deepcopy(lines)
    again[0]["response"]["body"] |= {"id": "another", "created": 2}
    put(folder, [*lines, *again])
    judge = through(folder)
    assert judge.read_labels(questions(3), LABELS) == direct(mode="sample")
    assert judge.counts["requests"] == 3
    assert caplog.records == []


def test_answers_of_another_run(folder, tmp_path, caplog):
    awaited(folder)
    other = tmp_path / "other"
    with pytest.raises(AnswersAwaitedError):
        through(other).write(questions(2), DRAWN)
    put(folder, answered(other))
    awaited(folder, r"3 requests wait .*; 0 new\)")
    (record,) = caplog.records
    assert record.message == (
        f"{folder / 'answers.jsonl'}: answers none of the requests in {folder}; if it belongs to another run, put it "
        "into the folder of that run"
    )


def test_answers_are_read_without_the_file_of_their_requests(folder):
    awaited(folder)
    put(folder, answered(folder)[1:])
    (folder / "requests-0001.jsonl").unlink()
    awaited(folder, r"1 request waits .*\(requests-0001\.jsonl; 1 new\)")


@pytest.mark.parametrize(
    ("asked", "answering", "same"),
    [
        ("toy", "toy", True),
        ("toy", "lab/Toy", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("claude-latest", "claude-20250101", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("toy", "other", False),
    ],
)
def test_names_of_one_model(asked, answering, same):
    assert answer_files._same_model(answering, asked) is same
    assert answer_files._same_model(asked, answering) is same


def test_answers_of_another_model_are_not_used(folder, caplog):
    awaited(folder)
    lines = answered(folder)
    lines[0]["response"]["body"]["model"] = "other"
    put(folder, lines)
    awaited(folder, "1 request waits")
    assert [record.message for record in caplog.records] == [
        (
            f"{folder / 'answers.jsonl'}:1: an answer of the model 'other', and 'toy' was asked, so its request still "
            "waits; if both are the same model, remove the field model from these lines"
        )
    ]


def test_more_answers_than_were_asked_for_are_none(folder):
    with pytest.raises(AnswersAwaitedError):
        through(folder).write(questions(1), DRAWN)
    put(folder, [{"custom_id": requests(folder)[0]["custom_id"], "text": ["a", "b"]}])
    (text,) = through(folder).write(questions(1), DRAWN)
    assert (text.finish, text.note) == (
        "error",
        "2 choices with the indices 0, 1, where 1 were asked for",
    )


@pytest.mark.parametrize(
    ("refused", "field"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "max_completion_tokens",
        ),
        ("Unsupported value: 'temperature' does not support 0.5", "max_tokens"),
    ],
)
def test_fields_that_are_refused_are_not_asked_again(folder, refused, field):
    awaited(folder)
    put(folder, [vllm(request, refused, 400) for request in requests(folder)])
    awaited(folder, "3 requests wait .*3 new")
    body = requests(folder)[-1]["body"]
    assert field in body
    assert ("temperature" in body) == (field != "max_tokens")
    lines = [
        {"custom_id": request["custom_id"], "text": ["Better"] * 20}
        for request in requests(folder)[3:]
    ]
    put(folder, lines, "answers-2.jsonl")
    assert all(reading.logprobs is not None for reading in read(folder))


def test_all_samplings_of_a_judge_are_one_exchange(folder):
    judge = Sampled(through(folder), answers=3, sampling=DRAWN)
    with pytest.raises(AnswersAwaitedError):
        judge.read_labels(questions(2), LABELS)
    assert len(requests(folder)) == 6
    put(
        folder,
        [{"custom_id": request["custom_id"], "text": "Better"} for request in requests(folder)],
    )
    assert all(reading.logprobs is not None for reading in judge.read_labels(questions(2), LABELS))


def test_a_folder_keeps_its_id_where_it_is_moved(folder, tmp_path):
    awaited(folder)
    before = through(folder).fingerprint
    assert str(tmp_path) not in before
    folder.rename(tmp_path / "moved")
    assert through(tmp_path / "moved").fingerprint == before
    assert through(tmp_path / "other").fingerprint != before
    assert not (tmp_path / "other").exists()


def test_a_record_that_is_not_that_of_a_folder(folder):
    folder.mkdir()
    (folder / "folder.json").write_text('{"schema": "other/1"}')
    with pytest.raises(
        DataError,
        match=r"folder\.json: not the record of a folder of answers .*; name another folder",
    ):
        read(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mode": "exact"},
            "through files mode must be sample or top, found 'exact', because a prompt is one request",
        ),
        (
            {"timeout": "3"},
            "timeout is an option of a server, and file:.* is a folder; leave it out",
        ),
    ],
)
def test_options_of_servers_are_refused(folder, options, message):
    with pytest.raises(UsageError, match=message):
        through(folder, **options)


def test_a_folder_must_be_named():
    with pytest.raises(UsageError, match="--base-url file: names no folder; give file:FOLDER"):
        connect("openai:toy", base_url="file:")


def test_reward_models_are_not_asked_through_files(folder):
    with pytest.raises(
        UsageError, match=r"reward:toy is asked on a server, and file:.* is a folder; name its URL"
    ):
        connect("reward:toy", base_url=f"file:{folder}")


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DataError, match=r"folder: cannot be written \(.*\); free space or choose another path"
    ):
        read(tmp_path / "file" / "folder")


def test_two_processes_do_not_write_to_a_folder_at_one_time(folder):
    awaited(folder)
    with (
        locked_folder(folder),
        pytest.raises(
            UsageError,
            match=rf"process {os.getpid()} on host .* UTC; wait for it to finish, or choose",
        ),
    ):
        read(folder)


def test_a_model_that_gives_one_answer_a_request_is_asked_for_the_others(folder):
    awaited(folder)
    put(folder, answered(folder, replace(OPENAI, several="one")))
    awaited(folder, "57 requests wait .*57 new")  # 3 prompts, 20 answers each


KILLED = """
import os, signal, sys
from refladder.backends import connect
from refladder.files import jsonl, locks
from asked import LABELS, questions
left = int(sys.argv[2])
def step(event, args):
    global left
    if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir") and sys.argv[1] in str(args[0]):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
judge = connect("openai:toy", base_url=f"file:{sys.argv[1]}")
sys.addaudithook(step)
judge.load()
judge.read_labels(questions(3), LABELS)
"""


def test_kill_9_between_any_two_steps_loses_nothing(folder, request):
    """Each run is killed before its next step on a file of the folder: at first before the first one."""
    tests = request.config.rootpath / "tests"
    paths = [str(request.config.rootpath), str(tests), str(tests / "support/openai")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ids, killed = set(), 0
    for steps in range(60):
        command = [sys.executable, "-c", KILLED, str(folder), str(steps)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if (folder / "folder.json").exists():
            ids.add(json.loads((folder / "folder.json").read_text())["id"])
        for path in folder.glob("requests-*.jsonl"):
            assert len(path.read_text().splitlines()) == 3
        if done.returncode != -signal.SIGKILL:
            break
        killed += 1
    assert "3 requests wait" in done.stderr
    assert killed > 5
    assert len(ids) == 1
    assert len({request["custom_id"] for request in requests(folder)}) == len(requests(folder)) == 3
    put(folder, answered(folder))
    assert read(folder) == direct(mode="sample")
