"""The shipped templates: their structure against the papers' tables, and their form."""

from __future__ import annotations

import itertools
import re

import pytest
from support.offenders import offenders

from refladder.prompts import (
    ROLE_OUTCOMES,
    ROLES,
    TASKS,
    TEMPLATES,
    fill,
    list_templates,
    load_template,
)

SHIPPED = {
    (task, role) for task in TASKS for role in ROLES if role != "subject" or task == "document"
}
JUDGING = tuple(role for role in ROLE_OUTCOMES if role != "reward")  # which asks for no answer
WRITING = ("worst", "best", "between")
PAIRS = sorted(SHIPPED)

# Slots in the order in which they stand in the text, repeats included, read off the tables of arXiv 2509.05440,
# appendix C (title -> dimension, description, article / conversation / story prompt -> context, icl -> reference).
# Added to the tables by this project: `background` after the conversation (the facts the speakers were given), the
# context in the story yes/no prompt (Table 18 has none), and the criterion in the yes/no prompts, whose tables put
# its name into the words of the claim.
BY_TABLE = {
    ("summarization", "worst"): ("dimension", "description", "context"),  # Table 7
    ("summarization", "best"): ("dimension", "description", "context"),  # Table 7
    ("dialogue", "worst"): ("dimension", "description", "context", "background"),  # Table 8
    ("dialogue", "best"): ("dimension", "description", "context", "background"),  # Table 8
    ("story", "worst"): ("dimension", "description", "context"),  # Table 9
    ("story", "best"): ("dimension", "description", "context"),  # Table 9
    ("summarization", "between"): (
        "dimension",
        "description",
        "lower",
        "higher",
        "context",
    ),  # Table 10
    ("dialogue", "between"): (
        "dimension",
        "description",
        "context",
        "background",
        "lower",
        "higher",
    ),  # Table 11
    ("story", "between"): ("dimension", "description", "context", "lower", "higher"),  # Table 12
    # Tables 13, 14 and 15: the dimension in the instruction, in the criteria and in the third step.
    ("summarization", "compare"): (
        *("dimension", "dimension", "description", "dimension"),
        *("context", "reference", "target"),
    ),
    ("dialogue", "compare"): (
        *("dimension", "dimension", "description", "dimension"),
        *("context", "background", "reference", "target"),
    ),
    ("story", "compare"): (
        *("dimension", "dimension", "description", "dimension"),
        *("context", "reference", "target"),
    ),
    # Tables 16, 17 and 18: context, text 1 = target, text 2 = reference, the question.
    ("summarization", "compare-yesno"): (
        *("context", "target", "reference"),
        *("dimension", "description", "dimension", "claim"),
    ),
    ("dialogue", "compare-yesno"): (
        *("context", "background", "target", "reference"),
        *("dimension", "description", "dimension", "claim"),
    ),
    ("story", "compare-yesno"): (
        *("context", "target", "reference"),
        *("dimension", "description", "dimension", "claim"),
    ),
}

# arXiv 2307.07889, section 3.3: w_i = "Summary A", w_j = "Summary B"; figure 2: other words for other texts.
PAIRWISE_LABELS = {
    "summarization": ("Summary A", "Summary B"),
    "dialogue": ("Response A", "Response B"),
    "story": ("Story A", "Story B"),
    "data-to-text": ("Text A", "Text B"),
    "open": ("Response A", "Response B"),
    "document": ("Document A", "Document B"),
}
LABELS = {
    "compare": ("Better", "Worse", "Similar"),  # Tables 13 to 15, in their order
    "compare-shared": ("Better", "Worse", "Similar"),
    "compare-yesno": ("Yes", "No"),  # Tables 16 to 18
    "direct-5": ("1", "2", "3", "4", "5"),
    "direct-10": ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10"),
    "direct-100": tuple(map(str, range(1, 101))),
    "reward": ("win", "loss"),  # asked of no model: they name the two log-probabilities of a reward
    "verifier": tuple("TSRQPONMLKJIHGFEDCBA"),  # arXiv 2607.05391: A is the best
}


def plain(task, role):
    """A template's text with its slots as <name>, put together from the file and not by `fill`."""
    source = (TEMPLATES / task / f"{role}.md").read_text(encoding="utf-8")
    return source.split("+++\n", 2)[2].replace("{{", "<").replace("}}", ">")


def test_offenders_are_all_listed():
    def check(number, name):
        assert number > 1, f"{name} is small"

    cases = [(2, "two"), (1, "one"), (0, "none")]
    assert [each[:2] for each in offenders(check, cases)] == cases[1:]
    assert offenders(check, cases)[0][2].startswith("one is small")


def test_every_task_has_every_role_and_nothing_else_is_shipped():
    assert {(path.parent.name, path.stem) for path in TEMPLATES.rglob("*.*")} == SHIPPED
    assert {(template.task, template.role) for template in list_templates()} == SHIPPED


