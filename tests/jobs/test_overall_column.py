"""The weighted score of several dimensions never takes the column of a dimension that is called overall."""

from __future__ import annotations

import pytest

from refladder.errors import UsageError
from refladder.jobs.scored_tables import score_column
from refladder.records import Dimension, Recipe, Run, Score
from refladder.scoring.columns import Columns, added_columns, overall_column
from refladder.settings import Scale

NAMES = ("overall", "naturalness")


def dimensions(*names):
    return [Dimension(name=name, description="") for name in names]


def test_its_name():
    assert overall_column(dimensions("clarity", "charm")) == "overall_score"
    assert overall_column(dimensions(*NAMES)) == "all_dimensions_score"
    assert "all_dimensions_score" in added_columns(dimensions(*NAMES))


def test_the_dimensions_own_score_stays():
    # Wins against both rungs on overall: 1 + 2 = 3. Loses to both on naturalness: -3. Half way between the bounds.
    scores = [
        Score(
            output_id="o",
            dimension=name,
            value=value,
            grade=None,
            spread=None,
            mass=1.0,
            reason=None,
            signature="all",
        )
        for name, value in zip(NAMES, (3.0, -3.0), strict=True)
    ]
    recipe = Recipe(backend="b", prompts=(), sampling=None, version="1")
    run = Run(recipe=recipe, ladders="l@1", dimensions=tuple(dimensions(*NAMES)), rungs=2, orders=1)
    columns = Columns(run, Scale(rule="ladder-sum", weights={}))
    (row,) = columns.rows([scores])
    assert (row["overall_score"], row["naturalness_score"], row["all_dimensions_score"]) == (
        3.0,
        -3.0,
        0.5,
    )
    assert columns.overall([scores]) == [0.5]
    assert list(row) == list(added_columns(dimensions(*NAMES)))


def test_by_default_rows_are_ranked_by_the_weighted_score_whatever_a_dimension_is_called():
    def ranked_by(*names):
        return score_column("t", list(added_columns(dimensions(*names))))

    assert ranked_by("clarity", "charm") == "overall_score"
    assert ranked_by("overall", "charm") == "all_dimensions_score"
    assert ranked_by("all dimensions", "charm") == "overall_score"
    assert ranked_by("overall") == "overall_score"  # the only dimension
    assert (
        score_column("t", ["id", "overall_score", "charm_score"]) == "overall_score"
    )  # a table without grades
    with pytest.raises(
        UsageError, match=r"^t: several score columns \(overall_score, all_dimensions_score\); name"
    ):
        score_column("t", ["overall_score", "charm_score", "all_dimensions_score"])


def test_the_best_row_is_that_of_the_weighted_score(command, write_jsonl):
    # a: 3 on overall, -3 on charm, 0.5 together; b: 1 and 3, (4/6 + 6/6) / 2 = 0.833 together
    values = {"a": (3.0, -3.0, 0.5), "b": (1.0, 3.0, 0.8333)}
    rows = [
        {"id": name, "context_id": "c"}
        | {"overall_score": overall, "overall_grade": 1.0, "charm_score": charm, "charm_grade": 1.0}
        | {"all_dimensions_score": together}
        for name, (overall, charm, together) in values.items()
    ]
    path = write_jsonl(rows)
    assert [
        row["id"] for row in command("filter", path, "--best", "1", "--per", "context_id").rows
    ] == ["b"]
    by = ("--by", "overall_score")
    assert [
        row["id"] for row in command("filter", path, "--best", "1", "--per", "context_id", *by).rows
    ] == ["a"]


def test_score_says_which_column_is_which(command, tmp_path, write_jsonl):
    clash, task = tmp_path / "set", tmp_path / "task.toml"
    words = [
        f'[[dimensions]]\nname = "{name}"\ndescription = "Good texts."\nlow = 1\nhigh = 5\n'
        for name in NAMES
    ]
    task.write_text('task = "open"\n' + "".join(words))
    source = write_jsonl([{"context": "A ferry."}], "contexts.jsonl")
    assert (
        command(
            "build",
            "own",
            "--source",
            source,
            "--task-file",
            task,
            "--writer",
            "builtin",
            "--out",
            clash,
        ).code
        == 0
    )
    table = write_jsonl([{"context": "A ferry.", "output": "It sails."}], "t.jsonl")
    done = command("score", table, "--ladders", clash)
    assert done.code == 0
    assert (
        "overall_score is the score on the dimension 'overall'; the weighted score is all_dimensions_score\n"
        in done.err
    )
    done = command("score", table, "--ladders", clash, "--dimension", "overall")
    assert "all_dimensions_score" not in done.err


def test_a_weighted_score_without_a_free_column_is_refused():
    message = "^dimensions called 'overall' and 'all dimensions' leave no column for the weighted score; score them"
    with pytest.raises(UsageError, match=message):
        added_columns(dimensions("overall", "all dimensions"))
