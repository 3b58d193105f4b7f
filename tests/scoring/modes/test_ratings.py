"""Ratings of texts by themselves, and after graded examples."""

from __future__ import annotations

import json
import logging
import math
import re
from dataclasses import replace

import pytest
from doubles import Double
from json_lines import read_lines
from ladder_judges import RECIPE

import refladder
from refladder.backends.attempts import attempts
from refladder.errors import (
    BackendError,
    DataError,
    JudgeRefusedError,
    OtherRunError,
    UsageError,
)
from refladder.files.ladder_sets import ladder_set
from refladder.integrations.trl import reward
from refladder.methods.contract import MethodSettings
from refladder.records import (
    IMPOSSIBLE,
    RATINGS,
    Completion,
    Context,
    Dimension,
    Judgment,
    LabelReading,
    Ladder,
    Revision,
    Rung,
)
from refladder.scoring.modes import mode_of
from refladder.signatures import same_scale

CLARITY = Dimension(name="clarity", description="Muddled to clear.")
TONE = Dimension(name="tone", description="Rude to kind.", low=0.0, high=10.0)
BOTH = [CLARITY, TONE]
STATED = ["rating:stated", "rating:together", "anchored:stated"]
EVERY = ["rating", "anchored", *STATED]


def text_of(quality, name):
    return f"text {name} of quality {quality:g}"


def quality_of(text):
    return float(re.search(r"of quality ([\d.]+)", text)[1])


def made(anchors=("a", "b", "c"), qualities=(1, 2, 3, 4, 5), dimensions=(CLARITY,), *, shared=True):
    """A set whose rungs have these qualities, the same on every dimension."""
    contexts = [Context(id=name, task="open", text=f"Question {name}?") for name in anchors]
    ladders = [
        Ladder(
            context_id=name,
            task="open",
            dimension=dimension.name,
            recipe=RECIPE,
            rungs=tuple(
                Rung(level=level, text=text_of(quality, f"{name}{level}"))
                for level, quality in enumerate(qualities, start=1)
            ),
        )
        for name in anchors
        for dimension in dimensions
    ]
    return ladder_set(
        "made", list(dimensions), contexts, ladders, anchors=anchors if shared else ()
    )


def shares_of(quality):
    """The percentages of a rating between two whole numbers."""
    percent = [0.0] * 5
    low = min(int(quality), 4)
    percent[low - 1] = 100 * (low + 1 - quality)
    percent[low] = 100 * (quality - low)
    return percent


class Rater(Double):
    """Rates a text by the quality that it names; keeps its prompts. `said` replaces answers that it would write."""

    def __init__(self, said=None, rated=quality_of, name="rater"):
        self.prompts, self.said, self.rated, self.fingerprint = [], said, rated, name

    def read_labels(self, prompts, labels):
        assert list(labels) == ["1", "2", "3", "4", "5"]
        self.prompts += prompts
        return [
            LabelReading(
                logprobs=tuple(
                    math.log(share / 100) if share else IMPOSSIBLE
                    for share in shares_of(self.rated(prompt.slots["target"]))
                ),
                mass=0.9,
            )
            for prompt in prompts
        ]

    def write(self, prompts, sampling):
        assert sampling.temperature == 0
        self.prompts += prompts
        return [Completion(text=self.answer(prompt)) for prompt in prompts]

    def answer(self, prompt):
        if self.said is not None and (answer := self.said(prompt)) is not None:
            return answer
        percent = shares_of(self.rated(prompt.slots["target"]))
        lines = "\n".join(f"{rating}: {share:g}" for rating, share in enumerate(percent, start=1))
        if "criteria" not in prompt.slots:
            return lines
        names = re.findall(r"^(\w+): ", prompt.slots["criteria"], re.MULTILINE)
        return "\n\n".join(f"{name}\n{lines}" for name in names)

    @property
    def targets(self):
        return [prompt.slots["target"] for prompt in self.prompts]


def rows_of(*qualities, context="a"):
    return [
        {"context_id": context, "output_id": f"t{number}", "output": text_of(quality, f"t{number}")}
        for number, quality in enumerate(qualities)
    ]


ROWS = rows_of(3.5, 2.2)


def scored(judge, answers, ladders=None, rows=ROWS, **more):
    return refladder.score(
        rows, ladders=made() if ladders is None else ladders, judge=judge, answers=answers, **more
    )


