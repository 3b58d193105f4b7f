"""The data of the review page, in two parts: the pool, which can be rated blind, and the key, which identifies it.

The pool holds prompts, texts and criteria. The key holds systems, ids, verdicts and scores, by the numbers that texts
have in the pool. Within a row, texts are numbered by a digest, so a number says nothing about a system.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Names of the files of ratings.
GRADES = "ratings.jsonl"
PAIRS = "preferences.jsonl"


class Text(NamedTuple):
    """A text of a run: its row, system and id, and its words. If these are None, `note` has the reason."""

    row: int
    system: str
    id: str
    text: str | None
    note: str | None = None

    @property
    def digest(self) -> bytes:
        """Return a key that sorts the texts of a row independently of the order of systems."""
        words = f"{self.text}\0{self.id}\0{self.system}"
        return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@dataclass(slots=True, kw_only=True)
class ReviewData:
    """A run as the review page shows it: `pool` and `key` are JSON values, `texts` in the order of the pool.

    `grades` and `pairs` are the files that hold its ratings. `numbers` are those of the texts by id, `criteria` the
    numbers of criteria by name.
    """

    pool: dict[str, Any]
    key: dict[str, Any]
    rows: list[str]
    texts: list[Text]
    grades: Path
    pairs: Path
    numbers: dict[str, int] = field(init=False)
    criteria: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = {text.id: number for number, text in enumerate(self.texts)}
        self.criteria = {
            criterion["name"]: number for number, criterion in enumerate(self.pool["criteria"])
        }


def review_data_of(
    rows: Sequence[Mapping[str, Any]],
    texts: Sequence[Text],
    criteria: Sequence[Mapping[str, Any]],
    key: Mapping[str, Any],
    *,
    grades: Path,
    pairs: Path,
) -> ReviewData:
    """Number the texts of a run, and separate what may be seen before a rating from what may not.

    `trials`, `columns` and `climbs` are added to the key later, by text number.
    """
    ordered = sorted(texts, key=lambda text: (text.row, text.digest))
    shown = [text for text in ordered if text.text is not None]
    repeated, count = next(iter(Counter(text.id for text in shown).most_common(1)), ("", 1))
    if count > 1:
        raise DataError(
            f"output id {repeated!r} appears twice, so its ratings would be mixed; make ids unique"
        )
    systems = sorted({text.system for text in texts})
    numbers = {system: number for number, system in enumerate(systems)}
    return ReviewData(
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
