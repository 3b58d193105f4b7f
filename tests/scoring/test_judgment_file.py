"""Judgments files whose judgments are found by key: what is asked again, and the files of earlier versions."""

from __future__ import annotations

import gzip
import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from doubles import Double, asker

import refladder
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
PAIR = pair_question(CONTEXT, SURPRISE, output("a", "A lamp."), output("b", "It was the sea."))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "work" / "judgments.jsonl"


def ask(path, *questions, template=GRADES, **options):
    """Ask questions with the judgments of a file; returns the judge, the judgments, and how many are of the file."""
    judging = asker(Even(), template, path=path, **options)
    judgments = judging.ask(questions)
    return judging.backend.asked, judgments, judging.log.reused


def test_the_same_text_is_graded_once_and_each_output_has_its_judgment(path):
    asked, judgments, _ = ask(path, LAMP, SEA, grade("twin", "The lamp lit itself."))
    assert asked == 2
    assert [judgment.subject for judgment in judgments] == ["a", "b", "twin"]
    assert len(read_appended(path)) == 3  # the run and two judgments


def test_after_a_text_has_changed_it_alone_is_asked_again(path):
    ask(path, LAMP, SEA)
    changed = grade("b", "It was the sea!")
    asked, _, reused = ask(path, changed, LAMP)
    assert (asked, reused) == (1, 1)
    asked, _, reused = ask(path, LAMP, SEA, changed)
    assert (asked, reused) == (0, 3)


@pytest.mark.parametrize("keep", [20, -1], ids=["torn", "without a newline"])
def test_a_run_goes_on_from_a_file_whose_last_line_is_not_whole(path, keep):
    _, judgments, _ = ask(path, LAMP, SEA)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:keep])
    asked, again, _ = ask(path, LAMP, SEA, grade("c", "A third one."))
    assert asked == (2 if keep == 20 else 1)
    assert again[:2] == judgments
    assert path.read_bytes().startswith(b"".join(lines))


def test_a_file_of_another_run_is_refused(path):
    def opened(answers, judge=None):
        asker(judge or Even(), GRADES, path=path, answers=answers, sampling=Sampling())

    opened(3)
    message = (
        f"{path}: these judgments are of another run (asked with --answers 3, this run with 4); "
        f"name another file or folder (--out, --judgments or --work), or delete {path}"
    )
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        opened(4)
    with pytest.raises(UsageError, match=r"are of another run \(another judge: even/1, this run"):
        opened(3, Double())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"subject":"a"', b'"subject":"\xff"', r"not UTF-8 \(byte 0xff at position \d+\)"),
        (b'"win","loss"', b'"win","tie"', "outcomes 'win, tie', and .* win, loss, in this order"),
        (b'"win","loss"', b'"loss","win"', "outcomes 'loss, win', and .* win, loss, in this order"),
        (b"[-2.0,-2.0]", b"[-0.5,-0.5]", "label probabilities that add to 1.21, more than 1"),
        (b"[-2.0,-2.0]", b"[5.0,-1.0]", "a log-probability of 5, above 0"),
        (b'"mass":0.9', b'"mass":7', "a label mass of 7, which is not between 0 and 1"),
        (b'"mass":0.9', b'"mass":-0.1', "a label mass of -0.1, which is not between 0 and 1"),
    ],
)
def test_a_damaged_line_is_refused_with_its_place(path, old, new, message):
    ask(path, PAIR, template=PAIRS)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(DataError, match=rf":2: .*{message}; correct the line, or delete the file$"):
        ask(path, PAIR, template=PAIRS)


