"""What a run will cost, counted before it."""

from dataclasses import replace

import pytest
from doubles import Double, items_of

from refladder.backends import connect
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import SqliteStore
from refladder.backends.dry_run import DryRunBackend
from refladder.backends.metered import Metered
from refladder.backends.prices import price_of, read_prices
from refladder.backends.sampled import Sampled
from refladder.errors import DataError, UnknownNameError
from refladder.files.ladder_sets import load_ladders
from refladder.loaders import load_benchmark
from refladder.prompts import fill
from refladder.records import (
    Completion,
    Context,
    Dimension,
    LabelReading,
    NotAsked,
    NotJudged,
    Sampling,
)
from refladder.scoring.asker import Asker
from refladder.scoring.judgment_file import JudgmentIndex, JudgmentLog
from refladder.scoring.question import ladder_questions, rung_questions
from refladder.scoring.scorer import LadderScorer
from refladder.session import copied
from refladder.settings import Scoring
from refladder.synth import build_ladders

BENCHMARK = load_benchmark("demo/summarization")
LADDERS = load_ladders("demo/summarization")
EACH = len(LADDERS.dimensions) * LADDERS.rungs  # judgments of an output


class Words(Double):
    """The builtin backend with a tokenizer: a token a word."""

    def __init__(self):
        self.backend = connect("builtin")
        self.fingerprint = self.backend.fingerprint
        self.sent = []

    def count_tokens(self, prompts):
        return [len(prompt.text.split()) for prompt in prompts]

    def write(self, prompts, sampling):
        self.sent += self.count_tokens(prompts)
        return self.backend.write(prompts, sampling)

    def read_labels(self, prompts, labels):
        self.sent += self.count_tokens(prompts)
        return self.backend.read_labels(prompts, labels)


@pytest.fixture
def store(tmp_path):
    with SqliteStore(tmp_path / "r.sqlite") as opened:
        yield opened


def scorer(judge, **more):
    return LadderScorer(judge, LADDERS, Scoring(**more))


def score(scorer, outputs, path=None, *, read_only=False):
    """Score outputs; return how many judgments the file holds."""
    with JudgmentLog(path, scorer.run, read_only=read_only) as log:
        scores = scorer.score(items_of(outputs), log)
        log.finish()
    assert len(scores) == len(outputs)
    return scorer.report.reused


@pytest.mark.parametrize("more", [{}, {"both_orders": True}, {"yes_no": True}])
def test_what_is_counted_for_judging_is_what_is_sent(more):
    judge, outputs = Words(), list(BENCHMARK.outputs[:8])
    unanswered, metered = DryRunBackend(judge), Metered(judge)
    assert score(scorer(unanswered, **more), [*outputs, None], read_only=True) == 0
    assert judge.sent == []
    score(scorer(metered, **more), outputs)
    estimate = unanswered.estimate()
    assert estimate.exact
    assert estimate.usage.prompts == estimate.usage.answer_tokens == len(judge.sent) > 0
    assert estimate.usage.prompt_tokens == sum(judge.sent) == metered.usage.prompt_tokens
    assert estimate.usage.characters == metered.usage.characters
    assert estimate.cost is None


def test_what_is_stored_or_kept_or_asked_already_costs_nothing(store, tmp_path):
    judge, path = Words(), tmp_path / "j.jsonl"
    score(scorer(Stored(judge, store)), list(BENCHMARK.outputs[:2]), path)
    before = path.read_bytes() + b'{"torn'
    path.write_bytes(before)
    unanswered = DryRunBackend(Stored(judge, store))
    # two outputs are in the judgments file; without it, they are in the store; a third is asked twice
    for file, kept, free in ((path, 2 * EACH, 0), (None, 0, 3 * EACH)):
        outputs = list(BENCHMARK.outputs[:3])
        assert score(scorer(unanswered), outputs, file, read_only=True) == kept
        estimate = unanswered.estimate()
        assert (estimate.usage.prompts, estimate.free) == (EACH, free)
        assert path.read_bytes() == before
    assert score(scorer(unanswered), outputs, tmp_path / "none.jsonl", read_only=True) == 0
    assert not (tmp_path / "none.jsonl").exists()


