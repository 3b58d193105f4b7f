"""build --certify: what is written anew, dropped and failed."""

from __future__ import annotations

import json

import pytest
from doubles import Double
from ladder_judges import DIMENSION, Comparing
from simulated import quality_of, text_of

from refladder.errors import UsageError
from refladder.events import Silent
from refladder.files.ladder_sets import CERTIFICATE, load_ladders
from refladder.jobs import build
from refladder.records import Completion, Context, Dimension
from refladder.session import Session
from refladder.settings import BuildSpec

CONTEXTS = [Context(id=f"c{number}", task="story", text=f"Idea {number}.") for number in range(12)]
BEST = 4.0


class Writer(Double):
    """Worst 0, best 4, and in between the middle, but 5 in the contexts of `wrong` until a seed is reached."""

    fingerprint = "writer/1"

    def __init__(self, wrong, until):
        self.wrong, self.until, self.texts = set(wrong), until, 0

    def write(self, prompts, sampling):
        self.texts += len(prompts)
        return [Completion(text=self._text(prompt, sampling.seed)) for prompt in prompts]

    def _text(self, prompt, seed):
        name = f"{prompt.slots['context']} {prompt.role} {seed}"
        if prompt.role != "between":
            return text_of(0.0 if prompt.role == "worst" else BEST, name)
        low, high = quality_of(prompt.slots["lower"]), quality_of(prompt.slots["higher"])
        wrong = (
            prompt.slots["context"] in self.wrong
            and (low, high) == (0.0, BEST)
            and seed < self.until
        )
        return text_of(BEST + 1 if wrong else (low + high) / 2, name)


def run(folder, writer, *, dimensions=(DIMENSION,), human=None, judge=None):
    spec = BuildSpec(
        contexts=CONTEXTS,
        dimensions=dimensions,
        folder=folder,
        writer=writer,
        rungs=3,
        human=human,
        certify=True,
        judge=judge or Comparing(),
    )
    return build.run(spec, Session(store=False), Silent())


def qualities(folder):
    return {
        key: [quality_of(rung.text) for rung in ladder.rungs]
        for key, ladder in load_ladders(str(folder)).ladders.items()
    }


def test_a_rung_out_of_order_is_written_anew(tmp_path):
    writer = Writer(
        ["Idea 3."], until=3
    )  # seed 3 is that of the first round: 3 attempts come before it
    report = run(tmp_path, writer)
    assert report.certificate["verdict"] == "pass"
    assert report.certificate["built"] == {"rounds": 1, "rewritten": 1, "dropped": 0, "failed": 0}
    assert "p-values describe a selection" in report.certificate["notes"][-1]
    assert set(map(tuple, qualities(tmp_path).values())) == {(0.0, 2.0, 4.0)}
    ladder = load_ladders(str(tmp_path)).ladders["c3", "worth"]
    assert [rung.between for rung in ladder.rungs] == [None, (1, 3), None]
    assert writer.texts == 36 + 1


def test_a_build_that_is_run_again_asks_nothing(tmp_path):
    first = run(tmp_path, Writer(["Idea 3."], until=6))
    assert first.certificate["built"] == {"rounds": 2, "rewritten": 1, "dropped": 0, "failed": 0}
    stored = (tmp_path / CERTIFICATE).read_bytes()
    (tmp_path / CERTIFICATE).unlink()  # as if it had been killed before the end
    writer, judge = Writer(["Idea 3."], until=6), Comparing()
    again = run(tmp_path, writer, judge=judge)
    assert (writer.texts, judge.asked) == (0, 0)
    assert again == first
    assert (tmp_path / CERTIFICATE).read_bytes() == stored


def test_a_ladder_that_stays_out_of_order_fails(tmp_path):
    report = run(tmp_path, Writer(["Idea 3."], until=99))
    assert report.ladders == 11
    (failure,) = report.failures
    assert (failure.context_id, failure.level) == ("c3", 2)
    assert failure.reasons == ("not certified: comparing/1 does not find level 2 in order",)
    assert report.certificate["built"] == {"rounds": 2, "rewritten": 1, "dropped": 0, "failed": 1}
    assert report.certificate["counts"]["ladders"] == 11
    assert ("c3", "worth") in load_ladders(str(tmp_path)).failures


