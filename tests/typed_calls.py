"""What a type checker knows about the calls; mypy reads this file, and nothing runs it."""

from typing import Any, assert_type

import refladder
from refladder.evaluation.results import Evaluation, Evaluations


def evaluate_one_or_several(rows: list[dict[str, Any]]) -> None:
    story = refladder.load_benchmark("demo/story")
    assert_type(refladder.evaluate("demo/story"), Evaluation)
    assert_type(refladder.evaluate(story, methods="bleu"), Evaluation)
    assert_type(refladder.evaluate(rows, task="story"), Evaluation)
    assert_type(refladder.evaluate(["demo/story", "demo/dialogue"]), Evaluations)
    assert_type(
        refladder.evaluate([story, "demo/dialogue"], source=[None, "dialogue.json"]), Evaluations
    )
    assert_type(refladder.score(rows, ladders="demo/story"), list[dict[str, Any]])
    assert_type(refladder.score("rows.csv", ladders="demo/story", dry_run=True), dict[str, Any])
    refladder.score(rows, jugde="builtin")  # type: ignore[call-overload] # a misspelled parameter is an error
    refladder.evaluate(story, jugde="builtin")  # type: ignore[call-overload] # a misspelled parameter is an error
    refladder.jury([rows, "rows.csv"], least=1, median=True)
    refladder.jury([rows, rows], leats=1)  # type: ignore[call-arg] # a misspelled parameter is an error
    assert_type(refladder.watch("general/reply", baseline="judge.json"), dict[str, Any])
    refladder.watch("general/reply")  # type: ignore[call-arg] # a watch needs a baseline
