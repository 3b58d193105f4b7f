"""Damaged, misplaced and misnamed files: each with the message a user gets."""

from __future__ import annotations

import gzip
import json

import pytest

from refladder.errors import DataError
from refladder.loaders import load_benchmark
from refladder.records import text_id


def test_no_such_source(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file or folder"):
        load_benchmark("hanna", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("hanna", "hanna_stories_annotations.csv, "),
        ("newsroom", "newsroom-human-eval.csv, newsroom.json "),
        ("podcast", "podcast_summary_assessment.json "),
        ("summeval", "model_annotations.aligned.paired.jsonl, model_annotations.aligned.jsonl, "),
        ("topicalchat", "tc_usr_data.json, "),
        ("webnlg", "all_data_final_scores_anonymised.csv, all_data_final_averaged.csv "),
    ],
)
def test_folder_without_known_files(tmp_path, name, names):
    with pytest.raises(
        DataError, match=rf"this folder has none of {names}.*\(with or without \.gz\)"
    ):
        load_benchmark(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("hanna", "hanna/hanna_stories_annotations.csv"),
        ("podcast", "podcast/podcast_summary_assessment.json"),
        ("summeval", "summeval/release/model_annotations.aligned.paired.jsonl"),
    ],
)
def test_truncated_gzip(data, tmp_path, name, file):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress((data / file).read_bytes())[:-20])
    with pytest.raises(
        DataError,
        match=r"cut\.gz: the stream is damaged or incomplete \(.*\); download or copy it again",
    ):
        load_benchmark(name, path)


def test_invalid_utf8_in_a_json_list(data, tmp_path):
    lines = (data / "podcast/podcast_summary_assessment.json").read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"bread", b"br\xffad")
    path = tmp_path / "podcast.json"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(
        DataError, match=r"podcast\.json:3: not UTF-8 \(byte 0xff\); convert the file to UTF-8"
    ):
        load_benchmark("podcast", path)


def test_invalid_utf8_in_csv(data, tmp_path):
    lines = (data / "webnlg/all_data_final_averaged.csv").read_bytes().split(b"\n")
    lines[3] = lines[3].replace(b"elm", b"\xe9lm")
    path = tmp_path / "webnlg.csv"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(DataError, match=r"webnlg\.csv:4: not UTF-8 \(byte 0xe9 "):
        load_benchmark("webnlg", path)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", r"file\.json:1: an empty file"),
        ("[]", r"file\.json: it has no rows"),
        ("[1]", r"file\.json: item 1: expected a JSON object, found 1"),
        ('[{"a": 1},\n {"b"}]', r"file\.json:2: not JSON \(Expecting ':' delimiter\)"),
        ('{"a": 1}\n{"b"\n', r"file\.json:2: not JSON "),
    ],
)
def test_not_a_table(tmp_path, text, match):
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(DataError, match=match):
        load_benchmark("summeval", path)


def test_byte_order_mark_is_passed_over(data, tmp_path):
    original = data / "podcast/podcast_summary_assessment.json"
    path = tmp_path / "podcast.json"
    path.write_bytes(b"\xef\xbb\xbf" + original.read_bytes())
    assert load_benchmark("podcast", path).outputs == load_benchmark("podcast", original).outputs


def test_parquet_by_content(data, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    rows = json.loads((data / "podcast/podcast_summary_assessment.json").read_text())
    path = tmp_path / "0000.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert (
        load_benchmark("podcast", path).outputs
        == load_benchmark("podcast", data / "podcast").outputs
    )


def test_digest_depends_on_each_text():
    # printf 'abc' | b2sum -l 64
    assert text_id("abc") == "d8bb14d833d59559"
    assert len({text_id("a", "b"), text_id("ab"), text_id("b", "a")}) == 3
