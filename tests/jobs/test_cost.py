"""What a run will cost, counted before it."""

import pytest
from doubles import Double

from refladder.backends import connect
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import ResponseStore
from refladder.backends.estimate import Plan
from refladder.backends.metered import Metered
from refladder.backends.prices import price_of, read_prices
from refladder.errors import DataError, UnknownNameError
from refladder.files.ladder_sets import load_ladders
from refladder.loaders import load_benchmark
from refladder.records import Context, Dimension, Sampling
from refladder.scoring.columns import Scale
from refladder.scoring.dry_run import copied, plan_scoring
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import LadderScorer
from refladder.synth import build_ladders, plan_ladders


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
    return LadderScorer(judge, LADDERS, LADDERS.dimensions, Scale(rule="ladder-sum", weights={}), **more)


def outputs(count):
    return [(output, None) for output in BENCHMARK.outputs[:count]]


@pytest.mark.parametrize("more", [{}, {"orders": 2}, {"role": "compare-yesno"}])
def test_what_is_counted_for_judging_is_what_is_sent(more):
    judge = Words()
    plan = Plan()
    assert plan_scoring(plan, scorer(judge, **more), [*outputs(8), (None, "no text")], None) == 0
    assert judge.sent == []
    metered = Metered(judge)
    with JudgmentLog(None, scorer(judge).run) as log:
        scorer(metered, **more).score(*zip(*outputs(8), strict=True), log)
    estimate = plan.estimate(judge)
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
            real.score(*zip(*outputs(2), strict=True), log)
        before = path.read_bytes()
        path.write_bytes(before + b'{"torn')
        plan, stored = Plan(), Stored(judge, store)
        # two outputs are in the judgments file; without it, they are in the store; a third is asked twice
        assert plan_scoring(plan, scorer(stored), outputs(3), path) == 2 * each
        assert (plan.estimate(stored).usage.prompts, plan.estimate(stored).free) == (each, 0)
        assert path.read_bytes() == before + b'{"torn'
        assert plan_scoring(plan, scorer(stored), outputs(3), None) == 0
        assert (plan.estimate(stored).usage.prompts, plan.estimate(stored).free) == (each, 3 * each)
        assert plan_scoring(plan, scorer(stored), outputs(3), tmp_path / "none.jsonl") == 0
    assert not (tmp_path / "none.jsonl").exists()


def test_ladders_to_be_written_are_counted_at_their_length_limit():
    writer = Words()
    contexts = [Context(id="c", task="summarization", text="One two three. Four five six seven. Eight nine ten.")]
    dimensions = [Dimension(name="fluency", description="It reads well.")]
    sampling = Sampling(max_tokens=64)
    plan = Plan()
    plan_ladders(plan, writer, contexts, dimensions, rungs=5, sampling=sampling)
    assert writer.sent == []
    build_ladders(writer, contexts, dimensions, rungs=5, sampling=sampling)
    usage = plan.estimate(writer).usage
    assert usage.prompts == len(writer.sent) == 5
    # worst and best are exact; three prompts hold two texts that are yet to be written, of 64 tokens at most
    assert sum(writer.sent) <= usage.prompt_tokens <= sum(writer.sent) + 3 * 2 * 64
    assert usage.prompt_tokens >= 3 * 2 * 64
    assert usage.answer_tokens == 5 * 64
    assert not plan.estimate(writer).exact
    assert plan.estimate(writer).unwritten


def test_texts_that_are_stored_make_the_rest_exact(tmp_path):
    writer = Words()
    contexts = BENCHMARK.contexts[:1]
    with ResponseStore(tmp_path / "r.sqlite") as store:
        build_ladders(Stored(writer, store), contexts, BENCHMARK.dimensions, rungs=3)
        plan, stored = Plan(), Stored(writer, store)
        plan_ladders(plan, stored, contexts, BENCHMARK.dimensions, rungs=3)
        estimate = plan.estimate(stored)
        assert (estimate.usage.prompts, estimate.free, estimate.exact) == (0, 3 * len(BENCHMARK.dimensions), True)
        plan_ladders(plan, stored, contexts, BENCHMARK.dimensions, rungs=5)  # the middle is stored; two more are not
        estimate = plan.estimate(stored)
        assert (estimate.usage.prompts, estimate.exact) == (2 * len(BENCHMARK.dimensions), True)


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


PRICES = '["big model"]\ninput = 2\noutput = 8.0\nbatch_discount = 0.5\n[small]\ninput = 0\noutput = 0.5\n'


def test_prices(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    prices = read_prices(path)
    big = price_of(prices, "big model", path)
    assert (big.model, big.input, big.output) == ("big model", 2.0, 8.0)
    assert big.of(1_000_000, 250_000) == 2 + 2
    assert price_of(prices, "big model", path, batch=True).of(1_000_000, 250_000) == 2
    assert price_of(prices, "small", path, batch=True).of(1_000_000, 1_000_000) == 0.5
    with pytest.raises(UnknownNameError, match=r"unknown model in .*prices\.toml 'smal'; did you mean 'small'\?"):
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
        ("[m]\ninput = 1\nx = 2", r"p\.toml: \[m\] has unknown key 'x'; Known: input, output, batch_discount"),
        ("[m]\ninput = 1", r"p\.toml: \[m\] output must be USD for a million tokens, 0 or more, found None"),
        ("[m]\ninput = -1\noutput = 1", r"\[m\] input must be USD for a million tokens, 0 or more, found -1"),
        ("[m]\ninput = true\noutput = 1", r"\[m\] input must be USD for a million tokens, 0 or more, found True"),
        ("[m]\ninput = nan\noutput = 1", r"\[m\] input must be USD for a million tokens, 0 or more, found nan"),
        ("[m]\ninput = inf\noutput = 1", r"\[m\] input must be USD for a million tokens, 0 or more, found inf"),
        (
            "[m]\ninput = 1\noutput = 1\nbatch_discount = 50",
            r"\[m\] batch_discount must be a share from 0 to 1, found 50",
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