def test_slots_stand_in_the_order_of_the_papers_tables():
    def check(task, role):
        assert load_template(task, role).names == BY_TABLE[task, role]

    assert offenders(check, BY_TABLE) == []


@pytest.mark.parametrize("role", sorted(set(ROLES) - {"subject"}))
def test_tasks_without_a_table_follow_the_ones_that_have_it(role):
    # Tables 11 and 12 put the context before the bad and the good text, Table 10 behind them: two against one.
    assert load_template("data-to-text", role).names == load_template("story", role).names
    assert load_template("open", role).names == load_template("dialogue", role).names


def test_roles_without_a_table_keep_context_before_texts():
    # G-Eval (direct-5) gives criteria and steps first; prompt scoring and the pairwise prompts (arXiv 2307.07889,
    # figures 2 and 3) give context and texts first and then ask.
    assert load_template("summarization", "direct-5").names == (
        *("dimension", "dimension", "description", "dimension", "dimension"),
        *("context", "target"),
    )
    assert load_template("summarization", "direct-10").names == (
        *("context", "target"),
        *("dimension", "description", "dimension"),
    )
    assert load_template("summarization", "pairwise").names == (
        *("context", "first", "second"),
        *("dimension", "description", "dimension"),
    )


def test_labels_are_the_papers_words():
    def check(task, role):
        template = load_template(task, role)
        expected = PAIRWISE_LABELS[task] if role == "pairwise" else LABELS.get(role, ())
        assert tuple(template.labels.values()) == expected
        assert tuple(template.labels) == ROLE_OUTCOMES.get(role, ())

    assert offenders(check, PAIRS) == []


def test_headings_name_the_texts():
    def check(task):
        noun = PAIRWISE_LABELS[task][0].split()[0]
        assert f"\nBad {noun.lower()}:\n<lower>\n\nGood {noun.lower()}:\n<higher>\n" in plain(
            task, "between"
        )
        compare = plain(task, "compare")
        assert (
            f"\nReference {noun.lower()}:\n<reference>\n\nTarget {noun.lower()}:\n<target>\n\n"
            in compare
        )
        assert f"\n{noun} 1:\n<target>\n\n{noun} 2:\n<reference>\n\n" in plain(
            task, "compare-yesno"
        )
        assert f"\n{noun} A:\n<first>\n\n{noun} B:\n<second>\n\n" in plain(task, "pairwise")
        # The same two texts, named by numbers, since letters are the grades.
        verifier = (
            plain(task, "pairwise")
            .replace(f"{noun} A", f"{noun} 1")
            .replace(f"{noun} B", f"{noun} 2")
        )
        assert plain(task, "verifier").startswith(verifier[: verifier.index("\nWhich ")])
        assert f"\n{noun}:\n<target>\n\n" in plain(task, "direct-5")
        assert f"\n{noun}:\n<target>\n\n" in plain(task, "direct-10")
        assert plain(task, "direct-100") == plain(task, "direct-10").replace(
            " 10 ", " 100 "
        ).replace(" 10:", " 100:")

    assert offenders(check, TASKS) == []


@pytest.mark.parametrize("task", sorted(set(TASKS) - {"document"}))
def test_compare_has_the_sections_of_tables_13_to_15_in_order(task):
    text = plain(task, "compare")
    sections = [
        "You are shown",
        "Evaluation criteria:\n",
        "Evaluation steps:\n1. ",
        "\n2. ",
        "\n3. ",
        "\n4. ",
    ]
    sections += ["<context>", "Reference ", "Target ", 'Answer "Better"']
    places = [text.rindex(section) for section in sections]
    assert places == sorted(places)


def test_no_task_speaks_of_another_tasks_text():
    def check(task, role):
        # The dialogue and story prompts of Tables 9, 14 and 15 speak of news articles and summaries.
        assert re.findall(r"article|summar|document|news", plain(task, role), re.IGNORECASE) == []
        if task != "story":
            assert re.findall(r"\bstor(?:y|ies)\b", plain(task, role), re.IGNORECASE) == []

    assert (
        offenders(
            check,
            itertools.product(
                sorted(set(TASKS) - {"summarization", "document"}), sorted(set(ROLES) - {"subject"})
            ),
        )
        == []
    )


def test_form():
    def check(task, role):
        source = (TEMPLATES / task / f"{role}.md").read_text(encoding="utf-8")
        assert source.isascii()
        assert source.endswith("\n")
        assert not source.endswith("\n\n")
        assert [line for line in source.split("\n") if line != line.rstrip()] == []
        assert "\n\n\n" not in source
        assert "\t" not in source
        text = plain(task, role)
        assert ("<dimension>: <description>\n" in text) == (role != "subject")
        assert re.match(r"[A-Z][^<>\n]*(?:<dimension>)?\.", text), "starts with a sentence"

    assert offenders(check, PAIRS) == []


