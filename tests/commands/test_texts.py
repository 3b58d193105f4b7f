"""refladder.Scorer: scores of texts without a table."""

from __future__ import annotations

import json
import re

import pytest

import refladder
from refladder.errors import JudgeRefusedError, UnknownNameError, UsageError
from refladder.integrations.trl import reward

STORY = refladder.load_ladders("demo/story")
CONTEXT = next(iter(STORY.contexts.values()))
TEXTS = ["A dog ran home. It was late, and the dog was glad to be back.", "dog dog dog"]


@pytest.fixture(scope="module")
def scorer():
    return refladder.Scorer(ladders="demo/story")


def test_the_command_and_the_object_give_the_same_scores(scorer, command):
    (context_id, *_) = STORY.contexts
    arguments = [part for text in TEXTS for part in ("--text", text)]
    printed = command(
        f"score --ladders demo/story --context-id {context_id} --json", *arguments
    ).rows
    scores = scorer.score(TEXTS, context_id=context_id)
    assert [(score.dimension, score.value, score.grade, score.mass) for score in scores] == [
        (name, row[f"{name}_score"], row[f"{name}_grade"], row[f"{name}_mass"])
        for row in printed
        for name in ("coherence", "complexity")
    ]
    assert scorer.overall(scores) == [row["overall_score"] for row in printed]
    assert (
        {score.signature for score in scores}
        == {scorer.signature}
        == {row["signature"] for row in printed}
    )


def test_ids_are_those_of_a_table(scorer, command, tmp_path):
    table = tmp_path / "table.jsonl"
    rows = [{"context": CONTEXT.text, "output": text} for text in TEXTS]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("score", table, "--ladders", "demo/story")
    # The ids of the shipped contexts are not made from their text, so the text alone leads to no ladder.
    by_text = scorer.score(TEXTS, context=CONTEXT.text, dimension="coherence")
    assert [score.value for score in by_text] == [None] * len(TEXTS)
    (context_id,) = {re.findall("'([^']+)'", score.reason)[0] for score in by_text}
    assert done.code == 2
    assert (
        f"no row has a ladder; there is none for context {context_id!r} in demo/story" in done.err
    )
    both = scorer.score(TEXTS, context_id=CONTEXT.id, context=CONTEXT.text, dimension="coherence")
    assert both == scorer.score(TEXTS, context_id=CONTEXT.id, dimension="coherence")
    assert None not in [score.value for score in both]


def test_one_dimension_gives_one_score_for_each_text(scorer):
    scores = scorer.score(TEXTS, context_id=CONTEXT.id, dimension="complexity")
    assert [score.dimension for score in scores] == ["complexity"] * 2
    single = refladder.Scorer(ladders=STORY, dimensions=["complexity"])
    alone = single.score(TEXTS, context_id=CONTEXT.id)
    assert [score.value for score in alone] == [score.value for score in scores]


def test_texts_of_several_contexts_are_scored_in_one_call(scorer):
    first, second = list(STORY.contexts)[:2]
    together = scorer.score(TEXTS, context_id=[first, second])
    assert together == [
        *scorer.score(TEXTS[:1], context_id=first),
        *scorer.score(TEXTS[1:], context_id=second),
    ]


def test_what_cannot_be_scored_has_a_reason_and_no_value(scorer):
    one = {"context_id": CONTEXT.id, "dimension": "coherence"}
    *unscored, scored = scorer.score(["", None, TEXTS[0]], **one)
    assert scored.value is not None
    unscored += scorer.score(TEXTS[:1], **{**one, "context_id": "none"})
    unscored += scorer.score(TEXTS[:1], context="Another idea.", **one)
    assert [(score.value, score.reason) for score in unscored] == [
        (None, "the output is empty"),
        (None, "the output is null"),
        (None, "no coherence ladder for context 'none' in demo/story"),
        (
            None,
            f"context {CONTEXT.id!r} has another text in this row than in the ladder set demo/story",
        ),
    ]
    assert scorer.overall(scorer.score(["", TEXTS[0]], context_id=CONTEXT.id))[0] is None


def test_no_texts_give_no_scores(scorer):
    assert scorer.score([], context_id=CONTEXT.id) == []
    assert scorer.overall([]) == []


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (
            "one text",
            {"context_id": "a"},
            "texts must be a list of texts or lists, found 'one text'",
        ),
        (["a"], {}, "the texts have no context; give context_id=ID or context=TEXT"),
        (
            ["a"],
            {"context_id": ["a", "b"]},
            "context_id holds 2 values for 1 texts; give one for each",
        ),
        (
            ["a"],
            {"context_id": "a", "dimension": "coherense"},
            "did you mean 'coherence'",
        ),
    ],
)
def test_wrong_calls_say_what_to_do(scorer, texts, options, message):
    with pytest.raises(UsageError, match=message):
        scorer.score(texts, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"judge": "hf:none", "rule": "ladder-sun"},
            "unknown rule 'ladder-sun'; did you mean 'ladder-sum'",
        ),
        ({"judge": "hf:none", "dimensions": ["fluency"]}, "unknown dimension 'fluency'"),
        ({"judge_options": {"dtype": "x"}}, "unknown option of backend 'builtin' 'dtype'"),
    ],
)
def test_a_scorer_is_checked_before_its_judge_is_opened(options, message):
    with pytest.raises(UnknownNameError, match=message):
        refladder.Scorer(ladders="demo/story", **options)


def test_a_scorer_that_refuses_its_judge_names_its_own_parameters():
    message = "name a judge model with judge; any_judge scores anyway"
    with pytest.raises(JudgeRefusedError, match=message):
        refladder.score([{"output": "A text."}], ladders="general/reply")
    # A scorer asks nothing, and refuses what the check of that call found.
    with pytest.raises(JudgeRefusedError, match=message):
        refladder.Scorer(ladders="general/reply")


def test_the_overall_score_needs_all_dimensions(scorer):
    scores = scorer.score(["a b"], context_id=CONTEXT.id, dimension="coherence")
    message = "the overall score needs the scores of coherence, complexity for each text"
    with pytest.raises(UsageError, match=message):
        scorer.overall(scores)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_rewards_of_a_trainer_have_names_of_their_own(asynchronous):
    """TRL logs a reward as `rewards/NAME/mean`."""
    how = {"ladders": "demo/story", "asynchronous": asynchronous}
    rewards = [reward(**how, dimensions=[name]) for name in ("coherence", "complexity")]
    assert [each.__name__ for each in rewards] == ["reward_coherence", "reward_complexity"]
    assert reward(**how).__name__ == "reward_coherence_complexity"
