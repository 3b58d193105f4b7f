"""The commands over a real connection to the toy server, alone and as several workers that ask one server."""

import json
from dataclasses import replace
from functools import partial

import pytest
from scored_folders import Inline, scored, split
from toy_server import OPENAI, VLLM

from refladder.files.jsonl import read_appended

LADDERS = ("--ladders", "demo/summarization")
RELEVANCE = (*LADDERS, "--dimension", "relevance")


@pytest.fixture
def judge(serve):
    """Start a server; gives it and the options that name it."""

    def start(quirks):
        server = serve(quirks)
        return server, ("--judge", "openai:toy", "--base-url", server.url)

    return start


def harbour(number, several=1):
    """Rows about a harbour, for a context or two in turn."""
    contexts = ("summarization-01", "summarization-02")
    return [
        {
            "context_id": contexts[place % several],
            "output": f"A storm closed the harbour, version {place}.",
        }
        for place in range(number)
    ]


def test_score_goes_on_without_asking_again(judge, command, write_jsonl, tmp_path):
    server, named = judge(VLLM)
    out = tmp_path / "out.jsonl"
    score = ("score", write_jsonl(harbour(3)), *LADDERS, "--any-judge", *named, "--out", out)
    done = command(*score, "--judge-option", "max-concurrency=8")
    assert done.code == 0, done.err
    assert "toy at http://127.0.0.1" in done.err
    assert "exact label probabilities" in done.err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 3
    assert all(row["relevance_score"] is not None for row in rows)
    assert "backend:openai:toy@localhost " in rows[0]["signature"]
    asked = len(server.asked)
    assert command(*score, "--judge-option", "max-concurrency=8").code == 0
    again = [path for path, _ in server.asked[asked:] if path == "/v1/completions"]
    assert len(again) < 10  # a handshake, and not one of the rows
    # The same model on another port is the same judge.
    moved, elsewhere = judge(VLLM)
    assert moved.url != server.url
    score = ("score", write_jsonl(harbour(4)), *LADDERS, "--any-judge", *elsewhere, "--out", out)
    assert command(*score, "--no-store", "--json").code == 0
    asked = [path for path, _ in moved.asked if path == "/v1/completions"]
    assert 0 < len(asked) < len([path for path, _ in server.asked if path == "/v1/completions"])


def test_a_server_that_names_another_model_in_mid_run_is_noticed_and_recorded(
    judge, command, write_jsonl, tmp_path, caplog
):
    server, named = judge(replace(VLLM, named=lambda number: "toy-1" if number < 150 else "toy-2"))
    out = tmp_path / "out.jsonl"
    score = ("score", write_jsonl(harbour(20)), *RELEVANCE, "--any-judge", *named, "--no-store")
    assert command(*score, "--out", out).code == 0
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [
        (
            f"{server.url}: answers named the model toy-1, and now toy-2, so the judge may have changed in mid-run. The run "
            "continues; if these are two models, run it again with one of them, without its stored answers and judgments."
        )
    ]
    models = json.loads((tmp_path / "out.jsonl.run.json").read_bytes())["models"]
    assert list(models) == ["toy-1", "toy-2"]
    done = command(*score, "--json", "--out", tmp_path / "later.jsonl")
    assert list(json.loads(done.out)["spent"][0]["read_mode"]["models"]) == ["toy-2"]
    folder = tmp_path / "in"
    folder.mkdir()
    write_jsonl(harbour(20), "in/a.jsonl")
    scored = tmp_path / "scored"
    assert command("score", folder, *score[2:], "--out", scored).code == 0
    counts = json.loads((scored / "counts" / "a.jsonl.json").read_bytes())
    assert list(counts["report"]["models"]) == ["toy-2"]


