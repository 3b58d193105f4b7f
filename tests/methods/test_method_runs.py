"""The table of methods: names, options, counting, and the ladder behind it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from refladder import registry
from refladder.backends import connect
from refladder.backends.builtin import Builtin
from refladder.backends.metered import Metered
from refladder.backends.usage import characters
from refladder.commands.main import run as run_command
from refladder.errors import LabelsUnavailableError, UnknownNameError, UsageError
from refladder.loaders import load_benchmark
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.methods.contract import Judge
    from refladder.records import Benchmark, Dimension


def builtin() -> Backend:
    return connect("builtin")


@pytest.fixture(scope="module")
def dialogues():
    return load_benchmark("demo/dialogue")


@pytest.mark.parametrize("name", METHODS)
def test_every_name_leads_to_a_method(name):
    method = method_named(name)
    assert isinstance(method, EvaluationMethod)
    assert callable(method.run)


def test_a_registered_function_that_is_no_method_is_refused(monkeypatch):
    monkeypatch.setitem(METHODS, "plain", Entry("refladder.methods.method_runs:run_methods", ""))
    with pytest.raises(
        UsageError,
        match=r"method 'plain' is registered as <function run_methods .* not an Evaluation",
    ):
        method_named("plain")


def test_an_unknown_method_gets_the_near_name():
    with pytest.raises(
        UnknownNameError, match=r"unknown method 'lader'; did you mean 'ladder'\? Known: .*ladder"
    ):
        method_named("lader")


def test_names_and_options_are_checked_before_anything_is_asked(dialogues):
    def judge() -> Backend:
        raise AssertionError

    with pytest.raises(
        UsageError, match="method 'ladder' is asked for twice; name each method once"
    ):
        run_methods(["ladder", "ladder"], dialogues, dialogues.dimensions, judge, MethodSettings())
    with pytest.raises(UnknownNameError, match="unknown method of this run 'poe'; Known: ladder"):
        run_methods(
            ["ladder"],
            dialogues,
            dialogues.dimensions,
            judge,
            MethodSettings(options={"poe.budget": "3"}),
        )
    with pytest.raises(
        UnknownNameError, match="unknown option of method 'ladder' 'budget'; Known: none"
    ):
        run_methods(
            ["ladder"],
            dialogues,
            dialogues.dimensions,
            judge,
            MethodSettings(options={"ladder.budget": "3"}),
        )


def test_own_options_stand_over_the_defaults():
    settings = MethodSettings(options={"one.answers": "3", "two.answers": "5"})
    assert settings.own("one", {"answers": "1", "scale": "10"}) == {"answers": "3", "scale": "10"}


def test_the_ladder_scores_every_output_and_is_counted(dialogues):
    run = run_methods(
        ["ladder"], dialogues, dialogues.dimensions, builtin, MethodSettings(rungs=3)
    )[0]
    outputs, dimensions, contexts = (
        len(dialogues.outputs),
        len(dialogues.dimensions),
        len(dialogues.contexts),
    )
    assert run.result.judgments == outputs * dimensions * 3
    # every judgment and every rung is one prompt, once: each rung was written at the first attempt or again
    assert run.calls >= outputs * dimensions * 3 + contexts * dimensions * 3
    assert run.characters > 0
    assert 0 < run.judge_seconds <= run.seconds
    assert run.result.method is not None
    assert None not in run.result.method.scores.values()


@pytest.mark.parametrize("cut", ["build.journal.jsonl", "judgments.jsonl"])
def test_the_ladders_characters_are_those_of_all_its_prompts_after_a_kill_too(
    dialogues, tmp_path, cut
):
    def ran():
        settings = MethodSettings(rungs=3, work=tmp_path)
        return run_methods(["ladder"], dialogues, dialogues.dimensions, builtin, settings)[0]

    whole = ran()
    assert (
        whole.result.characters == whole.characters
    )  # nothing was reused, so all of them were sent
    lines = (tmp_path / cut).read_bytes().splitlines(keepends=True)
    (tmp_path / cut).write_bytes(b"".join(lines[: len(lines) // 2]))
    if cut == "build.journal.jsonl":
        (tmp_path / "judgments.jsonl").unlink()
    resumed = ran()
    assert 0 < resumed.characters < whole.characters
    assert resumed.result.characters == whole.result.characters
    (card, *_) = report_cards([resumed], dialogues, dialogues.dimensions)
    assert card.characters == whole.characters


def test_a_method_from_another_package_plugs_in(dialogues, monkeypatch):
    def shouting(
        benchmark: Benchmark,
        dimensions: Sequence[Dimension],
        _judge: Judge,
        _settings: MethodSettings,
        /,
    ) -> MethodResult:
        scores = {
            (output.id, dimensions[0].name): float(output.text.count("!"))
            for output in benchmark.outputs
        }
        return MethodResult(method=Method(name="shouting", signature="shouting", scores=scores))

    monkeypatch.setattr(registry, "find", lambda *_arguments: EvaluationMethod(run=shouting))
    run = run_methods(["shouting"], dialogues, dialogues.dimensions, builtin, MethodSettings())[0]
    assert (run.calls, run.characters, run.result.judgments) == (0, 0, 0)


def test_characters_are_those_of_the_whole_prompt():
    template = load_template("open", "pairwise")
    slots = {
        "context": "Why?",
        "background": "",
        "first": "So.",
        "second": "Ça",
        "dimension": "tone",
        "description": "Kind.",
    }
    prompt = fill(template, slots)
    assert characters(prompt) == len(prompt.text)


def test_a_metered_backend_answers_as_the_backend_itself():
    plain, metered = builtin(), Metered(builtin())
    template = load_template("open", "pairwise")
    slots = {
        "context": "Why?",
        "first": "So it is.",
        "second": "No",
        "dimension": "tone",
        "description": "Kind.",
        "background": "",
    }
    prompts = [fill(template, slots)]
    assert metered.read_labels(prompts, prompts[0].labels) == plain.read_labels(
        prompts, prompts[0].labels
    )
    assert metered.fingerprint == plain.fingerprint
    assert metered.answered == 1


def test_skipped_methods_and_notes_are_told(monkeypatch, capsys):
    def skipping(*_arguments: object) -> MethodResult:
        return MethodResult(
            method=None, skipped="the benchmark has no references; choose another method"
        )

    monkeypatch.setattr(method_runs, "method_named", lambda _name: EvaluationMethod(run=skipping))
    assert run_command(["evaluate", "demo/dialogue", "--methods", "bleu", "--resamples", "5"]) == 2
    assert "bleu: the benchmark has no references; choose another method" in capsys.readouterr().err

    def second(name: str) -> EvaluationMethod:
        return EvaluationMethod(run=skipping) if name == "bleu" else ladder

    monkeypatch.setattr(method_runs, "method_named", second)
    assert (
        run_command(["evaluate", "demo/dialogue", "--methods", "bleu,ladder", "--resamples", "5"])
        == 3
    )
    printed = capsys.readouterr()
    assert "bleu: the benchmark has no references; choose another method" in printed.err
    assert "best of the" in printed.out
    assert re.search(r"bleu +— +0 ", printed.out)


@pytest.mark.parametrize(
    "name", ["ladder", "win-ratio", "pairs-greedy", "zepo", "direct-5", "g-eval-10", "verifier"]
)
def test_no_method_scores_by_judgments_of_low_label_mass(name):
    benchmark = made_benchmark()

    class LowMass(Builtin):
        def read_labels(self, prompts, labels):
            return [replace(reading, mass=0.04) for reading in super().read_labels(prompts, labels)]

    def run(least_mass):
        settings = MethodSettings(rungs=3, least_mass=least_mass, writer=Builtin)
        return run_methods([name], benchmark, benchmark.dimensions, LowMass, settings)[0].result

    usual, lower = run(0.05), run(0.04)
    assert all(value is None for value in usual.method.scores.values())
    assert usual.unparsed == usual.judgments > 0
    assert all(value is not None for value in lower.method.scores.values())
    assert lower.unparsed == 0
    assert "least-mass:0.05" in usual.method.signature


@pytest.mark.parametrize(
    "name", ["ladder", "win-ratio", "pairs-beam", "zepo", "direct-5", "g-eval-10", "verifier"]
)
def test_every_judged_method_honours_sampled_answers(name):
    benchmark = made_benchmark()

    class Writes(Builtin):
        """Writes the most probable label, and gives no label probabilities."""

        def __init__(self):
            self.seeds = set()

        def write(self, prompts, sampling):
            if prompts[0].role in {"worst", "best", "between"}:
                return super().write(prompts, sampling)
            self.seeds.add(sampling.seed)
            labels = list(prompts[0].labels)
            readings = super().read_labels(prompts, labels)
            return [
                Completion(text=labels[reading.logprobs.index(max(reading.logprobs))])
                for reading in readings
            ]

        def read_labels(self, _prompts, _labels):
            raise LabelsUnavailableError("no label probabilities")

    judge = Writes()
    settings = MethodSettings(rungs=3, answers=3, writer=Builtin)
    result = run_methods([name], benchmark, benchmark.dimensions, lambda: judge, settings)[0].result
    assert judge.seeds == {0, 1, 2}
    assert result.unparsed == 0
    assert all(value is not None for value in result.method.scores.values())
    assert "answers:3" in result.method.signature


def test_a_method_that_cannot_sample_answers_says_so():
    benchmark = made_benchmark()

    class Counts(Builtin):
        def read_labels(self, prompts, labels):
            return [LabelReading(logprobs=(-1.0,) * len(labels), mass=None) for _ in prompts]

        def count_label_tokens(self, _prompt, labels):
            return [1] * len(labels)

    settings = MethodSettings(answers=3)
    result = run_methods(["gptscore"], benchmark, benchmark.dimensions, Counts, settings)[0].result
    assert result.notes == (
        "--answers is not used: gptscore reads the log-probability of whole texts, which are not answers",
    )
    plain = run_methods(["gptscore"], benchmark, benchmark.dimensions, Counts, MethodSettings())[
        0
    ].result
    assert plain.notes == ()
