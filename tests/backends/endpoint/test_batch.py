"""Provider batches: what is submitted, what comes back, and that nothing is lost or paid for twice."""

import json
import os
from dataclasses import replace

import pytest
from asked import LABELS, questions, to
from batch_server import BatchServer
from http_server import Reply
from toy_server import LLAMA_SERVER, OPENAI, TEXT_ONLY

from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import ResponseStore
from refladder.backends.openai import BatchUnderWayError, batch
from refladder.backends.openai.options import read_options
from refladder.errors import BackendUnavailableError, DataError, UsageError
from refladder.files.locks import locked_folder
from refladder.records import Sampling


@pytest.fixture
def server():
    with BatchServer(OPENAI) as running:
        yield running


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "batches"


def read(server, folder, number=5, **options):
    return to(server, batch=str(folder), **options).read_labels(questions(number), LABELS)


def submitted(server, folder, message="submitted batch batch_0 with 5 requests", **options):
    with pytest.raises(BatchUnderWayError, match=message):
        read(server, folder, **options)


def posted(server):
    return [path for path, method in server.asked if method == "POST"]


def test_answers_of_another_day_are_those_of_a_direct_run(server, folder):
    submitted(server, folder, r"submitted batch batch_0 with 5 requests \(.*batches\); run the same command again to c")
    submitted(server, folder, "batch batch_0 is validating .*; run the same command again to collect")
    server.working("batch_0", 2)
    submitted(server, folder, "batch batch_0 is in_progress, 2 of 5 requests done")
    server.finish("batch_0", twice=True)
    asked = len(server.asked)
    judge = to(server, batch=str(folder))
    found = judge.read_labels(questions(5), LABELS)
    assert [path for path, _ in server.asked[asked:]] == ["/v1/batches/batch_0", "/v1/files/file-1/content"]
    assert found == to(server, mode="top").read_labels(questions(5), LABELS)
    assert judge.fingerprint == to(server, mode="top").fingerprint
    lengths = [len(server.model.encode(server.model.render(prompt.messages))) for prompt in questions(5)]
    assert judge.counts["prompt tokens"] == sum(lengths)  # the answer that came twice is counted once
    asked = len(server.asked)
    assert read(server, folder) == found  # from the folder, with no request at all
    assert len(server.asked) == asked


def test_more_prompts_later_make_a_batch_of_their_own(server, folder):
    submitted(server, folder)
    submitted(server, folder, "batch batch_0 is validating; submitted batch batch_1 with 2 requests", number=7)
    assert len(server.requests("batch_1")) == 2
    server.finish("batch_0")
    server.finish("batch_1")
    assert len(read(server, folder, 7)) == 7
    assert posted(server).count("/v1/batches") == 2


def test_a_large_batch_is_divided(server, folder, monkeypatch):
    monkeypatch.setattr(batch, "MOST_REQUESTS", 2)
    submitted(server, folder, "batch_0 with 2 requests; submitted batch batch_1 with 2 .*batch_2 with 1 request")
    monkeypatch.setattr(batch, "MOST_BYTES", 100)
    submitted(server, folder, r"batch_3 with 1 request; submitted batch batch_4 with 1 request \(", number=7)


def test_answers_that_came_go_to_the_store_before_the_run_ends(server, folder, tmp_path):
    submitted(server, folder)
    server.finish("batch_0", status="expired", leave=2)
    with ResponseStore(tmp_path / "r.sqlite") as store:
        judge = Stored(to(server, batch=str(folder)), store)
        with pytest.raises(
            BatchUnderWayError,
            match=r"batch batch_0 expired with 3 answers, 2 requests without one: This request could not be executed "
            r"in time\. \(.*\); answers are kept; run the same command again to resubmit the other 2",
        ):
            judge.read_labels(questions(5), LABELS)
        assert store.count() == 3
    submitted(server, folder, "submitted batch batch_1 with 2 requests")
    server.finish("batch_1")
    assert read(server, folder) == to(server, mode="top").read_labels(questions(5), LABELS)


def test_a_refused_request_is_unreadable_and_an_overloaded_one_is_asked_again(server, folder):
    submitted(server, folder)
    server.finish("batch_0", refuse=1, overload=1)
    submitted(server, folder, "batch_0 completed with 4 answers, 1 request without one: overloaded")
    submitted(server, folder, "submitted batch batch_1 with 1 request")
    server.finish("batch_1")
    found = read(server, folder)
    assert found[0].logprobs is None
    assert found[0].reason == "the server answered 400: this prompt is too long"
    assert all(reading.logprobs is not None for reading in found[1:])


