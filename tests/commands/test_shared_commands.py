"""A shared set passes through every command like any other set."""

from __future__ import annotations

import gzip
import json
import math
import statistics

import numpy as np
import pytest
from scored_folders import Inline, split

import refladder
from refladder.arena.runs import read_run
from refladder.backends.builtin import Builtin
from refladder.integrations.single_scores import single_scores
from refladder.records import LabelReading

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
WORDS = [
    "the",
    "leaf",
    "stores",
    "sugar",
    "while",
    "waves",
    "of",
    "light",
    "cross",
    "a",
    "bridge",
    "of",
    "stone",
    "and",
    "dough",
    "rests",
    "before",
    "heat",
]


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A shared set of three anchors, a table of 60 documents with ratings, and the table scored."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "task.toml").write_text(TASK, "utf-8")
    seeds = [{"output": text, "subject": f"subject {number}"} for number, text in enumerate(SEEDS)]
    (folder / "seeds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in seeds), "utf-8")
    refladder.build(
        folder / "seeds.jsonl",
        task_file=folder / "task.toml",
        shared=3,
        writer="builtin",
        out=folder / "set",
    )
    rows = [
        {
            "output_id": f"d{number}",
            "output": " ".join(
                WORDS[(5 * number + place * (1 + number % 3)) % len(WORDS)]
                for place in range(3 + number)
            ),
            "educational value": 1 + number // 13,
        }
        for number in range(60)
    ]
    (folder / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    unrated = [{name: row[name] for name in ("output_id", "output")} for row in rows]
    (folder / "documents.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in unrated), "utf-8"
    )
    refladder.score(folder / "documents.jsonl", ladders=folder / "set", out=folder / "scored.jsonl")
    return folder


@pytest.fixture
def run(command, made, tmp_path):
    """Run a command with OUT in the place of a new folder and SET, TABLE, SCORED, RATED for those of `made`."""
    places = {
        "SET": "set",
        "TABLE": "documents.jsonl",
        "SCORED": "scored.jsonl",
        "RATED": "rated.jsonl",
    }
    places |= {"SEEDS": "seeds.jsonl", "TASK": "task.toml"}

    def go(words, code=0):
        given = [
            str(made / places[word]) if word in places else word.replace("OUT", str(tmp_path))
            for word in words.split()
        ]
        done = command(*given)
        assert done.code == code, done.err
        return done

    return go


def test_the_scored_rows_have_no_context_and_the_new_column(made):
    rows = lines(made / "scored.jsonl")
    assert list(rows[0])[2:] == [
        *(
            f"educational_value_{name}"
            for name in ("score", "grade", "spread", "mass", "note", "anchor_spread")
        ),
        "signature",
    ]
    judged = lines(made / "scored.jsonl.judgments.jsonl")
    (anchors,) = [judged[0]["anchors"]]
    assert len(anchors) == 3
    of_first = [line for line in judged[1:] if line["subject"] == "d0"]
    assert [line["against"] for line in of_first] == [
        f"rung:{level}@{anchor}" for anchor in anchors for level in range(1, 6)
    ]
    assert {line["context_id"] for line in judged[1:]} == {""}
    # By hand: the sum of level * (p(win) - p(loss)) on each ladder, then mean and standard deviation over the three.
    sums = []
    for place in range(3):
        total = 0.0
        for level, line in enumerate(of_first[5 * place : 5 * place + 5], start=1):
            shares = dict(zip(line["outcomes"], map(math.exp, line["logprobs"]), strict=True))
            total += level * (shares["win"] - shares["loss"]) / sum(shares.values())
        sums.append(total)
    assert rows[0]["educational_value_score"] == pytest.approx(statistics.mean(sums))
    assert rows[0]["educational_value_anchor_spread"] == pytest.approx(statistics.stdev(sums))


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("filter SCORED --min educational_value_score=0 --out OUT/kept.jsonl", "60 rows: "),
        (
            "evaluate own --source RATED --task-file TASK --ladders SET --level pooled",
            "rated.jsonl, pooled: Spearman",
        ),
        ("audit SET", "audit, with 95 % intervals over contexts"),
        (
            "rescore SCORED.judgments --rule mean-difference --out OUT/again.jsonl",
            "60 rows, 0 scores missing",
        ),
        ("score --text Leaves --ladders SET", "educational value"),
        (
            "score TABLE --ladders SET --both-orders --out OUT/both.jsonl",
            "60 rows, 0 scores missing; 1,800 judgments",
        ),
        ("score TABLE --ladders SET --dry-run", "dry run, builtin: 906 calls"),
        ("show SET", "subject "),
        ("diff SET SET", "ladders: 3 the same"),
        (
            "build own --source SEEDS --task-file TASK --shared 2 --writer builtin --out OUT/new --dry-run",
            "dry run, builtin: at most 10 calls",
        ),
    ],
)
def test_a_shared_set_passes_through(run, made, words, printed):
    done = run(words.replace("SCORED.judgments", str(made / "scored.jsonl.judgments.jsonl")))
    assert printed in done.out + done.err


