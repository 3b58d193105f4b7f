"""The table of methods: names, options, counting, and the ladder behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from refusals import refuses
from small_benchmarks import run_method

from refladder.backends import connect
from refladder.backends.builtin import Builtin
from refladder.backends.dry_run import DryRunBackend
from refladder.errors import (
    JudgeRefusedError,
    LabelsUnavailableError,
    UnknownNameError,
    UsageError,
)
from refladder.evaluation.cards import report_cards
from refladder.methods.contract import (
    METHODS,
    EvaluationMethod,
    Method,
    MethodResult,
    MethodSettings,
    method_named,
)
from refladder.methods.method_runs import rehearse_methods, run_methods
from refladder.records import Completion, LabelReading
from refladder.registry import Entry
from refladder.testing import made_benchmark


def test_a_registered_function_that_is_no_method_is_refused(monkeypatch):
    monkeypatch.setitem(METHODS, "plain", Entry("refladder.methods.method_runs:run_methods", ""))
    message = r"method 'plain' is registered as <function run_methods .* not an Evaluation"
    with pytest.raises(UsageError, match=message):
        method_named("plain")


def test_names_and_options_are_checked_before_anything_is_asked(dialogues):
    def refused(error, message, *names, **options):
        settings = MethodSettings(options=options)
        given = names, dialogues, dialogues.dimensions, pytest.fail, settings
        refuses(error, message, run_methods, *given)

    refused(UnknownNameError, "unknown method 'lader'; did you mean 'ladder'", "lader")
    message = "method 'ladder' is asked for twice; name each method once"
    refused(UsageError, message, "ladder", "ladder")
    message = "unknown method of this run 'poe'. Known: ladder"
    refused(UnknownNameError, message, "ladder", **{"poe.budget": "3"})
    message = "unknown option of method 'ladder' 'budget'. Known: none"
    refused(UnknownNameError, message, "ladder", **{"ladder.budget": "3"})


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


JUDGED = ["ladder", "win-ratio", "pairs-beam", "zepo", "direct-5", "g-eval-10", "verifier"]


@pytest.mark.parametrize("name", JUDGED)
def test_no_method_scores_by_judgments_of_low_label_mass(name):
    class LowMass(Builtin):
        def read_labels(self, prompts, labels):
            return [replace(reading, mass=0.04) for reading in super().read_labels(prompts, labels)]

    def run(least_mass):
        settings = {"rungs": 3, "least_mass": least_mass, "writer": Builtin}
        return run_method(name, made_benchmark(), LowMass(), **settings).result

    lower = run(0.04)
    assert None not in lower.method.scores.values()
    assert lower.unparsed == 0
    if name == "ladder":
        # Its judge check ends a run of which nothing can be read.
        with pytest.raises(JudgeRefusedError, match=r"label mass 0\.04 is below 0\.05"):
            run(0.05)
        return
    usual = run(0.05)
    assert set(usual.method.scores.values()) == {None}
    assert usual.unparsed == usual.judgments > 0
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


class Counts(Builtin):
    """Reads whole texts: every word is a token."""

    def read_labels(self, prompts, labels):
        if prompts[0].role != "best":
            return super().read_labels(prompts, labels)
        return [LabelReading(logprobs=tuple(-1.0 - len(text) for text in labels), mass=None)]

    def count_label_tokens(self, _prompt, labels):
        return [len(text.split()) for text in labels]


def test_a_method_that_cannot_sample_answers_says_so():
    def notes(**settings):
        return run_method("gptscore", made_benchmark(), Counts(), **settings).result.notes

    words = "gptscore reads the log-probability of whole texts, which are not answers"
    assert notes(answers=3) == (f"--answers is not used: {words}",)
    assert notes() == ()


FILES = {
    "direct-5": "direct-5.judgments.jsonl",
    "g-eval-100": "direct-100.judgments.jsonl",
    "verifier": "verifier.judgments.jsonl",
    "gptscore": "gptscore.judgments.jsonl",
    "win-ratio": "pairwise-*.jsonl",
}


@pytest.mark.parametrize(("name", "files"), FILES.items())
def test_a_run_that_was_killed_goes_on(name, files, dialogues, tmp_path):
    def run():
        return run_method(name, dialogues, Counts(), work=tmp_path)

    whole = run()
    (path,) = tmp_path.glob(files)
    kept = path.read_bytes()
    lines = kept.splitlines(keepends=True)
    half = len(lines) // 2
    path.write_bytes(b"".join(lines[:half]) + lines[half][:20])
    resumed, again = run(), run()
    # the first line is the run's
    assert (whole.result.reused, resumed.result.reused) == (0, half - 1)
    assert 0 < resumed.characters < whole.characters
    assert resumed.result.characters == whole.result.characters
    assert path.read_bytes() == kept
    assert (again.calls, again.result.reused) == (0, again.result.judgments)
    assert again.result.method == resumed.result.method == whole.result.method


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, {}) for name in FILES), ("verifier", {"budget": 2, "selection": "random"})],
)
def test_a_dry_run_counts_what_the_run_asks(name, settings, dialogues):
    judge = DryRunBackend(Counts())
    asked = [name], dialogues, dialogues.dimensions, lambda: judge, MethodSettings(**settings)
    assert rehearse_methods(*asked) == []
    run = run_method(name, dialogues, Counts(), **settings)
    assert judge.estimate().usage.prompts == run.calls > 0
