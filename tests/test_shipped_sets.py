"""The shipped sets for any text, and those of benchmarks: what their cards promise, and that they never change."""

from __future__ import annotations

import functools
import gzip
import hashlib
import itertools
import json
import re
import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

import refladder
from refladder.files.certificate import CERTIFICATE
from refladder.files.ladder_sets import find_folder, load_ladders, published_names
from refladder.loaders import BENCHMARKS, load_benchmark
from refladder.methods.ladder import ladders_for

# Name to digest of the files that scores depend on. A shipped set never changes: better texts are a set of a new name.
# A new set has a line here, with the digest that the test prints.
DIGESTS = {
    "general/document": "f3c418d6d434ef1d",
    "general/grounded": "c50a36e63a51d309",
    "general/reply": "dfffbcb054345aed",
    "general/reply-de": "9f532d21041aeb26",
    "general/story": "4ad70ae868d2f0bd",
    "general/summary": "85a32caa696c1e79",
}
FILES = ("dimensions.jsonl", "contexts.jsonl", "ladders.jsonl", "set.json")
# Sets of benchmarks have digests of their contexts instead of the texts.
OF_A_BENCHMARK = ("dimensions.jsonl", "context_digests.jsonl", "ladders.jsonl", "set.json")
DIGESTS_OF_BENCHMARKS = {
    "hanna": "55edbdef820a5921",
    "newsroom": "d1be65cd21b24a59",
    "summeval": "f047b864ba5dfbdf",
    "topicalchat": "c9c8d656d50c1349",
    "webnlg": "5a61fb2d6369807e",
}
# Keys of set.json that no score depends on.
ABOUT = ("licence", "version", "language", "replaced_by")
SERVES = {
    "general/reply": {"dialogue", "open"},
    "general/reply-de": {"dialogue", "open"},
    "general/grounded": {"open"},
    "general/summary": {"summarization"},
    "general/story": {"story"},
    "general/document": {"document"},
}
# Sets with another number of criteria than four.
CRITERIA = {"general/grounded": 3, "general/reply-de": 2}
GENERAL = [name for name in published_names() if name.startswith("general/")]
OF_BENCHMARKS = [name for name in published_names() if name in BENCHMARKS]
DATA = Path(__file__).parents[2] / "shared" / "data"
READINGS = Path(__file__).parents[1] / "bench" / "readings"
SOURCES = {
    "summeval": "summeval", "topicalchat": "topicalchat_usr", "hanna": "hanna", "newsroom": "newsroom",
    "webnlg": "webnlg2017/all_data_final_averaged.csv.gz",
}  # fmt: skip
LEAST_RUN = 8  # words in a row that no benchmark has
MOST_SHARED = 0.2  # of the sequences of four words of two rungs


def content_of(path):
    """The bytes of a file; of set.json, the keys that scores depend on."""
    if path.name != "set.json":
        return path.read_bytes()
    keys = {key: value for key, value in json.loads(path.read_bytes()).items() if key not in ABOUT}
    return json.dumps(keys, separators=(",", ":")).encode() + b"\n"


def digest_of(folder, names=FILES):
    """Sixteen hexadecimal digits of SHA-256 over the files, each with its name and length."""
    state = hashlib.sha256()
    for name in names:
        content = content_of(folder / name)
        state.update(f"{name} {len(content)}\n".encode() + content)
    return state.hexdigest()[:16]


def words(text):
    return re.findall(r"\w+", text.casefold())


def runs(text, size):
    """The sequences of so many words of a text."""
    found = words(text)
    return {tuple(found[start : start + size]) for start in range(len(found) - size + 1)}


def shared_share(one, other):
    """The share of the 4-grams of the shorter text that the other one has too; 0 without any."""
    first, second = runs(one, 4), runs(other, 4)
    fewer = min(len(first), len(second))
    return len(first & second) / fewer if fewer else 0.0


def texts_of(opened):
    contexts = [
        text for context in opened.contexts.values() for text in (context.text, context.background)
    ]
    return contexts + [rung.text for ladder in opened.ladders.values() for rung in ladder.rungs]


@functools.cache
def benchmark(name):
    return load_benchmark(name, DATA / SOURCES[name])


def test_the_measures_by_hand():
    # a b c d e has the 4-grams abcd and bcde; x a b c d has xabc and abcd: one of two.
    assert shared_share("A b c d e.", "x a b, c d") == 0.5
    assert shared_share("a b c", "a b c") == 0.0
    assert runs("One two three", 2) == {("one", "two"), ("two", "three")}


