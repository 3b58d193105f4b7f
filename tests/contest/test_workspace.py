"""What the review page may read: runs and tables under the folders that were named at its start."""

from __future__ import annotations

import pytest
from review_data import contest

from refladder.contest.workspace import Workspace
from refladder.errors import DataError, UsageError


@pytest.fixture
def folder(tmp_path):
    return contest(tmp_path / "named", rows=3)


@pytest.fixture
def elsewhere(tmp_path):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "outside.csv").write_text("a\nsecret\n")
    return outside


@pytest.mark.parametrize(
    "name", ["../outside.csv", "/etc/passwd", "link/outside.csv", "linked.csv", "a\0b", "\ud800"]
)
def test_paths_stay_under_the_named_folders(folder, elsewhere, name):
    (folder / "link").symlink_to(elsewhere)
    (folder / "linked.csv").symlink_to(elsewhere / "outside.csv")
    workspace = Workspace(None, [folder])
    for use in (workspace.allowed, workspace.preview, workspace.review_data):
        with pytest.raises(UsageError, match="is not under a folder that was named at the start"):
            use(name)
    assert workspace.tables() == ["aardvark.jsonl", "badger.jsonl", "judge.jsonl", "rows.jsonl"]
    assert workspace.allowed("~/x").is_relative_to(folder)


@pytest.mark.parametrize("name", ["*.csv", "**/s.csv", "deep/[s].csv", "deep", "", "."])
def test_a_table_is_one_file_and_no_pattern(folder, elsewhere, name):
    """`s.csv` matches, and is a link to a file elsewhere."""
    (folder / "deep").mkdir()
    for place in (folder, folder / "deep"):
        (place / "s.csv").symlink_to(elsewhere / "outside.csv")
    with pytest.raises(UsageError, match="no such file under a folder that was named"):
        Workspace(None, [folder]).preview(name)


def test_the_results_of_a_run_do_not_leave_the_named_folders(folder, elsewhere):
    results = folder / "run" / "results.jsonl"
    results.rename(elsewhere / "results.jsonl")
    results.symlink_to(elsewhere / "results.jsonl")
    workspace = Workspace(None, [folder])
    assert workspace.runs() == []
    message = r"results\.jsonl: a link to .*elsewhere/results\.jsonl, which is not in"
    with pytest.raises(DataError, match=message):
        workspace.review_data("run")


def test_the_files_of_a_scored_table_do_not_leave_the_named_folders(folder, elsewhere, command):
    def key(named=None):
        return Workspace(named, [folder]).review_data("" if named else "scored.csv").key

    texts, out, judgments = folder / "texts.csv", folder / "scored.csv", elsewhere / "j.jsonl"
    texts.write_text("context_id,output\nstory-01,A text.\n")
    given = ("--ladders", "demo/story", "--out", out, "--judgments", judgments)
    assert command("score", texts, *given).code == 0
    assert "climbs" not in key()
    words = "j.jsonl' is not under a folder that was named"
    assert any(words in each for each in key()["warnings"])
    assert "climbs" in key(out)  # named by the user
    config = folder / "scored.csv.run.json"
    text = config.read_text().replace(str(judgments), f"{folder}/j.jsonl")
    config.write_text(text.replace("demo/story", str(elsewhere)))
    judgments.rename(folder / "j.jsonl")
    assert "climbs" in key()
    assert any("elsewhere' is not under a folder" in each for each in key()["warnings"])
