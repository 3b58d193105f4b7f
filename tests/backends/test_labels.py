"""The one answer parser, labels that begin others, counted answers: against hand work."""

import math

import pytest

from refladder.backends.labels import (
    CUT_BEFORE,
    CUT_IN,
    LEAST_REST,
    NEGATED,
    NEVER,
    NO_LABEL,
    REFUSED,
    SEVERAL,
    checked_reading,
    label_in,
    reading_from_sequences,
    reading_from_verdicts,
    without_continuations,
)

LABELS = ("Better", "Worse", "Similar")
STORIES = ("Story A", "Story B")
GRADES = tuple(map(str, range(1, 11)))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Better", 0),
        ("better.", 0),
        ('"Worse"', 1),
        ("**Similar**", 2),
        ("Answer: Worse", 1),
        ("**Answer:** Worse", 1),
        ("Final answer is: Better", 0),
        ("WORSE - the reference is better", 1),
        ("Worse, not better", 1),
        ("The target summary is worse.", 1),
        ('{"verdict": "Similar"}', 2),
        ('```json\n{"answer": {"label": "better"}}\n```', 0),
        ("I would say: similar", 2),
        ("Better. It does not repeat itself.", 0),
        ("Better? Yes.", 0),
        ("Better, or at least not flat", 0),
        ("<think>Worse?</think>Similar", 2),
        ("Better\nThe reference is worse.", 0),
        ("Final answer: Better. The reference is worse.", 0),
        ("Better\n\nFinal answer: Better", 0),
        ("<answer>Worse</answer>", 1),
        ("<verdict>Worse</verdict>\nIt has no plot.", 1),
        ("<notes>Better, or Similar?</notes>\nWorse", 1),
        ("<answer>Better</answer>\nNo.\n<answer>Worse</answer>", 1),
        ("[THINK]Better?[/THINK]Worse", 1),
        ("\u200b**Worse**\u200b", 1),
        ("Worse<|im_end|>", 1),
    ],
)
def test_labels_in_every_dress(text, number):
    assert label_in(text, LABELS) == number


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Mejor", NO_LABEL),
        ("", NO_LABEL),
        ("Betterment", NO_LABEL),
        ("Is it better or worse? Hard to say.", SEVERAL),
        ("Between better and worse", SEVERAL),
        ('["Better", "Worse"]', SEVERAL),
        ("It is not better", NEGATED),
        ("Not better", NEGATED),
        ("No better than the reference", NEGATED),
        ("It isn't any better", NEGATED),
        ("It isn\u2019t any better", NEGATED),
        ("I do not think it is better", NEGATED),
        ("I cannot call it better", NEGATED),
        ("Better is not the word", NEGATED),
        # a choice that is left open
        ("Better or Similar", SEVERAL),
        ("**Better**, or perhaps *Similar*", SEVERAL),
        ("Better / Worse / Similar", SEVERAL),
        ("Better, Worse, or Similar", SEVERAL),
        ("Answer: better|worse", SEVERAL),
        ("Better? No, Worse.", NEGATED),
        ("Better? Hmm. Similar", SEVERAL),
        ("Better? No.", NEGATED),
        # several answers
        ("Better\nWorse\nSimilar", SEVERAL),
        ("Better, Similar", SEVERAL),
        ("Better and Worse", SEVERAL),
        ("- Better\n- **Worse**", SEVERAL),
        ("Better -> Worse", SEVERAL),
        ("Better (Similar)", SEVERAL),
        # a draft, and another answer
        ("Better\n\nFinal answer: Worse", SEVERAL),
        ("Verdict: Better\n\nVerdict: Worse", SEVERAL),
        ("Better. Wait, no: Worse", SEVERAL),
        ("Better.\nOn reflection, the target is worse, as it has no plot.", SEVERAL),
        ("Better. Actually, I would say worse.", SEVERAL),
        ("<notes>Better</notes> I cannot say", NO_LABEL),
        ("For example: Better. But I cannot compare these texts.", REFUSED),
        ("Better\nI'm sorry, I am not able to rate this.", REFUSED),
    ],
)
def test_what_names_no_label_says_why(text, reason):
    assert label_in(text, LABELS) == reason


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Story A", 0),
        ('"Story B".', 1),
        ("**story b** is better than Story A", 1),
        ("I prefer Story B", 1),
        ("B", 1),
        ("a.", 0),
        ("(B)", 1),
        ("Answer: **B**", 1),
        ("B\nIt holds together.", 1),
        ("B - it holds together", 1),
        ('{"choice": "B"}', 1),
        ("Story A and Story B are equal", SEVERAL),
        ("B\nA", SEVERAL),
        ("Both Story A and Story B are good", SEVERAL),
        ("Story A or B", SEVERAL),
        ("Story A/Story B", SEVERAL),
        ("Story B or a story like it", 1),
        ("Story A is not better than Story B", NEGATED),
        ("Story A isn't good", NEGATED),
        ("Not Story A", NEGATED),
        ("Neither", NO_LABEL),
        ("A fine pair", NO_LABEL),
        ("Story Ab", NO_LABEL),
        ("", NO_LABEL),
    ],
)
def test_labels_that_differ_in_their_last_word(text, verdict):
    assert label_in(text, STORIES) == verdict


