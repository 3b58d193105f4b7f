"""Topical-Chat, HANNA, NewsRoom, WebNLG and Podcast, each with its traps."""

from __future__ import annotations

import json
import shutil

import pytest

from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.loaders import load_benchmark


def texts_of(benchmark):
    return {output.id: output.text for output in benchmark.outputs}


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
    output_id = f"{first.id}/Original Ground Truth"
    assert ratings(benchmark, output_id, "coherence") == {"ab": 3, "cd": 2, "ef": 3}
    # two systems with one text
    assert texts_of(benchmark)[f"{second.id}/Original Ground Truth"] == "it opened on sunday ."
    assert texts_of(benchmark)[f"{second.id}/Nucleus Decoding (p = 0.3)"] == "it opened on sunday ."


def test_topicalchat_forms_agree(data, means):
    release = load_benchmark("topicalchat", data / "topicalchat/usr")
    flat = load_benchmark("topicalchat", data / "topicalchat/unieval")
    assert flat.contexts == release.contexts
    assert flat.outputs == release.outputs
    assert means(flat) == pytest.approx(means(release), abs=1e-10)


def test_topicalchat_refuses_personachat(data, tmp_path):
    match = r"item 1: response 2: a response of 'KV-MemNN': this is USR's PersonaChat file, .* not Topical-Chat; download"
    path = data / "topicalchat/personachat/topicalchat_usr.json"
    with pytest.raises(DataError, match=match):
        load_benchmark("topicalchat", path)
    items = [
        {"source": "a", "system_id": "Seq2Seq", "system_output": "b", "context": "c", "scores": {}}
    ]
    (tmp_path / "flat.json").write_text(json.dumps(items))
    with pytest.raises(
        DataError,
        match=r"flat\.json: item 1: a response of 'Seq2Seq': this is USR's PersonaChat file",
    ):
        load_benchmark("topicalchat", tmp_path / "flat.json")


def test_topicalchat_rater_lists(data, tmp_path):
    items = json.loads((data / "topicalchat/usr/tc_usr_data.json").read_text())
    items[1]["responses"][0]["Natural"].pop()
    (tmp_path / "usr.json").write_text(json.dumps(items))
    with pytest.raises(
        DataError,
        match=r"usr\.json: item 2: response 1: column 'Natural': expected 3 items, found 2",
    ):
        load_benchmark("topicalchat", tmp_path / "usr.json")


def test_hanna(data, ratings):
    benchmark = load_benchmark("hanna", data / "hanna")
    assert {output.system for output in benchmark.outputs} == {"GPT-2", "CTRL"}
    first = benchmark.contexts[0]
    assert first.text == 'A lighthouse keeper finds a door\nthat was not there "yesterday".'
    assert first.references == ("The keeper knocked first. Someone knocked back.",)
    # Story ID 2, three rows: Relevance 4, 3, 3
    assert ratings(benchmark, f"{first.id}/GPT-2", "relevance") == {
        "rater 1": 4,
        "rater 2": 3,
        "rater 3": 3,
    }
    assert [dimension.name for dimension in benchmark.dimensions] == [
        "relevance",
        "coherence",
        "empathy",
        "surprise",
        "engagement",
        "complexity",
    ]


def test_hanna_with_the_human_stories(data):
    benchmark = load_benchmark("hanna", data / "hanna", human=True)
    assert [output.system for output in benchmark.outputs] == [
        "Human",
        "Human",
        "GPT-2",
        "GPT-2",
        "CTRL",
        "CTRL",
    ]


def test_hanna_takes_no_other_word_for_its_option(data):
    with pytest.raises(UsageError, match="hanna: option human must be true or false, found 'no'"):
        load_benchmark("hanna", data / "hanna", human="no")


def hanna_csv(data, tmp_path, before, after):
    text = (data / "hanna/hanna_stories_annotations.csv").read_text()
    assert before in text
    path = tmp_path / "hanna.csv"
    path.write_text(text.replace(before, after))
    return path


def test_hanna_of_the_hub(data, tmp_path):
    path = hanna_csv(data, tmp_path, "Story ID,", "Story_ID,")
    assert load_benchmark("hanna", path).outputs == load_benchmark("hanna", data / "hanna").outputs


