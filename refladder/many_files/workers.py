"""Workers that score files: processes of this machine, or Ray actors. One loop (`run`) drives both.

Both have a `number` of workers, counted from 0; those that can take a file are `idle`. `start` starts them with what they
need for every file: a `Task` as JSON. `put` gives an idle worker the arguments of `Worker.run`. `wait` returns the number
and the answer of a worker; an answer of None means that it died, and another one is started with its number. `wait`
returns None where a worker has become idle without an answer. `close` ends all, also in mid-file.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
from contextlib import ExitStack, redirect_stdout, suppress
from importlib import import_module
from multiprocessing import connection, get_context, parent_process
from typing import TYPE_CHECKING, Any

from refladder.engine.memory import WORKERS
from refladder.errors import BackendUnavailableError, UsageError, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from refladder.many_files.worker import Answer

# A file has failed after this many workers died with it.
DEATHS = 3
_THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
# A worker that was asked to end has these seconds for it.
_CLOSE = 5.0


def cores() -> int:
    """Return the processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """Processes of this machine; with `gpus`, each gets one GPU in turn, if the machine has any."""

    def __init__(self, number: int, files: int, *, gpus: bool) -> None:
        self.number = max(1, min(number, files))
        self.idle: list[int] = []
        self._gpus = gpus
        self._task = ""
        self._running: list[tuple[SpawnProcess, Connection]] = []
        # Workers with a file under way are listed by their pipe.
        self._busy: dict[Any, int] = {}

    def start(self, task: str) -> None:
        """Start all processes."""
        self._task = task
        for worker in range(self.number):
            self._running.append(self._started(worker))
            self.idle.append(worker)

    def _started(self, worker: int) -> tuple[SpawnProcess, Connection]:
        # A fork would copy threads and GPU handles.
        context = get_context("spawn")
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

    def put(self, worker: int, *asked: Any) -> None:
        """Give a file to a process."""
        pipe = self._running[worker][1]
        self._busy[pipe] = worker
        # If the worker has died, `wait` says so.
        with suppress(OSError):
            pipe.send(asked)

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
                self.idle.append(worker)
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
    """Run a worker process: give one answer for each file, until the driver has ended."""
    # Ctrl-C reaches the driver, which ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Numpy and torch read them when they are imported.
    os.environ.update(environment)
    threading.Thread(target=_end_with_driver, daemon=True).start()
    if gpu is not None:
        _take_gpu(gpu)
    from refladder.many_files.worker import Worker

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
        except ImportError:
            # The error is reported when the judge is opened.
            return
        visible = ",".join(str(number) for number in range(torch.cuda.device_count()))
    if visible:
        devices = visible.split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[worker % len(devices)]


class RayActors:
    """Ray Core actors on the cluster at RAY_ADDRESS, or here: one on each GPU, or core but one.

    An actor that dies, also with its node, is started anew. It gets no file before the cluster has a place for it: after
    the loss of a node there may be none, and the other actors finish the run.
    """

    def __init__(self, number: int | None, files: int, *, gpus: bool) -> None:
        try:
            # Ray is an optional package of 240 MB.
            ray: Any = import_module("ray")
        except ImportError as error:
            raise UsageError("--engine ray needs Ray; pip install ray") from error
        self._ray = ray
        local = {} if os.environ.get("RAY_ADDRESS") else {"include_dashboard": False}
        self._began = not ray.is_initialized()
        try:
            if self._began:
                ray.init(log_to_driver=False, logging_level=logging.ERROR, **local)
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise BackendUnavailableError(
                f"the Ray cluster cannot be reached ({' '.join(str(error).split())[:200]}); check RAY_ADDRESS, "
                "or start one with `ray start --head`"
            ) from error
        cpus = [int(node.get("CPU", 0)) for node in nodes]
        places = [int(node.get("GPU", 0)) for node in nodes]
        processors = sum(cpus)
        devices = sum(places) if gpus else 0
        self.number = number or devices or max(1, processors - 1)
        if self.number > (devices or processors):
            what = plural(devices, "GPU") if devices else plural(processors, "core")
            if self._began:
                ray.shutdown()
            raise UsageError(
                f"--workers {self.number}: the Ray cluster has {what}; give fewer workers"
            )
        self.number = max(1, min(self.number, files))
        if not devices:
            places = [self.number] * len(nodes)
        self._options = {
            "num_cpus": cores_of_an_actor(cpus, places, self.number),
            "num_gpus": 1 if devices else 0,
            "runtime_env": {"env_vars": {WORKERS: str(math.ceil(self.number / len(nodes)))}},
        }
        self.idle: list[int] = []
        self._task = ""
        self._actors: dict[int, Any] = {}
        self._starting: dict[Any, int] = {}
        self._failed_starts = 0
        self._answers: dict[Any, int] = {}
        self._redirected = ExitStack()

    def start(self, task: str) -> None:
        """Start all actors."""
        # Ray prints what happens to its nodes on standard output, which is for the results.
        self._redirected.enter_context(redirect_stdout(sys.stderr))
        self._task = task
        for worker in range(self.number):
            self._start(worker)

    def _start(self, worker: int) -> None:
        from refladder.many_files.worker import Worker

        actor = self._ray.remote(Worker).options(**self._options).remote(self._task)
        self._actors[worker] = actor
        self._starting[actor.__ray_ready__.remote()] = worker

    def put(self, worker: int, *asked: Any) -> None:
        """Give a file to an actor."""
        self._answers[self._actors[worker].run.remote(*asked)] = worker

    def wait(self, tell: Callable[[int, int], None]) -> tuple[int, Answer | None] | None:
        """Wait until an actor has started, or is done with its file; actors do not report how far they are."""
        (ready, *_), _ = self._ray.wait([*self._starting, *self._answers], num_returns=1)
        starting = ready in self._starting
        worker = (self._starting if starting else self._answers).pop(ready)
        try:
            answer = self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += starting
            if self._failed_starts >= DEATHS:
                last_line = str(error).strip().splitlines()[-1].strip()
                raise BackendUnavailableError(
                    f"an actor of the Ray cluster does not start ({last_line:.200}); install this version of refladder "
                    "on every node"
                ) from error
            self._start(worker)
            return None if starting else (worker, None)
        self.idle.append(worker)
        if starting:
            self._failed_starts = 0
            return None
        return worker, answer

    def close(self) -> None:
        """End all actors, and Ray if it was started here."""
        for actor in self._actors.values():
            self._ray.kill(actor)
        if self._began:
            self._ray.shutdown()
        self._redirected.close()


def cores_of_an_actor(cores: Sequence[int], places: Sequence[int], number: int) -> int:
    """Return the equal share of the cores that `number` actors can have, on nodes that take `places` actors each."""
    share = max(1, (sum(cores) - 1) // number)
    while share > 1 and sum(map(min, places, (each // share for each in cores))) < number:
        share -= 1
    return share


Workers = Processes | RayActors