@pytest.mark.parametrize("answers", EVERY)
def test_the_score_is_the_expected_rating_and_the_grade_its_place_on_the_ladder(answers):
    judge = Rater()
    first, second = scored(judge, answers)
    assert (first["clarity_score"], second["clarity_score"]) == pytest.approx((3.5, 2.2))
    # Level l beats l - 1/2 rungs of 5: 3 of 5, and 1.7 of 5. Half 3 and half 4: grades 3 and 3.8, sqrt(.4^2).
    assert first["clarity_spread"] == pytest.approx(0.4)
    assert (first["clarity_grade"], second["clarity_grade"]) == pytest.approx((3.4, 2.36))
    assert first["clarity_mass"] == (0.9 if answers in {"rating", "anchored"} else None)
    assert first["clarity_note"] is None
    assert "clarity_anchor_spread" not in first
    place = "example:a" if answers.startswith("anchored") else "place:beaten"
    assert first["signature"].endswith(f"|answers:{answers}|{place}|least-mass:0.05")


@pytest.mark.parametrize("answers", EVERY)
def test_what_is_asked(answers):
    judge = Rater()
    ladders = made(dimensions=BOTH)
    scored(judge, answers, ladders)
    anchored, together = answers.startswith("anchored"), answers.endswith("together")
    # The rungs: 5 of 3 anchors on 2 dimensions, of which the check takes the best and the worst. Examples need no ratings
    # of rungs, so that only the check asks about them. The rows: 2 texts.
    expected = (12 if anchored else 30) + (2 if together else 4)
    assert len(judge.prompts) == expected
    (row, *_) = [prompt for prompt in judge.prompts if prompt.slots["target"] == ROWS[0]["output"]]
    assert row.role == answers.replace(":", "-")
    assert row.text.rindex("Question a?") < row.text.rindex(ROWS[0]["output"])
    if together:
        assert row.slots["criteria"] == "clarity: Muddled to clear.\ntone: Rude to kind."
    if anchored:
        # Those of the first anchor, worst first.
        texts = [f"Rating {level}:\n{text_of(level, f'a{level}')}" for level in range(1, 6)]
        assert row.slots["examples"] == "\n\n".join(texts)
        assert row.slots["reference_context"] == "Question a?"
        # A rung of an anchor is rated after those of the next.
        checked = {
            prompt.slots["target"][:7]: prompt.slots["reference_context"]
            for prompt in judge.prompts[:12]
        }
        assert checked == {
            "text a1": "Question b?", "text a5": "Question b?",
            "text b1": "Question c?", "text b5": "Question c?",
            "text c1": "Question a?", "text c5": "Question a?",
        }  # fmt: skip


def test_examples_are_the_rows_own_ladder_and_levels_are_put_on_1_to_5():
    judge = Rater()
    ladders = made(qualities=(1, 3, 5), shared=False)
    (row,) = scored(judge, "anchored", ladders, rows_of(4.0, context="b"))
    prompt = judge.prompts[-1]
    assert prompt.slots["examples"].startswith(
        "Rating 1:\ntext b1 of quality 1\n\nRating 3:\ntext b2"
    )
    assert (prompt.slots["reference_context"], prompt.slots["context"]) == ("", "Question b?")
    # Rating 4 is level 2.5 of 3, so 2 of 3 rungs are beaten.
    assert row["clarity_grade"] == pytest.approx(1 + 4 * 2 / 3)


def test_own_ladders_are_checked_without_examples_and_the_run_says_so(
    tmp_path, command, write_jsonl
):
    judge = Rater()
    scored(judge, "anchored:stated", made(shared=False))
    assert [prompt.role for prompt in judge.prompts] == ["rating-stated"] * 6 + [
        "anchored-stated"
    ] * 2
    table = write_jsonl([{"context_id": "story-04", "output": "Ember sneezed."}])
    line = ("score", table, "--ladders", "demo/story", "--any-judge", "--out", tmp_path / "o.jsonl")
    done = command(*line, "--answers", "anchored")
    expected = (
        "judge check: as with --answers rating, because a rung cannot be an example for itself"
    )
    assert expected in done.err


def test_a_grade_is_on_the_human_scale_of_each_dimension():
    (row,) = scored(Rater(), "rating", made(dimensions=BOTH), rows_of(3.0))
    assert (row["clarity_grade"], row["tone_grade"]) == pytest.approx((3.0, 5.0))
    # 3 is half of 1 to 5, on each. It beats 2.5 of 5 rungs.
    assert (row["overall_score"], row["overall_grade"]) == pytest.approx((0.5, 0.5))
    (row,) = scored(
        Rater(), "rating", made(dimensions=BOTH), rows_of(3.5), weights={"tone": 3, "clarity": 1}
    )
    assert (row["overall_score"], row["overall_grade"]) == pytest.approx((0.625, 0.6))
    assert "|weights:clarity=1,tone=3|" in row["signature"]


def test_a_text_needs_no_ladder_and_no_context_of_a_shared_set():
    ladders = made(shared=False)
    rows = [{"context": "Another question?", "output": text_of(3.0, "t")}]
    (row,) = scored(Rater(), "rating", ladders, rows)
    assert row["clarity_grade"] == pytest.approx(3.0)
    (row,) = scored(Rater(), "anchored", made(), [{"output": text_of(3.0, "t")}])
    assert row["clarity_score"] == pytest.approx(3.0)


