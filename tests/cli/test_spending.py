"""--store, --dry-run, --prices and --budget of the commands that ask a backend."""

import json
import math
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
from doubles import Double
from json_lines import read_lines, write_lines
from scored_folders import Inline, split
from toy_server import OPENAI, TEXT_ONLY, TRANSFORMERS, ToyServer

import refladder
from refladder import backends
from refladder.backends import connect
from refladder.backends.cache.store import SqliteStore
from refladder.backends.protocol import Usage
from refladder.cli.spending import Spending, SpendingOptions
from refladder.loaders import load_benchmark
from refladder.many_files.worker import Worker
from refladder.records import Completion
from refladder.registry import Entry

ROWS = 3  # outputs in `table`
EACH = 2 * 5  # dimensions x rungs of demo/summarization
CHECK = 2 * 12 * 2  # of the check of the judge: dimensions x ladders x orders
ALL = CHECK + ROWS * EACH
SENT: list = []


class Words(Double):
    """The builtin backend, with a fingerprint of its own and a token a word; what it was sent is in SENT."""

    def __init__(self, target):
        self.backend = connect("builtin")
        self.fingerprint = f"words/{target}"

    def count_tokens(self, prompts):
        return [len(prompt.text.split()) for prompt in prompts]

    def write(self, prompts, sampling):
        SENT.extend(prompts)
        return self.backend.write(prompts, sampling)

    def read_labels(self, prompts, labels):
        SENT.extend(prompts)
        return self.backend.read_labels(prompts, labels)


@pytest.fixture(autouse=True)
def words(monkeypatch, tmp_path):
    module = ModuleType("backends_of_this_test")
    module.words = Words
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("words", "openai"):
        monkeypatch.setitem(backends.BACKENDS, name, Entry(f"{module.__name__}:words", ""))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("REFLADDER_STORE", raising=False)
    monkeypatch.delenv("REFLADDER_PRICES", raising=False)
    monkeypatch.chdir(tmp_path)
    SENT.clear()
    return module


@pytest.fixture
def table(tmp_path):
    """Three outputs in outputs.jsonl, and one to a file in the folder `in`."""
    outputs = load_benchmark("demo/summarization").outputs[:ROWS]
    rows = [
        {"output_id": one.id, "context_id": one.context_id, "output": one.text} for one in outputs
    ]
    split(rows, tmp_path / "in", 1)
    return write_lines(tmp_path / "outputs.jsonl", rows)


@pytest.fixture
def prices(tmp_path):
    """0.001 USD a prompt token, 0.01 an answer token."""
    (tmp_path / "prices.toml").write_text('["m"]\ninput = 1000\noutput = 10000\n')


@pytest.fixture
def score(command, table):
    """Score the table, or another source, by the judge `words:m`."""

    def go(options="", source=table, judge="words:m", out="scored.jsonl"):
        asked = f"--ladders demo/summarization --judge {judge} --out {out}"
        return command(f"score {source} {asked} {options}")

    return go


@pytest.fixture
def spent(score, tmp_path):
    """Score without the judgments of an earlier run; return what the backends were asked."""

    def go(options="", **rest):
        (tmp_path / "scored.jsonl.judgments.jsonl").unlink(missing_ok=True)
        (tmp_path / "scored.jsonl").unlink(missing_ok=True)
        done = score(f"--json {options}", **rest)
        assert done.code == 0, done.err
        return json.loads(done.out)["spent"]

    return go


@pytest.fixture
def asked_at_a_terminal(monkeypatch):
    """Answer yes to what a terminal is asked; return the questions."""
    said = []
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("refladder.cli.spending.sys", terminal)
    monkeypatch.setattr("click.confirm", lambda text, **_: said.append(text) or True)
    return said


def tokens():
    return sum(len(prompt.text.split()) for prompt in SENT)


def cost():
    return tokens() * 0.001 + len(SENT) * 0.01


