"""Damaged, misplaced and misnamed files: each with the message a user gets."""

from __future__ import annotations

import json

import pytest

from refladder.errors import DataError
from refladder.loaders import load_benchmark
from refladder.records import text_id

PODCAST = "podcast/podcast_summary_assessment.json"
MTEB = "summeval/hub/mteb_summeval.test.jsonl"


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
def test_a_source_without_known_files(tmp_path, name, names):
    message = rf"this folder has none of {names}.*\(with or without \.gz\); give the file's path$"
    with pytest.raises(DataError, match=message):
        load_benchmark(name, tmp_path)
    with pytest.raises(DataError, match=r"nowhere: no such file or folder$"):
        load_benchmark(name, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "podcast",
            b'[{"a": 1},\n "\xff"]',
            r":2: not UTF-8 \(byte 0xff at position \d+\); save it as UTF-8 ",
        ),
        ("webnlg", b"id,mr\n1,\xe9lm\n", r":2: not UTF-8 \(byte 0xe9 "),
        ("summeval", b"", r":1: an empty file"),
        ("summeval", b"[]", r": it has no rows"),
        ("summeval", b"[1]", r": item 1: expected a JSON object, found 1"),
        ("summeval", b'[{"a": 1},\n {"b"}]', r":2: not JSON \(Expecting ':' delimiter\)"),
        ("summeval", b'{"a": 1}\n{"b"\n', r":2: not JSON "),
    ],
)
def test_what_is_no_table(tmp_path, name, content, message):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"file\.json{message}"):
        load_benchmark(name, path)


def test_the_format_is_found_in_the_content(data, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    content = (data / PODCAST).read_bytes()
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf" + content)
    parquet.write_table(pyarrow.Table.from_pylist(json.loads(content)), tmp_path / "parquet")
    plain = load_benchmark("podcast", data / PODCAST)
    for name in ("marked", "parquet"):
        assert load_benchmark("podcast", tmp_path / name).outputs == plain.outputs


def test_digest_depends_on_each_text():
    # printf 'abc' | b2sum -l 64
    assert text_id("abc") == "d8bb14d833d59559"
    assert len({text_id("a", "b"), text_id("ab"), text_id("b", "a")}) == 3
