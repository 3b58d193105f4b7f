from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refladder
from refladder.backends.scripted import Rule, Scripted
from refladder.errors import BadCompletionError, PromptError, UnknownNameError, UsageError
from refladder.files.jsonl import to_line
from refladder.prompts import load_template
from refladder.records import Context, Dimension, LadderFailure, Recipe, Rung, Sampling
from refladder.synth import build_ladders
from refladder.synth import ladders as synth
from refladder.synth.ladders import Step, plan

CONTEXT = Context(id="c1", task="news", text="article 1")
ROLES = ("worst", "best", "between")
DIMENSION = Dimension(name="coherence", description="It hangs together.")


@pytest.fixture
def build(templates):
    """Build with a backend; the usual request is one ladder."""

    def go(backend, contexts=(CONTEXT,), dimensions=(DIMENSION,), **options):
        return build_ladders(backend, contexts, dimensions, **{"prompts": templates, **options})

    return go


def texts_of(ladder):
    return [rung.text for rung in ladder.rungs]


# The plan


def test_ladders_are_written_by_bisection():
    # arXiv 2509.05440, section 2.1 and figure 1: scores 1 and 5, then 3 between them, then 2 and 4
    middle = [Step(level=3, role="between", between=(1, 5))]
    ends = [Step(level=1, role="worst"), Step(level=5, role="best")]
    low = Step(level=2, role="between", between=(1, 3))
    high = Step(level=4, role="between", between=(3, 5))
    assert [list(wave) for wave in plan(5)] == [ends, middle, [low, high]]
    # The middle of 1 and 4 is rounded down; two rungs are the ends only.
    waves = [[(step.level, step.between) for step in wave] for wave in plan(4)]
    assert waves == [[(1, None), (4, None)], [(2, (1, 4))], [(3, (2, 4))]]
    assert [[step.role for step in wave] for wave in plan(2)] == [["worst", "best"]]


@given(st.integers(2, 400))
def test_each_rung_once_between_neighbours_of_earlier_waves_in_the_fewest_waves(rungs):
    first, *later = plan(rungs)
    assert [step.between for step in first] == [None, None]
    written = [step.level for step in first]
    for wave in later:
        before = sorted(written)
        for step in wave:
            low, high = step.between
            assert before.index(high) == before.index(low) + 1  # both exist, and are neighbours
            assert step.level == math.floor(Fraction(low + high, 2))
            assert low < step.level < high
        levels = [step.level for step in wave]
        assert levels == sorted(levels)
        written += levels
    assert sorted(written) == list(range(1, rungs + 1))
    # ceil(log2(gap)) halvings of the gap N - 1, in integers: (n - 1).bit_length() is ceil(log2(n))
    assert len(later) == (rungs - 2).bit_length()


# Writing


def test_every_context_and_dimension_gets_a_ladder_with_its_recipe(
    build, templates, contexts, dimensions, rules
):
    backend = Scripted(rules)
    ladders, failures = build(backend, contexts, dimensions, sampling=Sampling(seed=7))
    assert failures == []
    pairs = [(context.id, dimension.name) for context in contexts for dimension in dimensions]
    assert [(ladder.context_id, ladder.dimension) for ladder in ladders] == pairs
    worst, best, middle, low, high = (rule.text.strip() for rule in rules)
    signatures = [load_template("news", role, templates).signature for role in ROLES]
    for ladder in ladders:
        assert ladder.task == "news"
        assert ladder.rungs == (
            Rung(level=1, text=worst),
            Rung(level=2, text=low, between=(1, 3)),
            Rung(level=3, text=middle, between=(1, 5)),
            Rung(level=4, text=high, between=(3, 5)),
            Rung(level=5, text=best),
        )
        assert ladder.recipe == Recipe(
            backend=backend.fingerprint,
            prompts=tuple(signatures),
            sampling=Sampling(seed=7),
            version=refladder.__version__,
        )


def test_a_wave_is_one_batch_over_all_contexts_with_each_context_together(
    build, contexts, dimensions, rules, recording
):
    backend = recording(rules)
    build(backend, contexts, dimensions)
    # 3 contexts x 2 dimensions x 2, 1, 2 rungs
    assert [len(prompts) for prompts, _ in backend.batches] == [12, 6, 12]
    for prompts, _ in backend.batches:
        order = [prompt.slots["context"] for prompt in prompts]
        assert order == sorted(order)  # the three articles are named in order
    assert backend.batches[1][0][0].slots == {
        "context": "article 1",
        "background": "",
        "dimension": "coherence",
        "description": "It hangs together.",
        "lower": rules[0].text,
        "higher": rules[1].text.strip(),
    }


