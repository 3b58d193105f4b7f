"""Servers that differ, imitated one by one: are the scores of six rows those of a server that takes everything?

The judge knows the level of the rungs of the shipped sets and gives any other text a level by its length. It draws by
the prompt, and the seed and place of the answer together, so that two servers give equal answers to equal questions. Servers
without log-probabilities are compared with one that only lacks these.

    python bench/endpoint_forms.py > bench/results/endpoint_forms.md
"""

from __future__ import annotations

import csv
import json
import math
import random
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support/openai"))

from http_server import HttpServer, Reply

import refladder
from refladder.errors import RefladderError

ROOT = Path(__file__).parents[1]
MODES = 0, "rating", "stated", "rating:stated", "rating:together"
SET = "general/reply"
LEVELS = {
    rung.text.strip(): rung.level
    for ladder in refladder.load_ladders(SET).ladders.values()
    for rung in ladder.rungs
}
LAST = "\n\nAnswer "
PYDANTIC = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}
COMMON = {"model", "messages", "max_tokens", "temperature", "top_p", "n", "stop"}


def level(text: str) -> float:
    return LEVELS.get(text.strip(), 1 + 4 * min(1, len(text.strip()) / 500))


def part(prompt: str, start: str, *ends: str) -> str:
    text = prompt.rpartition(start)[2]
    return min((text.partition(end)[0] for end in ends), key=len)


def judged(prompt: str) -> dict[str, float] | str:  # noqa: PLR0911  one return a kind of prompt
    """Return the probabilities of the answers of one word, or what is written."""
    if "in no order:" in prompt:
        target = level(part(prompt, "Target response:\n", LAST))
        shown = part(prompt, "in no order:\n", "\n\nRequest of the target")
        lines = []
        for name, text in re.findall(r"(?ms)^([A-E]):\n(.*?)(?=\n\n[A-E]:\n|\Z)", shown):
            lines.append(f"{name}: {100 / (1 + math.exp(-1.4 * (target - level(text)))):.0f}")
        return "\n".join(lines)
    if "Reference response:" in prompt:
        target = level(part(prompt, "Target response:\n", "\n\nRequest of the ref"))
        reference = level(part(prompt, "Reference response:\n", LAST))
        rise = target - reference
        return shares({"Better": math.exp(rise), "Worse": math.exp(-rise), "Similar": 0.6})
    if "\nResponse:\n" in prompt:
        place = level(part(prompt, "\nResponse:\n", "\n\nCriterion:", LAST))
        ratings = shares(
            {str(rating): math.exp(-1.2 * abs(rating - place)) for rating in range(1, 6)}
        )
        if "in percent" not in prompt:
            return ratings
        percent = [round(100 * share) for share in ratings.values()]
        percent[2] += 100 - sum(percent)
        lines = "\n".join(f"{rating}: {number}" for rating, number in enumerate(percent, 1))
        if "Answer with the criteria" not in prompt:
            return lines
        names = re.findall(r"(?m)^([\w -]+): ", part(prompt, "Evaluation criteria:\n", "\n\n"))
        return "\n".join(f"{name}\n{lines}" for name in names)
    if prompt.startswith("A summary of three sentences"):
        return {"Better": 0.8, "Worse": 0.15, "Similar": 0.05}
    if prompt.startswith("Write eight words"):
        words = ("lamp", "goat", "tin", "axe", "fern", "salt", "drum", "kite")
        return {f"{word} river moss quartz bell": 1 / 8 for word in words}
    return "one two three four five six seven eight nine"


def shares(weights: dict[str, float]) -> dict[str, float]:
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