def test_the_digest_is_of_every_byte_of_the_files_but_of_keys_that_scores_do_not_depend_on(
    tmp_path,
):
    for name in FILES:
        (tmp_path / name).write_text('"a"\n')
    about = tmp_path / "set.json"
    about.write_text('{"anchors":["a"],"seed":0,"serves":[],"scoring":3}\n')
    before = digest_of(tmp_path)
    for name in FILES[:-1]:
        (tmp_path / name).write_text('"b"\n')
        assert digest_of(tmp_path) != before
        (tmp_path / name).write_text('"a"\n')
    keys = json.loads(about.read_text())
    for name, changes in (
        ("anchors", True),
        ("seed", True),
        ("serves", True),
        ("scoring", True),
        *((key, False) for key in ABOUT),
    ):
        about.write_text(json.dumps(keys | {name: "other"}))
        assert (digest_of(tmp_path) != before) == changes
    about.write_text(json.dumps(keys))
    assert digest_of(tmp_path) == before


def test_every_general_set_is_the_one_that_was_shipped():
    assert {name: digest_of(find_folder(name)) for name in GENERAL} == DIGESTS


def test_every_set_of_a_benchmark_is_the_one_that_was_shipped():
    found = {name: digest_of(find_folder(name), OF_A_BENCHMARK) for name in OF_BENCHMARKS}
    assert found == DIGESTS_OF_BENCHMARKS


@pytest.mark.parametrize("name", [*GENERAL, *OF_BENCHMARKS])
def test_a_set_says_its_licence_version_and_language(name):
    about = json.loads((find_folder(name) / "set.json").read_bytes())
    assert about["licence"] == "CC0-1.0"
    assert re.fullmatch(r"\d+", about["version"])
    assert (
        load_ladders(name).language == about["language"] == ("de" if name.endswith("-de") else "en")
    )


@pytest.mark.parametrize("name", OF_BENCHMARKS)
def test_the_card_of_a_benchmark_set_has_its_digest_licence_and_version(name):
    card = (find_folder(name) / "README.md").read_text("utf-8")
    about = json.loads((find_folder(name) / "set.json").read_bytes())
    line = f"The digest of its ladders, which scores name in their signature, is `{load_ladders(name).digest}`"
    assert (
        f"{line}; the version is {about['version']} and the licence {about['licence']}."
        in " ".join(card.split())
    )


@pytest.mark.parametrize("name", GENERAL)
def test_a_general_set_has_anchors_of_five_rungs_on_each_criterion(name):
    opened = load_ladders(name)
    criteria = CRITERIA.get(name, 4)
    assert (len(opened.anchors), opened.rungs, len(opened.dimensions)) == (12, 5, criteria)
    assert len(opened.scoring_anchors) == 3
    assert len(opened.ladders) == 12 * criteria
    assert not opened.failures
    assert set(opened.tasks) == SERVES[name]
    rungs = {rung.text for ladder in opened.ladders.values() for rung in ladder.rungs}
    assert len(rungs) == 12 * criteria * 5
    if name == "general/grounded":
        assert all(context.background for context in opened.contexts.values())


@pytest.mark.parametrize("name", GENERAL)
def test_length_and_surface_tell_little_of_the_levels(name):
    certificate = load_ladders(name).certificate
    assert certificate.verdict == "pass"
    assert not certificate.judge.fingerprint.startswith("builtin")
    for dimension in certificate.dimensions:
        assert dimension.length_deviation <= 0.15
        assert dimension.surface_accuracy <= 36 / 48


@pytest.mark.parametrize("name", GENERAL)
def test_the_judgments_beside_a_certificate_give_it_again(name, tmp_path):
    shipped = find_folder(name)
    for file in FILES:
        shutil.copy(shipped / file, tmp_path)
    refladder.certify(tmp_path, judgments_from=shipped / "certificate.judgments.jsonl.gz")
    assert (tmp_path / CERTIFICATE).read_bytes() == (shipped / CERTIFICATE).read_bytes()


@pytest.mark.parametrize("name", GENERAL)
def test_two_rungs_of_a_ladder_have_other_words(name):
    opened = load_ladders(name)
    too_near = {
        (ladder.context_id, ladder.dimension, one.level, other.level): share
        for ladder in opened.ladders.values()
        for one, other in itertools.combinations(ladder.rungs, 2)
        if (share := shared_share(one.text, other.text)) >= MOST_SHARED
    }
    assert not too_near


