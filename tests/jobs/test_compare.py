"""refladder compare, against hand work and scipy."""

import csv
import io
import json

import numpy as np
import pytest
from scipy import stats

import refladder
from refladder.errors import DataError, UnknownNameError, UsageError
from refladder.metaeval.bootstrap import mean_difference


def scored(
    folder, name="scored.jsonl", *, systems=("new", "old"), contexts=12, gain=1.0, signature="s"
):
    """Scores of context number n: n for the last system, `gain` more for the first, with some noise."""
    noise = np.random.default_rng(0).normal(size=(contexts, len(systems))) / 4
    rows = [
        {"context_id": f"c{number}", "system": system, "output": f"text {number} {system}",
         "quality_score": number + gain * (place == 0) + noise[number, place], "signature": signature}
        for number in range(contexts) for place, system in enumerate(systems)
    ]  # fmt: skip
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path, rows


def test_the_difference_its_test_and_its_interval(tmp_path):
    path, rows = scored(tmp_path)
    found = refladder.compare(path)
    new, old = (
        np.array([row["quality_score"] for row in rows if row["system"] == name])
        for name in ("new", "old")
    )
    [pair] = found["pairs"]
    assert (found["by"], pair["first"], pair["second"], pair["contexts"]) == (
        "quality_score",
        "new",
        "old",
        12,
    )
    assert pair["difference"] == pytest.approx((new - old).mean())
    exact = stats.permutation_test(
        (new, old), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=9999
    )
    assert pair["p"] == pytest.approx(
        exact.pvalue, abs=0.003
    )  # 2^12 swaps; here 10,000 random ones
    t = stats.ttest_rel(new, old).confidence_interval()  # nearly normal differences
    assert (pair["low"], pair["high"]) == pytest.approx((t.low, t.high), abs=0.1)
    assert pair["win_rate"] == np.mean(new > old)
    assert [each["mean"] for each in found["systems"]] == pytest.approx([new.mean(), old.mean()])


def test_few_contexts_have_no_interval_and_equal_differences_neither():
    first = np.arange(9.0)
    assert mean_difference(first + np.array([1, 2, 1, 2, 1, 2, 3, 1, 1]), first)[1:3] == (
        None,
        None,
    )
    constant = mean_difference(np.arange(20.0) + 1, np.arange(20.0))
    assert constant == (1.0, None, None, constant.p, 20)
    assert mean_difference(np.full(3, np.nan), np.ones(3)) == (None, None, None, None, 0)


def test_three_systems_are_corrected_together_and_unscored_rows_are_counted(tmp_path):
    path, rows = scored(tmp_path, systems=("a", "b", "c"))
    rows[1]["quality_score"] = None  # b in context 0
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    found = refladder.compare(path, systems=["c", "b", "a"])
    assert [(pair["first"], pair["second"], pair["contexts"]) for pair in found["pairs"]] == [
        ("c", "b", 11), ("c", "a", 12), ("b", "a", 11)
    ]  # fmt: skip
    assert [(each["system"], each["rows"], each["unscored"], each["contexts"]) for each in found["systems"]] == [
        ("c", 12, 0, 12), ("b", 12, 1, 11), ("a", 12, 0, 12)
    ]  # fmt: skip
    smallest = sorted(pair["p"] for pair in found["pairs"])
    assert min(pair["p_holm"] for pair in found["pairs"]) == pytest.approx(
        3 * smallest[0]
    )  # Holm of three


def test_a_gate_for_ci(command, tmp_path):
    path, _ = scored(tmp_path, systems=("new", "old"), gain=-1.0)
    assert command("compare", path, "--fail-if-worse", "old").code == 0
    worse = command("compare", path, "--fail-if-worse", "new")
    assert (worse.code, worse.err) == (3, "new is significantly worse than another system\n")
    assert command("compare", path).code == 0
    assert (
        "unknown system 'newer'; did you mean 'new'? Known: new, old"
        in command("compare", path, "--fail-if-worse", "newer").err
    )


def test_one_file_for_each_system(command, tmp_path):
    rows = scored(tmp_path)[1]
    for name in ("new", "old"):
        text = "".join(
            json.dumps({k: v for k, v in row.items() if k != "system"}) + "\n"
            for row in rows
            if row["system"] == name
        )
        (tmp_path / f"{name}.jsonl").write_text(text, "utf-8")
    done = command("compare", tmp_path / "new.jsonl", tmp_path / "old.jsonl", "--json")
    assert json.loads(done.out)["pairs"] == refladder.compare(tmp_path / "scored.jsonl")["pairs"]
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "new.jsonl").write_text((tmp_path / "new.jsonl").read_text("utf-8"), "utf-8")
    with pytest.raises(
        UsageError, match="two files name the system 'new'; rename one, or add a column system"
    ):
        refladder.compare([tmp_path / "new.jsonl", tmp_path / "x" / "new.jsonl"])
    with pytest.raises(UsageError, match=r"1 system in .*new.jsonl; compare two or more"):
        refladder.compare(tmp_path / "new.jsonl")


def test_one_system_is_refused_with_the_option_that_names_the_column(fails, tmp_path):
    path, _ = scored(tmp_path, systems=("new",))
    assert "name the column of the systems with --column system=NAME, or give one file" in fails(
        2, "compare", path
    )


def test_tables(command, tmp_path):
    path, _ = scored(tmp_path)
    assert (
        next(iter(csv.DictReader(io.StringIO(command("compare", path, "--format", "csv").out))))[
            "first"
        ]
        == "new"
    )
    assert "new - old" in command("compare", path).out
    assert r"\begin{tabular}" in command("compare", path, "--format", "latex").out
    assert command("compare", path, "--format", "markdown").out.startswith(
        "Systems by quality_score\n"
    )


def test_scores_on_different_scales_are_refused(tmp_path):
    first, rows = scored(tmp_path)
    second, _ = scored(tmp_path, "other.jsonl", systems=("third",), signature="t")
    with pytest.raises(DataError, match="are on different scales: t here, s in"):
        refladder.compare([first, second])
    assert len(refladder.compare([first, second], mix=True)["pairs"]) == 3
    with pytest.raises(UnknownNameError, match="unknown system 'x'"):
        refladder.compare(rows, systems=["x", "new"])
    with pytest.raises(DataError, match="no column 'nothing'; Columns: "):
        refladder.compare(rows, by="nothing")
    with pytest.raises(DataError, match="no column 'model'"):
        refladder.compare(rows, columns={"system": "model"})
    rows[3]["system"] = None
    with pytest.raises(
        DataError, match="row 4: the column 'system' is empty; name the system of each row"
    ):
        refladder.compare(rows)
