"""From a prompt and its labels to token ids: chat template, empty thought, no control token out of a user's text."""

from __future__ import annotations

import hashlib
import itertools
import logging
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from refladder.errors import BackendUnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

_PRIVATE_USE = range(0xE000, 0xF900)
_SAMPLE = (
    "The harbour was closed on Monday after a storm had torn three boats from their moorings. A baker gives "
    "yesterday's bread away, and students carry it through the town by bicycle every morning before eight. Where does "
    "the river end? Nobody knew; 14 of 23 maps showed a lake, and the rest (printed in 1908) a marsh. They walked on. "
)
# In place of today's date, which some templates write into every prompt: a score must not change overnight.
_FIXED_DATE = (
    "{% macro strftime_now(layout) %}{{ '2024-07-26' if layout == '%Y-%m-%d' else '26 Jul 2024' }}{% endmacro %}"
)
_TOGETHER = 64  # texts given to the tokenizer at once: it keeps some 100 bytes a token meanwhile
_TAIL = 200  # characters after the last control token, within which a label's tokens do not depend on what is before


class Question(NamedTuple):
    """A prompt with its labels, as tokens.

    `prompt` holds the ids that all of prompt and prompt + label begin with; `labels` the ids that follow, for each
    label. For an encoder-decoder `prompt` is what the encoder reads.
    """

    prompt: list[int]
    labels: list[list[int]]


