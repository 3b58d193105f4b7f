import math
from dataclasses import replace

import pytest

from refladder.backends.scripted import Rule, Scripted
from refladder.errors import BackendError, LabelsUnavailableError
from refladder.records import Completion, LabelReading
from refladder.testing import check_backend

RULES = [
    Rule(role="worst", texts=("rain", "more rain")),
    Rule(role="best", text="The baker gives bread away."),
    Rule(role="between", text="Tools are lent."),
    Rule(role="compare", contains={"target": "storm"}, answer={"win": -0.1, "loss": -4, "tie": -3}),
    Rule(role="compare", contains={"target": "Bread"}, answer={"win": -4, "loss": -0.2, "tie": -3}),
    Rule(role="compare", answer={"win": -0.5, "loss": -3, "tie": -2}),
]


class Honest(Scripted):
    """The scripted backend, to be broken in one place by each subclass."""

    def __init__(self, rules=tuple(RULES)):
        super().__init__(rules)


def test_a_scripted_backend_keeps_the_contract():
    check_backend(Honest())


def test_rows_that_fail_with_a_reason_keep_the_contract():
    check_backend(Honest([Rule(role="best", text="Bread."), Rule(role="worst", finish="length")]))


class OtherFingerprint(Honest):
    def __init__(self, fingerprint):
        super().__init__()
        self._fingerprint = fingerprint

    @property
    def fingerprint(self):
        return self._fingerprint


@pytest.mark.parametrize("fingerprint", ["", "a|b", "a\nb", "a\n", "a\u2028b", 3, None])
def test_a_fingerprint_is_one_line_without_bars(fingerprint):
    with pytest.raises(BackendError, match=r"a fingerprint is one line of text without '\|'"):
        check_backend(OtherFingerprint(fingerprint))


class Counting(Honest):
    calls = 0

    @property
    def fingerprint(self):
        return f"counting {self.calls}"

    def write(self, prompts, sampling):
        self.calls += 1
        return super().write(prompts, sampling)


def test_a_fingerprint_stays():
    with pytest.raises(
        BackendError,
        match="'counting 0': the fingerprint changed with use to 'counting 5'; it must",
    ):
        check_backend(Counting())


def test_what_lacks_a_method_is_no_backend():
    with pytest.raises(
        BackendError, match=r"object: a backend is a subclass of refladder\.backends\.Backend"
    ):
        check_backend(object())


def test_a_backend_that_gives_no_labels_says_so_itself():
    class WriterOnly(Honest):
        def read_labels(self, _prompts, _labels):
            raise LabelsUnavailableError("this service gives no log-probabilities")

    with pytest.raises(LabelsUnavailableError, match="this service gives no log-probabilities"):
        check_backend(WriterOnly())


def with_texts(change):
    class Broken(Honest):
        def write(self, prompts, sampling):
            return change(prompts, super().write(prompts, sampling))

    return Broken()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda _, texts: texts[1:],
            r"write gave 2 answers for 3 prompts; give one for each, in order",
        ),
        (
            lambda _, texts: (texts * 3)[:3],
            r"write gave 3 answers for 1 prompts; give one for each, in order",
        ),
        (
            lambda _, texts: [text.text for text in texts],
            r"write gave 'more rain'; give a Completion with a text",
        ),
        (
            lambda _, texts: [Completion(text=None) for _ in texts],
            r"write gave Completion\(text=None, .*; give a Completion with a text",
        ),
        (
            lambda _, texts: [Completion(text=text.text, finish="end") for text in texts],
            "finish is one of stop, length, error, found 'end'",
        ),
        (
            lambda _, texts: [Completion(text="", finish="error") for _ in texts],
            "a completion with finish 'error' has no note; say why it failed",
        ),
        (
            lambda _, texts: texts[::-1],
            "the text for the 'worst' prompt depends on its batch or its place in it",
        ),
        (
            lambda prompts, texts: [
                Completion(text=f"{text.text} {len(prompts)}") for text in texts
            ],
            "the text for the 'worst' prompt depends on its batch or its place in it",
        ),
        (
            lambda _, texts: [Completion(text=f"{place}") for place, _ in enumerate(texts)],
            "the text for the 'worst' prompt depends on its batch or its place in it",
        ),
    ],
)
def test_broken_writers_are_found(change, message):
    with pytest.raises(BackendError, match=rf"^backend 'scripted@\w+': {message}"):
        check_backend(with_texts(change))


