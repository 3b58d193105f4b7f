"""Pairs of a chosen and a rejected text from scored rows, and the best rows of each group."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refladder.events import Silent
from refladder.jobs import filter, preference_pairs  # noqa: A004  the name of the job
from refladder.settings import Filtering, Pairing, Tables

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


def ids(done):
    return [(row["chosen_id"], row["rejected_id"]) for row in done.rows]


def test_pairs_by_hand(command, write_jsonl):
    path = write_jsonl(table())
    done = command("pairs", path, "--margin", "3")
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
    assert ids(command("pairs", path, "--margin", "0")) == [
        ("a0", "a1"), ("a0", "a2"), ("a2", "a1"), ("a0", "a3"), ("a3", "a1"), ("b1", "b0"),
    ]  # fmt: skip
    # the widest first; of equal ones, those whose chosen row comes first, then whose rejected row does
    assert ids(command("pairs", path, "--margin", "0", "--per-context", "3")) == [
        ("a0", "a1"), ("a0", "a2"), ("a0", "a3"), ("b1", "b0"),
    ]  # fmt: skip
    done = command("pairs", path, "--margin", "1", "--per-context", "1", "--json")
    assert json.loads(done.err) == {
        "column": "worth_score", "rows": 8, "unscored": 1, "contexts": 3, "single": 1, "pairs": 2, "ties": 1,
        "below_margin": 0, "over_limit": 4, "same_text": 0, "widest": 7.0,
    }  # fmt: skip
    assert command("pairs", path, "--margin", "8").err.endswith(
        "no pair: the largest difference within a context is 7\n"
    )


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 4))), max_size=14
    ),
    margin=st.integers(0, 3),
    most=st.one_of(st.none(), st.integers(1, 4)),
)
def test_pairs_are_those_of_a_loop_over_all(tmp_path_factory, values, margin, most):
    folder = tmp_path_factory.mktemp("pairs")
    rows = [
        {
            "context_id": f"c{group}",
            "context": "x",
            "output": f"text {number}",
            "output_id": str(number),
            "s": score,
        }
        for number, (group, score) in enumerate(values)
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = Tables(source=str(folder / "in.jsonl"), out=str(folder / "out.jsonl"))
    report = preference_pairs.run(
        Pairing(margin=margin, per_context=most, by="s"), tables, Silent()
    )
    expected, reached, ties, compared = [], 0, 0, 0
    for group in range(3):
        scored = [
            (k, score)
            for k, (own, score) in enumerate(values)
            if own == group and score is not None
        ]
        differences = [(p - q, i, j) for (i, p), (j, q) in itertools.permutations(scored, 2)]
        wide = sorted(
            ((d, i, j) for d, i, j in differences if d > 0 and d >= margin),
            key=lambda t: (-t[0], *t[1:]),
        )
        compared += len(differences) // 2
        ties += sum(d == 0 for d, _, _ in differences) // 2
        reached += len(wide)
        expected += [(max(i, j), place, i, j) for place, (_, i, j) in enumerate(wide[:most])]
    written = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [(int(row["chosen_id"]), int(row["rejected_id"])) for row in written] == [
        (i, j) for _, _, i, j in sorted(expected)
    ]
    assert (report.pairs, report.ties, report.over_limit) == (
        len(expected),
        ties,
        reached - len(expected),
    )
    assert report.below_margin == compared - ties - reached


def test_a_difference_that_rounding_puts_below_the_margin_reaches_it(command, write_jsonl):
    assert 0.3 - 0.2 < 0.1
    path = write_jsonl(table({"a": [0.3, 0.2]}))
    assert ids(command("pairs", path, "--margin", "0.1")) == [("a0", "a1")]


def test_formats_and_chat_messages(command, write_jsonl, tmp_path):
    path = write_jsonl(table())
    (row, _) = command("pairs", path, "--margin", "3", "--conversational").rows
    assert row["prompt"] == [{"role": "user", "content": "Say a."}]
    assert row["chosen"] == [{"role": "assistant", "content": "a text 0"}]
    assert row["rejected"] == [{"role": "assistant", "content": "a text 1"}]
    plain = command("pairs", path, "--margin", "3")
    assert command("pairs", "--margin", "3", stdin=path.read_bytes()).out == plain.out
    done = command("pairs", path, "--margin", "3", "--out-format", "csv")
    assert done.out.splitlines()[0] == ",".join(
        [*preference_pairs.TEXTS, *preference_pairs.NUMBERS]
    )
    done = command("pairs", path, "--margin", "3", "--out-format", "csv", "--conversational")
    assert (done.code, done.err) == (
        2, "refladder: -: chat messages are lists, which CSV does not have; write .jsonl or .parquet\n",
    )  # fmt: skip
    parquet = pytest.importorskip("pyarrow.parquet")
    for flags in ((), ("--conversational",)):
        assert (
            command("pairs", path, "--margin", "3", "--out", tmp_path / "out.parquet", *flags).code
            == 0
        )
        expected = command("pairs", path, "--margin", "3", *flags).rows
        assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == expected


def test_prompts_come_from_the_table_or_the_ladder_set(command, fails, write_jsonl, rows, tmp_path):
    scored = tmp_path / "scored.jsonl"
    assert (
        command("score", write_jsonl(rows(14)), "--ladders", "demo/story", "--out", scored).code
        == 0
    )
    error = fails(2, "pairs", scored, "--margin", "0")
    assert error == (
        f"refladder: {scored}:1: no text of context 'story-01' for the prompt; add it in a column context (or map one "
        "with --column context=NAME), or name the ladder set that has it with --ladders\n"
    )
    done = command("pairs", scored, "--margin", "0", "--ladders", "demo/story")
    assert done.code == 0
    assert "by overall_score" in done.err
    assert {row["context_id"] for row in done.rows} == {"story-01", "story-02"}
    assert all(row["prompt"] for row in done.rows)
    mapped = [{**row, "ask": row.pop("context")} for row in table()]
    path = write_jsonl(mapped, "mapped.jsonl")
    assert (
        command("pairs", path, "--margin", "3", "--column", "context=ask").rows[0]["prompt"]
        == "Say a."
    )
    without_ids = [
        {key: value for key, value in row.items() if key != "context_id"} for row in table()
    ]
    done = command("pairs", write_jsonl(without_ids, "texts.jsonl"), "--margin", "3")
    assert ids(done) == [("a0", "a1"), ("b1", "b0")]


def test_the_same_text_is_no_pair(command, write_jsonl):
    rows = table({"a": [1.0, 2.0]})
    rows[0]["output"] = rows[1]["output"]
    done = command("pairs", write_jsonl(rows), "--margin", "0")
    assert (
        done.rows,
        "0 pairs by worth_score" in done.err,
        "1 with the same text" in done.err,
    ) == ([], True, True)


def test_two_equal_texts_take_no_place_of_a_context(command, write_jsonl):
    # Rows 0 and 1 have one text.
    rows = table({"a": [5.0, 1.0, 2.0, 4.0]})
    rows[1]["output"] = rows[0]["output"]
    path = write_jsonl(rows)
    done = command("pairs", path, "--margin", "2", "--per-context", "1")
    assert ids(done) == [("a0", "a2")]  # 3 apart, the widest of different texts
    # reach 2: (0, 1) 4 with the same text, (0, 2) 3, (3, 1) 3, (3, 2) 2; below: (0, 3) 1, (2, 1) 1
    assert "2 below the margin, 2 over --per-context, 1 with the same text" in done.err
    assert ids(command("pairs", path, "--margin", "2")) == [
        ("a0", "a2"),
        ("a3", "a1"),
        ("a3", "a2"),
    ]


def test_what_cannot_be_paired_is_refused(command, fails, write_jsonl):
    rows = table()
    rows[1]["signature"] = "judge:2|rule:sum"
    path = write_jsonl(rows)
    assert fails(2, "pairs", path, "--margin", "3") == (
        f"refladder: {path}:2: the scores in column 'worth_score' are on different scales: judge:2 here, judge:1 in "
        f"{path}:1; filter each signature separately, or compare them as they are with --mix\n"
    )
    (pair, _) = command("pairs", path, "--margin", "3", "--mix").rows
    assert pair["signature"] is None
    rows = table()
    rows[1]["context"] = "Say something else."
    path = write_jsonl(rows)
    assert (
        f"{path}:2: context 'a' has another text than in {path}:1; a pair needs one prompt"
        in fails(2, "pairs", path, "--margin", "3", "--out", path.with_name("out.jsonl"))
    )
    two = [{**row, "other_score": 1} for row in table()]
    path = write_jsonl(two)
    assert fails(2, "pairs", path, "--margin", "3") == (
        f"refladder: {path}: several score columns (worth_score, other_score); name the column with --by COLUMN\n"
    )
    assert command("pairs", path, "--margin", "3", "--by", "worth_score").code == 0
    for options, message in [
        (("--margin", "-1"), "--margin -1: a difference of scores, 0 or more, is needed"),
        (("--margin", "nan"), "--margin nan: a difference of scores, 0 or more, is needed"),
        (
            ("--margin", "1", "--by", "worth"),
            f"{path}:1: no column 'worth'; did you mean 'worth_score'?",
        ),
        (
            ("--margin", "1", "--by", "output"),
            f"{path}:1: column 'output' must be a finite number or empty, found",
        ),
        (
            ("--margin", "1", "--by", "worth_score", "--out", path),
            f"{path}: SOURCE and --out must be different files",
        ),
    ]:
        assert fails(2, "pairs", path, *options).startswith(f"refladder: {message}")
    bare = write_jsonl([{"context_id": "a", "output": "x"}], "bare.jsonl")
    assert "no column NAME_score; name the column with --by COLUMN" in fails(
        2, "pairs", bare, "--margin", "1"
    )


def test_texts_are_let_go_after_their_last_pair(tmp_path):
    """Peak memory of 40 contexts with long texts, one after the other, is far below that of all texts."""
    import tracemalloc

    path = tmp_path / "in.jsonl"
    with path.open("w") as stream:
        for number in range(160):
            text = f"{number} " + "x" * 100_000
            row = {
                "context_id": f"c{number // 4}",
                "context": "p",
                "output": text,
                "w_score": number % 4,
            }
            stream.write(json.dumps(row) + "\n")
    tracemalloc.start()
    report = preference_pairs.run(
        Pairing(margin=1), Tables(source=str(path), out=str(tmp_path / "out.jsonl")), Silent()
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.pairs == 40 * 6
    assert peak < 5_000_000  # of 16 MB of texts


def test_filter_keeps_the_best_of_each_context(command, write_jsonl):
    path = write_jsonl(table())

    def passed(*options):
        done = command("filter", path, *options)
        assert done.code == 0, done.err
        return [row["output_id"] for row in done.rows]

    # rows keep their order; of the equal scores of a2 and a3 the earlier row is taken
    assert passed("--best", "2", "--per", "context_id") == ["a0", "a2", "b0", "b1", "c0"]
    assert passed("--best", "1", "--per", "context_id") == ["a0", "b1", "c0"]
    # the best of those that reach the thresholds
    assert passed("--best", "1", "--per", "context_id", "--max", "worth_score=4") == [
        "a2",
        "b0",
        "c0",
    ]
    assert passed("--best", "1", "--per", "signature") == ["b1"]
    assert passed("--best", "1", "--per", "context_id", "--unscored", "keep") == [
        "a0",
        "a4",
        "b1",
        "c0",
    ]
    done = command(
        "filter", "--best", "2", "--per", "context_id", "--json", stdin=path.read_bytes()
    )
    assert json.loads(done.err) == {
        "rows": 8, "passed": 5, "rejected": 2, "unscored": 1, "unscored_to": "drop",
        "ranges": {"worth_score": [1.0, 9.0]},
    }  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(
        st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(-2, 2))), max_size=20
    ),
    best=st.integers(1, 3),
)
def test_the_best_of_groups_are_those_of_a_sort(tmp_path_factory, values, best):
    folder = tmp_path_factory.mktemp("best")
    rows = [{"n": number, "g": group, "v": value} for number, (group, value) in enumerate(values)]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = Tables(source=str(folder / "in.jsonl"), out=str(folder / "out.jsonl"))
    filter.run(Filtering(best=best, per="g", by="v"), tables, Silent())
    expected = []
    for group in range(4):
        scored = [row for row in rows if row["g"] == group and row["v"] is not None]
        expected += [row["n"] for row in sorted(scored, key=lambda row: -row["v"])[:best]]
    written = [json.loads(line)["n"] for line in (folder / "out.jsonl").read_text().splitlines()]
    assert written == sorted(expected)


def test_filter_refuses_groups_that_cannot_be(fails, write_jsonl):
    rows = table()
    rows[6]["signature"] = "judge:2|rule:sum"
    mixed, path = write_jsonl(rows, "mixed.jsonl"), write_jsonl(table())
    assert "on different scales" in fails(2, "filter", mixed, "--best", "1", "--per", "context_id")
    for options, message in [
        (("--best", "1"), "--best K and --per COLUMN go together; give both"),
        (("--per", "context_id"), "--best K and --per COLUMN go together; give both"),
        (("--best", "1", "--per", "context_id", "--top", "0.5", "--by", "worth_score"),
         "--top is a fraction of all rows, and --best a number in each group; give one of them"),
        (("--best", "1", "--per", "topic"), f"{path}:1: no column 'topic' to group by; Columns: context_id, context"),
        (("--best", "1", "--per", "context_id", "--by", "worth"), f"{path}:1: no column 'worth'; did you mean"),
    ]:  # fmt: skip
        assert fails(2, "filter", path, *options).startswith(f"refladder: {message}")