@pytest.mark.parametrize("answers", EVERY)
def test_a_run_resumes_and_its_judgments_give_the_same_rows(answers, tmp_path):
    out, kept, again = (tmp_path / name for name in ("out.jsonl", "kept.jsonl", "again.jsonl"))
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    ladders = made(dimensions=BOTH)
    judge = Rater()

    def score(answers=answers):
        scored(judge, answers, ladders, table, out=out, judgments=kept, store=False)
        return out.read_bytes()

    first = score()
    lines = kept.read_bytes().splitlines(keepends=True)
    rungs = 0 if answers.startswith("anchored") else 30
    assert len(lines) == 1 + rungs + 4
    judgments = [json.loads(line) for line in lines[1:]]
    assert {judgment["subject"] for judgment in judgments[rungs:]} == {"t0", "t1"}
    assert {judgment["against"] for judgment in judgments} == {None}
    settings = json.loads(tmp_path.joinpath("out.jsonl.run.json").read_text())
    readings = settings.get("rung_ratings", [])
    assert len(readings) == rungs
    for reading in readings:
        assert reading["rating"] == pytest.approx(reading["level"])
        assert reading.keys() == {"dimension", "anchor", "level", "rating"}
    refladder.rescore(kept, out=again)
    for column in ("clarity_score", "clarity_grade", "tone_grade", "overall_score", "signature"):
        assert [row[column] for row in read_lines(again)] == [
            row[column] for row in read_lines(out)
        ]
    # Cut within the last judgment.
    kept.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    out.unlink()
    asked = len(judge.prompts)
    assert score() == first
    assert kept.read_bytes() == b"".join(lines)
    # The judge check is asked again, as nothing remembers it here, and the text that is missing.
    assert len(judge.prompts) == asked + 12 + 1
    out.unlink()
    with pytest.raises(OtherRunError, match="these judgments are of another run"):
        score("stated")
    with pytest.raises(
        UsageError, match=f"answers {answers} scores by the expected rating, and rule"
    ):
        refladder.rescore(kept, out=again, rule="hard-votes")


@pytest.fixture(scope="module", params=["counted", "older"])
def rated(request, tmp_path_factory):
    """A judgments file: 3 anchors, 2 criteria and 5 levels give the ratings of rungs in lines 2 to 31."""
    folder = tmp_path_factory.mktemp("rated")
    table, kept = folder / "rows.jsonl", folder / "kept.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    out = folder / "out.jsonl"
    scored(Rater(), "rating:stated", made(dimensions=BOTH), table, out=out, judgments=kept)
    lines = kept.read_text().splitlines(keepends=True)
    if request.param == "older":
        assert ',"rated_rungs":30' in lines[0]
        lines[0] = lines[0].replace(',"rated_rungs":30', "")
    return lines


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:16] + lines[31:], ": 15 ratings of rungs, and the run made 30; take"),
        (lambda lines: [lines[0], *lines[31:]], ": 0 ratings of rungs, and the run made 30; take"),
        (
            lambda lines: [*lines[:3], *lines[4:]],
            ": 29 ratings of rungs, and the run made 30; take",
        ),
        (
            # line 3 is given twice, and line 4 is missing
            lambda lines: [*lines[:3], lines[2], *lines[4:]],
            ":4: no rating of 'rung:2@a' of context 'a' on 'clarity' is expected here; take",
        ),
        (
            lambda lines: [lines[0].replace("rating:stated", "anchored:stated"), *lines[1:]],
            ":1: asked with --answers anchored:stated, and the prompts are of the role 'rating-stated'; take",
        ),
        (
            lambda lines: [lines[0].replace('"rating:stated"', '"0"'), *lines[1:]],
            ":1: asked with --answers 0, and the prompts are of the role 'rating-stated'; take",
        ),
        (
            lambda lines: [*lines[:5], lines[5].replace("rung:5@a", "rung:6@a"), *lines[6:]],
            ":6: no rating of 'rung:6@a' of context 'a' on 'clarity' is expected here; take",
        ),
        (
            lambda lines: [*lines[:5], lines[5].replace('"2","3","4"', '"2","9","4"'), *lines[6:]],
            ":6: outcomes '1, 2, 9, 4, 5', and this file holds judgments between 1, 2, 3, 4, 5, in this order;",
        ),
        (
            lambda lines: [
                line.replace('"1","2","3","4","5"', '"5","4","3","2","1"') for line in lines
            ],
            ":2: outcomes '5, 4, 3, 2, 1', and this file holds judgments between 1, 2, 3, 4, 5, in this order;",
        ),
        (
            lambda lines: [*lines, lines[1].replace('"note":null', '"note":"other"')],
            ":36: the rating of rung 1@a differs from that at the start of",
        ),
    ],
)
def test_ratings_of_rungs_that_no_run_made_give_no_grades(rated, change, message, fails, tmp_path):
    kept = tmp_path / "kept.jsonl.judgments.jsonl"
    kept.write_text("".join(rated))
    refladder.rescore(kept)
    kept.write_text("".join(change(rated)))
    assert fails(2, f"rescore {kept}").startswith(f"refladder: {kept}{message}")


