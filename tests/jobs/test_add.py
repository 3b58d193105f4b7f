"""build --add: ladders for further contexts, while the ladders of the set, their scores and promises stay."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from doubles import Double

import refladder
from refladder.errors import DataError, UsageError
from refladder.files.jsonl import write_record
from refladder.files.ladder_sets import load_ladders
from refladder.records import Completion, Link, Look, Threshold, is_revised, same_scale

TASK = """task = "open"
[[dimensions]]
name = "clarity"
description = "Whether a child can follow it."
low = 1
high = 5
"""
FIRST = [
    {"context_id": "tides", "context": "Why does the sea rise?"},
    {"context_id": "rain", "context": "Why rain?"},
]
MORE = [FIRST[0], {"context_id": "snow", "context": "Why is snow white?"}]
STILL = "is of an earlier revision of the ladders; `build --add` changed none of those, so it still holds"


@pytest.fixture
def built(tmp_path, write_jsonl, command):
    """A set of two ladders of three rungs, with a seed that is not the default."""
    (tmp_path / "task.toml").write_text(TASK)
    words = (
        "--task-file",
        tmp_path / "task.toml",
        "--writer",
        "builtin",
        "--rungs",
        3,
        "--seed",
        7,
    )
    done = command("build", write_jsonl(FIRST, "first.jsonl"), *words, "--out", tmp_path / "set")
    assert done.code == 0, done.err
    return tmp_path / "set"


@pytest.fixture
def more(write_jsonl):
    return write_jsonl(MORE, "more.jsonl")


def lines(folder, name="ladders.jsonl"):
    return (folder / name).read_bytes().splitlines()


def test_new_contexts_get_ladders_of_the_same_recipe(built, more, command):
    before, first = (built / "ladders.jsonl").read_bytes(), load_ladders(built)
    done = command("build", "--add", more, "--out", built)
    assert done.code == 0
    assert "1 context of the table has ladders already\n" in done.err
    assert f"1 ladder of 3 rungs added to {built}, which has 3 now, 0 rungs failed\n" in done.err
    now = load_ladders(built)
    assert (built / "ladders.jsonl").read_bytes().startswith(before)
    assert [context for context, _ in now.ladders] == ["tides", "rain", "snow"]
    assert (
        now.ladders["snow", "clarity"].recipe == first.ladders["rain", "clarity"].recipe
    )  # its seed is 7
    assert [(each.ladders, each.digest) for each in now.earlier] == [(2, first.digest)]
    assert now.signature == f"set@{now.digest}|earlier:{first.digest}"
    for dry_run in ((), ("--dry-run",)):
        again = command("build", "--add", more, "--out", built, *dry_run)
        assert (again.code, load_ladders(built).digest) == (0, now.digest)
        assert (
            "2 contexts of the table have ladders already\n0 ladders of 3 rungs added" in again.err
        )


def test_the_ladders_are_those_of_one_build(built, more, tmp_path, write_jsonl, command):
    """A context gets the same rungs whether it comes at once or later, and the call does what the command does."""
    shutil.copytree(built, tmp_path / "called" / "set")
    command("build", "--add", more, "--out", built)
    called = refladder.build(add=MORE, out=tmp_path / "called" / "set")
    both = write_jsonl([*FIRST, MORE[1]], "both.jsonl")
    words = (
        "--task-file",
        tmp_path / "task.toml",
        "--writer",
        "builtin",
        "--rungs",
        3,
        "--seed",
        7,
    )
    command("build", both, *words, "--out", tmp_path / "whole")
    assert lines(built) == lines(tmp_path / "whole") == lines(tmp_path / "called" / "set")
    assert called.signature == load_ladders(built).signature
    assert (
        refladder.build(add=MORE, out=tmp_path / "called" / "set") == called
    )  # nothing is left to add


def test_scores_thresholds_and_links_of_an_earlier_revision_hold(
    built, more, tmp_path, command, caplog
):
    rows = [{**row, "output": f"Because of the {row['context_id']}."} for row in FIRST]
    first = refladder.score(rows, ladders=built, judge="builtin")
    command("build", "--add", more, "--out", built)
    rows.append({**MORE[1], "output": "Because it is cold."})
    second = refladder.score(rows, ladders=built, judge="builtin")
    assert [row["clarity_score"] for row in second[:2]] == [row["clarity_score"] for row in first]
    assert is_revised(second[0]["signature"], first[0]["signature"])
    assert not is_revised(first[0]["signature"], second[0]["signature"])
    assert not same_scale(
        second[0]["signature"], first[0]["signature"].replace("rule:ladder-sum", "rule:other")
    )
    assert refladder.filter([*first, *second], min={"clarity_score": -100.0}) == [*first, *second]
    promise = Threshold(
        column="clarity_score", cutoff=-100.0, precision=0.5, recall=None, sure=0.9, version="x", label="ok",
        good=">=1", signature=first[0]["signature"], labels=2, labels_above=2, bad_above=0, rows=2, kept=2, used=(),
        unit="row", looks=(Look(column="clarity_score", signature=None, label="ok", number=1, digest="x"),),
    )  # fmt: skip
    path, threshold = tmp_path / "scored.jsonl", tmp_path / "threshold.json"
    write_record(threshold, promise)
    path.write_text("".join(json.dumps(row) + "\n" for row in second))
    done = command("filter", path, "--threshold", threshold)
    assert (len(done.rows), done.err.count(f"the threshold {STILL}\n")) == (3, 1)
    link = Link(
        from_signature=first[0]["signature"].replace("builtin", "weak"), to_signature=first[0]["signature"],
        columns=(), version="x",
    )  # fmt: skip
    with caplog.at_level(logging.WARNING, logger="refladder"):
        assert refladder.filter(second, min={"clarity_score": -100.0}, link=link) == second
    assert [each for each in caplog.messages if STILL in each] == [f"the link {STILL}"]
    with pytest.raises(DataError, match="the threshold was made for scores with another signature"):
        refladder.filter(second, threshold=replace(promise, signature=link.from_signature))


def test_a_published_set_names_its_earlier_revisions(built, more, tmp_path, command):
    first = load_ladders(built)
    command("build", "--add", more, "--out", built)
    done = command("publish", built, "ORG/NAME", "--baseline", "--out", tmp_path / "release")
    assert done.code == 0, done.err
    assert f"1 ladder was added to the 2 of revision {first.digest}\n" in done.err
    release = load_ladders(tmp_path / "release")
    assert [(each.ladders, each.digest) for each in release.earlier] == [(2, first.digest)]


def test_an_interrupted_addition_goes_on(built, more, command, monkeypatch):
    whole = shutil.copytree(built, built.parent / "whole" / "set")
    command("build", "--add", more, "--out", whole)
    before = {path.name: path.read_bytes() for path in built.iterdir()}
    monkeypatch.setattr("refladder.jobs.build.append_ladders", _stop)
    assert command("build", "--add", more, "--out", built).code == 130
    monkeypatch.undo()
    journal = next(built.glob("add-*.journal.jsonl"))
    assert {path.name: path.read_bytes() for path in built.iterdir() if path != journal} == before
    assert len(lines(built, journal.name)) == 4  # the header and three texts
    done = command("build", "--add", more, "--out", built, "--dry-run")
    assert "dry run, builtin: 0 calls" in done.out
    command("build", "--add", more, "--out", built)
    assert lines(built) == lines(whole)


def _stop(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("kept", ["ladders.jsonl", "contexts.jsonl"])
def test_a_kill_between_two_files_leaves_a_set_that_loads(built, more, command, kept):
    """`ladders.jsonl` is the last file that is written: the others may be of the later revision."""
    old, first = (built / "ladders.jsonl").read_bytes(), load_ladders(built)
    contexts = (built / "contexts.jsonl").read_bytes()
    command("build", "--add", more, "--out", built)
    whole = (built / "ladders.jsonl").read_bytes()
    (built / "ladders.jsonl").write_bytes(old)
    if kept == "contexts.jsonl":
        (built / "contexts.jsonl").write_bytes(contexts)
        (built / "context_digests.jsonl").unlink()
    assert load_ladders(built).signature == first.signature
    command("build", "--add", more, "--out", built)
    assert (built / "ladders.jsonl").read_bytes() == whole


def test_a_certificate_is_removed_and_it_is_said(built, more, command, caplog):
    certified = command("certify", built)
    copy = shutil.copytree(built, built.parent / "copy")
    done = command("build", "--add", more, "--out", built)
    said = f"The certificate of {built} was of the earlier ladders and is removed; `refladder certify {built}` makes a"
    assert said in done.err
    assert not (built / "certificate.json").exists()
    assert load_ladders(built).certificate is None
    judged = len(lines(built, "certificate.judgments.jsonl")) - 1  # without the header
    assert command("certify", built).code == certified.code
    assert load_ladders(built).certificate is not None
    assert (
        len(lines(built, "certificate.judgments.jsonl")) - 1 == judged // 2 * 3
    )  # those of the new ladder alone
    with caplog.at_level(logging.WARNING, logger="refladder"):
        refladder.build(add=MORE, out=copy)
    assert f"The certificate of {copy} was of the earlier ladders" in caplog.text


class Writer(Double):
    """Writes one sentence for each rung, and for the context `snow` nothing for a while."""

    broken = True

    @property
    def fingerprint(self):
        return "writer"

    def write(self, prompts, sampling):
        return [
            Completion(
                text=""
                if self.broken and "snow" in prompt.slots["context"]
                else f"{prompt.role} {number}."
            )
            for number, prompt in enumerate(prompts, start=sampling.seed)
        ]


def test_a_context_whose_ladder_failed_can_be_added_again(tmp_path, caplog):
    """Its failure is listed until a ladder comes in its place."""
    writer, folder = Writer(), tmp_path / "set"
    clarity = refladder.Dimension(name="clarity", description="Clear?")
    first = refladder.build(
        FIRST, task="open", dimensions=[clarity], rungs=2, writer=writer, out=folder
    )
    failed = refladder.build(add=MORE, writer=writer, out=folder)
    assert (list(failed.failures), failed.digest, failed.earlier) == (
        [("snow", "clarity")],
        first.digest,
        (),
    )
    assert "0 ladders, 2 rungs failed" in caplog.messages
    writer.broken = False
    (folder / f"add-{first.digest}.journal.jsonl").unlink()
    added = refladder.build(add=MORE, writer=writer, out=folder)
    assert (dict(added.failures), list(added.ladders)[2:]) == ({}, [("snow", "clarity")])
    assert not (folder / "failures.jsonl").exists()


def test_the_first_build_does_not_drop_what_was_added(built, more, tmp_path, command, fails):
    command("build", "--add", more, "--out", built)
    words = (
        "--task-file",
        tmp_path / "task.toml",
        "--writer",
        "builtin",
        "--rungs",
        3,
        "--seed",
        7,
    )
    message = fails(2, "build", tmp_path / "first.jsonl", *words, "--out", built)
    assert (
        f"{built}: ladders were added to this set, and this build would drop them; choose another --out"
        in message
    )
    assert len(load_ladders(built).ladders) == 3


def test_a_changed_earlier_revision_is_noticed(built, more, command, fails):
    command("build", "--add", more, "--out", built)
    text = (built / "ladders.jsonl").read_bytes().splitlines(keepends=True)
    (built / "ladders.jsonl").write_bytes(b"".join([text[1], text[0], text[2]]))
    assert (
        "the first 2 ladders are not those of the earlier revision in revisions.jsonl; restore the set, or delete "
        "revisions.jsonl: thresholds and links of earlier revisions then no longer hold"
    ) in fails(2, "show", built)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--writer", "scripted:RULES"], "its ladders are written by builtin"),
        (
            ["--rungs", "4"],
            "--add takes task, criteria, rungs and sampling from the set; leave out --rungs",
        ),
        (["--seed", "1"], "leave out --seed"),
        (["--certify"], "leave out --certify"),
        (["--shared", "2"], "leave out --shared"),
        (["demo/story"], "leave out BENCHMARK"),
        (
            ["--prompts", "PROMPTS"],
            "its ladders are written with other prompts than these; give the same --prompts",
        ),
        (["--column", "context=x"], "no column 'x'"),
    ],
)
def test_what_the_set_decides_cannot_be_given(built, more, fails, words, message):
    tmp_path = built.parent
    (tmp_path / "rules.jsonl").write_text('{"role": "worst", "text": "Bad."}\n')
    folder = tmp_path / "prompts" / "open"
    folder.mkdir(parents=True)
    (folder / "worst.md").write_text(_changed_prompt())
    places = {
        "scripted:RULES": f"scripted:{tmp_path / 'rules.jsonl'}",
        "PROMPTS": tmp_path / "prompts",
    }
    before = {path.name: path.read_bytes() for path in built.iterdir()}
    assert message in fails(
        2, "build", *[places.get(word, word) for word in words], "--add", more, "--out", built
    )
    assert {path.name: path.read_bytes() for path in built.iterdir()} == before


def _changed_prompt():
    from refladder.prompts import TEMPLATES

    return (TEMPLATES / "open" / "worst.md").read_text("utf-8") + "\nBe brief.\n"


def test_sets_that_cannot_grow(built, more, tmp_path, fails, write_jsonl):
    shared = refladder.build(
        FIRST, task="open", dimensions=[refladder.Dimension(name="clarity", description="Clear?")], shared=1,
        writer="builtin", out=tmp_path / "shared",
    )  # fmt: skip
    assert shared.anchors
    assert "shared: the set is shared, so it scores rows of any context already" in fails(
        2, "build", "--add", more, "--out", tmp_path / "shared"
    )
    assert (
        f"{tmp_path / 'none'}: no ladder set to add to; name a folder of `refladder build` with --out"
        in fails(2, "build", "--add", more, "--out", tmp_path / "none")
    )
    other = write_jsonl([{"context_id": "rain", "context": "What is rain?"}], "other.jsonl")
    assert (
        "context 'rain' has another text or background in the table than in set; give it another id"
        in fails(2, "build", "--add", other, "--out", built)
    )
    (built / "run.json").unlink()
    assert "no writer is named for the ladders of your table" in fails(
        2, "build", "--add", more, "--out", built
    )
    (built / "contexts.jsonl").unlink()
    assert "the set has no contexts.jsonl, beside which new contexts go; add that file" in fails(
        2, "build", "--add", more, "--out", built
    )


def test_the_call_says_what_is_missing(built):
    with pytest.raises(
        UsageError, match="data is missing; give a table or a benchmark, or a table with add"
    ):
        refladder.build()
    with pytest.raises(
        UsageError, match="add is a table whose ladders go into a set; name the set with out"
    ):
        refladder.build(add=MORE)
    with pytest.raises(UsageError, match="leave out task"):
        refladder.build(add=MORE, task="open", out=built)
    with pytest.raises(DataError, match="another text or background"):
        refladder.build(add=[{**FIRST[0], "context": "Other?"}], out=built)


def test_build_needs_a_table(fails, tmp_path):
    assert "name a benchmark or your table (BENCHMARK), or a table with --add" in fails(
        2, "build", "--out", tmp_path
    )


def test_a_data_frame_is_added_too(built):
    added = refladder.build(add=pd.DataFrame(MORE), out=built)
    assert len(added.ladders) == 3
    with pytest.raises(
        UsageError, match=r"takes task, criteria, rungs and sampling .* leave out data"
    ):
        refladder.build(pd.DataFrame(MORE), add=MORE, out=built)
