"""What commands that ask a backend share: the response store, the dry run, prices and the budget."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from refladder.cli import console
from refladder.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.cache.cached import Stored
    from refladder.backends.cache.store import ResponseStore
    from refladder.backends.estimate import Estimate, Plan
    from refladder.backends.metered import Metered
    from refladder.backends.usage import Price, Usage

FREE = ("builtin", "scripted", "hf")  # kinds that cost nothing when the price table does not name their model
UNKNOWN = (
    "{name}: its tokens are not known before the run, so neither is its price; the run stops when the server's own "
    "numbers reach the budget"
)


class _Opened(NamedTuple):
    asking: Backend
    metered: Metered
    stored: Stored | None


class Spending:
    """What a command may spend and where it keeps answers; it opens the command's backends accordingly.

    Args:
        store: file of the response store; None for each backend's default: the user's cache folder for those that cost
            money or have a budget, else no store.
        without_store: no store at all, whatever `store` says (it may come from the environment).
        prices: file with a table of prices.
        budget: USD.
        dry_run: count what the run would ask, and ask nothing.

    Raises:
        UsageError, DataError: the options do not fit together, or the price table is wrong.
    """

    def __init__(
        self,
        *,
        store: Path | None = None,
        without_store: bool = False,
        prices: Path | None = None,
        budget: float | None = None,
        dry_run: bool = False,
    ) -> None:
        from refladder.backends.usage import Budget  # noqa: PLC0415  --help stays quick
        from refladder.scoring.dry_run import read_prices  # noqa: PLC0415

        if budget is not None and prices is None:
            raise UsageError("--budget needs the model's price; give a table of prices with --prices FILE")
        self.dry_run = dry_run
        self._store = store
        self._without_store = without_store
        self._prices_file = prices
        self._prices = {} if prices is None else read_prices(prices)
        self._budget = None if budget is None else Budget(budget)
        self._opened: dict[tuple[str, tuple[str, ...]], _Opened] = {}
        self._stores: dict[Path, ResponseStore] = {}

    def connect(self, name: str, given: Sequence[str] = (), flag: str = "--judge-option") -> Backend:
        """A backend with its meter and store around it, not loaded yet. Each is opened once."""
        key = (name, tuple(given))
        if key not in self._opened:
            self._opened[key] = self._open(name, given, flag)
        return self._opened[key].asking

    def open(self, name: str, given: Sequence[str] = (), flag: str = "--judge-option") -> Backend:
        """As `connect`, and loaded, so that a broken model is reported before any file is begun."""
        backend = self.connect(name, given, flag)
        backend.load()
        return backend

    def under_way(self) -> tuple[int, int | None]:
        """Prompts answered so far, and tokens that models ran for them; None where no backend tells."""
        meters = [one.metered for one in self._opened.values()]
        run_tokens = [meter.usage.run_tokens for meter in meters if meter.usage.run_tokens is not None]
        return sum(meter.answered for meter in meters), sum(run_tokens) if run_tokens else None

    def _open(self, name: str, given: Sequence[str], flag: str) -> _Opened:
        from refladder.backends.cache.cached import Stored  # noqa: PLC0415
        from refladder.backends.metered import Metered  # noqa: PLC0415

        in_batches = bool(console.pairs(given, flag).get("batch"))
        price = self._price(name, batch=in_batches)
        backend = console.open_backend(name, given, flag)
        if in_batches and self._budget is not None and price is not None and backend.count_tokens([]) is None:
            raise UsageError(
                f"{name}: a batch is paid for as a whole, so --budget needs its tokens beforehand; name the model's "
                f"tokenizer with {flag} tokenizer=PATH"
            )
        metered = Metered(backend, price, None if price is None else self._budget)
        store = self._store_for(name, costs=price is not None)
        stored = None if store is None else Stored(metered, store)
        return _Opened(stored or metered, metered, stored)

    def _price(self, name: str, *, batch: bool) -> Price | None:
        from refladder.scoring.dry_run import price_of  # noqa: PLC0415

        model = name.partition(":")[2] or name
        if self._prices_file is None or (model not in self._prices and name.partition(":")[0] in FREE):
            return None
        return price_of(self._prices, model, self._prices_file, batch=batch)

    def _store_for(self, name: str, *, costs: bool) -> ResponseStore | None:
        from refladder.api.judges import COSTLY, default_store  # noqa: PLC0415
        from refladder.backends.cache.store import ResponseStore  # noqa: PLC0415

        path = self._store
        if path is None and (name.partition(":")[0] in COSTLY or (costs and self._budget is not None)):
            path = default_store()
        if path is None or self._without_store:
            return None
        if path not in self._stores:
            self._stores[path] = ResponseStore(path)
            click.get_current_context().call_on_close(self._stores[path].close)
        return self._stores[path]

    def continues(self, plan: Callable[[Plan], int | None], *, as_json: bool) -> bool:
        """For a dry run or a budget, estimate the run before it is made; print the estimate, or ask about it.

        Args:
            plan: adds what the run will ask to a plan, with backends from `connect`. Returns how many judgments exist
                from earlier runs, where the command keeps judgments.
            as_json: print the estimate as one JSON object.

        Returns:
            Whether the run itself is to follow: not after a dry run, nor when the user says no.

        Raises:
            UsageError: it would cost more than the budget, and no user can be asked.
        """
        if not self.dry_run and self._budget is None:
            return True
        from refladder.backends.estimate import Plan  # noqa: PLC0415  --help stays quick

        costs = Plan()
        kept = plan(costs) or 0
        opened = [(name, opened.asking, opened.metered.price) for (name, _), opened in self._opened.items()]
        estimates = [(name, costs.estimate(backend, price)) for name, backend, price in opened]
        if self.dry_run:
            _tell_estimates(estimates, kept, as_json=as_json)
            return False
        if self._budget is None:
            return True
        for (name, estimate), (_, _, price) in zip(estimates, opened, strict=True):
            if price is not None and estimate.cost is None:
                click.echo(UNKNOWN.format(name=name), err=True)
        cost = sum(estimate.cost or 0.0 for _, estimate in estimates)
        if cost <= self._budget.limit:
            return True
        exact = all(estimate.exact for _, estimate in estimates)
        text = f"this run costs {'' if exact else 'at most '}{cost:.4f} USD, the budget is {self._budget.limit:.2f} USD"
        if not sys.stdin.isatty():
            raise UsageError(f"{text}; raise --budget, or see with --dry-run what costs so much")
        return click.confirm(f"{text}. Begin, and stop when the budget is spent?", err=True)

    def spent(self) -> list[dict[str, Any]]:
        """What each backend was asked in this run, as JSON values."""
        return [
            {
                "backend": name,
                **_usage(one.metered.usage),
                "seconds": round(one.metered.usage.seconds, 6),
                "from_store": None if one.stored is None else one.stored.reused,
                "usd": one.metered.usage.cost(one.metered.price),
            }
            for (name, _), one in self._opened.items()
        ]


def _usage(usage: Usage) -> dict[str, Any]:
    counted = usage.prompt_tokens is not None
    return {
        "calls": usage.prompts,
        "requests": usage.requests,
        "characters": usage.characters,
        "prompt_tokens": usage.prompt_tokens,
        "run_tokens": usage.run_tokens,
        "answer_tokens": usage.answer_tokens if counted else None,
    }


def _tell_estimates(estimates: Sequence[tuple[str, Estimate]], kept: int, *, as_json: bool) -> None:
    rows = [
        {
            "backend": name,
            **_usage(one.usage),
            "free": one.free,
            "too_long": one.too_long,
            "exact": one.exact,
            "usd": one.cost,
        }
        for name, one in estimates
    ]
    if as_json:
        click.echo(json.dumps({"dry_run": True, "kept_judgments": kept, "backends": rows}))
        return
    for row, (_, one) in zip(rows, estimates, strict=True):
        bound = "" if row["exact"] else "at most "
        click.echo(
            f"dry run, {row['backend']}: {bound}{console.in_words(row)}; {row['free']:,} answers are there already"
        )
        if one.unwritten and row["prompt_tokens"] is None:
            click.echo("  texts that are yet to be written are not among the characters")
        if one.too_long:
            click.echo(
                f"  {one.too_long:,} of the prompts are too long for the model and would not be read; shorten their "
                "texts, or see --truncate-context"
            )
    if kept:
        click.echo(f"dry run: {kept:,} judgments are kept from before")
    click.echo("nothing was asked")


def _note(option: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def note(context: click.Context, _parameter: click.Parameter, value: Any) -> None:  # noqa: ANN401
        context.meta.setdefault(console.SPENDING, {})[option] = value

    return note


def _option(name: str, *spellings: str, **settings: Any) -> Callable[..., Any]:  # noqa: ANN401
    """An option that `current` reads, so that commands need not hand it on."""
    return click.option(*spellings, name, expose_value=False, callback=_note(name), **settings)


SPENDING = console.options(
    _option(
        "store",
        "--store",
        type=console.PATH,
        envvar="REFLADDER_STORE",
        help="Response store: a file that keeps every answer for reuse. Default: the variable REFLADDER_STORE, else a "
        "file in the user's cache folder for openai and for runs with a budget, else none.",
    ),
    _option("without_store", "--no-store", is_flag=True, help="Do not use a response store."),
    _option(
        "dry_run",
        "--dry-run",
        is_flag=True,
        help="Print the number of calls and tokens, and the price, without running a model.",
    ),
    _option(
        "prices",
        "--prices",
        type=console.PATH,
        envvar="REFLADDER_PRICES",
        help='TOML file with prices: one table per model, ["MODEL"], with input and output in USD per million tokens. '
        "Default: the variable REFLADDER_PRICES.",
    ),
    _option(
        "budget",
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Cost limit in USD. A run with a higher estimate needs confirmation and stops at the limit.",
    ),
)


def current(context: click.Context) -> Spending:
    """What the options of SPENDING say in this call of a command."""
    return Spending(**context.meta.get(console.SPENDING, {}))