def test_a_level_that_no_ladder_has_in_order_is_dropped(tmp_path):
    report = run(tmp_path, Writer([context.text for context in CONTEXTS], until=99))
    assert report.ladders == 12
    assert report.certificate["built"] == {"rounds": 2, "rewritten": 12, "dropped": 1, "failed": 0}
    assert report.certificate["counts"]["rungs"] == 2
    assert report.certificate["verdict"] == "pass"
    assert set(map(tuple, qualities(tmp_path).values())) == {(0.0, 4.0)}


def test_a_level_of_one_of_two_dimensions_cannot_be_dropped(tmp_path):
    other = Dimension(name="care", description="How much care it took.")

    class OneSided(Writer):
        def _text(self, prompt, seed):
            self.wrong = (
                {context.text for context in CONTEXTS}
                if prompt.slots["dimension"] == "care"
                else set()
            )
            return super()._text(prompt, seed)

    report = run(tmp_path, OneSided([], until=99), dimensions=(DIMENSION, other))
    assert report.certificate["built"] == {"rounds": 2, "rewritten": 12, "dropped": 0, "failed": 12}
    assert {key[1] for key in qualities(tmp_path)} == {"worth"}


def test_rungs_of_people_are_not_written_anew(tmp_path):
    people = {("c5", "worth"): {2: text_of(9.0, "by people")}}
    writer = Writer([], until=0)
    report = run(tmp_path, writer, human=people)
    assert writer.texts == 35
    assert [failure.context_id for failure in report.failures] == ["c5"]


def test_a_rung_that_cannot_be_judged_stays_and_is_refused(tmp_path):
    judge = Comparing(unparsed=lambda target, _reference: "Idea 1. worst" in target)
    report = run(tmp_path, Writer([], until=0), judge=judge)
    assert report.ladders == 12
    assert report.certificate["counts"]["unparsed"] == 2
    assert report.certificate["counts"]["of_rungs"]["refuse"] == 2


def test_no_ladder_left_is_an_error(tmp_path):
    class Flat(Writer):
        def _text(self, prompt, seed):
            return text_of(1.0, f"{prompt.slots['context']} {prompt.role} {seed}")

    with pytest.raises(
        UsageError, match="none of the 12 ladders rises for comparing/1 after 2 rounds"
    ):
        run(tmp_path, Flat([], until=0))
    assert not (tmp_path / CERTIFICATE).exists()


def test_the_command_writes_a_certificate(command, tmp_path):
    done = command("build", "demo/dialogue", "--out", tmp_path / "set", "--certify", "--json")
    assert done.code == 0
    (row,) = done.rows
    assert row["verdict"] == "pass"
    assert row["built"].keys() == {"rounds", "rewritten", "dropped", "failed"}
    stored = json.loads((tmp_path / "set" / CERTIFICATE).read_text())
    assert stored["digest"] == row["digest"]
    again = command("build", "demo/dialogue", "--out", tmp_path / "set", "--certify")
    assert f"certificate {row['digest']} by builtin/1" in again.err


def test_too_few_contexts_are_exit_code_3(command, tmp_path):
    table, task = tmp_path / "in.csv", tmp_path / "task.toml"
    table.write_text(
        "context_id,context\na,Why the sea comes and goes twice a day.\nb,Where rain was before.\n"
    )
    task.write_text(
        'task = "open"\n\n[[dimensions]]\nname = "clarity"\ndescription = "Whether it is clear."\nlow = 1\nhigh = 5\n'
    )
    arguments = (
        "build",
        "own",
        "--source",
        table,
        "--task-file",
        task,
        "--writer",
        "builtin",
        "--out",
        tmp_path / "set",
    )
    assert command(*arguments).code == 0
    done = command(*arguments, "--certify")
    assert done.code == 3
    assert "verdict: refuse (no step is shown to rise" in done.err
    assert "note: clarity: fewer than 7 contexts, so no sign test of 4 can pass" in done.err
