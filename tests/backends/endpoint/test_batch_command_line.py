"""The commands through a provider's batches: all questions in one batch, the price of batches, and the budget."""

import json

import pytest
from batch_server import BatchServer
from doubles import Double, asker
from toy_server import OPENAI

from refladder.backends.cache.cached import Stored
from refladder.commands import console
from refladder.commands.main import run
from refladder.loaders import load_benchmark
from refladder.prompts import load_template
from refladder.records import LabelReading
from refladder.scoring.question import pair_question
from refladder.scoring.scorer import FIRST_BATCH, batches
from refladder.synth import ladders as synth

PRICES = '["toy"]\ninput = 1000.0\noutput = 0.0\nbatch_discount = 0.5\n'


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with BatchServer(OPENAI) as running:
        yield running


@pytest.fixture
def arguments(server, tmp_path, request):
    root = request.config.rootpath
    ids = [
        json.loads(line)["id"]
        for line in (root / "published_data/demo/summarization/contexts.jsonl").read_text().splitlines()
    ]
    rows = [{"context_id": ids[place % len(ids)], "output": f"Version {place}."} for place in range(FIRST_BATCH + 4)]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    judge = ["--judge", "openai:toy", "--base-url", server.url, "--judge-option", f"batch={tmp_path / 'batches'}"]
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    out = ["--out", str(tmp_path / "out.jsonl"), "--prices", str(prices)]
    return ["score", str(source), "--ladders", "demo/summarization", *judge, *out]


def test_score_submits_everything_at_once_and_collects_later(server, arguments, tmp_path, capsys):
    arguments = [*arguments, "--any-judge"]
    two = "the judge check is a batch of its own, and the rows are the next: a first run takes two\n"
    assert run([*arguments, "--dry-run"]) == 0
    assert capsys.readouterr().err.count(two) == 1
    console.say_once.cache_clear()
    assert run(arguments) == 1
    assert capsys.readouterr().err.count(two) == 1
    server.finish("batch_0")  # the check of the judge
    assert run(arguments) == 1
    assert "refladder: submitted batch batch_1 with" in capsys.readouterr().err
    console.say_once.cache_clear()
    assert run([*arguments, "--dry-run"]) == 0
    assert two not in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
    server.working("batch_1", 1)
    assert run(arguments) == 1
    assert "batch batch_1 is in_progress, 1 of" in capsys.readouterr().err
    server.finish("batch_1")
    code = run([*arguments, "--json"])
    (spent,) = json.loads(capsys.readouterr().out)["spent"]
    collected = (tmp_path / "out.jsonl").read_text()
    assert len(collected.splitlines()) == FIRST_BATCH + 4
    assert len(server.batches) == 2
    assert spent["calls"] == len(server.requests("batch_1"))
    tokens = sum(server._chat(request["body"])["usage"]["prompt_tokens"] for request in server.requests("batch_1"))
    assert spent["prompt_tokens"] == tokens
    assert spent["usd"] == pytest.approx(tokens * 1000 / 1e6 / 2)  # half of the price
    direct = ["mode=top" if word.startswith("batch=") else word for word in arguments]
    assert run([*direct, "--no-store"]) == code
    assert (tmp_path / "out.jsonl").read_text() == collected


def test_a_budget_needs_the_tokens_beforehand(arguments, server, capsys):
    assert run([*arguments, "--budget", "1"]) == 2
    assert "openai:toy: a batch is paid for as a whole, so --budget needs its number of tokens before it starts" in (
        capsys.readouterr().err
    )
    assert server.batches == {}


def test_build_submits_a_wave_at_once(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(synth, "CHUNK", 1)
    writer = ["--writer", "openai:toy", "--base-url", server.url, "--writer-option", f"batch={tmp_path / 'batches'}"]
    command = ["build", "demo/summarization", "--out", str(tmp_path / "set"), *writer, "--rungs", "3"]
    assert run(command) == 1
    assert "submitted batch batch_0 with" in capsys.readouterr().err
    assert len(server.batches) == 1
    assert len(server.requests("batch_0")) > 2


def test_a_pairwise_judge_asks_all_at_once():
    sizes = []

    class All(Double):
        wants_all = True
        fingerprint = "all/1"

        def read_labels(self, prompts, labels):
            sizes.append(len(prompts))
            return [LabelReading(logprobs=(-1.0,) * len(labels), mass=1.0)] * len(prompts)

    benchmark = load_benchmark("demo/summarization")
    template = load_template("summarization", "pairwise")
    judge = asker(All(), template)
    judge.batch = 1
    outputs = [one for one in benchmark.outputs if one.context_id == benchmark.contexts[0].id]
    pairs = [pair_question(benchmark.contexts[0], benchmark.dimensions[0], outputs[0], other) for other in outputs[1:]]
    assert len(judge.ask(pairs)) == len(pairs) > 1
    assert sizes == [len({pair.key for pair in pairs})]


def test_a_dry_run_with_a_kept_handshake_asks_the_server_nothing(arguments, server, tmp_path, capsys):
    cached = [f"probe-cache={tmp_path / 'probes'}" if word.startswith("batch=") else word for word in arguments]
    assert run([*cached, "--dry-run", "--json"]) == 0
    first = capsys.readouterr().out
    asked = len(server.asked)
    assert asked > 0
    assert run([*cached, "--dry-run", "--json"]) == 0
    assert capsys.readouterr().out == first
    assert len(server.asked) == asked


def test_a_backend_that_wants_all_gets_all_through_its_wrappers():
    class All(Double):
        wants_all = True

    assert [len(batch) for batch in batches(range(5000), All())] == [5000]
    assert [len(batch) for batch in batches(range(5000), Stored(All(), None))] == [5000]
    assert next(batches(range(5000), Double())) == list(range(FIRST_BATCH))
