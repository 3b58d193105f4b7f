"""Ridge regression over hashed n-grams and surface measures."""

from __future__ import annotations

import hashlib
import io
import math
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from refladder.errors import DataError, UsageError
from refladder.files.jsonl import atomic, read_bytes
from refladder.methods.surface import MEASURES, measured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from refladder.arrays import FloatArray, IntArray
    from refladder.records import Progress

WEIGHTS = "weights.npz"
# What numpy and zipfile raise for a file that is not one of weights, or asks for a compression or size of its own.
_DAMAGED = (
    *(ValueError, KeyError, OSError, EOFError, RuntimeError, MemoryError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
# The header of an array has fewer bytes than this.
_HEADER = 1024
# The hash has this number of buckets, a power of 2.
BUCKETS = 2**18
# An n-gram has at most this number of words.
LONGEST = 2
PENALTIES = 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0
# The penalty is chosen on this number of folds.
FOLDS = 4
# More rows are not needed to choose the penalty: it depends on the noise, not on their number.
CHOOSE_FROM = 4_000
# This number of texts is read at a time.
STEP = 1024
# A measure counts at most this number of standard deviations, so that a very long text is not an outlier.
_FAR = 4.0


class NgramStudent:
    """Estimate scores from hashed n-grams (of norm 1) and surface measures (standardised), times weights."""

    def __init__(
        self, arrays: Mapping[str, FloatArray], settings: Mapping[str, float] | None = None
    ) -> None:
        self._arrays = dict(arrays)
        self._hash = _hasher()
        self.settings: Mapping[str, float] = dict(settings or {})

    def estimate(self, texts: Sequence[tuple[str, str]]) -> FloatArray:
        """Estimate scores, shape (texts,); the context is empty for a student that reads none."""
        values = np.empty(len(texts))
        for start in range(0, len(texts), STEP):
            part = texts[start : start + STEP]
            hashed = self._hash.transform([output for _, output in part])
            surface = _standardised(measured(part), self._arrays["middle"], self._arrays["spread"])
            # The last digit of a matrix product would depend on the other texts, so that files and one table would differ.
            measures = (surface * self._arrays["measures"]).sum(axis=1)
            values[start : start + STEP] = (
                hashed @ self._arrays["ngrams"] + measures + self._arrays["intercept"]
            )
        return values

    def save(self, folder: Path) -> str:
        """Write the weights; return their digest."""
        stream = io.BytesIO()
        np.savez_compressed(stream, **self._arrays)  # type: ignore[arg-type]
        with atomic(folder / WEIGHTS) as file:
            file.write(stream.getvalue())
        return _digest(stream.getvalue())

    @classmethod
    def load(cls, folder: Path) -> tuple[NgramStudent, str]:
        """Read the weights and their digest."""
        data = read_bytes(folder / WEIGHTS)
        shapes: dict[str, tuple[int, ...]] = {"ngrams": (BUCKETS,), "intercept": ()}
        shapes.update(dict.fromkeys(("measures", "middle", "spread"), (len(MEASURES),)))
        try:
            _check_sizes(data, shapes)
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays = {name: np.asarray(file[name], dtype=np.float64) for name in shapes}
        except _DAMAGED as error:
            raise DataError(f"{folder / WEIGHTS}: damaged ({error}); distil again") from error
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
                raise DataError(
                    f"{folder / WEIGHTS}: {name} must be {shape} finite numbers; distil again"
                )
        return cls(arrays), _digest(data)


def fit_ngrams(
    texts: Sequence[tuple[str, str]],
    scores: FloatArray,
    groups: IntArray,
    progress: Progress | None = None,
) -> NgramStudent:
    """Fit a student; the penalty is the one with the least squared error on folds of whole groups."""
    from scipy import sparse

    hasher, parts, measures = _hasher(), [], []
    for start in range(0, len(texts), STEP):
        part = texts[start : start + STEP]
        parts.append(hasher.transform([output for _, output in part]))
        measures.append(measured(part))
        if progress is not None:
            progress(start + len(part), len(texts))
    surface = np.concatenate(measures)
    middle, spread = surface.mean(axis=0), surface.std(axis=0)
    features = sparse.hstack(
        [sparse.vstack(parts), sparse.csr_array(_standardised(surface, middle, spread))],
        format="csr",
    )
    # Buckets without an n-gram have weight 0.
    used = np.flatnonzero(np.diff(features.tocsc().indptr))
    features = features[:, used]
    penalty = _best_penalty(features, scores, groups)
    fitted = _ridge(penalty).fit(features, scores)
    weights = np.zeros(BUCKETS + len(middle))
    weights[used] = fitted.coef_
    arrays = {
        "ngrams": weights[:BUCKETS].astype(np.float32),
        "measures": weights[BUCKETS:],
        "middle": middle,
        "spread": spread,
        "intercept": np.asarray(fitted.intercept_),
    }
    return NgramStudent(arrays, {"buckets": BUCKETS, "longest_ngram": LONGEST, "penalty": penalty})


def _best_penalty(features: Any, scores: FloatArray, groups: IntArray) -> float:
    names = np.unique(groups)
    if len(names) < FOLDS:
        return 1.0
    fold_of = np.random.default_rng(0).permutation(len(names)) % FOLDS
    folds = fold_of[np.searchsorted(names, groups)]
    if len(scores) > CHOOSE_FROM:
        drawn = np.random.default_rng(0).choice(len(scores), CHOOSE_FROM, replace=False)
        features, scores, folds = features[drawn], scores[drawn], folds[drawn]
    errors = np.zeros(len(PENALTIES))
    for fold in range(FOLDS):
        rest = folds != fold
        if rest.all() or not rest.any():
            continue
        for number, penalty in enumerate(PENALTIES):
            estimates = _ridge(penalty).fit(features[rest], scores[rest]).predict(features[~rest])
            errors[number] += np.sum((estimates - scores[~rest]) ** 2)
    return PENALTIES[int(errors.argmin())]


def _ridge(penalty: float) -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=penalty, solver="sparse_cg", tol=1e-5)


def _hasher() -> Any:
    try:
        from sklearn.feature_extraction.text import HashingVectorizer
    except ImportError as error:
        raise UsageError(
            "a student of n-grams needs scikit-learn; pip install scikit-learn"
        ) from error
    return HashingVectorizer(
        n_features=BUCKETS,
        ngram_range=(1, LONGEST),
        token_pattern=r"(?u)\b\w+\b",  # noqa: S106
    )


def _standardised(surface: FloatArray, middle: FloatArray, spread: FloatArray) -> FloatArray:
    scaled = (surface - middle) / np.where(spread > 0, spread, 1.0)
    return np.clip(np.where(spread > 0, scaled, 0.0), -_FAR, _FAR)


def _check_sizes(data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse an archive whose members unpack to more than arrays of these shapes, before anything is unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            shape = shapes.get(member.filename.removesuffix(".npy"))
            if shape is None or member.file_size > _HEADER + 8 * math.prod(shape):
                raise ValueError(
                    f"{member.filename:.40} of {member.file_size:,} bytes is not one of its arrays"
                )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
