"""A shared set passes through every command like any other set."""

from __future__ import annotations

import gzip
import json
import math
import statistics

import numpy as np
import pytest
from json_lines import read_lines, write_lines
from milder_judge import Milder
from scored_folders import Inline, split

import refladder
from refladder.contest.runs import read_run
from refladder.integrations.single_scores import single_scores

NAME = "educational_value"
SCORE = f"{NAME}_score"
TASK = """\
task = "document"

[[dimensions]]
name = "educational value"
description = "Whether a reader can learn from it. The worst teaches nothing; the best explains with facts."
"""
SEEDS = (
    "The tide rises twice a day because the moon pulls the ocean. On the far side of the earth the pull is weaker.",
    "In an arch, every stone presses on its neighbour, so that the stones of a bridge need no mortar at all.",
    "A starter of flour and water catches wild yeast within a week. Bakers feed it daily and fold the dough.",
    "Chlorophyll in a leaf absorbs red and blue light. The energy splits water, and the plant keeps the sugar.",
)
TEXT = (
    "the leaf stores sugar while waves of light cross a bridge of stone and dough rests before heat"
)
WORDS = TEXT.split()
CLARITY = refladder.Dimension(name="clarity", description="How clear it is.")
REQUESTS = [{"context": f"Explain tide {number} in a few plain words."} for number in range(6)]


def document(number):
    """A text whose number of words is 3 more than its number."""
    places = [5 * number + place * (1 + number % 3) for place in range(3 + number)]
    return " ".join(WORDS[place % len(WORDS)] for place in places)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A shared set of three anchors, a table of 60 documents with ratings, and the table scored."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "task.toml").write_text(TASK, "utf-8")
    seeds = [{"output": text, "subject": f"subject {number}"} for number, text in enumerate(SEEDS)]
    write_lines(folder / "seeds.jsonl", seeds)
    refladder.build(
        folder / "seeds.jsonl",
        task_file=folder / "task.toml",
        shared=3,
        writer="builtin",
        out=folder / "set",
    )
    rows = [{"output_id": f"d{number}", "output": document(number)} for number in range(60)]
    rated = [row | {"educational value": 1 + n // 13} for n, row in enumerate(rows)]
    write_lines(folder / "rated.jsonl", rated)
    write_lines(folder / "documents.jsonl", rows)
    refladder.score(folder / "documents.jsonl", ladders=folder / "set", out=folder / "scored.jsonl")
    return folder


@pytest.fixture
def run(command, made, tmp_path):
    """Run a command with OUT in the place of a new folder and SET, TABLE, SCORED, RATED for those of `made`."""
    places = {
        "JUDGED": "scored.jsonl.judgments.jsonl",
        "SET": "set",
        "TABLE": "documents.jsonl",
        "SCORED": "scored.jsonl",
        "RATED": "rated.jsonl",
        "SEEDS": "seeds.jsonl",
        "TASK": "task.toml",
    }

    def go(line, code=0):
        words = [str(made / places[word]) if word in places else word for word in line.split()]
        done = command(" ".join(words).replace("OUT", str(tmp_path)))
        assert done.code == code, done.err
        return done

    return go


@pytest.fixture
def requests():
    """A shared set for requests of a task with contexts, with two anchors."""
    return refladder.build(REQUESTS, task="open", dimensions=[CLARITY], shared=2, writer="builtin")


def numbers(path, column=SCORE):
    return np.array([row[column] for row in read_lines(path)])


def shares_of(line):
    """The probability of each outcome of a stored judgment."""
    shares = dict(zip(line["outcomes"], map(math.exp, line["logprobs"]), strict=True))
    return {name: value / sum(shares.values()) for name, value in shares.items()}


def test_the_scored_rows_have_no_context_and_the_new_column(made):
    rows = read_lines(made / "scored.jsonl")
    kinds = ("score", "grade", "spread", "mass", "note", "anchor_spread")
    assert list(rows[0])[2:] == [*(f"{NAME}_{kind}" for kind in kinds), "signature"]
    head, *judged = read_lines(made / "scored.jsonl.judgments.jsonl")
    assert len(head["anchors"]) == 3
    of_first = [line for line in judged if line["subject"] == "d0"]
    assert [line["against"] for line in of_first] == [
        f"rung:{level}@{anchor}" for anchor in head["anchors"] for level in range(1, 6)
    ]
    assert {line["context_id"] for line in judged} == {""}
    # By hand: the sum of level * (p(win) - p(loss)) on each ladder, then mean and standard deviation over the three.
    shares = list(map(shares_of, of_first))
    sums = [
        sum(
            level * (shares[5 * place + level - 1]["win"] - shares[5 * place + level - 1]["loss"])
            for level in range(1, 6)
        )
        for place in range(3)
    ]
    assert rows[0][SCORE] == pytest.approx(statistics.mean(sums))
    assert rows[0][f"{NAME}_anchor_spread"] == pytest.approx(statistics.stdev(sums))


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        (f"filter SCORED --min {SCORE}=0 --out OUT/kept.jsonl", "60 rows: "),
        (
            "evaluate table --source RATED --task-file TASK --ladders SET --level pooled",
            "rated.jsonl, pooled: Spearman",
        ),
        ("audit SET", "audit, with 95 % intervals over contexts"),
        (
            "rescore JUDGED --rule mean-difference --out OUT/again.jsonl",
            "60 rows, 0 scores missing",
        ),
        ("score --text Leaves --ladders SET", "educational value"),
        (
            "score TABLE --ladders SET --both-orders --out OUT/both.jsonl",
            "60 rows, 0 scores missing; 1,800 judgments",
        ),
        ("score TABLE --ladders SET --dry-run", "dry run, builtin: 906 calls"),
        ("show SET", "subject "),
        (
            "build table --source SEEDS --task-file TASK --shared 2 --writer builtin --out OUT/new --dry-run",
            "dry run, builtin: at most 10 calls",
        ),
    ],
)
def test_a_shared_set_passes_through(run, line, printed):
    done = run(line)
    assert printed in done.out + done.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "build table --source SEEDS --task-file TASK --shared 9 --out OUT/x",
            "--shared 9 needs 9 seeds, and the table has 4",
        ),
        (
            "build table --source SEEDS --task-file TASK --out OUT/x",
            "texts of task 'document' have no context, so all share",
        ),
        (
            "build summeval --shared 3 --out OUT/x",
            "--shared draws anchors from a table of your own, and summeval is a",
        ),
        (
            "score TABLE --ladders SET --yes-no",
            "the set is shared, and yes/no questions show one context for both",
        ),
        ("score TABLE --ladders demo/story", "no column 'context_id', nor 'context'"),
        (
            "evaluate table --source RATED --task-file TASK",
            "texts without a context have no ladder of their own; name a shared",
        ),
        (
            "publish SET me/mine --baseline --without-contexts --dry-run",
            "the set is shared, and a judge has to see the context",
        ),
        (
            "evaluate demo/story --ladders demo/story --judgments-from JUDGED",
            "scored.jsonl.judgments.jsonl:1: these judgments are of the ladders set@",
        ),
    ],
)
def test_what_a_shared_set_cannot_do_is_said_in_one_sentence(run, line, message):
    done = run(line, code=2)
    assert message in done.err
    assert done.err.count("refladder: ") == 1