def test_hanna_worker_names(data, tmp_path, ratings):
    path = hanna_csv(data, tmp_path, ",,,,\n", ",W1,,,\n")
    benchmark = load_benchmark("hanna", path)
    assert list(ratings(benchmark, benchmark.outputs[0].id, "relevance")) == [
        "W1",
        "W1 (2)",
        "W1 (3)",
    ]


def test_hanna_row_repeated(data, tmp_path):
    path = tmp_path / "hanna.csv"
    text = (data / "hanna/hanna_stories_annotations.csv").read_text()
    last = text.splitlines()[-1]
    path.write_text(f"{text}{last}\n")
    with pytest.raises(
        DataError,
        match=r"CTRL' has more than 3 ratings, but the benchmark has 3 raters; remove repeated",
    ):
        load_benchmark("hanna", path)


def test_hanna_second_story(data, tmp_path):
    text = (data / "hanna/hanna_stories_annotations.csv").read_text()
    path = tmp_path / "hanna.csv"
    path.write_text(text.replace("5,You can hear", "9,You can hear", 1))
    match = r"hanna\.csv:\d+: 'CTRL' has a second story for this prompt, 5 after 9; each system must have one"
    with pytest.raises(DataError, match=match):
        load_benchmark("hanna", path)


def test_hanna_bad_rating_says_the_line_where_the_record_starts(data, tmp_path):
    # line 1 header; six records of the human stories: three of 2 lines, three of 1; so Story 2 starts at line 11
    path = hanna_csv(data, tmp_path, "The door was red. The door was red.,GPT-2,4,", "Red.,GPT-2,,")
    with pytest.raises(
        DataError, match=r"hanna\.csv:11: column 'Relevance': expected a finite number, found ''"
    ):
        load_benchmark("hanna", path)


def test_hanna_misspelt_column(data, tmp_path):
    path = hanna_csv(data, tmp_path, ",Relevance,", ",Relevence,")
    with pytest.raises(
        DataError,
        match=r"hanna\.csv:11: no column 'Relevance'; did you mean 'Relevence'\? It has: Story",
    ):
        load_benchmark("hanna", path)


def test_newsroom_release(data, ratings):
    benchmark = load_benchmark("newsroom", data / "newsroom/release")
    assert [context.id for context in benchmark.contexts] == ["12", "7"]
    assert benchmark.contexts[0].text == (
        'The mayor said "no" to the plan.\nThe council\'s vote is on Friday & open to all.'
    )
    assert texts_of(benchmark)["12/textrank"] == "<UNK> vote on Friday"
    assert (
        texts_of(benchmark)["12/abstractive"]
        == texts_of(benchmark)["12/pointer_c"]
        == "Mayor & council split"
    )
    # abstractive stands third: 3 for all, and rater k has one more on dimension k
    assert ratings(benchmark, "12/abstractive", "coherence") == {
        "rater 1": 4,
        "rater 2": 3,
        "rater 3": 3,
    }


def test_newsroom_forms_agree(data, rated_texts):
    release = load_benchmark("newsroom", data / "newsroom/release")
    flat = load_benchmark("newsroom", data / "newsroom/flat")
    assert rated_texts(flat) == rated_texts(release)
    assert flat.contexts == release.contexts
    assert {output.system for output in flat.outputs} == {
        f"system {place}" for place in range(1, 8)
    }


def test_newsroom_two_texts_of_one_system(data, tmp_path):
    text = (data / "newsroom/release/newsroom-human-eval.csv").read_text()
    path = tmp_path / "newsroom.csv"
    path.write_text(text.replace("no plan no plan", "a plan", 1))
    match = (
        r":\d+: output '12/pointer_s' already appears at .* with a different text; keep one of them"
    )
    with pytest.raises(DataError, match=match):
        load_benchmark("newsroom", path)


