"""The real files: counts as their README states them, and equal means from two forms of one benchmark."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from refladder.loaders import load_benchmark
from refladder.testing import check_benchmark

REAL = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not REAL.is_dir(), reason="the real benchmark files are not in ../shared/data"
)
TEAMS = ("adapt", "baseline", "melbourne", "pkuwriter", "tilburg-nmt", "tilburg-pipe", "tilburg-smt",
         "upf-forge", "vietnam", "webnlg")  # fmt: skip
ALL_TEAMS = {"systems": TEAMS}
RELEASE = "summeval/model_annotations.aligned.paired.jsonl.gz"
MTEB = "summeval/mteb_summeval.test.jsonl.gz"
AVERAGED = "webnlg2017/all_data_final_averaged.csv.gz"


@pytest.fixture(scope="module")
def load():
    """Read each benchmark once."""
    loaded = {}

    def go(name, source, options):
        key = (source, *options.items())
        if key not in loaded:
            loaded[key] = load_benchmark(name, REAL / source, **options)
        return loaded[key]

    return go


@pytest.mark.parametrize(
    # ratings: outputs x dimensions x raters, where all are there
    ("name", "source", "options", "contexts", "outputs", "systems", "ratings"),
    [
        ("summeval", RELEASE, {"raters": "all"}, 100, 1200, 12, 38400),
        ("summeval", MTEB, {}, 100, 1600, 16, 1600 * 4),
        ("summeval", "summeval", {}, 100, 1600, 16, 1200 * 4 * 3 + 400 * 4),
        ("topicalchat", "topicalchat_usr", {}, 60, 360, 6, 360 * 6 * 3),
        ("topicalchat", "topicalchat_usr/unieval", {}, 60, 360, 6, 360 * 6),
        ("hanna", "hanna", {"human": True}, 96, 1056, 11, 3168 * 6),
        ("newsroom", "newsroom", {}, 60, 420, 7, 1260 * 4),
        ("newsroom", "newsroom/newsroom.json.gz", {}, 60, 420, 7, 420 * 4),
        ("webnlg", AVERAGED, {}, 223, 2007, 9, 2007 * 3),
        ("webnlg", "webnlg2017", ALL_TEAMS, 223, 2230, 10, 6111 * 3),
    ],
)
def test_counts(load, name, source, options, contexts, outputs, systems, ratings):  # noqa: PLR0917
    benchmark = load(name, source, options)
    check_benchmark(benchmark)
    assert len(benchmark.contexts) == contexts
    assert len(benchmark.outputs) == outputs
    assert len({output.system for output in benchmark.outputs}) == systems
    assert len(benchmark.ratings) == ratings


@pytest.mark.parametrize(
    ("name", "source", "options", "tied"),
    [
        ("summeval", "summeval", {}, {"consistency": 4, "fluency": 2}),
        ("topicalchat", "topicalchat_usr", {}, {"groundedness": 6}),
        ("hanna", "hanna", {"human": True}, {}),
        ("newsroom", "newsroom", {}, {}),
        ("webnlg", "webnlg2017", ALL_TEAMS, {"fluency": 1, "semantics": 1}),
    ],
)
def test_contexts_whose_outputs_have_one_mean(load, means, name, source, options, tied):  # noqa: PLR0917
    benchmark = load(name, source, options)
    contexts = {output.id: output.context_id for output in benchmark.outputs}
    values = defaultdict(set)
    for (output_id, dimension), mean in means(benchmark).items():
        values[contexts[output_id], dimension].add(mean)
    assert Counter(dimension for (_, dimension), found in values.items() if len(found) == 1) == tied


@pytest.mark.parametrize(
    ("name", "first", "second", "options", "tolerance"),
    [
        ("summeval", "summeval", MTEB, {}, 0),
        # The flat file has its means to 10 decimals.
        ("topicalchat", "topicalchat_usr", "topicalchat_usr/unieval", {}, 1e-10),
        ("webnlg", "webnlg2017", AVERAGED, ALL_TEAMS, 1e-12),
    ],
)
def test_two_forms_agree(load, means, name, first, second, options, tolerance):  # noqa: PLR0917
    one, other = load(name, first, options), load(name, second, options)

    def texts(records):
        return {record.id: record.text for record in records}

    assert texts(one.outputs) == texts(other.outputs)
    assert texts(one.contexts) == texts(other.contexts)
    expected, found = means(one), means(other)
    assert expected.keys() == found.keys()
    assert max(abs(expected[key] - found[key]) for key in expected) <= tolerance


def test_newsroom_forms_agree(load, rated_texts):
    release = load("newsroom", "newsroom", {})
    assert rated_texts(load("newsroom", "newsroom/newsroom.json.gz", {})) == rated_texts(release)


def test_webnlg_texts_and_raters(load):
    benchmark = load("webnlg", "webnlg2017", ALL_TEAMS)
    empty = Counter(output.system for output in benchmark.outputs if not output.text)
    assert empty == {"vietnam": 168, "tilburg-pipe": 25}
    fluency = [rating for rating in benchmark.ratings if rating.dimension == "fluency"]
    raters = Counter(rating.output_id for rating in fluency)
    assert (min(raters.values()), max(raters.values())) == (1, 6)
    assert all(context.references for context in benchmark.contexts)
