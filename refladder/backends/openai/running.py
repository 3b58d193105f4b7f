"""Many requests at once: rows shared out among workers, in an event loop and thread of their own."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from refladder.backends.openai.transport import Refusal

if TYPE_CHECKING:
    import queue
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from typing import Any

    from refladder.backends.openai.talk import Talk
    from refladder.records import Prompt

_TOGETHER = 0.005  # seconds that an answer may wait for others
HOPELESS = 20  # rows that fail one after the other before the run stops

Answer = TypeVar("Answer")


class Rows(Generic[Answer]):
    """The rows of one batch: asked by as many workers as may be in flight, each answered once.

    Answers that come within `_TOGETHER` seconds go to `results` together, since each `put` wakes the thread that waits
    and interrupts this one.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        answer: Callable[[Talk, Prompt], Awaitable[Answer]],
        failed: Callable[[str], Answer],
        results: queue.SimpleQueue[list[tuple[int, Answer]] | None],
    ) -> None:
        self._rows = iter(enumerate(prompts))
        self._number = len(prompts)
        self._answer = answer
        self._failed = failed
        self._results = results
        self._ready: list[tuple[int, Answer]] = []  # answers that are not delivered yet
        self._last = Refusal("nothing was asked")
        self._hopeless: list[tuple[int, Answer]] = []  # failures since the last answer, held back

    async def run(self, talk: Talk) -> None:
        """Ask every row."""
        workers = min(self._number, talk.options.max_concurrency)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(talk))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None  # the first ended the run; the others only followed it
        finally:
            self._deliver()
        if len(self._hopeless) == self._number:
            self._stop(self._last)
        self._release()
        self._deliver()

    async def _work(self, talk: Talk) -> None:
        for row, prompt in self._rows:
            try:
                answer = await self._answer(talk, prompt)
            except Refusal as refusal:
                if refusal.ends_the_run:
                    raise
                self._refused(row, refusal)
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
        for row, answer in self._hopeless:
            self._put(row, answer)
        self._hopeless.clear()

    def _refused(self, row: int, refusal: Refusal) -> None:
        if not refusal.of_the_server:
            self._put(row, self._failed(refusal.reason))
            return
        self._last = refusal
        self._hopeless.append((row, self._failed(f"request failed: {refusal.reason}")))
        if len(self._hopeless) >= HOPELESS:
            self._stop(refusal)

    def _stop(self, refusal: Refusal) -> NoReturn:
        rows = "the only row" if len(self._hopeless) == 1 else f"{len(self._hopeless)} rows, one after the other,"
        raise Refusal(
            f"{rows} failed, so the run was stopped: {refusal.reason}", status=refusal.status, ends_the_run=True
        )


class Thread:
    """A coroutine in a thread and event loop of its own, so that it works whether or not the caller has one.

    `ended` is called in that thread when the work has ended, with or without an error.
    """

    def __init__(self, work: Coroutine[Any, Any, None], ended: Callable[[], None]) -> None:
        self._work = work
        self._ended = ended
        self._error: Exception | None = None
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="refladder-endpoint", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Cancel the work if it is not over, and wait for its end."""
        self._started.wait()
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the loop is closed: it is over
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def outcome(self) -> None:
        """Wait for the end of the work, and raise what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001  handed to the thread that asked
            self._error = error
        finally:
            self._started.set()
            self._ended()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._work)
        self._started.set()
        await self._task