def test_a_damaged_line_of_a_ladder_is_refused_by_every_reader(
    command, fails, write_jsonl, tmp_path
):
    table, out = (
        write_jsonl([{"context_id": "story-01", "output": "A lamp."}]),
        tmp_path / "s.jsonl",
    )
    kept = tmp_path / "s.jsonl.judgments.jsonl"
    score = ("score", table, "--ladders", "demo/story", "--out", out)
    assert command(*score).code == 0
    lines = kept.read_text().splitlines(keepends=True)
    # e^-0.5 is 0.607, and three times that 1.82
    lines[2] = re.sub(r'"logprobs":\[[^]]*\]', '"logprobs":[-0.5,-0.5,-0.5]', lines[2])
    kept.write_text("".join(lines))
    told = "label probabilities that add to 1.82, more than 1; correct the line, or delete the file"
    for arguments in (score, ("rescore", kept, "--out", tmp_path / "again.jsonl")):
        assert f"s.jsonl.judgments.jsonl:3: {told}" in fails(2, *arguments)


def test_outcomes_of_three_yes_no_questions_may_add_to_more_than_one(path):
    # each question has p(yes) = 1/2, and three halves are 1.5
    run = run_of(Even(), load_template("story", "compare-yesno"))
    judgment = Judgment(
        **asdict(PAIR.comparison),
        outcomes=OUTCOMES,
        logprobs=(math.log(0.5),) * 3,
        mass=0.9,
        key="k",
        recipe=run.recipe.digest,
    )
    append_records(path, [run, judgment])
    assert [read for _, read in read_judgments(path)[1]] == [judgment]
    compare = run_of(Even(), load_template("story", "compare"))
    path.write_bytes(to_line(compare) + to_line(judgment))
    with pytest.raises(DataError, match=r":2: label probabilities that add to 1.50, more than 1"):
        list(read_judgments(path)[1])


