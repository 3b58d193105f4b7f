"""refladder.show and refladder.compete give what the commands give."""

from __future__ import annotations

import json

import pytest

import refladder
from refladder.errors import PromptError, UnknownNameError, UsageError

ROWS = [
    {
        "output_id": "a",
        "context_id": "story-01",
        "output": "A keeper found a bottle, and she wept.",
    },
    {"output_id": "b", "context_id": "story-01", "output": "keeper keeper"},
    {"output_id": "c", "context_id": "story-02", "output": "The bell was gone."},
]
TABLE = [{"id": 1, "place": "a beach"}, {"id": 2, "place": "a library"}]
WORDS = {
    "warm": {
        "a beach": "Come to the beach at six, you two.",
        "a library": "The library is yours tonight.",
    },
    "curt": {"a beach": "Beach. Beach.", "a library": "Library. Library."},
}


@pytest.mark.parametrize("kind", ["rows", "path"])
def test_show_gives_the_lines_of_the_command(command, write_jsonl, kind):
    scored = refladder.score(ROWS, ladders="demo/story")
    path = write_jsonl(scored, "scored.jsonl")
    given = scored if kind == "rows" else path
    shown = refladder.show("demo/story", "story-01", scores=given)
    assert shown == command("show", "demo/story", "story-01", "--scores", path, "--json").rows
    assert [
        (ladder["dimension"], [entry["id"] for entry in ladder["outputs"]]) for ladder in shown
    ] == [
        ("coherence", ["a", "b"]),
        ("complexity", ["a", "b"]),
    ]
    opened = refladder.load_ladders("demo/story")
    assert refladder.show(opened, "story-01", dimensions=["coherence"]) == [
        {**shown[0], "outputs": []}
    ]
    assert refladder.show(opened) == command("show", "demo/story", "--json").rows


def test_show_of_what_is_not_there():
    with pytest.raises(
        UnknownNameError, match="unknown context 'story-001'; did you mean 'story-01'"
    ):
        refladder.show("demo/story", "story-001")
    with pytest.raises(UnknownNameError, match="unknown dimension 'clarity'"):
        refladder.show("demo/story", "story-01", dimensions=["clarity"])
    with pytest.raises(
        refladder.errors.DataError, match=r"^row 1 of scores: no column 'coherence_score'; needs"
    ):
        refladder.show("demo/story", "story-01", scores=ROWS)
    with pytest.raises(
        UsageError, match="scores are placed on the ladders of one context; give context_id"
    ):
        refladder.show("demo/story", scores=ROWS)


@pytest.fixture
def models(write_jsonl):
    return {
        name: f"scripted:{write_jsonl([{'contains': place, 'text': text} for place, text in texts.items()], name)}"
        for name, texts in WORDS.items()
    }


def contest(table, models, **options):
    given = {
        "prompt_text": "Invite guests to {place}.",
        "criteria": {"engaging": "Would the guests come?"},
    }
    return refladder.compete(table, models=models, **{"judge": "builtin", **given, **options})


@pytest.mark.parametrize("kind", ["rows", "path", "pandas"])
def test_compete_gives_the_results_of_the_command(command, write_jsonl, models, kind, tmp_path):
    path = write_jsonl(TABLE, "table.jsonl")
    arguments = [f"--model={name}={target}" for name, target in models.items()]
    arguments += ["--prompt-text", "Invite guests to {place}.", "--judge", "builtin"]
    arguments += [
        "--criterion",
        "engaging=Would the guests come?",
        "--best",
        "engaging=10: all of them",
    ]
    done = command("compete", path, *arguments, "--out", tmp_path / "by command", "--json")
    assert done.code == 0, done.err
    table = {"rows": TABLE, "path": path}.get(kind)
    if kind == "pandas":
        table = pytest.importorskip("pandas").DataFrame(TABLE)
    result = contest(table, models, best={"engaging": "10: all of them"}, out=tmp_path / "by call")
    over_all = [standing for standing in result.standings if standing.row is None]
    assert [(standing.model, standing.rate) for standing in over_all] == [
        (row["model"], row["rate"]) for row in done.rows
    ]
    assert {standing.model: standing.rate for standing in over_all} == {
        "warm": 1,
        "curt": 0,
    }  # it repeats its words
    ours, theirs = (
        (tmp_path / name / "results.jsonl").read_text() for name in ("by call", "by command")
    )
    assert ours == theirs
    config = json.loads((tmp_path / "by call" / "run.json").read_text())
    assert (config["command"], config["signature"]) == ("compete", result.signature)


def test_compete_keeps_nothing_without_a_folder_and_takes_functions_and_open_backends(models):
    asked = []

    def judge(questions):
        asked.extend(questions)
        return [
            {
                "win": float("yours" in each.output),
                "loss": float("yours" not in each.output),
                "tie": 0,
            }
            for each in questions
        ]

    judge.fingerprint = "by word"
    opened = {name: refladder.connect(target) for name, target in models.items()}
    result = contest(TABLE, opened, judge=judge)
    # Two rows, one pair, both orders.
    assert len(asked) == 4
    assert {each.context for each in asked} == {
        "Invite guests to a beach.",
        "Invite guests to a library.",
    }
    assert [trial.winner for trial in result.trials if trial.row == "2"] == ["warm"]


def test_what_compete_refuses(models, tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Invite guests to {plaec}.")
    with pytest.raises(
        UsageError, match="give the task prompt once: prompt FILE or prompt_text TEXT"
    ):
        contest(TABLE, models, prompt=prompt)
    with pytest.raises(
        PromptError,
        match=r"prompt.txt: variable \{plaec\} is not a column of the table; did you mean",
    ):
        contest(TABLE, models, prompt_text=None, prompt=prompt)
    with pytest.raises(UsageError, match="a contest needs two models or more, found warm; add one"):
        contest(TABLE, {"warm": models["warm"]})
    with pytest.raises(
        UnknownNameError, match="unknown criterion 'engagin'; did you mean 'engaging'"
    ):
        contest(TABLE, models, weights={"engagin": 2})
