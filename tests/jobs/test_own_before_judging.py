"""Faults of the user's own data are found before a judge is asked, and missing ratings are no faults."""

from __future__ import annotations

import pytest

from refladder.loaders.user_table import load_user_table

DIMENSION = (
    '\n[[dimensions]]\nname = "{0}"\ndescription = "Whether it has {0}."\nlow = 1\nhigh = 5\n'
)
TASK = 'task = "summarization"\n' + "".join(map(DIMENSION.format, ("clarity", "charm")))
# No file of this name can be opened as a judge: whoever asks it fails with another message.
JUDGE = "--judge scripted:none --ladders demo/summarization"
IDS = {"context_id": "c", "context": "Rain fell.", "system": "a"}
ROW = {**IDS, "output": "It rained.", "clarity": 3, "charm": 2}


def without(row, *names):
    return {key: value for key, value in row.items() if key not in names}


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    return path


@pytest.fixture
def own(task, write_jsonl):
    """The line that evaluates rows."""
    return lambda *rows: f"evaluate table --source {write_jsonl(rows)} --task-file {task} --resamples 5"  # fmt: skip


@pytest.fixture
def ratings(task, write_jsonl):
    """The ratings that are read from rows, as (output, dimension)."""

    def go(*rows):
        benchmark = load_user_table(write_jsonl(rows), task_file=task)
        assert len(benchmark.outputs) == len(rows)
        return [(rating.output_id, rating.dimension) for rating in benchmark.ratings]

    return go


def test_two_outputs_of_one_system_for_one_context(fails, own, tmp_path):
    line = own({**ROW, "output_id": "x"}, {**ROW, "output_id": "y"})
    source = tmp_path / "in.jsonl"
    assert fails(2, f"{line} {JUDGE}") == (
        f"refladder: {source}:2: output 'y' is of system 'a' for context 'c', and so is output 'x' at {source}:1; a "
        "context has one output of each system, give them different system names\n"
    )


def test_outputs_without_systems_are_not_compared_between_systems(fails, own, command):
    rows = [without({**ROW, "output_id": name}, "system") for name in "xy"]
    line = own(rows[0], {**rows[1], "clarity": 1, "output": "another text"})
    assert fails(2, f"{line} --methods bleu --level between_systems") == (
        "refladder: table: some outputs have no system, and between_systems compares systems; name them in a column "
        "'system'\n"
    )
    done = command(f"{line} --methods direct-5 --level pooled --level between_systems")
    none = "table: some outputs have no system, so there is no correlation between systems"
    assert none in done.err


@pytest.mark.parametrize("missing", [None, "", " "])
def test_an_empty_rating_is_missing(ratings, missing):
    found = ratings(ROW, {**ROW, "system": "b", "clarity": missing})
    assert found == [("c/a", "clarity"), ("c/a", "charm"), ("c/b", "charm")]


def test_an_absent_rating_is_missing_wherever_it_is_absent(ratings):
    bare = without(ROW, "clarity")
    found = ratings(bare, {**ROW, "system": "b"}, {**bare, "system": "d"})
    assert [output for output, dimension in found if dimension == "clarity"] == ["c/b"]


def test_outputs_without_a_rating_are_scored_and_not_compared(command, own):
    """Three rated outputs, one not: the correlation is that of the three, and nothing is called unscored."""
    texts = ["It rained.", "Rain.", "Rain fell on the town."]
    rows = [{**ROW, "system": f"{k}", "output": text, "clarity": k} for k, text in enumerate(texts, 1)]  # fmt: skip
    unrated = {**ROW, "system": "9", "output": "Sun.", "clarity": ""}
    shared = "--dimension clarity --judge builtin --writer builtin --json"
    of = {"method": "ladder", "dimension": "clarity", "level": "within_context", "statistic": "spearman"}  # fmt: skip
    figures = []
    for table in ([*rows, unrated], rows):
        done = command(f"{own(*table)} {shared}")
        assert done.code == 0, done.err
        (row,) = (row for row in done.rows if of.items() <= row.items())
        figures.append((row["value"], row["unscored"]))
    assert figures[0] == figures[1]
    assert figures[0][0] is not None


def test_only_the_dimensions_that_are_asked_for_need_a_column(command, fails, own, tmp_path):
    rows = [{**ROW, "system": name, "charm": "not rated yet", "clarity": k} for k, name in enumerate("ab", 1)]  # fmt: skip
    line = own(*rows)
    no_number = "column 'charm': expected a finite number, found 'not rated yet'"
    assert fails(2, f"{line} {JUDGE}") == f"refladder: {tmp_path}/in.jsonl:1: {no_number}\n"
    assert command(f"{line} --dimension clarity --json").code == 0
    line = own(*(without(row, "charm") for row in rows))
    assert "no column 'charm'" in fails(2, f"{line} {JUDGE}")
    assert command(f"{line} --dimension clarity --json").code == 0
    assert command(f"{line} --dimension clarity --column charm=pleasing --json").code == 0


def test_a_dimension_that_the_task_file_has_not(fails, own):
    assert fails(2, f"{own(ROW)} --dimension clarty {JUDGE}") == (
        "refladder: unknown dimension 'clarty'; did you mean 'clarity'? Known: charm, clarity\n"
    )


def test_ratings_that_are_missing_or_not_numbers(fails, own, tmp_path):
    rows = [without({**ROW, "system": name}, "clarity") for name in "xy"]
    assert "clarity" in fails(2, f"{own(*rows)} {JUDGE}")
    nan = [{**row, "clarity": float("nan")} for row in rows]
    message = fails(2, f"{own(*nan)} {JUDGE}")
    assert message.startswith(f"refladder: {tmp_path}/in.jsonl:1: ")
    assert "nan" in message.lower()
