"""The commands with answers through files: exit code 4 while answers are awaited, and what they give in the end."""

import json

import pytest
from answering import answered, put, requests, short
from doubles import Double, asker
from toy_server import OPENAI, ToyServer

import refladder
from refladder.backends import connect
from refladder.backends.cache.cached import Stored
from refladder.commands import console
from refladder.commands.main import run
from refladder.errors import AnswersAwaitedError
from refladder.loaders import load_benchmark
from refladder.prompts import load_template
from refladder.records import LabelReading
from refladder.scoring.question import pair_question
from refladder.scoring.scorer import FIRST_BATCH, batches

ROWS = [
    {"context_id": "story-04", "output": text}
    for text in ("I like trains.", "The keeper watched the storm.")
]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    console.say_once.cache_clear()
    return tmp_path / "answers"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return str(path)


def judge(folder, *options):
    return ["--judge", "openai:toy", "--base-url", f"file:{folder}", *options]


def exchanges(folder, command, answer=answered):
    """Run a command until its answers are there: how many requests each exchange wrote, and the exit code."""
    waves = []
    for number in range(9):
        known = len(requests(folder))
        if (code := run(command)) != 4:
            return waves, code
        waves.append(len(requests(folder)) - known)
        put(folder, answer(folder), f"answers-{number}.jsonl")
    raise AssertionError(waves)


def test_score_asks_the_check_and_the_rows(folder, table, tmp_path, capsys):
    score = ["score", table, "--ladders", "demo/story", "--any-judge"]
    out = tmp_path / "out.jsonl"
    two = "the judge check is an exchange of files of its own, and the rows are the next: a first run takes two\n"
    assert run([*score, *judge(folder, "--dry-run")]) == 0
    printed = capsys.readouterr()
    assert (
        "\n  through files: 68 requests to write, but for those that the folder holds\n"
        in printed.out
    )
    assert two in printed.err
    assert not folder.exists()
    waves, code = exchanges(folder, [*score, *judge(folder), "--out", str(out)])
    assert waves == [
        48,
        20,
    ]  # 12 ladders of 2 dimensions, best and worst; 2 rows, 2 dimensions, 5 rungs
    assert code == 0
    assert "refladder: 20 requests wait for an answer in" in capsys.readouterr().err
    with ToyServer(OPENAI) as server:
        direct = [
            "--judge",
            "openai:toy",
            "--base-url",
            server.url,
            "--judge-option",
            "mode=sample",
            "--no-store",
        ]
        assert run([*score, *direct, "--out", str(tmp_path / "direct.jsonl")]) == 0
    found, expected = (
        [{**json.loads(line), "signature": None} for line in path.read_text().splitlines()]
        for path in (out, tmp_path / "direct.jsonl")
    )
    assert found == expected
    assert found[0]["coherence_score"] is not None


def test_build_needs_one_exchange_a_wave(folder, tmp_path):
    command = ["build", "demo/summarization", "--out", str(tmp_path / "set"), "--rungs", "3"]
    command += ["--writer", "openai:toy", "--base-url", f"file:{folder}"]

    def texts(folder):
        return [
            {"custom_id": one["custom_id"], "text": f"The text {one['custom_id']}."}
            for one in requests(folder)
        ]

    waves, code = exchanges(folder, command, texts)
    assert waves == [48, 24]  # 12 contexts of 2 dimensions: worst and best, then the rung between
    assert code == 0
    assert len((tmp_path / "set/ladders.jsonl").read_text().splitlines()) == 24


@pytest.mark.parametrize(
    ("command", "waves"),
    [  # audit: 2 contexts, 2 dimensions, 20 ordered pairs of 5 rungs, and 3 sentences in 4 comparisons
        (["audit", "demo/story", "--contexts", "2"], [128]),
        (["score", "rows", "--ladders", "demo/story", "--dimension", "coherence", "--any-judge", "--answers", "2"],
         [48, 20]),
        (["score", "rows", "--ladders", "demo/story", "--any-judge", "--answers", "stated"], [48, 4]),
    ],
)  # fmt: skip
def test_other_commands(folder, table, command, waves):
    command = [table if word == "rows" else word for word in command]
    found, code = exchanges(folder, [*command, *judge(folder)])
    assert (found, code in {0, 3}) == (waves, True)


