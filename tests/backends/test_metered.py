"""Counting what a backend is asked, and stopping when the budget is spent."""

import math

import pytest
from doubles import Double

from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import SqliteStore
from refladder.backends.metered import Metered
from refladder.backends.prices import Budget, Price
from refladder.backends.protocol import Usage
from refladder.errors import BackendError, UsageError
from refladder.prompts import fill, load_template
from refladder.records import Completion, LabelReading, Sampling
from refladder.testing import check_backend

LABELS = ("Better", "Worse", "Similar")
LOGPROBS = (-1.0, -1.5, -2.0)
READING = LabelReading(logprobs=LOGPROBS, mass=sum(map(math.exp, LOGPROBS)))
# 1 USD a prompt token, 10 USD an answer token
PRICE = Price(model="m", input=1e6, output=1e7)
COMPARE = load_template("summarization", "compare")
SLOTS = dict.fromkeys(COMPARE.names, "A ferry.")
PROMPTS = [fill(COMPARE, {**SLOTS, "target": f"Ferry {number}."}) for number in range(6)]


class Plain(Double):
    fingerprint = "plain/1"

    def __init__(self):
        self.asked = []

    def write(self, prompts, sampling):
        self.asked += prompts
        return [Completion(text=f"{prompt.text[:9]} {sampling.seed}") for prompt in prompts]

    def read_labels(self, prompts, labels):
        assert tuple(labels) == LABELS
        self.asked += prompts
        return [READING] * len(prompts)


class Tokens(Plain):
    """Every prompt has 5 tokens."""

    def count_tokens(self, prompts):
        return [5] * len(prompts)


class Server(Plain):
    """Answers one after the other, last first, and tells its tokens afterwards: 7 and 2 for each."""

    usage = Usage(requests=0, prompt_tokens=0)

    def read_labels_each(self, prompts, _labels):
        for number in reversed(range(len(prompts))):
            self.asked.append(prompts[number])
            done = len(self.asked)
            self.usage = Usage(requests=done + 1, prompt_tokens=7 * done, answer_tokens=2 * done)
            yield number, READING


def test_use_is_counted():
    metered = Metered(Tokens())
    metered.read_labels(PROMPTS[:4], LABELS)
    metered.write(PROMPTS[:2], Sampling(max_tokens=100))
    usage = metered.usage
    assert usage.seconds > 0
    assert (usage.prompts, usage.prompt_tokens, usage.requests) == (6, 6 * 5, None)
    assert usage.answer_tokens == 4 * 1 + 2 * 100
    assert usage.characters == sum(len(prompt.text) for prompt in PROMPTS[:4] + PROMPTS[:2])
    assert usage.cost(PRICE) == pytest.approx(30 * 1 + 204 * 10)


def test_tokens_nobody_counts_are_not_known():
    metered = Metered(Plain())
    assert metered.usage.cost(PRICE) == 0
    metered.read_labels(PROMPTS, LABELS)
    assert metered.usage.prompt_tokens is None
    assert metered.usage.cost(PRICE) is None
    usage = Usage()
    for tokens in ([5], None, [5]):
        usage = usage.plus(PROMPTS[:1], tokens, 1)
    assert usage.prompt_tokens is None


def test_a_server_that_tells_its_tokens_is_believed():
    metered = Metered(Server())
    assert metered.read_labels(PROMPTS, LABELS) == [READING] * 6
    usage = metered.usage
    assert (usage.prompts, usage.requests) == (6, 7)
    assert (usage.prompt_tokens, usage.answer_tokens) == (42, 12)
    assert usage.cost(PRICE) == 42 + 120


def test_tokens_that_the_server_tells_afterwards_are_counted_before_only_for_a_price():
    class Both(Server):
        counted = 0

        def count_tokens(self, prompts):
            self.counted += len(prompts)
            return [9] * len(prompts)

    # the server did not tell all: the greater number
    for price, expected in ((None, (0, 42)), (PRICE, (6, 54))):
        judge = Both()
        metered = Metered(judge, price)
        metered.read_labels(PROMPTS, LABELS)
        assert (judge.counted, metered.usage.prompt_tokens) == expected