def test_certify_writes_the_share_of_levels_above_those_of_other_anchors(made, run):
    done = run("certify SET")
    certificate = made / "set" / "certificate.json"
    sharing = json.loads(certificate.read_text())["sharing"]
    certificate.unlink()
    # Three anchors: 6 ordered pairs of 4 steps each.
    assert sharing["of"] == 24
    assert len(sharing["anchors"]) == 3
    assert "note: 3 anchors: a sign test of 4 steps needs 6 to have any power" in done.out
    words = "sharing: a level of one anchor beats the level below of another in"
    assert f"{words} {sharing['in_order']} of 24" in done.out


def test_scored_files_are_the_rows_of_one_run(made, run, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.many_files.workers.Processes", Inline)
    split(read_lines(made / "documents.jsonl"), tmp_path / "in", 20)
    run("score OUT/in --ladders SET --out OUT/parts")
    files = sorted((tmp_path / "parts").glob("*.jsonl"))
    assert len(files) > 1
    rows = [row for file in files for row in read_lines(file)]
    assert rows == read_lines(made / "scored.jsonl")


def test_calibrate_and_distil_read_rows_without_a_context(made, run, tmp_path):
    scores = {row["output_id"]: row[SCORE] for row in read_lines(made / "scored.jsonl")}
    middle = statistics.median(scores.values())
    labels = [{"output_id": name, "good": int(score > middle)} for name, score in scores.items()]
    write_lines(tmp_path / "labels.jsonl", labels)
    promise = f"--label good --good >=1 --by {SCORE} --precision 0.5"
    run(f"calibrate SCORED --labels OUT/labels.jsonl {promise} --out OUT/cut.json")
    assert json.loads((tmp_path / "cut.json").read_text())["labels"] == 60
    done = run(f"distil SCORED --by {SCORE} --out OUT/student")
    assert done.err.endswith("no row has a context, so texts are held out\n")
    assert done.err.startswith("no column context_id or context, so each row counts as a unit")
    # By hand: 60 rows have 60 different texts, of which a fifth is held out.
    held_out = "from 48 rows (hashed n-grams; reads the output only); 12 rows held out (texts)\n"
    assert held_out in done.out
    run("score TABLE --judge distilled:OUT/student --out OUT/alone.jsonl")
    assert None not in numbers(tmp_path / "alone.jsonl")


def test_calibrate_finds_texts_in_a_column_of_another_name(made, command, tmp_path):
    table = tmp_path / "scored.jsonl"
    ratings = {
        row["output_id"]: row["educational value"] for row in read_lines(made / "rated.jsonl")
    }
    rows = [
        {"text" if name == "output" else name: row[name] for name in row}
        | {"rating": ratings[row["output_id"]]}
        for row in read_lines(made / "scored.jsonl")
    ]
    write_lines(table, rows)
    asked = f"calibrate {table} --by {SCORE} --precision 0.5"
    done = command(f"{asked} --label rating --good >=3 --column output=text")
    assert "baseline without a judge (" in done.out
    plan = f"{asked} --plan --column"
    done = command(f"{plan} output=text --out {tmp_path}/next.jsonl")
    assert done.code == 0, done.err
    drawn = read_lines(tmp_path / "next.jsonl")
    assert {row["output_id"]: row["output"] for row in drawn} == {
        row["output_id"]: row["text"] for row in rows
    }
    done = command(f"{plan} output=txt")
    columns = ", ".join(rows[0])
    assert done.code == 2
    assert done.err == f"refladder: {table}:1: no column 'txt'. Columns: {columns}\n"
    told = command(f"{plan} outputs=text").err
    assert told.startswith("refladder: unknown field 'outputs'; did")


def test_the_review_page_shows_the_rungs_of_all_anchors(made):
    sheet = read_run(made / "scored.jsonl")
    opened = refladder.load_ladders(made / "set")
    (of_row,) = sheet.key["rungs"][0]
    assert len(of_row) == 5 * len(opened.anchors)
    for number, anchor in enumerate(opened.anchors):
        rungs = opened.ladders[anchor, "educational value"].rungs
        assert of_row[5 * number : 5 * number + 5] == [rung.text for rung in rungs]
    assert [column["name"] for column in sheet.key["columns"]] == [SCORE, f"{NAME}_grade"]
    assert all(len(beaten) == 5 * len(opened.anchors) for beaten in sheet.key["climbs"][0].values())


def test_a_scorer_of_texts_needs_no_context(made):
    (row, *_) = read_lines(made / "scored.jsonl")
    with refladder.Scorer(ladders=made / "set") as scorer:
        assert not scorer.needs_contexts
        (alone,) = scorer.score([row["output"]])
        (described,) = scorer.score([row["output"]], context="About leaves.")
        (single,) = single_scores(scorer, [row["output"]], {})
    assert alone.value == described.value == row[SCORE]  # a document's context is not shown
    assert alone.anchor_spread is not None
    assert single.value == row[SCORE]


def test_recorded_judgments_of_a_shared_set_are_scored_and_evaluated(run, made, tmp_path):
    """A judgments file, packed or in several parts, and the same judgments as a table with the column `anchor`."""
    judged = made / "scored.jsonl.judgments.jsonl"
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(judged.read_bytes()))
    head, *rest = read_lines(judged)
    write_lines(tmp_path / "one.jsonl", [head, *rest[:450]])
    write_lines(tmp_path / "two.jsonl", [head, *rest[450:]])
    table = []
    for line in rest:
        level, _, anchor = line["against"].removeprefix("rung:").partition("@")
        names = {"context_id": "", "dimension": line["dimension"], "output": line["subject"]}
        table.append(names | {"rung": int(level), "anchor": anchor} | shares_of(line))
    write_lines(tmp_path / "table.jsonl", table)
    before = numbers(made / "scored.jsonl")
    two = "OUT/one.jsonl --judgments-from OUT/two.jsonl"
    for number, files in enumerate(("OUT/packed.jsonl.gz", two, "OUT/table.jsonl")):
        out = f"again{number}.jsonl"
        done = run(f"score TABLE --ladders SET --judgments-from {files} --out OUT/{out}")
        assert "900 recorded judgments of outputs against rungs; no model is asked" in done.err
        np.testing.assert_allclose(numbers(tmp_path / out), before, atol=1e-9)
    evaluate = "evaluate table --source RATED --task-file TASK --ladders SET --level pooled --json"
    asked = run(f"{evaluate} --work OUT/work")
    again = run(f"{evaluate} --judgments-from OUT/work/judgments.jsonl")
    assert [row["value"] for row in again.rows] == [row["value"] for row in asked.rows]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {},
            "1: no anchor, and set is shared; name the anchor of each rung in the column 'anchor'",
        ),
        ({"anchor": "nobody"}, "1: set has no anchor 'nobody'; it has: "),
        (
            {"anchor": "", "context_id": None},
            "1: column 'context_id': expected a name or an integer, found None",
        ),
    ],
)
def test_recorded_judgments_of_no_anchor_of_a_shared_set_are_refused(run, tmp_path, row, message):
    judged = {"context_id": "c", "dimension": "educational value", "output": "d0", "rung": 1}
    write_lines(tmp_path / "recorded.jsonl", [judged | {"outcome": "win"} | row])
    done = run("score TABLE --ladders SET --judgments-from OUT/recorded.jsonl", code=2)
    assert message in done.err


