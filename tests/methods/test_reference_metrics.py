"""BLEU, chrF, ROUGE and METEOR: against their packages called directly, and against hand work."""

from __future__ import annotations

import ast
import builtins
import csv
import gzip
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from refladder.errors import UsageError
from refladder.methods.reference_metrics import (
    bleu,
    chrf,
    longest_common_subsequence,
    meteor,
    rouge,
)

sacrebleu = pytest.importorskip("sacrebleu", reason="the metrics extra is not installed")
rouge_scorer = pytest.importorskip(
    "rouge_score.rouge_scorer", reason="the metrics extra is not installed"
)
nltk_meteor = pytest.importorskip(
    "nltk.translate.meteor_score", reason="the metrics extra is not installed"
)

HANNA = Path(__file__).resolve().parents[3] / "shared" / "data" / "hanna"
TEXTS = [
    "The storm closed the harbour until Thursday.",
    "The harbour, closed by storms, is opening again on Thursday!",
    "Bread is carried through Ghent.",
    "harbour",
    "",
]
REFERENCES = (
    "A storm has closed the harbour of Lerwick until Thursday.",
    "Lerwick's harbour is closed; it opens again on Thursday.",
    "The harbour master expects to open on Thursday.",
)


def test_bleu_and_chrf_are_sacrebleus():
    def scores(sentence_score, **options):
        return [sentence_score(text, list(REFERENCES), **options).score for text in TEXTS]

    expected = scores(sacrebleu.sentence_bleu, use_effective_order=True)
    assert bleu().score(TEXTS, REFERENCES) == expected
    words = "bleu|nrefs:all|case:mixed|eff:yes|tok:13a|smooth:exp|version:"
    assert bleu().signature == f"{words}{sacrebleu.__version__}"
    assert chrf().score(TEXTS, REFERENCES) == scores(sacrebleu.sentence_chrf)
    words = "chrf|nrefs:all|case:mixed|eff:yes|nc:6|nw:0|space:no|version:"
    assert chrf().signature.startswith(words)


@pytest.mark.parametrize(
    ("name", "kind"), [("rouge-1", "rouge1"), ("rouge-2", "rouge2"), ("rouge-l", "rougeL")]
)
def test_rouge_is_rouge_scores(name, kind):
    scorer = rouge_scorer.RougeScorer([kind], use_stemmer=True)
    expected = [max(scorer.score(one, text)[kind].fmeasure for one in REFERENCES) for text in TEXTS]
    assert rouge(name).score(TEXTS, REFERENCES) == expected
    assert rouge(name).signature.startswith(f"{name}|nrefs:best|f1|stemmer:porter|rouge-score:")


@pytest.mark.parametrize("words", [1, 2, 5, 40])
def test_longest_common_subsequences_are_those_of_rouge_score(words):
    random = np.random.default_rng(words)

    def drawn():
        return random.integers(words, size=random.integers(1, 90)).astype(str).tolist()

    for _ in range(50):
        first, second = drawn(), drawn()
        expected = rouge_scorer._lcs_table(first, second)[-1][-1]
        assert longest_common_subsequence(first, second) == expected
    assert longest_common_subsequence([], ["a"]) == longest_common_subsequence(["a"], []) == 0


# Split by hand at words and punctuation.
TOKENS, *REFERENCE_TOKENS = [
    words.split(" ")
    for words in (
        "The harbour , closed by storms , is opening again on Thursday !",
        "A storm has closed the harbour of Lerwick until Thursday .",
        "Lerwick ' s harbour is closed ; it opens again on Thursday .",
        "The harbour master expects to open on Thursday .",
    )
]


class Wordnet:
    """As much of nltk's WordNet as METEOR uses: a word has synsets, these lemmas, and they names."""

    def __init__(self, *synonyms):
        self._synonyms = synonyms

    def synsets(self, word):
        def of(names):
            return SimpleNamespace(
                lemmas=lambda: [SimpleNamespace(name=lambda name=name: name) for name in names]
            )

        return [of(names) for names in self._synonyms if word in names]

    def get_version(self):
        return "3.0"


def use_wordnet(monkeypatch, wordnet):
    """Without one, the package says that it is not installed."""

    class Absent:
        def get_version(self):
            raise LookupError("Resource wordnet not found.")

    monkeypatch.setattr("nltk.corpus.wordnet", wordnet or Absent())