def test_a_line_under_200_that_is_an_error_and_one_that_says_there_is_none(server, folder):
    submitted(server, folder)
    server.finish("batch_0")
    lines = [json.loads(line) for line in server.files["file-1"].splitlines()]
    lines[0]["response"]["body"] = {"error": {"message": "no"}}
    lines[1]["response"]["body"]["error"] = None
    server.files["file-1"] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    found = read(server, folder)
    assert found[4].reason == "the server answered 200: no"  # the lines come in reverse order
    assert all(reading.logprobs is not None for reading in found[:4])


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_batch_that_failed_is_submitted_anew_by_the_next_run(server, folder, status):
    submitted(server, folder)
    errors = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}]}
    server.batches["batch_0"] |= {"status": status, "errors": errors}
    submitted(server, folder, f"batch_0 {status} with 0 answers, 5 requests without one: Enqueued token limit reached")
    submitted(server, folder, "submitted batch batch_1 with 5 requests")


@pytest.mark.parametrize("quirks", [TEXT_ONLY, replace(OPENAI, chat_logprobs="refused")])
def test_sampled_answers(quirks, folder):
    with BatchServer(quirks) as server:
        number = 60 if quirks.several == "one" else 3  # requests: a seed each, or 20 answers in one
        submitted(server, folder, f"submitted batch batch_0 with {number} requests", number=3)
        server.finish("batch_0")
        found = read(server, folder, 3)
        assert found == to(server, mode="sample").read_labels(questions(3), LABELS)


def test_texts(server, folder):
    sampling = Sampling(max_tokens=8, temperature=1.0, top_p=1.0, seed=3)
    with pytest.raises(BatchUnderWayError, match="submitted batch batch_0 with 2 requests"):
        to(server, batch=str(folder)).write(questions(2), sampling)
    server.finish("batch_0")
    texts = to(server, batch=str(folder)).write(questions(2), sampling)
    assert texts == to(server).write(questions(2), sampling)


def test_a_label_that_was_only_begun_needs_no_second_batch(folder):
    with BatchServer(replace(LLAMA_SERVER, several="refused")) as server:
        submitted(server, folder)
        assert to(server, batch=str(folder)).probe.name(20).startswith("top")
        server.finish("batch_0")
        assert "completed" not in to(server, batch=str(folder)).fingerprint
        assert len(read(server, folder)) == 5


def test_a_batch_whose_number_was_never_heard_is_found_and_not_paid_for_twice(server, folder):
    server.page = 1
    for _ in range(3):  # others of the same account
        server._batch_http("POST", "batches", None, json.dumps(OTHERS).encode(), {})
    server.faults["POST", "batches"] = Reply(fault="reset")
    with pytest.raises(
        BackendUnavailableError, match=r"/batches: the connection failed: .*; run the same command again"
    ):
        read(server, folder)
    submitted(server, folder, "batch batch_3 is validating")
    assert posted(server).count("/v1/batches") == 1


OTHERS = {"input_file_id": "another", "endpoint": "/v1/chat/completions"}


def test_a_batch_that_was_never_begun_is_submitted_once(server, folder):
    server.faults["POST", "batches"] = Reply({"error": {"message": "no"}}, 400)
    with pytest.raises(BackendUnavailableError, match="/batches: the server answered 400: no"):
        read(server, folder)
    server.batches.clear()  # it was refused after all
    submitted(server, folder)
    assert posted(server).count("/v1/files") == 2  # an upload costs nothing
    server.faults["POST", "files"] = Reply({"error": {"message": "no"}}, 400)
    with pytest.raises(BackendUnavailableError, match="/files: the server answered 400: no"):
        read(server, folder, 6)
    submitted(server, folder, "batch_0 is validating; submitted batch batch_1 with 1 request", number=6)


def test_files_come_again_after_a_broken_connection(server, folder):
    submitted(server, folder)
    server.finish("batch_0")
    server.faults["GET", "files"] = Reply(server.files["file-1"], fault="half")
    assert len(read(server, folder)) == 5


