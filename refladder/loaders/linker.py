"""Numbers of rows on the scale that a link maps to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import DataError, UsageError, option
from refladder.files.jsonl import read_record
from refladder.files.tables import number_in
from refladder.records import COLUMN, Link
from refladder.signatures import is_older, is_revised, same_scale, with_earlier_sets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from refladder.files.tables import Row
    from refladder.records import LinkedColumn


def open_link(link: Path | Link | None) -> Linker | None:
    """Return a link, or the link in a file, ready to map numbers of rows; None for None."""
    if link is None:
        return None
    if isinstance(link, Link):
        return Linker(link, "the link")
    return Linker(read_record(Link, link), f"the link {link}")


class Linker:
    """Numbers of rows on the scale that a link maps to.

    `target_signature` is that of a threshold for this scale, None for the scale of a column. `revised` says whether a
    row has a later revision of the ladders. `columns` are the maps, by the column that they read.
    """

    def __init__(self, record: Link, name: str) -> None:
        self.target = record.to_signature
        self._from = record.from_signature
        self.target_signature = None if self.target.startswith(COLUMN) else self.target
        self.revised = False
        self.columns: Mapping[str, LinkedColumn] = {
            column.column: column for column in record.columns
        }
        self._name = name

    @property
    def has_intervals(self) -> bool:
        """Return whether its maps have an interval."""
        return all(column.least for column in self.columns.values())

    def rename(self, column: str) -> None:
        """Map a column of another name; only a link of one column can."""
        if len(self.columns) > 1:
            raise UsageError(
                f"{option('by')}: {self._name} maps several columns ({', '.join(self.columns)}) by their names; leave "
                f"{option('by')} out"
            )
        self.columns = dict(zip([column], self.columns.values(), strict=True))

    def maps(self, signature: object, where: str) -> bool:
        """Return whether scores with a signature are to be mapped: not if they are on the scale of the link already."""
        if self._from.startswith(COLUMN):
            # The rows have no signature, and the name of the column says what is mapped.
            return True
        for known in (self._from, self.target):
            self.revised |= is_revised(signature, known)
        mapped = same_scale(signature, self._from)
        if is_older(self._from, signature):
            raise DataError(
                f"{where}: an earlier version of refladder made {self._name}, and its signatures name no criteria; make "
                "it again with `refladder link`"
            )
        if not mapped and not same_scale(signature, self.target):
            raise DataError(
                f"{where}: {self._name} maps scores with the signature {self._from} to {self.target}, and "
                f"this row has {with_earlier_sets(signature or 'no signature')}; link this table with `refladder link`"
            )
        return mapped

    def added(self, columns: Collection[str]) -> dict[str, type]:
        """Return the columns that `values` adds to rows with these columns, and their type."""
        return {f"{name}_linked": float for name in self.columns if name in columns}

    def values(self, row: Row, added: Collection[str]) -> dict[str, float | None]:
        """Return the added columns of a row: its scores on the scale of the link, None without a score."""
        values: dict[str, float | None] = {}
        for name in added:
            column = name.removesuffix("_linked")
            score = number_in(row, column)
            if score is not None and self.maps(row.signature, row.where):
                score = self.value(column, score, row.where)[0]
            values[name] = score
        return values

    def value(self, column: str, number: float, where: str) -> list[float]:
        """Return a number of a column on the scale of the link, and the ends of its 95 % interval if the map has one."""
        linked = self.columns.get(column)
        if linked is None:
            raise DataError(
                f"{where}: {self._name} has no column {column!r}, only {', '.join(self.columns)}; filter by "
                "one of them"
            )
        lines = [line for line in (linked.values, linked.least, linked.most) if line]
        return [float(np.interp(number, linked.scores, line)) for line in lines]
