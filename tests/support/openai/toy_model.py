"""A language model of a few hundred tokens whose distributions are drawn by a hash of the tokens so far.

Its exact log-probabilities are known, so what comes over a server can be compared with them. It likes to answer with
the labels; `Worse` is two tokens, as in the vocabularies of GPT-4, Llama 3 and Qwen.
"""

import hashlib
import re

import numpy as np

SPECIAL = ("<eos>", "<|user|>", "<|assistant|>", "<think>", "</think>")
WORDS = ("Better", "W", "orse", "Similar", " Better", "better", "worse", " Similar", "BETTER")
WORDS += ("Yes", "No", "one", " two", " three")
CHARACTERS = tuple(map(chr, range(32, 127))) + ("\n", "…")  # noqa: RUF005
VOCABULARY = (*SPECIAL, *(word for word in WORDS if len(word) > 1), *CHARACTERS)
NUMBER = {token: number for number, token in enumerate(VOCABULARY)}
# The longest piece of the vocabulary at each place, or any character.
PIECES = re.compile(
    "|".join(map(re.escape, sorted(VOCABULARY, key=len, reverse=True))) + "|.", re.DOTALL
)
PREFIX = 'Answer: "'  # of the shipped templates; the model says after it what it says without
NO_THOUGHT = "<think></think>"  # what a template writes where thoughts are off; the model says after it what it says
LIKED = ("Better", "W", "Similar", " Better", "better")


def encode(text):
    return [NUMBER.get(piece, NUMBER["…"]) for piece in PIECES.findall(text)]


def render(messages, *, generation=True):
    text = "".join(f"<|{message['role']}|>\n{message['content']}\n" for message in messages)
    return text + ("<|assistant|>\n" if generation else "")


def render_begun(messages):
    """Messages of which the last is an answer to be continued."""
    return render(messages[:-1]) + messages[-1]["content"]


class ToyModel:
    encode, render = staticmethod(encode), staticmethod(render)
    render_begun = staticmethod(render_begun)
    end = NUMBER["<eos>"]

    def text(self, ids):
        return "".join(map(self.token, ids))

    @staticmethod
    def token(number):
        return VOCABULARY[number]

    def __init__(self, *, flat=False, silent_after=()):
        self._flat = flat  # every token about as likely: no label stands out
        # parts of prompts after which the end of the answer is most likely
        self._silent_after = silent_after
        self._known = {}

    def logprobs(self, ids):
        """Natural-log probabilities of the next token, shape (vocabulary,)."""
        key = tuple(ids)
        if key not in self._known:
            digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
            logits = np.random.default_rng(int.from_bytes(digest)).normal(size=len(VOCABULARY))
            text = "".join(map(VOCABULARY.__getitem__, key))
            if not self._flat:
                for token, bonus in self._bonuses(text):
                    logits[NUMBER[token]] += bonus
            self._known[key] = logits - np.log(np.sum(np.exp(logits)))
        return self._known[key]

    def _bonuses(self, text):
        said = None
        if "<|assistant|>\n" in text:
            said = (
                text.rpartition("<|assistant|>\n")[2].removeprefix(NO_THOUGHT).removeprefix(PREFIX)
            )
        if said in {"", None} and any(part in text for part in self._silent_after):
            return [("<eos>", 12.0)]
        if said is not None and ("Count from" in text or "Monday" in text):
            return [({"": "one", "one": " two"}.get(said, " three"), 9.0)]
        if said == "" or text.endswith(("Answer:", PREFIX)):
            return [(token, 7.0) for token in LIKED]
        if said == "W":
            return [("orse", 8.0)]
        return [("<eos>", 9.0)]

    def label(self, prompt_ids, label):
        """The exact log-probability of a label as the beginning of the answer."""
        ids, total = list(prompt_ids), 0.0
        for token in self.encode(label):
            total += float(self.logprobs(ids)[token])
            ids.append(token)
        return total

    def say(self, ids, *, most, temperature, seed):
        """An answer: (text, token ids, finish reason)."""
        ids, said = list(ids), []
        drawn = np.random.default_rng([seed, len(ids)])
        for _ in range(most):
            logprobs = self.logprobs(ids)
            if temperature == 0:
                token = int(np.argmax(logprobs))
            else:
                weights = np.exp(logprobs / temperature)
                token = int(drawn.choice(len(weights), p=weights / weights.sum()))
            if token == self.end:
                return self.text(said), said, "stop"
            ids.append(token)
            said.append(token)
        return self.text(said), said, "length"
