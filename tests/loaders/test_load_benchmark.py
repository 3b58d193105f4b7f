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
def test_contract_and_gzip(data, tmp_path, name, folder, options):
    source = data / folder
    benchmark = load_benchmark(name, source, **options)
    check_benchmark(benchmark)
    assert benchmark.name == name
    assert benchmark.outputs
    rated = {(rating.output_id, rating.dimension) for rating in benchmark.ratings}
    assert len(rated) == len(benchmark.outputs) * len(benchmark.dimensions)
    for file in [source] if source.is_file() else source.iterdir():
        (tmp_path / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    packed = tmp_path if source.is_dir() else tmp_path / f"{source.name}.gz"
    again = load_benchmark(name, str(packed), **options)
    assert again.outputs == benchmark.outputs
    assert again.ratings == benchmark.ratings
    assert again.revision == benchmark.revision


def test_every_table_entry_is_tried():
    assert {name for name, _, _ in SOURCES} | {"table"} == set(BENCHMARKS)


def test_wrong_names_and_options(data):
    with pytest.raises(UnknownNameError, match=r"'sumeval'; did you mean 'summeval'\? Known"):
        load_benchmark("sumeval")
    message = r"unknown option of benchmark 'hanna' 'humans'; did you mean 'human'\? Known: human"
    with pytest.raises(UnknownNameError, match=message):
        load_benchmark("hanna", data / "hanna", humans=True)
    message = "benchmark 'demo/story' is shipped and takes neither a source nor options; leave them"
    for arguments, options in (((data,), {}), ((), {"human": True})):
        with pytest.raises(UsageError, match=message):
            load_benchmark("demo/story", *arguments, **options)


@pytest.mark.parametrize(
    ("name", "copy"),
    [
        ("topicalchat", r"http://shikib\.com/tc_usr_data\.json "),
        ("newsroom", r"newsroom-human-eval\.csv .*lil-lab/newsroom"),
        ("webnlg", r".*gitlab\.com/webnlg/webnlg-human-evaluation "),
    ],
)
def test_no_public_home_to_fetch(name, copy):
    message = f"{name}: there is no copy on the Hub to fetch; download {copy}.*--source PATH"
    with pytest.raises(DataError, match=message):
        load_benchmark(name)


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


@pytest.mark.parametrize(
    ("name", "repository", "advice"),
    [
        ("summeval", "mteb/summeval", r"model_annotations\.aligned\.paired\.jsonl .*/SummEval"),
        ("hanna", "llm-aes/hanna", r"hanna_stories_annotations\.csv .*/hanna-benchmark-asg"),
        ("podcast", "potsawee/podcast_summary_assessment", r"podcast_summary_assessment\.json "),
    ],
)
def test_the_hub_cannot_be_asked(hub, monkeypatch, name, repository, advice):
    def unreachable(path):
        raise ConnectionError(f"Couldn't reach {path!r} (OfflineModeIsEnabled)\nsecond line")

    def silent(_path):
        raise errors

    errors = hub(silent)()
    for answer, reason in ((unreachable, "Couldn't reach .*"), (silent, "DatasetsError")):
        hub(answer)
        message = (
            rf"^{repository}: cannot be downloaded from the Hub \({reason}\); download {advice}"
        )
        with pytest.raises(DataError, match=f"{message}.* and name it with --source PATH"):
            load_benchmark(name)
    monkeypatch.setitem(sys.modules, "datasets", None)
    message = (
        f"{repository}: .* needs the package datasets; pip install datasets huggingface-hub, or"
    )
    with pytest.raises(DataError, match=f"{message} download {advice}"):
        load_benchmark(name)


def test_hub_rows(hub, data):
    row = {"episode_id": "e", "transcript": "t", "summary": "s", "system_id": "A1", "score": "G"}
    hub(lambda _path: {"evaluation": [row]})
    podcast = load_benchmark("podcast")
    check_benchmark(podcast)
    assert podcast.outputs[0].id == "e/A1"
    assert podcast.revision.startswith("hub:potsawee/podcast_summary_assessment:evaluation@")
    lines = (data / "summeval/hub/mteb_summeval.test.jsonl").read_text().splitlines()
    hub(lambda _path: {"test": [json.loads(line) for line in lines]})
    summeval = load_benchmark("summeval")
    systems = [output.system for output in summeval.outputs[:4]]
    assert systems == ["system 1", "system 2", "system 3", "system 4"]
    assert len(summeval.ratings) == 2 * 4 * 4


def test_hub_splits(hub, data):
    def load(name):
        return load_user_table(name, task_file=data / "own/task.toml")

    row = {"context": "c", "system": "s", "output": "o"}
    hub(lambda _path: {"train": [row], "test": [row, {**row, "system": "t"}]})
    assert len(load("hub:me/mine:test").outputs) == 2
    message = "hub:me/mine: it has several splits; use hub:me/mine:SPLIT with one of train, test"
    with pytest.raises(UsageError, match=message):
        load("hub:me/mine")
    with pytest.raises(UsageError, match=r"it has no split 'dev'; use .* one of train, test"):
        load("hub:me/mine:dev")
    hub(lambda _path: {"train": [row]})
    assert len(load("hub:me/mine").outputs) == 1
    hub(lambda _path: {"train": []})
    with pytest.raises(DataError, match=r"hub:me/mine:train: it has no rows"):
        load("hub:me/mine")
