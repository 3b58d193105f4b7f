"""What the review page shows, in two parts: the pool, which can be rated blind, and the key, which says what is what.

The pool holds prompts, texts and criteria. The key holds systems, ids, verdicts and scores, by the numbers that texts
have in the pool. Within a row, texts are numbered by a digest, so a number says nothing about a system.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

GRADES, PAIRS = "ratings.jsonl", "preferences.jsonl"


class Text(NamedTuple):
    """A text of a run: its row, system and id, and its words (None where there are none, and then `note` says why)."""

    row: int
    system: str
    id: str
    text: str | None
    note: str | None = None

    @property
    def digest(self) -> bytes:
        """Sorts the texts of a row in an order that does not depend on the order of systems."""
        words = f"{self.text}\0{self.id}\0{self.system}"
        return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@dataclass(slots=True, kw_only=True)
class Sheet:
    """A run as the review page shows it: `pool` and `key` are JSON values, `texts` in the order of the pool.

    `grades` and `pairs` are the files that hold its ratings.
    """

    pool: dict[str, Any]
    key: dict[str, Any]
    rows: list[str]
    texts: list[Text]
    grades: Path
    pairs: Path
    numbers: dict[str, int] = field(init=False)  # of the texts, by id
    criteria: dict[str, int] = field(init=False)  # their numbers, by name

    def __post_init__(self) -> None:
        self.numbers = {text.id: number for number, text in enumerate(self.texts)}
        self.criteria = {
            criterion["name"]: number for number, criterion in enumerate(self.pool["criteria"])
        }


def sheet_of(
    rows: Sequence[Mapping[str, Any]],
    texts: Sequence[Text],
    criteria: Sequence[Mapping[str, Any]],
    key: Mapping[str, Any],
    *,
    grades: Path,
    pairs: Path,
) -> Sheet:
    """Number the texts of a run, and part what may be seen before a rating from what may not.

    `trials`, `columns` and `climbs` are added to the key later, by text number.
    """
    ordered = sorted(texts, key=lambda text: (text.row, text.digest))
    shown = [text for text in ordered if text.text is not None]
    if len({text.id for text in shown}) < len(shown):
        seen: set[str] = set()
        twice = next(text.id for text in shown if text.id in seen or seen.add(text.id))  # type: ignore[func-returns-value]
        raise DataError(
            f"output id {twice!r} appears twice, so its ratings would be mixed; make ids unique"
        )
    systems = sorted({text.system for text in texts})
    numbers = {system: number for number, system in enumerate(systems)}
    return Sheet(
        pool={
            "schema": "review/1",
            "kind": key["kind"],
            "criteria": [dict(criterion) for criterion in criteria],
            "rows": [{"prompt": row["prompt"]} for row in rows],
            "texts": [[text.row, text.text] for text in shown],
        },
        key={
            **key,
            "systems": systems,
            "rows": [{"id": row["id"], "note": row["note"]} for row in rows],
            "texts": [[numbers[text.system], text.id] for text in shown],
            "missing": [
                [text.row, numbers[text.system], text.note] for text in ordered if text.text is None
            ],
        },
        rows=[row["id"] for row in rows],
        texts=shown,
        grades=grades,
        pairs=pairs,
    )
