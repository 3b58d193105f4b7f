"""`link` maps columns of scores to the scale of another table; `filter` and `show` take the file."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from json_lines import read_lines
from milder_judge import Milder

import refladder
from refladder.errors import DataError, UsageError

TEXTS = 50


def rows_of(values, column, **more):
    return [
        {"output_id": f"t{number}", "context_id": f"c{number}", "output": f"text {number}", column: value, **more}
        for number, value in enumerate(values)
    ]  # fmt: skip


@pytest.fixture
def ratings():
    """Ratings of texts from 0 to 100, and nearly the same texts from 1 to 5."""
    random = np.random.default_rng(0)
    new = random.uniform(0, 100, TEXTS).round(3)
    return new.tolist(), (1 + new / 25 + random.normal(0, 0.2, TEXTS)).round(3).tolist()


def test_two_columns_that_are_alike_stay_as_they_are(command, write_jsonl, ratings, tmp_path):
    one, other = (
        write_jsonl(rows_of(ratings[0], name), f"{name}.jsonl") for name in ("new", "old")
    )
    done = command(
        f"link --from {one} --from-by new --to {other} --to-by old --out {tmp_path}/link"
    )
    assert "Left as they are, since no map did clearly better on held-out texts: new.\n" in done.err


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
    for number in range(TEXTS):
        x, y = np.delete(new, number), np.delete(old, number)
        value = y.mean() + y.std() / x.std() * (new[number] - x.mean())
        errors.append(abs(value - old[number]))
        wrong += (value >= 3) != (old[number] >= 3)
    assert column["line_error"] == pytest.approx(np.mean(errors))
    [decision] = column["decisions"]
    assert decision["linked"] == wrong
    assert decision["unlinked"] == sum((x >= 3) != (y >= 3) for x, y in zip(new, old, strict=True))
    assert (
        f"decisions at 3 of old that change: {decision['unlinked'] / TEXTS:.1%} as they are"
        in done.err
    )
    assert "by the order of the texts, which no map changes" in done.err
    assert "decisions at 9 cut-offs of old that change" in command(line).err
    assert len(json.loads(out.read_text())["columns"][0]["decisions"]) == 9

    # `filter` compares on the target scale; conditions may name either column, and --by another name in the table.
    mapped = np.interp(new, column["scores"], column["values"])
    passed = int(np.sum(mapped >= 3))
    ends = [np.interp(new, column["scores"], column[end]) >= 3 for end in ("least", "most")]
    for name in ("new", "old"):
        report = command(
            f"filter {first} --min {name}=3 --link {out} --out {tmp_path}/k.jsonl --json"
        ).rows[0]
        assert report["passed"] == passed
        assert report["uncertain"] == int(np.sum(ends[0] != ends[1]))
        # The rows get the scores on the other scale; what cannot be read without a link is as it was.
        kept = read_lines(tmp_path / "k.jsonl")
        assert [row["new_linked"] for row in kept] == pytest.approx(mapped[mapped >= 3].tolist())
        assert {*kept[0]} == {*rows_of(new, "new")[0], "new_linked"}
    exists = f"{tmp_path}/k.jsonl: column 'new_linked' exists already; rename or drop it first"
    assert (
        exists
        in command(
            f"filter {tmp_path}/k.jsonl --min new=3 --link {out} --out {tmp_path}/l.jsonl"
        ).err
    )
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
    assert "10 texts are too few for an interval of the map; 50 are needed" in str(link)
    kept = refladder.filter(rows_of(new, "new"), min={"new": 3}, link=link)
    assert 0 < len(kept) < 10
    few = "the link was made from too few texts for an interval of its map, so no row counts as uncertain"
    assert few in caplog.text
    none = r"9 texts have a score in new and old \(matched by output_id\), and at least 10 are needed; score the"
    with pytest.raises(DataError, match=none):
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
    finite = "--at inf: must be a finite number"
    assert finite in fails(2, f"{line} --from-by new --to-by old --at inf")
    none = (
        f"{first} and {second}: no column NAME_score or NAME_grade is in both; name scored tables, or a column of each "
        "with --from-by and --to-by"
    )
    assert none in fails(2, line)
    absent = f"--column output=reply: neither {first} nor {second} has this column"
    assert absent in fails(2, f"{line} --from-by new --to-by old --column output=reply")
    with pytest.raises(UsageError, match="by and to_by name the columns of a link of scores"):
        refladder.link(first, to=second, by="new")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The 72 stories of the demo set on two dimensions, scored by two judges."""
    folder = tmp_path_factory.mktemp("judged")
    outputs = refladder.load_benchmark("demo/story").outputs
    rows = [
        {"output_id": each.id, "context_id": each.context_id, "output": each.text}
        for each in outputs
    ]
    for name, judge in (("milder", Milder()), ("builtin", "builtin")):
        refladder.score(rows, ladders="demo/story", judge=judge, out=folder / f"{name}.jsonl")
    return folder / "milder.jsonl", folder / "builtin.jsonl"