def test_ladders_of_contexts_are_counted_too(fails, tmp_path):
    kept = tmp_path / "kept.jsonl.judgments.jsonl"
    rows = [{"context_id": "a", "output": text_of(3.0, "t")}]
    scored(Rater(), "rating:stated", made(shared=False), rows, judgments=kept)
    lines = kept.read_text().splitlines(keepends=True)
    # Without the five rungs of the last of three ladders.
    kept.write_text("".join(lines[:11] + lines[16:]))
    message = f"refladder: {kept}: 10 ratings of rungs, and the run made 15; take the file as"
    assert fails(2, f"rescore {kept}").startswith(message)


@pytest.mark.parametrize("least", [0.3, 0.31])
def test_rescore_leaves_out_rungs_of_low_mass_as_score_does(tmp_path, least):
    class Doubtful(Rater):
        """Rates the rungs of one anchor 3, with little on labels."""

        def read_labels(self, prompts, labels):
            doubtful = [prompt.slots["target"].startswith("text a") for prompt in prompts]
            self.rated = lambda text: 3.0 if text.startswith("text a") else quality_of(text)
            read = super().read_labels(prompts, labels)
            return [
                replace(each, mass=0.3) if low else each
                for each, low in zip(read, doubtful, strict=True)
            ]

    kept, again = tmp_path / "kept.jsonl", tmp_path / "again.jsonl"
    how = {"any_judge": True, "store": False}
    scored(Doubtful(), "rating", judgments=kept, least_mass=0.0, **how)
    refladder.rescore(kept, out=again, least_mass=least)
    expected = scored(Doubtful(), "rating", least_mass=least, **how)
    assert [row["clarity_grade"] for row in read_lines(again)] == [
        row["clarity_grade"] for row in expected
    ]
    # Two of three anchors rate each rung by its level: 3.5 has the grade 3.4. With the third, which says 3, rungs are nearer.
    assert (expected[0]["clarity_grade"] == pytest.approx(3.4)) == (least == 0.31)


def test_a_judge_that_fails_keeps_what_it_answered(tmp_path):
    kept = tmp_path / "kept.jsonl"

    class Failing(Rater):
        def write_each(self, prompts, sampling):
            for number, completion in enumerate(self.write(prompts, sampling)):
                if self.fails and number == 14:
                    raise BackendError("the server is gone")
                yield number, completion

    judge = Failing()
    judge.fails = False
    how = {"judgments": kept, "any_judge": True, "store": False}
    ladders = made(("a",))
    expected = scored(judge, "rating:stated", ladders, rows_of(*[2.5] * 20))
    judge.fails = True
    with pytest.raises(BackendError, match="the server is gone"):
        scored(judge, "rating:stated", ladders, rows_of(*[2.5] * 20), **how)
    judge.fails, asked = False, len(judge.prompts)
    assert scored(judge, "rating:stated", ladders, rows_of(*[2.5] * 20), **how) == expected
    # 20 texts without the 14 that were kept after the 5 rungs, and the 2 of the check.
    assert len(judge.prompts) - asked == 20 - 14 + 2


def test_an_unparsed_rating_has_its_reason_and_the_other_criteria_a_score():
    def said(prompt):
        lines = "1: 0\n2: 0\n3: 50\n4: 50\n5: 0"
        of_row = "text t" in prompt.slots["target"]
        return f"clarity\nfour\n\ntone\n{lines}" if of_row else None

    (row,) = scored(Rater(said), "rating:together", made(dimensions=BOTH), rows_of(3.0))
    assert row["clarity_score"] is row["clarity_grade"] is row["overall_score"] is None
    assert row["clarity_note"].startswith(
        "1 of 1 judgment unparsed: no line with the name 'clarity'"
    )
    assert row["tone_score"] == pytest.approx(3.5)


