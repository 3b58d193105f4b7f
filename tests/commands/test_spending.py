"""--store, --dry-run, --prices and --budget of the commands that ask a backend."""

import json
import re
import sys
from types import ModuleType

import pytest
from doubles import Double
from scored_folders import Inline, split

from refladder import backends
from refladder.backends import connect
from refladder.backends.cache.store import ResponseStore
from refladder.backends.protocol import Usage
from refladder.commands import main as cli
from refladder.commands.spending import Spending, SpendingOptions
from refladder.fleet.worker import Worker
from refladder.loaders import load_benchmark
from refladder.registry import Entry

ROWS = 3  # outputs in `table`
EACH = 2 * 5  # dimensions x rungs of demo/summarization
CHECK = 2 * 12 * 2  # of the check of the judge: dimensions x ladders x orders


class Words(Double):
    """The builtin backend, with a fingerprint of its own and a token a word; remembers what it was sent."""

    sent: list = []  # noqa: RUF012  the test's own list, cleared before each

    def __init__(self, target):
        self.backend = connect("builtin")
        self.fingerprint = f"words/{target}"

    def count_tokens(self, prompts):
        return [len(prompt.text.split()) for prompt in prompts]

    def write(self, prompts, sampling):
        Words.sent += prompts
        return self.backend.write(prompts, sampling)

    def read_labels(self, prompts, labels):
        Words.sent += prompts
        return self.backend.read_labels(prompts, labels)