def test_every_score_and_grade_of_both_tables_is_in_one_file(judged, command, fails, tmp_path):
    first, second = judged
    out, kept = tmp_path / "link.json", tmp_path / "kept.jsonl"
    done = command(f"link --from {first} --to {second} --out {out}")
    assert done.code == 0, done.err
    record = json.loads(out.read_text())
    rows, others = read_lines(first), read_lines(second)
    names = [name for name in rows[0] if name.endswith(("_score", "_grade"))]
    assert len(names) == 6  # two of each dimension, and two of both together
    assert [each["column"] for each in record["columns"]] == names
    assert (record["from_signature"], record["to_signature"]) == (
        rows[0]["signature"], others[0]["signature"],
    )  # fmt: skip
    assert (
        json.loads(command(f"link --json --from {first} --to {second} --out {out}").out)
        | {"schema": "link/3"}
        == record
    )

    # Without a condition, all rows get their scores on the other scale, and keep their own.
    assert command(f"filter {first} --link {out} --out {kept}").code == 0
    linked = read_lines(kept)
    assert [row["coherence_grade"] for row in linked] == [row["coherence_grade"] for row in rows]
    for column in record["columns"]:
        name = column["column"]
        found = [row[f"{name}_linked"] for row in linked]
        mapped = np.interp([row[name] for row in rows], column["scores"], column["values"])
        assert found == pytest.approx(mapped.tolist())
        wanted = [row[name] for row in others]
        before = np.abs(np.subtract([row[name] for row in rows], wanted)).mean()
        assert np.abs(np.subtract(found, wanted)).mean() < before
    # Rows that are on the target scale already keep their numbers.
    assert command(f"filter {second} --link {out} --out {kept}").code == 0
    assert all(row["coherence_score_linked"] == row["coherence_score"] for row in read_lines(kept))
    several = f"--by: the link {out} maps several columns (coherence_score, "
    assert several in fails(2, f"filter {first} --min x=1 --by x --link {out} --out {kept}")
    assert "has no column 'coherence_spread', only" in fails(
        2, f"filter {first} --min coherence_spread=1 --link {out} --out {kept}"
    )
    assert "leave out --mix" in fails(
        2, f"filter {first} --min x=1 --link {out} --mix --out {kept}"
    )
    same = f"{first} and {first} have the same signature, so their scores are on one scale already"
    assert same in fails(2, f"link --from {first} --to {first} --out {out}")
    older = tmp_path / "older.json"
    older.write_text(re.sub(r"\|criteria:[^|]*", "", out.read_text()))
    text = fails(2, f"filter {first} --min coherence_score=0 --link {older}")
    assert "an earlier version of refladder made the link " in text
    assert "its signatures name no criteria; make it again with `refladder link`" in text


