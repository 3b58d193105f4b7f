"""The shipped templates: their structure against the papers' tables, and their form."""

from __future__ import annotations

import itertools
import re

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
ANCHORED = ("anchored", "anchored-stated")
JUDGING = tuple(role for role in ROLE_OUTCOMES if role != "reward")  # which asks for no answer
WRITING = ("worst", "best", "between")
PAIRS = sorted(SHIPPED)
OF_ALL_TASKS = sorted(set(ROLES) - {"subject"})
WITH_BACKGROUND = ("dialogue", "open")

# Slots in the order in which they stand in the text, repeats included, read off the tables of arXiv 2509.05440,
# appendix C (title -> dimension, description, article / conversation / story prompt -> context, icl -> reference).
# Added to the tables by this project: `background` after the conversation (the facts the speakers were given), the
# context in the story yes/no prompt (Table 18 has none), and the criterion in the yes/no prompts, whose tables put
# its name into the words of the claim.
CONTEXT = {
    "summarization": ("context",),
    "dialogue": ("context", "background"),
    "story": ("context",),
}
CRITERION = ("dimension", "description")
BY_TABLE = {
    **{
        (task, role): (*CRITERION, *context)  # Tables 7, 8, 9
        for task, context in CONTEXT.items()
        for role in ("worst", "best")
    },
    ("summarization", "between"): (*CRITERION, "lower", "higher", "context"),  # Table 10
    ("dialogue", "between"): (*CRITERION, "context", "background", "lower", "higher"),  # Table 11
    ("story", "between"): (*CRITERION, "context", "lower", "higher"),  # Table 12
    **{
        # Tables 13, 14, 15: the dimension in the instruction, in the criteria and in the third step.
        (task, "compare"): ("dimension", *CRITERION, "dimension", *context, "reference", "target")
        for task, context in CONTEXT.items()
    },
    **{
        # Tables 16, 17 and 18: context, text 1 = target, text 2 = reference, the question.
        (task, "compare-yesno"): (*context, "target", "reference", *CRITERION, "dimension", "claim")
        for task, context in CONTEXT.items()
    },
}

# arXiv 2307.07889, section 3.3: w_i = "Summary A", w_j = "Summary B"; figure 2: other words for other texts.
NOUNS = {
    "summarization": "Summary",
    "dialogue": "Response",
    "story": "Story",
    "data-to-text": "Text",
    "open": "Response",
    "document": "Document",
}
LABELS = {
    "compare": ("Better", "Worse", "Similar"),  # Tables 13 to 15, in their order
    "compare-shared": ("Better", "Worse", "Similar"),
    "compare-yesno": ("Yes", "No"),  # Tables 16 to 18
    "direct-5": ("1", "2", "3", "4", "5"),
    "direct-10": ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10"),
    "direct-100": tuple(map(str, range(1, 101))),
    **dict.fromkeys(("rating", "anchored"), ("1", "2", "3", "4", "5")),
    "reward": ("win", "loss"),  # asked of no model: they name the two log-probabilities of a reward
    "verifier": tuple("TSRQPONMLKJIHGFEDCBA"),  # arXiv 2607.05391: A is the best
}


def plain(task, role):
    """A template's text with its slots as <name>, put together from the file and not by `fill`."""
    source = (TEMPLATES / task / f"{role}.md").read_text(encoding="utf-8")
    return source.split("+++\n", 2)[2].replace("{{", "<").replace("}}", ">")


def in_order(text, parts):
    """Whether the parts that a text has stand in it in this order."""
    places = [text.rindex(part) for part in parts if part in text]
    return places == sorted(places)


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


def test_what_has_no_table_follows_what_has_one():
    def check(role):
        # Tables 11 and 12 put the context before the bad and the good text, Table 10 behind: two against one.
        assert load_template("data-to-text", role).names == load_template("story", role).names
        assert load_template("open", role).names == load_template("dialogue", role).names

    assert offenders(check, OF_ALL_TASKS) == []
    # G-Eval (direct-5) gives criteria and steps first; prompt scoring and the pairwise prompts (arXiv 2307.07889,
    # figures 2 and 3) give context and texts first and then ask.
    steps = ("dimension", *CRITERION, "dimension", "dimension")
    question = (*CRITERION, "dimension")
    for role, names in (
        ("direct-5", (*steps, "context", "target")),
        ("direct-10", ("context", "target", *question)),
        ("pairwise", ("context", "first", "second", *question)),
    ):
        assert load_template("summarization", role).names == names


def test_labels_are_the_papers_words():
    def check(task, role):
        template = load_template(task, role)
        pairwise = (f"{NOUNS[task]} A", f"{NOUNS[task]} B")
        expected = pairwise if role == "pairwise" else LABELS.get(role, ())
        assert tuple(template.labels.values()) == expected
        assert tuple(template.labels) == ROLE_OUTCOMES.get(role, ())

    assert offenders(check, PAIRS) == []


