"""A model of transformers as writer and judge, and the options with which it is opened.

Label probabilities are exact, for labels of any number of tokens. The tokens that prompts share are computed once if
the model's architecture allows it (see `refladder.engine.causal`).
"""

from __future__ import annotations

import itertools
import logging
import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from refladder.backends.first_answers import FirstAnswers
from refladder.backends.hf.loading import open_model, parse_memory
from refladder.backends.hf.tokens import NOT_FINITE, Tokens, label_reading, sequences_of
from refladder.backends.instruction import instruction_digest, read_instruction
from refladder.backends.labels import PREFIXES
from refladder.backends.protocol import Streaming, Usage, in_order
from refladder.engine.causal import Causal
from refladder.engine.encoder_decoder import EncoderDecoder
from refladder.engine.memory import (
    cache_bytes_per_token,
    halve_until_it_fits,
    tokens_that_fit,
    usable_memory,
)
from refladder.engine.sampling import (
    BLOCK,
    GeneratedText,
    generate_batch,
    reproducible_batch_sizes,
    reused_tokens,
)
from refladder.engine.self_check import choose_strategy
from refladder.engine.trie import build_trie
from refladder.errors import UsageError, option
from refladder.records import Completion, LabelReading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from refladder.backends.hf.loading import Opened
    from refladder.backends.hf.tokens import TokenQuestion
    from refladder.records import Prompt, Sampling

T = TypeVar("T")

log = logging.getLogger(__name__)

# Prompts read together; beyond the first only to keep a context in one group.
_GROUP, _LARGEST_GROUP = 256, 2048
# Fewest tokens in one forward pass.
_LEAST_TOKENS = 16
# Texts generated together.
_BATCH = 32
_CUT = "the context was cut from {} to {} characters to fit"
_TOO_LITTLE_MEMORY = (
    "the {} prompt has {:,} tokens, which need more than the {:,.3g} MiB of memory available beside the weights; "
    "shorten the texts, raise --memory, or free memory"
)