@pytest.mark.parametrize("answers", ["rating:stated", "rating:together", "anchored:stated"])
def test_the_beginning_of_a_long_answer_is_read_once_and_the_row_says_so(answers, monkeypatch):
    read = []

    def counted(text, *rest, ended):
        read.append(len(text))
        return attempts(text, *rest, ended=ended)

    monkeypatch.setattr("refladder.scoring.modes.rating_answer.attempts", counted)
    lines = "clarity\n1: 0\n2: 0\n3: 50\n4: 50\n5: 0\n\n"
    short = scored(Rater(), answers, rows=rows_of(3.0))
    before = len(read)

    def said(prompt):
        of_row = prompt.slots["target"] in {text_of(3.0, "t0"), text_of(2.0, "t1")}
        return (lines + "word " * 30_000) if of_row else None

    # 29,990 words are behind the lines within 100,000 characters, and the last of them is cut.
    first, again = scored(Rater(said), answers, rows=rows_of(3.0, 2.0))
    assert short[0]["clarity_note"] is None
    assert first["clarity_score"] == again["clarity_score"] == pytest.approx(3.5)
    assert first["clarity_note"] == "only the first 100,000 characters of the answer were read"
    assert [length for length in read if length > 1_000] == [100_000] * 2
    assert len(read) == 2 * before + 1
    (row,) = scored(
        Rater(lambda prompt: said(prompt) and said(prompt)[len(lines) :]),
        answers,
        rows=rows_of(3.0),
    )
    assert row["clarity_score"] is None
    assert row["clarity_note"].endswith(
        "; only the first 100,000 characters of the answer were read"
    )


@pytest.mark.parametrize("answers", ["rating:stated", "rating:together", "anchored:stated"])
def test_a_number_at_the_end_of_what_is_read_may_be_cut_and_is_not_read(answers):
    """The first 100,000 characters end in "5: 95", which with the others is 100, and the answer says 95.5."""
    end = "\n\nclarity\n1: 0\n2: 0\n3: 5\n4: 0\n5: 95"
    long = ("word " * 20_000)[: 100_000 - len(end)] + end + ".5"
    said = {text_of(3.0, "t0"): long, text_of(2.0, "t1"): long[5:]}
    judge = Rater(lambda prompt: said.get(prompt.slots["target"]))
    cut, whole = scored(judge, answers, rows=rows_of(3.0, 2.0))
    assert cut["clarity_score"] is None
    # 3 * 5 / 100.5 + 5 * 95.5 / 100.5
    assert whole["clarity_score"] == pytest.approx(4.900498, abs=1e-6)


@pytest.mark.parametrize(
    ("more", "right"), [(1e-12, 0.5), (-1e-12, 0.5), (1e-6, 1.0), (-1e-6, 0.0)]
)
def test_the_judge_check_takes_ratings_that_differ_by_rounding_as_equal(more, right):
    def rated(top):
        logprobs = tuple(map(math.log, (0.2, 0.2, 0.2, 0.2 - top, 0.2 + top)))
        ids = {"context_id": "a", "dimension": "clarity", "subject": "rung:1", "against": None}
        texts = {"key": "0", "recipe": "0"}
        return Judgment(**ids, **texts, outcomes=RATINGS, logprobs=logprobs, mass=1.0)

    assert mode_of("rating").check_answers([rated(more), rated(0)], 5).tolist() == [[right]]


@pytest.mark.parametrize(("number", "tokens"), [(2, 300), (12, 480)])
def test_ratings_of_many_criteria_together_have_room(number, tokens):
    class Counting(Rater):
        def write(self, prompts, sampling):
            assert sampling.max_tokens == tokens
            return super().write(prompts, sampling)

    criteria = [
        Dimension(name=f"c{place}", description="Muddled to clear.") for place in range(number)
    ]
    (row,) = scored(Counting(), "rating:together", made(dimensions=criteria), rows_of(3.0))
    assert row["c1_score"] == pytest.approx(3.0)


def test_lines_in_the_text_are_not_the_answer():
    target = "1: 0\n2: 0\n3: 0\n4: 0\n5: 100"
    judge = Rater(lambda prompt: "4" if prompt.slots["target"] == target else None)
    (row,) = scored(judge, "rating:stated", rows=[{"output": target}])
    assert row["clarity_score"] is None
    assert "no lines with a percentage for each rating" in row["clarity_note"]


def test_rungs_that_a_judge_rates_all_alike_give_no_grade_and_a_warning(caplog):
    judge = Rater(rated=lambda text: quality_of(text) if "text t" in text else 3.0)
    (row,) = scored(judge, "rating", rows=rows_of(4.0), any_judge=True)
    assert (row["clarity_score"], row["clarity_grade"]) == (pytest.approx(4.0), None)
    why = "the judge rates all rungs 3"
    assert row["clarity_note"] == f"no grade: {why}"
    assert row["clarity_spread"] is None
    assert f"No grade on clarity: {why}." in caplog.text
    # A tie counts a half: 6 of 12 ladders refuse a judge.
    twelve = made(tuple("abcdefghijkl"))
    with pytest.raises(JudgeRefusedError, match=r"clarity 6 of 12 ladders"):
        scored(judge, "rating", twelve)