def test_ladders_to_be_written_are_counted_at_their_length_limit():
    writer = Words()
    unanswered = DryRunBackend(writer)
    text = "One two three. Four five six seven. Eight nine ten."
    contexts = [Context(id="c", task="summarization", text=text)]
    dimensions = [Dimension(name="fluency", description="It reads well.")]
    how = {"rungs": 5, "sampling": Sampling(max_tokens=64)}
    build_ladders(unanswered, contexts, dimensions, **how)
    assert writer.sent == []
    build_ladders(writer, contexts, dimensions, **how)
    estimate = unanswered.estimate()
    usage = estimate.usage
    assert usage.prompts == len(writer.sent) == 5
    # worst and best are exact; three prompts hold two texts that are yet to be written, of 64 tokens at most
    assert sum(writer.sent) <= usage.prompt_tokens <= sum(writer.sent) + 3 * 2 * 64
    assert usage.prompt_tokens >= 3 * 2 * 64
    assert usage.answer_tokens == 5 * 64
    assert not estimate.exact
    assert estimate.unwritten


def test_texts_that_are_stored_make_the_rest_exact(store):
    stored = Stored(Words(), store)
    unanswered = DryRunBackend(stored)
    contexts, dimensions = BENCHMARK.contexts[:1], BENCHMARK.dimensions
    build_ladders(stored, contexts, dimensions, rungs=3)
    # of five rungs the middle is stored, and two more are not
    for rungs, asked in ((3, 0), (5, 2 * len(dimensions))):
        build_ladders(unanswered, contexts, dimensions, rungs=rungs)
        estimate = unanswered.estimate()
        assert (estimate.usage.prompts, estimate.exact) == (asked, True)
        assert rungs == 5 or estimate.free == 3 * len(dimensions)


class Answering(Words):
    """Writes a verdict, whatever it is asked."""

    def write(self, prompts, _sampling):
        self.sent += self.count_tokens(prompts)
        return [Completion(text="Better") for _ in prompts]


def test_nobody_answers_what_is_not_stored(store):
    judge, labels = Answering(), ["Better", "Worse", "Similar"]
    stored, drawn = Stored(judge, store), Sampling(seed=3)
    output, dimension = BENCHMARK.outputs[0], LADDERS.dimensions[0]
    context = LADDERS.contexts[output.context_id]
    ladder = LADDERS.ladders[output.context_id, dimension.name]
    first, second, *_ = ladder_questions(output, context, dimension, ladder, orders=1)
    prompts = [fill(scorer(judge).template, question.slots) for question in (first, second)]
    known = stored.read_labels(prompts[:1], labels)
    # the first prompt has both of its answers, the second one of two
    stored.write(prompts, drawn)
    stored.write(prompts[:1], Sampling(seed=4))
    sent = len(judge.sent)
    unanswered = DryRunBackend(stored)
    read = unanswered.read_labels(prompts, labels)
    assert read[0] == known[0]
    assert (type(read[0]), type(read[1])) == (LabelReading, NotAsked)
    assert (read[1].logprobs, read[1].mass) == (None, None)
    # a share of one answer would be another judgment than that of the run
    shares = Sampled(unanswered, answers=2, sampling=drawn).read_labels(prompts, labels)
    assert list(map(type, shares)) == [LabelReading, NotAsked]
    assert len(judge.sent) == sent
    estimate = unanswered.estimate()
    assert (estimate.usage.prompts, estimate.free) == (2, 4)