def test_headings_name_the_texts():
    def check(task):
        noun = NOUNS[task]
        small = noun.lower()
        for role, headings in (
            ("between", f"\nBad {small}:\n<lower>\n\nGood {small}:\n<higher>\n"),
            ("compare", f"\nReference {small}:\n<reference>\n\nTarget {small}:\n<target>\n\n"),
            ("compare-yesno", f"\n{noun} 1:\n<target>\n\n{noun} 2:\n<reference>\n\n"),
            ("pairwise", f"\n{noun} A:\n<first>\n\n{noun} B:\n<second>\n\n"),
            ("direct-5", f"\n{noun}:\n<target>\n\n"),
            ("direct-10", f"\n{noun}:\n<target>\n\n"),
        ):
            assert headings in plain(task, role)
        # The verifier shows the same two texts, named by numbers, since letters are the grades.
        pair = plain(task, "pairwise")
        numbered = pair.replace(f"{noun} A", f"{noun} 1").replace(f"{noun} B", f"{noun} 2")
        assert plain(task, "verifier").startswith(numbered[: numbered.index("\nWhich ")])
        grades = plain(task, "direct-10").replace(" 10 ", " 100 ").replace(" 10:", " 100:")
        assert plain(task, "direct-100") == grades

    assert offenders(check, TASKS) == []


def test_compare_has_the_sections_of_tables_13_to_15_in_order():
    sections = ["You are shown", "Evaluation criteria:\n", "Evaluation steps:\n1. "]
    sections += ["\n2. ", "\n3. ", "\n4. ", "<context>", "Reference ", "Target ", 'Answer "Better"']

    def check(task):
        text = plain(task, "compare")
        assert [section for section in sections if section not in text] == []
        assert in_order(text, sections)

    assert offenders(check, sorted(set(TASKS) - {"document"})) == []


def test_no_task_speaks_of_another_tasks_text():
    def check(task, role):
        # The dialogue and story prompts of Tables 9, 14 and 15 speak of news articles and summaries.
        others = "article|summar|document|news" + ("" if task == "story" else r"|\bstor(?:y|ies)\b")
        assert re.findall(others, plain(task, role), re.IGNORECASE) == []

    tasks = sorted(set(TASKS) - {"summarization", "document"})
    assert offenders(check, itertools.product(tasks, OF_ALL_TASKS)) == []


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
        together = role == "rating-together"
        criterion = "<criteria>\n" if together else "<dimension>: <description>\n"
        assert (criterion in text) == (role != "subject")
        assert re.match(r"[A-Z][^<>\n]*(?:<dimension>)?\.", text), "starts with a sentence"

    assert offenders(check, PAIRS) == []


def test_a_judging_prompt_ends_with_a_line_that_names_the_answers():
    def check(task, role):
        template = load_template(task, role)
        last = plain(task, role).rstrip("\n").split("\n")[-1]
        assert last.startswith("Answer ")
        assert last.endswith(":")
        assert "<" not in last
        if role.startswith(("direct", "rating", "anchored")):
            assert last == f"Answer with one whole number from 1 to {len(template.labels)}:"
        elif role == "verifier":
            assert last == "Answer with one letter from A to T:"
        else:
            assert re.findall(r'"([^"]+)"', last) == list(template.labels.values())

    assert offenders(check, itertools.product(TASKS, JUDGING)) == []


def test_a_writing_prompt_asks_for_the_text_alone_and_ends_with_material():
    def check(task, role):
        text = plain(task, role)
        assert f"\nGive only the {NOUNS[task].lower()}: no title, no remark " in text
        assert "It must not be empty" in text
        length = r"at most\.|under 150 words|no longer than 200 words"
        assert re.search(length, text), "says how long"
        assert text.endswith(">\n")

    assert offenders(check, itertools.product(TASKS, WRITING)) == []


def test_worst_and_best_differ_only_in_what_they_are_to_be():
    fail = "let it fail on this dimension as badly as it can"

    def check(task):
        worst = plain(task, "worst").replace("worst", "best").replace("low end", "high end")
        worst = worst.replace(fail, "leave nothing to improve on this dimension")
        assert worst == plain(task, "best")

    assert offenders(check, TASKS) == []


def test_claims_read_well_in_the_question():
    claims = {"win": "better than", "loss": "worse than", "tie": "about as good as"}
    slots = {name: name for name in ROLES["compare-yesno"] if name != "claim"}

    def check(task, claim):
        noun = NOUNS[task]
        text = fill(load_template(task, "compare-yesno"), slots, claim).text
        question = f"Judged on dimension alone, is {noun} 1 {claims[claim]} {noun} 2?"
        assert question in text.split("\n")

    assert offenders(check, itertools.product(TASKS, claims)) == []


