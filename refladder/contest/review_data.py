"""The data of the review page, in two parts: the pool, which can be rated blind, and the key, which identifies it.

The pool holds prompts, texts and criteria. The key holds systems, ids, verdicts and scores, by the numbers that texts
have in the pool. Within a row, texts are numbered by a digest, so a number says nothing about a system.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from refladder.errors import DataError
from refladder.records import ids_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.contest.criteria import Criterion

# Ratings are kept in files of these names.
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
    def place(self) -> tuple[int, bytes]:
        """Return a key that sorts by row, and the texts of a row independently of the order of systems."""
        words = f"{self.text}\0{self.id}\0{self.system}".encode("utf-8", "surrogatepass")
        return self.row, hashlib.blake2b(words, digest_size=8).digest()


class ReviewRow(NamedTuple):
    """A row of a run: its id, its prompt, and why it has none. `name` is shown instead of an id that says little."""

    id: str
    prompt: str | None
    note: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewData:
    """A run as the review page shows it: `pool` and `key` are JSON values, `texts` in the order of the pool.

    `grades` and `pairs` are the files that hold its ratings. `numbers` are those of the texts by id, the first of equal
    ones, `criteria` the numbers of criteria by name, and `scales` the criteria in that order.
    """

    pool: Mapping[str, object]
    key: dict[str, object]
    rows: Sequence[str]
    texts: Sequence[Text]
    systems: Sequence[str]
    scales: Sequence[Criterion]
    numbers: Mapping[str, int]
    criteria: Mapping[str, int]
    grades: Path
    pairs: Path


def review_data_of(
    rows: Sequence[ReviewRow],
    texts: Sequence[Text],
    criteria: Sequence[Criterion],
    key: Mapping[str, object],
    *,
    grades: Path,
    pairs: Path,
) -> ReviewData:
    """Number the texts of a run, and separate what may be seen before a rating from what may not.

    Equal texts of a row may share an id. All are shown, and the first is rated for all.
    The caller adds to the key what needs the numbers of texts, such as `columns`.
    """
    ordered = sorted(texts, key=lambda text: text.place)
    shown = [text for text in ordered if text.text is not None]
    numbers: dict[str, int] = {}
    copies = []
    for number, text in enumerate(shown):
        first = numbers.setdefault(text.id, number)
        if first == number:
            continue
        copies.append(number)
        if (shown[first].row, shown[first].text) != (text.row, text.text):
            raise DataError(
                f"output id {text.id!r} appears twice, so its ratings would be mixed; make ids unique"
            )
    systems = sorted({text.system for text in texts})
    failed = [text for text in ordered if text.text is None]
    return ReviewData(
        pool={
            "schema": "review/1",
            "kind": key["kind"],
            "criteria": list(map(asdict, criteria)),
            "rows": [{"prompt": row.prompt} for row in rows],
            "texts": [[text.row, text.text] for text in shown],
            "copies": copies,
        },
        key={
            **key,
            "systems": systems,
            "rows": [_identity(row) for row in rows],
            "texts": [[systems.index(text.system), text.id] for text in shown],
            "missing": [[text.row, systems.index(text.system), text.note] for text in failed],
        },
        rows=ids_of(rows),
        texts=shown,
        systems=systems,
        scales=criteria,
        numbers=numbers,
        criteria={criterion.name: number for number, criterion in enumerate(criteria)},
        grades=grades,
        pairs=pairs,
    )


def _identity(row: ReviewRow) -> dict[str, str | None]:
    identity = {"id": row.id, "note": row.note}
    return identity if row.name is None else {**identity, "name": row.name}