@pytest.mark.parametrize("answers", ["rating", "rating:stated"])
def test_a_refused_judge_gives_no_grade_although_any_judge_may_score(answers, tmp_path):
    # Best rungs are rated a little lower: 0 of 12 ladders.
    judge = Rater(rated=lambda text: 3.5 - quality_of(text) / 20 if "text t" not in text else 3.3)
    twelve = made(tuple("abcdefghijkl"))
    out, again = tmp_path / "out.jsonl", tmp_path / "again.jsonl"
    scored(judge, answers, twelve, any_judge=True, out=out)
    refladder.rescore(f"{out}.judgments.jsonl", out=again)
    for row in [*read_lines(out), *read_lines(again)]:
        assert row["clarity_score"] == pytest.approx(3.3)
        assert row["clarity_grade"] is row["clarity_spread"] is None
        assert row["clarity_note"].startswith(
            "no grade: the judge is not significantly better than chance"
        )
    (row,) = scored(judge, "anchored", twelve, rows_of(3.0), any_judge=True)
    assert row["clarity_grade"] is not None


def test_rungs_of_own_ladders_are_those_of_the_first_revision():
    first = made(shared=False)
    both = made(("a", "b", "c", "d"), shared=False)
    added = replace(both, earlier=(Revision(ladders=3, digest=first.digest),))
    asked = []
    for ladders in (first, added):
        judge = Rater()
        scored(judge, "rating", ladders)
        asked.append(sorted(text for text in judge.targets if text[5] != "t"))
    # 5 rungs of 3 ladders; the check of the later set takes the best and the worst of a fourth.
    assert len(asked[0]) == 15
    fourth = sorted(text for text in asked[1] if text[5] == "d")
    assert sorted(asked[0] + fourth) == asked[1]
    assert len(fourth) == 2


