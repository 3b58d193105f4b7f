"""What commands that ask a backend share: the response store, the dry run, prices and the budget."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from refladder.backends.dry_run import CHARACTERS
from refladder.backends.prices import Budget, price_of, read_prices
from refladder.cli import console
from refladder.display.progress import duration_words
from refladder.errors import UsageError, agreeing, plural
from refladder.scoring.summary import cost_words, money_words
from refladder.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from refladder.backends.dry_run import Estimate
    from refladder.backends.metered import Plan
    from refladder.backends.prices import Price

# Kinds that cost nothing if the price table does not name their model.
FREE = ("builtin", "scripted", "hf", "reward")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingOptions:
    """What a command may spend (USD) and where it stores answers; `store` may come from the environment."""

    store: Path | None = None
    without_store: bool = False
    prices: Path | None = None
    budget: float | None = None
    dry_run: bool = False


class Spending(Session):
    """The backends of a command, with the store, prices and budget of its options; of a call, with its store."""

    def __init__(self, options: SpendingOptions) -> None:
        if options.budget is not None and options.prices is None:
            raise UsageError(
                "--budget needs the model's price; give a table of prices with --prices FILE"
            )
        self._options = options
        self._prices = {} if options.prices is None else read_prices(options.prices)
        budget = None if options.budget is None else Budget(options.budget)
        store = False if options.without_store else options.store
        super().__init__(store, price_of=self._price_of, budget=budget, events=console.Console())
        self.only_estimates = options.dry_run
        if (context := click.get_current_context(silent=True)) is not None:
            context.call_on_close(self.close)

    def _price_of(self, name: str) -> Price | None:
        model = name.partition(":")[2] or name
        if self._options.prices is None or (
            model not in self._prices and name.partition(":")[0] in FREE
        ):
            return None
        return price_of(self._prices, model, self._options.prices)

    def approves(self, run: Callable[[Self], int | None], *, as_json: bool) -> bool:
        """Return whether a run follows its estimate, which --dry-run prints and a budget is compared with.

        `run` is the run with the session that it is given; it returns the number of judgments that exist already.
        """
        if not self._options.dry_run and self.budget is None:
            return True
        existing = run(self.rehearsal())
        estimates = self.estimates()
        if self._options.dry_run:
            _print_estimates(estimates, self.plan(existing or 0), as_json=as_json)
            if not as_json:
                but = (
                    f" but {plural(self.requests(), 'request')} that showed how the server answers"
                )
                console.say(f"nothing was asked{but if self.requests() else ''}")
            return False
        if self.budget is None:
            return True
        cost = sum(estimate.expected or 0.0 for _, _, estimate in estimates)
        if cost <= self.budget.limit:
            return True
        most = sum(estimate.cost or 0.0 for _, _, estimate in estimates)
        exact = all(estimate.exact for _, _, estimate in estimates)
        about = any(estimate.is_guess for _, _, estimate in estimates) or most > cost
        price = money_words(cost, most, about=about, exact=exact)
        text = f"this run costs {price}, and the budget is {self.budget.limit:.2f} USD"
        if not sys.stdin.isatty():
            raise UsageError(
                f"{text}; raise --budget, or see the cost of each model with --dry-run"
            )
        return click.confirm(f"{text}. Start anyway, and stop when the budget is spent?", err=True)


def _print_estimates(
    estimates: Sequence[tuple[str, Price | None, Estimate]], plan: Plan, *, as_json: bool
) -> None:
    if as_json:
        console.say_json(asdict(plan))
        return
    for costs, (_, _, estimate) in zip(plan.backends, estimates, strict=True):
        stored = f"{plural(estimate.free - estimate.repeated, 'answer')} from the response store"
        if estimate.repeated:
            cost = agreeing(estimate.repeated, "costs", "cost")
            stored += f"; {plural(estimate.repeated, 'repeated question')} {cost} nothing"
        console.say(f"dry run, {cost_words(costs)}; {stored}")
        for remark in _remarks(estimate):
            console.say(f"  {remark}")
    if plan.kept_judgments:
        console.say(f"dry run: {plural(plan.kept_judgments, 'judgment')} reused from earlier runs")


def _remarks(estimate: Estimate) -> Iterator[str]:
    """Yield what else there is to know of the calls of a backend."""
    if 0 < estimate.least < estimate.usage.prompts:
        yield f"at least {plural(estimate.least, 'call')}"
    if estimate.seconds is not None:
        duration = duration_words(estimate.seconds)
        yield f"{'' if estimate.exact else 'at most '}about {duration} at the pace of the stored answers"
    if estimate.is_guess:
        yield (
            f"the tokenizer is not known: {CHARACTERS:g} characters count as a token, as in Latin script; other scripts "
            "take more"
        )
    if estimate.unwritten and (estimate.is_guess or estimate.usage.prompt_tokens is None):
        yield "texts that are still to be written are not counted in the characters"
    if estimate.drawn is not None and estimate.drawn[0] == 0:
        yield "texts are the most probable ones (temperature 0)"
    elif estimate.drawn not in {None, (1.0, 1.0)}:
        yield (
            "texts are drawn with temperature {:g}, top-p {:g}, the model's own where --temperature and --top-p "
            "name no other".format(*estimate.drawn)
        )
    if estimate.through_files:
        requests = plural(estimate.usage.prompts, "request")
        bound = "" if estimate.exact else "at most "
        yield f"through files: {bound}{requests} to write, but for those that the folder holds"
    if estimate.too_long:
        # The fingerprint of a local model names each of its settings.
        cuts = "truncate" in estimate.backend.split(",")
        advice = "shorten the texts" if cuts else "shorten the texts, or use --truncate-context"
        yield f"too long for the model: {plural(estimate.too_long, 'prompt')}; {advice}"
