"""The judges and writers of one run: each is opened once, with a meter, the store, its price and the budget."""

from __future__ import annotations

import copy
import functools
import os
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from refladder.backends import Backend, connect
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import SqliteStore
from refladder.backends.dry_run import DryRunBackend
from refladder.backends.metered import Costs, Metered, Plan, PlannedCosts, SpentCosts, all_spent
from refladder.backends.plain_function import FunctionJudge
from refladder.errors import UsageError
from refladder.events import Silent
from refladder.files.folders import cache_folder
from refladder.records import without_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from refladder.backends.cache.store import ResponseStore
    from refladder.backends.dry_run import Estimate
    from refladder.backends.plain_function import Judge
    from refladder.backends.prices import Budget, Price
    from refladder.events import Events

# Kinds of backends whose answers are stored unless the user says no: they cost money.
COSTLY = ("openai",)


@dataclass(frozen=True)
class _Opened:
    """A backend that a session has opened: `asking` gets the questions, and `metered` inside it counts them."""

    name: str | None
    asking: Backend
    metered: Metered
    stored: Stored | None

    @property
    def called(self) -> str:
        """Return the name that it was opened by; the fingerprint of a backend that was open."""
        return self.name or self.metered.fingerprint

    @functools.cached_property
    def unanswered(self) -> DryRunBackend:
        """Return what a dry run asks in its place."""
        return DryRunBackend(self.asking)

    @property
    def spent(self) -> SpentCosts:
        """Return what it was asked."""
        usage = self.metered.usage
        return SpentCosts(
            **asdict(Costs.of(self.called, usage)),
            seconds=round(usage.seconds, 6),
            from_store=None if self.stored is None else self.stored.reused,
            usd=usage.cost(self.metered.price),
            read_mode=self.metered.read_mode,
        )