def test_a_set_without_texts_takes_the_contexts_of_the_rows_that_match_its_digests(caplog):
    caplog.set_level(logging.INFO, "refladder")
    whole = made(shared=False)
    bare = replace(whole, contexts={})

    def rows_with(*names, text="Question {}?"):
        rows = []
        for name in names:
            (row,) = rows_of(2.5, context=name)
            rows.append({**row, "output_id": name, "context": text.format(name)})
        return rows

    def score(rows, ladders=bare):
        caplog.clear()
        scores = scored(Rater(), "rating", ladders, rows)
        return scores, "\n".join(caplog.messages)

    rows, said = score(rows_with("a", "b", "c"))
    assert "clarity 3 of 3 ladders" in said
    # The rungs are rated 1 to 5, so 2 of 5 are below.
    assert [row["clarity_grade"] for row in rows] == pytest.approx([2.6] * 3)
    assert rows == score(rows_with("a", "b", "c"), whole)[0]
    # Without the texts of c, grades are by the rungs of a and b, which is another scale.
    two, said = score(rows_with("b", "a"))
    assert "clarity 2 of 2 ladders" in said
    assert re.search(r"\|rungs:[0-9a-f]{12}\|", two[0]["signature"])
    assert "|rungs:" not in rows[0]["signature"]
    assert not same_scale(two[0]["signature"], rows[0]["signature"], "clarity_grade")
    assert two[0]["signature"] == score(rows_with("a", "b", "a")[:2])[0][0]["signature"]
    # Another text is not the one that the ladders were written for.
    _, said = score(rows_with("a", text="Another {}?"))
    assert "not checked, as no text of a context of the set is known before the first row" in said


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "hard-votes"}, "answers rating:stated scores by the expected rating, and rule hard-votes is for"),
        ({"yes_no": True}, "answers rating:stated asks no yes/no questions; leave out yes_no"),
        ({"both_orders": True}, "answers rating:stated shows one text to rate, so pairs have no orders; leave out"),
    ],
)  # fmt: skip
def test_settings_of_comparisons_are_refused(settings, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        scored(Rater(), "rating:stated", **settings)


def test_criteria_whose_columns_differ_in_case_only_are_refused_before_a_judge_is_asked():
    judge = Rater()
    ladders = made(dimensions=[replace(TONE, name="on topic"), replace(TONE, name="On_topic")])
    message = "dimension 'On_topic' would share the column 'On_topic_note' with another; score them"
    with pytest.raises(UsageError, match=message):
        scored(judge, "rating", ladders)
    with pytest.raises(UsageError, match=message):
        refladder.Scorer(ladders=ladders, judge=judge, answers="rating")
    assert not judge.prompts


def test_a_judge_without_label_probabilities_is_told_the_way_on():
    class Sampling(Rater):
        reads_probabilities = False

    for answers in ("rating", "anchored"):
        message = f"rater gives no label probabilities, which answers {answers} reads; use answers {answers}:stated,"
        with pytest.raises(UsageError, match=message):
            scored(Sampling(), answers)


def test_a_function_that_compares_texts_is_told_to_leave_ratings_out():
    def judge(questions):
        return [{"win": 1.0, "loss": 0.0, "tie": 0.0} for _ in questions]

    for answers in ("rating", "anchored"):
        message = (
            f"judge is a function that compares two texts, and '{answers}' asks for something else; "
            r"leave out yes_no, ratings \(answers\)"
        )
        with pytest.raises(UsageError, match=message):
            scored(judge, answers)
    message = "writes no answers, and answers rating:stated asks for them; leave it out"
    with pytest.raises(UsageError, match=message):
        scored(judge, "rating:stated")


@pytest.mark.parametrize("answers", EVERY)
def test_the_reward_of_a_rating_is_its_grade_or_the_overall_grade(answers):
    """The function of the TRL adapter needs no TRL; those of Inspect and datatrove share its `single_scores`."""
    completions = [text_of(3.5, "t"), [{"role": "assistant", "content": text_of(2, "u")}], None]
    rewarded = reward(ladders=made(), judge=Rater(), answers=answers)
    # 3.5 beats 3 of 5 rungs, and 2 beats 1.5.
    assert rewarded(completions=completions) == [pytest.approx(3.4), pytest.approx(2.2), None]
    rewarded = reward(ladders=made(dimensions=BOTH), judge=Rater(), answers=answers)
    assert rewarded(completions=completions) == [pytest.approx(0.6), pytest.approx(0.3), None]


def test_the_rungs_of_the_first_anchors_give_the_grades():
    ladders = made(dimensions=BOTH)
    judge = Rater()
    (row,) = scored(judge, "rating", ladders, rows_of(3.0), anchors=2)
    # The rungs: 5 of 2 anchors on 2 dimensions. The check also takes the best and the worst of the third.
    assert len(judge.prompts) == 20 + 4 + 2
    assert "ladders:made@" in row["signature"]
    assert "|anchors:a,b|" in row["signature"]
    with pytest.raises(
        UsageError, match="made: anchors is for shared sets, and each context has a"
    ):
        scored(judge, "rating", made(shared=False), anchors=1)
    with pytest.raises(UsageError, match="anchors 4: made has 3 anchors; give 1 to 3"):
        scored(judge, "rating", anchors=4)


RATED = [
    {"context": f"Question {name}?", "output": text_of(quality, f"t{name}"), "clarity": quality}
    for name in "xyz"
    for quality in (1, 3, 5)
]


@pytest.mark.parametrize(("answers", "times"), [(0, 5 * len(RATED)), ("rating", 3)])
def test_the_first_anchors_score_in_an_evaluation_too(answers, times):
    class Judge(Rater):
        def read_labels(self, prompts, labels):
            if len(labels) == 5:
                return super().read_labels(prompts, labels)
            self.prompts += prompts
            return [LabelReading(logprobs=(0.0, IMPOSSIBLE, IMPOSSIBLE), mass=1.0) for _ in prompts]

    asked = {}
    for anchors in (1, 3):
        judge = Judge()
        settings = MethodSettings(answers=answers, anchors=anchors)
        refladder.evaluate(RATED, ladders=made(), judge=judge, settings=settings)
        asked[anchors] = len(judge.prompts)
    # The 5 rungs of 2 more anchors against each text; of ratings, the check has the best and the worst of all anchors.
    assert asked[3] - asked[1] == 2 * times


@pytest.mark.parametrize("answers", ["rating", "rating:stated"])
def test_an_evaluation_counts_the_ratings_of_rungs_as_judgments(answers):
    settings = MethodSettings(answers=answers)
    (run,) = refladder.evaluate(RATED, ladders=made(), judge=Rater(), settings=settings).runs
    # 15 rungs, and the texts.
    assert run.calls == run.result.judgments == 15 + len(RATED)


def test_anchors_of_an_evaluation_need_a_set():
    message = "^--anchors is for method 'ladder' with a shared set; name the set with ladders SET"
    with pytest.raises(UsageError, match=message):
        refladder.evaluate(
            "demo/story",
            ladders="demo/story",
            methods=["win-ratio"],
            settings=MethodSettings(anchors=1),
        )


TASK = """task = "open"
[[dimensions]]
name = "clarity"
description = "Muddled to clear."
"""


def test_criteria_without_rungs_have_scores_and_no_grades(tmp_path, caplog):
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    caplog.set_level("INFO", "refladder")
    judge = Rater()
    (row,) = scored(judge, "rating:stated", path, [{"output": text_of(2.5, "t")}])
    assert len(judge.prompts) == 1
    assert (row["clarity_score"], row["clarity_grade"]) == (pytest.approx(2.5), None)
    assert row["clarity_note"] is None
    assert row["signature"].startswith("ladders:criteria:task.toml@")
    assert (
        "task.toml has criteria and no ladders, so there is no judge check and no grade"
        in caplog.text
    )
    for answers in ("0", "stated", "anchored"):
        with pytest.raises(
            UsageError,
            match=rf"task.toml has criteria and no ladders, which answers {answers}(:1)? needs",
        ):
            scored(judge, answers, path)


def test_recorded_percentages_have_the_mean_of_their_percentages(tmp_path):
    path = tmp_path / "percent.jsonl"
    percent = {"t0": [1, 7, 24, 42, 26], "t1": [60.0, 30.0, 10.0, 0.0, 0.0]}
    rows = [
        {"context_id": "a", "dimension": "clarity", "output": name, "percent": numbers}
        for name, numbers in percent.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = refladder.score(ROWS, ladders=made(), judgments_from=path)
    # .01 + .14 + .72 + 1.68 + 1.3, and .6 + .6 + .3
    assert [row["clarity_score"] for row in found] == pytest.approx([3.85, 1.5])
    assert found[0]["clarity_grade"] is None
    assert found[0]["clarity_note"].startswith(
        "no grade: the judge's ratings of the rungs are missing"
    )
    assert "|answers:rating:stated|" in found[0]["signature"]
    # With ratings of the rungs, there are grades.
    of_rungs = [
        {"context_id": "", "dimension": "clarity", "rung": level, "anchor": name,
         "percent": shares_of(level)}
        for name in "abc"
        for level in range(1, 6)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *of_rungs]))
    found = refladder.score(ROWS, ladders=made(), judgments_from=path)
    # 3.85 is level 3.85, so 3.35 of 5 rungs.
    assert found[0]["clarity_grade"] == pytest.approx(1 + 4 * 3.35 / 5)
    # Rungs without a rating in the file are no unparsed judgments.
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *of_rungs[:5]]))
    kept = tmp_path / "kept.jsonl"
    again = refladder.score(ROWS, ladders=made(), judgments_from=path, judgments=kept)
    assert again[0]["clarity_note"] == (
        "no grade: 1 of 3 rungs of level 1 have a rating, and a grade needs half of them"
    )
    assert len(kept.read_text().splitlines()) == 1 + 5 + 2


