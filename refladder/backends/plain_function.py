"""A Python function as a judge: it gets questions with texts instead of prompts."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from refladder.backends.protocol import Backend
from refladder.errors import BackendError, UsageError, raised
from refladder.records import LOSS, OUTCOMES, TIE, WIN, LabelReading, digest_of, log_of

if TYPE_CHECKING:
    from refladder.records import Completion, Prompt, Sampling

# How far rounded probabilities may add to another number than 1.
_SLACK = 0.01
# Slots of the two texts, by role.
_TEXTS = {
    "compare": ("target", "reference"),
    "compare-shared": ("target", "reference"),
    "pairwise": ("first", "second"),
}
_SHOWN = (
    "context",
    "background",
    "dimension",
    "description",
    "reference_context",
    "reference_background",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeQuestion:
    """A comparison that a function is asked for: is `output` better than `reference`?

    Attributes:
        context: the text that both texts are about; with a shared set, that of `output`, or "" if it has none.
        background: further knowledge about the context, or "".
        output: the text in question.
        reference: the text that it is compared with: a rung, or another output.
        dimension: the name of the quality in question.
        description: what that quality is, from the worst to the best.
        reference_context: with a shared set, the context of `reference`; else "".
        reference_background: likewise, its background.
    """

    context: str
    background: str
    output: str
    reference: str
    dimension: str
    description: str
    reference_context: str = ""
    reference_background: str = ""


Judge = Callable[[Sequence[JudgeQuestion]], Sequence[Mapping[str, float]]]


class FunctionJudge(Backend):
    """A function as a backend: it gets questions, and returns the probabilities of `win`, `loss` and `tie` of each."""

    def __init__(self, function: Judge) -> None:
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._fingerprint = f"function:{_identity(function, self._name)}"

    @property
    def fingerprint(self) -> str:
        """Return `function:` and the name of the function."""
        return self._fingerprint

    @property
    def answering(self) -> None:
        """Return None: a function writes nothing."""

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Raise UsageError: a function writes nothing."""
        raise UsageError(
            f"{self._name} is a function that judges and writes no texts; give a ladder set or a writer, and answers=0"
        )

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Return the log-probabilities that the function gives to the outcomes of `labels`, for each prompt."""
        questions = [self._question(prompt) for prompt in prompts]
        try:
            answers: object = self._function(questions)
        # A function that ends the program would end the run without a word.
        except (Exception, SystemExit) as error:
            raise BackendError(f"{self.fingerprint} {raised(error)}") from error
        if not isinstance(answers, list | tuple) or len(answers) != len(questions):
            returned = type(answers).__name__
            if isinstance(answers, list | tuple):
                returned = f"{len(answers)} answers"
            raise BackendError(
                f"{self.fingerprint} returned {returned} for {len(questions)} questions; return a list with one answer "
                "for each, in order"
            )
        readings = []
        for answer, prompt in zip(answers, prompts, strict=True):
            readings.append(self._reading(answer, prompt, labels))
        return readings

    def _question(self, prompt: Prompt) -> JudgeQuestion:
        if prompt.role not in _TEXTS:
            raise UsageError(
                f"{self._name} is a function that compares two texts, and {prompt.role!r} asks for something else; "
                "leave out yes_no, ratings (answers) and methods that grade one text"
            )
        shown = {name: prompt.slots.get(name, "") for name in _SHOWN}
        output, reference = (prompt.slots[name] for name in _TEXTS[prompt.role])
        return JudgeQuestion(output=output, reference=reference, **shown)

    def _reading(self, answer: object, prompt: Prompt, labels: Sequence[str]) -> LabelReading:
        shares = _shares(answer)
        if isinstance(shares, str):
            return LabelReading(reason=f"{self._name} gave {shares}")
        if TIE not in prompt.outcomes:
            shares = {outcome: shares[outcome] + shares[TIE] / 2 for outcome in (WIN, LOSS)}
        meaning = dict(zip(prompt.labels, prompt.outcomes, strict=True))
        logprobs = tuple(log_of(shares[meaning[label]]) for label in labels)
        return LabelReading(logprobs=logprobs, mass=1.0)


def _shares(answer: object) -> dict[str, float] | str:
    """Return the probability of each outcome, or what is wrong with the answer."""
    if not isinstance(answer, Mapping):
        return f"{answer!r:.60}; an answer has the probabilities of win, loss and tie"
    shares = {}
    for outcome in OUTCOMES:
        value = answer.get(outcome)
        if (
            isinstance(value, bool)
            or not isinstance(value, numbers.Real)
            or not 0 <= float(value) <= 1
        ):
            return f"{value!r:.60} as the probability of {outcome}"
        shares[outcome] = float(value)
    total = sum(shares.values())
    if abs(total - 1) > _SLACK:
        return f"probabilities that add to {total:g}, not 1"
    return {outcome: share / total for outcome, share in shares.items()}


def _identity(function: Judge, name: str) -> str:
    given = getattr(function, "fingerprint", None)
    if given is not None:
        if not isinstance(given, str) or given.splitlines() != [given] or "|" in given:
            raise UsageError(
                f"{name}.fingerprint must be one line of text without '|', found {given!r:.80}"
            )
        return given
    try:
        source = inspect.getsource(function)
        around = ", ".join(map(repr, inspect.getclosurevars(function).nonlocals))
    except (OSError, TypeError):
        source, around = "", ""
    if around or not source:
        problem = f"it uses {around} from around it" if around else "its source cannot be read"
        raise UsageError(
            f"{name}: {problem}, so nothing identifies it; name it: JUDGE.fingerprint = 'NAME'"
        )
    return f"{name}@{digest_of(source, size=6)}"