@pytest.mark.usefixtures("prices")
def test_a_dry_run_tells_what_is_then_sent_and_asks_nothing(score, spent, tmp_path):
    before = sorted(tmp_path.iterdir())
    done = score("--dry-run --json --prices prices.toml")
    assert (done.code, done.err, SENT) == (0, "", [])
    assert sorted(tmp_path.iterdir()) == before
    (said,) = json.loads(done.out)["backends"]
    (after,) = spent("--prices prices.toml")
    assert said["calls"] == after["calls"] == len(SENT) == ALL
    assert said["prompt_tokens"] == after["prompt_tokens"] == tokens()
    assert said["answer_tokens"] == after["answer_tokens"] == ALL
    assert said["usd"] == after["usd"] == pytest.approx(cost())
    assert (said["exact"], said["free"]) == (True, 0)
    assert after["seconds"] > 0
    nothing = {
        **dict.fromkeys(("calls", "characters", "least_calls", "free", "too_long"), 0),
        **dict.fromkeys(("requests", "prompt_tokens", "run_tokens", "answer_tokens", "usd", "seconds")),
        "expected_answer_tokens": 0,
        "expected_usd": None,
        "tokens_from_characters": False,
    }  # fmt: skip
    assert json.loads(score("--dry-run --json").out) == {
        "dry_run": True,
        "kept_judgments": ROWS * EACH,
        "backends": [{"backend": "words:m", "exact": True, **nothing}],
    }


@pytest.mark.usefixtures("prices")
def test_a_dry_run_in_words(score, command):
    planned = score("--dry-run --prices prices.toml").out
    done = score("--prices prices.toml")
    words = f"words:m: {ALL} calls, {tokens():,} prompt tokens, at most {ALL} answer tokens, {cost():.4f} USD"
    assert planned == f"dry run, {words}; 0 answers from the response store\nnothing was asked\n"
    assert re.search(rf"{re.escape(words)} in [\d,]+\.\d s", done.err)
    reused = f"dry run: {ROWS * EACH} judgments reused from earlier runs\n"
    assert reused in score("--dry-run").out
    told = command("build demo/story --out b --dry-run").out
    assert "at most 120 calls" in told
    assert "prompt characters (tokens not known)" in told
    assert "  texts that are still to be written are not counted in the characters\n" in told


def test_a_dry_run_estimates_the_time_from_stored_answers(score, monkeypatch):
    def pace(_store, fingerprint, kind):
        return 2.0 if (fingerprint, kind) == ("words/m", "labels") else None

    monkeypatch.setattr(SqliteStore, "answer_seconds", pace)
    stored = "--store r.sqlite --dry-run"
    words = f"\n  about {2 * ALL / 60:.0f} min at the pace of the stored answers\n"
    assert words in score(stored).out
    assert json.loads(score(f"{stored} --json").out)["backends"][0]["seconds"] == 2 * ALL
    assert "pace" not in score("--dry-run").out


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("", "needs a key; set OPENAI_API_KEY"),
        ("--base-url http://127.0.0.1:9/v1 --judge-option attempts=1", "start the server"),
    ],
)
def test_a_dry_run_needs_neither_a_key_nor_a_server(score, monkeypatch, options, reason):
    opener = "refladder.backends.openai.backend:open_openai"
    monkeypatch.setitem(backends.BACKENDS, "openai", Entry(opener, ""))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("REFLADDER_API_KEY", raising=False)
    done = score(f"{options} --dry-run", judge="openai:m")
    assert done.code == 0
    assert done.out.startswith(f"dry run, openai:m: {ALL} calls, ")
    assert "(tokens not known)" in done.out
    assert re.search(
        rf"m: the server was not asked \(http.*{reason}.*\)\. The estimate assumes that it reads label "
        r"probabilities\. Its tokens and stored answers are not known",
        done.err,
    )
    done = score(options, judge="openai:m")
    assert done.code == 1
    assert reason in done.err


def test_a_dry_run_refuses_what_the_run_refuses(score, table):
    write_lines(table, [{**row, "fluency_score": 1.0} for row in read_lines(table)])
    message = (
        f"refladder: {table}: column 'fluency_score' exists already; rename or drop it first\n"
    )
    for options in ("--dry-run", ""):
        done = score(options)
        assert (done.code, done.out, done.err) == (2, "", message)
    assert SENT == []