def test_certify_writes_the_share_of_levels_above_those_of_other_anchors(made, run):
    done = run("certify SET")
    sharing = json.loads((made / "set" / "certificate.json").read_text())["sharing"]
    # Three anchors: 6 ordered pairs of 4 steps each.
    assert sharing["of"] == 24
    assert len(sharing["anchors"]) == 3
    assert "note: 3 anchors: a sign test of 4 steps needs 7 to have any power" in done.out
    assert (
        f"sharing: a level of one anchor beats the level below of another in {sharing['in_order']} of 24"
        in done.out
    )
    (made / "set" / "certificate.json").unlink()


def test_scored_files_are_the_rows_of_one_run(made, run, tmp_path, monkeypatch):
    monkeypatch.setattr("refladder.fleet.workers.Processes", Inline)
    split(lines(made / "documents.jsonl"), tmp_path / "in", 20)
    run("score OUT/in --ladders SET --out OUT/parts")
    files = sorted((tmp_path / "parts").glob("*.jsonl"))
    assert len(files) > 1
    assert [row for file in files for row in lines(file)] == lines(made / "scored.jsonl")


def test_calibrate_and_distil_read_rows_without_a_context(made, run, tmp_path):
    scores = {
        row["output_id"]: row["educational_value_score"] for row in lines(made / "scored.jsonl")
    }
    middle = statistics.median(scores.values())
    labels = [{"output_id": name, "good": int(score > middle)} for name, score in scores.items()]
    (tmp_path / "labels.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in labels), "utf-8"
    )
    by = "--by educational_value_score"
    run(
        f"calibrate SCORED --labels OUT/labels.jsonl --label good --good >=1 {by} --precision 0.5 --out OUT/cut.json"
    )
    assert json.loads((tmp_path / "cut.json").read_text())["labels"] == 60
    run(f"distil SCORED {by} --out OUT/student")
    run("score TABLE --judge distilled:OUT/student --out OUT/alone.jsonl")
    assert all(
        row["educational_value_score"] is not None for row in lines(tmp_path / "alone.jsonl")
    )


def test_the_review_page_shows_the_rungs_of_all_anchors(made):
    sheet = read_run(made / "scored.jsonl")
    opened = refladder.load_ladders(made / "set")
    (of_row,) = sheet.key["rungs"][0]
    assert len(of_row) == 5
    for anchor in opened.anchors:
        assert opened.ladders[anchor, "educational value"].rungs[4].text in of_row[4]
    assert [column["name"] for column in sheet.key["columns"]] == [
        "educational_value_score",
        "educational_value_grade",
    ]
    assert all(len(beaten) == 5 for beaten in sheet.key["climbs"][0].values())


def test_a_scorer_of_texts_needs_no_context(made):
    with refladder.Scorer(ladders=made / "set") as scorer:
        alone, described = (
            scorer.score(["Leaves."]),
            scorer.score(["Leaves."], context="About leaves."),
        )
    assert alone[0].value == described[0].value  # a document's context is not shown
    assert alone[0].anchor_spread is not None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "build own --source SEEDS --task-file TASK --shared 9 --out OUT/x",
            "--shared 9 needs 9 seeds, and the table has 4",
        ),
        (
            "build own --source SEEDS --task-file TASK --out OUT/x",
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
        (
            "evaluate own --source RATED --task-file TASK",
            "texts without a context have no ladder of their own; name a shared",
        ),
        (
            "publish SET me/mine --baseline --without-contexts --dry-run",
            "the set is shared, and a judge has to see the context",
        ),
    ],
)
def test_what_a_shared_set_cannot_do_is_said_in_one_sentence(run, words, message):
    done = run(words, code=2)
    assert message in done.err
    assert done.err.count("refladder: ") == 1


