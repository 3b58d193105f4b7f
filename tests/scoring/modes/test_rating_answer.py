"""Reading five percentages out of an answer, and the reason where they cannot be read."""

from __future__ import annotations

import json
import re

import pytest

from refladder.scoring.modes.rating_answer import stated_ratings, stated_ratings_of

LINES = "1: 5\n2: 10\n3: 25\n4: 40\n5: 20"
SHARES = pytest.approx([0.05, 0.10, 0.25, 0.40, 0.20])
SIXTY = "1: 0\n2: 0\n3: 20\n4: 60\n5: 20"


@pytest.mark.parametrize(
    "answer",
    [
        LINES,
        LINES.replace("\n", "%\n") + " %",
        f"Here is my rating.\n\n{LINES}\n\nI hope that this helps.",
        LINES.replace("\n", "\n\n"),
        "5: 20\n4: 40\n3: 25\n2: 10\n1: 5",
        "**1**: 5\n**2**: 10\n**3**: 25\n**4**: 40\n**5**: 20",
        "| 1 | 5 |\n| 2 | 10 |\n| 3 | 25 |\n| 4 | 40 |\n| 5 | 20 |",
        "| rating | percent |\n|---|---|\n| 1 | 5 |\n| 2 | 10 |\n| 3 | 25 |\n| 4 | 40 |\n| 5 | 20 |",
        '{"1": 5, "2": 10, "3": 25, "4": 40, "5": 20}',
        "1: 5, 2: 10, 3: 25, 4: 40, 5: 20",
        "Rating 1: 5\nRating 2: 10\nRating 3: 25\nRating 4: 40\nRating 5: 20",
        "1: 5.0\n2: 10.00\n3: 25\n4: 40\n5: 20",
        "<think>\n1: 100\n2: 0\n3: 0\n4: 0\n5: 0\n</think>\n" + LINES,
        # a first thought, and the answer
        f"{SIXTY}\n\nOn reflection:\n{LINES}",
        f"{SIXTY}\n\n{LINES}",
        # numbered lists are no blocks
        f"1. It is clear.\n2. It is short.\n3. It is kind.\n4. It is late.\n5. It ends.\n\n{LINES}",
        f"{LINES}\n\n1. It is clear.\n2. It is short.\n3. It is kind.\n4. It is late.\n5. It ends.",
        # nor are those of percentages before the answer
        f"The text says:\n1. 20%\n2. 20%\n3. 20%\n4. 20%\n5. 20%\n\n{LINES}",
        "(1): 5%\n(2): 10%\n(3): 25%\n(4): 40%\n(5): 20%",
        # one line is no attempt
        f"{LINES}\n\nFinal answer:\n{LINES}",
        f"{LINES}\n\nThe chapters:\n3: 43",
        # remarks and decimal commas, in an only block
        "1: 5 (too low)\n2: 10 perhaps\n3: 25 - plain\n4: 40, I think\n5: 20.",
        "1: 5,0\n2: 10,00\n3: 25\n4: 40\n5: 20",
        # other forms
        "1. 1: 5\n2. 2: 10\n3. 3: 25\n4. 4: 40\n5. 5: 20",
        "\u200b1\uff1a 5\n2\uff1a\u00a010\n3\uff1a \uff12\uff15\n4\uff1a 40\uff05\n5\uff1a 20",
        "<answer>\n" + LINES + "</answer>",
        "<ratings>" + LINES + "</ratings>\nI hope that this helps.",
        LINES + "<|im_end|>",
        "<notes>\n" + SIXTY + "\n</notes>\n" + LINES,
        json.dumps(
            [
                {"rating": rating, "probability": share}
                for rating, share in re.findall(r"(.): (.+)", LINES)
            ],
            indent=1,
        ),
    ],
)
def test_the_last_attempt_counts(answer):
    assert stated_ratings(answer) == SHARES


NINETY = (3.8, 26.7, 18.8, 23.9, 16.8)


@pytest.mark.parametrize(
    ("numbers", "shares"),
    [
        # 5 + 10 + 20 + 40 + 15 = 90, divided by 90
        ((5, 10, 20, 40, 15), [5 / 90, 10 / 90, 20 / 90, 40 / 90, 15 / 90]),
        ((0, 0, 0, 10, 100), [0, 0, 0, 10 / 110, 100 / 110]),
        ((0.5, 0.5, 4, 25.5, 69.5), [0.005, 0.005, 0.04, 0.255, 0.695]),
        ((".5", ".5", 4, 25.5, 69.5), [0.005, 0.005, 0.04, 0.255, 0.695]),
        # their sum in binary is 89.99999999999999
        (NINETY, [each / 90 for each in NINETY]),
    ],
)
def test_sums_from_90_to_110_are_divided_by_their_sum(numbers, shares):
    answer = "\n".join(f"{rating}: {number}" for rating, number in enumerate(numbers, start=1))
    assert stated_ratings(answer) == pytest.approx(shares)


