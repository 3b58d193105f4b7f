"""A dry run of methods that ask as their answers make it: what it tells is never less than what the run then asks."""

from __future__ import annotations

import pytest
from simulated import DIMENSION, Simulated, benchmark_of

from refladder.backends.dry_run import DryRunBackend
from refladder.backends.metered import Metered
from refladder.backends.prices import Price
from refladder.errors import UsageError
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import rehearse_methods, run_methods
from refladder.prompts import fill, load_template
from refladder.records import Completion

MADE = benchmark_of(
    [[2.0, 0.5, 1.0, 3.0, 2.5], [1.0, 2.0, 3.0, 4.0, 0.0], [1.5, 1.0, 0.0, 4.0, 2.0]]
)
PRICE = Price(model="m", input=2.0, output=8.0)


class Counting(Simulated):
    """A token a character, so that texts of different lengths cost differently; writes instructions too."""

    def count_tokens(self, prompts):
        return [len(prompt.text) for prompt in prompts]

    def write(self, prompts, sampling):
        if prompts[0].role != "rewrite":
            return super().write(prompts, sampling)
        again = "again " * (sampling.seed % 4)
        words = f"On {{{{dimension}}}}, in other words {again}Story A or Story B?"
        return [Completion(text=words) for _ in prompts]


def rehearsed(names, judge, **settings):
    """The dry run, and what it says."""
    dry = DryRunBackend(judge)
    settings = MethodSettings(**settings)
    return dry, rehearse_methods(names, MADE, [DIMENSION], lambda: dry, settings)


def told_and_asked(names, **settings):
    """The estimate of a dry run, and the usage of the run itself."""
    judge = Counting(noise=2.0, first=0.3)
    dry, _ = rehearsed(names, judge, **settings)
    assert judge.asked == 0
    metered = Metered(judge, PRICE)
    run_methods(names, MADE, [DIMENSION], lambda: metered, MethodSettings(**settings))
    return dry.estimate(PRICE), metered.usage


ROUNDS = {"zepo.pairs": "9", "zepo.rewrites": "3", "zepo.rounds": "2"}


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["pairs-greedy"], {}),
        (["pairs-greedy"], {"orders": 2}),
        (["pairs-beam"], {}),
        (["pairs-beam", "pairs-greedy"], {"options": {"pairs-beam.beam": "2"}}),
        (["pairs-greedy"], {"answers": 3}),
        (["zepo"], {}),
        (["zepo"], {"options": ROUNDS}),
        (["zepo", "pairs-greedy"], {"options": ROUNDS, "budget": 8}),
        (["win-ratio", "pairs-beam"], {"budget": 6}),
    ],
)
def test_no_more_is_asked_than_was_told(names, options):
    told, asked = told_and_asked(names, **options)
    assert not told.exact
    assert 0 < asked.prompts <= told.usage.prompts
    assert asked.prompt_tokens <= told.usage.prompt_tokens
    assert asked.cost(PRICE) <= told.cost


def test_the_dearest_of_a_pool_are_counted_but_for_what_is_asked_for_sure():
    judge, labels = DryRunBackend(Counting()), ["Story A", "Story B"]
    slots = {"context": "", "background": "", "dimension": "worth", "description": ""}
    prompts = [
        fill(load_template("story", "pairwise"), {**slots, "first": "quality 1", "second": text})
        for text in ("x" * 10, "x" * 40, "x" * 20, "x" * 30)
    ]
    sizes = [len(prompt.text) for prompt in prompts]
    dearest = sizes[1] + sizes[3]
    with judge.at_most(2):
        judge.read_labels(prompts, labels)
    estimate = judge.estimate(PRICE)
    usage = estimate.usage
    assert (usage.prompts, usage.answer_tokens) == (2, 2)
    assert (usage.prompt_tokens, usage.characters) == (dearest, dearest)
    assert estimate.cost == pytest.approx(PRICE.of(dearest, 2))
    with judge.at_most(1):  # another sort of the same texts asks one more at most
        judge.read_labels(prompts, labels)
    assert judge.estimate().usage.prompt_tokens == dearest + sizes[2]
    judge.read_labels(prompts[1:], labels)  # three of them are asked for sure: one is left to both
    estimate = judge.estimate()
    assert (estimate.usage.prompts, estimate.usage.prompt_tokens) == (4, sum(sizes))
    assert not estimate.exact


def test_what_is_asked_for_sure_is_not_counted_twice():
    told, asked = told_and_asked(["pairs-greedy", "win-ratio"])
    assert told.exact
    assert told.usage.prompts == asked.prompts == 3 * 5 * 4
    assert told.usage.prompt_tokens == asked.prompt_tokens


def test_a_backend_that_cannot_count_tokens_is_counted_in_characters():
    judge = Simulated(noise=2.0)
    dry, _ = rehearsed(["pairs-greedy"], judge)
    estimate = dry.estimate()
    assert (estimate.usage.prompt_tokens, estimate.cost) == (None, None)
    (run,) = run_methods(["pairs-greedy"], MADE, [DIMENSION], lambda: judge, MethodSettings())
    assert run.characters <= estimate.usage.characters


def test_the_range_is_told():
    # at least 5 comparisons of five texts (2 for the last merge, 1 and 2 for the halves), at most all 10; both orders
    words = "needs 30 to 60 comparisons, as its answers make it; counted at most"
    assert rehearsed(["pairs-beam"], Simulated(), orders=2)[1] == [("pairs-beam", words)]
    words = "worth: counted with the longest instruction; the fairest is not known yet"
    assert rehearsed(["zepo"], Simulated())[1] == [("zepo", words)]


def test_a_run_is_no_dry_run():
    settings = MethodSettings(dry_run=True)
    message = "dry_run=True: `--dry-run` of the command sets it; leave it out of the sett"
    with pytest.raises(UsageError, match=message):
        run_methods(["win-ratio"], MADE, [DIMENSION], Simulated, settings)
