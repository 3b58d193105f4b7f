"""The table of methods: names, options, counting, and the ladder behind it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from small_benchmarks import run_method

from refladder.backends import connect
from refladder.backends.builtin import Builtin
from refladder.backends.metered import Metered
from refladder.backends.protocol import characters
from refladder.errors import LabelsUnavailableError, UnknownNameError, UsageError
from refladder.methods import method_runs
from refladder.methods.contract import (
    METHODS,
    EvaluationMethod,
    Method,
    MethodResult,
    MethodSettings,
    method_named,
)
from refladder.methods.ladder import ladder
from refladder.methods.method_runs import run_methods
from refladder.prompts import fill, load_template
from refladder.records import Completion, LabelReading
from refladder.registry import Entry
from refladder.report.cards import report_cards
from refladder.testing import made_benchmark

SLOTS = {
    "context": "Why?",
    "background": "",
    "first": "So.",
    "second": "Ça",
    "dimension": "tone",
    "description": "Kind.",
}


def test_a_registered_function_that_is_no_method_is_refused(monkeypatch):
    monkeypatch.setitem(METHODS, "plain", Entry("refladder.methods.method_runs:run_methods", ""))
    message = r"method 'plain' is registered as <function run_methods .* not an Evaluation"
    with pytest.raises(UsageError, match=message):
        method_named("plain")


@pytest.mark.parametrize(
    ("names", "options", "error", "message"),
    [
        (["lader"], {}, UnknownNameError, "unknown method 'lader'; did you mean 'ladder'"),
        (["ladder"] * 2, {}, UsageError, "'ladder' is asked for twice; name each method once"),
        (
            ["ladder"],
            {"poe.budget": "3"},
            UnknownNameError,
            "unknown method of this run 'poe'; Known: ladder",
        ),
        (
            ["ladder"],
            {"ladder.budget": "3"},
            UnknownNameError,
            "unknown option of method 'ladder' 'budget'; Known: none",
        ),
    ],
)
def test_names_and_options_are_checked_before_anything_is_asked(
    dialogues, names, options, error, message
):
    settings = MethodSettings(options=options)
    with pytest.raises(error, match=message):
        run_methods(names, dialogues, dialogues.dimensions, pytest.fail, settings)


def test_options_of_a_method_replace_its_defaults():
    settings = MethodSettings(options={"one.answers": "3", "two.answers": "5"})
    assert settings.own("one", {"answers": "1", "scale": "10"}) == {"answers": "3", "scale": "10"}


def test_the_ladder_scores_every_output_and_is_counted(dialogues):
    run = run_method("ladder", dialogues, connect("builtin"), rungs=3)
    judgments = len(dialogues.outputs) * len(dialogues.dimensions) * 3
    rungs = len(dialogues.contexts) * len(dialogues.dimensions) * 3
    assert run.result.judgments == judgments
    # every judgment and every rung is one prompt, once: each rung was written at the first attempt or again
    assert run.calls >= judgments + rungs
    assert run.characters > 0
    assert 0 < run.judge_seconds <= run.seconds
    assert None not in run.result.method.scores.values()


@pytest.mark.parametrize("cut", ["build.journal.jsonl", "judgments.jsonl"])
def test_the_ladders_characters_are_those_of_all_its_prompts_after_a_kill_too(
    dialogues, tmp_path, cut
):
    def run():
        return run_method("ladder", dialogues, connect("builtin"), rungs=3, work=tmp_path)

    whole = run()
    # nothing was reused, so all of them were sent
    assert whole.result.characters == whole.characters
    lines = (tmp_path / cut).read_bytes().splitlines(keepends=True)
    (tmp_path / cut).write_bytes(b"".join(lines[: len(lines) // 2]))
    if cut == "build.journal.jsonl":
        (tmp_path / "judgments.jsonl").unlink()
    resumed = run()
    assert 0 < resumed.characters < whole.characters
    assert resumed.result.characters == whole.result.characters
    (card, *_) = report_cards([resumed], dialogues, dialogues.dimensions)
    assert card.characters == whole.characters


def test_a_method_from_another_package_plugs_in(dialogues, monkeypatch):
    def shouting(benchmark, dimensions, _judge, _settings):
        texts = {output.id: output.text for output in benchmark.outputs}
        scores = {
            (name, dimensions[0].name): float(text.count("!")) for name, text in texts.items()
        }
        return MethodResult(method=Method(name="shouting", signature="shouting", scores=scores))

    monkeypatch.setattr(
        "refladder.methods.contract.find", lambda *_: EvaluationMethod(run=shouting)
    )
    run = run_method("shouting", dialogues)
    assert (run.calls, run.characters, run.result.judgments) == (0, 0, 0)
    assert len(run.result.method.scores) == len(dialogues.outputs)


def test_a_metered_backend_answers_as_the_backend_itself_and_counts_whole_prompts():
    plain, metered = connect("builtin"), Metered(connect("builtin"))
    prompt = fill(load_template("open", "pairwise"), SLOTS)
    labels = prompt.labels
    assert metered.read_labels([prompt], labels) == plain.read_labels([prompt], labels)
    assert metered.fingerprint == plain.fingerprint
    assert metered.answered == 1
    assert metered.usage.characters == characters(prompt) == len(prompt.text)


def test_skipped_methods_are_reported(monkeypatch, command):
    words = "the benchmark has no references; choose another method"

    def skipping(*_arguments):
        return MethodResult(method=None, skipped=words)

    def found(name):
        return EvaluationMethod(run=skipping) if name == "bleu" else ladder

    monkeypatch.setattr(method_runs, "method_named", found)
    alone = command("evaluate", "demo/dialogue", "--methods", "bleu", "--resamples", "5")
    assert alone.code == 2
    assert f"bleu: {words}" in alone.err
    both = command("evaluate", "demo/dialogue", "--methods", "bleu,ladder", "--resamples", "5")
    assert both.code == 3
    assert f"bleu: {words}" in both.err
    assert "best of the" in both.out
    assert re.search(r"bleu +— +0 ", both.out)


JUDGED = ["ladder", "win-ratio", "pairs-beam", "zepo", "direct-5", "g-eval-10", "verifier"]


@pytest.mark.parametrize("name", JUDGED)
def test_no_method_scores_by_judgments_of_low_label_mass(name):
    class LowMass(Builtin):
        def read_labels(self, prompts, labels):
            return [replace(reading, mass=0.04) for reading in super().read_labels(prompts, labels)]

    def run(least_mass):
        settings = {"rungs": 3, "least_mass": least_mass, "writer": Builtin}
        return run_method(name, made_benchmark(), LowMass(), **settings).result

    usual, lower = run(0.05), run(0.04)
    assert set(usual.method.scores.values()) == {None}
    assert usual.unparsed == usual.judgments > 0
    assert None not in lower.method.scores.values()
    assert lower.unparsed == 0
    assert "least-mass:0.05" in usual.method.signature


class Writes(Builtin):
    """Writes the most probable label, and gives no label probabilities."""

    def __init__(self):
        self.seeds = set()

    def write(self, prompts, sampling):
        if prompts[0].role in {"worst", "best", "between"}:
            return super().write(prompts, sampling)
        self.seeds.add(sampling.seed)
        labels = list(prompts[0].labels)
        readings = [reading.logprobs for reading in super().read_labels(prompts, labels)]
        return [Completion(text=labels[values.index(max(values))]) for values in readings]

    def read_labels(self, _prompts, _labels):
        raise LabelsUnavailableError("no label probabilities")


@pytest.mark.parametrize("name", JUDGED)
def test_every_judged_method_honours_sampled_answers(name):
    judge = Writes()
    result = run_method(name, made_benchmark(), judge, rungs=3, answers=3, writer=Builtin).result
    assert judge.seeds == {0, 1, 2}
    assert result.unparsed == 0
    assert None not in result.method.scores.values()
    assert "answers:3" in result.method.signature


def test_a_method_that_cannot_sample_answers_says_so():
    class Counts(Builtin):
        def read_labels(self, prompts, labels):
            return [LabelReading(logprobs=(-1.0,) * len(labels), mass=None) for _ in prompts]

        def count_label_tokens(self, _prompt, labels):
            return [1] * len(labels)

    def notes(**settings):
        return run_method("gptscore", made_benchmark(), Counts(), **settings).result.notes

    words = "gptscore reads the log-probability of whole texts, which are not answers"
    assert notes(answers=3) == (f"--answers is not used: {words}",)
    assert notes() == ()