def test_a_second_run_with_a_store_asks_nothing(score, spent, tmp_path):
    (first,) = spent("--store r.sqlite")
    assert (first["calls"], first["from_store"]) == (ALL, 0)
    scored = (tmp_path / "scored.jsonl").read_bytes()
    SENT.clear()
    (second,) = spent("--store r.sqlite")
    assert (second["calls"], second["from_store"]) == (0, ROWS * EACH)  # the check is remembered
    assert SENT == []
    assert (tmp_path / "scored.jsonl").read_bytes() == scored
    (tmp_path / "scored.jsonl.judgments.jsonl").unlink()
    stored = f"dry run, words:m: 0 calls; {ROWS * EACH} answers from the response store"
    assert score("--store r.sqlite --dry-run").out == f"{stored}\nnothing was asked\n"


@pytest.mark.parametrize("store", [False, True])
def test_an_output_that_comes_twice_is_asked_twice_unless_answers_are_stored(
    score, spent, table, store
):
    rows = read_lines(table)
    write_lines(table, [*rows, rows[0] | {"output_id": "again"}])
    options = "--store r.sqlite" if store else ""
    calls, reused = (ALL, EACH) if store else (ALL + EACH, 0)
    planned = score(f"--dry-run {options}").out
    assert planned.startswith(f"dry run, words:m: {calls} calls, ")
    repeated = f"; {reused} repeated questions cost nothing" if reused else ""
    assert f"; 0 answers from the response store{repeated}\n" in planned
    assert SENT == []
    (row,) = spent(options)
    assert len(SENT) == row["calls"] == calls
    assert row["from_store"] in {reused, None}


def test_every_command_that_asks_keeps_answers(command):
    judging = "evaluate demo/story --judge words:m --format json --resamples 1 --store r.sqlite"
    first = command(judging)
    assert first.code == 0
    asked = len(SENT)
    (said,) = json.loads(command(f"{judging} --dry-run --json").out)["backends"]
    # The check of the judge is remembered elsewhere.
    assert (said["calls"], said["free"]) == (0, asked - 48)
    again = command(judging)
    assert (again.code, again.out, len(SENT)) == (0, first.out, asked)
    done = command("build demo/story --writer words:m --out b --store r.sqlite --json")
    assert json.loads(done.out)["spent"][0]["from_store"] == 12 * 2 * 5
    assert len(SENT) == asked
    text = ("--text", "A storm.", "--context-id", "story-01")
    done = command("score --ladders b --judge words:m --dry-run", *text)
    assert (done.code, done.err) == (0, "")
    assert "dry run, words:m: 10 calls" in done.out


def test_a_dry_run_of_evaluate_goes_on_from_what_is_kept(command, tmp_path):
    line = "evaluate demo/story --judge words:m --work w --resamples 1"
    (said,) = json.loads(command(f"{line} --dry-run --json").out)["backends"]
    assert not (tmp_path / "w").exists()
    done = command(line)
    assert said["calls"] == len(SENT)
    assert tokens() <= said["prompt_tokens"] <= tokens() + said["calls"] * 2 * 512
    assert f"words:m: {len(SENT):,} calls, {tokens():,} prompt tokens" in done.err
    kept = {path.name: path.read_bytes() for path in (tmp_path / "w").iterdir()}
    (said,) = json.loads(command(f"{line} --dry-run --json").out)["backends"]
    assert said["calls"] == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "w").iterdir()} == kept


def test_a_judge_that_costs_money_has_a_store_unless_told_otherwise(spent, tmp_path):
    store = tmp_path / "cache" / "refladder" / "responses.sqlite"
    (one,) = spent("--no-store", judge="openai:m")
    assert (one["from_store"], store.exists()) == (None, False)
    (one,) = spent(judge="openai:m")
    assert (one["from_store"], store.exists()) == (0, True)
    (one,) = spent(judge="openai:m")
    assert (one["calls"], one["from_store"]) == (0, ROWS * EACH)
    for options in ("", "--store r.sqlite --no-store"):
        (one,) = spent(options)
        assert one["from_store"] is None


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--budget 1",
            "--budget needs the model's price; give a table of prices with --prices FILE",
        ),
        ("--budget 0 --prices prices.toml", "Invalid value for '--budget'"),
        ("--prices prices.toml --judge words:n", "prices.toml 'n'. Known: m"),
        (
            "--prices prices.toml --budget 90 --shard 1/2 --out folder",
            "--budget is compared with the cost of the whole table, and --shard scores a part of it; leave",
        ),
    ],
)
def test_options_that_do_not_fit_together(score, options, message):
    done = score(options, source="in" if "shard" in options else "outputs.jsonl")
    assert (done.code, SENT) == (2, [])
    assert message in done.err


