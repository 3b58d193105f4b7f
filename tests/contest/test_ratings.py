"""Ratings of people: what is stored, what is refused, and that no write loses another."""

from __future__ import annotations

import threading

import pytest
from json_lines import read_lines
from refusals import refuses
from review_data import CRITERION, contest

from refladder.contest.ratings import add_rating, ratings_of, remove_rating
from refladder.contest.runs import read_run
from refladder.errors import DataError


@pytest.fixture
def data(tmp_path):
    return read_run(contest(tmp_path, rows=3) / "run")


def grade(text=0, value=3, **more):
    return {"text": text, "criterion": 0, "value": value, "rater": "ann", **more}


def pair(first=0, second=1, winner="first"):
    texts = {"first": first, "second": second}
    return {**texts, "criterion": 0, "winner": winner, "rater": "ann"}


def test_grades_and_preferences_are_tables_of_labels(data):
    add_rating(data, grade(2, 4))
    add_rating(data, pair(1, 0, "tie"))
    first, other, text, *_ = data.texts
    labelled = {"dimension": CRITERION, "rater": "ann"}
    about = {"output_id": text.id, "context_id": data.rows[text.row], "system": text.system}
    assert read_lines(data.grades) == [{**labelled, **about, "value": 4, CRITERION: 4}]
    compared = {"context_id": "r0", "first": other.id, "second": first.id, "winner": "tie"}
    assert read_lines(data.pairs) == [{**labelled, **compared}]
    assert ratings_of(data) == [grade(2, 4), pair(1, 0, "tie")]


def test_undo_removes_the_last_equal_rating_only(data):
    for rating in (grade(), grade(1), grade()):
        add_rating(data, rating)
    assert remove_rating(data, grade())
    assert ratings_of(data) == [grade(), grade(1)]
    assert not remove_rating(data, grade(value=1))


def test_what_is_no_rating_is_refused_and_nothing_is_written(data):
    for rating, message in (
        ([], "a rating is a JSON object"),
        (grade(99), "text must be a number from 0 to 5, found 99"),
        (grade(text=True), "text must be a number from 0 to 5, found True"),
        (grade(criterion=1), "criterion must be a number from 0 to 0, found 1"),
        (grade(value=6), "grade 6 is outside 1 to 5"),
        (grade(value=float("nan")), "a grade must be a number, found nan"),
        (grade(value=True), "a grade must be a number, found True"),
        (grade(rater=" "), "needs the name of its rater"),
        (grade(rater="a\nb"), "needs the name of its rater"),
        (grade(rater="a" * 81), "of 1 to 80 characters"),
        (pair(0, 0), "between two texts of one row"),
        (pair(0, 2), "between two texts of one row"),
        (pair(winner="left"), "the winner must be first, second or tie, found 'left'"),
    ):
        refuses(DataError, message, add_rating, data, rating)
    assert not data.grades.exists()
    assert not data.pairs.exists()


def test_a_line_cut_by_a_kill_is_removed_before_the_next(data):
    add_rating(data, grade())
    with data.grades.open("ab") as stream:
        stream.write(b'{"output_id": "r0/')
    add_rating(data, grade(1))
    ids = [line["output_id"] for line in read_lines(data.grades)]
    assert ids == [data.texts[0].id, data.texts[1].id]


def test_reading_and_rating_keep_a_last_line_without_a_newline(data, command, tmp_path):
    def cut_newline():
        data.grades.write_bytes(data.grades.read_bytes().rstrip(b"\n"))

    add_rating(data, grade())
    cut_newline()
    before = data.grades.read_bytes()
    assert command("review", tmp_path / "run", "--html", tmp_path / "review.html").code == 0
    assert ratings_of(data) == [grade()]
    assert data.grades.read_bytes() == before
    add_rating(data, grade(1))
    assert ratings_of(data) == [grade(), grade(1)]
    cut_newline()
    assert remove_rating(data, grade(1))
    assert data.grades.read_bytes() == before + b"\n"


def test_ratings_are_not_written_through_a_link_to_another_folder(data, tmp_path):
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(b'{"output_id": "r0/')
    data.grades.symlink_to(outside)
    message = r"ratings\.jsonl: a link to .*outside\.jsonl, which is not in .*run; copy"
    for use in (add_rating, remove_rating, lambda data, _rating: ratings_of(data)):
        with pytest.raises(DataError, match=message):
            use(data, grade())
    assert outside.read_bytes() == b'{"output_id": "r0/'


def test_a_damaged_line_is_reported(data):
    data.grades.write_text('{"output_id": "x"}\n')
    with pytest.raises(DataError, match=r"ratings\.jsonl:1: not a rating; correct the line"):
        ratings_of(data)


def test_threads_lose_nothing(data):
    def rate(name):
        for value in range(1, 6):
            add_rating(data, grade(value=value, rater=name))

    threads = [threading.Thread(target=rate, args=(f"rater {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_lines(data.grades)) == 20
    assert not list(data.grades.parent.glob(".*.lock"))