def test_a_table_without_contexts_is_refused_by_other_sets_as_before(run):
    done = run("score TABLE --ladders demo/story", code=2)
    assert "no column 'context_id', nor 'context'" in done.err


def test_recorded_judgments_of_a_shared_set_are_scored_and_evaluated(run, made, tmp_path):
    """A judgments file, packed or in several parts, and the same judgments as a table with the column `anchor`."""
    judged = made / "scored.jsonl.judgments.jsonl"
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(judged.read_bytes()))
    head, *rest = judged.read_text("utf-8").splitlines(keepends=True)
    for name, part in (("one", rest[:450]), ("two", rest[450:])):
        (tmp_path / f"{name}.jsonl").write_text("".join([head, *part]), "utf-8")
    table = []
    for line in map(json.loads, rest):
        level, _, anchor = line["against"].removeprefix("rung:").partition("@")
        row = {
            "context_id": "",
            "dimension": line["dimension"],
            "output": line["subject"],
            "rung": int(level),
        }
        shares = dict(zip(line["outcomes"], map(math.exp, line["logprobs"]), strict=True))
        table.append(
            row
            | {"anchor": anchor}
            | {name: value / sum(shares.values()) for name, value in shares.items()}
        )
    (tmp_path / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table), "utf-8")
    before = numbers(made / "scored.jsonl")
    for files in (
        "OUT/packed.jsonl.gz",
        "OUT/one.jsonl --judgments-from OUT/two.jsonl",
        "OUT/table.jsonl",
    ):
        out = tmp_path / "again.jsonl"
        done = run(f"score TABLE --ladders SET --judgments-from {files} --out OUT/again.jsonl")
        assert "900 recorded judgments of outputs against rungs; no model is asked" in done.err
        np.testing.assert_allclose(numbers(out), before, atol=1e-9)
        out.unlink()
    asked = run(
        "evaluate own --source RATED --task-file TASK --ladders SET --level pooled --json --work OUT/work"
    )
    read = "evaluate own --source RATED --task-file TASK --ladders SET --level pooled --json --judgments-from"
    again = run(f"{read} OUT/work/judgments.jsonl")
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
    row = {
        "context_id": "c",
        "dimension": "educational value",
        "output": "d0",
        "rung": 1,
        "outcome": "win",
    } | row
    (tmp_path / "recorded.jsonl").write_text(json.dumps(row) + "\n")
    done = run("score TABLE --ladders SET --judgments-from OUT/recorded.jsonl", code=2)
    assert message in done.err


def test_judgments_of_other_ladders_are_refused(run, made):
    done = run(
        f"evaluate demo/story --ladders demo/story --judgments-from {made / 'scored.jsonl.judgments.jsonl'}",
        code=2,
    )
    assert "scored.jsonl.judgments.jsonl:1: these judgments are of the ladders set@" in done.err
    assert "and demo/story has others (" in done.err


class Milder(Builtin):
    """The built-in judge with half of its log-probabilities, so with half of its log-odds."""

    fingerprint = "milder/1"

    def read_labels(self, prompts, labels):
        halves = [np.array(each.logprobs) / 2 for each in READ(self, prompts, labels)]
        return [
            LabelReading(logprobs=tuple((each - np.logaddexp.reduce(each)).tolist()), mass=1.0)
            for each in halves
        ]


READ = Builtin.read_labels


def numbers(path, column="educational_value_score"):
    return np.array([row[column] for row in lines(path)])


