"""The contract of backends: what breaks it is told."""

import math
from dataclasses import replace

import pytest

from refladder.backends.scripted import Rule, Scripted
from refladder.errors import BackendError, LabelsUnavailableError
from refladder.records import Completion
from refladder.testing import check_backend

RULES = [
    Rule(role="worst", texts=("rain", "more rain")),
    Rule(role="best", text="The baker gives bread away."),
    Rule(role="between", text="Tools are lent."),
    Rule(role="compare", contains={"target": "storm"}, answer={"win": -0.1, "loss": -4, "tie": -3}),
    Rule(role="compare", contains={"target": "Bread"}, answer={"win": -4, "loss": -0.2, "tie": -3}),
    Rule(role="compare", answer={"win": -0.5, "loss": -3, "tie": -2}),
]


class Changed(Scripted):
    """The scripted backend with texts and readings that two functions of prompts and answers have changed."""

    def __init__(self, texts=None, readings=None, rules=tuple(RULES)):
        super().__init__(rules)
        self.texts, self.readings = texts, readings

    def write(self, prompts, sampling):
        found = super().write(prompts, sampling)
        return found if self.texts is None else self.texts(prompts, found)

    def read_labels(self, prompts, labels):
        found = super().read_labels(prompts, labels)
        return found if self.readings is None else self.readings(prompts, found)


@pytest.mark.parametrize(
    "rules", [RULES, [Rule(role="best", text="Bread."), Rule(role="worst", finish="length")]]
)
def test_a_scripted_backend_keeps_the_contract_also_where_rows_fail(rules):
    check_backend(Changed(rules=rules))


class OtherFingerprint(Scripted):
    fingerprint = None

    def __init__(self, fingerprint):
        super().__init__(RULES)
        self.fingerprint = fingerprint


@pytest.mark.parametrize("fingerprint", ["", "a|b", "a\nb", "a\n", "a\u2028b", 3, None])
def test_a_fingerprint_is_one_line_without_bars(fingerprint):
    with pytest.raises(BackendError, match=r"a fingerprint is one line of text without '\|'"):
        check_backend(OtherFingerprint(fingerprint))


def test_a_fingerprint_stays():
    class Counting(OtherFingerprint):
        calls = 0

        def write(self, prompts, sampling):
            self.calls += 1
            self.fingerprint = f"counting {self.calls}"
            return super().write(prompts, sampling)

    message = "'counting 0': the fingerprint changed with use to 'counting 5'; it must"
    with pytest.raises(BackendError, match=message):
        check_backend(Counting("counting 0"))


def test_what_lacks_a_method_is_no_backend():
    message = r"object: a backend is a subclass of refladder\.backends\.Backend"
    with pytest.raises(BackendError, match=message):
        check_backend(object())


def test_a_backend_that_gives_no_labels_says_so_itself():
    def unavailable(_prompts, _found):
        raise LabelsUnavailableError("this service gives no log-probabilities")

    with pytest.raises(LabelsUnavailableError, match="this service gives no log-probabilities"):
        check_backend(Changed(readings=unavailable))


def each(**changes):
    """Replace fields of every answer."""
    return lambda _, found: [replace(one, **changes) for one in found]


def numbered(prompts, texts):
    return [Completion(text=f"{text.text} {len(prompts)}") for text in texts]


ONE_EACH = "; give one for each, in order"
DEPENDS = "the text for the 'worst' prompt depends on its batch or its place in it"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, texts: texts[1:], f"write gave 2 answers for 3 prompts{ONE_EACH}"),
        (lambda _, texts: (texts * 3)[:3], f"write gave 3 answers for 1 prompts{ONE_EACH}"),
        (lambda _, texts: [one.text for one in texts], "write gave 'more rain'; give a Completion"),
        (each(text=None), r"write gave Completion\(text=None, .*; give a Completion with a text"),
        (each(finish="end"), "finish is one of stop, length, error, found 'end'"),
        (each(text="", finish="error"), "a completion with finish 'error' has no note; say why it"),
        (lambda _, texts: texts[::-1], DEPENDS),
        (numbered, DEPENDS),
        (lambda _, texts: [Completion(text=str(place)) for place in range(len(texts))], DEPENDS),
    ],
)
def test_broken_writers_are_found(change, message):
    with pytest.raises(BackendError, match=rf"^backend 'scripted@\w+': {message}"):
        check_backend(Changed(texts=change))


def shifted(step):
    """Readings that are the further from their values, the larger the batch is."""

    def shift(prompts, found):
        by = step * len(prompts)
        moved = [[value - by for value in reading.logprobs] for reading in found]
        return [replace(one, logprobs=tuple(row)) for one, row in zip(found, moved, strict=True)]

    return shift


def of_two_labels(prompts, found):
    """Right in a batch, not alone."""
    return found if len(prompts) > 1 else each(logprobs=found[0].logprobs[:2])(prompts, found)


TOO_MUCH = "label probabilities that add to 1.82, more than 1; a row that cannot be read has None"
NOT_FINITE = r"log-probabilities that are not finite: \(0.0, -inf, -inf\); a row that cannot be"
MASS = r"mass is the probability of all labels together, in \[0, 1\], found"
MOVES = "the reading of prompt 1 depends on its batch or its place in it by more than 1e-06"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, found: found[1:], f"read_labels gave 2 answers for 3 prompts{ONE_EACH}"),
        (
            lambda _, found: [one.logprobs for one in found],
            r"read_labels gave \(.*\); give a Label",
        ),
        (each(logprobs=None, mass=None), "a reading without logprobs has no reason; say why it"),
        (
            each(reason="low mass"),
            "a reading with logprobs has the reason 'low mass' for their abs",
        ),
        (each(exactness="roughly"), "exactness is one of exact, bounded, sampled, found 'roughly'"),
        (each(logprobs=(-0.5, -2.0)), "2 logprobs for 3 labels; give one for each"),
        (each(logprobs=(0.0, -math.inf, -math.inf), mass=1.0), NOT_FINITE),
        (each(logprobs=(-0.5, -0.5, -0.5), mass=1.0), TOO_MUCH),
        (each(mass=1.1), f"{MASS} 1.1"),
        (each(mass=math.nan), f"{MASS} nan"),
        (each(mass=None), f"{MASS} None"),
        (of_two_labels, MOVES),
        (lambda _, found: found[::-1], MOVES),
        (shifted(0.001), MOVES),
    ],
)
def test_broken_judges_are_found(change, message):
    with pytest.raises(BackendError, match=rf"^backend 'scripted@\w+': {message}"):
        check_backend(Changed(readings=change))


def test_a_judge_that_forgets_the_order_of_the_labels_is_found():
    class Fixed(Changed):
        def read_labels(self, prompts, _labels):
            return super().read_labels(prompts, ("Better", "Worse", "Similar"))

    message = "logprobs do not follow the order of the labels that were asked for"
    with pytest.raises(BackendError, match=message):
        check_backend(Fixed())


def test_a_mass_that_rounding_put_above_one_is_allowed():
    check_backend(Changed(readings=each(mass=1 + 5e-7)))


def test_the_tolerance_lets_half_precision_move_a_little():
    check_backend(Changed(readings=shifted(0.001)), tolerance=0.01)
