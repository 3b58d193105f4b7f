"""Token ids of prompts and labels: chat template, empty thought, no control tokens from a user's text."""

from __future__ import annotations

import itertools
import logging
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.backends.labels import (
    both_count,
    ids_after,
    reading_from_sequences,
    shortened,
    spellings_after,
)
from refladder.engine.trie import Read
from refladder.errors import BackendUnavailableError, UsageError, option
from refladder.records import LabelReading, digest_of, without_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = logging.getLogger(__name__)

_PRIVATE_USE = range(0xE000, 0xF900)
_SAMPLE = (
    "The harbour was closed on Monday after a storm had torn three boats from their moorings. A baker gives "
    "yesterday's bread away, and students carry it through the town by bicycle every morning before eight. Where does "
    "the river end? Nobody knew; 14 of 23 maps showed a lake, and the rest (printed in 1908) a marsh. They walked on. "
)
# Some templates write today's date into every prompt. This macro fixes it, so that a score does not change overnight.
_FIXED_DATE = "{% macro strftime_now(layout) %}{{ '2024-07-26' if layout == '%Y-%m-%d' else '26 Jul 2024' }}{% endmacro %}"
# The tokenizer needs about 100 bytes per token.
_TEXTS_AT_ONCE = 64
# Maximum distance in characters of the last control token from the end of a prompt.
_TAIL = 200


class TokenQuestion(NamedTuple):
    """A prompt with its labels, as tokens: the ids that prompt and prompt + label share, and those that follow."""

    prompt: list[int]
    labels: list[list[int]]


