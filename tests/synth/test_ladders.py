import re

import pytest

import refladder
from refladder.backends.scripted import Rule, Scripted
from refladder.errors import BadCompletionError, PromptError, UnknownNameError, UsageError
from refladder.files.jsonl import to_line
from refladder.prompts import load_template
from refladder.records import Context, Dimension, LadderFailure, Recipe, Rung, Sampling
from refladder.synth import build_ladders
from refladder.synth import ladders as synth

WORST, BEST, MIDDLE = (
    "Rain.",
    "The harbour opens on Thursday, after a storm.",
    "A storm closed the harbour.",
)
LOW, HIGH = "Rain and a storm.", "A storm closed the harbour for three days."


def test_every_context_and_dimension_gets_a_ladder_with_its_recipe(
    templates, contexts, dimensions, rules
):
    backend = Scripted(rules)
    ladders, failures = build_ladders(
        backend, contexts, dimensions, prompts=templates, sampling=Sampling(seed=7)
    )
    assert failures == []
    assert [(ladder.context_id, ladder.dimension) for ladder in ladders] == [
        (context, dimension)
        for context in ("c1", "c2", "c3")
        for dimension in ("coherence", "relevance")
    ]
    for ladder in ladders:
        assert ladder.task == "news"
        assert ladder.rungs == (
            Rung(level=1, text=WORST),
            Rung(level=2, text=LOW, between=(1, 3)),
            Rung(level=3, text=MIDDLE, between=(1, 5)),
            Rung(level=4, text=HIGH, between=(3, 5)),
            Rung(level=5, text=BEST),
        )
        signatures = (
            load_template("news", role, templates).signature
            for role in ("worst", "best", "between")
        )
        assert ladder.recipe == Recipe(
            backend=backend.fingerprint,
            prompts=tuple(signatures),
            sampling=Sampling(seed=7),
            version=refladder.__version__,
        )


def test_a_wave_is_one_batch_over_all_contexts_with_each_context_together(
    templates, contexts, dimensions, rules, recording
):
    backend = recording(rules)
    build_ladders(backend, contexts, dimensions, prompts=templates)
    assert [len(prompts) for prompts, _ in backend.batches] == [
        12,
        6,
        12,
    ]  # 3 contexts x 2 dimensions x 2, 1, 2 rungs
    for prompts, _ in backend.batches:
        order = [prompt.slots["context"] for prompt in prompts]
        assert order == sorted(order)  # the three articles are named in order
    assert backend.batches[1][0][0].slots == {
        "context": "article 1",
        "background": "",
        "dimension": "coherence",
        "description": "It hangs together.",
        "lower": WORST,
        "higher": BEST,
    }


def test_waves_are_sent_in_chunks_with_the_same_result(  # noqa: PLR0917  fixtures
    templates, contexts, dimensions, rules, recording, monkeypatch
):
    whole = build_ladders(Scripted(rules), contexts, dimensions, prompts=templates)
    monkeypatch.setattr(synth, "CHUNK", 5)
    backend = recording(rules)
    assert build_ladders(backend, contexts, dimensions, prompts=templates) == whole
    assert [len(prompts) for prompts, _ in backend.batches] == [5, 5, 2, 5, 1, 5, 5, 2]


def test_unusable_texts_are_written_again_with_the_next_seed(
    templates, contexts, dimensions, rules, recording
):
    rules[0] = Rule(role="worst", texts=("", "I can't assist with that.", WORST))
    backend = recording(rules)
    ladders, failures = build_ladders(backend, contexts[:1], dimensions[:1], prompts=templates)
    assert failures == []
    assert ladders[0].rungs[0] == Rung(level=1, text=WORST)
    sent = [
        ([prompt.role for prompt in prompts], sampling.seed)
        for prompts, sampling in backend.batches
    ]
    assert sent == [
        (["worst", "best"], 0),
        (["worst"], 1),
        (["worst"], 2),
        (["between"], 0),
        (["between", "between"], 0),
    ]


def test_a_text_that_talks_about_itself_is_written_again(templates, contexts, dimensions, rules):
    rules[1] = Rule(role="best", texts=("Here is a revised response:\n\n" + BEST, BEST))
    ladders, failures = build_ladders(
        Scripted(rules), contexts[:1], dimensions[:1], prompts=templates
    )
    assert failures == []
    assert ladders[0].rungs[-1].text == BEST
    _, (failure,) = build_ladders(
        Scripted(rules), contexts[:1], dimensions[:1], prompts=templates, attempts=1
    )
    assert failure.reasons == (
        f"aside: the text talks about itself: {f'here is a revised response: {BEST}'.lower()[:60]}",
    )


