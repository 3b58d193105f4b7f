"""Models behind any OpenAI-compatible server: OpenAI, vLLM, SGLang, llama.cpp, Ollama, `transformers serve`.

What the server can do is found out once (see `probe`), and the best mode that works is part of the fingerprint. A row
that fails for good is unparsed with its reason, and a server that fails altogether ends the run.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from refladder.backends.first_answers import FirstAnswers
from refladder.backends.openai.batch import Batches
from refladder.backends.openai.exact import read_exact_together, sent_tokens
from refladder.backends.openai.options import Options, read_headers, read_key, read_options
from refladder.backends.openai.pace import Pace
from refladder.backends.openai.probe import READERS, VOTES, forget, handshake, keep, kept_probe, still_as_found
from refladder.backends.openai.reading import written
from refladder.backends.openai.running import Rows, Running
from refladder.backends.openai.talk import Talk
from refladder.backends.openai.transport import LOG, Refusal, Tally, unavailable
from refladder.backends.protocol import Backend, in_order
from refladder.backends.usage import Usage
from refladder.errors import BackendUnavailableError, UsageError, option, redacted
from refladder.records import Completion, LabelReading

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence

    from refladder.backends.openai.server import Server
    from refladder.backends.openai.talk import Probe
    from refladder.records import Prompt, Sampling

_PACKAGES = ("aiohttp", "tenacity")
_PROVEN_FOR = 200  # rows
_FINGERPRINT = str.maketrans({"|": "%7C", "\n": " ", "\r": " "})

Answer = TypeVar("Answer", LabelReading, Completion)
T = TypeVar("T")


class Endpoint(Backend):
    """A model on a server; writes and judges. Keeps no connection open between calls."""

    kind = "openai"

    def __init__(
        self, model: str, options: Options, *, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.model = model
        self.options = options
        self._key = key
        self._headers = headers
        self._probe: Probe | None = None
        self._unproven = 0  # rows that may be asked before the server must show again what they rely on
        self._first = FirstAnswers(LOG, f"openai:{model}")
        self._tally = Tally()
        self._pace = Pace(
            most=options.max_concurrency,
            requests_per_minute=options.requests_per_minute,
            tokens_per_minute=options.tokens_per_minute,
            patience=options.patience,
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts so far: requests, tokens, retries, and unparsed answers by reason ("answer: refusal")."""
        return dict(self._tally.counts)

    @property
    def usage(self) -> Usage:
        """Requests and tokens as the server reported them; `run_tokens` are the prompt tokens that were not cached."""
        counts = self._tally.counts
        unknown = counts["prompt tokens of unknown cache"] or (counts["requests"] and not counts["prompt tokens"])
        return Usage(
            requests=counts["requests"],
            prompt_tokens=counts["prompt tokens"],
            run_tokens=None if unknown else counts["prompt tokens"] - counts["cached prompt tokens"],
            answer_tokens=counts["answer tokens"],
        )

    @property
    def probe(self) -> Probe:
        """The result of the handshake, which is made at the first use."""
        if self._probe is None:
            self._probe = kept_probe(self.options, self.model)
            if self._probe is None:
                self._probe = self._do(handshake)
                self._unproven = _PROVEN_FOR
                keep(self._probe, self.options, self.model)
            LOG.info("%s", self.notice)
        return self._probe

    @property
    def fingerprint(self) -> str:
        """Kind, model, server and how labels are read, in one line without the key."""
        parts = urlsplit(self.options.base_url)
        extra = f" extra={sorted(redacted(dict(self.options.extra)).items())}" if self.options.extra else ""
        query = f"?{parts.query}" if parts.query else ""
        place = f"{self.model}@{parts.netloc}{parts.path}{query}"
        return f"{self.kind}:{place} {self._mode}{extra}".translate(_FINGERPRINT)

    @property
    def _mode(self) -> str:
        """How labels are read, as in the fingerprint."""
        # stored answers without the word shares are smoothed shares, not to be mixed with these
        shares = "-shares" if self.probe.mode == "sample" else ""
        tokens = f" answer{self.options.answer_tokens}" if self.options.answer_tokens else ""
        switched = f"thoughts:off({self.probe.dialect.switch}) " if self.probe.dialect.switch else ""
        return f"{switched}prefix:{self.probe.prefix} {self.probe.name(self.options.samples)}{shares}{tokens}"

    @property
    def notice(self) -> str:
        """How labels are read and why not better, in one line for people."""
        probe, samples = self.probe, self.options.samples
        how = VOTES if probe.fixed else READERS[probe.mode].words.format(top=probe.top, samples=samples)
        if probe.dialect.switch:
            how += f", its thoughts switched off ({probe.dialect.switch})"
        elif probe.thinks:
            how += f", each after a thought: {probe.answers(self.options)} thoughts for each comparison of a text"
        why = f" (not better: {'; '.join(probe.refused)})" if probe.refused else ""
        return f"{self.model} at {self.options.base_url}: {how} [{probe.name(samples)}, prefix:{probe.prefix}]{why}"

    @property
    def wants_all(self) -> bool:
        """Whether all prompts of a run are to come in one call: each call makes a batch that takes hours."""
        return self.options.batch is not None

    @property
    def label_tokens(self) -> int:
        """The most tokens that one judging prompt is answered with, over all its requests but those of long labels."""
        if self.probe.mode != "sample":
            return 1
        return self.probe.answers(self.options) * self.probe.answer_tokens(self.options)

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int] | None:
        """Prompt tokens over all requests for each prompt, but those that complete a label; None if unknown."""
        probe = self.probe
        if probe.dialect.tokens is None:
            return None

        async def count(talk: Talk) -> list[int]:
            return await asyncio.gather(*(sent_tokens(talk, probe, prompt) for prompt in prompts))

        return self._do(count)

    def write(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One text for each prompt, in order; see `write_each`."""
        return in_order(self.write_each(prompts, sampling))

    def read_labels(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> list[LabelReading]:
        """Label log-probabilities of each prompt, in order; see `read_labels_each`."""
        return in_order(self.read_labels_each(prompts, labels))

    def write_each(self, prompts: Sequence[Prompt], sampling: Sampling) -> Iterator[tuple[int, Completion]]:
        """Row number and text of each prompt, as they finish; the contract is that of `read_labels_each`."""
        temperature, top_p = sampling.drawn()
        if not self.probe.dialect.tempered and (temperature, top_p) != (1.0, 1.0):
            raise UsageError(
                f"{self.model} at {self.options.base_url} takes no temperature and no top-p, so its texts are drawn "
                f"with 1 and 1; leave out {option('temperature')} and {option('top-p')}"
            )
        drawn = {"temperature": temperature, "seed": sampling.seed, "top_p": top_p}

        async def answer(talk: Talk, prompt: Prompt) -> Completion:
            completion = written((await talk.chat(self.probe.messages(prompt), most=sampling.max_tokens, **drawn))[0])
            if completion.note is not None:
                self._tally.counts[f"answer: {completion.note}"] += 1
            return completion

        def failed(reason: str) -> Completion:
            return Completion(text="", finish="error", note=reason)

        return self._first.watched_texts(sampling.max_tokens, self._each(prompts, answer, failed))

    def read_labels_each(self, prompts: Sequence[Prompt], labels: Sequence[str]) -> Iterator[tuple[int, LabelReading]]:
        """Row number and reading of each prompt, as they finish; of the answered ones if the run is stopped early."""
        asked, probe = tuple(labels), self.probe
        read = READERS[probe.mode].read

        async def answer(talk: Talk, prompt: Prompt) -> LabelReading:
            return await read(talk, probe, probe.messages(prompt), asked)

        def failed(reason: str) -> LabelReading:
            return LabelReading(logprobs=None, mass=None, reason=reason)

        async def answer_together(talk: Talk, block: Sequence[Prompt]) -> list[LabelReading]:
            return await read_exact_together(talk, probe, [probe.messages(prompt) for prompt in block], asked)

        together = answer_together if probe.together else None
        return self._first.watched_readings(asked, self._each(prompts, answer, failed, together))

    def _each(
        self,
        prompts: Sequence[Prompt],
        answer: Callable[[Talk, Prompt], Awaitable[Answer]],
        failed: Callable[[str], Answer],
        together: Callable[[Talk, Sequence[Prompt]], Awaitable[list[Answer]]] | None = None,
    ) -> Generator[tuple[int, Answer]]:
        if not prompts:
            return
        probe = self.probe  # the handshake comes first
        results: queue.SimpleQueue[list[tuple[int, Answer]] | None] = queue.SimpleQueue()

        async def ask(talk: Talk) -> None:
            relying = sum(bool(probe.dialect.switch or (prompt.prefix and probe.prefix == "on")) for prompt in prompts)
            if relying and self._unproven <= 0:
                await still_as_found(talk, probe)
                self._unproven = _PROVEN_FOR
            self._unproven -= relying
            rows = Rows(prompts, answer, failed, results, together)
            if self.options.batch is None:
                await rows.run(talk)
                return
            talk.server = batches = Batches(cast("Server", talk.server), self.options, self._tally)
            async with batches.collected():
                await rows.run(talk)

        with Running(self._talk(ask), lambda: results.put(None)) as running:
            while (answers := results.get()) is not None:
                yield from answers
            running.result()

    async def _talk(self, work: Callable[[Talk], Awaitable[T]]) -> T:
        """Do work over an open connection; a refusal that ends the run becomes the error that says so."""
        from refladder.backends.openai.server import Server  # noqa: PLC0415  imports aiohttp, which may be absent

        async with Server(self.options, self._key, self._pace, self._tally, self._headers) as server:
            talk = Talk(server=server, model=self.model, options=self.options, tally=self._tally)
            if self._probe is not None:
                talk.dialect = self._probe.dialect
            try:
                return await work(talk)
            except Refusal as refusal:
                if refusal.changed:
                    forget(self.options, self.model)
                models = await server.models() if refusal.status == 404 else []  # noqa: PLR2004  Not Found
                raise unavailable(self.options.base_url, self.model, refusal, models) from None

    def _do(self, work: Callable[[Talk], Awaitable[T]]) -> T:
        with Running(self._talk(work)) as running:
            return running.result()


def open_endpoint(target: str, **given: Any) -> Endpoint:  # noqa: ANN401  as texts, or as values of the right type
    """Open `openai:MODEL` with the options of `Options`; the server is asked nothing before it is needed."""
    if not target:
        raise UsageError("openai needs a model's name: openai:MODEL, as the server calls it")
    checked_packages("openai:MODEL")
    options = read_options(given)
    return Endpoint(target, options, key=read_key(options), headers=read_headers(options))


def checked_packages(name: str) -> None:
    """Refuse a model on a server where a package that asks it is missing."""
    if missing := [package for package in _PACKAGES if find_spec(package) is None]:
        raise BackendUnavailableError(
            f"{name} needs the packages {' and '.join(_PACKAGES)} (missing: {', '.join(missing)}); "
            f"pip install {' '.join(_PACKAGES)}"
        )


# What opens backends knows their options by the keyword-only parameters of the function.
open_endpoint.__signature__ = inspect.signature(Options)  # type: ignore[attr-defined]
