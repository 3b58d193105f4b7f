"""What a run will cost, counted before it."""

from dataclasses import replace

import pytest
from doubles import Double, items_of

from refladder.backends import connect
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import ResponseStore
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


BENCHMARK = load_benchmark("demo/summarization")
LADDERS = load_ladders("demo/summarization")


def scorer(judge, **more):
    return LadderScorer(judge, LADDERS, Scoring(**more))


def outputs(count):
    return [(output, None) for output in BENCHMARK.outputs[:count]]


def rehearse(scorer, rows, path=None):
    """Score with nobody answering; returns how many judgments the file holds."""
    with JudgmentLog(path, scorer.run, read_only=True) as log:
        scores = scorer.score(items_of(*map(list, zip(*rows, strict=True))), log)
        log.finish()
    assert len(scores) == len(rows)
    return scorer.report.reused


@pytest.mark.parametrize("more", [{}, {"both_orders": True}, {"yes_no": True}])
def test_what_is_counted_for_judging_is_what_is_sent(more):
    judge = Words()
    unanswered = DryRunBackend(judge)
    assert rehearse(scorer(unanswered, **more), [*outputs(8), (None, "no text")]) == 0
    assert judge.sent == []
    metered = Metered(judge)
    with JudgmentLog(None, scorer(judge).run) as log:
        scorer(metered, **more).score(items_of(BENCHMARK.outputs[:8]), log)
    estimate = unanswered.estimate()
    assert estimate.exact
    assert estimate.usage.prompts == len(judge.sent) > 0
    assert estimate.usage.prompt_tokens == sum(judge.sent) == metered.usage.prompt_tokens
    assert estimate.usage.answer_tokens == len(judge.sent)
    assert estimate.usage.characters == metered.usage.characters
    assert estimate.cost is None


def test_what_is_stored_or_kept_or_asked_already_costs_nothing(tmp_path):
    judge = Words()
    path = tmp_path / "j.jsonl"
    each = len(LADDERS.dimensions) * LADDERS.rungs
    with ResponseStore(tmp_path / "r.sqlite") as store:
        real = scorer(Stored(judge, store))
        with JudgmentLog(path, real.run) as log:
            real.score(items_of(BENCHMARK.outputs[:2]), log)
        before = path.read_bytes()
        path.write_bytes(before + b'{"torn')
        unanswered = DryRunBackend(Stored(judge, store))
        # two outputs are in the judgments file; without it, they are in the store; a third is asked twice
        assert rehearse(scorer(unanswered), outputs(3), path) == 2 * each
        assert (unanswered.estimate().usage.prompts, unanswered.estimate().free) == (each, 0)
        assert path.read_bytes() == before + b'{"torn'
        assert rehearse(scorer(unanswered), outputs(3)) == 0
        assert (unanswered.estimate().usage.prompts, unanswered.estimate().free) == (each, 3 * each)
        assert rehearse(scorer(unanswered), outputs(3), tmp_path / "none.jsonl") == 0
    assert not (tmp_path / "none.jsonl").exists()


def test_ladders_to_be_written_are_counted_at_their_length_limit():
    writer = Words()
    contexts = [
        Context(
            id="c", task="summarization", text="One two three. Four five six seven. Eight nine ten."
        )
    ]
    dimensions = [Dimension(name="fluency", description="It reads well.")]
    sampling = Sampling(max_tokens=64)
    unanswered = DryRunBackend(writer)
    build_ladders(unanswered, contexts, dimensions, rungs=5, sampling=sampling)
    assert writer.sent == []
    build_ladders(writer, contexts, dimensions, rungs=5, sampling=sampling)
    usage = unanswered.estimate().usage
    assert usage.prompts == len(writer.sent) == 5
    # worst and best are exact; three prompts hold two texts that are yet to be written, of 64 tokens at most
    assert sum(writer.sent) <= usage.prompt_tokens <= sum(writer.sent) + 3 * 2 * 64
    assert usage.prompt_tokens >= 3 * 2 * 64
    assert usage.answer_tokens == 5 * 64
    assert not unanswered.estimate().exact
    assert unanswered.estimate().unwritten


def test_texts_that_are_stored_make_the_rest_exact(tmp_path):
    writer = Words()
    contexts = BENCHMARK.contexts[:1]
    with ResponseStore(tmp_path / "r.sqlite") as store:
        build_ladders(Stored(writer, store), contexts, BENCHMARK.dimensions, rungs=3)
        unanswered = DryRunBackend(Stored(writer, store))
        build_ladders(unanswered, contexts, BENCHMARK.dimensions, rungs=3)
        estimate = unanswered.estimate()
        assert (estimate.usage.prompts, estimate.free, estimate.exact) == (
            0,
            3 * len(BENCHMARK.dimensions),
            True,
        )
        build_ladders(
            unanswered, contexts, BENCHMARK.dimensions, rungs=5
        )  # the middle is stored; two more are not
        estimate = unanswered.estimate()
        assert (estimate.usage.prompts, estimate.exact) == (2 * len(BENCHMARK.dimensions), True)


class Answering(Words):
    """Writes a verdict, whatever it is asked."""

    def write(self, prompts, _sampling):
        self.sent += self.count_tokens(prompts)
        return [Completion(text="Better") for _ in prompts]


