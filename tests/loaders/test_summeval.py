"""SummEval in its five forms."""

from __future__ import annotations

import json
import shutil

import pytest

from refladder.errors import DataError, UnknownNameError
from refladder.loaders import load_benchmark

RELEASE = "model_annotations.aligned.paired.jsonl"
UNPAIRED = "model_annotations.aligned.jsonl"
MTEB = "mteb_summeval.test.jsonl"


def edited(data, tmp_path, line, **changes):
    """The release with some fields of one line replaced; None takes a field away."""
    rows = [
        json.loads(text) for text in (data / "summeval/release" / RELEASE).read_text().splitlines()
    ]
    rows[line - 1].update(changes)
    rows[line - 1] = {key: value for key, value in rows[line - 1].items() if value is not None}
    path = tmp_path / "edited.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_release(data, ratings):
    benchmark = load_benchmark("summeval", data / "summeval/release")
    assert [context.id for context in benchmark.contexts] == ["cnn-test-a1", "dm-test-a2"]
    assert {context.task for context in benchmark.contexts} == {"summarization"}
    assert "for\u00a0longer" in benchmark.contexts[1].text
    assert benchmark.contexts[0].references == (
        "A ferry ran aground; all sixty on board are safe.",
        "A tug freed a stranded ferry.",
    )
    assert [dimension.name for dimension in benchmark.dimensions] == [
        "coherence",
        "consistency",
        "fluency",
        "relevance",
    ]
    assert len(benchmark.outputs) == 6
    # the file's first line: coherence 2, 2, 3
    assert ratings(benchmark, "cnn-test-a1/M8", "coherence") == {
        "expert 1": 2,
        "expert 2": 2,
        "expert 3": 3,
    }


def test_identical_texts_stay_apart(data, ratings):
    benchmark = load_benchmark("summeval", data / "summeval/release")
    texts = {output.id: output.text for output in benchmark.outputs}
    assert texts["cnn-test-a1/M8"] == texts["cnn-test-a1/M17"]
    assert ratings(benchmark, "cnn-test-a1/M17", "coherence") == {
        "expert 1": 4,
        "expert 2": 4,
        "expert 3": 5,
    }


def test_missing_rater_and_empty_output(data, ratings):
    benchmark = load_benchmark("summeval", data / "summeval/release")
    assert ratings(benchmark, "dm-test-a2/M22", "fluency") == {"expert 1": 1, "expert 2": 2}
    assert {output.id: output.text for output in benchmark.outputs}["dm-test-a2/M22"] == ""


def test_raters(data, ratings):
    crowd = load_benchmark("summeval", data / "summeval/release", raters="crowd")
    assert ratings(crowd, "cnn-test-a1/M8", "coherence") == {"crowd 1": 3, "crowd 2": 3}
    both = load_benchmark("summeval", data / "summeval/release", raters="all")
    assert list(ratings(both, "cnn-test-a1/M8", "coherence")) == [
        "expert 1",
        "expert 2",
        "expert 3",
        "crowd 1",
        "crowd 2",
    ]
    with pytest.raises(
        UnknownNameError,
        match=r"unknown group of SummEval raters 'expert'; did you mean 'experts'\?",
    ):
        load_benchmark("summeval", data / "summeval/release", raters="expert")
    with pytest.raises(
        DataError,
        match=r"has only the means of the experts; raters='crowd' needs model_annotations",
    ):
        load_benchmark("summeval", data / "summeval/hub", raters="crowd")


def test_all_forms_give_the_same_means(data, means):
    release = means(load_benchmark("summeval", data / "summeval/release"))
    hub = load_benchmark("summeval", data / "summeval/hub")
    flat = load_benchmark("summeval", data / "summeval/flat")
    assert {key: means(hub)[key] for key in release} == release
    assert {key: means(flat)[key] for key in release} == release
    assert len(hub.outputs) == len(flat.outputs) == 8
    assert {rating.rater for rating in hub.ratings} == {"mean"}
    # the flat table has no system names: place 4 is M8, whose coherence is 7/3 and consistency 15/3
    table = means(load_benchmark("summeval", data / "summeval/table"))
    assert table["cnn-test-a1/system 4", "coherence"] == 7 / 3
    assert table["cnn-test-a1/system 4", "consistency"] == 5


def test_nameless_flat_form_is_grouped_by_its_source(data):
    benchmark = load_benchmark("summeval", data / "summeval/nameless")
    assert len(benchmark.contexts) == 2
    assert [output.system for output in benchmark.outputs] == [
        "system 1",
        "system 2",
        "system 3",
        "system 4",
    ] * 2


