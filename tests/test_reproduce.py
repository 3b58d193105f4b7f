"""Every recipe of published_data/recipes, and every command of docs/reproduce.md, runs on small data.

A small random model, or `builtin`, which is faster, is in place of each named model: see `judge_for`. What a command
prints is not compared with anything, as these judges know nothing. A method that is skipped fails the test.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from hub_server import hub_for_clients
from json_lines import read_lines

from refladder.files.ladder_sets import load_ladders

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when transformers is imported

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "reproduce.md").read_text("utf-8")
RECIPES = {path.stem: path for path in sorted((ROOT / "published_data" / "recipes").glob("*.toml"))}
DATA = Path(__file__).parent / "loaders" / "data"
SOURCES = {
    "summeval": DATA / "summeval" / "hub",
    "topicalchat": DATA / "topicalchat" / "usr",
    "hanna": DATA / "hanna",
    "newsroom": DATA / "newsroom" / "release",
    "webnlg": DATA / "webnlg",
    "podcast": DATA / "podcast",
}
UNLIKELY = ["--least-mass", "0"]  # the labels of a random model have next to no probability
CHECKPOINT = re.compile(r"\b(bertscore|unieval|questeval|mqag|nli|regressor):\S+")
FEW = 1  # answer to sample where the page samples more


def codes(line):
    """The code in each cell of a row of a table: "" without any, None of a dash."""
    cells = line.strip().strip("|").split("|")
    return [
        None if cell.strip() == "—" else (re.findall("`([^`]+)`", cell) or [""])[0]
        for cell in cells
    ]


def commands(page):
    """The commands of a page, as lists of words. Rows of a table, or its rows and columns, add words to the one above it."""
    lines, above, columns, names = [], [], None, []
    for line in page.splitlines():
        if line.startswith("for name in "):
            names = line.removeprefix("for name in ").partition(";")[0].split()
        elif line.startswith("  refladder "):
            lines += [shlex.split(line.replace("$name", name))[1:] for name in names]
        elif line.startswith("refladder "):
            above = shlex.split(line)[1:]
            lines.append(above)
        elif line.startswith(("| row |", "| judge (")):
            lines = [words for words in lines if words is not above]
            columns = codes(line)[1:] if line.startswith("| judge") else []
        elif not line.startswith("|"):
            columns = None
        elif columns is not None and not line.startswith("|---"):
            first, *cells = codes(line)
            added = [cells[0]]
            if columns:
                pairs = zip(columns, cells, strict=True)
                added = [f"{first} {column}" for column, cell in pairs if cell is not None]
            lines += [[*above, *shlex.split(more)] for more in dict.fromkeys(added)]
    return lines


PUBLISHING = [words for words in commands(PAGE) if "publish" in words]
COMMANDS = [words for words in commands(PAGE) if "publish" not in words]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folders of small random models by what they are for."""
    pytest.importorskip("torch", reason="torch is not installed; pip install torch transformers")
    import tiny_models
    import torch
    from support import small_models

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("models")
    tiny_models.save("llama", folder / "llama")
    settings = folder / "llama" / "generation_config.json"
    ends = {
        **json.loads(settings.read_text()),
        "eos_token_id": [2, *range(100, 125)],
    }  # so that it ends its texts
    settings.write_text(json.dumps(ends))
    t5 = small_models.make_t5(folder / "t5")
    encoder = small_models.make_encoder(folder / "encoder")
    nli = small_models.make_classifier(folder / "nli", ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"])
    regressor = small_models.make_classifier(folder / "regressor", ["LABEL_0"])
    choice = small_models.make_longformer_choice(folder / "choice")
    return {
        "llm": f"hf:{folder / 'llama'}",
        "bertscore": f"bertscore:{encoder}",
        "unieval": f"unieval:{t5}",
        "questeval": f"questeval:{t5}+{t5}",
        "mqag": f"mqag:{t5}+{t5}+{choice}",
        "nli": f"nli:{nli}",
        "regressor": f"regressor:{regressor}",
    }


def judge_for(words, models):
    """The random model for every method on one benchmark, and for what `builtin` cannot do."""
    needed = {"podcast", "gptscore", "build", "--answers"}
    return (
        models["llm"] if needed & {*words} or {"--config", "topicalchat"} <= {*words} else "builtin"
    )


def runnable(words, models):
    """The command with small data and small models in place of those that it names, and fewer answers and questions."""
    judge = judge_for(words, models)

    def small(before, word):
        if before == "--answers":
            return str(min(int(word), FEW))
        if word == "zepo.rewrites=5":
            return f"zepo.rewrites={0 if judge == 'builtin' else 1}"
        if word.startswith("systems="):
            return "systems=adapt,baseline,tilburg-pipe"
        if word.startswith("published_data/"):
            return str(ROOT / word)
        return CHECKPOINT.sub(lambda match: models[match[1]], word)

    named = {"--judge", "--writer"}
    pairs = pairwise(["", *words])
    line = [small(before, word) for before, word in pairs if not {before, word} & named]
    name = next(word for word in words if word in SOURCES)
    line += ["--source", str(SOURCES[name])]
    for method, option in (("mqag", "mqag.questions=1"), ("zepo", "zepo.rounds=1")):
        line += (
            ["--method-option", option] if any(word.startswith(method) for word in words) else []
        )
    line += ["--writer", judge] if "--writer" in words or "build" in words else []
    if "build" in words:
        return [*line, "--max-tokens", "150"]
    return [*line, "--judge", judge, *UNLIKELY, "--format", "json"]


def test_the_page_has_a_command_for_every_recipe():
    assert [
        words[1].removeprefix("published_data/recipes/") for words in COMMANDS if "build" in words
    ] == [
        f"{name}.toml"
        for name in ("summeval", "topicalchat", "hanna", "newsroom", "webnlg", "podcast")
    ]
    assert sorted(SOURCES) == sorted(RECIPES)
    assert len(COMMANDS) > 150


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_the_settings_of_the_paper(name):
    settings = tomllib.loads(RECIPES[name].read_text("utf-8"))
    assert set(settings) == {"build", "publish", "score", "evaluate"}
    assert settings["publish"] == {"without-contexts": True}
    build, score, evaluate = (settings[name] for name in ("build", "score", "evaluate"))
    # arXiv 2509.05440: N = 5 (section 2.1), s = sum i p(better) - i p(worse) (section 2.2), Llama-3 8B (Table 1)
    assert build["rungs"] == evaluate["rungs"] == 5
    assert score["rule"] == evaluate["rule"] == "ladder-sum"
    model = "hf:meta-llama/Meta-Llama-3-8B-Instruct"
    assert build["writer"] == score["judge"] == evaluate["judge"] == model
    assert build.keys() & evaluate.keys() == {"dimension", "rungs", "seed"}
    assert all(build[key] == evaluate[key] for key in ("dimension", "rungs", "seed"))


@pytest.fixture(scope="session")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("workplace")


def test_every_command_runs(command, models, workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    done = {}
    for words in COMMANDS:
        line = runnable(words, models)
        if tuple(line) in done:  # two models of the page are one model here
            continue
        result = done[tuple(line)] = command(*line)
        assert result.code in {0, 3}, (words, result.err)
        if "build" in words:
            assert "0 rungs failed" in result.err, (words, result.err)
            continue
        named = line[line.index("--methods") + 1].split(",") if "--methods" in line else ["ladder"]
        rows = {row["method"] for row in result.rows if "statistic" in row}
        assert rows.issuperset(named), (words, result.err)


def build_once(name, command, models):
    """Build the ladders of a recipe in the current folder, if they are not there."""
    if not Path(f"{name}-ladders").is_dir():
        (build,) = (words for words in COMMANDS if "build" in words and name in words)
        command(*runnable(build, models))


@pytest.mark.parametrize("name", RECIPES)
def test_the_ladders_of_a_recipe_are_published_without_texts_of_contexts(
    name, command, models, workplace, monkeypatch
):
    pytest.importorskip("huggingface_hub")
    monkeypatch.chdir(workplace)
    build_once(name, command, models)
    (words,) = (words for words in PUBLISHING if f"{name}-ladders" in words)
    with hub_for_clients(workplace / "hubs" / name, monkeypatch) as hub:
        words = [str(ROOT / word) if word.startswith("published_data/") else word for word in words]
        done = command(*words)
        assert done.code == 0, done.err
        assert hub.files(f"ORG/{name}-ladders") == [
            *(".gitattributes", "README.md", "data/ladders/00000.parquet", "manifest.json"),
        ]
        built, published = load_ladders(f"{name}-ladders"), load_ladders(done.out.strip())
    assert published.contexts == {}
    assert published.digests == {context.id: context.digest for context in built.contexts.values()}
    assert [ladder.rungs for ladder in published.ladders.values()] == [
        ladder.rungs for ladder in built.ladders.values()
    ]


@pytest.mark.parametrize("name", RECIPES)
def test_a_table_is_scored_on_the_ladders_of_a_recipe(
    name, command, models, workplace, monkeypatch
):
    monkeypatch.chdir(workplace)
    build_once(name, command, models)
    assert command(f"export {name} --source {SOURCES[name]} --out {name}.csv").code == 0
    judge = f"--judge {models['llm']} {' '.join(UNLIKELY)}"
    score = f"score {name}.csv --ladders {name}-ladders --out {name}.jsonl {judge}"
    assert command(f"--config {RECIPES[name]} {score}").code in {0, 3}
    rows = read_lines(f"{name}.jsonl")
    dimensions = tomllib.loads(RECIPES[name].read_text("utf-8"))["build"]["dimension"]
    scores = {key.removesuffix("_score") for key in rows[0] if key.endswith("_score")}
    assert {*dimensions} <= scores <= {*dimensions, "overall", "all_dimensions"}
    assert any(isinstance(row[f"{dimensions[0]}_score"], float) for row in rows)
    stored = json.loads((workplace / f"{name}-ladders" / "run.json").read_text("utf-8"))
    settings = stored["options"]
    assert (settings["rungs"], settings["top_p"], settings["dimension"]) == (5, 1.0, dimensions)