def with_readings(change):
    class Broken(Honest):
        def read_labels(self, prompts, labels):
            return change(prompts, super().read_labels(prompts, labels))

    return Broken()


def shifted(reading, step):
    return LabelReading(
        logprobs=tuple(value - step for value in reading.logprobs), mass=reading.mass
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda _, found: found[1:],
            "read_labels gave 2 answers for 3 prompts; give one for each, in order",
        ),
        (
            lambda _, found: [one.logprobs for one in found],
            r"read_labels gave \(.*\); give a LabelReading",
        ),
        (
            lambda _, found: [LabelReading(logprobs=None, mass=None) for _ in found],
            "a reading without logprobs has no reason; say why it could not be read",
        ),
        (
            lambda _, found: [replace(one, reason="low mass") for one in found],
            "a reading with logprobs has the reason 'low mass' for their absence; put text for people in `note`",
        ),
        (
            lambda _, found: [replace(one, exactness="roughly") for one in found],
            "exactness is one of exact, bounded, sampled, found 'roughly'",
        ),
        (
            lambda _, found: [
                LabelReading(logprobs=one.logprobs[:2], mass=one.mass) for one in found
            ],
            "2 logprobs for 3 labels; give one for each",
        ),
        (
            lambda _, found: [
                LabelReading(logprobs=(0.0, -math.inf, -math.inf), mass=1.0) for _ in found
            ],
            r"log-probabilities that are not finite: \(0.0, -inf, -inf\); a row that cannot be read has None",
        ),
        (
            lambda _, found: [LabelReading(logprobs=(-0.5, -0.5, -0.5), mass=1.0) for _ in found],
            "label probabilities that add to 1.82, more than 1; a row that cannot be read has None and a reason",
        ),
        (
            lambda _, found: [LabelReading(logprobs=one.logprobs, mass=1.1) for one in found],
            r"mass is the probability of all labels together, in \[0, 1\], found 1.1",
        ),
        (
            lambda _, found: [LabelReading(logprobs=one.logprobs, mass=math.nan) for one in found],
            r"mass is the probability of all labels together, in \[0, 1\], found nan",
        ),
        (
            lambda _, found: [LabelReading(logprobs=one.logprobs, mass=None) for one in found],
            r"mass is the probability of all labels together, in \[0, 1\], found None",
        ),
        (
            lambda prompts, found: (
                found
                if len(prompts) > 1
                else [
                    LabelReading(logprobs=found[0].logprobs[:2], mass=found[0].mass)
                ]  # right in a batch, not alone
            ),
            "the reading of prompt 1 depends on its batch or its place in it by more than 1e-06",
        ),
        (
            lambda _, found: found[::-1],
            "the reading of prompt 1 depends on its batch or its place in it by more than",
        ),
        (
            lambda prompts, found: [shifted(one, 0.001 * len(prompts)) for one in found],
            "the reading of prompt 1 depends on its batch or its place in it by more than 1e-06",
        ),
    ],
)
def test_broken_judges_are_found(change, message):
    with pytest.raises(BackendError, match=rf"^backend 'scripted@\w+': {message}"):
        check_backend(with_readings(change))


def test_a_judge_that_forgets_the_order_of_the_labels_is_found():
    class Fixed(Honest):
        def read_labels(self, prompts, _labels):
            return super().read_labels(prompts, ("Better", "Worse", "Similar"))

    with pytest.raises(
        BackendError, match="logprobs do not follow the order of the labels that were asked for"
    ):
        check_backend(Fixed())


def test_a_mass_that_rounding_put_above_one_is_allowed():
    check_backend(
        with_readings(
            lambda _, found: [LabelReading(logprobs=one.logprobs, mass=1 + 5e-7) for one in found]
        )
    )


def test_the_tolerance_lets_half_precision_move_a_little():
    wavering = with_readings(
        lambda prompts, found: [shifted(one, 0.001 * len(prompts)) for one in found]
    )
    check_backend(wavering, tolerance=0.01)