def test_table_with_an_id_for_each_row(data, tmp_path):
    lines = (data / "summeval/table/summeval.csv").read_text().replace("\n", "\r\n")
    for number in range(8):
        before = "cnn-test-a1" if number < 4 else "dm-test-a2"
        lines = lines.replace(f"{before},", f"{number},", 1)
    path = tmp_path / "rows.csv"
    path.write_text(lines, newline="")
    benchmark = load_benchmark("summeval", path)
    assert len(benchmark.contexts) == 2
    assert len(benchmark.outputs) == 8


def test_hub_form_without_names(data, tmp_path):
    shutil.copy(data / "summeval/hub" / MTEB, tmp_path)
    benchmark = load_benchmark("summeval", tmp_path)
    assert [output.system for output in benchmark.outputs[:4]] == [
        "system 1",
        "system 2",
        "system 3",
        "system 4",
    ]


def test_unpaired_alone(data):
    match = r"aligned\.jsonl:1: no column 'text', the article: this is the unpaired release; pair it with .* or put mteb"
    with pytest.raises(DataError, match=match):
        load_benchmark("summeval", data / "summeval/unpaired")


def test_unpaired_with_articles_beside_it(data, tmp_path):
    shutil.copy(data / "summeval/unpaired" / UNPAIRED, tmp_path)
    shutil.copy(data / "summeval/hub" / MTEB, tmp_path)
    paired = load_benchmark("summeval", data / "summeval/release")
    joined = load_benchmark("summeval", tmp_path)
    assert (joined.contexts, joined.outputs, joined.ratings) == (
        paired.contexts,
        paired.outputs,
        paired.ratings,
    )
    assert joined.revision.count("@") == 2


def test_unpaired_with_an_article_missing(data, tmp_path):
    shutil.copy(data / "summeval/unpaired" / UNPAIRED, tmp_path)
    first = (data / "summeval/hub" / MTEB).read_text().splitlines()[0]
    (tmp_path / MTEB).write_text(first + "\n")
    with pytest.raises(
        DataError, match=r"jsonl:4: the file with the articles has no id 'dm-test-a2'; complete it"
    ):
        load_benchmark("summeval", tmp_path)


def test_file_beside_is_another(data, tmp_path):
    shutil.copy(data / "summeval/unpaired" / UNPAIRED, tmp_path)
    (tmp_path / MTEB).write_text('{"id": "a", "text": "b"}\n')
    with pytest.raises(
        DataError, match=r"test\.jsonl:1: no column 'machine_summaries'; It has: id, text"
    ):
        load_benchmark("summeval", tmp_path)


@pytest.mark.parametrize("release", ["release", "unpaired"])
def test_folder_completes_the_systems(data, tmp_path, means, ratings, release):
    for file in [*(data / "summeval" / release).iterdir(), *(data / "summeval/hub").iterdir()]:
        shutil.copy(file, tmp_path)
    benchmark = load_benchmark("summeval", tmp_path)
    assert len(benchmark.outputs) == 8
    assert means(benchmark) == means(load_benchmark("summeval", data / "summeval/hub"))
    assert list(ratings(benchmark, "cnn-test-a1/M8", "coherence")) == [
        "expert 1",
        "expert 2",
        "expert 3",
    ]
    assert ratings(benchmark, "cnn-test-a1/M0", "coherence") == {"mean": 14 / 3}
    # the file alone has its own systems, and crowd ratings cannot be completed
    assert len(load_benchmark("summeval", next(tmp_path.glob("model_*"))).outputs) == 6
    assert len(load_benchmark("summeval", tmp_path, raters="crowd").outputs) == 6


def test_folder_with_nothing_to_complete(data, tmp_path):
    shutil.copy(data / "summeval/release" / RELEASE, tmp_path)
    row = json.loads((data / "summeval/hub" / MTEB).read_text().splitlines()[0])
    keep = [0, 2, 3]  # M22, M17, M8: the systems of the release
    for field in ("machine_summaries", "coherence", "consistency", "fluency", "relevance"):
        row[field] = [row[field][place] for place in keep]
    (tmp_path / MTEB).write_text(json.dumps(row))
    (tmp_path / "system_order.json").write_text('["M22", "M17", "M8"]')
    assert load_benchmark("summeval", tmp_path) == load_benchmark(
        "summeval", data / "summeval/release"
    )


def test_folder_with_a_wrong_system_order(data, tmp_path):
    for file in [data / "summeval/release" / RELEASE, data / "summeval/hub" / MTEB]:
        shutil.copy(file, tmp_path)
    (tmp_path / "system_order.json").write_text('["M8", "M0", "M17", "M22"]')
    match = r"jsonl:1: the summary of 'M8' differs from the release; system_order\.json does not belong to this file"
    with pytest.raises(DataError, match=match):
        load_benchmark("summeval", tmp_path)


