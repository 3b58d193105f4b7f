"""Whoever answers the requests of a folder: a toy model, in the formats in which others write answers."""

import json

from toy_server import MODEL, OPENAI, ToyServer


def requests(folder):
    """All requests in the files of a folder."""
    paths = sorted(folder.glob("requests-[0-9]*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def vllm(request, body, status=200):
    """A line as `vllm run-batch` writes it."""
    number, error = request["custom_id"][:8], None
    if status != 200:
        error = {"message": body, "type": "BadRequestError", "param": None, "code": status}
        body, error = None, {"error": error}
    elif body is not None:
        kind = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1}
        body = {**kind, "model": MODEL, **body}
    response = {"status_code": status, "request_id": f"vllm-batch-{number}", "body": body}
    line = {"id": f"vllm-{number}", "custom_id": request["custom_id"]}
    return {**line, "response": response, "error": error}


def answered(folder, quirks=OPENAI):
    """A line for each request, as `vllm run-batch` writes it, by the toy model; in reverse order."""
    model = ToyServer(quirks)
    return [vllm(request, model._chat(request["body"])) for request in reversed(requests(folder))]


def short(line):
    """A line in the short form."""
    texts = [choice["message"]["content"] for choice in line["response"]["body"]["choices"]]
    return {"custom_id": line["custom_id"], "text": texts[0] if len(texts) == 1 else texts}


def put(folder, lines, name="answers.jsonl"):
    """Put answers into a folder; a line is a dict or a text."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / name).write_text("".join(text + "\n" for text in texts))