NO_LINES = "no lines with a percentage for each rating from 1 to 5"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", NO_LINES),
        ("4", NO_LINES),
        ("4.5", NO_LINES),
        ("5/5", NO_LINES),
        ("I cannot rate this.", "a refusal: 'I cannot rate this.'"),
        ("1: 5\n2: 10\n3: 25\n4: 60", "no line for 5"),
        ("1: 5\n2: 10\n4: 85", "no line for 3, 5"),
        ("0: 0\n1: 5\n2: 10\n3: 25\n4: 40\n5: 20", "a line for 0, and ratings are 1 to 5"),
        (f"{LINES}\n6: 0", "a line for 6, and ratings are 1 to 5"),
        ("1: 0\n2: 10\n3: 20\n4: 30\n5: 20", "percentages that add to 80, not to 100"),
        ("1: 0.1\n2: 0.1\n3: 0.2\n4: 0.3\n5: 0.3", "shares of 1 and no numbers from 0 to 100"),
        # text between the lines
        ("1: 5\n2: 10\nLet me think again.\n3: 25\n4: 40\n5: 20", "no line for 1, 2"),
        ("1: 5\n2: -10\n3: 25\n4: 40\n5: 20", "below 0 in '2: -10'"),
        ("1. 20%\n2. 20%\n3. 20%\n4. 20%\n5. 20%", "no single number in '1. 20%'"),
        ("1) 20%\n2) 20%\n3) 20%\n4) 20%\n5) 20%", "no single number in '1) 20%'"),
        ("1: 0\n2: 0\n3: 0\n4: 0\n5: 89.99", "percentages that add to 89.99, not to 100"),
        ("1: 0\n2: 0\n3: 0\n4: 0\n5: 110.01", "percentages that add to 110.01, not to 100"),
    ],
)
def test_an_uncertain_answer_is_unparsed_with_its_reason(answer, reason):
    assert stated_ratings(answer) == reason


def test_the_last_line_of_an_answer_that_was_cut_is_not_read():
    assert stated_ratings(LINES, ended=False) == "no line for 5 (the answer was cut at the limit)"
    assert stated_ratings(f"{LINES}\nThe rea", ended=False) == SHARES


GIVEN = {"clarity": LINES, "Tone of voice": SIXTY}
NAMES = list(GIVEN)


@pytest.mark.parametrize(
    "answer",
    [
        f"clarity\n{LINES}\n\nTone of voice\n{SIXTY}",
        f"**Clarity**\n{LINES}\n\n**tone of  voice:**\n\n{SIXTY}",
        f"## Tone of voice\n{SIXTY}\n## Clarity\n{LINES}",
        f"clarity: Muddled to clear.\n{LINES}\nTone of voice: Rude to kind.\n{SIXTY}",
        f"1. Clarity:\n{LINES}\n2. Tone of voice:\n{SIXTY}",
        f"| Clarity |\n{LINES}\n| Tone of voice |\n{SIXTY}",
        f"Sure.\n\nclarity\n{LINES}\nlength\n{SIXTY}\nTone of voice\n{SIXTY}\nThat is all.",
        json.dumps({name: dict(re.findall(r"(.): (.+)", lines)) for name, lines in GIVEN.items()}),
    ],
)
def test_criteria_in_any_order_are_found_by_their_names(answer):
    found = stated_ratings_of(answer, NAMES)
    assert found == {"clarity": SHARES, "Tone of voice": pytest.approx([0, 0, 0.2, 0.6, 0.2])}


def test_an_unparsed_criterion_leaves_the_others_scored():
    found = stated_ratings_of(f"clarity\n1: 5\n2: 95\n\nTone of voice\n{SIXTY}", NAMES)
    assert found["clarity"] == "no line for 3, 4, 5"
    assert found["Tone of voice"] == pytest.approx([0, 0, 0.2, 0.6, 0.2])
    # lines below a criterion that was not asked are not those of the one above
    found = stated_ratings_of(f"clarity\nlength\n{LINES}", NAMES)
    missing = "no line with the name {!r} above five lines of percentages"
    assert found == {name: missing.format(name) for name in NAMES}


def test_criteria_and_numbers_on_one_line_are_not_mixed_up():
    answer = ", ".join(f"clarity\n{LINES}\nTone of voice\n{SIXTY}".split("\n"))
    reason = "the name of a criterion behind a number, and not on a line of its own"
    assert stated_ratings_of(answer, NAMES) == dict.fromkeys(NAMES, reason)
    # Other remarks are read.
    answer = f"clarity\n{LINES.replace('5: 20', '5: 20, surely')}\nTone of voice\n{SIXTY}"
    assert stated_ratings_of(answer, NAMES)["clarity"] == SHARES
