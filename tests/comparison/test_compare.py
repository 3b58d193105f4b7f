"""refladder compare, against hand work and scipy."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from system_scores import system_scores

import refladder
from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.statistics.bootstrap import mean_difference


@pytest.fixture
def scored(write_jsonl):
    def write(name="scored.jsonl", **how):
        rows = system_scores(**how)
        return write_jsonl(rows, name), rows

    return write


def test_the_difference_its_test_and_its_interval(scored):
    path, rows = scored()
    found = refladder.compare(path)
    new, old = (
        np.array([row["quality_score"] for row in rows if row["system"] == name])
        for name in ("new", "old")
    )
    [pair] = found["pairs"]
    assert found["by"] == "quality_score"
    assert (pair["first"], pair["second"], pair["contexts"]) == ("new", "old", 12)
    assert pair["difference"] == pytest.approx((new - old).mean())
    how = {"permutation_type": "samples", "n_resamples": np.inf}
    exact = stats.permutation_test((new, old), lambda a, b: np.mean(a - b), **how)
    assert pair["p"] == pytest.approx(exact.pvalue)  # all 2^12 swaps
    t = stats.ttest_rel(new, old).confidence_interval()  # nearly normal differences
    assert (pair["low"], pair["high"]) == pytest.approx((t.low, t.high), abs=0.1)
    assert pair["win_rate"] == np.mean(new > old)
    assert [each["mean"] for each in found["systems"]] == pytest.approx([new.mean(), old.mean()])


def test_few_contexts_have_no_interval_and_equal_differences_neither():
    first = np.arange(9.0)
    differences = np.array([1, 2, 1, 2, 1, 2, 3, 1, 1])
    assert mean_difference(first + differences, first)[1:3] == (None, None)
    constant = mean_difference(np.arange(20.0) + 1, np.arange(20.0))
    assert constant == (1.0, None, None, constant.p, 20)
    assert mean_difference(np.full(3, np.nan), np.ones(3)) == (None, None, None, None, 0)


def test_an_interval_is_never_shorter_than_student_t_and_stays_finite_where_systems_are_mostly_equal():
    # Resamples of ten equal differences and their rounding errors have no variance.
    for differences in ([0.0] * 10 + [1.0, 2.0], [0.1 + 0.2] * 10 + [0.3, 3.0]):
        found = mean_difference(np.array(differences), np.zeros(12))
        t = stats.ttest_1samp(differences, 0).confidence_interval()
        assert found.low <= t.low
        assert t.high <= found.high < found.difference + 20 * (t.high - t.low)


def test_three_systems_are_corrected_together_and_unscored_rows_are_counted(scored, write_jsonl):
    _, rows = scored(systems=("a", "b", "c"))
    rows[1]["quality_score"] = None  # b in context 0
    found = refladder.compare(write_jsonl(rows), systems=["c", "b", "a"])
    pairs = [(pair["first"], pair["second"], pair["contexts"]) for pair in found["pairs"]]
    assert pairs == [("c", "b", 11), ("c", "a", 12), ("b", "a", 11)]
    counts = [tuple(each[name] for name in ("system", "rows", "unscored", "contexts")) for each in found["systems"]]  # fmt: skip
    assert counts == [("c", 12, 0, 12), ("b", 12, 1, 11), ("a", 12, 0, 12)]
    smallest = min(pair["p"] for pair in found["pairs"])
    assert min(pair["p_holm"] for pair in found["pairs"]) == pytest.approx(3 * smallest)


def test_one_file_for_each_system(command, scored, write_jsonl, tmp_path):
    path, rows = scored()
    new, old = (
        write_jsonl(
            [
                {key: value for key, value in row.items() if key != "system"}
                for row in rows
                if row["system"] == name
            ],
            f"{name}.jsonl",
        )
        for name in ("new", "old")
    )
    (found,) = command(f"compare {new} {old} --json").rows
    assert found["pairs"] == refladder.compare(path)["pairs"]
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "new.jsonl").write_bytes(new.read_bytes())
    twice = "two files name the system 'new'; rename one, or add a column system"
    with pytest.raises(UsageError, match=twice):
        refladder.compare([new, tmp_path / "x" / "new.jsonl"])
    with pytest.raises(UsageError, match=r"1 system in .*new.jsonl; compare two or more"):
        refladder.compare(new)


def test_one_system_is_refused_with_the_option_that_names_the_column(fails, scored):
    path, _ = scored(systems=("new",))
    name = "name the column of the systems with --column system=NAME, or give one file"
    assert name in fails(2, f"compare {path}")
    path, _ = scored()
    message = "--systems names 'old' only; name two or more of: new, old, or leave it out"
    assert fails(2, f"compare {path} --systems old") == f"refladder: {message}\n"


def test_tables(command, scored):
    line = f"compare {scored()[0]}"
    first = next(csv.DictReader(io.StringIO(command(f"{line} --format csv").out)))
    assert first["first"] == "new"
    assert "new - old" in command(line).out
    assert r"\begin{tabular}" in command(f"{line} --format latex").out
    markdown = command(f"{line} --format markdown").out
    assert markdown.startswith("Systems by quality_score\n")


@pytest.mark.parametrize(
    "names", [("http://gpu1:8000", "llama@main"), ("token=x,y", "=1+1"), ("two\nlines", "a|b")]
)
def test_names_of_systems_stay_as_they_are(command, scored, names):
    line = f"compare {scored(systems=names)[0]}"
    [row] = csv.DictReader(io.StringIO(command(f"{line} --format csv").out))
    # A spreadsheet would run a name that begins with =.
    shown = [f"'{name}" if name.startswith("=") else name for name in names]
    assert [row["first"], row["second"]] == shown
    assert row["contexts"] == "12"
    markdown = command(f"{line} --format markdown").out
    both = " - ".join(names).replace("\n", " ").replace("|", "\\|")
    assert f"| {both} | " in markdown
    assert names[0].partition("\n")[0] in command(line).out


def test_a_file_of_judgments_is_named_as_such(command, fails, write_jsonl, tmp_path):
    rows = [{"context_id": "story-01", "output": text} for text in ("A lamp.", "A lamp went out.")]
    out = tmp_path / "r-a.jsonl"
    line = ("score", write_jsonl(rows), "--ladders", "demo/story", "--dimension", "coherence")
    assert command(*line, "--out", out).code == 0
    judged = f"{out}.judgments.jsonl"
    told = f"refladder: {judged}: a file of judgments; name the scored rows, {out}\n"
    for line in (
        f"compare {out} {judged}",
        f"compare {judged} {out}",
        f"filter {judged} --min coherence_score=0",
        f"pairs {judged} --margin 1",
        f"score {judged} --ladders demo/story",
    ):
        assert fails(2, line) == told


def test_tables_that_cannot_be_compared_are_refused(scored):
    first, rows = scored()
    second, _ = scored("other.jsonl", systems=("third",), signature="t")
    with pytest.raises(DataError, match="are on different scales: t here, s in"):
        refladder.compare([first, second])
    assert len(refladder.compare([first, second], mix=True)["pairs"]) == 3
    unnamed = [*rows[:3], {**rows[3], "system": None}]
    shared = {"signature": "prompts:open/compare-shared@1", "context_id": None}
    for table, how, error, message in (
        (rows, {"systems": ["x", "new"]}, UnknownNameError, "unknown system 'x'"),
        (rows, {"by": "nothing"}, DataError, "no column 'nothing'. Columns: "),
        (rows, {"columns": {"system": "model"}}, DataError, "no column 'model'"),
        ([{**row, **shared} for row in rows], {}, DataError, "^row 1: no context, and systems are compared on the same"),
        (unnamed, {}, DataError, "row 4: the column 'system' is empty; name the system of each row"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            refladder.compare(table, **how)


def test_the_order_of_the_rows_changes_nothing(scored, write_jsonl):
    _, rows = scored(systems=("new", "old", "older"), gain=0.1)
    turned = write_jsonl(rows[::-1], "turned.jsonl")
    names = ["new", "old", "older"]
    assert refladder.compare(turned, systems=names) == refladder.compare(
        write_jsonl(rows, "again.jsonl"), systems=names
    )


@pytest.mark.parametrize("unit", [1e-14, 1 / 3, 1e7 / 3])
def test_a_p_value_does_not_depend_on_the_unit_of_the_scores(unit):
    # Swaps that give the same sum in another order are ties: with whole numbers, all sums are exact.
    differences = np.array([-1, 1, -1, 3, 1, 2, -1, -2, 0, 0])
    exact = mean_difference(differences, np.zeros(10))
    scaled = mean_difference(differences * unit, np.zeros(10))
    assert scaled.p == exact.p
    assert scaled.low == pytest.approx(exact.low * unit)


def test_skip_without_a_gate_is_refused(fails, scored):
    path, _ = scored()
    refused = "--unscored skip changes only what --fail-if-worse decides; give both"
    assert refused in fails(2, f"compare {path} --unscored skip")
    unknown = "unknown value of unscored 'least'. Known: skip, worst"
    with pytest.raises(UnknownNameError, match=unknown):
        refladder.compare(path, fail_if_worse="new", unscored="least")


def test_score_and_rescore_write_the_scale_of_their_columns(command, tmp_path):
    out = tmp_path / "scored.jsonl"
    command(f"export demo/story --out {tmp_path}/stories.jsonl")
    assert command(f"score {tmp_path}/stories.jsonl --ladders demo/story --out {out}").code == 0
    # Five rungs: ladder-sum is from -15 to 15. The demo's human scale is from 1 to 5.
    ends = {"coherence_score": [-15, 15], "coherence_grade": [1, 5], "complexity_score": [-15, 15],
            "complexity_grade": [1, 5], "overall_score": [0, 1], "overall_grade": [0, 1]}  # fmt: skip
    assert json.loads(Path(f"{out}.run.json").read_text())["scales"] == ends
    again = tmp_path / "again.jsonl"
    assert command(f"rescore {out}.judgments.jsonl --rule mean-difference --out {again}").code == 0
    scales = json.loads(Path(f"{again}.run.json").read_text())["scales"]
    assert scales == {**ends, "coherence_score": [-1, 1], "complexity_score": [-1, 1]}
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "part.jsonl").write_bytes((tmp_path / "stories.jsonl").read_bytes())
    done = command(f"score {folder} --ladders demo/story --out {tmp_path}/many")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "many" / "run.json").read_text())["scales"] == ends
