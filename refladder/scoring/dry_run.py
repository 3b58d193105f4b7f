"""What a run will cost, counted before it: the same run, with a stand-in that counts instead of answering.

Prompts are counted after what is kept already (judgments, journal, response store) has been taken away. The number of
prompts and of their tokens is exact when every text that they hold exists; a ladder that is yet to be written stands in
them at its length limit, and then the numbers are bounds.
"""

from __future__ import annotations

import difflib
import math
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.cache.cached import label_keys, read_completion, read_reading, write_keys
from refladder.backends.protocol import Backend
from refladder.backends.usage import Price, Usage, characters
from refladder.errors import DataError, UnknownNameError
from refladder.parsing import parse_toml
from refladder.records import Completion, LabelReading
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from refladder.backends.cache.store import ResponseStore
    from refladder.records import Output, Prompt, Sampling
    from refladder.scoring.scorer import Scorer

DRY = "dry run: not asked"
_PRICE_KEYS = ("input", "output", "batch_discount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one backend is to be asked.

    `usage` leaves out the `free` answers: stored ones, and those to a prompt that is asked already. `exact` is False
    when prompts hold texts that are yet to be written (`unwritten`), or answers will tell which of them are asked:
    `usage` is then what it can be at most, each text being written at the first attempt. `cost` is in USD, None where
    price or tokens are not known. `too_long` prompts do not fit the model and will not be read.
    """

    backend: str
    usage: Usage
    free: int
    too_long: int
    exact: bool
    unwritten: bool
    cost: float | None


class _Pool(NamedTuple):
    """Prompts of which at most `most` will be asked, with their tokens (None if not known) and characters."""

    most: int
    answer_tokens: int
    sizes: dict[bytes, tuple[int | None, int]]


class _More(NamedTuple):
    prompts: int
    tokens: int | None
    characters: int
    answer_tokens: int


class DryRun(Backend):
    """A backend that counts what it is asked; it answers from the store, else "not asked" or a text to stand for one.

    Args:
        backend: the backend that is to be asked later.
        store: where its answers are, if anywhere.
    """

    def __init__(self, backend: Backend, store: ResponseStore | None = None) -> None:
        self.backend = backend
        self._usage = Usage()
        self.free = 0
        self.exact = True
        self.too_long = 0
        self._store = store
        self._seen: set[bytes] = set()
        self._pools: list[_Pool] = []

    @property
    def fingerprint(self) -> str:
        """The backend's own, so that what is kept from earlier runs is found."""
        return self.backend.fingerprint

    def count_label_tokens(self, prompt: Prompt, labels: Sequence[str]) -> list[int] | None:
        """As the backend that is to be asked."""
        return self.backend.count_label_tokens(prompt, labels)

    @property
    def only_counts(self) -> bool:
        """True."""
        return True

    @property
    def wants_all(self) -> bool:
        """As the backend that is to be asked."""
        return self.backend.wants_all

    @property
    def shares_contexts(self) -> bool:
        """As the backend that is to be asked."""
        return self.backend.shares_contexts

    @property
    def usage(self) -> Usage:
        """What was counted so far."""
        return self._usage

    def estimate(self, price: Price | None) -> Estimate:
        """What was counted, and what may be asked of the rest at most."""
        more, usage = self._most(), self.usage
        if more.prompts:
            tokens = None if more.tokens is None or (usage.prompts and usage.prompt_tokens is None) else more.tokens
            usage = replace(
                usage,
                prompts=usage.prompts + more.prompts,
                characters=usage.characters + more.characters,
                prompt_tokens=None if tokens is None else (usage.prompt_tokens or 0) + tokens,
                answer_tokens=usage.answer_tokens + more.answer_tokens,
            )
        return Estimate(
            backend=self.fingerprint,
            usage=usage,
            free=self.free,
            too_long=self.too_long,
            exact=self.exact and not more.prompts,
            unwritten=not self.exact,
            cost=usage.cost(price),
        )

    def read_at_most(self, prompts: Sequence[Prompt], labels: Sequence[str], most: int) -> None:
        """Count that `most` of these prompts will be asked at most: which, the answers to others will tell."""
        self._bound(label_keys(self.backend, prompts, labels), prompts, self.backend.label_tokens, most)

    def write_at_most(self, prompts: Sequence[Prompt], sampling: Sampling, most: int) -> None:
        """As `read_at_most`, for texts."""
        self._bound(write_keys(self.backend, prompts, sampling), prompts, sampling.max_tokens, most)

    def _bound(self, keys: Sequence[bytes], prompts: Sequence[Prompt], answer_tokens: int, most: int) -> None:
        found = {} if self._store is None else self._store.find(keys)
        fresh = {key: _without_stand_ins(prompt) for key, prompt in zip(keys, prompts, strict=True) if key not in found}
        tokens = self.backend.count_tokens([prompt for prompt, _ in fresh.values()])
        sizes: dict[bytes, tuple[int | None, int]] = {}
        for place, (key, (prompt, more)) in enumerate(fresh.items()):
            sizes[key] = (None if tokens is None else tokens[place] + more, characters(prompt))
        self._pools.append(_Pool(most=most, answer_tokens=answer_tokens, sizes=sizes))

    def _most(self) -> _More:
        """The dearest prompts of every pool that are not asked for sure, as many of each as may be asked."""
        taken, found = set(self._seen), _More(0, 0, 0, 0)
        for pool in self._pools:
            left = [(size, key) for key, size in pool.sizes.items() if key not in taken]
            chosen = sorted(left, key=lambda one: one[0][0] or one[0][1], reverse=True)[: pool.most]
            taken.update(key for _, key in chosen)
            tokens = [size[0] for size, _ in chosen]
            known = None if found.tokens is None or None in tokens else found.tokens + sum(filter(None, tokens))
            found = _More(
                found.prompts + len(chosen),
                known,
                found.characters + sum(sorted((size[1] for size, _ in left), reverse=True)[: pool.most]),
                found.answer_tokens + pool.answer_tokens * len(chosen),
            )
        return found

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Stored texts, and a text of its own for each that is to be written."""
        keys = write_keys(self.backend, prompts, sampling)
        found = self._count(keys, prompts, sampling.max_tokens)
        return [
            read_completion(found[key]) if key in found else Completion(text=_stand_in(key, sampling)) for key in keys
        ]

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Stored readings, and no reading for each that is to be made."""
        keys = label_keys(self.backend, prompts, labels)
        found = self._count(keys, prompts, self.backend.label_tokens, labels)
        unread = LabelReading(logprobs=None, mass=None, reason=DRY)
        return [read_reading(found[key]) if key in found else unread for key in keys]

    def _count(
        self, keys: Sequence[bytes], prompts: Sequence[Prompt], answer_tokens: int, labels: Sequence[str] = ()
    ) -> dict[bytes, bytes]:
        """Count the prompts that are neither stored nor asked before; returns what is stored."""
        found = {} if self._store is None else self._store.find(keys)
        fresh = {
            key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in found and key not in self._seen
        }
        self._seen.update(fresh)
        self.free += len(keys) - len(fresh)
        bounded = [_without_stand_ins(prompt) for prompt in fresh.values()]
        asked = [prompt for prompt, _ in bounded]
        self.exact = self.exact and not any(more for _, more in bounded)
        tokens = self.backend.count_tokens(asked)
        if tokens is not None:
            self.too_long += tokens.count(0)
            tokens = [count + more for count, (_, more) in zip(tokens, bounded, strict=True)]
        shared = self.backend.count_distinct_tokens(asked, labels)
        if tokens is not None and shared is not None:  # a model on this machine
            run = shared + sum(more for _, more in bounded)
            self._usage = replace(self._usage, run_tokens=(self._usage.run_tokens or 0) + run)
        self._usage = self._usage.plus(asked, tokens, answer_tokens)
        return found


def _stand_in(key: bytes, sampling: Sampling) -> str:
    return f"(not written yet: {key.hex()}, at most {sampling.max_tokens} tokens)"


_STAND_IN = re.compile(r"\(not written yet: [0-9a-f]{32}, at most (\d+) tokens\)")


def is_stand_in(text: str) -> bool:
    """Whether a text stands for one that is yet to be written."""
    return _STAND_IN.fullmatch(text) is not None


def _without_stand_ins(prompt: Prompt) -> tuple[Prompt, int]:
    """A prompt without the texts that are yet to be written, and the most tokens that those can have."""
    unwritten = {name: found for name in set(prompt.names) if (found := _STAND_IN.fullmatch(prompt.slots[name]))}
    told = [int(most) for literal in prompt.literals for most in _STAND_IN.findall(literal)]
    if not unwritten and not told:
        return prompt, 0
    more = sum(told) + sum(int(found[1]) * prompt.names.count(name) for name, found in unwritten.items())
    literals = tuple(_STAND_IN.sub("", literal) for literal in prompt.literals)
    return replace(prompt, literals=literals, slots={**prompt.slots, **dict.fromkeys(unwritten, "")}), more


def count_scoring(scorer: Scorer, outputs: Iterable[tuple[Output | None, str | None]], judgments: Path | None) -> int:
    """Score with a judge that is a DryRun, and keep nothing: the counts are in the judge.

    Args:
        scorer: with a DryRun as judge.
        outputs: each with why it is None, if it is.
        judgments: the file that keeps judgments, if there is one yet; it is only read.

    Returns:
        How many judgments that file has for these outputs.

    Raises:
        UsageError, DataError: the judgments are of another run, of other texts, or of more of them.
    """
    kept = judgments if judgments is not None and judgments.exists() else None
    with JudgmentLog(kept, scorer.run, read_only=True) as log:
        for batch in batches(outputs, scorer.judge, _context_of):
            scorer.score([output for output, _ in batch], [note for _, note in batch], log)
        log.finish()
    return scorer.report.reused


def _context_of(row: tuple[Output | None, str | None]) -> str | None:
    return None if row[0] is None else row[0].context_id


@contextmanager
def copied(folder: Path | None) -> Iterator[Path | None]:
    """A throw-away copy of the files in a folder, for a dry run to go on from; None where there is no folder."""
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="refladder-dry-run-") as name:
        copy = Path(name)
        for path in folder.glob("*.jsonl"):
            shutil.copyfile(path, copy / path.name)
        yield copy


