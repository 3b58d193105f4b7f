"""Every loader keeps the contract; names, options, and what is said where nothing can be fetched."""

from __future__ import annotations

import gzip
import json
import sys
from types import ModuleType

import pytest

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.loaders import BENCHMARKS, load_benchmark
from refladder.loaders.user_table import load_user_table
from refladder.testing import check_benchmark

SOURCES = [
    ("summeval", "summeval/release", {"raters": "all"}),
    ("summeval", "summeval/hub", {}),
    ("summeval", "summeval/flat", {}),
    ("summeval", "summeval/nameless", {}),
    ("summeval", "summeval/table", {}),
    ("topicalchat", "topicalchat/usr", {}),
    ("topicalchat", "topicalchat/unieval", {}),
    ("hanna", "hanna", {"human": True}),
    ("newsroom", "newsroom/release", {}),
    ("newsroom", "newsroom/flat", {}),
    ("webnlg", "webnlg", {}),
    ("webnlg", "webnlg/all_data_final_averaged.csv", {}),
    ("podcast", "podcast", {}),
]


@pytest.mark.parametrize(("name", "folder", "options"), SOURCES)
def test_contract(data, name, folder, options):
    benchmark = load_benchmark(name, data / folder, **options)
    check_benchmark(benchmark)
    assert benchmark.name == name
    assert benchmark.outputs
    rated = {(rating.output_id, rating.dimension) for rating in benchmark.ratings}
    assert len(rated) == len(benchmark.outputs) * len(benchmark.dimensions)


def test_every_table_entry_is_tried():
    assert {name for name, _, _ in SOURCES} | {"own"} == set(BENCHMARKS)


@pytest.mark.parametrize(("name", "folder", "options"), SOURCES)
def test_gzip_is_the_same(data, tmp_path, name, folder, options):
    source = data / folder
    files = [source] if source.is_file() else sorted(source.iterdir())
    for file in files:
        (tmp_path / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    packed = tmp_path if source.is_dir() else tmp_path / f"{source.name}.gz"
    plain = load_benchmark(name, source, **options)
    again = load_benchmark(name, str(packed), **options)
    assert again.outputs == plain.outputs
    assert again.ratings == plain.ratings
    assert again.revision == plain.revision


def test_unknown_benchmark():
    with pytest.raises(
        UnknownNameError,
        match=r"unknown benchmark 'sumeval'; did you mean 'summeval'\? Known: demo/.*, hanna,",
    ):
        load_benchmark("sumeval")


@pytest.mark.parametrize("name", ["demo/dialogue", "demo/story", "demo/summarization"])
def test_shipped_sets(name):
    benchmark = load_benchmark(name)
    check_benchmark(benchmark)
    assert {context.task for context in benchmark.contexts} == {name.removeprefix("demo/")}
    assert len(benchmark.outputs) == 6 * len(benchmark.contexts)


def test_unknown_option(data):
    match = r"unknown option of benchmark 'hanna' 'humans'; did you mean 'human'\? Known: human"
    with pytest.raises(UnknownNameError, match=match):
        load_benchmark("hanna", data / "hanna", humans=True)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        (
            "topicalchat",
            r"topicalchat: there is no copy on the Hub .* download http://shikib\.com/tc_usr_data\.json ",
        ),
        (
            "newsroom",
            r"newsroom: there is no copy on the Hub .* newsroom-human-eval\.csv .*lil-lab/newsroom.*--source",
        ),
        (
            "webnlg",
            r"webnlg: there is no copy on the Hub .*gitlab\.com/webnlg/webnlg-human-evaluation .*--source PATH",
        ),
    ],
)
def test_no_public_home_to_fetch(name, match):
    with pytest.raises(DataError, match=match):
        load_benchmark(name)


HUB = [
    (
        "summeval",
        "mteb/summeval",
        "test",
        r"model_annotations\.aligned\.paired\.jsonl .*Yale-LILY/SummEval",
    ),
    (
        "hanna",
        "llm-aes/hanna",
        "train",
        r"hanna_stories_annotations\.csv .*dig-team/hanna-benchmark-asg",
    ),
    (
        "podcast",
        "potsawee/podcast_summary_assessment",
        "evaluation",
        r"podcast_summary_assessment\.json ",
    ),
]