def test_frames_get_the_columns_of_a_link_and_say_their_own_names(judged):
    pd = pytest.importorskip("pandas")
    asked = {"ladders": "demo/story", "dimensions": ["coherence"]}
    rows = [
        {"key": row["output_id"], "topic": row["context_id"], "reply": row["output"]}
        for row in read_lines(judged[0])
    ]
    fields = {"output_id": "key", "context_id": "topic", "output": "reply"}
    frames = [
        refladder.score(pd.DataFrame(rows), columns=fields, judge=judge, **asked)
        for judge in (Milder(), "builtin")
    ]
    link = refladder.link(frames[0], to=frames[1])
    kept = refladder.filter(frames[0], min={"coherence_score": 0}, link=link)
    assert kept.columns.tolist()[-2:] == ["coherence_score_linked", "coherence_grade_linked"]
    assert (kept["coherence_score_linked"] >= 0).all()
    # Lists say no names: those given count in the table that has them.
    plain = [
        {**row, "mark": mark} for row, mark in zip(rows, frames[1].coherence_score, strict=True)
    ]
    named = refladder.link(
        frames[0].to_dict("records"), to=plain, by="coherence_score", to_by="mark", columns=fields
    )
    assert named.columns[0].scores == link.columns[0].scores
    with pytest.raises(
        DataError, match=r"no column 'output' for the output.*Map one with columns="
    ):
        refladder.link(plain, to=plain, by="mark", to_by="mark")


def test_an_id_in_several_contexts_is_several_texts(ratings):
    new, old = ratings

    def rows(values, column):
        # Two ids, each in 25 contexts; the scores of some are equal.
        return [
            {"output_id": f"model-{number % 2}", "context_id": f"c{number // 2}", column: value}
            for number, value in enumerate(values)
        ]

    one, other = rows([round(value / 30) for value in new], "new"), rows(old, "old")
    link = refladder.link(one, to=other[::-1], by="new", to_by="old")
    assert link.columns[0].rows == TEXTS
    # The mean error of the scores as they are, over all 50 texts.
    by_hand = np.mean([abs(round(x / 30) - y) for x, y in zip(new, old, strict=True)])
    assert link.columns[0].identity_error == pytest.approx(by_hand)
    without = [{"output_id": row["output_id"], "old": row["old"]} for row in other[:2]]
    with pytest.raises(DataError, match=r"0 texts have .* \(matched by output_id and context\)"):
        refladder.link(one, to=without, by="new", to_by="old")


def test_texts_of_one_id_with_other_words_are_counted(ratings, caplog):
    one, other = rows_of(ratings[0], "new"), rows_of(ratings[1], "old")
    other[3]["output"] = "Another text."
    del other[4]["output"]
    refladder.link(one, to=other, by="new", to_by="old")
    assert ": 1 text with one output_id and other words in two of the tables, " in caplog.text


def test_contexts_are_units_unless_one_is_not_known(ratings):
    tables = [
        [{**row, "context_id": f"c{number // 5}"} for number, row in enumerate(rows)]
        for rows in (rows_of(ratings[0], "new"), rows_of(ratings[1], "old"))
    ]
    [column] = refladder.link(tables[0], to=tables[1], by="new", to_by="old").columns
    assert column.contexts == TEXTS // 5
    for table in tables:
        table[0]["context_id"] = None
    [column] = refladder.link(tables[0], to=tables[1], by="new", to_by="old").columns
    assert (column.rows, column.contexts) == (TEXTS, TEXTS)


def test_a_column_with_too_few_scores_is_left_out_and_named(ratings, caplog):
    rows = [
        {**row, "a_grade": 1.0 if number < 9 else None}
        for number, row in enumerate(rows_of(ratings[0], "a_score"))
    ]
    link = refladder.link(rows, to=rows)
    assert [column.column for column in link.columns] == ["a_score"]
    assert "9 texts have a score in a_grade and a_grade" in caplog.text
    assert "at least 10 are needed; it is not in the link" in caplog.text
    assert link.from_signature == "column:a_score, a_grade"


