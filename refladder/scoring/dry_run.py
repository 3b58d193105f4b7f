"""The plan of scoring outputs against ladders, the files that a plan continues from, and price tables."""

from __future__ import annotations

import difflib
import math
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refladder.backends.usage import Price
from refladder.errors import DataError, UnknownNameError
from refladder.parsing import parse_toml
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from refladder.backends.estimate import Plan
    from refladder.records import Output, Run
    from refladder.scoring.scorer import Scorer

_PRICE_KEYS = ("input", "output", "batch_discount")


def kept_judgments(path: Path | None, run: Run) -> JudgmentLog:
    """The judgments of a file, for reading only; none where there is no file.

    Raises:
        UsageError, DataError: see `JudgmentLog`.
    """
    return JudgmentLog(path if path is not None and path.exists() else None, run, read_only=True)


def plan_scoring(
    plan: Plan, scorer: Scorer, outputs: Iterable[tuple[Output | None, str | None]], judgments: Path | None
) -> int:
    """Add the prompts that scoring would ask to a plan.

    Args:
        plan: what the run asks.
        scorer: judge, ladders and scale.
        outputs: each output, or None and the reason why there is none.
        judgments: the file that keeps judgments, if it exists already; it is only read.

    Returns:
        The number of judgments of these outputs that the file holds.

    Raises:
        UsageError, DataError: the judgments are of another run or of other texts, or there are more of them.
    """
    kept = 0
    with kept_judgments(judgments, scorer.run) as log:
        for batch in batches(outputs, scorer.judge, _context_of):
            kept += scorer.plan(plan, [output for output, _ in batch], [note for _, note in batch], log)
        log.finish()
    return kept


def _context_of(row: tuple[Output | None, str | None]) -> str | None:
    return None if row[0] is None else row[0].context_id


@contextmanager
def copied(folder: Path | None) -> Iterator[Path | None]:
    """A temporary copy of the files in a folder, from which a plan continues; None where there is no folder."""
    if folder is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="refladder-dry-run-") as name:
        copy = Path(name)
        for path in folder.glob("*.jsonl"):
            shutil.copyfile(path, copy / path.name)
        yield copy


@contextmanager
def copied_file(path: Path | None) -> Iterator[Path | None]:
    """A temporary copy of a file, from which a plan continues; None where there is no file."""
    if path is None or not path.is_file():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="refladder-dry-run-") as name:
        copy = Path(name) / path.name
        shutil.copyfile(path, copy)
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
