"""A judge that is a plain function of Python: it is asked questions with the texts, not prompts."""

from __future__ import annotations

import hashlib
import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from refladder.backends.protocol import Backend
from refladder.errors import BackendError, UsageError
from refladder.records import IMPOSSIBLE, LOSS, OUTCOMES, TIE, WIN, LabelReading

if TYPE_CHECKING:
    from refladder.records import Completion, Prompt, Sampling

_SLACK = 0.01  # how far rounded probabilities may add to another number than 1
_TEXTS = {"compare": ("target", "reference"), "pairwise": ("first", "second")}  # slots of the two texts, by role


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeQuestion:
    """A comparison that a function is asked for: is `output` better than `reference`?

    Attributes:
        context: the text that both texts are about.
        background: further knowledge about the context, or "".
        output: the text in question.
        reference: the text that it is compared with: a rung, or another output.
        dimension: the name of the quality in question.
        description: what that quality is, from the worst to the best.
    """

    context: str
    background: str
    output: str
    reference: str
    dimension: str
    description: str


Judge = Callable[[Sequence[JudgeQuestion]], Sequence[Mapping[str, float]]]


class FunctionJudge(Backend):
    """A function as a backend.

    Args:
        function: it gets questions, and returns for each, in order, the probabilities of `win`, `loss` and `tie`, which
            add to 1 (within 0.01). Its attribute `fingerprint`, if it has one, is its name; otherwise this is its own
            name with a digest of its source.

    Raises:
        UsageError: the function needs a name, or its name is not one line of text without `|`.
    """

    def __init__(self, function: Judge) -> None:
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._fingerprint = f"function:{_identity(function, self._name)}"

    @property
    def fingerprint(self) -> str:
        """`function:` and the name of the function."""
        return self._fingerprint

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Raise UsageError: a function writes nothing."""
        del prompts, sampling
        raise UsageError(
            f"{self._name} is a function that judges and writes no texts; give a ladder set or a writer, and answers=0"
        )

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """For each prompt, the log-probabilities that the function gives to the outcomes of `labels`.

        Raises:
            BackendError: the function raised an error, or did not answer every question.
            UsageError: the prompts ask for something else than a comparison.
        """
        answers = self._answers([self._question(prompt) for prompt in prompts])
        return [self._reading(answer, prompt, labels) for answer, prompt in zip(answers, prompts, strict=True)]

    def _question(self, prompt: Prompt) -> JudgeQuestion:
        if prompt.role not in _TEXTS:
            raise UsageError(
                f"{self._name} is a function that compares two texts, and {prompt.role!r} asks for something else; "
                "leave out yes_no and methods that grade one text"
            )
        output, reference = (prompt.slots[name] for name in _TEXTS[prompt.role])
        return JudgeQuestion(
            context=prompt.slots["context"],
            background=prompt.slots.get("background", ""),
            output=output,
            reference=reference,
            dimension=prompt.slots["dimension"],
            description=prompt.slots["description"],
        )

    def _answers(self, questions: list[JudgeQuestion]) -> Sequence[object]:
        try:
            answers: object = self._function(questions)
        except Exception as error:
            raised = inspect.getinnerframes(error.__traceback__)[-1] if error.__traceback__ else None
            where = f" ({Path(raised.filename).name}:{raised.lineno})" if raised else ""
            raise BackendError(f"{self.fingerprint} raised {type(error).__name__}: {error}{where}") from error
        if not isinstance(answers, list | tuple):
            raise BackendError(
                f"{self.fingerprint} returned {type(answers).__name__}; return a list with one answer for each question"
            )
        if len(answers) != len(questions):
            raise BackendError(
                f"{self.fingerprint} answered {len(answers)} of {len(questions)} questions; return one answer for "
                "each, in order"
            )
        return answers

    def _reading(self, answer: object, prompt: Prompt, labels: Sequence[str]) -> LabelReading:
        problem = _problem(answer)
        if problem is not None or not isinstance(answer, Mapping):
            return LabelReading(logprobs=None, mass=None, reason=f"{self._name} gave {problem}")
        total = sum(answer[outcome] for outcome in OUTCOMES)
        shares = {outcome: float(answer[outcome] / total) for outcome in OUTCOMES}
        if TIE not in prompt.outcomes:
            shares = {WIN: shares[WIN] + shares[TIE] / 2, LOSS: shares[LOSS] + shares[TIE] / 2}
        meaning = dict(zip(prompt.labels, prompt.outcomes, strict=True))
        chosen = [shares[meaning[label]] for label in labels]
        return LabelReading(logprobs=tuple(math.log(p) if p > 0 else IMPOSSIBLE for p in chosen), mass=1.0)


def _problem(answer: object) -> str | None:
    """What is wrong with an answer; None if it is right."""
    if not isinstance(answer, Mapping):
        return f"{answer!r:.60}; an answer has the probabilities of win, loss and tie"
    for outcome in OUTCOMES:
        if outcome not in answer:
            return f"no probability of {outcome}"
        value = answer[outcome]
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) <= 1:
            return f"{value!r:.60} as the probability of {outcome}"
    total = sum(float(answer[outcome]) for outcome in OUTCOMES)
    return None if abs(total - 1) <= _SLACK else f"probabilities that add to {total:g}, not 1"


def _identity(function: Judge, name: str) -> str:
    given = getattr(function, "fingerprint", None)
    if given is not None:
        if not isinstance(given, str) or given.splitlines() != [given] or "|" in given:
            raise UsageError(f"{name}.fingerprint must be one line of text without '|', found {given!r:.80}")
        return given
    advice = "name it: JUDGE.fingerprint = 'NAME'"
    try:
        source = inspect.getsource(function)
        around = inspect.getclosurevars(function).nonlocals
    except (OSError, TypeError) as error:
        raise UsageError(f"{name}: its source cannot be read; {advice}") from error
    if around:
        names = ", ".join(map(repr, around))
        raise UsageError(f"{name}: its source does not identify it, because it uses {names} from around it; {advice}")
    return f"{name}@{hashlib.blake2b(source.encode(), digest_size=6).hexdigest()}"
