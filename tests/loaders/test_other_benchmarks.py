"""Topical-Chat, HANNA, NewsRoom, WebNLG and Podcast, each with its traps."""

from __future__ import annotations

import shutil

import pytest

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.loaders import load_benchmark

USR = "topicalchat/usr/tc_usr_data.json"
HANNA = "hanna/hanna_stories_annotations.csv"
NEWSROOM = "newsroom/release/newsroom-human-eval.csv"
WEBNLG = "webnlg/all_data_final_averaged.csv"
PODCAST = "podcast/podcast_summary_assessment.json"


def texts_of(benchmark):
    return {output.id: output.text for output in benchmark.outputs}


def systems_of(benchmark):
    return sorted({output.system for output in benchmark.outputs})


def test_topicalchat_release(data, ratings):
    benchmark = load_benchmark("topicalchat", data / "topicalchat/usr")
    first, second = benchmark.contexts
    assert first.task == "dialogue"
    assert first.text == "do you like the sea ? \n yes , i sail every summer ."
    assert first.background == "sailors call the left side port ."
    assert second.background == ""  # `_nofact`
    assert {d.name: (d.low, d.high) for d in benchmark.dimensions} == {
        "understandability": (0, 1),
        "naturalness": (1, 3),
        "coherence": (1, 3),
        "engagingness": (1, 3),
        "groundedness": (0, 1),
        "overall": (1, 5),
    }
    # Maintains Context [3, 2, 3] by annotators ab, cd, ef
    rated = ratings(benchmark, f"{first.id}/Original Ground Truth", "coherence")
    assert rated == {"ab": 3, "cd": 2, "ef": 3}
    # Two systems have one text.
    for system in ("Original Ground Truth", "Nucleus Decoding (p = 0.3)"):
        assert texts_of(benchmark)[f"{second.id}/{system}"] == "it opened on sunday ."


def test_topicalchat_forms_agree(data, means):
    release = load_benchmark("topicalchat", data / "topicalchat/usr")
    flat = load_benchmark("topicalchat", data / "topicalchat/unieval")
    assert flat.contexts == release.contexts
    assert flat.outputs == release.outputs
    assert means(flat) == pytest.approx(means(release), abs=1e-10)


def test_hanna(data, ratings):
    benchmark = load_benchmark("hanna", data / "hanna")
    assert systems_of(benchmark) == ["CTRL", "GPT-2"]
    first = benchmark.contexts[0]
    assert first.text == 'A lighthouse keeper finds a door\nthat was not there "yesterday".'
    assert first.references == ("The keeper knocked first. Someone knocked back.",)
    # Story ID 2, three rows: Relevance 4, 3, 3
    rated = ratings(benchmark, f"{first.id}/GPT-2", "relevance")
    assert rated == {"rater 1": 4, "rater 2": 3, "rater 3": 3}
    names = [dimension.name for dimension in benchmark.dimensions]
    assert names == ["relevance", "coherence", "empathy", "surprise", "engagement", "complexity"]


def test_options_of_hanna_and_webnlg(data):
    human = load_benchmark("hanna", data / "hanna", human=True)
    systems = ["Human", "Human", "GPT-2", "GPT-2", "CTRL", "CTRL"]
    assert [output.system for output in human.outputs] == systems
    with pytest.raises(UsageError, match="hanna: option human must be true or false, found 'no'"):
        load_benchmark("hanna", data / "hanna", human="no")
    with pytest.raises(UnknownNameError, match="WebNLG system 'vietnan'; did you mean 'vietnam'"):
        load_benchmark("webnlg", data / "webnlg", systems=("vietnan",))


def test_hanna_of_the_hub_and_with_names_of_workers(data, edited, ratings):
    plain = load_benchmark("hanna", data / "hanna")
    assert load_benchmark("hanna", edited(HANNA, "Story ID,", "Story_ID,")).outputs == plain.outputs
    path = edited(HANNA, "", "")
    path.write_text(path.read_text().replace(",,,,\n", ",W1,,,\n"))
    benchmark = load_benchmark("hanna", path)
    workers = list(ratings(benchmark, benchmark.outputs[0].id, "relevance"))
    assert workers == ["W1", "W1 (2)", "W1 (3)"]


def test_newsroom_release(data, ratings):
    benchmark = load_benchmark("newsroom", data / "newsroom/release")
    assert [context.id for context in benchmark.contexts] == ["12", "7"]
    assert benchmark.contexts[0].text == (
        'The mayor said "no" to the plan.\nThe council\'s vote is on Friday & open to all.'
    )
    texts = texts_of(benchmark)
    assert texts["12/textrank"] == "<UNK> vote on Friday"
    assert texts["12/abstractive"] == texts["12/pointer_c"] == "Mayor & council split"
    # abstractive stands third: 3 for all, and rater k has one more on dimension k
    rated = ratings(benchmark, "12/abstractive", "coherence")
    assert rated == {"rater 1": 4, "rater 2": 3, "rater 3": 3}


def test_newsroom_forms_agree(data, rated_texts):
    release = load_benchmark("newsroom", data / "newsroom/release")
    flat = load_benchmark("newsroom", data / "newsroom/flat")
    assert rated_texts(flat) == rated_texts(release)
    assert flat.contexts == release.contexts
    assert systems_of(flat) == [f"system {place}" for place in range(1, 8)]


