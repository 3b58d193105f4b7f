"""Pairs of a chosen and a rejected text from scored rows."""

from __future__ import annotations

import itertools
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_lines import read_lines

from refladder.calibration import preference_pairs
from refladder.calibration.records import Pairing
from refladder.events import Silent
from refladder.settings import Tables

SCORES = {"a": [5.0, 1.0, 3.0, 3.0, None], "b": [2.0, 9.0], "c": [4.0]}
# Of context a, by the numbers of its rows: (0, 1) differ by 4, (0, 2), (0, 3), (2, 1) and (3, 1) by 2, (2, 3) by 0.
# Of context b: (1, 0) differ by 7. Context c has one scored row.


def table(scores=None):
    return [
        {"context_id": context, "context": f"Say {context}.", "output": f"{context} text {number}",
         "output_id": f"{context}{number}", "worth_score": score, "signature": "judge:1|rule:sum"}
        for context, values in (scores or SCORES).items()
        for number, score in enumerate(values)
    ]  # fmt: skip


@pytest.fixture
def path(write_jsonl):
    return write_jsonl(table())


def ids(done):
    return [(row["chosen_id"], row["rejected_id"]) for row in done.rows]


def test_pairs_by_hand(command, path):
    done = command(f"pairs {path} --margin 3")
    assert done.code == 0
    assert done.rows == [
        {"prompt": "Say a.", "chosen": "a text 0", "rejected": "a text 1", "context_id": "a", "chosen_id": "a0",
         "rejected_id": "a1", "score_chosen": 5.0, "score_rejected": 1.0, "signature": "judge:1|rule:sum"},
        {"prompt": "Say b.", "chosen": "b text 1", "rejected": "b text 0", "context_id": "b", "chosen_id": "b1",
         "rejected_id": "b0", "score_chosen": 9.0, "score_rejected": 2.0, "signature": "judge:1|rule:sum"},
    ]  # fmt: skip
    assert done.err.splitlines() == [
        "8 rows of 3 contexts: 2 pairs by worth_score",
        "not written: 1 pair with equal scores, 4 below the margin, 0 over --per-context, 0 with the same text",
        "without a pair: 1 unscored row, 1 context with a single scored row",
    ]
    # margin 0 is any difference; a pair is written at its later row
    assert ids(command(f"pairs {path} --margin 0")) == [
        ("a0", "a1"), ("a0", "a2"), ("a2", "a1"), ("a0", "a3"), ("a3", "a1"), ("b1", "b0"),
    ]  # fmt: skip
    # the widest first; of equal ones, those whose chosen row comes first, then whose rejected row does
    assert ids(command(f"pairs {path} --margin 0 --per-context 3")) == [
        ("a0", "a1"), ("a0", "a2"), ("a0", "a3"), ("b1", "b0"),
    ]  # fmt: skip
    done = command(f"pairs {path} --margin 1 --per-context 1 --json")
    assert json.loads(done.err) == {
        "column": "worth_score", "rows": 8, "unscored": 1, "contexts": 3, "single": 1, "pairs": 2, "ties": 1,
        "below_margin": 0, "over_limit": 4, "same_text": 0, "widest": 7.0,
    }  # fmt: skip
    widest = "no pair: the largest difference within a context is 7\n"
    assert command(f"pairs {path} --margin 8").err.endswith(widest)


