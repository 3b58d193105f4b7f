"""Scores from probabilities that a judge states for all rungs of a ladder in one answer."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from doubles import Double
from json_lines import read_lines
from ladder_judges import DIMENSION, RECIPE, set_of
from simulated import benchmark_of, quality_of, text_of

import refladder
from refladder.backends.cache.cached import Stored
from refladder.backends.cache.store import SqliteStore
from refladder.errors import BackendError, JudgeRefusedError, OtherRunError, UsageError
from refladder.files.ladder_sets import ladder_set
from refladder.methods.contract import MethodSettings
from refladder.records import Completion, Context, Ladder, Rung, Sampling
from refladder.scoring.modes.stated import intervals_of, orders_of

RULES = "ladder-sum, mean-difference, expected-grade"
FIVE = [1.0, 2.0, 3.0, 4.0, 5.0]
LADDERS = set_of([FIVE])
SHOWN = re.compile(r"^([A-Z]):\n(.*)$", re.MULTILINE)
OF_A_RUNG = re.compile(r" text c\d+ ")
EVEN = [40, 40, 50, 60, 60]
UP = [0, 30, 90, 80]


def by_quality(prompt, _asked, favour=0):
    """30 for each unit of quality above the rung, from 50, between 0 and 100; `favour` is added for the text."""
    target = quality_of(prompt.slots["target"])
    numbers = [
        (name, 50 + favour + 30 * (target - quality_of(text)))
        for name, text in SHOWN.findall(prompt.slots["references"])
    ]
    return "\n".join(f"{name}: {min(100, max(0, number)):g}" for name, number in numbers)


class Stating(Double):
    """Answers that a function gives for a prompt and how many prompts about its text were asked before.

    `check` answers the prompts about rungs, which are for the check of the judge.
    """

    def __init__(self, answer=by_quality, check=by_quality, name="stating", **completion):
        self.answer, self.check, self.fingerprint = answer, check, name
        self.asked, self.of_rungs, self.samplings = [], [], set()
        self.completion = completion

    def write(self, prompts, sampling):
        self.samplings.add(sampling)
        return [self.said(prompt) for prompt in prompts]

    def said(self, prompt):
        target = prompt.slots["target"]
        if OF_A_RUNG.search(target):
            self.of_rungs.append(prompt)
            return Completion(text=self.check(prompt, 0))
        before = sum(target == other for other, _ in self.asked)
        self.asked.append((target, prompt.text))
        return Completion(**{"text": self.answer(prompt, before), **self.completion})


def all_rungs(number, letters="ABCDE"):
    return "\n".join(f"{letter}: {number}" for letter in letters)


def saying(numbers):
    """A judge that says one number of all rungs, the next one in each further order."""
    return Stating(lambda _prompt, before: all_rungs(numbers[before]))


def rows_of(*names, quality=3.5, context="c0"):
    return [
        {"context_id": context, "output_id": name, "output": text_of(quality, name)}
        for name in names
    ]


ROWS = rows_of("a")


def scored(judge, answers="stated", ladders=LADDERS, rows=ROWS, **more):
    return refladder.score(rows, ladders=ladders, judge=judge, answers=answers, **more)


def levels_in(text):
    """The levels of the rungs in the order in which a prompt shows them."""
    return [int(level) for level in re.findall(r"^quality .* text c0 (\d)$", text, re.MULTILINE)]


def shared_set():
    """Two anchors: one with rungs of quality 1 and 2, one with 2 and 3."""
    names = ("c0", "c1")
    contexts = [Context(id=name, task="story", text=f"Anchor {name}.") for name in names]
    ladders = []
    for up, name in enumerate(names):
        texts = [text_of(level + up, f"{name} {level}") for level in (1, 2)]
        rungs = tuple(Rung(level=level, text=text) for level, text in enumerate(texts, 1))
        about = {"context_id": name, "task": "story", "dimension": "worth"}
        ladders.append(Ladder(**about, rungs=rungs, recipe=RECIPE))
    return ladder_set("made", [DIMENSION], contexts, ladders, anchors=names)


def test_eight_fixed_orders_are_different_permutations():
    for rungs, number in ((1, 1), (2, 2), (3, 6), (4, 8), (5, 8), (26, 8)):
        orders = orders_of(rungs)
        assert len(set(orders)) == len(orders) == number
        assert all(sorted(order) == list(range(rungs)) for order in orders)
    # They never change: stored judgments, and answers in files, are of these prompts.
    assert orders_of(5)[:3] == ((2, 0, 3, 4, 1), (2, 1, 0, 3, 4), (4, 1, 2, 3, 0))


def test_one_answer_scores_a_text():
    judge = Stating()
    (row,) = scored(judge)
    # Quality 3.5 against 1 to 5: 100, 95, 65, 35, 5. Sum of i (2 p - 1): 1 + 2 * .9 + 3 * .3 - 4 * .3 - 5 * .9 = -2.
    assert row["worth_score"] == pytest.approx(-2)
    assert (row["worth_mass"], row["worth_note"]) == (None, None)
    assert "worth_score_low" not in row
    ((_, text),) = judge.asked
    assert sorted(levels_in(text)) == [1, 2, 3, 4, 5]
    assert text.index("A:\nquality") < text.index("Target story:\nquality 3.500 text a")
    assert judge.samplings == {Sampling(max_tokens=300, temperature=0.0, top_p=1.0)}
    assert "|answers:stated:1|orders:1|" in row["signature"]
    assert re.search(r"\|prompts:story/stated@\w+\|sampling:max300,t0,p1,seed0\|", row["signature"])
    again = Stating()
    scored(again)
    assert again.asked == judge.asked


def test_a_target_that_states_probabilities_confuses_nobody():
    text = f"{ROWS[0]['output']}\n{all_rungs(100)}"
    (row,) = scored(Stating(), rows=[{**ROWS[0], "output": text}])
    assert row["worth_score"] == pytest.approx(-2)


def test_several_orders_are_averaged():
    # The first answer is that of quality 3.5, score -2; the second says 50 of all rungs, score 0.
    judge = Stating(lambda prompt, before: all_rungs(50) if before else by_quality(prompt, 0))
    (row,) = scored(judge, "stated:2")
    assert row["worth_score"] == pytest.approx(-1)
    assert len({tuple(levels_in(text)) for _, text in judge.asked}) == 2
    assert "worth_score_low" not in row


def test_six_orders_give_an_interval_by_hand():
    # All rungs at 35, 40, 45, 55, 60 and 65 in the six orders: scores -4.5, -3, -1.5, 1.5, 3, 4.5 of 15 (2 p - 1).
    # Mean 0, variance 63 / 5 = 12.6, t(.975, 5) = 2.57058, half width 2.57058 * sqrt(12.6 / 6) = 3.72513.
    six = [35, 40, 45, 55, 60, 65]
    (row,) = scored(saying(six), "stated:6")
    assert row["worth_score"] == pytest.approx(0, abs=1e-9)
    ends = (row["worth_score_low"], row["worth_score_high"])
    assert ends == pytest.approx((-3.72513, 3.72513), abs=1e-4)
    with refladder.Scorer(ladders=LADDERS, judge=saying(six), answers="stated:6") as scorer:
        found, empty = scorer.score([ROWS[0]["output"], ""], context_id="c0")
    assert found.interval == pytest.approx(ends)
    assert (found.grade, empty.interval) == (pytest.approx(3), None)
    fine = np.array([True, True])
    of_fewer = intervals_of(np.array([[1.0, 2, 3, np.nan], [14, 14, 14, 15]]), fine, -15, 15)
    assert np.isnan(of_fewer).all()
    ends = intervals_of(np.array([[-15.0] * 4 + [15.0]]), fine[:1], -15, 15)
    assert ends.min() == -15  # and not below


def test_answers_of_fewer_than_six_different_numbers_give_no_interval():
    # 40, 50 and 60: numbers in coarse steps hide how much the order matters.
    (row,) = scored(saying(EVEN), "stated:5")
    assert row["worth_score"] == pytest.approx(0, abs=1e-9)
    assert (row["worth_score_low"], row["worth_score_high"]) == (None, None)


@pytest.mark.parametrize(
    ("last", "completion", "said"),
    [
        ("E: 120", {}, "above 100 in 'E: 120'; the answer is 'A: 60"),
        ("", {}, "no number for E; the ans"),
        ("E: 6", {"finish": "length"}, "no number for E (the answer was cut at the limit)"),
        ("", {"finish": "error", "note": "content filter"}, "content filter"),
    ],
)
def test_an_answer_that_cannot_be_read_is_left_out_and_named(last, completion, said):
    answer = all_rungs(60, "ABCD") + "\n" + last
    (row,) = scored(Stating(lambda *_: answer, **completion))
    assert row["worth_score"] is None
    word = "missing" if "note" in completion else "unparsed"
    note = f"5 of 5 judgments unparsed: 1 of 1 answer {word}: {said}"
    assert row["worth_note"].startswith(note)
    if not completion:
        answers = [all_rungs(60), answer]
        (row,) = scored(Stating(lambda _prompt, before: answers[before]), "stated:2")
        assert row["worth_score"] == pytest.approx(3)  # 15 * .2, of the first answer alone
        assert row["worth_note"].startswith(f"1 of 2 answers unparsed: {said}")


def test_a_shared_set_is_asked_anchor_by_anchor(tmp_path, write_jsonl):
    judge = Stating()
    rows = [{"context": "A row.", "output": text_of(2.0, "a")}, {"output": text_of(1.5, "b")}]
    out, kept = tmp_path / "out.jsonl", tmp_path / "kept.jsonl"
    scored(judge, ladders=shared_set(), rows=write_jsonl(rows), out=out, judgments=kept)
    first, second = read_lines(out)
    # 2.0 against 1, 2 (first anchor): 80, 50: 1 * .6 + 0 = .6. Against 2, 3: 50, 20: 0 - 2 * .6 = -1.2. Mean -.3.
    # 1.5: 65, 35: .3 - 2 * .3 = -.3; 35, 5: -.3 - 1.8 = -2.1. Mean -1.2.
    assert (first["worth_score"], second["worth_score"]) == pytest.approx((-0.3, -1.2))
    # Standard deviation of .6 and -1.2: 1.8 / sqrt(2).
    assert first["worth_anchor_spread"] == pytest.approx(1.8 / 2**0.5)
    assert len(judge.asked) == 4
    about_first = [text for target, text in judge.asked if target == text_of(2.0, "a")]
    assert sorted(re.findall(r"Anchor c\d", "".join(about_first))) == ["Anchor c0", "Anchor c1"]
    parts = ("Anchor ", "A:\nquality", "A row.", "Target story:\nquality")
    for text in about_first:
        places = [text.index(part) for part in parts]
        assert places == sorted(places)
    against = [judgment["against"] for judgment in read_lines(kept)[1:5]]
    assert against == ["rung:1@c0", "rung:2@c0", "rung:1@c1", "rung:2@c1"]
    assert "story/stated-shared@" in first["signature"]
    again, passed = tmp_path / "again.jsonl", tmp_path / "passed.jsonl"
    refladder.rescore(kept, out=again)
    assert [row["worth_score"] for row in read_lines(again)] == [
        first["worth_score"],
        second["worth_score"],
    ]
    # Scored rows of a shared set need no context.
    refladder.filter(out, min={"worth_score": -1}, out=passed)
    assert len(read_lines(passed)) == 1


def test_prompts_with_a_common_beginning_are_next_to_each_other():
    names = [f"t{number}" for number in range(16)]
    rows = [rows_of(name, context=f"c{n % 2}")[0] for n, name in enumerate(names)]
    judge = Stating()
    scored(judge, ladders=set_of([FIVE] * 2), rows=rows)
    beginnings = [text.partition("Target story:")[0] for _, text in judge.asked]
    changes = sum(first != second for first, second in itertools.pairwise(beginnings))
    assert changes == len(set(beginnings)) - 1
    assert len(set(beginnings)) > 4  # of 2 contexts and 8 orders


class Failing(Stating):
    """Fails at the last prompt about rows, until it is healed."""

    healed = False

    def write_each(self, prompts, sampling):
        for position, completion in super().write_each(prompts, sampling):
            of_rows = not OF_A_RUNG.search(prompts[position].slots["target"])
            if of_rows and position == len(prompts) - 1 and not self.healed:
                raise BackendError("the server is gone")
            yield position, completion


def test_a_run_that_failed_keeps_what_was_answered(tmp_path, write_jsonl):
    rows = rows_of("t0", "t1", "t2", quality=3.0)
    paths = {"out": tmp_path / "out.jsonl", "judgments": tmp_path / "kept.jsonl"}
    whole = scored(Stating(), "stated:2", rows=rows)
    judge = Failing()
    with pytest.raises(BackendError, match="the server is gone"):
        scored(judge, "stated:2", rows=write_jsonl(rows), **paths)
    kept_before = {line.get("subject") for line in read_lines(tmp_path / "kept.jsonl.unfinished")}
    judge.healed, judge.asked = True, []
    scored(judge, "stated:2", rows=write_jsonl(rows), **paths)
    left = {row["output"] for row in rows if row["output_id"] not in kept_before}
    assert {target for target, _ in judge.asked} == left
    found = [row["worth_score"] for row in read_lines(paths["out"])]
    assert found == [row["worth_score"] for row in whole]


def test_what_a_failed_run_kept_is_not_used_by_another_one(tmp_path, write_jsonl):
    rows, judgments = write_jsonl(rows_of("t0", "t1", quality=3.0)), tmp_path / "kept.jsonl"
    judge = Failing()

    def score(answers):
        scored(judge, answers, rows=rows, out=tmp_path / "out.jsonl", judgments=judgments)

    with pytest.raises(BackendError):
        score("stated:2")
    judge.healed, judge.asked = True, []
    with pytest.raises(OtherRunError, match="asked with answers stated:2, this run with stated:3"):
        score("stated:3")
    judgments.unlink()
    score("stated:3")
    assert len(judge.asked) == 2 * 3


def test_a_response_store_answers_a_second_run(tmp_path):
    judge = Stating()
    with SqliteStore(tmp_path / "store.sqlite") as store:
        first = scored(Stored(judge, store), "stated:3")
        assert scored(Stored(judge, store), "stated:3") == first
    assert len(judge.asked) == 3


def test_a_judgments_file_is_continued_and_rescored(tmp_path, write_jsonl):
    kept, out, again = (tmp_path / name for name in ("kept.jsonl", "out.jsonl", "again.jsonl"))
    judge, table = saying(EVEN), write_jsonl(rows_of("t0", "t1"))

    def score(answers):
        scored(judge, answers, rows=table, out=out, judgments=kept)

    score("stated:5")
    lines, first = kept.read_bytes().splitlines(keepends=True), out.read_bytes()
    assert len(lines) == 1 + 2 * 5
    assert sorted(json.loads(lines[1])["stated"]) == EVEN
    kept.write_bytes(b"".join(lines[:8]) + lines[8][:20])  # cut within the second text
    judge.asked.clear()
    score("stated:5")
    assert [target for target, _ in judge.asked] == [text_of(3.5, "t1")] * 5
    assert (out.read_bytes(), kept.read_bytes()) == (first, b"".join(lines))
    refladder.rescore(kept, out=again)
    for column in ("worth_score", "worth_score_low", "worth_score_high", "signature"):
        found = [row[column] for row in read_lines(again)]
        assert found == [row[column] for row in read_lines(out)]
    with pytest.raises(UsageError, match=f"answers stated:5 supports only the rules {RULES}"):
        refladder.rescore(kept, out=tmp_path / "votes.jsonl", rule="hard-votes")
    with pytest.raises(OtherRunError, match="asked with answers stated:5, this run with stated:2"):
        score("stated:2")


FORMS = "use a number of 0 or more, stated, stated:K, rating, rating:stated, rating:together, anchored, anchored:stated"
NUMBER = "give answers a number"
NEXT = "choose one of them with rule"
NO_ORDERS = "leave out both_orders, or use stated:2"
ORDERS = "different orders, and ladders of"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"answers": "twice"}, f"answers 'twice': {FORMS}"),
        ({"answers": "stated:0"}, f"answers 'stated:0': {FORMS}"),
        (
            {"rule": "hard-votes"},
            f"answers stated:1 supports only the rules {RULES}, found 'hard-votes'; {NEXT}",
        ),
        ({"yes_no": True}, "answers stated:1 asks no yes/no questions; leave out yes_no"),
        (
            {"both_orders": True},
            f"answers stated:1 shows all rungs in one prompt, so pairs have no orders; {NO_ORDERS}",
        ),
        (
            {"answers": "stated:9"},
            f"answers stated:9 asks in 9 {ORDERS} 5 rungs are shown in 8; use stated:8",
        ),
        (
            {"answers": "stated:3", "ladders": set_of([[1.0, 2.0]])},
            f"answers stated:3 asks in 3 {ORDERS} 2 rungs are shown in 2; use stated:2",
        ),
        (
            {"ladders": set_of([[float(level) for level in range(27)]])},
            f"answers stated:1 names rungs by 26 letters, and the ladders have 27 rungs; {NUMBER}",
        ),
    ],
)
def test_settings_that_do_not_go_with_stated_probabilities(settings, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        scored(Stating(None), **settings)


def test_a_judge_that_writes_nothing_is_refused_before_it_is_asked(fails, write_jsonl):
    table = write_jsonl([{"context_id": "story-04", "output": "Ember sneezed."}])
    refused = (
        "builtin/1 writes no answers, and --answers stated:1 asks for them; leave it out, or name"
    )
    for dry_run in ((), ("--dry-run",)):
        arguments = (table, "--ladders", "demo/story", "--answers", "stated", *dry_run)
        assert refused in fails(2, "score", *arguments)
    with pytest.raises(UsageError, match=r"^function:\S+ writes no answers, and answers stated:1"):
        scored(lambda questions: [{} for _ in questions])


def test_the_judge_check_asks_the_ends_of_each_ladder_against_its_other_rungs():
    ladders = set_of([FIVE] * 14)
    judge = Stating()
    scored(judge, "stated:3", ladders)
    assert len(judge.of_rungs) == 14 * 2  # one order each, whatever K is
    for prompt in judge.of_rungs:
        assert len(SHOWN.findall(prompt.slots["references"])) == 4
        assert prompt.slots["target"] not in prompt.slots["references"]

    # The mean of the best rung is 50, which is not above 50: no ladder is right. As floats, those of UP are a little more.
    for even in ([50] * 4, UP):

        def failing_on_best(prompt, _before, numbers=even):
            best = quality_of(prompt.slots["target"]) == 5
            stated = "\n".join(f"{name}: {n}" for name, n in zip("ABCD", numbers, strict=True))
            return stated if best else by_quality(prompt, 0)

        with pytest.raises(JudgeRefusedError, match=r"worth 0 of 14 ladders\)"):
            scored(Stating(check=failing_on_best), ladders=ladders)


def test_the_judge_check_counts_ladders_by_hand(tmp_path, write_jsonl):
    def answer(prompt, _before):
        # The mean decides: of the best rung 90, 90, 90, 10 is above 50; of the worst 10, 10, 10, 90 is below.
        best, ladder = quality_of(prompt.slots["target"]) == 5, prompt.slots["target"].split()[3]
        if ladder == "c3":
            return "I cannot tell."
        if ladder == "c4" and not best:
            return all_rungs(60, "ABC") + "\nD: 10"  # 47.5, which is right
        if ladder == "c5" and not best:
            return all_rungs(60, "ABC") + "\nD: 30"  # 52.5, which is not
        return f"{all_rungs(90, 'ABC')}\nD: 10" if best else f"{all_rungs(10, 'ABC')}\nD: 90"

    ladders, out = set_of([FIVE] * 12), tmp_path / "out.jsonl"
    judge = Stating(check=answer)
    scored(judge, ladders=ladders, rows=write_jsonl(ROWS), any_judge=True, out=out)
    (check,) = json.loads((tmp_path / "out.jsonl.run.json").read_text())["judge_check"]
    counts = [check[name] for name in ("compared", "read", "right", "unparsed")]
    assert counts == [12, 11, 10, 1]


def test_evaluate_takes_stated_probabilities():
    benchmark = benchmark_of([[1.5, 2.5, 3.5], [4.5, 1.5, 2.0]])
    ladders, judge = set_of([FIVE] * 2), Stating()
    settings = MethodSettings(answers="stated")
    evaluation = refladder.evaluate(
        benchmark, ladders=ladders, judge=judge, methods=["ladder"], settings=settings
    )
    rows = [
        {"context_id": output.context_id, "output_id": output.id, "output": output.text}
        for output in benchmark.outputs
    ]
    wanted = scored(Stating(), rows=rows, ladders=ladders)
    method = evaluation.runs[0].result.method
    found = {name: value for (name, _), value in method.scores.items()}
    assert found == pytest.approx({row["output_id"]: row["worth_score"] for row in wanted})
    assert "|answers:stated:1|" in method.signature
    assert len(judge.asked) == 6


def test_the_command_shows_the_spread_of_orders_and_a_dry_run_counts_the_answers(
    tmp_path, command, write_jsonl
):
    rules = tmp_path / "rules.jsonl"
    # a rung is compared with the four others
    of_text = {"contains": {"target": "Ember sneezed."}, "text": all_rungs(60)}
    of_rung = {"text": "A: 60\nB: 60\nC: 60\nD: 60"}
    rules.write_text(
        "".join(json.dumps({"role": "stated", **rule}) + "\n" for rule in (of_text, of_rung))
    )
    contexts = ("story-04", "story-07")
    table = write_jsonl([{"context_id": name, "output": "Ember sneezed."} for name in contexts])
    judge = ("--judge", f"scripted:{rules}", "--any-judge")
    base = ("score", table, "--ladders", "demo/story", "--dimension", "coherence", *judge)
    # the judge check: both ends of 12 ladders, asked once
    for answers, calls in (("stated", 26), ("stated:8", 16)):
        done = command(*base, "--answers", answers, "--dry-run")
        assert f": {calls} calls," in done.out
        assert "  texts are the most probable ones (temperature 0)\n" in done.out
        out = tmp_path / f"{calls}.jsonl"
        done = command(*base, "--answers", answers, "--json", "--out", out)
        assert done.rows[0]["spent"][0]["calls"] == calls
    done = command(*base, "--answers", "stated:2", "--out", tmp_path / "out.jsonl")
    shown = "coherence: standard deviation of the score between orders of the rungs 0.00\n"
    assert shown in done.out + done.err
    done = command(*base, "--answers", "often", "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert f"--answers 'often': {FORMS}" in done.err


def biased():
    """A judge that adds 10 in favour of the text in question."""
    return Stating(check=lambda prompt, before: by_quality(prompt, before, favour=10))


def test_a_certificate_is_made_of_what_both_rungs_of_a_pair_get():
    # A step of .5: p(higher) = 75, p(lower) = 45, so w = (.75 + 1 - .45) / 2 = .65. Two steps: 90 and 30, w = .8.
    judge = biased()
    ladders = set_of([[1.0, 1.5, 2.0], [2.0, 1.5, 2.5]])
    certificate = refladder.certify(ladders, judge=judge, answers="stated")
    # each rung among the others of its ladder, and nothing more for the judge check
    assert len(judge.of_rungs) == 2 * 3
    (dimension,) = certificate["dimensions"]
    # Second ladder: 2 to 1.5 is -.5 (w .35), 1.5 to 2.5 is 1 (w .8). Means .5 and (.65 + .8) / 2.
    assert [step["w"] for step in dimension["steps"]] == pytest.approx([0.5, 0.725])
    assert [step["in_order"] for step in dimension["steps"]] == [1, 2]
    assert "|answers:stated:1|" in certificate["judge"]["signature"]
    assert "story/stated@" in certificate["judge"]["signature"]
    assert certificate["counts"]["judgments"] == 2 * 6


def test_a_certificate_of_a_shared_set_compares_the_anchors():
    judge = biased()
    certificate = refladder.certify(shared_set(), judge=judge, answers="stated")
    assert (
        len(judge.of_rungs) == 2 * 2 * 2
    )  # each rung of each anchor, against each anchor's ladder
    # Level 2 of an anchor against level 1 of the other: 2 against 2 (not above), and 3 against 1 (above).
    sharing = certificate["sharing"]
    assert (sharing["in_order"], sharing["of"]) == (1, 2)


def test_an_audit_and_long_ladders_are_refused():
    with pytest.raises(UsageError, match=r"^answers must be a whole number, found 'stated'"):
        refladder.audit(LADDERS, judge=biased(), answers="stated")
    message = r"^answers stated:3 asks in 3 different orders, and ladders of 2 rungs are"
    with pytest.raises(UsageError, match=message):
        refladder.certify(set_of([[1.0, 2.0, 3.0]]), judge=biased(), answers="stated:3")


def test_recorded_readings_have_the_scores_and_the_unparsed_answers(tmp_path):
    """Two orders, of which p(win) is the mean; the answers on the text b cannot be parsed."""
    judge = Stating(
        lambda prompt, _: by_quality(prompt, 0) if " a" in prompt.slots["target"] else "no idea"
    )
    rows, kept = rows_of("a", "b"), tmp_path / "kept.jsonl"
    first = scored(judge, "stated:2", rows=rows, judgments=kept, any_judge=True)
    second = refladder.score(rows, ladders=LADDERS, judgments_from=kept)
    assert first[0]["worth_score"] is not None
    assert second[0]["worth_score"] == pytest.approx(first[0]["worth_score"], abs=1e-9)
    assert second[1]["worth_score"] is None
    assert "2 of 2 answers unparsed" in second[1]["worth_note"]