def test_webnlg_prefers_single_judgments(data, ratings):
    benchmark = load_benchmark("webnlg", data / "webnlg")
    assert systems_of(benchmark) == ["adapt", "baseline", "tilburg-pipe", "vietnam"]
    first, second = benchmark.contexts
    assert first.text == "Elm_Bridge | crosses | River_Wen"
    triples = ["Ada_Lund | birthPlace | Wenford", 'Ada_Lund | occupation | "Pilot, "retired""']
    assert second.text.split("\n") == triples
    over, under = "elm bridge goes over the wen .", "the wen is crossed by elm bridge ."
    assert first.references == (over, under)
    assert second.references == ("ada lund is a retired pilot from wenford .",)
    # one judgment; four judgments; a judge who judged twice
    assert ratings(benchmark, f"{second.id}/adapt", "semantics") == {"101": 2}
    four = {"101": 1, "102": 1, "105": 1, "106": 2}
    assert ratings(benchmark, f"{second.id}/baseline", "fluency") == four
    twice = {"104": 1, "104 (2)": 1, "105": 2}
    assert ratings(benchmark, f"{second.id}/vietnam", "fluency") == twice


def test_webnlg_texts(data):
    systems = ("vietnam", "tilburg-pipe", "webnlg")
    benchmark = load_benchmark("webnlg", data / "webnlg", systems=systems)
    assert sorted(texts_of(benchmark).values()) == [
        "",  # `null`, twice
        "",
        "",  # empty in the file
        "ada lund , a retired pilot , was born in wenford .",  # without the newline it ends in
        "the elm bridge crosses the river wen .",
        "the elm bridge crosses the wen.",
    ]
    assert systems_of(benchmark) == sorted(systems)


def test_webnlg_forms_agree(data, means, edited):
    single = load_benchmark("webnlg", data / "webnlg")
    averaged = load_benchmark("webnlg", data / WEBNLG)
    assert means(single) == means(averaged)
    alone = load_benchmark("webnlg", edited(WEBNLG, "", "").parent)
    assert alone.outputs == averaged.outputs
    assert {context.references for context in alone.contexts} == {()}
    assert {rating.rater for rating in alone.ratings} == {"mean"}


def test_webnlg_references_of_another_length(data, tmp_path):
    for file in (data / "webnlg").iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "gold-sample-reference1.lex").write_text("only one\n")
    message = (
        r"reference1\.lex:2: 1 lines, but .*MRs\.txt has 2; line k of both must belong together"
    )
    with pytest.raises(DataError, match=message):
        load_benchmark("webnlg", tmp_path)


def test_podcast(data, ratings):
    benchmark = load_benchmark("podcast", data / "podcast")
    text = "Welcome back. Today we talk about bread, and why it rises."
    assert benchmark.contexts[0].text == text
    assert [(d.name, d.low, d.high) for d in benchmark.dimensions] == [("overall", 0, 3)]
    assert [rating.value for rating in benchmark.ratings] == [3, 0, 2, 1, 0, 2]  # E B G F B G
    assert ratings(benchmark, "ep1/R1", "overall") == {"assessor": 3}


PERSONACHAT = "this is USR's PersonaChat file, which has the same field names, not Topical-Chat; do"


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("topicalchat/personachat/topicalchat_usr.json", "", "", f"'KV-MemNN': {PERSONACHAT}"),
        (
            "topicalchat/unieval/topical_chat.json",
            "Original Ground Truth",
            "Seq2Seq",
            f"item 1: a response of 'Seq2Seq': {PERSONACHAT}",
        ),
        (USR, '"Natural": [', '"Natural": [1, ', "item 1: response 1: column 'Natural': expec"),
        # The first story of GPT-2 starts at line 11: header, three records of 2 lines, three of 1.
        (HANNA, "The door was red.,GPT-2,4,", "Red.,GPT-2,,", ":11: column 'Relevance': expected"),
        (HANNA, ",Relevance,", ",Relevence,", ":11: .* 'Relevance'; did you mean 'Relevence'"),
        (HANNA, "5,You can hear", "9,You can hear", "'CTRL' has a second story for this prompt, 5"),
        (NEWSROOM, "no plan no plan", "a plan", "'12/pointer_s' already .* with a different text;"),
        (PODCAST, '"F"', '"P"', r"item 4: column 'score': expected one of B, F, G, E, found 'P'$"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(edited, file, old, new, message):
    with pytest.raises(DataError, match=message):
        load_benchmark(file.partition("/")[0], edited(file, old, new))


@pytest.mark.parametrize(
    ("file", "row", "message"),
    [
        (HANNA, -1, "CTRL' has more than 3 ratings, but the benchmark has 3 raters; remove"),
        (WEBNLG, 1, r"/adapt' already appears at .*averaged\.csv:2; keep one of them"),
    ],
)
def test_a_repeated_row_is_refused(edited, file, row, message):
    path = edited(file, "", "")
    text = path.read_text()
    path.write_text(f"{text}{text.splitlines()[row]}\n")
    with pytest.raises(DataError, match=message):
        load_benchmark(file.partition("/")[0], path)