VALUES = st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 4)))


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(VALUES, max_size=14),
    margin=st.integers(0, 3),
    most=st.one_of(st.none(), st.integers(1, 4)),
)
def test_pairs_are_those_of_a_loop_over_all(tmp_path_factory, values, margin, most):
    folder = tmp_path_factory.mktemp("pairs")
    rows = [
        {"context_id": f"c{group}", "context": "x", "output": f"text {place}", "output_id": f"{place}", "s": score}
        for place, (group, score) in enumerate(values)
    ]  # fmt: skip
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = Tables(source=f"{folder}/in.jsonl", out=f"{folder}/out.jsonl")
    asked = Pairing(margin=margin, per_context=most, by="s")
    report = preference_pairs.run(asked, tables, Silent())
    expected, reached, ties, compared = [], 0, 0, 0
    for group in range(3):
        scored = [(k, score) for k, (own, score) in enumerate(values) if own == group and score is not None]  # fmt: skip
        differences = [(p - q, i, j) for (i, p), (j, q) in itertools.permutations(scored, 2)]
        wide = [(-d, i, j) for d, i, j in differences if d > 0 and d >= margin]
        compared += len(differences) // 2
        ties += sum(d == 0 for d, _, _ in differences) // 2
        reached += len(wide)
        expected += [
            (max(i, j), place, i, j) for place, (_, i, j) in enumerate(sorted(wide)[:most])
        ]
    written = read_lines(folder / "out.jsonl")
    found = [(int(row["chosen_id"]), int(row["rejected_id"])) for row in written]
    assert found == [(i, j) for _, _, i, j in sorted(expected)]
    assert (report.pairs, report.over_limit) == (len(expected), reached - len(expected))
    assert (report.ties, report.below_margin) == (ties, compared - ties - reached)


def test_a_difference_that_rounding_puts_below_the_margin_reaches_it(command, write_jsonl):
    assert 0.3 - 0.2 < 0.1
    done = command(f"pairs {write_jsonl(table({'a': [0.3, 0.2]}))} --margin 0.1")
    assert ids(done) == [("a0", "a1")]


def test_formats_and_chat_messages(command, path, tmp_path):
    line, out = f"pairs {path} --margin 3", tmp_path / "out.parquet"
    (row, _) = command(f"{line} --conversational").rows
    assert row["prompt"] == [{"role": "user", "content": "Say a."}]
    assert row["chosen"] == [{"role": "assistant", "content": "a text 0"}]
    assert row["rejected"] == [{"role": "assistant", "content": "a text 1"}]
    piped = command("pairs", "--margin", "3", stdin=path.read_bytes())
    assert piped.out == command(line).out
    header = command(f"{line} --out-format csv").out.splitlines()[0]
    assert header == ",".join([*preference_pairs.TEXTS, *preference_pairs.NUMBERS])
    done = command(f"{line} --out-format csv --conversational")
    lists = "chat messages are lists, which CSV does not have; write .jsonl or .parquet"
    assert (done.code, done.err) == (2, f"refladder: -: {lists}\n")
    parquet = pytest.importorskip("pyarrow.parquet")
    for flag in ("", "--conversational"):
        assert command(f"{line} --out {out} {flag}").code == 0
        assert parquet.read_table(out).to_pylist() == command(f"{line} {flag}").rows


def test_prompts_come_from_the_table_or_the_ladder_set(command, fails, write_jsonl, rows, tmp_path):
    scored = tmp_path / "scored.jsonl"
    command(f"score {write_jsonl(rows(14))} --ladders demo/story --out {scored}")
    line = f"pairs {scored} --margin 0"
    assert fails(2, line) == (
        f"refladder: {scored}:1: no text of context 'story-01' for the prompt; add it in a column context (or map one "
        "with --column context=NAME), or name the ladder set that has it with --ladders\n"
    )
    done = command(f"{line} --ladders demo/story")
    assert done.code == 0
    assert "by overall_score" in done.err
    assert {row["context_id"] for row in done.rows} == {"story-01", "story-02"}
    assert all(row["prompt"] for row in done.rows)
    mapped = write_jsonl([{**row, "ask": row.pop("context")} for row in table()])
    done = command(f"pairs {mapped} --margin 3 --column context=ask")
    assert done.rows[0]["prompt"] == "Say a."
    without = [{key: cell for key, cell in row.items() if key != "context_id"} for row in table()]
    done = command(f"pairs {write_jsonl(without)} --margin 3")
    assert ids(done) == [("a0", "a1"), ("b1", "b0")]