def nltks(wordnet):
    scores = [
        nltk_meteor.single_meteor_score(reference, TOKENS, wordnet=wordnet)
        for reference in REFERENCE_TOKENS
    ]
    return max(scores)


def test_meteor_is_nltks_with_or_without_synonyms_and_says_which(monkeypatch):
    use_wordnet(monkeypatch, None)
    plain = meteor()
    assert plain.score([TEXTS[1]], REFERENCES) == [nltks(Wordnet())]
    assert "|stages:exact,stem|tok:wordpunct|" in plain.signature
    words = "WordNet is not installed, so synonyms do not match and the numbers are a little below"
    assert plain.note.startswith(words)
    wordnet = Wordnet(
        {"shut", "closed"}, {"port", "harbour", "seaport_town"}, {"expect", "is"}, {"!", "."}
    )
    use_wordnet(monkeypatch, wordnet)
    metric = meteor()
    assert metric.score([TEXTS[1]], REFERENCES) == [nltks(wordnet)]
    assert nltks(wordnet) > nltks(Wordnet())
    assert "|stages:exact,stem,synonym:wordnet-3.0|tok:wordpunct|" in metric.signature
    assert metric.note is None


def test_meteor_by_hand(monkeypatch):
    use_wordnet(monkeypatch, None)

    def score(text, reference):
        return pytest.approx(meteor().score([text], [reference])[0])

    # All four words match, two of them by their stem, in one chunk: P = R = 1, penalty = .5 * (1/4)^3 = 1/128.
    assert score("the dogs barked loudly", "the dog barks loudly") == 1 - 1 / 128
    assert meteor().score(["", "cat"], ["the dog barks"]) == [0.0, 0.0]
    # one of three: P = R = 1/3, one chunk of one match: the penalty is 1/2
    assert score("the car stop", "the auto halt") == 1 / 3 * (1 - 1 / 2)
    # nltk looks up what the stage before left, which are stems: these words are their own
    use_wordnet(monkeypatch, Wordnet({"car", "auto"}, {"stop", "halt"}))
    # all three words match, two of them as synonyms, in one chunk: P = R = 1, penalty = .5 * (1/3)^3 = 1/54
    assert score("the car stop", "the auto halt") == 1 - 1 / 54


def test_a_text_scores_the_same_alone_and_among_others():
    for metric in (bleu(), chrf(), rouge("rouge-l"), meteor()):
        together = metric.score(TEXTS, REFERENCES)
        assert together == [metric.score([text], REFERENCES)[0] for text in TEXTS]
        assert metric.score(TEXTS[::-1], REFERENCES) == together[::-1]


@pytest.mark.parametrize(
    ("open_metric", "package"),
    [(bleu, "sacrebleu"), (chrf, "sacrebleu"), (rouge, "rouge-score"), (meteor, "nltk")],
)
def test_an_absent_package_is_named(open_metric, package, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **named):
        if name.partition(".")[0] == package.replace("-", "_"):
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=rf"{package} is not installed; pip install {package}$"):
        open_metric(*["rouge-1"] * (open_metric is rouge))


def gzipped_rows(name):
    with gzip.open(HANNA / name, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.skipif(not HANNA.is_dir(), reason="the benchmark files are not there (../shared/data)")
def test_hannas_own_measures():
    """The release's table of automatic measures: BLEU is the same; its ROUGE and METEOR are of other programs."""
    csv.field_size_limit(1 << 30)
    stories = {
        int(row["Story ID"]): row for row in gzipped_rows("hanna_stories_annotations.csv.gz")
    }
    rows = gzipped_rows("hanna_metric_scores.csv.gz")
    columns = {name.rpartition(" ")[0]: name for name in rows[0] if name}
    chosen = [row for _, row in sorted(stories.items())[96::16]]

    def published(measure):
        return [value for row in rows[1:] for value in ast.literal_eval(row[columns[measure]])][
            ::16
        ]

    def ours(metric):
        return [metric.score([row["Story"]], [row["Human"]])[0] for row in chosen]

    assert ours(bleu()) == pytest.approx(published("BLEU"), abs=1e-9)
    for metric, measure in (
        (rouge("rouge-1"), "ROUGE-1 F-Score"),
        (rouge("rouge-2"), "ROUGE-2 F-Score"),
        (rouge("rouge-l"), "ROUGE-L F-Score"),
        (meteor(), "METEOR"),
        (chrf(), "chrF"),
    ):
        assert np.corrcoef(ours(metric), published(measure))[0, 1] > 0.85
