"""build --add: ladders for further contexts, while the ladders of the set, their scores and promises stay."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace

import pandas as pd
import pytest
from doubles import Double

import refladder
from refladder.calibration.records import Look, Threshold
from refladder.errors import DataError, UsageError
from refladder.files.jsonl import write_record
from refladder.files.ladder_sets import load_ladders
from refladder.prompts import TEMPLATES
from refladder.records import Completion, Link
from refladder.signatures import is_revised, same_scale

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
CLARITY = refladder.Dimension(name="clarity", description="Clear?")
STILL = "is of an earlier revision of the ladders; `build --add` changed none of those, so it still holds"


@pytest.fixture
def first_build(tmp_path, write_jsonl):
    """The words of a build of ladders of three rungs, with a seed that is not the default."""
    (tmp_path / "task.toml").write_text(TASK)
    recipe = f"--task-file {tmp_path}/task.toml --writer builtin --rungs 3 --seed 7"
    return lambda rows: f"build {write_jsonl(rows, 'first.jsonl')} {recipe} --out"


@pytest.fixture
def built(tmp_path, command, first_build):
    """A set of two ladders."""
    done = command(f"{first_build(FIRST)} {tmp_path}/set")
    assert done.code == 0, done.err
    return tmp_path / "set"


@pytest.fixture
def adding(write_jsonl, built):
    """The line that adds a ladder to the set."""
    return f"build --add {write_jsonl(MORE, 'more.jsonl')} --out {built}"


def lines(folder, name="ladders.jsonl"):
    return (folder / name).read_bytes().splitlines()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_new_contexts_get_ladders_of_the_same_recipe(built, adding, command):
    before, first = (built / "ladders.jsonl").read_bytes(), load_ladders(built)
    done = command(adding)
    assert done.code == 0
    assert "1 context of the table has ladders already\n" in done.err
    assert f"1 ladder of 3 rungs added to {built}, which has 3 now, 0 rungs failed\n" in done.err
    now = load_ladders(built)
    assert (built / "ladders.jsonl").read_bytes().startswith(before)
    assert [context for context, _ in now.ladders] == ["tides", "rain", "snow"]
    # its seed is 7
    assert now.ladders["snow", "clarity"].recipe == first.ladders["rain", "clarity"].recipe
    assert [(each.ladders, each.digest) for each in now.earlier] == [(2, first.digest)]
    assert now.signature == f"set@{now.digest}|earlier:{first.digest}"
    nothing = "2 contexts of the table have ladders already\n0 ladders of 3 rungs added"
    for dry_run in ("", "--dry-run"):
        again = command(f"{adding} {dry_run}")
        assert (again.code, load_ladders(built).digest) == (0, now.digest)
        assert nothing in again.err


def test_the_ladders_are_those_of_one_build(built, adding, tmp_path, command, first_build):
    """A context gets the same rungs whether it comes at once or later, and the call does what the command does."""
    copy = shutil.copytree(built, tmp_path / "called" / "set")
    command(adding)
    called = refladder.build(add=pd.DataFrame(MORE), out=copy)
    command(f"{first_build([*FIRST, MORE[1]])} {tmp_path}/whole")
    assert lines(built) == lines(tmp_path / "whole") == lines(copy)
    assert called.signature == load_ladders(built).signature
    assert refladder.build(add=MORE, out=copy) == called  # nothing is left to add


def test_scores_thresholds_and_links_of_an_earlier_revision_hold(
    built, adding, write_jsonl, command, caplog
):
    rows = [{**row, "output": f"Because of the {row['context_id']}."} for row in FIRST]
    first = refladder.score(rows, ladders=built, judge="builtin")
    command(adding)
    rows.append({**MORE[1], "output": "Because it is cold."})
    second = refladder.score(rows, ladders=built, judge="builtin")
    assert [row["clarity_score"] for row in second[:2]] == [row["clarity_score"] for row in first]
    before, after = first[0]["signature"], second[0]["signature"]
    assert is_revised(after, before)
    assert not is_revised(before, after)
    assert not same_scale(after, before.replace("rule:ladder-sum", "rule:other"))
    least = {"clarity_score": -100.0}
    assert refladder.filter([*first, *second], min=least) == [*first, *second]
    promise = Threshold(
        column="clarity_score", cutoff=-100.0, precision=0.5, recall=None, sure=0.9, version="x", label="ok",
        good=">=1", signature=before, labels=2, labels_above=2, bad_above=0, rows=2, kept=2, used=(),
        unit="row", looks=(Look(column="clarity_score", signature=None, label="ok", number=1, digest="x"),),
    )  # fmt: skip
    path = write_jsonl(second, "scored.jsonl")
    threshold = path.with_name("threshold.json")
    write_record(threshold, promise)
    done = command(f"filter {path} --threshold {threshold}")
    assert (len(done.rows), done.err.count(f"the threshold {STILL}\n")) == (3, 1)
    weak = before.replace("builtin", "weak")
    link = Link(from_signature=weak, to_signature=before, columns=(), version="x")
    with caplog.at_level(logging.WARNING, logger="refladder"):
        assert refladder.filter(second, min=least, link=link) == second
    assert [each for each in caplog.messages if STILL in each] == [f"the link {STILL}"]
    with pytest.raises(DataError, match="the threshold was made for scores with another signature"):
        refladder.filter(second, threshold=replace(promise, signature=weak))


def test_a_published_set_names_its_earlier_revisions(built, adding, tmp_path, command):
    first = load_ladders(built)
    command(adding)
    done = command(f"publish {built} ORG/NAME --baseline --out {tmp_path}/release")
    assert done.code == 0, done.err
    assert f"1 ladder was added to the 2 of revision {first.digest}\n" in done.err
    release = load_ladders(tmp_path / "release")
    assert [(each.ladders, each.digest) for each in release.earlier] == [(2, first.digest)]


def test_an_interrupted_addition_goes_on(built, adding, command, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    whole = shutil.copytree(built, built.parent / "whole" / "set")
    command(adding.replace(str(built), str(whole)))
    before = contents(built)
    with monkeypatch.context() as patch:
        patch.setattr("refladder.ladders.build.append_ladders", stop)
        assert command(adding).code == 130
    journal = next(built.glob("add-*.journal.jsonl"))
    assert len(lines(built, journal.name)) == 4  # the header and three texts
    after = contents(built)
    del after[journal.name]
    assert after == before
    assert "dry run, builtin: 0 calls" in command(f"{adding} --dry-run").out
    command(adding)
    assert lines(built) == lines(whole)


@pytest.mark.parametrize("kept", ["ladders.jsonl", "contexts.jsonl"])
def test_a_kill_between_two_files_leaves_a_set_that_loads(built, adding, command, kept):
    """`ladders.jsonl` is the last file that is written: the others may be of the later revision."""
    old, first = contents(built), load_ladders(built)
    command(adding)
    whole = lines(built)
    (built / "ladders.jsonl").write_bytes(old["ladders.jsonl"])
    if kept == "contexts.jsonl":
        (built / "contexts.jsonl").write_bytes(old["contexts.jsonl"])
        (built / "context_digests.jsonl").unlink()
    assert load_ladders(built).signature == first.signature
    command(adding)
    assert lines(built) == whole


def test_a_certificate_is_removed_and_it_is_said(built, adding, command, caplog):
    certified = command(f"certify {built}")
    copy = shutil.copytree(built, built.parent / "copy")
    removed = "The certificate of {} was of the earlier ladders and is removed; `refladder certify"
    assert f"{removed.format(built)} {built}` makes a" in command(adding).err
    assert not (built / "certificate.json").exists()
    assert load_ladders(built).certificate is None
    judged = len(lines(built, "certificate.judgments.jsonl")) - 1  # without the header
    assert command(f"certify {built}").code == certified.code
    assert load_ladders(built).certificate is not None
    # those of the new ladder alone
    assert len(lines(built, "certificate.judgments.jsonl")) - 1 == judged // 2 * 3
    with caplog.at_level(logging.WARNING, logger="refladder"):
        refladder.build(add=MORE, out=copy)
    assert removed.format(copy) in caplog.text


class Writer(Double):
    """Writes one sentence for each rung, and for the context `snow` nothing for a while."""

    fingerprint = "writer"
    broken = True

    def write(self, prompts, sampling):
        texts = [f"{prompt.role} {place}." for place, prompt in enumerate(prompts, sampling.seed)]
        fails = [self.broken and "snow" in prompt.slots["context"] for prompt in prompts]
        return [Completion(text="" if fail else text) for text, fail in zip(texts, fails, strict=True)]  # fmt: skip


def test_a_context_whose_ladder_failed_can_be_added_again(tmp_path, caplog):
    """Its failure is listed until a ladder comes in its place."""
    writer, folder = Writer(), tmp_path / "set"
    how = {"writer": writer, "out": folder}
    first = refladder.build(FIRST, task="open", dimensions=[CLARITY], rungs=2, **how)
    failed = refladder.build(add=MORE, **how)
    assert list(failed.failures) == [("snow", "clarity")]
    assert (failed.digest, failed.earlier) == (first.digest, ())
    assert "0 ladders, 2 rungs failed" in caplog.messages
    writer.broken = False
    (folder / f"add-{first.digest}.journal.jsonl").unlink()
    added = refladder.build(add=MORE, **how)
    assert (dict(added.failures), list(added.ladders)[2:]) == ({}, [("snow", "clarity")])
    assert not (folder / "failures.jsonl").exists()


def test_the_first_build_does_not_drop_what_was_added(built, adding, first_build, command, fails):
    command(adding)
    drops = "ladders were added to this set, and this build would drop them; choose another --out"
    assert f"{built}: {drops}" in fails(2, f"{first_build(FIRST)} {built}")
    assert len(load_ladders(built).ladders) == 3


def test_a_changed_earlier_revision_is_noticed(built, adding, command, fails):
    command(adding)
    first, second, third = lines(built)
    (built / "ladders.jsonl").write_bytes(b"\n".join([second, first, third, b""]))
    assert (
        "the first 2 ladders are not those of the earlier revision in revisions.jsonl; restore the set, or delete "
        "revisions.jsonl: thresholds and links of earlier revisions then no longer hold"
    ) in fails(2, f"show {built}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--writer scripted:RULES", "its ladders are written by builtin"),
        (
            "--rungs 4",
            "--add takes task, criteria, rungs and sampling from the set; leave out --rungs",
        ),
        ("--seed 1", "leave out --seed"),
        ("--certify", "leave out --certify"),
        ("--shared 2", "leave out --shared"),
        ("demo/story", "leave out BENCHMARK"),
        (
            "--prompts PROMPTS",
            "its ladders are written with other prompts than these; give the same --prompts",
        ),
        ("--column context=x", "no column 'x'"),
    ],
)
def test_what_the_set_decides_cannot_be_given(built, adding, fails, words, message):
    rules, prompts = built.with_name("rules.jsonl"), built.with_name("prompts")
    rules.write_text('{"role": "worst", "text": "Bad."}\n')
    (prompts / "open").mkdir(parents=True)
    changed = (TEMPLATES / "open" / "worst.md").read_text("utf-8") + "\nBe brief.\n"
    (prompts / "open" / "worst.md").write_text(changed)
    words = words.replace("RULES", str(rules)).replace("PROMPTS", str(prompts))
    before = contents(built)
    assert message in fails(2, f"{adding} {words}")
    assert contents(built) == before


def test_sets_that_cannot_grow(built, adding, tmp_path, fails, write_jsonl):
    how = {"task": "open", "dimensions": [CLARITY], "shared": 1, "writer": "builtin"}
    assert refladder.build(FIRST, out=tmp_path / "shared", **how).anchors
    text = fails(2, adding.replace(str(built), str(tmp_path / "shared")))
    assert "shared: the set is shared, so it scores rows of any context already" in text
    text = fails(2, adding.replace(str(built), str(tmp_path / "none")))
    none = "no ladder set to add to; name a folder of `refladder build` with --out"
    assert f"{tmp_path}/none: {none}" in text
    other = write_jsonl([{"context_id": "rain", "context": "What is rain?"}], "other.jsonl")
    another = (
        "context 'rain' has another text or background in the table than in set; give it another id"
    )
    assert another in fails(2, f"build --add {other} --out {built}")
    for name, message in (
        ("run.json", "no writer is named for the ladders of your table"),
        (
            "contexts.jsonl",
            "the set has no contexts.jsonl, beside which new contexts go; add that file",
        ),
    ):
        (built / name).unlink()
        assert message in fails(2, adding)


def test_what_is_missing_is_said(built, fails):
    table = "name a benchmark or your table (BENCHMARK), or a table with --add"
    assert table in fails(2, f"build --out {built.parent}")
    other = [{**FIRST[0], "context": "Other?"}]
    for how, error, message in (
        ({}, UsageError, "data is missing; give a table or a benchmark, or a table with add"),
        ({"add": MORE}, UsageError, "add is a table whose ladders go into a set; name the set with out"),
        ({"add": MORE, "task": "open", "out": built}, UsageError, "leave out task"),
        ({"add": MORE, "data": MORE, "out": built}, UsageError,
         r"takes task, criteria, rungs and sampling .* leave out data"),
        ({"add": other, "out": built}, DataError, "another text or background"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            refladder.build(**how)