def test_a_judgment_that_nobody_gave_is_never_stored(tmp_path):
    path, index = tmp_path / "j.jsonl", tmp_path / "i.jsonl"
    unanswered = DryRunBackend(Words())
    with JudgmentLog(path, scorer(unanswered).run) as log:
        scores = scorer(unanswered).score(items_of(BENCHMARK.outputs[:2]), log)
    assert len(path.read_text().splitlines()) == 1  # the run
    assert {score.value for row in scores for score in row} == {None}
    run = replace(scorer(unanswered).run, dimensions=(), rungs=0, ladders="none")
    asker = Asker(unanswered, scorer(unanswered).template, JudgmentIndex(index, run))
    context = LADDERS.contexts[BENCHMARK.outputs[0].context_id]
    ladder = next(iter(LADDERS.ladders.values()))
    questions = list(rung_questions(context, LADDERS.dimensions[0], ladder))
    asked = unanswered.estimate().usage.prompts
    assert {type(judgment) for judgment in asker.ask(questions)} == {NotJudged}
    assert asker.ask(questions)  # what was asked in the same run is not asked again
    assert unanswered.estimate().usage.prompts == asked + len(questions)
    before = index.read_bytes()
    assert before.count(b"\n") == 1
    read_only = JudgmentIndex(index, run, read_only=True)
    Asker(Words(), scorer(unanswered).template, read_only).ask(questions)
    assert index.read_bytes() == before


def test_a_copy_of_a_folder_is_thrown_away(tmp_path):
    (tmp_path / "a.jsonl").write_text("kept")
    with copied(tmp_path) as copy:
        assert [path.name for path in copy.iterdir()] == ["a.jsonl"]
        (copy / "a.jsonl").write_text("changed")
    assert not copy.exists()
    assert (tmp_path / "a.jsonl").read_text() == "kept"
    with copied(None) as copy:
        assert copy is None
    with copied(tmp_path / "none") as copy:
        assert list(copy.iterdir()) == []


def test_prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text('["big model"]\ninput = 2\noutput = 8.0\n[small]\ninput = 0\noutput = 0.5\n')
    prices = read_prices(path)
    big = price_of(prices, "big model", path)
    assert (big.model, big.input, big.output) == ("big model", 2.0, 8.0)
    assert big.of(1_000_000, 250_000) == 2 + 2
    assert price_of(prices, "small", path).of(1_000_000, 1_000_000) == 0.5
    unknown = r"unknown model in .*prices\.toml 'smal'; did you mean 'small'\?"
    with pytest.raises(UnknownNameError, match=unknown):
        price_of(prices, "smal", path)


USD = "must be USD for a million tokens, 0 or more, found"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file$"),
        ("[m", r"the price table is not TOML \("),
        ("m = 3", r"\[m\] must be a table with input and output, found 3"),
        ("[m]\ninput = 1\noutpt = 2", r"\[m\] has unknown key 'outpt'; did you mean 'output'\? Known: input, "),
        ("[m]\ninput = 1\nx = 2", r"\[m\] has unknown key 'x'. Known: input, output"),
        ("[gpt-4.1]\ninput = 1", r"\[gpt-4\] holds another table, '1'; a name with a dot needs quotes: \[\"gpt-4.1\"\]$"),
        ("[a]\ninput = 1\noutput = 1\n[a.b.c]\ninput = 1", r"\[a\] holds .*, 'b'; .* needs quotes: \[\"a.b.c\"\]$"),
        ("[m]\ninput = 1", rf"\[m\] output {USD} None"),
        ("[m]\ninput = -1\noutput = 1", rf"\[m\] input {USD} -1"),
        ("[m]\ninput = true\noutput = 1", rf"\[m\] input {USD} True"),
        ("[m]\ninput = nan\noutput = 1", rf"\[m\] input {USD} nan"),
        ("[m]\ninput = inf\noutput = 1", rf"\[m\] input {USD} inf"),
    ],
)  # fmt: skip
def test_a_price_table_is_checked(tmp_path, text, message):
    path = tmp_path / "p.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=rf"p\.toml: {message}"):
        read_prices(path)
