"""refladder.audit."""

from __future__ import annotations

import threading

import pytest
from waiting import HANG

import refladder
from refladder.backends.builtin import Builtin
from refladder.errors import UsageError
from refladder.files.locks import locked
from refladder.records import Completion, LabelReading

STORY = refladder.load_ladders("demo/story")


@pytest.mark.parametrize("ladders", ["demo/dialogue", refladder.load_ladders("demo/dialogue")])
def test_every_dimension_is_audited(ladders):
    rows = refladder.audit(ladders)
    names = {each.name for each in refladder.load_ladders("demo/dialogue").dimensions}
    assert {row["dimension"] for row in rows} == {"all", *names}
    # 14 ladders: 10 pairs in two orders, and 4 better rungs with three sentences.
    assert rows[0]["of"] == 448
    assert rows[0]["ladders"].startswith("demo/dialogue@")


def test_the_seed_chooses_contexts():
    first, second = (refladder.audit("demo/dialogue", contexts=2, seed=seed) for seed in (3, 4))
    assert first != second


def test_answers_are_sampled():
    class Writer(Builtin):
        def write(self, prompts, _sampling):
            return [Completion(text="Better") for _ in prompts]

    rows = refladder.audit("demo/dialogue", judge=Writer(), contexts=2, answers=2)
    assert "|answers:2|" in rows[0]["judge"]
    # every text in the target's position is better
    assert {row["value"] for row in rows if row["measure"] == "P(target)"} == {1.0}


class Silent(Builtin):
    """The built-in judge without an answer to the first prompt; counts its prompts."""

    asked = 0
    fingerprint = "silent/1"

    def read_labels(self, prompts, labels):
        readings = super().read_labels(prompts, labels)
        if not self.asked:
            readings[0] = LabelReading(logprobs=None, mass=None, reason="no answer")
        self.asked += len(prompts)
        return readings


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
        for call in (refladder.audit, refladder.certify):
            message = r"j\.jsonl: process \d+ .* has been writing it since"
            with pytest.raises(UsageError, match=message):
                call("demo/dialogue", judge=judge, judgments=path)
            line = f"{call.__name__} demo/dialogue --judgments {path}"
            assert "has been writing it since" in fails(2, line)
    finally:
        done.set()
        holder.join()
    assert judge.asked == 0
    assert refladder.audit("demo/dialogue", judge=judge, judgments=path) != []