class Watched(list):
    """What a server is asked; `then` is called as the question with this number arrives."""

    def __init__(self, number, then):
        super().__init__()
        self.number, self.then = number, then

    def append(self, request):
        super().append(request)
        if len(self.questions) == self.number:
            self.then()

    @property
    def questions(self):
        """The different prompts; one may take several requests."""
        texts = (body["messages"][0]["content"] for _, body in self if "messages" in body)
        return {text for text in texts if "harbour, version" in text}


@pytest.mark.parametrize("order", [(), ("--both-orders",)])
def test_after_a_key_is_refused_in_mid_run_the_rest_alone_is_asked(
    judge, command, write_jsonl, tmp_path, order
):
    server, named = judge(OPENAI)
    score = ("score", write_jsonl(harbour(8, several=2)), *RELEVANCE, "--any-judge", *named, *order)
    score += ("--no-store", "--judge-option", "max_concurrency=1")

    def run(name, number=-1):
        server.quirks = OPENAI
        refuse = partial(setattr, server, "quirks", replace(OPENAI, key="another"))
        server.asked = Watched(number, refuse)
        done = command(*score, "--out", tmp_path / name)
        return done, len(server.asked.questions)

    done, whole = run("whole.jsonl")
    assert done.code == 3  # the toy model gives some labels too little
    assert whole == 8 * 5 * (2 if order else 1)
    done, before = run("s.jsonl", 24)
    assert done.code == 1
    assert "it was sent no key (401: " in done.err
    assert before == 25  # the last of them was refused
    kept = tmp_path / "s.jsonl.judgments.jsonl.unfinished"
    assert len(read_appended(kept)) == 24
    done, after = run("s.jsonl")
    assert (done.code, after) == (3, whole - 24)
    assert not kept.exists()
    for end in ("jsonl", "jsonl.judgments.jsonl"):
        assert (tmp_path / f"s.{end}").read_bytes() == (tmp_path / f"whole.{end}").read_bytes()


@pytest.fixture
def in_process(monkeypatch):
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)


@pytest.mark.usefixtures("in_process")
def test_parts_share_one_store(judge, command, tmp_path):
    server, named = judge(VLLM)
    source = split(harbour(30) * 2, tmp_path / "in", 30)  # the same texts for two parts
    run = ("score", source, *RELEVANCE, "--any-judge", *named, "--store", tmp_path / "store.sqlite")

    def prompts(part):
        before = len(server.asked)
        done = command(*run, "--out", tmp_path / "out", "--shard", part)
        assert done.code == 0, done.err
        asked = [
            body["prompt"] for path, body in server.asked[before:] if path == "/v1/completions"
        ]
        return sum(len(prompt) if isinstance(prompt[0], list) else 1 for prompt in asked)

    assert prompts("1/2") >= 30 * 5
    assert prompts("2/2") <= 10  # a handshake: the answers are in the store


@pytest.mark.usefixtures("in_process")
def test_limits_of_a_finished_run_may_change_and_what_its_scores_depend_on_may_not(
    judge, command, fails, write_jsonl, tmp_path
):
    server, named = judge(VLLM)
    out = tmp_path / "out"
    scoring = ("score", write_jsonl(harbour(1)), *RELEVANCE, "--any-judge", "--out", out)
    run = (*scoring, *named, "--no-store")
    assert command(*run).code == 0
    before, asked = scored(out), len(server.asked)
    assert command(*run).code == 0
    assert len(server.asked) == asked  # nothing is left, so the judge is not opened
    assert command(*run, "--judge-option", "max_concurrency=2").code == 0
    for other in ((*run, "--judge-option", "mode=top"), (*scoring, "--judge", "builtin")):
        message = fails(2, *other)
        assert message.startswith(f"refladder: {out}: its files are of another run (")
        assert "choose another folder, or delete this one" in message
    nowhere = ("--base-url", "http://127.0.0.1:9/v1", "--judge-option", "attempts=1")
    assert "127.0.0.1:9" in fails(1, *run, *nowhere)  # so the signature cannot be known
    assert scored(out) == before


