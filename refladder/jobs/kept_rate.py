"""The share of good rows among those that a threshold keeps, from labels that did not choose it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import UsageError
from refladder.jobs.good_share import good_shares
from refladder.jobs.labelling import TEXT
from refladder.records import scale_of

if TYPE_CHECKING:
    from refladder.jobs.labelling import Asked, Pool
    from refladder.records import Threshold
    from refladder.trust.rate import Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRate:
    """The share of good rows among labels of kept rows, and `powered` by the scores; None without labels.

    `reused` labels were not used, because they chose the threshold. `bound` is the promised precision, or None.
    """

    rate: Rate | None
    powered: Rate | None
    labels: int
    reused: int
    kept: int
    rows: int
    bound: float | None
    sure: float | None
    notes: tuple[str, ...]


def kept_rate(pool: Pool, asked: Asked, threshold: Threshold) -> KeptRate:
    """Estimate the share of good rows among those kept; labels that chose the threshold are left out."""
    if threshold.cutoffs is None:
        raise UsageError("this threshold file holds a refusal, so it keeps no rows; calibrate with more labels")
    if scale_of(threshold.signature) != scale_of(pool.signature):
        raise UsageError(
            f"the threshold was made for scores with another signature, {threshold.signature or 'none'}; these have "
            f"{pool.signature or 'none'}"
        )
    kept = np.logical_and.reduce(pool.scores >= np.array(threshold.cutoffs), axis=1)
    used = set(threshold.used)
    fresh = np.array([used.isdisjoint(row.digests) for row in pool.marked], dtype=np.bool_)
    chosen = fresh & kept[pool.labelled]
    good = pool.good(asked.conditions)[chosen]
    notes = _notes(used, pool)
    rate = powered = None
    if len(good):
        rate, powered, more = good_shares(pool, good, chosen, kept, pool.scores.mean(axis=1))
        notes += more
    return KeptRate(
        rate=rate,
        powered=powered,
        labels=len(good),
        reused=int((~fresh).sum()),
        kept=int(kept.sum()),
        rows=len(kept),
        bound=threshold.precision if threshold.sure is not None else None,
        sure=threshold.sure,
        notes=(*pool.notes, *notes),
    )


def _notes(used: set[str], pool: Pool) -> list[str]:
    with_texts = any(digest.startswith(TEXT) for digest in pool.used)
    if not used or not with_texts or any(digest.startswith(TEXT) for digest in used):
        return []
    note = (
        "the threshold file knows the labels that chose it by their ids alone, so the same rows under other ids would "
    )
    return [f"{note}be used again; calibrate again on a table with texts"]
