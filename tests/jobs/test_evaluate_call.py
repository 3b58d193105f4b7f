"""The evaluate job, called with what the command line opens for it."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import pytest
from doubles import Double
from evaluating import evaluate

import refladder
from refladder.errors import UnknownNameError, UsageError
from refladder.methods.surface import BEST

STORY = refladder.load_benchmark("demo/story")
QUICK = refladder.Protocol(resamples=20)


class NeverAsked(Double):
    fingerprint = "never-asked"

    def write(self, _prompts, _sampling):
        raise AssertionError("asked to write")

    def read_labels(self, _prompts, _labels):
        raise AssertionError("asked to judge")


class NeverOpened(NeverAsked):
    def load(self):
        raise AssertionError("opened")


def test_one_call_gives_rows_runs_cards_notes_and_costs(tmp_path):
    settings = refladder.MethodSettings(ladders="demo/story", work=tmp_path / "work")
    evaluation = evaluate(
        STORY,
        judge=refladder.connect("builtin"),
        methods=["ladder", "bleu"],
        settings=settings,
        config={"a": 1},
    )
    assert list(dict.fromkeys(row.method for row in evaluation.rows)) == ["ladder", "bleu", BEST]
    assert [run.name for run in evaluation.runs] == ["ladder", "bleu"]
    assert {card.dimension for card in evaluation.cards if card.method == "ladder"} == {
        "all",
        "coherence",
        "complexity",
    }
    scores = evaluation.runs[0].result.method.scores
    assert scores.keys() == {
        (output.id, d.name) for output in STORY.outputs for d in STORY.dimensions
    }
    assert [note.partition(":")[0] for note in evaluation.notes] == [
        "bleu"
    ]  # the stories have no references
    assert not evaluation.complete
    assert json.loads((tmp_path / "work" / "run.json").read_text()).keys() == {
        *("a", "options", "judge_check"),
    }
    with pytest.raises(FrozenInstanceError):
        evaluation.rows = ()


@pytest.fixture
def scores_in(tmp_path):
    def write(name):
        path = tmp_path / f"{name}.jsonl"
        rows = ({"output_id": each.id, "score": len(each.text)} for each in STORY.outputs)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return [str(path)]

    return write


def test_scores_that_exist_need_no_judge(scores_in):
    scores = scores_in("characters")
    evaluation = evaluate(STORY, judge=NeverAsked(), methods=(), scores=scores, protocol=QUICK)
    assert list(dict.fromkeys(row.method for row in evaluation.rows)) == ["characters", BEST]
    assert evaluation.runs == evaluation.cards == evaluation.notes == ()
    assert evaluation.complete


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        ({"methods": ["laddr"]}, UnknownNameError, "unknown method 'laddr'; did you mean 'ladder'"),
        ({"methods": ["ladder", "ladder"]}, UsageError, "method 'ladder' is asked for twice"),
        ({"dimensions": []}, UsageError, "demo/story has no ratings on "),
        (
            {"benchmark": replace(STORY, ratings=())},
            UsageError,
            "demo/story has no ratings on coherence, complexity",
        ),
        (
            {"protocol": replace(QUICK, reference="lenght")},
            UnknownNameError,
            "unknown reference method 'lenght'",
        ),
        (
            {"settings": refladder.MethodSettings(options={"zepo.steps": "1"})},
            UnknownNameError,
            "unknown method of this run 'zepo'",
        ),
    ],
)
def test_a_wrong_request_is_refused_before_the_judge_is_opened(request_, error, message):
    request_ = {"benchmark": STORY, "judge": NeverOpened(), **request_}
    with pytest.raises(error, match=message):
        evaluate(request_.pop("benchmark"), **request_)


def test_two_methods_of_one_name(scores_in):
    with pytest.raises(
        UsageError, match="two methods are called 'ladder'; rename the file of scores"
    ):
        evaluate(STORY, judge=NeverAsked(), scores=scores_in("ladder"))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("levels", ("within",), "unknown level 'within'"),
        ("levels", (), "a protocol needs one level and one statistic or more; name them"),
        ("statistics", ("spearmann",), "unknown statistic 'spearmann'; did you mean 'spearman'"),
        ("constant", "two", "unknown convention for constant contexts 'two'"),
        ("baselines", "none", "unknown choice of baselines 'none'"),
        ("resamples", 0, "0 permutations; a test needs 1 or more"),
    ],
)
def test_a_protocol_is_checked_when_it_is_made(field, value, message):
    with pytest.raises(UsageError, match=message):
        refladder.Protocol(**{field: value})


def test_the_call_leaves_the_results_of_the_command_for_review(command, tmp_path):
    typed, called = tmp_path / "typed", tmp_path / "called"
    line = ("--ladders", "demo/story", "--statistic", "kendall", "--resamples", "20")
    assert command("evaluate", "demo/story", *line, "--work", typed).code == 0
    protocol = replace(QUICK, statistics=("kendall",))
    refladder.evaluate("demo/story", ladders="demo/story", protocol=protocol, work=called)
    results = [
        [
            line
            for line in map(json.loads, (folder / "results.jsonl").read_text().splitlines())
            if "what each method needed" not in line.get("caption", "")  # the seconds of the run
        ]
        for folder in (typed, called)
    ]
    assert results[0] == results[1]
    assert {line["kind"] for line in results[0]} >= {"row", "text", "rating", "score", "table"}