@pytest.fixture
def hub(monkeypatch):
    """Puts a stand-in for the package datasets in place; `answer` says what load_dataset does."""

    class DatasetsError(Exception):
        pass

    def install(answer):
        package, errors = ModuleType("datasets"), ModuleType("datasets.exceptions")
        package.load_dataset = answer
        errors.DatasetsError = DatasetsError
        monkeypatch.setitem(sys.modules, "datasets", package)
        monkeypatch.setitem(sys.modules, "datasets.exceptions", errors)
        return DatasetsError

    return install


@pytest.mark.parametrize(("name", "repository", "_split", "advice"), HUB)
def test_hub_without_network(hub, name, repository, _split, advice):
    def unreachable(path):
        raise ConnectionError(
            f"Couldn't reach {path!r} on the Hub (OfflineModeIsEnabled)\nsecond line"
        )

    hub(unreachable)
    told = "name it with --source"
    match = rf"^{repository}: cannot be downloaded from the Hub \(Couldn't reach .*\); download {advice}.* {told}"
    with pytest.raises(DataError, match=match):
        load_benchmark(name)


def test_hub_says_nothing(hub):
    def silent(_path):
        raise errors

    errors = hub(silent)()
    with pytest.raises(
        DataError, match=r"cannot be downloaded from the Hub \(DatasetsError\); download"
    ):
        load_benchmark("summeval")


@pytest.mark.parametrize(("name", "repository", "_split", "advice"), HUB)
def test_hub_without_datasets(monkeypatch, name, repository, _split, advice):
    monkeypatch.setitem(sys.modules, "datasets", None)
    match = rf"{repository}: .* needs the package datasets; pip install datasets huggingface-hub, or download {advice}"
    with pytest.raises(DataError, match=match):
        load_benchmark(name)


def test_hub_rows(hub):
    row = {
        "episode_id": "e",
        "transcript": "t",
        "summary": "s",
        "system_id": "A1",
        "score": "G",
        "attributes": [],
    }
    hub(lambda _path: {"evaluation": [row]})
    benchmark = load_benchmark("podcast")
    check_benchmark(benchmark)
    assert benchmark.outputs[0].id == "e/A1"
    assert benchmark.revision.startswith("hub:potsawee/podcast_summary_assessment:evaluation@")


def test_hub_form_of_summeval(hub, data):
    lines = (data / "summeval/hub/mteb_summeval.test.jsonl").read_text().splitlines()
    hub(lambda _path: {"test": [json.loads(line) for line in lines]})
    benchmark = load_benchmark("summeval")
    assert [output.system for output in benchmark.outputs[:4]] == [
        "system 1",
        "system 2",
        "system 3",
        "system 4",
    ]
    assert len(benchmark.ratings) == 2 * 4 * 4


def test_hub_splits(hub, tmp_path):
    task = tmp_path / "task.toml"
    task.write_text(
        'task = "open"\n[[dimensions]]\nname = "a"\ndescription = "b"\nlow = 1\nhigh = 2\n'
    )
    row = {"context": "c", "system": "s", "output": "o"}
    hub(lambda _path: {"train": [row], "test": [row, {**row, "system": "t"}]})
    assert len(load_user_table("hub:me/mine:test", task_file=task).outputs) == 2
    match = r"hub:me/mine: it has several splits; use hub:me/mine:SPLIT with one of train, test"
    with pytest.raises(UsageError, match=match):
        load_user_table("hub:me/mine", task_file=task)
    with pytest.raises(
        UsageError, match=r"hub:me/mine: it has no split 'dev'; use .* one of train, test"
    ):
        load_user_table("hub:me/mine:dev", task_file=task)
    hub(lambda _path: {"train": [row]})
    assert len(load_user_table("hub:me/mine", task_file=task).outputs) == 1
    hub(lambda _path: {"train": []})
    with pytest.raises(DataError, match=r"hub:me/mine:train: it has no rows"):
        load_user_table("hub:me/mine", task_file=task)


def test_shipped_sets_take_no_source(tmp_path):
    match = (
        "benchmark 'demo/story' is shipped and takes neither a source nor options; leave them out"
    )
    for arguments, options in (((tmp_path,), {}), ((), {"human": True})):
        with pytest.raises(UsageError, match=match):
            load_benchmark("demo/story", *arguments, **options)
