"""The real files: counts as their README states them, and equal means from two forms of one benchmark."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from refladder.loaders import load_benchmark
from refladder.testing import check_benchmark

# source, options, contexts, outputs, systems, ratings (outputs x dimensions x raters, where all are there)
COUNTS = [
    (
        "summeval",
        "summeval/model_annotations.aligned.paired.jsonl.gz",
        {},
        100,
        1200,
        12,
        1200 * 4 * 3,
    ),
    (
        "summeval",
        "summeval/model_annotations.aligned.paired.jsonl.gz",
        {"raters": "crowd"},
        100,
        1200,
        12,
        24000,
    ),
    (
        "summeval",
        "summeval/model_annotations.aligned.paired.jsonl.gz",
        {"raters": "all"},
        100,
        1200,
        12,
        38400,
    ),
    ("summeval", "summeval/mteb_summeval.test.jsonl.gz", {}, 100, 1600, 16, 1600 * 4),
    ("summeval", "summeval", {}, 100, 1600, 16, 1200 * 4 * 3 + 400 * 4),
    ("topicalchat", "topicalchat_usr", {}, 60, 360, 6, 360 * 6 * 3),
    ("topicalchat", "topicalchat_usr/unieval", {}, 60, 360, 6, 360 * 6),
    ("hanna", "hanna", {}, 96, 960, 10, 960 * 6 * 3),
    ("hanna", "hanna", {"human": True}, 96, 1056, 11, 3168 * 6),
    ("newsroom", "newsroom", {}, 60, 420, 7, 1260 * 4),
    ("newsroom", "newsroom/newsroom.json.gz", {}, 60, 420, 7, 420 * 4),
    ("webnlg", "webnlg2017/all_data_final_averaged.csv.gz", {}, 223, 2007, 9, 2007 * 3),
]
TILBURG = ("tilburg-nmt", "tilburg-pipe", "tilburg-smt")
ALL_TEAMS = (
    "adapt",
    "baseline",
    "melbourne",
    "pkuwriter",
    *TILBURG,
    "upf-forge",
    "vietnam",
    "webnlg",
)


@pytest.mark.parametrize("case", COUNTS, ids=lambda case: case[1])
def test_counts(real, case):
    name, source, options, contexts, outputs, systems, ratings = case
    benchmark = load_benchmark(name, real / source, **options)
    check_benchmark(benchmark)
    assert len(benchmark.contexts) == contexts
    assert len(benchmark.outputs) == outputs
    assert len({output.system for output in benchmark.outputs}) == systems
    assert len(benchmark.ratings) == ratings


def tied_contexts(benchmark, means):
    """For each dimension, in how many contexts all outputs have one mean."""
    values = defaultdict(set)
    contexts = {output.id: output.context_id for output in benchmark.outputs}
    for (output_id, dimension), mean in means.items():
        values[contexts[output_id], dimension].add(mean)
    tied = Counter(dimension for (_, dimension), found in values.items() if len(found) == 1)
    return {dimension.name: tied[dimension.name] for dimension in benchmark.dimensions}


@pytest.mark.parametrize(
    "case",
    [
        (
            "summeval",
            "summeval",
            {},
            {"coherence": 0, "consistency": 4, "fluency": 2, "relevance": 0},
        ),
        (
            "topicalchat",
            "topicalchat_usr",
            {},
            {
                "understandability": 0,
                "naturalness": 0,
                "coherence": 0,
                "engagingness": 0,
                "groundedness": 6,
                "overall": 0,
            },
        ),
        (
            "hanna",
            "hanna",
            {"human": True},
            dict.fromkeys(
                ("relevance", "coherence", "empathy", "surprise", "engagement", "complexity"), 0
            ),
        ),
        (
            "newsroom",
            "newsroom",
            {},
            dict.fromkeys(("coherence", "fluency", "informativeness", "relevance"), 0),
        ),
        (
            "webnlg",
            "webnlg2017",
            {"systems": ALL_TEAMS},
            {"fluency": 1, "grammar": 0, "semantics": 1},
        ),
    ],
)
def test_tied_contexts(real, means, case):
    name, source, options, tied = case
    benchmark = load_benchmark(name, real / source, **options)
    assert tied_contexts(benchmark, means(benchmark)) == tied


@pytest.mark.parametrize(
    "case",
    [
        ("summeval", "summeval", "summeval/mteb_summeval.test.jsonl.gz", {}, 0),
        # the flat file has its means to 10 decimals
        ("topicalchat", "topicalchat_usr", "topicalchat_usr/unieval", {}, 1e-10),
        (
            "webnlg",
            "webnlg2017",
            "webnlg2017/all_data_final_averaged.csv.gz",
            {"systems": ALL_TEAMS},
            1e-12,
        ),
    ],
)
def test_two_forms_agree(real, means, case):
    name, first, second, options, tolerance = case
    one = load_benchmark(name, real / first, **options)
    other = load_benchmark(name, real / second, **options)
    assert {output.id: output.text for output in one.outputs} == {
        output.id: output.text for output in other.outputs
    }
    assert [(c.id, c.text) for c in sorted(one.contexts, key=lambda c: c.id)] == [
        (c.id, c.text) for c in sorted(other.contexts, key=lambda c: c.id)
    ]
    expected, found = means(one), means(other)
    assert expected.keys() == found.keys()
    assert max(abs(expected[key] - found[key]) for key in expected) <= tolerance


def test_newsroom_forms_agree(real, rated_texts):
    release = load_benchmark("newsroom", real / "newsroom")
    flat = load_benchmark("newsroom", real / "newsroom/newsroom.json.gz")
    assert rated_texts(flat) == rated_texts(release)


def test_identical_summaries_stay_apart(real):
    benchmark = load_benchmark("summeval", real / "summeval")
    groups = Counter((output.context_id, output.text) for output in benchmark.outputs)
    repeated = [count for count in groups.values() if count > 1]
    assert (len(repeated), sum(repeated)) == (44, 96)


def test_webnlg_texts_and_raters(real):
    benchmark = load_benchmark("webnlg", real / "webnlg2017", systems=ALL_TEAMS)
    empty = Counter(output.system for output in benchmark.outputs if not output.text)
    assert empty == {"vietnam": 168, "tilburg-pipe": 25}
    assert len(benchmark.ratings) == 6111 * 3
    raters = Counter(
        rating.output_id for rating in benchmark.ratings if rating.dimension == "fluency"
    )
    assert (min(raters.values()), max(raters.values())) == (1, 6)
    assert all(context.references for context in benchmark.contexts)


def test_newsroom_texts(real):
    benchmark = load_benchmark("newsroom", real / "newsroom")
    assert (
        sum(output.text.count("<UNK>") for output in benchmark.outputs) == 17
    )  # 51 in the rows of 3 raters
    texts = [output.text for output in benchmark.outputs] + [
        context.text for context in benchmark.contexts
    ]
    assert not any(
        mark in text for text in texts for mark in ("&quot;", "&#x27;", "&amp;", "&lt;", "</p>")
    )