def test_grades():
    grades = {"10": "10", " 4.\n": "4", "8/10": "8", "8 out of 10": "8", "7 of 10": "7"}
    grades |= {"Score: 4": "4", "**Rating:** 4": "4", "I give this text a score of 4.": "4"}
    grades |= {"5\nbecause it is fine": "5", "5 because it is fine": "5", "5 stars": "5"}
    grades |= {'{"score": 3}': "3"}
    found = {text: label_in(text, GRADES) for text in grades}
    assert found == {text: GRADES.index(grade) for text, grade in grades.items()}


def test_other_numbers_are_no_grade():
    numbers = ["7.5", "7,5", "0.8", "70", "1st", "4-5", "4/5", "11/10"]
    numbers += ["4 errors", "There are 3 errors in this text", "at most 5 tokens"]
    assert [text for text in numbers if label_in(text, GRADES) != NO_LABEL] == []


def test_a_grade_above_the_scale_is_no_label():
    assert label_in("10", GRADES[:5]) == NO_LABEL
    assert label_in("Score: 10", GRADES[:5]) == NO_LABEL


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("C", 2),
        ("**c**.", 2),
        ("The grade is C.", 2),
        ("I", 8),
        ("A: it reads well", 0),
        ("I give it the grade D, as it reads well", 3),
        ('{"grade": "C"}', 2),
        # the words "a" and "I" are no grades
        ("I would give it a C", NO_LABEL),
        ("I'd say C", NO_LABEL),
        ("A good one", NO_LABEL),
        ("The grade is a bit low", NO_LABEL),
        ("C+", NO_LABEL),
        ("U", NO_LABEL),
        ("It has the grade C, or the grade D", SEVERAL),
    ],
)
def test_letters_of_a_scale(text, verdict):
    assert label_in(text, [*"ABCDEFGHIJKLMNOPQRST"]) == verdict


@pytest.mark.parametrize(
    ("text", "labels", "verdict"),
    [
        ("7", GRADES, CUT_IN),  # might have become 7.5, and "1" 10
        ("Score: 7", GRADES, CUT_IN),
        ("I give it a score of 7", GRADES, CUT_IN),
        ("\n7\n", GRADES, 6),  # its line has ended
        ("7. The text", GRADES, 6),
        ("A", STORIES, CUT_IN),  # "A fine pair"
        ("A", [*"ABCDEFGHI"], CUT_IN),  # "A fine pair"
        ("I give it the grade A", [*"ABCDEFGHI"], CUT_IN),  # "A minus"
        ("Story A", STORIES, 0),
        ("Better", LABELS, 0),
        ("Well, let me", LABELS, CUT_BEFORE),
        ("<think>Better? Or", LABELS, CUT_BEFORE),
        ("Better\n\nOn reflection, the", LABELS, CUT_BEFORE),
        ("<notes>\nBetter\nIt", LABELS, CUT_BEFORE),
    ],
)
def test_answers_that_were_cut_off(text, labels, verdict):
    assert label_in(text, labels, ended=False) == verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("I think " + "Better " * 140_000, 0),
        ("<think>" * 140_000, NO_LABEL),
        ("<think><reasoning>" * 50_000 + "</reasoning>Better", NO_LABEL),
        ("```" + " " * 1_000_000 + "x", CUT_BEFORE),
        ("not " * 250_000 + "say", CUT_BEFORE),
        ("I say " + "no way " * 140_000 + "better", CUT_BEFORE),
        ("I say " + "no way " * 14_000 + "better", NEGATED),
        ("Better or " + "or " * 300_000, 0),
    ],
    ids=["one label", "opened", "two kinds", "fence", "negations", "too long", "negated", "or"],
)
def test_answers_of_a_megabyte(text, verdict):
    # A pattern that takes the square of the length needs hours.
    assert label_in(text, LABELS) == verdict