def test_scores_of_a_shared_set_are_linked(made, run, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("refladder.backends.builtin.backend.Builtin", Milder)
        run("score TABLE --ladders SET --out OUT/other.jsonl")
    run(f"link --from {made}/scored.jsonl --to OUT/other.jsonl --out OUT/link.json")
    column = json.loads((tmp_path / "link.json").read_text())["columns"][0]
    # Each document is a context of its own.
    assert (column["column"], column["rows"], column["contexts"]) == (SCORE, 60, 60)
    run(f"filter {made}/scored.jsonl --link OUT/link.json --out OUT/mapped.jsonl")
    other = numbers(tmp_path / "other.jsonl")
    wrong = np.abs(numbers(tmp_path / "mapped.jsonl", f"{SCORE}_linked") - other)
    assert np.mean(wrong) < 0.3 * np.mean(np.abs(numbers(made / "scored.jsonl") - other))


def test_a_writer_that_answers_in_other_letters_than_the_seeds_is_named(command, tmp_path, caplog):
    (tmp_path / "task.toml").write_text(TASK, "utf-8")
    seeds = {
        "wave": "Волна переносит энергию. Вода под ней почти не движется.",
        "arch": "In an arch, every stone presses on its neighbour.",
    }
    rows = [{"context_id": name, "subject": name, "output": text} for name, text in seeds.items()]
    source = write_lines(tmp_path / "seeds.jsonl", rows)
    # builtin writes English
    asked = f"--task-file {tmp_path}/task.toml --shared 2 --writer builtin --out {tmp_path}/set"
    assert command(f"build table --source {source} {asked}").code == 0
    (said,) = [
        each.getMessage() for each in caplog.records if each.name == "refladder.ladders.build"
    ]
    assert said == (
        "anchor wave, educational value: its seed is in Cyrillic letters and its rungs in Latin; name the language in "
        "the description of the dimension, or use another writer"
    )


def test_a_function_is_asked_with_both_contexts(requests):
    assert {requests.contexts[anchor].text for anchor in requests.anchors} <= {
        row["context"] for row in REQUESTS
    }
    assert repr(requests).count("2 shared anchors") == 1
    asked = []

    def judge(questions):
        asked.extend(questions)
        return [{"win": 1.0, "loss": 0.0, "tie": 0.0}] * len(questions)

    judge.fingerprint = "always"
    rows = [{"output": "Mine.", "context": "Another."}]
    (row,) = refladder.score(rows, ladders=requests, judge=judge)
    assert row["clarity_score"] == 15.0  # 1 + 2 + 3 + 4 + 5, on both ladders
    assert row["clarity_anchor_spread"] == 0.0
    # The check of the judge: the best rung against the worst of 2 ladders, in both orders.
    del asked[:4]
    assert {(question.output, question.context) for question in asked} == {("Mine.", "Another.")}
    assert [question.reference_context for question in asked] == [
        requests.contexts[anchor].text for anchor in requests.anchors for _ in range(5)
    ]


def test_preference_pairs_and_the_best_of_a_prompt_come_from_shared_scores(requests):
    def judge(questions):  # the number of words decides against every rung
        chances = [min(len(each.output.split()) / 10, 1) for each in questions]
        return [{"win": chance, "loss": 1 - chance, "tie": 0.0} for chance in chances]

    judge.fingerprint = "words"
    rows = [
        {"context": context, "output": " ".join(["word"] * count)}
        for context, counts in (("Mine.", (2, 8, 5)), ("Yours.", (7, 1)))
        for count in counts
    ]
    scored = refladder.score(rows, ladders=requests, judge=judge, any_judge=True)
    # Each rung of both anchors: 15 * (2 * words / 10 - 1).
    assert [row["clarity_score"] for row in scored] == pytest.approx([-9, 9, 0, 6, -12])
    pairs = [
        (pair["prompt"], len(pair["chosen"].split()), len(pair["rejected"].split()))
        for pair in refladder.pairs(scored, margin=10)
    ]
    assert pairs == [("Mine.", 8, 2), ("Yours.", 7, 1)]
    best = refladder.filter(scored, best=1, per="context")
    assert [row["output"].count("word") for row in best] == [8, 7]