def test_a_judging_prompt_ends_with_a_line_that_names_the_answers():
    def check(task, role):
        template = load_template(task, role)
        last = plain(task, role).rstrip("\n").split("\n")[-1]
        assert last.startswith("Answer ")
        assert last.endswith(":")
        assert "<" not in last
        if role.startswith("direct"):
            assert last == f"Answer with one whole number from 1 to {len(template.labels)}:"
        elif role == "verifier":
            assert last == "Answer with one letter from A to T:"
        else:
            assert re.findall(r'"([^"]+)"', last) == list(template.labels.values())

    assert offenders(check, itertools.product(TASKS, JUDGING)) == []


def test_a_writing_prompt_asks_for_the_text_alone_and_ends_with_material():
    def check(task, role):
        text = plain(task, role)
        noun = PAIRWISE_LABELS[task][0].split()[0].lower()
        assert f"\nGive only the {noun}: no title, no remark " in text
        assert "It must not be empty" in text
        assert re.search(r"at most\.|under 150 words|no longer than 200 words", text), (
            "says how long"
        )
        assert text.endswith(">\n")

    assert offenders(check, itertools.product(TASKS, WRITING)) == []


@pytest.mark.parametrize("task", TASKS)
def test_worst_and_best_differ_only_in_what_they_are_to_be(task):
    worst = plain(task, "worst").replace("worst", "best").replace("low end", "high end")
    worst = worst.replace(
        "let it fail on this dimension as badly as it can",
        "leave nothing to improve on this dimension",
    )
    assert worst == plain(task, "best")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("claim", "question"),
    [
        ("win", "Judged on Clarity alone, is NOUN 1 better than NOUN 2?"),
        ("loss", "Judged on Clarity alone, is NOUN 1 worse than NOUN 2?"),
        ("tie", "Judged on Clarity alone, is NOUN 1 about as good as NOUN 2?"),
    ],
)
def test_claims_read_well_in_the_question(task, claim, question):
    template = load_template(task, "compare-yesno")
    slots = {name: name for name in ROLES["compare-yesno"] if name != "claim"} | {
        "dimension": "Clarity"
    }
    noun = PAIRWISE_LABELS[task][0].split()[0]
    assert question.replace("NOUN", noun) in fill(template, slots, claim).text.split("\n")


def test_an_empty_background_still_reads_well():
    def check(task, role):
        assert "\n\nBackground (empty if there is none):\n<background>\n" in plain(task, role)

    assert (
        offenders(
            check,
            itertools.product(
                ["dialogue", "open"],
                sorted(set(ROLES) - {"subject", "compare-shared", "stated-shared"}),
            ),
        )
        == []
    )


@pytest.mark.parametrize("task", TASKS)
def test_compare_shared_shows_the_row_first_and_the_rung_with_its_own_context_last(task):
    text = plain(task, "compare-shared")
    shown = [
        "<context>",
        "<background>",
        "<target>",
        "<reference_context>",
        "<reference_background>",
        "<reference>",
    ]
    places = [text.index(slot) for slot in shown if slot in text]
    assert places == sorted(places)
    assert ("<context>" in text) == ("<reference_context>" in text) == (task != "document")
    assert (
        ("<background>" in text)
        == ("<reference_background>" in text)
        == (task in {"dialogue", "open"})
    )
    if task != "document":
        assert "and judge each by its own " in text
        assert " of the target " in text.split("<context>")[0].rsplit("\n\n", 1)[1]
        assert " of the reference " in text.split("<reference_context>")[0].rsplit("\n\n", 1)[1]


def test_a_documents_prompts_show_it_alone():
    for role in ROLE_OUTCOMES:
        assert not {"context", "background", "reference_context"} & set(
            load_template("document", role).names
        )
    for role in WRITING:  # the subject, and the limit of words
        assert {"context", "background"} < set(load_template("document", role).names)
    assert load_template("document", "subject").names == ("target",)


@pytest.mark.parametrize("task", TASKS)
def test_stated_shows_the_references_before_the_target_and_ends_with_the_form_of_the_answer(task):
    noun = PAIRWISE_LABELS[task][0].split()[0].lower()
    for role in ("stated", "stated-shared"):
        text = plain(task, role)
        shown = ["<references>", "<context>", "<background>", "<target>"]
        if role == "stated":
            shown = [shown[1], shown[2], shown[0], shown[3]]
        else:
            shown = ["<reference_context>", "<reference_background>", *shown]
        places = [text.index(slot) for slot in shown if slot in text]
        assert places == sorted(places)
        assert all(text.count(slot) <= 1 for slot in shown)
        assert (
            f"\nTarget {noun}:\n<target>\n\nAnswer with one line for each reference {noun}, "
            in text
        )
        assert text.endswith(
            'the letter, a colon and a number from 0 to 100, in the form "A: number":\n'
        )
    shared = plain(task, "stated-shared")
    assert ("<context>" in shared) == ("<reference_context>" in shared) == (task != "document")
    assert (
        ("<background>" in shared)
        == ("<reference_background>" in shared)
        == (task in {"dialogue", "open"})
    )
    assert ("and judge each by its own " in shared) == (task != "document")