def test_two_equal_texts_are_no_pair_and_take_no_place_of_a_context(command, write_jsonl):
    rows = table({"a": [5.0, 1.0, 2.0, 4.0]})
    rows[1]["output"] = rows[0]["output"]
    path = write_jsonl(rows)
    done = command(f"pairs {path} --margin 2 --per-context 1")
    assert ids(done) == [("a0", "a2")]  # 3 apart, the widest of different texts
    # reach 2, or have the same text: (0, 1) 4 with the same text, (0, 2) 3, (3, 1) 3, (3, 2) 2; below: (0, 3) 1, (2, 1) 1
    assert "2 below the margin, 2 over --per-context, 1 with the same text" in done.err
    every = command(f"pairs {path} --margin 2")
    assert ids(every) == [("a0", "a2"), ("a3", "a1"), ("a3", "a2")]


def test_copies_with_equal_scores_are_counted_as_the_same_text(command, write_jsonl):
    rows = table({"a": [5.0, 5.0, 5.0, 1.0]})
    rows[1]["output"] = rows[0]["output"]
    done = command(f"pairs {write_jsonl(rows)} --margin 3")
    # (0, 1) is of one text; (0, 2) and (1, 2) have equal scores; each of the three is 4 above row 3
    assert ids(done) == [("a0", "a3"), ("a1", "a3"), ("a2", "a3")]
    assert "not written: 2 pairs with equal scores, 0 below the margin, " in done.err
    assert "0 over --per-context, 1 with the same text\n" in done.err


def test_scores_and_prompts_that_do_not_go_together_are_refused(command, fails, write_jsonl):
    rows = table()
    rows[1]["signature"] = "judge:2|rule:sum"
    line = f"pairs {(path := write_jsonl(rows))} --margin 3"
    assert fails(2, line) == (
        f"refladder: {path}:2: the scores in column 'worth_score' are on different scales: judge:2 here, judge:1 in "
        f"{path}:1; filter each signature separately, or compare them as they are with --mix\n"
    )
    (pair, _) = command(f"{line} --mix").rows
    assert pair["signature"] is None
    rows = table()
    rows[1]["context"] = "Say something else."
    write_jsonl(rows)
    text = fails(2, f"{line} --out {path.with_name('out.jsonl')}")
    prompt = f"context 'a' has another text than in {path}:1; a pair needs one prompt"
    assert f"{path}:2: {prompt}" in text
    write_jsonl([{**row, "other_score": 1} for row in table()])
    several = "several score columns (worth_score, other_score); name the column with --by COLUMN"
    assert fails(2, line) == f"refladder: {path}: {several}\n"
    assert command(f"{line} --by worth_score").code == 0
    write_jsonl([{"context_id": "a", "output": "x"}])
    assert "no column NAME_score; name the column with --by COLUMN" in fails(2, line)


def test_wrong_options_are_refused(fails, path):
    for options, message in (
        ("--margin -1", "--margin -1: a difference of scores, 0 or more, is needed"),
        ("--margin nan", "--margin nan: a difference of scores, 0 or more, is needed"),
        ("--margin 1 --by worth", f"{path}:1: no column 'worth'; did you mean 'worth_score'?"),
        (
            "--margin 1 --by output",
            f"{path}:1: column 'output' must be a finite number or empty, found",
        ),
    ):
        assert fails(2, f"pairs {path} {options}").startswith(f"refladder: {message}")


def test_texts_are_let_go_after_their_last_pair(write_jsonl, tmp_path):
    """Peak memory of 40 contexts with long texts, one after the other, is far below that of all texts."""
    path = write_jsonl(
        {"context_id": f"c{number // 4}", "context": "p", "output": f"{number} " + "x" * 100_000, "w_score": number % 4}
        for number in range(160)
    )  # fmt: skip
    tracemalloc.start()
    tables = Tables(source=str(path), out=str(tmp_path / "out.jsonl"))
    report = preference_pairs.run(Pairing(margin=1), tables, Silent())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.pairs == 40 * 6
    assert peak < 5_000_000  # of 16 MB of texts
