"""`link --from-by --to-by` maps any column of scores to the scale of another; `filter` and `show` take the file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from json_lines import read_lines

import refladder
from refladder.errors import DataError, UsageError
from refladder.statistics import column_maps


def rows_of(values, column, **more):
    return [
        {"output_id": f"t{number}", "context_id": f"c{number}", "output": f"text {number}", column: value, **more}
        for number, value in enumerate(values)
    ]  # fmt: skip


@pytest.fixture
def ratings():
    """Ratings of 40 texts from 0 to 100, and nearly the same texts from 1 to 5."""
    random = np.random.default_rng(0)
    new = random.uniform(0, 100, 40).round(3)
    return new.tolist(), (1 + new / 25 + random.normal(0, 0.2, 40)).round(3).tolist()


def test_two_columns_that_are_alike_stay_as_they_are(command, write_jsonl, ratings, tmp_path):
    one, other = (
        write_jsonl(rows_of(ratings[0], name), f"{name}.jsonl") for name in ("new", "old")
    )
    done = command(
        f"link --from {one} --from-by new --to {other} --to-by old --out {tmp_path}/link"
    )
    assert "Left as they are, since no map did better on held-out texts: new.\n" in done.err


def test_a_line_between_two_ratings(command, ratings, write_jsonl, tmp_path):
    new, old = ratings
    first, second = write_jsonl(rows_of(new, "new"), "new.jsonl"), write_jsonl(rows_of(old, "old"), "old.jsonl")  # fmt: skip
    out = tmp_path / "link.json"
    line = f"link --from {first} --from-by new --to {second} --to-by old --out {out}"
    done = command(f"{line} --at 3")
    assert done.code == 0, done.err
    record = json.loads(out.read_text())
    [column] = record["columns"]
    assert (record["from_signature"], record["to_signature"]) == ("column:new", "column:old")
    assert (column["column"], column["to_column"], column["map"]) == ("new", "old", "line")
    # Equal means and standard deviations.
    assert column["slope"] == pytest.approx(np.std(old) / np.std(new))
    assert column["shift"] == pytest.approx(np.mean(old) - column["slope"] * np.mean(new))
    # A naive loop: each text by the line of the others.
    errors, wrong = [], 0
    for number in range(40):
        x, y = np.delete(new, number), np.delete(old, number)
        value = y.mean() + y.std() / x.std() * (new[number] - x.mean())
        errors.append(abs(value - old[number]))
        wrong += (value >= 3) != (old[number] >= 3)
    assert column["line_error"] == pytest.approx(np.mean(errors))
    [decision] = column["decisions"]
    assert decision["linked"] == wrong
    assert decision["unlinked"] == sum((x >= 3) != (y >= 3) for x, y in zip(new, old, strict=True))
    assert (
        f"decisions at 3 of old that change: {decision['unlinked'] / 40:.1%} as they are"
        in done.err
    )
    assert "by the order of the texts, which no map changes" in done.err
    assert "9 deciles of old" in command(line).err
    assert len(json.loads(out.read_text())["columns"][0]["decisions"]) == 9

    # `filter` compares on the target scale; conditions may name either column, and --by another name in the table.
    mapped = np.interp(new, column["scores"], column["values"])
    passed = int(np.sum(mapped >= 3))
    for name in ("new", "old"):
        report = command(
            f"filter {first} --min {name}=3 --link {out} --out {tmp_path}/k.jsonl --json"
        ).rows[0]
        assert report["passed"] == passed
        assert report["uncertain"] is not None
    other = write_jsonl(rows_of(new, "mine"), "mine.jsonl")
    kept = f"filter {other} --min old=3 --link {out} --by mine --out {tmp_path}/k.jsonl --json"
    assert command(kept).rows[0]["passed"] == passed
    assert (
        len(refladder.filter(rows_of(new, "mine"), min={"old": 3}, link=out, by="mine")) == passed
    )


def test_calls_take_tables_and_few_texts_have_no_interval(ratings, caplog):
    new, old = (values[:10] for values in ratings)
    link = refladder.link(rows_of(new, "new"), to=rows_of(old, "old"), by="new", to_by="old")
    [column] = link.columns
    assert (column.rows, column.least, column.most, column.half_width) == (10, (), (), None)
    assert "10 texts are too few for intervals; 20 are needed" in str(link)
    kept = refladder.filter(rows_of(new, "new"), min={"new": 3}, link=link)
    assert 0 < len(kept) < 10
    few = "the link was made from too few texts for an interval, so no row counts as uncertain"
    assert few in caplog.text
    with pytest.raises(DataError, match=r"9 texts have a score in both \(matched by output_id\)"):
        refladder.link(rows_of(new[:9], "new"), to=rows_of(old, "old"), by="new", to_by="old")


def test_texts_match_by_context_and_text_where_a_table_has_no_ids(ratings):
    new, old = ratings
    turned = rows_of(old[::-1], "old")
    for number, row in enumerate(rows_of(old, "old")[::-1]):
        turned[number] = {name: value for name, value in row.items() if name != "output_id"}
    link = refladder.link(rows_of(new, "new"), to=turned, by="new", to_by="old")
    assert link == refladder.link(rows_of(new, "new"), to=rows_of(old, "old"), by="new", to_by="old")  # fmt: skip
    twice = [*rows_of(new, "new"), rows_of([7.0], "new")[0]]
    clash = r"another score of a text with the output_id 't0' is in .*; keep one of these rows"
    with pytest.raises(DataError, match=clash):
        refladder.link(twice, to=rows_of(old, "old"), by="new", to_by="old")


def test_the_simplest_of_equal_maps_is_used(ratings):
    new, _ = ratings
    for second, best in ((new, "identity"), ([value + 2 for value in new], "shift")):
        link = refladder.link(rows_of(new, "new"), to=rows_of(second, "old"), by="new", to_by="old")
        assert link.columns[0].map == best
        assert link.columns[0].error == pytest.approx(0, abs=1e-9)


def test_scores_with_signatures_keep_them(ratings, write_jsonl):
    new, old = ratings
    first = write_jsonl(rows_of(new, "q_score", signature="new|judge"), "first.jsonl")
    link = refladder.link(first, to=rows_of(old, "q_score", signature="old|judge"), by="q_score", to_by="q_score")  # fmt: skip
    assert (link.from_signature, link.to_signature) == ("new|judge", "old|judge")
    other = rows_of(new, "q_score", signature="third|judge")
    with pytest.raises(DataError, match=r"and this row has third\|judge"):
        refladder.filter(other, min={"q_score": 3}, link=link)


def test_show_places_a_linked_score(command, tmp_path):
    command(f"export demo/story --out {tmp_path}/stories.jsonl")
    scored = tmp_path / "scored.jsonl"
    done = command(f"score {tmp_path}/stories.jsonl --ladders demo/story --dimension coherence --out {scored}")  # fmt: skip
    assert done.code == 0, done.err
    rows = read_lines(scored)
    people = [{**row, "people": 3 + row["coherence_score"] / 10} for row in rows]
    link = refladder.link(scored, to=people, by="coherence_score", to_by="people")
    [ladder] = refladder.show(
        "demo/story", "story-01", dimensions=["coherence"], scores=scored, link=link
    )
    expected = sorted((row["people"] for row in people if row["context_id"] == "story-01"), reverse=True)  # fmt: skip
    assert [each["score"] for each in ladder["outputs"]] == pytest.approx(expected)
    assert {each["grade"] for each in ladder["outputs"]} == {None}


def test_options_that_do_not_go_together(fails, ratings, write_jsonl, tmp_path):
    new, old = ratings
    first, second = write_jsonl(rows_of(new, "new"), "new.jsonl"), write_jsonl(rows_of(old, "old"), "old.jsonl")  # fmt: skip
    line = f"link --from {first} --to {second} --out {tmp_path}/link.json"
    both = "--from-by and --to-by name the columns of a link of scores, for --at too; give both"
    assert both in fails(2, f"{line} --from-by new")
    assert both in fails(2, f"{line} --at 3")
    rule = "--rule and --least-mass are for judgments, and a link of columns reads scores; leave them out"
    assert rule in fails(2, f"{line} --from-by new --to-by old --rule mean-difference")
    finite = "--at inf: must be a finite number"
    assert finite in fails(2, f"{line} --from-by new --to-by old --at inf")
    with pytest.raises(UsageError, match="by and to_by name the columns of a link of scores"):
        refladder.link(first, to=second, by="new")
    path = r"^judgments must be a text or a path, found \[\{.*; a table needs by and to_by$"
    with pytest.raises(UsageError, match=path):
        refladder.link(rows_of(new, "new"), to=second)


def test_the_best_cut_off_is_in_the_middle_of_the_best_ones():
    scores, wanted = np.array([1.0, 2.0, 4.0, 5.0]), np.array([False, False, True, True])
    assert column_maps.best_cutoff(scores, wanted) == 3
    assert column_maps.best_cutoff(scores, ~np.isnan(scores)) == -np.inf
    # Below 2 and above 4 one decision differs; of 1.5 and 4.5, the later one.
    assert column_maps.best_cutoff(scores, np.array([False, True, False, True])) == 4.5


def test_a_column_that_the_rows_do_not_have_is_refused(ratings, tmp_path):
    new, old = ratings
    link = tmp_path / "link.json"
    refladder.link(rows_of(new, "new"), to=rows_of(old, "old"), by="new", to_by="old", out=link)
    with pytest.raises(DataError, match="no column 'x'"):
        refladder.filter(rows_of(new, "new"), min={"old": 3}, link=link, by="x")