@pytest.mark.usefixtures("in_process")
def test_parts_of_a_run_have_one_judge(judge, command, fails, tmp_path):
    _, named = judge(VLLM)
    out = tmp_path / "out"
    source = split(harbour(2, several=2), tmp_path / "in", 1)
    part = ("score", source, *RELEVANCE, "--any-judge", "--out", out)
    part += ("--no-store", "--shard")
    assert command(*part, "1/2", *named).code == 0
    message = fails(2, *part, "2/2")
    assert message.startswith(f"refladder: {out}: its files are of another run (")
    assert [path.name for path in out.glob("*.jsonl")] == ["00.jsonl"]


LINES = "1: 10\n2: 20\n3: 40\n4: 20\n5: 10"
STATED = (*RELEVANCE, "--any-judge", "--no-store", "--answers", "rating:stated")


def rated(_messages, _seed):
    return {"index": 0, "message": {"role": "assistant", "content": LINES}, "finish_reason": "stop"}


def test_a_dry_run_of_written_answers_says_what_they_are_expected_to_cost(
    judge, command, write_jsonl, tmp_path
):
    server, named = judge(replace(OPENAI, answer=rated))
    (tmp_path / "prices.toml").write_text("[toy]\ninput = 2\noutput = 8\n")
    score = (
        "score",
        write_jsonl(harbour(3)),
        *STATED,
        *named,
        "--prices",
        tmp_path / "prices.toml",
    )
    planned = command(*score, "--dry-run").out
    (said,) = json.loads(command(*score, "--dry-run", "--json").out)["backends"]
    # 5 rungs of each of 12 ladders, with the 24 of the check among them, and 3 rows.
    calls = 60 + 3
    assert (said["calls"], said["requests"]) == (calls, calls)
    assert said["expected_answer_tokens"] == 28 * calls
    assert said["answer_tokens"] == 300 * calls
    prompts = 2 * said["prompt_tokens"] / 1e6
    expected, most = prompts + 8 * 28 * calls / 1e6, prompts + 8 * 300 * calls / 1e6
    assert (said["expected_usd"], said["usd"]) == pytest.approx((expected, most))
    words = f"about {28 * calls:,} answer tokens (at most {300 * calls:,}), about {expected:.4f} USD, at most {most:.4f} USD"
    assert words in planned
    assert "\nnothing was asked but 1 request that showed how the server answers\n" in planned
    # A budget is compared with what is expected.
    server.asked.clear()
    short = command(*score, "--budget", f"{0.9 * expected:.4f}")
    assert (
        f"this run costs about {expected:.4f} USD, at most {most:.4f} USD, and the budget"
        in short.err
    )
    assert len(server.asked) == 1
    assert command(*score, "--budget", f"{1.1 * expected:.4f}").code == 0


def test_what_all_runs_of_a_table_asked_is_recorded_and_said(judge, command, write_jsonl, tmp_path):
    server, named = judge(replace(OPENAI, answer=rated))
    out = tmp_path / "out.jsonl"
    score = ("score", write_jsonl(harbour(9)), *STATED, *named, "--out", out)
    score += ("--judge-option", "max-concurrency=1")
    refuse = partial(setattr, server, "quirks", replace(OPENAI, key="another"))
    server.asked = Watched(4, refuse)
    assert command(*score).code == 1
    first = len(server.asked)
    kept = tmp_path / "out.jsonl.judgments.jsonl.spent.json"
    assert json.loads(kept.read_text())["spent"][0]["requests"] == first
    server.quirks, server.asked = replace(OPENAI, answer=rated), []
    done = command(*score)
    assert (done.code, kept.exists()) == (0, False)
    (spent,) = json.loads((tmp_path / "out.jsonl.run.json").read_text())["spent"]
    assert spent["requests"] == first + len(server.asked)
    assert (
        f"with the runs before: openai:toy: {spent['calls']} calls, {spent['requests']} requests"
        in done.err
    )