class TransformersBackend(Streaming):
    """A model of transformers as writer and judge; its weights are read on first use, or by `load`."""

    kind = "hf"
    is_fixed = True

    def __init__(
        self,
        opened: Opened,
        *,
        memory: int | None,
        truncate_context: bool,
        prefix: bool = True,
        system: str = "",
    ) -> None:
        self.opened = opened
        # A decoder reads what prompts share once; a reward model reads each text whole.
        self.shares_contexts = not (opened.encoder_decoder or self.rewards)
        if opened.encoder_decoder:
            self._prefix = "unsupported"
        else:
            self._prefix = "on" if prefix else "off"
        self._requested_memory = memory
        # The memory is known once the weights are read.
        self._memory: int | None = None
        self._truncate = truncate_context
        self.tokens_sent = 0
        # Tokens of prompts that were continued.
        self._prompt_tokens_run = 0
        self._tokens_written = 0
        self._first = FirstAnswers(log, f"hf:{opened.name}")
        self._longest: int | None = getattr(
            opened.config.get_text_config(), "max_position_embeddings", None
        )
        self._system = system
        self.tokens = Tokens(
            opened.tokenizer,
            opened.name,
            encoder_decoder=opened.encoder_decoder,
            system=system,
        )
        self.tokens.check_template()
        self.tokens.check_system()

    @cached_property
    def scorer(self) -> Causal | EncoderDecoder:
        """Return the engine that reads log-probabilities; it loads the weights."""
        model, memory = self.opened.model, self._requested_memory
        if memory is None:
            memory = usable_memory(model.device)
        self._memory = memory
        if self.opened.encoder_decoder:
            return EncoderDecoder(model, memory)
        causal = Causal(model, self.opened.dtype, memory)
        choose_strategy(causal, self.tokens.sample())
        return causal

    def _fits_in_memory(self, length: int) -> bool:
        """Return whether a prompt of `length` tokens fits beside the weights, by a rough estimate; True while unknown."""
        if self._memory is None:
            return True
        config = self.opened.config.get_text_config()
        if self.opened.encoder_decoder:
            heads = int(getattr(config, "num_attention_heads", 0) or 16)
            return 12 * heads * length**2 <= self._memory
        return tokens_that_fit(_LEAST_TOKENS, length, 1, config, self._memory) == _LEAST_TOKENS

    @property
    def label_tokens(self) -> int:
        """Return 0: labels are read, not generated."""
        return 0

    @property
    def texts_at_once(self) -> int:
        """Return the size of a batch: a killed run loses at most this many texts."""
        return _BATCH

    @property
    def default_sampling(self) -> tuple[float, float]:
        """Return the values of the model's generation_config.json if it says to sample; else 1 and 1."""
        return self.opened.default_sampling

    def load(self) -> None:
        """Read the weights now, and choose an inference strategy."""
        _ = self.scorer

    @property
    def tokens_run(self) -> int:
        """Return the number of tokens read so far, with labels and padding; shared tokens count once."""
        # Reading a counter loads no weights.
        if "scorer" not in self.__dict__:
            return self._prompt_tokens_run
        return self._prompt_tokens_run + self.scorer.tokens_run

    @property
    def usage(self) -> Usage:
        """Return the tokens of all prompts so far, the tokens that the model read, and the tokens that it generated."""
        return Usage(
            prompt_tokens=self.tokens_sent,
            run_tokens=self.tokens_run,
            answer_tokens=self._tokens_written,
        )

    @property
    def fingerprint(self) -> str:
        """Return model, revision, dtype, template and every setting that can change an answer; the size of batches cannot."""
        text = f"{self.kind}:{self.opened.fingerprint},template:{self.tokens.template_digest}"
        if self._truncate:
            text += ",truncate"
        if not self.rewards:
            text += f",prefix:{self._prefix}"
        if self._system:
            text += f",system:{instruction_digest(self._system)}"
        return text

    def _begun(self, prompt: Prompt, labels: Sequence[str]) -> tuple[str, list[list[str]]]:
        """Return how the answer to a prompt begins, and the spellings of each label that may follow."""
        return self.tokens.begun(prompt.prefix if self._prefix == "on" else "", tuple(labels))

    def read_labels_each(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> Iterator[tuple[int, LabelReading]]:
        """Yield the number of each prompt and its reading, group by group; a group holds whole contexts."""
        row = 0
        for group in _groups(prompts):
            start = time.monotonic()
            run_before = self.scorer.tokens_run
            fitted = self._questions(group, labels)
            counts = [len(spellings) for spellings in self._begun(group[0], labels)[1]]
            questions = [question for question, _ in fitted if question is not None]
            self.tokens_sent += sum(len(question.prompt) for question in questions)
            values = iter(self._values(questions) if questions else ())
            seconds = time.monotonic() - start
            run = self.scorer.tokens_run - run_before
            log.info(
                "read %d prompts (%s), %d tokens, %.0f tokens/s",
                len(group),
                self.scorer.strategy,
                run,
                run / max(seconds, 1e-9),
            )
            readings = []
            for question, note in fitted:
                reading = LabelReading(reason=note)
                if question is not None:
                    reading = label_reading(question.labels, next(values), counts, note)
                readings.append(reading)
            self._first.readings(labels, readings)
            yield from enumerate(readings, start=row)
            row += len(group)

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int]:
        """Return the number of tokens of each prompt, 0 for one that is too long; needs no weights."""
        fitted = itertools.chain.from_iterable(map(self._prompt_ids, _groups(prompts)))
        return [len(ids or ()) for ids, _ in fitted]

    def _prompt_ids(
        self, prompts: Sequence[Prompt], new: int = 0
    ) -> Iterator[tuple[list[int] | None, str | None]]:
        """Yield the ids of each of these prompts with one prefix, if it fits with `new` more; see `_fitted`."""
        return self._fitted(prompts, self._encoded, len, new)

    def count_distinct_tokens(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> int:
        """Return the number of distinct tokens of prompts and labels, without loading weights.

        An encoder-decoder and a writer share no tokens, so all of them count.
        """
        if not labels:
            return sum(self.count_tokens(prompts))
        distinct = 0
        for group in _groups(prompts):
            fitted = self._questions(group, labels)
            questions = [question for question, _ in fitted if question is not None]
            if self.opened.encoder_decoder:
                distinct += sum(len(question.prompt) for question in questions)
            elif questions:
                distinct += build_trie(*sequences_of(questions))[0].size
        return distinct

    def count_label_tokens(self, prompt: Prompt, labels: Sequence[str]) -> list[int] | None:
        """Return the number of tokens of each label as the answer to a prompt; `read_labels` adds their log-probabilities."""
        return [len(ids) for ids in self.tokens.questions([prompt.text], labels)[0].labels]

    def write_each(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> Iterator[tuple[int, Completion]]:
        """Yield the number of each prompt and its text, batch by batch; prompts with a common prefix share a batch."""
        fitting: list[tuple[int, list[int], str | None]] = []
        groups = (self._prompt_ids(group, sampling.max_tokens) for group in _groups(prompts))
        for row, (ids, note) in enumerate(itertools.chain.from_iterable(groups)):
            if ids is None:
                yield row, Completion(finish="error", note=note)
            else:
                fitting.append((row, ids, note))
        for rows, texts in self._in_batches([ids for _, ids, _ in fitting], sampling):
            self.tokens_sent += sum(len(fitting[row][1]) for row in rows)
            self._tokens_written += sum(len(text.ids) for text in texts)
            completions = {}
            for row, text in zip(rows, texts, strict=True):
                number, _, note = fitting[row]
                completions[number] = self._completion(text, note)
            self._first.texts(list(completions.values()), sampling.max_tokens)
            yield from completions.items()

    def write_ids(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[GeneratedText]:
        """Return the ids of one text for each prompt, drawn as by `write`; for inputs that no Prompt can express."""
        numbered: list[tuple[int, GeneratedText]] = []
        for rows, texts in self._in_batches(prompts, sampling):
            numbered += zip(rows, texts, strict=True)
        return in_order(numbered)

    def _in_batches(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling
    ) -> Iterator[tuple[list[int], list[GeneratedText]]]:
        """Yield rows and their texts; prompts with a common prefix are neighbours."""
        order = sorted(range(len(prompts)), key=lambda row: list(prompts[row]))
        for first in range(0, len(order), _BATCH):
            rows = order[first : first + _BATCH]
            yield rows, self._generated([prompts[row] for row in rows], sampling)

    def _generated(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[GeneratedText]:
        model = self.opened.model
        temperature, top_p = sampling.drawn(self.default_sampling)
        reproducible = isinstance(self.scorer, EncoderDecoder) or self.scorer.reads_in_chunks
        end_ids = self.tokens.end_ids(model)

        def run(most: int) -> tuple[list[GeneratedText], int]:
            texts: list[GeneratedText] = []
            tokens_run = sum(map(len, prompts))
            for first in range(0, len(prompts), most):
                part = prompts[first : first + most]
                rows = None
                if reproducible:
                    sizes = [size for size in self._batch_sizes if len(part) <= size <= most]
                    rows = min(sizes, default=most)
                texts += generate_batch(
                    model,
                    part,
                    end_ids,
                    max_tokens=sampling.max_tokens,
                    temperature=temperature,
                    top_p=top_p,
                    seed=sampling.seed,
                    rows=rows,
                )
                if reproducible and not self.opened.encoder_decoder:
                    tokens_run -= sum(reused_tokens(part))
            return texts, tokens_run

        longest = max(map(len, prompts)) + BLOCK + sampling.max_tokens
        token_bytes = cache_bytes_per_token(
            model.config.get_text_config(), int(model.dtype.itemsize)
        )
        # The cache counts twice, because it is copied when it grows.
        rows = (self._memory or 0) // (2 * token_bytes * longest)
        texts, tokens_run = halve_until_it_fits(
            run, max(1, min(_BATCH, rows)), 1, f"{self.opened.name}: writing"
        )
        self._prompt_tokens_run += tokens_run
        return texts

    @cached_property
    def _batch_sizes(self) -> list[int]:
        return reproducible_batch_sizes(self.opened.model, _BATCH)

    def _completion(self, text: GeneratedText, note: str | None) -> Completion:
        """Return a written text; `note` says how the context of its prompt was cut, if it was."""
        cut = note is not None
        if text.has_nan:
            return Completion(finish="error", note=NOT_FINITE.format("NaN"), cut=cut)
        finish = "stop" if text.ended else "length"
        return Completion(text=self.tokens.text(text.ids), finish=finish, note=note, cut=cut)

    def _values(self, questions: Sequence[TokenQuestion]) -> list[list[list[float]]]:
        """Return the log-probability of every token of every label of every question."""
        if isinstance(self.scorer, EncoderDecoder):
            # Labels are tokenised alone, so they are the same for all questions.
            labels = questions[0].labels
            padded = self.scorer.logprobs([question.prompt for question in questions], labels)
            logprobs = []
            for rows in padded.tolist():
                pairs = zip(rows, labels, strict=True)
                logprobs.append([row[: len(label)] for row, label in pairs])
            return logprobs
        sequences, reads = sequences_of(questions)
        values = iter(self.scorer.logprobs(sequences, reads).tolist())
        logprobs = []
        for question in questions:
            of_labels = [list(itertools.islice(values, len(label))) for label in question.labels]
            logprobs.append(of_labels)
        return logprobs

    def _questions(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> list[tuple[TokenQuestion | None, str | None]]:
        """Return prompts of one prefix with the labels as tokens; or None and the reason why a prompt does not fit."""
        prefix, spellings = self._begun(prompts[0], labels)
        flat = list(itertools.chain(*spellings))

        def length(question: TokenQuestion) -> int:
            longest = 0 if self.opened.encoder_decoder else max(map(len, question.labels)) - 1
            return len(question.prompt) + longest

        fitted = self._fitted(
            prompts,
            lambda some: self.tokens.questions([prompt.text for prompt in some], flat, prefix),
            length,
        )
        group = list(fitted)
        for number, (question, _) in enumerate(group):
            if question is not None and not self._fits_in_memory(len(question.prompt)):
                tokens = len(question.prompt)
                available = (self._memory or 0) / 2**20
                reason = _TOO_LITTLE_MEMORY.format(prompts[number].role, tokens, available)
                group[number] = None, reason
        return group

    def _encoded(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Return the ids of each of these prompts with one prefix."""
        prefix, _ = self._begun(prompts[0], prompts[0].labels)
        return self.tokens.prompts([prompt.text for prompt in prompts], prefix)

    def _fitted(
        self,
        prompts: Sequence[Prompt],
        encode: Callable[[Sequence[Prompt]], Sequence[T]],
        length: Callable[[T], int],
        new: int = 0,
    ) -> Iterator[tuple[T | None, str | None]]:
        """Yield each prompt as tokens with room for `new` more, or None; with a note on what was cut or does not fit."""
        # Without a number, the model has no limit.
        most = self._longest
        if most is not None and not self.opened.encoder_decoder:
            if new >= most:
                raise UsageError(
                    f"{option('max-tokens')} {new:,}: {self.opened.name} takes {most:,} tokens with the prompt; give fewer"
                )
            most -= new
        for first in range(0, len(prompts), _GROUP):
            group = prompts[first : first + _GROUP]
            for prompt, whole in zip(group, encode(group), strict=True):
                if most is None or length(whole) <= most:
                    yield whole, None
                    continue
                cut = self._cut(prompt, length(whole), most, encode, length)
                yield cut

    def _cut(
        self,
        prompt: Prompt,
        tokens: int,
        most: int,
        encode: Callable[[Sequence[Prompt]], Sequence[T]],
        length: Callable[[T], int],
    ) -> tuple[T | None, str | None]:
        """Return a prompt of more than `most` tokens with as much of its context as fits, if it may be cut."""
        lengths = (
            f"the {prompt.role} prompt has {tokens:,} tokens and {self.opened.name} takes {most:,}"
        )
        context = prompt.slots.get("context", "")
        if not context:
            return None, f"{lengths}; shorten the texts, or use a model with a longer context"
        too_long = f"{lengths}; shorten the texts, use a model with a longer context"
        if not self._truncate:
            return None, f"{too_long}, or pass --truncate-context (option truncate_context=true)"
        # Bisection: `high` characters do not fit; `low` do, once `best` is set.
        low, high = (0, len(context))
        best = None
        while high - low > 1 or best is None:
            middle = (low + high) // 2
            [cut] = encode(
                [replace(prompt, slots={**prompt.slots, "context": context[:middle].rstrip()})]
            )
            if length(cut) <= most:
                best, low = cut, middle
            elif middle == 0:
                return None, f"{too_long}; it does not fit even without its context"
            else:
                high = middle
        return best, _CUT.format(f"{len(context):,}", f"{low:,}")


def _groups(prompts: Sequence[Prompt]) -> Iterator[list[Prompt]]:
    """Yield neighbours to read together: prompts of a context and an answer prefix, up to a maximum."""
    group: list[Prompt] = []
    for prompt in prompts:
        if group:
            last = group[-1]
            same = prompt.slots.get("context") == last.slots.get("context")
            alike = (prompt.prefix, prompt.labels) == (last.prefix, last.labels)
            most = _LARGEST_GROUP if same else _GROUP
            if not alike or len(group) >= most:
                yield group
                group = []
        group.append(prompt)
    if group:
        yield group


def open_hf(
    target: str,
    *,
    # `auto` is the dtype of the weights (bfloat16 for float16), or float32 on a CPU where that is faster.
    dtype: str = "auto",
    # A GPU if there is one.
    device: str = "auto",
    # A commit, tag or branch of the Hub.
    revision: str | None = None,
    # Beside the weights, such as 8G; a share of the free memory.
    memory: str = "auto",
    # True: of a prompt that is too long for the model; its judgments are marked.
    truncate_context: str = "false",
    # How an answer begins; none lets the model begin.
    prefix: str = "template",
    # A file with an instruction, the system message of every question.
    system: str | None = None,
    # True: Python files that come with the model are run.
    trust_remote_code: str = "false",
) -> TransformersBackend:
    """Open a model of the Hub, a folder or a GGUF file; options are text, as on the command line."""
    if prefix not in PREFIXES:
        raise UsageError(f"prefix={prefix}: must be {' or '.join(PREFIXES)}")
    instruction = "" if system is None else read_instruction(system)
    allowed = parse_memory(memory)
    truncate = flag("truncate_context", truncate_context)
    trust = flag("trust_remote_code", trust_remote_code)
    opened = open_model(
        target,
        dtype=dtype,
        device=device,
        revision=revision,
        trust_remote_code=trust,
    )
    return TransformersBackend(
        opened,
        memory=allowed,
        truncate_context=truncate,
        prefix=prefix == PREFIXES[0],
        system=instruction,
    )


def flag(option: str, text: str) -> bool:
    """Return the value of an option that is true or false."""
    if text not in {"true", "false"}:
        raise UsageError(f"{option}={text}: must be true or false")
    return text == "true"