def test_webnlg_prefers_single_judgments(data, ratings):
    benchmark = load_benchmark("webnlg", data / "webnlg")
    assert {output.system for output in benchmark.outputs} == {
        "adapt",
        "baseline",
        "tilburg-pipe",
        "vietnam",
    }
    first, second = benchmark.contexts
    assert first.text == "Elm_Bridge | crosses | River_Wen"
    assert (
        second.text == 'Ada_Lund | birthPlace | Wenford\nAda_Lund | occupation | "Pilot, "retired""'
    )
    assert first.references == (
        "elm bridge goes over the wen .",
        "the wen is crossed by elm bridge .",
    )
    assert second.references == ("ada lund is a retired pilot from wenford .",)
    # one judgment; four judgments; a judge who judged twice
    assert ratings(benchmark, f"{second.id}/adapt", "semantics") == {"101": 2}
    assert ratings(benchmark, f"{second.id}/baseline", "fluency") == {
        "101": 1,
        "102": 1,
        "105": 1,
        "106": 2,
    }
    assert ratings(benchmark, f"{second.id}/vietnam", "fluency") == {
        "104": 1,
        "104 (2)": 1,
        "105": 2,
    }


def test_webnlg_texts(data):
    texts = texts_of(
        load_benchmark("webnlg", data / "webnlg", systems=("vietnam", "tilburg-pipe", "webnlg"))
    )
    assert sorted(texts.values()) == [
        "",  # `null`, twice
        "",
        "",  # empty in the file
        "ada lund , a retired pilot , was born in wenford .",  # without the newline it ends in
        "the elm bridge crosses the river wen .",
        "the elm bridge crosses the wen.",
    ]
    assert {key.split("/")[1] for key in texts} == {"vietnam", "tilburg-pipe", "webnlg"}


def test_webnlg_forms_agree(data, means, tmp_path):
    single = load_benchmark("webnlg", data / "webnlg")
    averaged = load_benchmark("webnlg", data / "webnlg/all_data_final_averaged.csv")
    assert means(single) == means(averaged)
    shutil.copy(data / "webnlg/all_data_final_averaged.csv", tmp_path)
    alone = load_benchmark("webnlg", tmp_path)
    assert alone.outputs == averaged.outputs
    assert {context.references for context in alone.contexts} == {()}
    assert {rating.rater for rating in alone.ratings} == {"mean"}


def test_webnlg_unknown_system(data):
    with pytest.raises(
        UnknownNameError,
        match=r"unknown WebNLG system 'vietnan'; did you mean 'vietnam'\? Known: adapt",
    ):
        load_benchmark("webnlg", data / "webnlg", systems=("vietnan",))


def test_webnlg_references_of_another_length(data, tmp_path):
    for file in (data / "webnlg").iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "gold-sample-reference1.lex").write_text("only one\n")
    with pytest.raises(
        DataError,
        match=r"reference1\.lex:2: 1 lines, but .*MRs\.txt has 2; line k of both must belong together",
    ):
        load_benchmark("webnlg", tmp_path)


def test_webnlg_repeated_row(data, tmp_path):
    text = (data / "webnlg/all_data_final_averaged.csv").read_text()
    path = tmp_path / "webnlg.csv"
    path.write_text(text + text.splitlines()[1] + "\n")
    with pytest.raises(
        DataError, match=r"/adapt' already appears at .*webnlg\.csv:2; keep one of them"
    ):
        load_benchmark("webnlg", path)


def test_podcast(data, ratings):
    benchmark = load_benchmark("podcast", data / "podcast")
    assert (
        benchmark.contexts[0].text == "Welcome back. Today we talk about bread, and why it rises."
    )
    assert [(d.name, d.low, d.high) for d in benchmark.dimensions] == [("overall", 0, 3)]
    assert [rating.value for rating in benchmark.ratings] == [3, 0, 2, 1, 0, 2]  # E B G F B G
    assert ratings(benchmark, "ep1/R1", "overall") == {"assessor": 3}


def test_podcast_unknown_grade(data, tmp_path):
    text = (data / "podcast/podcast_summary_assessment.json").read_text()
    path = tmp_path / "podcast.json"
    path.write_text(text.replace('"score": "F"', '"score": "P"'))
    with pytest.raises(
        DataError, match=r"item 4: column 'score': expected one of B, F, G, E, found 'P'"
    ):
        load_benchmark("podcast", path)