def test_an_empty_background_still_reads_well():
    def check(task, role):
        assert "\n\nBackground (empty if there is none):\n<background>\n" in plain(task, role)

    roles = sorted(set(OF_ALL_TASKS) - {"compare-shared", "stated-shared", *ANCHORED})
    assert offenders(check, itertools.product(WITH_BACKGROUND, roles)) == []


def shares(task, role):
    """Check that the row and the rung of a shared set have contexts of their own, if the task has any."""
    text = plain(task, role)
    assert ("<context>" in text) == ("<reference_context>" in text) == (task != "document")
    backgrounds = task in WITH_BACKGROUND
    assert ("<background>" in text) == ("<reference_background>" in text) == backgrounds
    assert ("and judge each by its own " in text) == (task != "document")
    return text


def test_compare_shared_shows_the_row_first_and_the_rung_with_its_own_context_last():
    row = ["<context>", "<background>", "<target>"]
    rung = ["<reference_context>", "<reference_background>", "<reference>"]

    def check(task):
        text = shares(task, "compare-shared")
        assert in_order(text, row + rung)
        if task != "document":
            assert " of the target " in text.split("<context>")[0].rsplit("\n\n", 1)[1]
            assert " of the reference " in text.split("<reference_context>")[0].rsplit("\n\n", 1)[1]

    assert offenders(check, TASKS) == []


def test_a_documents_prompts_show_it_alone():
    def names(role):
        return set(load_template("document", role).names)

    for role in ROLE_OUTCOMES:
        assert not {"context", "background", "reference_context"} & names(role)
    for role in WRITING:  # the subject, and the limit of words
        assert {"context", "background"} < names(role)
    assert names("subject") == {"target"}


def test_stated_shows_the_references_before_the_target_and_ends_with_the_form_of_the_answer():
    own = ["<context>", "<background>"]
    orders = {
        "stated": [*own, "<references>", "<target>"],
        "stated-shared": [
            *("<reference_context>", "<reference_background>"),
            *("<references>", *own, "<target>"),
        ],
    }
    form = 'the letter, a colon and a number from 0 to 100, in the form "A: number":\n'

    def check(task, role):
        text, noun = plain(task, role), NOUNS[task].lower()
        assert in_order(text, orders[role])
        assert all(text.count(slot) <= 1 for slot in orders[role])
        target = f"\nTarget {noun}:\n<target>\n\nAnswer with one line for each reference {noun}, "
        assert target in text
        assert text.endswith(form)
        if role == "stated-shared":
            shares(task, role)

    assert offenders(check, itertools.product(TASKS, orders)) == []


def test_a_rating_names_the_ends_of_the_scale_and_shows_what_it_shares_first():
    ends = ("\n1 is the worst: ", "\n5 is the best: ")
    last = {
        "rating-stated": 'Answer with five lines from "1: number" to "5: number", in percent:',
        "rating-together": "Answer for each criterion with its name and five lines "
        'from "1: number" to "5: number", in percent:',
    }

    def check(task, role):
        text, noun = plain(task, role), NOUNS[task]
        own = ["<context>", "<background>", "<target>"]
        examples = ["<reference_context>", "<reference_background>", "<examples>"]
        general = [*ends, "steps:\n"]
        criterion = "<criteria>" if role == "rating-together" else "<dimension>: <description>"
        heading, after = noun, ""
        if role in {"rating", "rating-stated"}:
            # Criteria share all that comes before theirs, so it names none and is asked for once.
            order = [*general, *own, criterion]
            assert text.count("<dimension>") == 1
            after = f"Criterion:\n{criterion}\n\n"
        else:
            # All rows share criteria and examples.
            order = ["Evaluation criteria:\n", criterion, *general, *examples, *own]
        if role in ANCHORED:
            heading = f"Target {noun.lower()}"
        assert in_order(text, order)
        assert [part for part in (criterion, *ends, "<target>") if part not in text] == []
        assert f"\n{heading}:\n<target>\n\n{after}{last.get(role, 'Answer with ')}" in text
        stated = role not in {"rating", "anchored"}
        assert ("the rating, a colon and its probability in percent" in text) == stated
        assert ('"1: number"' in text) == stated
        # A row of a shared set may have no context.
        if task != "document":
            assert " (empty if there is none):\n<context>\n" in text

    roles = ("rating", "rating-stated", "rating-together", *ANCHORED)
    assert offenders(check, itertools.product(TASKS, roles)) == []
    for task, role in itertools.product(TASKS, ("rating", "anchored")):
        # Both forms of a question differ in what they ask for, and in nothing that they show.
        whole, stated = plain(task, role), plain(task, f"{role}-stated")
        assert whole.split("Evaluation steps:")[0] == stated.split("Evaluation steps:")[0]
        shown = re.compile(r"\n\n[^\n]+:\n<.*>\n\n(?=Answer)", re.DOTALL)
        found = [shown.search(text.split("steps:")[1])[0] for text in (whole, stated)]
        assert found[0] == found[1]
