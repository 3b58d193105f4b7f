"""Students of n-grams: the same numbers as a plain solution of ridge regression, and files that hold no code."""

from __future__ import annotations

import io
import itertools
import zipfile

import numpy as np
import pytest

from refladder.errors import DataError
from refladder.methods.surface import measured
from refladder.students.ngrams import BUCKETS, PENALTIES, NgramStudent, fit_ngrams

WORDS = [f"word{number}" for number in range(60)]


def lessons(rows=160, noise=0.0, seed=0):
    """Texts of 5 to 12 words; the score is the sum of a worth for each different word, plus noise."""
    random = np.random.default_rng(seed)
    worth = random.normal(size=len(WORDS))
    texts, scores = [], []
    for _ in range(rows):
        chosen = random.choice(len(WORDS), random.integers(5, 13), replace=False)
        words = " ".join(WORDS[number] for number in chosen)
        texts.append(("the context has word1 and word2", words))
        scores.append(worth[chosen].sum() + noise * random.standard_normal())
    return texts, np.array(scores), np.arange(rows) // 8


@pytest.fixture(scope="module")
def fitted():
    texts, scores, groups = lessons()
    return texts, fit_ngrams(texts, scores, groups)


def plain_ridge(texts, scores, others, penalty):
    """(K + penalty) a = y with centred features and scores: the dual solution, for features made word by word."""
    from sklearn.utils.murmurhash import murmurhash3_32

    surface = measured([*texts, *others])
    middle, spread = surface[: len(texts)].mean(axis=0), surface[: len(texts)].std(axis=0)
    scaled = np.clip((surface - middle) / np.where(spread > 0, spread, np.inf), -4, 4)

    def features(output):
        words = output.split()
        counted: dict[int, float] = {}
        for gram in [*words, *(" ".join(pair) for pair in itertools.pairwise(words))]:
            value = murmurhash3_32(gram, seed=0)  # of 32 bits, with a sign
            bucket = (2**31 - (value + 1) if value == -(2**31) else abs(value)) % BUCKETS
            counted[bucket] = counted.get(bucket, 0.0) + (1 if value >= 0 else -1)
        norm = np.sqrt(sum(value**2 for value in counted.values()))
        return {bucket: value / norm for bucket, value in counted.items()}

    rows = [features(output) for _, output in [*texts, *others]]
    buckets = sorted({bucket for row in rows for bucket in row})
    words = np.array([[row.get(bucket, 0.0) for bucket in buckets] for row in rows])
    matrix = np.hstack([words, scaled])
    left, right = matrix[: len(texts)], matrix[len(texts) :]
    centre = left.mean(axis=0)
    left, right = left - centre, right - centre
    dual = np.linalg.solve(left @ left.T + penalty * np.eye(len(left)), scores - scores.mean())
    return right @ (left.T @ dual) + scores.mean()


def test_estimates_are_those_of_a_plain_ridge_regression():
    texts, scores, groups = lessons(noise=0.3)
    student = fit_ngrams(texts[:120], scores[:120], groups[:120])
    expected = plain_ridge(texts[:120], scores[:120], texts[120:], student.settings["penalty"])
    assert np.allclose(student.estimate(texts[120:]), expected, atol=2e-3)
    assert np.corrcoef(expected, scores[120:])[0, 1] > 0.6  # something was learned


def test_the_penalty_grows_with_the_noise(fitted):
    noisy = fit_ngrams(*lessons(noise=30.0)).settings["penalty"]
    assert fitted[1].settings["penalty"] == PENALTIES[0] < noisy


def test_the_order_of_rows_and_the_size_of_a_batch_change_no_estimate(fitted):
    texts, student = fitted
    together = student.estimate(texts)
    for size in (1, 3, 7):  # to the last digit, as for the rows of a shard
        starts = range(0, len(texts), size)
        parts = [student.estimate(texts[start : start + size]) for start in starts]
        assert np.array_equal(np.concatenate(parts), together)
    assert np.array_equal(together[::-1], student.estimate(texts[::-1]))


def test_a_text_without_words_and_a_very_long_one_have_a_finite_estimate(fitted):
    values = fitted[1].estimate([("", "!!!"), ("", "word1 " * 20_000)])
    assert np.isfinite(values).all()
    assert np.abs(values).max() < 100


def test_the_file_is_read_back_exactly_and_has_the_same_bytes_each_time(fitted, tmp_path):
    texts, student = fitted
    files = []
    for number, each in enumerate((student, fit_ngrams(*lessons()))):
        folder = tmp_path / str(number)
        folder.mkdir()
        each.save(folder)
        files.append((folder / "weights.npz").read_bytes())
    assert files[0] == files[1]
    read, _ = NgramStudent.load(folder)
    assert read.estimate(texts).tolist() == student.estimate(texts).tolist()


def test_the_file_holds_plain_arrays_only(fitted, tmp_path):
    fitted[1].save(tmp_path)
    with zipfile.ZipFile(tmp_path / "weights.npz") as file:
        members = [io.BytesIO(file.read(name)) for name in file.namelist()]
    arrays = [np.lib.format.read_array(member, allow_pickle=False) for member in members]
    assert {array.dtype.kind for array in arrays} == {"f"}


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "weights.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("ngrams.npy", b"\0" * (8 * 2**18 + 2000))  # 2 kB packed
    message = r"weights.npz: damaged \(ngrams.npy of 2,099,152 bytes is not one of its arrays\)"
    with pytest.raises(DataError, match=message):
        NgramStudent.load(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ngrams": np.zeros(8)}, r"ngrams must be \(262144,\) finite numbers; distil again"),
        ({"intercept": np.array(np.nan)}, r"intercept must be \(\) finite numbers"),
        ({"ngrams": np.array([{}], dtype=object)}, r"damaged \(Object arrays cannot be loaded"),
        (None, "damaged"),
    ],
)
def test_another_file_is_refused(fitted, tmp_path, arrays, message):
    fitted[1].save(tmp_path)
    path = tmp_path / "weights.npz"
    if arrays is None:
        path.write_bytes(path.read_bytes()[:500])
    else:
        with np.load(path) as file:
            whole = {**dict(file), **arrays}
        np.savez(path, **whole)
    with pytest.raises(DataError, match=rf"weights.npz: {message}"):
        NgramStudent.load(tmp_path)
