"""Answer the requests of a folder through a provider's batches: python provider_batch.py FOLDER.

Each run collects the batches that have ended, and submits what no batch has answered. Run it again until it says that
nothing waits. It needs the package openai, OPENAI_API_KEY, and for another provider OPENAI_BASE_URL. The provider's own
list of batches is the only record: a run that was interrupted submits nothing twice.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openai import OpenAI
from openai.types import Batch

ENDED = ("completed", "failed", "expired", "cancelled")
AGAIN = (401, 402, 403, 404, 408, 409, 425, 429)  # and 5xx: the same request may be answered later


def lines(paths: list[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of JSON files with the name of the file."""
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            yield path.name, json.loads(line)


def is_answer(line: dict[str, Any]) -> bool:
    """Say whether a line answers its request for good."""
    status = (line.get("response") or {}).get("status_code", 0)
    return "text" in line or (200 <= status < 500 and status not in AGAIN)


def collect(client: OpenAI, folder: Path, batch: Batch) -> None:
    """Store the answers of a batch that has ended, once."""
    path = folder / f"answers-{batch.id}.jsonl"
    if path.exists():
        return
    files = [file for file in (batch.output_file_id, batch.error_file_id) if file]
    content = b"".join(client.files.content(file).content.rstrip() + b"\n" for file in files)
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)
    print(f"batch {batch.id} {batch.status}: {content.count(b'custom_id')} lines in {path}")


def main(folder: Path) -> None:
    """Collect, then submit."""
    client = OpenAI()
    name = json.loads((folder / "folder.json").read_text("utf-8"))["id"]
    batches = [batch for batch in client.batches.list(limit=100) if (batch.metadata or {}).get("folder") == name]
    running = [batch for batch in batches if batch.status not in ENDED]
    for batch in batches:
        if batch.status in ENDED:
            collect(client, folder, batch)
    for batch in running:
        print(f"batch {batch.id} is {batch.status}")
    under_way = {(batch.metadata or {}).get("requests") for batch in running}
    answered = {line["custom_id"] for _, line in lines(sorted(folder.glob("answers*.jsonl"))) if is_answer(line)}
    waiting: dict[str, list[str]] = {}
    for file, line in lines(sorted(folder.glob("requests-[0-9]*.jsonl"))):
        if line["custom_id"] not in answered:
            waiting.setdefault(file, []).append(json.dumps(line))
    for file, requests in waiting.items():
        if file not in under_way:
            upload = client.files.create(file=(file, "\n".join(requests).encode()), purpose="batch")
            batch = client.batches.create(
                input_file_id=upload.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"folder": name, "requests": file},
            )
            print(f"submitted batch {batch.id} with {len(requests)} requests of {file}")
    if not waiting:
        print("nothing waits")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