def test_a_megabyte_after_a_word_that_announces_a_grade():
    text = "I score" + " " * 1_000_000
    assert label_in(f"{text}it", GRADES) == CUT_BEFORE
    # what is behind 100,000 characters is not read
    assert label_in(f"{text}7", GRADES) == CUT_BEFORE
    assert label_in("I score" + " " * 90_000 + "7", GRADES) == 6


def test_an_answer_that_goes_on_to_a_longer_label_is_not_the_shorter():
    # p(1) = .4, of which .25 goes on to 10: p(10) = .1, p(1 alone) = .3
    assert math.exp(without_continuations(math.log(0.4), [math.log(0.1)])) == pytest.approx(0.3)
    assert without_continuations(-2.0, []) == -2.0
    # all of it goes on: no probability of 0, whose logarithm is not finite
    assert without_continuations(-2.0, [-2.0]) == pytest.approx(-2.0 + math.log(LEAST_REST))


def test_sequences_that_begin_each_other_by_hand():
    # 1 = .5, 10 = .2, 100 = .05: 1 alone .5 - .2, 10 alone .2 - .05; their sum is p(1 ...) = .5
    logprobs = {(1,): math.log(0.5), (1, 0): math.log(0.2), (1, 0, 0): math.log(0.05)}
    reading = reading_from_sequences([[(1,)], [(1, 0)], [(1, 0, 0)]], logprobs)
    assert [math.exp(value) for value in reading.logprobs] == pytest.approx([0.3, 0.15, 0.05])
    assert reading.mass == pytest.approx(0.5)
    assert reading.exactness == "exact"


def test_spellings_of_one_label_add_up_and_equal_ones_count_once():
    logprobs = {(1,): math.log(0.3), (2,): math.log(0.1), (3,): math.log(0.2)}
    reading = reading_from_sequences([[(1,), (2,), (1,)], [(3,)]], logprobs, cut=True, note="cut")
    assert [math.exp(value) for value in reading.logprobs] == pytest.approx([0.4, 0.2])
    assert (reading.mass, reading.cut, reading.note) == (pytest.approx(0.6), True, "cut")


def test_probabilities_that_add_to_more_than_one_are_no_reading():
    reading = checked_reading([math.log(0.7), math.log(0.6)], mass=1.3, cut=True)
    assert (reading.logprobs, reading.mass, reading.note, reading.cut) == (None, None, None, True)
    told = "the returned probabilities add to 1.30, more than 1; they cannot be trusted"
    assert reading.reason == told
    assert checked_reading([math.log(0.7)], mass=0.7, seen=1.02).logprobs is None
    assert checked_reading([0.0], mass=1.005).mass == 1.0


def verdicts(counts, unparsed=()):
    """So many answers that name each label, and the others, each with its reason."""
    named = [(label, "") for label, count in enumerate(counts) for _ in range(count)]
    return [*named, *unparsed]


def test_shares_of_counted_answers():
    # 20 answers, one unparsed: 12/19, 6/19, 1/19; 19 of 20 name a label
    reading = reading_from_verdicts(verdicts([12, 6, 1], [("refusal", "")]), 3)
    shares = [math.exp(value) for value in reading.logprobs]
    assert shares == pytest.approx([12 / 19, 6 / 19, 1 / 19])
    assert reading.mass == pytest.approx(19 / 20)
    assert reading.exactness == "sampled"
    assert reading.reason is None
    assert reading.note == "1 of 20 answers missing: 1 x refusal"


def test_a_label_that_no_answer_names_has_probability_zero_in_a_softmax():
    reading = reading_from_verdicts(verdicts([3, 0, 0]), 3, note="one vote")
    assert reading.logprobs == (0.0, NEVER, NEVER)
    assert math.exp(NEVER) < 1e-21  # nothing beside the least share of any number of answers
    assert reading.note == "one vote"


def test_no_parsed_answer_is_no_reading():
    unparsed = [("empty answer", ""), ("refusal", "I'd rather not"), ("refusal", "No.")]
    reading = reading_from_verdicts(unparsed, 3)
    assert (reading.logprobs, reading.mass, reading.note) == (None, None, None)
    reasons = '2 x refusal, 1 x empty answer, e.g. "I\'d rather not"'
    assert reading.reason == f"3 of 3 answers unparsed: {reasons}"