@pytest.mark.parametrize("order", ['["M8", "M8"]', '{"M8": 1}', "[1]"])
def test_system_order_is_no_list_of_names(data, tmp_path, order):
    shutil.copy(data / "summeval/hub" / MTEB, tmp_path)
    (tmp_path / "system_order.json").write_text(order)
    with pytest.raises(
        DataError, match=r"system_order\.json: expected a list of different system names, found"
    ):
        load_benchmark("summeval", tmp_path)


def test_system_order_of_another_length(data, tmp_path):
    shutil.copy(data / "summeval/hub" / MTEB, tmp_path)
    (tmp_path / "system_order.json").write_text('["M8", "M0"]')
    with pytest.raises(
        DataError, match=r":1: 4 machine_summaries, but system_order\.json names 2 systems"
    ):
        load_benchmark("summeval", tmp_path)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"model_id": "M8"},
            r":2: output 'cnn-test-a1/M8' already appears at .*:1; keep one of them",
        ),
        (
            {"text": "other"},
            r":2: context 'cnn-test-a1' has different content at .*:1; an id must belong to one text",
        ),
        ({"id": "new", "text": " \n"}, r":2: the text of context 'new' is empty; remove the row"),
        ({"decoded": 5}, r":2: column 'decoded': expected text, found 5"),
        ({"model_id": ""}, r":2: column 'model_id': expected a name or an integer, found ''"),
        ({"model_id": True}, r":2: column 'model_id': expected a name or an integer, found True"),
        (
            {"model_id": None, "modelid": "M8"},
            r":2: no column 'model_id'; did you mean 'modelid'\? It has: id, ",
        ),
        (
            {"references": ["a", 1]},
            r":2: column 'references': expected a list of texts, found 1 in it",
        ),
        ({"references": "a"}, r":2: column 'references': expected a list, found 'a'"),
        ({"expert_annotations": [3]}, r":2: expert_annotations 1: expected a JSON object, found 3"),
    ],
)
def test_bad_release(data, tmp_path, changes, match):
    with pytest.raises(DataError, match=match):
        load_benchmark("summeval", edited(data, tmp_path, 2, **changes))


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (float("nan"), r"'coherence': expected a finite number, found nan"),
        ("", r"'coherence': expected a finite number, found ''"),
        ("good", r"'coherence': expected a finite number, found 'good'"),
        ("1_0", r"'coherence': expected a finite number, found '1_0'"),
        ([3], r"'coherence': expected a finite number, found \[3\]"),
        (True, r"'coherence': expected a finite number, found True"),
        (6, r"coherence is rated 6, outside the scale 1 to 5"),
    ],
)
def test_bad_rating(data, tmp_path, value, match):
    annotation = {"coherence": value, "consistency": 1, "fluency": 1, "relevance": 1}
    path = edited(data, tmp_path, 2, expert_annotations=[annotation])
    with pytest.raises(
        DataError, match=rf"edited\.jsonl:2: expert_annotations 1: (column )?{match}"
    ):
        load_benchmark("summeval", path)


def test_lists_of_different_lengths(data, tmp_path):
    row = json.loads((data / "summeval/hub" / MTEB).read_text().splitlines()[0])
    row["fluency"].pop()
    path = tmp_path / "short.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(
        DataError, match=r"short\.jsonl:1: column 'fluency': expected 4 items, found 3"
    ):
        load_benchmark("summeval", path)


def test_flat_item_without_scores(data, tmp_path):
    items = json.loads((data / "summeval/flat/summeval.json").read_text())
    items[1]["scores"] = None
    path = tmp_path / "flat.json"
    path.write_text(json.dumps(items))
    with pytest.raises(
        DataError, match=r"flat\.json: item 2: scores: expected a JSON object, found None"
    ):
        load_benchmark("summeval", path)
    items[1]["scores"] = {"coherence": 1, "consistency": 1, "fluence": 1, "relevance": 1}
    path.write_text(json.dumps(items))
    with pytest.raises(
        DataError,
        match=r"item 2: scores: no column 'fluency'; did you mean 'fluence'\? It has: coh",
    ):
        load_benchmark("summeval", path)


def test_unknown_form(tmp_path):
    path = tmp_path / "other.jsonl"
    path.write_text('{"document": "a", "summary": "b"}\n')
    with pytest.raises(
        DataError, match=r"other\.jsonl:1: unknown format of SummEval; .* it has: document, summary"
    ):
        load_benchmark("summeval", path)