def test_scores_of_a_shared_set_are_linked(made, run, tmp_path, monkeypatch):
    scored, other = made / "scored.jsonl", tmp_path / "other.jsonl"
    with monkeypatch.context() as patch:
        patch.setattr("refladder.backends.builtin.backend.Builtin", Milder)
        run(f"score TABLE --ladders SET --out {other}")
    run(f"link --from {scored}.judgments.jsonl --to {other}.judgments.jsonl --out OUT/link.json")
    column = json.loads((tmp_path / "link.json").read_text())["columns"][0]
    assert (column["rows"], column["contexts"]) == (60, 60)  # each document is a context of its own
    # The mean over anchors goes to 1 + ... + 5 = 15 as that of one ladder does.
    assert [column["scores"][0], column["scores"][-1]] == pytest.approx([-15, 15])
    assert column["slope"] == pytest.approx(0.5, abs=0.03)
    assert column["error"] < 0.3 * column["identity_error"]
    run(f"rescore {scored}.judgments.jsonl --link OUT/link.json --out OUT/mapped.jsonl")
    wrong = np.abs(
        numbers(tmp_path / "mapped.jsonl", "educational_value_score_linked") - numbers(other)
    )
    assert np.mean(wrong) < 0.3 * np.mean(np.abs(numbers(scored) - numbers(other)))


@pytest.mark.parametrize("other", ["--shared 2", "--shared 4 --rungs 4"])
def test_scores_of_other_ladders_are_not_linked(made, run, other):
    run(f"build SEEDS --task-file TASK {other} --writer builtin --out OUT/set")
    run("score TABLE --ladders OUT/set --out OUT/other.jsonl")
    first, second = (
        f"{path}.judgments.jsonl" for path in (made / "scored.jsonl", "OUT/other.jsonl")
    )
    done = run(f"link --from {first} --to {second} --out OUT/link.json", code=2)
    assert (
        "are against different ladders; score the same table against the same ladder set"
        in done.err
    )


def test_contexts_of_a_task_with_contexts_are_anchors_too(tmp_path):
    table = [{"context": f"Explain tide {number} in a few plain words."} for number in range(6)]
    dimension = refladder.Dimension(name="clarity", description="How clear it is.")
    opened = refladder.build(
        table, task="open", dimensions=[dimension], shared=2, writer="builtin", out=tmp_path / "set"
    )
    assert len(opened.anchors) == 2
    assert {opened.contexts[anchor].text for anchor in opened.anchors} <= {
        row["context"] for row in table
    }
    assert repr(opened).count("2 shared anchors") == 1
    scored = refladder.score(
        [{"output": "A text.", "context": "Another request."}, {"output": "A text."}],
        ladders=opened,
    )
    assert all(row["clarity_score"] is not None for row in scored)


