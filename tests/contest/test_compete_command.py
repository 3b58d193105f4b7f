"""refladder.compete: what is asked, and who wins."""

from __future__ import annotations

from json_lines import write_lines

import refladder

TABLE = [{"id": 1, "place": "a beach"}, {"id": 2, "place": "a library"}]
WORDS = {
    "warm": {"a beach": "Come to the beach, you two.", "a library": "The library is yours."},
    "curt": {"a beach": "Beach. Beach.", "a library": "Library. Library."},
}


def contest(folder, judge):
    models = {}
    for name, texts in WORDS.items():
        rules = [{"contains": place, "text": text} for place, text in texts.items()]
        path = write_lines(folder / f"{name}.jsonl", rules)
        models[name] = refladder.connect(f"scripted:{path}")
    return refladder.compete(
        TABLE,
        models=models,
        prompt_text="Invite guests to {place}.",
        criteria={"engaging": "Would the guests come?"},
        judge=judge,
    )


def test_the_builtin_judge_prefers_texts_that_repeat_no_word(tmp_path):
    result = contest(tmp_path, "builtin")
    over_all = {each.model: each.rate for each in result.standings if each.row is None}
    assert over_all == {"warm": 1, "curt": 0}


def test_a_function_judges_both_orders_and_nothing_is_kept_without_a_folder(tmp_path):
    asked = []

    def judge(questions):
        asked.extend(questions)
        kind = ["yours" in each.output or "you two" in each.output for each in questions]
        return [{"win": float(each), "loss": float(not each), "tie": 0} for each in kind]

    judge.fingerprint = "by word"
    result = contest(tmp_path, judge)
    # Two rows, one pair, both orders.
    assert len(asked) == 4
    assert {each.context for each in asked} == {
        "Invite guests to a beach.",
        "Invite guests to a library.",
    }
    assert [(trial.row, trial.winner) for trial in result.trials] == [("1", "warm"), ("2", "warm")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curt.jsonl", "warm.jsonl"]
