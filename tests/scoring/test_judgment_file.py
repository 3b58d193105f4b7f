"""Judgments files whose judgments are found by key: what is asked again, and the files of earlier versions."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict

import pytest
from doubles import Double, asker

from refladder import load_ladders
from refladder.errors import DataError, UsageError
from refladder.files.jsonl import append_records, read_appended, to_line
from refladder.prompts import load_template
from refladder.records import OUTCOMES, Context, Dimension, Judgment, LabelReading, Output, Sampling
from refladder.scoring.asker import run_of
from refladder.scoring.grades import grade_question
from refladder.scoring.judgment_file import read_judgments
from refladder.scoring.question import pair_question

CONTEXT = Context(id="c", task="story", text="A lighthouse that nobody built.")
SURPRISE = Dimension(name="surprise", description="The story takes turns.")
GRADES, PAIRS = load_template("story", "direct-5"), load_template("story", "pairwise")


class Even(Double):
    """Gives every label the same probability, and counts the prompts."""

    fingerprint = "even/1"

    def __init__(self):
        self.asked = 0

    def read_labels(self, prompts, labels):
        self.asked += len(prompts)
        return [LabelReading(logprobs=(-2.0,) * len(labels), mass=0.9) for _ in prompts]


def output(name, text):
    return Output(id=name, context_id="c", system=name, text=text)


def grade(name, text):
    return grade_question(output(name, text), CONTEXT, SURPRISE)


LAMP, SEA = grade("a", "The lamp lit itself."), grade("b", "It was the sea.")
PAIR = pair_question(
    CONTEXT, SURPRISE, output("a", "The lamp lit itself."), output("b", "It was the sea.")
)


def test_the_same_text_is_graded_once_and_each_output_has_its_judgment(tmp_path):
    judge, twin = Even(), grade("twin", "The lamp lit itself.")
    graded = asker(judge, GRADES, path=tmp_path / "grades.jsonl")
    judgments = graded.ask([LAMP, SEA, twin])
    assert judge.asked == 2
    assert [judgment.subject for judgment in judgments] == ["a", "b", "twin"]
    assert len(read_appended(tmp_path / "grades.jsonl")) == 3  # the run and two judgments


def test_after_a_text_has_changed_it_alone_is_asked_again(tmp_path):
    path = tmp_path / "grades.jsonl"
    asker(Even(), GRADES, path=path).ask([LAMP, SEA])
    judge, changed = Even(), grade("b", "It was the sea!")
    graded = asker(judge, GRADES, path=path)
    graded.ask([changed, LAMP])
    assert (judge.asked, graded.log.reused) == (1, 1)
    again = asker(Even(), GRADES, path=path)
    again.ask([LAMP, SEA, changed])
    assert (again.backend.asked, again.log.reused) == (0, 3)


def test_other_numbers_of_sampled_answers_are_another_run(tmp_path):
    path = tmp_path / "grades.jsonl"
    asker(Even(), GRADES, path=path, answers=3, sampling=Sampling())
    message = (
        f"{path}: these judgments are of another run (of 3 sampled answers per question, this run of 4); "
        f"name another file or folder (--out, --judgments or --work), or delete {path}"
    )
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        asker(Even(), GRADES, path=path, answers=4, sampling=Sampling())


def test_a_line_that_is_not_utf_8_is_refused_with_its_place(tmp_path):
    path = tmp_path / "grades.jsonl"
    asker(Even(), GRADES, path=path).ask([LAMP])
    path.write_bytes(path.read_bytes().replace(b'"subject":"a"', b'"subject":"\xff"'))
    message = r"grades\.jsonl:2: not UTF-8 \(byte 0xff at position \d+\); correct the line, or delete the file"
    with pytest.raises(DataError, match=message):
        asker(Even(), GRADES, path=path)


def test_outcomes_of_another_question_are_refused(tmp_path):
    path = tmp_path / "pairs.jsonl"
    asker(Even(), PAIRS, path=path).ask([PAIR])
    path.write_bytes(path.read_bytes().replace(b'"win","loss"', b'"win","tie"'))
    with pytest.raises(
        DataError,
        match=r"pairs\.jsonl:2: outcomes 'win, tie', and this file holds .* win, loss; correct",
    ):
        asker(Even(), PAIRS, path=path)


IMPOSSIBLE = [  # e^-0.5 is 0.607, and three times that 1.82
    ('"logprobs":[5.0,-1.0,-1.0]', "a log-probability of 5, above 0"),
    ('"logprobs":[1e3,-1.0,-1.0]', "a log-probability of 1000, above 0"),
    ('"logprobs":[-0.5,-0.5,-0.5]', "label probabilities that add to 1.82, more than 1"),
    ('"mass":7', "a label mass of 7, which is not between 0 and 1"),
    ('"mass":-0.1', "a label mass of -0.1, which is not between 0 and 1"),
]


@pytest.mark.parametrize(("wrong", "message"), IMPOSSIBLE)
def test_impossible_probabilities_of_a_ladder_are_refused_by_every_reader(
    command, fails, tmp_path, wrong, message
):
    table, out, kept = (
        tmp_path / "t.jsonl",
        tmp_path / "s.jsonl",
        tmp_path / "s.jsonl.judgments.jsonl",
    )
    story = load_ladders("demo/story")
    context = next(iter(story.ladders))[0]
    table.write_text(
        json.dumps({"context_id": context, "output": "A lamp.", "output_id": "o"}) + "\n"
    )
    score = ("score", table, "--ladders", "demo/story", "--out", out)
    assert command(*score).code == 0
    lines = kept.read_text().splitlines(keepends=True)
    name = wrong.partition(":")[0]
    lines[2] = re.sub(name + r":(\[[^]]*\]|[^,]+)", wrong, lines[2])
    kept.write_text("".join(lines))
    for arguments in (score, ("rescore", kept, "--out", tmp_path / "again.jsonl")):
        text = fails(2, *arguments)
        assert "s.jsonl.judgments.jsonl:3: " in text
        assert f"{message}; correct the line, or delete the file" in text


def test_impossible_probabilities_of_pairs_are_refused(tmp_path):
    path = tmp_path / "pairs.jsonl"
    asker(Even(), PAIRS, path=path).ask([PAIR])
    path.write_bytes(path.read_bytes().replace(b"[-2.0,-2.0]", b"[-0.5,-0.5]"))
    with pytest.raises(
        DataError,
        match=r"pairs\.jsonl:2: label probabilities that add to 1.21, more than 1; correct",
    ):
        asker(Even(), PAIRS, path=path)


def test_outcomes_of_three_yes_no_questions_may_add_to_more_than_one(tmp_path):
    # each question has p(yes) = 1/2, and three halves are 1.5
    path, template = tmp_path / "ladder.jsonl", load_template("story", "compare-yesno")
    run = run_of(Even(), template)
    half = math.log(0.5)
    judgment = Judgment(
        **asdict(PAIR.comparison),
        outcomes=OUTCOMES,
        logprobs=(half,) * 3,
        mass=0.9,
        key="k",
        recipe=run.recipe.digest,
    )
    append_records(path, [run, judgment])
    assert [read for _, read in read_judgments(path)[1]] == [judgment]
    compare = run_of(Even(), load_template("story", "compare"))
    path.write_bytes(to_line(compare) + to_line(judgment))
    with pytest.raises(
        DataError,
        match=r"ladder\.jsonl:2: label probabilities that add to 1.50, more than 1; correct",
    ):
        list(read_judgments(path)[1])


def test_a_last_judgment_without_a_newline_is_kept_and_the_next_has_a_line_of_its_own(tmp_path):
    path = tmp_path / "grades.jsonl"
    asker(Even(), GRADES, path=path).ask([LAMP])
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    judge = Even()
    asker(judge, GRADES, path=path).ask([LAMP, SEA])
    assert judge.asked == 1  # about the sea
    assert len(read_appended(path)) == 3  # the run and two judgments


def test_a_file_that_is_no_judgments_file_is_not_written_over(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("My notes.")
    with pytest.raises(
        DataError, match=r"notes\.txt:1: not a judgments file; name another file with --judgments"
    ):
        asker(Even(), GRADES, path=path)
    assert path.read_text() == "My notes."