def test_a_rung_that_never_comes_is_a_failure_with_every_reason_and_its_ladder_is_not_made(
    templates, contexts, dimensions, rules, recording
):
    never = Rule(
        role="between",
        contains={"context": "article 2", "dimension": "relevance", "higher": MIDDLE},
        texts=("", LOW),
    )
    backend = recording([never, *rules])
    ladders, failures = build_ladders(backend, contexts, dimensions, prompts=templates, attempts=1)
    assert [(ladder.context_id, ladder.dimension) for ladder in ladders] == [
        ("c1", "coherence"),
        ("c1", "relevance"),
        ("c2", "coherence"),
        ("c3", "coherence"),
        ("c3", "relevance"),
    ]
    assert failures == [
        LadderFailure(
            context_id="c2",
            task="news",
            dimension="relevance",
            level=2,
            reasons=("empty: nothing but white space",),
            recipe=ladders[0].recipe,
        )
    ]
    assert to_line(failures[0]).startswith(b'{"schema":"ladder-failure/1","context_id":"c2"')


def test_both_ends_of_a_ladder_may_fail_and_nothing_is_asked_between_them(
    templates, contexts, dimensions, recording
):
    backend = recording(
        [
            Rule(role="worst", finish="length", text="Ra"),
            Rule(role="best", error="HTTP 503"),
            Rule(text="never asked"),
        ]
    )
    ladders, failures = build_ladders(
        backend, contexts[:1], dimensions[:1], prompts=templates, attempts=2
    )
    assert ladders == []
    assert [(failure.level, failure.reasons) for failure in failures] == [
        (1, ("truncated: the writer reached max_tokens",) * 2),
        (5, ("failed: HTTP 503",) * 2),
    ]
    assert [len(prompts) for prompts, _ in backend.batches] == [2, 2]


def test_a_duplicate_within_the_same_wave_is_written_again(templates, contexts, dimensions):
    rules = [
        Rule(role="worst", text="Rain."),
        Rule(role="best", texts=(" RAIN.", "The harbour opens.")),
    ]
    ladders, _ = build_ladders(
        Scripted(rules), contexts[:1], dimensions[:1], rungs=2, prompts=templates
    )
    assert [rung.text for rung in ladders[0].rungs] == ["Rain.", "The harbour opens."]
    _, failures = build_ladders(
        Scripted(rules), contexts[:1], dimensions[:1], rungs=2, prompts=templates, attempts=1
    )
    assert failures[0].reasons == ("duplicate: the same text as level 1",)


def test_human_rungs_are_kept_as_they_are_and_lie_between_nothing(
    templates, contexts, dimensions, recording
):
    backend = recording(
        [Rule(role="best", texts=("A mayor's words.", BEST)), Rule(role="between", text=LOW)]
    )
    human = {
        ("c1", "coherence"): {
            1: "A fisher's words. ",
            3: "A mayor's words.",
            4: "An admiral's words.",
        }
    }
    ladders, failures = build_ladders(
        backend, contexts[:1], dimensions[:1], prompts=templates, human=human
    )
    assert failures == []
    assert ladders[0].rungs == (
        Rung(level=1, text="A fisher's words. "),
        Rung(level=2, text=LOW, between=(1, 3)),
        Rung(level=3, text="A mayor's words."),
        Rung(level=4, text="An admiral's words."),
        Rung(level=5, text=BEST),  # its first text was the mayor's again
    )
    assert backend.batches[2][0][0].slots["higher"] == "A mayor's words."


def test_a_ladder_of_human_rungs_alone_asks_the_backend_nothing(
    templates, contexts, dimensions, recording
):
    backend = recording([])
    human = {("c1", "coherence"): {1: "bad", 2: "good"}}
    ladders, _ = build_ladders(
        backend, contexts[:1], dimensions[:1], rungs=2, prompts=templates, human=human
    )
    assert [rung.text for rung in ladders[0].rungs] == ["bad", "good"]
    assert backend.batches == []


def test_contexts_of_mixed_tasks_use_their_own_templates(templates, dimensions, rules, recording):
    backend = recording(rules)
    contexts = [Context(id="a", task="news", text="one"), Context(id="b", task="note", text="two")]
    ladders, _ = build_ladders(backend, contexts, dimensions[:1], rungs=2, prompts=templates)
    assert [prompt.task for prompt in backend.batches[0][0]] == ["news", "news", "note", "note"]
    # two rungs need no template between: it is not in the recipe
    assert ladders[1].recipe.prompts == tuple(
        load_template("note", role, templates).signature for role in ("worst", "best")
    )