@pytest.mark.parametrize(
    ("percent", "message"),
    [
        ([1, 2, 3], r":1: percent \[1, 2, 3\]; it must be a list of 5 numbers of 0 or more"),
        ([1, 2, 3, 4, "90"], ":1: percent .*; it must be a list of 5 numbers of 0 or more"),
        ([-1, 1, 0, 0, 100], ":1: percent .*; it must be a list of 5 numbers of 0 or more"),
        (
            [1, 2, 3, 4, 5],
            ":1: the numbers of percent add to 15, and percentages add to 100; correct",
        ),
        ("4", ":1: percent '4'; it must be a list of 5 numbers of 0 or more"),
    ],
)
def test_recorded_percentages_that_cannot_be(percent, message, tmp_path):
    path = tmp_path / "percent.jsonl"
    row = {"context_id": "a", "dimension": "clarity", "output": "t0", "percent": percent}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=message):
        refladder.score(ROWS, ladders=made(), judgments_from=path)


@pytest.mark.parametrize("answers", EVERY)
def test_a_certificate_orders_rungs_by_their_ratings(answers):
    # Rungs 3 and 4 have one rating, and 5 is below 4.
    judge = Rater()
    certificate = refladder.certify(
        made(tuple("abcdefghijkl"), qualities=(1, 2, 3, 3, 2.5)), judge=judge, answers=answers
    )
    (dimension,) = certificate["dimensions"]
    assert [step["w"] for step in dimension["steps"]] == [1.0, 1.0, 0.5, 0.0]
    # Each rung once.
    assert len(judge.prompts) == 12 * 5


def test_a_scorer_rates_the_rungs_once():
    judge = Rater()
    with refladder.Scorer(ladders=made(), judge=judge, answers="rating:stated") as scorer:
        assert not scorer.needs_contexts
        signature = scorer.signature
        assert "|place:beaten|" in signature
        for quality in (3.0, 4.0):
            (score,) = scorer.score([text_of(quality, "t")])
            assert (score.value, score.grade) == pytest.approx(
                (quality, 1 + 4 * (quality - 0.5) / 5)
            )
            assert score.signature == signature
        assert scorer._scorer.report.reused == 0
    # 3 anchors of 5 rungs, of which the check takes the best and the worst, and 2 texts.
    assert len(judge.prompts) == 15 + 2


# The rungs: 5 of 12 ladders on 2 dimensions, of which the check takes the best and the worst; examples are no ratings, so
# only the check asks about 2 of them. 2 texts on 2 dimensions.
@pytest.mark.parametrize(("answers", "calls"), [("rating", 120 + 4), ("anchored", 48 + 4)])
def test_a_dry_run_counts_the_prompts(answers, calls, command, write_jsonl):
    table = write_jsonl(
        [{"context_id": "story-04", "output": text} for text in ("Ember sneezed.", "It rained.")]
    )
    line = ("score", table, "--ladders", "demo/story", "--answers", answers, "--any-judge")
    assert f": {calls} calls, " in command(*line, "--dry-run").out
