"""The commands with answers through files: exit code 4 while answers are awaited, and what they give in the end."""

import json
import re

import pytest
from answering import answered, put, requests, short
from doubles import Double, asker
from toy_server import OPENAI, ToyServer

import refladder
from refladder.backends.cache.cached import Stored
from refladder.errors import AnswersAwaitedError
from refladder.loaders import load_benchmark
from refladder.prompts import load_template
from refladder.records import LabelReading
from refladder.scoring.question import pair_question
from refladder.scoring.scorer import FIRST_BATCH, batches

STORY = ("--ladders", "demo/story")
ROWS = [
    {"context_id": "story-04", "output": text}
    for text in ("I like trains.", "The keeper watched the storm.")
]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "answers"


@pytest.fixture
def table(write_jsonl):
    return write_jsonl(ROWS)


@pytest.fixture
def judge(folder):
    return ("--judge", "openai:toy", "--base-url", f"file:{folder}")


@pytest.fixture
def exchanges(folder, command):
    """Run a command until its answers are there: how many requests each exchange wrote, and how it ended."""

    def run(*arguments, answer=answered):
        waves = []
        for number in range(9):
            known = len(requests(folder))
            done = command(*arguments)
            if done.code != 4:
                return waves, done
            waves.append(len(requests(folder)) - known)
            assert " requests wait for an answer in" in done.err
            put(folder, answer(folder), f"answers-{number}.jsonl")
        raise AssertionError(waves)

    return run


def test_score_asks_the_check_and_the_rows(table, judge, exchanges, command, tmp_path):
    score = ("score", table, *STORY, "--any-judge")
    dry = command(*score, *judge, "--dry-run")
    files = "\n  through files: 68 requests to write, but for those that the folder holds\n"
    assert files in dry.out
    two = "the judge check is asked first; when it is answered, the same command asks about the rows\n"
    assert two in dry.err
    assert not (tmp_path / "answers").exists()
    out = tmp_path / "out.jsonl"
    waves, done = exchanges(*score, *judge, "--out", out)
    # 12 ladders of 2 dimensions, best and worst; 2 rows, 2 dimensions, 5 rungs
    assert (waves, done.code) == ([48, 20], 0)
    with ToyServer(OPENAI) as server:
        direct = ("--judge", "openai:toy", "--base-url", server.url, "--no-store")
        direct += ("--judge-option", "mode=sample", "--out", tmp_path / "direct.jsonl")
        assert command(*score, *direct).code == 0
    found, expected = (
        [{**json.loads(line), "signature": None} for line in path.read_text().splitlines()]
        for path in (out, tmp_path / "direct.jsonl")
    )
    assert found == expected
    assert found[0]["coherence_score"] is not None


def test_answers_of_the_check_that_cannot_be_read(table, judge, command, folder):
    score = ("score", table, *STORY, "--dimension", "coherence", "--answers", "stated", *judge)
    assert command(*score).code == 4

    def put_texts(*texts):
        names = [request["custom_id"] for request in requests(folder)]
        lines = [{"custom_id": name, "text": text} for name, text in zip(names, texts, strict=True)]
        put(folder, lines)

    put_texts(*["4"] * 24)
    done = command(*score)
    first = (
        r"the first because: 1 of 1 answer unparsed: .* \(custom_id '\w+', '.*answers\.jsonl:\d+'\)"
    )
    told = f"of the judge check could not be read, {first}; correct the line and run the same command again\n"
    assert re.search(f"refladder: 12 answers {told}", done.err)
    assert (done.code, len(requests(folder))) == (4, 24)
    assert re.search(f"12 answers {told}", command(*score, "--any-judge").err)
    assert len(requests(folder)) == 24


def test_build_needs_one_exchange_a_wave(exchanges, folder, tmp_path):
    def texts(folder):
        names = [request["custom_id"] for request in requests(folder)]
        return [{"custom_id": name, "text": f"The text {name}."} for name in names]

    build = ("build", "demo/summarization", "--out", tmp_path / "set", "--rungs", "3")
    writer = ("--writer", "openai:toy", "--base-url", f"file:{folder}")
    waves, done = exchanges(*build, *writer, answer=texts)
    # 12 contexts of 2 dimensions: worst and best, then the rung between
    assert (waves, done.code) == ([48, 24], 0)
    assert len((tmp_path / "set/ladders.jsonl").read_text().splitlines()) == 24


SCORE = ("score", "rows", *STORY, "--any-judge")


