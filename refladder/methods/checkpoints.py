"""Opens trained models for the metrics that need one, with the local backend's machinery, and counts what went amiss.

A checkpoint is a folder or `ORG/MODEL` on the Hub, with `@REVISION` after it where one is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from refladder.backends.hf import TransformersBackend
from refladder.backends.hf.opening import TEXT_TO_TEXT, open_model, parse_memory, split_revision
from refladder.backends.hf.readers import Reader
from refladder.engine.memory import usable_memory
from refladder.errors import BackendUnavailableError, UsageError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping, Sequence

    from refladder.backends.hf.opening import Opened
    from refladder.backends.hf.tokens import Tokens

NO_CHECKPOINT = "no checkpoint was named; "
# Sentences about what went amiss, each with its count.
CUT = "inputs truncated to the length that the model accepts: {:,}"
EMPTY = "empty outputs, without a score: {:,}"
TOO_LONG = "outputs that leave no room for their context, without a score: {:,}; use a model with a longer context"
NO_NUMBER = "outputs for which the model gave no finite number, without a score: {:,}; try dtype=float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """How checkpoints are run; see `refladder.backends.hf.open_hf` for the values."""

    dtype: str = "float32"
    device: str = "auto"
    memory: str = "auto"


MACHINE = {"dtype": "float32", "device": "auto", "memory": "auto"}  # options of every method with checkpoints


def machine_of(options: Mapping[str, str]) -> Machine:
    """How the options of a method ask for its checkpoints to be run."""
    return Machine(**{key: options[key] for key in MACHINE})


class Found(NamedTuple):
    """A number for each text or None, and what went amiss: how often, by the sentence that says it."""

    values: list[float | None]
    amiss: Counter[str]


def split_checkpoints(asked: str, roles: Sequence[str], method: str, suggestion: str) -> list[str]:
    """The names of several checkpoints, which stand after a method with `+` between them."""
    names = asked.split("+")
    if len(names) != len(roles) or not all(names):
        raise UsageError(
            f"{method} takes {len(roles)} checkpoints with + between them ({', '.join(roles)}), found {asked!r}; "
            f"{suggestion}"
        )
    return names


def open_writer(name: str, method: str, suggestion: str, machine: Machine) -> TransformersBackend:
    """Open an encoder-decoder such as T5."""
    opened, memory = _opened(name, TEXT_TO_TEXT, method, suggestion, machine)
    return TransformersBackend(opened, memory=memory, truncate_context=False, label_variants=False)


def open_reader(name: str, kind: str, method: str, suggestion: str, machine: Machine) -> Reader:
    """Open an encoder, a classifier or a multiple-choice reader: `kind` is a constant of `backends.hf.opening`."""
    return Reader(*_opened(name, kind, method, suggestion, machine))


def _opened(name: str, kind: str, method: str, suggestion: str, machine: Machine) -> tuple[Opened, int]:
    if not name:
        raise UsageError(f"no checkpoint was named; {suggestion}")
    requested = parse_memory(machine.memory)
    target, revision = split_revision(name)
    try:
        opened = open_model(
            target,
            dtype=machine.dtype,
            device=machine.device,
            revision=revision,
            kind=kind,
            prefix=f"{method}:",
        )
        device = opened.model.device  # the weights are read here
        return opened, usable_memory(device) if requested is None else requested
    except BackendUnavailableError as error:
        raise BackendUnavailableError(f"{error}; {suggestion}") from error


def joined(tokens: Tokens, parts: Sequence[str], separator: int, longest: int) -> tuple[list[int], bool]:
    """Texts as one input with a token between them, which no text can spell, and whether its end was cut off."""
    ids = tokens.plain(parts[0])
    for part in parts[1:]:
        ids += [separator, *tokens.plain(part)]
    return tokens.framed(ids, longest)


def joined_inputs(
    writer: TransformersBackend, texts: Iterable[Sequence[str]], separator: int, longest: int, amiss: Counter[str]
) -> list[list[int]]:
    """`joined` of the parts of each input; those that were cut off are counted."""
    inputs = [joined(writer.tokens, parts, separator, longest) for parts in texts]
    amiss[CUT] += sum(cut for _, cut in inputs)
    return [ids for ids, _ in inputs]


def token_id(opened: Opened, name: str, suggestion: str) -> int:
    """A token that an input cannot do without, such as `eos_token_id`."""
    found = getattr(opened.tokenizer, name)
    if found is None:
        raise BackendUnavailableError(
            f"the tokenizer of {opened.name} has no {name.removesuffix('_id')}, which its inputs need; {suggestion}"
        )
    return int(found)