@pytest.mark.parametrize("name", GENERAL)
def test_the_card_has_the_licence_and_the_first_rungs(name):
    card = (find_folder(name) / "README.md").read_text("utf-8")
    assert re.search(r"^license: cc0-1\.0$", card, re.MULTILINE)
    first = [rung.text for ladder in load_ladders(name).ladders.values() for rung in ladder.rungs][
        :10
    ]
    shown = " ".join(words(card))
    assert [text for text in first if " ".join(words(text)) not in shown] == []


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.skipif(not GENERAL, reason="no general sets yet")
def test_no_general_set_has_eight_words_in_a_row_of_a_benchmark(source):
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent: the benchmark files are not in the repository")
    shipped = {
        run: name
        for name in GENERAL
        for text in texts_of(load_ladders(name))
        for run in runs(text, LEAST_RUN)
    }
    found = benchmark(source)
    texts = {
        text for each in found.contexts for text in (each.text, each.background, *each.references)
    }
    texts |= {output.text for output in found.outputs}
    assert {
        (name, run) for text in texts for run in runs(text, LEAST_RUN) if (name := shipped.get(run))
    } == set()


@pytest.mark.parametrize("name", OF_BENCHMARKS)
def test_a_set_of_a_benchmark_has_its_digests_and_not_its_texts(name):
    opened = load_ladders(name)
    assert not opened.contexts
    assert not (find_folder(name) / "contexts.jsonl").exists()
    assert {context_id for context_id, _ in opened.ladders} <= opened.digests.keys()
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent: the benchmark files are not in the repository")
    names = {dimension.name for dimension in opened.dimensions}
    assert names <= {dimension.name for dimension in benchmark(name).dimensions}
    whole = ladders_for(benchmark(name), opened.dimensions, opened)  # which compares the digests
    assert {context_id for context_id, _ in opened.ladders} <= whole.contexts.keys()


@pytest.mark.parametrize("name", published_names())
def test_the_card_says_on_how_many_ladders_length_alone_is_right(name):
    counts = []
    opened = load_ladders(name)
    for dimension in opened.dimensions:
        ends = [
            (len(ladder.rungs[0].text), len(ladder.rungs[-1].text))
            for ladder in opened.ladders.values()
            if ladder.dimension == dimension.name
        ]
        right = max(sum(worst < best for worst, best in ends), sum(worst > best for worst, best in ends))  # fmt: skip
        counts.append(f"{dimension.name} {right} of {len(ends)}")
    folder = find_folder(name)
    if name.startswith("demo/"):
        folder, counts[-1] = folder.parent, f"{counts[-1]} (`{name}`)"
    card = " ".join((folder / "README.md").read_text("utf-8").split())
    rule = "A rule of length alone (characters) distinguishes the best rung from the worst on: "
    assert ", ".join(counts) in card.partition(rule)[2].partition(". ")[0]


@pytest.mark.parametrize("name", OF_BENCHMARKS)
def test_the_card_of_a_benchmark_set_has_words_by_level_for_each_criterion(name):
    card = (find_folder(name) / "README.md").read_text("utf-8")
    opened = load_ladders(name)
    for dimension in opened.dimensions:
        lengths = [
            [len(rung.text.split()) for rung in ladder.rungs]
            for ladder in opened.ladders.values()
            if ladder.dimension == dimension.name
        ]
        means = [sum(column) / len(column) for column in zip(*lengths, strict=True)]
        middle = sum(means) / len(means)
        deviation = max(abs(mean / middle - 1) for mean in means)
        row = " | ".join(f"{mean:.0f}" for mean in means)
        assert f"| {dimension.name} | {row} | {100 * deviation:.0f} % |" in card


def test_the_card_in_german_has_the_figures_of_its_readings(capsys):
    runpy.run_path(
        str(Path(__file__).parents[1] / "bench" / "sets" / "languages.py"), run_name="__main__"
    )
    assert capsys.readouterr().out in (find_folder("general/reply-de") / "README.md").read_text(
        "utf-8"
    )


@pytest.fixture(scope="module")
def cards():
    return runpy.run_path(str(Path(__file__).parents[1] / "bench" / "sets" / "cards.py"))


@pytest.mark.parametrize("name", [*GENERAL, *OF_BENCHMARKS])
def test_a_card_says_what_the_data_say(name, cards):
    """Another file, or other readings, need `python bench/sets/cards.py`."""
    assert cards["card_of"](name) == (find_folder(name) / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["grounded", "summary", "reply", "document", "story"])
