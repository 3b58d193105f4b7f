"""Workers that score files: processes of this machine, or Ray actors. One loop (`run`) drives both.

Both have a `number` of workers, counted from 0. `start` starts them with what they need for every file: a `Task` as
JSON. `put` gives an idle worker the arguments of `Worker.run`. `wait` waits until a worker is ready, and returns its
number and its answer; None if it died, and another has its number now. `close` ends all, also in mid-file.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
from contextlib import suppress
from importlib import import_module
from multiprocessing import connection, get_context, parent_process
from typing import TYPE_CHECKING, Any

from refladder.engine.memory import WORKERS
from refladder.errors import BackendUnavailableError, UsageError, plural

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from refladder.files.scored_folders import ScoredFile
    from refladder.fleet.worker import Answer

DEATHS = 3  # of workers with one file, after which the file has failed
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_CLOSE = 5.0  # seconds for a worker to end after it was asked to


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """Processes of this machine; with `gpus`, each gets one GPU in turn, if the machine has any."""

    tries = DEATHS  # of a file that ends its worker, before it has failed

    def __init__(self, number: int, files: int, *, gpus: bool) -> None:
        self.number = max(1, min(number, files))
        self._gpus = gpus
        self._task = ""
        self._running: list[tuple[SpawnProcess, Connection]] = []
        self._busy: dict[Any, int] = {}  # by the pipe of a worker that has a file

    def start(self, task: str) -> None:
        """Start all processes."""
        self._task = task
        for worker in range(self.number):
            self._running.append(self._started(worker))

    def _started(self, worker: int) -> tuple[SpawnProcess, Connection]:
        context = get_context("spawn")  # a fork would copy threads and GPU handles
        ours, theirs = context.Pipe()
        share = str(max(1, cores() // self.number))
        environment = {name: share for name in _THREADS if name not in os.environ}
        environment[WORKERS] = str(self.number)
        gpu = worker if self._gpus else None
        process = context.Process(
            target=_serve, args=(theirs, self._task, environment, gpu), daemon=True
        )
        process.start()
        theirs.close()
        return process, ours

    def put(self, worker: int, file: ScoredFile | None, signature: str | None, usd: float) -> None:
        """Give a file to a process."""
        pipe = self._running[worker][1]
        self._busy[pipe] = worker
        with suppress(OSError):  # it has died: `wait` says so
            pipe.send((file, signature, usd))

    def wait(self, tell: Callable[[int, int], None]) -> tuple[int, Answer | None]:
        """Wait until a process is ready; `tell` is called with its number and how many rows of its file are done."""
        while True:
            pipe: Any = connection.wait(list(self._busy))[0]
            worker = self._busy[pipe]
            try:
                answer = pipe.recv()
            except (EOFError, OSError):
                answer = None
                self._end(worker)
                self._running[worker] = self._started(worker)
            if not isinstance(answer, int):
                del self._busy[pipe]
                return worker, answer
            tell(worker, answer)

    def _end(self, worker: int) -> None:
        process, pipe = self._running[worker]
        pipe.close()
        process.terminate()
        process.join(_CLOSE)
        if process.is_alive():
            process.kill()
            process.join()

    def close(self) -> None:
        """End all processes."""
        for process, _ in self._running:
            process.terminate()
        for worker in range(len(self._running)):
            self._end(worker)


def _serve(pipe: Connection, task: str, environment: dict[str, str], gpu: int | None) -> None:
    """The life of a worker process: one answer for each file, until the driver has ended."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the driver, which ends its workers
    os.environ.update(environment)  # before numpy and torch are imported
    threading.Thread(target=_end_with_driver, daemon=True).start()
    if gpu is not None:
        _take_gpu(gpu)
    from refladder.fleet.worker import Worker

    worker = Worker(task, pipe.send)
    while True:
        try:
            asked = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(worker.run(*asked))


def _end_with_driver() -> None:
    """End this process with its driver, even if that was killed: its locks must be free for the next run."""
    driver = parent_process()
    if driver is not None:
        driver.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _take_gpu(worker: int) -> None:
    """Show one GPU to this process, before CUDA is initialized."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        try:
            import torch
        except ImportError:  # reported when the judge is opened
            return
        visible = ",".join(str(number) for number in range(torch.cuda.device_count()))
    if visible:
        devices = visible.split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[worker % len(devices)]


class RayActors:
    """Ray Core actors on the cluster at RAY_ADDRESS, or here: one on each GPU, or core but one.

    Ray starts a dead actor anew, on another node if its node is gone, and gives it its file again.
    """

    tries = 1  # beside those of Ray

    def __init__(self, number: int | None, files: int, *, gpus: bool) -> None:
        try:
            ray: Any = import_module("ray")  # optional, 240 MB
        except ImportError as error:
            raise UsageError("--engine ray needs Ray; pip install ray") from error
        self._ray = ray
        local = {} if os.environ.get("RAY_ADDRESS") else {"include_dashboard": False}
        self._began = not ray.is_initialized()
        try:
            if self._began:
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **local)
            has = ray.cluster_resources()
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise BackendUnavailableError(
                f"the Ray cluster cannot be reached ({' '.join(str(error).split())[:200]}); check RAY_ADDRESS, "
                "or start one with `ray start --head`"
            ) from error
        machines = sum(node["Alive"] for node in ray.nodes())
        processors, devices = int(has.get("CPU", 0)), int(has.get("GPU", 0)) if gpus else 0
        self.number = number or devices or max(1, processors - 1)
        if self.number > (devices or processors):
            what = plural(devices, "GPU") if devices else plural(processors, "core")
            self.close()
            raise UsageError(
                f"--workers {self.number}: the Ray cluster has {what}; give fewer workers"
            )
        self.number = max(1, min(self.number, files))
        self._options = {
            "num_cpus": max(1, (processors - 1) // self.number),
            "num_gpus": 1 if devices else 0,
            "max_restarts": -1,  # as often as necessary; a file is tried DEATHS times
            "max_task_retries": DEATHS - 1,
            "runtime_env": {"env_vars": {WORKERS: str(math.ceil(self.number / machines))}},
        }
        self._actors: list[Any] = []
        self._answers: dict[Any, int] = {}

    def start(self, task: str) -> None:
        """Start all actors."""
        from refladder.fleet.worker import Worker

        actor = self._ray.remote(Worker).options(**self._options)
        self._actors = [actor.remote(task) for _ in range(self.number)]

    def put(self, worker: int, file: ScoredFile | None, signature: str | None, usd: float) -> None:
        """Give a file to an actor."""
        self._answers[self._actors[worker].run.remote(file, signature, usd)] = worker

    def wait(self, tell: Callable[[int, int], None]) -> tuple[int, Answer | None]:
        """Wait until an actor with a file is ready; actors do not tell how far they are."""
        del tell
        (ready, *_), _ = self._ray.wait(list(self._answers), num_returns=1)
        worker = self._answers.pop(ready)
        try:
            return worker, self._ray.get(ready)
        except self._ray.exceptions.RayError:
            return worker, None

    def close(self) -> None:
        """End all actors, and Ray if it was started here."""
        for actor in getattr(self, "_actors", ()):
            self._ray.kill(actor)
        if self._began:
            self._ray.shutdown()


Workers = Processes | RayActors