def test_evaluate_and_certify(folder, tmp_path, request):
    source = request.config.rootpath / "published_data/demo/story"
    few = [*judge(folder), "--judge-option", "samples=2"]
    ladders = tmp_path / "set"
    ladders.mkdir()
    for name in ("contexts", "dimensions", "ladders"):
        lines = (source / f"{name}.jsonl").read_text("utf-8").splitlines(keepends=True)
        if name in {"dimensions", "ladders"}:
            lines = [line for line in lines if '"coherence"' in line]
        (ladders / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    waves, code = exchanges(folder, ["certify", str(ladders), *few])
    assert (waves, code) == ([20 * len(lines)], 3)  # 10 pairs of 5 rungs, in both orders
    command = [
        "evaluate",
        "demo/story",
        "--ladders",
        str(ladders),
        "--methods",
        "ladder",
        "--dimension",
        "coherence",
        *few,
    ]
    _, code = exchanges(folder, command)
    assert code in {0, 3}


def test_a_call_of_python_continues(folder):
    arguments = {
        "ladders": "demo/story",
        "judge": "openai:toy",
        "any_judge": True,
        "dimensions": ["coherence"],
    }
    arguments["judge_options"] = {"base_url": f"file:{folder}"}
    for _ in range(2):
        with pytest.raises(AnswersAwaitedError, match="requests wait for an answer in"):
            refladder.score(ROWS, **arguments)
        put(folder, map(short, answered(folder)))
    assert len(refladder.score(ROWS, **arguments)) == 2


def test_two_commands_share_a_folder(folder, table):
    score = ["score", table, "--ladders", "demo/story", "--any-judge", *judge(folder), "--no-store"]
    assert run([*score, "--dimension", "coherence"]) == 4
    assert run([*score, "--dimension", "complexity"]) == 4
    assert run([*score, "--dimension", "complexity"]) == 4
    assert len(requests(folder)) == 48
    put(folder, answered(folder))
    assert run([*score, "--dimension", "coherence"]) == 4
    assert len(requests(folder)) == 58


def test_a_budget_needs_the_tokens_beforehand(folder, table, tmp_path, capsys):
    (tmp_path / "prices.toml").write_text('["toy"]\ninput = 1000.0\noutput = 0.0\n')
    command = ["score", table, "--ladders", "demo/story", *judge(folder), "--budget", "1"]
    assert run([*command, "--prices", str(tmp_path / "prices.toml")]) == 2
    assert (
        "openai:toy: all requests are written before one is answered, so --budget needs their number of tokens; name "
        "the model's tokenizer with --judge-option tokenizer=PATH"
    ) in capsys.readouterr().err


def test_many_files_are_refused(folder, table, tmp_path, capsys):
    command = [
        "score",
        table,
        "--ladders",
        "demo/story",
        *judge(folder),
        "--workers",
        "2",
        "--out",
        str(tmp_path / "o"),
    ]
    assert run(command) == 2
    assert (
        "--base-url file:FOLDER asks about a whole table at once; score the table with --out FILE"
        in (capsys.readouterr().err)
    )


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
    pairs = [
        pair_question(benchmark.contexts[0], benchmark.dimensions[0], outputs[0], other)
        for other in outputs[1:]
    ]
    assert len(judge.ask(pairs)) == len(pairs) > 1
    assert sizes == [len({pair.key for pair in pairs})]


def test_a_dry_run_with_a_kept_handshake_asks_the_server_nothing(table, tmp_path, capsys):
    with ToyServer(OPENAI) as server:
        command = [
            "score",
            table,
            "--ladders",
            "demo/story",
            "--judge",
            "openai:toy",
            "--base-url",
            server.url,
        ]
        command += [
            "--judge-option",
            f"probe-cache={tmp_path / 'probes'}",
            "--dry-run",
            "--json",
        ]
        assert run(command) == 0
        first = capsys.readouterr().out
        asked = len(server.asked)
        assert asked > 0
        assert run(command) == 0
        assert capsys.readouterr().out == first
        assert len(server.asked) == asked


def test_a_backend_that_wants_all_gets_all_through_its_wrappers():
    class All(Double):
        wants_all = True

    assert [len(batch) for batch in batches(range(5000), All())] == [5000]
    assert [len(batch) for batch in batches(range(5000), Stored(All(), None))] == [5000]
    assert next(batches(range(5000), Double())) == list(range(FIRST_BATCH))


def test_the_notice_says_where_answers_come_from(tmp_path):
    judge = connect("openai:model", base_url=f"file:{tmp_path}/answers")
    assert judge.notice == f"model: answers come from files in {tmp_path}/answers"
