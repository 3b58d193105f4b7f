"""The scorer in real runs of Inspect, with its model for tests."""

from __future__ import annotations

import json
import math

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed; run make test-integrations")

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import mean, precomputed_scores, stderr
from inspect_ai.solver import generate
from story_texts import CONTEXT_IDS, TEXTS

import refladder
from refladder.errors import UnknownNameError
from refladder.integrations.inspect import ladder


def answer(text):
    output = ModelOutput.from_content("mockllm", text)
    output.usage = ModelUsage()  # otherwise a tokenizer is downloaded, to count tokens
    return output


def run(scorer, metadata, folder, texts=TEXTS):
    import anyio

    model = get_model(
        "mockllm/model", custom_outputs=[answer(text) for text in texts], memoize=False
    )
    task = Task(
        dataset=[Sample(input="Write.", metadata=row) for row in metadata],
        solver=generate(),
        scorer=scorer,
    )

    async def go():
        return await eval_async(task, model=model, log_dir=str(folder), max_samples=1)

    (log,) = anyio.run(go)
    return log


def test_samples_have_the_scores_of_the_command_line_and_one_stays_unscored(tmp_path, expected):
    scorer = ladder(ladders="demo/story", dimensions=["coherence"])
    log = run(scorer, [{"context_id": name} for name in CONTEXT_IDS], tmp_path)
    assert log.status == "success", log.error
    first, second, unscored = (sample.scores["refladder"] for sample in log.samples)
    assert [first.value, second.value] == [row["coherence_score"] for row in expected]
    assert first.metadata["coherence"] == first.value
    assert first.metadata["signature"] == expected[0]["signature"]
    assert math.isnan(unscored.value)
    assert unscored.reason == "scoring_failed"
    assert (
        unscored.explanation
        == "coherence: no coherence ladder for context 'story-99' in demo/story"
    )
    (result,) = log.results.scores
    assert (result.scored_samples, result.unscored_samples) == (2, 1)
    assert result.metrics["mean"].value == pytest.approx((first.value + second.value) / 2)


def test_scores_of_a_table_are_given_to_a_log_by_precomputed_scores(tmp_path, expected):
    """The samples of `run` have the ids 1, 2 and 3; the last has no ladder, and so no record."""
    answers = [
        {"id": number, "context_id": name, "output": text}
        for number, (name, text) in enumerate(zip(CONTEXT_IDS, TEXTS, strict=True), start=1)
    ]
    scored = refladder.score(answers, ladders="demo/story", dimensions=["coherence"])
    records = [
        {
            "id": row["id"],
            "value": row["coherence_score"],
            "metadata": {"signature": row["signature"]},
        }
        for row in scored
        if row["coherence_score"] is not None
    ]
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    scorer = precomputed_scores(str(path), metrics=[mean(), stderr()])
    log = run(scorer, [{"context_id": name} for name in CONTEXT_IDS], tmp_path)
    assert log.status == "success", log.error
    scores = [(sample.scores or {}).get("precomputed_scores") for sample in log.samples]
    assert [score.value for score in scores[:2]] == [row["coherence_score"] for row in expected]
    assert scores[0].metadata == {"signature": expected[0]["signature"]}
    assert scores[2] is None  # which Inspect does not count as unscored either
    (result,) = log.results.scores
    assert (result.scored_samples, result.unscored_samples) == (2, 0)
    assert result.metrics["mean"].value == pytest.approx(
        sum(score.value for score in scores[:2]) / 2
    )


def test_several_dimensions_give_the_overall_score(tmp_path, expected):
    log = run(
        ladder(ladders="demo/story"), [{"context_id": name} for name in CONTEXT_IDS[:2]], tmp_path
    )
    scores = [sample.scores["refladder"] for sample in log.samples]
    assert [score.value for score in scores] == [row["overall_score"] for row in expected]
    assert [score.metadata["complexity"] for score in scores] == [
        row["complexity_score"] for row in expected
    ]


def test_answers_of_a_store_can_be_used(tmp_path, expected):
    scorer = ladder(
        ladders="demo/story", dimensions=["coherence"], store=str(tmp_path / "store.sqlite")
    )
    log = run(scorer, [{"context_id": CONTEXT_IDS[0]}], tmp_path)
    assert log.samples[0].scores["refladder"].value == expected[0]["coherence_score"]


def test_bad_input(tmp_path):
    with pytest.raises(
        UnknownNameError, match=r"unknown ladder set .* 'demo/stori'; did you mean 'demo/story'"
    ):
        ladder(ladders="demo/stori")
    log = run(ladder(ladders="demo/story"), [{"topic": "dogs"}], tmp_path)
    assert log.status == "error"
    assert (
        "needs a field context_id (of the ladder set) or context; fields: topic"
        in log.error.message
    )
