"""Models on the user's own CPU or GPU: `connect("hf:ORG/MODEL")` or `connect("hf:FOLDER")`.

Label probabilities are exact, for labels of any number of tokens; what prompts share is computed once where the model's
architecture allows it (see `causal`).
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from refladder.backends import CONTEXT_CUT
from refladder.backends.hf.opening import open_model
from refladder.backends.hf.readings import NOT_NUMBERS, reading_of, sequences_of
from refladder.backends.hf.tokens import Question, Tokens
from refladder.engine.causal import Causal
from refladder.engine.encoder_decoder import EncoderDecoder
from refladder.engine.memory import fitting, halving, kept_bytes, memory_beside, parse_memory
from refladder.engine.sampling import BLOCK, Written, rows_of_same_bits, shared_tokens, write_batch
from refladder.engine.trie import build_trie
from refladder.errors import UsageError
from refladder.records import Completion, LabelReading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from refladder.backends.hf.opening import Opened
    from refladder.records import Prompt, Sampling

T = TypeVar("T")

log = logging.getLogger(__name__)

_GROUP, _LARGEST_GROUP = 256, 2048  # prompts read together: more than the first only to keep a context whole
_LEAST = 16  # tokens that must go through the model at a time
_BATCH = 32  # texts written together
_CUT = CONTEXT_CUT + " from {} to {} characters to fit"
_MEMORY = (
    "the {} prompt has {:,} tokens, which take more than the {:,.3g} MiB of memory that may be used beside the "
    "weights; shorten the texts, raise --memory, or free some"
)


class _Asked(NamedTuple):
    """One prompt of a call: its row, its tokens (None where it is too long), and what is to be said about it."""

    row: int
    question: Question | None
    note: str | None


class Local:
    """A model of transformers as writer and judge.

    Its weights are read when they are first needed, or by `load`. `tokens_sent` counts the tokens of all prompts so
    far, each whole; `opened`, `tokens` and `scorer` are its parts.

    Args:
        opened: the model.
        memory: bytes that may be used beside the weights; None is a share of what is free when they were read.
        truncate_context: whether the context of a prompt that is too long is cut; otherwise the row is unreadable.
        label_variants: whether a label counts in every spelling (case, leading space).
    """

    label_tokens = 0  # labels are read, not written
    texts_at_once = _BATCH  # more would only be lost together when a run is killed

    def __init__(self, opened: Opened, *, memory: int | None, truncate_context: bool, label_variants: bool) -> None:
        self.opened = opened
        self._memory_asked = memory
        self._memory: int | None = None  # known when the weights are read
        self._truncate = truncate_context
        self._variants = label_variants
        self.tokens_sent = 0
        self.shares_contexts = not opened.encoder_decoder  # so all prompts of a context are best asked together
        self._tokens_to_write = 0
        self._tokens_written = 0
        self._longest: int | None = getattr(opened.config.get_text_config(), "max_position_embeddings", None)
        self.tokens = Tokens(
            opened.tokenizer, opened.name, encoder_decoder=opened.encoder_decoder, variants=label_variants
        )

    @cached_property
    def scorer(self) -> Causal | EncoderDecoder:
        """What reads log-probabilities, with the weights.

        Raises:
            BackendUnavailableError: the weights are damaged, not complete, or do not fit in the memory.
        """
        model = self.opened.model
        memory = memory_beside(model.device, self._memory_asked)
        self._memory = memory
        if self.opened.encoder_decoder:
            return EncoderDecoder(model, memory)
        causal = Causal(model, self.opened.dtype, memory)
        causal.settle(self.tokens.sample())
        return causal

    def _takes(self, longest: int) -> bool:
        """Whether the memory beside the weights, where it is known, is enough for a prompt of so many tokens, roughly.

        With less, a decoder would read it token by token, for days; an encoder has to take it whole, with its scores of
        every token for every other and a bias that is added to them.
        """
        if self._memory is None:
            return True
        config = self.opened.config.get_text_config()
        if self.opened.encoder_decoder:
            heads = int(getattr(config, "num_attention_heads", 0) or 16)
            return 12 * heads * longest**2 <= self._memory
        return fitting(_LEAST, longest, 1, config, self._memory) == _LEAST

    def load(self) -> None:
        """Read the weights now, and try out how prompts are best read.

        Raises:
            BackendUnavailableError: see `scorer`.
        """
        _ = self.scorer

    @property
    def tokens_run(self) -> int:
        """Tokens that went through the model so far, with labels and padding: what prompts share was run once.

        The tokens of texts that were written do not count.
        """
        scorer: Causal | EncoderDecoder | None = self.__dict__.get("scorer")  # reading a counter loads no weights
        return self._tokens_to_write + (0 if scorer is None else scorer.tokens_run)

    @property
    def counts(self) -> dict[str, int]:
        """Tokens of prompts so far, each whole, and those that were written."""
        return {"prompt tokens": self.tokens_sent, "answer tokens": self._tokens_written}

    @property
    def fingerprint(self) -> str:
        """Model, revision, dtype, template and what else can change an answer; not how prompts are batched."""
        options = ",truncate" * self._truncate + ",variants" * self._variants
        return f"hf:{self.opened.fingerprint},template:{self.tokens.template_digest}{options}"

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """For each prompt the natural-log probability of every label as the answer.

        A label that another one begins with ("1" and "10") counts only where the answer does not go on to that one,
        so that the probabilities of different labels add up. A row that is too long for the model, or for which it
        gives no finite number, has None and a note.

        Raises:
            UsageError: a label is no token at all.
            BackendError: memory is short even for one row at a time.
        """
        return _in_order(self.read_labels_each(prompts, labels))

    def read_labels_each(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> Iterator[tuple[int, LabelReading]]:
        """The number of a prompt and its reading, a group of prompts of one context (or several) after the other.

        Raises:
            UsageError, BackendError: as `read_labels`; what was read before stays.
        """
        spellings = [self.tokens.variants_of(label) for label in labels]
        flat = [text for group in spellings for text in group]
        counts = [len(group) for group in spellings]
        for rows in _groups(prompts):
            began, before = time.monotonic(), self.scorer.tokens_run
            asked = self._asked(rows, prompts, flat)
            questions = [one.question for one in asked if one.question is not None]
            self.tokens_sent += sum(len(question.prompt) for question in questions)
            values = iter(self._values(questions) if questions else ())
            seconds = time.monotonic() - began
            run = self.scorer.tokens_run - before
            log.info(
                "read %d prompts (%s), %d tokens, %.0f tokens/s",
                len(rows),
                self.scorer.way,
                run,
                run / max(seconds, 1e-9),
            )
            for one in asked:
                if one.question is None:
                    yield one.row, LabelReading(logprobs=None, mass=None, note=one.note)
                else:
                    yield one.row, reading_of(one.question.labels, next(values), counts, one.note)

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int]:
        """The tokens of each prompt as it would be read, its context cut where that is allowed; no weights needed.

        A prompt that is too long counts 0: it would not be read.
        """
        return [0 if ids is None else len(ids) for ids, _ in self._fitting(prompts, 0)]

    def count_distinct_tokens(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> int:
        """The tokens of the tree of these prompts with their labels, which are what is run where the model allows.

        An encoder shares nothing: there the tokens of all prompts count. No weights needed.

        Raises:
            UsageError: a label is no token at all.
        """
        flat = [text for label in labels for text in self.tokens.variants_of(label)]
        distinct = 0
        for rows in _groups(prompts):
            questions = [one.question for one in self._asked(rows, prompts, flat) if one.question is not None]
            if self.opened.encoder_decoder:
                distinct += sum(len(question.prompt) for question in questions)
            elif questions:
                distinct += build_trie(*sequences_of(questions))[0].size
        return distinct

    def count_label_tokens(self, prompt: Prompt, labels: Sequence[str]) -> list[int]:
        """How many tokens each label is as the answer to a prompt: those whose log-probabilities `read_labels` adds.

        Raises:
            UsageError: a label is no token at all.
        """
        return [len(ids) for ids in self.tokens.question(prompt.text, labels).labels]

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One text for each prompt, drawn with a random stream of its own prompt and seed.

        A text does not depend on what else is asked; only with some architectures rounding lets the rest of its batch
        change it, seldom in float32 and often in half precision (docs/local.md tells which, and how often).

        Raises:
            BackendError: memory is short even for one row at a time.
        """
        return _in_order(self.write_each(prompts, sampling))

    def write_each(self, prompts: Sequence[Prompt], sampling: Sampling) -> Iterator[tuple[int, Completion]]:
        """The number of a prompt and its text, batch by batch, prompts that begin alike together.

        Raises:
            BackendError: as `write`; what was written before stays.
        """
        fitting: list[tuple[int, list[int], str | None]] = []
        for row, (ids, note) in enumerate(self._fitting(prompts, sampling.max_tokens)):
            if ids is None:
                yield row, Completion(text="", finish="error", note=note)
            else:
                fitting.append((row, ids, note))
        batches = self._in_batches([ids for _, ids, _ in fitting], sampling)
        for rows, texts in batches:
            sent = sum(len(fitting[row][1]) for row in rows)
            self.tokens_sent += sent
            self._tokens_written += sum(len(written.ids) for written in texts)
            for row, written in zip(rows, texts, strict=True):
                yield fitting[row][0], self._completion(written, fitting[row][2])

    def write_ids(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Written]:
        """The ids of one text for each prompt, as `write` draws them; for what no Prompt can say, such as separators.

        Args:
            prompts: token ids, each with all that frames it.
            sampling: length, temperature, share of probability, seed.

        Raises:
            BackendError: memory is short even for one row at a time.
        """
        batches = self._in_batches(prompts, sampling)
        found = {row: written for rows, texts in batches for row, written in zip(rows, texts, strict=True)}
        return [found[row] for row in range(len(prompts))]

    def _in_batches(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling
    ) -> Iterator[tuple[list[int], list[Written]]]:
        """Rows and their texts, prompts that begin alike together."""
        order = sorted(range(len(prompts)), key=lambda row: list(prompts[row]))
        for first in range(0, len(order), _BATCH):
            rows = order[first : first + _BATCH]
            yield rows, self._written([prompts[row] for row in rows], sampling)

    def _written(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Written]:
        model = self.opened.model
        fixed = isinstance(self.scorer, EncoderDecoder) or self.scorer.in_pieces
        ends = self.tokens.ends(model)

        def run(most: int) -> tuple[list[Written], int]:
            texts: list[Written] = []
            read = sum(map(len, prompts))
            for first in range(0, len(prompts), most):
                part = prompts[first : first + most]
                rows = next((size for size in self._sizes if len(part) <= size <= most), most) if fixed else None
                texts += write_batch(
                    model,
                    part,
                    ends,
                    max_tokens=sampling.max_tokens,
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    seed=sampling.seed,
                    rows=rows,
                )
                if fixed and not self.opened.encoder_decoder:
                    read -= sum(shared_tokens(part))
            return texts, read

        longest = max(map(len, prompts)) + BLOCK + sampling.max_tokens
        texts, read = halving(run, self._rows(_BATCH, longest), 1, f"{self.opened.name}: writing")
        self._tokens_to_write += read
        return texts

    @cached_property
    def _sizes(self) -> list[int]:
        return rows_of_same_bits(self.opened.model, _BATCH)

    def _rows(self, rows: int, longest: int) -> int:
        """Rows of so many tokens whose keys and values fit in the memory."""
        model = self.opened.model
        kept = kept_bytes(model.config.get_text_config(), int(model.dtype.itemsize))
        return max(1, min(rows, (self._memory or 0) // (2 * kept * longest)))  # twice: a cache is copied where it grows

    def _completion(self, written: Written, note: str | None) -> Completion:
        if written.broken:
            return Completion(text="", finish="error", note=NOT_NUMBERS.format("NaN"))
        return Completion(text=self.tokens.text(written.ids), finish="stop" if written.ended else "length", note=note)

    def _values(self, questions: Sequence[Question]) -> list[list[list[float]]]:
        """For each question and label the log-probabilities of the label's tokens."""
        if isinstance(self.scorer, EncoderDecoder):
            labels = questions[0].labels  # tokenised alone, so the same for all
            found = self.scorer.logprobs([question.prompt for question in questions], labels)
            return [[row[number, : len(label)].tolist() for number, label in enumerate(labels)] for row in found]
        sequences, reads = sequences_of(questions)
        values = iter(self.scorer.logprobs(sequences, reads).tolist())
        return [[[next(values) for _ in label] for label in question.labels] for question in questions]

    def _asked(self, rows: Sequence[int], prompts: Sequence[Prompt], labels: Sequence[str]) -> list[_Asked]:
        def length(question: Question) -> int:
            longest = 0 if self.opened.encoder_decoder else max(map(len, question.labels)) - 1
            return len(question.prompt) + longest

        def cut(text: str) -> Question:
            return self.tokens.question(text, labels)

        found = []
        for row, whole in zip(rows, self.tokens.questions([prompts[row].text for row in rows], labels), strict=True):
            fitted = self._fit(prompts[row], whole, cut, length, self._room(0))
            question, note = fitted
            if question is not None and not self._takes(len(question.prompt)):
                note = _MEMORY.format(prompts[row].role, len(question.prompt), (self._memory or 0) / 2**20)
                question = None
            found.append(_Asked(row, question, note))
        return found

    def _fitting(self, prompts: Sequence[Prompt], new: int) -> Iterator[tuple[list[int] | None, str | None]]:
        """The tokens of each prompt to be answered with up to `new` tokens, or why it does not fit."""
        room = self._room(new)
        for first in range(0, len(prompts), _GROUP):
            some = prompts[first : first + _GROUP]
            for prompt, whole in zip(some, self.tokens.prompts([prompt.text for prompt in some]), strict=True):
                fitted = self._fit(prompt, whole, self.tokens.prompt, len, room)
                yield fitted

    def _room(self, new: int) -> int | None:
        longest = self._longest
        return longest if longest is None or self.opened.encoder_decoder else longest - new

    def _fit(
        self, prompt: Prompt, encoded: T, encode: Callable[[str], T], length: Callable[[T], int], room: int | None
    ) -> tuple[T | None, str | None]:
        """A prompt as tokens, its context cut where that is allowed and needed; or None, and why it does not fit."""
        if room is None or length(encoded) <= room:
            return encoded, None
        long = (
            f"the {prompt.role} prompt has {length(encoded):,} tokens and {self.opened.name} takes {room:,}; "
            "shorten the texts, use a model with a longer context"
        )
        if not self._truncate:
            return None, f"{long}, or pass --truncate-context (option truncate_context=true)"
        context = prompt.slots.get("context", "")
        low, high = 0, len(context)  # `low` characters fit, or nothing does; `high` do not
        best = None
        while high - low > 1 or best is None:
            middle = (low + high) // 2
            cut = encode(replace(prompt, slots={**prompt.slots, "context": context[:middle].rstrip()}).text)
            if length(cut) <= room:
                best, low = cut, middle
            elif middle == 0:
                return None, f"{long}; it does not fit even without its context"
            else:
                high = middle
        return best, _CUT.format(f"{len(context):,}", f"{low:,}")


def _groups(prompts: Sequence[Prompt]) -> Iterator[range]:
    """Rows to be read together: neighbours, and all rows of a context in one group unless they are very many."""
    first = 0
    for row in range(1, len(prompts) + 1):
        count = row - first
        if row < len(prompts) and count < _LARGEST_GROUP:
            same = prompts[row].slots.get("context") == prompts[row - 1].slots.get("context")
            if same or count < _GROUP:
                continue
        yield range(first, row)
        first = row


def _in_order(numbered: Iterable[tuple[int, T]]) -> list[T]:
    return [answer for _, answer in sorted(numbered, key=lambda pair: pair[0])]


def open_local(
    target: str,
    *,
    dtype: str = "auto",
    device: str = "auto",
    revision: str | None = None,
    memory: str = "auto",
    truncate_context: str = "false",
    label_variants: str = "false",
    trust_remote_code: str = "false",
) -> Local:
    """Open a model of the Hub or a folder; options are text, as they come from the command line.

    Args:
        target: `ORG/MODEL`, or a folder.
        dtype: auto, float32, bfloat16 or float16; auto is what the weights are stored in (bfloat16 for float16).
        device: auto, cpu, cuda, cuda:1, ...; auto is a GPU where there is one.
        revision: a commit, tag or branch of the Hub.
        memory: what may be used beside the weights, such as 8G; auto is a share of what is free.
        truncate_context: true: cut the context of a prompt that is too long for the model, and mark its judgments.
        label_variants: true: count a label in every spelling (case, leading space).
        trust_remote_code: true: run Python files that come with the model.

    Raises:
        UsageError: an option's value is not what it must be.
        BackendUnavailableError: a library is missing, or there is no such model. What is wrong with the weights is told
            when they are read: by `load`, or with the first prompt.
    """
    bytes_asked = parse_memory(memory)
    truncate = _flag("truncate_context", truncate_context)
    variants = _flag("label_variants", label_variants)
    remote = _flag("trust_remote_code", trust_remote_code)
    opened = open_model(target, dtype=dtype, device=device, revision=revision, trust_remote_code=remote)
    return Local(opened, memory=bytes_asked, truncate_context=truncate, label_variants=variants)


def _flag(option: str, text: str) -> bool:
    if text not in {"true", "false"}:
        raise UsageError(f"{option}={text}: must be true or false")
    return text == "true"