def test_waves_are_sent_in_chunks_with_the_same_result(  # noqa: PLR0917  fixtures
    build, contexts, dimensions, rules, recording, monkeypatch
):
    whole = build(Scripted(rules), contexts, dimensions)
    monkeypatch.setattr(synth, "CHUNK", 5)
    backend = recording(rules)
    assert build(backend, contexts, dimensions) == whole
    assert [len(prompts) for prompts, _ in backend.batches] == [5, 5, 2, 5, 1, 5, 5, 2]


def test_unusable_texts_are_written_again_with_the_next_seed(build, rules, recording):
    rules[0] = Rule(role="worst", texts=("", "I can't assist with that.", "Rain."))
    backend = recording(rules)
    (ladder,), failures = build(backend)
    assert failures == []
    assert ladder.rungs[0] == Rung(level=1, text="Rain.")
    sent = [
        ([prompt.role for prompt in prompts], sampling.seed)
        for prompts, sampling in backend.batches
    ]
    again = [(["worst"], 1), (["worst"], 2)]
    assert sent == [(["worst", "best"], 0), *again, (["between"], 0), (["between"] * 2, 0)]


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (
            ("Here is a revised response:\n\nA good text.", "A good text."),
            "aside: the text talks about itself: here is a revised response: a good text.",
        ),
        ((" RAIN.", "A good text."), "duplicate: the same text as level 1"),  # in the same wave
    ],
)
def test_a_text_that_is_no_rung_is_written_again(build, texts, reason):
    backend = Scripted([Rule(role="worst", text="Rain."), Rule(role="best", texts=texts)])
    (ladder,), failures = build(backend, rungs=2)
    assert failures == []
    assert texts_of(ladder) == ["Rain.", "A good text."]
    _, (failure,) = build(backend, rungs=2, attempts=1)
    assert failure.reasons == (reason,)


def test_a_rung_that_never_comes_is_a_failure_and_its_ladder_is_not_made(
    build, contexts, dimensions, rules
):
    where = {"context": "article 2", "dimension": "relevance", "higher": rules[2].text}
    never = Rule(role="between", contains=where, texts=("", "A late text."))
    ladders, (failure,) = build(Scripted([never, *rules]), contexts, dimensions, attempts=1)
    pairs = [(context.id, dimension.name) for context in contexts for dimension in dimensions]
    pairs.remove(("c2", "relevance"))
    assert [(ladder.context_id, ladder.dimension) for ladder in ladders] == pairs
    assert failure == LadderFailure(
        context_id="c2",
        task="news",
        dimension="relevance",
        level=2,
        reasons=("empty: nothing but white space",),
        recipe=ladders[0].recipe,
    )
    assert to_line(failure).startswith(b'{"schema":"ladder-failure/1","context_id":"c2"')


def test_both_ends_of_a_ladder_may_fail_and_nothing_is_asked_between_them(build, recording):
    rules = [
        Rule(role="worst", finish="length", text="Ra"),
        Rule(role="best", error="HTTP 503"),
        Rule(text="never asked"),
    ]
    backend = recording(rules)
    ladders, failures = build(backend, attempts=2)
    assert ladders == []
    assert [(failure.level, failure.reasons) for failure in failures] == [
        (1, ("truncated: the writer reached max_tokens",) * 2),
        (5, ("failed: HTTP 503",) * 2),
    ]
    assert [len(prompts) for prompts, _ in backend.batches] == [2, 2]


def test_human_rungs_are_kept_as_they_are_and_lie_between_nothing(build, recording):
    fisher, mayor, admiral = "A fisher's words. ", "A mayor's words.", "An admiral's words."
    # The first best text is the mayor's again.
    best = Rule(role="best", texts=(mayor, "A good text."))
    backend = recording([best, Rule(role="between", text="A middling text.")])
    human = {("c1", "coherence"): {1: fisher, 3: mayor, 4: admiral}}
    (ladder,), failures = build(backend, human=human)
    assert failures == []
    assert texts_of(ladder) == [fisher, "A middling text.", mayor, admiral, "A good text."]
    assert [rung.between for rung in ladder.rungs] == [None, (1, 3), None, None, None]
    assert backend.batches[2][0][0].slots["higher"] == mayor