def test_a_writer_that_answers_in_other_letters_than_the_seeds_is_named(command, tmp_path, caplog):
    (tmp_path / "task.toml").write_text(TASK, "utf-8")
    seeds = {
        "wave": "Волна переносит энергию. Вода под ней почти не движется.",
        "arch": "In an arch, every stone presses on its neighbour.",
    }
    rows = [{"context_id": name, "subject": name, "output": text} for name, text in seeds.items()]
    (tmp_path / "seeds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    source = ["--source", str(tmp_path / "seeds.jsonl"), "--task-file", str(tmp_path / "task.toml")]
    done = command(
        "build", "own", *source, "--shared", "2", "--writer", "builtin", "--out", tmp_path / "set"
    )  # builtin writes English
    assert done.code == 0, done.err
    [said] = [
        record.getMessage() for record in caplog.records if record.name == "refladder.jobs.build"
    ]
    assert said == (
        "anchor wave, educational value: its seed is in Cyrillic letters and its rungs in Latin; name the language in "
        "the description of the dimension, or use another writer"
    )


def test_a_function_is_asked_with_both_contexts(tmp_path):
    dimension = refladder.Dimension(name="clarity", description="How clear it is.")
    table = [{"context": f"Explain tide {number} in a few plain words."} for number in range(3)]
    opened = refladder.build(
        table, task="open", dimensions=[dimension], shared=2, writer="builtin", out=tmp_path / "set"
    )
    asked = []

    def judge(questions):
        asked.extend(questions)
        return [{"win": 1.0, "loss": 0.0, "tie": 0.0}] * len(questions)

    judge.fingerprint = "always"
    (row,) = refladder.score(
        [{"output": "Mine.", "context": "Another."}], ladders=opened, judge=judge
    )
    assert row["clarity_score"] == 15.0  # 1 + 2 + 3 + 4 + 5, on both ladders
    assert row["clarity_anchor_spread"] == 0.0
    del asked[
        :4
    ]  # of the check of the judge: the best rung against the worst of 2 ladders, in both orders
    assert {(question.output, question.context) for question in asked} == {("Mine.", "Another.")}
    assert [question.reference_context for question in asked] == [
        opened.contexts[anchor].text for anchor in opened.anchors for _ in range(5)
    ]


def test_preference_pairs_and_the_best_of_a_prompt_come_from_shared_scores(tmp_path):
    dimension = refladder.Dimension(name="clarity", description="How clear it is.")
    table = [{"context": f"Explain tide {number} in a few plain words."} for number in range(3)]
    opened = refladder.build(
        table, task="open", dimensions=[dimension], shared=2, writer="builtin", out=tmp_path / "set"
    )

    def judge(questions):  # the number of words decides against every rung
        chances = [min(len(each.output.split()) / 10, 1) for each in questions]
        return [{"win": chance, "loss": 1 - chance, "tie": 0.0} for chance in chances]

    judge.fingerprint = "words"
    rows = [
        {"context": context, "output": " ".join(["word"] * count)}
        for context, counts in (("Mine.", (2, 8, 5)), ("Yours.", (7, 1)))
        for count in counts
    ]
    scored = refladder.score(rows, ladders=opened, judge=judge, any_judge=True)
    # Each rung of both anchors: 15 * (2 * words / 10 - 1).
    assert [row["clarity_score"] for row in scored] == pytest.approx([-9, 9, 0, 6, -12])
    made = refladder.pairs(scored, margin=10)
    assert [
        (pair["prompt"], len(pair["chosen"].split()), len(pair["rejected"].split()))
        for pair in made
    ] == [
        ("Mine.", 8, 2),
        ("Yours.", 7, 1),
    ]
    best = refladder.filter(scored, best=1, per="context")
    assert [row["output"].count("word") for row in best] == [8, 7]


def test_calibrate_finds_texts_in_a_column_of_another_name(made, command, tmp_path):
    table = tmp_path / "scored.jsonl"
    rows = [
        {"text" if name == "output" else name: row[name] for name in row}
        for row in lines(made / "scored.jsonl")
    ]
    ratings = {row["output_id"]: row["educational value"] for row in lines(made / "rated.jsonl")}
    rows = [row | {"rating": ratings[row["output_id"]]} for row in rows]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    asked = [
        "calibrate",
        str(table),
        "--by",
        "educational_value_score",
        "--label",
        "rating",
        "--good",
        ">=3",
    ]
    asked += ["--precision", "0.5", "--column", "output=text"]
    done = command(*asked)
    assert "baseline without a judge (" in done.out
    texts = {row["output_id"]: row["text"] for row in rows}
    unlabelled = [
        "calibrate",
        str(table),
        "--by",
        "educational_value_score",
        "--precision",
        "0.5",
        "--plan",
    ]
    done = command(*unlabelled, "--column", "output=text", "--out", str(tmp_path / "next.jsonl"))
    assert done.code == 0, done.err
    drawn = lines(tmp_path / "next.jsonl")
    assert len(drawn) == 60
    assert {row["output_id"]: row["output"] for row in drawn} == texts
    done = command(*unlabelled, "--column", "output=txt")
    assert (done.code, done.err) == (
        2,
        f"refladder: {table}:1: no column 'txt'. Columns: {', '.join(rows[0])}\n",
    )
    assert command(*unlabelled, "--column", "outputs=text").err.startswith(
        "refladder: unknown field 'outputs'; did"
    )
    result = refladder.calibrate(
        table,
        by="educational_value_score",
        label="rating",
        good=">=3",
        precision=0.5,
        columns={"output": "text"},
    )
    assert result.surface is not None


def test_a_student_of_documents_reads_texts_alone(run):
    done = run("distil SCORED --by educational_value_score --out OUT/student")
    assert done.err.endswith("no row has a context, so texts are held out\n")
    assert done.err.startswith("no column context_id or context, so each row counts as a unit")
    # By hand: 60 rows have 60 different texts, of which a fifth is held out.
    assert (
        "from 48 rows (hashed n-grams; reads the output only); 12 rows held out (texts)\n"
        in done.out
    )


def test_adapters_score_documents_without_a_context(made):
    (row, *_) = lines(made / "scored.jsonl")
    with refladder.Scorer(ladders=made / "set") as scorer:
        assert not scorer.needs_contexts
        (single,) = single_scores(scorer, [row["output"]], {})
    assert single.value == row["educational_value_score"]