def test_a_judge_may_say_how_long_its_answers_are():
    class Wordy(Tokens):
        label_tokens = 20

    metered = Metered(Wordy())
    metered.read_labels(PROMPTS, LABELS)
    assert metered.usage.answer_tokens == 6 * 20


def test_it_keeps_the_contract_and_the_fingerprint_and_what_else_there_is():
    class Labelled(Tokens):
        def read_labels(self, prompts, labels):
            logprobs = tuple(-1.0 - len(label) for label in labels)
            return [LabelReading(logprobs=logprobs, mass=0.1)] * len(prompts)

        def write(self, prompts, sampling):
            return [Completion(text=f"{prompt.role} {sampling.seed}") for prompt in prompts]

    metered = Metered(Labelled(), PRICE, Budget(1e9))
    check_backend(metered)
    assert metered.fingerprint == "plain/1"
    assert metered.count_tokens(PROMPTS[:1]) == [5]


def test_nothing_is_asked_that_the_budget_does_not_cover(tmp_path):
    # A prompt costs 5 x 1 + 1 x 10 = 15 USD, so 50 USD cover three.
    judge = Tokens()
    with SqliteStore(tmp_path / "r.sqlite") as store:
        backend = Stored(Metered(judge, PRICE, Budget(50)), store)
        message = (
            r"the budget of 50\.00 USD does not cover the next prompt \(45\.0000 USD spent by this run, 3 prompts of "
            r"this batch not answered\); answers are kept: run the same command again with a new --budget"
        )
        with pytest.raises(BackendError, match=message):
            backend.read_labels(PROMPTS, LABELS)
        assert judge.asked == PROMPTS[:3]
        with pytest.raises(BackendError, match=r"the budget of 50\.00 USD does not cover"):
            backend.read_labels(PROMPTS, LABELS)
        assert judge.asked == PROMPTS[:3]
        again = Stored(Metered(judge, PRICE, Budget(45)), store)  # exactly what the rest costs
        assert again.read_labels(PROMPTS, LABELS) == [READING] * 6
        assert judge.asked == PROMPTS


def test_texts_are_charged_at_their_length_limit(tmp_path):
    # 5 x 1 + 4 x 10 = 45 USD each
    writer = Tokens()
    with SqliteStore(tmp_path / "r.sqlite") as store:
        backend = Stored(Metered(writer, PRICE, Budget(100)), store)
        with pytest.raises(BackendError, match=r"\(90\.0000 USD spent by this run, 4 prompts"):
            backend.write(PROMPTS, Sampling(max_tokens=4))
        assert writer.asked == PROMPTS[:2]
        assert store.count() == 2


def test_a_run_stops_when_the_server_says_that_the_budget_is_spent(tmp_path):
    # 7 x 1 + 2 x 10 = 27 USD an answer; the fourth makes 108.
    judge = Server()
    with SqliteStore(tmp_path / "r.sqlite") as store:
        backend = Stored(Metered(judge, PRICE, Budget(100)), store)
        message = r"\(108\.0000 USD spent by this run, 2 prompts of this batch"
        with pytest.raises(BackendError, match=message):
            backend.read_labels(PROMPTS, LABELS)
        assert store.count() == 4
        with pytest.raises(BackendError, match=r"the budget of 100\.00 USD does not cover"):
            backend.read_labels(PROMPTS, LABELS)
    assert len(judge.asked) == 4


def test_two_backends_share_a_budget():
    budget = Budget(50)
    first, second = Metered(Tokens(), PRICE, budget), Metered(Tokens(), PRICE, budget)
    first.read_labels(PROMPTS[:2], LABELS)
    with pytest.raises(BackendError, match=r"\(45\.0000 USD spent by this run, 1 prompt"):
        second.read_labels(PROMPTS[:2], LABELS)


def test_a_budget_needs_a_price_and_tokens():
    message = "a budget needs the model's price; give the table with --prices FILE"
    with pytest.raises(UsageError, match=message):
        Metered(Tokens(), None, Budget(1))
    message = "plain/1: cannot count its tokens, and a budget needs their number; name its"
    with pytest.raises(UsageError, match=message):
        Metered(Plain(), PRICE, Budget(1))
    Metered(Server(), PRICE, Budget(1))


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_is_a_positive_number(limit):
    with pytest.raises(UsageError, match="a budget is a number of USD above 0, found"):
        Budget(limit)
