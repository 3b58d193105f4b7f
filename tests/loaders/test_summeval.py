"""SummEval in its five forms."""

from __future__ import annotations

import json
import shutil

import pytest

from refladder.errors import DataError, UnknownNameError
from refladder.loaders import load_benchmark

RELEASE = "summeval/release/model_annotations.aligned.paired.jsonl"
UNPAIRED = "summeval/unpaired/model_annotations.aligned.jsonl"
FLAT = "summeval/flat/summeval.json"
MTEB = "summeval/hub/mteb_summeval.test.jsonl"
BY_POSITION = ["system 1", "system 2", "system 3", "system 4"]


@pytest.fixture
def load(data):
    return lambda form, **options: load_benchmark("summeval", data / "summeval" / form, **options)


@pytest.fixture
def folder(data, tmp_path):
    """Copy files of the data into one folder."""

    def copy(*files):
        for file in files:
            shutil.copy(data / file, tmp_path)
        return tmp_path

    return copy


def texts_of(benchmark):
    return {output.id: output.text for output in benchmark.outputs}


def refused(path, message):
    with pytest.raises(DataError, match=message):
        load_benchmark("summeval", path)


def test_release(load, ratings):
    benchmark = load("release")
    assert [context.id for context in benchmark.contexts] == ["cnn-test-a1", "dm-test-a2"]
    assert {context.task for context in benchmark.contexts} == {"summarization"}
    assert "for\u00a0longer" in benchmark.contexts[1].text
    references = (
        "A ferry ran aground; all sixty on board are safe.",
        "A tug freed a stranded ferry.",
    )
    assert benchmark.contexts[0].references == references
    names = [dimension.name for dimension in benchmark.dimensions]
    assert names == ["coherence", "consistency", "fluency", "relevance"]
    assert len(benchmark.outputs) == 6
    # The first two lines of the file are of one text: coherence 2, 2, 3 and 4, 4, 5.
    texts = texts_of(benchmark)
    assert texts["cnn-test-a1/M8"] == texts["cnn-test-a1/M17"]
    for system, values in (("M8", (2, 2, 3)), ("M17", (4, 4, 5))):
        rated = ratings(benchmark, f"cnn-test-a1/{system}", "coherence")
        assert rated == dict(zip(("expert 1", "expert 2", "expert 3"), values, strict=True))
    # An empty text, and a rater who is missing.
    assert texts["dm-test-a2/M22"] == ""
    assert ratings(benchmark, "dm-test-a2/M22", "fluency") == {"expert 1": 1, "expert 2": 2}


def test_raters(load, ratings):
    crowd = ratings(load("release", raters="crowd"), "cnn-test-a1/M8", "coherence")
    assert crowd == {"crowd 1": 3, "crowd 2": 3}
    both = ratings(load("release", raters="all"), "cnn-test-a1/M8", "coherence")
    assert list(both) == ["expert 1", "expert 2", "expert 3", "crowd 1", "crowd 2"]
    with pytest.raises(UnknownNameError, match="SummEval raters 'expert'; did you mean 'experts'"):
        load("release", raters="expert")
    with pytest.raises(DataError, match="has only the means of the experts; raters='crowd' needs"):
        load("hub", raters="crowd")


def test_all_forms_give_the_same_means(load, means):
    release, hub, flat = means(load("release")), load("hub"), load("flat")
    assert {key: means(hub)[key] for key in release} == release
    assert {key: means(flat)[key] for key in release} == release
    assert len(hub.outputs) == len(flat.outputs) == 8
    assert {rating.rater for rating in hub.ratings} == {"mean"}
    # The flat table has no system names: place 4 is M8, whose coherence is 7/3 and consistency 15/3.
    table = means(load("table"))
    assert table["cnn-test-a1/system 4", "coherence"] == 7 / 3
    assert table["cnn-test-a1/system 4", "consistency"] == 5


def test_forms_without_names(load, data, folder, tmp_path):
    nameless = load("nameless")
    assert len(nameless.contexts) == 2
    assert [output.system for output in nameless.outputs] == BY_POSITION * 2
    hub = load_benchmark("summeval", folder(MTEB))
    assert [output.system for output in hub.outputs[:4]] == BY_POSITION
    # A table with an id for each row instead of each article.
    lines = (data / "summeval/table/summeval.csv").read_text().replace("\n", "\r\n")
    for number in range(8):
        lines = lines.replace("dm-test-a2," if number > 3 else "cnn-test-a1,", f"{number},", 1)
    (tmp_path / "rows.csv").write_text(lines, newline="")
    table = load_benchmark("summeval", tmp_path / "rows.csv")
    assert (len(table.contexts), len(table.outputs)) == (2, 8)