class Tokens:
    """A tokenizer and its chat template."""

    def __init__(
        self, tokenizer: Any, name: str, *, encoder_decoder: bool = False, system: str = ""
    ) -> None:
        self._tokenizer = tokenizer
        self._name = name
        self._encoder_decoder = encoder_decoder
        # The system message before every prompt; empty for none.
        self._system = system
        template = getattr(tokenizer, "chat_template", None)
        if isinstance(template, dict):
            template = template.get("default")
        self._template: str | None = template
        # Known once a message is rendered; see `check_template`.
        self._in_parts: bool | None = None
        self._space = " " if template is None else self._space_before_answer()
        if template is None and not encoder_decoder:
            log.warning(
                "hf:%s has no chat template. Prompts are sent as plain text. Base models rarely follow the format; an "
                "instruct model is recommended.",
                name,
            )
        controls = []
        for token in tokenizer.added_tokens_decoder.values():
            text = str(token)
            if len(text.strip()) > 1 and (token.special or text in (template or "")):
                controls.append(text)
        longest_first = sorted(controls, key=lambda text: (-len(text), text))
        self._controls = re.compile("|".join(map(re.escape, longest_first))) if controls else None
        self._begun: dict[tuple[str, tuple[str, ...]], tuple[str, list[list[str]]]] = {}
        self._last_end: tuple[str, tuple[str, ...], list[list[int]]] = ("", (), [])
        [bare] = self._ids(["a"])
        framed = list(tokenizer("a", return_attention_mask=False)["input_ids"])
        width = len(bare)
        starts = [index for index in range(len(framed)) if framed[index : index + width] == bare]
        start = starts[0] if starts else 0
        self._before = framed[:start]
        self._after = framed[start + width :]

    @property
    def template_digest(self) -> str:
        """Return eight hexadecimal digits of the chat template; `none` without one."""
        if self._template is None:
            return "none"
        return digest_of(self._template, size=4)

    def prompts(self, texts: Sequence[str], prefix: str = "") -> list[list[int]]:
        """Return the ids of each prompt up to the start of the answer, or with the beginning of the answer."""
        return self._encode([self._pieces(text, prefix) for text in texts])

    def conversations(self, turns: Sequence[Sequence[dict[str, str]]]) -> list[list[int]]:
        """Return the ids of finished conversations; control tokens spelt in a turn stay text."""
        pieces_of = []
        for messages in turns:
            texts = [message["content"] for message in messages]
            said = []
            for message in messages:
                marked, mark = self._marked(message["content"], *texts)
                said.append({**message, "content": marked})
            pieces_of.append(self._chat(said, start_answer=False).split(mark))
        return self._encode(pieces_of)

    def plain(self, text: str) -> list[int]:
        """Return the ids of a text alone, without template and special tokens; control tokens spelt in it stay text."""
        marked, mark = self._marked(text)
        return list(itertools.chain.from_iterable(self._ids(marked.split(mark))))

    def framed(self, ids: Sequence[int], longest: int) -> tuple[list[int], bool]:
        """Return ids with the special tokens that surround a text, and whether their end was cut off to fit."""
        most = longest - len(self._before) - len(self._after)
        return [*self._before, *ids[:most], *self._after], len(ids) > most

    def questions(
        self, texts: Sequence[str], labels: Sequence[str], prefix: str = ""
    ) -> list[TokenQuestion]:
        """Return each prompt with the ids of every label as its answer; labels follow a prefix as they are spelt."""
        pieces_of = [self._pieces(text, prefix) for text in texts]
        prompts = self._encode(pieces_of)
        if self._encoder_decoder:
            label_ids = self._ids(labels)
            questions = [TokenQuestion(prompt, label_ids) for prompt in prompts]
        else:
            questions = []
            for prompt, pieces in zip(prompts, pieces_of, strict=True):
                answers = tuple(labels)
                if not prefix:
                    answers = tuple(self._answer(pieces[-1], label) for label in labels)
                questions.append(self._with_labels(prompt, pieces, answers))
        for question in questions:
            for label, ids in zip(labels, question.labels, strict=True):
                if not ids:
                    raise UsageError(
                        f"label {label!r} has no tokens in the tokenizer of hf:{self._name}; use a label with text"
                    )
        return questions

    def _with_labels(
        self, prompt: list[int], pieces: Sequence[str], answers: tuple[str, ...]
    ) -> TokenQuestion:
        tail = self._tail(pieces[-1])
        if tail:
            # Most templates give all prompts one end, so the ids of the last one are kept.
            if self._last_end[:2] != (tail, answers):
                ids = self._ids([tail, *(tail + answer for answer in answers)])
                self._last_end = (tail, answers, ids)
            tail_ids, *ends = self._last_end[2]
            if tail_ids and prompt[-len(tail_ids) :] == tail_ids:
                return _split(prompt, [prompt[: -len(tail_ids)] + end for end in ends])
        return _split(
            prompt, self._encode([[*pieces[:-1], pieces[-1] + answer] for answer in answers])
        )

    def begun(self, prefix: str, labels: tuple[str, ...]) -> tuple[str, list[list[str]]]:
        """Return as much of an answer prefix as all labels can follow as tokens of their own, and their spellings."""
        if not prefix:
            return prefix, [[label] for label in labels]
        if (prefix, labels) not in self._begun:
            self._begun[prefix, labels] = self._longest_begun(prefix, labels)
        return self._begun[prefix, labels]

    def _longest_begun(self, prefix: str, labels: tuple[str, ...]) -> tuple[str, list[list[str]]]:
        for part in shortened(prefix):
            spelt = self._spelt(part, labels)
            if spelt is not None:
                return spelt
        return self.begun("", labels)

    def _spelt(self, prefix: str, labels: tuple[str, ...]) -> tuple[str, list[list[str]]] | None:
        groups = [spellings_after(prefix, label) for label in labels]
        start = self._pieces("a", prefix)[-1]
        [before] = self._ids([start])
        ends = []
        for group in groups:
            wholes = self._ids([start + spelling for spelling in group])
            ends.append([ids_after(before, whole) for whole in wholes])
            # The first spelling of each label has tokens of its own.
            if not ends[-1][0]:
                return None
        if not both_count(ends):
            return prefix, [group[:1] for group in groups]
        return prefix, groups

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def sample(self) -> list[int]:
        """Return 200 or more ids of plain text, for the engine's self-check."""
        [ids] = self._ids([_SAMPLE])
        return ids * (200 // max(1, len(ids)) + 1)

    def end_ids(self, model: Any) -> list[int]:
        """Return the ids that end a text, from the model's generation settings and the tokenizer."""
        stored = model.generation_config.eos_token_id
        ids = [*stored] if isinstance(stored, list) else [stored]
        distinct = dict.fromkeys([*ids, self._tokenizer.eos_token_id])
        return without_none(distinct)

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = []
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            group = list(texts[first : first + _TEXTS_AT_ONCE])
            # Texts that are too long are cut or refused elsewhere, and counted: no warning of the tokenizer is wanted.
            asked = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
            ids += self._tokenizer(group, **asked)["input_ids"]
        return ids

    def _answer(self, rendered: str, label: str) -> str:
        """Return a label with the space that separates it from a prompt, if one is needed."""
        spaced = rendered[-1:].isspace() or label[:1].isspace()
        return label if spaced else self._space + label

    def _pieces(self, text: str, prefix: str = "") -> list[str]:
        """Return the prompt as text, split inside each control token that the user's text spells, so that it stays text."""
        marked, mark = self._marked(text, self._system)
        rendered = self._rendered(marked, self._marked(self._system, text)[0])
        if prefix:
            rendered += self._answer(rendered, prefix)
        return rendered.split(mark)

    def _marked(self, text: str, *others: str) -> tuple[str, str]:
        """Return a text with a mark inside each control token that it spells, and the mark; `others` do not hold it."""
        everything = text + "".join(others)
        mark = next(chr(code) for code in _PRIVATE_USE if chr(code) not in everything)
        while self._controls is not None and (match := self._controls.search(text)):
            text = text[: match.start() + 1] + mark + text[match.start() + 1 :]
        return text, mark

    def _rendered(self, text: str, system: str) -> str:
        if self._template is None:
            return text
        before = [{"role": "system", "content": system}] if system else []
        rendered = self._chat([*before, {"role": "user", "content": text}], start_answer=True)
        if rendered.rstrip().endswith("<think>"):
            return rendered.rstrip() + "\n\n</think>\n\n"
        if "<|channel|>" in self._template and not rendered.endswith("<|message|>"):
            return rendered + "<|channel|>final<|message|>"
        return rendered

    def check_template(self) -> None:
        """Find whether the template reads a message as a string or, as in models that take images, as a list of parts."""
        if self._template is None or self._in_parts is not None:
            return
        word, problem = _SAMPLE[:11], None
        for in_parts in (False, True):
            try:
                rendered = self._rendered_as(
                    in_parts, [{"role": "user", "content": word}], start_answer=True
                )
            except BackendUnavailableError as error:
                problem = problem or error
                continue
            if word in rendered:
                self._in_parts = in_parts
                return
        raise problem or BackendUnavailableError(
            f"hf:{self._name}: its chat template leaves out the user's message; use another model"
        )

    def check_system(self) -> None:
        """Check that prompts show the system message, if there is one."""
        if not self._system:
            return
        problem = "has no chat template" if self._template is None else ""
        try:
            if self._system not in "".join(self._pieces(_SAMPLE[:11])):
                problem = problem or "has a chat template that leaves out the system message"
        except BackendUnavailableError:
            problem = "has a chat template that refuses a system message"
        if problem:
            raise BackendUnavailableError(
                f"hf:{self._name} {problem}; leave out the option system, and write the instruction into prompt "
                f"templates of your own ({option('prompts')})"
            )

    def _chat(self, messages: Sequence[Mapping[str, object]], *, start_answer: bool) -> str:
        self.check_template()
        return self._rendered_as(bool(self._in_parts), messages, start_answer=start_answer)

    def _rendered_as(
        self, in_parts: bool, messages: Sequence[Mapping[str, object]], *, start_answer: bool
    ) -> str:
        template = self._template or ""
        if in_parts:
            messages = list(map(_with_parts, messages))
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages,
                    chat_template=_FIXED_DATE * ("strftime_now" in template) + template,
                    tokenize=False,
                    add_generation_prompt=start_answer,
                    # Templates ignore variables that they do not use.
                    enable_thinking=False,
                    thinking=False,
                    date_string="26 Jul 2024",
                )
            )
        except Exception as error:
            # A template can raise a TypeError too, as by text + a list of parts.
            of_jinja = type(error).__module__.partition(".")[0] == "jinja2"
            if not (of_jinja or isinstance(error, TypeError)):
                raise
            raise BackendUnavailableError(
                f"hf:{self._name}: its chat template fails on one user message ({error}); use another model"
            ) from error

    def _space_before_answer(self) -> str:
        """Return the white space that the template writes before an answer (`[/INST] Better`), but not in its prompt."""
        messages = [{"role": "user", "content": "a"}]
        try:
            start = self._chat(messages, start_answer=True)
            whole = self._chat(
                [*messages, {"role": "assistant", "content": "Better"}], start_answer=False
            )
        except BackendUnavailableError:
            # A template may refuse an answer; a refused prompt is reported elsewhere.
            return ""
        space, answer, _ = whole[len(start) :].partition("Better")
        return space if whole.startswith(start) and answer and not space.strip() else ""

    def _encode(self, pieces_of: Sequence[Sequence[str]]) -> list[list[int]]:
        """Return the ids of prompts that are split into pieces."""
        parts = iter(self._ids(list(itertools.chain.from_iterable(pieces_of))))
        before = self._before if self._template is None else []
        after = self._after if self._template is None and self._encoder_decoder else []
        prompts = []
        for pieces in pieces_of:
            ids = itertools.chain.from_iterable(itertools.islice(parts, len(pieces)))
            prompts.append([*before, *ids, *after])
        return prompts

    def _tail(self, rendered: str) -> str:
        """Return the text after the last control token, if that is near the end; a label's tokens depend on nothing before."""
        if self._controls is None:
            return ""
        last = None
        for last in self._controls.finditer(rendered, max(0, len(rendered) - _TAIL)):  # noqa: B007
            pass
        return rendered[last.end() :] if last else ""


