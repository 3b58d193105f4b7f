"""A backend that answers from rules, for trials and tests of code that asks a model.

`connect("scripted:RULES.jsonl")` reads one rule a line; the first rule that matches a prompt answers it::

    {"role": "worst", "text": "Rain."}
    {"role": "best", "contains": {"dimension": "coherence"}, "texts": ["with seed 0", "with seed 1"]}
    {"role": "between", "finish": "length", "text": "a text that was cut"}
    {"role": "compare", "contains": {"target": "storm"}, "answer": {"win": -0.1, "loss": -3, "tie": -4}}
    {"contains": "words anywhere in the prompt", "error": "a failure with this reason"}

- `role`, `contains`: what a rule matches; what is left out matches everything. `contains` is a text that must appear in
  the prompt, or a text for each slot that must appear in that slot.
- `text`, or `texts` (seed k gives `texts[k % len(texts)]`), and `finish` (`stop` or `length`) answer a writing prompt.
- `answer` gives a natural-log probability for each outcome, and answers a judging prompt.
- `error` answers both: a completion that failed, or a prompt that could not be read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping  # noqa: TC003  pydantic resolves the annotations at run time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from refladder.backends.protocol import Backend
from refladder.errors import BackendUnavailableError, DataError, UsageError
from refladder.files.jsonl import read_lines
from refladder.parsing import parse_as
from refladder.records import Completion, LabelReading, digest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.records import Prompt, Sampling

# log-probabilities written with few digits may add to a little more than 1.
_MASS_SLACK = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: which prompts it matches and what it answers. The top of this module describes the fields."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"allow_inf_nan": False}
    role: str | None = None
    contains: str | Mapping[str, str] | None = None
    text: str | None = None
    texts: tuple[str, ...] | None = None
    finish: Literal["stop", "length"] | None = None
    answer: Mapping[str, float] | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        kinds = []
        for name in ("text", "texts", "answer", "error"):
            if getattr(self, name) is not None:
                kinds.append(name)
        if not kinds and self.finish == "length":
            # Such an answer is cut before its first word.
            kinds = ["finish"]
        if len(kinds) != 1:
            named = " and ".join(kinds) or "none"
            raise UsageError(
                f"a rule has exactly one of text, texts, answer and error, found {named}"
            )
        if self.finish is not None and kinds[0] in {"answer", "error"}:
            raise UsageError(f"finish belongs to a text, and this rule has {kinds[0]}")
        if self.texts == ():
            raise UsageError("texts holds at least one text, found none")
        if self.answer is not None:
            values = self.answer.values()
            possible = all(math.isfinite(value) and value <= 0 for value in values)
            if not values or not possible or sum(map(math.exp, values)) > 1 + _MASS_SLACK:
                raise UsageError(
                    "an answer gives outcomes their natural-log probabilities, finite, at most 0 and together at most "
                    f"probability 1, found {dict(self.answer)}"
                )

    def matches(self, prompt: Prompt) -> bool:
        """Return whether this rule is for a prompt, by its role and contents."""
        if self.role not in {None, prompt.role}:
            return False
        if self.contains is None:
            return True
        if isinstance(self.contains, str):
            return self.contains in prompt.text
        return all(text in prompt.slots.get(slot, "") for slot, text in self.contains.items())


class Scripted(Backend):
    """A backend that answers by rules, the first that matches; a prompt without one is a failure, not a guess."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._writing = [rule for rule in rules if rule.answer is None]
        # A rule with an error answers both kinds of prompts.
        self._judging = [rule for rule in rules if rule.answer or rule.error is not None]
        script = json.dumps(list(map(asdict, rules)), sort_keys=True)
        self._digest = digest_of(script, size=6)

    @property
    def fingerprint(self) -> str:
        """Return `scripted@` and a digest of the rules."""
        return f"scripted@{self._digest}"

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """Return a text for each prompt, in order; only `sampling.seed` has an effect: it chooses among `texts`."""
        return [self._write(prompt, sampling.seed) for prompt in prompts]

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Return for each prompt the log-probabilities that its rule gives to the outcomes of `labels`."""
        return [self._read(prompt, labels) for prompt in prompts]

    def _write(self, prompt: Prompt, seed: int) -> Completion:
        rule = _first(self._writing, prompt)
        if rule is None:
            return Completion(finish="error", note=_unmatched(prompt))
        if rule.error is not None:
            return Completion(finish="error", note=rule.error)
        text = rule.texts[seed % len(rule.texts)] if rule.texts is not None else rule.text or ""
        return Completion(text=text, finish=rule.finish or "stop")

    def _read(self, prompt: Prompt, labels: Sequence[str]) -> LabelReading:
        rule = _first(self._judging, prompt)
        if rule is None:
            return LabelReading(reason=_unmatched(prompt))
        if rule.answer is None:
            return LabelReading(reason=rule.error)
        meaning = dict(zip(prompt.labels, prompt.outcomes, strict=True))
        outcomes = [meaning.get(label, label) for label in labels]
        for outcome in outcomes:
            if outcome not in rule.answer:
                return LabelReading(reason=f"the rule's answer has no {outcome!r}")
        logprobs = tuple(float(rule.answer[outcome]) for outcome in outcomes)
        return LabelReading(
            logprobs=logprobs, mass=min(1.0, sum(math.exp(value) for value in logprobs))
        )


def _first(rules: Sequence[Rule], prompt: Prompt) -> Rule | None:
    return next((rule for rule in rules if rule.matches(prompt)), None)


def _unmatched(prompt: Prompt) -> str:
    return f"no rule matches this {prompt.role!r} prompt"


def open_scripted(path: str) -> Scripted:
    """Read a file of rules, one JSON object a line."""
    if not path or not Path(path).is_file():
        problem = f"no file {path!r}" if path else "no file was named"
        raise BackendUnavailableError(
            f"backend 'scripted': {problem}; pass scripted:PATH, a file of JSON rules"
        )
    lines = list(read_lines(Path(path)))
    rules = [parse_as(Rule, line, f"{path}:{number}", "rule") for number, line in lines]
    if not rules:
        raise DataError(f"{path}:1: no rules in this file; write one JSON object a line")
    return Scripted(rules)
