"""Trained evaluators: UniEval, an entailment scorer for data-to-text, a supervised regressor.

Each is a function of an open checkpoint and the texts of one context. None comes with refladder; every one is named by
a folder or a name on the Hub, and the weights decide what the numbers are worth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from refladder.errors import BackendError, BackendUnavailableError, UsageError
from refladder.scoring.checkpoints import encode, forward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from refladder.records import Context
    from refladder.scoring.checkpoints import Checkpoint

    FloatArray = NDArray[np.float64]

BATCH = 8
UNIEVAL_LENGTH = 1024  # tokens that UniEval was trained on; T5 itself takes any number
UNIEVAL_SUGGESTION = "fetch MingZhong/unieval-sum (or unieval-dialog) as safetensors and pass unieval:PATH"
NLI_SUGGESTION = "fetch a model trained on natural language inference, such as roberta-large-mnli, and pass nli:PATH"
REGRESSOR_SUGGESTION = (
    "train a sequence classifier with one output on rated texts (arXiv 2208.13265 uses a Longformer) and pass "
    "regressor:PATH"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanQuestion:
    """UniEval's input for one dimension.

    `parts` are (name, source) after the question, the source being output, context, background or reference.
    `sentences` says whether the output is asked about sentence by sentence, and how the answers are put together.
    """

    question: str
    parts: tuple[tuple[str, str], ...]
    sentences: str | None = None


# What the published checkpoints were trained on: arXiv 2210.07197, appendix.
UNIEVAL_QUESTIONS: dict[tuple[str, str], BooleanQuestion] = {
    ("summarization", "coherence"): BooleanQuestion(
        question="Is this a coherent summary to the document?", parts=(("summary", "output"), ("document", "context"))
    ),
    ("summarization", "consistency"): BooleanQuestion(
        question="Is this claim consistent with the document?",
        parts=(("claim", "output"), ("document", "context")),
        sentences="mean",
    ),
    ("summarization", "fluency"): BooleanQuestion(
        question="Is this a fluent paragraph?", parts=(("paragraph", "output"),), sentences="mean"
    ),
    ("summarization", "relevance"): BooleanQuestion(
        question="Is this summary relevant to the reference?", parts=(("summary", "output"), ("reference", "reference"))
    ),
    ("dialogue", "naturalness"): BooleanQuestion(
        question="Is this a natural response in the dialogue?", parts=(("response", "output"),)
    ),
    ("dialogue", "coherence"): BooleanQuestion(
        question="Is this a coherent response given the dialogue history?",
        parts=(("response", "output"), ("dialogue history", "context")),
    ),
    ("dialogue", "engagingness"): BooleanQuestion(
        question="Is this an engaging and informative response according to the dialogue history and fact?",
        parts=(("response", "output"), ("dialogue history", "context"), ("fact", "background")),
        sentences="sum",
    ),
    ("dialogue", "groundedness"): BooleanQuestion(
        question="Is this response consistent with knowledge in the fact?",
        parts=(("response", "output"), ("fact", "background")),
    ),
    ("dialogue", "understandability"): BooleanQuestion(
        question="Is this an understandable response in the dialogue?", parts=(("response", "output"),)
    ),
    ("data-to-text", "fluency"): BooleanQuestion(
        question="Is this a fluent utterance?", parts=(("utterance", "output"),)
    ),
    ("data-to-text", "semantics"): BooleanQuestion(
        question="Is this sentence informative according to the reference?",
        parts=(("sentence", "output"), ("reference", "reference")),
    ),
}

_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+(?=\S)")


def sentences(text: str) -> list[str]:
    """A text split after . ! ? and white space: a rule without data, coarser than a trained splitter."""
    return [part for part in _SENTENCE_END.split(text.strip()) if part]


def unieval_inputs(question: BooleanQuestion, context: Context, text: str, reference: str) -> list[str]:
    """What UniEval reads for one output: one input, or one for each of its sentences; none for an empty text."""
    sources = {"context": context.text, "background": context.background, "reference": reference}
    outputs = sentences(text) if question.sentences else [text.strip()] * bool(text.strip())
    return [
        " </s> ".join(
            [
                f"question: {question.question}",
                *(f"{name}: {output if source == 'output' else sources[source]}" for name, source in question.parts),
            ]
        )
        for output in outputs
    ]


def yes_shares(checkpoint: Checkpoint, inputs: Sequence[str]) -> tuple[FloatArray, int]:
    """p(Yes) / (p(Yes) + p(No)) of the first token that a T5 answers.

    Source: arXiv 2210.07197, equation 1.

    Returns:
        Shape (inputs,), between 0 and 1; and how many inputs were cut off.

    Raises:
        BackendUnavailableError: the tokenizer begins Yes and No with the same token.
    """
    tokenizer = checkpoint.tokenizer
    yes, no = (tokenizer(word)["input_ids"][0] for word in ("Yes", "No"))
    if yes == no:
        raise BackendUnavailableError(
            f"checkpoint {checkpoint.fingerprint} begins 'Yes' and 'No' with the same token; {UNIEVAL_SUGGESTION}"
        )
    start = checkpoint.model.config.decoder_start_token_id
    found = np.empty(len(inputs))
    cut = 0
    for first in range(0, len(inputs), BATCH):
        tokens, _, shortened = encode(checkpoint, inputs[first : first + BATCH])
        cut += shortened
        logits = _first_logits(checkpoint, tokens, start)[:, [yes, no]]
        found[first : first + BATCH] = 1 / (1 + np.exp(logits[:, 1] - logits[:, 0]))
    return found, cut


def _first_logits(checkpoint: Checkpoint, tokens: list[list[int]], start: int) -> FloatArray:
    import torch  # noqa: PLC0415  an extra

    begun = torch.full((len(tokens), 1), start, device=checkpoint.model.device)
    logits: FloatArray = forward(checkpoint, tokens, None, decoder_input_ids=begun).logits[:, 0].cpu().numpy()
    return logits.astype(np.float64)


def unieval(
    checkpoint: Checkpoint, question: BooleanQuestion, context: Context, texts: Sequence[str]
) -> tuple[list[float | None], int]:
    """UniEval of the outputs of one context on one dimension; the first reference stands where one is asked for.

    Args:
        checkpoint: a T5 of the UniEval family.
        question: of UNIEVAL_QUESTIONS.
        context: its context.
        texts: the outputs.

    Returns:
        One number for each text: between 0 and 1, or for a sum over sentences 0 or more; None for an empty text. And
        how many inputs were cut off.
    """
    reference = context.references[0] if context.references else ""
    inputs = [unieval_inputs(question, context, text, reference) for text in texts]
    shares, cut = yes_shares(checkpoint, [one for own in inputs for one in own])
    values: list[float | None] = []
    start = 0
    for own in inputs:
        mine = shares[start : start + len(own)]
        start += len(own)
        values.append(None if not own else float(np.sum(mine) if question.sentences == "sum" else np.mean(mine)))
    return values, cut


def triple_sentences(data: str) -> list[str]:
    """Each triple `subject | relation | object` of a context as a plain sentence, the RELATION of SUBJECT is OBJECT.

    Raises:
        UsageError: a line is not three parts separated by `|`.
    """
    found = []
    for line in filter(None, map(str.strip, data.splitlines())):
        parts = [part.strip().strip('"').replace("_", " ") for part in line.split("|")]
        if len(parts) != len(("subject", "relation", "object")):
            raise UsageError(f"nli reads triples 'subject | relation | object', one a line, found {line!r:.60}")
        subject, relation, value = parts
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", relation).lower()
        found.append(f"The {words} of {subject} is {value}.")
    return found


def entailment_label(checkpoint: Checkpoint) -> int:
    """The number of the class that says "entailed".

    Raises:
        BackendUnavailableError: no class, or more than one, is called so.
    """
    names = {int(number): str(name) for number, name in checkpoint.model.config.id2label.items()}
    found = [number for number, name in names.items() if re.fullmatch(r"entail(ment|ed)?", name.lower())]
    if len(found) != 1:
        raise BackendUnavailableError(
            f"checkpoint {checkpoint.fingerprint} has the classes {', '.join(names.values())} and none called "
            f"entailment; {NLI_SUGGESTION}"
        )
    return found[0]


def entailment(checkpoint: Checkpoint, premises: Sequence[str], hypotheses: Sequence[str]) -> tuple[FloatArray, int]:
    """p(entailed) of each pair, a softmax over all classes.

    Returns:
        Shape (pairs,), between 0 and 1; and how many premises were cut off.
    """
    label = entailment_label(checkpoint)
    logits, cut = _pair_logits(checkpoint, premises, hypotheses)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights[:, label] / weights.sum(axis=1), cut


def data_entailment(checkpoint: Checkpoint, context: Context, texts: Sequence[str]) -> tuple[list[float | None], int]:
    """How surely data and text entail each other: the least of p(data entails text) and p(text entails triple).

    A text that says what the data does not fails the first, one that leaves a triple out fails one of the others.

    Source: Dusek and Kasner 2020 (INLG), section 2, with one plain template for every relation instead of theirs.

    Returns:
        One number for each text between 0 and 1, None for an empty text; and how many premises were cut off.
    """
    facts = triple_sentences(context.text)
    whole = " ".join(facts)
    written = [text for text in texts if text.strip()]
    premises = [premise for text in written for premise in [whole, *[text] * len(facts)]]
    hypotheses = [hypothesis for text in written for hypothesis in [text, *facts]]
    if not written:
        return [None] * len(texts), 0
    shares, cut = entailment(checkpoint, premises, hypotheses)
    least = iter(shares.reshape(len(written), 1 + len(facts)).min(axis=1).tolist())
    return [next(least) if text.strip() else None for text in texts], cut


def regression(checkpoint: Checkpoint, context: Context, texts: Sequence[str]) -> tuple[list[float | None], int]:
    """The one output of a sequence classifier that reads context and text as a pair, the context cut where too long.

    Source: Manakul and Gales, arXiv 2208.13265 (a Longformer trained on rated podcast summaries).

    Returns:
        One number for each text in the unit that the model was trained on, None for an empty text; and how many
        contexts were cut off.

    Raises:
        BackendUnavailableError: the model has more than one output.
    """
    outputs = int(checkpoint.model.config.num_labels)
    if outputs != 1:
        raise BackendUnavailableError(
            f"checkpoint {checkpoint.fingerprint} has {outputs} outputs, a regressor has one; {REGRESSOR_SUGGESTION}"
        )
    written = [text for text in texts if text.strip()]
    if not written:
        return [None] * len(texts), 0
    logits, cut = _pair_logits(checkpoint, [context.text] * len(written), written)
    values = iter(logits[:, 0].tolist())
    return [next(values) if text.strip() else None for text in texts], cut


def _pair_logits(checkpoint: Checkpoint, firsts: Sequence[str], seconds: Sequence[str]) -> tuple[FloatArray, int]:
    rows: list[FloatArray] = []
    cut = 0
    for start in range(0, len(firsts), BATCH):
        tokens, types, shortened = encode(checkpoint, firsts[start : start + BATCH], seconds[start : start + BATCH])
        cut += shortened
        rows.append(forward(checkpoint, tokens, types).logits.cpu().numpy().astype(np.float64))
    logits = np.concatenate(rows)
    if not np.isfinite(logits).all():
        raise BackendError(f"checkpoint {checkpoint.fingerprint} gives outputs that are not finite; use other weights")
    return logits, cut