def test_an_answer_file_that_is_cut_is_fetched_again_by_the_next_run(server, folder):
    submitted(server, folder)
    server.finish("batch_0")
    server.faults["GET", "files"] = Reply(server.files["file-1"][:-20])
    with pytest.raises(DataError, match=r"the answers of batch-0001:5: not a JSON object; run the same command again"):
        read(server, folder)
    assert len(read(server, folder)) == 5


def test_a_server_without_batches(folder):
    with BatchServer(OPENAI) as server:
        server.faults["POST", "files"] = Reply({"detail": "Not Found"}, 404)
        with pytest.raises(BackendUnavailableError, match=r"/files: .*; this server has no batches; leave the option"):
            read(server, folder)


def test_a_batch_of_another_account(server, folder):
    submitted(server, folder)
    del server.batches["batch_0"]
    with pytest.raises(
        BackendUnavailableError, match=r"No batch batch_0; check that the key is that of the same accou"
    ):
        read(server, folder)


@pytest.mark.parametrize(("method", "kind"), [("POST", "files"), ("POST", "batches")])
def test_a_provider_that_gives_no_id(server, folder, method, kind):
    server.faults[method, kind] = Reply({})
    with pytest.raises(BackendUnavailableError, match="the provider gave no id for a batch or its file; run the same"):
        read(server, folder)


def test_an_answer_that_is_no_json(server, folder):
    server.faults["POST", "files"] = Reply(b"<html>")
    with pytest.raises(
        BackendUnavailableError, match="/files: the answer is not a JSON object: '<html>'; check the URL"
    ):
        read(server, folder)


def test_a_folder_of_another_server(server, folder):
    submitted(server, folder)
    with (
        BatchServer(OPENAI) as other,
        pytest.raises(UsageError, match=r"holds batches of http://.*; name another fold"),
    ):
        read(other, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "endpoint-batch/2"}, "schema 'endpoint-batch/2', and this refladder reads endpoint-batch/1"),
        (
            {"requests": "5"},
            r"batch-0001\.json: endpoint-batch/1 field 'requests': Input .* integer, found '5'; name another folder",
        ),
    ],
)
def test_a_damaged_folder(server, folder, change, message):
    submitted(server, folder)
    path = folder / "batch-0001.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=message):
        read(server, folder)


def test_a_folder_that_cannot_be_made(server, tmp_path):
    judge = to(server, batch=str(tmp_path / "file" / "folder"), mode="top")
    judge._probe = to(server, mode="top").probe
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"folder: cannot be written \(.*\); free space or choose another path"):
        judge.read_labels(questions(1), LABELS)


def test_two_processes_do_not_share_a_folder_at_one_time(server, folder):
    with (
        locked_folder(folder),
        pytest.raises(
            UsageError, match=rf"process {os.getpid()} on host .* UTC; wait for it to finish, or choose another"
        ),
    ):
        read(server, folder)


def test_the_handshake_lasts_as_long_as_the_folder(server, folder, monkeypatch):
    submitted(server, folder)
    server.finish("batch_0")
    asked = len(server.asked)
    with monkeypatch.context() as later:
        later.setattr("time.time", lambda: 4e9)
        assert len(read(server, folder)) == 5
    assert len(server.asked) == asked + 2


def test_modes_that_ask_more_than_once_a_prompt(folder):
    with pytest.raises(
        UsageError, match="batch takes one request a prompt, so mode must be auto, top, sample, found 'e"
    ):
        read_options({"batch": str(folder), "mode": "exact"})


def test_the_key_is_in_no_file_of_the_folder_and_in_no_message(server, folder, monkeypatch):
    monkeypatch.setenv("REFLADDER_API_KEY", "canary-4711")
    server.faults["POST", "batches"] = Reply({"error": {"message": "bad key canary-4711"}}, 401)
    with pytest.raises(BackendUnavailableError, match=r"the key was refused \(401: bad key \[key\]\)") as caught:
        read(server, folder)
    assert "canary" not in str(caught.value)
    server.batches.clear()
    submitted(server, folder)
    server.batches["batch_0"] |= {"status": "failed", "errors": {"data": [{"message": "canary-4711"}]}}
    submitted(server, folder, r"5 requests without one: \[key\]")
    for path in folder.iterdir():
        assert b"canary" not in path.read_bytes()
