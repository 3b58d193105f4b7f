"""Attempts in written answers: the last one counts, or nothing does. A draft never wins, in whatever form the last is."""

from __future__ import annotations

import random

import pytest

from refladder.scoring.modes.rating_answer import stated_ratings, stated_ratings_of
from refladder.scoring.modes.stated_answer import stated_numbers

RATINGS = "12345"
BETWEEN = [
    "",
    "But it has no plot, so the final answer is:",
    "On reflection:",
    "Final answer:",
    "**Final ratings**",
    "Wait, no.",
    "So:",
    "Revised",
    "Hmm.\nIt has no plot at all, as I see now.",
    "I looked at it again.",
]
FORMS = {
    "a further line": lambda key, value: f"{key}: {value}",
    "a range": lambda key, value: f"{key}: {value}-{value + 5}",
    "a range in words": lambda key, value: f"{key}: {value} to {value + 5}",
    "decimal commas": lambda key, value: f"{key}: {value},5",
    "a list": lambda key, value: f"{key}. {value}%",
    "a hedge": lambda key, value: f"{key}: about {value}",
    "remarks": lambda key, value: f"{key}: {value} (clear enough)",
    "two numbers": lambda key, value: f"{key}: {value}, was {value + 1}",
    "no colon": lambda key, value: f"{key} {value}%",
    "tabs": lambda key, value: f"{key}\t{value}",
    "words": lambda key, value: f"{key}: {'ninety-five' if value > 50 else 'none'}",
    "below 0": lambda key, value: f"{key}: -{value + 1}",
    "shares": lambda key, value: f"{key}: {value / 100}",
    "scales": lambda key, value: f"{key}/5: {value}",
    "numbers alone": lambda _key, value: f"{value}",
}


def lines(keys, values, form="{}: {}"):
    return "\n".join(form.format(key, value) for key, value in zip(keys, values, strict=True))


def percentages(source):
    """Five whole percentages that add to 100."""
    cuts = sorted(source.randrange(101) for _ in range(4))
    return [after - before for before, after in zip([0, *cuts], [*cuts, 100], strict=True)]