class Imitation:
    """A server with one peculiarity, by its name; counts what it is asked."""

    def __init__(self, name: str) -> None:
        self.name, self.asked = name, 0

    def __call__(self, _method: str, path: str, headers: Any, body: bytes) -> Reply:  # noqa: D102  the class says it
        del headers
        if not path.startswith("/v1/chat/completions"):
            return Reply({"error": {"message": "no such path"}}, 404)
        self.asked += 1
        sent = json.loads(body)
        refused = self.refused(sent)
        if refused is not None:
            status, error = refused
            return Reply({"error": {"message": error}} if isinstance(error, str) else error, status)
        if self.asked % 5 == 2 and self.name in PASSING:
            return Reply(*PASSING[self.name])
        choices = [self.choice(sent, index) for index in range(sent.get("n") or 1)]
        usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 28}
        answer = {"id": "x", "model": sent["model"], "choices": choices, "usage": usage}
        if self.name == "no usage, no ids, no indices":
            answer = {"choices": [{**choice, "index": None} for choice in choices], "usage": None}
        return Reply(answer)

    def refused(self, sent: dict[str, Any]) -> tuple[int, Any] | None:
        """Return the status and the error of a request with a field that this server does not take."""
        known = {
            "logprobs forbidden (403)": ("logprobs", 403, "You are not allowed to request logprobs"),
            "seed unknown (400)": ("seed", 400, "Unknown parameter: 'seed'."),
            "seed unknown (422)": ("seed", 422, {"detail": [{**PYDANTIC, "loc": ["body", "seed"]}]}),
            "no temperature": ("temperature", 400, "`temperature` is deprecated for this model."),
            "max_completion_tokens": ("max_tokens", 400, "Use 'max_completion_tokens' instead of 'max_tokens'."),
            "no response_format": ("response_format", 400, "This response_format type is unavailable now"),
        }  # fmt: skip
        if self.name in known and known[self.name][0] in sent:
            return known[self.name][1:]
        extra = sorted(sent.keys() - COMMON)
        if self.name == "Mistral: extra fields forbidden" and extra:
            detail = [{**PYDANTIC, "loc": ["body", extra[0]], "input": sent[extra[0]]}]
            return 422, {"object": "error", "message": {"detail": detail}}
        cases = {
            "Claude: temperature or top_p": (
                "temperature" in sent and "top_p" in sent,
                "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            ),
            "o3: only temperature 1": (
                sent.get("temperature", 1) != 1,
                "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is.",
            ),
            "temperature above 0": (
                sent.get("temperature") == 0,
                "`temperature` must be strictly positive",
            ),
            "one answer a request": (sent.get("n", 1) > 1, "n must be 1 for this model"),
            "five log-probabilities": (
                sent.get("top_logprobs", 0) > 5,
                "Invalid value for 'top_logprobs': must be less than or equal to 5.",
            ),
            "Gemma: no system role": (
                sent["messages"][0]["role"] == "system",
                "System role not supported",
            ),
            "no answer is begun for it": (
                sent["messages"][-1]["role"] == "assistant",
                "This model does not support assistant message prefill.",
            ),
        }
        applies, words = cases.get(self.name, (False, ""))
        return (400, words) if applies else None

    def choice(self, sent: dict[str, Any], index: int) -> dict[str, Any]:  # noqa: D102  one of the answers
        prompt = sent["messages"][-1]["content"].removeprefix("Be strict.\n\n")
        found = judged(prompt)
        text = found if isinstance(found, str) else max(found, key=found.__getitem__)
        if isinstance(found, dict) and sent.get("temperature", 1) > 0:
            drawn = random.Random(f"{prompt}|{sent.get('seed', 0) + index}")  # noqa: S311  no secret
            text = drawn.choices(list(found), list(found.values()))[0]
        message: dict[str, Any] = {"role": "assistant", "content": text}
        finish = "stop"
        match self.name:
            case "thoughts in the answer":
                message["content"] = f"<think>A: 10? Worse?</think>\n\n{text}"
            case "thoughts in a field":
                message["reasoning_content"] = "A: 10? Worse?"
            case "thoughts of 1,000 tokens":
                message["reasoning_content"] = "A: 10? Worse?"
                if (sent.get("max_tokens") or 0) < 1000:
                    message["content"], finish = "", "length"
            case "content in parts":
                message["content"] = [
                    {"type": "text", "text": text[:3]},
                    {"type": "text", "text": text[3:]},
                ]
            case "ends in capitals":
                finish = "STOP"
        choice = {"index": index, "message": message, "finish_reason": finish}
        if sent.get("logprobs") and isinstance(found, dict) and self.name not in NO_LOGPROBS:
            rows = [{"token": token, "logprob": math.log(share)} for token, share in found.items()]
            rows += [{"token": f"other {place}", "logprob": -12.0} for place in range(20)]
            rows = rows[: sent["top_logprobs"]]
            if self.name == "a null among log-probabilities":
                rows[0]["logprob"] = None
            choice["logprobs"] = {
                "content": [{"token": text, "logprob": math.log(found[text]), "top_logprobs": rows}]
            }
        return choice


def error(status: int) -> dict[str, Any]:
    return {"message": "try again", "code": status}


PASSING: dict[str, tuple[Any, int]] = {
    "429 within HTTP 200": ({"error": error(429)}, 200),
    "an error within a choice": ({"choices": [{"error": error(502)}]}, 200),
    "no choices": ({"choices": []}, 200),
    "529": ({"error": error(529)}, 529),
}
SERVERS = (
    "good",
    "Claude: temperature or top_p",
    "Mistral: extra fields forbidden",
    "seed unknown (400)",
    "seed unknown (422)",
    "one answer a request",
    "max_completion_tokens",
    "o3: only temperature 1",
    "no temperature",
    "temperature above 0",
    "no response_format",
    "Gemma: no system role",
    "no answer is begun for it",
    "logprobs forbidden (403)",
    "no log-probabilities",
    "five log-probabilities",
    "a null among log-probabilities",
    *PASSING,
    "thoughts in the answer",
    "thoughts in a field",
    "thoughts of 1,000 tokens",
    "content in parts",
    "ends in capitals",
    "no usage, no ids, no indices",
)
NO_LOGPROBS = {
    "Mistral: extra fields forbidden",
    *(
        "no log-probabilities",
        "logprobs forbidden (403)",
        "thoughts in the answer",
        "thoughts in a field",
    ),
    *("thoughts of 1,000 tokens", "a null among log-probabilities"),
}


def scored(name: str, mode: int | str, folder: Path) -> tuple[list[Any] | str, int]:
    """Return the scores of six rows, or why there are none, and the number of requests before the judge check."""
    with (ROOT / "docs/examples/replies.csv").open(encoding="utf-8") as file:
        rows = [
            {"context": row["question"], "output": row["reply"]} for row in csv.DictReader(file)
        ][:6]
    imitation = Imitation(name)
    with HttpServer(imitation) as server:
        options: dict[str, Any] = {"base_url": server.url, "attempts": 4, "max_concurrency": 1}
        if name == "no response_format":
            options["extra"] = '{"response_format": {"type": "text"}}'
        if name == "Gemma: no system role":
            (folder / "system.txt").write_text("Be strict.")
            options["system"] = str(folder / "system.txt")
        try:
            judge = refladder.connect("openai:me", **options)
            table = refladder.score(
                rows,
                ladders=SET,
                dimensions=["helpfulness"],
                judge=judge,
                answers=mode,
                store=False,
            )
        except RefladderError as failure:
            return str(failure), imitation.asked
    return [row["helpfulness_score"] for row in table], imitation.asked


def cell(name: str, mode: int | str, folder: Path, good: dict[tuple[bool, Any], Any]) -> str:
    found, asked = scored(name, mode, folder)
    silent = name in NO_LOGPROBS and mode in {0, "rating"}
    if isinstance(found, str):
        return (
            "refused, as it reads no probabilities"
            if "no label probabilities" in found
            else found[:80]
        )
    expected = good.setdefault((silent, mode), found)
    equal = sum(
        first is not None and first == second for first, second in zip(found, expected, strict=True)
    )
    return f"{equal} of {len(found)} ({asked:,})"


def main() -> None:
    print("# Servers that differ\n")
    print(
        f"`python bench/endpoint_forms.py`: six rows of docs/examples/replies.csv on helpfulness of `{SET}`, each server"
    )
    print(
        "in each mode. A cell has the rows whose score is that of a good server, and the requests that were sent.\n"
    )
    print("| server | " + " | ".join(f"`{mode}`" for mode in MODES) + " |")
    print("|---|" + "---|" * len(MODES))
    good: dict[tuple[bool, Any], Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        names = (SERVERS[0], "no log-probabilities", *SERVERS[1:])
        for name in dict.fromkeys(names):
            cells = [cell(name, mode, Path(folder), good) for mode in MODES]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
