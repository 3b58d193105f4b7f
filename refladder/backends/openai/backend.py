"""Models behind any OpenAI-compatible server: OpenAI, vLLM, SGLang, llama.cpp, Ollama, `transformers serve`.

What the server can do is found out once (see `capabilities`), and the best mode that works is part of the fingerprint. A row
that fails for good is unparsed with its reason, and a server that fails altogether ends the run.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import queue
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar
from urllib.parse import urlsplit

from refladder.backends.first_answers import FirstAnswers
from refladder.backends.instruction import instruction_digest
from refladder.backends.openai.answer_files import AnswerFiles
from refladder.backends.openai.client import THINKING_TOKENS, Client, with_system
from refladder.backends.openai.errors import LOG, NotYet, Refusal, Tally, unavailable
from refladder.backends.openai.exact_mode import read_exact_together, sent_tokens
from refladder.backends.openai.handshake import (
    READERS,
    VOTES,
    forget,
    handshake,
    keep,
    kept_probe,
    meet,
    still_as_found,
    without_handshake,
)
from refladder.backends.openai.options import (
    Options,
    is_local,
    read_headers,
    read_key,
    read_options,
)
from refladder.backends.openai.rate_limit import RateLimiter
from refladder.backends.openai.responses import written
from refladder.backends.protocol import STATED_TOKENS, ReadMode, Streaming, Usage
from refladder.errors import (
    BackendUnavailableError,
    MissingPackageError,
    UsageError,
    option,
    redacted,
)
from refladder.records import Completion, LabelReading, Sampling

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Coroutine,
        Generator,
        Iterator,
        Mapping,
        Sequence,
    )

    from refladder.backends.openai.client import Capabilities
    from refladder.records import Prompt

_PACKAGES = "aiohttp", "tenacity"
# Rows that may rely on a proof before it is renewed.
PROVEN_FOR = 200
# Seconds that an answer may wait for others.
_TOGETHER = 0.005
# Rows that fail one after the other before the run stops.
HOPELESS = 20
# Rows that are asked together, where a request can hold many prompts.
BLOCK = 32
# Rows under way then, for each request that may be in flight.
_AHEAD = 4
_FINGERPRINT = str.maketrans({"|": "%7C", "\n": " ", "\r": " "})

Answer = TypeVar("Answer", LabelReading, Completion)
T = TypeVar("T")


class OpenAIBackend(Streaming):
    """A model on a server that writes and judges; no connection stays open between calls."""

    kind = "openai"

    def __init__(
        self,
        model: str,
        options: Options,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model
        self.options = options
        self._headers = headers
        self._capabilities: Capabilities | None = None
        # Rows that may be asked before the server must show again what they rely on.
        self._unproven = 0
        self._first = FirstAnswers(LOG, f"openai:{model}")
        self._tally = Tally()
        # What is asked first where only texts are written, see `try_out`, and its answer, by messages and tokens.
        self._question: Prompt | None = None
        self._answered: dict[tuple[str, int], Any] = {}
        self._is_estimate = False
        # Requests of the handshake in a run; None where the server was not asked.
        self._greeting: int | None = 0
        folder = options.folder
        self._files = None if folder is None else AnswerFiles(folder, model, options, self._tally)
        # Through files, each call waits for its answers.
        self.wants_all = folder is not None
        self.shares_contexts = options.prefix_cache
        self._limiter = RateLimiter(
            most=options.max_concurrency,
            requests_per_minute=options.requests_per_minute,
            tokens_per_minute=options.tokens_per_minute,
            patience=options.patience,
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the counts so far: requests, tokens, retries, and unparsed answers by reason ("answer: refusal")."""
        return dict(self._tally.counts)

    @property
    def usage(self) -> Usage:
        """Return requests and tokens as the server reported them; `run_tokens` are prompt tokens that were not cached."""
        counts = self._tally.counts
        requests, prompt_tokens = counts["requests"], counts["prompt tokens"]
        unknown = counts["prompt tokens of unknown cache"] or (requests and not prompt_tokens)
        run_tokens = None if unknown else prompt_tokens - counts["cached prompt tokens"]
        return Usage(
            requests=requests,
            prompt_tokens=prompt_tokens,
            run_tokens=run_tokens,
            answer_tokens=counts["answer tokens"],
        )

    @property
    def capabilities(self) -> Capabilities:
        """Return the result of the handshake, which is made at the first use; through files, the folder shows it."""
        if self._capabilities is None and self._files is not None:
            self._capabilities = without_handshake(self.options, self._files.refused_fields())
        if self._capabilities is None:
            self._capabilities = kept_probe(self.options, self.model)
            if self._capabilities is None:
                self._capabilities = self._do(self._meet)
                if self.options.probe_cache is None:
                    self._greeting = self._tally.counts["requests"] - len(self._answered)
                self._unproven = PROVEN_FOR
            LOG.info("%s", self.notice)
        return self._capabilities

    def for_writing(self) -> OpenAIBackend:
        """Return the same model for answers that it writes, of which no label is read: no mode has to be found."""
        if self._files is not None:
            return self
        options = replace(self.options, mode="write")
        return OpenAIBackend(self.model, options, headers=self._headers)

    def try_out(self, prompt: Prompt) -> None:
        """Ask a first question as it will be asked, and learn from it; its answer is not asked for again."""
        if self.options.mode == "write" and self._capabilities is None:
            self._question = prompt
            if self._is_estimate and (unknown := self._assumed_unless_asked()):
                LOG.warning("%s", unknown)
            _ = self.capabilities

    async def _meet(self, client: Client) -> Capabilities:
        """Find out how the server is asked, before the first row."""
        client.learning = True
        if self.options.mode != "write":
            found = await handshake(client)
            keep(found, self.options, self.model)
            return found
        client.dialect = without_handshake(self.options, ()).dialect
        asked = client.question if self._question is None else self._question.messages
        client.question = with_system(self.options, asked)
        most = self.options.answer_tokens or STATED_TOKENS
        capabilities, choice = await meet(client, most)
        said = capabilities.dialect.refusals
        if capabilities.dialect.switch:
            said.append(f"its thoughts are switched off ({capabilities.dialect.switch})")
        elif capabilities.thinks:
            said.append("it thinks before each answer")
        if said:
            LOG.warning("%s at %s: %s", self.model, self.options.base_url, ", ".join(said))
        if choice is not None:
            keep(capabilities, self.options, self.model)
        if choice is not None and not capabilities.thinks:
            self._answered = {(json.dumps(client.question), most): choice}
        return capabilities

    @property
    def fingerprint(self) -> str:
        """Return kind, model, server and how labels are read, in one line without the key.

        A server on this machine is the same judge at another address.
        """
        if self._files is None and is_local(self.options.base_url):
            return self._named("localhost")
        return self.stored_as

    @property
    def stored_as(self) -> str:
        """Return the fingerprint with the address of a server on this machine: another model may have its name there."""
        parts = urlsplit(self.options.base_url)
        # The folder's id stays when the folder is moved.
        if self._files is not None:
            return self._named(f"file:{self._files.id}")
        return self._named(f"{parts.netloc}{parts.path}")

    def _named(self, place: str) -> str:
        options = self.options
        if self._files is None and (query := urlsplit(options.base_url).query):
            place += f"?{query}"
        text = f"{self.kind}:{self.model}@{place} {self._mode}"
        if options.system:
            text += f" system={instruction_digest(options.system)}"
        if options.extra:
            text += f" extra={sorted(redacted(dict(options.extra)).items())}"
        return text.translate(_FINGERPRINT)

    @property
    def _mode(self) -> str:
        """Return how labels are read, as written in the fingerprint."""
        capabilities = self.capabilities
        text = f"prefix:{capabilities.prefix} {capabilities.name(self.options.samples)}"
        if capabilities.dialect.switch:
            text = f"thoughts:off({capabilities.dialect.switch}) {text}"
        if capabilities.mode in {"sample", "write"}:
            # Stored answers without this word are smoothed shares, which must not be mixed with these.
            text += "-shares"
        if self.options.answer_tokens:
            text += f" answer{self.options.answer_tokens}"
        return text

    @property
    def notice(self) -> str:
        """Return how labels are read, in one line for people; `read_mode` has the reasons."""
        if self._files is not None:
            return f"{self.model}: answers come from files in {self.options.folder}"
        if self.options.mode == "write":
            return f"{self.model} at {self.options.base_url}: written answers"
        capabilities, samples = self.capabilities, self.options.samples
        how = READERS[capabilities.mode].words.format(top=capabilities.top, samples=samples)
        if capabilities.fixed:
            how = VOTES
        how = "; ".join([how, *capabilities.dialect.refusals])
        if capabilities.dialect.switch:
            how += f", its thoughts switched off ({capabilities.dialect.switch})"
        elif capabilities.thinks:
            how += f", each after a thought: {capabilities.answers(self.options)} thoughts for each comparison of a text"
        return f"{self.model} at {self.options.base_url}: {how}"

    @property
    def read_mode(self) -> ReadMode | None:
        """Return the mode of reading labels, why no better one is used, and the answers by the model that they name."""
        if self._capabilities is None or self._files is not None:
            return None
        capabilities = self._capabilities
        name = capabilities.name(self.options.samples)
        return ReadMode(
            mode="written" if capabilities.mode == "write" else name,
            prefix=capabilities.prefix,
            not_better=list(capabilities.refused),
            left_out=list(capabilities.dialect.refused),
            models=dict(self._tally.models),
        )

    def load(self) -> None:
        """Keep the id of a folder of answers before anything is stored under it."""
        if self._files is not None:
            self._files.keep_id()
        read_key(self.options)

    def prepare_dry_run(self) -> str | None:
        """Make the handshake once; without an answer, assume that the server shows its most probable tokens."""
        self._is_estimate = True
        return None if self.options.mode == "write" else self._assumed_unless_asked()

    def _assumed_unless_asked(self) -> str | None:
        """Ask the server once; without an answer, say what is assumed of it."""
        options = self.options
        self.options = replace(options, attempts=1)
        try:
            _ = self.capabilities
        except BackendUnavailableError as error:
            if options.mode not in {"sample", "write"}:
                options = replace(options, mode="top")
            self._capabilities = without_handshake(options, ())
            self._greeting = None
            answers = {
                "sample": "samples answers",
                "write": "writes its answers without thoughts",
            }.get(options.mode, "reads label probabilities")
            if self.rewards:
                answers = "gives rewards"
            return (
                f"{self.model}: the server was not asked ({error}). The estimate assumes that it {answers}. "
                "Its tokens and stored answers are not known"
            )
        finally:
            self.options = replace(self.options, attempts=options.attempts)
        return None

    def count_requests(self, texts: int, readings: int) -> int | None:
        """Return the number of requests, with the handshake; None if some are for tokens, or complete labels."""
        capabilities, each = self.capabilities, 1
        if capabilities.mode == "sample" and not capabilities.several:
            each = capabilities.answers(self.options)
        elif capabilities.mode == "exact" or capabilities.completion:
            return None
        if self._greeting is None or capabilities.dialect.tokens in {"server", "template"}:
            return None
        return self._greeting + texts + each * readings

    @property
    def label_tokens(self) -> int:
        """Return the most tokens that answer a judging prompt, without requests that complete long labels."""
        if self.capabilities.mode != "sample":
            return 1
        each = self.capabilities.answer_tokens(self.options)
        return self.capabilities.answers(self.options) * each

    @property
    def reads_probabilities(self) -> bool:
        """Return whether the server shows label probabilities."""
        return self.capabilities.mode != "sample"

    @property
    def answering(self) -> Sampling:
        """Return sampling with room for thoughts if the model thinks, and temperature 1 if it accepts no other."""
        room = THINKING_TOKENS if self.capabilities.thinks else STATED_TOKENS
        temperature = 0.0 if self.capabilities.dialect.tempered else 1.0
        return Sampling(max_tokens=self.options.answer_tokens or room, temperature=temperature)

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int] | None:
        """Return the prompt tokens of all requests for each prompt, without those that complete a label; None if unknown."""
        if self.options.mode == "write" and (self.options.tokenizer is None or not prompts):
            # Nothing is asked before the first question, see `try_out`.
            return None if self.options.tokenizer is None else []
        capabilities = self.capabilities
        if capabilities.dialect.tokens is None:
            return None

        async def count(client: Client) -> list[int]:
            return await asyncio.gather(
                *(sent_tokens(client, capabilities, prompt) for prompt in prompts)
            )

        return self._do(count)

    def write_each(
        self, prompts: Sequence[Prompt], sampling: Sampling
    ) -> Iterator[tuple[int, Completion]]:
        """Yield the position and text of each prompt as they finish, see `read_labels_each`."""
        temperature, top_p = sampling.drawn()
        if not self.capabilities.dialect.tempered and (temperature, top_p) != (1.0, 1.0):
            raise UsageError(
                f"{self.model} at {self.options.base_url} takes no temperature and no top-p, so its texts are drawn "
                f"with 1 and 1; leave out {option('temperature')} and {option('top-p')}"
            )
        drawn = {"temperature": temperature, "seed": sampling.seed, "top_p": top_p}

        async def answer(client: Client, prompt: Prompt) -> Completion:
            messages = self.capabilities.messages(prompt, client.options)
            known = self._answered.pop((json.dumps(messages), sampling.max_tokens), None)
            if known is None or sampling.temperature:
                (known, *_) = await client.chat(messages, most=sampling.max_tokens, **drawn)
            completion = written(known)
            if completion.note is not None:
                self._tally.counts[f"answer: {completion.note}"] += 1
            return completion

        texts = self._each(prompts, answer, lambda why: Completion(finish="error", note=why))
        return self._first.watched_texts(sampling.max_tokens, texts)

    def read_labels_each(
        self, prompts: Sequence[Prompt], labels: Sequence[str]
    ) -> Iterator[tuple[int, LabelReading]]:
        """Yield the position and reading of each prompt as they finish; a run that is stopped keeps those yielded."""
        asked, capabilities = tuple(labels), self.capabilities
        read = READERS[capabilities.mode].read

        async def answer(client: Client, prompt: Prompt) -> LabelReading:
            messages = capabilities.messages(prompt, client.options)
            return await read(client, capabilities, messages, asked)

        async def answer_together(client: Client, block: Sequence[Prompt]) -> list[LabelReading]:
            messages = [capabilities.messages(prompt, client.options) for prompt in block]
            return await read_exact_together(client, capabilities, messages, asked)

        together = answer_together if capabilities.together else None
        readings = self._each(prompts, answer, lambda why: LabelReading(reason=why), together)
        return self._first.watched_readings(asked, readings)

    def _each(
        self,
        prompts: Sequence[Prompt],
        answer: Callable[[Client, Prompt], Awaitable[Answer]],
        failed: Callable[[str], Answer],
        together: Callable[[Client, Sequence[Prompt]], Awaitable[list[Answer]]] | None = None,
    ) -> Generator[tuple[int, Answer]]:
        if not prompts:
            return
        # Answers may have come since the last call.
        if self._files is not None:
            self._capabilities = None
        # The handshake comes before the first row.
        capabilities = self.capabilities
        results: queue.SimpleQueue[list[tuple[int, Answer]] | None] = queue.SimpleQueue()

        async def ask(client: Client) -> None:
            relying = self._relying(capabilities, prompts)
            if relying and self._unproven <= 0:
                await self._check_again(client, capabilities)
                self._unproven = PROVEN_FOR
            self._unproven -= relying
            rows = Requests(prompts, answer, failed, results, together)
            if self._files is None:
                await rows.run(client)
                return
            async with self._files.exchange():
                await rows.run(client)

        with Running(self._talk(ask), lambda: results.put(None)) as running:
            while (answers := results.get()) is not None:
                yield from answers
            running.result()

    async def _talk(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run work over an open connection; turn a refusal that ends the run into its error."""
        if self._files is not None:
            client = Client(
                server=self._files, model=self.model, options=self.options, tally=self._tally
            )
            client.dialect = self.capabilities.dialect
            return await work(client)
        from refladder.backends.openai.connection import Connection

        async with Connection(
            self.options, read_key(self.options), self._limiter, self._tally, self._headers
        ) as server:
            client = Client(
                server=server, model=self.model, options=self.options, tally=self._tally
            )
            if self._capabilities is not None:
                client.dialect = self._capabilities.dialect
            try:
                return await work(client)
            except Refusal as refusal:
                if refusal.changed:
                    forget(self.options, self.model)
                models = await server.models() if refusal.status == 404 else []
                raise unavailable(self.options.base_url, self.model, refusal, models) from None

    def _relying(self, capabilities: Capabilities, prompts: Sequence[Prompt]) -> int:
        """Return the number of prompts that rely on what the handshake found."""
        if capabilities.dialect.switch:
            return len(prompts)
        if capabilities.prefix != "on":
            return 0
        return sum(bool(prompt.prefix) for prompt in prompts)

    async def _check_again(self, client: Client, capabilities: Capabilities) -> None:
        """Raise Refusal if the server is not what the handshake found."""
        await still_as_found(client, capabilities)

    def _do(self, work: Callable[[Client], Awaitable[T]]) -> T:
        with Running(self._talk(work)) as running:
            return running.result()


def open_openai(target: str, **given: Any) -> OpenAIBackend:
    """Open `openai:MODEL` with the options of `Options`; the server is asked nothing before it is needed."""
    if not target:
        raise UsageError("openai needs a model's name: openai:MODEL, as the server calls it")
    options = read_options(given)
    if options.folder is None:
        checked_packages("openai:MODEL")
    return OpenAIBackend(target, options, headers=read_headers(options))


def checked_packages(name: str) -> None:
    """Refuse a model on a server where a package that asks it is missing."""
    if missing := [package for package in _PACKAGES if find_spec(package) is None]:
        raise MissingPackageError(
            f"{name} needs the packages {' and '.join(_PACKAGES)} (missing: {', '.join(missing)}); "
            f"pip install {' '.join(_PACKAGES)}"
        )


# The keyword-only parameters of the function are the options of the backend.
open_openai.__signature__ = inspect.signature(Options)  # type: ignore[attr-defined]


@dataclass(slots=True)
class Requests(Generic[T]):
    """The rows of one batch: asked by as many workers as may be in flight, each answered once.

    Answers that come within `_TOGETHER` seconds go to `results` together, since each `put` wakes the thread that waits.
    Where `together` answers many rows, BLOCK are asked at a time, and a block that is refused is asked row by row.
    """

    prompts: Sequence[Prompt]
    answer: Callable[[Client, Prompt], Awaitable[T]]
    failed: Callable[[str], T]
    results: queue.SimpleQueue[list[tuple[int, T]] | None]
    together: Callable[[Client, Sequence[Prompt]], Awaitable[list[T]]] | None = None
    # Answers that are not delivered yet.
    _ready: list[tuple[int, T]] = field(default_factory=list)
    # Failures since the last answer, held back.
    _hopeless: list[tuple[int, Refusal]] = field(default_factory=list)

    async def run(self, client: Client) -> None:
        """Ask every row."""
        rows = iter(enumerate(self.prompts))
        try:
            async with asyncio.TaskGroup() as group:
                most, block = client.options.max_concurrency, 1
                if self.together is not None:
                    most, block = -(-most * _AHEAD // BLOCK), BLOCK
                for _ in range(min(-(-len(self.prompts) // block), most)):
                    group.create_task(self._work(client, rows))
            if len(self._hopeless) == len(self.prompts):
                self._stop()
            self._release()
        except BaseExceptionGroup as errors:
            # The first error ended the run; the others only followed it.
            raise errors.exceptions[0] from None
        finally:
            self._deliver()

    async def _work(self, client: Client, rows: Iterator[tuple[int, Prompt]]) -> None:
        most = 1 if self.together is None else BLOCK
        while block := list(itertools.islice(rows, most)):
            if not await self._answered_together(client, block):
                for row, prompt in block:
                    await self._ask(client, row, prompt)

    async def _answered_together(self, client: Client, block: Sequence[tuple[int, Prompt]]) -> bool:
        if self.together is None or len(block) == 1:
            return False
        try:
            answers = await self.together(client, [prompt for _, prompt in block])
        except Refusal as refusal:
            if refusal.ends_the_run:
                raise
            return False
        self._release()
        for (row, _), answer in zip(block, answers, strict=True):
            self._put(row, answer)
        return True

    async def _ask(self, client: Client, row: int, prompt: Prompt) -> None:
        try:
            answer = await self.answer(client, prompt)
        except NotYet:
            return
        except Refusal as refusal:
            if refusal.ends_the_run:
                raise
            if not refusal.of_the_server:
                self._put(row, self.failed(refusal.reason))
                return
            self._hopeless.append((row, refusal))
            if len(self._hopeless) >= HOPELESS:
                self._stop()
        else:
            self._release()
            self._put(row, answer)

    def _put(self, row: int, answer: T) -> None:
        if not self._ready:
            asyncio.get_running_loop().call_later(_TOGETHER, self._deliver)
        self._ready.append((row, answer))

    def _deliver(self) -> None:
        if self._ready:
            self.results.put(self._ready)
            self._ready = []

    def _release(self) -> None:
        for row, refusal in self._hopeless:
            self._put(row, self.failed(f"request failed: {refusal.reason}"))
        self._hopeless.clear()

    def _stop(self) -> NoReturn:
        count = len(self._hopeless)
        rows = "the only row" if count == 1 else f"{count} rows, one after the other,"
        last = self._hopeless[-1][1]
        raise Refusal(
            f"{rows} failed, so the run was stopped: {last.reason}",
            status=last.status,
            ends_the_run=True,
        )


class Running(Generic[T]):
    """A coroutine in a thread and event loop of its own, in which `ended` is called last; leaving `with` cancels it."""

    def __init__(
        self, work: Coroutine[Any, Any, T], ended: Callable[[], None] = lambda: None
    ) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._task = self._loop.create_task(work)
        self._ended = ended
        self._thread = threading.Thread(target=self._run, name="refladder-endpoint", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The loop is closed, so the run is over.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def result(self) -> T:
        """Wait for the end of the work, and return its result or raise its error."""
        self._thread.join()
        return self._task.result()

    def _run(self) -> None:
        try:
            with self._runner:
                self._loop.run_until_complete(asyncio.gather(self._task, return_exceptions=True))
        finally:
            self._ended()