@pytest.mark.usefixtures("prices")
def test_a_budget_reads_its_source_twice(score):
    done = score("--prices prices.toml --budget 1", source="-")
    message = "--budget reads SOURCE twice, so it cannot be standard input or a pipe; give a file"
    assert done.code == 2
    assert message in done.err


@pytest.mark.usefixtures("prices")
def test_a_run_above_the_budget_is_refused_where_nobody_can_be_asked(score, tmp_path):
    done = score("--prices prices.toml --budget 0.5")
    assert (done.code, SENT) == (2, [])
    assert re.search(
        r"this run costs \d+\.\d{4} USD, and the budget is 0.50 USD; raise --budget, or see the cost of each model with "
        "--dry-run",
        done.err,
    )
    assert not (tmp_path / "scored.jsonl").exists()


@pytest.mark.usefixtures("prices")
def test_a_run_above_the_budget_asks_and_stops_there_and_the_next_goes_on(
    score, spent, asked_at_a_terminal, monkeypatch
):
    budget = "--prices prices.toml --budget 25 --store r.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr("click.confirm", lambda *_, **__: False)
        assert (score(budget).code, SENT) == (0, [])
    done = score(budget)
    assert done.code == 1
    assert "the budget of 25.00 USD does not cover the next prompt" in done.err
    assert asked_at_a_terminal[0].endswith(
        "USD, and the budget is 25.00 USD. Start anyway, and stop when the budget is spent?"
    )
    assert 0 < cost() <= 25
    sent = len(SENT) - CHECK  # of the rows
    assert 0 < sent < ROWS * EACH
    (after,) = spent("--prices prices.toml --budget 100 --store r.sqlite")
    # The check is remembered.
    assert (after["calls"], after["from_store"]) == (ROWS * EACH - sent, sent)
    assert len({prompt.text for prompt in SENT}) == len(SENT) == ALL


@pytest.mark.usefixtures("prices", "asked_at_a_terminal")
@pytest.mark.parametrize("answers", ["rating", "rating:stated"])
def test_a_rating_stops_at_the_budget_and_the_next_run_goes_on(score, spent, answers, monkeypatch):
    def write(_judge, prompts, sampling):
        del sampling
        SENT.extend(prompts)
        return [Completion(text="1: 5\n2: 10\n3: 25\n4: 40\n5: 20") for _ in prompts]

    monkeypatch.setattr(Words, "write", write)
    how = f"--answers {answers} --any-judge --prices prices.toml --store r.sqlite"
    # The 5 rungs of 12 ladders, and the rows, on 2 dimensions; the rungs of the check are among them, and stored.
    every = 2 * (12 * 5 + ROWS)
    plan = json.loads(score(f"{how} --dry-run --json").out)["backends"][0]
    assert plan["calls"] == every
    done = score(f"{how} --budget 40")
    assert done.code == 1, done.err
    assert "the budget of 40.00 USD does not cover the next prompt" in done.err
    assert 0 < len(SENT) < every
    spent(f"{how} --budget 1000")
    assert len({prompt.text for prompt in SENT}) == every
    # A judge may have changed, so each run asks it for the rungs; no text is asked about twice.
    of_texts = [prompt.text for prompt in SENT if not prompt.anew]
    assert len(set(of_texts)) == len(of_texts) == 2 * ROWS


@pytest.mark.usefixtures("prices", "asked_at_a_terminal")
def test_files_report_what_was_asked_and_have_a_budget(score, spent, monkeypatch):
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)
    (whole,) = spent("--prices prices.toml")
    SENT.clear()
    stored = "--prices prices.toml --store r.sqlite --json"
    done = score(f"{stored} --budget 5", source="in", out="out")
    assert done.code == 1
    assert "the budget of 5.00 USD does not cover the next prompt" in done.err
    sent = len(SENT)
    assert 0 < sent < ROWS * EACH
    (after,) = spent(f"{stored} --budget 100", source="in", out="out")
    assert (after["backend"], after["calls"]) == ("words:m", ROWS * EACH - sent)
    assert after["usd"] == pytest.approx(after["prompt_tokens"] * 0.001 + after["calls"] * 0.01)
    (alone,) = spent("--prices prices.toml --no-store", source="in", out="anew")
    assert {**alone, "seconds": 0} == {**whole, "seconds": 0}
    done = score("--prices prices.toml --no-store", source="in", out="again")
    words = f"words:m: {ALL} calls, {whole['prompt_tokens']:,} prompt tokens"
    assert words in done.err
    assert f"{whole['usd']:.4f} USD in" in done.err
    assert (
        spent("--prices prices.toml --no-store", source="in", out="anew") == []
    )  # nothing is left