@pytest.fixture(autouse=True)
def words(monkeypatch, tmp_path):
    module = ModuleType("backends_of_this_test")

    module.words = Words
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(backends.BACKENDS, "words", Entry(f"{module.__name__}:words", ""))
    monkeypatch.setitem(backends.BACKENDS, "openai", Entry(f"{module.__name__}:words", ""))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("REFLADDER_STORE", raising=False)
    monkeypatch.delenv("REFLADDER_PRICES", raising=False)
    monkeypatch.chdir(tmp_path)
    Words.sent = []


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "outputs.jsonl"
    outputs = load_benchmark("demo/summarization").outputs[:ROWS]
    rows = [
        {"output_id": one.id, "context_id": one.context_id, "output": one.text} for one in outputs
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def tables(table, tmp_path):
    """A folder with the rows of the table, one to a file."""
    return split([json.loads(line) for line in table.read_text().splitlines()], tmp_path / "in", 1)


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(
        '["m"]\ninput = 1000\noutput = 10000\n'
    )  # 0.001 USD a prompt token, 0.01 an answer token
    return path


def run(capsys, *arguments):
    code = cli.run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def score(capsys, table, *more, judge="words:m", out="scored.jsonl"):
    return run(
        capsys,
        "score",
        table,
        "--ladders",
        "demo/summarization",
        "--judge",
        judge,
        "--out",
        out,
        *more,
    )


def forget(folder):
    """Delete the judgments of an earlier run."""
    (folder / "scored.jsonl.judgments.jsonl").unlink()


def spent(capsys, table, *more, **rest):
    code, out, _ = score(capsys, table, "--json", *more, **rest)
    assert code == 0
    return json.loads(out)["spent"]


def tokens():
    return sum(len(prompt.text.split()) for prompt in Words.sent)


def test_a_dry_run_tells_what_is_then_sent_and_asks_nothing(capsys, table, tmp_path, prices):
    code, out, err = score(capsys, table, "--dry-run", "--json", "--prices", prices)
    assert (code, err, Words.sent) == (0, "", [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outputs.jsonl", "prices.toml"]
    (said,) = json.loads(out)["backends"]
    (after,) = spent(capsys, table, "--prices", prices)
    assert said["calls"] == after["calls"] == len(Words.sent) == CHECK + ROWS * EACH
    assert said["prompt_tokens"] == after["prompt_tokens"] == tokens()
    assert said["answer_tokens"] == after["answer_tokens"] == CHECK + ROWS * EACH
    assert (
        said["usd"]
        == after["usd"]
        == pytest.approx(tokens() * 0.001 + (CHECK + ROWS * EACH) * 0.01)
    )
    assert (said["exact"], said["free"]) == (True, 0)
    assert after["seconds"] > 0
    code, out, _ = score(capsys, table, "--dry-run", "--json")
    assert json.loads(out) == {
        "dry_run": True,
        "kept_judgments": ROWS * EACH,
        "backends": [
            {
                "backend": "words:m",
                "calls": 0,
                "requests": None,
                "characters": 0,
                "prompt_tokens": None,
                "run_tokens": None,
                "answer_tokens": None,
                "least_calls": 0,
                "free": 0,
                "too_long": 0,
                "exact": True,
                "usd": None,
                "seconds": None,
            }
        ],
    }


def test_a_dry_run_in_words(capsys, table, prices):
    _, out, _ = score(capsys, table, "--dry-run", "--prices", prices)
    _, _, err = score(capsys, table, "--prices", prices)
    count, calls = tokens(), CHECK + ROWS * EACH
    cost = f"{count * 0.001 + calls * 0.01:.4f} USD"
    words = (
        f"words:m: {calls} calls, {count:,} prompt tokens, at most {calls} answer tokens, {cost}"
    )
    assert out == f"dry run, {words}; 0 answers from the response store\nnothing was asked\n"
    assert f"{words} in 0." in err
    _, out, _ = score(capsys, table, "--dry-run")
    assert f"dry run: {ROWS * EACH} judgments reused from earlier runs\n" in out
    _, out, _ = run(capsys, "build", "demo/story", "--out", "b", "--dry-run")
    assert "at most 120 calls" in out
    assert "prompt characters (tokens not known)" in out
    assert "  texts that are still to be written are not counted in the characters\n" in out


def test_a_dry_run_estimates_the_time_from_stored_answers(capsys, table, tmp_path, monkeypatch):
    def pace(_store, fingerprint, kind):
        return 2.0 if (fingerprint, kind) == ("words/m", "labels") else None

    monkeypatch.setattr(ResponseStore, "answer_seconds", pace)
    stored = ("--store", tmp_path / "r.sqlite", "--dry-run")
    _, out, _ = score(capsys, table, *stored)
    minutes = 2 * (CHECK + ROWS * EACH) / 60
    assert f"\n  about {minutes:.0f} min at the pace of the stored answers\n" in out
    _, out, _ = score(capsys, table, *stored, "--json")
    assert json.loads(out)["backends"][0]["seconds"] == 2 * (CHECK + ROWS * EACH)
    _, out, _ = score(capsys, table, "--dry-run")
    assert "pace" not in out


def test_a_dry_run_needs_neither_a_key_nor_a_server(capsys, table, monkeypatch):
    opener = "refladder.backends.openai.backend:open_openai"
    monkeypatch.setitem(backends.BACKENDS, "openai", Entry(opener, ""))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("REFLADDER_API_KEY", raising=False)
    calls = f"dry run, openai:m: {CHECK + ROWS * EACH} calls, "
    nowhere = ("--base-url", "http://127.0.0.1:9/v1")
    for options, reason in (((), "needs a key; set OPENAI_API_KEY"), (nowhere, "start the server")):
        asked = {"judge": "openai:m", "out": "o.jsonl"}
        code, out, err = score(capsys, table, *options, "--dry-run", **asked)
        assert (code, out.startswith(calls)) == (0, True)
        assert "(tokens not known)" in out
        assert re.search(
            rf"m: the server was not asked \(http.*{reason}.*\)\. The estimate assumes that it reads label "
            r"probabilities\. Its tokens and stored answers are not known",
            err,
        )
        code, _, err = score(capsys, table, *options, **asked)
        assert code == 1
        assert reason in err


def test_a_dry_run_refuses_what_the_run_refuses(capsys, table):
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    table.write_text("".join(json.dumps({**row, "fluency_score": 1.0}) + "\n" for row in rows))
    message = (
        f"refladder: {table}: column 'fluency_score' exists already; rename or drop it first\n"
    )
    for options in (("--dry-run",), ()):
        assert score(capsys, table, *options) == (2, "", message)
    assert Words.sent == []


def test_a_second_run_with_a_store_asks_nothing(capsys, table, tmp_path):
    store = tmp_path / "r.sqlite"
    (first,) = spent(capsys, table, "--store", store)
    assert (first["calls"], first["from_store"]) == (CHECK + ROWS * EACH, 0)
    scored = (tmp_path / "scored.jsonl").read_bytes()
    Words.sent = []
    forget(tmp_path)
    (second,) = spent(capsys, table, "--store", store)
    assert (second["calls"], second["from_store"], Words.sent) == (
        0,
        ROWS * EACH,
        [],
    )  # the check is remembered
    assert (tmp_path / "scored.jsonl").read_bytes() == scored
    forget(tmp_path)
    _, out, _ = score(capsys, table, "--store", store, "--dry-run")
    assert (
        out
        == f"dry run, words:m: 0 calls; {ROWS * EACH} answers from the response store\nnothing was asked\n"
    )


@pytest.mark.parametrize("store", [False, True])
def test_an_output_that_comes_twice_is_asked_twice_unless_answers_are_stored(
    capsys, table, tmp_path, store
):
    again = json.loads(table.read_text().splitlines()[0]) | {"output_id": "again"}
    table.write_text(table.read_text() + json.dumps(again) + "\n")
    options = ("--store", tmp_path / "r.sqlite") if store else ()
    calls, reused = (CHECK + ROWS * EACH, EACH) if store else (CHECK + (ROWS + 1) * EACH, 0)
    _, out, _ = score(capsys, table, "--dry-run", *options)
    assert out.startswith(f"dry run, words:m: {calls} calls, ")
    repeated = f", {reused} from earlier calls of the run" if reused else ""
    assert f"; 0 answers from the response store{repeated}\n" in out
    assert Words.sent == []
    (row,) = spent(capsys, table, *options)
    assert len(Words.sent) == row["calls"] == calls
    assert row["from_store"] in {reused, None}


def test_every_command_that_asks_keeps_answers(capsys, tmp_path):
    store = ("--store", tmp_path / "r.sqlite")
    judging = ("--judge", "words:m", "--format", "json", "--resamples", "1")
    code, first, _ = run(capsys, "evaluate", "demo/story", *judging, *store)
    assert code == 0
    asked = len(Words.sent)
    code, out, _ = run(capsys, "evaluate", "demo/story", *judging, *store, "--dry-run", "--json")
    assert code == 0
    (said,) = json.loads(out)["backends"]
    assert (said["calls"], said["free"]) == (
        0,
        asked - 48,
    )  # the check of the judge is remembered elsewhere
    code, second, err = run(capsys, "evaluate", "demo/story", *judging, *store)
    assert (code, second, len(Words.sent)) == (0, first, asked)
    code, out, _ = run(
        capsys, "build", "demo/story", "--writer", "words:m", "--out", "b", *store, "--json"
    )
    assert code == 0
    assert json.loads(out)["spent"][0]["from_store"] == 12 * 2 * 5
    assert len(Words.sent) == asked
    code, out, err = run(
        capsys, "score", "--text", "A storm.", "--context-id", "story-01", "--ladders", "b", "--judge", "words:m",
        "--dry-run",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "dry run, words:m: 10 calls" in out


def test_a_dry_run_of_evaluate_goes_on_from_what_is_kept(capsys, tmp_path):
    judging = ("--judge", "words:m", "--work", tmp_path / "w", "--resamples", "1")
    _, out, _ = run(capsys, "evaluate", "demo/story", *judging, "--dry-run", "--json")
    assert not (tmp_path / "w").exists()
    (said,) = json.loads(out)["backends"]
    code, _, err = run(capsys, "evaluate", "demo/story", *judging)
    assert code == 0
    assert said["calls"] == len(Words.sent)
    assert tokens() <= said["prompt_tokens"] <= tokens() + said["calls"] * 2 * 512
    assert f"words:m: {len(Words.sent):,} calls, {tokens():,} prompt tokens" in err
    kept = {path.name: path.read_bytes() for path in (tmp_path / "w").iterdir()}
    _, out, _ = run(capsys, "evaluate", "demo/story", *judging, "--dry-run", "--json")
    assert json.loads(out)["backends"][0]["calls"] == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "w").iterdir()} == kept


def test_a_judge_that_costs_money_has_a_store_unless_told_otherwise(capsys, table, tmp_path):
    store = tmp_path / "cache" / "refladder" / "responses.sqlite"
    (one,) = spent(capsys, table, "--no-store", judge="openai:m")
    assert (one["from_store"], store.exists()) == (None, False)
    forget(tmp_path)
    (one,) = spent(capsys, table, judge="openai:m")
    assert (one["from_store"], store.exists()) == (0, True)
    forget(tmp_path)
    (one,) = spent(capsys, table, judge="openai:m")
    assert (one["calls"], one["from_store"]) == (0, ROWS * EACH)
    forget(tmp_path)
    (one,) = spent(capsys, table)
    assert one["from_store"] is None
    forget(tmp_path)
    (one,) = spent(capsys, table, "--store", tmp_path / "r.sqlite", "--no-store")
    assert one["from_store"] is None


def test_options_that_do_not_fit_together(capsys, table, prices):
    for more, message in (
        (
            ("--budget", "1"),
            "--budget needs the model's price; give a table of prices with --prices FILE",
        ),
        (("--budget", "0", "--prices", prices), "Invalid value for '--budget'"),
    ):
        code, _, err = score(capsys, table, *more)
        assert code == 2
        assert message in err
    code, _, err = score(capsys, table, "--prices", prices, judge="words:n")
    assert code == 2
    assert "prices.toml 'n'; did you mean" in err or "prices.toml 'n'; Known: m" in err
    code, _, err = run(
        capsys,
        "score",
        "-",
        "--ladders",
        "demo/summarization",
        "--judge",
        "words:m",
        "--prices",
        prices,
        "--budget",
        1,
    )
    assert code == 2
    assert (
        "--budget reads SOURCE twice, so it cannot be standard input or a pipe; give a file" in err
    )
    assert Words.sent == []


def test_a_run_above_the_budget_is_refused_where_nobody_can_be_asked(
    capsys, table, tmp_path, prices, monkeypatch
):
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115, PTH123
    code, _, err = score(capsys, table, "--prices", prices, "--budget", "0.5")
    sys.stdin.close()
    assert (code, Words.sent) == (2, [])
    assert (
        "USD, and the budget is 0.50 USD; raise --budget, or see the cost of each model with --dry-run"
        in err
    )
    assert "this run costs " in err
    assert not (tmp_path / "scored.jsonl").exists()


def test_a_run_above_the_budget_asks_and_stops_there_and_the_next_goes_on(
    capsys, table, tmp_path, prices, monkeypatch
):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    said = []
    monkeypatch.setattr("click.confirm", lambda text, **_: said.append(text) or len(said) > 1)
    budget = ("--prices", prices, "--budget", "25", "--store", tmp_path / "r.sqlite")
    code, _, _ = score(capsys, table, *budget)
    assert (code, Words.sent) == (0, [])  # the answer was no
    code, _, err = score(capsys, table, *budget)
    assert code == 1
    assert "the budget of 25.00 USD does not cover the next prompt" in err
    assert said[0].endswith(
        "USD, and the budget is 25.00 USD. Start anyway, and stop when the budget is spent?"
    )
    assert 0 < tokens() * 0.001 + len(Words.sent) * 0.01 <= 25
    done = len(Words.sent) - CHECK  # of the rows
    assert 0 < done < ROWS * EACH
    (after,) = spent(
        capsys, table, "--prices", prices, "--budget", "100", "--store", tmp_path / "r.sqlite"
    )
    assert (after["calls"], after["from_store"]) == (
        ROWS * EACH - done,
        done,
    )  # the check is remembered
    assert len({prompt.text for prompt in Words.sent}) == len(Words.sent) == CHECK + ROWS * EACH


def test_files_report_what_was_asked_and_have_a_budget(capsys, table, tables, prices, monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda _text, **_: True)
    store = ("--prices", prices, "--store", table.with_name("r.sqlite"))
    (whole,) = spent(capsys, table, "--prices", prices)
    Words.sent = []
    code, _, err = score(capsys, tables, *store, "--json", "--budget", "5", out="out")
    assert code == 1
    assert "the budget of 5.00 USD does not cover the next prompt" in err
    done = len(Words.sent)
    assert 0 < done < ROWS * EACH
    code, out, _ = score(capsys, tables, *store, "--json", "--budget", "100", out="out")
    (after,) = json.loads(out)["spent"]
    assert code == 0
    assert (after["backend"], after["calls"]) == ("words:m", ROWS * EACH - done)
    assert after["usd"] == pytest.approx(after["prompt_tokens"] * 0.001 + after["calls"] * 0.01)
    _, out, _ = score(capsys, tables, "--json", "--prices", prices, "--no-store", out="anew")
    (alone,) = json.loads(out)["spent"]
    assert {name: alone[name] for name in whole if name != "seconds"} == {
        name: count for name, count in whole.items() if name != "seconds"
    }
    _, out, err = score(capsys, tables, "--prices", prices, "--no-store", out="again")
    assert f"words:m: {CHECK + ROWS * EACH} calls, {whole['prompt_tokens']:,} prompt tokens" in err
    assert f"{whole['usd']:.4f} USD in" in err
    _, out, _ = score(capsys, tables, "--json", "--prices", prices, "--no-store", out="anew")
    assert json.loads(out)["spent"] == []  # nothing was left


def test_each_worker_of_many_files_may_spend_its_share(
    capsys, tables, tmp_path, prices, monkeypatch
):
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

    monkeypatch.setattr("refladder.fleet.workers.Processes", Two)
    budget = ("--prices", prices, "--budget", "90", "--workers", "2")
    code, _, err = score(capsys, tables, *budget, "--store", tmp_path / "r.sqlite", out="out")
    assert code == 0
    assert "--budget: each of 2 workers may spend 45 USD" in err
    assert [task["budget"] for task in tasks] == [45]
    code, _, err = score(capsys, tables, *budget[:4], "--shard", "1/2", out="other")
    assert code == 2
    assert (
        "--budget is compared with the cost of the whole table, and --shard scores a part of it; leave"
        in err
    )


def test_a_worker_in_the_place_of_a_dead_one_may_spend_what_is_left(
    capsys, table, tmp_path, prices, monkeypatch
):
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    source = split(rows, tmp_path / "in", ROWS - 1)
    (whole,) = spent(capsys, table, "--prices", prices)

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

    monkeypatch.setattr("refladder.fleet.workers.Processes", Dying)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", lambda _text, **_: True)
    budget = (
        0.75 * whole["usd"]
    )  # most goes to the first file; what the second asked stays in its judgments
    Words.sent = []
    code, _, err = score(
        capsys, source, "--prices", prices, "--budget", budget, "--no-store", out="out"
    )
    assert code == 1, err
    assert f"the budget of {budget:.2f} USD does not cover the next prompt" in err


def test_a_budget_for_a_backend_without_tokens_is_refused(capsys, table, prices, monkeypatch):
    monkeypatch.delattr(Words, "count_tokens")
    code, _, err = score(capsys, table, "--prices", prices, "--budget", "5")
    assert (code, Words.sent) == (2, [])
    assert (
        "words/m: cannot count its tokens, and a budget needs their number; name its tokenizer with"
        in err
    )


def test_a_budget_for_a_server_that_tells_its_tokens_afterwards(capsys, table, prices, monkeypatch):
    class Server(Words):
        @property
        def usage(self):
            return Usage(requests=len(Words.sent), prompt_tokens=100 * len(Words.sent))

        def read_labels_each(self, prompts, labels):
            for number, prompt in enumerate(prompts):
                yield number, self.read_labels([prompt], labels)[0]

    monkeypatch.delattr(Words, "count_tokens")
    monkeypatch.setattr(sys.modules["backends_of_this_test"], "words", Server)
    code, _, err = score(capsys, table, "--prices", prices, "--budget", "0.45")
    assert code == 1
    assert (
        "words:m: the number of tokens, and so the price, is not known before the run; the run stops when the"
        in err
    )
    assert "does not cover the next prompt (0.5000 USD spent by this run" in err
    assert len(Words.sent) == 5  # 0.1 USD each


def test_backends_that_are_free_need_no_price(capsys, table, prices):
    (one,) = spent(capsys, table, "--prices", prices, "--budget", "0.01", judge="builtin")
    assert (one["calls"], one["usd"], one["from_store"]) == (CHECK + ROWS * EACH, None, None)


def test_a_backend_is_opened_once():
    spending = Spending(SpendingOptions())
    assert spending.open("words:m") is spending.open("words:m")
    assert spending.open("words:m") is not spending.open("words:n")


def test_the_report_card_tells_tokens_and_money_of_what_was_sent(capsys, prices, tmp_path):
    command = [
        "evaluate", "demo/dialogue", "--judge", "words:m", "--prices", prices, "--store", tmp_path / "store.sqlite",
        "--methods", "win-ratio,direct-5", "--resamples", "5", "--json",
    ]  # fmt: skip

    def cards():
        code, out, err = run(capsys, *command)
        assert code == 0, err
        found = [json.loads(line) for line in out.splitlines()]
        return [one for one in found if one.get("kind") == "card" and one["dimension"] == "all"]

    pairs, grades = cards()
    # 14 contexts of 6 outputs: 30 ordered pairs each, and a grade each; an answer is one token
    assert (pairs["calls"], grades["calls"]) == (14 * 30, 14 * 6)
    assert pairs["prompt_tokens"] + grades["prompt_tokens"] == tokens()
    assert pairs["usd"] == pytest.approx(pairs["prompt_tokens"] * 0.001 + 420 * 0.01)
    assert grades["usd"] == pytest.approx(grades["prompt_tokens"] * 0.001 + 84 * 0.01)
    # everything is stored now: asked, but not sent
    Words.sent = []
    pairs, grades = cards()
    assert (pairs["calls"], pairs["prompt_tokens"], pairs["usd"], Words.sent) == (0, 0, 0, [])


def test_the_configuration_of_a_run_holds_store_prices_and_budget(capsys, table, tmp_path, prices):
    store = tmp_path / "r.sqlite"
    code, _, _ = score(capsys, table, "--store", store, "--prices", prices, "--budget", "99")
    assert code == 0
    options = json.loads((tmp_path / "scored.jsonl.run.json").read_text())["options"]
    assert (options["store"], options["prices"], options["budget"]) == (
        str(store),
        str(prices),
        99.0,
    )
    assert (options["without_store"], options["dry_run"]) == (False, False)
