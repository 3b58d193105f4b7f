"""direct-5, direct-10, g-eval-5, g-eval-10 and g-eval-100 on a benchmark."""

from __future__ import annotations

import math

import pytest
from small_benchmarks import run_method

from refladder.backends import connect
from refladder.backends.scripted import Rule, Scripted
from refladder.errors import LabelsUnavailableError
from refladder.methods.contract import MethodSettings
from refladder.methods.method_runs import run_methods


def answer(*shares):
    return {str(grade): math.log(share) for grade, share in enumerate(shares, 1)}


FIVE = answer(1e-12, 1e-12, 0.4, 0.6 - 1e-11, 1e-12)
TEN = {**dict.fromkeys(map(str, range(1, 10)), -40.0), "10": math.log(0.9)}


def on_scale(dimension, grade, grades):
    return dimension.low + (dimension.high - dimension.low) * (grade - 1) / (grades - 1)


@pytest.mark.parametrize(
    ("name", "grade", "grades"),
    # of 3 and 4 with .4 and .6: the most probable is 4, the mean 3 * .4 + 4 * .6 = 3.6
    [("direct-5", 4.0, 5), ("g-eval-5", 3.6, 5), ("direct-10", 10.0, 10)],
)
def test_grades_are_on_the_scale_of_the_dimension(dialogues, name, grade, grades):
    judge = Scripted([Rule(role="direct-5", answer=FIVE), Rule(role="direct-10", answer=TEN)])
    run = run_method(name, dialogues, judge)
    count = len(dialogues.outputs) * len(dialogues.dimensions)
    expected = on_scale(dialogues.dimensions[0], grade, grades)
    assert list(run.result.method.scores.values()) == pytest.approx([expected] * count)
    assert run.calls == run.result.judgments == count
    assert run.result.unparsed == 0


def test_unparsed_judgments_are_counted_and_have_no_score(dialogues):
    first = dialogues.outputs[0]
    rules = [Rule(contains={"target": first.text}, error="cut off"), Rule(answer=FIVE)]
    result = run_method("direct-5", dialogues, Scripted(rules)).result
    same = {output.id for output in dialogues.outputs if first.text in output.text}
    assert result.unparsed == len(same) * len(dialogues.dimensions)
    assert {key[0] for key, value in result.method.scores.items() if value is None} == same


def test_such_judgments_cannot_be_rescored_by_ladder_rules(dialogues, tmp_path, fails):
    run_method("g-eval-5", dialogues, connect("builtin"), work=tmp_path)
    judgments = tmp_path / "direct-5.judgments.jsonl"
    words = "judgments of pairs or of single texts, and rescore reads comparisons with ladders"
    assert words in fails(2, "rescore", judgments, "--out", tmp_path / "scores.jsonl")


class Silent(Scripted):
    """Gives no label probabilities, as many endpoints do."""

    def read_labels(self, _prompts, _labels):
        raise LabelsUnavailableError("this endpoint gives no log-probabilities")


@pytest.mark.parametrize("name", ["g-eval-5", "verifier"])
def test_a_judge_without_probabilities_is_skipped(dialogues, name):
    result = run_method(name, dialogues, Silent([])).result
    assert result.method is None
    words = "this endpoint gives no log-probabilities; to count drawn answers, pass --answers 20"
    assert result.skipped == words


def test_drawn_answers_are_counted(dialogues):
    judge = Silent([Rule(texts=("4", "2", "no idea", "4"))])
    drawn = run_method("g-eval-5", dialogues, judge, answers=4)
    expected = on_scale(dialogues.dimensions[0], 10 / 3, 5)  # (4 + 2 + 4) / 3
    values = list(drawn.result.method.scores.values())
    assert values == pytest.approx([expected] * drawn.result.judgments)
    assert drawn.calls == 4 * drawn.result.judgments
    assert "|answers:4|grades:5|rule:expected" in drawn.result.method.signature
    assert "sampling:max5," in drawn.result.method.signature


@pytest.mark.parametrize("folder", [False, True])
def test_both_readings_of_a_run_share_its_answers(dialogues, tmp_path, folder):
    settings = MethodSettings(work=tmp_path if folder else None)
    names = ["direct-5", "g-eval-5"]
    judge = connect("builtin")
    first, second = run_methods(names, dialogues, dialogues.dimensions, lambda: judge, settings)
    assert first.calls == first.result.judgments
    assert (second.calls, second.result.reused) == (0, first.result.judgments)
    assert second.result.method == run_method("g-eval-5", dialogues, judge).result.method
