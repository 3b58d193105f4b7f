"""direct-5, direct-10, g-eval-5, g-eval-10 and gptscore on a benchmark."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from doubles import Double

from refladder.backends import connect
from refladder.backends.dry_run import DryRunBackend
from refladder.backends.metered import Metered
from refladder.backends.scripted import Rule, Scripted
from refladder.commands.main import run as run_command
from refladder.errors import LabelsUnavailableError
from refladder.loaders import load_benchmark
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import rehearse_methods, run_methods
from refladder.records import LabelReading


@pytest.fixture(scope="module")
def dialogues():
    whole = load_benchmark("demo/dialogue")
    kept = {context.id for context in whole.contexts[:3]}
    return replace(
        whole,
        contexts=whole.contexts[:3],
        outputs=tuple(output for output in whole.outputs if output.context_id in kept),
        ratings=(),
    )


def one(name, benchmark, backend, **settings):
    return run_methods(
        [name], benchmark, benchmark.dimensions, lambda: backend, MethodSettings(**settings)
    )[0]


def answer(**shares):
    return {grade.removeprefix("g"): math.log(share) for grade, share in shares.items()}


@pytest.mark.parametrize(
    ("name", "grade", "grades"),
    [("direct-5", 4.0, 5), ("g-eval-5", 3.6, 5), ("direct-10", 10.0, 10)],
)
def test_grades_are_told_on_the_dimensions_scale(dialogues, name, grade, grades):
    # direct-5: 3 and 4 with .4 and .6, so 4 or 3 * .4 + 4 * .6 = 3.6; direct-10: 10
    five = answer(g1=1e-12, g2=1e-12, g3=0.4, g4=0.6 - 1e-11, g5=1e-12)
    ten = dict.fromkeys(map(str, range(1, 10)), -40.0) | {"10": math.log(0.9)}
    backend = Scripted([Rule(role="direct-5", answer=five), Rule(role="direct-10", answer=ten)])
    run = one(name, dialogues, backend)
    low, high = dialogues.dimensions[0].low, dialogues.dimensions[0].high
    expected = low + (high - low) * (grade - 1) / (grades - 1)
    values = run.result.method.scores.values()
    assert list(values) == pytest.approx(
        [expected] * len(dialogues.outputs) * len(dialogues.dimensions)
    )
    assert run.calls == run.result.judgments == len(dialogues.outputs) * len(dialogues.dimensions)
    assert run.result.unparsed == 0


def test_unreadable_judgments_are_counted_and_have_no_score(dialogues):
    first = dialogues.outputs[0]
    backend = Scripted(
        [
            Rule(contains={"target": first.text}, error="cut off"),
            Rule(answer=answer(g1=0.2, g2=0.2, g3=0.3, g4=0.1, g5=0.1)),
        ]
    )
    result = one("direct-5", dialogues, backend).result
    same = [output.id for output in dialogues.outputs if first.text in output.text]
    assert result.unparsed == len(same) * len(dialogues.dimensions)
    assert {key[0] for key, value in result.method.scores.items() if value is None} == set(same)


def test_judgments_are_kept_and_shared_by_both_readings(dialogues, tmp_path):
    first = one("direct-10", dialogues, connect("builtin"), work=tmp_path)
    assert first.result.reused == 0
    second = one("g-eval-10", dialogues, connect("builtin"), work=tmp_path)
    assert second.calls == 0
    assert second.result.reused == second.result.judgments == first.result.judgments
    again = one("g-eval-10", dialogues, connect("builtin"))
    assert again.result.method == second.result.method


@pytest.mark.parametrize("grades", [5, 100])
def test_a_run_that_was_cut_off_goes_on(dialogues, tmp_path, grades):
    whole = one(f"g-eval-{grades}", dialogues, connect("builtin"), work=tmp_path)
    file = tmp_path / f"direct-{grades}.judgments.jsonl"
    kept = file.read_bytes()
    lines = kept.splitlines(keepends=True)
    file.write_bytes(
        b"".join(lines[:4]) + lines[4][:20]
    )  # the run's line, three judgments and a torn one
    resumed = one(f"g-eval-{grades}", dialogues, connect("builtin"), work=tmp_path)
    assert resumed.result.reused == 3
    assert resumed.result.method == whole.result.method
    assert file.read_bytes() == kept


def test_such_judgments_cannot_be_rescored_by_ladder_rules(dialogues, tmp_path, capsys):
    one("g-eval-5", dialogues, connect("builtin"), work=tmp_path)
    out = str(tmp_path / "scores.jsonl")
    assert run_command(["rescore", str(tmp_path / "direct-5.judgments.jsonl"), "--out", out]) == 2
    assert (
        "judgments of pairs or of single texts, and rescore reads comparisons with ladders"
        in capsys.readouterr().err
    )


class Silent(Scripted):
    """Gives no label probabilities, as many endpoints do."""

    def read_labels(self, _prompts, _labels):
        raise LabelsUnavailableError("this endpoint gives no log-probabilities")


def test_a_judge_without_probabilities_draws_answers(dialogues):
    backend = Silent([Rule(texts=("4", "2", "no idea", "4"))])
    result = one("g-eval-5", dialogues, backend).result
    assert result.method is None
    assert result.skipped == (
        "this endpoint gives no log-probabilities; to count drawn answers, pass --answers 20"
    )
    drawn = one("g-eval-5", dialogues, backend, answers=4)
    low, high = dialogues.dimensions[0].low, dialogues.dimensions[0].high
    expected = low + (high - low) * (10 / 3 - 1) / 4  # (4 + 2 + 4) / 3
    assert list(drawn.result.method.scores.values()) == pytest.approx(
        [expected] * drawn.result.judgments
    )
    assert drawn.calls == 4 * drawn.result.judgments
    assert "|answers:4|grades:5|rule:expected" in drawn.result.method.signature
    assert "sampling:max5," in drawn.result.method.signature


def test_methods_of_one_run_share_what_was_answered(dialogues, tmp_path):
    for work in (None, tmp_path):
        settings = MethodSettings(work=work)
        names = ["direct-5", "g-eval-5"]
        first, second = run_methods(
            names, dialogues, dialogues.dimensions, lambda: connect("builtin"), settings
        )
        assert first.calls == first.result.judgments
        assert (second.calls, second.result.reused) == (0, first.result.judgments)
        assert (
            second.result.method.scores
            == one("g-eval-5", dialogues, connect("builtin")).result.method.scores
        )


class Letters(Double):
    """Each letter of a text is a token with probability 1/e, a vowel one with 1/e^2."""

    fingerprint = "letters/1"

    def __init__(self):
        self.asked = 0

    def read_labels(self, prompts, labels):
        self.asked += len(prompts)
        values = tuple(-float(sum(1 + (letter in "aeiou") for letter in text)) for text in labels)
        return [LabelReading(logprobs=values, mass=0.0) for _ in prompts]

    def count_label_tokens(self, _prompt, labels):
        return [len(text) for text in labels]


def test_gptscore_is_a_mean_over_tokens_and_is_kept(dialogues, tmp_path):
    backend = Letters()
    run = one("gptscore", dialogues, backend, work=tmp_path)
    for output in dialogues.outputs:
        vowels = sum(output.text.count(letter) for letter in "aeiou")
        expected = -(len(output.text) + vowels) / len(output.text)
        for dimension in dialogues.dimensions:
            assert run.result.method.scores[output.id, dimension.name] == pytest.approx(expected)
    asked = backend.asked
    assert asked >= len(dialogues.contexts) * len(dialogues.dimensions)
    again = one("gptscore", dialogues, backend, work=tmp_path)
    assert backend.asked == asked
    assert again.result.reused == again.result.judgments
    assert again.result.method == run.result.method
    assert "rule:mean-logprob-per-token" in run.result.method.signature


def test_gptscore_is_counted_before_it_is_run(dialogues):
    letters, judge = Letters(), Metered(Letters())
    unanswered = DryRunBackend(letters)

    def sentences(backend):
        asked = ["gptscore"], dialogues, dialogues.dimensions
        return rehearse_methods(*asked, lambda: backend, MethodSettings())

    assert sentences(unanswered) == []
    one("gptscore", dialogues, judge)
    assert unanswered.estimate().usage.prompts == judge.usage.prompts > 0
    assert letters.asked == 0
    ((name, reason),) = sentences(DryRunBackend(connect("builtin")))
    assert name == "gptscore"
    assert reason.startswith("judge 'builtin/1' cannot read the log-probability of a whole text")


def test_gptscore_of_a_judge_that_cannot_is_told(capsys):
    assert (
        run_command(["evaluate", "demo/dialogue", "--methods", "gptscore", "--resamples", "5"]) == 2
    )
    assert (
        "gptscore: judge 'builtin/1' cannot read the log-probability of a whole text"
        in capsys.readouterr().err
    )
    arguments = [
        "evaluate",
        "demo/dialogue",
        "--methods",
        "gptscore,direct-5",
        "--resamples",
        "5",
        "--format",
        "json",
    ]
    assert run_command(arguments) == 3
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    own = [row for row in rows if row.get("method") == "gptscore" and "value" in row]
    assert own
    assert all(row["value"] is None for row in own)
    assert all(
        row["signature"].startswith("unavailable:judge 'builtin/1' cannot read") for row in own
    )
