"""Metrics that compare a text with reference texts: BLEU, chrF, ROUGE and METEOR, each by its reference package.

A metric is opened once and then called for one context at a time. Several references count as in each package: BLEU
and chrF combine all of them into one score, ROUGE and METEOR use the best. BERTScore is in `bert_score`.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from refladder.errors import UsageError
from refladder.methods.without_judge import ReferenceMetric, reference_method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
ROUGE_TYPES = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}


@contextmanager
def _needs(package: str) -> Iterator[None]:
    """Report a metric's package that is missing when it is imported inside."""
    try:
        yield
    except ImportError as error:
        raise UsageError(f"{package} is not installed; pip install {package}") from error


def bleu() -> ReferenceMetric:
    """Open sentence BLEU of sacrebleu, 0 to 100: effective order, exponential smoothing, tokenizer 13a.

    Source: Papineni et al. 2002; Post, arXiv 1804.08771.
    """
    with _needs("sacrebleu"):
        from sacrebleu.metrics.bleu import BLEU
    return _sacrebleu("bleu", functools.partial(BLEU, effective_order=True))


def chrf() -> ReferenceMetric:
    """Open sentence chrF2 of sacrebleu, 0 to 100: up to 6-grams of characters, no words. Source: Popovic 2015."""
    with _needs("sacrebleu"):
        from sacrebleu.metrics.chrf import CHRF
    return _sacrebleu("chrf", CHRF)


def _sacrebleu(name: str, opened: Callable[..., Any]) -> ReferenceMetric:
    """Open a metric of sacrebleu once for each context, so that references are counted once for all of its texts."""

    def score(texts: Sequence[str], references: Sequence[str]) -> list[float]:
        metric = opened(references=[[reference] for reference in references])
        return [float(metric.corpus_score([text], None).score) for text in texts]

    # A metric has a signature only after a score.
    example = opened()
    example.sentence_score("a", ["a"])
    parts = str(example.get_signature()).split("|")
    settings = [part for part in parts if not part.startswith("nrefs:")]
    return ReferenceMetric(signature=f"{name}|nrefs:all|{'|'.join(settings)}", score=score)


def rouge(name: str) -> ReferenceMetric:
    """Open ROUGE F1 of Google's rouge-score, 0 to 1: Porter stemming, the best of the references. Source: Lin 2004."""
    with _needs("rouge-score"):
        from nltk.stem.porter import PorterStemmer
        from rouge_score.rouge_scorer import RougeScorer
        from rouge_score.scoring import fmeasure
        from rouge_score.tokenize import tokenize
    kind = ROUGE_TYPES[name]
    stemmer = SimpleNamespace(stem=_cached(PorterStemmer().stem))
    # References are split once for all texts of a context.
    tokenizer = SimpleNamespace(tokenize=_cached(lambda text: tokenize(text, stemmer), 256))
    scorer = RougeScorer([kind], tokenizer=tokenizer)

    def best_ngrams(text: str, references: Sequence[str]) -> float:
        return float(scorer.score_multi(list(references), text)[kind].fmeasure)

    def best_subsequence(text: str, references: Sequence[str]) -> float:
        tokens = tokenizer.tokenize(text)
        best = 0.0
        for words in map(tokenizer.tokenize, references):
            common = longest_common_subsequence(words, tokens)
            if common:
                best = max(best, float(fmeasure(common / len(tokens), common / len(words))))
        return best

    best = best_subsequence if name == "rouge-l" else best_ngrams

    def score(texts: Sequence[str], references: Sequence[str]) -> list[float]:
        return [best(text, references) for text in texts]

    return ReferenceMetric(
        signature=f"{name}|nrefs:best|f1|stemmer:porter|rouge-score:{version('rouge-score')}",
        score=score,
    )


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence; the positions of `first` are the bits of one number.

    rouge-score fills a table of len(first) * len(second) cells in Python, which was a fifth of the time of all methods.
    Source: Hyyro 2004, "Bit-parallel LCS-length computation revisited".
    """
    positions: dict[str, int] = {}
    for position, token in enumerate(first):
        positions[token] = positions.get(token, 0) | 1 << position
    everywhere = unmatched = (1 << len(first)) - 1
    for token in second:
        matches = unmatched & positions.get(token, 0)
        unmatched = ((unmatched + matches) | (unmatched - matches)) & everywhere
    return len(first) - unmatched.bit_count()


NO_WORDNET = (
    "WordNet is not installed, so synonyms do not match and the numbers are a little below the full METEOR; "
    "install it with: python -m nltk.downloader wordnet"
)


def meteor() -> ReferenceMetric:
    """Open METEOR of nltk, 0 to 1; the best of the references counts. Without the WordNet data, synonyms do not match.

    nltk looks up the stems that the stage before it left, as it has always done. Source: Banerjee and Lavie 2005.
    """
    with _needs("nltk"):
        from nltk.corpus import wordnet
        from nltk.stem.porter import PorterStemmer
        from nltk.tokenize import wordpunct_tokenize
        from nltk.translate.meteor_score import meteor_score
    note = None
    synsets: Callable[[str], Sequence[Any]]
    try:
        stages = f"exact,stem,synonym:wordnet-{wordnet.get_version()}"
        synsets = wordnet.synsets
    except LookupError:
        stages = "exact,stem"
        note = NO_WORDNET
        synsets = _no_synonyms
    stemmer = SimpleNamespace(stem=_cached(PorterStemmer().stem))
    synonyms = SimpleNamespace(synsets=_cached(synsets))

    def score(texts: Sequence[str], references: Sequence[str]) -> list[float]:
        split = [wordpunct_tokenize(reference) for reference in references]
        return [
            float(meteor_score(split, wordpunct_tokenize(text), stemmer=stemmer, wordnet=synonyms))
            for text in texts
        ]

    settings = f"stages:{stages}|tok:wordpunct|alpha:0.9,beta:3,gamma:0.5|nltk:{version('nltk')}"
    return ReferenceMetric(signature=f"meteor|nrefs:best|{settings}", score=score, note=note)


def _no_synonyms(_word: str) -> tuple[()]:
    return ()


def _cached(function: Callable[[str], T], size: int = 1 << 16) -> Callable[[str], T]:
    """Keep the results of a function of a word, which the packages ask for repeatedly."""
    return functools.lru_cache(maxsize=size)(function)


BLEU = reference_method("bleu", bleu)
CHRF = reference_method("chrf", chrf)
ROUGE_1, ROUGE_2, ROUGE_L = (
    reference_method(name, functools.partial(rouge, name)) for name in ROUGE_TYPES
)
METEOR = reference_method("meteor", meteor)
