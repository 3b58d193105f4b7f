"""The gate of compare, against hand work and scipy."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from system_scores import system_scores

import refladder

SEE = "to see them: refladder filter SCORED --min quality_score=0 --unscored FILE"


def without(rows, lost):
    """Return the rows, without the scores of a system in some contexts."""
    places = {(system, f"c{number}") for system, numbers in lost.items() for number in numbers}
    return [
        {**row, "quality_score": None} if (row["system"], row["context_id"]) in places else row
        for row in rows
    ]


def test_rows_without_a_score_count_as_the_low_end_of_the_scale(command, write_jsonl):
    rows = system_scores(gain=0.0)
    path = write_jsonl(without(rows, {"new": range(7)}), "lost.jsonl")
    line = f"compare {path} --fail-if-worse new"
    assert command(f"{line} --unscored skip").code == 0
    found = json.loads(command(f"{line} --json").out)
    worst = found["pairs"][0]["worst_case"]
    lowest = min(
        row["quality_score"] for row in rows if row["system"] == "old" or row["context_id"] > "c6"
    )
    values = {
        system: [lowest if system == "new" and number < 7 else row["quality_score"]
                 for number, row in enumerate(row for row in rows if row["system"] == system)]
        for system in ("new", "old")
    }  # fmt: skip
    difference = np.subtract(values["new"], values["old"])
    assert worst["difference"] == pytest.approx(difference.mean())
    assert (worst["unscored_first"], worst["unscored_second"]) == (7, 0)
    assert worst["p_holm"] == worst["p"] < 0.05
    told = (
        f"new is significantly worse than old (p {worst['p']:.4f}) if rows without a score (7 of new and 0 of old) count "
        f"as {lowest:g}, the lowest score in the tables; {SEE}"
    )
    assert found["gate"]["worse"]
    assert found["gate"]["reason"] == told
    # `score` writes the scale of its columns beside its output.
    Path(f"{path}.run.json").write_text('{"scales": {"quality_score": [-15, 15]}}')
    done = command(line)
    assert done.code == 3
    assert "count as -15, the low end of the scale; to see them" in done.err
    flat = next(csv.DictReader(io.StringIO(command(f"{line} --format csv").out)))
    assert flat["worst_case_unscored_first"] == "7"
    skipped = refladder.compare(path, fail_if_worse="new", unscored="skip")
    assert (skipped["gate"]["worse"], skipped["pairs"][0]["worst_case"]) == (False, None)


def test_a_system_fails_that_lacks_a_score_in_more_contexts():
    rows = system_scores(gain=40.0)
    lost = without(rows, {"new": range(5), "old": [11]})
    # Five of six contexts: P(X >= 5) = (6 + 1) / 2^6 = .109; seven of eight: (8 + 1) / 2^8 = .0352.
    assert not refladder.compare(lost, fail_if_worse="new")["gate"]["worse"]
    lost = without(rows, {"new": range(7), "old": [11]})
    # Four contexts are scored by both, too few; the more specific reason is given.
    assert refladder.compare(lost, fail_if_worse="new")["gate"]["reason"] == (
        "new lacks a score in significantly more contexts than old: 7 have one of old only, and 1 of new only (p 0.0352); "
        f"rows without a score: 7 of new and 1 of old; {SEE}"
    )
    # Rows that are not there count as rows without a score.
    left = [row for row in rows if (row["system"], row["context_id"]) not in {("new", f"c{n}") for n in range(6)}]  # fmt: skip
    assert (
        "6 have one of old only, and 0 of new only"
        in refladder.compare(left, fail_if_worse="new")["gate"]["reason"]
    )


@pytest.mark.parametrize("systems", [("new", "old"), ("old", "new")])
def test_four_rows_of_one_system_do_not_lack_more_scores_than_one_row_of_the_other(systems):
    # `new` is far better, so that only the third test could fail it.
    rows = system_scores(systems=systems, gain=40.0 if systems[0] == "new" else -40.0)
    fourth = [
        {**row, "quality_score": None if number == 3 else row["quality_score"]}
        for row in rows
        for number in range(4 if row["system"] == "new" else 1)
    ]
    # Only the first row of each context counts: more rows have more that are missing.
    assert refladder.compare(fourth, fail_if_worse="new")["gate"]["reason"] is None


def test_nothing_that_can_be_compared_does_not_pass(command, write_jsonl):
    rows = system_scores(gain=0.0)
    all_of_them = {system: range(12) for system in ("new", "old")}
    path = write_jsonl(without(rows, all_of_them), "none.jsonl")
    done = command(f"compare {path} --fail-if-worse new")
    few = "new cannot be compared with old: {} contexts with a score of both, and at least 6 are needed"
    lost = f"rows without a score: 12 of new and 12 of old; {SEE}"
    assert (done.code, done.err) == (3, f"gate: failed: {few.format(0)}; {lost}\n")
    # The least p of a permutation test of five contexts is 2 / 2^5 = .0625, and of six .03125.
    for contexts, reason in ((5, few.format(5)), (6, None)):
        found = refladder.compare(rows[: 2 * contexts], fail_if_worse="new")
        assert (found["gate"]["worse"], found["gate"]["reason"]) == (reason is not None, reason)
    # Of two pairs: 2 * 2 / 2^6 = .0625, and 2 * 2 / 2^7 = .03125.
    three = system_scores(systems=("new", "old", "older"), gain=0.0)
    for contexts, worse in ((6, True), (7, False)):
        gate = refladder.compare(three[: 3 * contexts], fail_if_worse="new")["gate"]
        assert gate["worse"] == worse


def test_the_gate_is_corrected_over_the_pairs_of_its_system():
    rows = system_scores(systems=("a", "b", "c"), gain=0.0)
    lost = without(rows, {"b": range(9)})
    found = refladder.compare(lost, fail_if_worse="b")
    worst = {(pair["first"], pair["second"]): pair["worst_case"] for pair in found["pairs"]}
    assert worst["a", "c"]["p_holm"] is None
    smaller = min(worst["a", "b"]["p"], worst["b", "c"]["p"])
    assert min(worst["a", "b"]["p_holm"], worst["b", "c"]["p_holm"]) == pytest.approx(2 * smaller)
    assert found["gate"]["worse"]
    assert not refladder.compare(lost, fail_if_worse="a", systems=["a", "c"])["gate"]["worse"]


def test_the_verdict_is_printed_and_warns_where_the_baseline_was_named(command, write_jsonl):
    line = f"compare {write_jsonl(system_scores(gain=-1.0))}"
    # Exact: 2 of 2 ** 12 signs are as extreme.
    worse = "new is significantly worse than old on the 12 contexts that both score (p 0.0005)"
    failed = f"gate: failed: {worse}\n"
    passed = (
        "gate: old is not worse than new: passed\n"
        "new is significantly worse than old; the gate tests the system that is named, so if new is the candidate, give "
        "--fail-if-worse new\n"
    )
    name = "refladder: --fail-if-worse: name the candidate, which is tested against the others: new, old\n"
    for options, code, told in (
        ("", 0, ""),
        ("--fail-if-worse old", 0, passed),
        ("--fail-if-worse old --unscored skip", 0, passed),
        ("--fail-if-worse old --format csv", 0, passed),
        ("--fail-if-worse new", 3, failed),
        ("--fail-if-worse new --unscored skip", 3, failed),
        ("--fail-if-worse", 2, name),
        ("--fail-if-worse --json", 2, name),
    ):
        done = command(f"{line} {options}")
        assert (done.code, done.err) == (code, told)
    gate = command(f"{line} --fail-if-worse old --json").rows[0]["gate"]
    assert gate == {"system": "old", "worse": False, "reason": None, "compared": ["new"], "beaten": ["new"]}  # fmt: skip
    shown = str(refladder.compare(line.split()[1], fail_if_worse="old"))
    assert "passed\nnew is significantly worse" in shown
    assert "give fail_if_worse new\n" in shown
    unknown = "unknown system 'newer'; did you mean 'new'? Known: new, old"
    assert unknown in command(f"{line} --fail-if-worse newer").err


def test_a_system_is_beaten_in_the_worst_case_too_and_only_if_the_corrected_difference_is_significant():
    lost = without(system_scores(systems=("a", "b", "c"), gain=0.0), {"b": range(9)})
    gate = refladder.compare(lost, fail_if_worse="a")["gate"]
    assert (gate["compared"], gate["beaten"]) == (["b", "c"], ["b"])
    assert gate["reason"].startswith(
        "a cannot be compared with b: 3 contexts with a score of both, and at"
    )
    assert refladder.compare(lost, fail_if_worse="a", unscored="skip")["gate"]["beaten"] == []


def test_the_words_say_whose_rows_have_no_score(command, write_jsonl):
    """Rows of the other system alone are counted too, and of the named system whichever is first in a pair."""
    rows = system_scores(gain=-40.0)
    path = write_jsonl(without(rows, {"old": range(7)}))
    for order in ("new,old", "old,new"):
        # Only five contexts are scored by both.
        told = command(f"compare {path} --systems {order} --fail-if-worse new --unscored worst").err
        assert f"rows without a score: 0 of new and 7 of old; {SEE}\n" in told


@pytest.mark.parametrize(
    ("lost", "more", "worse"),
    [
        # P(X >= 20) of 30 at 1/2 is .0494, and P(X >= 30) of 48 .0557 (scipy).
        (20, 10, True),
        (30, 18, False),
    ],
)
def test_scores_are_lacking_with_an_error_of_five_percent(lost, more, worse):
    rows = []
    for context in range(100):
        for system, least, end in (("new", 0, lost), ("old", lost, lost + more)):
            score = None if least <= context < end else (9.0 if system == "new" else 1.0)
            rows.append({"context_id": f"c{context}", "system": system, "quality_score": score})
    gate = refladder.compare(rows, fail_if_worse="new")["gate"]
    assert ("lacks a score in significantly more contexts" in str(gate["reason"])) == worse
    assert gate["worse"] == worse