@pytest.mark.parametrize(
    ("arguments", "waves"),
    [
        # 2 contexts, 2 dimensions, 20 ordered pairs of 5 rungs, and 3 sentences in 4 comparisons
        (("audit", "demo/story", "--contexts", "2"), [128]),
        ((*SCORE, "--dimension", "coherence", "--answers", "2"), [48, 20]),
        ((*SCORE, "--answers", "stated"), [48, 4]),
    ],
)
def test_other_commands(arguments, waves, table, judge, exchanges):
    def answer(folder):
        if "stated" not in arguments:
            return answered(folder)
        text = "".join(f"{letter}: 50\n" for letter in "ABCD")
        return [{"custom_id": each["custom_id"], "text": text} for each in requests(folder)]

    arguments = [table if word == "rows" else word for word in arguments]
    found, done = exchanges(*arguments, *judge, answer=answer)
    assert found == waves
    assert done.code in {0, 3}


def test_evaluate_and_certify(judge, exchanges, tmp_path, request):
    source = request.config.rootpath / "published_data/demo/story"
    ladders = tmp_path / "set"
    ladders.mkdir()
    for name in ("contexts", "dimensions", "ladders"):
        lines = (source / f"{name}.jsonl").read_text("utf-8").splitlines(keepends=True)
        if name != "contexts":
            lines = [line for line in lines if '"coherence"' in line]
        (ladders / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    few = (*judge, "--judge-option", "samples=2")
    waves, done = exchanges("certify", ladders, *few)
    assert (waves, done.code) == ([20 * len(lines)], 3)  # 10 pairs of 5 rungs, in both orders
    method = ("--methods", "ladder", "--dimension", "coherence")
    waves, done = exchanges("evaluate", "demo/story", "--ladders", ladders, *method, *few)
    assert len(waves) >= 1
    assert done.code in {0, 3}


def test_a_call_of_python_continues(folder):
    options = {"base_url": f"file:{folder}"}

    def score():
        settings = {"ladders": "demo/story", "any_judge": True, "dimensions": ["coherence"]}
        return refladder.score(ROWS, judge="openai:toy", judge_options=options, **settings)

    for _ in range(2):
        with pytest.raises(AnswersAwaitedError, match="requests wait for an answer in"):
            score()
        put(folder, map(short, answered(folder)))
    assert len(score()) == 2


def test_two_commands_share_a_folder(folder, table, judge, command):
    score = ("score", table, *STORY, "--any-judge", *judge, "--no-store", "--dimension")
    for dimension in ("coherence", "complexity", "complexity"):
        assert command(*score, dimension).code == 4
    assert len(requests(folder)) == 48
    put(folder, answered(folder))
    assert command(*score, "coherence").code == 4
    assert len(requests(folder)) == 58


def test_a_budget_needs_the_tokens_beforehand(table, judge, fails, tmp_path):
    (tmp_path / "prices.toml").write_text('["toy"]\ninput = 1000.0\noutput = 0.0\n')
    budget = ("--budget", "1", "--prices", tmp_path / "prices.toml")
    assert (
        "openai:toy: all requests are written before one is answered, so --budget needs their number of tokens; name "
        "the model's tokenizer with --judge-option tokenizer=PATH"
    ) in fails(2, "score", table, *STORY, *judge, *budget)


def test_many_files_are_refused(table, judge, fails, tmp_path):
    told = fails(2, "score", table, *STORY, *judge, "--workers", "2", "--out", tmp_path / "o")
    advice = "asks about a whole table at once; score the table with --out FILE"
    assert f"--base-url file:FOLDER {advice}" in told


class All(Double):
    """A judge that wants all prompts at once."""

    wants_all = True
    fingerprint = "all/1"

    def __init__(self):
        self.sizes = []

    def read_labels(self, prompts, labels):
        self.sizes.append(len(prompts))
        return [LabelReading(logprobs=(-1.0,) * len(labels), mass=1.0)] * len(prompts)


def test_a_pairwise_judge_asks_all_at_once():
    benchmark = load_benchmark("demo/summarization")
    context, dimension = benchmark.contexts[0], benchmark.dimensions[0]
    backend = All()
    judge = asker(backend, load_template("summarization", "pairwise"))
    judge.batch = 1
    first, *others = [one for one in benchmark.outputs if one.context_id == context.id]
    pairs = [pair_question(context, dimension, first, other) for other in others]
    assert len(judge.ask(pairs)) == len(pairs) > 1
    assert backend.sizes == [len({pair.key for pair in pairs})]


def test_a_backend_that_wants_all_gets_all_through_its_wrappers():
    assert [len(batch) for batch in batches(range(5000), All())] == [5000]
    assert [len(batch) for batch in batches(range(5000), Stored(All(), None))] == [5000]
    assert next(batches(range(5000), Double())) == list(range(FIRST_BATCH))


def test_a_dry_run_with_a_kept_handshake_asks_the_server_nothing(table, command, tmp_path):
    with ToyServer(OPENAI) as server:
        score = ("score", table, *STORY, "--judge", "openai:toy", "--base-url", server.url)
        kept = ("--judge-option", f"probe-cache={tmp_path / 'probes'}", "--dry-run", "--json")
        first = command(*score, *kept)
        asked = len(server.asked)
        assert asked > 0
        assert command(*score, *kept).out == first.out
        assert len(server.asked) == asked