def test_a_file_that_is_no_judgments_file_is_not_written_over(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("My notes.")
    message = r"notes\.txt:1: not a judgments file; name another file with --judgments"
    with pytest.raises(DataError, match=message):
        ask(path, LAMP)
    assert path.read_text() == "My notes."


class Mute(Even):
    """Gives no label a probability until it is told to."""

    mute = True
    reason = "1 of 1 answers unparsed: hm"

    def read_labels(self, prompts, labels):
        readings = super().read_labels(prompts, labels)
        reading = LabelReading(reason=self.reason)
        return [reading] * len(readings) if self.mute else readings


def test_an_unparsed_answer_is_asked_again_once_a_run_and_replaced_by_a_later_line(path):
    backend = Mute()
    judging = asker(backend, GRADES, path=path)
    assert judging.ask([LAMP])[0].logprobs is None
    judging.ask([LAMP])
    # Not again in this run.
    assert backend.asked == 1
    judging = asker(backend, GRADES, path=path)
    judging.ask([LAMP])
    judging.ask([LAMP])
    assert backend.asked == 2
    # Still unparsed: nothing is added.
    assert len(path.read_text().splitlines()) == 2
    backend.mute = False
    assert asker(backend, GRADES, path=path).ask([LAMP])[0].logprobs is not None
    assert len(path.read_text().splitlines()) == 3
    judged, judgments, reused = ask(path, LAMP)
    assert (judged, reused, judgments[0].logprobs is None) == (0, 1, False)


@pytest.mark.parametrize("reason", ["refusal", "the compare prompt has 9,000 tokens"])
def test_a_missing_answer_is_not_asked_again_unless_that_is_free(path, reason):
    backend = Mute()
    backend.reason = reason
    asker(backend, GRADES, path=path).ask([LAMP])
    asker(backend, GRADES, path=path).ask([LAMP])
    assert backend.asked == 1
    backend.wants_all = True
    asker(backend, GRADES, path=path).ask([LAMP])
    assert backend.asked == 2


def test_a_table_is_no_judgments_file(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("context_id,output\nstory-01,A\n")
    wanted = f"{table}: no judgments file; name the file OUT.judgments.jsonl that `refladder score` wrote"
    with pytest.raises(DataError, match=f"^{re.escape(wanted)}$"):
        read_judgments(table)
    beside = tmp_path / "out.csv.judgments.jsonl"
    beside.touch()
    with pytest.raises(DataError, match=re.escape(f"{wanted}, such as {beside}")):
        read_judgments(table)


ROOT = Path(__file__).parents[2]
RECORDED = [
    "published_data/general/reply/certificate.judgments.jsonl.gz",
    "published_data/general/grounded/certificate.judgments.jsonl.gz",
    "bench/readings/summeval-coherence-own.jsonl.gz",
    "bench/readings/placed-summary-fluency.jsonl.gz",
    "bench/readings/topicalchat-overall-own-pass2.jsonl.gz",
]


@pytest.mark.parametrize("recorded", RECORDED)
def test_recorded_judgments_of_an_earlier_version_are_read_as_they_are(recorded):
    lines = gzip.decompress((ROOT / recorded).read_bytes()).decode().splitlines()
    first = json.loads(lines[0])
    assert (first["schema"], first["answers"]) == ("run/2", 0)
    run, located = read_judgments(ROOT / recorded)
    assert run.answers == f"stated:{first['stated']}"
    assert (run.ladders, run.rungs) == (first["ladders"], first["rungs"])
    written = [json.loads(line) for line in lines[1:]]
    read = [json.loads(to_line(judgment)) for _, judgment in located]
    assert read == written


def test_scores_of_recorded_judgments_are_those_of_the_same_file_in_the_present_form(tmp_path):
    old = ROOT / "bench/readings/topicalchat-overall-own.jsonl.gz"
    lines = gzip.decompress(old.read_bytes()).splitlines(keepends=True)
    new = tmp_path / "new.jsonl"
    new.write_bytes(to_line(read_judgments(old)[0]) + b"".join(lines[1:]))
    assert new.read_bytes().startswith(b'{"schema":"run/3"')
    assert refladder.rescore(new) == refladder.rescore(old) != []


@pytest.mark.parametrize(
    ("answers", "stated", "mode"),
    [
        (0, 0, "0"),
        (7, 0, "7"),
        ("rating:stated", 0, "rating:stated"),
        (0, 1, "stated:1"),
        (0, 5, "stated:5"),
    ],
)
def test_a_first_line_of_an_earlier_version_names_its_mode(answers, stated, mode, path):
    run = run_of(Even(), PAIRS)
    fields = json.loads(to_line(run)) | {"schema": "run/2", "answers": answers, "stated": stated}
    path.parent.mkdir()
    path.write_text(json.dumps(fields) + "\n")
    assert read_judgments(path)[0] == replace(run, answers=mode)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": None, "stated": 0}, ":1: run/3 field 'answers': Input should be a valid string"),
        ({"answers": 0, "stated": "2"}, ":1: run/3 field 'stated'"),
        ({"answers": 0, "stated": 0, "x": 1}, ":1: run/3 field 'x'"),
        ({"answers": "guess", "stated": 0}, ":1: --answers 'guess': use a number of 0 or more, stated,"),
        ({"schema": "run/1"}, ":1: run/1, of another version of refladder; this one reads run/3"),
    ],
)  # fmt: skip
def test_a_first_line_that_no_version_wrote_is_refused(change, message, path, fails):
    fields = json.loads(to_line(run_of(Even(), PAIRS))) | {"schema": "run/2"} | change
    path.parent.mkdir()
    path.write_text(json.dumps(fields) + "\n")
    assert f"{path}{message}" in fails(2, "rescore", path)


def test_a_file_of_an_earlier_version_is_continued(path):
    asked, judgments, _ = ask(path, LAMP, SEA)
    lines = path.read_text().splitlines(keepends=True)
    first = json.loads(lines[0]) | {"schema": "run/2", "answers": 0, "stated": 0}
    path.write_text(json.dumps(first, separators=(",", ":")) + "\n" + "".join(lines[1:]))
    before = path.read_bytes()
    assert ask(path, LAMP, SEA) == (0, judgments, asked)
    assert path.read_bytes() == before