@pytest.mark.usefixtures("prices")
def test_each_worker_of_many_files_may_spend_its_share(score, monkeypatch):
    tasks = []

    class Two(Inline):
        number = 2

        def start(self, task):
            tasks.append(json.loads(task))
            super().start(task)

        def put(self, worker, *asked):
            self.queue = [*getattr(self, "queue", []), (worker, asked)]

        def wait(self, tell):
            del tell
            worker, asked = self.queue.pop(0)
            self.idle.append(worker)
            return worker, self.worker.run(*asked)

    monkeypatch.setattr("refladder.many_files.workers.Processes", Two)
    budget = "--prices prices.toml --budget 90 --workers 2 --store r.sqlite"
    done = score(budget, source="in", out="out")
    assert done.code == 0
    assert "--budget: each of 2 workers may spend 45 USD" in done.err
    assert [task["budget"] for task in tasks] == [45]


@pytest.mark.usefixtures("prices", "asked_at_a_terminal")
def test_a_worker_in_the_place_of_a_dead_one_may_spend_what_is_left(
    score, spent, table, tmp_path, monkeypatch
):
    source = split(read_lines(table), tmp_path / "two", ROWS - 1)
    (whole,) = spent("--prices prices.toml")

    class Dying(Inline):
        calls = 0

        def start(self, task):
            self.task = task
            super().start(task)

        def wait(self, tell):
            self.calls += 1
            answered = super().wait(tell)
            if self.calls != 2:  # the check of the judge, and the second file
                return answered
            self.worker = Worker(self.task)  # the answer is lost with the worker that died
            return 0, None

    monkeypatch.setattr("refladder.many_files.workers.Processes", Dying)
    # Most goes to the first file; what the second asked stays in its judgments.
    budget = 0.75 * whole["usd"]
    done = score(f"--prices prices.toml --budget {budget} --no-store", source=source, out="out")
    assert done.code == 1, done.err
    assert f"the budget of {budget:.2f} USD does not cover the next prompt" in done.err


@pytest.mark.usefixtures("prices")
def test_a_budget_for_a_backend_without_tokens_is_refused(score, monkeypatch):
    monkeypatch.delattr(Words, "count_tokens")
    done = score("--prices prices.toml --budget 5")
    assert (done.code, SENT) == (2, [])
    message = (
        "words/m: cannot count its tokens, and a budget needs their number; name its tokenizer with"
    )
    assert message in done.err


@pytest.mark.usefixtures("prices")
def test_a_budget_for_a_server_that_tells_its_tokens_afterwards(score, words, monkeypatch):
    class Server(Words):
        @property
        def usage(self):
            return Usage(requests=len(SENT), prompt_tokens=100 * len(SENT))

        def read_labels_each(self, prompts, labels):
            for number, prompt in enumerate(prompts):
                yield number, self.read_labels([prompt], labels)[0]

    monkeypatch.delattr(Words, "count_tokens")
    monkeypatch.setattr(words, "words", Server)
    refused = score("--prices prices.toml --budget 0.45")
    assert re.search(
        r"this run costs about \d+\.\d{4} USD, and the budget is 0.45 USD", refused.err
    )
    assert (refused.code, SENT) == (2, [])
    # The estimate was too high: the run goes on until the server reports what it has spent.
    monkeypatch.setattr("refladder.backends.dry_run.CHARACTERS", 1e6)
    done = score("--prices prices.toml --budget 0.85")
    assert done.code == 1
    assert "does not cover the next prompt (0.9000 USD spent by this run" in done.err
    assert len(SENT) == 9  # 0.1 USD each


@pytest.mark.usefixtures("prices")
def test_backends_that_are_free_need_no_price(spent):
    (one,) = spent("--prices prices.toml --budget 0.01", judge="builtin")
    assert (one["calls"], one["usd"], one["from_store"]) == (ALL, None, None)


