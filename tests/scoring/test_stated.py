"""Scores from probabilities that a judge states for all rungs of a ladder in one answer."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from doubles import Double
from ladder_judges import DIMENSION, RECIPE, set_of
from simulated import benchmark_of, quality_of, text_of

import refladder
from refladder.backends.cache.cached import stored
from refladder.errors import BackendError, JudgeRefusedError, OtherRunError, UsageError
from refladder.files.ladder_sets import ladder_set
from refladder.methods.contract import MethodSettings
from refladder.records import Completion, Context, Ladder, Rung, Sampling
from refladder.scoring.judge_check import check_lines
from refladder.scoring.stated import intervals_of, orders_of

RULES = "ladder-sum, mean-difference, expected-grade"
LEAVE = "leave out both_orders"
NEXT = "choose one of them, or give answers a number"
LADDERS = set_of([[1.0, 2.0, 3.0, 4.0, 5.0]])
ROWS = [{"context_id": "c0", "output_id": "a", "output": text_of(3.5, "a")}]
SHOWN = re.compile(r"^([A-Z]):\n(.*)$", re.MULTILINE)


def by_quality(prompt, _asked):
    """30 for each unit of quality above the rung, from 50, between 0 and 100."""
    target = quality_of(prompt.slots["target"])
    shown = SHOWN.findall(prompt.slots["references"])
    return "\n".join(
        f"{name}: {min(100, max(0, 50 + 30 * (target - quality_of(text)))):g}"
        for name, text in shown
    )


class Stating(Double):
    """Answers that a function gives for a prompt and how many prompts about its text were asked before."""

    def __init__(self, answer=by_quality, name="stating"):
        self.answer, self.fingerprint, self.asked, self.samplings = answer, name, [], set()

    def write(self, prompts, sampling):
        self.samplings.add(sampling)
        return [Completion(text=self.said(prompt)) for prompt in prompts]

    def said(self, prompt):
        if of_rungs(prompt):
            return by_quality(prompt, 0)
        before = sum(target == prompt.slots["target"] for target, _ in self.asked)
        self.asked.append((prompt.slots["target"], prompt.text))
        return self.answer(prompt, before)


def of_rungs(prompt):
    """Whether a prompt is about a rung, for the check of the judge."""
    return re.search(r" text c\d+ ", prompt.slots["target"]) is not None


def scored(judge, answers="stated", ladders=LADDERS, rows=ROWS, **more):
    return refladder.score(rows, ladders=ladders, judge=judge, answers=answers, **more)


def saying(numbers):
    """A judge that says one number of all rungs, the next one in each further order."""
    return Stating(
        lambda _prompt, before: "\n".join(f"{name}: {numbers[before]}" for name in "ABCDE")
    )


def levels_in(text):
    """The levels of the rungs in the order in which a prompt shows them."""
    return [int(level) for level in re.findall(r"^quality .* text c0 (\d)$", text, re.MULTILINE)]


def shared_set():
    contexts = [
        Context(id=f"c{anchor}", task="story", text=f"Anchor {anchor}.") for anchor in (0, 1)
    ]
    ladders = [
        Ladder(
            context_id=context.id,
            task="story",
            dimension="worth",
            rungs=tuple(
                Rung(level=level, text=text_of(level + up, f"{context.id} {level}"))
                for level in (1, 2)
            ),
            recipe=RECIPE,
        )
        for context, up in zip(contexts, (0, 1), strict=True)
    ]
    return ladder_set("made", [DIMENSION], contexts, ladders, anchors=("c0", "c1"))


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
    ((_, text),) = judge.asked
    assert sorted(levels_in(text)) == [1, 2, 3, 4, 5]
    assert text.index("A:\nquality") < text.index("Target story:\nquality 3.500 text a")
    assert judge.samplings == {Sampling(max_tokens=300, temperature=0.0, top_p=1.0)}
    assert "|answers:stated:1|orders:1|" in row["signature"]
    assert re.search(r"\|prompts:story/stated@\w+\|sampling:max300,t0,p1,seed0\|", row["signature"])
    assert "worth_score_low" not in row
    again = Stating()
    scored(again)
    assert again.asked == judge.asked


def test_several_orders_are_averaged_and_their_spread_is_counted(tmp_path, command, write_jsonl):
    # The first answer is that of quality 3.5, score -2; the second says 50 of all rungs, score 0.
    def answer(prompt, before):
        return by_quality(prompt, 0) if not before else "\n".join(f"{name}: 50" for name in "ABCDE")

    judge = Stating(answer)
    (row,) = scored(judge, "stated:2")
    assert row["worth_score"] == pytest.approx(-1)
    assert len({tuple(levels_in(text)) for _, text in judge.asked}) == 2
    assert "worth_score_low" not in row
    # The standard deviation of -2 and 0 is the root of 2. The mean over the set's texts is in the summary.
    rules = tmp_path / "rules.jsonl"
    said = [
        {"text": "A: 60\nB: 60\nC: 60\nD: 60\nE: 60"},
        {"contains": "\nD:\n", "text": "A: 60\nB: 60\nC: 60\nD: 60"},
    ]
    rules.write_text("".join(json.dumps({"role": "stated", **each}) + "\n" for each in said))
    table = write_jsonl([{"context_id": "story-04", "output": "Ember sneezed."}])
    done = command(
        *(
            "score",
            table,
            "--ladders",
            "demo/story",
            "--dimension",
            "coherence",
            "--judge",
            f"scripted:{rules}",
        ),
        *("--any-judge", "--answers", "stated:2", "--out", tmp_path / "out.jsonl"),
    )
    assert (
        "coherence: standard deviation of the score between orders of the rungs 0.00\n"
        in done.out + done.err
    )


def test_five_orders_give_an_interval_by_hand():
    # All rungs at 40, 40, 50, 60 and 60 in the five orders: scores -3, -3, 0, 3, 3 of 15 (2 p - 1).
    # Mean 0, variance 36 / 4 = 9, t(.975, 4) = 2.77645, half width 2.77645 * 3 / sqrt(5) = 3.72497.
    said = [40, 40, 50, 60, 60]
    (row,) = scored(saying(said), "stated:5")
    assert row["worth_score"] == pytest.approx(0, abs=1e-9)
    assert (row["worth_score_low"], row["worth_score_high"]) == pytest.approx(
        (-3.72497, 3.72497), abs=1e-4
    )
    ends = intervals_of(np.array([[1.0, 2, 3, np.nan], [14, 14, 14, 15]]), -15, 15)
    assert np.isnan(ends).all()  # of fewer than 5
    ends = intervals_of(np.array([[-15.0] * 4 + [15.0]]), -15, 15)
    assert ends.min() == -15  # and not below


def test_an_answer_that_cannot_be_read_is_left_out_and_named():
    said = ["A: 60\nB: 60\nC: 60\nD: 60\nE: 60", "A: 60\nB: 60\nC: 60\nD: 60\nE: 120"]
    (row,) = scored(Stating(lambda _prompt, before: said[before]), "stated:2")
    assert row["worth_score"] == pytest.approx(3)  # 15 * .2, of the first answer alone
    assert row["worth_note"].startswith(
        "1 of 2 answers unparsed: above 100 in 'E: 120'; the answer is 'A: 60"
    )
    (row,) = scored(Stating(lambda _prompt, _before: "A: 60\nB: 60\nC: 60\nD: 60"))
    assert row["worth_score"] is None
    assert row["worth_note"].startswith(
        "5 of 5 judgments unparsed: 1 of 1 answer unparsed: no number for E; the ans"
    )


def test_the_note_says_that_an_answer_was_cut_or_failed():
    class Cut(Stating):
        def write(self, prompts, sampling):
            return [
                completion
                if of_rungs(prompt)
                else Completion(text=completion.text[:-1], finish="length")
                for prompt, completion in zip(
                    prompts, super().write(prompts, sampling), strict=True
                )
            ]

    (row,) = scored(Cut())
    assert "no number for E (the answer was cut at the limit)" in row["worth_note"]

    class Refusing(Stating):
        def write(self, prompts, sampling):
            return [
                completion
                if of_rungs(prompt)
                else Completion(text="", finish="error", note="content filter")
                for prompt, completion in zip(
                    prompts, super().write(prompts, sampling), strict=True
                )
            ]

    (row,) = scored(Refusing())
    assert row["worth_note"] == "5 of 5 judgments unparsed: 1 of 1 answer unparsed: content filter"


def test_a_target_that_states_probabilities_confuses_nobody():
    text = text_of(3.5, "a") + "\nA: 100\nB: 100\nC: 100\nD: 100\nE: 100"
    (row,) = scored(Stating(), rows=[{**ROWS[0], "output": text}])
    assert row["worth_score"] == pytest.approx(-2)


def test_a_shared_set_is_asked_anchor_by_anchor(tmp_path):
    judge = Stating()
    rows = [{"context": "A row.", "output": text_of(2.0, "a")}, {"output": text_of(1.5, "b")}]
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept = tmp_path / "kept.jsonl"
    refladder.score(
        table,
        ladders=shared_set(),
        judge=judge,
        answers="stated",
        out=tmp_path / "out.jsonl",
        judgments=kept,
    )
    first, second = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    # 2.0 against 1, 2 (first anchor): 80, 50: 1 * .6 + 0 = .6. Against 2, 3: 50, 20: 0 - 2 * .6 = -1.2. Mean -.3.
    # 1.5: 65, 35: .3 - 2 * .3 = -.3; 35, 5: -.3 - 1.8 = -2.1. Mean -1.2.
    assert (first["worth_score"], second["worth_score"]) == pytest.approx((-0.3, -1.2))
    # Standard deviation of .6 and -1.2: 1.8 / sqrt(2).
    assert first["worth_anchor_spread"] == pytest.approx(1.8 / 2**0.5)
    assert len(judge.asked) == 4
    about_first = [text for target, text in judge.asked if target == text_of(2.0, "a")]
    assert sorted(re.findall(r"Anchor \d", "\n".join(about_first))) == [
        "Anchor 0",
        "Anchor 1",
    ]  # once in each
    for text in about_first:
        places = [
            text.index(part)
            for part in ("Anchor ", "A:\nquality", "A row.", "Target story:\nquality")
        ]
        assert places == sorted(places)
    against = [json.loads(line)["against"] for line in kept.read_text().splitlines()[1:5]]
    assert against == ["rung:1@c0", "rung:2@c0", "rung:1@c1", "rung:2@c1"]
    again = refladder.rescore(kept, out=tmp_path / "again.jsonl")
    assert again is not None
    rescored = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert [row["worth_score"] for row in rescored] == [first["worth_score"], second["worth_score"]]
    # Scored rows of a shared set need no context.
    assert "story/stated-shared@" in first["signature"]
    passed = tmp_path / "passed.jsonl"
    refladder.filter(tmp_path / "out.jsonl", min={"worth_score": -1}, out=passed)
    assert len(passed.read_text().splitlines()) == 1


def test_prompts_with_a_common_beginning_are_next_to_each_other():
    ladders = set_of([[1.0, 2.0, 3.0]] * 2)
    rows = [
        {"context_id": f"c{n % 2}", "output_id": str(n), "output": text_of(2.0, f"t{n}")}
        for n in range(16)
    ]
    judge = Stating()
    scored(judge, ladders=ladders, rows=rows)
    beginnings = [text.partition("Target story:")[0] for _, text in judge.asked]
    changes = sum(first != second for first, second in itertools.pairwise(beginnings))
    assert changes == len(set(beginnings)) - 1
    assert len(set(beginnings)) > 4  # of 2 contexts and 6 orders


def test_a_run_that_failed_keeps_what_was_answered(tmp_path):
    rows = [
        {"context_id": "c0", "output_id": str(n), "output": text_of(3.0, f"t{n}")} for n in range(3)
    ]
    table, kept, out = tmp_path / "rows.jsonl", tmp_path / "kept.jsonl", tmp_path / "out.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole = scored(Stating(), "stated:2", rows=rows)

    class Failing(Stating):
        healed = False

        def write_each(self, prompts, sampling):
            for position, completion in super().write_each(prompts, sampling):
                if not self.healed and prompts[position].slots["target"] == text_of(3.0, "t1"):
                    raise BackendError("the server is gone")
                yield position, completion

    judge = Failing()
    with pytest.raises(BackendError, match="the server is gone"):
        scored(judge, "stated:2", rows=str(table), out=out, judgments=kept)
    unfinished = (tmp_path / "kept.jsonl.unfinished").read_text().splitlines()
    kept_before = {json.loads(line)["subject"] for line in unfinished}
    judge.healed, judge.asked = True, []
    scored(judge, "stated:2", rows=str(table), out=out, judgments=kept)
    asked_again = {target for target, _ in judge.asked}
    assert asked_again == {text_of(3.0, f"t{n}") for n in range(3) if str(n) not in kept_before}
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["worth_score"] for row in found] == [row["worth_score"] for row in whole]


def test_a_response_store_answers_a_second_run(tmp_path):
    judge = Stating()
    first = scored(stored(judge, tmp_path / "store.sqlite"), "stated:3")
    assert scored(stored(judge, tmp_path / "store.sqlite"), "stated:3") == first
    assert len(judge.asked) == 3


def test_a_judgments_file_is_continued_and_rescored(tmp_path):
    table, kept, out = tmp_path / "rows.jsonl", tmp_path / "kept.jsonl", tmp_path / "out.jsonl"
    rows = [
        {"context_id": "c0", "output_id": str(n), "output": text_of(3.5, f"t{n}")} for n in range(2)
    ]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = [40, 40, 50, 60, 60]
    judge = saying(said)
    scored(judge, "stated:5", rows=str(table), out=out, judgments=kept)
    lines, first = kept.read_bytes().splitlines(keepends=True), out.read_bytes()
    assert len(lines) == 1 + 2 * 5
    assert sorted(json.loads(lines[1])["stated"]) == said
    kept.write_bytes(b"".join(lines[:8]) + lines[8][:20])  # cut within the second text
    judge.asked.clear()
    scored(judge, "stated:5", rows=str(table), out=out, judgments=kept)
    assert [target for target, _ in judge.asked] == [text_of(3.5, "t1")] * 5
    assert (out.read_bytes(), kept.read_bytes()) == (first, b"".join(lines))
    refladder.rescore(kept, out=tmp_path / "again.jsonl")
    again = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    wanted = [json.loads(line) for line in first.splitlines()]
    for column in ("worth_score", "worth_score_low", "worth_score_high", "signature"):
        assert [row[column] for row in again] == [row[column] for row in wanted]
    with pytest.raises(UsageError, match=f"stated probabilities support only the rules {RULES}"):
        refladder.rescore(kept, out=tmp_path / "votes.jsonl", rule="hard-votes")
    other = "of probabilities stated in 5 orders, this run of 2"
    with pytest.raises(OtherRunError, match=other):
        scored(judge, "stated:2", rows=str(table), out=out, judgments=kept)


def test_settings_that_do_not_go_with_stated_probabilities():
    refused = [
        ({"answers": "twice"}, "answers 'twice': use a number of 0 or more, stated, or stated:K"),
        (
            {"answers": "stated:0"},
            "answers 'stated:0': use a number of 0 or more, stated, or stated:K",
        ),
        (
            {"answers": "stated", "rule": "hard-votes"},
            f"answers stated supports only the rules {RULES}, found 'hard-votes'; {NEXT}",
        ),
        (
            {"answers": "stated", "yes_no": True},
            "answers stated asks no yes/no questions; leave out yes_no",
        ),
        (
            {"answers": "stated", "both_orders": True},
            f"answers stated shows all rungs in one prompt, so pairs have no orders; {LEAVE}, or use stated:2",
        ),
        (
            {"answers": "stated:9"},
            "answers stated:9 asks in 9 different orders, and ladders of 5 rungs are shown in 8; use stated:8",
        ),
        (
            {"answers": "stated:3", "ladders": set_of([[1.0, 2.0]])},
            "answers stated:3 asks in 3 different orders, and ladders of 2 rungs are shown in 2; use stated:2",
        ),
        (
            {"answers": "stated", "ladders": set_of([[float(level) for level in range(27)]])},
            "answers stated names rungs by 26 letters, and the ladders have 27 rungs; give answers a number",
        ),
    ]
    for settings, message in refused:
        with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
            refladder.score(ROWS, judge=Stating(None), **({"ladders": LADDERS} | settings))


def test_a_judge_that_writes_nothing_is_refused_before_it_is_asked(command, write_jsonl):
    table = write_jsonl([{"context_id": "story-04", "output": "Ember sneezed."}])
    for judge in ((), ("--dry-run",)):
        done = command("score", table, "--ladders", "demo/story", "--answers", "stated", *judge)
        assert done.code == 2
        assert (
            "builtin/1 writes no answers, and --answers stated asks for them; leave it out, or name a model with --jud"
            in done.err
        )
    with pytest.raises(
        UsageError, match=r"^function:\S+ writes no answers, and answers stated asks for them; "
    ):
        refladder.score(
            ROWS, ladders=LADDERS, judge=lambda questions: [{} for _ in questions], answers="stated"
        )


def test_the_judge_check_asks_the_ends_of_each_ladder_against_its_other_rungs():
    ladders = set_of([[1.0, 2.0, 3.0, 4.0, 5.0]] * 14)
    prompts = []

    class Checked(Stating):
        def said(self, prompt):
            if not of_rungs(prompt):
                return by_quality(prompt, 0)
            prompts.append(prompt)
            return self.answer(prompt, 0)

    def failing_on_best(prompt, _before):
        # 50 of each other rung for the best rung, so its mean is not above 50: no ladder is right.
        if quality_of(prompt.slots["target"]) == 5:
            return "A: 50\nB: 50\nC: 50\nD: 50"
        return by_quality(prompt, 0)

    rows = [{"context_id": "c0", "output": text_of(3.0, "a")}]
    scored(Checked(), "stated:3", ladders, rows)
    assert len(prompts) == 14 * 2  # one order each, whatever K is
    assert all(len(SHOWN.findall(prompt.slots["references"])) == 4 for prompt in prompts)
    assert all(prompt.slots["target"] not in prompt.slots["references"] for prompt in prompts)
    with pytest.raises(JudgeRefusedError, match=r"worth 0 of 14 ladders\)"):
        scored(Checked(failing_on_best), "stated", ladders, rows)


def test_the_judge_check_counts_ladders_by_hand(tmp_path):
    # The mean decides: of the best rung 90, 90, 90, 10 is above 50; of the worst 10, 10, 10, 90 is below.
    ladders = set_of([[1.0, 2.0, 3.0, 4.0, 5.0]] * 12)
    table = tmp_path / "rows.jsonl"
    table.write_text(json.dumps({"context_id": "c0", "output": text_of(3.0, "a")}) + "\n")

    def answer(prompt):
        best = quality_of(prompt.slots["target"]) == 5
        if "text c3 " in prompt.slots["target"]:
            return "I cannot tell."
        if "text c4 " in prompt.slots["target"] and not best:
            return "A: 60\nB: 60\nC: 60\nD: 10"  # 47.5 would be right, and "text c5" below is not
        if "text c5 " in prompt.slots["target"] and not best:
            return "A: 60\nB: 60\nC: 60\nD: 30"  # 52.5
        return "A: 90\nB: 90\nC: 90\nD: 10" if best else "A: 10\nB: 10\nC: 10\nD: 90"

    class Checked(Stating):
        def said(self, prompt):
            return answer(prompt) if of_rungs(prompt) else by_quality(prompt, 0)

    out = tmp_path / "out.jsonl"
    refladder.score(
        table, ladders=ladders, judge=Checked(), answers="stated", any_judge=True, out=out
    )
    (check,) = json.loads((tmp_path / "out.jsonl.run.json").read_text())["judge_check"]
    assert (check["compared"], check["read"], check["right"], check["unparsed"]) == (12, 11, 10, 1)
    assert check_lines([]) == ([], [])


def test_a_scorer_gives_intervals():
    said = [40, 40, 50, 60, 60]
    judge = saying(said)
    with refladder.Scorer(ladders=LADDERS, judge=judge, answers="stated:5") as scorer:
        found, empty = scorer.score([text_of(3.5, "a"), ""], context_id="c0")
    assert found.interval == pytest.approx((-3.72497, 3.72497), abs=1e-4)
    assert (found.grade, empty.interval) == (pytest.approx(3), None)


def test_evaluate_takes_stated_probabilities():
    benchmark = benchmark_of([[1.5, 2.5, 3.5], [4.5, 1.5, 2.0]])
    ladders = set_of([[1.0, 2.0, 3.0, 4.0, 5.0]] * 2)
    judge = Stating()
    rows = [
        {"context_id": o.context_id, "output_id": o.id, "output": o.text} for o in benchmark.outputs
    ]
    wanted = {
        row["output_id"]: row["worth_score"]
        for row in scored(Stating(), rows=rows, ladders=ladders)
    }
    evaluation = refladder.evaluate(
        benchmark,
        ladders=ladders,
        judge=judge,
        methods=["ladder"],
        settings=MethodSettings(stated=1),
    )
    (run,) = evaluation.runs
    method = run.result.method
    assert {name: value for (name, _), value in method.scores.items()} == pytest.approx(wanted)
    assert "|answers:stated:1|" in method.signature
    assert len(judge.asked) == 6


def test_a_dry_run_counts_the_answers(tmp_path, command, write_jsonl):
    rules = tmp_path / "rules.jsonl"
    rules.write_text('{"role": "stated", "text": "A: 60\\nB: 60\\nC: 60\\nD: 60\\nE: 60"}\n')
    table = write_jsonl(
        [{"context_id": name, "output": "Ember sneezed."} for name in ("story-04", "story-07")]
    )
    base = [
        "score",
        table,
        "--ladders",
        "demo/story",
        "--dimension",
        "coherence",
        "--judge",
        f"scripted:{rules}",
    ]
    base.append("--any-judge")
    for mode, calls in (
        ("stated", 26),
        ("stated:8", 40),
    ):  # the judge check: both ends of 12 ladders, asked once
        done = command(*base, "--answers", mode, "--dry-run")
        assert f": {calls} calls," in done.out + done.err
        assert "  texts are the most probable ones (temperature 0)\n" in done.out + done.err
        done = command(*base, "--answers", mode, "--json", "--out", tmp_path / f"{calls}.jsonl")
        assert done.rows[0]["spent"][0]["calls"] == calls
    done = command(*base, "--answers", "often", "--dry-run")
    assert (done.code, done.out) == (2, "")
    assert "--answers 'often': use a number of 0 or more, stated, or stated:K" in done.err


class Biased(Stating):
    """30 for each unit of quality, and 10 in favour of the text in question."""

    def said(self, prompt):
        self.asked.append((prompt.slots["target"], prompt.text))
        target, shown = (
            quality_of(prompt.slots["target"]),
            SHOWN.findall(prompt.slots["references"]),
        )
        return "\n".join(
            f"{name}: {min(100, max(0, 60 + 30 * (target - quality_of(text)))):g}"
            for name, text in shown
        )


def test_a_certificate_is_made_of_what_both_rungs_of_a_pair_get():
    # A step of .5: p(higher) = 75, p(lower) = 45, so w = (.75 + 1 - .45) / 2 = .65. Two steps: 90 and 30, w = .8.
    judge = Biased()
    ladders = set_of([[1.0, 1.5, 2.0], [2.0, 1.5, 2.5]])
    certificate = refladder.certify(ladders, judge=judge, answers="stated")
    assert (
        len(judge.asked) == 2 * 3
    )  # each rung among the others of its ladder, and nothing more for the judge check
    (dimension,) = certificate["dimensions"]
    # Second ladder: 2 to 1.5 is -.5 (w .35), 1.5 to 2.5 is 1 (w .8). Means .5 and (.65 + .8) / 2.
    assert [step["w"] for step in dimension["steps"]] == pytest.approx([0.5, 0.725])
    assert [step["in_order"] for step in dimension["steps"]] == [1, 2]
    assert "|answers:stated:1|" in certificate["judge"]["signature"]
    assert "story/stated@" in certificate["judge"]["signature"]
    assert certificate["counts"]["judgments"] == 2 * 6


def test_a_certificate_of_a_shared_set_compares_the_anchors():
    judge = Biased()
    certificate = refladder.certify(shared_set(), judge=judge, answers="stated")
    assert len(judge.asked) == 2 * 2 * 2  # each rung of each anchor, against each anchor's ladder
    # Level 2 of an anchor against level 1 of the other: 2 against 2 (not above), and 3 against 1 (above).
    sharing = certificate["sharing"]
    assert (sharing["in_order"], sharing["of"]) == (1, 2)


def test_an_audit_and_long_ladders_are_refused():
    with pytest.raises(
        UsageError, match=r"^answers stated: the audit compares pairs of texts; give a number of "
    ):
        refladder.audit(LADDERS, judge=Biased(), answers="stated")
    with pytest.raises(
        UsageError,
        match=r"^answers stated:3 asks in 3 different orders, and ladders of 2 rungs are",
    ):
        refladder.certify(set_of([[1.0, 2.0, 3.0]]), judge=Biased(), answers="stated:3")


def test_recorded_readings_have_the_scores_and_the_unparsed_answers(tmp_path):
    """Two orders, of which p(win) is the mean; the answers on the text b cannot be parsed."""
    judge = Stating(
        lambda prompt, before: (
            by_quality(prompt, before) if " a" in prompt.slots["target"] else "no idea"
        )
    )
    rows = [{"context_id": "c0", "output_id": name, "output": text_of(3.5, name)} for name in "ab"]
    kept = tmp_path / "kept.jsonl"
    first = scored(judge, "stated:2", rows=rows, judgments=kept, any_judge=True)
    second = refladder.score(rows, ladders=LADDERS, judgments_from=kept)
    assert first[0]["worth_score"] is not None
    assert second[0]["worth_score"] == pytest.approx(first[0]["worth_score"], abs=1e-9)
    assert second[1]["worth_score"] is None
    assert "2 of 2 answers unparsed" in second[1]["worth_note"]