def _with_parts(message: Mapping[str, object]) -> dict[str, object]:
    """Return a message whose content is a list of parts."""
    return {**message, "content": [{"type": "text", "text": message["content"]}]}


def _split(prompt: list[int], wholes: list[list[int]]) -> TokenQuestion:
    shared = len(prompt)
    for whole in wholes:
        shared = min(shared, len(whole))
        while prompt[:shared] != whole[:shared]:
            shared -= 1
    return TokenQuestion(prompt[:shared], [whole[shared:] for whole in wholes])


NOT_FINITE = "the model returned no finite number for this prompt ({}); load it with dtype=bfloat16 or dtype=float32"


def sequences_of(questions: Sequence[TokenQuestion]) -> tuple[list[list[int]], list[Read]]:
    """Return the sequences that the engine runs for questions, one for each label, and the reads of each label's tokens."""
    sequences: list[list[int]] = []
    reads: list[Read] = []
    for question in questions:
        for label in question.labels:
            for position, token in enumerate(label, start=len(question.prompt) - 1):
                reads.append(Read(len(sequences), position, token))
            sequences.append([*question.prompt, *label[:-1]])
    return sequences, reads


def label_reading(
    labels: Sequence[Sequence[int]],
    values: Sequence[Sequence[float]],
    spellings: Sequence[int],
    note: str | None,
) -> LabelReading:
    """Combine the token log-probabilities of a prompt into one number per label; `note` says how it was cut, if so."""
    cut = note is not None
    for value in itertools.chain(*values):
        if not math.isfinite(value):
            return LabelReading(reason=NOT_FINITE.format(value), cut=cut)
    sequences = [tuple(ids) for ids in labels]
    logprobs = {ids: math.fsum(tokens) for ids, tokens in zip(sequences, values, strict=True)}
    rest = iter(sequences)
    groups = [list(itertools.islice(rest, count)) for count in spellings]
    return reading_from_sequences(groups, logprobs, cut=cut, note=note)