def test_a_backend_is_opened_once():
    spending = Spending(SpendingOptions())
    assert spending.open("words:m") is spending.open("words:m")
    assert spending.open("words:m") is not spending.open("words:n")


@pytest.mark.usefixtures("prices")
def test_the_report_card_tells_tokens_and_money_of_what_was_sent(command):
    line = (
        "evaluate demo/dialogue --judge words:m --prices prices.toml --store store.sqlite --methods win-ratio,direct-5 "
        "--resamples 5 --json"
    )

    def cards():
        done = command(line)
        assert done.code == 0, done.err
        return [one for one in done.rows if one.get("kind") == "card" and one["dimension"] == "all"]

    pairs, grades = cards()
    # 14 contexts of 6 outputs: 30 ordered pairs each, and a grade each; an answer is one token
    assert (pairs["calls"], grades["calls"]) == (14 * 30, 14 * 6)
    assert pairs["prompt_tokens"] + grades["prompt_tokens"] == tokens()
    for card in (pairs, grades):
        assert card["usd"] == pytest.approx(card["prompt_tokens"] * 0.001 + card["calls"] * 0.01)
    # everything is stored now: asked, but not sent
    SENT.clear()
    pairs, grades = cards()
    assert (pairs["calls"], pairs["prompt_tokens"], pairs["usd"], SENT) == (0, 0, 0, [])


@pytest.mark.usefixtures("prices")
def test_the_configuration_of_a_run_holds_store_prices_and_budget(spent, tmp_path):
    spent("--store r.sqlite --prices prices.toml --budget 99")
    options = json.loads((tmp_path / "scored.jsonl.run.json").read_text())["options"]
    assert (options["store"], options["prices"], options["budget"]) == (
        "r.sqlite",
        "prices.toml",
        99.0,
    )
    assert (options["without_store"], options["dry_run"]) == (False, False)


@pytest.mark.parametrize("quirks", [OPENAI, TEXT_ONLY, TRANSFORMERS], ids=["top", "each", "fixed"])
def test_a_dry_run_announces_the_requests_that_are_then_sent(
    command, monkeypatch, table, tmp_path, quirks
):
    """With those of the handshake; tokens are guessed from characters, and so is the price, where no tokenizer is."""
    opener = "refladder.backends.openai.backend:open_openai"
    monkeypatch.setitem(backends.BACKENDS, "openai", Entry(opener, ""))
    (tmp_path / "toy.toml").write_text("[toy]\ninput = 2\noutput = 8\n")
    with ToyServer(quirks) as server:
        line = f"score {table} --ladders demo/summarization --judge openai:toy --base-url {server.url} --any-judge"
        line += f" --prices {tmp_path}/toy.toml --no-store --judge-option samples=3"
        said = json.loads(command(f"{line} --dry-run --json").out)["backends"][0]
        words = command(f"{line} --dry-run").out
        server.asked.clear()
        (after,) = json.loads(command(f"{line} --json --out {tmp_path}/o.jsonl").out)["spent"]
        assert said["requests"] == after["requests"] == len(server.asked)
    # TEXT_ONLY returns one answer for a request, so each prompt is sent three times.
    sent = said["characters"] * (3 if quirks is TEXT_ONLY else 1)
    assert said["prompt_tokens"] == math.ceil(sent / 3.7)
    assert said["tokens_from_characters"]
    # USD for a million tokens: 2 for those of prompts, 8 for those of answers.
    assert said["usd"] == pytest.approx(
        (2 * said["prompt_tokens"] + 8 * said["answer_tokens"]) / 1e6
    )
    price = f"about {said['prompt_tokens']:,} prompt tokens, at most {said['answer_tokens']:,} answer tokens, about"
    assert (
        f"{said['calls']} calls, {said['requests']} requests, {price} {said['usd']:.4f} USD"
        in words
    )
    assert (
        "\n  the tokenizer is not known: 3.7 characters count as a token, as in Latin script; other scripts take more\n"
        in words
    )


def test_a_call_counts_what_its_command_counts(score, table):
    options = {"ladders": "demo/summarization", "judge": "words:m", "dimensions": ["fluency"]}
    counted = json.loads(score("--dry-run --json --dimension fluency").out)
    for given in (str(table), read_lines(table)):
        assert refladder.score(given, **options, dry_run=True, any_judge=True) == counted
    assert SENT == []
