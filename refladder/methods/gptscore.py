"""GPTScore: how likely a model finds a text after an instruction to write a good one.

The instruction is the task's writing prompt of role `best`: it shows the context and the dimension and asks for the
best text there can be. Only a backend that reads the log-probability of texts of any length, and can count their
tokens, can be asked: one that overrides `Backend.count_label_tokens`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from refladder.errors import BackendError, LabelsUnavailableError
from refladder.prompts import criterion, fill
from refladder.records import TEXT
from refladder.scoring.judging import judgment_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from refladder.backends import Backend
    from refladder.prompts import Template
    from refladder.records import Judgment, Prompt
    from refladder.scoring.question import Question

ROLE = "best"


def check_reads_texts(backend: Backend, prompt: Prompt) -> None:
    """Check that a backend can be asked for the likelihood of whole texts.

    Raises:
        LabelsUnavailableError: it cannot.
    """
    if backend.count_label_tokens(prompt, ["text"]) is None:
        raise LabelsUnavailableError(
            f"judge {backend.fingerprint!r} cannot read the log-probability of a whole text and count its tokens; "
            "use a model on this machine (--judge hf:PATH)"
        )


def _prompt(template: Template, question: Question) -> Prompt:
    return fill(template, criterion(question.context, question.dimension))


def read_texts(backend: Backend, template: Template, recipe: str, asked: Sequence[Question]) -> list[Judgment]:
    """Log-probabilities of the texts of one context on one dimension.

    Args:
        backend: the judge.
        template: of role best.
        recipe: Recipe.digest of backend and template.
        asked: questions of one context and dimension.

    Returns:
        One judgment a question, with one outcome, whose log-probability is that of the whole text; None, with a note,
        where it could not be read or the text is empty. `mass` is None: the texts are not a choice.

    Raises:
        BackendError: the judge failed as a whole, or broke its contract.
    """
    texts = list(dict.fromkeys(question.texts["target"] for question in asked if question.texts["target"]))
    logprobs: dict[str, float] = {}
    note: str | None = None
    cut = False
    if texts:
        prompt = _prompt(template, asked[0])
        # A label that another one begins with counts only where the answer stops there; a text's likelihood does not.
        begins = {text for text in texts if any(other != text and other.startswith(text) for other in texts)}
        for group in ([text for text in texts if text not in begins], *([text] for text in texts if text in begins)):
            readings = backend.read_labels([prompt], group)
            if len(readings) != 1 or (readings[0].logprobs is not None and len(readings[0].logprobs) != len(group)):
                raise BackendError(
                    f"{backend.fingerprint}: asked for {len(group)} texts after 1 prompt, answered otherwise"
                )
            note = readings[0].reason or readings[0].note or note
            cut = cut or readings[0].cut
            logprobs.update(zip(group, readings[0].logprobs or (), strict=False))
    judgments = []
    for question in asked:
        found = logprobs.get(question.texts["target"])
        reason = (
            None if found is not None else ((note or "unreadable") if question.texts["target"] else "the text is empty")
        )
        judgments.append(
            judgment_of(
                question,
                recipe,
                outcomes=(TEXT,),
                logprobs=None if found is None else (found,),
                mass=None,
                note=reason,
                cut=cut,
            )
        )
    return judgments


def mean_logprobs(
    judge: Backend, template: Template, asked: Sequence[Question], judgments: Sequence[Judgment]
) -> list[float | None]:
    """Log-probability for each token of the text: the sum over the text divided by its tokens.

    Source: arXiv 2302.04166, section 3 (weights 1/m for each of m tokens); arXiv 2307.07889, section 4.3.2.

    Args:
        judge: counts the tokens.
        template: of role best.
        asked: questions of one context and dimension.
        judgments: of `read_texts`, in the same order.

    Returns:
        Natural logarithms, at most 0, higher is better; None where the judge could not be read.

    Raises:
        BackendError: the judge counts no token in a text that it read.
    """
    read = {
        question.texts["target"]: judgment.logprobs[0]
        for question, judgment in zip(asked, judgments, strict=True)
        if judgment.logprobs is not None
    }
    counts = (judge.count_label_tokens(_prompt(template, asked[0]), list(read)) or []) if read else []
    for text, count in zip(tuple(read), counts, strict=True):
        if count < 1:
            raise BackendError(f"the judge read the text {text[:40]!r} and counts {count} tokens in it")
        read[text] /= count
    return [read.get(question.texts["target"]) for question in asked]