def read_prices(path: Path) -> dict[str, dict[str, float]]:
    """A table of prices in TOML, with a table for each model.

    For example::

        ["a-model"]
        input = 0.40          # USD for a million tokens of prompts
        output = 1.60         # USD for a million tokens of answers
        batch_discount = 0.5  # the share that the provider's batch mode takes off; 0 if not given

    Raises:
        DataError: the file cannot be read, is not TOML, or has other keys or values than these.
    """
    try:
        tables = parse_toml(path.read_bytes(), str(path), "the price table is not TOML")
    except OSError as error:
        raise DataError(f"{path}: the price table cannot be read ({error.strerror}); check --prices") from error
    for model, table in tables.items():
        _check_price(f"{path}: [{model}]", table)
    return tables


def _check_price(where: str, table: object) -> None:
    if not isinstance(table, dict):
        raise DataError(f"{where} must be a table with input and output, found {table!r}")
    for key in table:
        if key not in _PRICE_KEYS:
            near = difflib.get_close_matches(key, _PRICE_KEYS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ";"
            raise DataError(f"{where} has unknown key {key!r}{hint} Known: {', '.join(_PRICE_KEYS)}")
    for key in ("input", "output"):
        value: Any = table.get(key)
        if type(value) not in {int, float} or not 0 <= value < math.inf:
            raise DataError(f"{where} {key} must be USD for a million tokens, 0 or more, found {value!r}")
    share: Any = table.get("batch_discount", 0.0)
    if type(share) not in {int, float} or not 0 <= share <= 1:
        raise DataError(f"{where} batch_discount must be a share from 0 to 1, found {share!r}")


def price_of(prices: Mapping[str, Mapping[str, float]], model: str, path: Path, *, batch: bool = False) -> Price:
    """The price of a model.

    Args:
        prices: from `read_prices`.
        model: its name in the table.
        path: the table's file, for the error.
        batch: whether the provider's batch mode is used.

    Raises:
        UnknownNameError: the table has no such model.
    """
    if model not in prices:
        raise UnknownNameError(f"model in {path}", model, prices)
    table = prices[model]
    share = 1.0 - (table.get("batch_discount", 0.0) if batch else 0.0)
    return Price(model=model, input=table["input"] * share, output=table["output"] * share)