def test_the_cards_say_where_the_placed_texts_are(name):
    card = (find_folder(f"general/{name}") / "README.md").read_text("utf-8")
    wins = {}
    for path in READINGS.glob(f"placed-{name}-*.jsonl.gz"):
        for judgment in map(json.loads, gzip.decompress(path.read_bytes()).splitlines()[1:]):
            level = int(judgment["against"].removeprefix("rung:").partition("@")[0])
            [percent] = judgment["stated"]
            texts = wins.setdefault((judgment["dimension"], level), {})
            texts.setdefault(judgment["subject"], []).append(percent)
    limits = (READINGS.parents[1] / "docs/explanation/limits.md").read_text("utf-8")
    assert f"`general/{name}`" in limits.partition("48 plain and careless texts")[0]
    _, _, said = " ".join(limits.split()).partition("texts beat the top rung (")
    cells = []
    for dimension in load_ladders(f"general/{name}").dimensions:
        top, bottom = ([sum(each) / len(each) for each in wins[dimension.name, level].values()] for level in (5, 1))  # fmt: skip
        assert len(top) == len(bottom) == 48
        above = sum(mean > 50 for mean in top)
        cells.append(f"{above} and {sum(mean < 50 for mean in bottom)} of 48")
        more = f"{dimension.name} {above}" in said.partition(" of 48)")[0].split(", ")
        assert more is (above / 48 > 0.15)
    assert f"| above level 5 and below level 1 | {' | '.join(cells)} |" in card


def test_texts_are_not_placed_on_rungs_that_were_not_shown(cards):
    opened = load_ladders("general/reply")
    clarity = opened.dimensions[1]
    assert len(cards["placed_on"](opened, clarity)) == 48
    key = opened.anchors[0], clarity.name
    rungs = (
        replace(opened.ladders[key].rungs[0], text="Other words."),
        *opened.ladders[key].rungs[1:],
    )
    other = opened.ladders | {key: replace(opened.ladders[key], rungs=rungs)}
    assert cards["placed_on"](replace(opened, ladders=other), clarity) == {}


READ_AGAIN = {
    "document": ["educational value", "information", "neutrality", "writing quality"],
    "grounded": ["completeness"],
    "story": ["coherence", "complexity", "engagement", "surprise"],
    "summary": ["coherence", "relevance"],
}


@pytest.mark.parametrize("name", READ_AGAIN)
def test_the_cards_say_how_well_a_second_reader_agrees(name):
    folder = find_folder(f"general/{name}")
    kept = gzip.decompress((folder / "certificate.judgments.jsonl.gz").read_bytes())
    first = {}
    for judgment in map(json.loads, kept.splitlines()[1:]):
        first[judgment["dimension"], judgment["subject"], judgment["against"]] = judgment["stated"]
    pairs = {}
    for row in map(json.loads, (READINGS / "certificates-again.jsonl").read_text().splitlines()):
        if row["set"] == f"general/{name}":
            [one] = first[row["dimension"], row["subject"], row["against"]]
            pairs.setdefault(row["dimension"], []).append((one, row["percent"]))
    assert list(pairs) == READ_AGAIN[name]
    assert {len(each) for each in pairs.values()} == {280}
    every = [pair for each in pairs.values() for pair in each]
    card = (folder / "README.md").read_text("utf-8")
    about = (READINGS.parent / "sets" / "README.md").read_text("utf-8")
    for criterion, each, text in [
        *((criterion, each, card) for criterion, each in pairs.items()),
        *([("all", every, card)] if len(pairs) > 1 else []),
        (f"`{name}`", every, about),
    ]:
        one, two = np.array(each).T
        mean, square = np.mean(abs(one - two)), np.sqrt(np.mean((one - two) ** 2))
        cells = f"{spearmanr(one, two).statistic:.3f} | {mean:.1f} | {square:.1f}"
        same = sum((a > 50) == (b > 50) for a, b in each)
        assert f"| {criterion} | {cells} | {same} of {len(each)} |" in text


def test_the_page_says_whose_certificates_are_shipped_and_which_pass():
    page = (Path(__file__).parents[1] / "docs/how-to/certify.md").read_text("utf-8")
    table = page.partition("| set | judge | verdict |")[2].partition("\n\n")[0]
    said = {
        name: tuple(cell.strip() for cell in cells)
        for names, *cells in (line.strip("|").split("|") for line in table.splitlines()[2:])
        for name in re.findall("`([^`]+)`", names)
    }
    judges = {"builtin": "`builtin`", "openai": "the large language model that wrote them"}
    shipped = {}
    for name in published_names():
        path = find_folder(name) / "certificate.json"
        found = ("none", "")
        if path.exists():
            record = json.loads(path.read_text("utf-8"))
            found = (judges[re.split("[:/]", record["judge"]["fingerprint"])[0]], record["verdict"])
        row = "general/..." if name.startswith("general/") else name
        assert shipped.setdefault(row, found) == found
    assert said == shipped
