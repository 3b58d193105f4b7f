"""A server with the faults of real ones, drawn from a seed: each row's first tries fail as its number says.

Every row has an answer of its own, so that an answer that was lost, invented or given to another row is seen. Faults:
storms of 429 with Retry-After, 5xx, resets, half bodies, JSON that is none, slow drips, stalls beyond the client's
timeout, choices given twice, answers out of order (by their different delays).
"""

import asyncio
import json
import math
import random
import re
import time
from collections import Counter
from dataclasses import dataclass

from http_server import HttpServer, Reply

LABELS = ("Better", "Worse", "Similar")
MODEL = "faulty"
# Criteria of the set general/reply whose ratings are written.
CRITERIA = ("helpfulness", "politeness")
_NUMBER = re.compile(r"text number (\d+)")


@dataclass(frozen=True)
class Faults:
    """Shares of requests, and times in seconds."""

    seed: int = 0
    # mean time to an answer; each is drawn between half and one and a half of it
    service: float = 0.005
    server_error: float = 0.02
    reset: float = 0.01
    half: float = 0.005
    no_json: float = 0.005
    drip: float = 0.005
    stall: float = 0.001
    stall_time: float = 0.5
    twice: float = 0.002
    storm_every: float = 0.0  # 0: none
    storm_time: float = 0.0


def probabilities(row):
    """The answer of a row: no two of the first million are the same."""
    worse = 0.1 + (row % 1000) / 5000
    similar = 0.1 + (row // 1000) / 5000
    return 0.95 - worse - similar, worse, similar


def shares(row, criterion):
    """The percentages of a row's ratings from 1 to 5: no two of the first 10,000 rows have the same mean."""
    ends = 10 + row / 1000, 30 - row / 1000
    low, high = ends if criterion == CRITERIA[0] else ends[::-1]
    return low, 20, 20, 20, high


def _written(row, prompt):
    """The percentages on each criterion that a prompt asks for, below its name."""
    asked = [name for name in CRITERIA if f"{name}: " in prompt]
    lines = [[name, *(f"{n}: {x:g}" for n, x in enumerate(shares(row, name), 1))] for name in asked]
    return "\n".join(line for each in lines for line in each)


class FaultServer(HttpServer):
    """`asked`, `answered`: row to how often; `late`: requests for rows that had been answered in full before."""

    def __init__(self, faults):
        super().__init__(self._answer_http)
        self.faults = faults
        self.asked, self.answered, self.kinds = Counter(), Counter(), Counter()
        self.late = 0
        self.busy = 0.0  # seconds of service, over all requests outside storms
        self.stormed = 0.0  # seconds in which nothing was served
        self.most = None  # rows that are answered; the others wait
        self._begun = None

    def start_clock(self):
        """Storms are timed from here."""
        self._begun = time.monotonic()

    def _storm_left(self):
        faults = self.faults
        if not faults.storm_every or self._begun is None:
            return 0.0
        phase = (time.monotonic() - self._begun) % faults.storm_every
        calm = faults.storm_every - faults.storm_time
        return faults.storm_every - phase if phase > calm else 0.0

    async def _answer_http(self, _method, _path, _headers, body):
        sent = json.loads(body)
        numbers = _NUMBER.findall(json.dumps(sent.get("messages")))
        if not numbers:
            return Reply({"choices": [_choice(0, sent)]})
        left = self._storm_left()
        if left:
            self.kinds["429"] += 1
            pause = {"retry-after": f"{math.ceil(1000 * left) / 1000}"}
            return Reply({"error": {"message": "slow down"}}, 429, pause)
        row = int(numbers[0])
        self.asked[row] += 1
        if self.answered[row]:
            self.late += 1
        drawn = random.Random(f"{self.faults.seed}/{row}/{self.asked[row]}")  # noqa: S311  faults, no secrets
        service = self.faults.service * drawn.uniform(0.5, 1.5)
        self.busy += service
        await asyncio.sleep(service)
        while self.most is not None and len(self.answered) >= self.most:  # noqa: ASYNC110  a test sets it
            await asyncio.sleep(0.005)
        return self._reply(row, sent, self._kind(drawn.random()))

    def _kind(self, chance):
        for kind in ("server_error", "reset", "half", "no_json", "drip", "stall", "twice"):
            chance -= getattr(self.faults, kind)
            if chance < 0:
                self.kinds[kind] += 1
                return kind
        self.kinds["good"] += 1
        return "good"

    def _reply(self, row, sent, kind):
        answer = {
            "id": f"answer-{row:010d}-{self.asked[row]:010d}",
            "choices": [_choice(row, sent)],
        }
        answer["usage"] = {"prompt_tokens": 10, "completion_tokens": 1}
        failed = {
            "server_error": Reply({"error": {"message": "overloaded"}}, (500, 502, 503)[row % 3]),
            "no_json": Reply(b"upstream connect error", headers={"content-type": "text/plain"}),
            "reset": Reply(answer, fault="reset"),
            "half": Reply(answer, fault="half"),
            "stall": Reply(answer, wait=self.faults.stall_time),
        }
        if kind == "stall":
            self.busy += self.faults.stall_time
        if kind in failed:
            return failed[kind]
        self.answered[row] += 1
        if kind == "twice":  # a choice that nobody asked for
            answer["choices"] *= 2
        return Reply(answer, fault=kind if kind in {"drip", "repeat"} else "", drip=0.001)


def _choice(row, sent):
    row_values = [math.log(value) for value in probabilities(row)]
    pairs = zip(LABELS, row_values, strict=True)
    tops = [{"token": label, "logprob": value} for label, value in pairs]
    tops += [{"token": f"other{place}", "logprob": -10.0 - place} for place in range(2)]
    first = {**tops[0], "top_logprobs": tops}
    said = _written(row, json.dumps(sent.get("messages"))) or "Better"
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": said},
        "finish_reason": "stop",
    }
    return {**choice, "logprobs": {"content": [first]}} if sent.get("logprobs") else choice
