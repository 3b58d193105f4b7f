"""Surface measures of a text: the baselines in every table of agreement.

On HANNA and NewsRoom they alone reach correlations that are reported for large judges. A method that does not beat
them has shown nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np

from refladder.arrays import known
from refladder.methods.contract import Method, by_context
from refladder.records import Context, names_of
from refladder.statistics.agreement import build_grid, human_means
from refladder.statistics.correlation import area_under_curve
from refladder.statistics.leave_one_out import choose_on_other_contexts, standardise
from refladder.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from refladder.arrays import BoolArray, FloatArray, IntArray
    from refladder.records import Benchmark, Dimension

_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
# N-grams of these sizes are looked up in the context.
_SIZES = (1, 2, 3)
MEASURES = (
    *("length", "distinct words", "coverage"),
    *(f"{size}-grams in context" for size in _SIZES),
    *("word overlap", "type/token ratio", "negative length"),
)
# A measure for labels is chosen on this number of folds of contexts.
FOLDS = 5


def words(text: str) -> list[str]:
    """Return the words of a text in lower case: runs of letters, digits and underscores, with inner apostrophes."""
    return _WORD.findall(text.lower())


def surface_measures(context: Context, texts: Iterable[str]) -> NDArray[np.float64]:
    """Measure texts beside their context's text, shape (texts, measures) in the order of `MEASURES`.

    The lengths count words; the others are shares between 0 and 1, and 0 of nothing. The word overlap is the Jaccard
    index of the different words of text and context. Higher is better, so a short text has a high negative length.
    """
    context_tokens = words(context.text)
    context_words = set(context_tokens)
    context_grams = {size: set(_grams(context_tokens, size)) for size in _SIZES}
    rows = []
    for tokens in map(words, texts):
        count = len(tokens)
        different = set(tokens)
        shared = len(context_words & different)
        in_context = []
        for size, of_context in context_grams.items():
            grams = _grams(tokens, size)
            in_context.append(_share(sum(map(of_context.__contains__, grams)), len(grams)))
        coverage = _share(shared, len(context_words))
        overlap = _share(shared, len(context_words | different))
        ratio = _share(len(different), count)
        rows.append([count, len(different), coverage, *in_context, overlap, ratio, -count])
    return np.array(rows, dtype=np.float64).reshape(-1, len(MEASURES))


def _grams(tokens: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return list(zip(*(tokens[start:] for start in range(size)), strict=False))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


BEST = "best of the surface measures"


def best_name(others: Sequence[Method]) -> str:
    """Name the row of the best of the surface measures and other baselines."""
    return " and ".join([BEST, *names_of(others)])


def surface_methods(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    names: Collection[str],
    others: Sequence[Method] = (),
) -> list[Method]:
    """Return surface measures of every output as methods: the best of all and of `others`, and single ones.

    The best of them takes the scores of a context from the measure that agrees best with the ratings of the other
    contexts on that dimension; each measure has mean 0 and standard deviation 1 over all outputs.
    """
    values: dict[str, list[float]] = {}
    for context, outputs in by_context(benchmark):
        measures = surface_measures(context, [output.text for output in outputs])
        for output, numbers in zip(outputs, measures.tolist(), strict=True):
            values[output.id] = numbers
    methods = [_best_surface(benchmark, dimensions, values, others)] if BEST in names else []
    for position, name in enumerate(MEASURES):
        if name in names:
            scores = {}
            for output_id, numbers in values.items():
                for dimension in dimensions:
                    scores[output_id, dimension.name] = numbers[position]
            signature = f"surface:{name.replace(' ', '-')}|refladder:{__version__}"
            methods.append(Method(name=name, signature=signature, scores=scores))
    return methods


def _best_surface(
    benchmark: Benchmark,
    dimensions: Sequence[Dimension],
    values: Mapping[str, Sequence[float]],
    others: Sequence[Method],
) -> Method:
    means = human_means(benchmark.ratings)
    names = [*MEASURES, *names_of(others)]
    scores: dict[tuple[str, str], float | None] = {}
    chosen_of: list[str] = []
    for dimension in dimensions:
        grid = build_grid(benchmark.outputs, means, {}, dimension.name)
        # Each cell has the row, the column and the id of an output, in the order of the grid.
        cells = []
        for row, line in enumerate(grid.output_ids):
            cells += [(row, column, each) for column, each in enumerate(line) if each is not None]
        rows, columns, output_ids = zip(*cells, strict=True)
        measures = np.full((len(names), *grid.human.shape), np.nan)
        of_outputs = np.array([values[output] for output in output_ids])
        measures[: len(MEASURES), rows, columns] = of_outputs.T
        for position, method in enumerate(others, start=len(MEASURES)):
            given = build_grid(benchmark.outputs, means, method.scores, dimension.name)
            measures[position] = given.predicted
        chosen = choose_on_other_contexts(measures, grid.human)
        best = standardise(measures)[chosen, np.arange(len(chosen))]
        for output, number in zip(output_ids, best[rows, columns].tolist(), strict=True):
            scores[output, dimension.name] = known(number)
        counts = Counter(names[position].replace(" ", "-") for position in chosen.tolist())
        listed = "+".join(f"{name}*{count}" for name, count in counts.most_common())
        chosen_of.append(f"{dimension.name}={listed}")
    parts = [f"surface:best({','.join(chosen_of)})", *(method.signature for method in others)]
    signature = "|".join([*parts, f"refladder:{__version__}"])
    return Method(name=best_name(others), signature=signature, scores=scores)


def measured(texts: Sequence[tuple[str, str]]) -> FloatArray:
    """Measure texts beside their contexts, shape (texts, measures) in the order of `MEASURES`."""
    numbers_of: defaultdict[str, list[int]] = defaultdict(list)
    for number, (context, _) in enumerate(texts):
        numbers_of[context].append(number)
    values = np.empty((len(texts), len(MEASURES)))
    for context, numbers in numbers_of.items():
        of_context = [texts[number][1] for number in numbers]
        values[numbers] = surface_measures(Context(id="", task="", text=context), of_context)
    return values


def best_surface(
    labelled: FloatArray, good: BoolArray, folds: IntArray, others: FloatArray
) -> tuple[FloatArray, FloatArray, str]:
    """Score by the measure with the greatest area under the curve in the labels of other contexts, standardised.

    The folds take turns in `others`, in its order; all labels of a context are in one. Shapes: `labelled` (labels,
    measures), `good` and `folds` (labels,), `others` (rows, measures). Gives scores of both, and the usual measure.
    """
    middle = others.mean(axis=0)
    spread = others.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    left = (labelled - middle) / spread
    right = (others - middle) / spread
    chosen = np.empty(FOLDS, dtype=np.int64)
    for fold in range(FOLDS):
        rest = folds != fold
        areas = [area_under_curve(measure, good[rest]) for measure in left[rest].T]
        chosen[fold] = np.nan_to_num(np.array(areas, dtype=np.float64), nan=0.5).argmax()
    turns = chosen[np.arange(len(others)) % FOLDS]
    name = MEASURES[int(np.bincount(chosen[folds] if len(folds) else chosen).argmax())]
    return left[np.arange(len(left)), chosen[folds]], right[np.arange(len(right)), turns], name
