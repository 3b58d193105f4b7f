"""What commands that ask a backend share: the response store, the dry run, prices and the budget."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from refladder.cli import console
from refladder.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from refladder.backends import Backend
    from refladder.backends.cache.cached import Stored
    from refladder.backends.cache.store import ResponseStore
    from refladder.backends.estimate import Estimate, Unanswered
    from refladder.backends.metered import Metered
    from refladder.backends.prices import Price
    from refladder.records import Progress

FREE = ("builtin", "scripted", "hf")  # kinds that cost nothing when the price table does not name their model
UNKNOWN = (
    "{name}: the number of tokens, and so the price, is not known before the run; the run stops when the "
    "server reports that the budget is spent"
)


class _Opened(NamedTuple):
    asking: Backend
    unanswered: Unanswered
    metered: Metered
    stored: Stored | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingOptions:
    """What a command may spend and where it stores answers.

    Attributes:
        store: file of the response store; None for each backend's default: the user's cache folder for those that cost
            money or have a budget, else no store.
        without_store: no store at all, whatever `store` says (it may come from the environment).
        prices: file with a table of prices.
        budget: USD.
        dry_run: count what the run would ask, and ask nothing.
    """

    store: Path | None = None
    without_store: bool = False
    prices: Path | None = None
    budget: float | None = None
    dry_run: bool = False


class Spending:
    """Opens a command's backends with the store, prices and budget of its options.

    Args:
        options: those of the command.

    Raises:
        UsageError, DataError: the options do not fit together, or the price table is wrong.
    """

    def __init__(self, options: SpendingOptions) -> None:
        from refladder.backends.prices import Budget, read_prices  # noqa: PLC0415  --help stays quick

        if options.budget is not None and options.prices is None:
            raise UsageError("--budget needs the model's price; give a table of prices with --prices FILE")
        self._options = options
        self._prices = {} if options.prices is None else read_prices(options.prices)
        self._budget = None if options.budget is None else Budget(options.budget)
        self._opened: dict[tuple[str, tuple[str, ...]], _Opened] = {}
        self._rehearsing = False
        self._stores: dict[Path, ResponseStore] = {}

    def open(self, name: str, given: Sequence[str] = (), flag: str = "--judge-option") -> Backend:
        """A backend with its meter and store, opened once, and loaded; in a rehearsal not loaded, and `Unanswered`."""
        key = (name, tuple(given))
        if key not in self._opened:
            self._opened[key] = self._open(name, given, flag)
        backend = self._opened[key].unanswered if self._rehearsing else self._opened[key].asking
        backend.load()
        return backend

    def without_store_of(self, name: str, given: Sequence[str] = ()) -> Backend:
        """A backend that `open` opened, with its meter only: every question is asked again."""
        from refladder.backends.estimate import Unanswered  # noqa: PLC0415

        opened = self._opened[name, tuple(given)]
        return Unanswered(opened.metered, opened.unanswered) if self._rehearsing else opened.metered

    def progress(self, what: str) -> AbstractContextManager[Progress | None]:
        """The progress bar of a step; None in a dry run."""
        return nullcontext() if self._rehearsing else console.progress(what, self.under_way)

    def under_way(self) -> tuple[int, int | None]:
        """Prompts answered so far, and tokens that models ran for them; None if no backend reports them."""
        meters = [opened.metered for opened in self._opened.values()]
        run_tokens = [meter.usage.run_tokens for meter in meters if meter.usage.run_tokens is not None]
        return sum(meter.answered for meter in meters), sum(run_tokens) if run_tokens else None

    def _open(self, name: str, given: Sequence[str], flag: str) -> _Opened:
        from refladder.backends.cache.cached import Stored  # noqa: PLC0415
        from refladder.backends.estimate import Unanswered  # noqa: PLC0415
        from refladder.backends.metered import Metered  # noqa: PLC0415

        in_batches = bool(console.pairs(given, flag).get("batch"))
        price = self.price_of(name, batch=in_batches)
        backend = console.open_backend(name, given, flag)
        if in_batches and self._budget is not None and price is not None and backend.count_tokens([]) is None:
            raise UsageError(
                f"{name}: a batch is paid for as a whole, so --budget needs its number of tokens before it starts; "
                f"name the model's tokenizer with {flag} tokenizer=PATH"
            )
        metered = Metered(backend, price, None if price is None else self._budget)
        store = self._store_for(name, costs=price is not None)
        stored = None if store is None else Stored(metered, store)
        return _Opened(stored or metered, Unanswered(stored or metered), metered, stored)

    def price_of(self, name: str, *, batch: bool = False) -> Price | None:
        """What a backend's model costs; None without a table, or for a model that costs nothing."""
        from refladder.backends.prices import price_of  # noqa: PLC0415

        model = name.partition(":")[2] or name
        if self._options.prices is None or (model not in self._prices and name.partition(":")[0] in FREE):
            return None
        return price_of(self._prices, model, self._options.prices, batch=batch)

    def store_path(self, name: str, *, costs: bool) -> Path | None:
        """The response store of a backend; None for no store.

        Args:
            name: of the backend.
            costs: whether its price is known.
        """
        from refladder.api.judges import COSTLY, default_store  # noqa: PLC0415

        path = self._options.store
        if path is None and (name.partition(":")[0] in COSTLY or (costs and self._budget is not None)):
            path = default_store()
        return None if self._options.without_store else path

    def _store_for(self, name: str, *, costs: bool) -> ResponseStore | None:
        from refladder.backends.cache.store import ResponseStore  # noqa: PLC0415

        path = self.store_path(name, costs=costs)
        if path is None:
            return None
        if path not in self._stores:
            self._stores[path] = ResponseStore(path)
            click.get_current_context().call_on_close(self._stores[path].close)
        return self._stores[path]

    def continues(self, rehearse: Callable[[], int | None], *, as_json: bool) -> bool:
        """For a dry run or a budget, estimate the run before it is made; print the estimate, or ask about it.

        Args:
            rehearse: the run, on copies of its files; `open` gives it backends that are `Unanswered`. Returns how many
                judgments exist from earlier runs, where the command keeps judgments.
            as_json: print the estimate as one JSON object.

        Returns:
            Whether the run itself is to follow: not after a dry run, nor when the user says no.

        Raises:
            UsageError: it would cost more than the budget, and no user can be asked.
        """
        if not self._options.dry_run and self._budget is None:
            return True
        self._rehearsing = True
        existing = rehearse() or 0
        self._rehearsing = False
        prices = [opened.metered.price for opened in self._opened.values()]
        estimates = [
            (name, opened.unanswered.estimate(price))
            for ((name, _), opened), price in zip(self._opened.items(), prices, strict=True)
        ]
        if self._options.dry_run:
            _print_estimates(estimates, existing, as_json=as_json)
            return False
        if self._budget is None:
            return True
        for (name, estimate), price in zip(estimates, prices, strict=True):
            if price is not None and estimate.cost is None:
                console.say(UNKNOWN.format(name=name), err=True)
        cost = sum(estimate.cost or 0.0 for _, estimate in estimates)
        if cost <= self._budget.limit:
            return True
        exact = all(estimate.exact for _, estimate in estimates)
        bound = "" if exact else "at most "
        text = f"this run costs {bound}{cost:.4f} USD, and the budget is {self._budget.limit:.2f} USD"
        if not sys.stdin.isatty():
            raise UsageError(f"{text}; raise --budget, or see the cost of each model with --dry-run")
        return click.confirm(f"{text}. Start anyway, and stop when the budget is spent?", err=True)

    def spent(self) -> list[dict[str, Any]]:
        """What each backend was asked in this run, as JSON values."""
        from refladder.backends.metered import spent_counts  # noqa: PLC0415  --help stays quick

        return [
            {"backend": name, **spent_counts(opened.metered, None if opened.stored is None else opened.stored.reused)}
            for (name, _), opened in self._opened.items()
        ]