def test_the_unpaired_release_needs_its_articles(load, data, folder):
    message = r"aligned\.jsonl:1: no column 'text', the article: this is the unpaired release; pair"
    refused(data / "summeval/unpaired", message)
    paired, joined = load("release"), load_benchmark("summeval", folder(UNPAIRED, MTEB))
    assert joined.contexts == paired.contexts
    assert joined.outputs == paired.outputs
    assert joined.ratings == paired.ratings
    assert joined.revision.count("@") == 2


def test_a_file_of_articles_that_does_not_belong_to_the_release(data, folder, tmp_path):
    beside = folder(UNPAIRED, MTEB) / "mteb_summeval.test.jsonl"
    beside.write_text((data / MTEB).read_text().splitlines()[0] + "\n")
    refused(tmp_path, r"jsonl:4: the file with the articles has no id 'dm-test-a2'; complete it")
    beside.write_text('{"id": "a", "text": "b"}\n')
    refused(tmp_path, r"test\.jsonl:1: no column 'machine_summaries'. It has: id, text")


@pytest.mark.parametrize("release", [RELEASE, UNPAIRED])
def test_a_folder_completes_the_systems(load, folder, means, ratings, release):
    path = folder(release, MTEB, "summeval/hub/system_order.json")
    benchmark = load_benchmark("summeval", path)
    assert len(benchmark.outputs) == 8
    assert means(benchmark) == means(load("hub"))
    experts = ratings(benchmark, "cnn-test-a1/M8", "coherence")
    assert list(experts) == ["expert 1", "expert 2", "expert 3"]
    assert ratings(benchmark, "cnn-test-a1/M0", "coherence") == {"mean": 14 / 3}
    # The file alone has its own systems, and crowd ratings cannot be completed.
    assert len(load_benchmark("summeval", next(path.glob("model_*"))).outputs) == 6
    assert len(load_benchmark("summeval", path, raters="crowd").outputs) == 6


def test_a_folder_with_nothing_to_complete(load, data, folder):
    path = folder(RELEASE)
    row = json.loads((data / MTEB).read_text().splitlines()[0])
    for field in ("machine_summaries", "coherence", "consistency", "fluency", "relevance"):
        row[field] = [row[field][place] for place in (0, 2, 3)]  # M22, M17, M8, as the release
    (path / "mteb_summeval.test.jsonl").write_text(json.dumps(row))
    (path / "system_order.json").write_text('["M22", "M17", "M8"]')
    assert load_benchmark("summeval", path) == load("release")


def test_a_wrong_system_order(folder):
    path = folder(MTEB)
    order = path / "system_order.json"
    for text in ('["M8", "M8"]', '{"M8": 1}', "[1]"):
        order.write_text(text)
        refused(path, r"system_order\.json: expected a list of different system names, found")
    order.write_text('["M8", "M0"]')
    refused(path, r":1: 4 machine_summaries, but system_order\.json names 2 systems")
    folder(RELEASE)
    order.write_text('["M8", "M0", "M17", "M22"]')
    refused(path, r"jsonl:1: the summary of 'M8' differs from the release; system_order\.json does")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (RELEASE, '"M17"', '"M8"', r"2: output 'cnn-test-a1/M8' already appears at .*:1; keep"),
        (RELEASE, '"text": "', '"text": "X', r"2: context 'cnn-test-a1' has different content at"),
        (RELEASE, '"references": [', '"references": [1, ', ".*'references': expected a list"),
        (RELEASE, '_annotations": [', '_annotations": [3, ', "1: expert_annotations 1: expected"),
        (RELEASE, '"coherence": 2', '"coherence": 6', "1: expert_annotations 1: coherence is rate"),
        (RELEASE, '"coherence": 2', '"coherence": ""', "1: expert_annotations 1: column 'coherenc"),
        (MTEB, '"fluency": [', '"fluency": [1, ', "1: column .*: expected 4 items, found 5"),
        (FLAT, '"scores": {', '"scores": null, "was": {', " item 1: scores: expected a JSON obj"),
        (FLAT, '"fluency"', '"fluence"', r" item 1: scores: no column 'fluency'; .* 'fluence'\?"),
        (MTEB, '"machine_summaries"', '"machine"', r"1: unknown format of SummEval; .* it has: "),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(edited, file, old, new, message):
    refused(edited(file, old, new), rf"jsonl?:{message}")