class Tokens:
    """A tokenizer and its chat template.

    Args:
        tokenizer: of transformers.
        name: the model, for messages.
        encoder_decoder: prompts go to an encoder, labels to a decoder; no template.
        variants: read every label also in lower case, capitalised and after a space, and add those up.
    """

    def __init__(self, tokenizer: Any, name: str, *, encoder_decoder: bool = False, variants: bool = False) -> None:  # noqa: ANN401
        self._tokenizer = tokenizer
        self._name = name
        self._encoder_decoder = encoder_decoder
        self._variants = variants
        template = None if encoder_decoder else getattr(tokenizer, "chat_template", None)
        if isinstance(template, dict):
            template = template.get("default")
        self._template: str | None = template
        self._space = " " if template is None else self._space_before_answer()
        if template is None and not encoder_decoder:
            log.warning(
                "hf:%s has no chat template: prompts go in as plain text, and an answer begins after one space", name
            )
        controls = [
            str(token)
            for token in tokenizer.added_tokens_decoder.values()
            if len(str(token).strip()) > 1 and (token.special or str(token) in (template or ""))
        ]
        longest_first = sorted(controls, key=lambda text: (-len(text), text))
        self._controls = re.compile("|".join(map(re.escape, longest_first))) if controls else None
        self._last_end: tuple[str, tuple[str, ...], list[list[int]]] = ("", (), [])
        [bare] = self._ids(["a"])
        framed = list(tokenizer("a", return_attention_mask=False)["input_ids"])
        start = next((place for place in range(len(framed)) if framed[place : place + len(bare)] == bare), 0)
        self._before, self._after = framed[:start], framed[start + len(bare) :]

    @property
    def template_digest(self) -> str:
        """Eight hexadecimal digits of the chat template; `none` without one."""
        if self._template is None:
            return "none"
        return hashlib.blake2b(self._template.encode(), digest_size=4).hexdigest()

    def prompt(self, text: str) -> list[int]:
        """The ids of a prompt up to where the answer begins."""
        return self.prompts([text])[0]

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """`prompt` of each text; a tokenizer in Rust takes many at once on all cores."""
        return self._encode([self._pieces(text) for text in texts])

    def plain(self, text: str) -> list[int]:
        """The ids of a text with nothing around it; a control token that it spells becomes none."""
        return list(itertools.chain.from_iterable(self._ids(self._pieces(text))))

    def framed(self, ids: Sequence[int], longest: int) -> tuple[list[int], bool]:
        """Ids between what the tokenizer puts around a text, and whether their end was cut off to fit."""
        room = longest - len(self._before) - len(self._after)
        return [*self._before, *ids[:room], *self._after], len(ids) > room

    def question(self, text: str, labels: Sequence[str]) -> Question:
        """A prompt with the ids of every label as its answer.

        Prompt and label are one text to the tokenizer. Where it joins the end of a prompt with a label, all labels
        are read from the last token that prompt and prompt + label have in common.

        Raises:
            UsageError: a label is no token at all.
        """
        return self.questions([text], labels)[0]

    def questions(self, texts: Sequence[str], labels: Sequence[str]) -> list[Question]:
        """`question` of each text.

        Raises:
            UsageError: a label is no token at all.
        """
        several = [self._pieces(text) for text in texts]
        prompts = self._encode(several)
        if self._encoder_decoder:
            answers = self._ids(labels)
            found = [Question(prompt, answers) for prompt in prompts]
        else:
            found = [self._answered(*one, labels) for one in zip(prompts, several, strict=True)]
        for question in found:
            for label, ids in zip(labels, question.labels, strict=True):
                if not ids:
                    raise UsageError(
                        f"label {label!r} is no token at all to hf:{self._name}; give a label with text in it"
                    )
        return found

    def _answered(self, prompt: list[int], pieces: Sequence[str], labels: Sequence[str]) -> Question:
        answers = tuple(self._answer(pieces[-1], label) for label in labels)
        tail = self._tail(pieces[-1])
        if tail:
            if self._last_end[:2] != (tail, answers):  # most templates end all prompts alike
                self._last_end = (tail, answers, self._ids([tail, *(tail + answer for answer in answers)]))
            own, *ends = self._last_end[2]
            if own and prompt[-len(own) :] == own:
                return _split(prompt, [prompt[: -len(own)] + end for end in ends])
        return _split(prompt, self._encode([[*pieces[:-1], pieces[-1] + answer] for answer in answers]))

    def variants_of(self, label: str) -> list[str]:
        """The spellings that count as one label: itself first."""
        if not self._variants:
            return [label]
        spellings = [label, label.lower(), label.capitalize()]
        return list(dict.fromkeys(spellings + [" " + spelling for spelling in spellings]))

    def text(self, ids: Sequence[int]) -> str:
        """What ids say, without special tokens."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def sample(self) -> list[int]:
        """Some 200 ids of plain text, to try a model out with."""
        [ids] = self._ids([_SAMPLE])
        return ids * (200 // max(1, len(ids)) + 1)

    def ends(self, model: Any) -> list[int]:  # noqa: ANN401  of transformers
        """The ids that end a text: those of the model's generation settings, and the tokenizer's."""
        stored = model.generation_config.eos_token_id
        found = [*stored] if isinstance(stored, list) else [stored]
        return list(dict.fromkeys(token for token in [*found, self._tokenizer.eos_token_id] if token is not None))

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = []
        for first in range(0, len(texts), _TOGETHER):
            some = list(texts[first : first + _TOGETHER])
            found += self._tokenizer(some, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return found

    def _answer(self, rendered: str, label: str) -> str:
        """A label as it stands after a prompt, with the space that belongs between."""
        spaced = rendered[-1:].isspace() or label[:1].isspace()
        return label if spaced else self._space + label

    def _pieces(self, text: str) -> list[str]:
        """The whole prompt as text, cut wherever the user's text spells a control token, so that it becomes none."""
        mark = next(chr(code) for code in _PRIVATE_USE if chr(code) not in text)
        while self._controls is not None and (found := self._controls.search(text)):
            text = text[: found.start() + 1] + mark + text[found.start() + 1 :]
        return self._rendered(text).split(mark)

    def _rendered(self, text: str) -> str:
        if self._template is None:
            return text
        rendered = self._chat([{"role": "user", "content": text}], start_answer=True)
        if rendered.rstrip().endswith("<think>"):
            return rendered.rstrip() + "\n\n</think>\n\n"
        if "<|channel|>" in self._template and not rendered.endswith("<|message|>"):
            return rendered + "<|channel|>final<|message|>"
        return rendered

    def _chat(self, messages: list[dict[str, str]], *, start_answer: bool) -> str:
        template = self._template or ""
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages,
                    chat_template=_FIXED_DATE * ("strftime_now" in template) + template,
                    tokenize=False,
                    add_generation_prompt=start_answer,
                    enable_thinking=False,  # variables that a template does not use do no harm
                    thinking=False,
                    date_string="26 Jul 2024",
                )
            )
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "jinja2":
                raise
            raise BackendUnavailableError(
                f"hf:{self._name}: its chat template fails on one user message ({error}); use another model"
            ) from error

    def _space_before_answer(self) -> str:
        """The white space that the template puts before an answer and leaves out of its generation prompt.

        Llama 2 and Mistral write `[/INST] Better`, and their models expect the space.
        """
        asked = [{"role": "user", "content": "a"}]
        try:
            start = self._chat(asked, start_answer=True)
            whole = self._chat([*asked, {"role": "assistant", "content": "Better"}], start_answer=False)
        except BackendUnavailableError:  # a prompt will say so
            return ""
        space, found, _ = whole[len(start) :].partition("Better")
        return space if whole.startswith(start) and found and not space.strip() else ""

    def _encode(self, several: Sequence[Sequence[str]]) -> list[list[int]]:
        """The ids of prompts that are cut into pieces."""
        parts = iter(self._ids([piece for pieces in several for piece in pieces]))
        found = [[token for _ in pieces for token in next(parts)] for pieces in several]
        if self._template is not None:
            return found
        after = self._after if self._encoder_decoder else []
        return [[*self._before, *ids, *after] for ids in found]

    def _tail(self, rendered: str) -> str:
        """What stands after the last control token, where that is close to the end."""
        if self._controls is None:
            return ""
        last = None
        for last in self._controls.finditer(rendered, max(0, len(rendered) - _TAIL)):  # noqa: B007
            pass
        return rendered[last.end() :] if last else ""


def _split(prompt: list[int], wholes: list[list[int]]) -> Question:
    shared = len(prompt)
    for whole in wholes:
        shared = min(shared, len(whole))
        while prompt[:shared] != whole[:shared]:
            shared -= 1
    return Question(prompt[:shared], [whole[shared:] for whole in wholes])
