"""build --certify: what is written anew, dropped and failed."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from doubles import Double
from ladder_judges import DIMENSION, Comparing
from simulated import quality_of, text_of

from refladder.errors import UsageError
from refladder.events import Silent
from refladder.files.ladder_sets import CERTIFICATE, load_ladders
from refladder.ladders import build
from refladder.ladders.repair import _levels_to_drop
from refladder.records import Completion, Context, Dimension
from refladder.session import Session
from refladder.settings import BuildSpec

CONTEXTS = [Context(id=f"c{number}", task="story", text=f"Idea {number}.") for number in range(12)]
IDEAS = [context.text for context in CONTEXTS]
BEST = 4.0


class Writer(Double):
    """Worst 0, best 4, and in between the middle, but 5 in the contexts of `wrong` until a seed is reached."""

    fingerprint = "writer/1"

    def __init__(self, wrong=(), until=0):
        self.wrong, self.until, self.texts = set(wrong), until, 0

    def write(self, prompts, sampling):
        self.texts += len(prompts)
        return [Completion(text=self._text(prompt, sampling.seed)) for prompt in prompts]

    def _text(self, prompt, seed):
        context = prompt.slots["context"]
        name = f"{context} {prompt.role} {seed}"
        if prompt.role != "between":
            return text_of(0.0 if prompt.role == "worst" else BEST, name)
        low, high = quality_of(prompt.slots["lower"]), quality_of(prompt.slots["higher"])
        wrong = context in self.wrong and (low, high) == (0.0, BEST) and seed < self.until
        return text_of(BEST + 1 if wrong else (low + high) / 2, name)


def run(folder, writer, *, dimensions=(DIMENSION,), human=None, judge=None):
    spec = BuildSpec(
        contexts=CONTEXTS, dimensions=dimensions, folder=folder, writer=writer, rungs=3, human=human, certify=True,
        judge=judge or Comparing(),
    )  # fmt: skip
    return build.run(spec, Session(store=False), Silent())


def counts_of(report):
    """How many rounds of rewriting there were, and how many rungs were rewritten, levels dropped and ladders failed."""
    names = ("rounds", "rewritten", "dropped", "failed")
    return tuple(getattr(report.certificate.built, name) for name in names)


def qualities(folder):
    return {
        tuple(quality_of(rung.text) for rung in ladder.rungs)
        for ladder in load_ladders(str(folder)).ladders.values()
    }


def test_a_rung_out_of_order_is_written_anew(tmp_path):
    # seed 3 is that of the first round: 3 attempts come before it
    writer = Writer(["Idea 3."], until=3)
    report = run(tmp_path, writer)
    assert report.certificate.verdict == "pass"
    assert counts_of(report) == (1, 1, 0, 0)
    assert "p-values describe a selection" in report.certificate.notes[-1]
    assert qualities(tmp_path) == {(0.0, 2.0, 4.0)}
    ladder = load_ladders(str(tmp_path)).ladders["c3", "worth"]
    assert [rung.between for rung in ladder.rungs] == [None, (1, 3), None]
    assert writer.texts == 36 + 1


def test_a_build_that_is_run_again_asks_nothing(tmp_path):
    first = run(tmp_path, Writer(["Idea 3."], until=6))
    assert counts_of(first) == (2, 1, 0, 0)
    stored = (tmp_path / CERTIFICATE).read_bytes()
    (tmp_path / CERTIFICATE).unlink()  # as if it had been killed before the end
    writer, judge = Writer(["Idea 3."], until=6), Comparing()
    assert run(tmp_path, writer, judge=judge) == first
    assert (writer.texts, judge.asked) == (0, 0)
    assert (tmp_path / CERTIFICATE).read_bytes() == stored


def test_a_ladder_that_stays_out_of_order_fails(tmp_path):
    report = run(tmp_path, Writer(["Idea 3."], until=99))
    (failure,) = report.failures
    assert (failure.context_id, failure.level) == ("c3", 2)
    assert failure.reasons == ("not certified: comparing/1 does not find level 2 in order",)
    assert counts_of(report) == (2, 1, 0, 1)
    assert report.ladders == report.certificate.counts.ladders == 11
    assert ("c3", "worth") in load_ladders(str(tmp_path)).failures


def test_a_level_that_no_ladder_has_in_order_is_dropped(tmp_path):
    report = run(tmp_path, Writer(IDEAS, until=99))
    assert report.ladders == 12
    assert counts_of(report) == (2, 12, 1, 0)
    assert report.certificate.counts.rungs == 2
    assert report.certificate.verdict == "pass"
    assert qualities(tmp_path) == {(0.0, 4.0)}


def test_a_level_of_one_of_two_dimensions_cannot_be_dropped(tmp_path):
    class OneSided(Writer):
        def _text(self, prompt, seed):
            self.wrong = IDEAS if prompt.slots["dimension"] == "care" else ()
            return super()._text(prompt, seed)

    other = Dimension(name="care", description="How much care it took.")
    report = run(tmp_path, OneSided(until=99), dimensions=(DIMENSION, other))
    assert counts_of(report) == (2, 12, 0, 12)
    assert {name for _, name in load_ladders(str(tmp_path)).ladders} == {"worth"}


def test_rungs_of_people_are_not_written_anew(tmp_path):
    writer = Writer()
    report = run(tmp_path, writer, human={("c5", "worth"): {2: text_of(9.0, "by people")}})
    assert writer.texts == 35
    assert [failure.context_id for failure in report.failures] == ["c5"]


def test_a_rung_that_cannot_be_judged_stays_and_is_refused(tmp_path):
    judge = Comparing(unparsed=lambda target, _reference: "Idea 1. worst" in target)
    report = run(tmp_path, Writer(), judge=judge)
    assert report.ladders == 12
    assert report.certificate.counts.unparsed == 2
    assert report.certificate.counts.of_rungs["refuse"] == 2


@pytest.mark.parametrize("level", ["worst", "best"])
def test_a_level_that_the_judge_never_answered_about_stays(tmp_path, level):
    judge = Comparing(unparsed=lambda *texts: any(f". {level}" in text for text in texts))
    report = run(tmp_path, Writer(["Idea 3."], until=99), judge=judge)
    assert (report.ladders, report.failures, counts_of(report)) == (12, (), (0, 0, 0, 0))
    assert report.certificate.verdict == "untested"
    assert report.certificate.counts.rungs == 3
    assert report.certificate.notes[-1] == (
        "48 of 72 judgments are unparsed, so no rung was written anew and no level dropped; ask the judge again, or "
        "another one."
    )


def test_the_certificate_keeps_what_was_asked_before_a_repair(tmp_path):
    judge = Comparing(unparsed=lambda target, _reference: "Idea 3. between 0" in target)
    report = run(tmp_path, Writer(["Idea 5."], until=3), judge=judge)
    assert report.certificate.built.before == {"judgments": 72, "unparsed": 2}


def test_no_ladder_left_is_an_error(tmp_path):
    class Flat(Writer):
        def _text(self, prompt, seed):
            return text_of(1.0, f"{prompt.slots['context']} {prompt.role} {seed}")

    none = "none of the 12 ladders rises for comparing/1 after 2 rounds"
    with pytest.raises(UsageError, match=none):
        run(tmp_path, Flat())
    assert not (tmp_path / CERTIFICATE).exists()


def test_the_command_writes_a_certificate(command, tmp_path):
    line = f"build demo/dialogue --out {tmp_path}/set --certify"
    done = command(f"{line} --json")
    assert done.code == 0
    (row,) = done.rows
    assert row["verdict"] == "pass"
    assert row["built"].keys() == {"rounds", "rewritten", "dropped", "failed"}
    stored = json.loads((tmp_path / "set" / CERTIFICATE).read_text())
    assert stored["digest"] == row["digest"]
    assert f"certificate {row['digest']} by builtin/1" in command(line).err


def test_too_few_contexts_are_untested(command, write_jsonl, tmp_path):
    texts = ("Why the sea comes and goes twice a day.", "Where rain was before.")
    table = write_jsonl([{"context_id": name, "context": text} for name, text in zip("ab", texts, strict=True)])  # fmt: skip
    clarity = 'name = "clarity"\ndescription = "Whether it is clear."\nlow = 1\nhigh = 5\n'
    (tmp_path / "task.toml").write_text(f'task = "open"\n\n[[dimensions]]\n{clarity}')
    own = f"build table --source {table} --task-file {tmp_path}/task.toml --writer builtin"
    assert command(f"{own} --out {tmp_path}/set").code == 0
    done = command(f"{own} --out {tmp_path}/set --certify")
    assert done.code == 0
    told = "verdict: untested (too few ladders, or too many unparsed judgments, to say whether every level rises)"
    assert told in done.err
    assert (
        "note: Too few ladders for a verdict: clarity 2 of 6. No sign test of 4 steps can pass"
        in done.err
    )
    assert command(f"certify {tmp_path}/set").code == 0


@pytest.mark.parametrize(("rungs", "dropped"), [(3, []), (4, [2, 3])])
def test_two_rungs_are_left_or_none_is_dropped(rungs, dropped):
    levels = [
        SimpleNamespace(level=level, verdict="drop" if level in {2, 3} else "pass")
        for level in range(1, 5)
    ]
    of_set = SimpleNamespace(
        counts=SimpleNamespace(rungs=rungs), dimensions=[SimpleNamespace(levels=levels)]
    )
    assert _levels_to_drop(of_set) == dropped