def another(source, keys, draft, form):
    """A text with a draft, and an attempt with other numbers behind it, which is not as it was asked for."""
    values = [(value + source.randrange(1, 90)) % 100 for value in draft]
    last = "\n".join(map(FORMS[form], keys, values))
    if form == "a further line":
        last += "\n6: 0" if keys == RATINGS else "\nZ: 0"
    between = source.choice(BETWEEN)
    gap = source.choice(["\n", "\n\n"])
    return gap.join(filter(None, [lines(keys, draft), between, last])) + source.choice(
        ["", "\n\nYes."]
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_draft_never_wins(form):
    source = random.Random(form)  # noqa: S311  no secret
    for _ in range(100):
        draft = percentages(source)
        assert isinstance(stated_ratings(another(source, RATINGS, draft, form)), str)
        letters = "ABCDE"[: source.randrange(2, 6)]
        numbers = [source.randrange(101) for _ in letters]
        read = stated_numbers(another(source, letters, numbers, form), letters)
        # Remarks and commas are read, in the last attempt.
        assert isinstance(read, str) or not set(read) & set(numbers) or form == "remarks"
        assert read != numbers
        named = f"clarity\n{lines(RATINGS, percentages(source))}\n\nplot\n"
        answer = named + another(source, RATINGS, draft, form)
        assert isinstance(stated_ratings_of(answer, ["clarity", "plot"])["plot"], str)


def test_an_answer_that_was_cut_in_a_later_attempt_counts_for_nothing():
    source = random.Random(1)  # noqa: S311  no secret
    for _ in range(300):
        first, last = percentages(source), lines(RATINGS, percentages(source))
        between = source.choice(BETWEEN)
        whole = f"{lines(RATINGS, first)}\n\n{between}\n\n{last}"
        # At least the first line of the last attempt has begun, and its last line has not ended.
        cut = whole[: len(whole) - source.randrange(1, len(last) - 1)]
        assert stated_ratings(cut, ended=False).endswith("(the answer was cut at the limit)")
        of_names = stated_ratings_of(f"clarity\n{cut}", ["clarity"], ended=False)
        assert isinstance(of_names["clarity"], str)


DRAFT = "1: 0\n2: 0\n3: 0\n4: 5\n5: 95"
BEHIND = "nothing to read after "


@pytest.mark.parametrize(
    ("behind", "reason"),
    [
        ("\nBut it has no plot, so the final answer is:\n1: 95\n2: 5\n3: 0\n4: 0", "no line for 5"),
        ("\n6: 0", "a line for 6, and ratings are 1 to 5"),
        ("\n\n1: 95", "no line for 2, 3, 4, 5"),
        ("\n\nFinal rating:\nfour", BEHIND + "'Final rating:'"),
        ("\n\nMy final rating is 1.", BEHIND + "'My final rating is 1.'"),
        ("\n... but I cannot rate this text.", "a refusal: '... but I cannot rate this tex'"),
        (
            "\n\nI'm sorry, but I am unable to judge it.",
            "a refusal: 'Im sorry, but I am unable to j'",
        ),
        ("\n\n95, 5, 0, 0, 0", "no single number in '95, 5, 0, 0, 0'"),
        ("\n\nso 1: 95 2: 5 3: 0 4: 0 5: 0", "no single number in 'so 1: 95 2: 5 3: 0 4: 0 5: 0'"),
    ],
)
def test_what_is_behind_a_draft(behind, reason):
    assert stated_ratings(DRAFT + behind).replace('"', "'") == reason


def test_an_example_is_no_answer():
    answer = f"For example, one could write:\n{DRAFT}"
    assert stated_ratings(answer) == "an example and no answer: 'For example, one could write:'"


def test_an_only_attempt_before_a_cut_explanation_counts():
    assert stated_ratings(f"Final ratings:\n\n{DRAFT}\n\nIt is cle", ended=False) == [
        0,
        0,
        0,
        0.05,
        0.95,
    ]
    again = f"{DRAFT}\n\nOn reflection:\n{DRAFT}\n\nIt is cle"
    reason = "2 attempts, and only the last one counts (the answer was cut at the limit)"
    assert stated_ratings(again, ended=False) == reason
    assert stated_numbers("A: 1\nB: 2\n\nFinal answer:\nA: 3", "AB", ended=False) == reason


def test_a_remark_counts_in_an_only_attempt():
    remarks = lines(RATINGS, [0, 0, 0, 5, 95], "{}: {} (as I see it)")
    assert stated_ratings(remarks) == [0, 0, 0, 0.05, 0.95]
    reason = "an earlier attempt, and a last one with other text behind its numbers"
    assert stated_ratings(f"{DRAFT}\n\n{remarks}") == reason


TONE = "1: 10\n2: 20\n3: 30\n4: 30\n5: 10"


@pytest.mark.parametrize(
    ("behind", "left"),
    [
        # a second block of one criterion
        (f"clarity\n{TONE}", {"clarity": [0.1, 0.2, 0.3, 0.3, 0.1]}),
        ("clarity\n1: 95\n2: 5", {"clarity": "no line for 3, 4, 5"}),
        ("clarity\n1: 95", {"clarity": "no line for 2, 3, 4, 5"}),
        ("On reflection, clarity:\n1: 95\n2: 5", {"clarity": BEHIND + "'On reflection, clarity:'"}),
        # of the one above, or of another one without its name
        (TONE, {"tone": "no lines with a percentage for each rating from 1 to 5"}),
        (
            "It is rude after all, I see.\n1: 95\n2: 5",
            {"tone": BEHIND + "'It is rude after all, I see.'"},
        ),
        # of all
        (
            "Final answer:\n1: 95\n2: 5",
            dict.fromkeys(["clarity", "tone"], BEHIND + "'Final answer:'"),
        ),
        # of a criterion that was not asked
        (f"length\n{TONE}", {}),
        ("clarity: it is clear, as all can see.", {}),
    ],
)
def test_the_last_attempt_counts_for_each_criterion(behind, left):
    found = stated_ratings_of(f"clarity\n{DRAFT}\n\ntone\n{TONE}\n\n{behind}", ["clarity", "tone"])
    read = {"clarity": [0, 0, 0, 0.05, 0.95], "tone": [0.1, 0.2, 0.3, 0.3, 0.1]}
    assert found == read | left


def test_long_answers_take_no_time():
    for piece in (
        "1",
        "1: ",
        ", ",
        " ",
        "1:1,",
        "{",
        "- ",
        "1 - ",
        "\n",
        "1:1\n",
        "1:1\n\n",
        "A:1\n",
        "the final ",
        ":",
    ):
        answer = piece * (30_000 // len(piece))
        assert isinstance(stated_ratings(answer), str)
        assert isinstance(stated_numbers(answer, "ABC"), str)
        assert isinstance(stated_ratings_of(answer, ["a", "b"])["a"], str)