def _print_estimates(estimates: Sequence[tuple[str, Estimate]], existing: int, *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "backend": name,
            **estimate.usage.counts,
            "least_calls": estimate.least,
            "free": estimate.free,
            "too_long": estimate.too_long,
            "exact": estimate.exact,
            "usd": estimate.cost,
        }
        for name, estimate in estimates
    ]
    if as_json:
        console.say_json({"dry_run": True, "kept_judgments": existing, "backends": rows})
        return
    for row, (_, estimate) in zip(rows, estimates, strict=True):
        bound = "" if row["exact"] else "at most "
        stored = f"{row['free']:,} answers come from the response store"
        console.say(f"dry run, {row['backend']}: {bound}{console.in_words(row)}; {stored}")
        if estimate.least < row["calls"] and estimate.least:
            console.say(f"  at least {estimate.least:,} calls")
        if estimate.unwritten and row["prompt_tokens"] is None:
            console.say("  texts that are still to be written are not counted in the characters")
        if estimate.too_long:
            console.say(
                f"  {estimate.too_long:,} of the prompts are too long for the model and would not be read; shorten "
                "their texts, or see --truncate-context"
            )
    if existing:
        console.say(f"dry run: {existing:,} judgments exist from earlier runs")
    console.say("nothing was asked")


SPENDING = console.options(
    click.option(
        "--store",
        type=console.PATH,
        envvar="REFLADDER_STORE",
        help="Response store: a file that keeps every answer for reuse. Default: the variable REFLADDER_STORE, else a "
        "file in the user's cache folder for openai and for runs with a budget, else none.",
    ),
    click.option("--no-store", "without_store", is_flag=True, help="Do not use a response store."),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Print the number of calls and tokens, and the price, without running a model.",
    ),
    click.option(
        "--prices",
        type=console.PATH,
        envvar="REFLADDER_PRICES",
        help='TOML file with prices: one table per model, ["MODEL"], with input and output in USD per million tokens. '
        "Default: the variable REFLADDER_PRICES.",
    ),
    click.option(
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Cost limit in USD. A run with a higher estimate needs confirmation and stops at the limit.",
    ),
)