class Session:
    """The backends of one command or call. Each is opened once; `close` closes the response stores.

    `store` is the file of the response store; None for the default (REFLADDER_STORE, else a file in the cache folder
    for backends that cost money or have a budget); False for none. `price_of` gets a backend's name. `events` gets
    the notice of a backend, once in a process.
    """

    def __init__(
        self,
        store: str | Path | bool | None = None,
        *,
        price_of: Callable[[str], Price | None] = lambda _name: None,
        budget: Budget | None = None,
        events: Events | None = None,
    ) -> None:
        if store is True:
            raise UsageError(
                "store=True names no file; give a path, None for the default, or False for no store"
            )
        self._store: str | Path | bool | None = store
        self.budget = budget
        self.price_of = price_of
        self.events = events or Silent()
        self._opened: dict[tuple[object, ...], _Opened] = {}
        self._stores: dict[Path, ResponseStore] = {}
        # Folders of stores that end with the session.
        self._passing: list[TemporaryDirectory[str]] = []
        # No run follows the dry run, so no server is needed.
        self.only_estimates = False
        self.dry_run = False
        # What the runs asked that this one continues.
        self.earlier: Sequence[SpentCosts] = ()

    def open(
        self,
        backend: Backend | Judge | str,
        options: Mapping[str, object] | None = None,
        flag: str = "--judge-option",
        *,
        writes: bool = False,
    ) -> Backend:
        """Open and load a backend by name, or one that is open, or a function that judges; `DryRunBackend` in a dry run.

        `flag` is the command-line option that `options` come from, for messages. With `writes`, no labels are read
        from it.
        """
        texts = {}
        for name, value in (options or {}).items():
            # The command line writes false and true.
            text = str(value).lower() if isinstance(value, bool) else str(value)
            texts[name.replace("-", "_")] = text
        opened_by = backend if isinstance(backend, str) else id(backend)
        key = (opened_by, writes, *sorted(texts.items()))
        if key not in self._opened:
            if isinstance(backend, str):
                self._opened[key] = self._connected(backend, texts, flag, writes=writes)
            elif options:
                names = ", ".join(options)
                raise UsageError(
                    f"options {names} for a backend that is open already; give them to `connect`"
                )
            else:
                opened = as_backend(backend)
                metered = Metered(opened.for_writing() if writes else opened)
                self._opened[key] = self._with_store(None, metered, None)
        found = self._opened[key]
        asked = found.unanswered if self.dry_run else found.asking
        asked.load()
        return asked

    def rehearsal(self) -> Self:
        """Return this session for a dry run: it opens the same backends, and they answer nothing."""
        dry = copy.copy(self)
        dry.dry_run = True
        return dry

    def estimates(self) -> list[tuple[str, Price | None, Estimate]]:
        """Return name, price and estimate of each backend that a dry run opened."""
        estimates = []
        for opened in self._opened.values():
            price = opened.metered.price
            estimates.append((opened.called, price, opened.unanswered.estimate(price)))
        return estimates

    def plan(self, existing: int) -> Plan:
        """Return what each backend would be asked after a dry run; `existing` judgments are reused."""
        rows = []
        for name, _, estimate in self.estimates():
            usage, usd = estimate.usage, estimate.cost
            row = PlannedCosts(
                **asdict(Costs.of(name, usage)),
                least_calls=estimate.least,
                free=estimate.free,
                too_long=estimate.too_long,
                exact=estimate.exact,
                tokens_from_characters=estimate.is_guess,
                usd=usd,
                expected_answer_tokens=usage.expected_tokens,
                expected_usd=estimate.expected,
                seconds=estimate.seconds,
            )
            rows.append(row)
        return Plan(kept_judgments=existing, backends=rows)

    def spent(self) -> list[SpentCosts]:
        """Return what each backend was asked in this run."""
        return [opened.spent for opened in self._opened.values()]

    def total_spent(self) -> list[SpentCosts]:
        """Return what servers were asked by this run and those that it continues, which are in `earlier`."""
        priced = [
            costs for costs in self.spent() if costs.requests is not None or costs.usd is not None
        ]
        return all_spent(self.earlier, priced)

    def requests(self) -> int:
        """Return the number of requests so far, also those before the first row."""
        usages = [opened.metered.backend.usage for opened in self._opened.values()]
        return sum(usage.requests or 0 for usage in usages if usage is not None)

    def under_way(self) -> tuple[int, int | None]:
        """Return the prompts answered so far, and the tokens that models ran for them; None where none counts them."""
        meters = [opened.metered for opened in self._opened.values()]
        tokens = [meter.usage.run_tokens for meter in meters]
        known = without_none(tokens)
        return sum(meter.answered for meter in meters), sum(known) if known else None

    def store_of(self, name: str, *, costs: bool) -> Path | None:
        """Return the response store's file for a backend, None for no store; `costs` says whether its price is known."""
        if self._store is False:
            return None
        path = self._store or os.environ.get("REFLADDER_STORE")
        if not path and (name.partition(":")[0] in COSTLY or (costs and self.budget is not None)):
            path = default_store()
        return Path(str(path)) if path else None

    def checks_of(self, judge: Backend | Judge | str) -> Path | None:
        """Return the folder that remembers judge checks; None where nothing is stored, or the judge is open."""
        named = self._store is not False and isinstance(judge, str)
        return checks_folder() if named else None

    def close(self) -> None:
        """Close the response stores that are open."""
        while self._stores:
            self._stores.popitem()[1].close()
        while self._passing:
            self._passing.pop().cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(
        self, name: str, options: Mapping[str, str], flag: str, *, writes: bool
    ) -> _Opened:
        price = self.price_of(name)
        backend = connect(name, **options)
        if writes:
            backend = backend.for_writing()
        unknown = backend.prepare_dry_run() if self.only_estimates else None
        if notice := unknown or backend.notice:
            self.events.notice(notice, once=True)
        budget = None if price is None else self.budget
        if backend.wants_all and budget is not None and backend.count_tokens([]) is None:
            raise UsageError(
                f"{name}: all requests are written before one is answered, so --budget needs their number of tokens; "
                f"name the model's tokenizer with {flag} tokenizer=PATH"
            )
        path = self.store_of(name, costs=price is not None)
        return self._with_store(name, Metered(backend, price, budget), path)

    def _with_store(self, name: str | None, metered: Metered, path: Path | None) -> _Opened:
        """Return a backend with the store at a path, None for none."""
        if path is not None:
            stored = self._stored(metered, path)
            return _Opened(name, stored, metered, stored)
        if not metered.rewards:
            return _Opened(name, metered, metered, None)
        # A reward model has a store for this session, so that a rung is read once for all texts.
        self._passing.append(TemporaryDirectory(prefix="refladder-"))
        asking = self._stored(metered, Path(self._passing[-1].name) / "rewards.sqlite")
        return _Opened(name, asking, metered, None)

    def _stored(self, metered: Metered, path: Path) -> Stored:
        if path not in self._stores:
            self._stores[path] = SqliteStore(path)
        return Stored(metered, self._stores[path])


def default_store() -> Path:
    """Return where answers are stored when no file is named: in the user's cache folder."""
    return cache_folder() / "responses.sqlite"


def checks_folder() -> Path:
    """Return the folder that remembers how judges were checked."""
    return cache_folder() / "checks"


def as_backend(judge: Backend | Judge) -> Backend:
    """Return a backend, or the backend of a function."""
    return judge if isinstance(judge, Backend) else FunctionJudge(judge)


@contextmanager
def copied(folder: Path | None) -> Iterator[Path | None]:
    """Copy the files of a folder to a temporary one, in which a dry run continues; give None without a folder."""
    if folder is None:
        yield None
        return
    with TemporaryDirectory(prefix="refladder-dry-run-") as name:
        copy = Path(name)
        for path in folder.glob("*.jsonl"):
            shutil.copyfile(path, copy / path.name)
        yield copy