def test_progress_counts_up_to_all_rungs_even_when_ladders_are_given_up(
    templates, contexts, dimensions, rules
):
    reports = []
    build_ladders(
        Scripted([Rule(role="best", contains="article 2", text=""), *rules]),
        contexts,
        dimensions[:1],
        prompts=templates,
        attempts=2,
        progress=lambda done, total, note, each: reports.append((done, total, note, each)),
    )
    # 3 ladders x 5 rungs. Wave 0: 5 written, then 1 given up. Wave 1: the 1 of c2 is given up, 2 written.
    # Wave 2: the 2 of c2 are given up, 4 written.
    notes = ["", "rejected: 1 empty", *["rejected: 2 empty"] * 5]
    assert reports == [
        (done, 15, note, 1) for done, note in zip((0, 5, 6, 7, 9, 11, 15), notes, strict=True)
    ]


CONTEXT = Context(id="c1", task="news", text="article")
DIMENSION = Dimension(name="coherence", description="It hangs together.")
WHOSE = "human-written rungs of context 'c1', dimension 'coherence': "
NOT_BUILT = "no such context and dimension are being built{more}; contexts are 'c1', ..., and dimensions coherence"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rungs": 1}, "a ladder has at least 2 rungs, a worst and a best, found 1"),
        ({"attempts": 0}, "attempts, the maximum for each rung, must be 1 or more, found 0"),
        ({"contexts": []}, "no contexts to build ladders for; give at least one"),
        ({"dimensions": []}, "no dimensions to build ladders for; give at least one"),
        (
            {"contexts": [CONTEXT, CONTEXT]},
            "context 'c1' is given 2 times; each context may be given once",
        ),
        (
            {"dimensions": [DIMENSION, DIMENSION]},
            "dimension 'coherence' is given 2 times; each dimension may be given once",
        ),
        (
            {"human": {("c9", "coherence"): {1: "a"}}},
            WHOSE.replace("'c1'", "'c9'") + NOT_BUILT.format(more=""),
        ),
        (
            {
                "human": {
                    ("c1", "coherence"): {1: "a"},
                    ("c1", "length"): {1: "a"},
                    ("c8", "coherence"): {1: "a"},
                }
            },
            WHOSE.replace("coherence", "length") + NOT_BUILT.format(more=", nor for 1 more"),
        ),
        ({"human": {("c1", "coherence"): {6: "a"}}}, WHOSE + "level 6 is not between 1 and 5"),
        ({"human": {("c1", "coherence"): {0: "a"}}}, WHOSE + "level 0 is not between 1 and 5"),
        ({"human": {("c1", "coherence"): {2: " \n"}}}, WHOSE + "the text of level 2 is empty"),
        (
            {"human": {("c1", "coherence"): {2: "Rain.", 4: " rain."}}},
            WHOSE + "levels 2 and 4 are the same text; give different texts",
        ),
    ],
)
def test_a_wrong_request_is_refused_before_the_backend_is_asked(
    changes, message, templates, recording, tmp_path
):
    backend = recording([Rule(text="never asked")])
    request = {
        "contexts": [CONTEXT],
        "dimensions": [DIMENSION],
        "prompts": templates,
        "journal": tmp_path / "journal",
    }
    request |= changes
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        build_ladders(backend, request.pop("contexts"), request.pop("dimensions"), **request)
    assert backend.batches == []
    assert not (tmp_path / "journal").exists()


def test_an_unknown_task_is_refused_before_the_backend_is_asked(templates, recording):
    backend = recording([])
    with pytest.raises(
        UnknownNameError, match="unknown task 'sumarization'; did you mean 'summarization'"
    ):
        build_ladders(
            backend, [Context(id="a", task="sumarization", text="")], [DIMENSION], prompts=templates
        )
    assert backend.batches == []


def test_a_wrong_template_is_refused_before_the_backend_is_asked(templates, recording):
    (templates / "news" / "between.md").write_text("no head", encoding="utf-8")
    backend = recording([])
    with pytest.raises(PromptError, match=r"between\.md:1: a template starts with a TOML head"):
        build_ladders(backend, [CONTEXT], [DIMENSION], prompts=templates)
    assert backend.batches == []


def test_a_backend_that_loses_a_row_is_stopped(templates, rules):
    class Forgetful(Scripted):
        def write(self, prompts, sampling):
            return super().write(prompts, sampling)[1:]

    with pytest.raises(BadCompletionError, match="gave 1 texts for 2 prompts; test it with"):
        build_ladders(Forgetful(rules), [CONTEXT], [DIMENSION], prompts=templates)
