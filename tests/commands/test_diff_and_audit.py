"""diff and audit: against what the commands give."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from waiting import HANG

import refladder
from refladder.backends.builtin import Builtin
from refladder.errors import DataError, PromptError, UnknownNameError, UsageError
from refladder.files.locks import locked
from refladder.records import Completion, LabelReading

STORY = refladder.load_ladders("demo/story")
DIALOGUE = ("--ladders", "demo/dialogue")


@pytest.fixture
def changed(tmp_path):
    """The folder of a copy of demo/story without its first ladder, and with another scale of a dimension."""
    dimensions = [
        replace(each, high=9.0) if each.name == "complexity" else each for each in STORY.dimensions
    ]
    ladders, contexts = list(STORY.ladders.values())[1:], list(STORY.contexts.values())
    refladder.write_ladder_set(tmp_path / "changed", dimensions, contexts, ladders, [])
    return tmp_path / "changed"


def test_the_difference_is_that_of_the_command(changed, command):
    difference = refladder.diff("demo/story", changed)
    (typed,) = command("diff", "demo/story", changed, "--json").rows
    assert not difference.same
    assert (
        difference.ladders.removed == tuple(typed["ladders"]["removed"]) == ("story-01 coherence",)
    )
    assert difference.dimensions.changed == {"complexity": ("high",)}
    assert (list(difference.digests), difference.ladders.same) == (
        typed["digests"],
        typed["ladders"]["same"],
    )
    assert refladder.diff(str(changed), changed).same


def test_open_sets_are_compared_as_their_folders(changed):
    opened = refladder.load_ladders(changed)
    assert refladder.diff(STORY, opened) == refladder.diff("demo/story", changed)
    assert refladder.diff(STORY, "demo/story").same
    silent = refladder.diff(replace(STORY, contexts={}, digests={}), STORY)
    assert silent.same
    assert silent.uncompared == 12


def test_a_set_that_does_not_exist():
    with pytest.raises(
        UnknownNameError, match=r"unknown ladder set .*'demo/stories'; did you mean 'demo/story'\?"
    ):
        refladder.diff("demo/story", "demo/stories")


@pytest.mark.parametrize(
    "ladders", ["demo/dialogue", refladder.load_ladders("demo/dialogue")], ids=["name", "set"]
)
def test_the_audit_is_that_of_the_command(ladders, command):
    rows = refladder.audit(ladders)
    assert rows == command("audit", *DIALOGUE, "--json").rows
    assert {row["dimension"] for row in rows} == {
        "all",
        *(each.name for each in refladder.load_ladders("demo/dialogue").dimensions),
    }
    assert (
        rows[0]["of"] == 448
    )  # 14 ladders: 10 pairs in two orders, and 4 better rungs with three sentences
    assert rows[0]["ladders"].startswith("demo/dialogue@")


def test_every_option_of_the_audit(command, tmp_path):
    options = {"contexts": 2, "seed": 3, "least_mass": 0.5}
    rows = refladder.audit("demo/dialogue", judgments=tmp_path / "called.jsonl", **options)
    named = (
        "--contexts",
        2,
        "--seed",
        3,
        "--least-mass",
        0.5,
        "--judgments",
        tmp_path / "typed.jsonl",
    )
    assert rows == command("audit", *DIALOGUE, *named, "--json").rows
    assert (tmp_path / "called.jsonl").read_bytes() == (tmp_path / "typed.jsonl").read_bytes()
    assert rows != refladder.audit("demo/dialogue", **{**options, "seed": 4})


class Silent(Builtin):
    """The built-in judge without an answer to the first prompt; counts its prompts."""

    asked = 0

    @property
    def fingerprint(self):
        return "silent/1"

    def read_labels(self, prompts, labels):
        readings = super().read_labels(prompts, labels)
        if not self.asked:
            readings[0] = LabelReading(logprobs=None, mass=None, reason="no answer")
        self.asked += len(prompts)
        return readings


def test_answers_are_sampled():
    class Writer(Builtin):
        def write(self, prompts, _sampling):
            return [Completion(text="Better") for _ in prompts]

    rows = refladder.audit("demo/dialogue", judge=Writer(), contexts=2, answers=2)
    assert "|answers:2|" in rows[0]["judge"]
    # every text in the target's position is better
    assert {row["value"] for row in rows if row["measure"] == "P(target)"} == {1.0}


def test_unparsed_judgments_are_counted_and_stored_ones_are_not_asked_again(tmp_path, caplog):
    judge = Silent()
    rows = refladder.audit("demo/dialogue", judge=judge, judgments=tmp_path / "j.jsonl")
    assert "1 of 448 judgments are unparsed" in caplog.text
    assert judge.asked == 448
    assert refladder.audit("demo/dialogue", judge=judge, judgments=tmp_path / "j.jsonl") == rows
    assert judge.asked == 448


def test_a_judgments_file_in_use_is_refused_before_a_judge_is_asked(tmp_path, fails):
    path, judge = tmp_path / "j.jsonl", Silent()
    holds, done = threading.Event(), threading.Event()

    def hold():
        with locked(path):
            holds.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    assert holds.wait(HANG)
    try:
        with pytest.raises(UsageError, match=r"j\.jsonl: process \d+ .* has been writing it since"):
            refladder.audit("demo/dialogue", judge=judge, judgments=path)
        assert "has been writing it since" in fails(2, "audit", *DIALOGUE, "--judgments", path)
        with pytest.raises(UsageError, match=r"j\.jsonl: process \d+ .* has been writing it since"):
            refladder.certify("demo/dialogue", judge=judge, judgments=path)
        assert "has been writing it since" in fails(
            2, "certify", "demo/dialogue", "--judgments", path
        )
    finally:
        done.set()
        holder.join()
    assert judge.asked == 0
    assert refladder.audit("demo/dialogue", judge=judge, judgments=path) != []


def test_errors_speak_of_parameters(tmp_path, fails):
    judge = Silent()
    wrong = {
        "give contexts that number or less, found 99": {"contexts": 99},
        "contexts 0: must be 1 or more": {"contexts": 0},
        "seed -1: must be 0 or more": {"contexts": 2, "seed": -1},
        "least_mass=nan: must be a probability": {"least_mass": float("nan")},
        "answers=-1: must be 0 or more": {"answers": -1},
        "store=True names no file": {"store": True},
        "the set has no contexts.jsonl, which a judge needs": {
            "ladders": replace(STORY, contexts={})
        },
        "unknown ladder set": {"ladders": "nowhere"},
    }
    for message, options in wrong.items():
        with pytest.raises(UsageError, match=message.replace(".", r"\.")):
            refladder.audit(**{"ladders": "demo/summarization", "judge": judge, **options})
    with pytest.raises(PromptError, match="nowhere"):
        refladder.audit("demo/story", judge=judge, prompts=tmp_path / "nowhere")
    (tmp_path / "j.jsonl").write_text("no judgment\n", "utf-8")
    with pytest.raises(DataError, match=r"j\.jsonl:1: "):
        refladder.audit("demo/story", judge=judge, judgments=tmp_path / "j.jsonl")
    assert judge.asked == 0
    stored = tmp_path / "stored.jsonl"
    refladder.audit("demo/dialogue", contexts=1, judgments=stored)
    with pytest.raises(
        UsageError, match=r"\(--out, judgments or --work\), or delete .*stored\.jsonl$"
    ):
        refladder.audit("demo/dialogue", contexts=1, judge=judge, judgments=stored)
    assert "--seed -1: must be 0 or more" in fails(
        2, "audit", "demo/story", "--contexts", 2, "--seed", -1
    )
    with pytest.raises(UsageError, match="least_mass=2: must be a probability"):
        refladder.certify(STORY, least_mass=2)