def test_nobody_answers_what_is_not_stored(tmp_path):
    judge, labels = Answering(), ["Better", "Worse", "Similar"]
    output, dimension = BENCHMARK.outputs[0], LADDERS.dimensions[0]
    context, ladder = (
        LADDERS.contexts[output.context_id],
        LADDERS.ladders[output.context_id, dimension.name],
    )
    questions = list(ladder_questions(output, context, dimension, ladder, orders=1))
    prompts = [fill(scorer(judge).template, question.slots) for question in questions[:2]]
    drawn = Sampling(seed=3)
    with ResponseStore(tmp_path / "r.sqlite") as store:
        known = Stored(judge, store).read_labels(prompts[:1], labels)
        # the first prompt has both of its answers, the second one of two
        Stored(judge, store).write(prompts, drawn)
        Stored(judge, store).write(prompts[:1], Sampling(seed=4))
        sent = len(judge.sent)
        unanswered = DryRunBackend(Stored(judge, store))
        read = unanswered.read_labels(prompts, labels)
        assert read[0] == known[0]
        assert (type(read[0]), type(read[1])) == (LabelReading, NotAsked)
        assert (read[1].logprobs, read[1].mass) == (None, None)
        first, second = Sampled(unanswered, answers=2, sampling=drawn).read_labels(prompts, labels)
        assert type(first) is LabelReading
        assert (
            type(second) is NotAsked
        )  # a share of one answer would be another judgment than that of the run
        estimate = unanswered.estimate()
    assert len(judge.sent) == sent
    assert (estimate.usage.prompts, estimate.free) == (2, 4)


def test_a_judgment_that_nobody_gave_is_never_stored(tmp_path):
    unanswered = DryRunBackend(Words())
    with JudgmentLog(tmp_path / "j.jsonl", scorer(unanswered).run) as log:
        scores = scorer(unanswered).score(items_of(BENCHMARK.outputs[:2]), log)
    assert len((tmp_path / "j.jsonl").read_text().splitlines()) == 1  # the run
    assert {score.value for row in scores for score in row} == {None}
    run = replace(scorer(unanswered).run, dimensions=(), rungs=0, ladders="none")
    index = JudgmentIndex(tmp_path / "i.jsonl", run)
    asker = Asker(unanswered, scorer(unanswered).template, index)
    context = LADDERS.contexts[BENCHMARK.outputs[0].context_id]
    questions = list(
        rung_questions(context, LADDERS.dimensions[0], next(iter(LADDERS.ladders.values())))
    )
    asked = unanswered.estimate().usage.prompts
    assert {type(judgment) for judgment in asker.ask(questions)} == {NotJudged}
    assert asker.ask(questions)  # what was asked in the same run is not asked again
    assert unanswered.estimate().usage.prompts == asked + len(questions)
    assert len((tmp_path / "i.jsonl").read_text().splitlines()) == 1
    before = (tmp_path / "i.jsonl").read_bytes()
    read_only = JudgmentIndex(tmp_path / "i.jsonl", run, read_only=True)
    Asker(Words(), scorer(unanswered).template, read_only).ask(questions)
    assert (tmp_path / "i.jsonl").read_bytes() == before


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


PRICES = '["big model"]\ninput = 2\noutput = 8.0\n[small]\ninput = 0\noutput = 0.5\n'


def test_prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    prices = read_prices(path)
    big = price_of(prices, "big model", path)
    assert (big.model, big.input, big.output) == ("big model", 2.0, 8.0)
    assert big.of(1_000_000, 250_000) == 2 + 2
    assert price_of(prices, "small", path).of(1_000_000, 1_000_000) == 0.5
    with pytest.raises(
        UnknownNameError, match=r"unknown model in .*prices\.toml 'smal'; did you mean 'small'\?"
    ):
        price_of(prices, "smal", path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[m", r"p\.toml: the price table is not TOML \("),
        ("m = 3", r"p\.toml: \[m\] must be a table with input and output, found 3"),
        (
            "[m]\ninput = 1\noutpt = 2",
            r"p\.toml: \[m\] has unknown key 'outpt'; did you mean 'output'\? Known: input, ",
        ),
        ("[m]\ninput = 1\nx = 2", r"p\.toml: \[m\] has unknown key 'x'; Known: input, output"),
        (
            "[m]\ninput = 1",
            r"p\.toml: \[m\] output must be USD for a million tokens, 0 or more, found None",
        ),
        (
            "[m]\ninput = -1\noutput = 1",
            r"\[m\] input must be USD for a million tokens, 0 or more, found -1",
        ),
        (
            "[m]\ninput = true\noutput = 1",
            r"\[m\] input must be USD for a million tokens, 0 or more, found True",
        ),
        (
            "[m]\ninput = nan\noutput = 1",
            r"\[m\] input must be USD for a million tokens, 0 or more, found nan",
        ),
        (
            "[m]\ninput = inf\noutput = 1",
            r"\[m\] input must be USD for a million tokens, 0 or more, found inf",
        ),
    ],
)
def test_a_price_table_is_checked(tmp_path, text, message):
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_prices(path)


def test_a_price_table_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"none\.toml: no such file$"):
        read_prices(tmp_path / "none.toml")
