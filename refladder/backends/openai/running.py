"""Many requests at once: rows shared out among workers, in an event loop and thread of their own."""

from __future__ import annotations

import asyncio
import itertools
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from refladder.backends.openai.transport import NotYet, Refusal

if TYPE_CHECKING:
    import queue
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from refladder.backends.openai.talk import Talk
    from refladder.records import Prompt

_TOGETHER = 0.005  # seconds that an answer may wait for others
HOPELESS = 20  # rows that fail one after the other before the run stops
BLOCK = 32  # rows that are asked together, where a request can hold many prompts
_AHEAD = 4  # rows under way then, for each request that may be in flight

Answer = TypeVar("Answer")
T = TypeVar("T")


class Rows(Generic[Answer]):
    """The rows of one batch: asked by as many workers as may be in flight, each answered once.

    Answers that come within `_TOGETHER` seconds go to `results` together, since each `put` wakes the thread that waits.
    Where `together` answers many rows, BLOCK are asked at a time, and a block that is refused is asked row by row.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        answer: Callable[[Talk, Prompt], Awaitable[Answer]],
        failed: Callable[[str], Answer],
        results: queue.SimpleQueue[list[tuple[int, Answer]] | None],
        together: Callable[[Talk, Sequence[Prompt]], Awaitable[list[Answer]]] | None = None,
    ) -> None:
        self._rows = iter(enumerate(prompts))
        self._number = len(prompts)
        self._answer = answer
        self._failed = failed
        self._results = results
        self._together = together
        self._ready: list[tuple[int, Answer]] = []  # answers that are not delivered yet
        self._hopeless: list[tuple[int, Refusal]] = []  # failures since the last answer, held back

    async def run(self, talk: Talk) -> None:
        """Ask every row."""
        try:
            async with asyncio.TaskGroup() as group:
                most, block = talk.options.max_concurrency, 1
                if self._together is not None:
                    most, block = -(-most * _AHEAD // BLOCK), BLOCK
                for _ in range(min(-(-self._number // block), most)):
                    group.create_task(self._work(talk))
            if len(self._hopeless) == self._number:
                self._stop()
            self._release()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # the first ended the run; the others only followed it
        finally:
            self._deliver()

    async def _work(self, talk: Talk) -> None:
        while block := list(itertools.islice(self._rows, 1 if self._together is None else BLOCK)):
            if not await self._answered_together(talk, block):
                for row, prompt in block:
                    await self._ask(talk, row, prompt)

    async def _answered_together(self, talk: Talk, block: Sequence[tuple[int, Prompt]]) -> bool:
        if self._together is None or len(block) == 1:
            return False
        try:
            answers = await self._together(talk, [prompt for _, prompt in block])
        except Refusal as refusal:
            if refusal.ends_the_run:
                raise
            return False
        self._release()
        for (row, _), answer in zip(block, answers, strict=True):
            self._put(row, answer)
        return True

    async def _ask(self, talk: Talk, row: int, prompt: Prompt) -> None:
        try:
            answer = await self._answer(talk, prompt)
        except NotYet:
            return
        except Refusal as refusal:
            if refusal.ends_the_run:
                raise
            if not refusal.of_the_server:
                self._put(row, self._failed(refusal.reason))
                return
            self._hopeless.append((row, refusal))
            if len(self._hopeless) >= HOPELESS:
                self._stop()
        else:
            self._release()
            self._put(row, answer)

    def _put(self, row: int, answer: Answer) -> None:
        if not self._ready:
            asyncio.get_running_loop().call_later(_TOGETHER, self._deliver)
        self._ready.append((row, answer))

    def _deliver(self) -> None:
        if self._ready:
            self._results.put(self._ready)
            self._ready = []

    def _release(self) -> None:
        for row, refusal in self._hopeless:
            self._put(row, self._failed(f"request failed: {refusal.reason}"))
        self._hopeless.clear()

    def _stop(self) -> NoReturn:
        rows = "the only row" if len(self._hopeless) == 1 else f"{len(self._hopeless)} rows, one after the other,"
        last = self._hopeless[-1][1]
        raise Refusal(f"{rows} failed, so the run was stopped: {last.reason}", status=last.status, ends_the_run=True)


class Running(Generic[T]):
    """A coroutine in a thread and event loop of its own, in which `ended` is called last; leaving `with` cancels it."""

    def __init__(self, work: Coroutine[Any, Any, T], ended: Callable[[], None] = lambda: None) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._task = self._loop.create_task(work)
        self._ended = ended
        self._thread = threading.Thread(target=self._run, name="refladder-endpoint", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: it is over
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def result(self) -> T:
        """Wait for the end of the work; returns its result or raises its error."""
        self._thread.join()
        return self._task.result()

    def _run(self) -> None:
        try:
            with self._runner:
                self._loop.run_until_complete(asyncio.gather(self._task, return_exceptions=True))
        finally:
            self._ended()
