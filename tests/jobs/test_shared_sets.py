"""Shared sets: every text is compared with the ladders of all anchors, each text shown with its own context."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from doubles import Double, items_of
from json_lines import read_lines

from refladder.errors import DataError, UsageError
from refladder.events import Silent
from refladder.files.ladder_sets import ladder_set, load_ladders, write_ladder_set
from refladder.jobs.score import run
from refladder.ladders import build
from refladder.ladders.build import draw_anchors
from refladder.ladders.certificate_tables import certificate_tables, sharing_lines
from refladder.ladders.certify import certify, open_asker
from refladder.records import (
    IMPOSSIBLE,
    Completion,
    Context,
    Dimension,
    LabelReading,
    Ladder,
    Output,
    Recipe,
    Rung,
    Sampling,
    Shared,
)
from refladder.scoring.columns import added_columns
from refladder.scoring.judgment_file import JudgmentLog
from refladder.scoring.scorer import LadderScorer
from refladder.session import Session
from refladder.settings import BuildSpec, ScoreSpec, Scoring, Tables
from refladder.statistics import certificate as trust
from refladder.synth import name_subjects

WORTH = Dimension(name="worth", description="What a text is worth.")
RECIPE = Recipe(backend="by hand", prompts=(), sampling=None, version="1")
CERTAIN = {
    "win": (0.0, IMPOSSIBLE, IMPOSSIBLE),
    "loss": (IMPOSSIBLE, 0.0, IMPOSSIBLE),
    "tie": (IMPOSSIBLE, IMPOSSIBLE, 0.0),
}


def test_a_set_that_a_newer_one_replaces_says_so_and_scores(command, write_jsonl, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(Path(__file__).parents[2] / "bench/readings/three-anchors/reply", old)
    with_note = (old / "set.json").read_bytes()
    settings = json.loads(with_note)
    del settings["replaced_by"]
    (old / "set.json").write_text(json.dumps(settings), "utf-8")
    before = load_ladders(old).signature
    rows = write_jsonl(
        [{"output": "Please restart the router, and write again if it is still slow."}]
    )
    note = "is replaced by general/reply; its scores stay as they are"
    line = f"score {rows} --ladders {old} --any-judge"
    assert note not in command(line).err
    (old / "set.json").write_bytes(with_note)
    assert load_ladders(old).signature == before
    assert command(line).err.count(f"{old.name} {note}") == 1


class Numbers(Double):
    """Texts are numbers, and the larger one wins for certain; a text `?` cannot be compared. Keeps its prompts."""

    fingerprint = "numbers/1"

    def __init__(self):
        self.prompts = []

    def read_labels(self, prompts, _labels):
        self.prompts += prompts
        return [self._read(prompt.slots["target"], prompt.slots["reference"]) for prompt in prompts]

    def _read(self, target, reference):
        if "?" in {target, reference}:
            return LabelReading(logprobs=None, mass=None, reason="no answer")
        ahead = float(target) - float(reference)
        outcome = "win" if ahead > 0 else "loss" if ahead else "tie"
        return LabelReading(logprobs=CERTAIN[outcome], mass=1.0)


def shared(ladders):
    """A shared set with a ladder for each anchor: {anchor: the texts of its rungs}."""
    contexts = [
        Context(id=anchor, task="dialogue", text=f"Talk {anchor}.", background=f"Facts {anchor}.")
        for anchor in ladders
    ]
    made = [
        Ladder(
            context_id=anchor, task="dialogue", dimension="worth", recipe=RECIPE,
            rungs=tuple(Rung(level=level, text=text) for level, text in enumerate(texts, start=1)),
        )
        for anchor, texts in ladders.items()
    ]  # fmt: skip
    return ladder_set("shared", [WORTH], contexts, made, anchors=list(ladders))


TWO = {"a": ("10", "20"), "b": ("1", "2")}


@pytest.fixture
def scored_rows(write_jsonl, tmp_path):
    """The scored rows of a table, with the notices of the run; the judge is asked about the rows alone."""

    class Told(Silent):
        def notice(self, text, *, warns=False, once=False):
            del warns, once
            notices.append(text)

    notices = []

    def go(ladders, rows, judge):
        notices.clear()
        out = tmp_path / "out.jsonl"
        tables = Tables(source=str(write_jsonl(rows)), out=str(out))
        asked = Scoring(ladders=ladders)
        spec = ScoreSpec(asked=asked, tables=tables, judge=judge, is_part=True)
        run(spec, Session(store=False), Told())
        return read_lines(out), list(notices)

    return go


def scored(ladders, texts=("15",), *, judge=None, contexts=(), **how):
    scorer = LadderScorer(judge or Numbers(), ladders, Scoring(**how))
    outputs = [
        Output(id=f"o{number}", context_id="", system="", text=text)
        for number, text in enumerate(texts)
    ]
    with JudgmentLog(None, scorer.run) as log:
        return [row[0] for row in scorer.score(items_of(outputs, None, contexts), log)], scorer


def test_a_score_is_the_mean_over_the_anchors_with_its_standard_deviation():
    # 15 beats 10 and loses to 20 of anchor a: 1 - 2 = -1. It beats 1 and 2 of anchor b: 1 + 2 = 3. The mean is 1, and
    # the standard deviation of (-1, 3) with n - 1 is sqrt((2^2 + 2^2) / 1) = 2 sqrt 2. 3 of 4 rungs: 1 + 4 * 3/4 = 4.
    (score,), scorer = scored(shared(TWO))
    assert (score.value, score.grade, score.spread) == (1.0, 4.0, 0.0)
    assert score.anchor_spread == pytest.approx(2 * math.sqrt(2))
    assert "dialogue/compare-shared@" in score.signature
    # Of the top rungs 20 and 2, the text beats one of two: the mean probability is 1/2, which is not more than that.
    assert (scorer.report.above_top, scorer.report.judged_top) == ({"worth": 0}, {"worth": 1})
    # With both orders, each swapped: the same verdicts.
    (both,), _ = scored(shared(TWO), both_orders=True)
    assert (both.value, both.grade, both.anchor_spread) == (1.0, 4.0, score.anchor_spread)


def test_one_anchor_has_no_spread_over_anchors():
    (score,), _ = scored(shared({"a": ("10", "20")}))
    assert (score.value, score.anchor_spread) == (-1.0, None)


def test_a_rung_that_cannot_be_judged_leaves_no_number():
    (score,), scorer = scored(shared({"a": ("10", "20"), "b": ("?", "2")}))
    assert (score.value, score.grade, score.anchor_spread) == (None, None, None)
    assert score.reason == "1 of 4 judgments unparsed: no answer"
    assert scorer.report.unscored == {"worth": 1}


def test_the_prompt_holds_both_contexts_the_rows_first():
    judge, ladders = Numbers(), shared(TWO)
    row = Context(id="", task="", text="My own talk.", background="My facts.")
    scored(ladders, ["15", "16"], judge=judge, contexts=[row, None])
    texts = [prompt.text for prompt in judge.prompts]
    prompt = texts[3]  # the row against the upper rung of b
    shown = ["My own talk.", "My facts.", "15", "Talk b.", "Facts b.", "\n2\n"]
    places = [prompt.index(text) for text in shown]
    assert places == sorted(places)
    assert "judge each by its own conversation" in prompt
    empty = "Conversation of the target response (empty if there is none):\n\n\n"
    assert empty in texts[4]
    # what a judge reads once for all rungs of a row
    assert len({text.partition("Conversation of the reference")[0] for text in texts[:4]}) == 1
    judge.prompts.clear()
    scored(ladders, judge=judge, contexts=[row], both_orders=True)
    swapped = judge.prompts[1].text  # the lowest rung of a against the row
    places = [swapped.index(text) for text in ("Talk a.", "\n10\n", "My own talk.", "\n15\n")]
    assert places == sorted(places)


def test_a_row_with_the_context_of_an_anchor_is_compared_with_all_anchors(scored_rows):
    judge = Numbers()
    contexts = ({"context_id": "a"}, {"context": "Other."}, {})
    rows, notices = scored_rows(shared(TWO), [{"output": "15", **each} for each in contexts], judge)
    alone = "rows: these are judged by their text alone; --column context=NAME names the column of the contexts"
    assert notices == [f"no context in 1 of 3 {alone}"]
    assert [row["worth_score"] for row in rows] == [1.0] * 3
    assert [row["worth_anchor_spread"] for row in rows] == [pytest.approx(2 * math.sqrt(2))] * 3
    # The questions of equal contexts are next to each other: none, the digest of "Other.", and "a".
    found = [judge.prompts[place].slots["context"] for place in (0, 4, 8)]
    assert found == ["", "Other.", "Talk a."]
    # A file among several.
    assert scored_rows(shared(TWO), [{"output": "15"}], judge)[1] == []


def test_a_forgotten_column_of_contexts_is_named_but_documents_need_none(command, write_jsonl):
    table = write_jsonl([{"output": "A text."}] * 2)
    line = f"score {table} --any-judge --ladders general"
    notice = "no context in 2 of 2 rows: these are judged by their text alone; --column context=NAME names"
    assert notice in command(f"{line}/reply --dimension clarity").err
    assert "no context" not in command(f"{line}/document --dimension neutrality").err


RUSSIAN = "Перезапустите маршрутизатор и напишите снова."


@pytest.mark.parametrize(
    ("texts", "warned"),
    [
        # Two of three, and then one of two, which is not most; digits have no letters.
        ((RUSSIAN, RUSSIAN, "Restart it."), "2 of 3 rows are in Cyrillic letters"),
        ((RUSSIAN, "Restart it.", "42"), None),
        (("重新启动路由器。", RUSSIAN, RUSSIAN), "3 of 3 rows are in Cyrillic letters"),
        (("Bitte neu starten.",), None),
    ],
)
def test_most_rows_in_other_letters_than_the_language_of_the_set_are_one_warning(
    command, write_jsonl, texts, warned
):
    table = write_jsonl([{"output": text, "context": "My router is slow."} for text in texts])
    line = f"score {table} --any-judge --ladders general/reply --dimension clarity"
    step = (
        ", and general/reply is in Latin letters (language: en), so comparisons with its texts may mean little; build a "
        "set with contexts in the language of the rows: `refladder build TABLE --task-file TASK.toml --shared 12`"
    )
    found = command(line).err
    assert found.count("letters") == 2 * bool(warned)
    assert (f"{warned}{step}" in found) == bool(warned)


def test_a_set_of_an_unknown_language_warns_of_no_letters(command, write_jsonl, tmp_path):
    table = write_jsonl([{"output": RUSSIAN, "context": "My router is slow."}])
    folder = tmp_path / "set"
    shutil.copytree(Path(__file__).parents[2] / "published_data/general/reply", folder)
    line = f"score {table} --any-judge --ladders {folder} --dimension clarity"
    assert "Cyrillic" in command(line).err
    for language in ("tlh", "ru", None):
        settings = json.loads((folder / "set.json").read_bytes()) | {"language": language}
        (folder / "set.json").write_text(json.dumps(settings) + "\n", "utf-8")
        assert "letters" not in command(line).err


def test_rows_without_passages_are_counted_where_every_anchor_has_a_background(
    command, write_jsonl
):
    rows = [
        {"output": "Yes [1].", "context": "May I swim?", "passages": "[1] You may."},
        {"output": "No.", "context": "May I fish?", "passages": ""},
        {"output": "Perhaps."},
    ]
    line = f"score {write_jsonl(rows)} --any-judge --dimension completeness --ladders general"
    notice = (
        "no background in {} of 3 rows, and every context of general/grounded has one, such as the passages of an answer; "
        "--column background=NAME names the column"
    )
    assert notice.format(3) in command(f"{line}/grounded").err
    assert notice.format(2) in command(f"{line}/grounded --column background=passages").err
    # Anchors without a background, and documents, whose background is a number of words.
    others = command(f"{line}/summary".replace("completeness", "fluency")).err
    others += command(f"{line}/document".replace("completeness", "neutrality")).err
    assert "no background" not in others


def test_a_set_of_single_contexts_shows_its_own_background_and_not_that_of_the_row(scored_rows):
    opened, judge = shared({"a": ("10", "20")}), Numbers()
    contexts, ladders = opened.contexts.values(), opened.ladders.values()
    alone = ladder_set("alone", [WORTH], list(contexts), list(ladders))
    scored_rows(alone, [{"output": "15", "context_id": "a", "context": "Talk a."}], judge)
    assert {prompt.slots["background"] for prompt in judge.prompts} == {"Facts a."}


def test_yes_no_questions_show_one_context():
    refused = r"^shared: the set is shared, and yes/no questions show one context"
    with pytest.raises(UsageError, match=refused):
        scored(shared({"a": ("1", "2")}), yes_no=True)


def test_a_shared_set_needs_every_ladder_and_context_of_its_anchors():
    opened = shared({"a": ("1", "2"), "b": ("1", "2")})
    ladders, contexts = list(opened.ladders.values()), list(opened.contexts.values())
    for texts, has, anchors, message in (
        (contexts, ladders[:1], "ab", "'b' has no worth ladder; a shared set has the ladders of its anchors"),
        (contexts, ladders, "a", "'b' is not an anchor, and has a worth ladder"),
        ([], ladders, "ab", "no text of anchor 'a', which the judge has to see beside its rungs"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=f"^x: {message}"):
            ladder_set("x", [WORTH], texts, has, anchors=list(anchors))


def test_set_json_says_shared_and_a_set_without_it_is_not(tmp_path):
    opened, path = shared(TWO), tmp_path / "set.json"
    records = [WORTH], list(opened.contexts.values()), list(opened.ladders.values()), []
    write_ladder_set(tmp_path, *records, shared=Shared(anchors=("a", "b"), seed=7))
    written = {"schema": "ladder-set/1", "anchors": ["a", "b"], "seed": 7, "shared": True}
    assert json.loads(path.read_text()) == written | {"serves": []}
    assert load_ladders(tmp_path).anchors == ("a", "b")
    write_ladder_set(tmp_path, *records)
    assert load_ladders(tmp_path).anchors == ()
    assert not path.exists()


def test_a_set_that_is_not_shared_may_say_its_licence_and_language(tmp_path, command):
    opened, path = shared(TWO), tmp_path / "set.json"
    records = [WORTH], list(opened.contexts.values()), list(opened.ladders.values()), []
    write_ladder_set(tmp_path, *records)
    before = load_ladders(tmp_path)
    says = {
        "schema": "ladder-set/1",
        "anchors": [],
        "seed": 0,
        "shared": False,
        "licence": "CC0-1.0",
        "language": "en",
    }
    path.write_text(json.dumps(says), "utf-8")
    again = load_ladders(tmp_path)
    assert again == replace(before, language="en")
    assert again.scale == before.scale
    # It is published as a set without these keys is.
    for name in ("with", "without"):
        done = command(f"publish {tmp_path} me/mine --without-contexts --out {tmp_path / name}")
        assert done.code == 0, done.err
        path.unlink(missing_ok=True)
    manifests = [(tmp_path / name / "manifest.json").read_bytes() for name in ("with", "without")]
    assert manifests[0] == manifests[1]
    path.write_text(json.dumps(says | {"anchors": ["a"]}), "utf-8")
    with pytest.raises(DataError, match="a set that is not shared has no anchors"):
        load_ladders(tmp_path)


def test_a_dimension_whose_spread_is_anothers_spread_over_anchors_is_refused():
    named = [Dimension(name=name, description="") for name in ("worth", "worth anchor")]
    assert len(added_columns(named)) == 13
    clash = r"^dimension 'worth anchor' would share the column 'worth_anchor_spread' with"
    with pytest.raises(UsageError, match=clash):
        added_columns(named, shared=True)


def seeds(count):
    """Documents of 30, 31, ... words."""
    return [
        Context(id=f"s{number}", task="document", text="", references=(" ".join([f"word{number}"] * (30 + number)),))
        for number in range(count)
    ]  # fmt: skip


def test_anchors_are_drawn_by_the_seed_whatever_the_order():
    def drawn(documents, seed):
        return [context.id for context in draw_anchors(documents, 4, Sampling(seed=seed))]

    assert drawn(seeds(20), 3) == drawn(seeds(20)[::-1], 3) != drawn(seeds(20), 4)
    assert len(set(drawn(seeds(20), 3))) == 4
    # A seed of 35 words, and at most half of 512 and of 40 tokens.
    for sampling, words in ((Sampling(), "35 words"), (Sampling(max_tokens=40), "20 words")):
        (anchor,) = draw_anchors(seeds(6)[5:], 1, sampling)
        assert anchor.background == words
    few = r"^--shared 5 needs 5 seeds, and the table has 4; add rows, or ask for fewer"
    with pytest.raises(UsageError, match=few):
        draw_anchors(seeds(4), 5, Sampling())


class Writer(Double):
    """Names a subject by the first word of a document, and writes the subject and the role; `refused` subjects fail."""

    fingerprint = "writer/1"

    def __init__(self, refused=(), fails=None):
        self.refused, self.roles, self.fails = refused, [], fails

    def write(self, prompts, _sampling):
        return [Completion(text=self._text(prompt)) for prompt in prompts]

    def _text(self, prompt):
        self.roles.append(prompt.role)
        if prompt.role == self.fails:
            raise KeyboardInterrupt
        if prompt.role == "subject":
            return prompt.slots["target"].split()[0]
        subject = prompt.slots["context"]
        if subject in self.refused and prompt.role == "between":
            return ""
        return f"{subject} {prompt.role} {prompt.slots['background']} {len(self.roles)}"


def built(folder, writer, count=3, dimensions=(WORTH,), **how):
    sampling = Sampling(seed=3)
    spec = BuildSpec(
        contexts=draw_anchors(seeds(count), count, sampling), dimensions=dimensions, folder=folder, writer=writer,
        rungs=3, sampling=sampling, attempts=2, shared=True, **how,
    )  # fmt: skip
    return build.run(spec, Session(store=False), Silent())


def test_a_document_anchor_is_a_named_subject_and_a_limit_of_words(tmp_path):
    writer, again = Writer(), Writer()
    report = built(tmp_path, writer)
    assert writer.roles == ["subject"] * 3 + ["worst", "best"] * 3 + ["between"] * 3
    opened = load_ladders(tmp_path)
    assert opened.anchors == report.anchors
    found = {(each.text, each.background, each.references) for each in opened.contexts.values()}
    assert found == {(f"word{number}", f"{30 + number} words", ()) for number in range(3)}
    for ladder in opened.ladders.values():
        assert ladder.rungs[1].text.startswith(opened.contexts[ladder.context_id].text)
    # An interrupted build names no subject again, and asks for nothing that it has.
    built(tmp_path, again)
    assert again.roles == []


def test_an_interrupted_build_goes_on_with_the_subjects_that_were_named(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        built(tmp_path, Writer(fails="worst"), 2)
    again = Writer()
    built(tmp_path, again, 2)
    assert "subject" not in again.roles


def test_an_interrupted_build_does_not_go_on_with_the_subjects_of_other_texts(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        built(tmp_path, Writer(fails="worst"), 2)
    changed = [
        replace(seed, references=(seed.references[0].replace("word", "other", 1),))
        for seed in draw_anchors(seeds(2), 2, Sampling(seed=3))
    ]
    with pytest.raises(DataError, match=r"begun by another build \(other contexts\)"):
        name_subjects(
            Writer(), changed, sampling=Sampling(seed=3), attempts=2,
            journal=tmp_path / "subjects.journal.jsonl",
        )  # fmt: skip


def test_an_anchor_whose_rung_failed_is_left_out_and_named(tmp_path):
    report = built(tmp_path, Writer(refused={"word1"}))
    assert set(report.anchors) == {"s0", "s2"}
    assert [(failure.context_id, failure.level) for failure in report.failures] == [("s1", 2)]
    assert load_ladders(tmp_path).anchors == report.anchors


class Ranks(Writer):
    """Writes 1, 5 and 9 for worst, between and best, and the reverse for the wit of the subject word1."""

    fingerprint = "ranks/1"

    def _text(self, prompt):
        if prompt.role == "subject":
            return super()._text(prompt)
        ranks = {"worst": "1", "between": "5", "best": "9"}
        falls = (prompt.slots["context"], prompt.slots["dimension"]) == ("word1", "wit")
        rank = ranks[prompt.role]
        return {"1": "9", "9": "1"}.get(rank, rank) if falls else rank


def test_an_anchor_that_the_judge_finds_out_of_order_is_left_out_on_every_dimension(tmp_path):
    wit = Dimension(name="wit", description="How witty it is.")
    how = {"dimensions": [WORTH, wit], "certify": True, "judge": Numbers()}
    report = built(tmp_path, Ranks(), **how)
    assert set(report.anchors) == {"s0", "s2"}
    failed = [(failure.context_id, failure.dimension) for failure in report.failures]
    assert failed == [("s1", "wit")]
    opened = load_ladders(tmp_path)
    assert set(opened.ladders) == {(a, name) for a in ("s0", "s2") for name in ("worth", "wit")}
    # One pair of anchors with 2 steps in both directions, on 2 dimensions; the certificate is of the set as written.
    assert opened.certificate.sharing.of == 8
    assert opened.certificate.sharing.low is None


RISING = {"a": ("10", "20", "30"), "b": ("11", "21", "31"), "c": ("12", "22", "32")}


@pytest.mark.parametrize(
    ("ladders", "in_order", "verdict"),
    [
        # Level 2 of each anchor (20, 21, 22) beats level 1 of both others (10, 11, 12), and level 3 level 2: 6 pairs of
        # anchors, 2 steps each, all in order.
        (RISING, 12, "pass"),
        # a over b: 20 > 1, 30 > 2 (2 of 2), b over a: 2 < 10, 3 < 20 (0 of 2); likewise for the other pairs: 6 of 12.
        ({"a": ("10", "20", "30"), "b": ("1", "2", "3"), "c": ("100", "200", "300")}, 6, "refuse"),
        # Falling ladders: 1 of a against 2 of b and so on, all below: none of 12.
        ({anchor: texts[::-1] for anchor, texts in RISING.items()}, 0, "refuse"),
        # Level 2 of each equals level 1 of the others, which is not better; 30 > 20.
        (dict.fromkeys("abc", ("20", "20", "30")), 6, "refuse"),
        # As the first, with 20 above 30 in a: its level 3 is below level 2 of b and of c: 10 of 12 is over .8.
        ({**RISING, "a": ("10", "30", "20")}, 10, "pass"),
    ],
)
def test_certificate_across_anchors_by_hand(ladders, in_order, verdict):
    opened = shared(ladders)
    certificate = certify(opened, open_asker(opened, Numbers()))
    sharing = certificate.sharing
    assert (sharing.in_order, sharing.of, sharing.verdict) == (in_order, 12, verdict)
    assert sharing.share == pytest.approx(in_order / 12, abs=1e-6)  # six digits are kept
    assert sharing.low <= sharing.share <= sharing.high
    assert (verdict == "refuse") == (sharing.share < 0.8)
    # 3 ladders of 3 pairs, and 6 pairs of anchors with 2 steps, each in both orders.
    assert certificate.counts.judgments == 3 * 3 * 2 + 6 * 2 * 2
    # each comparison has two anchors
    assert sum(row.of for row in sharing.anchors) == 2 * sharing.of


@pytest.mark.parametrize(
    ("of_a", "verdict", "levels"),
    [
        (("10", "20", "30"), "pass", ["pass", "pass", "pass"]),
        # Step 2 is in order for two of three anchors: on the mean it rises.
        (("10", "30", "20"), "rewrite", ["pass", "rewrite", "rewrite"]),
        # No step of a could be judged: the others decide on the levels, and 8 of 12 comparisons are not enough.
        (("10", "?", "30"), "refuse", ["pass", "pass", "pass"]),
    ],
)
def test_three_anchors_pass_without_a_test_where_every_step_is_in_order(of_a, verdict, levels):
    opened = shared({**RISING, "a": of_a})
    certificate = certify(opened, open_asker(opened, Numbers()))
    (dimension,) = certificate.dimensions
    assert certificate.verdict == verdict
    assert [level.verdict for level in dimension.levels] == levels
    assert certificate.tests is None
    assert {each for step in dimension.steps for each in (step.p, step.p_holm)} == {None}
    assert certificate.counts.length_climbs == 0
    assert certificate.judge.fingerprint == "numbers/1"
    # 2 steps at 0.1: 0.5 ** 5 * 2 = 0.0625 is the first below it.
    (note,) = certificate.notes
    assert note == (
        "3 anchors: a sign test of 2 steps needs 5 to have any power, so there are no p-values. The set passes if "
        "every step of every anchor is in order, and a level of one anchor beats the level below of another in at "
        "least 0.8 of the comparisons."
    )
    steps, _ = certificate_tables(certificate)
    assert steps.heads == ["step", "in order", "w", "surface w", "spacing", "levels"]


def test_the_sharing_of_one_anchor_is_untested():
    opened = shared({"a": ("10", "20", "30")})
    certificate = certify(opened, open_asker(opened, Numbers()))
    assert certificate.dimensions[0].verdict == "pass"
    assert certificate.verdict == certificate.sharing.verdict == "untested"
    assert sharing_lines(certificate.sharing) == ["sharing: untested, since the set has one anchor"]


def test_six_anchors_have_sign_tests_and_comparisons_that_decide_nothing_are_left_out():
    opened = shared(dict.fromkeys("abcdef", ("20", "20", "30")))
    certificate = certify(opened, open_asker(opened, Numbers()))
    # Each of 6 anchors with the next two: 12 pairs in both directions. 30 > 20 in all, and 20 against 20 decides nothing.
    sharing = certificate.sharing
    assert (sharing.in_order, sharing.of, sharing.verdict, sharing.limit) == (24, 24, "pass", 0.7)
    # No step of 20 to 20 decides: p is 1. All six steps of 20 to 30 rise: 0.5 ** 6, times 2.
    assert [step.p_holm for step in certificate.dimensions[0].steps] == [1.0, 0.03125]


class WithinAnchors(Numbers):
    """Answers about two rungs of one ladder only."""

    def read_labels(self, prompts, labels):
        readings = super().read_labels(prompts, labels)
        within = [each.slots["context"] == each.slots["reference_context"] for each in prompts]
        unread = LabelReading(reason="too long")
        return [read if same else unread for read, same in zip(readings, within, strict=True)]


def test_six_anchors_that_could_not_be_compared_with_each_other_are_refused():
    opened = shared(dict.fromkeys("abcdef", ("10", "20", "30")))
    certificate = certify(opened, open_asker(opened, WithinAnchors()))
    assert certificate.dimensions[0].verdict == "pass"
    sharing = certificate.sharing
    assert (sharing.share, sharing.of, sharing.verdict) == (None, 0, "refuse")
    assert certificate.verdict == "refuse"


def test_the_limits_of_sharing_at_either_side(monkeypatch):
    """5 anchors with 5 steps are too few for a test, and 6 have one; the limits are .8 of all, and an end of .7."""

    def verdict_of(anchors, share=0.0, high=1.0):
        texts = {
            name: tuple(str(10 * level + place) for level in range(6))
            for place, name in enumerate("abcdef"[:anchors])
        }
        opened = shared(texts)
        rises = np.full((anchors, anchors), 10 * share)
        np.fill_diagonal(rises, 0)
        monkeypatch.setattr(trust, "across_anchors", lambda *_: (rises, rises))
        monkeypatch.setattr(
            "refladder.ladders.certify.share_intervals", lambda *_: np.array([0.0, high])
        )
        certificate = certify(opened, open_asker(opened, Numbers()))
        assert (certificate.tests is None) == (anchors < 6)
        return certificate.sharing.verdict

    # 10 pairs of anchors with 10 comparisons each
    assert [verdict_of(5, share) for share in (0.8, 0.79)] == ["pass", "refuse"]
    assert [verdict_of(6, 0.5, high) for high in (0.7, 0.6999)] == ["pass", "refuse"]


@pytest.mark.parametrize(("anchors", "tested"), [("abcd", False), ("abcde", True)])
def test_three_steps_are_tested_with_five_anchors(anchors, tested):
    """3 steps at .1: 3 / 2^4 = .1875 and 3 / 2^5 = .094."""
    opened = shared(
        {
            name: tuple(f"{level}{place}" for level in range(1, 5))
            for place, name in enumerate(anchors)
        }
    )
    assert (certify(opened, open_asker(opened, Numbers())).tests is not None) == tested


EARLIER = "e7e433826895 (another set that was called general/reply before: bench/readings/three-anchors/reply in the repository)"


def test_a_run_against_the_set_that_had_a_name_before_is_told_so_by_its_digest(
    command, fails, write_jsonl, tmp_path
):
    rows = [{"output": text, "context": "My router is slow."} for text in ("Wait.", "Restart it.")]
    table, how = write_jsonl(rows), "--dimension clarity --any-judge --ladders"
    source = Path(__file__).parents[2] / "bench/readings/three-anchors/reply"
    shutil.copytree(source, tmp_path / "reply")
    many = tmp_path / "many"
    many.mkdir()
    shutil.copy(table, many / "a.jsonl")
    for rows_of, out in ((table, "old.jsonl"), (many, "old")):
        done = command(f"score {rows_of} {how} {tmp_path / 'reply'} --out {tmp_path / out}")
        assert done.code == 0, done.err
    baseline = tmp_path / "watch.json"
    watch = f"watch --answers rating --dimension clarity --baseline {baseline}"
    assert command(f"{watch} --new {tmp_path / 'reply'} --anchors 3").code == 0
    # Files of that time name the set as it was called.
    for path in (
        tmp_path / "old.jsonl",
        *tmp_path.glob("old.jsonl.*"),
        *(tmp_path / "old").rglob("*.json*"),
    ):
        path.write_text(
            path.read_text("utf-8").replace("reply@e7e4", "general/reply@e7e4"), "utf-8"
        )
    assert command(f"score {table} {how} general/reply --out {tmp_path / 'new.jsonl'}").code == 0
    for line in (
        f"score {table} {how} general/reply --out {tmp_path / 'old.jsonl'}",
        f"score {many} {how} general/reply --out {tmp_path / 'old'}",
        f"score {table} {how} general/reply --judgments-from {tmp_path / 'old.jsonl.judgments.jsonl'}",
        f"compare {tmp_path / 'old.jsonl'} {tmp_path / 'new.jsonl'}",
        f"{watch} general/reply",
    ):
        assert EARLIER in fails(2, line), line