def test_a_target_of_one_value_decides_nothing(ratings):
    link = refladder.link(rows_of(ratings[0], "new"), to=rows_of([1.0] * TEXTS, "old"), by="new", to_by="old")  # fmt: skip
    assert link.columns[0].decisions == ()
    assert "no decision on old can change: all texts have the same score there" in str(link)


def test_a_map_of_many_texts_is_made_from_some_of_them():
    random = np.random.default_rng(0)
    new = random.normal(size=10_010).round(6).tolist()
    rows = [{"output_id": str(number), "new": value, "old": 2 * value + 1} for number, value in enumerate(new)]  # fmt: skip
    link = refladder.link(rows, to=rows, by="new", to_by="old")
    column = link.columns[0]
    assert (column.map, column.rows, column.common) == ("line", 10_000, 10_010)
    assert (column.slope, column.shift) == pytest.approx((2, 1))
    assert "10,000 of 10,010 common texts, drawn with seed 0, make the map" in str(link)


def test_a_damaged_link(fails, ratings, write_jsonl, tmp_path):
    new, old = (
        write_jsonl(rows_of(values, "q"), f"{number}.jsonl")
        for number, values in enumerate(ratings)
    )
    file = tmp_path / "link.json"
    refladder.link(new, to=old, by="q", to_by="q", out=file)
    reading = f"filter {new} --min q=0 --out {tmp_path}/kept.jsonl --link {file}"
    record = json.loads(file.read_text())
    empty = {key: [] for key in ("scores", "values", "least", "most")}
    falling = {"scores": [2.0, 1.0], "values": [0, 0], "least": [0, 0], "most": [0, 0]}
    words = "link/3 field 'columns.0': it needs scores in rising order, and as many other numbers at these knots"
    for changed in ({"values": [1.0]}, empty, falling):
        file.write_text(json.dumps(record | {"columns": [record["columns"][0] | changed]}))
        assert f"{file}: {words}" in fails(2, reading)
    file.write_text(json.dumps(record | {"schema": "link/2"}))
    older = f"{file}: link/2, of another version of refladder; this one reads link/3, so make the file again"
    assert older in fails(2, reading)
    file.write_text("")
    assert f'{file}: empty; expected one record with "schema": "link/3"' in fails(2, reading)


def test_a_row_at_a_bound_is_not_uncertain(command, ratings, write_jsonl, tmp_path):
    path, file = write_jsonl(rows_of(ratings[1], "q"), "q.jsonl"), tmp_path / "link.json"
    refladder.link(path, to=path, by="q", to_by="q", out=file)
    record = json.loads(file.read_text())
    column = record["columns"][0]
    # A map to itself whose interval reaches down by 1.
    column["values"] = column["most"] = column["scores"]
    column["least"] = [score - 1 for score in column["scores"]]
    file.write_text(json.dumps(record))
    scores = np.array(ratings[1])
    bound = float(np.sort(scores)[25])
    # The scores lie between knots, so the map to itself is exact to rounding only; a bound a little aside is clear.
    for option, at, uncertain in (("min", bound - 1e-6, (bound <= scores) & (scores < bound + 1)),
                                  ("max", bound + 1e-6, (bound < scores) & (scores <= bound + 1))):  # fmt: skip
        asked = f"--{option} q={at!r} --link {file} --out {tmp_path}/k.jsonl"
        done = command(f"filter {path} {asked} --json")
        assert json.loads(done.out)["uncertain"] == uncertain.sum(), option


def test_a_column_that_the_rows_do_not_have_is_refused(ratings, tmp_path):
    new, old = ratings
    link = tmp_path / "link.json"
    refladder.link(rows_of(new, "new"), to=rows_of(old, "old"), by="new", to_by="old", out=link)
    with pytest.raises(DataError, match="no column 'x'"):
        refladder.filter(rows_of(new, "new"), min={"old": 3}, link=link, by="x")