def test_a_ladder_of_human_rungs_alone_asks_the_backend_nothing(build, recording):
    backend = recording([])
    human = {("c1", "coherence"): {1: "bad", 2: "good"}}
    (ladder,), _ = build(backend, rungs=2, human=human)
    assert texts_of(ladder) == ["bad", "good"]
    assert backend.batches == []


def test_contexts_of_mixed_tasks_use_their_own_templates(build, templates, rules, recording):
    backend = recording(rules)
    contexts = [Context(id="a", task="news", text="one"), Context(id="b", task="note", text="two")]
    (_, ladder), _ = build(backend, contexts, rungs=2)
    assert [prompt.task for prompt in backend.batches[0][0]] == ["news", "news", "note", "note"]
    # two rungs need no template between: it is not in the recipe
    signatures = [load_template("note", role, templates).signature for role in ROLES[:2]]
    assert ladder.recipe.prompts == tuple(signatures)


def test_progress_counts_up_to_all_rungs_even_when_ladders_are_given_up(build, contexts, rules):
    reports = []
    backend = Scripted([Rule(role="best", contains="article 2", text=""), *rules])
    build(backend, contexts, attempts=2, progress=lambda *report: reports.append(report))
    # 3 ladders x 5 rungs. Wave 0: 5 written, then 1 given up. Wave 1: the 1 of c2 is given up, 2 written.
    # Wave 2: the 2 of c2 are given up, 4 written.
    notes = ["", "rejected: 1 empty", *["rejected: 2 empty"] * 5]
    done = (0, 5, 6, 7, 9, 11, 15)
    assert reports == [(count, 15, note, 1) for count, note in zip(done, notes, strict=True)]


# Wrong requests


def human(rungs, context="c1", dimension="coherence"):
    return {"human": {(context, dimension): rungs}}


NOT_BUILT = "no such context and dimension are being built"
BUILT = "; contexts are 'c1', ..., and dimensions coherence"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rungs": 1}, "a ladder has at least 2 rungs, a worst and a best, found 1"),
        ({"attempts": 0}, "attempts, the maximum for each rung, must be 1 or more, found 0"),
        ({"contexts": []}, "no contexts to build ladders for; give at least one"),
        ({"dimensions": []}, "no dimensions to build ladders for; give at least one"),
        (
            {"contexts": [CONTEXT] * 2},
            "context 'c1' is given 2 times; each context may be given once",
        ),
        (
            {"dimensions": [DIMENSION] * 2},
            "dimension 'coherence' is given 2 times; each dimension may be given once",
        ),
        (human({1: "a"}, "c9"), f"context 'c9', dimension 'coherence': {NOT_BUILT}{BUILT}"),
        (
            {"human": {("c1", "length"): {1: "a"}, ("c8", "coherence"): {1: "a"}}},
            f"dimension 'length': {NOT_BUILT}, nor for 1 more{BUILT}",
        ),
        (human({6: "a"}), "dimension 'coherence': level 6 is not between 1 and 5"),
        (human({0: "a"}), "dimension 'coherence': level 0 is not between 1 and 5"),
        (human({2: " \n"}), "dimension 'coherence': the text of level 2 is empty"),
        (
            human({2: "Rain.", 4: " rain."}),
            "levels 2 and 4 are the same text; give different texts",
        ),
    ],
)
def test_a_wrong_request_is_refused_before_the_backend_is_asked(
    build, changes, message, recording, tmp_path
):
    backend, journal = recording([]), tmp_path / "journal"
    with pytest.raises(UsageError, match=f"{re.escape(message)}$"):
        build(backend, journal=journal, **changes)
    assert backend.batches == []
    assert not journal.exists()


def test_wrong_templates_are_refused_before_the_backend_is_asked(build, templates, recording):
    backend = recording([])
    unknown = Context(id="a", task="sumarization", text="")
    with pytest.raises(UnknownNameError, match="'sumarization'; did you mean 'summarization'"):
        build(backend, [unknown])
    (templates / "news" / "between.md").write_text("no head", encoding="utf-8")
    with pytest.raises(PromptError, match=r"between\.md:1: a template starts with a TOML head"):
        build(backend)
    assert backend.batches == []


def test_a_backend_that_loses_a_row_is_stopped(build, rules):
    class Forgetful(Scripted):
        def write(self, prompts, sampling):
            return super().write(prompts, sampling)[1:]

    with pytest.raises(BadCompletionError, match="gave 1 texts for 2 prompts; test it with"):
        build(Forgetful(rules))
